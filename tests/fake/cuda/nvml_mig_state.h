/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: handles of GPU and compute instances, and their entries in the shared state.
 * Never: is included by other files than nvml_mig*.c.
 */
#ifndef FAKE_CUDA_NVML_MIG_STATE_H
#define FAKE_CUDA_NVML_MIG_STATE_H

#include "nvml_fake.h"
#include "nvml_mig.h"

struct nvmlGpuInstance_st {
    uint32_t device, id;
};

struct nvmlComputeInstance_st {
    uint32_t device, gpu_instance, id;
};

struct fake_mig *fake_mig(uint32_t device);
nvmlGpuInstance_t fake_gpu_instance_handle(uint32_t device, uint32_t id);

/* Begins a function about a GPU instance: finds the handle's instance, if it still exists. */
nvmlReturn_t fake_enter_gpu_instance(nvmlGpuInstance_t handle, bool arguments_valid,
                                     struct fake_gpu_instance **ret_instance,
                                     const struct fake_gpu_profile **ret_profile);

#endif
