/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of this provider: queues of its own in front of the driver's.
 *
 * Owns: what is queued, what the driver has of it, and the one thread that hands on and looks what is complete.
 * Never: lets the driver have more than a few launches of a stream: what it has cannot be taken back.
 *
 * A command is queued here, then handed to the driver between two events, and complete when the second one is. So
 * cancelling drops what the driver has not got, and every command's time is measured on the device.
 *
 * Locks. The executor's lock guards streams, commands and modules' counts. It is innermost, and the driver is called
 * without it; only the executor's thread hands commands to the driver, so a stream's order needs no other guard.
 */
#ifndef FACET_CUDA_EXECUTOR_H
#define FACET_CUDA_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/provider.h>

#include "driver.h"

#define CUDA_RECORDS       1024u /* kept of each stream */
#define CUDA_IN_DRIVER     4u    /* commands of one stream that the driver has at a time */
#define CUDA_STAGED_BYTES  (UINT64_C(256) << 20)
#define CUDA_DRAIN_NS      UINT64_C(5000000000)
#define CUDA_ARGUMENT_MOST 4096u

struct cuda_context;

enum cuda_command_kind { CUDA_LAUNCH, CUDA_WRITE, CUDA_COPY, CUDA_FILL };

struct cuda_module {
    struct cuda_module *next;
    uint64_t number;
    struct cuda_context *context;
    CUmodule handle;
    uint32_t pending; /* launches of it that are not complete */
};

struct cuda_command {
    TAILQ_ENTRY(cuda_command) link;
    enum cuda_command_kind kind;
    uint64_t sequence, queued_ns;
    CUevent start, end; /* while the driver has it */

    struct cuda_module *module; /* CUDA_LAUNCH */
    CUfunction function;
    struct facet_launch launch;

    uint64_t to, from, bytes; /* the others; `from` is an address, or 0 for `data` */
    uint8_t value;
    size_t data_bytes; /* of what follows: arguments of a launch, data of a write */
    uint8_t data[];
};
TAILQ_HEAD(cuda_commands, cuda_command);

struct cuda_stream {
    TAILQ_ENTRY(cuda_stream) link;
    uint64_t number;
    struct cuda_context *context;
    CUstream handle;
    bool dying; /* destroyed; freed when the driver is done with what it has */
    struct cuda_commands queued, handed;
    uint32_t handed_count;
    bool handing; /* its first command is on its way to the driver */
    uint64_t staged_bytes;
    struct facet_stream_state state;
    uint64_t last_sequence, record_count; /* records: number n is at n % CUDA_RECORDS */
    struct facet_launch_record *records;
};
TAILQ_HEAD(cuda_streams, cuda_stream);

struct cuda_executor {
    pthread_mutex_t lock;
    pthread_cond_t work, done; /* something was queued; something became complete */
    pthread_t thread;
    bool running, stopping;
    uint64_t changes; /* how often `done` was said */
    struct cuda_streams streams;
    struct cuda_module *modules;
};

struct facet_provider_instance;

void cuda_executor_init(struct cuda_executor *executor);

/* Ends all streams, and the thread. False when the driver does not come to an end: then the thread goes on, and what it
 * uses must stay. No other call is under way. */
bool cuda_executor_close(struct facet_provider_instance *instance);

/* With the executor's lock. Starts the thread with the first stream. */
enum facet_status cuda_executor_start(struct facet_provider_instance *instance, struct facet_error *error);

/* With the executor's lock: a stream that was not destroyed, or NULL. */
struct cuda_stream *cuda_stream_find(const struct cuda_executor *executor, const struct cuda_context *context,
                                     uint64_t number);

/* With the executor's lock: puts a command behind what the stream has, and wakes the thread. Takes it over; that it is
 * pending was counted in its module before. */
void cuda_stream_queue(struct cuda_executor *executor, struct cuda_stream *stream, struct cuda_command *command);

/* With the executor's lock: cancels what the driver has not got. */
void cuda_stream_cancel(struct cuda_executor *executor, struct cuda_stream *stream);

/* With the executor's lock: whether nothing of the stream is queued or with the driver. */
bool cuda_stream_is_idle(const struct cuda_stream *stream);

/* With the executor's lock: waits for a change until `deadline_ns` (CLOCK_MONOTONIC); false: that is over. */
bool cuda_executor_wait(struct cuda_executor *executor, uint64_t deadline_ns);

/* Waits until nothing of the context is queued or under way, some seconds at most (FACET_TIMEOUT). */
enum facet_status cuda_executor_drain(struct facet_provider_instance *instance, const struct cuda_context *context,
                                      struct facet_error *error);

/* The end of a context: its streams are destroyed, its modules unloaded. False when what the driver has of it does not
 * come to an end in some seconds; its streams end when it does. */
bool cuda_executor_forget(struct facet_provider_instance *instance, const struct cuda_context *context);

uint64_t cuda_monotonic_ns(void);
uint64_t cuda_deadline_ns(uint64_t timeout_ns);

#endif
