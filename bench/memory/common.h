/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the helpers that the parts of bench_memory share: clocks, pseudo-random numbers that are the same in every run,
 * and ending with a reason.
 * Never: measures.
 */
#ifndef BENCH_MEMORY_COMMON_H
#define BENCH_MEMORY_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <facet/memory.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- ticks of the finest clock --- */

/* Reads the clock between fences: without them, a cache miss of one call would be counted in the next. */
static inline uint64_t ticks_fenced(void)
{
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
#else
    return now_ns();
#endif
}

static inline uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __rdtsc();
#else
    return now_ns();
#endif
}

/* Measures the frequency of the ticks over 50 ms. */
static inline double ticks_per_ns(void)
{
    uint64_t start_ns = now_ns(), start = ticks_now(), end_ns;

    while ((end_ns = now_ns()) < start_ns + 50000000u)
        ;
    return (double)(ticks_now() - start) / (double)(end_ns - start_ns);
}

/* --- random numbers, checks, spaces --- */

/* xorshift64*, Vigna 2016. The state must not be 0. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static inline _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_memory: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static inline void check(enum facet_status status, const struct facet_error *error, const char *what)
{
    if (__builtin_expect(status != FACET_OK, 0))
        die(what, error->message);
}

static inline void *get_memory(size_t count, size_t bytes)
{
    void *got = calloc(count ? count : 1, bytes);

    if (!got)
        die("calloc", "no memory");
    return got;
}

static inline struct facet_memory *open_memory(const struct facet_memory_config *config)
{
    struct facet_memory *memory;
    struct facet_error error;

    check(facet_memory_open_host(config, &memory, &error), &error, "facet_memory_open_host");
    return memory;
}

static inline struct facet_space *open_space(struct facet_memory *memory, uint32_t id, uint64_t limit_bytes)
{
    const struct facet_space_config config = {.size = sizeof config, .id = id, .limit_bytes = limit_bytes};
    struct facet_space *space;
    struct facet_error error;

    check(facet_space_create(memory, &config, &space, &error), &error, "facet_space_create");
    return space;
}

static inline void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

/* The parts, each with its own arguments; each prints one line of JSON. */
int latency_main(char **arguments);
int replay_main(char **arguments);
int defragment_main(char **arguments);
int oversubscribe_main(char **arguments);
int many_main(char **arguments);

#endif
