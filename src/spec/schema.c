/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: one function for each keyword of a schema. Never: stops at the first violation. */
#include "spec/schema.h"

#include <regex.h>
#include <stdio.h>

#include "spec/json.h"

/* Our schemas nest far less; a schema that refers to itself ends here. */
enum { DEPTH_MAX = 64 };

struct judge {
    const json_t *root;
    struct facet_violations *violations;
    const char *unknown; /* a keyword that is not known */
    unsigned depth;
};

struct look {
    struct judge *judge;
    const struct facet_step *step;
    const json_t *schema; /* that has the keyword */
    const json_t *rule;   /* the keyword's value */
    const json_t *value;
};

static void judge_value(struct judge *judge, const json_t *schema, const json_t *value, const struct facet_step *step);

#define REPORT(look, ...) facet_violations_add((look)->judge->violations, (look)->step, __VA_ARGS__)

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object", [JSON_ARRAY] = "array",  [JSON_STRING] = "string", [JSON_INTEGER] = "integer",
        [JSON_REAL] = "number",   [JSON_TRUE] = "boolean", [JSON_FALSE] = "boolean", [JSON_NULL] = "null"};

    return names[json_typeof(value)];
}

/* 1.0 is an integer to JSON Schema, but an amount that was written with a point is not one of ours. */
static void judge_type(const struct look *look)
{
    if (strcmp(type_name(look->value), json_string_value(look->rule)) != 0)
        REPORT(look, "expected %s, got %s", json_string_value(look->rule), type_name(look->value));
}

static void judge_const(const struct look *look)
{
    if (!json_equal(look->rule, look->value))
        REPORT(look, "expected \"%s\"", json_string_value(look->rule));
}

static void judge_enum(const struct look *look)
{
    char known[160] = "";
    size_t index, used = 0;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)look->rule, index, item) {
        if (json_equal(item, look->value))
            return;
        if (used < sizeof known)
            used +=
                (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", json_string_value(item));
    }
    REPORT(look, "expected one of %s%s%.40s", known, json_is_string(look->value) ? ", got " : "",
           json_is_string(look->value) ? json_string_value(look->value) : "");
}

static void judge_ref(const struct look *look)
{
    const char *name = json_string_value(look->rule);
    const json_t *target = json_object_get(json_object_get(look->judge->root, "$defs"), name + strlen("#/$defs/"));

    if (target)
        judge_value(look->judge, target, look->value, look->step);
    else
        look->judge->unknown = name;
}

static void judge_required(const struct look *look)
{
    json_t *name;
    size_t index;

    if (!json_is_object(look->value))
        return;
    json_array_foreach ((json_t *)(uintptr_t)look->rule, index, name)
        if (!json_object_get(look->value, json_string_value(name)))
            REPORT(look, "expected the member '%s', which is missing", json_string_value(name));
}

static void judge_properties(const struct look *look)
{
    const char *name;
    json_t *schema;

    json_object_foreach ((json_t *)(uintptr_t)look->rule, name, schema) {
        const json_t *value = json_object_get(look->value, name);
        const struct facet_step step = {.parent = look->step, .key = name};
        if (value)
            judge_value(look->judge, schema, value, &step);
    }
}

/* Members that `properties` does not name; the schemas are open, so this is only for maps. */
static void judge_additional(const struct look *look)
{
    const json_t *named = json_object_get(look->schema, "properties");
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)look->value, name, value) {
        const struct facet_step step = {.parent = look->step, .key = name};
        if (!json_object_get(named, name))
            judge_value(look->judge, look->rule, value, &step);
    }
}

static void judge_names(const struct look *look)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)look->value, name, value) {
        const struct facet_step step = {.parent = look->step, .key = name};
        FACET_CLEANUP_JSON json_t *text = json_string(name);
        if (text)
            judge_value(look->judge, look->rule, text, &step);
        else
            facet_violations_break(look->judge->violations);
    }
}

static void judge_items(const struct look *look)
{
    size_t index;
    json_t *value;

    json_array_foreach ((json_t *)(uintptr_t)look->value, index, value) {
        const struct facet_step step = {.parent = look->step, .index = index};
        judge_value(look->judge, look->rule, value, &step);
    }
}

/*
 * By a table of texts, as unique values are texts and small numbers here: so a long list does not cost quadratic time.
 */
static void judge_unique(const struct look *look)
{
    FACET_CLEANUP_JSON json_t *seen = json_object();
    size_t index;
    json_t *value;

    json_array_foreach ((json_t *)(uintptr_t)look->value, index, value) {
        const struct facet_step step = {.parent = look->step, .index = index};
        char number[32];

        if (!json_is_string(value) && !json_is_integer(value))
            continue;
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        const char *text = json_is_string(value) ? json_string_value(value) : number;
        if (json_object_get(seen, text))
            facet_violations_add(look->judge->violations, &step, "expected each once, got '%.80s' again", text);
        else if (json_object_set_new(seen, text, json_true()) < 0)
            facet_violations_break(look->judge->violations);
    }
}

static void judge_minimum(const struct look *look)
{
    if (json_is_integer(look->value) && json_integer_value(look->value) < json_integer_value(look->rule))
        REPORT(look, "expected at least %" JSON_INTEGER_FORMAT ", got %" JSON_INTEGER_FORMAT,
               json_integer_value(look->rule), json_integer_value(look->value));
}

static void judge_maximum(const struct look *look)
{
    if (json_is_integer(look->value) && json_integer_value(look->value) > json_integer_value(look->rule))
        REPORT(look, "expected at most %" JSON_INTEGER_FORMAT ", got %" JSON_INTEGER_FORMAT,
               json_integer_value(look->rule), json_integer_value(look->value));
}

/* In characters, not bytes. */
static json_int_t length_of(const json_t *value)
{
    json_int_t length = 0;

    for (const char *text = json_string_value(value); text && *text; text++)
        length += ((unsigned char)*text & 0xc0) != 0x80;
    return length;
}

static void judge_min_length(const struct look *look)
{
    if (json_is_string(look->value) && length_of(look->value) < json_integer_value(look->rule))
        REPORT(look, "expected at least %" JSON_INTEGER_FORMAT " characters", json_integer_value(look->rule));
}

static void judge_max_length(const struct look *look)
{
    if (json_is_string(look->value) && length_of(look->value) > json_integer_value(look->rule))
        REPORT(look, "expected at most %" JSON_INTEGER_FORMAT " characters, got %" JSON_INTEGER_FORMAT,
               json_integer_value(look->rule), length_of(look->value));
}

/* A text that is too long is reported as such, and not matched. */
static void judge_pattern(const struct look *look)
{
    const json_t *longest = json_object_get(look->schema, "maxLength");
    const char *pattern = json_string_value(look->rule), *text = json_string_value(look->value);
    regex_t compiled;

    if (!text || (longest && length_of(look->value) > json_integer_value(longest)))
        return;
    int status = regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB);
    if (status != 0) {
        if (status != REG_ESPACE)
            look->judge->unknown = pattern;
        facet_violations_break(look->judge->violations);
        return;
    }
    status = regexec(&compiled, text, 0, NULL, 0);
    regfree(&compiled);
    if (status == REG_ESPACE)
        facet_violations_break(look->judge->violations);
    else if (status != 0)
        REPORT(look, "expected the pattern %s, got '%.60s'", pattern, text);
}

static void judge_nothing(const struct look *look)
{
}

static const struct {
    const char *name;
    void (*judge)(const struct look *look);
} keywords[] = {
    {"$ref", judge_ref},
    {"$schema", judge_nothing},
    {"$id", judge_nothing},
    {"$defs", judge_nothing},
    {"title", judge_nothing},
    {"description", judge_nothing},
    {"type", judge_type},
    {"const", judge_const},
    {"enum", judge_enum},
    {"required", judge_required},
    {"properties", judge_properties},
    {"additionalProperties", judge_additional},
    {"propertyNames", judge_names},
    {"items", judge_items},
    {"uniqueItems", judge_unique},
    {"minimum", judge_minimum},
    {"maximum", judge_maximum},
    {"minLength", judge_min_length},
    {"maxLength", judge_max_length},
    {"pattern", judge_pattern},
};

static void judge_keyword(const struct look *look, const char *name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strcmp(keywords[i].name, name) == 0) {
            keywords[i].judge(look);
            return;
        }
    }
    look->judge->unknown = name;
}

static void judge_value(struct judge *judge, const json_t *schema, const json_t *value, const struct facet_step *step)
{
    struct look look = {.judge = judge, .step = step, .schema = schema, .value = value};
    const char *name;
    json_t *rule;

    if (judge->depth == DEPTH_MAX) {
        judge->unknown = "$ref without an end";
        return;
    }
    judge->depth++;
    json_object_foreach ((json_t *)(uintptr_t)schema, name, rule) {
        look.rule = rule;
        judge_keyword(&look, name);
    }
    judge->depth--;
}

enum facet_status facet_schema_judge(const json_t *schema, const json_t *document, struct facet_violations *violations,
                                     struct facet_error *error)
{
    struct judge judge = {.root = schema, .violations = violations};
    const struct facet_step step = {0};

    judge_value(&judge, schema, document, &step);
    if (judge.unknown)
        return facet_error_set(error, FACET_INTERNAL, "a schema has '%s', which is not known", judge.unknown);
    return facet_violations_broken(violations) ? facet_json_no_memory(error) : FACET_OK;
}
