/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of the fake libnvidia-ml.so.1 share: handles, and how every function begins.
 *
 * Owns: the handles of this process, which are addresses of table entries; each call checks that its handle is one.
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

/* A GPU, or the MIG device of a compute instance. */
struct nvmlDevice_st {
    uint32_t device, gpu_instance, compute_instance;
    bool is_mig;
};

nvmlDevice_t fake_handle(uint32_t device);
nvmlDevice_t fake_mig_handle(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance);

/*
 * The GPU of a handle; fake_enter() also takes a MIG device, and returns its GPU. They fail with
 * NVML_ERROR_UNINITIALIZED, _INVALID_ARGUMENT or _GPU_IS_LOST.
 */
nvmlReturn_t fake_enter_gpu(nvmlDevice_t handle, bool arguments_valid, uint32_t *ret_device);
nvmlReturn_t fake_enter(nvmlDevice_t handle, bool arguments_valid, uint32_t *ret_device);
nvmlReturn_t fake_initialised(bool arguments_valid);

/* Begin a function: return its error, or declare `device`. `arguments_valid`: the other arguments are valid. */
#define FAKE_ENTER_GPU(handle, arguments_valid, device)                                                                \
    uint32_t device;                                                                                                   \
    nvmlReturn_t entered_ = fake_enter_gpu(handle, arguments_valid, &device);                                          \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_
#define FAKE_ENTER(handle, arguments_valid, device)                                                                    \
    uint32_t device;                                                                                                   \
    nvmlReturn_t entered_ = fake_enter(handle, arguments_valid, &device);                                              \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_

/* Writes text as the library does: NVML_ERROR_INSUFFICIENT_SIZE when it does not fit. */
nvmlReturn_t fake_text(char *text, unsigned length, const char *format, ...) __attribute__((format(printf, 3, 4)));

void fake_uuid(nvmlDevice_t handle, char text[FAKE_UUID_SIZE]);

/* The location of a device on the PCI bus. */
void fake_pci(uint32_t device, nvmlPciInfo_t *ret_info);

/* The percentage of the last complete sample period for which the device, or a process on it, was busy. */
struct fake_sample fake_sample_device(uint32_t device);
struct fake_sample fake_sample_process(uint32_t slot, uint32_t device);

/* The device time of all completed work on a device. */
uint64_t fake_busy_ns(uint32_t device);
uint64_t fake_energy_mj(uint32_t device);
unsigned fake_power_mw(uint32_t device);
unsigned fake_celsius(uint32_t device);

/* MIG: whether a device supports it, whether it is enabled, and whether an instance exists. */
bool fake_mig_capable(uint32_t device);
bool fake_mig_enabled(uint32_t device);
bool fake_compute_instance_exists(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance);
uint64_t fake_gpu_instance_bytes(uint32_t device, uint32_t gpu_instance);

#endif
