/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of many vGPUs, measured: run by bench/memory.py, which compares.
 *
 * Owns: choosing the part.
 * Never: compares.
 *
 * usage: bench_memory latency ALLOCATOR LIVE THREADS MILLISECONDS
 *        bench_memory replay TRACE ALLOCATOR POOL_GIB RATE
 *        bench_memory defragment LIVE_MIB RUN_KIB PAGE_KIB COMMIT PROVIDER (empty: host memory)
 *        bench_memory oversubscribe MODE TENANTS SET_MILLI DEVICE_MIB PASSES
 *        bench_memory many COUNT
 */
#include <string.h>

#include "common.h"

struct part {
    const char *name;
    int arguments;
    int (*run)(char **arguments);
};

static const struct part parts[] = {
    {"latency", 4, latency_main},
    {"replay", 4, replay_main},
    {"defragment", 5, defragment_main},
    {"oversubscribe", 5, oversubscribe_main},
    {"many", 1, many_main},
};

int main(int count, char **arguments)
{
    for (size_t i = 0; count > 1 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, arguments[1]) == 0 && count == parts[i].arguments + 2)
            return parts[i].run(arguments + 2);
    die("usage", "expected PART ARGUMENT.., as listed at the head of bench.c");
}
