/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: device queries whose answer is a size that the quota bounds, and queries whose answer would tell a sub-device
 * from a root device.
 * Never: changes names, versions or limits that the quota does not touch.
 *
 * Programs size their allocations by any of these answers, so each agrees with the quota as those of a device with so
 * little memory would: no object in the device's memory is larger than it, and an image of one pixel in all
 * directions but one fits in every format.
 */
#include <string.h>

#include "base/integer.h"
#include "device.h"
#include "layer.h"
#include "process.h"

#define PIXEL_BYTES 16u /* of the largest format, four channels of 32 bits */

/* How an answer follows from the quota: in units of how many bytes, and how wide the number is; 0: it does not. */
struct bound {
    uint64_t unit;
    size_t width;
};

/* Local memory of its own is no part of the device's memory; where a device has none, it is taken from there. */
static struct bound bound_of_local(cl_device_id device)
{
    cl_device_local_mem_type type = CL_LOCAL;

    facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_TYPE, sizeof type, &type, NULL);
    return (struct bound){type == CL_GLOBAL, sizeof(cl_ulong)};
}

static struct bound bound_of(cl_device_id device, cl_device_info param_name)
{
    switch (param_name) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
        return (struct bound){1, sizeof(cl_ulong)};
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return bound_of_local(device);
    case CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE:
    case CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE:
    case CL_DEVICE_PRINTF_BUFFER_SIZE:
        return (struct bound){1, sizeof(size_t)};
    case CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE:
    case CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE:
        return (struct bound){1, sizeof(cl_uint)};
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_ARRAY_SIZE:
    case CL_DEVICE_IMAGE2D_MAX_WIDTH:
    case CL_DEVICE_IMAGE2D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_WIDTH:
    case CL_DEVICE_IMAGE3D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_DEPTH:
        return (struct bound){PIXEL_BYTES, sizeof(size_t)};
    default:
        return (struct bound){0};
    }
}

/* The driver answers first, so that its checks and sizes are exact; then its answer is bounded. */
static void bound_number(void *value, size_t width, uint64_t limit)
{
    cl_ulong wide;
    cl_uint narrow;

    if (width == sizeof wide) {
        memcpy(&wide, value, sizeof wide);
        wide = facet_min_u64(wide, limit);
        memcpy(value, &wide, sizeof wide);
    } else {
        memcpy(&narrow, value, sizeof narrow);
        narrow = (cl_uint)facet_min_u64(narrow, limit);
        memcpy(value, &narrow, sizeof narrow);
    }
}

/* Free memory comes in KiB: all of it, then the largest block, as many as there was room for. */
static void bound_free_kib(void *value, size_t size, uint64_t free_bytes)
{
    for (size_t at = 0; at + sizeof(size_t) <= size; at += sizeof(size_t)) {
        size_t kib;

        memcpy(&kib, (char *)value + at, sizeof kib);
        kib = (size_t)facet_min_u64(kib, free_bytes / 1024);
        memcpy((char *)value + at, &kib, sizeof kib);
    }
}

/* The device whose driver answers: the root device for attributes by which a vGPU's sub-device would show. */
static cl_device_id asked_device(cl_device_id device, cl_device_info param_name)
{
    cl_device_id whole;

    switch (param_name) {
    case CL_DEVICE_PARENT_DEVICE:
    case CL_DEVICE_PARTITION_TYPE:
    case CL_DEVICE_REFERENCE_COUNT:
        return facet_cl_device_is_part(device, &whole) ? whole : device;
    default:
        return device;
    }
}

cl_int facet_clGetDeviceInfo(cl_device_id device, cl_device_info param_name, size_t param_value_size, void *param_value,
                             size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetDeviceInfo(asked_device(device, param_name), param_name, param_value_size,
                                                    param_value, param_value_size_ret);
    const bool answered = result == CL_SUCCESS && param_value;
    const struct bound bound = answered ? bound_of(device, param_name) : (struct bound){0};
    struct facet_tenant *tenant;

    if (bound.unit && (tenant = facet_cl_tenant()))
        bound_number(param_value, bound.width, facet_tenant_memory_limit(tenant) / bound.unit);
    if (answered && param_name == CL_DEVICE_GLOBAL_FREE_MEMORY_AMD && (tenant = facet_cl_tenant()) &&
        facet_cl_target.clGetDeviceInfo(device, param_name, 0, NULL, &written) == CL_SUCCESS)
        bound_free_kib(param_value, facet_min_u64(written, param_value_size), facet_tenant_memory_free_now(tenant));
    return result;
}

/* The root device in a list of devices becomes the one that the program knows. */
static void show_ours(cl_device_id *devices, size_t size)
{
    struct facet_cl_device ours;

    if (!facet_cl_device_find(&ours))
        return;
    for (size_t i = 0; i < size / sizeof(cl_device_id); i++)
        if (devices[i] == ours.whole)
            devices[i] = ours.id;
}

/* PoCL puts the context of a sub-device on its root device, and says so. */
cl_int facet_clGetContextInfo(cl_context context, cl_context_info param_name, size_t param_value_size,
                              void *param_value, size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetContextInfo(context, param_name, param_value_size, param_value, &written);

    if (result == CL_SUCCESS && param_value_size_ret)
        *param_value_size_ret = written;
    if (result == CL_SUCCESS && param_name == CL_CONTEXT_DEVICES && param_value)
        show_ours(param_value, written);
    return result;
}

/* And so the programs in that context. */
cl_int facet_clGetProgramInfo(cl_program program, cl_program_info param_name, size_t param_value_size,
                              void *param_value, size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetProgramInfo(program, param_name, param_value_size, param_value, &written);

    if (result == CL_SUCCESS && param_value_size_ret)
        *param_value_size_ret = written;
    if (result == CL_SUCCESS && param_name == CL_PROGRAM_DEVICES && param_value)
        show_ours(param_value, written);
    return result;
}
