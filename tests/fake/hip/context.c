/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: contexts, which in this runtime are another name of devices: a handle is the device's number plus one.
 * Never: initializes or resets a device by a context, except in hipDevicePrimaryCtxReset.
 */
#include "fake.h"

static hipCtx_t context_of(int device)
{
    return (hipCtx_t)(uintptr_t)(device + 1);
}

static hipError_t device_of(hipCtx_t context, int *ret_device)
{
    int device = (int)(uintptr_t)context - 1;

    if (device < 0 || (uint32_t)device >= fake_visible())
        return hipErrorInvalidContext;
    *ret_device = device;
    return hipSuccess;
}

static hipError_t make_context(hipCtx_t *context, int device)
{
    uint32_t physical;
    hipError_t result = context ? fake_physical(device, &physical) : hipErrorInvalidValue;

    if (result == hipSuccess)
        *context = context_of(device);
    return result;
}

static hipError_t use_context(hipCtx_t context)
{
    int device;
    hipError_t result = device_of(context, &device);

    return result == hipSuccess ? fake_hip_set_device(device) : result;
}

static hipError_t create_context(hipCtx_t *context, int device)
{
    hipError_t result = make_context(context, device);

    return result == hipSuccess ? fake_hip_set_device(device) : result;
}

static hipError_t check_context(hipCtx_t context)
{
    int device;

    return device_of(context, &device);
}

static hipError_t reset_device(int device)
{
    uint32_t physical;
    hipError_t result = fake_physical(device, &physical);

    return result == hipSuccess ? fake_hip_reset_device(device) : result;
}

static hipError_t get_state(int device, unsigned *flags, int *active)
{
    uint32_t physical;
    hipError_t result = flags && active ? fake_physical(device, &physical) : hipErrorInvalidValue;

    if (result == hipSuccess) {
        *flags = 0;
        *active = fake_hip_is_initialized(device);
    }
    return result;
}

static hipError_t answer_device(hipDevice_t *device)
{
    if (!device)
        return hipErrorInvalidValue;
    *device = fake_hip_device();
    return hipSuccess;
}

static hipError_t release_device(int device)
{
    uint32_t physical;

    return fake_physical(device, &physical);
}

FAKE_HIP_QUERY(hipCtxCreate, (hipCtx_t * context, unsigned flags, hipDevice_t device),
               flags > 31 ? hipErrorInvalidValue : create_context(context, device))
FAKE_HIP_QUERY(hipCtxDestroy, (hipCtx_t context), check_context(context))
FAKE_HIP_QUERY(hipCtxPushCurrent, (hipCtx_t context), use_context(context))
FAKE_HIP_QUERY(hipCtxSetCurrent, (hipCtx_t context), use_context(context))
FAKE_HIP_QUERY(hipCtxGetCurrent, (hipCtx_t * context), make_context(context, fake_hip_device()))
FAKE_HIP_QUERY(hipCtxPopCurrent, (hipCtx_t * context), make_context(context, fake_hip_device()))
FAKE_HIP_QUERY(hipCtxGetDevice, (hipDevice_t * device), answer_device(device))
FAKE_HIP_QUERY(hipDevicePrimaryCtxRetain, (hipCtx_t * context, hipDevice_t device), make_context(context, device))
FAKE_HIP_QUERY(hipDevicePrimaryCtxRelease, (hipDevice_t device), release_device(device))
FAKE_HIP_QUERY(hipDevicePrimaryCtxReset, (hipDevice_t device), reset_device(device))
FAKE_HIP_QUERY(hipDevicePrimaryCtxSetFlags, (hipDevice_t device, unsigned flags),
               flags > 31 ? hipErrorInvalidValue : release_device(device))
FAKE_HIP_QUERY(hipDevicePrimaryCtxGetState, (hipDevice_t device, unsigned *flags, int *active),
               get_state(device, flags, active))
