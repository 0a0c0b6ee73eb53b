#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checked kernels: a fault is reported with kernel, work-item and source line; a correct kernel computes as usual.

Owns: sources with one fault each. Never: accepts a crash of the provider's process instead of a report.
"""
import array
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from tap import Skip, contains, equal, main, test

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FACET_BUILD_DIR", ROOT / "build")).resolve()
SHIFTED_WRITE = "kernel void k(global int *x, long by) {\n    x[get_global_id(0) + by] = 1;\n}\n"
SHIFTED_READ = """kernel void k(global int *x, global int *y, long by) {
    y[get_global_id(0)] = x[get_global_id(0) + by];
}
"""
BUFFER = "buffer:i32:64=0"
KINDS = ("buffer:", "local:", "i32:", "i64:")
FAILED = (1,)  # exit statuses of a run with a report
GLOBAL, BARRIER = "global memory of one allocation", "a barrier between"
LOCAL, PRIVATE, CONSTANT = (f"{space} memory of one variable" for space in ("local", "private", "constant"))
# Distances that lead from some index within an array of 8 elements to an index outside.
WILD = (1, 8, 1000, -1, -8, 100_000_000, -100_000_000, 1 << 44, -(1 << 44), (1 << 61) - 1, -(1 << 61))
# With `by` 0 the index is within t. Barriers may be put at both %s; they split the code that keeps private memory.
PRIVATE_WRITE = """kernel void k(global int *x, long by) {
    int t[8];
    for (int i = 0; i < 8; i++)
        t[i] = i;
    %s
    t[(get_global_id(0) & 7) + by] = 9;
    %s
    x[get_global_id(0)] = t[0] + t[7];
}
"""
PRIVATE_READ = """int of(const int *at, long by) {
    return at[by];
}
kernel void k(global int *x, long by) {
    int t[8], sum = 0;
    for (int i = 0; i < 8; i++)
        t[i] = i;
    x[get_global_id(0)] = of(t + (get_global_id(0) & 7),
                             by);
}
"""


def run(source, *arguments, option=("--check",), out=None, **settings):
    """Runs a source or a path with `facet kernel run`. The bytes of argument `out` are in the result's `.data`."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    with tempfile.TemporaryDirectory(prefix="facet-check-") as folder:
        path = source
        if not isinstance(source, Path):
            path = Path(folder) / "wrong.cl"
            path.write_text(source)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FACET_")}
        environment.update(FACET_LIB_DIR=str(BUILD), FACET_CACHE_DIR=f"{folder}/cache",
                           FACET_RUNTIME_DIR=f"{folder}/run", FACET_STATE_DIR=f"{folder}/state", **settings)
        more = ["--out", f"{out}={folder}/out"] if out is not None else []
        words = [word for argument in arguments for word in ("--arg", argument) if argument.startswith(KINDS)]
        rest = [argument for argument in arguments if not argument.startswith(KINDS)]
        done = subprocess.run([BUILD / "facet", "kernel", "run", *option, *words, *rest, *more, path], env=environment,
                              text=True, capture_output=True, check=False, timeout=60)
        done.data = (Path(folder) / "out").read_bytes() if (Path(folder) / "out").exists() else None
        return done


def check_message(done, item, line, access, expected):
    """Expects one line on standard error, and nothing on standard output."""
    equal(done.stdout, "", "standard output")
    equal(done.returncode in FAILED, True, f"exit status {done.returncode}")
    pattern = (rf"facet kernel run: \S*wrong\.cl:{line}:\d+: kernel k, work-item \({item}, 0, 0\): "
               rf"{access} of 4 bytes at 0(x[0-9a-f]+)?: expected {expected}[^\n]*\n")
    if not re.fullmatch(pattern, done.stderr):
        raise AssertionError(f"standard error: got {done.stderr!r}, expected the pattern {pattern!r}")


@test
def an_overrun_is_reported_from_the_first_element_beyond_the_request():
    check_message(run(SHIFTED_WRITE, BUFFER, "i64:2"), 62, 2, "write", GLOBAL)
    check_message(run(SHIFTED_READ, BUFFER, BUFFER, "i64:1"), 63, 2, "read", GLOBAL)
    equal(run(SHIFTED_WRITE, BUFFER, "i64:0").returncode, 0)


@test
def an_underrun_is_reported():
    check_message(run(SHIFTED_WRITE, BUFFER, "i64:-1"), 0, 2, "write", GLOBAL)
    check_message(run(SHIFTED_READ, BUFFER, BUFFER, "i64:-1"), 0, 2, "read", GLOBAL)


@test
def an_access_at_any_distance_is_reported():
    for by in (1024, 100_000_000, -100_000_000, 1 << 44, -(1 << 44), (1 << 61) - 1):
        check_message(run(SHIFTED_WRITE, BUFFER, f"i64:{by}"), 0, 2, "write", GLOBAL)
        check_message(run(SHIFTED_READ, BUFFER, BUFFER, f"i64:{by}"), 0, 2, "read", GLOBAL)


@test
def an_overrun_of_whole_pages_is_reported():
    pages = "buffer:i32:1024=0"
    check_message(run(SHIFTED_READ, pages, pages, "i64:1"), 1023, 2, "read", GLOBAL)
    check_message(run(SHIFTED_READ, pages, pages, "i64:-1"), 0, 2, "read", GLOBAL)


@test
def an_access_through_null_is_reported():
    source = "kernel void k(global int *x, long at) {\n    x[get_global_id(0)] = *(global int *)at;\n}\n"
    check_message(run(source, BUFFER, "i64:0"), 0, 2, "read", GLOBAL)


@test
def an_overrun_of_local_memory_is_reported():
    source = """kernel void k(global int *x, int by) {
    local int t[64];
    t[get_local_id(0) + by] = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = t[get_local_id(0)];
}
"""
    check_message(run(source, BUFFER, "i32:1", "--group", "64"), 63, 3, "write", LOCAL)
    check_message(run(source, BUFFER, "i32:-100000000", "--group", "64"), 0, 3, "write", LOCAL)
    equal(run(source, BUFFER, "i32:0", "--group", "64").returncode, 0)


# Elements 0 to 7 of an array of 8 are valid. The array's memory is rounded up to 64 or 128 bytes, and `behind` follows.
LOCAL_READ = """kernel void k(global int *x, long by) {
    local int t[8], behind[8];
    t[get_local_id(0) & 7] = 3; behind[get_local_id(0) & 7] = 4;
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = t[7 + by] + behind[0];
}
"""
LOCAL_ARGUMENT = """kernel void k(global int *x, local int *t, local int *behind, long by) {
    t[get_local_id(0) & 7] = 3; behind[get_local_id(0) & 7] = 4;
    barrier(CLK_LOCAL_MEM_FENCE);
    local int *at = get_local_id(0) > 8 ? t : t + 1;
    for (int i = 0; i < 6; i++)
        at++;
    x[get_global_id(0)] = at[by] + behind[0];
}
"""
CONSTANT_READ = """constant int t[8] = {3, 3, 3, 3, 3, 3, 3, 3}, behind[8] = {4, 4, 4, 4, 4, 4, 4, 4};
int of(constant int *at, long by) {
    return at[by];
}
kernel void k(global int *x, long by) {
    x[get_global_id(0)] = of(t + 7, by) + behind[get_global_id(0) & 7];
}
"""


@test
def the_first_element_beyond_an_array_is_reported():
    for source, line, more, expected in ((LOCAL_READ, 5, (), LOCAL), (CONSTANT_READ, 3, (), CONSTANT),
                                         (LOCAL_ARGUMENT, 7, ("local:32", "local:32"), LOCAL + " or argument")):
        for by in (*WILD, 2, 17, 24, 25, -9):
            if by in (-1, -7):
                continue
            by = by if by > 0 else by - 7
            check_message(run(source, BUFFER, *more, f"i64:{by}", "--group", "8"), 0, line, "read", expected)
        for by in (0, -1, -7) if not more else (0, -1, -6):
            done = run(source, BUFFER, *more, f"i64:{by}", "--group", "8", out=0)
            equal((done.returncode, done.data), (0, array.array("i", [7] * 64).tobytes()), done.stderr)


@test
def a_write_beyond_a_local_array_is_not_made():
    source = """kernel void k(global int *x, local int *t, local int *behind, int by) {
    local int own[4], other[4];
    if (get_local_id(0) == 0) {
        behind[0] = other[0] = 1;
        t[7] = own[3] = 1;
        t[by] = 2;
        own[by] = 2;
        x[0] = behind[0] + other[0] + t[7] + own[3] == 4 ? 9 : 8;
        if (x[0] == 9)
            x[64] = 9;
    }
}
"""
    for by in (32, 8, 16):
        check_message(run(source, BUFFER, "local:32", "local:32", f"i32:{by}", "--group", "8"), "(0|8)", 6, "write", LOCAL)
    check_message(run(source.replace("t[by] = 2;", ""), BUFFER, "local:32", "local:32", "i32:4", "--group", "8"), "(0|8)", 7,
         "write", LOCAL)


@test
def an_index_that_the_compiler_knows_is_reported_too():
    source = "constant int t[4] = {1, 2, 3, 4};\nkernel void k(global int *x) {\n    x[get_global_id(0)] = t[%d];\n}\n"
    for level in "0", "3":
        done = run(source % 4, BUFFER, "-O", level)
        contains(done.stderr, "past the end of the array")
        done.stderr = done.stderr[done.stderr.index("facet kernel run"):]
        check_message(done, 0, 3, "read", CONSTANT)
        done = run(source % 3, BUFFER, "-O", level, out=0)
        equal((done.returncode, done.data), (0, array.array("i", [4] * 64).tobytes()), done.stderr)


@test
def a_wild_index_into_a_private_array_is_reported():
    fence = "barrier(CLK_LOCAL_MEM_FENCE);"
    for source, access, line in ((PRIVATE_WRITE % ("", ""), "write", 6), (PRIVATE_WRITE % (fence, fence), "write", 6),
                                 (PRIVATE_READ, "read", 2)):
        for by in WILD:
            first = 7 if by == 1 else 0
            check_message(run(source, BUFFER, f"i64:{by}", "--group", "16"), first, line, access, PRIVATE)


@test
def any_index_within_a_private_array_is_allowed():
    fence = "barrier(CLK_LOCAL_MEM_FENCE);"
    for fences in (("", ""), (fence, fence)):
        done = run(PRIVATE_WRITE % fences, BUFFER, "i64:0", out=0)
        values = [{0: 16, 7: 9}.get(i & 7, 7) for i in range(64)]
        equal((done.returncode, done.data), (0, array.array("i", values).tobytes()), done.stderr)
    done = run(PRIVATE_READ, BUFFER, "i64:0", out=0)
    equal((done.returncode, done.data), (0, array.array("i", [i & 7 for i in range(64)]).tobytes()), done.stderr)


@test
def a_wild_access_to_private_memory_is_not_made():
    """A refused store changes neither the array nor its neighbours in memory; a refused load reads 0."""
    source = """kernel void k(global int *x, long by) {
    volatile int before[8], t[8], behind[8];
    for (int i = 0; i < 8; i++)
        before[i] = t[i] = behind[i] = 1;
    t[by] = 100;
    int got = t[by];
    for (int i = 0; i < 8; i++)
        got += before[i] + t[i] + behind[i];
    x[get_global_id(0)] = got == 24 ? 0 : 1;
    if (got == 24)
        x[64] = 0;
}
"""
    for by in (8, -1, 9, -9):
        done = run(source, BUFFER, f"i64:{by}")
        check_message(done, 0, 5, "write", PRIVATE)
    done = run(source.replace("t[by] = 100;", ""), BUFFER, "i64:-8")
    check_message(done, 0, 6, "read", PRIVATE)


@test
def private_pointers_keep_their_bounds():
    """The bounds of a private pointer are kept through choices, loops, structs and copies."""
    source = """typedef struct { int a[4], b[4]; } pair;
kernel void k(global int *x, long by, int way, pair given) {
    int one[4] = {1, 2, 3, 4}, two[6] = {5, 6, 7, 8, 9, 10}, i = get_global_id(0);
    pair many[3] = {{{0}, {0}}};
    int *at = way == 1 ? one : two;
    if (way < 2) {
        at += by;
        x[i] = *at;
    } else if (way == 2) {
        for (at = one; at != one + 5 + by; at++)
            x[i] = *at;
    } else if (way == 3) {
        many[by].a[2] = i;
        x[i] = many[2].a[2] + many[1].a[2];
    } else if (way == 4) {
        many[by] = given;
        x[i] = many[2].b[3];
    } else if (way == 5) {
        x[i] = given.b[by];
    } else if (way == 6) {
        vstore4((int4)(i), by, (int *)many);
        x[i] = many[0].b[3];
    }
}
"""
    def run_access(way, by):
        return run(source, BUFFER, f"i64:{by}", f"i32:{way}", "i32:7,7,7,7,7,7,7,7")

    for way, line, within, without in ((0, 8, (0, 5), (6, -1)), (1, 8, (0, 3), (4, -1)), (2, 11, (-5, -1), (0, 1)),
                                       (3, 13, (0, 2), (3, -1)), (4, 16, (0, 2), (3, -1)), (5, 19, (-4, 3), (4, -9)),
                                       (6, 21, (0, 5), (6, -1))):
        for by in within:
            done = run_access(way, by)
            equal(done.returncode, 0, f"way {way} by {by}: {done.stderr}")
        for by in without:
            done = run_access(way, by)
            equal(done.returncode, 1, f"way {way} by {by}")
            contains(done.stderr, f"wrong.cl:{line}:")
            contains(done.stderr, PRIVATE)


@test
def a_missing_barrier_is_a_race_in_local_memory():
    source = """kernel void k(global int *x) {
    local int t[64];
    t[get_local_id(0)] = 1;
    %s
    x[get_global_id(0)] = t[63 - get_local_id(0)];
}
"""
    check_message(run(source % "", BUFFER, "--group", "64"), r"\d+", "[35]", "(read|write)", BARRIER)
    equal(run(source % "barrier(CLK_LOCAL_MEM_FENCE);", BUFFER, "--group", "64").returncode, 0)


@test
def a_race_in_global_memory_within_a_group_is_reported():
    source = "kernel void k(global int *x) {\n    x[get_global_id(0) / 2] = get_global_id(0);\n}\n"
    check_message(run(source, BUFFER, "--group", "64"), 1, 2, "write", BARRIER)


@test
def atomics_are_no_race():
    source = "kernel void k(global int *x) {\n    atomic_inc(x);\n    if (x[0] < 0) x[1] = 1;\n}\n"
    done = run(source, BUFFER, "--group", "64", out=0)
    equal((done.returncode, done.data[:8]), (0, array.array("i", [64, 0]).tobytes()))


@test
def an_environment_variable_enables_the_checks():
    check_message(run(SHIFTED_WRITE, BUFFER, "i64:2", option=(), FACET_CHECK="1"), 62, 2, "write", GLOBAL)
    # Without checks, an overrun that stays within the buffer's page is not found.
    equal(run(SHIFTED_WRITE, BUFFER, "i64:2", option=(), FACET_CHECK="0").returncode, 0)


@test
def a_trap_is_refused_where_it_stands():
    """A trap would end the process before a fault is reported, so that checked kernels may not have one. Without
    checks, the trap is compiled as written."""
    source = """void stop(int x) {
    if (x == 99)
        __builtin_trap();
}
kernel void k(global int *x) {
    stop(x[get_global_id(0)]);
    x[get_global_id(0)] = 1;
}
"""
    for option in (("--check",), ("--check", "-O", "0")):
        done = run(source, BUFFER, option=option)
        equal((done.returncode, done.stdout), (1, ""), done.stderr)
        contains(done.stderr, "wrong.cl:3:9: error: 'llvm.trap', which 'stop' calls, is not taken for the target 'host")
    done = run(source, BUFFER, option=(), FACET_CHECK="1")
    equal((done.returncode, done.stdout), (1, ""), done.stderr)
    contains(done.stderr, "'llvm.trap', which 'stop' calls")
    done = run(source, BUFFER, option=(), out=0)
    equal((done.returncode, done.data), (0, array.array("i", [1] * 64).tobytes()), done.stderr)


MODULE = """target datalayout = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024"
target triple = "spir64-unknown-unknown"
declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)
define spir_kernel void @k(ptr addrspace(1) %o) {
  call void @llvm.memset.p1.i64(ptr addrspace(1) %o, i8 0, i64 100000000000, i1 false)
  ret void
}
"""


@test
def a_report_of_a_module_without_places_has_none():
    done = run(MODULE, BUFFER)
    equal((done.returncode in FAILED, done.stdout), (True, ""), done.stderr)
    contains(done.stderr, "facet kernel run: kernel k, work-item (0, 0, 0): write of 100000000000 bytes")


@test
def a_right_reduce_passes():
    done = run(ROOT / "bench" / "kernels" / "reduce.cl", "buffer:f32:256=iota", "buffer:f32:4=0", "local:256",
               "--global", "256", "--group", "64", out=1)
    equal((done.returncode, done.data), (0, array.array("f", [2016, 6112, 10208, 14304]).tobytes()), done.stderr)


@test
def a_reduce_with_too_little_local_memory_is_reported():
    done = run(ROOT / "bench" / "kernels" / "reduce.cl", "buffer:f32:256=iota", "buffer:f32:4=0", "local:128",
               "--global", "256", "--group", "64")
    equal((done.returncode in FAILED, done.stdout), (True, ""))
    contains(done.stderr, "kernel reduce, work-item (32, 0, 0): write of 4 bytes")


@test
def a_right_matmul_passes():
    side = 32
    done = run(ROOT / "bench" / "kernels" / "matmul_tiled.cl", f"buffer:f32:{side * side}=iota",
               f"buffer:f32:{side * side}=2", f"buffer:f32:{side * side}=0", f"i32:{side}", "--global",
               f"{side},{side}", "--group", "16,16", out=2)
    rows = [2.0 * sum(range(row * side, row * side + side)) for row in range(side)]
    expected = array.array("f", [value for value in rows for _ in range(side)])
    equal((done.returncode, done.data), (0, expected.tobytes()), done.stderr)


main()
