/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading a live provider's devices. Never: holds its lock during a call. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/listing.h"
#include "live_provider.h"

static struct facet_listing_query query_of(const struct live_provider *live, enum facet_listing_kind kind,
                                           uint32_t device)
{
    return (struct facet_listing_query){.provider = facet_session_provider(live->session),
                                        .instance = facet_session_instance(live->session),
                                        .kind = kind,
                                        .device = device};
}

/* --- which devices there are ----------------------------------------------------------------------------------- */

static const struct facet_device_info *find_info(const struct facet_device_info *infos, uint32_t count,
                                                 const char *uuid)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(infos[i].uuid, uuid) == 0)
            return &infos[i];
    return NULL;
}

static bool is_known(const struct live_provider *live, const char *uuid)
{
    for (uint32_t i = 0; i < live->device_count; i++)
        if (strcmp(live->devices[i].record->info.uuid, uuid) == 0)
            return true;
    return false;
}

enum facet_status live_provider_list(struct live_provider *live, struct facet_error *error)
{
    const struct facet_listing_query query = query_of(live, FACET_LISTING_DEVICES, 0);
    FACET_CLEANUP_FREE struct facet_device_info *infos = NULL;
    void *items = NULL;
    uint32_t count = 0;

    enum facet_status status = facet_listing_read(&query, &items, &count, error);
    infos = items;
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&live->lock);
    for (uint32_t i = 0; i < live->device_count; i++) {
        struct provided_device *provided = &live->devices[i];
        const struct facet_device_info *info = find_info(infos, count, provided->record->info.uuid);

        provided->present = info != NULL;
        if (info)
            provided->index = (uint32_t)(info - infos);
    }
    pthread_mutex_unlock(&live->lock);
    for (uint32_t i = 0; i < count; i++)
        if (!is_known(live, infos[i].uuid))
            facet_log(FACET_LOG_INFO, "provider %s has a new device %s (%s); facetd uses it when it starts again",
                      live->record->name, infos[i].name, infos[i].uuid);
    return FACET_OK;
}

/* --- events ---------------------------------------------------------------------------------------------------- */

/* The id of the event's device: by uuid if it is in the table, else by index, which a hot-plug may have changed. */
static const char *device_id_of(const struct live_provider *live, const struct facet_event *event)
{
    for (uint32_t i = 0; i < live->device_count; i++)
        if (event->uuid[0] && strcmp(live->devices[i].record->info.uuid, event->uuid) == 0)
            return live->devices[i].record->id;
    for (uint32_t i = 0; i < live->device_count; i++)
        if (event->kind != FACET_EVENT_HOTPLUG && live->devices[i].present && live->devices[i].index == event->device)
            return live->devices[i].record->id;
    return "";
}

static void read_events(struct live_provider *live, struct events *events)
{
    struct facet_listing_query query = query_of(live, FACET_LISTING_EVENTS, 0);
    FACET_CLEANUP_FREE struct facet_event *list = NULL;
    struct facet_error error;
    void *items = NULL;
    uint32_t count = 0;
    bool hotplug = false;

    query.after = live->events_seen;
    if (facet_listing_read(&query, &items, &count, &error) != FACET_OK)
        return; /* there are no events, or the provider is lost, which the caller checks */
    list = items;
    for (uint32_t i = 0; i < count; i++) {
        const char *id = device_id_of(live, &list[i]);

        events_add(events, id, &list[i]);
        facet_log(FACET_LOG_INFO, "device %s (%s): event %s, value %" PRIu64 "%s%s", id[0] ? id : "new", list[i].uuid,
                  event_kind_name(list[i].kind), list[i].value, list[i].message[0] ? ": " : "", list[i].message);
        live->events_seen = list[i].sequence;
        hotplug |= list[i].kind == FACET_EVENT_HOTPLUG;
    }
    if (hotplug && live_provider_list(live, &error) != FACET_OK)
        facet_log(FACET_LOG_WARNING, "listing the devices of provider %s again: %s", live->record->name, error.message);
}

void live_provider_announce(struct live_provider *live, struct events *events, uint32_t health, const char *message)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    for (uint32_t i = 0; i < live->device_count; i++) {
        const struct facet_device_record *device = live->devices[i].record;
        struct facet_event event = {.size = sizeof event,
                                    .kind = FACET_EVENT_HEALTH,
                                    .timestamp_ns = facet_timespec_ns(&now),
                                    .value = health,
                                    .device = device->info.index};

        snprintf(event.uuid, sizeof event.uuid, "%s", device->info.uuid);
        snprintf(event.message, sizeof event.message, "%s", message);
        events_add(events, device->id, &event);
    }
}

/* --- readings -------------------------------------------------------------------------------------------------- */

static void read_health(const struct live_provider *live, uint32_t index, struct device_reading *reading)
{
    struct facet_error error = {0};
    uint32_t health = FACET_HEALTH_UNKNOWN;

    enum facet_status status = facet_session_provider(live->session)
                                   ->device->health(facet_session_instance(live->session), index, &health, &error);
    if (status == FACET_DEVICE_LOST)
        health = FACET_HEALTH_FAILED;
    reading->health = health <= FACET_HEALTH_FAILED ? health : FACET_HEALTH_UNKNOWN;
    if (status != FACET_OK && status != FACET_UNSUPPORTED)
        snprintf(reading->reason, sizeof reading->reason, "%s", error.message);
}

/*
 * Reads the metrics; a value whose reading fails is absent, and the health shows the failure. Skips the device's
 * metrics of a provider that measures only its own process's work: no vGPU runs in that process, and 0 would be wrong.
 */
static void read_metrics(const struct live_provider *live, const struct provided_device *provided,
                         struct device_reading *reading)
{
    const struct facet_provider *provider = facet_session_provider(live->session);
    uint64_t capabilities = provided->record->info.capabilities;
    struct facet_listing_query query = query_of(live, FACET_LISTING_PROCESSES, provided->index);
    void *items = NULL;

    reading->metrics.size = sizeof reading->metrics;
    if ((capabilities & FACET_CAN_DEVICE_METRICS) && !(provider->traits & FACET_PROVIDER_OWN_WORK))
        reading->has_metrics =
            provider->metrics->device(query.instance, provided->index, &reading->metrics, NULL) == FACET_OK;
    if ((capabilities & FACET_CAN_PROCESS_METRICS) &&
        facet_listing_read(&query, &items, &reading->process_count, NULL) == FACET_OK)
        reading->processes = items;
    query.kind = FACET_LISTING_LINK_METRICS;
    if ((capabilities & FACET_CAN_LINK_METRICS) &&
        facet_listing_read(&query, &items, &reading->link_count, NULL) == FACET_OK)
        reading->links = items;
}

static void keep_reading(struct live_provider *live, struct provided_device *provided,
                         const struct device_reading *reading)
{
    pthread_mutex_lock(&live->lock);
    struct device_reading before = provided->reading;
    bool changed = provided->has_reading && before.health != reading->health;
    provided->reading = *reading;
    provided->has_reading = true;
    pthread_mutex_unlock(&live->lock);
    device_reading_free(&before);
    if (changed)
        facet_log(FACET_LOG_WARNING, "device %s: health is now %s%s%s", provided->record->id,
                  facet_health_name(reading->health), reading->reason[0] ? ": " : "", reading->reason);
}

void live_provider_read(struct live_provider *live, struct events *events)
{
    bool alive = true;

    read_events(live, events);
    for (uint32_t i = 0; alive && i < live->device_count; i++) {
        struct provided_device *provided = &live->devices[i];
        struct device_reading reading = {0};

        if (!provided->present)
            continue;
        read_health(live, provided->index, &reading);
        read_metrics(live, provided, &reading);
        alive = facet_session_alive(live->session, NULL);
        if (alive)
            keep_reading(live, provided, &reading);
        else
            device_reading_free(&reading);
    }
}
