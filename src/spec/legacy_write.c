/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: writing resource.txt. Never: writes a value that would be read back as another. */
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "spec/legacy.h"

struct writing {
    const struct facet_resources *resources;
    struct facet_growing text;
    facet_slot_type_func type;
    void *context;
    struct facet_error *error;
};

static enum facet_status refuse_inexpressible(const struct writing *writing, const char *what, const char *text)
{
    return facet_error_argument(writing->error, FACET_UNSUPPORTED, "resources",
                                "resource.txt cannot express %s '%.80s'", what, text);
}

/* Whether a text has one of the characters or an end of line: for readers in text mode a carriage return ends a
 * line. */
static bool has_any(const char *text, const char *characters)
{
    return text[strcspn(text, characters)] != '\0' || text[strcspn(text, "\r\n")] != '\0';
}

/* Whether a text begins or ends with white space of Unicode, which a reader would strip. */
static bool has_blank_ends(const char *text)
{
    static const char *const blanks[] = {" ",
                                         "\t",
                                         "\v",
                                         "\f",
                                         "\x1c",
                                         "\x1d",
                                         "\x1e",
                                         "\x1f",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe1\x9a\x80",
                                         "\xe2\x80\x80",
                                         "\xe2\x80\x81",
                                         "\xe2\x80\x82",
                                         "\xe2\x80\x83",
                                         "\xe2\x80\x84",
                                         "\xe2\x80\x85",
                                         "\xe2\x80\x86",
                                         "\xe2\x80\x87",
                                         "\xe2\x80\x88",
                                         "\xe2\x80\x89",
                                         "\xe2\x80\x8a",
                                         "\xe2\x80\xa8",
                                         "\xe2\x80\xa9",
                                         "\xe2\x80\xaf",
                                         "\xe2\x81\x9f",
                                         "\xe3\x80\x80"};
    size_t length = strlen(text);

    for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++) {
        size_t blank = strlen(blanks[i]);
        if (length >= blank && (strncmp(text, blanks[i], blank) == 0 || strcmp(text + length - blank, blanks[i]) == 0))
            return true;
    }
    return false;
}

static bool has_capitals(const char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z')
            return true;
    return false;
}

/* The next record of a kind from *at on. */
static bool next_record(const struct writing *writing, uint32_t kind, uint32_t *at,
                        struct facet_resources_record *ret_record)
{
    ret_record->size = sizeof *ret_record;
    while (facet_resources_get(writing->resources, (*at)++, ret_record, NULL) == FACET_OK)
        if (ret_record->kind == kind)
            return true;
    return false;
}

static void add_text(struct writing *writing, const char *text)
{
    facet_growing_add(&writing->text, text, strlen(text));
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

static void put_scratch(struct writing *writing)
{
    struct facet_resources_record record = {0};
    const int64_t mebi = INT64_C(1) << 20;
    char text[FACET_AMOUNT_SIZE];
    uint32_t at = 0;

    /* 0 without such a record: `record` then has the number of a record of another kind. */
    int64_t bytes = next_record(writing, FACET_RESOURCES_SCRATCH, &at, &record) ? record.number : 0;
    int64_t rest = bytes % mebi;
    /* In MiB when two decimals are exact, else in bytes. */
    if (rest * 100 % mebi != 0) {
        facet_growing_format(&writing->text, "SCRATCH_SIZE=%" PRId64 "\n", bytes);
        return;
    }
    facet_amount_format(bytes / mebi * FACET_AMOUNT_ONE + rest * 100 / mebi * (FACET_AMOUNT_ONE / 100), text,
                        FACET_AMOUNT_SIZE);
    facet_growing_format(&writing->text, "SCRATCH_SIZE=%sm\n", text);
}

static enum facet_status put_mounts(struct writing *writing)
{
    static const char *const permissions[] = {"ro", "rw", "wd"};
    struct facet_resources_record record;
    uint32_t at = 0;
    bool first = true;

    add_text(writing, "MOUNTS=");
    for (; next_record(writing, FACET_RESOURCES_MOUNT, &at, &record); first = false) {
        const char *source = record.text[1], *target = record.text[2];
        bool tmpfs = strcmp(record.text[0], "tmpfs") == 0, bind = strcmp(record.text[0], "bind") == 0;
        if (record.text[3][0])
            return refuse_inexpressible(writing, "options of a mount", record.text[3]);
        if (has_any(source, ",:") || has_any(target, ",:") || !target[0] || has_blank_ends(target))
            return refuse_inexpressible(writing, "the mount at", target);
        if (tmpfs ? source[0] != '\0' : bind ? source[0] != '/' : source[0] == '/' || !source[0])
            return refuse_inexpressible(writing, "the source of a mount", source);
        if ((!tmpfs && strcmp(source, "None") == 0) || (!tmpfs && !bind && strcmp(record.text[0], "volume") != 0) ||
            has_blank_ends(source))
            return refuse_inexpressible(writing, "the source of a mount", source);
        facet_growing_format(&writing->text, "%s%s:%s:%s", first ? "" : ",", tmpfs ? "None" : source, target,
                             permissions[record.number]);
    }
    add_text(writing, "\n");
    return FACET_OK;
}

/* Takes ownership of `json`, also when it fails. */
static enum facet_status put_json(struct writing *writing, const char *key, json_t *json, bool complete)
{
    FACET_CLEANUP_JSON json_t *owned = json;
    FACET_CLEANUP_FREE char *text = complete ? facet_json_compact(json) : NULL;

    if (!text)
        return facet_json_no_memory(writing->error);
    facet_growing_format(&writing->text, "%s=%s\n", key, text);
    return FACET_OK;
}

static enum facet_status put_slots(struct writing *writing)
{
    struct facet_resources_record record;
    char amount[FACET_AMOUNT_SIZE];
    json_t *slots = json_object();
    bool complete = slots != NULL;
    uint32_t at = 0;

    while (complete && next_record(writing, FACET_RESOURCES_REQUEST, &at, &record)) {
        if (!facet_json_is_utf8(record.text[0])) {
            json_decref(slots);
            return refuse_inexpressible(writing, "the slot", record.text[0]);
        }
        facet_amount_format_places(record.number, record.places, amount, FACET_AMOUNT_SIZE);
        complete = json_object_set_new(slots, record.text[0], json_string(amount)) == 0;
    }
    return put_json(writing, "SLOTS", slots, complete);
}

static enum facet_status put_unified(struct writing *writing)
{
    struct facet_resources_record record;
    json_t *pairs = json_array();
    bool complete = pairs != NULL;
    uint32_t at = 0;

    while (complete && next_record(writing, FACET_RESOURCES_UNIFIED, &at, &record)) {
        if (!facet_json_is_utf8(record.text[0]) || !facet_json_is_utf8(record.text[1])) {
            json_decref(pairs);
            return refuse_inexpressible(writing, "the device", record.text[0]);
        }
        complete = json_array_append_new(pairs, json_pack("[s, s]", record.text[0], record.text[1])) == 0;
    }
    return put_json(writing, "UNIFIED_DEVICES", pairs, complete);
}

static enum facet_status put_amount(struct writing *writing, const struct facet_resources_record *grant)
{
    uint32_t type = writing->type                        ? writing->type(writing->context, grant->text[0])
                    : strcmp(grant->text[0], "mem") == 0 ? FACET_SLOT_BYTES
                                                         : FACET_SLOT_COUNT;
    char text[FACET_AMOUNT_SIZE];

    if (type != FACET_SLOT_BYTES)
        add_text(writing, facet_amount_format_places(grant->number, grant->places, text, FACET_AMOUNT_SIZE));
    else if (grant->number % FACET_AMOUNT_ONE == 0)
        add_text(writing, facet_spec_format_binary(grant->number / FACET_AMOUNT_ONE, text));
    else
        return refuse_inexpressible(writing, "a part of a byte of slot", grant->text[0]);
    return FACET_OK;
}

/* Writes the grants of a slot from record `at` on: none comes before the slot's allocation. */
static enum facet_status put_shares(struct writing *writing, const char *slot, uint32_t at)
{
    struct facet_resources_record grant;
    enum facet_status status = FACET_OK;
    bool first = true;

    while (status == FACET_OK && next_record(writing, FACET_RESOURCES_GRANT, &at, &grant)) {
        if (strcmp(grant.text[0], slot) != 0)
            continue;
        if (!grant.text[1][0] || has_any(grant.text[1], ",") || has_blank_ends(grant.text[1]))
            return refuse_inexpressible(writing, "the device", grant.text[1]);
        facet_growing_format(&writing->text, "%s%s:", first ? "" : ",", grant.text[1]);
        status = put_amount(writing, &grant);
        first = false;
    }
    return status;
}

static enum facet_status put_allocations(struct writing *writing)
{
    struct facet_resources_record slot;
    enum facet_status status = FACET_OK;
    uint32_t at = 0;

    while (status == FACET_OK && next_record(writing, FACET_RESOURCES_ALLOCATION, &at, &slot)) {
        const char *name = slot.text[0];
        if (!name[0] || has_capitals(name) || has_any(name, "=") || has_blank_ends(name))
            return refuse_inexpressible(writing, "the slot", name);
        for (const char *c = name; *c; c++)
            facet_growing_format(&writing->text, "%c", *c >= 'a' && *c <= 'z' ? *c & ~0x20 : *c);
        add_text(writing, FACET_LEGACY_SHARES "=");
        status = put_shares(writing, name, at);
        add_text(writing, "\n");
    }
    return status;
}

static enum facet_status put_pair(struct writing *writing, const char *key, const char *value)
{
    if (has_any(value, "") || has_blank_ends(value))
        return refuse_inexpressible(writing, "the value of", key);
    facet_growing_format(&writing->text, "%s=%s\n", key, value);
    return FACET_OK;
}

static enum facet_status put_owner_and_data(struct writing *writing)
{
    struct facet_resources_record record;
    enum facet_status status = FACET_OK;
    uint32_t at = 0;

    if (next_record(writing, FACET_RESOURCES_OWNER, &at, &record))
        status = put_pair(writing, FACET_LEGACY_OWNER, record.text[0]);
    at = 0;
    if (status == FACET_OK && next_record(writing, FACET_RESOURCES_HANDLE, &at, &record))
        status = put_pair(writing, FACET_LEGACY_HANDLE, record.text[0]);
    at = 0;
    while (status == FACET_OK && next_record(writing, FACET_RESOURCES_DATA, &at, &record)) {
        const char *key = record.text[0];
        if (!key[0] || has_any(key, "=") || has_blank_ends(key) || facet_legacy_is_reserved(key))
            return refuse_inexpressible(writing, "data with the key", key);
        status = put_pair(writing, key, record.text[1]);
    }
    return status;
}

enum facet_status facet_resources_format_legacy(const struct facet_resources *resources, facet_slot_type_func type,
                                                void *context, char **ret_text, struct facet_error *error)
{
    static enum facet_status (*const parts[])(struct writing *) = {put_mounts, put_slots, put_unified, put_allocations,
                                                                   put_owner_and_data};
    struct writing writing = {.resources = resources, .type = type, .context = context, .error = error};
    enum facet_status status = FACET_OK;

    if (!resources || !ret_text)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "resources",
                                    "resources: expected records and room for a result, not NULL");
    put_scratch(&writing);
    for (size_t i = 0; status == FACET_OK && i < sizeof parts / sizeof parts[0]; i++)
        status = parts[i](&writing);
    if (status == FACET_OK && writing.text.failed)
        status = facet_json_no_memory(error);
    if (status == FACET_OK && !facet_json_is_utf8(writing.text.text))
        status = refuse_inexpressible(&writing, "a text that is not UTF-8", "");
    if (status == FACET_OK)
        *ret_text = FACET_TAKE_PTR(writing.text.text);
    free(writing.text.text);
    return status;
}
