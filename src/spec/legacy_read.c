/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading resource.txt. Never: accepts a file in which a required line is missing. */
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "spec/legacy.h"

struct reading {
    struct facet_resources *resources;
    facet_slot_type_func type;
    void *context;
    struct facet_error *error;
};

static enum facet_status refuse_damaged(const struct reading *reading, const char *key, const char *what,
                                        const char *text)
{
    return facet_error_argument(reading->error, FACET_CORRUPT, "resources", "%.60s: expected %s, got '%.80s'", key,
                                what, text);
}

static enum facet_status add_record(const struct reading *reading, struct facet_resources_record *record,
                                    const char *key)
{
    struct facet_error why = {0};

    record->size = sizeof *record;
    enum facet_status status = facet_resources_add(reading->resources, record, &why);
    if (status == FACET_OK || status == FACET_NO_MEMORY)
        return status == FACET_OK ? status : facet_json_no_memory(reading->error);
    return refuse_damaged(reading, key, why.message, record->text[0] ? record->text[0] : "");
}

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* The characters that Backend.AI's own reader strips from the ends of a line. */
static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* Backend.AI's own reader ends lines at '\n' or '\r', or at both together. */
static size_t line_length(const char *text, size_t bytes)
{
    size_t length = 0;

    while (length < bytes && text[length] != '\n' && text[length] != '\r')
        length++;
    return length;
}

/* Reads KEY=VALUE into `lines`. When a key comes again, its last value replaces the first. Keys and values are any
 * bytes except NUL. */
static enum facet_status read_line(const struct reading *reading, json_t *lines, const char *line, size_t length)
{
    while (length && is_blank(line[length - 1]))
        length--;
    while (length && is_blank(*line)) {
        line++;
        length--;
    }
    const char *equals = memchr(line, '=', length);
    if (length == 0)
        return FACET_OK;
    FACET_CLEANUP_FREE char *key = strndup(line, equals ? (size_t)(equals - line) : length);
    if (!key)
        return facet_json_no_memory(reading->error);
    if (!equals)
        return refuse_damaged(reading, "a line", "KEY=VALUE", key);
    json_t *value = json_stringn_nocheck(equals + 1, length - (size_t)(equals + 1 - line));
    return json_object_set_new_nocheck(lines, key, value) == 0 ? FACET_OK : facet_json_no_memory(reading->error);
}

static enum facet_status read_lines(const struct reading *reading, const char *text, size_t bytes, json_t *lines)
{
    enum facet_status status = FACET_OK;

    if (memchr(text, '\0', bytes))
        return refuse_damaged(reading, "the file", "text without a zero byte", "");
    while (status == FACET_OK && bytes > 0) {
        size_t length = line_length(text, bytes), end = length < bytes;
        status = read_line(reading, lines, text, length);
        text += length + end;
        bytes -= length + end;
    }
    return status;
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static uint32_t places_of(const char *text)
{
    const char *point = strchr(text, '.');
    size_t places = point ? strlen(point + 1) : 0;

    return places > 6 ? 6 : (uint32_t)places;
}

/* Bytes are written with a unit, all other amounts as decimals. For an unknown type, the unit decides. */
static bool read_amount(const struct reading *reading, const char *slot, const char *text,
                        struct facet_resources_record *record)
{
    uint32_t type = reading->type ? reading->type(reading->context, slot) : UINT32_MAX;
    int64_t bytes;

    record->places = 0;
    if (type != FACET_SLOT_BYTES && facet_amount_parse(text, "amount", &record->number, NULL) == FACET_OK) {
        record->places = places_of(text);
        return true;
    }
    if (type != FACET_SLOT_BYTES && facet_slot_type_name(type))
        return false;
    return facet_spec_parse_binary(text, &bytes, NULL) == FACET_OK &&
           !__builtin_mul_overflow(bytes, FACET_AMOUNT_ONE, &record->number);
}

/* "id:amount"; an id may have colons of its own. An entry without a colon, an id or an amount is skipped. */
static enum facet_status read_share(const struct reading *reading, const char *key, const char *slot, char *entry)
{
    char *colon = strrchr(entry, ':');
    struct facet_resources_record record = {.kind = FACET_RESOURCES_GRANT, .text = {slot, entry}};

    if (!colon || colon == entry || !colon[1])
        return FACET_OK;
    *colon = '\0';
    if (!read_amount(reading, slot, colon + 1, &record))
        return refuse_damaged(reading, key, "an amount of this type of slot", colon + 1);
    return add_record(reading, &record, key);
}

static enum facet_status read_shares(const struct reading *reading, const char *key, const char *value)
{
    FACET_CLEANUP_FREE char *slot = strdup(key);
    FACET_CLEANUP_FREE char *list = strdup(value);
    char *rest = list, *entry;

    if (!slot || !list)
        return facet_json_no_memory(reading->error);
    slot[strlen(slot) - strlen(FACET_LEGACY_SHARES)] = '\0';
    for (char *c = slot; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    struct facet_resources_record record = {.kind = FACET_RESOURCES_ALLOCATION, .text = {slot}};
    enum facet_status status = add_record(reading, &record, key);
    while (status == FACET_OK && (entry = strsep(&rest, ",")))
        status = read_share(reading, key, slot, entry);
    return status;
}

/* "source:target:permission" */
static enum facet_status read_mount(const struct reading *reading, char *entry)
{
    static const char *const permissions[] = {"ro", "rw", "wd"};
    char *rest = entry, *source = strsep(&rest, ":"), *target = strsep(&rest, ":"), *permission = strsep(&rest, ":");
    bool none = strcmp(source, "None") == 0;
    const char *type = *source == '/' ? "bind" : none ? "tmpfs" : "volume";
    struct facet_resources_record record = {
        .kind = FACET_RESOURCES_MOUNT, .text = {type, none ? "" : source, target, ""}, .number = -1};

    for (int i = 0; permission && i < 3; i++)
        if (strcmp(permission, permissions[i]) == 0)
            record.number = i;
    if (!*source || !target || !*target || rest || record.number < 0)
        return refuse_damaged(reading, "MOUNTS", "source:target:ro|rw|wd", source);
    return add_record(reading, &record, "MOUNTS");
}

static enum facet_status read_mounts(const struct reading *reading, const char *value)
{
    FACET_CLEANUP_FREE char *list = strdup(value);
    enum facet_status status = FACET_OK;
    char *rest = list, *entry;

    if (!list)
        return facet_json_no_memory(reading->error);
    while (status == FACET_OK && *value && (entry = strsep(&rest, ",")))
        status = read_mount(reading, entry);
    return status;
}

static enum facet_status read_slots(const struct reading *reading, const char *value)
{
    FACET_CLEANUP_JSON json_t *slots = NULL;
    struct facet_error why = {0};
    enum facet_status status = facet_json_read(value, strlen(value), &slots, &why);
    const char *name;
    json_t *amount;

    if (status != FACET_OK || !json_is_object(slots))
        return status == FACET_NO_MEMORY ? facet_json_no_memory(reading->error)
                                         : refuse_damaged(reading, "SLOTS", "an object of amounts", value);
    json_object_foreach (slots, name, amount) {
        struct facet_resources_record record = {.kind = FACET_RESOURCES_REQUEST, .text = {name}};
        const char *text = json_string_value(amount);
        if (status == FACET_OK && (!text || facet_amount_parse(text, "amount", &record.number, NULL) != FACET_OK))
            status = refuse_damaged(reading, "SLOTS", "a decimal as a text", text ? text : name);
        record.places = text ? places_of(text) : 0;
        if (status == FACET_OK)
            status = add_record(reading, &record, "SLOTS");
    }
    return status;
}

static enum facet_status read_unified(const struct reading *reading, const char *value)
{
    FACET_CLEANUP_JSON json_t *pairs = NULL;
    struct facet_error why = {0};
    enum facet_status status = facet_json_read(value, strlen(value), &pairs, &why);
    size_t index;
    json_t *pair;

    if (status != FACET_OK || !json_is_array(pairs))
        return status == FACET_NO_MEMORY ? facet_json_no_memory(reading->error)
                                         : refuse_damaged(reading, "UNIFIED_DEVICES", "a list of pairs", value);
    json_array_foreach (pairs, index, pair) {
        struct facet_resources_record record = {
            .kind = FACET_RESOURCES_UNIFIED,
            .text = {json_string_value(json_array_get(pair, 0)), json_string_value(json_array_get(pair, 1))}};
        if (status == FACET_OK && (json_array_size(pair) != 2 || !record.text[0] || !record.text[1]))
            status = refuse_damaged(reading, "UNIFIED_DEVICES", "pairs of device and slot", value);
        if (status == FACET_OK)
            status = add_record(reading, &record, "UNIFIED_DEVICES");
    }
    return status;
}

static enum facet_status read_scratch(const struct reading *reading, const char *value)
{
    struct facet_resources_record record = {.kind = FACET_RESOURCES_SCRATCH};

    if (facet_spec_parse_binary(value, &record.number, NULL) != FACET_OK)
        return refuse_damaged(reading, "SCRATCH_SIZE", "a size", value);
    return add_record(reading, &record, "SCRATCH_SIZE");
}

static enum facet_status read_value(const struct reading *reading, const char *key, const char *value)
{
    struct facet_resources_record record = {.kind = FACET_RESOURCES_DATA, .text = {key, value}};

    if (strcmp(key, "SCRATCH_SIZE") == 0)
        return read_scratch(reading, value);
    if (strcmp(key, "MOUNTS") == 0)
        return read_mounts(reading, value);
    if (strcmp(key, "SLOTS") == 0)
        return read_slots(reading, value);
    if (strcmp(key, "UNIFIED_DEVICES") == 0)
        return read_unified(reading, value);
    if (strcmp(key, FACET_LEGACY_OWNER) == 0 || strcmp(key, FACET_LEGACY_HANDLE) == 0)
        record = (struct facet_resources_record){.kind = strcmp(key, FACET_LEGACY_OWNER) == 0 ? FACET_RESOURCES_OWNER
                                                                                              : FACET_RESOURCES_HANDLE,
                                                 .text = {value}};
    else if (facet_legacy_is_reserved(key))
        return read_shares(reading, key, value);
    return add_record(reading, &record, key);
}

enum facet_status facet_resources_parse_legacy(const char *text, size_t bytes, facet_slot_type_func type, void *context,
                                               struct facet_resources **ret_resources, struct facet_error *error)
{
    static const char *const required[] = {"SCRATCH_SIZE", "MOUNTS", "SLOTS"};
    FACET_CLEANUP_RESOURCES struct facet_resources *resources = NULL;
    FACET_CLEANUP_JSON json_t *lines = json_object();
    const char *key;
    json_t *value;

    if (!text || !ret_resources)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "text",
                                    "text: expected a text and room for a result, not NULL");
    if (bytes > FACET_RESOURCES_BYTES)
        return facet_error_argument(error, FACET_CORRUPT, "resources", "%zu bytes: expected at most %" PRIu32, bytes,
                                    FACET_RESOURCES_BYTES);
    enum facet_status status = lines ? facet_resources_create(&resources, error) : facet_json_no_memory(error);
    const struct reading reading = {resources, type, context, error};
    if (status == FACET_OK)
        status = read_lines(&reading, text, bytes, lines);
    for (size_t i = 0; status == FACET_OK && i < sizeof required / sizeof required[0]; i++)
        if (!json_object_get(lines, required[i]))
            status = refuse_damaged(&reading, required[i], "this line", "nothing");
    json_object_foreach (lines, key, value)
        if (status == FACET_OK)
            status = read_value(&reading, key, json_string_value(value));
    if (status == FACET_OK)
        *ret_resources = FACET_TAKE_PTR(resources);
    return status;
}
