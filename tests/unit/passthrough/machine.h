/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a temporary directory with one of the machines of tests/fixtures/pci, and scans of it.
 * Never: leaves it behind.
 */
#ifndef FACET_TEST_PASSTHROUGH_MACHINE_H
#define FACET_TEST_PASSTHROUGH_MACHINE_H

#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <facet/pci.h>

#include "../../scratch.h"

struct machine {
    char path[64];
    int root;
};

extern char **environ;

/* Makes an empty machine. */
static inline void machine_make(struct machine *machine)
{
    machine->root = scratch_folder("pci", machine->path, sizeof machine->path);
    assert_true(machine->root >= 0);
}

/* Plants a machine of tests/fixtures/pci with the program that the environment names. */
static inline void machine_plant(struct machine *machine, const char *name)
{
    const char *folder = getenv("FACET_TEST_MACHINES");
    char program[1024], file[1024];
    pid_t child;
    int status;

    assert_non_null(folder);
    machine_make(machine);
    snprintf(program, sizeof program, "%s/pci_machine.py", folder);
    snprintf(file, sizeof file, "%s/%s.tree", folder, name);
    char *const arguments[] = {"python3", "-B", program, file, machine->path, NULL};
    assert_int_equal(posix_spawnp(&child, "python3", NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static inline void machine_remove(struct machine *machine)
{
    assert_true(scratch_remove(machine->path));
    close(machine->root);
}

static inline void machine_folder(const struct machine *machine, const char *path)
{
    char part[512];

    for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        mkdirat(machine->root, part, 0700);
    }
    mkdirat(machine->root, path, 0700);
}

/* Replaces a file that may exist. */
static inline void machine_bytes(const struct machine *machine, const char *path, const void *bytes, size_t size)
{
    unlinkat(machine->root, path, 0);
    int fd = openat(machine->root, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static inline void machine_file(const struct machine *machine, const char *path, const char *text)
{
    machine_bytes(machine, path, text, strlen(text));
}

/* Makes reads of a function hang, as if in the kernel, until the returned descriptor is closed. */
static inline int machine_hang(const struct machine *machine, const char *address)
{
    char path[96];

    snprintf(path, sizeof path, "sys/bus/pci/devices/%s/driver_override", address);
    int fd = openat(machine->root, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

static inline struct facet_pci_scan_config machine_config(const struct machine *machine, uint32_t flags)
{
    return (struct facet_pci_scan_config){
        .size = sizeof(struct facet_pci_scan_config), .root = machine->root, .flags = flags};
}

#define MACHINE_EVERYTHING (FACET_PCI_SCAN_HOLDERS | FACET_PCI_SCAN_ALL)

static inline struct facet_pci_snapshot *machine_scan(const struct machine *machine, uint32_t flags)
{
    struct facet_pci_scan_config config = machine_config(machine, flags);
    struct facet_pci_snapshot *snapshot = NULL;
    struct facet_error error = {0};

    if (facet_pci_scan(&config, &snapshot, &error))
        fail_msg("%s", error.message);
    return snapshot;
}

static inline struct facet_pci_address address_of(const char *text)
{
    struct facet_pci_address address;

    assert_int_equal(facet_pci_address_parse(text, &address, NULL), FACET_OK);
    return address;
}

static inline const struct facet_pci_function *function_of(const struct facet_pci_snapshot *snapshot, const char *text)
{
    struct facet_pci_address address = address_of(text);
    const struct facet_pci_function *function = facet_pci_snapshot_find(snapshot, &address);

    if (!function)
        fail_msg("the snapshot has no function %s", text);
    return function;
}

#endif
