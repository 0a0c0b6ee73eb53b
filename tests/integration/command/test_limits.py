#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Limits hold in real programs: memory to the byte, shares, caps; and through kill -9 of tenant and daemon."""
import json
import os
import signal
import time

from place import wait_until
from real import BURN, Real, needs
from tap import equal, main, test

MIB = 1 << 20


class Tenants(Real):
    def __init__(self):
        super().__init__()
        self.burn = needs(BURN)
        lines = self.facet_outside("--seconds", "0.1", "--kernel-us", "1000")
        self.steps = str(lines[-1]["steps"])

    def facet_outside(self, *arguments):
        import subprocess
        done = subprocess.run([self.burn, *arguments], env=self.env, capture_output=True, text=True, timeout=120,
                              check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start_burn(self, options, *arguments):
        return self.start("run", *options, "--", self.burn, "--steps", self.steps, *arguments)


def lines_of(process):
    output, errors = process.communicate(timeout=120)
    if process.returncode:
        raise AssertionError(f"{process.args} returned {process.returncode}: {errors}{output}")
    return [json.loads(line) for line in output.splitlines()]


def kernels_between(lines, begin_ns, end_ns):
    return sum(line["kernels"] for line in lines
               if line["event"] == "window" and begin_ns <= line["start_ns"] < end_ns)


@test
def a_program_that_grabs_gets_its_quota_and_no_more():
    with Tenants() as place:
        done = place.facet("run", "-m", "64M", "--report", "use.json", "--", place.burn, "--seconds", "0.2", "--grab",
                           "--memory", "1M")
        equal(done.returncode, 0, done.stderr + done.stdout)
        report = json.loads(place.read("use.json"))
        equal(report["memory_peak_bytes"] <= 64 * MIB, True, f"peak {report['memory_peak_bytes']} within the quota")
        equal(report["memory_peak_bytes"] > 63 * MIB, True, f"peak {report['memory_peak_bytes']} near the quota")
        equal(report["denied_allocations"] >= 1, True, "refusals")


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
def a_cap_holds_alone():
    with Tenants() as place:
        free = lines_of(place.start_burn([], "--seconds", "2"))[-1]["kernels"]
        capped = lines_of(place.start_burn(["-c", "30:30"], "--seconds", "2"))[-1]["kernels"]
        print(f"# {capped} of {free} kernels")
        # Whatever else this machine does takes from either run, so the lower bound only tells a cap from a stop.
        equal(0.08 < capped / free < 0.45, True, f"{capped} of {free} kernels under a cap of 30 %")


@test
def a_killed_tenant_gives_its_memory_back():
    with Tenants() as place:
        place.facet("vgpu", "create", "--name", "a", "-m", "128M")
        process = place.start("run", "--vgpu", "a", "--", "sh", "-c", 'echo $$ >pid; exec "$0" "$@"', place.burn,
                              "--seconds", "60", "--memory", "100M")
        used = lambda: place.json("vgpu", "show", "a", "--json")["memory_used_bytes"]
        wait_until(lambda: used() > 99 * MIB, "the tenant holds its memory")
        os.kill(int(place.read("pid")), signal.SIGKILL)
        died = time.monotonic()
        wait_until(lambda: used() == 0, "the memory is back")
        print(f"# back after {1000 * (time.monotonic() - died):.0f} ms, the two commands that looked included")
        equal(process.wait(timeout=30), 137)
        process.communicate()


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


@test
def a_new_daemon_adopts_running_tenants():
    with Tenants() as place:
        place.facet("vgpu", "create", "--name", "a", "-m", "64M", "-c", "25")
        process = place.start("run", "--vgpu", "a", "--", place.burn, "--seconds", "6", "--memory", "32M")
        used = lambda: place.json("vgpu", "show", "a", "--json")["memory_used_bytes"]
        wait_until(lambda: used() > 31 * MIB, "the tenant holds its memory")
        place.kill_daemon()
        time.sleep(1)
        shown = place.json("vgpu", "show", "a", "--json")
        equal(shown["memory_used_bytes"] > 31 * MIB, True, "memory is known to the new daemon")
        equal(shown["processes"], 1)
        time.sleep(1.5)
        alone = place.json("vgpu", "show", "a", "--json")
        equal(alone["share_milli"] > 500, True, f"alone it has the device again: {alone['share_milli']}")
        lines_of(process)


@test
def frozen_tenants_stop_and_go_on():
    with Tenants() as place:
        place.facet("vgpu", "create", "--name", "a")
        process = place.start("run", "--vgpu", "a", "--", place.burn, "--seconds", "6")
        launches = lambda: place.json("vgpu", "show", "a", "--json")["launches"]
        wait_until(lambda: launches() > 10, "the tenant launches")
        place.facet("vgpu", "freeze", "a")
        time.sleep(0.3)
        frozen = launches()
        time.sleep(0.7)
        equal(launches(), frozen, "launches while frozen")
        place.facet("vgpu", "resume", "a")
        wait_until(lambda: launches() > frozen + 10, "the tenant goes on")
        lines_of(process)


@test
def a_tenant_of_a_destroyed_vgpu_is_refused():
    with Tenants() as place:
        place.facet("vgpu", "create", "--name", "a")
        process = place.start("run", "--vgpu", "a", "--", place.burn, "--seconds", "30")
        launches = lambda: place.json("vgpu", "show", "a", "--json")["launches"]
        wait_until(lambda: launches() > 10, "the tenant launches")
        equal(place.facet("vgpu", "destroy", "--force", "a").returncode, 0)
        output, errors = process.communicate(timeout=30)
        equal(process.returncode != 0, True, f"the program failed: {output[-200:]}{errors[-200:]}")


main()
