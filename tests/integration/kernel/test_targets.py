#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""For each target, the target's own tools accept the images of the kernels of bench/kernels ("the set").

PTX is assembled by ptxas if a CUDA toolkit is installed. AMDGPU objects are read by LLVM's readelf and disassembler.
test_spirv.py checks SPIR-V. For older processors of the host's kind, the tests' kernels are compiled, too.
"""
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from images import (BUILD, KERNELS, LLVM, ROOT, TEST_KERNELS, compile_all, expect_only_known_symbols, find_tool,
                    output_of)
from tap import Skip, contains, equal, main, test

# The kernels that the tests oracle/*-PROCESSOR run. Those tests check the symbols of each image, too, so that this file
# leaves these kernels out.
CHECKED_BY_ORACLE = {"x86-64": {"atomic", "convert", "group", "image", "math", "relational", "vector"},
                     "x86-64-v2": {"math"}}


def entries_of(source):
    return sorted(re.findall(r"^(?:__)?kernel\s+(?:__attribute__\S+\s+)?void\s+(\w+)", source.read_text(), re.MULTILINE))


def ptx_is_assembled(processor):
    with tempfile.TemporaryDirectory() as folder:
        images = compile_all(f"ptx:{processor}", folder)
        for source, image in images.items():
            text = image.read_text()
            contains(text, f".target {processor}")
            equal(sorted(re.findall(r"\.entry (\w+)", text)), entries_of(source), source.name)
        assembler = find_tool("ptxas", "/usr/local/cuda*/bin")
        for image in images.values():
            output_of(assembler, f"-arch={processor}", "-o", os.devnull, image)


def object_is_a_code_object(processor):
    with tempfile.TemporaryDirectory() as folder:
        images = compile_all(f"amdgcn:{processor}", folder)
        reader, disassembler = find_tool("llvm-readelf", *LLVM), find_tool("llvm-objdump", *LLVM)
        for source, image in images.items():
            read = output_of(reader, "-h", "--notes", "--dyn-syms", image)
            contains(read, "AMDGPU - HSA")
            contains(read, f"amdgcn-amd-amdhsa--{processor}")
            for entry in entries_of(source):
                contains(read, f"{entry}.kd")
            equal("<unknown>" in output_of(disassembler, "-d", image), False, f"{source.name}: an unknown instruction")


def images_have_only_known_symbols(processor):
    if platform.machine() != "x86_64":
        raise Skip(f"this machine's processor is not of the family of {processor}")
    kernels = [path for path in TEST_KERNELS if path.stem not in CHECKED_BY_ORACLE[processor]]
    with tempfile.TemporaryDirectory() as folder:
        for source, image in compile_all(f"host:{processor}", folder, KERNELS + kernels).items():
            expect_only_known_symbols(image, source.name)


@test
def images_for_processors_without_fma_and_sse4_have_only_known_symbols():
    images_have_only_known_symbols("x86-64")


@test
def images_for_processors_without_fma_have_only_known_symbols():
    images_have_only_known_symbols("x86-64-v2")


LEADING_ZEROS = """kernel void leading_zeros(global uint *x) {
    size_t i = get_global_id(0);
    x[i] = clz(x[i]);
}
"""


@test
def processor_features_that_linux_hides_are_not_used():
    """No image, compiled or from the cache, uses a processor feature that /proc/cpuinfo does not list, for example
    after Linux was started with clearcpuid=."""
    flags = Path("/proc/cpuinfo").read_text()
    if " bmi1 " not in flags:
        raise Skip("this processor has none of the features that the test hides")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cl").write_text(LEADING_ZEROS)
        (Path(folder) / "cpuinfo").write_text(re.sub(r" (bmi1|abm|avx512\w+)(?= )", "", flags))
        (Path(folder) / "run").write_text(
            'mount --bind cpuinfo /proc/cpuinfo && exec "$1" kernel run k.cl --arg buffer:u32:64=16 --json\n')
        inside = ["unshare", "--user", "--map-root-user", "--mount", "--keep-caps"]
        if not shutil.which("unshare") or subprocess.run([*inside, "mount", "--bind", "cpuinfo", "/proc/cpuinfo"],
                                                         cwd=folder, capture_output=True, check=False).returncode:
            raise Skip("this user may make no mount namespace")
        if not (BUILD / "facet-kernel-compiler.so").exists():
            raise Skip("this build has no kernel compiler")
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        whole = output_of("sh", "-c", 'exec "$1" kernel run k.cl --arg buffer:u32:64=16 --json', "sh", BUILD / "facet",
                          cwd=folder, env=environment)
        less = output_of(*inside, "sh", "run", BUILD / "facet", cwd=folder, env=environment)
        # 16, which the buffer holds, has 27 leading zeros.
        equal([json.loads(text)["results"][0]["values"][0] for text in (whole, less)], [27, 27])


@test
def ptx_of_the_set_for_sm_75_is_assembled():
    ptx_is_assembled("sm_75")


@test
def ptx_of_the_set_for_sm_90_is_assembled():
    ptx_is_assembled("sm_90")


@test
def ptx_of_the_set_for_sm_100_is_assembled():
    ptx_is_assembled("sm_100")


@test
def ptx_of_the_tests_kernels_has_no_constant_memory_and_is_assembled():
    """The tables of the builtin functions are in global memory: those of math.cl alone are larger than the 64 KiB of
    constant memory."""
    sources = [path for path in TEST_KERNELS if path.stem != "image"]  # image functions have no code for PTX
    for processor in ("sm_75", "sm_90"):
        with tempfile.TemporaryDirectory() as folder:
            images = compile_all(f"ptx:{processor}", folder, sources)
            equal(".const" in images[ROOT / "tests/kernels/math.cl"].read_text(), False, f"{processor}: .const")
            assembler = find_tool("ptxas", "/usr/local/cuda*/bin")
            for image in images.values():
                output_of(assembler, f"-arch={processor}", "-o", os.devnull, image)


@test
def objects_of_the_set_for_gfx90a_are_code_objects():
    object_is_a_code_object("gfx90a")


@test
def objects_of_the_set_for_gfx942_are_code_objects():
    object_is_a_code_object("gfx942")


@test
def objects_of_the_set_for_gfx1100_are_code_objects():
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


def disassemble(source, target, *options):
    """The instructions of a source's kernel, one a line, without padding."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.cl"
        path.write_text(source)
        if not (BUILD / "facet-kernel-compiler.so").exists():
            raise Skip("this build has no kernel compiler")
        environment = {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")}
        output_of(BUILD / "facet", "compile", "--target", target, path, "-o", Path(folder) / "k", "--", *options,
                  env=environment)
        lines = output_of(find_tool("llvm-objdump", *LLVM), "-d", "--no-show-raw-insn", Path(folder) / "k").splitlines()
        return "\n".join(line for line in lines if not re.search("s_nop|s_code_end", line))


@test
def work_groups_copy_on_amdgpu():
    for processor in ("gfx90a", "gfx942", "gfx1100"):
        code = disassemble(COPY, f"amdgcn:{processor}")
        contains(code, "<copy>:")
        contains(code, "s_barrier")
        for read, write in ((r"global_load_\w*x4|global_load_b128", r"ds_(write|store)_b128"),
                            (r"ds_(read|load)_b128", r"global_store_\w*x4|global_store_b128")):
            equal(bool(re.search(read, code) and re.search(write, code)), True, f"{processor}: {read}, {write}")
        equal(bool(re.search(r"s_cbranch", code)), True, f"{processor}: a loop over what is left for each work-item")


@test
def fast_functions_are_instructions_on_amdgpu():
    for processor in ("gfx90a", "gfx942", "gfx1100"):
        plain, fast = (disassemble(RELAXED, f"amdgcn:{processor}", *options)
                       for options in ((), ("-cl-fast-relaxed-math",)))
        contains(fast, "v_sin_f32")
        equal("v_sin_f32" in plain, False, f"{processor}: v_sin_f32 without the option")
        equal(3 * len(fast.splitlines()) < len(plain.splitlines()), True, f"{processor}: a few instructions only")


main()
