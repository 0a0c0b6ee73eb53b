/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: configurations as a whole, and setting their members one by one. Never: sets a member that the schema
 * refuses. */
#include "spec/workload.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/sized.h"
#include "spec/document.h"

static enum facet_status wrap_workload(json_t *root, struct facet_workload **ret_workload, struct facet_error *error)
{
    struct facet_workload *workload = root ? malloc(sizeof *workload) : NULL;

    if (!workload) {
        json_decref(root);
        return facet_json_no_memory(error);
    }
    workload->root = root;
    *ret_workload = workload;
    return FACET_OK;
}

static enum facet_status no_argument(const char *name, struct facet_error *error)
{
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s: expected a value, not NULL", name);
}

enum facet_status facet_workload_create(struct facet_workload **ret_workload, struct facet_error *error)
{
    if (!ret_workload)
        return no_argument("ret_workload", error);
    return wrap_workload(json_pack("{s:s, s:s}", "format", "facet-accelerator-workload", "version", "1.0"),
                         ret_workload, error);
}

enum facet_status facet_workload_read(const char *text, size_t bytes, struct facet_workload **ret_workload,
                                      struct facet_error *error)
{
    json_t *root = NULL;

    if (!ret_workload)
        return no_argument("ret_workload", error);
    enum facet_status status = facet_document_read(FACET_DOCUMENT_WORKLOAD, text, bytes, &root, error);
    return status == FACET_OK ? wrap_workload(root, ret_workload, error) : status;
}

enum facet_status facet_workload_write(const struct facet_workload *workload, char **ret_text,
                                       struct facet_error *error)
{
    if (!workload || !ret_text)
        return no_argument(workload ? "ret_text" : "workload", error);
    enum facet_status status = facet_document_demand(FACET_DOCUMENT_WORKLOAD, workload->root, error);
    return status == FACET_OK ? facet_json_write(workload->root, ret_text, error) : status;
}

void facet_workload_destroy(struct facet_workload *workload)
{
    if (!workload)
        return;
    json_decref(workload->root);
    free(workload);
}

/* --- one member ------------------------------------------------------------------------------------------------- */

/* Takes ownership of `value`, and checks it as the only member of a configuration. */
static enum facet_status refuse_member(const char *member, json_t *value, struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *owned = value;
    FACET_CLEANUP_JSON json_t *alone =
        json_pack("{s:s, s:s}", "format", "facet-accelerator-workload", "version", "1.0");

    if (!value || !alone || json_object_set(alone, member, value) < 0)
        return facet_json_no_memory(error);
    return facet_document_demand(FACET_DOCUMENT_WORKLOAD, alone, error);
}

static enum facet_status text_of(const char *name, const char *text, json_t **ret_value, struct facet_error *error)
{
    if (!text)
        return no_argument(name, error);
    if (!facet_json_is_utf8(text))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s '%.80s': expected UTF-8", name, text);
    json_t *value = json_string(text);
    if (!value)
        return facet_json_no_memory(error);
    *ret_value = value;
    return FACET_OK;
}

/* Demands UTF-8 of several texts, some of which may be NULL. */
static enum facet_status demand_utf8(const char *name, const char *const *texts, size_t count,
                                     struct facet_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i] && !facet_json_is_utf8(texts[i]))
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, name, "%s '%.80s': expected UTF-8", name,
                                        texts[i]);
    return FACET_OK;
}
#define DEMAND_UTF8(name, error, ...)                                                                                  \
    demand_utf8(name, (const char *const[]){__VA_ARGS__},                                                              \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), error)

/*
 * Merges the configuration {member: value} into the workload, or replaces the member. Takes ownership of `value`.
 */
static enum facet_status put_member(struct facet_workload *workload, const char *member, json_t *value, bool replace,
                                    struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *owned = value;

    if (!workload)
        return no_argument("workload", error);
    enum facet_status status = refuse_member(member, facet_render_share(value), error);
    if (status != FACET_OK)
        return status;
    if (replace)
        return json_object_set(workload->root, member, value) == 0 ? FACET_OK : facet_json_no_memory(error);
    FACET_CLEANUP_JSON json_t *alone = json_pack("{s:O}", member, value);
    return alone ? facet_merge_configuration(&workload->root, "the workload", alone, "the new value", error)
                 : facet_json_no_memory(error);
}

/* put_member() for one key of a map. */
static enum facet_status put_key(struct facet_workload *workload, const char *member, const char *key, json_t *value,
                                 struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *owned = value;
    FACET_CLEANUP_JSON json_t *name = NULL;

    if (!workload)
        return no_argument("workload", error);
    enum facet_status status = text_of("key", key, &name, error);
    if (status != FACET_OK)
        return status;
    FACET_CLEANUP_JSON json_t *alone = value ? json_pack("{s:O}", key, value) : NULL;
    status = refuse_member(member, facet_render_share(alone), error);
    if (status != FACET_OK)
        return status;
    const json_t *old = json_object_get(workload->root, member);
    FACET_CLEANUP_JSON json_t *map = old ? facet_json_copy(old) : json_object();
    if (json_object_set(map, key, value) < 0 || json_object_set(workload->root, member, map) < 0)
        return facet_json_no_memory(error);
    return FACET_OK;
}

static const char *const lists[] = {"cdi_devices", "networks", "group_names", "capabilities", "system_calls"};
static const char *const maps[] = {"environment", "sysctls", "resource_data"};
static const char *const singles[] = {"ipc_mode", "runtime", "cpuset", "memory_nodes"};

enum facet_status facet_workload_add(struct facet_workload *workload, uint32_t setting, const char *text,
                                     struct facet_error *error)
{
    json_t *value = NULL;

    if (setting >= sizeof lists / sizeof lists[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "setting", "setting %" PRIu32 ": expected a list",
                                    setting);
    enum facet_status status = text_of(lists[setting], text, &value, error);
    return status == FACET_OK ? put_member(workload, lists[setting], json_pack("[o]", value), false, error) : status;
}

enum facet_status facet_workload_set(struct facet_workload *workload, uint32_t setting, const char *key,
                                     const char *text, struct facet_error *error)
{
    uint32_t map = setting - FACET_WORKLOAD_ENVIRONMENT, single = setting - FACET_WORKLOAD_IPC_MODE;
    bool is_map = map < sizeof maps / sizeof maps[0];
    json_t *value = NULL;

    if (!is_map && single >= sizeof singles / sizeof singles[0])
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "setting",
                                    "setting %" PRIu32 ": expected a setting that is a map or a single value", setting);
    const char *member = is_map ? maps[map] : singles[single];
    enum facet_status status = text_of(member, text, &value, error);
    if (status != FACET_OK)
        return status;
    return is_map ? put_key(workload, member, key, value, error) : put_member(workload, member, value, true, error);
}

enum facet_status facet_workload_add_mount(struct facet_workload *workload, const struct facet_workload_mount *mount,
                                           struct facet_error *error)
{
    struct facet_workload_mount ours;
    FACET_CLEANUP_JSON json_t *options = NULL;
    enum facet_status status = FACET_OK;

    if (!facet_struct_take(&ours, sizeof ours, mount) || !ours.type || !ours.target)
        return no_argument("mount", error);
    FACET_NEED_KNOWN("mount", mount, error);
    FACET_NEED_RESERVED("mount", &ours, error);
    status = DEMAND_UTF8("mount", error, ours.type, ours.source, ours.target);
    if (status != FACET_OK)
        return status;
    if (ours.option_count && !(options = json_array()))
        return facet_json_no_memory(error);
    for (uint32_t i = 0; status == FACET_OK && i < ours.option_count; i++) {
        json_t *text = NULL;
        status = text_of("options", ours.options ? ours.options[i] : NULL, &text, error);
        if (status == FACET_OK && json_array_append_new(options, text) < 0)
            status = facet_json_no_memory(error);
    }
    if (status != FACET_OK)
        return status;
    json_t *item = json_pack("{s:s, s:s, s:s, s:O*}", "type", ours.type, "target", ours.target, "permission",
                             ours.writable ? "rw" : "ro", "options", options);
    /* Not by the format "s*", with which jansson leaves out a value without an error when memory runs out. */
    if (ours.source && json_object_set_new(item, "source", json_string(ours.source)) < 0) {
        json_decref(item);
        return facet_json_no_memory(error);
    }
    return put_member(workload, "mounts", json_pack("[o]", item), false, error);
}

enum facet_status facet_workload_add_device_node(struct facet_workload *workload, const char *host_path,
                                                 const char *path, const char *permissions, struct facet_error *error)
{
    if (!host_path)
        return no_argument("host_path", error);
    enum facet_status status = DEMAND_UTF8("device_node", error, host_path, path, permissions);
    if (status != FACET_OK)
        return status;
    return put_member(workload, "device_nodes",
                      json_pack("[{s:s, s:s, s:s}]", "host_path", host_path, "path", path ? path : host_path,
                                "permissions", permissions ? permissions : "rwm"),
                      false, error);
}

enum facet_status facet_workload_set_device_numbers(struct facet_workload *workload, const char *path, char type,
                                                    uint32_t major, uint32_t minor, struct facet_error *error)
{
    const char text[] = {type, '\0'};

    if (!path)
        return no_argument("path", error);
    enum facet_status status = DEMAND_UTF8("path", error, path, text);
    if (status != FACET_OK)
        return status;
    return put_member(workload, "device_nodes",
                      json_pack("[{s:s, s:s, s:I, s:I}]", "path", path, "type", text, "major", (json_int_t)major,
                                "minor", (json_int_t)minor),
                      false, error);
}

enum facet_status facet_workload_add_cgroup_rule(struct facet_workload *workload, char type, int64_t major,
                                                 int64_t minor, const char *permissions, struct facet_error *error)
{
    const char text[] = {type, '\0'};
    enum facet_status status = DEMAND_UTF8("cgroup_rule", error, text, permissions);
    if (status != FACET_OK)
        return status;
    FACET_CLEANUP_JSON json_t *rule =
        json_pack("{s:s, s:s}", "type", text, "permissions", permissions ? permissions : "rwm");
    if (!rule || (major != FACET_WORKLOAD_ANY && json_object_set_new(rule, "major", json_integer(major)) < 0) ||
        (minor != FACET_WORKLOAD_ANY && json_object_set_new(rule, "minor", json_integer(minor)) < 0))
        return facet_json_no_memory(error);
    return put_member(workload, "device_cgroup_rules", json_pack("[O]", rule), false, error);
}

enum facet_status facet_workload_add_group_id(struct facet_workload *workload, uint32_t group,
                                              struct facet_error *error)
{
    return put_member(workload, "group_ids", json_pack("[I]", (json_int_t)group), false, error);
}

enum facet_status facet_workload_set_ulimit(struct facet_workload *workload, const char *name, int64_t soft,
                                            int64_t hard, struct facet_error *error)
{
    return put_key(workload, "ulimits", name,
                   json_pack("{s:I, s:I}", "soft", (json_int_t)soft, "hard", (json_int_t)hard), error);
}

enum facet_status facet_workload_set_seccomp(struct facet_workload *workload, const char *mode, const char *profile,
                                             struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *json = NULL;
    enum facet_status status = profile ? facet_json_read(profile, strlen(profile), &json, error) : FACET_OK;

    if (status != FACET_OK)
        return status;
    if (!mode)
        return no_argument("mode", error);
    status = DEMAND_UTF8("mode", error, mode);
    if (status != FACET_OK)
        return status;
    return put_member(workload, "seccomp", json_pack("{s:s, s:O*}", "mode", mode, "profile", json), true, error);
}

enum facet_status facet_workload_set_hugepages(struct facet_workload *workload, const char *page, uint64_t bytes,
                                               struct facet_error *error)
{
    if (bytes > INT64_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes", "bytes: expected at most %" PRId64, INT64_MAX);
    return put_key(workload, "hugepages", page, json_integer((json_int_t)bytes), error);
}

enum facet_status facet_workload_set_memory(struct facet_workload *workload, uint64_t bytes, int64_t swap_bytes,
                                            struct facet_error *error)
{
    if (bytes > INT64_MAX || bytes == 0)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes", "bytes: expected 1 to %" PRId64, INT64_MAX);
    if (!workload)
        return no_argument("workload", error);
    /* Both limits are replaced together: an earlier swap limit belonged to the earlier memory limit. */
    FACET_CLEANUP_JSON json_t *both = json_pack("{s:s, s:s, s:I}", "format", "facet-accelerator-workload", "version",
                                                "1.0", "memory_limit_bytes", (json_int_t)bytes);
    FACET_CLEANUP_JSON json_t *copy = facet_json_copy(workload->root);
    if (!both || !copy ||
        (swap_bytes && json_object_set_new(both, "memory_swap_limit_bytes", json_integer(swap_bytes)) < 0))
        return facet_json_no_memory(error);
    enum facet_status status = facet_document_demand(FACET_DOCUMENT_WORKLOAD, both, error);
    if (status != FACET_OK)
        return status;
    json_object_del(copy, "memory_swap_limit_bytes");
    json_object_del(both, "format");
    json_object_del(both, "version");
    if (json_object_update(copy, both) < 0)
        return facet_json_no_memory(error);
    json_decref(workload->root);
    workload->root = json_incref(copy);
    return FACET_OK;
}

enum facet_status facet_workload_add_hook(struct facet_workload *workload, const char *source, const char *target,
                                          struct facet_error *error)
{
    if (!source)
        return no_argument("source", error);
    enum facet_status status = DEMAND_UTF8("hook", error, source, target);
    if (status != FACET_OK)
        return status;
    return put_member(workload, "hooks",
                      json_pack("[{s:s, s:s}]", "source", source, "target", target ? target : source), false, error);
}

enum facet_status facet_workload_merge(struct facet_workload *into, const char *into_name,
                                       const struct facet_workload *from, const char *from_name,
                                       struct facet_error *error)
{
    if (!into || !from)
        return no_argument(into ? "from" : "into", error);
    /* Two valid configurations may be invalid together; then nothing is merged. */
    FACET_CLEANUP_JSON json_t *both = json_incref(into->root);
    enum facet_status status = facet_merge_configuration(&both, into_name ? into_name : "the first", from->root,
                                                         from_name ? from_name : "the second", error);
    if (status == FACET_OK)
        status = facet_document_demand(FACET_DOCUMENT_WORKLOAD, both, error);
    if (status != FACET_OK)
        return status;
    json_decref(into->root);
    into->root = json_incref(both);
    return FACET_OK;
}
