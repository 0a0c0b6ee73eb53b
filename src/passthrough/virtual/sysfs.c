/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: opening and writing files of sysfs, finding the users of a device. Never: interprets a value. */
#include "passthrough/virtual/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <facet/attach.h>

#include "base/cleanup.h"
#include "passthrough/scan/tree.h"

int facet_sysfs_open_function(int root, const struct facet_pci_address *address, struct facet_error *error)
{
    char text[FACET_PCI_ADDRESS_SIZE], path[64];

    facet_pci_address_print(address, text);
    snprintf(path, sizeof path, "sys/bus/pci/devices/%s", text);
    int folder = tree_open_directory(root, path);
    if (folder < 0 && errno == ENOENT)
        facet_error_argument(error, FACET_NOT_FOUND, "address", "'%s' is not on this machine", text);
    else if (folder < 0)
        facet_error_errno(error, errno, "cannot open the directory of '%s' in sysfs", text);
    return folder;
}

enum facet_status facet_sysfs_write(int at, const char *path, const char *value, struct facet_error *error)
{
    size_t length = strlen(value);
    FACET_CLEANUP_FD int fd = openat(at, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return facet_error_errno(error, errno, "cannot open '%s' for writing", path);
    ssize_t written = write(fd, value, length);
    if (written < 0)
        return facet_error_errno(error, errno, "the kernel refuses '%s' for '%s'", value, path);
    if ((size_t)written != length)
        return facet_error_set(error, FACET_IO, "the kernel took a part of '%s' for '%s'", value, path);
    return FACET_OK;
}

enum facet_status facet_sysfs_write_number(int at, const char *path, uint32_t value, struct facet_error *error)
{
    char text[16];

    snprintf(text, sizeof text, "%" PRIu32, value);
    return facet_sysfs_write(at, path, text, error);
}

struct nodes {
    char texts[2][64];
    const char *paths[2];
    uint32_t count;
};

static void add_node(struct nodes *nodes, const char *folder, const char *name)
{
    if (nodes->count == 2)
        return;
    snprintf(nodes->texts[nodes->count], sizeof nodes->texts[0], "%s%.40s", folder, name);
    nodes->paths[nodes->count] = nodes->texts[nodes->count];
    nodes->count++;
}

static bool take_device(void *context, char *name)
{
    if (strncmp(name, "vfio", 4) == 0)
        add_node(context, "/dev/vfio/devices/", name);
    return true;
}

enum facet_status facet_sysfs_holder(int root, int device, int64_t *ret_pid, struct facet_error *error)
{
    char group[40];
    struct nodes nodes = {0};

    if (tree_read_link_name(device, "iommu_group", group, sizeof group) == FACET_PCI_READ)
        add_node(&nodes, "/dev/vfio/", group);
    tree_each_name(device, "vfio-dev", take_device, &nodes);
    if (nodes.count == 0) {
        *ret_pid = 0;
        return FACET_OK;
    }
    return facet_attach_find_holder(root, 0, nodes.paths, nodes.count, ret_pid, error);
}

void facet_names_add(struct facet_names *names, const char *name)
{
    static const char more[] = " and more";
    size_t used = strlen(names->text), needed = strlen(name) + (used ? 2 : 0);

    if (names->more)
        return;
    if (used + needed + sizeof more > sizeof names->text) {
        names->more = true;
        name = more;
    }
    snprintf(names->text + used, sizeof names->text - used, "%s%s", used && !names->more ? ", " : "", name);
}

void facet_sysfs_add_not_undone(struct facet_error *error, const char *what)
{
    struct facet_error first;

    if (!error)
        return;
    first = *error;
    facet_error_argument(error, first.status, first.argument, "%s; not undone: %s", first.message, what);
}
