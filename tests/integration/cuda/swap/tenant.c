/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that checks every word of the memory that it works on: cuda-swap-tenant MIB LAUNCHES KERNEL
 *
 * Fills MIB in blocks, launches KERNEL ("add_words_100us": adds 1 to some words), and reads everything back at the end.
 * After SIGTERM it launches no more. Prints {"launches", "work_s", "wrong"}, where work_s is the time from the end of
 * filling to the completion of the last launch.
 *
 * Owns: the loop of launches, and the check of the words. Never: calls a function of Facet.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/integration/cuda/client.h"

#define MIB               ((uint64_t)1 << 20)
#define BLOCK             (12 * MIB)
#define BLOCKS            64u
#define SPOTS             16u  /* places in a block on which launches work in turn */
#define WORDS             512u /* words of a spot */
#define LAUNCHES_PER_WAIT 8u   /* launches between two waits */

struct block {
    CUdeviceptr address;
    uint64_t words, first_value, added[SPOTS];
};

static struct block blocks[BLOCKS];
static unsigned block_count;
static volatile sig_atomic_t stop_requested;

static void request_stop(int signal)
{
    (void)signal;
    stop_requested = 1;
}

static void check_call(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "cuda-swap-tenant: %s failed with CUDA error %d\n", call, result);
    exit(3);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void launch_on_words(CUfunction function, uint64_t address, uint64_t words, uint64_t value)
{
    void *parameters[] = {&address, &words, &value};

    check_call(client.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL), "cuLaunchKernel");
}

static void fill_blocks(uint64_t bytes)
{
    CUfunction store = client_function("store_words_10us");

    for (; bytes && block_count < BLOCKS; block_count++) {
        struct block *block = &blocks[block_count];
        uint64_t block_bytes = bytes < BLOCK ? bytes : BLOCK;

        check_call(client.cuMemAlloc_v2(&block->address, block_bytes), "cuMemAlloc");
        block->words = block_bytes / sizeof(uint64_t);
        block->first_value = (uint64_t)getpid() * 1000003u + block_count * 7919u;
        launch_on_words(store, block->address, block->words, block->first_value);
        bytes -= block_bytes;
    }
    check_call(client.cuCtxSynchronize(), "cuCtxSynchronize");
}

static uint64_t first_word_of_spot(const struct block *block, unsigned spot)
{
    return block->words / SPOTS * spot;
}

static unsigned long run_launches(unsigned long launches, const char *kernel)
{
    CUfunction add = client_function(kernel);
    unsigned long i = 0;

    for (; i < launches && !stop_requested; i++) {
        struct block *block = &blocks[i % block_count];
        unsigned spot = (unsigned)(i / block_count % SPOTS);

        launch_on_words(add, block->address + first_word_of_spot(block, spot) * sizeof(uint64_t), WORDS, 1);
        block->added[spot]++;
        if (i % LAUNCHES_PER_WAIT == LAUNCHES_PER_WAIT - 1)
            check_call(client.cuStreamSynchronize(NULL), "cuStreamSynchronize");
    }
    check_call(client.cuCtxSynchronize(), "cuCtxSynchronize");
    return i;
}

static uint64_t expected_word(const struct block *block, uint64_t word)
{
    uint64_t spot = word / (block->words / SPOTS);

    return block->first_value +
           (spot < SPOTS && word - first_word_of_spot(block, (unsigned)spot) < WORDS ? block->added[spot] : 0);
}

static unsigned long count_wrong_words(void)
{
    uint64_t *words = malloc(BLOCK);
    unsigned long wrong = 0;

    for (unsigned i = 0; words && i < block_count; i++) {
        check_call(client.cuMemcpyDtoH_v2(words, blocks[i].address, blocks[i].words * sizeof *words), "cuMemcpyDtoH");
        for (uint64_t word = 0; word < blocks[i].words; word++)
            wrong += words[word] != expected_word(&blocks[i], word);
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
    signal(SIGTERM, request_stop);
    fill_blocks((uint64_t)atoi(argv[1]) * MIB);
    double begun = now_s();
    unsigned long launches = run_launches((unsigned long)atol(argv[2]), argv[3]);
    double ended = now_s();
    unsigned long wrong = count_wrong_words();
    printf("{\"launches\": %lu, \"work_s\": %.3f, \"wrong\": %lu}\n", launches, ended - begun, wrong);
    for (unsigned i = 0; i < block_count; i++)
        check_call(client.cuMemFree_v2(blocks[i].address), "cuMemFree");
    return wrong ? 1 : 0;
}
