/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that keeps a GPU busy: hip-burn SECONDS KERNEL BLOCKS DEPTH [graph NODES]
 *
 * Launches KERNEL; with "graph", it launches a graph of NODES nodes of KERNEL instead. At most DEPTH launches are
 * incomplete at a time: with DEPTH 1 the program waits for each launch. At the end it prints how long the launch calls
 * blocked: {"launches","stall_p99_us","stall_most_us"}.
 *
 * Owns: the loop of launches, and the printed line. Never: calls a function of Facet.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client.h"

#define STALLS 65536u /* the last calls, whose durations are kept */

static uint32_t stalls_us[STALLS];

static double now_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare_times(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

static hipGraphExec_t make_graph(hipFunction_t function, unsigned blocks, int nodes)
{
    hipKernelNodeParams parameters = {.func = function, .gridDim = {blocks, 1, 1}, .blockDim = {128, 1, 1}};
    hipGraphExec_t executable = NULL;
    hipGraphNode_t node;
    hipGraph_t graph;

    client.hipGraphCreate(&graph, 0);
    for (int i = 0; i < nodes; i++)
        client.hipGraphAddKernelNode(&node, graph, NULL, 0, &parameters);
    client.hipGraphInstantiate(&executable, graph, NULL, NULL, 0);
    return executable;
}

/* A ring of `depth` events: a launch waits for the event of the launch that is `depth` launches before it. */
struct ring {
    hipEvent_t events[256]; /* the greatest depth */
    unsigned depth;
    unsigned long next;
};

/* The event that the next launch uses. */
static hipEvent_t next_event(const struct ring *ring)
{
    return ring->events[ring->next % (ring->depth ? ring->depth : 1)];
}

static void wait_for_room(struct ring *ring)
{
    if (ring->next >= ring->depth)
        client.hipEventSynchronize(next_event(ring));
}

int main(int argc, char **argv)
{
    struct ring ring = {.next = 0};
    unsigned long count = 0;
    hipStream_t stream;

    if (argc < 5 || !client_open()) {
        fprintf(stderr, "usage: hip-burn SECONDS KERNEL BLOCKS DEPTH [graph NODES]\n");
        return 2;
    }
    hipFunction_t function = client_function(argv[2]);
    unsigned blocks = (unsigned)atoi(argv[3]);
    hipGraphExec_t graph = argc > 6 ? make_graph(function, blocks, atoi(argv[6])) : NULL;
    ring.depth = (unsigned)atoi(argv[4]);
    if (!ring.depth || ring.depth > 256)
        return 2;
    client.hipStreamCreateWithFlags(&stream, hipStreamNonBlocking);
    for (unsigned i = 0; i < ring.depth; i++)
        client.hipEventCreateWithFlags(&ring.events[i], hipEventDisableTiming);
    double end = now_seconds() + atof(argv[1]);
    while (now_seconds() < end) {
        wait_for_room(&ring);
        double before = now_seconds();
        hipError_t result = graph ? client.hipGraphLaunch(graph, stream) : client_launch(function, blocks, stream);
        if (result != hipSuccess) {
            fprintf(stderr, "hip-burn: launch %lu failed with HIP error %d\n", count, result);
            return 1;
        }
        stalls_us[count++ % STALLS] = (uint32_t)((now_seconds() - before) * 1e6);
        client.hipEventRecord(next_event(&ring), stream);
        ring.next++;
    }
    unsigned long kept = count < STALLS ? count : STALLS;
    qsort(stalls_us, kept, sizeof *stalls_us, compare_times);
    printf("{\"launches\": %lu, \"stall_p99_us\": %u, \"stall_most_us\": %u}\n", count, stalls_us[kept * 99 / 100],
           stalls_us[kept - 1]);
    return 0;
}
