/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a device before anything is allocated on it, and the end of its memory when it is reset.
 *
 * Owns: the set of initialized devices, and the charge of each for its initialization.
 * Never: measures while another thread initializes or resets a device: the lock is held during the runtime's calls.
 *
 * A runtime initializes a device when it is first used: queues, code, memory to which kernels spill registers. The
 * memory that this takes is measured (measure.h). If it exceeds the quota, the first call fails with
 * hipErrorOutOfMemory.
 */
#ifndef FACET_HIP_INITIALIZE_H
#define FACET_HIP_INITIALIZE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "process.h"

extern _Atomic bool facet_hip_initialized[FACET_HIP_TENANTS];

hipError_t facet_hip_initialize_device_slow(uint32_t device);

/* Initializes a device and charges it, once. The runtime refuses an invalid device itself. */
static inline hipError_t facet_hip_initialize_device(uint32_t device)
{
    if (__builtin_expect(device >= FACET_HIP_TENANTS ||
                             atomic_load_explicit(&facet_hip_initialized[device], memory_order_acquire),
                         1))
        return hipSuccess;
    return facet_hip_initialize_device_slow(device);
}

/*
 * Locks all devices for this thread, so that none is initialized or reset meanwhile. False when this thread has the
 * lock already: the runtime made this call within another call.
 */
bool facet_hip_devices_lock(void);
void facet_hip_devices_unlock(void);

/*
 * With the devices locked: `_add` adds bytes to a device's charge, at once if the device is initialized, else when it
 * will be. It returns false when the quota has too little left. `_remove` subtracts such bytes.
 */
bool facet_hip_device_charge_add(uint32_t device, uint64_t bytes);
void facet_hip_device_charge_remove(uint32_t device, uint64_t bytes);

void facet_hip_devices_before_fork(void);
void facet_hip_devices_after_fork(void);
void facet_hip_devices_forked(void);

#endif
