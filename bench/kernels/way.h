/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways a kernel of the set is run: by PoCL, by Facet, and some as a loop in C.
 *
 * Owns: the input of all ways, and their reports.
 * Never: compares ways. `missing` says why a way is missing; such a way reports nothing.
 */
#ifndef BENCH_WAY_H
#define BENCH_WAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "set.h"

/* A kernel with its source, its inputs and its right results. */
struct bench_data {
    const struct bench_kernel *kernel;
    char *source;
    size_t source_bytes;
    void *input[BENCH_ARGUMENTS_MOST];    /* the memory before a launch */
    void *expected[BENCH_ARGUMENTS_MOST]; /* the memory that a launch must leave */
};

struct bench_building {
    uint64_t cold_ns;          /* a first build with an empty cache, opening the compiler included */
    uint64_t again_ns;         /* a build with an empty cache in a process that built before; 0: not measured */
    uint64_t warm_ns;          /* the same source again, from the cache */
    uint64_t first_launch_ns;  /* of a kernel's first launch, to its end */
    uint64_t hit_to_launch_ns; /* from asking for a cached image to a queued launch; 0: not measured */
};

/* The fastest launch of one round. */
struct bench_sample {
    uint64_t device_ns; /* by the runtime's own clock */
    uint64_t wall_ns;   /* for the caller */
    uint64_t launches;
};

struct bench_way {
    const char *name;
    struct bench_building building;
    double error; /* the worst element's, relative; infinity when an integer is wrong */
    char missing[512];

    void *state;
    bool (*build)(struct bench_way *way, const struct bench_data *data);
    /* Launches once and waits. `ret_device_ns` 0: the runtime did not say. */
    bool (*launch)(struct bench_way *way, uint64_t *ret_device_ns);
    /* NULL: the way leaves no result in its memory. */
    bool (*read)(struct bench_way *way, unsigned argument, void *data, size_t bytes);
};

/* `bench_way_pocl` needs POCL_CACHE_DIR and POCL_MAX_PTHREAD_COUNT in the environment; `bench_way_facet` needs
 * FACET_CACHE_DIR and FACET_CPU_UNITS. */
void bench_way_pocl(struct bench_way *way);
void bench_way_loop(struct bench_way *way);  /* runs on one thread, however many the other ways have */
void bench_way_touch(struct bench_way *way); /* runs on one thread, and has no result */
void bench_way_facet(struct bench_way *way, const char *provider);

/*
 * Measures only how long it takes to queue a launch of an image in Facet's cache, in a process that did nothing else.
 */
bool bench_facet_hit(const struct bench_data *data, const char *provider, struct bench_building *ret_building,
                     char *ret_missing, size_t size);

static inline uint64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
