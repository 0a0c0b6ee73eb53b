/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `math`: operations of a library as work of the executor.
 *
 * Owns: opening facet-cpu-math.so, checking that operands are memory of the context, and queueing the prepared work.
 * Never: computes (math/ does), or judges shapes (math_check.c).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu.h"
#include "math_check.h"
#include "math_library.h"

#define PATH_SIZE 4096

/* An operation under way. */
struct math_launch {
    struct cpu_launch launch;
    const struct cpu_math_library *library;
    struct cpu_math_work *work;
    struct cpu_phases phases;
};

/* ---- the library ---- */

/* The library lies beside this object, in the build and when installed, or in the folder that FACET_LIB_DIR names. */
static bool find_library(char *ret_path)
{
    const char *chosen = secure_getenv("FACET_LIB_DIR");
    Dl_info place;
    const char *slash = dladdr((void *)(uintptr_t)&cpu_math_is_installed, &place) && place.dli_fname
                            ? strrchr(place.dli_fname, '/')
                            : NULL;

    if (chosen && *chosen)
        return snprintf(ret_path, PATH_SIZE, "%s/" CPU_MATH_FILE, chosen) < PATH_SIZE && access(ret_path, R_OK) == 0;
    if (slash &&
        snprintf(ret_path, PATH_SIZE, "%.*s/" CPU_MATH_FILE, (int)(slash - place.dli_fname), place.dli_fname) <
            PATH_SIZE &&
        access(ret_path, R_OK) == 0)
        return true;
    snprintf(ret_path, PATH_SIZE, "%s/" CPU_MATH_FILE, FACET_PLUGIN_DIR);
    return access(ret_path, R_OK) == 0;
}

bool cpu_math_is_installed(void)
{
    char path[PATH_SIZE];

    return find_library(path);
}

static enum facet_status load_library(const struct cpu_math_library **ret_library, struct facet_error *error)
{
    char path[PATH_SIZE];
    cpu_math_entry_func entry;

    if (!find_library(path))
        return facet_kit_fail(error, FACET_UNSUPPORTED,
                              "there is no " CPU_MATH_FILE ": expected it beside the provider; build Facet with oneDNN "
                              "(package libdnnl-dev), or install the package that has it");
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!object)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "%s; it needs oneDNN (package libdnnl2)", dlerror());
    void *symbol = dlsym(object, CPU_MATH_ENTRY);
    if (!symbol)
        return facet_kit_fail(error, FACET_CORRUPT, "%s does not export " CPU_MATH_ENTRY, path);
    memcpy(&entry, &symbol, sizeof entry);
    const struct cpu_math_library *library = entry();
    if (library->abi != CPU_MATH_ABI)
        return facet_kit_fail(error, FACET_ABI_MISMATCH, "%s speaks version %" PRIu32 "; expected %u", path,
                              library->abi, CPU_MATH_ABI);
    *ret_library = library;
    return FACET_OK;
}

/* The library is opened once. If that fails, the next operation tries again. */
static enum facet_status open_library(struct facet_provider_instance *instance, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&instance->math_lock);
    if (!instance->math_engine) {
        status = load_library(&instance->math, error);
        if (status == FACET_OK)
            status =
                instance->math->open(instance->features, instance->info.compute_units, &instance->math_engine, error);
    }
    pthread_mutex_unlock(&instance->math_lock);
    return status;
}

void cpu_math_close(struct facet_provider_instance *instance)
{
    if (instance->math_engine)
        instance->math->close(instance->math_engine);
    pthread_mutex_destroy(&instance->math_lock);
}

static enum facet_status math_support(struct facet_provider_instance *instance, uint32_t device,
                                      struct facet_math_support *ret_support, struct facet_error *error)
{
    struct facet_math_support support = {.size = sizeof support};
    enum facet_status status = cpu_check_device(instance, device, error);

    CPU_REQUIRE(ret_support, error);
    if (status == FACET_OK)
        status = open_library(instance, error);
    if (status != FACET_OK)
        return status;
    instance->math->support(instance->math_engine, &support);
    return facet_kit_struct(&support, sizeof support, ret_support, error);
}

/* ---- an operation ---- */

static void free_launch(struct math_launch *launch)
{
    if (launch->work)
        launch->library->release(launch->work);
    free(launch);
}

/* The executor calls it when the operation is complete, failed or cancelled. */
static void finish_launch(void *owner)
{
    struct math_launch *launch = owner;

    cpu_launch_leave(&launch->launch);
    free_launch(launch);
}

static enum facet_status check_operands(const struct cpu_space *space, const struct kit_math_operands *operands,
                                        struct facet_error *error)
{
    for (uint32_t i = 0; i < operands->count; i++) {
        const struct kit_math_operand *operand = &operands->list[i];

        if (!cpu_space_has(space, operand->address, operand->bytes))
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "%s: %" PRIu64 " bytes at %#" PRIx64 ": expected memory of this context",
                                  operand->name, operand->bytes, operand->address);
    }
    return FACET_OK;
}

/* Checks and enters the operation under one lock, so that memory that is freed later stays until it is complete. */
static enum facet_status check_and_enter(struct cpu_context *context, struct math_launch *launch,
                                         const struct kit_math_operands *operands, struct facet_error *error)
{
    pthread_rwlock_rdlock(&context->space.lock);
    enum facet_status status = check_operands(&context->space, operands, error);
    if (status == FACET_OK)
        cpu_launch_enter(context, &launch->launch);
    pthread_rwlock_unlock(&context->space.lock);
    return status;
}

static enum facet_status submit_launch(struct cpu_queue *queue, struct math_launch *launch, struct facet_error *error)
{
    struct cpu_math_work *work = launch->work;
    struct facet_launch request = {.size = sizeof request,
                                   .argument_bytes = sizeof work,
                                   .grid = {work->groups, 1, 1},
                                   .group = {1, 1, 1},
                                   .dimensions = 1};

    memcpy(request.kernel, work->name, sizeof request.kernel);
    launch->phases = (struct cpu_phases){work->phases, work->phase_ends, &work->status};
    return cpu_stream_launch_phases(queue->stream, &work->kernel, &request, &work, &launch->phases, finish_launch,
                                    launch, error);
}

/* The operands are checked first, and their memory is not freed while the operation is prepared. */
static enum facet_status launch_math(struct cpu_queue *queue, const struct facet_math *operation,
                                     const struct kit_math_operands *operands, struct facet_error *error)
{
    const struct facet_provider_instance *instance = queue->context->instance;
    struct math_launch *launch = calloc(1, sizeof *launch);

    if (!launch)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an operation");
    launch->library = instance->math;
    enum facet_status status = check_and_enter(queue->context, launch, operands, error);
    if (status != FACET_OK) {
        free(launch);
        return status;
    }
    status = launch->library->prepare(instance->math_engine, operation, &launch->work, error);
    if (status == FACET_OK)
        status = submit_launch(queue, launch, error);
    if (status != FACET_OK) {
        cpu_launch_leave(&launch->launch);
        free_launch(launch);
    }
    return status;
}

static enum facet_status math_run(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                  const struct facet_math *operation, struct facet_error *error)
{
    struct kit_math_operands operands;
    struct cpu_queue *queue = NULL;
    struct facet_math copy;

    CPU_REQUIRE(operation, error);
    CPU_REQUIRE(instance, error);
    enum facet_status status = open_library(instance, error);
    if (status == FACET_OK)
        status = cpu_queue_take(instance, context, stream, &queue, error);
    if (status != FACET_OK)
        return status;
    status = kit_math_check(operation, &copy, &operands, error);
    if (status == FACET_OK)
        status = launch_math(queue, &copy, &operands, error);
    cpu_queue_drop(queue);
    return status;
}

const struct facet_math_ops cpu_math_ops = {
    .size = sizeof cpu_math_ops,
    .support = math_support,
    .run = math_run,
};
