/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider that keeps every rule. It has one made-up device in memory, with every operation of the ABI.
 *
 * Owns: the device, and the tables that each broken provider takes over and breaks in one place (broken/).
 * Never: is installed; it is linked into test objects only.
 */
#ifndef FACET_TEST_BASE_H
#define FACET_TEST_BASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "provider_kit.h"

enum {
    BASE_SLICES = 8,
    BASE_WORKERS = 64,
    BASE_CONTEXTS = 64,
    BASE_PAGES = 128,
    BASE_MAPS = 256,
    BASE_RESERVATIONS = 64,
    BASE_STREAMS = 64,
    BASE_QUEUE = 64,
    BASE_RECORDS = 1024,
    BASE_EVENTS = 4096,
    BASE_PAGE = 4096,
    BASE_CLOCK_MHZ = 1000,
    BASE_WRITE = 256, /* most bytes of a write in a stream */
    BASE_OPERANDS = 6,
};

#define BASE_MEMORY UINT64_C(67108864)
#define BASE_KERNEL "store_words"
#define BASE_IMAGE  "base image: store_words"

struct base_worker {
    char name[FACET_WORKER_SIZE]; /* empty: free */
    uint64_t memory;              /* limit in bytes; 0: none */
    uint32_t milli;               /* limit of the share; 0: none */
};

struct base_context {
    uint64_t number; /* 0: free */
    char worker[FACET_WORKER_SIZE];
    char partition[64];
    bool is_saved; /* a snapshot took it off the device: only its number is left here */
    bool paused;
    uint32_t units, launches; /* bounds; 0: none */
    uint32_t priority;
    uint64_t busy_ns;
};

struct base_pages {
    uint64_t number; /* 0: free */
    uint64_t context, bytes;
    struct base_context owner; /* a copy of the charged context, which may have ended */
    uint32_t maps;
    bool from_alloc, is_destroyed, shared;
    unsigned char *data;
};

struct base_map {
    uint64_t context, address, bytes, offset; /* bytes 0: free */
    struct base_pages *pages;
};

struct base_reservation {
    uint64_t context, address, bytes; /* bytes 0: free */
};

enum base_work_kind { BASE_LAUNCH, BASE_QUEUED_WRITE, BASE_COPY, BASE_FILL, BASE_WAIT, BASE_MATH };

/*
 * Work that is queued in a stream. It is done when a caller waits for it, or reads memory. The fields by kind:
 *   - BASE_LAUNCH: a kernel of `module` stores `value` into each of the `count` words from `address` on.
 *   - BASE_QUEUED_WRITE: writes the `count` bytes of data.bytes to `address`.
 *   - BASE_COPY: copies `count` bytes from the address `value` to `address`.
 *   - BASE_FILL: writes `value` into each of the `count` bytes from `address` on.
 *   - BASE_WAIT: waits until number `count` of the stream `value` is done.
 *   - BASE_MATH: performs data.math.
 */
struct base_queued_work {
    enum base_work_kind kind;
    bool begun;
    uint64_t sequence, queued_ns, start_ns, groups;
    uint64_t module, address, count, value;
    union {
        struct facet_math math;
        unsigned char bytes[BASE_WRITE];
    } data;
};

/* A stream, or a module, which takes a number from the same table. */
struct base_stream {
    uint64_t number, context;
    struct facet_stream_state state;
    bool module;
    struct base_queued_work queue[BASE_QUEUE];
    uint32_t queued;
    uint64_t recorded; /* records so far; record n, counted from 1, is at (n - 1) % BASE_RECORDS */
    struct facet_launch_record records[BASE_RECORDS];
};

/* The state that snapshot keeps for a resume with descriptor -1. */
struct base_saved {
    char worker[FACET_WORKER_SIZE];
    char *bytes; /* NULL: free */
    size_t size;
};

struct facet_provider_instance {
    pthread_mutex_t lock;
    struct facet_partition_info partitions[BASE_SLICES]; /* uuid empty: free */
    struct base_worker workers[BASE_WORKERS];
    struct base_context contexts[BASE_CONTEXTS];
    struct base_pages pages[BASE_PAGES];
    struct base_map maps[BASE_MAPS];
    struct base_reservation reservations[BASE_RESERVATIONS];
    struct base_stream streams[BASE_STREAMS];
    struct facet_event *events;
    uint32_t event_count;
    uint64_t last_number, last_address, energy, busy_ns;
    uint32_t policy; /* enum facet_scheduling */
    int turn_index;  /* index in `contexts` of the context whose turn it is; -1: no context has work */
    struct base_saved saved[BASE_WORKERS];
};

/* All tables, writable: a fault changes them. */
struct base_tables {
    struct facet_provider provider;
    struct facet_device_ops device;
    struct facet_partition_ops partition;
    struct facet_limit_ops limit;
    struct facet_metrics_ops metrics;
    struct facet_container_ops container;
    struct facet_snapshot_ops snapshot;
    struct facet_memory_ops memory;
    struct facet_execution_ops execution;
    struct facet_math_ops math;
};

/* The operations that keep every rule, one table per file. */
extern const struct facet_device_ops base_device;
extern const struct facet_partition_ops base_partition;
extern const struct facet_limit_ops base_limit;
extern const struct facet_metrics_ops base_metrics;
extern const struct facet_container_ops base_container;
extern const struct facet_snapshot_ops base_snapshot;
extern const struct facet_memory_ops base_memory;
extern const struct facet_execution_ops base_execution;
extern const struct facet_math_ops base_math;

/* Written by each broken provider: puts its fault into the tables. */
void base_install_fault(struct base_tables *tables);

/* Functions that the files of the base share; called with the lock held. */
void base_describe(struct facet_device_info *ret_info);
struct base_context *base_find_context(struct facet_provider_instance *instance, uint64_t number);
enum facet_status base_require_context(struct facet_provider_instance *instance, uint64_t number,
                                       struct base_context **ret_context, struct facet_error *error);
void base_free_context_resources(struct facet_provider_instance *instance, uint64_t context);
enum facet_status base_require_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                      struct base_stream **ret_stream, struct facet_error *error);
struct base_stream *base_find_stream(struct facet_provider_instance *instance, uint64_t context, uint64_t number);
/* run.c: runs all work that may run. */
void base_run(struct facet_provider_instance *instance);
/* Appends work to the stream, and gives it the next number. */
enum facet_status base_enqueue(struct facet_provider_instance *instance, struct base_stream *stream,
                               const struct base_queued_work *work, struct facet_error *error);
/* Takes entry `index` out of the queue, and records it as complete with `status`. */
void base_finish(struct base_stream *stream, uint32_t index, enum facet_status status, uint32_t units);
uint64_t base_now_ns(void);
void base_append_record(struct base_stream *stream, const struct facet_launch_record *record);
struct base_worker *base_find_worker(struct facet_provider_instance *instance, const char *name);
bool base_is_partitioned(const struct facet_provider_instance *instance);
bool base_partition_in_use(const struct facet_provider_instance *instance, const char *uuid);
void base_add_event(struct facet_provider_instance *instance, uint32_t kind, uint64_t value, const char *uuid);
uint64_t base_memory_used(const struct facet_provider_instance *instance, const struct base_context *context);
enum facet_status base_check_memory(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                    uint64_t bytes, struct facet_error *error);
enum facet_status base_access_memory(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                     void *out, const void *in, uint64_t bytes, struct facet_error *error);
/* Copies from `from`, or fills with `value` if `from` is NULL. The whole range is checked before a byte is written. */
enum facet_status base_copy_or_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t to,
                                    const uint64_t *from, int value, uint64_t bytes, struct facet_error *error);

/* Finds pages that the context made, or that are shared; NULL: there are none. */
struct base_pages *base_find_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number);
/* The mapping that begins at or before `address` and reaches beyond it. */
struct base_map *base_map_at(struct facet_provider_instance *instance, uint64_t context, uint64_t address);
/* Counts one mapping less; frees destroyed pages when that was their last mapping. */
void base_drop_map(struct base_pages *pages);

/* pages.c: additions of version 1.3 to the table of memory. */
enum facet_status base_share_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t number,
                                   struct facet_error *error);
enum facet_status base_move_pages(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                  uint64_t number, uint64_t offset, uint64_t bytes, struct facet_error *error);

/* queue.c: additions of version 1.2 to the table of executions. */
enum facet_status base_queue_write(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                   uint64_t address, const void *data, uint64_t bytes, struct facet_error *error);
enum facet_status base_queue_copy(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t to, uint64_t from, uint64_t bytes, struct facet_error *error);
enum facet_status base_queue_fill(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  uint64_t address, uint8_t value, uint64_t bytes, struct facet_error *error);
enum facet_status base_set_share(struct facet_provider_instance *instance, uint64_t context, uint32_t request_milli,
                                 uint32_t limit_milli, uint32_t priority, struct facet_error *error);
enum facet_status base_set_priority(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    uint32_t priority, struct facet_error *error);
enum facet_status base_records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                               uint64_t after, void *items, uint32_t item_size, uint32_t capacity, uint32_t *ret_count,
                               struct facet_error *error);

/* control.c: additions of version 1.4 to the table of executions. */
enum facet_status base_set_bounds(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                  uint32_t launches, struct facet_error *error);
enum facet_status base_pause(struct facet_provider_instance *instance, uint64_t context, uint32_t paused,
                             struct facet_error *error);
enum facet_status base_wait(struct facet_provider_instance *instance, uint64_t context, uint64_t stream, uint64_t other,
                            struct facet_error *error);
enum facet_status base_cancel_launch(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     uint64_t sequence, struct facet_error *error);
enum facet_status base_set_policy(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                  uint32_t preempt, uint64_t slice_ns, struct facet_error *error);

/* One operand of an operation. */
struct base_operand {
    const char *name;
    uint64_t address, count; /* address 0: an optional operand that was left out */
    uint32_t type;           /* enum facet_math_type, or BASE_INT32 */
    bool written;
    unsigned char *bytes; /* a copy, while the operation runs */
};

/* An operation with its operands: math.c. */
struct base_math_work {
    struct facet_math math;
    struct base_operand operands[BASE_OPERANDS];
    uint32_t count;
};
#define BASE_INT32 FACET_MATH_TYPES

/* shapes.c: finds the operands, and refuses invalid operations. */
enum facet_status base_math_check(const struct facet_math *math, struct base_math_work *ret_work,
                                  struct facet_error *error);
/* math.c: performs the operation on the present contents of memory. */
enum facet_status base_math_perform(struct facet_provider_instance *instance, uint64_t context,
                                    const struct facet_math *math);
const char *base_math_name(uint32_t operation);
/* numbers.c: one element of an operand as a number, and back. */
double base_number(const struct base_operand *operand, uint64_t index);
void base_store(const struct base_operand *operand, uint64_t index, double value);
uint64_t base_bytes_of(uint32_t type);
/* compute.c, by enum facet_math_operation. */
extern void (*const base_compute[FACET_MATH_KINDS])(const struct base_math_work *work);

static inline void base_unlock(pthread_mutex_t **lock)
{
    pthread_mutex_unlock(*lock);
}

/* Holds the instance until the end of the block. */
#define BASE_LOCK(instance)                                                                                            \
    __attribute__((cleanup(base_unlock))) pthread_mutex_t *base_held_ = &(instance)->lock;                             \
    pthread_mutex_lock(base_held_)

#endif
