/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: records in memory: their texts, their order, which of them are unique. Never: reads or writes a file. */
#include "spec/resources.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sized.h"

enum { TEXTS = 4, PLACES = 6 };

struct record {
    struct facet_resources_record view; /* the texts point into `bytes` */
    char *bytes;
};

struct facet_resources {
    struct record *records;
    uint32_t count, capacity;
    json_t *seen; /* identities of the records that must be unique */
};

const struct facet_resources_form *facet_resources_form(uint32_t kind)
{
    static const struct facet_resources_form forms[] = {
        [FACET_RESOURCES_OWNER] = {"owner", 1, false, FACET_RESOURCES_SINGLE},
        [FACET_RESOURCES_HANDLE] = {"handle", 1, false, FACET_RESOURCES_SINGLE},
        [FACET_RESOURCES_SCRATCH] = {"scratch", 0, true, FACET_RESOURCES_SINGLE},
        [FACET_RESOURCES_REQUEST] = {"request", 1, true, 1},
        [FACET_RESOURCES_ALLOCATION] = {"allocation", 1, false, 1},
        [FACET_RESOURCES_GRANT] = {"grant", 2, true, 2},
        [FACET_RESOURCES_UNIFIED] = {"unified", 2, false, 2},
        [FACET_RESOURCES_MOUNT] = {"mount", 4, true, 0},
        [FACET_RESOURCES_DATA] = {"data", 2, false, 1},
    };

    return kind < sizeof forms / sizeof forms[0] ? &forms[kind] : NULL;
}

enum facet_status facet_resources_create(struct facet_resources **ret_resources, struct facet_error *error)
{
    struct facet_resources *resources = ret_resources ? calloc(1, sizeof *resources) : NULL;

    if (!ret_resources)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_resources",
                                    "ret_resources: expected a pointer, not NULL");
    if (!resources || !(resources->seen = json_object())) {
        free(resources);
        return facet_json_no_memory(error);
    }
    *ret_resources = resources;
    return FACET_OK;
}

void facet_resources_destroy(struct facet_resources *resources)
{
    if (!resources)
        return;
    for (uint32_t i = 0; i < resources->count; i++)
        free(resources->records[i].bytes);
    free(resources->records);
    json_decref(resources->seen);
    free(resources);
}

uint32_t facet_resources_count(const struct facet_resources *resources)
{
    return resources ? resources->count : 0;
}

enum facet_status facet_resources_get(const struct facet_resources *resources, uint32_t index,
                                      struct facet_resources_record *ret_record, struct facet_error *error)
{
    if (index >= facet_resources_count(resources))
        return facet_error_argument(error, FACET_NOT_FOUND, "index", "record %" PRIu32 ": expected less than %" PRIu32,
                                    index, facet_resources_count(resources));
    const struct facet_resources_record *view = &resources->records[index].view;
    if (!facet_struct_give(ret_record, view, sizeof *view))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_record",
                                    "ret_record: expected a struct with its size");
    return FACET_OK;
}

/* --- adding ----------------------------------------------------------------------------------------------------- */

/*
 * The text by which a record is unique: its kind, and the first `texts` of its texts. Each has its length before it, as
 * texts may contain any separator. NULL: no memory.
 */
static char *identity_of(const struct facet_resources_record *record, uint32_t texts)
{
    struct facet_growing key = {0};

    facet_growing_format(&key, "%" PRIu32, record->kind);
    for (uint32_t i = 0; texts != FACET_RESOURCES_SINGLE && i < texts; i++)
        facet_growing_format(&key, " %zu:%s", strlen(record->text[i]), record->text[i]);
    if (key.failed) {
        free(key.text);
        return NULL;
    }
    return key.text;
}

static enum facet_status check_record(const struct facet_resources_record *record, struct facet_error *error)
{
    const struct facet_resources_form *form = facet_resources_form(record->kind);

    if (!form)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind %" PRIu32 ": expected a known kind",
                                    record->kind);
    for (uint32_t i = 0; i < form->texts; i++)
        if (!record->text[i])
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text", "%s: expected %" PRIu32 " texts",
                                        form->name, form->texts);
    if (record->number < 0 || record->places > PLACES ||
        (record->kind == FACET_RESOURCES_MOUNT && record->number > FACET_RESOURCES_DELETE))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "number", "%s: number %" PRId64 " is out of range",
                                    form->name, record->number);
    return FACET_OK;
}

static bool has_room(struct facet_resources *resources)
{
    if (resources->count < resources->capacity)
        return true;
    uint32_t capacity = resources->capacity ? resources->capacity * 2 : 8;
    struct record *records = realloc(resources->records, capacity * sizeof *records);
    if (!records)
        return false;
    resources->records = records;
    resources->capacity = capacity;
    return true;
}

/* A copy with its texts in one block. */
static bool copy_record(const struct facet_resources_record *from, uint32_t texts, struct record *ret_record)
{
    struct record record = {.view = *from};
    size_t size = 1;

    for (uint32_t i = 0; i < texts; i++)
        size += strlen(from->text[i]) + 1;
    record.bytes = malloc(size);
    if (!record.bytes)
        return false;
    char *at = record.bytes;
    for (uint32_t i = 0; i < TEXTS; i++) {
        record.view.text[i] = i < texts ? at : NULL;
        if (i < texts)
            at = stpcpy(at, from->text[i]) + 1;
    }
    *ret_record = record;
    return true;
}

static enum facet_status append_record(struct facet_resources *resources, const struct facet_resources_record *record,
                                       struct facet_error *error)
{
    const struct facet_resources_form *form = facet_resources_form(record->kind);
    FACET_CLEANUP_FREE char *key = form->identity ? identity_of(record, form->identity) : NULL;
    struct record copy;

    if (form->identity && !key)
        return facet_json_no_memory(error);
    if (key && json_object_get(resources->seen, key))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "record",
                                    "%s '%.80s' '%.80s' exists already, expected it once", form->name,
                                    form->texts > 0 ? record->text[0] : "", form->texts > 1 ? record->text[1] : "");
    if (!has_room(resources) || !copy_record(record, form->texts, &copy))
        return facet_json_no_memory(error);
    if (key && json_object_set_new_nocheck(resources->seen, key, json_true()) < 0) {
        free(copy.bytes);
        return facet_json_no_memory(error);
    }
    resources->records[resources->count++] = copy;
    return FACET_OK;
}

/* Removes the last record. */
static void drop_last(struct facet_resources *resources)
{
    struct record *last = &resources->records[--resources->count];
    FACET_CLEANUP_FREE char *key = identity_of(&last->view, facet_resources_form(last->view.kind)->identity);

    if (key)
        json_object_del(resources->seen, key);
    free(last->bytes);
}

enum facet_status facet_resources_add(struct facet_resources *resources, const struct facet_resources_record *record,
                                      struct facet_error *error)
{
    struct facet_resources_record ours;

    if (!resources || !facet_struct_take(&ours, sizeof ours, record))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "record", "record: expected a struct with its size");
    FACET_NEED_KNOWN("record", record, error);
    FACET_NEED_RESERVED("record", &ours, error);
    enum facet_status status = check_record(&ours, error);
    if (status != FACET_OK)
        return status;
    ours.size = sizeof ours;
    const struct facet_resources_form *form = facet_resources_form(ours.kind);
    if (!form->number)
        ours.number = ours.places = 0;
    if (ours.kind != FACET_RESOURCES_GRANT)
        return append_record(resources, &ours, error);
    /* The first grant of a slot also adds the slot's allocation. */
    const struct facet_resources_record slot = {
        .size = sizeof slot, .kind = FACET_RESOURCES_ALLOCATION, .text = {ours.text[0]}};
    status = append_record(resources, &slot, NULL);
    if (status != FACET_OK && status != FACET_ALREADY_EXISTS)
        return facet_json_no_memory(error);
    bool new = status == FACET_OK;
    status = append_record(resources, &ours, error);
    if (status != FACET_OK && new)
        drop_last(resources);
    return status;
}

/* --- texts that grow -------------------------------------------------------------------------------------------- */

void facet_growing_add(struct facet_growing *growing, const void *bytes, size_t length)
{
    size_t needed = growing->length + length + 1;

    if (growing->failed)
        return;
    if (needed > growing->capacity) {
        size_t capacity = needed * 2 + 64;
        char *text = realloc(growing->text, capacity);
        if (!text) {
            growing->failed = true;
            return;
        }
        growing->text = text;
        growing->capacity = capacity;
    }
    memcpy(growing->text + growing->length, bytes, length);
    growing->length += length;
    growing->text[growing->length] = '\0';
}

void facet_growing_format(struct facet_growing *growing, const char *format, ...)
{
    char small[256];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof small) {
        facet_growing_add(growing, small, (size_t)length);
        return;
    }
    FACET_CLEANUP_FREE char *large = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!large) {
        growing->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(large, (size_t)length + 1, format, arguments);
    va_end(arguments);
    facet_growing_add(growing, large, (size_t)length);
}
