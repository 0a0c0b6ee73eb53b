/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvml-client             opens the management library by its name, and prints the devices that it lists
 * nvml-client-linked      is linked against the library, and prints the same line
 *
 * Owns: one line of output, like "init 0, 1: 1024 MiB": nvmlInit's result, the number of devices, the memory of each.
 * Never: knows that the library may not be the vendor's.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "vendor/cuda/nvml.h"

struct library {
    __typeof__(nvmlInit_v2) *init;
    __typeof__(nvmlDeviceGetCount_v2) *count;
    __typeof__(nvmlDeviceGetHandleByIndex_v2) *device;
    __typeof__(nvmlDeviceGetMemoryInfo) *memory;
};

static int print_devices(const struct library *library)
{
    unsigned count = 0;
    nvmlMemory_t memory;
    nvmlDevice_t device;

    printf("init %d", library->init());
    if (library->count(&count) != NVML_SUCCESS)
        return puts("") < 0;
    printf(", %u:", count);
    for (unsigned i = 0; i < count; i++) {
        if (library->device(i, &device) != NVML_SUCCESS || library->memory(device, &memory) != NVML_SUCCESS)
            return 1;
        printf(" %llu MiB", memory.total >> 20);
    }
    return puts("") < 0;
}

#ifdef LINKED
int main(void)
{
    return print_devices(
        &(struct library){nvmlInit_v2, nvmlDeviceGetCount_v2, nvmlDeviceGetHandleByIndex_v2, nvmlDeviceGetMemoryInfo});
}
#else
int main(void)
{
    void *handle = dlopen("libnvidia-ml.so.1", RTLD_NOW);

    if (!handle) {
        printf("%s\n", dlerror());
        return 1;
    }
    struct library library = {
        (__typeof__(library.init))dlsym(handle, "nvmlInit_v2"),
        (__typeof__(library.count))dlsym(handle, "nvmlDeviceGetCount_v2"),
        (__typeof__(library.device))dlsym(handle, "nvmlDeviceGetHandleByIndex_v2"),
        (__typeof__(library.memory))dlsym(handle, "nvmlDeviceGetMemoryInfo"),
    };
    return print_devices(&library);
}
#endif
