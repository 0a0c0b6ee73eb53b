# SPDX-License-Identifier: Apache-2.0
"""A place to compile kernels in.

Owns: the choice between the stand-in for the compiler and the real one, and saxpy, which both can compile.
Never: asserts the result of a compile.
"""
import os

from place import BUILD, Place
from tap import Skip, equal

STAND_IN = os.environ.get("FACET_TEST_COMPILER", os.path.join(BUILD, "tests", "unit", "kernel"))
SAXPY = """kernel void saxpy(float a, global const float *x, global float *y)
{
    size_t i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}
"""


class Kernels(Place):
    """A place with a cache of its own and, unless `compiler` is real, the stand-in."""

    def __init__(self, compiler="stand-in"):
        super().__init__(real=True)
        self.env.update(FACET_CACHE_DIR=self.path("cache"), FACET_TEST_COMPILES=self.path("compiles"))
        if compiler == "stand-in":
            self.env["FACET_LIB_DIR"] = STAND_IN
        elif not os.path.exists(os.path.join(BUILD, "facet-kernel-compiler.so")):
            raise Skip("this build has no kernel compiler")

    def has_generator(self, target):
        """Whether this build's LLVM has a generator for the target: Debian's LLVM 19 has none for SPIR-V."""
        self.write("one.cl", "kernel void one(global int *x) { *x = 1; }\n")
        errors = self.facet("compile", "--target", target, "one.cl", "-o", "one.image").stderr
        return "was built without a code generator" not in errors

    def compiles(self):
        """How many compiles the stand-in has made; it appends a byte to a file for each."""
        return len(self.read("compiles")) if self.exists("compiles") else 0


def output_of(done, status=0):
    equal((done.returncode, done.stderr if status == 0 else ""), (status, ""), "exit status and standard error")
    return done.stdout


def run_saxpy(place, *more):
    """Runs saxpy on the processor; skips in a build without the provider cpu."""
    place.write("saxpy.cl", SAXPY)
    if "cpu:0" not in place.facet("devices").stdout:
        raise Skip("this build has no provider cpu")
    return place.facet("kernel", "run", "saxpy.cl", "--arg", "f32:2", "--arg", "buffer:f32:1000=iota", "--arg",
                       "buffer:f32:1000=0.5", *more)
