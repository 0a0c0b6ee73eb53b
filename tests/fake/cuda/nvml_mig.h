/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules by which a GPU of the fake is cut, as those of H100 (80 GB) and H200 (141 GB).
 *
 * Owns: profiles and where their instances may lie.
 * Never: knows existing instances.
 */
#ifndef FAKE_CUDA_NVML_MIG_H
#define FAKE_CUDA_NVML_MIG_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_MEMORY_SLICES 8u

struct fake_gpu_profile {
    uint32_t id;            /* for requests; its index in the table is NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t slices;        /* of compute; 0: no such profile */
    uint32_t memory_slices; /* a run of them, beginning at one of `starts` */
    uint32_t starts;        /* a bit for each memory slice */
    uint32_t max_count;     /* instances at a time */
    uint32_t units, copy, decode, jpeg, flow;
    const char *suffix;
};

/* The profile at an index of the table, or by its number with the index; NULL when there is none. */
const struct fake_gpu_profile *fake_gpu_profile(uint32_t profile_index);
const struct fake_gpu_profile *fake_gpu_profile_by_id(uint32_t id, uint32_t *ret_place);

/* The number that an instance gets: it says where it lies, so that two that can exist together never share one. */
uint32_t fake_gpu_instance_id(uint32_t start, uint32_t memory_slices);

/* Compute instances of `slices` (the profile's place says how many) in a GPU instance of `whole`: a bit for each start;
 * 0 when there is no such profile. */
uint32_t fake_compute_slices(uint32_t profile_index);
uint32_t fake_compute_starts(uint32_t slices, uint32_t whole);

#endif
