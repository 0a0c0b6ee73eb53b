/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vGPUs of this process as a monitor sees them: their segments mapped read-only, and the devices that they are.
 *
 * Owns: which devices are shown, in which order, and which vGPU each is.
 * Never: takes a slot, writes to a segment, or lets a vGPU go once it was found: a monitor is no tenant.
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

/* Held for a few instructions, never in the library; and over a fork, so that a child does not find it held. */
extern pthread_mutex_t facet_nvml_lock;

/* What was measured of a vGPU between two questions (utilization.c); with facet_nvml_lock. */
struct facet_nvml_period {
    uint64_t taken_ns, busy_ns; /* where it begins */
    unsigned percent;           /* of the period before it .. */
    bool known;                 /* .. when there was one */
};

struct facet_nvml_vgpu {
    const struct facet_policy *policy;
    const struct facet_usage *usage;
    char dir[1024];
    dev_t usage_device; /* what `dir` must still hold before its locks are believed */
    ino_t usage_inode;
    _Atomic(nvmlDevice_t) gpu; /* the physical GPU; NULL while the library does not find it */
    _Atomic(nvmlDevice_t) mig; /* the MIG device on it that the vGPU is; NULL when it is on the whole */
    struct facet_nvml_period period;
};

/* A process of a vGPU that lives, and what the limiter counts for it. */
struct facet_nvml_process {
    uint32_t pid;
    uint64_t memory_bytes;
};

/* The vGPU's device time as it is published; what its processes measured, where nobody settles it. */
uint64_t facet_nvml_device_time(const struct facet_nvml_vgpu *vgpu, uint64_t measured_ns);

/* Whether this process is meant to be in a vGPU: FACET_VGPU_DIR as it was at the first call. */
bool facet_nvml_is_tenant(void);

/*
 * Maps the segments, and finds their devices. Call it with the library initialised; once is enough, again does no harm.
 * NVML_ERROR_NOT_READY when a segment cannot be used: nothing is shown rather than what is not the tenant's.
 */
nvmlReturn_t facet_nvml_attach(void);

/* The devices that are shown: physical GPUs, each once, in the order of the vGPUs. */
unsigned facet_nvml_count(void);
nvmlReturn_t facet_nvml_device(unsigned index, nvmlDevice_t *ret_device);
bool facet_nvml_index(nvmlDevice_t device, unsigned *ret_index);

/* The `index`-th MIG device of a GPU that is shown; NVML_ERROR_NOT_FOUND. False when the vGPU is on the whole GPU. */
bool facet_nvml_mig_device(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *ret_device, nvmlReturn_t *ret_result);

/* The vGPU that a device is (the first, when several are on its MIG devices); NULL when it is none. */
struct facet_nvml_vgpu *facet_nvml_vgpu(nvmlDevice_t device);

/* The same, also for a MIG device on a GPU that is a vGPU as a whole. NULL: the device is not to be shown. */
struct facet_nvml_vgpu *facet_nvml_owner(nvmlDevice_t device);

/* The living processes of a vGPU; returns how many. */
unsigned facet_nvml_processes(const struct facet_nvml_vgpu *vgpu, struct facet_nvml_process list[FACET_SEGMENT_SLOTS]);

/* What they hold together: without those that have died, of whom nobody may have taken note yet. */
uint64_t facet_nvml_memory(const struct facet_nvml_vgpu *vgpu);

/* Whether `pid` is among them. */
bool facet_nvml_is_among(uint32_t pid, const struct facet_nvml_process *list, unsigned count, unsigned *ret_place);

#endif
