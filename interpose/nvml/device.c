/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the devices that a program sees, by each of NVML's lookups. A device that is not the tenant's is not found.
 * Never: makes a handle: each one is the library's own.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "hooks.h"
#include "vgpu.h"

/*
 * Attaches after the library's initialisation, because attaching looks devices up in it. Without its vGPUs the program
 * gets no library.
 */
static nvmlReturn_t require_attached(nvmlReturn_t result)
{
    if (result != NVML_SUCCESS)
        return result;
    result = facet_nvml_attach();
    if (result != NVML_SUCCESS)
        facet_nvml_library.nvmlShutdown();
    return result;
}

nvmlReturn_t facet_nvmlInit(void)
{
    return require_attached(facet_nvml_library.nvmlInit());
}

nvmlReturn_t facet_nvmlInit_v2(void)
{
    return require_attached(facet_nvml_library.nvmlInit_v2());
}

nvmlReturn_t facet_nvmlInitWithFlags(unsigned flags)
{
    return require_attached(facet_nvml_library.nvmlInitWithFlags(flags));
}

static nvmlReturn_t visible_count(nvmlReturn_t result, unsigned *count)
{
    if (result == NVML_SUCCESS)
        *count = facet_nvml_count();
    return result;
}

nvmlReturn_t facet_nvmlDeviceGetCount(unsigned *count)
{
    return visible_count(facet_nvml_library.nvmlDeviceGetCount(count), count);
}

nvmlReturn_t facet_nvmlDeviceGetCount_v2(unsigned *count)
{
    return visible_count(facet_nvml_library.nvmlDeviceGetCount_v2(count), count);
}

/* Asks the library for its count first: if it is not initialised, its error is returned. */
static nvmlReturn_t device_by_index(unsigned index, nvmlDevice_t *device)
{
    unsigned count;
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetCount(&count);

    if (result != NVML_SUCCESS)
        return result;
    return device ? facet_nvml_device(index, device) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t facet_nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
    return device_by_index(index, device);
}

nvmlReturn_t facet_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    return device_by_index(index, device);
}

static nvmlReturn_t visible_device(nvmlReturn_t result, nvmlDevice_t found, nvmlDevice_t *ret_device)
{
    if (result != NVML_SUCCESS)
        return result;
    if (!facet_nvml_owner(found))
        return NVML_ERROR_NOT_FOUND;
    *ret_device = found;
    return NVML_SUCCESS;
}

/* The library refuses a NULL handle itself. */
#define GET_HANDLE_BY(symbol, type, key)                                                                               \
    nvmlReturn_t facet_##symbol(type key, nvmlDevice_t *device)                                                        \
    {                                                                                                                  \
        nvmlDevice_t found = NULL;                                                                                     \
        nvmlReturn_t result = facet_nvml_library.symbol(key, device ? &found : NULL);                                  \
                                                                                                                       \
        return visible_device(result, found, device);                                                                  \
    }
GET_HANDLE_BY(nvmlDeviceGetHandleByUUID, const char *, uuid)
GET_HANDLE_BY(nvmlDeviceGetHandleByUUIDV, const nvmlUUID_t *, uuid)
GET_HANDLE_BY(nvmlDeviceGetHandleBySerial, const char *, serial)
GET_HANDLE_BY(nvmlDeviceGetHandleByPciBusId, const char *, bus_id)
GET_HANDLE_BY(nvmlDeviceGetHandleByPciBusId_v2, const char *, bus_id)

nvmlReturn_t facet_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetIndex(device, index);

    /* The index of a MIG device is its number on its GPU, and is not changed. */
    if (result == NVML_SUCCESS)
        facet_nvml_index(device, index);
    return result;
}

nvmlReturn_t facet_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *mig)
{
    nvmlDevice_t found = NULL;
    nvmlReturn_t result,
        answer = facet_nvml_library.nvmlDeviceGetMigDeviceHandleByIndex(device, index, mig ? &found : NULL);

    if (answer != NVML_SUCCESS && answer != NVML_ERROR_NOT_FOUND)
        return answer;
    if (facet_nvml_mig_device(device, index, &found, &result))
        answer = result;
    if (answer == NVML_SUCCESS)
        *mig = found;
    return answer;
}

/* Counts the visible devices of `library_devices` in `*count`, and copies as many as `*count` gave room for. */
static void copy_visible(const nvmlDevice_t *library_devices, unsigned library_count, unsigned *count,
                         nvmlDevice_t *devices)
{
    unsigned copied = 0, room = *count;

    for (unsigned i = 0; i < library_count; i++) {
        unsigned index;

        if (!facet_nvml_index(library_devices[i], &index))
            continue;
        if (copied < room)
            devices[copied] = library_devices[i];
        copied++;
    }
    *count = copied;
}

nvmlReturn_t facet_nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned *count,
                                                    nvmlDevice_t *devices)
{
    unsigned library_count = 0;
    nvmlReturn_t result =
        facet_nvml_library.nvmlDeviceGetTopologyNearestGpus(device, level, count ? &library_count : NULL, NULL);

    if (result != NVML_SUCCESS)
        return result;
    FACET_CLEANUP_FREE nvmlDevice_t *library_devices = calloc(library_count + 1, sizeof *library_devices);
    if (!library_devices)
        return NVML_ERROR_MEMORY;
    if (library_count)
        result = facet_nvml_library.nvmlDeviceGetTopologyNearestGpus(device, level, &library_count, library_devices);
    if (result == NVML_SUCCESS)
        copy_visible(library_devices, library_count, count, devices);
    return result;
}

nvmlReturn_t facet_nvmlSystemGetTopologyGpuSet(unsigned cpu, unsigned *count, nvmlDevice_t *devices)
{
    unsigned library_count = 0;
    nvmlReturn_t result = facet_nvml_library.nvmlSystemGetTopologyGpuSet(cpu, count ? &library_count : NULL, NULL);

    if (result != NVML_SUCCESS)
        return result;
    FACET_CLEANUP_FREE nvmlDevice_t *library_devices = calloc(library_count + 1, sizeof *library_devices);
    if (!library_devices)
        return NVML_ERROR_MEMORY;
    if (library_count)
        result = facet_nvml_library.nvmlSystemGetTopologyGpuSet(cpu, &library_count, library_devices);
    if (result == NVML_SUCCESS)
        copy_visible(library_devices, library_count, count, devices);
    return result;
}
