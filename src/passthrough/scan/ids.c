/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the names of functions, which libpci reads from the list of PCI ids; the slots of the board in which functions
 * are. Never: uses another source of names, such as the network or udev's database.
 */
#include <errno.h>
#include <pci/pci.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "passthrough/scan/snapshot.h"
#include "passthrough/scan/tree.h"

/* After an error libpci ends the program, unless the error handler does not return. The handler below jumps to
 * `failed`. */
struct names {
    struct pci_access *access;
    jmp_buf failed;
};

static _Thread_local struct names *current;

static void __attribute__((noreturn)) fail(char *format, ...)
{
    (void)format;
    longjmp(current->failed, 1);
}

static void ignore_message(char *format, ...)
{
    (void)format;
}

enum {
    PLAIN = PCI_LOOKUP_NO_NUMBERS | PCI_LOOKUP_NO_HWDB,
};

static void name_function(struct pci_access *access, struct facet_pci_function *function)
{
    char text[256];
    int vendor = function->vendor, device = function->device;
    int subsystem_vendor = function->subsystem_vendor, subsystem_device = function->subsystem_device;
    const char *name = pci_lookup_name(access, text, sizeof text, PCI_LOOKUP_VENDOR | PLAIN, vendor);

    snprintf(function->vendor_name, sizeof function->vendor_name, "%s", name ? name : "");
    name = pci_lookup_name(access, text, sizeof text, PCI_LOOKUP_DEVICE | PLAIN, vendor, device);
    snprintf(function->device_name, sizeof function->device_name, "%s", name ? name : "");
    name = pci_lookup_name(access, text, sizeof text, PCI_LOOKUP_SUBSYSTEM | PCI_LOOKUP_DEVICE | PLAIN, vendor, device,
                           subsystem_vendor, subsystem_device);
    snprintf(function->subsystem_name, sizeof function->subsystem_name, "%s", name ? name : "");
}

/* False: the list is broken. */
static bool name_all_functions(struct names *names, const char *path, struct facet_pci_snapshot *snapshot)
{
    if (setjmp(names->failed))
        return false;
    names->access = pci_alloc();
    names->access->error = fail;
    names->access->warning = ignore_message;
    names->access->debug = ignore_message;
    names->access->id_lookup_mode = 0; /* also without the cache of names from the network */
    pci_set_name_list_path(names->access, (char *)path, 0);
    if (!pci_load_name_list(names->access))
        return false;
    for (size_t i = 0; i < snapshot->count; i++)
        if (snapshot->functions[i].unread[FACET_PCI_IDENTITY] == FACET_PCI_READ)
            name_function(names->access, &snapshot->functions[i]);
    return true;
}

/* The files in which distributions keep the list, which may be compressed on Debian. */
static const char *const places[] = {"usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/misc/pci.ids.gz"};

static int open_list(int root, const char *ids)
{
    int fd = ids ? tree_open_file(root, ids) : -1;

    for (size_t i = 0; i < sizeof places / sizeof places[0] && !ids && fd < 0; i++)
        fd = tree_open_file(root, places[i]);
    return fd;
}

static enum facet_pci_unread read_names(int root, const char *ids, struct facet_pci_snapshot *snapshot)
{
    FACET_CLEANUP_FD int fd = open_list(root, ids);
    struct names names = {0};
    char path[40];

    if (fd < 0)
        return tree_unread(errno);
    /* libpci needs a path. The list's own path could lead out of `root`. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    current = &names;
    bool done = name_all_functions(&names, path, snapshot);
    if (names.access)
        pci_cleanup(names.access);
    current = NULL;
    return done ? FACET_PCI_READ : FACET_PCI_UNREAD_MALFORMED;
}

void scan_names(int root, const char *ids, struct facet_pci_snapshot *snapshot)
{
    enum facet_pci_unread unread = snapshot->count > 0 ? read_names(root, ids, snapshot) : FACET_PCI_READ;

    for (size_t i = 0; i < snapshot->count; i++)
        snapshot->functions[i].unread[FACET_PCI_NAMES] = (uint8_t)unread;
}

/* ---- slots: /sys/bus/pci/slots/4/address is "0000:01:00", without a function ---- */

struct slots {
    int directory;
    struct facet_pci_snapshot *snapshot;
};

static bool take_slot(void *context, char *name)
{
    struct slots *slots = context;
    char file[300], text[32], full[40];
    struct facet_pci_address address;

    snprintf(file, sizeof file, "%.255s/address", name);
    if (tree_read_text(slots->directory, file, text, sizeof text) != FACET_PCI_READ)
        return true;
    snprintf(full, sizeof full, "%s.0", text);
    if (facet_pci_address_parse(full, &address, NULL))
        return true;
    for (size_t i = 0; i < slots->snapshot->count; i++) {
        struct facet_pci_function *function = &slots->snapshot->functions[i];

        address.function = function->address.function;
        if (facet_pci_address_compare(&address, &function->address) != 0)
            continue;
        snprintf(function->slot, sizeof function->slot, "%.31s", name);
        function->unread[FACET_PCI_SLOT] = FACET_PCI_READ;
    }
    return true;
}

void scan_slots(int root, struct facet_pci_snapshot *snapshot)
{
    FACET_CLEANUP_FD int directory = tree_open_directory(root, "sys/bus/pci/slots");
    struct slots slots = {.directory = directory, .snapshot = snapshot};

    for (size_t i = 0; i < snapshot->count; i++)
        snapshot->functions[i].unread[FACET_PCI_SLOT] = FACET_PCI_UNREAD_ABSENT;
    if (directory >= 0)
        tree_each_name(directory, ".", take_slot, &slots);
}
