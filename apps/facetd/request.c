/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table of members and the functions that read them. Never: guesses the meaning of a wrong type. */
#include "request.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef enum facet_status (*read_func)(const json_t *value, const char *member, struct request *request,
                                       struct facet_error *error);

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction or exponent";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

static enum facet_status wrong_type(const json_t *value, const char *member, const char *expected,
                                    struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, member, "%s: expected %s, got %s", member, expected,
                                type_name(value));
}

static enum facet_status read_string(const json_t *value, const char *member, const char **ret_text,
                                     struct facet_error *error)
{
    if (!json_is_string(value))
        return wrong_type(value, member, "a string", error);
    *ret_text = json_string_value(value);
    return FACET_OK;
}

static enum facet_status read_integer(const json_t *value, const char *member, uint64_t minimum, uint64_t maximum,
                                      uint64_t *ret_integer, struct facet_error *error)
{
    if (!json_is_integer(value))
        return wrong_type(value, member, "an integer", error);

    json_int_t integer = json_integer_value(value);
    if (integer < 0 || (uint64_t)integer < minimum || (uint64_t)integer > maximum)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, member, "%s %lld: expected %llu to %llu", member,
                                    (long long)integer, (unsigned long long)minimum, (unsigned long long)maximum);
    *ret_integer = (uint64_t)integer;
    return FACET_OK;
}

static enum facet_status read_milli(const json_t *value, const char *member, uint64_t minimum, uint32_t *ret_milli,
                                    struct facet_error *error)
{
    uint64_t milli = 0;

    enum facet_status status = read_integer(value, member, minimum, FACET_MILLI_WHOLE, &milli, error);
    if (status == FACET_OK)
        *ret_milli = (uint32_t)milli;
    return status;
}

/* Reads a name, or an id, which has the form of a name. */
static enum facet_status read_valid_name(const json_t *value, const char *member, char *ret_name, size_t size,
                                         struct facet_error *error)
{
    const char *text = NULL;

    enum facet_status status = read_string(value, member, &text, error);
    if (status == FACET_OK)
        status = facet_check_name(text, member, error);
    if (status == FACET_OK)
        snprintf(ret_name, size, "%s", text);
    return status;
}

static enum facet_status read_text(const json_t *value, const char *member, const char *expected, char *ret_text,
                                   size_t size, struct facet_error *error)
{
    const char *text = NULL;

    enum facet_status status = read_string(value, member, &text, error);
    if (status != FACET_OK)
        return status;
    if (text[0] == '\0' || strlen(text) >= size)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, member, "%s of %zu characters: expected %s", member,
                                    strlen(text), expected);
    snprintf(ret_text, size, "%s", text);
    return FACET_OK;
}

static enum facet_status read_name(const json_t *value, const char *member, struct request *request,
                                   struct facet_error *error)
{
    return read_valid_name(value, member, request->name, sizeof request->name, error);
}

static enum facet_status read_device(const json_t *value, const char *member, struct request *request,
                                     struct facet_error *error)
{
    return read_text(value, member, "an id, a uuid or an index", request->device, sizeof request->device, error);
}

static enum facet_status read_memory_limit(const json_t *value, const char *member, struct request *request,
                                           struct facet_error *error)
{
    return read_integer(value, member, 1, INT64_MAX, &request->limits.memory_bytes, error);
}

static enum facet_status read_compute_request(const json_t *value, const char *member, struct request *request,
                                              struct facet_error *error)
{
    return read_milli(value, member, 0, &request->limits.compute_request_milli, error);
}

static enum facet_status read_compute_limit(const json_t *value, const char *member, struct request *request,
                                            struct facet_error *error)
{
    return read_milli(value, member, 1, &request->limits.compute_limit_milli, error);
}

static enum facet_status read_mode(const json_t *value, const char *member, struct request *request,
                                   struct facet_error *error)
{
    const char *text = NULL;

    enum facet_status status = read_string(value, member, &text, error);
    return status == FACET_OK ? facet_parse_mode(text, member, &request->limits.mode, error) : status;
}

static enum facet_status read_priority(const json_t *value, const char *member, struct request *request,
                                       struct facet_error *error)
{
    const char *text = NULL;

    enum facet_status status = read_string(value, member, &text, error);
    return status == FACET_OK ? facet_parse_priority(text, member, &request->limits.priority, error) : status;
}

static enum facet_status read_boolean(const json_t *value, const char *member, bool *ret_value,
                                      struct facet_error *error)
{
    if (!json_is_boolean(value))
        return wrong_type(value, member, "true or false", error);
    *ret_value = json_is_true(value);
    return FACET_OK;
}

static enum facet_status read_ephemeral(const json_t *value, const char *member, struct request *request,
                                        struct facet_error *error)
{
    return read_boolean(value, member, &request->ephemeral, error);
}

static enum facet_status read_oversubscribe(const json_t *value, const char *member, struct request *request,
                                            struct facet_error *error)
{
    return read_boolean(value, member, &request->oversubscribe, error);
}

static enum facet_status read_reservation(const json_t *value, const char *member, struct request *request,
                                          struct facet_error *error)
{
    return read_valid_name(value, member, request->reservation, sizeof request->reservation, error);
}

static enum facet_status read_template(const json_t *value, const char *member, struct request *request,
                                       struct facet_error *error)
{
    return read_text(value, member, "the id of a partition template", request->template_id, sizeof request->template_id,
                     error);
}

static enum facet_status read_idle_freeze(const json_t *value, const char *member, struct request *request,
                                          struct facet_error *error)
{
    uint64_t seconds = 0;

    enum facet_status status = read_integer(value, member, 0, REQUEST_IDLE_FREEZE_MAX, &seconds, error);
    if (status == FACET_OK)
        request->idle_freeze_s = (uint32_t)seconds;
    return status;
}

static enum facet_status read_labels(const json_t *value, const char *member, struct request *request,
                                     struct facet_error *error)
{
    const char *key, *text = NULL;
    size_t used = 0;
    json_t *label;

    if (!json_is_object(value))
        return wrong_type(value, member, "an object", error);
    if (json_object_size(value) > FACET_LABELS_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, member, "%s: %zu, expected at most %u", member,
                                    json_object_size(value), FACET_LABELS_MOST);
    json_object_foreach ((json_t *)(uintptr_t)value, key, label) {
        bool removes = json_is_null(label);
        enum facet_status status =
            removes ? facet_label_check_key(key, strlen(key), error) : read_string(label, member, &text, error);
        if (status == FACET_OK && !removes)
            status = facet_label_check(key, text, error);
        if (status != FACET_OK)
            return status;
        used += (size_t)snprintf(request->labels + used, sizeof request->labels - used, "%s=%s\n", key,
                                 removes ? "" : text);
    }
    return FACET_OK;
}

static const struct member {
    const char *name;
    uint32_t bit;
    read_func read;
} members[] = {
    {"name", REQUEST_NAME, read_name},
    {"device", REQUEST_DEVICE, read_device},
    {"memory_limit_bytes", REQUEST_MEMORY_LIMIT, read_memory_limit},
    {"compute_request_milli", REQUEST_COMPUTE_REQUEST, read_compute_request},
    {"compute_limit_milli", REQUEST_COMPUTE_LIMIT, read_compute_limit},
    {"mode", REQUEST_MODE, read_mode},
    {"priority", REQUEST_PRIORITY, read_priority},
    {"ephemeral", REQUEST_EPHEMERAL, read_ephemeral},
    {"template", REQUEST_TEMPLATE, read_template},
    {"idle_freeze_s", REQUEST_IDLE_FREEZE, read_idle_freeze},
    {"reservation", REQUEST_RESERVATION, read_reservation},
    {"oversubscribe", REQUEST_OVERSUBSCRIBE, read_oversubscribe},
    {"labels", REQUEST_LABELS, read_labels},
};

enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

/* Lists the allowed members, "name, device, ...", for the refusal of an unknown one. */
static void list_members(uint32_t allowed, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "no members");
    for (size_t i = 0; i < MEMBER_COUNT && used < size; i++)
        if (members[i].bit & allowed)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", members[i].name);
}

static enum facet_status read_member(const char *name, const json_t *value, uint32_t allowed, struct request *request,
                                     struct facet_error *error)
{
    char expected[200];

    for (size_t i = 0; i < MEMBER_COUNT; i++)
        if ((members[i].bit & allowed) && strcmp(members[i].name, name) == 0) {
            request->present |= members[i].bit;
            return members[i].read(value, name, request, error);
        }
    list_members(allowed, expected, sizeof expected);
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name[0] ? name : "body",
                                "unknown member '%.64s': expected %s", name, expected);
}

static enum facet_status read_object(const json_t *object, uint32_t allowed, struct request *request,
                                     struct facet_error *error)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return wrong_type(object, "body", "a JSON object", error);
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        enum facet_status status = read_member(name, value, allowed, request, error);
        if (status != FACET_OK)
            return status;
    }
    return FACET_OK;
}

void request_init(struct request *request)
{
    *request = (struct request){0};
    facet_limits_init(&request->limits);
}

enum facet_status request_parse(const char *body, size_t size, uint32_t allowed, struct request *ret_request,
                                struct facet_error *error)
{
    struct request request;
    json_error_t reason;

    request_init(&request);
    json_t *object = json_loadb(body, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &reason);
    if (!object)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "body", "not JSON: %s (line %d, column %d)",
                                    reason.text, reason.line, reason.column);

    enum facet_status status = read_object(object, allowed, &request, error);
    json_decref(object);
    if (status == FACET_OK)
        *ret_request = request;
    return status;
}

struct facet_limits request_apply(const struct request *request, const struct facet_limits *base)
{
    struct facet_limits limits = *base;

    if (request->present & REQUEST_MEMORY_LIMIT)
        limits.memory_bytes = request->limits.memory_bytes;
    if (request->present & REQUEST_COMPUTE_REQUEST)
        limits.compute_request_milli = request->limits.compute_request_milli;
    if (request->present & REQUEST_COMPUTE_LIMIT)
        limits.compute_limit_milli = request->limits.compute_limit_milli;
    if (request->present & REQUEST_MODE)
        limits.mode = request->limits.mode;
    if (request->present & REQUEST_PRIORITY)
        limits.priority = request->limits.priority;
    return limits;
}
