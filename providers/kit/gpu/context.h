/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and their memory, and the functions that the files about them share.
 *
 * Owns: the structs and the lock order.
 * Never: declares a vendor's interface.
 *
 * Locks. The machine's `context_lock` guards the lists of contexts and workers, workers' memory, and all pages' counts.
 * A context's own lock guards its addresses: copies share it, changes of addresses hold it exclusively. A thread that
 * works on a context counts among its users, and destroying the context waits for its users. So context_lock is never
 * held during a call to the driver. Order: a context's lock, then `context_lock`, then the executor's (executor.h).
 * None of these is held together with a provider's own lock.
 */
#ifndef FACET_KIT_GPU_CONTEXT_H
#define FACET_KIT_GPU_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#include "driver.h"
#include "executor.h"
#include "slice.h"

#define GPU_ALIGNMENT 256u /* of plain memory, as the ABI promises */

/* A worker on one device: its memory there, and its limits. */
struct gpu_worker {
    struct gpu_worker *next;
    char name[FACET_WORKER_SIZE];
    uint32_t contexts;
    uint64_t used_bytes;

    uint32_t valid; /* FACET_WORKER_HAS_*: its limits */
    uint64_t memory_bytes;
    struct gpu_slice *slice; /* its compute units; NULL: no limit */
    struct gpu_turns *turns; /* turns of its contexts, if it has its own units; else NULL */
};

struct gpu_device {
    int ordinal;    /* the driver's number */
    bool retained;  /* from the first context here until the instance is closed */
    size_t granule; /* smallest physical memory in bytes; 0: mapping is not supported */
    uint32_t grid_most[3], group_most[3], items_most; /* limits of a launch */
    struct gpu_worker *workers;
    struct gpu_turns *turns; /* turns of contexts without their own units; made with the first such context */
    enum facet_pick_policy policy;
    uint64_t slice_ns; /* length of a turn; 0: the default */
};

/* Physical memory in granules. Each has a handle of its own, so that any part can be mapped and unmapped. */
struct gpu_pages {
    uint64_t number;
    struct gpu_context *owner; /* the charged context; NULL once it has ended */
    struct gpu_worker *worker;
    uint32_t device;
    uint64_t mappings; /* of its granules, by all contexts */
    bool shared, destroyed;
    uint64_t count;
    gpu_memory_handle granules[];
};

/* The mapping at one granule of a reservation. */
struct gpu_mapping {
    struct gpu_pages *pages; /* NULL: nothing is mapped */
};

struct gpu_reservation {
    uint64_t address, bytes;
    uint64_t whole_address, whole_bytes; /* the driver's reservation: larger if it aligns less than requested */
    struct gpu_mapping granules[];
};

struct gpu_block {
    uint64_t address, bytes;
};

struct gpu_context {
    struct gpu_context *next;
    uint64_t number;
    uint32_t device;
    struct gpu_worker *worker;
    uint32_t users; /* protected by the context lock */
    bool closing;

    pthread_rwlock_t lock;
    void *blocks, *reservations; /* search.h of the C library: trees by address */

    /* Protected by the executor's lock. */
    struct gpu_tenant tenant;
    struct gpu_slice *bound; /* limit of compute units; NULL: only its worker's */
};

/* context.c */
enum gpu_use {
    GPU_USE_READ,     /* shares the context's lock */
    GPU_USE_CHANGE,   /* holds it exclusively */
    GPU_USE_TRANSFER, /* like READ, after all work that the context has queued */
    GPU_USE_REMOVE,   /* like CHANGE, after all work that the context has queued */
};

/*
 * The beginning of each operation on a context: counts a user, waits and takes the context's lock as `use` says, and
 * makes the device's context current in this thread. Ends with gpu_context_leave(), which restores the previous
 * context.
 */
enum facet_status gpu_context_enter(struct gpu_machine *machine, uint64_t number, enum gpu_use use,
                                    struct gpu_context **ret_context, struct facet_error *error);
void gpu_context_leave(struct gpu_machine *machine, struct gpu_context *context);

enum facet_status gpu_context_create(struct facet_provider_instance *instance, uint32_t device,
                                     const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                     struct facet_error *error);
enum facet_status gpu_context_destroy(struct facet_provider_instance *instance, uint64_t number,
                                      struct facet_error *error);
/* Frees all contexts. No other call is in progress. False: the driver does not finish the work of a context. */
bool gpu_contexts_free(struct gpu_machine *machine);

/*
 * With the context lock: removes a worker without contexts and memory. Pages that another worker has mapped may outlive
 * its last context: they still count as its memory.
 */
void gpu_worker_drop(struct gpu_device *device, struct gpu_worker *worker);

/*
 * With the context lock: finds a worker by its name. If there is none, gpu_worker_find() returns NULL, and
 * gpu_worker_get() makes it (NULL: no memory).
 */
struct gpu_worker *gpu_worker_find(const struct gpu_device *device, const char *name);
struct gpu_worker *gpu_worker_get(struct gpu_device *device, const char *name);

/* With the context lock: memory that is neither reserved for a worker nor used by one without a reservation. */
uint64_t gpu_memory_left(const struct gpu_machine *machine, uint32_t device);

/*
 * Charges memory to a context's worker before the driver is called, or reverses that. FACET_QUOTA: above the worker's
 * limit. FACET_NO_SPACE: the remaining memory is reserved for other workers.
 */
enum facet_status gpu_worker_charge(struct gpu_machine *machine, const struct gpu_context *context, uint64_t bytes,
                                    struct facet_error *error);
void gpu_worker_refund(struct gpu_machine *machine, struct gpu_worker *worker, uint64_t bytes);

/* limit.c. gpu_worker_unlimit(), with the context lock: clears all limits of a worker without contexts and memory. */
extern const struct facet_limit_ops gpu_limit_ops;
void gpu_worker_unlimit(struct gpu_machine *machine, uint32_t device, struct gpu_worker *worker);

/* A number for an object that the host identifies by number. */
uint64_t gpu_number_next(struct gpu_machine *machine);

/* execution.c */
extern const struct facet_execution_ops gpu_execution_ops;
/* Enters a context (GPU_USE_READ) on a device that runs kernels. */
enum facet_status gpu_execution_enter(struct gpu_machine *machine, uint64_t number, struct gpu_context **ret_context,
                                      struct facet_error *error);

/* gpu_execution_enter() that also finds a stream of the context, and takes the executor's lock. */
enum facet_status gpu_stream_enter(struct gpu_machine *machine, uint64_t number, uint64_t stream_number,
                                   struct gpu_context **ret_context, struct gpu_stream **ret_stream,
                                   struct facet_error *error);
void gpu_stream_leave(struct gpu_machine *machine, struct gpu_context *context);
/* A command with a copy of the data after it; NULL: no memory. */
struct gpu_command *gpu_command_new(enum gpu_command_kind kind, const void *data, size_t bytes);

/* control.c: operations of the table `execution`. */
enum facet_status gpu_control_set_share(struct facet_provider_instance *instance, uint64_t context,
                                        uint32_t request_milli, uint32_t limit_milli, uint32_t priority,
                                        struct facet_error *error);
enum facet_status gpu_control_set_priority(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                           uint32_t priority, struct facet_error *error);
enum facet_status gpu_control_set_bounds(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                         uint32_t launches, struct facet_error *error);
enum facet_status gpu_control_pause(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                                    struct facet_error *error);
enum facet_status gpu_control_wait(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                   uint64_t other, struct facet_error *error);
enum facet_status gpu_control_cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                            uint64_t sequence, struct facet_error *error);
enum facet_status gpu_control_set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                         uint32_t preempt, uint64_t slice_ns, struct facet_error *error);

/* module.c */
enum facet_status gpu_module_load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                                  uint64_t bytes, uint64_t *ret_module, struct facet_error *error);
enum facet_status gpu_module_unload(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                    struct facet_error *error);
/* Finds a launch's kernel, and keeps its module loaded until the command is complete or dropped. */
enum facet_status gpu_module_hold(struct gpu_machine *machine, const struct gpu_context *context,
                                  struct gpu_command *command, struct facet_error *error);

/* memory.c, pages.c */
extern const struct facet_memory_ops gpu_memory_ops;

/* Frees a context's memory, when it has no users. */
void gpu_blocks_free(struct gpu_machine *machine, struct gpu_context *context);
void gpu_reservations_free(struct gpu_machine *machine, struct gpu_context *context);
void gpu_pages_drop_owner(struct gpu_machine *machine, struct gpu_context *context);

/* Whether [address, address + bytes) is wholly memory of the context. Called with its lock. */
bool gpu_context_holds(const struct gpu_machine *machine, const struct gpu_context *context, uint64_t address,
                       uint64_t bytes);
bool gpu_blocks_hold(const struct gpu_context *context, uint64_t address, uint64_t bytes);
bool gpu_reservations_hold(const struct gpu_machine *machine, const struct gpu_context *context, uint64_t address,
                           uint64_t bytes);

enum facet_status gpu_pages_reserve(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                    uint64_t align, uint64_t *ret_address, struct facet_error *error);
enum facet_status gpu_pages_release(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    struct facet_error *error);
enum facet_status gpu_pages_create(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                   uint64_t *ret_pages, struct facet_error *error);
enum facet_status gpu_pages_destroy(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                    struct facet_error *error);
enum facet_status gpu_pages_map(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error);
enum facet_status gpu_pages_unmap(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                  uint64_t bytes, struct facet_error *error);
enum facet_status gpu_pages_share(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                  struct facet_error *error);

#endif
