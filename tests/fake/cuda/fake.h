/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's inside: the interface between its parts and its core.
 *
 * Owns: contexts, the devices that are visible, and whether the driver may be called at all.
 * Never: is seen by users of the driver; frees a context, so that a handle of a dead one is still recognised.
 *
 * The core has init, versions, errors, lookup, devices, and contexts except cuCtxSynchronize. Memory and execution are
 * parts of their own, which define the symbols that they imitate.
 */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H

#include "identity.h"
#include "state.h"
#include "vendor/cuda/driver.h"
#include "vendor/cuda/green.h"

struct CUctx_st {
    struct CUctx_st *next;
    uint64_t id;       /* never given again */
    CUdevice device;   /* as the program sees it */
    uint32_t physical; /* index of the device in fake_state()->devices */
    unsigned flags;
    bool primary;
    uint32_t attached;       /* by cuCtxAttach, besides the call that made it */
    uint32_t affinity_units; /* multiprocessors that it was made for; 0: all */
    struct fake_lane lane;   /* of those */
    _Atomic bool dead;
    _Atomic(void *) memory; /* the parts' own; NULL at first */
    _Atomic(void *) execution;
};

/* CUDA_SUCCESS when cuInit was called in this process. A child of a process that called it can never use the driver. */
CUresult fake_ready(void);

/* The device of the machine that the program sees as `device`; CUDA_ERROR_INVALID_DEVICE: there is no such device. */
CUresult fake_physical(CUdevice device, uint32_t *ret_physical);

/* The part of a device that the program sees, and nothing else then: of several the driver opens the first. NULL: whole
 * devices. Absent in fakes of other vendors' libraries. */
__attribute__((weak)) const struct fake_part *fake_visible_part(void);

/* How many devices the program sees. */
uint32_t fake_visible(void);

/* The calling thread's current context, alive, on a device that is not lost. Most functions begin with it. */
CUresult fake_enter(CUcontext *ret_context);

/* A context that a program names: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, or a lost device. */
CUresult fake_context_check(CUcontext context);

/* Each live context, until `visit` says false. With no lock held; a context that begins meanwhile may be missed. */
void fake_visit_contexts(bool (*visit)(CUcontext context, void *argument), void *argument);

/* Work on a device touched memory that was not mapped: everything answers CUDA_ERROR_ILLEGAL_ADDRESS from now on. */
extern _Atomic bool fake_faulted;
void fake_fault(void);

/* The answer of a lost device, or of one with such a fault. */
CUresult fake_device_check(uint32_t physical);

/* Called when a context has just died, before its cost is given back; an absent part is not called. */
__attribute__((weak)) void fake_execution_context_ended(CUcontext context);
__attribute__((weak)) void fake_memory_context_ended(CUcontext context);

/* Of memory: a stream, an event or a context was waited for, at which pools free memory above their threshold. */
void fake_pools_synchronized(void);

/* green.c: the multiprocessors that a context is made for; *ret_units 0: all. */
CUresult fake_affinity_read(const CUexecAffinityParam *affinities, int count, uint32_t physical, uint32_t *ret_units);

#endif
