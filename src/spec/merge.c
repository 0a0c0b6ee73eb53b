/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the rules by which configurations are merged. Never: overwrites a value, or leaves a merge half done. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "spec/workload.h"

struct merge {
    const char *into_name, *from_name;
    struct facet_error *error;
};

/* Lists whose items are merged into one item when they have the same `key`. */
static const struct {
    const char *list, *key;
} keyed[] = {{"mounts", "target"}, {"device_nodes", "path"}, {"hooks", "target"}};

static const char *key_of(const struct facet_step *step)
{
    for (size_t i = 0; step->parent && !step->parent->parent && i < sizeof keyed / sizeof keyed[0]; i++)
        if (step->key && strcmp(step->key, keyed[i].list) == 0)
            return keyed[i].key;
    return NULL;
}

static enum facet_status refuse_conflict(const struct merge *merge, const struct facet_step *step)
{
    FACET_CLEANUP_FREE char *pointer = facet_step_pointer(step);

    if (!pointer)
        return facet_json_no_memory(merge->error);
    return facet_error_argument(merge->error, FACET_ALREADY_EXISTS, "workload",
                                "%.160s: '%.60s' and '%.60s' give it different values; expected one of them to give it",
                                pointer, merge->into_name, merge->from_name);
}

static enum facet_status merge_value(const struct merge *merge, json_t *into, const json_t *from,
                                     const struct facet_step *step);

static enum facet_status merge_object(const struct merge *merge, json_t *into, const json_t *from,
                                      const struct facet_step *step)
{
    enum facet_status status = FACET_OK;
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)from, name, value) {
        json_t *old = json_object_get(into, name);
        const struct facet_step at = {.parent = step, .key = name};
        if (status == FACET_OK && old)
            status = merge_value(merge, old, value, &at);
        else if (status == FACET_OK && json_object_set_new(into, name, facet_json_deep_copy(value)) < 0)
            status = facet_json_no_memory(merge->error);
    }
    return status;
}

static bool array_contains(const json_t *array, const json_t *value)
{
    size_t index;
    json_t *item;

    json_array_foreach ((json_t *)(uintptr_t)array, index, item)
        if (json_equal(item, value))
            return true;
    return false;
}

static enum facet_status merge_array(const struct merge *merge, json_t *into, const json_t *from,
                                     const struct facet_step *step)
{
    const char *key = key_of(step);
    enum facet_status status = FACET_OK;
    size_t index, place;
    json_t *value;

    json_array_foreach ((json_t *)(uintptr_t)from, index, value) {
        place = key ? facet_json_find(into, key, facet_json_text(value, key)) : json_array_size(into);
        const struct facet_step at = {.parent = step, .index = place};
        if (status != FACET_OK || array_contains(into, value))
            continue;
        if (place < json_array_size(into))
            status = merge_value(merge, json_array_get(into, place), value, &at);
        else if (json_array_append_new(into, facet_json_deep_copy(value)) < 0)
            status = facet_json_no_memory(merge->error);
    }
    return status;
}

static enum facet_status merge_value(const struct merge *merge, json_t *into, const json_t *from,
                                     const struct facet_step *step)
{
    if (json_is_object(into) && json_is_object(from))
        return merge_object(merge, into, from, step);
    if (json_is_array(into) && json_is_array(from))
        return merge_array(merge, into, from, step);
    return json_equal(into, from) ? FACET_OK : refuse_conflict(merge, step);
}

/* The two configurations may have different minor versions: both get the later version. */
static enum facet_status merge_version(json_t *into, json_t *from, struct facet_error *error)
{
    const char *old = facet_json_text(into, "version"), *new = facet_json_text(from, "version");
    unsigned long old_minor = old && strlen(old) > 2 ? strtoul(old + 2, NULL, 10) : 0;
    unsigned long new_minor = new &&strlen(new) > 2 ? strtoul(new + 2, NULL, 10) : 0;
    json_t *later = json_object_get(new_minor > old_minor ? from : into, "version");

    if (new &&later && (json_object_set(into, "version", later) < 0 || json_object_set(from, "version", later) < 0))
        return facet_json_no_memory(error);
    return FACET_OK;
}

enum facet_status facet_merge_configuration(json_t **root, const char *into_name, const json_t *from,
                                            const char *from_name, struct facet_error *error)
{
    const struct merge merge = {.into_name = into_name, .from_name = from_name, .error = error};
    const struct facet_step step = {0};
    FACET_CLEANUP_JSON json_t *draft = facet_json_deep_copy(*root);
    FACET_CLEANUP_JSON json_t *other = facet_json_copy(from);

    if (!draft || !other)
        return facet_json_no_memory(error);
    enum facet_status status = merge_version(draft, other, error);
    if (status == FACET_OK)
        status = merge_value(&merge, draft, other, &step);
    if (status != FACET_OK)
        return status;
    json_decref(*root);
    *root = json_incref(draft);
    return FACET_OK;
}
