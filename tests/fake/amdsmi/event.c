/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the events that this process has registered for, and how far it has read them. A test raises an event with
 * fake_raise_event(); its type is AMDSMI_EVT_NOTIF_*.
 * Never: waits. A call with a timeout returns the present events at once.
 */
#include <pthread.h>

#include "fake.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool is_listening;
    uint64_t mask;
} listeners[FAKE_DEVICES];
static uint32_t next_event; /* the first unread event */

amdsmi_status_t amdsmi_init_gpu_event_notification(amdsmi_processor_handle handle)
{
    FAKE_ENTER(handle, true, processor);
    bool first = true;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        first &= !listeners[i].is_listening;
    if (first)
        next_event = atomic_load(&fake_state()->management.event_count);
    listeners[processor.device].is_listening = true;
    pthread_mutex_unlock(&lock);
    return AMDSMI_STATUS_SUCCESS;
}

amdsmi_status_t amdsmi_set_gpu_event_notification_mask(amdsmi_processor_handle handle, uint64_t mask)
{
    FAKE_ENTER(handle, true, processor);
    pthread_mutex_lock(&lock);
    bool is_listening = listeners[processor.device].is_listening;
    if (is_listening)
        listeners[processor.device].mask = mask;
    pthread_mutex_unlock(&lock);
    return is_listening ? AMDSMI_STATUS_SUCCESS : AMDSMI_STATUS_INVAL;
}

amdsmi_status_t amdsmi_stop_gpu_event_notification(amdsmi_processor_handle handle)
{
    FAKE_ENTER(handle, true, processor);
    pthread_mutex_lock(&lock);
    listeners[processor.device].is_listening = false;
    listeners[processor.device].mask = 0;
    pthread_mutex_unlock(&lock);
    return AMDSMI_STATUS_SUCCESS;
}

static bool is_wanted(const struct fake_event *event)
{
    return event->device < FAKE_DEVICES && event->type >= 1 && event->type <= 64 &&
           listeners[event->device].mask & AMDSMI_EVENT_MASK_FROM_INDEX(event->type);
}

amdsmi_status_t amdsmi_get_gpu_event_notification(int timeout_ms, uint32_t *count,
                                                  amdsmi_evt_notification_data_t *events)
{
    struct fake_management *management = &fake_state()->management;
    uint32_t room = count ? *count : 0, event_total = 0;

    (void)timeout_ms;
    if (!count || !events)
        return AMDSMI_STATUS_INVAL;
    fake_lock();
    pthread_mutex_lock(&lock);
    uint32_t end = atomic_load(&management->event_count);
    if (end - next_event > FAKE_EVENTS)
        next_event = end - FAKE_EVENTS;
    for (; next_event != end && event_total < room; next_event++) {
        const struct fake_event *event = &management->events[next_event % FAKE_EVENTS];

        if (!is_wanted(event))
            continue;
        events[event_total] = (amdsmi_evt_notification_data_t){
            .processor_handle = fake_processor_handle(event->device, 0), .event = (uint32_t)event->type};
        event_total++;
    }
    pthread_mutex_unlock(&lock);
    fake_unlock();
    *count = event_total;
    return event_total ? AMDSMI_STATUS_SUCCESS : AMDSMI_STATUS_NO_DATA;
}
