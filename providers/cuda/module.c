/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: images in the driver, and their kernels by name. Never: keeps an image once the driver has it. */
#include <stdlib.h>

#include "cuda.h"

#define LOG_BYTES 512u

static bool is_about_image(CUresult result)
{
    return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX ||
           result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND;
}

/* The driver takes PTX as a text with an end, and says in its log what it dislikes. */
static enum facet_status load_image(const struct cuda_driver *driver, const void *image, uint64_t bytes,
                                    CUmodule *ret_module, struct facet_error *error)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log}; /* NOLINT: so the driver wants a number */
    char *text = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;

    if (!text)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an image of %" PRIu64 " bytes", bytes);
    memcpy(text, image, bytes);
    text[bytes] = '\0';
    CUresult result = driver->cuModuleLoadDataEx(ret_module, text, 2, options, values);
    free(text);
    if (result == CUDA_SUCCESS)
        return FACET_OK;
    log[sizeof log - 1] = '\0';
    FACET_KIT_TEXT(log, log);
    if (is_about_image(result))
        return facet_kit_fail(error, FACET_CORRUPT,
                              "the image: expected PTX, a cubin or a fatbin for this device: %d %s", result, log);
    return cuda_driver_fail(driver, error, "cuModuleLoadDataEx", result);
}

enum facet_status cuda_module_load(struct facet_provider_instance *instance, uint64_t number, const void *image,
                                   uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    struct cuda_context *context;

    if (!image)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "image: expected bytes, not NULL");
    if (!ret_module)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_module: expected a place for it, not NULL");
    struct cuda_module *module = calloc(1, sizeof *module);
    if (!module)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a module");
    enum facet_status status = cuda_execution_enter(instance, number, &context, error);
    if (status != FACET_OK) {
        free(module);
        return status;
    }
    status = load_image(&instance->driver, image, bytes, &module->handle, error);
    if (status == FACET_OK) {
        module->number = cuda_number_next(instance);
        module->context = context;
        *ret_module = module->number;
        pthread_mutex_lock(&instance->executor.lock);
        module->next = instance->executor.modules;
        instance->executor.modules = module;
        pthread_mutex_unlock(&instance->executor.lock);
    } else {
        free(module);
    }
    cuda_context_leave(instance, context);
    return status;
}

/* With the executor's lock. */
static struct cuda_module **find_module(struct cuda_executor *executor, const struct cuda_context *context,
                                        uint64_t number)
{
    struct cuda_module **place = &executor->modules;

    while (*place && ((*place)->number != number || (*place)->context != context))
        place = &(*place)->next;
    return place;
}

static enum facet_status no_module(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected one of this context", number);
}

enum facet_status cuda_module_unload(struct facet_provider_instance *instance, uint64_t number, uint64_t module_number,
                                     struct facet_error *error)
{
    struct cuda_executor *executor = &instance->executor;
    struct cuda_context *context;
    enum facet_status status = cuda_execution_enter(instance, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&executor->lock);
    struct cuda_module **place = find_module(executor, context, module_number), *module = *place;
    if (!module)
        status = no_module(module_number, error);
    else if (module->pending)
        status = facet_kit_fail(error, FACET_BUSY, "module %" PRIu64 ": %" PRIu32 " launches of it are not complete",
                                module_number, module->pending);
    else
        *place = module->next;
    pthread_mutex_unlock(&executor->lock);
    if (status == FACET_OK) {
        CUresult result = instance->driver.cuModuleUnload(module->handle);
        if (result != CUDA_SUCCESS)
            status = cuda_driver_fail(&instance->driver, error, "cuModuleUnload", result);
        free(module);
    }
    cuda_context_leave(instance, context);
    return status;
}

enum facet_status cuda_module_hold(struct facet_provider_instance *instance, const struct cuda_context *context,
                                   struct cuda_command *command, struct facet_error *error)
{
    const struct facet_launch *launch = &command->launch;
    char name[sizeof launch->kernel];

    pthread_mutex_lock(&instance->executor.lock);
    struct cuda_module *module = *find_module(&instance->executor, context, launch->module);
    if (module)
        module->pending++;
    pthread_mutex_unlock(&instance->executor.lock);
    if (!module)
        return no_module(launch->module, error);
    command->module = module;
    FACET_KIT_TEXT(name, launch->kernel);
    CUresult result = instance->driver.cuModuleGetFunction(&command->function, module->handle, name);
    if (result == CUDA_SUCCESS)
        return FACET_OK;
    if (result == CUDA_ERROR_NOT_FOUND)
        return facet_kit_fail(error, FACET_NOT_FOUND, "kernel '%s': expected one of module %" PRIu64, name,
                              launch->module);
    return cuda_driver_fail(&instance->driver, error, "cuModuleGetFunction", result);
}
