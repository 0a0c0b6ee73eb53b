/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null provider: the template to copy, and proof that Facet works without any vendor's runtime.
 *
 * Owns: an example of each kind of operation of the ABI in its smallest form, over an empty list of devices.
 * Never: invents a device.
 */
#include <facet/provider.h>

#include <stdlib.h>

#include "provider_kit.h"

/* The provider's state between calls. A vendor keeps the handles of its runtime and its devices here. */
struct facet_provider_instance {
    struct facet_device_info *devices;
    uint32_t count;
};

/* Opens the runtime and finds its devices. A vendor fills `devices` here, in an order that stays the same. */
static enum facet_status null_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    *ret_instance = instance;
    return FACET_OK;
}

static void null_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    free(instance->devices);
    free(instance);
}

static enum facet_status null_list(struct facet_provider_instance *instance, void *infos, uint32_t info_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->devices, instance->count, infos, info_size, capacity, ret_count, error);
}

/* Asks the device now. A health that cannot be measured is FACET_HEALTH_UNKNOWN, never a guess. */
static enum facet_status null_health(struct facet_provider_instance *instance, uint32_t index, uint32_t *ret_health,
                                     struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(index, instance->count, error);

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected a place, not NULL");
    *ret_health = FACET_HEALTH_UNKNOWN;
    return FACET_OK;
}

/* Facts that have no field of their own, as lines "key=value". */
static enum facet_status null_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->count, error);

    return status == FACET_OK ? facet_kit_text_out("", text, capacity, ret_size, error) : status;
}

/* The nodes of the topology: a vendor keeps them in the instance, found once. */
static enum facet_status null_nodes(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                    uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list_items(NULL, sizeof(struct facet_topology_node), 0, items, item_size, capacity, ret_count,
                                error);
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = null_open,
    .close = null_close,
    .list = null_list,
    .health = null_health,
    .properties = null_properties,
    .nodes = null_nodes,
};

/* The pattern of an operation that fills one struct: check the device, read into a struct of this provider's version,
 * and copy as much as the host's struct has room for. A field that was not read has no bit in `valid`. */
static enum facet_status null_metrics(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_device_metrics *ret_metrics, struct facet_error *error)
{
    const struct facet_device_metrics metrics = {.device = device};
    enum facet_status status = facet_kit_check_device(device, instance->count, error);

    return status == FACET_OK ? facet_kit_struct(&metrics, sizeof metrics, ret_metrics, error) : status;
}

static const struct facet_metrics_ops metrics_ops = {
    .size = sizeof metrics_ops,
    .device = null_metrics,
};

/* The pattern of a list that belongs to a device. */
static enum facet_status null_items(struct facet_provider_instance *instance, uint32_t device,
                                    const char *partition_uuid, void *items, uint32_t item_size, uint32_t capacity,
                                    uint32_t *ret_count, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->count, error);

    if (status != FACET_OK)
        return status;
    return facet_kit_list_items(NULL, sizeof(struct facet_container_item), 0, items, item_size, capacity, ret_count,
                                error);
}

static const struct facet_container_ops container_ops = {
    .size = sizeof container_ops,
    .items = null_items,
};

/* A table or an operation that is NULL is unsupported. Add partition, limit, snapshot, memory and execution when your
 * runtime supports them, and set their bits in facet_device_info.capabilities. */
static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "null",
    .version = FACET_VERSION,
    .description = "Template for vendors; has no devices",
    .traits = FACET_PROVIDER_TEMPLATE,
    .device = &device_ops,
    .metrics = &metrics_ops,
    .container = &container_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
