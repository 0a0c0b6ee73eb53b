/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: memory objects, SVM and USM pointers. Never: limits more than the size of one allocation. */
#include <CL/cl_ext.h>
#include <string.h>

#include "fake.h"

#define ROW_ALIGNMENT       256
#define FAKE_MAX_SIDE       2097152 /* elements, of an image */
#define MOST_DATA           4096    /* bytes: the largest buffer that holds data */
#define POINTER_HEADER_SIZE 64      /* bytes before an SVM or USM allocation; they hold its size */

static void add_destructor(cl_mem memory, struct fake_destructor *destructor)
{
    destructor->next = memory->destructors;
    memory->destructors = destructor;
}

static cl_mem make_memory(cl_context context, cl_mem_object_type type, size_t size, bool with_data, cl_int *errcode_ret)
{
    cl_mem memory;

    if (!context) {
        fake_error(errcode_ret, CL_INVALID_CONTEXT);
        return NULL;
    }
    memory = fake_make(sizeof *memory);
    memory->context = context;
    memory->type = type;
    memory->size = size;
    memory->data = with_data ? malloc(size) : NULL;
    fake_dispatch.clRetainContext(context);
    atomic_fetch_add(&fake_counters.memory_objects, 1);
    atomic_fetch_add(&fake_counters.bytes, (int64_t)size);
    fake_error(errcode_ret, CL_SUCCESS);
    return memory;
}

/* Returns CL_INVALID_VALUE, CL_INVALID_HOST_PTR or CL_SUCCESS, as the specification says. */
static cl_int check_host_pointer(cl_mem_flags flags, const void *host)
{
    const cl_mem_flags access = flags & (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY);

    if (access & (access - 1))
        return CL_INVALID_VALUE;
    return !host == !(flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) ? CL_SUCCESS : CL_INVALID_HOST_PTR;
}

/* Small buffers hold data, so that tests can check copies; large ones have only a size, which saves memory. */
static cl_mem create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *errcode_ret)
{
    if (!size || size > FAKE_MAX_ALLOC) {
        fake_error(errcode_ret, CL_INVALID_BUFFER_SIZE);
        return NULL;
    }
    if (check_host_pointer(flags, host) != CL_SUCCESS) {
        fake_error(errcode_ret, check_host_pointer(flags, host));
        return NULL;
    }
    cl_mem memory = make_memory(context, CL_MEM_OBJECT_BUFFER, size, size <= MOST_DATA, errcode_ret);
    if (memory && memory->data && host)
        memcpy(memory->data, host, size);
    return memory;
}

static cl_mem create_buffer_with_properties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                            size_t size, void *host, cl_int *errcode_ret)
{
    return create_buffer(context, flags, size, host, errcode_ret);
}

static cl_int retain_memory(cl_mem memory)
{
    atomic_fetch_add(&memory->base.references, 1);
    return CL_SUCCESS;
}

/* An object without memory of its own holds a reference to its parent, and counts no bytes. */
static cl_mem make_child(cl_mem parent, cl_mem_object_type type, cl_int *errcode_ret)
{
    cl_mem memory = make_memory(parent->context, type, 0, false, errcode_ret);

    retain_memory(parent);
    memory->parent = parent;
    return memory;
}

static cl_mem create_sub_buffer(cl_mem parent, cl_mem_flags flags, cl_buffer_create_type type, const void *region,
                                cl_int *errcode_ret)
{
    return make_child(parent, CL_MEM_OBJECT_BUFFER, errcode_ret);
}

static size_t element_size(const cl_image_format *format)
{
    size_t channels = format->image_channel_order == CL_RGBA ? 4 : 1;

    return format->image_channel_data_type == CL_FLOAT ? channels * 4 : channels;
}

static size_t at_least_one(size_t value)
{
    return value ? value : 1;
}

static cl_mem create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                           const cl_image_desc *desc, void *host, cl_int *errcode_ret)
{
    if (!format || !desc || !desc->image_width) {
        fake_error(errcode_ret, CL_INVALID_IMAGE_SIZE);
        return NULL;
    }
    if (desc->image_width > FAKE_MAX_SIDE || desc->image_height > FAKE_MAX_SIDE || desc->image_depth > FAKE_MAX_SIDE) {
        fake_error(errcode_ret, CL_INVALID_IMAGE_SIZE);
        return NULL;
    }
    if (check_host_pointer(flags, host) != CL_SUCCESS) {
        fake_error(errcode_ret, check_host_pointer(flags, host));
        return NULL;
    }
    if (desc->mem_object)
        return make_child(desc->mem_object, desc->image_type, errcode_ret);

    size_t row = (desc->image_width * element_size(format) + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
    size_t size =
        row * at_least_one(desc->image_height) * at_least_one(desc->image_depth) * at_least_one(desc->image_array_size);
    cl_mem image = make_memory(context, desc->image_type, size, false, errcode_ret);
    if (image)
        image->element = element_size(format);
    return image;
}

static cl_mem create_image_with_properties(cl_context context, const cl_mem_properties *properties, cl_mem_flags flags,
                                           const cl_image_format *format, const cl_image_desc *desc, void *host,
                                           cl_int *errcode_ret)
{
    return create_image(context, flags, format, desc, host, errcode_ret);
}

static cl_mem create_image_2d(cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width,
                              size_t height, size_t row, void *host, cl_int *errcode_ret)
{
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = width, .image_height = height, .image_row_pitch = row};

    return create_image(context, flags, format, &desc, host, errcode_ret);
}

static cl_mem create_image_3d(cl_context context, cl_mem_flags flags, const cl_image_format *format, size_t width,
                              size_t height, size_t depth, size_t row, size_t slice, void *host, cl_int *errcode_ret)
{
    cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE3D, .image_width = width, .image_height = height, .image_depth = depth};

    return create_image(context, flags, format, &desc, host, errcode_ret);
}

static cl_mem create_pipe(cl_context context, cl_mem_flags flags, cl_uint packet, cl_uint count,
                          const cl_pipe_properties *properties, cl_int *errcode_ret)
{
    if (!packet || !count || packet > FAKE_MAX_PACKET) {
        fake_error(errcode_ret, CL_INVALID_PIPE_SIZE);
        return NULL;
    }
    return make_memory(context, CL_MEM_OBJECT_PIPE, (size_t)packet * count, false, errcode_ret);
}

static cl_int release_memory(cl_mem memory)
{
    if (!fake_unref(&memory->base))
        return CL_SUCCESS;
    while (memory->destructors) {
        struct fake_destructor *destructor = memory->destructors;

        memory->destructors = destructor->next;
        destructor->notify(memory, destructor->user_data);
        free(destructor);
    }
    if (memory->parent)
        release_memory(memory->parent);
    atomic_fetch_sub(&fake_counters.memory_objects, 1);
    atomic_fetch_sub(&fake_counters.bytes, (int64_t)memory->size);
    fake_dispatch.clReleaseContext(memory->context);
    free(memory->data);
    free(memory);
    return CL_SUCCESS;
}

/* With FAKE_REFUSE_DESTRUCTOR in the environment, every registration fails. */
static cl_int set_destructor(cl_mem memory, void(CL_CALLBACK *notify)(cl_mem, void *), void *user_data)
{
    struct fake_destructor *destructor;

    if (getenv("FAKE_REFUSE_DESTRUCTOR"))
        return CL_OUT_OF_RESOURCES;
    destructor = malloc(sizeof *destructor);
    *destructor = (struct fake_destructor){.notify = notify, .user_data = user_data};
    add_destructor(memory, destructor);
    return CL_SUCCESS;
}

static cl_int get_memory_info(cl_mem memory, cl_mem_info name, size_t size, void *value, size_t *ret)
{
    cl_uint references = atomic_load(&memory->base.references);

    switch (name) {
    case CL_MEM_SIZE:
        return fake_answer(&memory->size, sizeof memory->size, size, value, ret);
    case CL_MEM_TYPE:
        return fake_answer(&memory->type, sizeof memory->type, size, value, ret);
    case CL_MEM_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int get_image_info(cl_mem image, cl_image_info name, size_t size, void *value, size_t *ret)
{
    return name == CL_IMAGE_ELEMENT_SIZE ? fake_answer(&image->element, sizeof image->element, size, value, ret)
                                         : CL_INVALID_VALUE;
}

/* The size is stored before the memory, so that fake_pointer_free() can subtract it from the sum of bytes. */
static void *pointer_alloc(size_t size)
{
    size_t *block = size && size <= FAKE_MAX_ALLOC ? malloc(size + POINTER_HEADER_SIZE) : NULL;

    if (!block)
        return NULL;
    *block = size;
    atomic_fetch_add(&fake_counters.bytes, (int64_t)size);
    return (char *)block + POINTER_HEADER_SIZE;
}

void fake_pointer_free(void *pointer)
{
    if (!pointer)
        return;
    size_t *block = (size_t *)(void *)((char *)pointer - POINTER_HEADER_SIZE);
    atomic_fetch_sub(&fake_counters.bytes, (int64_t)*block);
    free(block);
}

static void *svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment)
{
    return pointer_alloc(size);
}

static void svm_free(cl_context context, void *pointer)
{
    fake_pointer_free(pointer);
}

static void *usm_host_alloc(cl_context context, const cl_mem_properties_intel *properties, size_t size,
                            cl_uint alignment, cl_int *errcode_ret)
{
    void *pointer = pointer_alloc(size);

    fake_error(errcode_ret, pointer ? CL_SUCCESS : CL_INVALID_BUFFER_SIZE);
    return pointer;
}

static void *usm_device_alloc(cl_context context, cl_device_id device, const cl_mem_properties_intel *properties,
                              size_t size, cl_uint alignment, cl_int *errcode_ret)
{
    return usm_host_alloc(context, properties, size, alignment, errcode_ret);
}

static cl_int usm_free(cl_context context, void *pointer)
{
    fake_pointer_free(pointer);
    return CL_SUCCESS;
}

void *fake_memory_extension(const char *name)
{
    static const struct {
        const char *name;
        uintptr_t function;
    } functions[] = {
        {"clHostMemAllocINTEL", (uintptr_t)usm_host_alloc},     {"clDeviceMemAllocINTEL", (uintptr_t)usm_device_alloc},
        {"clSharedMemAllocINTEL", (uintptr_t)usm_device_alloc}, {"clMemFreeINTEL", (uintptr_t)usm_free},
        {"clMemBlockingFreeINTEL", (uintptr_t)usm_free},
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(name, functions[i].name) == 0)
            return (void *)functions[i].function;
    return NULL;
}

void fake_install_memory(cl_icd_dispatch *dispatch)
{
    dispatch->clCreateBuffer = create_buffer;
    dispatch->clCreateBufferWithProperties = create_buffer_with_properties;
    dispatch->clCreateSubBuffer = create_sub_buffer;
    dispatch->clCreateImage = create_image;
    dispatch->clCreateImageWithProperties = create_image_with_properties;
    dispatch->clCreateImage2D = create_image_2d;
    dispatch->clCreateImage3D = create_image_3d;
    dispatch->clCreatePipe = create_pipe;
    dispatch->clRetainMemObject = retain_memory;
    dispatch->clReleaseMemObject = release_memory;
    dispatch->clSetMemObjectDestructorCallback = set_destructor;
    dispatch->clGetMemObjectInfo = get_memory_info;
    dispatch->clGetImageInfo = get_image_info;
    dispatch->clSVMAlloc = svm_alloc;
    dispatch->clSVMFree = svm_free;
}
