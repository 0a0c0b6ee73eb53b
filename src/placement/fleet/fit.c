/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the test whether a request fits a node, the choice of its GPUs there, and reserving them. Never: compares
 * nodes.
 */
#include "placement/fleet/fleet.h"

static bool gpus_fit(const struct fleet_node *node, const struct fleet_shape *shape)
{
    uint32_t found = 0;

    if (shape->milli == FLEET_WHOLE)
        return node->free_gpus >= shape->gpu_count;
    for (uint32_t i = 0; i < node->gpus; i++)
        found += node->left[i] >= shape->milli;
    return found >= shape->gpu_count;
}

bool fleet_fits(const struct fleet_node *node, const struct fleet_shape *shape)
{
    if (node->cpu_left < shape->cpu || node->memory_left < shape->memory)
        return false;
    if (shape->gpu_count == 0)
        return true;
    return node->gpu_left >= shape->gpu_milli_sum && (shape->any_model || (shape->models >> node->model & 1)) &&
           gpus_fit(node, shape);
}

uint32_t fleet_gpu_fullest(const struct fleet_node *node, uint32_t milli, uint32_t without_mask)
{
    uint32_t best = FACET_FLEET_GPUS, min = FLEET_WHOLE + 1;

    for (uint32_t i = 0; i < node->gpus; i++) {
        if (node->left[i] >= milli && node->left[i] < min && !(without_mask >> i & 1)) {
            best = i;
            min = node->left[i];
        }
    }
    return best;
}

static uint32_t gpus_with_room(const struct fleet_node *node, uint32_t milli)
{
    uint32_t gpu_mask = 0;

    for (uint32_t i = 0; i < node->gpus; i++)
        gpu_mask |= (uint32_t)(node->left[i] >= milli) << i;
    return gpu_mask;
}

uint32_t fleet_gpus_best(const struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape)
{
    const struct facet_node_topology *topology = fleet->details[node].topology;
    const struct fleet_node *state = &fleet->nodes[node];
    uint32_t gpu_mask = 0;

    if (shape->gpu_count > 1 && topology &&
        facet_node_choose(topology, gpus_with_room(state, shape->milli), shape->gpu_count, &gpu_mask, NULL) == FACET_OK)
        return gpu_mask;
    for (uint32_t i = 0; i < shape->gpu_count; i++)
        gpu_mask |= UINT32_C(1) << fleet_gpu_fullest(state, shape->milli, gpu_mask);
    return gpu_mask;
}

static void count_kind(struct facet_fleet *fleet, uint32_t node, uint32_t kind, int by)
{
    uint16_t *of_kind = &fleet->details[node].allocs_of_kind[kind];
    bool before = *of_kind > 0;

    *of_kind = (uint16_t)(*of_kind + by);
    fleet->nodes[node].kinds = (uint8_t)(fleet->nodes[node].kinds + (*of_kind > 0) - before);
}

static void recount_node(struct facet_fleet *fleet, uint32_t node)
{
    struct fleet_node *state = &fleet->nodes[node];
    uint32_t whole = 0;

    for (uint32_t i = 0; i < state->gpus; i++)
        whole += state->left[i] == FLEET_WHOLE;
    state->free_gpus = (uint8_t)whole;
    fleet_mix_weigh(fleet, state);
    fleet_index_changed(fleet, node);
}

void fleet_node_reserve(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape, uint32_t gpu_mask)
{
    struct fleet_node *state = &fleet->nodes[node];

    state->cpu_left -= shape->cpu;
    state->memory_left -= shape->memory;
    state->gpu_left -= shape->gpu_milli_sum;
    for (uint32_t i = 0; i < state->gpus; i++)
        if (gpu_mask >> i & 1)
            state->left[i] = (uint16_t)(state->left[i] - shape->milli);
    fleet->cpu_used += shape->cpu;
    fleet->gpu_used += shape->gpu_milli_sum;
    if (shape->gpu_count > 0)
        count_kind(fleet, node, shape->kind, 1);
    recount_node(fleet, node);
}

void fleet_node_release(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape, uint32_t gpu_mask)
{
    struct fleet_node *state = &fleet->nodes[node];

    state->cpu_left += shape->cpu;
    state->memory_left += shape->memory;
    state->gpu_left += shape->gpu_milli_sum;
    for (uint32_t i = 0; i < state->gpus; i++)
        if (gpu_mask >> i & 1)
            state->left[i] = (uint16_t)(state->left[i] + shape->milli);
    fleet->cpu_used -= shape->cpu;
    fleet->gpu_used -= shape->gpu_milli_sum;
    if (shape->gpu_count > 0)
        count_kind(fleet, node, shape->kind, -1);
    recount_node(fleet, node);
}
