/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the scores of the policies that need no mix, as published, and calling the score of the fleet's policy. Never:
 * compares nodes. */
#include "placement/fleet/fleet.h"

/* 100 less the percentage of the largest node that would stay free, CPU and GPU weighted alike. */
static int32_t best_fit(const struct facet_fleet *fleet, const struct fleet_node *node, const struct fleet_shape *shape)
{
    int64_t cpu = (int64_t)(node->cpu_left - shape->cpu) * fleet->gpu_max;
    int64_t gpu = (int64_t)(node->gpu_left - shape->gpu_milli_sum) * fleet->cpu_max;
    int64_t whole = (int64_t)fleet->cpu_max * fleet->gpu_max;

    return (int32_t)((100 * whole - 50 * (cpu + gpu)) / whole);
}

static int32_t dot_product(const struct facet_fleet *fleet, const struct fleet_node *node,
                           const struct fleet_shape *shape)
{
    double cpu = (double)node->cpu_left / fleet->cpu_max * shape->cpu / fleet->cpu_max;
    double gpu = (double)node->gpu_left / fleet->gpu_max * shape->gpu_milli_sum / fleet->gpu_max;

    return (int32_t)(100 * (1 - (cpu + gpu) / 2));
}

/* How many of the GPUs that would be taken, the fullest first, are whole; *ret_percent: the sum of their free parts. */
static uint32_t count_whole_gpus(const struct fleet_node *node, const struct fleet_shape *shape, uint32_t *ret_percent)
{
    uint32_t whole = 0, taken = 0;

    *ret_percent = 0;
    for (uint32_t n = 0; n < shape->gpu_count; n++) {
        uint32_t gpu = fleet_gpu_fullest(node, shape->milli, taken);

        taken |= UINT32_C(1) << gpu;
        whole += node->left[gpu] == FLEET_WHOLE;
        *ret_percent += node->left[gpu] * 100u / FLEET_WHOLE;
    }
    return whole;
}

static int32_t gpu_packing(const struct fleet_node *node, const struct fleet_shape *shape)
{
    uint32_t percent, whole;

    if (shape->gpu_count == 0)
        return 0;
    if (node->free_gpus == node->gpus)
        return 33 - node->gpus > node->gpus ? 33 - node->gpus : node->gpus;
    whole = count_whole_gpus(node, shape, &percent);
    if (whole > 0)
        return 50 - (int32_t)whole > 33 ? 50 - (int32_t)whole : 33;
    return 100 - (int32_t)(percent / 10) > 50 ? 100 - (int32_t)(percent / 10) : 50;
}

/*
 * Prefers nodes with requests of this kind only, then nodes with this and other kinds, then idle nodes, then all
 * others.
 * Among nodes of one of these classes, prefers the fullest.
 */
static int32_t gpu_clustering(const struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape)
{
    const struct fleet_node *state = &fleet->nodes[node];

    if (shape->gpu_count == 0)
        return 0;
    int32_t filled = (int32_t)(25 * ((int64_t)fleet->gpu_max - state->gpu_left) / fleet->gpu_max);

    if (fleet->details[node].allocs_of_kind[shape->kind] > 0)
        return filled + (state->kinds == 1 ? 75 : 50);
    return filled + (state->kinds == 0 ? 25 : 0);
}

int32_t fleet_score(const struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape)
{
    const struct fleet_node *state = &fleet->nodes[node];
    uint32_t gpu;

    if (!fleet_fits(state, shape))
        return FLEET_SCORE_NO_FIT;
    switch ((enum facet_placement_policy)fleet->policy) {
    case FACET_PLACEMENT_BEST_FIT:
        return best_fit(fleet, state, shape);
    case FACET_PLACEMENT_DOT_PRODUCT:
        return dot_product(fleet, state, shape);
    case FACET_PLACEMENT_GPU_PACKING:
        return gpu_packing(state, shape);
    case FACET_PLACEMENT_GPU_CLUSTERING:
        return gpu_clustering(fleet, node, shape);
    case FACET_PLACEMENT_FGD:
        return fleet_score_fgd(fleet, state, shape, &gpu);
    case FACET_PLACEMENT_FACET:
        return fleet_score_facet(fleet, state, shape, &gpu);
    case FACET_PLACEMENT_RANDOM:
    case FACET_PLACEMENT_FIRST_FIT:
        break;
    }
    return 0;
}
