/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fleet (facet/placement.h), for the files of this folder.
 *
 * Owns: the structs and functions that the files of this room share: nodes, shapes, the mix, the index of scores.
 * Never: is included from outside this folder, except by its tests.
 */
#ifndef FACET_PLACEMENT_FLEET_H
#define FACET_PLACEMENT_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/placement.h>

#define FLEET_WHOLE        1000u      /* milli of a whole GPU */
#define FLEET_SCORE_NO_FIT INT32_MIN  /* the score of a node that the request does not fit */
#define FLEET_BLOCK        64u        /* nodes in a block: the index keeps the highest score of each block */
#define FLEET_ANY_MODEL    UINT64_MAX /* fleet_shape.models of a request without a model */
#define FLEET_NONE         UINT32_MAX /* no node, GPU, shape or allocation */
#define FLEET_MOVES_MAX    64u        /* the most moves of one migration */
#define FLEET_SCALE_BITS   20         /* a scaled ratio is in units of 1 / (1 << 20) */
#define FLEET_PRICE_MAX    (INT64_C(1) << 36)

/* The part of a node that every score reads, in one cache line or two. */
struct fleet_node {
    uint64_t memory_left;
    uint32_t cpu_left;
    uint32_t gpu_left;               /* milli free, summed over its GPUs */
    uint16_t left[FACET_FLEET_GPUS]; /* milli free of each GPU */
    uint8_t gpus;
    uint8_t free_gpus;     /* GPUs that are wholly free */
    uint8_t model;         /* index into facet_fleet.models; 0 if the node has no GPU */
    uint8_t kinds;         /* how many kinds of request have allocations here */
    int64_t usable_weight; /* the free milli that the jobs of the mix can use, weighted (mix.c) */
};

/* The members of a node that few calls read. */
struct fleet_node_details {
    uint64_t last_change; /* number of its last entry in the journal */
    uint32_t first_alloc; /* head of the list of its allocations; FLEET_NONE: none */
    uint64_t memory;
    uint32_t cpu;
    uint16_t allocs_of_kind[FACET_FLEET_GPUS + 1]; /* by kind: 0 shares a GPU, n has n whole GPUs */
    const struct facet_node_topology *topology;
};

/* A shape is a request's demand; alike requests have one shape. Its index of scores holds the score of each node. */
struct fleet_shape {
    uint64_t memory;
    uint64_t models; /* a bit for each model that the request allows */

    uint32_t cpu;
    uint16_t milli; /* the demand on each GPU */
    uint8_t gpu_count;
    uint8_t kind;           /* as in allocs_of_kind */
    uint32_t gpu_milli_sum; /* milli * gpu_count */
    bool any_model;
    uint32_t hash_next;
    /* The index of scores. */
    int32_t *scores;       /* of each node; NULL until the shape is first placed */
    int32_t *blocks;       /* the highest score of each FLEET_BLOCK nodes */
    uint64_t journal_seen; /* journal entries before this number are in the scores */
    uint32_t mix_version;  /* the mix by which the scores were made */
    uint64_t decisions;    /* requests of this shape so far; counted only while the mix is learned */
};

/* The mix is the set of jobs that the fleet expects, each shape weighted by how often jobs have it. Tables say how much
 * of that weight could use a GPU, by the GPU's free milli and the node's free CPU. */
struct fleet_mix {
    uint32_t levels, ranks;         /* how many rows (free CPU) and columns (free milli) the tables have */
    uint32_t *cpu;                  /* [levels]: the least free CPU of each level; level 0 begins at 0 */
    uint16_t rank[FLEET_WHOLE + 1]; /* the column of a GPU with so many milli free */
    int64_t *share;                 /* [model][level][rank] weight of jobs that could use a GPU of that rank */
    int64_t *whole;      /* [model][level][free GPUs] weight of jobs of several whole GPUs that could use them */
    int64_t total;       /* weight of all jobs, with or without GPUs */
    int64_t steps[101];  /* the least gain of each score of FGD, fragmentation gradient descent (mix.c) */
    uint32_t level_step; /* milli of CPU for each entry of `level_of_slot` */
    uint32_t *level_of_slot;
    uint32_t level_slots;
};

struct fleet_alloc {
    uint32_t node, shape, gpu_mask;
    uint32_t previous, next; /* list of the node; `next` of a free entry: the next free entry */
    uint32_t generation;     /* odd while in use */
};

/* Ratios, scaled by 1 << FLEET_SCALE_BITS. */
struct fleet_prices {
    int64_t gpu_per_cpu;               /* milli of GPU that jobs use for each milli-core */
    int64_t model[FACET_FLEET_MODELS]; /* the demand of jobs that name the model, divided by its supply */
};

struct facet_fleet {
    uint32_t policy;
    uint64_t random;
    struct fleet_node *nodes;
    struct fleet_node_details *details; /* by node, like `nodes` */
    uint32_t node_count, block_count;
    char *models[FACET_FLEET_MODELS];
    uint32_t model_count;
    struct fleet_shape *shapes;
    uint32_t shape_count, shape_room;
    uint32_t hash[1024];
    struct fleet_alloc *allocs;
    uint32_t alloc_count, alloc_room, alloc_free_head;
    uint64_t allocs_in_use;
    uint32_t *journal; /* a ring of the nodes that changed */
    uint64_t journal_end;
    uint32_t journal_mask;
    struct fleet_mix mix;
    struct fleet_prices prices;
    uint64_t supply[FACET_FLEET_MODELS]; /* milli of GPUs of each model */
    bool learns_mix;                     /* no mix was given, and the policy needs one */
    uint32_t mix_version;                /* grows each time the mix is made */
    uint64_t decisions, learn_at;
    uint32_t cpu_max, gpu_max; /* milli of the largest node, or more (fleet.c); scores are relative to them */
    uint64_t gpu_total, gpu_used, cpu_total, cpu_used, gpus;
};

/* --- fit.c --- */
bool fleet_fits(const struct fleet_node *node, const struct fleet_shape *shape);
/* The fullest GPU with `milli` free that is not in `without_mask`; FACET_FLEET_GPUS: none. */
uint32_t fleet_gpu_fullest(const struct fleet_node *node, uint32_t milli, uint32_t without_mask);
uint32_t fleet_gpus_best(const struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape);
void fleet_node_reserve(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape, uint32_t gpu_mask);
void fleet_node_release(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape, uint32_t gpu_mask);

/* --- shape.c --- */
uint64_t fleet_models_of(const struct facet_fleet *fleet, const char *spec, bool *ret_any);
enum facet_status fleet_shape_make(const struct facet_fleet *fleet, const struct facet_fleet_request *request,
                                   struct fleet_shape *ret_shape, struct facet_error *error);

/* --- mix.c --- */
/* A shape, and how often jobs have it. */
struct fleet_weighted {
    struct fleet_shape shape;
    int64_t weight;
};
/* Makes the mix anew from these shapes, whose list it sorts. After an error the old mix stays. */
enum facet_status fleet_mix_make(struct facet_fleet *fleet, struct fleet_weighted *list, size_t count,
                                 struct facet_error *error);
void fleet_mix_clear(struct fleet_mix *mix);
/* Brings `usable_weight` of a node up to date. */
void fleet_mix_weigh(const struct facet_fleet *fleet, struct fleet_node *node);

/* --- learn.c --- */
/* Makes the mix from the jobs of the fleet's config; without jobs, the mix is empty. */
enum facet_status fleet_mix_from_config(struct facet_fleet *fleet, const struct facet_fleet_request *mix, size_t count,
                                        struct facet_error *error);
/* Learns from a request; called once for each decision. */
void fleet_learn(struct facet_fleet *fleet, struct fleet_shape *shape);

/* --- score.c, score_fgd.c, score_facet.c --- */
int32_t fleet_score(const struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape);
int32_t fleet_score_fgd(const struct facet_fleet *fleet, const struct fleet_node *node, const struct fleet_shape *shape,
                        uint32_t *ret_gpu);
int32_t fleet_score_facet(const struct facet_fleet *fleet, const struct fleet_node *node,
                          const struct fleet_shape *shape, uint32_t *ret_gpu);

/* By how much the node's weighted usable milli grow when the request is placed there; the milli that the request takes
 * count as usable by every job. *ret_gpu: the GPU for a part of one GPU; FLEET_NONE for other requests. */
int64_t fleet_gain(const struct fleet_mix *mix, const struct fleet_node *node, const struct fleet_shape *shape,
                   uint32_t *ret_gpu);

/* --- prices.c --- */
struct fleet_prices fleet_prices_make(const struct facet_fleet *fleet, const struct fleet_weighted *list, size_t count);

/* --- index.c --- */
enum facet_status fleet_index_refresh(struct facet_fleet *fleet, struct fleet_shape *shape, struct facet_error *error);
uint32_t fleet_index_best(const struct facet_fleet *fleet, const struct fleet_shape *shape);
void fleet_index_changed(struct facet_fleet *fleet, uint32_t node);

/* --- fleet.c --- */
/* The GPUs that the policy chooses on a node that the shape fits, as a mask. */
uint32_t fleet_choose_gpus(struct facet_fleet *fleet, uint32_t node, const struct fleet_shape *shape);
/* Puts the allocation after `previous` in the node's list; FLEET_NONE: at its head. */
void fleet_alloc_link(struct facet_fleet *fleet, uint32_t index, uint32_t node, uint32_t gpu_mask, uint32_t previous);
void fleet_alloc_unlink(struct facet_fleet *fleet, uint32_t index);

/* --- random numbers: the same sequence on every machine --- */
static inline uint64_t fleet_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A random number from 0 to bound - 1; its bias is below bound / 2^64. */
static inline uint64_t fleet_random_below(uint64_t *state, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)fleet_random(state) * bound) >> 64);
}

#endif
