/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML, opened at run time.
 *
 * Owns: the table of its functions, and the translation of its results.
 * Never: treats a broken library as an absent one.
 */
#ifndef FACET_CUDA_LIBRARY_H
#define FACET_CUDA_LIBRARY_H

#include <facet/error.h>

#include "vendor/cuda/nvml.h"
#include "vendor/cuda/nvml_mig.h"

/* The library is useless if one of these is missing. */
#define CUDA_NVML_NEEDED(X)                                                                                            \
    X(nvmlInit_v2)                                                                                                     \
    X(nvmlShutdown)                                                                                                    \
    X(nvmlDeviceGetCount_v2)                                                                                           \
    X(nvmlDeviceGetHandleByIndex_v2)                                                                                   \
    X(nvmlDeviceGetUUID)                                                                                               \
    X(nvmlDeviceGetName)                                                                                               \
    X(nvmlDeviceGetMemoryInfo)

/* Functions that may be missing: NULL where the installed library lacks one. */
#define CUDA_NVML_OPTIONAL(X)                                                                                          \
    X(nvmlErrorString)                                                                                                 \
    X(nvmlSystemGetDriverVersion)                                                                                      \
    X(nvmlDeviceGetMinorNumber)                                                                                        \
    X(nvmlDeviceGetSerial)                                                                                             \
    X(nvmlDeviceGetMemoryInfo_v2)                                                                                      \
    X(nvmlDeviceGetPciInfo_v3)                                                                                         \
    X(nvmlDeviceGetCudaComputeCapability)                                                                              \
    X(nvmlDeviceGetMaxPcieLinkGeneration)                                                                              \
    X(nvmlDeviceGetMaxPcieLinkWidth)                                                                                   \
    X(nvmlDeviceGetMaxClockInfo)                                                                                       \
    X(nvmlDeviceGetClockInfo)                                                                                          \
    X(nvmlDeviceGetCurrentClocksThrottleReasons)                                                                       \
    X(nvmlDeviceGetPowerUsage)                                                                                         \
    X(nvmlDeviceGetPowerManagementLimit)                                                                               \
    X(nvmlDeviceGetTotalEnergyConsumption)                                                                             \
    X(nvmlDeviceGetTemperature)                                                                                        \
    X(nvmlDeviceGetTemperatureThreshold)                                                                               \
    X(nvmlDeviceGetEncoderUtilization)                                                                                 \
    X(nvmlDeviceGetDecoderUtilization)                                                                                 \
    X(nvmlDeviceGetPersistenceMode)                                                                                    \
    X(nvmlDeviceGetEccMode)                                                                                            \
    X(nvmlDeviceGetTotalEccErrors)                                                                                     \
    X(nvmlDeviceGetRemappedRows)                                                                                       \
    X(nvmlDeviceGetComputeRunningProcesses_v2)                                                                         \
    X(nvmlDeviceGetComputeRunningProcesses_v3)                                                                         \
    X(nvmlDeviceGetProcessUtilization)                                                                                 \
    X(nvmlDeviceGetTopologyCommonAncestor)                                                                             \
    X(nvmlDeviceGetPcieReplayCounter)                                                                                  \
    X(nvmlDeviceGetFieldValues)                                                                                        \
    X(nvmlDeviceGetNvLinkErrorCounter)                                                                                 \
    X(nvmlDeviceGetNvLinkState)                                                                                        \
    X(nvmlDeviceGetNvLinkRemotePciInfo_v2)                                                                             \
    X(nvmlEventSetCreate)                                                                                              \
    X(nvmlEventSetFree)                                                                                                \
    X(nvmlEventSetWait_v2)                                                                                             \
    X(nvmlDeviceRegisterEvents)                                                                                        \
    X(nvmlDeviceGetMigMode)                                                                                            \
    X(nvmlDeviceGetGpuInstanceProfileInfo)                                                                             \
    X(nvmlDeviceGetGpuInstanceProfileInfoV)                                                                            \
    X(nvmlDeviceGetGpuInstancePossiblePlacements_v2)                                                                   \
    X(nvmlDeviceGetGpuInstanceRemainingCapacity)                                                                       \
    X(nvmlDeviceCreateGpuInstanceWithPlacement)                                                                        \
    X(nvmlGpuInstanceDestroy)                                                                                          \
    X(nvmlDeviceGetGpuInstances)                                                                                       \
    X(nvmlGpuInstanceGetInfo)                                                                                          \
    X(nvmlGpuInstanceGetComputeInstanceProfileInfo)                                                                    \
    X(nvmlGpuInstanceCreateComputeInstance)                                                                            \
    X(nvmlGpuInstanceGetComputeInstances)                                                                              \
    X(nvmlComputeInstanceDestroy)                                                                                      \
    X(nvmlDeviceGetMaxMigDeviceCount)                                                                                  \
    X(nvmlDeviceGetMigDeviceHandleByIndex)                                                                             \
    X(nvmlDeviceGetGpuInstanceId)                                                                                      \
    X(nvmlDeviceGetComputeInstanceId)

struct cuda_nvml {
    void *library; /* NULL: there is none */
#define CUDA_FIELD(symbol) __typeof__(&symbol) symbol;
    CUDA_NVML_NEEDED(CUDA_FIELD)
    CUDA_NVML_OPTIONAL(CUDA_FIELD)
#undef CUDA_FIELD
};

/* A call of a function that may be missing: CUDA_NVML(nvml, nvmlDeviceGetPowerUsage, handle, &milliwatts). */
#define CUDA_NVML(nvml, symbol, ...)                                                                                   \
    ((nvml)->symbol ? (nvml)->symbol(__VA_ARGS__) : (nvmlReturn_t)NVML_ERROR_FUNCTION_NOT_FOUND)

/*
 * FACET_OK with `library` NULL when NVML is not installed. FACET_IO, FACET_ABI_MISMATCH: it is installed and cannot be
 * used.
 */
enum facet_status cuda_nvml_open(struct cuda_nvml *ret_nvml, struct facet_error *error);
void cuda_nvml_close(struct cuda_nvml *nvml);

enum facet_status cuda_nvml_status(nvmlReturn_t result);
enum facet_status cuda_nvml_fail(const struct cuda_nvml *nvml, struct facet_error *error, const char *call,
                                 nvmlReturn_t result);

#endif
