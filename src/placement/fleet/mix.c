/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the expected jobs, and the tables of how much of a GPU they could use.
 * Never: scores a node; score_fgd.c and score_facet.c do.
 *
 * The fragments of a node are, for each expected shape, the free milli that the shape could not use, weighted by how
 * often the shape comes (FGD's F). A shape of one GPU can use every GPU with enough milli left. A shape of several
 * whole GPUs can use all whole GPUs if there are enough of them. Both need CPU, too. So the usable milli of a
 * node are a sum of one number for each GPU and one number for the count of whole GPUs. Tables give both, by free CPU
 * and milli.
 */
#include <stdlib.h>
#include <string.h>

#include "placement/fleet/mix.h"

#define COVERED_PERCENT 95    /* so many percent of the jobs, or more, have their shape in the tables */
#define LEVEL_SLOTS     1024u /* entries of fleet_mix.level_of_slot */
#define WHOLE_COLUMNS   (FACET_FLEET_GPUS + 1) /* columns of fleet_mix.whole: 0 to FACET_FLEET_GPUS free GPUs */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_key(const void *left, const void *right)
{
    const struct fleet_shape *a = &((const struct fleet_weighted *)left)->shape;
    const struct fleet_shape *b = &((const struct fleet_weighted *)right)->shape;
    int order = compare_u64(b->cpu, a->cpu);

    order = order ? order : compare_u64(b->milli, a->milli);
    order = order ? order : compare_u64(b->gpu_count, a->gpu_count);
    return order ? order : compare_u64(b->models, a->models);
}

static int compare_weight(const void *left, const void *right)
{
    const struct fleet_weighted *a = left, *b = right;

    return a->weight != b->weight ? (a->weight < b->weight) - (a->weight > b->weight) : compare_key(left, right);
}

static size_t merge_alike(struct fleet_weighted *list, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && compare_key(&list[kept - 1], &list[i]) == 0)
            list[kept - 1].weight += list[i].weight;
        else
            list[kept++] = list[i];
    }
    return kept;
}

/* How many of the most frequent shapes, which come first, cover COVERED_PERCENT of the jobs. */
static size_t count_typical(const struct fleet_weighted *list, size_t count, int64_t jobs)
{
    int64_t covered = 0;
    size_t i = 0;

    while (i < count && covered * 100 < COVERED_PERCENT * jobs)
        covered += list[i++].weight;
    return i;
}

static int compare_u32(const void *left, const void *right)
{
    return compare_u64(*(const uint32_t *)left, *(const uint32_t *)right);
}

/* The CPU amounts of the shapes, rising, after a 0 that stands for less than the smallest. */
static enum facet_status make_levels(struct fleet_mix *mix, const struct fleet_weighted *list, size_t count)
{
    uint32_t levels = 1;

    mix->cpu = calloc(count + 1, sizeof *mix->cpu);
    mix->level_of_slot = calloc(LEVEL_SLOTS, sizeof *mix->level_of_slot);
    if (!mix->cpu || !mix->level_of_slot)
        return FACET_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        mix->cpu[i + 1] = list[i].shape.cpu;
    qsort(mix->cpu + 1, count, sizeof *mix->cpu, compare_u32);
    for (size_t i = 1; i <= count; i++)
        if (levels == 1 || mix->cpu[i] != mix->cpu[levels - 1])
            mix->cpu[levels++] = mix->cpu[i];
    mix->levels = levels;
    mix->level_slots = LEVEL_SLOTS;
    mix->level_step = mix->cpu[levels - 1] / (LEVEL_SLOTS - 1) + 1;
    for (uint32_t slot = 0, level = 0; slot < LEVEL_SLOTS; slot++) {
        while (level + 1 < levels && mix->cpu[level + 1] <= slot * mix->level_step)
            level++;
        mix->level_of_slot[slot] = level;
    }
    return FACET_OK;
}

static void make_ranks(struct fleet_mix *mix, const struct fleet_weighted *list, size_t count)
{
    bool wanted[FLEET_WHOLE + 1] = {false};
    uint16_t rank = 0;

    for (size_t i = 0; i < count; i++)
        if (list[i].shape.gpu_count > 0)
            wanted[list[i].shape.milli] = true;
    for (uint32_t milli = 0; milli <= FLEET_WHOLE; milli++)
        mix->rank[milli] = rank = (uint16_t)(rank + wanted[milli]);
    mix->ranks = rank + 1u;
}

/* The level that begins at `cpu`, which is the amount of some shape. Level 0 belongs to no shape. */
static uint32_t level_of(const struct fleet_mix *mix, uint32_t cpu)
{
    uint32_t low = 1, high = mix->levels - 1;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (mix->cpu[middle] < cpu)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_shape(struct fleet_mix *mix, uint32_t models, const struct fleet_weighted *item)
{
    const struct fleet_shape *shape = &item->shape;
    uint32_t level = level_of(mix, shape->cpu);

    for (uint32_t model = 0; model < models; model++) {
        size_t row = (size_t)model * mix->levels + level;

        if (!shape->any_model && !(shape->models >> model & 1))
            continue;
        if (shape->gpu_count > 1 && shape->milli == FLEET_WHOLE)
            mix->whole[row * WHOLE_COLUMNS + shape->gpu_count] += item->weight;
        else
            mix->share[row * mix->ranks + mix->rank[shape->milli]] += item->weight;
    }
}

/* Sums up along both axes: a job that wants less CPU or fewer milli than another can use any GPU that the other can. */
static void sum_up(int64_t *table, uint32_t rows, uint32_t columns)
{
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t column = 1; column < columns; column++)
            table[row * columns + column] += table[row * columns + column - 1];
    for (uint32_t row = 1; row < rows; row++)
        for (uint32_t column = 0; column < columns; column++)
            table[row * columns + column] += table[(row - 1) * columns + column];
}

/* steps[i] is the least gain with score i: the score is 100 times the logistic function of the gain in whole GPUs. */
static void make_steps(struct fleet_mix *mix)
{
    for (int i = 1; i < 100; i++) {
        double t = (i - 50) / 50.0, power = t, odds = 0;

        for (int k = 1; k < 4000; k += 2) {
            odds += 2 * power / k;
            power *= t * t;
        }
        double min = odds * FLEET_WHOLE * (double)mix->total;

        mix->steps[i] = (int64_t)min + (min > (double)(int64_t)min);
    }
    mix->steps[0] = INT64_MIN;
    mix->steps[100] = INT64_MAX;
}

static enum facet_status make_tables(struct fleet_mix *mix, uint32_t models, const struct fleet_weighted *list,
                                     size_t count)
{

    if (make_levels(mix, list, count) != FACET_OK)
        return FACET_NO_MEMORY;
    make_ranks(mix, list, count);
    mix->share = calloc((size_t)models * mix->levels * mix->ranks, sizeof *mix->share);
    mix->whole = calloc((size_t)models * mix->levels * WHOLE_COLUMNS, sizeof *mix->whole);
    if (!mix->share || !mix->whole)
        return FACET_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        mix->total += list[i].weight;
        if (list[i].shape.gpu_count > 0)
            add_shape(mix, models, &list[i]);
    }
    for (uint32_t model = 0; model < models; model++) {
        sum_up(mix->share + (size_t)model * mix->levels * mix->ranks, mix->levels, mix->ranks);
        sum_up(mix->whole + (size_t)model * mix->levels * WHOLE_COLUMNS, mix->levels, WHOLE_COLUMNS);
    }
    make_steps(mix);
    return FACET_OK;
}

/* Scales the weights to a sum of 1 << FLEET_SCALE_BITS: a gain is then in milli, like the other terms of our
 * score. */
static void scale_weights(struct fleet_weighted *list, size_t count)
{
    int64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += list[i].weight;
    for (size_t i = 0; i < count; i++)
        list[i].weight = (int64_t)(((unsigned __int128)list[i].weight << FLEET_SCALE_BITS) / (uint64_t)total);
}

enum facet_status fleet_mix_make(struct facet_fleet *fleet, struct fleet_weighted *list, size_t count,
                                 struct facet_error *error)
{
    struct fleet_mix mix = {0};
    uint32_t models = fleet->model_count ? fleet->model_count : 1;
    int64_t jobs = 0;

    for (size_t i = 0; i < count; i++)
        jobs += list[i].weight;
    qsort(list, count, sizeof *list, compare_key);
    count = merge_alike(list, count);
    qsort(list, count, sizeof *list, compare_weight);
    struct fleet_prices prices = fleet_prices_make(fleet, list, count);

    count = count_typical(list, count, jobs);
    if (fleet->policy == FACET_PLACEMENT_FACET)
        scale_weights(list, count);
    if (make_tables(&mix, models, list, count) != FACET_OK) {
        fleet_mix_clear(&mix);
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for the tables of %zu shapes", count);
    }
    fleet_mix_clear(&fleet->mix);
    fleet->mix = mix;
    fleet->prices = prices;
    fleet->mix_version++;
    for (uint32_t i = 0; i < fleet->node_count; i++)
        fleet_mix_weigh(fleet, &fleet->nodes[i]);
    return FACET_OK;
}

void fleet_mix_weigh(const struct facet_fleet *fleet, struct fleet_node *node)
{
    struct fleet_view view = fleet_mix_view(&fleet->mix, node->model, node->cpu_left);

    node->usable_weight = fleet_view_gpus(&view, node) + fleet_view_whole(&view, node->free_gpus);
}

void fleet_mix_clear(struct fleet_mix *mix)
{
    free(mix->cpu);
    free(mix->level_of_slot);
    free(mix->share);
    free(mix->whole);
}
