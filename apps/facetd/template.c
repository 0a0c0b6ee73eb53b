/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the order of templates and of places. Never: makes a partition. */
#include "template.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool placement_overlaps(const struct facet_partition_placement *a, uint32_t start, uint32_t length)
{
    return a->start < (uint64_t)start + length && start < (uint64_t)a->start + a->length;
}

/* How many places of all templates would stay free if these slices were taken. */
static uint64_t room_left(const struct template_offer *offers, uint32_t count, uint32_t start, uint32_t length)
{
    uint64_t room = 0;

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < offers[i].placement_count; j++)
            room += offers[i].placements[j].free && !placement_overlaps(&offers[i].placements[j], start, length);
    return room;
}

static bool best_start(const struct template_offer *offers, uint32_t count, const struct template_offer *offer,
                       uint32_t *ret_start)
{
    uint64_t most = 0;
    bool found = false;

    for (uint32_t i = 0; i < offer->placement_count; i++) {
        const struct facet_partition_placement *place = &offer->placements[i];
        if (!place->free)
            continue;
        uint64_t room = room_left(offers, count, place->start, place->length);
        if (found && room <= most)
            continue;
        found = true;
        most = room;
        *ret_start = place->start;
    }
    return found;
}

static bool template_holds(const struct facet_partition_template *template, const struct template_wish *wish)
{
    bool memory = !(template->valid & FACET_PARTITION_HAS_MEMORY) || template->memory_bytes >= wish->memory_bytes;

    return memory && template->compute_milli >= wish->compute_milli;
}

static bool is_smaller(const struct facet_partition_template *a, const struct facet_partition_template *b)
{
    if (a->compute_milli != b->compute_milli)
        return a->compute_milli < b->compute_milli;
    if (a->memory_bytes != b->memory_bytes)
        return a->memory_bytes < b->memory_bytes;
    return a->length < b->length;
}

static void print_names(const struct template_offer *offers, uint32_t count, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "none");
    for (uint32_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", offers[i].template.id);
}

/* Explains why no template could be chosen. */
static enum facet_status refuse_wish(const struct template_offer *offers, uint32_t count,
                                     const struct template_wish *wish, bool is_known, bool is_large_enough,
                                     struct facet_error *error)
{
    char names[200];

    print_names(offers, count, names, sizeof names);
    if (!is_known)
        return facet_error_argument(error, FACET_NOT_FOUND, "template", "template '%s': expected one of %s",
                                    wish->id ? wish->id : "", names);
    if (!is_large_enough)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, wish->id ? "template" : "memory",
                                    "%" PRIu64 " bytes and %" PRIu32 ".%" PRIu32
                                    " %% of the device: more than %s%s holds",
                                    wish->memory_bytes, wish->compute_milli / 10, wish->compute_milli % 10,
                                    wish->id ? "template " : "any of ", wish->id ? wish->id : names);
    return facet_error_argument(error, FACET_NO_SPACE, "template",
                                "%s%s: no place is free on the device; 'facet devices DEVICE' shows what is there",
                                wish->id ? "template " : "a template that is large enough", wish->id ? wish->id : "");
}

enum facet_status template_choose(const struct template_offer *offers, uint32_t count, const struct template_wish *wish,
                                  const struct template_offer **ret_offer, uint32_t *ret_start,
                                  struct facet_error *error)
{
    const struct template_offer *best = NULL;
    bool is_known = false, is_large_enough = false;
    uint32_t start = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct template_offer *offer = &offers[i];
        uint32_t at;

        if (wish->id && strcmp(offer->template.id, wish->id) != 0)
            continue;
        is_known = true;
        if (!template_holds(&offer->template, wish))
            continue;
        is_large_enough = true;
        if ((best && !is_smaller(&offer->template, &best->template)) || !best_start(offers, count, offer, &at))
            continue;
        best = offer;
        start = at;
    }
    if (!best)
        return refuse_wish(offers, count, wish, is_known, is_large_enough, error);
    *ret_offer = best;
    *ret_start = start;
    return FACET_OK;
}
