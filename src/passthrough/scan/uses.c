/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the host's use of network and storage functions: interfaces that are up, disks that are in use.
 * Never: reads from a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

struct uses {
    int root;
    const char *class; /* the class's directory that is searched: "sys/class/net" */
    struct facet_pci_snapshot *snapshot;
    struct facet_pci_use *use;    /* the block device that is being checked */
    char number[32];              /* its device number, "259:1" */
    enum facet_pci_unread unread; /* why a use may have been missed */
    bool found;
    bool failed;
};

/* The function below which a link's target lies; NULL when it lies below no function of the snapshot. */
static struct facet_pci_function *function_at(const struct uses *uses, const char *target)
{
    struct facet_pci_address address;

    return scan_last_address_in(target, &address) ? scan_find(uses->snapshot, &address) : NULL;
}

/* Whether a file was read. If not, the reason is noted, except when the file is absent, which means that there is no
 * use. */
static bool is_read(struct uses *uses, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        uses->unread = tree_worse(uses->unread, unread);
    return unread == FACET_PCI_READ;
}

static bool read_target(struct uses *uses, const char *name, char target[1024])
{
    char path[320];

    snprintf(path, sizeof path, "%s/%.255s", uses->class, name);
    return is_read(uses, tree_read_link(uses->root, path, target, 1024));
}

static void add_use(struct uses *uses, struct facet_pci_function *function, const struct facet_pci_use *use)
{
    void *array = (void *)function->uses;
    struct facet_pci_use *added = tree_append(&array, &function->use_count, sizeof *added);

    function->uses = array;
    uses->failed = uses->failed || !added;
    if (added)
        *added = *use;
}

/* ---- networks ---- */

enum { INTERFACE_UP = 1 };

static bool take_interface(void *context, char *name)
{
    struct uses *uses = context;
    struct facet_pci_use use = {.is_network = 1};
    char path[320], target[1024];
    uint64_t flags = 0;
    struct facet_pci_function *function = read_target(uses, name, target) ? function_at(uses, target) : NULL;

    snprintf(path, sizeof path, "%s/%.255s/flags", uses->class, name);
    if (!function || !is_read(uses, tree_read_number(uses->root, path, 16, UINT32_MAX, &flags)) ||
        !(flags & INTERFACE_UP))
        return true;
    snprintf(use.name, sizeof use.name, "%.39s", name);
    add_use(uses, function, &use);
    return !uses->failed;
}

/* ---- disks ---- */

/* A mount of btrfs has a device number of its own, so the disk is found by the mount's source. */
static bool is_source(const char *line, const char *disk)
{
    const char *end = strstr(line, " - ");
    char source[64];

    return end && sscanf(end, " - %*s /dev/%63s", source) == 1 && strcmp(source, disk) == 0;
}

/* "36 35 98:0 /mnt1 /mnt2 rw - ext3 /dev/root rw": the third word is the device, the fifth the place. */
static bool take_mount(void *context, char *line)
{
    struct uses *uses = context;
    char number[32], place[sizeof uses->use->place];

    if (sscanf(line, "%*s %*s %31s %*s %63s", number, place) != 2 ||
        (strcmp(number, uses->number) != 0 && !is_source(line, uses->use->name)))
        return true;
    snprintf(uses->use->place, sizeof uses->use->place, "%s", place);
    uses->found = true;
    return false;
}

static bool take_swap(void *context, char *line)
{
    struct uses *uses = context;
    char path[64];

    if (sscanf(line, "/dev/%63s", path) != 1 || strcmp(path, uses->use->name) != 0)
        return true;
    snprintf(uses->use->place, sizeof uses->use->place, "swap");
    uses->found = true;
    return false;
}

/* A holder of the disk: an array, a volume or a mapping that is built on it. */
static bool take_upper(void *context, char *name)
{
    struct uses *uses = context;

    snprintf(uses->use->place, sizeof uses->use->place, "part of %.50s", name);
    uses->found = true;
    return false;
}

/* Checks whether a btrfs file system includes the disk. The list of mounts names only one of its disks. */
static bool take_btrfs(void *context, char *name)
{
    struct uses *uses = context;
    char path[360], target[1024];

    snprintf(path, sizeof path, "sys/fs/btrfs/%.255s/devices/%.39s", name, uses->use->name);
    uses->found = is_read(uses, tree_read_link(uses->root, path, target, sizeof target));
    if (uses->found)
        snprintf(uses->use->place, sizeof uses->use->place, "btrfs %.50s", name);
    return !uses->found;
}

static bool is_in_use(struct uses *uses, const char *name, struct facet_pci_use *use)
{
    char path[320];

    snprintf(use->name, sizeof use->name, "%.39s", name);
    uses->use = use;
    uses->found = false;
    snprintf(path, sizeof path, "%s/%.255s/dev", uses->class, name);
    if (is_read(uses, tree_read_text(uses->root, path, uses->number, sizeof uses->number)))
        is_read(uses, tree_each_line(uses->root, "proc/self/mountinfo", take_mount, uses));
    if (!uses->found)
        is_read(uses, tree_each_line(uses->root, "proc/swaps", take_swap, uses));
    snprintf(path, sizeof path, "%s/%.255s/holders", uses->class, name);
    if (!uses->found)
        is_read(uses, tree_each_name(uses->root, path, take_upper, uses));
    if (!uses->found)
        is_read(uses, tree_each_name(uses->root, "sys/fs/btrfs", take_btrfs, uses));
    facet_text_make_line(use->place);
    return uses->found;
}

#define NVME_SUBSYSTEM "/nvme-subsystem/"

/* Adds the use to a controller of the disk's NVMe subsystem; its entry "nvme0" links to the controller. */
static bool take_controller(void *context, char *name)
{
    struct uses *uses = context;
    char target[1024];
    struct facet_pci_function *function = read_target(uses, name, target) ? function_at(uses, target) : NULL;

    if (function)
        add_use(uses, function, uses->use);
    return !uses->failed;
}

/* Adds the use of a disk to every controller of its NVMe subsystem, because the disk is below none of them. */
static void add_to_controllers(struct uses *uses, const char *target)
{
    struct uses inner = *uses;
    char path[128];

    snprintf(path, sizeof path, "sys/class/nvme-subsystem/%.*s", (int)strcspn(target, "/"), target);
    inner.class = path;
    is_read(&inner, tree_each_name(uses->root, path, take_controller, &inner));
    uses->unread = inner.unread;
    uses->failed = inner.failed;
}

static bool take_disk(void *context, char *name)
{
    struct uses *uses = context;
    struct facet_pci_use use = {0};
    char target[1024];

    if (!read_target(uses, name, target))
        return true;
    struct facet_pci_function *function = function_at(uses, target);
    const char *shared = strstr(target, NVME_SUBSYSTEM);
    if ((!function && !shared) || !is_in_use(uses, name, &use))
        return true;
    if (function)
        add_use(uses, function, &use);
    else
        add_to_controllers(uses, shared + strlen(NVME_SUBSYSTEM));
    return !uses->failed;
}

static int compare_uses(const void *a, const void *b)
{
    return strcmp(((const struct facet_pci_use *)a)->name, ((const struct facet_pci_use *)b)->name);
}

/* Why uses of a function may have been missed, by its kind: a disk may be behind USB, and the kind may be unclear. */
static enum facet_pci_unread uses_unread_reason(const struct facet_pci_function *function,
                                                enum facet_pci_unread networks, enum facet_pci_unread disks)
{
    switch (function->kind) {
    case FACET_PCI_KIND_NETWORK:
        return networks;
    case FACET_PCI_KIND_STORAGE:
        return disks;
    case FACET_PCI_KIND_USB:
    case FACET_PCI_KIND_OTHER:
        return tree_worse(networks, disks);
    default:
        return FACET_PCI_READ;
    }
}

static void finish_uses(struct facet_pci_function *function, enum facet_pci_unread networks,
                        enum facet_pci_unread disks)
{
    function->unread[FACET_PCI_USES] = (uint8_t)uses_unread_reason(function, networks, disks);
    if (function->use_count > 1)
        qsort((void *)function->uses, function->use_count, sizeof *function->uses, compare_uses);
}

/* Searches a class; FACET_PCI_UNREAD_ABSENT of the directory means that this kernel has no such devices. */
static enum facet_pci_unread search_class(struct uses *uses, const char *class, tree_take_func take)
{
    uses->class = class;
    uses->unread = FACET_PCI_READ;
    is_read(uses, tree_each_name(uses->root, class, take, uses));
    return uses->unread;
}

bool scan_uses(int root, struct facet_pci_snapshot *snapshot)
{
    struct uses uses = {.root = root, .snapshot = snapshot};
    enum facet_pci_unread networks = search_class(&uses, "sys/class/net", take_interface);
    enum facet_pci_unread disks = search_class(&uses, "sys/class/block", take_disk);

    /* Without this process's list of mounts, whether a disk is in use is unknown. */
    if (disks == FACET_PCI_READ && !tree_exists(root, "proc/self/mountinfo"))
        disks = FACET_PCI_UNREAD_ABSENT;
    if (scan_is_confined(root))
        networks = disks = FACET_PCI_UNREAD_PERMISSION;
    for (size_t i = 0; i < snapshot->count; i++)
        finish_uses(&snapshot->functions[i], networks, disks);
    return !uses.failed;
}
