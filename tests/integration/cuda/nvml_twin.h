/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A monitor in a vGPU, whose calls go to the twin (Facet's libnvidia-ml.so.1, interpose/nvml), and tenants of that
 * vGPU.
 *
 * Owns: running each scenario in a child process, because the twin reads its variables only once.
 * Never: is installed.
 */
#ifndef FACET_TEST_NVML_TWIN_H
#define FACET_TEST_NVML_TWIN_H

#include "nvml_machine.h"
#include "segment.h"
#include "vendor/cuda/nvml.h"
#include "vendor/cuda/nvml_mig.h"

#define MIB      (UINT64_C(1) << 20)
#define GIB      (UINT64_C(1) << 30)
#define RESERVED (4 * MIB) /* of each device's memory, by the fake driver */

/* A tenant: its memory as the machine reports it and as the limiter counts it, and whether it keeps its device busy. */
struct test_tenant {
    const struct test_segment *vgpu;
    uint32_t device;
    uint64_t machine_bytes, counted_bytes;
    bool works;
};
pid_t test_tenant(struct test_tenant tenant);

/* The functions that a monitor calls, by symbol. NULL where the library has none. */
struct test_nvml {
#define TEST_NVML(X)                                                                                                   \
    X(nvmlInit_v2)                                                                                                     \
    X(nvmlShutdown)                                                                                                    \
    X(nvmlErrorString)                                                                                                 \
    X(nvmlDeviceGetCount_v2)                                                                                           \
    X(nvmlDeviceGetHandleByIndex_v2)                                                                                   \
    X(nvmlDeviceGetHandleByUUID)                                                                                       \
    X(nvmlDeviceGetHandleByUUIDV)                                                                                      \
    X(nvmlDeviceGetHandleBySerial)                                                                                     \
    X(nvmlDeviceGetHandleByPciBusId_v2)                                                                                \
    X(nvmlDeviceGetIndex)                                                                                              \
    X(nvmlDeviceGetUUID)                                                                                               \
    X(nvmlDeviceGetTemperature)                                                                                        \
    X(nvmlDeviceGetTopologyNearestGpus)                                                                                \
    X(nvmlSystemGetTopologyGpuSet)                                                                                     \
    X(nvmlDeviceGetMemoryInfo)                                                                                         \
    X(nvmlDeviceGetMemoryInfo_v2)                                                                                      \
    X(nvmlDeviceGetComputeRunningProcesses)                                                                            \
    X(nvmlDeviceGetComputeRunningProcesses_v2)                                                                         \
    X(nvmlDeviceGetComputeRunningProcesses_v3)                                                                         \
    X(nvmlDeviceGetGraphicsRunningProcesses_v3)                                                                        \
    X(nvmlDeviceGetRunningProcessDetailList)                                                                           \
    X(nvmlDeviceGetProcessUtilization)                                                                                 \
    X(nvmlDeviceGetProcessesUtilizationInfo)                                                                           \
    X(nvmlDeviceGetUtilizationRates)                                                                                   \
    X(nvmlDeviceSetMigMode)                                                                                            \
    X(nvmlDeviceCreateGpuInstance)                                                                                     \
    X(nvmlGpuInstanceCreateComputeInstance)                                                                            \
    X(nvmlDeviceGetMigDeviceHandleByIndex)
#define TEST_FIELD(symbol) __typeof__(&symbol) symbol;
    TEST_NVML(TEST_FIELD)
#undef TEST_FIELD
};
extern struct test_nvml nvml;

/* Fills `nvml` from the library at a path. Returns the library's handle; prints the reason and returns NULL if it
 * cannot be opened. */
void *test_nvml_open(const char *path);

/* Runs `body` as a monitor in a child, with the twin opened and the library `real` behind it, in the vGPUs of the
 * segments `dirs` (NULL: in no vGPU). Returns true if all of its CHECKs held. */
bool test_monitor(const char *real, const char *dirs, void (*body)(void *context), void *context);

/* cmocka's assertions do not work in a child process, so a CHECK that fails ends it. */
void test_check(bool holds, const char *text, const char *file, int line);
#define CHECK(condition) test_check((condition), #condition, __FILE__, __LINE__)

/* The `index`-th device as the monitor sees it. */
nvmlDevice_t test_device(unsigned index);

#endif
