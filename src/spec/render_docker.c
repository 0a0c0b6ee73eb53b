/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the keys of Docker's POST /containers/create. Never: writes a key that Docker ignores. */
#include <ctype.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "spec/workload.h"

#define HOST "HostConfig"

/* Reads an option such as "size=67108864" or "size=64m". */
static bool read_size(const char *option, json_int_t *ret_bytes)
{
    static const char mark[] = "size=", units[] = "kmg";
    const char *at = option + sizeof mark - 1;
    json_int_t bytes = 0;

    if (strncmp(option, mark, sizeof mark - 1) != 0 || !isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++)
        if (__builtin_mul_overflow(bytes, 10, &bytes) || __builtin_add_overflow(bytes, *at - '0', &bytes))
            return false;
    const char *unit = *at ? strchr(units, tolower((unsigned char)*at)) : NULL;
    if (unit && __builtin_mul_overflow(bytes, INT64_C(1) << 10 * (unit - units + 1), &bytes))
        return false;
    *ret_bytes = bytes;
    return unit ? at[1] == '\0' : *at == '\0';
}

static bool is_propagation(const char *option)
{
    static const char *const propagations[] = {"private", "rprivate", "shared", "rshared", "slave", "rslave"};

    for (size_t i = 0; i < sizeof propagations / sizeof propagations[0]; i++)
        if (strcmp(option, propagations[i]) == 0)
            return true;
    return false;
}

/* Writes an option of a mount. False: Docker has no key for it, or the key is in use already. */
static bool put_option(struct facet_rendering *rendering, json_t *mount, const char *type, const char *option)
{
    bool bind = strcmp(type, "bind") == 0 && is_propagation(option);
    const char *place = bind ? "BindOptions" : "TmpfsOptions";
    json_int_t size = 0;

    if ((!bind && (strcmp(type, "tmpfs") != 0 || !read_size(option, &size))) || json_object_get(mount, place))
        return false;
    json_t *value = bind ? json_pack("{s:s}", "Propagation", option) : json_pack("{s:I}", "SizeBytes", size);
    if (json_object_set_new(mount, place, value) < 0)
        rendering->failed = true;
    return true;
}

static void put_mount(struct facet_rendering *rendering, const json_t *from)
{
    const char *type = facet_json_text(from, "type");
    FACET_CLEANUP_JSON json_t *mount = json_pack(
        "{s:s, s:o*, s:O, s:b}", "Type", type, "Source", facet_render_share(json_object_get(from, "source")), "Target",
        json_object_get(from, "target"), "ReadOnly", strcmp(facet_json_text(from, "permission"), "ro") == 0);
    size_t index;
    json_t *option;

    json_array_foreach (json_object_get(from, "options"), index, option) {
        const char *text = json_string_value(option);
        if (!put_option(rendering, mount, type, text))
            facet_render_leave(rendering, "mounts", "Docker has no such option for this type of mount");
    }
    facet_render_append(rendering, HOST "/Mounts", facet_render_share(mount));
}

static void put_mounts(struct facet_rendering *rendering)
{
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "mounts"), index, item)
        put_mount(rendering, item);
    json_array_foreach (json_object_get(rendering->from, "hooks"), index, item)
        facet_render_append(rendering, HOST "/Mounts",
                            json_pack("{s:s, s:O, s:O, s:b}", "Type", "bind", "Source", json_object_get(item, "source"),
                                      "Target", json_object_get(item, "target"), "ReadOnly", 1));
}

static void put_node(struct facet_rendering *rendering, const json_t *node)
{
    const json_t *host = json_object_get(node, "host_path"), *path = json_object_get(node, "path");
    const char *permissions = facet_json_text(node, "permissions");

    facet_render_append(rendering, HOST "/Devices",
                        json_pack("{s:O, s:O, s:s}", "PathOnHost", host ? host : path, "PathInContainer", path,
                                  "CgroupPermissions", permissions ? permissions : "rwm"));
}

static void put_number(char *text, size_t size, const json_t *value)
{
    if (value)
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        snprintf(text, size, "*");
}

static void put_devices(struct facet_rendering *rendering)
{
    const json_t *cdi = json_object_get(rendering->from, "cdi_devices");
    char major[24], minor[24];
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "device_nodes"), index, item)
        put_node(rendering, item);
    json_array_foreach (json_object_get(rendering->from, "device_cgroup_rules"), index, item) {
        put_number(major, sizeof major, json_object_get(item, "major"));
        put_number(minor, sizeof minor, json_object_get(item, "minor"));
        facet_render_append(rendering, HOST "/DeviceCgroupRules",
                            json_sprintf("%s %s:%s %s", facet_json_text(item, "type"), major, minor,
                                         facet_json_text(item, "permissions")));
    }
    if (json_array_size(cdi))
        facet_render_append(rendering, HOST "/DeviceRequests",
                            json_pack("{s:s, s:O}", "Driver", "cdi", "DeviceIDs", cdi));
}

static void put_groups(struct facet_rendering *rendering)
{
    size_t index;
    json_t *item;

    json_array_foreach (json_object_get(rendering->from, "group_ids"), index, item)
        facet_render_append(rendering, HOST "/GroupAdd",
                            json_sprintf("%" JSON_INTEGER_FORMAT, json_integer_value(item)));
    json_array_foreach (json_object_get(rendering->from, "group_names"), index, item)
        facet_render_append(rendering, HOST "/GroupAdd", facet_render_share(item));
}

static void put_limits(struct facet_rendering *rendering)
{
    const char *name;
    json_t *limit;

    json_object_foreach (json_object_get(rendering->from, "ulimits"), name, limit) {
        if (strcmp(name, "as") == 0)
            facet_render_leave(rendering, "ulimits", "Docker has no limit 'as'");
        else
            facet_render_append(rendering, HOST "/Ulimits",
                                json_pack("{s:s, s:O, s:O}", "Name", name, "Soft", json_object_get(limit, "soft"),
                                          "Hard", json_object_get(limit, "hard")));
    }
}

/* Docker reads a profile from the text of an option. */
static void put_seccomp(struct facet_rendering *rendering)
{
    const char *mode = facet_json_text(json_object_get(rendering->from, "seccomp"), "mode");
    FACET_CLEANUP_JSON json_t *profile = facet_render_seccomp(rendering);
    FACET_CLEANUP_FREE char *text = facet_json_compact(profile);

    if (profile)
        facet_render_append(rendering, HOST "/SecurityOpt", text ? json_sprintf("seccomp=%s", text) : NULL);
    else if (mode && strcmp(mode, "unconfined") == 0)
        facet_render_append(rendering, HOST "/SecurityOpt", json_string("seccomp=unconfined"));
}

static void put_networks(struct facet_rendering *rendering)
{
    size_t index;
    json_t *name;

    json_array_foreach (json_object_get(rendering->from, "networks"), index, name)
        facet_render_set(rendering, "NetworkingConfig/EndpointsConfig", json_string_value(name), json_object());
}

void facet_render_docker(struct facet_rendering *rendering)
{
    static const struct {
        const char *from, *to;
    } copied[] = {
        {"capabilities", "CapAdd"},       {"sysctls", "Sysctls"},
        {"ipc_mode", "IpcMode"},          {"runtime", "Runtime"},
        {"cpuset", "CpusetCpus"},         {"memory_nodes", "CpusetMems"},
        {"memory_limit_bytes", "Memory"}, {"memory_swap_limit_bytes", "MemorySwap"},
    };

    facet_render_environment(rendering, "Env", true);
    put_mounts(rendering);
    put_devices(rendering);
    put_groups(rendering);
    put_limits(rendering);
    put_seccomp(rendering);
    put_networks(rendering);
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++)
        if (json_object_get(rendering->from, copied[i].from))
            facet_render_set(rendering, HOST, copied[i].to,
                             facet_render_share(json_object_get(rendering->from, copied[i].from)));
    if (json_object_size(json_object_get(rendering->from, "hugepages")))
        facet_render_leave(rendering, "hugepages", "Docker has no limit for them");
}
