#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A process that entered a vGPU with the release before: it uses the segment as the interposers of segment version 7 did.

Owns: what that release wrote and read, by offsets, whatever src/limiter says today. Never: changes with the layout; a
later version gets a copy of this file.

usage: old_process.py FOLDER BYTES    takes BYTES of memory; prints "inside" or "refused"; leaves at the end of its input
"""
import ctypes
import fcntl
import mmap
import os
import struct
import sys

VERSION, SLOT, SLOT_BYTES, SLOTS = 7, 128, 192 + 8 * 64, 4096
MEMORY_LIMIT = 672  # in `policy`
SLOTS_USED, PEAK = 20, 24  # in `usage`
MEMORY, PID = 0, 28  # in a slot
RINGS, SLEEPING = 8, 12  # in `bell`
SYS_FUTEX, FUTEX_WAKE = 202, 1


def map_file(folder, name, writable):
    fd = os.open(os.path.join(folder, name), os.O_RDWR if writable else os.O_RDONLY)
    return fd, mmap.mmap(fd, 0, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))


def word(data, offset, kind="<I"):
    return struct.unpack_from(kind, data, offset)[0]


def ring(bell):
    struct.pack_into("<I", bell, RINGS, word(bell, RINGS) + 1)
    if word(bell, SLEEPING):
        address = ctypes.addressof(ctypes.c_uint32.from_buffer(bell, RINGS))
        ctypes.CDLL(None).syscall(SYS_FUTEX, ctypes.c_void_p(address), FUTEX_WAKE, 1 << 30, None, None, 0)


def take_slot(fd, usage):
    for slot in range(SLOTS):
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 1 + slot, 1, 0)
        try:
            fcntl.fcntl(fd, 37, lock)  # F_OFD_SETLK
        except OSError:
            continue
        struct.pack_into("<I", usage, SLOTS_USED, max(word(usage, SLOTS_USED), slot + 1))
        struct.pack_into("<I", usage, SLOT + slot * SLOT_BYTES + PID, os.getpid())
        return SLOT + slot * SLOT_BYTES
    sys.exit("no slot")


def held(usage):
    return sum(word(usage, SLOT + slot * SLOT_BYTES + MEMORY, "<Q") for slot in range(word(usage, SLOTS_USED)))


def main(folder, wanted):
    _, policy = map_file(folder, "policy", False)
    usage_fd, usage = map_file(folder, "usage", True)
    _, bell = map_file(folder, "bell", True)
    if (policy[:8], word(policy, 8), usage[:8], bell[:8]) != (b"FACPOLY0", VERSION, b"FACUSAG0", b"FACBELL0"):
        sys.exit("another version")
    slot = take_slot(usage_fd, usage)
    ring(bell)
    struct.pack_into("<Q", usage, slot + MEMORY, wanted)
    if held(usage) > word(policy, MEMORY_LIMIT, "<Q"):
        struct.pack_into("<Q", usage, slot + MEMORY, 0)
        print("refused", flush=True)
    else:
        struct.pack_into("<Q", usage, PEAK, max(word(usage, PEAK, "<Q"), held(usage)))
        print("inside", flush=True)
    sys.stdin.read()
    struct.pack_into("<Q", usage, slot + MEMORY, 0)
    struct.pack_into("<I", usage, slot + PID, 0)


main(sys.argv[1], int(sys.argv[2]))
