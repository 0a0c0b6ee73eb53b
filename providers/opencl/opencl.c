/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL provider: every root device of every platform that the ICD loader offers.
 *
 * Owns: describing those devices. `address` is written by facet/opencl_address.h, which the layer in a tenant uses too.
 * Never: creates a context, a queue or a buffer, so listing costs nothing on the device.
 *
 * Identity: the uuid is CL_DEVICE_UUID_KHR where the device offers it; else it is a hash of the address, which changes
 * when a device of the same name is added before this one.
 * Environment: with OPENCL_LAYERS set the ICD loader puts layers, ours among them, between this provider and the
 * devices, and it would describe a vGPU. Whoever wants the devices as they are (the daemon) clears that variable.
 * Sub-devices (clCreateSubDevices) are not listed: they are partitions, for which the ABI has no table yet.
 */
#include <facet/provider.h>

#include <stdlib.h>

#include <CL/cl.h>
#include <CL/cl_ext.h>

#include <facet/limits.h>
#include <facet/opencl_address.h>

#include "provider_kit.h"

struct facet_provider_instance {
    cl_device_id *ids;
    struct facet_device_info *infos;
    uint32_t count;
};

static void free_text(char **text)
{
    free(*text);
}

#define CLEANUP_TEXT __attribute__((cleanup(free_text)))

static enum facet_status opencl_fail(struct facet_error *error, const char *what, cl_int code)
{
    return facet_kit_fail(error, code == CL_OUT_OF_HOST_MEMORY ? FACET_NO_MEMORY : FACET_IO, "%s: OpenCL error %d",
                          what, (int)code);
}

/* A text that the caller frees; NULL when the device or platform does not tell it. */
static char *platform_text(cl_platform_id platform, cl_platform_info what)
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

static char *device_text(cl_device_id device, cl_device_info what)
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
    /* Some runtimes answer 0 where they do not know. */
    if (device_number(device, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof clock, &clock) && clock > 0) {
        info->clock_mhz = clock;
        info->valid |= FACET_DEVICE_HAS_CLOCK;
    }
}

static void describe_texts(cl_device_id device, struct facet_device_info *info)
{
    CLEANUP_TEXT char *vendor = device_text(device, CL_DEVICE_VENDOR);
    CLEANUP_TEXT char *version = device_text(device, CL_DRIVER_VERSION);

    if (vendor)
        FACET_KIT_TEXT(info->vendor, vendor);
    if (version)
        FACET_KIT_TEXT(info->driver_version, version);
}

static void describe_place(cl_device_id device, const char *extensions, struct facet_device_info *info)
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

/* The address counts the devices of the same stem that come before; `infos` holds those. */
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

static enum facet_status add_device(struct facet_provider_instance *instance, const char *platform, cl_device_id device,
                                    struct facet_error *error)
{
    CLEANUP_TEXT char *name = device_text(device, CL_DEVICE_NAME);
    CLEANUP_TEXT char *extensions = device_text(device, CL_DEVICE_EXTENSIONS);
    struct facet_device_info *info = &instance->infos[instance->count];

    if (!name)
        return facet_kit_fail(error, FACET_IO, "a device of platform \"%.64s\" does not tell its name", platform);
    *info = (struct facet_device_info){.size = sizeof *info, .index = instance->count};
    FACET_KIT_TEXT(info->name, name[0] ? name : "unnamed");
    info->kind = kind_of(device);
    info->modes = FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT);
    describe_amounts(device, info);
    describe_texts(device, info);
    describe_address(platform, name, instance->infos, info);
    describe_place(device, extensions, info);
    describe_identity(device, extensions, info);
    instance->ids[instance->count++] = device;
    return FACET_OK;
}

/* Makes room for `more` devices. */
static bool grow(struct facet_provider_instance *instance, uint32_t more)
{
    size_t count = (size_t)instance->count + more;
    cl_device_id *ids = realloc(instance->ids, count * sizeof *ids);

    if (!ids)
        return false;
    instance->ids = ids;
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
        return opencl_fail(error, name, code);
    cl_device_id *found = calloc(count, sizeof *found);
    if (!found || !grow(instance, count))
        status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %u devices", count);
    if (status == FACET_OK && (code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, found, NULL)) != CL_SUCCESS)
        status = opencl_fail(error, name, code);
    for (cl_uint i = 0; i < count && status == FACET_OK; i++)
        status = add_device(instance, name, found[i], error);
    free(found);
    return status;
}

/* A platform that fails fails the provider: to leave its devices out without a word would be worse. */
static enum facet_status add_platform(struct facet_provider_instance *instance, cl_platform_id platform,
                                      struct facet_error *error)
{
    CLEANUP_TEXT char *name = platform_text(platform, CL_PLATFORM_NAME);

    if (!name)
        return facet_kit_fail(error, FACET_IO, "an OpenCL platform does not tell its name");
    return add_devices(instance, platform, name, error);
}

static enum facet_status add_platforms(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = FACET_OK;
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(0, NULL, &count);

    if (code == CL_PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && count == 0))
        return FACET_OK;
    if (code != CL_SUCCESS)
        return opencl_fail(error, "clGetPlatformIDs", code);
    cl_platform_id *platforms = calloc(count, sizeof(cl_platform_id));
    if (!platforms)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for %u platforms", count);
    if ((code = clGetPlatformIDs(count, platforms, NULL)) != CL_SUCCESS)
        status = opencl_fail(error, "clGetPlatformIDs", code);
    for (cl_uint i = 0; i < count && status == FACET_OK; i++)
        status = add_platform(instance, platforms[i], error);
    free(platforms);
    return status;
}

static void opencl_close(struct facet_provider_instance *instance)
{
    if (!instance)
        return;
    free(instance->ids);
    free(instance->infos);
    free(instance);
}

static enum facet_status opencl_open(struct facet_provider_instance **ret_instance, struct facet_error *error)
{
    struct facet_provider_instance *instance = calloc(1, sizeof *instance);

    if (!instance)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an instance");
    enum facet_status status = add_platforms(instance, error);
    if (status == FACET_OK)
        *ret_instance = instance;
    else
        opencl_close(instance);
    return status;
}

static enum facet_status opencl_list(struct facet_provider_instance *instance, void *infos, uint32_t info_size,
                                     uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return facet_kit_list(instance->infos, instance->count, infos, info_size, capacity, ret_count, error);
}

static enum facet_status opencl_health(struct facet_provider_instance *instance, uint32_t index, uint32_t *ret_health,
                                       struct facet_error *error)
{
    cl_bool available = CL_FALSE;

    if (index >= instance->count)
        return facet_kit_fail(error, FACET_NOT_FOUND, "device %" PRIu32 ": expected less than %" PRIu32, index,
                              instance->count);
    cl_int code = clGetDeviceInfo(instance->ids[index], CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    if (code != CL_SUCCESS)
        return opencl_fail(error, "CL_DEVICE_AVAILABLE", code);
    *ret_health = available ? FACET_HEALTH_OK : FACET_HEALTH_FAILED;
    return FACET_OK;
}

static const struct facet_device_ops device_ops = {
    .size = sizeof device_ops,
    .open = opencl_open,
    .close = opencl_close,
    .list = opencl_list,
    .health = opencl_health,
};

static const struct facet_provider provider = {
    .size = sizeof provider,
    .abi_major = FACET_PROVIDER_ABI_MAJOR,
    .abi_minor = FACET_PROVIDER_ABI_MINOR,
    .name = "opencl",
    .version = FACET_VERSION,
    .description = "Every device of the installed OpenCL runtimes",
    .device = &device_ops,
};

enum facet_status facet_provider_entry(const struct facet_provider_host *host,
                                       const struct facet_provider **ret_provider)
{
    enum facet_status status = facet_kit_check_host(host);

    if (status == FACET_OK)
        *ret_provider = &provider;
    return status;
}
