/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the inside of a snapshot, and the parts of one scan, in the order in which they are taken.
 * Never: is included by users of the public interface (facet/pci.h).
 */
#ifndef FACET_PASSTHROUGH_SCAN_SNAPSHOT_H
#define FACET_PASSTHROUGH_SCAN_SNAPSHOT_H

#include <facet/pci.h>

struct facet_pci_snapshot {
    struct facet_pci_function *functions; /* by address */
    size_t count;
    struct facet_pci_host host;
};

#define SCAN_DEVICES "sys/bus/pci/devices"

/* ---- identity.c, function.c: the directory of one function ---- */

/* The directory of a function, by its address as text: a link that points up, so it is opened from the root. */
int scan_open(int root, const char *name);
bool scan_is_gone(int root, const char *name);

enum scan_outcome {
    SCAN_DONE, /* each unread attribute has its reason */
    SCAN_VANISHED,
    SCAN_NO_MEMORY,
};

/* Its numbers, its driver, its group, its bridges. */
enum scan_outcome scan_identity(int root, const char *name, struct facet_pci_function *function);

/* How much of a function is read besides. */
enum scan_depth {
    SCAN_DEPTH_NONE = 0,
    SCAN_DEPTH_BRIDGE = 1,    /* of bridges above accelerators: power, access control, link, errors */
    SCAN_DEPTH_COMPANION = 2, /* of functions that share a group or a device with one: the attributes that decide
                         whether it can be handed on */
    SCAN_DEPTH_FULL = 3,
};
enum scan_outcome scan_details(int root, const char *name, enum scan_depth depth, struct facet_pci_function *function);

/* Puts all arrays of a function back. */
void scan_function_free(struct facet_pci_function *function);

/* ---- virtualization.c ---- */

/* Virtual functions, and types of virtual devices. False: no memory. */
bool scan_virtuals(int directory, struct facet_pci_function *function);
bool scan_types(int directory, struct facet_pci_function *function);

/* ---- locked.c ---- */

#define SCAN_PENDING FACET_PCI_UNREADS /* for scan_locked() to read; no other code sees it */

/* The overrides of the functions that are marked so; FACET_PCI_UNREAD_STUCK where the kernel did not come back. */
void scan_locked(int root, struct facet_pci_snapshot *snapshot);

/* The same of one function. */
enum facet_pci_unread scan_override(int root, const struct facet_pci_address *address, char *text, size_t size);

/* ---- ids.c, holders.c, uses.c: all functions of a snapshot at once ---- */

/* `ids` is where the list of PCI ids is below `root`; NULL: the usual places. */
void scan_names(int root, const char *ids, struct facet_pci_snapshot *snapshot);
void scan_slots(int root, struct facet_pci_snapshot *snapshot);
bool scan_holders(int root, struct facet_pci_snapshot *snapshot); /* false: no memory */
bool scan_uses(int root, struct facet_pci_snapshot *snapshot);    /* false: no memory */

/* Whether we are in a container: then the host's other processes, networks and mounts are not to be seen. */
bool scan_is_confined(int root);

/* ---- host.c ---- */

/* False: no memory. */
bool scan_host(int root, struct facet_pci_host *host);
void scan_host_free(struct facet_pci_host *host);

/* ---- helpers of several parts ---- */

struct facet_pci_function *scan_find(struct facet_pci_snapshot *snapshot, const struct facet_pci_address *address);

/* The last PCI address in a path of the kernel's tree ("../../devices/pci0000:00/0000:00:02.0/drm/card0"). */
bool scan_address_in(const char *path, struct facet_pci_address *ret_address);

#endif
