#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shares and caps hold in real programs, with the daemon and without.

Owns: all tests that measure shares of an OpenCL device; no other test runs at the same time.
Never: tests a limit of memory (test_limits.py).
"""
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sums
from burn import Tenants, lines_of
from place import wait_until
from tap import equal, main, test

# On a busy machine a program that is not scheduled in its turn gets less in that round. A faulty scheduler fails in
# each round.
ROUNDS = 4


def sum_between(lines, member, begin_ns, end_ns):
    return sum(line[member] for line in lines
               if line["event"] == "window" and begin_ns <= line["start_ns"] and line["end_ns"] <= end_ns)


def kernels_between(lines, begin_ns, end_ns):
    return sum_between(lines, "kernels", begin_ns, end_ns)


def start_reading(processes):
    """Futures of the processes' output. A pipe holds less than the whole output, so an unread process would not end."""
    pool = ThreadPoolExecutor(len(processes))
    return [pool.submit(lines_of, process) for process in processes]


def wait_for_end(runs):
    """Waits until all programs have ended; returns the time when they had, and their measurements of their kernels."""
    spans = [span for lines in runs for line in lines.result() if line["event"] == "device" for span in line["spans"]]
    return time.monotonic_ns(), sums.Measured(spans)


def shares_of(place, percents):
    """Each tenant's part of the device time while all of them ran, in percent; `percents` are their guarantees."""
    start = str(time.monotonic_ns() + 2 * 10**9)
    processes = [place.start_burn(["-c", str(percent)], "--seconds", "7", "--windows", "100", "--device-time", "--start-ns",
                                  start) for percent in percents]
    runs = [lines.result() for lines in start_reading(processes)]
    begin, end = max(lines[-1]["begin_ns"] for lines in runs) + 10**9, min(lines[-1]["end_ns"] for lines in runs)
    got = [sum_between(lines, "device_ns", begin, end) for lines in runs]
    shares = [100 * one / max(sum(got), 1) for one in got]
    print(f"# shares over {(end - begin) / 1e9:.1f} s:", *(f"{share:.1f}" for share in shares))
    return shares


@test
def shares_follow_the_guarantees():
    percents = (50, 30, 20)
    with Tenants() as place:
        for _ in range(ROUNDS):
            shares = shares_of(place, percents)
            if all(abs(share - percent) < 4 for share, percent in zip(shares, percents)):
                return
    raise AssertionError(f"{ROUNDS} rounds, none with shares near {percents}")


@test
def published_time_is_never_more_than_passed():
    with Tenants() as place:
        for kernel in ("1", "20"):  # a kernel's approximate duration in ms
            begun_ns = time.monotonic_ns()
            start = str(begun_ns + 10**9)
            steps = str(int(place.steps) * int(kernel))
            processes = [place.start("run", "-c", str(percent), "--report", f"{percent}.json", "--", place.burn, "--steps",
                                     steps, "--seconds", "4", "--start-ns", start, "--device-time") for percent in (50, 30, 20)]
            runs = start_reading(processes)
            readings = sums.take_readings(place, processes)
            ended_ns, measured = wait_for_end(runs)
            sums.check(readings)
            sums.check_reports([json.loads(place.read(f"{percent}.json")) for percent in (50, 30, 20)], measured, readings,
                               int(start), ended_ns)


def outlive_a_daemon(place, seconds):
    """Whether two programs that began under one daemon were still running when the next daemon answered."""
    start = time.monotonic_ns() + 10**9
    processes = [place.start("run", "-c", "50", "--name", name, "--report", f"{name}.json", "--", place.burn, "--steps",
                             place.steps, "--seconds", str(seconds), "--start-ns", str(start), "--device-time")
                 for name in ("a", "b")]
    runs = start_reading(processes)
    readings = sums.take_readings(place, processes, 12)
    time.sleep(max(start + 10**9 - time.monotonic_ns(), 0) / 1e9)
    readings += sums.take_readings(place, processes, 12)
    place.kill_daemon()
    time.sleep(1)
    names = place.names()
    if time.monotonic_ns() > start + seconds * 10**9:
        wait_for_end(runs)
        return False
    equal(sorted(names), ["a", "b"], "vGPUs of the next daemon")
    readings += sums.take_readings(place, processes)
    ended_ns, measured = wait_for_end(runs)
    sums.check(readings)
    sums.check_reports([json.loads(place.read(f"{name}.json")) for name in ("a", "b")], measured, readings, start, ended_ns,
                       arbiter=False)
    return True


@test
def published_time_goes_on_with_the_next_daemon():
    with Tenants() as place:
        # The programs run for 6 s, and twice as long in each further round: the next daemon may start slowly.
        answered = any(outlive_a_daemon(place, 6 << number) for number in range(ROUNDS))
        equal(answered, True, "the next daemon answered while the programs ran")


@test
def a_cap_holds_alone():
    with Tenants() as place:
        done = lines_of(place.start_burn(["-c", "30:30"], "--seconds", "2", "--device-time"))[-1]
        part = done["device_ns"] / (done["end_ns"] - done["begin_ns"])
        print(f"# {100 * part:.1f} % of the time under a cap of 30 %")
        # A busy machine can only reduce the share, so the lower bound only shows that the program was not stopped.
        equal(0.05 < part < 0.35, True, f"{part:.3f} of the time on the device")


@test
def without_a_daemon_tenants_keep_to_their_guarantee():
    with Tenants() as place:
        process = place.start_burn(["-m", "64M", "-c", "25"], "--seconds", "7", "--windows", "100",
                                    "--device-time", "--grab")
        wait_until(lambda: place.names(), "the tenant's vGPU")
        time.sleep(2.5)
        place.kill_daemon()
        killed_ns = time.monotonic_ns()
        lines = lines_of(process)
        begin = killed_ns + 10**9
        part = sum_between(lines, "device_ns", begin, lines[-1]["end_ns"]) / (lines[-1]["end_ns"] - begin)
        print(f"# {100 * part:.1f} % of the time, guaranteed 25 %")
        # The lower bound shows that the program was not stopped.
        equal(0.01 < part < 0.35, True, f"{part:.3f} of the time on the device")
        equal(place.names(), [], "vGPUs after the run")


def stop(process, seconds):
    """Stops the command of a `facet run` for `seconds`; returns the time when it continued."""
    command = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    os.kill(command, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(command, signal.SIGCONT)
    return time.monotonic_ns()


@test
def a_program_that_was_stopped_has_its_turn_again():
    with Tenants() as place:
        start = time.monotonic_ns() + 2 * 10**9
        processes = [place.start_burn(["-c", "50"], "--seconds", "11", "--windows", "100", "--start-ns", str(start))
                     for _ in range(2)]
        time.sleep((start - time.monotonic_ns()) / 1e9 + 1)
        went_on = []
        for process in processes:  # the OpenCL driver is in the stopped program, and is stopped with it
            went_on.append(stop(process, 2.5))
            time.sleep(2)
        runs = [lines_of(process) for process in processes]
        for index, begin in enumerate(went_on):
            counts = [kernels_between(lines, begin, begin + 2 * 10**9) for lines in runs]
            share = 100 * counts[index] / sum(counts)
            print(f"# {share:.1f} % in 2 s after the stop")
            equal(share > 35, True, f"share {share:.1f} of 50 after the stop")


main()
