/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the compute driver's files. Never: keeps a file open, or caches a figure. */
#include "process_bytes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"

#define KFD                 "/sys/class/kfd/kfd"
#define NODES_MOST          256u
#define PARTS_MOST          8u /* parts of a partitioned GPU, if the driver gives each the GPU's own id */
#define FIRST_PID_NAMESPACE "pid:[4026531836]" /* PROC_PID_INIT_INO: the initial namespace */

/* A device's nodes, searched once. */
static struct {
    bool searched;
    uint32_t count;
    uint64_t gpu_ids[PARTS_MOST];
} device_nodes[FACET_HIP_TENANTS];

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

static bool is_in_first_pid_namespace(void)
{
    char path[1024], name[64];

    if (!path_of(path, "/proc/self/ns/pid"))
        return false;
    ssize_t length = readlink(path, name, sizeof name - 1);
    if (length < 0)
        return false;
    name[length] = '\0';
    return strcmp(name, FIRST_PID_NAMESPACE) == 0;
}

static bool is_node_of(uint32_t number, uint64_t unique_id)
{
    char path[1024], name[64];
    uint64_t value;
    bool matches = false;
    FILE *file = path_of(path, KFD "/topology/nodes/%" PRIu32 "/properties", number) ? fopen(path, "re") : NULL;

    while (file && !matches && fscanf(file, "%63s %" SCNu64, name, &value) == 2)
        matches = strcmp(name, "unique_id") == 0 && value == unique_id;
    if (file)
        fclose(file);
    return matches;
}

static void search_nodes(uint32_t device)
{
    const struct facet_tenant *tenant = &facet_hip_process.tenants[device];
    const char *digits = tenant->policy->device.address + strlen(VENDOR_HIP_ADDRESS);
    uint64_t unique_id = strtoull(digits, NULL, 16), gpu_id;
    char path[1024];

    device_nodes[device].count = 0;
    for (uint32_t i = 0; unique_id && i < NODES_MOST && device_nodes[device].count < PARTS_MOST; i++) {
        if (!path_of(path, KFD "/topology/nodes/%" PRIu32 "/gpu_id", i) || !read_number(path, &gpu_id))
            break;
        if (gpu_id && is_node_of(i, unique_id))
            device_nodes[device].gpu_ids[device_nodes[device].count++] = gpu_id;
    }
    device_nodes[device].searched = true;
}

bool facet_hip_process_is_listable(uint32_t device)
{
    if (device >= facet_hip_process.count || !is_in_first_pid_namespace())
        return false;
    if (!device_nodes[device].searched)
        search_nodes(device);
    return device_nodes[device].count;
}

bool facet_hip_process_bytes(uint32_t device, uint64_t *ret_bytes)
{
    char path[1024];
    uint64_t sum = 0, bytes;

    if (!facet_hip_process_is_listable(device))
        return false;
    for (uint32_t i = 0; i < device_nodes[device].count; i++) {
        if (!path_of(path, KFD "/proc/%d/vram_%" PRIu64, (int)getpid(), device_nodes[device].gpu_ids[i]) ||
            !read_number(path, &bytes))
            return false;
        sum += bytes;
    }
    *ret_bytes = sum;
    return true;
}

void facet_hip_process_bytes_forked(void)
{
    memset(device_nodes, 0, sizeof device_nodes);
}
