# SPDX-License-Identifier: Apache-2.0
"""A place whose tenants run examples/opencl_burn, with kernels of about a millisecond.

Owns: starting that program, and reading its output. Never: tests anything.
"""
import json
import subprocess

from real import BURN, Real, needs


class Tenants(Real):
    def __init__(self):
        super().__init__()
        self.burn = needs(BURN)
        lines = self.burn_outside("--seconds", "0.1", "--kernel-us", "1000")
        self.steps = str(lines[-1]["steps"])

    def burn_outside(self, *arguments):
        done = subprocess.run([self.burn, *arguments], env=self.env, capture_output=True, text=True, timeout=120,
                              check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start_burn(self, options, *arguments):
        return self.start("run", *options, "--", self.burn, "--steps", self.steps, *arguments)


def lines_of(process):
    output, errors = process.communicate(timeout=120)
    if process.returncode:
        raise AssertionError(f"{process.args} returned {process.returncode}: {errors}{output}")
    return [json.loads(line) for line in output.splitlines()]
