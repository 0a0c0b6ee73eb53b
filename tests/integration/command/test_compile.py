#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet compile` and `facet kernel`, with the stand-in for the compiler, and with the real one if it was built.

The stand-in (tests/unit/kernel/fake_backend.c) understands no language; words in the source choose its actions.
"""
import json
import os
import re
import resource
import signal
import struct
import subprocess

from kernels import SAXPY, Kernels, output_of, run_saxpy
from place import BUILD, provider_processes, wait_until
from tap import contains, equal, main, test


@test
def an_image_is_named_after_its_source_and_target():
    with Kernels() as place:
        os.mkdir(place.path("src"))
        place.write("src/saxpy.v2.cl", "ok")
        for target, ending in (("sm_90", "ptx"), ("gfx90a", "hsaco"), ("spirv", "spv"), ("host", "so")):
            out = output_of(place.facet("compile", "--target", target, "src/saxpy.v2.cl"))
            equal(out.split(":")[0], f"saxpy.v2.{ending}")
            contains(out, "1 kernel: saxpy\n")
            equal(place.exists(f"saxpy.v2.{ending}"), True)
        output_of(place.facet("compile", "src/saxpy.v2.cl", "-o", "there"))
        equal(place.exists("there"), True)
        contains(output_of(place.facet("compile", "-", "-o", "-", "--target", "sm_90", stdin="ok")), ".version 8.0\n")


@test
def a_compiled_image_is_found_again():
    with Kernels() as place:
        place.write("k.cl", "ok")
        hits = [place.json("compile", *more, "k.cl", "--json")["statistics"]["cache_hit"]
                for more in ([], [], ["-O0"], ["-DN=1"], ["-DN=2"], ["--std", "CL1.2"], ["--no-cache"], ["-DN=1"])]
        equal(hits, [False, True, False, False, False, False, False, True])
        equal(place.compiles(), 6)
        # The compile with --no-cache left no image in the cache.
        contains(output_of(place.facet("compile", "k.cl", "--stats")), "5 images")


@test
def diagnostics_name_file_line_and_column():
    with Kernels() as place:
        place.write("bad.cl", "void k()\n{\n\tint n error\n}\n")
        done = place.facet("compile", "bad.cl")
        equal((done.returncode, done.stdout), (1, ""))
        equal(done.stderr, "bad.cl:2:5: warning: unused variable 'n'\n"
                           "bad.cl:3:1: error: expected ';'\n\tint n error\n^\nfacet compile: bad.cl has 1 error\n")
        equal(place.exists("bad.so"), False)
        done = place.facet("compile", "bad.cl", "--json")
        answer = json.loads(done.stdout)
        equal((done.returncode, answer["error"]["code"]), (1, "corrupt"))
        equal(answer["diagnostics"][1], {"severity": "error", "file": "bad.cl", "line": 3, "column": 1,
                                         "text": "expected ';'"})


@test
def warnings_come_back_from_the_cache():
    with Kernels() as place:
        place.write("k.cl", "// warn\n    warn\n")
        first, second = place.facet("compile", "k.cl"), place.facet("compile", "k.cl")
        equal((first.returncode, first.stderr), (0, "k.cl:2:5: warning: unused variable 'n'\n    warn\n    ^\n"))
        equal((second.returncode, second.stderr), (0, first.stderr))
        equal(place.compiles(), 1)


@test
def wrong_requests_are_refused():
    with Kernels() as place:
        place.write("k.cl", "ok")
        for arguments, status, says in (
                (["k.cl", "--target", "sm_91"], 2, "did you mean 'ptx:sm_90'?"),
                (["k.cl", "--target", "npu:x"], 1, "missing"),
                (["k.cl", "--target", "sm_90", "--check"], 1, "expected host"),
                (["k.cl", "-O", "9"], 2, "expected 0, 1, 2 or 3"),
                (["k.cl", "-O"], 2, "needs a value"),
                (["k.cl", "l.cl"], 2, "one argument too many"),
                ([], 2, "the source is missing"),
                (["none.cl"], 1, "none.cl"),
                (["k.cl", "--stat", "x"], 2, "too many"),
                (["k.cl", "-o", "-", "--json"], 2, "neither --json nor --stats"),
                (["k.cl", "-o", "none/out"], 1, "none/out"),
                (["k.cl", "-o", ""], 2, "-o '': expected a file"),
                (["k.cl", "-D", "", "-I", "."], 2, "-D '': expected NAME"),
                (["k.cl", "-I", ""], 2, "-I '': expected a folder"),
                (["k.cl", "--target", "sm_90", "--target", "host"], 2,
                 "--target is given twice, 'sm_90' and 'host'; expected it once"),
                (["k.cl", "-o", "a", "--output=b"], 2, "--output is given twice, 'a' and 'b'"),
                (["k.cl", "-O0", "-O3"], 2, "-O is given twice, '0' and '3'"),
                ([".", "-o", "x"], 2, ". is a folder; expected a regular file"),
                (["--list-targets", "k.cl"], 2, "one argument too many")):
            done = place.facet("compile", *arguments)
            contains(done.stderr, says)
            equal((done.returncode, done.stdout), (status, ""), f"compile {arguments}")
            equal(len(done.stderr.splitlines()), 1, f"lines of {done.stderr!r}")
        equal(place.compiles(), 1, "only the request whose image cannot be written is compiled")


@test
def options_that_collect_may_be_given_again():
    with Kernels() as place:
        place.write("k.cl", "ok")
        output_of(place.facet("compile", "k.cl", "-DA", "-DB=2", "-I.", "-I", "/tmp", "-DA"))


@test
def a_pipe_is_refused_as_a_source_without_waiting():
    with Kernels() as place:
        os.mkfifo(place.path("pipe"))
        for arguments in (["compile", "pipe"], ["kernel", "show", "pipe"]):
            done = place.facet(*arguments)
            equal((done.returncode, done.stdout), (2, ""), f"{arguments}: {done.stderr}")
            contains(done.stderr, "pipe is a pipe; expected a regular file, or '-' for standard input")
        contains(output_of(place.facet("compile", "-", "-o", "-", "--target", "sm_90", stdin="ok")), ".version 8.0\n")


@test
def a_check_that_the_target_lacks_is_reported():
    with Kernels() as place:
        place.write("k.cl", "ok")
        says = "warning: FACET_CHECK: target 'ptx:sm_90' has no checked images; this one is not checked\n"
        for _ in range(2):  # first compiled, then from the cache
            done = place.facet("compile", "k.cl", "--target", "sm_90", env={"FACET_CHECK": "1"})
            equal((done.returncode, done.stderr), (0, says))
        output_of(place.facet("compile", "k.cl", "--target", "sm_90"))
        output_of(place.facet("compile", "k.cl", env={"FACET_CHECK": "1"}))


@test
def an_image_is_refused_as_a_source():
    with Kernels() as place:
        place.write("k.cl", "ok")
        output_of(place.facet("compile", "k.cl", "--target", "sm_90", "-o", "k.cubin"))
        done = place.facet("compile", "k.cubin")
        equal((done.returncode, done.stderr), (
            2, "facet compile: k.cubin: source is code already; expected OpenCL C, LLVM IR or SPIR-V\n"))


@test
def no_image_overwrites_its_source():
    """The source is protected by its name and by any link, as standard input, and from an image's default name."""
    with Kernels() as place:
        text = "ok\n"
        place.write("k.cl", text)
        place.write("k.spv", text)
        os.mkdir(place.path("src"))
        os.link(place.path("k.cl"), place.path("hard.so"))
        os.symlink("k.cl", place.path("soft.so"))
        os.symlink("../k.cl", place.path("src/l.cl"))
        for arguments in (["k.cl", "-o", "k.cl"], ["k.cl", "-o", "./k.cl"], ["k.cl", "-o", place.path("k.cl")],
                          ["k.cl", "-o", "hard.so"], ["k.cl", "-o", "soft.so"], ["src/l.cl", "-o", "k.cl"],
                          ["k.cl", "-o", "src/../src/l.cl"], ["k.spv", "--target", "spirv"]):
            done = place.facet("compile", *arguments)
            equal((done.returncode, done.stdout), (2, ""), f"compile {arguments}")
            output = arguments[2] if arguments[1] == "-o" else "k.spv"
            contains(done.stderr, f"would overwrite its source, {output};")
        with open(place.path("k.cl"), encoding="utf-8") as source:
            done = subprocess.run([os.path.join(BUILD, "facet"), "compile", "-", "-o", "k.cl"], stdin=source, text=True,
                                  env=place.env, cwd=place.root, capture_output=True, timeout=60, check=False)
        equal((done.returncode, done.stdout), (2, ""))
        equal(place.compiles(), 1, "compiled only when the image's name was not known before")
        done = place.facet("kernel", "run", "k.cl", "--arg", "buffer:i32:1", "--out", "0=soft.so")
        equal((done.returncode, done.stdout), (2, ""))
        contains(done.stderr, "would overwrite the source, soft.so;")
        for name in ("k.cl", "k.spv", "hard.so"):
            equal(place.read(name), text)


@test
def an_image_replaces_an_older_one_whole_or_not_at_all():
    with Kernels() as place:
        place.write("k.cl", "ok")
        place.write("bad.cl", "error")
        place.write("out", "what was there", 0o640)
        os.symlink("out", place.path("link"))
        equal(place.facet("compile", "bad.cl", "-o", "out").returncode, 1)
        equal(place.read("out"), "what was there")
        whole, names = place.path("whole"), {"out", "link", "whole", "k.cl", "bad.cl", "cache", "compiles"}
        output_of(place.facet("compile", "k.cl", "-o", whole))
        size = os.path.getsize(whole)
        # A limit of the process stops writes to a file as a full disk does.
        done = place.facet("compile", "k.cl", "-o", "out",
                           preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                               resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, size - 1))))
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "cannot write out: File too large")
        equal(place.read("out"), "what was there")
        with open(place.path("out"), encoding="utf-8") as old:
            output_of(place.facet("compile", "k.cl", "-o", "link"))
            equal(old.read(), "what was there", "the content for a reader that opened the older image")
        equal((os.path.getsize(place.path("out")), os.stat(place.path("out")).st_mode & 0o777), (size, 0o640))
        equal(os.path.islink(place.path("link")), True)
        equal(set(os.listdir(place.root)) - {"run", "state"}, names, "nothing else is left")


@test
def without_a_compiler_the_message_names_the_package():
    with Kernels() as place:
        place.write("k.cl", "ok")
        os.mkdir(place.path("lib"))
        done = place.facet("compile", "k.cl", env={"FACET_LIB_DIR": place.path("lib")})
        equal(done.returncode, 1)
        contains(done.stderr, "no kernel compiler")
        contains(done.stderr, "llvm-22-dev")


@test
def targets_are_listed():
    with Kernels() as place:
        names = [one["target"] for one in place.json("compile", "--list-targets", "--json")["targets"]]
        equal(len(set(names)), len(names))
        equal({"host", "ptx:sm_75", "ptx:sm_100", "amdgcn:gfx942", "amdgcn:gfx1100", "spirv:1.0"} - set(names), set())
        table = output_of(place.facet("compile", "--list-targets"))
        for name in names:
            contains(table, f"\n{name} ")


@test
def an_image_is_shown():
    with Kernels() as place:
        place.write("k.cl", "ok")
        output_of(place.facet("compile", "--target", "sm_90", "k.cl"))
        kernels = place.json("kernel", "show", "k.ptx", "--json")["kernels"]
        equal([one["name"] for one in kernels[0]["arguments"]], ["a", "x", "y"])
        equal(kernels[0]["arguments"][1]["access"], ["read"])
        equal(output_of(place.facet("kernel", "show", "k.ptx")).splitlines(), [
            "ptx:sm_90", "KERNEL ARG NAME TYPE   KIND   ACCESS", "saxpy    0 a    float  value  -",
            "saxpy    1 x    float* global reads", "saxpy    2 y    float* global both"])
        done = place.facet("kernel", "show", "k.cl")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "neither an ELF object, nor PTX, nor SPIR-V")


@test
def wrong_arguments_of_a_run_are_refused():
    with Kernels() as place:
        place.write("k.cl", "ok")
        for arguments, says in (
                (["--arg", "f32"], "expected TYPE:VALUE"),
                (["--arg", "f32:"], "numbers of that type"),
                (["--arg", "i8:128"], "numbers of that type"),
                (["--arg", "u8:-1"], "numbers of that type"),
                (["--arg", "i32:1.5"], "numbers of that type"),
                (["--arg", "f64:" + ",".join("1" * 17)], "up to 16 numbers"),
                (["--arg", "u8:" + ",".join("1" * 17)], "up to 16 numbers"),
                (["--arg", "i64:1," + "0" * 63 + "1"], "numbers of at most 63 characters"),
                (["--arg", "buffer:f32"], "buffer:TYPE:COUNT"),
                (["--arg", "buffer:f16:4"], "buffer:TYPE:COUNT"),
                (["--arg", "buffer:f32:0"], "expected 1 to"),
                (["--arg", "buffer:f32:-1"], "buffer:TYPE:COUNT"),
                (["--arg", "local:"], "--arg"),
                (["--arg", "local:2147483521"], "expected at most 2147483520 bytes of local memory"),
                (["--timeout", "0"], "--timeout '0': expected a number from 1 to 86400"),
                (["--global", "1,2,3,4"], "one to three numbers"),
                (["--global", "1,"], "one to three numbers"),
                (["--group", "4294967296"], "one to three numbers"),
                (["--global", "99999999999999999999"], "one to three numbers"),
                (["--arg", "f32:1e999"], "numbers of that type that fit"),
                (["--arg", "f32:1e39"], "numbers of that type that fit"),
                (["--arg", "f64:-1e309"], "numbers of that type that fit"),
                (["-d", "cpu:0", "--device", "0"], "--device is given twice, 'cpu:0' and '0'"),
                (["--global", "4", "--global", "8"], "--global is given twice, '4' and '8'"),
                (["--arg", "buffer:i32:4", "--out", "0=a", "--out", "0=b"], "argument 0 goes to 'a' already"),
                (["--print", "x"], "expected a number"),
                (["--out", "0=x"], "INDEX=FILE"),
                (["--arg", "f32:1", "--out", "0=x"], "INDEX=FILE")):
            done = place.facet("kernel", "run", *arguments, "k.cl")
            equal((done.returncode, done.stdout), (2, ""), f"kernel run {arguments}")
            contains(done.stderr, says)


# --- the real compiler ---


@test
def a_kernel_runs_on_the_processor():
    with Kernels("real") as place:
        done = run_saxpy(place, "--print", "3", "--out", "2=y.bin")
        equal((done.returncode, done.stdout), (0, "y 2: 0.5 2.5 4.5 ...\n"))
        with open(place.path("y.bin"), "rb") as file:
            equal(struct.unpack("1000f", file.read()), tuple(2 * i + 0.5 for i in range(1000)))


@test
def infinity_must_be_spelled_out():
    with Kernels("real") as place:
        run_saxpy(place)
        for given, printed in (("inf", "inf"), ("-INF", "-inf"), ("Infinity", "inf"), ("3.4e38", "3.4e+38")):
            done = place.facet("kernel", "run", "saxpy.cl", "--arg", f"f32:{given}", "--arg", "buffer:f32:1=1", "--arg",
                               "buffer:f32:1")
            equal((done.returncode, done.stdout), (0, f"y 2: {printed}\n"), done.stderr)


@test
def numbers_for_missing_dimensions_are_refused():
    with Kernels("real") as place:
        run_saxpy(place)
        for more, says in (
                (["--group", "4,4"], "--group '4,4': dimension y is not one of"),
                (["--group", "4,4", "--global", "64"], "--group '4,4': dimension y is not one of --global '64'"),
                (["--offset", "0,0,5", "--global", "8,8"], "--offset '0,0,5': dimension z is not one of --global '8,8'")):
            done = run_saxpy(place, *more)
            equal((done.returncode, done.stdout), (2, ""), f"{more}: {done.stderr}")
            contains(done.stderr, f"facet kernel run: {says}")
        equal(run_saxpy(place, "--group", "50,1,1").returncode, 0, "a size of 1 needs no dimension")


@test
def messages_begin_with_the_typed_word():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("bad.cl", "kernel void k(global int *x) { x[0] = nowhere; }\n")
        place.write("broken.ll", "target triple = \"spir64\"\ndefine spir_kernel void @k(\n")
        saxpy = ["saxpy.cl", "--arg", "f32:2", "--arg", "buffer:f32:4", "--arg"]
        for arguments, says in (
                (["bad.cl"], "bad.cl:1:39: error: "),
                (["broken.ll"], "broken.ll: error: not LLVM IR: "),
                (saxpy + ["buffer:f32:4", "--kernel", "none"], "--kernel: kernel 'none' is not in the image"),
                (saxpy + ["buffer:f32:4=1e999"], "--arg: 1e999: expected a number that f32 can represent"),
                (saxpy + ["buffer:f32:4=none"], "--arg: cannot open none: No such file or directory; expected zeros"),
                (saxpy + ["local:4"], "--arg: argument 2 (float* y) of kernel 'saxpy' is a "),
                (["saxpy.cl", "--", "-march=x"], "argument '-march=x': expected ")):
            done = place.facet("kernel", "run", *arguments)
            equal(done.stdout, "", f"{arguments}: {done.stderr}")
            contains(f"\n{done.stderr}", f"\nfacet kernel run: {says}")


@test
def a_byte_order_mark_is_no_part_of_a_source():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("marked.cl", "\ufeff" + SAXPY)
        done = place.facet("kernel", "run", "marked.cl", "--arg", "f32:2", "--arg", "buffer:f32:2=iota", "--arg",
                           "buffer:f32:2=1")
        equal((done.returncode, done.stdout), (0, "y 2: 1 3\n"), done.stderr)


@test
def a_run_waits_for_no_pipe():
    with Kernels("real") as place:
        run_saxpy(place)
        os.mkfifo(place.path("pipe"))
        place.write("k.cl", "kernel void k(global int *x) { x[0] = 7; }\n")
        for arguments in (["pipe"], ["k.cl", "--arg", "buffer:i32:4=pipe"]):
            done = place.facet("kernel", "run", *arguments)
            equal((done.returncode, done.stdout), (2, ""), f"{arguments}: {done.stderr}")
            contains(done.stderr, "pipe is a pipe; expected a regular file")


@test
def an_image_is_known_by_its_first_bytes():
    with Kernels("real") as place:
        run_saxpy(place)
        output_of(place.facet("compile", "--target", "sm_90", "saxpy.cl", "-o", "image"))
        done = place.facet("kernel", "run", "image")
        contains(done.stderr, "the image is for ptx:sm_90; cpu:0 runs host\n")
        place.write("source.ptx", "kernel void k(global int *x) { x[0] = 7; }\n")
        done = place.facet("kernel", "run", "source.ptx", "--arg", "buffer:i32:1")
        equal((done.returncode, done.stdout), (0, "x 0: 7\n"), done.stderr)


@test
def a_run_answers_in_json():
    with Kernels("real") as place:
        answer = json.loads(run_saxpy(place, "--json", "--group", "50").stdout)
        equal((answer["kernel"], answer["device"], len(answer["results"])), ("saxpy", "cpu:0", 1))
        equal(answer["results"][0]["values"], [2.0 * i + 0.5 for i in range(8)])
        if "launch" in answer:
            equal(answer["launch"]["groups"], 20)


@test
def a_missing_argument_is_named():
    with Kernels("real") as place:
        run_saxpy(place)
        done = place.facet("kernel", "run", "saxpy.cl", "--arg", "f32:2", "--arg", "buffer:f32:16")
        equal((done.returncode, done.stdout), (2, ""))
        contains(done.stderr, "kernel saxpy takes 3 arguments, 2 are given")
        contains(done.stderr, "--arg buffer:TYPE:COUNT")


TYPED = """typedef struct { int a; } pair;
typedef float real;
kernel void typed(float a, global float4 *b, ulong c, global pair *d, global real *e, constant uchar *f)
{
    b[0] = a + (float)c + (float)f[0];
    d[0].a = 1;
    e[0] = 1;
}
"""


@test
def arguments_of_another_type_are_refused():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("typed.cl", TYPED)
        valid = ["f32:2", "buffer:f32:16", "u64:3", "buffer:i8:16", "buffer:u32:4", "buffer:u8:4"]

        def run_with(arguments):
            return place.facet("kernel", "run", "typed.cl", *(word for one in arguments for word in ("--arg", one)))

        for index, given in ((2, "i64:3"), (3, "buffer:f64:2"), (4, "buffer:f64:2"), (5, "buffer:i8:4")):
            done = run_with(valid[:index] + [given] + valid[index + 1:])
            equal((done.returncode, done.stdout[:2]), (0, "b "), f"{given}: {done.stderr}")
        for index, given, expected, says in (
                (0, "i32:2", "f32", "argument 0 (float a) of kernel typed is given i32"),
                (1, "buffer:i32:16", "buffer:f32", "argument 1 (float4* b) of kernel typed is given buffer:i32"),
                (1, "buffer:f64:16", "buffer:f32", "given buffer:f64"),
                (2, "f64:3", "u64", "argument 2 (ulong c) of kernel typed is given f64"),
                (2, "i32:3,0", "u64", "given i32"),
                (5, "buffer:i32:1", "buffer:u8", "argument 5 (uchar* f) of kernel typed is given buffer:i32")):
            done = run_with(valid[:index] + [given] + valid[index + 1:])
            equal((done.returncode, done.stdout), (2, ""), given)
            contains(done.stderr, f"{says}; expected {expected}\n")


@test
def arguments_of_another_form_are_refused():
    with Kernels("real") as place:
        place.write("forms.cl", """kernel void forms(float4 v, float3 w, global float *o) { o[0] = v.w + w.z; }
kernel void size(read_only image2d_t image, global int *o) { o[0] = get_image_width(image); }""")
        for kernel, arguments, says in (
                ("forms", ["f32:1,2,3", "f32:1,2,3", "buffer:f32:1"], "argument 0 (float4 v) of kernel forms is given 3 numbers"),
                ("forms", ["f32:1,2,3,4", "f32:1,2,3", "f32:3"], "(float* o) of kernel forms is memory; expected --arg buffer:"),
                ("forms", ["f32:1,2,3,4", "f32:1,2,3,4", "buffer:f32:1"], "kernel forms is given 4 numbers"),
                ("size", ["buffer:i8:16", "buffer:i32:1"], "argument 0 (image2d_t image) of kernel size is an image")):
            done = place.facet("kernel", "run", "forms.cl", "--kernel", kernel, "--global", "1",
                               *(word for one in arguments for word in ("--arg", one)))
            equal((done.returncode, done.stdout), (2, ""), says)
            contains(done.stderr, says)


@test
def an_image_without_checks_is_not_run_checked():
    with Kernels("real") as place:
        run_saxpy(place)
        place.facet("compile", "saxpy.cl", "-o", "plain.img")
        place.facet("compile", "--check", "saxpy.cl", "-o", "checked.img")
        for image, check, status in (("plain.img", ["--check"], 1), ("checked.img", ["--check"], 0), ("plain.img", [], 0)):
            done = place.facet("kernel", "run", *check, image, "--arg", "f32:2", *["--arg", "buffer:f32:16"] * 2)
            equal((done.returncode, bool(done.stdout)), (status, status == 0), done.stderr)
            equal("the image is not checked; compile it with --check" in done.stderr, status == 1, done.stderr)


@test
def an_endless_kernel_is_ended():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("endless.cl", "kernel void endless(global volatile int *x) { while (x[0] == 0) ; x[1] = 1; }\n")
        done = place.facet("kernel", "run", "--timeout", "1", "endless.cl", "--arg", "buffer:i32:16")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "kernel endless was still at work after 1 s and was ended")


@test
def a_work_group_beyond_its_limit_is_reported_as_such():
    """The message names that limit, not the command's own --timeout, which is much longer."""
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("endless.cl", "kernel void endless(global volatile int *x) { while (x[0] == 0) ; x[1] = 1; }\n")
        place.env["FACET_CPU_GROUP_LIMIT"] = "200"
        done = place.facet("kernel", "run", "endless.cl", "--arg", "buffer:i32:16")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "kernel endless: a work-group took longer than FACET_CPU_GROUP_LIMIT=200 ms, and was ended")
        equal("--timeout" in done.stderr, False, done.stderr)


@test
def an_endless_kernel_is_ended_with_its_process():
    """When the command reports that the kernel was ended, the process in which the kernel ran has ended, too."""
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("endless.cl", "kernel void endless(global volatile int *x) { while (x[0] == 0) ; x[1] = 1; }\n")
        output_of(place.facet("compile", "endless.cl"))
        process = place.start("kernel", "run", "--timeout", "3", "endless.so", "--arg", "buffer:i32:1")
        wait_until(lambda: provider_processes(process.pid), "the provider's process")
        contains(process.stderr.readline(), "kernel endless was still at work after 3 s and was ended")
        equal(provider_processes(process.pid), [], "processes in which the kernel may still run")
        equal((process.wait(timeout=60), process.stdout.read(), process.stderr.read()), (1, "", ""))


@test
def a_kernel_that_crashes_is_named():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("wild.cl", "kernel void tame(global int *x) { x[0] = 1; }\n"
                               "kernel void wild(global int *x, long by) { x[by] = 1; }\n")
        done = place.facet("kernel", "run", "wild.cl", "--kernel", "wild", "--arg", "buffer:i32:4", "--arg",
                           f"i64:{1 << 44}")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "facet kernel run: kernel wild: provider cpu ")  # with a sanitizer a crash is an exit
        # The kernel begins before its launch is answered, and may crash before that, too.
        equal(re.search(r" during execution\.(synchronize|launch)\n$", done.stderr) is not None, True, done.stderr)


@test
def a_kernel_that_crashes_before_its_launch_is_answered_is_named():
    with Kernels("real") as place:
        place.env["FACET_PROVIDER_PATH"] = os.path.join(os.environ["FACET_TEST_FIXTURES"], "command_launch_crashes.so")
        place.write("saxpy.cl", SAXPY)
        done = place.facet("kernel", "run", "saxpy.cl", "-d", "base:0", "--arg", "f32:2", "--arg", "buffer:f32:1000=iota",
                           "--arg", "buffer:f32:1000=0.5")
        equal((done.returncode, done.stdout), (1, ""), done.stderr)
        contains(done.stderr, "facet kernel run: kernel saxpy: provider base ")  # with a sanitizer a crash is an exit
        contains(done.stderr, " during execution.launch\n")


@test
def an_image_of_another_target_is_refused():
    with Kernels("real") as place:
        run_saxpy(place)
        output_of(place.facet("compile", "--target", "sm_90", "saxpy.cl"))
        for arguments in (["saxpy.ptx"], ["--target", "sm_90", "saxpy.cl"]):
            done = place.facet("kernel", "run", *arguments)
            equal((done.returncode, done.stdout), (1, ""))
            contains(done.stderr, "the image is for ptx:sm_90; cpu:0 runs host\n")
        equal(run_saxpy(place, "--target", "host:x86-64-v2").returncode, 0)


@test
def a_kernel_that_needs_too_much_scratch_is_refused():
    with Kernels("real") as place:
        run_saxpy(place)
        place.write("two.cl", """kernel void large(global int *x)
{
    int room[1000000];
    for (int i = 0; i < 1000000; i++)
        room[i] = x[i & 7];
    barrier(CLK_GLOBAL_MEM_FENCE);
    x[0] = room[x[1] & 0xffff];
}
kernel void small(global int *x) { x[get_global_id(0)] = 1; }
""")
        done = place.facet("kernel", "run", "two.cl", "--kernel", "small", "--arg", "buffer:i32:2")
        equal((done.returncode, done.stdout), (0, "x 0: 1 1\n"))
        done = place.facet("kernel", "run", "two.cl", "--kernel", "large", "--arg", "buffer:i32:4096", "--group", "4096")
        equal((done.returncode, done.stdout), (2, ""))
        contains(done.stderr, "kernel large needs ")
        contains(done.stderr, "a group of 4096 work-items: expected at most 4294967296")


@test
def each_standard_that_is_named_compiles():
    with Kernels("real") as place:
        place.write("saxpy.cl", SAXPY)
        for standard, targets in (("CL1.0", ["host", "sm_90", "gfx90a", "spirv"]), ("CL1.1", ["host"]),
                                  ("CL1.2", ["host"]), ("CL3.0", ["host", "sm_90", "gfx90a", "spirv"])):
            contains(output_of(place.facet("compile", "--help")), standard)
            for target in filter(place.has_generator, targets):
                output_of(place.facet("compile", "--std", standard, "--target", target, "saxpy.cl"))


@test
def the_real_compiler_names_line_and_column():
    with Kernels("real") as place:
        place.write("bad.cl", "kernel void k(global int *x)\n{\n    x[0] = nowhere;\n}\n")
        done = place.facet("compile", "bad.cl")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "bad.cl:3:12: error: ")
        contains(done.stderr, "    x[0] = nowhere;\n           ^\n")


@test
def the_real_compiler_is_cached():
    with Kernels("real") as place:
        place.write("saxpy.cl", SAXPY)
        for target in filter(place.has_generator, ("host", "sm_90", "gfx90a", "spirv")):
            answers = [place.json("compile", "--target", target, "saxpy.cl", "--json") for _ in range(2)]
            equal([one["statistics"]["cache_hit"] for one in answers], [False, True], target)
            equal(answers[0]["kernels"], answers[1]["kernels"])
            equal([one["name"] for one in answers[0]["kernels"]], ["saxpy"])


main()
