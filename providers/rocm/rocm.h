/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instance, its GPUs, and the operations that each file of this provider offers.
 *
 * Owns: the structs and the lock order.
 * Never: declares the vendor's interface; that is in vendor/amdsmi and vendor/hip.
 *
 * Locks. AMD SMI may be called from any thread. The lock of a file (holdings.c) keeps all processes from changing a
 * GPU's mode while its parts are examined. `lock` guards the events and the last reading of each GPU. `runtime_lock`
 * guards the opening of the HIP runtime; the only lock held with it is that of the creation of a context. Data found at
 * open never changes afterwards and is read without a lock.
 */
#ifndef FACET_ROCM_H
#define FACET_ROCM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#include "event_kit.h"
#include "gpu/machine.h"
#include "library.h"
#include "math_library.h"
#include "provider_kit.h"
#include "runtime.h"
#include "slice.h"

#define ROCM_MAX_PARTS 8u /* partitions of a GPU */

/* The state of a GPU at one reading. Events are differences between two readings. */
struct rocm_reading {
    bool present, has_ecc;
    uint32_t health; /* enum facet_health */
    uint64_t ecc_uncorrected;
};

struct rocm_gpu {
    amdsmi_socket_handle socket;
    amdsmi_processor_handle handle; /* NULL: only the kernel, and not AMD SMI, lists the GPU */
    char pci[16];
    uint64_t unique_id;  /* 0: not known */
    uint32_t dies;       /* for partitioning; 0: not known */
    bool is_partitioned; /* offered as partitions, not as a whole */
    uint32_t target;     /* 90402 is gfx942; 0: not known */
    bool has_render;
    unsigned render; /* the node /dev/dri/renderD<render> */
    struct rocm_reading last_reading;
};

struct facet_provider_instance {
    struct gpu_machine gpu; /* must be first: gpu_machine_of() casts the instance */
    struct rocm_smi smi;
    char smi_error[256]; /* the reason why AMD SMI is not used; empty otherwise */
    struct rocm_gpu gpus[GPU_MOST];

    pthread_mutex_t runtime_lock;
    struct rocm_runtime runtime;
    struct rocm_math math;
    struct rocm_units promised[GPU_MOST]; /* reserved for workers; under the machine's context_lock */

    pthread_mutex_t lock;
    struct facet_kit_events events;
};
FACET_STATIC_ASSERT(offsetof(struct facet_provider_instance, gpu) == 0, "gpu_machine_of()");

/* driver_table.c: the HIP runtime as providers/kit/gpu calls it. */
extern const struct gpu_driver rocm_gpu_driver;

/* device.c: finds the GPUs and describes them. */
enum facet_status rocm_gpus_find(struct facet_provider_instance *instance, struct facet_error *error);
enum facet_status rocm_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error);
/* Writes "amd-" and the digits of a GPU or partition; leaves `address` unchanged when they are unknown (0). */
void rocm_address_of(uint64_t unique_id, char *address, size_t size);

/* metrics.c. A reading sets a bit for each field that was read; false when none was. */
extern const struct facet_metrics_ops rocm_metrics_ops;
bool rocm_metrics_read(const struct rocm_smi *smi, const struct rocm_gpu *gpu,
                       struct facet_device_metrics *ret_metrics);
bool rocm_memory_total(const struct rocm_smi *smi, const struct rocm_gpu *gpu, uint64_t *ret_bytes);

/* process.c: the processes on a GPU and their memory. */
struct rocm_process {
    int32_t pid;
    uint32_t partition;
    uint64_t memory_bytes;
    bool has_units;
    uint32_t units;
};
bool rocm_can_list_processes(const struct rocm_smi *smi);
/* The caller frees *ret_processes. */
enum facet_status rocm_processes_read(const struct facet_provider_instance *instance, uint32_t device,
                                      struct rocm_process **ret_processes, uint32_t *ret_count,
                                      struct facet_error *error);

/* topology.c */
bool rocm_has_topology(const struct rocm_smi *smi, const struct rocm_gpu *gpu);
enum facet_status rocm_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
enum facet_status rocm_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error);
bool rocm_numa_node(const struct rocm_smi *smi, const struct rocm_gpu *gpu, int32_t *ret_node);

/* event.c */
void rocm_events_begin(struct facet_provider_instance *instance);
void rocm_events_end(struct facet_provider_instance *instance);
void rocm_event_of_partition(struct facet_provider_instance *instance, uint32_t device, const char *uuid, bool created);
enum facet_status rocm_device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                     struct facet_error *error);
enum facet_status rocm_device_events(struct facet_provider_instance *instance, uint64_t after, void *items,
                                     uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                                     struct facet_error *error);
/* The current state of a GPU; false when nothing could be read. */
bool rocm_gpu_read_state(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct rocm_reading *ret_reading);

/* mode.c: the modes of a GPU as a whole, as texts: "CPX", "NPS1". */
#define ROCM_MODE_SIZE 16u
struct rocm_modes {
    char compute[ROCM_MODE_SIZE], memory[ROCM_MODE_SIZE];
};
bool rocm_modes_read(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct rocm_modes *ret_modes);
/* The modes that the kernel lists as possible; returns their number. */
uint32_t rocm_modes_available(const struct rocm_gpu *gpu, char modes[][ROCM_MODE_SIZE], uint32_t most);
/* The number of parts of a GPU with `dies` dies in a mode; 0: not known. */
uint32_t rocm_mode_parts(const char *mode, uint32_t dies);
enum facet_status rocm_mode_set(const struct rocm_smi *smi, const struct rocm_gpu *gpu, const char *mode,
                                struct facet_error *error);

/* holdings.c: the partitions of a GPU that have a holder, shared by all processes of the machine. */
struct rocm_holdings {
    int file;                       /* locked while it is open */
    char mode[ROCM_MODE_SIZE];      /* the GPU's mode with these partitions */
    char previous[ROCM_MODE_SIZE];  /* the mode before the first part was taken, to be restored */
    uint32_t held_parts;            /* a bit for each partition */
    uint64_t names[ROCM_MAX_PARTS]; /* a unique name for each partition that is taken */
};
/* Locks and reads the file. */
enum facet_status rocm_holdings_open(const char *pci_address, struct rocm_holdings *ret_holdings,
                                     struct facet_error *error);
/* Releases the parts that were taken in a mode other than `mode`, the GPU's present one. */
void rocm_holdings_settle(struct rocm_holdings *holdings, const char *mode);
/* Takes partition `number`, under a new name. */
void rocm_holdings_take(struct rocm_holdings *holdings, uint32_t number);
enum facet_status rocm_holdings_write(const struct rocm_holdings *holdings, struct facet_error *error);
void rocm_holdings_close(struct rocm_holdings *holdings);

/* partition.c */
extern const struct facet_partition_ops rocm_partition_ops;
/* Whether a GPU can be partitioned, and is partitioned now or counts as partitioned by FACET_ROCM_PARTITIONS. */
bool rocm_is_partitioned(const struct rocm_smi *smi, const struct rocm_gpu *gpu);
/* FACET_BUSY when a GPU that was whole when it was found has been partitioned since. */
enum facet_status rocm_check_whole(const struct facet_provider_instance *instance, uint32_t device,
                                   struct facet_error *error);
/* The number of the partition with a uuid, and the number of parts; FACET_NOT_FOUND. */
enum facet_status rocm_part_find(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                 uint32_t *ret_number, uint32_t *ret_parts, struct facet_error *error);

/* container.c */
extern const struct facet_container_ops rocm_container_ops;

#endif
