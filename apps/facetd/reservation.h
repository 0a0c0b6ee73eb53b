/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reservation: the requested amounts of the node's slots, and the granted part of each device.
 *
 * Owns: its parts in memory, and its text form: a resource file (facet/workload.h), whose checksum shows damage.
 * Never: knows which places are free (occupancy.h), or when a reservation changes (reserve.c).
 *
 * Thread rule: pure functions.
 */
#ifndef FACETD_RESERVATION_H
#define FACETD_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/device.h>
#include <facet/limits.h>

#include "store.h"

#define RESERVATION_SLOT_SIZE   129 /* of a slot's name (facet/spec.h) */
#define RESERVATION_DEVICE_SIZE 128 /* of a device_id of the node document */
#define RESERVATION_ITEMS_MOST  64u

struct reservation_item {
    char slot[RESERVATION_SLOT_SIZE];
    int64_t amount; /* micro-units, as all amounts here */
};

struct reservation_part {
    char slot[RESERVATION_SLOT_SIZE];
    char device[RESERVATION_DEVICE_SIZE];
    char facet_id[FACET_DEVICE_ID_SIZE]; /* of the device, or of the device that holds the partition, as last read */
    int64_t amount;
    char trouble[160]; /* why the part cannot be used now; empty when it can. Not in the text form */
};

struct reservation {
    char id[VGPU_ID_SIZE];
    char name[FACET_NAME_SIZE];
    uint32_t strategy; /* enum facet_map_strategy */
    uint32_t affinity; /* enum facet_affinity */
    uint64_t created_ns;
    struct reservation_item *items;
    uint32_t item_count;
    struct reservation_part *parts;
    uint32_t part_count;
};

/* Copies the reservation with its lists. */
enum facet_status reservation_copy(const struct reservation *reservation, struct reservation *ret_copy,
                                   struct facet_error *error);
void reservation_clear(struct reservation *reservation); /* frees what it holds */

enum facet_status reservation_add_item(struct reservation *reservation, const char *slot, int64_t amount,
                                       struct facet_error *error);
enum facet_status reservation_add_part(struct reservation *reservation, const char *slot, const char *device,
                                       const char *facet_id, int64_t amount, struct facet_error *error);

/* Whether any part of the reservation cannot be used now. */
bool reservation_is_impaired(const struct reservation *reservation);

/*
 * Converts a reservation into a row of the database, whose text the caller frees (reservation_rows_free()), and back.
 * FACET_CORRUPT: the text is damaged, or disagrees with its row.
 */
enum facet_status reservation_to_row(const struct reservation *reservation, struct reservation_row *ret_row,
                                     struct facet_error *error);
enum facet_status reservation_from_row(const struct reservation_row *row, struct reservation *ret_reservation,
                                       struct facet_error *error);

/* Reservations in the order of their creation. */
struct reservation_list {
    struct reservation *items;
    size_t count, capacity;
};

enum facet_status reservation_list_copy(const struct reservation_list *list, struct reservation_list *ret_copy,
                                        struct facet_error *error);
void reservation_list_clear(struct reservation_list *list);

static inline void cleanup_reservation(struct reservation *reservation)
{
    reservation_clear(reservation);
}
#define CLEANUP_RESERVATION __attribute__((cleanup(cleanup_reservation)))

static inline void cleanup_reservations(struct reservation_list *list)
{
    reservation_list_clear(list);
}
#define CLEANUP_RESERVATIONS __attribute__((cleanup(cleanup_reservations)))

#endif
