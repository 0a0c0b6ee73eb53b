/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's ways to a part of a device's multiprocessors: green contexts, and contexts with execution
 * affinity.
 *
 * Owns: declarations, as vendor/cuda/driver.h says.
 */
#ifndef VENDOR_CUDA_GREEN_H
#define VENDOR_CUDA_GREEN_H

#include "vendor/cuda/driver.h"

typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;

/* Enumerations in the vendor's header; int here, as CUresult is. */
typedef int CUdevResourceType;
enum {
    CU_DEV_RESOURCE_TYPE_INVALID = 0,
    CU_DEV_RESOURCE_TYPE_SM = 1,
};

enum {
    CU_GREEN_CTX_DEFAULT_STREAM = 1, /* must be there */
};

enum {
    CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 1,
    CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE = 2,
};

enum {
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914,
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915,
};

typedef struct CUdevSmResource_st {
    unsigned smCount;
    unsigned minSmPartitionSize; /* these two: since 13.0; 0 before */
    unsigned smCoscheduledAlignment;
} CUdevSmResource;

/* Written by the driver alone: the padding says where it came from. */
typedef struct CUdevResource_st {
    CUdevResourceType type;
    unsigned char _internal_padding[92];
    union {
        CUdevSmResource sm;
        unsigned char _oversize[48];
    };
} CUdevResource;

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type);
CUresult cuGreenCtxGetDevResource(CUgreenCtx context, CUdevResource *resource, CUdevResourceType type);
CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *group_count, const CUdevResource *input,
                                     CUdevResource *remaining, unsigned flags, unsigned least);
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources, unsigned count);
CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device, unsigned flags);
CUresult cuGreenCtxDestroy(CUgreenCtx context);
CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green);
CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx context, unsigned flags, int priority);
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *context);

/* Execution affinity: of clients of MPS alone. */
enum {
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224,
};

typedef int CUexecAffinityType;
enum {
    CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0,
};

typedef struct CUexecAffinityParam_st {
    CUexecAffinityType type;
    union {
        struct {
            unsigned val;
        } smCount;
    } param;
} CUexecAffinityParam;

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device);
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type);

#endif
