# SPDX-License-Identifier: Apache-2.0
"""libfacet.so.0 through ctypes: its structs, its functions, and its errors as exceptions.

Owns: finding the library, the layouts of the structs that are passed, and freeing the texts that functions return.
Never: decides anything: a rule of the C library is not written a second time here.
"""
import ctypes
import os
from ctypes import (POINTER, byref, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32,
                    c_uint64, c_void_p)
from decimal import Decimal, InvalidOperation
from functools import lru_cache

SONAME = "libfacet.so.0"
MICRO = 1_000_000
LARGEST = 2**63 - 1

# those values of enum facet_status that this package compares
INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION, OUT_OF_RANGE, BAD_STATE, TOO_SMALL = range(-1, -8, -1)
IO = -402

# bits of `valid` in struct facet_device_info, and the names of FACET_HEALTH_* by number
HAS_MEMORY, HAS_UNITS, HAS_NUMA, HAS_PCI = 1 << 0, 1 << 2, 1 << 4, 1 << 5
HEALTH = ("unknown", "ok", "degraded", "failed")

# enumerations of facet_workload: settings (lists, maps, texts), and the forms to render
CDI_DEVICES, NETWORKS, GROUP_NAMES, CAPABILITIES, SYSTEM_CALLS = range(5)
ENVIRONMENT, SYSCTLS, RESOURCE_DATA = 16, 17, 18
IPC_MODE, RUNTIME = 32, 33
RENDER_DOCKER, RENDER_OCI, RENDER_CDI, RENDER_ENVIRONMENT = range(4)


class FacetError(Exception):
    """A refusal by libfacet: `status` (a number of enum facet_status) and its `name`, `argument` and `message`."""

    def __init__(self, status, name, argument, message):
        super().__init__(message or name)
        self.status, self.name, self.argument, self.message = status, name, argument, message


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("argument", c_char * 32), ("message", c_char * 360)]


class MapConfig(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("exclusive", POINTER(c_char_p)), ("exclusive_count", c_uint32),
                ("kind", c_uint32), ("strategy", c_uint32), ("reserved", c_uint32), ("quantum", c_int64)]


class MapDevice(ctypes.Structure):
    _fields_ = [("id", c_char_p), ("slot", c_char_p), ("map", c_uint32), ("type", c_uint32), ("numa_node", c_int32),
                ("unhealthy", c_uint32), ("capacity", c_int64)]


class MapsConfig(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("map_count", c_uint32), ("maps", POINTER(MapConfig)),
                ("devices", POINTER(MapDevice)), ("device_count", c_uint32), ("reserved", c_uint32)]


class MapsPlace(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("map", c_uint32), ("type", c_uint32), ("unhealthy", c_uint32),
                ("numa_node", c_int32), ("reserved_word", c_uint32), ("id", c_char_p), ("slot", c_char_p),
                ("capacity", c_int64), ("granted", c_int64), ("reserved", c_int64)]


class MapsItem(ctypes.Structure):
    _fields_ = [("slot", c_char_p), ("amount", c_int64)]


class MapsRequest(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("count", c_uint32), ("items", POINTER(MapsItem)), ("rules", c_uint32),
                ("affinity", c_uint32), ("near", POINTER(c_uint32)), ("near_count", c_uint32), ("guard", c_uint32),
                ("least", c_int64)]


class MapsPart(ctypes.Structure):
    _fields_ = [("place", c_uint32), ("reserved", c_uint32), ("amount", c_int64)]


class MapsRefusal(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("reason", c_uint32), ("item", c_uint32), ("other", c_uint32), ("asked", c_int64),
                ("could", c_int64)]


class AgentsConfig(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("mode", c_uint32), ("kind", c_uint32), ("count", c_uint32), ("total", c_int64),
                ("system", c_int64), ("manual", c_int64)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("index", c_uint32), ("valid", c_uint64), ("uuid", c_char * 64),
                ("name", c_char * 128), ("vendor", c_char * 64), ("driver_version", c_char * 128),
                ("address", c_char * 256), ("pci_address", c_char * 16), ("kind", c_uint32), ("modes", c_uint32),
                ("memory_bytes", c_uint64), ("max_alloc_bytes", c_uint64), ("compute_units", c_uint32),
                ("clock_mhz", c_uint32), ("numa_node", c_int32), ("max_partitions", c_uint32),
                ("capabilities", c_uint64), ("peak_gflops", c_uint64), ("memory_bandwidth_mbps", c_uint32),
                ("pcie_generation", c_uint16), ("pcie_width", c_uint16), ("mode_group", c_uint8 * 4),
                ("max_workers", c_uint32)]


class WorkloadMount(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("writable", c_uint32), ("type", c_char_p), ("source", c_char_p),
                ("target", c_char_p), ("options", POINTER(c_char_p)), ("option_count", c_uint32),
                ("reserved", c_uint32)]


class ResourcesRecord(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("kind", c_uint32), ("places", c_uint32), ("reserved", c_uint32),
                ("text", c_char_p * 4), ("number", c_int64)]


# tests/integration compares these layouts with the headers.
LAYOUTS = {
    "facet_error": Error, "facet_map_config": MapConfig, "facet_map_device": MapDevice,
    "facet_maps_config": MapsConfig, "facet_maps_place": MapsPlace, "facet_maps_item": MapsItem,
    "facet_maps_request": MapsRequest, "facet_maps_part": MapsPart, "facet_maps_refusal": MapsRefusal,
    "facet_agents_config": AgentsConfig, "facet_device_info": DeviceInfo, "facet_workload_mount": WorkloadMount,
    "facet_resources_record": ResourcesRecord,
}

SLOT_TYPE_FUNC = ctypes.CFUNCTYPE(c_uint32, c_void_p, c_char_p)
TEXT = POINTER(c_void_p)  # char **ret_text; the caller frees the text
COUNT = POINTER(c_uint32)

# The arguments of the functions that return a status. Their last argument, the error, is left out: _bind() adds it.
FALLIBLE = {
    "maps_create": (POINTER(MapsConfig), POINTER(c_void_p)),
    "maps_copy": (c_void_p, POINTER(c_void_p)),
    "maps_reset": (c_void_p, c_void_p),
    "maps_set_strategy": (c_void_p, c_uint32, c_uint32),
    "maps_set_health": (c_void_p, c_uint32, c_char_p, c_uint32),
    "maps_get_place": (c_void_p, c_uint32, POINTER(MapsPlace)),
    "maps_plan": (c_void_p, POINTER(MapsRequest), POINTER(MapsPart), c_uint32, COUNT, POINTER(MapsRefusal)),
    "maps_allocate": (c_void_p, POINTER(MapsRequest), POINTER(c_uint64), POINTER(MapsRefusal)),
    "maps_commit": (c_void_p, POINTER(MapsPart), c_uint32, POINTER(c_uint64)),
    "maps_get_grant": (c_void_p, c_uint64, POINTER(MapsPart), c_uint32, COUNT),
    "maps_release": (c_void_p, c_uint64),
    "maps_list": (c_void_p, POINTER(c_uint64), c_uint32, COUNT),
    "agents_split": (POINTER(AgentsConfig), POINTER(c_int64)),
    "agents_align_memory": (c_uint64, c_uint64, c_uint64, POINTER(c_uint64), POINTER(c_uint64)),
    "device_list_open": (c_char_p, POINTER(c_void_p)),
    "workload_create": (POINTER(c_void_p),),
    "workload_write": (c_void_p, TEXT),
    "workload_add": (c_void_p, c_uint32, c_char_p),
    "workload_set": (c_void_p, c_uint32, c_char_p, c_char_p),
    "workload_add_mount": (c_void_p, POINTER(WorkloadMount)),
    "workload_add_device_node": (c_void_p, c_char_p, c_char_p, c_char_p),
    "workload_add_group_id": (c_void_p, c_uint32),
    "workload_render": (c_void_p, c_uint32, c_void_p, TEXT, c_void_p),
    "resources_create": (POINTER(c_void_p),),
    "resources_add": (c_void_p, POINTER(ResourcesRecord)),
    "resources_get": (c_void_p, c_uint32, POINTER(ResourcesRecord)),
    "resources_format": (c_void_p, TEXT, POINTER(c_size_t)),
    "resources_parse": (c_char_p, c_size_t, POINTER(c_void_p)),
    "resources_parse_legacy": (c_char_p, c_size_t, SLOT_TYPE_FUNC, c_void_p, POINTER(c_void_p)),
    "resources_format_legacy": (c_void_p, SLOT_TYPE_FUNC, c_void_p, TEXT),
}
# The result and the arguments of each other function.
PLAIN = {
    "maps_destroy": (None, c_void_p),
    "maps_place_count": (c_uint32, c_void_p),
    "device_list_close": (None, c_void_p),
    "device_list_count": (c_uint32, c_void_p),
    "device_list_id": (c_char_p, c_void_p, c_uint32),
    "device_list_info": (POINTER(DeviceInfo), c_void_p, c_uint32),
    "device_list_health": (ctypes.c_int, c_void_p, c_uint32),
    "device_list_refusal": (POINTER(Error), c_void_p, c_uint32, POINTER(c_char_p)),
    "device_kind_name": (c_char_p, c_uint32),
    "workload_destroy": (None, c_void_p),
    "resources_destroy": (None, c_void_p),
    "resources_count": (c_uint32, c_void_p),
    "status_name": (c_char_p, ctypes.c_int),
    "status_from_name": (ctypes.c_int, c_char_p),
}


class Library:
    """The loaded library. Its functions may be called by any thread."""

    def __init__(self, path):
        self.path = path
        self._dll = ctypes.CDLL(path)
        self._free = ctypes.CDLL(None).free
        self._free.argtypes, self._free.restype = (c_void_p,), None
        self._functions = {name: self._bind(name, ctypes.c_int, (*arguments, POINTER(Error)))
                           for name, arguments in FALLIBLE.items()}
        for name, (result, *arguments) in PLAIN.items():
            setattr(self, name, self._bind(name, result, arguments))

    def _bind(self, name, result, arguments):
        function = getattr(self._dll, "facet_" + name, None)
        if function is None:
            raise OSError(f"{self.path}: has no facet_{name}(): expected the libfacet that this package came with")
        function.argtypes, function.restype = tuple(arguments), result
        return function

    def call(self, name, *arguments):
        """facet_<name>(): returns when it succeeded, else raises FacetError."""
        error = Error()
        status = self._functions[name](*arguments, byref(error))
        if status != 0:
            raise FacetError(status, self.status_name(status).decode(), error.argument.decode(errors="replace"),
                             error.message.decode(errors="replace"))

    def text(self, name, *arguments, size=None):
        """call() for a function that returns a text, which is freed here. `size`: where its length is stored."""
        pointer = c_void_p()
        self.call(name, *arguments, byref(pointer), *([] if size is None else [byref(size)]))
        try:
            return ctypes.string_at(pointer.value) if size is None else ctypes.string_at(pointer.value, size.value)
        finally:
            self._free(pointer)

    def render(self, workload, form):
        """The workload's configuration as JSON of this form. FacetError names a member that the form cannot express."""
        pointer = c_void_p()
        self.call("workload_render", workload, form, None, byref(pointer), None)
        try:
            return ctypes.string_at(pointer.value)
        finally:
            self._free(pointer)


@lru_cache(maxsize=None)
def _open(path):
    return Library(path)


def load():
    """The library in $FACET_LIB_DIR if it is there, else the library that the dynamic linker finds. OSError says why
    neither was loaded."""
    folder = os.environ.get("FACET_LIB_DIR")
    configured = os.path.join(folder, SONAME) if folder else ""
    if configured and os.path.exists(configured):
        return _open(configured)
    try:
        return _open(SONAME)
    except OSError as error:
        raise OSError(f"{configured} does not exist, and {error}" if configured else
                      f"{error}; set FACET_LIB_DIR to the folder that it is in") from error


def encode(text, argument):
    """Encodes a text for C; refuses a text with a NUL, at which C would truncate it."""
    try:
        raw = str(text).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise FacetError(INVALID_ARGUMENT, "invalid_argument", argument,
                         f"{argument} {text!r}: expected a UTF-8 text") from error
    if b"\0" in raw:
        raise FacetError(INVALID_ARGUMENT, "invalid_argument", argument, f"{argument} {text!r}: expected no NUL in it")
    return raw


def to_micro(value, argument="amount"):
    """The value, a Decimal, int or text, in micro-units. A value with more than 6 decimals is refused, not rounded."""
    try:
        value = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation as error:
        raise FacetError(INVALID_ARGUMENT, "invalid_argument", argument,
                         f"{argument} {str(value)[:40]!r}: expected a number") from error
    if not value.is_finite():
        raise FacetError(INVALID_ARGUMENT, "invalid_argument", argument, f"{argument} {value}: expected a number")
    if not value:
        return 0
    if value.adjusted() > 13 or value.adjusted() < -6:  # before int() makes a number of a million digits of it
        raise FacetError(OUT_OF_RANGE, "out_of_range", argument,
                         f"{argument} {value}: expected 0.000001 to 9223372036854.775807")
    numerator, denominator = value.as_integer_ratio()
    micro, rest = divmod(numerator * MICRO, denominator)
    if rest or abs(micro) > LARGEST:
        raise FacetError(OUT_OF_RANGE, "out_of_range", argument,
                         f"{argument} {value}: expected at most 6 decimals, and at most 9223372036854.775807")
    return micro


def from_micro(micro):
    """The Decimal of that many micro-units, without zeros at its end."""
    whole, rest = divmod(micro, MICRO)
    return Decimal(whole) if rest == 0 else Decimal(micro).scaleb(-6).normalize()
