/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of `facet simulate` share.
 *
 * Owns: the request as it was read, and the results of all runs. Never: is used by another verb.
 */
#ifndef FACET_SIMULATE_H
#define FACET_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <facet/placement.h>

#include "command.h"

#define SIMULATE_SEEDS_MOST   10000u
#define SIMULATE_LOADS_MOST   16u
#define SIMULATE_THREADS_MOST 256u

struct simulate {
    const char *node_file, *job_file, *plot_file;
    uint32_t policies[FACET_PLACEMENT_POLICIES];
    uint32_t policy_count;
    uint64_t seeds, seed_base;
    uint32_t loads[SIMULATE_LOADS_MOST]; /* the loads that are reported, in permille, rising */
    uint32_t load_count;
    uint32_t points[FACET_SIMULATE_LOADS]; /* `loads`, and more loads for the plot */
    uint32_t point_count;
    uint32_t threads, stretch;
    uint32_t moves; /* of --migrate: how many jobs may be moved for one that fits nowhere */
    bool json, departures, learn;
    struct facet_node_list *nodes;
    struct facet_job_list *jobs;
    struct facet_simulate_result *results; /* [policy][seed] */
};

/* Means over the seeds of one policy. */
struct simulate_mean {
    double percent[FACET_SIMULATE_LOADS]; /* at each point */
    double unallocated_gpus;              /* at the last load, or at the peak */
    double peak_percent, mean_percent;    /* only with departures */
    double refused, moved, requests;
    uint64_t p50_ns, p99_ns;
};

static inline const struct facet_simulate_result *simulate_result(const struct simulate *simulate, uint32_t policy,
                                                                  uint64_t seed)
{
    return &simulate->results[policy * simulate->seeds + seed];
}

/* The index in `points` of the reported load loads[load]. */
uint32_t simulate_point(const struct simulate *simulate, uint32_t load);
struct simulate_mean simulate_mean(const struct simulate *simulate, uint32_t policy);
/* "100", "97.5": a load in percent, as it was typed. Returns `buffer`. */
char *simulate_load_text(uint32_t permille, char *buffer, size_t size);

/* simulate_run.c: all runs, on threads; progress on a terminal. The results do not depend on the threads. */
enum facet_status simulate_all(struct simulate *simulate, struct facet_error *error);

/* simulate_view.c: false when out of memory. */
bool simulate_print_json(const struct simulate *simulate);
bool simulate_print_table(const struct simulate *simulate);

/* simulate_plot.c: allocation against arrived load, as SVG, or as HTML when the file's name ends in ".html". */
enum facet_status simulate_plot(const struct simulate *simulate, struct facet_error *error);

#endif
