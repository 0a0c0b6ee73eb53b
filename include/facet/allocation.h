/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation maps: how much of a node's devices each workload holds, in the amounts that orchestrators count in.
 *
 * Owns: the maps of one node (struct facet_maps), one for each type of device; planning a request over all of them;
 * grants, each held and released by a handle; how several agents divide a node.
 * Never: grants another amount than the requested one, except under FACET_MAPS_ROUND_DOWN; leaves a trace of a request
 * that it refused; touches a device, a file or a clock.
 *
 *     const struct facet_map_config maps[] = {{.name = "cuda", .kind = FACET_MAP_FRACTION, .quantum = 100000},
 *                                             {.name = "cpu", .kind = FACET_MAP_DISCRETE}};
 *     const struct facet_map_device devices[] = {
 *         {.map = 0, .id = "gpu0", .slot = "cuda.shares", .numa_node = 0, .capacity = FACET_AMOUNT_ONE},
 *         {.map = 1, .id = "0", .slot = "cpu", .numa_node = 0, .capacity = FACET_AMOUNT_ONE}};
 *     facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config), .maps = maps,
 *         .map_count = 2, .devices = devices, .device_count = 2}, &node, &error);
 *     facet_maps_allocate(node, &(struct facet_maps_request){.size = sizeof(struct facet_maps_request),
 *         .items = (struct facet_maps_item[]){{"cuda.shares", 500000}, {"cpu", 1000000}}, .count = 2},
 *         &grant, NULL, &error);
 *     facet_maps_release(node, grant, &error);
 *
 * Words. A slot is a named resource ("cuda.shares", "cpu", "mem"); a place is one slot of one device, with a capacity.
 * A place's number is its index in `devices` of the configuration, and never changes. A map holds the places of all
 * devices of one type.
 *
 * Transactions. A request names amounts of any slots of the node. The whole request is planned before anything changes.
 * Either all of it is granted or nothing is; a refusal names the slot, the requested amount and the available amount. A
 * grant is released once; a second release is an error and changes nothing.
 *
 * Thread rule: every function may be called by any number of threads at once for one struct facet_maps, which has a
 * lock; but no call may be under way when the maps are destroyed. Amounts are micro-units (1,000,000 = 1). Errors,
 * besides those named: FACET_INVALID_ARGUMENT, FACET_NO_MEMORY. Source: the allocation maps of Backend.AI, and
 * docs/allocation.md, which explains our differences.
 */
#ifndef FACET_ALLOCATION_H
#define FACET_ALLOCATION_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>
#include <facet/slot.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- a node's maps --- */

struct facet_maps;

enum facet_map_kind {
    FACET_MAP_DISCRETE = 0, /* whole units */
    FACET_MAP_FRACTION = 1, /* parts of devices */
};

enum facet_map_strategy {
    FACET_MAP_EVENLY = 0, /* a discrete map spreads the amount over all devices that have some free. A fraction map
                             takes the one device that fits best; if none fits, the split whose parts differ least, and
                             of equally good splits the one over the fewest devices */
    FACET_MAP_FILL = 1,   /* fills one device after the other, beginning with the device that has most free */
};

FACET_API const char *facet_map_kind_name(uint32_t kind);         /* "discrete"; NULL when unknown */
FACET_API const char *facet_map_strategy_name(uint32_t strategy); /* "evenly"; NULL when unknown */

/* One type of device. Zeroed members mean the default. */
struct facet_map_config {
    const char *name;             /* of the type: "cuda"; no two maps have the same name */
    const char *const *exclusive; /* patterns: a request may name at most one slot of all that match one of them. `*`
                                     stands for any text, `?` for any byte. Copied */
    uint32_t exclusive_count;
    uint32_t kind;     /* enum facet_map_kind */
    uint32_t strategy; /* enum facet_map_strategy */
    uint32_t reserved;
    int64_t quantum; /* amounts are granted in multiples of it. Default: 1 for a discrete map, whose quantum must be
                        whole, and 0.01 for a fraction map */
};

#define FACET_NUMA_UNKNOWN (-1) /* devices with this value count as near each other and far from all others */

/* One place: a slot of a device. A device with several slots is in the list several times, by the same map and id. */
struct facet_map_device {
    const char *id;   /* any text, copied; unique within its map and slot */
    const char *slot; /* copied. All places of a slot are of one map and type */
    uint32_t map;     /* index */
    uint32_t type;    /* enum facet_slot_type */
    int32_t numa_node;
    uint32_t unhealthy; /* 1: nothing new is granted on it */
    int64_t capacity;   /* 0 or more; the sum over a slot's places is at most INT64_MAX */
};

#define FACET_MAPS_MOST   64u
#define FACET_PLACES_MOST 65536u

struct facet_maps_config {
    uint32_t size;
    uint32_t map_count; /* 1 to FACET_MAPS_MOST. A request is planned map by map, in their order */
    const struct facet_map_config *maps;
    const struct facet_map_device *devices; /* of equally good places, the first in this list is preferred */
    uint32_t device_count;                  /* at most FACET_PLACES_MOST */
    uint32_t reserved;
};

/* Copies all that the caller passes. Errors: FACET_OUT_OF_RANGE; FACET_ALREADY_EXISTS: a map or a place is given
 * twice. */
FACET_API enum facet_status facet_maps_create(const struct facet_maps_config *config, struct facet_maps **ret_maps,
                                              struct facet_error *error);
/* All grants end with the maps. NULL is fine. */
FACET_API void facet_maps_destroy(struct facet_maps *maps);

/* A copy of the maps as they are now, with all grants and their handles: to try something, or to compare. */
FACET_API enum facet_status facet_maps_copy(struct facet_maps *maps, struct facet_maps **ret_copy,
                                            struct facet_error *error);

/*
 * Makes `maps` the same as `saved`, a copy of it (see above) that no other thread uses meanwhile. FACET_BAD_STATE: it
 * is no copy of these maps. Afterwards the valid handles are those of the copy: a handle that was given since the copy
 * may be given again.
 */
FACET_API enum facet_status facet_maps_reset(struct facet_maps *maps, const struct facet_maps *saved,
                                             struct facet_error *error);

/* Sets the strategy for later requests. FACET_OUT_OF_RANGE: there is no such map. */
FACET_API enum facet_status facet_maps_set_strategy(struct facet_maps *maps, uint32_t map, uint32_t strategy,
                                                    struct facet_error *error);

/* Sets the health of all places with that map and device id. Grants on them stay. FACET_NOT_FOUND: there is none. */
FACET_API enum facet_status facet_maps_set_health(struct facet_maps *maps, uint32_t map, const char *id,
                                                  uint32_t unhealthy, struct facet_error *error);

/*
 * Sets the amount of a place that is not for grants: the system's own share, or use that bypasses these maps. It
 * replaces the place's former reservation. FACET_NO_SPACE: the grants leave less than `amount`. FACET_OUT_OF_RANGE: no
 * such place, or a negative amount.
 */
FACET_API enum facet_status facet_maps_reserve(struct facet_maps *maps, uint32_t place, int64_t amount,
                                               struct facet_error *error);

struct facet_maps_place {
    uint32_t size;
    uint32_t map;
    uint32_t type;
    uint32_t unhealthy;
    int32_t numa_node;
    uint32_t reserved_word;
    const char *id; /* `id` and `slot` are valid as long as the maps live */
    const char *slot;
    int64_t capacity;
    int64_t granted;  /* the amount that all grants together have */
    int64_t reserved; /* facet_maps_reserve(); granted + reserved is never above capacity */
};

FACET_API uint32_t facet_maps_place_count(const struct facet_maps *maps);
/* FACET_OUT_OF_RANGE. */
FACET_API enum facet_status facet_maps_get_place(struct facet_maps *maps, uint32_t place,
                                                 struct facet_maps_place *ret_place, struct facet_error *error);
/* FACET_NOT_FOUND. */
FACET_API enum facet_status facet_maps_find_place(struct facet_maps *maps, const char *slot, const char *id,
                                                  uint32_t *ret_place, struct facet_error *error);

/* --- requests --- */

enum facet_affinity {
    FACET_AFFINITY_NONE = 0,               /* the place that has most free first, wherever it is */
    FACET_AFFINITY_INTERLEAVED = 1,        /* NUMA nodes in turn, beginning with the one of which least is taken */
    FACET_AFFINITY_PREFER_SINGLE_NODE = 2, /* one NUMA node after the other */
};

enum facet_maps_rules {
    FACET_MAPS_EXACT = 0, /* the granted amounts equal the requested ones */
    FACET_MAPS_ROUND_DOWN =
        1, /* Backend.AI's rule: parts are rounded down to the quantum, so less may be granted, but never nothing.
              facet_maps_request.guard then assumes that every device has the capacity of the one with most free */
};

struct facet_maps_item {
    const char *slot;
    int64_t amount; /* 0: nothing of it */
};

/* Zeroed members mean the default. */
struct facet_maps_request {
    uint32_t size;
    uint32_t count; /* the number of items, which name each slot once */
    const struct facet_maps_item *items;
    uint32_t rules;    /* enum facet_maps_rules */
    uint32_t affinity; /* enum facet_affinity, for the first slot. Each later slot prefers the NUMA nodes on which the
                          slot before it was placed, and each later map those on which the map before it was placed */
    const uint32_t *near; /* places whose NUMA nodes the first slot prefers, as a later slot does */
    uint32_t near_count;
    uint32_t guard; /* 1: refuse an amount that cannot be split evenly, to within a quantum, over the devices that are
                       free enough. Fraction maps only */
    int64_t least;  /* fraction maps with the strategy evenly: devices that have less free are not used; default 0.01
                       (Backend.AI's "minimum memory") */
};

/* A part of a grant, or of a plan. */
struct facet_maps_part {
    uint32_t place;
    uint32_t reserved;
    int64_t amount;
};

enum facet_refusal {
    FACET_REFUSED_NOT = 0,        /* not refused */
    FACET_REFUSED_SLOT = 1,       /* no device has the slot, or the slot is unified */
    FACET_REFUSED_AMOUNT = 2,     /* negative, or not 1 of a unique slot */
    FACET_REFUSED_QUANTUM = 3,    /* not a multiple of the quantum */
    FACET_REFUSED_EXCLUSIVE = 4,  /* two slots that exclude each other, or one slot twice */
    FACET_REFUSED_SHORT = 5,      /* less is free than was requested */
    FACET_REFUSED_FRAGMENTED = 6, /* facet_maps_request.guard: no even split fits */
};

/* Why a request was refused, and how much was missing, for programs. Untouched when the request is granted. */
struct facet_maps_refusal {
    uint32_t size;
    uint32_t reason; /* enum facet_refusal */
    uint32_t item;   /* index of the refused item in the request */
    uint32_t other;  /* FACET_REFUSED_EXCLUSIVE: index of the item that excludes it */
    int64_t asked;
    /* The most that the same request could have had of the item; 0 where the reason has no such amount. */
    int64_t could;
};

FACET_API const char *facet_refusal_name(uint32_t reason); /* "short"; NULL when unknown */

/*
 * Writes the grant that would be made now into `parts` of `capacity`; changes nothing. `*ret_count` is set to the
 * number of parts, also when there is room for fewer (FACET_TOO_SMALL). A plan has at most one part for each place.
 * FACET_NO_SPACE: too little is free, or the guard refused. FACET_NOT_FOUND: no device has a requested slot.
 * FACET_OUT_OF_RANGE: a requested amount is not allowed. `ret_refusal` may be NULL.
 */
FACET_API enum facet_status facet_maps_plan(struct facet_maps *maps, const struct facet_maps_request *request,
                                            struct facet_maps_part *parts, uint32_t capacity, uint32_t *ret_count,
                                            struct facet_maps_refusal *ret_refusal, struct facet_error *error);

/* Plans and grants in one step. `ret_grant` is a handle, never 0 and never given again. A request for nothing is
 * granted nothing, and has a handle too. Errors as for facet_maps_plan(). */
FACET_API enum facet_status facet_maps_allocate(struct facet_maps *maps, const struct facet_maps_request *request,
                                                uint64_t *ret_grant, struct facet_maps_refusal *ret_refusal,
                                                struct facet_error *error);

/*
 * Grants these parts: of a plan, or of a grant that was written down before a restart. All or nothing. Unhealthy
 * devices are allowed: a former grant stays valid. FACET_NO_SPACE: more than a place has free. FACET_OUT_OF_RANGE: no
 * such place, an amount that is not positive, not whole on a discrete map, or not 1 of a unique slot.
 * FACET_ALREADY_EXISTS: two parts name the same place.
 */
FACET_API enum facet_status facet_maps_commit(struct facet_maps *maps, const struct facet_maps_part *parts,
                                              uint32_t count, uint64_t *ret_grant, struct facet_error *error);

/* The parts of a grant, in the order in which they were planned. `parts`, `capacity` and `ret_count` as for
 * facet_maps_plan(). FACET_NOT_FOUND: there never was such a grant. FACET_BAD_STATE: it was released. */
FACET_API enum facet_status facet_maps_get_grant(struct facet_maps *maps, uint64_t grant, struct facet_maps_part *parts,
                                                 uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* FACET_BAD_STATE: it was released already. FACET_NOT_FOUND: there never was such a grant. After an error nothing has
 * changed. */
FACET_API enum facet_status facet_maps_release(struct facet_maps *maps, uint64_t grant, struct facet_error *error);

/* Handles of all grants, in the order of the grant table, whose released entries are used again. `capacity` and
 * `ret_count` as for facet_maps_plan(). */
FACET_API enum facet_status facet_maps_list(struct facet_maps *maps, uint64_t *grants, uint32_t capacity,
                                            uint32_t *ret_count, struct facet_error *error);

/* --- several agents on one node --- */

enum facet_agents_mode {
    FACET_AGENTS_SHARED = 0,     /* each agent may have everything */
    FACET_AGENTS_AUTO_SPLIT = 1, /* equal parts; of a discrete slot whole units, the first agents have one more */
    FACET_AGENTS_MANUAL = 2,     /* each agent has `manual` */
};

FACET_API const char *facet_agents_mode_name(uint32_t mode); /* "auto-split"; NULL when unknown */

struct facet_agents_config {
    uint32_t size;
    uint32_t mode;
    uint32_t kind;  /* enum facet_map_kind */
    uint32_t count; /* agents, 1 or more */
    int64_t total;  /* the amount of one slot of the node */
    int64_t system; /* the system's part of `total` */
    int64_t manual; /* FACET_AGENTS_MANUAL: the part of each agent */
};

/*
 * The amounts that each agent must leave to the others and the system: `ret_withheld` has `count` amounts. An agent may
 * use the total less its amount. FACET_OUT_OF_RANGE: the system keeps more than there is. FACET_NO_SPACE: manual parts
 * do not fit.
 */
FACET_API enum facet_status facet_agents_split(const struct facet_agents_config *config, int64_t *ret_withheld,
                                               struct facet_error *error);

/*
 * The memory that is left when about `reserved` bytes of `total` are kept: `ret_usable`, a multiple of `align`. The
 * kept part, `ret_reserved`, may be more or less than `reserved`, by less than `align`. FACET_OUT_OF_RANGE.
 */
FACET_API enum facet_status facet_agents_align_memory(uint64_t total, uint64_t reserved, uint64_t align,
                                                      uint64_t *ret_usable, uint64_t *ret_reserved,
                                                      struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
