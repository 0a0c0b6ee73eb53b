/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the order of a measurement. Never: fails when a device cannot be read; the device's meters then say why. */
#include "measured.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <facet/measurement.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"

#define POINTS 16u /* samples that statistics cover */

struct measured {
    pthread_mutex_t lock; /* held during a sample, since only one thread may use a subject */
    const struct facet_device_table *devices;
    struct sessions *sessions;
    int proc;                        /* the directory /proc */
    struct facet_subject **subjects; /* the node, then the devices of the table */
    size_t count;
};

static enum facet_status add_subject(struct measured *measured, uint32_t kind, const char *id,
                                     struct facet_error *error)
{
    const struct facet_subject_config config = {.size = sizeof config, .kind = kind, .points = POINTS, .id = id};
    enum facet_status status = facet_subject_create(&config, &measured->subjects[measured->count], error);

    measured->count += status == FACET_OK;
    return status;
}

static enum facet_status add_subjects(struct measured *measured, struct facet_error *error)
{
    uint32_t devices = facet_device_table_count(measured->devices);
    char name[256] = "node";

    measured->subjects = calloc(devices + 1, sizeof(struct facet_subject *));
    if (!measured->subjects)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for measurements");
    gethostname(name, sizeof name - 1);
    facet_text_make_line(name); /* the kernel accepts any bytes in it */
    enum facet_status status = add_subject(measured, FACET_SUBJECT_NODE, name[0] ? name : "node", error);
    for (uint32_t i = 0; status == FACET_OK && i < devices; i++)
        status = add_subject(measured, FACET_SUBJECT_DEVICE, facet_device_table_at(measured->devices, i)->id, error);
    return status;
}

enum facet_status measured_open(const struct facet_device_table *devices, struct sessions *sessions,
                                struct measured **ret_measured, struct facet_error *error)
{
    struct measured *measured = calloc(1, sizeof *measured);

    if (!measured)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for measurements");
    pthread_mutex_init(&measured->lock, NULL);
    measured->devices = devices;
    measured->sessions = sessions;
    measured->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum facet_status status =
        measured->proc < 0 ? facet_error_errno(error, errno, "'/proc'") : add_subjects(measured, error);
    if (status != FACET_OK) {
        measured_close(measured);
        return status;
    }
    *ret_measured = measured;
    return FACET_OK;
}

void measured_close(struct measured *measured)
{
    if (!measured)
        return;
    for (size_t i = 0; i < measured->count; i++)
        facet_subject_destroy(measured->subjects[i]);
    free(measured->subjects);
    if (measured->proc >= 0)
        close(measured->proc);
    pthread_mutex_destroy(&measured->lock);
    free(measured);
}

static enum facet_status sample_device(struct measured *measured, uint32_t index, struct facet_error *error)
{
    const struct facet_device_record *device = facet_device_table_at(measured->devices, index);
    struct facet_measurement measurements[FACET_GATHER_MOST];
    struct device_reading reading = {0};
    uint32_t count = FACET_GATHER_MOST;
    uint64_t memory = device->info.valid & FACET_DEVICE_HAS_MEMORY ? device->info.memory_bytes : 0;
    bool read = sessions_read(measured->sessions, device, &reading, NULL) == FACET_OK && reading.has_metrics;

    enum facet_status status =
        facet_gather_device(read ? &reading.metrics : NULL, memory, facet_clock_now_ns(), measurements, &count, error);
    if (status == FACET_OK)
        status = facet_subject_add(measured->subjects[index + 1], measurements, count, error);
    device_reading_free(&reading);
    return status;
}

static enum facet_status sample_subjects(struct measured *measured, struct facet_error *error)
{
    struct facet_measurement measurements[FACET_GATHER_MOST];
    uint32_t count = FACET_GATHER_MOST;
    enum facet_status status = facet_gather_node(measured->proc, facet_clock_now_ns(), measurements, &count, error);

    if (status == FACET_OK)
        status = facet_subject_add(measured->subjects[0], measurements, count, error);
    for (uint32_t i = 0; status == FACET_OK && i + 1 < measured->count; i++)
        status = sample_device(measured, i, error);
    return status;
}

enum facet_status measured_look(struct measured *measured, char **ret_text, struct facet_error *error)
{
    sessions_watch(measured->sessions);
    pthread_mutex_lock(&measured->lock);
    enum facet_status status = sample_subjects(measured, error);
    if (status == FACET_OK)
        status = facet_subjects_json(measured->subjects, measured->count, ret_text, error);
    pthread_mutex_unlock(&measured->lock);
    return status;
}
