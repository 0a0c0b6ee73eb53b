/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: creating and ending a context's streams.
 * Never: destroys a stream that a thread waits for, or blocks for a work-group that does not end.
 */
#include <stdlib.h>

#include "cpu.h"

enum facet_status cpu_queue_create(struct cpu_context *context, uint64_t *ret_number, struct facet_error *error)
{
    struct cpu_queue *queue = calloc(1, sizeof *queue);

    if (!queue)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a stream");
    enum facet_status status = cpu_stream_create(context->tenant, &queue->stream, error);
    if (status != FACET_OK) {
        free(queue);
        return status;
    }
    queue->context = context;
    queue->references = 1;
    queue->number = cpu_number_next(context->instance);
    queue->creation_number = queue->number;
    *ret_number = queue->number;
    pthread_mutex_lock(&context->lock);
    TAILQ_INSERT_TAIL(&context->queues, queue, link);
    pthread_mutex_unlock(&context->lock);
    return FACET_OK;
}

enum facet_status cpu_queue_take(struct facet_provider_instance *instance, uint64_t context_number, uint64_t number,
                                 struct cpu_queue **ret_queue, struct facet_error *error)
{
    struct cpu_context *context = NULL;
    struct cpu_queue *queue;
    enum facet_status status = cpu_context_take(instance, context_number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&context->lock);
    TAILQ_FOREACH (queue, &context->queues, link)
        if (queue->number == number && number != 0)
            break;
    if (queue)
        queue->references++;
    pthread_mutex_unlock(&context->lock);
    if (!queue) {
        cpu_context_drop(context);
        return facet_kit_fail(error, FACET_NOT_FOUND, "stream %" PRIu64 ": expected one of this context", number);
    }
    *ret_queue = queue;
    return FACET_OK;
}

/* Drops a reference, and takes the queue out of the list when it was the last. True: it was. */
static bool drop_reference(struct cpu_queue *queue)
{
    struct cpu_context *context = queue->context;

    pthread_mutex_lock(&context->lock);
    bool last = --queue->references == 0;
    if (last)
        TAILQ_REMOVE(&context->queues, queue, link);
    pthread_mutex_unlock(&context->lock);
    return last;
}

void cpu_queue_drop(struct cpu_queue *queue)
{
    struct cpu_context *context = queue->context;

    if (drop_reference(queue)) {
        cpu_stream_destroy(queue->stream);
        free(queue);
    }
    cpu_context_drop(context);
}

/* A queue gets its number before the list is locked, so the list may be slightly out of order. */
struct cpu_queue *cpu_queue_next(struct cpu_context *context, uint64_t after)
{
    struct cpu_queue *queue = NULL, *other;

    pthread_mutex_lock(&context->lock);
    TAILQ_FOREACH (other, &context->queues, link)
        if (other->creation_number > after && (!queue || other->creation_number < queue->creation_number))
            queue = other;
    if (queue)
        queue->references++;
    pthread_mutex_unlock(&context->lock);
    if (!queue)
        return NULL;
    pthread_mutex_lock(&context->instance->lock);
    context->references++;
    pthread_mutex_unlock(&context->instance->lock);
    return queue;
}

void cpu_queue_end(struct cpu_queue *queue)
{
    pthread_mutex_lock(&queue->context->lock);
    bool listed = queue->number != 0;
    queue->number = 0;
    pthread_mutex_unlock(&queue->context->lock);
    if (!listed)
        return;
    cpu_stream_cancel(queue->stream);
    if (cpu_stream_wait(queue->stream, CPU_GRACE_NS) == FACET_TIMEOUT)
        return; /* the list keeps its reference: the queue ends with its context */
    pthread_mutex_lock(&queue->context->lock);
    queue->references--; /* the list's reference; the caller has its own */
    pthread_mutex_unlock(&queue->context->lock);
}
