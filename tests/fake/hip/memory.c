/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: memory with an address, except pools and virtual memory; copies and fills that complete before they return.
 * Never: initializes a device for a query.
 */
#include "vendor/cuda/memory.h"
#include "fake.h"
#include "vendor/cuda/execution.h"

_Static_assert(sizeof(hipIpcMemHandle_t) == sizeof(CUipcMemHandle), "HIP's and CUDA's handle must have the same size");

static CUdeviceptr device_address(const void *pointer)
{
    return (uintptr_t)pointer;
}

/* A request for 0 bytes succeeds and allocates nothing. */
static hipError_t allocate_plain(void **pointer, uint64_t bytes)
{
    CUdeviceptr address = 0;

    if (!pointer)
        return hipErrorInvalidValue;
    hipError_t result = bytes ? cuMemAlloc_v2(&address, bytes) : hipSuccess;
    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static hipError_t allocate_flagged(void **pointer, size_t bytes, unsigned flags)
{
    if (flags > hipDeviceMallocContiguous)
        return hipErrorInvalidValue;
    if (flags != hipMallocSignalMemory)
        return allocate_plain(pointer, bytes);
    return pointer && bytes == sizeof(uint64_t) ? cuMemHostAlloc(pointer, bytes, 0) : hipErrorInvalidValue;
}

static hipError_t allocate_managed(void **pointer, size_t bytes, unsigned flags)
{
    CUdeviceptr address;

    if (!pointer || !bytes || (flags != hipMemAttachGlobal && flags != hipMemAttachHost))
        return hipErrorInvalidValue;
    hipError_t result = cuMemAllocManaged(&address, bytes, flags);
    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static hipError_t allocate_rows(void **pointer, size_t *pitch, size_t width, size_t height, unsigned element)
{
    CUdeviceptr address = 0;

    if (!pointer || !pitch)
        return hipErrorInvalidValue;
    *pitch = 0;
    hipError_t result = width && height ? cuMemAllocPitch_v2(&address, pitch, width, height, element) : hipSuccess;
    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static hipError_t allocate_pitched(hipPitchedPtr *made, hipExtent extent)
{
    size_t rows;

    if (!made || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return hipErrorInvalidValue;
    *made = (hipPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    return allocate_rows(&made->ptr, &made->pitch, extent.width, rows, 4);
}

/* Signal memory is on the host, and is freed by hipFree like other memory. */
static hipError_t release_pointer(void *pointer)
{
    hipError_t result = pointer ? cuMemFree_v2(device_address(pointer)) : hipSuccess;

    return result == hipErrorInvalidValue ? cuMemFreeHost(pointer) : result;
}

static hipError_t free_and_total(size_t *free_bytes, size_t *total)
{
    uint32_t physical;
    hipError_t result = free_bytes && total ? fake_physical(fake_hip_device(), &physical) : hipErrorInvalidValue;

    if (result != hipSuccess)
        return result;
    uint64_t size = fake_state()->devices[physical].memory_bytes, used = fake_used(physical);
    *total = size;
    *free_bytes = used < size ? size - used : 0;
    return hipSuccess;
}

static hipError_t size_of(void *pointer, size_t *size)
{
    CUdeviceptr base;

    return size ? cuMemGetAddressRange_v2(&base, size, device_address(pointer)) : hipErrorInvalidValue;
}

static hipError_t range_of(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t pointer)
{
    CUdeviceptr begin;
    hipError_t result = cuMemGetAddressRange_v2(&begin, size, device_address(pointer));

    if (result == hipSuccess && base)
        *base = (hipDeviceptr_t)(uintptr_t)begin;
    return result;
}

static hipError_t describe_pointer(hipPointerAttribute_t *attributes, const void *pointer)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0;
    int device = 0;
    hipError_t result = attributes
                            ? cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_address(pointer))
                            : hipErrorInvalidValue;

    if (result != hipSuccess)
        return result;
    cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, device_address(pointer));
    cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, device_address(pointer));
    bool host = type == CU_MEMORYTYPE_HOST;
    *attributes = (hipPointerAttribute_t){.type = is_managed ? hipMemoryTypeManaged
                                                  : host     ? hipMemoryTypeHost
                                                             : hipMemoryTypeDevice,
                                          .device = device,
                                          .devicePointer = (void *)(uintptr_t)pointer,
                                          .hostPointer = host || is_managed ? (void *)(uintptr_t)pointer : NULL,
                                          .isManaged = (int)is_managed};
    return hipSuccess;
}

static hipError_t device_pointer_of(void **device, void *pointer)
{
    CUdeviceptr address;
    hipError_t result = device ? cuMemHostGetDevicePointer_v2(&address, pointer, 0) : hipErrorInvalidValue;

    if (result == hipSuccess)
        *device = (void *)(uintptr_t)address;
    return result;
}

static hipError_t open_shared(void **pointer, hipIpcMemHandle_t handle, unsigned flags)
{
    CUipcMemHandle shared;
    CUdeviceptr address;

    __builtin_memcpy(&shared, &handle, sizeof shared);
    hipError_t result = pointer ? cuIpcOpenMemHandle_v2(&address, shared, flags) : hipErrorInvalidValue;
    if (result == hipSuccess)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

static hipError_t copy_bytes(void *to, const void *from, size_t bytes, hipMemcpyKind kind)
{
    if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault)
        return hipErrorInvalidMemcpyDirection;
    return bytes ? cuMemcpy(device_address(to), device_address(from), bytes) : hipSuccess;
}

static hipError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height)
{
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = device_address(from),
                          .srcPitch = from_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = device_address(to),
                          .dstPitch = to_pitch,
                          .WidthInBytes = width,
                          .Height = height};

    return width > to_pitch || width > from_pitch ? hipErrorInvalidPitchValue : cuMemcpy2D_v2(&rows);
}

static hipError_t fill_bytes(void *to, int value, size_t bytes)
{
    return bytes ? cuMemsetD8_v2(device_address(to), (unsigned char)value, bytes) : hipSuccess;
}

FAKE_HIP(hipMalloc, (void **pointer, size_t bytes), allocate_plain(pointer, bytes))
FAKE_HIP(hipExtMallocWithFlags, (void **pointer, size_t bytes, unsigned flags), allocate_flagged(pointer, bytes, flags))
FAKE_HIP(hipMallocManaged, (void **pointer, size_t bytes, unsigned flags), allocate_managed(pointer, bytes, flags))
FAKE_HIP(hipMallocPitch, (void **pointer, size_t *pitch, size_t width, size_t height),
         allocate_rows(pointer, pitch, width, height, 4))
FAKE_HIP(hipMemAllocPitch, (hipDeviceptr_t * pointer, size_t *pitch, size_t width, size_t height, unsigned element),
         (width && height) ? allocate_rows(pointer, pitch, width, height, element) : hipErrorInvalidValue)
FAKE_HIP(hipMalloc3D, (hipPitchedPtr * pointer, hipExtent extent), allocate_pitched(pointer, extent))
FAKE_HIP(hipFree, (void *pointer), release_pointer(pointer))
FAKE_HIP_QUERY(hipMemGetInfo, (size_t * free_bytes, size_t *total), free_and_total(free_bytes, total))
FAKE_HIP(hipMemPtrGetInfo, (void *pointer, size_t *size), size_of(pointer, size))
FAKE_HIP(hipMemGetAddressRange, (hipDeviceptr_t * base, size_t *size, hipDeviceptr_t pointer),
         range_of(base, size, pointer))
FAKE_HIP(hipPointerGetAttributes, (hipPointerAttribute_t * attributes, const void *pointer),
         describe_pointer(attributes, pointer))
FAKE_HIP(hipPointerGetAttribute, (void *data, hipPointer_attribute attribute, hipDeviceptr_t pointer),
         cuPointerGetAttribute(data, attribute, device_address(pointer)))

FAKE_HIP(hipHostMalloc, (void **pointer, size_t bytes, unsigned flags), cuMemHostAlloc(pointer, bytes, flags & 7))
FAKE_HIP(hipHostAlloc, (void **pointer, size_t bytes, unsigned flags), cuMemHostAlloc(pointer, bytes, flags & 7))
FAKE_HIP(hipMallocHost, (void **pointer, size_t bytes), cuMemHostAlloc(pointer, bytes, 0))
FAKE_HIP(hipMemAllocHost, (void **pointer, size_t bytes), cuMemHostAlloc(pointer, bytes, 0))
FAKE_HIP(hipHostFree, (void *pointer), pointer ? cuMemFreeHost(pointer) : hipSuccess)
FAKE_HIP(hipFreeHost, (void *pointer), pointer ? cuMemFreeHost(pointer) : hipSuccess)
FAKE_HIP(hipHostRegister, (void *pointer, size_t bytes, unsigned flags),
         cuMemHostRegister_v2(pointer, bytes, flags & 7))
FAKE_HIP(hipHostUnregister, (void *pointer), cuMemHostUnregister(pointer))
FAKE_HIP(hipHostGetDevicePointer, (void **device, void *pointer, unsigned flags),
         flags ? hipErrorInvalidValue : device_pointer_of(device, pointer))
FAKE_HIP(hipHostGetFlags, (unsigned *flags, void *pointer), cuMemHostGetFlags(flags, pointer))

FAKE_HIP(hipIpcGetMemHandle, (hipIpcMemHandle_t * handle, void *pointer),
         cuIpcGetMemHandle((CUipcMemHandle *)handle, device_address(pointer)))
FAKE_HIP(hipIpcOpenMemHandle, (void **pointer, hipIpcMemHandle_t handle, unsigned flags),
         open_shared(pointer, handle, flags))
FAKE_HIP(hipIpcCloseMemHandle, (void *pointer), cuIpcCloseMemHandle(device_address(pointer)))

FAKE_HIP(hipMemcpy, (void *to, const void *from, size_t bytes, hipMemcpyKind kind), copy_bytes(to, from, bytes, kind))
FAKE_HIP(hipMemcpy_spt, (void *to, const void *from, size_t bytes, hipMemcpyKind kind),
         copy_bytes(to, from, bytes, kind))
FAKE_HIP(hipMemcpyHtoD, (hipDeviceptr_t to, void *from, size_t bytes),
         copy_bytes(to, from, bytes, hipMemcpyHostToDevice))
FAKE_HIP(hipMemcpyDtoH, (void *to, hipDeviceptr_t from, size_t bytes),
         copy_bytes(to, from, bytes, hipMemcpyDeviceToHost))
FAKE_HIP(hipMemcpyDtoD, (hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes),
         copy_bytes(to, from, bytes, hipMemcpyDeviceToDevice))
FAKE_HIP(hipMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t bytes),
         to_device < 0 || from_device < 0 ? hipErrorInvalidDevice : copy_bytes(to, from, bytes, hipMemcpyDefault))
FAKE_HIP(hipMemcpy2D,
         (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
          hipMemcpyKind kind),
         kind > hipMemcpyDefault ? hipErrorInvalidMemcpyDirection
                                 : copy_rows(to, to_pitch, from, from_pitch, width, height))
FAKE_HIP(hipMemset, (void *to, int value, size_t bytes), fill_bytes(to, value, bytes))
FAKE_HIP(hipMemset_spt, (void *to, int value, size_t bytes), fill_bytes(to, value, bytes))
FAKE_HIP(hipMemset2D, (void *to, size_t pitch, int value, size_t width, size_t height),
         cuMemsetD2D8_v2(device_address(to), pitch, (unsigned char)value, width, height))
FAKE_HIP(hipMemsetD8, (hipDeviceptr_t to, unsigned char value, size_t count),
         cuMemsetD8_v2(device_address(to), value, count))
FAKE_HIP(hipMemsetD16, (hipDeviceptr_t to, unsigned short value, size_t count),
         cuMemsetD16_v2(device_address(to), value, count))
FAKE_HIP(hipMemsetD32, (hipDeviceptr_t to, int value, size_t count),
         cuMemsetD32_v2(device_address(to), (unsigned)value, count))
