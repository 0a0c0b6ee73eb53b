#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci attach` and `facet pci detach`: their output, the commands to monitors of VMs, and their refusals."""
import json
import os
import shutil
import subprocess
import threading

from golden import matches_golden
from hypervisors import CloudHypervisor, Qemu, machine
from place import SOURCE, Place, wait_until
from tap import Skip, contains, equal, main, test

QEMU = "/usr/bin/qemu-system-x86_64"
MDEV = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
SCHEMA = os.path.join(SOURCE, "schemas", "attachment.schema.json")


def check_schema(document):
    try:
        import jsonschema
    except ImportError:
        return  # without python3-jsonschema only the other checks are made
    with open(SCHEMA, encoding="utf-8") as file:
        jsonschema.Draft202012Validator(json.load(file)).validate(document)


@test
def each_form_matches_its_golden_file():
    with Place() as place:
        host = machine(place)
        for name, arguments in {"qemu": ["--qemu", "01:00.0", "01:00.1", "02:00.0"],
                                "qemu-iommufd": ["--qemu", "--iommufd", "--primary", "--romfile", "/roms/a,b c'd.rom",
                                                 "--name", "gpu0", "--clique", "2", "01:00.0", "01:00.1"],
                                "libvirt": ["--libvirt", "01:00.0", "01:00.1", "--romfile", "/roms/<a>&'b'"],
                                "cloud": ["--cloud-hypervisor", "--segment", "1", "--guest-iommu", "01:00.0", "02:00.0"]
                                }.items():
            done = place.facet("pci", "attach", "--root", host, *arguments)
            equal((done.returncode, done.stderr), (0, ""), name)
            matches_golden(f"pci-attach-{name}.txt", done.stdout)


@test
def a_shell_reads_back_the_printed_words():
    with Place() as place:
        host = machine(place)
        rom = "/roms/it's $HOME `x` \"y\" \\ *,é"
        done = place.facet("pci", "attach", "--root", host, "--qemu", "--romfile", rom, "01:00.0")
        words = subprocess.run(["bash", "-c", f"printf '%s\\0' {done.stdout}"], capture_output=True, text=True,
                               timeout=60, check=True).stdout.split("\0")[:-1]
        arguments = place.json("pci", "attach", "--root", host, "--qemu", "--romfile", rom, "01:00.0", "--json")
        check_schema(arguments)
        equal(words, arguments["texts"])
        contains(words[-1], "romfile=" + rom.replace(",", ",,"))


@test
def options_and_functions_that_do_not_fit_are_refused():
    with Place() as place:
        host = machine(place)
        done = place.facet("pci", "attach", "--root", host, "--qemu", "--managed", "01:00.0")
        equal((done.returncode, done.stdout), (2, ""))
        contains(done.stderr, "--managed needs --libvirt")
        done = place.facet("pci", "attach", "--root", host, "--libvirt", "--iommufd", "01:00.0")
        equal((done.returncode, done.stdout), (1, ""))
        contains(done.stderr, "libvirt's version was not given")
        with open(os.path.join(host, "sys/bus/pci/devices/0000:03:00.0/class"), "w", encoding="utf-8") as file:
            file.write("0x060400\n")
        done = place.facet("pci", "attach", "--root", host, "--libvirt", "--managed", "03:00.0")
        contains(done.stderr, "'0000:03:00.0' is a bridge; expected a function behind it")


@test
def functions_without_vfio_are_warned_of_and_not_sent_to_monitors():
    with Place() as place:
        host = machine(place, **{"0000_02_00_0": "nvidia", "0000_03_00_0": None})
        done = place.facet("pci", "attach", "--root", host, "--qemu", "02:00.0", "03:00.0", "09:00.0")
        equal(done.returncode, 0)
        contains(done.stderr, "'0000:02:00.0' is driven by 'nvidia'; 'facet pci bind' gives it vfio-pci")
        contains(done.stderr, "'0000:03:00.0' has no driver")
        contains(done.stderr, "'0000:09:00.0' is not on this machine")
        with Qemu(place.path("qmp")) as qemu:
            done = place.facet("pci", "attach", "--root", host, "--qmp", qemu.path, "02:00.0")
            equal((done.returncode, qemu.log), (1, []))
            done = place.facet("pci", "attach", "--root", host, "--qmp", qemu.path, MDEV)
            equal((done.returncode, qemu.log), (1, []))
            contains(done.stderr, f"'{MDEV}' is not on this machine")
        done = place.facet("pci", "attach", "--root", host, "--libvirt", "--managed", "02:00.0")
        equal((done.returncode, done.stderr), (0, ""))


@test
def half_of_a_group_is_warned_of():
    with Place() as place:
        host = machine(place, **{"0000_01_00_1": "snd_hda_intel"})
        link = os.path.join(host, "sys/bus/pci/devices/0000:01:00.1/iommu_group")
        done = place.facet("pci", "attach", "--root", host, "--qemu", "01:00.0")
        equal((done.returncode, done.stderr), (0, ""), "another group")
        os.unlink(link)
        os.symlink("../../../../kernel/iommu_groups/10", link)
        warning = ("'0000:01:00.0': no VM can open it while 0000:01:00.1 of the same IOMMU group 10 has the host's driver "
                   "'snd_hda_intel'")
        done = place.facet("pci", "attach", "--root", host, "--qemu", "01:00.0")
        equal(done.returncode, 0)
        contains(done.stderr, warning)
        contains(place.facet("pci", "attach", "--root", host, "--libvirt", "--managed", "01:00.0").stderr, warning)
        done = place.facet("pci", "attach", "--root", host, "--libvirt", "--managed", "01:00.0", "01:00.1")
        equal((done.returncode, done.stderr), (0, ""), "libvirt takes both")


@test
def qemu_is_given_companions_first_and_gives_all_back():
    with Place() as place:
        host = machine(place)
        with Qemu(place.path("qmp")) as qemu:
            answer = place.json("pci", "attach", "--root", host, "--qmp", qemu.path, "01:00.0", "01:00.1", "02:00.0",
                                "--json")
            check_schema(answer)
            equal(answer["attached"], [
                {"address": "0000:01:00.0", "id": "facet-0000-01-00.0", "port": "rp1", "function": 0, "used": True},
                {"address": "0000:01:00.1", "id": "facet-0000-01-00.1", "port": "rp1", "function": 1, "used": True},
                {"address": "0000:02:00.0", "id": "facet-0000-02-00.0", "port": "rp2", "function": 0, "used": True}])
            added = [arguments for command, arguments in qemu.log if command == "device_add"]
            equal([arguments["host"] for arguments in added], ["0000:01:00.1", "0000:01:00.0", "0000:02:00.0"])
            equal([arguments.get("multifunction") for arguments in added], [None, True, None])
            done = place.facet("pci", "attach", "--root", host, "--qmp", qemu.path, "03:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "no root port is free")
            done = place.facet("pci", "detach", "--root", host, "--qmp", qemu.path, "01:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "'facet-0000-01-00.0' shares its slot with '/machine/peripheral/facet-0000-01-00.1'")
            done = place.facet("pci", "detach", "--root", host, "--qmp", qemu.path, "01:00.0", "01:00.1")
            equal((done.returncode, done.stdout), (0, "0000:01:00.0: out of the VM\n0000:01:00.1: out of the VM\n"))
            equal(list(qemu.devices), ["facet-0000-02-00.0"])
            answer = place.json("pci", "detach", "--root", host, "--qmp", qemu.path, "02:00.0", "--json")
            check_schema(answer)
            equal(answer, {"detached": ["0000:02:00.0"]})


@test
def a_refusal_of_qemu_names_device_and_step():
    with Place() as place:
        host = machine(place)
        with Qemu(place.path("qmp"), refuse="device_add") as qemu:
            done = place.facet("pci", "attach", "--root", host, "--qmp", qemu.path, "01:00.0", "--json")
            equal(done.returncode, 1)
            contains(done.stderr, f"QEMU on '{qemu.path}': 'facet-0000-01-00.0': device_add: QEMU refuses: not today")
            equal(json.loads(done.stdout)["error"]["code"], "bad_state")
        with Qemu(place.path("qmp"), version=(8, 2)) as qemu:
            done = place.facet("pci", "attach", "--root", host, "--qmp", qemu.path, "--iommufd", "01:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "QEMU 8.2 has no iommufd")
        with Qemu(place.path("qmp"), stubborn=True) as qemu:
            place.json("pci", "attach", "--root", host, "--qmp", qemu.path, "01:00.0", "--json")
            done = place.facet("pci", "detach", "--root", host, "--qmp", qemu.path, "--timeout", "0.3", "01:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "the guest has not given it up in time; it is still in the VM")
        done = place.facet("pci", "attach", "--root", host, "--qmp", place.path("qmp"), "01:00.0")
        equal(done.returncode, 1)
        contains(done.stderr, "cannot connect")


@test
def detach_waits_until_the_monitor_has_closed_the_device():
    with Place() as place:
        host = machine(place)
        # This process stands in for the monitor: the machine's /proc says which device nodes it has open.
        held = os.path.join(host, "proc", str(os.getpid()), "fd")
        os.makedirs(held)
        link = os.path.join(held, "7")
        with Qemu(place.path("qmp")) as qemu:
            place.json("pci", "attach", "--root", host, "--qmp", qemu.path, "02:00.0", "--json")
            os.symlink("/dev/vfio/12", link)
            started = place.start("pci", "detach", "--root", host, "--qmp", qemu.path, "02:00.0")
            wait_until(lambda: not qemu.devices, "device_del")
            threading.Event().wait(0.2)
            equal(started.poll(), None, "exit status while the node is open")
            os.unlink(link)
            output, errors = started.communicate(timeout=60)
            equal((started.returncode, output, errors), (0, "0000:02:00.0: out of the VM\n", ""))
            place.json("pci", "attach", "--root", host, "--qmp", qemu.path, "02:00.0", "--json")
            os.symlink("/dev/vfio/12", link)
            done = place.facet("pci", "detach", "--root", host, "--qmp", qemu.path, "--timeout", "0.5", "02:00.0")
            equal((done.returncode, done.stdout), (1, ""))
            contains(done.stderr, "'0000:02:00.0' is out of the VM and cannot be unbound yet: process "
                     f"{os.getpid()} still has '/dev/vfio/12' open; another function")


@test
def cloud_hypervisor_gets_all_or_nothing():
    with Place() as place:
        host = machine(place)
        with CloudHypervisor(place.path("api")) as cloud:
            answer = place.json("pci", "attach", "--root", host, f"--cloud-hypervisor={cloud.path}", "01:00.0",
                                "01:00.1", "--json")
            check_schema(answer)
            equal([row["id"] for row in answer["attached"]], ["facet-0000-01-00.0", "facet-0000-01-00.1"])
            equal(cloud.devices["facet-0000-01-00.0"]["path"], "/sys/bus/pci/devices/0000:01:00.0")
            done = place.facet("pci", "detach", "--root", host, "--cloud-hypervisor", cloud.path, "01:00.0", "01:00.1")
            equal((done.returncode, done.stderr, cloud.devices), (0, "", {}))
        with CloudHypervisor(place.path("api")) as cloud:
            # the name that Cloud Hypervisor gives to a device of its command line
            cloud.devices["_vfio0"] = {"id": "_vfio0", "path": "/sys/bus/pci/devices/0000:02:00.0/"}
            done = place.facet("pci", "detach", "--root", host, "--cloud-hypervisor", cloud.path, "02:00.0")
            equal((done.returncode, done.stderr, cloud.devices), (0, "", {}))
        with CloudHypervisor(place.path("api"), refuse=2, slow=0) as cloud:
            done = place.facet("pci", "attach", "--root", host, f"--cloud-hypervisor={cloud.path}", "01:00.0", "01:00.1")
            equal(done.returncode, 1)
            contains(done.stderr, "'facet-0000-01-00.1': vm.add-device: Cloud Hypervisor refuses (500): Error from API: "
                     "The VM could not do it")
            equal(list(cloud.tree()), [])


@test
def cloud_hypervisor_may_be_slow_wrong_or_absent():
    with Place() as place:
        host = machine(place)
        with CloudHypervisor(place.path("api"), slow=10**6) as cloud:  # never stops listing a removed device
            place.json("pci", "attach", "--root", host, f"--cloud-hypervisor={cloud.path}", "01:00.0", "--json")
            done = place.facet("pci", "detach", "--root", host, "--cloud-hypervisor", cloud.path, "--timeout", "0.5",
                               "01:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "in time")
            done = place.facet("pci", "detach", "--root", host, "--cloud-hypervisor", cloud.path, "02:00.0")
            contains(done.stderr, "'facet-0000-02-00.0': vm.remove-device: Cloud Hypervisor refuses (404): no such device")
        for info, why in ((b"nonsense", "not JSON"), ({"state": "Running"}, "expected a device_tree")):
            with CloudHypervisor(place.path("api"), info=info) as cloud:
                place.json("pci", "attach", "--root", host, f"--cloud-hypervisor={cloud.path}", "01:00.0", "--json")
                done = place.facet("pci", "detach", "--root", host, "--cloud-hypervisor", cloud.path, "01:00.0")
                equal(done.returncode, 1)
                contains(done.stderr, why)
        done = place.facet("pci", "attach", "--root", host, f"--cloud-hypervisor={place.path('api')}", "01:00.0")
        equal(done.returncode, 1)
        done = place.facet("pci", "attach", "--root", host, "--cloud-hypervisor=" + "a" * 200, "01:00.0")
        equal(done.returncode, 2)


@test
def wrong_use_is_refused():
    with Place() as place:
        host = machine(place)
        for arguments in (["attach", "01:00.0"], ["attach", "--qemu"], ["attach", "--qemu", "--libvirt", "01:00.0"],
                          ["attach", "--qemu", "1:0.0"], ["attach", "--qemu", "01:00.0", "01:00.0"],
                          ["attach", "--qemu", "--first-port", "0", "01:00.0"], ["attach", "--qemu", "--name", "a b", "01:00.0"],
                          ["attach", "--qemu", "--clique", "16", "01:00.0"], ["attach", "--qemu", "--qemu-version", "x", "01:00.0"],
                          ["attach", "--qemu", "--timeout", "0", "01:00.0"],
                          ["attach", "--qemu", "x" * 36],  # as long as the UUID of a mediated device
                          ["detach", "01:00.0"], ["detach", "--qmp", "s"], ["detach", "--qmp", "s", "--cloud-hypervisor", "s", "x"]):
            done = place.facet("pci", arguments[0], "--root", host, *arguments[1:])
            equal((done.returncode, done.stdout), (2, ""), arguments)
            lines = [line for line in done.stderr.splitlines() if "warning" not in line]
            equal(len(lines), 1, f"lines on standard error of {arguments}")
        done = place.facet("pci", "attach", "--root", host, "--libvirt", "--iommufd", "01:00.0")
        equal(done.returncode, 1)
        contains(done.stderr, "expected 12.1 or later")


@test
def a_real_qemu_refuses_a_function_that_the_host_lacks():
    if not os.access(QEMU, os.X_OK):
        raise Skip(f"{QEMU} is not installed")
    with Place() as place:
        host, socket = machine(place), place.path("qmp")
        shutil.rmtree(os.path.join(host, "proc"))
        qemu = subprocess.Popen([QEMU, "-S", "-machine", "q35", "-m", "64", "-display", "none", "-nodefaults", "-device",
                                 "pcie-root-port,id=rp1,bus=pcie.0,chassis=1,slot=1", "-qmp",
                                 f"unix:{socket},server=on,wait=off"], stdin=subprocess.DEVNULL)
        try:
            wait_until(lambda: os.path.exists(socket), "QEMU's socket")
            done = place.facet("pci", "attach", "--root", host, "--qmp", socket, "01:00.0", "01:00.1")
            equal((done.returncode, done.stdout), (1, ""))
            contains(done.stderr, "'facet-0000-01-00.1': device_add: QEMU refuses: vfio")
            done = place.facet("pci", "detach", "--root", host, "--qmp", socket, "01:00.0")
            equal(done.returncode, 1)
            contains(done.stderr, "the VM has no device 'facet-0000-01-00.0'")
        finally:
            qemu.kill()
            qemu.wait()


main()
