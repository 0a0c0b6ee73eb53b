/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an instance that GPU providers share: devices, their contexts, their executor, and the driver.
 *
 * Owns: the struct that such a provider's instance begins with.
 * Never: knows a provider's other members of an instance.
 *
 * The provider fills `driver`, `infos`, `devices` and `count` at open; they never change afterwards and are read
 * without a lock. context.h describes the locks of the other members.
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
    struct gpu_device devices[GPU_MOST]; /* same indices as infos */
    uint32_t count;

    pthread_mutex_t context_lock;
    pthread_cond_t user_left; /* a context lost a user */
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

/*
 * Ends all contexts. No other call is in progress. False: the driver does not finish the work of a context. That work
 * still uses the instance, so nothing may be freed.
 */
bool gpu_machine_close(struct gpu_machine *machine);

/* The first check of every operation on a device: the device must exist, and promise `capability`. */
enum facet_status gpu_device_check(const struct gpu_machine *machine, uint32_t device, uint64_t capability,
                                   struct facet_error *error);
/* The check for an operation on all devices: one of them must promise `capability`. Without devices it passes. */
enum facet_status gpu_devices_check(const struct gpu_machine *machine, uint64_t capability, struct facet_error *error);

#endif
