/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider for the daemon's tests: as many devices as FACET_TEST_DEVICES says (2 when it is unset), of 1 GiB each.
 *
 * Owns: devices that can vanish between two starts.
 * Never: is installed; its devices are marked as simulated.
 */
#include <facet/provider.h>

#include <stdlib.h>

#include "provider_kit.h"

enum { DEVICES_MAX = 4 };

struct facet_provider_instance {
    struct facet_device_info devices[DEVICES_MAX];
    uint32_t count;
};

static void fill_device(struct facet_device_info *device, uint32_t index)
{
    *device = (struct facet_device_info){
        .size = sizeof *device,
        .index = index,
        .valid = FACET_DEVICE_HAS_MEMORY | FACET_DEVICE_HAS_MAX_ALLOC | FACET_DEVICE_HAS_COMPUTE_UNITS,
        .kind = FACET_DEVICE_GPU,
        .modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT),
        .memory_bytes = UINT64_C(1) << 30,
        .max_alloc_bytes = UINT64_C(1) << 28,
        .compute_units = 8,
    };
    snprintf(device->uuid, sizeof device->uuid, "00000000-0000-0000-0000-00000000000%u", index);
    /* Every name except the first must be escaped wherever it is quoted. */
    snprintf(device->name, sizeof device->name, index ? "Test \"device\" \\%u" : "Test device %u", index);
    snprintf(device->vendor, sizeof device->vendor, "Facet tests");
    snprintf(device->address, sizeof device->address, "platform=test;name=Test device %u;ordinal=0", index);
}

static enum facet_status test_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    const char *wanted = getenv("FACET_TEST_DEVICES");
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    instance->count = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 2;
    if (instance->count > DEVICES_MAX)
        instance->count = DEVICES_MAX;
    for (uint32_t i = 0; i < instance->count; i++)
        fill_device(&instance->devices[i], i);
    *ret_instance = instance;
    return FACET_OK;
}

static void test_close(struct facet_provider_instance *instance)
{
    free(instance);
}

static enum facet_status test_list(struct facet_provider_instance *instance, void *infos, uint32_t info_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->devices, instance->count, infos, info_size, capacity, ret_count, error);
}

static enum facet_status test_health(struct facet_provider_instance *instance, uint32_t index, uint32_t *ret_health,
                                     struct facet_error *error)
{
    if (index >= instance->count)
        return facet_kit_fail(error, FACET_NOT_FOUND, "no device %u", index);
    *ret_health = FACET_HEALTH_OK;
    return FACET_OK;
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = test_open,
    .close = test_close,
    .list = test_list,
    .health = test_health,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "test",
    .version = "1",
    .description = "Devices for the daemon's tests",
    .traits = FACET_PROVIDER_SIMULATED,
    .device = &device_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    if (host->abi_major != FACET_PROVIDER_ABI_MAJOR)
        return FACET_ABI_MISMATCH;
    *ret_provider = &provider;
    return FACET_OK;
}
