/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: charged in full on each GPU that the program sees, because its pages may move to any of them. Calls
 * move them (prefetch, advice, a copy's hint), and so does a kernel's access, which cannot be observed. Read-mostly
 * pages are on several GPUs at once.
 *
 * Owns: charging all of a process's vGPUs, or none.
 * Never: asks where the pages are, or follows the calls that move them.
 */
#ifndef FACET_MEMORY_MANAGED_H
#define FACET_MEMORY_MANAGED_H

#include "charge.h"

/* Like facet_charge_try(), on each GPU. After a refusal, *ret_charge is for the vGPU whose quota refused. */
enum facet_memory_refusal facet_managed_try(uint64_t bytes, struct facet_memory_charge *ret_charge);

/* Charges each GPU, or none if a quota refuses. For callers that hold the pools' lock: no pool releases memory. */
bool facet_managed_reserve(uint64_t bytes);

void facet_managed_release(uint64_t bytes);

/* The smallest remaining quota. */
uint64_t facet_managed_free(void);

/* The part of each GPU's charge that is managed memory: up to that amount may be elsewhere. */
uint64_t facet_managed_charged(void);

/* In the child of a fork: no managed memory is charged. */
void facet_managed_forked(void);

#endif
