/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that the files of this room share: the driver, its devices, its virtual GPUs and their streams.
 *
 * Owns: the objects, their reference counts, and the order of their locks.
 * Never: knows a provider by name, or how pages and work-groups are managed: src/memory and the providers do.
 *
 * Locks, outermost first: a vGPU's, that of its managed memory, a stream's, the driver's list, the driver's monitor.
 * Provider calls are made with a stream's lock held, so that launches have the order of their numbers, or with a
 * vGPU's, so that the last setting holds; never with the driver's list.
 *
 * Lifetimes. Each call on a vGPU holds a reference, until the variable that has it goes out of scope. Destroying takes
 * the vGPU out of the list, ends its work, and waits until the last reference is dropped.
 */
#ifndef FACET_VGPU_DRIVER_H
#define FACET_VGPU_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include <facet/compute.h>
#include <facet/monitor.h>
#include <facet/session.h>
#include <facet/vgpu.h>

#include "base/cleanup.h"
#include "base/forked.h"
#include "base/need.h"
#include "base/sized.h"
#include "compute/scale.h"
#include "monitor/history.h"

/* A device that is open. */
struct facet_vgpu_device {
    struct facet_driver *driver;
    uint32_t index;  /* of the driver */
    uint32_t number; /* of the provider */
    char id[64], target[64];
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
    struct facet_device_info info;
    uint64_t owner;              /* the context that pages are charged to; 0: none */
    struct facet_memory *memory; /* NULL: memory virtualization is off */
    uint64_t memory_bytes;       /* the most that vGPUs can have together */
    uint64_t swap_bytes;         /* beyond that */
    atomic_bool lost;

    /* Under the driver's list lock. */
    uint32_t vgpus, promised_milli;
    uint64_t promised_bytes;

    struct facet_history *history;           /* written by the driver's thread */
    struct facet_process_metrics *processes; /* the driver's thread's: by worker; NULL: not read in this interval */
    uint32_t process_count;

    /* Under the driver's monitor lock. */
    uint32_t valid, utilization_milli;
    uint64_t busy_ns;
};

/*
 * How much device time a device has per unit of time (facet/compute.h): a CPU one for each unit, any other device one.
 */
static inline uint32_t facet_vgpu_device_parallel(const struct facet_vgpu_device *device)
{
    return device->info.kind == FACET_DEVICE_CPU && device->info.compute_units > 0 ? device->info.compute_units : 1;
}

/* The records kept of a stream. */
#define FACET_STREAM_RECORDS 512u

struct facet_vgpu_stream {
    pthread_mutex_t lock; /* all below; held while something is queued, so that numbers are in order */
    uint64_t number;      /* of the provider; 0: never used */
    uint32_t priority;
    uint64_t launched;                   /* the last number given */
    uint64_t drained;                    /* the last record that was read */
    struct facet_launch_record *records; /* a ring by number; grows to FACET_STREAM_RECORDS */
    uint32_t room;
    struct facet_stream_state state; /* as last read */
    uint64_t delay_ns, failed, cancelled;
    bool gaps; /* records were lost: these sums are not whole */
};

struct facet_vgpu_pin;
struct facet_managed;

struct facet_vgpu {
    struct facet_vgpu *next_remains; /* of the driver's list, once it has ended */
    struct facet_driver *driver;
    struct facet_vgpu_device *device;
    uint32_t id;
    uint64_t serial;                                       /* its own, even when ids are reused; never 0 */
    bool listed;                                           /* under the driver's list lock */
    char name[FACET_NAME_SIZE], worker[FACET_WORKER_SIZE]; /* the worker: its name on the device, unique to it */
    uint64_t context;
    struct facet_space *space; /* NULL: memory virtualization is off */
    uint64_t created_ns;
    uint64_t memory_bytes; /* promised: under the driver's list lock */
    atomic_uint_least64_t limit_bytes;
    atomic_uint references;
    atomic_bool used, paused, ending;
    atomic_uint off, on; /* FACET_OFF_TENSOR_CORES, FACET_ON_MIXED_PRECISION */

    pthread_mutex_t lock; /* the next */
    uint32_t request_milli, limit_milli, priority, units, units_least, launches;
    bool shared, bound;                /* the device was told of a share, of bounds */
    uint32_t given_milli, given_units; /* the last values that scaling sent to it */

    uint32_t streams;
    struct facet_vgpu_stream *stream;

    pthread_mutex_t pin_lock;    /* the next; nothing is called with it held */
    struct facet_vgpu_pin *pins; /* of launches under way, where memory swaps */
    struct facet_vgpu_pin *kept; /* of the program, by number */
    uint32_t kept_count;
    uint64_t last_kept;

    pthread_mutex_t managed_lock;          /* held while `managed` is made */
    struct facet_managed *_Atomic managed; /* NULL: no managed memory was ever allocated */

    struct facet_history *_Atomic history; /* made when it is first used; written by the driver's thread */

    /* Under the driver's monitor lock. */
    bool measured;
    uint32_t compute_milli;

    /* The driver's thread's. */
    struct facet_sample last;
    struct facet_scale_member scale;
};

/* Ids of those that were destroyed. */
#define FACET_VGPU_REMEMBERED 1000u

struct facet_driver {
    struct facet_origin origin;
    struct facet_driver_config config; /* complete; the driver owns its texts */
    char **device_names;
    char *providers;
    struct facet_memory_config memory_config;
    uint32_t devices;
    struct facet_vgpu_device *device;

    pthread_rwlock_t list;    /* the next */
    struct facet_vgpu **vgpu; /* by id */
    uint32_t vgpus, streams;
    uint32_t destroyed[FACET_VGPU_REMEMBERED];
    uint64_t destructions, serials;

    atomic_uint managed; /* vGPUs with managed memory */

    pthread_mutex_t monitor;
    pthread_cond_t wake; /* of the thread that measures */
    pthread_cond_t gone; /* of a vGPU that ends: it is used no more */
    pthread_t thread;
    bool measuring, closing;
    struct facet_vgpu *remains; /* vGPUs that have ended, while a work-group that cannot end may use their memory */

    int folder, lock; /* of its published file; -1: none */
    char published[40];
    uint64_t published_ns;

    pthread_mutex_t watching; /* the next; held while watches are told */
    struct facet_vgpu_watch *watches;
    uint64_t watched;
};

/* As FACET_NEED, these return. */

/* One of this process: a child of fork() has only a copy, whose device is the parent's. */
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
        if (facet_driver_is_telling(driver))                                                                           \
            return facet_error_set((error), FACET_BAD_STATE,                                                           \
                                   "%s() cannot be called in a watch's function; let another thread do it", __func__); \
    } while (0)

/* An output whose `size` the caller set: at least that itself. */
#define FACET_VGPU_NEED_STRUCT(pointer, error)                                                                         \
    do {                                                                                                               \
        enum facet_status said_ = facet_sized_check(#pointer, (pointer), (error));                                     \
        if (said_ != FACET_OK)                                                                                         \
            return said_;                                                                                              \
    } while (0)

/* --- list.c --- */

/*
 * The vGPU with a reference: into a variable that is FACET_CLEANUP_VGPU, so that every return drops it. A function that
 * passes it on disarms that with FACET_TAKE_PTR, into another such variable.
 */
enum facet_status facet_vgpu_take(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                  struct facet_error *error);
/* Only for vGPUs of facet_vgpu_next(), and by FACET_CLEANUP_VGPU. */
void facet_vgpu_drop(struct facet_vgpu *vgpu);
/* Returns `status`, and marks the device as lost when it says so. */
enum facet_status facet_vgpu_note(struct facet_vgpu *vgpu, enum facet_status status);
enum facet_status facet_vgpu_unknown(struct facet_driver *driver, uint32_t id, struct facet_error *error);
/* Its number is unique from now on; when it has none it gets the least that is free. */
enum facet_status facet_vgpu_reserve_id(struct facet_vgpu *vgpu, struct facet_error *error);
/* The vGPU is complete and can be found; or it is not, and its number is free again. */
void facet_vgpu_enlist(struct facet_vgpu *vgpu, bool whole);
/* NULL: there is none. */
struct facet_vgpu *facet_vgpu_delist(struct facet_driver *driver, uint32_t id);
/* The first whose number is at least `id`, with a reference; NULL: none. */
struct facet_vgpu *facet_vgpu_next(struct facet_driver *driver, uint32_t id);

static inline void facet_cleanup_vgpu(struct facet_vgpu *const *vgpu)
{
    if (*vgpu)
        facet_vgpu_drop(*vgpu);
}

#define FACET_CLEANUP_VGPU __attribute__((cleanup(facet_cleanup_vgpu)))

uint32_t facet_vgpu_status_of(const struct facet_vgpu *vgpu);
uint32_t facet_vgpu_count(struct facet_driver *driver);

/* --- host_side.c --- */

/*
 * The host's side of a copy, as far as the driver can check: managed memory of any of its vGPUs is refused, and memory
 * of their spaces where its addresses are pointers here, or where `detect` let an address stand for itself.
 */
enum facet_status facet_vgpu_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                        uint64_t bytes, bool detect, struct facet_error *error);

/* --- device.c --- */

enum facet_status facet_vgpu_devices_open(struct facet_driver *driver, struct facet_error *error);
void facet_vgpu_devices_close(struct facet_driver *driver);
enum facet_status facet_vgpu_device_check(struct facet_vgpu_device *device, struct facet_error *error);

/* --- life.c --- */

/* Takes apart a vGPU that is in no list. */
void facet_vgpu_end(struct facet_vgpu *vgpu);

/* --- remains.c --- */

/*
 * Takes the rest of a vGPU that has ended: its context and its space, which are freed when none of its work runs any
 * more.
 */
void facet_vgpu_remains_add(struct facet_vgpu *vgpu);
/* Frees the remains that can be freed, of one device, or all (NULL). Whether any was. */
bool facet_vgpu_remains_look(struct facet_driver *driver, const struct facet_vgpu_device *device);
/* At the driver's end. */
void facet_vgpu_remains_clear(struct facet_driver *driver);
/* Checks whether freed memory of the device's vGPUs has left by now. Whether any had. */
bool facet_vgpu_settle_device(const struct facet_vgpu_device *device);

/* --- stream.c --- */

enum facet_status facet_vgpu_streams_init(struct facet_vgpu *vgpu, uint32_t count, struct facet_error *error);
/* Ends them on the device; and frees their records here. */
void facet_vgpu_streams_clear(struct facet_vgpu *vgpu);
void facet_vgpu_streams_free(struct facet_vgpu *vgpu);
/* Cancels the work of every stream. */
void facet_vgpu_streams_cancel(struct facet_vgpu *vgpu);
/* The stream, locked, and made at its first use: paired with facet_vgpu_stream_close(). */
enum facet_status facet_vgpu_stream_open(struct facet_vgpu *vgpu, uint32_t index, struct facet_vgpu_stream **ret_stream,
                                         struct facet_error *error);
/* Unlocks it. When `status` is FACET_OK something was queued: returns its number. */
uint64_t facet_vgpu_stream_close(struct facet_vgpu_stream *stream, enum facet_status status);
/* Reads the state and the new records. With the stream's lock held. */
enum facet_status facet_vgpu_stream_drain_records(struct facet_vgpu *vgpu, struct facet_vgpu_stream *stream,
                                                  struct facet_error *error);
/* Waits until a launch is over, for as long as it takes. */
enum facet_status facet_vgpu_stream_drain(struct facet_vgpu *vgpu, uint64_t execution);
/* Whether it has something that is not complete, as last read. */
bool facet_vgpu_stream_is_busy(const struct facet_vgpu_stream *stream);

/* --- memory.c --- */

/* As facet_vgpu_take(), of a device that is not lost, for calls that need a space. */
enum facet_status facet_vgpu_take_space(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                        struct facet_error *error);

/*
 * Memory that no queued work of the vGPU uses (memory/idle.h), so no thread waits for that work. Without a space the
 * device itself waits, for some seconds: FACET_TIMEOUT. FACET_FROZEN: it is paused. `data` NULL: zeros.
 */
enum facet_status facet_vgpu_read_idle(struct facet_driver *driver, uint32_t id, uint64_t address, void *ret_data,
                                       uint64_t bytes, struct facet_error *error);
enum facet_status facet_vgpu_write_idle(struct facet_driver *driver, uint32_t id, uint64_t address, const void *data,
                                        uint64_t bytes, struct facet_error *error);

/* --- pin.c --- */

/* The longest that a launch waits for its vGPU's memory to be on the device. */
#define FACET_VGPU_PIN_NS UINT64_C(30000000000)

/* Where memory swaps: brings in all memory of the vGPU. Anywhere else *ret_pin is NULL. */
enum facet_status facet_vgpu_pin_all(struct facet_vgpu *vgpu, struct facet_pin **ret_pin, struct facet_error *error);
/* The pin is released when the launch is over; or at once, when `execution` is 0. */
void facet_vgpu_pin_follow(struct facet_vgpu *vgpu, struct facet_pin *pin, uint64_t execution);
/* Releases those whose launches are over; all of them when the vGPU ends. */
void facet_vgpu_pins_release(struct facet_vgpu *vgpu, bool all);
/* Releases those that the program keeps, at the vGPU's end. */
void facet_vgpu_kept_release(struct facet_vgpu *vgpu);

/* --- managed*.c --- */

/*
 * Brackets every call that lets the device see or change memory: managed pages at the host go back first, and come
 * again only after the end. *ret_entered is for leave, and NULL when there is nothing to leave. No pointer that the
 * caller follows in between may be to managed memory.
 */
enum facet_status facet_managed_enter(struct facet_vgpu *vgpu, struct facet_managed **ret_entered,
                                      struct facet_error *error);
void facet_managed_leave(struct facet_managed *entered);
/* Frees an address of the vGPU's space, managed or not. */
enum facet_status facet_managed_free(struct facet_vgpu *vgpu, uint64_t address, struct facet_error *error);
enum facet_status facet_managed_check_resize(const struct facet_vgpu *vgpu, uint64_t address,
                                             struct facet_error *error);
/* The host's side of a copy: refused when it is managed memory of any vGPU of the driver. */
enum facet_status facet_managed_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                           uint64_t bytes, struct facet_error *error);
void facet_managed_resumed(struct facet_vgpu *vgpu);
/* When no call uses the vGPU any more, and nothing of it is queued. */
void facet_managed_end(struct facet_vgpu *vgpu);

/* --- compute.c --- */

/* Sends the vGPU's share, priority and bounds to the device. With its lock held, or before it is in the list. */
/*
 * A space says "limit" where the caller said memory_bytes: renames the argument in the error, and returns the status.
 */
enum facet_status facet_vgpu_name_limit(enum facet_status status, struct facet_error *error);
enum facet_status facet_vgpu_apply(struct facet_vgpu *vgpu, struct facet_error *error);
enum facet_status facet_vgpu_check_priority(uint32_t priority, struct facet_error *error);

/* --- measure.c --- */

enum facet_status facet_vgpu_measure_start(struct facet_driver *driver, struct facet_error *error);
void facet_vgpu_measure_stop(struct facet_driver *driver);

/* --- publish.c --- */

enum facet_status facet_vgpu_publish_open(struct facet_driver *driver, struct facet_error *error);
/* At most once a second. */
void facet_vgpu_publish(struct facet_driver *driver, uint64_t now_ns);
void facet_vgpu_publish_close(struct facet_driver *driver);

/* --- watch.c --- */

/*
 * The subject of a watch: a vGPU by its serial number, or a device when that is 0; and the memory that is 1000 milli.
 */
struct facet_vgpu_subject {
    uint64_t serial;
    uint32_t device;
    uint64_t memory_bytes;
};

/* Passes a new sample to the watches of its subject. */
void facet_vgpu_watches_feed(struct facet_driver *driver, const struct facet_vgpu_subject *subject,
                             const struct facet_sample *sample);
/* Ends those of a vGPU; all when it is 0. */
void facet_vgpu_watches_end(struct facet_driver *driver, uint64_t serial);

/* Whether the caller is a watch's function: no other code of the program runs in the driver's thread. */
static inline bool facet_driver_is_telling(const struct facet_driver *driver)
{
    return driver->measuring && pthread_equal(driver->thread, pthread_self());
}

/* --- scaling.c --- */

/* Adjusts every vGPU of the device to its demand, by its last two samples. In the driver's thread. */
void facet_vgpu_scale(struct facet_vgpu_device *device);
/* Notes the measurements of one vGPU since the last window. */
void facet_vgpu_scale_note(struct facet_vgpu *vgpu, const struct facet_sample *before,
                           const struct facet_sample *sample);

/* ---- numbers of a stream and one of its launches ---- */

#define FACET_EXECUTION_SHIFT 48u

static inline uint64_t facet_execution_number(uint32_t stream, uint64_t sequence)
{
    return (uint64_t)(stream + 1) << FACET_EXECUTION_SHIFT | sequence;
}

static inline bool facet_vgpu_off(const struct facet_vgpu *vgpu, uint32_t what)
{
    return vgpu->driver->config.off & what;
}

#endif
