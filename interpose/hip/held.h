/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process holds of a device, as the compute driver (KFD) says it in its files.
 *
 * Owns: finding a vGPU's device among the driver's nodes, and reading this process's figures of it.
 * Never: believes a figure that may be another process's: the files name processes by the machine's numbers, so in a
 * namespace of process ids nothing is read.
 *
 * FACET_ROCM_ROOT: a folder that stands for / in all of this; for tests.
 */
#ifndef FACET_HIP_HELD_H
#define FACET_HIP_HELD_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a tenant's device; false where the driver does not list this process. One thread at a time. */
bool facet_hip_held(uint32_t device, uint64_t *ret_bytes);

/* Whether it would be listed if it held anything. */
bool facet_hip_held_tells(uint32_t device);

/* In the child of fork(): devices are looked for anew. */
void facet_hip_held_forked(void);

#endif
