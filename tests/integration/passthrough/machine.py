# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with an IOMMU and emulated devices, in which the tree's real programs are checked.

Owns: one QEMU, its folder and its deadline. Never: leaves QEMU or folder behind, or needs more than a gigabyte.

    Machine(devices=["edu,addr=04.0", "pcie-root-port,id=port1,..."],
            modules=["vfio-pci"],
            script="events.sh",                   # runs inside, with lib.sh before it; its checks are what TAP shows
            checks=12,                            # how many checks the script makes
            actions={"plug": [plug("edu", "hot", "port1")]}).main()     # made from outside, at the script's "mark plug"
"""
import ctypes
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kernel as kernels
from initramfs import Initramfs
from qmp import Qmp
from report import Report

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("FACET_BUILD_DIR", kernels.SOURCE / "build"))
PROGRAMS = BUILD / "tests" / "integration" / "passthrough"
QEMU = "qemu-system-x86_64"
BUSYBOX = "/bin/busybox"
PCI_IDS = "/usr/share/misc/pci.ids"
USUAL_MODULES = ["vfio-pci", "vfio_iommu_type1"]
# On a busy host an emulated machine may wait long, which its kernel must not take for a broken timer. With programs at
# the same addresses in each process (norandmaps), QEMU need not translate their code again for each process.
KERNEL_ARGUMENTS = ("console=ttyS0 loglevel=3 panic=-1 random.trust_cpu=on intel_iommu=on iommu=nopt "
                    "no_timer_check nowatchdog rcupdate.rcu_cpu_stall_suppress=1 norandmaps cryptomgr.notests")
CONSOLE_TAIL = 30
START_S = 20  # the time that QEMU needs to start and to end


def _end_with_parent():
    """Runs in QEMU before it starts: QEMU ends when the test is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Machine:
    def __init__(self, devices, script, checks, modules=(), actions=None, programs=(), files=None,
                 memory_mib=384, deadline_s=180):
        self._devices, self._script, self._checks = devices, script, checks
        self._modules, self._actions = [*USUAL_MODULES, *modules], actions or {}
        self._programs, self._files = programs, files or {}
        self._memory_mib, self._deadline_s = memory_mib, deadline_s
        self._folder = self._process = self._report = self._qmp = self._kernel = None
        self._end = 0.0

    @property
    def monitor(self):
        """A second monitor socket, for a tested program, as a socket of QEMU's serves one client at a time."""
        return self._folder / "monitor"

    # --- requirements

    def _missing_part(self):
        """Why the machine cannot run here, or None. Sets the kernel."""
        if platform.machine() != "x86_64":
            return f"these tests emulate x86_64 on x86_64 only, and this machine is {platform.machine()}"
        if not shutil.which(QEMU):
            return f"there is no {QEMU}"
        if not os.access(BUSYBOX, os.X_OK) or subprocess.run(["ldd", BUSYBOX], capture_output=True,
                                                             check=False).returncode == 0:
            return f"there is no {BUSYBOX} that is linked statically"
        for program in self._programs:
            if not shutil.which(program):
                return f"there is no {program}"
        for source in self._files.values():
            if not os.path.exists(source):
                return f"there is no {source}"
        self._kernel, reason = kernels.find(self._modules)
        return reason

    def _initramfs(self):
        inside = Initramfs()
        inside.add_file("/init", HERE / "init.sh", 0o755)
        inside.add_file("/bin/busybox", BUSYBOX, 0o755)
        inside.add_file("/lib.sh", HERE / "lib.sh")
        inside.add_file("/check.sh", HERE / self._script)
        inside.add_program("/bin/facet", BUILD / "facet")
        if os.path.exists(PCI_IDS):
            inside.add_file(PCI_IDS, PCI_IDS)
        inside.add_program("/bin/passthrough-guest", PROGRAMS / "passthrough-guest")
        for program in self._programs:
            inside.add_program(shutil.which(program), shutil.which(program))  # it finds its parts by its own path
        for path, source in self._files.items():
            inside.add_file(path, source, 0o755)
        for number, name in enumerate(self._kernel.order(self._modules)):
            inside.add(f"/modules/{number:02}-{name}.ko", self._kernel.read(name))
        return inside.archive()

    def _command(self):
        devices = [word for device in self._devices
                   for word in (["-drive", device[6:]] if device.startswith("drive:") else ["-device", device])]
        return [QEMU, "-accel", "tcg", "-machine", "q35,kernel-irqchip=split", "-cpu", "max", "-smp", "1",
                "-m", str(self._memory_mib), "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-kernel", str(self._kernel.unpacked(PROGRAMS)), "-initrd", str(self._folder / "initramfs"),
                "-append", KERNEL_ARGUMENTS,
                "-device", "intel-iommu,intremap=on,caching-mode=on", *devices,
                "-serial", f"file:{self._folder / 'console'}", "-serial", f"unix:{self._folder / 'report'}",
                "-qmp", f"unix:{self._folder / 'qmp'},server=on,wait=off",
                "-qmp", f"unix:{self.monitor},server=on,wait=off"]

    # --- running

    def _act(self, mark):
        if mark not in self._actions:
            raise AssertionError(f"the guest prints mark {mark}, for which this test has no action")
        self._qmp = self._qmp or Qmp(self._folder / "qmp")
        for action in self._actions[mark]:
            action(self._qmp)

    def _take(self, text):
        """Handles all complete lines of `text`; returns the remainder."""
        *lines, rest = text.split(b"\n")
        for line in lines:
            mark = self._report.take(line.rstrip(b"\r").decode("utf-8", "replace"))
            sys.stdout.flush()
            if mark:
                self._act(mark)
        return rest

    def _seconds_left(self):
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"after {self._deadline_s} s the guest was still running")
        return left

    def _follow(self, listener):
        """Handles the guest's lines until QEMU closes the port by which the guest reports, at QEMU's end. At its end the
        guest waits for an answer before it switches itself off: QEMU must not end while an action talks to it."""
        rest = b""
        listener.settimeout(START_S)
        port = listener.accept()[0]
        with port:
            while True:
                port.settimeout(self._seconds_left())
                text = port.recv(65536)
                if not text:
                    break
                rest = self._take(rest + text)
                if self._report.ended:
                    port.sendall(b"\n")
        self._take(rest + b"\n")
        self._process.wait(START_S)

    def _console(self):
        """The last lines of the guest's kernel and of QEMU, which may tell why a guest stopped."""
        texts = []
        for name in ("console", "errors"):
            path = self._folder / name
            texts += path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(f"{line}" for line in texts[-CONSOLE_TAIL:])

    def _stop(self):
        if self._qmp:
            self._qmp.close()
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _boot(self):
        (self._folder / "initramfs").write_bytes(self._initramfs())
        self._end = time.monotonic() + self._deadline_s
        with open(self._folder / "errors", "wb") as errors, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._folder / "report"))
            listener.listen(1)
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                             preexec_fn=_end_with_parent)
            self._follow(listener)

    def _try(self):
        """Runs the machine; returns its fault or None. Failed checks are in the report."""
        try:
            self._boot()
        except (AssertionError, LookupError, OSError, subprocess.TimeoutExpired) as caught:
            return f"{type(caught).__name__}: {caught}\n{self._console()}"
        finally:
            self._stop()
        return None if self._report.ended else f"the guest stopped before its end\n{self._console()}"

    def run(self):
        started = time.monotonic()
        self._report = Report(self._checks)
        with tempfile.TemporaryDirectory(prefix="facet-vm-") as folder:
            self._folder = Path(folder)
            good = self._report.finish(self._try())
        print(f"# kernel {self._kernel.version}, {time.monotonic() - started:.1f} s", flush=True)
        return good

    def main(self):
        reason = self._missing_part()
        if reason:
            print(f"1..0 # SKIP {reason}")
            sys.exit(0)
        sys.exit(0 if self.run() else 1)
