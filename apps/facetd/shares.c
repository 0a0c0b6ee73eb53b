/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: settling and publishing vGPUs' device time; see shares.h. Never: publishes measured time unsettled, because the
 * times of vGPUs overlap.
 */
#include "shares.h"

#include <facet/limits.h>

#include "demand.h"

void shares_init(struct shares *shares, uint64_t now_ns)
{
    *shares = (struct shares){.count = 0};
    facet_settle_init(&shares->settle, now_ns);
}

void shares_add(struct shares *shares, uint32_t client, const struct facet_owner *owner, bool timed,
                uint32_t part_milli, uint64_t now_ns)
{
    const struct facet_device_time time = facet_owner_device_time(owner);
    const struct demand demand = demand_of(owner, now_ns);

    facet_settle_add(&shares->settle, client, timed, part_milli,
                     &(struct facet_settled){.at_ns = time.at_ns,
                                             .measured_ns = time.measured_ns,
                                             .settled_ns = time.settled_ns,
                                             .published_ns = time.published_ns},
                     &demand.settle, now_ns);
    shares->first_sample[client] = shares->count;
    for (uint32_t i = 0; i <= SHARES_SAMPLES; i++)
        shares->published_ns[client][i] = shares_device_time_ns(shares, client);
}

void shares_remove(struct shares *shares, uint32_t client)
{
    facet_settle_remove(&shares->settle, client);
}

void shares_look(struct shares *shares, uint32_t client, const struct facet_settle_demand *demand, uint64_t charged_ns)
{
    struct facet_settle_client *settled = &shares->settle.clients[client];

    settled->demand = *demand;
    settled->demand.charged_ns = charged_ns;
}

void shares_step(struct shares *shares, uint64_t now_ns)
{
    facet_settle_step(&shares->settle, now_ns);
}

void shares_publish(struct shares *shares, uint64_t now_ns)
{
    facet_settle_publish(&shares->settle, now_ns);
}

void shares_write_to_segment(const struct shares *shares, uint32_t client, struct facet_owner *owner)
{
    const struct facet_settled *total = &shares->settle.clients[client].total;

    facet_owner_set_device_time(owner, &(struct facet_device_time){.at_ns = total->at_ns,
                                                                   .measured_ns = total->measured_ns,
                                                                   .settled_ns = total->settled_ns,
                                                                   .published_ns = total->published_ns});
}

/* The sample's time is that of the published numbers: a request may have published after the caller read the clock. */
void shares_sample(struct shares *shares, uint64_t now_ns)
{
    uint32_t at = shares->count++ % (SHARES_SAMPLES + 1);
    uint64_t published_at_ns = shares->settle.published_at_ns;

    shares->at_ns[at] = published_at_ns > now_ns ? published_at_ns : now_ns;
    for (uint32_t i = 0; i < shares->settle.clients_end; i++)
        shares->published_ns[i][at] = shares_device_time_ns(shares, i);
}

uint64_t shares_device_time_ns(const struct shares *shares, uint32_t client)
{
    return shares->settle.clients[client].total.published_ns;
}

bool shares_of(const struct shares *shares, uint32_t client, uint32_t *ret_milli)
{
    if (shares->count < shares->first_sample[client] + 2)
        return false;

    uint32_t sample_count = shares->count - 1 < SHARES_SAMPLES ? shares->count - 1 : SHARES_SAMPLES;
    uint32_t last = (shares->count - 1) % (SHARES_SAMPLES + 1);
    uint32_t first = (shares->count - 1 - sample_count) % (SHARES_SAMPLES + 1);
    uint64_t passed_ns = shares->at_ns[last] - shares->at_ns[first];
    uint64_t used_ns = shares->published_ns[client][last] - shares->published_ns[client][first];

    if (!passed_ns)
        return false;
    *ret_milli = (uint32_t)(used_ns * FACET_MILLI_WHOLE / passed_ns);
    return true;
}
