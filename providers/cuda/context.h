/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and their memory, and what the files about them share.
 *
 * Owns: the structs and the rule of the locks.
 * Never: declares anything of the vendor's; that is in vendor/cuda/.
 *
 * Locks. The instance's `context_lock` guards which contexts and workers there are, what workers hold, and all pages'
 * counts. A context's own lock guards its addresses: copies share it, what changes addresses has it alone. Who works on
 * a context counts among its users, and its end waits for them; so it is never held while the driver works. Order: a
 * context's, then `context_lock`, then the executor's (executor.h). None of them is held with those of cuda.h.
 */
#ifndef FACET_CUDA_PROVIDER_CONTEXT_H
#define FACET_CUDA_PROVIDER_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <facet/provider.h>

#include "driver.h"
#include "executor.h"
#include "provider_kit.h"

/* A worker on one device: what it holds there, and what it may. */
struct cuda_worker {
    struct cuda_worker *next;
    char name[FACET_WORKER_SIZE];
    uint32_t contexts;
    uint64_t used_bytes;
};

struct cuda_device {
    CUdevice ordinal;
    CUcontext primary; /* retained with the first context here, and kept until the instance is closed */
    size_t granule;    /* bytes of the least physical memory; 0: none can be mapped */
    uint32_t grid_most[3], group_most[3], items_most; /* of a launch */
    struct cuda_worker *workers;
};

/* Physical memory, in granules, each with a handle of its own: so that any part can be mapped and unmapped. */
struct cuda_pages {
    uint64_t number;
    struct cuda_context *owner; /* who pays; NULL once that context is gone */
    struct cuda_worker *worker;
    uint32_t device;
    uint64_t mappings; /* of its granules */
    bool shared, destroyed;
    uint64_t count;
    CUmemGenericAllocationHandle granules[];
};

/* What is mapped at one granule of a reservation. */
struct cuda_mapping {
    struct cuda_pages *pages; /* NULL: nothing */
};

struct cuda_reservation {
    uint64_t address, bytes;
    uint64_t whole_address, whole_bytes; /* as the driver knows it: larger where it aligns less than was asked for */
    struct cuda_mapping granules[];
};

struct cuda_block {
    uint64_t address, bytes;
};

struct cuda_context {
    struct cuda_context *next;
    uint64_t number;
    uint32_t device;
    struct cuda_worker *worker;
    uint32_t users; /* under the instance's lock */
    bool closing;

    pthread_rwlock_t lock;
    void *blocks, *reservations; /* search.h of the C library: trees by address */
};

/* driver_device.c: what the driver says of a GPU that NVML found: multiprocessors, and what the GPU can by the driver
 * (FACET_CAN_*, 0 when the driver does not know it). */
uint64_t cuda_driver_describe(struct facet_provider_instance *instance, uint32_t device,
                              struct facet_device_info *info);

/* context.c */
enum cuda_use {
    CUDA_USE_READ,     /* the lock shared */
    CUDA_USE_CHANGE,   /* the lock alone */
    CUDA_USE_TRANSFER, /* as READ, after all that the context has queued */
    CUDA_USE_TAKE,     /* as CHANGE, after that */
};

/*
 * What each operation on a context begins with: counts a user, waits and takes the context's lock as `use` says, and
 * makes the device's context current in this thread. Ends with cuda_context_leave(), which puts back what was current.
 */
enum facet_status cuda_context_enter(struct facet_provider_instance *instance, uint64_t number, enum cuda_use use,
                                     struct cuda_context **ret_context, struct facet_error *error);
void cuda_context_leave(struct facet_provider_instance *instance, struct cuda_context *context);

enum facet_status cuda_context_create(struct facet_provider_instance *instance, uint32_t device,
                                      const char *partition_uuid, const char *worker, uint64_t *ret_context,
                                      struct facet_error *error);
enum facet_status cuda_context_destroy(struct facet_provider_instance *instance, uint64_t number,
                                       struct facet_error *error);
/* No other call is under way. False when the driver does not come to an end with one. */
bool cuda_contexts_free(struct facet_provider_instance *instance);

/* With the context lock: forgets a worker that has nothing any more. Pages that somebody else has mapped may outlive
 * its last context: they are still its own. */
void cuda_worker_drop(struct cuda_device *device, struct cuda_worker *worker);

/* Counts memory for a context's worker, or takes that back. */
void cuda_worker_charge(struct facet_provider_instance *instance, struct cuda_worker *worker, uint64_t bytes);
void cuda_worker_refund(struct facet_provider_instance *instance, struct cuda_worker *worker, uint64_t bytes);

/* A number for anything that the host names by one. */
uint64_t cuda_number_next(struct facet_provider_instance *instance);

/* execution.c */
extern const struct facet_execution_ops cuda_execution_ops;
/* Enters a context (as CUDA_USE_READ) of a device that runs kernels. */
enum facet_status cuda_execution_enter(struct facet_provider_instance *instance, uint64_t number,
                                       struct cuda_context **ret_context, struct facet_error *error);

/* module.c */
enum facet_status cuda_module_load(struct facet_provider_instance *instance, uint64_t context, const void *image,
                                   uint64_t bytes, uint64_t *ret_module, struct facet_error *error);
enum facet_status cuda_module_unload(struct facet_provider_instance *instance, uint64_t context, uint64_t module,
                                     struct facet_error *error);
/* Finds a launch's kernel, and keeps its module from being unloaded until the command is over or dropped. */
enum facet_status cuda_module_hold(struct facet_provider_instance *instance, const struct cuda_context *context,
                                   struct cuda_command *command, struct facet_error *error);

/* memory.c, pages.c */
extern const struct facet_memory_ops cuda_memory_ops;

/* Frees what a context has, when nobody else uses it. */
void cuda_blocks_free(struct facet_provider_instance *instance, struct cuda_context *context);
void cuda_reservations_free(struct facet_provider_instance *instance, struct cuda_context *context);
void cuda_pages_orphan(struct facet_provider_instance *instance, struct cuda_context *context);

/* Whether [address, address + bytes) is wholly memory of the context. Its lock is held. */
bool cuda_context_holds(const struct facet_provider_instance *instance, const struct cuda_context *context,
                        uint64_t address, uint64_t bytes);
bool cuda_blocks_hold(const struct cuda_context *context, uint64_t address, uint64_t bytes);
bool cuda_reservations_hold(const struct facet_provider_instance *instance, const struct cuda_context *context,
                            uint64_t address, uint64_t bytes);

enum facet_status cuda_pages_reserve(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                     uint64_t align, uint64_t *ret_address, struct facet_error *error);
enum facet_status cuda_pages_release(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                     struct facet_error *error);
enum facet_status cuda_pages_create(struct facet_provider_instance *instance, uint64_t context, uint64_t bytes,
                                    uint64_t *ret_pages, struct facet_error *error);
enum facet_status cuda_pages_destroy(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                     struct facet_error *error);
enum facet_status cuda_pages_map(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                 uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error);
enum facet_status cuda_pages_unmap(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                   uint64_t bytes, struct facet_error *error);
enum facet_status cuda_pages_share(struct facet_provider_instance *instance, uint64_t context, uint64_t pages,
                                   struct facet_error *error);

#endif
