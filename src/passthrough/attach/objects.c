/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading QEMU's object model: its devices and its free ports.
 * Never: reads them from query-pci, which shows no device behind a port whose bus the guest has not numbered yet.
 */
#include <stdio.h>
#include <string.h>

#include "passthrough/attach/qmp.h"

enum { PATH_SIZE = 320 };

static enum facet_status refuse_corrupt(struct facet_error *error, const char *command)
{
    return facet_error_set(error, FACET_CORRUPT, "%s: an answer of another shape than QMP's", command);
}

enum facet_status facet_qmp_list(struct facet_qmp *qmp, const char *path, json_t **ret_members,
                                 struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *value = NULL;
    size_t index;
    const json_t *member;

    enum facet_status status = facet_qmp_call(qmp, "qom-list", json_pack("{s:s}", "path", path), 0, &value, error);
    if (status != FACET_OK)
        return status;
    if (!json_is_array(value))
        return refuse_corrupt(error, "qom-list");
    json_array_foreach (value, index, member)
        if (!json_is_string(json_object_get(member, "name")) || !json_is_string(json_object_get(member, "type")))
            return refuse_corrupt(error, "qom-list");
    *ret_members = json_incref(value);
    return FACET_OK;
}

enum facet_status facet_qmp_get(struct facet_qmp *qmp, const char *path, const char *property, json_t **ret_value,
                                struct facet_error *error)
{
    return facet_qmp_call(qmp, "qom-get", json_pack("{s:s, s:s}", "path", path, "property", property), 0, ret_value,
                          error);
}

const char *facet_qmp_type_of(const json_t *members, const char *id)
{
    size_t index;
    const json_t *member;

    json_array_foreach (members, index, member)
        if (strcmp(json_string_value(json_object_get(member, "name")), id) == 0)
            return json_string_value(json_object_get(member, "type"));
    return NULL;
}

/* --- buses --- */

static bool is_child(const json_t *member)
{
    return strncmp(json_string_value(json_object_get(member, "name")), "child[", 6) == 0;
}

static enum facet_status count_devices(struct facet_qmp *qmp, const char *bus, uint32_t *ret_count,
                                       struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *members = NULL;
    size_t index;
    const json_t *member;
    uint32_t count = 0;

    enum facet_status status = facet_qmp_list(qmp, bus, &members, error);
    if (status != FACET_OK)
        return status;
    json_array_foreach (members, index, member)
        count += is_child(member);
    *ret_count = count;
    return FACET_OK;
}

enum facet_status facet_qmp_bus_devices(struct facet_qmp *qmp, const char *bus, json_t **ret_paths,
                                        struct facet_error *error)
{
    FACET_CLEANUP_JSON json_t *members = NULL;
    FACET_CLEANUP_JSON json_t *paths = json_array();
    size_t index;
    const json_t *member;

    enum facet_status status = facet_qmp_list(qmp, bus, &members, error);
    json_array_foreach (members, index, member) {
        json_t *path = NULL;
        if (!is_child(member))
            continue;
        status = facet_qmp_get(qmp, bus, json_string_value(json_object_get(member, "name")), &path, error);
        if (status != FACET_OK)
            return status;
        if (!json_is_string(path)) {
            json_decref(path);
            return refuse_corrupt(error, "qom-get");
        }
        if (json_array_append_new(paths, path) < 0)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for a list of devices");
    }
    if (status == FACET_OK)
        *ret_paths = json_incref(paths);
    return status;
}

/* --- ports --- */

/* The port types that take hot-plugs and hold one device; pcie.0 itself does not take any. */
static bool is_port(const char *type)
{
    static const char *const ports[] = {"child<pcie-root-port>", "child<ioh3420>", "child<xio3130-downstream>",
                                        "child<pnv-phb4-root-port>"};

    for (size_t i = 0; type && i < sizeof ports / sizeof ports[0]; i++)
        if (strcmp(type, ports[i]) == 0)
            return true;
    return false;
}

static bool is_taken(char (*ports)[FACET_ATTACH_ID_SIZE], uint32_t count, const char *port)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(ports[i], port) == 0)
            return true;
    return false;
}

/* Reads whether a port has no device behind it, and whether it takes hot-plugs. */
static enum facet_status read_port(struct facet_qmp *qmp, const char *port, bool *ret_free, bool *ret_hotplug,
                                   struct facet_error *error)
{
    char path[PATH_SIZE];
    FACET_CLEANUP_JSON json_t *hotplug = NULL;
    uint32_t devices = 0;

    snprintf(path, sizeof path, "/machine/peripheral/%s/%s", port, port);
    enum facet_status status = count_devices(qmp, path, &devices, error);
    if (status != FACET_OK)
        return status;
    snprintf(path, sizeof path, "/machine/peripheral/%s", port);
    status = facet_qmp_get(qmp, path, "hotplug", &hotplug, error);
    /* Ports without the property take hot-plugs. */
    if (status != FACET_OK && status != FACET_BAD_STATE)
        return status;
    *ret_free = devices == 0;
    *ret_hotplug = status != FACET_OK || !json_is_false(hotplug);
    return FACET_OK;
}

static enum facet_status take_named(struct facet_qmp *qmp, const json_t *peripherals, const char *port,
                                    struct facet_error *error)
{
    bool is_free = false, hotplug = false;

    if (!is_port(facet_qmp_type_of(peripherals, port)))
        return facet_error_argument(error, FACET_NOT_FOUND, "port", "port '%s': QEMU has no root port of that id",
                                    port);
    enum facet_status status = read_port(qmp, port, &is_free, &hotplug, error);
    if (status == FACET_OK && !is_free)
        return facet_error_argument(error, FACET_BAD_STATE, "port", "port '%s' holds a device already", port);
    if (status == FACET_OK && !hotplug)
        return facet_error_argument(error, FACET_BAD_STATE, "port", "port '%s' was made with hotplug=off", port);
    return status;
}

/* Shorter names come first, so that rp2 is before rp10. */
static int compare_names(const char *a, const char *b)
{
    size_t length_a = strlen(a), length_b = strlen(b);

    return length_a == length_b ? strcmp(a, b) : (length_a > length_b) - (length_a < length_b);
}

/* The first port behind `after` in the order of names; NULL: there is none. */
static const char *next_port(const json_t *peripherals, const char *after)
{
    const char *best = NULL;
    size_t index;
    const json_t *member;

    json_array_foreach (peripherals, index, member) {
        const char *name = json_string_value(json_object_get(member, "name"));
        if (is_port(json_string_value(json_object_get(member, "type"))) && strlen(name) < FACET_ATTACH_ID_SIZE &&
            (!after || compare_names(name, after) > 0) && (!best || compare_names(name, best) < 0))
            best = name;
    }
    return best;
}

/* Finds the first free port behind `*last`, the port that was examined last, and moves `*last` there. */
static enum facet_status take_free(struct facet_qmp *qmp, const json_t *peripherals,
                                   char (*ports)[FACET_ATTACH_ID_SIZE], uint32_t count, const char **last,
                                   char ret_port[FACET_ATTACH_ID_SIZE], struct facet_error *error)
{
    while ((*last = next_port(peripherals, *last))) {
        bool is_free = false, hotplug = false;
        if (is_taken(ports, count, *last))
            continue;
        enum facet_status status = read_port(qmp, *last, &is_free, &hotplug, error);
        if (status != FACET_OK)
            return status;
        if (is_free && hotplug) {
            snprintf(ret_port, FACET_ATTACH_ID_SIZE, "%s", *last);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_NO_SPACE,
                           next_port(peripherals, NULL)
                               ? "no root port is free; start the VM with more of them, as in -device pcie-root-port"
                               : "the VM has no root port with an id; devices can be plugged only behind such a port; "
                                 "start it with -device pcie-root-port,id=...");
}

enum facet_status facet_qmp_choose_ports(struct facet_qmp *qmp, const json_t *peripherals,
                                         const struct facet_attach_layout *layout,
                                         char (*ret_ports)[FACET_ATTACH_ID_SIZE], struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    const char *last = NULL;

    /* All ports that slots name are entered first, so that no other slot takes one of them. */
    for (uint32_t i = 0; i < layout->count; i++)
        snprintf(ret_ports[i], FACET_ATTACH_ID_SIZE, "%s", layout->slots[i].port ? layout->slots[i].port : "");
    for (uint32_t i = 0; status == FACET_OK && i < layout->count; i++)
        if (layout->slots[i].port)
            status = take_named(qmp, peripherals, layout->slots[i].port, error);
    for (uint32_t i = 0; status == FACET_OK && i < layout->count; i++)
        if (!layout->slots[i].port)
            status = take_free(qmp, peripherals, ret_ports, layout->count, &last, ret_ports[i], error);
    return status;
}
