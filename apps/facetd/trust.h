/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a vGPU's totals, with which of them can be believed.
 *
 * Owns: the bounds that one vGPU's totals are held against (src/limiter/belief.h). Never: locks; whoever has the device
 * calls it.
 */
#ifndef FACETD_TRUST_H
#define FACETD_TRUST_H

#include "limiter/belief.h"
#include "limiter/owner.h"

struct trust {
    struct facet_belief belief;
    uint64_t memory_most; /* that the vGPU's processes can ever have held */
};

/* The vGPU may hold so much from now on. A quota that is made smaller leaves what is held above it. */
void trust_memory(struct trust *trust, uint64_t bytes);

/* Has a look at totals that were read anyway. */
void trust_look(struct trust *trust, const struct facet_usage_totals *totals, uint64_t now_ns);

/* Reads the totals; returns which can be believed (FACET_BELIEVED_*), none of a segment that is damaged. */
uint32_t trust_read(struct trust *trust, const struct facet_owner *owner, struct facet_usage_totals *ret_totals);

#endif
