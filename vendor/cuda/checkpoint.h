/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API's checkpoints of processes (driver 570 and newer): a process's memory and state on its devices
 * move to its own host memory, and back.
 *
 * Owns: declarations, as vendor/cuda/driver.h says. All arguments may be NULL, for the defaults; reserved fields are 0.
 */
#ifndef VENDOR_CUDA_CHECKPOINT_H
#define VENDOR_CUDA_CHECKPOINT_H

#include "vendor/cuda/driver.h"

/* An enumeration in the vendor's header; int here, as CUresult is. */
typedef int CUprocessState;
enum {
    CU_PROCESS_STATE_RUNNING = 0,
    CU_PROCESS_STATE_LOCKED = 1,
    CU_PROCESS_STATE_CHECKPOINTED = 2,
    CU_PROCESS_STATE_FAILED = 3,
};

typedef struct CUcheckpointLockArgs_st {
    unsigned timeoutMs; /* 0: none */
    unsigned reserved0;
    uint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct CUcheckpointCheckpointArgs_st {
    uint64_t reserved[8];
} CUcheckpointCheckpointArgs;

typedef struct CUcheckpointGpuPair_st {
    CUuuid oldUuid, newUuid;
} CUcheckpointGpuPair;

typedef struct CUcheckpointRestoreArgs_st {
    CUcheckpointGpuPair *gpuPairs;
    unsigned gpuPairsCount;
    char reserved[52 - sizeof(CUcheckpointGpuPair *)];
    uint64_t reserved1;
} CUcheckpointRestoreArgs;

typedef struct CUcheckpointUnlockArgs_st {
    uint64_t reserved[8];
} CUcheckpointUnlockArgs;

_Static_assert(sizeof(CUcheckpointLockArgs) == 64 && sizeof(CUcheckpointRestoreArgs) == 64, "the driver's own sizes");

CUresult cuCheckpointProcessGetRestoreThreadId(int pid, int *tid);
CUresult cuCheckpointProcessGetState(int pid, CUprocessState *state);
CUresult cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *arguments);
CUresult cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *arguments);
CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *arguments);
CUresult cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *arguments);

#endif
