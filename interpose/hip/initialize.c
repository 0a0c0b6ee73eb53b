/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: initializing, charging and resetting devices. Never: resets a device that the program has initialized. */
#include "initialize.h"

#include <pthread.h>
#include <string.h>

#include "execution/context.h"
#include "hooks.h"
#include "interpose/kit/execution/stream.h"
#include "interpose/kit/memory/graph.h"
#include "interpose/kit/memory/pool.h"
#include "measure.h"
#include "memory/charge.h"
#include "memory/code.h"
#include "process_bytes.h"

_Atomic bool facet_hip_initialized[FACET_HIP_TENANTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct facet_memory_charge charges[FACET_HIP_TENANTS];
static uint64_t separate_bytes[FACET_HIP_TENANTS]; /* charged with the device, not measured */
static _Thread_local bool thread_holds_lock;       /* true within a call: older runtimes call their own exports then */

bool facet_hip_devices_lock(void)
{
    if (thread_holds_lock)
        return false;
    pthread_mutex_lock(&lock);
    thread_holds_lock = true;
    return true;
}

void facet_hip_devices_unlock(void)
{
    thread_holds_lock = false;
    pthread_mutex_unlock(&lock);
}

/* Waiting for an empty stream initializes the device, and changes nothing else. */
static hipError_t initialize_and_charge(uint32_t device, const struct facet_hip_measure *measure)
{
    hipError_t result = facet_hip_driver.hipStreamSynchronize(NULL);

    if (result != hipSuccess)
        return result;
    uint64_t bytes = facet_hip_measure_growth(measure) + separate_bytes[device];
    result = facet_hip_refusal(facet_charge_take(device, bytes, &charges[device]));
    if (result != hipSuccess && !separate_bytes[device])
        facet_hip_driver.hipDeviceReset(); /* the program has nothing on the device yet */
    return result;
}

/* Measures the thread's current device. */
static hipError_t measure_device(uint32_t device)
{
    struct facet_hip_measure measure;

    facet_hip_measure_begin_initialize(&measure, device, separate_bytes[device]);
    hipError_t result = initialize_and_charge(device, &measure);
    facet_hip_measure_end(&measure);
    return result;
}

static hipError_t initialize_device(uint32_t device)
{
    int current = 0;
    hipError_t result = facet_hip_unhooked.hipGetDevice(&current);
    bool is_other_device = result == hipSuccess && (uint32_t)current != device;

    if (is_other_device)
        result = facet_hip_unhooked.hipSetDevice((int)device);
    if (result == hipSuccess)
        result = measure_device(device);
    if (is_other_device)
        facet_hip_unhooked.hipSetDevice(current);
    return result;
}

hipError_t facet_hip_initialize_device_slow(uint32_t device)
{
    hipError_t result = hipSuccess;

    if (!facet_hip_tenant(device) || !facet_hip_devices_lock())
        return hipSuccess;
    if (!atomic_load_explicit(&facet_hip_initialized[device], memory_order_relaxed)) {
        result = initialize_device(device);
        if (result == hipSuccess)
            atomic_store_explicit(&facet_hip_initialized[device], true, memory_order_release);
    }
    facet_hip_devices_unlock();
    return result;
}

bool facet_hip_device_charge_add(uint32_t device, uint64_t bytes)
{
    bool initialized = atomic_load(&facet_hip_initialized[device]);

    if (initialized && facet_charge_resize(&charges[device], charges[device].bytes + bytes) != FACET_MEMORY_CHARGED)
        return false;
    separate_bytes[device] += bytes;
    return true;
}

void facet_hip_device_charge_remove(uint32_t device, uint64_t bytes)
{
    if (atomic_load(&facet_hip_initialized[device]))
        facet_charge_resize(&charges[device], charges[device].bytes - bytes);
    separate_bytes[device] -= bytes;
}

/* Releases the charges of the device and of allocations on it. Pools are settled; virtual memory stays. */
static void release_device_charges(uint32_t device)
{
    facet_charge_drop_owner(facet_hip_owner(device));
    if (atomic_exchange(&facet_hip_initialized[device], false))
        facet_charge_drop(&charges[device]);
    facet_hip_code_device_ended(device);
    facet_pools_settle(device);
    if (facet_graphs_ever_used())
        facet_graphs_settle(device);
}

static hipError_t reset_device(uint32_t device, hipError_t (*call)(int device))
{
    facet_flight_context_ends();
    bool locked = facet_hip_devices_lock();
    hipError_t result = call((int)device);
    bool was_reset = locked && result == hipSuccess && device < facet_hip_process.count;
    if (was_reset)
        release_device_charges(device);
    if (locked)
        facet_hip_devices_unlock();
    facet_flight_context_ended(was_reset ? facet_hip_context((int)device) : NULL);
    return result;
}

static hipError_t reset_current(int device)
{
    (void)device;
    return facet_hip_driver.hipDeviceReset();
}

hipError_t facet_hipDeviceReset(void)
{
    return reset_device(facet_hip_current_device(), reset_current);
}

hipError_t facet_hipDevicePrimaryCtxReset(hipDevice_t device)
{
    return reset_device((uint32_t)device, facet_hip_driver.hipDevicePrimaryCtxReset);
}

/* Calls by which a program may initialize a device before it has allocated anything there. */
#define INITIALIZES(symbol, parameters, ...)                                                                           \
    hipError_t facet_##symbol parameters                                                                               \
    {                                                                                                                  \
        hipError_t result = facet_hip_initialize_device(facet_hip_current_device());                                   \
                                                                                                                       \
        return result == hipSuccess ? facet_hip_driver.symbol(__VA_ARGS__) : result;                                   \
    }

INITIALIZES(hipHostMalloc, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
INITIALIZES(hipHostAlloc, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
INITIALIZES(hipMallocHost, (void **pointer, size_t bytes), pointer, bytes)
INITIALIZES(hipMemAllocHost, (void **pointer, size_t bytes), pointer, bytes)
INITIALIZES(hipHostRegister, (void *pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
INITIALIZES(hipEventCreate, (hipEvent_t * event), event)
INITIALIZES(hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags), event, flags)
INITIALIZES(hipStreamCreate, (hipStream_t * stream), stream)
INITIALIZES(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), stream, flags)
INITIALIZES(hipStreamCreateWithPriority, (hipStream_t * stream, unsigned flags, int priority), stream, flags, priority)
INITIALIZES(hipExtStreamCreateWithCUMask, (hipStream_t * stream, uint32_t words, const uint32_t *mask), stream, words,
            mask)

hipError_t facet_hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
    hipError_t result = device < 0 ? hipSuccess : facet_hip_initialize_device((uint32_t)device);

    return result == hipSuccess ? facet_hip_driver.hipDeviceGetDefaultMemPool(pool, device) : result;
}

/* False if the thread held the lock already: a runtime may fork during a call to start its compiler. */
static _Thread_local bool locked_for_fork;

void facet_hip_devices_before_fork(void)
{
    locked_for_fork = facet_hip_devices_lock();
}

void facet_hip_devices_after_fork(void)
{
    if (locked_for_fork)
        facet_hip_devices_unlock();
}

void facet_hip_devices_forked(void)
{
    for (uint32_t i = 0; i < FACET_HIP_TENANTS; i++)
        atomic_store(&facet_hip_initialized[i], false);
    memset(separate_bytes, 0, sizeof separate_bytes);
    facet_hip_code_forked();
    facet_hip_registered_forked();
    facet_hip_process_bytes_forked();
    facet_hip_devices_after_fork();
}
