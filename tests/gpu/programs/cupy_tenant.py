# SPDX-License-Identifier: Apache-2.0
"""A plain CuPy program, which prints one line of JSON: the memory it sees, whether a product is right, and whether it
can handle a refusal."""
import json

import cupy

total = cupy.cuda.runtime.memGetInfo()[1]
ones = cupy.ones((1024, 1024), dtype=cupy.float32)
right = bool((ones @ ones == 1024).all())
held, refused = [], False
try:
    while sum(block.nbytes for block in held) < 4 * total:
        held.append(cupy.empty(64 << 20, dtype=cupy.uint8))
except cupy.cuda.memory.OutOfMemoryError:
    refused = True
print(json.dumps({"version": cupy.__version__, "total_bytes": total, "taken_bytes": sum(b.nbytes for b in held),
                  "refused": refused, "right": right}))
