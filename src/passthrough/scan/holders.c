/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the list of the processes that have a function open, by its device nodes. Never: opens a device node, or stops
 * at a process that it must not read.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "passthrough/scan/nodes.h"
#include "passthrough/scan/tree.h"

struct processes {
    int root;
    const struct scan_nodes *nodes;
    bool is_real_proc; /* /proc is not a copy of its files: its links lead to open files, not to names */
    int64_t pid;
    int descriptors;              /* the directory of its descriptors, /proc/PID/fd */
    enum facet_pci_unread unread; /* why there may be more holders than those found */
    bool failed;                  /* no memory */
};

/* An open file: its device number, which is independent of the name, or only its name in a copied /proc. */
struct open_node {
    const char *path;
    dev_t number;
    bool has_number;
    bool is_block;
};

static bool open_matches_node(const struct open_node *open, const struct scan_node *node)
{
    if (!open->has_number || node->numbers == 0)
        return scan_node_is_named(node, open->path);
    return open->is_block == node->is_block && open->number >= node->number &&
           open->number - node->number < node->numbers;
}

static bool has_holder(const struct facet_pci_function *function, int64_t pid, const char *node)
{
    for (size_t i = 0; i < function->holder_count; i++)
        if (function->holders[i].pid == pid && strcmp(function->holders[i].node, node) == 0)
            return true;
    return false;
}

static bool add_holder(const struct processes *processes, const struct scan_node *node, const char *path)
{
    struct facet_pci_function *function = node->function;
    void *array = (void *)function->holders;
    char comm[48];

    if (has_holder(function, processes->pid, path))
        return true;
    struct facet_pci_holder *holder = tree_append(&array, &function->holder_count, sizeof *holder);
    function->holders = array;
    if (!holder)
        return false;
    *holder = (struct facet_pci_holder){.pid = processes->pid};
    snprintf(holder->node, sizeof holder->node, "%s", path);
    snprintf(comm, sizeof comm, "proc/%lld/comm", (long long)processes->pid);
    tree_read_bytes(processes->root, comm, holder->command, sizeof holder->command - 1, &(size_t){0});
    holder->command[strcspn(holder->command, "\n")] = '\0';
    facet_text_make_line(holder->command);
    return true;
}

/* Notes why a file of a process was not read. An absent file is not noted: the process has ended meanwhile. */
static void note_process(struct processes *processes, enum facet_pci_unread unread)
{
    if (unread != FACET_PCI_UNREAD_ABSENT)
        processes->unread = tree_worse(processes->unread, unread);
}

/* The path to report: for a series of nodes ("/dev/nvidia" and a number), the path of the node that is open. */
static const char *name_of(const struct scan_node *node, const struct open_node *open)
{
    return node->is_series && scan_node_is_named(node, open->path) ? open->path : node->path;
}

static bool add_holders_of_node(struct processes *processes, const struct open_node *open)
{
    for (size_t i = 0; i < processes->nodes->count && !processes->failed; i++) {
        const struct scan_node *node = &processes->nodes->nodes[i];

        if (open_matches_node(open, node))
            processes->failed = !add_holder(processes, node, name_of(node, open));
    }
    return !processes->failed;
}

/* Compares an open file with the nodes. Files outside /dev get no fstat(), because a network file's server may hang. */
static bool examine_descriptor(void *context, char *name)
{
    struct processes *processes = context;
    char target[64];
    struct open_node open = {.path = target};
    struct stat status;
    enum facet_pci_unread unread = tree_read_link(processes->descriptors, name, target, sizeof target);

    if (unread != FACET_PCI_READ && unread != FACET_PCI_UNREAD_MALFORMED) /* malformed: too long for a device's node */
        note_process(processes, unread);
    if (unread != FACET_PCI_READ || strncmp(target, "/dev/", 5) != 0)
        return true;
    if (!processes->is_real_proc)
        return add_holders_of_node(processes, &open);
    if (fstatat(processes->descriptors, name, &status, 0) != 0) {
        note_process(processes, tree_unread(errno));
        return true;
    }
    if (!S_ISCHR(status.st_mode) && !S_ISBLK(status.st_mode))
        return true;
    open.number = status.st_rdev;
    open.has_number = true;
    open.is_block = S_ISBLK(status.st_mode);
    return add_holders_of_node(processes, &open);
}

static bool examine_process(void *context, char *name)
{
    struct processes *processes = context;
    char path[32];

    if (strspn(name, "0123456789") != strlen(name) || strlen(name) > 10)
        return true;
    snprintf(path, sizeof path, "proc/%.10s/fd", name);
    FACET_CLEANUP_FD int directory = tree_open_directory(processes->root, path);
    if (directory < 0) {
        note_process(processes, tree_unread(errno));
        return true;
    }
    processes->pid = strtoll(name, NULL, 10);
    processes->descriptors = directory;
    note_process(processes, tree_each_name(directory, ".", examine_descriptor, processes));
    return !processes->failed;
}

static int compare_holders(const void *a, const void *b)
{
    const struct facet_pci_holder *first = a, *second = b;

    if (first->pid != second->pid)
        return first->pid < second->pid ? -1 : 1;
    return strcmp(first->node, second->node);
}

static void sort_holders(struct facet_pci_function *function)
{
    if (function->holder_count > 1)
        qsort((void *)function->holders, function->holder_count, sizeof *function->holders, compare_holders);
}

/* The kernel's initial process namespace has a fixed number. A copied tree may lack the link. */
bool scan_is_confined(int root)
{
    char name[32];

    return tree_read_link_name(root, "proc/self/ns/pid", name, sizeof name) == FACET_PCI_READ &&
           strcmp(name, "pid:[4026531836]") != 0;
}

static bool is_real_proc(int root)
{
    FACET_CLEANUP_FD int fd = tree_open_directory(root, "proc");
    struct statfs status;

    return fd >= 0 && fstatfs(fd, &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

/*
 * A process that could not be examined may have any node open; a function without nodes has no holder in any case. An
 * unexamined process outweighs an incomplete list of nodes, because it may hold a node.
 */
static void note_unread_holders(struct facet_pci_function *function, enum facet_pci_unread unread)
{
    uint8_t *known = &function->unread[FACET_PCI_HOLDERS];

    if (unread != FACET_PCI_READ && (*known == FACET_PCI_READ || *known == FACET_PCI_UNREAD_UNKNOWN))
        *known = (uint8_t)unread;
}

bool scan_holders(int root, struct facet_pci_snapshot *snapshot)
{
    struct scan_nodes nodes = {0};
    struct processes processes = {.root = root, .nodes = &nodes};

    scan_nodes(root, snapshot, &nodes);
    if (nodes.count > 0 && scan_is_confined(root))
        processes.unread = FACET_PCI_UNREAD_PERMISSION;
    if (nodes.count > 0 && !nodes.failed) {
        processes.is_real_proc = is_real_proc(root);
        note_process(&processes, tree_each_name(root, "proc", examine_process, &processes));
    }
    for (size_t i = 0; i < nodes.count; i++)
        note_unread_holders(nodes.nodes[i].function, processes.unread);
    for (size_t i = 0; i < snapshot->count; i++)
        sort_holders(&snapshot->functions[i]);
    free(nodes.nodes);
    return !nodes.failed && !processes.failed;
}
