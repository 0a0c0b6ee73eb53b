# SPDX-License-Identifier: Apache-2.0
"""A plain JAX program, which prints one line of JSON: the memory it may use, whether a product is right, and whether it
can handle a refusal."""
import json
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

device = jax.devices("gpu")[0]
statistics = device.memory_stats() or {}
total = statistics.get("bytes_limit", 0)  # three quarters of the device by default
ones = jnp.ones((1024, 1024), dtype=jnp.bfloat16)
right = bool((jax.jit(jnp.matmul)(ones, ones) == 1024).all())
held, refused = [], False
try:
    while sum(block.nbytes for block in held) < 4 * max(total, 1 << 30):
        held.append(jax.device_put(jnp.zeros(64 << 20, dtype=jnp.uint8), device).block_until_ready())
except Exception as error:  # XLA has renamed the class of this error more than once, but not its text
    refused = "RESOURCE_EXHAUSTED" in str(error)
print(json.dumps({"version": jax.__version__, "total_bytes": total, "taken_bytes": sum(b.nbytes for b in held),
                  "refused": refused, "right": right}))
