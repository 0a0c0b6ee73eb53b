#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command that README, docs, man pages and help show is run as it stands, and has the effect that is described
there.

The commands are read from the documents (commands.py), so a new command needs no change here. The commands of a
document are run one after the other in one shell, on a machine of their own (machines.py). Commands that cannot be run
are in CANNOT_RUN, with the reason. A command must exit with 0 and print the headings that the document shows. If its
shown output begins with a message of Facet's, it must fail with such a message. Parts of commands that prose names are
looked up in the help.

Owns: the checks of a command, and the list of commands that cannot be run. Never: compares numbers in an output.
"""
import os
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "command"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import commands  # noqa: E402
from machines import Reader, machine_of  # noqa: E402
from place import BUILD, SOURCE  # noqa: E402
from tap import Skip, contains, equal, main, test  # noqa: E402

CANNOT_RUN = {
    r"systemctl ": "needs a machine that systemd started",
    r"make\b": "installs packages; builds, tests or measures for minutes to hours",
    r"cc -o app app\.c ": "needs 'make install'; the test examples/installed does it",
    r"(\./build/)?facet pci (plan|show|bind|attach|detach)\b.*\b01:00": "needs that device, and root; "
    "tests/integration/passthrough does it in virtual machines",
    r"qemu-system-x86_64 ": "needs a device to pass through, and root; tests/integration/passthrough does it in "
    "virtual machines",
    r"\./build/facet provider check .*-acme\.so": "needs the provider that the document's reader writes",
}
UNTIL_INTERRUPTED = r"(\./build/)?facet top\b"
NEEDS = {  # programs that a build or machine may lack, by a part of the command
    r"facet compile|facet kernel run|examples/kernel": os.path.join(BUILD, "facet-kernel-compiler.so"),
    r"examples/tenants": os.path.join(BUILD, "facet-cpu-math.so"),
    **{rf"\b{program}\b": program for program in ("hashcat", "clpeak", "clinfo")},
}
HEADING = r"[A-Z][A-Z0-9 %]*"
DOCUMENTS = {commands.of_markdown: ("README.md", "CONTRIBUTING.md", "docs/*.md", "integrations/*/README.md"),
             commands.of_man_page: ("man/*.[1-8]",),
             commands.of_help: ("tests/golden/help*.txt",)}  # the test command/help compares these with the real help


def collect():
    root = Path(SOURCE)
    return [command for read, patterns in DOCUMENTS.items() for pattern in patterns for path in sorted(root.glob(pattern))
            for command in read(str(path.relative_to(root)), path.read_text(encoding="utf-8"))]


def reason_against(command):
    return next((reason for pattern, reason in CANNOT_RUN.items() if re.match(pattern, command.text)), None)


def check_needs(command):
    for pattern, need in NEEDS.items():
        if re.search(pattern, command.text) and not (os.path.exists(need) or shutil.which(need)):
            raise Skip(f"{need} is not installed, or not in this build")


def check(command, done):
    told = f"{command}\nstatus {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    refusal = re.match(r"(facet [a-z ]+:)", command.output[0]) if command.output else None
    if refusal:
        equal(done.returncode != 0 and done.stderr.startswith(refusal[1]), True, told)
        return
    equal(done.returncode, 0, told)
    printed = [line.split() for line in done.stdout.splitlines()]
    for line in command.output:
        if re.fullmatch(HEADING, line):
            equal(line.split() in printed, True, f"heading {line!r} in what was printed by {told}")


class Session:
    """The commands of one document about one machine, which exists from the first to the last command."""

    def __init__(self, machine, members):
        self.machine, self.left, self.reader = machine, len(members), None

    def run(self, command):
        self.left -= 1
        try:
            check_needs(command)
            if self.reader is None:
                self.reader = Reader(self.machine)
            type_it = self.reader.type_and_interrupt if re.match(UNTIL_INTERRUPTED, command.text) else self.reader.type
            check(command, type_it(command.text))
        finally:
            if self.left == 0 and self.reader:
                self.reader.leave()


def sessions_of(all_commands):
    """Each command with its session; commands that cannot be run have no session."""
    blocks, members, sessions = {}, {}, {}
    for command in all_commands:
        blocks.setdefault((command.document, command.block), []).append(command)
    for (document, _), block in blocks.items():
        if document.startswith("tests/golden"):
            document = "help"  # all help texts share one machine
        able = [command for command in block if not reason_against(command)]
        members.setdefault((document, machine_of(document, block)), []).extend(able)
    for (_, machine), group in members.items():
        session = Session(machine, group)
        sessions.update((id(command), session) for command in group)
    return [(command, sessions.get(id(command))) for command in all_commands]


def add_test(command, session):
    def run():
        if session is None:
            raise Skip(reason_against(command))
        session.run(command)

    run.__name__ = str(command).replace("#", "|")
    test(run)


ALL = collect()


MARKDOWN = """Text `facet top`.

```
one --shown   of a program
```

```
facet one   # why
A=1 ./build/two \\
    more
```

```json
facet three
```

```
$ four
HEADING  OF FOUR
```

    facet five

    words of a quotation
"""
MAN = ".Bd -literal\nfacet one \\e\n    more\n.Ed\n.Bd -literal\n{}\n.Ed\n"
HELP = "usage: facet one\n\n  facet one -a      what it does\n      --option    facet\n"


@test
def commands_are_found_in_each_form():
    found = [(command.text, command.output) for command in commands.of_markdown("d", MARKDOWN)]
    equal(found, [("facet one   # why", []), ("A=1 ./build/two \\\n    more", []), ("four", ["HEADING  OF FOUR"]),
                  ("facet five", [])])
    equal([command.text for command in commands.of_man_page("d", MAN)], ["facet one \\\n    more"])
    equal([command.text for command in commands.of_help("d", HELP)], ["facet one -a"])


@test
def a_line_that_might_be_a_command_is_not_passed_over():
    try:
        commands.of_markdown("d", "```\nfacet one\nunknown two\n```\n")
    except AssertionError as error:
        contains(str(error), "d:3 'unknown two'")
    else:
        raise AssertionError("'unknown two' was passed over")


@test
def each_kind_of_document_has_commands():
    for pattern in ("README", "docs/", "man/", "tests/golden/help"):
        equal(any(command.document.startswith(pattern) for command in ALL), True, pattern)


def help_of(words):
    """The help of the longest command with which `words` begin, and the command's number of words; 0 if there is none."""
    golden = Path(SOURCE, "tests", "golden")
    for count in (3, 2, 1):
        name = "-".join(["help", *words[:count]])
        if (golden / f"{name}.txt").exists():
            is_group = any(golden.glob(f"{name}-*.txt"))
            unknown = is_group and len(words) > count and re.fullmatch("[a-z]+", words[count])
            return (golden / f"{name}.txt").read_text(encoding="utf-8"), 0 if unknown else count
    return "", 0


@test
def what_prose_names_is_in_the_help():
    named = 0
    for pattern in ("*.md", "docs/**/*.md", "integrations/*/README.md", "man/*.[1-8]"):
        for path in Path(SOURCE).glob(pattern):
            for words in commands.in_prose(path.read_text(encoding="utf-8")):
                text, count = help_of(words)
                equal(count > 0, True, f"{path.name}: a command 'facet {' '.join(words)}'")
                arguments = words[count:words.index("--") if "--" in words else None]
                for option in re.findall(r"(?<!\S)(--[a-z-]+|-[A-Za-z])", " ".join(arguments)):
                    equal(bool(re.search(rf"(?<![\w-]){option}(?![\w-])", text)), True,
                          f"{path.name}: the option {option} of 'facet {' '.join(words)}'")
                named += 1
    equal(named > 50, True, f"{named} commands: more than 50 in prose")


@test
def each_reason_belongs_to_a_command_of_a_document():
    for pattern in CANNOT_RUN:
        equal(any(re.match(pattern, command.text) for command in ALL), True, f"a command that begins with {pattern}")


for one in sessions_of(ALL):
    add_test(*one)
main()
