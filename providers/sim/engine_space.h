/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one context: its virtual addresses, its page objects, and its mappings.
 *
 * Owns: reservations, mappings, page objects, and the host memory behind them. That is one sparse memfd, in which
 * memory costs nothing until it is written, and holes are found without reading.
 * Never: charges memory (engine_account.c does), or changes anything on failure.
 */
#ifndef FACET_SIM_ENGINE_SPACE_H
#define FACET_SIM_ENGINE_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

#include "engine_table.h"

#define SIM_ADDRESS_LOW   (UINT64_C(1) << 40)
#define SIM_ADDRESS_HIGH  (UINT64_C(1) << 56)
#define SIM_PLAIN_ALIGN   UINT64_C(256)
#define SIM_BYTES_MAX     (UINT64_C(1) << 48) /* of one reservation or page object */
#define SIM_STORE_BLOCK   UINT64_C(4096)      /* the granularity of the host memory */
#define SIM_CHUNK_BYTES   (UINT64_C(1) << 16) /* the most bytes moved at a time */
#define SIM_ADDRESS_GUARD UINT64_C(256)       /* between reservations, so that running off an end is detected */

struct facet_provider_instance;
struct sim_pages;

/* A stretch of addresses, or of the store. The structs in the tables of struct sim_space begin with a range. */
struct sim_range {
    uint64_t at, bytes; /* at: its first address, or its offset in the store */
};

struct sim_reservation {
    struct sim_range range;
    bool plain; /* made by alloc: one mapping of a page object of its own covers it */
};

struct sim_mapping {
    struct sim_range range;
    struct sim_pages *pages;
    uint64_t offset; /* in the pages */
};

struct sim_extent {
    struct sim_range range; /* in the store, whole blocks */
};

struct sim_space {
    int store;                     /* memfd */
    uint32_t page_bytes;           /* granularity of reservations, pages and mappings that are not plain */
    struct sim_table reservations; /* by address */
    struct sim_table mappings;     /* by address */
    struct sim_table extents;      /* by place in the store */
};

enum facet_status sim_space_open(struct sim_space *space, uint32_t page_bytes, struct facet_error *error);
/* Frees reservations, mappings and the store; page objects belong to their owner. */
void sim_space_close(struct sim_space *space);

/* Addresses for `bytes`; `align` is not 0. FACET_NO_SPACE when there are none left. */
enum facet_status sim_space_reserve(struct sim_space *space, uint64_t bytes, uint64_t align,
                                    struct sim_reservation **ret_reservation, struct facet_error *error);
/* Reserves at a given address, for resume: FACET_BUSY when it is taken. */
enum facet_status sim_space_reserve_at(struct sim_space *space, struct sim_range range,
                                       struct sim_reservation **ret_reservation, struct facet_error *error);
void sim_space_release(struct sim_space *space, struct sim_reservation *reservation);
/* sim_space_find() returns the reservation that begins at `address`, sim_space_around() the one that contains it. */
struct sim_reservation *sim_space_find(const struct sim_space *space, uint64_t address);
struct sim_reservation *sim_space_around(const struct sim_space *space, uint64_t address);
bool sim_space_is_mapped(const struct sim_space *space, struct sim_range range);

/* Takes a place in the store for a page object, which is all zeros. */
enum facet_status sim_space_alloc_extent(struct sim_space *space, uint64_t bytes, struct sim_extent **ret_extent,
                                         struct facet_error *error);
void sim_space_free_extent(struct sim_space *space, struct sim_extent *extent);

/* `range` must lie in a reservation with nothing mapped in it, and within the pages from `offset`. Counts the mapping
 * in pages->mappings. */
enum facet_status sim_space_map(struct sim_space *space, struct sim_range range, struct sim_pages *pages,
                                uint64_t offset, struct facet_error *error);
/*
 * Unmaps `range`, cutting mappings that extend beyond its ends. FACET_OUT_OF_RANGE when not all of it is mapped. A
 * destroyed page object is freed with its last mapping.
 */
enum facet_status sim_space_unmap(struct sim_space *space, struct sim_range range,
                                  struct facet_provider_instance *instance, struct facet_error *error);

/* Whether every byte is memory. */
bool sim_space_is_memory(const struct sim_space *space, uint64_t address, uint64_t bytes);

/* The next four functions check the whole range first: FACET_OUT_OF_RANGE. FACET_NO_MEMORY: the host has no memory. */
enum facet_status sim_space_write(struct sim_space *space, uint64_t address, const void *data, uint64_t bytes,
                                  struct facet_error *error);
enum facet_status sim_space_read(const struct sim_space *space, uint64_t address, uint64_t bytes, void *ret_data,
                                 struct facet_error *error);
enum facet_status sim_space_copy(struct sim_space *space, uint64_t to, uint64_t from, uint64_t bytes,
                                 struct facet_error *error);
enum facet_status sim_space_fill(struct sim_space *space, uint64_t address, uint8_t value, uint64_t bytes,
                                 struct facet_error *error);

/* Reads and writes at a place in the store, independent of mappings. */
enum facet_status sim_store_write(int store, uint64_t at, const void *data, uint64_t bytes, struct facet_error *error);
enum facet_status sim_store_read(int store, uint64_t at, void *ret_data, uint64_t bytes, struct facet_error *error);
/* Gives the host memory of a range back, which is zeros then. False: that failed. */
bool sim_store_forget(int store, struct sim_range range);
/* The next stretch of `range` that may hold nonzero bytes; false: none. */
bool sim_store_data(int store, struct sim_range range, struct sim_range *ret_data);

#endif
