/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch's extent, checked and complete.
 *
 * Owns: the bounds of every launch, and the choice of a work-group's size.
 * Never: checks the smaller bounds of a device; its provider does.
 */
#ifndef FACET_KERNEL_RANGE_H
#define FACET_KERNEL_RANGE_H

#include <facet/kernel.h>

/* Work-items of one group, at most, when the library chooses. */
#define FACET_GROUP_CHOICE 256u

struct facet_grid {
    uint32_t dimensions;
    uint32_t grid[3];   /* work-groups; 1 beyond the dimensions */
    uint32_t group[3];  /* work-items of one work-group */
    uint32_t offset[3]; /* 0 beyond the dimensions */
};

/* FACET_INVALID_ARGUMENT (dimensions), FACET_OUT_OF_RANGE naming the number and its bounds. */
enum facet_status facet_range_resolve(const struct facet_range *range, const struct facet_host_kernel *kernel,
                                      struct facet_grid *ret_grid, struct facet_error *error);

/*
 * Chooses the group's size in one dimension of `global` items: the largest divisor up to `max` that fills vectors (a
 * multiple of 16), if that is 64 or more; else the largest divisor up to `max`. If that is less than 64, the smallest
 * divisor above `max` and up to `extended_max` is chosen, if there is one.
 */
uint32_t facet_group_choose(uint32_t global, uint32_t max, uint32_t extended_max);

#endif
