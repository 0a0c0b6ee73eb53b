/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: writing the compute driver's files (kernel_files.h). Never: lets a reader of the first line see a part of a
 * number.
 */
#include "kernel_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KFD    "sys/class/kfd/kfd"
#define GPU_ID 1001u /* the first device's id; the next ones follow */

/* Writes a file, and makes the folders on its path. */
static void put_file(const char *name, const char *text)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", getenv("FAKE_HIP_KFD"), name);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            abort();
        *at = '/';
    }
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || pwrite(file, text, strlen(text), 0) != (ssize_t)strlen(text) ||
        ftruncate(file, (off_t)strlen(text)) != 0)
        abort();
    close(file);
}

/* Node 0 is the processor's. */
void fake_kernel_files_describe(const struct fake_device *device, uint32_t index)
{
    char name[128], text[128], digits[sizeof device->uuid + 1] = "";

    if (!getenv("FAKE_HIP_KFD"))
        return;
    memcpy(digits, device->uuid, sizeof device->uuid);
    put_file(KFD "/topology/nodes/0/gpu_id", "0\n");
    put_file(KFD "/topology/nodes/0/properties", "cpu_cores_count 96\nsimd_count 0\n");
    snprintf(name, sizeof name, KFD "/topology/nodes/%" PRIu32 "/gpu_id", index + 1);
    snprintf(text, sizeof text, "%" PRIu32 "\n", GPU_ID + index);
    put_file(name, text);
    snprintf(name, sizeof name, KFD "/topology/nodes/%" PRIu32 "/properties", index + 1);
    snprintf(text, sizeof text, "simd_count %" PRIu32 "\nunique_id %llu\n", device->units * 4,
             strtoull(digits, NULL, 16));
    put_file(name, text);
}

void fake_kernel_files_changed(uint32_t device, uint64_t bytes)
{
    char name[128], text[32];

    if (!getenv("FAKE_HIP_KFD"))
        return;
    snprintf(name, sizeof name, KFD "/proc/%d/vram_%" PRIu32, (int)getpid(), GPU_ID + device);
    snprintf(text, sizeof text, "%" PRIu64 "\n", bytes);
    put_file(name, text);
}
