/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: facet_kernel_*: a kernel on a session, its arguments and its launches. Never: queries a device itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/session.h>

#include "base/cleanup.h"
#include "base/sized.h"
#include "kernel/image.h"
#include "kernel/launch.h"
#include "kernel/range.h"

enum { BLOCK_MAX = 4096 };

struct facet_kernel {
    struct facet_session *session;
    struct facet_image *image; /* the kernel holds one reference */
    const struct facet_host_kernel *description;
    uint64_t context, module;
    uint32_t *local_bytes; /* of each argument; 0 for an argument that is no local memory */
    bool *is_set;
    _Alignas(FACET_HOST_LOCAL_ALIGN) unsigned char block[BLOCK_MAX];
};

/* Lists the kernels of an image, such as "saxpy, scale", as many as fit. */
static void list_kernels(const struct facet_image *image, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < image->kernel_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", image->kernels[i].name);
}

static enum facet_status find_kernel(const struct facet_image *image, const char *name,
                                     const struct facet_host_kernel **ret_kernel, struct facet_error *error)
{
    const struct facet_host_kernel *kernel = facet_image_find(image, name);
    char names[200];

    list_kernels(image, names, sizeof names);
    if (!image->bytes)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "image", "image has no code; its source has errors");
    if (!kernel && image->kernel_count == 0)
        return facet_error_argument(error, FACET_NOT_FOUND, "name", "kernel '%.64s': the image describes no kernels",
                                    name);
    if (!kernel)
        return facet_error_argument(error, FACET_NOT_FOUND, "name", "kernel '%.64s' is not in the image; it has %s",
                                    name, names);
    if (strlen(name) >= sizeof((struct facet_launch *)0)->kernel)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "name", "kernel '%.64s...': expected at most 63 letters",
                                    name);
    if (kernel->argument_bytes > BLOCK_MAX)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "name",
                                    "kernel '%s' takes %" PRIu32 " bytes of arguments; expected at most %d", name,
                                    kernel->argument_bytes, BLOCK_MAX);
    *ret_kernel = kernel;
    return FACET_OK;
}

static void kernel_free(struct facet_kernel *kernel)
{
    if (!kernel)
        return;
    facet_image_destroy(kernel->image);
    free(kernel->local_bytes);
    free(kernel->is_set);
    free(kernel);
}

static struct facet_kernel *kernel_new(struct facet_session *session, uint64_t context, const struct facet_image *image,
                                       const struct facet_host_kernel *description)
{
    /* facet/host_kernel.h promises the alignment that the member `block` has. */
    struct facet_kernel *kernel = aligned_alloc(_Alignof(struct facet_kernel), sizeof *kernel);

    if (!kernel)
        return NULL;
    memset(kernel, 0, sizeof *kernel);
    kernel->session = session;
    kernel->context = context;
    kernel->image = facet_image_hold(image);
    kernel->description = description;
    kernel->local_bytes = calloc(description->argument_count + 1, sizeof *kernel->local_bytes);
    kernel->is_set = calloc(description->argument_count + 1, sizeof *kernel->is_set);
    if (kernel->local_bytes && kernel->is_set)
        return kernel;
    kernel_free(kernel);
    return NULL;
}

enum facet_status facet_kernel_load(struct facet_session *session, uint64_t context, const struct facet_image *image,
                                    const char *name, struct facet_kernel **ret_kernel, struct facet_error *error)
{
    const struct facet_host_kernel *description = NULL;

    if (!session || !image || !name || !ret_kernel)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kernel",
                                    "session, image, name and ret_kernel: expected none of them to be NULL");
    enum facet_status status = find_kernel(image, name, &description, error);
    if (status != FACET_OK)
        return status;
    struct facet_kernel *kernel = kernel_new(session, context, image, description);
    if (!kernel)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for kernel '%s'", name);
    status = facet_session_provider(session)->execution->load(facet_session_instance(session), context, image->bytes,
                                                              image->size, &kernel->module, error);
    if (status == FACET_OK)
        *ret_kernel = kernel;
    else
        kernel_free(kernel);
    return status;
}

void facet_kernel_destroy(struct facet_kernel *kernel)
{
    if (!kernel)
        return;
    /* While a launch of the kernel runs, unloading fails as busy; then the context frees the module when it ends. */
    (void)facet_session_provider(kernel->session)
        ->execution->unload(facet_session_instance(kernel->session), kernel->context, kernel->module, NULL);
    kernel_free(kernel);
}

/* --- arguments -------------------------------------------------------------------------------------------------- */

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"", "value", "global memory", "local memory", "image", "sampler"};

    return names[kind];
}

/* Argument `index`, which must be of one of two kinds. */
static enum facet_status find_argument(const struct facet_kernel *kernel, uint32_t index, uint32_t kind, uint32_t other,
                                       const struct facet_host_argument **ret_argument, struct facet_error *error)
{
    if (!kernel)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kernel", "kernel is NULL; expected a loaded one");
    const struct facet_host_kernel *description = kernel->description;
    if (index >= description->argument_count)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "index",
                                    "argument %" PRIu32 ": expected less than %" PRIu32
                                    ", the arguments of kernel '%s'",
                                    index, description->argument_count, description->name);
    const struct facet_host_argument *argument = &description->arguments[index];
    if (argument->kind != kind && argument->kind != other)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "index",
                                    "argument %" PRIu32 " (%.60s %.60s) of kernel '%s' is a %s; expected a %s", index,
                                    argument->type, argument->name, description->name, kind_name(argument->kind),
                                    kind_name(kind));
    *ret_argument = argument;
    return FACET_OK;
}

enum facet_status facet_kernel_set_value(struct facet_kernel *kernel, uint32_t index, const void *value, size_t bytes,
                                         struct facet_error *error)
{
    const struct facet_host_argument *argument = NULL;
    enum facet_status status =
        find_argument(kernel, index, FACET_ARGUMENT_VALUE, FACET_ARGUMENT_SAMPLER, &argument, error);

    if (status != FACET_OK)
        return status;
    if (!value || bytes != argument->bytes)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "bytes",
                                    "argument %" PRIu32 " (%.60s %.60s) of kernel '%s': %zu bytes; expected %" PRIu32,
                                    index, argument->type, argument->name, kernel->description->name, value ? bytes : 0,
                                    argument->bytes);
    memcpy(kernel->block + argument->offset, value, bytes);
    kernel->is_set[index] = true;
    return FACET_OK;
}

enum facet_status facet_kernel_set_memory(struct facet_kernel *kernel, uint32_t index, uint64_t address,
                                          struct facet_error *error)
{
    const struct facet_host_argument *argument = NULL;
    enum facet_status status =
        find_argument(kernel, index, FACET_ARGUMENT_GLOBAL, FACET_ARGUMENT_IMAGE, &argument, error);

    if (status != FACET_OK)
        return status;
    memcpy(kernel->block + argument->offset, &address, sizeof address);
    kernel->is_set[index] = true;
    return FACET_OK;
}

enum facet_status facet_kernel_set_local(struct facet_kernel *kernel, uint32_t index, uint32_t bytes,
                                         struct facet_error *error)
{
    const struct facet_host_argument *argument = NULL;
    enum facet_status status =
        find_argument(kernel, index, FACET_ARGUMENT_LOCAL, FACET_ARGUMENT_LOCAL, &argument, error);

    if (status != FACET_OK)
        return status;
    if (bytes == 0 || bytes > FACET_HOST_LOCAL_MOST)
        return facet_error_argument(
            error, FACET_OUT_OF_RANGE, "bytes",
            "argument %" PRIu32 " (%.60s %.60s) of kernel '%s': %" PRIu32 " bytes of local memory; expected 1 to %u",
            index, argument->type, argument->name, kernel->description->name, bytes, FACET_HOST_LOCAL_MOST);
    kernel->local_bytes[index] = bytes;
    kernel->is_set[index] = true;
    return FACET_OK;
}

/* --- launching -------------------------------------------------------------------------------------------------- */

static enum facet_status check_set(const struct facet_kernel *kernel, struct facet_error *error)
{
    const struct facet_host_kernel *description = kernel->description;

    for (uint32_t i = 0; i < description->argument_count; i++)
        if (!kernel->is_set[i])
            return facet_error_argument(
                error, FACET_BAD_STATE, "kernel", "argument %" PRIu32 " (%.60s %.60s) of kernel '%s' is not set", i,
                description->arguments[i].type, description->arguments[i].name, description->name);
    return FACET_OK;
}

/* Writes the offset of each local argument, one behind the other, into the block of arguments. */
static enum facet_status place_locals(struct facet_kernel *kernel, uint32_t *ret_bytes, struct facet_error *error)
{
    const struct facet_host_kernel *description = kernel->description;
    bool host = strncmp(kernel->image->target, "host", 4) == 0;
    uint64_t used = 0;

    for (uint32_t i = 0; i < description->argument_count; i++) {
        if (description->arguments[i].kind != FACET_ARGUMENT_LOCAL)
            continue;
        /* Where a target takes eight bytes, the first four hold the number, since all targets are little-endian. */
        memset(kernel->block + description->arguments[i].offset, 0, description->arguments[i].bytes);
        memcpy(kernel->block + description->arguments[i].offset, &(uint32_t){(uint32_t)used}, sizeof(uint32_t));
        if (host && description->arguments[i].bytes == FACET_HOST_LOCAL_CHECKED)
            memcpy(kernel->block + description->arguments[i].offset + sizeof(uint32_t), &kernel->local_bytes[i],
                   sizeof(uint32_t));
        used +=
            ((uint64_t)kernel->local_bytes[i] + FACET_HOST_LOCAL_ALIGN - 1) & ~(uint64_t)(FACET_HOST_LOCAL_ALIGN - 1);
        if (used + description->local_bytes > INT32_MAX)
            return facet_error_argument(error, FACET_OUT_OF_RANGE, "local",
                                        "local memory of kernel '%s': %" PRIu64 " bytes; expected at most %d",
                                        description->name, used + description->local_bytes, INT32_MAX);
    }
    *ret_bytes = (uint32_t)used;
    return FACET_OK;
}

static enum facet_status take_range(const struct facet_range *given, struct facet_range *copy,
                                    struct facet_error *error)
{
    *copy = (struct facet_range){.size = sizeof *copy};
    if (!given || given->size < offsetof(struct facet_range, group))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "range",
                                    "range of size %" PRIu32 ": expected at least %zu", given ? given->size : 0,
                                    offsetof(struct facet_range, group));
    FACET_NEED_KNOWN("range", given, error);
    FACET_SIZED_TAKE(copy, given);
    return FACET_OK;
}

static enum facet_status submit_launch(const struct facet_kernel *kernel, uint64_t stream,
                                       const struct facet_grid *grid, uint32_t local_bytes, struct facet_error *error)
{
    struct facet_launch launch = {
        .size = sizeof launch,
        .argument_bytes = kernel->description->argument_bytes,
        .module = kernel->module,
        .local_bytes = local_bytes,
        .dimensions = grid->dimensions,
    };

    memcpy(launch.grid, grid->grid, sizeof launch.grid);
    memcpy(launch.group, grid->group, sizeof launch.group);
    memcpy(launch.offset, grid->offset, sizeof launch.offset);
    snprintf(launch.kernel, sizeof launch.kernel, "%s", kernel->description->name);
    return facet_session_provider(kernel->session)
        ->execution->launch(facet_session_instance(kernel->session), kernel->context, stream, &launch, kernel->block,
                            error);
}

enum facet_status facet_kernel_launch(struct facet_kernel *kernel, uint64_t stream, const struct facet_range *range,
                                      struct facet_error *error)
{
    struct facet_range copy;
    struct facet_grid grid;
    uint32_t local_bytes = 0;

    if (!kernel)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kernel", "kernel is NULL; expected a loaded one");
    enum facet_status status = take_range(range, &copy, error);
    if (status == FACET_OK)
        status = check_set(kernel, error);
    if (status == FACET_OK)
        status = facet_range_resolve(&copy, kernel->description, &grid, error);
    if (status == FACET_OK)
        status = place_locals(kernel, &local_bytes, error);
    return status == FACET_OK ? submit_launch(kernel, stream, &grid, local_bytes, error) : status;
}

bool facet_kernel_is_of(const struct facet_kernel *kernel, const struct facet_session *session, uint64_t context)
{
    return kernel->session == session && kernel->context == context;
}

enum facet_status facet_kernel_judge_memory(const struct facet_kernel *kernel, facet_kernel_judge_func judge,
                                            void *data, struct facet_error *error)
{
    const struct facet_host_kernel *description = kernel->description;
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; i < description->argument_count && status == FACET_OK; i++) {
        const struct facet_host_argument *argument = &description->arguments[i];
        uint64_t address = 0;

        if (!kernel->is_set[i] || (argument->kind != FACET_ARGUMENT_GLOBAL && argument->kind != FACET_ARGUMENT_IMAGE))
            continue;
        memcpy(&address, kernel->block + argument->offset, sizeof address);
        if (address)
            status = judge(data, argument->name, address, error);
    }
    return status;
}

const char *facet_kernel_name(const struct facet_kernel *kernel)
{
    return kernel->description->name;
}
