/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: what context.h says. Never: measures while another thread makes or ends a context: the lock is held over the
 * driver's call.
 */
#include "context.h"

#include <pthread.h>
#include <stdlib.h>

#include "charge.h"
#include "interpose/kit/execution/stream.h"
#include "pool.h"

struct context {
    struct context *next;
    CUcontext handle;
    bool primary;
    struct facet_cuda_charge charge;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts;

static struct context **place_of(CUcontext handle)
{
    struct context **at = &contexts;

    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

static CUcontext any_of(uint32_t device)
{
    struct context *at = contexts;

    while (at && at->charge.device != device)
        at = at->next;
    return at ? at->handle : NULL;
}

static struct context *primary_of(uint32_t device)
{
    struct context *at = contexts;

    while (at && !(at->primary && at->charge.device == device))
        at = at->next;
    return at;
}

/* What is in use of a device, asked in one of its contexts. */
static bool in_use(CUcontext handle, uint64_t *ret_bytes)
{
    size_t is_free = 0, total = 0;
    CUcontext popped;

    if (!handle || facet_cuda_plain.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
        return false;
    CUresult result = facet_cuda_driver.cuMemGetInfo_v2(&is_free, &total);
    facet_cuda_plain.cuCtxPopCurrent_v2(&popped);
    *ret_bytes = total - is_free;
    return result == CUDA_SUCCESS;
}

/* What was in use before a context is made: as the driver says, or as far as the vGPU has been charged. */
static uint64_t before_making(uint32_t device)
{
    struct facet_tenant *tenant = facet_cuda_tenant(device);
    uint64_t bytes = 0;

    if (!in_use(any_of(device), &bytes) && tenant)
        bytes = facet_usage_memory(tenant->usage);
    return bytes;
}

static uint64_t cost_of(CUcontext handle, uint64_t before)
{
    uint64_t after = 0;

    if (!in_use(handle, &after) || after <= before)
        return 0;
    return after - before < FACET_CUDA_CONTEXT_MOST ? after - before : FACET_CUDA_CONTEXT_MOST;
}

/* Charges a context that was just made; what is refused has to be ended again. */
static CUresult adopt(CUcontext handle, uint32_t device, bool primary, uint64_t before)
{
    struct context *context = malloc(sizeof *context);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (context) {
        *context = (struct context){.next = contexts, .handle = handle, .primary = primary};
        result = facet_cuda_charge_take(device, cost_of(handle, before), &context->charge);
    }
    if (result == CUDA_SUCCESS)
        contexts = context;
    else
        free(context);
    return result;
}

static bool belongs(const struct facet_ledger_entry *entry, void *owner)
{
    return entry->owner == (uintptr_t)owner && entry->kind <= FACET_CUDA_ARRAY;
}

static void give_back(uint64_t key, const struct facet_ledger_entry *entry, void *owner)
{
    struct facet_tenant *tenant = facet_cuda_tenant(entry->device);

    (void)key;
    (void)owner;
    if (tenant)
        facet_tenant_release(tenant, entry->bytes);
}

/* Gives back what a context cost and what was allocated in it. Pools and virtual memory are the device's, and stay. */
static void ended(struct context **at)
{
    struct context *context = *at;

    *at = context->next;
    facet_ledger_drain(facet_cuda_process.ledger, belongs, give_back, context->handle);
    facet_cuda_charge_drop(&context->charge);
    facet_cuda_pools_settle(context->charge.device);
    free(context);
}

/* What cuCtxCreate's forms have in common: `make` calls the driver's. */
struct making {
    CUcontext *context;
    void *extra;
    int count;
    unsigned flags;
    CUdevice device;
};

static CUresult create(const struct making *making, CUresult (*make)(const struct making *))
{
    pthread_mutex_lock(&lock);
    uint64_t before = before_making((uint32_t)making->device);
    CUresult result = make(making);
    if (result == CUDA_SUCCESS) {
        result = adopt(*making->context, (uint32_t)making->device, false, before);
        if (result != CUDA_SUCCESS)
            facet_cuda_driver.cuCtxDestroy_v2(*making->context);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult make_first(const struct making *making)
{
    return facet_cuda_driver.cuCtxCreate(making->context, making->flags, making->device);
}

static CUresult make_second(const struct making *making)
{
    return facet_cuda_driver.cuCtxCreate_v2(making->context, making->flags, making->device);
}

static CUresult make_third(const struct making *making)
{
    return facet_cuda_driver.cuCtxCreate_v3(making->context, making->extra, making->count, making->flags,
                                            making->device);
}

static CUresult make_fourth(const struct making *making)
{
    return facet_cuda_driver.cuCtxCreate_v4(making->context, making->extra, making->flags, making->device);
}

CUresult facet_cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create(&(struct making){.context = context, .flags = flags, .device = device}, make_first);
}

CUresult facet_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create(&(struct making){.context = context, .flags = flags, .device = device}, make_second);
}

CUresult facet_cuCtxCreate_v3(CUcontext *context, void *affinities, int count, unsigned flags, CUdevice device)
{
    return create(
        &(struct making){.context = context, .extra = affinities, .count = count, .flags = flags, .device = device},
        make_third);
}

CUresult facet_cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device)
{
    return create(&(struct making){.context = context, .extra = parameters, .flags = flags, .device = device},
                  make_fourth);
}

static CUresult destroy(CUcontext handle, CUresult (*end)(CUcontext))
{
    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    CUresult result = end(handle);
    struct context **at = place_of(handle);
    if (*at && (result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED))
        ended(at);
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(result == CUDA_SUCCESS ? handle : NULL);
    return result;
}

CUresult facet_cuCtxDestroy(CUcontext context)
{
    return destroy(context, facet_cuda_driver.cuCtxDestroy);
}

CUresult facet_cuCtxDestroy_v2(CUcontext context)
{
    return destroy(context, facet_cuda_driver.cuCtxDestroy_v2);
}

static bool is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;

    return facet_cuda_plain.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

/* Retained again and again by programs: only who finds it not there yet measures. */
CUresult facet_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    pthread_mutex_lock(&lock);
    bool known = primary_of((uint32_t)device);
    uint64_t before = known ? 0 : before_making((uint32_t)device);
    CUresult result = facet_cuda_driver.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS && !known) {
        result = adopt(*context, (uint32_t)device, true, before);
        if (result != CUDA_SUCCESS)
            facet_cuda_driver.cuDevicePrimaryCtxRelease_v2(device);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The last release, and every reset, ends it. */
static CUresult let_go(CUdevice device, CUresult (*end)(CUdevice))
{
    CUcontext gone = NULL;

    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    CUresult result = end(device);
    struct context *primary = primary_of((uint32_t)device);
    if (result == CUDA_SUCCESS && primary && !is_active(device)) {
        gone = primary->handle;
        ended(place_of(gone));
    }
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(gone);
    return result;
}

CUresult facet_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return let_go(device, facet_cuda_driver.cuDevicePrimaryCtxRelease);
}

CUresult facet_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return let_go(device, facet_cuda_driver.cuDevicePrimaryCtxRelease_v2);
}

CUresult facet_cuDevicePrimaryCtxReset(CUdevice device)
{
    return let_go(device, facet_cuda_driver.cuDevicePrimaryCtxReset);
}

CUresult facet_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return let_go(device, facet_cuda_driver.cuDevicePrimaryCtxReset_v2);
}

void facet_cuda_contexts_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_contexts_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void facet_cuda_contexts_forked(void)
{
    while (contexts) {
        struct context *gone = contexts;

        contexts = gone->next;
        free(gone);
    }
    pthread_mutex_unlock(&lock);
}
