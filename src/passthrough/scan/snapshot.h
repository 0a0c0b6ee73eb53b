/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the snapshot's struct, and the functions of one scan, in the order of their use.
 * Never: is included by users of the public interface (facet/pci.h).
 */
#ifndef FACET_PASSTHROUGH_SCAN_SNAPSHOT_H
#define FACET_PASSTHROUGH_SCAN_SNAPSHOT_H

#include <facet/pci.h>

struct facet_pci_snapshot {
    struct facet_pci_function *functions; /* in the order of their addresses */
    size_t count;
    struct facet_pci_host host;
};

#define SCAN_DEVICES "sys/bus/pci/devices"

/* ---- identity.c, function.c: the directory of one function ---- */

/*
 * Opens the directory of a function, whose name is its address as text. The directory's name in SCAN_DEVICES is a link
 * that leads upwards, so `root` is needed.
 */
int scan_open(int root, const char *name);
bool scan_is_gone(int root, const char *name);

enum scan_outcome {
    SCAN_DONE, /* each unread attribute has its reason */
    SCAN_VANISHED,
    SCAN_NO_MEMORY,
};

/* Reads a function's numbers, its driver, its group and its bridges. */
enum scan_outcome scan_identity(int root, const char *name, struct facet_pci_function *function);

/* How much of a function is read in addition to its identity. */
enum scan_depth {
    SCAN_DEPTH_NONE = 0,
    SCAN_DEPTH_BRIDGE = 1,    /* of bridges above accelerators: power, access control, link, errors */
    SCAN_DEPTH_COMPANION = 2, /* of functions that share a group or a device with an accelerator: the attributes that
                                 decide whether they can be passed through */
    SCAN_DEPTH_FULL = 3,
};
enum scan_outcome scan_details(int root, const char *name, enum scan_depth depth, struct facet_pci_function *function);

/* Frees all arrays of a function. */
void scan_function_free(struct facet_pci_function *function);

/* ---- virtualization.c ---- */

/* Read a function's virtual functions, and its types of virtual devices. False: no memory. */
bool scan_virtuals(int directory, struct facet_pci_function *function);
bool scan_types(int directory, struct facet_pci_function *function);

/* ---- locked.c ---- */

#define SCAN_PENDING FACET_PCI_UNREADS /* for scan_locked() to read; no other code sees it */

/* Reads the overrides that are marked SCAN_PENDING; FACET_PCI_UNREAD_STUCK: the kernel did not answer. */
void scan_locked(int root, struct facet_pci_snapshot *snapshot);

/* Reads the override of one function, in the same way. */
enum facet_pci_unread scan_override(int root, const struct facet_pci_address *address, char *text, size_t size);

/* ---- ids.c, holders.c, uses.c: all functions of a snapshot at once ---- */

/* `ids` is the path of the list of PCI ids below `root`; NULL: the usual places. */
void scan_names(int root, const char *ids, struct facet_pci_snapshot *snapshot);
void scan_slots(int root, struct facet_pci_snapshot *snapshot);
bool scan_holders(int root, struct facet_pci_snapshot *snapshot); /* false: no memory */
bool scan_uses(int root, struct facet_pci_snapshot *snapshot);    /* false: no memory */

/* Whether this process is in a container, where the host's other processes, networks and mounts are not visible. */
bool scan_is_confined(int root);

/* ---- host.c ---- */

/* False: no memory. */
bool scan_host(int root, struct facet_pci_host *host);
void scan_host_free(struct facet_pci_host *host);

/* ---- helpers for several files ---- */

struct facet_pci_function *scan_find(struct facet_pci_snapshot *snapshot, const struct facet_pci_address *address);

/* The last PCI address in a path of the kernel's tree ("../../devices/pci0000:00/0000:00:02.0/drm/card0"). */
bool scan_last_address_in(const char *path, struct facet_pci_address *ret_address);

#endif
