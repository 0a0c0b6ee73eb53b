# SPDX-License-Identifier: Apache-2.0
"""A place for each test: its own folders and environment, and the daemon that commands find there.

Owns: the files it makes and the processes it starts, which it removes and ends. Never: touches the user's own Facet.
"""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BUILD = os.environ.get("FACET_BUILD_DIR", os.path.join(SOURCE, "build"))
FACET = os.path.join(BUILD, "facet")
LAYER = "libfacet-opencl-layer.so"
DEADLINE = 30  # seconds that wait_until() waits
# Variables of fakes and sanitizers that a daemon must inherit.
INHERITED_VARIABLES = "FAKE_*,LD_LIBRARY_PATH,ASAN_OPTIONS,LSAN_OPTIONS,TSAN_OPTIONS,UBSAN_OPTIONS"


def wait_until(condition, what):
    """Polls `condition` until its value is true, and returns that value."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {DEADLINE} s in vain: {what}")


def listens(path):
    """Whether a process takes connections on a socket. Its file is there a moment earlier, when they are refused."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(path) == 0


def provider_processes(user):
    """The processes that run a provider for process `user`. Each has the number of `user` as its last argument. So has
    its supervisor, which is its parent and is left out."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")[:-1]
            if len(words) == 4 and words[0] == "facet-provider-host" and words[3] == str(user):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # a process that has just ended
            continue
    return [pid for pid, parent in parents.items() if parent in parents]


def kill_and_wait(pid):
    """Kills a process and waits for its end: until then its socket takes connections, only to reset them."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [], 60)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


class Place:
    """Without `real`, `facetd` is the stand-in of tests/fake/daemon.py, and the OpenCL layer is an empty file."""

    def __init__(self, real=False, fault=""):
        self.root = tempfile.mkdtemp(prefix="facet-test-")
        self.runtime = os.path.join(self.root, "run")
        self.lib = os.path.join(self.root, "lib")
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith("FACET_") and key not in ("OPENCL_LAYERS", "NO_COLOR", "LC_ALL", "LANG")}
        self.env.update(FACET_RUNTIME_DIR=self.runtime, FACET_STATE_DIR=os.path.join(self.root, "state"), LC_ALL="C.UTF-8",
                        TZ="UTC", FACET_KEEP_ENV=INHERITED_VARIABLES)
        if real:
            self.env["FACET_IDLE_EXIT_S"] = "1"
        else:
            self._stand_in(fault)

    def _stand_in(self, fault):
        os.mkdir(self.lib)
        daemon = os.path.join(SOURCE, "tests", "fake", "daemon.py")
        self.write("lib/facetd", f'#!/bin/sh\nexec /usr/bin/python3 "{daemon}" "$@"\n', 0o755)
        self.write(f"lib/{LAYER}", "")
        self.env.update(FACET_LIB_DIR=self.lib, FAKE_FAULT=fault)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.kill_daemon()
        finally:
            shutil.rmtree(self.root, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def exists(self, name):
        return os.path.exists(self.path(name))

    def facet(self, *arguments, stdin="", env=None, **options):
        return subprocess.run([FACET, *arguments], input=stdin, capture_output=True, text=True, timeout=60,
                              env={**self.env, **(env or {})}, cwd=self.root, check=False, **options)

    def start(self, *arguments, **options):
        return subprocess.Popen([FACET, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=self.env, cwd=self.root, **options)

    def json(self, *arguments):
        done = self.facet(*arguments)
        if done.returncode:
            raise AssertionError(f"{arguments} returned {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def log(self):
        """The lines of the stand-in's log, one for each of its actions."""
        return self.read("run/fake.log").splitlines() if self.exists("run/fake.log") else []

    def created(self):
        return [line for line in self.log() if line.startswith("create")]

    def daemon_pid(self):
        return int(self.read("run/fake.pid")) if self.exists("run/fake.pid") else None

    def kill_daemon(self):
        pid = self.daemon_pid()
        if pid is None:
            return
        kill_and_wait(pid)
        os.unlink(self.path("run/fake.pid"))
