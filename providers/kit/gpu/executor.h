/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: queues of our own in front of the driver's.
 *
 * Owns: what is queued, what the driver has of it, and the one thread that hands on and looks what is complete. Whose
 * commands those are is decided in turns.h.
 * Never: lets the driver have more than a few launches of a stream: what it has cannot be taken back.
 *
 * A command is queued here, then handed to the driver between two events, and complete when the second one is. So
 * cancelling drops what the driver has not got, and every command's time is measured on the device.
 *
 * Locks. The executor's lock guards streams, commands and modules' counts. It is innermost, and the driver is called
 * without it; only the executor's thread hands commands to the driver, so a stream's order needs no other guard.
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

#define GPU_RECORDS       1024u /* kept of each stream */
#define GPU_IN_DRIVER     4u    /* commands of one stream that the driver has at a time */
#define GPU_STAGED_BYTES  (UINT64_C(256) << 20)
#define GPU_DRAIN_NS      UINT64_C(5000000000)
#define GPU_ARGUMENT_MOST 4096u

struct gpu_context;

enum gpu_command_kind { GPU_LAUNCH, GPU_WRITE, GPU_COPY, GPU_FILL, GPU_WAIT, GPU_CALL };

struct gpu_module {
    struct gpu_module *next;
    uint64_t number;
    struct gpu_context *context;
    gpu_module_handle handle;
    uint32_t pending; /* launches of it that are not complete */
};

struct gpu_command {
    TAILQ_ENTRY(gpu_command) link;
    enum gpu_command_kind kind;
    uint64_t sequence, queued_ns, handed_ns;
    gpu_event_handle start, end; /* while the driver has it */

    struct gpu_module *module; /* GPU_LAUNCH */
    gpu_kernel_handle kernel;
    struct facet_launch launch; /* GPU_CALL: its name alone */

    uint64_t to, from, bytes; /* the others; `from` is an address, or 0 for `data` */
    uint8_t value;

    const struct gpu_stream *awaited; /* GPU_WAIT: until it has come so far; NULL: it is no more */
    uint64_t awaited_sequence;

    gpu_call_func run; /* GPU_CALL */
    struct kit_math_operands operands;

    size_t data_bytes; /* of what follows: arguments of a launch, data of a write */
    uint8_t data[];
};
TAILQ_HEAD(gpu_commands, gpu_command);

struct gpu_stream {
    TAILQ_ENTRY(gpu_stream) link;
    uint64_t number;
    struct gpu_context *context;
    gpu_stream_handle handle;
    struct gpu_slice *slice; /* whose units it works on; NULL: all that its context may */
    bool dying;              /* destroyed; freed when the driver is done with what it has */
    struct gpu_commands queued, handed;
    uint32_t handed_count;
    uint64_t handing;     /* number of a command that is on its way to the driver; 0: none */
    uint32_t priority;    /* enum facet_priority: among the streams of its context */
    uint64_t last_ns;     /* what its last command took */
    uint64_t last_end_ns; /* and when it was over, as far as is known: what is behind it began no earlier */
    uint64_t staged_bytes;
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
    uint64_t changes; /* how often `done` was said */
    struct gpu_streams streams;
    struct gpu_tenants tenants;
    struct gpu_turns_list turns;
    struct gpu_module *modules;
};

struct gpu_machine;

void gpu_executor_init(struct gpu_executor *executor);

/* Ends all streams, and the thread. False when the driver does not come to an end: then the thread goes on, and what it
 * uses must stay. No other call is under way. */
bool gpu_executor_close(struct gpu_machine *machine);

/* With the executor's lock. Starts the thread with the first stream. */
enum facet_status gpu_executor_start(struct gpu_machine *machine, struct facet_error *error);

/* With the executor's lock: a stream that was not destroyed, or NULL. */
struct gpu_stream *gpu_stream_find(const struct gpu_executor *executor, const struct gpu_context *context,
                                   uint64_t number);

/* With the executor's lock: puts a command behind what the stream has, and wakes the thread. Takes it over; that it is
 * pending was counted in its module before. */
void gpu_stream_queue(struct gpu_executor *executor, struct gpu_stream *stream, struct gpu_command *command);

/* With the executor's lock: cancels what the driver has not got. */
void gpu_stream_cancel(struct gpu_executor *executor, struct gpu_stream *stream);

/* The same of one command. FACET_OK, too, when the driver has it: then it goes on. FACET_NOT_FOUND: it is over. */
enum facet_status gpu_stream_cancel_one(struct gpu_executor *executor, struct gpu_stream *stream, uint64_t sequence);

/* With the executor's lock: with `paused`, nothing of the tenant begins any more, and what the driver has of it is
 * waited for; false: it does not end in some seconds. */
bool gpu_tenant_pause(struct gpu_executor *executor, struct gpu_tenant *tenant, bool paused);

/* With the executor's lock: whether nothing of the stream is queued or with the driver. */
bool gpu_stream_is_idle(const struct gpu_stream *stream);

/* With the executor's lock: waits for a change until `deadline_ns` (CLOCK_MONOTONIC); false: that is over. */
bool gpu_executor_wait(struct gpu_executor *executor, uint64_t deadline_ns);

/* Waits until nothing of the context is queued or under way, some seconds at most (FACET_TIMEOUT). */
enum facet_status gpu_executor_drain(struct gpu_machine *machine, const struct gpu_context *context,
                                     struct facet_error *error);

/* The same without waiting: FACET_BUSY. */
enum facet_status gpu_executor_check_idle(struct gpu_machine *machine, const struct gpu_context *context,
                                          struct facet_error *error);

/* The end of a context: its streams are destroyed, its modules unloaded. False when what the driver has of it does not
 * come to an end in some seconds; its streams end when it does. */
bool gpu_executor_forget(struct gpu_machine *machine, const struct gpu_context *context);

uint64_t gpu_monotonic_ns(void);
uint64_t gpu_deadline_ns(uint64_t timeout_ns);

#endif
