/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake HIP runtime: a face of HIP's on the made-up machine of tests/fake/cuda.
 *
 * Owns: HIP's own part: devices without contexts, which start when they are first used; visible devices; the last
 * error; kernels known by host symbols; names and numbers. Memory, streams, modules and graphs are those of the fake
 * CUDA driver, compiled into this library and not exported: both vendors' have the same shapes, orders and rules, and
 * most results the same numbers.
 * Never: lets a device begin with a call that only asks; ships.
 *
 * Environment: FAKE_HIP_STATE, FAKE_HIP_DEVICES (default 2), FAKE_HIP_MEMORY (192G), FAKE_HIP_CONTEXT (300M),
 * FAKE_HIP_CODE (0), FAKE_HIP_UNITS (304), FAKE_HIP_VERSION (70200000), as tests/fake/cuda/state.h says of
 * FAKE_CUDA_...; FAKE_HIP_KFD, the folder for the compute driver's files (kernel_files.h); FAKE_HIP_BEGIN, how many
 * milliseconds a device's beginning takes before it holds anything, and again behind that (0); ROCR_VISIBLE_DEVICES,
 * HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES are read as the real runtimes do (visible.c).
 */
#ifndef FAKE_HIP_FAKE_H
#define FAKE_HIP_FAKE_H

#include <stdbool.h>

#include "tests/fake/cuda/fake.h"
#include "vendor/cuda/execution.h"
#include "vendor/hip/execution.h"

/* Starts the runtime, as the first call of any function does. A child of a process that had it stays outside. */
hipError_t fake_hip_init(void);

/* The same, and the calling thread's device has begun, with a context that is current. */
hipError_t fake_hip_enter(void);

/* Another device for the calling thread, without beginning it; and which it is. */
hipError_t fake_hip_choose(int device);
int fake_hip_device(void);

/* Ends a device's context and all that is in it. */
hipError_t fake_hip_end(int device);
bool fake_hip_has_begun(int device);

/* Keeps `result` as the thread's last error where it is one, and returns it. */
hipError_t fake_hip_record_error(hipError_t result);

/* The visible devices as indices of the machine's; how many. */
uint32_t fake_hip_visible(uint32_t visible[FAKE_DEVICES]);

/* The function of a host symbol on the calling thread's device; after fake_hip_enter(). */
hipError_t fake_hip_function(const void *host, CUfunction *ret_function);

/* Defines a function that begins its device and does `call`, whose result is a CUresult or hipError_t. */
#define FAKE_HIP(name, parameters, call)                                                                               \
    hipError_t name parameters                                                                                         \
    {                                                                                                                  \
        hipError_t result = fake_hip_enter();                                                                          \
                                                                                                                       \
        return fake_hip_record_error(result == hipSuccess ? (call) : result);                                          \
    }

/* The form for a call that only queries. */
#define FAKE_HIP_ASKS(name, parameters, call)                                                                          \
    hipError_t name parameters                                                                                         \
    {                                                                                                                  \
        hipError_t result = fake_hip_init();                                                                           \
                                                                                                                       \
        return fake_hip_record_error(result == hipSuccess ? (call) : result);                                          \
    }

#endif
