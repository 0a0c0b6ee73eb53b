/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: planning a whole request, slot by slot in the order of the maps; the strategy `fill`; refusals and their texts.
 * Never: changes an allocation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "placement/maps/maps.h"

#define RULES_COUNT    2u
#define AFFINITY_COUNT 3u

void maps_add_part(struct facet_maps *maps, uint32_t cell, int64_t amount)
{
    maps->scratch.parts[maps->scratch.count++] = (struct maps_part){amount, cell};
}

/* Writes how many places have free amounts but are no candidates, and why. */
static void describe_passed_over(const struct maps_item *item, char *text, size_t size)
{
    char min[FACET_AMOUNT_SIZE];
    size_t used = 0;

    text[0] = '\0';
    if (item->too_small)
        used = (size_t)snprintf(text, size, "; %" PRIu32 " with less than %s free, the minimum, %s passed over",
                                item->too_small, facet_amount_format(maps_min_amount(item), min, sizeof min),
                                item->too_small == 1 ? "is" : "are");
    if (item->unhealthy && used < size)
        snprintf(text + used, size - used, "; %" PRIu32 " %s not healthy", item->unhealthy,
                 item->unhealthy == 1 ? "is" : "are");
}

enum facet_status maps_refuse_short(struct maps_item *item, int64_t possible)
{
    char asked[FACET_AMOUNT_SIZE], max[FACET_AMOUNT_SIZE], lacks[FACET_AMOUNT_SIZE], others[160];

    item->refusal->reason = FACET_REFUSED_SHORT;
    item->refusal->could = possible;
    describe_passed_over(item, others, sizeof others);
    return facet_error_argument(item->error, FACET_NO_SPACE, "request",
                                "slot '%.60s': %s asked for, %s can be had on %" PRIu32 " places: %s short%s",
                                item->slot->name, facet_amount_format(item->asked, asked, sizeof asked),
                                facet_amount_format(possible, max, sizeof max), item->candidates,
                                facet_amount_format(item->asked - possible, lacks, sizeof lacks), others);
}

static enum facet_status refuse_quantum(struct maps_item *item)
{
    char asked[FACET_AMOUNT_SIZE], step[FACET_AMOUNT_SIZE], possible[FACET_AMOUNT_SIZE];

    item->refusal->reason = FACET_REFUSED_QUANTUM;
    item->refusal->could = item->asked - item->asked % item->map->quantum;
    return facet_error_argument(item->error, FACET_OUT_OF_RANGE, "request",
                                "slot '%.60s': %s asked for, expected a multiple of %s; %s would be one",
                                item->slot->name, facet_amount_format(item->asked, asked, sizeof asked),
                                facet_amount_format(item->map->quantum, step, sizeof step),
                                facet_amount_format(item->refusal->could ? item->refusal->could : item->map->quantum,
                                                    possible, sizeof possible));
}

static enum facet_status refuse_amount(struct facet_maps_refusal *refusal, const struct facet_maps_item *item,
                                       const char *expected, struct facet_error *error)
{
    char asked[FACET_AMOUNT_SIZE];

    refusal->reason = FACET_REFUSED_AMOUNT;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "request", "slot '%.60s': %s asked for, expected %s",
                                item->slot, facet_amount_format(item->amount, asked, sizeof asked), expected);
}

/* --- the request as a whole --- */

static enum facet_status check_shape(const struct facet_maps *maps, const struct facet_maps_request *request,
                                     struct facet_error *error)
{
    if (!request || request->size < sizeof *request || (request->count && !request->items) ||
        (request->near_count && !request->near))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request",
                                    "request: expected a struct of %zu bytes with its items", sizeof *request);
    FACET_NEED_KNOWN("request", request, error);
    if (request->rules >= RULES_COUNT)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "rules", "rules %" PRIu32 ": expected 0 or 1",
                                    request->rules);
    if (request->affinity >= AFFINITY_COUNT)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "affinity", "affinity %" PRIu32 ": expected 0 to 2",
                                    request->affinity);
    if (request->least < 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "least", "least %" PRId64 ": expected 0 or more",
                                    request->least);
    for (uint32_t i = 0; i < request->near_count; i++)
        if (request->near[i] >= maps->cell_count)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "near",
                                        "near: place %" PRIu32 ", expected less "
                                        "than %" PRIu32,
                                        request->near[i], maps->cell_count);
    return FACET_OK;
}

static enum facet_status refuse_slot(struct facet_maps_refusal *refusal, const char *name, const char *why,
                                     struct facet_error *error)
{
    refusal->reason = FACET_REFUSED_SLOT;
    return facet_error_argument(error, FACET_NOT_FOUND, "request", "slot '%.60s': %s", name ? name : "", why);
}

static enum facet_status resolve_item(struct facet_maps *maps, const struct facet_maps_request *request, uint32_t index,
                                      struct facet_maps_refusal *refusal, struct facet_error *error)
{
    const struct facet_maps_item *item = &request->items[index];
    uint32_t slot;

    refusal->item = index;
    refusal->asked = item->amount;
    if (!item->slot)
        return refuse_slot(refusal, NULL, "expected a name", error);
    if (item->amount < 0)
        return refuse_amount(refusal, item, "0 or more", error);
    if (item->amount == 0)
        return FACET_OK;
    slot = maps_find_slot(maps, item->slot);
    if (slot == MAPS_NONE)
        return refuse_slot(refusal, item->slot, "no device of this node has it", error);
    if (maps->slots[slot].type == FACET_SLOT_UNIFIED)
        return refuse_slot(refusal, item->slot, "is unified: attached to every workload, not granted", error);
    if (maps->scratch.slot_item[slot] != MAPS_NONE) {
        refusal->reason = FACET_REFUSED_EXCLUSIVE;
        refusal->other = maps->scratch.slot_item[slot];
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request", "slot '%.60s' is asked for twice",
                                    item->slot);
    }
    maps->scratch.slot_item[slot] = index;
    return FACET_OK;
}

/* The slot of an item; MAPS_NONE when the item requests nothing of it. */
static uint32_t slot_of(const struct facet_maps *maps, const struct facet_maps_request *request, uint32_t index)
{
    return request->items[index].amount > 0 ? maps_find_slot(maps, request->items[index].slot) : MAPS_NONE;
}

/* Refuses two slots of one map that both match its exclusive names. */
static enum facet_status check_exclusive(struct facet_maps *maps, const struct facet_maps_request *request,
                                         struct facet_maps_refusal *refusal, struct facet_error *error)
{
    uint32_t holder[FACET_MAPS_MOST];

    memset(holder, 0xff, sizeof holder);
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t slot = slot_of(maps, request, i), map = slot == MAPS_NONE ? 0 : maps->slots[slot].map;
        const char *name = request->items[i].slot;

        if (slot == MAPS_NONE || !maps_exclude(&maps->maps[map], name, name))
            continue;
        if (holder[map] == MAPS_NONE) {
            holder[map] = i;
            continue;
        }
        refusal->reason = FACET_REFUSED_EXCLUSIVE;
        refusal->item = i;
        refusal->asked = request->items[i].amount;
        refusal->other = holder[map];
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "request",
                                    "slots '%.60s' and '%.60s' exclude each other: expected one of them",
                                    request->items[holder[map]].slot, name);
    }
    return FACET_OK;
}

static enum facet_status resolve_request(struct facet_maps *maps, const struct facet_maps_request *request,
                                         struct facet_maps_refusal *refusal, struct facet_error *error)
{
    enum facet_status status = check_shape(maps, request, error);

    if (status != FACET_OK)
        return status;
    memset(maps->scratch.slot_item, 0xff, maps->slot_count * sizeof *maps->scratch.slot_item);
    for (uint32_t i = 0; status == FACET_OK && i < request->count; i++)
        status = resolve_item(maps, request, i, refusal, error);
    return status == FACET_OK ? check_exclusive(maps, request, refusal, error) : status;
}

/* --- planning one slot --- */

enum facet_status maps_fill(struct facet_maps *maps, struct maps_item *item)
{
    struct maps_scratch *scratch = &maps->scratch;
    int64_t total = 0, left = item->units;

    for (uint32_t i = 0; i < item->candidates; i++)
        total += scratch->units[i];
    if (total < item->units)
        return maps_refuse_short(item, total * item->unit);
    for (uint32_t i = 0; left > 0; i++) {
        int64_t units = scratch->units[i] < left ? scratch->units[i] : left;

        maps_add_part(maps, scratch->cells[i], units * item->unit);
        left -= units;
    }
    return FACET_OK;
}

/* The unit in which the amount is divided: 1 for a unique slot, whatever the quantum is. */
static int64_t unit_of(const struct maps_item *item)
{
    if (item->slot->type == FACET_SLOT_UNIQUE)
        return FACET_AMOUNT_ONE;
    if (item->map->kind == FACET_MAP_DISCRETE || item->request->rules == FACET_MAPS_EXACT)
        return item->map->quantum;
    return item->map->strategy == FACET_MAP_EVENLY ? MAPS_GRID : 1;
}

static enum facet_status check_amount(struct maps_item *item)
{
    const struct facet_maps_item *asked = &item->request->items[item->index];

    if (item->slot->type == FACET_SLOT_UNIQUE && asked->amount != FACET_AMOUNT_ONE)
        return refuse_amount(item->refusal, asked, "1, as the slot is unique", item->error);
    item->unit = unit_of(item);
    item->units = item->asked / item->unit;
    if (item->asked % item->unit && (item->request->rules == FACET_MAPS_EXACT || item->map->kind == FACET_MAP_DISCRETE))
        return refuse_quantum(item);
    return FACET_OK;
}

/* Rounds the parts from `first` on down to multiples of the quantum. */
static enum facet_status round_parts(struct facet_maps *maps, struct maps_item *item, uint32_t first)
{
    struct maps_scratch *scratch = &maps->scratch;
    uint32_t kept = first;

    for (uint32_t i = first; i < scratch->count; i++) {
        scratch->parts[kept] = scratch->parts[i];
        scratch->parts[kept].amount -= scratch->parts[i].amount % item->map->quantum;
        kept += scratch->parts[kept].amount > 0;
    }
    scratch->count = kept;
    return kept == first ? refuse_quantum(item) : FACET_OK;
}

static enum facet_status plan_slot(struct facet_maps *maps, struct maps_item *item)
{
    bool fraction = item->map->kind == FACET_MAP_FRACTION, unique = item->slot->type == FACET_SLOT_UNIQUE;
    uint32_t first = maps->scratch.count;
    enum facet_status status = check_amount(item);

    if (status != FACET_OK)
        return status;
    maps_candidates(maps, item);
    if (fraction && item->request->guard && !unique)
        status = maps_guard(maps, item);
    if (status != FACET_OK)
        return status;
    if (item->map->strategy == FACET_MAP_FILL)
        status = maps_fill(maps, item);
    else
        status = fraction ? maps_split(maps, item) : maps_spread(maps, item);
    if (status == FACET_OK && fraction && !unique && item->request->rules == FACET_MAPS_ROUND_DOWN)
        status = round_parts(maps, item, first);
    return status;
}

/* --- the hint: the nodes that the next slot prefers --- */

static bool follows_affinity(const struct facet_maps_request *request)
{
    return request->affinity != FACET_AFFINITY_NONE;
}

static bool begin_hint(struct facet_maps *maps, const struct facet_maps_request *request)
{
    for (uint32_t i = 0; i < maps->node_count; i++)
        maps->scratch.nodes[i].hinted = maps->scratch.nodes[i].collected = false;
    for (uint32_t i = 0; i < request->near_count; i++)
        maps->scratch.nodes[maps->cells[maps->cell_of_place[request->near[i]]].node].hinted = true;
    return request->near_count > 0;
}

/* Hints the nodes of the parts from `first` on, and no others. */
static void hint_parts(struct facet_maps *maps, uint32_t first)
{
    struct maps_scratch *scratch = &maps->scratch;

    for (uint32_t i = 0; i < maps->node_count; i++)
        scratch->nodes[i].hinted = false;
    for (uint32_t i = first; i < scratch->count; i++) {
        struct maps_node *node = &scratch->nodes[maps->cells[scratch->parts[i].cell].node];

        node->hinted = node->collected = true;
    }
}

/* Hints the nodes of all parts of this map for the next map. */
static void hint_next_map(struct facet_maps *maps, uint32_t first)
{
    struct maps_scratch *scratch = &maps->scratch;

    for (uint32_t i = 0; scratch->count > first && i < maps->node_count; i++) {
        scratch->nodes[i].hinted = scratch->nodes[i].collected;
        scratch->nodes[i].collected = false;
    }
}

static enum facet_status plan_item(struct facet_maps *maps, const struct facet_maps_request *request, uint32_t index,
                                   uint32_t slot, bool *hinted, struct facet_maps_refusal *refusal,
                                   struct facet_error *error)
{
    uint32_t first = maps->scratch.count;
    struct maps_item item = {
        .request = request,
        .slot = &maps->slots[slot],
        .map = &maps->maps[maps->slots[slot].map],
        .asked = request->items[index].amount,
        .index = index,
        .hinted = *hinted,
        .refusal = refusal,
        .error = error,
    };

    refusal->item = index;
    refusal->asked = item.asked;
    enum facet_status status = plan_slot(maps, &item);
    if (status == FACET_OK && follows_affinity(request)) {
        hint_parts(maps, first);
        *hinted = true;
    }
    return status;
}

enum facet_status maps_plan(struct facet_maps *maps, const struct facet_maps_request *request,
                            struct facet_maps_refusal *refusal, struct facet_error *error)
{
    enum facet_status status = resolve_request(maps, request, refusal, error);
    bool hinted = status == FACET_OK && follows_affinity(request) && begin_hint(maps, request);

    maps->scratch.count = 0;
    for (uint32_t map = 0; status == FACET_OK && map < maps->map_count; map++) {
        uint32_t first = maps->scratch.count;

        for (uint32_t i = 0; status == FACET_OK && i < request->count; i++) {
            uint32_t slot = slot_of(maps, request, i);

            if (slot != MAPS_NONE && maps->slots[slot].map == map)
                status = plan_item(maps, request, i, slot, &hinted, refusal, error);
        }
        if (status == FACET_OK && follows_affinity(request))
            hint_next_map(maps, first);
    }
    return status;
}
