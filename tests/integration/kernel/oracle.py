# SPDX-License-Identifier: Apache-2.0
"""Small kernels, run on Facet and on PoCL with the same input, and compared with each other and with a reference.

Owns: arguments, ranges, comparing, and the fallback if one of the two implementations is missing.
Never: lets a test pass that did not run on Facet. Such a test is skipped, but only after PoCL's results were compared
with the reference, so that a wrong reference is found.
"""
import atexit
import functools
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
KERNELS = HERE.parents[1] / "kernels"
sys.path.insert(0, str(HERE.parent / "command"))

import recorded  # noqa: E402
import tap  # noqa: E402

# Set before pyopencl opens PoCL. Its cache is private and at first empty, unless tools/run-tests shares one in a run.
if "POCL_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="facet-oracle-pocl-")
    atexit.register(_cache.cleanup)
    os.environ["POCL_CACHE_DIR"] = _cache.name
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")

import facet  # noqa: E402

try:
    if recorded.REPLAY:
        import recorded as pocl
    else:
        import pocl
    POCL, NO_POCL, OTHER = pocl.Device(), None, pocl.NAME
except Exception as missing:  # pyopencl raises its own errors without a platform
    POCL, NO_POCL, OTHER = None, str(missing), None
try:
    FACET, NO_FACET = facet.Device(), None
except (facet.Missing, facet.Refused) as missing:
    FACET, NO_FACET = None, str(missing)


@dataclass
class Range:
    size: tuple
    group: tuple = None
    offset: tuple = None


class Value:
    kind = "value"

    def __init__(self, data):
        self.data = numpy.asarray(data)


class Buffer:
    kind = "buffer"

    def __init__(self, data):
        self.data = numpy.ascontiguousarray(data)


class Local:
    kind = "local"

    def __init__(self, count):
        self.bytes = count


def output(kind, *shape):
    """A buffer that a kernel fills. Before the kernel, each byte is 0xA5, which shows elements that it did not
    write."""
    data = numpy.empty(shape, kind)
    data.view(numpy.uint8)[...] = 0xA5
    return Buffer(data)


def argument(value):
    if isinstance(value, numpy.ndarray):
        return Buffer(value)
    return Value(value) if isinstance(value, (numpy.generic, int, float)) else value


class Source:
    """A file of tests/kernels, or `text`. Each implementation builds it for the first test that runs it. If Facet
    refuses the source, each test that would run it fails."""

    def __init__(self, name, *arguments, text=None):
        self.source = text or (KERNELS / f"{name}.cl").read_text()
        self.arguments = ["-cl-std=CL1.2", *arguments]
        self.refusal = None

    @functools.cached_property
    def other_program(self):
        return pocl.Program(POCL, self.source, self.arguments)

    @functools.cached_property
    def facet_program(self):
        try:
            return facet.Program(FACET, self.source, self.arguments)
        except (facet.Refused, tap.Skip) as refusal:
            self.refusal = refusal
            raise

    def programs(self, only):
        """The built programs by implementation. Facet builds first: a source that it refuses is not built elsewhere."""
        if self.refusal:
            raise self.refusal
        ours = {"Facet": self.facet_program} if FACET and only in (None, "Facet") else {}
        return ours | ({OTHER: self.other_program} if POCL and only in (None, OTHER) else {})

    def run(self, kernel, size, arguments, group=None, offset=None, only=None):
        """Returns each argument's memory after the kernel, by implementation. `only` names the implementation that runs
        the kernel if the other is known to be wrong."""
        def tuples(value):
            return None if value is None else tuple(value) if isinstance(value, (tuple, list)) else (value,)

        range_ = Range(tuples(size), tuples(group), tuples(offset))
        results = {who: program.run(kernel, range_, [argument(value) for value in arguments])
                   for who, program in self.programs(only).items()}
        return {who: answers for who, answers in results.items() if answers}


def need_facet():
    """Skips a test that compared only PoCL's results, since Facet is missing. Each test calls this at its end."""
    if not FACET:
        raise tap.Skip(f"PoCL agrees with the reference; Facet: {NO_FACET}")


def results_of_each(results, index):
    """Each implementation, and its memory of argument `index`. Facet's results are under test; PoCL's results show that
    the reference is right."""
    return [(who, answers[index]) for who, answers in results.items()]


def describe_wrong(wrong, got, expected, inputs):
    at = [tuple(int(i) for i in place) for place in numpy.argwhere(wrong)[:5]]
    return "; ".join(f"at {place}: got {got[place]!r}, expected {expected[place]!r}"
                     + "".join(f", of {value[place[:value.ndim]]!r}" for value in inputs
                               if all(i < n for i, n in zip(place, value.shape))) for place in at)


def exact(results, index, expected, what, inputs=()):
    """Expects equal bits, so that -0.0 is not 0.0; a NaN equals every other NaN, as OpenCL fixes no payload."""
    for who, got in results_of_each(results, index):
        expected = numpy.asarray(expected).astype(got.dtype, copy=False).reshape(got.shape)
        wrong = got != expected
        if got.dtype.kind == "f":
            wrong |= numpy.signbit(got) != numpy.signbit(expected)
            wrong &= ~(numpy.isnan(got) & numpy.isnan(expected))
        if wrong.any():
            raise AssertionError(f"{who}, {what}: {wrong.sum()} of {wrong.size} wrong: "
                                 + describe_wrong(wrong, got, expected, inputs))


def distance(got, expected):
    """The error in units of the last place of the expected value, which is of a wider type."""
    kind = numpy.finfo(got.dtype)
    with numpy.errstate(all="ignore"):
        exponent = numpy.floor(numpy.log2(numpy.abs(expected)))
        exponent = numpy.where(numpy.isfinite(exponent), exponent, kind.minexp)
        unit = numpy.ldexp(numpy.longdouble(1), (numpy.maximum(exponent, kind.minexp) - kind.nmant).astype(int))
        away = numpy.abs(got.astype(numpy.longdouble) - expected) / unit
        # An infinity counts as right for a value that would be rounded to it.
        bounded = numpy.abs(expected) > numpy.longdouble(kind.max)
        away = numpy.where(bounded & numpy.isinf(got) & (numpy.sign(got) == numpy.sign(expected)), 0, away)
        away = numpy.where(got == expected.astype(got.dtype), numpy.minimum(numpy.nan_to_num(away), 1), away)
        away = numpy.where(numpy.isnan(got) & numpy.isnan(expected), 0, away)
    return numpy.where(numpy.isnan(away), numpy.inf, away)


def near(results, index, expected, bound, what, inputs=(), of=None):
    """Expects results within `bound` units of the last place. If the expected number is below the smallest normal
    number, any number below it is right. `of` names the implementations whose results are checked; by default, all
    are."""
    for who, got in results_of_each(results, index):
        if of and who not in of:
            continue
        expected = numpy.asarray(expected, numpy.longdouble).reshape(got.shape)
        away = distance(got, expected)
        tiny = (numpy.abs(expected) < numpy.finfo(got.dtype).tiny) & (numpy.abs(got) <= numpy.finfo(got.dtype).tiny)
        wrong = (away > bound) & ~tiny
        if wrong.any():
            raise AssertionError(f"{who}, {what}: {wrong.sum()} of {wrong.size} beyond {bound} ULP, the worst "
                                 f"{away[wrong].max():.4g}: " + describe_wrong(wrong, got, expected, inputs))


def refused(name, *fragments, text=None):
    """Expects that Facet refuses a source, with all `fragments` in its message."""
    need_facet()
    try:
        facet.Program(FACET, text or (KERNELS / f"{name}.cl").read_text(), ["-cl-std=CL1.2"], spirv=None)
    except facet.Refused as refusal:
        for fragment in fragments:
            tap.contains(refusal.message, fragment)
        return
    raise AssertionError(f"{name} was compiled")


def random(seed):
    return numpy.random.default_rng(seed)
