# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the agent: its plugin interface, and its assignment of devices to a kernel.

Owns: the abstract methods, the transaction around all maps, the rules for loading plugins, and the merge of container
arguments. Never: copies code of the original: it does what the original's documentation says.
"""
import copy
import importlib.metadata
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from .affinity_map import AffinityHint
from .exception import ResourceError

GROUP = "backendai_accelerator_v21"


class AbstractComputeDevice:
    def __init__(self, device_id, hw_location, memory_size, processing_units, numa_node=None, device_name=None):
        self.device_id, self.hw_location, self.memory_size = device_id, hw_location, memory_size
        self.processing_units, self.numa_node = processing_units, numa_node
        self.device_name = device_name or type(self).__name__.removesuffix("Device").lower()


class AbstractPlugin(ABC):
    def __init__(self, plugin_config, local_config):
        self.plugin_config, self.local_config = plugin_config, local_config

    @abstractmethod
    async def init(self, context=None):
        ...

    @abstractmethod
    async def cleanup(self):
        ...

    @abstractmethod
    async def update_plugin_config(self, plugin_config):
        ...


def _abstract(name):
    def method(self, *arguments):
        raise NotImplementedError(name)
    method.__name__ = name
    return abstractmethod(method)


ABSTRACT = ("get_metadata", "list_devices", "available_slots", "get_version", "extra_info", "gather_node_measures",
            "gather_container_measures", "gather_process_measures", "create_alloc_map", "get_hooks",
            "generate_docker_args", "restore_from_container", "get_attached_devices", "get_docker_networks",
            "generate_mounts")
OPTIONAL = ("generate_resource_data", "get_node_hwinfo", "get_additional_gids", "get_additional_allowed_syscalls")

AbstractComputePlugin = type(AbstractPlugin)("AbstractComputePlugin", (AbstractPlugin,),
                                             {name: _abstract(name) for name in ABSTRACT})


@dataclass
class KernelResourceSpec:
    allocations: dict = field(default_factory=dict)


async def load_plugins(config):
    """Loads the plugins of all entry points, and checks their names as the agent does."""
    found = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        plugin = entry.load()(config.get(entry.name, {}), {})
        for slot, _ in plugin.slot_types:
            if slot != plugin.key and not slot.startswith(plugin.key + "."):
                raise ValueError(f"{slot} does not begin with {plugin.key}")
        if plugin.key in found:
            raise ValueError(f"{plugin.key} twice")
        await plugin.init()
        found[plugin.key] = plugin
    return found


def allocate(maps, slots, order, devices, policy, **options):
    """Allocates devices of all types, or none. With a policy, devices of a type are placed near those that were chosen
    of the type before it."""
    saved, granted, chosen = copy.deepcopy(maps), {}, None
    try:
        for name in order:
            wanted = {slot: amount for slot, amount in slots.items() if slot.split(".")[0] == name}
            hint = AffinityHint(chosen, None, policy) if policy else None
            granted[name] = maps[name].allocate(wanted, affinity_hint=hint, **options)
            ids = {device for amounts in granted[name].values() for device in amounts}
            chosen = [device for device in devices[name] if device.device_id in ids]
    except ResourceError:
        maps.update(saved)
        raise
    return granted


def merge(into, other):
    """Merges `other` into `into`: maps recursively, lists by appending; other values are overwritten."""
    for key, value in other.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        elif isinstance(value, list):
            into.setdefault(key, []).extend(value)
        else:
            into[key] = value
    return into
