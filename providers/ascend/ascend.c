/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Ascend provider: Huawei's NPUs, through DCMI (the driver's management library) and AscendCL (CANN's runtime).
 *
 * Owns: the entry, opening and closing, and the tables.
 * Never: reports a value that it could not read. A field has its bit, and a device its capability, only when the
 * library has the function and the call succeeded.
 *
 * Libraries. Both are opened at run time: libdcmi.so and libascendcl.so, or the files that FACET_ASCEND_DCMI and
 * FACET_ASCEND_ACL name. Without DCMI there are no devices. Without AscendCL, devices can be listed and shared, but
 * there are no limits and no memory; if it is installed and cannot be loaded, the property `acl_error` has the reason.
 *
 * Modes. `shared` and `soft` are always offered: they need nothing from the device. `hard` is offered if CANN can limit
 * a process to a number of cores (aclrtSetDeviceResLimit). A hard limit is a number of whole AI cores and of bytes.
 * This provider grants and accounts limits, so that their sum stays within the device, and enforces the bytes in its
 * own contexts. CANN cannot limit a process from outside: an interposer inside of a worker's process calls
 * aclrtSetDeviceResLimit. The driver then limits the process to that number of cores, and does not say which. A process
 * without the interposer is not limited. Limits last as long as the instance. `partitioned` is not offered.
 *
 * Address. "acl:3" has the chip's logical number, which AscendCL uses when ASCEND_RT_VISIBLE_DEVICES is not set.
 * A worker with limits gets "acl:3;cores=5/20": at most five of twenty AI cores, and the same part of the vector cores.
 */
#include <stdlib.h>

#include "ascend.h"

static enum facet_status not_offered(struct facet_error *error)
{
    return facet_kit_fail(error, FACET_UNSUPPORTED, "the operation: not offered by the installed driver and CANN");
}

enum facet_status ascend_device_check(const struct facet_provider_instance *instance, uint32_t device,
                                      uint64_t capability, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->count, error);

    if (status != FACET_OK || (instance->infos[device].capabilities & capability) == capability)
        return status;
    return not_offered(error);
}

enum facet_status ascend_devices_check(const struct facet_provider_instance *instance, uint64_t capability,
                                       struct facet_error *error)
{
    for (uint32_t device = 0; device < instance->count; device++) {
        if (instance->infos[device].capabilities & capability)
            return FACET_OK;
    }
    return instance->count ? not_offered(error) : FACET_OK;
}

static void ascend_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    ascend_contexts_free(instance);
    for (uint32_t i = 0; i < instance->count; i++)
        ascend_workers_free(&instance->chips[i]);
    ascend_acl_close(&instance->acl);
    ascend_dcmi_close(&instance->dcmi);
    pthread_mutex_destroy(&instance->lock);
    pthread_mutex_destroy(&instance->event_lock);
    free(instance->infos);
    free(instance->chips);
    free(instance);
}

/* A CANN that does not load must not hide the devices, but the reason must not be lost either. */
static void open_acl(struct facet_provider_instance *instance)
{
    struct facet_error reason = {0};

    if (ascend_acl_open(&instance->acl, &reason) != FACET_OK)
        FACET_KIT_TEXT(instance->acl_error, reason.message);
}

static enum facet_status open_libraries(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = ascend_dcmi_open(&instance->dcmi, error);

    if (status != FACET_OK || !instance->dcmi.library)
        return status;
    open_acl(instance);
    return ascend_chips_find(instance, error);
}

static enum facet_status ascend_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    if (!ret_instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_instance: expected an address, not NULL");
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    pthread_mutex_init(&instance->lock, NULL);
    pthread_mutex_init(&instance->event_lock, NULL);
    enum facet_status status = open_libraries(instance, error);
    if (status == FACET_OK)
        *ret_instance = instance;
    else
        ascend_close(instance);
    return status;
}

static enum facet_status ascend_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->infos, instance->count, items, item_size, capacity, ret_count, error);
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = ascend_open,
    .close = ascend_close,
    .list = ascend_list,
    .health = ascend_device_health,
    .properties = ascend_device_properties,
    .nodes = ascend_device_nodes,
    .links = ascend_device_links,
    .events = ascend_device_events,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "ascend",
    .version = FACET_VERSION,
    .description = "Huawei Ascend NPUs, through DCMI and AscendCL",
    .device = &device_ops,
    .limit = &ascend_limit_ops,
    .metrics = &ascend_metrics_ops,
    .container = &ascend_container_ops,
    .memory = &ascend_memory_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
