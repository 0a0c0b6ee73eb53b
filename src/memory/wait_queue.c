/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the FIFO of pins that wait for pages. Never: reads a page. */
#include "memory/wait_queue.h"

#include <errno.h>

#include "base/clock.h"

void facet_queue_init(struct facet_queue *queue)
{
    pthread_condattr_t clock;

    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->changed, &clock);
    pthread_condattr_destroy(&clock);
    TAILQ_INIT(&queue->waiters);
}

void facet_queue_clear(struct facet_queue *queue)
{
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

void facet_queue_wake(struct facet_queue *queue)
{
    if (!atomic_load(&queue->waiting))
        return;
    pthread_mutex_lock(&queue->lock);
    queue->changes++;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

uint64_t facet_queue_changes(struct facet_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    uint64_t changes = queue->changes;
    pthread_mutex_unlock(&queue->lock);
    return changes;
}

void facet_queue_leave(struct facet_queue *queue, struct facet_waiter *waiter)
{
    pthread_mutex_lock(&queue->lock);
    if (TAILQ_FIRST(&queue->waiters) == waiter)
        atomic_fetch_add(&queue->heads_left, 1);
    TAILQ_REMOVE(&queue->waiters, waiter, in_queue);
    atomic_fetch_sub(&queue->waiting, 1);
    queue->changes++;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

bool facet_queue_enter(struct facet_queue *queue, struct facet_waiter *waiter, uint64_t end_ns)
{
    const struct timespec end = facet_ns_timespec(end_ns);
    int waited = 0;

    pthread_mutex_lock(&queue->lock);
    TAILQ_INSERT_TAIL(&queue->waiters, waiter, in_queue);
    atomic_fetch_add(&queue->waiting, 1);
    while (TAILQ_FIRST(&queue->waiters) != waiter && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&queue->changed, &queue->lock, &end);
    bool first = TAILQ_FIRST(&queue->waiters) == waiter;
    pthread_mutex_unlock(&queue->lock);
    return first;
}

void facet_queue_wait(struct facet_queue *queue, uint64_t changes, uint64_t until_ns)
{
    const struct timespec until = facet_ns_timespec(until_ns);
    int waited = 0;

    pthread_mutex_lock(&queue->lock);
    while (queue->changes == changes && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
    pthread_mutex_unlock(&queue->lock);
}
