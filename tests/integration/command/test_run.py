#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`facet run` leaves the program alone, passes on its end, writes an exact report, and leaves nothing behind."""
import json
import os
import signal
import subprocess
import time

from place import BUILD, FACET, LAYER, Place, wait_until
from tap import contains, equal, main, test


@test
def exit_status_is_the_commands_own():
    with Place() as place:
        for status in (0, 1, 7, 126, 255):
            equal(place.facet("run", "sh", "-c", f"exit {status}").returncode, status)
        equal(place.facet("run", "sh", "-c", "kill -KILL $$").returncode, 128 + 9)
        equal(place.facet("run", "sh", "-c", "kill -TERM $$").returncode, 128 + 15)


@test
def input_and_output_are_untouched():
    with Place() as place:
        done = place.facet("run", "sh", "-c", "cat; echo to-error >&2", stdin="one\ntwo")
        equal(done.stdout, "one\ntwo")
        equal(done.stderr, "to-error\n")


@test
def options_end_at_the_command():
    with Place() as place:
        equal(place.facet("run", "-c", "30", "echo", "-m", "1G", "--json").stdout, "-m 1G --json\n")
        equal(place.facet("run", "--", "echo", "--", "-c").stdout, "-- -c\n")


@test
def limits_reach_the_daemon():
    with Place() as place:
        place.facet("run", "-d", "uuid-zero", "-m", "256M", "-c", "0.3:60", "--mode", "soft", "--priority", "high",
                    "--name", "a.b-c", "true")
        equal(json.loads(place.created()[0].removeprefix("create ")), {
            "device": "uuid-zero", "memory_limit_bytes": 256 << 20, "compute_request_milli": 300,
            "compute_limit_milli": 600, "mode": "soft", "priority": "high", "name": "a.b-c", "ephemeral": True})
        place.facet("run", "true")
        equal(json.loads(place.created()[1].removeprefix("create ")), {"ephemeral": True})
        place.facet("run", "-m", "25%", "true")
        equal(json.loads(place.created()[2].removeprefix("create "))["memory_limit_bytes"], 2 << 30)


@test
def program_finds_its_vgpu_and_layer():
    with Place() as place:
        layer = place.path(f"lib/{LAYER}")
        script = 'echo "$OPENCL_LAYERS"; test -f "$FACET_VGPU_DIR/usage" && echo found'
        equal(place.facet("run", "sh", "-c", script).stdout, f"{layer}\nfound\n")
        equal(place.facet("run", "sh", "-c", script, env={"OPENCL_LAYERS": "/other.so"}).stdout,
              f"{layer}:/other.so\nfound\n")


CUDA_SCRIPT = 'echo "$LD_LIBRARY_PATH|$LD_PRELOAD|$CUDA_VISIBLE_DEVICES"'
GPU = "GPU-66616b65-2d67-7075-0000-000000000001"
EMPTY = {"LD_LIBRARY_PATH": "", "LD_PRELOAD": "", "CUDA_VISIBLE_DEVICES": ""}


@test
def cuda_program_finds_facets_library_in_front():
    with Place() as place:
        place.write("lib/cuda/libcuda.so.1", "")
        folder = place.path("lib/cuda")
        equal(place.facet("run", "sh", "-c", CUDA_SCRIPT, env={**EMPTY, "FAKE_ADDRESS": GPU}).stdout,
              f"{folder}|{folder}/libcuda.so.1|{GPU}\n")
        place.write("lib/cuda/libnvidia-ml.so.1", "")
        equal(place.facet("run", "sh", "-c", CUDA_SCRIPT,
                          env={**EMPTY, "LD_LIBRARY_PATH": "/other", "CUDA_VISIBLE_DEVICES": "3"}).stdout,
              f"{folder}:/other|{folder}/libcuda.so.1:{folder}/libnvidia-ml.so.1|{GPU}\n")


@test
def a_cuda_program_finds_the_partition_of_a_gpu():
    with Place() as place:
        place.write("lib/cuda/libcuda.so.1", "")
        contains(place.facet("run", "sh", "-c", CUDA_SCRIPT, env={"FAKE_ADDRESS": "MIG-1-2"}).stdout, "|MIG-1-2")


@test
def nothing_of_cuda_is_set_for_other_devices():
    with Place() as place:
        place.write("lib/cuda/libcuda.so.1", "")
        equal(place.facet("run", "sh", "-c", CUDA_SCRIPT, env=EMPTY).stdout, "||\n")


@test
def cuda_device_without_facets_library_is_refused():
    with Place() as place:
        done = place.facet("run", "sh", "-c", CUDA_SCRIPT, env={"FAKE_ADDRESS": GPU})
        equal(done.returncode, 1)
        contains(done.stderr, "cuda/libcuda.so.1 is not in")
        equal(done.stdout, "")
        contains(place.log(), "destroy vgpu-1")


@test
def vgpu_is_removed_afterwards():
    with Place() as place:
        place.facet("run", "--name", "first", "true")
        place.facet("run", "--name", "second", "sh", "-c", "exit 3")
        contains(place.log(), "destroy first")
        contains(place.log(), "destroy second")
        equal(place.json("vgpu", "list", "--json"), {"vgpus": []})


@test
def report_is_exact():
    with Place() as place:
        done = place.facet("run", "--name", "t", "-m", "1G", "-c", "30:60", "--report", "use.json", "sh", "-c", "exit 5")
        equal(done.returncode, 5)
        report = json.loads(place.read("use.json"))
        wall = report.pop("wall_ns")
        equal(wall > 0, True, "wall_ns is positive")
        equal(list(report.items()), list({
            "name": "t", "device": "opencl:0", "mode": "soft", "memory_limit_bytes": 1 << 30,
            "memory_peak_bytes": 5 << 20, "denied_allocations": 3, "compute_request_milli": 300,
            "compute_limit_milli": 600, "device_time_ns": 1500, "launches": 7, "throttled_ns": 250,
            "exit_status": 5}.items()))
        equal([name for name in os.listdir(place.root) if "use.json" in name], ["use.json"], "files")


@test
def report_of_a_killed_command_has_its_exit_status():
    with Place() as place:
        equal(place.facet("run", "--report", "r", "sh", "-c", "kill -KILL $$").returncode, 137)
        equal(json.loads(place.read("r"))["exit_status"], 137)


@test
def report_goes_to_standard_output_or_through_a_link():
    with Place() as place:
        equal(json.loads(place.facet("run", "--report", "-", "true").stdout)["exit_status"], 0)
        place.write("target", "old")
        os.symlink("target", place.path("link"))
        equal(place.facet("run", "--report", "link", "true").returncode, 0)
        equal(os.path.islink(place.path("link")), True, "the link stays")
        equal(json.loads(place.read("target"))["exit_status"], 0)
        equal(place.facet("run", "--report", "/dev/null", "true").returncode, 0)
        equal(os.path.exists("/dev/null") and not os.path.isfile("/dev/null"), True, "/dev/null is still a device")


@test
def report_that_cannot_be_written_is_named():
    with Place() as place:
        done = place.facet("run", "--report", "/dev/full", "sh", "-c", "exit 4")
        equal(done.returncode, 4)
        contains(done.stderr, "report '/dev/full': No space left")


@test
def refused_run_leaves_no_report():
    with Place() as place:
        place.write("use.json", "precious")
        equal(place.facet("run", "-m", "9G", "--report", "use.json", "true").returncode, 2)
        equal(place.read("use.json"), "precious")
        equal(sorted(os.listdir(place.root)), ["lib", "run", "use.json"])


@test
def existing_vgpu_is_used_and_kept():
    with Place() as place:
        place.facet("vgpu", "create", "--name", "alice", "-m", "1G")
        done = place.facet("run", "--vgpu", "alice", "--report", "-", "true")
        equal(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        equal((report["name"], report["launches"], report["memory_limit_bytes"]), ("alice", 0, 1 << 30))
        equal([vgpu["name"] for vgpu in place.json("vgpu", "list", "--json")["vgpus"]], ["alice"])


@test
def verbose_and_warnings_go_to_standard_error():
    with Place() as place:
        done = place.facet("run", "-v", "-m", "256M", "-c", "30", "--name", "n", "echo", "hello")
        equal(done.stdout, "hello\n")
        equal(done.stderr, "facet run: n on opencl:0 (Fake device): memory 256 MiB, compute 30%, mode soft\n"
                           "facet run: 7 launches, memory peak 5 MiB, 3 denied allocations\n")
        place.facet("vgpu", "create", "-c", "80")
        done = place.facet("run", "-c", "30", "true")
        equal((done.returncode, len(done.stderr.splitlines())), (0, 1))
        contains(done.stderr, "facet run: warning: guarantees")


def start_script(place, script, **options):
    """Starts `facet run` of a shell script that makes the file `started`, and waits for that file."""
    process = place.start("run", "sh", "-c", f"{script}", **options)
    wait_until(lambda: place.exists("started"), "the command starts")
    return process


def finish(process):
    process.communicate(timeout=60)
    return process.returncode


LOOP = "touch started; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i + 1)); done"


@test
def signals_sent_to_facet_alone_are_passed_on():
    # A shell cannot trap a signal that was ignored when it started, as under nohup and behind an &.
    for name in ("INT", "HUP", "QUIT"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_DFL)
    with Place() as place:
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1"):
            process = start_script(place, f'trap "exit 9" {name}; {LOOP}')
            process.send_signal(getattr(signal, f"SIG{name}"))
            equal(finish(process), 9, f"exit status after {name}")
            os.unlink(place.path("started"))


@test
def command_killed_by_a_passed_signal_gives_128_plus_its_number():
    with Place() as place:
        process = start_script(place, f"exec 2>/dev/null; touch started; exec sleep 60")
        process.send_signal(signal.SIGTERM)
        equal(finish(process), 143)
        equal([line for line in place.log() if line.startswith("destroy")], ["destroy vgpu-1"])


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0]


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return int(file.read().split()[0])


@test
def stop_and_continue_reach_facet_and_the_command():
    with Place() as place:
        process = start_script(place, "touch started; exec sleep 60", process_group=0)
        child = child_of(process.pid)
        process.send_signal(signal.SIGTSTP)
        wait_until(lambda: state(child) == "T" and state(process.pid) == "T", "both stop")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: state(child) == "S" and state(process.pid) == "S", "both go on")
        process.send_signal(signal.SIGTERM)
        equal(finish(process), 143)


@test
def a_command_stopped_by_another_process_does_not_stop_facet():
    with Place() as place:
        process = start_script(place, "touch started; exec sleep 60", process_group=0)
        child = child_of(process.pid)
        os.kill(child, signal.SIGSTOP)
        wait_until(lambda: state(child) == "T", "the command stops")
        time.sleep(0.2)
        equal(state(process.pid), "S", "state of facet")
        os.kill(child, signal.SIGCONT)
        os.kill(child, signal.SIGKILL)
        equal(finish(process), 137)


@test
def ignored_child_signal_does_not_lose_the_status():
    with Place() as place:
        done = place.facet("run", "sh", "-c", "exit 4",
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        equal(done.returncode, 4)


@test
def commands_work_where_the_child_signal_is_ignored():
    with Place(real=True) as place:
        def outcome(*words, **options):
            done = place.facet(*words, **options)
            return done.returncode, done.stdout, done.stderr

        ignored = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
        provider = os.path.join(BUILD, "facet-provider-null.so")
        for words in (["provider", "list"], ["provider", "check", provider], ["pci", "doctor", "--json"]):
            equal(outcome(*words, **ignored), outcome(*words), " ".join(words))


@test
def command_keeps_the_callers_signal_mask():
    with Place() as place:
        outside = subprocess.run(["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"], capture_output=True, text=True,
                                 check=True).stdout
        inside = place.facet("run", "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status").stdout
        equal(inside, outside)


@test
def closed_standard_streams_are_survived():
    with Place() as place:
        done = subprocess.run(["sh", "-c", f'exec "{FACET}" run sh -c "exit 6" <&- >&- 2>&-'], env=place.env,
                              timeout=60, check=False)
        equal(done.returncode, 6)


@test
def missing_interpreter_is_127():
    with Place() as place:
        script = place.write("script", "#!/no/such/interpreter\n", 0o755)
        done = place.facet("run", script)
        equal(done.returncode, 127)
        contains(done.stderr, script)
        equal(place.json("vgpu", "list", "--json"), {"vgpus": []})


REACHES = "limits do not reach them"
UNUSED = "no program entered"

# Commands whose program does not enter the vGPU: another process starts it, or the variables of the vGPU are removed.
OUT_OF_REACH = [
    ["podman", "run", "--rm", "image"], ["docker", "--context", "c", "exec", "x", "y"], ["nerdctl", "run", "image"],
    ["sudo", "id"], ["su", "-c", "id"], ["doas", "id"], ["ssh", "host", "id"], ["systemd-run", "--user", "id"],
    ["srun", "-n", "2", "id"], ["bin/podman", "run", "image"], ["env", "-u", "B", "A=1", "sudo", "id"], ["env", "-i", "true"],
    ["nice", "-n", "5", "timeout", "-k", "1", "60", "ssh", "host"], ["nohup", "sh", "-c", "sudo id"],
    ["sh", "-c", "cd /; docker run image"], ["sh", "-ec", "A=b exec sudo id"], ["sh", "-c", "if true; then podman run y; fi"],
    ["env", "-S", "ssh host"], ["env", "-Sssh host"], ["env", "-vS", "A=1 nice sudo id"], ["env", "--split-string=ssh h"],
    ["env", "-S", "nice", "ssh", "host"], ["env", "-iS", "true"], ["env", "-i", "-S", "true"], ["xargs", "ssh"],
    ["xargs", "-n", "1", "sudo", "id"], ["xargs", "--max-args", "1", "ssh"], ["nice", "--adjustment", "5", "ssh", "h"],
    ["setsid", "-w", "ssh", "h"], ["stdbuf", "-o", "L", "ssh", "h"], ["time", "-p", "ssh", "h"],
    ["timeout", "--signal", "KILL", "60", "sudo", "id"], ["unshare", "-r", "ssh", "h"],
    ["bash", "-o", "pipefail", "-c", "ssh h"], ["bash", "-c", "exec -c id"], ["bash", "-c", "exec sudo id"],
    ["find", ".", "-maxdepth", "0", "-exec", "ssh", "h", ";"], ["flock", "lock", "ssh", "h"],
    ["flock", "lock", "-c", "ssh h"], ["sh", "-c", "eval 'ssh h'"], ["chroot", "/", "true"],
    ["sh", "-c", "true && (srun id)"], ["sh", "-c", "echo | 'ssh' host"], ["sh", "-c", 'sh -c "sudo id"'],
    ["screen", "-dm", "x"], ["tmux", "new", "-d"], ["runc", "run", "x"], ["crun", "--root", "r", "run", "x"],
    ["buildah", "run", "c", "x"], ["enroot", "start", "image"], ["salloc", "x"], ["nvidia-docker", "run", "image"],
    ["sshpass", "-p", "x", "ssh", "h"], ["setarch", "x86_64", "-R", "docker", "run", "x"], ["setarch", "-R", "ssh", "h"],
    ["linux64", "docker", "run", "x"], ["sg", "root", "-c", "sudo true"], ["sg", "root", "sudo true"],
    ["gdb", "-q", "--args", "sudo", "x"], ["script", "/dev/null", "-c", "sudo true"], ["docker", "container", "run", "x"],
    ["podman", "--root", "a", "--runroot", "b", "--log-level", "c", "--url", "d", "run", "image"],
    ["sh", "-c", ">/dev/null sudo true"], ["sh", "-c", "1>&2 sudo true"], ["sh", "-c", "> /dev/null nice sudo true"],
    ["sh", "-c", "docker \\\n run image"], ["sh", "-c", "\\sudo true"], ["sh", "-c", "true # not\nsudo true"],
    ["env", "-u", "OPENCL_LAYERS", "id"], ["env", "OPENCL_LAYERS=", "id"], ["env", "FACET_VGPU_DIR=", "id"],
    ["env", "--unset=FACET_VGPU_DIR", "id"],
]
# Commands that only resemble those of OUT_OF_REACH.
WITHIN_REACH = [
    ["echo", "sudo"], ["podman", "images"], ["env", "A=sudo", "echo", "ssh"], ["sh", "-c", 'echo "a; sudo b"'],
    ["sh", "-c", "command -v ssh"], ["sh", "-c", "command -pv sudo"], ["xargs", "-I", "ssh", "echo", "ssh"],
    ["env", "-S", "echo ssh"], ["find", ".", "-name", "ssh"], ["timeout", "60", "echo", "ssh"],
    ["sh", "-c", "echo docker run"], ["nice", "-n", "5", "echo", "podman", "run"], ["sh", "-c", ""],
    ["ssh", "-V"], ["sudo", "--version"], ["screen", "-ls"], ["sh", "-c", "echo x # ; sudo true"], ["podman", "images", "run"],
    ["docker", "container", "ls"], ["sh", "-c", "echo x >&2 sudo"], ["sh", "-c", "echo 2>&1 x"], ["sh", "-c", "echo x#"],
    ["env", "-u", "OPENCL_LAYERS"], ["env", "-u", "B", "OPENCL_LAYERS=x", "id"], ["sh", "-c", "echo \\; sudo"],
]


@test
def launchers_that_leave_the_vgpu_are_reported_before_they_start():
    with Place() as place:
        for name in ("podman", "docker", "nerdctl", "sudo", "su", "doas", "ssh", "systemd-run", "srun", "time", "unshare",
                     "chroot", "screen", "tmux", "runc", "crun", "buildah", "enroot", "salloc", "nvidia-docker", "sshpass",
                     "setarch", "linux64", "sg", "gdb", "script", "id"):
            place.write(f"bin/{name}", "#!/bin/sh\necho started >&2\n", 0o755)
        env = {"PATH": f"{place.path('bin')}:{os.environ['PATH']}"}
        for command in OUT_OF_REACH:
            done = place.facet("run", "--", *command, env=env)
            lines = done.stderr.splitlines()
            equal((done.returncode, lines[0].count(REACHES)), (0, 1), f"{command}: {done.stderr}")
            equal(done.stderr.count(REACHES), 1, command)
            # A command with one of these words prints other lines, or runs a program that prints nothing.
            if not {"-i", "-iS", "exec -c id", "-vS"} & set(command):
                equal(lines[1:], ["started"], command)
        for command in WITHIN_REACH:
            equal(place.facet("run", "--", *command, env=env).stderr.count(REACHES), 0, command)


@test
def a_run_with_limits_that_no_program_entered_is_warned_of():
    with Place(fault="unused") as place:
        place.write("bin/podman", "#!/bin/sh\n", 0o755)
        env = {"PATH": f"{place.path('bin')}:{os.environ['PATH']}"}
        place.facet("vgpu", "create", "--name", "alice")
        for options in (["-m", "256M"], ["-c", "30"], ["--vgpu", "alice"], ["-v"]):
            done = place.facet("run", *options, "sh", "-c", "exit 3")
            equal((done.returncode, done.stdout, done.stderr.count(UNUSED)), (3, "", 1), f"{options}: {done.stderr}")
            contains(done.stderr.splitlines()[-1], UNUSED)
        for options in ([], ["-d", "0", "--name", "n"]):
            equal(place.facet("run", *options, "true").stderr, "", options)
        equal(place.facet("run", "podman", "run", "image", env=env).stderr.count(UNUSED), 1)
    with Place() as place:
        equal(place.facet("run", "-m", "256M", "-c", "30", "true").stderr, "", "a run whose vGPU a program entered")


@test
def a_lost_reader_of_warnings_does_not_end_the_run():
    """Without a reader of standard error the program still runs, and its end is reported."""
    with Place() as place:
        readable, writable = os.pipe()
        os.close(readable)
        done = subprocess.run([FACET, "run", "-m", "1M", "--report", "report.json", "--", "sh", "-c", "sleep 0.1; exit 3"],
                              stderr=writable, env={**place.env, "FAKE_FAULT": "unused"}, cwd=place.root, check=False,
                              timeout=60)
        equal(done.returncode, 3)
        equal(json.loads(place.read("report.json"))["exit_status"], 3)
        done = subprocess.run([FACET, "run", "-m", "1M", "--", "sh", "-c", "echo x >&2; echo alive"], stderr=writable,
                              stdout=subprocess.PIPE, env=place.env, cwd=place.root, text=True, check=False, timeout=60)
        equal((done.returncode, done.stdout), (128 + signal.SIGPIPE, ""), "SIGPIPE ends the program as usual")
        os.close(writable)


@test
def command_has_the_descriptors_that_were_given_and_no_others():
    with Place() as place, open(place.path("given"), "w", encoding="utf-8") as given:
        listing = ["python3", "-c", "import os; print(*sorted(int(fd) for fd in os.listdir('/proc/self/fd')))"]
        bare, inside = (subprocess.run(command, env=place.env, cwd=place.root, pass_fds=[given.fileno()], text=True,
                                       stdout=subprocess.PIPE, check=True, timeout=60).stdout
                        for command in (listing, [FACET, "run", "--", *listing]))
        equal(inside, bare)
        equal(str(given.fileno()) in inside.split(), True, inside)


main()
