/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: device queries whose answer is a size that the quota limits, and queries whose answer differs between a
 * sub-device and a root device. Never: changes names, versions or limits that the quota does not touch.
 *
 * Programs size their allocations by any of these answers, so all are consistent with a device that has the quota as
 * its memory: no object is larger than the memory, and a row of pixels of the largest size fits in every format.
 */
#include <string.h>

#include "base/integer.h"
#include "device.h"
#include "layer.h"
#include "process.h"

#define PIXEL_BYTES 16u /* of the largest format, four channels of 32 bits */

/*
 * How the quota limits an answer: `unit` is the number of bytes that an answer of 1 stands for, 0 if the quota does not
 * limit the answer; `width` is the size of the number.
 */
struct bound {
    uint64_t unit;
    size_t width;
};

/* Dedicated local memory is not limited; a device without such memory takes local memory from its global memory. */
static struct bound bound_for_local(cl_device_id device)
{
    cl_device_local_mem_type type = CL_LOCAL;

    facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_TYPE, sizeof type, &type, NULL);
    return (struct bound){type == CL_GLOBAL, sizeof(cl_ulong)};
}

static struct bound bound_for(cl_device_id device, cl_device_info param_name)
{
    switch (param_name) {
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
        return (struct bound){1, sizeof(cl_ulong)};
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return bound_for_local(device);
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

/* Lowers the driver's answer, so that the checks of arguments and the size of the answer stay the driver's. */
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

/* The answer is in KiB: the free memory, then the largest free block, if the caller has room for both. */
static void bound_free_kib(void *value, size_t size, uint64_t free_bytes)
{
    for (size_t at = 0; at + sizeof(size_t) <= size; at += sizeof(size_t)) {
        size_t kib;

        memcpy(&kib, (char *)value + at, sizeof kib);
        kib = (size_t)facet_min_u64(kib, free_bytes / 1024);
        memcpy((char *)value + at, &kib, sizeof kib);
    }
}

/* The device that the driver is asked about: the root device for attributes that would reveal a sub-device. */
static cl_device_id device_to_query(cl_device_id device, cl_device_info param_name)
{
    cl_device_id root;

    switch (param_name) {
    case CL_DEVICE_PARENT_DEVICE:
    case CL_DEVICE_PARTITION_TYPE:
    case CL_DEVICE_REFERENCE_COUNT:
        return facet_cl_device_is_part(device, &root) ? root : device;
    default:
        return device;
    }
}

cl_int facet_clGetDeviceInfo(cl_device_id device, cl_device_info param_name, size_t param_value_size, void *param_value,
                             size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetDeviceInfo(device_to_query(device, param_name), param_name, param_value_size,
                                                    param_value, param_value_size_ret);
    const bool answered = result == CL_SUCCESS && param_value;
    const struct bound bound = answered ? bound_for(device, param_name) : (struct bound){0};
    struct facet_tenant *tenant;

    if (bound.unit && (tenant = facet_cl_tenant()))
        bound_number(param_value, bound.width, facet_tenant_memory_limit(tenant) / bound.unit);
    if (answered && param_name == CL_DEVICE_GLOBAL_FREE_MEMORY_AMD && (tenant = facet_cl_tenant()) &&
        facet_cl_target.clGetDeviceInfo(device, param_name, 0, NULL, &written) == CL_SUCCESS)
        bound_free_kib(param_value, facet_min_u64(written, param_value_size), facet_tenant_memory_free_now(tenant));
    return result;
}

/* In a list of devices, replaces the root device by the device that the program sees. */
static void replace_root_device(cl_device_id *devices, size_t size)
{
    struct facet_cl_device ours;

    if (!facet_cl_device_find(&ours))
        return;
    for (size_t i = 0; i < size / sizeof(cl_device_id); i++)
        if (devices[i] == ours.root)
            devices[i] = ours.id;
}

/* PoCL puts the context of a sub-device on its root device, and answers with the root device. */
cl_int facet_clGetContextInfo(cl_context context, cl_context_info param_name, size_t param_value_size,
                              void *param_value, size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetContextInfo(context, param_name, param_value_size, param_value, &written);

    if (result == CL_SUCCESS && param_value_size_ret)
        *param_value_size_ret = written;
    if (result == CL_SUCCESS && param_name == CL_CONTEXT_DEVICES && param_value)
        replace_root_device(param_value, written);
    return result;
}

/* PoCL answers with the root device for programs in a sub-device's context, too. */
cl_int facet_clGetProgramInfo(cl_program program, cl_program_info param_name, size_t param_value_size,
                              void *param_value, size_t *param_value_size_ret)
{
    size_t written = 0;
    cl_int result = facet_cl_target.clGetProgramInfo(program, param_name, param_value_size, param_value, &written);

    if (result == CL_SUCCESS && param_value_size_ret)
        *param_value_size_ret = written;
    if (result == CL_SUCCESS && param_name == CL_PROGRAM_DEVICES && param_value)
        replace_root_device(param_value, written);
    return result;
}
