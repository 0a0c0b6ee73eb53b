#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The shares of an NVIDIA GPU that programs get by `facet run`, with its daemon and without, over the fake driver.

Owns: all tests that measure shares, of a fake device that no other test uses. Never: tests a limit of memory
(test_cuda.py).
"""
import json
import time

import sums
from cuda import TENANT, CudaPlace
from place import wait_until
from tap import equal, main, test


MS = 10**6


def kernels_of(process):
    output, errors = process.communicate(timeout=120)
    equal(process.returncode, 0, errors)
    return json.loads(output)


def start_spin(place, options, start_ns, seconds=4, kernel_us="1000"):
    """Starts kernels of `kernel_us` in a vGPU, from `start_ns` on, with at most 8 in flight. The program prints how
    many kernels have ended in each bin of 100 ms."""
    return place.start("run", *options, "--", TENANT, "spin", str(seconds), kernel_us, "1000", "8", str(start_ns))


@test
def a_cap_holds_alone_and_shares_beside_others():
    with CudaPlace() as place:
        start_ns = time.monotonic_ns() + 10**9
        alone = kernels_of(start_spin(place, ["-d", "cuda:0", "-c", "25:25"], start_ns))
        share = sum(alone["bins"][10:]) / 3000  # without the first of four seconds; 3000 kernels of 1 ms fit in three
        print(f"# {100 * share:.1f} % under a cap of 25 %")
        # Other load on this machine reduces the share, so the lower bound only shows that the program was not stopped.
        equal(0.08 < share < 0.30, True, f"{share} of the device under a cap of 25 %")
        start_ns = time.monotonic_ns() + 2 * 10**9
        pair = [start_spin(place, ["-d", "cuda:0", "-c", percent], start_ns) for percent in ("75", "25")]
        counts = [sum(kernels_of(process)["bins"][10:]) for process in pair]
        part = counts[1] / sum(counts)
        print(f"# {100 * part:.1f} % of what both got, guaranteed 25 %")
        equal(0.15 < part < 0.35, True, f"{counts} of 75 and 25 %")


@test
def published_time_is_never_more_than_passed():
    with CudaPlace() as place:
        start_ns = time.monotonic_ns() + 10**9
        options = [["-d", "cuda:0", "-c", percent, "--report", f"{percent}.json"] for percent in ("50", "30", "20")]
        processes = [start_spin(place, option, start_ns) for option in options]
        readings = sums.take_readings(place, processes)
        kernels = sum(kernels_of(process)["kernels"] for process in processes)
        ended_ns = time.monotonic_ns()
        measured = sums.Measured([(number * MS, (number + 1) * MS) for number in range(kernels)])  # one after the other
        sums.check(readings)
        sums.check_reports([json.loads(place.read(option[-1])) for option in options], measured, readings, start_ns,
                           ended_ns)


@test
def programs_that_overlap_without_a_daemon_report_no_more_than_passed():
    with CudaPlace() as place:
        begun_ns = time.monotonic_ns()
        options = [["-d", "cuda:0", "--mode", "shared", "--name", name, "--report", f"{name}.json"] for name in "ab"]
        processes = [start_spin(place, option, begun_ns + 10**9, 5, "20000") for option in options]
        wait_until(lambda: len(place.names()) == 2, "their vGPUs")
        place.kill_daemon()
        for process in processes:
            kernels_of(process)
        passed = time.monotonic_ns() - begun_ns
        each = [json.loads(place.read(option[-1]))["device_time_ns"] for option in options]
        print("# reports:", *(f"{100 * one / passed:.1f} %" for one in each), "of the time")
        equal(sum(each) <= passed, True, f"{each} ns of {passed} ns")
        equal(4 * min(each) > max(each), True, f"both worked all the time, and had {each} ns")


@test
def launches_go_on_while_the_daemon_is_away():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "4G", "-c", "25:25")
        start_ns = time.monotonic_ns() + 10**9
        process = start_spin(place, ["--vgpu", "a"], start_ns, 6)
        wait_until(lambda: time.monotonic_ns() > start_ns + 2 * 10**9, "two seconds of launches")
        place.kill_daemon()
        bins = kernels_of(process)["bins"]
        without = sum(bins[40:60]) / 2000  # in the last two of six seconds, in which 2000 kernels of 1 ms fit
        print(f"# {100 * without:.1f} % without a daemon, guaranteed 25 %")
        equal(0.04 < without < 0.40, True, f"{without} of the device")
        equal(place.names(), ["a"], "vGPUs of the next daemon")


main()
