/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tables of nvml_mig.h. Never: reads the state. */
#include "nvml_mig.h"

#include <stddef.h>

#include "vendor/cuda/nvml_mig.h"

#define START(slice) (1u << (slice))

/* Multiprocessors and engines are those of an H100 with 132; for an H200, which has as many, they are assumed. */
static const struct fake_gpu_profile gpu_profiles[NVML_GPU_INSTANCE_PROFILE_COUNT] = {
    [NVML_GPU_INSTANCE_PROFILE_1_SLICE] = {19, 1, 1, 0x7f, 7, 16, 1, 1, 1, 0, ""},
    [NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1] = {20, 1, 1, 0x7f, 1, 16, 1, 1, 1, 1, "+me"},
    [NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2] = {15, 1, 2, START(0) | START(2) | START(4) | START(6), 4, 26, 1, 1, 1, 0,
                                                ""},
    [NVML_GPU_INSTANCE_PROFILE_2_SLICE] = {14, 2, 2, START(0) | START(2) | START(4), 3, 32, 2, 2, 2, 0, ""},
    [NVML_GPU_INSTANCE_PROFILE_3_SLICE] = {9, 3, 4, START(0) | START(4), 2, 60, 3, 3, 3, 0, ""},
    [NVML_GPU_INSTANCE_PROFILE_4_SLICE] = {5, 4, 4, START(0), 1, 64, 4, 4, 4, 0, ""},
    [NVML_GPU_INSTANCE_PROFILE_7_SLICE] = {0, 7, 8, START(0), 1, 132, 8, 7, 7, 1, ""},
};

const struct fake_gpu_profile *fake_gpu_profile(uint32_t profile_index)
{
    return profile_index < NVML_GPU_INSTANCE_PROFILE_COUNT && gpu_profiles[profile_index].slices
               ? &gpu_profiles[profile_index]
               : NULL;
}

const struct fake_gpu_profile *fake_gpu_profile_by_id(uint32_t id, uint32_t *ret_index)
{
    for (uint32_t profile_index = 0; profile_index < NVML_GPU_INSTANCE_PROFILE_COUNT; profile_index++)
        if (gpu_profiles[profile_index].slices && gpu_profiles[profile_index].id == id) {
            *ret_index = profile_index;
            return &gpu_profiles[profile_index];
        }
    return NULL;
}

/*
 * Ids as seen on an A100: 0 is the whole GPU, 1 and 2 its upper and its lower half, then come quarters and eighths,
 * each time those of the upper half first. So each placement has an id of its own.
 */
uint32_t fake_gpu_instance_id(uint32_t start, uint32_t memory_slices)
{
    uint32_t placements = FAKE_MEMORY_SLICES / memory_slices;

    return placements - 1 + (start / memory_slices + placements / 2) % placements;
}

uint32_t fake_compute_slices(uint32_t profile_index)
{
    static const uint32_t slices[] = {
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1, [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3, [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
    };

    return profile_index < sizeof slices / sizeof slices[0] ? slices[profile_index] : 0;
}

/* The placements of two and three slices in seven are assumed. */
uint32_t fake_compute_starts(uint32_t slices, uint32_t instance_slices)
{
    if (slices == 0 || slices > instance_slices)
        return 0;
    if (slices == instance_slices)
        return START(0);
    switch (slices) {
    case 1:
        return (1u << instance_slices) - 1;
    case 2:
        return instance_slices == 7   ? START(0) | START(2) | START(4)
               : instance_slices == 4 ? START(0) | START(2)
                                      : START(0);
    case 3:
        return instance_slices == 7 ? START(0) | START(4) : 0;
    case 4:
        return instance_slices == 7 ? START(0) : 0;
    default:
        return 0;
    }
}
