/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: handles of instances, and their entries in the shared state.
 * Never: is needed outside of them.
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

/* How a function of a GPU instance begins: the handle's instance, while it exists. */
nvmlReturn_t fake_enter_gpu_instance(nvmlGpuInstance_t handle, bool sane, struct fake_gpu_instance **ret_instance,
                                     const struct fake_gpu_profile **ret_profile);

#endif
