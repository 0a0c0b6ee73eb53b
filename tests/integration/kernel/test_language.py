#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the language: structs, constants, private arrays, control flow, and what is refused."""
import numpy

import oracle
import tap
from tap import test

COUNT = 96
LANGUAGE = oracle.Source("language")
RECORD = numpy.dtype({"names": ["number", "weight", "tag", "values", "place"],
                      "formats": ["<i4", "<f8", "i1", ("<i2", 3), ("<f4", 4)],
                      "offsets": [0, 8, 16, 18, 32], "itemsize": 48})
TIGHT = numpy.dtype([("tag", "i1"), ("number", "<i4")])


def records(seed, count):
    random = oracle.random(seed)
    made = numpy.zeros(count, RECORD)
    made["number"] = random.integers(-1000, 1000, count)
    made["weight"] = random.integers(-100, 100, count) / 4
    made["tag"] = random.integers(-128, 127, count)
    made["values"] = random.integers(-3000, 3000, (count, 3))
    made["place"] = random.integers(-100, 100, (count, 4)) / 8
    return made


@test
def structs_by_value_and_in_memory_keep_their_layout():
    given, x = records(1, 1)[0], records(2, COUNT)
    expected, tight = x.copy(), numpy.zeros(COUNT, TIGHT)
    expected["number"] += given["number"]
    expected["weight"] *= given["weight"]
    expected["values"][numpy.arange(COUNT), numpy.arange(COUNT) % 3] = given["values"][2]
    expected["tag"] ^= given["tag"]
    expected["place"] = x["place"][:, ::-1] + given["place"]
    tight["tag"], tight["number"] = numpy.arange(COUNT), expected["number"]
    results = LANGUAGE.run("structs", COUNT, [oracle.Value(given), x, numpy.zeros(COUNT, RECORD),
                                              numpy.zeros(COUNT, TIGHT)], 16)
    for who, answers in results.items():
        for field in RECORD.names:
            numpy.testing.assert_array_equal(answers[2][field], expected[field], f"{who}: {field}")
        numpy.testing.assert_array_equal(answers[3], tight, f"{who}: packed")
    oracle.need_facet()


@test
def the_last_of_two_stores_to_a_field_stays():
    x = numpy.arange(COUNT, dtype=numpy.float32)
    pairs, fours = numpy.zeros((COUNT, 2), numpy.float32), numpy.zeros((COUNT, 4), numpy.float32)
    pairs[:, 0], pairs[:, 1] = numpy.where(x > 4, x, -1), 1
    fours[:, 0], fours[:, 1] = x + 1, x * 2
    fours[:, 2] = fours[:, 3] = pairs[:, 0] + 1
    results = LANGUAGE.run("fields_again", COUNT, [x, oracle.output(numpy.float32, COUNT * 2),
                                                   oracle.output(numpy.float32, COUNT * 4)], 16)
    oracle.exact(results, 1, pairs.reshape(-1), "pairs")
    oracle.exact(results, 2, fours.reshape(-1), "fours")
    oracle.need_facet()


@test
def values_of_all_sizes_are_passed():
    floats = numpy.array([1, 2, 3, 0], numpy.float32)
    arguments = [numpy.int8(-5), numpy.uint16(60000), numpy.int64(-(1 << 40)), oracle.Value(floats),
                 oracle.Value(numpy.array([1, 2, 3, 4], numpy.uint8)), numpy.float64(0.125)]
    results = LANGUAGE.run("values", 1, [*arguments, oracle.output(numpy.float64, 6)], 1)
    oracle.exact(results, 6, [-5, 60000, -(1 << 40), 321, 0x04030201, 0.125], "values")
    oracle.need_facet()


@test
def constants_are_read_by_index():
    random = oracle.random(3)
    given = random.integers(-50, 50, 16).astype(numpy.int32)
    which = random.integers(0, 1000, COUNT).astype(numpy.int32)
    primes, table = numpy.array([2, 3, 5, 7, 11, 13, 17, 19]), numpy.array([[0.5, 1.5, 2.5], [10, 20, 30]])
    expected = primes[which & 7] + table[which & 1, which % 3] + given[which & 15] + \
        numpy.array([0.25, 0.75])[which >> 1 & 1] * (1 + (which & 1))
    results = LANGUAGE.run("constants", COUNT, [given, which, oracle.output(numpy.float32, COUNT)], 16)
    oracle.exact(results, 2, expected, "constants", [which])
    oracle.need_facet()


def wrap(value):
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def private_result(keys):
    counts, stack, total = [0] * 16, [], 0
    for place, key in enumerate(keys):
        counts[key & 15] += 1
        if key & 1:
            stack.append(place)
    while stack:
        total = wrap(total * 31 + stack.pop())
    return wrap(total + sum(count * count for count in counts))


@test
def private_arrays_are_written_and_read_by_index():
    keys = oracle.random(4).integers(0, 1 << 20, (COUNT, 32)).astype(numpy.int32)
    expected = [private_result(row) for row in keys.tolist()]
    results = LANGUAGE.run("privates", COUNT, [keys, oracle.output(numpy.int32, COUNT)], 32)
    oracle.exact(results, 1, expected, "private arrays")
    oracle.need_facet()


def followed_result(given, item):
    held = lambda size, at: given - max(k for k in range(32) if k % size == at % size)
    whole = lambda at: given + 100 * at
    wide = given + 2 * max(k for k in range(32) if k % 16 == item % 16)
    return [whole(item % 32), whole((item + 5) % 32), whole(item ^ 9), whole(min(item + 1, 31)),
            whole(int(numpy.float32(item) * numpy.float32(0.4))), (given + 3 * (item % 32)) % 256 + wide,
            held(4, item), held(8, item)]


@test
def private_arrays_whose_index_follows_the_items_are_read():
    given = oracle.random(5).integers(0, 1 << 16, COUNT).astype(numpy.int32)
    for group in (32, 16, 8, 4):
        expected = [followed_result(int(value), at % group) for at, value in enumerate(given)]
        results = LANGUAGE.run("followed", COUNT, [given, oracle.output(numpy.int32, COUNT * 8)], group)
        oracle.exact(results, 1, numpy.array(expected).ravel(), f"groups of {group}")
    oracle.need_facet()


def own_way_result(i, starts, order, values):
    a, b, total, at = 0, 1, 0, i
    for k in range(starts[i], starts[i + 1]):
        a, b = b, wrap(a + values[order[k]])
    while True:
        at = order[at]
        total = wrap(total * 3 + values[at])
        if at == i:
            return [a, b, starts[i + 1], total]


@test
def loops_that_mostly_load_run_at_each_items_own_length():
    random = oracle.random(6)
    lengths = numpy.concatenate([numpy.arange(12), random.integers(0, 40, COUNT - 12)])
    starts = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int32)
    # Cycles of all lengths from 1 to 9, then a cycle of all remaining elements.
    order = numpy.arange(max(COUNT, int(starts[-1])), dtype=numpy.int32)
    for at in range(1, 10):
        order[at * 5:at * 5 + at] = numpy.roll(order[at * 5:at * 5 + at], 1)
    order[54:COUNT] = numpy.roll(order[54:COUNT], 7)
    order[COUNT:] %= COUNT
    values = random.integers(-1000, 1000, COUNT).astype(numpy.int32)
    expected = [own_way_result(i, starts.tolist(), order.tolist(), values.tolist()) for i in range(COUNT)]
    for group in (32, 3):
        results = LANGUAGE.run("own_ways", COUNT, [starts, order, values, oracle.output(numpy.int32, COUNT * 4)], group)
        oracle.exact(results, 3, numpy.array(expected).ravel(), f"groups of {group}")
    oracle.need_facet()


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = 3 * n + 1 if n % 2 else n // 2, steps + 1
    return steps


def flow_result(i, value):
    total, other = 0, i
    if value < 0:
        return -1
    for k in range(100):
        if k % 3 == value % 3:
            continue
        if k > value:
            break
        m = 0
        while m * m <= k:
            total, m = total + m, m + 1
    case = value % 6
    if case == 4:
        return collatz(value)
    if case in (0, 1, 2):
        total += {0: 100, 1: 500, 2: 300}[case]
    else:
        total = -total
    while True:
        total, other = other, total
        value //= 2
        if value <= 4:
            return wrap(total * 1000 + other)


@test
def control_flow_gives_each_items_result():
    x = oracle.random(5).integers(-20, 300, COUNT).astype(numpy.int32)
    expected = [flow_result(i, value) for i, value in enumerate(x.tolist())]
    results = LANGUAGE.run("flow", COUNT, [x, oracle.output(numpy.int32, COUNT)], 32)
    oracle.exact(results, 1, expected, "control flow", [x])
    oracle.need_facet()


@test
def groups_of_odd_sizes_run_all_items():
    """With each of these sizes, the last items of a group do not fill the lanes of a vector."""
    for size, group in ((1, 1), (7, 7), (33, 33), (30, 10), (96, 3), (95, 19)):
        x = oracle.random(size).integers(-20, 300, size).astype(numpy.int32)
        expected = [flow_result(i, value) for i, value in enumerate(x.tolist())]
        results = LANGUAGE.run("flow", size, [x, oracle.output(numpy.int32, size)], group)
        oracle.exact(results, 1, expected, f"groups of {group}", [x])
    oracle.need_facet()


@test
def pointers_into_global_memory_sort_it():
    x = oracle.random(6).integers(-99, 99, (COUNT, 8)).astype(numpy.int32)
    results = LANGUAGE.run("pointers", COUNT, [x, oracle.output(numpy.int32, COUNT, 8)], 16)
    oracle.exact(results, 1, numpy.sort(x, 1), "sorted")
    oracle.need_facet()


@test
def loads_near_each_other_read_the_right_elements():
    count, last = 4096, 2047  # the table ends with a page
    table, words = numpy.arange(2048, dtype=numpy.float32) % 509, (numpy.arange(2048) * 7 % 511).astype(numpy.int32)
    i = numpy.arange(count)
    for scale in (0.499, 0.1, 0.75, 0.0, 3.0):
        at = numpy.minimum((i.astype(numpy.float32) * numpy.float32(scale)).astype(numpy.int32), last)
        expected = (table[at] + 2 * table[last - at] + 4 * table[i // 2] + 8 * words[i >> 2] + 16 * words[i // 3 + 1]
                    + (i & 1) * table[i * 5 // 8 % 2048])
        size = min(count, 2048 * 8 // 5)
        for group in (64, 17, 1):
            size -= size % group
            results = LANGUAGE.run("sampled", size, [table, words, oracle.output(numpy.float32, size),
                                                     numpy.int32(last), numpy.float32(scale)], group)
            oracle.exact(results, 2, expected[:size].astype(numpy.float32), f"scale {scale}, groups of {group}")
    oracle.need_facet()


@test
def stores_that_bypass_the_caches_arrive():
    count = 1 << 22
    x = oracle.random(5).integers(-1000, 1000, count).astype(numpy.int32)
    for start in (0, 16, 3):
        expected = numpy.full(count + 64, -1, numpy.int32)
        expected[start:start + count] = x ^ numpy.arange(count, dtype=numpy.int32)
        results = LANGUAGE.run("flood_all", count, [x, numpy.full(count + 64, -1, numpy.int32), numpy.int32(start)], 256)
        oracle.exact(results, 1, expected, f"from {start}")
        most, expected = count - 1000, numpy.full(count + 64, -1, numpy.int32)
        expected[start:start + most] = x[:most] * 3
        wide = numpy.stack([numpy.arange(count), x, numpy.ones(count), numpy.full(count, start)], 1)
        results = LANGUAGE.run("flood", count, [x, numpy.full(count + 64, -1, numpy.int32),
                                                oracle.output(numpy.float32, count, 4), numpy.int32(start),
                                                numpy.int32(most)], 256)
        oracle.exact(results, 1, expected, f"guarded, from {start}")
        oracle.exact(results, 2, wide.astype(numpy.float32), f"vectors, from {start}")
    oracle.need_facet()


@test
def private_memory_may_be_larger_than_a_stack():
    x = oracle.random(11).integers(0, 1000, 48).astype(numpy.int32)
    # The kernel adds up 201 elements, each 997 behind the one before: x + 0 * 997, x + 1 * 997 and so on.
    expected = (201 * x.astype(numpy.int64) + 997 * 201 * 200 // 2).astype(numpy.int32)
    for size in (16, 48, 1):
        # PoCL keeps such memory on a stack, which overflows.
        results = LANGUAGE.run("large", 48, [x, oracle.output(numpy.int32, 48)], size, only="Facet")
        oracle.exact(results, 1, expected, f"groups of {size}")
    oracle.need_facet()


@test
def unions_and_booleans_hold_their_bits():
    x = oracle.random(7).integers(0, 1 << 32, COUNT, numpy.uint32)
    negative = x.view(numpy.float32) < 0
    expected = (x & 0xff) << 24 | x >> 24 | numpy.where(x & 1, 8 << 8, 0) | negative.astype(numpy.uint32) << 16
    results = LANGUAGE.run("bits", COUNT, [x, oracle.output(numpy.uint32, COUNT)], 16)
    oracle.exact(results, 1, expected, "bits", [x])
    oracle.need_facet()


@test
def kernels_call_kernels():
    x = oracle.random(8).integers(-99, 99, COUNT).astype(numpy.float32)
    for kernel, expected in (("twice", [2 * x]), ("twice_and_more", [2 * x, 2 * x + 1])):
        results = LANGUAGE.run(kernel, COUNT, [x, oracle.output(numpy.float32, COUNT)][:len(expected)], 16)
        for index, values in enumerate(expected):
            oracle.exact(results, index, values, f"{kernel}, argument {index}", [x])
    oracle.need_facet()


@test
def bits_that_overlap_only_in_masked_items_are_right():
    x, i = oracle.random(5).integers(0, 4, COUNT, dtype=numpy.int32), numpy.arange(COUNT, dtype=numpy.int32)
    results = LANGUAGE.run("bits_apart", COUNT, [x, oracle.output(numpy.int32, COUNT)], 16)
    oracle.exact(results, 1, numpy.where((i & 1) & (x & 1), (i * 6 + 3) | 2, 0).astype(numpy.int32), "bits apart", [x])
    oracle.need_facet()


CASES, LABELS = 300, 40
CHOICES = "\n".join(f"case {3 * i}: r = r * {i + 7} + {i * i % 97}; {'break;' if i % 5 else ''}" for i in range(CASES))
JUMPS = "\n".join(f"l{i}: r = r * 3 + {i}; n--; if (n > 0 && (r >> 5) % {i + 2} == 1) goto l{i * 7 % LABELS};"
                  for i in range(LABELS))
TANGLED = f"""__kernel void choose(__global const int *x, __global uint *out)
{{ size_t i = get_global_id(0); uint r = x[i];
switch (x[i]) {{
{CHOICES}
default: r = 1; }}
out[i] = r; }}
__kernel void jump(__global const int *x, __global uint *out)
{{ size_t i = get_global_id(0); uint r = x[i]; int n = 200;
{JUMPS}
out[i] = r; }}
"""


def choose(x):
    r = x if x % 3 == 0 and 0 <= x < 3 * CASES else 1
    for i in range(x // 3 if x % 3 == 0 and x >= 0 else CASES, CASES):
        r = (r * (i + 7) + i * i % 97) % (1 << 32)
        if i % 5:
            return r
    return 1


def jump(x):
    at, r, n = 0, x % (1 << 32), 200
    while at < LABELS:
        r, n = (r * 3 + at) % (1 << 32), n - 1
        at = at * 7 % LABELS if n > 0 and (r >> 5) % (at + 2) == 1 else at + 1
    return r


@test
def many_cases_and_jumps_give_each_items_result():
    """There are so many cases and jumps that work-items run one by one."""
    source = oracle.Source("many cases", text=TANGLED)
    x = oracle.random(9).integers(-9, 3 * CASES + 9, COUNT, dtype=numpy.int32)
    for kernel, reference in (("choose", choose), ("jump", jump)):
        results = source.run(kernel, COUNT, [x, oracle.output(numpy.uint32, COUNT)], 16)
        oracle.exact(results, 1, numpy.array([reference(int(one)) for one in x], numpy.uint32), kernel, [x])
    oracle.need_facet()


BRANCHES = 300
LOOPED = ("__kernel void branches(__global const int *x, __global uint *y)\n{\n    int i = get_global_id(0);\n"
          "    uint r = x[i], sum = 0;\n    for (int n = 0; n < (x[i] & 3); n++) {\n"
          + "".join(f"        if (r % {at + 2} > {at % 7}) r = r * {at + 3} + {at}; else sum += r ^ {at};\n"
                    for at in range(BRANCHES))
          + "        if (r % 5 == 1) break;\n    }\n    y[i] = r ^ sum;\n}\n")


def branches(x):
    r, total = x % (1 << 32), 0
    for _ in range(x & 3):
        for at in range(BRANCHES):
            if r % (at + 2) > at % 7:
                r = (r * (at + 3) + at) % (1 << 32)
            else:
                total += r ^ at
        if r % 5 == 1:
            break
    return (r ^ total) % (1 << 32)


@test
def many_branches_in_a_loop_give_each_items_result():
    """There are so many branches that the body of the loop, and the body of the loop over work-items, become functions.
    Groups of 16 fill whole chunks; groups of 6 do not."""
    source = oracle.Source("many branches", text=LOOPED)
    x = oracle.random(10).integers(-1000, 1000, COUNT, dtype=numpy.int32)
    for group in (16, 6):
        results = source.run("branches", COUNT, [x, oracle.output(numpy.uint32, COUNT)], group)
        oracle.exact(results, 1, numpy.array([branches(int(one)) for one in x], numpy.uint32), f"groups of {group}", [x])
    oracle.need_facet()


@test
def recursion_is_refused():
    oracle.refused("recursion", "oracle.cl:5:28", "'faculty' calls itself")


@test
def an_error_has_its_place():
    oracle.refused("an error", "oracle.cl:3", text="__kernel void f(__global int *x)\n{\n    x[0] = y;\n}\n")


tap.main()
