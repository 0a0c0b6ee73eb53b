/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: events of work-groups that run for too long. Never: drops one of the last FACET_KIT_EVENTS events. */
#include "cpu.h"

void cpu_event_add(struct facet_provider_instance *instance, const char *message, uint64_t value)
{
    pthread_mutex_lock(&instance->lock);
    facet_kit_event_add(&instance->events, 0, instance->info.uuid, FACET_EVENT_VENDOR_ERROR, value, message);
    pthread_mutex_unlock(&instance->lock);
}

enum facet_status cpu_events(struct facet_provider_instance *instance, uint64_t after, void *items, uint32_t item_size,
                             uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    CPU_REQUIRE(instance, error);
    pthread_mutex_lock(&instance->lock);
    enum facet_status status =
        facet_kit_events_give(&instance->events, after, items, item_size, capacity, ret_count, error);
    pthread_mutex_unlock(&instance->lock);
    return status;
}
