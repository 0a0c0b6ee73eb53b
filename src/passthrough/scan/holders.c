/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: which process has which function open, by its device nodes. Never: opens a device node, or stops at a process
 * that it may not look into. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

/* ---- device nodes ---- */

struct node {
    struct facet_pci_function *function;
    char path[40];
};

struct nodes {
    struct node *nodes;
    size_t count;
    struct facet_pci_function *function; /* whose are being looked for */
    const char *folder;                  /* "/dev/dri/" */
    bool failed;
};

/* What may hide a node or a holder; what is absent hides none. */
static void note(struct facet_pci_function *function, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        function->unread[FACET_PCI_HOLDERS] = (uint8_t)tree_worse(function->unread[FACET_PCI_HOLDERS], unread);
}

static bool add_node(struct nodes *nodes, const char *folder, const char *name)
{
    struct node *node = tree_append((void **)&nodes->nodes, &nodes->count, sizeof *node);

    nodes->failed = nodes->failed || !node;
    if (!node)
        return false;
    node->function = nodes->function;
    snprintf(node->path, sizeof node->path, "%s%.20s", folder, name);
    return true;
}

static bool take_node(void *context, char *name)
{
    struct nodes *nodes = context;

    return add_node(nodes, nodes->folder, name);
}

static bool take_minor(void *context, char *line)
{
    char minor[12];

    if (sscanf(line, "Device Minor: %11[0-9]", minor) != 1)
        return true;
    add_node(context, "/dev/nvidia", minor);
    return false;
}

enum { VENDOR_NVIDIA = 0x10de };

#define KIND(kind) (UINT32_C(1) << FACET_PCI_KIND_##kind)

/* The directory of a function names what its driver made. */
static const struct {
    const char *directory, *folder;
    uint32_t kinds; /* that can have such */
} places[] = {
    {"drm", "/dev/dri/", KIND(GPU) | KIND(NPU) | KIND(OTHER)},
    {"accel", "/dev/accel/", KIND(NPU) | KIND(OTHER)},
    {"habanalabs", "/dev/", KIND(NPU)}, /* Gaudi, before there was accel */
    {"hailo_chardev", "/dev/", KIND(NPU)},
    {"neuron_device", "/dev/", KIND(NPU)}, /* AWS */
    {"apex", "/dev/", KIND(NPU)},          /* Coral */
};

static void find_in(int root, struct nodes *nodes, const char *address, const char *directory, const char *folder)
{
    char path[128];

    snprintf(path, sizeof path, SCAN_DEVICES "/%s/%s", address, directory);
    nodes->folder = folder;
    note(nodes->function, tree_each(root, path, take_node, nodes));
}

static void find_of_vfio(int root, struct nodes *nodes, const char *address)
{
    char group[16];

    find_in(root, nodes, address, "vfio-dev", "/dev/vfio/devices/");
    snprintf(group, sizeof group, "%d", nodes->function->group);
    if (nodes->function->group >= 0)
        add_node(nodes, "/dev/vfio/", group);
}

/* NVIDIA's driver says it in a place of its own. */
static void find_of_nvidia(int root, struct nodes *nodes, const char *address)
{
    char path[128];

    snprintf(path, sizeof path, "proc/driver/nvidia/gpus/%s/information", address);
    note(nodes->function, tree_lines(root, path, take_minor, nodes));
}

/* Nothing tells which switch has which number: who holds any, as the fabric manager does all, counts for each. */
static void find_of_nvswitch(struct nodes *nodes)
{
    enum { SWITCHES_MOST = 64 };
    char number[12];

    for (unsigned i = 0; i < SWITCHES_MOST && !nodes->failed; i++) {
        snprintf(number, sizeof number, "%u", i);
        add_node(nodes, "/dev/nvidia-nvswitch", number);
    }
}

/* Without a driver there is no node. */
static void find_nodes(int root, struct nodes *nodes)
{
    const struct facet_pci_function *function = nodes->function;
    char address[FACET_PCI_ADDRESS_SIZE];

    nodes->function->unread[FACET_PCI_HOLDERS] = FACET_PCI_READ;
    if (function->driver[0] == '\0' && function->unread[FACET_PCI_DRIVER] == FACET_PCI_READ)
        return;
    facet_pci_address_print(&function->address, address);
    if (function->is_vfio) {
        find_of_vfio(root, nodes, address);
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (places[i].kinds >> function->kind & 1)
            find_in(root, nodes, address, places[i].directory, places[i].folder);
    if (strcmp(function->driver, "nvidia-nvswitch") == 0)
        find_of_nvswitch(nodes);
    if (function->vendor == VENDOR_NVIDIA && facet_pci_is_accelerator(function))
        find_of_nvidia(root, nodes, address);
}

/* ---- processes ---- */

struct processes {
    int root;
    const struct nodes *nodes;
    int64_t pid;
    int descriptors;              /* the fd directory of that process */
    enum facet_pci_unread unread; /* there may be more than those found */
    bool failed;
};

static bool has_holder(const struct facet_pci_function *function, int64_t pid, const char *node)
{
    for (size_t i = 0; i < function->holder_count; i++)
        if (function->holders[i].pid == pid && strcmp(function->holders[i].node, node) == 0)
            return true;
    return false;
}

static bool add_holder(const struct processes *processes, const struct node *node)
{
    struct facet_pci_function *function = node->function;
    void *array = (void *)function->holders;
    char path[48];

    if (has_holder(function, processes->pid, node->path))
        return true;
    struct facet_pci_holder *holder = tree_append(&array, &function->holder_count, sizeof *holder);
    function->holders = array;
    if (!holder)
        return false;
    *holder = (struct facet_pci_holder){.pid = processes->pid};
    memcpy(holder->node, node->path, sizeof holder->node);
    snprintf(path, sizeof path, "proc/%lld/comm", (long long)processes->pid);
    tree_bytes(processes->root, path, holder->command, sizeof holder->command - 1, &(size_t){0});
    holder->command[strcspn(holder->command, "\n")] = '\0';
    facet_text_make_line(holder->command);
    return true;
}

/* A process may end while it is looked at. */
static void note_process(struct processes *processes, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        processes->unread = tree_worse(processes->unread, unread);
}

static bool take_descriptor(void *context, char *name)
{
    struct processes *processes = context;
    char target[64];
    enum facet_pci_unread unread = tree_link(processes->descriptors, name, target, sizeof target);

    if (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_MALFORMED) /* too long for a device's node */
        note_process(processes, unread);
    if (unread != FACET_PCI_READ || strncmp(target, "/dev/", 5) != 0)
        return true;
    for (size_t i = 0; i < processes->nodes->count && !processes->failed; i++)
        if (strcmp(processes->nodes->nodes[i].path, target) == 0)
            processes->failed = !add_holder(processes, &processes->nodes->nodes[i]);
    return !processes->failed;
}

static bool take_process(void *context, char *name)
{
    struct processes *processes = context;
    char path[32];

    if (strspn(name, "0123456789") != strlen(name) || strlen(name) > 10)
        return true;
    snprintf(path, sizeof path, "proc/%.10s/fd", name);
    FACET_CLEANUP_FD int directory = tree_directory(processes->root, path);
    if (directory < 0) {
        note_process(processes, tree_unread(errno));
        return true;
    }
    processes->pid = strtoll(name, NULL, 10);
    processes->descriptors = directory;
    note_process(processes, tree_each(directory, ".", take_descriptor, processes));
    return !processes->failed;
}

static int compare_holders(const void *a, const void *b)
{
    const struct facet_pci_holder *first = a, *second = b;

    if (first->pid != second->pid)
        return first->pid < second->pid ? -1 : 1;
    return strcmp(first->node, second->node);
}

static void finish(struct facet_pci_function *function, enum facet_pci_unread unread)
{
    function->unread[FACET_PCI_HOLDERS] = (uint8_t)tree_worse(function->unread[FACET_PCI_HOLDERS], unread);
    if (function->holder_count > 1)
        qsort((void *)function->holders, function->holder_count, sizeof *function->holders, compare_holders);
}

/* Bridges have no nodes; the others of a group may be what holds it. */
static bool is_looked_at(const struct facet_pci_function *function)
{
    return function->kind != FACET_PCI_KIND_BRIDGE && function->unread[FACET_PCI_POWER] != FACET_PCI_UNREAD_SKIPPED;
}

/* The kernel's own namespace of processes has a number that never changes. A copied tree need not have it. */
bool scan_is_confined(int root)
{
    char name[32];

    return tree_link_name(root, "proc/self/ns/pid", name, sizeof name) == FACET_PCI_READ &&
           strcmp(name, "pid:[4026531836]") != 0;
}

bool scan_holders(int root, struct facet_pci_snapshot *snapshot)
{
    struct nodes nodes = {0};
    struct processes processes = {.root = root, .nodes = &nodes};
    for (size_t i = 0; i < snapshot->count && !nodes.failed; i++) {
        nodes.function = &snapshot->functions[i];
        if (is_looked_at(nodes.function))
            find_nodes(root, &nodes);
    }
    if (nodes.count > 0 && scan_is_confined(root))
        processes.unread = FACET_PCI_UNREAD_PERMISSION;
    if (nodes.count > 0 && !nodes.failed)
        note_process(&processes, tree_each(root, "proc", take_process, &processes));
    for (size_t i = 0; i < snapshot->count; i++)
        if (is_looked_at(&snapshot->functions[i]))
            finish(&snapshot->functions[i], processes.unread);
    free(nodes.nodes);
    return !nodes.failed && !processes.failed;
}
