/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: CDI specifications of one device, and the rules of CDI's names; the environment of a process on the host.
 * Never: writes a specification that CDI's own library refuses. */
#include <ctype.h>

#include "spec/workload.h"

#define EDITS "devices"

static void put_nodes(struct facet_rendering *rendering, json_t *edits)
{
    FACET_CLEANUP_JSON json_t *nodes = json_array();
    size_t index;
    json_t *node;

    json_array_foreach (json_object_get(rendering->from, "device_nodes"), index, node) {
        json_t *item = json_pack("{s:O, s:o*, s:o*, s:o*, s:o*, s:o*}", "path", json_object_get(node, "path"),
                                 "hostPath", facet_render_share(json_object_get(node, "host_path")), "type",
                                 facet_render_share(json_object_get(node, "type")), "major",
                                 facet_render_share(json_object_get(node, "major")), "minor",
                                 facet_render_share(json_object_get(node, "minor")), "permissions",
                                 facet_render_share(json_object_get(node, "permissions")));
        if (json_array_append_new(nodes, item) < 0)
            rendering->failed = true;
    }
    if (json_array_size(nodes) && json_object_set(edits, "deviceNodes", nodes) < 0)
        rendering->failed = true;
}

/* Takes ownership of `options`. `type` may be NULL. */
static void put_mount(struct facet_rendering *rendering, json_t *mounts, const char *source, const char *target,
                      const char *type, json_t *options)
{
    json_t *mount = json_pack("{s:s, s:s, s:o}", "hostPath", source, "containerPath", target, "options", options);

    if (type && json_object_set_new(mount, "type", json_string(type)) < 0)
        rendering->failed = true;
    if (json_array_append_new(mounts, mount) < 0)
        rendering->failed = true;
}

static json_t *mount_options(struct facet_rendering *rendering, const json_t *mount, bool bind)
{
    json_t *options = bind ? json_pack("[s, s, s, s]", "nosuid", "nodev", "rbind", facet_json_text(mount, "permission"))
                           : json_pack("[s]", facet_json_text(mount, "permission"));

    if (options && json_object_get(mount, "options") &&
        json_array_extend(options, json_object_get(mount, "options")) < 0)
        rendering->failed = true;
    return options;
}

static void put_mounts(struct facet_rendering *rendering, json_t *edits)
{
    FACET_CLEANUP_JSON json_t *mounts = json_array();
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "mounts"), index, item) {
        const char *type = facet_json_text(item, "type"), *target = facet_json_text(item, "target");
        if (strcmp(type, "bind") == 0)
            put_mount(rendering, mounts, facet_json_text(item, "source"), target, NULL,
                      mount_options(rendering, item, true));
        else if (strcmp(type, "tmpfs") == 0)
            put_mount(rendering, mounts, "tmpfs", target, "tmpfs", mount_options(rendering, item, false));
        else
            facet_render_leave(rendering, "mounts", "CDI knows paths, not volumes");
    }
    json_array_foreach (json_object_get(rendering->from, "hooks"), index, item)
        put_mount(rendering, mounts, facet_json_text(item, "source"), facet_json_text(item, "target"), NULL,
                  json_pack("[s, s, s, s]", "nosuid", "nodev", "rbind", "ro"));
    if (json_array_size(mounts) && json_object_set(edits, "mounts", mounts) < 0)
        rendering->failed = true;
}

static void put_environment(struct facet_rendering *rendering, json_t *edits)
{
    FACET_CLEANUP_JSON json_t *to = json_object();
    struct facet_rendering inner = *rendering;

    inner.to = to;
    facet_render_environment(&inner, "env", true);
    rendering->failed = inner.failed || !to;
    if (json_object_get(to, "env") && json_object_set(edits, "env", json_object_get(to, "env")) < 0)
        rendering->failed = true;
}

static void leave_all(struct facet_rendering *rendering, const char *const *settings, size_t count, const char *why)
{
    for (size_t i = 0; i < count; i++)
        if (json_object_get(rendering->from, settings[i]))
            facet_render_leave(rendering, settings[i], why);
}

/* Settings that a plain process cannot be given. CDI can express only the first, group_ids. */
static const char *const left[] = {"group_ids",
                                   "device_cgroup_rules",
                                   "cdi_devices",
                                   "networks",
                                   "group_names",
                                   "capabilities",
                                   "ulimits",
                                   "sysctls",
                                   "system_calls",
                                   "seccomp",
                                   "ipc_mode",
                                   "runtime",
                                   "hugepages",
                                   "cpuset",
                                   "memory_nodes",
                                   "memory_limit_bytes",
                                   "memory_swap_limit_bytes"};

/* CDI's own library ignores group 0. */
static void put_groups(struct facet_rendering *rendering, json_t *edits)
{
    FACET_CLEANUP_JSON json_t *groups = json_array();
    size_t index;
    json_t *group;

    json_array_foreach (json_object_get(rendering->from, "group_ids"), index, group) {
        if (json_integer_value(group) == 0)
            facet_render_leave(rendering, "group_ids", "CDI cannot give group 0");
        else if (json_array_append(groups, group) < 0)
            rendering->failed = true;
    }
    if (json_array_size(groups) && json_object_set(edits, "additionalGids", groups) < 0)
        rendering->failed = true;
}

static bool any_has(const json_t *items, const char *member)
{
    size_t index;
    json_t *item;

    json_array_foreach (items, index, item)
        if (json_object_get(item, member))
            return true;
    return false;
}

/*
 * The least version of CDI that has all that the document uses, because a reader refuses versions that it does not
 * know: podman 4.3 reads versions up to 0.5.0. From the list of changes in CDI's specification.
 */
static const char *least_version(const json_t *edits, const char *kind, const char *device)
{
    const char *class = strchr(kind, '/');

    if (json_object_get(edits, "additionalGids"))
        return "0.7.0";
    if (class && strchr(class, '.'))
        return "0.6.0";
    if (any_has(json_object_get(edits, "deviceNodes"), "hostPath") || !isalpha((unsigned char)device[0]))
        return "0.5.0";
    return any_has(json_object_get(edits, "mounts"), "type") ? "0.4.0" : "0.3.0";
}

void facet_render_cdi(struct facet_rendering *rendering)
{
    const struct facet_render_options *options = rendering->options;
    FACET_CLEANUP_JSON json_t *edits = json_object();

    put_environment(rendering, edits);
    put_nodes(rendering, edits);
    put_mounts(rendering, edits);
    put_groups(rendering, edits);
    if (edits && json_object_size(edits) == 0)
        rendering->refused = "a CDI device needs an environment, device nodes, mounts or groups; there is none";
    leave_all(rendering, left + 1, sizeof left / sizeof left[0] - 1, "CDI has no place for it");
    const char *kind = options->cdi_kind ? options->cdi_kind : "facet.dev/workload";
    const char *device = options->cdi_device ? options->cdi_device : "default";
    facet_render_set(rendering, "", "cdiVersion", json_string(least_version(edits, kind, device)));
    facet_render_set(rendering, "", "kind", json_string(kind));
    facet_render_append(rendering, EDITS, json_pack("{s:s, s:O}", "name", device, "containerEdits", edits));
}

/* A process on the host sees the host's files, so nodes and files under the host's paths need no setting. */
void facet_render_plain(struct facet_rendering *rendering)
{
    size_t index;
    json_t *item;

    facet_render_array(rendering, "env");
    facet_render_environment(rendering, "env", false);
    json_array_foreach (json_object_get(rendering->from, "device_nodes"), index, item) {
        const char *host = facet_json_text(item, "host_path");
        if (host && strcmp(host, facet_json_text(item, "path")) != 0)
            facet_render_leave(rendering, "device_nodes", "a process sees nodes under the host's names");
    }
    json_array_foreach (json_object_get(rendering->from, "mounts"), index, item) {
        const char *source = facet_json_text(item, "source");
        if (!source || strcmp(source, facet_json_text(item, "target")) != 0)
            facet_render_leave(rendering, "mounts", "a process sees files under the host's names");
    }
    leave_all(rendering, left, sizeof left / sizeof left[0], "an environment cannot express it");
}
