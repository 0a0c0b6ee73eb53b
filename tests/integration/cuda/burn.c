/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that keeps a GPU busy: cuda-burn SECONDS KERNEL[,KERNEL...] BLOCKS DEPTH [graph NODES]
 *
 * Launches the KERNELs in turn; with "graph", it launches a graph of NODES nodes of the first KERNEL instead. At most
 * DEPTH launches are incomplete at a time: with DEPTH 1 the program waits for each launch. If the only KERNEL is
 * "fill", it makes fills of BLOCKS bytes instead. At the end it prints how long the launch calls blocked:
 * {"pid","launches","stall_p99_us","stall_most_us"}.
 *
 * Owns: the loop of launches, and the printed line. Never: calls a function of Facet.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define STALLS  65536u /* the last calls, whose durations are kept */
#define KERNELS 8u

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

static unsigned take_kernels(char *list, CUfunction *functions)
{
    unsigned count = 0;

    for (char *name = strtok(list, ","); name && count < KERNELS; name = strtok(NULL, ","))
        functions[count++] = client_function(name);
    return count;
}

static CUgraphExec make_graph(CUfunction function, unsigned blocks, int nodes)
{
    CUDA_KERNEL_NODE_PARAMS_v2 parameters = {.func = function,
                                             .gridDimX = blocks,
                                             .gridDimY = 1,
                                             .gridDimZ = 1,
                                             .blockDimX = 128,
                                             .blockDimY = 1,
                                             .blockDimZ = 1};
    CUgraphExec executable = NULL;
    CUgraphNode node;
    CUgraph graph;

    client.cuGraphCreate(&graph, 0);
    for (int i = 0; i < nodes; i++)
        client.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &parameters);
    client.cuGraphInstantiateWithFlags(&executable, graph, 0);
    return executable;
}

/* A ring of `depth` events: a launch waits for the event of the launch that is `depth` launches before it. */
struct ring {
    CUevent events[256]; /* the greatest depth */
    unsigned depth;
    unsigned long next;
};

/* The event that the next launch uses. */
static CUevent next_event(const struct ring *ring)
{
    return ring->events[ring->next % (ring->depth ? ring->depth : 1)];
}

static void wait_for_room(struct ring *ring)
{
    if (ring->next >= ring->depth)
        client.cuEventSynchronize(next_event(ring));
}

int main(int argc, char **argv)
{
    struct ring ring = {.next = 0};
    unsigned long count = 0;
    CUfunction functions[KERNELS];
    CUdeviceptr memory = 0;
    CUstream stream;

    if (argc < 5 || !client_open()) {
        fprintf(stderr, "usage: cuda-burn SECONDS KERNEL[,KERNEL...] BLOCKS DEPTH [graph NODES]\n");
        return 2;
    }
    unsigned blocks = (unsigned)atoi(argv[3]);
    if (strcmp(argv[2], "fill") == 0 && client.cuMemAlloc_v2(&memory, blocks) != CUDA_SUCCESS)
        return 2;
    unsigned kernels = take_kernels(argv[2], functions);
    CUgraphExec graph = argc > 6 ? make_graph(functions[0], blocks, atoi(argv[6])) : NULL;
    ring.depth = (unsigned)atoi(argv[4]);
    if (!kernels || !ring.depth || ring.depth > 256)
        return 2;
    client.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < ring.depth; i++)
        client.cuEventCreate(&ring.events[i], CU_EVENT_DISABLE_TIMING);
    double end = now_seconds() + atof(argv[1]);
    while (now_seconds() < end) {
        wait_for_room(&ring);
        double before = now_seconds();
        CUresult result = graph    ? client.cuGraphLaunch(graph, stream)
                          : memory ? client.cuMemsetD8Async(memory, 1, blocks, stream)
                                   : client_launch(functions[count % kernels], blocks, stream);
        if (result != CUDA_SUCCESS) {
            fprintf(stderr, "cuda-burn: launch %lu failed with CUDA error %d\n", count, result);
            return 1;
        }
        stalls_us[count++ % STALLS] = (uint32_t)((now_seconds() - before) * 1e6);
        client.cuEventRecord(next_event(&ring), stream);
        ring.next++;
    }
    unsigned long kept = count < STALLS ? count : STALLS;
    qsort(stalls_us, kept, sizeof *stalls_us, compare_times);
    printf("{\"pid\": %d, \"launches\": %lu, \"stall_p99_us\": %u, \"stall_most_us\": %u}\n", (int)getpid(), count,
           stalls_us[kept * 99 / 100], stalls_us[kept - 1]);
    return 0;
}
