/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: event sets of the fake libnvidia-ml.so.1. A set returns each event exactly one time, if fake_raise_event() put
 * it into the shared state after the set was registered for its device and type. Never: returns an earlier event.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nvml_fake.h"

#define SUPPORTED                                                                                                      \
    (nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError | nvmlEventTypePState |                           \
     nvmlEventTypeXidCriticalError | nvmlEventTypeClock | nvmlEventMigConfigChange)

struct nvmlEventSet_st {
    uint32_t next;                /* number of the first unread event */
    uint64_t types[FAKE_DEVICES]; /* registered */
    uint32_t from[FAKE_DEVICES];  /* number of the first event after the registration */
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    nvmlReturn_t result = fake_initialised(set);

    if (result != NVML_SUCCESS)
        return result;
    struct nvmlEventSet_st *made = calloc(1, sizeof *made);
    if (!made)
        return NVML_ERROR_MEMORY;
    made->next = atomic_load(&fake_state()->management.event_count);
    *set = made;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    nvmlReturn_t result = fake_initialised(set);

    if (result == NVML_SUCCESS)
        free(set);
    return result;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long *types)
{
    FAKE_ENTER_GPU(handle, types, device);
    (void)device;
    *types = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types, nvmlEventSet_t set)
{
    FAKE_ENTER_GPU(handle, set, device);
    if (types & ~SUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    set->from[device] = atomic_load(&fake_state()->management.event_count);
    set->types[device] |= types;
    return NVML_SUCCESS;
}

/*
 * The next event for which the set is registered, if there is one. Events that the ring has dropped meanwhile are lost.
 */
static bool take_event(nvmlEventSet_t set, nvmlEventData_t *ret_event)
{
    struct fake_management *management = &fake_state()->management;
    bool found = false;

    fake_lock();
    uint32_t count = atomic_load(&management->event_count);
    if (count - set->next > FAKE_EVENTS)
        set->next = count - FAKE_EVENTS;
    while (!found && set->next != count) {
        uint32_t number = set->next++;
        const struct fake_event *event = &management->events[number % FAKE_EVENTS];

        found = set->types[event->device] & event->type && (int32_t)(number - set->from[event->device]) >= 0;
        if (found)
            *ret_event = (nvmlEventData_t){.device = fake_handle(event->device),
                                           .eventType = event->type,
                                           .eventData = event->data,
                                           .gpuInstanceId = NVML_NO_INSTANCE,
                                           .computeInstanceId = NVML_NO_INSTANCE};
    }
    fake_unlock();
    return found;
}

static void wait_for_count(uint32_t seen, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000), .tv_nsec = (long)(timeout_ns % 1000000000)};

    syscall(SYS_futex, &fake_state()->management.event_count, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms)
{
    nvmlReturn_t result = fake_initialised(set && event);
    uint64_t deadline = fake_now_ns() + timeout_ms * UINT64_C(1000000);

    while (result == NVML_SUCCESS) {
        uint32_t seen = atomic_load(&fake_state()->management.event_count);
        if (take_event(set, event))
            break;
        uint64_t now = fake_now_ns();
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        wait_for_count(seen, deadline - now);
    }
    return result;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms)
{
    return nvmlEventSetWait_v2(set, event, timeout_ms);
}
