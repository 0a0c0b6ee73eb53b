/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what begin.h says. Never: ends a device that the program has begun. */
#include "begin.h"

#include <pthread.h>

#include "execution/context.h"
#include "hooks.h"
#include "interpose/kit/execution/stream.h"
#include "interpose/kit/memory/pool.h"
#include "memory/charge.h"

_Atomic bool facet_hip_begun[FACET_HIP_TENANTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct facet_memory_charge charges[FACET_HIP_TENANTS];
static _Thread_local bool begins; /* older runtimes call what they export */

static uint64_t in_use(void)
{
    size_t is_free = 0, total = 0;

    return facet_hip_driver.hipMemGetInfo(&is_free, &total) == hipSuccess ? total - is_free : 0;
}

/* On the thread's device. Waiting for a stream in which nothing is begins the device, and changes nothing else. */
static hipError_t measure(uint32_t device)
{
    uint64_t before = in_use();
    hipError_t result = facet_hip_driver.hipStreamSynchronize(NULL);
    uint64_t after = in_use();

    if (result != hipSuccess)
        return result;
    uint64_t cost = after > before ? after - before : 0;
    cost = cost < FACET_HIP_BEGIN_MOST ? cost : FACET_HIP_BEGIN_MOST;
    result = facet_hip_refusal(facet_charge_take(device, cost, &charges[device]));
    if (result != hipSuccess)
        facet_hip_driver.hipDeviceReset(); /* nothing of the program's is there yet */
    return result;
}

static hipError_t begin(uint32_t device)
{
    int current = 0;
    hipError_t result = facet_hip_plain.hipGetDevice(&current);
    bool foreign = result == hipSuccess && (uint32_t)current != device;

    if (foreign)
        result = facet_hip_plain.hipSetDevice((int)device);
    if (result == hipSuccess)
        result = measure(device);
    if (foreign)
        facet_hip_plain.hipSetDevice(current);
    return result;
}

hipError_t facet_hip_begin_slow(uint32_t device)
{
    hipError_t result = hipSuccess;

    if (begins || !facet_hip_tenant(device))
        return hipSuccess;
    pthread_mutex_lock(&lock);
    begins = true;
    if (!atomic_load_explicit(&facet_hip_begun[device], memory_order_relaxed)) {
        result = begin(device);
        if (result == hipSuccess)
            atomic_store_explicit(&facet_hip_begun[device], true, memory_order_release);
    }
    begins = false;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Gives back what the device cost and what was allocated on it. Pools are asked; virtual memory stays. */
static void ended(uint32_t device)
{
    facet_charge_ended(facet_hip_owner(device));
    if (atomic_exchange(&facet_hip_begun[device], false))
        facet_charge_drop(&charges[device]);
    facet_pools_settle(device);
}

static hipError_t reset(uint32_t device, hipError_t (*call)(int device))
{
    facet_flight_context_ends();
    pthread_mutex_lock(&lock);
    hipError_t result = call((int)device);
    bool gone = result == hipSuccess && device < facet_hip_process.count;
    if (gone)
        ended(device);
    pthread_mutex_unlock(&lock);
    facet_flight_context_ended(gone ? facet_hip_context((int)device) : NULL);
    return result;
}

static hipError_t reset_current(int device)
{
    (void)device;
    return facet_hip_driver.hipDeviceReset();
}

hipError_t facet_hipDeviceReset(void)
{
    return reset(facet_hip_current_device(), reset_current);
}

hipError_t facet_hipDevicePrimaryCtxReset(hipDevice_t device)
{
    return reset((uint32_t)device, facet_hip_driver.hipDevicePrimaryCtxReset);
}

/* What a program may use a device with before it has allocated anything there. */
#define BEGINS(symbol, parameters, ...)                                                                                \
    hipError_t facet_##symbol parameters                                                                               \
    {                                                                                                                  \
        hipError_t result = facet_hip_begin(facet_hip_current_device());                                               \
                                                                                                                       \
        return result == hipSuccess ? facet_hip_driver.symbol(__VA_ARGS__) : result;                                   \
    }

BEGINS(hipDeviceSynchronize, (void))
BEGINS(hipStreamSynchronize, (hipStream_t stream), stream)
BEGINS(hipStreamSynchronize_spt, (hipStream_t stream), stream)
BEGINS(hipHostMalloc, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
BEGINS(hipMemset, (void *to, int value, size_t bytes), to, value, bytes)
BEGINS(hipMemset_spt, (void *to, int value, size_t bytes), to, value, bytes)
BEGINS(hipMemcpy, (void *to, const void *from, size_t bytes, hipMemcpyKind kind), to, from, bytes, kind)
BEGINS(hipMemcpy_spt, (void *to, const void *from, size_t bytes, hipMemcpyKind kind), to, from, bytes, kind)
BEGINS(hipStreamCreate, (hipStream_t * stream), stream)
BEGINS(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), stream, flags)
BEGINS(hipStreamCreateWithPriority, (hipStream_t * stream, unsigned flags, int priority), stream, flags, priority)
BEGINS(hipExtStreamCreateWithCUMask, (hipStream_t * stream, uint32_t words, const uint32_t *mask), stream, words, mask)
BEGINS(hipModuleLoad, (hipModule_t * module, const char *path), module, path)
BEGINS(hipModuleLoadData, (hipModule_t * module, const void *image), module, image)
BEGINS(hipModuleLoadDataEx, (hipModule_t * module, const void *image, unsigned count, int *options, void **values),
       module, image, count, options, values)

void facet_hip_begin_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void facet_hip_begin_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

void facet_hip_begin_forked(void)
{
    for (uint32_t i = 0; i < FACET_HIP_TENANTS; i++)
        atomic_store(&facet_hip_begun[i], false);
    pthread_mutex_unlock(&lock);
}
