/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the state file's text: a line "facet-sim-state VERSION CHECKSUM LENGTH", then JSON of LENGTH bytes.
 * Never: trusts a file whose checksum, version or contents do not fit the machine.
 */
#include <stdlib.h>
#include <string.h>

#include "provider_kit.h"
#include "state.h"

#define STATE_VERSION 1
#define WORKERS_MAX   (SIM_MAX_DEVICES * 4096)

/* 64-bit FNV-1a: detects files that are half written or were edited, but not files that an attacker made. */
static uint64_t checksum(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static const struct sim_template *template_of(const struct sim_machine *machine, const struct sim_partition *partition)
{
    return &machine->devices[partition->device].product->partitioning.templates[partition->template];
}

static json_t *partition_json(const struct sim_partition *partition, const struct sim_machine *machine)
{
    return json_pack("{s:i, s:s, s:i, s:s}", "device", (int)machine->devices[partition->device].number, "template",
                     template_of(machine, partition)->info.id, "start", (int)partition->start, "uuid", partition->uuid);
}

static json_t *worker_json(const struct sim_worker *worker, const struct sim_machine *machine)
{
    return json_pack("{s:i, s:s, s:i, s:I, s:i, s:i, s:i}", "device", (int)machine->devices[worker->device].number,
                     "name", worker->name, "valid", (int)worker->valid, "memory_bytes",
                     (json_int_t)worker->memory_bytes, "first_unit", (int)worker->first_unit, "compute_units",
                     (int)worker->compute_units, "compute_milli", (int)worker->compute_milli);
}

/* The record as a JSON document. NULL: no memory. */
static json_t *make_document(const struct sim_record *record, const struct sim_machine *machine)
{
    json_t *document = json_pack("{s:s, s:I, s:[], s:[]}", "machine", machine->name, "serial",
                                 (json_int_t)record->serial, "partitions", "workers");
    json_t *partitions = json_object_get(document, "partitions"), *workers = json_object_get(document, "workers");
    int failures = 0;

    for (uint32_t i = 0; i < record->partition_count; i++)
        failures |= json_array_append_new(partitions, partition_json(&record->partitions[i], machine));
    for (uint32_t i = 0; i < record->worker_count; i++)
        failures |= json_array_append_new(workers, worker_json(&record->workers[i], machine));
    if (!failures)
        return document;
    json_decref(document);
    return NULL;
}

enum facet_status sim_record_write(const struct sim_record *record, const struct sim_machine *machine, char **ret_text,
                                   size_t *ret_length, struct facet_error *error)
{
    json_t *document = make_document(record, machine);
    char *body = document ? json_dumps(document, JSON_INDENT(1) | JSON_ENSURE_ASCII) : NULL, *text = NULL;
    int length = -1;

    if (body)
        length = asprintf(&text, "facet-sim-state %d %016" PRIx64 " %zu\n%s", STATE_VERSION,
                          checksum(body, strlen(body)), strlen(body), body);
    free(body);
    json_decref(document);
    if (length < 0)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the state's text");
    *ret_text = text;
    *ret_length = (size_t)length;
    return FACET_OK;
}

static uint32_t read_u32(const struct sim_json *at, const char *name, uint32_t high)
{
    struct sim_json member = sim_json_member(at, name);

    return (uint32_t)sim_json_integer(&member, 0, high);
}

static void keep_failure(const struct sim_json *at, enum facet_status status)
{
    if (status != FACET_OK && at->document->status == FACET_OK)
        at->document->status = status; /* no memory; the error is set */
}

static bool has_start(const struct sim_template *template, uint32_t start)
{
    for (uint32_t i = 0; i < template->start_count; i++)
        if (template->starts[i] == start)
            return true;
    return false;
}

/* Reads a device's number in the profile, and returns its index here. */
static uint32_t read_device(const struct sim_json *at, const struct sim_machine *machine)
{
    return sim_machine_index(machine, read_u32(at, "device", machine->device_total - 1));
}

static void read_partition(const struct sim_json *at, const struct sim_machine *machine, struct sim_record *record)
{
    struct sim_partition partition = {.device = read_device(at, machine)};
    struct sim_json id = sim_json_member(at, "template"), uuid = sim_json_member(at, "uuid");

    partition.start = read_u32(at, "start", SIM_MAX_SLICES);
    FACET_KIT_TEXT(partition.uuid, sim_json_text(&uuid, sizeof partition.uuid));
    if (at->document->status != FACET_OK)
        return;
    if (sim_machine_template(machine, partition.device, sim_json_text(&id, 32), &partition.template, NULL) != FACET_OK)
        sim_json_refuse(&id, "a template of the device");
    else if (!has_start(template_of(machine, &partition), partition.start))
        sim_json_refuse(at, "a placement of its template");
    else
        keep_failure(at, sim_record_add_partition(record, &partition, at->document->error));
}

static void read_worker(const struct sim_json *at, const struct sim_machine *machine, struct sim_record *record)
{
    struct sim_worker worker = {.device = read_device(at, machine)};
    struct sim_json name = sim_json_member(at, "name"), memory = sim_json_member(at, "memory_bytes");
    const struct facet_device_info *info = &machine->devices[worker.device].info;

    worker.valid = read_u32(at, "valid", FACET_WORKER_HAS_MEMORY | FACET_WORKER_HAS_COMPUTE);
    worker.first_unit = read_u32(at, "first_unit", info->compute_units);
    worker.compute_units = read_u32(at, "compute_units", info->compute_units - worker.first_unit);
    worker.compute_milli = read_u32(at, "compute_milli", FACET_MILLI_WHOLE);
    worker.memory_bytes = (uint64_t)sim_json_integer(&memory, 0, (int64_t)info->memory_bytes);
    FACET_KIT_TEXT(worker.name, sim_json_text(&name, sizeof worker.name));
    if (at->document->status == FACET_OK)
        keep_failure(at, sim_record_add_worker(record, &worker, at->document->error));
}

static void read_body(const struct sim_json *root, const struct sim_machine *machine, struct sim_record *record)
{
    static const char *const members[] = {"machine", "serial", "partitions", "workers", NULL};
    struct sim_json name = sim_json_member(root, "machine"), serial = sim_json_member(root, "serial");
    struct sim_json partitions = sim_json_member(root, "partitions"), workers = sim_json_member(root, "workers");
    size_t partition_count = sim_json_count(&partitions, 0, (size_t)machine->device_total * SIM_MAX_SLICES);
    size_t worker_count = sim_json_count(&workers, 0, machine->device_total ? WORKERS_MAX : 0);

    sim_json_only(root, members);
    if (strcmp(sim_json_text(&name, sizeof machine->name), machine->name) != 0)
        sim_json_refuse(&name, "%s", machine->name);
    record->serial = (uint64_t)sim_json_integer(&serial, 0, INT64_MAX);
    for (size_t i = 0; i < partition_count && root->document->status == FACET_OK; i++) {
        struct sim_json item = sim_json_item(&partitions, i);

        read_partition(&item, machine, record);
    }
    for (size_t i = 0; i < worker_count && root->document->status == FACET_OK; i++) {
        struct sim_json item = sim_json_item(&workers, i);

        read_worker(&item, machine, record);
    }
}

static enum facet_status refuse_file(const char *file, const char *what, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_CORRUPT, "%s: %s; remove the file to begin anew", file, what);
}

/* Finds the beginning of the body, and checks its length and checksum. */
static enum facet_status check_head(const char *file, const char *text, size_t length, size_t *ret_body,
                                    struct facet_error *error)
{
    const char *end = memchr(text, '\n', length < 100 ? length : 100);
    char head[101] = "";
    uint64_t sum;
    size_t body_length;
    unsigned version;
    int used = 0;

    if (end)
        memcpy(head, text, (size_t)(end - text));
    if (sscanf(head, "facet-sim-state %u %16" SCNx64 " %zu%n", &version, &sum, &body_length, &used) != 3 || head[used])
        return refuse_file(file, "expected a first line \"facet-sim-state VERSION CHECKSUM LENGTH\"", error);
    if (version != STATE_VERSION)
        return facet_kit_fail(error, FACET_ABI_MISMATCH,
                              "%s: is of version %u; expected %d; remove the file to begin anew", file, version,
                              STATE_VERSION);
    *ret_body = (size_t)(end - text) + 1;
    if (length - *ret_body != body_length)
        return refuse_file(file, "is longer or shorter than its first line says", error);
    if (checksum(text + *ret_body, body_length) != sum)
        return refuse_file(file, "does not have the checksum that its first line says", error);
    return FACET_OK;
}

enum facet_status sim_record_read(const char *file, const char *text, size_t length, const struct sim_machine *machine,
                                  struct sim_record *ret_record, struct facet_error *error)
{
    struct sim_document document = {.file = file, .error = error};
    struct sim_json root = {.document = &document};
    struct sim_record record = {0};
    size_t body = 0;
    enum facet_status status = check_head(file, text, length, &body, error);

    if (status != FACET_OK)
        return status;
    status = sim_json_parse(file, text + body, length - body, &root.value, error);
    if (status == FACET_OK) {
        read_body(&root, machine, &record);
        json_decref(root.value);
        status = document.status;
    }
    if (status == FACET_OK)
        *ret_record = record;
    else
        sim_record_clear(&record);
    if (status == FACET_INVALID_ARGUMENT) { /* the checksum is right, but the content does not fit this machine */
        status = FACET_CORRUPT;
        if (error)
            error->status = status;
    }
    return status;
}
