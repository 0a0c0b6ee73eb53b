# SPDX-License-Identifier: Apache-2.0
"""FacetPlugin: the nineteen methods of backendai_accelerator_v21, and create_lifecycle_hook() of its successor.

Owns: the slot facet.shares (or facet.device), the vGPUs of containers, and when vGPUs are removed.
Never: reports a value that was not measured, blocks the agent's loop, or hands out a fraction that is not enforced.
"""
import asyncio
import contextlib
import logging
import time
import uuid
from decimal import Decimal

from . import __version__, interface, lifecycle, settings
from .daemon import Daemon
from .devices import list_devices
from .library import MICRO, NOT_FOUND, RENDER_DOCKER, FacetError, to_micro
from .maps import FacetAllocMap
from .workload import Workload, add_access, enter_device, enter_vgpu, entrance_of, find_folder, find_layer

log = logging.getLogger(__name__)

KEY = "facet"
LABEL = "ai.facet.vgpus"
# metric of the daemon -> key, type, unit, and the function that combines the values of all devices to that of the node
READINGS = {
    "facet_device_memory_used_bytes": ("facet_mem", "GAUGE", "bytes", sum),
    "facet_device_power_watts": ("facet_power", "GAUGE", "Watts", sum),
    "facet_device_temperature_celsius": ("facet_temperature", "GAUGE", "Celsius", max),
}


async def _wait_until_done(work):
    """Waits until `work` is done, also when this task is cancelled meanwhile."""
    while not work.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([work])


async def complete(function, undo):
    """Runs function() in a thread and returns its result. A thread cannot be stopped half-way: a task that is cancelled
    meanwhile waits until function() is done, and then undo() reverses what it did."""
    loop = asyncio.get_running_loop()
    work = loop.run_in_executor(None, function)  # no task: the end of the loop does not cancel it
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await _wait_until_done(work)
        if work.exception() is None:
            await _wait_until_done(loop.run_in_executor(None, undo))
        raise


class FacetDevice(interface.AbstractComputeDevice):
    """A device as Backend.AI describes it, and the name of its model."""

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
    complete = staticmethod(complete)

    def __init__(self, plugin_config, local_config):
        super().__init__(plugin_config, local_config)
        self._read_config(plugin_config)
        self._devices, self._refusals = {}, []
        # vGPU -> its container, None while unknown; vGPU -> since when no container has named it
        self._containers, self._unclaimed_since, self._started = {}, {}, time.monotonic()
        self._last_containers = {}  # vGPU -> its container before the maps were cleared
        self._last_reap = self._started
        self._health = {}  # facet_id -> the daemon's last answer; without one, Device.health counts

    def _read_config(self, plugin_config):
        config = settings.read(plugin_config)
        self._config = config
        self._fractional = config["allocation_mode"] == "fractional"
        self._slot = f"{KEY}.shares" if self._fractional else f"{KEY}.device"
        self._prefix, self._reap_after_s = config["vgpu_prefix"], config["reap_after_s"]
        self.daemon = Daemon(config["socket"])

    # --- life ---

    async def init(self, context=None):
        self._devices, self._refusals = await self._scan()
        self._started = self._last_reap = time.monotonic()
        for path, reason in self._refusals:
            log.warning("facet: provider %s was refused: %s", path, reason)

    async def _scan(self):
        devices, refusals = await asyncio.to_thread(list_devices, self._config["providers"])
        mask, usable = self._config["device_mask"], {}
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
        return {"slot_name": self._slot, "description": "A part of an accelerator, enforced by Facet"
                if self._fractional else "A whole accelerator", "human_readable_name": "Facet",
                "display_unit": "share" if self._fractional else "device", "display_icon": "gpu1",
                "number_format": {"binary": False, "round_length": 2 if self._fractional else 0}}

    async def list_devices(self):
        return [FacetDevice(device) for device in self._devices.values()]

    def _offered_devices(self):
        """A fraction is offered only where it can be enforced."""
        return [device for device in self._devices.values()
                if self._config["enforce"] == "none" or device.takes_programs]

    async def available_slots(self):
        usable = [device for device in self._offered_devices() if self._health_of(device) != "failed"]
        return {self._slot: Decimal(len(usable))}

    def get_version(self):
        return __version__

    async def extra_info(self):
        drivers = {device.provider + "_driver": device.driver_version for device in self._devices.values()
                   if device.driver_version}
        return {**drivers, **{f"refused_{path.rsplit('/', 1)[-1]}": reason for path, reason in self._refusals}}

    def _health_of(self, device):
        return self._health.get(device.facet_id, device.health)

    def _failed_ids(self):
        return {device.device_id for device in self._devices.values() if self._health_of(device) == "failed"}

    async def get_node_hwinfo(self):
        await self._read_metrics()
        health = {device.facet_id: self._health_of(device) for device in self._devices.values()}
        bad = [f"{name} {word}" for name, word in health.items() if word in ("failed", "degraded")]
        status = ("unavailable" if not health else "healthy" if not bad else
                  "offline" if set(health.values()) == {"failed"} else "degraded")
        return {"status": status, "status_info": ", ".join(bad) or None,
                "metadata": {device.device_id: health[device.facet_id] for device in self._devices.values()}}

    # --- allocation ---

    async def create_alloc_map(self):
        offered = self._offered_devices()
        slots = {device.device_id: interface.DeviceSlotInfo(self.slot_types[0][1], self._slot, Decimal(1))
                 for device in offered}
        alloc_map = FacetAllocMap(
            device_slots=slots, exclusive_slot_types=self.exclusive_slot_types,
            kind="fraction" if self._fractional else "discrete", strategy=self._config["strategy"],
            quantum=self._config["quantum_size"] if self._fractional else None,
            rules=settings.RULES[self._config["rules"]],
            numa_nodes={device.device_id: device.numa_node for device in offered},
            unhealthy=self._failed_ids,
            most_devices=1 if self._config["enforce"] == "vgpu" else None, name=KEY)
        alloc_map.on_clear(self._forget_containers)
        return alloc_map

    def _forget_containers(self):
        now = time.monotonic()
        for name in list(self._containers):
            self._unclaimed_since.setdefault(name, now)
        self._last_containers.update((name, container) for name, container in list(self._containers.items()) if container)
        self._containers = {}

    def _claim(self, name, container):
        """Records that the vGPU belongs to this container, so that it is no leftover."""
        self._containers[name] = container
        self._unclaimed_since.pop(name, None)

    async def restore_from_container(self, container, alloc_map):
        """A container's label keeps the vGPUs that it names alive. But any image can have the label, so only a
        container with a grant of this plugin owns them."""
        names = [name for name in str((getattr(container, "labels", None) or {}).get(LABEL, "")).split(",")
                 if name.startswith(self._prefix)]
        for name in names:  # first, because the vGPU is alive even if a step below fails
            self._claim(name, self._containers.get(name))
        reader = interface.find_spec_reader()
        spec = await reader(getattr(container, "backend_obj", container)) if reader else None
        allocations = spec.allocations.get(KEY, {}) if spec is not None else {}
        own_slots = {slot for slot, _ in self.slot_types}
        own_allocations = {slot: devices for slot, devices in allocations.items() if str(slot) in own_slots}
        for name in names if reader is None or any(own_allocations.values()) else ():
            self._claim(name, str(container.id))
        alloc_map.apply_allocation(own_allocations)

    def _grants_of(self, device_alloc):
        """[(device, micro-units)] of this plugin's slots."""
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

    def make_vgpu(self, name, grants):
        """Makes a vGPU of one device. Its part of the memory is a hard limit; its share of the compute is guaranteed,
        and with the setting `cap` also the limit."""
        if len(grants) > 1:
            raise interface.make_error(interface.ResourceAllocationError,
                                       f"facet: {len(grants)} devices for one container: a process has one vGPU; set "
                                       "enforce to 'none' for several")
        device, micro = grants[0]
        milli = micro * 1000 // MICRO
        if milli == 0:
            raise interface.make_error(interface.ResourceAllocationError,
                                       f"facet: a share of {Decimal(micro) / MICRO}: expected 0.001 or more, the least "
                                       "that is enforced")
        return self.daemon.create(name, device.facet_id, device.memory_bytes * micro // MICRO, milli,
                                  milli if self._config["cap"] else None)

    def remove_vgpu(self, name):
        """Removes the vGPU, if it exists. If that fails, _remove_leftovers() removes it later."""
        try:
            self.daemon.delete(name, force=True)
        except FacetError as error:
            if error.status != NOT_FOUND or error.argument == "facetd":
                log.warning("facet: vGPU %s may be left: %s", name, error)
        self._containers.pop(name, None)

    def fill_workload(self, workload, grants, name):
        """Adds what a program needs to reach the devices. Unless `name` is None, makes the vGPU `name`, and adds what a
        program needs to enter it."""
        for device, _ in grants:
            access = self._config["devices"]
            add_access(workload, access.get(device.device_id) or access.get(device.facet_id) or access.get("*") or {})
        if name is None:
            return
        layer, address = find_layer(), grants[0][0].address
        entrance = entrance_of(address)
        folder = find_folder(entrance) if entrance else None
        vgpu = self.make_vgpu(name, grants)
        try:
            enter_vgpu(workload, vgpu, layer)
            if entrance:
                enter_device(workload, entrance, address, folder, workload.document().get("environment"))
        except BaseException:
            self.remove_vgpu(name)
            raise

    def enforced(self, grants):
        return bool(grants) and self._config["enforce"] == "vgpu"

    def _docker_args(self, grants, name):
        with Workload() as workload:
            self.fill_workload(workload, grants, name)
            return workload.render(RENDER_DOCKER)

    def _make_arguments(self, grants, name):
        """The vGPU is recorded before it exists, so that it is not taken for a leftover."""
        self._remove_leftovers()
        if name is None:
            return self._docker_args(grants, None)
        self._claim(name, None)
        try:
            arguments = self._docker_args(grants, name)
            arguments.setdefault("Labels", {})[LABEL] = name
        except BaseException:
            self.remove_vgpu(name)
            raise
        return arguments

    async def generate_docker_args(self, docker, device_alloc):
        grants = self._grants_of(device_alloc)
        if not grants:
            return {}
        name = self._prefix + uuid.uuid4().hex[:16] if self.enforced(grants) else None
        return await complete(lambda: self._make_arguments(grants, name), lambda: name and self.remove_vgpu(name))

    def _is_leftover(self, vgpu, now):
        """Whether no container has named the vGPU for a while, and no process is in it; if the daemon does not know the
        number of processes, it is no leftover. Neither is a vGPU of a lifecycle hook: the hook removes it."""
        name = vgpu["name"]
        if not name.startswith(self._prefix) or name.startswith(self._prefix + lifecycle.LIFECYCLE_MARK) or \
                name in self._containers:
            return False
        unclaimed_s = now - self._unclaimed_since.get(name, self._started)
        return unclaimed_s >= self._reap_after_s and vgpu.get("processes") == 0 and \
            vgpu["created_ns"] < (time.time() - self._reap_after_s) * 1e9

    def _note_alive(self, container_ids):
        """The agent measures only containers that are alive: their vGPUs are no leftovers, even if the last rebuild of
        the maps did not come to them."""
        now = time.monotonic()
        for name, container in list(self._last_containers.items()):
            if container in container_ids and name in self._unclaimed_since:
                self._unclaimed_since[name] = now

    async def _remove_leftovers_when_due(self):
        """Removes leftovers on a node where no container starts, at most once in `reap_after_s`."""
        now = time.monotonic()
        if self._reap_after_s and self._config["enforce"] == "vgpu" and now - self._last_reap >= self._reap_after_s:
            self._last_reap = now
            await asyncio.to_thread(self._remove_leftovers)

    def _remove_leftovers(self):
        if not self._reap_after_s:
            return
        try:
            listed, now = self.daemon.list(), time.monotonic()
            for vgpu in listed:
                if self._is_leftover(vgpu, now):
                    self.daemon.delete(vgpu["name"])
            names = {vgpu["name"] for vgpu in listed}
            for name in [name for name in list(self._unclaimed_since) if name not in names]:
                self._unclaimed_since.pop(name, None)
            for name in [name for name in list(self._last_containers) if name not in names]:
                self._last_containers.pop(name, None)
        except FacetError as error:  # the next call tries again
            log.warning("facet: vGPUs that no program uses stay: %s", error)

    async def generate_mounts(self, source_path, device_alloc):
        """Returns none: the mounts are already in HostConfig.Mounts of generate_docker_args()."""
        return []

    async def generate_resource_data(self, device_alloc):
        grants = self._grants_of(device_alloc)
        if not grants:
            return {}
        numbers = {device_id: number for number, device_id in enumerate(self._devices)}
        return {"FACET_GLOBAL_DEVICE_IDS": ",".join(f"{local}:{numbers[device.device_id]}"
                                                    for local, (device, _) in enumerate(grants)),
                "FACET_RESOURCE_VIRTUALIZED": "1" if self.enforced(grants) else "0",
                "FACET_MEMORY_LIMITS": ",".join(f"{local}:{device.memory_bytes * micro // MICRO}"
                                                for local, (device, micro) in enumerate(grants))}

    async def get_attached_devices(self, device_alloc):
        return [{"device_id": device.device_id, "model_name": device.name,
                 "data": {"mem": str(device.memory_bytes * micro // MICRO),
                          "proc": str(device.compute_units * micro // MICRO)}}
                for device, micro in self._grants_of(device_alloc)]

    async def get_hooks(self, distro, arch):
        """Returns none: what is preloaded is already in the arguments of generate_docker_args(), in LD_PRELOAD."""
        return []

    async def get_docker_networks(self, device_alloc):
        return []

    def get_additional_gids(self):
        return list(self._config["gids"])

    def get_additional_allowed_syscalls(self):
        return []

    # --- measurements ---

    async def _read_metrics(self):
        try:
            readings = await asyncio.to_thread(self.daemon.readings)
            for name, labels, value in readings:
                if name == "facet_device_health" and value == 1 and labels.get("health", "unknown") != "unknown":
                    self._health[labels.get("device")] = labels["health"]
            return readings
        except FacetError as error:
            log.debug("facet: nothing was measured: %s", error)
            return []

    async def gather_node_measures(self, ctx):
        """The agent calls this every few seconds, so leftover vGPUs are removed here as well."""
        await self._remove_leftovers_when_due()
        readings = await self._read_metrics()
        by_facet_id = {device.facet_id: device for device in self._devices.values()}
        found = []
        for metric, (key, kind, unit, combine) in READINGS.items():
            per_device = {}
            for name, labels, value in readings:
                device = by_facet_id.get(labels.get("device"))
                if name == metric and device:
                    capacity = Decimal(device.memory_bytes) if unit == "bytes" else None
                    per_device[device.device_id] = interface.Measurement(value, capacity)
            if per_device:
                capacities = [item.capacity for item in per_device.values()]
                node = interface.Measurement(combine(item.value for item in per_device.values()),
                                             sum(capacities) if None not in capacities else None)
                found.append(interface.NodeMeasurement(key=key, type=interface.MetricTypes[kind], per_node=node,
                                                       per_device=per_device, unit_hint=unit))
        return found

    async def gather_container_measures(self, ctx, container_ids):
        self._note_alive(set(container_ids))
        try:
            vgpus = {vgpu["name"]: vgpu for vgpu in await asyncio.to_thread(self.daemon.list)}
        except FacetError as error:
            log.debug("facet: nothing was measured: %s", error)
            return []
        wanted, memory, share = set(container_ids), {}, {}
        for name, container in list(self._containers.items()):
            vgpu = vgpus.get(name)
            if vgpu is None or container not in wanted:
                continue
            limit = vgpu.get("memory_limit_bytes")
            if vgpu.get("memory_used_bytes") is not None:
                memory[container] = interface.Measurement(Decimal(vgpu["memory_used_bytes"]),
                                                          None if limit is None else Decimal(limit))
            if vgpu.get("share_milli") is not None:
                share[container] = interface.Measurement(Decimal(vgpu["share_milli"]) / 10, Decimal(100))
        kind = interface.ContainerMeasurement
        return [kind(key=key, type=interface.MetricTypes[word], per_container=values, unit_hint=unit)
                for key, word, values, unit in (("facet_mem", "GAUGE", memory, "bytes"),
                                                ("facet_util", "UTILIZATION", share, "percent")) if values]

    async def gather_process_measures(self, ctx, pid_map):
        memory = {}
        for name, labels, value in await self._read_metrics():
            pid = labels.get("pid", "")
            if name == "facet_process_memory_used_bytes" and pid.isdecimal() and int(pid) in pid_map:
                memory[int(pid)] = memory.get(int(pid), Decimal(0)) + value  # summed over the devices that it uses
        memory = {pid: interface.Measurement(value) for pid, value in memory.items()}
        return [interface.ProcessMeasurement(key="facet_mem", type=interface.MetricTypes["GAUGE"],
                                             per_process=memory, unit_hint="bytes")] if memory else []

    # --- the successor of this interface ---

    async def create_lifecycle_hook(self, workload, device_alloc):
        return lifecycle.FacetLifecycleHook(self, workload, self._grants_of(device_alloc))

    async def alloc_to_devices(self, device_alloc):
        return await self.get_attached_devices(device_alloc)
