/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the source of the mix: a given list, or the requests so far.
 * Never: forgets a request: old requests count like new ones.
 *
 * To learn the mix anew costs as much as scoring the fleet for every shape, so the mix is learned whenever the number
 * of requests has doubled.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "placement/fleet/fleet.h"

#define LEARN_FIRST_AT 16u /* requests */

static bool wants_mix(const struct facet_fleet *fleet)
{
    return fleet->policy == FACET_PLACEMENT_FGD || fleet->policy == FACET_PLACEMENT_FACET;
}

enum facet_status fleet_mix_from_config(struct facet_fleet *fleet, const struct facet_fleet_request *mix, size_t count,
                                        struct facet_error *error)
{
    FACET_CLEANUP_FREE struct fleet_weighted *list = calloc(count + 1, sizeof *list);

    if (!list)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for a mix of %zu jobs", count);
    for (size_t i = 0; i < count; i++) {
        if (fleet_shape_make(fleet, &mix[i], &list[i].shape, error) != FACET_OK)
            return facet_error_prefix(error, "mix: job %zu", i);
        list[i].weight = 1;
    }
    fleet->learns_mix = count == 0 && fleet->policy == FACET_PLACEMENT_FACET;
    fleet->learn_at = LEARN_FIRST_AT;
    /* The tables are large when all jobs differ, so a policy that does not read them gets an empty mix. */
    return fleet_mix_make(fleet, list, wants_mix(fleet) ? count : 0, error);
}

static void learn_from_requests(struct facet_fleet *fleet)
{
    FACET_CLEANUP_FREE struct fleet_weighted *list = calloc(fleet->shape_count, sizeof *list);

    for (uint32_t i = 0; list && i < fleet->shape_count; i++) {
        list[i].shape = fleet->shapes[i];
        list[i].weight = (int64_t)fleet->shapes[i].decisions;
    }
    /* When there is no memory, the previous mix stays. */
    if (list)
        (void)fleet_mix_make(fleet, list, fleet->shape_count, NULL);
}

void fleet_learn(struct facet_fleet *fleet, struct fleet_shape *shape)
{
    if (!fleet->learns_mix)
        return;
    shape->decisions++;
    if (++fleet->decisions < fleet->learn_at)
        return;
    fleet->learn_at *= 2;
    learn_from_requests(fleet);
}
