/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred free: memory that is freed or unmapped while launches queued before may use it.
 *
 * Owns: keeping that memory until the last of those launches is complete, because kernels use raw addresses.
 * Never: makes the thread that frees or unmaps wait for work.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "cpu.h"

/* Whether a launch with a smaller number than `sequence` is not complete. */
static bool is_used_before(struct cpu_context *context, uint64_t sequence)
{
    pthread_mutex_lock(&context->lock);
    const struct cpu_launch *oldest = TAILQ_FIRST(&context->launches);
    bool used = oldest && oldest->sequence < sequence;
    pthread_mutex_unlock(&context->lock);
    return used;
}

static uint64_t next_sequence(struct cpu_context *context)
{
    pthread_mutex_lock(&context->lock);
    uint64_t next = context->sequence + 1;
    pthread_mutex_unlock(&context->lock);
    return next;
}

/*
 * A launch gets its number while it holds the space's lock to check its memory. So a launch that has no number when the
 * range is retired will find it retired.
 */
enum facet_status cpu_unmap(struct cpu_context *context, struct cpu_range range, struct cpu_pages_list *unused,
                            struct facet_error *error)
{
    uint64_t last = 0;

    pthread_rwlock_wrlock(&context->space.lock);
    enum facet_status status = cpu_space_retire(&context->space, range, next_sequence(context), &last, error);
    if (status == FACET_OK && is_used_before(context, last))
        status = facet_kit_fail(error, FACET_BUSY,
                                "address %#" PRIx64 ", bytes %" PRIu64
                                ": expected no work that may still use it: synchronize, then unmap again",
                                range.at, range.end - range.at);
    if (status == FACET_OK)
        status = cpu_space_unmap(&context->space, range, unused, error);
    pthread_rwlock_unlock(&context->space.lock);
    return status;
}

void cpu_deferred_free_add(struct cpu_context *context, struct cpu_deferred_free *deferred, struct cpu_range range)
{
    pthread_mutex_lock(&context->lock);
    deferred->range = range;
    deferred->sequence = context->sequence + 1;
    TAILQ_INSERT_TAIL(&context->deferred_frees, deferred, link);
    pthread_mutex_unlock(&context->lock);
}

/* Takes the oldest memory that no launch can use any more out of the list; NULL: there is none. */
static struct cpu_deferred_free *next_deferred_free(struct cpu_context *context)
{
    pthread_mutex_lock(&context->lock);
    const struct cpu_launch *oldest = TAILQ_FIRST(&context->launches);
    struct cpu_deferred_free *deferred = TAILQ_FIRST(&context->deferred_frees);
    if (deferred && oldest && oldest->sequence < deferred->sequence)
        deferred = NULL;
    if (deferred)
        TAILQ_REMOVE(&context->deferred_frees, deferred, link);
    pthread_mutex_unlock(&context->lock);
    return deferred;
}

void cpu_deferred_free_run(struct cpu_context *context)
{
    struct cpu_deferred_free *deferred;

    while ((deferred = next_deferred_free(context))) {
        uint64_t bytes = deferred->range.end - deferred->range.at;

        munmap((void *)deferred->range.at, bytes);
        cpu_account_uncharge(context, bytes);
        free(deferred);
    }
}
