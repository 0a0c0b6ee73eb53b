/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: choosing the turns of a kind of device; see turns.h. Never: keeps state. */
#include "turns.h"

#include <string.h>

#include "base/clock.h"
#include "base/config.h"

static void apply_settings(struct facet_fair_config *config, uint64_t slice_us, uint64_t parallel)
{
    if (slice_us) { /* 0: the policy's own */
        uint64_t own_ns = config->slice_ns;

        config->slice_ns = slice_us * FACET_NS_PER_US;
        config->round_ns = config->round_ns * config->slice_ns / own_ns;
        config->least_turn_ns = config->least_turn_ns * config->slice_ns / own_ns;
    }
    if (parallel)
        config->parallel = (uint32_t)parallel;
}

enum facet_status turns_configure(struct turns *ret_turns, struct facet_error *error)
{
    struct turns turns = {.queue = facet_fair_queue, .others = facet_fair_defaults};
    uint64_t slice_us, parallel;

    enum facet_status status = facet_config_u64(FACET_SETTING_SLICE_US, &slice_us, error);
    if (status == FACET_OK)
        status = facet_config_u64(FACET_SETTING_PARALLEL, &parallel, error);
    if (status != FACET_OK)
        return status;
    apply_settings(&turns.queue, slice_us, parallel);
    apply_settings(&turns.others, slice_us, parallel);
    *ret_turns = turns;
    return FACET_OK;
}

/* A GPU takes the launches of all processes in order, as a queue. */
const struct facet_fair_config *turns_of(const struct turns *turns, const char *device_id)
{
    bool is_queue = strncmp(device_id, "cuda:", 5) == 0 || strncmp(device_id, "rocm:", 5) == 0;

    return is_queue ? &turns->queue : &turns->others;
}
