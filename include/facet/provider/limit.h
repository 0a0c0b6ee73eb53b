/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI, table `limit`: hard limits of one worker on one device (mode `hard`).
 *
 * Owns: setting, reading and lifting limits that the device or its driver enforces by itself.
 * Never: shares a device by time, which the limiter does (mode `soft`); promises more than the device has: the sum over
 * the workers of a device stays within the device.
 *
 * A limit binds a worker by name, not the calling process. A limit is set once: setting it again is FACET_BAD_STATE
 * until it is cleared. If the device has steps (whole compute units), a request between two steps is granted the next
 * larger one, and `get` returns the granted amount.
 */
#ifndef FACET_PROVIDER_LIMIT_H
#define FACET_PROVIDER_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include <facet/error.h>
#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct facet_provider_instance;

/* The longest worker name, terminator included. Names match [A-Za-z0-9][A-Za-z0-9._-]*. */
#define FACET_WORKER_SIZE 64

#define FACET_WORKER_HAS_MEMORY  (UINT32_C(1) << 0) /* a memory limit was set */
#define FACET_WORKER_HAS_COMPUTE (UINT32_C(1) << 1) /* a compute limit was set */

struct facet_worker_limit {
    uint32_t size;
    uint32_t valid;  /* FACET_WORKER_HAS_* */
    uint32_t device; /* index */
    uint32_t compute_units;
    uint32_t compute_milli; /* granted, at least the requested amount */
    uint32_t reserved;
    uint64_t memory_bytes;
    char worker[FACET_WORKER_SIZE];
    char address[256]; /* how the matching interposer finds the worker's part of the device */
};
FACET_STATIC_ASSERT(sizeof(struct facet_worker_limit) == 352, "ABI: facet_worker_limit");

struct facet_limit_ops {
    uint64_t size; /* of this table, as the provider was built */

    /*
     * Set the worker's memory or compute limit. Errors: FACET_INVALID_ARGUMENT (NULL or malformed worker),
     * FACET_OUT_OF_RANGE (0, or above the device), FACET_NO_SPACE (with other workers' limits it would exceed the
     * device), FACET_BAD_STATE (set already), FACET_BUSY (as many workers as the device may have; or the device is
     * partitioned).
     */
    enum facet_status (*set_memory)(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                    uint64_t bytes, struct facet_error *error);
    enum facet_status (*set_compute)(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                                     uint32_t milli, struct facet_error *error);

    /* FACET_NOT_FOUND when the worker has no limit on the device. */
    enum facet_status (*get)(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                             struct facet_worker_limit *ret_limit, struct facet_error *error);

    /* The workers with limits on a device (struct facet_worker_limit). */
    enum facet_status (*list)(struct facet_provider_instance *instance, uint32_t device, void *items,
                              uint32_t item_size, uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

    /* Lifts both limits. FACET_BUSY while the worker has a context; FACET_NOT_FOUND when the worker has no limit. */
    enum facet_status (*clear)(struct facet_provider_instance *instance, uint32_t device, const char *worker,
                               struct facet_error *error);
};
FACET_STATIC_ASSERT(sizeof(struct facet_limit_ops) == 48, "ABI: facet_limit_ops");

#ifdef __cplusplus
}
#endif
#endif
