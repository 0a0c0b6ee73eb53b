/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading --global, --group and --offset. Never: ignores a number that was given. */
#include "kernel_range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads "X", "X,Y" or "X,Y,Z". Returns how many numbers there are; 0 when the text is wrong. */
static uint32_t read_triple(const char *text, uint64_t numbers[3])
{
    uint32_t count = 0;
    char *end;

    for (const char *at = text; count < 3 && *at >= '0' && *at <= '9'; at = end + 1) {
        errno = 0;
        numbers[count++] = strtoull(at, &end, 0);
        if (errno)
            return 0;
        if (!*end)
            return count;
        if (*end != ',')
            return 0;
    }
    return 0;
}

bool kernel_range_option(const struct command *self, struct kernel_range *range, int option)
{
    const char *name = option == OPTION_GLOBAL ? "--global" : option == OPTION_GROUP ? "--group" : "--offset";
    uint64_t numbers[3] = {0};
    uint32_t count = read_triple(optarg, numbers);

    if (!count || (option != OPTION_GLOBAL && (numbers[0] | numbers[1] | numbers[2]) > UINT32_MAX)) {
        command_usage(self, "%s '%.64s': expected one to three numbers: 1024, or 640,480", name, optarg);
        return false;
    }
    if (option == OPTION_GLOBAL) {
        range->global = optarg;
        range->range.dimensions = count;
        for (uint32_t i = 0; i < 3; i++)
            range->range.global[i] = numbers[i];
        return true;
    }
    *(option == OPTION_GROUP ? &range->group : &range->offset) = optarg;
    for (uint32_t i = 0; i < 3; i++)
        (option == OPTION_GROUP ? range->range.group : range->range.offset)[i] = (uint32_t)numbers[i];
    return true;
}

/* Refuses numbers for dimensions that the launch does not have, as they would be ignored. */
static enum facet_status check_dimensions(const struct kernel_range *given, struct facet_error *error)
{
    const struct facet_range *range = &given->range;

    for (uint32_t i = range->dimensions; i < 3; i++) {
        bool group = range->group[i] > 1;
        const char *name = group ? "--group" : "--offset";

        if (group || range->offset[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, name,
                                        "%s '%.64s': dimension %c is not one of --global '%.64s'; expected numbers for "
                                        "%" PRIu32 " of them",
                                        name, group ? given->group : given->offset, "xyz"[i],
                                        given -> global ? given -> global : "elements of the first buffer",
                                        range->dimensions);
    }
    return FACET_OK;
}

enum facet_status kernel_range_complete(struct kernel_range *range, uint64_t count, struct facet_error *error)
{
    if (!range->range.dimensions && !count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "--global",
                                    "--global is missing: there is no buffer whose elements could be counted");
    if (!range->range.dimensions) {
        range->range.dimensions = 1;
        range->range.global[0] = count;
    }
    return check_dimensions(range, error);
}
