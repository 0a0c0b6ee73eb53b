#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SPIR-V that Facet writes: spirv-val and Facet's own reader accept it, and it computes as OpenCL C requires."""
import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from images import BUILD, KERNELS, ROOT, TEST_KERNELS, compile_all, compiler, find_tool, output_of, skip_without_generator
from tap import Skip, contains, equal, main, test


def skip_without_reader():
    if not shutil.which("llvm-spirv-15") and not shutil.which("llvm-spirv"):
        raise Skip("llvm-spirv, which reads SPIR-V, is not installed")


@test
def modules_of_the_set_are_valid():
    with tempfile.TemporaryDirectory() as folder:
        for target in ("spirv:1.0", "spirv:1.2"):
            validator = find_tool("spirv-val")
            for image in compile_all(target, folder).values():
                output_of(validator, image)


@test
def modules_of_all_levels_are_valid_and_can_be_read():
    """At every level, spirv-val and Facet's own reader accept the modules that Facet writes."""
    sources = KERNELS + [path for path in TEST_KERNELS if path.stem in ("language", "vector", "integer", "convert", "group", "relational")]
    validator = find_tool("spirv-val")
    skip_without_reader()
    for level in range(4):
        with tempfile.TemporaryDirectory() as folder:
            for image in compile_all("spirv:1.2", folder, sources, level).values():
                output_of(validator, image)
                compiler().compile_quietly(image.read_bytes(), "host", 0, image.name)


@test
def modules_with_copies_by_work_groups_are_valid():
    """LLVM's generator adds a word to a null event, which makes the module invalid; Facet must remove the word."""
    with tempfile.TemporaryDirectory() as folder:
        for level in range(4):
            for image in compile_all("spirv:1.2", folder, [ROOT / "tests/kernels/group.cl"], level).values():
                output_of(find_tool("spirv-val"), image)


@test
def a_module_that_the_validator_refuses_is_not_written():
    """If the validator refuses a module, Facet's error gives the validator's reason. If there is no validator, the
    module is written."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory() as folder:
        skip_without_generator("spirv:1.2", {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")})
        programs, image = Path(folder) / "programs", Path(folder) / "k.spv"
        programs.mkdir()
        command = [BUILD / "facet", "compile", "--no-cache", "--target", "spirv:1.2", KERNELS[0], "-o", image]
        environment = {**os.environ, "PATH": str(programs)}
        output_of(*command, env=environment)
        image.unlink()
        (programs / "spirv-val").write_text("#!/bin/sh\necho 'error: line 7: too odd' >&2\nexit 1\n")
        (programs / "spirv-val").chmod(0o755)
        done = subprocess.run(command, text=True, capture_output=True, check=False, env=environment)
        equal((done.returncode, image.exists()), (1, False))
        contains(done.stderr, "cannot be expressed in SPIR-V yet")
        contains(done.stderr, "error: line 7: too odd")


ANY = """kernel void k(global const int *in, global int *out) {
    int a = in[0] - 3, b = in[5] - 3;  /* -3, 2 */
    int4 v = vload4(0, in) - 3;        /* -3 -2 -1 0 */
    out[0] = any(a); out[1] = all(a); out[2] = any(b); out[3] = all(b);
    out[4] = any((char)a); out[5] = all((short)a); out[6] = any((long)b); out[7] = all((long)a);
    out[8] = any(v); out[9] = all(v); out[10] = any(v + 3); out[11] = all(v.xyz);
    out[12] = any(convert_char4(v)); out[13] = all(convert_short4(v)); out[14] = any(v > 0); out[15] = all(v < 1);
}
"""
CONVERT = """kernel void k(global const int *in, global int *out) {
    int a = in[0] - 3;  /* -3 */
    short s = a; uchar u = a; int4 v = vload4(0, in) - 3; char4 c = convert_char4(v);
    out[0] = convert_int(s); out[1] = convert_long(a) >> 32; out[2] = convert_uint(u); out[3] = convert_ulong(a) >> 32;
    out[4] = convert_int4(c).y; out[5] = convert_long4(v).z >> 32; out[6] = convert_uchar4(c).x; out[7] = convert_short(u);
    out[8] = convert_char(300 + a); out[9] = convert_int(-(long)s);
    for (int i = 10; i < 16; i++) out[i] = convert_int_rte(s) + i;
}
"""
SATURATE = """kernel void k(global const int *in, global int *out) {
    int a = in[0] - 300; uint b = -5 - in[0]; long c = (long)a << 40; int4 v = (vload4(0, in) - 2) * 200; uchar u = 200;
    out[0] = convert_uchar_sat(a); out[1] = convert_char_sat(a); out[2] = convert_uint_sat(a); out[3] = convert_int_sat(b);
    out[4] = convert_short_sat(c); out[5] = convert_int_sat(c); out[6] = convert_ulong_sat(c); out[7] = convert_char_sat(u);
    char4 w = convert_char4_sat(v); uchar4 x = convert_uchar4_sat(v);  /* -400 -200 0 200 */
    out[8] = w.x; out[9] = w.w; out[10] = x.x; out[11] = x.w;
    out[12] = convert_ushort_sat(-a * 1000); out[13] = convert_uint_sat(-c) == UINT_MAX; out[14] = convert_uchar_sat((short)77);
    out[15] = convert_long_sat((ulong)-1 - in[0]) == LONG_MAX;
}
"""
SELECT = """kernel void k(global const int *in, global int *out) {
    int4 v = vload4(0, in), w = v; if (in[3] & 1) v = v.wzyx;
    float4 f = convert_float4(v); f = in[5] > 3 ? f * 2.0f : f;
    w = in[5] > 7 ? -v : w; long x = in[0] - 3, y = in[0] - 2;
    int8 u = vload8(0, in); if (in[2] == 2) u = u.s76543210 + 2;
    vstore4(v, 0, out); vstore4(convert_int4(f), 1, out); vstore4(w, 2, out); out[12] = u.s0; out[13] = u.s1;
    out[14] = (int)(ushort)x; out[15] = (uchar)y;
}
"""
ACCESS = """kernel void k(global const int *in, global int *out) {
    local uchar b[64]; local short s[64]; uchar own[16];
    for (int i = 0; i < 16; i++) { b[i] = 9; own[i] = in[15 - i]; }
    vstore3((uchar3)(in[1], 2, 3), 1, b); b[0] = in[7];
    vstore2((short2)(in[1], 9), 2, s); vstore16(convert_short16(vload16(0, in)), 1, s);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 2; i++) out[i] = b[2 * i];
    for (int i = 0; i < 3; i++) out[2 + i] = b[3 + i];
    out[5] = s[4]; out[6] = s[5];
    vstore3(convert_int3(vload3(in[3], own)).zyx + (int3)(1, -1, -3), 0, out + 7);
    out[7] = vload2(5, own).x; out[8] = vload4(2, own).w; out[9] = 3; out[10] = vload3(4, own).y; out[11] = s[17];
    out[12] = vload8(0, own).s0; out[13] = vload4(1, own).w; out[14] = s[30]; out[15] = vload3(1, in + 7).y;
}
"""
INLINE = """inline int square(int x) { return x * x; }
int next(int x);
inline int next(int x) { return x + 1; }
static inline int half_of(int x) { return x / 2; }
extern inline int twice(int x) { return x * 2; }
inline int less(int x) { while (x * x > 8) x--; return x; }
kernel void k(global const int *in, global int *out) {
    out[0] = square(in[3]); out[1] = next(in[3]); out[2] = twice(in[3]); out[3] = half_of(in[8]); out[4] = less(in[5]);
}
"""
ODD = """int is(int x) { switch (x) { case 0: case 3: case 5: case 8: case 9: return 1; case 1: case 12: return 1; } return 0; }
kernel void k(global const int *in, global int *out) {
    int s = 0; for (int r = 0; r < in[7]; r++) s += in[r + ((r + in[5]) & 3)];  /* a counter of two bits */
    out[0] = s;
    for (int i = 1; i < 9; i++) out[i] = is(in[i]);
    long t = 0; for (long j = 0; j < in[9]; j++) t += j * j;  /* a formula of 65 bits */
    out[9] = t; int r;
    switch (in[6] & 7) { case 0: case 3: case 6: r = in[2] * 3; break; case 1: r = 4; break; default: r = 7; }
    out[10] = r; out[11] = add_sat((uint)in[3] - 4, 7u); uint u = in[2], v = 0; while (u < 90) { v = (v + u % 10) % 7; u = u * 3 + 1; }
    out[12] = v; uchar c = in[4]; for (int i = 0; i < in[5]; i++) c = (c * 5 + i) & 15; out[13] = c;
    int4 w = vload4(0, in); float4 f = convert_float4(w); out[14] = any(f == f.wzyx) + 2 * all(f == f) + 4 * any(w > 2) + 8 * all(w > 0);
    out[15] = ldexp(f, 3).w + fmax(f, 2.5f).x * 4;
}
"""
HALVES = """kernel void k(global const int *in, global int *out) {
    ushort g[64]; half *h = (half *)g; for (int i = 0; i < 64; i++) vstore_half((float)(i + in[0]), i, h);
    float3 a = vloada_half3(in[2], h), b = vload_half3(in[2], h); float4 c = vloada_half4(1, h);
    vstore3(convert_int3(a), 0, out); vstore3(convert_int3(b), 1, out); out[6] = c.w;
    vstorea_half3_rtp(a + 100.03f, 4, h); out[7] = vload_half(16, h); out[8] = vload_half(19, h);
    vstore_half3_rtz(b + 100.03f, 11, h); out[9] = vload_half(33, h); out[10] = (vload_half(18, h) - 110) * 1024;
    out[11] = (vload_half(34, h) - 107) * 1024; float2 d = vload_half2(3, h); out[12] = d.y;
    float16 e = vloada_half16(2, h); out[13] = e.s7; out[14] = 0; out[15] = 0;
}
"""
COPY = """kernel void k(global const int *in, global int *out) {
    local int l[16]; event_t e = async_work_group_copy(l, in, 8, 0); e = async_work_group_strided_copy(l + 8, in, 8, 2, e);
    wait_group_events(1, &e); for (int i = 0; i < 16; i++) out[i] = l[i];
}
"""
COPY_OUT = """kernel void k(global const int *in, global int *out) {
    local int l[16], m[16]; for (int i = 0; i < 16; i++) l[i] = in[i] * 3;
    barrier(CLK_LOCAL_MEM_FENCE);
    event_t e = async_work_group_copy(out, l, 8, 0); e = async_work_group_strided_copy(out + 8, l + 4, 4, 2, e);
    e = async_work_group_copy((local int4 *)m, (global const int4 *)in, 2, e); wait_group_events(1, &e);
    e = async_work_group_copy((global short *)(out + 12), (local short *)m + 2, 4, 0); wait_group_events(1, &e);
    out[14] = m[7]; out[15] = m[3];
}
"""
WIDE = """kernel void k(global const int *in, global int *out) {
    char c[4]; double16 d[3]; long16 l; int b[8] __attribute__((aligned(128)));
    for (int i = 0; i < 4; i++) c[i] = in[i] - 3;
    for (int i = 0; i < 3; i++) d[i] = c[i];
    l = convert_long16(d[in[1] & 1]); b[in[2] & 7] = 5;
    for (int i = 0; i < 4; i++) out[i] = (float)c[i] * 2;
    out[4] = l.s5; out[5] = b[in[2] & 7]; out[6] = (int)((ulong)&d & 127) + (int)((ulong)&b & 127);
    for (int i = 7; i < 16; i++) out[i] = 0;
}
"""
# The numbers that each source's kernel must write; None: those that the source gives when it is compiled directly.
SPIRV_ANSWERS = {COPY_OUT: [*range(0, 24, 3), 12, 0, 15, 0, 1, 2, 7, 3],
                 ODD: None, HALVES: None, WIDE: None, COPY: [*range(8), *range(0, 16, 2)],
                 ANY: [1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1],
                 CONVERT: [-3, -1, 253, -1, -2, -1, 253, 253, 41, 3, 7, 8, 9, 10, 11, 12],
                 SELECT: [3, 2, 1, 0, 6, 4, 2, 0, 0, 1, 2, 3, 9, 8, 65533, 254],
                 ACCESS: [7, 9, 1, 2, 3, 1, 9, 5, 4, 3, 2, 1, 15, 8, 14, 11],
                 INLINE: [9, 4, 6, 4, 2] + 11 * [0],
                 SATURATE: [0, -128, 0, 2147483647, -32768, -2147483648, 0, 127, -128, 127, 0, 200, 65535, 1, 77, 1]}


def results_of(image, folder, environment):
    """The sixteen numbers that the module's kernel computes from 0, 1, 2 ... on this machine's processors."""
    numbers, out = Path(folder) / "in", Path(folder) / "out"
    numbers.write_bytes(bytes(memoryview(array("i", range(16)))))
    for first, second in product(("i8:64", "i32:16"), repeat=2):  # a pointer's type in SPIR-V is the type of its uses
        done = subprocess.run([BUILD / "facet", "kernel", "run", image, "--arg", f"buffer:{first}={numbers}", "--arg",
                               f"buffer:{second}=0", "--global", "1", "--out", f"1={out}", "--json"], text=True,
                              capture_output=True, check=False, env=environment)
        if "expected buffer:" not in done.stderr:
            break
    equal((done.returncode, done.stderr), (0, ""), "facet kernel run")
    return list(memoryview(out.read_bytes()).cast("i"))


@test
def builtin_functions_compute_in_spirv_as_in_opencl_c():
    """LLVM's generator passes numbers as booleans and loses signs, which Facet mends: its modules must do what OpenCL C
    requires."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, image = Path(folder) / "k.cl", Path(folder) / "k.spv"
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        skip_without_generator("spirv:1.2", environment)
        for text, answers in SPIRV_ANSWERS.items():
            source.write_text(text)
            for level in range(4):
                output_of(BUILD / "facet", "compile", f"-O{level}", "--target", "spirv:1.2", source, "-o", image,
                          env=environment)
                output_of(find_tool("spirv-val"), image)
                skip_without_reader()
                if answers is None:  # compare with the source compiled directly
                    answers = results_of(source, folder, environment)
                equal(results_of(image, folder, environment), answers, f"-O{level}: {text}")


ALIGNED = """kernel void k(global const int *in, global int *out) {
    int b[8] __attribute__((aligned(256))); b[in[2] & 7] = 5; out[0] = b[in[3] & 7];
}
"""


@test
def alignments_that_the_generator_cannot_say_are_refused():
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, image = Path(folder) / "k.cl", Path(folder) / "k.spv"
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        skip_without_generator("spirv:1.2", environment)
        source.write_text(ALIGNED)
        for level in range(4):
            done = subprocess.run([BUILD / "facet", "compile", f"-O{level}", "--target", "spirv:1.2", source, "-o", image],
                                  text=True, capture_output=True, check=False, env=environment)
            equal((done.returncode, image.exists()), (1, False))
            contains(done.stderr, "'k' has a private variable at a multiple of 256 bytes; expected at most 128")


TABLE = """constant int a[2] = {5, 6}, b[2] = {7, 8}; constant int *constant t[2] = {b, a};
kernel void k(global const int *in, global int *out) { out[0] = t[in[1] & 1][in[0] & 1]; }
"""
SINGLE = """constant int a[4] = {5, 6, 7, 8}; constant int *constant p = a + 2; constant int *constant none = 0;
constant struct { int x; constant int *p; } s = {4, a};
kernel void k(global const int *in, global int *out) {
    for (int i = 0; i < 16; i++) out[i] = in[i] + *p + *s.p + s.x + (none == 0);
}
"""


@test
def constants_that_hold_addresses_are_replaced_or_refused():
    """At all levels, a constant that holds one known address is replaced by what it points to; a table of addresses is
    refused by name."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, image = Path(folder) / "k.cl", Path(folder) / "k.spv"
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        skip_without_generator("spirv:1.2", environment)
        for level in range(4):
            command = [BUILD / "facet", "compile", f"-O{level}", "--target", "spirv:1.2", source, "-o", image]
            source.write_text(TABLE)
            done = subprocess.run(command, text=True, capture_output=True, check=False, env=environment)
            equal((done.returncode, image.exists()), (1, False))
            contains(done.stderr, "holds the address of")
            source.write_text(SINGLE)
            output_of(*command, env=environment)
            output_of(find_tool("spirv-val"), image)
            skip_without_reader()
            equal(results_of(image, folder, environment), [i + 17 for i in range(16)], f"-O{level}")
            image.unlink()


main()
