/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of NVML's functions that have a hook. Every other function is passed through.
 *
 * Owns: the list, and the table of the library's own functions.
 * Never: names a function without a hook.
 *
 * A hook is named facet_<exported symbol>. The exported symbol itself is a jump (kit/forward.h): to the hook in a
 * tenant whose library has the function, else to the library. So a hook may call the library's function without
 * checking for NULL. FACET_NVML_PROCESS_LISTS are an exception: the library need not have every form of them. A program
 * that finds the newest form in our library does not fall back to an older form, so each hook calls the newest form
 * that the library has.
 */
#ifndef FACET_NVML_HOOKS_H
#define FACET_NVML_HOOKS_H

#include "vendor/cuda/nvml.h"
#include "vendor/cuda/nvml_mig.h"

#define FACET_NVML_PROCESS_LISTS(X)                                                                                    \
    X(nvmlDeviceGetComputeRunningProcesses)                                                                            \
    X(nvmlDeviceGetComputeRunningProcesses_v2)                                                                         \
    X(nvmlDeviceGetComputeRunningProcesses_v3)                                                                         \
    X(nvmlDeviceGetGraphicsRunningProcesses)                                                                           \
    X(nvmlDeviceGetGraphicsRunningProcesses_v2)                                                                        \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3)                                                                        \
    X(nvmlDeviceGetMPSComputeRunningProcesses)                                                                         \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v2)                                                                      \
    X(nvmlDeviceGetMPSComputeRunningProcesses_v3)

#define FACET_NVML_HOOKS(X)                                                                                            \
    /* device.c */                                                                                                     \
    X(nvmlInit)                                                                                                        \
    X(nvmlInit_v2)                                                                                                     \
    X(nvmlInitWithFlags)                                                                                               \
    X(nvmlDeviceGetCount)                                                                                              \
    X(nvmlDeviceGetCount_v2)                                                                                           \
    X(nvmlDeviceGetHandleByIndex)                                                                                      \
    X(nvmlDeviceGetHandleByIndex_v2)                                                                                   \
    X(nvmlDeviceGetHandleByUUID)                                                                                       \
    X(nvmlDeviceGetHandleByUUIDV)                                                                                      \
    X(nvmlDeviceGetHandleBySerial)                                                                                     \
    X(nvmlDeviceGetHandleByPciBusId)                                                                                   \
    X(nvmlDeviceGetHandleByPciBusId_v2)                                                                                \
    X(nvmlDeviceGetIndex)                                                                                              \
    X(nvmlDeviceGetTopologyNearestGpus)                                                                                \
    X(nvmlSystemGetTopologyGpuSet)                                                                                     \
    X(nvmlDeviceGetMigDeviceHandleByIndex)                                                                             \
    /* memory.c */                                                                                                     \
    X(nvmlDeviceGetMemoryInfo)                                                                                         \
    X(nvmlDeviceGetMemoryInfo_v2)                                                                                      \
    /* process.c */                                                                                                    \
    FACET_NVML_PROCESS_LISTS(X)                                                                                        \
    X(nvmlDeviceGetRunningProcessDetailList)                                                                           \
    X(nvmlDeviceGetAccountingPids)                                                                                     \
    /* utilization.c */                                                                                                \
    X(nvmlDeviceGetProcessUtilization)                                                                                 \
    X(nvmlDeviceGetProcessesUtilizationInfo)                                                                           \
    X(nvmlDeviceGetUtilizationRates)

/* Functions that hooks call and that have no hook. */
#define FACET_NVML_UNHOOKED(X)                                                                                         \
    X(nvmlShutdown)                                                                                                    \
    X(nvmlDeviceIsMigDeviceHandle)                                                                                     \
    X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)

#define FACET_NVML_DECLARE(symbol) __typeof__(symbol) facet_##symbol;
FACET_NVML_HOOKS(FACET_NVML_DECLARE)
#undef FACET_NVML_DECLARE

/* The library's own functions; filled before the first hook runs. NULL: the library lacks the function. */
struct facet_nvml_library {
#define FACET_NVML_FIELD(symbol) __typeof__(&symbol) symbol;
    FACET_NVML_HOOKS(FACET_NVML_FIELD)
    FACET_NVML_UNHOOKED(FACET_NVML_FIELD)
#undef FACET_NVML_FIELD
};
extern struct facet_nvml_library facet_nvml_library;

#endif
