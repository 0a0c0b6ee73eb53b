#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Starting the private daemon, and living with one that fails."""
import contextlib
import os
import pty
import resource
import signal
import subprocess

from place import BUILD, FACET, Place, wait_until
from tap import contains, equal, main, test

FIXTURES = os.environ.get("FACET_TEST_FIXTURES", os.path.join(BUILD, "tests", "integration", "command"))


def check_run_fails(place, *fragments, env=None):
    done = place.facet("run", "true", env=env)
    equal(done.returncode, 1, done.stderr)
    equal(len(done.stderr.splitlines()), 1, f"lines of {done.stderr!r}")
    for fragment in fragments:
        contains(done.stderr, fragment)


@test
def first_run_starts_a_private_daemon_and_the_next_uses_it():
    with Place() as place:
        equal(place.facet("run", "true").returncode, 0)
        equal(place.facet("run", "true").returncode, 0)
        equal([line for line in place.log() if line.startswith("start")], ["start private"])


@test
def a_private_daemon_inherits_no_descriptor_or_session():
    with Place() as place:
        read_end, write_end = os.pipe()
        os.set_inheritable(write_end, True)
        equal(place.facet("run", "true", pass_fds=[write_end]).returncode, 0)
        os.close(write_end)
        equal(os.read(read_end, 1), b"", "the pipe ends when facet does")
        pid = place.daemon_pid()
        equal(os.getsid(pid) not in (os.getsid(0), 0), True, "a session of its own")
        equal(os.readlink(f"/proc/{pid}/fd/1"), "/dev/null")
        equal(os.readlink(f"/proc/{pid}/fd/2"), place.path("run/facetd.log"))


@test
def daemon_that_refuses_says_why():
    with Place(fault="refuse_start") as place:
        check_run_fails(place, "cannot start the daemon", "the state folder '/nowhere' is not writable")


@test
def daemon_that_leaves_without_a_word_is_noticed():
    with Place(fault="silent_start") as place:
        check_run_fails(place, "does not answer", "facetd.log")


@test
def a_log_that_is_no_file_is_refused():
    """Opening a FIFO would wait for a reader, and a device would swallow the log."""
    for plant in (os.mkfifo, lambda path: os.symlink("/dev/null", path)):
        with Place() as place:
            os.mkdir(place.runtime, 0o700)
            plant(place.path("run/facetd.log"))
            check_run_fails(place, "cannot write", "facetd.log")
    with Place() as place:
        os.mkdir(place.runtime, 0o700)
        os.mkfifo(place.path("run/facetd.log"))
        check_run_fails(place, "it is no regular file; remove it")
        reader = os.open(place.path("run/facetd.log"), os.O_RDONLY | os.O_NONBLOCK)
        check_run_fails(place, "it is no regular file; remove it")
        os.close(reader)


@test
def a_lack_of_descriptors_is_not_reported_as_a_lost_daemon():
    with Place() as place:
        equal(place.facet("vgpu", "list").returncode, 0)
        told = []
        for most in range(4, 12):
            done = place.facet("vgpu", "list", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
            if done.returncode:
                told.append(done.stderr)
                equal("Too many open files" in done.stderr or "Error 24" in done.stderr, True, f"{most}: {done.stderr}")
        equal(any("cannot connect to" in text for text in told), True, f"no limit made just the socket fail: {told}")


@contextlib.contextmanager
def other_libcurl(place, plant):
    """The environment in which `plant` makes the files that have the names of curl's library."""
    os.mkdir(place.path("libraries"))
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        plant(place.path(os.path.join("libraries", name)))
    yield {"LD_LIBRARY_PATH": place.path("libraries")}


def no_library(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("no library")


@test
def a_command_that_needs_the_daemon_reports_a_missing_libcurl():
    with Place() as place, other_libcurl(place, no_library) as env:
        check_run_fails(place, "this needs libcurl", "cannot be opened", env=env)
        equal(place.log(), [], "no daemon was started")
        for command in (["--version"], ["run", "--help"], ["pci", "scan", "--root", place.path("")]):
            done = place.facet(*command, env=env)
            equal("libcurl" in done.stderr, False, f"{command} asks no daemon: {done.stderr}")
        equal(place.facet("--version", env=env).returncode, 0)


@test
def a_libcurl_that_is_another_library_is_not_called():
    another = os.path.join(FIXTURES, "command_kernels_only.so")
    with Place() as place, other_libcurl(place, lambda path: os.symlink(another, path)) as env:
        check_run_fails(place, "it has no curl_easy_init", env=env)
        equal(place.log(), [], "no daemon was started")


@test
def missing_daemon_is_named():
    with Place() as place:
        os.unlink(place.path("lib/facetd"))
        check_run_fails(place, "facetd")


@test
def daemon_that_cannot_be_executed_is_named():
    with Place() as place:
        place.write("lib/facetd", "#!/no/such/interpreter\n", 0o755)
        check_run_fails(place, "cannot run", "facetd")


@test
def daemon_that_hangs_up_is_noticed():
    with Place(fault="hang_up") as place:
        check_run_fails(place, "went away")


@test
def answer_that_is_not_json_is_noticed():
    with Place(fault="not_json") as place:
        check_run_fails(place, "not JSON")


@test
def refusal_without_a_reason_is_noticed():
    with Place(fault="no_reason") as place:
        check_run_fails(place, "HTTP status 500")


def on_terminal(place, kind, *arguments):
    """The exit status of `facet` and its output, on a terminal of its own."""
    master, slave = pty.openpty()
    process = subprocess.Popen([FACET, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env={**place.env, "TERM": kind})
    os.close(slave)
    output = b""
    try:
        while part := os.read(master, 65536):
            output += part
    except OSError:  # Linux reports this once no process has the other end open
        pass
    os.close(master)
    return process.wait(timeout=60), output.decode()


@test
def stopped_daemon_is_given_up_on():
    with Place() as place:
        equal(place.facet("run", "true").returncode, 0)
        pid = place.daemon_pid()
        os.kill(pid, signal.SIGSTOP)
        done = place.facet("vgpu", "list")
        equal((done.returncode, done.stderr), (1, f"facet vgpu list: the daemon (pid {pid}) does not answer\n"))
        status, output = on_terminal(place, "xterm", "vgpu", "list")
        equal((status, output), (1, "waiting for the daemon ...\r\033[K" + done.stderr.replace("\n", "\r\n")))
        status, output = on_terminal(place, "dumb", "vgpu", "list")
        equal((status, output), (1, "waiting for the daemon ...\r\n" + done.stderr.replace("\n", "\r\n")))
        os.kill(pid, signal.SIGCONT)
        equal(place.facet("vgpu", "list").returncode, 0)


@test
def a_stale_socket_does_not_keep_a_daemon_from_starting():
    with Place() as place:
        equal(place.facet("run", "true").returncode, 0)
        place.kill_daemon()
        equal(place.exists("run/facetd.sock"), True, "the socket is stale")
        equal(place.facet("run", "true").returncode, 0)


@test
def daemon_killed_during_a_run_changes_nothing_for_the_program():
    with Place() as place:
        process = place.start("run", "sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.05; done; exit 8")
        wait_until(lambda: place.exists("started"), "the command starts")
        place.kill_daemon()
        place.write("go", "")
        process.communicate(timeout=60)
        equal(process.returncode, 8)
        equal([line for line in place.log() if line.startswith("start")], ["start private"] * 2)


@test
def daemon_that_dies_at_the_end_is_replaced_once():
    with Place(fault="die_on_delete") as place:
        done = place.facet("run", "sh", "-c", "exit 8")
        equal((done.returncode, done.stderr), (8, ""))
        equal([line for line in place.log() if line.startswith("start")], ["start private"] * 2)


@test
def daemon_that_cannot_be_replaced_does_not_spoil_the_status():
    with Place() as place:
        process = place.start("run", "sh", "-c", "touch started; while [ ! -e go ]; do sleep 0.05; done; exit 8")
        wait_until(lambda: place.exists("started"), "the command starts")
        place.kill_daemon()
        os.unlink(place.path("lib/facetd"))
        place.write("go", "")
        errors = process.communicate(timeout=60)[1]
        equal(process.returncode, 8)
        contains(errors, "left to the next daemon")


@test
def asking_does_not_start_a_daemon():
    with Place() as place:
        for arguments in (["metrics"], ["top"], ["top", "--once"], ["top", "--json"], ["vgpu", "list", "--no-start"]):
            done = place.facet(*arguments)
            equal(done.returncode, 1, f"exit status of {arguments}")
            contains(done.stderr, "no daemon listens")
        equal(place.exists("run"), False, "a runtime folder")


@test
def proxies_of_the_user_are_ignored():
    with Place() as place:
        equal(place.facet("run", "true", env={"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1"})
              .returncode, 0)


@test
def signal_before_the_command_starts_leaves_no_process():
    with Place() as place:
        process = place.start("run", "sleep", "60")
        wait_until(lambda: place.created() != [], "the vGPU is created")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        # A signal before the fork ends facet itself, and a later one ends the command. No process is left either way.
        equal(process.returncode in (143, -signal.SIGTERM), True, f"status {process.returncode}")


main()
