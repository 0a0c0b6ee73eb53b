/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: modules, and what hipcc's output registers: code objects, and in them kernels by the address of a host symbol.
 * Never: reads a code object before a kernel of it is launched on a device: a program may register before main().
 *
 * A code object is text or any ELF file, as tests/fake/cuda/execution_module.c says; its first line is "FAKE-HIP".
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "tests/fake/cuda/execution.h"

/* What __hipRegisterFatBinary returns a handle of. */
struct binary {
    const void *image;
    struct {
        CUcontext context; /* in which it was loaded */
        CUmodule module;
    } loaded[FAKE_DEVICES];
};

struct kernel {
    struct kernel *next;
    const void *host;
    struct binary *binary;
    char name[128];
    struct {
        CUcontext context;
        CUfunction function;
    } found[FAKE_DEVICES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels;

void **__hipRegisterFatBinary(const void *wrapper)
{
    const struct vendor_hip_fat_binary *fat = wrapper;
    struct binary *binary = fake_execution_make(sizeof *binary);

    if (fat->magic != VENDOR_HIP_FAT_BINARY) {
        fprintf(stderr, "fake HIP: what is registered is no code object\n");
        abort();
    }
    binary->image = fat->binary;
    return (void **)binary;
}

void __hipUnregisterFatBinary(void **modules)
{
    struct binary *binary = (struct binary *)modules;

    pthread_mutex_lock(&lock);
    for (struct kernel **at = &kernels; *at;) {
        struct kernel *kernel = *at;

        if (kernel->binary != binary) {
            at = &kernel->next;
            continue;
        }
        *at = kernel->next;
        free(kernel);
    }
    pthread_mutex_unlock(&lock);
    free(binary);
}

void __hipRegisterFunction(void **modules, const void *host, char *device_name, const char *name, unsigned threads,
                           void *thread_id, void *block_id, dim3 *block, dim3 *grid, int *warp)
{
    struct kernel *kernel = fake_execution_make(sizeof *kernel);

    kernel->host = host;
    kernel->binary = (struct binary *)modules;
    snprintf(kernel->name, sizeof kernel->name, "%s", device_name ? device_name : name);
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

/* Loads what is not loaded in the context, which is a new one after a reset. Under the lock. */
static hipError_t find_in(struct kernel *kernel, CUcontext context, CUfunction *ret_function)
{
    int device = context->device;
    struct binary *binary = kernel->binary;
    hipError_t result = hipSuccess;

    if (binary->loaded[device].context != context) {
        result = cuModuleLoadData(&binary->loaded[device].module, binary->image);
        binary->loaded[device].context = result == hipSuccess ? context : NULL;
    }
    if (result == hipSuccess && kernel->found[device].context != context) {
        result = cuModuleGetFunction(&kernel->found[device].function, binary->loaded[device].module, kernel->name);
        kernel->found[device].context = result == hipSuccess ? context : NULL;
    }
    *ret_function = kernel->found[device].function;
    return result;
}

hipError_t fake_hip_function(const void *host, CUfunction *ret_function)
{
    CUcontext context = NULL;
    hipError_t result = cuCtxGetCurrent(&context);

    if (result != hipSuccess)
        return result;
    pthread_mutex_lock(&lock);
    struct kernel *kernel = kernels;
    while (kernel && kernel->host != host)
        kernel = kernel->next;
    result = kernel ? find_in(kernel, context, ret_function) : hipErrorInvalidDeviceFunction;
    pthread_mutex_unlock(&lock);
    return result;
}

FAKE_HIP(hipGetFuncBySymbol, (hipFunction_t * function, const void *host),
         fake_hip_function(host, (CUfunction *)function))
FAKE_HIP(hipModuleLoad, (hipModule_t * module, const char *path), cuModuleLoad((CUmodule *)module, path))
FAKE_HIP(hipModuleLoadData, (hipModule_t * module, const void *image), cuModuleLoadData((CUmodule *)module, image))
FAKE_HIP(hipModuleLoadDataEx, (hipModule_t * module, const void *image, unsigned count, int *options, void **values),
         cuModuleLoadDataEx((CUmodule *)module, image, count, options, values))
FAKE_HIP(hipModuleUnload, (hipModule_t module), cuModuleUnload((CUmodule)module))
FAKE_HIP(hipModuleGetFunction, (hipFunction_t * function, hipModule_t module, const char *name),
         cuModuleGetFunction((CUfunction *)function, (CUmodule)module, name))
FAKE_HIP(hipFuncGetAttribute, (int *value, int attribute, hipFunction_t function),
         cuFuncGetAttribute(value, attribute, (CUfunction)function))
FAKE_HIP(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,
         (int *blocks, hipFunction_t function, int block_size, size_t shared),
         cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, (CUfunction)function, block_size, shared))
