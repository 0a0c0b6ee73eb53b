/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: MIG of the fake libnvidia-ml.so.1: its mode, GPU instances. The present instances are in the shared state.
 * Never: lets two instances share a slice.
 */
#include "nvml_mig.h"

#include <stdio.h>
#include <string.h>

#include "nvml_mig_state.h"

static struct nvmlGpuInstance_st handles[FAKE_DEVICES][FAKE_GPU_INSTANCES];

nvmlGpuInstance_t fake_gpu_instance_handle(uint32_t device, uint32_t id)
{
    handles[device][id] = (struct nvmlGpuInstance_st){device, id};
    return &handles[device][id];
}

nvmlReturn_t fake_enter_gpu_instance(nvmlGpuInstance_t handle, bool arguments_valid,
                                     struct fake_gpu_instance **ret_instance,
                                     const struct fake_gpu_profile **ret_profile)
{
    nvmlReturn_t result = fake_initialised(arguments_valid && handle);

    if (result != NVML_SUCCESS)
        return result;
    struct fake_gpu_instance *instance = &fake_mig(handle->device)->instances[handle->id];
    if (!instance->profile_plus_one)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (atomic_load(&fake_state()->devices[handle->device].lost))
        return NVML_ERROR_GPU_IS_LOST;
    *ret_instance = instance;
    *ret_profile = fake_gpu_profile(instance->profile_plus_one - 1);
    return NVML_SUCCESS;
}

struct fake_mig *fake_mig(uint32_t device)
{
    return &fake_state()->management.mig[device];
}

bool fake_mig_capable(uint32_t device)
{
    return fake_state()->devices[device].memory_bytes >= UINT64_C(80) << 30;
}

bool fake_mig_enabled(uint32_t device)
{
    return fake_mig_capable(device) && fake_mig(device)->mode == NVML_DEVICE_MIG_ENABLE;
}

static uint64_t profile_bytes(uint32_t device, const struct fake_gpu_profile *profile)
{
    return fake_state()->devices[device].memory_bytes / FAKE_MEMORY_SLICES * profile->memory_slices;
}

uint64_t fake_gpu_instance_bytes(uint32_t device, uint32_t gpu_instance)
{
    uint32_t profile_index = fake_mig(device)->instances[gpu_instance].profile_plus_one;
    return profile_index ? profile_bytes(device, fake_gpu_profile(profile_index - 1)) : 0;
}

/* Begins a function about MIG. */
#define ENTER_MIG(handle, arguments_valid, device)                                                                     \
    FAKE_ENTER_GPU(handle, arguments_valid, device);                                                                   \
    if (!fake_mig_capable(device))                                                                                     \
    return NVML_ERROR_NOT_SUPPORTED

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned *current, unsigned *pending)
{
    ENTER_MIG(handle, current && pending, device);
    *current = fake_mig(device)->mode;
    *pending = fake_mig(device)->pending;
    return NVML_SUCCESS;
}

static bool has_instances(uint32_t device)
{
    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++)
        if (fake_mig(device)->instances[id].profile_plus_one)
            return true;
    return false;
}

/* As on Hopper: the mode changes at once if no process uses the device; else it stays pending, with the reason. */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t handle, unsigned mode, nvmlReturn_t *activation)
{
    ENTER_MIG(handle, activation && mode <= NVML_DEVICE_MIG_ENABLE, device);
    bool used = fake_used(device) != 0;

    fake_lock();
    struct fake_mig *mig = fake_mig(device);
    mig->pending = mode;
    bool active = mig->mode == mode || (!used && !has_instances(device));
    if (active)
        mig->mode = mode;
    fake_unlock();
    *activation = active ? NVML_SUCCESS : NVML_ERROR_IN_USE;
    return NVML_SUCCESS;
}

static nvmlReturn_t describe_profile(nvmlDevice_t handle, unsigned profile_index, bool arguments_valid,
                                     nvmlGpuInstanceProfileInfo_v2_t *ret_info)
{
    const struct fake_gpu_profile *profile = fake_gpu_profile(profile_index);

    ENTER_MIG(handle, arguments_valid && profile_index < NVML_GPU_INSTANCE_PROFILE_COUNT, device);
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;

    uint64_t bytes = profile_bytes(device, profile), gib = UINT64_C(1) << 30;
    *ret_info = (nvmlGpuInstanceProfileInfo_v2_t){.version = VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2),
                                                  .id = profile->id,
                                                  .sliceCount = profile->slices,
                                                  .instanceCount = profile->max_count,
                                                  .multiprocessorCount = profile->units,
                                                  .copyEngineCount = profile->copy,
                                                  .decoderCount = profile->decode,
                                                  .jpegCount = profile->jpeg,
                                                  .ofaCount = profile->flow,
                                                  .memorySizeMB = bytes >> 20};
    snprintf(ret_info->name, sizeof ret_info->name, "%ug.%llugb%s", profile->slices,
             (unsigned long long)((bytes + gib / 2) / gib), profile->suffix);
    return NVML_SUCCESS;
}

#ifndef FAKE_OLD
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t handle, unsigned profile_index,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (info && info->version != VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return describe_profile(handle, profile_index, info, info);
}
#endif

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t handle, unsigned profile_index,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    nvmlGpuInstanceProfileInfo_v2_t info_v2;
    nvmlReturn_t result = describe_profile(handle, profile_index, info, &info_v2);

    /* The first form has the fields of the second without version and name. */
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){.id = info_v2.id,
                                               .isP2pSupported = info_v2.isP2pSupported,
                                               .sliceCount = info_v2.sliceCount,
                                               .instanceCount = info_v2.instanceCount,
                                               .multiprocessorCount = info_v2.multiprocessorCount,
                                               .copyEngineCount = info_v2.copyEngineCount,
                                               .decoderCount = info_v2.decoderCount,
                                               .encoderCount = info_v2.encoderCount,
                                               .jpegCount = info_v2.jpegCount,
                                               .ofaCount = info_v2.ofaCount,
                                               .memorySizeMB = info_v2.memorySizeMB};
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t handle, unsigned profile_id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned *count)
{
    uint32_t profile_index, found = 0;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &profile_index);

    ENTER_MIG(handle, count, device);
    (void)device;
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t start = 0; start < FAKE_MEMORY_SLICES; start++)
        if (profile->starts >> start & 1) {
            if (placements && found < *count)
                placements[found] = (nvmlGpuInstancePlacement_t){start, profile->memory_slices};
            found++;
        }
    bool fits = !placements || found <= *count;
    *count = found;
    return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static uint32_t slice_mask(uint32_t start, uint32_t size)
{
    return ((1u << size) - 1) << start;
}

static uint32_t taken_slices(uint32_t device)
{
    uint32_t taken_mask = 0;

    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++) {
        const struct fake_gpu_instance *instance = &fake_mig(device)->instances[id];
        if (instance->profile_plus_one)
            taken_mask |= slice_mask(instance->start, fake_gpu_profile(instance->profile_plus_one - 1)->memory_slices);
    }
    return taken_mask;
}

static uint32_t count_of(uint32_t device, uint32_t profile_index)
{
    uint32_t count = 0;

    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++)
        count += fake_mig(device)->instances[id].profile_plus_one == profile_index + 1;
    return count;
}

/* Where one more instance may begin: a bit for each start. */
static uint32_t free_starts(uint32_t device, uint32_t profile_index)
{
    const struct fake_gpu_profile *profile = fake_gpu_profile(profile_index);
    uint32_t taken_mask = taken_slices(device), starts = 0;

    if (count_of(device, profile_index) >= profile->max_count)
        return 0;
    for (uint32_t start = 0; start < FAKE_MEMORY_SLICES; start++)
        if (profile->starts >> start & 1 && !(slice_mask(start, profile->memory_slices) & taken_mask))
            starts |= 1u << start;
    return starts;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t handle, unsigned profile_id, unsigned *count)
{
    uint32_t profile_index;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &profile_index);

    ENTER_MIG(handle, count, device);
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    fake_lock();
    /*
     * The possible starts of a profile are apart by at least its size, so instances can occupy all free ones
     * at once.
     */
    uint32_t free = (uint32_t)__builtin_popcount(free_starts(device, profile_index)),
             more = profile->max_count - count_of(device, profile_index);
    fake_unlock();
    *count = free < more ? free : more;
    return NVML_SUCCESS;
}

/*
 * Without a placement the last free start is taken, so that large instances at the beginning stay possible. The real
 * driver's choice is undocumented.
 */
static nvmlReturn_t create_instance(nvmlDevice_t handle, unsigned profile_id,
                                    const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *ret_instance)
{
    uint32_t profile_index;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &profile_index);

    ENTER_MIG(handle, ret_instance, device);
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!profile ||
        (placement && (placement->start >= FAKE_MEMORY_SLICES || placement->size != profile->memory_slices ||
                       !(profile->starts >> placement->start & 1))))
        return NVML_ERROR_INVALID_ARGUMENT;
    fake_lock();
    uint32_t starts = free_starts(device, profile_index) & (placement ? 1u << placement->start : UINT32_MAX);
    if (starts) {
        uint32_t start = 31u - (uint32_t)__builtin_clz(starts);
        uint32_t id = fake_gpu_instance_id(start, profile->memory_slices);
        struct fake_gpu_instance *made = &fake_mig(device)->instances[id];
        made->start = start;
        made->made_count++;
        made->profile_plus_one = profile_index + 1;
        *ret_instance = fake_gpu_instance_handle(device, id);
    }
    fake_unlock();
    if (!starts)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    fake_raise_event(device, nvmlEventMigConfigChange, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t handle, unsigned profile_id, nvmlGpuInstance_t *instance)
{
    return create_instance(handle, profile_id, NULL, instance);
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t handle, unsigned profile_id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *instance)
{
    return placement ? create_instance(handle, profile_id, placement, instance) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    struct fake_gpu_instance *instance;
    const struct fake_gpu_profile *profile;
    nvmlReturn_t result = fake_enter_gpu_instance(handle, true, &instance, &profile);
    bool used = false;

    if (result != NVML_SUCCESS)
        return result;
    fake_lock();
    for (uint32_t i = 0; i < FAKE_SLICES; i++)
        used |= instance->computes[i].profile_plus_one != 0;
    if (!used)
        instance->profile_plus_one = 0;
    fake_unlock();
    if (used)
        return NVML_ERROR_IN_USE;
    fake_raise_event(handle->device, nvmlEventMigConfigChange, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t handle, unsigned profile_id, nvmlGpuInstance_t *instances,
                                       unsigned *count)
{
    uint32_t profile_index;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &profile_index);

    ENTER_MIG(handle, instances && count, device);
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++)
        if (fake_mig(device)->instances[id].profile_plus_one == profile_index + 1)
            instances[(*count)++] = fake_gpu_instance_handle(device, id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t handle, unsigned id, nvmlGpuInstance_t *instance)
{
    ENTER_MIG(handle, instance, device);
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    if (id >= FAKE_GPU_INSTANCES || !fake_mig(device)->instances[id].profile_plus_one)
        return NVML_ERROR_NOT_FOUND;
    *instance = fake_gpu_instance_handle(device, id);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    struct fake_gpu_instance *instance;
    const struct fake_gpu_profile *profile;
    nvmlReturn_t result = fake_enter_gpu_instance(handle, info, &instance, &profile);

    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceInfo_t){.device = fake_handle(handle->device),
                                        .id = handle->id,
                                        .profileId = profile->id,
                                        .placement = {instance->start, profile->memory_slices}};
    return result;
}
