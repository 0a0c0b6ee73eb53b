#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of vectors, conversions, halves and comparisons."""
import math

import numpy

import oracle
import tap
from tap import test

TYPES = {"char": numpy.int8, "uchar": numpy.uint8, "short": numpy.int16, "ushort": numpy.uint16, "int": numpy.int32,
         "uint": numpy.uint32, "long": numpy.int64, "ulong": numpy.uint64, "float": numpy.float32,
         "double": numpy.float64}
COUNT = 64
LENGTHS = (2, 3, 4, 8, 16)

VECTOR = oracle.Source("vector")
CONVERT = oracle.Source("convert")
RELATIONAL = oracle.Source("relational")


def padded(values, length):
    """The vectors as they are in memory, where vectors of three are padded to four elements."""
    return numpy.pad(values, ((0, 0), (0, 1))) if length == 3 else values


@test
def arithmetic_of_vectors_of_all_lengths_is_exact():
    for length in LENGTHS:
        random = oracle.random(length)
        x = (random.integers(-32, 32, (COUNT, length)) / 8).astype(numpy.float32)
        y = random.integers(-100, 100, (COUNT, length)).astype(numpy.int32)
        x, y = padded(x, length), padded(y, length)
        results = VECTOR.run(f"arithmetic{length}", COUNT, [x, y, oracle.output(numpy.float32, *x.shape),
                                                            oracle.output(numpy.int32, *x.shape)], 16)
        results = {who: [None if a is None else a[:, :length] for a in answers] for who, answers in results.items()}
        x, y = x[:, :length], y[:, :length]
        oracle.exact(results, 2, (x + 1) * x - y, f"float{length}")
        oracle.exact(results, 3, y * 2 - (x > 0.5) + numpy.minimum(y, 3), f"int{length}")
    oracle.need_facet()


@test
def vload_and_vstore_move_whole_vectors():
    for length in LENGTHS:
        x = oracle.random(length).integers(-9999, 9999, COUNT * length + 8).astype(numpy.int16)
        results = VECTOR.run(f"moved{length}", COUNT, [x, oracle.output(numpy.int16, COUNT * length), numpy.int32(5)], 16)
        oracle.exact(results, 1, x[5:5 + COUNT * length] + 1, f"short{length}")
    oracle.need_facet()


@test
def halves_are_loaded_and_stored_at_all_lengths():
    for length in LENGTHS:
        x = oracle.random(length).uniform(-100, 100, COUNT * length).astype(numpy.float16)
        x[:4] = [numpy.inf, -numpy.inf, 6e-8, 65504]
        with numpy.errstate(over="ignore"):
            scaled = (x.astype(numpy.float32) * numpy.float32(1.3)).astype(numpy.float16)
        results = VECTOR.run(f"halves{length}", COUNT, [x, oracle.output(numpy.float16, COUNT * length),
                                                        oracle.output(numpy.float32, COUNT * length)], 16)
        oracle.exact(results, 2, x.astype(numpy.float32), f"vload_half{length}")
        oracle.exact(results, 1, scaled, f"vstore_half{length}")
    oracle.need_facet()


def half_towards(x, direction):
    """x rounded to a half. The direction is 0 for the nearest half, +1 for up, -1 for down, None for towards zero."""
    if direction is None:
        direction = -1 if x > 0 else 1
    with numpy.errstate(over="ignore"):
        near = numpy.float16(x)
    if direction == 0 or math.isnan(x) or math.isinf(x) or float(near) == float(x):
        return near
    if direction > 0:
        return near if float(near) > float(x) else numpy.nextafter(near, numpy.float16(numpy.inf))
    return near if float(near) < float(x) else numpy.nextafter(near, numpy.float16(-numpy.inf))


@test
def vstore_half_rounds_in_every_mode():
    x = oracle.random(1).uniform(-70000, 70000, COUNT).astype(numpy.float32)
    x[:16] = [0, -0.0, 1, 1 / 3, -1 / 3, 65519, 65520, -65520, 1e-7, -1e-7, 1e9, -1e9, numpy.inf, -numpy.inf, numpy.nan,
              6.0e-5]
    expected = [half_towards(value, how) for how in (0, 0, None, 1, -1) for value in x]
    results = VECTOR.run("half_roundings", COUNT, [x, oracle.output(numpy.float16, COUNT * 5)], 16)
    oracle.exact(results, 1, numpy.array(expected, numpy.float16), "vstore_half_rtX", [numpy.tile(x, 5)])
    oracle.need_facet()


@test
def parts_of_vectors_and_shuffles_pick_the_right_elements():
    random = oracle.random(2)
    x, y = (random.integers(-99, 99, (COUNT, n)).astype(numpy.int32) for n in (4, 8))
    expected = numpy.empty((COUNT, 8, 4), numpy.int32)
    for out, a, c in zip(expected, x, y):
        b = [a[1], 7, a[3], 7]
        changed = [b[0], 7 + a[0], b[2], c[6] + a[2]]
        out[:] = [a[::-1], [a[0], a[1], a[3], a[2]], c[::2], c[::-2], b, changed, c[[7, 0, 5, 2]],
                  [a[0], a[0], a[3], a[1]]]
    results = VECTOR.run("parts", COUNT, [x, y, oracle.output(numpy.int32, COUNT, 8, 4)], 16)
    oracle.exact(results, 2, expected, "parts")
    oracle.need_facet()


@test
def elements_are_picked_by_index():
    random = oracle.random(3)
    x, which = random.random((COUNT, 4)).astype(numpy.float32), random.integers(0, 4, COUNT).astype(numpy.int32)
    results = VECTOR.run("indexed", COUNT, [x, which, oracle.output(numpy.float32, COUNT)], 16)
    oracle.exact(results, 2, x[numpy.arange(COUNT), which], "an element")
    oracle.need_facet()


@test
def geometric_functions_are_near():
    random = oracle.random(4)
    x, y = (random.uniform(-2, 2, (COUNT, 4)).astype(numpy.float32) for _ in range(2))
    a, b = x.astype(numpy.float64), y.astype(numpy.float64)
    cross = numpy.pad(numpy.cross(a[:, :3], b[:, :3]), ((0, 0), (0, 1)))
    length = numpy.linalg.norm(a, axis=1)
    expected = numpy.column_stack([(a * b).sum(1), (a * b)[:, :3].sum(1), length,
                                   numpy.linalg.norm((a - b)[:, :2], axis=1), cross, a / length[:, None]])
    for who, got in oracle.results_of_each(VECTOR.run("geometric", COUNT, [x, y, oracle.output(numpy.float32, COUNT, 12)], 16), 2):
        worst = numpy.abs(got - expected).max()
        assert worst < 4e-6, f"{who}: off by {worst}"
    oracle.need_facet()


def test_values(name, seed):
    """Values of a type that a conversion may handle wrongly."""
    kind, random = TYPES[name], oracle.random(seed)
    if numpy.dtype(kind).kind in "iu":
        info = numpy.iinfo(kind)
        values = random.integers(info.min, info.max, COUNT, kind, endpoint=True)
        values[:6] = [info.min, info.max, 0, 1, info.max // 2, info.max // 2 + 1]
        return values
    values = (random.uniform(-1, 1, COUNT) * 2.0 ** random.integers(0, 70, COUNT)).astype(kind)
    values[:14] = [0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 127.5, -128.5, 1e30, -1e30, 0.99999]
    return values


def round_to_integer(value, how):
    """A number rounded to an integer as `how` says."""
    return {"rte": round, "rtz": math.trunc, "rtp": math.ceil, "rtn": math.floor}[how](value)


@test
def conversions_to_integers_are_exact_or_saturate():
    for from_ in TYPES:
        x = test_values(from_, 5)
        exactly = [math.trunc(value) for value in x.tolist()]
        for to in list(TYPES)[:8]:
            info = numpy.iinfo(TYPES[to])
            bounded = [min(max(value, int(info.min)), int(info.max)) for value in exactly]
            results = CONVERT.run(f"{from_}_to_{to}", COUNT, [x, oracle.output(TYPES[to], COUNT),
                                                              oracle.output(TYPES[to], COUNT)], 16)
            oracle.exact(results, 2, numpy.array(bounded, TYPES[to]), f"{from_} to {to}, saturated", [x])
            if numpy.dtype(x.dtype).kind == "f":  # values that do not fit are undefined, and not compared
                fits = numpy.array([value == bound for value, bound in zip(exactly, bounded)])
                results = {who: {1: answers[1][fits]} for who, answers in results.items()}
                oracle.exact(results, 1, numpy.array(bounded, TYPES[to])[fits], f"{from_} to {to}", [x[fits]])
            else:
                mask = (1 << info.bits) - 1
                wrapped = numpy.array([value & mask for value in exactly], f"u{info.bits // 8}").view(TYPES[to])
                oracle.exact(results, 1, wrapped, f"{from_} to {to}", [x])
    oracle.need_facet()


def float_towards(value, kind, how):
    """An integer or a wider float, rounded to a float of `kind` as `how` says."""
    with numpy.errstate(over="ignore"):
        near = kind(value)
    back = int(near) if isinstance(value, int) else float(near)
    if how == "rte" or back == value or (isinstance(value, float) and math.isinf(value)):
        return near
    up = how == "rtp" or (how == "rtz" and value < 0)
    if up:
        return near if back > value else numpy.nextafter(near, kind(numpy.inf))
    return near if back < value else numpy.nextafter(near, kind(-numpy.inf))


@test
def conversions_round_in_every_mode():
    hows = ("rte", "rtz", "rtp", "rtn")
    for from_, to in [("float", "int"), ("float", "uchar"), ("double", "long"), ("int", "float"), ("ulong", "float"),
                      ("long", "double"), ("double", "float")]:
        x, kind = test_values(from_, 6), TYPES[to]
        if numpy.dtype(kind).kind in "iu":
            info = numpy.iinfo(kind)
            x = x[(x >= info.min + 1) & (x <= numpy.float64(info.max) * (1 - 1e-6) - 1)]
            rows = [[round_to_integer(value, how) for how in hows] + [math.trunc(value)] for value in x.tolist()]
        else:
            rows = [[float_towards(value, kind, how) for how in hows] + [kind(value)] for value in x.tolist()]
        results = CONVERT.run(f"{from_}_rounded_{to}", x.size, [x, oracle.output(kind, x.size, 5)])
        oracle.exact(results, 1, numpy.array(rows, kind), f"{from_} to {to}, rounded", [x])
    oracle.need_facet()


@test
def vectors_are_converted_and_reinterpreted():
    x = oracle.random(7).uniform(-300, 300, (COUNT, 4)).astype(numpy.float32)
    results = CONVERT.run("bits", COUNT, [x, oracle.output(numpy.int32, COUNT, 4), oracle.output(numpy.uint16, COUNT, 8)], 16)
    oracle.exact(results, 1, x.view(numpy.int32), "as_int4")
    oracle.exact(results, 2, x.view(numpy.uint16), "as_ushort8")
    results = CONVERT.run("vectors", COUNT, [x, oracle.output(numpy.uint8, COUNT, 4), oracle.output(numpy.float64, COUNT, 4)],
                          16)
    oracle.exact(results, 1, numpy.clip(numpy.rint(x), 0, 255), "convert_uchar4_sat_rte")
    oracle.exact(results, 2, x, "convert_double4")
    oracle.need_facet()


def floats(kind, seed, *shape):
    random = oracle.random(seed)
    special = numpy.array([0.0, -0.0, 1, -1, numpy.inf, -numpy.inf, numpy.nan, numpy.finfo(kind).tiny / 4, 2,
                           0.5], kind)
    return special[random.integers(0, len(special), shape)]


@test
def comparisons_and_classes_of_numbers_are_right():
    for name, kind in (("float", numpy.float32), ("double", numpy.float64)):
        x, y = floats(kind, 8, COUNT * 4), floats(kind, 9, COUNT * 4)
        nan = numpy.isnan(x) | numpy.isnan(y)
        normal = numpy.isfinite(x) & (numpy.abs(x) >= numpy.finfo(kind).tiny)
        expected = numpy.column_stack([
            x == y, x != y, x > y, x >= y, x < y, x <= y, (x < y) | (x > y), numpy.isfinite(x), numpy.isinf(x),
            numpy.isnan(x), normal, ~nan, nan, numpy.signbit(x),
            (x < y) + (x == y) * 2 + (x != y) * 4 + (x >= y) * 8 + (x == 0) * 16])
        results = RELATIONAL.run(f"compare_{name}", COUNT * 4, [x, y, oracle.output(numpy.int32, *expected.shape)], 16)
        oracle.exact(results, 2, expected, f"comparisons of {name}", [x, y])
    oracle.need_facet()


@test
def comparisons_of_vectors_give_masks():
    for name, kind, ikind in (("float", numpy.float32, numpy.int32), ("double", numpy.float64, numpy.int64)):
        x, y = floats(kind, 10, COUNT, 4), floats(kind, 11, COUNT, 4)
        less, nan = x < y, numpy.isnan(x)
        flags = numpy.column_stack([less.any(1), less.all(1), nan.any(1), numpy.signbit(x).all(1)])
        expected = numpy.stack([-less.astype(ikind), -((x == y) | nan).astype(ikind), flags.astype(ikind)], 1)
        picked = numpy.stack([numpy.where(less, y, x), numpy.where(less, x, y), numpy.copysign(x, y)], 1)
        results = RELATIONAL.run(f"vectors_{name}", COUNT, [x, y, oracle.output(ikind, COUNT, 3, 4),
                                                            oracle.output(kind, COUNT, 3, 4)], 16)
        oracle.exact(results, 2, expected, f"{name}4")
        oracle.exact(results, 3, picked, f"select of {name}4")
    oracle.need_facet()


tap.main()
