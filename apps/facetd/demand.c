/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading a vGPU's demand from its segment; see demand.h. Never: interprets it. */
#include "demand.h"

struct demand demand_of(const struct facet_owner *owner, uint64_t now_ns)
{
    struct demand demand = {0};
    struct facet_owner_slot slot;

    for (uint32_t i = 0; facet_owner_read_slot(owner, i, &slot); i++) {
        demand.settle.measured_ns += slot.busy_ns;
        if (slot.begun_ns && (!demand.settle.begun_ns || slot.begun_ns < demand.settle.begun_ns))
            demand.settle.begun_ns = slot.begun_ns;
        facet_fair_demand_add(&demand.fair,
                              &(struct facet_fair_process){.waiting = slot.waiting,
                                                           .inflight = slot.inflight,
                                                           .inflight_ns = slot.inflight_ns,
                                                           .idle_since_ns = slot.idle_since_ns,
                                                           .alive_ns = slot.alive_ns},
                              now_ns);
    }
    demand.settle.claim_milli = facet_owner_device_time(owner).claim_milli;
    demand.fair.busy_ns = demand.settle.measured_ns;
    return demand;
}
