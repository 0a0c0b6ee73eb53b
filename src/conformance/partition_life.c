/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: creating and removing partitions at every place and in random order. Never: assumes a vendor's placement rules.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "conformance/slices.h"

static bool is_refusal(enum facet_status status)
{
    return status == FACET_NO_SPACE || status == FACET_BAD_STATE || status == FACET_BUSY;
}

enum tally_index { CREATED, ANSWER, LISTED, OVERLAP, REMOVED, TALLY_COUNT };

static const char *fault_of_answer(const struct facet_check *check, const struct facet_partition_template *wanted,
                                   uint32_t start, const struct facet_partition_info *info)
{
    if (info->device != check->device || info->start != start || info->length != wanted->length)
        return "another device, start or length";
    if (strncmp(info->template_id, wanted->id, sizeof info->template_id) != 0)
        return "another template_id";
    if (!info->uuid[0] || !facet_check_is_text(info->uuid, sizeof info->uuid) ||
        !facet_check_is_text(info->address, sizeof info->address))
        return "a uuid that is empty or not printable, or an address that is not printable";
    if ((info->valid & FACET_PARTITION_HAS_MEMORY) && (wanted->valid & FACET_PARTITION_HAS_MEMORY) &&
        info->memory_bytes != wanted->memory_bytes)
        return "another memory_bytes than the template's";
    if (info->compute_units != wanted->compute_units)
        return "another compute_units than the template's";
    return NULL;
}

static void check_partition(struct facet_check *check, const struct facet_partition_template *wanted, uint32_t start,
                            struct facet_check_tally *tallies)
{
    struct facet_partition_info info, again;
    uint32_t count = 0;
    enum facet_status status = facet_check_create(check, wanted->id, start, &info);

    if (status != FACET_OK) {
        facet_check_tally_miss(&tallies[CREATED], "expected: ok for '%.31s' at %" PRIu32 "\ngot: %s: %.200s",
                               wanted->id, start, facet_status_name(status), check->error.message);
        return;
    }
    const char *fault = fault_of_answer(check, wanted, start, &info);
    if (fault)
        facet_check_tally_miss(&tallies[ANSWER],
                               "expected: a partition as template '%.31s' at slice %" PRIu32 " describes it\ngot: %s",
                               wanted->id, start, fault);
    FACET_CLEANUP_FREE struct facet_partition_info *all = facet_check_partitions(check, &count);
    const struct facet_partition_info *listed = facet_check_find(all, count, info.uuid);
    if (count != 1 || !listed || memcmp(listed, &info, sizeof info) != 0)
        facet_check_tally_miss(&tallies[LISTED],
                               "expected: '%.31s' at %" PRIu32 " alone in the list, as create gave it\n"
                               "got: %" PRIu32 " partitions, %s with the uuid that create gave",
                               wanted->id, start, count, listed ? "one" : "none");
    status = facet_check_create(check, wanted->id, start, &again);
    if (status != FACET_NO_SPACE)
        facet_check_tally_miss(&tallies[OVERLAP], "expected: no_space for a second '%.31s' at %" PRIu32 "\ngot: %s",
                               wanted->id, start, facet_status_name(status));
    if (status == FACET_OK)
        facet_check_destroy(check, again.uuid);
    status = facet_check_destroy(check, info.uuid);
    if (status != FACET_OK)
        facet_check_tally_miss(&tallies[REMOVED],
                               "expected: partition.destroy of '%.31s' at %" PRIu32 " to be ok\ngot: %s", wanted->id,
                               start, facet_status_name(status));
}

void facet_check_partition_every_placement(struct facet_check *check)
{
    struct facet_check_tally tallies[TALLY_COUNT] = {
        [CREATED] = {.text = "partition.create: every template at every placement"},
        [ANSWER] = {.text = "partition.create: answers with what was asked for"},
        [LISTED] = {.text = "partition.list: has what was created, and nothing else"},
        [OVERLAP] = {.text = "partition.create: a second partition in the same place has no space"},
        [REMOVED] = {.text = "partition.destroy: removes each"},
    };
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *templates = facet_check_templates(check, &count);

    facet_check_begin(check, "%s", tallies[CREATED].text);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t places = 0;
        FACET_CLEANUP_FREE struct facet_partition_placement *placements =
            facet_check_placements(check, templates[i].id, &places);

        for (uint32_t j = 0; j < places; j++)
            check_partition(check, &templates[i], placements[j].start, tallies);
    }
    facet_check_report_tallies(check, tallies, TALLY_COUNT);
}

/* Creates a partition at each placement of a template, and compares the result with the placement's flag `free`. */
static void try_flags(struct facet_check *check, const struct facet_partition_template *wanted,
                      struct facet_check_tally *free_ones, struct facet_check_tally *taken_ones)
{
    uint32_t places = 0;
    FACET_CLEANUP_FREE struct facet_partition_placement *placements =
        facet_check_placements(check, wanted->id, &places);

    for (uint32_t i = 0; i < places; i++) {
        struct facet_partition_info info;
        enum facet_status status = facet_check_create(check, wanted->id, placements[i].start, &info);

        if (placements[i].free && status != FACET_OK)
            facet_check_tally_miss(free_ones, "expected: ok for '%.31s' at %" PRIu32 ", which is free\ngot: %s: %.200s",
                                   wanted->id, placements[i].start, facet_status_name(status), check->error.message);
        if (!placements[i].free && !is_refusal(status))
            facet_check_tally_miss(taken_ones,
                                   "expected: no_space for '%.31s' at %" PRIu32 ", which is not free\ngot: %s",
                                   wanted->id, placements[i].start, facet_status_name(status));
        if (status == FACET_OK)
            facet_check_destroy(check, info.uuid);
    }
}

/* With one partition of each template in turn, placements flagged as free must be usable, and the others must not. */
void facet_check_partition_free_flags(struct facet_check *check)
{
    struct facet_check_tally tallies[] = {
        {.text = "partition.placements: what is free can be created"},
        {.text = "partition.placements: what is not free is refused"},
    };
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *templates = facet_check_templates(check, &count);

    facet_check_begin(check, "%s", tallies[0].text);
    for (uint32_t i = 0; i < count; i++) {
        struct facet_partition_info first;

        if (facet_check_create(check, templates[i].id, FACET_PLACEMENT_ANY, &first) != FACET_OK)
            continue;
        for (uint32_t j = 0; j < count; j++)
            try_flags(check, &templates[j], &tallies[0], &tallies[1]);
        facet_check_destroy(check, first.uuid);
    }
    facet_check_report_tallies(check, tallies, 2);
}

/* Creates partitions of a template until one is refused; returns how many, and in *ret_last the refusal. */
static uint32_t fill_with(struct facet_check *check, const char *template_id, enum facet_status *ret_last)
{
    struct facet_partition_info info;
    uint32_t made = 0;

    while (made < FACET_CHECK_ITEMS) {
        *ret_last = facet_check_create(check, template_id, FACET_PLACEMENT_ANY, &info);
        if (*ret_last != FACET_OK)
            break;
        made++;
    }
    return made;
}

static void destroy_all(struct facet_check *check, struct facet_check_tally *tally)
{
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_info *all = facet_check_partitions(check, &count);

    for (uint32_t i = 0; i < count; i++) {
        enum facet_status status = facet_check_destroy(check, all[i].uuid);
        if (status != FACET_OK)
            facet_check_tally_miss(tally, "expected: ok from partition.destroy\ngot: %s", facet_status_name(status));
    }
}

void facet_check_partition_fill(struct facet_check *check)
{
    struct facet_check_tally tallies[] = {
        {.text = "partition.create: as many of a template fit as it says"},
        {.text = "partition.create: one too many is refused"},
        {.text = "partition.destroy: a full device can be emptied"},
    };
    uint32_t count = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *templates = facet_check_templates(check, &count);

    facet_check_begin(check, "%s", tallies[0].text);
    for (uint32_t i = 0; i < count; i++) {
        enum facet_status last = FACET_OK;
        uint32_t made = fill_with(check, templates[i].id, &last);

        if (made != templates[i].max_count)
            facet_check_tally_miss(&tallies[0], "expected: max_count %" PRIu32 " of '%.31s'\ngot: %" PRIu32,
                                   templates[i].max_count, templates[i].id, made);
        if (last != FACET_NO_SPACE && last != FACET_BAD_STATE)
            facet_check_tally_miss(&tallies[1], "expected: no_space for one more '%.31s'\ngot: %s", templates[i].id,
                                   facet_status_name(last));
        destroy_all(check, &tallies[2]);
    }
    facet_check_report_tallies(check, tallies, 3);
}

static bool partitions_overlap(const struct facet_partition_info *one, const struct facet_partition_info *two)
{
    return one->start < two->start + two->length && two->start < one->start + one->length;
}

static void check_list(const struct facet_partition_info *all, uint32_t count, uint32_t expected,
                       struct facet_check_tally *tallies)
{
    if (count != expected)
        facet_check_tally_miss(&tallies[0], "expected: %" PRIu32 " partitions\ngot: %" PRIu32, expected, count);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && all[i].start < all[i - 1].start)
            facet_check_tally_miss(&tallies[1], "expected: in order of start\ngot: %" PRIu32 " after %" PRIu32,
                                   all[i].start, all[i - 1].start);
        for (uint32_t j = 0; j < i; j++) {
            if (partitions_overlap(&all[i], &all[j]))
                facet_check_tally_miss(
                    &tallies[2], "expected: no overlap\ngot: slices %" PRIu32 "+%" PRIu32 " and %" PRIu32 "+%" PRIu32,
                    all[j].start, all[j].length, all[i].start, all[i].length);
            if (strncmp(all[i].uuid, all[j].uuid, sizeof all[i].uuid) == 0)
                facet_check_tally_miss(&tallies[3], "expected: unique uuids\ngot: '%.63s' twice", all[i].uuid);
        }
    }
}

/* A fixed sequence, so that a failure can be reproduced. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static int32_t random_step(struct facet_check *check, const struct facet_partition_template *templates,
                           uint32_t template_count, const struct facet_partition_info *all, uint32_t count,
                           uint64_t *state)
{
    struct facet_partition_info info;

    if (count > 0 && next_random(state) % 5 < 2)
        return facet_check_destroy(check, all[next_random(state) % count].uuid) == FACET_OK ? -1 : 0;
    const struct facet_partition_template *wanted = &templates[next_random(state) % template_count];
    uint32_t start = next_random(state) % 3 ? FACET_PLACEMENT_ANY : next_random(state) % 8;
    return facet_check_create(check, wanted->id, start, &info) == FACET_OK ? 1 : 0;
}

void facet_check_partition_random(struct facet_check *check)
{
    enum { STEPS = 300 };
    struct facet_check_tally tallies[] = {
        {.text = "partition.list: 300 random steps: has what exists"},
        {.text = "partition.list: 300 random steps: is in order of start"},
        {.text = "partition.create: 300 random steps: partitions never overlap"},
        {.text = "partition.create: 300 random steps: uuids stay unique"},
    };
    uint64_t state = 1;
    uint32_t template_count = 0, expected = 0;
    FACET_CLEANUP_FREE struct facet_partition_template *templates = facet_check_templates(check, &template_count);

    facet_check_begin(check, "%s", tallies[0].text);
    for (int step = 0; step < STEPS && template_count > 0; step++) {
        uint32_t count = 0;
        FACET_CLEANUP_FREE struct facet_partition_info *all = facet_check_partitions(check, &count);

        check_list(all, count, expected, tallies);
        expected += (uint32_t)random_step(check, templates, template_count, all, count, &state);
    }
    facet_check_report_tallies(check, tallies, 4);
}
