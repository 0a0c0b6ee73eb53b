/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the device nodes of functions: below them in sysfs, and where some drivers list them elsewhere.
 * Never: follows a link, goes into another function, or treats a driver with unknown nodes as one without nodes.
 */
#include "passthrough/scan/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "passthrough/driver.h"
#include "passthrough/scan/tree.h"
#include "passthrough/stuck.h"

/* One function whose nodes are being found. */
struct search {
    int root;
    struct scan_nodes *nodes;
    struct facet_pci_function *function;
    unsigned folders;     /* how many directories were searched */
    bool has_usage_nodes; /* nodes through which processes use the function were found */
};

/* An unreadable directory may hide a node; an absent one hides none. */
static void note_unread(struct facet_pci_function *function, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        function->unread[FACET_PCI_HOLDERS] = (uint8_t)tree_worse(function->unread[FACET_PCI_HOLDERS], unread);
}

static void add_node(struct search *search, const struct scan_node *node)
{
    struct scan_node *added =
        tree_append((void **)&search->nodes->nodes, &search->nodes->count, sizeof *search->nodes->nodes);

    search->nodes->failed = search->nodes->failed || !added;
    if (!added)
        return;
    *added = *node;
    added->function = search->function;
    facet_text_make_line(added->path);
}

/* ---- nodes below a function in sysfs ---- */

/* Reads a device number such as "226:0". */
static enum facet_pci_unread read_number(int folder, const char *path, dev_t *ret_number)
{
    char text[32], rest;
    unsigned major_number, minor_number;
    enum facet_pci_unread unread = tree_read_text(folder, path, text, sizeof text);

    if (unread == FACET_PCI_READ && sscanf(text, "%7u:%7u%c", &major_number, &minor_number, &rest) != 2)
        unread = FACET_PCI_UNREAD_MALFORMED;
    if (unread == FACET_PCI_READ)
        *ret_number = makedev(major_number, minor_number);
    return unread;
}

/* A line of `uevent`: "DEVNAME=dri/card0". Only block devices have the type "disk" or "partition". */
static bool take_property(void *context, char *line)
{
    struct scan_node *node = context;

    if (strncmp(line, "DEVNAME=", 8) == 0 && strlen(line + 8) + sizeof "/dev/" <= sizeof node->path)
        snprintf(node->path, sizeof node->path, "/dev/%.34s", line + 8);
    if (strcmp(line, "DEVTYPE=disk") == 0 || strcmp(line, "DEVTYPE=partition") == 0)
        node->is_block = true;
    return true;
}

/* Whether nodes of the class are buses to screens, through which programs do not use the GPU. */
static bool is_screen_bus(const char *class)
{
    return strcmp(class, "i2c-dev") == 0 || strcmp(class, "drm_dp_aux_dev") == 0;
}

/* Adds the node of the device whose directory this is. `above` is the name of the parent directory: its class, or the
 * device that it is a part of. */
static void add_device(struct search *search, int folder, const char *above)
{
    struct scan_node node = {.numbers = 1};
    enum facet_pci_unread unread = read_number(folder, "dev", &node.number);

    note_unread(search->function, unread);
    if (unread != FACET_PCI_READ)
        return;
    note_unread(search->function, tree_each_line(folder, "uevent", take_property, &node));
    if (!node.path[0]) /* udev's name for a node by its number */
        snprintf(node.path, sizeof node.path, "/dev/%s/%u:%u", node.is_block ? "block" : "char", major(node.number),
                 minor(node.number));
    add_node(search, &node);
    search->has_usage_nodes = search->has_usage_nodes || !is_screen_bus(above);
}

/*
 * Skips other functions, and large directories without nodes. It skips keyboards and mice, too: every desktop has them
 * open, but the kernel does not wait for their users when they are removed.
 */
static bool is_walked(const char *name)
{
    static const char *const barren[] = {"power", "msi_irqs", "net", "mq", "queue", "integrity", "hwmon", "input"};
    struct facet_pci_address address;

    if (name[0] == '.' || facet_pci_address_parse(name, &address, NULL) == FACET_OK)
        return false;
    for (size_t i = 0; i < sizeof barren / sizeof barren[0]; i++)
        if (strcmp(name, barren[i]) == 0)
            return false;
    return true;
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

enum {
    DEPTH_MAX = 24,     /* a partition of a disk behind four hubs is 17 levels below its controller */
    FOLDERS_MAX = 8192, /* below one function */
};

static void walk_folder(struct search *search, int folder_fd, const char *above, const char *name, unsigned depth);

static void walk_into(struct search *search, int at, const char *above, const char *name, unsigned depth)
{
    if (depth > DEPTH_MAX || ++search->folders > FOLDERS_MAX) {
        note_unread(search->function, FACET_PCI_UNREAD_MALFORMED);
        return;
    }
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        note_unread(search->function, tree_unread(errno));
    else
        walk_folder(search, fd, above, name, depth);
}

/* Searches a directory; closes `folder_fd`. */
static void walk_folder(struct search *search, int folder_fd, const char *above, const char *name, unsigned depth)
{
    FACET_CLEANUP_DIR DIR *folder = fdopendir(folder_fd);
    const struct dirent *entry;

    if (!folder) {
        note_unread(search->function, tree_unread(errno));
        close(folder_fd);
        return;
    }
    for (errno = 0; !search->nodes->failed && (entry = readdir(folder)); errno = 0) {
        if (strcmp(entry->d_name, "dev") == 0)
            add_device(search, dirfd(folder), above);
        else if (is_folder(dirfd(folder), entry) && is_walked(entry->d_name))
            walk_into(search, dirfd(folder), name, entry->d_name, depth + 1);
    }
    if (!search->nodes->failed)
        note_unread(search->function, tree_unread(errno));
}

static void walk_at(struct search *search, const char *path)
{
    int fd = tree_open_directory(search->root, path);

    if (fd < 0)
        note_unread(search->function, tree_unread(errno));
    else
        walk_folder(search, fd, "", "", 0);
}

/* ---- nodes elsewhere ---- */

/* Adds the node of the function's group, which is not below the function. */
static void find_group_node(struct search *search)
{
    struct scan_node node = {0};
    char path[64];

    if (search->function->group < 0)
        return;
    snprintf(path, sizeof path, "sys/class/vfio/%d/dev", search->function->group);
    snprintf(node.path, sizeof node.path, "/dev/vfio/%d", search->function->group);
    node.numbers = read_number(search->root, path, &node.number) == FACET_PCI_READ;
    add_node(search, &node);
}

enum { NVIDIA_MAJOR = 195, NVIDIA_GPUS = 248 }; /* higher minors are for control and for screens */

static bool take_minor(void *context, char *line)
{
    struct search *search = context;
    struct scan_node node = {.numbers = 1};
    unsigned number;

    if (sscanf(line, "Device Minor: %7u", &number) != 1)
        return true;
    node.number = makedev(NVIDIA_MAJOR, number);
    snprintf(node.path, sizeof node.path, "/dev/nvidia%u", number);
    add_node(search, &node);
    search->has_usage_nodes = true;
    return false;
}

/* NVIDIA's driver lists the minor number below /proc. Without it, any node of the major number may be the GPU's. */
static void find_nvidia_nodes(struct search *search, const char *address)
{
    struct scan_node any = {
        .path = "/dev/nvidia", .number = makedev(NVIDIA_MAJOR, 0), .numbers = NVIDIA_GPUS, .is_series = true};
    char path[128];

    search->has_usage_nodes = false; /* programs do not use such a GPU through its DRM nodes */
    snprintf(path, sizeof path, "proc/driver/nvidia/gpus/%s/information", address);
    note_unread(search->function, tree_each_line(search->root, path, take_minor, search));
    if (!search->has_usage_nodes)
        add_node(search, &any);
    search->has_usage_nodes = true;
}

/*
 * It is unknown which switch a node's number stands for. So a process that has any of these nodes open counts as a
 * holder of each switch; the fabric manager has all of them open.
 */
static void find_nvswitch_nodes(struct search *search)
{
    add_node(search, &(struct scan_node){.path = "/dev/nvidia-nvswitch", .is_series = true});
    search->has_usage_nodes = true;
}

/* ---- one function ---- */

/* Whether the function is of a kind for which the kernel lists every node below the function, with any driver. */
static bool has_class_of_kernel(const struct facet_pci_function *function)
{
    return function->kind == FACET_PCI_KIND_AUDIO || function->kind == FACET_PCI_KIND_USB ||
           function->kind == FACET_PCI_KIND_STORAGE || function->kind == FACET_PCI_KIND_NETWORK;
}

/* Bridges have no nodes. A function that was not scanned in detail is skipped, too. */
static bool needs_nodes(const struct facet_pci_function *function)
{
    return function->kind != FACET_PCI_KIND_BRIDGE && function->unread[FACET_PCI_POWER] != FACET_PCI_UNREAD_SKIPPED;
}

/* Whether the kernel waits for a driver to release the function: it then no longer shows the driver, whose nodes are
 * therefore unknown. */
static bool is_releasing_driver(const struct facet_pci_function *function)
{
    return function->driver[0] == '\0' && function->unread[FACET_PCI_DRIVER] == FACET_PCI_READ && stuck_is(function);
}

/* A function without a driver, or with a stub, has no node. */
static bool may_have_nodes(const struct facet_pci_function *function)
{
    return function->unread[FACET_PCI_DRIVER] != FACET_PCI_READ || function->is_vfio || is_releasing_driver(function) ||
           !driver_is_harmless(function->driver);
}

static void find_nodes(struct search *search)
{
    struct facet_pci_function *function = search->function;
    char address[FACET_PCI_ADDRESS_SIZE], path[64];

    function->unread[FACET_PCI_HOLDERS] = FACET_PCI_READ;
    if (!may_have_nodes(function))
        return;
    facet_pci_address_print(&function->address, address);
    snprintf(path, sizeof path, SCAN_DEVICES "/%s", address);
    walk_at(search, path);
    bool is_nvidia = strcmp(function->driver, "nvidia") == 0;
    if (function->is_vfio || is_releasing_driver(function) ||
        (is_nvidia && function->is_virtual)) /* NVIDIA's driver can pass its virtual functions through itself */
        find_group_node(search);
    if (is_nvidia)
        find_nvidia_nodes(search, address);
    if (strcmp(function->driver, "nvidia-nvswitch") == 0)
        find_nvswitch_nodes(search);
    if (!search->has_usage_nodes && !function->is_vfio && !is_releasing_driver(function) &&
        !has_class_of_kernel(function))
        note_unread(function, FACET_PCI_UNREAD_UNKNOWN);
}

/* ---- disks of NVMe subsystems: several controllers reach such a disk, so it is below no function in sysfs ---- */

struct subsystem {
    int root;
    struct facet_pci_snapshot *snapshot;
    struct scan_nodes *nodes;
    const char *path;
    enum facet_pci_unread unread; /* why a disk may have been missed */
};

static void note_hidden(struct subsystem *subsystem, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        subsystem->unread = tree_worse(subsystem->unread, unread);
}

static bool take_controller(void *context, char *name)
{
    struct subsystem *subsystem = context;
    struct facet_pci_address address;
    char path[640], target[1024];

    if (strncmp(name, "nvme", 4) != 0)
        return true;
    snprintf(path, sizeof path, "%s/%.255s", subsystem->path, name);
    enum facet_pci_unread unread = tree_read_link(subsystem->root, path, target, sizeof target);
    if (unread != FACET_PCI_READ) {
        if (unread != FACET_PCI_UNREAD_MALFORMED) /* malformed: the entry is a disk and no link */
            note_hidden(subsystem, unread);
        return true;
    }
    if (!scan_last_address_in(target, &address))
        return true;
    struct facet_pci_function *function = scan_find(subsystem->snapshot, &address);
    if (function && needs_nodes(function))
        walk_at(&(struct search){.root = subsystem->root, .nodes = subsystem->nodes, .function = function},
                subsystem->path);
    return !subsystem->nodes->failed;
}

static bool take_subsystem(void *context, char *name)
{
    struct subsystem *subsystem = context;
    char path[320];

    snprintf(path, sizeof path, "sys/class/nvme-subsystem/%.255s", name);
    subsystem->path = path;
    note_hidden(subsystem, tree_each_name(subsystem->root, path, take_controller, subsystem));
    return !subsystem->nodes->failed;
}

static void find_shared_disks(int root, struct facet_pci_snapshot *snapshot, struct scan_nodes *nodes)
{
    struct subsystem subsystem = {.root = root, .snapshot = snapshot, .nodes = nodes};

    note_hidden(&subsystem, tree_each_name(root, "sys/class/nvme-subsystem", take_subsystem, &subsystem));
    for (size_t i = 0; i < snapshot->count; i++)
        if (snapshot->functions[i].kind == FACET_PCI_KIND_STORAGE && needs_nodes(&snapshot->functions[i]) &&
            may_have_nodes(&snapshot->functions[i]))
            note_unread(&snapshot->functions[i], subsystem.unread);
}

/* ---- all functions ---- */

void scan_nodes(int root, struct facet_pci_snapshot *snapshot, struct scan_nodes *nodes)
{
    for (size_t i = 0; i < snapshot->count && !nodes->failed; i++)
        if (needs_nodes(&snapshot->functions[i]))
            find_nodes(&(struct search){.root = root, .nodes = nodes, .function = &snapshot->functions[i]});
    if (!nodes->failed)
        find_shared_disks(root, snapshot, nodes);
}

bool scan_node_is_named(const struct scan_node *node, const char *path)
{
    size_t length = strlen(node->path);

    if (!node->is_series)
        return strcmp(node->path, path) == 0;
    return strncmp(node->path, path, length) == 0 && path[length] &&
           !path[length + strspn(path + length, "0123456789")];
}
