/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is linked with the HIP runtime, or opens the runtime by a name.
 *
 * Owns: one line of output: the number of devices, the first device's memory in MiB, and the results of allocating 2
 * GiB, of launching a kernel, and of waiting for the device. A linked program registers the kernel before main().
 * Never: knows of the interposer.
 *
 * usage: program            the linked program
 *        program LIBRARY    opens LIBRARY
 */
#include <dlfcn.h>
#include <stdio.h>

#include "vendor/hip/execution.h"

#define FUNCTIONS(X)                                                                                                   \
    X(__hipRegisterFatBinary)                                                                                          \
    X(__hipRegisterFunction)                                                                                           \
    X(hipGetDeviceCount)                                                                                               \
    X(hipDeviceTotalMem)                                                                                               \
    X(hipMalloc)                                                                                                       \
    X(hipLaunchKernel)                                                                                                 \
    X(hipDeviceSynchronize)

static struct {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
} hip;

static const char image[] = "FAKE-HIP\nkernel 1000 8\n";
static const struct vendor_hip_fat_binary binary = {.magic = VENDOR_HIP_FAT_BINARY, .version = 1, .binary = image};
static char kernel_name[] = "kernel";
static char kernel;

static void register_kernel(void)
{
    hip.__hipRegisterFunction(hip.__hipRegisterFatBinary(&binary), &kernel, kernel_name, kernel_name, 0, NULL, NULL,
                              NULL, NULL, NULL);
}

#ifdef LINKED
/* hipcc's output registers kernels by a constructor, too. */
__attribute__((constructor)) static void begin(void)
{
#define FILL(name) hip.name = name;
    FUNCTIONS(FILL)
#undef FILL
    register_kernel();
}
#endif

static int open_library(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
#define FILL(name)                                                                                                     \
    hip.name = (__typeof__(hip.name))dlsym(library, #name);                                                            \
    if (!hip.name)                                                                                                     \
        return 1;
    FUNCTIONS(FILL)
#undef FILL
    register_kernel();
    return 0;
}

int main(int argc, char **argv)
{
    size_t bytes = 0;
    void *pointer;
    int count = 0;

    if (argc > 1 && open_library(argv[1]) != 0)
        return 1;
    hip.hipGetDeviceCount(&count);
    hip.hipDeviceTotalMem(&bytes, 0);
    printf("%d devices, %zu MiB, ", count, bytes >> 20);
    printf("2 GiB %d, ", hip.hipMalloc(&pointer, (size_t)2 << 30));
    printf("launch %d, ", hip.hipLaunchKernel(&kernel, (dim3){1, 1, 1}, (dim3){64, 1, 1}, NULL, 0, NULL));
    printf("%d\n", hip.hipDeviceSynchronize());
    return 0;
}
