/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of each provider's session. Never: calls a provider itself; reading.c and grant.c do. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "live_provider.h"
#include "threads.h"

#define READ_EVERY_NS         FACET_NS_PER_S
#define BACK_OFF_NS           FACET_NS_PER_S
#define BACK_OFF_MAX_NS       (60 * FACET_NS_PER_S)
#define FAILURES_FORGOTTEN_NS (60 * FACET_NS_PER_S) /* alive for so long, a provider has its failures forgotten */
#define READ_REGULARLY                                                                                                 \
    (FACET_CAN_DEVICE_METRICS | FACET_CAN_PROCESS_METRICS | FACET_CAN_LINK_METRICS | FACET_CAN_EVENTS)

struct sessions {
    struct events *events;
    void *context; /* the argument of `restarted`; written before `restarted` is */
    _Atomic(sessions_restarted_func) restarted;
    struct live_provider *live_providers;
    size_t count;
};

/* --- the thread of a provider --------------------------------------------------------------------------------- */

static uint64_t back_off_ns(unsigned failures)
{
    uint64_t ns = failures < 6 ? BACK_OFF_NS << failures : BACK_OFF_MAX_NS;

    return ns < BACK_OFF_MAX_NS ? ns : BACK_OFF_MAX_NS;
}

/* Called with the lock. */
static void become_lost(struct live_provider *live, const struct facet_error *reason)
{
    bool lost_before = live->was_lost;

    if (live->state == LIVE_PROVIDER_ALIVE && facet_clock_now_ns() - live->alive_since_ns >= FAILURES_FORGOTTEN_NS)
        live->failures = 0;
    live->state = LIVE_PROVIDER_LOST;
    live->was_lost = true;
    live->loss = *reason;
    live->retry_at_ns = facet_clock_now_ns() + back_off_ns(live->failures++);
    pthread_cond_broadcast(&live->changed);
    if (lost_before)
        return;
    facet_log(FACET_LOG_ERROR, "provider %s is lost: %s; it is started again", live->record->name, reason->message);
    pthread_mutex_unlock(&live->lock);
    live_provider_announce(live, live->sessions->events, FACET_HEALTH_FAILED, reason->message);
    pthread_mutex_lock(&live->lock);
}

static enum facet_status open_session(struct live_provider *live, struct facet_error *error)
{
    if (live->session)
        return facet_session_restart(live->session, error);
    return facet_session_open(live->record->path, NULL, &live->session, error);
}

/* Called with the lock. */
static void become_alive(struct live_provider *live)
{
    struct sessions *sessions = live->sessions;
    bool was_lost = live->was_lost;

    live->state = LIVE_PROVIDER_ALIVE;
    live->was_lost = false;
    live->alive_since_ns = facet_clock_now_ns();
    live->events_seen = 0;
    live->reports_restart = was_lost;
    pthread_cond_broadcast(&live->changed);
    if (!was_lost)
        return;
    facet_log(FACET_LOG_INFO, "provider %s is back", live->record->name);
    pthread_mutex_unlock(&live->lock);
    live_provider_announce(live, sessions->events, FACET_HEALTH_OK, "the provider was started again");
    sessions_restarted_func restarted = atomic_load(&sessions->restarted);
    if (restarted)
        restarted(sessions->context, live->record);
    pthread_mutex_lock(&live->lock);
    live->reports_restart = false;
}

/* Opens the provider, or restarts it. Called with the lock, which is dropped meanwhile. */
static void open_or_reopen(struct live_provider *live)
{
    struct facet_error reason = {0};

    live->state = LIVE_PROVIDER_OPENING;
    while (live->users)
        pthread_cond_wait(&live->changed, &live->lock);
    pthread_mutex_unlock(&live->lock);
    enum facet_status status = open_session(live, &reason);
    if (status == FACET_OK)
        status = live_provider_list(live, &reason);
    pthread_mutex_lock(&live->lock);
    live->attempts++;
    if (status == FACET_OK)
        become_alive(live);
    else
        become_lost(live, &reason);
}

static void read_or_lose(struct live_provider *live)
{
    struct facet_error reason = {0};

    pthread_mutex_unlock(&live->lock);
    if (facet_session_alive(live->session, &reason))
        live_provider_read(live, live->sessions->events);
    bool alive = facet_session_alive(live->session, &reason);
    pthread_mutex_lock(&live->lock);
    if (!alive && live->state == LIVE_PROVIDER_ALIVE) /* unless a user noticed the loss meanwhile */
        become_lost(live, &reason);
}

static void wait_until_due(struct live_provider *live, uint64_t until_ns)
{
    struct timespec until = facet_ns_timespec(until_ns);

    while (!live->stopping && !live->look_is_due && facet_clock_now_ns() < until_ns)
        pthread_cond_timedwait(&live->changed, &live->lock, &until);
    live->look_is_due = false;
}

static void *live_provider_main(void *argument)
{
    struct live_provider *live = argument;

    pthread_mutex_lock(&live->lock);
    while (!live->stopping) {
        if (live->state == LIVE_PROVIDER_ALIVE)
            read_or_lose(live);
        else
            open_or_reopen(live);
        wait_until_due(live,
                       live->state == LIVE_PROVIDER_LOST ? live->retry_at_ns : facet_clock_now_ns() + READ_EVERY_NS);
    }
    pthread_mutex_unlock(&live->lock);
    return NULL;
}

/* Called with the lock. */
static enum facet_status start_provider_thread(struct live_provider *live, struct facet_error *error)
{
    if (live->thread_started)
        return FACET_OK;
    int result = thread_start(&live->thread, "provider", live_provider_main, live);
    if (result)
        return facet_error_errno(error, result, "starting the thread of provider %s", live->record->name);
    live->thread_started = true;
    live->state = LIVE_PROVIDER_OPENING;
    return FACET_OK;
}

/* --- opening and closing --------------------------------------------------------------------------------------- */

static uint32_t devices_of(const struct facet_device_table *devices, const struct facet_provider_record *provider)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < facet_device_table_count(devices); i++)
        count += facet_device_table_at(devices, i)->provider == provider;
    return count;
}

static void init_lock(struct live_provider *live)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&live->lock, NULL);
    pthread_cond_init(&live->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static enum facet_status live_provider_init(struct live_provider *live, struct sessions *sessions,
                                            const struct facet_device_table *devices,
                                            const struct facet_provider_record *provider, struct facet_error *error)
{
    uint32_t count = devices_of(devices, provider);

    *live = (struct live_provider){.sessions = sessions, .record = provider};
    init_lock(live);
    live->devices = calloc(count ? count : 1, sizeof *live->devices);
    if (!live->devices)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u devices", count);
    for (uint32_t i = 0; i < facet_device_table_count(devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(devices, i);
        if (device->provider == provider)
            live->devices[live->device_count++].record = device;
    }
    return FACET_OK;
}

enum facet_status sessions_open(const struct facet_device_table *devices, struct events *events,
                                struct sessions **ret_sessions, struct facet_error *error)
{
    struct sessions *sessions = calloc(1, sizeof *sessions);
    uint32_t count = facet_provider_count(devices);
    enum facet_status status = FACET_OK;

    if (sessions)
        sessions->live_providers = calloc(count ? count : 1, sizeof *sessions->live_providers);
    if (!sessions || !sessions->live_providers) {
        free(sessions);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u providers", count);
    }
    sessions->events = events;
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status = live_provider_init(&sessions->live_providers[sessions->count++], sessions, devices,
                                    facet_provider_at(devices, i), error);
    if (status != FACET_OK) {
        sessions_close(sessions);
        return status;
    }
    *ret_sessions = sessions;
    return FACET_OK;
}

void sessions_on_restart(struct sessions *sessions, sessions_restarted_func restarted, void *context)
{
    sessions->context = context;
    atomic_store(&sessions->restarted, restarted);
}

static void request_stop(struct live_provider *live)
{
    pthread_mutex_lock(&live->lock);
    live->stopping = true;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
}

/* Stops all threads before it waits for any, so that they end in parallel. */
void sessions_stop(struct sessions *sessions)
{
    for (size_t i = 0; sessions && i < sessions->count; i++)
        request_stop(&sessions->live_providers[i]);
    for (size_t i = 0; sessions && i < sessions->count; i++) {
        struct live_provider *live = &sessions->live_providers[i];

        if (live->thread_started)
            pthread_join(live->thread, NULL);
        live->thread_started = false;
    }
}

static void live_provider_free(struct live_provider *live)
{
    facet_session_close(live->session);
    for (uint32_t i = 0; i < live->device_count; i++)
        device_reading_free(&live->devices[i].reading);
    free(live->devices);
    pthread_cond_destroy(&live->changed);
    pthread_mutex_destroy(&live->lock);
}

void sessions_close(struct sessions *sessions)
{
    if (!sessions)
        return;
    sessions_stop(sessions);
    for (size_t i = 0; i < sessions->count; i++)
        live_provider_free(&sessions->live_providers[i]);
    free(sessions->live_providers);
    free(sessions);
}

/* --- using ----------------------------------------------------------------------------------------------------- */

static struct live_provider *live_provider_of(struct sessions *sessions, const struct facet_device_record *device)
{
    for (size_t i = 0; i < sessions->count; i++)
        if (sessions->live_providers[i].record == device->provider)
            return &sessions->live_providers[i];
    return NULL;
}

static struct provided_device *provided_device_of(struct live_provider *live, const struct facet_device_record *device)
{
    for (uint32_t i = 0; i < live->device_count; i++)
        if (live->devices[i].record == device)
            return &live->devices[i];
    return NULL;
}

/*
 * Called with the lock. Has the provider's thread restart a provider that died while no call was under way, or was lost
 * for the first time, and waits for that. Does nothing while the thread reports the previous restart: the caller may be
 * that thread, or hold a lock that the thread waits for.
 */
static void request_restart(struct live_provider *live)
{
    struct facet_error reason = {0};
    bool found_dead = live->state == LIVE_PROVIDER_ALIVE && !facet_session_alive(live->session, &reason);

    if (found_dead)
        become_lost(live, &reason);
    if (live->state == LIVE_PROVIDER_ALIVE || !live->alive_since_ns || live->reports_restart ||
        (!found_dead && live->failures > 1))
        return;
    unsigned attempts = live->attempts;
    live->retry_at_ns = facet_clock_now_ns();
    live->look_is_due = true;
    pthread_cond_broadcast(&live->changed);
    while (live->attempts == attempts && !live->stopping)
        pthread_cond_wait(&live->changed, &live->lock);
}

/* Called with the lock. Waits for a first opening, which has a deadline, and for one restart. */
static enum facet_status add_user(struct live_provider *live, const struct provided_device *provided,
                                  struct facet_error *error)
{
    enum facet_status status = live->stopping ? FACET_OK : start_provider_thread(live, error);

    if (status != FACET_OK)
        return status;
    while (live->state == LIVE_PROVIDER_OPENING && !live->was_lost && !live->stopping)
        pthread_cond_wait(&live->changed, &live->lock);
    request_restart(live);
    if (live->stopping)
        return facet_error_set(error, FACET_DEVICE_LOST, "provider %s: facetd is stopping", live->record->name);
    if (live->state != LIVE_PROVIDER_ALIVE)
        return facet_error_set(error, FACET_DEVICE_LOST, "provider %s is lost, and is started again: %s",
                               live->record->name, live->loss.message);
    if (!provided->present)
        return facet_error_argument(error, FACET_DEVICE_LOST, "device", "device %s is no longer there",
                                    provided->record->id);
    live->users++;
    return FACET_OK;
}

enum facet_status sessions_use(struct sessions *sessions, const struct facet_device_record *device,
                               struct provider_use *ret_use, struct facet_error *error)
{
    struct live_provider *live = live_provider_of(sessions, device);
    struct provided_device *provided = live ? provided_device_of(live, device) : NULL;

    if (!provided)
        return facet_error_argument(error, FACET_NOT_FOUND, "device", "device %s has no provider", device->id);
    pthread_mutex_lock(&live->lock);
    enum facet_status status = add_user(live, provided, error);
    if (status == FACET_OK)
        *ret_use = (struct provider_use){.provider = facet_session_provider(live->session),
                                         .instance = facet_session_instance(live->session),
                                         .device = provided->index,
                                         .live = live};
    pthread_mutex_unlock(&live->lock);
    return status;
}

void sessions_release(struct provider_use *use)
{
    struct live_provider *live = use->live;

    if (!live)
        return;
    bool alive = facet_session_alive(live->session, NULL);
    pthread_mutex_lock(&live->lock);
    live->users--;
    live->look_is_due |= !alive;
    pthread_cond_broadcast(&live->changed);
    pthread_mutex_unlock(&live->lock);
    *use = (struct provider_use){0};
}

void sessions_watch(struct sessions *sessions)
{
    struct facet_error error;

    for (size_t i = 0; i < sessions->count; i++) {
        struct live_provider *live = &sessions->live_providers[i];
        uint64_t capabilities = 0;

        for (uint32_t j = 0; j < live->device_count; j++)
            if (facet_device_takes_programs(live->devices[j].record))
                capabilities |= live->devices[j].record->info.capabilities;
        if (!(capabilities & READ_REGULARLY))
            continue;
        pthread_mutex_lock(&live->lock);
        if (!live->stopping && start_provider_thread(live, &error) != FACET_OK)
            facet_log(FACET_LOG_WARNING, "%s", error.message);
        pthread_mutex_unlock(&live->lock);
    }
}

/* --- readings -------------------------------------------------------------------------------------------------- */

/* Called with the lock. */
static uint32_t health_of(const struct live_provider *live, const struct provided_device *provided, char *ret_reason,
                          size_t size)
{
    const char *reason = "";
    uint32_t health = provided->record->health;

    if (live->was_lost) {
        health = FACET_HEALTH_FAILED;
        reason = live->loss.message;
    } else if (live->state == LIVE_PROVIDER_ALIVE && !provided->present) {
        health = FACET_HEALTH_FAILED;
        reason = "the provider lists it no more";
    } else if (provided->has_reading) {
        health = provided->reading.health;
        reason = provided->reading.reason;
    }
    if (ret_reason)
        snprintf(ret_reason, size, "%s", reason);
    return health;
}

uint32_t sessions_health(struct sessions *sessions, const struct facet_device_record *device, char *ret_reason,
                         size_t size)
{
    struct live_provider *live = live_provider_of(sessions, device);
    struct provided_device *provided = live ? provided_device_of(live, device) : NULL;

    if (ret_reason)
        ret_reason[0] = '\0';
    if (!provided)
        return device->health;
    pthread_mutex_lock(&live->lock);
    uint32_t health = health_of(live, provided, ret_reason, size);
    pthread_mutex_unlock(&live->lock);
    return health;
}

static void *copy_of(const void *items, size_t size)
{
    void *copy = size ? malloc(size) : NULL;

    if (copy)
        memcpy(copy, items, size);
    return copy;
}

/* Called with the lock. Copies only the health if the provider is lost, because the rest of the reading is old. */
static enum facet_status copy_reading(const struct live_provider *live, const struct provided_device *provided,
                                      struct device_reading *ret_reading, struct facet_error *error)
{
    const struct device_reading *from = &provided->reading;
    struct device_reading reading = {0};

    if (live->state == LIVE_PROVIDER_ALIVE && provided->present && provided->has_reading) {
        reading = *from;
        reading.processes = copy_of(from->processes, from->process_count * sizeof *from->processes);
        reading.links = copy_of(from->links, from->link_count * sizeof *from->links);
        if ((from->process_count && !reading.processes) || (from->link_count && !reading.links)) {
            device_reading_free(&reading);
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for the metrics of device %s",
                                   provided->record->id);
        }
    }
    reading.health = health_of(live, provided, reading.reason, sizeof reading.reason);
    *ret_reading = reading;
    return FACET_OK;
}

enum facet_status sessions_read(struct sessions *sessions, const struct facet_device_record *device,
                                struct device_reading *ret_reading, struct facet_error *error)
{
    struct live_provider *live = live_provider_of(sessions, device);
    struct provided_device *provided = live ? provided_device_of(live, device) : NULL;

    if (!provided)
        return facet_error_argument(error, FACET_NOT_FOUND, "device", "device %s has no provider", device->id);
    pthread_mutex_lock(&live->lock);
    enum facet_status status = copy_reading(live, provided, ret_reading, error);
    pthread_mutex_unlock(&live->lock);
    return status;
}

void device_reading_free(struct device_reading *reading)
{
    free(reading->processes);
    free(reading->links);
    reading->processes = NULL;
    reading->links = NULL;
    reading->process_count = reading->link_count = 0;
}
