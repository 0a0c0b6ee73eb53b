/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extent of a launch as people type it: --global, --group, --offset.
 *
 * Owns: reading these options, and their consistency. Never: knows a kernel; the library checks the numbers.
 */
#ifndef FACET_KERNEL_RANGE_H
#define FACET_KERNEL_RANGE_H

#include <facet/kernel.h>

#include "command.h"

struct kernel_range {
    struct facet_range range;
    const char *global, *group, *offset; /* as typed; NULL: not given */
};

/* Takes OPTION_GLOBAL, _GROUP or _OFFSET. False: its value was refused. */
bool kernel_range_option(const struct command *self, struct kernel_range *range, int option);

/* Without --global, takes one work-item for each of the first buffer's `count` elements; 0: there is no buffer. */
enum facet_status kernel_range_complete(struct kernel_range *range, uint64_t count, struct facet_error *error);

#endif
