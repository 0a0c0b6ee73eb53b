/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: beginning, charging and resetting devices. Never: ends a device that the program has begun. */
#include "begin.h"

#include <pthread.h>
#include <string.h>

#include "execution/context.h"
#include "held.h"
#include "hooks.h"
#include "interpose/kit/execution/stream.h"
#include "interpose/kit/memory/graph.h"
#include "interpose/kit/memory/pool.h"
#include "measure.h"
#include "memory/charge.h"
#include "memory/code.h"

_Atomic bool facet_hip_initialized[FACET_HIP_TENANTS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct facet_memory_charge charges[FACET_HIP_TENANTS];
static uint64_t besides[FACET_HIP_TENANTS]; /* charged with a device without being measured */
static _Thread_local bool begins;           /* older runtimes call their own exported functions */

bool facet_hip_devices_hold(void)
{
    if (begins)
        return false;
    pthread_mutex_lock(&lock);
    begins = true;
    return true;
}

void facet_hip_devices_let_go(void)
{
    begins = false;
    pthread_mutex_unlock(&lock);
}

/* Waiting for an empty stream begins the device, and changes nothing else. */
static hipError_t begin_and_charge(uint32_t device, const struct facet_hip_measure *measure)
{
    hipError_t result = facet_hip_driver.hipStreamSynchronize(NULL);

    if (result != hipSuccess)
        return result;
    uint64_t bytes = facet_hip_measure_growth(measure) + besides[device];
    result = facet_hip_refusal(facet_charge_take(device, bytes, &charges[device]));
    if (result != hipSuccess && !besides[device])
        facet_hip_driver.hipDeviceReset(); /* the program has nothing on the device yet */
    return result;
}

/* Measures the thread's current device. */
static hipError_t measure_device(uint32_t device)
{
    struct facet_hip_measure measure;

    facet_hip_measure_begin_first(&measure, device, besides[device]);
    hipError_t result = begin_and_charge(device, &measure);
    facet_hip_measure_end(&measure);
    return result;
}

static hipError_t begin_device(uint32_t device)
{
    int current = 0;
    hipError_t result = facet_hip_plain.hipGetDevice(&current);
    bool foreign = result == hipSuccess && (uint32_t)current != device;

    if (foreign)
        result = facet_hip_plain.hipSetDevice((int)device);
    if (result == hipSuccess)
        result = measure_device(device);
    if (foreign)
        facet_hip_plain.hipSetDevice(current);
    return result;
}

hipError_t facet_hip_begin_slow(uint32_t device)
{
    hipError_t result = hipSuccess;

    if (!facet_hip_tenant(device) || !facet_hip_devices_hold())
        return hipSuccess;
    if (!atomic_load_explicit(&facet_hip_initialized[device], memory_order_relaxed)) {
        result = begin_device(device);
        if (result == hipSuccess)
            atomic_store_explicit(&facet_hip_initialized[device], true, memory_order_release);
    }
    facet_hip_devices_let_go();
    return result;
}

bool facet_hip_begin_with(uint32_t device, uint64_t bytes)
{
    bool begun = atomic_load(&facet_hip_initialized[device]);

    if (begun && facet_charge_resize(&charges[device], charges[device].bytes + bytes) != FACET_MEMORY_TAKEN)
        return false;
    besides[device] += bytes;
    return true;
}

void facet_hip_begin_without(uint32_t device, uint64_t bytes)
{
    if (atomic_load(&facet_hip_initialized[device]))
        facet_charge_resize(&charges[device], charges[device].bytes - bytes);
    besides[device] -= bytes;
}

/* Releases the charges of the device and of allocations on it. Pools are settled; virtual memory stays. */
static void device_ended(uint32_t device)
{
    facet_charge_ended(facet_hip_owner(device));
    if (atomic_exchange(&facet_hip_initialized[device], false))
        facet_charge_drop(&charges[device]);
    facet_hip_code_device_ended(device);
    facet_pools_settle(device);
    if (facet_graphs_were())
        facet_graphs_settle(device);
}

static hipError_t reset_device(uint32_t device, hipError_t (*call)(int device))
{
    facet_flight_context_ends();
    bool held = facet_hip_devices_hold();
    hipError_t result = call((int)device);
    bool gone = held && result == hipSuccess && device < facet_hip_process.count;
    if (gone)
        device_ended(device);
    if (held)
        facet_hip_devices_let_go();
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
    return reset_device(facet_hip_current_device(), reset_current);
}

hipError_t facet_hipDevicePrimaryCtxReset(hipDevice_t device)
{
    return reset_device((uint32_t)device, facet_hip_driver.hipDevicePrimaryCtxReset);
}

/* Calls by which a program may begin a device before it has allocated anything there. */
#define BEGINS(symbol, parameters, ...)                                                                                \
    hipError_t facet_##symbol parameters                                                                               \
    {                                                                                                                  \
        hipError_t result = facet_hip_begin(facet_hip_current_device());                                               \
                                                                                                                       \
        return result == hipSuccess ? facet_hip_driver.symbol(__VA_ARGS__) : result;                                   \
    }

BEGINS(hipHostMalloc, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
BEGINS(hipHostAlloc, (void **pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
BEGINS(hipMallocHost, (void **pointer, size_t bytes), pointer, bytes)
BEGINS(hipMemAllocHost, (void **pointer, size_t bytes), pointer, bytes)
BEGINS(hipHostRegister, (void *pointer, size_t bytes, unsigned flags), pointer, bytes, flags)
BEGINS(hipEventCreate, (hipEvent_t * event), event)
BEGINS(hipEventCreateWithFlags, (hipEvent_t * event, unsigned flags), event, flags)
BEGINS(hipStreamCreate, (hipStream_t * stream), stream)
BEGINS(hipStreamCreateWithFlags, (hipStream_t * stream, unsigned flags), stream, flags)
BEGINS(hipStreamCreateWithPriority, (hipStream_t * stream, unsigned flags, int priority), stream, flags, priority)
BEGINS(hipExtStreamCreateWithCUMask, (hipStream_t * stream, uint32_t words, const uint32_t *mask), stream, words, mask)

hipError_t facet_hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device)
{
    hipError_t result = device < 0 ? hipSuccess : facet_hip_begin((uint32_t)device);

    return result == hipSuccess ? facet_hip_driver.hipDeviceGetDefaultMemPool(pool, device) : result;
}

/* A runtime may fork within a call during which the devices are held: its compiler is a program of its own. */
static _Thread_local bool held_for_fork;

void facet_hip_begin_before_fork(void)
{
    held_for_fork = facet_hip_devices_hold();
}

void facet_hip_begin_after_fork(void)
{
    if (held_for_fork)
        facet_hip_devices_let_go();
}

void facet_hip_begin_forked(void)
{
    for (uint32_t i = 0; i < FACET_HIP_TENANTS; i++)
        atomic_store(&facet_hip_initialized[i], false);
    memset(besides, 0, sizeof besides);
    facet_hip_code_forked();
    facet_hip_registered_forked();
    facet_hip_held_forked();
    facet_hip_begin_after_fork();
}
