/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two GPU providers share of an instance: devices, their contexts, their executor, and the driver beneath.
 *
 * Owns: the struct that such a provider's instance begins with.
 * Never: knows what else an instance has.
 *
 * The provider fills `driver`, `infos`, `devices` and `count` at open; they never change afterwards and are read
 * without a lock. context.h says what guards the rest.
 */
#ifndef FACET_KIT_GPU_MACHINE_H
#define FACET_KIT_GPU_MACHINE_H

#include <pthread.h>
#include <stdint.h>

#include <facet/provider.h>

#include "context.h"
#include "driver.h"
#include "executor.h"

#define GPU_MOST 64u

struct gpu_machine {
    const struct gpu_driver *driver;
    struct facet_device_info infos[GPU_MOST];
    struct gpu_device devices[GPU_MOST]; /* as infos */
    uint32_t count;

    pthread_mutex_t context_lock;
    pthread_cond_t left; /* a context lost a user */
    struct gpu_context *contexts;
    void *pages; /* a tree by number */
    uint64_t last_number;
    struct gpu_executor executor;
};

/* An instance begins with its machine; its provider asserts that. */
static inline struct gpu_machine *gpu_machine_of(struct facet_provider_instance *instance)
{
    return (struct gpu_machine *)instance;
}

void gpu_machine_init(struct gpu_machine *machine);

/* Ends all contexts. False when the driver does not come to an end with one: it goes on using what the instance has, so
 * nothing may be freed. No other call is under way. */
bool gpu_machine_close(struct gpu_machine *machine);

/* What every operation on a device does first: is there such a device, and does it promise `capability`? */
enum facet_status gpu_device_check(const struct gpu_machine *machine, uint32_t device, uint64_t capability,
                                   struct facet_error *error);
/* The same for an operation on all: does any device promise it? Where there is none, there is nothing to refuse. */
enum facet_status gpu_devices_check(const struct gpu_machine *machine, uint64_t capability, struct facet_error *error);

#endif
