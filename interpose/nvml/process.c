/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: lists of processes, reduced to those of the tenant's vGPU.
 * Never: names a process that is not in the vGPU.
 *
 * The library's entry of a process of the vGPU is kept. In a pid namespace the library lists processes under pids other
 * than those that they have there. So a process of the vGPU that holds memory and is in no list is added, with the
 * limiter's figure.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "hooks.h"
#include "vgpu.h"

#define READ_TRIES 8 /* a list may grow between two calls */

/* Every form of an entry is a prefix of this one, so a list of these can be returned in any form. */
typedef nvmlProcessDetail_v1_t entry;
_Static_assert(offsetof(entry, usedGpuMemory) == offsetof(nvmlProcessInfo_v1_t, usedGpuMemory),
               "nvmlProcessInfo_v1_t is a prefix of an entry");
_Static_assert(offsetof(entry, computeInstanceId) == offsetof(nvmlProcessInfo_t, computeInstanceId),
               "nvmlProcessInfo_t is a prefix of an entry");

struct list {
    entry *entries;
    unsigned count;
};

/* The library's functions for one kind of list, newest first; NULL if the library lacks the function. */
struct source {
    nvmlReturn_t (*by_v2[2])(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
    nvmlReturn_t (*by_v1)(nvmlDevice_t, unsigned *, nvmlProcessInfo_v1_t *);
};

#define SOURCE(name)                                                                                                   \
    {                                                                                                                  \
        {facet_nvml_library.name##_v3, facet_nvml_library.name##_v2}, facet_nvml_library.name                          \
    }

static struct source source_of(unsigned mode)
{
    switch (mode) {
    case NVML_PROCESS_MODE_COMPUTE:
        return (struct source)SOURCE(nvmlDeviceGetComputeRunningProcesses);
    case NVML_PROCESS_MODE_GRAPHICS:
        return (struct source)SOURCE(nvmlDeviceGetGraphicsRunningProcesses);
    default:
        return (struct source)SOURCE(nvmlDeviceGetMPSComputeRunningProcesses);
    }
}

/* One call for at most *count entries, into memory with room for that many entries of the largest form. */
static nvmlReturn_t query_processes(const struct source *source, nvmlDevice_t device, unsigned *count, void *raw,
                                    size_t *ret_size)
{
    *ret_size = sizeof(nvmlProcessInfo_t);
    if (source->by_v2[0])
        return source->by_v2[0](device, count, raw);
    if (source->by_v2[1])
        return source->by_v2[1](device, count, raw);
    *ret_size = sizeof(nvmlProcessInfo_v1_t);
    return source->by_v1 ? source->by_v1(device, count, raw) : NVML_ERROR_FUNCTION_NOT_FOUND;
}

static entry *widen_entries(const char *raw, unsigned count, size_t size)
{
    entry *entries = calloc(count + FACET_SEGMENT_SLOTS, sizeof *entries);

    for (unsigned i = 0; entries && i < count; i++) {
        entries[i].gpuInstanceId = entries[i].computeInstanceId = NVML_NO_INSTANCE;
        memcpy(&entries[i], raw + i * size, size);
    }
    return entries;
}

/* The library's list, with room for the vGPU's own processes at the end; the caller frees `entries`. */
static nvmlReturn_t read_list(unsigned mode, nvmlDevice_t device, struct list *ret_list)
{
    struct source source = source_of(mode);
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;
    unsigned room = 64;

    for (int i = 0; i < READ_TRIES && result == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
        FACET_CLEANUP_FREE void *raw = calloc(room, sizeof(nvmlProcessInfo_t));
        unsigned count = room;
        size_t size;

        if (!raw)
            return NVML_ERROR_MEMORY;
        result = query_processes(&source, device, &count, raw, &size);
        if (result == NVML_SUCCESS) {
            *ret_list = (struct list){widen_entries(raw, count, size), count};
            return ret_list->entries ? NVML_SUCCESS : NVML_ERROR_MEMORY;
        }
        room = count + 64;
    }
    return result;
}

/* The vGPU's processes, and whether each was found in a list. */
struct tenant_processes {
    struct facet_nvml_process processes[FACET_SEGMENT_SLOTS];
    bool listed[FACET_SEGMENT_SLOTS];
    unsigned count;
};

static void keep_tenant_entries(struct list *list, struct tenant_processes *tenant_processes)
{
    unsigned kept_count = 0, index;

    for (unsigned i = 0; i < list->count; i++) {
        if (!facet_nvml_find_process(list->entries[i].pid, tenant_processes->processes, tenant_processes->count,
                                     &index))
            continue;
        tenant_processes->listed[index] = true;
        list->entries[kept_count++] = list->entries[i];
    }
    list->count = kept_count;
}

/* A process that computes through the MPS daemon is in the MPS list, and not in the compute list. */
static void mark_listed(unsigned mode, nvmlDevice_t device, struct tenant_processes *tenant_processes)
{
    struct list list = {0};

    if (read_list(mode, device, &list) == NVML_SUCCESS)
        keep_tenant_entries(&list, tenant_processes);
    free(list.entries);
}

static void add_unlisted(struct list *list, const struct tenant_processes *tenant_processes)
{
    for (unsigned i = 0; i < tenant_processes->count; i++)
        if (!tenant_processes->listed[i] && tenant_processes->processes[i].memory_bytes)
            list->entries[list->count++] = (entry){.pid = tenant_processes->processes[i].pid,
                                                   .usedGpuMemory = tenant_processes->processes[i].memory_bytes,
                                                   .gpuInstanceId = NVML_NO_INSTANCE,
                                                   .computeInstanceId = NVML_NO_INSTANCE};
}

static nvmlReturn_t reduce_to_tenant(unsigned mode, nvmlDevice_t device, struct list *list)
{
    const struct facet_nvml_vgpu *vgpu = facet_nvml_owner(device);

    if (!vgpu)
        return NVML_ERROR_NO_PERMISSION;
    FACET_CLEANUP_FREE struct tenant_processes *tenant_processes = calloc(1, sizeof *tenant_processes);
    if (!tenant_processes)
        return NVML_ERROR_MEMORY;
    tenant_processes->count = facet_nvml_processes(vgpu, tenant_processes->processes);
    keep_tenant_entries(list, tenant_processes);
    if (mode == NVML_PROCESS_MODE_COMPUTE && facet_nvml_vgpu(device)) {
        mark_listed(NVML_PROCESS_MODE_MPS, device, tenant_processes);
        add_unlisted(list, tenant_processes);
    }
    return NVML_SUCCESS;
}

/* Returns the first `size` bytes of each entry, as the library would. */
static nvmlReturn_t copy_entries(const struct list *list, unsigned *count, void *entries, size_t size)
{
    unsigned room = *count;

    *count = list->count;
    if (list->count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < list->count; i++)
        memcpy((char *)entries + i * size, &list->entries[i], size);
    return NVML_SUCCESS;
}

static nvmlReturn_t list_tenant_entries(unsigned mode, nvmlDevice_t device, unsigned *count, void *entries, size_t size)
{
    struct list list = {0};
    nvmlReturn_t result = read_list(mode, device, &list);

    if (result == NVML_SUCCESS && (!count || (!entries && *count)))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = reduce_to_tenant(mode, device, &list);
    if (result == NVML_SUCCESS)
        result = copy_entries(&list, count, entries, size);
    free(list.entries);
    return result;
}

#define LIST(symbol, type, mode)                                                                                       \
    nvmlReturn_t facet_##symbol(nvmlDevice_t device, unsigned *count, type *list)                                      \
    {                                                                                                                  \
        return list_tenant_entries(mode, device, count, list, sizeof *list);                                           \
    }
LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, NVML_PROCESS_MODE_COMPUTE)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_t, NVML_PROCESS_MODE_COMPUTE)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, NVML_PROCESS_MODE_COMPUTE)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, NVML_PROCESS_MODE_GRAPHICS)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t, NVML_PROCESS_MODE_GRAPHICS)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, NVML_PROCESS_MODE_GRAPHICS)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, NVML_PROCESS_MODE_MPS)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t, NVML_PROCESS_MODE_MPS)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, NVML_PROCESS_MODE_MPS)

static nvmlReturn_t read_details(nvmlDevice_t device, const nvmlProcessDetailList_v1_t *wanted, struct list *ret_list)
{
    nvmlProcessDetailList_v1_t details = {.version = wanted->version, .mode = wanted->mode, .numProcArrayEntries = 64};
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;

    for (int i = 0; i < READ_TRIES && result == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
        free(details.procArray);
        details.numProcArrayEntries += 64;
        details.procArray = calloc(details.numProcArrayEntries + FACET_SEGMENT_SLOTS, sizeof(entry));
        if (!details.procArray)
            return NVML_ERROR_MEMORY;
        result = facet_nvml_library.nvmlDeviceGetRunningProcessDetailList(device, &details);
    }
    *ret_list = (struct list){details.procArray, details.numProcArrayEntries};
    return result;
}

/* A newer, unknown form of the struct cannot be reduced, so it is refused. */
nvmlReturn_t facet_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
    struct list details = {0};

    if (!list)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (list->version != VENDOR_NVML_VERSION(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;

    nvmlReturn_t result = read_details(device, list, &details);
    if (result == NVML_SUCCESS && !list->procArray && list->numProcArrayEntries)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        result = reduce_to_tenant(list->mode, device, &details);
    if (result == NVML_SUCCESS)
        result = copy_entries(&details, &list->numProcArrayEntries, list->procArray, sizeof(entry));
    free(details.entries);
    return result;
}

/* The vGPU of a process that has ended is not known, so only live processes are returned. */
nvmlReturn_t facet_nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned *count, unsigned *pids)
{
    unsigned kept_count = 0, index;
    nvmlReturn_t result = facet_nvml_library.nvmlDeviceGetAccountingPids(device, count, pids);
    const struct facet_nvml_vgpu *vgpu = facet_nvml_owner(device);

    if (result != NVML_SUCCESS || !pids)
        return result;
    if (!vgpu)
        return NVML_ERROR_NO_PERMISSION;
    FACET_CLEANUP_FREE struct tenant_processes *tenant_processes = calloc(1, sizeof *tenant_processes);
    if (!tenant_processes)
        return NVML_ERROR_MEMORY;
    tenant_processes->count = facet_nvml_processes(vgpu, tenant_processes->processes);
    for (unsigned i = 0; i < *count; i++)
        if (facet_nvml_find_process(pids[i], tenant_processes->processes, tenant_processes->count, &index))
            pids[kept_count++] = pids[i];
    *count = kept_count;
    return NVML_SUCCESS;
}
