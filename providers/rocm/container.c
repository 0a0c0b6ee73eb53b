/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a container's access to a GPU or a part of it: the node of the compute driver, and the node of the GPU or part.
 * Never: names a library: the container selects the release of its runtime.
 */
#include "rocm.h"
#include "sysfs.h"

struct items {
    struct facet_container_item list[2];
    uint32_t count;
};

static void add_item(struct items *items, uint32_t kind, const char *host, const char *guest)
{
    struct facet_container_item *item = &items->list[items->count++];

    *item = (struct facet_container_item){.size = sizeof *item, .kind = kind};
    FACET_KIT_TEXT(item->host, host);
    FACET_KIT_TEXT(item->guest, guest);
}

static void add_nodes(struct items *items, unsigned render)
{
    char path[32];

    snprintf(path, sizeof path, "/dev/dri/renderD%u", render);
    add_item(items, FACET_CONTAINER_DEVICE_NODE, "/dev/kfd", "/dev/kfd");
    add_item(items, FACET_CONTAINER_DEVICE_NODE, path, path);
}

/* A part has a node of its own, which the compute driver names. */
static enum facet_status add_part(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                  struct items *items, struct facet_error *error)
{
    struct rocm_node nodes[ROCM_MAX_PARTS];
    uint32_t number = 0, parts = 0;
    enum facet_status status =
        instance->gpu.infos[device].capabilities & FACET_CAN_PARTITION
            ? rocm_part_find(instance, device, uuid, &number, &parts, error)
            : facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.64s': the device has none", uuid);

    if (status != FACET_OK)
        return status;
    uint32_t count = rocm_nodes_of(instance->gpus[device].pci, nodes, ROCM_MAX_PARTS);
    if (count != parts || nodes[number].partition != number || !nodes[number].render)
        return facet_kit_fail(error, FACET_IO, "partition '%.64s': the compute driver names no node for it", uuid);
    add_nodes(items, nodes[number].render);
    return FACET_OK;
}

static enum facet_status rocm_container_items(struct facet_provider_instance *instance, uint32_t device,
                                              const char *partition_uuid, void *items, uint32_t item_size,
                                              uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    struct items found = {0};
    enum facet_status status = gpu_device_check(&instance->gpu, device, FACET_CAN_CONTAINER, error);

    if (status != FACET_OK)
        return status;
    if (partition_uuid && *partition_uuid)
        status = add_part(instance, device, partition_uuid, &found, error);
    else if (!instance->gpus[device].is_partitioned) /* the node of a partitioned GPU is that of its first part */
        add_nodes(&found, instance->gpus[device].render);
    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(found.list, sizeof *found.list, found.count, items, item_size, capacity, ret_count,
                                error);
}

const struct facet_container_ops rocm_container_ops = {
    .size = sizeof rocm_container_ops,
    .items = rocm_container_items,
};
