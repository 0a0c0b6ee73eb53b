/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a tenant: of one vGPU or several, attached when the driver is initialised, and anew after a fork.
 *
 * Owns: the tenants, the mapping from devices to them, and the ledger of charges.
 * Never: prints, exits, works in a constructor, or lets a program run unlimited because attaching failed.
 *
 * FACET_VGPU_DIR names the segment's folder, or several with ':' between them, one for each GPU. If it is unset, the
 * program is in no vGPU, nothing is hooked, and every lookup answers with the driver's own functions.
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
    _Atomic uint32_t state; /* private to process.c, except the fast path below */
    uint32_t count; /* number of tenants; device N of the driver is tenant N, by CUDA_VISIBLE_DEVICES (process.c) */
    struct facet_tenant tenants[FACET_CUDA_TENANTS];
    struct facet_ledger *ledger;
};
extern struct facet_cuda_process facet_cuda_process;

#define FACET_CUDA_ATTACHED 1u

/* Installs the fork handlers; called before any state is changed that a fork must not find half changed. */
void facet_cuda_process_prepare(void);

/* Whether this process is meant to be in a vGPU. Reads the environment once. */
bool facet_cuda_is_tenant(void);

/*
 * Attaches, and makes the vGPUs' devices the only ones that the driver shows, in their order. For that it sets
 * CUDA_VISIBLE_DEVICES to their UUIDs, which the driver reads in its own cuInit. The value that the variable had before
 * chooses among the vGPUs, by number or by UUID: it can select fewer, or another order, never more.
 * CUDA_ERROR_SYSTEM_NOT_READY when a vGPU cannot be used: the program does not run without its limits.
 */
CUresult facet_cuda_attach(void);

/*
 * Called before each call of the driver's own cuInit. Attaches like facet_cuda_attach(), and sets CUDA_VISIBLE_DEVICES
 * again: the program may have changed it since the attach. Such a change selects nothing.
 */
CUresult facet_cuda_attach_to_init(void);

struct facet_tenant *facet_cuda_tenant_slow(uint32_t device);

/* The tenant of `device`, or NULL when there is none: the caller then refuses. Attaches anew in a child of fork(). */
static inline struct facet_tenant *facet_cuda_tenant(uint32_t device)
{
    if (__builtin_expect(atomic_load_explicit(&facet_cuda_process.state, memory_order_acquire) == FACET_CUDA_ATTACHED &&
                             device < facet_cuda_process.count,
                         1))
        return &facet_cuda_process.tenants[device];
    return facet_cuda_tenant_slow(device);
}

/*
 * The device of the calling thread's current context. With one vGPU it is 0 without a call to the driver. Without a
 * context it is 0 too: the driver then reports the error.
 */
uint32_t facet_cuda_current_device(void);

/*
 * The device of a stream's context, which may not be the current one. With one vGPU it is 0 without a call to the
 * driver.
 */
uint32_t facet_cuda_stream_device(CUstream stream);

/* The fork handlers of parts with state of their own, called from process.c. */
void facet_cuda_memory_before_fork(void);
void facet_cuda_memory_after_fork(void);
void facet_cuda_memory_forked(void);

#endif
