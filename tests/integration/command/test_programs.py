#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified programs give the same results inside a vGPU as outside."""
import hashlib
import os
import subprocess

from real import Real, needs
from tap import contains, equal, main, test

PYOPENCL = """
import numpy, pyopencl
context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
a = numpy.arange(200000, dtype=numpy.float32)
flags = pyopencl.mem_flags
source = pyopencl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=a)
target = pyopencl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
program = pyopencl.Program(context, "__kernel void f(__global const float *a, __global float *b)"
                                    "{ int i = get_global_id(0); b[i] = a[i] * 3 + 1; }").build()
program.f(queue, a.shape, None, source, target)
b = numpy.empty_like(a)
pyopencl.enqueue_copy(queue, b, target)
print(b.sum(), (b == a * 3 + 1).all(), context.devices[0].name)
"""


def outside(place, command):
    return subprocess.run(command, env={**place.env, **home_env(place)}, cwd=place.root, capture_output=True, text=True,
                          timeout=300, check=False)


def inside(place, command):
    return subprocess.run([*place.run_prefix(), *command], env={**place.env, **home_env(place)}, cwd=place.root,
                          capture_output=True, text=True, timeout=300, check=False)


def home_env(place):
    """Variables that move a program's home, where it keeps caches and sessions, into the test's own folder. hashcat takes
    its home from the user database, and refuses to run twice in one home."""
    folders = {f"XDG_{kind}_HOME": place.path(kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    return {**folders, "HOME": place.root, "PYOPENCL_NO_CACHE": "1", "PYOPENCL_CTX": "0"}


class Program(Real):
    def run_prefix(self):
        return [os.path.join(os.environ["FACET_BUILD_DIR"], "facet"), "run", "-m", "1G", "-c", "50", "--"]


@test
def hashcat_cracks_the_same_hash():
    hashcat = needs("hashcat")
    word = "ab12c"
    with Program() as place:
        command = [hashcat, "--force", "-m", "0", "-a", "3", "-O", "--quiet", "--potfile-disable",
                   hashlib.md5(word.encode()).hexdigest(), "?l?l?d?d?l"]
        for done in (outside(place, command), inside(place, command)):
            equal(done.returncode, 0, done.stdout + done.stderr)
            contains(done.stdout, ":" + word)


@test
def clpeak_prints_the_same_labels():
    clpeak = needs("clpeak")
    with Program() as place:
        command = [clpeak, "--kernel-latency"]
        labels = []
        for done in (outside(place, command), inside(place, command)):
            equal(done.returncode, 0, done.stdout + done.stderr)
            labels.append([line.split(":")[0] for line in done.stdout.splitlines()])
        equal(labels[1], labels[0], "clpeak's output without its figures")


@test
def clfft_passes_its_own_check():
    client = needs("clFFT-client")
    with Program() as place:
        command = [client, "-c", "-x", "64", "-y", "64"]
        verdicts = []
        for done in (outside(place, command), inside(place, command)):
            equal(done.returncode, 0, done.stdout + done.stderr)
            verdicts.append([line for line in done.stdout.splitlines() if "****" in line])
        equal(verdicts[1], verdicts[0], "verdict of clFFT's own check")
        contains("".join(verdicts[1]), "PASS")


@test
def ffmpeg_filters_to_the_same_pixels():
    ffmpeg = needs("ffmpeg")
    with Program() as place:
        command = [ffmpeg, "-v", "error", "-init_hw_device", "opencl=ocl", "-filter_hw_device", "ocl",
                   "-f", "lavfi", "-i", "testsrc=size=320x180:rate=5:duration=2", "-vf",
                   "format=yuv420p,hwupload,avgblur_opencl=sizeX=5,hwdownload,format=yuv420p", "-f", "md5", "-"]
        sums = [done.stdout for done in (outside(place, command), inside(place, command))
                if equal(done.returncode, 0, done.stderr) is None]
        contains(sums[0], "MD5=")
        equal(sums[1], sums[0], "MD5 of the frames")


@test
def pyopencl_computes_the_same():
    python = needs("/usr/bin/python3")
    if subprocess.run([python, "-c", "import pyopencl"], capture_output=True, check=False).returncode:
        needs("pyopencl (Debian: python3-pyopencl)")
    with Program() as place:
        results = []
        for done in (outside(place, [python, "-c", PYOPENCL]), inside(place, [python, "-c", PYOPENCL])):
            equal(done.returncode, 0, done.stdout + done.stderr)
            results.append(done.stdout)
        contains(results[0], "True")
        equal(results[1], results[0])


main()
