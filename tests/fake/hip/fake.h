/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake HIP runtime: HIP's interface to the made-up machine of tests/fake/cuda.
 *
 * Owns: the parts that differ from CUDA: devices without contexts, which are initialized when they are first used;
 * visible devices; the last error; kernels by their host symbols; names and numbers. Memory, streams, modules and
 * graphs are those of the fake CUDA driver, compiled into this library and not exported: in CUDA and HIP these have the
 * same structures, order and rules, and most results have the same numbers.
 * Never: initializes a device in a call that only queries; is packaged.
 *
 * Environment: FAKE_HIP_STATE, FAKE_HIP_DEVICES (default 2), FAKE_HIP_MEMORY (192G), FAKE_HIP_CONTEXT (300M),
 * FAKE_HIP_CODE (0), FAKE_HIP_UNITS (304), FAKE_HIP_VERSION (70200000), which mean what tests/fake/cuda/state.h says of
 * FAKE_CUDA_...; FAKE_HIP_KFD, the folder for the compute driver's files (kernel_files.h); FAKE_HIP_BEGIN, for how many
 * milliseconds the initialization of a device sleeps before it takes memory, and again after that (0);
 * ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, which mean what they mean for the real runtimes
 * (visible.c).
 */
#ifndef FAKE_HIP_FAKE_H
#define FAKE_HIP_FAKE_H

#include <stdbool.h>

#include "tests/fake/cuda/fake.h"
#include "vendor/cuda/execution.h"
#include "vendor/hip/execution.h"

/*
 * Starts the runtime unless it has started. The first call of any other function does this too. Fails in the child of a
 * process that has started the runtime.
 */
hipError_t fake_hip_init(void);

/* Calls fake_hip_init(), and initializes the calling thread's device, whose context becomes current. */
hipError_t fake_hip_enter(void);

/* These set and return the calling thread's device. Neither initializes it. */
hipError_t fake_hip_set_device(int device);
int fake_hip_device(void);

/* Ends a device's context and all that is in it. */
hipError_t fake_hip_reset_device(int device);
bool fake_hip_is_initialized(int device);

/* Keeps `result` as the thread's last error if it is an error, and returns it. */
hipError_t fake_hip_record_error(hipError_t result);

/* The visible devices, as indices of the machine's devices; returns how many. */
uint32_t fake_hip_visible(uint32_t visible[FAKE_DEVICES]);

/* The function of a host symbol on the calling thread's device; after fake_hip_enter(). */
hipError_t fake_hip_function(const void *host, CUfunction *ret_function);

/* Defines a function that initializes its device and evaluates `call`, a CUresult or hipError_t. */
#define FAKE_HIP(name, parameters, call)                                                                               \
    hipError_t name parameters                                                                                         \
    {                                                                                                                  \
        hipError_t result = fake_hip_enter();                                                                          \
                                                                                                                       \
        return fake_hip_record_error(result == hipSuccess ? (call) : result);                                          \
    }

/* Like FAKE_HIP(), for a function that initializes no device. */
#define FAKE_HIP_QUERY(name, parameters, call)                                                                         \
    hipError_t name parameters                                                                                         \
    {                                                                                                                  \
        hipError_t result = fake_hip_init();                                                                           \
                                                                                                                       \
        return fake_hip_record_error(result == hipSuccess ? (call) : result);                                          \
    }

#endif
