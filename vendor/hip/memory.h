/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime's memory: plain, pitched, arrays, managed, pools, virtual, shared; copies and fills that wait.
 *
 * Owns: declarations, as vendor/hip/runtime.h says. Copies and fills in stream order are in vendor/hip/execution.h.
 */
#ifndef VENDOR_HIP_MEMORY_H
#define VENDOR_HIP_MEMORY_H

#include "vendor/hip/runtime.h"

typedef struct hipArray *hipArray_t;
typedef struct hipMipmappedArray *hipMipmappedArray_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct ihipMemGenericAllocationHandle *hipMemGenericAllocationHandle_t;

/* Flags of hipExtMallocWithFlags, hipMallocManaged, hipHostMalloc. */
enum {
    hipDeviceMallocDefault = 0,
    hipDeviceMallocFinegrained = 1,
    hipMallocSignalMemory = 2, /* 8 bytes, of the host */
    hipDeviceMallocUncached = 3,
    hipDeviceMallocContiguous = 4,
};
enum { hipMemAttachGlobal = 1, hipMemAttachHost = 2, hipMemAttachSingle = 4 };
enum { hipHostMallocDefault = 0, hipHostMallocPortable = 1, hipHostMallocMapped = 2, hipHostMallocWriteCombined = 4 };

typedef struct hipExtent {
    size_t width, height, depth; /* width in bytes of linear memory, in elements of arrays */
} hipExtent;

typedef struct hipPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
} hipPitchedPtr;

typedef int hipMemcpyKind;
enum {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4,
};

/* Memory types of pointers. ROCm 5 numbered them from 0 (host), as in parentheses, and called the field memoryType. */
typedef int hipMemoryType;
enum {
    hipMemoryTypeUnregistered = 0,
    hipMemoryTypeHost = 1,   /* (0) */
    hipMemoryTypeDevice = 2, /* (1) */
    hipMemoryTypeManaged = 3,
    hipMemoryTypeArray = 10,   /* (2) */
    hipMemoryTypeUnified = 11, /* (3) */
};

typedef struct hipPointerAttribute_t {
    hipMemoryType type;
    int device;
    void *devicePointer, *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

typedef int hipPointer_attribute;
enum {
    HIP_POINTER_ATTRIBUTE_CONTEXT = 1,
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    HIP_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    HIP_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    HIP_POINTER_ATTRIBUTE_MAPPED = 13,
};

/* Arrays. */
typedef int hipArray_Format;
enum {
    HIP_AD_FORMAT_UNSIGNED_INT8 = 0x01,
    HIP_AD_FORMAT_UNSIGNED_INT16 = 0x02,
    HIP_AD_FORMAT_UNSIGNED_INT32 = 0x03,
    HIP_AD_FORMAT_SIGNED_INT8 = 0x08,
    HIP_AD_FORMAT_SIGNED_INT16 = 0x09,
    HIP_AD_FORMAT_SIGNED_INT32 = 0x0a,
    HIP_AD_FORMAT_HALF = 0x10,
    HIP_AD_FORMAT_FLOAT = 0x20,
};

typedef struct HIP_ARRAY_DESCRIPTOR {
    size_t Width, Height;
    hipArray_Format Format;
    unsigned NumChannels;
} HIP_ARRAY_DESCRIPTOR;

typedef struct HIP_ARRAY3D_DESCRIPTOR {
    size_t Width, Height, Depth; /* 0 where there is no such dimension */
    hipArray_Format Format;
    unsigned NumChannels;
    unsigned Flags;
} HIP_ARRAY3D_DESCRIPTOR;

/* Flags of arrays with three dimensions or levels. */
enum { hipArrayDefault = 0, hipArrayLayered = 1, hipArraySurfaceLoadStore = 2, hipArrayCubemap = 4 };

typedef int hipChannelFormatKind;
enum { hipChannelFormatKindSigned, hipChannelFormatKindUnsigned, hipChannelFormatKindFloat, hipChannelFormatKindNone };

typedef struct hipChannelFormatDesc {
    int x, y, z, w; /* bits of each channel */
    hipChannelFormatKind f;
} hipChannelFormatDesc;

/* Pools. */
typedef int hipMemPoolAttr;
enum {
    hipMemPoolReuseFollowEventDependencies = 1,
    hipMemPoolReuseAllowOpportunistic = 2,
    hipMemPoolReuseAllowInternalDependencies = 3,
    hipMemPoolAttrReleaseThreshold = 4,
    hipMemPoolAttrReservedMemCurrent = 5,
    hipMemPoolAttrReservedMemHigh = 6,
    hipMemPoolAttrUsedMemCurrent = 7,
    hipMemPoolAttrUsedMemHigh = 8,
};

typedef int hipMemLocationType;
enum { hipMemLocationTypeInvalid = 0, hipMemLocationTypeDevice = 1, hipMemLocationTypeHost = 2 };

typedef struct hipMemLocation {
    hipMemLocationType type;
    int id;
} hipMemLocation;

typedef int hipMemAccessFlags;
enum { hipMemAccessFlagsProtNone = 0, hipMemAccessFlagsProtRead = 1, hipMemAccessFlagsProtReadWrite = 3 };

typedef struct hipMemAccessDesc {
    hipMemLocation location;
    hipMemAccessFlags flags;
} hipMemAccessDesc;

typedef int hipMemAllocationType;
enum {
    hipMemAllocationTypeInvalid = 0,
    hipMemAllocationTypePinned = 1,
    hipMemAllocationTypeManaged = 2,
    hipMemAllocationTypeUncached = 0x40000000,
};

typedef int hipMemAllocationHandleType;
enum { hipMemHandleTypeNone = 0, hipMemHandleTypePosixFileDescriptor = 1 };

typedef struct hipMemPoolProps {
    hipMemAllocationType allocType;
    hipMemAllocationHandleType handleTypes;
    hipMemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned char reserved[56];
} hipMemPoolProps;

typedef struct hipMemPoolPtrExportData {
    unsigned char reserved[64];
} hipMemPoolPtrExportData;

/* Virtual memory. Before ROCm 5.5 the fields stood in another order, and the calls were not supported. */
typedef struct hipMemAllocationProp {
    hipMemAllocationType type;
    hipMemAllocationHandleType requestedHandleTypes;
    hipMemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
    } allocFlags;
} hipMemAllocationProp;

typedef int hipMemAllocationGranularity_flags;
enum { hipMemAllocationGranularityMinimum = 0, hipMemAllocationGranularityRecommended = 1 };

typedef struct hipIpcMemHandle_st {
    char reserved[64];
} hipIpcMemHandle_t;

/* Reports. */
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipMemPtrGetInfo(void *pointer, size_t *size);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t pointer);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *pointer);
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t pointer);

/* Plain, pitched, managed. hipFree takes pointers from any of them, and from hipMallocAsync. */
hipError_t hipMalloc(void **pointer, size_t bytes);
hipError_t hipExtMallocWithFlags(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocManaged(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);
hipError_t hipMemAllocPitch(hipDeviceptr_t *pointer, size_t *pitch, size_t width, size_t height, unsigned element);
hipError_t hipMalloc3D(hipPitchedPtr *pointer, hipExtent extent);
hipError_t hipFree(void *pointer);

/* Memory of the host. */
hipError_t hipHostMalloc(void **pointer, size_t bytes, unsigned flags);
hipError_t hipHostAlloc(void **pointer, size_t bytes, unsigned flags);
hipError_t hipMallocHost(void **pointer, size_t bytes);
hipError_t hipMemAllocHost(void **pointer, size_t bytes);
hipError_t hipHostFree(void *pointer);
hipError_t hipFreeHost(void *pointer);
hipError_t hipHostRegister(void *pointer, size_t bytes, unsigned flags);
hipError_t hipHostUnregister(void *pointer);
hipError_t hipHostGetDevicePointer(void **device, void *pointer, unsigned flags);
hipError_t hipHostGetFlags(unsigned *flags, void *pointer);

/* Ordered by streams, from pools. */
hipError_t hipMallocAsync(void **pointer, size_t bytes, hipStream_t stream);
hipError_t hipMallocFromPoolAsync(void **pointer, size_t bytes, hipMemPool_t pool, hipStream_t stream);
hipError_t hipFreeAsync(void *pointer, hipStream_t stream);
hipError_t hipMemPoolCreate(hipMemPool_t *pool, const hipMemPoolProps *properties);
hipError_t hipMemPoolDestroy(hipMemPool_t pool);
hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t keep);
hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void *value);
hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc *list, size_t count);
hipError_t hipMemPoolGetAccess(hipMemAccessFlags *flags, hipMemPool_t pool, hipMemLocation *location);
hipError_t hipMemPoolExportToShareableHandle(void *shared, hipMemPool_t pool, hipMemAllocationHandleType type,
                                             unsigned flags);
hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t *pool, void *shared, hipMemAllocationHandleType type,
                                               unsigned flags);
hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData *data, void *pointer);
hipError_t hipMemPoolImportPointer(void **pointer, hipMemPool_t pool, hipMemPoolPtrExportData *data);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceGetMemPool(hipMemPool_t *pool, int device);
hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool);

/* Addresses and memory apart. A handle and each mapping hold the memory; it is freed when the last of them goes. */
hipError_t hipMemAddressReserve(void **pointer, size_t bytes, size_t alignment, void *wish, unsigned long long flags);
hipError_t hipMemAddressFree(void *pointer, size_t bytes);
hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *handle, size_t bytes, const hipMemAllocationProp *properties,
                        unsigned long long flags);
hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle);
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *handle, void *address);
hipError_t hipMemMap(void *pointer, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags);
hipError_t hipMemUnmap(void *pointer, size_t bytes);
hipError_t hipMemSetAccess(void *pointer, size_t bytes, const hipMemAccessDesc *list, size_t count);
hipError_t hipMemGetAccess(unsigned long long *flags, const hipMemLocation *location, void *pointer);
hipError_t hipMemGetAllocationGranularity(size_t *bytes, const hipMemAllocationProp *properties,
                                          hipMemAllocationGranularity_flags option);
hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp *properties,
                                                   hipMemGenericAllocationHandle_t handle);
hipError_t hipMemExportToShareableHandle(void *shared, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags);
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *handle, void *shared,
                                           hipMemAllocationHandleType type);

/* Sharing between processes, the older way. */
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *pointer);
hipError_t hipIpcOpenMemHandle(void **pointer, hipIpcMemHandle_t handle, unsigned flags);
hipError_t hipIpcCloseMemHandle(void *pointer);

/* Arrays. */
hipError_t hipMallocArray(hipArray_t *array, const hipChannelFormatDesc *channels, size_t width, size_t height,
                          unsigned flags);
hipError_t hipMalloc3DArray(hipArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent, unsigned flags);
hipError_t hipArrayCreate(hipArray_t *array, const HIP_ARRAY_DESCRIPTOR *descriptor);
hipError_t hipArray3DCreate(hipArray_t *array, const HIP_ARRAY3D_DESCRIPTOR *descriptor);
hipError_t hipFreeArray(hipArray_t array);
hipError_t hipArrayDestroy(hipArray_t array);
hipError_t hipArrayGetDescriptor(HIP_ARRAY_DESCRIPTOR *descriptor, hipArray_t array);
hipError_t hipArray3DGetDescriptor(HIP_ARRAY3D_DESCRIPTOR *descriptor, hipArray_t array);
hipError_t hipMallocMipmappedArray(hipMipmappedArray_t *array, const hipChannelFormatDesc *channels, hipExtent extent,
                                   unsigned levels, unsigned flags);
hipError_t hipMipmappedArrayCreate(hipMipmappedArray_t *array, HIP_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels);
hipError_t hipFreeMipmappedArray(hipMipmappedArray_t array);
hipError_t hipMipmappedArrayDestroy(hipMipmappedArray_t array);
hipError_t hipGetMipmappedArrayLevel(hipArray_t *level, hipMipmappedArray_t array, unsigned index);
hipError_t hipMipmappedArrayGetLevel(hipArray_t *level, hipMipmappedArray_t array, unsigned index);

/* Copies and fills that wait until they are done. The forms with _spt are of the thread's own default stream. */
hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpy_spt(void *to, const void *from, size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyHtoD(hipDeviceptr_t to, void *from, size_t bytes);
hipError_t hipMemcpyDtoH(void *to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyDtoD(hipDeviceptr_t to, hipDeviceptr_t from, size_t bytes);
hipError_t hipMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes);
hipError_t hipMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                       hipMemcpyKind kind);
hipError_t hipMemset(void *to, int value, size_t bytes);
hipError_t hipMemset_spt(void *to, int value, size_t bytes);
hipError_t hipMemset2D(void *to, size_t pitch, int value, size_t width, size_t height);
hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count);
hipError_t hipMemsetD16(hipDeviceptr_t to, unsigned short value, size_t count);
hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count);

#endif
