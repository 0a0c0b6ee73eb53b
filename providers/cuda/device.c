/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the GPUs, and their description in struct facet_device_info and the properties.
 * Never: guesses a value: a value that no call returned stays unset.
 */
#include "cuda.h"

#define MAX_CLOCK_MHZ   100000u
#define PROPERTIES_SIZE 2048

static void describe_names(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_info *info)
{
    char text[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";

    FACET_KIT_TEXT(info->vendor, "NVIDIA");
    FACET_KIT_TEXT(info->name, "NVIDIA GPU");
    if (nvml->nvmlDeviceGetName(handle, text, sizeof text) == NVML_SUCCESS)
        FACET_KIT_TEXT(info->name, text);
    text[0] = '\0';
    if (CUDA_NVML(nvml, nvmlSystemGetDriverVersion, text, sizeof text) == NVML_SUCCESS)
        FACET_KIT_TEXT(info->driver_version, text);
}

static void describe_pci(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_info *info)
{
    nvmlPciInfo_t pci = {0};
    unsigned generation, width;

    if (CUDA_NVML(nvml, nvmlDeviceGetPciInfo_v3, handle, &pci) == NVML_SUCCESS && pci.domain <= 0xffff &&
        pci.bus <= 0xff && pci.device <= 0x1f) {
        snprintf(info->pci_address, sizeof info->pci_address, "%04x:%02x:%02x.0", pci.domain & 0xffffu, pci.bus & 0xffu,
                 pci.device & 0x1fu);
        info->valid |= FACET_DEVICE_HAS_PCI;
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetMaxPcieLinkGeneration, handle, &generation) == NVML_SUCCESS &&
        CUDA_NVML(nvml, nvmlDeviceGetMaxPcieLinkWidth, handle, &width) == NVML_SUCCESS && generation && width &&
        generation < 100 && width <= 32) {
        info->pcie_generation = (uint16_t)generation;
        info->pcie_width = (uint16_t)width;
        info->valid |= FACET_DEVICE_HAS_PCIE_LINK;
    }
}

static void describe_amounts(const struct cuda_nvml *nvml, nvmlDevice_t handle, struct facet_device_info *info)
{
    nvmlMemory_t memory = {0};
    unsigned mhz = 0;

    if (cuda_memory_read(nvml, handle, &memory) == NVML_SUCCESS && memory.total) {
        info->memory_bytes = memory.total;
        info->valid |= FACET_DEVICE_HAS_MEMORY;
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetMaxClockInfo, handle, NVML_CLOCK_SM, &mhz) == NVML_SUCCESS && mhz &&
        mhz <= MAX_CLOCK_MHZ) {
        info->clock_mhz = mhz;
        info->valid |= FACET_DEVICE_HAS_CLOCK;
    }
}

static void describe_mode(const struct cuda_nvml *nvml, struct cuda_gpu *gpu, struct facet_device_info *info)
{
    unsigned current = NVML_DEVICE_MIG_DISABLE, pending, parts = 0;

    if (CUDA_NVML(nvml, nvmlDeviceGetMigMode, gpu->handle, &current, &pending) == NVML_SUCCESS)
        gpu->is_partitioned = current == NVML_DEVICE_MIG_ENABLE;
    if (!gpu->is_partitioned) {
        info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT);
        info->mode_group[FACET_MODE_SHARED] = info->mode_group[FACET_MODE_SOFT] = 1;
        return;
    }
    info->modes = FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    if (CUDA_NVML(nvml, nvmlDeviceGetMaxMigDeviceCount, gpu->handle, &parts) == NVML_SUCCESS &&
        parts <= CUDA_MAX_PARTS) {
        info->max_partitions = parts;
        info->valid |= FACET_DEVICE_HAS_MAX_PARTITIONS;
    }
}

/* The capabilities depend on the functions that the library has, and on probes: one that fails removes its own. */
static uint64_t capabilities_of(const struct cuda_nvml *nvml, struct cuda_gpu *gpu)
{
    struct facet_device_metrics metrics;
    uint64_t can = 0;

    if (cuda_metrics_read(nvml, gpu, &metrics) == NVML_SUCCESS)
        can |= FACET_CAN_DEVICE_METRICS;
    if (nvml->nvmlDeviceGetComputeRunningProcesses_v3 || nvml->nvmlDeviceGetComputeRunningProcesses_v2)
        can |= FACET_CAN_PROCESS_METRICS;
    if (nvml->nvmlDeviceGetTopologyCommonAncestor)
        can |= FACET_CAN_TOPOLOGY;
    if (cuda_can_read_traffic(nvml, gpu->handle))
        can |= FACET_CAN_LINK_METRICS;
    if (cuda_gpu_read_state(nvml, gpu, &gpu->last_reading))
        can |= FACET_CAN_EVENTS;
    if (gpu->is_partitioned && cuda_can_partition(nvml))
        can |= FACET_CAN_PARTITION;
    if (gpu->has_minor && (!gpu->is_partitioned || cuda_has_part_nodes()))
        can |= FACET_CAN_CONTAINER;
    return can;
}

static enum facet_status add_device(struct facet_provider_instance *instance, nvmlDevice_t handle,
                                    struct facet_error *error)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    struct facet_device_info *info = &instance->gpu.infos[instance->gpu.count];
    struct cuda_gpu *gpu = &instance->gpus[instance->gpu.count];
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE] = "";

    nvmlReturn_t result = nvml->nvmlDeviceGetUUID(handle, uuid, sizeof uuid);
    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(nvml, error, "nvmlDeviceGetUUID", result);
    *info = (struct facet_device_info){.size = sizeof *info, .index = instance->gpu.count, .kind = FACET_DEVICE_GPU};
    *gpu = (struct cuda_gpu){.handle = handle};
    FACET_KIT_TEXT(info->uuid, uuid);
    FACET_KIT_TEXT(info->address, uuid);
    gpu->has_minor = CUDA_NVML(nvml, nvmlDeviceGetMinorNumber, handle, &gpu->minor) == NVML_SUCCESS;
    describe_names(nvml, handle, info);
    describe_pci(nvml, handle, info);
    describe_amounts(nvml, handle, info);
    describe_mode(nvml, gpu, info);
    info->capabilities = capabilities_of(nvml, gpu) | cuda_driver_describe(instance, instance->gpu.count, info);
    instance->gpu.count++;
    return FACET_OK;
}

/* NVML still counts a GPU that fell off the bus. Such a GPU is skipped, so that the other GPUs remain usable. */
enum facet_status cuda_gpus_find(struct facet_provider_instance *instance, struct facet_error *error)
{
    const struct cuda_nvml *nvml = &instance->nvml;
    enum facet_status status = FACET_OK;
    unsigned count = 0;
    nvmlReturn_t result = nvml->nvmlDeviceGetCount_v2(&count);

    if (result != NVML_SUCCESS)
        return cuda_nvml_fail(nvml, error, "nvmlDeviceGetCount_v2", result);
    if (count > GPU_MOST)
        return facet_kit_fail(error, FACET_CORRUPT, "nvmlDeviceGetCount_v2: %u GPUs, expected at most %u", count,
                              GPU_MOST);
    for (unsigned i = 0; i < count && status == FACET_OK; i++) {
        nvmlDevice_t handle;

        result = nvml->nvmlDeviceGetHandleByIndex_v2(i, &handle);
        if (result == NVML_SUCCESS)
            status = add_device(instance, handle, error);
        else if (cuda_nvml_status(result) != FACET_DEVICE_LOST)
            status = cuda_nvml_fail(nvml, error, "nvmlDeviceGetHandleByIndex_v2", result);
    }
    return status;
}

struct text {
    char bytes[PROPERTIES_SIZE];
    size_t length;
};

/* Adds a line "key=value". Every value has a bounded length, so all lines fit. */
FACET_PRINTF(3, 4) static void put_property(struct text *text, const char *key, const char *format, ...)
{
    char value[512] = "";
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    text->length +=
        (size_t)snprintf(text->bytes + text->length, sizeof text->bytes - text->length, "%s=%s\n", key, value);
}

/* The kernel that `facet provider check` launches (docs/providers.md): it stores a value to a number of words. */
static const char conformance_ptx[] =
    ".version 7.0 .target sm_52 .address_size 64 "
    ".visible .entry store_words(.param .u64 words, .param .u64 count, .param .u64 value) { "
    ".reg .pred %p; .reg .u64 %a, %n, %v; "
    "ld.param.u64 %a, [words]; ld.param.u64 %n, [count]; ld.param.u64 %v, [value]; cvta.to.global.u64 %a, %a; "
    "next: setp.eq.u64 %p, %n, 0; @%p ret; "
    "st.global.u64 [%a], %v; add.u64 %a, %a, 8; sub.u64 %n, %n, 1; bra next; }";

static void put_execution(struct text *text, const struct facet_provider_instance *instance, uint32_t device)
{
    int major, minor;

    if (instance->driver_error[0])
        put_property(text, "driver_error", "%s", instance->driver_error);
    if (!(instance->gpu.infos[device].capabilities & FACET_CAN_EXECUTE))
        return;
    if (CUDA_NVML(&instance->nvml, nvmlDeviceGetCudaComputeCapability, instance->gpus[device].handle, &major, &minor) ==
        NVML_SUCCESS)
        put_property(text, "kernel_target", "ptx:sm_%d%d", major, minor);
    put_property(text, "conformance_kernel", "store_words");
    put_property(text, "conformance_image", "%s", conformance_ptx);
}

static void put_identity(struct text *text, const struct cuda_nvml *nvml, const struct cuda_gpu *gpu)
{
    char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE], clean[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    int major, minor;

    if (CUDA_NVML(nvml, nvmlDeviceGetSerial, gpu->handle, serial, sizeof serial) == NVML_SUCCESS) {
        FACET_KIT_TEXT(clean, serial);
        put_property(text, "serial", "%s", clean);
    }
    if (CUDA_NVML(nvml, nvmlDeviceGetCudaComputeCapability, gpu->handle, &major, &minor) == NVML_SUCCESS) {
        put_property(text, "compute_capability", "%d.%d", major, minor);
    }
    if (gpu->has_minor)
        put_property(text, "minor", "%u", gpu->minor);
    put_property(text, "mig", "%s", gpu->is_partitioned ? "true" : "false");
}

static void put_settings(struct text *text, const struct cuda_nvml *nvml, const struct cuda_gpu *gpu)
{
    unsigned value;
    int mode, pending;

    if (CUDA_NVML(nvml, nvmlDeviceGetMaxClockInfo, gpu->handle, NVML_CLOCK_MEM, &value) == NVML_SUCCESS)
        put_property(text, "clock_memory_mhz", "%u", value);
    if (CUDA_NVML(nvml, nvmlDeviceGetPowerManagementLimit, gpu->handle, &value) == NVML_SUCCESS)
        put_property(text, "power_limit_mw", "%u", value);
    if (CUDA_NVML(nvml, nvmlDeviceGetTemperatureThreshold, gpu->handle, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &value) ==
        NVML_SUCCESS)
        put_property(text, "temperature_limit_mc", "%u", value * 1000);
    if (CUDA_NVML(nvml, nvmlDeviceGetEccMode, gpu->handle, &mode, &pending) == NVML_SUCCESS)
        put_property(text, "ecc", "%s", mode == NVML_FEATURE_ENABLED ? "true" : "false");
    if (CUDA_NVML(nvml, nvmlDeviceGetPcieReplayCounter, gpu->handle, &value) == NVML_SUCCESS)
        put_property(text, "pcie_replays", "%u", value);
    if (CUDA_NVML(nvml, nvmlDeviceGetPersistenceMode, gpu->handle, &mode) == NVML_SUCCESS)
        put_property(text, "persistence_mode", "%s", mode == NVML_FEATURE_ENABLED ? "true" : "false");
}

enum facet_status cuda_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->gpu.count, error);
    struct text all = {0};

    if (status != FACET_OK)
        return status;
    put_identity(&all, &instance->nvml, &instance->gpus[device]);
    put_settings(&all, &instance->nvml, &instance->gpus[device]);
    put_execution(&all, instance, device);
    return facet_kit_text_out(all.bytes, text, capacity, ret_size, error);
}
