#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Faults around the plugin: wrong settings, cancelled calls, images with false labels, and daemons with wrong answers.

Owns: proofs that nothing is left behind, that no share is granted without a limit, and that unknown values do not count
as 0. Never: asserts how long anything takes.
"""
import asyncio
import copy
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import types
from decimal import Decimal as D

import world
from ai.backend.agent import exception
from ai.backend.agent.affinity_map import AffinityHint, AffinityPolicy
from ai.backend.agent.resources import AbstractComputeDevice, KernelResourceSpec, allocate
from ai.backend.common.types import DeviceSlotInfo
from facet_backendai import daemon, library, lifecycle
from facet_backendai.library import FacetError
from facet_backendai.maps import FacetAllocMap
from facet_backendai.plugin import LABEL, FacetPlugin
from facet_backendai.workload import Workload, enter_vgpu
from tap import Skip, contains, equal, main, test

world.simulate("dual-socket", "cpu")


async def ready(**config):
    plugin = FacetPlugin(config, {})
    await plugin.init()
    plugin.daemon = world.FakeDaemon()
    return plugin


def refused(kind, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except Exception as error:
        if not isinstance(error, kind):
            raise
        return error
    raise AssertionError(f"expected {kind.__name__}")


async def refused_later(kind, awaitable):
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}")


def share(plugin, amount, number=0):
    return {"facet.shares": {list(plugin._devices)[number]: D(amount)}}


def container_of(identity, grants, name):
    """A container whose label names the vGPU."""
    return types.SimpleNamespace(id=identity, labels={LABEL: name}, backend_obj=KernelResourceSpec({"facet": grants}))


def vgpu_name_of(arguments):
    return arguments["Labels"][LABEL]


# --- installing ---

@test
def pip_installs_the_entry_point():
    try:
        importlib.metadata.version("pip")
        importlib.metadata.version("setuptools")
        importlib.metadata.version("wheel")
    except importlib.metadata.PackageNotFoundError as error:
        raise Skip("pip, setuptools or wheel is not installed") from error
    with tempfile.TemporaryDirectory(dir=world.FOLDER.name) as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        shutil.copytree(world.PACKAGE, source)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-index",
                               "--no-build-isolation", "--no-deps", "--target", target, source],
                              capture_output=True, text=True, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        code = ("import importlib.metadata as m; found = m.entry_points(group='backendai_accelerator_v21'); "
                "print([(entry.name, entry.load().__name__) for entry in found])")
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": target}, cwd=folder,
                              capture_output=True, text=True, check=False)
        equal((done.stdout, done.stderr), ("[('facet', 'FacetPlugin')]\n", ""))


# --- settings ---

@test
def settings_may_be_texts_as_the_store_keeps_them():
    async def look():
        plugin = await ready(device_mask="sim:0, cpu:0", gids="44,109", cap="false", reap_after_s="0",
                             devices={"*": {"device_nodes": "/dev/a:r, /dev/b", "groups": "render,video"}})
        equal((len(await plugin.list_devices()), plugin.get_additional_gids()), (3, [44, 109]))
        arguments = await plugin.generate_docker_args(None, share(plugin, "0.5"))
        vgpu = plugin.daemon.vgpus[vgpu_name_of(arguments)]
        equal((vgpu["request"], vgpu["limit"]), (500, None))
        equal([node["PathOnHost"] for node in arguments["HostConfig"]["Devices"]], ["/dev/a", "/dev/b"])
        equal(arguments["HostConfig"]["GroupAdd"], ["render", "video"])
    asyncio.run(look())


@test
def wrong_settings_are_named_and_change_nothing():
    wrong = {"quantum_size": "much", "cap": "maybe", "reap_after_s": "soon", "gids": ["video"], "device_mask": 7,
             "devices": ["x"], "vgpu_prefix": "", "socket": 5, "strategy": ["fill"]}
    for name, value in wrong.items():
        contains(str(refused(ValueError, FacetPlugin, {name: value}, {})), name)
    for value in ("0", "-1", "NaN", "0.0001", "0.0125", None):  # limits on shares are in thousandths
        contains(str(refused(ValueError, FacetPlugin, {"quantum_size": value}, {})), "quantum_size")
    FacetPlugin({"quantum_size": "0.0001", "enforce": "none"}, {})
    plugin = FacetPlugin({"gids": [1]}, {})
    refused(ValueError, lambda: asyncio.run(plugin.update_plugin_config({"gids": [2], "reap_after_s": "soon"})))
    equal(plugin.get_additional_gids(), [1])


# --- shares ---

@test
def a_share_too_small_to_be_held_to_is_refused():
    async def look():
        plugin = await ready()
        error = await refused_later(exception.ResourceAllocationError,
                                    plugin.generate_docker_args(None, share(plugin, "0.0009")))
        contains(str(error), "0.001")
        equal(plugin.daemon.vgpus, {})
    asyncio.run(look())


# --- whose vGPU it is ---

@test
def an_image_cannot_name_the_vgpu_of_another():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        granted = alloc_map.allocate({"facet.shares": D("0.5")})
        arguments = await plugin.generate_docker_args(None, granted)
        alloc_map.clear()
        name = vgpu_name_of(arguments)
        for container_id, part, label in (("owner", granted, name), ("thief", {}, name),
                                          ("liar", {}, "bai-0000,other,,")):
            await plugin.restore_from_container(container_of(container_id, part, label), alloc_map)
        measures = await plugin.gather_container_measures(None, ["owner", "thief", "liar"])
        equal([list(measure.per_container) for measure in measures], [["owner"], ["owner"]])
        alloc_map.close()
    asyncio.run(look())


@test
def vgpus_are_taken_back_where_containers_come_and_go():
    async def look():
        plugin = await ready(reap_after_s="1e-9")
        alloc_map = await plugin.create_alloc_map()
        names, live = [], []
        for number in range(5):
            granted = alloc_map.allocate({"facet.shares": D("0.01")})
            names.append(vgpu_name_of(await plugin.generate_docker_args(None, granted)))
            live = live[-1:] + [container_of(f"c{number}", granted, names[-1])]
            alloc_map.clear()  # the agent clears the map whenever a container ends, and restores those that are alive
            for container in live:
                await plugin.restore_from_container(container, alloc_map)
            plugin._reap_after_s = 3600  # vGPUs that were named within the last hour are no leftovers
            plugin._remove_leftovers()
            plugin._reap_after_s = 1e-9
        equal(set(plugin.daemon.vgpus) <= set(names[-3:]), True, str(plugin.daemon.vgpus))
        for name in list(plugin._unclaimed_since):
            plugin._unclaimed_since[name] -= 7200  # as if no container had named the vGPU for two hours
        alloc_map.clear()
        for container in live:
            await plugin.restore_from_container(container, alloc_map)
        plugin._reap_after_s = 3600
        plugin._remove_leftovers()
        equal(set(plugin.daemon.vgpus), {container.labels[LABEL] for container in live})
        alloc_map.close()
    asyncio.run(look())


@test
def a_restored_map_still_reports_when_it_is_cleared():
    """The agent copies its maps before it allocates, and returns to the copies if another type of device is short."""
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()
        maps = {"facet": alloc_map, "mem": make({"root": "1"})}
        await plugin.generate_docker_args(None, share(plugin, "0.5"))
        refused(exception.ResourceError, allocate, maps, {"facet.shares": D("0.5"), "mem.shares": D(2)},
                ["facet", "mem"], {"facet": await plugin.list_devices(), "mem": []}, None)
        equal((maps["facet"] is alloc_map, len(plugin._containers)), (False, 1))
        maps["facet"].clear()
        equal(plugin._containers, {})
    asyncio.run(look())


@test
def a_vgpu_whose_processes_were_not_counted_is_not_left_over():
    async def look():
        plugin = await ready(reap_after_s="1e-9")
        name = vgpu_name_of(await plugin.generate_docker_args(None, share(plugin, "0.5")))
        plugin._forget_containers()
        for processes in ("absent", None, 1):
            plugin.daemon.vgpus[name]["processes"] = processes
            if processes == "absent":
                del plugin.daemon.vgpus[name]["processes"]
            plugin._remove_leftovers()
            equal(list(plugin.daemon.vgpus), [name])
        plugin.daemon.vgpus[name]["processes"] = 0
        plugin._remove_leftovers()
        equal(plugin.daemon.vgpus, {})
    asyncio.run(look())


@test
def leftovers_are_removed_where_no_container_starts():
    async def look():
        plugin = await ready(reap_after_s="3600")
        alloc_map = await plugin.create_alloc_map()
        ended, alive, missed = [vgpu_name_of(await plugin.generate_docker_args(None, share(plugin, "0.1")))
                                for _ in range(3)]
        containers = [container_of(identity, share(plugin, "0.1"), name)
                      for identity, name in (("ended", ended), ("alive", alive), ("missed", missed))]
        listed = []
        plugin.daemon.list = lambda: listed.append(1) or list(plugin.daemon.vgpus.values())

        def wait_two_hours():
            plugin._last_reap -= 7200
            for name in plugin._unclaimed_since:
                plugin._unclaimed_since[name] -= 7200
        for restored in (containers, containers[1:2]):  # at first all; then one ended, and the agent missed another
            alloc_map.clear()
            for container in restored:
                await plugin.restore_from_container(container, alloc_map)
            await plugin.gather_node_measures(None)
        equal((sorted(plugin.daemon.vgpus), listed), (sorted((ended, alive, missed)), []))
        wait_two_hours()
        await plugin.gather_container_measures(None, ["alive", "missed"])  # the agent measures containers that are alive
        listed.clear()
        for _ in range(5):
            await plugin.gather_node_measures(None)
        equal((sorted(plugin.daemon.vgpus), len(listed)), (sorted((alive, missed)), 1))
        wait_two_hours()
        await plugin.gather_node_measures(None)  # no container has the vGPU any more
        equal(list(plugin.daemon.vgpus), [alive])
        plugin.daemon.vgpus.clear()
        listed.clear()
        for reap_after_s, enforce in ((0, "vgpu"), (1e-9, "none")):
            plugin._reap_after_s, plugin._config["enforce"] = reap_after_s, enforce
            await plugin.gather_node_measures(None)
        equal(listed, [], "calls to the daemon with settings by which nothing is removed")
        alloc_map.close()
    asyncio.run(look())


@test
def a_damaged_container_keeps_its_vgpu_and_takes_nothing_else():
    async def look():
        plugin = await ready(reap_after_s="1e-9")
        alloc_map = await plugin.create_alloc_map()
        name = vgpu_name_of(await plugin.generate_docker_args(None, share(plugin, "0.5")))
        for devices in ({"gone": D(1)}, {list(plugin._devices)[0]: "half"}, {list(plugin._devices)[0]: D(7)}):
            alloc_map.clear()
            await refused_later(exception.ResourceError, plugin.restore_from_container(
                container_of("c", {"facet.shares": devices}, name), alloc_map))
            plugin._remove_leftovers()
            equal((list(plugin.daemon.vgpus), sum(alloc_map.allocations["facet.shares"].values())), ([name], 0))
        alloc_map.clear()  # the container's file cannot be read at all
        await refused_later(AttributeError, plugin.restore_from_container(
            types.SimpleNamespace(id="c", labels={LABEL: name}, backend_obj=7), alloc_map))
        plugin._remove_leftovers()
        equal(list(plugin.daemon.vgpus), [name])
        alloc_map.close()
    asyncio.run(look())


# --- cancelling ---

async def cancel_in_create(plugin, awaitable):
    """Cancels a call twice while the daemon creates the vGPU; then the daemon's call ends."""
    plugin.daemon.open.clear()
    task = asyncio.ensure_future(awaitable)
    await asyncio.to_thread(plugin.daemon.entered.wait, 30)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    plugin.daemon.open.set()
    await refused_later(asyncio.CancelledError, task)


@test
def a_cancelled_call_leaves_nothing():
    async def look():
        plugin = await ready()
        await cancel_in_create(plugin, plugin.generate_docker_args(None, share(plugin, "0.5")))
        equal((plugin.daemon.vgpus, plugin._containers), ({}, {}))
        hook = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="w"), share(plugin, "0.5"))
        await cancel_in_create(plugin, hook.pre_create())
        equal((plugin.daemon.vgpus, plugin._containers), ({}, {}))
        await hook.pre_create()  # the hook works again
        equal(len(plugin.daemon.vgpus), 1)
        await hook.post_terminate()
        equal(plugin.daemon.vgpus, {})
    asyncio.run(look())


@test
def the_end_of_the_loop_leaves_nothing():
    plugin = asyncio.run(ready())

    async def leave():
        plugin.daemon.open.clear()
        task = asyncio.ensure_future(plugin.generate_docker_args(None, share(plugin, "0.5")))
        await asyncio.to_thread(plugin.daemon.entered.wait, 30)
        asyncio.get_running_loop().call_later(0.05, plugin.daemon.open.set)
        return task  # the end of the loop cancels it
    asyncio.run(leave())
    equal((plugin.daemon.vgpus, plugin._containers), ({}, {}))


@test
def a_failure_after_the_vgpu_was_made_removes_it():
    async def look():
        plugin = await ready()
        for answer in ({}, {"segment": "/x", "environment": {"A_VISIBLE_DEVICES": "1\0"}}, {"segment": 7, "environment": 7}):
            create = plugin.daemon.create

            def broken(name, *arguments, create=create, answer=answer, **options):
                create(name, *arguments, **options)
                return answer
            plugin.daemon.create = broken
            await refused_later(Exception, plugin.generate_docker_args(None, share(plugin, "0.5")))
            hook = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="w"), share(plugin, "0.5"))
            await refused_later(Exception, hook.pre_create())
            plugin.daemon.create = create
            equal((plugin.daemon.vgpus, plugin._containers), ({}, {}))
    asyncio.run(look())


@test
def a_daemon_that_others_can_replace_is_not_asked():
    folder = tempfile.mkdtemp(prefix="facet-test-")
    inner = os.path.join(folder, "run")
    os.mkdir(inner, 0o700)
    client = daemon.Daemon(os.path.join(inner, "facetd.sock"))
    refused(FacetError, client.list)
    for path, mode, fragment in ((inner, 0o777, "may be written by any user (mode 0777)"),
                                 (inner, 0o770, "may be written by others (mode 0770)"),
                                 (folder, 0o777, "may be written by any user (mode 0777)")):
        os.chmod(path, mode)
        try:
            client.list()
        except FacetError as error:
            equal(error.status, library.PERMISSION)
            contains(str(error), f"{path} {fragment}")
        else:
            raise AssertionError(f"the daemon was asked, with mode {mode:o} of {path}")
        os.chmod(path, 0o700)
    if os.geteuid() == 0 and shutil.which("setpriv"):  # a socket of another user's process, in a folder of ours
        os.chmod(folder, 0o711)
        listener = subprocess.Popen(["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-c", LISTEN,
                                     tempfile.gettempdir()], stdout=subprocess.PIPE, text=True)
        path = listener.stdout.readline().strip()
        os.rename(path, os.path.join(inner, "facetd.sock"))
        try:
            client.list()
        except FacetError as error:
            contains(str(error), "is of a process of user 65534")
        else:
            raise AssertionError("the daemon of another user was asked")
        finally:
            listener.kill()
            listener.wait()
    shutil.rmtree(folder)


LISTEN = """
import os, socket, sys, time
path = os.path.join(sys.argv[1], f"facet-test-{os.getpid()}.sock")
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print(path, flush=True)
time.sleep(60)
"""


@test
def a_container_is_given_no_variable_that_facet_does_not_define():
    given = {"LD_PRELOAD": "/evil.so", "PATH": "/evil", "X_VISIBLE_DEVICES": "1", "POCL_AFFINITY": "1"}
    with Workload() as workload:
        enter_vgpu(workload, {"segment": "/run/facet/x", "environment": given}, "/layer.so")
        environment = workload.document()["environment"]
    equal({name: value for name, value in environment.items() if name in given},
          {"X_VISIBLE_DEVICES": "1", "POCL_AFFINITY": "1"})


# --- lifecycle ---

@test
def an_absent_daemon_defers_and_an_impossible_request_denies():
    async def look():
        plugin = FacetPlugin({"socket": os.path.join(world.FOLDER.name, "nobody.sock")}, {})
        await plugin.init()
        hook = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="1"), share(plugin, "0.5"))
        contains(str(await refused_later(lifecycle.WorkloadDeferred, hook.pre_create())), "facetd")
        contains(str(await refused_later(lifecycle.WorkloadDeferred, hook.post_terminate())), "facetd")
        plugin.daemon = world.FakeDaemon()
        both = {"facet.shares": {device: D(1) for device in list(plugin._devices)[:2]}}
        for granted in (both, share(plugin, "0.0009")):
            hook = await plugin.create_lifecycle_hook(types.SimpleNamespace(id="2"), granted)
            await refused_later(lifecycle.WorkloadDenied, hook.pre_create())
        equal(plugin.daemon.vgpus, {})
    asyncio.run(look())


# --- measuring ---

@test
def a_process_on_two_devices_has_the_sum():
    async def look():
        plugin = await ready()
        name = "facet_process_memory_used_bytes"
        plugin.daemon.lines = [(name, labels, D(value)) for labels, value in (
            ({"device": "sim:0", "pid": "7"}, 100), ({"device": "sim:1", "pid": "7"}, 23),
            ({"device": "sim:0", "pid": "8"}, 1), ({"device": "sim:0"}, 1), ({"pid": "x"}, 1))]
        measures = await plugin.gather_process_measures(None, {7: "c"})
        equal({pid: item.value for pid, item in measures[0].per_process.items()}, {7: D(123)})
    asyncio.run(look())


@test
def labels_may_hold_any_character():
    class Answers(daemon.Daemon):
        def _ask(self, method, target, body=None):
            return 200, (b'# HELP x y\nfacet_device_power_watts{device="sim:0",name="a} \\"b\\\\ {c"} 1.5\n'
                         b'facet_device_power_watts{device="sim:1",name="\\n"} NaN\nfacet_x 1\n')
    equal(Answers("/nowhere").readings(),
          [("facet_device_power_watts", {"device": "sim:0", "name": 'a} "b\\ {c'}, D("1.5"))])


@test
def unknown_values_of_a_device_are_not_reported_as_zero():
    async def look():
        plugin = FacetPlugin({"enforce": "none"}, {})
        await plugin.init()
        listed = {device.facet_id: device.device_id for device in plugin._devices.values()}
        while not (measures := {item.key: item for item in await plugin.gather_node_measures(None)}):
            await asyncio.sleep(0.05)  # the daemon begins to read devices at the first request
        equal(listed["sim:0"] in measures["facet_mem"].per_device, True)
        equal(listed["cpu:0"] in measures["facet_mem"].per_device, False)
    with world.Daemon():
        asyncio.run(look())


@test
def a_device_that_fails_later_is_not_granted_any_more():
    async def look():
        plugin = await ready()
        alloc_map = await plugin.create_alloc_map()

        async def report(health):
            plugin.daemon.lines = [("facet_device_health", {"device": "sim:0", "health": word}, D(int(word == health)))
                                   for word in ("unknown", "ok", "degraded", "failed")]
            return (await plugin.get_node_hwinfo())["status"], await plugin.available_slots()
        equal(await report("failed"), ("degraded", {"facet.shares": D(3)}))
        granted = [copy.deepcopy(alloc_map).allocate({"facet.shares": D(1)})]
        granted += [alloc_map.allocate({"facet.shares": D(1)}) for _ in range(3)]
        first = next(device.device_id for device in plugin._devices.values() if device.facet_id == "sim:0")
        equal([part for part in granted if first in part["facet.shares"]], [])
        refused(exception.InsufficientResource, alloc_map.allocate, {"facet.shares": D(1)})
        equal(await report("unknown"), ("degraded", {"facet.shares": D(3)}))  # "unknown" does not change the health
        equal(await report("ok"), ("healthy", {"facet.shares": D(4)}))
        equal(list(alloc_map.allocate({"facet.shares": D(1)})["facet.shares"]), [first])
        alloc_map.close()
    asyncio.run(look())


@test
def a_vgpu_without_a_limit_is_measured_without_one():
    async def look():
        plugin = await ready()
        name = vgpu_name_of(await plugin.generate_docker_args(None, share(plugin, "0.5")))
        plugin._containers[name] = "c"
        plugin.daemon.vgpus[name]["memory_limit_bytes"] = None
        measures = {item.key: item for item in await plugin.gather_container_measures(None, ["c"])}
        equal((measures["facet_mem"].per_container["c"].value, measures["facet_mem"].per_container["c"].capacity),
              (D(1), None))
    asyncio.run(look())


# --- maps ---

def make(capacities, **options):
    return FacetAllocMap(device_slots={device: DeviceSlotInfo("count", "facet.shares", D(capacity))
                                       for device, capacity in capacities.items()}, **options)


@test
def every_refusal_is_a_resource_error():
    """The agent rolls its maps back only for ResourceError."""
    alloc_map = make({"a": "1"})
    for slots in ({"facet.\0": D(1)}, {"\ud800": D(1)}, {"facet.shares": None}, {"facet.shares": "x"},
                  {"facet.shares": object()}, {"facet.shares": D("sNaN")}, {"x" * 100000: D(1)}):
        refused(exception.ResourceError, alloc_map.allocate, slots)
    refused(exception.ResourceError, alloc_map.allocate, {"facet.shares": D("0.5")}, min_memory="much")
    for function in (alloc_map.apply_allocation, alloc_map.free):
        refused(exception.ResourceError, function, {"facet.shares": {"a": None}})
        refused(exception.ResourceError, function, {"facet.shares": {"\ud800": D(1)}})
    equal(alloc_map.allocations["facet.shares"], {"a": D(0)})
    alloc_map.close()
    refused(exception.ResourceError, alloc_map.allocate, {"facet.shares": D("0.5")})
    refused(exception.ResourceError, alloc_map.free, {"facet.shares": {"a": D("0.5")}})


@test
def one_device_is_found_although_a_nearer_one_is_nearly_full():
    alloc_map = make({"a": "1", "b": "1"}, strategy="fill", most_devices=1, numa_nodes={"a": 0, "b": 1})
    alloc_map.apply_allocation({"facet.shares": {"a": D("0.7")}})
    near = AffinityHint([AbstractComputeDevice("q", "", 0, 0, 0, "x")], None, AffinityPolicy.PREFER_SINGLE_NODE)
    equal(alloc_map.allocate({"facet.shares": D("0.5")}, affinity_hint=near), {"facet.shares": {"b": D("0.5")}})
    error = refused(exception.FractionalResourceFragmented, alloc_map.allocate, {"facet.shares": D("0.6")},
                    affinity_hint=near)
    contains("".join(getattr(error, "__notes__", [])), "one process has one vGPU")
    equal(alloc_map.allocations["facet.shares"], {"a": D("0.7"), "b": D("0.5")})
    alloc_map.close()


@test
def a_map_may_be_closed_while_others_use_it():
    alloc_map, faults = make({f"g{n}": "1" for n in range(8)}), []

    def work():
        try:
            while True:
                alloc_map.free(alloc_map.allocate({"facet.shares": D("0.01")}))
        except exception.ResourceError:
            pass
        except Exception as error:
            faults.append(repr(error))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    alloc_map.close()
    for thread in threads:
        thread.join()
    equal(faults, [])


# --- the library ---

@test
def a_library_that_is_missing_or_old_is_named():
    with tempfile.TemporaryDirectory(dir=world.FOLDER.name) as folder:
        code = "from facet_backendai import library; library.load()"
        environment = {**os.environ, "PYTHONPATH": world.PACKAGE, "FACET_LIB_DIR": folder}

        def last_error_line():
            lines = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                                   check=False).stderr.splitlines()
            return lines[-1] if lines else folder  # an installed library is found by the loader, without an error
        contains(last_error_line(), folder)
        if not shutil.which("cc"):
            raise Skip("no C compiler")
        path = os.path.join(folder, library.SONAME)
        subprocess.run(["cc", "-shared", "-o", path, "-x", "c", "-"], input=b"int facet_maps_create(void);", check=True)
        contains(last_error_line(), path)
        contains(last_error_line(), "OSError")


main()
