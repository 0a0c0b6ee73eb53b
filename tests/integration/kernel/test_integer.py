#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of integers of all widths give exact results."""
import numpy

import oracle
import tap
from tap import test

TYPES = {"char": numpy.int8, "uchar": numpy.uint8, "short": numpy.int16, "ushort": numpy.uint16, "int": numpy.int32,
         "uint": numpy.uint32, "long": numpy.int64, "ulong": numpy.uint64}
COUNT = 256


class Width:
    """An integer type: its limits, test values, and its results, which are computed with Python's integers."""

    def __init__(self, kind):
        info = numpy.iinfo(kind)
        self.kind, self.bits, self.least, self.most = kind, info.bits, int(info.min), int(info.max)
        self.signed = self.least < 0

    def wrap(self, value):
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value

    def unsigned_bits(self, value):
        return value & ((1 << self.bits) - 1)

    def saturate(self, value):
        return min(max(value, self.least), self.most)

    def values(self, seed):
        random = oracle.random(seed)
        edges = [self.least, self.least + 1, -1, 0, 1, 2, self.most - 1, self.most, self.most // 3]
        edges = [self.wrap(edge) for edge in edges]
        picked = [int(value) for value in random.integers(self.least, self.most, COUNT, self.kind, endpoint=True)]
        small = [self.wrap(int(value)) for value in random.integers(-20, 20, COUNT)]
        return [edges[int(random.integers(len(edges)))] if which < 0.4 else small[i] if which < 0.6 else picked[i]
                for i, which in enumerate(random.random(COUNT))]


def divide(a, b):
    """The quotient rounded towards zero, as in C."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def operators(width, a, b, c):
    shift = b & (width.bits - 1)
    quotient = divide(a, c) if c else 0
    results = [a + b, a - b, a * b, quotient, a - quotient * c if c else 0, a & b, a | b, a ^ b, ~a, a << shift,
               a >> shift, -a if a < b else a]
    return [width.wrap(value) for value in results]


def functions(width, a, b, c):
    turn = b % width.bits
    turned = width.unsigned_bits(a) << turn | width.unsigned_bits(a) >> (width.bits - turn)
    low, high = min(b, c), max(b, c)
    results = [a * b >> width.bits, (a * b >> width.bits) + c, width.saturate(a * b + c), width.saturate(a + b),
               width.saturate(a - b), (a + b) >> 1, (a + b + 1) >> 1, turned,
               width.bits - width.unsigned_bits(a).bit_length(),
               bin(width.unsigned_bits(a)).count("1"), abs(a), abs(a - b), min(a, b), max(a, b), min(max(a, low), high),
               (a & ~c) | (b & c), b if c & 1 else a]
    return [width.wrap(value) for value in results]


def compare(source, name, reference):
    for kind, number in TYPES.items():
        width = Width(number)
        values = [width.values(seed) for seed in (1, 2, 3)]
        # The quotient of the least number and -1 does not fit, and is undefined.
        values[2] = [1 if c == -1 and a == width.least else c for a, c in zip(values[0], values[2])]
        expected = numpy.array([reference(width, *items) for items in zip(*values)], number)
        arrays = [numpy.array(items, number) for items in values]
        results = source.run(f"{name}_{kind}", COUNT, [*arrays, oracle.output(number, *expected.shape)], 32)
        oracle.exact(results, 3, expected, f"{name} of {kind}", arrays)


INTEGER = oracle.Source("integer")


@test
def operators_of_all_widths_are_exact():
    compare(INTEGER, "operators", operators)
    oracle.need_facet()


@test
def functions_of_all_widths_are_exact():
    compare(INTEGER, "functions", functions)
    oracle.need_facet()


def low24(value):
    value &= 0xffffff
    return value - (1 << 24) if value >> 23 else value


@test
def upsample_and_products_of_24_bits_are_exact():
    wide, short, tiny, int_ = (Width(kind) for kind in (numpy.int64, numpy.int32, numpy.int16, numpy.int32))
    a, b = Width(numpy.int32).values(4), Width(numpy.uint32).values(5)
    longs = [[wide.wrap(x << 32 | y), short.wrap(x << 16 | y & 0xffff), tiny.wrap(x << 8 | y & 0xff)]
             for x, y in zip(a, b)]
    ints = [[int_.wrap(value) for value in (low24(x) * low24(y), low24(x) * low24(y) + x,
                                            (x & 0xffffff) * (y & 0xffffff), (x & 0xffffff) * (y & 0xffffff) + y)]
            for x, y in zip(a, b)]
    arrays = [numpy.array(a, numpy.int32), numpy.array(b, numpy.uint32)]
    results = INTEGER.run("wider", COUNT, [*arrays, oracle.output(numpy.int64, COUNT, 3),
                                           oracle.output(numpy.int32, COUNT, 4)], 32)
    oracle.exact(results, 2, longs, "upsample", arrays)
    oracle.exact(results, 3, ints, "mul24 and mad24", arrays)
    oracle.need_facet()


tap.main()
