/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the lists inside a reservation, and its text. Never: accepts a text as complete without a check. */
#include "reservation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/spec.h>
#include <facet/workload.h>

#include "base/cleanup.h"

enum { PLACE_KEY_SIZE = RESERVATION_SLOT_SIZE + RESERVATION_DEVICE_SIZE };

static void drop_resources(struct facet_resources **resources)
{
    facet_resources_destroy(*resources);
}
#define CLEANUP_RESOURCES __attribute__((cleanup(drop_resources)))

static enum facet_status no_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "no memory for a reservation");
}

/* --- lists ------------------------------------------------------------------------------------------------------ */

void reservation_clear(struct reservation *reservation)
{
    free(reservation->items);
    free(reservation->parts);
    *reservation = (struct reservation){0};
}

enum facet_status reservation_copy(const struct reservation *reservation, struct reservation *ret_copy,
                                   struct facet_error *error)
{
    struct reservation copy = *reservation;

    copy.items = calloc(copy.item_count + 1, sizeof *copy.items);
    copy.parts = calloc(copy.part_count + 1, sizeof *copy.parts);
    if (!copy.items || !copy.parts) {
        reservation_clear(&copy);
        return no_memory(error);
    }
    for (uint32_t i = 0; i < copy.item_count; i++)
        copy.items[i] = reservation->items[i];
    for (uint32_t i = 0; i < copy.part_count; i++)
        copy.parts[i] = reservation->parts[i];
    *ret_copy = copy;
    return FACET_OK;
}

enum facet_status reservation_add_item(struct reservation *reservation, const char *slot, int64_t amount,
                                       struct facet_error *error)
{
    struct reservation_item *items =
        reallocarray(reservation->items, reservation->item_count + 1, sizeof *reservation->items);

    if (!items)
        return no_memory(error);
    reservation->items = items;
    struct reservation_item *item = &items[reservation->item_count++];
    *item = (struct reservation_item){.amount = amount};
    snprintf(item->slot, sizeof item->slot, "%s", slot);
    return FACET_OK;
}

enum facet_status reservation_add_part(struct reservation *reservation, const char *slot, const char *device,
                                       const char *facet_id, int64_t amount, struct facet_error *error)
{
    struct reservation_part *parts =
        reallocarray(reservation->parts, reservation->part_count + 1, sizeof *reservation->parts);

    if (!parts)
        return no_memory(error);
    reservation->parts = parts;
    struct reservation_part *part = &parts[reservation->part_count++];
    *part = (struct reservation_part){.amount = amount};
    snprintf(part->slot, sizeof part->slot, "%s", slot);
    snprintf(part->device, sizeof part->device, "%s", device);
    snprintf(part->facet_id, sizeof part->facet_id, "%s", facet_id);
    return FACET_OK;
}

bool reservation_is_impaired(const struct reservation *reservation)
{
    for (uint32_t i = 0; i < reservation->part_count; i++)
        if (reservation->parts[i].trouble[0])
            return true;
    return false;
}

enum facet_status reservation_list_copy(const struct reservation_list *list, struct reservation_list *ret_copy,
                                        struct facet_error *error)
{
    struct reservation_list copy = {.items = calloc(list->count + 1, sizeof *copy.items), .capacity = list->count + 1};
    enum facet_status status = copy.items ? FACET_OK : no_memory(error);

    for (size_t i = 0; status == FACET_OK && i < list->count; i++) {
        status = reservation_copy(&list->items[i], &copy.items[i], error);
        copy.count += status == FACET_OK;
    }
    if (status == FACET_OK)
        *ret_copy = copy;
    else
        reservation_list_clear(&copy);
    return status;
}

void reservation_list_clear(struct reservation_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        reservation_clear(&list->items[i]);
    free(list->items);
    *list = (struct reservation_list){0};
}

/* --- as text ---------------------------------------------------------------------------------------------------- */

static enum facet_status add_record(struct facet_resources *resources, uint32_t kind, const char *first,
                                    const char *second, int64_t number, struct facet_error *error)
{
    const struct facet_resources_record record = {
        .size = sizeof record, .kind = kind, .text = {first, second}, .number = number};

    return facet_resources_add(resources, &record, error);
}

/* The key under which a part's device is recorded, so that messages can name it even when it has vanished. */
static void place_key(const struct reservation_part *part, char buffer[static PLACE_KEY_SIZE])
{
    snprintf(buffer, PLACE_KEY_SIZE, "%s %s", part->slot, part->device);
}

static enum facet_status add_records(const struct reservation *reservation, struct facet_resources *resources,
                                     struct facet_error *error)
{
    enum facet_status status = add_record(resources, FACET_RESOURCES_HANDLE, reservation->id, NULL, 0, error);
    char key[PLACE_KEY_SIZE];

    for (uint32_t i = 0; status == FACET_OK && i < reservation->item_count; i++)
        status = add_record(resources, FACET_RESOURCES_REQUEST, reservation->items[i].slot, NULL,
                            reservation->items[i].amount, error);
    for (uint32_t i = 0; status == FACET_OK && i < reservation->part_count; i++) {
        const struct reservation_part *part = &reservation->parts[i];
        status = add_record(resources, FACET_RESOURCES_GRANT, part->slot, part->device, part->amount, error);
        place_key(part, key);
        if (status == FACET_OK)
            status = add_record(resources, FACET_RESOURCES_DATA, key, part->facet_id, 0, error);
    }
    return status;
}

enum facet_status reservation_to_row(const struct reservation *reservation, struct reservation_row *ret_row,
                                     struct facet_error *error)
{
    CLEANUP_RESOURCES struct facet_resources *resources = NULL;
    struct reservation_row row = {
        .strategy = reservation->strategy, .affinity = reservation->affinity, .created_ns = reservation->created_ns};

    memcpy(row.id, reservation->id, sizeof row.id);
    memcpy(row.name, reservation->name, sizeof row.name);
    enum facet_status status = facet_resources_create(&resources, error);
    if (status == FACET_OK)
        status = add_records(reservation, resources, error);
    if (status == FACET_OK)
        status = facet_resources_format(resources, &row.text, &row.text_size, error);
    if (status == FACET_OK)
        *ret_row = row;
    return status;
}

static bool record_fits(const struct facet_resources_record *record)
{
    return record->kind == FACET_RESOURCES_DATA ||
           ((!record->text[0] || strlen(record->text[0]) < RESERVATION_SLOT_SIZE) &&
            (!record->text[1] || strlen(record->text[1]) < RESERVATION_DEVICE_SIZE));
}

static void take_facet_id(struct reservation *reservation, const struct facet_resources_record *record)
{
    char key[PLACE_KEY_SIZE];

    for (uint32_t i = 0; i < reservation->part_count; i++) {
        struct reservation_part *part = &reservation->parts[i];
        place_key(part, key);
        if (strcmp(key, record->text[0]) == 0)
            snprintf(part->facet_id, sizeof part->facet_id, "%s", record->text[1]);
    }
}

static enum facet_status take_record(struct reservation *reservation, const struct facet_resources_record *record,
                                     struct facet_error *error)
{
    if (!record_fits(record) ||
        (record->kind == FACET_RESOURCES_HANDLE && strcmp(record->text[0], reservation->id) != 0))
        return facet_error_set(error, FACET_CORRUPT,
                               "reservation '%s': its text in the database is that of another reservation",
                               reservation->id);
    switch (record->kind) {
    case FACET_RESOURCES_REQUEST:
        return reservation_add_item(reservation, record->text[0], record->number, error);
    case FACET_RESOURCES_GRANT:
        return reservation_add_part(reservation, record->text[0], record->text[1], "", record->number, error);
    case FACET_RESOURCES_DATA:
        take_facet_id(reservation, record);
        return FACET_OK;
    default:
        return FACET_OK;
    }
}

/* Whether the granted parts of a slot sum to the requested amount, as they do in each reservation. */
static bool is_granted(const struct reservation *reservation, const struct reservation_item *item)
{
    struct facet_spec_slot_name parts;
    int64_t left = item->amount;

    for (uint32_t i = 0; i < reservation->part_count; i++) {
        const struct reservation_part *part = &reservation->parts[i];
        if (strcmp(part->slot, item->slot) != 0)
            continue;
        if (part->amount <= 0 || part->amount > left)
            return false;
        left -= part->amount;
    }
    return item->amount > 0 && left == 0 && facet_spec_parse_slot_name(item->slot, &parts, NULL) == FACET_OK;
}

static bool is_requested_part(const struct reservation *reservation, const struct reservation_part *part)
{
    for (uint32_t i = 0; i < reservation->item_count; i++)
        if (strcmp(reservation->items[i].slot, part->slot) == 0)
            return true;
    return false;
}

/* Refuses an incomplete reservation: the checksum proves only that its text is undamaged. */
static enum facet_status check_whole(const struct reservation *reservation, bool has_handle, struct facet_error *error)
{
    bool whole = has_handle && reservation->item_count > 0 && reservation->item_count <= RESERVATION_ITEMS_MOST;

    for (uint32_t i = 0; whole && i < reservation->item_count; i++)
        whole = is_granted(reservation, &reservation->items[i]);
    for (uint32_t i = 0; whole && i < reservation->part_count; i++)
        whole = is_requested_part(reservation, &reservation->parts[i]);
    return whole ? FACET_OK
                 : facet_error_set(
                       error, FACET_CORRUPT,
                       "reservation '%s' (%s): its text in the database is incomplete, or not what was granted",
                       reservation->name, reservation->id);
}

enum facet_status reservation_from_row(const struct reservation_row *row, struct reservation *ret_reservation,
                                       struct facet_error *error)
{
    CLEANUP_RESOURCES struct facet_resources *resources = NULL;
    CLEANUP_RESERVATION struct reservation reservation = {
        .strategy = row->strategy, .affinity = row->affinity, .created_ns = row->created_ns};
    struct facet_resources_record record = {.size = sizeof record};
    struct facet_error reason;
    bool has_handle = false;

    memcpy(reservation.id, row->id, sizeof reservation.id);
    memcpy(reservation.name, row->name, sizeof reservation.name);
    enum facet_status status = facet_resources_parse(row->text, row->text_size, &resources, &reason);
    if (status != FACET_OK)
        return facet_error_set(error, status, "reservation '%s' (%s): %s", row->name, row->id, reason.message);
    for (uint32_t i = 0; status == FACET_OK && facet_resources_get(resources, i, &record, NULL) == FACET_OK; i++) {
        has_handle = has_handle || record.kind == FACET_RESOURCES_HANDLE;
        status = take_record(&reservation, &record, error);
    }
    if (status == FACET_OK)
        status = check_whole(&reservation, has_handle, error);
    if (status != FACET_OK)
        return status;
    *ret_reservation = reservation;
    reservation = (struct reservation){0};
    return FACET_OK;
}
