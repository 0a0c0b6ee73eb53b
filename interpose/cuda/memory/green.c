/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of green contexts, and their creation and end. Never: holds the list's lock while the driver is
 * called.
 */
#include "green.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "charge.h"
#include "context.h"
#include "interpose/cuda/swap/swap.h"
#include "interpose/kit/execution/stream.h"
#include "measure.h"

struct green {
    struct green *next;
    CUgreenCtx handle;
    CUcontext context, primary;
    struct facet_cuda_charge charge;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct green *greens;
static _Atomic uint32_t green_count; /* length of the list: while it is 0, no lock is taken */

CUcontext facet_cuda_green_primary(CUcontext context)
{
    CUcontext primary = context;

    if (!atomic_load_explicit(&green_count, memory_order_relaxed))
        return context;
    pthread_mutex_lock(&lock);
    for (struct green *green = greens; green; green = green->next)
        if (green->context == context)
            primary = green->primary;
    pthread_mutex_unlock(&lock);
    return primary;
}

static void add_green(struct green *green)
{
    pthread_mutex_lock(&lock);
    green->next = greens;
    greens = green;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&green_count, 1);
}

static struct green *remove_green(CUgreenCtx handle)
{
    struct green **at = &greens;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    struct green *found = *at;
    if (found)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    if (found)
        atomic_fetch_sub(&green_count, 1);
    return found;
}

/* Charges a green context that was just made. On failure the caller ends it. */
static CUresult adopt_green(CUgreenCtx handle, CUcontext primary, struct facet_cuda_measure *measure)
{
    struct green *green = malloc(sizeof *green);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (!green)
        return result;
    *green = (struct green){.handle = handle, .primary = primary};
    result = facet_cuda_unhooked.cuCtxFromGreenCtx(&green->context, handle);
    if (result == CUDA_SUCCESS)
        result = facet_cuda_charge_take(measure->device, facet_cuda_measure_growth(measure, primary), &green->charge);
    if (result == CUDA_SUCCESS)
        add_green(green);
    else
        free(green);
    return result;
}

/* The primary context exists already, so that the growth measured here is the green context's alone. */
static CUresult create_green(CUgreenCtx *green, CUcontext primary, CUdevResourceDesc description, CUdevice device,
                             unsigned flags)
{
    struct facet_cuda_measure measure;

    facet_cuda_measure_begin(&measure, (uint32_t)device, primary);
    CUresult result = facet_cuda_driver.cuGreenCtxCreate(green, description, device, flags);
    if (result == CUDA_SUCCESS) {
        result = adopt_green(*green, primary, &measure);
        if (result != CUDA_SUCCESS)
            facet_cuda_driver.cuGreenCtxDestroy(*green);
    }
    return result;
}

CUresult facet_cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device, unsigned flags)
{
    CUcontext primary, ended_primary = NULL;

    if (!green || !description)
        return facet_cuda_driver.cuGreenCtxCreate(green, description, device, flags);
    bool held = facet_cuda_swap_hold();
    facet_flight_context_ends();
    facet_cuda_contexts_lock();
    CUresult result = facet_cuda_primary_retain(&primary, device);
    if (result == CUDA_SUCCESS) {
        result = create_green(green, primary, description, device, flags);
        facet_cuda_driver.cuDevicePrimaryCtxRelease_v2(device);
        ended_primary = facet_cuda_primary_check_ended(device);
    }
    facet_cuda_contexts_unlock();
    facet_flight_context_ended(ended_primary);
    facet_cuda_swap_release(held);
    return result;
}

/*
 * A green context's streams end with it. If nothing else retains the primary context, the primary context ends too. So
 * facet_flight_context_ends() is called twice: once for each context that may end.
 */
CUresult facet_cuGreenCtxDestroy(CUgreenCtx handle)
{
    CUcontext context = NULL, ended_primary = NULL;

    bool held = facet_cuda_swap_hold();
    facet_flight_context_ends();
    facet_flight_context_ends();
    facet_cuda_contexts_lock();
    CUresult result = facet_cuda_driver.cuGreenCtxDestroy(handle);
    struct green *green = result == CUDA_SUCCESS ? remove_green(handle) : NULL;
    if (green) {
        ended_primary = facet_cuda_primary_check_ended((CUdevice)green->charge.device);
        context = green->context == green->primary ? NULL : green->context;
        facet_cuda_charge_drop(&green->charge);
        free(green);
    }
    facet_cuda_contexts_unlock();
    facet_flight_context_ended(context);
    facet_flight_context_ended(ended_primary);
    facet_cuda_swap_release(held);
    return result;
}

void facet_cuda_greens_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_cuda_greens_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void facet_cuda_greens_forked(void)
{
    while (greens) {
        struct green *green = greens;

        greens = green->next;
        free(green);
    }
    atomic_store(&green_count, 0);
    pthread_mutex_unlock(&lock);
}
