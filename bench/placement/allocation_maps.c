/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on allocation maps: Facet's, and a plain form in C of the Python original's algorithm.
 *
 * Owns: the cases and the clock. Never: asserts a time, or measures the two on different work.
 *
 * usage: bench_allocation_maps MILLISECONDS      how long each form runs each case
 * Prints a line of JSON: {"cases": [{"case", "ours_ns", "naive_ns", "ratio"}]}. An operation is an allocation, and the
 * release of the oldest of the 4 grants that are held.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "naive_maps.h"

#define HELD 4u

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void must_succeed(bool done, const char *what)
{
    if (done)
        return;
    fprintf(stderr, "bench_allocation_maps: %s failed\n", what);
    exit(EXIT_FAILURE);
}

/* A node of two sockets: 8 GPUs in shares, 144 cores, memory. */
enum { GPUS = 8, CORES = 144, PLACES = GPUS + CORES + 1 };

static struct facet_map_config maps[] = {{.name = "cuda", .kind = FACET_MAP_FRACTION},
                                         {.name = "cpu", .kind = FACET_MAP_DISCRETE},
                                         {.name = "mem", .kind = FACET_MAP_DISCRETE}};
static struct facet_map_device devices[PLACES];
static char ids[PLACES][8];

static void describe_node(void)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        bool gpu = i < GPUS, core = !gpu && i < GPUS + CORES;
        uint32_t index = gpu ? i : core ? i - GPUS : 0;

        snprintf(ids[i], sizeof ids[i], "%u", index);
        devices[i] = (struct facet_map_device){.id = ids[i],
                                               .map = gpu    ? 0
                                                      : core ? 1
                                                             : 2,
                                               .slot = gpu    ? "cuda.shares"
                                                       : core ? "cpu"
                                                              : "mem",
                                               .type = gpu || core ? FACET_SLOT_COUNT : FACET_SLOT_BYTES,
                                               .numa_node = (int32_t)(gpu ? index / 4 : index / 72 % 2),
                                               .capacity = gpu || core ? FACET_AMOUNT_ONE : (INT64_C(1) << 40) * 4};
    }
}

struct bench_case {
    const char *name;
    uint32_t affinity, count;
    struct facet_maps_item items[3];
};

static const struct bench_case cases[] = {
    {"part of a GPU", FACET_AFFINITY_NONE, 1, {{"cuda.shares", 300000}}},
    {"1.5 GPUs", FACET_AFFINITY_NONE, 1, {{"cuda.shares", 1500000}}},
    {"8 cores", FACET_AFFINITY_NONE, 1, {{"cpu", 8000000}}},
    {"8 cores of one socket", FACET_AFFINITY_PREFER_SINGLE_NODE, 1, {{"cpu", 8000000}}},
    {"GPU, cores, memory",
     FACET_AFFINITY_PREFER_SINGLE_NODE,
     3,
     {{"cuda.shares", 500000}, {"cpu", 8000000}, {"mem", 1048576000000}}},
};

static double run_ours(const struct bench_case *bench, uint64_t limit_ns)
{
    const struct facet_maps_config config = {
        .size = sizeof config, .maps = maps, .map_count = 3, .devices = devices, .device_count = PLACES};
    const struct facet_maps_request request = {
        .size = sizeof request, .items = bench->items, .count = bench->count, .affinity = bench->affinity};
    struct facet_maps *opened = NULL;
    uint64_t held[HELD] = {0}, operations = 0, begin, end;

    must_succeed(facet_maps_create(&config, &opened, NULL) == FACET_OK, "create");
    begin = now_ns();
    do {
        for (uint32_t i = 0; i < 64; i++, operations++) {
            uint64_t *grant = &held[operations % HELD];

            if (*grant)
                must_succeed(facet_maps_release(opened, *grant, NULL) == FACET_OK, "release");
            must_succeed(facet_maps_allocate(opened, &request, grant, NULL, NULL) == FACET_OK, bench->name);
        }
        end = now_ns();
    } while (end - begin < limit_ns);
    facet_maps_destroy(opened);
    return (double)(end - begin) / (double)operations;
}

static double run_naive(const struct bench_case *bench, uint64_t limit_ns)
{
    struct naive_node *node = naive_open(maps, 3, devices, PLACES);
    struct naive_grant *held[HELD] = {0};
    uint64_t operations = 0, begin, end;

    must_succeed(node != NULL, "the naive node");
    begin = now_ns();
    do {
        for (uint32_t i = 0; i < 4; i++, operations++) {
            struct naive_grant **grant = &held[operations % HELD];

            if (*grant)
                naive_release(node, *grant);
            *grant = naive_allocate(node, bench->items, bench->count, bench->affinity);
            must_succeed(*grant != NULL, bench->name);
        }
        end = now_ns();
    } while (end - begin < limit_ns);
    for (uint32_t i = 0; i < HELD; i++)
        naive_release(node, held[i]);
    naive_close(node);
    return (double)(end - begin) / (double)operations;
}

int main(int count, char **arguments)
{
    uint64_t limit_ns = count == 2 ? strtoull(arguments[1], NULL, 10) * 1000000u : 0;

    if (limit_ns == 0) {
        fprintf(stderr, "usage: bench_allocation_maps MILLISECONDS\n");
        return 2;
    }
    describe_node();
    printf("{\"cases\": [");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double ours = run_ours(&cases[i], limit_ns), naive = run_naive(&cases[i], limit_ns);

        printf("%s{\"case\": \"%s\", \"ours_ns\": %.1f, \"naive_ns\": %.1f, \"ratio\": %.1f}", i ? ", " : "",
               cases[i].name, ours, naive, naive / ours);
    }
    printf("]}\n");
    return 0;
}
