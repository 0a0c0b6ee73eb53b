/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL provider: every root device of every platform that the ICD loader offers, and sub-devices of those that
 * can be partitioned by counts.
 *
 * Owns: the entry point and the table `device`. `address` is written by facet/opencl_address.h, which the layer in a
 * tenant uses too.
 * Never: creates a context, a queue or a buffer.
 *
 * Identity. The uuid is CL_DEVICE_UUID_KHR where the device offers it. Else it is a hash of the address, which changes
 * when a device of the same name is added before this one.
 * Environment. If OPENCL_LAYERS is set, the ICD loader puts layers, ours among them, between this provider and the
 * devices, and the provider would describe a vGPU. A host that wants the physical devices (the daemon) clears that
 * variable.
 * Parts. OpenCL does not report the units that a sub-device gets. Units are numbered on the assumption that a driver
 * allocates them in order, as PoCL does. A sub-device belongs to the process that makes it. So partitions and workers
 * are only recorded here, and end with the instance.
 */
#include "opencl.h"

#include <stdlib.h>

static void free_holders(struct facet_opencl_device *device)
{
    while (device->holders)
        facet_opencl_holder_remove(device, device->holders);
}

static void opencl_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    for (uint32_t i = 0; i < instance->count; i++)
        free_holders(&instance->devices[i]);
    pthread_mutex_destroy(&instance->lock);
    free(instance->devices);
    free(instance->infos);
    free(instance);
}

/* PoCL sets this variable to keep hwloc from loading plug-ins. The host's children would inherit it. */
static const char pocl_variable[] = "HWLOC_PLUGINS_PATH";

/* Restores the earlier value; `before` NULL: unset. */
static void restore_variable(const char *before)
{
    const char *now = getenv(pocl_variable);

    if (!before && now)
        unsetenv(pocl_variable);
    else if (before && (!now || strcmp(now, before) != 0))
        setenv(pocl_variable, before, 1);
}

/* Lets the runtimes initialise, and reverses the changes they make in this process. */
static enum facet_status find_devices(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct facet_opencl_signals signals;
    const char *variable = getenv(pocl_variable);
    char *before = variable ? strdup(variable) : NULL;

    if (variable && !before)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %s", pocl_variable);
    facet_opencl_signals_save(&signals);
    enum facet_status status = facet_opencl_find_devices(instance, error);
    facet_opencl_signals_restore(&signals);
    restore_variable(before);
    free(before);
    return status;
}

static enum facet_status opencl_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    if (!ret_instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_instance: expected an address, not NULL");
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    pthread_mutex_init(&instance->lock, NULL);
    enum facet_status status = find_devices(instance, error);
    if (status == FACET_OK)
        *ret_instance = instance;
    else
        opencl_close(instance);
    return status;
}

static enum facet_status opencl_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    if (!instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "instance: expected an open one, not NULL");
    return facet_kit_list(instance->infos, instance->count, items, item_size, capacity, ret_count, error);
}

static enum facet_status opencl_health(struct facet_provider_instance *instance, uint32_t device, uint32_t *ret_health,
                                       struct facet_error *error)
{
    cl_bool available = CL_FALSE;
    enum facet_status status = facet_opencl_check(instance, device, 0, error);

    if (status != FACET_OK)
        return status;
    if (!ret_health)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_health: expected an address, not NULL");
    cl_int code =
        clGetDeviceInfo(instance->devices[device].id, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    if (code != CL_SUCCESS)
        return facet_opencl_fail(error, "CL_DEVICE_AVAILABLE", code);
    *ret_health = available ? FACET_HEALTH_OK : FACET_HEALTH_FAILED;
    return FACET_OK;
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = opencl_open,
    .close = opencl_close,
    .list = opencl_list,
    .health = opencl_health,
    .properties = facet_opencl_properties,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "opencl",
    .version = FACET_VERSION,
    .description = "Every device of the installed OpenCL runtimes",
    .device = &device_ops,
    .partition = &facet_opencl_partition_ops,
    .limit = &facet_opencl_limit_ops,
    .container = &facet_opencl_container_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
