/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the table `device`, and the table `container`. Never: takes memory or units of the device. */
#include "cpu.h"

static enum facet_status device_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    CPU_REQUIRE(instance, error);
    return facet_kit_list(&instance->info, 1, items, item_size, capacity, ret_count, error);
}

/* Always healthy: this code runs on the device. */
static enum facet_status device_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                       struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    CPU_REQUIRE(ret_health, error);
    *ret_health = FACET_HEALTH_OK;
    return FACET_OK;
}

static enum facet_status device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                           uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);
    char properties[512];

    if (status != FACET_OK)
        return status;
    snprintf(properties, sizeof properties,
             "kernel_target=host\n"
             "local_memory_bytes=%u\n"
             "group_items_most=%u\n"
             "conformance_kernel=store_words\n"
             "conformance_image=" CPU_CONFORMANCE_NAME "\n",
             CPU_LOCAL_MOST, FACET_HOST_GROUP_MOST);
    return facet_kit_text_out(properties, text, capacity, ret_size, error);
}

const struct facet_device_ops cpu_device_ops = {
    .size = sizeof cpu_device_ops,
    .open = cpu_open,
    .close = cpu_close,
    .list = device_list,
    .health = device_health,
    .properties = device_properties,
    .events = cpu_events,
};

/* Every container has processors already, those that its cgroup allows: the list is empty. */
static enum facet_status container_items(struct facet_provider_instance *instance, uint32_t device,
                                         const char *partition_uuid, void *items, uint32_t item_size, uint32_t capacity,
                                         uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = cpu_check_device(instance, device, error);

    if (status != FACET_OK)
        return status;
    if (partition_uuid && partition_uuid[0])
        return facet_kit_fail(error, FACET_NOT_FOUND, "partition_uuid '%.63s': expected none, a processor has none",
                              partition_uuid);
    return facet_kit_list_items(NULL, sizeof(struct facet_container_item), 0, items, item_size, capacity, ret_count,
                                error);
}

const struct facet_container_ops cpu_container_ops = {
    .size = sizeof cpu_container_ops,
    .items = container_items,
};
