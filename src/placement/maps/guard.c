/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fragmentation guard: refuses a request that could be granted only in uneven parts of partly used devices.
 *
 * Owns: the test whether an even split fits. Never: makes the split, which is the strategy's task.
 */
#include <inttypes.h>

#include "placement/maps/maps.h"

struct maps_density maps_density(int64_t amount, uint32_t devices, int64_t quantum)
{
    int64_t quanta = amount / quantum / devices;
    int64_t left = amount - quanta * devices * quantum;

    return (struct maps_density){quanta * quantum, devices, (uint32_t)((left + quantum - 1) / quantum)};
}

/* How many places have at least `amount` free. The slot is sorted by the free amount. */
static uint32_t count_with_free(const struct facet_maps *maps, const struct maps_slot *slot, int64_t amount)
{
    uint32_t count = 0;

    for (uint32_t i = slot->first; i < slot->first + slot->count; i++) {
        const struct maps_cell *cell = &maps->cells[maps->order[i]];

        if (maps_free(cell) < amount)
            break;
        count += !cell->unhealthy;
    }
    return count;
}

static uint32_t count_with_capacity(const struct facet_maps *maps, const struct maps_slot *slot, int64_t amount)
{
    uint32_t count = 0;

    for (uint32_t i = slot->first; i < slot->first + slot->count; i++)
        count += !maps->cells[i].unhealthy && maps->cells[i].capacity >= amount;
    return count;
}

typedef uint32_t (*counter)(const struct facet_maps *maps, const struct maps_slot *slot, int64_t amount);

/* Whether the amount can be split evenly over `fewest` to `max` devices. `count_of` counts the devices that are large
 * enough. */
static bool item_fits(const struct facet_maps *maps, const struct maps_item *item, uint32_t fewest, uint32_t max,
                      counter count_of)
{
    for (uint32_t devices = fewest; devices <= max; devices++) {
        struct maps_density density = maps_density(item->asked, devices, item->map->quantum);
        uint32_t larger = density.larger ? count_of(maps, item->slot, density.share + item->map->quantum) : 0;

        if (larger >= density.larger && count_of(maps, item->slot, density.share) >= devices)
            return true;
        if (density.share == 0)
            break; /* more devices than there are quanta */
    }
    return false;
}

/* The healthy devices of a slot: their number, their free amounts and capacities in all, the capacity of the device
 * with the most free, and whether all have that capacity. */
struct survey {
    uint32_t devices;
    int64_t free, capacity, capacity_of_freest;
    bool alike;
};

static struct survey survey_slot(const struct facet_maps *maps, const struct maps_slot *slot)
{
    struct survey survey = {.alike = true};

    for (uint32_t i = slot->first; i < slot->first + slot->count; i++) {
        const struct maps_cell *cell = &maps->cells[maps->order[i]];

        if (cell->unhealthy)
            continue;
        if (survey.devices++ == 0)
            survey.capacity_of_freest = cell->capacity;
        survey.alike = survey.alike && cell->capacity == survey.capacity_of_freest;
        survey.free += maps_free(cell);
        survey.capacity += cell->capacity;
    }
    return survey;
}

static enum facet_status refuse_item(const struct maps_item *item, const struct survey *survey)
{
    char asked[FACET_AMOUNT_SIZE], possible[FACET_AMOUNT_SIZE];

    item->refusal->reason = FACET_REFUSED_FRAGMENTED;
    item->refusal->could = 0;
    return facet_error_argument(item->error, FACET_NO_SPACE, "request",
                                "slot '%.60s': %s asked for, no even split of it is free; %s of it is free on %" PRIu32
                                " devices",
                                item->slot->name, facet_amount_format(item->asked, asked, sizeof asked),
                                facet_amount_format(survey->free, possible, sizeof possible), survey->devices);
}

enum facet_status maps_guard(struct facet_maps *maps, struct maps_item *item)
{
    struct survey survey = survey_slot(maps, item->slot);
    int64_t fewest = survey.capacity_of_freest > 0 ? (item->asked - 1) / survey.capacity_of_freest + 1 : INT64_MAX;

    if (fewest > survey.devices)
        return refuse_item(item, &survey);
    if (item_fits(maps, item, (uint32_t)fewest, fewest == 1 ? 1 : survey.devices, count_with_free))
        return FACET_OK;
    /*
     * If devices of different sizes could not share the amount evenly even when empty, fragmentation is not the cause:
     * the request is not refused, and the strategy splits it as evenly as it can.
     */
    if (item->request->rules == FACET_MAPS_EXACT && !survey.alike && item->asked <= survey.free &&
        !item_fits(maps, item, (uint32_t)fewest, survey.devices, count_with_capacity))
        return FACET_OK;
    return refuse_item(item, &survey);
}
