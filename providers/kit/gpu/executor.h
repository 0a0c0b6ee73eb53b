/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: queues of our own in front of the driver's.
 *
 * Owns: queued commands, submitted commands, and the one thread that submits commands and polls for completions.
 * turns.h schedules the contexts.
 * Never: lets the driver have more than a few launches of a stream, because submitted ones cannot be withdrawn.
 *
 * A command is queued here, then submitted to the driver between two events, and is complete when the second event is.
 * So cancelling drops commands that are not submitted, and the device measures the time of every command.
 *
 * Locks. The executor's lock guards streams, commands and modules' counts. It is innermost, and is not held while the
 * driver is called. Only the executor's thread submits commands, so that they stay in order without a lock.
 */
#ifndef FACET_KIT_GPU_EXECUTOR_H
#define FACET_KIT_GPU_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/provider.h>

#include "call.h"
#include "driver.h"
#include "turns.h"

#define GPU_RECORDS       1024u                 /* launch records that are kept for each stream */
#define GPU_IN_DRIVER     4u                    /* submitted commands of one stream at a time */
#define GPU_STAGED_BYTES  (UINT64_C(256) << 20) /* the most data of incomplete writes; a single write may be larger */
#define GPU_DRAIN_NS      UINT64_C(5000000000)  /* the longest wait for submitted work */
#define GPU_ARGUMENT_MOST 4096u

struct gpu_context;

enum gpu_command_kind { GPU_LAUNCH, GPU_WRITE, GPU_COPY, GPU_FILL, GPU_WAIT, GPU_CALL };

struct gpu_module {
    struct gpu_module *next;
    uint64_t number;
    struct gpu_context *context;
    gpu_module_handle handle;
    uint32_t pending; /* its launches that are not complete */
};

struct gpu_command {
    TAILQ_ENTRY(gpu_command) link;
    enum gpu_command_kind kind;
    uint64_t sequence, queued_ns, submitted_ns;
    gpu_event_handle start, end; /* while it is submitted */

    struct gpu_module *module; /* GPU_LAUNCH */
    gpu_kernel_handle kernel;
    struct facet_launch launch; /* GPU_CALL: only its name */

    uint64_t to, from, bytes; /* GPU_WRITE, GPU_COPY, GPU_FILL; `from` is an address, or 0 for `data` */
    uint8_t value;

    const struct gpu_stream *awaited; /* GPU_WAIT: must reach awaited_sequence; NULL: the stream was destroyed */
    uint64_t awaited_sequence;

    gpu_call_func run; /* GPU_CALL */
    struct kit_math_operands operands;

    size_t data_bytes; /* size of `data`: arguments of a launch, data of a write */
    uint8_t data[];
};
TAILQ_HEAD(gpu_commands, gpu_command);

struct gpu_stream {
    TAILQ_ENTRY(gpu_stream) link;
    uint64_t number;
    struct gpu_context *context;
    gpu_stream_handle handle;
    struct gpu_slice *slice; /* the units that it runs on; NULL: all that its context may use */
    bool is_destroyed;       /* destroyed; freed when its submitted work is complete */
    struct gpu_commands queued, submitted;
    uint32_t submitted_count;
    uint64_t submitting_sequence; /* sequence of a command that is being submitted; 0: none */
    uint32_t priority;            /* enum facet_priority: among the streams of its context */
    uint64_t last_ns;             /* duration of its last command */
    uint64_t last_end_ns;         /* when that command was seen to end: the next one began no earlier */
    uint64_t staged_bytes;        /* data of its writes that are not complete */
    struct facet_stream_state state;
    uint64_t last_sequence, record_count; /* records: number n is at n % GPU_RECORDS */
    struct facet_launch_record *records;
};
TAILQ_HEAD(gpu_streams, gpu_stream);

struct gpu_executor {
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* something was queued; something became complete */
    pthread_t thread;
    bool running, stopping;
    uint64_t changes; /* number of broadcasts of `done` */
    struct gpu_streams streams;
    struct gpu_tenants tenants;
    struct gpu_turns_list turns;
    struct gpu_module *modules;
};

struct gpu_machine;

void gpu_executor_init(struct gpu_executor *executor);

/*
 * Ends all streams, and the thread. No other call is in progress. False: the driver does not finish its work. Then the
 * thread goes on, and the memory that it uses must stay.
 */
bool gpu_executor_close(struct gpu_machine *machine);

/* With the executor's lock. Starts the thread with the first stream. */
enum facet_status gpu_executor_start(struct gpu_machine *machine, struct facet_error *error);

/* With the executor's lock: a stream that was not destroyed, or NULL. */
struct gpu_stream *gpu_stream_find(const struct gpu_executor *executor, const struct gpu_context *context,
                                   uint64_t number);

/*
 * With the executor's lock: appends a command to the stream, which owns it from here on, and wakes the thread. The
 * caller has counted the command as pending in its module.
 */
void gpu_stream_queue(struct gpu_executor *executor, struct gpu_stream *stream, struct gpu_command *command);

/* With the executor's lock: cancels the commands that are not submitted. */
void gpu_stream_cancel(struct gpu_executor *executor, struct gpu_stream *stream);

/*
 * With the executor's lock: cancels one command. A submitted command runs to its end, and the answer is FACET_OK, too.
 * FACET_NOT_FOUND: the command is complete.
 */
enum facet_status gpu_stream_cancel_one(struct gpu_executor *executor, struct gpu_stream *stream, uint64_t sequence);

/*
 * With the executor's lock. If `paused` is set, no more commands of the tenant begin, and the function waits for the
 * submitted ones. False: they do not complete in GPU_DRAIN_NS.
 */
bool gpu_tenant_pause(struct gpu_executor *executor, struct gpu_tenant *tenant, bool paused);

/* With the executor's lock: whether the stream has no queued and no submitted commands. */
bool gpu_stream_is_idle(const struct gpu_stream *stream);

/* With the executor's lock: waits for a change until `deadline_ns` (CLOCK_MONOTONIC); false: it has passed. */
bool gpu_executor_wait(struct gpu_executor *executor, uint64_t deadline_ns);

/* Waits until the context has no queued and no submitted commands, for GPU_DRAIN_NS at most (FACET_TIMEOUT). */
enum facet_status gpu_executor_drain(struct gpu_machine *machine, const struct gpu_context *context,
                                     struct facet_error *error);

/* Checks without waiting that the context has no queued and no submitted commands: FACET_BUSY. */
enum facet_status gpu_executor_check_idle(struct gpu_machine *machine, const struct gpu_context *context,
                                          struct facet_error *error);

/*
 * Destroys the streams of a context, and unloads its modules. False: submitted work does not complete in GPU_DRAIN_NS.
 * Then the streams are destroyed when that work completes.
 */
bool gpu_executor_forget(struct gpu_machine *machine, const struct gpu_context *context);

uint64_t gpu_monotonic_ns(void);
uint64_t gpu_deadline_ns(uint64_t timeout_ns);

#endif
