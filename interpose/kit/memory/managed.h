/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: charged in full on each GPU that the program sees. Its pages move to any of them: by a call
 * (prefetch, advice, a copy's hint), or by a kernel's access, which cannot be observed; and read-mostly pages are on
 * several.
 *
 * Owns: charging all of a process's vGPUs, or none.
 * Never: asks where the pages are, or follows the calls that move them.
 */
#ifndef FACET_MEMORY_MANAGED_H
#define FACET_MEMORY_MANAGED_H

#include "charge.h"

/* As facet_charge_try(), on each GPU. *ret_charge is the one whose quota refused. */
enum facet_memory_refusal facet_managed_try(uint64_t bytes, struct facet_memory_charge *ret_charge);

/* For callers that hold the pools' lock, so that pools cannot release memory. */
bool facet_managed_reserve(uint64_t bytes);

void facet_managed_release(uint64_t bytes);

/* The smallest remaining quota. */
uint64_t facet_managed_free(void);

/* The part of each GPU's charge that is managed memory: that much may be held elsewhere. */
uint64_t facet_managed_charged(void);

/* In the child of a fork: there is none. */
void facet_managed_forked(void);

#endif
