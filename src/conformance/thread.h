/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of eight threads that call a provider at once.
 *
 * Owns: the state of such a thread, and one macro that both calls an operation and records the call, so that no call
 * goes unrecorded.
 * Never: reports from a thread: each thread keeps its first complaint, and the group reports it afterwards.
 */
#ifndef FACET_CONFORMANCE_THREAD_H
#define FACET_CONFORMANCE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "conformance/kernel.h"
#include "conformance/operation.h"

enum { FACET_CHECK_THREADS = 8 };

/* The state that all threads share. */
struct facet_check_team {
    pthread_barrier_t barrier;
    const char *smallest;                              /* template of the partitions; NULL: none may be created */
    const char *kernel, *image;                        /* the published kernel; NULL: none is published */
    _Atomic uint64_t first_sum[FACET_OPERATION_COUNT]; /* checksum of the first answer of a steady list; 0: none yet */
};

struct facet_check_thread {
    struct facet_check check; /* a copy, so that each has an error of its own */
    struct facet_check_team *team;
    uint32_t number, rounds;
    void (*use_once)(struct facet_check_thread *thread);
    unsigned char *called;          /* by enum facet_operation_id */
    char worker[FACET_WORKER_SIZE]; /* used by this thread alone */
    char complaint[200];
};

void facet_thread_complain(struct facet_check_thread *thread, const char *format, ...) FACET_PRINTF(2, 3);

/* True when both statuses are the same; else complains. */
bool facet_thread_expect(struct facet_check_thread *thread, enum facet_operation_id operation,
                         enum facet_status expected, enum facet_status got);

/* The status of one call: FACET_THREAD_CALL(thread, table, op, the arguments between the instance and the error). */
#define FACET_THREAD_CALL(thread, table, op, ...)                                                                      \
    ((thread)->called[FACET_OPERATION_##table##_##op] = 1,                                                             \
     (thread)->check.table##_ops.op((thread)->check.instance, __VA_ARGS__, &(thread)->check.error))

/* One call that must have the status `expected`. */
#define FACET_THREAD_EXPECT(thread, expected, table, op, ...)                                                          \
    facet_thread_expect((thread), FACET_OPERATION_##table##_##op, (expected),                                          \
                        FACET_THREAD_CALL((thread), table, op, __VA_ARGS__))

/* Creates a context of the thread's worker. False when the device is busy, or after a complaint. */
bool facet_thread_context(struct facet_check_thread *thread, uint64_t *ret_context);
void facet_thread_drop_context(struct facet_check_thread *thread, uint64_t context);

/* Whether FACET_BUSY is allowed: other threads partition the device, or it allows too few workers for the threads. */
bool facet_thread_may_be_busy(const struct facet_check_thread *thread);

/* One round each. thread_read.c: lists and readings. */
void facet_thread_read(struct facet_check_thread *thread);
/* thread_memory.c: plain memory, reserved addresses and pages. */
void facet_thread_use_memory(struct facet_check_thread *thread);
/* thread_share.c: partitions, limits. */
void facet_thread_use_partitions(struct facet_check_thread *thread);
void facet_thread_use_limits(struct facet_check_thread *thread);
/* thread_work.c: streams and launches; a worker that is saved and brought back. */
void facet_thread_use_streams(struct facet_check_thread *thread);
/* thread_queue.c: transfers in a stream, shares, records: as far as they are claimed. */
void facet_thread_use_queue(struct facet_check_thread *thread);
/* thread_control.c: control, policies, mathematics: as far as they are claimed. */
void facet_thread_control(struct facet_check_thread *thread);
/* thread_work.c, too. */
void facet_thread_use_snapshots(struct facet_check_thread *thread);

#endif
