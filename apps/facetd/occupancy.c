/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: turning a document into places, and finding the troubles of parts. Never: grants a place more than it has. */
#include "occupancy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/allocation.h>

#include "base/cleanup.h"
#include "base/text.h"

struct occupancy {
    const struct facet_spec *spec;
    struct facet_maps *maps;
    int64_t *withheld; /* for each place, what vGPUs outside reservations have of it */
};

/* --- from the document -------------------------------------------------------------------------------------------- */

/* The input of the maps. It borrows texts from the document, but owns the names of maps. */
struct map_plan {
    struct facet_map_config maps[FACET_MAPS_MOST];
    char names[FACET_MAPS_MOST][RESERVATION_SLOT_SIZE];
    uint32_t map_count;
    struct facet_map_device *devices;
    uint32_t count;
};

static size_t device_name_length(const char *slot)
{
    return strcspn(slot, ".");
}

/* The device of the document with this name and id; false when there is none. */
static bool find_device(const struct facet_spec *spec, const char *name, size_t length, const char *id,
                        struct facet_spec_device *ret_device)
{
    *ret_device = (struct facet_spec_device){.size = sizeof *ret_device};
    for (uint32_t i = 0; facet_spec_get_device(spec, i, ret_device, NULL) == FACET_OK; i++)
        if (strlen(ret_device->device_name) == length && strncmp(ret_device->device_name, name, length) == 0 &&
            strcmp(ret_device->device_id, id) == 0)
            return true;
    return false;
}

/* Finds or adds the map of the slot's kind of device. A provider's slots share it: they are of the same devices. */
static enum facet_status find_map(struct map_plan *map_plan, const char *slot, uint32_t strategy, uint32_t *ret_map,
                                  struct facet_error *error)
{
    size_t length = device_name_length(slot);

    for (uint32_t i = 0; i < map_plan->map_count; i++)
        if (strlen(map_plan->names[i]) == length && strncmp(map_plan->names[i], slot, length) == 0) {
            *ret_map = i;
            return FACET_OK;
        }
    if (map_plan->map_count == FACET_MAPS_MOST)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "more than %u kinds of devices", FACET_MAPS_MOST);
    snprintf(map_plan->names[map_plan->map_count], sizeof map_plan->names[0], "%.*s", (int)length, slot);
    map_plan->maps[map_plan->map_count] = (struct facet_map_config){
        .name = map_plan->names[map_plan->map_count], .kind = FACET_MAP_FRACTION, .strategy = strategy};
    *ret_map = map_plan->map_count++;
    return FACET_OK;
}

static enum facet_status add_slot(struct map_plan *map_plan, const struct facet_spec *spec, uint32_t index,
                                  const struct facet_spec_slot *slot, uint32_t strategy, struct facet_error *error)
{
    size_t length = device_name_length(slot->slot_name);
    struct facet_spec_device device;
    struct facet_spec_share share;
    uint32_t map = 0;
    enum facet_status status = find_map(map_plan, slot->slot_name, strategy, &map, error);

    if (status != FACET_OK)
        return status;
    struct facet_map_device *devices =
        reallocarray(map_plan->devices, map_plan->count + slot->share_count + 1, sizeof *map_plan->devices);
    if (!devices)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the places of slot '%.60s'", slot->slot_name);
    map_plan->devices = devices;
    for (uint32_t i = 0; facet_spec_get_share(spec, index, i, &share, NULL) == FACET_OK; i++) {
        bool has_node = find_device(spec, slot->slot_name, length, share.device_id, &device) &&
                        (device.valid & FACET_SPEC_DEVICE_HAS_NUMA);
        devices[map_plan->count++] =
            (struct facet_map_device){.id = share.device_id,
                                      .slot = slot->slot_name,
                                      .map = map,
                                      .type = slot->type,
                                      .numa_node = has_node ? (int32_t)device.numa_node : FACET_NUMA_UNKNOWN,
                                      .capacity = share.amount_micro};
    }
    return FACET_OK;
}

static enum facet_status make_maps(struct occupancy *occupancy, uint32_t strategy, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct map_plan *map_plan = calloc(1, sizeof *map_plan);
    struct facet_spec_slot slot = {.size = sizeof slot};
    enum facet_status status = map_plan ? FACET_OK : facet_error_set(error, FACET_NO_MEMORY, "no memory for the slots");

    for (uint32_t i = 0; status == FACET_OK && facet_spec_get_slot(occupancy->spec, i, &slot, NULL) == FACET_OK; i++)
        status = add_slot(map_plan, occupancy->spec, i, &slot, strategy, error);
    if (status == FACET_OK && map_plan->map_count == 0) /* a node without devices */
        map_plan->maps[map_plan->map_count++] = (struct facet_map_config){.name = "none", .kind = FACET_MAP_FRACTION};
    if (status == FACET_OK)
        status = facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                               .map_count = map_plan->map_count,
                                                               .maps = map_plan->maps,
                                                               .devices = map_plan->devices,
                                                               .device_count = map_plan->count},
                                   &occupancy->maps, error);
    if (map_plan)
        free(map_plan->devices);
    return status;
}

enum facet_status occupancy_open(const struct facet_spec *spec, uint32_t strategy, struct occupancy **ret_occupancy,
                                 struct facet_error *error)
{
    CLEANUP_OCCUPANCY struct occupancy *occupancy = calloc(1, sizeof *occupancy);

    if (!occupancy)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the occupancy");
    occupancy->spec = spec;
    enum facet_status status = make_maps(occupancy, strategy, error);
    if (status != FACET_OK)
        return status;
    occupancy->withheld = calloc(facet_maps_place_count(occupancy->maps) + 1, sizeof *occupancy->withheld);
    if (!occupancy->withheld)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the occupancy");
    *ret_occupancy = FACET_TAKE_PTR(occupancy);
    return FACET_OK;
}

void occupancy_close(struct occupancy *occupancy)
{
    if (!occupancy)
        return;
    facet_maps_destroy(occupancy->maps);
    free(occupancy->withheld);
    free(occupancy);
}

/* --- existing holdings -------------------------------------------------------------------------------------------- */

/* Copies the device's Facet id; for a partition, the id of the device that holds it. */
static void copy_facet_id(const struct occupancy *occupancy, const struct facet_spec_device *device, char *buffer)
{
    struct facet_spec_device parent = *device;

    if (!device->facet_id && device->parent_id)
        find_device(occupancy->spec, device->device_name, strlen(device->device_name), device->parent_id, &parent);
    snprintf(buffer, FACET_DEVICE_ID_SIZE, "%s", parent.facet_id ? parent.facet_id : "");
}

/* Sets why a part has no place in the maps. */
static void explain_absence(const struct occupancy *occupancy, struct reservation_part *part)
{
    struct facet_spec_device device;
    bool is_whole_device = !strchr(part->slot, ':');

    if (!find_device(occupancy->spec, part->slot, device_name_length(part->slot), part->device, &device))
        snprintf(part->trouble, sizeof part->trouble, "%s %.60s is not there",
                 is_whole_device ? "device" : "the partition of", part->facet_id);
    else if (device.health == FACET_SPEC_UNAVAILABLE)
        snprintf(part->trouble, sizeof part->trouble, "device %.40s is not available%s%.100s", part->facet_id,
                 device.status_info ? ": " : "", device.status_info ? device.status_info : "");
    else
        snprintf(part->trouble, sizeof part->trouble, "device %.40s is no longer offered as %.80s", part->facet_id,
                 part->slot);
    facet_text_make_line(part->trouble); /* it may have been cut within a character */
}

/* Takes a granted part, if there is a place for it, also on an unhealthy device. */
static enum facet_status hold_part(struct occupancy *occupancy, struct reservation_part *part,
                                   struct facet_error *error)
{
    struct facet_maps_place place = {.size = sizeof place};
    char left[FACET_AMOUNT_SIZE], had[FACET_AMOUNT_SIZE];
    struct facet_spec_device device;
    struct facet_maps_part wanted = {.amount = part->amount};
    uint64_t grant = 0;

    part->trouble[0] = '\0';
    if (find_device(occupancy->spec, part->slot, device_name_length(part->slot), part->device, &device))
        copy_facet_id(occupancy, &device, part->facet_id);
    if (facet_maps_find_place(occupancy->maps, part->slot, part->device, &wanted.place, NULL) != FACET_OK) {
        explain_absence(occupancy, part);
        return FACET_OK;
    }
    enum facet_status status = facet_maps_get_place(occupancy->maps, wanted.place, &place, error);
    if (status != FACET_OK)
        return status;
    int64_t free_amount = place.capacity - place.granted;
    if (wanted.amount > free_amount) {
        snprintf(part->trouble, sizeof part->trouble, "only %s of %s is left of device %.40s",
                 facet_amount_format(free_amount, left, sizeof left),
                 facet_amount_format(part->amount, had, sizeof had), part->facet_id);
        wanted.amount = place.type == FACET_SLOT_UNIQUE ? 0 : free_amount;
    }
    return wanted.amount ? facet_maps_commit(occupancy->maps, &wanted, 1, &grant, error) : FACET_OK;
}

enum facet_status occupancy_hold(struct occupancy *occupancy, struct reservation *reservation,
                                 struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < reservation->part_count; i++)
        status = hold_part(occupancy, &reservation->parts[i], error);
    if (status != FACET_OK)
        facet_error_prefix(error, "reservation %s", reservation->name);
    return status;
}

enum facet_status occupancy_withhold(struct occupancy *occupancy, const char *slot_device, const char *device_id,
                                     int64_t amount, struct facet_error *error)
{
    size_t length = strlen(slot_device);

    for (uint32_t i = 0; i < facet_maps_place_count(occupancy->maps); i++) {
        struct facet_maps_place place = {.size = sizeof place};
        enum facet_status status = facet_maps_get_place(occupancy->maps, i, &place, error);
        if (status != FACET_OK)
            return status;
        if (strcmp(place.id, device_id) != 0 || device_name_length(place.slot) != length ||
            strncmp(place.slot, slot_device, length) != 0)
            continue;
        int64_t left = place.capacity - place.granted - occupancy->withheld[i];
        occupancy->withheld[i] += amount < left ? amount : left;
        status = facet_maps_reserve(occupancy->maps, i, occupancy->withheld[i], error);
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

/* --- granting ----------------------------------------------------------------------------------------------------- */

static enum facet_status add_parts(struct occupancy *occupancy, const struct facet_maps_part *parts, uint32_t count,
                                   struct reservation *reservation, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < count; i++) {
        struct facet_maps_place place = {.size = sizeof place};
        char facet_id[FACET_DEVICE_ID_SIZE] = "";
        struct facet_spec_device device;

        status = facet_maps_get_place(occupancy->maps, parts[i].place, &place, error);
        if (status != FACET_OK)
            return status;
        if (find_device(occupancy->spec, place.slot, device_name_length(place.slot), place.id, &device))
            copy_facet_id(occupancy, &device, facet_id);
        if (strlen(place.id) >= RESERVATION_DEVICE_SIZE)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "slots",
                                        "device id '%.60s...': expected at most %d bytes", place.id,
                                        RESERVATION_DEVICE_SIZE - 1);
        status = reservation_add_part(reservation, place.slot, place.id, facet_id, parts[i].amount, error);
    }
    return status;
}

/* Renames the maps' argument `request` to `slots`, as it is called in the daemon's API. */
static void name_argument(struct facet_error *error)
{
    if (error && strcmp(error->argument, "request") == 0)
        snprintf(error->argument, sizeof error->argument, "slots");
}

/* Sums the capacity of all places of the slot, free or not. Returns how many places there are. */
static uint32_t sum_capacity(const struct occupancy *occupancy, const char *slot, int64_t *ret_capacity)
{
    uint32_t places = facet_maps_place_count(occupancy->maps), found = 0;

    *ret_capacity = 0;
    for (uint32_t i = 0; i < places; i++) {
        struct facet_maps_place place = {.size = sizeof place};

        if (facet_maps_get_place(occupancy->maps, i, &place, NULL) != FACET_OK || strcmp(place.slot, slot) != 0)
            continue;
        *ret_capacity += place.capacity;
        found++;
    }
    return found;
}

/* Refuses a request for more than the whole capacity, which no release could satisfy. */
static enum facet_status check_capacities(const struct occupancy *occupancy, const struct reservation *reservation,
                                          struct facet_error *error)
{
    char requested_text[FACET_AMOUNT_SIZE], capacity_text[FACET_AMOUNT_SIZE];
    int64_t capacity;

    for (uint32_t i = 0; i < reservation->item_count; i++) {
        const struct reservation_item *item = &reservation->items[i];
        uint32_t places = sum_capacity(occupancy, item->slot, &capacity);

        if (places == 0 || item->amount <= capacity)
            continue;
        return facet_error_argument(
            error, FACET_OUT_OF_RANGE, "slots",
            "slot '%.60s': %s asked for, expected at most %s: all that this node's %" PRIu32 " device%s of it",
            item->slot, facet_amount_format(item->amount, requested_text, sizeof requested_text),
            facet_amount_format(capacity, capacity_text, sizeof capacity_text), places,
            places == 1 ? " has" : "s have");
    }
    return FACET_OK;
}

enum facet_status occupancy_grant(struct occupancy *occupancy, struct reservation *reservation,
                                  struct facet_maps_refusal *ret_refusal, struct facet_error *error)
{
    uint32_t places = facet_maps_place_count(occupancy->maps), count = 0;
    FACET_CLEANUP_FREE struct facet_maps_part *parts = calloc(places + 1, sizeof *parts);
    struct facet_maps_item items[RESERVATION_ITEMS_MOST];
    uint64_t grant = 0;

    if (!parts)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a plan of %" PRIu32 " places", places);
    for (uint32_t i = 0; i < reservation->item_count; i++)
        items[i] = (struct facet_maps_item){reservation->items[i].slot, reservation->items[i].amount};
    const struct facet_maps_request request = {.size = sizeof request,
                                               .count = reservation->item_count,
                                               .items = items,
                                               .rules = FACET_MAPS_EXACT,
                                               .affinity = reservation->affinity};
    enum facet_status status = check_capacities(occupancy, reservation, error);
    if (status == FACET_OK)
        status = facet_maps_plan(occupancy->maps, &request, parts, places, &count, ret_refusal, error);
    if (status == FACET_OK)
        status = facet_maps_commit(occupancy->maps, parts, count, &grant, error);
    if (status == FACET_OK)
        return add_parts(occupancy, parts, count, reservation, error);
    name_argument(error);
    return status;
}
