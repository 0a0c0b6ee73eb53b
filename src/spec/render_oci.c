/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the keys of an OCI runtime's config.json (1.0.2 and later). Never: reads the machine. */
#include <ctype.h>

#include "spec/workload.h"

#define RESOURCES "linux/resources"

/* A mount's options, as in mount(8). */
static json_t *mount_options(struct facet_rendering *rendering, const json_t *mount)
{
    bool bind = strcmp(facet_json_text(mount, "type"), "bind") == 0;
    json_t *options = json_array(), *option;
    size_t index;
    bool good = options && (!bind || json_array_append_new(options, json_string("rbind")) == 0) &&
                json_array_append_new(options, json_string(facet_json_text(mount, "permission"))) == 0;

    json_array_foreach (json_object_get(mount, "options"), index, option)
        good = good && json_array_append(options, option) == 0;
    rendering->failed = rendering->failed || !good;
    return options;
}

static void put_mount(struct facet_rendering *rendering, const json_t *mount)
{
    const char *type = facet_json_text(mount, "type"), *source = facet_json_text(mount, "source");

    if (strcmp(type, "volume") == 0) {
        facet_render_leave(rendering, "mounts", "OCI knows paths, not volumes");
        return;
    }
    facet_render_append(rendering, "mounts",
                        json_pack("{s:O, s:s, s:s, s:o}", "destination", json_object_get(mount, "target"), "type", type,
                                  "source", source ? source : "tmpfs", "options", mount_options(rendering, mount)));
}

static void put_mounts(struct facet_rendering *rendering)
{
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "mounts"), index, item)
        put_mount(rendering, item);
    json_array_foreach (json_object_get(rendering->from, "hooks"), index, item)
        facet_render_append(rendering, "mounts",
                            json_pack("{s:O, s:s, s:O, s:[s, s]}", "destination", json_object_get(item, "target"),
                                      "type", "bind", "source", json_object_get(item, "source"), "options", "rbind",
                                      "ro"));
}

/* Writes both the node and the permission to use it: runtimes do not derive one from the other. */
static void put_node(struct facet_rendering *rendering, const json_t *node)
{
    const char *permissions = facet_json_text(node, "permissions");
    const json_t *type = json_object_get(node, "type"), *major = json_object_get(node, "major"),
                 *minor = json_object_get(node, "minor");

    if (!type || !major || !minor) {
        facet_render_leave(rendering, "device_nodes", "OCI needs type, major and minor of each");
        return;
    }
    facet_render_append(rendering, "linux/devices",
                        json_pack("{s:O, s:O, s:O, s:O}", "path", json_object_get(node, "path"), "type", type, "major",
                                  major, "minor", minor));
    facet_render_append(rendering, RESOURCES "/devices",
                        json_pack("{s:b, s:O, s:O, s:O, s:s}", "allow", 1, "type", type, "major", major, "minor", minor,
                                  "access", permissions ? permissions : "rwm"));
}

static void put_devices(struct facet_rendering *rendering)
{
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "device_nodes"), index, item)
        put_node(rendering, item);
    json_array_foreach (json_object_get(rendering->from, "device_cgroup_rules"), index, item)
        facet_render_append(rendering, RESOURCES "/devices",
                            json_pack("{s:b, s:O, s:o*, s:o*, s:O}", "allow", 1, "type", json_object_get(item, "type"),
                                      "major", facet_render_share(json_object_get(item, "major")), "minor",
                                      facet_render_share(json_object_get(item, "minor")), "access",
                                      json_object_get(item, "permissions")));
}

static void put_process(struct facet_rendering *rendering)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    const json_t *capabilities = json_object_get(rendering->from, "capabilities");
    const json_t *groups = json_object_get(rendering->from, "group_ids");

    facet_render_environment(rendering, "process/env", true);
    if (json_array_size(groups))
        facet_render_set(rendering, "process/user", "additionalGids", facet_render_share(groups));
    for (size_t i = 0; json_array_size(capabilities) && i < sizeof sets / sizeof sets[0]; i++)
        facet_render_set(rendering, "process/capabilities", sets[i], facet_render_share(capabilities));
}

/* "No limit" is 2^64-1, which jansson cannot hold, so a mark stands for it until the text is made. */
static json_t *limit_of(const json_t *value)
{
    return json_integer_value(value) < 0 ? json_string(FACET_RENDER_UNLIMITED) : facet_render_share(value);
}

static void put_limit(struct facet_rendering *rendering, const char *name, const json_t *limit)
{
    char text[80] = "RLIMIT_";
    size_t length = strlen(text);

    for (; *name && length < sizeof text - 1; name++)
        text[length++] = (char)toupper((unsigned char)*name);
    text[length] = '\0';
    facet_render_append(rendering, "process/rlimits",
                        json_pack("{s:s, s:o, s:o}", "type", text, "soft", limit_of(json_object_get(limit, "soft")),
                                  "hard", limit_of(json_object_get(limit, "hard"))));
}

static void put_ipc(struct facet_rendering *rendering)
{
    const char *mode = facet_json_text(rendering->from, "ipc_mode");

    if (!mode)
        return;
    if (strcmp(mode, "private") == 0)
        facet_render_append(rendering, "linux/namespaces", json_pack("{s:s}", "type", "ipc"));
    else
        facet_render_leave(rendering, "ipc_mode", "in OCI it is a namespace that is left out or joined, not a setting");
}

static void put_resources(struct facet_rendering *rendering)
{
    static const struct {
        const char *from, *path, *key;
    } copied[] = {
        {"cpuset", RESOURCES "/cpu", "cpus"},
        {"memory_nodes", RESOURCES "/cpu", "mems"},
        {"memory_limit_bytes", RESOURCES "/memory", "limit"},
        {"memory_swap_limit_bytes", RESOURCES "/memory", "swap"},
        {"sysctls", "linux", "sysctl"},
    };
    const char *name;
    json_t *value;

    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        if (json_object_get(rendering->from, copied[i].from))
            facet_render_set(rendering, copied[i].path, copied[i].key,
                             facet_render_share(json_object_get(rendering->from, copied[i].from)));
    json_object_foreach (json_object_get(rendering->from, "hugepages"), name, value)
        facet_render_append(rendering, RESOURCES "/hugepageLimits",
                            json_pack("{s:s, s:O}", "pageSize", name, "limit", value));
    json_object_foreach (json_object_get(rendering->from, "ulimits"), name, value)
        put_limit(rendering, name, value);
}

/*
 * Docker's profiles allow some system calls only with a capability or a kernel version. A runtime ignores such
 * conditions, and would allow the calls to all containers.
 */
static bool has_conditions(const json_t *profile)
{
    size_t index;
    json_t *rule;

    if (json_object_get(profile, "archMap"))
        return true;
    json_array_foreach (json_object_get(profile, "syscalls"), index, rule) {
        if (json_object_size(json_object_get(rule, "includes")) || json_object_size(json_object_get(rule, "excludes")))
            return true;
    }
    return false;
}

static void put_seccomp(struct facet_rendering *rendering)
{
    const char *mode = facet_json_text(json_object_get(rendering->from, "seccomp"), "mode");
    FACET_CLEANUP_JSON json_t *profile = facet_render_seccomp(rendering);

    if (has_conditions(profile))
        facet_render_leave(rendering, "seccomp", "the profile has Docker's archMap, includes or excludes");
    else if (profile)
        facet_render_set(rendering, "linux", "seccomp", facet_render_share(profile));
    else if (mode && strcmp(mode, "unconfined") == 0)
        facet_render_set(rendering, "linux", "seccomp", json_pack("{s:s}", "defaultAction", "SCMP_ACT_ALLOW"));
}

void facet_render_oci(struct facet_rendering *rendering)
{
    static const struct {
        const char *setting, *why;
    } left[] = {
        {"cdi_devices", "resolve them by their CDI specifications first"},
        {"networks", "OCI has none; attach them to the network namespace"},
        {"group_names", "OCI knows numbers only"},
        {"runtime", "it is the runtime that reads this"},
    };

    put_process(rendering);
    put_mounts(rendering);
    put_devices(rendering);
    put_resources(rendering);
    put_ipc(rendering);
    put_seccomp(rendering);
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        if (json_object_get(rendering->from, left[i].setting))
            facet_render_leave(rendering, left[i].setting, left[i].why);
}
