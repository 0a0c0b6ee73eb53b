/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: FGD's score: how much less of the free capacity the expected jobs can use afterwards, in the 100 steps of a
 * logistic curve, as published. Never: is called for a node where the request does not fit.
 */
#include "placement/fleet/mix.h"

static int32_t step_of(const struct fleet_mix *mix, int64_t gain)
{
    int32_t low = 0, high = 100;

    while (high - low > 1) {
        int32_t middle = (low + high) / 2;

        if (gain >= mix->steps[middle])
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first GPU with the same score as the best, `gpu`: the curve makes small differences equal. */
static uint32_t first_gpu_of_step(const struct fleet_mix *mix, const struct fleet_node *node,
                                  const struct fleet_shape *shape, int64_t step, int64_t best, uint32_t gpu)
{
    struct fleet_view view = fleet_mix_view(mix, node->model, node->cpu_left - shape->cpu);
    int64_t others = best - fleet_view_part(&view, node, gpu, shape->milli);

    for (uint32_t i = 0; i < gpu; i++)
        if (node->left[i] >= shape->milli && others + fleet_view_part(&view, node, i, shape->milli) >= step)
            return i;
    return gpu;
}

int32_t fleet_score_fgd(const struct facet_fleet *fleet, const struct fleet_node *node, const struct fleet_shape *shape,
                        uint32_t *ret_gpu)
{
    int64_t gain = fleet_gain(&fleet->mix, node, shape, ret_gpu);
    int32_t step = step_of(&fleet->mix, gain);

    if (*ret_gpu != FLEET_NONE)
        *ret_gpu = first_gpu_of_step(&fleet->mix, node, shape, fleet->mix.steps[step], gain, *ret_gpu);
    return step;
}
