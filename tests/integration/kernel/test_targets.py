#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The bench set for each target: what comes out is what that target's own tools take.

PTX is assembled by ptxas where a CUDA toolkit is found; AMDGPU objects are read by LLVM's readelf and disassembler;
SPIR-V is validated by spirv-val. Old processors of the host's kind get the tests' kernels too, with what they lack.
"""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from tap import Skip, contains, equal, main, test

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FACET_BUILD_DIR", ROOT / "build")).resolve()
KERNELS = sorted((ROOT / "bench" / "kernels").glob("*.cl"))
# All but the one that is refused everywhere.
TEST_KERNELS = [path for path in sorted((ROOT / "tests" / "kernels").glob("*.cl")) if path.stem != "recursion"]
FROM_THE_PROCESS = {"memcpy", "memset", "memmove", "memcmp", "bcmp"}
LLVM = [f"/usr/lib/llvm-{version}/bin" for version in (22, 19)]


def tool(name, *folders):
    """The path of a program, or a skip."""
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/{name}"), reverse=True):
            return path
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed")
    return path


def ran(*command, **options):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    equal((done.returncode, done.stderr), (0, ""), " ".join(map(str, command)))
    return done.stdout


def demand_known(target, environment):
    """A skip for what LLVM 19 has no generator for; it must say so. With another LLVM no refusal is a reason."""
    done = subprocess.run([BUILD / "facet", "compile", "--target", target, KERNELS[0], "-o", os.devnull], text=True,
                          capture_output=True, check=False, env=environment)
    if done.returncode and target in ("ptx:sm_100", "spirv:1.0", "spirv:1.2") and "LLVM 19." in done.stderr:
        raise Skip(done.stderr.strip())


def compiled(target, folder, sources=None):
    """Every kernel of the set, or of `sources`, for `target`: path of the image by path of the source."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
    demand_known(target, environment)

    def compile_one(source):
        image = Path(folder) / f"{source.stem}.{target.replace(':', '-')}"
        ran(BUILD / "facet", "compile", "--target", target, source, "-o", image, env=environment)
        return source, image

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(compile_one, sources or KERNELS))


def entries_of(source):
    return sorted(re.findall(r"^(?:__)?kernel\s+(?:__attribute__\S+\s+)?void\s+(\w+)", source.read_text(), re.MULTILINE))


def ptx_is_assembled(processor):
    with tempfile.TemporaryDirectory() as folder:
        images = compiled(f"ptx:{processor}", folder)
        for source, image in images.items():
            text = image.read_text()
            contains(text, f".target {processor}")
            equal(sorted(re.findall(r"\.entry (\w+)", text)), entries_of(source), source.name)
        assembler = tool("ptxas", "/usr/local/cuda*/bin")
        for image in images.values():
            ran(assembler, f"-arch={processor}", "-o", os.devnull, image)


def object_is_a_code_object(processor):
    with tempfile.TemporaryDirectory() as folder:
        images = compiled(f"amdgcn:{processor}", folder)
        reader, disassembler = tool("llvm-readelf", *LLVM), tool("llvm-objdump", *LLVM)
        for source, image in images.items():
            read = ran(reader, "-h", "--notes", "--dyn-syms", image)
            contains(read, "AMDGPU - HSA")
            contains(read, f"amdgcn-amd-amdhsa--{processor}")
            for entry in entries_of(source):
                contains(read, f"{entry}.kd")
            equal("<unknown>" in ran(disassembler, "-d", image), False, f"{source.name}: an unknown instruction")


def image_is_whole(processor):
    """Nothing but the image's table is seen from outside, and nothing but plain copying is looked for there."""
    if platform.machine() != "x86_64":
        raise Skip(f"this machine is no relative of {processor}")
    with tempfile.TemporaryDirectory() as folder:
        reader = tool("llvm-readelf", *LLVM)
        for source, image in compiled(f"host:{processor}", folder, KERNELS + TEST_KERNELS).items():
            rows = [line.split() for line in ran(reader, "--dyn-syms", image).splitlines()]
            symbols = [row[6:8] for row in rows if len(row) == 8 and row[0] != "Num:"]
            equal([name for section, name in symbols if section != "UND"], ["facet_host_image"], source.name)
            equal({name for section, name in symbols if section == "UND"} - FROM_THE_PROCESS, set(), source.name)


@test
def images_for_processors_without_fma_and_sse4():
    image_is_whole("x86-64")


@test
def images_for_processors_without_fma():
    image_is_whole("x86-64-v2")


LEADING_ZEROS = """kernel void leading_zeros(global uint *x) {
    size_t i = get_global_id(0);
    x[i] = clz(x[i]);
}
"""


@test
def what_the_kernel_withholds_is_not_used():
    """A feature that /proc/cpuinfo does not list (clearcpuid=) is in no image, nor in one of the cache."""
    flags = Path("/proc/cpuinfo").read_text()
    if " bmi1 " not in flags:
        raise Skip("this processor has nothing to withhold")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cl").write_text(LEADING_ZEROS)
        (Path(folder) / "cpuinfo").write_text(re.sub(r" (bmi1|abm|avx512\w+)(?= )", "", flags))
        (Path(folder) / "run").write_text(
            'mount --bind cpuinfo /proc/cpuinfo && exec "$1" kernel run k.cl --arg buffer:u32:64=16 --json\n')
        inside = ["unshare", "--user", "--map-root-user", "--mount", "--keep-caps"]
        if not shutil.which("unshare") or subprocess.run([*inside, "mount", "--bind", "cpuinfo", "/proc/cpuinfo"],
                                                         cwd=folder, capture_output=True, check=False).returncode:
            raise Skip("no mount namespaces for this user")
        if not (BUILD / "facet-kernel-compiler.so").exists():
            raise Skip("this build has no kernel compiler")
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        whole = ran("sh", "-c", 'exec "$1" kernel run k.cl --arg buffer:u32:64=16 --json', "sh", BUILD / "facet",
                    cwd=folder, env=environment)
        less = ran(*inside, "sh", "run", BUILD / "facet", cwd=folder, env=environment)
        equal([json.loads(text)["results"][0]["values"][0] for text in (whole, less)], [27, 27])


@test
def ptx_of_the_set_for_sm_75():
    ptx_is_assembled("sm_75")


@test
def ptx_of_the_set_for_sm_90():
    ptx_is_assembled("sm_90")


@test
def ptx_of_the_set_for_sm_100():
    ptx_is_assembled("sm_100")


@test
def ptx_of_the_tests_kernels():
    """Constant memory is 64 KiB: math.cl alone has more tables of the built-in library, which are in global memory."""
    sources = [path for path in TEST_KERNELS if path.stem != "image"]  # which PTX has no bodies for
    for processor in ("sm_75", "sm_90"):
        with tempfile.TemporaryDirectory() as folder:
            images = compiled(f"ptx:{processor}", folder, sources)
            equal(".const" in images[ROOT / "tests/kernels/math.cl"].read_text(), False, f"{processor}: .const")
            assembler = tool("ptxas", "/usr/local/cuda*/bin")
            for image in images.values():
                ran(assembler, f"-arch={processor}", "-o", os.devnull, image)


@test
def objects_of_the_set_for_gfx90a():
    object_is_a_code_object("gfx90a")


@test
def objects_of_the_set_for_gfx942():
    object_is_a_code_object("gfx942")


@test
def objects_of_the_set_for_gfx1100():
    object_is_a_code_object("gfx1100")


COPY = """kernel void copy(global float4 *x, global float4 *y) {
    local float4 tile[64];
    event_t e = async_work_group_copy(tile, x, 64, 0);
    wait_group_events(1, &e);
    e = async_work_group_strided_copy(y, tile, 64, 2, 0);
    wait_group_events(1, &e);
}
"""
RELAXED = """kernel void relaxed(global float *x) {
    size_t i = get_global_id(0);
    x[i] = sin(x[i]) * exp2(x[i]) + log2(x[i]) / sqrt(x[i]);
}
"""


def disassembled(source, target, *options):
    """The instructions of a source's kernel, one in a line, without what only fills."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.cl"
        path.write_text(source)
        if not (BUILD / "facet-kernel-compiler.so").exists():
            raise Skip("this build has no kernel compiler")
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        ran(BUILD / "facet", "compile", "--target", target, path, "-o", Path(folder) / "k", "--", *options,
            env=environment)
        lines = ran(tool("llvm-objdump", *LLVM), "-d", "--no-show-raw-insn", Path(folder) / "k").splitlines()
        return "\n".join(line for line in lines if not re.search("s_nop|s_code_end", line))


@test
def work_groups_copy_on_amdgpu():
    for processor in ("gfx90a", "gfx942", "gfx1100"):
        code = disassembled(COPY, f"amdgcn:{processor}")
        contains(code, "<copy>:")
        contains(code, "s_barrier")
        for read, write in ((r"global_load_\w*x4|global_load_b128", r"ds_(write|store)_b128"),
                            (r"ds_(read|load)_b128", r"global_store_\w*x4|global_store_b128")):
            equal(bool(re.search(read, code) and re.search(write, code)), True, f"{processor}: {read}, {write}")
        equal(bool(re.search(r"s_cbranch", code)), True, f"{processor}: a loop over what is left for each work-item")


@test
def fast_functions_are_instructions_on_amdgpu():
    for processor in ("gfx90a", "gfx942", "gfx1100"):
        plain, fast = (disassembled(RELAXED, f"amdgcn:{processor}", *options)
                       for options in ((), ("-cl-fast-relaxed-math",)))
        contains(fast, "v_sin_f32")
        equal("v_sin_f32" in plain, False, f"{processor}: v_sin_f32 without the option")
        equal(3 * len(fast.splitlines()) < len(plain.splitlines()), True, f"{processor}: a few instructions only")


@test
def modules_of_the_set_for_spirv():
    with tempfile.TemporaryDirectory() as folder:
        for target in ("spirv:1.0", "spirv:1.2"):
            validator = tool("spirv-val")
            for image in compiled(target, folder).values():
                ran(validator, image)


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
SPIRV_ANSWERS = {ANY: [1, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1],
                 CONVERT: [-3, -1, 253, -1, -2, -1, 253, 253, 41, 3, 7, 8, 9, 10, 11, 12],
                 SATURATE: [0, -128, 0, 2147483647, -32768, -2147483648, 0, 127, -128, 127, 0, 200, 65535, 1, 77, 1]}


def results_of(image, folder, environment):
    """Sixteen numbers that the module's kernel makes of 0, 1, 2 ... on this machine's processors."""
    numbers, out = Path(folder) / "in", Path(folder) / "out"
    numbers.write_bytes(bytes(memoryview(array("i", range(16)))))
    for kind in "i8:64", "i32:16":  # a pointer's type in SPIR-V is what it is used as
        done = subprocess.run([BUILD / "facet", "kernel", "run", image, "--arg", f"buffer:{kind}={numbers}", "--arg",
                               f"buffer:{kind}=7", "--global", "1", "--out", f"1={out}", "--json"], text=True,
                              capture_output=True, check=False, env=environment)
        if "expected buffer:" not in done.stderr:
            break
    equal((done.returncode, done.stderr), (0, ""), "facet kernel run")
    return list(memoryview(out.read_bytes()).cast("i"))


@test
def built_in_functions_in_spirv():
    """LLVM's generator hands numbers to what takes booleans, and loses signs: Facet's modules do what OpenCL C says."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory() as folder:
        source, image = Path(folder) / "k.cl", Path(folder) / "k.spv"
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        demand_known("spirv:1.2", environment)
        for text, answers in SPIRV_ANSWERS.items():
            source.write_text(text)
            for level in range(4):
                ran(BUILD / "facet", "compile", f"-O{level}", "--target", "spirv:1.2", source, "-o", image,
                    env=environment)
                ran(tool("spirv-val"), image)
                if not shutil.which("llvm-spirv-15") and not shutil.which("llvm-spirv"):
                    raise Skip("there is no llvm-spirv to read SPIR-V with")
                equal(results_of(image, folder, environment), answers, f"-O{level}: {text}")


main()
