/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading a function's virtual functions, mediated devices and vendors' types of virtual GPUs.
 * Never: makes a virtual device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

/* ---- virtual functions ---- */

enum { VIRTUALS_MAX = 65535 }; /* the capability's largest count */

static bool read_address_link(int directory, const char *name, struct facet_pci_address *ret_address)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    return tree_read_link_name(directory, name, text, sizeof text) == FACET_PCI_READ &&
           facet_pci_address_parse(text, ret_address, NULL) == FACET_OK;
}

/* Reads the links virtfn0, virtfn1, ..., which have no gaps. The links also give the count, because reading
 * sriov_numvfs may block on the device's lock. False: no memory. */
bool scan_virtuals(int directory, struct facet_pci_function *function)
{
    struct facet_pci_address address, *virtuals = NULL;
    uint64_t total = 0;
    char name[24];

    function->is_virtual = read_address_link(directory, "physfn", &function->physical);
    function->unread[FACET_PCI_SRIOV] =
        (uint8_t)tree_read_number(directory, "sriov_totalvfs", 10, VIRTUALS_MAX, &total);
    function->sriov_total = (uint32_t)total;
    for (uint32_t i = 0; i < total; i++) {
        snprintf(name, sizeof name, "virtfn%u", i);
        if (!read_address_link(directory, name, &address))
            break;
        struct facet_pci_address *next = tree_append((void **)&virtuals, &function->virtual_count, sizeof *virtuals);
        function->virtuals = virtuals;
        if (!next)
            return false;
        *next = address;
    }
    function->sriov_count = (uint32_t)function->virtual_count;
    return true;
}

/* ---- types ---- */

struct types {
    int directory; /* mdev_supported_types */
    struct facet_pci_function *function;
    bool failed;
};

static struct facet_pci_type *add_type(struct types *types, const char *id)
{
    struct facet_pci_function *function = types->function;
    void *array = (void *)function->types;
    struct facet_pci_type *type = tree_append(&array, &function->type_count, sizeof *type);

    function->types = array;
    types->failed = types->failed || !type;
    if (!type)
        return NULL;
    *type = (struct facet_pci_type){0};
    snprintf(type->id, sizeof type->id, "%s", id);
    return type;
}

static bool take_mediated(void *context, char *name)
{
    struct types *types = context;
    FACET_CLEANUP_FD int directory = tree_open_directory(types->directory, name);
    struct facet_pci_type *type;
    uint64_t available = 0;

    if (strlen(name) >= sizeof type->id || directory < 0)
        return true;
    type = add_type(types, name);
    if (!type)
        return false;
    tree_read_text_cut(directory, "name", type->name, sizeof type->name);
    tree_read_text_cut(directory, "device_api", type->api, sizeof type->api);
    if (tree_read_number(directory, "available_instances", 10, UINT32_MAX, &available) != FACET_PCI_READ)
        types->function->unread[FACET_PCI_TYPES] = FACET_PCI_UNREAD_MALFORMED;
    type->available = (uint32_t)available;
    return true;
}

/* "  222  : NVIDIA A16-1B": a line for each type that the function can become now; the heading has no number. */
static bool take_vendor(void *context, char *line)
{
    char id[12], name[64];
    struct facet_pci_type *type;

    if (sscanf(line, " %11[0-9] : %63[^\n]", id, name) != 2)
        return true;
    type = add_type(context, id);
    if (!type)
        return false;
    type->is_vendor = 1;
    type->available = 1;
    snprintf(type->name, sizeof type->name, "%s", name);
    return true;
}

static void mark_current(struct types *types, uint64_t current)
{
    char id[24];
    struct facet_pci_type *type = NULL;

    if (current == 0)
        return;
    snprintf(id, sizeof id, "%u", (unsigned)current);
    for (size_t i = 0; i < types->function->type_count && !type; i++)
        if (strcmp(types->function->types[i].id, id) == 0)
            type = (struct facet_pci_type *)&types->function->types[i];
    if (!type)
        type = add_type(types, id); /* a function with a type can become no other, so its type is not in the list */
    if (!type)
        return;
    type->is_vendor = 1;
    type->available = 0;
    type->current = 1;
}

enum { VENDOR_NVIDIA = 0x10de };

static int compare_types(const void *a, const void *b)
{
    return strcmp(((const struct facet_pci_type *)a)->id, ((const struct facet_pci_type *)b)->id);
}

bool scan_types(int directory, struct facet_pci_function *function)
{
    FACET_CLEANUP_FD int mediated = tree_open_directory(directory, "mdev_supported_types");
    struct types types = {.directory = mediated, .function = function};
    uint64_t current = 0;
    enum facet_pci_unread unread = mediated < 0 ? tree_unread(errno) : FACET_PCI_READ;

    function->unread[FACET_PCI_TYPES] = (uint8_t)unread;
    if (mediated >= 0)
        tree_each_name(mediated, ".", take_mediated, &types);
    if (function->vendor == VENDOR_NVIDIA && tree_exists(directory, "nvidia/creatable_vgpu_types")) {
        unread = tree_each_line(directory, "nvidia/creatable_vgpu_types", take_vendor, &types);
        if (unread == FACET_PCI_READ)
            unread = tree_read_number(directory, "nvidia/current_vgpu_type", 10, UINT32_MAX, &current);
        function->unread[FACET_PCI_TYPES] = (uint8_t)unread;
        mark_current(&types, current);
    }
    if (function->type_count > 1)
        qsort((void *)function->types, function->type_count, sizeof *function->types, compare_types);
    return !types.failed;
}
