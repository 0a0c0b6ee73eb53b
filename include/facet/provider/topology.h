/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provider ABI: how devices, NICs, switches and sockets are joined.
 *
 * Owns: nodes and links, the answers of facet_device_ops.nodes and .links.
 * Never: estimates a value: the bit of an unknown bandwidth is clear.
 *
 * Each pair of nodes with known data has one link, with a < b. A pair without a link is unknown, not unconnected. A
 * link is a whole path of traffic (a path through a switch is one link between the devices), so that the cost of a pair
 * is one look-up.
 */
#ifndef FACET_PROVIDER_TOPOLOGY_H
#define FACET_PROVIDER_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include <facet/export.h>

#ifdef __cplusplus
extern "C" {
#endif

enum facet_node_kind {
    FACET_NODE_DEVICE = 1,
    FACET_NODE_NIC = 2,
    FACET_NODE_SWITCH = 3,
    FACET_NODE_SOCKET = 4, /* a processor with its memory */
};

#define FACET_NODE_HAS_NUMA   (UINT32_C(1) << 0)
#define FACET_NODE_HAS_DEVICE (UINT32_C(1) << 1)

struct facet_topology_node {
    uint32_t size;
    uint32_t index;  /* place in the list, to which links refer */
    uint32_t kind;   /* enum facet_node_kind */
    uint32_t valid;  /* FACET_NODE_HAS_* */
    uint32_t device; /* of a device: its index */
    int32_t numa_node;
    char uuid[64]; /* of a device: its uuid; else a stable identifier, or empty */
    char name[64]; /* "mlx5_0", "NVSwitch 2", "socket 1" */
    char pci_address[16];
};
FACET_STATIC_ASSERT(sizeof(struct facet_topology_node) == 168, "ABI: facet_topology_node");

enum facet_link_type {
    FACET_LINK_UNKNOWN = 0,
    FACET_LINK_INTERNAL = 1, /* on one board or chip */
    FACET_LINK_PCIE = 2,
    FACET_LINK_NVLINK = 3,
    FACET_LINK_XGMI = 4,
    FACET_LINK_HCCS = 5,
    FACET_LINK_SOCKET = 6, /* between processors: UPI, xGMI, Hydra */
    FACET_LINK_INFINIBAND = 7,
    FACET_LINK_ETHERNET = 8,
    FACET_LINK_VENDOR = 9, /* another type of the vendor's own */
};

/* How far apart the ends are, nearest first. */
enum facet_link_level {
    FACET_LEVEL_UNKNOWN = 0,
    FACET_LEVEL_INTERNAL = 1,      /* same board */
    FACET_LEVEL_SINGLE_SWITCH = 2, /* one PCIe switch, or a direct fabric */
    FACET_LEVEL_MULTI_SWITCH = 3,
    FACET_LEVEL_HOST_BRIDGE = 4,
    FACET_LEVEL_NUMA_NODE = 5, /* through the processor, same NUMA node */
    FACET_LEVEL_SYSTEM = 6,    /* across NUMA nodes */
};

#define FACET_LINK_HAS_BANDWIDTH (UINT32_C(1) << 0)
#define FACET_LINK_HAS_LATENCY   (UINT32_C(1) << 1)
#define FACET_LINK_HAS_STATE     (UINT32_C(1) << 2)

struct facet_topology_link {
    uint32_t size;
    uint32_t a, b;           /* node indexes, a < b */
    uint32_t type;           /* enum facet_link_type: the type of the slowest part of the path */
    uint32_t level;          /* enum facet_link_level */
    uint32_t valid;          /* FACET_LINK_HAS_* */
    uint32_t lanes;          /* physical links of that type in parallel, at least 1 */
    uint32_t up;             /* 1 while it carries traffic */
    uint64_t bandwidth_mbps; /* 10^6 bytes per second, one direction, all lanes together */
    uint64_t latency_ns;
};
FACET_STATIC_ASSERT(sizeof(struct facet_topology_link) == 48, "ABI: facet_topology_link");

#ifdef __cplusplus
}
#endif
#endif
