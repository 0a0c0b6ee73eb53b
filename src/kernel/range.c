/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: checking ranges. Never: rounds a range that the caller gave. */
#include "kernel/range.h"

#include <inttypes.h>
#include <string.h>

enum { VECTOR_ITEMS = 16, GROUP_ITEMS_ENOUGH = 64 };
#define GROUPS_MAX (UINT64_C(1) << 48)

static const char axes[] = "xyz";

uint32_t facet_group_choose(uint32_t global, uint32_t max, uint32_t extended_max)
{
    uint32_t largest = 1, whole_vectors = 0;

    for (uint32_t size = 1; size <= max && size <= global; size++) {
        if (global % size != 0)
            continue;
        largest = size;
        whole_vectors = size % VECTOR_ITEMS == 0 ? size : whole_vectors;
    }
    if (whole_vectors >= GROUP_ITEMS_ENOUGH)
        return whole_vectors;
    if (largest >= GROUP_ITEMS_ENOUGH || largest == global)
        return largest;
    for (uint32_t size = max + 1; size <= extended_max && size <= global; size++)
        if (global % size == 0)
            return size;
    return largest;
}

static enum facet_status check_extent(const struct facet_range *range, struct facet_error *error)
{
    for (uint32_t i = 0; i < range->dimensions; i++) {
        if (range->global[i] == 0 || range->global[i] > INT32_MAX)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "global", "global %c %" PRIu64 ": expected 1 to %d",
                                        axes[i], range->global[i], INT32_MAX);
        if (range->offset[i] > INT32_MAX - range->global[i])
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "offset",
                                        "offset %c %" PRIu32 ": expected ids below 2^31, at most %" PRIu64
                                        " for %" PRIu64 " work-items",
                                        axes[i], range->offset[i], INT32_MAX - range->global[i], range->global[i]);
    }
    return FACET_OK;
}

/* The group size that the caller or the kernel requires; 0 where neither does. */
static enum facet_status read_group(const struct facet_range *range, const struct facet_host_kernel *kernel,
                                    struct facet_grid *grid, struct facet_error *error)
{
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t given = i < range->dimensions ? range->group[i] : 1, required = kernel->required_group_size[i];

        if (required && given && given != required)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "group",
                                        "group %c %" PRIu32 ": expected %" PRIu32 ", which kernel %.64s requires",
                                        axes[i], given, required, kernel->name);
        grid->group[i] = required ? required : given;
    }
    return FACET_OK;
}

static void choose_group(const struct facet_range *range, struct facet_grid *grid)
{
    uint64_t used = 1;

    for (uint32_t i = 0; i < 3; i++)
        used *= grid->group[i] ? grid->group[i] : 1;
    for (uint32_t i = 0; i < 3; i++) {
        if (grid->group[i]) /* given, as in all unused dimensions */
            continue;
        uint32_t max = used < FACET_GROUP_CHOICE ? (uint32_t)(FACET_GROUP_CHOICE / used) : 1;
        uint32_t extended_max = used == 1 ? FACET_HOST_GROUP_MOST : max;
        grid->group[i] = facet_group_choose((uint32_t)range->global[i], max, extended_max);
        used *= grid->group[i];
    }
}

static enum facet_status check_group(const struct facet_range *range, struct facet_grid *grid,
                                     struct facet_error *error)
{
    uint64_t items = 1;

    for (uint32_t i = 0; i < 3; i++) {
        uint64_t global = i < range->dimensions ? range->global[i] : 1;

        if (global % grid->group[i] != 0)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "global",
                                        "global %c %" PRIu64 ": expected a multiple of the group's %" PRIu32, axes[i],
                                        global, grid->group[i]);
        grid->grid[i] = (uint32_t)(global / grid->group[i]);
        items = grid->group[i] > FACET_HOST_GROUP_MOST ? FACET_HOST_GROUP_MOST + 1 : items * grid->group[i];
        if (items > FACET_HOST_GROUP_MOST)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "group",
                                        "group of %" PRIu32 " x %" PRIu32 " x %" PRIu32 ": expected at most %u items",
                                        grid->group[0], grid->group[1], grid->group[2], FACET_HOST_GROUP_MOST);
    }
    return FACET_OK;
}

static enum facet_status check_groups(const struct facet_range *range, const struct facet_grid *grid,
                                      struct facet_error *error)
{
    uint64_t groups = 1;

    for (uint32_t i = 0; i < range->dimensions; i++)
        if (__builtin_mul_overflow(groups, grid->grid[i], &groups) || groups > GROUPS_MAX)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "global",
                                        "global %c %" PRIu64 ": %" PRIu32
                                        " groups in it, and more than 2^48 in all; expected at most 2^48",
                                        axes[i], range->global[i], grid->grid[i]);
    return FACET_OK;
}

enum facet_status facet_range_resolve(const struct facet_range *range, const struct facet_host_kernel *kernel,
                                      struct facet_grid *ret_grid, struct facet_error *error)
{
    struct facet_grid grid = {.dimensions = range->dimensions};

    if (range->dimensions < 1 || range->dimensions > 3)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "dimensions",
                                    "dimensions %" PRIu32 ": expected 1 to 3", range->dimensions);
    enum facet_status status = check_extent(range, error);
    if (status == FACET_OK)
        status = read_group(range, kernel, &grid, error);
    if (status != FACET_OK)
        return status;
    choose_group(range, &grid);
    status = check_group(range, &grid, error);
    if (status == FACET_OK)
        status = check_groups(range, &grid, error);
    if (status != FACET_OK)
        return status;
    memcpy(grid.offset, range->offset, range->dimensions * sizeof grid.offset[0]);
    *ret_grid = grid;
    return FACET_OK;
}
