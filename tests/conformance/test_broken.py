#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Providers with one defect each: the conformance suite must find the defect, and name it.

Owns: the assertion that must fail for each defect. Never: accepts the failure of another assertion instead.
"""
import functools
import json
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration", "command"))
from tap import contains, equal, main, test  # noqa: E402

FACET = os.path.join(os.environ["FACET_BUILD_DIR"], "facet")
FOLDER = os.environ["FACET_TEST_BROKEN"]

DEFECTS = {
    "away_not_refused": "snapshot.snapshot: every call with a context off the device is a bad state",
    "begun_at_once": "execution.query: what is queued while paused has not begun",
    "begun_never": "execution.query: what is complete has begun",
    "bounds_above_device": "execution.set_bounds: more units than the device has are out of range",
    "bounds_of_launches_ignored": "execution.set_bounds: launches in flight stay within the bound",
    "bounds_of_units_ignored": "execution.set_bounds: the units of a launch stay within the bound",
    "busy_constant": "metrics.device: busy_ns grows with a kernel",
    "cancel_does_nothing": "execution.cancel: drops what has not begun",
    "cancel_launch_and_behind": "execution.cancel_launch: launches before and behind a cancelled one run",
    "cancel_launch_does_nothing": "execution.cancel_launch: what was cancelled never runs",
    "cancel_launch_of_any": "execution.cancel_launch: a launch that is complete is not found",
    "cancel_launch_renumbers": "execution.records: a cancelled launch has a record under its number",
    "cancel_waits": "execution.cancel: drops what has not begun",
    "cancelled_not_recorded": "execution.records: cancelled launches have records, too",
    "changes_environment": "manners: the environment is as before",
    "changes_mask": "manners: the file mask is as before",
    "claimed_but_missing": "modes: every operation behind a claimed capability is offered",
    "claimed_but_unsupported": "metrics.device: answers each of many calls",
    "clock_above_device": "metrics.device: the clock is at most the device's",
    "clock_goes_back": "metrics.device: time never goes back",
    "context_not_freed": "memory.destroy_context: frees all that the context had",
    "copy_overtakes": "execution.copy: between two launches takes what the first one wrote",
    "counter_falls": "metrics.device: counters never fall",
    "crashes": "device.health: a device that is not there is not found",
    "descriptor_inherited": "manners: descriptors that it opens are closed on exec",
    "destroys_in_use": "partition.destroy: one in use is busy",
    "double_destroy": "partition.destroy: a second time is not found",
    "events_forgotten": "device.events: reading forgets nothing, and `after` is honoured",
    "exits": "device.health: a device that is not there is not found",
    "extra_symbol": "entry: exactly one symbol is exported, facet_provider_entry",
    "fill_as_far_as_it_goes": "execution.write, copy, fill: what was refused changed nothing",
    "fill_unchecked": "execution.fill: beyond a piece is out of range",
    "free_flag_lies": "partition.placements: what is free can be created",
    "free_of_nothing": "memory.free: 0 is not found",
    "garbage_count": "device.links: gives all items",
    "handles_signals": "manners: no signal handler is installed",
    "handles_signals_by_another": "manners: no signal handler is installed",
    "hangs": "device.health: a device that is not there is not found",
    "ignores_stride": "partition.templates: a newer host's larger struct keeps its stride",
    "image_of_garbage": "execution.load: garbage is corrupt",
    "launch_not_counted": "execution.query: counts the launch and its device time",
    "launch_of_1_1": "execution.launch: as a caller of version 1.1 has it",
    "launch_of_4_dimensions": "execution.launch: 4 dimensions are out of range",
    "leaks_descriptors": "device.close: leaves no descriptor open",
    "leaks_instances": "device.close: gives its memory back",
    "leaks_threads": "device.close: leaves no thread behind",
    "limit_above_device": "limit.set_memory: more than the device has is out of range",
    "limit_not_enforced": "memory.alloc: above the worker's limit is over quota",
    "limit_of_zero": "limit.set_compute: 0 is out of range",
    "limit_per_context": "memory.alloc: two contexts of a worker share its limit",
    "limit_rounded_down": "limit.get: a limit is never rounded down",
    "limit_twice": "limit.set_memory: a second time is a bad state",
    "limits_oversubscribed": "limit.set_memory: the sum stays within the device",
    "link_backwards": "device.links: each link is well-formed, a below b",
    "math_adds_in_half": "math.run: gemm of bf16, row-major",
    "math_counted_twice": "math.run: gemm counts as one launch",
    "math_gelu_by_tanh": "math.run: activation of f32, gelu",
    "math_ignores_column_major": "math.run: gemm of f32, column-major",
    "math_ignores_dilation": "math.run: convolution of f32, with bias, groups, padding, strides and dilation",
    "math_ignores_lead": "math.run: gemm of f32, a batch with leading dimensions, added to c",
    "math_no_tensor_is_wrong": "math.run: gemm of f32, without tensor units",
    "math_not_in_order": "math.run: runs after launches queued before it, and before launches queued behind it",
    "math_of_any_type": "math.run: attention of int8 is unsupported, as it is not claimed",
    "math_of_nothing": "math.run: gemm with m 0 is out of range",
    "math_outside": "math.run: gemm with a partly outside memory is out of range",
    "math_reads_c": "math.run: gemm of f32, row-major",
    "math_record_without_name": "execution.records: gemm leaves one record, which names the operation",
    "math_sees_the_future": "math.run: attention of f32, causal",
    "math_support_of_int8": "math.support: int8 is not claimed for an operation without it",
    "math_takes_any_flag": "math.run: gemm with a flag of nothing is an invalid argument",
    "math_variance_unbiased": "math.run: normalization of f32, training",
    "memory_is_what_is_left": "device.list: what a device has does not depend on what is in use",
    "memory_not_isolated": "memory.read: another context's memory is out of range",
    "memory_used_constant": "metrics.device: memory_used_bytes grows with an allocation",
    "mode_without_capability": "modes: modes and capabilities agree",
    "modes_not_kept_apart": "modes: a limit beside partitions is refused where the two do not mix",
    "move_forgets": "memory.move: contents move with their pages, and neighbours stay",
    "move_keeps_old": "memory.move: the old pages are free",
    "move_loses_writes": "memory.move: nothing is lost that a kernel writes meanwhile",
    "move_over_others": "memory.move: to pages that are mapped elsewhere is busy",
    "name_of_process": "device.list: uuid and name are the same in another process",
    "no_mode_no_kernels": "modes: modes and capabilities agree",
    "not_thread_safe": "threads: 8 use memory of their own",
    "offset_refused": "execution.launch: of 3 dimensions, with an offset that it has or refuses",
    "overlap_smears": "memory.copy: moves what was there",
    "overlapping_partitions": "partition.create: a second partition in the same place has no space",
    "overruns_item_size": "device.list: an older host's smaller struct is not overrun",
    "partition_gives_device": "container.items: a partition has a node that the whole device's list has not",
    "partitions_share_node": "container.items: two partitions have a node of their own each",
    "pause_does_nothing": "execution.pause: nothing that is queued is done while it lasts",
    "pause_drops_queue": "execution.pause: what was queued is done afterwards, all of it",
    "pause_for_ever": "execution.synchronize: with what a pause held",
    "pause_of_all": "execution.pause: other contexts go on",
    "policy_fair_is_fifo": "execution.set_policy: fair serves the second context before the first has ended",
    "policy_fifo_is_fair": "execution.set_policy: fifo serves the first context until its queue is empty",
    "policy_priority_is_fair": "execution.set_policy: by priority, the context of higher priority goes first",
    "policy_turns_are_fifo": "execution.set_policy: in turns, the second context is served before the first has ended",
    "policy_unknown": "execution.set_policy: an unknown policy is out of range",
    "preempts_unasked": "execution.set_policy: without preemption no launch is interrupted",
    "prints": "manners: nothing is printed to standard output or standard error",
    "priority_unknown": "execution.set_priority: an unknown priority is out of range",
    "process_not_listed": "metrics.processes: lists a process with memory on the device",
    "process_without_memory": "metrics.processes: its memory is above 0 where it is measured",
    "record_groups": "execution.records: all work-groups are counted",
    "record_numbers": "execution.records: each has the next number of its stream",
    "record_of_cancelled": "execution.records: cancelled launches differ from completed ones",
    "record_of_nobody": "execution.records: each names its kernel, and ended well",
    "record_times": "execution.records: each was queued, began and ended in that order, one after the other",
    "record_without_time":
        "execution.records: each has device time, the longest work-group no more than all, and a unit",
    "records_all_again": "execution.records: only what is after `after`",
    "relative_path": "container.items: each is well-formed",
    "remap_loses_data": "memory.map: data survive the move of their pages",
    "resume_from_start": "snapshot.resume: from the file",
    "resume_only_here": "snapshot.resume: in another instance",
    "resume_takes_garbage": "snapshot.resume: garbage is corrupt",
    "share_above_whole": "metrics.device: shares are at most 1000 milli",
    "share_of_more": "execution.set_share: a weight above the whole is out of range",
    "share_of_nothing": "execution.set_share: a limit of 0 is out of range",
    "share_stops_work": "execution.synchronize: work goes on with another share",
    "shared_destroyed_by_others": "memory.destroy_pages: shared pages are their own context's to destroy",
    "shared_end_with_owner": "memory.destroy_context: a context that has its shared pages mapped keeps them",
    "shares_unasked": "memory.map: another context's pages that are not shared are not found",
    "snapshot_drops_queue": "snapshot.resume: queued work is done afterwards, all of it",
    "snapshot_loses_data": "snapshot.resume: the same bytes at the same address",
    "streams_not_thread_safe": "threads: 8 launch on streams of their own",
    "struct_of_no_size": "metrics.device: a struct of size 0 is an invalid argument",
    "synchronize_does_not_wait": "execution.synchronize: ok means that the kernel is complete",
    "template_as_uuid": "partition.create: two alike have uuids of their own",
    "timeout_of_zero_lies": "execution.synchronize: with a timeout of 0, ok only if all is complete",
    "topology_not_thread_safe": "threads: 8 read all there is to read",
    "transfer_not_complete": "execution.query: transfers that were waited for are complete, and none failed",
    "transfer_not_recorded": "execution.records: a transfer has one, without a kernel",
    "truncates_list": "partition.templates: room for one too few is too small, and nothing is written",
    "unknown_device": "device.health: a device that is not there is not found",
    "unknown_partition_parent": "partition.list: device 4294967295 is not found, also without an error struct",
    "unterminated_name": "device.list: texts are printable and terminated",
    "uuid_of_process": "device.list: uuid and name are the same in another process",
    "value_without_bit": "device.list: a field whose bit is clear is 0",
    "wait_cancelled_along": "execution.wait: launches behind a wait are not cancelled with the work that it waits for",
    "wait_does_nothing": "execution.wait: what comes behind it begins when the other stream is done",
    "wait_for_later": "execution.wait: what the other stream is given later is not waited for",
    "wait_not_counted": "execution.wait: counts as a launch of its stream",
    "works_but_not_claimed": "modes: container.items without its capability is unsupported",
    "write_borrows": "execution.write, copy, fill: in order, and what was written is as it was at the call",
    "write_to_others": "execution.write, copy, fill: another context's changed nothing",
    "writes_on_failure": "partition.create: an unknown template is not found",
    "writes_out_of_range": "memory.read: what was refused changed nothing",
    "writes_when_too_small": "partition.templates: room for one too few is too small, and nothing is written",
    "wrong_needed_count": "partition.templates: exact room is enough, and the count is the same",
    "wrong_start": "partition.create: a start that is no placement is out of range",
}


def provider(name):
    return os.path.join(FOLDER, f"broken_{name}.so")


def check(*arguments):
    return subprocess.run([FACET, "provider", "check", *arguments], capture_output=True, text=True, timeout=900,
                          check=False)


def results(name, *arguments, deadline=120):
    """Exit status and report of a check. The default deadline (in seconds) is long enough for a busy machine."""
    done = check("--json", "--deadline", str(deadline), *arguments, provider(name))
    equal(done.stderr, "", name)
    return done.returncode, json.loads(done.stdout)


def failed(answer):
    return {row["text"]: row["diagnostic"] for row in answer["results"] if row["outcome"] == "failed"}


@functools.cache
def run_good():
    return results("none")


run_once = threading.Lock()


def good_results():
    """A whole run with the good provider, which all threads share."""
    with run_once:
        return run_good()


@functools.cache
def groups():
    """The group of each assertion."""
    return {row["text"]: row["group"] for row in good_results()[1]["results"]}


def group_options(name):
    """Options that run only the group with the assertion that the defect must fail; none if that is not one group."""
    found = {group for text, group in groups().items() if DEFECTS[name] in text}
    return ["--only", found.pop()] if len(found) == 1 else []


def results_of_defect(name, *arguments, **options):
    """The results of the group in which the defect must show, or of all groups if it does not."""
    status, answer = results(name, *arguments, *group_options(name), **options)
    return (status, answer) if status else results(name, *arguments, **options)


def test_that_defect_is_found(name):
    def defect():
        status, answer = results_of_defect(name, **({"deadline": 5} if name == "hangs" else {}))
        equal(status, 1, "exit status")
        contains("\n".join(failed(answer)), DEFECTS[name])
    defect.__name__ = f"the defect {name} is found"
    return test(defect)


@test
def the_good_provider_passes_the_whole_suite():
    status, answer = good_results()
    equal((status, failed(answer), answer["skipped"]), (0, {}, 0))
    equal(answer["passed"] >= 150, True, f"assertions, {answer['passed']},")


@test
def every_broken_provider_is_in_the_list_of_defects():
    files = {name[len("broken_"):-len(".so")] for name in os.listdir(FOLDER)
             if name.startswith("broken_") and name.endswith(".so")}
    equal(files, set(DEFECTS) | {"none"})


for defect_name in sorted(DEFECTS)[::int(os.environ.get("FACET_TEST_ONE_IN", "1"))]:
    test_that_defect_is_found(defect_name)


@test
def a_failure_says_how_the_provider_ended():
    for name, words in (("crashes", "crashed with signal 11"), ("exits", "called exit(3)"),
                        ("hangs", "no answer within 3 s")):
        _, answer = results(name, "--only", "device", deadline=3)
        contains(failed(answer)[DEFECTS[name]], f"{words}")
        contains(failed(answer)[DEFECTS[name]], f"during '{DEFECTS[name]}'")


@test
def the_tap_output_is_well_formed():
    lines = check("--deadline", "120", provider("limit_of_zero")).stdout.splitlines()
    numbered = [line for line in lines if line.startswith(("ok ", "not ok "))]
    equal(lines[0], "TAP version 13")
    equal([int(line.removeprefix("not ").split()[1]) for line in numbered], list(range(1, len(numbered) + 1)))
    equal(lines[-2], f"1..{len(numbered)}")
    equal(lines[-1], f"# {len(numbered) - 1} passed, 1 failed, 0 skipped")
    at = next(index for index, line in enumerate(lines) if line.startswith("not ok"))
    equal(lines[at + 1:at + 5], ["  ---", "  expected: out_of_range (-5)", "  got: ok (0)", "  message: (no message)"])


def test_isolated_verdict(name, expected):
    def verdict():
        status, answer = results_of_defect(name, "--isolated") if expected else results(name, "--isolated")
        if expected:
            contains("\n".join(failed(answer)), expected)
        else:
            equal(failed(answer), {})
        equal(status, 1 if expected else 0, "exit status")
    verdict.__name__ = f"the provider {name} has the same verdict when isolated"
    return test(verdict)


test_isolated_verdict("none", "")
for defect_name in ("limit_of_zero", "double_destroy", "snapshot_loses_data", "process_not_listed", "uuid_of_process"):
    test_isolated_verdict(defect_name, DEFECTS[defect_name])


@test
def the_option_only_runs_one_group():
    _, answer = results("none", "--only", "limit")
    equal({row["group"] for row in answer["results"]}, {"limit"})


@test
def wrong_arguments_of_the_command_are_refused():
    for arguments, words in ((["--only", "nonsense", provider("none")], "expected one of entry, device"),
                             (["--deadline", "0", provider("none")], "expected 1 to 3600 seconds"),
                             (["/no/such/file.so"], "there is no such file"), ([], "FILE")):
        done = check(*arguments)
        equal(done.returncode, 2, f"exit status of {arguments}")
        contains(done.stderr, words)


@test
def a_file_that_is_no_provider_fails_to_load():
    done = check(os.path.abspath(__file__))
    equal(done.returncode, 1)
    contains(done.stdout, "not ok 1 - load: the file can be loaded")


main(at_once=4)
