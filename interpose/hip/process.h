/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a tenant: of one vGPU or several, attached before the runtime's first call, and anew after a fork.
 *
 * Owns: the tenants, the mapping from devices to them, and the ledger of charges.
 * Never: prints, exits, or lets a program run unlimited because attaching failed.
 *
 * FACET_VGPU_DIR names the segment's folder, or several with ':' between them, one for each GPU. If it is unset, the
 * program is in no vGPU, nothing is hooked, and every lookup answers with the runtime's own functions.
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
    _Atomic uint32_t state; /* private to process.c, except the fast path below */
    uint32_t count; /* number of tenants; device N of the runtime is tenant N, by ROCR_VISIBLE_DEVICES (process.c) */
    struct facet_tenant tenants[FACET_HIP_TENANTS];
    struct facet_ledger *ledger;
};
extern struct facet_hip_process facet_hip_process;

#define FACET_HIP_ATTACHED 1u

/* Installs the fork handlers; called before any state is changed that a fork must not find half changed. */
void facet_hip_process_prepare(void);

/* Whether this process is meant to be in a vGPU. Reads the environment once. */
bool facet_hip_is_tenant(void);

/*
 * Called before the runtime's first call. Attaches, and makes the vGPUs' devices the only ones that the runtime shows,
 * in their order, by setting ROCR_VISIBLE_DEVICES to their uuids. The values that this variable, HIP_VISIBLE_DEVICES
 * and CUDA_VISIBLE_DEVICES had before choose among the vGPUs, by number or by uuid: they can select fewer, or another
 * order, never more. HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are then set to name all selected vGPUs, so that a
 * child of this process selects the same. False when a vGPU cannot be used: the program does not run without its
 * limits.
 */
bool facet_hip_attach(void);

/*
 * Called before the first call of each of the runtime's functions. Attaches like facet_hip_attach(), and sets the
 * variables again: the program may have changed them since the attach, which happens before main() if hipcc's output
 * registers code. Such a change selects nothing.
 */
bool facet_hip_attach_and_refresh_devices(void);

struct facet_tenant *facet_hip_tenant_slow(uint32_t device);

/* The tenant of `device`, or NULL when there is none: the caller then refuses. Attaches anew in a child of fork(). */
static inline struct facet_tenant *facet_hip_tenant(uint32_t device)
{
    if (__builtin_expect(atomic_load_explicit(&facet_hip_process.state, memory_order_acquire) == FACET_HIP_ATTACHED &&
                             device < facet_hip_process.count,
                         1))
        return &facet_hip_process.tenants[device];
    return facet_hip_tenant_slow(device);
}

/* The calling thread's device. With one vGPU it is 0 without a call to the runtime. */
uint32_t facet_hip_current_device(void);

/*
 * The device of a stream. With one vGPU it is 0 without a call to the runtime. Otherwise the thread's own device is
 * initialized first, because a query might do so. If that fails, the thread's device is returned, and the caller's own
 * attempt to initialize it fails too.
 */
uint32_t facet_hip_stream_device(hipStream_t stream);

/* The fork handlers of memory (memory/fork.c), called from process.c. */
void facet_hip_memory_before_fork(void);
void facet_hip_memory_after_fork(void);
void facet_hip_memory_forked(void);

#endif
