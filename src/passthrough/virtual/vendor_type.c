/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: setting a virtual function's type of virtual GPU, by the vendor's driver. Never: makes virtual functions. */
#include <facet/virtual.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/tree.h"
#include "passthrough/virtual/sysfs.h"

static const char current[] = "nvidia/current_vgpu_type", creatable[] = "nvidia/creatable_vgpu_types";

struct search {
    uint32_t type;
    bool found;
    struct facet_names names;
};

/* A line is like "557   : NVIDIA L40S-1B". The first line is a heading, and has no number. */
static bool take_line(void *context, char *line)
{
    struct search *search = context;
    char *end = NULL, name[64];
    unsigned long number = strtoul(line, &end, 10);

    if (end == line || number == 0 || number > UINT32_MAX)
        return true;
    search->found |= number == search->type;
    const char *colon = strchr(end, ':');
    snprintf(name, sizeof name, "%lu (%.48s)", number, colon ? colon + 1 + strspn(colon + 1, " \t") : "?");
    facet_names_add(&search->names, name);
    return true;
}

static enum facet_status check_creatable(int device, uint32_t type, struct facet_error *error)
{
    struct search search = {.type = type};
    enum facet_pci_unread unread = tree_each_line(device, creatable, take_line, &search);

    if (unread != FACET_PCI_READ)
        return facet_error_set(error, FACET_UNSUPPORTED, "'%s' cannot be read: %s", creatable,
                               facet_pci_unread_name(unread));
    if (search.found)
        return FACET_OK;
    return facet_error_argument(error, FACET_UNSUPPORTED, "type", "type %" PRIu32 " cannot be made now; expected %s",
                                type,
                                search.names.text[0] ? search.names.text
                                                     : "none: its GPU is full, or of another "
                                                       "type");
}

static enum facet_status check_closed(int root, int device, struct facet_error *error)
{
    int64_t pid = 0;
    enum facet_status status = facet_sysfs_holder(root, device, &pid, error);

    if (status == FACET_OK && pid)
        return facet_error_set(error, FACET_BUSY, "it is open in process %" PRId64, pid);
    return status;
}

/* Writes one value, so a refused write needs no undo. */
static enum facet_status set_type(int root, int device, uint32_t type, struct facet_error *error)
{
    uint64_t before = 0, now = 0;
    enum facet_pci_unread unread = tree_read_number(device, current, 10, UINT32_MAX, &before);

    if (unread != FACET_PCI_READ)
        return facet_error_set(error, FACET_UNSUPPORTED, "its driver has no types of virtual GPUs ('%s': %s)", current,
                               facet_pci_unread_name(unread));
    if (before == type)
        return FACET_OK;
    if (before != 0 && type != 0)
        return facet_error_set(error, FACET_BAD_STATE, "it is of type %" PRIu64 " now; set that to 0 first", before);
    enum facet_status status = type ? check_creatable(device, type, error) : check_closed(root, device, error);
    if (status == FACET_OK)
        status = facet_sysfs_write_number(device, current, type, error);
    if (status != FACET_OK)
        return status;
    if (tree_read_number(device, current, 10, UINT32_MAX, &now) == FACET_PCI_READ && now == type)
        return FACET_OK;
    /* The write was accepted, but the type is another one: write the former value. */
    facet_error_set(error, FACET_BAD_STATE, "it became of type %" PRIu64 ", not %" PRIu32, now, type);
    if (now != before && facet_sysfs_write_number(device, current, (uint32_t)before, NULL) != FACET_OK)
        facet_sysfs_add_not_undone(error, current);
    return FACET_BAD_STATE;
}

enum facet_status facet_vendor_type_set(int root, const struct facet_pci_address *function, uint32_t type,
                                        struct facet_error *error)
{
    char address[FACET_PCI_ADDRESS_SIZE];
    struct facet_error why = {0};

    if (!function)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "function", "function: expected an address");
    FACET_CLEANUP_FD int device = facet_sysfs_open_function(root, function, &why);
    enum facet_status status = device < 0 ? why.status : set_type(root, device, type, &why);
    if (status == FACET_OK)
        return FACET_OK;
    facet_pci_address_print(function, address);
    if (device >= 0)
        facet_error_prefix(&why, "'%s'", address);
    if (error)
        *error = why;
    return status;
}
