/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the GPUs as nodes, and the links between them by NVML.
 * Never: reports a link's speed: NVML's units for it changed between generations.
 */
#include <stdlib.h>

#include "cuda.h"

enum facet_status cuda_device_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
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

static uint32_t level_of(int ancestor)
{
    switch (ancestor) {
    case NVML_TOPOLOGY_INTERNAL:
        return FACET_LEVEL_INTERNAL;
    case NVML_TOPOLOGY_SINGLE:
        return FACET_LEVEL_SINGLE_SWITCH;
    case NVML_TOPOLOGY_MULTIPLE:
        return FACET_LEVEL_MULTI_SWITCH;
    case NVML_TOPOLOGY_HOSTBRIDGE:
        return FACET_LEVEL_HOST_BRIDGE;
    case NVML_TOPOLOGY_NODE:
        return FACET_LEVEL_NUMA_NODE;
    case NVML_TOPOLOGY_SYSTEM:
        return FACET_LEVEL_SYSTEM;
    default:
        return FACET_LEVEL_UNKNOWN;
    }
}

bool cuda_nvlink_leads(const struct facet_provider_instance *instance, uint32_t device, unsigned link, uint32_t to)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    nvmlPciInfo_t wanted = {0}, remote = {0};

    return CUDA_NVML(nvml, nvmlDeviceGetPciInfo_v3, instance->gpus[to].handle, &wanted) == NVML_SUCCESS &&
           CUDA_NVML(nvml, nvmlDeviceGetNvLinkRemotePciInfo_v2, instance->gpus[device].handle, link, &remote) ==
               NVML_SUCCESS &&
           remote.domain == wanted.domain && remote.bus == wanted.bus && remote.device == wanted.device;
}

/*
 * The number of NVLinks of `a` that lead directly to `b`; *ret_up: how many of them are up. A link to a switch is not
 * counted, because NVML does not report the devices behind the switch.
 */
static uint32_t count_links(const struct facet_provider_instance *instance, uint32_t a, uint32_t b, uint32_t *ret_up)
{
    uint32_t links = 0, up = 0;

    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        int active = 0;

        if (!cuda_nvlink_leads(instance, a, link, b))
            continue;
        links++;
        up += CUDA_NVML(&instance->nvml, nvmlDeviceGetNvLinkState, instance->gpus[a].handle, link, &active) ==
                  NVML_SUCCESS &&
              active;
    }
    *ret_up = up;
    return links;
}

/* The link between two GPUs; false when the driver knows none. */
static bool read_link(const struct facet_provider_instance *instance, uint32_t a, uint32_t b,
                      struct facet_topology_link *ret_link)
{
    struct facet_topology_link link = {.size = sizeof link, .a = a, .b = b, .lanes = 1};
    int ancestor = -1;
    uint32_t up = 0, nvlinks = count_links(instance, a, b, &up);

    if (CUDA_NVML(&instance->nvml, nvmlDeviceGetTopologyCommonAncestor, instance->gpus[a].handle,
                  instance->gpus[b].handle, &ancestor) != NVML_SUCCESS)
        return false;
    link.level = level_of(ancestor);
    link.type = link.level >= FACET_LEVEL_SYSTEM ? FACET_LINK_SOCKET : FACET_LINK_PCIE;
    if (nvlinks) {
        link.type = FACET_LINK_NVLINK;
        link.level = FACET_LEVEL_SINGLE_SWITCH; /* as near as through one switch */
        link.lanes = nvlinks;
        link.up = up > 0;
        link.valid = FACET_LINK_HAS_STATE;
    }
    if (link.level == FACET_LEVEL_UNKNOWN)
        return false;
    *ret_link = link;
    return true;
}

enum facet_status cuda_links_read(const struct facet_provider_instance *instance,
                                  struct facet_topology_link **ret_links, uint32_t *ret_count,
                                  struct facet_error *error)
{
    uint32_t count = 0, pairs = instance->gpu.count ? instance->gpu.count * (instance->gpu.count - 1) / 2 : 0;
    struct facet_topology_link *links = calloc(pairs + 1, sizeof *links);

    if (!links)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %" PRIu32 " links", pairs);
    for (uint32_t a = 0; a < instance->gpu.count; a++)
        for (uint32_t b = a + 1; b < instance->gpu.count; b++)
            count += read_link(instance, a, b, &links[count]);
    *ret_links = links;
    *ret_count = count;
    return FACET_OK;
}

enum facet_status cuda_device_links(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct facet_topology_link *links = NULL;
    uint32_t count;
    enum facet_status status = gpu_devices_check(&instance->gpu, FACET_CAN_TOPOLOGY, error);

    if (status == FACET_OK)
        status = cuda_links_read(instance, &links, &count, error);
    if (status != FACET_OK)
        return status;
    status = facet_kit_list_items(links, sizeof *links, count, items, item_size, capacity, ret_count, error);
    free(links);
    return status;
}
