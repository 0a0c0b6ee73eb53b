/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the processes on a GPU and its partitions with their memory, by AMD SMI or the compute driver's files.
 * Never: reports running time: neither source counts the time of compute queues.
 */
#include <dirent.h>
#include <stdlib.h>

#include "rocm.h"
#include "sysfs.h"

#define PROCESSES "/sys/class/kfd/kfd/proc"
#define NOT_KNOWN UINT32_MAX
#define TRIES     8 /* a list may grow between two calls */

struct list {
    struct rocm_process *items;
    uint32_t count;
};

static bool append_process(struct list *list, const struct rocm_process *process)
{
    struct rocm_process *items = realloc(list->items, (list->count + 1) * sizeof *items);

    if (!items)
        return false;
    list->items = items;
    items[list->count++] = *process;
    return true;
}

static bool folder_of(char *path, size_t size)
{
    return rocm_path(path, size, PROCESSES);
}

bool rocm_can_list_processes(const struct rocm_smi *smi)
{
    char path[1024];

    if (smi->amdsmi_get_gpu_process_list)
        return true;
    DIR *entries = folder_of(path, sizeof path) ? opendir(path) : NULL;
    if (entries)
        closedir(entries);
    return entries != NULL;
}

/* --- by AMD SMI --- */

static amdsmi_status_t read_list(const struct rocm_smi *smi, amdsmi_processor_handle handle, uint32_t partition,
                                 struct list *list)
{
    amdsmi_status_t result = AMDSMI_STATUS_OUT_OF_RESOURCES;
    uint32_t room = 64;

    for (int i = 0; i < TRIES && result == AMDSMI_STATUS_OUT_OF_RESOURCES; i++) {
        amdsmi_proc_info_t *found = calloc(room, sizeof *found);
        uint32_t count = room;

        if (!found)
            return AMDSMI_STATUS_OUT_OF_RESOURCES;
        result = smi->amdsmi_get_gpu_process_list(handle, &count, found);
        for (uint32_t p = 0; result == AMDSMI_STATUS_SUCCESS && p < count && p < room; p++) {
            const struct rocm_process process = {.pid = (int32_t)found[p].pid,
                                                 .partition = partition,
                                                 .memory_bytes = found[p].memory_usage.vram_mem,
                                                 .has_units = found[p].cu_occupancy != NOT_KNOWN,
                                                 .units =
                                                     found[p].cu_occupancy != NOT_KNOWN ? found[p].cu_occupancy : 0};
            if (!append_process(list, &process))
                result = AMDSMI_STATUS_OUT_OF_RESOURCES;
        }
        free(found);
        room = count + 64;
    }
    return result;
}

static amdsmi_status_t read_by_smi(const struct rocm_smi *smi, const struct rocm_gpu *gpu, struct list *list)
{
    amdsmi_processor_handle processors[GPU_MOST];
    uint32_t count = GPU_MOST;
    amdsmi_status_t result = smi->amdsmi_get_processor_handles(gpu->socket, &count, processors);

    for (uint32_t i = 0; result == AMDSMI_STATUS_SUCCESS && i < count; i++) {
        amdsmi_kfd_info_t info = {.current_partition_id = NOT_KNOWN};

        /* A partition without a number is identified by its position in the list of processors. */
        ROCM_SMI(smi, amdsmi_get_gpu_kfd_info, processors[i], &info);
        result =
            read_list(smi, processors[i], info.current_partition_id != NOT_KNOWN ? info.current_partition_id : i, list);
        if (result == AMDSMI_STATUS_NOT_FOUND && i > 0) /* the GPU's mode was changed meanwhile */
            result = AMDSMI_STATUS_SUCCESS;
    }
    return result;
}

/* --- by the compute driver --- */

static enum facet_status read_by_kernel(const struct rocm_gpu *gpu, struct list *list, struct facet_error *error)
{
    struct rocm_node nodes[ROCM_MAX_PARTS];
    uint32_t node_count = rocm_nodes_of(gpu->pci, nodes, ROCM_MAX_PARTS);
    enum facet_status status = FACET_OK;
    const struct dirent *entry;
    char folder[1024], path[1400];
    DIR *entries = folder_of(folder, sizeof folder) ? opendir(folder) : NULL;

    while (entries && status == FACET_OK && (entry = readdir(entries))) {
        int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);

        for (uint32_t i = 0; pid > 0 && i < node_count; i++) {
            struct rocm_process process = {.pid = pid, .partition = nodes[i].partition};

            snprintf(path, sizeof path, "%s/%s/vram_%" PRIu32, folder, entry->d_name, nodes[i].gpu_id);
            /* A process has a file for every GPU, and may end meanwhile. */
            if (rocm_read_number(path, &process.memory_bytes) && process.memory_bytes &&
                !append_process(list, &process))
                status = facet_kit_fail(error, FACET_NO_MEMORY, "no memory for the processes");
        }
    }
    if (entries)
        closedir(entries);
    return status;
}

static int compare_processes(const void *left, const void *right)
{
    const struct rocm_process *one = left, *other = right;

    if (one->pid != other->pid)
        return one->pid < other->pid ? -1 : 1;
    return (one->partition > other->partition) - (one->partition < other->partition);
}

/* Leaves one entry for each part of a GPU that a process uses. */
static void merge_duplicates(struct list *list)
{
    uint32_t kept_count = 0;

    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, compare_processes);
    for (uint32_t i = 0; i < list->count; i++) {
        struct rocm_process *last = kept_count ? &list->items[kept_count - 1] : NULL;

        if (last && last->pid == list->items[i].pid && last->partition == list->items[i].partition)
            last->memory_bytes += list->items[i].memory_bytes;
        else
            list->items[kept_count++] = list->items[i];
    }
    list->count = kept_count;
}

enum facet_status rocm_processes_read(const struct facet_provider_instance *instance, uint32_t device,
                                      struct rocm_process **ret_processes, uint32_t *ret_count,
                                      struct facet_error *error)
{
    const struct rocm_gpu *gpu = &instance->gpus[device];
    struct list list = {0};
    enum facet_status status = FACET_OK;

    if (gpu->handle && instance->smi.amdsmi_get_gpu_process_list) {
        amdsmi_status_t result = read_by_smi(&instance->smi, gpu, &list);
        if (result != AMDSMI_STATUS_SUCCESS)
            status = rocm_smi_fail(&instance->smi, error, "amdsmi_get_gpu_process_list", result);
    } else {
        status = read_by_kernel(gpu, &list, error);
    }
    if (status != FACET_OK) {
        free(list.items);
        return status;
    }
    merge_duplicates(&list);
    *ret_processes = list.items;
    *ret_count = list.count;
    return FACET_OK;
}
