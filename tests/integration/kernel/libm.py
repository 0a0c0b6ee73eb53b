# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of doubles: those of the C library, and those that only OpenCL C has.

Owns: references for special values. Never: knows of kernels or bounds.
"""
import ctypes
import ctypes.util
import math
from ctypes import POINTER, byref, c_double, c_float, c_int
from fractions import Fraction

import numpy

_LIBRARY = ctypes.CDLL(ctypes.util.find_library("m"))
INT_MAX, INT_MIN = 2 ** 31 - 1, -2 ** 31


def function(name, answer, *arguments):
    found = getattr(_LIBRARY, name)
    found.restype, found.argtypes = answer, arguments
    return found


def unary(name):
    return function(name, c_double, c_double)


def binary(name):
    return function(name, c_double, c_double, c_double)


def of_type(name, type_):
    """The C library's function for the type, for example nextafterf() for "nextafter" and "float"."""
    kind = {"float": c_float, "double": c_double}[type_]
    return function(name + ("f" if type_ == "float" else ""), kind, kind, kind)


def function_with_pointer(name, kind):
    """Wraps a function that stores its second result through a pointer in one that returns both results."""
    called = function(name, c_double, c_double, POINTER(kind))

    def call(x):
        second = kind()
        return called(x, byref(second)), second.value

    return call


def remquo(x, y):
    """The remainder, and the last seven bits of the quotient with its sign, or 0 if there is no quotient. The C
    library's remquo() returns fewer bits."""
    rest = binary("remainder")(x, y)
    if math.isnan(rest) or math.isinf(y):
        return rest, 0
    quotient = round(Fraction(x) / Fraction(y))
    return rest, (abs(quotient) & 127) * (-1 if quotient < 0 else 1)


# --- functions of half turns (OpenCL 7.5.1, C23 F.10.1) ---------------------------------------------------------------

def _folded(x):
    """The signed distance of x from the nearest whole number, and whether that number is odd. Both are exact."""
    rest = math.remainder(x, 1)
    return rest, math.fmod(x - rest, 2) != 0


def _sin(rest):
    """The sine of `rest` half turns, of which there are at most 0.5. Near 0.5 it is the cosine of what is left to
    0.5."""
    return math.sin(rest * math.pi) if abs(rest) <= 0.25 else math.copysign(math.cos((0.5 - abs(rest)) * math.pi), rest)


def sinpi(x):
    if not math.isfinite(x):
        return math.nan
    rest, odd = _folded(x)
    if rest == 0:
        return math.copysign(0.0, x)
    return -_sin(rest) if odd else _sin(rest)


def cospi(x):
    if not math.isfinite(x):
        return math.nan
    rest, odd = _folded(x)
    value = 0.0 if abs(rest) == 0.5 else _sin(0.5 - abs(rest))
    return -value if odd and value else value


def tanpi(x):
    if not math.isfinite(x):
        return math.nan
    rest, odd = _folded(x)
    if rest == 0:
        return math.copysign(0.0, -x if odd else x)
    if abs(rest) == 0.5:
        return -math.inf if math.floor(x) % 2 else math.inf
    return _sin(rest) / _sin(0.5 - abs(rest))


def in_half_turns(called):
    return lambda *values: called(*values) / math.pi


# --- functions that C lacks -------------------------------------------------------------------------------------------

def rsqrt(x):
    return math.copysign(math.inf, x) if x == 0 else 1 / unary("sqrt")(x)


def powr(x, y):
    """IEEE 754's exp(y log x), which is undefined for more arguments than pow()."""
    undefined = x < 0 or (y == 0 and (x == 0 or math.isinf(x))) or (x == 1 and math.isinf(y))
    return math.nan if undefined or math.isnan(x) or math.isnan(y) else binary("pow")(abs(x), y)


def rootn(x, n):
    if n == 0 or (x < 0 and n % 2 == 0):
        return math.nan
    with numpy.errstate(all="ignore"):  # in long double, because 1 / n in double is not precise enough
        root = float(numpy.power(numpy.longdouble(abs(x)), numpy.longdouble(1) / n))
    return math.copysign(root, x) if n % 2 else root


def fract(x, below):
    """OpenCL 7.5.1: fract of an infinity is 0. The result is never 1; `below` is the largest number below 1."""
    if math.isinf(x):
        return math.copysign(0.0, x)
    return x if x == 0 or math.isnan(x) else min(x - math.floor(x), below)


def by_size(first, same):
    """A function that returns the number of the larger absolute value, or the smaller one if `first` is False; for
    equal ones, what the C library's `same` returns."""
    def call(x, y):
        if abs(x) == abs(y) or math.isnan(x) or math.isnan(y):
            return binary(same)(x, y)
        return x if (abs(x) > abs(y)) == first else y

    return call
