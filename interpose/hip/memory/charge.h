/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging HIP's memory, over interpose/kit/memory.
 *
 * Owns: the sizes that are charged, the owner of memory that ends with a device, and calls within calls.
 * Never: charges one allocation twice: older runtimes call their own exported functions, and so our hooks.
 *
 * Charges by kind:
 *   - plain, managed: the requested size, in steps of 4 KiB, as the runtime allocates it. Managed memory is charged in
 *     full on each GPU that the program sees, wherever its pages are (interpose/kit/memory/managed.h). Unused parts of
 *     the runtime's blocks for small allocations are not charged.
 *   - pitched: like plain memory of the pitch that the runtime chose times the height.
 *   - arrays: rows in steps of 512 bytes, times rows and layers and levels, in steps of 64 KiB.
 *   - pools: the memory that a pool holds, in use or not (interpose/kit/memory/pool.h).
 *   - virtual: the memory of hipMemCreate, until its last handle and mapping are gone (.../virtual.h).
 *   - devices: the memory that initializing the device took (interpose/hip/initialize.h), and managed variables
 *     (registered.c).
 *   - code: the memory that loading it took (code.h).
 *   - graphs: the memory that the runtime holds for them (graph.h).
 *
 * Not charged: memory of the host, including signals; memory that another process shared, because its owner was
 * charged.
 */
#ifndef FACET_HIP_CHARGE_H
#define FACET_HIP_CHARGE_H

#include "interpose/hip/hooks.h"
#include "interpose/hip/process.h"
#include "interpose/kit/memory/charge.h"

#define FACET_HIP_STEP UINT64_C(4096)

/* A refusal as HIP's result code. */
static inline hipError_t facet_hip_refusal(enum facet_memory_refusal refusal)
{
    return refusal == FACET_MEMORY_CHARGED      ? hipSuccess
           : refusal == FACET_MEMORY_OVER_QUOTA ? hipErrorOutOfMemory
                                                : hipErrorNotInitialized;
}

/* The owner of memory that is freed when its device is reset. */
static inline uint64_t facet_hip_owner(uint32_t device)
{
    return device + UINT64_C(1);
}

/*
 * Initializes the device and takes the charge, before the runtime allocates `bytes` on it. After a success,
 * facet_hip_charge_settle() must follow in the same thread, whatever the runtime's result. If `refused` is set in
 * *ret_charge, the quota refused, and facet_hip_probe_begin() follows.
 */
hipError_t facet_hip_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);

/*
 * Called for an allocation that the quota refuses. The runtime might refuse it for another reason: a pointer is NULL, a
 * flag is wrong, or this is a child of fork(). `_begin` returns a size that exceeds the device's memory. The caller
 * then calls the runtime with the same arguments and that size, and frees the result if there is one. `_end` returns
 * the result for the program. That is the runtime's error, unless it is success or out of memory: then the quota
 * refuses, and the denial is counted.
 */
size_t facet_hip_probe_begin(uint32_t device, uint64_t bytes);
hipError_t facet_hip_probe_end(const struct facet_memory_charge *charge, hipError_t runtime_result);

/*
 * Called after the runtime: records the allocation under `handle`, or drops the charge. If it cannot be recorded,
 * `free_it` frees it. Returns the result for the program.
 */
hipError_t facet_hip_charge_settle(const struct facet_memory_charge *charge, hipError_t result,
                                   enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t, void *));

/*
 * From `_pause` to `_resume`, allocations that the runtime makes in this thread through its own exported functions are
 * not charged: the caller charges them in another way.
 */
void facet_hip_charge_pause(void);
void facet_hip_charge_resume(void);

#endif
