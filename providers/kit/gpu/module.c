/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: images in the driver, and their kernels by name. Never: keeps an image after loading it. */
#include <stdlib.h>

#include "machine.h"
#include "provider_kit.h"

enum facet_status gpu_module_load(struct facet_provider_instance *instance, uint64_t number, const void *image,
                                  uint64_t bytes, uint64_t *ret_module, struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_context *context;

    if (!image)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "image: expected bytes, not NULL");
    if (!ret_module)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "ret_module: expected an address, not NULL");
    struct gpu_module *module = calloc(1, sizeof *module);
    if (!module)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a module");
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);
    if (status != FACET_OK) {
        free(module);
        return status;
    }
    status = machine->driver->load(machine, image, bytes, &module->handle, error);
    if (status == FACET_OK) {
        module->number = gpu_number_next(machine);
        module->context = context;
        *ret_module = module->number;
        pthread_mutex_lock(&machine->executor.lock);
        module->next = machine->executor.modules;
        machine->executor.modules = module;
        pthread_mutex_unlock(&machine->executor.lock);
    } else {
        free(module);
    }
    gpu_context_leave(machine, context);
    return status;
}

/* Called with the executor's lock. */
static struct gpu_module **find_module(struct gpu_executor *executor, const struct gpu_context *context,
                                       uint64_t number)
{
    struct gpu_module **place = &executor->modules;

    while (*place && ((*place)->number != number || (*place)->context != context))
        place = &(*place)->next;
    return place;
}

static enum facet_status no_module(uint64_t number, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected one of this context", number);
}

enum facet_status gpu_module_unload(struct facet_provider_instance *instance, uint64_t number, uint64_t module_number,
                                    struct facet_error *error)
{
    struct gpu_machine *machine = gpu_machine_of(instance);
    struct gpu_executor *executor = &machine->executor;
    struct gpu_context *context;
    enum facet_status status = gpu_execution_enter(machine, number, &context, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&executor->lock);
    struct gpu_module **place = find_module(executor, context, module_number), *module = *place;
    if (!module)
        status = no_module(module_number, error);
    else if (module->pending)
        status = facet_kit_fail(error, FACET_BUSY, "module %" PRIu64 ": %" PRIu32 " launches of it are not complete",
                                module_number, module->pending);
    else
        *place = module->next;
    pthread_mutex_unlock(&executor->lock);
    if (status == FACET_OK) {
        status = machine->driver->unload(machine, module->handle, error);
        free(module);
    }
    gpu_context_leave(machine, context);
    return status;
}

enum facet_status gpu_module_hold(struct gpu_machine *machine, const struct gpu_context *context,
                                  struct gpu_command *command, struct facet_error *error)
{
    const struct facet_launch *launch = &command->launch;
    char name[sizeof launch->kernel];

    pthread_mutex_lock(&machine->executor.lock);
    struct gpu_module *module = *find_module(&machine->executor, context, launch->module);
    if (module)
        module->pending++;
    pthread_mutex_unlock(&machine->executor.lock);
    if (!module)
        return no_module(launch->module, error);
    command->module = module;
    FACET_KIT_TEXT(name, launch->kernel);
    enum facet_status status = machine->driver->find_kernel(machine, module->handle, name, &command->kernel, error);
    if (status == FACET_NOT_FOUND)
        return facet_kit_fail(error, FACET_NOT_FOUND, "kernel '%s': expected one of module %" PRIu64, name,
                              launch->module);
    return status;
}
