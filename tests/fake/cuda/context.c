/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a device's primary context, contexts that programs create, and each thread's stack of current contexts.
 * Never: frees a context, or holds its lock while it calls memory or execution.
 */
#include <pthread.h>
#include <stdlib.h>

#include "fake.h"
#include "vendor/cuda/graphics.h"

#define STACK_MOST  64u /* current contexts of a thread */
#define API_VERSION 3020

struct primary {
    CUcontext context; /* the live primary context, or NULL */
    uint32_t retain_count;
    unsigned flags;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext all_contexts; /* live and dead ones; new contexts are added at the head, and none is removed */
static struct primary primaries[FAKE_DEVICES];
static _Thread_local CUcontext stack[STACK_MOST];
static _Thread_local uint32_t stack_depth;

static CUcontext top_context(void)
{
    return stack_depth ? stack[stack_depth - 1] : NULL;
}

/* Makes a context and reserves its memory; NULL when the device has no room for it. Under the lock. */
static CUcontext begin_context(CUdevice device, uint32_t physical, unsigned flags)
{
    static uint64_t ids;
    CUcontext context = calloc(1, sizeof *context);

    if (!context || !fake_device_reserve(physical, FAKE_CONTEXT, fake_state()->context_bytes)) {
        free(context);
        return NULL;
    }
    context->id = ++ids;
    context->device = device;
    context->physical = physical;
    context->flags = flags;
    context->next = all_contexts;
    all_contexts = context;
    return context;
}

/* Called without the lock, because memory and execution call the driver. */
static void end_context(CUcontext context)
{
    if (atomic_exchange(&context->dead, true))
        return;
    if (fake_execution_context_ended)
        fake_execution_context_ended(context);
    if (fake_memory_context_ended)
        fake_memory_context_ended(context);
    fake_device_release(context->physical, FAKE_CONTEXT, fake_state()->context_bytes);
}

static bool context_exists(CUcontext context)
{
    CUcontext at;

    pthread_mutex_lock(&lock);
    for (at = all_contexts; at && at != context; at = at->next)
        ;
    pthread_mutex_unlock(&lock);
    return at;
}

_Atomic bool fake_faulted;

void fake_fault(void)
{
    atomic_store(&fake_faulted, true);
}

static CUresult check_context(CUcontext context)
{
    if (atomic_load_explicit(&context->dead, memory_order_acquire))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return fake_device_check(context->physical);
}

CUresult fake_context_check(CUcontext context)
{
    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    return context && context_exists(context) ? check_context(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult fake_enter(CUcontext *ret_context)
{
    CUcontext context = top_context();
    CUresult result = CUDA_ERROR_INVALID_CONTEXT;

    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (context)
        result = check_context(context);
    if (result == CUDA_SUCCESS)
        *ret_context = context;
    return result;
}

void fake_visit_contexts(bool (*visit)(CUcontext context, void *argument), void *argument)
{
    pthread_mutex_lock(&lock);
    CUcontext at = all_contexts;
    pthread_mutex_unlock(&lock);
    for (; at; at = at->next)
        if (!atomic_load(&at->dead) && !visit(at, argument))
            return;
}

static CUresult push_context(CUcontext context)
{
    if (stack_depth == STACK_MOST)
        return CUDA_ERROR_UNKNOWN;
    stack[stack_depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult create_context_with_affinity(CUcontext *ret_context, const CUexecAffinityParam *affinities, int count,
                                             unsigned flags, CUdevice device)
{
    uint32_t physical, units = 0;
    CUresult result = ret_context ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        result = fake_device_check(physical);
    if (result == CUDA_SUCCESS)
        result = fake_affinity_read(affinities, count, physical, &units);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    CUcontext context = begin_context(device, physical, flags);
    pthread_mutex_unlock(&lock);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->affinity_units = units;
    *ret_context = context;
    return push_context(context);
}

static CUresult create_context(CUcontext *ret_context, unsigned flags, CUdevice device)
{
    return create_context_with_affinity(ret_context, NULL, 0, flags, device);
}

CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(context, flags, device);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int count, unsigned flags, CUdevice device)
{
    return create_context_with_affinity(context, affinities, count, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device)
{
    return create_context(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    CUresult result = fake_context_check(context);

    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_NOT_INITIALIZED)
        return result;
    if (context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (top_context() == context)
        stack_depth--;
    end_context(context);
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED ? result : CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context)
{
    return cuCtxDestroy_v2(context);
}

/* Adds a reference to the current context. */
CUresult cuCtxAttach(CUcontext *context, unsigned flags)
{
    CUcontext current;
    CUresult result = context && !flags ? fake_enter(&current) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS) {
        current->attached++;
        *context = current;
    }
    return result;
}

CUresult cuCtxDetach(CUcontext context)
{
    CUresult result = fake_context_check(context);

    if (result != CUDA_SUCCESS || !context->attached)
        return result == CUDA_SUCCESS ? cuCtxDestroy_v2(context) : result;
    context->attached--;
    return CUDA_SUCCESS;
}

/* Contexts for OpenGL and VDPAU are like any other here. */
CUresult cuGLCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(context, flags, device);
}

CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(context, flags, device);
}

CUresult cuVDPAUCtxCreate(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau, void *find)
{
    return create_context(context, flags, device);
}

CUresult cuVDPAUCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau, void *find)
{
    return create_context(context, flags, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    uint32_t physical;
    CUresult result = context ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        result = fake_device_check(physical);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    struct primary *primary = &primaries[physical];
    if (!primary->context)
        primary->context = begin_context(device, physical, primary->flags);
    if (primary->context) {
        primary->context->primary = true;
        primary->retain_count++;
        *context = primary->context;
    } else {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Drops one reference, or all; a context without references is ended. */
static CUresult release_primary(CUdevice device, bool all_references)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);
    CUcontext ended = NULL;

    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    struct primary *primary = &primaries[physical];
    if (!all_references && !primary->retain_count)
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (all_references || !--primary->retain_count) {
        ended = primary->context;
        primary->context = NULL;
        primary->retain_count = 0;
    }
    pthread_mutex_unlock(&lock);
    if (ended)
        end_context(ended);
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return release_primary(device, false);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return release_primary(device, false);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return release_primary(device, true);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return release_primary(device, true);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);

    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    primaries[physical].flags = flags;
    if (primaries[physical].context)
        primaries[physical].context->flags = flags;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* Before 11.0 an active context could not be changed. */
CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    unsigned current_flags;
    int active;
    CUresult result = cuDevicePrimaryCtxGetState(device, &current_flags, &active);

    if (result == CUDA_SUCCESS && active)
        result = CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
    return result == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags_v2(device, flags) : result;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    uint32_t physical;
    CUresult result = flags && active ? fake_physical(device, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    *flags = primaries[physical].flags;
    *active = primaries[physical].context != NULL;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CUresult result = fake_context_check(context);

    return result == CUDA_SUCCESS ? push_context(context) : result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!stack_depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack_depth--;
    if (context)
        *context = stack[stack_depth];
    return CUDA_SUCCESS;
}

/* Replaces the top of the stack; NULL pops it. */
CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult result = context ? fake_context_check(context) : fake_ready();

    if (result != CUDA_SUCCESS)
        return result;
    if (stack_depth)
        stack_depth--;
    return context ? push_context(context) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_ready() == CUDA_SUCCESS)
        *context = top_context();
    return fake_ready();
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CUcontext context;
    CUresult result = device ? fake_enter(&context) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *device = context->device;
    return result;
}

/* `context`: NULL means the current context. */
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
    if (!context)
        return cuCtxGetDevice(device);
    CUresult result = device ? fake_context_check(context) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *device = context->device;
    return result;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version)
{
    CUresult result = context ? fake_context_check(context) : fake_enter(&context);

    if (result == CUDA_SUCCESS && !version)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *version = API_VERSION;
    return result;
}
