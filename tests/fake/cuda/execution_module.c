/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: modules, libraries and their functions. Never: reads an image that is not the fake's own.
 *
 * An image of the fake's own is text. Its first line is "FAKE-CUDA". Each further line names a function, the
 * nanoseconds of a wave of its blocks, and how many blocks fit on a unit at a time (optional): "saxpy 12000 16".
 * "@global NAME BYTES" is a variable. Such an image has no other functions. PTX has the functions of its .entry
 * directives. Any other image whose first bytes are those of an ELF object or a fatbin has every function that is asked
 * for.
 *
 * The time of a wave without such an image is in the function's name, _<N>us or _<N>ns; else it is 10 us.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execution.h"

#ifndef FAKE_OWN_IMAGE /* the fake HIP runtime is compiled with its own first line */
#define FAKE_OWN_IMAGE "FAKE-CUDA"
#endif
#define DEFAULT_WAVE_NS 10000u
#define DEFAULT_FIT     8u /* blocks that fit on a unit at a time */
#define MAX_THREADS     1024u
#define IMAGE_SIZE      65536u

/* A library's module belongs to the context in which the program first asks for it. */
struct CUlib_st {
    struct CUmod_st module;
    bool loaded;
};

static uint64_t wave_of_name(const char *name)
{
    for (const char *at = strchr(name, '_'); at; at = strchr(at + 1, '_')) {
        char *end;

        if (!isdigit((unsigned char)at[1]))
            continue;
        uint64_t value = strtoull(at + 1, &end, 10);
        if (strncmp(end, "us", 2) == 0)
            return value * 1000;
        if (strncmp(end, "ns", 2) == 0)
            return value;
    }
    return DEFAULT_WAVE_NS;
}

static CUfunction function_new(CUmodule module, const char *name, uint64_t wave_ns, uint32_t fit)
{
    CUfunction function = fake_execution_allocate(sizeof *function);

    snprintf(function->name, sizeof function->name, "%s", name);
    function->module = module;
    function->wave_ns = wave_ns;
    function->blocks_per_unit = fit ? fit : DEFAULT_FIT;
    function->next = module->functions;
    module->functions = function;
    return function;
}

static void global_new(CUmodule module, const char *name, uint64_t bytes)
{
    struct fake_global *global = fake_execution_allocate(sizeof *global);

    snprintf(global->name, sizeof global->name, "%s", name);
    global->offset = module->globals_bytes;
    global->bytes = bytes;
    global->next = module->globals;
    module->globals = global;
    module->globals_bytes += (bytes + 255) / 256 * 256;
}

static void read_image(CUmodule module, const char *text)
{
    for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
        unsigned long long wave_ns;
        unsigned fit = 0;
        char name[128];

        if (sscanf(line + 1, "@global %127s %llu", name, &wave_ns) == 2)
            global_new(module, name, wave_ns);
        else if (sscanf(line + 1, "%127s %llu %u", name, &wave_ns, &fit) >= 2)
            function_new(module, name, wave_ns, fit);
    }
}

static void read_entries(CUmodule module, const char *text)
{
    static const char entry[] = ".entry ";
    char name[128];

    for (const char *at = strstr(text, entry); at; at = strstr(at + 1, entry)) {
        if (sscanf(at + strlen(entry), "%127[A-Za-z0-9_$]", name) == 1)
            function_new(module, name, wave_of_name(name), 0);
    }
}

static bool is_text(const char *image)
{
    return strncmp(image, FAKE_OWN_IMAGE, strlen(FAKE_OWN_IMAGE)) == 0 || strstr(image, ".version");
}

static bool is_image(const void *image)
{
    static const uint32_t magics[] = {0x464c457f, 0x466243b1, 0xba55ed50}; /* ELF, a fatbin's wrapper, a fatbin */
    const char *text = image;
    uint32_t magic = 0;

    memcpy(&magic, text, strnlen(text, sizeof magic)); /* an image of text may be shorter than the magic number */
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (magic == magics[i])
            return true;
    }
    return is_text(text);
}

static void fill_module(CUmodule module, CUcontext context, const void *image)
{
    module->context = context;
    module->lists_functions = is_text(image);
    if (strncmp(image, FAKE_OWN_IMAGE, strlen(FAKE_OWN_IMAGE)) == 0)
        read_image(module, image);
    else if (module->lists_functions)
        read_entries(module, image);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext context;
    CUresult result = fake_enter(&context);

    if (result != CUDA_SUCCESS)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_image(image))
        return CUDA_ERROR_INVALID_IMAGE;
    CUmodule made = fake_execution_allocate(sizeof *made);
    fill_module(made, context, image);
    if (fake_code_is_eager())
        result = fake_code_load_all(made, context);
    if (result == CUDA_SUCCESS)
        *module = made;
    return result;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values)
{
    return count && (!options || !values) ? CUDA_ERROR_INVALID_VALUE : cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

static CUresult read_file(const char *path, char image[IMAGE_SIZE])
{
    FILE *file = path ? fopen(path, "re") : NULL;

    if (!file)
        return CUDA_ERROR_NOT_FOUND;
    size_t bytes = fread(image, 1, IMAGE_SIZE - 1, file);
    image[bytes] = 0;
    fclose(file);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    char image[IMAGE_SIZE];
    CUresult result = read_file(path, image);

    return result == CUDA_SUCCESS ? cuModuleLoadData(module, image) : result;
}

static CUresult module_check(CUmodule module)
{
    if (!module || module->dead)
        return CUDA_ERROR_INVALID_HANDLE;
    return fake_context_check(module->context);
}

CUresult cuModuleUnload(CUmodule module)
{
    CUresult result = module_check(module);

    if (result == CUDA_SUCCESS) {
        module->dead = true;
        fake_code_unload(module);
    }
    return result;
}

static CUfunction find_function(CUmodule module, const char *name)
{
    CUfunction found = module->functions;

    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    return found || module->lists_functions ? found : function_new(module, name, wave_of_name(name), 0);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CUresult result = module_check(module);

    if (result != CUDA_SUCCESS)
        return result;
    if (!function || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_execution_lock);
    CUfunction found = find_function(module, name);
    pthread_mutex_unlock(&fake_execution_lock);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    result = fake_code_load(found, module->context);
    if (result == CUDA_SUCCESS)
        *function = found;
    return result;
}

CUresult cuModuleGetLoadingMode(int *mode)
{
    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    *mode = fake_code_is_eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

static CUresult get_global(CUdeviceptr *pointer, size_t *bytes, CUmodule module, CUcontext context, const char *name)
{
    const struct fake_global *global = name ? module->globals : NULL;
    uint64_t address = 0;

    while (global && strcmp(global->name, name) != 0)
        global = global->next;
    if (!global)
        return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    CUresult result = fake_code_globals(module, context, &address);
    if (result == CUDA_SUCCESS && pointer)
        *pointer = address + global->offset;
    if (result == CUDA_SUCCESS && bytes)
        *bytes = global->bytes;
    return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)
{
    CUresult result = module_check(module);

    return result == CUDA_SUCCESS ? get_global(pointer, bytes, module, module->context, name) : result;
}

/* The form from before CUDA 3.2: an address that does not fit is truncated. */
CUresult cuModuleGetGlobal(CUdeviceptr_v1 *pointer, unsigned *bytes, CUmodule module, const char *name)
{
    CUdeviceptr address = 0;
    size_t size = 0;
    CUresult result = cuModuleGetGlobal_v2(&address, &size, module, name);

    if (result == CUDA_SUCCESS && pointer)
        *pointer = (CUdeviceptr_v1)address;
    if (result == CUDA_SUCCESS && bytes)
        *bytes = (unsigned)size;
    return result;
}

/* ---- libraries ---- */

struct loading {
    CUmodule module;
    CUresult result;
};

static bool load_into(CUcontext context, void *argument)
{
    struct loading *loading = argument;

    loading->result = fake_code_load_all(loading->module, context);
    return loading->result == CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *options, void **values, unsigned count,
                           int *library_options, void **library_values, unsigned library_count)
{
    if (fake_ready() != CUDA_SUCCESS)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!library || !code || (count && (!options || !values)) || (library_count && !library_options) ||
        (library_count && !library_values))
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_image(code))
        return CUDA_ERROR_INVALID_IMAGE;
    CUlibrary made = fake_execution_allocate(sizeof *made);
    fill_module(&made->module, NULL, code);
    struct loading loading = {&made->module, CUDA_SUCCESS};
    if (fake_code_is_eager())
        fake_visit_contexts(load_into, &loading);
    if (loading.result == CUDA_SUCCESS)
        *library = made;
    else
        fake_code_unload(&made->module);
    return loading.result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, int *options, void **values, unsigned count,
                               int *library_options, void **library_values, unsigned library_count)
{
    char image[IMAGE_SIZE];
    CUresult result = read_file(path, image);

    return result == CUDA_SUCCESS ? cuLibraryLoadData(library, image, options, values, count, library_options,
                                                      library_values, library_count)
                                  : result;
}

static CUresult library_check(CUlibrary library)
{
    return library && !library->module.dead ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    CUresult result = library_check(library);

    if (result == CUDA_SUCCESS) {
        library->module.dead = true;
        fake_code_unload(&library->module);
    }
    return result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    CUresult result = library_check(library);

    if (result != CUDA_SUCCESS)
        return result;
    if (!kernel || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake_execution_lock);
    CUfunction found = find_function(&library->module, name);
    pthread_mutex_unlock(&fake_execution_lock);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *kernel = (CUkernel)found;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    CUcontext context;
    CUresult result = library_check(library);

    if (result == CUDA_SUCCESS)
        result = fake_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!library->module.context)
        library->module.context = context;
    *module = &library->module;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    CUcontext context;
    CUresult result = kernel ? fake_enter(&context) : CUDA_ERROR_INVALID_HANDLE;

    if (result == CUDA_SUCCESS)
        result = fake_code_load((CUfunction)kernel, context);
    if (result == CUDA_SUCCESS)
        *function = (CUfunction)kernel;
    return result;
}

/* A library's module is its first member. */
CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    if (!library || !kernel)
        return CUDA_ERROR_INVALID_VALUE;
    *library = (CUlibrary)((CUfunction)kernel)->module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    CUcontext context;
    CUresult result = library_check(library);

    if (result == CUDA_SUCCESS)
        result = fake_enter(&context);
    return result == CUDA_SUCCESS ? get_global(pointer, bytes, &library->module, context, name) : result;
}

/* Every variable is on the device here. */
CUresult cuLibraryGetManaged(CUdeviceptr *pointer, size_t *bytes, CUlibrary library, const char *name)
{
    return cuLibraryGetGlobal(pointer, bytes, library, name);
}

/* Answers with an address that no test calls. */
CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *name)
{
    CUfunction found = NULL;
    CUkernel kernel;
    CUresult result = function ? cuLibraryGetKernel(&kernel, library, name) : CUDA_ERROR_INVALID_VALUE;

    if (result == CUDA_SUCCESS)
        result = cuKernelGetFunction(&found, kernel);
    if (result == CUDA_SUCCESS)
        *function = found;
    return result;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    return cuFuncGetName(name, (CUfunction)kernel);
}

/* ---- functions ---- */

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    if (!name || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *name = function->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    if (!module || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *module = function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    if (!value || !function)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = (int)MAX_THREADS;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = atomic_load(&function->dynamic_shared);
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        atomic_store(&function->dynamic_shared, value);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
    return function && config >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncIsLoaded(int *state, CUfunction function)
{
    if (!state || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *state = atomic_load(&function->loaded_in) != 0;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
    CUcontext context;
    CUresult result = function ? fake_enter(&context) : CUDA_ERROR_INVALID_HANDLE;

    return result == CUDA_SUCCESS ? fake_code_load(function, context) : result;
}

CUresult cuFuncSetBlockShape(CUfunction function, int x, int y, int z)
{
    if (!function || x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&function->block[0], x);
    atomic_store(&function->block[1], y);
    atomic_store(&function->block[2], z);
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction function, unsigned bytes)
{
    return function && bytes <= 228 * 1024 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuParamSetSize(CUfunction function, unsigned bytes)
{
    return function && bytes <= 4096 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int block_size,
                                                              size_t shared, unsigned flags)
{
    if (!blocks || !function || block_size <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = (unsigned)block_size <= MAX_THREADS && shared <= 228 * 1024 ? (int)function->blocks_per_unit : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size, size_t shared)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared, 0);
}

/* A grid that fills a part of the units takes as long as a grid that fills all of them. */
uint64_t fake_kernel_ns(const struct CUfunc_st *function, uint32_t units, uint64_t blocks)
{
    uint64_t at_once = (uint64_t)units * function->blocks_per_unit;

    return (blocks + at_once - 1) / at_once * function->wave_ns;
}
