/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a tenant: one vGPU or several, attached when the driver is initialised, anew after fork.
 *
 * Owns: the tenants, which of them a device is, and the ledger of what was charged.
 * Never: prints, exits, works in a constructor, or lets a program run unlimited because attaching failed.
 *
 * FACET_VGPU_DIR names the segment's folder, or several with ':' between them, one for each GPU. Unset: the program is
 * in no vGPU, nothing is hooked at all, and every lookup answers with the driver's own functions.
 */
#ifndef FACET_CUDA_PROCESS_H
#define FACET_CUDA_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/kit/ledger.h"
#include "limiter/tenant.h"
#include "vendor/cuda/driver.h"

#define FACET_CUDA_TENANTS 16u

struct facet_cuda_process {
    _Atomic uint32_t state; /* private to process.c, but for the fast path below */
    uint32_t count;         /* of tenants; device N of the driver is tenant N, for the driver was told so (process.c) */
    struct facet_tenant tenants[FACET_CUDA_TENANTS];
    struct facet_ledger *ledger;
};
extern struct facet_cuda_process facet_cuda_process;

#define FACET_CUDA_ATTACHED 1u

/* Before anything that fork may find half done: the handlers of fork. */
void facet_cuda_process_prepare(void);

/* Whether this process is meant to be in a vGPU. Reads the environment once. */
bool facet_cuda_is_tenant(void);

/*
 * Attaches, and makes the vGPUs' devices the only ones that the driver shows, in their order (CUDA_VISIBLE_DEVICES by
 * UUID, which the driver reads at its own cuInit). What the program, or who started it, set there chooses among the
 * vGPUs: numbers count them, UUIDs are theirs; so it may choose less and another order, never more.
 * CUDA_ERROR_SYSTEM_NOT_READY when a vGPU cannot be used: the program does not run without its limits.
 */
CUresult facet_cuda_attach(void);

/* The same before each of the driver's own cuInit: what the program set there after it was attached, by a call that
 * came too early or by a cuInit that failed, chooses nothing any more. */
CUresult facet_cuda_attach_to_init(void);

struct facet_tenant *facet_cuda_tenant_slow(uint32_t device);

/* The tenant that `device` is, or NULL when there is none: then the caller refuses. Attaches a child of fork() anew. */
static inline struct facet_tenant *facet_cuda_tenant(uint32_t device)
{
    if (__builtin_expect(atomic_load_explicit(&facet_cuda_process.state, memory_order_acquire) == FACET_CUDA_ATTACHED &&
                             device < facet_cuda_process.count,
                         1))
        return &facet_cuda_process.tenants[device];
    return facet_cuda_tenant_slow(device);
}

/* The device of the calling thread's current context; with one vGPU it is 0, and nobody is asked. 0, too, without a
 * context: then the driver says what is wrong. */
uint32_t facet_cuda_current_device(void);

/* The device of a stream's context (not of the current one); with one vGPU it is 0, and nobody is asked. */
uint32_t facet_cuda_stream_device(CUstream stream);

/* Called by parts with state of their own, from within process.c: fork. Each part's is named there. */
void facet_cuda_memory_before_fork(void);
void facet_cuda_memory_after_fork(void);
void facet_cuda_memory_forked(void);

#endif
