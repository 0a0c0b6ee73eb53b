/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenant of the GPU suite: a plain program of the CUDA driver, which knows nothing of Facet.
 *
 * gpu-tenant info
 *     prints the devices that it sees
 *
 * gpu-tenant grab KIND CHUNK_MIB MOST_MIB HOLD_S
 *     allocates memory of a kind until it is refused, at most MOST_MIB, and holds it for HOLD_S
 *
 * gpu-tenant store
 *     runs a kernel and reads the words that the kernel stored
 *
 * gpu-tenant calibrate KERNEL_US
 *     prints the number of steps with which spin() takes KERNEL_US, alone on the device
 *
 * gpu-tenant spin SECONDS KERNEL_US STEPS DEPTH START_NS
 *     keeps DEPTH launches in flight; counts the completions in each 100 ms
 *
 * gpu-tenant check MIB SECONDS SEED
 *     fills MIB of memory with kernels, and checks every word, again and again
 *
 * Owns: the roles' names and arguments. Each role prints one line of JSON and ends with 0, or prints the failure on
 * stderr and ends with 1. Never: measures the cost of a call: gpu-calls does.
 */
#include "tenant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

static void print_uuid(const CUuuid *uuid)
{
    printf("\"uuid\": \"GPU-");
    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (unsigned char)uuid->bytes[i]);
    printf("\"");
}

static void print_device(CUdevice device)
{
    char name[256];
    CUuuid uuid;
    size_t total, free_bytes, info_total;
    CUcontext context;
    int units;

    GPU(gpu.cuDeviceGetName(name, sizeof name, device));
    GPU(gpu.cuDeviceGetUuid_v2(&uuid, device));
    GPU(gpu.cuDeviceTotalMem_v2(&total, device));
    GPU(gpu.cuDeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
    GPU(gpu.cuDevicePrimaryCtxRetain(&context, device));
    GPU(gpu.cuCtxSetCurrent(context));
    GPU(gpu.cuMemGetInfo_v2(&free_bytes, &info_total));
    printf("{\"name\": \"%s\", ", name);
    print_uuid(&uuid);
    printf(", \"total_bytes\": %zu, \"info_total_bytes\": %zu, \"free_bytes\": %zu, \"units\": %d}", total, info_total,
           free_bytes, units);
}

static int role_info(char **arguments)
{
    int count, version;

    GPU(gpu.cuDriverGetVersion(&version));
    GPU(gpu.cuDeviceGetCount(&count));
    printf("{\"driver\": %d, \"devices\": [", version);
    for (int i = 0; i < count; i++) {
        CUdevice device;
        GPU(gpu.cuDeviceGet(&device, i));
        printf("%s", i ? ", " : "");
        print_device(device);
    }
    puts("]}");
    return EXIT_SUCCESS;
}

static const struct role {
    const char *name;
    int arguments;
    int (*run)(char **arguments);
} roles[] = {
    {"info", 0, role_info},           {"grab", 4, role_grab}, {"store", 0, role_store},
    {"calibrate", 1, role_calibrate}, {"spin", 5, role_spin}, {"check", 3, role_check},
};

int main(int argc, char **argv)
{
    const struct role *role = NULL;

    for (size_t i = 0; argc > 1 && i < sizeof roles / sizeof *roles; i++)
        if (strcmp(argv[1], roles[i].name) == 0 && argc == roles[i].arguments + 2)
            role = &roles[i];
    if (!role) {
        fputs("usage: gpu-tenant info | grab KIND CHUNK_MIB MOST_MIB HOLD_S | store | calibrate KERNEL_US |\n"
              "       spin SECONDS KERNEL_US STEPS DEPTH START_NS | check MIB SECONDS SEED\n",
              stderr);
        return 2;
    }
    return gpu_open() ? role->run(argv + 2) : EXIT_FAILURE;
}
