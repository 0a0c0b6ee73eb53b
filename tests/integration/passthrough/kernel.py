# SPDX-License-Identifier: Apache-2.0
"""The kernel of the virtual machines, and its modules.

Owns: finding a kernel, unpacking it, and the modules that a module needs, in order. Never: installs or changes a kernel.

A kernel is a folder with boot/vmlinuz-VERSION and lib/modules/VERSION, which may be below usr: FACET_TEST_KERNEL,
else build-kernel/ of the tree (tools/kernel makes it), else the kernel installed here.
"""
import lzma
import os
import re
import struct
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
SUFFIX = re.compile(r"\.ko(\.xz)?$")
DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
PVH_ENTRY = struct.pack("<III4s", 4, 8, 18, b"Xen\0")  # a note's head: sizes of name and entry, its type, its name


def _version_key(version):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", version)]


class Kernel:
    """One kernel. Names of modules have underscores instead of dashes, as the kernel shows them."""

    def __init__(self, root, version):
        self.image = root / "boot" / f"vmlinuz-{version}"
        self.version = version
        folder = root / "lib" / "modules" / version
        if not folder.exists():
            folder = root / "usr" / "lib" / "modules" / version
        self._files = {self._name(path): path for path in folder.rglob("*.ko*") if SUFFIX.search(path.name)}
        builtin = folder / "modules.builtin"
        lines = builtin.read_text().split() if builtin.exists() else []
        self._builtin = {self._name(Path(line)) for line in lines}

    @staticmethod
    def _name(path):
        return SUFFIX.sub("", path.name).replace("-", "_")

    def has(self, name):
        return name.replace("-", "_") in self._builtin or name.replace("-", "_") in self._files

    def read(self, name):
        """A module's uncompressed bytes, as the guest's kernel takes them."""
        path = self._files[name]
        return lzma.open(path).read() if path.suffix == ".xz" else path.read_bytes()

    def unpacked(self, folder):
        """The path of an image that QEMU starts without a guest that unpacks it, which takes an emulated processor more
        time than all that follows. It is made once, in `folder`, and used by each later machine. If this kernel has no
        such entry, or is not packed by xz, the path is that of the packed image."""
        status = self.image.stat()
        path = Path(folder) / f"vmlinux-{self.version}-{status.st_size}-{status.st_mtime_ns}"
        if path.exists():
            return path
        image = _unpack(self.image.read_bytes())
        if image is None or PVH_ENTRY not in image:
            return self.image
        with tempfile.NamedTemporaryFile(dir=folder, prefix="vmlinux-", delete=False) as file:
            file.write(image)
        os.replace(file.name, path)  # machines that start at the same time may all make it
        return path

    def _add(self, name, order):
        if name in order or name in self._builtin:
            return
        if name not in self._files:
            raise LookupError(f"kernel {self.version} has no module {name}")
        match = DEPENDS.search(self.read(name))
        for needed in match[1].decode().split(",") if match and match[1] else []:
            self._add(needed.replace("-", "_"), order)
        order.append(name)

    def order(self, names):
        """The modules and their dependencies, each after those that it depends on."""
        order = []
        for name in names:
            self._add(name.replace("-", "_"), order)
        return order


def _unpack(image):
    """The program in a kernel's image, or None. The offsets are those of Linux's Documentation/x86/boot.rst."""
    if image[0x202:0x206] != b"HdrS":
        return None
    begin, size = struct.unpack_from("<II", image, 0x248)
    begin += (image[0x1F1] + 1) * 512  # counted from the end of the part that runs in real mode
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[begin:begin + size])  # a word follows the stream
    except lzma.LZMAError:
        return None


def _kernels_in(root):
    versions = [path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*")
                if os.access(path, os.R_OK)]
    return [Kernel(root, version) for version in sorted(versions, key=_version_key, reverse=True)]


def find(modules):
    """(the newest kernel that has all the modules, None), or (None, the reason why there is none)."""
    configured = os.environ.get("FACET_TEST_KERNEL")
    roots = [Path(configured)] if configured else [SOURCE / "build-kernel", Path("/")]
    kernels = [kernel for root in roots for kernel in _kernels_in(root)]
    if not kernels:
        return None, f"there is no kernel to boot in {' or '.join(map(str, roots))}: run tools/kernel"
    for kernel in kernels:
        if all(kernel.has(name) for name in modules):
            return kernel, None
    missing = [name for name in modules if not kernels[0].has(name)]
    return None, f"kernel {kernels[0].version} lacks {', '.join(missing)}"
