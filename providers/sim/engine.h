/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: contexts and their objects, and the load of their kernels on devices.
 *
 * Owns: objects with a number (contexts, page objects, modules, streams), accounts, and device loads. One table has all
 * objects, so numbers are unique in the instance.
 * Never: knows profiles, partitions or limits beyond the result of sim_share_of().
 *
 * Files: engine.c (contexts, numbers), engine_account.c (use per worker), engine_space.c and engine_store.c (memory),
 * engine_load.c (kernels over time), model.c (durations, heat), engine_save.c and engine_restore.c (snapshots);
 * memory.c, execution.c, metrics.c and snapshot.c are the ABI's operations over them.
 *
 * Functions declared here are called with the instance's lock held, unless stated otherwise.
 */
#ifndef FACET_SIM_ENGINE_H
#define FACET_SIM_ENGINE_H

#include <errno.h>
#include <sys/queue.h>

#include "engine_space.h"
#include "kernel.h"
#include "model.h"
#include "provider_kit.h"
#include "sim.h"
#include "usage.h"

#define SIM_UUID_SIZE      64
#define SIM_ARGUMENTS_MAX  4096u
#define SIM_GROUP_MAX      1024u                /* work-items of one work-group */
#define SIM_GRID_MAX       (UINT32_C(1) << 31)  /* work-groups in one dimension */
#define SIM_LOCAL_MAX      (UINT32_C(1) << 18)  /* bytes of local memory of a work-group */
#define SIM_DRAIN_LIMIT_NS UINT64_C(4000000000) /* how long a copy waits for a stream that hangs */

enum sim_kind {
    SIM_KIND_CONTEXT = 1,
    SIM_KIND_PAGES = 2,
    SIM_KIND_MODULE = 3,
    SIM_KIND_STREAM = 4,
};

/* Each object with a number begins with this struct. */
struct sim_object {
    enum sim_kind kind;
    uint64_t number;
    struct sim_context *context; /* the context that it belongs to; of a context, itself */
    TAILQ_ENTRY(sim_object) link;
};
TAILQ_HEAD(sim_objects, sim_object);

struct sim_pages {
    struct sim_object object;
    uint64_t bytes;
    struct sim_extent *extent;
    uint64_t mappings;
    bool destroyed; /* freed with the last unmap; set from the start for plain memory */
};

struct sim_module {
    struct sim_object object;
    struct sim_image image;
    char *text; /* the source, for snapshots */
    uint64_t bytes;
    uint64_t pending; /* its launches that are not complete */
};

struct sim_launch {
    TAILQ_ENTRY(sim_launch) queued;  /* in its stream */
    TAILQ_ENTRY(sim_launch) running; /* on its device, once it has begun */
    struct sim_stream *stream;
    struct sim_module *module;
    const struct sim_kernel *kernel;
    uint64_t groups;
    bool begun;
    struct sim_device_part part; /* set when it begins */
    struct sim_solo_time solo;   /* at the present clock */
    uint32_t pool;               /* index into sim_load.pools */
    uint64_t total_ns;           /* the time for all of its work, at the present pace */
    uint64_t remaining;          /* its remaining work; SIM_WHOLE_WORK when it has not begun */
    uint64_t elapsed_ns;         /* its time on the device so far */
    struct facet_launch request;
    unsigned char arguments[];
};
TAILQ_HEAD(sim_launches, sim_launch);

struct sim_stream {
    struct sim_object object;
    struct sim_launches queue; /* the first one is on the device */
    uint32_t failed;
    uint64_t launched, completed, busy_ns;
};

/* The use of a device or one of its partitions by a worker. It lives as long as the worker has a context on that. */
struct sim_account {
    LIST_ENTRY(sim_account) link;
    uint32_t device;
    char worker[FACET_WORKER_SIZE];
    char partition_uuid[SIM_UUID_SIZE];
    uint32_t contexts;       /* including lost ones */
    struct sim_usage *usage; /* its use: in a shared file, or `own_usage` */
    struct sim_usage own_usage;
    uint64_t busy_ns; /* of its kernels; the times of concurrent kernels add up */
    uint64_t unit_ns; /* units at work times time */
    uint32_t units_active;
    uint64_t read_at_ns, read_unit_ns; /* at the last reading */
    bool was_read;
    uint32_t compute_milli; /* between the last two readings */
};

struct sim_context {
    struct sim_object object;
    TAILQ_ENTRY(sim_context) link;
    struct sim_account *account;
    struct sim_share share;
    struct sim_objects objects; /* all its objects except itself, oldest first */
    struct sim_space space;
    uint32_t device;
    bool lost;   /* lost with its device: it can only be destroyed */
    bool saving; /* a snapshot of it is being written: it must not change */
};
TAILQ_HEAD(sim_contexts, sim_context);

/* The kernels that share units: the kernels on one worker's exclusive units, or all other kernels of a device. */
struct sim_pool {
    struct sim_demand demand;
    uint64_t units; /* the sum of the units that the kernels want */
};

__extension__ typedef unsigned __int128 sim_wide;

/* Sums over time, from which readings take differences. */
struct sim_integrals {
    uint64_t at_ns;
    uint64_t unit_ns;       /* units at work */
    sim_wide tensor_ns;     /* units at work, times the milli of their work that is tensor work */
    sim_wide memory_ns;     /* milli of the peak bandwidth */
    uint32_t compute_milli; /* of the interval that ended here */
    uint32_t tensor_milli;
    uint32_t memory_milli;
};

/* One device over time. */
struct sim_load {
    uint32_t device;
    uint64_t at_ns; /* the model's time up to which the members below are computed */
    struct sim_launches running;
    struct sim_pool *pools; /* by first unit; the last one is for contexts that share */
    uint32_t slowdown_milli;
    uint32_t clock_mhz, throttle;
    bool hot;
    int64_t temperature_uc;
    uint64_t power_mw;
    sim_wide energy_pj;
    uint64_t busy_ns;
    uint32_t units_active;
    uint64_t tensor_active, memory_active; /* rates of the integrals */
    struct sim_integrals now, read;        /* up to now, and up to the last reading */
    bool was_read;
    uint64_t rx_bytes, tx_bytes;
};

/* A worker that a snapshot took off its device. `fd`: a memory file with its contexts; -1: a caller's file has them. */
struct sim_parked {
    LIST_ENTRY(sim_parked) link;
    bool process; /* taken by snapshot_processes: all contexts of this process */
    uint32_t device;
    char worker[FACET_WORKER_SIZE]; /* empty: every worker of the device */
    int fd;
    uint32_t count;
    uint64_t contexts[]; /* their numbers, which stay reserved */
};

struct sim_engine {
    uint64_t next_number;
    struct sim_table objects;
    struct sim_contexts contexts;
    LIST_HEAD(, sim_account) accounts;
    LIST_HEAD(, sim_parked) parked;
    struct sim_load *loads;
    uint32_t device_count;
};

/* --- every operation --- */

#define SIM_REQUIRE(value, error)                                                                                      \
    do {                                                                                                               \
        if (!(value))                                                                                                  \
            return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "%s: expected a value, not NULL", #value);            \
    } while (0)

/*
 * The beginning of an operation on a device, with SIM_LOCK() held: applies the faults that hit `operation` (NULL:
 * none), then everything that is due. FACET_NOT_FOUND, FACET_DEVICE_LOST.
 */
enum facet_status sim_engine_begin(struct facet_provider_instance *instance, const char *operation, uint32_t device,
                                   struct facet_error *error);

/* --- engine.c --- */

/*
 * Begins an operation on the device of a context. FACET_NOT_FOUND, FACET_BUSY while it is being saved, or
 * FACET_DEVICE_LOST: then the context is returned too, so that it can be destroyed.
 */
enum facet_status sim_context_find(struct facet_provider_instance *instance, const char *operation, uint64_t number,
                                   struct sim_context **ret_context, struct facet_error *error);
/* The object of this kind and number, if it belongs to the context. NULL: there is none. */
void *sim_object_find(const struct facet_provider_instance *instance, const struct sim_context *context,
                      enum sim_kind kind, uint64_t number);

/* Updates the context's share, because limits may have changed. */
enum facet_status sim_context_refresh(struct facet_provider_instance *instance, struct sim_context *context,
                                      struct facet_error *error);

/* Gives `object` the next number, and enters it in the tables. */
enum facet_status sim_object_enter(struct facet_provider_instance *instance, struct sim_context *context,
                                   struct sim_object *object, enum sim_kind kind, struct facet_error *error);
/* Takes the object out of the tables and frees it. */
void sim_object_drop(struct facet_provider_instance *instance, struct sim_object *object);

/* A context with an empty space, in no table; needs no lock. */
enum facet_status sim_context_new(uint32_t page_bytes, struct sim_context **ret_context, struct facet_error *error);
/* Frees a context that is in no table, with its objects; needs no lock. NULL is allowed. */
void sim_context_free(struct sim_context *context);
/* Ends its work and removes it from all tables; sim_context_free() frees it. */
void sim_context_unlink(struct facet_provider_instance *instance, struct sim_context *context);

/* A page object of `bytes` for a context, not yet numbered or counted; needs no lock. */
enum facet_status sim_pages_new(struct sim_context *context, uint64_t bytes, struct sim_pages **ret_pages,
                                struct facet_error *error);

/* Whether a snapshot took the context of that number off its device. */
bool sim_parked_has(const struct sim_engine *engine, uint64_t context);

/* Called when a worker has a new context: it no longer counts as off its device. A snapshot of it in memory is kept. */
void sim_snapshot_worker_returned(struct sim_engine *engine, uint32_t device, const char *worker);

/* Waits until the context's queued work is complete. Releases the lock meanwhile. FACET_TIMEOUT. */
enum facet_status sim_context_drain(struct facet_provider_instance *instance, uint64_t number, uint64_t timeout_ns,
                                    struct facet_error *error);

/* --- engine_account.c --- */

/*
 * Gives a context a share of its device and an account, and takes `bytes` for its existing memory. This is done in one
 * transaction of the state, so that no process changes the state meanwhile. Errors: those of sim_share_of(),
 * FACET_QUOTA, FACET_NO_SPACE.
 */
enum facet_status sim_account_enter(struct facet_provider_instance *instance, struct sim_context *context,
                                    const char *partition_uuid, const char *worker, uint64_t bytes,
                                    struct facet_error *error);
/* The account is freed with its last context. The context's bytes were released before. */
void sim_account_leave(struct sim_context *context);
/*
 * Takes `bytes` more for a context, after updating its share: FACET_QUOTA, FACET_NO_SPACE. To release bytes, lower
 * `usage->used_bytes`.
 */
enum facet_status sim_account_take(struct facet_provider_instance *instance, struct sim_context *context,
                                   uint64_t bytes, struct facet_error *error);

struct sim_use {
    uint64_t worker, partition, device;
};

/*
 * The bytes in use on a device: by a worker, in a partition ("": outside of partitions), in total. The use by other
 * processes is that of the last transaction.
 */
struct sim_use sim_engine_use(const struct facet_provider_instance *instance, uint32_t device, const char *worker,
                              const char *partition_uuid);

/* --- execution.c: shared by launching and restoring --- */

enum facet_status sim_module_new(const void *image, uint64_t bytes, struct sim_module **ret_module,
                                 struct facet_error *error);
void sim_module_free(struct sim_module *module);
/* Makes a launch that is checked, but not queued. `arguments` has `request->argument_bytes` bytes. */
enum facet_status sim_launch_new(struct sim_stream *stream, struct sim_module *module,
                                 const struct facet_launch *request, const void *arguments,
                                 struct sim_launch **ret_launch, struct facet_error *error);
/* Queues the launch; sim_stream_begin_next() lets it begin. */
void sim_launch_queue(struct sim_launch *launch);

/* --- engine_load.c --- */

enum facet_status sim_load_open(struct facet_provider_instance *instance, uint32_t device, struct sim_load *load,
                                struct facet_error *error);
void sim_load_close(struct sim_load *load);
/* Brings one device to the model's time `now_ns`. */
void sim_load_advance(struct facet_provider_instance *instance, struct sim_load *load, uint64_t now_ns);
/* The time of the load's next change without a call; SIM_NEVER: there is none. */
uint64_t sim_load_next(const struct facet_provider_instance *instance, const struct sim_load *load);

/* Puts the first launch of the stream on the device, if it is not there yet. */
void sim_stream_begin_next(struct facet_provider_instance *instance, struct sim_stream *stream);
/* Removes all launches from the stream with `status`: FACET_OK counts as cancelled, not failed. */
void sim_stream_clear(struct facet_provider_instance *instance, struct sim_stream *stream, enum facet_status status);
/* Takes the stream's kernel off the device and keeps its progress. The stream keeps its launches. */
void sim_stream_stop(struct facet_provider_instance *instance, struct sim_stream *stream);

/* --- engine_save.c, engine_restore.c: the content of a snapshot; both need no lock --- */

/* Writes the contexts, which must not change meanwhile. `scope`: the worker, or empty. */
enum facet_status sim_save(const struct facet_provider_instance *instance, struct sim_context *const *contexts,
                           uint32_t count, const char *scope, int fd, struct facet_error *error);

/* For `target`: each context goes back to the device that it was saved from. */
#define SIM_SAME_DEVICE UINT32_MAX

/*
 * Reads contexts for device `target`, and appends them to `ret_contexts`. Each has its own memory and a new account,
 * and is in no table and without a share. `ret_scope`: as given to sim_save(). FACET_CORRUPT, FACET_UNSUPPORTED,
 * FACET_NO_MEMORY, FACET_IO.
 */
enum facet_status sim_restore(const struct facet_provider_instance *instance, uint32_t target, int fd,
                              char ret_scope[FACET_WORKER_SIZE], struct sim_contexts *ret_contexts,
                              struct facet_error *error);
void sim_contexts_free(struct sim_contexts *contexts);

#endif
