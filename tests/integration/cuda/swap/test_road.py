# SPDX-License-Identifier: Apache-2.0
"""The whole path of `facet run --oversubscribe`: through the real daemon, with the provider over the fake driver.

Owns: the proof that two programs that do not fit the device together both run with the option, and that the second is
refused memory without the option. Never: decides by time.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../command"))

from place import Place, wait_until
from tap import contains, equal, main, test

TENANT = os.environ["FACET_TEST_CUDA_SWAP_TENANT"]
NO_MEMORY = 3  # the program's exit status when the driver refuses a call


def set_machine(place):
    place.env.update(LD_LIBRARY_PATH=os.environ["FACET_TEST_CUDA_FAKE"], FAKE_CUDA_STATE=place.path("machine"),
                     FAKE_CUDA_MEMORY="64M", FAKE_CUDA_CONTEXT="1M", FAKE_CUDA_COPY="2G")


def start_tenant(place, *options, launches="3000"):
    return place.start("run", "-d", "cuda:0", "-m", "64M", *options, "--", TENANT, "40", launches, "add_words_200us")


@test
def two_oversubscribed_programs_that_do_not_fit_together_both_run():
    with Place(real=True) as place:
        set_machine(place)
        running = [start_tenant(place, "--oversubscribe", "--name", name) for name in ("one", "other")]
        wait_until(lambda: len(place.json("vgpu", "list", "--json")["vgpus"]) == 2, "both vGPUs exist")
        equal(place.json("vgpu", "show", "one", "--json")["oversubscribe"], True)
        for process in running:
            output, errors = process.communicate(timeout=120)
            equal(process.returncode, 0, errors)
            equal(json.loads(output)["wrong"], 0)


@test
def without_oversubscription_the_second_program_is_refused_memory():
    with Place(real=True) as place:
        set_machine(place)
        first = start_tenant(place, "--name", "one", launches="100000")
        wait_until(lambda: place.facet("vgpu", "show", "one").returncode == 0 and
                   place.json("vgpu", "show", "one", "--json").get("memory_used_bytes", 0) >= 40 << 20,
                   "the first program holds 40 MiB")
        second = start_tenant(place)
        second.communicate(timeout=120)
        equal(second.returncode, NO_MEMORY)
        first.terminate()
        first.communicate(timeout=120)


@test
def creating_a_vgpu_that_others_make_no_room_for_prints_a_warning():
    with Place(real=True) as place:
        set_machine(place)
        equal(place.facet("vgpu", "create", "--name", "one", "-d", "cuda:0", "-m", "48M", "--oversubscribe").stderr, "")
        equal(place.facet("vgpu", "create", "--name", "two", "-d", "cuda:0", "-m", "8M").stderr, "",
              "a warning although all vGPUs fit")
        contains(place.facet("vgpu", "create", "--name", "three", "-d", "cuda:0", "-m", "32M").stderr,
                 "make room for each other, not for this one")


@test
def oversubscription_is_refused_in_mode_shared():
    with Place(real=True) as place:
        set_machine(place)
        for arguments in (["vgpu", "create"], ["run"]):
            done = place.facet(*arguments, "--mode", "shared", "--oversubscribe", *(["true"] if arguments == ["run"] else []))
            equal((done.returncode, done.stdout), (2, ""), done.stderr)
            contains(done.stderr, "mode 'shared' holds no quota that could be above the device; use soft")


@test
def oversubscription_is_refused_on_a_device_that_cannot_swap():
    with Place(real=True) as place:
        set_machine(place)
        done = place.facet("run", "-d", "opencl:0", "--oversubscribe", "true")
        equal(done.returncode, 1)
        contains(done.stderr, "only memory of NVIDIA GPUs can be swapped")


main()
