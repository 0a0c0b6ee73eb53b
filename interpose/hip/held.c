/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the compute driver's files. Never: keeps a file open, or caches a figure. */
#include "held.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

#define KFD        "/sys/class/kfd/kfd"
#define MOST_NODES 256u
#define MOST_PARTS 8u                 /* parts of a partitioned GPU, if the driver gives each the GPU's own id */
#define FIRST_PIDS "pid:[4026531836]" /* PROC_PID_INIT_INO: the initial namespace */

/* A device's nodes, searched once. */
static struct {
    bool searched;
    uint32_t count;
    uint64_t gpu_ids[MOST_PARTS];
} found[FACET_HIP_TENANTS];

__attribute__((format(printf, 2, 3))) static bool path_of(char path[1024], const char *format, ...)
{
    const char *root = getenv("FACET_ROCM_ROOT");
    size_t start = root ? strlen(root) : 0;
    va_list arguments;

    if (start >= 1024)
        return false;
    memcpy(path, root ? root : "", start);
    va_start(arguments, format);
    int length = vsnprintf(path + start, 1024 - start, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < 1024 - start;
}

static bool read_number(const char *path, uint64_t *ret_value)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    bool read = fscanf(file, "%" SCNu64, ret_value) == 1;
    fclose(file);
    return read;
}

static bool counts_as_the_kernel(void)
{
    char path[1024], name[64];

    if (!path_of(path, "/proc/self/ns/pid"))
        return false;
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0)
        return false;
    name[length] = '\0';
    return strcmp(name, FIRST_PIDS) == 0;
}

static bool is_node_of(uint32_t number, uint64_t unique_id)
{
    char path[1024], name[64];
    uint64_t value;
    bool is_it = false;
    FILE *file = path_of(path, KFD "/topology/nodes/%" PRIu32 "/properties", number) ? fopen(path, "re") : NULL;

    while (file && !is_it && fscanf(file, "%63s %" SCNu64, name, &value) == 2)
        is_it = strcmp(name, "unique_id") == 0 && value == unique_id;
    if (file)
        fclose(file);
    return is_it;
}

static void search_processes(uint32_t device)
{
    const struct facet_tenant *tenant = &facet_hip_process.tenants[device];
    const char *digits = tenant->policy->device.address + strlen(VENDOR_HIP_ADDRESS);
    uint64_t unique_id = strtoull(digits, NULL, 16), gpu_id;
    char path[1024];

    found[device].count = 0;
    for (uint32_t i = 0; unique_id && i < MOST_NODES && found[device].count < MOST_PARTS; i++) {
        if (!path_of(path, KFD "/topology/nodes/%" PRIu32 "/gpu_id", i) || !read_number(path, &gpu_id))
            break;
        if (gpu_id && is_node_of(i, unique_id))
            found[device].gpu_ids[found[device].count++] = gpu_id;
    }
    found[device].searched = true;
}

bool facet_hip_held_tells(uint32_t device)
{
    if (device >= facet_hip_process.count || !counts_as_the_kernel())
        return false;
    if (!found[device].searched)
        search_processes(device);
    return found[device].count;
}

bool facet_hip_held(uint32_t device, uint64_t *ret_bytes)
{
    char path[1024];
    uint64_t sum = 0, bytes;

    if (!facet_hip_held_tells(device))
        return false;
    for (uint32_t i = 0; i < found[device].count; i++) {
        if (!path_of(path, KFD "/proc/%d/vram_%" PRIu64, (int)getpid(), found[device].gpu_ids[i]) ||
            !read_number(path, &bytes))
            return false;
        sum += bytes;
    }
    *ret_bytes = sum;
    return true;
}

void facet_hip_held_forked(void)
{
    memset(found, 0, sizeof found);
}
