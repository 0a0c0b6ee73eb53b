/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a trace of language models' inference (TIMESTAMP,ContextTokens,GeneratedTokens) as the memory that the
 * requests' keys and values take.
 * Never: replays the requests.
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

/* Reads a trace. Arrivals come `rate` times as fast as recorded; lifetimes are unchanged. */
struct trace trace_read(const char *path, double rate);

#endif
