/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: requests of a trace of language models' inference (TIMESTAMP,ContextTokens,GeneratedTokens), as the memory that
 * their keys and values take.
 * Never: replays them.
 */
#ifndef BENCH_MEMORY_TRACE_H
#define BENCH_MEMORY_TRACE_H

#include <stdint.h>

struct request {
    double arrival_s, lifetime_s;
    uint64_t bytes;
};

struct trace {
    struct request *requests;
    uint32_t count;
};

/* Arrivals come `rate` times as fast; lifetimes are unchanged. */
struct trace trace_read(const char *path, double rate);

#endif
