/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the part of a GPU's description that the driver gives. Never: makes a context for a mere listing. */
#include "cuda.h"

static int attribute_or_zero(const struct facet_provider_instance *instance, const struct gpu_device *device, int which)
{
    int value;

    /* An attribute that this driver does not know reads as 0. */
    return instance->driver.cuDeviceGetAttribute(&value, which, device->ordinal) == CUDA_SUCCESS ? value : 0;
}

/* The smallest size of memory that can be mapped, or 0. */
static size_t granule_of(const struct facet_provider_instance *instance, uint32_t index)
{
    const struct gpu_device *device = &instance->gpu.devices[index];
    const CUmemAllocationProp properties = cuda_memory_properties(&instance->gpu, index);
    size_t granule = 0;

    if (!cuda_driver_maps(&instance->driver) ||
        !attribute_or_zero(instance, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
        instance->driver.cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) !=
            CUDA_SUCCESS)
        return 0;
    return granule & (granule - 1) ? 0 : granule;
}

static void read_bounds(const struct facet_provider_instance *instance, struct gpu_device *device)
{
    for (int i = 0; i < 3; i++) {
        device->grid_most[i] = (uint32_t)attribute_or_zero(instance, device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
        device->group_most[i] = (uint32_t)attribute_or_zero(instance, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    }
    device->items_most = (uint32_t)attribute_or_zero(instance, device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

/* Searches by PCI address: the driver's numbers depend on CUDA_VISIBLE_DEVICES, which may also hide the GPU. */
static bool find_device(const struct facet_provider_instance *instance, const struct facet_device_info *info,
                        struct gpu_device *device)
{
    return instance->driver.library && info->valid & FACET_DEVICE_HAS_PCI &&
           instance->driver.cuDeviceGetByPCIBusId(&device->ordinal, info->pci_address) == CUDA_SUCCESS;
}

/* A partitioned GPU is not offered as a whole: the driver's device for it is one of its partitions. */
uint64_t cuda_driver_describe(struct facet_provider_instance *instance, uint32_t index, struct facet_device_info *info)
{
    struct gpu_device *device = &instance->gpu.devices[index];
    uint64_t can = FACET_CAN_MEMORY | FACET_CAN_LIMIT_MEMORY;

    if (!find_device(instance, info, device))
        return 0;
    int units = attribute_or_zero(instance, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (units > 0) {
        info->compute_units = (uint32_t)units;
        info->valid |= FACET_DEVICE_HAS_COMPUTE_UNITS;
    }
    if (instance->gpus[index].is_partitioned || !(info->valid & FACET_DEVICE_HAS_MEMORY))
        return 0;
    device->granule = granule_of(instance, index);
    read_bounds(instance, device);
    if (device->granule)
        can |= FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES;
    if (device->items_most && cuda_driver_executes(&instance->driver))
        can |= FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE | FACET_CAN_RECORD | FACET_CAN_SHARE | FACET_CAN_SCHEDULE |
               (instance->math.blas_library || instance->math.dnn_library ? FACET_CAN_MATH : 0) |
               cuda_groups_find(&instance->driver, device->ordinal, &instance->groups[index]);
    return can;
}
