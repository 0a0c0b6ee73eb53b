/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library: multi-instance GPUs (MIG).
 *
 * Owns: GPU instances, compute instances, the devices made of them.
 * Never: is included beside the vendor's own nvml.h; holds code.
 *
 * A GPU is cut into GPU instances, each a run of memory slices with compute slices beside them; a GPU instance into
 * compute instances. Each compute instance is a device with a handle and a UUID of its own. A profile is asked for by
 * its place in the list of profiles; the answer has the number by which it is created.
 */
#ifndef VENDOR_CUDA_NVML_MIG_H
#define VENDOR_CUDA_NVML_MIG_H

#include "nvml.h"

typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

enum {
    NVML_DEVICE_MIG_DISABLE = 0,
    NVML_DEVICE_MIG_ENABLE = 1,

    NVML_GPU_INSTANCE_PROFILE_1_SLICE = 0,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE = 1,
    NVML_GPU_INSTANCE_PROFILE_3_SLICE = 2,
    NVML_GPU_INSTANCE_PROFILE_4_SLICE = 3,
    NVML_GPU_INSTANCE_PROFILE_7_SLICE = 4,
    NVML_GPU_INSTANCE_PROFILE_8_SLICE = 5,
    NVML_GPU_INSTANCE_PROFILE_6_SLICE = 6,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 = 7, /* with the media engines: +me */
    NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 = 8,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 = 9, /* with twice the memory */
    NVML_GPU_INSTANCE_PROFILE_COUNT = 17,       /* grows with the library; unsure for 13 */

    NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE = 0,
    NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE = 1,
    NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE = 2,
    NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE = 3,
    NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE = 4,
    NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE = 5,
    NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE = 6,
    NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 7,
    NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 8,
    NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0,
};

/* Of a GPU instance in memory slices, of a compute instance in compute slices of its GPU instance. */
typedef struct {
    unsigned start, size;
} nvmlGpuInstancePlacement_t;
typedef nvmlGpuInstancePlacement_t nvmlComputeInstancePlacement_t;

typedef struct {
    unsigned id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
        encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_t) == 48, "nvmlGpuInstanceProfileInfo_t");

/* Of nvmlDeviceGetGpuInstanceProfileInfoV. A third version has `capabilities` in the place of the P2P flag. */
typedef struct {
    unsigned version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount, copyEngineCount, decoderCount,
        encoderCount, jpegCount, ofaCount;
    unsigned long long memorySizeMB;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE]; /* "1g.10gb" */
} nvmlGpuInstanceProfileInfo_v2_t;
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152, "nvmlGpuInstanceProfileInfo_v2_t");

typedef struct {
    nvmlDevice_t device;
    unsigned id, profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;
_Static_assert(sizeof(nvmlGpuInstanceInfo_t) == 24, "nvmlGpuInstanceInfo_t");

typedef struct {
    unsigned id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount,
        sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_t) == 36, "nvmlComputeInstanceProfileInfo_t");

/* Of nvmlComputeInstanceGetInfo_v2; the first form ends before the placement. */
typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned id, profileId;
    nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;
_Static_assert(sizeof(nvmlComputeInstanceInfo_t) == 32, "nvmlComputeInstanceInfo_t");

typedef struct {
    unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
        sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "nvmlDeviceAttributes_t");

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activation);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending);

/* GPU instances. Lists of these functions have room for as many as the profile's instanceCount says. */
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned profile,
                                                 nvmlGpuInstanceProfileInfo_t *info);
nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info);
nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned profile_id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned *count);
nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned profile_id, unsigned *count);
nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned profile_id, nvmlGpuInstance_t *instance);
nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profile_id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *instance);
nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance);
nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profile_id, nvmlGpuInstance_t *instances,
                                       unsigned *count);
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *instance);
nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info);

/* Compute instances. */
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned profile, unsigned engine,
                                                          nvmlComputeInstanceProfileInfo_t *info);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned profile_id,
                                                                unsigned *count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned profile_id,
                                                                 nvmlComputeInstancePlacement_t *placements,
                                                                 unsigned *count);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned profile_id,
                                                  nvmlComputeInstance_t *compute);
nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned profile_id,
                                                               const nvmlComputeInstancePlacement_t *placement,
                                                               nvmlComputeInstance_t *compute);
nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute);
nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned profile_id,
                                                nvmlComputeInstance_t *computes, unsigned *count);
nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned id,
                                                   nvmlComputeInstance_t *compute);
nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info);

/* The devices made of them. */
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *is_mig);
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id);
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig);
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes);

#endif
