/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a device before anything is allocated on it, and the end of its memory when it is reset.
 *
 * Owns: the set of devices that have begun, and the charge of each for that.
 * Never: measures while another thread begins or ends a device: the lock is held during the runtime's calls.
 *
 * A runtime begins a device when it is first used: queues, code, memory to which kernels spill registers. The memory
 * that this takes is measured (measure.h). If the quota is smaller, the first call fails: hipErrorOutOfMemory.
 */
#ifndef FACET_HIP_BEGIN_H
#define FACET_HIP_BEGIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "process.h"

extern _Atomic bool facet_hip_initialized[FACET_HIP_TENANTS];

hipError_t facet_hip_begin_slow(uint32_t device);

/* Begins a device and charges it, once. The runtime refuses an invalid device itself. */
static inline hipError_t facet_hip_begin(uint32_t device)
{
    if (__builtin_expect(device >= FACET_HIP_TENANTS ||
                             atomic_load_explicit(&facet_hip_initialized[device], memory_order_acquire),
                         1))
        return hipSuccess;
    return facet_hip_begin_slow(device);
}

/*
 * Holds all devices for this thread, so that none begins or ends meanwhile. False when this thread holds them already:
 * the runtime made this call within another.
 */
bool facet_hip_devices_hold(void);
void facet_hip_devices_let_go(void);

/*
 * With the devices held: adds bytes to a device's charge, at once if it has begun, else when it begins; the second
 * removes them. False when the quota has too little left: the caller handles that.
 */
bool facet_hip_begin_with(uint32_t device, uint64_t bytes);
void facet_hip_begin_without(uint32_t device, uint64_t bytes);

void facet_hip_begin_before_fork(void);
void facet_hip_begin_after_fork(void);
void facet_hip_begin_forked(void);

#endif
