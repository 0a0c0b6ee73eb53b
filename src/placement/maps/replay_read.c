/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading values of a vector file, and refusals that name the position. Never: interprets an operation. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "placement/maps/replay_inside.h"

/* Appends one line, in which control characters and newlines are replaced. A line for which there is no room is left
 * out. */
void replay_append(struct replay_text *text, const char *format, ...)
{
    char line[500];
    va_list arguments;
    int length;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    facet_text_make_line(line);
    length = snprintf(text->bytes + text->length, sizeof text->bytes - text->length, "%s\n", line);
    if (length > 0 && (size_t)length < sizeof text->bytes - text->length)
        text->length += (size_t)length;
    else
        text->bytes[text->length] = '\0';
}

struct replay_value replay_member(const struct replay_value *at, const char *name)
{
    struct replay_value member = {.value = json_object_get(at->value, name), .fault = at->fault};

    snprintf(member.path, sizeof member.path, "%.140s/%.50s", at->path, name);
    return member;
}

struct replay_value replay_item(const struct replay_value *at, size_t index)
{
    struct replay_value item = {.value = json_array_get(at->value, index), .fault = at->fault};

    snprintf(item.path, sizeof item.path, "%.170s/%zu", at->path, index);
    return item;
}

void replay_refuse(const struct replay_value *at, const char *expected)
{
    char value[60];
    size_t length =
        at->value ? json_dumpb(at->value, value, sizeof value - 1, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII)
                  : 0;

    if (at->fault->length)
        return;
    if (length == 0 || length >= sizeof value)
        snprintf(value, sizeof value, "%s", at->value ? "this value" : "nothing");
    else
        value[length] = '\0';
    replay_append(at->fault, "%s: expected %s, not %s", at->path[0] ? at->path : "/", expected, value);
}

bool replay_present(const struct replay_value *at)
{
    return at->value && !json_is_null(at->value);
}

const char *replay_string(const struct replay_value *at)
{
    const char *text = json_string_value(at->value);

    if (text && strlen(text) == json_string_length(at->value))
        return text;
    replay_refuse(at, "a text");
    return "";
}

bool replay_expect_object(const struct replay_value *at)
{
    if (json_is_object(at->value))
        return true;
    replay_refuse(at, "an object");
    return false;
}

size_t replay_count(const struct replay_value *at, size_t max)
{
    size_t count = json_array_size(at->value);

    if (json_is_array(at->value) && count <= max)
        return count;
    replay_refuse(at, json_is_array(at->value) ? "a shorter array" : "an array");
    return 0;
}

bool replay_amount(const struct replay_value *at, int64_t *ret_amount, struct facet_error *error)
{
    char number[40];
    const char *text = json_string_value(at->value);
    struct facet_error unused;

    *ret_amount = 0;
    error = error ? error : &unused;
    if (json_is_integer(at->value)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(at->value));
        text = number;
    }
    if (!text) {
        replay_refuse(at, "an amount, as a text or an integer");
        return false;
    }

    int64_t magnitude = 0;
    enum facet_status status = facet_amount_parse(text + (text[0] == '-'), "amount", &magnitude, error);
    if (status == FACET_INVALID_ARGUMENT || (text[0] == '-' && text[1] == '-'))
        replay_refuse(at, "a decimal number");
    *ret_amount = text[0] == '-' ? -magnitude : magnitude;
    return status == FACET_OK;
}

uint64_t replay_whole(const struct replay_value *at)
{
    if (json_is_integer(at->value) && json_integer_value(at->value) >= 0)
        return (uint64_t)json_integer_value(at->value);
    replay_refuse(at, "a whole number of 0 or more");
    return 0;
}

uint32_t replay_choice(const struct replay_value *at, const char *const *names, uint32_t fallback)
{
    char expected[160] = "one of";
    const char *text;

    if (!replay_present(at))
        return fallback;
    text = replay_string(at);
    for (uint32_t i = 0; names[i]; i++) {
        size_t length = strlen(expected);

        if (strcasecmp(names[i], text) == 0)
            return i;
        snprintf(expected + length, sizeof expected - length, " %s", names[i]);
    }
    replay_refuse(at, expected);
    return fallback;
}

/* Reads the amounts of one slot's devices. False: an unknown device has an amount that is not 0. */
static bool read_devices(struct replay_run *run, const struct replay_value *at, const char *slot, int64_t *amounts)
{
    const char *id;
    json_t *value;
    bool known = true;

    if (!replay_expect_object(at))
        return true;
    json_object_foreach (at->value, id, value) {
        struct replay_value member = replay_member(at, id);
        uint32_t place = 0;
        int64_t amount = 0;

        if (!replay_amount(&member, &amount, NULL))
            replay_refuse(&member, "an amount of at most 6 decimals");
        if (facet_maps_find_place(run->maps, slot, id, &place, NULL) == FACET_OK)
            amounts[place] += amount;
        else
            known = known && amount == 0;
    }
    return known;
}

static bool read_slots(struct replay_run *run, const struct replay_value *at, int64_t *amounts)
{
    const char *slot;
    json_t *value;
    bool known = true;

    if (!replay_expect_object(at))
        return true;
    json_object_foreach (at->value, slot, value) {
        struct replay_value member = replay_member(at, slot);

        known = read_devices(run, &member, slot, amounts) && known;
    }
    return known;
}

bool replay_allocation(struct replay_run *run, const struct replay_value *at, int64_t *amounts)
{
    const char *map;
    json_t *value;
    bool known = true;

    memset(amounts, 0, run->places * sizeof *amounts);
    if (!run->has_several_maps)
        return read_slots(run, at, amounts);
    if (!replay_expect_object(at))
        return true;
    json_object_foreach (at->value, map, value) {
        struct replay_value member = replay_member(at, map);

        known = read_slots(run, &member, amounts) && known;
    }
    return known;
}
