/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the GPUs as nodes, and the links between them by AMD SMI and the kernel.
 * Never: reports a link's speed: AMD SMI's weight is a cost, not a rate.
 */
#include <stdlib.h>

#include "rocm.h"
#include "sysfs.h"

#define MAX_NUMA 1024

bool rocm_numa_node(const struct rocm_smi *smi, const struct rocm_gpu *gpu, int32_t *ret_node)
{
    uint64_t number;
    uint32_t node;

    if (gpu->handle && ROCM_SMI(smi, amdsmi_topo_get_numa_node_number, gpu->handle, &node) == AMDSMI_STATUS_SUCCESS &&
        node < MAX_NUMA) {
        *ret_node = (int32_t)node;
        return true;
    }
    /* -1 means that the machine has no nodes; as an unsigned number it is out of range. */
    if (!rocm_gpu_number(gpu->pci, "numa_node", &number) || number >= MAX_NUMA)
        return false;
    *ret_node = (int32_t)number;
    return true;
}

bool rocm_has_topology(const struct rocm_smi *smi, const struct rocm_gpu *gpu)
{
    int32_t node;

    return (gpu->handle && smi->amdsmi_topo_get_link_type) || rocm_numa_node(smi, gpu, &node);
}

enum facet_status rocm_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_topology_node nodes[GPU_MOST];
    enum facet_status status = gpu_devices_check(&instance->gpu, FACET_CAN_TOPOLOGY, error);

    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < instance->gpu.count; i++)
        nodes[i] = facet_kit_device_node(&instance->gpu.infos[i]);
    return facet_kit_list_items(nodes, sizeof *nodes, instance->gpu.count, items, item_size, capacity, ret_count,
                                error);
}

/* A link over PCIe, as far as the NUMA nodes tell: switches within a NUMA node are unknown. */
static bool read_pcie(const struct facet_device_info *a, const struct facet_device_info *b,
                      struct facet_topology_link *link)
{
    if (!(a->valid & b->valid & FACET_DEVICE_HAS_NUMA))
        return false;
    link->level = a->numa_node == b->numa_node ? FACET_LEVEL_NUMA_NODE : FACET_LEVEL_SYSTEM;
    link->type = link->level == FACET_LEVEL_SYSTEM ? FACET_LINK_SOCKET : FACET_LINK_PCIE;
    return true;
}

/* The link between two GPUs; false when none is known. */
static bool read_link(const struct facet_provider_instance *instance, uint32_t a, uint32_t b,
                      struct facet_topology_link *ret_link)
{
    struct facet_topology_link link = {.size = sizeof link, .a = a, .b = b, .lanes = 1};
    const struct rocm_gpu *one = &instance->gpus[a], *other = &instance->gpus[b];
    uint64_t hops = 0;
    int type = 0;
    bool known = false;

    if (one->handle && other->handle &&
        ROCM_SMI(&instance->smi, amdsmi_topo_get_link_type, one->handle, other->handle, &hops, &type) ==
            AMDSMI_STATUS_SUCCESS &&
        type == AMDSMI_LINK_TYPE_XGMI) {
        link.type = FACET_LINK_XGMI;
        link.level =
            hops <= 1 ? FACET_LEVEL_SINGLE_SWITCH : FACET_LEVEL_MULTI_SWITCH; /* a hop of XGMI counts as a switch */
        known = true;
    } else {
        known = read_pcie(&instance->gpu.infos[a], &instance->gpu.infos[b], &link);
    }
    if (known)
        *ret_link = link;
    return known;
}

enum facet_status rocm_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = gpu_devices_check(&instance->gpu, FACET_CAN_TOPOLOGY, error);
    uint32_t gpus = instance->gpu.count, count = 0, pairs = gpus ? gpus * (gpus - 1) / 2 : 0;

    if (status != FACET_OK)
        return status;
    struct facet_topology_link *links = calloc(pairs + 1, sizeof *links);
    if (!links)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " links", pairs);
    for (uint32_t a = 0; a < gpus; a++)
        for (uint32_t b = a + 1; b < gpus; b++)
            count += read_link(instance, a, b, &links[count]);
    status = facet_kit_list_items(links, sizeof *links, count, items, item_size, capacity, ret_count, error);
    free(links);
    return status;
}
