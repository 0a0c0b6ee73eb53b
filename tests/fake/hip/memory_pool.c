/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: pools, and virtual memory. Never: translates a number: both vendors' constants are the same here. */
#include <stddef.h>

#include "fake.h"
#include "vendor/cuda/memory.h"

#define SAME_LAYOUT "HIP's and CUDA's struct must have the same layout"
_Static_assert(sizeof(hipMemPoolProps) == sizeof(CUmemPoolProps), SAME_LAYOUT);
_Static_assert(offsetof(hipMemPoolProps, maxSize) == offsetof(CUmemPoolProps, maxSize), SAME_LAYOUT);
_Static_assert(offsetof(hipMemAllocationProp, location) == offsetof(CUmemAllocationProp, location),
               "the first members of HIP's and CUDA's struct must have the same layout");
_Static_assert(sizeof(hipMemAccessDesc) == sizeof(CUmemAccessDesc), SAME_LAYOUT);
_Static_assert((int)hipMemPoolAttrReservedMemCurrent == (int)CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
               "HIP's and CUDA's number must be the same");

#define STREAM(stream) ((CUstream)(stream))
#define POOL(pool)     ((CUmemoryPool)(pool))
#define HANDLE(handle) ((CUmemGenericAllocationHandle)(uintptr_t)(handle))

static CUdeviceptr device_address(const void *pointer)
{
    return (uintptr_t)pointer;
}

static hipError_t allocate_pooled(void **pointer, size_t bytes, CUmemoryPool pool, hipStream_t stream)
{
    CUdeviceptr address = 0;

    if (!pointer || !bytes)
        return pointer ? hipSuccess : hipErrorInvalidValue;
    hipError_t result = pool ? cuMemAllocFromPoolAsync(&address, bytes, pool, STREAM(stream))
                             : cuMemAllocAsync(&address, bytes, STREAM(stream));
    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static hipError_t reserve_addresses(void **pointer, size_t bytes, size_t alignment, const void *wanted,
                                    unsigned long long flags)
{
    CUdeviceptr address;
    hipError_t result =
        pointer ? cuMemAddressReserve(&address, bytes, alignment, device_address(wanted), flags) : hipErrorInvalidValue;

    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static CUmemAllocationProp to_cuda_form(const hipMemAllocationProp *properties)
{
    return (CUmemAllocationProp){.type = properties->type,
                                 .requestedHandleTypes = properties->requestedHandleTypes,
                                 .location = {.type = properties->location.type, .id = properties->location.id}};
}

static hipError_t create_handle(hipMemGenericAllocationHandle_t *handle, size_t bytes,
                                const hipMemAllocationProp *properties, unsigned long long flags)
{
    CUmemGenericAllocationHandle made;

    if (!handle || !properties)
        return hipErrorInvalidValue;
    CUmemAllocationProp cuda_properties = to_cuda_form(properties);
    hipError_t result = cuMemCreate(&made, bytes, &cuda_properties, flags);
    if (result == hipSuccess)
        *handle = (hipMemGenericAllocationHandle_t)(uintptr_t)made;
    return result;
}

static hipError_t granularity_of(size_t *bytes, const hipMemAllocationProp *properties, int option)
{
    if (!bytes || !properties)
        return hipErrorInvalidValue;
    CUmemAllocationProp cuda_properties = to_cuda_form(properties);
    return cuMemGetAllocationGranularity(bytes, &cuda_properties, option);
}

static hipError_t properties_of(hipMemAllocationProp *properties, hipMemGenericAllocationHandle_t handle)
{
    CUmemAllocationProp found;
    hipError_t result =
        properties ? cuMemGetAllocationPropertiesFromHandle(&found, HANDLE(handle)) : hipErrorInvalidValue;

    if (result == hipSuccess)
        *properties = (hipMemAllocationProp){.type = found.type,
                                             .requestedHandleTypes = found.requestedHandleTypes,
                                             .location = {.type = found.location.type, .id = found.location.id}};
    return result;
}

static hipError_t return_handle(hipError_t result, CUmemGenericAllocationHandle found,
                                hipMemGenericAllocationHandle_t *handle)
{
    if (result == hipSuccess)
        *handle = (hipMemGenericAllocationHandle_t)(uintptr_t)found;
    return result;
}

static hipError_t retain_handle(hipMemGenericAllocationHandle_t *handle, void *address)
{
    CUmemGenericAllocationHandle found = 0;
    hipError_t result = handle ? cuMemRetainAllocationHandle(&found, address) : hipErrorInvalidValue;

    return return_handle(result, found, handle);
}

static hipError_t import_handle(hipMemGenericAllocationHandle_t *handle, void *shared, int type)
{
    CUmemGenericAllocationHandle found = 0;
    hipError_t result = handle ? cuMemImportFromShareableHandle(&found, shared, type) : hipErrorInvalidValue;

    return return_handle(result, found, handle);
}

static hipError_t import_pointer(void **pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    CUdeviceptr address;
    hipError_t result = pointer ? cuMemPoolImportPointer(&address, pool, data) : hipErrorInvalidValue;

    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

FAKE_HIP(hipMallocAsync, (void **pointer, size_t bytes, hipStream_t stream),
         allocate_pooled(pointer, bytes, NULL, stream))
FAKE_HIP(hipMallocFromPoolAsync, (void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream),
         pool ? allocate_pooled(pointer, bytes, POOL(pool), stream) : hipErrorInvalidValue)
FAKE_HIP(hipFreeAsync, (void *pointer, hipStream_t stream),
         pointer ? cuMemFreeAsync(device_address(pointer), STREAM(stream)) : hipErrorInvalidValue)
FAKE_HIP(hipMemPoolCreate, (hipMemPool_t * pool, const hipMemPoolProps *properties),
         cuMemPoolCreate((CUmemoryPool *)pool, (const CUmemPoolProps *)properties))
FAKE_HIP(hipMemPoolDestroy, (hipMemPool_t pool), cuMemPoolDestroy(POOL(pool)))
FAKE_HIP(hipMemPoolTrimTo, (hipMemPool_t pool, size_t keep), cuMemPoolTrimTo(POOL(pool), keep))
FAKE_HIP(hipMemPoolSetAttribute, (hipMemPool_t pool, hipMemPoolAttr attribute, void *value),
         cuMemPoolSetAttribute(POOL(pool), attribute, value))
FAKE_HIP(hipMemPoolGetAttribute, (hipMemPool_t pool, hipMemPoolAttr attribute, void *value),
         cuMemPoolGetAttribute(POOL(pool), attribute, value))
FAKE_HIP(hipMemPoolExportToShareableHandle,
         (void *shared, hipMemPool_t pool, hipMemAllocationHandleType type, unsigned flags),
         cuMemPoolExportToShareableHandle(shared, POOL(pool), type, flags))
FAKE_HIP(hipMemPoolImportFromShareableHandle,
         (hipMemPool_t * pool, void *shared, hipMemAllocationHandleType type, unsigned flags),
         cuMemPoolImportFromShareableHandle((CUmemoryPool *)pool, shared, type, flags))
FAKE_HIP(hipMemPoolExportPointer, (hipMemPoolPtrExportData * data, void *pointer),
         cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, device_address(pointer)))
FAKE_HIP(hipMemPoolImportPointer, (void **pointer, hipMemPool_t pool, hipMemPoolPtrExportData *data),
         import_pointer(pointer, POOL(pool), (CUmemPoolPtrExportData *)data))
FAKE_HIP(hipDeviceGetDefaultMemPool, (hipMemPool_t * pool, int device),
         cuDeviceGetDefaultMemPool((CUmemoryPool *)pool, device))
FAKE_HIP(hipDeviceGetMemPool, (hipMemPool_t * pool, int device), cuDeviceGetMemPool((CUmemoryPool *)pool, device))
FAKE_HIP(hipDeviceSetMemPool, (int device, hipMemPool_t pool), cuDeviceSetMemPool(device, POOL(pool)))

FAKE_HIP(hipMemAddressReserve, (void **pointer, size_t bytes, size_t alignment, void *wanted, unsigned long long flags),
         reserve_addresses(pointer, bytes, alignment, wanted, flags))
FAKE_HIP(hipMemAddressFree, (void *pointer, size_t bytes), cuMemAddressFree(device_address(pointer), bytes))
FAKE_HIP(hipMemCreate,
         (hipMemGenericAllocationHandle_t * handle, size_t bytes, const hipMemAllocationProp *properties,
          unsigned long long flags),
         create_handle(handle, bytes, properties, flags))
FAKE_HIP(hipMemRelease, (hipMemGenericAllocationHandle_t handle), cuMemRelease(HANDLE(handle)))
FAKE_HIP(hipMemRetainAllocationHandle, (hipMemGenericAllocationHandle_t * handle, void *address),
         retain_handle(handle, address))
FAKE_HIP(hipMemMap,
         (void *pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle, unsigned long long flags),
         cuMemMap(device_address(pointer), bytes, offset, HANDLE(handle), flags))
FAKE_HIP(hipMemUnmap, (void *pointer, size_t bytes), cuMemUnmap(device_address(pointer), bytes))
FAKE_HIP(hipMemSetAccess, (void *pointer, size_t bytes, const hipMemAccessDesc *list, size_t count),
         cuMemSetAccess(device_address(pointer), bytes, (const CUmemAccessDesc *)list, count))
FAKE_HIP(hipMemGetAccess, (unsigned long long *flags, const hipMemLocation *location, void *pointer),
         cuMemGetAccess(flags, (const CUmemLocation *)location, device_address(pointer)))
FAKE_HIP(hipMemGetAllocationGranularity,
         (size_t * bytes, const hipMemAllocationProp *properties, hipMemAllocationGranularity_flags option),
         granularity_of(bytes, properties, option))
FAKE_HIP(hipMemGetAllocationPropertiesFromHandle,
         (hipMemAllocationProp * properties, hipMemGenericAllocationHandle_t handle), properties_of(properties, handle))
FAKE_HIP(hipMemExportToShareableHandle,
         (void *shared, hipMemGenericAllocationHandle_t handle, hipMemAllocationHandleType type,
          unsigned long long flags),
         cuMemExportToShareableHandle(shared, HANDLE(handle), type, flags))
FAKE_HIP(hipMemImportFromShareableHandle,
         (hipMemGenericAllocationHandle_t * handle, void *shared, hipMemAllocationHandleType type),
         import_handle(handle, shared, type))
