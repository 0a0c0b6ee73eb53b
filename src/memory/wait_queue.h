/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of pins that wait for pages: first come, first served.
 *
 * Owns: the order in which pins wait, and waking them. Never: reads pages or frames.
 */
#ifndef FACET_MEMORY_WAIT_QUEUE_H
#define FACET_MEMORY_WAIT_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* A pin that waits for pages, in the order of arrival. */
struct facet_waiter {
    TAILQ_ENTRY(facet_waiter) in_queue;
};
struct facet_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the head changed, or pages were unpinned or freed */
    TAILQ_HEAD(, facet_waiter) waiters;
    uint64_t changes;            /* how often `changed` was signalled */
    _Atomic uint32_t waiting;    /* the number of waiters */
    _Atomic uint64_t heads_left; /* how many waiters have left the queue while they were its head */
};

void facet_queue_init(struct facet_queue *queue);
void facet_queue_clear(struct facet_queue *queue);
/* Queues the waiter and waits until it is at the head. False: `end_ns` has passed; the waiter stays queued. */
bool facet_queue_enter(struct facet_queue *queue, struct facet_waiter *waiter, uint64_t end_ns);
void facet_queue_leave(struct facet_queue *queue, struct facet_waiter *waiter);
/* Returns the number of changes so far. A caller reads it before it examines pages, and then waits for the next change.
 */
uint64_t facet_queue_changes(struct facet_queue *queue);
/* Waits until the number of changes is not `changes` any more, or until `until_ns`. */
void facet_queue_wait(struct facet_queue *queue, uint64_t changes, uint64_t until_ns);
/* Counts a change and wakes all waiters, after frames were freed or pages unpinned. */
void facet_queue_wake(struct facet_queue *queue);

#endif
