/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the thread that defragments a memory in the background once its fragmentation is above the threshold.
 * Never: takes more than a tenth of the time, because users of pages that move wait for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "memory/space.h"

#define DUTY_DIVISOR 10u

struct facet_defragmenter {
    struct facet_memory *memory;
    uint32_t milli;
    uint64_t interval_ns;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool ending;
};

/* False: the defragmenter was told to end during the interval. */
static bool wait_for_interval(struct facet_defragmenter *defragmenter)
{
    const struct timespec until = facet_ns_timespec(facet_clock_now_ns() + defragmenter->interval_ns);
    int waited = 0;

    pthread_mutex_lock(&defragmenter->lock);
    while (!defragmenter->ending && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&defragmenter->woken, &defragmenter->lock, &until);
    bool goes_on = !defragmenter->ending;
    pthread_mutex_unlock(&defragmenter->lock);
    return goes_on;
}

/*
 * The thread goes on after a failure: the next round tries again. Errors are reported only by
 * facet_memory_defragment().
 */
static void *run_defragmenter(void *data)
{
    struct facet_defragmenter *defragmenter = data;
    const struct facet_defragment_options options = {.size = sizeof options,
                                                     .ns = defragmenter->interval_ns / DUTY_DIVISOR + 1};
    struct facet_frames_count count;

    while (wait_for_interval(defragmenter)) {
        facet_frames_count(&defragmenter->memory->frames, &count);
        if (count.fragmentation_milli > defragmenter->milli)
            (void)facet_memory_defragment(defragmenter->memory, &options, NULL, NULL);
    }
    return NULL;
}

enum facet_status facet_defragmenter_start(struct facet_memory *memory, uint32_t milli, uint64_t interval_ns,
                                           struct facet_error *error)
{
    struct facet_defragmenter *defragmenter = calloc(1, sizeof *defragmenter);
    pthread_condattr_t clock;

    if (!defragmenter)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the defragmenter");
    *defragmenter = (struct facet_defragmenter){.memory = memory, .milli = milli, .interval_ns = interval_ns};
    pthread_mutex_init(&defragmenter->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&defragmenter->woken, &clock);
    pthread_condattr_destroy(&clock);
    int failed = pthread_create(&defragmenter->thread, NULL, run_defragmenter, defragmenter);
    if (failed) {
        free(defragmenter);
        return facet_error_errno(error, failed, "cannot start the defragmenter's thread");
    }
    memory->defragmenter = defragmenter;
    return FACET_OK;
}

void facet_defragmenter_stop(struct facet_memory *memory)
{
    struct facet_defragmenter *defragmenter = memory->defragmenter;

    if (!defragmenter)
        return;
    pthread_mutex_lock(&defragmenter->lock);
    defragmenter->ending = true;
    pthread_cond_signal(&defragmenter->woken);
    pthread_mutex_unlock(&defragmenter->lock);
    pthread_join(defragmenter->thread, NULL);
    pthread_cond_destroy(&defragmenter->woken);
    pthread_mutex_destroy(&defragmenter->lock);
    free(defragmenter);
    memory->defragmenter = NULL;
}
