/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: compute instances of the fake libnvidia-ml.so.1, and their MIG devices.
 * Never: lets two compute instances of one GPU instance share a slice.
 */
#include <stddef.h>

#include "nvml_mig_state.h"

static struct nvmlComputeInstance_st handles[FAKE_DEVICES][FAKE_GPU_INSTANCES][FAKE_SLICES];

static nvmlComputeInstance_t handle_of(const struct nvmlGpuInstance_st *parent, uint32_t id)
{
    nvmlComputeInstance_t handle = &handles[parent->device][parent->id][id];

    *handle = (struct nvmlComputeInstance_st){parent->device, parent->id, id};
    return handle;
}

bool fake_compute_instance_exists(uint32_t device, uint32_t gpu_instance, uint32_t compute_instance)
{
    const struct fake_gpu_instance *instance = &fake_mig(device)->instances[gpu_instance];
    return instance->profile_plus_one && instance->computes[compute_instance].profile_plus_one;
}

#define ENTER_INSTANCE(handle, arguments_valid, instance, profile)                                                     \
    struct fake_gpu_instance *instance;                                                                                \
    const struct fake_gpu_profile *profile;                                                                            \
    nvmlReturn_t entered_ = fake_enter_gpu_instance(handle, arguments_valid, &instance, &profile);                     \
    if (entered_ != NVML_SUCCESS)                                                                                      \
    return entered_

static uint32_t units_of(const struct fake_gpu_profile *profile, uint32_t slices)
{
    return profile->units * slices / profile->slices & ~1u;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned profile_index,
                                                          unsigned engine, nvmlComputeInstanceProfileInfo_t *info)
{
    uint32_t slices = fake_compute_slices(profile_index);

    ENTER_INSTANCE(handle,
                   info && profile_index < NVML_COMPUTE_INSTANCE_PROFILE_COUNT &&
                       engine == NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
                   instance, profile);
    (void)instance;
    uint32_t starts = fake_compute_starts(slices, profile->slices);
    if (!starts)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlComputeInstanceProfileInfo_t){.id = profile_index,
                                               .sliceCount = slices,
                                               .instanceCount = (unsigned)__builtin_popcount(starts),
                                               .multiprocessorCount = units_of(profile, slices),
                                               .sharedCopyEngineCount = profile->copy,
                                               .sharedDecoderCount = profile->decode,
                                               .sharedJpegCount = profile->jpeg,
                                               .sharedOfaCount = profile->flow};
    return NVML_SUCCESS;
}

static uint32_t slice_mask(uint32_t start, uint32_t size)
{
    return ((1u << size) - 1) << start;
}

static uint32_t free_starts(const struct fake_gpu_instance *instance, uint32_t slices, uint32_t instance_slices)
{
    uint32_t taken_mask = 0, possible = fake_compute_starts(slices, instance_slices), starts = 0;

    for (uint32_t i = 0; i < FAKE_SLICES; i++)
        if (instance->computes[i].profile_plus_one)
            taken_mask |= slice_mask(instance->computes[i].start,
                                     fake_compute_slices(instance->computes[i].profile_plus_one - 1));
    for (uint32_t start = 0; start < instance_slices; start++)
        if (possible >> start & 1 && !(slice_mask(start, slices) & taken_mask))
            starts |= 1u << start;
    return starts;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle, unsigned profile_id,
                                                                 nvmlComputeInstancePlacement_t *placements,
                                                                 unsigned *count)
{
    uint32_t slices = fake_compute_slices(profile_id), found = 0;

    ENTER_INSTANCE(handle, count, instance, profile);
    (void)instance;
    uint32_t starts = fake_compute_starts(slices, profile->slices);
    if (!starts)
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t start = 0; start < profile->slices; start++)
        if (starts >> start & 1) {
            if (placements && found < *count)
                placements[found] = (nvmlComputeInstancePlacement_t){start, slices};
            found++;
        }
    bool fits = !placements || found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned profile_id,
                                                                unsigned *count)
{
    uint32_t slices = fake_compute_slices(profile_id);

    ENTER_INSTANCE(handle, count, instance, profile);
    if (!fake_compute_starts(slices, profile->slices))
        return NVML_ERROR_NOT_SUPPORTED;
    fake_lock();
    *count = (unsigned)__builtin_popcount(free_starts(instance, slices, profile->slices));
    fake_unlock();
    return NVML_SUCCESS;
}

static uint32_t free_id(const struct fake_gpu_instance *instance)
{
    uint32_t id = 0;

    while (instance->computes[id].profile_plus_one)
        id++;
    return id;
}

static nvmlReturn_t create_instance(nvmlGpuInstance_t handle, unsigned profile_id,
                                    const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *ret_compute)
{
    uint32_t slices = fake_compute_slices(profile_id);

    ENTER_INSTANCE(handle, ret_compute, instance, profile);
    uint32_t possible = fake_compute_starts(slices, profile->slices);
    if (!possible)
        return NVML_ERROR_NOT_SUPPORTED;
    if (placement &&
        (placement->start >= FAKE_SLICES || placement->size != slices || !(possible >> placement->start & 1)))
        return NVML_ERROR_INVALID_ARGUMENT;
    fake_lock();
    uint32_t starts =
        free_starts(instance, slices, profile->slices) & (placement ? 1u << placement->start : UINT32_MAX);
    if (starts) {
        uint32_t id = free_id(instance);
        instance->computes[id].start = (uint32_t)__builtin_ctz(starts);
        instance->computes[id].profile_plus_one = profile_id + 1;
        *ret_compute = handle_of(handle, id);
    }
    fake_unlock();
    return starts ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned profile_id,
                                                  nvmlComputeInstance_t *compute)
{
    return create_instance(handle, profile_id, NULL, compute);
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t handle, unsigned profile_id,
                                                               const nvmlComputeInstancePlacement_t *placement,
                                                               nvmlComputeInstance_t *compute)
{
    return placement ? create_instance(handle, profile_id, placement, compute) : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t enter_compute(nvmlComputeInstance_t handle, bool arguments_valid)
{
    nvmlReturn_t result = fake_initialised(arguments_valid && handle);

    if (result != NVML_SUCCESS)
        return result;
    return fake_compute_instance_exists(handle->device, handle->gpu_instance, handle->id) ? NVML_SUCCESS
                                                                                          : NVML_ERROR_INVALID_ARGUMENT;
}

static struct fake_compute_instance *compute_of(nvmlComputeInstance_t handle)
{
    return &fake_mig(handle->device)->instances[handle->gpu_instance].computes[handle->id];
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    nvmlReturn_t result = enter_compute(handle, true);

    if (result != NVML_SUCCESS)
        return result;
    fake_lock();
    compute_of(handle)->profile_plus_one = 0;
    fake_unlock();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned profile_id,
                                                nvmlComputeInstance_t *computes, unsigned *count)
{
    ENTER_INSTANCE(handle, computes && count, instance, profile);
    if (!fake_compute_starts(fake_compute_slices(profile_id), profile->slices))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (uint32_t id = 0; id < FAKE_SLICES; id++)
        if (instance->computes[id].profile_plus_one == profile_id + 1)
            computes[(*count)++] = handle_of(handle, id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned id,
                                                   nvmlComputeInstance_t *compute)
{
    ENTER_INSTANCE(handle, compute, instance, profile);
    (void)profile;
    if (id >= FAKE_SLICES || !instance->computes[id].profile_plus_one)
        return NVML_ERROR_NOT_FOUND;
    *compute = handle_of(handle, id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    nvmlReturn_t result = enter_compute(handle, info);

    if (result != NVML_SUCCESS)
        return result;
    uint32_t profile_index = compute_of(handle)->profile_plus_one - 1;
    *info = (nvmlComputeInstanceInfo_t){.device = fake_handle(handle->device),
                                        .gpuInstance = fake_gpu_instance_handle(handle->device, handle->gpu_instance),
                                        .id = handle->id,
                                        .profileId = profile_index,
                                        .placement = {compute_of(handle)->start, fake_compute_slices(profile_index)}};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t handle, unsigned *is_mig)
{
    FAKE_ENTER(handle, is_mig, device);
    (void)device;
    *is_mig = handle->is_mig;
    return NVML_SUCCESS;
}

/* Begins a function about a MIG device. */
#define ENTER_MIG_DEVICE(handle, arguments_valid, device)                                                              \
    FAKE_ENTER(handle, arguments_valid, device);                                                                       \
    if (!handle->is_mig)                                                                                               \
    return NVML_ERROR_NOT_SUPPORTED

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t handle, unsigned *id)
{
    ENTER_MIG_DEVICE(handle, id, device);
    (void)device;
    *id = handle->gpu_instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t handle, unsigned *id)
{
    ENTER_MIG_DEVICE(handle, id, device);
    (void)device;
    *id = handle->compute_instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned *count)
{
    FAKE_ENTER_GPU(handle, count, device);
    *count = fake_mig_capable(device) ? FAKE_SLICES : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned index, nvmlDevice_t *mig)
{
    FAKE_ENTER_GPU(handle, mig && index < FAKE_SLICES, device);
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; i < FAKE_GPU_INSTANCES * FAKE_SLICES; i++)
        if (fake_compute_instance_exists(device, i / FAKE_SLICES, i % FAKE_SLICES) && index-- == 0) {
            *mig = fake_mig_handle(device, i / FAKE_SLICES, i % FAKE_SLICES);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    ENTER_MIG_DEVICE(mig, device, index);
    *device = fake_handle(index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t handle, nvmlDeviceAttributes_t *attributes)
{
    ENTER_MIG_DEVICE(handle, attributes, device);
    const struct fake_gpu_instance *instance = &fake_mig(device)->instances[handle->gpu_instance];
    const struct fake_gpu_profile *profile = fake_gpu_profile(instance->profile_plus_one - 1);
    uint32_t slices = fake_compute_slices(instance->computes[handle->compute_instance].profile_plus_one - 1);

    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = units_of(profile, slices),
                                           .sharedCopyEngineCount = profile->copy,
                                           .sharedDecoderCount = profile->decode,
                                           .sharedJpegCount = profile->jpeg,
                                           .sharedOfaCount = profile->flow,
                                           .gpuInstanceSliceCount = profile->slices,
                                           .computeInstanceSliceCount = slices,
                                           .memorySizeMB = fake_gpu_instance_bytes(device, handle->gpu_instance) >> 20};
    return NVML_SUCCESS;
}
