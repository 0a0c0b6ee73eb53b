/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a container's access to a simulated device.
 * Never: names a real vendor's device node or variable: nodes are under /dev/facet-sim, variables begin with FACET_SIM.
 *
 * The state folder is mounted and the settings are passed on, so that the provider in the container sees this machine.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "provider_kit.h"
#include "state.h"

#define ITEMS_MAX 8

struct item_list {
    uint32_t count;
    struct facet_container_item items[ITEMS_MAX];
};

static void add_item(struct item_list *list, uint32_t kind, uint32_t flags, const char *guest, const char *host)
{
    struct facet_container_item *item = &list->items[list->count++];

    item->size = sizeof *item;
    item->kind = kind;
    item->flags = flags;
    FACET_KIT_TEXT(item->guest, guest);
    FACET_KIT_TEXT(item->host, host);
}

static void add_settings(struct item_list *list, const char *uuid, const char *profile, const char *folder)
{
    add_item(list, FACET_CONTAINER_ENVIRONMENT, 0, "FACET_SIM_VISIBLE_DEVICES", uuid);
    add_item(list, FACET_CONTAINER_ENVIRONMENT, 0, "FACET_SIM_PROFILE", profile);
    add_item(list, FACET_CONTAINER_MOUNT, FACET_CONTAINER_READ_ONLY, profile, profile);
    if (*folder) {
        add_item(list, FACET_CONTAINER_ENVIRONMENT, 0, "FACET_SIM_STATE", folder);
        add_item(list, FACET_CONTAINER_MOUNT, 0, folder, folder);
    }
}

/* Adds the node of the device or of the partition. A partition's container does not get the device's node. */
static enum facet_status add_node(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                  struct item_list *list, struct facet_error *error)
{
    const struct sim_partition *partition;
    struct sim_record *record;
    char node[64];
    enum facet_status status;

    if (!uuid || !*uuid) {
        snprintf(node, sizeof node, "/dev/facet-sim/%" PRIu32, device);
        add_item(list, FACET_CONTAINER_DEVICE_NODE, 0, node, node);
        return FACET_OK;
    }
    status = sim_state_begin(instance, &record, error);
    if (status != FACET_OK)
        return status;
    partition = sim_record_partition(record, device, uuid);
    if (partition) {
        snprintf(node, sizeof node, "/dev/facet-sim/%" PRIu32 "-slice%" PRIu32, device, partition->start);
        add_item(list, FACET_CONTAINER_DEVICE_NODE, 0, node, node);
    } else {
        status = facet_kit_fail(error, FACET_NOT_FOUND, "partition_uuid %.64s: expected a partition of device %" PRIu32,
                                uuid, device);
    }
    return sim_state_end(instance, status, error);
}

static enum facet_status container_items(struct facet_provider_instance *instance, uint32_t device,
                                         const char *partition_uuid, void *items, uint32_t item_size, uint32_t capacity,
                                         uint32_t *ret_count, struct facet_error *error)
{
    struct item_list list = {0};
    const char *uuid;
    enum facet_status status;

    if (!instance || !ret_count)
        return sim_refuse_null(instance ? "ret_count" : "instance", error);
    SIM_LOCK(instance);
    status = sim_begin(instance, device, "container.items", error);
    if (status == FACET_OK)
        status = add_node(instance, device, partition_uuid, &list, error);
    if (status != FACET_OK)
        return status;
    uuid = partition_uuid && *partition_uuid ? partition_uuid : sim_device_info(instance, device)->uuid;
    add_settings(&list, uuid, instance->machine->file, sim_state_folder(instance->state));
    return facet_kit_list_items(list.items, sizeof list.items[0], list.count, items, item_size, capacity, ret_count,
                                error);
}

const struct facet_container_ops sim_container_ops = {
    .size = sizeof sim_container_ops,
    .items = container_items,
};
