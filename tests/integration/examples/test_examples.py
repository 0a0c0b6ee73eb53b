#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The examples, run as a user runs them, and their output.

Owns: the proof that each example shows its effect. Never: judges times.
"""
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from tap import Skip, equal, main, test

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FACET_BUILD_DIR", ROOT / "build")).resolve()


def run(*words, **variables):
    done = subprocess.run([BUILD / "examples" / words[0], *words[1:]], text=True, capture_output=True, check=False,
                          env={**os.environ, **variables})
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout


def state(text, when):
    """Fragmentation in percent, MiB in use and chunks, from the output line that begins with `when`."""
    line = re.search(rf"^{when} +([\d.]+)% fragmented, +(\d+) MiB in use, .* in (\d+) chunks$", text, re.MULTILINE)
    return float(line[1]), int(line[2]), int(line[3])


@test
def a_surplus_argument_of_opencl_burn_is_refused_by_name():
    if not (BUILD / "examples" / "opencl_burn").exists():
        raise Skip("opencl_burn is not built")
    done = subprocess.run([BUILD / "examples" / "opencl_burn", "--seconds", "1", "more"], text=True, capture_output=True,
                          check=False)
    equal((done.returncode, done.stderr.splitlines()[0]), (2, "opencl_burn: 'more' is one argument too many"))


@test
def memory_really_moves_and_nothing_is_lost():
    text = run("memory")
    before, after = state(text, "before"), state(text, "after")
    equal(before[1], after[1])
    equal(after[2] < before[2], True)
    equal(after[0] < before[0], True)
    # Fewer chunks of 2 MiB could not hold the memory in use.
    equal(after[2], -(-after[1] // 2))
    equal(int(re.search(r"^moved (\d+) KiB", text, re.MULTILINE)[1]) > 0, True)
    equal(re.findall(r"(\d+) bytes wrong", text), ["0"] * 4)
    equal(re.findall(r": (\d+) allocations of (\d+) KiB", text), [("7", "7168"), ("4", "2048")] * 2)


@test
def memory_defragments_by_itself_and_all_chunks_but_one_are_released():
    text = run("memory").partition("\nend ")[2]
    itself = state(text, "itself")
    equal((itself[0] <= 30, itself[1]), (True, 9))
    equal(sum(map(int, re.findall(r"pages, (\d+) of them moved", text))) > 0, True)
    equal(state(text, "end")[1:], (0, 1))  # one chunk is kept for the next vGPU


@test
def a_product_on_a_virtual_gpu_is_right():
    text = run("basic")
    equal(bool(re.search(r"^device \w+:\d+: .*, \d+ compute units, \d+ MiB$", text, re.MULTILINE)), True)
    equal(bool(re.search(r"^basic: gemm .* on stream 0, completed: waited \d+ us, took [1-9]\d* us", text, re.MULTILINE)),
          True)
    equal(re.findall(r": running, 1024 KiB in 1 allocation of at most (\d+) MiB", text), ["1024"])
    equal(re.findall(r"product: (\d+) elements wrong", text), ["0"])


@test
def a_matrix_product_runs_on_a_device_that_supports_it():
    """The first device is a GPU whose vendor's libraries of mathematics are missing; the product runs on another."""
    rocm, fakes = BUILD / "facet-provider-rocm.so", BUILD / "tests" / "fake"
    if not rocm.exists():
        raise Skip("this build has no provider rocm")
    without_math_libraries = {"FACET_ROCM_HIPBLASLT": "/nonexistent", "FACET_ROCM_MIOPEN": "/nonexistent",
                              "FAKE_HIP_UNITS": "32", "FACET_ROCM_SMI": str(fakes / "amdsmi/libamd_smi.so.26"),
                              "FACET_ROCM_HIP": str(fakes / "hip/libamdhip64.so.6")}
    for example in (["basic"], ["tenants", "0.1"]):
        run(*example, FACET_PROVIDER_PATH=f"{rocm}:{BUILD / 'facet-provider-cpu.so'}", **without_math_libraries)
    done = subprocess.run([BUILD / "examples/basic"], text=True, capture_output=True, check=False,
                          env={**os.environ, "FACET_PROVIDER_PATH": str(rocm), **without_math_libraries})
    equal((done.returncode, "libhipblaslt.so" in done.stderr), (1, True), done.stderr)


@test
def a_file_size_limit_kills_no_program():
    """Host memory is a memfd, to which RLIMIT_FSIZE applies.

    Under `ulimit -f 0` the program reports the error, and SIGXFSZ does not kill it.
    """
    def forbid():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    for example in ("memory", "basic"):
        done = subprocess.run([BUILD / "examples" / example], text=True, capture_output=True, check=False, preexec_fn=forbid,
                              env={**os.environ, "FACET_PROVIDER_PATH": str(BUILD / "facet-provider-cpu.so")})
        equal((done.returncode, "File too large" in done.stderr), (1, True), f"{example}: {done.stderr}")


@test
def an_error_for_an_invalid_setting_names_its_variable():
    for name, value, expected in (("FACET_CPU_GROUP_LIMIT", "0", "expected a number from 1 to"),
                                  ("FACET_CPU_MEMORY", "1G", "expected a number from 1 to"),
                                  ("FACET_CPU_UNITS", "many", "expected a number from 1 to")):
        done = subprocess.run([BUILD / "examples/basic"], text=True, capture_output=True, check=False,
                              env={**os.environ, "FACET_PROVIDER_PATH": str(BUILD / "facet-provider-cpu.so"), name: value})
        equal(done.returncode, 1)
        equal(f"{name} '{value}': {expected}" in done.stderr, True, done.stderr)


@test
def a_kernel_of_ones_own_runs_on_two_virtual_gpus():
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("built without the kernel compiler")
    with tempfile.TemporaryDirectory() as cache:
        first, second = (run("kernel", FACET_CACHE_DIR=cache) for _ in range(2))
    equal(re.findall(r"^shuffle.cl for host:\S+: \d+ bytes of code, (.*)$", first + second, re.MULTILINE),
          ["compiled", "from the cache"])
    for text in (first, second):
        rows = re.findall(r"^(\w+) +([\d.]+)% +([\d.]+)% +(\d+)  (\d+)$", text, re.MULTILINE)
        equal([(name, asked, wrong) for name, asked, _, _, wrong in rows], [("large", "75.0", "0"), ("small", "25.0", "0")])
        for _, asked, got, launches, _ in rows:
            # On a busy machine one of the two may stand still for a while.
            equal(abs(float(asked) - float(got)) < 12, True, text)  # percentage points
            equal(int(launches) > 0, True)


@test
def tenants_get_their_shares_and_no_more_memory():
    rows = re.findall(r"^(App\d) +([\d.]+)% +([\d.]+)% +(\d+)  (\w+)$", run("tenants"), re.MULTILINE)
    equal([(name, asked, refused) for name, asked, _, _, refused in rows],
          [("App1", "40.0", "refused"), ("App2", "30.0", "refused"), ("App3", "30.0", "refused")])
    for _, asked, got, operations, _ in rows:
        # On a busy machine one of them may stand still for a while.
        equal(abs(float(asked) - float(got)) < 12, True)
        equal(int(operations) > 0, True)


main()
