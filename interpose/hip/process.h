/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a tenant: one vGPU or several, attached before the runtime's first call, anew after fork.
 *
 * Owns: the tenants, which of them a device is, and the ledger of what was charged.
 * Never: prints, exits, or lets a program run unlimited because attaching failed.
 *
 * FACET_VGPU_DIR names the segment's folder, or several with ':' between them, one for each GPU. Unset: the program is
 * in no vGPU, nothing is hooked at all, and every lookup answers with the runtime's own functions.
 */
#ifndef FACET_HIP_PROCESS_H
#define FACET_HIP_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/kit/ledger.h"
#include "limiter/tenant.h"
#include "vendor/hip/runtime.h"

#define FACET_HIP_TENANTS 16u

struct facet_hip_process {
    _Atomic uint32_t state; /* private to process.c, but for the fast path below */
    uint32_t count; /* of tenants; device N of the runtime is tenant N, for the runtime was told so (process.c) */
    struct facet_tenant tenants[FACET_HIP_TENANTS];
    struct facet_ledger *ledger;
};
extern struct facet_hip_process facet_hip_process;

#define FACET_HIP_ATTACHED 1u

/* Before anything that fork may find half done: the handlers of fork. */
void facet_hip_process_prepare(void);

/* Whether this process is meant to be in a vGPU. Reads the environment once. */
bool facet_hip_is_tenant(void);

/*
 * Before the runtime's first call: attaches, and makes the vGPUs' devices the only ones that the runtime shows, in
 * their order: ROCR_VISIBLE_DEVICES by uuid. What the program, or who started it, set there, and in HIP_VISIBLE_DEVICES
 * or CUDA_VISIBLE_DEVICES, chooses among the vGPUs: numbers count them, uuids are theirs; so it may choose less and
 * another order, never more. Those two are set again to name all that is left: a child of this process chooses the
 * same. False when a vGPU cannot be used: the program does not run without its limits.
 */
bool facet_hip_attach(void);

/* The same before the first call of each of the runtime's functions: what the program set there after it was attached,
 * as by what hipcc registers at its start, chooses nothing any more. */
bool facet_hip_attach_to_call(void);

struct facet_tenant *facet_hip_tenant_slow(uint32_t device);

/* The tenant that `device` is, or NULL when there is none: then the caller refuses. Attaches a child of fork() anew. */
static inline struct facet_tenant *facet_hip_tenant(uint32_t device)
{
    if (__builtin_expect(atomic_load_explicit(&facet_hip_process.state, memory_order_acquire) == FACET_HIP_ATTACHED &&
                             device < facet_hip_process.count,
                         1))
        return &facet_hip_process.tenants[device];
    return facet_hip_tenant_slow(device);
}

/* The calling thread's device; with one vGPU it is 0, and nobody is asked. */
uint32_t facet_hip_current_device(void);

/* The device of a stream; with one vGPU it is 0, and nobody is asked. The thread's own has begun before the runtime is
 * asked, which may do that; where it cannot, it is the answer, and whoever begins that is refused. */
uint32_t facet_hip_stream_device(hipStream_t stream);

/* Called by memory/fork.c's owner, process.c: fork. */
void facet_hip_memory_before_fork(void);
void facet_hip_memory_after_fork(void);
void facet_hip_memory_forked(void);

#endif
