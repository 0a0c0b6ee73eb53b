#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The command's messages about faults of a simulated machine.

Owns: messages about faults that a healthy device never has. Never: asserts how long anything takes.
"""
import contextlib
import json
import os
import sqlite3

from place import BUILD, SOURCE
from real import Real
from tap import Skip, contains, equal, main, test

PROVIDER = os.path.join(BUILD, "facet-provider-sim.so")


class Simulated(Real):
    """A simulated machine. `blocked` is an operation of its provider that never returns."""

    def __init__(self, blocked=None):
        if not os.path.exists(PROVIDER):
            raise Skip("the simulated provider is not built")
        self.prepared = False
        self.blocked = blocked
        super().__init__()

    def facet(self, *arguments, **options):
        if not self.prepared:  # the base class's constructor already runs a command
            self.prepared = True
            self.env.update(FACET_PROVIDER_PATH=PROVIDER, FACET_SIM_STATE=self.path("machine"),
                            FACET_SIM_FAULTS=self.path("faults.json"),
                            FACET_SIM_PROFILE=os.path.join(SOURCE, "providers", "sim", "profiles", "h100.json"))
            os.mkdir(self.path("machine"))
            fault = {"at_ns": 0, "device": 0, "kind": "block", "operation": self.blocked}
            self.write("faults.json", json.dumps({"faults": [fault] if self.blocked else []}))
        return super().facet(*arguments, **options)


@test
def a_provider_that_blocks_is_named_and_not_the_daemon():
    with Simulated(blocked="partition.create") as place:
        done = place.facet("vgpu", "create", "--mode", "partitioned", "--template", "1g.10gb")
        equal(done.returncode, 1, done.stderr)
        contains(done.stderr, "gave no answer to partition.create")
        contains(done.stderr, "try in a moment")
        equal("daemon" in done.stderr, False, done.stderr)


@test
def a_half_made_vgpu_has_no_amounts():
    with Simulated() as place:
        equal(place.facet("vgpu", "create", "--mode", "partitioned", "--template", "1g.10gb", "--name", "p").returncode, 0)
        place.kill_daemon()
        # The state of a daemon that was killed after it stored the vGPU and before it made the partition.
        with contextlib.closing(sqlite3.connect(place.path("state/facet.db"))) as database:
            database.execute("UPDATE vgpu SET state = 1, partition_uuid = '', memory_limit_bytes = ?, device_uuid = 'gone'",
                             [1 << 62])
            database.commit()
        line = place.facet("vgpu", "list").stdout.splitlines()[1].split()
        equal((line[3], line[-2]), ("removing", "-"))
        equal("memory_limit_bytes" in place.json("vgpu", "show", "p", "--json"), False)


@test
def free_places_that_cannot_be_read_are_unknown():
    with Simulated() as place:
        equal(place.facet("vgpu", "create", "--mode", "partitioned", "--template", "1g.10gb").returncode, 0)
        contains(place.facet("devices", "sim:0").stdout, "FREE AT")
        for name in os.listdir(place.path("machine")):
            place.write(os.path.join("machine", name), "not a record of anything")
        shown = place.facet("devices", "sim:0").stdout
        rows = [line.split() for line in shown.splitlines() if line.startswith("1g.10gb ")]
        equal([row[-1] for row in rows], ["unknown"], shown)
        contains(shown, "trouble")


@test
def a_removal_reports_a_part_that_the_provider_lost():
    with Simulated() as place:
        equal(place.facet("vgpu", "create", "--mode", "partitioned", "--template", "1g.10gb", "--name", "a").returncode, 0)
        for name in os.listdir(place.path("machine")):
            os.unlink(place.path(os.path.join("machine", name)))
        done = place.facet("vgpu", "destroy", "a")
        equal(done.returncode, 0, done.stderr)
        contains(done.stderr, "warning: vGPU a: the provider had lost its part before")


main()
