#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of special values, compared with the C library: signs of zeros, infinities, NaN and
subnormals.

Owns: proofs for the edge cases of C99, F.10, and OpenCL 1.2, section 7.5, in scalars and vectors. test_math.py checks
the bounds for all other numbers.
"""
import math

import numpy

import libm
import oracle
import tap
from libm import in_half_turns, unary, binary
from tap import test

TYPES = {"float": numpy.float32, "double": numpy.float64}
WIDTHS = (1, 2, 3, 16)
ALONE = "kernel __attribute__((reqd_work_group_size(1, 1, 1)))"

# By function: the reference, and the bound in units of the last place. The references compute in double, and may be off
# by a unit themselves.
ONE = {
    "acos": (unary("acos"), 4), "acosh": (unary("acosh"), 4), "acospi": (in_half_turns(unary("acos")), 5),
    "asin": (unary("asin"), 4), "asinh": (unary("asinh"), 4), "asinpi": (in_half_turns(unary("asin")), 5),
    "atan": (unary("atan"), 5), "atanh": (unary("atanh"), 5), "atanpi": (in_half_turns(unary("atan")), 5),
    "cbrt": (unary("cbrt"), 2), "ceil": (unary("ceil"), 0), "cos": (unary("cos"), 4), "cosh": (unary("cosh"), 4),
    "cospi": (libm.cospi, 4), "erf": (unary("erf"), 16), "erfc": (unary("erfc"), 16), "exp": (unary("exp"), 3),
    "exp2": (unary("exp2"), 3), "exp10": (unary("exp10"), 3), "expm1": (unary("expm1"), 3), "fabs": (unary("fabs"), 0),
    "floor": (unary("floor"), 0), "lgamma": (unary("lgamma"), 64), "log": (unary("log"), 3), "log2": (unary("log2"), 3),
    "log10": (unary("log10"), 3), "log1p": (unary("log1p"), 2), "logb": (unary("logb"), 0), "rint": (unary("rint"), 0),
    "round": (unary("round"), 0), "rsqrt": (libm.rsqrt, 2), "sin": (unary("sin"), 4), "sinh": (unary("sinh"), 4),
    "sinpi": (libm.sinpi, 4), "sqrt": (unary("sqrt"), 3), "tan": (unary("tan"), 5), "tanh": (unary("tanh"), 5),
    "tanpi": (libm.tanpi, 6), "tgamma": (unary("tgamma"), 16), "trunc": (unary("trunc"), 0),
}
TWO = {
    "atan2": (binary("atan2"), 6), "atan2pi": (in_half_turns(binary("atan2")), 6), "copysign": (binary("copysign"), 0),
    "fmax": (binary("fmax"), 0), "fmin": (binary("fmin"), 0), "fmod": (binary("fmod"), 0),
    "hypot": (binary("hypot"), 4), "maxmag": (libm.by_size(True, "fmax"), 0),
    "minmag": (libm.by_size(False, "fmin"), 0),
    "pow": (binary("pow"), 16), "powr": (libm.powr, 16), "remainder": (binary("remainder"), 0),
}
OF_TYPE = ("fdim", "nextafter")
# Functions with a second result: a reference that returns both results, and their bound.
PAIRS = {
    "frexp": (libm.function_with_pointer("frexp", libm.c_int), 0),
    "modf": (libm.function_with_pointer("modf", libm.c_double), 0),
    "sincos": (lambda x: (unary("sin")(x), unary("cos")(x)), 4),
    "lgamma_r": (libm.function_with_pointer("lgamma_r", libm.c_int), 64),
}
# Functions of a number and a whole number.
WHOLE = {"ldexp": (lambda x, n: function_ldexp(x, n), 0), "pown": (lambda x, n: binary("pow")(x, float(n)), 16),
         "rootn": (libm.rootn, 16)}
function_ldexp = libm.function("ldexp", libm.c_double, libm.c_double, libm.c_int)
EXPONENTS = (0, 1, -1, 2, -2, 3, -3, 24, 53, 149, -149, 1074, -1074, 1075, 2 ** 30, -2 ** 30, libm.INT_MAX, -libm.INT_MAX)


def zeros_of_both_signs(x, y):
    """C99, F.10.9.2, and therefore OpenCL too, leaves open which of two zeros is the larger."""
    return (x == 0) & (y == 0)


EITHER_ZERO = {"fmax": zeros_of_both_signs, "fmin": zeros_of_both_signs, "maxmag": zeros_of_both_signs,
               "minmag": zeros_of_both_signs}


def kernel(name, type_, width, inputs, second=None):
    """A kernel that calls one function with vectors of one width; a second result goes through a pointer. Work-groups have
    one work-item, because code for many items at once, which no test here would run, takes three times as long to
    compile."""
    of = type_ if width == 1 else f"{type_}{width}"
    loads = [f"{'xy'[i]}[i]" if width == 1 else f"vload{width}(i, {'xy'[i]})" for i in range(len(inputs))]
    given = "".join(f"global const {kind} *{'xy'[i]}, " for i, kind in enumerate(inputs))

    def store(what, where):
        return f"{where}[i] = {what};" if width == 1 else f"vstore{width}({what}, i, {where});"

    if not second:
        return (f"{ALONE} void {name}_{width}({given}global {type_} *out) {{ size_t i = get_global_id(0); "
                + store(f"{name}({', '.join(loads)})", "out") + " }\n")
    other = second if width == 1 else f"{second}{width}"
    return (f"{ALONE} void {name}_{width}({given}global {type_} *out, global {second} *also) {{ "
            f"size_t i = get_global_id(0); {other} more; {of} result = {name}({', '.join(loads)}, &more); "
            + store("result", "out") + store("more", "also") + " }\n")


def source(type_):
    kernels = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    for width in WIDTHS:
        for name in ONE:
            kernels += kernel(name, type_, width, [type_])
        for name in (*TWO, *OF_TYPE):
            kernels += kernel(name, type_, width, [type_, type_])
        for name in WHOLE:
            kernels += kernel(name, type_, width, [type_, "int"])
        for name in (*PAIRS, "fract"):
            kernels += kernel(name, type_, width, [type_], "int" if name in ("frexp", "lgamma_r") else type_)
        kernels += kernel("remquo", type_, width, [type_, type_], "int")
    return kernels


_SOURCES = {}


def program(type_):
    if type_ not in _SOURCES:
        _SOURCES[type_] = oracle.Source(f"special values of {type_}", text=source(type_))
    return _SOURCES[type_]


def special(kind):
    """48 values of both signs that a function may treat specially. 48 is a multiple of all widths."""
    limits = numpy.finfo(kind)
    one_ = kind(1)
    some = [0, limits.smallest_subnormal, 3 * limits.smallest_subnormal, limits.tiny - limits.smallest_subnormal,
            limits.tiny, limits.eps / 4, 0.25, 0.5, numpy.nextafter(one_, kind(0)), 1, numpy.nextafter(one_, kind(2)), 1.5,
            2, 2.5, 3, 10, 23.5, 40, 171, 1000.5, 1 / limits.eps - 1, 2 / limits.eps, limits.max, numpy.inf]
    some = numpy.array(some, kind)
    values = numpy.concatenate([some, -some])
    values[-2] = numpy.nan  # replaces -max, which tests nothing more
    return values


def references(name, called, arrays, kind):
    wide = [[value.item() for value in array] for array in arrays]
    return [called(*items) for items in zip(*wide)]


def wrong_places(name, got, expected, bound, inputs):
    """The places of results beyond the bound, of another sign, or of a number instead of a NaN."""
    if got.dtype.kind == "i":
        return got != expected
    with numpy.errstate(all="ignore"):
        narrow = expected.astype(got.dtype)
        if bound == 0:
            wrong = got != narrow
        elif name.startswith("lgamma"):  # near its zeros the absolute error counts, else the relative one
            scale = numpy.finfo(got.dtype).eps * numpy.maximum(1, numpy.abs(narrow))
            wrong = ~(numpy.abs(got - narrow) <= bound * scale)
            wrong &= got != narrow
        else:
            wrong = oracle.distance(got, expected.astype(numpy.longdouble)) > bound
        wrong |= numpy.signbit(got) != numpy.signbit(narrow)
        none = numpy.isnan(narrow)
        wrong = numpy.where(none, ~numpy.isnan(got), wrong)
    return wrong & ~EITHER_ZERO[name](*inputs) if name in EITHER_ZERO else wrong


def judge(name, width, got, expected, bound, inputs):
    wrong = wrong_places(name, got, numpy.array(expected), bound, inputs)
    if wrong.any():
        what = f"{name}, vectors of {width}" if width > 1 else name
        return [f"{what}: {wrong.sum()} of {wrong.size} wrong: "
                + oracle.describe_wrong(wrong, got, numpy.array(expected), inputs)]
    return []


def faults_of(name, type_, called, bound, arrays, second=None):
    """The wrong results of one function, in all widths."""
    kind, faults = TYPES[type_], []
    expected = references(name, called, arrays, kind)
    columns = [numpy.array(column) for column in zip(*expected)] if second else [numpy.array(expected)]
    for width in WIDTHS:
        outs = [oracle.output(kind, arrays[0].size)] + ([oracle.output(second, arrays[0].size)] if second else [])
        results = program(type_).run(f"{name}_{width}", arrays[0].size // width, [*arrays, *outs], 1, only="Facet")
        for answers in results.values():
            for place, column in enumerate(columns):
                faults += judge(name, width, answers[len(arrays) + place], column, bound, arrays)
    return faults


def pairs_of(first, second):
    return [numpy.ascontiguousarray(part.ravel()) for part in numpy.meshgrid(first, second, indexing="ij")]


def fail_with(faults):
    if faults:
        raise AssertionError("\n".join(faults))


def by_type(check):
    """Makes a test of `check` for each type."""
    def run(type_):
        oracle.need_facet()
        fail_with([line for lines in check(type_) for line in lines])

    for type_ in TYPES:
        def named(type_=type_):
            run(type_)
        named.__name__ = f"{type_}_{check.__name__}"
        test(named)
    return check


@by_type
def functions_of_one_number_are_right(type_):
    values = special(TYPES[type_])
    for name, (called, bound) in ONE.items():
        bound = 0.5 if name == "sqrt" and type_ == "double" else bound
        yield faults_of(name, type_, called, bound + (1 if bound else 0), [values])


@by_type
def functions_of_two_numbers_are_right(type_):
    values = special(TYPES[type_])
    for name, (called, bound) in TWO.items():
        yield faults_of(name, type_, called, bound + (1 if bound else 0), pairs_of(values, values))
    for name in OF_TYPE:
        yield faults_of(name, type_, libm.of_type(name, type_), 0, pairs_of(values, values))


@by_type
def functions_with_a_whole_number_are_right(type_):
    values, exponents = special(TYPES[type_]), numpy.array(EXPONENTS, numpy.int32)
    for name, (called, bound) in WHOLE.items():
        yield faults_of(name, type_, called, bound, pairs_of(values, exponents))


@by_type
def functions_with_two_results_are_right(type_):
    values = special(TYPES[type_])
    for name, (called, bound) in PAIRS.items():
        second = numpy.int32 if name in ("frexp", "lgamma_r") else TYPES[type_]
        yield faults_of(name, type_, called, bound + (1 if bound else 0), [values], second)
    below = numpy.nextafter(TYPES[type_](1), TYPES[type_](0)).item()
    yield faults_of("fract", type_, lambda x: (libm.fract(x, below), unary("floor")(x)), 0, [values], TYPES[type_])


@by_type
def remainders_and_quotients_are_right(type_):
    """The remainder must be exact; of the quotient, the sign and the last seven bits must be right."""
    values = special(TYPES[type_])
    yield faults_of("remquo", type_, libm.remquo, 0, pairs_of(values, values), numpy.int32)


tap.main()
