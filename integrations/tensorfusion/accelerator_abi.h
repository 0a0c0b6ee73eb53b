/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TensorFusion's accelerator ABI, as its hypervisor finds it with dlsym: fifteen functions and their structs.
 *
 * Owns: names, layouts and numbers of that ABI, declared in our own words; static asserts check the layouts.
 * Never: adds to that ABI. It has no version, so the hypervisor would misread a struct of another size.
 *
 * Strings end with NUL inside their arrays. The caller owns every buffer.
 */
#ifndef FACET_TENSORFUSION_ACCELERATOR_ABI_H
#define FACET_TENSORFUSION_ACCELERATOR_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ACCEL_API __attribute__((visibility("default")))

#define MAX_DEVICE_PROPERTIES            64
#define MAX_TOPOLOGY_DEVICES             64
#define MAX_PROCESSES                    1024
#define MAX_EXTRA_METRICS                64
#define MAX_PARTITION_ENVS               16
#define MAX_ENV_VALUE_LENGTH             256
#define MAX_PARTITION_DEVICE_NODES       16
#define MAX_PARTITION_DEVICE_NODE_LENGTH 1026
#define MAX_MOUNT_PATH                   512
#define UUID_STRING_LENGTH               64

typedef enum {
    ACCEL_SUCCESS = 0,
    ACCEL_ERROR_INVALID_PARAM = 1,
    ACCEL_ERROR_NOT_FOUND = 2,
    ACCEL_ERROR_NOT_SUPPORTED = 3,
    ACCEL_ERROR_RESOURCE_EXHAUSTED = 4,
    ACCEL_ERROR_OPERATION_FAILED = 5,
    ACCEL_ERROR_INTERNAL = 6,
} AccelResult;

typedef struct {
    bool supportsPartitioning, supportsSoftIsolation, supportsHardIsolation;
    bool supportsSnapshot, supportsMetrics, supportsRemoting;
    uint32_t maxPartitions;
    uint32_t maxWorkersPerDevice;
} VirtualizationCapabilities;

typedef struct {
    char uuid[UUID_STRING_LENGTH];
    char vendor[32];
    char model[128];
    char driverVersion[80];
    char firmwareVersion[64];
    char deviceNode[64];
    int32_t index;
    int32_t numaNode; /* -1: none */
    uint64_t totalMemoryBytes;
    uint64_t totalComputeUnits;
    double maxTflops;
    uint32_t pcieGen;
    uint32_t pcieWidth;
} DeviceBasicInfo;

typedef struct {
    char key[64];
    char value[256];
} DevicePropertyKV;

typedef struct {
    DevicePropertyKV properties[MAX_DEVICE_PROPERTIES];
    size_t count;
} DeviceProperties;

typedef struct {
    DeviceBasicInfo basic;
    DeviceProperties props;
    VirtualizationCapabilities virtualizationCapabilities;
} ExtendedDeviceInfo;

/* Part of TensorFusion's header, but no function uses it any more. */
typedef struct {
    char templateId[64];
    char name[128];
    uint64_t memoryBytes;
    uint64_t computeUnits;
    double tflops;
    uint32_t sliceCount;
    bool isDefault;
    char description[256];
} PartitionTemplate;

typedef enum {
    TOPO_LEVEL_INTERNAL = 0,
    TOPO_LEVEL_SINGLE_SWITCH = 1,
    TOPO_LEVEL_MULTI_SWITCH = 2,
    TOPO_LEVEL_HOST_BRIDGE = 3,
    TOPO_LEVEL_NUMA_NODE = 4,
    TOPO_LEVEL_SYSTEM = 5,
    TOPO_LEVEL_SELF = 6,
    TOPO_LEVEL_UNKNOWN = 7,
} TopoLevelType;

typedef struct {
    char peerUUID[UUID_STRING_LENGTH];
    int32_t peerIndex;
    TopoLevelType topoLevel;
} DeviceTopoNode;

typedef struct {
    char deviceUUID[UUID_STRING_LENGTH];
    int32_t deviceIndex;
    int32_t numaNode;
    DeviceTopoNode peers[MAX_TOPOLOGY_DEVICES];
    size_t peerCount;
} DeviceTopologyInfo;

typedef struct {
    DeviceTopologyInfo devices[MAX_TOPOLOGY_DEVICES];
    size_t deviceCount;
} ExtendedDeviceTopology;

/* Names either processes or a device. The pointers are valid only during the call. */
typedef struct {
    pid_t *processIds;
    size_t processCount;
    const char *deviceUUID;
} SnapshotContext;

typedef struct {
    char key[64];
    double value;
} ExtraMetric;

typedef struct {
    char processId[32]; /* the pid in decimal */
    char deviceUUID[UUID_STRING_LENGTH];
    double computeUtilizationPercent;
    uint64_t activeSMs;
    uint64_t totalSMs;
    uint64_t memoryUsedBytes;
    uint64_t memoryReservedBytes;
    double memoryUtilizationPercent;
} ProcessInformation;

typedef struct {
    char deviceUUID[UUID_STRING_LENGTH];
    double powerUsageWatts;
    double temperatureCelsius;
    uint64_t pcieRxBytes;
    uint64_t pcieTxBytes;
    uint32_t utilizationPercent;
    uint64_t memoryUsedBytes;
    ExtraMetric extraMetrics[MAX_EXTRA_METRICS];
    size_t extraMetricsCount;
} DeviceMetrics;

typedef struct {
    char hostPath[MAX_MOUNT_PATH];
    char guestPath[MAX_MOUNT_PATH];
} MountPath;

typedef enum {
    PARTITION_TYPE_ENVIRONMENT_VARIABLE = 0,
    PARTITION_TYPE_DEVICE_NODE = 1,
} PartitionResultType;

/* An entry that is an empty string is not used; the arrays have no counts. */
typedef struct {
    PartitionResultType type;
    char deviceUUID[UUID_STRING_LENGTH]; /* the uuid of the new partition */
    char envVars[MAX_PARTITION_ENVS][MAX_ENV_VALUE_LENGTH];
    char deviceNodes[MAX_PARTITION_DEVICE_NODES][MAX_PARTITION_DEVICE_NODE_LENGTH]; /* "host=guest" */
} PartitionResult;

/* The level is "DEBUG", "INFO", "WARN" or "ERROR", but never "FATAL", because the hypervisor would exit. */
typedef void (*AccelLogCallback)(const char *level, const char *message);

ACCEL_API AccelResult AccelInit(void);
ACCEL_API AccelResult AccelShutdown(void);
ACCEL_API AccelResult AccelGetDeviceCount(size_t *deviceCount);
ACCEL_API AccelResult AccelGetAllDevices(ExtendedDeviceInfo *devices, size_t maxCount, size_t *deviceCount);
ACCEL_API AccelResult AccelGetAllDevicesTopology(ExtendedDeviceTopology *topology);
ACCEL_API AccelResult AccelAssignPartition(const char *templateId, const char *deviceUUID, PartitionResult *result);
ACCEL_API AccelResult AccelRemovePartition(const char *templateId, const char *deviceUUID);
ACCEL_API AccelResult AccelSetMemHardLimit(const char *deviceUUID, uint64_t memoryLimitBytes);
ACCEL_API AccelResult AccelSetComputeUnitHardLimit(const char *deviceUUID, uint32_t computeUnitLimit);
ACCEL_API AccelResult AccelSnapshot(SnapshotContext *context);
ACCEL_API AccelResult AccelResume(SnapshotContext *context);
ACCEL_API AccelResult AccelGetProcessInformation(ProcessInformation *processes, size_t maxCount, size_t *processCount);
ACCEL_API AccelResult AccelGetDeviceMetrics(const char **deviceUUIDs, size_t deviceCount, DeviceMetrics *metrics);
ACCEL_API AccelResult AccelGetVendorMountLibs(MountPath *mounts, size_t maxCount, size_t *mountCount);
ACCEL_API AccelResult AccelRegisterLogCallback(AccelLogCallback callback);

#define TF_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "TensorFusion ABI: size of " #type)
#define TF_OFFSET(type, field, bytes)                                                                                  \
    _Static_assert(offsetof(type, field) == (bytes), "TensorFusion ABI: " #type "." #field)

TF_SIZE(AccelResult, 4);
TF_SIZE(VirtualizationCapabilities, 16);
TF_OFFSET(VirtualizationCapabilities, supportsPartitioning, 0);
TF_OFFSET(VirtualizationCapabilities, supportsSoftIsolation, 1);
TF_OFFSET(VirtualizationCapabilities, supportsHardIsolation, 2);
TF_OFFSET(VirtualizationCapabilities, supportsSnapshot, 3);
TF_OFFSET(VirtualizationCapabilities, supportsMetrics, 4);
TF_OFFSET(VirtualizationCapabilities, supportsRemoting, 5);
TF_OFFSET(VirtualizationCapabilities, maxPartitions, 8);
TF_OFFSET(VirtualizationCapabilities, maxWorkersPerDevice, 12);
TF_SIZE(DeviceBasicInfo, 472);
TF_OFFSET(DeviceBasicInfo, uuid, 0);
TF_OFFSET(DeviceBasicInfo, vendor, 64);
TF_OFFSET(DeviceBasicInfo, model, 96);
TF_OFFSET(DeviceBasicInfo, driverVersion, 224);
TF_OFFSET(DeviceBasicInfo, firmwareVersion, 304);
TF_OFFSET(DeviceBasicInfo, deviceNode, 368);
TF_OFFSET(DeviceBasicInfo, index, 432);
TF_OFFSET(DeviceBasicInfo, numaNode, 436);
TF_OFFSET(DeviceBasicInfo, totalMemoryBytes, 440);
TF_OFFSET(DeviceBasicInfo, totalComputeUnits, 448);
TF_OFFSET(DeviceBasicInfo, maxTflops, 456);
TF_OFFSET(DeviceBasicInfo, pcieGen, 464);
TF_OFFSET(DeviceBasicInfo, pcieWidth, 468);
TF_SIZE(DevicePropertyKV, 320);
TF_OFFSET(DevicePropertyKV, value, 64);
TF_SIZE(DeviceProperties, 20488);
TF_OFFSET(DeviceProperties, count, 20480);
TF_SIZE(ExtendedDeviceInfo, 20976);
TF_OFFSET(ExtendedDeviceInfo, props, 472);
TF_OFFSET(ExtendedDeviceInfo, virtualizationCapabilities, 20960);
TF_SIZE(PartitionTemplate, 480);
TF_OFFSET(PartitionTemplate, memoryBytes, 192);
TF_OFFSET(PartitionTemplate, description, 221);
TF_SIZE(TopoLevelType, 4);
TF_SIZE(DeviceTopoNode, 72);
TF_OFFSET(DeviceTopoNode, peerIndex, 64);
TF_OFFSET(DeviceTopoNode, topoLevel, 68);
TF_SIZE(DeviceTopologyInfo, 4688);
TF_OFFSET(DeviceTopologyInfo, deviceIndex, 64);
TF_OFFSET(DeviceTopologyInfo, numaNode, 68);
TF_OFFSET(DeviceTopologyInfo, peers, 72);
TF_OFFSET(DeviceTopologyInfo, peerCount, 4680);
TF_SIZE(ExtendedDeviceTopology, 300040);
TF_OFFSET(ExtendedDeviceTopology, deviceCount, 300032);
TF_SIZE(SnapshotContext, 24);
TF_OFFSET(SnapshotContext, processCount, 8);
TF_OFFSET(SnapshotContext, deviceUUID, 16);
TF_SIZE(ExtraMetric, 72);
TF_OFFSET(ExtraMetric, value, 64);
TF_SIZE(ProcessInformation, 144);
TF_OFFSET(ProcessInformation, deviceUUID, 32);
TF_OFFSET(ProcessInformation, computeUtilizationPercent, 96);
TF_OFFSET(ProcessInformation, activeSMs, 104);
TF_OFFSET(ProcessInformation, totalSMs, 112);
TF_OFFSET(ProcessInformation, memoryUsedBytes, 120);
TF_OFFSET(ProcessInformation, memoryReservedBytes, 128);
TF_OFFSET(ProcessInformation, memoryUtilizationPercent, 136);
TF_SIZE(DeviceMetrics, 4728);
TF_OFFSET(DeviceMetrics, powerUsageWatts, 64);
TF_OFFSET(DeviceMetrics, temperatureCelsius, 72);
TF_OFFSET(DeviceMetrics, pcieRxBytes, 80);
TF_OFFSET(DeviceMetrics, pcieTxBytes, 88);
TF_OFFSET(DeviceMetrics, utilizationPercent, 96);
TF_OFFSET(DeviceMetrics, memoryUsedBytes, 104);
TF_OFFSET(DeviceMetrics, extraMetrics, 112);
TF_OFFSET(DeviceMetrics, extraMetricsCount, 4720);
TF_SIZE(MountPath, 1024);
TF_OFFSET(MountPath, guestPath, 512);
TF_SIZE(PartitionResultType, 4);
TF_SIZE(PartitionResult, 20580);
TF_OFFSET(PartitionResult, deviceUUID, 4);
TF_OFFSET(PartitionResult, envVars, 68);
TF_OFFSET(PartitionResult, deviceNodes, 4164);

#endif
