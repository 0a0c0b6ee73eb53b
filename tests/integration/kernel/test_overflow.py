#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sums, differences and products that may overflow: the bits that fit, and whether any were lost.

Owns: the proof for LLVM's functions that return both answers (llvm.*.with.overflow), of all widths, on the host and
through SPIR-V, which lacks these functions. The reference is Python's integers, which do not overflow.
"""
import shutil

import numpy

import facet
import oracle
import tap
from tap import test

OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
TYPES = {"char": numpy.int8, "uchar": numpy.uint8, "short": numpy.int16, "ushort": numpy.uint16, "int": numpy.int32,
         "uint": numpy.uint32, "long": numpy.int64, "ulong": numpy.uint64}
COUNT = 96
TEXT = "".join(f"""kernel void {name}_{type_}(global const {type_} *a, global const {type_} *b, global {type_} *out,
                                                global uchar *lost) {{
    size_t i = get_global_id(0);
    {type_} r;
    lost[i] = __builtin_{name}_overflow(a[i], b[i], &r);
    out[i] = r;
}}
""" for name in OPERATIONS for type_ in TYPES)


def operands(kind, seed):
    """The type's limits and their neighbours, the neighbours of the root of its range, and any numbers."""
    info, random = numpy.iinfo(kind), oracle.random(seed)
    root = 1 << (info.bits // 2)
    ends = [info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, info.min // 2, 0, 1, 2, root,
            root - 1, root + 1, root // 2]
    ends += [-1, -2, -root, -root + 1] if info.min else []
    some = random.integers(info.min, info.max, COUNT, kind, endpoint=True) >> random.integers(0, info.bits, COUNT, kind)
    values = [value for value in ends if info.min <= value <= info.max] + [int(value) for value in some]
    return random.permutation(numpy.array(values[:COUNT], kind))


def compare(run):
    for (name, operation), (type_, kind) in ((one, two) for one in OPERATIONS.items() for two in TYPES.items()):
        info = numpy.iinfo(kind)
        for seed in range(3):
            a, b = operands(kind, seed), operands(kind, seed + 100)
            exact = [operation(int(x), int(y)) for x, y in zip(a, b)]
            wrapped = [(value - info.min) % (1 << info.bits) + info.min for value in exact]
            lost = [value != left for value, left in zip(exact, wrapped)]
            results = run(f"{name}_{type_}", [a, b, oracle.output(kind, COUNT), oracle.output(numpy.uint8, COUNT)])
            oracle.exact(results, 2, numpy.array(wrapped, kind), f"{name} of {type_}", [a, b])
            oracle.exact(results, 3, lost, f"what {name} of {type_} loses", [a, b])


@test
def results_and_lost_bits_are_right():
    source = oracle.Source("overflow", text=TEXT)
    compare(lambda kernel, arguments: source.run(kernel, COUNT, arguments))
    oracle.need_facet()


@test
def results_and_lost_bits_are_right_at_all_levels():
    oracle.need_facet()
    for level in range(4):
        program = facet.Program(oracle.FACET, TEXT, [f"-O{level}"], spirv=None)
        compare(lambda kernel, arguments, program=program: {
            f"Facet at -O{level}": program.run(kernel, oracle.Range((COUNT,)), [oracle.argument(a) for a in arguments])})


@test
def results_and_lost_bits_are_right_through_spirv():
    oracle.need_facet()
    if not shutil.which("llvm-spirv-15") and not shutil.which("llvm-spirv"):
        raise tap.Skip("llvm-spirv, which reads SPIR-V, is not installed")
    for level in range(4):
        program = facet.Program(oracle.FACET, TEXT, [], spirv=level)
        compare(lambda kernel, arguments, program=program: {
            f"SPIR-V of -O{level}": program.run(kernel, oracle.Range((COUNT,)), [oracle.argument(a) for a in arguments])})


tap.main()
