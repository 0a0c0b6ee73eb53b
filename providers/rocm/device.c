/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the GPUs, and their description in struct facet_device_info and the properties.
 * Never: guesses a value: a value that neither AMD SMI nor the kernel reports stays unset.
 */
#include <stdlib.h>

#include "rocm.h"
#include "sysfs.h"

#define PROPERTIES_SIZE 16384 /* the conformance image is by far the longest property */
#define MAX_CLOCK_MHZ   100000u
#define NOT_KNOWN       UINT32_MAX

void rocm_address_of(uint64_t unique_id, char *address, size_t size)
{
    if (unique_id)
        snprintf(address, size, VENDOR_HIP_ADDRESS "%016" PRIx64, unique_id);
}

/* --- a GPU's description --- */

static void describe_names(const struct rocm_smi *smi, struct rocm_gpu *gpu, struct facet_device_info *info)
{
    amdsmi_asic_info_t asic = {.num_of_compute_units = NOT_KNOWN};
    amdsmi_driver_info_t driver = {0};
    char text[64];

    FACET_KIT_TEXT(info->vendor, "AMD");
    FACET_KIT_TEXT(info->name, "AMD GPU");
    if (rocm_gpu_line(gpu->pci, "product_name", text, sizeof text) && text[0])
        FACET_KIT_TEXT(info->name, text);
    if (rocm_path(info->driver_version, sizeof info->driver_version, "/sys/module/amdgpu/version") &&
        rocm_read_line(info->driver_version, text, sizeof text))
        FACET_KIT_TEXT(info->driver_version, text);
    else
        info->driver_version[0] = '\0';
    if (!gpu->handle)
        return;
    if (ROCM_SMI(smi, amdsmi_get_gpu_asic_info, gpu->handle, &asic) == AMDSMI_STATUS_SUCCESS) {
        FACET_KIT_TEXT(info->name, asic.market_name);
        gpu->unique_id = strtoull(asic.asic_serial, NULL, 16);
        if (asic.num_of_compute_units != NOT_KNOWN) {
            info->compute_units = asic.num_of_compute_units;
            info->valid |= FACET_DEVICE_HAS_COMPUTE_UNITS;
        }
    }
    if (ROCM_SMI(smi, amdsmi_get_gpu_driver_info, gpu->handle, &driver) == AMDSMI_STATUS_SUCCESS)
        FACET_KIT_TEXT(info->driver_version, driver.driver_version);
}

/* Describes the GPU by the compute driver's nodes: adds up the dies and units of all nodes, one for each partition. */
static void describe_nodes(struct rocm_gpu *gpu, struct facet_device_info *info)
{
    struct rocm_node nodes[ROCM_MAX_PARTS];
    uint32_t count = rocm_nodes_of(gpu->pci, nodes, ROCM_MAX_PARTS), units = 0;

    for (uint32_t i = 0; i < count; i++) {
        gpu->dies += nodes[i].dies;
        units += nodes[i].units;
        gpu->target = nodes[i].target;
    }
    if (count == 1 && !gpu->unique_id)
        gpu->unique_id = nodes[0].unique_id;
    if (units && !(info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS)) {
        info->compute_units = units;
        info->valid |= FACET_DEVICE_HAS_COMPUTE_UNITS;
    }
}

/* "16.0 GT/s PCIe" is the fourth generation: the first has 2.5 GT/s, and each further generation is in the list. */
static uint16_t generation_of(const char *speed)
{
    static const char *const speeds[] = {"2.5", "5.0", "8.0", "16.0", "32.0", "64.0"};

    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (strncmp(speed, speeds[i], strlen(speeds[i])) == 0)
            return (uint16_t)(i + 1);
    return 0;
}

static void describe_pci(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_info *info)
{
    uint64_t width = 0;
    char speed[64];

    FACET_KIT_TEXT(info->pci_address, gpu->pci);
    info->valid |= FACET_DEVICE_HAS_PCI;
    if (rocm_gpu_line(gpu->pci, "max_link_speed", speed, sizeof speed) && generation_of(speed) &&
        rocm_gpu_number(gpu->pci, "max_link_width", &width) && width && width <= 32) {
        info->pcie_generation = generation_of(speed);
        info->pcie_width = (uint16_t)width;
        info->valid |= FACET_DEVICE_HAS_PCIE_LINK;
    }
    if (rocm_numa_node(smi, gpu, &info->numa_node))
        info->valid |= FACET_DEVICE_HAS_NUMA;
}

static void describe_amounts(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_info *info)
{
    amdsmi_clk_info_t clock = {.max_clk = NOT_KNOWN};

    if (rocm_memory_total(smi, gpu, &info->memory_bytes))
        info->valid |= FACET_DEVICE_HAS_MEMORY;
    if (gpu->handle &&
        ROCM_SMI(smi, amdsmi_get_clock_info, gpu->handle, AMDSMI_CLK_TYPE_GFX, &clock) == AMDSMI_STATUS_SUCCESS &&
        clock.max_clk && clock.max_clk <= MAX_CLOCK_MHZ) {
        info->clock_mhz = clock.max_clk;
        info->valid |= FACET_DEVICE_HAS_CLOCK;
    }
}

static void describe_modes(const struct rocm_smi *smi, struct rocm_gpu *gpu, struct facet_device_info *info)
{
    gpu->is_partitioned = rocm_is_partitioned(smi, gpu);
    if (!gpu->is_partitioned) {
        info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT);
        info->mode_group[FACET_MODE_SHARED] = info->mode_group[FACET_MODE_SOFT] = 1;
        return;
    }
    info->modes = FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    info->max_partitions = gpu->dies;
    info->valid |= FACET_DEVICE_HAS_MAX_PARTITIONS;
}

/*
 * Only an initialised runtime reports whether a device maps memory, and it is not initialised here. If the runtime has
 * the functions, all devices are taken to support them.
 */
static uint64_t capabilities_by_runtime(const struct rocm_runtime *runtime, const struct rocm_math *math,
                                        const struct facet_device_info *info)
{
    uint64_t can = FACET_CAN_MEMORY | FACET_CAN_LIMIT_MEMORY;

    if (rocm_runtime_maps(runtime))
        can |= FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES;
    if (!rocm_runtime_executes(runtime))
        return can;
    can |= FACET_CAN_EXECUTE | FACET_CAN_ENQUEUE | FACET_CAN_RECORD | FACET_CAN_SHARE | FACET_CAN_SCHEDULE;
    if (runtime->hipExtStreamCreateWithCUMask && info->valid & FACET_DEVICE_HAS_COMPUTE_UNITS)
        can |= FACET_CAN_LIMIT_COMPUTE | FACET_CAN_CONTROL;
    if (math->blas_library || math->dnn_library)
        can |= FACET_CAN_MATH;
    return can;
}

/* The capabilities depend on the functions that the libraries have, and on probes: one that fails removes its own. */
static uint64_t capabilities_of(const struct facet_provider_instance *instance, struct rocm_gpu *gpu,
                                const struct facet_device_info *info)
{
    struct facet_device_metrics metrics;
    uint64_t can = 0;

    if (rocm_metrics_read(&instance->smi, gpu, &metrics))
        can |= FACET_CAN_DEVICE_METRICS;
    if (rocm_can_list_processes(&instance->smi))
        can |= FACET_CAN_PROCESS_METRICS;
    if (rocm_has_topology(&instance->smi, gpu))
        can |= FACET_CAN_TOPOLOGY;
    if (rocm_gpu_read_state(&instance->smi, gpu, &gpu->last_reading))
        can |= FACET_CAN_EVENTS;
    if (gpu->has_render)
        can |= FACET_CAN_CONTAINER;
    if (gpu->is_partitioned)
        can |= FACET_CAN_PARTITION;
    if (!gpu->is_partitioned && instance->runtime.library)
        can |= capabilities_by_runtime(&instance->runtime, &instance->math, info);
    return can;
}

static bool smi_uuid(const struct rocm_smi *smi, const struct rocm_gpu *gpu, char uuid[AMDSMI_GPU_UUID_SIZE + 1])
{
    unsigned length = AMDSMI_GPU_UUID_SIZE;

    uuid[0] = '\0';
    return gpu->handle &&
           ROCM_SMI(smi, amdsmi_get_gpu_device_uuid, gpu->handle, &length, uuid) == AMDSMI_STATUS_SUCCESS && uuid[0];
}

/*
 * The uuid is made of the GPU's permanent number. Without that number it is AMD SMI's uuid, which changes when the GPU
 * is partitioned. Without either it is made of the PCI address.
 */
static void set_uuid(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct facet_device_info *info)
{
    char uuid[AMDSMI_GPU_UUID_SIZE + 1], text[64];

    if (!gpu->unique_id && smi_uuid(smi, gpu, uuid)) {
        FACET_KIT_TEXT(info->uuid, uuid);
        return;
    }
    if (gpu->unique_id)
        snprintf(text, sizeof text, "amdgpu %016" PRIx64, gpu->unique_id);
    else
        snprintf(text, sizeof text, "amdgpu %s", gpu->pci);
    facet_kit_uuid_of(text, info->uuid);
}

/* --- finding GPUs --- */

static void add_device(struct facet_provider_instance *instance, const char *pci, amdsmi_socket_handle socket,
                       amdsmi_processor_handle handle)
{
    const struct rocm_smi *smi = &instance->smi;
    struct facet_device_info *info = &instance->gpu.infos[instance->gpu.count];
    struct rocm_gpu *gpu = &instance->gpus[instance->gpu.count];
    uint64_t unique_id;

    *info = (struct facet_device_info){.size = sizeof *info, .index = instance->gpu.count, .kind = FACET_DEVICE_GPU};
    *gpu = (struct rocm_gpu){.socket = socket, .handle = handle};
    FACET_KIT_TEXT(gpu->pci, pci);
    gpu->has_render = rocm_gpu_render(pci, &gpu->render);
    describe_names(smi, gpu, info);
    char line[32]; /* the kernel writes the number in hexadecimal, without 0x */
    if (rocm_gpu_line(pci, "unique_id", line, sizeof line) && (unique_id = strtoull(line, NULL, 16)))
        gpu->unique_id = unique_id;
    describe_nodes(gpu, info);
    rocm_address_of(gpu->unique_id, info->address, sizeof info->address);
    set_uuid(smi, gpu, info);
    describe_pci(smi, gpu, info);
    describe_amounts(smi, gpu, info);
    describe_modes(smi, gpu, info);
    info->capabilities = capabilities_of(instance, gpu, info);
    instance->gpu.count++;
}

static void pci_text(const amdsmi_bdf_t *bdf, char text[16])
{
    uint64_t value = bdf->as_uint;

    /* The function is 0: AMD SMI puts a partition's number there. */
    snprintf(text, 16, "%04x:%02x:%02x.0", (unsigned)(value >> 16 & 0xffff), (unsigned)(value >> 8 & 0xff),
             (unsigned)(value >> 3 & 0x1f));
}

/* The first processor of a socket is the GPU; others are its partitions. A lost GPU must not hide the other GPUs. */
static enum facet_status find_by_smi(struct facet_provider_instance *instance, struct facet_error *error)
{
    const struct rocm_smi *smi = &instance->smi;
    amdsmi_socket_handle sockets[GPU_MOST];
    uint32_t count = GPU_MOST;
    amdsmi_status_t result = smi->amdsmi_get_socket_handles(&count, sockets);

    if (result != AMDSMI_STATUS_SUCCESS)
        return rocm_smi_fail(smi, error, "amdsmi_get_socket_handles", result);
    for (uint32_t i = 0; i < count && instance->gpu.count < GPU_MOST; i++) {
        amdsmi_processor_handle processors[GPU_MOST];
        uint32_t processor_count = GPU_MOST;
        amdsmi_bdf_t bdf = {0};
        char pci[16];

        if (smi->amdsmi_get_processor_handles(sockets[i], &processor_count, processors) != AMDSMI_STATUS_SUCCESS ||
            processor_count == 0 || smi->amdsmi_get_gpu_device_bdf(processors[0], &bdf) != AMDSMI_STATUS_SUCCESS)
            continue;
        pci_text(&bdf, pci);
        add_device(instance, pci, sockets[i], processors[0]);
    }
    return FACET_OK;
}

enum facet_status rocm_gpus_find(struct facet_provider_instance *instance, struct facet_error *error)
{
    char addresses[GPU_MOST][16];

    if (instance->smi.library)
        return find_by_smi(instance, error);
    uint32_t count = rocm_gpus_list(addresses, GPU_MOST);
    for (uint32_t i = 0; i < count; i++)
        add_device(instance, addresses[i], NULL, NULL);
    return FACET_OK;
}

/* --- properties --- */

struct text {
    char bytes[PROPERTIES_SIZE];
    size_t length;
};

/* Adds "key=value" if it fits. All values are bounded, and fit, except the conformance image. */
static void put_pair(struct text *text, const char *key, const char *value)
{
    size_t room = sizeof text->bytes - text->length;
    int length = snprintf(text->bytes + text->length, room, "%s=%s\n", key, value);

    if (length > 0 && (size_t)length < room)
        text->length += (size_t)length;
    else
        text->bytes[text->length] = '\0';
}

static void put_number(struct text *text, const char *key, uint64_t value)
{
    char number[32];

    snprintf(number, sizeof number, "%" PRIu64, value);
    put_pair(text, key, number);
}

static void put_digits(struct text *text, const char *key, uint64_t value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%016" PRIx64, value);
    put_pair(text, key, digits);
}

static void put_modes(struct text *text, const struct rocm_smi *smi, const struct rocm_gpu *gpu)
{
    struct rocm_modes modes;

    if (!rocm_modes_read(smi, gpu, &modes))
        return;
    put_pair(text, "compute_partition", modes.compute);
    put_pair(text, "memory_partition", modes.memory);
}

/* The target is two digits each of major, minor and step. gfx names have the step as one hexadecimal digit: 90010 is
 * gfx90a. */
static void put_target(struct text *text, const struct rocm_gpu *gpu)
{
    char target[32];

    if (!gpu->target)
        return;
    snprintf(target, sizeof target, "amdgcn:gfx%u%u%x", gpu->target / 10000, gpu->target / 100 % 100,
             gpu->target % 100);
    put_pair(text, "kernel_target", target);
}

/* The image for `facet provider check`. A code object is not text, so the environment has to name a file. */
static void put_conformance(struct text *text)
{
    const char *image = getenv("FACET_ROCM_CONFORMANCE_IMAGE");

    if (!image || !*image)
        return;
    put_pair(text, "conformance_kernel", "store_words");
    put_pair(text, "conformance_image", image);
}

enum facet_status rocm_device_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                         uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    enum facet_status status = facet_kit_check_device(device, instance->gpu.count, error);
    const struct rocm_gpu *gpu = &instance->gpus[device < instance->gpu.count ? device : 0];
    uint64_t limit;

    if (status != FACET_OK)
        return status;
    struct text *all = calloc(1, sizeof *all);
    if (!all)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the properties");
    if (gpu->unique_id)
        put_digits(all, "serial", gpu->unique_id);
    if (gpu->dies)
        put_number(all, "compute_dies", gpu->dies);
    char uuid[AMDSMI_GPU_UUID_SIZE + 1];
    if (smi_uuid(&instance->smi, gpu, uuid))
        put_pair(all, "smi_uuid", uuid);
    put_modes(all, &instance->smi, gpu);
    if (rocm_gpu_sensor(gpu->pci, "power1_cap", &limit))
        put_number(all, "power_limit_mw", limit / 1000);
    if (rocm_gpu_sensor(gpu->pci, "temp2_crit", &limit))
        put_number(all, "temperature_limit_mc", limit);
    if (instance->smi_error[0])
        put_pair(all, "smi_error", instance->smi_error);
    if (instance->runtime.error[0])
        put_pair(all, "hip_error", instance->runtime.error);
    put_target(all, gpu);
    if (instance->gpu.infos[device].capabilities & FACET_CAN_EXECUTE)
        put_conformance(all);
    status = facet_kit_text_out(all->bytes, text, capacity, ret_size, error);
    free(all);
    return status;
}
