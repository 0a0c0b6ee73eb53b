/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of each provider's session. Never: calls a provider itself; see reading.c and grant.c. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "living.h"
#include "threads.h"

#define READ_EVERY_NS   FACET_NS_PER_S
#define BACK_OFF_NS     FACET_NS_PER_S
#define BACK_OFF_MAX_NS (60 * FACET_NS_PER_S)
#define STEADY_NS       (60 * FACET_NS_PER_S) /* alive for so long: the next loss counts as the first again */
#define WATCHED         (FACET_CAN_DEVICE_METRICS | FACET_CAN_PROCESS_METRICS | FACET_CAN_LINK_METRICS | FACET_CAN_EVENTS)

struct sessions {
    struct events *events;
    void *context; /* of `restarted`; written before it */
    _Atomic(sessions_restarted_func) restarted;
    struct living *livings;
    size_t count;
};

/* --- the thread of a provider --------------------------------------------------------------------------------- */

static uint64_t back_off_ns(unsigned failures)
{
    uint64_t ns = failures < 6 ? BACK_OFF_NS << failures : BACK_OFF_MAX_NS;

    return ns < BACK_OFF_MAX_NS ? ns : BACK_OFF_MAX_NS;
}

/* With the lock. */
static void become_lost(struct living *living, const struct facet_error *why)
{
    bool again = living->was_lost;

    if (living->state == LIVING_ALIVE && facet_clock_now_ns() - living->alive_since_ns >= STEADY_NS)
        living->failures = 0;
    living->state = LIVING_LOST;
    living->was_lost = true;
    living->why = *why;
    living->retry_at_ns = facet_clock_now_ns() + back_off_ns(living->failures++);
    pthread_cond_broadcast(&living->changed);
    if (again)
        return;
    facet_log(FACET_LOG_ERROR, "provider %s is lost: %s; it is started again", living->record->name, why->message);
    pthread_mutex_unlock(&living->lock);
    living_announce(living, living->sessions->events, FACET_HEALTH_FAILED, why->message);
    pthread_mutex_lock(&living->lock);
}

static enum facet_status open_session(struct living *living, struct facet_error *error)
{
    if (living->session)
        return facet_session_restart(living->session, error);
    return facet_session_open(living->record->path, NULL, &living->session, error);
}

/* With the lock. */
static void become_alive(struct living *living)
{
    struct sessions *sessions = living->sessions;
    bool came_back = living->was_lost;

    living->state = LIVING_ALIVE;
    living->was_lost = false;
    living->alive_since_ns = facet_clock_now_ns();
    living->events_seen = 0;
    living->telling = came_back;
    pthread_cond_broadcast(&living->changed);
    if (!came_back)
        return;
    facet_log(FACET_LOG_INFO, "provider %s is back", living->record->name);
    pthread_mutex_unlock(&living->lock);
    living_announce(living, sessions->events, FACET_HEALTH_OK, "the provider was started again");
    sessions_restarted_func restarted = atomic_load(&sessions->restarted);
    if (restarted)
        restarted(sessions->context, living->record);
    pthread_mutex_lock(&living->lock);
    living->telling = false;
}

/* Opens it, or opens it again; with the lock, which is dropped meanwhile. */
static void revive_providers(struct living *living)
{
    struct facet_error why = {0};

    living->state = LIVING_OPENING;
    while (living->users)
        pthread_cond_wait(&living->changed, &living->lock);
    pthread_mutex_unlock(&living->lock);
    enum facet_status status = open_session(living, &why);
    if (status == FACET_OK)
        status = living_list(living, &why);
    pthread_mutex_lock(&living->lock);
    living->attempts++;
    if (status == FACET_OK)
        become_alive(living);
    else
        become_lost(living, &why);
}

static void look_at_providers(struct living *living)
{
    struct facet_error why = {0};

    pthread_mutex_unlock(&living->lock);
    if (facet_session_alive(living->session, &why))
        living_read(living, living->sessions->events);
    bool alive = facet_session_alive(living->session, &why);
    pthread_mutex_lock(&living->lock);
    if (!alive && living->state == LIVING_ALIVE) /* unless a user noticed it meanwhile */
        become_lost(living, &why);
}

static void wait_until(struct living *living, uint64_t until_ns)
{
    struct timespec until = facet_ns_timespec(until_ns);

    while (!living->stopping && !living->look_now && facet_clock_now_ns() < until_ns)
        pthread_cond_timedwait(&living->changed, &living->lock, &until);
    living->look_now = false;
}

static void *living_main(void *argument)
{
    struct living *living = argument;

    pthread_mutex_lock(&living->lock);
    while (!living->stopping) {
        if (living->state == LIVING_ALIVE)
            look_at_providers(living);
        else
            revive_providers(living);
        wait_until(living, living->state == LIVING_LOST ? living->retry_at_ns : facet_clock_now_ns() + READ_EVERY_NS);
    }
    pthread_mutex_unlock(&living->lock);
    return NULL;
}

/* With the lock. */
static enum facet_status start_threads(struct living *living, struct facet_error *error)
{
    if (living->started)
        return FACET_OK;
    int result = thread_start(&living->thread, "provider", living_main, living);
    if (result)
        return facet_error_errno(error, result, "starting the thread of provider %s", living->record->name);
    living->started = true;
    living->state = LIVING_OPENING;
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

static void init_lock(struct living *living)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&living->lock, NULL);
    pthread_cond_init(&living->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static enum facet_status living_init(struct living *living, struct sessions *sessions,
                                     const struct facet_device_table *devices,
                                     const struct facet_provider_record *provider, struct facet_error *error)
{
    uint32_t count = devices_of(devices, provider);

    *living = (struct living){.sessions = sessions, .record = provider};
    init_lock(living);
    living->places = calloc(count ? count : 1, sizeof *living->places);
    if (!living->places)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u devices", count);
    for (uint32_t i = 0; i < facet_device_table_count(devices); i++) {
        const struct facet_device_record *device = facet_device_table_at(devices, i);
        if (device->provider == provider)
            living->places[living->place_count++].record = device;
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
        sessions->livings = calloc(count ? count : 1, sizeof *sessions->livings);
    if (!sessions || !sessions->livings) {
        free(sessions);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u providers", count);
    }
    sessions->events = events;
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        status =
            living_init(&sessions->livings[sessions->count++], sessions, devices, facet_provider_at(devices, i), error);
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

static void tell_to_stop(struct living *living)
{
    pthread_mutex_lock(&living->lock);
    living->stopping = true;
    pthread_cond_broadcast(&living->changed);
    pthread_mutex_unlock(&living->lock);
}

/* All threads are told to end first, so that they end in parallel. */
void sessions_stop(struct sessions *sessions)
{
    for (size_t i = 0; sessions && i < sessions->count; i++)
        tell_to_stop(&sessions->livings[i]);
    for (size_t i = 0; sessions && i < sessions->count; i++) {
        struct living *living = &sessions->livings[i];

        if (living->started)
            pthread_join(living->thread, NULL);
        living->started = false;
    }
}

static void living_free(struct living *living)
{
    facet_session_close(living->session);
    for (uint32_t i = 0; i < living->place_count; i++)
        device_reading_free(&living->places[i].reading);
    free(living->places);
    pthread_cond_destroy(&living->changed);
    pthread_mutex_destroy(&living->lock);
}

void sessions_close(struct sessions *sessions)
{
    if (!sessions)
        return;
    sessions_stop(sessions);
    for (size_t i = 0; i < sessions->count; i++)
        living_free(&sessions->livings[i]);
    free(sessions->livings);
    free(sessions);
}

/* --- using ----------------------------------------------------------------------------------------------------- */

static struct living *living_of(struct sessions *sessions, const struct facet_device_record *device)
{
    for (size_t i = 0; i < sessions->count; i++)
        if (sessions->livings[i].record == device->provider)
            return &sessions->livings[i];
    return NULL;
}

static struct place *place_of(struct living *living, const struct facet_device_record *device)
{
    for (uint32_t i = 0; i < living->place_count; i++)
        if (living->places[i].record == device)
            return &living->places[i];
    return NULL;
}

/*
 * With the lock. A provider that died while no call was under way, or is lost for the first time, is restarted at once
 * for a caller that needs it now: no call of that caller has reached it. Not while the thread reports the previous
 * restart: the caller may be that thread, or hold what the thread waits for.
 */
static void hasten_look(struct living *living)
{
    struct facet_error why = {0};
    bool found = living->state == LIVING_ALIVE && !facet_session_alive(living->session, &why);

    if (found)
        become_lost(living, &why);
    if (living->state == LIVING_ALIVE || !living->alive_since_ns || living->telling || (!found && living->failures > 1))
        return;
    unsigned attempts = living->attempts;
    living->retry_at_ns = facet_clock_now_ns();
    living->look_now = true;
    pthread_cond_broadcast(&living->changed);
    while (living->attempts == attempts && !living->stopping)
        pthread_cond_wait(&living->changed, &living->lock);
}

/* With the lock. Waits for a first opening, which has a deadline, and for one restart. */
static enum facet_status become_user(struct living *living, const struct place *place, struct facet_error *error)
{
    enum facet_status status = living->stopping ? FACET_OK : start_threads(living, error);

    if (status != FACET_OK)
        return status;
    while (living->state == LIVING_OPENING && !living->was_lost && !living->stopping)
        pthread_cond_wait(&living->changed, &living->lock);
    hasten_look(living);
    if (living->stopping)
        return facet_error_set(error, FACET_DEVICE_LOST, "provider %s: facetd is stopping", living->record->name);
    if (living->state != LIVING_ALIVE)
        return facet_error_set(error, FACET_DEVICE_LOST, "provider %s is lost, and is started again: %s",
                               living->record->name, living->why.message);
    if (!place->present)
        return facet_error_argument(error, FACET_DEVICE_LOST, "device", "device %s is no longer there",
                                    place->record->id);
    living->users++;
    return FACET_OK;
}

enum facet_status sessions_use(struct sessions *sessions, const struct facet_device_record *device,
                               struct provider_use *ret_use, struct facet_error *error)
{
    struct living *living = living_of(sessions, device);
    struct place *place = living ? place_of(living, device) : NULL;

    if (!place)
        return facet_error_argument(error, FACET_NOT_FOUND, "device", "device %s has no provider", device->id);
    pthread_mutex_lock(&living->lock);
    enum facet_status status = become_user(living, place, error);
    if (status == FACET_OK)
        *ret_use = (struct provider_use){.provider = facet_session_provider(living->session),
                                         .instance = facet_session_instance(living->session),
                                         .device = place->index,
                                         .living = living};
    pthread_mutex_unlock(&living->lock);
    return status;
}

void sessions_release(struct provider_use *use)
{
    struct living *living = use->living;

    if (!living)
        return;
    bool alive = facet_session_alive(living->session, NULL);
    pthread_mutex_lock(&living->lock);
    living->users--;
    living->look_now |= !alive;
    pthread_cond_broadcast(&living->changed);
    pthread_mutex_unlock(&living->lock);
    *use = (struct provider_use){0};
}

void sessions_watch(struct sessions *sessions)
{
    struct facet_error error;

    for (size_t i = 0; i < sessions->count; i++) {
        struct living *living = &sessions->livings[i];
        uint64_t capabilities = 0;

        for (uint32_t j = 0; j < living->place_count; j++)
            if (facet_device_takes_programs(living->places[j].record))
                capabilities |= living->places[j].record->info.capabilities;
        if (!(capabilities & WATCHED))
            continue;
        pthread_mutex_lock(&living->lock);
        if (!living->stopping && start_threads(living, &error) != FACET_OK)
            facet_log(FACET_LOG_WARNING, "%s", error.message);
        pthread_mutex_unlock(&living->lock);
    }
}

/* --- readings -------------------------------------------------------------------------------------------------- */

/* With the lock. */
static uint32_t health_of(const struct living *living, const struct place *place, char *ret_reason, size_t size)
{
    const char *reason = "";
    uint32_t health = place->record->health;

    if (living->was_lost) {
        health = FACET_HEALTH_FAILED;
        reason = living->why.message;
    } else if (living->state == LIVING_ALIVE && !place->present) {
        health = FACET_HEALTH_FAILED;
        reason = "the provider lists it no more";
    } else if (place->read) {
        health = place->reading.health;
        reason = place->reading.reason;
    }
    if (ret_reason)
        snprintf(ret_reason, size, "%s", reason);
    return health;
}

uint32_t sessions_health(struct sessions *sessions, const struct facet_device_record *device, char *ret_reason,
                         size_t size)
{
    struct living *living = living_of(sessions, device);
    struct place *place = living ? place_of(living, device) : NULL;

    if (ret_reason)
        ret_reason[0] = '\0';
    if (!place)
        return device->health;
    pthread_mutex_lock(&living->lock);
    uint32_t health = health_of(living, place, ret_reason, size);
    pthread_mutex_unlock(&living->lock);
    return health;
}

static void *copy_of(const void *items, size_t size)
{
    void *copy = size ? malloc(size) : NULL;

    if (copy)
        memcpy(copy, items, size);
    return copy;
}

/* With the lock. A reading of a lost provider is old: only its health is returned. */
static enum facet_status copy_reading(const struct living *living, const struct place *place,
                                      struct device_reading *ret_reading, struct facet_error *error)
{
    const struct device_reading *from = &place->reading;
    struct device_reading reading = {0};

    if (living->state == LIVING_ALIVE && place->present && place->read) {
        reading = *from;
        reading.processes = copy_of(from->processes, from->process_count * sizeof *from->processes);
        reading.links = copy_of(from->links, from->link_count * sizeof *from->links);
        if ((from->process_count && !reading.processes) || (from->link_count && !reading.links)) {
            device_reading_free(&reading);
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for what device %s does", place->record->id);
        }
    }
    reading.health = health_of(living, place, reading.reason, sizeof reading.reason);
    *ret_reading = reading;
    return FACET_OK;
}

enum facet_status sessions_read(struct sessions *sessions, const struct facet_device_record *device,
                                struct device_reading *ret_reading, struct facet_error *error)
{
    struct living *living = living_of(sessions, device);
    struct place *place = living ? place_of(living, device) : NULL;

    if (!place)
        return facet_error_argument(error, FACET_NOT_FOUND, "device", "device %s has no provider", device->id);
    pthread_mutex_lock(&living->lock);
    enum facet_status status = copy_reading(living, place, ret_reading, error);
    pthread_mutex_unlock(&living->lock);
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
