/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: replaying vectors about a node as a whole: how its slots are split among agents, how its memory is aligned, and
 * how the guard splits an amount evenly (maps_density()). Never: makes maps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "placement/maps/replay_inside.h"

#define AGENTS_MAX 10000u /* of a vector */

static int64_t read_amount(const struct replay_value *vector, const char *name, int64_t fallback)
{
    struct replay_value at = replay_member(vector, name);
    int64_t amount = fallback;

    if (replay_present(&at) && (!replay_amount(&at, &amount, NULL) || amount < 0))
        replay_refuse(&at, "an amount of 0 or more, of at most 6 decimals");
    return amount;
}

static void compare_split(struct replay_text *fault, const struct replay_value *expected, const int64_t *reserved,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct replay_value item = replay_item(expected, i);
        char ours[FACET_AMOUNT_SIZE], recorded[FACET_AMOUNT_SIZE];
        int64_t amount = 0;

        if (!replay_amount(&item, &amount, NULL))
            replay_refuse(&item, "an amount of at most 6 decimals");
        if (fault->length)
            return;
        if (amount != reserved[i])
            replay_append(fault, "agent %" PRIu32 ": got %s, recorded %s", i,
                          facet_amount_format(reserved[i], ours, sizeof ours),
                          facet_amount_format(amount, recorded, sizeof recorded));
    }
}

void replay_agents_split(struct replay_text *fault, const struct replay_value *vector)
{
    static const char *const modes[] = {"shared", "auto-split", "manual", NULL};
    static const char *const kinds[] = {"discrete", "fraction", NULL};
    struct replay_value mode = replay_member(vector, "mode"), agents = replay_member(vector, "num_agents");
    struct replay_value kind = replay_member(vector, "alloc_map_kind"), expect = replay_member(vector, "expect");
    struct replay_value expected = replay_member(&expect, "agent_reserved_slots"),
                        refusal = replay_member(&expect, "error");
    FACET_CLEANUP_FREE int64_t *reserved = calloc(AGENTS_MAX, sizeof *reserved);
    struct facet_agents_config config = {
        .size = sizeof config,
        .mode = replay_choice(&mode, modes, FACET_AGENTS_SHARED),
        .kind = replay_choice(&kind, kinds, FACET_MAP_DISCRETE),
        .total = read_amount(vector, "total_slots", 0),
        .system = read_amount(vector, "system_reserved", 0),
        .manual = read_amount(vector, "manual_allocation", 0),
    };
    uint64_t count = replay_whole(&agents);
    struct facet_error error = {0};

    config.count = count <= AGENTS_MAX ? (uint32_t)count : AGENTS_MAX;
    if (!reserved)
        replay_append(fault, "no memory");
    if (fault->length)
        return;
    if (facet_agents_split(&config, reserved, &error) != FACET_OK) {
        if (!replay_present(&refusal))
            replay_append(fault, "refused: %s", error.message);
        return;
    }
    if (replay_present(&refusal))
        replay_append(fault, "done; recorded: refused as %s", replay_string(&refusal));
    else if (replay_count(&expected, AGENTS_MAX) != config.count)
        replay_refuse(&expected, "an amount for each agent");
    else
        compare_split(fault, &expected, reserved, config.count);
}

void replay_align(struct replay_text *fault, const struct replay_value *vector)
{
    struct replay_value total = replay_member(vector, "orig"), reserved = replay_member(vector, "reserved");
    struct replay_value align = replay_member(vector, "align"), expect = replay_member(vector, "expect");
    struct replay_value usable = replay_member(&expect, "usable"), kept = replay_member(&expect, "actual_reserved");
    uint64_t expected[2] = {replay_whole(&usable), replay_whole(&kept)}, ours[2] = {0};
    uint64_t bytes[3] = {replay_whole(&total), replay_whole(&reserved), replay_whole(&align)};
    struct facet_error error = {0};

    if (fault->length)
        return;
    if (facet_agents_align_memory(bytes[0], bytes[1], bytes[2], &ours[0], &ours[1], &error) != FACET_OK)
        replay_append(fault, "refused: %s", error.message);
    else if (ours[0] != expected[0] || ours[1] != expected[1])
        replay_append(fault,
                      "usable and reserved bytes: got %" PRIu64 " and %" PRIu64 ", recorded %" PRIu64 " and %" PRIu64,
                      ours[0], ours[1], expected[0], expected[1]);
}

static void compare_row(struct replay_text *fault, const struct replay_value *row, int64_t capacity, int64_t quantum)
{
    struct replay_value devices = replay_member(row, "devices"), extra = replay_member(row, "extra_devices");
    int64_t asked = read_amount(row, "requested", 0), share = read_amount(row, "quantized_share", -1);
    uint64_t expected[2] = {replay_whole(&devices), replay_whole(&extra)};

    if (fault->length)
        return;
    if (asked <= 0 || capacity <= 0 || (asked - 1) / capacity >= UINT32_MAX) {
        replay_refuse(row, "a requested amount above 0 that needs less than 2^32 devices");
        return;
    }
    struct maps_density ours = maps_density(asked, (uint32_t)((asked - 1) / capacity) + 1, quantum);
    char got[FACET_AMOUNT_SIZE], recorded[FACET_AMOUNT_SIZE];

    if (ours.devices != expected[0] || ours.larger != expected[1] || ours.share != share)
        replay_append(fault,
                      "%s: got %" PRIu32 " devices with %s each, %" PRIu32
                      " of them with a quantum more; recorded %" PRIu64 ", %s, %" PRIu64,
                      row->path, ours.devices, facet_amount_format(ours.share, got, sizeof got), ours.larger,
                      expected[0], facet_amount_format(share, recorded, sizeof recorded), expected[1]);
}

void replay_density(struct replay_text *fault, const struct replay_value *table)
{
    struct replay_value rows = replay_member(table, "rows"), capacity_at = replay_member(table, "device_capacity");
    struct replay_value quantum_at = replay_member(table, "quantum");
    int64_t capacity = read_amount(table, "device_capacity", FACET_AMOUNT_ONE);
    int64_t quantum = read_amount(table, "quantum", MAPS_GRID);
    size_t count = replay_count(&rows, REPLAY_STEPS_MAX);

    if (capacity == 0)
        replay_refuse(&capacity_at, "an amount above 0");
    if (quantum == 0)
        replay_refuse(&quantum_at, "an amount above 0");
    for (size_t i = 0; i < count && !fault->length; i++) {
        struct replay_value row = replay_item(&rows, i);

        if (replay_expect_object(&row))
            compare_row(fault, &row, capacity, quantum);
    }
}
