/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that the driver has open.
 *
 * Owns: the device's session, the context that its pages are charged to, and the amounts promised to its vGPUs. Never:
 * closes while a vGPU is on it.
 */
#ifndef FACET_VGPU_DEVICE_H
#define FACET_VGPU_DEVICE_H

#include <stdatomic.h>

#include <facet/monitor.h>
#include <facet/session.h>

#include "monitor/history.h"

struct facet_driver;

struct facet_vgpu_device {
    struct facet_driver *driver;
    uint32_t index;          /* in the driver's list of devices */
    uint32_t number;         /* the provider's number for the device */
    char id[64], target[64]; /* target: for which the kernel compiler makes code; "": the device reports none */
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct facet_device_info info;
    uint64_t owner;              /* the context that pages are charged to; 0: none */
    struct facet_memory *memory; /* NULL: memory virtualization is off */
    uint64_t memory_bytes;       /* the most that vGPUs can have together */
    uint64_t swap_bytes;         /* swap memory, in addition to memory_bytes */
    atomic_bool lost;

    /* Under the driver's list lock. */
    uint32_t vgpus, promised_milli;
    uint64_t promised_bytes;

    struct facet_history *history;           /* written by the driver's thread */
    struct facet_process_metrics *processes; /* read and used by the driver's thread; NULL: not read in this interval */
    uint32_t process_count;

    /* Under the driver's monitor lock. */
    uint32_t valid, utilization_milli;
    uint64_t busy_ns;
};

/*
 * How much device time a device has per unit of time (facet/compute.h): a CPU one for each unit, any other device one.
 */
static inline uint32_t facet_vgpu_device_parallel(const struct facet_vgpu_device *device)
{
    return device->info.kind == FACET_DEVICE_CPU && device->info.compute_units > 0 ? device->info.compute_units : 1;
}

enum facet_status facet_vgpu_devices_open(struct facet_driver *driver, struct facet_error *error);
void facet_vgpu_devices_close(struct facet_driver *driver);
enum facet_status facet_vgpu_device_check(struct facet_vgpu_device *device, struct facet_error *error);

/* Frees memory of the device's vGPUs that waited for work to end. True: some memory became free. (remains.c) */
bool facet_vgpu_settle_device(const struct facet_vgpu_device *device);

#endif
