#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The plugin as the agent uses it: found, loaded, called and restarted, with simulated devices and a real daemon.

Owns: tests of what containers get from the plugin, and of how it is given back. Never: starts a container.
"""
import asyncio
import gc
import os
import types
from decimal import Decimal as D

import world
from ai.backend.agent import exception
from ai.backend.agent.resources import ABSTRACT, OPTIONAL, KernelResourceSpec, load_plugins, merge
from facet_backendai import lifecycle, resources
from facet_backendai.library import FacetError
from facet_backendai.plugin import LABEL, FacetPlugin
from tap import contains, equal, main, test

world.install()
world.simulate("dual-socket", "cpu")
NO_DAEMON = os.path.join(world.FOLDER.name, "nobody.sock")


def run(coroutine):
    return asyncio.run(coroutine)


async def ready(**config):
    plugin = FacetPlugin(config, {})
    await plugin.init()
    return plugin


async def refused(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def container(number, spec, labels):
    return types.SimpleNamespace(id=number, labels=labels, backend_obj=spec)


@test
def the_agent_finds_and_loads_the_plugin():
    plugins = run(load_plugins({"facet": {"enforce": "none"}}))
    equal(list(plugins), ["facet"])
    for name in ABSTRACT + OPTIONAL:
        equal(callable(getattr(plugins["facet"], name)), True, name)
    equal(len(ABSTRACT + OPTIONAL), 19)


@test
def devices_and_slots_are_those_of_the_providers():
    async def look():
        plugin = await ready(enforce="none")
        listed = await plugin.list_devices()
        equal([device.hw_location for device in listed],
              ["0000:17:00.0", "0000:2a:00.0", "0000:97:00.0", "0000:aa:00.0", "cpu:0"])
        equal([device.numa_node for device in listed][:4], [0, 0, 1, 1])
        equal((listed[0].memory_size, listed[0].processing_units), (85519761408, 114))  # an H100 PCIe
        equal({device.device_name for device in listed}, {"facet"})
        equal(await plugin.available_slots(), {"facet.shares": D(5)})
        equal(plugin.get_metadata()["slot_name"], "facet.shares")
        contains(await plugin.extra_info(), "sim_driver")
        equal((await plugin.get_node_hwinfo())["status"], "healthy")
        whole = await ready(allocation_mode="discrete")
        equal((whole.get_metadata()["slot_name"], await whole.available_slots()),
              ("facet.device", {"facet.device": D(4)}))
    run(look())


@test
def a_fraction_is_offered_only_where_programs_are_held_to_it():
    async def look():
        plugin = await ready()
        equal(len(await plugin.list_devices()), 5)
        equal(await plugin.available_slots(), {"facet.shares": D(4)})  # the cpu provider takes kernels only
        masked = await ready(device_mask=["sim:0", "cpu:0"])
        equal((len(await masked.list_devices()), await masked.available_slots()), (3, {"facet.shares": D(3)}))
    run(look())


@test
def a_wrong_configuration_is_refused():
    for config in ({"enforce": "maybe"}, {"rules": "nearly"}, {"allocation_mode": "x"}):
        try:
            FacetPlugin(config, {})
        except ValueError as error:
            contains(str(error), next(iter(config)))
        else:
            raise AssertionError(config)


@test
def without_enforcing_arguments_are_those_of_the_device():
    async def look():
        plugin = await ready(enforce="none", devices={"*": {"device_nodes": ["/dev/dri/renderD128:rw"],
                                                            "groups": ["render"], "environment": {"A": "1"}}})
        alloc_map = await plugin.create_alloc_map()
        granted = alloc_map.allocate({"facet.shares": D("1.5")})
        half = alloc_map.allocate({"facet.shares": D("0.5")})
        arguments = merge({"HostConfig": {"GroupAdd": ["video"]}}, await plugin.generate_docker_args(None, half))
        equal(arguments["HostConfig"]["Devices"][0]["PathOnHost"], "/dev/dri/renderD128")
        equal((arguments["HostConfig"]["GroupAdd"], arguments["Env"]), (["video", "render"], ["A=1"]))
        equal((await plugin.generate_resource_data(granted))["FACET_RESOURCE_VIRTUALIZED"], "0")
        equal(await plugin.generate_docker_args(None, {"facet.shares": {}, "cuda.shares": {"x": D(1)}}), {})
        attached = await plugin.get_attached_devices(half)
        equal((attached[0]["model_name"], attached[0]["data"]["proc"]), ("Simulated NVIDIA H100 PCIe", "57"))
        alloc_map.close()
    run(look())


@test
def a_container_gets_the_environment_of_facet_run():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        granted = alloc_map.allocate({"facet.shares": D("0.25")})
        arguments = await plugin.generate_docker_args(None, granted)
        vgpu = plugin.daemon.list()[0]
        equal((vgpu["memory_limit_bytes"], vgpu["compute_request_milli"], vgpu["compute_limit_milli"]),
              (85519761408 // 4, 250, 250))
        equal(arguments["Labels"], {LABEL: vgpu["name"]})
        environment = dict(entry.split("=", 1) for entry in arguments["Env"])
        equal(environment["FACET_VGPU_DIR"], vgpu["segment"])
        mounts = {mount["Target"]: mount for mount in arguments["HostConfig"]["Mounts"]}
        inside = {target: (mount["Source"], mount.get("ReadOnly", False)) for target, mount in mounts.items()
                  if target.startswith(vgpu["segment"])}
        written = [os.path.join(vgpu["segment"], name) for name in ("usage", "refused")]
        equal(inside, {vgpu["segment"]: (vgpu["segment"], True), **{path: (path, False) for path in written}})
        equal([path for path in written if not os.path.isfile(path)], [], "files that are missing")
        targets = [mount["Target"] for mount in arguments["HostConfig"]["Mounts"]]
        equal(min(map(targets.index, written)) > targets.index(vgpu["segment"]), True, "the folder is mounted first")
        layer = mounts[environment["OPENCL_LAYERS"]]
        equal((layer["ReadOnly"], os.path.exists(layer["Source"])), (True, True))
        equal(await plugin.generate_mounts(None, granted), [])
        equal((await plugin.generate_resource_data(granted))["FACET_MEMORY_LIMITS"], f"0:{85519761408 // 4}")
        equal([measure.key for measure in await plugin.gather_process_measures(None, {1: "c"})], [])
        for measure in await plugin.gather_node_measures(None):  # measures without a measured value are left out
            equal(bool(measure.per_device), True)
    with world.Daemon():
        run(look())


@test
def a_restart_finds_every_reservation_again():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        granted = [alloc_map.allocate({"facet.shares": D(amount)}) for amount in ("0.25", "0.5")]
        labels = [(await plugin.generate_docker_args(None, part))["Labels"] for part in granted]
        before = alloc_map.allocations
        restarted = await ready(reap_after_s=1e-9)
        new_map = await restarted.create_alloc_map()
        for number, (part, label) in enumerate(zip(granted, labels)):
            spec = KernelResourceSpec({"facet": part})
            await restarted.restore_from_container(container(f"c{number}", spec, label), new_map)
        equal(new_map.allocations, before)
        measures = {item.key: item for item in await restarted.gather_container_measures(None, ["c0", "c1"])}
        equal(set(measures["facet_mem"].per_container), {"c0", "c1"})
        new_map.clear()  # c0 has ended: only c1 is restored, and the next call removes the vGPU of c0
        survivor = container("c1", KernelResourceSpec({"facet": granted[1]}), labels[1])
        await restarted.restore_from_container(survivor, new_map)
        more = await restarted.generate_docker_args(None, new_map.allocate({"facet.shares": D("0.25")}))
        equal({vgpu["name"] for vgpu in restarted.daemon.list()}, {labels[1][LABEL], more["Labels"][LABEL]})
        nine = {"facet.shares": {next(iter(plugin._devices)): D(9)}}
        too_much = container("c2", KernelResourceSpec({"facet": nine}), {})
        await refused(exception.ResourceError, restarted.restore_from_container(too_much, new_map))
    with world.Daemon():
        run(look())


@test
def resource_txt_comes_back_as_it_was():
    device = "faad83b5-2e2b-83ef-bf38-1f055ecd935f"
    types_of = {"facet.shares": "count", "mem": "bytes"}
    records = [resources.Record(resources.SCRATCH, (), 0),
               resources.Record(resources.MOUNT, ("bind", "/vf/a", "/home/a", ""), 1),
               resources.Record(resources.REQUEST, ("facet.shares",), 500000),
               resources.Record(resources.REQUEST, ("mem",), (1 << 30) * 1000000 + 4096 * 1000000),
               resources.Record(resources.GRANT, ("facet.shares", device), 500000),
               resources.Record(resources.DATA, ("FACET_MEMORY_LIMITS", "0:1"))]
    text = resources.format_legacy(records, types_of)
    contains(text, f"FACET.SHARES_SHARES={device}:0.5")
    read = resources.parse_legacy(text, types_of)
    equal(resources.allocations(read), {"facet.shares": {device: D("0.5")}})
    equal(resources.format_legacy(read, types_of), text)
    raw = resources.format_own(records)
    equal(resources.allocations(resources.parse(raw)), {"facet.shares": {device: D("0.5")}})
    for damaged in (raw[:-3], raw.replace(b"500000", b"900000"), b""):
        try:
            resources.parse(damaged)
        except FacetError:
            continue
        raise AssertionError("a damaged file was read")
    try:
        resources.parse_legacy("SLOTS={", types_of)
    except FacetError:
        return
    raise AssertionError("a damaged file was read")


@test
def errors_name_the_fault_and_leave_nothing():
    async def look():
        plugin = await ready(socket=NO_DAEMON)
        devices = list(plugin._devices)
        error = await refused(FacetError, plugin.generate_docker_args(None, {"facet.shares": {devices[0]: D(1)}}))
        equal((error.name, error.argument), ("not_found", "facetd"))
        both = {"facet.shares": {devices[0]: D(1), devices[1]: D(1)}}
        await refused(exception.ResourceAllocationError, plugin.generate_docker_args(None, both))
        await refused(exception.ResourceAllocationError, plugin.get_attached_devices({"facet.shares": {"z": D(1)}}))
        await refused(FacetError, plugin.get_attached_devices({"facet.shares": {devices[0]: D("0.0000001")}}))
        equal(await plugin.gather_node_measures(None), [])
        equal(await plugin.gather_container_measures(None, ["c"]), [])
        with_daemon = await ready(devices={"*": {"mounts": ["relative"]}})
        await refused(FacetError, with_daemon.generate_docker_args(None, {"facet.shares": {devices[0]: D("0.5")}}))
        equal(with_daemon.daemon.list(), [])
    with world.Daemon():
        run(look())


@test
def lifecycle_hooks_make_and_remove_vgpus():
    async def look():
        plugin = await ready()
        granted = {"facet.shares": {next(iter(plugin._devices)): D("0.5")}}
        workload = types.SimpleNamespace(id="session/1", type="container")
        hook = await plugin.create_lifecycle_hook(workload, granted)
        config = await hook.pre_create()
        equal(set(config), {"mounts", "env_vars", "resource_data", "networks", "extra_gids", "extra_syscalls",
                            "document"})
        contains(config["env_vars"], "FACET_VGPU_DIR")
        equal(len(config["mounts"]), 4)  # the segment's folder, two files of it, and the layer
        await hook.post_create("c1")
        equal([item.key for item in await plugin.gather_container_measures(None, ["c1"])][:1], ["facet_mem"])
        restarted_hook = await (await ready()).create_lifecycle_hook(workload, granted)  # after a restart of the agent
        await restarted_hook.pre_terminate()
        await restarted_hook.post_terminate()
        equal(plugin.daemon.list(), [])
        await restarted_hook.post_terminate()
        await hook.pre_create()  # an interrupted creation is repeated
        await hook.pre_create()
        equal(len(plugin.daemon.list()), 1)
        denied = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="2"), granted)
        plugin._config["devices"] = {"*": {"mounts": ["relative"]}}
        await refused(lifecycle.WorkloadDenied, denied.pre_create())
        equal(len(plugin.daemon.list()), 1)
    with world.Daemon():
        run(look())


@test
def concurrent_calls_each_make_a_vgpu_of_their_own():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        granted = [alloc_map.allocate({"facet.shares": D("0.1")}) for _ in range(20)]
        arguments = await asyncio.gather(*(plugin.generate_docker_args(None, part) for part in granted))
        names = {item["Labels"][LABEL] for item in arguments}
        equal((len(names), {vgpu["name"] for vgpu in plugin.daemon.list()}), (20, names))
    with world.Daemon():
        run(look())


@test
def objects_of_a_plugin_are_destroyed():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        granted = alloc_map.allocate({"facet.shares": D("0.5")})
        await plugin.generate_docker_args(None, granted)
        hook = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="1"), granted)
        await hook.pre_create()
        await hook.post_terminate()
        plugin._config["devices"] = {"*": {"mounts": ["relative"]}}
        await refused(lifecycle.WorkloadDenied, hook.pre_create())
        alloc_map.close()
    with world.Daemon(), world.count_objects() as count:
        run(look())
        resource_txt_comes_back_as_it_was()
        gc.collect()
    equal((count["made"], count["made"] > 10), (count["ended"], True))


main()
