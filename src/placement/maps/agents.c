/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: dividing one node among several agents, and rounding memory to an alignment. Never: reads grants. */
#include <inttypes.h>
#include <stdbool.h>

#include <facet/allocation.h>

#include "base/sized.h"

static enum facet_status refuse_agents(struct facet_error *error, enum facet_status status, const char *name,
                                       int64_t amount, const char *expected, int64_t bound)
{
    char text[FACET_AMOUNT_SIZE], max[FACET_AMOUNT_SIZE];

    return facet_error_argument(error, status, name, "%s %s: expected %s %s", name,
                                facet_amount_format(amount, text, sizeof text), expected,
                                facet_amount_format(bound, max, sizeof max));
}

static enum facet_status check_config(const struct facet_agents_config *config, const int64_t *ret_withheld,
                                      struct facet_error *error)
{
    if (!config || config->size < sizeof *config || !ret_withheld)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: expected a struct of %zu bytes, "
                                    "and room for the answer",
                                    sizeof *config);
    FACET_NEED_KNOWN("config", config, error);
    if (!facet_agents_mode_name(config->mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "mode", "mode %" PRIu32 ": expected 0 to 2",
                                    config->mode);
    if (!facet_map_kind_name(config->kind))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind %" PRIu32 ": expected 0 or 1",
                                    config->kind);
    if (config->count == 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count", "count 0: expected one agent at least");
    if (config->total < 0)
        return refuse_agents(error, FACET_OUT_OF_RANGE, "total", config->total, "at least", 0);
    if (config->system < 0 || config->system > config->total)
        return refuse_agents(error, FACET_OUT_OF_RANGE, "system", config->system, "0 to the total,", config->total);
    if (config->manual < 0)
        return refuse_agents(error, FACET_OUT_OF_RANGE, "manual", config->manual, "at least", 0);
    return FACET_OK;
}

/* The equal part of agent `index` in the total less the system's reserve; the first agents get the remainder. */
static int64_t equal_part_of(const struct facet_agents_config *config, uint32_t index)
{
    int64_t unit = config->kind == FACET_MAP_DISCRETE ? FACET_AMOUNT_ONE : 1;
    int64_t units = (config->total - config->system) / unit;

    return (units / config->count + (index < units % config->count)) * unit;
}

enum facet_status facet_agents_split(const struct facet_agents_config *config, int64_t *ret_withheld,
                                     struct facet_error *error)
{
    enum facet_status status = check_config(config, ret_withheld, error);

    if (status != FACET_OK)
        return status;
    if (config->mode == FACET_AGENTS_MANUAL && config->manual > (config->total - config->system) / config->count)
        return refuse_agents(error, FACET_NO_SPACE, "manual", config->manual, "at most an equal part of",
                             config->total - config->system);
    for (uint32_t i = 0; i < config->count; i++) {
        if (config->mode == FACET_AGENTS_SHARED)
            ret_withheld[i] = config->system;
        else
            ret_withheld[i] =
                config->total - (config->mode == FACET_AGENTS_MANUAL ? config->manual : equal_part_of(config, i));
    }
    return FACET_OK;
}

enum facet_status facet_agents_align_memory(uint64_t total, uint64_t reserved, uint64_t align, uint64_t *ret_usable,
                                            uint64_t *ret_reserved, struct facet_error *error)
{
    if (!ret_usable || !ret_reserved)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_usable", "expected room for the answer");
    if (align == 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "align", "align 0: expected 1 or more");
    if (reserved > total)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "reserved",
                                    "reserved %" PRIu64 ": expected at most the total, %" PRIu64, reserved, total);
    /*
     * Adds the odd bytes beyond the last multiple of `align` a second time: when they are at least half of `align`, the
     * usable memory is rounded up to the next multiple and the reserve shrinks.
     */
    uint64_t odd = total % align;
    unsigned __int128 usable = (unsigned __int128)total + odd - reserved;

    usable -= usable % align;
    if (usable > total)
        usable = total - odd; /* rounded up beyond the total: the reserve is too small to shrink */
    *ret_usable = (uint64_t)usable;
    *ret_reserved = total - (uint64_t)usable;
    return FACET_OK;
}
