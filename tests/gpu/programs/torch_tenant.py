# SPDX-License-Identifier: Apache-2.0
"""A plain PyTorch program, which prints one line of JSON: the memory it sees, whether a product is right, and whether
it can handle a refusal."""
import json

import torch

total = torch.cuda.get_device_properties(0).total_memory
ones = torch.ones((1024, 1024), device="cuda", dtype=torch.bfloat16)
right = bool((ones @ ones == 1024).all())
held, refused = [], False
try:
    while sum(block.numel() for block in held) < 4 * total:
        held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError:
    refused = True
taken = sum(block.numel() for block in held)
held.clear()
torch.cuda.empty_cache()
graph, static = torch.cuda.CUDAGraph(), torch.zeros(1024, device="cuda")
with torch.cuda.graph(graph):
    static += 1
for _ in range(3):
    graph.replay()
right = right and float(static[0]) == 3.0
print(json.dumps({"version": torch.__version__, "total_bytes": total, "taken_bytes": taken, "refused": refused,
                  "right": right}))
