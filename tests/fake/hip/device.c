/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the runtime's answers about devices, in both layouts of their properties. Never: changes anything. */
#include <stdio.h>
#include <string.h>

#include "fake.h"

#define ARCHITECTURE  "gfx942:sramecc+:xnack-"
#define SHARED_MEMORY (64 << 10)
#define CLOCK_KHZ     2100000
#define MEMORY_KHZ    1300000
#define MEMORY_BITS   8192
#define THREADS       1024
#define THREADS_UNIT  2048
#define WAVE          64
#define CACHE_BYTES   (4 << 20)

/* Called by the files of tests/fake/cuda. */
CUresult fake_device_check(uint32_t physical)
{
    if (__builtin_expect(atomic_load_explicit(&fake_faulted, memory_order_relaxed), 0))
        return hipErrorIllegalAddress;
    return atomic_load_explicit(&fake_state()->devices[physical].lost, memory_order_relaxed) ? hipErrorUnknown
                                                                                             : hipSuccess;
}

static hipError_t find_device(int device, const void *output, const struct fake_device **ret_device)
{
    uint32_t physical;
    hipError_t result = output ? fake_physical(device, &physical) : hipErrorInvalidValue;

    if (result == hipSuccess)
        result = fake_device_check(physical);
    if (result == hipSuccess)
        *ret_device = &fake_state()->devices[physical];
    return result;
}

hipError_t hipGetDeviceCount(int *count)
{
    hipError_t result = count ? fake_hip_init() : hipErrorInvalidValue;

    if (count)
        *count = result == hipSuccess ? (int)fake_visible() : 0;
    return fake_hip_record_error(result);
}

hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
    const struct fake_device *found;
    hipError_t result = find_device(ordinal, device, &found);

    if (result == hipSuccess)
        *device = ordinal;
    return fake_hip_record_error(result);
}

hipError_t hipDeviceGetName(char *name, int length, hipDevice_t device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, length > 0 ? name : NULL, &found);

    if (result == hipSuccess)
        snprintf(name, (size_t)length, "%s", found->name);
    return fake_hip_record_error(result);
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, uuid, &found);

    if (result == hipSuccess)
        memcpy(uuid->bytes, found->uuid, sizeof uuid->bytes);
    return fake_hip_record_error(result);
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, bytes, &found);

    if (result == hipSuccess)
        *bytes = found->memory_bytes;
    return fake_hip_record_error(result);
}

hipError_t hipDeviceComputeCapability(int *major, int *minor, hipDevice_t device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, major && minor ? major : NULL, &found);

    if (result == hipSuccess) {
        *major = (int)found->major;
        *minor = (int)found->minor;
    }
    return fake_hip_record_error(result);
}

static int attribute_of(const struct fake_device *device, int attribute)
{
    switch (attribute) {
    case hipDeviceAttributeAsyncEngineCount:
        return 8;
    case hipDeviceAttributeClockRate:
        return CLOCK_KHZ;
    case hipDeviceAttributeL2CacheSize:
        return CACHE_BYTES;
    case hipDeviceAttributeComputeCapabilityMajor:
        return (int)device->major;
    case hipDeviceAttributeComputeCapabilityMinor:
        return (int)device->minor;
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ:
    case hipDeviceAttributeMaxThreadsPerBlock:
        return THREADS;
    case hipDeviceAttributeMaxGridDimX:
        return INT32_MAX;
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ:
        return 65536;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
        return THREADS_UNIT;
    case hipDeviceAttributeMemoryBusWidth:
        return MEMORY_BITS;
    case hipDeviceAttributeMemoryClockRate:
        return MEMORY_KHZ;
    case hipDeviceAttributeMultiprocessorCount:
        return (int)device->units;
    case hipDeviceAttributePciBusId:
        return (int)device->pci_bus;
    case hipDeviceAttributePciDeviceId:
        return (int)device->pci_device;
    case hipDeviceAttributePciDomainId:
        return (int)device->pci_domain;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
        return SHARED_MEMORY;
    case hipDeviceAttributeTotalConstantMemory:
    case hipDeviceAttributeTotalGlobalMem:
        return device->memory_bytes > INT32_MAX ? INT32_MAX : (int)device->memory_bytes;
    case hipDeviceAttributeWarpSize:
        return WAVE;
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeCooperativeLaunch:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeVirtualMemoryManagementSupported:
        return 1;
    default:
        return 0;
    }
}

hipError_t hipDeviceGetAttribute(int *value, int attribute, int device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, attribute >= 0 ? value : NULL, &found);

    if (result == hipSuccess)
        *value = attribute_of(found, attribute);
    return fake_hip_record_error(result);
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *properties, int device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, properties, &found);

    if (result != hipSuccess)
        return fake_hip_record_error(result);
    *properties = (hipDeviceProp_tR0600){.totalGlobalMem = found->memory_bytes,
                                         .totalConstMem = found->memory_bytes,
                                         .sharedMemPerBlock = SHARED_MEMORY,
                                         .warpSize = WAVE,
                                         .maxThreadsPerBlock = THREADS,
                                         .maxThreadsDim = {THREADS, THREADS, THREADS},
                                         .maxGridSize = {INT32_MAX, 65536, 65536},
                                         .clockRate = CLOCK_KHZ,
                                         .major = (int)found->major,
                                         .minor = (int)found->minor,
                                         .multiProcessorCount = (int)found->units,
                                         .concurrentKernels = 1,
                                         .pciBusID = (int)found->pci_bus,
                                         .pciDeviceID = (int)found->pci_device,
                                         .pciDomainID = (int)found->pci_domain,
                                         .memoryClockRate = MEMORY_KHZ,
                                         .memoryBusWidth = MEMORY_BITS,
                                         .l2CacheSize = CACHE_BYTES,
                                         .maxThreadsPerMultiProcessor = THREADS_UNIT,
                                         .managedMemory = 1,
                                         .cooperativeLaunch = 1,
                                         .memoryPoolsSupported = 1,
                                         .gcnArchName = ARCHITECTURE};
    memcpy(properties->name, found->name, sizeof found->name);
    memcpy(properties->uuid.bytes, found->uuid, sizeof found->uuid);
    return hipSuccess;
}

hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000 *properties, int device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, properties, &found);

    if (result != hipSuccess)
        return fake_hip_record_error(result);
    *properties = (hipDeviceProp_tR0000){.totalGlobalMem = found->memory_bytes,
                                         .totalConstMem = found->memory_bytes,
                                         .sharedMemPerBlock = SHARED_MEMORY,
                                         .warpSize = WAVE,
                                         .maxThreadsPerBlock = THREADS,
                                         .maxThreadsDim = {THREADS, THREADS, THREADS},
                                         .maxGridSize = {INT32_MAX, 65536, 65536},
                                         .clockRate = CLOCK_KHZ,
                                         .memoryClockRate = MEMORY_KHZ,
                                         .memoryBusWidth = MEMORY_BITS,
                                         .major = (int)found->major,
                                         .minor = (int)found->minor,
                                         .multiProcessorCount = (int)found->units,
                                         .l2CacheSize = CACHE_BYTES,
                                         .maxThreadsPerMultiProcessor = THREADS_UNIT,
                                         .concurrentKernels = 1,
                                         .pciBusID = (int)found->pci_bus,
                                         .pciDeviceID = (int)found->pci_device,
                                         .pciDomainID = (int)found->pci_domain,
                                         .gcnArchName = ARCHITECTURE,
                                         .cooperativeLaunch = 1,
                                         .managedMemory = 1};
    memcpy(properties->name, found->name, sizeof found->name);
    return hipSuccess;
}

hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000 *properties, int device)
{
    return hipGetDevicePropertiesR0000(properties, device);
}

hipError_t hipDeviceGetPCIBusId(char *text, int length, int device)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, length > 0 ? text : NULL, &found);

    if (result == hipSuccess)
        snprintf(text, (size_t)length, "%04x:%02x:%02x.0", found->pci_domain, found->pci_bus, found->pci_device);
    return fake_hip_record_error(result);
}

hipError_t hipDeviceGetByPCIBusId(int *device, const char *text)
{
    unsigned domain, bus, number;
    const struct fake_device *found;

    if (!device || !text || sscanf(text, "%x:%x:%x", &domain, &bus, &number) != 3)
        return fake_hip_record_error(hipErrorInvalidValue);
    for (int i = 0; find_device(i, device, &found) == hipSuccess; i++)
        if (found->pci_domain == domain && found->pci_bus == bus && found->pci_device == number) {
            *device = i;
            return hipSuccess;
        }
    return fake_hip_record_error(hipErrorInvalidDevice);
}

hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer)
{
    const struct fake_device *found;
    hipError_t result = find_device(device, can, &found);

    if (result == hipSuccess)
        result = find_device(peer, can, &found);
    if (result == hipSuccess)
        *can = device != peer;
    return fake_hip_record_error(result);
}

hipError_t hipDriverGetVersion(int *version)
{
    if (!version)
        return fake_hip_record_error(hipErrorInvalidValue);
    *version = (int)fake_state()->driver_version;
    return hipSuccess;
}

hipError_t hipRuntimeGetVersion(int *version)
{
    return hipDriverGetVersion(version);
}
