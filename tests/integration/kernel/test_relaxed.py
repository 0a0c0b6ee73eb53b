#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""With -cl-fast-relaxed-math, results on the host come from faster functions and are near the exact ones."""
import numpy

import oracle
import tap
from tap import test

SOURCE = """
#define ONE(f) kernel void k_##f(global const float *x, global float *y) \\
    { size_t i = get_global_id(0); y[i] = f(x[i]); }
ONE(sin) ONE(cos) ONE(tan) ONE(exp) ONE(exp2) ONE(exp10) ONE(log) ONE(log2) ONE(log10) ONE(sqrt) ONE(rsqrt)
ONE(native_sin) ONE(native_log)
kernel void k_powr(global const float *x, global const float *y, global float *z)
    { size_t i = get_global_id(0); z[i] = powr(x[i], y[i]); }
kernel void k_divide(global const float *x, global const float *y, global float *z)
    { size_t i = get_global_id(0); z[i] = x[i] / y[i]; }
kernel void k_vector(global const float4 *x, global float4 *y)
    { size_t i = get_global_id(0); y[i] = log2(x[i]) + powr(x[i], x[i]).wzyx; }
kernel void k_double(global const double *x, global double *y)
    { size_t i = get_global_id(0); y[i] = sin(x[i]); }
"""
COUNT = 1 << 14
# By function: the least and largest input, and the number of bits that must agree with the exact result.
ONE = {"sin": (-8000, 8000, 16), "cos": (-8000, 8000, 16), "tan": (-100, 100, 14), "exp": (-80, 80, 16),
       "exp2": (-120, 120, 16), "exp10": (-35, 35, 15), "log": (1e-30, 1e30, 16), "log2": (1e-30, 1e30, 16),
       "log10": (1e-30, 1e30, 16), "sqrt": (0, 1e30, 20), "rsqrt": (1e-30, 1e30, 20)}
REFERENCE = {"exp10": lambda x: numpy.longdouble(10) ** x, "rsqrt": lambda x: 1 / numpy.sqrt(x)}
PROGRAMS = {}


def program(*arguments):
    oracle.need_facet()
    if arguments not in PROGRAMS:
        PROGRAMS[arguments] = oracle.facet.Program(oracle.FACET, SOURCE, ["-cl-std=CL1.2", *arguments])
    return PROGRAMS[arguments]


def results_of(kernel, inputs, kind=numpy.float32, lanes=1):
    """The results without and with the option."""
    def run(*arguments):
        count = len(inputs[0]) // lanes
        given = [oracle.argument(values) for values in [*inputs, oracle.output(kind, len(inputs[0]))]]
        return program(*arguments).run(kernel, oracle.Range((count,), (16,)), given)[-1]

    return run(), run("-cl-fast-relaxed-math")


def inputs_of(low, high, seed):
    random = oracle.random(seed)
    if low > 0:  # over all exponents
        return numpy.exp(random.uniform(numpy.log(low), numpy.log(high), COUNT)).astype(numpy.float32)
    return random.uniform(low, high, COUNT).astype(numpy.float32)


def expect_agreement(got, expected, bits, what, at):
    error = numpy.abs(got.astype(numpy.longdouble) - expected) / numpy.abs(expected)
    worst = int(numpy.nanargmax(error))
    if not error[worst] < 2.0 ** -bits:
        raise AssertionError(f"{what}({at[worst]!r}): {got[worst]!r}, expected {expected[worst]!r} to {bits} bits")


def expect_near(name):
    low, high, bits = ONE[name]
    x = inputs_of(low, high, len(name))
    wide = x.astype(numpy.longdouble)
    expected = REFERENCE[name](wide) if name in REFERENCE else getattr(numpy, name)(wide)
    plain, fast = results_of(f"k_{name}", [x])
    # Near a zero of sine, cosine and tangent the result depends on many digits of pi: errors are measured against 1/16.
    least = 1 / 16 if name in ("sin", "cos", "tan") else 0
    for got, who in ((plain, "plain"), (fast, "fast")):
        far = numpy.abs(expected) > least
        expect_agreement(got[far], expected[far], bits, f"{who} {name}", x[far])
        if numpy.abs((got - expected)[~far]).max(initial=0) > 2.0 ** -bits / 16:
            raise AssertionError(f"{who} {name}: wrong near a zero")
    if name not in ("sqrt", "rsqrt"):
        tap.equal((plain != fast).any(), True, f"{name} is another function with the option")


@test
def fast_sin_cos_and_tan_are_near():
    for name in ("sin", "cos", "tan"):
        expect_near(name)


@test
def fast_exponentials_are_near():
    for name in ("exp", "exp2", "exp10"):
        expect_near(name)


@test
def fast_logarithms_are_near():
    for name in ("log", "log2", "log10"):
        expect_near(name)


@test
def fast_roots_are_near():
    for name in ("sqrt", "rsqrt"):
        expect_near(name)


@test
def fast_functions_give_the_results_that_programs_count_on():
    one = numpy.ones(16, numpy.float32)
    for name, x, expected in (("exp", 0, 1), ("exp2", 0, 1), ("exp2", 5, 32), ("log", 1, 0), ("log2", 8, 3),
                              ("sin", 0, 0), ("cos", 0, 1), ("exp", -200, 0), ("exp", 200, numpy.inf), ("log", 0, -numpy.inf)):
        _, fast = results_of(f"k_{name}", [one * numpy.float32(x)])
        tap.equal(float(fast[3]), float(expected), f"fast {name}({x})")
    huge = oracle.random(4).uniform(-3e38, 3e38, COUNT).astype(numpy.float32)
    for name in ("sin", "cos"):
        _, fast = results_of(f"k_{name}", [huge])
        tap.equal(bool((numpy.abs(fast) <= 1.001).all()), True, f"fast {name} of huge numbers is bounded")


@test
def fast_powers_are_near():
    random = oracle.random(5)
    x, y = (random.uniform(low, high, COUNT).astype(numpy.float32) for low, high in ((0.01, 50), (-10, 10)))
    expected = x.astype(numpy.longdouble) ** y
    plain, fast = results_of("k_powr", [x, y])
    expect_agreement(plain, expected, 20, "plain powr", x)
    expect_agreement(fast, expected, 12, "fast powr", x)
    tap.equal((plain != fast).any(), True, "powr is another function with the option")


@test
def fast_divisions_are_near():
    random = oracle.random(6)
    x, y = (random.uniform(0.01, 1000, COUNT).astype(numpy.float32) for _ in range(2))
    for got in results_of("k_divide", [x, y]):
        expect_agreement(got, x.astype(numpy.longdouble) / y, 20, "divide", x)


@test
def fast_functions_of_vectors_are_near():
    x = inputs_of(2, 10, 7)
    wide = x.astype(numpy.longdouble)
    power = (wide ** wide).reshape(-1, 4)[:, ::-1].reshape(-1)
    plain, fast = results_of("k_vector", [x], lanes=4)
    for got, bits in ((plain, 18), (fast, 12)):
        expect_agreement(got, numpy.log2(wide) + power, bits, "vector", x)
    tap.equal((plain != fast).any(), True, "vectors take another function with the option")


@test
def native_and_double_functions_are_unchanged():
    x = inputs_of(0.001, 1000, 8)
    for name in ("native_sin", "native_log"):
        plain, fast = results_of(f"k_{name}", [x])
        tap.equal(bool((plain == fast).all()), True, f"{name} is the same function")
    plain, fast = results_of("k_double", [x.astype(numpy.float64)], numpy.float64)
    tap.equal(bool((plain == fast).all()), True, "sin of double is the same function")


tap.main()
