/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the last events of an instance, and returning them.
 * Never: waits, or drops an event after it was read.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "events.h"
#include "provider_kit.h"

void sim_event(struct facet_provider_instance *instance, uint32_t kind, uint32_t device, uint64_t value, uint32_t link,
               const char *uuid, const char *message)
{
    struct sim_events *events = instance->events;
    uint64_t sequence = ++events->last;
    struct facet_event *event = &events->ring[sequence % SIM_EVENTS_KEPT];

    memset(event, 0, sizeof *event);
    event->size = sizeof *event;
    event->kind = kind;
    event->sequence = sequence;
    event->timestamp_ns = facet_kit_now_ns();
    event->value = value;
    event->device = device;
    event->link = link;
    FACET_KIT_TEXT(event->uuid, uuid);
    FACET_KIT_TEXT(event->message, message);
    sim_clock_changed(instance);
}

enum facet_status sim_events(struct facet_provider_instance *instance, uint64_t after, void *items, uint32_t item_size,
                             uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_event *newer;
    const struct sim_events *events;
    uint64_t first;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    sim_faults_apply(instance);
    sim_engine_advance(instance, sim_clock_now(instance));
    events = instance->events;
    first = events->last >= SIM_EVENTS_KEPT ? events->last - SIM_EVENTS_KEPT + 1 : 1;
    if (after >= first)
        first = after < events->last ? after + 1 : events->last + 1;
    newer = calloc(events->last + 1 - first + 1, sizeof *newer);
    if (!newer)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a list of events");
    for (uint64_t sequence = first; sequence <= events->last; sequence++)
        newer[sequence - first] = events->ring[sequence % SIM_EVENTS_KEPT];
    status = facet_kit_list_items(newer, sizeof *newer, (uint32_t)(events->last + 1 - first), items, item_size,
                                  capacity, ret_count, error);
    free(newer);
    return status;
}
