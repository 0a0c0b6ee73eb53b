/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's copies of rows and boxes in stream order, batches of copies, and moving managed memory.
 *
 * Owns: declarations, as vendor/cuda/driver.h says.
 */
#ifndef VENDOR_CUDA_COPY_H
#define VENDOR_CUDA_COPY_H

#include "vendor/cuda/execution.h"
#include "vendor/cuda/memory.h"

typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    CUcontext srcContext;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    CUcontext dstContext;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER;

typedef struct CUextent3D_st {
    size_t width, height, depth; /* in elements */
} CUextent3D;

typedef struct CUoffset3D_st {
    size_t x, y, z;
} CUoffset3D;

typedef struct CUmemcpy3DOperand_st {
    int type;
    union {
        struct {
            CUdeviceptr ptr;
            size_t rowLength, layerHeight;
            CUmemLocation locHint;
        } ptr;
        struct {
            CUarray array;
            CUoffset3D offset;
        } array;
    } op;
} CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
    CUmemcpy3DOperand src, dst;
    CUextent3D extent;
    int srcAccessOrder;
    unsigned flags;
} CUDA_MEMCPY3D_BATCH_OP;

typedef struct CUmemcpyAttributes_st CUmemcpyAttributes; /* not read by Facet */

/* One of a batch; dstNumBytes may be 0. */
typedef struct CUmemDecompressParams_st {
    size_t srcNumBytes, dstNumBytes;
    unsigned *dstActBytes;
    const void *src;
    void *dst;
    int algo;
    unsigned char padding[20];
} CUmemDecompressParams;

/* Without a stream: of the legacy default one, or (_ptds) of the thread's own. */
#define VENDOR_CUDA_WAITED(name, ...)                                                                                  \
    CUresult name(__VA_ARGS__);                                                                                        \
    CUresult name##_ptds(__VA_ARGS__)
VENDOR_CUDA_WAITED(cuMemcpyDtoA_v2, CUarray to, size_t offset, CUdeviceptr from, size_t bytes);
VENDOR_CUDA_WAITED(cuMemcpyAtoD_v2, CUdeviceptr to, CUarray from, size_t offset, size_t bytes);
VENDOR_CUDA_WAITED(cuMemcpyAtoA_v2, CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes);
VENDOR_CUDA_WAITED(cuMemcpy3D_v2, const CUDA_MEMCPY3D *copy);
VENDOR_CUDA_WAITED(cuMemcpy3DPeer, const CUDA_MEMCPY3D_PEER *copy);
VENDOR_CUDA_WAITED(cuMemsetD2D16_v2, CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height);
VENDOR_CUDA_WAITED(cuMemsetD2D32_v2, CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height);

VENDOR_CUDA_BOTH(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D *copy, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpy3DAsync_v2, const CUDA_MEMCPY3D *copy, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpy3DPeerAsync, const CUDA_MEMCPY3D_PEER *copy, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpyHtoAAsync_v2, CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpyAtoHAsync_v2, void *to, CUarray from, size_t offset, size_t bytes, CUstream stream);

/* The form of 12.8 says which copy was wrong. */
VENDOR_CUDA_BOTH(cuMemcpyBatchAsync, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                 CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count, size_t *wrong,
                 CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpyBatchAsync_v2, CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                 CUmemcpyAttributes *attributes, size_t *indices, size_t attribute_count, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpy3DBatchAsync, size_t count, CUDA_MEMCPY3D_BATCH_OP *list, size_t *wrong,
                 unsigned long long flags, CUstream stream);
VENDOR_CUDA_BOTH(cuMemcpy3DBatchAsync_v2, size_t count, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags,
                 CUstream stream);

VENDOR_CUDA_BOTH(cuMemBatchDecompressAsync, CUmemDecompressParams *list, size_t count, unsigned flags, size_t *wrong,
                 CUstream stream);

VENDOR_CUDA_BOTH(cuMemPrefetchAsync, CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream);
VENDOR_CUDA_BOTH(cuMemPrefetchAsync_v2, CUdeviceptr pointer, size_t bytes, CUmemLocation location, unsigned flags,
                 CUstream stream);
VENDOR_CUDA_BOTH(cuMemPrefetchBatchAsync, CUdeviceptr *pointers, size_t *sizes, size_t count, CUmemLocation *locations,
                 size_t *indices, size_t location_count, unsigned long long flags, CUstream stream);
VENDOR_CUDA_BOTH(cuMemDiscardAndPrefetchBatchAsync, CUdeviceptr *pointers, size_t *sizes, size_t count,
                 CUmemLocation *locations, size_t *indices, size_t location_count, unsigned long long flags,
                 CUstream stream);

#endif
