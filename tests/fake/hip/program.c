/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: modules, and the registrations of hipcc's output: code objects, and their kernels and variables by the address
 * of a host symbol.
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
#include "vendor/cuda/memory.h"

/* A registered code object; its address is the handle that __hipRegisterFatBinary() returns. */
struct binary {
    const void *image;
    struct {
        CUcontext context; /* in which it was loaded */
        CUmodule module;
    } loaded[FAKE_DEVICES];
};

/* A managed variable, which exists from its registration on. */
struct managed {
    struct managed *next;
    const void *modules;
    void *pointer;
};

/* A kernel, or a variable of the device. */
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
static struct managed *variables;

void **__hipRegisterFatBinary(const void *wrapper)
{
    const struct vendor_hip_fat_binary *fat = wrapper;
    struct binary *binary = fake_execution_allocate(sizeof *binary);

    if (fat->magic != VENDOR_HIP_FAT_BINARY) {
        fprintf(stderr, "fake HIP: __hipRegisterFatBinary() was called with no code object\n");
        abort();
    }
    binary->image = fat->binary;
    return (void **)binary;
}

static void free_variables(const void *modules)
{
    for (struct managed **at = &variables; *at;) {
        struct managed *variable = *at;

        if (variable->modules != modules) {
            at = &variable->next;
            continue;
        }
        *at = variable->next;
        cuMemFree_v2((uintptr_t)variable->pointer);
    }
}

/* Unloads a binary from the current context. In a context that has ended, its modules have ended already. */
static void unload_all(struct binary *binary)
{
    CUcontext context = NULL;

    if (!fake_hip_is_initialized(fake_hip_device()) || fake_hip_enter() != hipSuccess ||
        cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++)
        if (binary->loaded[i].context == context)
            cuModuleUnload(binary->loaded[i].module);
}

void __hipUnregisterFatBinary(void **modules)
{
    struct binary *binary = (struct binary *)modules;

    pthread_mutex_lock(&lock);
    unload_all(binary);
    free_variables(modules);
    for (struct kernel **at = &kernels; *at;) {
        struct kernel *kernel = *at;

        if (kernel->binary != binary) {
            at = &kernel->next;
            continue;
        }
        *at = kernel->next;
    }
    pthread_mutex_unlock(&lock);
}

static void register_symbol(void **modules, const void *host, const char *name)
{
    struct kernel *kernel = fake_execution_allocate(sizeof *kernel);

    kernel->host = host;
    kernel->binary = (struct binary *)modules;
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

void __hipRegisterFunction(void **modules, const void *host, char *device_name, const char *name, unsigned threads,
                           void *thread_id, void *block_id, dim3 *block, dim3 *grid, int *warp)
{
    register_symbol(modules, host, device_name ? device_name : name);
}

void __hipRegisterVar(void **modules, void *host, char *host_name, char *device_name, int external, size_t size,
                      int constant, int global)
{
    register_symbol(modules, host, device_name ? device_name : host_name);
}

/* Initializes the device, like the function of older runtimes. */
void __hipRegisterManagedVar(void *modules, void **pointer, void *start, const char *name, size_t size,
                             unsigned alignment)
{
    struct managed *variable = fake_execution_allocate(sizeof *variable);

    if (hipMallocManaged(pointer, size, hipMemAttachGlobal) != hipSuccess)
        return;
    memcpy(*pointer, start, size);
    pthread_mutex_lock(&lock);
    *variable = (struct managed){.next = variables, .modules = modules, .pointer = *pointer};
    variables = variable;
    pthread_mutex_unlock(&lock);
}

/* Loads the binary into the context, unless it is loaded there; a reset makes a new context. Under the lock. */
static hipError_t load_module_in(struct binary *binary, CUcontext context, CUmodule *ret_module)
{
    int device = context->device;
    hipError_t result = hipSuccess;

    if (binary->loaded[device].context != context) {
        result = cuModuleLoadData(&binary->loaded[device].module, binary->image);
        binary->loaded[device].context = result == hipSuccess ? context : NULL;
    }
    *ret_module = binary->loaded[device].module;
    return result;
}

static hipError_t find_function_in(struct kernel *kernel, CUcontext context, CUfunction *ret_function)
{
    int device = context->device;
    CUmodule module;
    hipError_t result = load_module_in(kernel->binary, context, &module);

    if (result == hipSuccess && kernel->found[device].context != context) {
        result = cuModuleGetFunction(&kernel->found[device].function, module, kernel->name);
        kernel->found[device].context = result == hipSuccess ? context : NULL;
    }
    *ret_function = kernel->found[device].function;
    return result;
}

static struct kernel *find_kernel(const void *host)
{
    struct kernel *kernel = kernels;

    while (kernel && kernel->host != host)
        kernel = kernel->next;
    return kernel;
}

hipError_t fake_hip_function(const void *host, CUfunction *ret_function)
{
    CUcontext context = NULL;
    hipError_t result = cuCtxGetCurrent(&context);

    if (result != hipSuccess)
        return result;
    pthread_mutex_lock(&lock);
    struct kernel *kernel = find_kernel(host);
    result = kernel ? find_function_in(kernel, context, ret_function) : hipErrorInvalidDeviceFunction;
    pthread_mutex_unlock(&lock);
    return result;
}

static hipError_t find_variable(const void *host, void **address, size_t *size)
{
    CUcontext context = NULL;
    CUdeviceptr found = 0;
    CUmodule module;
    hipError_t result = cuCtxGetCurrent(&context);

    if (result != hipSuccess)
        return result;
    pthread_mutex_lock(&lock);
    struct kernel *variable = find_kernel(host);
    result = variable ? load_module_in(variable->binary, context, &module) : hipErrorInvalidValue;
    if (result == hipSuccess)
        result = cuModuleGetGlobal_v2(&found, size, module, variable->name);
    if (result == hipSuccess && address)
        *address = (void *)(uintptr_t)found;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Queries a kernel's attributes by its host symbol; fills in none, because no test reads them. */
static hipError_t ask_kernel(const void *host)
{
    CUfunction function;

    return fake_hip_function(host, &function);
}

static hipError_t ask_blocks(int *blocks, const void *host, int block_size, size_t shared)
{
    CUfunction function;
    hipError_t result = fake_hip_function(host, &function);

    return result == hipSuccess ? cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared)
                                : result;
}

static hipError_t ask_grid(int *grid, int *block, const void *host, size_t shared, int limit)
{
    *block = limit > 0 && limit < 256 ? limit : 256;
    return ask_blocks(grid, host, *block, shared);
}

/* ---- libraries: loaded at the first query ---- */

struct ihipLibrary_t {
    const void *image;
    char path[4096]; /* read if `image` is NULL */
    CUmodule module;
};

static hipError_t load_library(hipLibrary_t *library, const void *image, const char *path, unsigned count)
{
    if (!library || (!image && !path) || count)
        return hipErrorInvalidValue;
    *library = fake_execution_allocate(sizeof **library);
    (*library)->image = image;
    snprintf((*library)->path, sizeof(*library)->path, "%s", path ? path : "");
    return hipSuccess;
}

static hipError_t ask_library(hipLibrary_t library)
{
    if (!library)
        return hipErrorInvalidValue;
    if (library->module)
        return hipSuccess;
    return library->image ? cuModuleLoadData(&library->module, library->image)
                          : cuModuleLoad(&library->module, library->path);
}

static hipError_t count_kernels(unsigned *count, hipLibrary_t library)
{
    hipError_t result = count ? ask_library(library) : hipErrorInvalidValue;

    if (result != hipSuccess)
        return result;
    *count = 0;
    for (CUfunction function = library->module->functions; function; function = function->next)
        ++*count;
    return hipSuccess;
}

static hipError_t get_kernel(hipKernel_t *kernel, hipLibrary_t library, const char *name)
{
    hipError_t result = ask_library(library);

    return result == hipSuccess ? cuModuleGetFunction((CUfunction *)kernel, library->module, name) : result;
}

static hipError_t unload_library(hipLibrary_t library)
{
    if (!library)
        return hipErrorInvalidValue;
    return library->module ? cuModuleUnload(library->module) : hipSuccess;
}

FAKE_HIP(hipLibraryLoadData,
         (hipLibrary_t * library, const void *code, int *options, void **values, unsigned count, int *library_options,
          void **library_values, unsigned library_count),
         load_library(library, code, NULL, count))
FAKE_HIP(hipLibraryLoadFromFile,
         (hipLibrary_t * library, const char *path, int *options, void **values, unsigned count, int *library_options,
          void **library_values, unsigned library_count),
         load_library(library, NULL, path, count))
FAKE_HIP(hipLibraryGetKernelCount, (unsigned *count, hipLibrary_t library), count_kernels(count, library))
FAKE_HIP(hipLibraryGetKernel, (hipKernel_t * kernel, hipLibrary_t library, const char *name),
         get_kernel(kernel, library, name))
FAKE_HIP(hipLibraryUnload, (hipLibrary_t library), unload_library(library))

FAKE_HIP(hipModuleLoadFatBinary, (hipModule_t * module, const void *image),
         cuModuleLoadFatBinary((CUmodule *)module, image))
FAKE_HIP(hipGetFuncBySymbol, (hipFunction_t * function, const void *host),
         fake_hip_function(host, (CUfunction *)function))
FAKE_HIP(hipFuncGetAttributes, (struct hipFuncAttributes * attributes, const void *host), ask_kernel(host))
FAKE_HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *host, int block_size, size_t shared),
         ask_blocks(blocks, host, block_size, shared))
FAKE_HIP(hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
         (int *blocks, const void *host, int block_size, size_t shared, unsigned flags),
         ask_blocks(blocks, host, block_size, shared))
FAKE_HIP(hipOccupancyMaxPotentialBlockSize, (int *grid, int *block, const void *host, size_t shared, int limit),
         ask_grid(grid, block, host, shared, limit))
FAKE_HIP(hipGetSymbolAddress, (void **address, const void *host), find_variable(host, address, NULL))
FAKE_HIP(hipGetSymbolSize, (size_t * size, const void *host), find_variable(host, NULL, size))
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
