# SPDX-License-Identifier: Apache-2.0
"""A workload configuration of the C library, and what a container needs to work inside a vGPU.

Owns: creating and destroying the C object. Never: renders it in Python: every form comes from facet_workload_render().
"""
import ctypes
import json
import os
import re
from ctypes import byref, c_void_p
from dataclasses import dataclass

from . import library as lib

LAYER = "libfacet-opencl-layer.so"
# Programs write these files of a segment's folder; the rest of it is read-only to them.
WRITTEN_FILES = ("usage", "refused")
VGPU_VARIABLE = "FACET_VGPU_DIR"
# Only these variables of a daemon's answer are set: an answer must not set LD_PRELOAD, for example.
_DEFINED = re.compile(r"[A-Z0-9_]+_VISIBLE_DEVICES|POCL_AFFINITY|FACET_SIM_PROFILE|FACET_SIM_STATE")


@dataclass(frozen=True)
class Entrance:
    """The interposer libraries for one vendor's GPUs: they lie in a folder of their own, under the names of the vendor's
    libraries, and are preloaded."""
    prefixes: tuple   # of the addresses of the devices
    folders: tuple    # in a build, and installed
    target: str       # the folder in a container
    libraries: tuple  # preloaded in this order; the first has to be there


# ADR 19; and ADR 20: one library for every release of the runtime
CUDA = Entrance(("GPU-", "MIG-"), ("interpose/cuda", "cuda"), "/opt/facet/cuda", ("libcuda.so.1", "libnvidia-ml.so.1"))
HIP = Entrance(("amd-",), ("interpose/hip", "hip"), "/opt/facet/hip", ("libamdhip64.so",))


class Workload:
    def __init__(self):
        self._library, self._pointer = lib.load(), None
        pointer = c_void_p()
        self._library.call("workload_create", byref(pointer))
        self._pointer = pointer

    def close(self):
        pointer, self._pointer = self._pointer, None
        if pointer:
            self._library.workload_destroy(pointer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def add(self, setting, text):
        self._library.call("workload_add", self._pointer, setting, lib.encode(text, "setting"))

    def set(self, setting, key, text):
        self._library.call("workload_set", self._pointer, setting, None if key is None else lib.encode(key, "key"),
                           lib.encode(text, "value"))

    def add_mount(self, source, target, writable=False):
        mount = lib.WorkloadMount(size=ctypes.sizeof(lib.WorkloadMount), writable=int(writable), type=b"bind",
                                  source=lib.encode(source, "source"), target=lib.encode(target, "target"))
        self._library.call("workload_add_mount", self._pointer, byref(mount))

    def add_device_node(self, path, permissions="rw"):
        self._library.call("workload_add_device_node", self._pointer, lib.encode(path, "path"), None,
                           lib.encode(permissions, "permissions"))

    def add_group_id(self, group):
        self._library.call("workload_add_group_id", self._pointer, group)

    def render(self, form):
        return json.loads(self._library.render(self._pointer, form))

    def document(self):
        return json.loads(self._library.text("workload_write", self._pointer))


def _find(names, what):
    """Finds the first existing file of `names` beside the library or in the installed folders. FacetError lists the
    folders tried."""
    folders = [os.environ.get("FACET_LIB_DIR"), os.path.dirname(lib.load().path)]
    folders += [os.path.join(base, "facet") for base in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                                         "/usr/lib", "/usr/local/lib/x86_64-linux-gnu",
                                                         "/usr/local/lib/aarch64-linux-gnu", "/usr/local/lib")]
    for folder in filter(None, folders):
        for name in names:
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
    raise lib.FacetError(lib.NOT_FOUND, "not_found", "FACET_LIB_DIR",
                         f"{what}: in none of {', '.join(filter(None, folders))}; set FACET_LIB_DIR")


def find_layer():
    return _find([LAYER], LAYER)


def entrance_of(address):
    """How programs enter a vGPU of the device besides OpenCL; None: in no other way."""
    return next((entrance for entrance in (CUDA, HIP) if address.startswith(entrance.prefixes)), None)


def find_folder(entrance):
    """The folder of the interposer libraries on this machine. FacetError: without them a program would have no limits."""
    first = entrance.libraries[0]
    return os.path.dirname(_find([os.path.join(folder, first) for folder in entrance.folders], first))


def enter_vgpu(workload, vgpu, layer, layer_target="/opt/facet/" + LAYER):
    """Gives a container what `facet run` gives a program: the segment, the OpenCL layer, and the variables for both.
    The segment's folder is read-only, and over it lie the files that programs write: so the container's root cannot
    change the limits, or remove a file."""
    segment = vgpu["segment"]
    workload.add_mount(segment, segment)
    for name in WRITTEN_FILES:
        path = os.path.join(segment, name)
        workload.add_mount(path, path, writable=True)
    workload.add_mount(layer, layer_target)
    for name, value in (vgpu.get("environment") or {}).items():
        if _DEFINED.fullmatch(name):
            workload.set(lib.ENVIRONMENT, name, value)
    for name in ("OPENCL_LAYERS", "OCL_ICD_LAYERS"):  # the second is known to ocl-icd 2.2, which does not know the first
        workload.set(lib.ENVIRONMENT, name, layer_target)
    workload.set(lib.ENVIRONMENT, VGPU_VARIABLE, segment)


def _visible(entrance, address):
    """The variables that make the device at this address the only one that the vendor's library shows."""
    if entrance is CUDA:
        return {"CUDA_VISIBLE_DEVICES": address}
    return {"ROCR_VISIBLE_DEVICES": "GPU-" + address.removeprefix("amd-"),
            "HIP_VISIBLE_DEVICES": "0"}  # an index among the devices that the variable above shows


def enter_device(workload, entrance, address, folder, environment=None):
    """Adds what an NVIDIA or AMD GPU needs besides enter_vgpu(). `folder` is that of find_folder(). `environment` is the
    container's so far: the lists that it has in LD_LIBRARY_PATH and LD_PRELOAD are kept behind ours."""
    def put_in_front(name, first):
        list_so_far = (environment or {}).get(name)
        workload.set(lib.ENVIRONMENT, name, f"{first}:{list_so_far}" if list_so_far else first)

    workload.add_mount(folder, entrance.target)
    put_in_front("LD_LIBRARY_PATH", entrance.target)
    put_in_front("LD_PRELOAD", ":".join(f"{entrance.target}/{name}" for name in entrance.libraries
                                        if os.path.exists(os.path.join(folder, name))))
    for name, value in _visible(entrance, address).items():
        workload.set(lib.ENVIRONMENT, name, value)


def add_access(workload, access):
    """Adds the nodes, CDI devices, groups, capabilities, mounts and variables that the settings name for a device."""
    for node in access.get("device_nodes", ()):
        path, _, permissions = node.partition(":")
        workload.add_device_node(path, permissions or "rw")
    for setting, key in ((lib.CDI_DEVICES, "cdi_devices"), (lib.GROUP_NAMES, "groups"),
                         (lib.CAPABILITIES, "capabilities")):
        for text in access.get(key, ()):
            workload.add(setting, text)
    for source in access.get("mounts", ()):
        workload.add_mount(source, source)
    for name, value in access.get("environment", {}).items():
        workload.set(lib.ENVIRONMENT, name, value)
