/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: for each shape the scores of all nodes, brought up to date by the journal of changes; finding the first node
 * of the highest score. Never: computes a score; score.c does.
 *
 * A changed node costs at most a pass over the nodes of its block. A decision costs one pass over the highest scores of
 * all blocks, and one over the nodes of a block.
 */
#include <stdlib.h>

#include "placement/fleet/fleet.h"

void fleet_index_changed(struct facet_fleet *fleet, uint32_t node)
{
    fleet->details[node].last_change = fleet->journal_end;
    fleet->journal[fleet->journal_end++ & fleet->journal_mask] = node;
}

static void refresh_block(struct fleet_shape *shape, uint32_t block)
{
    const int32_t *scores = shape->scores + (size_t)block * FLEET_BLOCK;
    int32_t best = FLEET_SCORE_NO_FIT;

    for (uint32_t i = 0; i < FLEET_BLOCK; i++)
        best = scores[i] > best ? scores[i] : best;
    shape->blocks[block] = best;
}

static void refresh_all(struct facet_fleet *fleet, struct fleet_shape *shape)
{
    for (uint32_t i = 0; i < fleet->node_count; i++)
        shape->scores[i] = fleet_score(fleet, i, shape);
    for (uint32_t i = 0; i < fleet->block_count; i++)
        refresh_block(shape, i);
    shape->journal_seen = fleet->journal_end;
    shape->mix_version = fleet->mix_version;
}

static void refresh_node(struct facet_fleet *fleet, struct fleet_shape *shape, uint32_t node)
{
    uint32_t block = node / FLEET_BLOCK;
    int32_t before = shape->scores[node], now = fleet_score(fleet, node, shape);

    shape->scores[node] = now;
    if (now >= shape->blocks[block])
        shape->blocks[block] = now;
    else if (before == shape->blocks[block])
        refresh_block(shape, block);
}

static enum facet_status make_scores(struct facet_fleet *fleet, struct fleet_shape *shape, struct facet_error *error)
{
    size_t padded = (size_t)fleet->block_count * FLEET_BLOCK;
    int32_t *scores = malloc((padded + fleet->block_count) * sizeof *scores);

    if (!scores)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for the scores of %u nodes", fleet->node_count);
    for (size_t i = fleet->node_count; i < padded; i++)
        scores[i] = FLEET_SCORE_NO_FIT;
    shape->scores = scores;
    shape->blocks = scores + padded;
    refresh_all(fleet, shape);
    return FACET_OK;
}

enum facet_status fleet_index_refresh(struct facet_fleet *fleet, struct fleet_shape *shape, struct facet_error *error)
{
    if (!shape->scores)
        return make_scores(fleet, shape, error);
    if (shape->mix_version != fleet->mix_version || fleet->journal_end - shape->journal_seen > fleet->journal_mask) {
        refresh_all(fleet, shape);
        return FACET_OK;
    }
    for (; shape->journal_seen < fleet->journal_end; shape->journal_seen++) {
        uint32_t node = fleet->journal[shape->journal_seen & fleet->journal_mask];

        if (fleet->details[node].last_change ==
            shape->journal_seen) /* otherwise a later entry of the journal has this node, too */
            refresh_node(fleet, shape, node);
    }
    return FACET_OK;
}

uint32_t fleet_index_best(const struct facet_fleet *fleet, const struct fleet_shape *shape)
{
    int32_t best = FLEET_SCORE_NO_FIT;
    uint32_t block = 0, node;

    for (uint32_t i = 0; i < fleet->block_count; i++)
        best = shape->blocks[i] > best ? shape->blocks[i] : best;
    if (best == FLEET_SCORE_NO_FIT)
        return FLEET_NONE;
    while (shape->blocks[block] != best)
        block++;
    node = block * FLEET_BLOCK;
    while (shape->scores[node] != best)
        node++;
    return node;
}
