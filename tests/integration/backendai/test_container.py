#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in a mount namespace with the mounts and variables of the plugin's Docker arguments.

Owns: the proof that the memory limit of a share holds for a program, and for the container's root. Never: needs Docker:
an OpenCL device is enough, or a vendor's fake driver.
"""
import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from decimal import Decimal as D

import world
from facet_backendai.plugin import LABEL, FacetPlugin
from place import BUILD, wait_until
from tap import Skip, contains, equal, main, test

TENANT, FAKES = os.path.join(BUILD, "tests", "gpu", "gpu-tenant"), os.path.join(BUILD, "tests", "fake", "cuda")
BURN = os.path.join(BUILD, "examples", "opencl_burn")
HIP_PROGRAM = os.path.join(BUILD, "tests", "integration", "hip", "program-linked")
HIP_FAKE, SMI_FAKE = os.path.join(BUILD, "tests", "fake", "hip"), os.path.join(BUILD, "tests", "fake", "amdsmi")
UNSHARE = ["unshare", "--user", "--map-current-user", "--mount", "--keep-caps"]
os.environ["FACET_PROVIDER_PATH"] = os.path.join(BUILD, "facet-provider-opencl.so")


def start(arguments, *command, **variables):
    """Starts a command in a mount namespace of its own, whose mounts no other process sees."""
    lines = ["set -e", "mount -t tmpfs none /opt"]  # hides this machine's files there, which must not be changed
    mounts = arguments["HostConfig"]["Mounts"]
    # The sources are those of the host: earlier mounts of the container do not hide them.
    hosts = [f"/opt/host/{number}" for number in range(len(mounts))]

    def make_target(path, source):
        return f"mkdir -p {path}" if os.path.isdir(source) else f"mkdir -p $(dirname {path}); touch {path}"
    for mount, host in zip(mounts, hosts):
        lines += [make_target(host, mount["Source"]), f"mount --bind {shlex.quote(mount['Source'])} {host}"]
    for mount, host in zip(mounts, hosts):
        target = shlex.quote(mount["Target"])
        if mount["Target"].startswith("/opt/"):
            lines.append(make_target(target, mount["Source"]))
        lines.append(f"mount --bind {'-o ro' if mount.get('ReadOnly') else ''} {host} {target}")
    lines += [f"umount {host}" for host in hosts] + ["exec " + " ".join(map(shlex.quote, command))]
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


@test
def a_program_of_hip_cannot_have_more_than_its_share():
    need_namespaces()
    if not os.path.exists(HIP_PROGRAM):
        raise Skip("this build has no provider rocm")
    runtime = os.path.join(HIP_FAKE, "libamdhip64.so.6")
    os.environ.update(FACET_PROVIDER_PATH=os.path.join(BUILD, "facet-provider-rocm.so"), FACET_ROCM_HIP=runtime,
                      FACET_ROCM_SMI=os.path.join(SMI_FAKE, "libamd_smi.so.26"),
                      FACET_ROCM_ROOT=os.path.join(SMI_FAKE, "kernel"), LD_LIBRARY_PATH=HIP_FAKE,
                      FAKE_HIP_STATE=os.path.join(world.FOLDER.name, "hip"), FAKE_HIP_MEMORY="16G,8G")

    async def prepare(plugin):
        await plugin.init()
        device = next(name for name, device in plugin._devices.items() if device.facet_id == "rocm:0")
        return await plugin.generate_docker_args(None, {"facet.shares": {device: D("0.0625")}}), plugin._devices[device]

    with world.Daemon():
        plugin = FacetPlugin({"devices": {"*": {"environment": {"LD_PRELOAD": "/own.so", "HIP_VISIBLE_DEVICES": "7"}}}}, {})
        arguments, device = asyncio.run(prepare(plugin))
        environment = dict(entry.split("=", 1) for entry in arguments["Env"])
        digits = device.address.removeprefix("amd-")
        equal((len(digits), {name: environment[name] for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "ROCR_VISIBLE_DEVICES",
                                                                  "HIP_VISIBLE_DEVICES")}),
              (16, {"LD_PRELOAD": "/opt/facet/hip/libamdhip64.so:/own.so", "LD_LIBRARY_PATH": "/opt/facet/hip",
                    "ROCR_VISIBLE_DEVICES": "GPU-" + digits, "HIP_VISIBLE_DEVICES": "0"}))
        mounts = {mount["Target"]: mount for mount in arguments["HostConfig"]["Mounts"]}
        equal(mounts["/opt/facet/hip"]["ReadOnly"], True)
        limit = plugin.daemon.get(arguments["Labels"][LABEL])["memory_limit_bytes"]
        # In a container, the image would bring the runtime.
        program = start(arguments, HIP_PROGRAM, FACET_REAL_HIP=runtime)
        output, errors = program.communicate(timeout=120)
        equal(program.returncode, 0, errors)
        contains(output, f"1 devices, {limit >> 20} MiB, 2 GiB 2, launch ")  # 2: hipErrorOutOfMemory


# Tries to change the segment in the folder that it is started with, and prints what succeeded.
ATTACKS = """
import errno, os, sys
os.chdir(sys.argv[1])
def attempt(name, action):
    try:
        action()
        print(name)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EBUSY):
            raise
attempt("write policy", lambda: open("policy", "r+b"))
attempt("truncate policy", lambda: os.truncate("policy", 0))
attempt("make a file", lambda: open("new", "wb"))
for name in sorted(os.listdir()):
    attempt(f"remove {name}", lambda: os.unlink(name))
    attempt(f"replace {name}", lambda: os.replace("usage" if name != "usage" else "device", name))
for name in ("usage", "refused"):
    open(name, "r+b").close()
"""


@test
def root_of_a_container_changes_no_limit_and_removes_no_file():
    need_namespaces()
    world.simulate()

    async def prepare(plugin):
        await plugin.init()
        return await plugin.generate_docker_args(None, {"facet.shares": {next(iter(plugin._devices)): D("0.25")}})

    with world.Daemon():
        plugin = FacetPlugin({}, {})
        arguments = asyncio.run(prepare(plugin))
        segment = plugin.daemon.list()[0]["segment"]
        attacker = start(arguments, sys.executable, "-c", ATTACKS, segment)
        output, errors = attacker.communicate(timeout=60)
        equal((attacker.returncode, output, errors), (0, "", ""), "what succeeded")


main()
