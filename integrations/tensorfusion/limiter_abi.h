/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFusion's limiter ABI: the functions that its hooks and its hypervisor call to admit work.
 *
 * Owns: names and layouts of that ABI, in Facet's own words; static asserts check the layouts.
 * Never: adds to that ABI.
 *
 * The ABI leaves some points open, which this facade decides:
 *  - a token of compute is one microsecond of device time;
 *  - a process id is a pid in decimal; LimiterRegisterPID() or AddWorkerProcess() puts the process into a worker;
 *  - a worker's id is "namespace/pod", or the pod alone if only one namespace has a pod of this name;
 *  - after AutoFreeze() a resource freezes whenever it was not used for FACET_TENSORFUSION_IDLE_MS milliseconds
 *    (default: one minute), and the next use resumes it.
 */
#ifndef FACET_TENSORFUSION_LIMITER_ABI_H
#define FACET_TENSORFUSION_LIMITER_ABI_H

#include "accelerator_abi.h"

typedef struct {
    char deviceUUID[UUID_STRING_LENGTH];
    int64_t bytesDiff;
    bool shouldBlock; /* nothing was recorded: the caller must not go on */
    uint64_t availableBytes;
} MemoryOpRecord;

typedef struct {
    char deviceUUID[UUID_STRING_LENGTH];
    uint64_t computeTokens;
    bool shouldBlock;
    uint64_t availableTokens;
} ComputeOpRecord;

typedef struct {
    char workerId[64];
    bool isFrozen;
    uint64_t freezeTimeMs; /* when the freeze began, in ms since 1970; 0 when not frozen */
} WorkerFreezeState;

typedef struct {
    uint32_t deviceIdx;
    char deviceUUID[UUID_STRING_LENGTH];
    uint32_t upLimit;  /* percent of the device; 0: no limit */
    uint64_t memLimit; /* bytes; 0: all of the device's memory */
    uint32_t totalCudaCores;
} LimiterDeviceConfig;

/* Functions for hooks. */
ACCEL_API AccelResult CheckAndRecordMemoryOps(const char *processId, const char *deviceUUID, int64_t bytesDiff,
                                              MemoryOpRecord *record);
ACCEL_API AccelResult CheckAndRecordComputeOps(const char *processId, const char *deviceUUID, uint64_t computeTokens,
                                               ComputeOpRecord *record);
ACCEL_API AccelResult FreezeWorker(const char *workerId, WorkerFreezeState *state);
ACCEL_API AccelResult ResumeWorker(const char *workerId, WorkerFreezeState *state);
ACCEL_API AccelResult AutoFreeze(const char *workerId, const char *deviceUUID, const char *resourceType);
ACCEL_API AccelResult AutoResume(const char *workerId, const char *deviceUUID, const char *resourceType);
ACCEL_API AccelResult AddWorkerProcess(const char *deviceUUID, const char *processId);

/* Functions for the hypervisor. */
ACCEL_API AccelResult LimiterInit(const char *shmBasePath);
ACCEL_API AccelResult LimiterShutdown(void);
ACCEL_API AccelResult LimiterCreateWorker(const char *space, const char *podName, const LimiterDeviceConfig *configs,
                                          size_t configCount);
ACCEL_API AccelResult LimiterRemoveWorker(const char *space, const char *podName);
ACCEL_API AccelResult LimiterRegisterPID(const char *space, const char *podName, uint32_t hostPID);
ACCEL_API AccelResult LimiterUpdateERL(const char *space, const char *podName, uint32_t deviceIdx, uint32_t upLimit,
                                       double utilizationPercent, uint64_t timestampMicros);
ACCEL_API AccelResult LimiterUpdateHeartbeat(const char *space, const char *podName, uint64_t timestampSecs);
ACCEL_API AccelResult LimiterSetPodMemoryUsed(const char *space, const char *podName, uint32_t deviceIdx,
                                              uint64_t memoryUsed);

TF_SIZE(MemoryOpRecord, 88);
TF_OFFSET(MemoryOpRecord, bytesDiff, 64);
TF_OFFSET(MemoryOpRecord, shouldBlock, 72);
TF_OFFSET(MemoryOpRecord, availableBytes, 80);
TF_SIZE(ComputeOpRecord, 88);
TF_OFFSET(ComputeOpRecord, computeTokens, 64);
TF_OFFSET(ComputeOpRecord, shouldBlock, 72);
TF_OFFSET(ComputeOpRecord, availableTokens, 80);
TF_SIZE(WorkerFreezeState, 80);
TF_OFFSET(WorkerFreezeState, isFrozen, 64);
TF_OFFSET(WorkerFreezeState, freezeTimeMs, 72);
TF_SIZE(LimiterDeviceConfig, 88);
TF_OFFSET(LimiterDeviceConfig, deviceUUID, 4);
TF_OFFSET(LimiterDeviceConfig, upLimit, 68);
TF_OFFSET(LimiterDeviceConfig, memLimit, 72);
TF_OFFSET(LimiterDeviceConfig, totalCudaCores, 80);

#endif
