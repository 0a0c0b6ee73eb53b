/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one or two samples of each subject, and their text. Never: fails for a meter without a value. */
#include "metrics_gather.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <facet/measurement.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inventory.h"
#include "metrics_device.h"

#define POINTS 2u /* samples that a subject keeps: a rate needs two */

/* One subject: a directory to read, or a device to query. */
struct view {
    const struct metrics_subject *wanted;
    struct facet_subject *subject;
    struct metrics_device device;
    int directory;
};

struct watched {
    struct facet_device_table *devices; /* NULL until one is requested */
    struct view view[METRICS_SUBJECTS];
    uint32_t count;
};

static void close_watched(struct watched *watched)
{
    for (uint32_t i = 0; i < watched->count; i++) {
        facet_subject_destroy(watched->view[i].subject);
        metrics_device_close(&watched->view[i].device);
        if (watched->view[i].directory >= 0)
            close(watched->view[i].directory);
    }
    facet_device_table_close(watched->devices);
}

static enum facet_status create_subject(const struct metrics_subject *wanted, const char *id,
                                        struct facet_subject **ret_subject, struct facet_error *error)
{
    const struct facet_subject_config config = {
        .size = sizeof config, .kind = wanted->kind, .points = POINTS, .id = id};

    return facet_subject_create(&config, ret_subject, error);
}

static enum facet_status open_directory(struct watched *watched, const struct metrics_subject *wanted,
                                        struct facet_error *error)
{
    const char *path = wanted->kind == FACET_SUBJECT_CONTAINER ? wanted->name : "/proc";
    FACET_CLEANUP_FD int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct view view = {.wanted = wanted};

    if (directory < 0)
        return facet_error_errno(error, errno, "'%.200s'", path);
    enum facet_status status = create_subject(wanted, wanted->name, &view.subject, error);

    if (status != FACET_OK)
        return status;
    view.directory = FACET_TAKE_FD(directory);
    watched->view[watched->count++] = view;
    return FACET_OK;
}

static bool is_watched(const struct watched *watched, const struct facet_device_record *record)
{
    for (uint32_t i = 0; i < watched->count; i++)
        if (watched->view[i].device.record == record)
            return true;
    return false;
}

/* The subject's id is the one in the table, not the given name: a device with two names is one subject. */
static enum facet_status open_device(struct watched *watched, const struct metrics_subject *wanted,
                                     struct facet_error *error)
{
    struct view view = {.wanted = wanted, .directory = -1};
    const struct facet_device_record *record;
    enum facet_status status = watched->devices ? FACET_OK : inventory_open(&watched->devices, error);

    if (status == FACET_OK)
        status = facet_device_table_find(watched->devices, wanted->name, &record, error);
    if (status != FACET_OK || is_watched(watched, record))
        return status;
    status = metrics_device_open(record, &view.device, error);
    if (status == FACET_OK)
        status = create_subject(wanted, record->id, &view.subject, error);
    if (status == FACET_OK)
        watched->view[watched->count++] = view;
    else
        metrics_device_close(&view.device);
    return status;
}

static bool all_have_ended(const struct facet_measurement *measurements, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (measurements[i].reason != FACET_UNMEASURED_GONE)
            return false;
    return true;
}

static enum facet_status measure_view(const struct view *view, bool first, struct facet_measurement *measurements,
                                      uint32_t *count, struct facet_error *error)
{
    uint64_t now_ns = facet_clock_now_ns();

    switch (view->wanted->kind) {
    case FACET_SUBJECT_CONTAINER:
        return facet_gather_container(view->directory, now_ns, measurements, count, error);
    case FACET_SUBJECT_PROCESS:
        return facet_gather_process(view->directory, strtoll(view->wanted->name, NULL, 10), now_ns, measurements, count,
                                    error);
    case FACET_SUBJECT_DEVICE:
        return metrics_device_look(&view->device, first, measurements, count, error);
    default:
        return facet_gather_node(view->directory, now_ns, measurements, count, error);
    }
}

static enum facet_status sample_view(const struct view *view, bool first, struct facet_error *error)
{
    const struct metrics_subject *wanted = view->wanted;
    struct facet_measurement measurements[FACET_GATHER_MOST];
    uint32_t count = FACET_GATHER_MOST;
    enum facet_status status = measure_view(view, first, measurements, &count, error);

    if (status != FACET_OK)
        return status;
    if (first && all_have_ended(measurements, count))
        return facet_error_argument(error, FACET_NOT_FOUND, facet_subject_kind_name(wanted->kind),
                                    wanted->kind == FACET_SUBJECT_PROCESS
                                        ? "process %.200s: not found"
                                        : "'%.200s': expected a control group of version 2",
                                    wanted->name);
    return facet_subject_add(view->subject, measurements, count, error);
}

static enum facet_status sample_all(const struct watched *watched, bool first, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < watched->count && status == FACET_OK; i++)
        status = sample_view(&watched->view[i], first, error);
    return status;
}

static void pause_for(uint64_t ns)
{
    struct timespec until = facet_ns_timespec(facet_clock_now_ns() + ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static enum facet_status open_all(struct watched *watched, const struct metrics_request *request,
                                  struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < request->count && status == FACET_OK; i++)
        status = request->subject[i].kind == FACET_SUBJECT_DEVICE
                     ? open_device(watched, &request->subject[i], error)
                     : open_directory(watched, &request->subject[i], error);
    return status;
}

static enum facet_status write_text(const struct watched *watched, bool json, char **ret_text,
                                    struct facet_error *error)
{
    struct facet_subject *subjects[METRICS_SUBJECTS];

    for (uint32_t i = 0; i < watched->count; i++)
        subjects[i] = watched->view[i].subject;
    return (json ? facet_subjects_json : facet_subjects_prometheus)(subjects, watched->count, ret_text, error);
}

enum facet_status metrics_gather(const struct metrics_request *request, bool json, char **ret_text,
                                 struct facet_error *error)
{
    __attribute__((cleanup(close_watched))) struct watched watched = {.count = 0};
    enum facet_status status = open_all(&watched, request, error);

    if (status == FACET_OK)
        status = sample_all(&watched, true, error);
    if (status == FACET_OK && request->interval_ns > 0) {
        pause_for(request->interval_ns);
        status = sample_all(&watched, false, error);
    }
    return status == FACET_OK ? write_text(&watched, json, ret_text, error) : status;
}
