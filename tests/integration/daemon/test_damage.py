# SPDX-License-Identifier: Apache-2.0
"""Segments that were damaged while no daemon ran: the processes that live in them are not forgotten.

Owns: damage with living processes. Never: tests damage of unused segments, or of single numbers (test_faults.py).
"""
import os
import signal
import struct
import subprocess

from facetd import BUILD, Facetd, VgpuHolder, wait_until
from tap import contains, equal, main, test

# Offsets: of the first slot in `usage`, and of the version in `policy` and `usage`. Then the bytes that a tenant holds.
SLOT, VERSION_AT, MEMORY = 128, 8, 1 << 20
NUMBERS = ("memory_used_bytes", "memory_peak_bytes", "share_milli", "device_time_ns", "launches", "throttled_ns",
           "denied_allocations", "processes")


def overwrite(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def facet(daemon, *arguments):
    return subprocess.run([os.path.join(BUILD, "facet"), *arguments], env=daemon.environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)


def metrics_of(daemon, name):
    lines = [line for line in daemon.get("/metrics").text.splitlines() if f'name="{name}"' in line]
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if "_state" not in line}


class Tenant:
    """A process in the first slot of a segment, which holds memory."""

    def __init__(self, segment):
        usage = os.path.join(segment, "usage")
        self.lock = VgpuHolder(segment, 1)
        overwrite(usage, SLOT + 28, struct.pack("<I", os.getpid()))
        overwrite(usage, SLOT, struct.pack("<Q", MEMORY))
        overwrite(usage, 24, struct.pack("<Q", MEMORY))  # memory_peak_bytes
        overwrite(usage, 20, struct.pack("<I", 1))  # slots_used

    def end(self):
        self.lock.release()


def overwrite_randomly(path):
    overwrite(path, 0, os.urandom(832))  # the size of the file `policy`


def write_other_id(path):
    overwrite(path, 24, b"another")  # in the vGPU's id


def create_with_tenant(daemon):
    vgpu = daemon.create(name="a", memory_limit_bytes=4 * MEMORY)
    tenant = Tenant(vgpu["segment"])
    wait_until(lambda: daemon.get("/v1/vgpus/a").json.get("memory_used_bytes") == MEMORY, "the tenant is seen")
    return vgpu["segment"], tenant


def check_not_entered(daemon, advice, what):
    if os.path.exists(os.path.join(BUILD, "libfacet-opencl-layer.so")):  # without it, 'facet run' starts nothing
        done = facet(daemon, "run", "--vgpu", "a", "--", "echo", "entered")
        equal((done.returncode, done.stdout), (1, ""), what)
        contains(done.stderr, advice)


def check_damaged_vgpu_is_kept(daemon, segment, what):
    vgpu = daemon.get("/v1/vgpus/a").json
    equal([name for name in NUMBERS if name in vgpu], [], f"numbers that are published with {what}")
    contains(vgpu["warning"], "its segment was damaged from outside")
    equal(vgpu["state"], "running", what)
    metrics = metrics_of(daemon, "a")
    equal({name for name in metrics if "limit" not in name and "request" not in name}, {"facet_vgpu_damaged"}, what)
    equal(metrics["facet_vgpu_damaged"], 1, what)
    contains(facet(daemon, "vgpu", "list").stderr, "a: its segment was damaged from outside")
    contains(facet(daemon, "vgpu", "show", "a").stdout, "its segment was damaged from outside")
    equal([name for name in os.listdir(os.path.dirname(segment)) if "corrupt" in name], [], what)
    check_not_entered(daemon, "end them, or destroy the vGPU", what)
    for method, path, body in (("PATCH", "/v1/vgpus/a", {"memory_limit_bytes": 2 * MEMORY}),
                               ("POST", "/v1/vgpus/a/freeze", None)):
        answer = daemon.call(method, path, body)
        equal((answer.status, answer.error["code"]), (409, "bad_state"), f"{method} with {what}")


@test
def a_damaged_segment_with_processes_in_it_is_kept_until_they_are_gone():
    for name, damage in (("policy", overwrite_randomly), ("usage", overwrite_randomly), ("policy", write_other_id),
                         ("policy", os.unlink), ("policy", lambda path: os.truncate(path, 0)),
                         ("usage", lambda path: os.truncate(path, 0))):
        with Facetd() as daemon:
            segment, tenant = create_with_tenant(daemon)
            daemon.end(signal.SIGKILL)
            damage(os.path.join(segment, name))
            what = f"damage of {name}"
            for _ in range(2):
                daemon.start()
                check_damaged_vgpu_is_kept(daemon, segment, what)
                daemon.end(signal.SIGKILL)
            daemon.start()
            answer = daemon.call("DELETE", "/v1/vgpus/a")
            equal((answer.status, answer.error["code"]), (409, "busy"), f"DELETE with {what}")
            tenant.end()
            wait_until(lambda: daemon.get("/v1/vgpus/a").json.get("memory_used_bytes") == 0, f"it is made anew, {what}")
            equal("warning" in daemon.get("/v1/vgpus/a").json, False, what)
            equal(metrics_of(daemon, "a")["facet_vgpu_damaged"], 0, what)
            equal(os.path.isdir(segment + ".corrupt-1"), True, what)


@test
def a_segment_of_another_release_with_processes_in_it_is_no_damage():
    with Facetd() as daemon:
        segment, tenant = create_with_tenant(daemon)
        daemon.end(signal.SIGKILL)
        for name in ("policy", "usage"):
            overwrite(os.path.join(segment, name), VERSION_AT, struct.pack("<I", 1))
        daemon.start()
        contains(daemon.get("/v1/vgpus/a").json["warning"], "its segment is of another release of Facet")
        check_not_entered(daemon, "end them, or destroy the vGPU", "another release")
        tenant.end()
        wait_until(lambda: daemon.get("/v1/vgpus/a").json.get("memory_used_bytes") == 0, "it is made anew")


@test
def a_vgpu_that_a_living_daemon_sees_damaged_is_not_entered():
    for name, damage in (("policy", overwrite_randomly), ("usage", lambda path: os.truncate(path, 0))):
        with Facetd() as daemon:
            damage(os.path.join(daemon.create(name="a")["segment"], name))
            check_not_entered(daemon, "a: its segment was damaged from outside; destroy it and create it again", name)


@test
def a_damaged_segment_is_removed_by_force_and_its_quota_becomes_zero():
    with Facetd() as daemon:
        segment, tenant = create_with_tenant(daemon)
        with open(os.path.join(segment, "policy"), "rb") as policy:
            daemon.end(signal.SIGKILL)
            write_other_id(os.path.join(segment, "policy"))
            daemon.start()
            equal(daemon.call("DELETE", "/v1/vgpus/a?force=1").status, 200)
            equal(os.path.exists(segment), False)
            policy.seek(672)  # memory_limit_bytes
            equal(struct.unpack("<Q", policy.read(8)), (0,), "the quota of the processes that stay")
        tenant.end()


@test
def a_damaged_ephemeral_vgpu_is_removed_after_its_last_process():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a", memory_limit_bytes=4 * MEMORY, ephemeral=True)
        tenant = Tenant(vgpu["segment"])
        daemon.end(signal.SIGKILL)
        overwrite_randomly(os.path.join(vgpu["segment"], "policy"))
        daemon.start()
        contains(daemon.get("/v1/vgpus/a").json["warning"], "damaged")
        tenant.end()
        wait_until(lambda: daemon.names() == [], "it goes")


def remove_file(path):
    os.unlink(path)


def replace_by_folder(path):
    os.unlink(path)
    os.mkdir(path)


@test
def a_damaged_file_belief_loses_no_process():
    for damage in (remove_file, replace_by_folder, overwrite_randomly, lambda path: os.truncate(path, 20)):
        with Facetd() as daemon:
            segment, tenant = create_with_tenant(daemon)
            daemon.end(signal.SIGKILL)
            damage(os.path.join(segment, "belief"))
            for _ in range(2):
                daemon.start()
                vgpu = daemon.get("/v1/vgpus/a").json
                equal((vgpu.get("memory_used_bytes"), vgpu.get("processes")), (MEMORY, 1), damage.__name__)
                equal([name for name in NUMBERS if name in vgpu], ["memory_used_bytes", "processes"], damage.__name__)
                contains(vgpu["warning"], "its segment was damaged from outside; destroy it and create it again")
                daemon.end(signal.SIGKILL)
            daemon.start()
            tenant.end()
            equal(daemon.call("DELETE", "/v1/vgpus/a").status, 200)
            equal(os.listdir(os.path.dirname(segment)), [], damage.__name__)


@test
def a_peak_below_the_memory_in_use_is_absent():
    with Facetd() as daemon:
        segment, tenant = create_with_tenant(daemon)
        usage = os.path.join(segment, "usage")
        overwrite(usage, 24, struct.pack("<Q", 4096))  # memory_peak_bytes
        for _ in range(2):
            vgpu = daemon.get("/v1/vgpus/a").json
            equal((vgpu["memory_used_bytes"], "memory_peak_bytes" in vgpu), (MEMORY, False))
            equal("facet_vgpu_memory_peak_bytes" in metrics_of(daemon, "a"), False)
            contains(vgpu["warning"], "damaged")
            daemon.restart()
        tenant.end()


@test
def a_process_that_cuts_its_files_disturbs_no_other_vgpu():
    with Facetd() as daemon:
        segment, tenant = create_with_tenant(daemon)
        other = daemon.create(name="b")["segment"]
        for name in ("device", "refused", "usage"):
            os.truncate(os.path.join(other, name), 0)
        wait_until(lambda: "damaged" in daemon.get("/v1/vgpus/b").json.get("warning", ""), "the damage is seen")
        for _ in range(2):
            vgpu = daemon.get("/v1/vgpus/a").json
            equal((vgpu["memory_used_bytes"], vgpu["processes"], vgpu.get("warning")), (MEMORY, 1, None))
            overwrite(os.path.join(segment, "usage"), SLOT, struct.pack("<Q", 2 * MEMORY))
            wait_until(lambda: daemon.get("/v1/vgpus/a").json["memory_used_bytes"] == 2 * MEMORY, "new numbers")
            overwrite(os.path.join(segment, "usage"), SLOT, struct.pack("<Q", MEMORY))
            daemon.restart()
        tenant.end()


@test
def files_that_a_process_makes_longer_are_cut():
    with Facetd() as daemon:
        segment, tenant = create_with_tenant(daemon)
        sizes = {name: os.path.getsize(os.path.join(segment, name)) for name in ("usage", "refused")}
        for name, most in (("usage", sizes["usage"]), ("refused", 4096 * 512)):
            path = os.path.join(segment, name)
            os.truncate(path, 1 << 30)
            wait_until(lambda: os.path.getsize(path) <= most, f"{name} is cut")
        vgpu = daemon.get("/v1/vgpus/a").json
        equal((vgpu["memory_used_bytes"], vgpu["processes"]), (MEMORY, 1))
        tenant.end()


@test
def what_is_no_record_of_a_refused_process_is_not_counted():
    with Facetd() as daemon:
        segment = daemon.create(name="a")["segment"]
        refused = os.path.join(segment, "refused")
        for content in (os.urandom(1000), bytes(50 << 20), b"x" * 1024, os.urandom(512 * 3)):
            with open(refused, "wb") as file:
                file.write(content)
            vgpu = daemon.get("/v1/vgpus/a").json
            equal("refused_processes" in vgpu, False, f"{len(content)} bytes")
            contains(vgpu["warning"], "was damaged from outside")
            equal("facet_vgpu_refused_processes_total" in metrics_of(daemon, "a"), False, f"{len(content)} bytes")
        os.unlink(refused)
        equal(daemon.get("/v1/vgpus/a").json["refused_processes"], 0)


main()
