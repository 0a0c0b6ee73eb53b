/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that this process holds on a device, from the files of the compute driver (KFD).
 *
 * Owns: finding a vGPU's device among the driver's nodes, and reading this process's figures for it.
 * Never: trusts a figure that may be another process's: the files use the machine's process ids, so in a pid namespace
 * nothing is read.
 *
 * FACET_ROCM_ROOT: a folder used in place of / for all of this; for tests.
 */
#ifndef FACET_HIP_PROCESS_BYTES_H
#define FACET_HIP_PROCESS_BYTES_H

#include <stdbool.h>
#include <stdint.h>

/* The bytes held on a tenant's device; false when the driver does not list this process. One thread at a time. */
bool facet_hip_process_bytes(uint32_t device, uint64_t *ret_bytes);

/* Whether this process would be listed if it held memory. */
bool facet_hip_process_is_listable(uint32_t device);

/* In the child of fork(): devices are searched anew. */
void facet_hip_process_bytes_forked(void);

#endif
