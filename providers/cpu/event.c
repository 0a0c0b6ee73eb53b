/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: events: work-groups that run for too long. Never: forgets one that fewer than CPU_EVENTS_KEPT came after. */
#include <time.h>

#include "cpu.h"

void cpu_event_add(struct facet_provider_instance *instance, const char *message, uint64_t value)
{
    pthread_mutex_lock(&instance->lock);
    struct facet_event *event = &instance->events[++instance->last_event % CPU_EVENTS_KEPT];
    *event = (struct facet_event){.size = sizeof *event,
                                  .kind = FACET_EVENT_VENDOR_ERROR,
                                  .sequence = instance->last_event,
                                  .timestamp_ns = cpu_now_ns(CLOCK_REALTIME),
                                  .value = value};
    FACET_KIT_TEXT(event->uuid, instance->info.uuid);
    FACET_KIT_TEXT(event->message, message);
    pthread_mutex_unlock(&instance->lock);
}

enum facet_status cpu_events(struct facet_provider_instance *instance, uint64_t after, void *items, uint32_t item_size,
                             uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_event found[CPU_EVENTS_KEPT];
    uint32_t count = 0;

    CPU_REQUIRE(instance, error);
    pthread_mutex_lock(&instance->lock);
    uint64_t last = instance->last_event, first = last > CPU_EVENTS_KEPT ? last - CPU_EVENTS_KEPT + 1 : 1;
    if (after >= first)
        first = after < last ? after + 1 : last + 1;
    for (uint64_t number = first; number <= last; number++)
        found[count++] = instance->events[number % CPU_EVENTS_KEPT];
    pthread_mutex_unlock(&instance->lock);
    return facet_kit_list_items(found, sizeof *found, count, items, item_size, capacity, ret_count, error);
}
