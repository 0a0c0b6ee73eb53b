#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Functions of float and double keep the bounds of the OpenCL 1.2 specification, section 7.4."""
import math
from fractions import Fraction

import numpy

import oracle
import tap
from tap import test

WIDE = numpy.longdouble
PI = WIDE("3.14159265358979323846264338327950288")
TYPES = {"float": numpy.float32, "double": numpy.float64}


def by_python(function):
    """Wraps Python's function, of double, since numpy has none of long double. It is exact to about half a unit."""
    def call(x):
        try:
            return function(float(x))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return lambda *values: numpy.array([call(*items) for items in zip(*values)], WIDE)


def gamma(x):
    if abs(x) <= 2 ** -1024:
        return math.copysign(math.inf, x)
    return math.nan if x == -math.inf or (x < 0 and x == math.floor(x)) else math.gamma(x)


def of_half_turn(function):
    """A function of an angle in half turns. Whole turns are subtracted first, which is exact."""
    def call(x):
        rest = numpy.fmod(x, WIDE(2))
        return function(rest)

    return call


def sinpi(x):
    whole = numpy.rint(x)
    return numpy.where(numpy.fmod(whole, 2) == 0, 1, -1) * numpy.sin((x - whole) * PI)


def cospi(x):
    """The cosine of x half turns. Near 0.5 it is computed as the sine of the distance from 0.5."""
    whole = numpy.rint(x)
    rest = numpy.abs(x - whole)
    near = numpy.where(rest > 0.25, numpy.sin((WIDE(0.5) - rest) * PI), numpy.cos(rest * PI))
    return numpy.where(numpy.fmod(whole, 2) == 0, 1, -1) * near


def tanpi(x):
    """The tangent of x half turns. At 0.5 the result is an infinity of either sign, which the caller must allow."""
    return sinpi(x) / cospi(x)


def rounded(x):
    """The nearest whole number; halves are rounded away from zero."""
    whole = numpy.trunc(x)
    return whole + numpy.where(numpy.abs(x - whole) >= 0.5, numpy.sign(x), 0)


def logb(x):
    return numpy.where(x == 0, -numpy.inf, numpy.where(numpy.isfinite(x), numpy.floor(numpy.log2(numpy.abs(x))),
                                                       numpy.abs(x)))


# By name: the reference, and the bound for float in units of the last place. Bounds for double are the same, unless
# DOUBLE has another.
ONE = {
    "acos": (numpy.arccos, 4), "acosh": (numpy.arccosh, 4), "acospi": (lambda x: numpy.arccos(x) / PI, 5),
    "asin": (numpy.arcsin, 4), "asinh": (numpy.arcsinh, 4), "asinpi": (lambda x: numpy.arcsin(x) / PI, 5),
    "atan": (numpy.arctan, 5), "atanh": (numpy.arctanh, 5), "atanpi": (lambda x: numpy.arctan(x) / PI, 5),
    "cbrt": (numpy.cbrt, 2), "ceil": (numpy.ceil, 0), "cos": (numpy.cos, 4), "cosh": (numpy.cosh, 4),
    "cospi": (of_half_turn(cospi), 4), "erf": (by_python(math.erf), 16), "erfc": (by_python(math.erfc), 16),
    "exp": (numpy.exp, 3), "exp2": (numpy.exp2, 3), "exp10": (lambda x: numpy.power(WIDE(10), x), 3),
    "expm1": (numpy.expm1, 3), "fabs": (numpy.abs, 0), "floor": (numpy.floor, 0), "log": (numpy.log, 3),
    "log2": (numpy.log2, 3), "log10": (numpy.log10, 3), "log1p": (numpy.log1p, 2), "logb": (logb, 0),
    "rint": (numpy.rint, 0), "round": (rounded, 0), "rsqrt": (lambda x: 1 / numpy.sqrt(x), 2), "sin": (numpy.sin, 4),
    "sinh": (numpy.sinh, 4), "sinpi": (of_half_turn(sinpi), 4), "sqrt": (numpy.sqrt, 3), "tan": (numpy.tan, 5),
    "tanh": (numpy.tanh, 5), "tanpi": (of_half_turn(tanpi), 6), "tgamma": (by_python(gamma), 16),
    "trunc": (numpy.trunc, 0),
}


def hypotenuse(x, y):
    return numpy.where(numpy.isinf(x) | numpy.isinf(y), numpy.inf, numpy.hypot(x, y))


def by_size(bigger, same):
    def call(x, y):
        a, b = numpy.abs(x), numpy.abs(y)
        return numpy.where(bigger(a, b), x, numpy.where(bigger(b, a), y, same(x, y)))

    return call


def remainder(x, y):
    return numpy.array([math.remainder(float(a), float(b)) if math.isfinite(a) and not math.isnan(b) and b != 0
                        else math.nan for a, b in zip(x, y)], WIDE)


def powr(x, y):
    """IEEE 754's exp(y log x), so 0 to the 0, infinity to the 0 and 1 to an infinity are NaN."""
    undefined = (x < 0) | ((y == 0) & ((x == 0) | numpy.isinf(x))) | ((x == 1) & numpy.isinf(y)) | numpy.isnan(y)
    return numpy.where(undefined | numpy.isnan(x), numpy.nan, numpy.power(numpy.abs(x), y))


TWO = {
    "atan2": (numpy.arctan2, 6), "atan2pi": (lambda x, y: numpy.arctan2(x, y) / PI, 6),
    "copysign": (numpy.copysign, 0), "fdim": (lambda x, y: numpy.where(x <= y, 0, x - y), 0.5),
    "fmax": (numpy.fmax, 0), "fmin": (numpy.fmin, 0), "fmod": (numpy.fmod, 0), "hypot": (hypotenuse, 4),
    "maxmag": (by_size(numpy.greater, numpy.fmax), 0), "minmag": (by_size(numpy.less, numpy.fmin), 0),
    "pow": (numpy.power, 16), "powr": (powr, 16), "remainder": (remainder, 0),
}

DOUBLE = {"sqrt": 0.5}
# Functions for which PoCL 3.1 exceeds the bounds; for these Facet is compared with the reference alone.
NOT_POCL = {("tgamma", "double")}  # next to its poles
# Functions for which Facet exceeds the bounds.
NOT_FACET = set()
SOURCE = oracle.Source("math")


def values(kind, seed, count=4096):
    """Numbers of all exponents, of usual sizes, between -1 and 1, whole numbers and halves, and special values; but no
    subnormal floats, which a device may treat as 0."""
    random = oracle.random(seed)
    bits = random.integers(0, 2 ** (8 * numpy.dtype(kind).itemsize), count, numpy.uint64)
    anything = bits.astype(f"u{numpy.dtype(kind).itemsize}").view(kind)
    special = numpy.array([0.0, -0.0, 1, -1, numpy.inf, -numpy.inf, numpy.nan, 0.5, -0.5, 2.5, 3.5, 1e-20, 88.7,
                           -103.9], kind)
    usual = random.uniform(-10, 10, count).astype(kind)
    small = random.uniform(-1, 1, count).astype(kind)
    wholes = (random.integers(-40, 40, count) / 2).astype(kind)
    picked = numpy.choose(random.integers(0, 5, count), [anything, usual, small, wholes,
                                                         special[random.integers(0, len(special), count)]])
    picked[:len(special)] = special
    if kind == numpy.float32:
        picked[numpy.abs(picked) < numpy.finfo(kind).tiny] = 0
    return picked.astype(kind)


def checked_implementations(name, type_):
    beyond = {"PoCL": NOT_POCL, "Facet": NOT_FACET}
    return tuple(who for who, names in beyond.items() if (name, type_) not in names)


def run(name, type_, arrays):
    out = oracle.output(TYPES[type_], arrays[0].size)
    return SOURCE.run(f"{name}_{type_}", arrays[0].size, [*arrays, out], 64)


def compare(name, reference, bound, arrays, type_):
    with numpy.errstate(all="ignore"):
        expected = reference(*[array.astype(WIDE) for array in arrays])
    if name == "tanpi":  # its poles may have either sign
        keep = numpy.isfinite(expected)
        arrays, expected = [array[keep][:2048] for array in arrays], expected[keep][:2048]
    bound = DOUBLE.get(name, bound) if type_ == "double" else bound
    oracle.near(run(name, type_, arrays), len(arrays), expected, bound, f"{name} of {type_}", arrays,
                checked_implementations(name, type_))


def compare_all(functions, type_, arrays):
    """Compares all functions, then reports all wrong ones together."""
    wrong = []
    for name, (reference, bound) in functions.items():
        try:
            compare(name, reference, bound, arrays, type_)
        except AssertionError as failure:
            wrong.append(str(failure))
    if wrong:
        raise AssertionError("\n".join(wrong))
    oracle.need_facet()


@test
def float_functions_of_one_number_keep_their_bounds():
    compare_all(ONE, "float", [values(numpy.float32, 1)])


@test
def double_functions_of_one_number_keep_their_bounds():
    compare_all(ONE, "double", [values(numpy.float64, 2)])


@test
def float_functions_of_two_numbers_keep_their_bounds():
    compare_all(TWO, "float", [values(numpy.float32, 3), values(numpy.float32, 4)])


@test
def double_functions_of_two_numbers_keep_their_bounds():
    compare_all(TWO, "double", [values(numpy.float64, 5), values(numpy.float64, 6)])


def double_powers(seed, count):
    """Bases of all sizes, bases near 1, and negative bases, each with an exponent for which the power is finite. Large
    exponents magnify the error of a base's logarithm most."""
    random = oracle.random(seed)
    anything = numpy.abs(values(numpy.float64, seed, count))
    near = 1 + numpy.ldexp(random.uniform(-1, 1, count), -random.integers(0, 52, count))
    x = numpy.where(random.integers(0, 2, count) == 0, anything, near)
    with numpy.errstate(all="ignore"):
        y = random.uniform(-1100, 1100, count) / numpy.log2(x)
    y = numpy.where(numpy.isfinite(y), y, random.uniform(-2, 2, count))
    whole = (numpy.abs(y) > 1) & (random.integers(0, 4, count) == 0)
    return numpy.where(whole & (random.integers(0, 2, count) == 0), -x, x), numpy.where(whole, numpy.rint(y), y)


@test
def finite_powers_of_double_keep_their_bounds():
    x, y = double_powers(15, 16384)
    compare_all({name: TWO[name] for name in ("pow", "powr")}, "double", [x, y])
    a = numpy.abs(x)
    compare_all({"powr": TWO["powr"]}, "double", [a, y])


@test
def gamma_of_double_between_its_poles_keeps_its_bound():
    """Compares whole numbers, their neighbours, numbers with finite results, and small numbers. Up to 21, factorials
    must be exact."""
    random, count = oracle.random(16), 16384
    usual = random.uniform(-186, 172, count)
    near = numpy.rint(usual) * (1 + numpy.ldexp(random.uniform(-1, 1, count), -random.integers(4, 53, count)))
    small = numpy.ldexp(random.uniform(-1, 1, count), -random.integers(0, 1080, count))
    x = numpy.choose(random.integers(0, 4, count), [usual, near, small, numpy.rint(usual)])
    compare_all({"tgamma": ONE["tgamma"]}, "double", [x])
    wholes = numpy.arange(1, 65, dtype=numpy.float64)
    expected = numpy.array([math.factorial(n) for n in range(22)], numpy.float64)
    for who, got in oracle.results_of_each(run("tgamma", "double", [wholes]), 1):
        assert who != "Facet" or (got[:22] == expected).all(), f"{who}: {got[:22]} is not {expected}"


@test
def nextafter_is_exact():
    for type_, kind in TYPES.items():
        x, y = values(kind, 7), values(kind, 8)
        expected = numpy.nextafter(x, y)
        keep = numpy.abs(expected) >= numpy.finfo(kind).tiny
        x, y, expected = x[keep][:2048], y[keep][:2048], expected[keep][:2048]
        oracle.exact(run("nextafter", type_, [x, y]), 2, expected, f"nextafter of {type_}", [x, y])
    oracle.need_facet()


@test
def lgamma_is_near_the_logarithm_of_gamma():
    """The specification has no bound for lgamma. Near its zeros the absolute error counts."""
    for type_, kind in TYPES.items():
        x = numpy.abs(values(kind, 9))
        x = x[numpy.isfinite(x) & (x > 0) & (x < 1e30)][:1024]
        expected = numpy.array([math.lgamma(float(value)) for value in x])
        for who, got in oracle.results_of_each(run("lgamma", type_, [x]), 1):
            away = numpy.abs(got - expected) / numpy.maximum(1, numpy.abs(expected))
            worst = int(away.argmax())
            assert away[worst] <= 64 * numpy.finfo(kind).eps, f"{who}: lgamma({x[worst]}) is {got[worst]}"
    oracle.need_facet()


@test
def arithmetic_keeps_its_bounds():
    for type_, kind in TYPES.items():
        x, y = values(kind, 10), values(kind, 11)
        a, b = x.astype(WIDE), y.astype(WIDE)
        with numpy.errstate(all="ignore"):
            expected = [x + y, x - y, x * y, a / b, numpy.minimum(numpy.maximum(x, -1), 1),
                        numpy.where(numpy.isnan(x), 0, numpy.sign(x)), numpy.where(y < x, 0, 1), a * 180 / PI]
        results = SOURCE.run(f"arithmetic_{type_}", x.size, [x, y, oracle.output(kind, x.size, 8)], 64)
        bounds = [0.5, 0.5, 0.5, 2.5 if type_ == "float" else 0.5, 0, 0, 0, 2]
        for index, bound in enumerate(bounds):
            if index == 4:  # clamp() of a NaN is not defined
                continue
            column = {who: {2: numpy.ascontiguousarray(answers[2][:, index])} for who, answers in results.items()}
            oracle.near(column, 2, expected[index], bound, f"arithmetic {index} of {type_}", [x, y])
    oracle.need_facet()


def parts_expected(x, y, kind):
    a, b = x.astype(WIDE), y.astype(WIDE)
    with numpy.errstate(all="ignore"):
        whole, (mantissa, exponent) = numpy.trunc(a), numpy.frexp(a)
        rest = numpy.where(numpy.isinf(a), numpy.copysign(0, a), a - whole)
        below = numpy.nextafter(kind(1), kind(0))
        fraction = numpy.where(numpy.isinf(a), numpy.copysign(0, a), numpy.minimum(a - numpy.floor(a), WIDE(below)))
        columns = [(rest, 0), (whole, 0), (mantissa, 0), (a * 8, 0), (numpy.sin(a), 4), (numpy.cos(a), 4),
                   (fraction, 0.5), (a * b + a, 1 if kind == numpy.float64 else 0.5), (a * a * a, 16),
                   (numpy.cbrt(numpy.abs(a)), 16)]
    return columns, numpy.where(numpy.isfinite(a), exponent, 0)


def quotient_bits(x, y):
    """The last three bits of the whole number nearest to x / y."""
    if not (math.isfinite(x) and math.isfinite(y)) or y == 0:
        return 0
    return abs(round(Fraction(float(x)) / Fraction(float(y)))) & 7


@test
def all_results_of_functions_with_several_keep_their_bounds():
    for type_, kind in TYPES.items():
        x, y = values(kind, 12), values(kind, 13)
        columns, exponents = parts_expected(x, y, kind)
        results = SOURCE.run(f"parts_{type_}", x.size, [x, y, oracle.output(kind, x.size, 10),
                                                        oracle.output(numpy.int32, x.size, 3)], 64)
        for index, (expected, bound) in enumerate(columns):
            column = {who: {2: numpy.ascontiguousarray(answers[2][:, index])} for who, answers in results.items()}
            oracle.near(column, 2, expected, bound, f"part {index} of {type_}", [x, y])
        finite = numpy.isfinite(x) & (x != 0)
        bits = [quotient_bits(*items) for items in zip(x, y)]
        for who, answers in results.items():
            numpy.testing.assert_array_equal(answers[3][:, 0], exponents, f"{who}: frexp's exponent of {type_}")
            numpy.testing.assert_array_equal(answers[3][finite, 1], exponents[finite] - 1, f"{who}: ilogb of {type_}")
            numpy.testing.assert_array_equal(answers[3][:, 2], bits, f"{who}: remquo of {type_}")
    oracle.need_facet()


@test
def smoothstep_of_vectors_with_edges_that_are_numbers_is_near():
    for type_, kind in TYPES.items():
        x = oracle.random(15).uniform(-3, 5, 1024).astype(kind)
        part = numpy.clip((x.astype(WIDE) + 1) / 4, 0, 1)
        results = SOURCE.run(f"smoothstep_{type_}", x.size // 4, [x, oracle.output(kind, x.size)], 64)
        for who, got in oracle.results_of_each(results, 1):
            worst = numpy.abs(got - part * part * (3 - 2 * part)).max()
            assert worst <= 16 * numpy.finfo(kind).eps, f"{who}: smoothstep of {type_} is off by {worst}"
    oracle.need_facet()


@test
def half_and_native_functions_are_near():
    """half_ functions have a bound of 8192 units of the last place, and native_ functions have none. The test allows an
    error of a thousandth."""
    x = oracle.random(14).uniform(0.1, 3, 1024).astype(numpy.float32)
    a = x.astype(WIDE)
    expected = numpy.stack([numpy.sin(a), numpy.exp(a), numpy.log(a), numpy.sqrt(a), numpy.cos(a), 1 / a,
                            1 / numpy.sqrt(a), 1 / a], 1)
    results = oracle.Source("math", "-DLOOSE").run("loose", x.size, [x, oracle.output(numpy.float32, x.size, 8)], 64)
    for who, got in oracle.results_of_each(results, 1):
        worst = (numpy.abs(got - expected) / numpy.maximum(1, numpy.abs(expected))).max()
        assert worst <= 1e-3, f"{who}: off by {worst}"
    oracle.need_facet()


tap.main()
