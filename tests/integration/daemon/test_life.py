# SPDX-License-Identifier: Apache-2.0
"""How a daemon starts, stops and survives a kill, what two daemons do, and when an idle one leaves.

Owns: the beginning and the end of the daemon. Never: asserts how long anything takes, only that it happens.
"""
import os
import shutil
import signal
import subprocess
import threading

from facetd import FACETD, Facetd, VgpuHolder, read_all, wait_until
from place import provider_processes
from simulated import Simulated
from tap import contains, equal, main, test


@test
def help_and_version_need_no_folders():
    for option, text in (("--help", "usage: facetd"), ("--version", "facetd ")):
        result = subprocess.run([FACETD, option], env={}, capture_output=True, text=True, check=False)
        equal((result.returncode, result.stderr), (0, ""))
        contains(result.stdout, text)


@test
def wrong_usage_is_exit_status_2():
    for arguments in (["--what"], ["more"], ["--socket", "relative"], ["--ready-fd", "x"], ["--ready-fd", "99"]):
        result = subprocess.run([FACETD, *arguments], env={}, capture_output=True, text=True, check=False)
        equal(result.returncode, 2, " ".join(arguments))
        contains(result.stderr, "facetd")


@test
def a_malformed_setting_is_refused_by_name():
    with Facetd(start=False, FACET_IDLE_EXIT_S="soon") as daemon:
        status, verdict, stderr = daemon.refuse()
        equal(status, 1)
        contains(verdict, "FACET_IDLE_EXIT_S")
        contains(stderr, "soon")


@test
def an_unknown_variable_is_reported_once():
    with Facetd(FACET_IDLE_EXIT="5") as daemon:
        daemon.get("/v1/health")
        status, log = daemon.end()
        equal(status, 0)
        equal(log.count("FACET_IDLE_EXIT is no variable of Facet"), 1, log)
    with Facetd() as daemon:
        equal("no variable of Facet" in daemon.end()[1], False)


@test
def a_stop_keeps_vgpus_and_their_segments():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Facetd() as daemon:
            vgpu = daemon.create(name="a", compute_request_milli=300)
            status, _ = daemon.end(number)
            equal(status, 0)
            equal(os.path.exists(daemon.socket), False)
            equal(os.path.exists(vgpu["segment"]), True)
            daemon.start()
            again = daemon.get("/v1/vgpus/a").json
            equal((again["id"], again["created_ns"]), (vgpu["id"], vgpu["created_ns"]))


def lasting_values(daemon):
    """The values that a restart may not change. A share is left out, as it is measured anew."""
    return [{key: value for key, value in vgpu.items() if key != "share_milli"}
            for vgpu in daemon.get("/v1/vgpus").json["vgpus"]]


@test
def kill_9_loses_no_vgpu():
    with Facetd() as daemon:
        for number in range(5):
            daemon.create(name=f"v{number}", compute_request_milli=100 + number, memory_limit_bytes=1000 + number)
        daemon.call("POST", "/v1/vgpus/v2/freeze")
        daemon.call("PATCH", "/v1/vgpus/v3", {"memory_limit_bytes": 77})
        daemon.call("DELETE", "/v1/vgpus/v4")
        before = lasting_values(daemon)
        daemon.restart(signal.SIGKILL)
        equal(lasting_values(daemon), before)
        equal(daemon.get("/v1/vgpus/v2").json["state"], "frozen")


@test
def kill_9_in_the_middle_of_creating_loses_nothing_acknowledged():
    with Facetd() as daemon:
        acknowledged = []
        for _ in range(4):
            def create():
                try:
                    for _ in range(1000):
                        acknowledged.append(daemon.create()["name"])
                except (OSError, AssertionError, Exception):  # the daemon is gone: the acknowledged changes count
                    return
            count = len(acknowledged)
            worker = threading.Thread(target=create)
            worker.start()
            wait_until(lambda: len(acknowledged) >= count + 3, "some vGPUs are created")
            daemon.end(signal.SIGKILL)
            worker.join()
            daemon.start()
            missing = set(acknowledged) - set(daemon.names())
            equal(missing, set(), "acknowledged and lost")
            segments = set(os.listdir(os.path.join(daemon.runtime, "vgpu")))
            equal(segments, {vgpu["id"] for vgpu in daemon.get("/v1/vgpus").json["vgpus"]}, "segments")


@test
def an_ephemeral_vgpu_in_use_survives_kill_9():
    with Facetd() as daemon:
        vgpu = daemon.create(name="held", ephemeral=True)
        with VgpuHolder(vgpu["segment"]):
            daemon.create(name="unheld", ephemeral=True)
            daemon.restart(signal.SIGKILL)
            contains(daemon.names(), "held")
            wait_until(lambda: daemon.names() == ["held"], "the vGPU without a holder is removed")
        wait_until(lambda: daemon.names() == [], "the vGPU is removed after its holder")


@test
def a_stale_socket_is_replaced():
    with Facetd() as daemon:
        daemon.end(signal.SIGKILL)
        equal(os.path.exists(daemon.socket), True)
        daemon.start()
        equal(daemon.get("/v1/health").status, 200)


@test
def a_removed_socket_is_bound_again():
    with Facetd() as daemon:
        daemon.create(name="a")
        for _ in range(2):
            os.unlink(daemon.socket)
            wait_until(lambda: os.path.exists(daemon.socket), "the socket comes back")
            equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)
            equal(daemon.names(), ["a"])
        equal(os.stat(daemon.socket).st_mode & 0o777, 0o600)
        status, log = daemon.end()
        equal((status, log.count("the socket was removed; it is bound again")), (0, 2))
        equal(os.path.exists(daemon.socket), False)


@test
def a_caller_finds_the_daemon_whose_socket_was_removed():
    with Facetd() as daemon:
        os.unlink(daemon.socket)
        status, verdict, _ = daemon.refuse("--private")
        equal((status, verdict), (0, "\n"), "the second daemon gives way")
        equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)


@test
def a_removed_runtime_folder_ends_the_daemon_and_the_next_makes_it():
    with Facetd() as daemon:
        vgpu = daemon.create(name="a")
        shutil.rmtree(daemon.runtime)
        _, log = daemon.process.communicate(timeout=60)
        equal(daemon.process.returncode, 1)
        contains(log, f"files in '{daemon.runtime}' were removed")
        daemon.start()
        equal(daemon.get("/v1/vgpus/a").json["id"], vgpu["id"])
        equal(os.path.exists(vgpu["segment"]), True, "its segment")


@test
def a_file_put_in_the_place_of_the_socket_is_left_alone():
    with Facetd() as daemon:
        aside = daemon.socket + ".new"
        with open(aside, "w", encoding="ascii") as file:
            file.write("precious")
        os.rename(aside, daemon.socket)
        _, log = daemon.process.communicate(timeout=60)
        equal(daemon.process.returncode, 1)
        contains(log, "is no socket")
        with open(daemon.socket, encoding="ascii") as file:
            equal(file.read(), "precious")


@test
def a_state_folder_that_cannot_be_made_names_its_setting():
    with Facetd(start=False) as daemon:
        with open(os.path.join(daemon.base, "file"), "w", encoding="ascii"):
            pass
        daemon.environment["FACET_STATE_DIR"] = os.path.join(daemon.base, "file", "state")
        status, verdict, _ = daemon.refuse()
        equal(status, 1)
        contains(verdict, "FACET_STATE_DIR chooses another folder")


@test
def a_second_daemon_is_refused():
    with Facetd() as daemon:
        status, verdict, stderr = daemon.refuse()
        equal(status, 1)
        contains(verdict, f"process {daemon.process.pid}")
        equal(stderr.count("\n"), 1, stderr)
        equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)


@test
def a_second_private_daemon_gives_way():
    with Facetd() as daemon:
        status, verdict, stderr = daemon.refuse("--private")
        equal((status, verdict, stderr), (0, "\n", ""))
        equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)


@test
def of_many_private_daemons_one_serves():
    with Facetd(start=False) as daemon:
        started = [daemon.launch("--private") for _ in range(8)]
        verdicts = [read_all(ready) for _, ready in started]
        equal(verdicts, ["\n"] * 8)
        pid = daemon.get("/v1/health").json["pid"]
        for process, _ in started:
            if process.pid == pid:
                daemon.process = process
            else:
                equal(process.wait(timeout=60), 0)
                process.stderr.close()
        equal(daemon.process is not None, True)


@test
def two_daemons_cannot_share_a_state_folder():
    with Facetd() as daemon, Facetd(start=False) as other:
        other.environment["FACET_STATE_DIR"] = daemon.state
        status, verdict, _ = other.refuse()
        equal(status, 1)
        contains(verdict, "another facetd has it")
        daemon.create(name="a")


@test
def the_background_daemon_answers_when_the_starter_returns():
    with Facetd(start=False) as daemon:
        result = subprocess.run([FACETD], env=daemon.environment, capture_output=True, text=True, timeout=60,
                                check=False)
        equal((result.returncode, result.stdout, result.stderr), (0, "", ""))
        pid = daemon.get("/v1/health").json["pid"]
        try:
            equal(os.getsid(pid), pid, "a session of its own")
            equal(os.readlink(f"/proc/{pid}/fd/0"), "/dev/null")
            equal(os.readlink(f"/proc/{pid}/fd/2"), os.path.join(daemon.runtime, "facetd.log"))
        finally:
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe") or has_ended(pid), "it ends")


def has_ended(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


@test
def the_background_daemon_tells_why_it_did_not_start():
    with Facetd(start=False) as daemon:
        os.mkdir(daemon.state)
        with open(os.path.join(daemon.state, "facet.db"), "w", encoding="ascii") as file:
            file.write("no database" * 1000)
        result = subprocess.run([FACETD], env=daemon.environment, capture_output=True, text=True, timeout=60,
                                check=False)
        equal(result.returncode, 1)
        contains(result.stderr, "facet.db")


def variables_of_providers(daemon):
    """The names of the variables of each process that runs a provider for the daemon."""
    found = []
    for pid in provider_processes(daemon.process.pid):
        with open(f"/proc/{pid}/environ", encoding="utf-8") as file:
            found.append({entry.split("=", 1)[0] for entry in file.read().split("\0") if entry})
    return found


@test
def a_tenants_variables_reach_no_provider_of_the_daemon():
    """A daemon of a tenant's environment would otherwise run its own providers within that tenant's limits."""
    tenants = {"OPENCL_LAYERS": "/some/layer.so", "FACET_VGPU_DIR": "/somewhere"}
    with Simulated(FACET_LOG="info", **tenants) as daemon:
        daemon.create(device="sim:0", mode="hard", compute_request_milli=500)
        wait_until(lambda: variables_of_providers(daemon), "a process runs a provider")
        for names in variables_of_providers(daemon):
            equal(names & set(tenants), set(), "variables of the tenant")
            equal("FACET_LOG" in names, True, "a variable that is passed on")


@test
def a_private_daemon_leaves_when_there_is_nothing_to_do():
    with Facetd(start=False, FACET_IDLE_EXIT_S="1") as daemon:
        daemon.start("--private")
        daemon.create(name="kept")
        vgpu = daemon.create(name="brief", ephemeral=True)
        equal(daemon.process.wait(timeout=60), 0)
        equal(os.path.exists(daemon.socket), False)
        equal(os.path.exists(daemon.socket + ".leaving"), False)
        equal(os.path.exists(vgpu["segment"]), False)
        daemon.process.stderr.close()
        daemon.start("--private")
        equal(daemon.names(), ["kept"])


@test
def a_private_daemon_stays_while_a_vgpu_is_in_use():
    with Facetd(start=False, FACET_IDLE_EXIT_S="1") as daemon:
        daemon.start("--private")
        vgpu = daemon.create(name="held", ephemeral=True)
        with VgpuHolder(vgpu["segment"]):
            try:
                daemon.process.wait(timeout=4)
                raise AssertionError("it left")
            except subprocess.TimeoutExpired:
                equal(daemon.names(), ["held"])
        equal(daemon.process.wait(timeout=60), 0)
        daemon.process.stderr.close()


@test
def a_daemon_that_ends_refuses_no_call():
    """Callers come again and again, with gaps in which a daemon may leave. That daemon or the next answers each call."""
    with Facetd(start=False, FACET_IDLE_EXIT_S="1") as daemon:
        processes = []
        for round_number in range(4):
            process, ready = daemon.launch("--private")
            processes.append(process)
            equal(read_all(ready), "\n")
            equal(daemon.get("/v1/health").status, 200, f"round {round_number}")
            subprocess.run(["sleep", "1.3"], check=True)
        for process in processes:
            process.terminate()
            process.communicate(timeout=60)


main()
