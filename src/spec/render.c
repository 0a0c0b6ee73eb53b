/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the common part of all forms, and the order of a rendering. Never: names a form's keys. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "spec/document.h"
#include "spec/workload.h"

static const struct {
    const char *name;
    void (*render)(struct facet_rendering *rendering);
} forms[] = {
    [FACET_RENDER_DOCKER] = {"docker", facet_render_docker},
    [FACET_RENDER_OCI] = {"oci", facet_render_oci},
    [FACET_RENDER_CDI] = {"cdi", facet_render_cdi},
    [FACET_RENDER_ENVIRONMENT] = {"env", facet_render_plain},
};

const char *facet_render_name(uint32_t form)
{
    return form < sizeof forms / sizeof forms[0] ? forms[form].name : NULL;
}

void facet_render_leave(struct facet_rendering *rendering, const char *setting, const char *why)
{
    const struct facet_step root = {0}, at = {.parent = &root, .key = setting};

    facet_violations_add(rendering->left, &at, "%s", why);
}

/* The member of `owner` that the next part of a path names, made with `make` when it is absent. */
static json_t *enter_member(struct facet_rendering *rendering, json_t *owner, const char *part, size_t length,
                            json_t *(*make)(void))
{
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)length, part);
    json_t *found = json_object_get(owner, name);
    if (!found && owner && json_object_set_new(owner, name, make()) == 0)
        found = json_object_get(owner, name);
    if (!found)
        rendering->failed = true;
    return found;
}

static json_t *walk_path(struct facet_rendering *rendering, const char *path, json_t *(*last)(void))
{
    json_t *at = rendering->to;

    while (at && *path) {
        size_t length = strcspn(path, "/");
        bool more = path[length] == '/';
        at = enter_member(rendering, at, path, length, more ? json_object : last);
        path += length + more;
    }
    return at;
}

json_t *facet_render_object(struct facet_rendering *rendering, const char *path)
{
    return walk_path(rendering, path, json_object);
}

json_t *facet_render_array(struct facet_rendering *rendering, const char *path)
{
    return walk_path(rendering, path, json_array);
}

void facet_render_set(struct facet_rendering *rendering, const char *path, const char *key, json_t *value)
{
    if (json_object_set_new(facet_render_object(rendering, path), key, value) < 0)
        rendering->failed = true;
}

void facet_render_append(struct facet_rendering *rendering, const char *path, json_t *value)
{
    if (json_array_append_new(facet_render_array(rendering, path), value) < 0)
        rendering->failed = true;
}

/* --- environment ------------------------------------------------------------------------------------------------ */

static void append_pair(struct facet_rendering *rendering, const char *path, const char *name, const char *value)
{
    facet_render_append(rendering, path, json_sprintf("%s=%s", name, value));
}

/* Whether the dynamic linker would read the path in LD_PRELOAD as two paths. */
static bool is_split_in_preload(const char *path)
{
    return path[strcspn(path, ": ")] != '\0';
}

/* Makes "a.so:b.so": the configuration's own preloads, then the hooks in their order. */
static char *join_hooks(struct facet_rendering *rendering, const char *before, const char *member)
{
    const json_t *hooks = json_object_get(rendering->from, "hooks");
    size_t index, size = strlen(before) + 1, used;
    json_t *hook;

    json_array_foreach ((json_t *)(uintptr_t)hooks, index, hook)
        size += strlen(facet_json_text(hook, member)) + 1;
    char *text = malloc(size);
    if (!text)
        return NULL;
    used = (size_t)snprintf(text, size, "%s", before);
    json_array_foreach ((json_t *)(uintptr_t)hooks, index, hook) {
        const char *path = facet_json_text(hook, member);
        if (is_split_in_preload(path))
            facet_render_leave(rendering, "hooks", "LD_PRELOAD is split at colons and spaces");
        else
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ":" : "", path);
    }
    return text;
}

void facet_render_environment(struct facet_rendering *rendering, const char *path, bool inside)
{
    const json_t *environment = json_object_get(rendering->from, "environment");
    const char *before = facet_json_text(environment, "LD_PRELOAD"), *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)environment, name, value)
        if (strcmp(name, "LD_PRELOAD") != 0)
            append_pair(rendering, path, name, json_string_value(value));
    FACET_CLEANUP_FREE char *preload = join_hooks(rendering, before ? before : "", inside ? "target" : "source");
    if (!preload)
        rendering->failed = true;
    else if (before || preload[0])
        append_pair(rendering, path, "LD_PRELOAD", preload);
}

/* --- system calls ----------------------------------------------------------------------------------------------- */

/* A copy of the profile that system calls are added to; NULL when there is none. */
static json_t *base_profile(struct facet_rendering *rendering)
{
    const json_t *seccomp = json_object_get(rendering->from, "seccomp"), *own = json_object_get(seccomp, "profile");
    const char *text = rendering->options->seccomp_profile;
    json_t *profile = NULL;

    if (own)
        profile = facet_json_deep_copy(own);
    else if (text && facet_json_read(text, strlen(text), &profile, NULL) == FACET_NO_MEMORY)
        rendering->failed = true;
    rendering->failed = rendering->failed || (own && !profile);
    return profile;
}

json_t *facet_render_seccomp(struct facet_rendering *rendering)
{
    const json_t *calls = json_object_get(rendering->from, "system_calls");
    const char *mode = facet_json_text(json_object_get(rendering->from, "seccomp"), "mode");

    if (mode && strcmp(mode, "unconfined") == 0)
        return NULL; /* all system calls are allowed */
    json_t *profile = base_profile(rendering);
    if (json_array_size(calls) == 0) {
        if (mode && strcmp(mode, "profile") == 0)
            return profile;
        json_decref(profile);
        return NULL;
    }
    if (!profile) {
        facet_render_leave(rendering, "system_calls", "needs a profile to add them to");
        return NULL;
    }
    json_t *list = json_object_get(profile, "syscalls");
    if (list && !json_is_array(list)) {
        facet_render_leave(rendering, "system_calls", "needs a profile in which 'syscalls' is a list");
        json_decref(profile);
        return NULL;
    }
    FACET_CLEANUP_JSON json_t *all = list ? facet_json_copy(list) : json_array();
    if (json_array_append_new(all, json_pack("{s:O, s:s}", "names", calls, "action", "SCMP_ACT_ALLOW")) < 0 ||
        json_object_set(profile, "syscalls", all) < 0)
        rendering->failed = true;
    return profile;
}

/* --- members of a later version --------------------------------------------------------------------------------- */

/* Adds to `left` the members of one object that its schema does not describe, except "x-...", which are notes. */
static void leave_members(struct facet_rendering *rendering, const json_t *schema, const json_t *object,
                          const char *setting)
{
    const json_t *known = json_object_get(schema, "properties");
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        if (strncmp(name, "x-", 2) != 0 && !json_object_get(known, name))
            facet_render_leave(rendering, setting ? setting : name, "this version does not know all of it");
}

/* Adds to `left` the unknown members of one setting: an object, a list of objects, or a map of objects. */
static void leave_inner(struct facet_rendering *rendering, const json_t *schema, const json_t *setting,
                        const char *name)
{
    const json_t *items = json_object_get(schema, "items"), *values = json_object_get(schema, "additionalProperties");
    const char *key;
    size_t index;
    json_t *item;

    if (json_object_get(schema, "properties"))
        leave_members(rendering, schema, setting, name);
    if (json_object_get(items, "properties"))
        json_array_foreach ((json_t *)(uintptr_t)setting, index, item)
            leave_members(rendering, items, item, name);
    if (json_object_get(values, "properties"))
        json_object_foreach ((json_t *)(uintptr_t)setting, key, item)
            leave_members(rendering, values, item, name);
}

/* Unknown settings may restrict a workload, so the caller must learn of them before it starts the workload. */
static void leave_unknown(struct facet_rendering *rendering, const json_t *schema)
{
    const json_t *known = json_object_get(schema, "properties");
    const char *name;
    json_t *setting;

    leave_members(rendering, schema, rendering->from, NULL);
    json_object_foreach ((json_t *)(uintptr_t)rendering->from, name, setting)
        leave_inner(rendering, json_object_get(known, name), setting, name);
}

/* --- rendering -------------------------------------------------------------------------------------------------- */

static enum facet_status refuse_left(const struct facet_rendering *rendering, const char *form,
                                     struct facet_error *error)
{
    struct facet_violation first = {.size = sizeof first};

    if (facet_violations_get(rendering->left, 0, &first, NULL) != FACET_OK)
        return FACET_OK;
    return facet_error_argument(error, FACET_UNSUPPORTED, first.pointer + 1,
                                "%s cannot express '%s': %s (%" PRIu64 " such settings)", form, first.pointer + 1,
                                first.message, facet_violations_total(rendering->left));
}

/* Replaces each FACET_RENDER_UNLIMITED, with its quotes, by the number 2^64-1, which is a shorter text. */
static void put_unlimited(char *text)
{
    static const char mark[] = "\"" FACET_RENDER_UNLIMITED "\"", number[] = "18446744073709551615";

    for (char *at = strstr(text, mark); at; at = strstr(at, mark)) {
        memcpy(at, number, sizeof number - 1);
        memmove(at + sizeof number - 1, at + sizeof mark - 1, strlen(at + sizeof mark - 1) + 1);
    }
}

static enum facet_status check_profile(const struct facet_render_options *options, struct facet_error *error)
{
    const char *text = options->seccomp_profile;
    FACET_CLEANUP_JSON json_t *profile = NULL;
    enum facet_status status = text ? facet_json_read(text, strlen(text), &profile, error) : FACET_OK;

    if (status != FACET_OK || !text || json_is_object(profile))
        return status;
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "seccomp_profile",
                                "seccomp_profile: expected an object");
}

/* CDI's names have a grammar that the schema of configurations checks, so a configuration with these names is made. */
static enum facet_status check_cdi_names(const struct facet_render_options *options, struct facet_error *error)
{
    struct facet_workload *probe = NULL;
    const char *kind = options->cdi_kind ? options->cdi_kind : "facet.dev/workload";
    const char *device = options->cdi_device ? options->cdi_device : "default";
    size_t size = strlen(kind) + strlen(device) + 2;
    FACET_CLEANUP_FREE char *name = malloc(size);
    enum facet_status status = name ? facet_workload_create(&probe, error) : facet_json_no_memory(error);

    if (status == FACET_OK) {
        snprintf(name, size, "%s=%s", kind, device);
        status = facet_workload_add(probe, FACET_WORKLOAD_CDI_DEVICES, name, error);
    }
    facet_workload_destroy(probe);
    return status;
}

enum facet_status facet_workload_render(const struct facet_workload *workload, uint32_t form,
                                        const struct facet_render_options *options, char **ret_text,
                                        struct facet_violations **ret_left, struct facet_error *error)
{
    struct facet_render_options ours = {0};
    FACET_CLEANUP_JSON json_t *to = NULL;
    FACET_CLEANUP_JSON json_t *schema = NULL;
    FACET_CLEANUP_VIOLATIONS struct facet_violations *left = NULL;
    FACET_CLEANUP_FREE char *checked = NULL;

    if (!facet_render_name(form) || !ret_text || (options && !facet_struct_take(&ours, sizeof ours, options)))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "form",
                                    "form %" PRIu32 ": expected docker, oci, cdi or env, and room for a result", form);
    FACET_NEED_KNOWN("options", options, error);
    FACET_NEED_RESERVED("options", &ours, error);
    if (!workload)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "workload",
                                    "workload: expected a workload, not NULL");
    /* Renderers rely on a valid configuration. */
    enum facet_status status = facet_document_demand_by(FACET_DOCUMENT_WORKLOAD, workload->root, &schema, error);
    if (status == FACET_OK)
        status = facet_json_write(workload->root, &checked, error);
    if (status == FACET_OK && strstr(checked, FACET_RENDER_UNLIMITED))
        status =
            facet_error_argument(error, FACET_INVALID_ARGUMENT, "workload",
                                 "'%s' is reserved: expected a workload without this text", FACET_RENDER_UNLIMITED);
    if (status == FACET_OK)
        status = check_profile(&ours, error);
    if (status == FACET_OK && form == FACET_RENDER_CDI)
        status = check_cdi_names(&ours, error);
    if (status != FACET_OK)
        return status;
    to = json_object();
    left = facet_violations_create();
    if (!to || !left)
        return facet_json_no_memory(error);
    struct facet_rendering rendering = {.from = workload->root, .to = to, .left = left, .options = &ours};
    leave_unknown(&rendering, schema);
    forms[form].render(&rendering);
    if (rendering.failed || facet_violations_broken(left))
        return facet_json_no_memory(error);
    status = ret_left ? FACET_OK : refuse_left(&rendering, forms[form].name, error);
    if (status == FACET_OK && rendering.refused)
        status = facet_error_argument(error, FACET_UNSUPPORTED, "workload", "%s", rendering.refused);
    if (status == FACET_OK)
        status = facet_json_write(to, ret_text, error);
    if (status == FACET_OK)
        put_unlimited(*ret_text);
    if (status == FACET_OK && ret_left)
        *ret_left = FACET_TAKE_PTR(left);
    return status;
}
