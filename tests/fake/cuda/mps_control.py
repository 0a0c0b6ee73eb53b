#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A made-up nvidia-cuda-mps-control: answers from the folder that CUDA_MPS_PIPE_DIRECTORY names.

Owns: get_default_active_thread_percentage, from the file `percentage`.
Never: exits after an answer: like the real program it reads until its input ends. `quit`, which would end the service
for all processes, removes the folder's `control`, which a test can check.
"""
import os
import pathlib
import sys

folder = pathlib.Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
for line in sys.stdin:
    if line.strip() == "get_default_active_thread_percentage":
        print((folder / "percentage").read_text(encoding="ascii").strip(), flush=True)
    elif line.strip() == "quit":
        (folder / "control").unlink()
    else:
        print("Unknown command", flush=True)
