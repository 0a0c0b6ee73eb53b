/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the thread that defragments a memory in the background once its fragmentation is above the threshold.
 * Never: takes more than a tenth of the time: users of moving pages wait for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "memory/space.h"

#define DUTY 10u

struct facet_keeper {
    struct facet_memory *memory;
    uint32_t milli;
    uint64_t interval_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool ending;
};

/* Whether the interval passed without the end. */
static bool wait_for_turn(struct facet_keeper *keeper)
{
    const struct timespec until = facet_ns_timespec(facet_clock_now_ns() + keeper->interval_ns);
    int waited = 0;

    pthread_mutex_lock(&keeper->lock);
    while (!keeper->ending && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&keeper->woken, &keeper->lock, &until);
    bool on = !keeper->ending;
    pthread_mutex_unlock(&keeper->lock);
    return on;
}

/* The thread goes on after a failure: the next round tries again, and only a caller of defragment gets the error. */
static void *keep(void *data)
{
    struct facet_keeper *keeper = data;
    const struct facet_defragment_options options = {.size = sizeof options, .ns = keeper->interval_ns / DUTY + 1};
    struct facet_frames_count count;

    while (wait_for_turn(keeper)) {
        facet_frames_count(&keeper->memory->frames, &count);
        if (count.fragmentation_milli > keeper->milli)
            (void)facet_memory_defragment(keeper->memory, &options, NULL, NULL);
    }
    return NULL;
}

enum facet_status facet_keeper_start(struct facet_memory *memory, uint32_t milli, uint64_t interval_ns,
                                     struct facet_error *error)
{
    struct facet_keeper *keeper = calloc(1, sizeof *keeper);
    pthread_condattr_t clock;

    if (!keeper)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the defragmenter");
    *keeper = (struct facet_keeper){.memory = memory, .milli = milli, .interval_ns = interval_ns};
    pthread_mutex_init(&keeper->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->woken, &clock);
    pthread_condattr_destroy(&clock);
    int failed = pthread_create(&keeper->thread, NULL, keep, keeper);
    if (failed) {
        free(keeper);
        return facet_error_errno(error, failed, "cannot start the defragmenter's thread");
    }
    memory->keeper = keeper;
    return FACET_OK;
}

void facet_keeper_stop(struct facet_memory *memory)
{
    struct facet_keeper *keeper = memory->keeper;

    if (!keeper)
        return;
    pthread_mutex_lock(&keeper->lock);
    keeper->ending = true;
    pthread_cond_signal(&keeper->woken);
    pthread_mutex_unlock(&keeper->lock);
    pthread_join(keeper->thread, NULL);
    pthread_cond_destroy(&keeper->woken);
    pthread_mutex_destroy(&keeper->lock);
    free(keeper);
    memory->keeper = NULL;
}
