/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the fake libnvidia-ml.so.1 share: handles, and how every function begins.
 *
 * Owns: the handles of this process, which are places in tables; each use checks whether a handle means something.
 * Never: is linked by anything that ships.
 */
#ifndef FAKE_CUDA_NVML_FAKE_H
#define FAKE_CUDA_NVML_FAKE_H

/* Only the symbols of the vendor's library are exported. */
#pragma GCC visibility push(default)
#include "vendor/cuda/nvml.h"
#include "vendor/cuda/nvml_mig.h"
#pragma GCC visibility pop

#include "identity.h"
#include "state.h"

/* A GPU, or the device that a compute instance is. */
struct nvmlDevice_st {
    uint32_t device, gpu_instance, compute_instance;
    bool is_mig;
};

nvmlDevice_t fake_handle(uint32_t device);
nvmlDevice_t fake_mig_handle(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance);

/* The GPU that a handle is or, of the second, is on. NVML_ERROR_UNINITIALIZED, _INVALID_ARGUMENT, _GPU_IS_LOST. */
nvmlReturn_t fake_enter_gpu(nvmlDevice_t handle, bool sane, uint32_t *ret_device);
nvmlReturn_t fake_enter(nvmlDevice_t handle, bool sane, uint32_t *ret_device);
nvmlReturn_t fake_initialised(bool sane);

/* How a function begins: `sane` says whether the other arguments are, `device` is declared. */
#define FAKE_ENTER_GPU(handle, sane, device)                                                                           \
    uint32_t device;                                                                                                   \
    nvmlReturn_t entered_ = fake_enter_gpu(handle, sane, &device);                                                     \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_
#define FAKE_ENTER(handle, sane, device)                                                                               \
    uint32_t device;                                                                                                   \
    nvmlReturn_t entered_ = fake_enter(handle, sane, &device);                                                         \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_

/* Writes text as the library does: NVML_ERROR_INSUFFICIENT_SIZE when it does not fit. */
nvmlReturn_t fake_text(char *text, unsigned length, const char *format, ...) __attribute__((format(printf, 3, 4)));

void fake_uuid(nvmlDevice_t handle, char text[FAKE_UUID_SIZE]);

/* Where a device is on the bus. */
void fake_pci(uint32_t device, nvmlPciInfo_t *ret_info);

/* Percent of the last sample period that has ended in which the device, or a process on it, was busy. */
struct fake_sample fake_sample_device(uint32_t device);
struct fake_sample fake_sample_process(uint32_t slot, uint32_t device);

/* Device time of all work on a device that is over. */
uint64_t fake_busy_ns(uint32_t device);
uint64_t fake_energy_mj(uint32_t device);
unsigned fake_power_mw(uint32_t device);
unsigned fake_celsius(uint32_t device);

/* MIG: whether a device can be cut at all, and is; whether an instance exists. */
bool fake_mig_capable(uint32_t device);
bool fake_mig_enabled(uint32_t device);
bool fake_compute_instance_exists(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance);
uint64_t fake_gpu_instance_bytes(uint32_t device, uint32_t gpu_instance);

#endif
