# SPDX-License-Identifier: Apache-2.0
"""The classes of Backend.AI that this package uses: Backend.AI's own if ai.backend is installed, else replacements.

Owns: the modules in which these classes are sought. Never: behaves differently with a replacement.
"""
import enum
import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from decimal import Decimal

_MODULES = ("ai.backend.agent.resources", "ai.backend.agent.alloc_map", "ai.backend.agent.affinity_map",
            "ai.backend.agent.exception", "ai.backend.agent.errors", "ai.backend.agent.errors.resources",
            "ai.backend.agent.stats", "ai.backend.agent.types", "ai.backend.common.types",
            "ai.backend.agent.docker.resources")


def _find(name):
    for module in _MODULES:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:
            continue
        if found is not None:
            return found
    return None


def _prefer_original(plain):
    return _find(plain.__name__) or plain


# --- errors ---

@_prefer_original
class ResourceError(ValueError):
    pass


@_prefer_original
class UnsupportedResource(ResourceError):
    pass


@_prefer_original
class InvalidResourceCombination(ResourceError):
    pass


@_prefer_original
class InvalidResourceArgument(ResourceError):
    pass


@_prefer_original
class NotMultipleOfQuantum(InvalidResourceArgument):
    pass


@_prefer_original
@dataclass(eq=False)
class InsufficientResource(ResourceError):
    msg: str
    slot_name: str
    requested_alloc: Decimal
    total_allocatable: Decimal
    allocation: dict
    context_tag: str | None = None


@_prefer_original
@dataclass(eq=False)
class FractionalResourceFragmented(ResourceError):
    msg: str
    slot_name: str
    requested_alloc: Decimal
    dev_allocs: dict
    context_tag: str | None = None


@_prefer_original
class ResourceAllocationError(Exception):
    pass


def make_error(kind, message, **details):
    """Makes an error of class `kind` with as many of these arguments as it takes: Backend.AI's releases differ in them.
    A message that the class does not take is added as a note."""
    error = None
    for arguments in (((message,), details), ((), details), ((message,), {}), ((), {})):
        try:
            error = kind(*arguments[0], **arguments[1])
        except TypeError:
            continue
        break
    if message not in str(error):
        error.add_note(message)
    return error


# --- types ---

@_prefer_original
class SlotTypes(enum.StrEnum):
    COUNT = "count"
    BYTES = "bytes"
    UNIQUE = "unique"
    UNIFIED = "unified"


@_prefer_original
class MetricTypes(enum.Enum):
    GAUGE = 0
    RATE = 1
    UTILIZATION = 2
    ACCUMULATION = 3


@_prefer_original
@dataclass
class DeviceSlotInfo:
    slot_type: SlotTypes
    slot_name: str
    amount: Decimal


@_prefer_original
@dataclass
class Measurement:
    value: Decimal
    capacity: Decimal | None = None


@_prefer_original
@dataclass
class NodeMeasurement:
    key: str
    type: MetricTypes
    per_node: Measurement
    per_device: dict = field(default_factory=dict)
    stats_filter: frozenset = frozenset()
    unit_hint: str = "count"


@_prefer_original
@dataclass
class ContainerMeasurement:
    key: str
    type: MetricTypes
    per_container: dict
    stats_filter: frozenset = frozenset()
    unit_hint: str = "count"


@_prefer_original
@dataclass
class ProcessMeasurement:
    key: str
    type: MetricTypes
    per_process: dict
    stats_filter: frozenset = frozenset()
    unit_hint: str = "count"


@_prefer_original
@dataclass
class AbstractComputeDevice:
    device_id: str
    hw_location: str
    memory_size: int
    processing_units: int
    numa_node: int | None = None
    device_name: str | None = None


@_prefer_original
class AbstractAllocMap(ABC):
    def __init__(self, *, device_slots=None, device_mask=None, exclusive_slot_types=None):
        self.device_slots = dict(device_slots or {})
        self.device_mask = frozenset(device_mask or ())
        self.exclusive_slot_types = exclusive_slot_types or set()

    @abstractmethod
    def allocate(self, slots, *, affinity_hint=None, context_tag=None):
        ...

    @abstractmethod
    def apply_allocation(self, existing_alloc):
        ...

    @abstractmethod
    def free(self, existing_alloc):
        ...


@_prefer_original
class AbstractComputePlugin(ABC):
    def __init__(self, plugin_config, local_config):
        self.plugin_config, self.local_config = plugin_config, local_config


def find_spec_reader():
    """Backend.AI's get_resource_spec_from_container(). None without ai.backend: then nothing can be restored."""
    return _find("get_resource_spec_from_container")
