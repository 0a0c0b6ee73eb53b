# SPDX-License-Identifier: Apache-2.0
"""A facetd in folders of its own, and calls to it.

Owns: starting, stopping and killing the daemon under test, and HTTP over a Unix socket.
Never: uses the folders or the daemon of the user who runs the tests.
"""
import ctypes
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "command"))

BUILD = os.environ["FACET_BUILD_DIR"]
SOURCE = os.environ["FACET_SOURCE_DIR"]
FACETD = os.path.join(BUILD, "facetd")
PROVIDER = os.environ["FACET_TEST_PROVIDER"]

DEADLINE_S = 60  # the longest wait for an event that must happen: a machine may be slow, but no test may hang


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"did not happen in {DEADLINE_S} s: {what}")
        time.sleep(0.02)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("facet", timeout=DEADLINE_S)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(DEADLINE_S)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, text):
        self.status, self.headers, self.text = status, headers, text

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def error(self):
        return self.json["error"]


class Facetd:
    """Folders for one daemon. A `with` statement starts the daemon (unless `start` is false), and in the end kills it
    and removes the folders."""

    def __init__(self, base=None, start=True, **environment):
        self.base = base or tempfile.mkdtemp(prefix="facetd-")
        self.owns_base = base is None
        self.runtime = os.path.join(self.base, "run")
        self.state = os.path.join(self.base, "state")
        self.socket = os.path.join(self.runtime, "facetd.sock")
        self.config = os.path.join(self.base, "facetd.conf")
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.base, "FACET_RUNTIME_DIR": self.runtime,
            "FACET_STATE_DIR": self.state, "FACET_PROVIDER_PATH": PROVIDER, "FACET_LOG": "info", **environment}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        self.process = None
        self.wants_start = start

    def __enter__(self):
        if self.wants_start:
            self.start()
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.owns_base:
            shutil.rmtree(self.base, ignore_errors=True)

    def launch(self, *arguments, prefix=(), further_fds=(), program=FACETD, background=False, **keywords):
        """Starts a foreground facetd; returns it and the descriptor on which it writes its verdict: a line break once
        it is ready, or the reason why it does not start."""
        if not os.path.exists(self.config):  # a named file must exist
            os.close(os.open(self.config, os.O_CREAT | os.O_RDWR, 0o644))
        read_end, low_end = os.pipe()
        write_end = fcntl.fcntl(low_end, fcntl.F_DUPFD_CLOEXEC, 20)  # the first numbers may be for sockets
        os.close(low_end)
        process = subprocess.Popen(
            [*prefix, program, *([] if background else ["--foreground"]), "--config", self.config, "--ready-fd",
             str(write_end), *arguments], env=self.environment, pass_fds=[write_end, *further_fds],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **keywords)
        os.close(write_end)
        return process, read_end

    def start(self, *arguments, **keywords):
        self.process, ready = self.launch(*arguments, **keywords)
        verdict = read_all(ready)
        if verdict != "\n":
            raise AssertionError(f"facetd did not start: {verdict!r} {self.process.communicate()[1]}")
        return self

    def refuse(self, *arguments, **keywords):
        """Starts a facetd that must not come up; returns its exit status, its verdict and its standard error."""
        process, ready = self.launch(*arguments, **keywords)
        verdict = read_all(ready)
        stderr = process.communicate(timeout=DEADLINE_S)[1]
        return process.returncode, verdict, stderr

    def end(self, number=signal.SIGTERM):
        """Ends the daemon with a signal; returns its exit status and its log."""
        self.process.send_signal(number)
        stderr = self.process.communicate(timeout=DEADLINE_S)[1]
        return self.process.returncode, stderr

    def restart(self, number=signal.SIGKILL):
        self.end(number)
        return self.start()

    def call(self, method, path, body=None, headers=None):
        connection = UnixConnection(self.socket)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        try:
            try:
                connection.request(method, path, body, headers or {})
            except BrokenPipeError:
                pass  # the daemon refused the headers, answered and closed while the body was still being sent
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read().decode())
        finally:
            connection.close()

    def get(self, path):
        return self.call("GET", path)

    def create(self, **members):
        answer = self.call("POST", "/v1/vgpus", members)
        if answer.status != 201:
            raise AssertionError(answer.text)
        return answer.json

    def names(self):
        return [vgpu["name"] for vgpu in self.get("/v1/vgpus").json["vgpus"]]


def read_all(fd):
    with os.fdopen(fd) as pipe:
        return pipe.read()


class VgpuHolder:
    """Keeps a vGPU as `facet run` does, by a lock on the first byte of its usage file. A process locks a later byte:
    that of its slot."""

    def __init__(self, segment, byte=0):
        self.fd = os.open(os.path.join(segment, "usage"), os.O_RDWR | os.O_CLOEXEC)
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        # 37 is F_OFD_SETLK on Linux, which older releases of Python do not name.
        fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK if hasattr(fcntl, "F_OFD_SETLK") else 37, lock)

    def release(self):
        os.close(self.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()


def mount_small(path, kib):
    """Mounts a tmpfs of `kib` KiB, which only root can; returns the reason if that fails. It is in this process's mount
    namespace, as another one would need a helper program."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(path, exist_ok=True)
    if libc.mount(b"tmpfs", path.encode(), b"tmpfs", 0, f"size={kib}k".encode()) != 0:
        return os.strerror(ctypes.get_errno())
    return None


def unmount(path):
    ctypes.CDLL(None).umount2(path.encode(), 2)  # MNT_DETACH
