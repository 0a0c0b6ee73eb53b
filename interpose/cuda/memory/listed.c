/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: NVML's lists and totals. Never: opens the library before the driver was initialised, or in a constructor. */
#include "listed.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "interpose/kit/real.h"
#include "vendor/cuda/nvml.h"

#define MOST_PROCESSES      512u
#define FIRST_PID_NAMESPACE "pid:[4026531836]" /* PROC_PID_INIT_INO: the initial namespace */

static const char *const folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/run/opengl-driver/lib", NULL};
static const struct facet_real real = {
    .soname = "libnvidia-ml.so.1", .variable = "FACET_REAL_NVML", .folders = folders};

/* The two forms of a list, whose entries differ: the newest that the library has is used. */
typedef nvmlReturn_t list_v2(nvmlDevice_t, unsigned *, nvmlProcessInfo_t *);
typedef nvmlReturn_t list_v1(nvmlDevice_t, unsigned *, nvmlProcessInfo_v1_t *);

static struct {
    bool searched, usable;
    __typeof__(&nvmlInit_v2) init;
    __typeof__(&nvmlDeviceGetHandleByUUID) by_uuid;
    __typeof__(&nvmlDeviceGetMemoryInfo) memory;
    list_v2 *lists_v2[2]; /* processes that compute directly, and through the MPS daemon */
    list_v1 *lists_v1[2];
} library;

static void *either_symbol(void *handle, const char *newest, const char *older)
{
    void *found = dlsym(handle, newest);

    return found ? found : dlsym(handle, older);
}

static void fill_table(void *handle)
{
    library.init = (__typeof__(library.init))either_symbol(handle, "nvmlInit_v2", "nvmlInit");
    library.by_uuid = (__typeof__(library.by_uuid))dlsym(handle, "nvmlDeviceGetHandleByUUID");
    library.memory = (__typeof__(library.memory))dlsym(handle, "nvmlDeviceGetMemoryInfo");
    library.lists_v2[0] = (list_v2 *)either_symbol(handle, "nvmlDeviceGetComputeRunningProcesses_v3",
                                                   "nvmlDeviceGetComputeRunningProcesses_v2");
    library.lists_v2[1] = (list_v2 *)either_symbol(handle, "nvmlDeviceGetMPSComputeRunningProcesses_v3",
                                                   "nvmlDeviceGetMPSComputeRunningProcesses_v2");
    library.lists_v1[0] = (list_v1 *)dlsym(handle, "nvmlDeviceGetComputeRunningProcesses");
    library.lists_v1[1] = (list_v1 *)dlsym(handle, "nvmlDeviceGetMPSComputeRunningProcesses");
}

static bool open_library(void)
{
    void *handle = library.searched ? NULL : facet_real_open(&real);

    library.searched = true;
    if (handle)
        fill_table(handle);
    if (handle && library.init && library.by_uuid)
        library.usable = library.init() == NVML_SUCCESS;
    return library.usable;
}

/* A MIG device has a UUID of its own. */
static bool find_device(const struct facet_tenant *tenant, nvmlDevice_t *ret_device)
{
    char uuid[sizeof tenant->policy->device.address];

    memcpy(uuid, tenant->policy->device.address, sizeof uuid); /* terminated: attaching has checked it (process.c) */
    return library.by_uuid(uuid, ret_device) == NVML_SUCCESS;
}

static bool is_own_entry(unsigned pid, unsigned long long bytes, uint64_t *ret_bytes)
{
    if (pid != (unsigned)getpid() || bytes == (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
        return false;
    *ret_bytes = bytes;
    return true;
}

static bool find_own_v2(list_v2 *list, nvmlDevice_t device, uint64_t *ret_bytes)
{
    static nvmlProcessInfo_t entries[MOST_PROCESSES];
    unsigned count = MOST_PROCESSES;

    if (list(device, &count, entries) != NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (is_own_entry(entries[i].pid, entries[i].usedGpuMemory, ret_bytes))
            return true;
    return false;
}

static bool find_own_v1(list_v1 *list, nvmlDevice_t device, uint64_t *ret_bytes)
{
    static nvmlProcessInfo_v1_t entries[MOST_PROCESSES];
    unsigned count = MOST_PROCESSES;

    if (list(device, &count, entries) != NVML_SUCCESS)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (is_own_entry(entries[i].pid, entries[i].usedGpuMemory, ret_bytes))
            return true;
    return false;
}

bool facet_cuda_process_bytes(const struct facet_tenant *tenant, uint64_t *ret_bytes)
{
    nvmlDevice_t device;

    if (!(library.usable || open_library()) || !find_device(tenant, &device))
        return false;
    for (int i = 0; i < 2; i++) {
        if (library.lists_v2[i] ? find_own_v2(library.lists_v2[i], device, ret_bytes)
                                : library.lists_v1[i] && find_own_v1(library.lists_v1[i], device, ret_bytes))
            return true;
    }
    return false;
}

static bool is_in_first_pid_namespace(void)
{
    char name[sizeof FIRST_PID_NAMESPACE + 1];
    ssize_t length = readlink("/proc/self/ns/pid", name, sizeof name);

    return length == sizeof FIRST_PID_NAMESPACE - 1 && memcmp(name, FIRST_PID_NAMESPACE, (size_t)length) == 0;
}

bool facet_cuda_is_listable(const struct facet_tenant *tenant)
{
    nvmlDevice_t device;

    return (library.usable || open_library()) && find_device(tenant, &device) && is_in_first_pid_namespace();
}

bool facet_cuda_device_bytes(const struct facet_tenant *tenant, uint64_t *ret_bytes)
{
    nvmlMemory_t memory;
    nvmlDevice_t device;

    if (!(library.usable || open_library()) || !library.memory || !find_device(tenant, &device) ||
        library.memory(device, &memory) != NVML_SUCCESS)
        return false;
    *ret_bytes = memory.used;
    return true;
}

void facet_cuda_listed_forked(void)
{
    library.searched = library.usable = false;
}
