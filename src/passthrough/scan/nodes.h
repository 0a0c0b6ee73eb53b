/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device nodes of PCI functions: the files by which a process can have one open.
 *
 * Owns: a list of nodes by number and by name, and the mark that it is complete: if a driver's nodes are unknown, the
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
    dev_t number;              /* the first one */
    unsigned numbers;          /* how many follow each other; 0: it is known by its name only */
    bool is_block;
    bool is_series; /* which of these is the function's is unknown: each counts */
};

struct scan_nodes {
    struct scan_node *nodes;
    size_t count;
    bool failed; /* no memory */
};

/* For all functions in the scan. Sets their holders' state as far as nodes go; the caller frees. */
void scan_nodes(int root, struct facet_pci_snapshot *snapshot, struct scan_nodes *nodes);

/* The same node by its path: for a copied tree, where descriptors are links and no more. */
bool scan_node_is_named(const struct scan_node *node, const char *path);

#endif
