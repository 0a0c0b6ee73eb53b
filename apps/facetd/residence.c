/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: carrying demand and turns between segments and the policy; see residence.h. Never: keeps state of its own. */
#include "residence.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

enum facet_status residence_configure(struct facet_residence_config *ret_config, struct facet_error *error)
{
    uint64_t factor, patience_s;
    enum facet_status status = facet_config_u64(FACET_SETTING_SWAP_FACTOR, &factor, error);

    if (status == FACET_OK)
        status = facet_config_u64(FACET_SETTING_SWAP_PATIENCE_S, &patience_s, error);
    if (status != FACET_OK)
        return status;
    *ret_config = facet_residence_defaults;
    ret_config->turn_factor = (uint32_t)factor;
    ret_config->patience_ns = patience_s * FACET_NS_PER_S;
    return FACET_OK;
}

int residence_add(struct facet_residence *residence, const struct facet_owner *owner, const struct facet_limits *limits)
{
    struct facet_usage_totals totals;

    if (!facet_owner_is_oversubscribed(owner))
        return -1;
    int index = facet_residence_add(residence, limits->compute_request_milli);
    facet_owner_totals(owner, &totals);
    /* An adopted vGPU that is partly swapped out gets its memory back at its turn. */
    if (index >= 0 && totals.resident_bytes < totals.swappable_bytes)
        residence->clients[index].most_bytes = totals.resident_bytes;
    return index;
}

void residence_remove(struct facet_residence *residence, int index)
{
    if (index >= 0)
        facet_residence_remove(residence, index);
}

void residence_set_limits(struct facet_residence *residence, int index, const struct facet_limits *limits)
{
    if (index >= 0)
        facet_residence_set_weight(residence, index, limits->compute_request_milli);
}

void residence_look(struct facet_residence *residence, int index, const struct facet_usage_totals *totals, bool frozen)
{
    if (index < 0)
        return;
    residence->clients[index].demand = (struct facet_residence_demand){
        .set_bytes = totals->swappable_bytes,
        .resident_bytes = totals->resident_bytes,
        .refused_bytes = totals->refused_bytes,
        .waiting_resident = totals->waiting_resident,
        .busy = totals->inflight || totals->waiting,
        .frozen = frozen,
        .cannot_swap = totals->cannot_swap,
        .used_ns = totals->last_used_ns > totals->idle_since_ns ? totals->last_used_ns : totals->idle_since_ns,
    };
}

void residence_publish_limit(const struct facet_residence *residence, int index, struct facet_owner *owner)
{
    if (index >= 0)
        facet_owner_set_resident_most(owner, residence->clients[index].most_bytes);
}

void residence_log_stuck(const struct facet_residence *residence, int index, const char *vgpu_id, const char *device_id,
                         bool *stuck)
{
    bool is_stuck = index >= 0 && residence->clients[index].stuck;

    if (is_stuck != *stuck)
        facet_log(
            is_stuck ? FACET_LOG_WARNING : FACET_LOG_INFO, "vGPU %s on %s %s", vgpu_id, device_id,
            is_stuck ? "gives no memory back: a program of it is stopped, captures a stream or runs a kernel that does "
                       "not end; the others do not wait for it any longer"
                     : "gives memory back again");
    *stuck = is_stuck;
}
