#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Memory quotas and freezes hold in real programs, also when a tenant or the daemon is killed."""
import json
import os
import signal
import time

from burn import Tenants, lines_of
from place import wait_until
from tap import equal, main, test

MIB = 1 << 20


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
        print(f"# back after {1000 * (time.monotonic() - died):.0f} ms, including the commands that measured it")
        equal(process.wait(timeout=30), 128 + signal.SIGKILL)
        process.communicate()


@test
def a_new_daemon_adopts_running_tenants():
    with Tenants() as place:
        place.facet("vgpu", "create", "--name", "a", "-m", "64M", "-c", "25")
        process = place.start("run", "--vgpu", "a", "--", place.burn, "--seconds", "6", "--memory", "32M")
        used = lambda: place.json("vgpu", "show", "a", "--json")["memory_used_bytes"]
        wait_until(lambda: used() > 31 * MIB, "the tenant holds its memory")
        place.kill_daemon()
        shown = place.json("vgpu", "show", "a", "--json")
        equal(shown["memory_used_bytes"] > 31 * MIB, True, "memory is known to the new daemon")
        equal(shown["processes"], 1)
        most = 0
        while most <= 500 and process.poll() is None:
            time.sleep(0.1)
            most = max(most, place.json("vgpu", "show", "a", "--json").get("share_milli", 0))
        equal(most > 500, True, f"the share of the tenant that is alone again: {most} at most")
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
