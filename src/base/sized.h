/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs that begin with `uint32_t size`, which the caller sets to what his struct has: one that was built against an
 * older header, and so has a smaller one, gets as much as he knows and not a byte more.
 *
 * Owns: that rule. Never: reads or writes past the size that was set.
 */
#ifndef FACET_BASE_SIZED_H
#define FACET_BASE_SIZED_H

#include <stdint.h>
#include <string.h>

#include <facet/error.h>

/* `ret` may be NULL: FACET_INVALID_ARGUMENT, as for a size that was not set. `name` is the argument's. */
static inline enum facet_status facet_sized_check(const char *name, const void *ret, struct facet_error *error)
{
    uint32_t size = 0;

    if (!ret)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
    memcpy(&size, ret, sizeof size);
    if (size >= sizeof size)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: size %u, expected that of its struct", name,
                                (unsigned)size);
}

/* What was checked gets as much of `whole`, of so many bytes, as it has room for, and that as its size. */
static inline void facet_sized_give(void *ret, const void *whole, uint32_t bytes)
{
    uint32_t size;

    memcpy(&size, ret, sizeof size);
    size = size < bytes ? size : bytes;
    memcpy(ret, whole, size);
    memcpy(ret, &size, sizeof size);
}

#endif
