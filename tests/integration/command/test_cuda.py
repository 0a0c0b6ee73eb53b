#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""facet run on NVIDIA GPUs: the whole path from the command to a limited program, over the fake driver and NVML."""
import json
import os
import shlex
import signal
import subprocess
import sys
import time

from cuda import CONTEXT, FAKES, GIB, GPU, SMI, TENANT, TOO_MUCH_MIB, CudaPlace
from place import BUILD, SOURCE, wait_until
from tap import Skip, contains, equal, main, test

KINDS = ("plain", "managed", "pool", "virtual", "array")


@test
def program_sees_a_gpu_of_its_quota():
    with CudaPlace() as place:
        seen = place.tenant(["-d", "cuda:0", "-m", "20G", "-c", "25"], "info")["devices"]
        equal([(one["uuid"], one["total_bytes"], one["info_total_bytes"]) for one in seen],
              [(GPU.format(1), 20 * GIB, 20 * GIB)])
        equal(seen[0]["free_bytes"], 20 * GIB - CONTEXT, "free beside the context")
        equal(place.smi("index,uuid,memory.total,memory.used", "-d", "cuda:0", "-m", "20G"),
              [["0", GPU.format(1), "20480", "0"]])
        equal(place.smi("memory.total"), [["81924"], ["40964"]], "in no vGPU, with the memory that the driver reserves")


@test
def no_kind_of_memory_goes_beyond_the_quota():
    with CudaPlace() as place:
        for kind in KINDS:
            done = place.facet("run", "-d", "cuda:0", "-m", "2G", "--report", "use.json", "--", TENANT, "grab", kind,
                               "64", TOO_MUCH_MIB, "0")
            equal(done.returncode, 0, done.stderr)
            got, report = json.loads(done.stdout), json.loads(place.read("use.json"))
            equal(got["refusal"], 2, f"CUDA_ERROR_OUT_OF_MEMORY for {kind}")
            used = got["granted_bytes"] + CONTEXT
            equal(2 * GIB - (64 << 20) < used <= 2 * GIB, True, f"{kind}: {used} fills the quota and no more")
            equal(report["memory_peak_bytes"] <= 2 * GIB, True, f"peak {report['memory_peak_bytes']}")
            equal(report["denied_allocations"] > 0, True, "refusals")


@test
def the_driver_counts_no_more_than_the_quota():
    with CudaPlace() as place:
        process, got = place.holding("-d", "cuda:0", "-m", "4G", "--name", "holder")
        equal(got["total_bytes"], 4 * GIB)
        used = int(place.smi("memory.used")[0][0]) << 20  # by the fake driver's own count
        equal(4 * GIB - (1 << 30) < used <= 4 * GIB, True, f"{used} of 4 GiB")
        shown = place.json("vgpu", "show", "holder", "--json")
        equal(shown["memory_used_bytes"], used, "the limiter's count equals the driver's")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        wait_until(lambda: place.smi("memory.used")[0][0] == "0", "the memory is back")


@test
def a_monitor_inside_shows_the_vgpu_and_its_own_processes():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "8G")
        process, got = place.holding("--vgpu", "a")
        other, _ = place.holding("-d", "cuda:0", "-m", "16G")
        inside = place.smi("memory.total,memory.used", "--vgpu", "a")
        equal(inside, [["8192", str((got["granted_bytes"] + CONTEXT) >> 20)]])
        for one in (process, other):
            one.send_signal(signal.SIGTERM)
            one.communicate(timeout=30)


@test
def commands_outside_show_devices_and_programs():
    with CudaPlace() as place:
        devices = place.json("devices", "--json")["devices"]
        equal([(one["id"], one["uuid"], one["memory_bytes"], one["compute_units"]) for one in devices],
              [("cuda:0", GPU.format(1), 80 * GIB, 132), ("cuda:1", GPU.format(2), 40 * GIB, 132)])
        card = place.facet("devices", "cuda:0").stdout
        for line in ("uuid                 GPU-", "pci address          0000:", "nvlink", "compute_capability   9.0"):
            contains(card, line)
        equal("conformance" in card, False, "a member that is only for tests of providers")
        process, got = place.holding("-d", "cuda:1", "-m", "4G", "-c", "25:50", "--name", "seen")
        held = got["granted_bytes"] + CONTEXT
        contains(place.facet("vgpu", "list").stdout, "seen")
        shown = place.json("vgpu", "show", "seen", "--json")
        equal((shown["device"], shown["memory_used_bytes"], shown["processes"]), ("cuda:1", held, 1))
        contains(place.facet("top", "--once", "--interval", "0.1").stdout, "seen")
        told = lambda: [line for line in place.facet("metrics").stdout.splitlines()
                        if line.startswith("facet_process_memory_used_bytes")]
        equal([line.split()[-1] for line in wait_until(told, "the device's reading")], [str(held)],
              "the process's memory by the driver's count")
        contains(told()[0], f'vgpu="{shown["id"]}",name="seen"')
        counted = lambda: place.json("vgpu", "show", "seen", "--json").get("driver_memory_bytes")
        equal(wait_until(counted, "both counts are published"), held, "the driver's count beside the limiter's")
        contains(place.facet("metrics").stdout, f'facet_vgpu_driver_memory_bytes{{vgpu="{shown["id"]}",name="seen",')
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


PAST_THE_LIMITER = """
import ctypes, sys, time
ours, driver = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(sys.argv[1])
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert ours.cuInit(0) == 0
assert ours.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and ours.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)) == 0
print("there", flush=True)
time.sleep(60)
"""


@test
def a_process_that_bypasses_the_limiter_shows_in_the_drivers_count():
    with CudaPlace() as place:
        process = place.start("run", "-d", "cuda:0", "-m", "4G", "--name", "sly", "--", "/usr/bin/python3", "-c",
                              PAST_THE_LIMITER, os.path.join(FAKES, "libcuda.so.1"))
        equal(process.stdout.readline(), "there\n")
        shown = lambda: place.json("vgpu", "show", "sly", "--json")
        equal(wait_until(lambda: shown().get("driver_memory_bytes"), "the driver's count"), GIB + CONTEXT)
        wait_until(lambda: "warning" in shown(), "the warning")
        contains(shown()["warning"], "the driver counts 1.3 GiB of its processes, and 300 MiB are charged")
        contains(place.facet("vgpu", "show", "sly").stdout, "the driver counts")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


@test
def a_program_has_two_gpus_with_limits_of_their_own():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "20G")
        place.facet("vgpu", "create", "--name", "b", "-d", "cuda:1", "-m", "6G")
        both = ["--vgpu", "b", "--vgpu", "a"]
        seen = place.tenant(both, "info")["devices"]
        equal([(one["uuid"], one["total_bytes"]) for one in seen],
              [(GPU.format(2), 6 * GIB), (GPU.format(1), 20 * GIB)])
        equal(place.smi("uuid,memory.total", *both), [[GPU.format(2), "6144"], [GPU.format(1), "20480"]])
        equal(place.granted(*both) <= 6 * GIB, True, "the first one's quota")
        done = place.facet("run", "-v", *both, "--", TENANT, "store")
        contains(done.stderr, "facet run: a on cuda:0")
        contains(done.stderr, "facet run: b: 1 launches")
        contains(done.stderr, "facet run: a: 0 launches")


@test
def vgpus_that_do_not_go_together_are_refused():
    with CudaPlace(providers=("cuda", "sim"), FACET_SIM_PROFILE="h100") as place:
        for name, device in (("a", "cuda:0"), ("b", "cuda:0"), ("s", "sim:0")):
            equal(place.facet("vgpu", "create", "--name", name, "-d", device, "-m", "1G").returncode, 0, name)
        for names, reason in ((("a", "b"), f"two of the virtual GPUs are of {GPU.format(1)}"),
                              (("a", "a"), "two of the virtual GPUs"), (("a", "s"), "some are not"),
                              (("s", "s"), "only when all are of NVIDIA's GPUs")):
            done = place.facet("run", *[word for name in names for word in ("--vgpu", name)], "true")
            equal(done.returncode != 0, True, f"exit status for {names}")
            contains(done.stderr, reason)
        done = place.facet("run", "--vgpu", "a", "--vgpu", "s", "--report", "-", "true")
        equal(done.returncode, 2)
        contains(done.stderr, "--report is about one virtual GPU")
        done = place.facet("run", *["--vgpu", "a"] * 17, "true")  # one more than a program can have
        equal(done.returncode, 2)
        contains(done.stderr, "16 virtual GPUs at most")


@test
def a_quota_below_the_cost_of_a_context_is_refused_clearly():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "small", "-d", "cuda:0", "-m", "100M")
        done = place.facet("run", "-v", "--vgpu", "small", "--", TENANT, "store")
        equal(done.returncode, 1)
        contains(done.stderr, "gpu.cuDevicePrimaryCtxRetain(&gpu.context, gpu.device): 2")
        contains(done.stderr, "1 denied allocations")
        shown = place.json("vgpu", "show", "small", "--json")
        equal((shown["memory_used_bytes"], shown["memory_peak_bytes"] <= 100 << 20), (0, True))
        # The command gives this reason, as the program cannot; for other refusals it prints nothing.
        said = "small: the memory quota, 100 MiB, is too small to use cuda:0: the first allocation, as a rule a CUDA context"
        contains(done.stderr, f"facet run: warning: {said}")
        # 301M has room for a context (CONTEXT), and 100M has not.
        for limits, expected in ((["--vgpu", "small"], 1), (["-d", "cuda:1", "-m", "100M"], 1), (["-m", "301M"], 0)):
            done = place.facet("run", *limits, "--", TENANT, "grab", "plain", "64", TOO_MUCH_MIB, "0")
            equal(done.stderr.count("is too small to use"), expected, done.stderr)
        place.facet("vgpu", "set", "small", "-m", "2G")
        equal(place.facet("run", "--vgpu", "small", "--", TENANT, "store").stderr, "")
        done = place.facet("run", "--vgpu", "small", "--", TENANT, "grab", "plain", "64", TOO_MUCH_MIB, "0")
        equal(done.stderr, "")


@test
def a_killed_tenant_gives_its_memory_back():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "4G")
        process = place.start("run", "--vgpu", "a", "--", "sh", "-c", 'echo $$ >pid; exec "$0" "$@"', TENANT, "grab",
                              "plain", "512", TOO_MUCH_MIB, "60")
        json.loads(process.stdout.readline())
        used = lambda: place.json("vgpu", "show", "a", "--json")["memory_used_bytes"]
        equal(used() > 3 * GIB, True, "it holds its memory")
        os.kill(int(place.read("pid")), signal.SIGKILL)
        wait_until(lambda: used() == 0, "the memory is back")
        equal(process.wait(timeout=30), 128 + 9)
        process.communicate()
        equal(place.granted("--vgpu", "a") > 3 * GIB, True, "the next one")


@test
def a_daemon_that_dies_changes_nothing_for_running_programs():
    with CudaPlace() as place:
        place.facet("vgpu", "create", "--name", "a", "-d", "cuda:0", "-m", "4G", "-c", "25:25")
        process, got = place.holding("--vgpu", "a")
        place.kill_daemon()
        # A quota holds without a daemon: another process of the full vGPU gets no memory.
        shown = place.json("vgpu", "show", "a", "--json")  # starts a new daemon
        equal((shown["memory_used_bytes"], shown["processes"]), (got["granted_bytes"] + CONTEXT, 1))
        done = place.facet("run", "--vgpu", "a", "--", TENANT, "store")
        equal(done.returncode, 1, "no room for a second context")
        contains(done.stderr, "cuDevicePrimaryCtxRetain")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        wait_until(lambda: place.json("vgpu", "show", "a", "--json")["memory_used_bytes"] == 0, "the memory is back")


@test
def shared_mode_limits_nothing_and_counts():
    with CudaPlace() as place:
        done = place.facet("run", "-d", "cuda:1", "--mode", "shared", "--report", "use.json", "--", TENANT, "grab",
                           "plain", "1024", TOO_MUCH_MIB, "0")
        got, report = json.loads(done.stdout), json.loads(place.read("use.json"))
        equal((got["total_bytes"], got["granted_bytes"] > 38 * GIB), (40 * GIB, True))
        equal(report["memory_peak_bytes"], got["granted_bytes"] + CONTEXT)
        for mode in ("hard", "partitioned"):
            done = place.facet("run", "-d", "cuda:0", "--mode", mode, "-c", "25", "true")
            if done.returncode:
                contains(done.stderr, f"device cuda:0 does not offer mode '{mode}'; it has: shared, soft")


@test
def a_part_of_a_gpu_in_mig_mode_is_entered_by_its_name():
    with CudaPlace(FAKE_CUDA_MEMORY="80G,80G", FAKE_CUDA_MIG="1") as place:
        done = place.facet("run", "-d", "cuda:0", "-m", "20G", "true")
        equal(done.returncode != 0, True)
        contains(done.stderr, "does not offer mode 'soft'; it has: partitioned")
        limits = ["-d", "cuda:0", "--mode", "partitioned"]
        seen = place.tenant([*limits, "--template", "2g.20gb"], "info")["devices"]
        equal([(one["total_bytes"], one["units"]) for one in seen], [(20 * GIB, 32)])
        equal(seen[0]["uuid"] != GPU.format(1), True, "the part's own name")
        equal(20 * GIB - (1 << 30) < place.granted(*limits, "-m", "20G") <= 20 * GIB, True, "the part's memory")
        equal(place.granted(*limits, "--template", "2g.20gb", "-m", "5G") <= 5 * GIB, True, "a quota within the part")
        equal(place.smi("memory.total", *limits, "--template", "3g.40gb"), [["40960"]])
        wait_until(lambda: not place.json("devices", "cuda:0", "--json").get("partitions"), "the parts are destroyed")
        for name in ("a", "b"):
            equal(place.facet("vgpu", "create", "--name", name, *limits, "-m", "20G").returncode, 0, name)
        done = place.facet("run", "--vgpu", "a", "--vgpu", "b", "true")
        equal(done.returncode != 0, True, "two parts")
        contains(done.stderr, "is the partition MIG-")
        contains(done.stderr, "CUDA shows a program one partition")


@test
def wrong_devices_are_named_with_the_present_ones():
    with CudaPlace() as place:
        for wrong in ("cuda:7", "nvidia", "GPU-0"):
            done = place.facet("run", "-d", wrong, "true")
            equal(done.returncode != 0, True, wrong)
            contains(done.stderr, f"device '{wrong}': expected one of cuda:0, cuda:1")
        equal(place.facet("run", "-d", GPU.format(2), "true").returncode, 0, "by uuid")
        done = place.facet("run", "-d", "cuda:1", "-m", "41G", "true")
        equal(done.returncode, 2)
        contains(done.stderr, "memory")


@test
def a_machine_without_the_driver_says_what_is_missing():
    with CudaPlace(providers=("cuda", "sim"), FACET_SIM_PROFILE="h100") as place:
        place.env["LD_LIBRARY_PATH"] = place.path("nothing")
        place.env["FACET_CUDA_NVML"] = place.path("nothing/libnvidia-ml.so.1")  # hides this machine's driver, if any
        done = place.facet("run", "-d", "cuda:0", "true")
        equal(done.returncode != 0, True, done.stderr)
        contains(done.stderr, "libnvidia-ml.so.1 and libcuda.so.1) finds no device on this machine")
    # The message is the same without any other driver, and if only the management library is missing.
    for kept in ((), ("libcuda.so.1",)):
        with CudaPlace() as place:
            os.mkdir(place.path("lib"))
            for name in kept:
                os.symlink(os.path.join(FAKES, name), place.path(f"lib/{name}"))
            place.env["LD_LIBRARY_PATH"] = place.path("lib")
            place.env["FACET_CUDA_NVML"] = place.path("nothing/libnvidia-ml.so.1")
            done = place.facet("run", "-d", "cuda:0", "true")
            equal((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            contains(done.stderr, "libnvidia-ml.so.1 and libcuda.so.1) finds no device on this machine")
    with CudaPlace() as place:
        os.mkdir(place.path("lib"))
        place.write("lib/libnvidia-ml.so.1", "not a library")
        place.env["FACET_CUDA_NVML"] = place.path("lib/libnvidia-ml.so.1")
        done = place.facet("run", "-d", "cuda:0", "true")
        equal(done.returncode != 0, True, done.stderr)
        contains(done.stderr, "provider cuda was refused")
        contains(done.stderr, "cannot be loaded")


@test
def a_management_library_without_a_driver_is_reported_before_the_program_starts():
    with CudaPlace() as place:
        os.mkdir(place.path("lib"))
        os.symlink(os.path.join(FAKES, "libnvidia-ml.so.1"), place.path("lib/libnvidia-ml.so.1"))
        place.env.update(LD_LIBRARY_PATH=place.path("lib"), FACET_CUDA_DRIVER=place.path("nothing/libcuda.so.1"))
        done = place.facet("run", "-d", "cuda:0", "-m", "2G", "--", "sh", "-c", "echo started >&2")
        lines = done.stderr.splitlines()
        equal((done.returncode, len(lines), lines[1]), (0, 3, "started"), done.stderr)
        contains(lines[2], "no program entered")
        contains(lines[0], "facet run: warning: device cuda:0: CUDA programs will find no GPU: libcuda.so.1 is not found")
        contains(lines[0], "install the driver's libcuda.so.1")
        # Calls that need only the management library still work.
        equal(place.smi("memory.total", "-d", "cuda:0", "-m", "2G"), [["2048"]])


@test
def a_driver_that_is_named_and_not_there_is_refused():
    with CudaPlace() as place:
        for name in ("FACET_REAL_CUDA", "FACET_REAL_NVML"):
            done = place.facet("run", "-d", "cuda:0", "--", "touch", "started", env={name: "/nowhere/lib.so.1"})
            equal((done.returncode, done.stderr.count("\n"), place.exists("started")), (1, 1, False), done.stderr)
            contains(done.stderr, f"{name} is '/nowhere/lib.so.1': No such file or directory; expected the path of")
        for what, says in ((b"", "not a shared library"), (b"#!/bin/sh\n" * 20, "not a shared library"),
                           (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x01\x00" + bytes(80), "for other processors")):
            path = place.path("libother.so")
            with open(path, "wb") as file:
                file.write(what)
            done = place.facet("run", "-d", "cuda:0", "--", "touch", "started", env={"FACET_REAL_CUDA": path})
            equal((done.returncode, place.exists("started")), (1, False), done.stderr)
            contains(done.stderr, says)
        equal(place.facet("vgpu", "list", "--json").stdout.count('"name"'), 0, "nothing is left")
        equal(place.facet("run", "-d", "cuda:0", "true", env={"FACET_REAL_HIP": "/nowhere"}).stderr, "", "HIP's variable")


@test
def a_reservation_rendered_as_environment_enters_the_vgpu():
    with CudaPlace() as place:
        equal(place.facet("place", "--slot", "cuda.device=0.5", "--name", "job").returncode, 0)
        equal(place.facet("vgpu", "create", "--name", "a", "--reservation", "job", "-m", "10G").returncode, 0)
        rendered = place.json("place", "show", "job", "--render", "environment", "--json")["rendered"]
        equal(rendered["left"], [], "members that the form cannot express")
        given = dict(pair.split("=", 1) for pair in rendered["configuration"]["env"])
        equal(given["CUDA_VISIBLE_DEVICES"], place.json("place", "show", "job", "--json")["grants"][0]["device_id"])
        equal(given["LD_LIBRARY_PATH"], os.path.join(BUILD, "interpose", "cuda"))
        # On a real machine the loader finds the driver itself; here a variable names its folder.
        env = {**place.env, **given, "FACET_REAL_CUDA": os.path.join(place.env["LD_LIBRARY_PATH"], "libcuda.so.1"),
               "FACET_REAL_NVML": os.path.join(place.env["LD_LIBRARY_PATH"], "libnvidia-ml.so.1")}
        inside = lambda *words: subprocess.run(words, env=env, capture_output=True, text=True, timeout=60,
                                               check=True).stdout
        equal([one["total_bytes"] for one in json.loads(inside(TENANT, "info"))["devices"]], [10 * GIB])
        equal(inside(SMI, "--query-gpu=memory.total"), "10240\n")
        got = json.loads(inside(TENANT, "grab", "plain", "512", TOO_MUCH_MIB, "0"))["granted_bytes"]
        equal(9 * GIB < got <= 10 * GIB, True, f"{got} of 10 GiB")


@test
def a_reservation_rendered_for_containers_mounts_the_libraries():
    with CudaPlace() as place:
        equal(place.facet("place", "--slot", "cuda.device=0.5", "--name", "job").returncode, 0)
        equal(place.facet("vgpu", "create", "--name", "a", "--reservation", "job").returncode, 0)
        folder = os.path.join(BUILD, "interpose", "cuda")
        segment = place.json("vgpu", "show", "a", "--json")["segment"]
        docker = place.json("place", "show", "job", "--render", "docker", "--json")["rendered"]["configuration"]
        mounts = {mount["Source"]: (mount["Target"], mount.get("ReadOnly", False))
                  for mount in docker["HostConfig"]["Mounts"]}
        equal((mounts[folder], mounts[segment]), ((folder, True), (segment, True)))
        written = sorted(source for source in mounts if source.startswith(segment + "/"))
        equal((written, {mounts[file] for file in written}), ([f"{segment}/{name}" for name in ("refused", "usage")],
                                                              {(file, False) for file in written}))
        env = dict(pair.split("=", 1) for pair in docker["Env"])
        equal((env["LD_PRELOAD"], env["FACET_VGPU_DIR"]),
              (f"{folder}/libcuda.so.1:{folder}/libnvidia-ml.so.1", segment))
        equal(env["NVIDIA_VISIBLE_DEVICES"], env["CUDA_VISIBLE_DEVICES"])
        nodes = [node["PathOnHost"] for node in docker["HostConfig"]["Devices"]]
        equal("/dev/nvidiactl" in nodes and "/dev/nvidia-uvm" in nodes, True, nodes)
        for form in ("oci", "cdi"):
            text = json.dumps(place.json("place", "show", "job", "--render", form, "--json")["rendered"])
            contains(text, f"LD_LIBRARY_PATH={folder}")
            contains(text, f'"{folder}"')


# Makes the mounts of a CDI document, as a container runtime does, with the same paths as on the host. Then tries as root
# to change the segment, and prints what succeeded; then runs the program that the further arguments name.
IN_CONTAINER = """
import errno, json, os, subprocess, sys
segment, document, *program = sys.argv[1:]
for mount in json.loads(document)["devices"][0]["containerEdits"]["mounts"]:
    if os.path.exists(mount["hostPath"]):
        subprocess.run(["mount", "--bind", mount["hostPath"], mount["containerPath"]], check=True)
        access = "ro" if "ro" in mount["options"] else "rw"
        subprocess.run(["mount", "-o", f"remount,bind,{access}", mount["containerPath"]], check=True)
done = []
def attempt(name, action):
    try:
        action()
        done.append(name)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EBUSY):
            raise
os.chdir(segment)
attempt("write policy", lambda: open("policy", "r+b"))
attempt("truncate policy", lambda: os.truncate("policy", 0))
attempt("chmod policy", lambda: os.chmod("policy", 0o666))
attempt("make a file", lambda: open("new", "wb"))
for name in sorted(os.listdir()):
    attempt(f"remove {name}", lambda: os.unlink(name))
    attempt(f"rename {name}", lambda: os.rename(name, "renamed"))
    attempt(f"replace {name}", lambda: os.replace("usage", name) if name != "usage" else os.replace("device", name))
    attempt(f"link {name}", lambda: os.link(name, "linked"))
print(json.dumps(done), flush=True)
sys.exit(subprocess.run(program).returncode)
"""


@test
def root_in_a_container_changes_no_limit_and_removes_no_file():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("only root may make the mounts of a container")
    with CudaPlace() as place:
        equal(place.facet("place", "--slot", "cuda.device=0.5", "--name", "job").returncode, 0)
        equal(place.facet("vgpu", "create", "--name", "a", "--reservation", "job", "-m", "10G").returncode, 0)
        segment = place.json("vgpu", "show", "a", "--json")["segment"]
        rendered = place.json("place", "show", "job", "--render", "cdi", "--json")["rendered"]["configuration"]
        given = dict(pair.split("=", 1) for pair in rendered["devices"][0]["containerEdits"]["env"])
        env = {**place.env, **given, "FACET_REAL_CUDA": os.path.join(place.env["LD_LIBRARY_PATH"], "libcuda.so.1"),
               "FACET_REAL_NVML": os.path.join(place.env["LD_LIBRARY_PATH"], "libnvidia-ml.so.1")}
        outside = {name: env.pop(name) for name in ("LD_PRELOAD", "LD_LIBRARY_PATH")}  # for the program alone
        done = subprocess.run(["unshare", "-m", sys.executable, "-c", IN_CONTAINER, segment, json.dumps(rendered), "env",
                               *(f"{name}={value}" for name, value in outside.items()),
                               TENANT, "grab", "plain", "512", TOO_MUCH_MIB, "0"],
                              env=env, capture_output=True, text=True, timeout=60, check=False)
        equal(done.returncode, 0, done.stderr)
        attacks, grabbed = map(json.loads, done.stdout.splitlines())
        equal(attacks, [], "what root could do to the segment")
        equal(9 * GIB < grabbed["granted_bytes"] <= 10 * GIB, True, f"{grabbed} of 10 GiB")
        equal(place.json("vgpu", "show", "a", "--json")["memory_limit_bytes"], 10 * GIB)


@test
def a_container_with_two_vgpus_enters_none_and_is_told():
    with CudaPlace() as place:
        given = {}
        for name in ("one", "two"):  # as a container runtime does: the second configuration's variables replace the first's
            equal(place.facet("place", "--slot", "cuda.device=0.5", "--name", name).returncode, 0)
            equal(place.facet("vgpu", "create", "--name", name, "--reservation", name).returncode, 0)
            rendered = place.json("place", "show", name, "--render", "environment", "--json")["rendered"]
            given.update(pair.split("=", 1) for pair in rendered["configuration"]["env"])
        env = {**place.env, **given, "FACET_REAL_CUDA": os.path.join(place.env["LD_LIBRARY_PATH"], "libcuda.so.1"),
               "FACET_REAL_NVML": os.path.join(place.env["LD_LIBRARY_PATH"], "libnvidia-ml.so.1")}
        done = subprocess.run([TENANT, "info"], env=env, capture_output=True, text=True, timeout=60, check=False)
        equal(done.returncode != 0, True, done.stdout)
        contains(done.stderr, "several virtual GPUs were given to this container")
        done = subprocess.run([SMI, "--query-gpu=memory.total"], env=env, capture_output=True, text=True, timeout=60,
                              check=False)
        equal(done.stdout.strip() in ("", "No devices were found"), True, done.stdout)
        warning = place.json("vgpu", "show", "two", "--json")["warning"]
        contains(warning, "several virtual GPUs were given")


# Programs that docs/cuda.md runs, and the commands that stand in for them.
STAND_INS = {"python": [TENANT, "info"], "nvidia-smi": [SMI, "--query-gpu=memory.total"]}


def page_commands():
    """The words of each `facet` command in docs/cuda.md, with programs of the tests in place of those that it names."""
    with open(os.path.join(SOURCE, "docs", "cuda.md"), encoding="utf-8") as page:
        blocks = page.read().split("```")[1::2]
    for line in "".join(blocks).splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words and words[0] in ("facet", "./build/facet"):
            end = words.index("--") + 1 if "--" in words else len(words)
            yield words[1:end], STAND_INS[words[end]] if end < len(words) else []


@test
def every_command_of_the_page_works():
    commands = list(page_commands())
    equal(len(commands) > 10, True, "the page has commands")
    with CudaPlace() as place, CudaPlace(FAKE_CUDA_MEMORY="80G,80G", FAKE_CUDA_MIG="1") as cut:
        for words, program in commands:
            there = cut if "partitioned" in words else place
            done = there.facet(*words, *program)
            equal(done.returncode, 0, f"{words}: {done.stderr}")
            if "-v" not in words:
                equal(done.stderr, "", words)
            if program[:1] == [TENANT] and "-m" in words:
                shown = json.loads(done.stdout)["devices"][0]["total_bytes"]
                equal(shown, int(words[words.index("-m") + 1].rstrip("G")) * GIB, words)
        equal([one["name"] for one in place.json("vgpu", "list", "--json")["vgpus"]], ["team-a", "team-b", "job-7"])


main()
