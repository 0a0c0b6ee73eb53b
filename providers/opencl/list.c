/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding and describing the devices.
 * Never: creates a context, a queue or a buffer, so listing costs nothing on the device.
 */
#include "opencl.h"

#include <stdlib.h>

#include <facet/limits.h>
#include <facet/opencl_address.h>

void facet_opencl_free_text(char **text)
{
    free(*text);
}

static enum facet_status status_of(cl_int code)
{
    switch (code) {
    case CL_OUT_OF_HOST_MEMORY:
        return FACET_NO_MEMORY;
    case CL_DEVICE_NOT_AVAILABLE:
        return FACET_DEVICE_LOST;
    case CL_DEVICE_PARTITION_FAILED:
        return FACET_NO_SPACE;
    default:
        return FACET_IO;
    }
}

enum facet_status facet_opencl_fail(struct facet_error *error, const char *what, cl_int code)
{
    return facet_kit_fail(error, status_of(code), "%s: OpenCL error %d", what, (int)code);
}

enum facet_status facet_opencl_check(const struct facet_provider_instance *instance, uint32_t device,
                                     uint64_t capability, struct facet_error *error)
{
    if (!instance)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "instance: expected an open one, not NULL");
    enum facet_status status = facet_kit_check_device(device, instance->count, error);
    if (status != FACET_OK || (instance->infos[device].capabilities & capability) == capability)
        return status;
    return facet_kit_fail(error, FACET_UNSUPPORTED, "device %" PRIu32 " (%.64s) does not offer this operation", device,
                          instance->infos[device].name);
}

char *facet_opencl_platform_text(cl_platform_id platform, cl_platform_info what)
{
    size_t size = 0;

    if (clGetPlatformInfo(platform, what, 0, NULL, &size) != CL_SUCCESS)
        return NULL;
    char *text = calloc(1, size + 1);
    if (text && clGetPlatformInfo(platform, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        text = NULL;
    }
    return text;
}

char *facet_opencl_device_text(cl_device_id device, cl_device_info what)
{
    size_t size = 0;

    if (clGetDeviceInfo(device, what, 0, NULL, &size) != CL_SUCCESS)
        return NULL;
    char *text = calloc(1, size + 1);
    if (text && clGetDeviceInfo(device, what, size, text, NULL) != CL_SUCCESS) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Whether `word` is among the blank-separated words of `list`. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at && (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static bool device_number(cl_device_id device, cl_device_info what, size_t size, void *ret_number)
{
    return clGetDeviceInfo(device, what, size, ret_number, NULL) == CL_SUCCESS;
}

static uint32_t kind_of(cl_device_id device)
{
    cl_device_type type = 0;

    device_number(device, CL_DEVICE_TYPE, sizeof type, &type);
    if (type & CL_DEVICE_TYPE_GPU)
        return FACET_DEVICE_GPU;
    if (type & CL_DEVICE_TYPE_ACCELERATOR)
        return FACET_DEVICE_ACCELERATOR;
    return type & CL_DEVICE_TYPE_CPU ? FACET_DEVICE_CPU : FACET_DEVICE_OTHER;
}

static void describe_amounts(cl_device_id device, struct facet_device_info *info)
{
    cl_ulong memory, most;
    cl_uint units, clock;

    if (device_number(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory)) {
        info->memory_bytes = memory;
        info->valid |= FACET_DEVICE_HAS_MEMORY;
    }
    if (device_number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most)) {
        info->max_alloc_bytes = most;
        info->valid |= FACET_DEVICE_HAS_MAX_ALLOC;
    }
    if (device_number(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units)) {
        info->compute_units = units;
        info->valid |= FACET_DEVICE_HAS_COMPUTE_UNITS;
    }
    /* Some runtimes return 0 for an unknown value. */
    if (device_number(device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof clock, &clock) && clock > 0) {
        info->clock_mhz = clock;
        info->valid |= FACET_DEVICE_HAS_CLOCK;
    }
}

static void describe_texts(cl_device_id device, struct facet_device_info *info)
{
    FACET_OPENCL_CLEANUP_TEXT char *vendor = facet_opencl_device_text(device, CL_DEVICE_VENDOR);
    FACET_OPENCL_CLEANUP_TEXT char *version = facet_opencl_device_text(device, CL_DRIVER_VERSION);

    if (vendor)
        FACET_KIT_TEXT(info->vendor, vendor);
    if (version)
        FACET_KIT_TEXT(info->driver_version, version);
}

static void describe_pci(cl_device_id device, const char *extensions, struct facet_device_info *info)
{
    cl_device_pci_bus_info_khr pci;

    if (!has_word(extensions, "cl_khr_pci_bus_info") ||
        !device_number(device, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof pci, &pci))
        return;
    int length = snprintf(info->pci_address, sizeof info->pci_address, "%04x:%02x:%02x.%x", pci.pci_domain, pci.pci_bus,
                          pci.pci_device, pci.pci_function);
    if (length < (int)sizeof info->pci_address)
        info->valid |= FACET_DEVICE_HAS_PCI;
    else
        info->pci_address[0] = '\0';
}

static void describe_identity(cl_device_id device, const char *extensions, struct facet_device_info *info)
{
    unsigned char uuid[CL_UUID_SIZE_KHR];

    if (has_word(extensions, "cl_khr_device_uuid") && device_number(device, CL_DEVICE_UUID_KHR, sizeof uuid, uuid))
        facet_kit_uuid_text(uuid, info->uuid);
    else
        facet_kit_uuid_of(info->address, info->uuid);
}

/* The address ends with the number of earlier devices of the same platform and name; `infos` has those devices. */
static void describe_address(const char *platform, const char *name, const struct facet_device_info *infos,
                             struct facet_device_info *info)
{
    char stem[FACET_OPENCL_ADDRESS_SIZE];
    uint32_t ordinal = 0;

    facet_opencl_address_stem(platform, name, stem);
    for (uint32_t i = 0; i < info->index; i++)
        ordinal += strncmp(infos[i].address, stem, strlen(stem)) == 0;
    facet_opencl_address(platform, name, ordinal, info->address);
}

/* Whether clCreateSubDevices can make sub-devices by counts of units. */
static bool can_partition_by_counts(cl_device_id device)
{
    cl_device_partition_property kinds[16];
    size_t size = 0;
    cl_uint most;

    if (!device_number(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most) || most < 2 ||
        clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, &size) != CL_SUCCESS)
        return false;
    for (size_t i = 0; i < size / sizeof *kinds; i++)
        if (kinds[i] == CL_DEVICE_PARTITION_BY_COUNTS)
            return true;
    return false;
}

/*
 * Time-sharing works on every device. Spatial modes need sub-devices: the units of a worker or a partition are
 * exclusive, so these two modes may be on a device together, but not beside a program that runs on all units.
 */
static void describe_modes(cl_device_id device, struct facet_device_info *info)
{
    info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT);
    info->mode_group[FACET_MODE_SHARED] = info->mode_group[FACET_MODE_SOFT] = 1;
    if (info->compute_units < 2 || info->compute_units > FACET_OPENCL_UNITS_MAX || !can_partition_by_counts(device))
        return;
    info->modes |= FACET_DEVICE_MODE(FACET_MODE_PARTITIONED);
    info->mode_group[FACET_MODE_PARTITIONED] = 2;
    info->capabilities |= FACET_CAN_PARTITION | FACET_CAN_LIMIT_COMPUTE;
    info->max_partitions = info->compute_units;
    info->valid |= FACET_DEVICE_HAS_MAX_PARTITIONS;
    if (!(info->valid & FACET_DEVICE_HAS_MEMORY))
        return;
    info->modes |= FACET_DEVICE_MODE(FACET_MODE_HARD);
    info->mode_group[FACET_MODE_HARD] = 2;
    info->capabilities |= FACET_CAN_LIMIT_MEMORY;
}

static enum facet_status add_device(struct facet_provider_instance *instance, const char *platform, cl_device_id device,
                                    struct facet_error *error)
{
    FACET_OPENCL_CLEANUP_TEXT char *name = facet_opencl_device_text(device, CL_DEVICE_NAME);
    FACET_OPENCL_CLEANUP_TEXT char *extensions = facet_opencl_device_text(device, CL_DEVICE_EXTENSIONS);
    struct facet_device_info *info = &instance->infos[instance->count];

    if (!name)
        return facet_kit_fail(error, FACET_IO, "a device of platform \"%.64s\" does not tell its name", platform);
    *info = (struct facet_device_info){.size = sizeof *info, .index = instance->count};
    FACET_KIT_TEXT(info->name, name[0] ? name : "unnamed");
    info->kind = kind_of(device);
    describe_amounts(device, info);
    describe_modes(device, info);
    describe_texts(device, info);
    describe_address(platform, name, instance->infos, info);
    describe_pci(device, extensions, info);
    describe_identity(device, extensions, info);
    /* OpenCL does not report a GPU's device nodes; a processor needs none. */
    if (info->kind == FACET_DEVICE_CPU)
        info->capabilities |= FACET_CAN_CONTAINER;
    instance->devices[instance->count++] = (struct facet_opencl_device){.id = device};
    return FACET_OK;
}

/* Makes room for `more` devices. */
static bool grow_arrays(struct facet_provider_instance *instance, uint32_t more)
{
    size_t count = (size_t)instance->count + more;
    struct facet_opencl_device *devices = realloc(instance->devices, count * sizeof *devices);

    if (!devices)
        return false;
    instance->devices = devices;
    struct facet_device_info *infos = realloc(instance->infos, count * sizeof *infos);
    if (!infos)
        return false;
    instance->infos = infos;
    return true;
}

static enum facet_status add_devices(struct facet_provider_instance *instance, cl_platform_id platform,
                                     const char *name, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    cl_uint count = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count);

    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0))
        return FACET_OK;
    if (code != CL_SUCCESS)
        return facet_opencl_fail(error, name, code);
    cl_device_id *found = calloc(count, sizeof *found);
    if (!found || !grow_arrays(instance, count))
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %u devices", count);
    if (status == FACET_OK && (code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, found, NULL)) != CL_SUCCESS)
        status = facet_opencl_fail(error, name, code);
    for (cl_uint i = 0; i < count && status == FACET_OK; i++)
        status = add_device(instance, name, found[i], error);
    free(found);
    return status;
}

/* If a platform fails, the provider fails: leaving its devices out silently would be worse. */
static enum facet_status add_platform(struct facet_provider_instance *instance, cl_platform_id platform,
                                      struct facet_error *error)
{
    FACET_OPENCL_CLEANUP_TEXT char *name = facet_opencl_platform_text(platform, CL_PLATFORM_NAME);

    if (!name)
        return facet_kit_fail(error, FACET_IO, "an OpenCL platform does not tell its name");
    return add_devices(instance, platform, name, error);
}

enum facet_status facet_opencl_find_devices(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &count);

    if (code == CL_PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && count == 0))
        return facet_opencl_explain_none(error);
    if (code != CL_SUCCESS)
        return facet_opencl_fail(error, "clGetPlatformIDs", code);
    cl_platform_id *platforms = calloc(count, sizeof(cl_platform_id));
    if (!platforms)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %u platforms", count);
    if ((code = clGetPlatformIDs(count, platforms, NULL)) != CL_SUCCESS)
        status = facet_opencl_fail(error, "clGetPlatformIDs", code);
    for (cl_uint i = 0; i < count && status == FACET_OK; i++)
        status = add_platform(instance, platforms[i], error);
    free(platforms);
    return status;
}
