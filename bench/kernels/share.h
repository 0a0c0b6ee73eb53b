/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cores that two tenants want at the same time, as share.c uses them.
 *
 * Owns: the kernel `burn` loaded for each tenant, its queues, and memory in which its progress is counted.
 * Never: measures. A missing runtime has its reason in `missing`.
 */
#ifndef BENCH_SHARE_H
#define BENCH_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SHARE_QUEUES 4u /* of a tenant: while one of them is filled again, it has work in the others */

struct share_machine {
    unsigned units; /* cores */
    char missing[512];
    void *state;
    /* Runs `groups` work-groups of `steps` in one of a tenant's queues and waits. `ret_waited_ns`: until its first one
     * began. Each queue by one thread at a time. */
    bool (*run)(struct share_machine *machine, unsigned tenant, unsigned queue, uint32_t groups, uint32_t steps,
                uint64_t *ret_waited_ns);
    /* Work-groups of the tenant that are done, also of what is running; wraps around. */
    uint32_t (*progress)(struct share_machine *machine, unsigned tenant);
    /* The tenant's charge, as the runtime measures it. NULL: it does not report one. */
    uint64_t (*charged_ns)(struct share_machine *machine, unsigned tenant);
    /* The guarantees of the tenants, of 1000. */
    bool (*share)(struct share_machine *machine, uint32_t first_milli, uint32_t second_milli);
    /* The first tenant's work goes first. */
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
