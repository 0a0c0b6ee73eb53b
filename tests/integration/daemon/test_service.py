# SPDX-License-Identifier: Apache-2.0
"""facetd as a service: its configuration file, reading it again, and the protocols of systemd.

Owns: proofs that the file's settings hold, that SIGHUP turns no caller away and loses no vGPU, and that the socket of a
service manager is served and kept. Never: needs a running systemd.
"""
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from facetd import BUILD, FACETD, PROVIDER, Facetd, VgpuHolder, read_all, wait_until
from tap import Skip, contains, equal, main, test

# Without libinih no file is read, and without libsystemd no socket is taken; meson's summary of the build says which.
HAS_INIH = os.environ["FACET_TEST_INIH"] == "1"
HAS_SYSTEMD = os.environ["FACET_TEST_SYSTEMD"] == "1"


def require(is_there, library):
    if not is_there:
        raise Skip(f"built without {library}")


class Service(Facetd):
    """A daemon whose settings are in a file; `variables` are set beside it."""

    def __init__(self, content=None, **variables):
        super().__init__(start=False, **variables)
        if "FACET_PROVIDER_PATH" not in variables:
            del self.environment["FACET_PROVIDER_PATH"]
        if content is not None:
            self.write(content)

    def write(self, content):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(content)

    def reload(self):
        """Sends SIGHUP, and waits until the daemon that answers began after that."""
        sent_ns = time.monotonic_ns()
        self.process.send_signal(signal.SIGHUP)

        def began_later():
            asked_ns = time.monotonic_ns()
            return asked_ns - self.get("/v1/health").json["uptime_ns"] > sent_ns
        wait_until(began_later, "the daemon started again")

    def devices(self):
        return [device["id"] for device in self.get("/v1/devices").json["devices"]]


@test
def settings_come_from_the_file_and_variables_go_before_it():
    require(HAS_INIH, "libinih")
    with Service(f"[facetd]\nprovider_path = {PROVIDER}\nslice_us=700 ; turns\nlog = info\n") as daemon:
        daemon.start()
        contains(daemon.devices(), "test:0")
        daemon.end()
    with Service("[facetd]\nprovider_path = /nowhere\n", FACET_PROVIDER_PATH=PROVIDER) as daemon:
        daemon.start()
        contains(daemon.devices(), "test:0")


@test
def an_empty_file_has_no_setting():
    require(HAS_INIH, "libinih")
    for content in ("", "# nothing\n\n[facetd]\n"):
        with Service(content, FACET_PROVIDER_PATH=PROVIDER) as daemon:
            daemon.start()
            contains(daemon.devices(), "test:0")


@test
def a_named_file_must_exist():
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        status, verdict, _ = daemon.refuse("--config", daemon.config + ".none")
        equal(status, 1)
        contains(verdict, "facetd.conf.none")


WRONG_FILES = (
    ("[facetd]\nslice_us = fast\n", ":2: FACET_SLICE_US 'fast': expected a whole number"),
    ("[facetd]\nparallel = 129\n", ":2: FACET_PARALLEL '129': expected 0 to 128"),
    ("[facetd]\nlog = info\nlog = debug\n", ":3: log is there twice"),
    ("[facetd]\nruntime_dir = /x\n", ":2: runtime_dir: expected one of state_dir, provider_path, log"),
    ("[facetd]\nslice = 1\n", ":2: slice: expected one of"),
    ("[facetd]\nlog =\n", ":2: log: expected a value"),
    ("[other]\nlog = info\n", ":2: section [other]: expected [facetd]"),
    ("log = info\n", ":1: section []: expected [facetd]"),
    ("[facetd]\nlog\n", ":2: expected 'name = value'"),
    (f"[facetd]\nstate_dir = /{'x' * 300}\n", ":2: a line of 313 bytes: expected at most 198"),
    ("[facetd]\n# " + 197 * "-" + "log = debug\n", ":2: a line of"),
    ("[facetd]\ngarbage\nslice_us = x\n", ":2: expected 'name = value'"),
    ("[facetd]\nprovider_path = /a\x1b[31m\n", ":2: provider_path: expected no control characters"),
    ("[facetd]\nlog = info\x00\n", " has a zero byte"),
    ("[facetd]\n\x01\xff = x\n", ":2: "),
    ("[facetd]\n" + "# x\n" * 5000, ": expected at most 16384 bytes"),
)


@test
def a_wrong_file_is_refused_with_its_line():
    require(HAS_INIH, "libinih")
    for content, said in WRONG_FILES:
        with Service(content, FACET_PROVIDER_PATH=PROVIDER) as daemon:
            status, verdict, errors = daemon.refuse()
            equal(status, 1, content)
            contains(verdict, "facetd.conf" + said)
            contains(errors, "facetd.conf" + said)


@test
def a_file_that_others_could_change_or_that_is_no_file_is_refused():
    with Service("[facetd]\n", FACET_PROVIDER_PATH=PROVIDER) as daemon:
        for mode in (0o620, 0o602):
            os.chmod(daemon.config, mode)
            status, verdict, _ = daemon.refuse()
            equal(status, 1, oct(mode))
            contains(verdict, "could be changed by other users")
        os.unlink(daemon.config)
        os.mkfifo(daemon.config)
        contains(daemon.refuse()[1], "is no regular file")


@test
def a_private_daemon_reads_no_file():
    with Service("[nonsense]\nx = y\n", FACET_PROVIDER_PATH=PROVIDER) as daemon:
        daemon.start("--private")
        contains(daemon.devices(), "test:0")


@test
def a_checked_file_is_one_that_the_daemon_takes():
    with Service("[facetd]\n", FACET_PROVIDER_PATH=PROVIDER) as daemon:
        os.chmod(daemon.config, 0o664)
        for path, said in ((daemon.config, "could be changed by other users"), (daemon.config + ".none", "No such file"),
                           ("", "No such file")):
            done = subprocess.run([os.path.join(BUILD, "facet"), "config", "--file", path], env=daemon.environment,
                                  capture_output=True, text=True, check=False)
            equal(done.returncode in (1, 2), True, path)
            contains(done.stderr, said)


class Callers:
    """Threads that call the daemon without a pause; `failures` has each call that was not answered."""

    def __init__(self, daemon, count=4):
        self.daemon, self.stopping, self.failures, self.answered = daemon, False, [], 0
        self.threads = [threading.Thread(target=self.call) for _ in range(count)]

    def call(self):
        while not self.stopping:
            try:
                equal(self.daemon.get("/v1/vgpus/kept").status, 200)
                self.answered += 1
            except Exception as error:  # each failure is reported
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()


@test
def sighup_reads_the_file_again_and_turns_no_caller_away():
    require(HAS_INIH, "libinih")
    with Service("[facetd]\nlog = info\n", FACET_PROVIDER_PATH=PROVIDER, FACET_LOG="") as daemon:
        daemon.start()
        kept = daemon.create(name="kept")
        with Callers(daemon) as callers:
            for slice_us in (500, 600, 700):
                answered = callers.answered
                daemon.write(f"[facetd]\nlog = info\nslice_us = {slice_us}\n")
                daemon.reload()
                wait_until(lambda: callers.answered > answered, "a caller is answered")
        equal(callers.failures, [])
        equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)
        with open(f"/proc/{daemon.process.pid}/environ", encoding="utf-8") as file:
            equal("FACET_SLICE_US" in file.read(), False, "the file's values are no part of the program's environment")
        now = daemon.get("/v1/vgpus/kept").json
        equal((now["id"], now["segment"]), (kept["id"], kept["segment"]))
        daemon.write("[facetd]\nslice_us = never\n")
        uptime_ns = daemon.get("/v1/health").json["uptime_ns"]
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.get("/v1/health").json["uptime_ns"] > uptime_ns + 10**9, "a second")
        status, log = daemon.end()
        equal(status, 0, log)
        contains(log, "the settings stay as they were: ")
        contains(log, "FACET_SLICE_US 'never'")
        equal(os.path.exists(daemon.socket), False, "the socket's file, after the end")


@test
def a_reload_keeps_an_ephemeral_vgpu_that_was_just_made():
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        daemon.start()
        made = daemon.create(ephemeral=True)
        daemon.reload()
        equal(daemon.get(f"/v1/vgpus/{made['id']}").status, 200)
        with VgpuHolder(made["segment"]):
            daemon.reload()
            time.sleep(2.5)  # longer than a vGPU without a holder is kept
            equal(daemon.get(f"/v1/vgpus/{made['id']}").status, 200)


@test
def silent_callers_hold_no_reload_up():
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        daemon.start()
        silent = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for number, each in enumerate(silent):
            each.connect(daemon.socket)
            each.sendall(b"POST /v1/vgpus HTTP/1.1\r\n"[:number * 12])
        daemon.reload()
        for each in silent:
            each.close()


def expect_no_reload(daemon):
    daemon.process.send_signal(signal.SIGHUP)
    uptime_ns = daemon.get("/v1/health").json["uptime_ns"]
    wait_until(lambda: daemon.get("/v1/health").json["uptime_ns"] > uptime_ns + 10**9, "a second")


@test
def a_reload_outlives_its_program_and_refuses_another_state_folder():
    require(HAS_INIH, "libinih")
    with Service("[facetd]\n", FACET_PROVIDER_PATH=PROVIDER, FACET_LIB_DIR=BUILD) as daemon:
        program = os.path.join(daemon.base, "facetd (deleted)")
        shutil.copy(FACETD, program)
        daemon.start(program=program)
        daemon.create(name="kept")
        daemon.reload()
        os.chmod(program, 0o600)
        expect_no_reload(daemon)
        os.chmod(program, 0o700)
        os.unlink(program)
        daemon.reload()
        daemon.write(f"[facetd]\nstate_dir = {daemon.base}/other\n")
        expect_no_reload(daemon)
        equal(daemon.names(), ["kept"])
        log = daemon.end()[1]
        contains(log, "state_dir is another")
        contains(log, "cannot be started again: Permission denied")
        contains(log, "cannot be started: No such file or directory; going on with the present program")


@test
def a_socket_that_is_removed_during_a_reload_is_made_again():
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        daemon.start()
        for delay_s in (0, 0.005, 0.02):
            daemon.process.send_signal(signal.SIGHUP)
            time.sleep(delay_s)
            os.unlink(daemon.socket)
            wait_until(lambda: os.path.exists(daemon.socket), "the socket is there")
            wait_until(lambda: answers(daemon), "the daemon answers")
        equal(daemon.end()[0], 0)


def answers(daemon):
    try:
        return daemon.get("/v1/health").status == 200
    except OSError:
        return False


def listen(path, kind=socket.SOCK_STREAM):
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(path)
    if kind == socket.SOCK_STREAM:
        listener.listen(16)
    return listener


def start_with_sockets(daemon, *sockets, background=False):
    """Starts the daemon as a service manager does: with the sockets on the descriptors from 3 on."""
    script = 'export LISTEN_PID=$$ LISTEN_FDS=$1; shift; exec "$@"'

    def place():
        copies = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD, 20) for one in sockets]  # beyond the wanted numbers
        for number, copy in enumerate(copies):
            os.dup2(copy, 3 + number)

    numbers = range(3, 3 + len(sockets))
    return daemon.launch(prefix=["sh", "-c", script, "sh", str(len(sockets))], preexec_fn=place, further_fds=numbers,
                         background=background)


@test
def the_socket_of_a_service_manager_is_served_and_kept():
    require(HAS_SYSTEMD, "libsystemd")
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon, listen(daemon.socket) as listener:
        identity = os.stat(daemon.socket).st_ino
        daemon.process, ready = start_with_sockets(daemon, listener)
        equal(read_all(ready), "\n")
        daemon.create(name="kept")
        daemon.reload()
        equal(daemon.names(), ["kept"])
        equal(daemon.end()[0], 0)
        equal(os.stat(daemon.socket).st_ino, identity)
        daemon.process, ready = start_with_sockets(daemon, listener)
        equal((read_all(ready), daemon.names()), ("\n", ["kept"]))


@test
def a_call_to_the_socket_starts_the_daemon():
    require(HAS_SYSTEMD, "libsystemd")
    activate = shutil.which("systemd-socket-activate")
    if not activate:
        raise Skip("no systemd-socket-activate")
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        os.makedirs(daemon.runtime, mode=0o700)
        daemon.write("")
        environment = [f"--setenv={name}={value}" for name, value in daemon.environment.items()]
        daemon.process = subprocess.Popen(
            [activate, "--listen", daemon.socket, *environment, FACETD, "--foreground", "--config", daemon.config],
            env=daemon.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: os.path.exists(daemon.socket), "the socket is there")
        equal(daemon.create(name="first")["name"], "first")
        equal(daemon.get("/v1/health").json["pid"], daemon.process.pid)


@test
def sockets_that_cannot_be_served_are_refused():
    require(HAS_SYSTEMD, "libsystemd")
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon:
        one, other = listen(daemon.socket), listen(daemon.socket + "2")
        messages = listen(daemon.socket + "3", socket.SOCK_DGRAM)
        internet = socket.socket(socket.AF_INET)
        internet.bind(("127.0.0.1", 0))
        internet.listen(1)
        idle = socket.socket(socket.AF_UNIX)
        for sockets, said in (((one, other), "passed 2 sockets: expected one"), ((messages,), "something else than"),
                              ((internet,), "something else than"), ((idle,), "something else than")):
            process, ready = start_with_sockets(daemon, *sockets)
            contains(read_all(ready), said)
            equal((process.wait(timeout=60), process.stderr.read() != ""), (1, True))
            process.stderr.close()
        for each in (one, other, messages, internet, idle):
            each.close()


@test
def a_passed_socket_is_served_in_the_foreground_only():
    require(HAS_SYSTEMD, "libsystemd")
    with Service(FACET_PROVIDER_PATH=PROVIDER) as daemon, listen(daemon.socket) as listener:
        process, ready = start_with_sockets(daemon, listener, background=True)
        contains(read_all(ready), "expected --foreground beside it")
        equal(process.wait(timeout=60), 1)
        process.stderr.close()


@test
def the_service_manager_is_told_how_the_daemon_is():
    require(HAS_SYSTEMD and HAS_INIH, "libsystemd or libinih")
    with Service("[facetd]\n", FACET_PROVIDER_PATH=PROVIDER) as daemon:
        path = os.path.join(daemon.base, "notify")
        with listen(path, socket.SOCK_DGRAM) as manager:
            manager.settimeout(60)
            daemon.environment["NOTIFY_SOCKET"] = path
            daemon.start()
            equal(manager.recv(4096), b"READY=1")
            daemon.process.send_signal(signal.SIGHUP)
            contains(manager.recv(4096).decode(), "RELOADING=1\nMONOTONIC_USEC=")
            equal(manager.recv(4096), b"READY=1")
            daemon.end()
            equal(manager.recv(4096), b"STOPPING=1")


@test
def the_units_are_right_and_confine_the_daemon():
    analyze = shutil.which("systemd-analyze")
    if not analyze:
        raise Skip("no systemd-analyze")
    with Service() as daemon:
        for unit in ("facetd.service", "facetd.socket"):
            with open(os.path.join(BUILD, "apps", "facetd", unit), encoding="utf-8") as file:
                text = file.read()
            lines = [f"ExecStart={FACETD} --foreground" if line.startswith("ExecStart=") else line
                     for line in text.splitlines() if "man:" not in line]  # the page may not be installed
            with open(os.path.join(daemon.base, unit), "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        done = subprocess.run([analyze, "verify", "--recursive-errors=no", os.path.join(daemon.base, "facetd.service"),
                               os.path.join(daemon.base, "facetd.socket")], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stderr), (0, ""))
        done = subprocess.run([analyze, "security", "--offline=true", "--threshold=40",
                               os.path.join(daemon.base, "facetd.service")], capture_output=True, text=True, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)


main()
