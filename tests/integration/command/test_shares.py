#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shares and caps hold in real programs, with the daemon and without.

Owns: whatever measures; it runs alone. Never: a limit of memory (test_limits.py).
"""
import json
import os
import signal
import time
from pathlib import Path

import sums
from burn import Tenants, lines_of
from place import wait_until
from tap import equal, main, test


def kernels_between(lines, begin_ns, end_ns):
    return sum(line["kernels"] for line in lines
               if line["event"] == "window" and begin_ns <= line["start_ns"] < end_ns)


@test
def shares_are_as_asked():
    percents = (50, 30, 20)
    with Tenants() as place:
        start = str(time.monotonic_ns() + 2 * 10**9)
        processes = [place.start_burn(["-c", str(percent)], "--seconds", "7", "--windows", "100", "--start-ns", start)
                     for percent in percents]
        runs = [lines_of(process) for process in processes]
        begin = int(start) + 10**9
        counts = [kernels_between(lines, begin, begin + 5 * 10**9) for lines in runs]
        shares = [100 * count / sum(counts) for count in counts]
        print("# shares over 5 s:", *(f"{share:.1f}" for share in shares))
        for share, percent in zip(shares, percents):
            equal(abs(share - percent) < 4, True, f"share {share:.1f} near {percent}")


@test
def published_time_is_never_more_than_passed():
    with Tenants() as place:
        for kernel in ("1", "20"):  # in thousandths of a second, about
            begun_ns = time.monotonic_ns()
            start = str(begun_ns + 10**9)
            steps = str(int(place.steps) * int(kernel))
            processes = [place.start("run", "-c", str(percent), "--report", f"{percent}.json", "--", place.burn, "--steps",
                                     steps, "--seconds", "4", "--start-ns", start) for percent in (50, 30, 20)]
            looks = sums.watch(place, processes)
            for process in processes:
                lines_of(process)
            part = sums.check(looks)
            # Most of the time somebody was at work: what is published says so.
            equal(part > 0.6, True, f"{part:.2f} of the time is published")
            sums.check_reports([json.loads(place.read(f"{percent}.json")) for percent in (50, 30, 20)], int(start),
                               time.monotonic_ns())


@test
def published_time_goes_on_with_the_next_daemon():
    with Tenants() as place:
        start = str(time.monotonic_ns() + 10**9)
        processes = [place.start("run", "-c", "50", "--name", name, "--", place.burn, "--steps", place.steps, "--seconds",
                                 "6", "--start-ns", start) for name in ("a", "b")]
        looks = sums.watch(place, processes, 12)
        place.kill_daemon()
        time.sleep(1)
        equal(sorted(place.names()), ["a", "b"], "vGPUs of the next daemon")
        looks += sums.watch(place, processes)
        for process in processes:
            lines_of(process)
        part = sums.check(looks)
        equal(part > 0.6, True, f"{part:.2f} of the time is published")


@test
def a_cap_holds_alone():
    with Tenants() as place:
        free = lines_of(place.start_burn([], "--seconds", "2"))[-1]["kernels"]
        capped = lines_of(place.start_burn(["-c", "30:30"], "--seconds", "2"))[-1]["kernels"]
        print(f"# {capped} of {free} kernels")
        # Whatever else this machine does takes from either run, so the lower bound only tells a cap from a stop.
        equal(0.08 < capped / free < 0.45, True, f"{capped} of {free} kernels under a cap of 30 %")


@test
def without_a_daemon_tenants_keep_to_their_guarantee():
    with Tenants() as place:
        free = lines_of(place.start_burn([], "--seconds", "2"))[-1]["kernels"] / 2
        process = place.start_burn(["-m", "64M", "-c", "25"], "--seconds", "7", "--windows", "100", "--grab")
        wait_until(lambda: place.names(), "the tenant's vGPU")
        time.sleep(2.5)
        place.kill_daemon()
        killed_ns = time.monotonic_ns()
        lines = lines_of(process)
        begin = killed_ns + 10**9
        seconds = (lines[-1]["end_ns"] - begin) / 1e9 - 0.2
        rate = kernels_between(lines, begin, lines[-1]["end_ns"]) / seconds
        print(f"# {100 * rate / free:.1f} % of the speed alone, guaranteed 25 %")
        # The lower bound tells a guarantee from a stop; the machine may have been busier than while the tenant was alone.
        equal(0.04 < rate / free < 0.40, True, f"{rate / free:.3f} of the speed alone")
        equal(place.names(), [], "vGPUs after the run")


def stop(process, seconds):
    """Stops the command of a `facet run`; returns when it went on."""
    command = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    os.kill(command, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(command, signal.SIGCONT)
    return time.monotonic_ns()


@test
def who_was_stopped_has_its_turn_again():
    with Tenants() as place:
        start = time.monotonic_ns() + 2 * 10**9
        processes = [place.start_burn(["-c", "50"], "--seconds", "11", "--windows", "100", "--start-ns", str(start))
                     for _ in range(2)]
        time.sleep((start - time.monotonic_ns()) / 1e9 + 1)
        went_on = []
        for process in processes:  # its driver is in the program, and was stopped with it
            went_on.append(stop(process, 2.5))
            time.sleep(2)
        runs = [lines_of(process) for process in processes]
        for index, begin in enumerate(went_on):
            counts = [kernels_between(lines, begin, begin + 2 * 10**9) for lines in runs]
            share = 100 * counts[index] / sum(counts)
            print(f"# {share:.1f} % in 2 s after the stop")
            equal(share > 35, True, f"share {share:.1f} of 50 after the stop")


main()
