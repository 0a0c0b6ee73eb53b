/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: look-ups in the tables of a mix, inline because scores need many of them. Never: changes the tables. */
#ifndef FACET_PLACEMENT_MIX_H
#define FACET_PLACEMENT_MIX_H

#include "placement/fleet/fleet.h"

/* The rows of the tables for one node: the part of a look-up that does not depend on the GPU. */
struct fleet_view {
    const int64_t *share, *whole; /* the rows of a model and a CPU level */
    const uint16_t *rank;
};

static inline uint32_t fleet_mix_level(const struct fleet_mix *mix, uint32_t cpu)
{
    uint32_t slot = cpu / mix->level_step;
    uint32_t level = mix->level_of_slot[slot < mix->level_slots ? slot : mix->level_slots - 1];

    while (level + 1 < mix->levels && mix->cpu[level + 1] <= cpu)
        level++;
    return level;
}

static inline struct fleet_view fleet_mix_view(const struct fleet_mix *mix, uint32_t model, uint32_t cpu)
{
    size_t row = (size_t)model * mix->levels + fleet_mix_level(mix, cpu);

    return (struct fleet_view){mix->share + row * mix->ranks, mix->whole + row * (FACET_FLEET_GPUS + 1), mix->rank};
}

/* The usable milli of a GPU with `left` milli free, weighted. */
static inline int64_t fleet_view_gpu(const struct fleet_view *view, uint32_t left)
{
    return (int64_t)left * view->share[view->rank[left]];
}

/* The weighted usable milli of `free_gpus` wholly free GPUs for jobs of several whole GPUs. */
static inline int64_t fleet_view_whole(const struct fleet_view *view, uint32_t free_gpus)
{
    return (int64_t)free_gpus * FLEET_WHOLE * view->whole[free_gpus];
}

static inline int64_t fleet_view_gpus(const struct fleet_view *view, const struct fleet_node *node)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < node->gpus; i++)
        sum += fleet_view_gpu(view, node->left[i]);
    return sum;
}

/* The node's weighted usable milli after `milli` of one GPU are taken, less fleet_view_gpus() of the node before. */
static inline int64_t fleet_view_part(const struct fleet_view *view, const struct fleet_node *node, uint32_t gpu,
                                      uint32_t milli)
{
    uint32_t left = node->left[gpu];

    return fleet_view_gpu(view, left - milli) - fleet_view_gpu(view, left) +
           fleet_view_whole(view, (uint32_t)node->free_gpus - (left == FLEET_WHOLE));
}

#endif
