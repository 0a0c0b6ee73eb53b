#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An application outside of the tree is built with the files of `make install`, which pkg-config finds; and with the
build folder, by its facet-uninstalled.pc.

Owns: proofs that headers, library and each facet.pc agree. Never: uses a file of the tree that no facet.pc names.
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
    """Installs everything under `root`; returns the folder with facet.pc."""
    output("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", root)
    return next(root.rglob("facet.pc")).parent


def build_and_run(home, packages, libraries, plugins, **more):
    """Builds and runs the example `basic` in `home`, with the facet.pc of folder `packages`."""
    home.mkdir()
    shutil.copy(ROOT / "examples" / "basic.c", home)
    environment = {**os.environ, "PKG_CONFIG_PATH": str(packages), **more}
    flags = output("pkg-config", "--cflags", "--libs", "facet", env=environment).split()
    contains(flags, "-lfacet")
    output(*CC, "-Wall", "-Wextra", "-Werror", "-o", "basic", "basic.c", *flags, cwd=home)
    text = output(home / "basic", cwd=home, env={
        **os.environ, "LD_LIBRARY_PATH": str(libraries), "FACET_LIB_DIR": str(plugins)})
    contains(text, "product: 0 elements wrong")


def needs_tools():
    for tool in ("meson", "pkg-config", CC[0]):
        if not shutil.which(tool):
            raise Skip(f"no {tool}")


@test
def an_application_is_built_and_runs_with_the_installed_files():
    needs_tools()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        packages = install(root)
        build_and_run(Path(folder) / "application", packages, packages.parent, packages.parent / "facet",
                      PKG_CONFIG_SYSROOT_DIR=str(root))


@test
def an_application_is_built_and_runs_with_the_build_folder():
    needs_tools()
    with tempfile.TemporaryDirectory() as folder:
        build_and_run(Path(folder) / "application", BUILD / "meson-uninstalled", BUILD, BUILD)


main()
