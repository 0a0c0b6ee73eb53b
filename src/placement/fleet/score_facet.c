/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: our score, in milli of a GPU: how much otherwise usable capacity a placement makes unusable.
 * Never: is called for a node where the request does not fit; gives one term more weight than another.
 *
 * Three terms, each an expected loss of GPU milli: fragments, as FGD counts them; GPUs that the node's CPU can no
 * longer feed; and the demand of jobs that can use only this model. docs/placement.md explains them.
 */
#include "placement/fleet/mix.h"

/* GPU milli that the remaining CPU cannot feed, scaled. */
static int64_t milli_without_cpu(const struct facet_fleet *fleet, uint32_t gpu_left, uint32_t cpu_left)
{
    int64_t left = (int64_t)gpu_left << FLEET_SCALE_BITS;
    int64_t fed = (int64_t)cpu_left * fleet->prices.gpu_per_cpu;

    return left > fed ? left - fed : 0;
}

/* The node's weighted usable milli after the shape took its GPUs, less fleet_view_gpus() of the node before. This
 * function is for whole GPUs, which are all alike. */
static int64_t usable_whole(const struct fleet_view *view, const struct fleet_node *node,
                            const struct fleet_shape *shape)
{
    return fleet_view_whole(view, (uint32_t)node->free_gpus - shape->gpu_count) -
           shape->gpu_count * fleet_view_gpu(view, FLEET_WHOLE);
}

/* Like usable_whole() for milli of one GPU: chooses the GPU that leaves most usable. */
static int64_t usable_part(const struct fleet_view *view, const struct fleet_node *node,
                           const struct fleet_shape *shape, uint32_t *ret_gpu)
{
    int64_t best = INT64_MIN;

    for (uint32_t i = 0; i < node->gpus; i++) {
        if (node->left[i] < shape->milli)
            continue;
        int64_t usable = fleet_view_part(view, node, i, shape->milli);

        if (usable > best) {
            best = usable;
            *ret_gpu = i;
        }
    }
    return best;
}

/* Like usable_whole() for milli of several GPUs, each the fullest that has room. */
static int64_t usable_parts(const struct fleet_view *view, const struct fleet_node *node,
                            const struct fleet_shape *shape)
{
    uint32_t taken = 0, whole = node->free_gpus;
    int64_t usable = 0;

    for (uint32_t n = 0; n < shape->gpu_count; n++) {
        uint32_t gpu = fleet_gpu_fullest(node, shape->milli, taken), left = node->left[gpu];

        taken |= UINT32_C(1) << gpu;
        whole -= left == FLEET_WHOLE;
        usable += fleet_view_gpu(view, left - shape->milli) - fleet_view_gpu(view, left);
    }
    return usable + fleet_view_whole(view, whole);
}

int64_t fleet_gain(const struct fleet_mix *mix, const struct fleet_node *node, const struct fleet_shape *shape,
                   uint32_t *ret_gpu)
{
    struct fleet_view after = fleet_mix_view(mix, node->model, node->cpu_left - shape->cpu);
    int64_t gain = mix->total * shape->gpu_milli_sum - node->usable_weight + fleet_view_gpus(&after, node);

    *ret_gpu = FLEET_NONE;
    if (shape->gpu_count == 0 || shape->milli == FLEET_WHOLE)
        return gain + usable_whole(&after, node, shape);
    return gain +
           (shape->gpu_count == 1 ? usable_part(&after, node, shape, ret_gpu) : usable_parts(&after, node, shape));
}

int32_t fleet_score_facet(const struct facet_fleet *fleet, const struct fleet_node *node,
                          const struct fleet_shape *shape, uint32_t *ret_gpu)
{
    int64_t gain = fleet_gain(&fleet->mix, node, shape, ret_gpu);

    gain += milli_without_cpu(fleet, node->gpu_left, node->cpu_left);
    gain -= milli_without_cpu(fleet, node->gpu_left - shape->gpu_milli_sum, node->cpu_left - shape->cpu);
    gain -= fleet->prices.model[node->model] * shape->gpu_milli_sum;
    return (int32_t)(gain >> FLEET_SCALE_BITS);
}
