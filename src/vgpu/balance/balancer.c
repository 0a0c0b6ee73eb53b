/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening and closing balancers, and describing their members and actions. Never: decides where a task runs. */
#include "vgpu/balance/balancer.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sized.h"
#include "vgpu/driver.h"

#define FIRST_JOBS_CAPACITY 64u /* a power of two; the ring of jobs grows from it */

_Static_assert((int)FACET_BALANCER_LEAST_LOADED == (int)FACET_BALANCE_LEAST_LOADED, "strategies");
_Static_assert((int)FACET_BALANCER_ROUND_ROBIN == (int)FACET_BALANCE_ROUND_ROBIN, "strategies");
_Static_assert((int)FACET_BALANCER_WEIGHTED == (int)FACET_BALANCE_WEIGHTED, "strategies");
_Static_assert((int)FACET_BALANCER_LOCALITY == (int)FACET_BALANCE_LOCALITY, "strategies");

const char *facet_balancer_strategy_name(uint32_t strategy)
{
    return strategy <= FACET_BALANCER_LOCALITY ? facet_balance_strategy_name((enum facet_balance_strategy)strategy)
                                               : NULL;
}

const char *facet_balancer_action_name(uint32_t action)
{
    for (uint32_t kind = FACET_BALANCE_MIGRATE; kind <= FACET_BALANCE_PREEMPT; kind++)
        if (action == UINT32_C(1) << kind)
            return facet_balance_kind_name((enum facet_balance_kind)kind);
    return NULL;
}

/* ---- lists and waiting ---- */

void facet_job_list_append(struct facet_job_list *list, struct facet_job *job)
{
    job->next = NULL;
    job->prev = list->last;
    if (list->last)
        list->last->next = job;
    else
        list->first = job;
    list->last = job;
    list->length++;
}

void facet_job_list_remove(struct facet_job_list *list, struct facet_job *job)
{
    if (job->prev)
        job->prev->next = job->next;
    else
        list->first = job->next;
    if (job->next)
        job->next->prev = job->prev;
    else
        list->last = job->prev;
    job->next = job->prev = NULL;
    list->length--;
}

bool facet_balancer_wait_until(struct facet_balancer *balancer, pthread_cond_t *condition, uint64_t until_ns)
{
    struct timespec until = facet_ns_timespec(until_ns < INT64_MAX ? until_ns : INT64_MAX);

    return pthread_cond_timedwait(condition, &balancer->lock, &until) == 0;
}

/* ---- settings ---- */

static enum facet_status refuse_setting(struct facet_error *error, const char *argument, uint64_t value,
                                        const char *expected)
{
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument, "%s %" PRIu64 ": expected %s", argument, value,
                                expected);
}

static enum facet_status check_ids(const struct facet_balancer_config *config, struct facet_error *error)
{
    uint64_t weights = 0;

    for (uint32_t i = 0; i < config->count; i++) {
        weights += config->weights ? config->weights[i] : 1;
        for (uint32_t other = 0; other < i; other++)
            if (config->ids[other] == config->ids[i])
                return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ids",
                                            "ids: vGPU %" PRIu32 " is there twice; expected each once", config->ids[i]);
    }
    return weights > 0 && weights <= INT32_MAX ? FACET_OK
                                               : refuse_setting(error, "weights", weights, "a sum of 1 to 2147483647");
}

static enum facet_status check_config(const struct facet_driver *driver, const struct facet_balancer_config *config,
                                      struct facet_error *error)
{
    const uint32_t known =
        FACET_BALANCER_MIGRATE | FACET_BALANCER_ADJUST_SHARE | FACET_BALANCER_SCALE_UNITS | FACET_BALANCER_PREEMPT;

    if (!config->ids)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ids",
                                    "ids: expected the ids of 1 to 64 vGPUs, not NULL");
    if (config->count == 0 || config->count > FACET_BALANCER_MEMBERS)
        return refuse_setting(error, "count", config->count, "1 to 64, the number of ids");
    if (config->strategy > FACET_BALANCER_LOCALITY)
        return refuse_setting(error, "strategy", config->strategy, "an enum facet_balancer_strategy");
    if (config->actions & ~known && config->actions != FACET_BALANCER_NO_ACTION)
        return refuse_setting(error, "actions", config->actions,
                              "the sum of actions, or FACET_BALANCER_NO_ACTION alone");
    if (config->actions & known & ~FACET_BALANCER_MIGRATE && driver->config.off & FACET_OFF_COMPUTE)
        return facet_error_argument(error, FACET_UNSUPPORTED, "actions",
                                    "actions 0x%" PRIx32 ": all but migrating need compute virtualization, which is "
                                    "off",
                                    config->actions);
    if (config->depth > FACET_BALANCER_DEPTH)
        return refuse_setting(error, "depth", config->depth, "at most 8");
    if (config->interval_ns < FACET_NS_PER_MS)
        return refuse_setting(error, "interval_ns", config->interval_ns, "at least 1000000, a millisecond");
    return check_ids(config, error);
}

static uint32_t value_or(uint32_t value, uint32_t by_default)
{
    return value ? value : by_default;
}

static enum facet_status read_config(const struct facet_balancer_config *asked, struct facet_balancer_config *ret,
                                     struct facet_error *error)
{
    const struct facet_balance_config *defaults = &facet_balance_defaults;

    if (!asked || asked->size < offsetof(struct facet_balancer_config, weights))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: size %" PRIu32 ", expected that of struct facet_balancer_config",
                                    asked ? asked->size : 0);
    FACET_NEED_KNOWN("config", asked, error);
    FACET_SIZED_TAKE(ret, asked);
    ret->actions = value_or(ret->actions, FACET_BALANCER_MIGRATE);
    ret->threshold_milli = value_or(ret->threshold_milli, defaults->threshold_milli);
    ret->depth = value_or(ret->depth, 2);
    ret->moves = value_or(ret->moves, defaults->moves_max);
    ret->tasks = value_or(ret->tasks, 65536);
    ret->records = value_or(ret->records, 4096);
    ret->log = value_or(ret->log, 1024);
    ret->interval_ns = ret->interval_ns ? ret->interval_ns : defaults->interval_ns;
    ret->idle_ns = ret->idle_ns ? ret->idle_ns : defaults->idle_ns;
    return FACET_OK;
}

/* ---- opening ---- */

static void init_locks(struct facet_balancer *balancer)
{
    pthread_condattr_t clock;

    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&balancer->lock, NULL);
    pthread_cond_init(&balancer->job_over, &clock);
    pthread_cond_init(&balancer->buffer_moved, &clock);
    pthread_cond_init(&balancer->ticker_wake, &clock);
    for (uint32_t i = 0; i < balancer->count; i++)
        pthread_cond_init(&balancer->member[i].work, &clock);
    pthread_condattr_destroy(&clock);
}

static void free_locks(struct facet_balancer *balancer)
{
    for (uint32_t i = 0; i < balancer->count; i++)
        pthread_cond_destroy(&balancer->member[i].work);
    pthread_cond_destroy(&balancer->ticker_wake);
    pthread_cond_destroy(&balancer->buffer_moved);
    pthread_cond_destroy(&balancer->job_over);
    pthread_mutex_destroy(&balancer->lock);
}

static void free_parts(struct facet_balancer *balancer)
{
    free(balancer->member);
    free(balancer->jobs);
    free(balancer->buffers);
    free(balancer->described);
    free(balancer->bytes_on);
    free(balancer->log);
    free(balancer->plan_members);
    free(balancer->plan_works);
    free(balancer->plan_bytes);
    free(balancer);
}

static bool make_parts(struct facet_balancer *balancer)
{
    uint32_t count = balancer->count;

    balancer->jobs_capacity = FIRST_JOBS_CAPACITY;
    balancer->jobs = calloc(FIRST_JOBS_CAPACITY, sizeof(struct facet_job *));
    balancer->described = calloc(count, sizeof *balancer->described);
    balancer->bytes_on = calloc(count, sizeof *balancer->bytes_on);
    balancer->log = calloc(balancer->config.log, sizeof *balancer->log);
    balancer->plan_members = calloc(count, sizeof *balancer->plan_members);
    balancer->plan_works = calloc(FACET_BALANCER_PLAN_WORKS, sizeof *balancer->plan_works);
    balancer->plan_bytes = calloc((size_t)FACET_BALANCER_PLAN_WORKS * count, sizeof *balancer->plan_bytes);
    return balancer->jobs && balancer->described && balancer->bytes_on && balancer->log && balancer->plan_members &&
           balancer->plan_works && balancer->plan_bytes;
}

static struct facet_balancer *new_balancer(struct facet_driver *driver, const struct facet_balancer_config *config)
{
    struct facet_balancer *balancer = calloc(1, sizeof *balancer);

    if (!balancer)
        return NULL;
    balancer->driver = driver;
    balancer->config = *config;
    balancer->count = config->count;
    balancer->first_job = balancer->next_job = 1;
    balancer->member = calloc(config->count, sizeof *balancer->member);
    if (!balancer->member || !make_parts(balancer)) {
        free_parts(balancer);
        return NULL;
    }
    for (uint32_t i = 0; i < config->count; i++) {
        balancer->member[i].id = config->ids[i];
        balancer->member[i].weight = config->weights ? config->weights[i] : 1;
    }
    balancer->config.ids = balancer->config.weights = NULL; /* the caller's arrays; the members have copies */
    init_locks(balancer);
    return balancer;
}

static void init_balance(struct facet_balancer *balancer)
{
    struct facet_balance_config config = facet_balance_defaults;

    config.strategy = (enum facet_balance_strategy)balancer->config.strategy;
    config.threshold_milli = balancer->config.threshold_milli;
    config.settle_milli = balancer->config.threshold_milli / 2;
    config.moves_max = balancer->config.moves;
    config.preemption = balancer->config.actions & FACET_BALANCER_PREEMPT;
    config.interval_ns = balancer->config.interval_ns;
    config.idle_ns = balancer->config.idle_ns;
    facet_balance_init(&balancer->balance, &config);
}

static enum facet_status start_thread(pthread_t *thread, void *(*main)(void *), void *argument, bool *ret_started,
                                      struct facet_error *error)
{
    int failed = pthread_create(thread, NULL, main, argument);

    if (failed)
        return facet_error_errno(error, failed, "starting a thread of the balancer");
    *ret_started = true;
    return FACET_OK;
}

static enum facet_status start_threads(struct facet_balancer *balancer, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < balancer->count; i++) {
        struct facet_member *member = &balancer->member[i];

        for (uint32_t runner = 0; runner < member->runner_count && status == FACET_OK; runner++)
            status = start_thread(&member->runners[runner].thread, facet_runner_main, &member->runners[runner],
                                  &member->runners[runner].started, error);
    }
    if (status == FACET_OK)
        status = start_thread(&balancer->ticker, facet_balancer_ticker, balancer, &balancer->ticking, error);
    return status;
}

enum facet_status facet_balancer_open(struct facet_driver *driver, const struct facet_balancer_config *asked,
                                      struct facet_balancer **ret_balancer, struct facet_error *error)
{
    struct facet_balancer_config config;

    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_NEED(ret_balancer, error);
    enum facet_status status = read_config(asked, &config, error);

    if (status == FACET_OK)
        status = check_config(driver, &config, error);
    if (status != FACET_OK)
        return status;
    struct facet_balancer *balancer = new_balancer(driver, &config);
    if (!balancer)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a balancer of %" PRIu32 " vGPUs", config.count);
    init_balance(balancer);
    status = facet_members_init(balancer, error);
    if (status == FACET_OK)
        status = start_threads(balancer, error);
    if (status == FACET_OK)
        *ret_balancer = balancer;
    else
        facet_balancer_close(balancer);
    return status;
}

/* ---- closing ---- */

/* Ends every waiting job at once, and cancels the running ones, which their runners end. */
static void cancel_all(struct facet_balancer *balancer)
{
    pthread_mutex_lock(&balancer->lock);
    balancer->closing = true;
    uint64_t first = balancer->first_job, next = balancer->next_job;
    pthread_mutex_unlock(&balancer->lock);
    for (uint64_t number = first; number < next; number++)
        (void)facet_balancer_cancel(balancer, number, NULL);
    pthread_mutex_lock(&balancer->lock);
    for (uint32_t i = 0; i < balancer->count; i++)
        pthread_cond_broadcast(&balancer->member[i].work);
    pthread_cond_broadcast(&balancer->ticker_wake);
    pthread_cond_broadcast(&balancer->buffer_moved);
    pthread_mutex_unlock(&balancer->lock);
}

static void stop_threads(struct facet_balancer *balancer)
{
    cancel_all(balancer);
    if (balancer->ticking)
        pthread_join(balancer->ticker, NULL);
    for (uint32_t i = 0; i < balancer->count; i++)
        for (uint32_t runner = 0; runner < balancer->member[i].runner_count; runner++) {
            if (balancer->member[i].runners[runner].started)
                pthread_join(balancer->member[i].runners[runner].thread, NULL);
            facet_runner_free_kernels(&balancer->member[i].runners[runner]);
        }
}

void facet_balancer_close(struct facet_balancer *balancer)
{
    if (!balancer)
        return;
    stop_threads(balancer);
    for (uint64_t number = balancer->first_job; number < balancer->next_job; number++)
        facet_job_free(facet_job_find(balancer, number));
    facet_buffers_free(balancer);
    facet_members_restore(balancer);
    free_locks(balancer);
    free_parts(balancer);
}

/* ---- queries ---- */

static uint32_t count_running_jobs(const struct facet_member *member)
{
    uint32_t running = 0;

    for (uint32_t runner = 0; runner < member->runner_count; runner++)
        running += member->runners[runner].job != NULL;
    return running;
}

/* The caller holds the lock. */
static void describe_member(struct facet_balancer *balancer, uint32_t index, struct facet_balancer_member *ret_member)
{
    const struct facet_member *member = &balancer->member[index];

    facet_balancer_describe(balancer, balancer->described);
    *ret_member = (struct facet_balancer_member){
        .size = sizeof *ret_member,
        .id = member->id,
        .device = member->device,
        .weight = member->weight,
        .paused = member->paused,
        .lost = member->lost,
        .queued = member->queue.length,
        .running = count_running_jobs(member),
        .queued_ns = balancer->described[index].queued_ns,
        .wait_ns = facet_balance_wait_ns(&balancer->described[index]),
        .units = member->units_now,
        .share_milli = member->share_now_milli,
        .over_total = member->over_total,
        .arrived_total = member->arrived_total,
        .left_total = member->left_total,
        .busy_ns = member->busy_ns,
        .brought_bytes = member->brought_bytes,
        .brought_ns = member->brought_ns,
    };
}

enum facet_status facet_balancer_get_member(struct facet_balancer *balancer, uint32_t index,
                                            struct facet_balancer_member *ret_member, struct facet_error *error)
{
    struct facet_balancer_member member;

    FACET_NEED(balancer, error);
    FACET_VGPU_NEED_STRUCT(ret_member, error);
    if (index >= balancer->count)
        return facet_error_argument(error, FACET_NOT_FOUND, "index",
                                    "index %" PRIu32 ": expected less than %" PRIu32 ", the balancer's members", index,
                                    balancer->count);
    pthread_mutex_lock(&balancer->lock);
    describe_member(balancer, index, &member);
    pthread_mutex_unlock(&balancer->lock);
    facet_sized_copy_out(ret_member, &member, sizeof member);
    return FACET_OK;
}

enum facet_status facet_balancer_get_actions(struct facet_balancer *balancer, uint64_t after,
                                             struct facet_balancer_action *ret_actions, uint32_t capacity,
                                             uint32_t *ret_count, struct facet_error *error)
{
    FACET_NEED(balancer, error);
    FACET_NEED(ret_count, error);
    if (capacity > 0)
        FACET_NEED(ret_actions, error);
    uint32_t size = capacity > 0 ? ret_actions[0].size : 0, count = 0;

    if (capacity > 0 && (size < sizeof size || size > sizeof *ret_actions))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_actions",
                                    "ret_actions: size %" PRIu32 ", expected that of struct facet_balancer_action",
                                    size);
    pthread_mutex_lock(&balancer->lock);
    uint64_t kept = balancer->logged_actions < balancer->config.log ? balancer->logged_actions : balancer->config.log;
    uint64_t number = after + 1 > balancer->logged_actions - kept + 1 ? after + 1 : balancer->logged_actions - kept + 1;

    for (; number <= balancer->logged_actions && count < capacity; number++, count++) {
        struct facet_balancer_action action = balancer->log[number % balancer->config.log];

        action.size = size;
        memcpy((char *)ret_actions + (size_t)count * size, &action, size);
    }
    pthread_mutex_unlock(&balancer->lock);
    *ret_count = count;
    return FACET_OK;
}
