/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL provider's devices, and the holders of their compute units.
 *
 * Owns: the instance, and the one pool of units per device from which partitions and workers are allocated, so that
 * they never overlap.
 * Never: declares anything for the host.
 *
 * Thread rule: devices and infos do not change once the instance is open. Holders are under the instance's lock; the
 * functions that take a holder or a device's list of them are called with it held.
 */
#ifndef FACET_OPENCL_H
#define FACET_OPENCL_H

#include <pthread.h>
#include <signal.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>

#include "provider_kit.h"

/* A device with more units is not partitioned: one unit would be less than a thousandth of it. */
#define FACET_OPENCL_UNITS_MAX 1000u

enum facet_opencl_holder_kind {
    FACET_OPENCL_PARTITION,
    FACET_OPENCL_WORKER,
};

/* A holder of units, memory, or both. */
struct facet_opencl_holder {
    struct facet_opencl_holder *next; /* sorted by start */
    enum facet_opencl_holder_kind kind;
    uint32_t start, length;       /* units; both are 0 when the holder has no units */
    uint64_t memory_bytes;        /* 0 when the holder has no memory limit */
    char name[FACET_WORKER_SIZE]; /* a partition's uuid, a worker's name */
};

struct facet_opencl_device {
    cl_device_id id;
    struct facet_opencl_holder *holders;
};

struct facet_provider_instance {
    pthread_mutex_t lock;
    struct facet_opencl_device *devices;
    struct facet_device_info *infos; /* same indices as devices */
    uint32_t count;
};

/* list.c */
enum facet_status facet_opencl_find_devices(struct facet_provider_instance *instance, struct facet_error *error);

/* vendors.c: called when there is no platform. Refuses if a runtime is installed but cannot be opened. */
enum facet_status facet_opencl_explain_none(struct facet_error *error);

/* A text that the caller frees; NULL when the device or platform has none. */
char *facet_opencl_platform_text(cl_platform_id platform, cl_platform_info what);
char *facet_opencl_device_text(cl_device_id device, cl_device_info what);
void facet_opencl_free_text(char **text);

#define FACET_OPENCL_CLEANUP_TEXT __attribute__((cleanup(facet_opencl_free_text)))

/* Sets the error: OpenCL returned `code` for `what`. */
enum facet_status facet_opencl_fail(struct facet_error *error, const char *what, cl_int code);

/* The first check of every operation: the device exists and has the capability (0: none is needed). */
enum facet_status facet_opencl_check(const struct facet_provider_instance *instance, uint32_t device,
                                     uint64_t capability, struct facet_error *error);

/* Checks that the caller passed a struct for the result, before the operation does anything. */
static inline enum facet_status facet_opencl_check_struct(const void *target, struct facet_error *error)
{
    uint32_t size = 0;

    if (target)
        memcpy(&size, target, sizeof size);
    return size >= sizeof size
               ? FACET_OK
               : facet_kit_fail(error, FACET_INVALID_ARGUMENT, "a struct to write to: expected one with its size set");
}

/* signals.c */
struct facet_opencl_signals {
    bool saved[NSIG];
    struct sigaction actions[NSIG];
};
void facet_opencl_signals_save(struct facet_opencl_signals *ret_signals);
void facet_opencl_signals_restore(const struct facet_opencl_signals *signals);

/* holder.c */
struct facet_opencl_holder *facet_opencl_holder_find(const struct facet_opencl_device *device,
                                                     enum facet_opencl_holder_kind kind, const char *name);
struct facet_opencl_holder *facet_opencl_holder_add(struct facet_opencl_device *device,
                                                    enum facet_opencl_holder_kind kind, const char *name);
void facet_opencl_holder_remove(struct facet_opencl_device *device, struct facet_opencl_holder *holder);

/* A holder of any of the units from `start` on; NULL when all are free. */
const struct facet_opencl_holder *facet_opencl_holder_of_units(const struct facet_opencl_device *device, uint32_t start,
                                                               uint32_t length);

/*
 * Gives `length` adjacent free units to `holder`, which has none: from `start` on, or with FACET_PLACEMENT_ANY from the
 * smallest free stretch that fits. The driver makes such a sub-device once, to prove that it can. FACET_OUT_OF_RANGE,
 * FACET_NO_SPACE, or the driver's error.
 */
enum facet_status facet_opencl_holder_place(struct facet_provider_instance *instance, uint32_t device,
                                            struct facet_opencl_holder *holder, uint32_t start, uint32_t length,
                                            struct facet_error *error);

/* The address of a holder's part of a device. `ret_address`: FACET_OPENCL_ADDRESS_SIZE bytes. */
void facet_opencl_holder_address(const struct facet_device_info *info, const struct facet_opencl_holder *holder,
                                 char *ret_address);

/* The two-call list of all holders of one kind, each described by `describe` in `size` bytes. Takes the lock. */
typedef void (*facet_opencl_describe_func)(const struct facet_device_info *info,
                                           const struct facet_opencl_holder *holder, void *ret_item);
struct facet_opencl_listing {
    enum facet_opencl_holder_kind kind;
    uint32_t size;
    facet_opencl_describe_func describe;
};
enum facet_status facet_opencl_holder_list(struct facet_provider_instance *instance, uint32_t device,
                                           const struct facet_opencl_listing *listing, void *items, uint32_t item_size,
                                           uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

/* A share of all units in milli, rounded down. */
static inline uint32_t facet_opencl_milli(const struct facet_device_info *info, uint32_t units)
{
    return units * 1000 / info->compute_units;
}

/* properties.c, container.c, partition.c, limit.c */
enum facet_status facet_opencl_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                          uint32_t capacity, uint32_t *ret_size, struct facet_error *error);
extern const struct facet_container_ops facet_opencl_container_ops;
extern const struct facet_partition_ops facet_opencl_partition_ops;
extern const struct facet_limit_ops facet_opencl_limit_ops;

#endif
