/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA provider: NVIDIA's GPUs, as the management library (NVML) and the driver show them.
 *
 * Owns: the entry, opening and closing, and the tables.
 * Never: reports a value that it could not read, or changes the mode of a GPU.
 *
 * Libraries. Both are opened at run time: libnvidia-ml.so.1 and libcuda.so.1, or the files that FACET_CUDA_NVML and
 * FACET_CUDA_DRIVER name. Without NVML there are no devices. Without the driver, devices can be listed and shared, but
 * there is no memory, no kernels, and the number of multiprocessors is unknown. If the driver is installed and cannot
 * be used, the property `driver_error` has the reason.
 *
 * Modes. A GPU in its normal mode offers `shared` and `soft`. A GPU in MIG mode offers `partitioned` only, and not the
 * whole GPU. An administrator sets the mode before the provider is opened. `hard` is not offered to programs, because
 * the driver cannot limit another process to a number of multiprocessors. Workers whose contexts belong to this
 * provider can have hard limits (gpu/limit.c, slice.h).
 *
 * Address. It is the UUID, "GPU-..." or, of a partition, "MIG-...": the form that CUDA_VISIBLE_DEVICES accepts.
 */
#include <stdlib.h>

#include "cuda.h"

static void cuda_close(struct facet_provider_instance *instance)
{
    /* If the machine cannot be closed, work that the driver does not end still uses the instance: nothing is freed. */
    if (!instance || !gpu_machine_close(&instance->gpu))
        return;
    cuda_events_end(instance);
    cuda_nvml_close(&instance->nvml);
    pthread_mutex_destroy(&instance->lock);
    pthread_mutex_destroy(&instance->parts_lock);
    free(instance);
}

static enum facet_status open_runtime(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = cuda_nvml_open(&instance->nvml, error);
    struct facet_error reason = {0};

    if (status != FACET_OK || !instance->nvml.library)
        return status;
    /* A driver that does not load must not hide the GPUs, but the reason must not be lost either. */
    if (cuda_driver_open(&instance->driver, &reason) != FACET_OK)
        FACET_KIT_TEXT(instance->driver_error, reason.message);
    else if (!cuda_driver_executes(&instance->driver))
        FACET_KIT_TEXT(instance->driver_error, "libcuda.so.1 is not found, or has no GPU: no program can use the GPUs");
    if (cuda_driver_executes(&instance->driver))
        cuda_math_open(&instance->math);
    status = cuda_gpus_find(instance, error);
    if (status == FACET_OK)
        cuda_events_begin(instance);
    return status;
}

static enum facet_status cuda_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    if (!ret_instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_instance: expected an address, not NULL");
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    pthread_mutex_init(&instance->parts_lock, NULL);
    pthread_mutex_init(&instance->lock, NULL);
    gpu_machine_init(&instance->gpu);
    instance->gpu.driver = &cuda_gpu_driver;
    enum facet_status status = open_runtime(instance, error);
    if (status == FACET_OK)
        *ret_instance = instance;
    else
        cuda_close(instance);
    return status;
}

static enum facet_status cuda_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->gpu.infos, instance->gpu.count, items, item_size, capacity, ret_count, error);
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = cuda_open,
    .close = cuda_close,
    .list = cuda_list,
    .health = cuda_device_health,
    .properties = cuda_device_properties,
    .nodes = cuda_device_nodes,
    .links = cuda_device_links,
    .events = cuda_device_events,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "cuda",
    .version = FACET_VERSION,
    .description = "NVIDIA GPUs, through the driver's libnvidia-ml.so.1 and libcuda.so.1",
    .device = &device_ops,
    .partition = &cuda_partition_ops,
    .limit = &gpu_limit_ops,
    .metrics = &cuda_metrics_ops,
    .container = &cuda_container_ops,
    .snapshot = &cuda_snapshot_ops,
    .memory = &gpu_memory_ops,
    .execution = &gpu_execution_ops,
    .math = &cuda_math_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
