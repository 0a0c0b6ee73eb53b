/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making room for a request by moving a few allocations of one node elsewhere.
 * Never: leaves an allocation moved when the request still does not fit.
 *
 * On each node that could take the request, allocations are moved to other nodes until the request fits, at most `most`
 * of them. Every attempt is undone exactly; the attempt that needed the fewest moves is then repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "placement/fleet/fleet.h"

struct attempt {
    struct facet_fleet *fleet;
    uint32_t node, most, count;
    struct facet_fleet_move moves[FLEET_MOVES_MAX];
    uint32_t previous[FLEET_MOVES_MAX]; /* for undo: the allocation before it in its node's list */
};

static bool can_be_cleared(const struct fleet_node_details *details, const struct fleet_node *node,
                           const struct fleet_shape *shape)
{
    return details->cpu >= shape->cpu && details->memory >= shape->memory && node->gpus >= shape->gpu_count &&
           (shape->gpu_count == 0 || shape->any_model || (shape->models >> node->model & 1)) &&
           details->first_alloc != FLEET_NONE;
}

static void undo_attempt(struct attempt *try)
{
    while (try->count > 0) {
        const struct facet_fleet_move *move = &try->moves[--try->count];
        uint32_t index = (uint32_t)move->allocation;

        fleet_alloc_unlink(try->fleet, index);
        fleet_alloc_link(try->fleet, index, move->from.node, move->from.gpus, try->previous[try->count]);
    }
}

/*
 * Returns the smallest allocation without which the shape fits; if no single allocation is enough, the largest.
 * FLEET_NONE: the node has no allocation.
 */
static uint32_t choose_allocation(struct attempt *try, const struct fleet_shape *shape)
{
    struct facet_fleet *fleet = try->fleet;
    uint32_t helps = FLEET_NONE, largest = FLEET_NONE;

    for (uint32_t i = fleet->details[try->node].first_alloc; i != FLEET_NONE; i = fleet->allocs[i].next) {
        const struct fleet_shape *moved = &fleet->shapes[fleet->allocs[i].shape];
        struct fleet_node without = fleet->nodes[try->node];

        without.cpu_left += moved->cpu;
        without.memory_left += moved->memory;
        without.gpu_left += moved->gpu_milli_sum;
        for (uint32_t gpu = 0; gpu < without.gpus; gpu++)
            without.left[gpu] = (uint16_t)(without.left[gpu] + (fleet->allocs[i].gpu_mask >> gpu & 1) * moved->milli);
        without.free_gpus = 0;
        for (uint32_t gpu = 0; gpu < without.gpus; gpu++)
            without.free_gpus = (uint8_t)(without.free_gpus + (without.left[gpu] == FLEET_WHOLE));
        if (fleet_fits(&without, shape) &&
            (helps == FLEET_NONE || moved->gpu_milli_sum < fleet->shapes[fleet->allocs[helps].shape].gpu_milli_sum))
            helps = i;
        if (largest == FLEET_NONE || moved->gpu_milli_sum > fleet->shapes[fleet->allocs[largest].shape].gpu_milli_sum)
            largest = i;
    }
    return helps != FLEET_NONE ? helps : largest;
}

/* The policy's best node except the node that is being cleared. */
static uint32_t find_elsewhere(struct attempt *try, struct fleet_shape *shape)
{
    int32_t best = FLEET_SCORE_NO_FIT;

    if (fleet_index_refresh(try->fleet, shape, NULL) != FACET_OK)
        return FLEET_NONE;
    uint32_t found = fleet_index_best(try->fleet, shape);
    if (found != try->node)
        return found;
    int32_t best_score = shape->scores[found];
    found = FLEET_NONE;
    for (uint32_t i = 0; i < try->fleet->node_count && best < best_score; i++) {
        if (i != try->node && shape->scores[i] > best) {
            best = shape->scores[i];
            found = i;
        }
    }
    return found;
}

static bool move_allocation(struct attempt *try, const struct fleet_shape *shape)
{
    struct facet_fleet *fleet = try->fleet;
    uint32_t index = try->count < try->most ? choose_allocation(try, shape) : FLEET_NONE;

    if (index == FLEET_NONE)
        return false;
    struct fleet_alloc *alloc = &fleet->allocs[index];
    struct facet_fleet_move *move = &try->moves[try->count];
    uint32_t to = find_elsewhere(try, &fleet->shapes[alloc->shape]);

    if (to == FLEET_NONE)
        return false;
    *move = (struct facet_fleet_move){.allocation = (uint64_t)alloc->generation << 32 | index,
                                      .from = {alloc->node, alloc->gpu_mask, 0},
                                      .to = {to, fleet_choose_gpus(fleet, to, &fleet->shapes[alloc->shape]), 0}};
    try->previous[try->count++] = alloc->previous;
    fleet_alloc_unlink(fleet, index);
    fleet_alloc_link(fleet, index, to, move->to.gpus, FLEET_NONE);
    return true;
}

static bool clear_node(struct attempt *try, uint32_t shape)
{
    while (!fleet_fits(&try->fleet->nodes[try->node], &try->fleet->shapes[shape])) {
        if (!move_allocation(try, &try->fleet->shapes[shape])) {
            undo_attempt(try);
            return false;
        }
    }
    return true;
}

static enum facet_status take_place(struct attempt *try, uint32_t shape, struct facet_fleet_placement *ret_placement,
                                    uint64_t *ret_allocation, struct facet_error *error)
{
    struct facet_fleet_placement placement = {try->node,
                                              fleet_choose_gpus(try->fleet, try->node, &try->fleet->shapes[shape]), 0};
    enum facet_status status = facet_fleet_commit(try->fleet, shape, &placement, ret_allocation, error);

    if (status == FACET_OK)
        *ret_placement = placement;
    else
        undo_attempt(try);
    return status;
}

static enum facet_status check_migration(const struct facet_fleet *fleet, uint32_t shape, uint32_t most,
                                         struct facet_error *error)
{
    if (shape >= fleet->shape_count)
        return facet_error_argument(error, FACET_NOT_FOUND, "shape", "shape: %u, expected below %u", shape,
                                    fleet->shape_count);
    if (most == 0 || most > FLEET_MOVES_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "most", "most: %u, expected 1 to %u", most,
                                    FLEET_MOVES_MAX);
    return FACET_OK;
}

/* Tries each node, and undoes the attempt. Returns the first node that needs the fewest moves; FLEET_NONE: none. */
static uint32_t fewest_moves(struct attempt *try, uint32_t shape)
{
    struct facet_fleet *fleet = try->fleet;
    uint32_t fewest = FLEET_NONE;

    for (try->node = 0; try->node < fleet->node_count && try->most > 0; try->node++) {
        if (!can_be_cleared(&fleet->details[try->node], &fleet->nodes[try->node], &fleet->shapes[shape]) ||
            !clear_node(try, shape))
            continue;
        fewest = try->node;
        try->most = try->count > 0 ? try->count - 1 : 0; /* a later node must need fewer moves */
        undo_attempt(try);
    }
    return fewest;
}

enum facet_status facet_fleet_migrate(struct facet_fleet *fleet, uint32_t shape, uint32_t most,
                                      struct facet_fleet_move *ret_moves, uint32_t *ret_count,
                                      struct facet_fleet_placement *ret_placement, uint64_t *ret_allocation,
                                      struct facet_error *error)
{
    struct attempt try = {.fleet = fleet, .most = most};
    enum facet_status status = check_migration(fleet, shape, most, error);

    if (status != FACET_OK)
        return status;
    uint32_t node = fewest_moves(&try, shape);

    try.node = node;
    try.most = most;
    if (node == FLEET_NONE || !clear_node(&try, shape))
        return facet_error_set(error, FACET_QUOTA, "no node has room for this request, even after %u moves", most);
    status = take_place(&try, shape, ret_placement, ret_allocation, error);
    if (status != FACET_OK)
        return status;
    memcpy(ret_moves, try.moves, try.count * sizeof *ret_moves);
    *ret_count = try.count;
    return FACET_OK;
}
