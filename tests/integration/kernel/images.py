# SPDX-License-Identifier: Apache-2.0
"""The kernels of bench/kernels ("the set") and of the tests, compiled for a target.

Owns: paths of sources and of the build; running a program that must succeed; checking a host image's symbols.
Never: reads anything but symbols in an image.
"""
import functools
import glob
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from compiler import BUILD, Compiler
from tap import Skip, equal

ROOT = Path(__file__).resolve().parents[3]
KERNELS = sorted((ROOT / "bench" / "kernels").glob("*.cl"))
# recursion.cl is left out, since no target accepts it.
TEST_KERNELS = [path for path in sorted((ROOT / "tests" / "kernels").glob("*.cl")) if path.stem != "recursion"]

LLVM = [f"/usr/lib/llvm-{version}/bin" for version in (22, 19)]
IMPORTS_ALLOWED = {"memcpy", "memset", "memmove", "memcmp", "bcmp"}


def find_tool(name, *folders):
    """The path of a program; raises Skip if it is not installed."""
    for folder in folders:
        for path in sorted(glob.glob(f"{folder}/{name}"), reverse=True):
            return path
    path = shutil.which(name)
    if not path:
        raise Skip(f"{name} is not installed")
    return path


def output_of(*command, **options):
    """The standard output of a command, which must succeed."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    equal((done.returncode, done.stderr), (0, ""), " ".join(map(str, command)))
    return done.stdout


def skip_without_generator(target, environment):
    """Raises Skip if the compile's message says that LLVM 19 has no code generator for the target. Other versions of
    LLVM must have it."""
    done = subprocess.run([BUILD / "facet", "compile", "--target", target, KERNELS[0], "-o", os.devnull], text=True,
                          capture_output=True, check=False, env=environment)
    if done.returncode and target in ("ptx:sm_100", "spirv:1.0", "spirv:1.2") and "LLVM 19." in done.stderr:
        raise Skip(done.stderr.strip())


@functools.cache
def compiler():
    return Compiler()


def compile_all(target, folder, sources=None, level=3):
    """Compiles every kernel of the set, or of `sources`, for `target`; returns images' paths by sources' paths."""
    if not (BUILD / "facet-kernel-compiler.so").exists():
        raise Skip("this build has no kernel compiler")
    skip_without_generator(target, {**os.environ, "FACET_CACHE_DIR": str(Path(folder) / "cache")})
    compiler()

    def compile_one(source):
        image = Path(folder) / f"{source.stem}.{target.replace(':', '-')}"
        image.write_bytes(compiler().compile_quietly(source.read_bytes(), target, level, str(source)))
        return source, image

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(compile_one, sources or KERNELS))


def expect_only_known_symbols(image, name):
    """Expects an image for a host to export only its table, and to import only functions that fill, copy or compare
    memory."""
    rows = [line.split() for line in output_of(find_tool("llvm-readelf", *LLVM), "--dyn-syms", image).splitlines()]
    symbols = [row[6:8] for row in rows if len(row) == 8 and row[0] != "Num:"]
    equal([symbol for section, symbol in symbols if section != "UND"], ["facet_host_image"], name)
    equal({symbol for section, symbol in symbols if section == "UND"} - IMPORTS_ALLOWED, set(), name)
