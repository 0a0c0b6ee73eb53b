/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device nodes of PCI functions: the files by which a process can have a function open.
 *
 * Owns: a list of nodes by number and by name, and whether it is complete: if a driver's nodes are unknown, the
 * function's holders are FACET_PCI_UNREAD_UNKNOWN.
 * Never: reads /dev, or opens a node.
 */
#ifndef FACET_PASSTHROUGH_SCAN_NODES_H
#define FACET_PASSTHROUGH_SCAN_NODES_H

#include <sys/types.h>

#include "passthrough/scan/snapshot.h"

#define SCAN_NODE_SIZE sizeof(((struct facet_pci_holder *)NULL)->node)

struct scan_node {
    struct facet_pci_function *function;
    char path[SCAN_NODE_SIZE]; /* "/dev/dri/card0"; of a series the part before the digits: "/dev/nvidia" */
    dev_t number;              /* the first device number */
    unsigned numbers;          /* how many consecutive numbers; 0: the node is known by its name only */
    bool is_block;
    bool is_series; /* it is unknown which node of the series is the function's, so every node counts */
};

struct scan_nodes {
    struct scan_node *nodes;
    size_t count;
    bool failed; /* no memory */
};

/* Finds the nodes of all functions, and sets their unread reasons for holders. The caller frees nodes->nodes. */
void scan_nodes(int root, struct facet_pci_snapshot *snapshot, struct scan_nodes *nodes);

/* Whether `path` is the node, by its name only: in a copied tree descriptors are links without a device number. */
bool scan_node_is_named(const struct scan_node *node, const char *path);

#endif
