/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance, its GPUs, and the operations that each file of this provider offers.
 *
 * Owns: the structs and the lock order.
 * Never: declares the vendor's interface; that is in vendor/cuda.
 *
 * Locks. NVML may be called from any thread, but reading a list of MIG devices takes several calls: `parts_lock` keeps
 * other threads of this process from changing the list meanwhile. `lock` guards the events and the last reading of each
 * GPU, and may be taken while `parts_lock` is held. Contexts have locks of their own (providers/kit/gpu). Data found at
 * open never changes afterwards and is read without a lock.
 */
#ifndef FACET_CUDA_H
#define FACET_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#include "driver.h"
#include "event_kit.h"
#include "gpu/machine.h"
#include "library.h"
#include "math_library.h"
#include "provider_kit.h"
#include "slice.h"

#define CUDA_MAX_PARTS 8u /* MIG devices of a GPU */

/* The state of a GPU at one reading. Events are differences between two readings. */
struct cuda_reading {
    bool present, has_ecc;
    uint32_t throttle; /* FACET_THROTTLE_* */
    uint32_t health;   /* enum facet_health */
    uint64_t ecc_uncorrected;
};

struct cuda_gpu {
    nvmlDevice_t handle;
    bool has_minor;
    unsigned minor;
    bool is_partitioned; /* MIG mode was on when the GPU was found */
    struct cuda_reading last_reading;
};

struct facet_provider_instance {
    struct gpu_machine gpu; /* must be first: gpu_machine_of() casts the instance */
    struct cuda_nvml nvml;
    struct cuda_driver driver;
    CUcontext primaries[GPU_MOST]; /* the primary contexts of retained devices */
    struct cuda_groups groups[GPU_MOST];
    struct cuda_math math;
    char driver_error[256]; /* the reason why the driver is absent or unused; empty otherwise */
    struct cuda_gpu gpus[GPU_MOST];

    pthread_mutex_t parts_lock;
    pthread_mutex_t lock;
    nvmlEventSet_t event_set; /* NULL: the driver makes no set of events */
    struct facet_kit_events events;
};
FACET_STATIC_ASSERT(offsetof(struct facet_provider_instance, gpu) == 0, "gpu_machine_of()");

/* driver_table.c */
extern const struct gpu_driver cuda_gpu_driver;
CUmemAllocationProp cuda_memory_properties(const struct gpu_machine *machine, uint32_t device);

/*
 * driver_device.c: asks the driver for the multiprocessors and capabilities (FACET_CAN_*) of a GPU that NVML found.
 * 0: the driver does not have the GPU.
 */
uint64_t cuda_driver_describe(struct facet_provider_instance *instance, uint32_t device,
                              struct facet_device_info *info);

/* device.c: finds the GPUs and describes them. */
enum facet_status cuda_gpus_find(struct facet_provider_instance *instance, struct facet_error *error);
enum facet_status cuda_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error);

/* metrics.c. A reading sets a bit for each field that was read. It returns NVML's error when none was. */
extern const struct facet_metrics_ops cuda_metrics_ops;
nvmlReturn_t cuda_metrics_read(const struct cuda_nvml *nvml, const struct cuda_gpu *gpu,
                               struct facet_device_metrics *ret_metrics);
/* The memory that programs can use: without what the driver reserves, where NVML reports that separately. */
nvmlReturn_t cuda_memory_read(const struct cuda_nvml *nvml, nvmlDevice_t handle, nvmlMemory_t *ret_memory);
bool cuda_throttle_read(const struct cuda_nvml *nvml, nvmlDevice_t handle, uint32_t *ret_throttle);

/* topology.c */
enum facet_status cuda_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
enum facet_status cuda_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* All links, in the order of the list; the caller frees *ret_links. */
enum facet_status cuda_links_read(const struct facet_provider_instance *instance,
                                  struct facet_topology_link **ret_links, uint32_t *ret_count,
                                  struct facet_error *error);
/* Whether NVLink number `link` of a GPU leads directly to GPU `to`. */
bool cuda_nvlink_leads(const struct facet_provider_instance *instance, uint32_t device, unsigned link, uint32_t to);

/* traffic.c: metrics of links. */
bool cuda_can_read_traffic(const struct cuda_nvml *nvml, nvmlDevice_t handle);
enum facet_status cuda_metrics_links(struct facet_provider_instance *instance, uint32_t device, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error);

/* event.c */
void cuda_events_begin(struct facet_provider_instance *instance);
void cuda_events_end(struct facet_provider_instance *instance);
void cuda_event_of_partition(struct facet_provider_instance *instance, uint32_t device, const char *uuid, bool created);
enum facet_status cuda_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error);
enum facet_status cuda_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error);
/* The current state of a GPU; false when nothing could be read. */
bool cuda_gpu_read_state(const struct cuda_nvml *nvml, const struct cuda_gpu *gpu, struct cuda_reading *ret_reading);

/* partition.c */
extern const struct facet_partition_ops cuda_partition_ops;
struct cuda_part {
    struct facet_partition_info info;
    nvmlGpuInstance_t instance;
    nvmlDevice_t mig; /* NULL: a GPU instance without a compute instance, which is no device */
    unsigned instance_id, compute_id;
};
bool cuda_can_partition(const struct cuda_nvml *nvml);
/* The partitions of a GPU, in order of start. The caller holds parts_lock while it uses the result. */
enum facet_status cuda_parts_read(const struct facet_provider_instance *instance, uint32_t device,
                                  struct cuda_part parts[CUDA_MAX_PARTS], uint32_t *ret_count,
                                  struct facet_error *error);

/* snapshot.c */
extern const struct facet_snapshot_ops cuda_snapshot_ops;

/* container.c */
extern const struct facet_container_ops cuda_container_ops;
/* Whether the driver lists the device nodes of MIG instances. */
bool cuda_has_part_nodes(void);

#endif
