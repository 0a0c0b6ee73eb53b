/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's permanent state: a row per vGPU and a row per reservation in <state>/facet.db.
 *
 * Owns: the database file, its schema and its transactions. A commit that returned FACET_OK survives kill -9 and loss
 * of power (write-ahead log, synchronous=FULL).
 * Never: starts empty when it cannot read the database, or shares it: a second daemon is refused.
 *
 * Thread rule: one thread at a time (the registry's lock).
 */
#ifndef FACETD_STORE_H
#define FACETD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <facet/limits.h>

#include "base/label.h"

#define STORE_FILE "facet.db"

#define VGPU_ID_SIZE 17 /* 16 hexadecimal digits */

/* The memory of a vGPU whose partition, which is not made yet, decides it. */
#define MEMORY_UNDECIDED (UINT64_C(1) << 62)

/*
 * A vGPU's state between the database and its provider. A vGPU that is not ready was never acknowledged, or is being
 * removed: the daemon takes its part from its provider, then deletes the row.
 */
enum row_state {
    ROW_READY = 0,
    ROW_CREATING = 1,
    ROW_DESTROYING = 2,
};

/* The provider's part for a vGPU of mode hard or partitioned. Zeroed in the other modes. */
struct vgpu_slice {
    char template_id[32]; /* of a partition, like the next two */
    char partition_uuid[64];
    uint32_t start;        /* first slice of the device; chosen before the partition is made */
    char address[256];     /* by which an interposer finds the part */
    uint64_t memory_bytes; /* granted; 0: memory is not sliced */
    uint32_t compute_milli, compute_units;
};

struct vgpu_row {
    char id[VGPU_ID_SIZE];
    char name[FACET_NAME_SIZE];
    char device_id[64]; /* the device's id, which may change, as it was when the vGPU was made */
    char device_uuid[64];
    char device_name[128];
    struct facet_limits limits; /* memory_bytes resolved, never 0 */
    bool ephemeral, frozen;
    uint64_t created_ns; /* CLOCK_REALTIME */
    enum row_state state;
    struct vgpu_slice slice;
    uint32_t idle_freeze_s;         /* frozen after being idle for this time; 0: never */
    char reservation[VGPU_ID_SIZE]; /* the id of the reservation that it is in; empty: none */
    bool oversubscribe;             /* its memory may be swapped; fixed at creation */
    uint32_t owner_uid;             /* the user who made it */
    char labels[FACET_LABELS_SIZE]; /* label.h */
};

/* A reservation (reservation.h), whose text holds the request and the grant. */
struct reservation_row {
    char id[VGPU_ID_SIZE];
    char name[FACET_NAME_SIZE];
    uint32_t strategy, affinity;
    uint64_t created_ns;
    char *text; /* not terminated */
    size_t text_size;
};

struct store; /* opaque */

/*
 * Opens or makes the database in the folder `dir`. It upgrades an earlier version. Errors name the file and say
 * what to do: FACET_CORRUPT, FACET_ABI_MISMATCH (written by a newer Facet), FACET_BUSY (another daemon has it),
 * FACET_PERMISSION, FACET_NO_SPACE.
 */
enum facet_status store_open(const char *dir, struct store **ret_store, struct facet_error *error);
void store_close(struct store *store); /* NULL is allowed */

/* A transaction: begin, changes, then commit; or roll back. A commit that failed was rolled back. */
enum facet_status store_begin(struct store *store, struct facet_error *error);
enum facet_status store_commit(struct store *store, struct facet_error *error);
void store_rollback(struct store *store); /* does nothing outside a transaction */

/* Changes, inside a transaction. FACET_ALREADY_EXISTS when the name is taken; FACET_NOT_FOUND for an unknown id. */
enum facet_status store_insert(struct store *store, const struct vgpu_row *row, struct facet_error *error);
enum facet_status store_update(struct store *store, const struct vgpu_row *row, struct facet_error *error);
enum facet_status store_delete(struct store *store, const char *id, struct facet_error *error);

enum facet_status store_insert_reservation(struct store *store, const struct reservation_row *row,
                                           struct facet_error *error);
enum facet_status store_delete_reservation(struct store *store, const char *id, struct facet_error *error);

/* All reservations in the order of their creation. */
enum facet_status store_load_reservations(struct store *store, struct reservation_row **ret_rows, size_t *ret_count,
                                          struct facet_error *error);
void reservation_rows_free(struct reservation_row *rows, size_t count);

/* All rows in the order of their creation. The caller frees *ret_rows. */
enum facet_status store_load(struct store *store, struct vgpu_row **ret_rows, size_t *ret_count,
                             struct facet_error *error);

#endif
