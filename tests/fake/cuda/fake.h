/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's internal interface, between its core and its parts.
 *
 * Owns: contexts, visible devices, and the state of initialization.
 * Never: is included by programs that use the driver; frees a context, so that a dead context's handle is recognised.
 *
 * The core has init, versions, errors, lookup, devices, and contexts except cuCtxSynchronize. Memory (memory_*.c) and
 * execution (execution_*.c) are the parts, which define the symbols that they imitate.
 */
#ifndef FAKE_CUDA_FAKE_H
#define FAKE_CUDA_FAKE_H

#include "identity.h"
#include "state.h"
#include "vendor/cuda/driver.h"
#include "vendor/cuda/green.h"

struct CUctx_st {
    struct CUctx_st *next;
    uint64_t id;       /* no later context has the same */
    CUdevice device;   /* as the program sees it */
    uint32_t physical; /* index of the device in fake_state()->devices */
    unsigned flags;
    bool primary;
    uint32_t attached;       /* references by cuCtxAttach, besides that of the call that made the context */
    uint32_t affinity_units; /* multiprocessors that the context was made for; 0: all */
    struct fake_lane lane;   /* of these multiprocessors */
    _Atomic bool dead;
    _Atomic(void *) memory; /* the parts' data about the context; NULL at first */
    _Atomic(void *) execution;
};

/* CUDA_SUCCESS when cuInit was called in this process. A child of a process that called it can never use the driver. */
CUresult fake_ready(void);

/* The device of the machine that the program sees as `device`; CUDA_ERROR_INVALID_DEVICE: there is no such device. */
CUresult fake_physical(CUdevice device, uint32_t *ret_physical);

/*
 * The MIG device that the program sees, and then no other device: of several, the driver opens the first. NULL: the
 * program sees whole GPUs. Absent in fakes of other vendors' libraries.
 */
__attribute__((weak)) const struct fake_part *fake_visible_part(void);

/* How many devices the program sees. */
uint32_t fake_visible(void);

/* The calling thread's current context; an error if it is dead, or its device lost. Most functions begin with this. */
CUresult fake_enter(CUcontext *ret_context);

/* Checks a program's handle: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, or a lost device's error. */
CUresult fake_context_check(CUcontext context);

/*
 * Visits each live context, until `visit` returns false. No lock is held; a context that is made meanwhile may be
 * missed.
 */
void fake_visit_contexts(bool (*visit)(CUcontext context, void *argument), void *argument);

/* Called when work touched memory that was not mapped: from then on calls return CUDA_ERROR_ILLEGAL_ADDRESS. */
extern _Atomic bool fake_faulted;
void fake_fault(void);

/* The error of a lost device, or of a fault (fake_fault()); else CUDA_SUCCESS. */
CUresult fake_device_check(uint32_t physical);

/* Called when a context has ended, before its own memory is released; an absent part is not called. */
__attribute__((weak)) void fake_execution_context_ended(CUcontext context);
__attribute__((weak)) void fake_memory_context_ended(CUcontext context);

/*
 * memory_pool.c: called when a stream, event or context was waited for; pools then free memory above their
 * threshold.
 */
void fake_pools_synchronized(void);

/* green.c: the multiprocessors that a context is made for; *ret_units 0: all. */
CUresult fake_affinity_read(const CUexecAffinityParam *affinities, int count, uint32_t physical, uint32_t *ret_units);

#endif
