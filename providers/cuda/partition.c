/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: MIG: GPU instances as partitions, each with one compute instance over all of it.
 * Never: changes the mode of a GPU, or an instance made by another program, except to destroy one on request.
 *
 * A slice is a memory slice, in which placements are counted; the profile sets the compute slices. A GPU instance with
 * several compute instances, made by another program, is listed once, as the first of them. A GPU instance without a
 * compute instance is no device yet, and is listed under a name made of its number.
 */
#include <stdlib.h>

#include "cuda.h"

#define MIB        (UINT64_C(1) << 20)
#define MAX_STARTS 16u

struct profile {
    nvmlGpuInstanceProfileInfo_t info;
    char name[32];
    nvmlGpuInstancePlacement_t places[MAX_STARTS];
    unsigned place_count;
};

bool cuda_can_partition(const struct cuda_nvml *nvml)
{
    return nvml->nvmlDeviceGetGpuInstanceProfileInfo && nvml->nvmlDeviceGetGpuInstancePossiblePlacements_v2 &&
           nvml->nvmlDeviceGetGpuInstanceRemainingCapacity && nvml->nvmlDeviceCreateGpuInstanceWithPlacement &&
           nvml->nvmlGpuInstanceDestroy && nvml->nvmlDeviceGetGpuInstances && nvml->nvmlGpuInstanceGetInfo &&
           nvml->nvmlGpuInstanceGetComputeInstanceProfileInfo && nvml->nvmlGpuInstanceCreateComputeInstance &&
           nvml->nvmlGpuInstanceGetComputeInstances && nvml->nvmlComputeInstanceDestroy &&
           nvml->nvmlDeviceGetMigDeviceHandleByIndex && nvml->nvmlDeviceGetGpuInstanceId &&
           nvml->nvmlDeviceGetComputeInstanceId;
}

/* Names the profile "1g.10gb". An older library has no names: then the name is composed as nvidia-smi does. */
static void name_profile(const struct cuda_nvml *nvml, nvmlDevice_t gpu, unsigned place, struct profile *profile)
{
    nvmlGpuInstanceProfileInfo_v2_t named = {.version = VENDOR_NVML_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2)};
    const char *plain = named.name;

    if (CUDA_NVML(nvml, nvmlDeviceGetGpuInstanceProfileInfoV, gpu, place, &named) != NVML_SUCCESS) {
        snprintf(profile->name, sizeof profile->name, "%ug.%llugb%s", profile->info.sliceCount,
                 (profile->info.memorySizeMB + 512) / 1024,
                 place == NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 || place == NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1
                     ? "+me"
                     : "");
        return;
    }
    if (strncmp(plain, "MIG ", 4) == 0)
        plain += 4;
    FACET_KIT_TEXT(profile->name, plain);
}

static bool read_profile(const struct cuda_nvml *nvml, nvmlDevice_t gpu, unsigned place, struct profile *ret_profile)
{
    struct profile profile = {.place_count = MAX_STARTS};

    if (nvml->nvmlDeviceGetGpuInstanceProfileInfo(gpu, place, &profile.info) != NVML_SUCCESS ||
        nvml->nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, profile.info.id, profile.places,
                                                            &profile.place_count) != NVML_SUCCESS ||
        profile.place_count == 0)
        return false;
    name_profile(nvml, gpu, place, &profile);
    *ret_profile = profile;
    return true;
}

static enum facet_status find_profile(const struct facet_provider_instance *instance, uint32_t device, const char *id,
                                      struct profile *ret_profile, struct facet_error *error)
{
    for (unsigned place = 0; id && place < NVML_GPU_INSTANCE_PROFILE_COUNT; place++)
        if (read_profile(&instance->nvml, instance->gpus[device].handle, place, ret_profile) &&
            strcmp(ret_profile->name, id) == 0)
            return FACET_OK;
    if (!id)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "template_id: expected the id of a template, not NULL");
    return facet_kit_fail(error, FACET_NOT_FOUND, "template '%.32s': expected one that the device lists", id);
}

static uint32_t milli_of(const struct facet_device_info *whole, const nvmlGpuInstanceProfileInfo_t *info)
{
    return whole->compute_units ? info->multiprocessorCount * FACET_MILLI_WHOLE / whole->compute_units
                                : info->sliceCount * FACET_MILLI_WHOLE / 7; /* a GPU has seven compute slices */
}

static enum facet_status cuda_partition_templates(struct facet_provider_instance *instance, uint32_t device,
                                                  void *items, uint32_t item_size, uint32_t capacity,
                                                  uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_template found[NVML_GPU_INSTANCE_PROFILE_COUNT];
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);
    struct profile profile;
    uint32_t count = 0;

    if (status != FACET_OK)
        return status;
    for (unsigned place = 0; place < NVML_GPU_INSTANCE_PROFILE_COUNT; place++) {
        if (!read_profile(&instance->nvml, instance->gpus[device].handle, place, &profile))
            continue;
        found[count] =
            (struct facet_partition_template){.size = sizeof *found,
                                              .valid = FACET_PARTITION_HAS_MEMORY,
                                              .memory_bytes = profile.info.memorySizeMB * MIB,
                                              .compute_units = profile.info.multiprocessorCount,
                                              .compute_milli = milli_of(&instance->gpu.infos[device], &profile.info),
                                              .length = profile.places[0].size,
                                              .max_count = profile.info.instanceCount};
        FACET_KIT_TEXT(found[count].id, profile.name);
        count++;
    }
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}

/* Finds the MIG device of a GPU instance's first compute instance. */
static void find_device(const struct cuda_nvml *nvml, nvmlDevice_t gpu, struct cuda_part *part)
{
    for (unsigned i = 0; i < CUDA_MAX_PARTS; i++) {
        nvmlDevice_t mig;
        unsigned instance_id, compute_id;

        if (nvml->nvmlDeviceGetMigDeviceHandleByIndex(gpu, i, &mig) != NVML_SUCCESS ||
            nvml->nvmlDeviceGetGpuInstanceId(mig, &instance_id) != NVML_SUCCESS || instance_id != part->instance_id ||
            nvml->nvmlDeviceGetComputeInstanceId(mig, &compute_id) != NVML_SUCCESS ||
            (part->mig && compute_id > part->compute_id))
            continue;
        part->mig = mig;
        part->compute_id = compute_id;
    }
}

static bool is_used(const struct cuda_nvml *nvml, nvmlDevice_t mig, bool *ret_used)
{
    unsigned count = 0;
    nvmlReturn_t result = nvml->nvmlDeviceGetComputeRunningProcesses_v3
                              ? nvml->nvmlDeviceGetComputeRunningProcesses_v3(mig, &count, NULL)
                              : CUDA_NVML(nvml, nvmlDeviceGetComputeRunningProcesses_v2, mig, &count, NULL);

    *ret_used = count > 0;
    return result == NVML_SUCCESS || result == NVML_ERROR_INSUFFICIENT_SIZE;
}

static void describe_part(const struct facet_provider_instance *instance, uint32_t device,
                          const struct profile *profile, const nvmlGpuInstanceInfo_t *placed, struct cuda_part *part)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE] = "";
    bool used = false;

    part->info = (struct facet_partition_info){.size = sizeof part->info,
                                               .valid = FACET_PARTITION_HAS_MEMORY,
                                               .device = device,
                                               .start = placed->placement.start,
                                               .length = placed->placement.size,
                                               .memory_bytes = profile->info.memorySizeMB * MIB,
                                               .compute_units = profile->info.multiprocessorCount,
                                               .compute_milli = milli_of(&instance->gpu.infos[device], &profile->info)};
    FACET_KIT_TEXT(part->info.template_id, profile->name);
    snprintf(part->info.uuid, sizeof part->info.uuid, "GI-%u/%.48s", part->instance_id,
             instance->gpu.infos[device].uuid);
    if (!part->mig || nvml->nvmlDeviceGetUUID(part->mig, uuid, sizeof uuid) != NVML_SUCCESS)
        return;
    FACET_KIT_TEXT(part->info.uuid, uuid);
    FACET_KIT_TEXT(part->info.address, uuid);
    if (is_used(nvml, part->mig, &used)) {
        part->info.in_use = used;
        part->info.valid |= FACET_PARTITION_HAS_USE;
    }
}

static int compare_starts(const void *left, const void *right)
{
    const struct cuda_part *one = left, *other = right;
    return (one->info.start > other->info.start) - (one->info.start < other->info.start);
}

/* Adds the instances of one profile. */
static nvmlReturn_t add_parts(const struct facet_provider_instance *instance, uint32_t device,
                              const struct profile *profile, struct cuda_part parts[CUDA_MAX_PARTS], uint32_t *count)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    nvmlDevice_t gpu = instance->gpus[device].handle;
    nvmlGpuInstance_t handles[64] = {0};
    unsigned found = 0;

    if (profile->info.instanceCount > sizeof handles / sizeof *handles)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    nvmlReturn_t result = nvml->nvmlDeviceGetGpuInstances(gpu, profile->info.id, handles, &found);
    for (unsigned i = 0; result == NVML_SUCCESS && i < found && *count < CUDA_MAX_PARTS; i++) {
        nvmlGpuInstanceInfo_t placed;

        /* An instance that is destroyed meanwhile is skipped. */
        if (nvml->nvmlGpuInstanceGetInfo(handles[i], &placed) != NVML_SUCCESS)
            continue;
        struct cuda_part *part = &parts[(*count)++];
        *part = (struct cuda_part){.instance = handles[i], .instance_id = placed.id};
        find_device(nvml, gpu, part);
        describe_part(instance, device, profile, &placed, part);
    }
    return result;
}

enum facet_status cuda_parts_read(const struct facet_provider_instance *instance, uint32_t device,
                                  struct cuda_part parts[CUDA_MAX_PARTS], uint32_t *ret_count,
                                  struct facet_error *error)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    struct profile profile;
    uint32_t count = 0;

    for (unsigned place = 0; place < NVML_GPU_INSTANCE_PROFILE_COUNT; place++) {
        if (!read_profile(nvml, instance->gpus[device].handle, place, &profile))
            continue;
        nvmlReturn_t result = add_parts(instance, device, &profile, parts, &count);
        if (result != NVML_SUCCESS)
            return cuda_nvml_fail(nvml, error, "nvmlDeviceGetGpuInstances", result);
    }
    qsort(parts, count, sizeof *parts, compare_starts);
    *ret_count = count;
    return FACET_OK;
}

/* The partition that occupies some of the slices, or NULL. */
static const struct cuda_part *find_obstacle(const struct cuda_part *parts, uint32_t count,
                                             const nvmlGpuInstancePlacement_t *place)
{
    for (uint32_t i = 0; i < count; i++)
        if (place->start < parts[i].info.start + parts[i].info.length &&
            parts[i].info.start < place->start + place->size)
            return &parts[i];
    return NULL;
}

static enum facet_status count_remaining(const struct facet_provider_instance *instance, uint32_t device,
                                         const struct profile *profile, unsigned *ret_count, struct facet_error *error)
{
    nvmlReturn_t result = instance->nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(instance->gpus[device].handle,
                                                                                   profile->info.id, ret_count);

    return result == NVML_SUCCESS
               ? FACET_OK
               : cuda_nvml_fail(&instance->nvml, error, "nvmlDeviceGetGpuInstanceRemainingCapacity", result);
}

static enum facet_status placements_locked(struct facet_provider_instance *instance, uint32_t device,
                                           const char *template_id, void *items, uint32_t item_size, uint32_t capacity,
                                           uint32_t *ret_count, struct facet_error *error)
{
    struct facet_partition_placement found[MAX_STARTS];
    struct cuda_part parts[CUDA_MAX_PARTS];
    struct profile profile;
    uint32_t count = 0;
    unsigned left = 0;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK)
        status = find_profile(instance, device, template_id, &profile, error);
    if (status == FACET_OK)
        status = cuda_parts_read(instance, device, parts, &count, error);
    if (status == FACET_OK)
        status = count_remaining(instance, device, &profile, &left, error);
    if (status != FACET_OK)
        return status;
    for (unsigned i = 0; i < profile.place_count; i++)
        found[i] = (struct facet_partition_placement){.size = sizeof *found,
                                                      .start = profile.places[i].start,
                                                      .length = profile.places[i].size,
                                                      .free = left && !find_obstacle(parts, count, &profile.places[i])};
    return facet_kit_list_items(found, sizeof *found, profile.place_count, items, item_size, capacity, ret_count,
                                error);
}

/* The requested place; for FACET_PLACEMENT_ANY the last free one, so that large partitions fit at the beginning. */
static enum facet_status choose_placement(const struct facet_provider_instance *instance, uint32_t device,
                                          const struct profile *profile, uint32_t start,
                                          nvmlGpuInstancePlacement_t *ret_place, struct facet_error *error)
{
    struct cuda_part parts[CUDA_MAX_PARTS];
    const struct cuda_part *obstacle = NULL;
    uint32_t count = 0;
    unsigned left = 0;
    bool listed = false, chosen = false;
    enum facet_status status = cuda_parts_read(instance, device, parts, &count, error);

    if (status == FACET_OK)
        status = count_remaining(instance, device, profile, &left, error);
    if (status != FACET_OK)
        return status;
    for (unsigned i = 0; i < profile->place_count; i++) {
        const nvmlGpuInstancePlacement_t *place = &profile->places[i];

        if (start != FACET_PLACEMENT_ANY && place->start != start)
            continue;
        listed = true;
        const struct cuda_part *other = find_obstacle(parts, count, place);
        if (other)
            obstacle = other;
        else if (left && (!chosen || place->start > ret_place->start)) {
            *ret_place = *place;
            chosen = true;
        }
    }
    if (!listed)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "start %" PRIu32 ": expected a placement of '%s'", start,
                              profile->name);
    if (!chosen)
        return facet_kit_fail(error, FACET_NO_SPACE, "'%s' does not fit: %s occupies its place", profile->name,
                              obstacle ? obstacle->info.uuid : "another instance");
    return FACET_OK;
}

/* Makes one compute instance over all slices, with the profile of that size. */
static nvmlReturn_t fill_instance(const struct cuda_nvml *nvml, nvmlGpuInstance_t instance, unsigned slices)
{
    nvmlComputeInstance_t compute;
    nvmlReturn_t result = NVML_ERROR_NOT_SUPPORTED;

    for (unsigned place = 0; place < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; place++) {
        nvmlComputeInstanceProfileInfo_t info;

        if (nvml->nvmlGpuInstanceGetComputeInstanceProfileInfo(
                instance, place, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info) != NVML_SUCCESS ||
            info.sliceCount != slices)
            continue;
        result = nvml->nvmlGpuInstanceCreateComputeInstance(instance, info.id, &compute);
        if (result == NVML_SUCCESS)
            break;
    }
    return result;
}

/* Makes the GPU instance with its compute instance, or nothing. */
static enum facet_status make_instance(const struct facet_provider_instance *instance, uint32_t device,
                                       const struct profile *profile, const nvmlGpuInstancePlacement_t *place,
                                       nvmlGpuInstance_t *ret_made, struct facet_error *error)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    nvmlReturn_t result = nvml->nvmlDeviceCreateGpuInstanceWithPlacement(instance->gpus[device].handle,
                                                                         profile->info.id, place, ret_made);

    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(nvml, error, "nvmlDeviceCreateGpuInstanceWithPlacement", result);
    result = fill_instance(nvml, *ret_made, profile->info.sliceCount);
    if (result == NVML_SUCCESS)
        return FACET_OK;
    nvml->nvmlGpuInstanceDestroy(*ret_made);
    return cuda_nvml_fail(nvml, error, "nvmlGpuInstanceCreateComputeInstance", result);
}

static enum facet_status create_locked(struct facet_provider_instance *instance, uint32_t device,
                                       const char *template_id, uint32_t start, struct facet_partition_info *ret_info,
                                       struct facet_error *error)
{
    struct cuda_part part = {0};
    struct profile profile;
    nvmlGpuInstancePlacement_t place = {0};
    nvmlGpuInstanceInfo_t placed;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK && (!ret_info || ret_info->size < sizeof ret_info->size))
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_info: expected one with its size, not NULL");
    if (status == FACET_OK)
        status = find_profile(instance, device, template_id, &profile, error);
    if (status == FACET_OK)
        status = choose_placement(instance, device, &profile, start, &place, error);
    if (status == FACET_OK)
        status = make_instance(instance, device, &profile, &place, &part.instance, error);
    if (status != FACET_OK)
        return status;
    nvmlReturn_t result = instance->nvml.nvmlGpuInstanceGetInfo(part.instance, &placed);
    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(&instance->nvml, error, "nvmlGpuInstanceGetInfo", result);
    part.instance_id = placed.id;
    find_device(&instance->nvml, instance->gpus[device].handle, &part);
    describe_part(instance, device, &profile, &placed, &part);
    cuda_event_of_partition(instance, device, part.info.uuid, true);
    return facet_kit_struct(&part.info, sizeof part.info, ret_info, error);
}

static enum facet_status list_locked(struct facet_provider_instance *instance, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error)
{
    struct cuda_part parts[CUDA_MAX_PARTS];
    struct facet_partition_info infos[CUDA_MAX_PARTS];
    uint32_t count = 0;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK)
        status = cuda_parts_read(instance, device, parts, &count, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        infos[i] = parts[i].info;
    return facet_kit_list_items(infos, sizeof *infos, count, items, item_size, capacity, ret_count, error);
}

/*
 * Destroys the compute instances of a GPU instance, then the GPU instance itself. If a compute instance is in use, it
 * and the GPU instance stay.
 */
static nvmlReturn_t destroy_instance(const struct cuda_nvml *nvml, nvmlGpuInstance_t instance)
{
    for (unsigned place = 0; place < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; place++) {
        nvmlComputeInstanceProfileInfo_t info;
        nvmlComputeInstance_t computes[64] = {0};
        unsigned count = 0;

        if (nvml->nvmlGpuInstanceGetComputeInstanceProfileInfo(
                instance, place, NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info) != NVML_SUCCESS ||
            info.instanceCount > sizeof computes / sizeof *computes ||
            nvml->nvmlGpuInstanceGetComputeInstances(instance, info.id, computes, &count) != NVML_SUCCESS)
            continue;
        for (unsigned i = 0; i < count; i++) {
            nvmlReturn_t result = nvml->nvmlComputeInstanceDestroy(computes[i]);
            if (result != NVML_SUCCESS)
                return result;
        }
    }
    return nvml->nvmlGpuInstanceDestroy(instance);
}

static enum facet_status destroy_locked(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                        struct facet_error *error)
{
    struct cuda_part parts[CUDA_MAX_PARTS];
    uint32_t count = 0, at = 0;
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_PARTITION, error);

    if (status == FACET_OK && !uuid)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "uuid: expected that of a partition, not NULL");
    if (status == FACET_OK)
        status = cuda_parts_read(instance, device, parts, &count, error);
    if (status != FACET_OK)
        return status;
    while (at < count && strcmp(parts[at].info.uuid, uuid) != 0)
        at++;
    if (at == count)
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': device %" PRIu32 " has no such one", uuid,
                              device);
    nvmlReturn_t result = destroy_instance(&instance->nvml, parts[at].instance);
    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(&instance->nvml, error, "destroying the instance", result);
    cuda_event_of_partition(instance, device, parts[at].info.uuid, false);
    return FACET_OK;
}

/* Makes a call with parts_lock held, so that the partitions do not change until the answer is complete. */
#define LOCKED(instance, call)                                                                                         \
    do {                                                                                                               \
        pthread_mutex_lock(&(instance)->parts_lock);                                                                   \
        enum facet_status status_ = call;                                                                              \
        pthread_mutex_unlock(&(instance)->parts_lock);                                                                 \
        return status_;                                                                                                \
    } while (0)

static enum facet_status cuda_partition_placements(struct facet_provider_instance *instance, uint32_t device,
                                                   const char *template_id, void *items, uint32_t item_size,
                                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    LOCKED(instance, placements_locked(instance, device, template_id, items, item_size, capacity, ret_count, error));
}

static enum facet_status cuda_partition_create(struct facet_provider_instance *instance, uint32_t device,
                                               const char *template_id, uint32_t start,
                                               struct facet_partition_info *ret_info, struct facet_error *error)
{
    LOCKED(instance, create_locked(instance, device, template_id, start, ret_info, error));
}

static enum facet_status cuda_partition_list(struct facet_provider_instance *instance, uint32_t device, void *items,
                                             uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                             struct facet_error *error)
{
    LOCKED(instance, list_locked(instance, device, items, item_size, capacity, ret_count, error));
}

static enum facet_status cuda_partition_destroy(struct facet_provider_instance *instance, uint32_t device,
                                                const char *uuid, struct facet_error *error)
{
    LOCKED(instance, destroy_locked(instance, device, uuid, error));
}

const struct facet_partition_ops cuda_partition_ops = {
    .size = sizeof cuda_partition_ops,
    .templates = cuda_partition_templates,
    .placements = cuda_partition_placements,
    .create = cuda_partition_create,
    .list = cuda_partition_list,
    .destroy = cuda_partition_destroy,
};
