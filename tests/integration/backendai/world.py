# SPDX-License-Identifier: Apache-2.0
"""The adapter, with the stand-in of Backend.AI on the module path. Tests import this module first.

Owns: the module path, the adapter's entry points, a simulated machine, a daemon of its own, and a fake daemon. Never:
tests anything.
"""
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from contextlib import contextmanager

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
PACKAGE = os.path.join(SOURCE, "integrations", "backendai")
SHARED = os.path.join(os.path.dirname(SOURCE), "shared", "vectors")
sys.path[:0] = [PACKAGE, os.path.join(HERE, "standin"), os.path.join(HERE, "..", "command")]
sys.dont_write_bytecode = True

from facet_backendai import library  # noqa: E402
from place import BUILD, listens, wait_until  # noqa: E402

os.environ["FACET_LIB_DIR"] = BUILD

FOLDER = tempfile.TemporaryDirectory(prefix="facet-backendai-")


def install():
    """Writes the metadata with the entry points that an installer would write from pyproject.toml."""
    with open(os.path.join(PACKAGE, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)["project"]
    info = os.path.join(FOLDER.name, "site", f"facet_backendai-{project['version']}.dist-info")
    os.makedirs(info)
    with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as file:
        file.write(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    with open(os.path.join(info, "entry_points.txt"), "w", encoding="utf-8") as file:
        for group, entries in project["entry-points"].items():
            file.write(f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items()))
    sys.path.insert(0, os.path.dirname(info))


def simulate(profile="dual-socket", *more):
    """Makes Facet find the simulated devices of a profile, and the devices of the providers named in `more`."""
    state = os.path.join(FOLDER.name, "machine-" + profile)
    os.makedirs(state, exist_ok=True)
    os.environ.update(FACET_SIM_STATE=state,
                      FACET_SIM_PROFILE=os.path.join(SOURCE, "providers", "sim", "profiles", profile + ".json"),
                      FACET_PROVIDER_PATH=":".join(os.path.join(BUILD, f"facet-provider-{name}.so")
                                                   for name in ("sim", *more)))


class Daemon:
    """A real daemon that runs during the `with` block."""

    def __enter__(self):
        root = tempfile.mkdtemp(dir=FOLDER.name)
        runtime = os.path.join(root, "run")
        os.environ.update(FACET_RUNTIME_DIR=runtime, FACET_STATE_DIR=os.path.join(root, "state"))
        self._process = subprocess.Popen([os.path.join(BUILD, "facetd"), "--foreground"], stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        wait_until(lambda: listens(os.path.join(runtime, "facetd.sock")), "the daemon")
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait()


class FakeDaemon:
    """A fake daemon that remembers vGPUs, and waits in create() while `open` is clear."""

    def __init__(self):
        self.vgpus, self.open, self.entered = {}, threading.Event(), threading.Event()
        self.open.set()
        self.lines, self.refuse = [], None

    def create(self, name, device, memory_bytes, request_milli, limit_milli, mode="soft"):
        self.entered.set()
        self.open.wait(30)
        self.vgpus[name] = {"name": name, "segment": "/run/facet/" + name, "created_ns": 0, "processes": 0,
                            "memory_limit_bytes": memory_bytes, "memory_used_bytes": 1, "share_milli": 10,
                            "request": request_milli, "limit": limit_milli}
        return self.vgpus[name]

    def list(self):
        return list(self.vgpus.values())

    def delete(self, name, force=False):
        if self.refuse:
            raise self.refuse
        if name not in self.vgpus:
            raise library.FacetError(library.NOT_FOUND, "not_found", "name", name)
        del self.vgpus[name]

    def readings(self):
        return self.lines


MAKERS = ("maps_create", "maps_copy", "device_list_open", "workload_create", "workload_write", "workload_render",
          "resources_create", "resources_parse", "resources_parse_legacy", "resources_format",
          "resources_format_legacy")
DESTROYERS = ("maps_destroy", "device_list_close", "workload_destroy", "resources_destroy", "_free")


@contextmanager
def count_objects():
    """Counts the objects and texts of the C library that are created and destroyed in the `with` block."""
    lib, count = library.load(), Counter()
    before = {name: getattr(lib, name) for name in ("call", *DESTROYERS)}

    def call(name, *arguments):
        before["call"](name, *arguments)
        count["made"] += name in MAKERS

    def counting_function(name):
        def end(pointer):
            count["ended"] += bool(pointer)
            before[name](pointer)
        return end
    lib.call = call
    for name in DESTROYERS:
        setattr(lib, name, counting_function(name))
    try:
        yield count
    finally:
        for name, function in before.items():
            setattr(lib, name, function)
