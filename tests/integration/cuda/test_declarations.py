# SPDX-License-Identifier: Apache-2.0
"""Our declarations of the CUDA driver match the vendor's headers, and every entry point is accounted for.

Owns: comparing the headers: a generated program prints constants, layouts and signatures. It is compiled once with our
headers and once with a toolkit's, and must print the same both times. tools/check-cuda-coverage is checked, too: it
must find the one fault in each of several made-up source trees.
Never: needs a toolkit: without one the comparison is skipped with a reason.
"""
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ["FACET_SOURCE_DIR"])
LIBRARY = os.environ["FACET_TEST_CUDA_LIBRARY"]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/integration/command"))
from tap import Skip, contains, equal, main, test  # noqa: E402

HEADERS = ["driver.h", "memory.h", "execution.h", "copy.h", "graph_memory.h", "green.h"]
OURS = 'extern "C" {\n' + "".join(f'#include "vendor/cuda/{name}"\n' for name in HEADERS) + "}\n"
# The macro keeps cuda.h from renaming functions to their newest versions: each name is that of an exported symbol.
THEIRS = "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"

PRINTER = """
#include <cstddef>
#include <cstdio>
#include <type_traits>
template <class T> constexpr char kind()
{
    return std::is_pointer<T>::value ? 'p' : std::is_floating_point<T>::value ? 'f'
         : std::is_integral<T>::value || std::is_enum<T>::value ? 'i' : 's';
}
template <class R, class... A> void signature(const char *name, R (*)(A...))
{
    std::printf("%s: %c%zu of", name, kind<R>(), sizeof(R));
    int each[] = {0, (std::printf(" %c%zu", kind<A>(), sizeof(A)), 0)...};
    (void)each;
    std::puts("");
}
"""


def load_coverage_check():
    loader = importlib.machinery.SourceFileLoader("coverage", str(ROOT / "tools/check-cuda-coverage"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def toolkit_and_compiler():
    found = [path for path in load_coverage_check().toolkits() if (path / "include/cuda.h").is_file()]
    compiler = shutil.which("c++")
    if not found or not compiler:
        raise Skip("this machine has no CUDA toolkit" if not found else "this machine has no C++ compiler")
    return found[-1] / "include", compiler


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command[0]}: {done.stderr[:2000]}")
    return done.stdout


def preprocess(compiler, text, include, only=""):
    """The preprocessed text and its macro definitions; with `only`, just lines from files in a folder of that name."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "headers.cc"
        source.write_text(text)
        lines, keep = [], not only
        for line in run(compiler, "-E", "-dD", f"-I{include}", str(source)).splitlines():
            marker = re.match(r'# \d+ "([^"]*)"', line)
            if marker:
                keep = f"/{only}/" in marker[1] if only else True
            elif keep:
                lines.append(line)
        return "\n".join(lines)


def fields_of(body):
    """The names of a structure's direct members."""
    while "{" in body:
        body = re.sub(r"(?:union|struct)\b[^{};]*\{[^{}]*\}", "inner", body)
    for member in filter(None, (part.strip() for part in body.split(";"))):
        names = member.split(",")
        found = (re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", name) for name in names)
        yield from (match[1] for match in found if match and match[0] != "inner")  # "inner" alone: unnamed


def structures_of(text):
    """The name and the members of each structure or union that a typedef declares."""
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    for match in re.finditer(r"typedef\s+(?:struct|union)\s*\w*\s*\{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield re.match(r"\s*(\w+)", text[end:])[1], list(fields_of(text[match.end():end - 1]))


def constants_of(text):
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text):
        yield from re.findall(r"(?:^|,)\s*(\w+)", body)


def print_statements_of(ours, theirs):
    """The statements of the printing program, and our names that the toolkit does not have."""
    known = set(re.findall(r"\w+", theirs))
    lines, unknown_names = [], []

    def add(name, line):
        (lines if name in known else unknown_names).append(line if name in known else name)

    for name in constants_of(ours):
        add(name, f'std::printf("{name} %lld\\n", (long long){name});')
    for name, members in structures_of(ours):
        add(name, f'std::printf("{name} %zu\\n", sizeof({name}));')
        for member in members if name in known else []:
            add(member, f'std::printf("{name}.{member} %zu\\n", offsetof({name}, {member}));')
    for name in re.findall(r"\bCUresult\s+(cu\w+)\s*\(", ours):
        add(name, f'signature("{name}", &{name});')
    return lines, unknown_names


def output_of(compiler, headers, lines, include):
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "print.cc", Path(folder) / "print"
        # The program only prints the functions' types; it needs no library to link with.
        source.write_text(headers + PRINTER + "int main()\n{\n" + "\n".join(lines) + "\n}\n")
        run(compiler, "-w", "-Wl,--unresolved-symbols=ignore-all", f"-I{include}", str(source), "-o", str(program))
        return run(str(program)).splitlines()


@test
def declarations_match_the_vendors_headers():
    include, compiler = toolkit_and_compiler()
    ours, theirs = preprocess(compiler, OURS, ROOT, "vendor"), preprocess(compiler, THEIRS, include)
    lines, unknown_names = print_statements_of(ours, theirs)
    version = int(re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())[1])
    for name in unknown_names:
        print(f"# {name} is not in this toolkit")
    if version >= 13000:
        equal(unknown_names, [], "names that CUDA 13.0 does not know")
    got, expected = (output_of(compiler, text, lines, path) for text, path in ((OURS, ROOT), (THEIRS, include)))
    equal([pair for pair in zip(got, expected) if pair[0] != pair[1]], [], "ours and the vendor's")
    assert len(got) == len(expected) == len(lines) > 100, \
        f"lines by our headers {len(got)}, by the vendor's {len(expected)}, of the program {len(lines)}, all over 100"


@test
def comparison_finds_differences():
    include, compiler = toolkit_and_compiler()
    text = "typedef struct { int bytes[3]; } CUuuid; typedef int CUresult; CUresult cuDeviceGet(int *device);" \
           "enum { CUDA_ERROR_NOT_FOUND = 5, CUDA_SUCCESS = 0, CUDA_NEVER_SEEN };"
    lines, unknown_names = print_statements_of(text, preprocess(compiler, THEIRS, include))
    equal(unknown_names, ["CUDA_NEVER_SEEN"])
    got, expected = (output_of(compiler, headers, lines, include) for headers in ('extern "C" {' + text + "}", THEIRS))
    equal([line.split()[0] for line, other in zip(got, expected) if line != other],
          ["CUDA_ERROR_NOT_FOUND", "CUuuid", "cuDeviceGet:"])


@test
def no_entry_point_is_forgotten():
    command = [ROOT / "tools/check-cuda-coverage", ROOT, LIBRARY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    equal(done.returncode, 0, done.stdout)
    contains(done.stdout, "entry points")


def faults_of(entries, hooks, passed_through="cuB asks\n"):
    """The faults that the tool finds in a made-up tree with these entry points, hooks and passed-through functions."""
    files = {"vendor/cuda/entry_points.txt": entries, "interpose/cuda/passed_through.txt": passed_through,
             "interpose/cuda/hooks.h": f"#define FACET_CUDA_HOOKS(X) {hooks}\n"}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        module = load_coverage_check()
        module.toolkits = lambda: []  # a real stub exports more than the list does
        return list(module.faults_of(root, None))


ENTRY_POINTS = "cuA 2000\ncuA_v2 3020\ncuA_v2_ptds 7000\ncuB 2000\n"


@test
def each_missing_hook_is_named():
    all_hooks = 'X(cuA, "cuA", 2000, LEGACY) X(cuA_v2, "cuA", 3020, LEGACY) X(cuA_v2_ptds, "cuA", 7000, PER_THREAD)'
    equal(faults_of(ENTRY_POINTS, all_hooks + ' X(cuB, "cuB", 2000, ANY)', ""), [])
    equal(faults_of(ENTRY_POINTS, all_hooks), [])
    for wrong_hooks, fault in {
        all_hooks.replace('X(cuA, "cuA", 2000, LEGACY)', ""): "cuA is passed through, another form of cuA is not",
        all_hooks.replace("3020", "3000"): "cuA_v2: ('cuA', 3000, 'LEGACY'), expected ('cuA', 3020, 'LEGACY')",
        all_hooks.replace("PER_THREAD", "LEGACY"): "expected ('cuA', 7000, 'PER_THREAD')",
        all_hooks + ' X(cuC, "cuC", 2000, ANY)': "cuC is not in vendor/cuda/entry_points.txt",
    }.items():
        faults = faults_of(ENTRY_POINTS, wrong_hooks)
        equal(len(faults), 1, faults)
        contains(faults[0], fault)


@test
def wrong_lines_of_passed_through_functions_are_named():
    all_hooks = 'X(cuA, "cuA", 2000, LEGACY) X(cuA_v2, "cuA", 3020, LEGACY) X(cuA_v2_ptds, "cuA", 7000, PER_THREAD)'
    for passed_through, fault in {
        "": "cuB is not hooked and has no line here",
        "cuB asks\ncuA asks\n": "cuA is hooked",
        "cuB asks\ncuB order\n": "cuB is listed twice",
        "cuB perhaps\n": "'perhaps' is not a known verdict",
        "cuB asks\ncuC asks\n": "cuC is not in vendor/cuda/entry_points.txt",
    }.items():
        faults = faults_of(ENTRY_POINTS, all_hooks, passed_through)
        equal(len(faults), 1, faults)
        contains(faults[0], fault)


@test
def library_and_list_agree():
    module = load_coverage_check()
    entries = module.read_list(ROOT / module.LIST)
    equal(list(module.check_library(entries, LIBRARY)), [])
    longer_list = {**entries, "cuNew": 14000}
    contains("".join(module.check_library(longer_list, LIBRARY)), "cuNew is in the list and not exported")
    del entries["cuInit"]
    contains("".join(module.check_library(entries, LIBRARY)), "cuInit is exported and not in the list")


main()
