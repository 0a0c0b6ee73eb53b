#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An application outside of the tree, against what `make install` puts in place: found by pkg-config alone.

Owns: that headers, library and facet.pc are all installed and agree. Never: uses a header or library of the tree.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
from tap import Skip, contains, equal, main, test

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("FACET_BUILD_DIR", ROOT / "build")).resolve()
CC = os.environ.get("CC", "cc").split()


def output(*words, **more):
    done = subprocess.run(words, text=True, capture_output=True, check=False, **more)
    equal((done.returncode, done.stderr), (0, ""), " ".join(map(str, words)))
    return done.stdout


def install(root):
    """Everything, under `root`: the folder with facet.pc."""
    output("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root)
    return next(root.rglob("facet.pc")).parent


@test
def an_application_is_built_and_runs_with_what_is_installed():
    for tool in ("meson", "pkg-config", CC[0]):
        if not shutil.which(tool):
            raise Skip(f"no {tool}")
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder) / "root", Path(folder) / "application"
        home.mkdir()
        shutil.copy(ROOT / "examples" / "basic.c", home)
        packages = install(root)
        environment = {**os.environ, "PKG_CONFIG_PATH": str(packages), "PKG_CONFIG_SYSROOT_DIR": str(root)}
        flags = output("pkg-config", "--cflags", "--libs", "facet", env=environment).split()
        contains(flags, "-lfacet")
        output(*CC, "-Wall", "-Wextra", "-Werror", "-o", "basic", "basic.c", *flags, cwd=home)
        libraries = packages.parent
        text = output(home / "basic", cwd=home, env={
            **os.environ, "LD_LIBRARY_PATH": str(libraries), "FACET_LIB_DIR": str(libraries / "facet")})
        contains(text, "product: 0 elements wrong")


main()
