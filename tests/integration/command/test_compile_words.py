#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Messages of `facet compile` and `facet kernel` about a cache that cannot be used, options that do not fit together,
files that are too large, and sources with control characters, which must not reach the terminal.
"""
import fcntl
import json
import os
import resource
import tempfile
import time

from kernels import Kernels, output_of, run_saxpy
from tap import Skip, contains, equal, main, test

# Characters and bytes that would control a terminal, and bytes that are not UTF-8.
HOSTILE = b"\x1b[31m \x7f \xc2\x9b31m \xff"
SHOWN = "<U+001B>[31m <U+007F> <U+009B>31m <FF>"


@test
def an_unusable_cache_is_reported_and_does_no_harm():
    with Kernels() as place:
        place.write("k.cl", "ok")
        os.mkdir(place.path("cache"))
        os.chmod(place.path("cache"), 0o777)
        for _ in range(2):
            output_of(place.facet("compile", "k.cl"))
            said = output_of(place.facet("compile", "k.cl", "--stats"))
            contains(said, f"cache       not used: {place.path('cache')} may be written by any user (mode 0777)\n")
            equal(said.count("not used"), 1)
        contains(place.json("compile", "k.cl", "--json")["statistics"]["uncached"], "may be written by any user")
        equal((place.compiles(), os.listdir(place.path("cache"))), (5, []))
        os.chmod(place.path("cache"), 0o700)
        equal("uncached" in place.json("compile", "k.cl", "--json")["statistics"], False)
        contains(output_of(place.facet("compile", "k.cl", "--stats")), "1 image, ")


@test
def options_for_a_compile_are_refused_with_an_image():
    with Kernels("real") as place:
        run_saxpy(place)
        output_of(place.facet("compile", "saxpy.cl"))
        for options, name in ((["-O0"], "-O"), (["-DN=1"], "-D"), (["-I", "."], "-I"), (["--std", "CL1.1"], "--std"),
                              (["--target", "host"], "--target"), (["-I.", "-DN=1"], "-I"),
                              (["--", "-cl-fast-relaxed-math"], "-cl-fast-relaxed-math")):
            done = place.facet("kernel", "run", "saxpy.so", *options)
            equal((done.returncode, done.stdout), (2, ""), f"kernel run {options}")
            contains(done.stderr, f"{name} is for compiling, and saxpy.so is an image")
        answer = json.loads(place.facet("kernel", "run", "saxpy.so", "-O0", "--json").stdout)
        equal(answer["error"]["argument"], "-O")
        ran_kernel = place.facet("kernel", "run", "saxpy.so", "--no-cache", "--arg", "f32:2", "--arg", "buffer:f32:4=1",
                                 "--arg", "buffer:f32:4=1")
        equal((ran_kernel.returncode, ran_kernel.stdout), (0, "y 2: 3 3 3 3\n"))


@test
def no_control_character_of_the_real_compiler_reaches_the_terminal():
    with Kernels("real") as place:
        with open(place.path("bad.cl"), "wb") as file:
            file.write(b"#error " + HOSTILE + b"\n\t/* " + HOSTILE + b" \xc3\xa9 */ constant int x = y;\n")
        with open(place.path("warned.cl"), "wb") as file:
            file.write(b"#warning " + HOSTILE + b"\n#line 1 \"" + HOSTILE[:-2] + b".cl\"\n#warning there\n"
                       b"kernel void k(global int *o) { o[0] = 1; }\n")
        done = place.facet("compile", "bad.cl")
        equal(done.returncode, 1)
        equal(done.stderr.splitlines(), [
            f"bad.cl:1:2: error: {SHOWN}", f"#error {SHOWN}", " ^", "bad.cl:2:44: error: use of undeclared identifier 'y'",
            f"\t/* {SHOWN} é */ constant int x = y;", "\t" + " " * (len(f"/* {SHOWN} é */ constant int x = ")) + "^",
            "facet compile: bad.cl has 2 errors"])
        texts = [one["text"] for one in json.loads(place.facet("compile", "bad.cl", "--json").stdout)["diagnostics"]]
        equal(texts[0], SHOWN)
        named = SHOWN[:-5] + ".cl"
        for _ in range(2):  # the second comes from the cache
            done = place.facet("compile", "warned.cl", "--json")
            equal(done.stderr, f"warned.cl:1:2: warning: {SHOWN}\n#warning {SHOWN}\n ^\n{named}:1:2: warning: there\n")
            said = json.loads(done.stdout)["diagnostics"]
            equal([(one["file"], one["text"]) for one in said], [("warned.cl", SHOWN), (named, "there")])


@test
def names_with_control_characters_are_refused():
    with Kernels("real") as place:
        for name, shown in (("\\1B[31m", "<U+001B>"), ("\\C2\\9B", "<U+009B>"), ("\\FF", "<FF>")):
            place.write("k.ll", f'; ModuleID = "k"\ndefine spir_kernel void @"k{name}"(ptr addrspace(1) %x) {{\n  ret void\n}}\n')
            done = place.facet("compile", "k.ll")
            equal(done.returncode, 1)
            contains(done.stderr, f"its name has {shown} in it")
            equal([byte for byte in done.stderr.encode() if byte < 0x20 and byte != 10], [])


@test
def no_control_character_of_the_generator_reaches_the_terminal():
    """LLVM prints a module's unknown processor attributes itself, not as a diagnostic."""
    with Kernels("real") as place:
        place.write("k.ll", 'target triple = "spir64-unknown-unknown"\ndefine spir_kernel void @k(ptr addrspace(1) %a)'
                            ' "target-features"="+\x1b[31mEVIL" "target-cpu"="\x1b[32mEVIL" { ret void }\n')
        done = place.facet("compile", "--target", "gfx90a", "k.ll", "-o", "k.hsaco")
        equal("\x1b" in done.stdout + done.stderr, False, done.stderr)


@test
def folders_of_a_killed_compile_are_removed_by_the_next_one():
    with Kernels("real") as place:
        folders = [tempfile.mkdtemp(prefix="facet-compile-", dir="/dev/shm") for _ in range(3)]
        try:
            for folder in folders:
                with open(os.path.join(folder, "in.o"), "wb") as file:
                    file.write(b"x" * 4096)
            for folder in folders[:2]:
                os.utime(folder, (time.time() - 3600,) * 2)
            used = os.open(folders[1], os.O_RDONLY)
            fcntl.flock(used, fcntl.LOCK_EX)
            place.write("k.cl", "kernel void k(global int *x) { *x = 1; }\n")
            output_of(place.facet("compile", "k.cl"))
            equal([os.path.exists(folder) for folder in folders], [False, True, True], "unused, used, young")
            os.close(used)
        finally:
            for folder in filter(os.path.exists, folders):
                os.remove(os.path.join(folder, "in.o"))
                os.rmdir(folder)


@test
def a_file_of_more_than_256_mib_is_refused():
    with Kernels() as place:
        for more, code, says in ((0, "corrupt", "neither an ELF object"),
                                 (1, "out_of_range", "k.elf: too large; expected at most 256 MiB")):
            place.write("k.elf", "")
            os.truncate(place.path("k.elf"), (256 << 20) + more)
            done = place.facet("kernel", "show", "k.elf", "--json")
            equal(json.loads(done.stdout)["error"]["code"], code, done.stderr)
            contains(done.stderr, says)


@test
def a_file_for_which_there_is_no_memory_is_not_called_too_large():
    def lower():
        resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
    with Kernels() as place:
        place.write("k.elf", "")
        if "neither an ELF" not in place.facet("kernel", "show", "k.elf", preexec_fn=lower).stderr:
            raise Skip("a sanitizer needs more addresses")
        os.truncate(place.path("k.elf"), 255 << 20)
        done = place.facet("kernel", "show", "k.elf", "--json", preexec_fn=lower)
        equal((done.returncode, json.loads(done.stdout)["error"]["code"]), (1, "no_memory"), done.stderr)
        contains(done.stderr, "k.elf: no memory for its contents")


main()
