/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: memory and processes in the fake libnvidia-ml.so.1, from the amounts of live processes in the shared state.
 * Never: keeps a count of its own.
 */
#include "nvml_fake.h"

#define MPS_DAEMON false /* there is no MPS daemon, so no process computes through it */

/*
 * NVML's total includes memory that the driver keeps for itself: 480 MiB on an H100, 4 MiB here. No program can
 * allocate it, and cuDeviceTotalMem() does not include it. nvmlDeviceGetMemoryInfo() counts it as used, and
 * nvmlDeviceGetMemoryInfo_v2() as reserved.
 */
#define RESERVED_BYTES (4ull << 20)

static void memory_of(nvmlDevice_t handle, uint32_t device, nvmlMemory_t *ret_memory)
{
    nvmlMemory_t memory = {.total = fake_state()->devices[device].memory_bytes};

    /* The fake counts the memory of a MIG device as its GPU's (identity.h), so a MIG device has none in use. */
    if (handle->is_mig)
        memory.total = fake_gpu_instance_bytes(device, handle->gpu_instance);
    else
        memory.used = fake_used(device);
    memory.free = memory.total > memory.used ? memory.total - memory.used : 0;
    *ret_memory = memory;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t *memory)
{
    FAKE_ENTER(handle, memory, device);
    memory_of(handle, device, memory);
    if (!handle->is_mig) {
        memory->total += RESERVED_BYTES;
        memory->used += RESERVED_BYTES;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t handle, nvmlBAR1Memory_t *memory)
{
    unsigned long long size = 1;

    FAKE_ENTER_GPU(handle, memory, device);
    while (size < fake_state()->devices[device].memory_bytes)
        size *= 2;
    *memory = (nvmlBAR1Memory_t){.bar1Total = size, .bar1Free = size};
    return NVML_SUCCESS;
}

/* Calls `add` for each process that holds memory of a device, and returns how many there are. */
static unsigned each_process(uint32_t device, void (*add)(unsigned index, unsigned pid, uint64_t bytes, void *list),
                             void *list, unsigned capacity)
{
    struct fake_state *state = fake_state();
    unsigned count = 0;

    for (uint32_t slot = 0; slot < FAKE_PROCESSES; slot++) {
        uint32_t pid = atomic_load(&state->processes[slot].pid);
        uint64_t bytes = 0;

        for (uint32_t kind = 0; pid && kind < FAKE_KINDS; kind++)
            bytes += atomic_load(&state->processes[slot].devices[device].bytes[kind]);
        if (bytes == 0 || !fake_slot_is_live(slot))
            continue;
        if (count < capacity)
            add(count, pid, bytes, list);
        count++;
    }
    return count;
}

static void add_v1(unsigned index, unsigned pid, uint64_t bytes, void *list)
{
    ((nvmlProcessInfo_v1_t *)list)[index] = (nvmlProcessInfo_v1_t){.pid = pid, .usedGpuMemory = bytes};
}

#define NO_INSTANCES .gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE

static void add_v2(unsigned index, unsigned pid, uint64_t bytes, void *list)
{
    ((nvmlProcessInfo_t *)list)[index] = (nvmlProcessInfo_t){.pid = pid, .usedGpuMemory = bytes, NO_INSTANCES};
}

/* All programs on the fake compute; the list of graphics processes is empty. */
static nvmlReturn_t list_processes(nvmlDevice_t handle, unsigned *count, void *list, bool compute,
                                   void (*add)(unsigned index, unsigned pid, uint64_t bytes, void *list))
{
    FAKE_ENTER(handle, count && (list || *count == 0), device);

    unsigned capacity = *count;
    *count = compute && !handle->is_mig ? each_process(device, add, list, capacity) : 0;
    return *count > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define LIST(name, type, add, compute)                                                                                 \
    nvmlReturn_t name(nvmlDevice_t handle, unsigned *count, type *list)                                                \
    {                                                                                                                  \
        return list_processes(handle, count, list, compute, add);                                                      \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, add_v1, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, add_v1, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, add_v1, MPS_DAEMON)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_t, add_v2, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t, add_v2, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t, add_v2, MPS_DAEMON)

static nvmlReturn_t sample_processes(nvmlDevice_t handle, unsigned long long last_seen, unsigned *count,
                                     nvmlProcessUtilizationSample_t list[FAKE_PROCESSES])
{
    struct fake_state *state = fake_state();

    FAKE_ENTER_GPU(handle, true, device);
    *count = 0;
    for (uint32_t slot = 0; slot < FAKE_PROCESSES; slot++) {
        uint32_t pid = atomic_load(&state->processes[slot].pid);

        if (pid == 0 || !fake_slot_is_live(slot))
            continue;
        struct fake_sample sample = fake_sample_process(slot, device);
        if (sample.stamp_us > last_seen && sample.percent)
            list[(*count)++] = (nvmlProcessUtilizationSample_t){
                .pid = pid, .timeStamp = sample.stamp_us, .smUtil = sample.percent, .memUtil = sample.percent / 2};
    }
    return *count ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples,
                                             unsigned *count, unsigned long long last_seen)
{
    nvmlProcessUtilizationSample_t list[FAKE_PROCESSES];
    unsigned found;
    nvmlReturn_t result = fake_initialised(count);

    if (result == NVML_SUCCESS && !samples) {
        *count = FAKE_PROCESSES;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    if (result == NVML_SUCCESS)
        result = sample_processes(handle, last_seen, &found, list);
    if (result != NVML_SUCCESS)
        return result;
    for (unsigned i = 0; i < found && i < *count; i++)
        samples[i] = list[i];
    result = found > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    *count = found;
    return result;
}

#ifndef FAKE_OLD
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, add_v2, true)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, add_v2, false)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, add_v2, MPS_DAEMON)

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t *memory)
{
    nvmlMemory_t plain;

    FAKE_ENTER(handle, memory, device);
    if (memory->version != VENDOR_NVML_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory_of(handle, device, &plain);
    memory->reserved = handle->is_mig ? 0 : RESERVED_BYTES;
    memory->total = plain.total + memory->reserved;
    memory->free = plain.free;
    memory->used = plain.used;
    return NVML_SUCCESS;
}

static void add_detail(unsigned index, unsigned pid, uint64_t bytes, void *list)
{
    ((nvmlProcessDetail_v1_t *)list)[index] =
        (nvmlProcessDetail_v1_t){.pid = pid, .usedGpuMemory = bytes, NO_INSTANCES};
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t handle, nvmlProcessDetailList_v1_t *list)
{
    nvmlReturn_t result = fake_initialised(list);

    if (result != NVML_SUCCESS)
        return result;
    if (list->version != VENDOR_NVML_VERSION(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return list_processes(handle, &list->numProcArrayEntries, list->procArray, list->mode == NVML_PROCESS_MODE_COMPUTE,
                          add_detail);
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t handle, nvmlProcessesUtilizationInfo_v1_t *info)
{
    nvmlProcessUtilizationSample_t list[FAKE_PROCESSES];
    unsigned found;
    nvmlReturn_t result = fake_initialised(info);

    if (result == NVML_SUCCESS && info->version != VENDOR_NVML_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        result = sample_processes(handle, info->lastSeenTimeStamp, &found, list);
    if (result != NVML_SUCCESS)
        return result;

    unsigned capacity = info->procUtilArray ? info->processSamplesCount : 0;
    for (unsigned i = 0; i < found && i < capacity; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = list[i].timeStamp, .pid = list[i].pid, .smUtil = list[i].smUtil, .memUtil = list[i].memUtil};
    info->processSamplesCount = found;
    return found > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
#endif
