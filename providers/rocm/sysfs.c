/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: reading the files of amdgpu and of the compute driver. Never: keeps a file open. */
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS "/sys/bus/pci/drivers/amdgpu"
#define NODES     "/sys/class/kfd/kfd/topology/nodes"

bool rocm_path(char *path, size_t size, const char *format, ...)
{
    const char *root = getenv("FACET_ROCM_ROOT");
    int start = snprintf(path, size, "%s", root ? root : "");
    va_list arguments;

    if (start < 0 || (size_t)start >= size)
        return false;
    va_start(arguments, format);
    int length = vsnprintf(path + start, size - (size_t)start, format, arguments);
    va_end(arguments);
    return length >= 0 && (size_t)length < size - (size_t)start;
}

bool rocm_read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    bool read = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

static bool number_of(const char *text, int base, uint64_t *ret_value)
{
    char *end;

    errno = 0;
    uint64_t value = strtoull(text, &end, base);
    if (end == text || *end || errno || *text == '-')
        return false;
    *ret_value = value;
    return true;
}

bool rocm_read_number(const char *path, uint64_t *ret_value)
{
    char line[64];

    return rocm_read_line(path, line, sizeof line) && number_of(line, 0, ret_value);
}

static bool gpu_path(char *path, size_t size, const char *pci_address, const char *name)
{
    return rocm_path(path, size, "/sys/bus/pci/devices/%s/%s", pci_address, name);
}

bool rocm_gpu_line(const char *pci_address, const char *name, char *line, size_t size)
{
    char path[1024];

    return gpu_path(path, sizeof path, pci_address, name) && rocm_read_line(path, line, size);
}

bool rocm_gpu_number(const char *pci_address, const char *name, uint64_t *ret_value)
{
    char path[1024];

    return gpu_path(path, sizeof path, pci_address, name) && rocm_read_number(path, ret_value);
}

bool rocm_gpu_write(const char *pci_address, const char *name, const char *word)
{
    char path[1024];

    if (!gpu_path(path, sizeof path, pci_address, name)) {
        errno = ENAMETOOLONG;
        return false;
    }
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    ssize_t written = write(file, word, strlen(word));
    int reason = errno;
    close(file);
    errno = reason;
    return written == (ssize_t)strlen(word);
}

/* The first entry of a folder whose name begins with `prefix`. */
static bool find_entry(const char *folder, const char *prefix, char *name, size_t size)
{
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    bool found = false;

    while (entries && !found && (entry = readdir(entries))) {
        found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0 && strlen(entry->d_name) < size;
        if (found)
            memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
    }
    if (entries)
        closedir(entries);
    return found;
}

bool rocm_gpu_sensor(const char *pci_address, const char *name, uint64_t *ret_value)
{
    char folder[1024], monitor[64], path[1200];

    if (!gpu_path(folder, sizeof folder, pci_address, "hwmon") || !find_entry(folder, "hwmon", monitor, sizeof monitor))
        return false;
    snprintf(path, sizeof path, "%s/%s/%s", folder, monitor, name);
    return rocm_read_number(path, ret_value);
}

bool rocm_gpu_errors(const char *pci_address, uint64_t *ret_uncorrected, uint64_t *ret_corrected)
{
    char path[1024];

    if (!gpu_path(path, sizeof path, pci_address, "ras/umc_err_count"))
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    unsigned long long uncorrected, corrected;
    bool read = fscanf(file, "ue: %llu ce: %llu", &uncorrected, &corrected) == 2;
    fclose(file);
    if (read) {
        *ret_uncorrected = uncorrected;
        *ret_corrected = corrected;
    }
    return read;
}

bool rocm_gpu_render(const char *pci_address, unsigned *ret_minor)
{
    char folder[1024], name[64];
    uint64_t minor;

    if (!gpu_path(folder, sizeof folder, pci_address, "drm") || !find_entry(folder, "renderD", name, sizeof name) ||
        !number_of(name + strlen("renderD"), 10, &minor))
        return false;
    *ret_minor = (unsigned)minor;
    return true;
}

static int compare_addresses(const void *left, const void *right)
{
    return strcmp(left, right);
}

uint32_t rocm_gpus_list(char addresses[][16], uint32_t most)
{
    char folder[1024];
    DIR *entries = rocm_path(folder, sizeof folder, FUNCTIONS) ? opendir(folder) : NULL;
    const struct dirent *entry;
    uint32_t count = 0;

    while (entries && count < most && (entry = readdir(entries))) {
        if (strlen(entry->d_name) == strlen("0000:00:00.0") && entry->d_name[4] == ':' && entry->d_name[7] == ':')
            memcpy(addresses[count++], entry->d_name, strlen(entry->d_name) + 1);
    }
    if (entries)
        closedir(entries);
    if (count)
        qsort(addresses, count, sizeof addresses[0], compare_addresses);
    return count;
}

/* --- nodes of the compute driver --- */

struct properties {
    uint64_t simds, simds_per_unit, dies, location, domain, unique_id, target, render;
};

static bool read_properties(const char *path, struct properties *ret_properties)
{
    struct properties all = {.dies = 1};
    struct {
        const char *name;
        uint64_t *value;
    } wanted[] = {{"simd_count", &all.simds},
                  {"simd_per_cu", &all.simds_per_unit},
                  {"num_xcc", &all.dies},
                  {"location_id", &all.location},
                  {"domain", &all.domain},
                  {"unique_id", &all.unique_id},
                  {"gfx_target_version", &all.target},
                  {"drm_render_minor", &all.render}};
    FILE *file = fopen(path, "re");
    unsigned long long value;
    char name[64];

    if (!file)
        return false;
    while (fscanf(file, "%63s %llu", name, &value) == 2)
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strcmp(name, wanted[i].name) == 0)
                *wanted[i].value = value;
    fclose(file);
    *ret_properties = all;
    return all.simds > 0; /* the node of a CPU has none */
}

/* The bits of location_id are, from the lowest: function, device, bus; the partition is above them. */
static void describe_node(const struct properties *all, uint64_t gpu_id, struct rocm_node *ret_node)
{
    *ret_node = (struct rocm_node){
        .gpu_id = (uint32_t)gpu_id,
        .partition = (uint32_t)(all->location >> 28 & 0xf),
        .unique_id = all->unique_id,
        .units = all->simds_per_unit ? (uint32_t)(all->simds / all->simds_per_unit) : 0,
        .dies = (uint32_t)all->dies,
        .target = (uint32_t)all->target,
        .render = (uint32_t)all->render,
    };
    snprintf(ret_node->pci_address, sizeof ret_node->pci_address, "%04x:%02x:%02x.%x", (unsigned)(all->domain & 0xffff),
             (unsigned)(all->location >> 8 & 0xff), (unsigned)(all->location >> 3 & 0x1f),
             (unsigned)(all->location & 7));
}

static int compare_partitions(const void *left, const void *right)
{
    const struct rocm_node *one = left, *other = right;

    return (one->partition > other->partition) - (one->partition < other->partition);
}

uint32_t rocm_nodes_of(const char *pci_address, struct rocm_node *nodes, uint32_t most)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < ROCM_MAX_NODES && count < most; i++) {
        struct properties all;
        uint64_t gpu_id;
        char path[1024];

        if (!rocm_path(path, sizeof path, NODES "/%u/gpu_id", i) || !rocm_read_number(path, &gpu_id))
            break;
        if (!rocm_path(path, sizeof path, NODES "/%u/properties", i) || !read_properties(path, &all))
            continue;
        describe_node(&all, gpu_id, &nodes[count]);
        count += strcmp(nodes[count].pci_address, pci_address) == 0;
    }
    if (count)
        qsort(nodes, count, sizeof *nodes, compare_partitions);
    return count;
}
