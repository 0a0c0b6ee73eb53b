#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What Facet does not trust: folders that others can change, daemons of other users, and answers with settings that it
never sends."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

from place import BUILD, FACET, SOURCE, Place, wait_until
from tap import Skip, contains, equal, main, test

VICTIM, ATTACKER = 4001, 4002  # numbers of users that the machine need not know

# The verbs that ask a daemon, or read files that other users put beside its socket.
VERBS = (["run", "touch", "ran"], ["vgpu", "list"], ["vgpu", "list", "--no-start"], ["vgpu", "show", "x"],
         ["vgpu", "create"], ["vgpu", "set", "x", "-m", "1G"], ["vgpu", "freeze", "x"], ["vgpu", "destroy", "x"],
         ["top", "--once"], ["metrics"], ["place", "list"], ["place", "show", "x", "--render", "docker"],
         ["place", "release", "x"])


def check_every_verb_refuses(place, *fragments):
    for verb in VERBS:
        done = place.facet(*verb)
        equal(done.returncode, 1, f"{verb}: {done.stdout}{done.stderr}")
        equal(done.stdout, "", verb)
        for fragment in fragments:
            contains(done.stderr, fragment)
    equal(place.log(), [], "no daemon was started or asked")
    equal(place.exists("ran"), False)


@test
def a_folder_that_others_may_write_is_not_used():
    for mode, who in ((0o777, "any user"), (0o770, "others"), (0o1777, "any user")):
        with Place() as place:
            os.mkdir(place.runtime)
            os.chmod(place.runtime, mode)
            check_every_verb_refuses(place, f"{place.runtime}", f"may be written by {who} (mode {mode:04o})",
                                     "FACET_RUNTIME_DIR chooses another")


@test
def a_folder_below_one_that_others_may_write_is_not_used():
    with Place() as place:
        os.makedirs(place.path("open/run"))
        os.chmod(place.path("open"), 0o777)
        place.env["FACET_RUNTIME_DIR"] = place.path("open/run")
        check_every_verb_refuses(place, f"{place.path('open')}, which leads to {place.path('open/run')}",
                                 "may be written by any user (mode 0777)")
        os.chmod(place.path("open"), 0o1777)
        equal(place.facet("vgpu", "list", "--no-start").stderr.count("no daemon listens"), 1)


@test
def a_variable_that_facet_does_not_define_is_not_taken_from_an_answer():
    with Place() as place:
        profile = place.write("profile.json", "{}")
        given = {"LD_PRELOAD": place.path("evil.so"), "PATH": "/evil", "BASH_ENV": "/evil", "FACET_LIB_DIR": "/evil",
                 "X=Y_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "a b", "VENDOR_VISIBLE_DEVICES": "MIG-1/2,GPU-3:4",
                 "POCL_AFFINITY": "1", "FACET_SIM_PROFILE": profile, "FACET_SIM_STATE": "/nowhere"}
        place.env["FAKE_ENVIRONMENT"] = json.dumps(given)
        done = place.facet("run", "env", "-0")
        equal(done.returncode, 0, done.stderr)
        got = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
        taken = {"VENDOR_VISIBLE_DEVICES", "POCL_AFFINITY", "FACET_SIM_PROFILE"}
        equal({name for name in given if got.get(name) == given[name]}, taken)
        equal(got["PATH"], place.env["PATH"])
        for name in set(given) - taken:
            contains(done.stderr, f"the program is not given the daemon's {name}: ")


@test
def a_path_in_an_answer_to_a_file_that_others_can_change_is_not_taken():
    with Place() as place:
        os.mkdir(place.path("open"))
        profile = place.write("open/profile.json", "{}")
        os.chmod(place.path("open"), 0o777)
        place.env["FAKE_ENVIRONMENT"] = json.dumps({"FACET_SIM_PROFILE": profile})
        done = place.facet("run", "sh", "-c", 'echo "<$FACET_SIM_PROFILE>"')
        equal(done.stdout, "<>\n")
        contains(done.stderr, "may be written by any user (mode 0777)")


@test
def nothing_in_a_segment_is_opened_before_its_folder_is_judged():
    with Place() as place:
        place.env["FAKE_FAULT"] = "open_segment"
        equal(place.facet("vgpu", "create", "--name", "open").returncode, 0)
        for arguments in ([], ["--vgpu", "open"], ["--report", "report.json"]):
            done = place.facet("run", *arguments, "touch", "ran")
            equal(done.returncode, 1, done.stderr)
            contains(done.stderr, "may be written by any user (mode 0777)")  # comes before the missing file `usage`
        equal(place.exists("ran"), False)


class Users:
    """Two users, each with a home: one runs `facet`, the other attacks."""

    def __init__(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            raise Skip("needs root and setpriv")
        self.root = tempfile.mkdtemp(prefix="facet-test-", dir="/tmp")
        os.chmod(self.root, 0o711)
        self.started = []
        for user in (VICTIM, ATTACKER):
            os.mkdir(self.home(user), 0o700)
            os.chown(self.home(user), user, user)
        if self.as_user(VICTIM, FACET, "--version").returncode:
            shutil.rmtree(self.root)
            raise Skip("another user cannot run the program from this tree")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.wait()
        shutil.rmtree(self.root)

    def home(self, user):
        return os.path.join(self.root, f"home-{user}")

    def command(self, user, *words):
        return ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", *words]

    def as_user(self, user, *words, **environment):
        env = {"PATH": os.environ["PATH"], "HOME": self.home(user), "LC_ALL": "C.UTF-8", **environment}
        return subprocess.run(self.command(user, *words), env=env, capture_output=True, text=True, timeout=60,
                              cwd="/", check=False)

    def listen(self, runtime):
        """Starts the attacker's daemon in folder `runtime`, with a socket that all may use; its log shows requests."""
        evil = json.dumps({"LD_PRELOAD": os.path.join(self.root, "evil.so")})
        self.started.append(subprocess.Popen(
            self.command(ATTACKER, "/usr/bin/python3", os.path.join(SOURCE, "tests", "fake", "daemon.py")),
            env={"PATH": os.environ["PATH"], "FACET_RUNTIME_DIR": runtime, "FAKE_ENVIRONMENT": evil}))
        path = os.path.join(runtime, "facetd.sock")
        wait_until(lambda: os.path.exists(path), "the attacker's socket")
        os.chmod(path, 0o777)
        return path


def make_lib_folder(users):
    """Makes a folder with the daemon and an empty file as the layer, for which `facet run` looks first."""
    folder = os.path.join(users.root, "lib")
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    os.symlink(os.path.join(BUILD, "facetd"), os.path.join(folder, "facetd"))
    with open(os.path.join(folder, "libfacet-opencl-layer.so"), "w", encoding="utf-8"):
        pass
    return folder


@test
def a_folder_that_another_user_made_first_is_not_used():
    with Users() as users:
        runtime, environment = os.path.join(users.root, "facet"), {"FACET_LIB_DIR": make_lib_folder(users)}
        os.mkdir(runtime)
        os.chmod(runtime, 0o777)
        os.chown(runtime, ATTACKER, ATTACKER)
        users.listen(runtime)
        ran = os.path.join(users.home(VICTIM), "ran")
        for verb in (["run", "touch", ran], *VERBS[1:]):
            done = users.as_user(VICTIM, FACET, *verb, FACET_RUNTIME_DIR=runtime, **environment)
            equal((done.returncode, done.stdout), (1, ""), f"{verb}: {done.stderr}")
            contains(done.stderr, f"{runtime}")
            contains(done.stderr, f"belongs to user {ATTACKER}, expected user {VICTIM} or root")
        equal(os.path.exists(ran), False)
        equal(os.path.exists(os.path.join(runtime, "fake.log")), True, "the attacker's daemon has started")
        with open(os.path.join(runtime, "fake.log"), encoding="utf-8") as log:
            equal([line for line in log if not line.startswith("start")], [], "nobody asked it")
        done = users.as_user(VICTIM, os.path.join(BUILD, "facetd"), "--foreground", FACET_RUNTIME_DIR=runtime)
        equal(done.returncode, 1)
        contains(done.stderr, f"belongs to user {ATTACKER}")


@test
def a_folder_whose_link_another_user_laid_is_not_used():
    with Users() as users:
        link, mine = os.path.join(users.root, "facet"), os.path.join(users.home(VICTIM), "run")
        os.mkdir(mine, 0o700)
        os.chown(mine, VICTIM, VICTIM)
        os.symlink(mine, link)
        os.chown(link, ATTACKER, ATTACKER, follow_symlinks=False)
        done = users.as_user(VICTIM, FACET, "vgpu", "list", "--no-start", FACET_RUNTIME_DIR=link)
        contains(done.stderr, f"{link} belongs to user {ATTACKER}")
        os.chown(link, VICTIM, VICTIM, follow_symlinks=False)
        done = users.as_user(VICTIM, FACET, "vgpu", "list", "--no-start", FACET_RUNTIME_DIR=link)
        contains(done.stderr, "no daemon listens")


@test
def a_daemon_of_another_user_is_not_asked():
    with Users() as users:
        theirs, mine = os.path.join(users.root, "theirs"), os.path.join(users.root, "mine")
        for folder, user in ((theirs, ATTACKER), (mine, VICTIM)):
            os.mkdir(folder, 0o700)
            os.chown(folder, user, user)
        os.link(users.listen(theirs), os.path.join(mine, "facetd.sock"))
        for verb in VERBS[1:]:
            done = users.as_user(VICTIM, FACET, *verb, FACET_RUNTIME_DIR=mine, FACET_LIB_DIR=BUILD)
            equal((done.returncode, done.stdout), (1, ""), f"{verb}: {done.stderr}")
            contains(done.stderr, f"a process of user {ATTACKER} listens on {mine}/facetd.sock")
        with open(os.path.join(theirs, "fake.log"), encoding="utf-8") as log:
            equal([line for line in log if not line.startswith("start")], [], "nobody asked it")


@test
def where_root_has_no_number_the_owner_of_the_root_folder_is_root():
    with Users() as users:
        inside = ("unshare", "--user", f"--map-user={VICTIM}")
        if users.as_user(VICTIM, *inside, "true").returncode:
            raise Skip("no user namespaces here")
        # A folder in /tmp may be of any user, and in this namespace root looks like any other user: all users without a
        # number in it have the number 65534.
        theirs, mine = (tempfile.mkdtemp(prefix="facet-test-", dir="/tmp") for _ in range(2))
        os.chown(theirs, ATTACKER, ATTACKER)
        os.chown(mine, VICTIM, VICTIM)
        ask = (*inside, FACET, "vgpu", "list", "--no-start")
        try:
            contains(users.as_user(VICTIM, *ask, FACET_RUNTIME_DIR=mine).stderr, "no daemon listens")
            contains(users.as_user(VICTIM, *ask, FACET_RUNTIME_DIR=theirs).stderr,
                     f"{theirs} belongs to user 65534, expected user {VICTIM} or root")
            os.chown(theirs, 0, 0)
            contains(users.as_user(VICTIM, *ask, FACET_RUNTIME_DIR=theirs).stderr, f"{theirs} belongs to user 65534")
            # A folder of such a user is not used below folders that only root can change either: a privileged helper
            # may have made it there.
            os.chmod(theirs, 0o755)
            os.mkdir(f"{theirs}/run")
            os.chown(f"{theirs}/run", ATTACKER, ATTACKER)
            os.chmod(f"{theirs}/run", 0o755)
            os.rename(theirs, below := f"/run/facet-test-{os.getpid()}")
            theirs = below
            contains(users.as_user(VICTIM, *ask, FACET_RUNTIME_DIR=f"{theirs}/run").stderr,
                     "belongs to user 65534, which may be any user in this user namespace")
        finally:
            shutil.rmtree(theirs)
            os.rmdir(mine)


@test
def a_user_without_a_session_has_a_folder_of_its_own():
    """Without any variable the folder is /tmp/facet-UID, below a sticky folder; no user has made it yet."""
    with Users() as users:
        shutil.rmtree(f"/tmp/facet-{VICTIM}", ignore_errors=True)
        try:
            done = users.as_user(VICTIM, FACET, "vgpu", "list", FACET_LIB_DIR=BUILD, FACET_IDLE_EXIT_S="0",
                                 FACET_PROVIDER_PATH=os.path.join(BUILD, "facet-provider-null.so"))
            equal(done.returncode, 0, done.stderr)
            with open(f"/tmp/facet-{VICTIM}/facetd.lock", encoding="utf-8") as lock:
                pid = int(lock.read())
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the daemon ends")
        finally:
            shutil.rmtree(f"/tmp/facet-{VICTIM}", ignore_errors=True)


main()
