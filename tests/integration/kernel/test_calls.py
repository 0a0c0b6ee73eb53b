#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels with so many calls that the functions are not inlined give the same bytes as kernels with inlined functions.

Owns: calls in each kind of control flow. Never: judges what a function computes; test_math.py and others do.
"""
import random

import numpy

import oracle
import tap
from picture import CLAMP, FLOAT, LINEAR, NEAREST, REPEAT, RGBA, Image, Sampler
from tap import test

ITEMS = 296
CALLS = 80
ONE = ("sin", "cos", "tan", "exp", "log", "lgamma", "tgamma", "erf", "sinh", "tanh", "asin", "cbrt", "expm1")
TWO = ("pow", "atan2", "fmod", "remainder", "hypot", "nextafter")
FLOATS = {"float": numpy.float32, "double": numpy.float64}
WORDS = {"float": ("uint", numpy.uint32), "double": ("ulong", numpy.uint64)}


def call(choice, kind, at):
    """A call without constants, which LLVM would fold as if the processor had fused multiplication and addition."""
    name = choice.choice(ONE + TWO)
    arguments = [choice.choice(("x", "y", "x + y", "u", f"x * {at % 9}.5f"))]
    if name in TWO:
        arguments.append(choice.choice(("x", "y", "u")))
    return f"{name}({', '.join(f'({kind})({argument})' for argument in arguments)})"


def line(choice, kind, at):
    """A line with a call that all items make, that some items make, or that all items of a group or none make; or with
    a call in a loop, or a call of vectors."""
    once = f"r = (r ^ BITS({call(choice, kind, at)})) * 3;"
    return choice.choice((
        once, once, f"if (in[i] & {1 << at % 20}) {{ {once} }}", f"if (n & {1 << at % 4}) {{ {once} }}",
        f"for (int q = 0; q < (int)(in[i] & 3); q++) {{ {once} y += 1; }}",
        f"r += in[i] & 64 ? BITS({call(choice, kind, at)}) : {at};",
        f"{{ {kind}4 v = {choice.choice(ONE)}(({kind}4)(x, y, u, x - y)); r ^= BITS(v.x) + BITS(v.w); }}"))


def kernel(seed, kind):
    choice, word = random.Random(seed), WORDS[kind][0]
    lines = "\n".join(line(choice, kind, at) for at in range(CALLS))
    return (f"{word} BITS({kind} x) {{ return isnan(x) ? 1 : as_{word}(x); }}\n"
            f"kernel void k(global const {word} *in, global {word} *out, int n, {kind} u)\n"
            f"{{ int i = get_global_id(0); {kind} x = as_{kind}(in[i]), y = as_{kind}(in[i ^ 1]); {word} r = 0;\n"
            f"{lines}\nout[i] = r; }}\n")


def numbers(seed, kind):
    """Numbers of usual sizes, except that every third number has random bits."""
    word = WORDS[kind][1]
    given = oracle.random(seed)
    data = given.uniform(-30, 30, ITEMS).astype(FLOATS[kind]).view(word)
    data[::3] = given.integers(0, numpy.iinfo(word).max, data[::3].size, word, endpoint=True)
    return data


@test
def called_functions_give_the_same_bytes_as_inlined_ones():
    oracle.need_facet()
    for seed, kind, group in ((1, "float", 8), (2, "float", 37), (3, "double", 148), (4, "float", 1)):
        text, results = kernel(seed, kind), []
        for how in ([], ["-cl-opt-disable"]):
            program = oracle.facet.Program(oracle.FACET, text, ["-cl-std=CL1.2", *how])
            given = [oracle.Buffer(numbers(seed, kind)), oracle.output(WORDS[kind][1], ITEMS),
                     oracle.Value(numpy.int32(5)), oracle.Value(numbers(seed, kind).view(FLOATS[kind])[1])]
            results.append(program.run("k", oracle.Range((ITEMS,), (group,)), given)[1])
        wrong = results[0] != results[1]
        assert not wrong.any(), f"seed {seed}: " + oracle.describe_wrong(wrong, results[0], results[1], [])


READS = """
constant sampler_t fixed = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
float4 at(read_only image2d_t image, sampler_t sampler, int i, int j)
{ float2 place = (float2)((i * 7 + j) % 11 - 2.25f, j * 0.375f - i * 0.125f);
  return j % 3 ? read_imagef(image, sampler, place)
       : j % 2 ? read_imagef(image, fixed, place) : read_imagef(image, fixed, convert_int2(place)); }
kernel void one(read_only image2d_t image, sampler_t sampler, global float4 *out)
{ int i = get_global_id(0), j = get_global_id(1); out[j * get_global_size(0) + i] = at(image, sampler, i, j); }
kernel void many(read_only image2d_t image, sampler_t sampler, global float4 *out)
{ int i = get_global_id(0), size = get_global_size(0);
"""


@test
def many_reads_of_an_image_give_the_same_as_one():
    oracle.need_facet()
    count, items = 24, 21
    body = "".join(f"if ((i & {j % 4}) == 0 || i > 3) out[{j} * size + i] = at(image, sampler, i, {j}); "
                   f"else out[{j} * size + i] = at(image, sampler, i, {j});\n" for j in range(count))
    program = oracle.facet.Program(oracle.FACET, READS + body + "}\n", ["-cl-std=CL1.2"])
    image = Image(oracle.random(7).uniform(-2, 2, (5, 7, 4)).astype(numpy.float32), RGBA, FLOAT)
    for address, filter_, normalized in ((CLAMP, LINEAR, 0), (REPEAT, LINEAR, 1), (CLAMP, NEAREST, 0)):
        results = [program.run(name, oracle.Range(size, None),
                               [image, Sampler(normalized, address, filter_),
                                oracle.output(numpy.float32, count, items, 4)])[2]
                   for name, size in (("one", (items, count)), ("many", (items,)))]
        wrong = results[0] != results[1]
        assert not wrong.any(), f"sampler {address:#x}: " + oracle.describe_wrong(wrong, results[1], results[0], [])


tap.main()
