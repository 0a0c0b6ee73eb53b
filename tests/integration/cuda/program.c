/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program NAME...     opens the driver by each name in turn, and prints the devices that it lists
 * program-linked      is linked against the driver, which few programs are, and prints the same line
 *
 * Owns: one line of output for each name, like "init 0, 1: GPU-...": cuInit's result, the number of devices, their
 * UUIDs. Never: knows that the driver may not be the vendor's.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "vendor/cuda/driver.h"

struct driver {
    __typeof__(cuInit) *init;
    __typeof__(cuDeviceGetCount) *count;
    __typeof__(cuDeviceGetUuid_v2) *uuid;
};

static void print_uuid(const CUuuid *uuid)
{
    printf(" GPU-");
    for (size_t i = 0; i < sizeof uuid->bytes; i++)
        printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", (unsigned char)uuid->bytes[i]);
}

static int print_devices(const struct driver *driver)
{
    int count = -1;
    CUuuid uuid;

    printf("init %d", driver->init(0));
    if (driver->count(&count) != CUDA_SUCCESS)
        return puts("") < 0;
    printf(", %d:", count);
    for (int i = 0; i < count; i++) {
        if (driver->uuid(&uuid, i) != CUDA_SUCCESS)
            return 1;
        print_uuid(&uuid);
    }
    return puts("") < 0;
}

#ifdef LINKED
int main(void)
{
    return print_devices(&(struct driver){cuInit, cuDeviceGetCount, cuDeviceGetUuid_v2});
}
#else
static int print_devices_of(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW);

    if (!handle) {
        printf("%s\n", dlerror());
        return 1;
    }
    struct driver driver = {
        (__typeof__(driver.init))dlsym(handle, "cuInit"),
        (__typeof__(driver.count))dlsym(handle, "cuDeviceGetCount"),
        (__typeof__(driver.uuid))dlsym(handle, "cuDeviceGetUuid_v2"),
    };
    return print_devices(&driver);
}

int main(int count, char **names)
{
    for (int i = 1; i < count; i++)
        if (print_devices_of(names[i]) != 0)
            return 1;
    return 0;
}
#endif
