# SPDX-License-Identifier: Apache-2.0
"""The commands that documents show, each with its document, line number and shown output.

Owns: recognizing a command in Markdown, in a man page and in a help text. Never: runs one.

In Markdown, commands are in blocks that are fenced or indented by four spaces. If lines of a block begin with "$ ", they
are commands, and its other lines are output. Otherwise each line is a command whose first word is one of PROGRAMS. A
block that begins with such a command and has another line is an error, as a command might be overlooked. A "\\" at a
line's end continues it. In man pages, commands are in .Bd -literal blocks, in lines that begin with one of PROGRAMS. In
help, commands are in lines with two spaces and "facet ", up to the next two spaces, which an explanation may follow.
Prose may name parts of commands: `facet ...`, .Ql facet ....
"""
import dataclasses
import re

PROGRAMS = {"facet", "facetd", "make", "cc", "cp", "cd", "sed", "echo", "export", "meson", "pip", "python", "curl",
            "docker", "qemu-system-x86_64"}


@dataclasses.dataclass
class Command:
    document: str
    line: int
    block: int  # commands of one block are about the same machine
    text: str
    output: list  # the shown lines; empty if no output is shown

    def __str__(self):
        return f"{self.document}:{self.line} {' '.join(self.text.split())}"


def _is_command(line):
    words = line.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words.pop(0)
    return bool(words) and (words[0] in PROGRAMS or words[0].startswith("./build/"))


def _join(lines):
    """Joins numbered lines that continue in the next; yields (number, text)."""
    joined, open_line = [], False
    for number, line in lines:
        if open_line:
            joined[-1] = (joined[-1][0], joined[-1][1] + "\n" + line)
        else:
            joined.append((number, line))
        open_line = line.endswith("\\")
    return joined


def _from_block(document, block, lines):
    lines = _join(lines)
    prompts = any(line.startswith("$ ") for _, line in lines)
    if not prompts and not (lines and _is_command(lines[0][1])):
        return []
    found = []
    for number, line in lines:
        if line.startswith("$ ") or (not prompts and _is_command(line)):
            found.append(Command(document, number, block, line.removeprefix("$ "), []))
        elif prompts and found:
            found[-1].output.append(line)
        elif line and not line.startswith("#"):
            raise AssertionError(f"{document}:{number} {line!r}: expected one of {', '.join(sorted(PROGRAMS))}, or '$ ' "
                                 "before each command of the block")
    return found


def _blocks_of_markdown(text):
    """The lines of each block, with their numbers, without their indentation."""
    fence, indented, before_blank = None, [], True
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if fence is None:
                fence, plain = [], line.strip("` ") in ("", "sh", "console")
            else:
                if plain:
                    yield fence
                fence = None
        elif fence is not None:
            fence.append((number, line))
        elif line.startswith("    ") and (indented or before_blank):
            indented.append((number, line[4:]))
            continue
        if indented:
            yield indented
            indented = []
        before_blank = not line.strip()
    if indented:
        yield indented


def of_markdown(document, text):
    return [command for block, lines in enumerate(_blocks_of_markdown(text))
            for command in _from_block(document, block, lines)]


def of_man_page(document, text):
    found, block, lines = [], 0, None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(".Bd -literal"):
            block, lines = block + 1, []
        elif line == ".Ed" and lines is not None:
            found += _from_block(document, block, lines)
            lines = None
        elif lines is not None:
            lines.append((number, line.replace("\\e", "\\").replace("\\-", "-")))
    return found


def of_help(document, text):
    found = []
    for number, line in _join(list(enumerate(text.splitlines(), 1))):
        if line.startswith("  facet ") or re.match(r"  [A-Z_]+=\S+ facet ", line):
            first, *rest = line.strip().split("\n")
            text = "\n".join([re.split(r" {2,}(?!\\)", first)[0], *rest])
            found.append(Command(document, number, 0, text, []))
    return found


def in_prose(text):
    """The words after "facet" in each command that Markdown or a man page names outside of its blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`(?:\./build/)?facet ([^`]+)`", prose) + re.findall(r"^\.Ql facet (.+)$", prose, re.MULTILINE)
    return [words.split() for words in named]
