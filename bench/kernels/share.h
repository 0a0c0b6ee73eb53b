/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cores that two tenants compete for in share.c.
 *
 * Owns: the kernel `burn` loaded for each tenant, its queues, and memory in which its progress is counted.
 * Never: measures. `missing` says why a runtime is missing.
 */
#ifndef BENCH_SHARE_H
#define BENCH_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SHARE_QUEUES 4u /* per tenant: while one queue is refilled, the tenant has work in the others */

struct share_machine {
    unsigned units; /* cores */
    char missing[512];
    void *state;
    /* Runs `groups` work-groups of `steps` in one of a tenant's queues, and waits for them. *ret_waited_ns: how long it
     * took until the first of them began. Each queue is used by one thread at a time. */
    bool (*run)(struct share_machine *machine, unsigned tenant, unsigned queue, uint32_t groups, uint32_t steps,
                uint64_t *ret_waited_ns);
    /* How many work-groups of the tenant are done, also of running kernels; wraps around. */
    uint32_t (*progress)(struct share_machine *machine, unsigned tenant);
    /* The tenant's charge, as the runtime measures it. NULL: it does not report one. */
    uint64_t (*charged_ns)(struct share_machine *machine, unsigned tenant);
    /* Sets the guarantees of the tenants, in milli. */
    bool (*share)(struct share_machine *machine, uint32_t first_milli, uint32_t second_milli);
    /* Gives the first tenant a high priority, and the second a low one. */
    bool (*urgent)(struct share_machine *machine);
};

/* The source of `burn`. */
#define SHARE_SOURCE                                                                                                   \
    "__kernel void burn(__global uint *progress, __global uint *sink, uint steps)"                                     \
    "{"                                                                                                                \
    "    uint state = get_group_id(0);"                                                                                \
    "    for (uint i = 0; i < steps; i++) state = state * 1664525u + 1013904223u;"                                     \
    "    if (state == 1u) sink[0] = state;"                                                                            \
    "    atomic_inc(progress);"                                                                                        \
    "}"

bool share_open_facet(struct share_machine *machine, const char *provider);
bool share_open_pocl(struct share_machine *machine);

#endif
