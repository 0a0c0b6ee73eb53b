/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null provider: the template to copy, and proof that the rest works without any vendor's runtime.
 *
 * Owns: every operation of the ABI in its smallest honest form, over an empty list of devices.
 * Never: invents a device.
 */
#include <facet/provider.h>

#include <stdlib.h>

#include "provider_kit.h"

/* What this provider remembers between calls. A vendor keeps the handles of its runtime and its devices here. */
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

/* Asks the device now. What cannot be measured is FACET_HEALTH_UNKNOWN, never a guess. */
static enum facet_status null_health(struct facet_provider_instance *instance, uint32_t index, uint32_t *ret_health,
                                     struct facet_error *error)
{
    if (index >= instance->count)
        return facet_kit_fail(error, FACET_NOT_FOUND, "device %" PRIu32 ": expected less than %" PRIu32, index,
                              instance->count);
    *ret_health = FACET_HEALTH_UNKNOWN;
    return FACET_OK;
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = null_open,
    .close = null_close,
    .list = null_list,
    .health = null_health,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "null",
    .version = FACET_VERSION,
    .description = "Template for vendors; has no devices",
    .traits = FACET_PROVIDER_TEMPLATE,
    .device = &device_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    enum facet_status status = facet_kit_check_host(host);

    if (status == FACET_OK)
        *ret_provider = &provider;
    return status;
}
