/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: one simulated run: the order of nodes and jobs, arrivals and departures, the reported numbers.
 * Never: reads a clock other than the caller's, or depends on anything except its arguments.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "placement/fleet/fleet.h"

#define NODE_STREAM    UINT64_C(0x6e6f646573) /* "nodes": the random numbers that order nodes */
#define JOB_STREAM     UINT64_C(0x6a6f6273)   /* "jobs": the random numbers that order jobs */
#define PROGRESS_EVERY 256u                   /* requests */
#define STRETCH_MAX    (UINT32_C(1) << 20)
#define TIMES_MAX      (UINT32_C(1) << 20) /* kept at most; a longer run keeps every second, fourth, ... time */

struct run {
    const struct facet_simulate_config *config;
    struct facet_fleet *fleet;
    const struct facet_fleet_job *jobs;
    size_t job_count;
    uint32_t *shapes; /* of each job */
    uint64_t *times;  /* of every `time_step`-th decision */
    size_t time_count, time_room;
    uint64_t time_step, time_seen;
    struct facet_simulate_result result;
};

static enum facet_status out_of_memory(struct facet_error *error)
{
    return facet_error_set(error, FACET_NO_MEMORY, "out of memory for a simulation");
}

static void shuffle_items(uint64_t *random, uint32_t *items, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)fleet_random_below(random, i);
        uint32_t kept = items[i - 1];

        items[i - 1] = items[other];
        items[other] = kept;
    }
}

static uint32_t *order_of(uint64_t seed, uint64_t stream, size_t count)
{
    uint32_t *order = malloc((count + 1) * sizeof *order);
    uint64_t random = seed ^ stream;

    fleet_random(&random);
    for (size_t i = 0; order && i < count; i++)
        order[i] = (uint32_t)i;
    if (order)
        shuffle_items(&random, order, count);
    return order;
}

/* --- preparing --- */

static enum facet_status make_fleet(struct run *run, const struct facet_fleet_node *nodes, size_t count,
                                    const struct facet_fleet_request *mix, struct facet_error *error)
{
    FACET_CLEANUP_FREE uint32_t *order = order_of(run->config->seed, NODE_STREAM, count);
    FACET_CLEANUP_FREE struct facet_fleet_node *ordered = malloc(count * sizeof *ordered);

    if (!order || !ordered)
        return out_of_memory(error);
    for (size_t i = 0; i < count; i++) {
        ordered[i] = nodes[order[i]];
        run->result.node_order = (run->result.node_order ^ order[i]) * UINT64_C(0x100000001b3);
    }
    return facet_fleet_create(&(struct facet_fleet_config){.size = sizeof(struct facet_fleet_config),
                                                           .policy = run->config->policy,
                                                           .seed = run->config->seed,
                                                           .nodes = ordered,
                                                           .node_count = count,
                                                           .mix = mix,
                                                           .mix_count = run->config->learn ? 0 : run->job_count},
                              &run->fleet, error);
}

static enum facet_status prepare_run(struct run *run, struct facet_error *error)
{
    size_t count = 0;
    const struct facet_fleet_node *nodes = facet_node_list_items(run->config->nodes, &count);
    FACET_CLEANUP_FREE struct facet_fleet_request *mix = NULL;
    enum facet_status status;

    run->jobs = facet_job_list_items(run->config->jobs, &run->job_count);
    mix = malloc((run->job_count + 1) * sizeof *mix);
    run->shapes = malloc((run->job_count + 1) * sizeof *run->shapes);
    if (!mix || !run->shapes)
        return out_of_memory(error);
    for (size_t i = 0; i < run->job_count; i++)
        mix[i] = run->jobs[i].request;
    status = make_fleet(run, nodes, count, mix, error);
    for (size_t i = 0; i < run->job_count && status == FACET_OK; i++)
        status = facet_fleet_shape(run->fleet, &run->jobs[i].request, &run->shapes[i], error);
    if (status == FACET_OK)
        run->result.gpu_milli = run->fleet->gpu_total;
    return status;
}

/* --- one arrival --- */

static bool grow_times(struct run *run)
{
    size_t room = run->time_room ? 2 * run->time_room : 16384;
    uint64_t *times = realloc(run->times, room * sizeof *times);

    if (!times)
        return false;
    run->times = times;
    run->time_room = room;
    return true;
}

/* A list with few GPU requests makes runs of any length, so the number of kept times is bounded. */
static bool keep_time(struct run *run, uint64_t ns)
{
    if (ns > run->result.decision_max_ns)
        run->result.decision_max_ns = ns;
    if (run->time_seen++ % run->time_step != 0)
        return true;
    if (run->time_count == TIMES_MAX) {
        run->time_count /= 2;
        run->time_step *= 2;
        for (size_t i = 0; i < run->time_count; i++)
            run->times[i] = run->times[2 * i];
    }
    if (run->time_count == run->time_room && !grow_times(run))
        return false;
    run->times[run->time_count++] = ns;
    return true;
}

/* A request that fits nowhere is counted here, so it needs no error text. */
static enum facet_status place_job(struct run *run, uint32_t shape, uint64_t *ret_allocation)
{
    struct facet_fleet_move moves[FLEET_MOVES_MAX];
    struct facet_fleet_placement placement;
    uint32_t moved = 0;
    enum facet_status status = facet_fleet_decide(run->fleet, shape, &placement, NULL);

    if (status == FACET_OK)
        return facet_fleet_commit(run->fleet, shape, &placement, ret_allocation, NULL);
    if (status != FACET_QUOTA || run->config->moves == 0)
        return status;
    status =
        facet_fleet_migrate(run->fleet, shape, run->config->moves, moves, &moved, &placement, ret_allocation, NULL);
    if (status == FACET_OK)
        run->result.moved += moved;
    return status;
}

/* A job that fits nowhere is no error: *ret_allocation is 0 then. */
static enum facet_status arrive_job(struct run *run, size_t job, uint64_t *ret_allocation, struct facet_error *error)
{
    uint64_t before = run->config->clock ? run->config->clock(run->config->data) : 0;
    enum facet_status status = place_job(run, run->shapes[job], ret_allocation);

    if (run->config->clock && !keep_time(run, run->config->clock(run->config->data) - before))
        return out_of_memory(error);
    run->result.requests++;
    if (status == FACET_QUOTA) {
        *ret_allocation = 0;
        run->result.refused++;
        return FACET_OK;
    }
    return status == FACET_OK ? status
                              : facet_error_set(error, status, "job %zu: %s", job + 1, facet_status_text(status));
}

static enum facet_status report_progress(struct run *run, uint64_t done, uint64_t total, struct facet_error *error)
{
    if (!run->config->progress || run->result.requests % PROGRESS_EVERY != 0 ||
        run->config->progress(run->config->data, done, total) == 0)
        return FACET_OK;
    return facet_error_set(error, FACET_BAD_STATE, "the simulation was ended");
}

/* --- without departures --- */

static void note_loads(struct run *run, uint64_t requested)
{
    struct facet_simulate_result *result = &run->result;

    while (result->load_count < run->config->load_count) {
        uint32_t load = run->config->loads_permille[result->load_count];

        if ((unsigned __int128)requested * 1000 < (unsigned __int128)load * result->gpu_milli)
            return;
        result->loads[result->load_count++] = (struct facet_simulate_point){.load_permille = load,
                                                                            .reached = 1,
                                                                            .gpu_milli_used = run->fleet->gpu_used,
                                                                            .cpu_milli_used = run->fleet->cpu_used,
                                                                            .requests = result->requests,
                                                                            .refused = result->refused};
    }
}

static enum facet_status run_arrivals(struct run *run, struct facet_error *error)
{
    uint32_t last_load = run->config->loads_permille[run->config->load_count - 1];
    uint64_t random = run->config->seed ^ JOB_STREAM ^ NODE_STREAM, requested = 0, allocation = 0;
    FACET_CLEANUP_FREE uint32_t *order = order_of(run->config->seed, JOB_STREAM, run->job_count);
    enum facet_status status = order ? FACET_OK : out_of_memory(error);

    for (size_t i = 0; status == FACET_OK && run->result.load_count < run->config->load_count; i++) {
        size_t job = i < run->job_count ? order[i] : (size_t)fleet_random_below(&random, run->job_count);

        status = arrive_job(run, job, &allocation, error);
        requested += run->fleet->shapes[run->shapes[job]].gpu_milli_sum;
        note_loads(run, requested);
        if (status == FACET_OK)
            status = report_progress(run, requested, run->result.gpu_milli / 1000 * last_load, error);
    }
    run->result.gpu_milli_used = run->fleet->gpu_used;
    return status;
}

/* --- with departures: jobs arrive and leave at their own times --- */

struct event {
    uint64_t time_s;
    size_t job;
    bool leaves;
};

static int compare_events(const void *left, const void *right)
{
    const struct event *a = left, *b = right;

    if (a->time_s != b->time_s)
        return (a->time_s > b->time_s) - (a->time_s < b->time_s);
    if (a->job == b->job) /* a job without duration leaves first */
        return a->leaves - b->leaves;
    if (a->leaves != b->leaves)
        return b->leaves - a->leaves;
    return (a->job > b->job) - (a->job < b->job);
}

static struct event *make_events(const struct run *run)
{
    struct event *events = malloc((2 * run->job_count + 1) * sizeof *events);
    uint64_t stretch = run->config->stretch ? run->config->stretch : 1;

    for (size_t i = 0; events && i < run->job_count; i++) {
        const struct facet_fleet_job *job = &run->jobs[i];
        uint64_t stay = (job->deletion_s - job->creation_s) * stretch; /* no overflow: at most 40 and 20 bits */

        events[2 * i] = (struct event){job->creation_s, i, false};
        events[2 * i + 1] = (struct event){job->creation_s + stay, i, true};
    }
    if (events)
        qsort(events, 2 * run->job_count, sizeof *events, compare_events);
    return events;
}

static enum facet_status handle_event(struct run *run, const struct event *event, uint64_t *allocations,
                                      struct facet_error *error)
{
    uint64_t *allocation = &allocations[event->job];

    if (!event->leaves)
        return arrive_job(run, event->job, allocation, error);
    return *allocation ? facet_fleet_release(run->fleet, *allocation, error) : FACET_OK;
}

static enum facet_status run_departures(struct run *run, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct event *events = make_events(run);
    FACET_CLEANUP_FREE uint64_t *allocations = calloc(run->job_count + 1, sizeof *allocations);
    size_t count = 2 * run->job_count;
    enum facet_status status = events && allocations ? FACET_OK : out_of_memory(error);
    unsigned __int128 sum = 0;
    uint64_t last_arrival_s = 0;

    for (size_t i = 0; status == FACET_OK && i < count; i++) {
        if (run->result.requests < run->job_count || !events[i].leaves) {
            sum += i > 0 ? (unsigned __int128)run->fleet->gpu_used * (events[i].time_s - events[i - 1].time_s) : 0;
            last_arrival_s = events[i].time_s;
        }
        status = handle_event(run, &events[i], allocations, error);
        if (run->fleet->gpu_used > run->result.gpu_milli_used)
            run->result.gpu_milli_used = run->fleet->gpu_used;
        if (status == FACET_OK)
            status = report_progress(run, i, count, error);
    }
    if (status == FACET_OK && last_arrival_s > events[0].time_s)
        run->result.gpu_milli_mean = (uint64_t)(sum / (last_arrival_s - events[0].time_s));
    return status;
}

/* --- the whole simulation --- */

static int compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void summarize_times(struct run *run)
{
    if (run->time_count == 0)
        return;
    qsort(run->times, run->time_count, sizeof *run->times, compare_u64);
    run->result.decision_p50_ns = run->times[(run->time_count - 1) / 2];
    run->result.decision_p99_ns = run->times[(run->time_count - 1) * 99 / 100];
}

static enum facet_status check_loads(const struct facet_simulate_config *config, struct facet_error *error)
{
    if (config->departures)
        return FACET_OK;
    if (config->load_count == 0 || config->load_count > FACET_SIMULATE_LOADS || !config->loads_permille)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "loads", "loads: %u, expected 1 to %u",
                                    config->load_count, FACET_SIMULATE_LOADS);
    for (uint32_t i = 1; i < config->load_count; i++)
        if (config->loads_permille[i] <= config->loads_permille[i - 1])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "loads",
                                        "loads: expected each load above the one before it");
    return FACET_OK;
}

static enum facet_status check_config(const struct facet_simulate_config *config, struct facet_error *error)
{
    if (!config || config->size < sizeof *config || !config->nodes || !config->jobs)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: expected a struct with its size, nodes and jobs");
    FACET_NEED_KNOWN("config", config, error);
    FACET_NEED_RESERVED("config", config, error);
    if (config->moves > FLEET_MOVES_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "moves", "moves: %u, expected at most %u", config->moves,
                                    FLEET_MOVES_MAX);
    if (config->stretch > STRETCH_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "stretch", "stretch: %u, expected at most %u",
                                    config->stretch, STRETCH_MAX);
    return check_loads(config, error);
}

static enum facet_status check_jobs(const struct run *run, struct facet_error *error)
{
    uint64_t gpus = 0;

    for (size_t i = 0; i < run->job_count; i++) {
        gpus += run->jobs[i].request.num_gpu;
        if (run->config->departures && !run->jobs[i].timed)
            return facet_error_argument(
                error, FACET_INVALID_ARGUMENT, "jobs",
                "jobs: job %zu ('%.80s') has no times, expected creation_time and deletion_time", i + 1,
                run->jobs[i].name ? run->jobs[i].name : "");
    }
    if (gpus > 0 && run->result.gpu_milli > 0)
        return FACET_OK;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, gpus ? "nodes" : "jobs",
                                "%s: none of them has a GPU; expected jobs and nodes with GPUs",
                                gpus ? "nodes" : "jobs");
}

enum facet_status facet_simulate(const struct facet_simulate_config *config, struct facet_simulate_result *ret_result,
                                 struct facet_error *error)
{
    struct run run = {.config = config, .time_step = 1, .result.size = sizeof run.result};
    enum facet_status status = check_config(config, error);

    if (status == FACET_OK)
        status = prepare_run(&run, error);
    if (status == FACET_OK)
        status = check_jobs(&run, error);
    if (status == FACET_OK)
        status = config->departures ? run_departures(&run, error) : run_arrivals(&run, error);
    if (status == FACET_OK) {
        summarize_times(&run);
        *ret_result = run.result;
    }
    facet_fleet_destroy(run.fleet);
    free(run.shapes);
    free(run.times);
    return status;
}
