# SPDX-License-Identifier: Apache-2.0
"""Broken files, full disks and vanished devices: a clear error or a warning, no crash, nothing lost.

Owns: the faults of the daemon's surroundings. Never: tests wrong requests (test_refusals.py).
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from random import Random

from facetd import BUILD, Facetd, VgpuHolder, mount_small, unmount, wait_until
from tap import Skip, contains, equal, main, test


def database(daemon):
    return os.path.join(daemon.state, "facet.db")


def overwrite(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def check_refused(daemon, *fragments, **keywords):
    status, verdict, stderr = daemon.refuse(**keywords)
    equal(status, 1)
    for fragment in fragments:
        contains(verdict, fragment)
    equal(stderr.count("\n"), 1, stderr)
    equal(os.path.exists(daemon.socket), False)


@test
def a_corrupt_database_is_refused_and_kept():
    with Facetd() as daemon:
        daemon.create(name="a")
        daemon.end()
        for offset in (0, 4096):
            with open(database(daemon), "rb") as file:
                good = file.read()
            overwrite(database(daemon), offset, b"\xa5" * 4096)
            with open(database(daemon), "rb") as file:
                bad = file.read()
            check_refused(daemon, database(daemon), "restore it from a backup")
            with open(database(daemon), "rb") as file:
                equal(file.read() == bad, True, "the corrupt file is left as it was")
            with open(database(daemon), "wb") as file:
                file.write(good)
            daemon.start()
            equal(daemon.names(), ["a"])
            daemon.end()


@test
def an_empty_database_file_is_a_new_one():
    with Facetd(start=False) as daemon:
        os.makedirs(daemon.state)
        open(database(daemon), "wb").close()
        daemon.start()
        equal(daemon.names(), [])


@test
def a_corrupt_segment_is_moved_aside_and_made_anew():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a", memory_limit_bytes=4096)
        for number, (file, offset, data) in enumerate(
                (("policy", 0, b"\xff" * 64), ("usage", 0, b"\xff" * 64), ("policy", 8, b"\xff\xff\xff\xff")), 1):
            daemon.end(signal.SIGKILL)
            overwrite(os.path.join(vgpu["segment"], file), offset, data)
            daemon.start()
            again = daemon.get("/v1/vgpus/a").json
            equal((again["id"], again["memory_limit_bytes"]), (vgpu["id"], 4096))
            equal("warning" in again, False)
            equal(os.path.isdir(f"{vgpu['segment']}.corrupt-{number}"), True)
        _, log = daemon.end()
        contains(log, "moved aside")


@test
def a_segment_truncated_under_the_daemon_harms_only_its_vgpu():
    with Facetd() as daemon:
        segment = daemon.create(name="a")["segment"]
        daemon.create(name="b")
        for name in ("usage", "policy"):
            os.truncate(os.path.join(segment, name), 0)
            time.sleep(0.3)
            contains(daemon.get("/v1/vgpus/a").json["warning"], "damaged")
        equal("warning" in daemon.get("/v1/vgpus/b").json, False, "a warning about the other one")
        daemon.restart()
        equal(daemon.names(), ["a", "b"])
        equal("warning" in daemon.get("/v1/vgpus/a").json, False, "a warning after the restart")


def numbers_of(daemon, name):
    """Every measured number of a vGPU that is published, by member or metric."""
    vgpu = daemon.get(f"/v1/vgpus/{name}").json
    numbers = {member: vgpu[member] for member in (
        "memory_used_bytes", "memory_peak_bytes", "share_milli", "device_time_ns", "launches", "throttled_ns",
        "denied_allocations", "processes") if member in vgpu}
    for line in daemon.get("/metrics").text.splitlines():
        metric, _, rest = line.partition("{")
        if rest and f'name="{name}"' in rest and not any(word in metric for word in ("_state", "refused", "damaged")):
            numbers[metric] = float(rest.rpartition(" ")[2])
    return numbers


SLOT = 128  # the offset of the first slot, which begins with memory_bytes; its counters begin one cache line later
COUNTERS = {"busy": 64, "launches": 72, "throttled": 80, "denied": 88}


@test
def numbers_that_cannot_be_believed_are_absent():
    with Facetd() as daemon:
        usage = os.path.join(daemon.create(name="a", memory_limit_bytes=4096)["segment"], "usage")
        overwrite(usage, 20, struct.pack("<I", 1))  # slots_used
        overwrite(usage, SLOT + 72, struct.pack("<Q", 7))
        wait_until(lambda: "share_milli" in daemon.get("/v1/vgpus/a").json, "a share is measured")
        whole = numbers_of(daemon, "a")
        equal((whole["launches"], whole["facet_vgpu_launches_total"]), (7, 7))
        gone = {"busy": ("device_time_ns", "share_milli", "facet_vgpu_device_time_seconds_total", "facet_vgpu_share_ratio"),
                "launches": ("launches", "facet_vgpu_launches_total"),
                "throttled": ("throttled_ns", "facet_vgpu_throttled_seconds_total"),
                "denied": ("denied_allocations", "facet_vgpu_denied_allocations_total")}
        expected = set(whole)
        for counter, members in gone.items():
            overwrite(usage, SLOT + COUNTERS[counter], b"\xff" * 8)
            expected -= set(members)
            equal(set(numbers_of(daemon, "a")), expected, f"numbers once {counter} is damaged")
            contains(daemon.get("/v1/vgpus/a").json["warning"], "damaged")
        overwrite(usage, 24, b"\xff" * 8)  # the peak
        expected -= {"memory_peak_bytes", "facet_vgpu_memory_peak_bytes"}
        equal(set(numbers_of(daemon, "a")), expected)
        overwrite(usage, 0, b"\xff" * 8)
        equal({name for name in numbers_of(daemon, "a") if "limit" not in name and "request" not in name}, set(),
              "numbers of a file that is no segment any more")


def write_number(usage, offset, number):
    overwrite(usage, offset, struct.pack("<Q", number))


@test
def doubt_outlasts_the_daemon():
    with Facetd() as daemon:
        usage = os.path.join(daemon.create(name="a", memory_limit_bytes=4096)["segment"], "usage")
        overwrite(usage, 20, struct.pack("<I", 1))
        wait_until(lambda: "share_milli" in daemon.get("/v1/vgpus/a").json, "a share is measured")
        whole = set(numbers_of(daemon, "a"))
        for counter in COUNTERS:
            write_number(usage, SLOT + COUNTERS[counter], 1 << 59)
        doubted = set(numbers_of(daemon, "a"))
        equal(len(whole - doubted), 10, "what is absent of a damaged vGPU")
        for counter in COUNTERS:
            write_number(usage, SLOT + COUNTERS[counter], 1 << 58)  # another number does not end the doubt
        for number in (signal.SIGKILL, signal.SIGTERM):
            daemon.restart(number)
            time.sleep(0.3)
            equal(set(numbers_of(daemon, "a")) - doubted, set(), f"numbers that are back after {number}")
            contains(daemon.get("/v1/vgpus/a").json["warning"], "damaged")
        equal(daemon.call("DELETE", "/v1/vgpus/a").status, 200)
        daemon.create(name="a", memory_limit_bytes=4096)
        wait_until(lambda: set(numbers_of(daemon, "a")) == whole, "a vGPU made anew is believed")


@test
def damage_is_seen_that_came_while_there_was_no_daemon():
    for counter, number in (("busy", 1 << 49), ("launches", 1 << 58), ("throttled", 1 << 59), ("denied", 3)):
        with Facetd() as daemon:
            usage = os.path.join(daemon.create(name="a", memory_limit_bytes=4096)["segment"], "usage")
            overwrite(usage, 20, struct.pack("<I", 1))
            write_number(usage, SLOT + COUNTERS[counter], 7)
            wait_until(lambda: "share_milli" in daemon.get("/v1/vgpus/a").json, "a share is measured")
            whole = set(numbers_of(daemon, "a"))
            daemon.end(signal.SIGKILL)
            write_number(usage, SLOT + COUNTERS[counter], number)
            daemon.start()
            wait_until(lambda: "warning" in daemon.get("/v1/vgpus/a").json, f"{counter} is doubted")
            equal(len(whole - set(numbers_of(daemon, "a"))) >= 2, True, f"numbers that are absent for {counter}")


# Offsets in `policy`: of the quota of memory, and of the moment of settling, which measured, settled and published time
# follow; each has eight bytes.
QUOTA, SETTLED = 672, 768


@test
def no_damage_of_a_policy_without_a_daemon_is_published():
    negative, large = 2**64 - 9, 2**63 + 5
    for damage, absent in (({QUOTA: 2**64 - 5}, "memory_peak_bytes"), ({QUOTA: 8192}, "memory_peak_bytes"),
                           (dict(zip(range(SETTLED, 800, 8), (2**64 - 1, 5, negative, negative))), "device_time_ns"),
                           (dict(zip(range(SETTLED, 800, 8), [large] * 4)), "device_time_ns")):
        with Facetd() as daemon:
            segment = daemon.create(name="a", memory_limit_bytes=4096)["segment"]
            wait_until(lambda: "share_milli" in daemon.get("/v1/vgpus/a").json, "a share is measured")
            whole = numbers_of(daemon, "a")
            daemon.end(signal.SIGKILL)
            for offset, number in damage.items():
                write_number(os.path.join(segment, "policy"), offset, number)
            if QUOTA in damage:
                write_number(os.path.join(segment, "usage"), 24, 2**64 - 4096 if damage[QUOTA] > 8192 else 8000)
            for _ in range(2):
                daemon.start()
                time.sleep(0.3)
                numbers = numbers_of(daemon, "a")
                equal(absent in whole and absent not in numbers, True, f"{absent} is absent after {damage}: {numbers}")
                equal(numbers, {name: whole[name] for name in numbers}, f"the other numbers after {damage}")
                contains(daemon.get("/v1/vgpus/a").json["warning"], "destroy it and create it again")
                daemon.end(signal.SIGKILL)


@test
def numbers_of_a_segment_are_believed_after_a_restart():
    with Facetd() as daemon:
        usage = os.path.join(daemon.create(name="a", memory_limit_bytes=8192)["segment"], "usage")
        write_number(usage, 24, 8000)  # the peak of a quota that is made smaller
        equal(daemon.call("PATCH", "/v1/vgpus/a", {"memory_limit_bytes": 4096}).status, 200)
        for _ in range(2):
            equal(numbers_of(daemon, "a")["memory_peak_bytes"], 8000)
            equal("warning" in daemon.get("/v1/vgpus/a").json, False)
            daemon.restart()


@test
def numbers_just_above_their_bounds_are_absent():
    with Facetd() as daemon:
        usage = os.path.join(daemon.create(name="a", memory_limit_bytes=4096)["segment"], "usage")
        wait_until(lambda: "share_milli" in daemon.get("/v1/vgpus/a").json, "a share is measured")
        write_number(usage, 24, 4097)
        equal("memory_peak_bytes" in numbers_of(daemon, "a"), False, "a peak above the quota")
        write_number(usage, 24, 4096)
        equal(numbers_of(daemon, "a")["memory_peak_bytes"], 4096)
        overwrite(usage, 20, struct.pack("<I", 1))
        write_number(usage, SLOT + COUNTERS["busy"], 1 << 49)
        equal("device_time_ns" in numbers_of(daemon, "a"), False, "six days of a vGPU that is a second old")


def words_of(daemon, *arguments):
    done = subprocess.run([os.path.join(BUILD, "facet"), *arguments], env=daemon.environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, f"{arguments}: {done.stderr}")
    return done.stdout


def check_possible(numbers, age_ns, where):
    """The numbers of a vGPU of 4096 bytes and of this age are within their bounds."""
    threads, hour_ns = 32768, 3600 * 10**9  # the bounds of src/limiter/belief.c
    most = {"memory": 4096, "share_milli": 1000, "share_ratio": 1, "device_time_ns": age_ns,
            "device_time_seconds": age_ns / 1e9, "launches": age_ns + 10**6, "denied": age_ns + 10**6,
            "throttled_ns": threads * age_ns + hour_ns, "throttled_seconds": (threads * age_ns + hour_ns) / 1e9,
            "processes": 0, "compute": 1000}
    for name, value in numbers.items():
        bound = next(most[part] for part in most if part in name)
        equal(0 <= value <= bound, True, f"{name} is {value}, of {bound} {where}")


@test
def no_damage_makes_a_number_negative_or_more_than_can_be():
    random = Random(4711)
    with Facetd() as daemon:
        for number in range(200):
            began_ns = time.monotonic_ns()
            usage = os.path.join(daemon.create(name="a", memory_limit_bytes=4096)["segment"], "usage")
            overwrite(usage, 20, struct.pack("<I", 8))
            if number % 2:
                daemon.get("/v1/vgpus/a")
            for _ in range(random.choice((1, 2, 40))):
                # A slot has three cache lines (192 bytes) and 8 shards of 64 bytes; 8 slots are used.
                offset = random.randrange(24, SLOT + 8 * (192 + 8 * 64), 8)
                if random.randrange(2):  # where a slot's memory, regions and counters are
                    offset = SLOT + random.randrange(8) * (192 + 8 * 64) + random.choice((0, 56, 64, 72, 80, 88))
                value = random.choice((2**64 - 1, 0, 2**63, random.getrandbits(64), 1 << random.randrange(64)))
                overwrite(usage, offset, struct.pack("<Q", value))
            for _ in range(2):
                numbers = numbers_of(daemon, "a")
                check_possible(numbers, time.monotonic_ns() - began_ns, f"in round {number}")
            if number % 20 == 0:
                shown = json.loads(words_of(daemon, "vgpu", "show", "a", "--json"))
                numbers = {name: shown[name] for name in numbers if name in shown}
                check_possible(numbers, time.monotonic_ns() - began_ns, f"of the command in round {number}")
                for arguments in (("vgpu", "list"), ("vgpu", "show", "a"), ("top", "--once"), ("metrics",)):
                    words = words_of(daemon, *arguments)
                    equal([word for word in words.split() if word.startswith("-") and len(word) > 1], [],
                          f"negative words of {arguments} in round {number}")
            equal(daemon.call("DELETE", "/v1/vgpus/a").status, 200)
        equal(daemon.process.poll(), None, "the daemon's end")


@test
def a_truncated_segment_is_moved_aside_and_made_anew():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        daemon.end(signal.SIGKILL)
        os.truncate(os.path.join(vgpu["segment"], "usage"), 100)
        daemon.start()
        equal(os.path.isdir(vgpu["segment"] + ".corrupt-1"), True)
        equal(daemon.get("/v1/vgpus/a").json["memory_used_bytes"], 0)


@test
def after_a_reboot_persistent_vgpus_are_back():
    with Facetd() as daemon:
        vgpu = daemon.create(name="kept", compute_request_milli=250)
        daemon.create(name="brief", ephemeral=True)
        daemon.call("POST", "/v1/vgpus/kept/freeze")
        daemon.end(signal.SIGKILL)
        shutil.rmtree(daemon.runtime)
        daemon.start()
        wait_until(lambda: daemon.names() == ["kept"], "the ephemeral vGPU is removed")
        again = daemon.get("/v1/vgpus/kept").json
        equal((again["id"], again["state"], again["compute_request_milli"]), (vgpu["id"], "frozen", 250))
        equal(sorted(os.listdir(vgpu["segment"])), ["belief", "device", "policy", "refused", "usage"])


@test
def stray_segments_are_removed_unless_a_process_holds_them():
    with Facetd() as daemon:
        held, left = daemon.create(name="held"), daemon.create(name="left")
        daemon.end(signal.SIGKILL)
        os.unlink(database(daemon))
        for suffix in ("-wal", "-shm"):
            if os.path.exists(database(daemon) + suffix):
                os.unlink(database(daemon) + suffix)
        with VgpuHolder(held["segment"]):
            daemon.start()
            equal(daemon.names(), [])
            equal(os.path.isdir(held["segment"]), True)
            equal(os.path.isdir(left["segment"]), False)
            daemon.end(signal.SIGKILL)
        daemon.start()
        equal(os.path.isdir(held["segment"]), False)


@test
def a_device_that_has_gone_leaves_its_vgpu_waiting():
    with Facetd() as daemon:
        daemon.create(name="there")
        vgpu = daemon.create(name="away", device="test:1", memory_limit_bytes=4096)
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "1"
        daemon.start()
        waiting = daemon.get("/v1/vgpus/away").json
        contains(waiting["warning"], "test:1")
        equal("memory_used_bytes" in waiting, False, "not measured")
        equal(daemon.call("PATCH", "/v1/vgpus/away", {"priority": "high"}).error["code"], "bad_state")
        equal("facet_vgpu_processes{vgpu=\"" + vgpu["id"] in daemon.get("/metrics").text, False)
        daemon.end()
        daemon.environment["FACET_TEST_DEVICES"] = "2"
        daemon.start()
        equal("warning" in daemon.get("/v1/vgpus/away").json, False)


@test
def creating_a_vgpu_without_devices_gives_the_reason():
    with Facetd(start=False, FACET_TEST_DEVICES="0") as daemon:
        daemon.start()
        equal(daemon.get("/v1/devices").json, {"devices": []})
        answer = daemon.call("POST", "/v1/vgpus", {})
        equal((answer.status, answer.error["code"]), (501, "unsupported"))


@test
def an_unwritable_state_folder_is_refused():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    with Facetd(start=False) as daemon:
        os.chown(daemon.base, 65534, 65534)
        os.mkdir(daemon.state, 0o755)  # belongs to root
        check_refused(daemon, daemon.state, prefix=["setpriv", "--reuid", "65534", "--clear-groups"])


@test
def a_read_only_database_is_refused():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    with Facetd(start=False) as daemon:
        os.chown(daemon.base, 65534, 65534)
        user = {"prefix": ["setpriv", "--reuid", "65534", "--clear-groups"]}
        daemon.start(**user)
        daemon.create(name="a")
        daemon.end()
        os.chown(database(daemon), 0, 0)
        os.chmod(database(daemon), 0o444)
        check_refused(daemon, database(daemon), "FACET_STATE_DIR", **user)


@test
def a_file_in_the_place_of_the_socket_is_left_alone():
    with Facetd(start=False) as daemon:
        os.mkdir(daemon.runtime, 0o700)
        with open(daemon.socket, "w", encoding="ascii") as file:
            file.write("precious")
        status, verdict, _ = daemon.refuse()
        equal(status, 1)
        contains(verdict, "no socket")
        with open(daemon.socket, encoding="ascii") as file:
            equal(file.read(), "precious")


@test
def a_socket_path_that_is_too_long_is_refused():
    with Facetd(start=False) as daemon:
        status, verdict, _ = daemon.refuse("--socket", "/tmp/" + "s" * 150)
        equal(status, 1)
        contains(verdict, "at most 107")


@test
def a_runtime_folder_that_any_user_may_write_is_refused():
    with Facetd(start=False) as daemon:
        os.mkdir(daemon.runtime)
        os.chmod(daemon.runtime, 0o777)
        check_refused(daemon, daemon.runtime)


def fill(path):
    """Takes all the space on the file system."""
    with open(os.path.join(path, "filler"), "wb", buffering=0) as file:
        for size in (65536, 4096, 512):
            try:
                for _ in range(1 << 16):
                    file.write(b"x" * size)
            except OSError:
                pass


def check_full(daemon, folder, limit):
    """Creates vGPUs until the disk is full. Then all acknowledged vGPUs exist, and more can be created once it has room."""
    acknowledged, answer = [], None
    for _ in range(limit):
        answer = daemon.call("POST", "/v1/vgpus", {})
        if answer.status != 201:
            break
        acknowledged.append(answer.json["name"])
    equal((answer.status, answer.error["code"]), (507, "no_space"), answer.text)
    equal(daemon.names(), acknowledged)
    os.unlink(os.path.join(folder, "filler"))
    acknowledged.append(daemon.create()["name"])
    daemon.restart(signal.SIGKILL)
    equal(daemon.names(), acknowledged)
    ids = {vgpu["id"] for vgpu in daemon.get("/v1/vgpus").json["vgpus"]}
    equal(set(os.listdir(os.path.join(daemon.runtime, "vgpu"))), ids, "segments")


def on_small_disk(name, kib, limit):
    with Facetd(start=False) as daemon:
        folder = os.path.join(daemon.base, name)
        reason = mount_small(folder, kib)
        if reason:
            raise Skip(f"cannot mount a small tmpfs: {reason}")
        os.chmod(folder, 0o700)
        try:
            daemon.start()
            daemon.create(name="before")
            daemon.call("DELETE", "/v1/vgpus/before")
            fill(folder)
            check_full(daemon, folder, limit)
            daemon.end()
        finally:
            if daemon.process and daemon.process.poll() is None:
                daemon.end(signal.SIGKILL)
            unmount(folder)


@test
def a_full_state_folder_refuses_and_keeps_its_vgpus():
    on_small_disk("state", 512, 200)


@test
def a_full_runtime_folder_refuses_and_keeps_its_vgpus():
    on_small_disk("run", 1024, 100)


main()
