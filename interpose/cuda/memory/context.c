/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: creating, charging and ending contexts. Never: measures while another thread makes or ends a context: the lock
 * is held during the driver's call.
 */
#include "context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "charge.h"
#include "code.h"
#include "graph.h"
#include "interpose/cuda/swap/swap.h"
#include "interpose/kit/execution/stream.h"
#include "interpose/kit/memory/pool.h"
#include "interpose/kit/memory/region.h"
#include "measure.h"
#include "reference.h"

struct context {
    struct context *next;
    CUcontext handle;
    bool primary;
    unsigned waiting_threads; /* threads that wait for the context's work without the lock; it is not ended before they
                                 are done */
    struct facet_cuda_charge charge;
};

#define ENDED_KEPT      64u  /* how many ended contexts are remembered */
#define SETTLE_TRIES    1000 /* about a millisecond each */
#define SETTLE_PAUSE_NS 1000000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wait_ended = PTHREAD_COND_INITIALIZER; /* signalled when one of `waiting_threads` is done */
static struct context *contexts;
static _Atomic uint64_t ended_count;
static uint64_t ended_handles[ENDED_KEPT];

static struct context **find_link(CUcontext handle)
{
    struct context **at = &contexts;

    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    return at;
}

/* Waits until no thread waits for the context's work. Called with the lock, which the wait releases. */
static void await_waiting_threads(CUcontext handle)
{
    struct context *at;

    while ((at = *find_link(handle)) && at->waiting_threads)
        pthread_cond_wait(&wait_ended, &lock);
}

static CUcontext any_context_of(uint32_t device)
{
    struct context *at = contexts;

    while (at && at->charge.device != device)
        at = at->next;
    return at ? at->handle : NULL;
}

static struct context *primary_context_of(uint32_t device)
{
    struct context *at = contexts;

    while (at && !(at->primary && at->charge.device == device))
        at = at->next;
    return at;
}

/* Charges a context that was just made. On failure the caller ends it. */
static CUresult adopt_context(CUcontext handle, bool primary, struct facet_cuda_measure *measure)
{
    struct context *context = malloc(sizeof *context);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (context) {
        *context = (struct context){.next = contexts, .handle = handle, .primary = primary};
        result = facet_cuda_charge_take(measure->device, facet_cuda_measure_growth(measure, handle), &context->charge);
    }
    if (result == CUDA_SUCCESS)
        contexts = context;
    else
        free(context);
    return result;
}

void facet_cuda_contexts_lock(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_contexts_unlock(void)
{
    facet_cuda_measures_end();
    pthread_mutex_unlock(&lock);
}

CUcontext facet_cuda_context_of(uint32_t device)
{
    return any_context_of(device);
}

CUresult facet_cuda_context_charge_more(uint64_t bytes)
{
    struct context *context = *find_link((CUcontext)(uintptr_t)facet_cuda_owner());

    return context ? facet_cuda_charge_resize(&context->charge, context->charge.bytes + bytes)
                   : CUDA_ERROR_INVALID_CONTEXT;
}

static bool has_owner(const struct facet_ledger_entry *entry, void *owner)
{
    return entry->owner == (uintptr_t)owner && entry->kind <= FACET_CUDA_ARRAY;
}

static void release_drained(uint64_t key, const struct facet_ledger_entry *entry, void *owner)
{
    (void)owner;
    facet_cuda_charge_release_entry(key, entry);
    if (entry->kind == FACET_CUDA_ARRAY)
        facet_cuda_references_drop(facet_cuda_key(FACET_CUDA_ARRAY, key));
}

static void release_small(uint32_t device, uint64_t address)
{
    facet_cuda_charge_release_entry(
        address, &(struct facet_ledger_entry){.bytes = 1, .device = device, .kind = FACET_CUDA_SMALL});
}

static void drain_context(CUcontext owner)
{
    facet_ledger_drain(facet_cuda_process.ledger, has_owner, release_drained, owner);
    facet_regions_drain((uintptr_t)owner, release_small);
}

/*
 * Releases all that was allocated in a context. A thread that frees a block takes it out of the ledger first, and puts
 * it back if the driver refuses, as it does once the context has ended. This function would miss such a block, so it
 * waits for these threads. A thread that takes longer than the wait sees the larger count of ended contexts, and
 * releases the charge itself.
 */
static void release_all(const struct context *context)
{
    struct facet_pending pending;

    ended_handles[ended_count % ENDED_KEPT] = (uintptr_t)context->handle;
    ended_count++;
    facet_pending_quiesce(context->charge.device, FACET_CUDA_PENDING_WAIT_NS, &pending);
    drain_context(context->handle);
    facet_pending_open();
}

uint64_t facet_cuda_contexts_ended(void)
{
    return ended_count;
}

/* Whether the context ended after the first `before` ends, and no live context has the same handle. */
static bool has_ended(CUcontext handle, uint64_t before)
{
    bool found = false;

    for (uint64_t i = before; i < ended_count && ended_count - before <= ENDED_KEPT; i++)
        found = found || ended_handles[i % ENDED_KEPT] == (uintptr_t)handle;
    return found && !*find_link(handle);
}

/*
 * The wait is bounded, because the caller may be in a stream's callback, where a program must not make such calls, and
 * the lock's holder may be waiting for that callback. After the last try, charges that were missed stay.
 */
void facet_cuda_context_release_ended(uint64_t owner, uint64_t ended_before)
{
    int tries = SETTLE_TRIES;

    while (pthread_mutex_trylock(&lock) != 0) {
        if (tries-- == 0)
            return;
        nanosleep(&(struct timespec){.tv_nsec = SETTLE_PAUSE_NS}, NULL);
    }
    if (has_ended((CUcontext)(uintptr_t)owner, ended_before))
        drain_context((CUcontext)(uintptr_t)owner);
    pthread_mutex_unlock(&lock);
}

/* Releases all charges of a context, its own included. Pools and virtual memory belong to the device, and stay. */
static void context_ended(struct context **at)
{
    struct context *context = *at;

    *at = context->next;
    release_all(context);
    facet_cuda_swap_context_ended(context->handle);
    facet_cuda_charge_drop(&context->charge);
    facet_cuda_code_context_ended(context->handle, context->charge.device, !any_context_of(context->charge.device));
    facet_pools_settle(context->charge.device);
    if (facet_graphs_ever_used())
        facet_graphs_settle(context->charge.device);
    free(context);
}

/* The arguments of all forms of cuCtxCreate; `extra` and `count` are for forms that have other arguments, too. */
struct creation {
    CUcontext *context;
    void *extra;
    int count;
    unsigned flags;
    CUdevice device;
};

static CUresult create_context(const struct creation *creation, CUresult (*call)(const struct creation *))
{
    struct facet_cuda_measure measure;

    pthread_mutex_lock(&lock);
    facet_cuda_measure_begin(&measure, (uint32_t)creation->device, any_context_of((uint32_t)creation->device));
    CUresult result = call(creation);
    if (result == CUDA_SUCCESS) {
        result = adopt_context(*creation->context, false, &measure);
        if (result != CUDA_SUCCESS)
            facet_cuda_driver.cuCtxDestroy_v2(*creation->context);
    }
    facet_cuda_contexts_unlock();
    return result;
}

static CUresult call_create_v1(const struct creation *creation)
{
    return facet_cuda_driver.cuCtxCreate(creation->context, creation->flags, creation->device);
}

static CUresult call_create_v2(const struct creation *creation)
{
    return facet_cuda_driver.cuCtxCreate_v2(creation->context, creation->flags, creation->device);
}

static CUresult call_create_v3(const struct creation *creation)
{
    return facet_cuda_driver.cuCtxCreate_v3(creation->context, creation->extra, creation->count, creation->flags,
                                            creation->device);
}

static CUresult call_create_v4(const struct creation *creation)
{
    return facet_cuda_driver.cuCtxCreate_v4(creation->context, creation->extra, creation->flags, creation->device);
}

CUresult facet_cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(&(struct creation){.context = context, .flags = flags, .device = device}, call_create_v1);
}

CUresult facet_cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(&(struct creation){.context = context, .flags = flags, .device = device}, call_create_v2);
}

CUresult facet_cuCtxCreate_v3(CUcontext *context, void *affinities, int count, unsigned flags, CUdevice device)
{
    return create_context(
        &(struct creation){.context = context, .extra = affinities, .count = count, .flags = flags, .device = device},
        call_create_v3);
}

CUresult facet_cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned flags, CUdevice device)
{
    return create_context(&(struct creation){.context = context, .extra = parameters, .flags = flags, .device = device},
                          call_create_v4);
}

/* Contexts that work with OpenGL or VDPAU are charged like others. */
static CUresult call_create_gl(const struct creation *creation)
{
    return facet_cuda_driver.cuGLCtxCreate(creation->context, creation->flags, creation->device);
}

static CUresult call_create_gl_v2(const struct creation *creation)
{
    return facet_cuda_driver.cuGLCtxCreate_v2(creation->context, creation->flags, creation->device);
}

static CUresult call_create_vdpau(const struct creation *creation)
{
    return facet_cuda_driver.cuVDPAUCtxCreate(creation->context, creation->flags, creation->device,
                                              (uint32_t)creation->count, creation->extra);
}

static CUresult call_create_vdpau_v2(const struct creation *creation)
{
    return facet_cuda_driver.cuVDPAUCtxCreate_v2(creation->context, creation->flags, creation->device,
                                                 (uint32_t)creation->count, creation->extra);
}

CUresult facet_cuGLCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(&(struct creation){.context = context, .flags = flags, .device = device}, call_create_gl);
}

CUresult facet_cuGLCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device)
{
    return create_context(&(struct creation){.context = context, .flags = flags, .device = device}, call_create_gl_v2);
}

CUresult facet_cuVDPAUCtxCreate(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau,
                                void *get_proc_address)
{
    return create_context(
        &(struct creation){
            .context = context, .extra = get_proc_address, .count = (int)vdpau, .flags = flags, .device = device},
        call_create_vdpau);
}

CUresult facet_cuVDPAUCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device, uint32_t vdpau,
                                   void *get_proc_address)
{
    return create_context(
        &(struct creation){
            .context = context, .extra = get_proc_address, .count = (int)vdpau, .flags = flags, .device = device},
        call_create_vdpau_v2);
}

static CUresult destroy_context(CUcontext handle, CUresult (*end)(CUcontext))
{
    bool held = facet_cuda_swap_hold();
    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    await_waiting_threads(handle);
    CUresult result = end(handle);
    struct context **at = find_link(handle);
    if (*at && (result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED))
        context_ended(at);
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(result == CUDA_SUCCESS ? handle : NULL);
    facet_cuda_swap_release(held);
    return result;
}

CUresult facet_cuCtxDestroy(CUcontext context)
{
    return destroy_context(context, facet_cuda_driver.cuCtxDestroy);
}

CUresult facet_cuCtxDestroy_v2(CUcontext context)
{
    return destroy_context(context, facet_cuda_driver.cuCtxDestroy_v2);
}

/* The last detach ends the context. The driver then fails a query of its handle. */
CUresult facet_cuCtxDetach(CUcontext handle)
{
    unsigned version;
    CUcontext ended = NULL;

    bool held = facet_cuda_swap_hold();
    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    await_waiting_threads(handle);
    CUresult result = facet_cuda_driver.cuCtxDetach(handle);
    struct context **at = find_link(handle);
    if (result == CUDA_SUCCESS && *at && facet_cuda_unhooked.cuCtxGetApiVersion(handle, &version) != CUDA_SUCCESS) {
        ended = handle;
        context_ended(at);
    }
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(ended);
    facet_cuda_swap_release(held);
    return result;
}

/* Growth of stacks, heaps and buffers is charged to the context. Making them smaller releases nothing. */
CUresult facet_cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct facet_cuda_measure measure;
    uint32_t device = facet_cuda_current_device();
    size_t before = value;

    pthread_mutex_lock(&lock);
    CUcontext queried_context = any_context_of(device);
    if (queried_context) {
        facet_cuda_unhooked.cuCtxGetLimit(&before, limit);
        facet_cuda_measure_begin(&measure, device, queried_context);
    }
    CUresult result = facet_cuda_driver.cuCtxSetLimit(limit, value);
    uint64_t growth =
        result == CUDA_SUCCESS && queried_context ? facet_cuda_measure_growth(&measure, queried_context) : 0;
    if (growth && facet_cuda_context_charge_more(growth) != CUDA_SUCCESS) {
        facet_cuda_driver.cuCtxSetLimit(limit, before);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    facet_cuda_contexts_unlock();
    return result;
}

static bool is_active(CUdevice device)
{
    unsigned flags;
    int active = 0;

    return facet_cuda_unhooked.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

static CUresult retain_first(CUcontext *context, CUdevice device)
{
    struct facet_cuda_measure measure;

    facet_cuda_measure_begin(&measure, (uint32_t)device, any_context_of((uint32_t)device));
    CUresult result = facet_cuda_driver.cuDevicePrimaryCtxRetain(context, device);
    if (result == CUDA_SUCCESS) {
        result = adopt_context(*context, true, &measure);
        if (result != CUDA_SUCCESS)
            facet_cuda_driver.cuDevicePrimaryCtxRelease_v2(device);
    }
    return result;
}

/* Programs retain the primary context often: only the first retain measures. */
CUresult facet_cuda_primary_retain(CUcontext *ret_context, CUdevice device)
{
    return primary_context_of((uint32_t)device) ? facet_cuda_driver.cuDevicePrimaryCtxRetain(ret_context, device)
                                                : retain_first(ret_context, device);
}

CUresult facet_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    pthread_mutex_lock(&lock);
    CUresult result = facet_cuda_primary_retain(context, device);
    facet_cuda_contexts_unlock();
    return result;
}

CUcontext facet_cuda_primary_check_ended(CUdevice device)
{
    struct context *primary = primary_context_of((uint32_t)device);
    CUcontext ended = NULL;

    if (primary && !is_active(device)) {
        ended = primary->handle;
        await_waiting_threads(ended);
        context_ended(find_link(ended));
    }
    return ended;
}

/* The last release ends the context, and so does every reset. */
static CUresult release_primary(CUdevice device, CUresult (*end)(CUdevice))
{
    CUcontext ended = NULL;

    bool held = facet_cuda_swap_hold();
    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    struct context *primary = primary_context_of((uint32_t)device);
    if (primary)
        await_waiting_threads(primary->handle);
    CUresult result = end(device);
    if (result == CUDA_SUCCESS)
        ended = facet_cuda_primary_check_ended(device);
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(ended);
    facet_cuda_swap_release(held);
    return result;
}

CUresult facet_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return release_primary(device, facet_cuda_driver.cuDevicePrimaryCtxRelease);
}

CUresult facet_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    return release_primary(device, facet_cuda_driver.cuDevicePrimaryCtxRelease_v2);
}

CUresult facet_cuDevicePrimaryCtxReset(CUdevice device)
{
    return release_primary(device, facet_cuda_driver.cuDevicePrimaryCtxReset);
}

CUresult facet_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return release_primary(device, facet_cuda_driver.cuDevicePrimaryCtxReset_v2);
}

static bool wait_for_context(CUcontext handle)
{
    CUcontext popped;

    if (facet_cuda_unhooked.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
        return false;
    CUresult result = facet_cuda_driver.cuCtxSynchronize();
    facet_cuda_unhooked.cuCtxPopCurrent_v2(&popped);
    return result == CUDA_SUCCESS;
}

/* Waits without the lock: work in the contexts may depend on a thread of the program that needs the lock. */
bool facet_cuda_contexts_wait(void)
{
    bool all_complete = true;

    pthread_mutex_lock(&lock);
    for (struct context *at = contexts; at && all_complete; at = at->next) {
        at->waiting_threads++;
        pthread_mutex_unlock(&lock);
        all_complete = wait_for_context(at->handle);
        pthread_mutex_lock(&lock);
        at->waiting_threads--;
        pthread_cond_broadcast(&wait_ended);
    }
    pthread_mutex_unlock(&lock);
    return all_complete;
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
        struct context *context = contexts;

        contexts = context->next;
        free(context);
    }
    wait_ended = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* the child has none of the waiting threads */
    pthread_mutex_unlock(&lock);
}
