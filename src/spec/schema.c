/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one function for each keyword of a schema. Never: stops at the first violation. */
#include "spec/schema.h"

#include <regex.h>
#include <stdio.h>

#include "spec/json.h"

/* Our schemas nest far less deep; this bound ends a schema that refers to itself. */
enum { DEPTH_MAX = 64 };

struct validation {
    const json_t *root;
    struct facet_violations *violations;
    const char *unknown; /* a keyword of the schema that is not known here */
    unsigned depth;
};

struct check {
    struct validation *validation;
    const struct facet_step *step;
    const json_t *schema; /* the schema that has the keyword */
    const json_t *rule;   /* the keyword's value */
    const json_t *value;
};

static void check_value(struct validation *validation, const json_t *schema, const json_t *value,
                        const struct facet_step *step);

#define REPORT(check, ...) facet_violations_add((check)->validation->violations, (check)->step, __VA_ARGS__)

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object", [JSON_ARRAY] = "array",  [JSON_STRING] = "string", [JSON_INTEGER] = "integer",
        [JSON_REAL] = "number",   [JSON_TRUE] = "boolean", [JSON_FALSE] = "boolean", [JSON_NULL] = "null"};

    return names[json_typeof(value)];
}

/* JSON Schema takes 1.0 for an integer; here a number with a point is none. */
static void check_type(const struct check *check)
{
    if (strcmp(type_name(check->value), json_string_value(check->rule)) != 0)
        REPORT(check, "expected %s, got %s", json_string_value(check->rule), type_name(check->value));
}

static void check_const(const struct check *check)
{
    if (!json_equal(check->rule, check->value))
        REPORT(check, "expected \"%s\"", json_string_value(check->rule));
}

static void check_enum(const struct check *check)
{
    char known[160] = "";
    size_t index, used = 0;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)check->rule, index, item) {
        if (json_equal(item, check->value))
            return;
        if (used < sizeof known)
            used +=
                (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", json_string_value(item));
    }
    REPORT(check, "expected one of %s%s%.40s", known, json_is_string(check->value) ? ", got " : "",
           json_is_string(check->value) ? json_string_value(check->value) : "");
}

static void check_ref(const struct check *check)
{
    const char *name = json_string_value(check->rule);
    const json_t *target =
        json_object_get(json_object_get(check->validation->root, "$defs"), name + strlen("#/$defs/"));

    if (target)
        check_value(check->validation, target, check->value, check->step);
    else
        check->validation->unknown = name;
}

static void check_required(const struct check *check)
{
    json_t *name;
    size_t index;

    if (!json_is_object(check->value))
        return;
    json_array_foreach ((json_t *)(uintptr_t)check->rule, index, name)
        if (!json_object_get(check->value, json_string_value(name)))
            REPORT(check, "expected the member '%s', which is missing", json_string_value(name));
}

static void check_properties(const struct check *check)
{
    const char *name;
    json_t *schema;

    json_object_foreach ((json_t *)(uintptr_t)check->rule, name, schema) {
        const json_t *value = json_object_get(check->value, name);
        const struct facet_step step = {.parent = check->step, .key = name};
        if (value)
            check_value(check->validation, schema, value, &step);
    }
}

/* Checks members that `properties` does not name. Our schemas are open, so only maps have this keyword. */
static void check_additional(const struct check *check)
{
    const json_t *named = json_object_get(check->schema, "properties");
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)check->value, name, value) {
        const struct facet_step step = {.parent = check->step, .key = name};
        if (!json_object_get(named, name))
            check_value(check->validation, check->rule, value, &step);
    }
}

static void check_names(const struct check *check)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)check->value, name, value) {
        const struct facet_step step = {.parent = check->step, .key = name};
        FACET_CLEANUP_JSON json_t *text = json_string(name);
        if (text)
            check_value(check->validation, check->rule, text, &step);
        else
            facet_violations_break(check->validation->violations);
    }
}

static void check_items(const struct check *check)
{
    size_t index;
    json_t *value;

    json_array_foreach ((json_t *)(uintptr_t)check->value, index, value) {
        const struct facet_step step = {.parent = check->step, .index = index};
        check_value(check->validation, check->rule, value, &step);
    }
}

/*
 * Uses a table of texts, so that a long list does not cost quadratic time: unique values are texts or integers in our
 * schemas.
 */
static void check_unique(const struct check *check)
{
    FACET_CLEANUP_JSON json_t *seen = json_object();
    size_t index;
    json_t *value;

    json_array_foreach ((json_t *)(uintptr_t)check->value, index, value) {
        const struct facet_step step = {.parent = check->step, .index = index};
        char number[32];

        if (!json_is_string(value) && !json_is_integer(value))
            continue;
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        if (json_object_get(seen, text))
            facet_violations_add(check->validation->violations, &step, "expected each once, got '%.80s' again", text);
        else if (json_object_set_new(seen, text, json_true()) < 0)
            facet_violations_break(check->validation->violations);
    }
}

static void check_minimum(const struct check *check)
{
    if (json_is_integer(check->value) && json_integer_value(check->value) < json_integer_value(check->rule))
        REPORT(check, "expected at least %" JSON_INTEGER_FORMAT ", got %" JSON_INTEGER_FORMAT,
               json_integer_value(check->rule), json_integer_value(check->value));
}

static void check_maximum(const struct check *check)
{
    if (json_is_integer(check->value) && json_integer_value(check->value) > json_integer_value(check->rule))
        REPORT(check, "expected at most %" JSON_INTEGER_FORMAT ", got %" JSON_INTEGER_FORMAT,
               json_integer_value(check->rule), json_integer_value(check->value));
}

/* The length of a text in characters, not bytes. */
static json_int_t length_of(const json_t *value)
{
    json_int_t length = 0;

    for (const char *text = json_string_value(value); text && *text; text++)
        length += ((unsigned char)*text & 0xc0) != 0x80;
    return length;
}

static void check_min_length(const struct check *check)
{
    if (json_is_string(check->value) && length_of(check->value) < json_integer_value(check->rule))
        REPORT(check, "expected at least %" JSON_INTEGER_FORMAT " characters", json_integer_value(check->rule));
}

static void check_max_length(const struct check *check)
{
    if (json_is_string(check->value) && length_of(check->value) > json_integer_value(check->rule))
        REPORT(check, "expected at most %" JSON_INTEGER_FORMAT " characters, got %" JSON_INTEGER_FORMAT,
               json_integer_value(check->rule), length_of(check->value));
}

/* A text that is too long is reported by check_max_length(), and not matched here. */
static void check_pattern(const struct check *check)
{
    const json_t *longest = json_object_get(check->schema, "maxLength");
    const char *pattern = json_string_value(check->rule), *text = json_string_value(check->value);
    regex_t compiled;

    if (!text || (longest && length_of(check->value) > json_integer_value(longest)))
        return;
    int status = regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB);
    if (status != 0) {
        if (status != REG_ESPACE)
            check->validation->unknown = pattern;
        facet_violations_break(check->validation->violations);
        return;
    }
    status = regexec(&compiled, text, 0, NULL, 0);
    regfree(&compiled);
    if (status == REG_ESPACE)
        facet_violations_break(check->validation->violations);
    else if (status != 0)
        REPORT(check, "expected the pattern %s, got '%.60s'", pattern, text);
}

static void check_nothing(const struct check *check)
{
}

static const struct {
    const char *name;
    void (*run)(const struct check *check);
} keywords[] = {
    {"$ref", check_ref},
    {"$schema", check_nothing},
    {"$id", check_nothing},
    {"$defs", check_nothing},
    {"title", check_nothing},
    {"description", check_nothing},
    {"type", check_type},
    {"const", check_const},
    {"enum", check_enum},
    {"required", check_required},
    {"properties", check_properties},
    {"additionalProperties", check_additional},
    {"propertyNames", check_names},
    {"items", check_items},
    {"uniqueItems", check_unique},
    {"minimum", check_minimum},
    {"maximum", check_maximum},
    {"minLength", check_min_length},
    {"maxLength", check_max_length},
    {"pattern", check_pattern},
};

static void check_keyword(const struct check *check, const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            keywords[i].run(check);
            return;
        }
    }
    check->validation->unknown = name;
}

static void check_value(struct validation *validation, const json_t *schema, const json_t *value,
                        const struct facet_step *step)
{
    struct check check = {.validation = validation, .step = step, .schema = schema, .value = value};
    const char *name;
    json_t *rule;

    if (validation->depth == DEPTH_MAX) {
        validation->unknown = "$ref in a circle";
        return;
    }
    validation->depth++;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, rule) {
        check.rule = rule;
        check_keyword(&check, name);
    }
    validation->depth--;
}

enum facet_status facet_schema_judge(const json_t *schema, const json_t *document, struct facet_violations *violations,
                                     struct facet_error *error)
{
    struct validation validation = {.root = schema, .violations = violations};
    const struct facet_step step = {0};

    check_value(&validation, schema, document, &step);
    if (validation.unknown)
        return facet_error_set(error, FACET_INTERNAL, "a schema has the keyword '%s', which is not supported",
                               validation.unknown);
    return facet_violations_broken(violations) ? facet_json_no_memory(error) : FACET_OK;
}
