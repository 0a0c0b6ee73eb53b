/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the runtime's start; each thread's device and last error. Never: initializes a device for a query. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "entry_points.h"
#include "fake.h"

enum { NOT_STARTED, READY, NO_DEVICES, INHERITED };

static _Atomic int state;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t visible[FAKE_DEVICES], visible_count;
static _Atomic(CUcontext) contexts[FAKE_DEVICES];
static _Thread_local int device;
static _Thread_local CUcontext current_context;
static _Thread_local hipError_t last_error;

static void runtime_forked(void)
{
    if (atomic_load(&state) == READY)
        atomic_store(&state, INHERITED);
    pthread_mutex_init(&lock, NULL);
}

/* Registered at load: a handler that the first call registers would miss a fork during that call. */
__attribute__((constructor)) static void handle_fork(void)
{
    pthread_atfork(NULL, NULL, runtime_forked);
}

hipError_t fake_hip_init(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != READY) {
        pthread_mutex_lock(&lock);
        if (atomic_load(&state) == NOT_STARTED) {
            visible_count = fake_hip_visible(visible);
            atomic_store_explicit(&state, visible_count ? READY : NO_DEVICES, memory_order_release);
        }
        pthread_mutex_unlock(&lock);
    }
    int current_state = atomic_load(&state);
    return current_state == READY        ? hipSuccess
           : current_state == NO_DEVICES ? hipErrorNoDevice
                                         : hipErrorNotInitialized;
}

/* Called by the files of tests/fake/cuda, which run only after fake_hip_init(). */
CUresult fake_ready(void)
{
    return fake_hip_init();
}

uint32_t fake_visible(void)
{
    return visible_count;
}

CUresult fake_physical(CUdevice wanted, uint32_t *ret_physical)
{
    hipError_t result = fake_hip_init();

    if (result == hipSuccess && (wanted < 0 || (uint32_t)wanted >= visible_count))
        result = hipErrorInvalidDevice;
    if (result == hipSuccess)
        *ret_physical = visible[wanted];
    return result;
}

int fake_not_supported(void)
{
    hipError_t result = fake_hip_init();

    return fake_hip_record_error(result == hipSuccess ? hipErrorNotSupported : result);
}

static void sleep_for_initialization(void)
{
    const char *text = getenv("FAKE_HIP_BEGIN");
    long milliseconds = text ? strtol(text, NULL, 10) : 0;

    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000}, NULL);
}

static hipError_t initialize_device(CUcontext *ret_context)
{
    hipError_t result = hipSuccess;

    pthread_mutex_lock(&lock);
    *ret_context = atomic_load(&contexts[device]);
    if (!*ret_context) {
        sleep_for_initialization();
        result = cuDevicePrimaryCtxRetain(ret_context, device);
        sleep_for_initialization();
    }
    if (result == hipSuccess)
        atomic_store(&contexts[device], *ret_context);
    pthread_mutex_unlock(&lock);
    return result;
}

hipError_t fake_hip_enter(void)
{
    hipError_t result = fake_hip_init();
    CUcontext context = NULL;

    if (result != hipSuccess)
        return result;
    context = atomic_load_explicit(&contexts[device], memory_order_acquire);
    if (!context)
        result = initialize_device(&context);
    if (result == hipSuccess && current_context != context) {
        result = cuCtxSetCurrent(context);
        current_context = result == hipSuccess ? context : NULL;
    }
    return result;
}

hipError_t fake_hip_set_device(int wanted)
{
    uint32_t physical;
    hipError_t result = fake_physical(wanted, &physical);

    if (result == hipSuccess)
        device = wanted;
    return result;
}

int fake_hip_device(void)
{
    return device;
}

bool fake_hip_is_initialized(int index)
{
    return atomic_load(&contexts[index]);
}

hipError_t fake_hip_reset_device(int index)
{
    hipError_t result = hipSuccess;

    pthread_mutex_lock(&lock);
    CUcontext context = atomic_exchange(&contexts[index], NULL);
    pthread_mutex_unlock(&lock);
    if (context)
        result = cuDevicePrimaryCtxReset_v2(index);
    return result;
}

hipError_t fake_hip_record_error(hipError_t result)
{
    if (result != hipSuccess)
        last_error = result;
    return result;
}

hipError_t hipGetLastError(void)
{
    hipError_t error = last_error;

    last_error = hipSuccess;
    return error;
}

hipError_t hipExtGetLastError(void)
{
    return hipGetLastError();
}

hipError_t hipPeekAtLastError(void)
{
    return last_error;
}

hipError_t hipInit(unsigned flags)
{
    return fake_hip_record_error(flags ? hipErrorInvalidValue : fake_hip_init());
}

FAKE_HIP_QUERY(hipSetDevice, (int wanted), fake_hip_set_device(wanted))
FAKE_HIP(hipDeviceSynchronize, (void), cuCtxSynchronize())
FAKE_HIP(hipCtxSynchronize, (void), cuCtxSynchronize())
FAKE_HIP_QUERY(hipDeviceReset, (void), fake_hip_reset_device(device))
FAKE_HIP_QUERY(hipSetDeviceFlags, (unsigned flags), flags > 31 ? hipErrorInvalidValue : hipSuccess)

hipError_t hipGetDevice(int *ret_device)
{
    hipError_t result = ret_device ? fake_hip_init() : hipErrorInvalidValue;

    if (result == hipSuccess)
        *ret_device = device;
    return fake_hip_record_error(result);
}

hipError_t hipGetDeviceFlags(unsigned *flags)
{
    hipError_t result = flags ? fake_hip_init() : hipErrorInvalidValue;

    if (result == hipSuccess)
        *flags = 0;
    return fake_hip_record_error(result);
}
