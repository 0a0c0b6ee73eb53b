/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the runs of `facet simulate`, on threads, and their means. Never: lets a result depend on its thread. */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "simulate.h"
#include "terminal.h"

#define POLL_NS (200 * FACET_NS_PER_MS)

struct work {
    struct simulate *simulate;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, done, total; /* runs: the next one's number, how many have ended, how many there are */
    struct facet_error error;   /* of the first run that failed */
};

static uint64_t now_ns(void *data)
{
    (void)data;
    return facet_clock_now_ns();
}

static enum facet_status run_simulation(const struct simulate *simulate, uint64_t number, struct facet_error *error)
{
    struct facet_simulate_config config = {.size = sizeof config,
                                           .policy = simulate->policies[number / simulate->seeds],
                                           .seed = simulate->seed_base + number % simulate->seeds,
                                           .nodes = simulate->nodes,
                                           .jobs = simulate->jobs,
                                           .loads_permille = simulate->points,
                                           .load_count = simulate->point_count,
                                           .departures = simulate->departures,
                                           .moves = simulate->moves,
                                           .learn = simulate->learn,
                                           .stretch = simulate->stretch,
                                           .clock = now_ns};

    return facet_simulate(&config, &simulate->results[number], error);
}

/* The number of the next run; UINT64_MAX when all runs have begun, or one has failed. */
static uint64_t next_run(struct work *work)
{
    uint64_t number = UINT64_MAX;

    pthread_mutex_lock(&work->lock);
    if (work->next < work->total && work->error.status == FACET_OK)
        number = work->next++;
    pthread_mutex_unlock(&work->lock);
    return number;
}

static void note_done(struct work *work, const struct facet_error *error)
{
    pthread_mutex_lock(&work->lock);
    work->done++;
    if (error->status != FACET_OK && work->error.status == FACET_OK)
        work->error = *error;
    pthread_cond_signal(&work->changed);
    pthread_mutex_unlock(&work->lock);
}

static void *run_simulations(void *data)
{
    struct work *work = data;

    for (uint64_t number = next_run(work); number != UINT64_MAX; number = next_run(work)) {
        struct facet_error error = {.status = FACET_OK};

        run_simulation(work->simulate, number, &error);
        note_done(work, &error);
    }
    return NULL;
}

static void show_progress(struct work *work)
{
    struct timespec until;
    char text[80];

    pthread_mutex_lock(&work->lock);
    while (work->done < work->total && work->error.status == FACET_OK) {
        until = facet_ns_timespec(facet_clock_now_ns() + POLL_NS);
        pthread_cond_timedwait(&work->changed, &work->lock, &until);
        snprintf(text, sizeof text, "\rsimulating: %" PRIu64 " of %" PRIu64 " runs", work->done, work->total);
        if (terminal_paints(STDERR_FILENO))
            terminal_note(text);
    }
    pthread_mutex_unlock(&work->lock);
    terminal_note_end();
}

static void init_work(struct work *work, struct simulate *simulate)
{
    pthread_condattr_t attributes;

    *work = (struct work){.simulate = simulate, .total = simulate->policy_count * simulate->seeds};
    pthread_mutex_init(&work->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&work->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

enum facet_status simulate_all(struct simulate *simulate, struct facet_error *error)
{
    pthread_t threads[SIMULATE_THREADS_MOST];
    uint32_t started = 0;
    struct work work;

    simulate->results = calloc(simulate->policy_count * simulate->seeds, sizeof *simulate->results);
    if (!simulate->results)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for the results");
    init_work(&work, simulate);
    while (started < simulate->threads && started < work.total &&
           pthread_create(&threads[started], NULL, run_simulations, &work) == 0)
        started++;
    if (started == 0)
        run_simulations(&work);
    show_progress(&work);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    pthread_cond_destroy(&work.changed);
    pthread_mutex_destroy(&work.lock);
    if (work.error.status != FACET_OK && error)
        *error = work.error;
    return work.error.status;
}

uint32_t simulate_point(const struct simulate *simulate, uint32_t load)
{
    uint32_t point = 0;

    while (simulate->points[point] != simulate->loads[load])
        point++;
    return point;
}

static double percent_of(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

struct simulate_mean simulate_mean(const struct simulate *simulate, uint32_t policy)
{
    struct simulate_mean mean = {0};
    double seeds = (double)simulate->seeds, p50 = 0, p99 = 0;

    for (uint64_t seed = 0; seed < simulate->seeds; seed++) {
        const struct facet_simulate_result *result = simulate_result(simulate, policy, seed);

        for (uint32_t i = 0; i < result->load_count; i++)
            mean.percent[i] += percent_of(result->loads[i].gpu_milli_used, result->gpu_milli) / seeds;
        mean.unallocated_gpus += (double)(result->gpu_milli - result->gpu_milli_used) / 1000 / seeds;
        mean.peak_percent += percent_of(result->gpu_milli_used, result->gpu_milli) / seeds;
        mean.mean_percent += percent_of(result->gpu_milli_mean, result->gpu_milli) / seeds;
        mean.requests += (double)result->requests / seeds;
        mean.refused += (double)result->refused / seeds;
        mean.moved += (double)result->moved / seeds;
        p50 += (double)result->decision_p50_ns / seeds;
        p99 += (double)result->decision_p99_ns / seeds;
    }
    mean.p50_ns = (uint64_t)p50;
    mean.p99_ns = (uint64_t)p99;
    return mean;
}

char *simulate_load_text(uint32_t permille, char *buffer, size_t size)
{
    if (permille % 10)
        snprintf(buffer, size, "%u.%u", permille / 10, permille % 10);
    else
        snprintf(buffer, size, "%u", permille / 10);
    return buffer;
}
