/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: converting structs to JSON and back by a table of fields. Never: names a member of a document. */
#include "spec/fields.h"

#include <inttypes.h>

#include <facet/spec.h>

static bool has_bit(const struct facet_fields *fields, const struct facet_field *field, const void *from)
{
    uint32_t valid = 0;

    if (!field->bit || fields->valid == SIZE_MAX)
        return true;
    memcpy(&valid, (const char *)from + fields->valid, sizeof valid);
    return valid & field->bit;
}

static void set_bit(const struct facet_fields *fields, const struct facet_field *field, void *to)
{
    uint32_t valid = 0;

    if (!field->bit || fields->valid == SIZE_MAX)
        return;
    memcpy(&valid, (char *)to + fields->valid, sizeof valid);
    valid |= field->bit;
    memcpy((char *)to + fields->valid, &valid, sizeof valid);
}

/* The value with this name; false when no value has the name. */
static bool value_of_name(const struct facet_field *field, const char *text, uint32_t *ret_value)
{
    enum { VALUES = 16 };

    for (uint32_t value = 0; text && value < VALUES; value++) {
        const char *name = field->name(value);
        if (name && strcmp(name, text) == 0) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool get_u32(const struct facet_field *field, const json_t *value, uint32_t *ret_number)
{
    if (field->kind == FACET_FIELD_NAME)
        return value_of_name(field, json_string_value(value), ret_number);
    if (field->kind == FACET_FIELD_BOOL) {
        *ret_number = json_is_true(value);
        return json_is_boolean(value);
    }
    *ret_number = (uint32_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= UINT32_MAX;
}

static bool get_field(const struct facet_field *field, const json_t *value, void *to)
{
    uint64_t wide = (uint64_t)json_integer_value(value);
    const char *text = json_string_value(value);
    uint32_t number;
    int64_t micro;

    switch (field->kind) {
    case FACET_FIELD_TEXT:
        memcpy(to, &text, sizeof text);
        return text != NULL;
    case FACET_FIELD_U64:
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return false;
        memcpy(to, &wide, sizeof wide);
        return true;
    case FACET_FIELD_AMOUNT:
        if (!text || facet_amount_parse(text, "amount", &micro, NULL) != FACET_OK)
            return false;
        memcpy(to, &micro, sizeof micro);
        return true;
    default:
        if (!get_u32(field, value, &number))
            return false;
        memcpy(to, &number, sizeof number);
        return true;
    }
}

void facet_fields_get(const struct facet_fields *fields, const json_t *item, void *ret_struct)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct facet_field *field = &fields->list[i];
        const json_t *owner = field->group ? json_object_get(item, field->group) : item;

        if (get_field(field, json_object_get(owner, field->key), (char *)ret_struct + field->offset))
            set_bit(fields, field, ret_struct);
    }
}

/* --- struct to JSON --------------------------------------------------------------------------------------------- */

/*
 * Makes a member's JSON value; *ret_value is NULL when the member is absent. False: JSON cannot hold the value, or
 * there is no memory.
 */
static bool make_u32(const struct facet_field *field, const void *from, json_t **ret_value)
{
    uint32_t number;

    memcpy(&number, from, sizeof number);
    if (field->kind == FACET_FIELD_BOOL)
        *ret_value = json_boolean(number != 0);
    else if (field->kind == FACET_FIELD_U32)
        *ret_value = json_integer(number);
    else if (!field->name(number))
        return true;
    else
        *ret_value = json_string(field->name(number));
    return *ret_value != NULL;
}

static bool make_amount(const void *from, json_t **ret_value)
{
    char text[FACET_AMOUNT_SIZE];
    int64_t micro;

    memcpy(&micro, from, sizeof micro);
    *ret_value = json_string(facet_amount_format(micro, text, FACET_AMOUNT_SIZE));
    return *ret_value != NULL;
}

static bool make_text(const void *from, json_t **ret_value)
{
    const char *text;

    memcpy(&text, from, sizeof text);
    if (text)
        *ret_value = json_string(text);
    return !text || *ret_value;
}

static bool make_u64(const void *from, json_t **ret_value)
{
    uint64_t wide;

    memcpy(&wide, from, sizeof wide);
    if (wide <= INT64_MAX)
        *ret_value = json_integer((json_int_t)wide);
    return *ret_value != NULL;
}

static bool make_value(const struct facet_field *field, const void *from, json_t **ret_value)
{
    switch (field->kind) {
    case FACET_FIELD_TEXT:
        return make_text(from, ret_value);
    case FACET_FIELD_U64:
        return make_u64(from, ret_value);
    case FACET_FIELD_AMOUNT:
        return make_amount(from, ret_value);
    default:
        return make_u32(field, from, ret_value);
    }
}

/* Says why a value could not be made: a text is not UTF-8, a number is too large for JSON, or memory ran out. */
static enum facet_status refuse_field(const struct facet_field *field, const void *from, struct facet_error *error)
{
    uint64_t wide = 0;

    if (field->kind == FACET_FIELD_U64)
        memcpy(&wide, from, sizeof wide);
    if (wide > INT64_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, field->key, "%s %" PRIu64 ": expected at most %" PRId64,
                                    field->key, wide, INT64_MAX);
    if (field->kind == FACET_FIELD_TEXT) {
        const char *text;
        memcpy(&text, from, sizeof text);
        if (text && !facet_json_is_utf8(text))
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, field->key, "%s '%.60s': expected UTF-8",
                                        field->key, text);
    }
    return facet_json_no_memory(error);
}

static json_t *owner_of(const struct facet_field *field, json_t *item)
{
    json_t *owner = field->group ? json_object_get(item, field->group) : item;

    if (!owner && json_object_set_new(item, field->group, json_object()) == 0)
        owner = json_object_get(item, field->group);
    return owner;
}

/*
 * Without the head of a group the whole group is removed: members unknown to this version would be invalid without it,
 * too.
 */
static void remove_field(const struct facet_field *field, json_t *item)
{
    json_t *owner = field->group ? json_object_get(item, field->group) : item;

    json_object_del(owner, field->key);
    if (field->group && owner && (field->heads || json_object_size(owner) == 0))
        json_object_del(item, field->group);
}

enum facet_status facet_fields_put(const struct facet_fields *fields, const void *from, json_t *item,
                                   struct facet_error *error)
{
    for (size_t i = 0; i < fields->count; i++) {
        const struct facet_field *field = &fields->list[i];
        const void *member = (const char *)from + field->offset;
        json_t *value = NULL;

        if (has_bit(fields, field, from) && !make_value(field, member, &value))
            return refuse_field(field, member, error);
        if (!value)
            remove_field(field, item);
        else if (json_object_set_new(owner_of(field, item), field->key, value) < 0)
            return facet_json_no_memory(error);
    }
    return FACET_OK;
}
