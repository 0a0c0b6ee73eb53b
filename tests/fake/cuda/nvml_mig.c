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

nvmlReturn_t fake_enter_gpu_instance(nvmlGpuInstance_t handle, bool sane, struct fake_gpu_instance **ret_instance,
                                     const struct fake_gpu_profile **ret_profile)
{
    nvmlReturn_t result = fake_initialised(sane && handle);

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
    uint32_t place = fake_mig(device)->instances[gpu_instance].profile_plus_one;
    return place ? profile_bytes(device, fake_gpu_profile(place - 1)) : 0;
}

/* How a function about MIG begins. */
#define ENTER_MIG(handle, sane, device)                                                                                \
    FAKE_ENTER_GPU(handle, sane, device);                                                                              \
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

/* As from Hopper on: at once when no process uses the device, else it stays pending and the activation says why. */
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

static nvmlReturn_t describe_profile(nvmlDevice_t handle, unsigned place, bool sane,
                                     nvmlGpuInstanceProfileInfo_v2_t *ret_info)
{
    const struct fake_gpu_profile *profile = fake_gpu_profile(place);

    ENTER_MIG(handle, sane && place < NVML_GPU_INSTANCE_PROFILE_COUNT, device);
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;

    uint64_t bytes = profile_bytes(device, profile), gib = UINT64_C(1) << 30;
    *ret_info = (nvmlGpuInstanceProfileInfo_v2_t){.version = VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2),
                                                  .id = profile->id,
                                                  .sliceCount = profile->slices,
                                                  .instanceCount = profile->most,
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
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t handle, unsigned place,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    if (info && info->version != VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return describe_profile(handle, place, info, info);
}
#endif

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t handle, unsigned place,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    nvmlGpuInstanceProfileInfo_v2_t whole;
    nvmlReturn_t result = describe_profile(handle, place, info, &whole);

    /* The first form is the second without version and name. */
    if (result == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){.id = whole.id,
                                               .isP2pSupported = whole.isP2pSupported,
                                               .sliceCount = whole.sliceCount,
                                               .instanceCount = whole.instanceCount,
                                               .multiprocessorCount = whole.multiprocessorCount,
                                               .copyEngineCount = whole.copyEngineCount,
                                               .decoderCount = whole.decoderCount,
                                               .encoderCount = whole.encoderCount,
                                               .jpegCount = whole.jpegCount,
                                               .ofaCount = whole.ofaCount,
                                               .memorySizeMB = whole.memorySizeMB};
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t handle, unsigned profile_id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned *count)
{
    uint32_t place, found = 0;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &place);

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

static uint32_t run_of(uint32_t start, uint32_t size)
{
    return ((1u << size) - 1) << start;
}

static uint32_t taken_slices(uint32_t device)
{
    uint32_t taken = 0;

    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++) {
        const struct fake_gpu_instance *instance = &fake_mig(device)->instances[id];
        if (instance->profile_plus_one)
            taken |= run_of(instance->start, fake_gpu_profile(instance->profile_plus_one - 1)->memory_slices);
    }
    return taken;
}

static uint32_t count_of(uint32_t device, uint32_t place)
{
    uint32_t count = 0;

    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++)
        count += fake_mig(device)->instances[id].profile_plus_one == place + 1;
    return count;
}

/* Where one more instance may begin: a bit for each start. */
static uint32_t free_starts(uint32_t device, uint32_t place)
{
    const struct fake_gpu_profile *profile = fake_gpu_profile(place);
    uint32_t taken = taken_slices(device), starts = 0;

    if (count_of(device, place) >= profile->most)
        return 0;
    for (uint32_t start = 0; start < FAKE_MEMORY_SLICES; start++)
        if (profile->starts >> start & 1 && !(run_of(start, profile->memory_slices) & taken))
            starts |= 1u << start;
    return starts;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t handle, unsigned profile_id, unsigned *count)
{
    uint32_t place;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &place);

    ENTER_MIG(handle, count, device);
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    fake_lock();
    /* The starts of one profile lie apart by its size: instances that can begin alone can begin together. */
    uint32_t free = (uint32_t)__builtin_popcount(free_starts(device, place)),
             more = profile->most - count_of(device, place);
    fake_unlock();
    *count = free < more ? free : more;
    return NVML_SUCCESS;
}

/* Without a placement the last that is free is taken, so that the large ones at the beginning stay possible; where the
 * real driver puts it is the driver's own. */
static nvmlReturn_t create_instance(nvmlDevice_t handle, unsigned profile_id,
                                    const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *ret_instance)
{
    uint32_t place;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &place);

    ENTER_MIG(handle, ret_instance, device);
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    if (!profile ||
        (placement && (placement->start >= FAKE_MEMORY_SLICES || placement->size != profile->memory_slices ||
                       !(profile->starts >> placement->start & 1))))
        return NVML_ERROR_INVALID_ARGUMENT;
    fake_lock();
    uint32_t starts = free_starts(device, place) & (placement ? 1u << placement->start : UINT32_MAX);
    if (starts) {
        uint32_t start = 31u - (uint32_t)__builtin_clz(starts);
        uint32_t id = fake_gpu_instance_id(start, profile->memory_slices);
        struct fake_gpu_instance *made = &fake_mig(device)->instances[id];
        made->start = start;
        made->made++;
        made->profile_plus_one = place + 1;
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
    uint32_t place;
    const struct fake_gpu_profile *profile = fake_gpu_profile_by_id(profile_id, &place);

    ENTER_MIG(handle, instances && count, device);
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!fake_mig_enabled(device))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    for (uint32_t id = 0; id < FAKE_GPU_INSTANCES; id++)
        if (fake_mig(device)->instances[id].profile_plus_one == place + 1)
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
