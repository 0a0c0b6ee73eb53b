/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging HIP's memory, over interpose/kit/memory.
 *
 * Owns: the sizes that are charged, the owner of what dies with a device, and calls within calls.
 * Never: charges one allocation twice: older runtimes call their own exported functions, and so meet ours.
 *
 * What is charged, by kind:
 *   plain, managed  what was asked, in steps of 4 KiB, as the runtime takes it. Managed memory in full on each GPU that
 *                   the program sees, wherever its pages are (interpose/kit/memory/managed.h). What the runtime's
 * blocks for small allocations hold beyond what is given out of them is not charged. pitched         the same, of the
 * pitch that the runtime chose times the height arrays          rows in steps of 512 bytes, times rows and layers and
 * levels, in steps of 64 KiB pools           what a pool holds of the device, whoever uses it
 * (interpose/kit/memory/pool.h) virtual         what hipMemCreate made, until its last handle and mapping have gone
 * (.../virtual.h) devices         what beginning one took of it (interpose/hip/begin.h), and managed variables
 * (registered.c) code            what its loading took (code.h) graphs          what the runtime holds for them of the
 * device (graph.h) Not charged: memory of the host, signals among it; what another process shared, who has paid for it.
 */
#ifndef FACET_HIP_CHARGE_H
#define FACET_HIP_CHARGE_H

#include "interpose/hip/hooks.h"
#include "interpose/hip/process.h"
#include "interpose/kit/memory/charge.h"

#define FACET_HIP_STEP UINT64_C(4096)

/* A refusal in HIP's words. */
static inline hipError_t facet_hip_refusal(enum facet_memory_refusal refusal)
{
    return refusal == FACET_MEMORY_TAKEN ? hipSuccess
           : refusal == FACET_MEMORY_OUT ? hipErrorOutOfMemory
                                         : hipErrorNotInitialized;
}

/* What dies with a device belongs to it. */
static inline uint64_t facet_hip_owner(uint32_t device)
{
    return device + UINT64_C(1);
}

/*
 * Before the runtime allocates `bytes` on a device: begins it, and charges. A success is followed by
 * facet_hip_charge_settle(), in the same thread, whatever the runtime says. Where `refused` is set in *ret_charge it
 * was the quota, and facet_hip_judge_begin() follows.
 */
hipError_t facet_hip_charge_take(uint32_t device, uint64_t bytes, struct facet_memory_charge *ret_charge);

/*
 * What the quota has no room for the runtime may refuse anyway, whatever is asked: a pointer is NULL, a flag is wrong,
 * or this is a child of fork(). Between the two it is asked for the same and as many bytes as are returned, more than
 * the device has; what it makes all the same is freed again. The end returns what the program is told: what the runtime
 * says but where it lacks nothing, or memory; then the quota refuses, and that counts as denied.
 */
size_t facet_hip_judge_begin(uint32_t device, uint64_t bytes);
hipError_t facet_hip_judge_end(const struct facet_memory_charge *charge, hipError_t judged);

/*
 * Behind the runtime's call with its result: remembers what was allocated under `handle`, or gives the charge back;
 * what cannot be remembered is freed by `free_it`. Returns what the program is told.
 */
hipError_t facet_hip_charge_settle(const struct facet_memory_charge *charge, hipError_t result,
                                   enum facet_memory_kind kind, uint64_t handle, int (*free_it)(uint64_t, void *));

/* What the runtime allocates in this thread by its own exported functions meanwhile is charged in another way. */
void facet_hip_charge_pause(void);
void facet_hip_charge_resume(void);

#endif
