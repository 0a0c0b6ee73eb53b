#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A device that runs kernels but takes no programs is shown, and is never the default device.

Owns: the rule that a device without an isolation mode is not for programs. Never: runs a kernel.
"""
import json
import os

from place import BUILD, SOURCE, provider_processes, wait_until
from real import Real
from tap import contains, equal, main, test

SIMULATED = os.path.join(BUILD, "facet-provider-sim.so")
KERNELS = os.path.join(os.environ["FACET_TEST_FIXTURES"], "command_kernels_only.so")


class Machine(Real):
    """A machine with the devices of `providers`. Its constructor already lists the devices."""

    def __init__(self, *providers):
        self.providers = providers
        super().__init__()

    def facet(self, *arguments, **options):
        self.env.update(FACET_PROVIDER_PATH=":".join(self.providers),
                        FACET_SIM_PROFILE=os.path.join(SOURCE, "providers", "sim", "profiles", "h100.json"),
                        FACET_SIM_STATE=self.path("machine"))
        os.makedirs(self.path("machine"), exist_ok=True)
        return super().facet(*arguments, **options)


def refusal(place, *arguments):
    done = place.facet(*arguments)
    equal(done.returncode, 1, done.stderr)
    return done.stderr


@test
def a_kernels_only_device_is_listed_last():
    with Machine(KERNELS, SIMULATED) as place:
        equal([device["id"] for device in place.json("devices", "--json")["devices"]],
              ["sim:0", "kernels:0", "kernels:1"])
        rows = place.facet("devices").stdout.splitlines()
        equal([row.split()[0] for row in rows[1:]], ["sim:0", "kernels:0", "kernels:1"])
        contains(rows[2], "kernels only")


@test
def the_default_device_takes_programs():
    with Machine(KERNELS, SIMULATED) as place:
        equal(place.json("vgpu", "create", "--json")["device"], "sim:0")
        equal(place.json("vgpu", "create", "-d", "0", "--json")["device"], "sim:0")


@test
def refusals_of_programs_say_what_to_do():
    with Machine(KERNELS, SIMULATED) as place:
        for arguments in (["run", "-d", "kernels:0", "--", "true"], ["run", "-d", "1", "-m", "50%", "--", "true"],
                          ["vgpu", "create", "-d", "kernels-0"], ["vgpu", "create", "-d", "kernels:0", "--mode", "shared"]):
            said = refusal(place, *arguments)
            contains(said, "device kernels:0 runs kernels only, with 'facet kernel run -d kernels:0'")
            contains(said, "use another device")
        equal(place.names(), [])


def provider_files(place):
    """The files of the providers that the daemon runs."""
    found = set()
    for pid in provider_processes(place.daemon_pid()):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                found |= {word for word in file.read().split("\0") if word in place.providers}
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@test
def the_daemon_keeps_no_process_for_a_kernels_only_device():
    with Machine(KERNELS, SIMULATED) as place:
        equal(place.facet("vgpu", "create").returncode, 0)
        wait_until(lambda: SIMULATED in provider_files(place), "the daemon watches what programs run on")
        equal(provider_files(place), {SIMULATED})


@test
def a_reservation_of_a_kernels_only_device_has_nothing_to_render():
    with Machine(KERNELS, SIMULATED) as place:
        slot = next(spec["slot_name"] for spec in place.json("spec", "show", "--json")["resource_specs"]
                    if spec["slot_name"].startswith("kernels"))
        for form in ("docker", "oci", "cdi", "environment"):
            for more in ([], ["--dry-run"]):
                done = place.facet("place", "--slot", f"{slot}=1", "--name", form, "--render", form, *more)
                equal((done.returncode, done.stdout), (1, ""), form)
                if form != "cdi":  # refused for any workload, for another reason
                    contains(done.stderr, "there is nothing to render: kernels:")
                    contains(done.stderr, "it runs kernels only, of 'facet kernel run' and the library: no program can "
                                          "enter a vGPU there")
                if not more:
                    equal(place.facet("place", "release", form).returncode, 0)
        done = place.facet("place", "--slot", f"{slot}=1", "--render", "docker", "--json")
        equal((done.returncode, json.loads(done.stdout)["state"], "rendered" in json.loads(done.stdout)), (1, "held", False))
        equal(place.facet("place", "release", json.loads(done.stdout)["id"]).returncode, 0)
        both = place.facet("place", "--slot", f"{slot}=1", "--slot", "sim.device=1", "--render", "docker")
        equal(both.returncode, 0, both.stderr)
        contains(both.stdout, "HostConfig")
        contains(both.stderr, "no program can enter a vGPU there")


@test
def a_kernels_only_device_is_shown_in_full():
    with Machine(SIMULATED, KERNELS) as place:
        shown = {line.split()[0]: line.split(None, 1)[-1] for line in place.facet("devices", "kernels:0").stdout.splitlines()
                 if line.strip()}
        equal(shown["modes"], "none: it runs kernels only")
        equal(shown["kernel_target"], "host")
        contains(shown["capabilities"], "execute, enqueue, share, record")
        device = place.json("devices", "kernels:1", "--json")
        equal((device["modes"], device["properties"]), ([], {"kernel_target": "host"}))


main()
