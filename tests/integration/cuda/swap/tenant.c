/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a set of memory that it works on and knows every word of: cuda-swap-tenant MIB LAUNCHES KERNEL
 *
 * Fills MIB in blocks, launches KERNEL ("add_words_100us": adds 1 to some words), and reads everything back at the end.
 * Told to terminate, it launches no more. Says {"launches", "work_s", "wrong"}: work_s from when the set was filled to
 * when the last launch was complete.
 *
 * Owns: that loop. Never: includes anything of Facet.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/integration/cuda/client.h"

#define MIB    ((uint64_t)1 << 20)
#define BLOCK  (24 * MIB)
#define BLOCKS 64u
#define SPOTS  16u  /* of a block, on which launches work */
#define WORDS  512u /* of a spot */
#define DEPTH  8u   /* launches between two waits */

struct block {
    CUdeviceptr address;
    uint64_t words, first, added[SPOTS];
};

static struct block blocks[BLOCKS];
static unsigned count;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "cuda-swap-tenant: %s: %d\n", call, result);
    exit(3);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void launch(CUfunction function, uint64_t address, uint64_t words, uint64_t value)
{
    void *parameters[] = {&address, &words, &value};

    check(client.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
}

static void fill(uint64_t bytes)
{
    CUfunction store = client_function("store_words_10us");

    for (; bytes && count < BLOCKS; count++) {
        struct block *block = &blocks[count];
        uint64_t part = bytes < BLOCK ? bytes : BLOCK;

        check(client.cuMemAlloc_v2(&block->address, part), "cuMemAlloc");
        block->words = part / sizeof(uint64_t);
        block->first = (uint64_t)getpid() * 1000003u + count * 7919u;
        launch(store, block->address, block->words, block->first);
        bytes -= part;
    }
    check(client.cuCtxSynchronize(), "cuCtxSynchronize");
}

static uint64_t spot_of(const struct block *block, unsigned spot)
{
    return block->words / SPOTS * spot;
}

static unsigned long work(unsigned long launches, const char *kernel)
{
    CUfunction add = client_function(kernel);
    unsigned long i = 0;

    for (; i < launches && !stopped; i++) {
        struct block *block = &blocks[i % count];
        unsigned spot = (unsigned)(i / count % SPOTS);

        launch(add, block->address + spot_of(block, spot) * sizeof(uint64_t), WORDS, 1);
        block->added[spot]++;
        if (i % DEPTH == DEPTH - 1)
            check(client.cuStreamSynchronize(NULL), "cuStreamSynchronize");
    }
    check(client.cuCtxSynchronize(), "cuCtxSynchronize");
    return i;
}

static uint64_t expected(const struct block *block, uint64_t word)
{
    uint64_t spot = word / (block->words / SPOTS);

    return block->first + (spot < SPOTS && word - spot_of(block, (unsigned)spot) < WORDS ? block->added[spot] : 0);
}

static unsigned long count_wrong(void)
{
    uint64_t *words = malloc(BLOCK);
    unsigned long wrong = 0;

    for (unsigned i = 0; words && i < count; i++) {
        check(client.cuMemcpyDtoH_v2(words, blocks[i].address, blocks[i].words * sizeof *words), "cuMemcpyDtoH");
        for (uint64_t word = 0; word < blocks[i].words; word++)
            wrong += words[word] != expected(&blocks[i], word);
    }
    free(words);
    return words ? wrong : 1;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !client_open()) {
        fprintf(stderr, "usage: cuda-swap-tenant MIB LAUNCHES KERNEL\n");
        return 2;
    }
    signal(SIGTERM, stop);
    fill((uint64_t)atoi(argv[1]) * MIB);
    double begun = now_s();
    unsigned long launches = work((unsigned long)atol(argv[2]), argv[3]);
    double ended = now_s();
    unsigned long wrong = count_wrong();
    printf("{\"launches\": %lu, \"work_s\": %.3f, \"wrong\": %lu}\n", launches, ended - begun, wrong);
    for (unsigned i = 0; i < count; i++)
        check(client.cuMemFree_v2(blocks[i].address), "cuMemFree");
    return wrong ? 1 : 0;
}
