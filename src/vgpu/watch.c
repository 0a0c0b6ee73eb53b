/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of watches, and calling their functions. Never: compares a value: monitor/threshold.h does. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/sized.h"
#include "monitor/threshold.h"
#include "vgpu/driver.h"
#include "vgpu/watch.h"

struct facet_vgpu_watch {
    struct facet_vgpu_watch *next;
    uint64_t number;
    uint64_t serial; /* of the vGPU; 0: a device */
    uint32_t device;
    facet_watch_func callback;
    void *owner;
    struct facet_threshold threshold;
};

static void call_watch(void *owner, const struct facet_threshold_event *event)
{
    const struct facet_vgpu_watch *watch = owner;
    const struct facet_watch_event watch_event = {
        .size = sizeof watch_event,
        .raised = event->edge == FACET_THRESHOLD_RAISED,
        .watch = watch->number,
        .value = event->value,
        .time_ns = event->time_ns,
        .since_ns = event->since_ns,
    };

    watch->callback(watch->owner, &watch_event);
}

void facet_vgpu_watches_feed(struct facet_driver *driver, const struct facet_vgpu_subject *subject,
                             const struct facet_sample *sample)
{
    pthread_mutex_lock(&driver->watches_lock);
    for (struct facet_vgpu_watch *watch = driver->watches; watch; watch = watch->next) {
        if (watch->serial != subject->serial || (!watch->serial && watch->device != subject->device))
            continue;
        watch->threshold.rule.memory_bytes = subject->memory_bytes; /* limits change */
        facet_threshold_feed(&watch->threshold, sample);
    }
    pthread_mutex_unlock(&driver->watches_lock);
}

/* Finds the subject of a watch. *ret_vgpu is a reference, which the caller drops; NULL: the subject is a device. */
static enum facet_status find_subject(struct facet_driver *driver, const struct facet_watch *asked,
                                      struct facet_vgpu_subject *ret_subject, struct facet_vgpu **ret_vgpu,
                                      struct facet_error *error)
{
    *ret_vgpu = NULL;
    if (!asked->vgpu && asked->device >= driver->devices)
        return facet_error_argument(error, FACET_NOT_FOUND, "device",
                                    "device %" PRIu32 ": the driver has %" PRIu32 " devices", asked->device,
                                    driver->devices);
    if (!asked->vgpu) {
        *ret_subject = (struct facet_vgpu_subject){.device = asked->device,
                                                   .memory_bytes = driver->device[asked->device].memory_bytes};
        return FACET_OK;
    }
    enum facet_status status = facet_vgpu_take(driver, asked->vgpu, ret_vgpu, error);
    if (status == FACET_OK)
        *ret_subject = (struct facet_vgpu_subject){.serial = (*ret_vgpu)->serial, .memory_bytes = UINT64_MAX};
    return status;
}

static enum facet_status fill_watch(const struct facet_watch *asked, const struct facet_vgpu_subject *subject,
                                    struct facet_vgpu_watch *watch, struct facet_error *error)
{
    const struct facet_threshold_rule rule = {
        .measure = (enum facet_measure)asked->measure,
        .below = asked->below,
        .level = asked->level,
        .clear_level = asked->clear_level,
        .for_ns = asked->for_ns,
        .memory_bytes = subject->memory_bytes,
    };

    if (!asked->told)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "told", "told: expected a function, not NULL");
    watch->serial = subject->serial;
    watch->device = subject->device;
    watch->callback = asked->told;
    watch->owner = asked->owner;
    return facet_threshold_init(&watch->threshold, &rule, call_watch, watch, error);
}

static void insert_watch(struct facet_driver *driver, struct facet_vgpu_watch *watch, uint64_t *ret_watch)
{
    pthread_mutex_lock(&driver->watches_lock);
    watch->number = ++driver->last_watch;
    watch->next = driver->watches;
    driver->watches = watch;
    if (ret_watch)
        *ret_watch = watch->number;
    pthread_mutex_unlock(&driver->watches_lock);
}

enum facet_status facet_driver_watch(struct facet_driver *driver, const struct facet_watch *asked, uint64_t *ret_watch,
                                     struct facet_error *error)
{
    struct facet_vgpu_subject subject = {0};
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_VGPU_NEED_NO_WATCH(driver, error);
    FACET_NEED(asked, error);
    if (asked->size < sizeof *asked || asked->below > 1)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "watch",
                                    "watch: size %" PRIu32 ", below %" PRIu32
                                    ": expected that of struct facet_watch, %zu, and 0 or 1",
                                    asked->size, asked->below, sizeof *asked);
    FACET_NEED_KNOWN("watch", asked, error);
    FACET_NEED_RESERVED("watch", asked, error);
    struct facet_vgpu_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a watch");
    enum facet_status status = find_subject(driver, asked, &subject, &vgpu, error);
    if (status == FACET_OK)
        status = fill_watch(asked, &subject, watch, error);
    if (status == FACET_OK)
        insert_watch(driver, watch,
                     ret_watch); /* while this call holds a reference: so the vGPU's end finds the watch */
    else
        free(watch);
    return status;
}

enum facet_status facet_driver_unwatch(struct facet_driver *driver, uint64_t number, struct facet_error *error)
{
    struct facet_vgpu_watch **link, *watch;

    FACET_VGPU_NEED_DRIVER(driver, error);
    FACET_VGPU_NEED_NO_WATCH(driver, error);
    pthread_mutex_lock(&driver->watches_lock);
    for (link = &driver->watches; (watch = *link) && watch->number != number; link = &watch->next)
        ;
    if (watch)
        *link = watch->next;
    pthread_mutex_unlock(&driver->watches_lock);
    free(watch);
    if (watch)
        return FACET_OK;
    return facet_error_argument(error, FACET_NOT_FOUND, "watch", "watch %" PRIu64 ": expected a watch of this driver",
                                number);
}

void facet_vgpu_watches_end(struct facet_driver *driver, uint64_t serial)
{
    struct facet_vgpu_watch **link, *watch;

    pthread_mutex_lock(&driver->watches_lock);
    for (link = &driver->watches; (watch = *link);) {
        if (serial && watch->serial != serial) {
            link = &watch->next;
            continue;
        }
        *link = watch->next;
        free(watch);
    }
    pthread_mutex_unlock(&driver->watches_lock);
}
