#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Help texts, and the agreement of help, man pages and completion with the command."""
import json
import os
import re
import shutil
import subprocess

from golden import matches_golden
from place import BUILD, FACET, SOURCE, Place
from tap import Skip, contains, equal, main, test

COMMANDS = [[], ["devices"], ["run"], ["vgpu"], ["vgpu", "create"], ["vgpu", "list"], ["vgpu", "show"], ["vgpu", "set"],
            ["vgpu", "freeze"], ["vgpu", "resume"], ["vgpu", "destroy"], ["compile"], ["kernel"], ["kernel", "show"],
            ["kernel", "run"], ["top"], ["metrics"], ["place"], ["place", "list"],
            ["place", "show"], ["place", "release"], ["place", "fleet"], ["place", "replay"], ["simulate"],
            ["provider"],
            ["provider", "list"], ["provider", "check"], ["spec"], ["spec", "show"], ["spec", "validate"],
            ["spec", "schema"], ["spec", "render"],
            ["pci"], ["pci", "scan"], ["pci", "show"], ["pci", "watch"], ["pci", "doctor"], ["pci", "attach"], ["pci", "detach"],
            ["pci", "plan"], ["pci", "bind"], ["pci", "unbind"], ["pci", "state"], ["pci", "recover"],
            ["pci", "persist"], ["pci", "persist", "add"], ["pci", "persist", "remove"], ["pci", "persist", "plan"],
            ["pci", "persist", "apply"], ["pci", "persist", "assert"], ["pci", "persist", "undo"],
            ["config"], ["version"], ["help"]]


def help_of(place, command):
    done = place.facet("help", *command)
    equal((done.returncode, done.stderr), (0, ""))
    return done.stdout


@test
def help_texts_match_the_golden_files():
    with Place() as place:
        for command in COMMANDS:
            matches_golden("-".join(["help", *command]) + ".txt", help_of(place, command))


@test
def help_fits_a_terminal():
    with Place() as place:
        for command in COMMANDS:
            lines = help_of(place, command).splitlines()
            equal(max(map(len, lines)) <= 80 and len(lines) <= 40, True, f"size of help {command}")
        equal(len(help_of(place, []).splitlines()) <= 24, True, "the first screen is one screen")


@test
def every_way_to_ask_gives_the_same_help():
    with Place() as place:
        equal(place.facet().stdout, help_of(place, []))
        equal(place.facet("--help").stdout, help_of(place, []))
        for command in COMMANDS[1:]:
            for option in ("--help", "-h"):
                done = place.facet(*command, option)
                equal((done.returncode, done.stdout), (0, help_of(place, command)), f"{command} {option}")


@test
def version_is_printed():
    with Place() as place:
        version = place.json("version", "--json")["version"]
        equal(place.facet("version").stdout, f"facet {version}\n")
        equal(place.facet("--version").stdout, f"facet {version}\n")


@test
def config_shows_where_values_come_from():
    with Place() as place:
        settings = {row["variable"]: row for row in place.json("config", "--json")["settings"]}
        equal((settings["FACET_RUNTIME_DIR"]["value"], settings["FACET_RUNTIME_DIR"]["from"]),
              (place.runtime, "environment"))
        equal(settings["FACET_IDLE_EXIT_S"]["from"], "default")
        contains(settings["FACET_IDLE_EXIT_S"]["help"], "without a caller, an ephemeral vGPU or a vGPU in use")
        with open(os.path.join(SOURCE, "man", "facet.1"), encoding="utf-8") as file:
            page = file.read()
        for variable in settings:
            contains(page, f".It Ev {variable}\n")


@test
def config_checks_the_daemons_file():
    with Place() as place:
        path = place.path("facetd.conf")
        equal(place.json("config", "--json")["daemon_file"]["path"], "/etc/facet/facetd.conf")
        done = place.facet("config", "--file", path)
        equal((done.returncode, "No such file" in done.stderr), (1, True), done.stderr)
        with open(path, "w", encoding="utf-8") as file:
            file.write("[facetd]\nslice_us = 700\nlog = debug\n")
        done = place.json("config", "--json", "--file", path)
        equal(done["daemon_file"], {"path": path, "exists": True, "settings": {"slice_us": "700", "log": "debug"}})
        equal({row["variable"]: row["from"] for row in done["settings"]}["FACET_SLICE_US"], "default", "of this command")
        contains(place.facet("config", "--file", path).stdout,
                 f"A daemon that is not private reads {path}:\n    log = debug\n    slice_us = 700\n")
        with open(path, "a", encoding="utf-8") as file:
            file.write("parallel = 1000\n")
        for arguments in ([], ["--json"]):
            done = place.facet("config", "--file", path, *arguments)
            equal(done.returncode, 2, done.stdout)
            contains(done.stderr, f"{path}:4: FACET_PARALLEL '1000': expected 0 to 128")


# Texts in installed files that look like variables of Facet, but are names of constants or variables of containers.
NO_VARIABLES = re.compile("FACET_(CAN_[A-Z_]+|HANDLE|OWNER|RESERVATION|GLOBAL_DEVICE_IDS|MEMORY_LIMITS|RESOURCE_VIRTUALIZED)")


@test
def config_lists_every_variable_that_is_read():
    read = {}
    for room in ("apps", "include", "integrations", "interpose", "providers", "src"):
        for folder, _, names in os.walk(os.path.join(SOURCE, room)):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith((".c", ".h", ".cpp", ".cc", ".py")):
                    with open(path, encoding="utf-8") as file:
                        for variable in re.findall(r'"(FACET_[A-Z0-9_]+)"', file.read()):
                            read.setdefault(variable, os.path.relpath(path, SOURCE))
    read = {variable: path for variable, path in read.items() if not NO_VARIABLES.fullmatch(variable)}
    with open(os.path.join(SOURCE, "man", "facet.1"), encoding="utf-8") as file:
        page = file.read()
    with Place() as place:
        done = place.json("config", "--json")
        shown = place.facet("config", env={"FACET_CPU_UNITS": "3"}).stdout
    listed = [row["variable"] for row in done["settings"] + done["variables"]]
    equal(len(listed), len(set(listed)), "each once")
    equal({variable: path for variable, path in read.items() if variable not in listed}, {}, "read and not listed")
    for row in done["settings"] + done["variables"]:
        equal(len(row["help"]) > 10, True, row["variable"])
        contains(page, f".It Ev {row['variable']}\n")
        contains(shown, f"\n{row['variable']}\n    ")
    equal(re.search(r"^FACET_CPU_UNITS +3 +environment$", shown, re.M) is not None, True, shown)
    # A variable in the table that no code reads is an error, too.
    equal([variable for variable in listed if not is_used(variable)], [])


# A value that the variable's user refuses, and a part of the reason.
WRONG = (
    ("FACET_CPU_COMMIT", "on", "expected 0 or 1"),
    ("FACET_CPU_GROUP_LIMIT", "0", "from 1 to 86400000"),
    ("FACET_CPU_MEMORY", "1024", "from 2097152 to"),
    ("FACET_CPU_UNITS", "257", "from 1 to 256"),
    ("FACET_CPU_WATCHDOG", "ten", "from 1 to 86400000"),
    ("FACET_CUDA_DRIVER", "/nowhere/libcuda.so.1", "no such file"),
    ("FACET_KEEP_ENV", "LD_LIBRARY_PATH, HOME", "expected names of variables"),
    ("FACET_LIB_DIR", "/", "facetd is not in /"),
    ("FACET_PCI_RULES_DIR", "/dev/null", "expected a folder"),
    ("FACET_QUIET", "yes", "expected 0 or 1"),
    ("FACET_REAL_CUDA", "/dev/null", "not a shared library"),
    ("FACET_ROCM_PARTITIONS", "2", "expected 0 or 1"),
    ("FACET_ROCM_STATE", "/dev/null", "expected a folder"),
    ("FACET_SIM_STATE", "/dev/null", "expected a folder"),
    ("FACET_TENSORFUSION_IDLE_MS", "0", "from 1 to 86400000"),
    ("FACET_TENSORFUSION_PLACE", "thread", "expected child or process"),
)


@test
def config_shows_refused_values():
    with Place() as place:
        for variable, value, reason in WRONG:
            done = place.facet("config", "--json", env={variable: value})
            shown = json.loads(done.stdout)
            row = next(row for row in shown["settings"] + shown["variables"] if row["variable"] == variable)
            equal((done.returncode > 0, row["from"], row["value"]), (True, "invalid", value), f"{row}")
            contains(row["reason"], variable)
            contains(row["reason"], reason)
            contains(done.stderr, reason)
        done = place.facet("config", env={"FACET_CPU_UNITS": "257", "FACET_CPU_COMMIT": "on"})
        equal(re.search(r"^FACET_CPU_UNITS +257 +invalid$", done.stdout, re.M) is not None, True, done.stdout)
        equal(done.stderr.count("expected"), 2, done.stderr)
        right = {"FACET_CPU_COMMIT": "0", "FACET_CPU_UNITS": "256", "FACET_QUIET": "1", "FACET_SIM_STATE": "/nowhere/x"}
        done = place.facet("config", "--json", env=right)
        equal((done.returncode, done.stderr), (0, ""))
        equal([row for row in json.loads(done.stdout)["variables"] if "reason" in row], [])


@test
def config_asks_the_simulation():
    """Only the wrong one of the simulation's variables is shown as invalid."""
    with Place() as place:
        env = {"FACET_LIB_DIR": BUILD, "FACET_SIM_PROFILE": "h100", "FACET_SIM_CLOCK": "stepped"}
        equal(place.facet("config", env=env).returncode, 0)
        for variable, value in (("FACET_SIM_CLOCK", "fast"), ("FACET_SIM_PROFILE", "nowhere/at all"),
                                ("FACET_SIM_FAULTS", "nowhere/at all"), ("FACET_SIM_VISIBLE_DEVICES", "0.5?")):
            done = place.facet("config", "--json", env={**env, variable: value})
            invalid = [row for row in json.loads(done.stdout)["variables"] if row["from"] == "invalid"]
            equal([row["variable"] for row in invalid], [variable], f"{variable}={value}: {done.stderr}")
            contains(done.stderr, variable)


@test
def provider_cpu_refuses_the_values_that_config_refuses():
    cpu = os.path.join(BUILD, "facet-provider-cpu.so")
    with Place() as place:
        for variable, values in (("FACET_CPU_COMMIT", ("0", "1", "2", "x")), ("FACET_CPU_UNITS", ("0", "1", "256", "257")),
                                 ("FACET_CPU_MEMORY", ("2097151", "2097152", "1x", str(2**46 + 1))),
                                 ("FACET_CPU_WATCHDOG", ("0", "1", "86400000", "86400001"))):
            for value in values:
                env = {"FACET_PROVIDER_PATH": cpu, "FACET_LIB_DIR": BUILD, "FACET_CPU_MEMORY": "64000000", variable: value}
                done = place.facet("provider", "list", "--json", env=env)
                said = done.stdout + done.stderr
                shown = json.loads(place.facet("config", "--json", env={variable: value}).stdout)
                row = next(row for row in shown["variables"] if row["variable"] == variable)
                equal(row["from"] == "invalid", variable in said, f"{variable}={value}: {row}, {said}")


@test
def an_unknown_variable_is_shown_with_the_one_that_was_meant():
    env = {"FACET_CPU_UNIST": "3", "FACET_TYPO": "1", "FACET_RESERVATION": "7"}
    with Place() as place:
        done = place.facet("config", "--json", env=env)
        equal(done.returncode, 0, done.stderr)
        equal(sorted(json.loads(done.stdout)["unknown"], key=lambda row: row["variable"]),
              [{"variable": "FACET_CPU_UNIST", "value": "3", "did_you_mean": "FACET_CPU_UNITS"},
               {"variable": "FACET_TYPO", "value": "1"}])
        contains(done.stderr, "FACET_CPU_UNIST is no variable of Facet; did you mean 'FACET_CPU_UNITS'?")
        shown = place.facet("config", env=env).stdout
        equal(re.search(r"^FACET_TYPO +1 +unknown$", shown, re.M) is not None, True, shown)
        equal(json.loads(place.facet("config", "--json").stdout)["unknown"], [])
        done = place.facet("run", "-v", "true", env=env)
        equal(done.stderr.count("FACET_TYPO is no variable of Facet"), 1, done.stderr)
        equal("FACET_TYPO" in place.facet("run", "true", env=env).stderr, False)


def is_used(variable):
    """Whether a file other than the tables names the variable."""
    found = subprocess.run(["grep", "-rlE", f'"{variable}"|FACET_SETTING_{variable.removeprefix("FACET_")}\\b',
                            *(os.path.join(SOURCE, room) for room in ("apps", "integrations", "interpose", "providers", "src"))],
                           capture_output=True, text=True, check=False).stdout.split()
    return any(os.path.basename(path) not in ("variables.c", "config.h") for path in found)


@test
def man_pages_name_every_option():
    text = ""
    for page in ("facet.1", "facet-compile.1", "facet-kernel.1", "facet-pci.1", "facet-place.1", "facet-run.1",
                 "facet-simulate.1", "facet-spec.1", "facet-top.1", "facet-vgpu.1"):
        with open(os.path.join(SOURCE, "man", page), encoding="utf-8") as file:
            text += file.read()
    with Place() as place:
        for command in COMMANDS[1:]:
            for option in set(re.findall(r"--([a-z-]+[a-z])", help_of(place, command))):
                contains(text, f"Fl -{option}")


@test
def man_pages_pass_the_linter():
    linter = shutil.which("mandoc")
    if not linter:
        raise Skip("mandoc is not installed")
    for page in os.listdir(os.path.join(SOURCE, "man")):
        if page == "meson.build":
            continue
        done = subprocess.run([linter, "-Tlint", "-Wwarning", os.path.join(SOURCE, "man", page)], capture_output=True,
                              text=True, timeout=60, check=False)
        equal((done.returncode, done.stdout), (0, ""), page)


def complete(place, *words):
    """The words that bash offers to complete the last of `words`."""
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE};'
              ' _facet; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", os.path.join(SOURCE, "completions", "facet.bash"),
                           *words], capture_output=True, text=True, timeout=60, env=place.env, check=False)
    equal((done.returncode, done.stderr), (0, ""), "bash")
    return done.stdout.split()


@test
def completion_offers_commands_options_and_names():
    with Place() as place:
        equal(complete(place, FACET, "v"), ["vgpu", "version"])
        equal(complete(place, FACET, "vgpu", "f"), ["freeze"])
        equal(complete(place, FACET, "run", "--rep"), ["--report"])
        equal(complete(place, FACET, "run", "--mode", "s"), ["shared", "soft"])
        equal(complete(place, FACET, "vgpu", "destroy", "--f"), ["--force"])
        equal(complete(place, FACET, "help", "t"), ["top"])
        equal(complete(place, FACET, "pci", "a"), ["attach"])
        equal(complete(place, FACET, "pci", "detach", "--qm"), ["--qmp"])
        equal(complete(place, FACET, "pci", "persist", "a"), ["add", "apply", "assert"])
        equal(complete(place, FACET, "pci", "persist", "add", "--al"), ["--alone"])
        equal(complete(place, FACET, "place", "r"), ["release", "replay"])
        equal(complete(place, FACET, "place", "--d"), ["--dry-run"])
        equal(complete(place, FACET, "place", "--slot", "a.device=1", "--affinity", "p"), ["prefer-single-node"])
        equal(complete(place, FACET, "place", "fleet", "--policy", "be"), ["best_fit"])
        place.facet("vgpu", "create", "--name", "alice")
        equal(complete(place, FACET, "vgpu", "show", "a"), ["alice"])
        equal(complete(place, FACET, "run", "--vgpu", ""), ["alice"])


@test
def completion_starts_no_daemon():
    with Place() as place:
        equal(complete(place, FACET, "vgpu", "show", ""), [])
        equal(place.exists("run"), False, "a runtime folder")


@test
def completion_knows_every_command():
    with Place() as place:
        offered = set(complete(place, FACET, ""))
        equal({command[0] for command in COMMANDS[1:]} | {"--help", "--version"}, offered)


main()
