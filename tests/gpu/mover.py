# SPDX-License-Identifier: Apache-2.0
"""Move a process's memory off its GPU, and back when standard input ends, through the library that TensorFusion opens.

usage: mover.py LIBRARY PID; prints the results of AccelSnapshot() and of AccelResume(), 0 for success.

Owns: moving one process. Never: leaves the process off the GPU.
"""
import ctypes
import sys


class Processes(ctypes.Structure):
    """SnapshotContext (integrations/tensorfusion/accelerator_abi.h)."""
    _fields_ = [("pids", ctypes.POINTER(ctypes.c_int)), ("count", ctypes.c_size_t), ("uuid", ctypes.c_char_p)]


def main(library, pid):
    accelerator = ctypes.CDLL(library)
    context = Processes((ctypes.c_int * 1)(int(pid)), 1, None)
    accelerator.AccelInit()
    print(accelerator.AccelSnapshot(ctypes.byref(context)), flush=True)
    sys.stdin.read()
    print(accelerator.AccelResume(ctypes.byref(context)), flush=True)
    accelerator.AccelShutdown()


main(*sys.argv[1:])
