/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device costs this process before anything is allocated, and what goes when the device is reset.
 *
 * Owns: which devices have begun, and what each was charged for it.
 * Never: measures while another thread begins or ends one: the lock is held over the runtime's calls.
 *
 * A runtime begins a device when it is first used: queues, code, room for what kernels spill. What that takes is
 * measured (measure.h). A quota that is smaller is told so by the first call: hipErrorOutOfMemory.
 */
#ifndef FACET_HIP_BEGIN_H
#define FACET_HIP_BEGIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "process.h"

extern _Atomic bool facet_hip_begun[FACET_HIP_TENANTS];

hipError_t facet_hip_begin_slow(uint32_t device);

/* Begins a device and charges it, once. A device that is none is for the runtime to judge. */
static inline hipError_t facet_hip_begin(uint32_t device)
{
    if (__builtin_expect(
            device >= FACET_HIP_TENANTS || atomic_load_explicit(&facet_hip_begun[device], memory_order_acquire), 1))
        return hipSuccess;
    return facet_hip_begin_slow(device);
}

/*
 * Holds all devices for this thread: none begins or ends meanwhile. False when it does so already: a call of the
 * runtime's within another.
 */
bool facet_hip_devices_hold(void);
void facet_hip_devices_let_go(void);

/*
 * Held: so much besides is charged with a device when it begins, and now when it has; or no more. False when the quota
 * does not reach for it: then the caller sees to it.
 */
bool facet_hip_begin_with(uint32_t device, uint64_t bytes);
void facet_hip_begin_without(uint32_t device, uint64_t bytes);

void facet_hip_begin_before_fork(void);
void facet_hip_begin_after_fork(void);
void facet_hip_begin_forked(void);

#endif
