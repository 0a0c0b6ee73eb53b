# SPDX-License-Identifier: Apache-2.0
"""A place whose machine has NVIDIA GPUs: real command, daemon, provider and libraries over the fake driver and NVML.

Owns: the fake machine's file and the libraries that the loader finds first. Never: tests anything.
"""
import json
import os
import subprocess

from place import BUILD, Place
from real import Real
from tap import Skip

FAKES = os.path.join(BUILD, "tests", "fake", "cuda")
PROGRAMS = os.path.join(BUILD, "tests", "gpu")
TENANT = os.path.join(PROGRAMS, "gpu-tenant")
SMI = os.path.join(PROGRAMS, "gpu-smi")
GIB = 1 << 30
TOO_MUCH_MIB = str(160 << 10)  # MiB: more than any device has
CONTEXT = 300 << 20  # the size of a context on the fake driver
GPU = "GPU-66616b65-2d67-7075-0000-00000000000{}"


class CudaPlace(Real):
    """Two GPUs of 80 and 40 GiB, unless `machine` (FAKE_CUDA_...) says something else."""

    def __init__(self, providers=("cuda",), **machine):
        if not os.path.exists(TENANT):
            raise Skip("this build has no provider cuda")
        Place.__init__(self, real=True)
        paths = [os.path.join(BUILD, f"facet-provider-{name}.so") for name in providers]
        self.env.update({"FAKE_CUDA_DEVICES": "2", "FAKE_CUDA_MEMORY": "80G,40G", **machine})
        self.env.update(LD_LIBRARY_PATH=FAKES, FAKE_CUDA_STATE=self.path("machine"),
                        FACET_PROVIDER_PATH=":".join(paths), FACET_IDLE_EXIT_S="3")
        for name in ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES"):
            self.env.pop(name, None)

    def tenant(self, limits, *arguments):
        """The output of `gpu-tenant`, run with the options `limits` of `facet run`."""
        done = self.facet("run", *limits, "--", TENANT, *arguments)
        if done.returncode:
            raise AssertionError(f"{limits} {arguments}: {done.returncode}, {done.stderr}")
        return json.loads(done.stdout)

    def smi(self, fields, *limits):
        """The output of `gpu-smi`, a list of cells for each GPU. It runs in a vGPU with the options `limits`, or in
        none if there are no options."""
        query = [SMI, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
        if limits:
            output = self.facet("run", *limits, "--", *query).stdout
        else:
            output = subprocess.run(query, env=self.env, capture_output=True, text=True, timeout=60, check=True).stdout
        return [line.split(", ") for line in output.splitlines()]

    def granted(self, *options):
        """How many bytes a program gets if it requests more than any device has."""
        return self.tenant(options, "grab", "plain", "512", TOO_MUCH_MIB, "0")["granted_bytes"]

    def holding(self, *options, kind="plain", seconds=30):
        """Starts a program that allocates all memory it can get; returns the process and its first report."""
        process = self.start("run", *options, "--", TENANT, "grab", kind, "1024", TOO_MUCH_MIB, str(seconds))
        return process, json.loads(process.stdout.readline())
