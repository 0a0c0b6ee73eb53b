# SPDX-License-Identifier: Apache-2.0
"""The environment of a reader who tries a document's commands: a machine, a working folder, the reader's own files and
programs.

Owns: the folder, which looks like the root of the tree with Facet built and on the PATH: examples/ and build/ are links
to the real ones, and what a command may change or write beside is a copy. Never: judges what a command prints.
"""
import os
import shutil
import signal
import subprocess
import sys

from cuda import SMI, CudaPlace
from place import BUILD, SOURCE
from real import Real
from tap import Skip

sys.path.insert(0, os.path.join(SOURCE, "tests", "fixtures", "pci"))
import pci_machine  # noqa: E402

os.environ.pop("LD_LIBRARY_PATH", None)  # the test runner names the fakes' folders there, which not every machine has
DEADLINE = 240  # seconds for one command
CACHE = os.path.join(BUILD, "tests", "integration", "documents", "cache")  # hashcat's kernels take PoCL 20 s to compile
PRINTS = "#!/bin/sh\necho $0 ran\n"  # a program that only shows that it ran
# Files that commands of documents name as the reader's own.
FILES = {
    "matmul.cl": "__kernel void matmul(__global const float *a, __global const float *b, __global float *c)\n"
                 "{ int i = get_global_id(0), j = get_global_id(1); float sum = 0;\n"
                 "  for (int k = 0; k < TILE; k++) sum += a[i * TILE + k] * b[k * TILE + j];\n"
                 "  c[i * TILE + j] = sum; }\n",
    "over.cl": "__kernel void k(__global int *a) { a[get_global_id(0) + 2] = 1; }\n",
    "nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\nnode-1,64000,262144,4,A100\nnode-2,64000,262144,8,A100\n",
    "jobs.csv": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nsmall,1000,1024,1,250\nwhole,4000,4096,1,1000\n",
    "placed": "",
    "workload.json": '{"format": "facet-accelerator-workload", "version": "1.0", "device_nodes": [], "group_names": [],'
                     ' "environment": {"EXAMPLE": "1"}, "mounts": [], "ulimits": {}}\n',
    **{name: f'print("{name} ran")\n' for name in ("train.py", "serve.py", "two.py")},
}
PROGRAMS = ("train", "train-on-two", "linked-with-hip", "bin/program")


def _furnish(place):
    for name, text in FILES.items():
        place.write(name, text)
    for name in PROGRAMS:
        place.write(name, PRINTS, 0o755)
    os.symlink(sys.executable, place.path("bin/python"))
    place.write("bin/nvidia-smi", f'#!/bin/sh\nexec "{SMI}" --query-gpu=memory.total --format=csv,noheader,nounits\n', 0o755)
    os.symlink(BUILD, place.path("build"))
    os.symlink(os.path.join(SOURCE, "examples"), place.path("examples"))
    shutil.copy(os.path.join(SOURCE, "examples", "saxpy.cl"), place.path("saxpy.cl"))
    shutil.copytree(os.path.join(SOURCE, "providers", "null"), place.path("providers/null"))
    shutil.copy(os.path.join(SOURCE, "providers", "meson.build"), place.path("providers"))
    pci_machine.machine_of(os.path.join(SOURCE, "tests", "fixtures", "pci", "server.tree")).plant(place.path("copy"))
    os.mkdir(place.path("tmp"))
    place.env.update(PATH=f"{place.path('bin')}:{BUILD}:{os.environ['PATH']}", HOME=place.root, TMPDIR=place.path("tmp"),
                     XDG_CACHE_HOME=CACHE, XDG_DATA_HOME=place.path("data"), FACET_CACHE_DIR=place.path("facet-cache"))


class Rocm(Real):
    """Two AMD GPUs, of 64 and 8 GiB."""

    def __init__(self):
        provider = os.path.join(BUILD, "facet-provider-rocm.so")
        fakes = os.path.join(BUILD, "tests", "fake")
        if not os.path.exists(provider):
            raise Skip("this build has no provider rocm")
        super().__init__()
        self.env.update(FACET_PROVIDER_PATH=provider, FACET_ROCM_HIP=os.path.join(fakes, "hip", "libamdhip64.so.6"),
                        FACET_ROCM_SMI=os.path.join(fakes, "amdsmi", "libamd_smi.so.26"),
                        FACET_ROCM_ROOT=os.path.join(fakes, "amdsmi", "kernel"), FAKE_HIP_STATE=self.path("hip"),
                        FAKE_HIP_MEMORY="64G,8G", LD_LIBRARY_PATH=os.path.join(fakes, "hip"))


MACHINES = {"here": Real, "cuda": CudaPlace, "rocm": Rocm,
            "mig": lambda: CudaPlace(FAKE_CUDA_MEMORY="80G,80G", FAKE_CUDA_MIG="1")}


def machine_of(document, commands):
    """The name of the machine that a block of commands is about."""
    text = "\n".join(command.text for command in commands)
    if "cuda" in document or "cuda:" in text:
        return "mig" if "--mode partitioned" in text else "cuda"
    return "rocm" if "rocm" in document else "here"


class Reader:
    """Types one command after the other, as in one shell: exported variables and the current folder stay."""

    def __init__(self, machine):
        self.place = MACHINES[machine]()
        _furnish(self.place)
        self.place.env["FACET_IDLE_EXIT_S"] = "600"  # this reader goes on at once, but a busy machine types slowly
        self.folder, self.env = self.place.root, dict(self.place.env)

    def leave(self):
        self.place.__exit__()

    def _start(self, script):
        return subprocess.Popen(["bash", "-c", script], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    @staticmethod
    def _finish(process):
        """The output of a command. A command that takes too long is ended with all processes that it started, except a
        daemon, which is in another process group."""
        try:
            return process.communicate(timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise

    def type(self, text):
        after = self.place.path("tmp/after")
        process = self._start(f'{text}\nstatus=$?\n{{ pwd; env -0; }} >"{after}"\nexit $status')
        output, errors = self._finish(process)
        self.folder, _, variables = self.place.read("tmp/after").partition("\n")
        self.env = dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)
        return subprocess.CompletedProcess(text, process.returncode, output, errors)

    def type_and_interrupt(self, text):
        """Types a command that runs until ^C, and ^C after the command's first line."""
        process = self._start(f"exec {text}")
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        output, errors = self._finish(process)
        status = 0 if first and process.returncode in (0, 130, -signal.SIGINT) else process.returncode or 1
        return subprocess.CompletedProcess(text, status, first + output, errors)
