#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tools of tools/ must find each fault. Prints TAP.

Owns: made-up trees, logs and package lists with faults in them. Never: changes the real tree or installs anything.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True


def load(name):
    """Loads a tool, whose file has no suffix, as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# ---- check-includes ----

GOOD = {
    "include/facet/error.h": "",
    "src/base/clock.h": "#include <facet/error.h>\n",
    "src/compute/fair.c": '#include "base/clock.h"\n#include <stdint.h>\n',
    "src/limiter/tenant.h": '#include "base/clock.h"\n',
    "src/vgpu/vgpu.c": '#include "limiter/tenant.h"\n',
    "apps/facetd/main.c": '#include "limiter/tenant.h"\n#include "daemon.h"\n',
    "apps/facetd/daemon.h": "",
    "providers/kit/kit.h": "#include <facet/error.h>\n",
    "providers/one/one.c": '#include "kit.h"\n#include <CL/cl.h>\n',
    "interpose/opencl/layer.c": '#include "limiter/tenant.h"\n#include <CL/cl.h>\n',
    "examples/burn.c": "#include <CL/cl.h>\n",
    "tests/unit/compute/test_fair.c": '#include "compute/fair.c"\n',
}
BAD = {
    "src/base/list.c": '#include "limiter/tenant.h"\n',
    "src/memory/pool.c": "\n#include <CL/cl.h>\n",
    "src/spec/spec.c": '#include "compute/fair.c"\n',
    "src/compute/peek.c": '#include "vgpu/vgpu.c"\n',
    "src/device/table.c": '#  include "limiter/tenant.h"\n',
    "providers/two/two.c": '#include "base/clock.h"\n',
    "providers/three/three.c": '#include "../one/one.c"\n',
    "interpose/opencl/deep.c": '#include "vgpu/vgpu.c"\n',
    "examples/inside.c": '#include "../src/base/clock.h"\n',
    "include/facet/leak.h": '#include "base/clock.h"\n',
    "src/stray.c": "",
}


def test_includes_accepts_a_good_tree():
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), GOOD)
        assert load("check-includes").check(Path(folder).resolve()) == []


def test_includes_each_bad_file_is_named():
    checker = load("check-includes")
    for name, text in BAD.items():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), {**GOOD, name: text})
            faults = checker.check(Path(folder).resolve())
            line = 2 if text.startswith("\n") else 1
            assert len(faults) == 1 and faults[0].startswith(f"{name}:{line}: "), (name, faults)


def test_includes_exits_with_1_if_there_is_a_fault():
    with tempfile.TemporaryDirectory() as folder:
        command = [ROOT / "tools" / "check-includes", folder]
        write(Path(folder), GOOD)
        assert subprocess.run(command, check=False).returncode == 0
        write(Path(folder), {"src/base/list.c": BAD["src/base/list.c"]})
        result = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
        assert result.returncode == 1 and "src/base/list.c:1:" in result.stdout


# ---- check-arguments ----

ROOM = {"include/facet/memory.h": "/* limit */\nint facet_grow(uint64_t memory_bytes);\n"}


def function_that_refuses(name):
    return f'int grow(void)\n{{\n    return facet_error_argument(error, FACET_QUOTA, "{name}",\n        "no");\n}}\n'


def test_arguments_of_errors_are_in_a_header():
    checker = load("check-arguments")
    for name, faults in (("memory_bytes", 0), ("limit_bytes", 1), ("limit", 1)):
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), {**ROOM, "src/memory/grow.c": function_that_refuses(name)})
            found = checker.check(Path(folder).resolve())
            assert len(found) == faults and all(line.startswith(f"src/memory/grow.c:3: {name} ") for line in found), found
    assert checker.check(ROOT) == []


# ---- check-promises ----


def test_promises_of_this_project_have_no_faults():
    checker = load("check-promises")
    text = (ROOT / "docs/promises.md").read_text()
    wrong, kept, _ = checker.check(text)
    assert wrong == [] and kept > 20, wrong
    assert checker.missing(text) == []
    assert checker.missing("\n".join(line for line in text.splitlines() if "`defragment`" not in line)) == ["defragment"]


def test_promises_each_fault_is_named():
    checker = load("check-promises")
    proof = "`memory/space: test_usage_of_pools_and_pages_is_reported`"
    faults = {
        f"| a | `facet_no_such_thing()` | {proof} |": "does not declare facet_no_such_thing()",
        f"| a | | {proof} |": "names no API",
        "| a | `facet_space_create()` | |": "names no test",
        "| a | `facet_space_create()` | `memory/nowhere: test_x` |": "there is no test memory/nowhere",
        "| a | `facet_space_create()` | `memory/space: test_x` |": "memory/space has no test_x",
        f"| a | `facet_memory_config.streams` | {proof} |": "struct facet_memory_config of include/facet has no streams",
        "| a | `facet_space_create()` | `memory/space: take_block` |": "memory/space does not run take_block",
    }
    for row, problem in faults.items():
        wrong, kept, still_open = checker.check("| promise | API | proof |\n|---|---|---|\n" + row)
        assert len(wrong) == 1 and wrong[0].endswith(problem) and (kept, still_open) == (1, 0), (row, wrong)
    assert checker.check("| a | open | |") == ([], 0, 1)
    assert len(checker.check("| a | open | |", every=True)[0]) == 1


# ---- coverage ----

WAYS = """int main(int count, char **words)
{
    if (count == 2)
        return words[1][0] == 'x';
    return 3;
}
"""


def test_coverage_adds_up_the_lines_of_all_programs():
    """If two programs are built from a source, a line counts as run if any of the two runs it."""
    tool = load("coverage")
    with tempfile.TemporaryDirectory() as folder:
        tool.ROOT = Path(folder).resolve()
        write(tool.ROOT, {"src/room/ways.c": WAYS, "tests/others.c": WAYS, "build/empty": ""})
        build = tool.ROOT / "build"
        seen = []
        for source, *words in (("src/room/ways.c",), ("src/room/ways.c", "a"), ("tests/others.c", "a", "b")):
            program = f"{Path(source).stem}-{len(words)}"
            subprocess.run(["cc", "--coverage", "-o", program, f"../{source}"], cwd=build, check=True)
            if not seen:
                seen.append(tool.measured(build)["src/room"])  # nothing ran
            subprocess.run([build / program, *words], cwd=build, check=False)
            seen.append(tool.measured(build)["src/room"])
        assert seen[0][1] == 0 and seen[0][0] == seen[-1][0], seen
        assert 0 < seen[1][1] < seen[2][1] == seen[3][1] == seen[3][0], seen
        assert set(tool.measured(build)) == {"src/room"}, seen


# ---- run-tests ----

PROGRAMS = {
    "good": ("tap", "printf '1..2\\nok 1 - a\\nok 2 - b # SKIP none\\n'"),
    "bad": ("tap", "printf '1..2\\nok 1 - a\\nnot ok 2 - b\\n'; exit 1"),
    "dies": ("tap", "kill -SEGV $$"),
    "dies-late": ("tap", "printf '1..2\\nok 1 - a\\n'; kill -SEGV $$"),
    "stops-short": ("tap", "printf '1..3\\nok 1 - a\\n'"),
    "fails-after": ("tap", "printf '1..1\\nok 1 - a\\n'; exit 1"),
    "skips-all": ("tap", "printf '1..0 # SKIP none\\n'"),
    "skips-one": ("tap", "printf '1..2\\nok 1 - a\\nok 2 # SKIP b\\n'"),
    "skips-badly": ("tap", "printf '1..2\\nok 1 - a\\nnot ok 2 # SKIP b\\n'"),
    "plain": ("exitcode", "exit 0"),
    "plain-bad": ("exitcode", "exit 3"),
    # "unsteady" fails in its first run, "seldom" in all runs except the second.
    "unsteady": ("tap", "printf '1..1\\n'; echo >>runs; test $(wc -l <runs) != 1 || { echo not ok 1 - a; exit 1; }; "
                        "echo ok 1 - a"),
    "seldom": ("tap", "printf '1..1\\n'; echo >>runs; test $(wc -l <runs) = 2 || { echo not ok 1 - a; exit 1; }; "
                      "echo ok 1 - a"),
    "sanitizer": ("tap", "printf '1..1\\n'; echo >>runs; test $(wc -l <runs) != 1 || "
                         "{ echo WARNING: ThreadSanitizer: data race >&2; exit 66; }; echo ok 1 - a"),
}


@contextlib.contextmanager
def silence_output():
    """Discards the standard output of this process and of its children, because standard output must be TAP."""
    sys.stdout.flush()
    kept, sink = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(sink)


def count_results(names):
    """The numbers of passed, failed, skipped and unsteady cases that run-tests reports for a project of these programs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lines = ["project('made-up', 'c')", "option = get_option('tests')", "shell = find_program('sh')"]
        for name in names:
            protocol, script = PROGRAMS[name]
            quoted = script.replace("'", '"').replace("\\", "\\\\")
            lines.append(f"test('{name}', shell, args: ['-c', '''{quoted}'''], protocol: '{protocol}')")
        write(root, {"meson.build": "\n".join(lines) + "\n",
                     "meson_options.txt": "option('tests', type: 'feature')\noption('opencl', type: 'feature')\n"})
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": root}
        subprocess.run(["meson", "setup", "build"], check=True, **quiet)
        with silence_output():
            counted, failures = load("run-tests").run_meson_tests(root / "build", ["--quiet"], {})
        assert sum(failure.cases for failure in failures) == counted.failed + counted.unsteady, failures
        return counted.passed, counted.failed, counted.skipped, counted.unsteady


def test_compiles_are_shared_within_a_run_only():
    runner = load("run-tests")
    folders = []
    for _ in range(2):
        with runner.shared_compiles():
            folders.append(Path(os.environ["POCL_CACHE_DIR"]))
            assert not list(folders[-1].iterdir()), folders
            write(folders[-1], {"compiled": "a kernel"})
        assert not folders[-1].exists() and "POCL_CACHE_DIR" not in os.environ, folders
    assert folders[0] != folders[1], folders


def test_count_adds_up_passed_and_skipped_cases():
    assert count_results(["good", "skips-all", "plain"]) == (2, 0, 2, 0)


def test_count_takes_only_ok_with_skip_for_skipped():
    assert count_results(["skips-one"]) == (1, 0, 1, 0)
    assert count_results(["skips-badly"]) == (1, 1, 0, 0)


def test_count_each_failure_once():
    for name, passed in [("bad", 1), ("dies", 0), ("dies-late", 1), ("stops-short", 1), ("fails-after", 1),
                         ("plain-bad", 0)]:
        assert count_results([name, "plain"]) == (passed + 1, 1, 0, 0), name


def test_count_a_test_that_passes_twice_alone_is_unsteady():
    assert count_results(["unsteady", "plain"]) == (1, 0, 0, 1)


def test_count_as_failed_a_test_that_fails_again_or_has_a_sanitizers_report():
    for name in ("seldom", "sanitizer"):
        assert count_results([name, "plain"]) == (1, 1, 0, 0), name
    assert count_results(["unsteady", "bad", "dies", "plain-bad"])[3] == 0


# ---- setup ----

def run_setup(folder, installed, *goals, apt=None):
    """Runs tools/setup where only these packages are installed. `apt` is the script of a fake apt-get; with it, as root."""
    fakes = {
        "dpkg-query": f"#!/bin/sh\nprintf '%s installed\\n' {' '.join(installed)}\nexit 1\n",
        "apt-get": f"#!/bin/sh\n{apt or 'echo called >&2; exit 9'}\n",
        "id": f"#!/bin/sh\necho {0 if apt else 1000}\n",
        "sudo": "#!/bin/sh\nexit 1\n",
    }
    write(Path(folder), fakes)
    for name in fakes:
        (Path(folder) / name).chmod(stat.S_IRWXU)
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
    return subprocess.run([ROOT / "tools" / "setup", *goals], env=environment, check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def packages(*groups):
    lines = (ROOT / "tools" / "packages").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return sorted({name for row in rows if row[0] in groups for name in row[1:]})


def test_setup_prints_nothing_when_all_packages_are_there():
    with tempfile.TemporaryDirectory() as folder:
        result = run_setup(folder, packages("build", "library", "runtime"), "demo")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", ""), result


def test_setup_names_missing_packages():
    wanted = packages("build", "library", "runtime")
    for missing in (wanted[0], wanted[-1]):
        with tempfile.TemporaryDirectory() as folder:
            result = run_setup(folder, [name for name in wanted if name != missing])
            assert result.returncode == 1 and "called" not in result.stderr, result
            assert f"--no-install-recommends {missing}\n" in result.stderr, result.stderr


def test_setup_says_how_much_it_downloads():
    with tempfile.TemporaryDirectory() as folder:
        addresses = "'http://a/one.deb' one.deb 81200000 SHA256:1\\n'http://a/two.deb' two.deb 40000000 SHA256:2\\n"
        result = run_setup(folder, [], "demo", apt=f'case $1 in --print-uris) printf "Reading\\n{addresses}" ;; esac')
        assert result.returncode == 0 and "121 MB to download\n" in result.stderr, result


def test_setup_refuses_an_unknown_goal():
    with tempfile.TemporaryDirectory() as folder:
        result = run_setup(folder, [], "everything")
        assert result.returncode == 2 and "'everything'" in result.stderr, result


# ---- configure ----

# A project that uses a header if it exists, and looks for it as Facet's meson.build does (find_header).
PROJECT = """project('asks', 'c', meson_version: '>=1.0')
cc = meson.get_compiler('c')
find_header = FIND
if run_command(cc, find_header, 'comes_late.h', check: false).returncode() == 0
  configure_file(output: 'found', configuration: {'found': 1})
endif
"""


def run_configure(folder, *options):
    """Runs tools/configure on a made-up project with a list of installed packages."""
    tools = Path(folder) / "bin"
    listing = f"#!/bin/sh\ncat {folder}/installed\nexit 1\n"  # dpkg-query fails if it does not know a package
    write(tools, {"dpkg-query": listing})
    (tools / "dpkg-query").chmod(stat.S_IRWXU)
    environment = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}", C_INCLUDE_PATH=f"{folder}/include")
    return subprocess.run([ROOT / "tools" / "configure", "build", *options], env=environment, check=False, text=True, cwd=folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def project(folder):
    find = re.search(r"^find_header = (.*)$", (ROOT / "meson.build").read_text(), re.MULTILINE)[1]
    write(Path(folder), {"meson.build": PROJECT.replace("FIND", find), "installed": "one 1.0 installed\n", "include/other.h": ""})


def test_configure_looks_again_after_a_package_was_installed():
    with tempfile.TemporaryDirectory() as folder:
        project(folder)
        found, plan = Path(folder) / "build" / "found", Path(folder) / "build" / "build.ninja"
        assert run_configure(folder).returncode == 0 and not found.exists()
        first = plan.stat().st_mtime_ns
        again = run_configure(folder)
        assert (again.returncode, again.stdout, again.stderr) == (0, "", ""), again
        assert plan.stat().st_mtime_ns == first, "it was set up again although nothing had changed"
        write(Path(folder), {"include/comes_late.h": "", "installed": "late 2.0 installed\none 1.0 installed\n"})
        assert run_configure(folder).returncode == 0 and found.exists()


def test_configure_shows_why_and_looks_again_after_a_failure():
    with tempfile.TemporaryDirectory() as folder:
        project(folder)
        good = (Path(folder) / "meson.build").read_text()
        assert run_configure(folder).returncode == 0
        write(Path(folder), {"meson.build": good + "error('no such thing')\n", "installed": "two 1.0 installed\n"})
        for _ in range(2):
            result = run_configure(folder)
            assert result.returncode == 1 and "no such thing" in result.stderr, result
        write(Path(folder), {"meson.build": good})
        assert run_configure(folder).returncode == 0


def test_no_meson_file_calls_a_function_whose_answer_is_cached():
    """Meson caches these functions' results, even over "setup --reconfigure"; the build must use find_header instead."""
    kept = re.compile(r"has_headers:|\.(has_header|has_header_symbol|check_header|has_function|has_type|has_member|compiles|"
                      r"links|run|sizeof|alignment|compute_int|get_define)\(")
    files = subprocess.run(["git", "ls-files", "*meson.build"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.split()
    assert "meson.build" in files
    faults = [f"{name}:{number}: {line.strip()}" for name in files
              for number, line in enumerate((ROOT / name).read_text().splitlines(), 1) if kept.search(line)]
    assert not faults, faults


# ---- kernel ----

def run_kernel(folder, download="touch linux-image.deb"):
    """Runs tools/kernel in a made-up tree, with an apt that knows one package, and a dpkg-deb that unpacks a small one."""
    package = Path(folder) / "package"
    write(package, {name: "" for name in (
        "boot/vmlinuz-6.1.0-9", "boot/config-6.1.0-9", "lib/modules/6.1.0-9/modules.builtin",
        "lib/modules/6.1.0-9/kernel/drivers/gpu/big.ko",
        "lib/modules/6.1.0-9/kernel/drivers/vfio/pci/vfio-pci.ko",
        *(f"lib/modules/6.1.0-9/kernel/{name}/one.ko" for name in (
            "block", "crypto", "lib", "virt", "arch/x86/crypto", *(f"drivers/{name}" for name in (
                "block", "nvme", "pci", "vfio", "virtio")))))})
    fakes = {
        "uname": "#!/bin/sh\necho x86_64\n",
        "id": "#!/bin/sh\necho 1000\n",
        "apt-cache": "#!/bin/sh\necho linux-image-amd64\necho '  Depends: linux-image-6.1.0-9-amd64'\n",
        "apt-get": f'#!/bin/sh\necho "$@" >>{folder}/calls\n{download}\n',
        "dpkg-deb": f"#!/bin/sh\nexec tar -c -C {package} ./boot ./lib\n",
    }
    write(Path(folder) / "bin", fakes)
    write(Path(folder) / "tree", {"tools/kernel": (ROOT / "tools" / "kernel").read_text()})
    for name in fakes:
        (Path(folder) / "bin" / name).chmod(stat.S_IRWXU)
    environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
    return subprocess.run(["bash", Path(folder) / "tree" / "tools" / "kernel"], env=environment, check=False, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_kernel_unpacks_only_the_needed_files():
    with tempfile.TemporaryDirectory() as folder:
        first, second = run_kernel(folder), run_kernel(folder)
        kernel = Path(folder) / "tree" / "build-kernel"
        assert first.returncode == 0, first
        assert (kernel / "boot" / "vmlinuz-6.1.0-9").exists()
        assert len(list(kernel.rglob("one.ko"))) == 10 and not list(kernel.rglob("big.ko"))
        assert [path.name for path in kernel.parent.iterdir() if path.name.startswith("build")] == ["build-kernel"]
        assert (second.returncode, second.stdout, second.stderr) == (0, "", ""), second
        calls = (Path(folder) / "calls").read_text().splitlines()
        assert len(calls) == 1 and calls[0].endswith("linux-image-6.1.0-9-amd64"), calls


def test_kernel_leaves_no_folder_after_a_failed_download():
    with tempfile.TemporaryDirectory() as folder:
        result = run_kernel(folder, "exit 100")
        assert result.returncode == 1 and "no linux-image-amd64 to download" in result.stderr, result
        assert not list((Path(folder) / "tree").glob("build-kernel*"))


def test_every_library_has_its_package():
    """Each dependency that meson.build demands is provided by a package of the build, library or test groups."""
    text = (ROOT / "meson.build").read_text()
    names = set(re.findall(r"dependency\('([A-Za-z0-9_.+-]+)'", text)) - {"threads", "dl"}
    listed = " ".join(packages("build", "library", "test")).lower()
    absent = [name for name in names if name.lower().removeprefix("lib") not in listed and name != "OpenCL"]
    assert names and not absent, absent


# ---- same-code ----

CODE = """/* One. */
#define TWICE(x) ((x) + (x)) /* of x */
#define PAIR (1, 2)
static const char *text = "/* no comment */ // none"; // one
int f(void)
{
    return TWICE('"'); /* "two" */
}
"""


def test_same_code_sees_every_token_and_no_comment():
    same = load("same-code").same
    for old, new in [("/* One. */", "/*\n * Two,\n * three.\n */"), ("// one", ""), (" /* of x */", ""), ("    return", "\n\treturn"),
                     ('/* "two" */', "/* it's two */"), ("((x) + (x))", "((x)  + \\\n (x))")]:
        assert same("a.c", CODE, CODE.replace(old, new)), new
    for old, new in [("(x) + (x)", "(x) - (x)"), ("/* no comment */ // none", "/* no */ // none"), ("TWICE(x)", "TWICE (x)"), ("'\"'", "'b'"),
                     ("PAIR (1", "PAIR(1"), ("(1, 2)\n", "(1, 2) "), ("int f", "intf"), ("/* One. */", "/* One. NOLINT(x) */")]:
        changed = CODE.replace(old, new)
        assert changed != CODE and not same("a.c", CODE, changed), new
    assert same("a.py", '"""One."""\nx = 1  # two\n', '"""Two."""\nx = 1\n') and not same("a.py", "x = 1\n", "x = 2\n")
    assert not same("a.py", '"""One."""\nprint(__doc__)\n', '"""Two."""\nprint(__doc__)\n')
    assert same("a.md", "one", "two") and not same("a.sh", "# one\n", "# two\n") and not same("a.c", None, CODE)


def test_same_code_names_each_changed_file():
    with tempfile.TemporaryDirectory() as folder:
        def git(*arguments):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
        root = Path(folder)
        write(root, {"a/one.c": CODE, "a/two.h": CODE, "b/three.c": CODE, "b/four.c": CODE})
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "all")
        write(root, {"a/one.c": CODE.replace("One", "Two"), "b/three.c": CODE.replace("(1", "(3"), "b/five.c": ""})
        (root / "b/four.c").unlink()
        for rooms, status, said in [((), 1, ["same a/one.c", "differs b/five.c", "differs b/four.c", "differs b/three.c"]),
                                    (("a",), 0, ["same a/one.c"])]:
            result = subprocess.run([ROOT / "tools" / "same-code", "HEAD", *rooms], cwd=folder, check=False, text=True,
                                    stdout=subprocess.PIPE)
            lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
            assert (result.returncode, lines[:-1]) == (status, said), result


# ---- check-words ----


def test_words_counts_each_phrase_by_room():
    tool = load("check-words")
    phrases = {
        "who": "A lock is for who waits.", "what": "It frees memory. What is gone is gone for good.", "body": "It wakes nobody, ever.",
        "same": "The same. ", "owns": "Owns: what lock.h says.", "seed": "Source: seed 001.", "image": "The thread knocks.",
        "one": "A lock is held. One that is free is taken.", "told": "Its owner cannot be told.", "old": "A thread waits for ever.",
        "never": "Never: a socket.",
    }
    for kind, phrase in phrases.items():
        for text in (f"/* {phrase} */\n", f"/*\n * {phrase.replace(' ', chr(10) + ' * ', 1)}\n */\n", f"// {phrase}\n"):
            counts = tool.count([("src/base/lock.c", text)])["src/base"]
            assert counts[kind] == 1 and tool.total(counts) == 1, (kind, text, counts)
    assert tool.count([("src/base/a.c", "/* One\n */\n")])["src/base"]["lonely"] == 1
    plainly = "/* The thread that holds the lock. The caller who waits: bury() ends it, and so does lock->door. */ char s[] = \"nobody\";\n"
    rooms = tool.count([("src/base/a.c", plainly), ("include/facet/a.h", "/* One two. */"), ("tests/a.c", ""), ("docs/a.md", "nobody")])
    assert {name: tool.total(counts) for name, counts in rooms.items()} == {"src/base": 0, "include": 0, "tests": 0}
    assert rooms["include"]["words"] == 2


def test_words_goal_is_one_for_each_thousand_and_at_least_three():
    for phrases, plain, kept in ((3, 0, True), (4, 0, False), (4, 4000, True), (5, 4000, False)):
        rooms = load("check-words").count([("src/base/a.c", "/* nobody */ int x; " * phrases + "/*" + " word" * plain + " */")])
        assert (load("check-words").above_goal(rooms) == {}) == kept, rooms


# ---- check-glossary ----


def test_glossary_of_this_project_has_no_faults():
    tool = load("check-glossary")
    assert tool.check((ROOT / tool.GLOSSARY).read_text(encoding="utf-8"), tool.tree()) == []
    assert len(list(tool.words_of((ROOT / tool.GLOSSARY).read_text(encoding="utf-8")))) > 50


def test_glossary_each_fault_is_named():
    tool = load("check-glossary")
    table = "# Words\n\n| word | meaning |\n|---|---|\n| lease, work-item | a |\n| gate | b |\n"
    texts = ["/* the work\n * item of a lease */", "int gates;"]
    assert tool.check(table, texts) == []
    for row, said in (("Lease", "Lease is defined in line 5"), ("door", "door is nowhere in")):
        faults = tool.check(f"{table}| {row} | c |\n", texts)
        assert len(faults) == 1 and faults[0].startswith(f"docs/glossary.md:7: {said}"), faults
    assert tool.check(table, ["release, work-item, gate"])[0].startswith("docs/glossary.md:5: lease ")


# ---- documents and results ----


def test_documents_stay_short():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(readme) <= 120, f"README.md has {len(readme)} lines, of 120"
    long = [(path.name, words) for path in sorted((ROOT / "docs" / "adr").glob("0*.md"))
            if (words := len(path.read_text(encoding="utf-8").split())) > 530]
    assert not long, f"decisions of more than a page (530 words): {long}; the reasoning goes to docs/design/"


def test_documents_have_no_phrase_that_check_words_counts():
    patterns = load("check-words").PATTERNS
    known = {"CONTRIBUTING.md": 3, "0002-memory-is-the-sum-of-slots.md": 2, "docs/adr/README.md": 1}  # CONTRIBUTING.md quotes such phrases
    for pattern in ("*.md", "docs/**/*.md", "integrations/*/README.md", "man/*.[1-8]"):
        for path in ROOT.glob(pattern):
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL).replace("|", " . ")
            found = [match[0] for kind in ("who", "body", "same", "image") for match in patterns[kind].finditer(text)]
            allowed = next((count for name, count in known.items() if str(path).endswith(f"/{name}")), 0)
            assert len(found) <= allowed, f"{path.name}: {found}"


def test_results_are_the_latest_tables():
    names = sorted(path.name for path in (ROOT / "bench" / "results").iterdir())
    assert all(name.endswith(".md") for name in names), f"raw samples in {names}"
    runs = {}
    for name in names:
        if name != "README.md":
            text = (ROOT / "bench" / "results" / name).read_text(encoding="utf-8")
            runs.setdefault((name[11:], re.search("Measured on: cpu ([^,]*)", text)[1]), []).append(name)
    several = [found for found in runs.values() if len(found) > 1]
    assert several == [["2026-11-24-kernel.md", "2026-11-26-kernel.md"]], several  # on two processors, a Zen 5 and a Zen 4, that have the same name


def test_a_bench_leaves_raw_samples_outside_the_tree():
    sys.path.insert(0, str(ROOT / "bench"))
    import harness
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        harness.RESULTS = Path(folder, "tables")
        harness.save("one", {"samples": [1]}, ["| a |"])
        assert [path.suffix for path in Path(folder).rglob("*one.*")] == [".md"]
        harness.RAW = Path(folder, "raw")
        harness.save("two", {"samples": [1]}, ["| a |"])
        assert sorted(path.parent.name for path in Path(folder).rglob("*two.*")) == ["raw", "tables"]


def report(names):
    """Runs the cases of a module and prints TAP; returns the exit status."""
    tests = [(name, test) for name, test in names.items() if name.startswith("test_")]
    print(f"1..{len(tests)}", flush=True)
    failed = False
    for number, (name, test) in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {name}", flush=True)
        except Exception as fault:  # a crash of one case must not hide the others
            failed = True
            said = f"{type(fault).__name__}: {fault}".replace("\n", "\n# ")  # TAP reads other lines as results
            print(f"not ok {number} - {name}\n# {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(report(globals()))
