/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: writing one value into a file of the kernel; finding the users of a device.
 * Never: reads the value back; the caller does.
 */
#ifndef FACET_PASSTHROUGH_VIRTUAL_SYSFS_H
#define FACET_PASSTHROUGH_VIRTUAL_SYSFS_H

#include <facet/pci.h>

/* Opens the directory of a function, which the caller closes; -1: `error` says why. */
int facet_sysfs_open_function(int root, const struct facet_pci_address *address, struct facet_error *error);

/* Writes the value in one call, as the kernel requires. */
enum facet_status facet_sysfs_write(int at, const char *path, const char *value, struct facet_error *error);
enum facet_status facet_sysfs_write_number(int at, const char *path, uint32_t value, struct facet_error *error);

/* The process that has the device of this directory open through VFIO; 0: none. */
enum facet_status facet_sysfs_holder(int root, int device, int64_t *ret_pid, struct facet_error *error);

/* A list of names that fits into a message: "a, b and more". */
struct facet_names {
    char text[160];
    bool more;
};
void facet_names_add(struct facet_names *names, const char *name);

/* Adds "; not undone: `what`" to an error. */
void facet_sysfs_add_not_undone(struct facet_error *error, const char *what);

#endif
