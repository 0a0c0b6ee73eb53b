/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement: the choice of a node of a fleet, and of its GPUs, for a request.
 *
 * Owns: fleets (nodes, their free resources and allocations), the policies that choose, lists of nodes and jobs in CSV,
 * simulated arrivals, and the choice of devices and partition slots inside one node.
 * Never: reads a file or a clock, or talks to a device: bytes come in, a decision comes out.
 *
 *     facet_fleet_create(&(struct facet_fleet_config){.size = sizeof(struct facet_fleet_config),
 *         .policy = FACET_PLACEMENT_FACET, .nodes = nodes, .node_count = 2, .mix = jobs, .mix_count = 9}, &fleet, &e);
 *     facet_fleet_shape(fleet, &(struct facet_fleet_request){.size = sizeof(struct facet_fleet_request),
 *         .cpu_milli = 8000, .num_gpu = 1, .gpu_milli = 460, .gpu_spec = "T4|P100"}, &shape, &e);
 *     facet_fleet_decide(fleet, shape, &placement, &e);
 *     facet_fleet_commit(fleet, shape, &placement, &allocation, &e);
 *     facet_fleet_release(fleet, allocation, &e);
 *     facet_fleet_destroy(fleet);
 *
 * Decisions. A policy gives a score to every node that can take the request. The node with the highest score is chosen;
 * of equal nodes the first in the list of nodes, so the order of the list is part of the input. Scores are cached per
 * shape of request, and only nodes that changed since the last request of that shape are scored again. A request that
 * fits somewhere is never refused.
 *
 * Amounts are integers: CPU in milli-cores, memory in bytes, GPUs in milli (1000 = one whole GPU). A request wants
 * `num_gpu` different GPUs of one node with `gpu_milli` free on each.
 *
 * Thread rule: one thread at a time for each fleet; different fleets are independent. Lists do not change once they are
 * read, and threads may share them. Errors, besides those named: FACET_INVALID_ARGUMENT; FACET_OUT_OF_RANGE: a number
 * beyond its bounds; FACET_NOT_FOUND: an unknown shape; FACET_NO_MEMORY. Source: all policies except first fit and the
 * last are those of "Beware of Fragmentation" (FGD), USENIX ATC 2023.
 */
#ifndef FACET_PLACEMENT_H
#define FACET_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- policies --- */

enum facet_placement_policy {
    FACET_PLACEMENT_RANDOM = 0,         /* any node that fits */
    FACET_PLACEMENT_FIRST_FIT = 1,      /* the first node that fits; of its GPUs the fullest that fits */
    FACET_PLACEMENT_BEST_FIT = 2,       /* the least free amounts left over, CPU and GPU weighted alike */
    FACET_PLACEMENT_DOT_PRODUCT = 3,    /* least product of free and wanted amounts, as published */
    FACET_PLACEMENT_GPU_PACKING = 4,    /* GPUs in use first, then nodes in use, then free nodes */
    FACET_PLACEMENT_GPU_CLUSTERING = 5, /* beside requests of the same kind */
    FACET_PLACEMENT_FGD = 6,            /* least growth of the fragments that the mix of jobs cannot use */
    FACET_PLACEMENT_FACET = 7,          /* ours: docs/placement.md */
};
#define FACET_PLACEMENT_POLICIES 8u

FACET_API const char *facet_placement_policy_name(uint32_t policy); /* "best_fit"; NULL when unknown */

/* Finds a policy by its name, in which dashes and underscores are equal. FACET_NOT_FOUND lists the known names. */
FACET_API enum facet_status facet_placement_policy_find(const char *name, uint32_t *ret_policy,
                                                        struct facet_error *error);

/* --- fleets --- */

#define FACET_FLEET_GPUS   16u /* of one node, at most */
#define FACET_FLEET_MODELS 64u /* of GPUs in one fleet, at most */
#define FACET_FLEET_NODES  (UINT32_C(1) << 24)
#define FACET_FLEET_CPU    UINT32_C(0x7fffffff) /* milli-cores of one node or request, at most */

struct facet_fleet;
struct facet_node_topology;

struct facet_fleet_node {
    uint32_t size;
    uint32_t gpus;
    const char *name;  /* for people; may be NULL */
    const char *model; /* of its GPUs, which are all of one model; NULL or "" without GPUs */
    uint64_t cpu_milli;
    uint64_t memory_bytes;
    const struct facet_node_topology *topology; /* may be NULL; kept by reference until the fleet is destroyed */
};

struct facet_fleet_request {
    uint32_t size;
    uint32_t num_gpu;
    uint32_t gpu_milli; /* of each GPU; 1 to 1000, ignored without GPUs */
    uint32_t reserved;
    uint64_t cpu_milli;
    uint64_t memory_bytes;
    const char *gpu_spec; /* acceptable models, "A|B"; NULL or "": any */
};

/* Nodes and the mix are copied. */
struct facet_fleet_config {
    uint32_t size;
    uint32_t policy; /* enum facet_placement_policy */
    uint64_t seed;   /* of random choices; only for the policy `random` */
    const struct facet_fleet_node *nodes;
    size_t node_count;
    const struct facet_fleet_request *mix; /* the expected jobs, such as a list of past jobs. For the policies `fgd` and
                                              `facet` */
    size_t mix_count; /* 0: unknown; then `facet` learns from the requests, and `fgd` chooses as first fit would */
};

/* FACET_OUT_OF_RANGE: more nodes, GPUs, models or CPU than the limits above. */
FACET_API enum facet_status facet_fleet_create(const struct facet_fleet_config *config, struct facet_fleet **ret_fleet,
                                               struct facet_error *error);
FACET_API void facet_fleet_destroy(struct facet_fleet *fleet); /* NULL is fine */

/* The number of the request's shape, which all equal requests share. Valid as long as the fleet. FACET_OUT_OF_RANGE:
 * cpu_milli, gpu_milli or num_gpu. */
FACET_API enum facet_status facet_fleet_shape(struct facet_fleet *fleet, const struct facet_fleet_request *request,
                                              uint32_t *ret_shape, struct facet_error *error);

struct facet_fleet_placement {
    uint32_t node; /* index, as given */
    uint32_t gpus; /* bit i: GPU i */
    int64_t score; /* of the policy, higher is better; to compare and to show */
};

/* Chooses a node, and allocates nothing. FACET_QUOTA: the request fits nowhere now. FACET_NOT_FOUND: there is no such
 * shape. */
FACET_API enum facet_status facet_fleet_decide(struct facet_fleet *fleet, uint32_t shape,
                                               struct facet_fleet_placement *ret_placement, struct facet_error *error);

/*
 * Allocates the node and GPUs of `placement`: those of a decision, or any others that fit. `ret_allocation` is never 0.
 * FACET_QUOTA: a part of them is not free (any more); FACET_OUT_OF_RANGE: node or GPUs. After an error nothing is
 * allocated.
 */
FACET_API enum facet_status facet_fleet_commit(struct facet_fleet *fleet, uint32_t shape,
                                               const struct facet_fleet_placement *placement, uint64_t *ret_allocation,
                                               struct facet_error *error);

/* FACET_NOT_FOUND: there is no such allocation, or it was released before. */
FACET_API enum facet_status facet_fleet_release(struct facet_fleet *fleet, uint64_t allocation,
                                                struct facet_error *error);

struct facet_fleet_move {
    uint64_t allocation; /* keeps its number */
    struct facet_fleet_placement from, to;
};

/*
 * Makes room for a request that fits nowhere: moves at most `most` allocations of one node to other nodes, which the
 * policy chooses, allocates the request on that node, and lists the moves. All or nothing: FACET_QUOTA when there is no
 * such node. `most` is 1 to 64; `ret_moves` has room for `most`. The caller carries the moves out before it uses the
 * placement.
 */
FACET_API enum facet_status facet_fleet_migrate(struct facet_fleet *fleet, uint32_t shape, uint32_t most,
                                                struct facet_fleet_move *ret_moves, uint32_t *ret_count,
                                                struct facet_fleet_placement *ret_placement, uint64_t *ret_allocation,
                                                struct facet_error *error);

/* The place of an allocation. FACET_NOT_FOUND. */
FACET_API enum facet_status facet_fleet_find(const struct facet_fleet *fleet, uint64_t allocation,
                                             struct facet_fleet_placement *ret_placement, struct facet_error *error);

struct facet_fleet_free {
    uint32_t size;
    uint32_t gpus;
    uint64_t cpu_milli;
    uint64_t memory_bytes;
    uint32_t gpu_milli[FACET_FLEET_GPUS];
};
/* The free resources of a node. FACET_OUT_OF_RANGE. */
FACET_API enum facet_status facet_fleet_node_free(const struct facet_fleet *fleet, uint32_t node,
                                                  struct facet_fleet_free *ret_free, struct facet_error *error);

struct facet_fleet_usage {
    uint32_t size;
    uint32_t shapes;
    uint64_t nodes, gpus, allocations;
    uint64_t gpu_milli, gpu_milli_used;
    uint64_t cpu_milli, cpu_milli_used;
    uint64_t gpus_untouched; /* GPUs that are wholly free */
};
FACET_API void facet_fleet_get_usage(const struct facet_fleet *fleet, struct facet_fleet_usage *ret_usage);

/* --- lists --- */

struct facet_node_list;
struct facet_job_list;

struct facet_fleet_job {
    uint32_t size;
    uint32_t timed; /* creation and deletion are known */
    const char *name;
    struct facet_fleet_request request;
    uint64_t creation_s, deletion_s;
};

/*
 * Parses CSV with a line of headings, in any order. Columns: nodes `sn` (or `name`), `cpu_milli`, `memory_mib`, `gpu`,
 * `model`; jobs `name`, `cpu_milli`, `memory_mib`, `num_gpu`, `gpu_milli`, and, if present, `gpu_spec`,
 * `creation_time`, `deletion_time`. Other columns are skipped. Lines end in LF or CRLF; a field may be quoted; blank
 * lines are skipped. `file` is the name of the text in errors: FACET_INVALID_ARGUMENT "jobs.csv:12: column num_gpu:
 * 'x': expected ...". The texts belong to the list.
 */
FACET_API enum facet_status facet_node_list_parse(const char *text, size_t length, const char *file,
                                                  struct facet_node_list **ret_list, struct facet_error *error);
FACET_API const struct facet_fleet_node *facet_node_list_items(const struct facet_node_list *list, size_t *ret_count);
FACET_API void facet_node_list_free(struct facet_node_list *list);

FACET_API enum facet_status facet_job_list_parse(const char *text, size_t length, const char *file,
                                                 struct facet_job_list **ret_list, struct facet_error *error);
FACET_API const struct facet_fleet_job *facet_job_list_items(const struct facet_job_list *list, size_t *ret_count);
FACET_API void facet_job_list_free(struct facet_job_list *list);

/* --- simulation --- */

#define FACET_SIMULATE_LOADS 64u

struct facet_simulate_point {
    uint32_t load_permille;  /* the part of the fleet's GPUs that had been requested */
    uint32_t reached;        /* 0: the run ended before this load */
    uint64_t gpu_milli_used; /* when that load was reached */
    uint64_t cpu_milli_used;
    uint64_t requests, refused; /* the numbers of requests and of refused ones, until that load */
};

/*
 * The settings of one run. Without departures, the jobs arrive in an order drawn from the seed, then jobs are drawn
 * from the list again and again until the last load is reached; no job leaves, and a job that fits nowhere is dropped.
 * With departures, the jobs of the list arrive and leave once, at their own times, and every stay is `stretch` times as
 * long; loads are not used.
 */
struct facet_simulate_config {
    uint32_t size;
    uint32_t policy;
    uint64_t seed;
    const struct facet_node_list *nodes; /* the run uses them in an order drawn from the seed */
    const struct facet_job_list *jobs;
    const uint32_t *loads_permille; /* rising; at most FACET_SIMULATE_LOADS */
    uint32_t load_count;
    uint32_t departures; /* 1: by creation_time and deletion_time */
    uint32_t moves;      /* the most moves for one request that fits nowhere, up to 64; 0: nothing is moved */
    uint32_t learn;      /* 1: the fleet gets no `mix` */
    uint32_t stretch;    /* with departures; default 1 */
    uint32_t reserved;
    uint64_t (*clock)(void *data); /* nanoseconds, to time decisions; NULL: they are not timed */
    int (*progress)(void *data, uint64_t done, uint64_t total); /* called now and then; a result other than 0 ends the
                                                                   run. May be NULL */
    void *data;
};

struct facet_simulate_result {
    uint32_t size;
    uint32_t load_count;
    struct facet_simulate_point loads[FACET_SIMULATE_LOADS];
    uint64_t requests, refused, moved;
    uint64_t gpu_milli, gpu_milli_used; /* used: at the end; with departures the most that was used at once */
    uint64_t gpu_milli_mean;            /* with departures: over time, from the first arrival to the last */
    uint64_t decision_p50_ns, decision_p99_ns, decision_max_ns; /* decide and commit; 0 without a clock */
    uint64_t node_order; /* a hash of the order of the nodes, to tell runs apart */
};

/*
 * FACET_BAD_STATE: `progress` ended the run. FACET_INVALID_ARGUMENT also when no job requests a GPU, or when there are
 * departures and jobs without times.
 */
FACET_API enum facet_status facet_simulate(const struct facet_simulate_config *config,
                                           struct facet_simulate_result *ret_result, struct facet_error *error);

/* --- inside one node --- */

#define FACET_NODE_NO_NUMA INT32_MIN

/*
 * The devices of one node. link[i][j] says how well device i and device j are connected: higher is better, for example
 * the bandwidth in MB/s; link[j][i] has the same value.
 */
struct facet_node_topology {
    uint32_t size;
    uint32_t devices;               /* at most FACET_FLEET_GPUS */
    int32_t numa[FACET_FLEET_GPUS]; /* FACET_NODE_NO_NUMA: not known */
    uint32_t link[FACET_FLEET_GPUS][FACET_FLEET_GPUS];
};

/*
 * Chooses the `count` devices of `allowed` (bit i: device i) that are best to have together: those with the highest sum
 * of links over all pairs; of equal choices the one on the fewest NUMA nodes, then the one whose remaining devices are
 * best connected, then the lowest numbers. `topology` NULL: the lowest numbers. FACET_QUOTA: `allowed` has fewer
 * devices.
 */
FACET_API enum facet_status facet_node_choose(const struct facet_node_topology *topology, uint32_t allowed,
                                              uint32_t count, uint32_t *ret_devices, struct facet_error *error);

#define FACET_PARTITION_SLICES 64u

/*
 * A kind of partition, as GPUs in MIG mode have them. It is `slices` long, and may begin only at the slices whose bits
 * are set in `starts`.
 */
struct facet_partition_profile {
    uint32_t slices;
    uint32_t reserved;
    uint64_t starts;
};

/*
 * Chooses the start for a partition of the profile with index `wanted` on a device on which the slices in `used` are
 * taken: the start that leaves the most placements of all `profiles` possible; of equal starts the highest.
 * FACET_QUOTA: no start is free.
 */
FACET_API enum facet_status facet_partition_place(const struct facet_partition_profile *profiles, size_t profile_count,
                                                  size_t wanted, uint64_t used, uint32_t *ret_start,
                                                  struct facet_error *error);

#ifdef __cplusplus
}
#endif
#endif
