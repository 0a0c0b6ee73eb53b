#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in a mount namespace with the mounts and variables of the plugin's Docker arguments.

Owns: the proof that the memory limit of a share holds for a program. Never: needs Docker: an OpenCL device is enough.
"""
import asyncio
import json
import os
import shlex
import shutil
import subprocess
from decimal import Decimal as D

import world
from facet_backendai.plugin import LABEL, FacetPlugin
from place import BUILD, wait_until
from tap import Skip, contains, equal, main, test

TENANT, FAKES = os.path.join(BUILD, "tests", "gpu", "gpu-tenant"), os.path.join(BUILD, "tests", "fake", "cuda")
BURN = os.path.join(BUILD, "examples", "opencl_burn")
UNSHARE = ["unshare", "--user", "--map-current-user", "--mount", "--keep-caps"]
os.environ["FACET_PROVIDER_PATH"] = os.path.join(BUILD, "facet-provider-opencl.so")


def start(arguments, *command, **variables):
    """Starts a command in a mount namespace of its own, whose mounts no other process sees."""
    lines = ["set -e", "mount -t tmpfs none /opt"]  # hides this machine's files there, which must not be changed
    for mount in arguments["HostConfig"]["Mounts"]:
        source, target = shlex.quote(mount["Source"]), shlex.quote(mount["Target"])
        if mount["Target"].startswith("/opt/"):
            lines += [f"mkdir -p {target}"] if os.path.isdir(mount["Source"]) else \
                     [f"mkdir -p $(dirname {target})", f"touch {target}"]
        lines.append(f"mount --bind {source} {target}")
    lines.append("exec " + " ".join(map(shlex.quote, command)))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("FACET_")}
    environment.update(entry.split("=", 1) for entry in arguments["Env"])
    environment.update(variables)
    return subprocess.Popen([*UNSHARE, "sh", "-c", "\n".join(lines)], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def need_namespaces():
    if not shutil.which("unshare") or subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", "/opt"],
                                                     capture_output=True, check=False).returncode:
        raise Skip("this user may make no mount namespace")


@test
def a_program_cannot_have_more_than_its_share():
    need_namespaces()
    if not os.path.exists(BURN):
        raise Skip("opencl_burn is not built")

    async def prepare(plugin):
        await plugin.init()
        if not await plugin.available_slots() or not plugin._offered_devices():
            raise Skip("no device that programs can be run on")
        alloc_map = await plugin.create_alloc_map()
        return await plugin.generate_docker_args(None, alloc_map.allocate({"facet.shares": D("0.05")}))

    with world.Daemon():
        plugin = FacetPlugin({}, {})
        arguments = asyncio.run(prepare(plugin))
        name = arguments["Labels"][LABEL]
        limit = plugin.daemon.get(name)["memory_limit_bytes"]
        fits = start(arguments, BURN, "--seconds", "0.2", "--steps", "1000")
        output, errors = fits.communicate(timeout=120)
        equal(fits.returncode, 0, errors)
        vgpu = wait_until(lambda: (now := plugin.daemon.get(name))["launches"] and now, "launches are counted")
        contains(vgpu, "memory_peak_bytes")
        large = start(arguments, BURN, "--seconds", "0.2", "--steps", "1000", "--memory", str(limit + 1))
        output, errors = large.communicate(timeout=120)
        equal(large.returncode != 0, True, output)
        wait_until(lambda: plugin.daemon.get(name)["denied_allocations"], "the refusal is counted")
        equal(plugin.daemon.get(name)["memory_peak_bytes"] <= limit, True)


@test
def a_program_of_cuda_cannot_have_more_than_its_share():
    need_namespaces()
    if not os.path.exists(TENANT):
        raise Skip("this build has no provider cuda")
    os.environ.update(FACET_PROVIDER_PATH=os.path.join(BUILD, "facet-provider-cuda.so"), LD_LIBRARY_PATH=FAKES,
                      FAKE_CUDA_STATE=os.path.join(world.FOLDER.name, "machine"))

    async def prepare(plugin):
        await plugin.init()
        alloc_map = await plugin.create_alloc_map()
        return await plugin.generate_docker_args(None, alloc_map.allocate({"facet.shares": D("0.25")}))

    with world.Daemon():
        plugin = FacetPlugin({"devices": {"*": {"environment": {"LD_PRELOAD": "/own.so"}}}}, {})
        arguments = asyncio.run(prepare(plugin))
        environment = dict(entry.split("=", 1) for entry in arguments["Env"])
        equal(environment["LD_PRELOAD"], "/opt/facet/cuda/libcuda.so.1:/opt/facet/cuda/libnvidia-ml.so.1:/own.so")
        equal(environment["LD_LIBRARY_PATH"], "/opt/facet/cuda")
        limit = plugin.daemon.get(arguments["Labels"][LABEL])["memory_limit_bytes"]
        driver = os.path.join(FAKES, "libcuda.so.1")  # in a container, NVIDIA's runtime would mount the driver
        greedy = start(arguments, TENANT, "grab", "plain", "64", "10240", "0", FACET_REAL_CUDA=driver)
        output, errors = greedy.communicate(timeout=120)
        equal(greedy.returncode, 0, errors)
        got = json.loads(output)
        equal((got["total_bytes"], got["refusal"]), (limit, 2))  # 2: CUDA_ERROR_OUT_OF_MEMORY
        granted = got["granted_bytes"]
        equal(limit - (512 << 20) < granted < limit, True, f"granted {granted} of {limit} bytes")


main()
