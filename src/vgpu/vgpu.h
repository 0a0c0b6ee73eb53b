/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A virtual GPU: its place in the driver's list, its settings, how it is made and ended.
 *
 * Owns: the object and its reference count. Never: calls a provider with the driver's list locked.
 *
 * Each call on a vGPU holds a reference until its variable goes out of scope. Destroying takes the vGPU out of the
 * list, ends its work, and waits until the last reference is dropped.
 */
#ifndef FACET_VGPU_VGPU_H
#define FACET_VGPU_VGPU_H

#include <pthread.h>
#include <stdatomic.h>

#include <facet/compute.h>
#include <facet/monitor.h>
#include <facet/vgpu.h>

#include "base/cleanup.h"
#include "compute/scale.h"
#include "monitor/history.h"

struct facet_vgpu_pin;
struct facet_managed;
struct facet_vgpu_device;
struct facet_vgpu_stream;

struct facet_vgpu {
    struct facet_vgpu *next_remains; /* link in the driver's list of remains, once it has ended */
    struct facet_driver *driver;
    struct facet_vgpu_device *device;
    uint32_t id;
    uint64_t serial;                                       /* unique in the driver, while ids are reused; never 0 */
    bool listed;                                           /* it can be found; under the driver's list lock */
    char name[FACET_NAME_SIZE], worker[FACET_WORKER_SIZE]; /* the worker: its name on the device, unique to it */
    uint64_t context;
    struct facet_space *space; /* NULL: memory virtualization is off */
    uint64_t created_ns;
    uint64_t memory_bytes; /* promised: under the driver's list lock */
    atomic_uint_least64_t limit_bytes;
    atomic_uint references;
    atomic_bool used, paused, ending;
    atomic_uint features_off, features_on; /* FACET_OFF_TENSOR_CORES, FACET_ON_MIXED_PRECISION */

    pthread_mutex_t lock; /* protects the members up to `scaled_units` */
    uint32_t request_milli, limit_milli, priority, units, units_least, launches;
    bool has_share, has_bounds;          /* a share, or bounds, were sent to the device */
    uint32_t scaled_milli, scaled_units; /* the last values that scaling sent to it */

    uint32_t streams;
    struct facet_vgpu_stream *stream;

    pthread_mutex_t pin_lock;    /* protects the members up to `last_program_pin`; held for list operations only */
    struct facet_vgpu_pin *pins; /* of launches in flight, where memory swaps */
    struct facet_vgpu_pin *program_pins; /* pins that the program asked for */
    uint32_t program_pin_count;
    uint64_t last_program_pin;

    pthread_mutex_t managed_lock;          /* held while `managed` is made */
    struct facet_managed *_Atomic managed; /* NULL: no managed memory was ever allocated */

    struct facet_history *_Atomic history; /* made when it is first used; written by the driver's thread */

    /* Under the driver's monitor lock. */
    bool measured;
    uint32_t compute_milli;

    /* Used by the driver's thread only. */
    struct facet_sample last;
    struct facet_scale_member scale;
};

/* --- list.c --- */

/*
 * Returns the vGPU with a reference. The variable is declared FACET_CLEANUP_VGPU, so that every return drops the
 * reference. A function that passes the vGPU on takes it out of its variable with FACET_TAKE_PTR.
 */
enum facet_status facet_vgpu_take(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                  struct facet_error *error);
/* Drops a reference that facet_vgpu_next() gave. Those of facet_vgpu_take() are dropped by FACET_CLEANUP_VGPU. */
void facet_vgpu_drop(struct facet_vgpu *vgpu);
/* Returns `status`; marks the device as lost when it is FACET_DEVICE_LOST. */
enum facet_status facet_vgpu_note_status(struct facet_vgpu *vgpu, enum facet_status status);
enum facet_status facet_vgpu_refuse_unknown(struct facet_driver *driver, uint32_t id, struct facet_error *error);
/* Reserves the vGPU's id, so that no other vGPU can have it; gives it the least free one when it has none. */
enum facet_status facet_vgpu_reserve_id(struct facet_vgpu *vgpu, struct facet_error *error);
/* `complete`: the vGPU can be found from now on. Otherwise its id is free again. */
void facet_vgpu_enlist(struct facet_vgpu *vgpu, bool complete);
/* Takes the vGPU out of the list; NULL: there is none with this id. */
struct facet_vgpu *facet_vgpu_delist(struct facet_driver *driver, uint32_t id);
/* The first vGPU whose id is at least `id`, with a reference; NULL: none. */
struct facet_vgpu *facet_vgpu_next(struct facet_driver *driver, uint32_t id);

static inline void facet_cleanup_vgpu(struct facet_vgpu *const *vgpu)
{
    if (*vgpu)
        facet_vgpu_drop(*vgpu);
}

#define FACET_CLEANUP_VGPU __attribute__((cleanup(facet_cleanup_vgpu)))

uint32_t facet_vgpu_status_of(const struct facet_vgpu *vgpu);

/* --- life.c --- */

/* Takes apart a vGPU that is in no list. */
void facet_vgpu_dismantle(struct facet_vgpu *vgpu);

/* --- remains.c --- */

/*
 * Takes over the context and the space of a vGPU that has ended, and frees them when none of its work runs any more.
 */
void facet_vgpu_remains_add(struct facet_vgpu *vgpu);
/* Frees the remains whose work is over, of one device, or of all devices (NULL). True: some were freed. */
bool facet_vgpu_remains_free_finished(struct facet_driver *driver, const struct facet_vgpu_device *device);
/* Frees all remains when the driver closes. */
void facet_vgpu_remains_clear(struct facet_driver *driver);

/* --- compute.c --- */

/* Sends the vGPU's share, priority and bounds to the device. The caller holds the vGPU's lock, or has not listed it
 * yet. */
enum facet_status facet_vgpu_apply(struct facet_vgpu *vgpu, struct facet_error *error);
/*
 * Renames the argument in an error of a space, which names it "limit", to the vGPU's memory_bytes. Returns `status`.
 */
enum facet_status facet_vgpu_name_limit(enum facet_status status, struct facet_error *error);
enum facet_status facet_vgpu_check_priority(uint32_t priority, struct facet_error *error);

#endif
