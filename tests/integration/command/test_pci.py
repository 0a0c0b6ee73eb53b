#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet pci scan` and `show` over machines that are described in tests/fixtures/pci.

Owns: golden output (tests/golden/pci), refusals of wrong use, and the proof that no file is written and no device is
woken. Never: needs a device or a privilege.
"""
import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile

from golden import matches_golden
from place import FACET, SOURCE, Place
from tap import Skip, contains, equal, main, test

MACHINES = os.path.join(SOURCE, "tests", "fixtures", "pci")
sys.path.insert(0, MACHINES)
sys.dont_write_bytecode = True
import pci_machine  # noqa: E402

NAMES = sorted(name[:-5] for name in os.listdir(MACHINES) if name.endswith(".tree"))
DEVICES = "sys/bus/pci/devices"


@contextlib.contextmanager
def machine(name, more="", modes=True):
    """The directory of a machine, with the facts `more` added; without `modes`, every file can be read."""
    with tempfile.TemporaryDirectory(prefix="facet-pci-") as root:
        planted = pci_machine.machine_of(os.path.join(MACHINES, name + ".tree"))
        planted.read_text(more)
        if not modes:
            planted.modes.clear()
        planted.plant(root)
        try:
            yield root
        finally:
            for path in planted.modes:
                os.chmod(os.path.join(root, path), 0o700)


def scan(place, root, *options):
    return place.json("pci", "scan", "--root", root, "--json", *options)


def show(place, root, address):
    return place.json("pci", "show", address, "--root", root, "--json")


def one_of_each_model(functions):
    """The first of each set of similar functions."""
    found = {}
    for function in functions:
        address = function["address"]
        found.setdefault((function.get("device"), function.get("physical"), address[-1]), address)
    return list(found.values())


@test
def output_for_every_machine_matches_the_golden_files():
    with Place() as place:
        for name in NAMES:
            with machine(name, modes=False) as root:
                functions = scan(place, root)["functions"]
                commands = [["scan"], *[["show", address] for address in one_of_each_model(functions)]]
                text = ""
                for command in commands:
                    done = place.facet("pci", *command, "--root", root)
                    equal((done.returncode, done.stderr), (0, ""), f"{name} {command}")
                    text += f"$ facet pci {' '.join(command)}\n{done.stdout}\n"
                matches_golden(f"pci/{name}.txt", text)
                matches_golden(f"pci/{name}.json", place.facet("pci", "scan", "--json", "--root", root).stdout)


@test
def the_doctor_says_of_every_machine_what_to_mend():
    text = ""
    with Place() as place:
        for name in NAMES:
            with machine(name, modes=False) as root:
                done = place.facet("pci", "doctor", "--root", root)
                findings = json.loads(place.facet("pci", "doctor", "--root", root, "--json").stdout)
                bad = any(finding["state"] == "bad" for finding in findings)
                equal((done.returncode, done.stderr), (bad, ""), name)
                equal([finding["check"] for finding in findings if finding["state"] != "good" and not finding["advice"]],
                      [], f"{name}: findings that lack advice")
                text += f"# {name}\n$ facet pci doctor\n{done.stdout}\n"
    matches_golden("pci/doctor.txt", text)


@test
def a_probe_is_a_finding_with_advice():
    with Place() as place, machine(NAMES[0], modes=False) as root:
        done = place.facet("pci", "doctor", "--probe", "01:00.0", "--root", root, "--json")
        found = json.loads(done.stdout)[-1]
        equal((done.returncode, found["check"], found["state"]), (1, "probe", "bad"), done.stderr)
        contains(found["found"], "/dev/vfio/vfio is not there")
        equal(bool(found["advice"]), True, "advice")
        done = place.facet("pci", "doctor", "--probe", "nonsense", "--root", root)
        equal((done.returncode, done.stdout), (2, ""))
        contains(done.stderr, '--probe: "nonsense" is no PCI address')


@test
def the_doctor_finds_nothing_good_on_an_empty_host():
    with Place() as place, tempfile.TemporaryDirectory(prefix="facet-pci-") as root:
        done = place.facet("pci", "doctor", "--root", root)
        equal((done.returncode, done.stdout), (1, ""), "no sys")
        contains(done.stderr, "holds no directory sys")
        os.mkdir(os.path.join(root, "sys"))
        done = place.facet("pci", "doctor", "--root", root)
        equal([line for line in done.stdout.splitlines() if line.startswith("good")], [], "good findings")


LARGE_GROUP_FUNCTION = """
function 0000:{bus:02x}:{device:02x}.{function}
    id 10de:1f15 1043:109f 030000 a1
    config express multi
    group 1
    driver evil\u009b31m
"""


@test
def a_large_group_is_reported_by_its_first_functions_and_a_count():
    text = "".join(LARGE_GROUP_FUNCTION.format(bus=number >> 8, device=number >> 3 & 31, function=number & 7)
                   for number in range(400))
    with Place() as place, machine("no_remapping", text) as root:
        lines = place.facet("pci", "scan", "--root", root).stdout.splitlines()
        contains("\n".join(lines), "is the last GPU that can show the host's screen "
                 "(0000:00:00.0, 0000:00:00.1, 0000:00:00.2, 0000:00:00.3 and 396 more)")


@test
def control_characters_in_names_of_a_machine_are_replaced():
    with Place() as place, machine("ready", "sys/bus/pci/devices/0000:01:00.0/x absent") as root:
        device = os.path.realpath(os.path.join(root, DEVICES, "0000:01:00.0")).encode()
        with open(device + b"/driver_override", "wb") as file:
            file.write(b"x\xc2\x9b2J\xff\n")
        os.unlink(device + b"/driver")
        os.symlink(b"../drivers/vfio-pci\xc2\x9b31m", device + b"/driver")
        for command in (["scan"], ["scan", "--json"], ["show", "0000:01:00.0"], ["show", "0000:01:00.0", "--json"]):
            for locale in ("C", "C.UTF-8"):
                done = place.facet("pci", *command, "--root", root, env={"LC_ALL": locale})
                equal("\x9b" in done.stdout or "x9b" in done.stdout, False, f"{command} {done.stdout}")
                contains(done.stdout, "vfio-pci??31m")
        os.unlink(device + b"/driver")
        watch = place.start("pci", "watch", "--root", root, "--json", "--interval", "0.1", "--timeout", "3")
        watch.stderr.readline()
        os.symlink(b"../drivers/vfio-pci\xc2\x9b31m\xff", device + b"/driver")
        out, _ = watch.communicate(timeout=60)
        equal([json.loads(line).get("after") for line in out.splitlines()], ["vfio-pci??31m?"], "one change")


@test
def there_are_ten_machines_and_a_server_of_eight_gpus():
    equal(len(NAMES) >= 10, True, "at least ten")
    with Place() as place, machine("server") as root:
        functions = scan(place, root, "--all")["functions"]
        equal(len([function for function in functions if function.get("device") == "0x2330"]), 8, "H100 GPUs")
        equal(len(functions) >= 40, True, "functions of the server")


@test
def the_json_keeps_to_its_schema():
    try:
        import jsonschema
    except ImportError as missing:
        raise Skip("no python3-jsonschema") from missing
    with open(os.path.join(SOURCE, "schemas", "pci.schema.json"), encoding="utf-8") as file:
        validator = jsonschema.Draft202012Validator(json.load(file))
    with Place() as place:
        for name in NAMES:
            with machine(name) as root:
                everything = scan(place, root, "--all")
                validator.validate(everything)
                validator.validate(scan(place, root))
                for function in everything["functions"][:12]:
                    validator.validate(show(place, root, function["address"]))
        for wrong in ({}, {"host": {}, "functions": [], "platforms": []}, {"address": "1:2", "kind": "gpu"},
                      {"address": "0000:01:00.0", "kind": "gpu", "numa_node": -1}):
            equal(validator.is_valid(wrong), False, wrong)


@test
def one_function_equals_its_entry_in_the_list():
    with Place() as place:
        for name in NAMES:
            with machine(name) as root:
                for function in scan(place, root)["functions"]:
                    equal(show(place, root, function["address"]), function, function["address"])


# Errors that users meet when they pass a function through, each with a machine, one of its functions, and a part of the
# warning that `facet pci show` gives before. A scan cannot find how many mappings are left, which only an ioctl of an
# open container reports, nor a guest that does not give up a device.
WARNINGS = [
    ("the group is not viable", "desktop", "0000:22:00.0", "its interface enp33s0 is up"),
    ("unbind hangs", "laptop", "0000:01:00.0", "process 812 (nvidia-persiste) has /dev/nvidia0 open"),
    ("group used in multiple address spaces", "acs_override", "0000:02:00.0", "(qemu-system-x86) has /dev/vfio/5 open"),
    ("Unable to change power state from D3cold", "sleeping", "0000:01:00.0", "is without power (D3cold)"),
    ("BAR n: can't reserve", "laptop", "0000:00:02.0", "the host's console (efifb) is in its BAR 2"),
    ("guest sees no BAR", "sriov", "0000:3a:00.0", "its BARs take 16 GiB of the guest's address space above 4G"),
    ("works once, second start fails", "lost", "0000:02:00.0", "the kernel knows no way to reset it"),
    ("the same, with a bus reset", "acs_override", "0000:01:00.0", "only its whole bus can be reset, which hits"),
    ("the host's screen dies", "no_iommu", "0000:01:00.0", "is the last GPU that can show the host's screen"),
    ("the host's disk goes", "vmd", "10000:e1:00.0", "its disk nvme0n1p1 is in use: /"),
    ("the same, of a shared NVMe disk", "server", "0000:04:00.0", "its disk nvme0n1p2 is in use: /"),
    ("the same, of btrfs on several disks", "desktop", "0000:22:00.0", "its disk sdb is in use: btrfs 6d1a2c1e"),
]


@test
def warnings_come_before_the_errors_that_users_hit():
    with Place() as place:
        for symptom, name, address, answer in WARNINGS:
            with machine(name) as root:
                texts = [reason["text"] for reason in show(place, root, address)["passthrough"]["reasons"]]
                equal(any(answer in text for text in texts), True, f"{symptom}: {answer!r} in {texts}")


@test
def types_of_virtual_gpus_say_how_many_can_be_made_now():
    with Place() as place, machine("vgpu") as root:
        older = show(place, root, "81:00.0")["types"]
        equal([(kind["id"], kind["available"], kind["made_as"]) for kind in older],
              [("nvidia-222", 16, "mdev"), ("nvidia-230", 0, "mdev")])
        equal(show(place, root, "a1:00.4")["types"],
              [{"id": "1155", "available": 0, "made_as": "vendor", "current": True}])
        equal([(kind["name"], kind["available"]) for kind in show(place, root, "a1:00.5")["types"]],
              [("NVIDIA L40S-6Q", 1), ("NVIDIA L40S-48Q", 1)])


# ---- no write, no wake ----

# Events of inotify: IN_OPEN; IN_ACCESS; IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE and
# IN_DELETE.
OPEN, READ, CHANGES = 0x20, 0x1, 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200


class Watch:
    """The events of the files below a directory, as inotify reports them."""

    def __init__(self, root):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise Skip("no inotify")
        self.paths = {}
        for folder, _, _ in os.walk(root):
            watch = self.libc.inotify_add_watch(self.fd, folder.encode(), OPEN | READ | CHANGES)
            if watch < 0:
                raise Skip("inotify has too few watches for the machine's folders")
            self.paths[watch] = os.path.relpath(folder, root)

    def events(self):
        found = []
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return found
            while data:
                watch, mask, _, length = struct.unpack_from("iIII", data)
                name = data[16:16 + length].rstrip(b"\0").decode()
                found.append((os.path.normpath(os.path.join(self.paths.get(watch, "?"), name)), mask))
                data = data[16 + length:]

    def close(self):
        os.close(self.fd)


# Files of a function whose reading wakes it.
WAKING = ("config", "current_link_speed", "current_link_width", "max_link_width", "max_link_speed", "resource1_resize",
          "rom", "vpd")


def watched(place, root, *arguments):
    watch = Watch(root)
    done = place.facet("pci", *arguments, "--root", root)
    events = watch.events()
    watch.close()
    equal(done.returncode, 0, done.stderr)
    return events


@contextlib.contextmanager
def hanging(root, address):
    """Makes the function look as if another scan's reader of it hung in the kernel."""
    with open(os.path.join(root, DEVICES, address, "driver_override"), "rb") as override:
        fcntl.flock(override, fcntl.LOCK_EX)
        yield


@test
def a_stuck_function_is_named_and_the_others_are_whole():
    why = "is stuck: its driver, or a reset, has not returned, and keeps its lock in the kernel"
    with Place() as place, machine("laptop") as root:
        before = {function["address"]: function for function in scan(place, root)["functions"]}
        with hanging(root, "0000:01:00.0"):
            found = {function["address"]: function for function in scan(place, root)["functions"]}
            stuck = found["0000:01:00.0"]
            equal(stuck["unread"] | {"config": "stuck", "link": "stuck", "override": "stuck"}, stuck["unread"])
            equal([stuck["passthrough"]["answer"], stuck["passthrough"]["reasons"][0]["reason"]], ["no", "stuck"])
            equal(found["0000:00:02.0"], before["0000:00:02.0"], "another function")
            for verb in (["scan"], ["show", "01:00.0"], ["doctor"], ["plan", "01:00.0"]):
                contains(place.facet("pci", *verb, "--root", root).stdout, why)
            state = place.facet("pci", "state", "--root", root)
            contains(state.stderr, f"0000:01:00.0 {why}")
            equal([line.split()[3] for line in state.stdout.splitlines() if line.startswith("0000:01:00.0")], ["stuck"])
        equal({function["address"]: function for function in scan(place, root)["functions"]}, before)


@test
def a_scan_writes_nothing():
    with Place() as place:
        for name in NAMES:
            with machine(name) as root:
                events = watched(place, root, "scan", "--all")
                equal([event for event in events if event[1] & CHANGES], [], name)
                seen = any(event[1] & OPEN and event[0].endswith("/vendor") for event in events)
                equal(seen, name != "arm_soc", f"the watch sees which files of {name} are read")


@test
def a_sleeping_function_is_not_woken():
    asleep = ("0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
    with Place() as place, machine("sleeping") as root:
        for arguments in (["scan"], ["scan", "--all"], ["show", "0000:01:00.0"]):
            opened = {event[0] for event in watched(place, root, *arguments) if event[1] & OPEN}
            woken = [path for path in opened if tuple(path.split("/")[-2:]) in set(itertools.product(asleep, WAKING))]
            equal(woken, [], arguments)
            awake = "sys/devices/pci0000:00/0000:00:04.0/0000:04:00.0/config"
            equal(awake in opened, True, "the watch sees that the config of an awake function is read")
        unread = show(place, root, "0000:03:00.0")["unread"]
        equal((unread["config"], unread["link"], unread["resize"]), ("asleep", "asleep", "asleep"))


# ---- rights ----

def drop_rights():
    """Drops CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, so that file modes hold for root, too."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (1, 2):
            if libc.prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "prctl")


def without_rights(place, *arguments):
    try:
        done = subprocess.run([FACET, "pci", *arguments, "--json"], capture_output=True, text=True, timeout=60,
                              env=place.env, check=False, preexec_fn=drop_rights)
    except subprocess.SubprocessError as error:
        raise Skip("rights cannot be given up here") from error
    return done.returncode, json.loads(done.stdout)


@test
def without_permission_to_read_the_answer_is_never_yes():
    with Place() as place, machine("unprivileged") as root:
        status, answer = without_rights(place, "scan", "--root", root)
        equal(status, 0)
        for function in answer["functions"]:
            equal(function["unread"], {"config": "permission", "holders": "permission"})
            equal(function["passthrough"]["answer"] in ("unknown", "no"), True)
        contains(json.dumps(answer), "whether the host's console is in its memory is not known")
        contains(json.dumps(answer), "holders could not be read: permission")


@test
def unreadable_values_say_so():
    directory = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    more = "\n".join(f"{directory}/{name} mode 0000" for name in ("vendor", "config", "resource", "reset_method"))
    with Place() as place, machine("ready", more) as root:
        _, answer = without_rights(place, "show", "0000:01:00.0", "--root", root)
        equal(answer["unread"], {"identity": "permission", "config": "permission", "bars": "permission",
                                 "reset": "permission"})
        equal(answer["passthrough"]["answer"], "unknown")
    with Place() as place, machine("ready", f"{DEVICES} mode 0000") as root:
        status, answer = without_rights(place, "scan", "--root", root)
        equal((status, answer["error"]["code"]), (1, "permission"))
    with Place() as place, machine("ready", f"{directory} mode 0000") as root:
        _, answer = without_rights(place, "show", "0000:01:00.0", "--root", root)
        equal((answer["unread"]["identity"], answer["passthrough"]["answer"]), ("permission", "unknown"))


# ---- errors and other inputs ----

@test
def wrong_use_is_refused():
    with Place() as place, machine("ready") as root:
        for status, text, arguments in (
                (2, "is no PCI address", ["show", "gpu0"]),
                (2, "is no PCI address", ["show", "0000:01:00.8"]),
                (2, "is no PCI address", ["show", "0000:01:20.0"]),
                (2, "is no PCI address", ["show", " 0000:01:00.0"]),
                (1, "there is no PCI function 0000:05:00.0", ["show", "0000:05:00.0"]),
                (1, "nowhere", ["scan", "--root", os.path.join(root, "nowhere")]),
                (1, "holds no directory sys", ["scan", "--root", os.path.join(root, "dev")]),
                (2, "", ["show"]),
                (2, "", ["scan", "more"])):
            root_option = [] if "--root" in arguments else ["--root", root]
            done = place.facet("pci", arguments[0], *root_option, *arguments[1:])
            equal((done.returncode, done.stdout), (status, ""), str(arguments))
            contains(done.stderr, text)


@test
def a_scan_of_this_machine_lists_its_functions():
    with Place() as place:
        done = place.facet("pci", "scan", "--all", "--json")
        equal((done.returncode, done.stderr), (0, ""))
        listed = sorted(os.listdir("/" + DEVICES)) if os.path.isdir("/" + DEVICES) else []
        equal([function["address"] for function in json.loads(done.stdout)["functions"]], listed)


@test
def a_broken_list_of_names_costs_only_the_names():
    for more in ("usr/share/misc/pci.ids = no list", "usr/share/misc/pci.ids fifo", "usr/share/misc/pci.ids /",
                 "usr/share/misc/pci.ids -> /proc/self/environ"):
        with Place() as place, machine("ready", "usr/share/misc/pci.ids absent\n" + more) as root:
            function = show(place, root, "0000:01:00.0")
            equal(("device_name" in function, function["device"], function["passthrough"]["answer"]),
                  (False, "0x1e07", "yes"), more)


def without_names(document):
    for function in document["functions"]:
        for name in ("vendor_name", "device_name", "subsystem_name"):
            function.pop(name, None)
    return document


@test
def a_recorded_machine_is_scanned_like_the_machine_itself():
    recorder = os.path.join(SOURCE, "tools", "record-pci")
    with Place() as place:
        for name in NAMES:
            with machine(name, modes=False) as root, tempfile.TemporaryDirectory(prefix="facet-pci-") as again:
                done = subprocess.run([recorder, root], capture_output=True, text=True, timeout=60, check=False)
                equal((done.returncode, done.stderr), (0, ""), name)
                if name == "hostile":
                    continue  # for this machine the recorder only has to succeed
                copy = pci_machine.Machine()
                copy.read_text(done.stdout)
                copy.plant(again)
                equal(without_names(scan(place, again, "--all")), without_names(scan(place, root, "--all")), name)


@test
def a_line_that_is_not_understood_is_named():
    for text in ("a b c", "function 0000:01:00.0\n    driver", "function x\n", "use nothing-like-it", "path : zz"):
        try:
            pci_machine.Machine(MACHINES).read_text(text)
        except (pci_machine.InvalidLine, OSError) as error:
            contains(str(error), "text:" if isinstance(error, pci_machine.InvalidLine) else "nothing-like-it")
        else:
            raise AssertionError(f"{text!r} was accepted")


main()
