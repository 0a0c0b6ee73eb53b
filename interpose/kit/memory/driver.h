/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of a vendor's library that charging memory needs, in terms that every vendor shares.
 *
 * Owns: the table. An interposer defines facet_memory_driver.
 * Never: calls the library for plain memory in a vGPU that has room.
 */
#ifndef FACET_MEMORY_DRIVER_H
#define FACET_MEMORY_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/kit/ledger.h"
#include "limiter/tenant.h"

struct facet_memory_driver {
    /* NULL before the process has attached. */
    struct facet_ledger *(*ledger)(void);
    /* The vGPU of a device; NULL when there is none. */
    struct facet_tenant *(*tenant)(uint32_t device);
    /* The number of vGPUs: devices 0 and up. */
    uint32_t (*devices)(void);
    /* The memory that a pool holds on its device, and the allocated part of it. */
    uint64_t (*pool_held)(void *pool);
    uint64_t (*pool_used)(void *pool);
    /* Makes a pool release its unused memory. */
    void (*pool_trim)(void *pool);
    /*
     * The device of a pool that this process did not make; `fallback` when it is not found. NULL in interposers whose
     * hooks pass the right device themselves.
     */
    uint32_t (*pool_device)(void *pool, uint32_t fallback);
    /* The most likely step of a pool's growth, and the step of its release. */
    uint64_t pool_growth, pool_step;
    /* The memory that the library holds on a device for graphs, the used part of it, and releasing the unused part. */
    uint64_t (*graphs_held)(uint32_t device);
    uint64_t (*graphs_used)(uint32_t device);
    void (*graphs_trim)(uint32_t device);
};
extern const struct facet_memory_driver facet_memory_driver;

#endif
