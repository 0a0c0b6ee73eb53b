#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The harness itself, without a machine: faults inside a guest are reported outside."""
import os
import sys
import tempfile
from pathlib import Path

import kernel
from initramfs import Initramfs
from report import Report

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "command"))
from tap import contains, equal, main, test  # noqa: E402


def report_of(checks, *lines, fault=None):
    """Makes a report of `lines`; returns its result and its output."""
    written = []
    report = Report(checks, written.append)
    marks = [mark for mark in map(report.take, lines) if mark]
    return report.finish(fault or (None if report.ended else "stopped")), written, marks


@test
def checks_are_numbered():
    good, written, _ = report_of(2, "ok - a", "# more", "ok - b", "@end")
    equal((good, written), (True, ["ok 1 - a", "# more", "ok 2 - b", "1..2"]))


@test
def a_failed_check_fails_the_test():
    good, written, _ = report_of(1, "not ok - a", "@end")
    equal((good, written), (False, ["not ok 1 - a", "1..1"]))


@test
def a_check_that_was_not_made_has_failed():
    good, written, _ = report_of(2, "ok - a", "@end")
    equal((good, written[-2]), (False, "not ok 2 - was not made"))


@test
def too_many_checks_are_a_failure():
    equal(report_of(1, "ok - a", "ok - b", "@end")[0], False)


@test
def a_guest_that_stops_is_a_failure():
    good, written, _ = report_of(1, "ok - a")
    equal((good, written[1]), (False, "# stopped"))


@test
def other_lines_are_comments():
    equal(report_of(1, "[    1.0] noise", "", "ok - a", "@end")[1], ["# [    1.0] noise", "ok 1 - a", "1..1"])


@test
def marks_are_returned():
    equal(report_of(0, "@plug", "@unplug it", "@end")[2], ["plug", "unplug it"])


@test
def a_guest_in_which_nothing_can_be_checked_is_skipped():
    good, written, _ = report_of(3, "@skip no such device", "@end")
    equal((good, written), (True, ["1..0 # SKIP no such device"]))
    # A guest that made checks, or stopped early, is not skipped.
    equal(report_of(2, "ok - a", "@skip tired", "@end")[0], False)
    equal(report_of(1, "@skip tired")[0], False)


def fake_kernel(root, version, **depends):
    (root / "boot").mkdir(exist_ok=True)
    (root / "boot" / f"vmlinuz-{version}").write_text("")
    folder = root / "lib" / "modules" / version
    folder.mkdir(parents=True)
    (folder / "modules.builtin").write_text("kernel/fs/inside-it.ko\n")
    for name, needs in depends.items():
        (folder / f"{name.replace('_', '-')}.ko").write_bytes(b"\x7fELF\0depends=" + needs.encode() + b"\0")


@test
def modules_come_after_their_dependencies():
    with tempfile.TemporaryDirectory() as folder:
        fake_kernel(Path(folder), "6.1.0-9", a_top="b_mid,c_low", b_mid="c_low,inside_it", c_low="")
        equal(kernel.Kernel(Path(folder), "6.1.0-9").order(["a-top", "inside-it"]), ["c_low", "b_mid", "a_top"])


@test
def the_newest_kernel_that_has_the_modules_is_taken():
    with tempfile.TemporaryDirectory() as folder:
        for version, name in (("6.1.0-9", "vfio_pci"), ("6.1.0-10", "vfio_pci"), ("6.1.0-11", "other")):
            fake_kernel(Path(folder), version, **{name: ""})
        os.environ["FACET_TEST_KERNEL"] = folder
        equal(kernel.find(["vfio-pci"])[0].version, "6.1.0-10")
        contains(kernel.find(["missing"])[1], "kernel 6.1.0-11 lacks missing")
        os.environ["FACET_TEST_KERNEL"] = os.path.join(folder, "empty")
        contains(kernel.find(["vfio-pci"])[1], "no kernel to boot")


@test
def the_archive_has_the_format_that_the_kernel_reads():
    inside = Initramfs()
    inside.add("/a/file", b"text", 0o755)
    archive = inside.archive()
    equal(len(archive) % 4, 0)
    # An entry is a magic number of 6 bytes, 13 fields of 8 hexadecimal digits, its name and its data. The second field
    # is the mode (at 14), the seventh the size of the data (at 54), the twelfth that of the name (at 94).
    at, names = 0, {}
    while at < len(archive):
        equal(archive[at:at + 6], b"070701")
        size, length = int(archive[at + 54:at + 62], 16), int(archive[at + 94:at + 102], 16)
        name = archive[at + 110:at + 110 + length - 1].decode()
        data = at + 110 + length + -(110 + length) % 4
        names[name] = (archive[at + 14:at + 22], archive[data:data + size])
        at = data + size + -size % 4
    equal(names["a/file"], (b"000081ED", b"text"))
    equal(names["a"][0], b"000041ED")
    equal(list(names)[-1], "TRAILER!!!")


main()
