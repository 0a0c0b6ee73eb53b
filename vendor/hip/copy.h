/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HIP runtime's copies and fills of rows, boxes, arrays, symbols and batches; moving managed memory.
 *
 * Owns: declarations, as vendor/hip/runtime.h says. Of HIP_MEMCPY3D, of hipDrvMemcpy3D, only the name is here: releases
 * differ in it.
 */
#ifndef VENDOR_HIP_COPY_H
#define VENDOR_HIP_COPY_H

#include "vendor/hip/execution.h"

typedef struct HIP_MEMCPY3D HIP_MEMCPY3D;

typedef struct hipPos {
    size_t x, y, z;
} hipPos;

typedef struct hipMemcpy3DParms {
    hipArray_t srcArray;
    hipPos srcPos;
    hipPitchedPtr srcPtr;
    hipArray_t dstArray;
    hipPos dstPos;
    hipPitchedPtr dstPtr;
    hipExtent extent; /* in elements where there is an array, else in bytes */
    hipMemcpyKind kind;
} hipMemcpy3DParms;

typedef struct hipMemcpy3DPeerParms {
    hipArray_t srcArray;
    hipPos srcPos;
    hipPitchedPtr srcPtr;
    int srcDevice;
    hipArray_t dstArray;
    hipPos dstPos;
    hipPitchedPtr dstPtr;
    int dstDevice;
    hipExtent extent;
} hipMemcpy3DPeerParms;

typedef struct hip_Memcpy2D {
    size_t srcXInBytes, srcY;
    hipMemoryType srcMemoryType;
    const void *srcHost;
    hipDeviceptr_t srcDevice;
    hipArray_t srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    hipMemoryType dstMemoryType;
    void *dstHost;
    hipDeviceptr_t dstDevice;
    hipArray_t dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} hip_Memcpy2D;

typedef struct hipMemcpyAttributes hipMemcpyAttributes; /* not read by Facet */

enum { hipMemcpyOperandTypePointer = 1, hipMemcpyOperandTypeArray = 2 };

typedef struct hipMemcpy3DOperand {
    int type;
    union {
        struct {
            void *ptr;
            size_t rowLength, layerHeight;
            hipMemLocation locHint;
        } ptr;
        struct {
            hipArray_t array;
            hipPos offset;
        } array;
    } op;
} hipMemcpy3DOperand;

typedef struct hipMemcpy3DBatchOp {
    hipMemcpy3DOperand src, dst;
    hipExtent extent;
    int srcAccessOrder;
    unsigned flags;
} hipMemcpy3DBatchOp;

/* The parameters of each call that has forms with and without a stream: VENDOR_HIP_ROWS, hipStream_t stream. */
#define VENDOR_HIP_ROWS                                                                                                \
    void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, hipMemcpyKind kind
#define VENDOR_HIP_ROWS_TO_ARRAY                                                                                       \
    hipArray_t to, size_t x, size_t y, const void *from, size_t from_pitch, size_t width, size_t height,               \
        hipMemcpyKind kind
#define VENDOR_HIP_ROWS_FROM_ARRAY                                                                                     \
    void *to, size_t to_pitch, hipArray_t from, size_t x, size_t y, size_t width, size_t height, hipMemcpyKind kind
#define VENDOR_HIP_TO_SYMBOL   const void *symbol, const void *from, size_t size, size_t offset, hipMemcpyKind kind
#define VENDOR_HIP_FROM_SYMBOL void *to, const void *symbol, size_t size, size_t offset, hipMemcpyKind kind
#define VENDOR_HIP_FILL_BOX    hipPitchedPtr to, int value, hipExtent extent

/* In stream order. */
VENDOR_HIP_BOTH(hipMemcpy2DAsync, VENDOR_HIP_ROWS, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpy2DToArrayAsync, VENDOR_HIP_ROWS_TO_ARRAY, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpy2DFromArrayAsync, VENDOR_HIP_ROWS_FROM_ARRAY, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpy3DAsync, const hipMemcpy3DParms *copy, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpyToSymbolAsync, VENDOR_HIP_TO_SYMBOL, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpyFromSymbolAsync, VENDOR_HIP_FROM_SYMBOL, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemset3DAsync, VENDOR_HIP_FILL_BOX, hipStream_t stream);
hipError_t hipMemcpy3DPeerAsync(hipMemcpy3DPeerParms *copy, hipStream_t stream);
hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *copy, hipStream_t stream);
hipError_t hipMemcpyAtoHAsync(void *to, hipArray_t from, size_t offset, size_t size, hipStream_t stream);
hipError_t hipMemcpyHtoAAsync(hipArray_t to, size_t offset, const void *from, size_t size, hipStream_t stream);
hipError_t hipMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t count, hipMemcpyAttributes *attributes,
                               size_t *indices, size_t attribute_count, size_t *wrong, hipStream_t stream);
hipError_t hipMemcpy3DBatchAsync(size_t count, hipMemcpy3DBatchOp *list, size_t *wrong, unsigned long long flags,
                                 hipStream_t stream);
hipError_t hipMemsetD2D8Async(hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height,
                              hipStream_t stream);
hipError_t hipMemsetD2D16Async(hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height,
                               hipStream_t stream);
hipError_t hipMemsetD2D32Async(hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height,
                               hipStream_t stream);
hipError_t hipMemPrefetchAsync(const void *pointer, size_t size, int device, hipStream_t stream);
hipError_t hipMemPrefetchAsync_v2(const void *pointer, size_t size, hipMemLocation location, unsigned flags,
                                  hipStream_t stream);

/* Without a stream. hipMemcpy2D and hipMemset2D are in vendor/hip/memory.h. */
hipError_t hipMemcpy2D_spt(VENDOR_HIP_ROWS);
VENDOR_HIP_BOTH(hipMemcpy2DToArray, VENDOR_HIP_ROWS_TO_ARRAY);
VENDOR_HIP_BOTH(hipMemcpy2DFromArray, VENDOR_HIP_ROWS_FROM_ARRAY);
hipError_t hipMemcpy2DArrayToArray(hipArray_t to, size_t to_x, size_t to_y, hipArray_t from, size_t from_x,
                                   size_t from_y, size_t width, size_t height, hipMemcpyKind kind);
VENDOR_HIP_BOTH(hipMemcpy3D, const hipMemcpy3DParms *copy);
hipError_t hipMemcpy3DPeer(hipMemcpy3DPeerParms *copy);
hipError_t hipMemcpyParam2D(const hip_Memcpy2D *copy);
hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *copy);
hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *copy);
hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *copy, hipStream_t stream);
VENDOR_HIP_BOTH(hipMemcpyToSymbol, VENDOR_HIP_TO_SYMBOL);
VENDOR_HIP_BOTH(hipMemcpyFromSymbol, VENDOR_HIP_FROM_SYMBOL);
hipError_t hipMemcpyAtoA(hipArray_t to, size_t to_offset, hipArray_t from, size_t from_offset, size_t size);
hipError_t hipMemcpyAtoD(hipDeviceptr_t to, hipArray_t from, size_t offset, size_t size);
hipError_t hipMemcpyAtoH(void *to, hipArray_t from, size_t offset, size_t size);
hipError_t hipMemcpyDtoA(hipArray_t to, size_t offset, hipDeviceptr_t from, size_t size);
hipError_t hipMemcpyHtoA(hipArray_t to, size_t offset, const void *from, size_t size);
hipError_t hipMemcpyToArray(hipArray_t to, size_t x, size_t y, const void *from, size_t size, hipMemcpyKind kind);
VENDOR_HIP_BOTH(hipMemcpyFromArray, void *to, hipArray_t from, size_t x, size_t y, size_t size, hipMemcpyKind kind);
hipError_t hipMemset2D_spt(void *to, size_t pitch, int value, size_t width, size_t height);
VENDOR_HIP_BOTH(hipMemset3D, VENDOR_HIP_FILL_BOX);
hipError_t hipMemsetD2D8(hipDeviceptr_t to, size_t pitch, unsigned char value, size_t width, size_t height);
hipError_t hipMemsetD2D16(hipDeviceptr_t to, size_t pitch, unsigned short value, size_t width, size_t height);
hipError_t hipMemsetD2D32(hipDeviceptr_t to, size_t pitch, unsigned value, size_t width, size_t height);

#endif
