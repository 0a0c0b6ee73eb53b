/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ROCm provider: AMD's GPUs, as AMD SMI, the kernel's driver amdgpu, and the HIP runtime show them.
 *
 * Owns: the entry, opening and closing, and the tables.
 * Never: reports a value that it could not read, or changes how a GPU's memory is partitioned, which reloads the driver
 * for all processes.
 *
 * Libraries. They are opened at run time: libamd_smi.so and libamdhip64.so, or the files that FACET_ROCM_SMI and
 * FACET_ROCM_HIP name; and hipBLASLt and MIOpen for mathematics (math_library.h). Without AMD SMI the kernel's files
 * are read, which have fewer values. Without HIP, devices can be listed and shared, but there is no memory and no
 * kernels. If AMD SMI or HIP is installed but cannot be used, the property `smi_error` or `hip_error` has the reason.
 *
 * HIP is initialised with the first context, not before: the driver cannot partition a GPU that any process has open.
 *
 * Modes. A GPU in its normal mode offers `shared` and `soft`. A GPU that is partitioned when it is found offers
 * `partitioned` only, and not the whole GPU. The administrator decides that before the provider is opened, by the GPU's
 * mode, or by FACET_ROCM_PARTITIONS=1, with which every GPU that can be partitioned counts as partitioned. `hard` is
 * not offered to programs, because the driver cannot limit another process to a number of compute units. Workers whose
 * contexts belong to this provider can have hard limits (gpu/limit.c, slice.h).
 *
 * Address. It is "amd-" and 16 hexadecimal digits, which belong to the GPU or the partition (vendor/hip/runtime.h).
 */
#include "rocm.h"

#include <stdlib.h>
#include <string.h>

static void rocm_close(struct facet_provider_instance *instance)
{
    /* If the machine cannot be closed, work that the runtime does not end still uses the instance: nothing is freed. */
    if (!instance || !gpu_machine_close(&instance->gpu))
        return;
    rocm_events_end(instance);
    rocm_smi_close(&instance->smi);
    pthread_mutex_destroy(&instance->runtime_lock);
    pthread_mutex_destroy(&instance->lock);
    free(instance);
}

static enum facet_status check_settings(struct facet_error *error)
{
    const char *partitions = getenv("FACET_ROCM_PARTITIONS");

    if (partitions && *partitions && strcmp(partitions, "0") != 0 && strcmp(partitions, "1") != 0)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "FACET_ROCM_PARTITIONS is '%.32s': expected 0 or 1",
                              partitions);
    return FACET_OK;
}

static enum facet_status open_libraries(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct facet_error reason = {0};

    if (check_settings(error) != FACET_OK)
        return FACET_INVALID_ARGUMENT;
    /* A library that does not load must not hide the GPUs, but the reason must not be lost either. */
    if (rocm_smi_open(&instance->smi, &reason) != FACET_OK)
        FACET_KIT_TEXT(instance->smi_error, reason.message);
    rocm_runtime_open(&instance->runtime);
    if (rocm_runtime_executes(&instance->runtime))
        rocm_math_open(&instance->math);
    enum facet_status status = rocm_gpus_find(instance, error);
    if (status == FACET_OK)
        rocm_events_begin(instance);
    return status;
}

static enum facet_status rocm_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    if (!ret_instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_instance: expected an address, not NULL");
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    pthread_mutex_init(&instance->runtime_lock, NULL);
    pthread_mutex_init(&instance->lock, NULL);
    gpu_machine_init(&instance->gpu);
    instance->gpu.driver = &rocm_gpu_driver;
    enum facet_status status = open_libraries(instance, error);
    if (status == FACET_OK)
        *ret_instance = instance;
    else
        rocm_close(instance);
    return status;
}

static enum facet_status rocm_list(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                   uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->gpu.infos, instance->gpu.count, items, item_size, capacity, ret_count, error);
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = rocm_open,
    .close = rocm_close,
    .list = rocm_list,
    .health = rocm_device_health,
    .properties = rocm_device_properties,
    .nodes = rocm_device_nodes,
    .links = rocm_device_links,
    .events = rocm_device_events,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "rocm",
    .version = FACET_VERSION,
    .description = "AMD GPUs, through AMD SMI, amdgpu and HIP",
    .device = &device_ops,
    .partition = &rocm_partition_ops,
    .limit = &gpu_limit_ops,
    .metrics = &rocm_metrics_ops,
    .container = &rocm_container_ops,
    .memory = &gpu_memory_ops,
    .execution = &gpu_execution_ops,
    .math = &rocm_math_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    return facet_kit_enter(host, &provider, ret_provider);
}
