/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: judging a launch before anything of it runs.
 * Never: lets a kernel have an address that is not memory of its context.
 */
#include <stdlib.h>

#include "cpu.h"

#define SCRATCH_MOST (UINT64_C(4) << 30)                   /* of a work-group */
#define LAUNCH_1_1   offsetof(struct facet_launch, offset) /* size before ABI 1.2 */

/* Copies the host's struct into this provider's version of it: fields beyond the host's size are zero. */
static enum facet_status take_request(const struct facet_launch *launch, struct facet_launch *ret_request,
                                      struct facet_error *error)
{
    struct facet_launch request = {0};

    if (launch->size < LAUNCH_1_1)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT, "launch: size %" PRIu32 ": expected at least %zu",
                              launch->size, (size_t)LAUNCH_1_1);
    enum facet_status status = facet_kit_check_size("launch", launch, sizeof *launch, error);
    if (status != FACET_OK)
        return status;
    memcpy(&request, launch, launch->size < sizeof request ? launch->size : sizeof request);
    request.size = sizeof request;
    if (request.reserved)
        return facet_kit_fail(error, FACET_UNSUPPORTED, "reserved, of launch: expected 0: it has no meaning here");
    request.kernel[sizeof request.kernel - 1] = '\0';
    *ret_request = request;
    return FACET_OK;
}

static enum facet_status check_dimension(const struct facet_launch *launch, int i, struct facet_error *error)
{
    uint64_t items = (uint64_t)launch->grid[i] * launch->group[i];

    if (launch->grid[i] == 0 || launch->group[i] == 0)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "grid[%d] %" PRIu32 ", group[%d] %" PRIu32 ": expected at least 1", i, launch->grid[i], i,
                              launch->group[i]);
    if (items > CPU_GLOBAL_MOST || launch->offset[i] > CPU_GLOBAL_MOST - items)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "grid[%d] %" PRIu32 " of %" PRIu32 " work-items from %" PRIu32
                              ": expected global ids of at most %d",
                              i, launch->grid[i], launch->group[i], launch->offset[i], CPU_GLOBAL_MOST);
    if (launch->dimensions && i >= (int)launch->dimensions && (items != 1 || launch->offset[i]))
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "grid[%d] %" PRIu32 ": expected 1, as there are %" PRIu32 " dimensions", i,
                              launch->grid[i], launch->dimensions);
    return FACET_OK;
}

static enum facet_status check_dimensions(const struct facet_launch *launch, struct facet_error *error)
{
    uint64_t items = 1, groups = 1;

    if (launch->dimensions > 3)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE, "dimensions %" PRIu32 ": expected at most 3",
                              launch->dimensions);
    for (int i = 0; i < 3; i++) {
        enum facet_status status = check_dimension(launch, i, error);

        if (status != FACET_OK)
            return status;
        items *= launch->group[i]; /* each is below 2^31, and the product so far at most 4096 */
        if (items > FACET_HOST_GROUP_MOST)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                                  "group[%d] %" PRIu32 ": expected at most %u work-items of a group", i,
                                  launch->group[i], FACET_HOST_GROUP_MOST);
        if (__builtin_mul_overflow(groups, launch->grid[i], &groups) || groups > CPU_GROUPS_MOST)
            return facet_kit_fail(error, FACET_OUT_OF_RANGE, "grid[%d] %" PRIu32 ": expected at most 2^48 groups", i,
                                  launch->grid[i]);
    }
    return FACET_OK;
}

/* Loading an image does not check this: its other kernels can run, and this one perhaps can in smaller groups. */
static enum facet_status check_scratch(const struct facet_host_kernel *kernel, const struct facet_launch *launch,
                                       struct facet_error *error)
{
    uint32_t items = launch->group[0] * launch->group[1] * launch->group[2]; /* at most 4096 */
    uint64_t bytes = facet_host_scratch_bytes(kernel, items);

    if (bytes <= SCRATCH_MOST)
        return FACET_OK;
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "kernel %s needs %" PRIu64 " bytes of scratch memory for a group of %" PRIu32
                          " work-items: expected at most %" PRIu64,
                          kernel->name, bytes, items, SCRATCH_MOST);
}

static enum facet_status check_kernel(const struct facet_host_kernel *kernel, const struct facet_launch *launch,
                                      struct facet_error *error)
{
    const uint32_t *required = kernel->required_group_size;

    if (required[0] && memcmp(required, launch->group, sizeof launch->group) != 0)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "group %" PRIu32 "x%" PRIu32 "x%" PRIu32 ": expected %" PRIu32 "x%" PRIu32 "x%" PRIu32
                              ", which kernel %s requires",
                              launch->group[0], launch->group[1], launch->group[2], required[0], required[1],
                              required[2], kernel->name);
    if (kernel->local_bytes > CPU_LOCAL_MOST || launch->local_bytes > CPU_LOCAL_MOST - kernel->local_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "local_bytes %" PRIu32 ", and %" PRIu32 " of kernel %s: expected at most %u",
                              launch->local_bytes, kernel->local_bytes, kernel->name, CPU_LOCAL_MOST);
    if (launch->argument_bytes != kernel->argument_bytes)
        return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                              "argument_bytes %" PRIu32 ": expected %" PRIu32 " for kernel %s", launch->argument_bytes,
                              kernel->argument_bytes, kernel->name);
    return check_scratch(kernel, launch, error);
}

static enum facet_status wrong_argument(const struct facet_host_kernel *kernel, uint32_t index, const char *expected,
                                        uint64_t value, struct facet_error *error)
{
    return facet_kit_fail(error, FACET_OUT_OF_RANGE,
                          "argument %" PRIu32 " (%.32s) of kernel %s is %#" PRIx64 ": expected %s", index,
                          kernel->arguments[index].name, kernel->name, value, expected);
}

/* Bytes of a pixel of OpenCL's channel order and type; 0: OpenCL 1.2 does not have them. */
static uint64_t pixel_bytes(const struct facet_host_image_object *image)
{
    enum { CL_R = 0x10b0, CL_SNORM_INT8 = 0x10d0 }; /* the first channel order, and the first channel type */
    /* CL_UNORM_SHORT_565, _555 and CL_UNORM_INT_101010: a value has all channels of a pixel. */
    enum { FIRST_PACKED = 4, LAST_PACKED = 6 };
    static const uint8_t channels[] = {1, 1, 2, 2, 3, 4, 4, 4, 1, 1, 1, 2, 3, 1, 2, 3, 4, 4, 4, 4};
    static const uint8_t bytes[] = {1, 2, 1, 2, 2, 2, 4, 1, 2, 4, 1, 2, 4, 2, 4};
    uint32_t order = image->channel_order - CL_R, type = image->channel_type - CL_SNORM_INT8;

    if (order >= sizeof channels || type >= sizeof bytes)
        return 0;
    return type >= FIRST_PACKED && type <= LAST_PACKED ? bytes[type] : (uint64_t)channels[order] * bytes[type];
}

/* Bytes from the first pixel to the end of the last, as kernels compute addresses. False: rows or slices overlap. */
static bool image_bytes(const struct facet_host_image_object *image, uint64_t *ret_bytes)
{
    uint64_t slices = image->depth > image->array_size ? image->depth : image->array_size;
    uint64_t rows = image->height > 1 ? image->height : 1, row = image->width * pixel_bytes(image), slice;

    slices = slices > 1 ? slices : 1;
    if ((rows > 1 && image->row_bytes < row) || __builtin_add_overflow((rows - 1) * image->row_bytes, row, &slice) ||
        (slices > 1 && image->slice_bytes < slice))
        return false;
    return !__builtin_add_overflow((slices - 1) * image->slice_bytes, slice, ret_bytes);
}

/* The first expectation that the description of an image, or its pixels, does not meet. NULL: they meet all. */
static const char *fault_of_image(const struct cpu_space *space, uint64_t address)
{
    struct facet_host_image_object image;
    uint64_t bytes;

    if (address % 8 || !cpu_space_has(space, address, sizeof image))
        return "an image in memory of this context";
    memcpy(&image, (const void *)address, sizeof image);
    if (!pixel_bytes(&image))
        return "an image of a channel order and type that OpenCL 1.2 numbers";
    if (!image_bytes(&image, &bytes))
        return "an image whose rows and slices do not overlap";
    return cpu_space_has(space, image.pixels, bytes) ? NULL
                                                     : "an image with all of its pixels in memory of this context";
}

static bool is_local(uint64_t offset, uint64_t bytes, const struct facet_launch *launch)
{
    return offset % FACET_HOST_LOCAL_ALIGN == 0 && offset + bytes <= launch->local_bytes;
}

static enum facet_status check_argument(const struct cpu_space *space, const struct facet_host_kernel *kernel,
                                        uint32_t index, const void *arguments, const struct facet_launch *launch,
                                        struct facet_error *error)
{
    const struct facet_host_argument *argument = &kernel->arguments[index];
    const char *expected;
    uint64_t value = 0;

    if (argument->kind == FACET_ARGUMENT_VALUE)
        return FACET_OK;
    memcpy(&value, (const char *)arguments + argument->offset, argument->bytes);
    switch (argument->kind) {
    case FACET_ARGUMENT_GLOBAL:
        return value == 0 || cpu_space_has(space, value, 1)
                   ? FACET_OK
                   : wrong_argument(kernel, index, "0, or memory of this context", value, error);
    case FACET_ARGUMENT_IMAGE:
        expected = fault_of_image(space, value);
        return expected ? wrong_argument(kernel, index, expected, value, error) : FACET_OK;
    case FACET_ARGUMENT_LOCAL: /* the offset, and of checked images the size behind it */
        return is_local((uint32_t)value, value >> 32, launch)
                   ? FACET_OK
                   : wrong_argument(kernel, index, "a multiple of 128 within the launch's local memory", value, error);
    default:
        return FACET_OK;
    }
}

static enum facet_status check_arguments(const struct cpu_space *space, const struct facet_host_kernel *kernel,
                                         const void *arguments, const struct facet_launch *launch,
                                         struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (launch->argument_bytes > 0)
        CPU_REQUIRE(arguments, error);
    for (uint32_t i = 0; status == FACET_OK && i < kernel->argument_count; i++)
        status = check_argument(space, kernel, i, arguments, launch, error);
    return status;
}

/* Finds the module and the kernel. The module is not freed until the launch leaves. */
static enum facet_status find_module_and_kernel(struct cpu_context *context, const struct facet_launch *request,
                                                struct cpu_launch *launch, const struct facet_host_kernel **ret_kernel,
                                                struct facet_error *error)
{
    pthread_mutex_lock(&context->lock);
    launch->module = cpu_module_find(context, request->module);
    const struct facet_host_kernel *kernel = launch->module ? cpu_module_kernel(launch->module, request->kernel) : NULL;
    if (kernel)
        launch->module->pending++;
    pthread_mutex_unlock(&context->lock);
    if (!launch->module)
        return facet_kit_fail(error, FACET_NOT_FOUND, "module %" PRIu64 ": expected one of this context",
                              request->module);
    if (!kernel)
        return facet_kit_fail(error, FACET_NOT_FOUND, "kernel '%s': expected one of module %" PRIu64, request->kernel,
                              request->module);
    *ret_kernel = kernel;
    return FACET_OK;
}

void cpu_launch_enter(struct cpu_context *context, struct cpu_launch *launch)
{
    pthread_mutex_lock(&context->lock);
    launch->context = context;
    launch->sequence = ++context->sequence;
    TAILQ_INSERT_TAIL(&context->launches, launch, link);
    pthread_mutex_unlock(&context->lock);
}

/* Checks and enters the launch under one lock, so that memory that is freed later stays until it is complete. */
static enum facet_status check_and_enter(struct cpu_context *context, struct cpu_launch *launch,
                                         const struct facet_host_kernel *kernel, const struct facet_launch *request,
                                         const void *arguments, struct facet_error *error)
{
    pthread_rwlock_rdlock(&context->space.lock);
    enum facet_status status = check_arguments(&context->space, kernel, arguments, request, error);
    if (status == FACET_OK)
        cpu_launch_enter(context, launch);
    pthread_rwlock_unlock(&context->space.lock);
    return status;
}

static void forget_module(struct cpu_launch *launch)
{
    pthread_mutex_lock(&launch->context->lock);
    launch->module->pending--;
    pthread_mutex_unlock(&launch->context->lock);
}

void cpu_launch_leave(struct cpu_launch *launch)
{
    struct cpu_context *context = launch->context;

    pthread_mutex_lock(&context->lock);
    TAILQ_REMOVE(&context->launches, launch, link);
    bool deferred = !TAILQ_EMPTY(&context->deferred_frees);
    pthread_mutex_unlock(&context->lock);
    if (deferred)
        cpu_deferred_free_run(context);
}

/* The executor calls it when the launch is complete, failed or cancelled. */
static void finish_launch(void *owner)
{
    struct cpu_launch *launch = owner;

    cpu_launch_leave(launch);
    forget_module(launch);
    free(launch);
}

static enum facet_status submit_launch(struct cpu_queue *queue, struct cpu_launch *launch,
                                       const struct facet_host_kernel *kernel, const struct facet_launch *request,
                                       const void *arguments, struct facet_error *error)
{
    enum facet_status status = check_and_enter(queue->context, launch, kernel, request, arguments, error);

    if (status != FACET_OK)
        return status;
    status =
        launch->module->image->check
            ? cpu_checked_launch(queue, launch->module, kernel, request, arguments, finish_launch, launch, error)
            : cpu_stream_launch(queue->stream, kernel, request, arguments, NULL, NULL, finish_launch, launch, error);
    if (status != FACET_OK)
        cpu_launch_leave(launch);
    return status;
}

enum facet_status cpu_launch(struct cpu_queue *queue, const struct facet_launch *request, const void *arguments,
                             struct facet_error *error)
{
    const struct facet_host_kernel *kernel = NULL;
    struct facet_launch copy = {0};
    enum facet_status status = take_request(request, &copy, error);

    if (status != FACET_OK)
        return status;
    struct cpu_launch *launch = calloc(1, sizeof *launch);
    if (!launch)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for a launch");
    launch->context = queue->context;
    status = find_module_and_kernel(queue->context, &copy, launch, &kernel, error);
    if (status != FACET_OK) {
        free(launch);
        return status;
    }
    status = check_dimensions(&copy, error);
    if (status == FACET_OK)
        status = check_kernel(kernel, &copy, error);
    if (status == FACET_OK)
        status = submit_launch(queue, launch, kernel, &copy, arguments, error);
    if (status != FACET_OK) {
        forget_module(launch);
        free(launch);
    }
    return status;
}
