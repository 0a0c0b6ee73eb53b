#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""OpenCL C has functions for signed and for unsigned integers, but SPIR-V's integers have no sign.

Owns: the proof that each such function gives equal bits, compiled from C and from SPIR-V that was made of that C.
Never: tests undefined cases, such as the conversion of a float that does not fit the integer type.
"""
import numpy

import oracle
import tap
from tap import test

import facet

INTEGERS = {"char": numpy.int8, "uchar": numpy.uint8, "short": numpy.int16, "ushort": numpy.uint16,
            "int": numpy.int32, "uint": numpy.uint32, "long": numpy.int64, "ulong": numpy.uint64}
FLOATS = {"float": numpy.float32, "double": numpy.float64}
WIDER = {"char": "short", "uchar": "ushort", "short": "int", "ushort": "uint", "int": "long", "uint": "ulong"}
LENGTHS = (1, 4)
COUNT = 64
LEVELS = ("0", "2")


def unsigned(kind):
    return kind if kind.startswith("u") else "u" + kind


def signed(kind):
    return kind[1:] if kind.startswith("u") else kind


def type_name(kind, length):
    return kind if length == 1 else f"{kind}{length}"


def values(kind, seed, count):
    """The type's limits and values near them, and random values."""
    info, random = numpy.iinfo(kind), oracle.random(seed)
    some = random.integers(info.min, info.max, count, kind, endpoint=True)
    edges = numpy.array([info.min, info.max, 0, 1, info.max // 2 + 1, info.max - 1, info.min + 1], kind)
    return numpy.where(random.random(count) < 0.4, random.choice(edges, count), some)


class Ways:
    """A source, compiled to an image directly, and to an image of the SPIR-V that is made of it at each level."""

    def __init__(self, source):
        oracle.need_facet()
        self.images = {level: facet.Program(oracle.FACET, source, ["-cl-std=CL1.2"], level)
                       for level in (None, *LEVELS)}

    def run(self, kernel, arguments, group=None, level=None, count=COUNT):
        given = [oracle.argument(value) for value in arguments]
        return self.images[level].run(kernel, oracle.Range((count,), group), given)

    def differences(self, kernel, arguments, group=None, count=COUNT):
        """Runs the kernel of each image; yields a text for each argument whose results differ."""
        results = {level: self.run(kernel, arguments, group, level, count) for level in self.images}
        for level in LEVELS:
            for index, (got, wanted) in enumerate(zip(results[level], results[None])):
                if got is None or got.tobytes() == wanted.tobytes():
                    continue
                at = tuple(numpy.argwhere((got != wanted) & ~((got != got) & (wanted != wanted)))[0])
                yield f"SPIR-V of -O{level}, {kernel}, argument {index} at {at}: got {got[at]}, expected {wanted[at]}"


def expect_none(faults):
    faults = list(faults)
    assert not faults, "\n".join(faults)


def results_of(kind, length):
    """Expressions of a, b and c, and the type of each."""
    vector, plain, whole = type_name(kind, length), type_name(unsigned(kind), length), type_name(signed(kind), length)
    same = ["add_sat(a, b)", "sub_sat(a, b)", "hadd(a, b)", "rhadd(a, b)", "max(a, b)", "min(a, b)", "mul_hi(a, b)",
            "mad_hi(a, b, c)", "mad_sat(a, b, c)", "clamp(a, min(b, c), max(b, c))", "rotate(a, b)", "clz(a)",
            "popcount(a)", "bitselect(a, b, c)", "a < b ? a : b", "a >= c ? a : b", f"a >> ({vector})3",
            f"a / (b & ({vector})31 | ({vector})1)", f"a % (c & ({vector})63 | ({vector})1)",
            f"select(a, b, as_{whole}(c))", f"select(a, b, as_{plain}(c))"]
    if length > 1:
        same += ["max(a, b.x)", "min(a, b.x)", "clamp(a, min(b.x, c.x), max(b.x, c.x))",
                 f"shuffle(a, ({plain})(3, 1, 0, 2))", f"shuffle2(a, b, ({plain})(3, 1, {2 * length - 1}, 2))"]
    if signed(kind) == "int":
        same += ["mul24(a >> 8, b >> 8)", "mad24(a >> 8, b >> 8, c)"]
    yield from ((expression, vector) for expression in same)
    yield from ((expression, plain) for expression in ("abs_diff(a, b)", "abs(a)"))
    if kind in WIDER:
        yield f"upsample(a, as_{plain}(b))", type_name(WIDER[kind], length)


def load(name, length):
    return f"{name}[i]" if length == 1 else f"vload{length}(i, {name})"


def store(kind, length, value, at):
    place = f"(global {kind} *)(out + {at})"
    return f"({place})[i] = {value}" if length == 1 else f"vstore{length}({value}, i, {place})"


def split_type(vector):
    kind = vector.rstrip("0123456789")
    return kind, int(vector[len(kind):] or 1)


def arithmetic(kind, length):
    """A kernel that writes all results of one type and length as bytes, and the number of these bytes for each item."""
    lines, at = [], 0
    for expression, result in results_of(kind, length):
        number, lanes = split_type(result)
        lines.append(f"{store(number, lanes, expression, at * COUNT)};")
        at += numpy.dtype(INTEGERS[number]).itemsize * lanes
    vector = type_name(kind, length)
    read = " ".join(f"{vector} {name} = {load(name + 's', length)};" for name in "abc")
    arguments = ", ".join(f"global const {kind} *{name}s" for name in "abc")
    body = "\n    ".join(lines)
    return (f"kernel void of_{kind}{length}({arguments}, global uchar *out) {{\n"
            f"    size_t i = get_global_id(0); {read}\n    {body}\n}}\n"), at


@test
def functions_of_integers_are_the_same_through_spirv():
    faults = []
    for kind, number in INTEGERS.items():
        kernels = {length: arithmetic(kind, length) for length in LENGTHS}
        ways = Ways("\n".join(text for text, _ in kernels.values()))
        for length, (_, size) in kernels.items():
            arrays = [values(number, seed, COUNT * length) for seed in (1, 2, 3)]
            faults += ways.differences(f"of_{kind}{length}", [*arrays, oracle.output(numpy.uint8, size * COUNT)])
    expect_none(faults)


MODES = ("", "_sat", "_rte", "_rtz", "_rtp", "_rtn")


def conversions(kind, length):
    """A kernel that converts to all types in all modes, except those without a defined result, and the number of bytes
    that it writes for each item."""
    lines, at = [], 0
    for to in (*INTEGERS, *FLOATS):
        for mode in MODES:
            if mode == "_sat" and to in FLOATS:
                continue
            if kind in FLOATS and to in INTEGERS and mode != "_sat":
                mode = "_sat" + mode
            lines.append(store(to, length, f"convert_{type_name(to, length)}{mode}(a)", at * COUNT) + ";")
            at += numpy.dtype({**INTEGERS, **FLOATS}[to]).itemsize * length
    body = "\n    ".join(lines)
    return (f"kernel void from_{kind}{length}(global const {kind} *as, global uchar *out) {{\n"
            f"    size_t i = get_global_id(0); {type_name(kind, length)} a = {load('as', length)};\n"
            f"    {body}\n}}\n"), at


def reals(kind, seed, count):
    random = oracle.random(seed)
    with numpy.errstate(over="ignore"):
        some = (random.uniform(-2, 2, count) * 2.0 ** random.integers(-2, 70, count)).astype(kind)
    return numpy.where(random.random(count) < 0.3, numpy.floor(some) + kind(0.5), some)


@test
def conversions_are_the_same_through_spirv():
    faults = []
    for kind, number in {**INTEGERS, **FLOATS}.items():
        kernels = {length: conversions(kind, length) for length in LENGTHS}
        ways = Ways("\n".join(text for text, _ in kernels.values()))
        for length, (_, size) in kernels.items():
            numbers = (values if kind in INTEGERS else reals)(number, 1, COUNT * length)
            faults += ways.differences(f"from_{kind}{length}", [numbers, oracle.output(numpy.uint8, size * COUNT)])
    expect_none(faults)


ATOMICS = """#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#define ALL(type, name) \
kernel void on_##type(global const type *in, global type *cells, global type *seen) { \
    local type mine[2]; mine[0] = in[0]; mine[1] = in[0]; \
    for (size_t i = get_global_id(0); i < 64; i += get_global_size(0)) { \
    seen[4 * i] = name##_min(cells, in[i]); seen[4 * i + 1] = name##_max(cells + 1, in[i]); \
    seen[4 * i + 2] = name##_min(mine, in[i]); seen[4 * i + 3] = name##_max(mine + 1, in[i]); \
    cells[2 + i * 2] = mine[0]; cells[3 + i * 2] = mine[1]; \
    name##_add(cells + 130, in[i]); name##_sub(cells + 131, in[i]); name##_inc(cells + 132); name##_dec(cells + 133); \
    name##_cmpxchg(cells + 134, in[0], in[i]); name##_xchg(cells + 135, in[i]); name##_and(cells + 136, in[i]); \
    name##_or(cells + 137, in[i]); name##_xor(cells + 138, in[i]); } }
ALL(int, atomic) ALL(uint, atomic) ALL(long, atom) ALL(ulong, atom)
"""


@test
def atomics_are_the_same_through_spirv():
    """Runs a single work-item, which sees the same values each time; several items could run in any order."""
    ways, faults = Ways(ATOMICS), []
    for kind in ("int", "uint", "long", "ulong"):
        numbers = values(INTEGERS[kind], 1, COUNT)
        cells = numpy.full(140, numbers[0], INTEGERS[kind])
        faults += ways.differences(f"on_{kind}", [numbers, cells, oracle.output(INTEGERS[kind], 4 * COUNT)], (1,), 1)
    expect_none(faults)


COPIES = """#define ALL(type) \
kernel void copy_##type(global const type *in, global type *out) { \
    local type mine[64]; size_t i = get_local_id(0); event_t e = async_work_group_copy(mine, in, 64, 0); \
    wait_group_events(1, &e); prefetch(in, 64); mine[i] = mine[i] / 3; barrier(CLK_LOCAL_MEM_FENCE); \
    e = async_work_group_strided_copy(out, (local const type *)mine, 32, 2, 0); wait_group_events(1, &e); \
    vstore2(vload2(i / 2, in) >> (type)1, i / 2, out + 64); }
ALL(char) ALL(uchar) ALL(short) ALL(ushort) ALL(int) ALL(uint) ALL(long) ALL(ulong)
"""


@test
def copies_by_the_group_are_the_same_through_spirv():
    ways, faults = Ways(COPIES), []
    for kind, number in INTEGERS.items():
        faults += ways.differences(f"copy_{kind}", [values(number, 1, COUNT), oracle.output(number, 128)], group=(COUNT,))
    expect_none(faults)


MATH = """#define ALL(type, whole, none) \
kernel void of_##type(global const type *as, global const int *bs, global const whole *cs, global type *out, \
                      global int *ints) { \
    size_t i = get_global_id(0); type a = as[i]; int b = bs[i] % 40, e; out[i] = ldexp(a, b); \
    out[64 + i] = pown(a, b); \
    out[128 + i] = rootn(a, b | 1); out[192 + i] = frexp(a, &e); ints[i] = e; out[256 + i] = remquo(a, (type)3, &e); \
    ints[64 + i] = e; out[320 + i] = lgamma_r(a, &e); ints[128 + i] = e; ints[192 + i] = ilogb(a); \
    out[384 + i] = (type)cs[i]; ints[256 + i] = isnan(nan(cs[i])); out[448 + i] = select(a, -a, cs[i]); \
    ints[320 + i] = any(vload2(0, bs) < b) + 2 * all(vload2(0, cs) < cs[i]); }
ALL(float, uint, 0u) ALL(double, ulong, 0ul)
"""


@test
def mathematics_with_integers_is_the_same_through_spirv():
    ways, faults = Ways(MATH), []
    for kind, whole in (("float", numpy.uint32), ("double", numpy.uint64)):
        faults += ways.differences(f"of_{kind}", [reals(FLOATS[kind], 1, COUNT), values(numpy.int32, 2, COUNT),
                                                  values(whole, 3, COUNT), oracle.output(FLOATS[kind], 8 * COUNT),
                                                  oracle.output(numpy.int32, 6 * COUNT)])
    expect_none(faults)


IMAGES = """#define ALL(kind, place, at) \\
kernel void write_##kind##_ints(write_only kind##_t image, global const int4 *in) { \\
    int i = get_global_id(0); place c = at; write_imagei(image, c, in[i]); } \\
kernel void write_##kind##_uints(write_only kind##_t image, global const uint4 *in) { \\
    int i = get_global_id(0); place c = at; write_imageui(image, c, in[i]); } \\
kernel void read_##kind##_ints(read_only kind##_t image, global int4 *out) { \\
    int i = get_global_id(0); place c = at; out[i] = read_imagei(image, c); } \\
kernel void read_##kind##_uints(read_only kind##_t image, global uint4 *out) { \\
    int i = get_global_id(0); place c = at; out[i] = read_imageui(image, c); }
ALL(image1d, int, i)
ALL(image1d_buffer, int, i)
ALL(image1d_array, int2, (int2)(i % 8, i / 8))
ALL(image2d, int2, (int2)(i % 8, i / 8))
ALL(image2d_array, int4, (int4)(i % 4, i / 4 % 4, i / 16, 0))
ALL(image3d, int4, (int4)(i % 4, i / 4 % 4, i / 16, 0))
"""
RGBA = 0x10B5
FORMATS = {"ints": {0x10D7: numpy.int8, 0x10D8: numpy.int16, 0x10D9: numpy.int32},
           "uints": {0x10DA: numpy.uint8, 0x10DB: numpy.uint16, 0x10DC: numpy.uint32}}
# Width, height, depth and layers, in pixels.
EXTENTS = {"image1d": (64, 1, 1, 1), "image1d_buffer": (64, 1, 1, 1), "image1d_array": (8, 1, 1, 8),
           "image2d": (8, 8, 1, 1), "image2d_array": (4, 4, 1, 4), "image3d": (4, 4, 4, 1)}


class Image:
    kind = "image"

    def __init__(self, data, kind, format_):
        self.data, self.extent, self.format = data, EXTENTS[kind], format_

    def describe(self, record, address):
        width, height, depth, layers = self.extent
        row = width * 4 * self.data.itemsize
        return record(pixels=address, width=width, height=height, depth=depth, array_size=layers, row_bytes=row,
                      slice_bytes=row * height, channel_order=RGBA, channel_type=self.format)


@test
def images_of_integers_are_the_same_through_spirv():
    """Whether a pixel is signed follows from the type of the channels, not from the call."""
    ways, faults = Ways(IMAGES), []
    for kind in EXTENTS:
        for sign, formats in FORMATS.items():
            colors = values(numpy.int32 if sign == "ints" else numpy.uint32, 1, 4 * COUNT)
            for format_, number in formats.items():
                info = numpy.iinfo(number)
                image = Image(numpy.zeros(4 * COUNT, number), kind, format_)
                faults += ways.differences(f"write_{kind}_{sign}", [image, colors])
                written = ways.run(f"write_{kind}_{sign}", [image, colors])[0]
                expected = numpy.clip(colors, info.min, info.max).astype(number)
                tap.equal(written.tobytes(), expected.tobytes(), f"write_{kind}_{sign}, format {format_:#x}")
                faults += ways.differences(f"read_{kind}_{sign}",
                                           [Image(expected, kind, format_), oracle.output(colors.dtype, 4 * COUNT)])
    expect_none(faults)


tap.main()
