# SPDX-License-Identifier: Apache-2.0
"""The file system that a virtual machine boots into: busybox, programs with their libraries, modules, scripts.

Owns: an archive in cpio's format "newc", in memory. Never: compresses it, which would only cost the guest time.
"""
import os
import re
import stat
import subprocess
from pathlib import Path

LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
MISSING = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)


def libraries(program):
    """The libraries that a program is linked with, as the loader reports them."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if missing := MISSING.findall(done.stdout):
        raise LookupError(f"{program} lacks {', '.join(missing)}")
    return LIBRARY.findall(done.stdout)


class Initramfs:
    def __init__(self):
        self._entries = {}
        for folder in ("dev", "proc", "sys", "tmp", "run", "etc", "root"):
            self._folder(folder)

    def _folder(self, path):
        if path and path not in self._entries:
            self._folder(os.path.dirname(path))
            self._entries[path] = (stat.S_IFDIR | 0o755, b"")

    def add(self, path, data, mode=0o644):
        path = path.lstrip("/")
        self._folder(os.path.dirname(path))
        self._entries[path] = (stat.S_IFREG | mode, data)

    def add_file(self, path, source, mode=0o644):
        self.add(path, Path(source).read_bytes(), mode)

    def add_program(self, path, source):
        """Adds a program and its libraries, each at the path where the loader finds it."""
        self.add_file(path, source, 0o755)
        for library in libraries(source):
            self.add_file(library, library, 0o755)

    def _header(self, number, path, mode, size):
        # inode, mode, user, group, links, time, size, two numbers each of the device and of a device node, name, check
        fields = [number, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(path) + 1, 0]
        return b"070701" + b"".join(b"%08X" % field for field in fields)

    def archive(self):
        parts = []
        for number, (path, (mode, data)) in enumerate([*self._entries.items(), ("TRAILER!!!", (0, b""))], 1):
            name = path.encode()
            head = self._header(number, name, mode, len(data)) + name + b"\0"
            parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]
        return b"".join(parts)
