/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what trust.h says. Never: more. */
#include "trust.h"

#include "base/clock.h"

/* What is about to be refused is counted for a moment: so memory that cannot be is read again. */
#define TRIES 3

void trust_memory(struct trust *trust, uint64_t bytes)
{
    if (bytes > trust->memory_most)
        trust->memory_most = bytes;
}

void trust_look(struct trust *trust, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    (void)facet_belief_look(&trust->belief, totals, trust->memory_most, now_ns);
}

uint32_t trust_read(struct trust *trust, const struct facet_owner *owner, struct facet_usage_totals *ret_totals)
{
    uint32_t believed = 0;

    for (int tries = TRIES; tries > 0 && !(believed & FACET_BELIEVED_MEMORY); tries--) {
        facet_owner_totals(owner, ret_totals);
        believed = facet_belief_look(&trust->belief, ret_totals, trust->memory_most, facet_clock_now_ns());
    }
    return facet_owner_damaged(owner) ? 0 : believed;
}
