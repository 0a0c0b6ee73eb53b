/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the driver's answers about devices. Never: changes anything. */
#include <stdio.h>
#include <string.h>

#include "fake.h"

#define LAST_ATTRIBUTE 160 /* beyond any attribute of CUDA 13 */

CUresult fake_device_check(uint32_t physical)
{
    if (__builtin_expect(atomic_load_explicit(&fake_faulted, memory_order_relaxed), 0))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    return atomic_load_explicit(&fake_state()->devices[physical].lost, memory_order_relaxed) ? CUDA_ERROR_UNKNOWN
                                                                                             : CUDA_SUCCESS;
}

static CUresult find_device(CUdevice device, const struct fake_device **ret_device)
{
    uint32_t physical;
    CUresult result = fake_physical(device, &physical);

    if (result == CUDA_SUCCESS)
        result = fake_device_check(physical);
    if (result == CUDA_SUCCESS)
        *ret_device = &fake_state()->devices[physical];
    return result;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_ready() == CUDA_SUCCESS)
        *count = (int)fake_visible();
    return fake_ready();
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    uint32_t physical;
    CUresult result = device ? fake_physical(ordinal, &physical) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    const struct fake_device *found;
    CUresult result = name && length > 0 ? find_device(device, &found) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)length, "%s", found->name);
    return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    const struct fake_device *found;
    CUresult result = uuid ? find_device(device, &found) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        memcpy(uuid->bytes, fake_visible_part() ? fake_visible_part()->uuid : found->uuid, sizeof uuid->bytes);
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

static int attribute_of(const struct fake_device *device, int attribute)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        return INT32_MAX;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 48 << 10;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1980000;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)(fake_visible_part() ? fake_visible_part()->units : device->units);
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return (int)device->pci_bus;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        return (int)device->pci_device;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return (int)device->pci_domain;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return (int)device->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return (int)device->minor;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    const struct fake_device *found;
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (value && attribute > 0 && attribute < LAST_ATTRIBUTE)
        result = find_device(device, &found);
    if (result == CUDA_SUCCESS)
        *value = attribute_of(found, attribute);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    const struct fake_device *found;
    CUresult result = bytes ? find_device(device, &found) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *bytes = fake_visible_part() ? fake_visible_part()->memory_bytes : found->memory_bytes;
    return result;
}

/* The form from before CUDA 3.2, for at most 4 GiB. */
CUresult cuDeviceTotalMem(unsigned *bytes, CUdevice device)
{
    size_t total;
    CUresult result = bytes ? cuDeviceTotalMem_v2(&total, device) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return result;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    const struct fake_device *found;
    CUresult result = text && length > 0 ? find_device(device, &found) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        snprintf(text, (size_t)length, "%08X:%02X:%02X.0", found->pci_domain, found->pci_bus, found->pci_device);
    return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned domain, bus, number;
    const struct fake_device *found;

    if (!device || !text || fake_ready() != CUDA_SUCCESS)
        return fake_ready() == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_INITIALIZED;
    if (sscanf(text, "%x:%x:%x", &domain, &bus, &number) != 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdevice i = 0; find_device(i, &found) == CUDA_SUCCESS; i++)
        if (found->pci_domain == domain && found->pci_bus == bus && found->pci_device == number) {
            *device = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    const struct fake_device *found;
    CUresult result = can ? find_device(device, &found) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        result = find_device(peer, &found);
    if (result == CUDA_SUCCESS)
        *can = device != peer;
    return result;
}
