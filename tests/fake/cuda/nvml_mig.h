/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for MIG instances of a fake GPU: those of H100 (80 GB) and H200 (141 GB).
 *
 * Owns: profiles and the possible placements of their instances.
 * Never: reads existing instances.
 */
#ifndef FAKE_CUDA_NVML_MIG_H
#define FAKE_CUDA_NVML_MIG_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_MEMORY_SLICES 8u

struct fake_gpu_profile {
    uint32_t id;            /* for requests; the profile's index in the table is NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t slices;        /* of compute; 0: no such profile */
    uint32_t memory_slices; /* a run of them, beginning at one of `starts` */
    uint32_t starts;        /* a bit for each memory slice */
    uint32_t max_count;     /* instances at a time */
    uint32_t units, copy, decode, jpeg, flow; /* multiprocessors; engines for copies, video, JPEG, optical flow */
    const char *suffix;
};

/* The profile at an index of the table, or the profile with an id and its index; NULL when there is none. */
const struct fake_gpu_profile *fake_gpu_profile(uint32_t profile_index);
const struct fake_gpu_profile *fake_gpu_profile_by_id(uint32_t id, uint32_t *ret_index);

/*
 * The id of an instance. It depends on the placement, so that two instances that can exist together have
 * different ids.
 */
uint32_t fake_gpu_instance_id(uint32_t start, uint32_t memory_slices);

/*
 * The slices of a compute instance's profile; and the possible starts of a compute instance of `slices` in a GPU
 * instance of `instance_slices`, a bit for each. 0 when there is no such profile.
 */
uint32_t fake_compute_slices(uint32_t profile_index);
uint32_t fake_compute_starts(uint32_t slices, uint32_t instance_slices);

#endif
