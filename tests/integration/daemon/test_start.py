#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The settings that a private daemon inherits from the shell that happened to start it, and the warnings about them."""
import contextlib
import ctypes
import json
import os
import pwd
import re
import resource
import signal
import subprocess

from facetd import BUILD, PROVIDER
from place import FACET, Place, listens, wait_until
from tap import Skip, contains, equal, main, test

# Variables that a private daemon takes from the shell that starts it.
INHERITED = {"HOME", "LOGNAME", "USER", "TZ", "PATH", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"}
# Variables of the shell that a private daemon drops.
DROPPED = {"LD_LIBRARY_PATH": "/nowhere", "OCL_ICD_VENDORS": "/nowhere", "CUDA_VISIBLE_DEVICES": "", "FACET_TEST_DEVICES": "0",
          "FACET_VGPU_NAME": "x", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "BASH_ENV": "/nowhere",
          "LD_PRELOAD": "libm.so.6"}


KEEP_ADVICE = "FACET_KEEP_ENV=LD_LIBRARY_PATH keeps it"


class Shell(Place):
    """A shell whose commands start the real daemon. Its provider hides devices by FACET_TEST_DEVICES, a variable that
    Facet does not know."""

    def __init__(self, provider=PROVIDER):
        super().__init__(real=True)
        self.env.update(FACET_PROVIDER_PATH=provider, FACET_IDLE_EXIT_S="30",
                        FACET_KEEP_ENV=self.env["FACET_KEEP_ENV"].replace("LD_LIBRARY_PATH,", ""))
        for name in ("LD_LIBRARY_PATH", "OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "LD_PRELOAD"):
            self.env.pop(name, None)

    def daemon_pid(self):
        try:
            return int(self.read("run/facetd.lock"))
        except (FileNotFoundError, ValueError):
            return None

    def kill_daemon(self):
        pid = self.daemon_pid()
        if pid and os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(ProcessLookupError):  # the daemon may be leaving
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon ends")

    def read_proc(self, name):
        with open(f"/proc/{self.daemon_pid()}/{name}", encoding="utf-8") as file:
            return file.read()

    def limits(self):
        """The daemon's resource limits by name, each as (soft, hard)."""
        return {line[:26].strip(): tuple(line[26:].split()[:2]) for line in self.read_proc("limits").splitlines()[1:]}


def ignore_in_kernel(number):
    """Ignores a signal by the system call, as the C library's function refuses the two signals that it uses itself."""
    libc = ctypes.CDLL(None, use_errno=True)
    action = (ctypes.c_ulong * 16)(1)  # the kernel's struct sigaction: SIG_IGN, and zeros
    call = {"x86_64": 13, "aarch64": 134, "riscv64": 134}[os.uname().machine]
    equal(libc.syscall(call, number, action, None, ctypes.c_size_t(8)), 0, f"ignoring signal {number}")


def device_ids(place, **options):
    return [device["id"] for device in json.loads(place.facet("devices", "--json", **options).stdout)["devices"]]


@test
def a_private_daemon_has_a_known_environment():
    with Shell() as place:
        equal(place.facet("vgpu", "list", env=DROPPED).returncode, 0)
        has = dict(entry.split("=", 1) for entry in place.read_proc("environ").split("\0") if entry)
        extra = {name for name in has if name not in INHERITED and name not in place.env}
        equal(extra, set(), "variables that neither the test nor the shell set")
        equal(set(has) & set(DROPPED), set(), "variables of the shell that started the daemon")
        equal(has["FACET_STATE_DIR"], place.env["FACET_STATE_DIR"])
        equal(place.env["PATH"] == has["PATH"] or has["PATH"].startswith("/usr/local/sbin:"), True)


@test
def a_private_daemon_knows_its_user():
    with Shell() as place:
        given = {"LOGNAME": "someone", "USER": "someone", "TZ": "Europe/Berlin", "XDG_STATE_HOME": place.path("state"),
                 "XDG_RUNTIME_DIR": place.path("session"), "FACET_LOG": "warning"}
        equal(place.facet("vgpu", "list", env=given).returncode, 0)
        has = dict(entry.split("=", 1) for entry in place.read_proc("environ").split("\0") if entry)
        equal({name: has.get(name) for name in given}, given)


@test
def a_device_hidden_from_one_shell_is_visible_to_the_daemon():
    with Shell() as place:
        for words in (("devices",), ("provider", "list")):
            contains(place.facet(*words, env=DROPPED).stdout, "test")
        equal(device_ids(place, env=DROPPED), ["test:0", "test:1"])
        equal(place.facet("vgpu", "create", "--name", "a", env=DROPPED).returncode, 0)
        equal(place.facet("vgpu", "create", "--name", "b", "-d", "test:1").returncode, 0)
        equal(json.loads(place.facet("provider", "list", "--json", env=DROPPED).stdout)["providers"][0]["devices"], 2)


@test
def folders_that_cannot_be_written_are_no_folders_of_the_daemon():
    with Shell() as place:
        wrong = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache"}
        equal(place.facet("vgpu", "list", env=wrong).returncode, 0)
        has = dict(entry.split("=", 1) for entry in place.read_proc("environ").split("\0") if entry)
        equal(("XDG_CACHE_HOME" in has, has.get("HOME")), (False, pwd.getpwuid(os.getuid()).pw_dir))
        place.kill_daemon()
        right = {"HOME": place.root, "XDG_CACHE_HOME": place.path("made/later")}
        equal(place.facet("vgpu", "list", env=right).returncode, 0)
        has = dict(entry.split("=", 1) for entry in place.read_proc("environ").split("\0") if entry)
        equal({name: has.get(name) for name in right}, right)


@test
def kernel_run_lists_only_devices_that_its_shell_sees():
    with Shell() as place:
        done = place.facet("kernel", "run", "-d", "test:1", "nothing.cl", env={"FACET_TEST_DEVICES": "1"})
        contains(done.stderr, "device 'test:1': expected one of test:0")


@test
def a_variable_that_is_named_is_kept():
    with Shell() as place:
        for names in ("FACET_TEST_DEVICES", "A,FACET_TEST_*", "FACET_TEST_DEVICES,B"):
            equal(device_ids(place, env={"FACET_TEST_DEVICES": "1", "FACET_KEEP_ENV": names}), ["test:0"], names)
        for names in ("FACET_TEST_DEVICE", "FACET_TEST_DEVICES_", "A", ""):
            equal(device_ids(place, env={"FACET_TEST_DEVICES": "1", "FACET_KEEP_ENV": names}), ["test:0", "test:1"],
                  names)
        for names in ("*FACET_TEST_DEVICES", "A, B", "A;B", "7A", "A*B"):
            done = place.facet("devices", env={"FACET_KEEP_ENV": names})
            equal(done.returncode, 2, names)
            contains(done.stderr, f"FACET_KEEP_ENV '{names}': expected names of variables")
        done = place.facet("vgpu", "create", "-d", "test:1", env={"FACET_TEST_DEVICES": "1", "FACET_KEEP_ENV":
                                                                  "FACET_TEST_*"})
        contains(done.stderr, "device 'test:1': expected one of test:0")


@test
def a_missing_device_is_explained_by_the_variables_that_differ():
    with Shell(f"{PROVIDER}:{BUILD}/facet-provider-sim.so") as place:
        equal(place.facet("vgpu", "list").returncode, 0)
        done = place.facet("vgpu", "create", "-d", "sim:0", env={"FACET_SIM_PROFILE": "h100"})
        equal(done.returncode, 2)
        contains(done.stderr, f"the daemon (process {place.daemon_pid()}) was started with other values of "
                              "FACET_SIM_PROFILE: end it, or choose another FACET_RUNTIME_DIR")
        equal(len(done.stderr.splitlines()), 1)
        done = place.facet("place", "--slot", "sim.device=1", env={"FACET_SIM_PROFILE": "h100"})
        contains(done.stderr, "no device of this node has it; the daemon (process ")
        done = place.facet("run", "-d", "sim:0", "true")
        equal("other values" in done.stderr, False, done.stderr)
        place.kill_daemon()
        equal(place.facet("vgpu", "create", "-d", "sim:0", env={"FACET_SIM_PROFILE": "h100"}).returncode, 0)
        contains(place.facet("vgpu", "create", "-d", "test:7").stderr, "other values of FACET_SIM_PROFILE")
        done = place.facet("vgpu", "create", "-d", "test:7", env={"FACET_SIM_PROFILE": "h100", "OCL_ICD_VENDORS": "/x"})
        contains(done.stderr, "without this shell's OCL_ICD_VENDORS; FACET_KEEP_ENV=OCL_ICD_VENDORS keeps it")


@test
def a_daemon_with_only_simulated_devices_gives_way_to_another_shell():
    sim = {"FACET_PROVIDER_PATH": f"{BUILD}/facet-provider-sim.so", "FACET_SIM_PROFILE": "h100"}
    with Shell() as place:
        equal(device_ids(place), ["test:0", "test:1"])
        equal(place.facet("vgpu", "create", "--name", "a", "-m", "4K").returncode, 0)
        place.kill_daemon()
        contains(place.facet("vgpu", "list", env=sim).stdout, "a ")
        wait_until(lambda: not place.daemon_pid() or not os.path.exists(f"/proc/{place.daemon_pid()}"), "it leaves")
        done = place.facet("vgpu", "create", "--name", "b", "-m", "4K")
        equal((done.returncode, done.stderr), (0, ""))
        equal(place.json("vgpu", "show", "b", "--json")["device"], "test:0")


@test
def a_command_warns_of_a_daemon_with_other_devices():
    sim = {"FACET_PROVIDER_PATH": f"{BUILD}/facet-provider-sim.so", "FACET_SIM_PROFILE": "h100"}
    with Shell() as place:
        equal(place.facet("vgpu", "create", "--name", "a", "-m", "1G", env=sim).returncode, 0)
        told = f"the daemon (process {place.daemon_pid()}) was started with other values of FACET_PROVIDER_PATH"
        for words in (("vgpu", "create", "--name", "b", "-m", "64M"), ("vgpu", "create", "--name", "c", "-d", "sim:0"),
                      ("vgpu", "create", "--name", "d", "-m", "9999G"), ("run", "-m", "64M", "--", "true"),
                      ("place", "--slot", "sim.device=0.1"), ("place", "--slot", "sim.device=99"),
                      ("place", "--slot", "sim.device=0.1", "--dry-run")):
            contains(place.facet(*words).stderr, told)
            equal("other values" in place.facet(*words, env=sim).stderr, False, f"{words} of the shell that started it")
        for words in (("vgpu", "list"), ("vgpu", "show", "a"), ("vgpu", "create", "--name", "a")):
            equal("other values" in place.facet(*words).stderr, False, f"{words} chooses no device")


@test
def a_command_warns_of_a_variable_that_only_one_of_two_shells_keeps():
    with Shell() as place:
        keeps = {"FACET_KEEP_ENV": f"{place.env['FACET_KEEP_ENV']},FACET_TEST_DEVICES", "FACET_TEST_DEVICES": "1"}
        equal(place.facet("vgpu", "list", env=keeps).returncode, 0)
        for env in ({}, {"FACET_TEST_DEVICES": "1"}, {**keeps, "FACET_TEST_DEVICES": "2"}):
            contains(place.facet("vgpu", "create", env=env).stderr, "FACET_TEST_DEVICES: end it, or choose")
        equal(place.facet("vgpu", "create", env=keeps).stderr, "")


@test
def the_device_list_names_a_driver_that_only_this_shell_finds():
    rocm = os.path.join(BUILD, "facet-provider-rocm.so")
    if not os.path.exists(rocm):
        raise Skip("this build has no provider rocm")
    with Shell(f"{PROVIDER}:{rocm}") as place:
        os.mkdir(place.path("driver"))
        hidden = {"LD_LIBRARY_PATH": f"/nowhere:{place.path('driver')}", "FACET_ROCM_ROOT": place.path("driver")}
        kept = f"drivers are opened without this shell's LD_LIBRARY_PATH; {KEEP_ADVICE}"
        for words in (("devices",), ("provider", "list")):
            equal(kept in place.facet(*words, env=hidden).stderr, False, "no driver is there")
        contains(place.facet("devices", "sim:7", env=hidden).stderr, kept)
        contains(place.facet("spec", "show", "-d", "sim:7", env=hidden).stderr, kept)
        place.write("driver/libamdhip64.so.6", "")
        for words in (("devices",), ("provider", "list")):
            done = place.facet(*words, env=hidden)
            contains(done.stderr, f"provider rocm finds no device: {kept}")
            equal(len(done.stderr.splitlines()), 1, done.stderr)
            done = place.facet(*words, env={**hidden, "FACET_KEEP_ENV": f"{place.env['FACET_KEEP_ENV']},LD_LIBRARY_PATH"})
            equal("without this shell's" in done.stderr, False, done.stderr)
    with Shell(rocm) as place:
        contains(place.facet("devices", env={**hidden, "LD_LIBRARY_PATH": "/nowhere"}).stderr, kept)


@test
def soft_limits_of_one_shell_are_not_the_daemons():
    def lower():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    with Shell() as place:
        place.facet("vgpu", "list", preexec_fn=lower)
        limits = place.limits()
        for name in ("Max address space", "Max file size", "Max data size", "Max processes", "Max cpu time"):
            equal(limits[name][0], limits[name][1], name)
        soft, hard = limits["Max open files"]
        equal(soft in (hard, "65536"), True, limits["Max open files"])
        equal(place.facet("vgpu", "create").returncode, 0)


@test
def a_shell_whose_hard_limits_are_too_low_starts_no_daemon():
    def lower():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    with Shell() as place:
        done = place.facet("vgpu", "list", preexec_fn=lower)
        if done.returncode == 0:  # a privileged daemon may raise hard limits, and has done so
            equal(place.limits()["Max address space"], ("unlimited", "unlimited"))
            return
        contains(done.stderr, "the address space is limited to 400 MiB here (ulimit -Hv)")
        contains(done.stderr, "expected at least 4 GiB")
        equal(place.facet("vgpu", "create", "--name", "a").returncode, 0, "a shell without that limit starts a daemon")
        contains(place.facet("vgpu", "list", preexec_fn=lower).stdout, "a")
        place.facet("vgpu", "destroy", "a")


def process_settings(pid):
    """The settings of a process that lower_own_priorities() changes: nice value, scheduling classes of processor and
    disk, out-of-memory score, timer slack, personality."""
    libc = ctypes.CDLL(None, use_errno=True)
    ioprio_get = {"x86_64": 252, "aarch64": 31, "riscv64": 31}[os.uname().machine]

    def read(name):
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
            return file.read().strip()
    return {"nice": os.getpriority(os.PRIO_PROCESS, pid), "policy": os.sched_getscheduler(pid),
            "oom": int(read("oom_score_adj")), "slack": read("timerslack_ns"), "personality": read("personality"),
            "disk": libc.syscall(ioprio_get, 1, pid)}


def lower_own_priorities():
    libc = ctypes.CDLL(None, use_errno=True)
    ioprio_set = {"x86_64": 251, "aarch64": 30, "riscv64": 30}[os.uname().machine]
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    os.nice(5)
    with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("300")
    libc.prctl(29, ctypes.c_ulong(7000000), 0, 0, 0)  # PR_SET_TIMERSLACK
    libc.personality(0x0040000)  # ADDR_NO_RANDOMIZE
    libc.syscall(ioprio_set, 1, 0, 3 << 13)  # the class IOPRIO_CLASS_IDLE for this process


LOWERED_NICE = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)


def may_undo_nice():
    """Whether processes of this test may lower a nice value that was raised."""
    child = os.fork()
    if child == 0:
        try:
            os.nice(5)
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        except PermissionError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@test
def process_settings_of_one_shell_are_not_the_daemons():
    with Shell() as place:
        equal(place.facet("vgpu", "list", preexec_fn=lower_own_priorities).returncode, 0)
        got = process_settings(place.daemon_pid())
        # Undoing a nice value or an out-of-memory score needs a privilege, which the daemon may lack.
        equal(got["nice"], 0 if may_undo_nice() else LOWERED_NICE, "the nice value")
        reset = {name: value for name, value in got.items() if name not in ("nice", "oom")}
        equal(reset, {"policy": os.SCHED_OTHER, "slack": "50000", "personality": "00000000", "disk": 0})
        log = place.read("run/facetd.log")
        for name, kept, words in (("nice", LOWERED_NICE, f"a nice value of {LOWERED_NICE}"),
                                  ("oom", 300, "an oom_score_adj of 300")):
            equal(got[name] in (0, kept), True, got)
            equal(words in log, got[name] == kept, log)


@test
def limits_that_a_daemon_may_not_undo_are_in_its_log():
    def limit():
        libc = ctypes.CDLL(None)
        for capability in (23, 24):  # PR_CAPBSET_DROP of CAP_SYS_NICE, CAP_SYS_RESOURCE; fails if unprivileged
            libc.prctl(24, capability, 0, 0, 0)
        libc.prctl(38, ctypes.c_ulong(1), 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
        resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
        os.nice(5)
    with Shell() as place:
        equal(place.facet("vgpu", "list", preexec_fn=limit).returncode, 0)
        log = place.read("run/facetd.log")
        contains(log, "warning: this daemon cannot undo settings of the shell that started it: a nice value of "
                      f"{LOWERED_NICE}")
        contains(log, "no_new_privs, so that no helper of a driver (nvidia-modprobe) has rights of its own")
    with Shell() as place:
        equal(place.facet("vgpu", "list").returncode, 0)
        if os.getpriority(os.PRIO_PROCESS, 0) <= 0:
            equal("a nice value" in place.read("run/facetd.log"), False)


def forbid_files():
    """Limits files to 0 bytes. Without CAP_SYS_RESOURCE not even root can raise the limit again."""
    ctypes.CDLL(None).prctl(24, 24, 0, 0, 0)  # PR_CAPBSET_DROP of CAP_SYS_RESOURCE; fails if unprivileged
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


@test
def files_that_may_not_be_written_are_reported_and_end_no_process():
    with Shell() as place:
        done = place.facet("vgpu", "list", preexec_fn=forbid_files)
        contains(done.stderr, "the size of files is limited to 0 B here (ulimit -Hf)")
        equal(done.returncode, 1, done.stderr)
        with open(place.path("out"), "wb") as out, open(place.path("error"), "wb") as error:
            for words, status in ((["vgpu", "list"], 1), (["nonsense"], 2)):
                done = subprocess.run([FACET, *words], env=place.env, stdout=out, stderr=error, preexec_fn=forbid_files,
                                      timeout=60)
                equal(done.returncode, status, words)
            for words in (["--nonsense"], ["--foreground"]):
                done = subprocess.run([os.path.join(BUILD, "facetd"), *words], env=place.env, stdout=out, stderr=error,
                                      preexec_fn=forbid_files, timeout=60)
                equal(done.returncode in (1, 2), True, done.returncode)
        equal(place.facet("vgpu", "list").returncode, 0, "a shell without that limit starts a daemon")
        with open(place.path("out"), "wb") as out:
            done = subprocess.run([FACET, "version"], env=place.env, stdout=out, stderr=subprocess.PIPE, text=True,
                                  preexec_fn=forbid_files, timeout=60)
        contains(done.stderr, "cannot write standard output: File too large")
        done = place.facet("run", "-d", "test:0", "grep", "SigIgn", "/proc/self/status", preexec_fn=forbid_files)
        equal(int(done.stdout.split()[1], 16) & 1 << 24, 0, "the program under `facet run` does not ignore SIGXFSZ")


@test
def processors_and_ignored_signals_of_one_shell_are_not_the_daemons():
    first = min(os.sched_getaffinity(0))

    def narrow_own_process():
        os.sched_setaffinity(0, {first})
        for number in (1, 2, 3, 10, 12, 13, 15, 17):  # SIGHUP, INT, QUIT, USR1, USR2, PIPE, TERM, CHLD
            signal.signal(number, signal.SIG_IGN)
        for number in (32, 33):  # the C library reserves both, but some test runners have them ignored
            ignore_in_kernel(number)
    with Shell() as place:
        equal(place.facet("vgpu", "list", preexec_fn=narrow_own_process).returncode, 0)
        status = dict(re.findall(r"^(\w+):\s+(.*)$", place.read_proc("status"), re.M))
        mine = dict(re.findall(r"^(\w+):\s+(.*)$", open("/proc/self/status", encoding="utf-8").read(), re.M))
        equal(status["Cpus_allowed_list"], mine["Cpus_allowed_list"])
        equal(int(status["SigIgn"], 16) & ~(1 << 12 | 1 << 24), 0, "only SIGPIPE and SIGXFSZ are ignored")


@test
def providers_that_could_not_be_opened_are_named_with_the_reason():
    opencl, cpu = (os.path.join(BUILD, f"facet-provider-{name}.so") for name in ("opencl", "cpu"))
    if not os.path.exists(opencl):
        raise Skip("this build has no provider opencl")
    reason = "provider opencl was refused: cannot open: unsupported: OCL_ICD_VENDORS is '/nowhere', which cannot be read"
    hidden = {"OCL_ICD_VENDORS": "/nowhere", "FACET_KEEP_ENV": "OCL_*,ASAN_OPTIONS,LSAN_OPTIONS,TSAN_OPTIONS"}
    with Shell(f"{opencl}:{cpu}") as place:
        place.env.update(hidden)
        for words in (("vgpu", "create"), ("run", "true"), ("vgpu", "create", "-d", "7"), ("run", "-d", "opencl:0", "true")):
            done = place.facet(*words)
            equal(done.returncode == 0, False)
            contains(done.stderr, reason)
        contains(place.facet("vgpu", "create").stderr, "no device here takes programs, cpu:0 runs kernels only")
        contains(place.facet("devices").stderr, reason)
        contains(place.facet("provider", "list").stdout, "OCL_ICD_VENDORS is '/nowhere'")
    with Shell(opencl) as place:
        os.mkdir(place.path("vendors"))
        place.write("vendors/none.icd", f"{place.path('none.so')}\n")
        place.env.update(hidden, OCL_ICD_VENDORS=place.path("vendors"), OPENCL_VENDOR_PATH=place.path("vendors"))
        contains(place.facet("vgpu", "create").stderr,
                 f"none.icd names a runtime that cannot be opened: {place.path('none.so')}: cannot open shared object")


@test
def a_daemon_without_devices_ends_despite_repeated_requests():
    with Shell() as place:
        os.mkdir(place.path("providers"))
        place.env["FACET_PROVIDER_PATH"] = place.path("providers")
        place.write("providers/facet-provider-later.so", "no library")
        contains(place.facet("vgpu", "create").stderr, "provider later was refused: ")
        os.unlink(place.path("providers/facet-provider-later.so"))
        os.symlink(PROVIDER, place.path("providers/facet-provider-test.so"))
        wait_until(lambda: place.facet("vgpu", "create", "--name", "a").returncode == 0, "another daemon finds a device")


@test
def a_daemon_without_standard_streams_keeps_their_numbers_free():
    with Shell() as place:
        os.mkdir(place.runtime, 0o700)
        daemon = subprocess.Popen(["sh", "-c", f'exec "{os.path.join(BUILD, "facetd")}" --foreground <&- >&- 2>&-'],
                                  env=place.env)
        try:
            wait_until(lambda: listens(place.path("run/facetd.sock")), "the daemon is ready")
            for fd in range(3):
                equal(os.readlink(f"/proc/{daemon.pid}/fd/{fd}"), "/dev/null", f"descriptor {fd}")
        finally:
            daemon.terminate()
            daemon.wait()
        subprocess.run(["sh", "-c", f'"{os.path.join(BUILD, "facetd")}" <&- >&- 2>&-'], env=place.env, timeout=60,
                       check=True)
        for fd in range(2):
            equal(os.readlink(f"/proc/{place.daemon_pid()}/fd/{fd}"), "/dev/null", f"descriptor {fd}")
        equal(os.readlink(f"/proc/{place.daemon_pid()}/fd/2"), place.path("run/facetd.log"))


main()
