/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: platform, contexts, and the ICD's exported entry points. Never: knows the properties of a device. */
#include <string.h>
#include <time.h>

#include "fake.h"

#define EXPORTED __attribute__((visibility("default")))

struct fake_counters fake_counters;
cl_icd_dispatch fake_dispatch;
struct _cl_platform_id fake_platform = {.base = {.dispatch = &fake_dispatch, .references = 1}};
struct _cl_device_id fake_devices[FAKE_DEVICES] = {
    {.base = {.dispatch = &fake_dispatch, .references = 1}, .vendor_id = 1, .units = FAKE_UNITS},
    {.base = {.dispatch = &fake_dispatch, .references = 1}, .vendor_id = 2, .units = FAKE_UNITS},
};

void *fake_make(size_t size)
{
    struct fake_object *object = calloc(1, size);

    if (object) {
        object->dispatch = &fake_dispatch;
        atomic_store(&object->references, 1);
    }
    return object;
}

bool fake_unref(struct fake_object *object)
{
    return atomic_fetch_sub(&object->references, 1) == 1;
}

cl_int fake_answer(const void *value, size_t size, size_t param_value_size, void *param_value,
                   size_t *param_value_size_ret)
{
    if (param_value && param_value_size < size)
        return CL_INVALID_VALUE;
    if (param_value && size)
        memcpy(param_value, value, size);
    if (param_value_size_ret)
        *param_value_size_ret = size;
    return CL_SUCCESS;
}

void fake_error(cl_int *errcode_ret, cl_int code)
{
    if (errcode_ret)
        *errcode_ret = code;
}

uint64_t fake_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static cl_int get_platform_info(cl_platform_id platform, cl_platform_info name, size_t size, void *value, size_t *ret)
{
    const char *text = name == CL_PLATFORM_NAME             ? "Facet Fake"
                       : name == CL_PLATFORM_VENDOR         ? "Facet"
                       : name == CL_PLATFORM_VERSION        ? "OpenCL 3.0 fake"
                       : name == CL_PLATFORM_PROFILE        ? "FULL_PROFILE"
                       : name == CL_PLATFORM_EXTENSIONS     ? "cl_khr_icd cl_intel_unified_shared_memory"
                       : name == CL_PLATFORM_ICD_SUFFIX_KHR ? "FAKE"
                                                            : NULL;

    if (platform != &fake_platform)
        return CL_INVALID_PLATFORM;
    return text ? fake_answer(text, strlen(text) + 1, size, value, ret) : CL_INVALID_VALUE;
}

static cl_int get_platform_ids(cl_uint count, cl_platform_id *platforms, cl_uint *ret)
{
    if (count && platforms)
        platforms[0] = &fake_platform;
    if (ret)
        *ret = 1;
    return CL_SUCCESS;
}

static cl_int get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id *devices,
                             cl_uint *ret)
{
    cl_uint matching_count = type & CL_DEVICE_TYPE_DEFAULT && type != CL_DEVICE_TYPE_ALL ? 1 : FAKE_DEVICES;

    if (platform != &fake_platform)
        return CL_INVALID_PLATFORM;
    if (!(type & (CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_DEFAULT)))
        return CL_DEVICE_NOT_FOUND;
    for (cl_uint i = 0; devices && i < count && i < matching_count; i++)
        devices[i] = &fake_devices[i];
    if (ret)
        *ret = matching_count;
    return CL_SUCCESS;
}

static cl_context create_context(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                 void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user_data,
                                 cl_int *errcode_ret)
{
    cl_context context;

    if (!count || !devices || count > FAKE_DEVICES) {
        fake_error(errcode_ret, CL_INVALID_VALUE);
        return NULL;
    }
    context = fake_make(sizeof *context);
    memcpy(context->devices, devices, count * sizeof *devices);
    context->device_count = count;
    atomic_fetch_add(&fake_counters.contexts, 1);
    fake_error(errcode_ret, CL_SUCCESS);
    return context;
}

static cl_int retain_context(cl_context context)
{
    atomic_fetch_add(&context->base.references, 1);
    return CL_SUCCESS;
}

static cl_int release_context(cl_context context)
{
    if (fake_unref(&context->base)) {
        atomic_fetch_sub(&fake_counters.contexts, 1);
        free(context);
    }
    return CL_SUCCESS;
}

static cl_int get_context_info(cl_context context, cl_context_info name, size_t size, void *value, size_t *ret)
{
    if (name == CL_CONTEXT_DEVICES)
        return fake_answer(context->devices, context->device_count * sizeof(cl_device_id), size, value, ret);
    if (name == CL_CONTEXT_NUM_DEVICES)
        return fake_answer(&context->device_count, sizeof context->device_count, size, value, ret);
    return CL_INVALID_VALUE;
}

static void *get_extension(const char *name)
{
    if (strcmp(name, "facetFakeCounters") == 0)
        return &fake_counters;
    if (strcmp(name, "facetFakeDevice") == 0) /* the first device, even if a layer hides it */
        return &fake_devices[0];
    return fake_memory_extension(name);
}

static void *get_extension_for_platform(cl_platform_id platform, const char *name)
{
    return get_extension(name);
}

static void install_dispatch(void)
{
    if (fake_dispatch.clGetPlatformInfo)
        return;
    fake_dispatch.clGetPlatformIDs = get_platform_ids;
    fake_dispatch.clGetPlatformInfo = get_platform_info;
    fake_dispatch.clGetDeviceIDs = get_device_ids;
    fake_dispatch.clCreateContext = create_context;
    fake_dispatch.clRetainContext = retain_context;
    fake_dispatch.clReleaseContext = release_context;
    fake_dispatch.clGetContextInfo = get_context_info;
    fake_dispatch.clGetExtensionFunctionAddress = get_extension;
    fake_dispatch.clGetExtensionFunctionAddressForPlatform = get_extension_for_platform;
    fake_install_device(&fake_dispatch);
    fake_install_memory(&fake_dispatch);
    fake_install_queue(&fake_dispatch);
    fake_install_program(&fake_dispatch);
    fake_install_engine(&fake_dispatch);
}

static cl_int icd_get_platform_ids(cl_uint count, cl_platform_id *platforms, cl_uint *ret)
{
    install_dispatch();
    return get_platform_ids(count, platforms, ret);
}

EXPORTED cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info name, size_t size, void *value, size_t *ret)
{
    install_dispatch();
    return get_platform_info(platform, name, size, value, ret);
}

EXPORTED void *clGetExtensionFunctionAddress(const char *name)
{
    install_dispatch();
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        return (void *)(uintptr_t)icd_get_platform_ids;
    if (strcmp(name, "clGetPlatformInfo") == 0)
        return (void *)(uintptr_t)get_platform_info;
    return get_extension(name);
}
