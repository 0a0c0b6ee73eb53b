# SPDX-License-Identifier: Apache-2.0
"""FacetPlugin: the nineteen methods of backendai_accelerator_v21, and create_lifecycle_hook() of what follows it.

Owns: the slot facet.shares (or facet.device), vGPUs that containers were given, and when they are taken back.
Never: reports what was not measured, blocks the agent's loop, or hands out a fraction that nobody is held to.
"""
import asyncio
import logging
import time
import uuid
from decimal import Decimal

from . import __version__, interface, lifecycle
from .daemon import Daemon
from .devices import list_devices
from .library import MICRO, RENDER_DOCKER, FacetError, to_micro
from .maps import EXACT, ROUND_DOWN, FacetAllocMap
from .workload import Workload, add_access, enter_vgpu, find_layer

log = logging.getLogger(__name__)

KEY = "facet"
LABEL = "ai.facet.vgpus"
RULES = {"exact": EXACT, "round-down": ROUND_DOWN}
# metric of the daemon -> key, type, unit, how devices make a node
READINGS = {
    "facet_device_memory_used_bytes": ("facet_mem", "GAUGE", "bytes", sum),
    "facet_device_power_watts": ("facet_power", "GAUGE", "Watts", sum),
    "facet_device_temperature_celsius": ("facet_temperature", "GAUGE", "Celsius", max),
}


class FacetDevice(interface.AbstractComputeDevice):
    """Theirs, with what it is called."""

    def __init__(self, device):
        super().__init__(device_id=device.device_id, hw_location=device.pci_address or device.facet_id,
                         memory_size=device.memory_bytes, processing_units=device.compute_units,
                         numa_node=device.numa_node, device_name=KEY)
        self.model_name = device.name


class FacetPlugin(interface.AbstractComputePlugin):
    key = KEY
    slot_types = ((f"{KEY}.shares", interface.SlotTypes.COUNT), (f"{KEY}.device", interface.SlotTypes.COUNT))
    exclusive_slot_types = {f"{KEY}.shares", f"{KEY}.device"}
    config_watch_enabled = False

    def __init__(self, plugin_config, local_config):
        super().__init__(plugin_config, local_config)
        self._read_config(plugin_config)
        self._devices, self._refusals = {}, []
        self.daemon = Daemon(self._config.get("socket"))
        self._live, self._cleared = {}, 0.0

    def _read_config(self, given):
        config = dict(given or {})
        words = {"allocation_mode": ("fractional", "discrete"), "rules": tuple(RULES),
                 "strategy": ("evenly", "fill"), "enforce": ("vgpu", "none")}
        for name, allowed in words.items():
            if config.setdefault(name, allowed[0]) not in allowed:
                raise ValueError(f"{name} {config[name]!r}: expected one of {', '.join(allowed)}")
        to_micro(config.setdefault("quantum_size", "0.01"), "quantum_size")
        self._config = config
        self._fractional = config["allocation_mode"] == "fractional"
        self._slot = f"{KEY}.shares" if self._fractional else f"{KEY}.device"
        self._prefix = config.get("vgpu_prefix", "bai-")
        self._reap_after_s = float(config.get("reap_after_s", 600))

    # --- life ---

    async def init(self, context=None):
        self._devices, self._refusals = await self._scan()
        self._cleared = time.monotonic()
        for path, reason in self._refusals:
            log.warning("facet: provider %s was refused: %s", path, reason)

    async def _scan(self):
        devices, refusals = await asyncio.to_thread(list_devices, self._config.get("providers"))
        mask, usable = set(self._config.get("device_mask", ())), {}
        for device in devices:
            if device.device_id in mask or device.facet_id in mask:
                continue
            if device.memory_bytes is None or device.compute_units is None:
                log.warning("facet: %s is left out: its memory or compute units are not known", device.facet_id)
                continue
            usable[device.device_id] = device
        return usable, refusals

    async def cleanup(self):
        """Containers outlive the agent, and so do their vGPUs."""

    async def update_plugin_config(self, plugin_config):
        self._read_config(plugin_config)
        self.plugin_config = plugin_config

    # --- metadata ---

    def get_metadata(self):
        return {"slot_name": self._slot, "description": "A part of an accelerator, held to it by Facet"
                if self._fractional else "A whole accelerator", "human_readable_name": "Facet",
                "display_unit": "share" if self._fractional else "device", "display_icon": "gpu1",
                "number_format": {"binary": False, "round_length": 2 if self._fractional else 0}}

    async def list_devices(self):
        return [FacetDevice(device) for device in self._devices.values()]

    def _offered(self):
        """A fraction is offered only where a program can be held to it."""
        return [device for device in self._devices.values()
                if self._config["enforce"] == "none" or device.takes_programs]

    async def available_slots(self):
        return {self._slot: Decimal(len([device for device in self._offered() if device.health != "failed"]))}

    def get_version(self):
        return __version__

    async def extra_info(self):
        drivers = {device.provider + "_driver": device.driver_version for device in self._devices.values()
                   if device.driver_version}
        return {**drivers, **{f"refused_{path.rsplit('/', 1)[-1]}": reason for path, reason in self._refusals}}

    async def get_node_hwinfo(self):
        bad = [device for device in self._devices.values() if device.health in ("failed", "degraded")]
        status = ("unavailable" if not self._devices else "healthy" if not bad else
                  "offline" if all(device.health == "failed" for device in self._devices.values()) else "degraded")
        return {"status": status, "status_info": ", ".join(f"{item.facet_id} {item.health}" for item in bad) or None,
                "metadata": {device.device_id: device.health for device in self._devices.values()}}

    # --- allocation ---

    async def create_alloc_map(self):
        offered = self._offered()
        slots = {device.device_id: interface.DeviceSlotInfo(self.slot_types[0][1], self._slot, Decimal(1))
                 for device in offered}
        alloc_map = FacetAllocMap(
            device_slots=slots, exclusive_slot_types=self.exclusive_slot_types,
            kind="fraction" if self._fractional else "discrete", strategy=self._config["strategy"],
            quantum=self._config["quantum_size"] if self._fractional else None, rules=RULES[self._config["rules"]],
            numa_nodes={device.device_id: device.numa_node for device in offered},
            unhealthy=[device.device_id for device in offered if device.health == "failed"],
            most_devices=1 if self._config["enforce"] == "vgpu" else None, name=KEY)
        alloc_map.on_clear(self._forget)
        return alloc_map

    def _forget(self):
        self._live, self._cleared = {}, time.monotonic()

    async def restore_from_container(self, container, alloc_map):
        names = (getattr(container, "labels", None) or {}).get(LABEL, "")
        for name in filter(None, names.split(",")):  # first: whatever fails below, it is alive
            self._live[name] = str(container.id)
        reader = interface.find_spec_reader()
        spec = await reader(getattr(container, "backend_obj", container)) if reader else None
        taken = spec.allocations.get(KEY, {}) if spec is not None else {}
        known = {slot for slot, _ in self.slot_types}
        alloc_map.apply_allocation({slot: devices for slot, devices in taken.items() if str(slot) in known})

    def _granted(self, device_alloc):
        """[(device, micro-units)] of our slots."""
        found = []
        for slot, devices in device_alloc.items():
            for device_id, amount in devices.items() if str(slot).split(".")[0] == KEY else ():
                micro = to_micro(amount, str(slot))
                if micro > 0 and str(device_id) not in self._devices:
                    raise interface.make_error(interface.ResourceAllocationError,
                                               f"facet: there is no device {device_id}")
                if micro > 0:
                    found.append((self._devices[str(device_id)], micro))
        return found

    # --- containers ---

    def make_vgpu(self, name, granted):
        """Of one device. The memory is a wall; the share is guaranteed, and with `cap` also the most."""
        if len(granted) > 1:
            raise interface.make_error(interface.ResourceAllocationError,
                                       f"facet: {len(granted)} devices for one container: a process has one vGPU; set "
                                       "enforce to 'none' for several")
        device, micro = granted[0]
        milli = micro * 1000 // MICRO
        cap = milli if self._config.get("cap", True) else None
        return self.daemon.create(name, device.facet_id, device.memory_bytes * micro // MICRO, milli or None,
                                  cap or None)

    def fill(self, workload, granted, name):
        """What the devices need, and the way into the vGPU `name`; None: there is none to make."""
        for device, _ in granted:
            access = self._config.get("devices", {})
            add_access(workload, access.get(device.device_id) or access.get(device.facet_id) or access.get("*") or {})
        if name is None:
            return
        layer = find_layer()
        vgpu = self.make_vgpu(name, granted)
        try:
            enter_vgpu(workload, vgpu, layer)
        except FacetError:
            self.daemon.delete(name, force=True)
            raise

    def enforced(self, granted):
        return bool(granted) and self._config["enforce"] == "vgpu"

    def _docker_args(self, device_alloc):
        granted = self._granted(device_alloc)
        if not granted:
            return {}
        self._reap()
        name = self._prefix + uuid.uuid4().hex[:16] if self.enforced(granted) else None
        with Workload() as workload:
            self.fill(workload, granted, name)
            try:
                arguments = workload.render(RENDER_DOCKER)
            except FacetError:
                if name:
                    self.daemon.delete(name, force=True)
                raise
        if name:
            arguments.setdefault("Labels", {})[LABEL] = name
            self._live[name] = None
        return arguments

    async def generate_docker_args(self, docker, device_alloc):
        return await asyncio.to_thread(self._docker_args, device_alloc)

    def _reap(self):
        """Of containers that are gone: nobody named them since the maps were cleared, and no process is in them. Those
        of lifecycle hooks are not among them: a hook is told when its workload ends."""
        if not self._reap_after_s or time.monotonic() - self._cleared < self._reap_after_s:
            return
        try:
            oldest = (time.time() - self._reap_after_s) * 1e9
            for vgpu in self.daemon.list():
                name = vgpu["name"]
                if name.startswith(self._prefix) and not name.startswith(self._prefix + lifecycle.MARK) and \
                        name not in self._live and not vgpu.get("processes") and vgpu["created_ns"] < oldest:
                    self.daemon.delete(name)
        except FacetError as error:  # another time
            log.warning("facet: vGPUs that nobody uses stay: %s", error)

    async def generate_mounts(self, source_path, device_alloc):
        """They are in HostConfig.Mounts of generate_docker_args() already."""
        return []

    async def generate_resource_data(self, device_alloc):
        granted = self._granted(device_alloc)
        if not granted:
            return {}
        numbers = {device_id: number for number, device_id in enumerate(self._devices)}
        return {"FACET_GLOBAL_DEVICE_IDS": ",".join(f"{local}:{numbers[device.device_id]}"
                                                    for local, (device, _) in enumerate(granted)),
                "FACET_RESOURCE_VIRTUALIZED": "1" if self.enforced(granted) else "0",
                "FACET_MEMORY_LIMITS": ",".join(f"{local}:{device.memory_bytes * micro // MICRO}"
                                                for local, (device, micro) in enumerate(granted))}

    async def get_attached_devices(self, device_alloc):
        return [{"device_id": device.device_id, "model_name": device.name,
                 "data": {"mem": str(device.memory_bytes * micro // MICRO),
                          "proc": str(device.compute_units * micro // MICRO)}}
                for device, micro in self._granted(device_alloc)]

    async def get_hooks(self, distro, arch):
        """Programs are entered by the OpenCL layer, which is no preloaded object."""
        return []

    async def get_docker_networks(self, device_alloc):
        return []

    def get_additional_gids(self):
        return [int(group) for group in self._config.get("gids", ())]

    def get_additional_allowed_syscalls(self):
        return []

    # --- measurements ---

    async def _read(self):
        try:
            return await asyncio.to_thread(self.daemon.readings)
        except FacetError as error:
            log.debug("facet: nothing was measured: %s", error)
            return []

    async def gather_node_measures(self, ctx):
        readings = await self._read()
        by_facet_id = {device.facet_id: device for device in self._devices.values()}
        found = []
        for metric, (key, kind, unit, whole) in READINGS.items():
            per_device = {}
            for name, labels, value in readings:
                device = by_facet_id.get(labels.get("device"))
                if name == metric and device:
                    capacity = Decimal(device.memory_bytes) if unit == "bytes" else None
                    per_device[device.device_id] = interface.Measurement(value, capacity)
            if per_device:
                capacities = [item.capacity for item in per_device.values()]
                node = interface.Measurement(whole(item.value for item in per_device.values()),
                                             sum(capacities) if None not in capacities else None)
                found.append(interface.NodeMeasurement(key=key, type=interface.MetricTypes[kind], per_node=node,
                                                       per_device=per_device, unit_hint=unit))
        return found

    async def gather_container_measures(self, ctx, container_ids):
        try:
            vgpus = {vgpu["name"]: vgpu for vgpu in await asyncio.to_thread(self.daemon.list)}
        except FacetError as error:
            log.debug("facet: nothing was measured: %s", error)
            return []
        wanted, memory, share = set(container_ids), {}, {}
        for name, container in list(self._live.items()):
            vgpu = vgpus.get(name)
            if vgpu is None or container not in wanted:
                continue
            if "memory_used_bytes" in vgpu:
                memory[container] = interface.Measurement(Decimal(vgpu["memory_used_bytes"]),
                                                          Decimal(vgpu["memory_limit_bytes"]))
            if "share_milli" in vgpu:
                share[container] = interface.Measurement(Decimal(vgpu["share_milli"]) / 10, Decimal(100))
        kind = interface.ContainerMeasurement
        return [kind(key=key, type=interface.MetricTypes[word], per_container=values, unit_hint=unit)
                for key, word, values, unit in (("facet_mem", "GAUGE", memory, "bytes"),
                                                ("facet_util", "UTILIZATION", share, "percent")) if values]

    async def gather_process_measures(self, ctx, pid_map):
        memory = {int(labels["pid"]): interface.Measurement(value) for name, labels, value in await self._read()
                  if name == "facet_process_memory_used_bytes" and int(labels["pid"]) in pid_map}
        return [interface.ProcessMeasurement(key="facet_mem", type=interface.MetricTypes["GAUGE"],
                                             per_process=memory, unit_hint="bytes")] if memory else []

    # --- the interface after this one ---

    async def create_lifecycle_hook(self, workload, device_alloc):
        return lifecycle.FacetLifecycleHook(self, workload, self._granted(device_alloc))

    async def alloc_to_devices(self, device_alloc):
        return await self.get_attached_devices(device_alloc)
