#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input: one clear line that names the argument, the right exit status, nothing created."""
import json
import os

from place import BUILD, LAYER, Place
from tap import contains, equal, main, test


def refused(place, arguments, status, *fragments, env=None):
    done = place.facet(*arguments, env=env)
    equal(done.returncode, status, f"exit status of {arguments}: {done.stderr}")
    equal(len(done.stderr.splitlines()), 1, f"lines of {done.stderr!r}")
    for fragment in fragments:
        contains(done.stderr, fragment)
    equal(done.stdout, "", "standard output")
    equal(place.created(), [], "vGPUs created")


VALUES = [
    (["-c", "0"], "compute", "0"),
    (["-c", "130"], "compute", "130"),
    (["-c", "50:20"], "compute", "50:20"),
    (["-c", "x"], "compute", "x"),
    (["-c", "30:"], "compute", "30:"),
    (["-c", "-5"], "compute", "-5"),
    (["-m", "12Q"], "memory", "12Q"),
    (["-m", "0"], "memory", "0"),
    (["-m", "-1"], "memory", "-1"),
    (["-m", ""], "memory", ""),
    (["-m", "101%"], "memory", "101%"),
    (["-m", "9G"], "memory", "9 GiB", "8 GiB"),
    (["-m", "8E"], "memory '8E': expected less than 8 EiB"),
    (["-m", "15E"], "memory '15E': expected less than 8 EiB"),
    (["-m", "99999999999999999999"], "memory", "99999999999999999999"),
    (["-d", "opencl:7"], "device", "opencl:7"),
    (["-d", ""], "device"),
    (["-d", "opencl:7", "-m", "50%"], "device", "opencl:7"),
    (["--mode", "firm"], "mode", "firm"),
    (["--priority", "urgent"], "priority", "urgent"),
    (["--name", "a/b"], "name", "a/b"),
    (["--name", ""], "name"),
]


@test
def run_refuses_wrong_values():
    with Place() as place:
        for options, *fragments in VALUES:
            refused(place, ["run", *options, "--", "true"], 2, "facet run: ", *fragments)


@test
def vgpu_create_refuses_the_same_values():
    with Place() as place:
        for options, *fragments in VALUES:
            refused(place, ["vgpu", "create", *options], 2, "facet vgpu create: ", *fragments)


@test
def values_are_checked_before_a_daemon_is_started():
    with Place() as place:
        for options in (["-c", "130"], ["-m", "12Q"], ["--mode", "firm"], ["--name", "a/b"]):
            refused(place, ["run", *options, "true"], 2)
        refused(place, ["run", "no-such-command"], 127)
        refused(place, ["run", "--report", "none/such", "true"], 2)
        equal(place.log(), [], "what a daemon did")


@test
def a_mode_that_the_device_lacks_is_refused():
    with Place() as place:
        refused(place, ["run", "--mode", "hard", "true"], 1, "hard", "shared and soft")


@test
def a_percentage_of_unknown_memory_is_refused():
    with Place() as place:
        refused(place, ["run", "-d", "1", "-m", "50%", "true"], 1, "memory")


@test
def missing_command_is_127():
    with Place() as place:
        refused(place, ["run", "no-such-command"], 127, "command 'no-such-command'", "not found")
        refused(place, ["run", "/no/such/command"], 127, "command '/no/such/command'")
        refused(place, ["run", ""], 127, "command ''")


@test
def command_that_cannot_be_executed_is_126():
    with Place() as place:
        plain = place.write("plain", "echo\n")
        refused(place, ["run", plain], 126, plain, "not executable")
        refused(place, ["run", place.root], 126, "is a folder")
        refused(place, ["run", "plain"], 126, "plain", env={"PATH": place.root})


@test
def command_is_found_behind_one_that_cannot_be_executed():
    with Place() as place:
        place.write("true", "")
        done = place.facet("run", "true", env={"PATH": f"{place.root}:/usr/bin:/bin"})
        equal(done.returncode, 0, done.stderr)


# Variables that are read only if another one is set.
DEPENDS = {name: {"FACET_SIM_PROFILE": "h100"} for name in ("FACET_SIM_FAULTS", "FACET_SIM_VISIBLE_DEVICES",
                                                            "FACET_SIM_STATE")}

# Variables whose wrong values other programs report (users of the interposers and of TensorFusion, 'facet pci',
# 'facet provider check'), or which may have any text.
CHECKED_ELSEWHERE = {"FACET_PCI_RULES_DIR", "FACET_QUIET", "FACET_REAL_CUDA", "FACET_REAL_HIP", "FACET_REAL_NVML",
                     "FACET_TENSORFUSION_IDLE_MS", "FACET_TENSORFUSION_PLACE", "FACET_VGPU_DIR", "FACET_ROCM_STATE"}


@test
def no_wrong_value_of_a_variable_is_passed_over():
    with Place() as place:
        place.env.update(FACET_PROVIDER_PATH=BUILD, FACET_LIB_DIR=BUILD)
        shown = place.json("config", "--json")
        names = [entry["variable"] for entry in shown["settings"] + shown["variables"]]
        equal(len(names) > 40, True, "the variables")
        listed = place.json("provider", "list", "--json")["providers"]
        built = {provider["name"] for provider in listed}
        passed_over = []
        for name in names:
            owner = name.split("_")[1].lower()
            if name in CHECKED_ELSEWHERE or (owner in ("cpu", "cuda", "rocm", "ascend", "sim") and owner not in built):
                continue
            for value in ("nowhere/at all", "0.5?"):
                if value == "0.5?" and (owner in ("cuda", "rocm", "ascend", "provider") or name == "FACET_SIM_STATE"):
                    continue  # the value may be the name of a library that the loader searches, or of a folder
                done = place.facet("provider", "list", env={name: value, **DEPENDS.get(name, {})})
                said = [line for line in (done.stdout + done.stderr).splitlines() if value in line and
                        (name in line or name == "FACET_PROVIDER_PATH")]  # its messages name a file, not the variable
                if not said:
                    passed_over.append(f"{name}={value}: {done.stdout}{done.stderr}")
        equal(passed_over, [])


@test
def wrong_usage_is_refused():
    with Place() as place:
        refused(place, ["run"], 2, "command is missing")
        refused(place, ["run", "-d", "0", "-d", "1", "true"], 2, "--device is given twice, '0' and '1'")
        refused(place, ["run", "-m", "1G", "--memory=2G", "true"], 2, "--memory is given twice, '1G' and '2G'")
        refused(place, ["run", "--report", "", "true"], 2, "--report '': expected a file")
        refused(place, ["vgpu", "create", "--name", "a", "--name", "a"], 2, "--name is given twice")
        refused(place, ["vgpu", "set", "alice", "-c", "10", "-c", "20"], 2, "--compute is given twice")
        refused(place, ["run", "-m"], 2, "'-m' needs a value")
        refused(place, ["run", "--memry", "1G", "true"], 2, "--memry", "did you mean '--memory'")
        refused(place, ["run", "-x", "true"], 2, "'-x' is not known")
        refused(place, ["vgup"], 2, "'vgup'", "did you mean 'vgpu'")
        refused(place, ["rnu"], 2, "did you mean 'run'")
        refused(place, ["xyzzy"], 2, "'xyzzy'", "facet help")
        refused(place, ["vgpu", "feeze"], 2, "'feeze'", "did you mean 'freeze'")
        refused(place, ["vgpu"], 2, "which one? expected create, list, show, set, freeze, resume, destroy")
        for verb, children in (("vgpu", "create, list, show"), ("kernel", "show, run"), ("provider", "list, check"),
                               ("spec", "show, validate"), ("place", "list, show, release"), ("pci", "scan, show"),
                               ("pci persist", "add, remove")):
            refused(place, [*verb.split(), "frobnicate"], 2, "'frobnicate' is not a command; expected", children,
                    f"see 'facet help {verb}'")
            refused(place, ["help", *verb.split(), "frobnicate"], 2, "'frobnicate' is not a command; expected", children)
        refused(place, ["help", "run", "frobnicate"], 2, "'frobnicate' is not a command; see 'facet help run'")
        refused(place, ["vgpu", "show"], 2, "missing")
        refused(place, ["vgpu", "show", "a", "b"], 2, "'b' is one argument too many")
        refused(place, ["vgpu", "show", ""], 2, "empty")
        refused(place, ["vgpu", "set", "a"], 2, "nothing to set")
        refused(place, ["vgpu", "list", "--json=yes"], 2, "'--json' takes no value")
        refused(place, ["top", "--interval", "0"], 2, "interval '0'")
        refused(place, ["top", "--interval", "1.2345"], 2, "interval '1.2345'")
        refused(place, ["help", "nothing"], 2, "'nothing'")
        refused(place, ["devices", "now", "then"], 2, "'then'")


@test
def limits_do_not_go_with_an_existing_vgpu():
    with Place() as place:
        for option, value in (("-m", "1G"), ("-c", "30"), ("-d", "0"), ("--mode", "soft"), ("--name", "x")):
            refused(place, ["run", "--vgpu", "alice", option, value, "true"], 2, "--vgpu", "alice")


@test
def nested_run_is_refused():
    with Place() as place:
        refused(place, ["run", "true"], 2, "FACET_VGPU_DIR", env={"FACET_VGPU_DIR": "/anywhere"})


@test
def run_without_its_layer_is_refused():
    with Place() as place:
        os.unlink(place.path(f"lib/{LAYER}"))
        refused(place, ["run", "true"], 1, LAYER)
        equal(place.log(), [], "what a daemon did")


@test
def unknown_vgpu_is_refused():
    with Place() as place:
        for verb in ("show", "freeze", "resume", "destroy"):
            refused(place, ["vgpu", verb, "nobody"], 1, "nobody", "not found")
        refused(place, ["vgpu", "set", "nobody", "-c", "30"], 1, "nobody")
        refused(place, ["vgpu", "show", "../../etc?x#y"], 1, "../../etc?x#y")
        refused(place, ["vgpu", "show", "n" * 5000], 1, "longer than any name")
        refused(place, ["run", "--vgpu", "nobody", "true"], 1, "nobody")
        refused(place, ["run", "--vgpu", "../../x", "true"], 2, "vgpu '../../x': expected a name or id, which has no '/'")


@test
def malformed_setting_is_refused():
    with Place() as place:
        refused(place, ["run", "true"], 2, "FACET_RUNTIME_DIR", env={"FACET_RUNTIME_DIR": "not/absolute"})
        done = place.facet("config", env={"FACET_PARALLEL": "many"})
        equal(done.returncode, 2, "exit status of config")
        contains(done.stdout, "invalid")
        contains(done.stderr, "FACET_PARALLEL")


@test
def control_bytes_of_a_value_stay_off_the_terminal():
    with Place() as place:
        refused(place, ["run", "-m", "1\n2", "true"], 2, "memory '1?2'")
        refused(place, ["run", "-m", "\033[31mX", "true"], 2, "memory '?[31mX'")
        refused(place, ["\033[31m"], 2, "'?[31m'")
        refused(place, ["vgpu", "list", "a\nb"], 2, "'a?b'")


@test
def runtime_folder_too_long_for_a_socket_is_refused():
    with Place() as place:
        fits, long = (place.path("x" * (size - len(place.root) - 1)) for size in (95, 96))
        for arguments in (["run", "true"], ["vgpu", "list"]):
            for folder in (long, "/" + "y" * 2000):
                refused(place, arguments, 2, "FACET_RUNTIME_DIR", env={"FACET_RUNTIME_DIR": folder})
        refused(place, ["vgpu", "list"], 2, "96 bytes", "at most 95", env={"FACET_RUNTIME_DIR": long})
        refused(place, ["vgpu", "list", "--no-start"], 1, "no daemon listens", env={"FACET_RUNTIME_DIR": fits})


@test
def folder_that_cannot_be_made_names_its_setting():
    with Place() as place:
        refused(place, ["run", "true"], 1, "cannot make folder", "FACET_RUNTIME_DIR chooses another",
                env={"FACET_RUNTIME_DIR": "/proc/facet"})


@test
def refusals_are_json_too():
    with Place() as place:
        done = place.facet("vgpu", "create", "-m", "9G", "--json")
        equal(done.returncode, 2)
        equal(json.loads(done.stdout), {"error": {
            "code": "out_of_range", "argument": "memory", "message": "9 GiB is above the device's 8 GiB",
            "advice": "ask for at most 8 GiB"}})
        equal(done.stderr,
              "facet vgpu create: memory: 9 GiB is above the device's 8 GiB; ask for at most 8 GiB\n")
        equal(json.loads(place.facet("vgpu", "create", "-c", "0", "--json").stdout)["error"]["argument"], "compute")


@test
def listing_a_machine_without_devices_is_refused():
    with Place() as place:
        refused(place, ["devices"], 1, "facet devices: ")


@test
def full_disk_is_noticed():
    with Place() as place:
        equal(place.facet("vgpu", "create").returncode, 0)  # starts a daemon
        import subprocess
        from place import FACET
        for words in (["help"], ["top"], ["top", "--json"], ["vgpu", "list", "--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([FACET, *words], stdout=full, stderr=subprocess.PIPE, text=True, env=place.env,
                                      check=False, timeout=60)
            equal((done.returncode, done.stderr), (1, "facet: cannot write standard output: No space left on device\n"),
                  " ".join(words))
        for words in (["--help"], ["--version"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([FACET + "d", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                      timeout=60)
            equal((done.returncode, done.stderr), (1, "facetd: cannot write standard output: No space left on device\n"),
                  " ".join(words))


@test
def closed_output_is_noticed():
    """The command reports the loss, and does not write its output into a file that it opened."""
    import subprocess
    from place import FACET
    with Place() as place:
        for command in ("help", "version", "compile --list-targets"):
            done = subprocess.run(f"'{FACET}' {command} >&-", shell=True, stderr=subprocess.PIPE, text=True,
                                  env=place.env, check=False)
            equal(done.returncode, 1, command)
            contains(done.stderr, "cannot write standard output")


main()
