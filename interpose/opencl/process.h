/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a tenant: it attaches at the first call that needs a vGPU, and again after fork.
 *
 * Owns: the tenant, the layer's locks across fork, and memory charges that remember which process made them.
 * Never: exits, works in a constructor, or prints more than the one line of a process that cannot enter its vGPU.
 *
 * Lock order: attach, push, account, map. The attach lock is held while the segment's files are mapped, the others for
 * a few instructions; none is held while OpenCL is called.
 */
#ifndef FACET_OPENCL_PROCESS_H
#define FACET_OPENCL_PROCESS_H

#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "limiter/given.h"
#include "limiter/tenant.h"

/* Reads the environment; false when this process is in no vGPU. An unusable folder fails at the attach. */
bool facet_cl_process_init(void);

struct facet_cl_process {
    _Atomic uint32_t state; /* private to process.c, except the fast path below */
    struct facet_tenant tenant;
};
extern struct facet_cl_process facet_cl_process;

#define FACET_CL_ATTACHED 1u

struct facet_tenant *facet_cl_tenant_attach(void);

/* The tenant, or NULL when the vGPU cannot be used; then the caller refuses (fail closed). */
static inline struct facet_tenant *facet_cl_tenant(void)
{
    if (__builtin_expect(atomic_load_explicit(&facet_cl_process.state, memory_order_acquire) == FACET_CL_ATTACHED, 1))
        return &facet_cl_process.tenant;
    return facet_cl_tenant_attach();
}

/*
 * A charge in one word: the bytes, and the generation of the process (fork() begins a new one) that reserved them. It
 * fits a callback's user_data, so releasing it needs no allocation and no lookup. A child that inherits an object does
 * not release the charge, because it is of an earlier generation.
 */
typedef uint64_t facet_cl_charge;

/* Reserves; CL_SUCCESS, `refusal` when over quota, or CL_OUT_OF_RESOURCES when there is no vGPU. */
cl_int facet_cl_charge_take(uint64_t bytes, cl_int refusal, facet_cl_charge *ret_charge);

/*
 * Takes a charge before the driver has checked the call. A refusal by the quota is not counted as denied, because the
 * driver may refuse the call for another reason. The caller probes with a small size, and passes the driver's result to
 * facet_cl_charge_refuse(). That returns the driver's error; if the driver succeeded, it counts the denial and returns
 * `refusal`.
 */
enum facet_cl_admission { FACET_CL_CHARGED, FACET_CL_OVER_QUOTA, FACET_CL_NO_VGPU };
enum facet_cl_admission facet_cl_charge_try(uint64_t bytes, facet_cl_charge *ret_charge);
cl_int facet_cl_charge_refuse(cl_int driver_result, cl_int refusal);
void facet_cl_charge_drop(facet_cl_charge charge);
uint64_t facet_cl_charge_bytes(facet_cl_charge charge);

/* Changes the charge to `bytes`; on refusal it is unchanged. */
cl_int facet_cl_charge_resize(facet_cl_charge *charge, uint64_t bytes, cl_int refusal);

/* Tells the program's user, once in a process, why it sees no device (interpose/kit/entry.h). */
void facet_cl_process_refuse(const struct facet_error *error);

/* push: the tail of the ring of commands, and the start of the tracker's thread (track.c). account: the reported device
 * time, and the process's stops (measure.c). map: the tables of objects (objects.c). */
extern pthread_mutex_t facet_cl_push_lock, facet_cl_account_lock, facet_cl_map_lock;

#endif
