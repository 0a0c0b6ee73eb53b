/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: turning typed limits into a request. Never: guesses a meaning. */
#include "request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/limits.h>

#include "command.h"

/* Stands for the unknown memory of a device while only the form of a percentage is checked. */
#define PLACEHOLDER_MEMORY (UINT64_C(1) << 40)

bool request_option(struct request *request, int option, const char *value)
{
    switch (option) {
    case 'd':
        request->device = value;
        return true;
    case 'm':
        request->memory = value;
        return true;
    case 'c':
        request->compute = value;
        return true;
    case OPTION_MODE:
        request->mode = value;
        return true;
    case OPTION_TEMPLATE:
        request->template_id = value;
        return true;
    case OPTION_PRIORITY:
        request->priority = value;
        return true;
    case OPTION_IDLE_FREEZE:
        request->idle_freeze = value;
        return true;
    case OPTION_RESERVATION:
        request->reservation = value;
        return true;
    case OPTION_OVERSUBSCRIBE:
        request->oversubscribe = true;
        return true;
    case OPTION_LABEL:
        if (request->label_count < FACET_LABELS_MOST)
            request->labels[request->label_count] = value;
        request->label_count++;
        return true;
    case OPTION_NAME:
        request->name = value;
        return true;
    default:
        return false;
    }
}

bool request_has_limits(const struct request *request)
{
    return request->memory || request->compute || request->template_id || request->idle_freeze ||
           request->reservation || request->oversubscribe;
}

const char *request_first_given(const struct request *request)
{
    return request->device          ? "--device"
           : request->memory        ? "--memory"
           : request->compute       ? "--compute"
           : request->mode          ? "--mode"
           : request->template_id   ? "--template"
           : request->priority      ? "--priority"
           : request->idle_freeze   ? "--idle-freeze"
           : request->reservation   ? "--reservation"
           : request->oversubscribe ? "--oversubscribe"
           : request->label_count   ? "--label"
           : request->name          ? "--name"
                                    : NULL;
}

/* Reads whole seconds; "0" means never. */
static enum facet_status parse_seconds(const char *text, uint64_t *ret_seconds, struct facet_error *error)
{
    size_t digits = strspn(text, "0123456789");

    if (!digits || text[digits] || digits > 9)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "idle-freeze",
                                    "idle-freeze '%.32s': expected whole seconds, 0 for never", text);
    *ret_seconds = strtoull(text, NULL, 10);
    return FACET_OK;
}

static enum facet_status check_names(const struct request *request, struct facet_error *error)
{
    if (request->device && !request->device[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "device",
                                    "device '': expected an id, a uuid or an index; 'facet devices' lists them");
    if (request->template_id && !request->template_id[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "template",
                                    "template '': expected its id; 'facet devices DEVICE' lists them");
    if (request->reservation && !request->device && request->memory && strchr(request->memory, '%'))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory",
                                    "memory '%.32s': expected a size, or a device beside --reservation: it may have "
                                    "several",
                                    request->memory);
    enum facet_status status =
        request->reservation ? facet_check_name(request->reservation, "reservation", error) : FACET_OK;
    return status == FACET_OK && request->name ? facet_check_name(request->name, "name", error) : status;
}

/* The request is JSON, whose integers end below 8 EiB. */
static enum facet_status parse_memory(const char *text, uint64_t device_bytes, uint64_t *ret_bytes,
                                      struct facet_error *error)
{
    uint64_t bytes;
    enum facet_status status = facet_parse_size(text, "memory", device_bytes, &bytes, error);

    if (status == FACET_OK && bytes > INT64_MAX)
        status = facet_error_argument(error, FACET_OUT_OF_RANGE, "memory",
                                      "memory '%.32s': expected less than 8 EiB, which no device has", text);
    if (status == FACET_OK)
        *ret_bytes = bytes;
    return status;
}

/* A key that is too long is cut to a length that is still too long. */
const char *request_split_label(const char *text, char ret_key[FACET_LABEL_KEY_MOST + 2])
{
    size_t length = strcspn(text, "=");

    snprintf(ret_key, FACET_LABEL_KEY_MOST + 2, "%.*s", (int)length, text);
    return text[length] ? text + length + 1 : NULL;
}

static enum facet_status check_labels(const struct request *request, struct facet_error *error)
{
    char key[FACET_LABEL_KEY_MOST + 2];
    enum facet_status status = FACET_OK;

    if (request->label_count > FACET_LABELS_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "label", "label: given %u times, expected at most %u",
                                    request->label_count, FACET_LABELS_MOST);
    for (uint32_t i = 0; i < request->label_count && status == FACET_OK; i++) {
        const char *value = request_split_label(request->labels[i], key);

        if (!value)
            status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "label", "label '%.100s': expected KEY=VALUE",
                                          request->labels[i]);
        else
            status = value[0] ? facet_label_check(key, value, error) : facet_label_check_key(key, strlen(key), error);
        for (uint32_t k = 0; k < i && status == FACET_OK; k++)
            if (strncmp(request->labels[k], request->labels[i], strlen(key) + 1) == 0)
                status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "label", "label %s: given twice", key);
    }
    return status;
}

enum facet_status request_check_filter(const struct request *request, struct facet_error *error)
{
    char key[FACET_LABEL_KEY_MOST + 2];
    enum facet_status status = FACET_OK;

    if (request->label_count > FACET_LABELS_MOST)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "label", "label: given %u times, expected at most %u",
                                    request->label_count, FACET_LABELS_MOST);
    for (uint32_t i = 0; i < request->label_count && status == FACET_OK; i++) {
        const char *value = request_split_label(request->labels[i], key);

        status = value ? facet_label_check(key, value, error) : facet_label_check_key(key, strlen(key), error);
    }
    return status;
}

enum facet_status request_check(const struct request *request, struct facet_error *error)
{
    uint64_t bytes, seconds;
    uint32_t milli, limit, number;

    enum facet_status status = check_names(request, error);
    if (status == FACET_OK && request->memory)
        status = parse_memory(request->memory, PLACEHOLDER_MEMORY, &bytes, error);
    if (status == FACET_OK && request->compute)
        status = facet_parse_compute(request->compute, "compute", &milli, &limit, error);
    if (status == FACET_OK && request->mode)
        status = facet_parse_mode(request->mode, "mode", &number, error);
    if (status == FACET_OK && request->priority)
        status = facet_parse_priority(request->priority, "priority", &number, error);
    if (status == FACET_OK && request->idle_freeze)
        status = parse_seconds(request->idle_freeze, &seconds, error);
    return status == FACET_OK ? check_labels(request, error) : status;
}

static bool device_is(const json_t *device, size_t index, const char *text)
{
    const char *id = json_string_value(json_object_get(device, "id"));
    const char *uuid = json_string_value(json_object_get(device, "uuid"));
    char number[24];

    snprintf(number, sizeof number, "%zu", index);
    return strcmp(number, text) == 0 || (id && strcmp(id, text) == 0) || (uuid && strcmp(uuid, text) == 0);
}

static enum facet_status device_memory(struct client *client, const char *text, uint64_t *ret_bytes,
                                       struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *answer = NULL;
    enum facet_status status = client_call(client, "GET", "/v1/devices", NULL, &answer, error);
    const json_t *device;
    size_t index;

    if (status != FACET_OK)
        return status;
    json_array_foreach (json_object_get(answer, "devices"), index, device) {
        if (text && !device_is(device, index, text))
            continue;
        const json_t *memory = json_object_get(device, "memory_bytes");
        if (!json_is_integer(memory) || json_integer_value(memory) <= 0)
            return facet_error_argument(
                error, FACET_UNSUPPORTED, "memory",
                "memory: the device does not tell how much it has; give a size, not a percentage");
        *ret_bytes = (uint64_t)json_integer_value(memory);
        return FACET_OK;
    }
    return facet_error_argument(error, FACET_NOT_FOUND, "device", "device '%s': not found; 'facet devices' lists them",
                                text ? text : "0");
}

static enum facet_status memory_bytes(const struct request *request, struct client *client, const char *device,
                                      uint64_t *ret_bytes, struct facet_error *error)
{
    uint64_t device_bytes = 0;

    if (strchr(request->memory, '%')) {
        enum facet_status status = device_memory(client, device, &device_bytes, error);
        if (status != FACET_OK)
            return status;
    }
    return parse_memory(request->memory, device_bytes, ret_bytes, error);
}

static int set_text(json_t *body, const char *member, const char *value)
{
    return value ? json_object_set_new(body, member, json_string(value)) : 0;
}

static int set_number(json_t *body, const char *member, uint64_t value)
{
    return json_object_set_new(body, member, json_integer((json_int_t)value));
}

static enum facet_status set_amounts(const struct request *request, struct client *client, const char *device,
                                     json_t *body, struct facet_error *error)
{
    uint64_t bytes = 0, seconds = 0;
    uint32_t milli = 0, limit = 0;
    enum facet_status status = FACET_OK;
    int failed = 0;

    if (request->memory)
        status = memory_bytes(request, client, device, &bytes, error);
    if (status == FACET_OK && request->compute)
        status = facet_parse_compute(request->compute, "compute", &milli, &limit, error);
    if (status == FACET_OK && request->idle_freeze)
        status = parse_seconds(request->idle_freeze, &seconds, error);
    if (status != FACET_OK)
        return status;
    if (request->memory)
        failed |= set_number(body, "memory_limit_bytes", bytes);
    if (request->compute) {
        failed |= set_number(body, "compute_request_milli", milli);
        failed |= set_number(body, "compute_limit_milli", limit);
    }
    if (request->idle_freeze)
        failed |= set_number(body, "idle_freeze_s", seconds);
    return failed ? facet_error_set(error, FACET_NO_MEMORY, "cannot build a request") : FACET_OK;
}

/* An empty value removes the label. */
static int set_labels(json_t *body, const struct request *request)
{
    char key[FACET_LABEL_KEY_MOST + 2];
    json_t *labels = json_object();
    int failed = 0;

    for (uint32_t i = 0; i < request->label_count; i++) {
        const char *value = request_split_label(request->labels[i], key);

        failed |= json_object_set_new(labels, key, value[0] ? json_string(value) : json_null());
    }
    return failed | json_object_set_new(body, "labels", labels);
}

enum facet_status request_body(const struct request *request, struct client *client, const char *device,
                               json_t **ret_body, struct facet_error *error)
{
    CLIENT_CLEANUP_JSON json_t *body = json_object();
    int failed = 0;

    enum facet_status status = set_amounts(request, client, device, body, error);
    if (status != FACET_OK)
        return status;
    failed |= set_text(body, "name", request->name);
    failed |= set_text(body, "device", request->device);
    failed |= set_text(body, "mode", request->mode);
    failed |= set_text(body, "template", request->template_id);
    failed |= set_text(body, "priority", request->priority);
    failed |= set_text(body, "reservation", request->reservation);
    if (request->oversubscribe)
        failed |= json_object_set_new(body, "oversubscribe", json_true());
    if (!failed && request->label_count && set_labels(body, request) != 0)
        return facet_error_set(error, FACET_NO_MEMORY, "cannot build a request");
    if (failed)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "device", "device '%s': not UTF-8",
                                    request->device ? request->device : "");
    *ret_body = json_incref(body);
    return FACET_OK;
}
