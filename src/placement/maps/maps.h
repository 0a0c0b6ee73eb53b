/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of struct facet_maps, and the steps of planning.
 *
 * Owns: the layout of cells (places, sorted by slot), slots, maps, grants, and the scratch memory of one plan.
 * Never: is used without the lock, except while the maps are built or destroyed.
 */
#ifndef FACET_PLACEMENT_MAPS_H
#define FACET_PLACEMENT_MAPS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/allocation.h>

#define MAPS_NODES_MAX 1024u                    /* NUMA nodes */
#define MAPS_NONE      UINT32_MAX               /* no slot, cell, chunk or grant */
#define MAPS_GRID      (FACET_AMOUNT_ONE / 100) /* the unit in which Backend.AI splits, whatever the quantum is */

/* A place, in the order of slots. */
struct maps_cell {
    int64_t capacity, granted, reserved;
    int64_t quanta; /* free amount divided by the quantum: kept, because a division for each place of a plan is slow */
    uint32_t place, slot;
    uint32_t node; /* index into facet_maps.nodes */
    bool unhealthy;
    bool unsorted; /* its free amount has changed since the slot was sorted */
    char *id;
};

struct maps_slot {
    char *name;
    uint32_t map, type;
    uint32_t first, count;   /* the slot's cells in facet_maps.cells */
    uint32_t unsorted_cells; /* cells whose `unsorted` is set */
};

struct maps_map {
    char *name;
    uint32_t kind, strategy;
    int64_t quantum;
    char **exclusive;
    uint32_t exclusive_count;
};

#define CHUNK_PARTS 7u /* parts of a grant in one chunk */

struct maps_chunk {
    struct {
        int64_t amount;
        uint32_t cell;
    } parts[CHUNK_PARTS];
    uint32_t next; /* next chunk of the grant, or next unused chunk */
};

struct maps_grant {
    uint32_t generation; /* upper half of the handle; 0: all generations are used up */
    uint32_t count;      /* of parts */
    uint32_t first;      /* first chunk; while unused: the next unused grant */
    bool live;
};

/* The scratch memory of the plan that holds the lock. No content outlives a call. */
struct maps_scratch {
    struct maps_part {
        int64_t amount;
        uint32_t cell;
    } * parts; /* the plan so far */
    uint32_t count;
    uint32_t *cells; /* candidates, in order of preference */
    int64_t *units;  /* each candidate's free units */
    int64_t *sums;   /* sums of the units of all candidates before each */
    uint32_t *next;  /* the next cell in the list of the cell's node */
    struct maps_node {
        int64_t taken_amount;
        uint32_t size, head, tail;
        bool hinted;    /* the next slot prefers this node */
        bool collected; /* the plan has parts of this map on this node */
    } * nodes;
    uint32_t *node_order;
    uint32_t *slot_item; /* for each slot, the item of the request that asks for it; MAPS_NONE: none */
};

struct facet_maps {
    pthread_mutex_t lock;
    struct maps_map *maps;
    struct maps_slot *slots; /* sorted by name */
    struct maps_cell *cells;
    uint32_t *cell_of_place;
    uint32_t *by_id; /* cells of a slot, sorted by id */
    uint32_t *order; /* cells of a slot, most free first, except the unsorted ones */
    int32_t *nodes;  /* labels, ascending */
    uint32_t map_count, slot_count, cell_count, node_count;
    struct maps_grant *grants;
    struct maps_chunk *chunks;
    uint32_t grant_count, grant_room, chunk_count,
        chunk_room; /* `count`: entries that were ever used; `room`: allocated */
    uint32_t unused_grant, unused_chunk, unused_chunks;
    struct maps_scratch scratch;
};

static inline void maps_unlock(pthread_mutex_t *const *lock)
{
    pthread_mutex_unlock(*lock);
}

/* Locks `maps` until the end of the block. */
#define MAPS_LOCKED(maps)                                                                                              \
    __attribute__((cleanup(maps_unlock))) pthread_mutex_t *maps_held_ = &(maps)->lock;                                 \
    pthread_mutex_lock(maps_held_)

/* Refuses a NULL for an argument that is required. */
static inline enum facet_status maps_need(const void *pointer, const char *name, struct facet_error *error)
{
    if (pointer)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a pointer, not NULL", name);
}

static inline int64_t maps_free(const struct maps_cell *cell)
{
    return cell->capacity - cell->granted - cell->reserved;
}

/* To be called after any change of a cell's free amount. */
static inline void maps_note_change(struct facet_maps *maps, struct maps_cell *cell)
{
    struct maps_slot *slot = &maps->slots[cell->slot];

    int64_t quantum = maps->maps[slot->map].quantum;

    cell->quanta = quantum > 0 ? maps_free(cell) / quantum : 0; /* the quantum is always above 0 */
    slot->unsorted_cells += !cell->unsorted;
    cell->unsorted = true;
}

/* The plan of one item of a request. */
struct maps_item {
    const struct facet_maps_request *request;
    const struct maps_slot *slot;
    const struct maps_map *map;
    int64_t asked;
    int64_t unit;  /* the amount is divided in multiples of this, in micro-units */
    int64_t units; /* the amount asked for, in multiples of `unit` */
    uint32_t index;
    uint32_t candidates;           /* entries of `cells` and `units` in the scratch memory */
    uint32_t hinted_candidates;    /* how many of the first candidates are on hinted nodes */
    uint32_t too_small, unhealthy; /* counts of places with free amounts that are no candidates, for a refusal's text */
    bool hinted;                   /* nodes are hinted, by an earlier slot's parts or by the request */
    struct facet_maps_refusal *refusal; /* is never NULL */
    struct facet_error *error;
};

/* --- names.c --- */
uint32_t maps_find_slot(const struct facet_maps *maps, const char *name);              /* MAPS_NONE: not found */
uint32_t maps_find_cell(const struct facet_maps *maps, uint32_t slot, const char *id); /* MAPS_NONE: not found */
bool maps_exclude(const struct maps_map *map, const char *left, const char *right);

/* --- order.c --- */
/* Sorts the slot's cells by their free amounts: to be called before the functions below. */
void maps_sort(struct facet_maps *maps, struct maps_slot *slot);
/* Writes the candidates of an item in order of preference, with their free units. */
void maps_candidates(struct facet_maps *maps, struct maps_item *item);

/* --- evenly.c, plan.c: a strategy appends parts, which are multiples of `item->unit`, or refuses --- */
enum facet_status maps_fill(struct facet_maps *maps, struct maps_item *item);
enum facet_status maps_spread(struct facet_maps *maps, struct maps_item *item);
enum facet_status maps_split(struct facet_maps *maps, struct maps_item *item);
void maps_add_part(struct facet_maps *maps, uint32_t cell, int64_t amount);
/* The least free amount with which a device of a fraction map gives a part. */
int64_t maps_min_amount(const struct maps_item *item);
enum facet_status maps_refuse_short(struct maps_item *item, int64_t possible);

/* --- guard.c --- */
struct maps_density {
    int64_t share;
    uint32_t devices, larger; /* `larger` devices have a quantum more than `share` */
};
/* The even split of `amount` over `devices` devices. */
struct maps_density maps_density(int64_t amount, uint32_t devices, int64_t quantum);
enum facet_status maps_guard(struct facet_maps *maps, struct maps_item *item);

/* --- plan.c --- */
enum facet_status maps_plan(struct facet_maps *maps, const struct facet_maps_request *request,
                            struct facet_maps_refusal *refusal, struct facet_error *error);

/* --- grant.c: makes room for a grant of `parts`, so that recording it cannot fail --- */
enum facet_status maps_make_room(struct facet_maps *maps, uint32_t parts, struct facet_error *error);

/* --- create.c --- */
void maps_free_all(struct facet_maps *maps);
enum facet_status maps_make_scratch(struct facet_maps *maps);

#endif
