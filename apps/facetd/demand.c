/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what demand.h says. Never: more. */
#include "demand.h"

struct facet_fair_demand demand_of(const struct facet_owner *owner, uint64_t now_ns)
{
    struct facet_fair_demand demand = {0};
    struct facet_owner_slot slot;

    for (uint32_t i = 0; facet_owner_slot(owner, i, &slot); i++) {
        demand.busy_ns += slot.busy_ns;
        facet_fair_demand_add(&demand,
                              &(struct facet_fair_process){.waiting = slot.waiting,
                                                           .inflight = slot.inflight,
                                                           .inflight_ns = slot.inflight_ns,
                                                           .idle_since_ns = slot.idle_since_ns,
                                                           .seen_ns = slot.seen_ns},
                              now_ns);
    }
    return demand;
}
