/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed while launches queued before may use it.
 *
 * Owns: keeping it until the last of those is complete: a kernel that runs has raw addresses.
 * Never: makes who frees wait for work.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "cpu.h"

bool cpu_launches_pending(struct cpu_context *context)
{
    pthread_mutex_lock(&context->lock);
    bool pending = !TAILQ_EMPTY(&context->launches);
    pthread_mutex_unlock(&context->lock);
    return pending;
}

void cpu_grave_bury(struct cpu_context *context, struct cpu_grave *grave, struct cpu_range range)
{
    pthread_mutex_lock(&context->lock);
    grave->range = range;
    grave->sequence = context->sequence + 1;
    TAILQ_INSERT_TAIL(&context->graves, grave, link);
    pthread_mutex_unlock(&context->lock);
}

/* The oldest that no launch can use any more, out of the list; NULL: none. */
static struct cpu_grave *next_grave(struct cpu_context *context)
{
    pthread_mutex_lock(&context->lock);
    const struct cpu_launch *oldest = TAILQ_FIRST(&context->launches);
    struct cpu_grave *grave = TAILQ_FIRST(&context->graves);
    if (grave && oldest && oldest->sequence < grave->sequence)
        grave = NULL;
    if (grave)
        TAILQ_REMOVE(&context->graves, grave, link);
    pthread_mutex_unlock(&context->lock);
    return grave;
}

void cpu_graves_clear(struct cpu_context *context)
{
    struct cpu_grave *grave;

    while ((grave = next_grave(context))) {
        uint64_t bytes = grave->range.end - grave->range.at;

        munmap((void *)grave->range.at, bytes);
        cpu_account_give(context, bytes);
        free(grave);
    }
}
