/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `container`: binding a sub-device's units to processors.
 *
 * Owns: the environment of a tenant on a processor.
 * Never: names device nodes. OpenCL does not report them, so only processors, which need none, have this table.
 *
 * PoCL runs unit i of a processor in its i-th thread. With POCL_AFFINITY=1 it binds that thread to processor i, so that
 * exclusive units are exclusive processors. Without the variable a tenant still gets no more threads than units, but
 * the kernel's scheduler may put threads of two tenants on one processor for a while. In a container that is confined
 * to other processors than the first ones the binding fails, and PoCL reports no error.
 */
#include "opencl.h"

static const struct facet_container_item affinity = {
    .size = sizeof affinity,
    .kind = FACET_CONTAINER_ENVIRONMENT,
    .guest = "POCL_AFFINITY",
    .host = "1",
};

static bool is_pocl(const struct facet_device_info *info)
{
    static const char platform[] = "platform=Portable Computing Language;";

    return strncmp(info->address, platform, sizeof platform - 1) == 0;
}

static bool partition_exists(struct facet_provider_instance *instance, uint32_t device, const char *uuid)
{
    pthread_mutex_lock(&instance->lock);
    bool found = facet_opencl_holder_find(&instance->devices[device], FACET_OPENCL_PARTITION, uuid);
    pthread_mutex_unlock(&instance->lock);
    return found;
}

/* All parts of a device have the same items: a worker with a limit has a part, but no partition's uuid. */
static enum facet_status opencl_items(struct facet_provider_instance *instance, uint32_t device,
                                      const char *partition_uuid, void *items, uint32_t item_size, uint32_t capacity,
                                      uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = facet_opencl_check(instance, device, FACET_CAN_CONTAINER, error);

    if (status != FACET_OK)
        return status;
    if (partition_uuid && partition_uuid[0] && !partition_exists(instance, device, partition_uuid))
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition '%.63s': expected one that exists", partition_uuid);
    const struct facet_device_info *info = &instance->infos[device];
    uint32_t count = info->capabilities & FACET_CAN_PARTITION && is_pocl(info);
    return facet_kit_list_items(&affinity, sizeof affinity, count, items, item_size, capacity, ret_count, error);
}

const struct facet_container_ops facet_opencl_container_ops = {
    .size = sizeof facet_opencl_container_ops,
    .items = opencl_items,
};
