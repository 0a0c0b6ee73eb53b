/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a device's answers, and sub-devices by counts. Never: has more than FAKE_DEVICES root devices. */
#include <string.h>

#include "fake.h"

static cl_int get_partition_info(cl_device_id device, cl_device_info name, size_t size, void *value, size_t *ret)
{
    const cl_uint references = atomic_load(&device->base.references);
    const cl_uint most = device->units > 1 ? device->units : 0;
    const cl_device_partition_property kind = most ? CL_DEVICE_PARTITION_BY_COUNTS : 0;

    switch (name) {
    case CL_DEVICE_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
        return fake_answer(&most, sizeof most, size, value, ret);
    case CL_DEVICE_PARTITION_TYPE:
        return fake_answer(device->partition, device->partition_words * sizeof *device->partition, size, value, ret);
    default:
        return fake_answer(&kind, sizeof kind, size, value, ret);
    }
}

/* Local memory is a part of global memory, and only an image's memory limits its sides. */
static cl_int get_size_info(cl_device_info name, size_t size, void *value, size_t *ret)
{
    const cl_ulong memory = FAKE_MEMORY;
    const cl_device_local_mem_type kind = CL_GLOBAL;
    const size_t native = FAKE_MEMORY;
    const cl_uint most = UINT32_MAX;

    switch (name) {
    case CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE:
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return fake_answer(&memory, sizeof memory, size, value, ret);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return fake_answer(&kind, sizeof kind, size, value, ret);
    case CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE:
        return fake_answer(&most, sizeof most, size, value, ret);
    case CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE:
    case CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE:
    case CL_DEVICE_PRINTF_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_BUFFER_SIZE:
    case CL_DEVICE_IMAGE_MAX_ARRAY_SIZE:
    case CL_DEVICE_IMAGE2D_MAX_WIDTH:
    case CL_DEVICE_IMAGE2D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_WIDTH:
    case CL_DEVICE_IMAGE3D_MAX_HEIGHT:
    case CL_DEVICE_IMAGE3D_MAX_DEPTH:
        return fake_answer(&native, sizeof native, size, value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int get_device_info(cl_device_id device, cl_device_info name, size_t size, void *value, size_t *ret)
{
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_platform_id platform = &fake_platform;
    const cl_ulong memory = FAKE_MEMORY, largest = FAKE_MAX_ALLOC;
    const cl_uint queue_size = 16384;
    const cl_uint largest_packet = FAKE_MAX_PACKET;
    const size_t free_kib[2] = {FAKE_MEMORY / 1024, FAKE_MAX_ALLOC / 1024};

    switch (name) {
    case CL_DEVICE_NAME:
        return fake_answer("Fake; Device", sizeof "Fake; Device", size, value, ret);
    case CL_DEVICE_VERSION:
        return fake_answer("OpenCL 3.0 fake", sizeof "OpenCL 3.0 fake", size, value, ret);
    case CL_DEVICE_TYPE:
        return fake_answer(&type, sizeof type, size, value, ret);
    case CL_DEVICE_VENDOR_ID:
        return fake_answer(&device->vendor_id, sizeof device->vendor_id, size, value, ret);
    case CL_DEVICE_PARENT_DEVICE:
        return fake_answer(&device->parent, sizeof(cl_device_id), size, value, ret);
    case CL_DEVICE_PLATFORM:
        return fake_answer(&platform, sizeof platform, size, value, ret);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return fake_answer(&memory, sizeof memory, size, value, ret);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return fake_answer(&largest, sizeof largest, size, value, ret);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return fake_answer(&device->units, sizeof device->units, size, value, ret);
    case CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE:
        return fake_answer(&queue_size, sizeof queue_size, size, value, ret);
    case CL_DEVICE_PIPE_MAX_PACKET_SIZE:
        return fake_answer(&largest_packet, sizeof largest_packet, size, value, ret);
    case CL_DEVICE_GLOBAL_FREE_MEMORY_AMD:
        return fake_answer(free_kib, sizeof free_kib, size, value, ret);
    case CL_DEVICE_REFERENCE_COUNT:
    case CL_DEVICE_PARTITION_MAX_SUB_DEVICES:
    case CL_DEVICE_PARTITION_PROPERTIES:
    case CL_DEVICE_PARTITION_TYPE:
        return get_partition_info(device, name, size, value, ret);
    default:
        return get_size_info(name, size, value, ret);
    }
}

/* The number of parts that a list of counts asks for; 0 when the device does not have as many units. */
static cl_uint count_parts(cl_device_id device, const cl_device_partition_property *counts)
{
    cl_device_partition_property units = 0;
    cl_uint parts = 0;

    for (; parts < device->units && counts[parts] > 0; parts++)
        units += counts[parts];
    return counts[parts] == CL_DEVICE_PARTITION_BY_COUNTS_LIST_END && units <= device->units ? parts : 0;
}

static cl_device_id make_part(cl_device_id parent, const cl_device_partition_property *properties, cl_uint index,
                              cl_uint parts)
{
    cl_device_id part = fake_make(sizeof *part);

    part->vendor_id = parent->vendor_id;
    part->units = (cl_uint)properties[1 + index];
    part->parent = parent;
    part->partition_words = parts + 3;
    memcpy(part->partition, properties, part->partition_words * sizeof *properties);
    fake_dispatch.clRetainDevice(parent);
    atomic_fetch_add(&fake_counters.sub_devices, 1);
    return part;
}

/* With FAKE_REFUSE_PARTS in the environment, the driver announces sub-devices and refuses to make them. */
static cl_int create_sub_devices(cl_device_id device, const cl_device_partition_property *properties, cl_uint room,
                                 cl_device_id *parts, cl_uint *ret)
{
    if (!properties || properties[0] != CL_DEVICE_PARTITION_BY_COUNTS)
        return CL_INVALID_VALUE;
    cl_uint count = count_parts(device, properties + 1);
    if (!count)
        return CL_INVALID_DEVICE_PARTITION_COUNT;
    if (getenv("FAKE_REFUSE_PARTS"))
        return CL_DEVICE_PARTITION_FAILED;
    if (parts && room < count)
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; parts && i < count; i++)
        parts[i] = make_part(device, properties, i, count);
    if (ret)
        *ret = count;
    return CL_SUCCESS;
}

static cl_int retain_device(cl_device_id device)
{
    if (!device)
        return CL_INVALID_DEVICE;
    if (device->parent)
        atomic_fetch_add(&device->base.references, 1);
    return CL_SUCCESS;
}

static cl_int release_device(cl_device_id device)
{
    if (!device)
        return CL_INVALID_DEVICE;
    if (device->parent && fake_unref(&device->base)) {
        release_device(device->parent);
        atomic_fetch_sub(&fake_counters.sub_devices, 1);
        free(device);
    }
    return CL_SUCCESS;
}

void fake_install_device(cl_icd_dispatch *dispatch)
{
    dispatch->clGetDeviceInfo = get_device_info;
    dispatch->clCreateSubDevices = create_sub_devices;
    dispatch->clRetainDevice = retain_device;
    dispatch->clReleaseDevice = release_device;
}
