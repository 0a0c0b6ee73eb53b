/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What charging memory asks of a vendor's library, in words that every vendor has.
 *
 * Owns: the table. An interposer defines facet_memory_driver.
 * Never: is asked by who allocates plain memory of a vGPU that has room.
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
    /* The vGPU that a device is; NULL when there is none. */
    struct facet_tenant *(*tenant)(uint32_t device);
    /* How many vGPUs there are: devices 0 and up. */
    uint32_t (*devices)(void);
    /* What a pool holds of its device, and what of it is given out. */
    uint64_t (*pool_held)(void *pool);
    uint64_t (*pool_used)(void *pool);
    /* Lets a pool give back what nobody uses. */
    void (*pool_trim)(void *pool);
    /* The device of a pool that this process did not make; `otherwise` when it is not found. NULL: the asker knows. */
    uint32_t (*pool_device)(void *pool, uint32_t otherwise);
    /* The steps in which pools grow most likely, and in which they are given back at the end. */
    uint64_t pool_growth, pool_step;
    /* What the library holds of a device for graphs, what of it is in use; lets it give back what is not. */
    uint64_t (*graphs_held)(uint32_t device);
    uint64_t (*graphs_used)(uint32_t device);
    void (*graphs_trim)(uint32_t device);
};
extern const struct facet_memory_driver facet_memory_driver;

#endif
