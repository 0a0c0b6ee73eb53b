#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of work-groups: of ids, local memory, barriers in any control flow, atomics, and copies by a whole group."""
import functools
import operator

import numpy

import oracle
import tap
from tap import test

COUNT = 128
GROUP = oracle.Source("group")
ATOMIC = oracle.Source("atomic")


def item_ids(size, group, offset):
    """The answers of the work-item functions for each item, by z, y and x. For dimensions that a launch lacks, they are
    those of section 6.12.1 of OpenCL C 1.2."""
    dimensions = len(size)
    size, group, offset = ([*part, *[rest] * (4 - dimensions)] for part, rest in ((size, 1), (group, 1), (offset, 0)))
    expected = numpy.zeros((size[2], size[1], size[0], 24), numpy.uint32)
    for z, y, x in numpy.ndindex(expected.shape[:3]):
        for d, at in enumerate((x, y, z, 0)):
            expected[z, y, x, d * 5:d * 5 + 5] = [at + offset[d], at % group[d], at // group[d],
                                                  size[d] * 100 + group[d], size[d] // group[d] * 100 + offset[d]]
        expected[z, y, x, 20] = dimensions
    return expected


@test
def work_item_functions_give_the_ids_of_the_launch():
    for size, group, offset in [((64,), (16,), (0,)), ((40,), (10,), (7,)), ((12, 6), (4, 3), (0, 0)),
                                ((12, 6), (12, 2), (5, 9)), ((4, 6, 8), (2, 3, 4), (0, 0, 0)),
                                ((4, 6, 8), (1, 6, 2), (1, 2, 3)), ((3, 5, 7), (3, 5, 7), (0, 4, 0))]:
        expected = item_ids(size, group, offset)
        results = GROUP.run("items", size, [oracle.output(numpy.uint32, *expected.shape)], group, offset)
        if "PoCL" in results:  # for the sizes of a fourth dimension PoCL 3.1 answers 0, but section 6.12.1 requires 1
            results["PoCL"][0][..., 18:20] = 101, 100
        oracle.exact(results, 0, expected, f"{size} by {group} from {offset}")
    oracle.need_facet()


@test
def groups_that_run_in_rows_run_each_item_once():
    """If a kernel does not ask for ids within groups, neighbouring groups run together as rows. Each item must run
    once, with any size of a group."""
    for size, group, offset in [((3000,), (1,), (0,)), ((3000,), (10,), (7,)), ((4096,), (64,), (3,)),
                                ((4080,), (240,), (0,)), ((520, 6), (8, 2), (5, 9)), ((514, 9), (2, 3), (0, 1)),
                                ((96, 10, 6), (1, 5, 2), (4, 0, 2)), ((260, 4, 3), (13, 1, 1), (0, 0, 0))]:
        start = [*offset, *[0] * (3 - len(offset))]
        z, y, x = numpy.indices([*size, *[1] * (3 - len(size))][::-1])
        expected = (x + start[0]) + 7 * (y + start[1]) + 11 * (z + start[2]) + 1000 * size[0] + 1
        results = GROUP.run("rows", size, [numpy.ones(expected.size, numpy.int32), numpy.int32(start[0])], group,
                            offset)
        oracle.exact(results, 0, expected.astype(numpy.int32).ravel(), f"{size} by {group} from {offset}")
    oracle.need_facet()


@test
def a_group_of_another_size_than_required_is_refused():
    results = GROUP.run("required", (16, 8), [oracle.output(numpy.uint32, 128)], (8, 4))
    oracle.exact(results, 0, numpy.full(128, 84), "sizes")
    oracle.need_facet()
    try:
        GROUP.run("required", (16, 8), [oracle.output(numpy.uint32, 128)], (4, 4))
    except Exception:
        return
    raise AssertionError("a group of 4 x 4 items was launched, although the kernel requires 8 x 4")


def by_group(function, x, size):
    return numpy.concatenate([function(part, number) for number, part in enumerate(x.reshape(-1, size))])


@test
def local_arrays_and_local_arguments_do_not_overlap():
    for size in (64, 32, 16, 8, 1):
        x = oracle.random(size).integers(0, 1000, COUNT).astype(numpy.int32)
        item = numpy.arange(size)
        expected = by_group(lambda part, _: numpy.roll(part, -1) + numpy.roll(part, -1) * 2000
                            + numpy.roll(part, -2) * 3 + numpy.roll(item, -1), x, size)
        results = GROUP.run("locals", COUNT, [x, oracle.output(numpy.int32, COUNT), oracle.Local(size * 4),
                                              oracle.Local(size * 2)], size)
        oracle.exact(results, 1, expected, f"groups of {size}")
    oracle.need_facet()


@test
def barriers_in_a_loop_order_the_items():
    for size, count in ((32, 0), (32, 1), (64, 7), (5, 9), (128, 3)):
        x = oracle.random(size).integers(0, 100, size * 2).astype(numpy.int32)

        def result(part, _):
            mine, total = part.copy(), numpy.zeros_like(part)
            for turn in range(count):
                mine = numpy.roll(mine + numpy.int32(turn), -1)
                total = total * numpy.int32(3) + mine
            return total

        results = GROUP.run("rounds", size * 2, [x, oracle.output(numpy.int32, size * 2), oracle.Local(size * 4),
                                                 numpy.int32(count)], size)
        oracle.exact(results, 1, by_group(result, x, size), f"{count} rounds of {size}")
    oracle.need_facet()


def branches_result(part, number, how):
    value, shared = part.copy(), part.copy()
    if how & 1:
        value = value + shared[::-1]
        shared = value
    elif number & 1:
        value = value * numpy.int32(7)
    for i in range(3):
        if i == 1 and not how & 2:
            continue
        for k in range(i + 1):
            shared = value = value * numpy.int32(2) + numpy.roll(shared, -(k + 1))
            if how & 4 and k == 1:
                break
        if how & 8:
            break
    return value


@test
def barriers_in_uniform_branches_order_the_items():
    for how in range(16):
        x = oracle.random(how).integers(0, 100, COUNT).astype(numpy.int32)
        expected = by_group(lambda part, number, how=how: branches_result(part, number, how), x, 32)
        results = GROUP.run("branches", COUNT, [x, oracle.output(numpy.int32, COUNT), oracle.Local(128), numpy.int32(how)],
                            32)
        oracle.exact(results, 1, expected, f"branches {how}")
    oracle.need_facet()


@test
def items_that_return_early_do_not_stop_others():
    x = oracle.random(1).integers(0, 100, COUNT).astype(numpy.int32)
    for count in (0, 1, 77, COUNT):
        expected = numpy.where(numpy.arange(COUNT) < count, numpy.cumsum(x), -1)
        results = GROUP.run("early", COUNT, [x, numpy.full(COUNT, -1, numpy.int32), numpy.int32(count)], 32)
        oracle.exact(results, 1, expected, f"{count} items")
    oracle.need_facet()


def helpers_result(part, _):
    size, item = len(part), numpy.arange(len(part))
    kept = part[:, None] + numpy.arange(4)
    kept[:, 1] = kept[::-1, 1].copy()
    kept[item, item & 3] = kept[::-1, 2] * 5
    total = numpy.zeros(size, numpy.int64)
    for k in range(4):
        total = total * 7 + kept[:, k]
    return total


def many_result(part, x, how):
    value, scale, item = part.copy(), how, numpy.arange(len(part))
    kept = numpy.array([part, part * 0 + 1, part * 0 + 2, part * 0 + 3])
    for k in [*range(1, 8)] * 4:
        value = value * numpy.int32(3) + (value + numpy.int32(scale * k))[::-1]
        kept[value & 3, item] += numpy.int32(k)
        if how & k:
            scale = (scale * 5 + int(x[k])) & 1023
    return value + kept[0] + kept[1] * numpy.int32(3) + kept[2] * numpy.int32(5) + kept[3] * numpy.int32(7)


@test
def values_live_across_many_barriers():
    for size, how in ((32, 0), (32, 5), (24, 10), (7, 15)):
        x = oracle.random(how).integers(0, 1000, size * 3).astype(numpy.int32)
        results = GROUP.run("many", size * 3, [x, oracle.output(numpy.int32, size * 3), oracle.Local(size * 4),
                                               numpy.int32(how)], size)
        expected = by_group(lambda part, _, x=x, how=how: many_result(part, x, how), x, size)
        oracle.exact(results, 1, expected, f"many barriers, {how}, groups of {size}")
    oracle.need_facet()


def maybe_result(part, x, how):
    value, scale = part.copy(), how
    for k in [*range(10)] * 4:
        if how & 1 << k:
            value = value * numpy.int32(5) + (value + numpy.int32(scale))[::-1]
            scale += int(x[k])
        else:
            value = numpy.where(value & 1, value + numpy.int32(k), value)
    return value


@test
def barriers_in_many_branches_order_the_items():
    for size, how in ((32, 0), (32, 0x271), (24, 0x3ff), (7, 0x201)):
        x = oracle.random(how).integers(0, 1000, size * 3).astype(numpy.int32)
        results = GROUP.run("maybe", size * 3, [x, oracle.output(numpy.int32, size * 3), oracle.Local(size * 4),
                                                numpy.int32(how)], size, only="Facet")  # PoCL makes code for each path
        expected = by_group(lambda part, _, x=x, how=how: maybe_result(part, x, how), x, size)
        oracle.exact(results, 1, expected, f"many branches, {how}, groups of {size}")
    oracle.need_facet()


@test
def values_live_across_barriers_in_functions():
    x = oracle.random(2).integers(0, 1000, COUNT).astype(numpy.int32)
    results = GROUP.run("helpers", COUNT, [x, oracle.output(numpy.int32, COUNT), oracle.Local(128)], 32)
    oracle.exact(results, 1, by_group(helpers_result, x, 32), "functions with barriers")
    oracle.need_facet()


@test
def items_see_their_neighbours_in_three_dimensions():
    x = oracle.random(3).integers(0, 9, (8, 4, 12)).astype(numpy.int32)
    z, y, column = numpy.indices(x.shape)
    # An item reads from items of its group whose local ids are its own with some bits inverted.
    expected = x[z, y, column ^ 1] + 10 * x[z, y ^ 2, column] + 100 * x[z ^ 3, y, column]
    results = GROUP.run("cube", (12, 4, 8), [x, oracle.output(numpy.int32, *x.shape)], (4, 4, 4))
    oracle.exact(results, 1, expected, "neighbours")
    oracle.need_facet()


@test
def items_wait_for_the_item_that_works_for_all():
    x = oracle.random(4).integers(-999, 999, COUNT).astype(numpy.int32)
    results = GROUP.run("leader", COUNT, [x, oracle.output(numpy.int32, COUNT)], 16)
    oracle.exact(results, 1, by_group(lambda part, _: part - part.min(), x, 16), "less the least")
    oracle.need_facet()


@test
def copies_by_the_group_are_whole():
    x = oracle.random(5).random(COUNT).astype(numpy.float32)
    results = GROUP.run("copies", COUNT, [x, oracle.output(numpy.float32, COUNT), oracle.Local(64)], 16)
    oracle.exact(results, 1, x * 2, "copies")
    x = oracle.random(6).random((COUNT * 2, 2)).astype(numpy.float32)
    expected = numpy.zeros((COUNT * 3, 2), numpy.float32)
    expected[::3] = x[::2] + numpy.array([1, 2], numpy.float32)
    results = GROUP.run("strided", COUNT, [x, numpy.zeros_like(expected), oracle.Local(128)], 16)
    oracle.exact(results, 1, expected, "strided copies")
    oracle.need_facet()


@test
def copies_of_vectors_of_three_are_whole():
    x = oracle.random(7).random((COUNT, 4)).astype(numpy.float32)  # each fourth is padding, which may be copied or not
    results = GROUP.run("threes", COUNT, [x, numpy.zeros((COUNT * 2, 4), numpy.float32), oracle.Local(256)], 16)
    expected = numpy.zeros((COUNT * 2, 3), numpy.float32)
    expected[::2] = x[:, :3] * 2
    bare = {who: {1: numpy.ascontiguousarray(answers[1][:, :3])} for who, answers in results.items()}
    oracle.exact(bare, 1, expected, "copies of three")
    oracle.need_facet()


def all_atomics(values, start):
    """The contents of ten cells after the ten operations of atomic.cl were applied with all values, in any order."""
    total = int(values.sum())
    expected = [start[0] + total, start[1] - total, start[2] + len(values), start[3] - len(values),
                min(start[4], values.min()), max(start[5], values.max()),
                functools.reduce(operator.and_, [int(value) | 0x10 for value in values], int(start[6])),
                functools.reduce(operator.or_, [int(value) for value in values], int(start[7])),
                functools.reduce(operator.xor, [int(value) for value in values], int(start[8])), start[9] + total * 3]
    bits = 8 * values.dtype.itemsize
    return numpy.array([int(value) & ((1 << bits) - 1) for value in expected], f"u{bits // 8}").view(values.dtype)


def atomic_input(kind, seed, shape):
    random, info = oracle.random(seed), numpy.iinfo(kind)
    return (random.integers(info.min // 4, info.max // 4, COUNT * 8, kind),
            random.integers(info.min // 4, info.max // 4, shape, kind))


def widened(values):
    """The numbers as Python's integers, which do not overflow."""
    return values.astype(object)


@test
def atomics_on_global_memory_lose_nothing():
    (values, cells), (uvalues, ucells) = (atomic_input(kind, seed, 10)
                                          for kind, seed in ((numpy.int32, 7), (numpy.uint32, 8)))
    results = ATOMIC.run("ints", COUNT * 8, [values, cells, uvalues, ucells], 64)
    oracle.exact(results, 1, all_atomics(values, widened(cells)), "int")
    oracle.exact(results, 3, all_atomics(uvalues, widened(ucells)), "uint")
    oracle.need_facet()


@test
def atomics_on_local_memory_lose_nothing():
    groups = COUNT * 8 // 64
    (values, cells), (uvalues, ucells) = (atomic_input(kind, seed, (groups, 10))
                                          for kind, seed in ((numpy.int32, 9), (numpy.uint32, 10)))
    results = ATOMIC.run("locals", COUNT * 8, [values, cells, uvalues, ucells], 64)
    for index, given, start in ((1, values, cells), (3, uvalues, ucells)):
        expected = [all_atomics(part, widened(own)) for part, own in zip(given.reshape(groups, 64), start)]
        oracle.exact(results, index, numpy.array(expected), f"argument {index}")
    oracle.need_facet()


@test
def atomic_operations_return_each_earlier_value_once():
    count = COUNT * 8
    results = ATOMIC.run("tickets", count, [numpy.zeros(2, numpy.uint32), numpy.zeros(count, numpy.uint32),
                                            oracle.output(numpy.uint32, count), numpy.full(1, -1, numpy.float32)], 64)
    for who, (counter, taken, left, place) in results.items():
        assert counter[0] == count and (taken == 1).all(), f"{who}: {counter[0]} tickets, {taken.sum()} taken"
        passed = sorted([*left.tolist(), int(counter[1])])
        assert passed == list(range(count + 1)), f"{who}: an exchange lost something"
        assert 0 <= place[0] < count, f"{who}: exchanged {place[0]}"
    oracle.need_facet()


@test
def atomics_of_64_bits_lose_nothing():
    if oracle.POCL and "cl_khr_int64_base_atomics" not in oracle.POCL.extensions:
        raise tap.Skip("this PoCL has no 64-bit atomics")
    values, cells = atomic_input(numpy.int64, 11, 9)
    start = [*widened(cells), 0]
    expected = all_atomics(values >> 12, start)[:9]
    # For cell 6, `longs` takes the values as they are, while all_atomics() sets their bit 4 first.
    expected[6] = functools.reduce(operator.and_, [int(value) for value in values >> 12], int(cells[6]))
    results = oracle.Source("atomic", "-DLONGS").run("longs", COUNT * 8, [values >> 12, cells], 64)
    oracle.exact(results, 1, expected, "long")
    oracle.need_facet()


ALIGNED = """typedef struct { int a; } __attribute__((aligned(SIZE))) wide;
kernel void groups(global ulong *low, global const int *x) {
    local int before[3];
    local wide shared[2];
    wide own[2];
    size_t l = get_local_id(0), g = get_global_id(0);
    before[l % 3] = x[g];
    own[x[g] & 1].a = x[g];
    shared[l & 1].a = 7;
    barrier(CLK_LOCAL_MEM_FENCE);
    volatile ulong at_own = (ulong)&own[l & 1], at_shared = (ulong)&shared[l & 1];
    low[g * 3] = at_own & (SIZE - 1), low[g * 3 + 1] = at_shared & (SIZE - 1);
    low[g * 3 + 2] = own[x[g] & 1].a + shared[0].a;
}
kernel void items(global ulong *low, global const int *x) {
    wide own[2];
    size_t g = get_global_id(0);
    own[x[g] & 1].a = x[g];
    volatile ulong at = (ulong)&own[g & 1];
    low[g * 3] = at & (SIZE - 1), low[g * 3 + 1] = 0, low[g * 3 + 2] = own[x[g] & 1].a + 7;
}
kernel void odd(global ulong *low, global const int *x) {
    float three[3] __attribute__((aligned(SIZE))) = {x[0], x[1], x[2]};
    size_t g = get_global_id(0);
    volatile ulong at = (ulong)three;
    three[x[g] % 3] = x[g];
    low[g * 3] = at & (SIZE - 1), low[g * 3 + 1] = 0, low[g * 3 + 2] = (ulong)three[x[g] % 3] + 7;
}
"""


@test
def alignments_are_kept():
    """Addresses must have each alignment that the compiler accepts, because the optimizer assumes it."""
    x = numpy.arange(COUNT, dtype=numpy.int32)
    for size in (64, 128, 512, 4096):
        source = oracle.Source("aligned", f"-DSIZE={size}ul", text=ALIGNED)
        for kernel in ("groups", "items", "odd"):
            for group in (16, 5):
                results = source.run(kernel, COUNT // group * group, [oracle.output(numpy.uint64, COUNT, 3), x], group,
                                     only="Facet")  # PoCL does not keep all alignments
                for _, low in oracle.results_of_each(results, 0):
                    low = low[:COUNT // group * group]
                    assert (low[:, :2] == 0).all(), f"{kernel}, aligned({size}): {low[:8, :2]}"
                    assert (low[:, 2] == x[:len(low)] + 7).all(), f"{kernel}, aligned({size}): {low[:8, 2]}"
    oracle.need_facet()


tap.main()
