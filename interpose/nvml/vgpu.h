/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs of this process as a monitor sees them: their segments mapped read-only, and their devices.
 *
 * Owns: the visible devices, their order, and the vGPU of each.
 * Never: takes a slot, writes to a segment, or unmaps a vGPU that was found: a monitor is no tenant.
 *
 * Thread rule: every function from any thread, after facet_nvml_attach().
 */
#ifndef FACET_NVML_VGPU_H
#define FACET_NVML_VGPU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "limiter/segment.h"
#include "vendor/cuda/nvml.h"

#define FACET_NVML_VGPUS 16u

/*
 * Held for a few instructions, never during a call to the library; also held over a fork, so that it is free in the
 * child.
 */
extern pthread_mutex_t facet_nvml_lock;

/* The utilization of a vGPU between two calls (utilization.c); protected by facet_nvml_lock. */
struct facet_nvml_period {
    uint64_t start_ns, busy_ns; /* at the beginning of the current period */
    unsigned percent;           /* of the previous period */
    bool has_percent;           /* whether there was a previous period */
};

struct facet_nvml_vgpu {
    const struct facet_policy *policy;
    const struct facet_usage *usage;
    char dir[1024];
    dev_t usage_device; /* identity of the file that `dir` must still contain, or its locks are not trusted */
    ino_t usage_inode;
    _Atomic(nvmlDevice_t) gpu; /* the physical GPU; NULL while the library does not find it */
    _Atomic(nvmlDevice_t) mig; /* the vGPU's MIG device on it; NULL when the vGPU uses the whole GPU */
    struct facet_nvml_period period;
};

/* A live process of a vGPU, and the limiter's count of its memory. */
struct facet_nvml_process {
    uint32_t pid;
    uint64_t memory_bytes;
};

/* The vGPU's published device time; without an owner that publishes, the time that its processes measured. */
uint64_t facet_nvml_device_time(const struct facet_nvml_vgpu *vgpu, uint64_t measured_ns);

/* Whether this process is meant to be in a vGPU: FACET_VGPU_DIR as it was at the first call. */
bool facet_nvml_is_tenant(void);

/*
 * Maps the segments and finds their devices. Called with the library initialised; repeated calls are harmless.
 * NVML_ERROR_NOT_READY when a segment cannot be used: then no device is visible.
 */
nvmlReturn_t facet_nvml_attach(void);

/* The visible devices: physical GPUs, each once, in the order of the vGPUs. */
unsigned facet_nvml_count(void);
nvmlReturn_t facet_nvml_device(unsigned index, nvmlDevice_t *ret_device);
bool facet_nvml_index(nvmlDevice_t device, unsigned *ret_index);

/* The `index`-th MIG device of a visible GPU, or NVML_ERROR_NOT_FOUND. False when the vGPU uses the whole GPU. */
bool facet_nvml_mig_device(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *ret_device, nvmlReturn_t *ret_result);

/* The vGPU of a device (the first, when several use its MIG devices); NULL when there is none. */
struct facet_nvml_vgpu *facet_nvml_vgpu(nvmlDevice_t device);

/* Like facet_nvml_vgpu(), also for a MIG device on a GPU that a vGPU uses as a whole. NULL: the device is hidden. */
struct facet_nvml_vgpu *facet_nvml_owner(nvmlDevice_t device);

/* The live processes of a vGPU; returns how many. */
unsigned facet_nvml_processes(const struct facet_nvml_vgpu *vgpu, struct facet_nvml_process list[FACET_SEGMENT_SLOTS]);

/* The memory of the vGPU's live processes together. A dead process's slot that was not cleared yet does not count. */
uint64_t facet_nvml_memory(const struct facet_nvml_vgpu *vgpu);

/* Whether `pid` is in the list. */
bool facet_nvml_find_process(uint32_t pid, const struct facet_nvml_process *list, unsigned count, unsigned *ret_index);

#endif
