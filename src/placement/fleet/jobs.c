/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading lists of jobs. Never: cuts lines into fields: csv.c does. */
#include <stdlib.h>

#include "placement/fleet/csv.h"
#include "placement/fleet/fleet.h"

#define MIB_MAX     (UINT64_C(1) << 43)
#define SECONDS_MAX (UINT64_C(1) << 40)
#define JOBS_MAX    (UINT64_C(1) << 28)

enum column {
    COLUMN_NAME,
    COLUMN_CPU,
    COLUMN_MEMORY,
    COLUMN_NUM,
    COLUMN_MILLI,
    COLUMN_SPEC,
    COLUMN_CREATION,
    COLUMN_DELETION,
    COLUMNS
};
static const char *const columns[COLUMNS] = {"name",      "cpu_milli", "memory_mib",    "num_gpu",
                                             "gpu_milli", "gpu_spec",  "creation_time", "deletion_time"};

struct facet_job_list {
    struct facet_fleet_job *items;
    size_t count, room;
    struct csv_texts texts;
};

static const char *job_field(const struct csv *csv, const uint32_t *positions, enum column column)
{
    return positions[column] < csv->count ? csv->field[positions[column]] : "";
}

static enum facet_status job_number(const struct csv *csv, const uint32_t *positions, enum column column, uint64_t max,
                                    uint64_t *ret_number, struct facet_error *error)
{
    return csv_number(csv, columns[column], job_field(csv, positions, column), max, ret_number, error);
}

static enum facet_status read_gpus(const struct csv *csv, const uint32_t *positions,
                                   struct facet_fleet_request *request, struct facet_error *error)
{
    uint64_t num = 0, milli = 0;
    enum facet_status status = job_number(csv, positions, COLUMN_NUM, FACET_FLEET_GPUS, &num, error);

    if (status != FACET_OK || num == 0)
        return status;
    status = job_number(csv, positions, COLUMN_MILLI, FLEET_WHOLE, &milli, error);
    if (status == FACET_OK && milli == 0)
        status = csv_refuse(csv, "gpu_milli", job_field(csv, positions, COLUMN_MILLI), "1 to 1000, as num_gpu is not 0",
                            error);
    request->num_gpu = (uint32_t)num;
    request->gpu_milli = (uint32_t)milli;
    return status;
}

static enum facet_status read_times(const struct csv *csv, const uint32_t *positions, struct facet_fleet_job *job,
                                    struct facet_error *error)
{
    const char *creation = job_field(csv, positions, COLUMN_CREATION),
               *deletion = job_field(csv, positions, COLUMN_DELETION);
    enum facet_status status = FACET_OK;

    if (creation[0])
        status = job_number(csv, positions, COLUMN_CREATION, SECONDS_MAX, &job->creation_s, error);
    if (status == FACET_OK && deletion[0])
        status = job_number(csv, positions, COLUMN_DELETION, SECONDS_MAX, &job->deletion_s, error);
    job->timed = creation[0] && deletion[0];
    if (status == FACET_OK && job->timed && job->deletion_s < job->creation_s)
        status = csv_refuse(csv, "deletion_time", deletion, "creation_time or later", error);
    return status;
}

static enum facet_status read_texts(struct facet_job_list *list, const struct csv *csv, const uint32_t *positions,
                                    struct facet_fleet_job *job, struct facet_error *error)
{
    job->name = csv_text_keep(&list->texts, job_field(csv, positions, COLUMN_NAME));
    job->request.gpu_spec = csv_text_keep(&list->texts, job_field(csv, positions, COLUMN_SPEC));
    if (!job->name || !job->request.gpu_spec)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv->file);
    return FACET_OK;
}

static enum facet_status reserve_jobs(struct facet_job_list *list, const struct csv *csv, struct facet_error *error)
{
    size_t room = list->room ? 2 * list->room : 64;

    if (list->count < list->room)
        return FACET_OK;
    struct facet_fleet_job *items = list->count < JOBS_MAX ? realloc(list->items, room * sizeof *items) : NULL;

    if (!items)
        return facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv->file);
    list->items = items;
    list->room = room;
    return FACET_OK;
}

static enum facet_status read_job(void *data, const struct csv *csv, const uint32_t *positions,
                                  struct facet_error *error)
{
    struct facet_job_list *list = data;
    uint64_t memory = 0;
    enum facet_status status = reserve_jobs(list, csv, error);

    if (status != FACET_OK)
        return status;
    struct facet_fleet_job *job = &list->items[list->count];
    *job = (struct facet_fleet_job){.size = sizeof *job, .request.size = sizeof job->request};
    status = job_number(csv, positions, COLUMN_CPU, FACET_FLEET_CPU, &job->request.cpu_milli, error);
    if (status == FACET_OK && positions[COLUMN_MEMORY] != CSV_FIELDS)
        status = job_number(csv, positions, COLUMN_MEMORY, MIB_MAX, &memory, error);
    job->request.memory_bytes = memory << 20;
    if (status == FACET_OK)
        status = read_gpus(csv, positions, &job->request, error);
    if (status == FACET_OK)
        status = read_times(csv, positions, job, error);
    if (status == FACET_OK)
        status = read_texts(list, csv, positions, job, error);
    list->count += status == FACET_OK;
    return status;
}

static enum facet_status read_headings(struct csv *csv, uint32_t *positions, struct facet_error *error)
{
    static const enum column needed[] = {COLUMN_CPU, COLUMN_NUM, COLUMN_MILLI};
    enum facet_status status = csv_headings(csv, columns, COLUMNS, positions, error);

    for (size_t i = 0; status == FACET_OK && i < sizeof needed / sizeof needed[0]; i++)
        if (positions[needed[i]] == CSV_FIELDS)
            status = csv_refuse(csv, columns[needed[i]], "", "this heading", error);
    return status;
}

static enum facet_status read_jobs(struct facet_job_list *list, struct csv *csv, struct facet_error *error)
{
    uint32_t positions[COLUMNS] = {0};
    enum facet_status status = read_headings(csv, positions, error);

    return status == FACET_OK ? csv_rows(csv, positions, "jobs", read_job, list, error) : status;
}

enum facet_status facet_job_list_parse(const char *text, size_t length, const char *file,
                                       struct facet_job_list **ret_list, struct facet_error *error)
{
    struct csv csv;
    enum facet_status status = csv_open(&csv, text, length, file, error);

    if (status != FACET_OK)
        return status;
    struct facet_job_list *list = calloc(1, sizeof *list);

    status =
        list ? read_jobs(list, &csv, error) : facet_error_set(error, FACET_NO_MEMORY, "out of memory for %s", csv.file);
    csv_close(&csv);
    if (status == FACET_OK)
        *ret_list = list;
    else
        facet_job_list_free(list);
    return status;
}

const struct facet_fleet_job *facet_job_list_items(const struct facet_job_list *list, size_t *ret_count)
{
    *ret_count = list->count;
    return list->items;
}

void facet_job_list_free(struct facet_job_list *list)
{
    if (!list)
        return;
    csv_texts_free(&list->texts);
    free(list->items);
    free(list);
}
