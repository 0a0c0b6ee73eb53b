/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: charged in full on each GPU that the program sees. Its pages go to any of them: by a call (prefetch,
 * advice, a copy's hint), or by a kernel that touches them, which nobody sees; and read-mostly ones are on several.
 *
 * Owns: charging all of a process' vGPUs, or none.
 * Never: asks where the pages are, nor follows what moves them.
 */
#ifndef FACET_MEMORY_MANAGED_H
#define FACET_MEMORY_MANAGED_H

#include "charge.h"

/* As facet_charge_try(), of each GPU. In *ret_refusing is the one whose quota refused it. */
enum facet_memory_refusal facet_managed_try(uint64_t bytes, struct facet_memory_charge *ret_refusing);

/* Where pools may not be asked to let go, as their lock is held. */
bool facet_managed_reserve(uint64_t bytes);

void facet_managed_release(uint64_t bytes);

/* What is left where least is. */
uint64_t facet_managed_free(void);

/* What of each GPU's charge is managed memory: as much of it may be held elsewhere. */
uint64_t facet_managed_charged(void);

/* In the child of a fork: it has none. */
void facet_managed_forked(void);

#endif
