/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one or two looks at each subject, and their text. Never: fails for a meter that cannot be had. */
#include "metrics_gather.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include <facet/measurement.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define POINTS 2u

struct watched {
    struct facet_subject *subject[METRICS_SUBJECTS];
    int directory[METRICS_SUBJECTS];
    uint32_t count;
};

static void drop(struct watched *watched)
{
    for (uint32_t i = 0; i < watched->count; i++) {
        facet_subject_destroy(watched->subject[i]);
        close(watched->directory[i]);
    }
}

static enum facet_status open_one(struct watched *watched, const struct metrics_subject *wanted,
                                  struct facet_error *error)
{
    const char *path = wanted->kind == FACET_SUBJECT_CONTAINER ? wanted->name : "/proc";
    FACET_CLEANUP_FD int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct facet_subject_config config = {
        .size = sizeof config, .kind = wanted->kind, .points = POINTS, .id = wanted->name};

    if (directory < 0)
        return facet_error_errno(error, errno, "'%.200s'", path);
    enum facet_status status = facet_subject_create(&config, &watched->subject[watched->count], error);

    if (status == FACET_OK)
        watched->directory[watched->count++] = FACET_TAKE_FD(directory);
    return status;
}

static bool all_gone(const struct facet_measurement *measurements, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (measurements[i].reason != FACET_UNMEASURED_GONE)
            return false;
    return true;
}

static enum facet_status look(const struct watched *watched, const struct metrics_request *request, uint32_t index,
                              bool first, struct facet_error *error)
{
    const struct metrics_subject *wanted = &request->subject[index];
    struct facet_measurement measurements[FACET_GATHER_MOST];
    uint32_t count = FACET_GATHER_MOST;
    uint64_t now_ns = facet_clock_now_ns();
    int directory = watched->directory[index];
    enum facet_status status;

    if (wanted->kind == FACET_SUBJECT_CONTAINER)
        status = facet_gather_container(directory, now_ns, measurements, &count, error);
    else if (wanted->kind == FACET_SUBJECT_PROCESS)
        status = facet_gather_process(directory, strtoll(wanted->name, NULL, 10), now_ns, measurements, &count, error);
    else
        status = facet_gather_node(directory, now_ns, measurements, &count, error);
    if (status != FACET_OK)
        return status;
    if (first && all_gone(measurements, count))
        return facet_error_argument(error, FACET_NOT_FOUND, facet_subject_kind_name(wanted->kind),
                                    wanted->kind == FACET_SUBJECT_PROCESS
                                        ? "process %.200s: not found"
                                        : "'%.200s': expected a control group of version 2",
                                    wanted->name);
    return facet_subject_add(watched->subject[index], measurements, count, error);
}

static enum facet_status look_at_all(const struct watched *watched, const struct metrics_request *request, bool first,
                                     struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < watched->count && status == FACET_OK; i++)
        status = look(watched, request, i, first, error);
    return status;
}

static void pause_for(uint64_t ns)
{
    struct timespec until = facet_ns_timespec(facet_clock_now_ns() + ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

enum facet_status metrics_gather(const struct metrics_request *request, bool json, char **ret_text,
                                 struct facet_error *error)
{
    __attribute__((cleanup(drop))) struct watched watched = {.count = 0};
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < request->count && status == FACET_OK; i++)
        status = open_one(&watched, &request->subject[i], error);
    if (status == FACET_OK)
        status = look_at_all(&watched, request, true, error);
    if (status == FACET_OK && request->interval_ns > 0) {
        pause_for(request->interval_ns);
        status = look_at_all(&watched, request, false, error);
    }
    if (status != FACET_OK)
        return status;
    return (json ? facet_subjects_json : facet_subjects_prometheus)(watched.subject, watched.count, ret_text, error);
}
