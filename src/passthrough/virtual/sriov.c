/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the number of virtual functions of a physical function. Never: binds a virtual function. */
#include <facet/virtual.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/tree.h"
#include "passthrough/virtual/sysfs.h"

static const char numvfs[] = "sriov_numvfs", autoprobe[] = "sriov_drivers_autoprobe";

enum { VIRTUALS_MAX = 0xffff };

struct change {
    int root;
    int device;
    uint32_t flags;
    uint32_t before; /* the former number of virtual functions */
    uint32_t wanted;
    uint32_t probing; /* the former value of sriov_drivers_autoprobe */
    bool set_probing;
    bool touched; /* the number was written */
};

static enum facet_status read_count(const struct change *change, const char *name, uint32_t *ret_count,
                                    struct facet_error *error)
{
    uint64_t count = 0;
    enum facet_pci_unread unread = tree_read_number(change->device, name, 10, VIRTUALS_MAX, &count);

    if (unread == FACET_PCI_UNREAD_ABSENT)
        return facet_error_set(error, FACET_UNSUPPORTED, "it has no SR-IOV, or its driver does not offer it");
    if (unread != FACET_PCI_READ)
        return facet_error_set(error, unread == FACET_PCI_UNREAD_PERMISSION ? FACET_PERMISSION : FACET_IO,
                               "'%s' cannot be read: %s", name, facet_pci_unread_name(unread));
    *ret_count = (uint32_t)count;
    return FACET_OK;
}

/* --- users of the present virtual functions --- */

/* Describes the user of a virtual function, for a message; empty when the function is free. */
static enum facet_status read_user(const struct change *change, int virtual_function, char *ret_user, size_t size,
                                   struct facet_error *error)
{
    char driver[40] = "";
    uint64_t type = 0;
    int64_t pid = 0;
    enum facet_status status = facet_sysfs_holder(change->root, virtual_function, &pid, error);

    ret_user[0] = '\0';
    if (status != FACET_OK)
        return status;
    if (tree_read_link_name(virtual_function, "driver", driver, sizeof driver) != FACET_PCI_READ)
        driver[0] = '\0';
    if (pid)
        snprintf(ret_user, size, "open in process %" PRId64, pid);
    else if (tree_read_number(virtual_function, "nvidia/current_vgpu_type", 10, UINT32_MAX, &type) == FACET_PCI_READ &&
             type)
        snprintf(ret_user, size, "a virtual GPU of type %" PRIu64, type);
    else if (driver[0] && !(change->flags & FACET_SRIOV_EVICT))
        snprintf(ret_user, size, "driven by %s", driver);
    return FACET_OK;
}

/* Opens a virtual function; -1: it does not exist. Its link leads upwards, so it is opened by its address from root. */
static int open_virtual(const struct change *change, uint32_t index, char ret_address[FACET_PCI_ADDRESS_SIZE])
{
    char link[32], name[64];
    struct facet_pci_address address;

    snprintf(link, sizeof link, "virtfn%" PRIu32, index);
    if (tree_read_link_name(change->device, link, name, sizeof name) != FACET_PCI_READ ||
        facet_pci_address_parse(name, &address, NULL) != FACET_OK)
        return -1;
    facet_pci_address_print(&address, ret_address);
    return facet_sysfs_open_function(change->root, &address, NULL);
}

static enum facet_status check_free(const struct change *change, struct facet_error *error)
{
    struct facet_names users = {0};

    for (uint32_t i = 0; i < change->before; i++) {
        char address[FACET_PCI_ADDRESS_SIZE], user[64], line[128];
        FACET_CLEANUP_FD int folder = open_virtual(change, i, address);
        if (folder < 0)
            continue;
        enum facet_status status = read_user(change, folder, user, sizeof user, error);
        if (status != FACET_OK)
            return facet_error_prefix(error, "whether its virtual functions are in use");
        snprintf(line, sizeof line, "%s (%s)", address, user);
        if (user[0])
            facet_names_add(&users, line);
    }
    if (users.text[0])
        return facet_error_set(error, FACET_BUSY, "present virtual functions are in use: %s", users.text);
    return FACET_OK;
}

/* --- the change --- */

static enum facet_status write_count(struct change *change, uint32_t count, struct facet_error *error)
{
    uint32_t now = 0;
    enum facet_status status = FACET_OK;

    change->touched = true;
    status = facet_sysfs_write_number(change->device, numvfs, count, error);
    if (status == FACET_OK)
        status = read_count(change, numvfs, &now, error);
    if (status == FACET_OK && now != count)
        return facet_error_set(error, FACET_BAD_STATE,
                               "the kernel has %" PRIu32 " virtual functions after %" PRIu32 " were written", now,
                               count);
    return status;
}

/* Checks that each virtual function exists, because the kernel's count alone does not prove that. */
static enum facet_status check_made(const struct change *change, struct facet_error *error)
{
    for (uint32_t i = 0; i < change->wanted; i++) {
        char address[FACET_PCI_ADDRESS_SIZE];
        FACET_CLEANUP_FD int folder = open_virtual(change, i, address);
        if (folder < 0)
            return facet_error_set(error, FACET_BAD_STATE, "virtual function %" PRIu32 " of %" PRIu32 " is not there",
                                   i + 1, change->wanted);
    }
    return FACET_OK;
}

static enum facet_status write_probing(struct change *change, uint32_t value, struct facet_error *error)
{
    uint64_t now = 0;
    enum facet_status status = facet_sysfs_write_number(change->device, autoprobe, value, error);

    if (status == FACET_OK &&
        (tree_read_number(change->device, autoprobe, 10, 1, &now) != FACET_PCI_READ || now != value))
        return facet_error_set(error, FACET_BAD_STATE, "'%s' did not become %" PRIu32, autoprobe, value);
    return status;
}

static enum facet_status set_probing(struct change *change, struct facet_error *error)
{
    uint64_t before = 0;

    if (!(change->flags & FACET_SRIOV_NO_PROBE) || change->wanted == 0)
        return FACET_OK;
    if (tree_read_number(change->device, autoprobe, 10, 1, &before) != FACET_PCI_READ)
        return facet_error_set(error, FACET_UNSUPPORTED, "'%s' cannot be read: drivers cannot be kept away", autoprobe);
    change->probing = (uint32_t)before;
    if (before == 0)
        return FACET_OK;
    change->set_probing = true;
    return write_probing(change, 0, error);
}

/* Writes nothing when autoprobe has its former value, because the write that failed may not have changed it. */
static enum facet_status restore_probing(struct change *change)
{
    uint64_t now = 0;

    if (tree_read_number(change->device, autoprobe, 10, 1, &now) == FACET_PCI_READ && now == change->probing)
        return FACET_OK;
    return write_probing(change, change->probing, NULL);
}

static void undo_change(struct change *change, struct facet_error *error)
{
    uint32_t now = 0;
    enum facet_status status = FACET_OK;

    /* autoprobe gets its former value before the virtual functions are made again, so that their drivers bind again. */
    if (change->set_probing && restore_probing(change) != FACET_OK)
        facet_sysfs_add_not_undone(error, autoprobe);
    if (!change->touched)
        return;
    status = read_count(change, numvfs, &now, NULL);
    if (status == FACET_OK && now != change->before && now != 0)
        status = write_count(change, 0, NULL);
    if (status == FACET_OK && now != change->before && change->before != 0)
        status = write_count(change, change->before, NULL);
    if (status != FACET_OK)
        facet_sysfs_add_not_undone(error, "the number of virtual functions");
}

static enum facet_status apply_change(struct change *change, struct facet_error *error)
{
    enum facet_status status = set_probing(change, error);

    if (status == FACET_OK && change->before > 0)
        status = write_count(change, 0, error);
    if (status == FACET_OK && change->wanted > 0)
        status = write_count(change, change->wanted, error);
    if (status == FACET_OK)
        status = check_made(change, error);
    if (status != FACET_OK)
        undo_change(change, error);
    return status;
}

static enum facet_status set_functions(struct change *change, struct facet_error *error)
{
    uint32_t total = 0;
    enum facet_status status = read_count(change, "sriov_totalvfs", &total, error);

    if (status == FACET_OK && change->wanted > total)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "count",
                                    "count %" PRIu32 ": expected 0 to %" PRIu32 " virtual functions", change->wanted,
                                    total);
    if (status == FACET_OK)
        status = read_count(change, numvfs, &change->before, error);
    if (status != FACET_OK || change->before == change->wanted)
        return status;
    status = check_free(change, error);
    return status == FACET_OK ? apply_change(change, error) : status;
}

enum facet_status facet_sriov_set(int root, const struct facet_pci_address *physical, uint32_t count, uint32_t flags,
                                  struct facet_error *error)
{
    struct change change = {.root = root, .flags = flags, .wanted = count};
    char address[FACET_PCI_ADDRESS_SIZE];
    struct facet_error why = {0};

    if (!physical)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "physical", "physical: expected an address");
    FACET_CLEANUP_FD int device = facet_sysfs_open_function(root, physical, &why);
    change.device = device;
    enum facet_status status = device < 0 ? why.status : set_functions(&change, &why);
    if (status == FACET_OK)
        return FACET_OK;
    facet_pci_address_print(physical, address);
    if (device >= 0)
        facet_error_prefix(&why, "'%s'", address);
    if (error)
        *error = why;
    return status;
}
