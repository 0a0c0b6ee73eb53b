/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver: its devices (device.h), its virtual GPUs (vgpu.h) and their streams (stream.h).
 *
 * Owns: the list of vGPUs, and the order of all locks.
 * Never: knows a provider by name, or how pages and work-groups are managed: src/memory and the providers do.
 *
 * Locks, outermost first: a vGPU's, that of its managed memory, a stream's, the driver's list, the driver's monitor.
 * Provider calls are made with a stream's lock held, so that launches have the order of their numbers, or with a
 * vGPU's, so that the last setting holds; never with the driver's list.
 */
#ifndef FACET_VGPU_DRIVER_H
#define FACET_VGPU_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/forked.h"
#include "base/need.h"
#include "base/sized.h"
#include "vgpu/device.h"
#include "vgpu/vgpu.h"

struct facet_vgpu_watch;

/* How many ids of destroyed vGPUs the driver keeps. */
#define FACET_VGPU_DESTROYED_IDS 1000u

struct facet_driver {
    struct facet_origin origin;
    struct facet_driver_config config; /* defaults are filled in; the driver owns copies of its strings */
    char **device_names;
    char *providers;
    struct facet_memory_config memory_config;
    uint32_t devices;
    struct facet_vgpu_device *device;

    pthread_rwlock_t list_lock; /* protects the members up to `last_serial` */
    struct facet_vgpu **vgpu;   /* sorted by id */
    uint32_t vgpus, streams;
    uint32_t destroyed[FACET_VGPU_DESTROYED_IDS];
    uint64_t destructions, last_serial;

    atomic_uint managed; /* vGPUs with managed memory */

    pthread_mutex_t monitor_lock;
    pthread_cond_t monitor_wake; /* wakes the thread that measures */
    pthread_cond_t vgpu_unused;  /* signalled when no call uses a vGPU that ends any more */
    pthread_t thread;
    bool measuring, closing;
    struct facet_vgpu *remains; /* vGPUs that have ended, while a work-group that cannot end may use their memory */

    int published_folder_fd, published_lock_fd; /* of its published file; -1: none */
    char published_name[40];
    uint64_t published_ns;

    pthread_mutex_t watches_lock; /* protects `watches` and `last_watch`; held while a watch's function runs */
    struct facet_vgpu_watch *watches;
    uint64_t last_watch;
};

/* Whether the caller is a watch's function: no other code of the program runs in the driver's thread. */
static inline bool facet_driver_is_in_watch(const struct facet_driver *driver)
{
    return driver->measuring && pthread_equal(driver->thread, pthread_self());
}

/* These macros return an error from the function that uses them, as FACET_NEED does. */

/* Needs a driver of this process: a child of fork() has only a copy, whose device is the parent's. */
#define FACET_VGPU_NEED_DRIVER(driver, error)                                                                          \
    do {                                                                                                               \
        FACET_NEED(driver, error);                                                                                     \
        if (facet_origin_is_parent(&(driver)->origin))                                                                 \
            return facet_error_set((error), FACET_BAD_STATE,                                                           \
                                   "the driver is of the process that this one was forked from; open one here");       \
    } while (0)

/* For calls that wait for the driver's thread: a watch's function runs in that thread, which would wait for itself. */
#define FACET_VGPU_NEED_NO_WATCH(driver, error)                                                                        \
    do {                                                                                                               \
        if (facet_driver_is_in_watch(driver))                                                                          \
            return facet_error_set((error), FACET_BAD_STATE,                                                           \
                                   "%s() cannot be called in a watch's function; let another thread do it", __func__); \
    } while (0)

/* Needs an output whose `size` the caller has set, at least to the bytes of `size` itself. */
#define FACET_VGPU_NEED_STRUCT(pointer, error)                                                                         \
    do {                                                                                                               \
        enum facet_status sized_ = facet_sized_check(#pointer, (pointer), (error));                                    \
        if (sized_ != FACET_OK)                                                                                        \
            return sized_;                                                                                             \
    } while (0)

uint32_t facet_vgpu_count(struct facet_driver *driver);

static inline bool facet_vgpu_is_off(const struct facet_vgpu *vgpu, uint32_t what)
{
    return vgpu->driver->config.off & what;
}

/* Like facet_vgpu_take(), but refuses a vGPU whose device is lost or that has no space. */
enum facet_status facet_vgpu_take_space(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                        struct facet_error *error);

/*
 * Reads and writes memory that no queued work of the vGPU uses (memory/idle.h), so no thread waits for that work.
 * Without a space the device waits for the vGPU's work, and gives up after some seconds (FACET_TIMEOUT). FACET_FROZEN:
 * the vGPU is paused. `data` NULL: writes zeros.
 */
enum facet_status facet_vgpu_read_idle(struct facet_driver *driver, uint32_t id, uint64_t address, void *ret_data,
                                       uint64_t bytes, struct facet_error *error);
enum facet_status facet_vgpu_write_idle(struct facet_driver *driver, uint32_t id, uint64_t address, const void *data,
                                        uint64_t bytes, struct facet_error *error);

/* --- host_side.c --- */

/*
 * Checks the host's side of a copy: refuses managed memory of any vGPU of the driver. Refuses memory of the vGPUs'
 * spaces, too, where its addresses are pointers in this process, or where `detect` chose the kind of copy.
 */
enum facet_status facet_vgpu_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                        uint64_t bytes, bool detect, struct facet_error *error);

#endif
