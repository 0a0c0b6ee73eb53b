/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: finding the vGPU's device by its address, making its sub-device, and the calls that list or retain devices or
 * make contexts on them. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include <facet/opencl_address.h>

#include "base/cleanup.h"
#include "layer.h"
#include "process.h"

#define ALL_TYPES                                                                                                      \
    (CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR |                   \
     CL_DEVICE_TYPE_CUSTOM)

/* Found once per process; the device is written last. */
static _Atomic(cl_platform_id) found_platform;
static _Atomic(cl_device_id) found_root, found_device;

/* The search over all devices. An address is a stem, followed by the number of earlier devices with the same stem. */
struct search {
    struct facet_opencl_place place;
    unsigned same_stem_count;
    struct facet_cl_device found;
};

static bool match_device(struct search *search, const char *platform_name, cl_device_id device)
{
    char name[1024] = "", candidate[FACET_OPENCL_ADDRESS_SIZE], stem[FACET_OPENCL_ADDRESS_SIZE];

    if (facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL) != CL_SUCCESS)
        return false;
    facet_opencl_address_stem(platform_name, name, stem);
    if (strncmp(search->place.device, stem, strlen(stem)) != 0)
        return false;
    facet_opencl_address(platform_name, name, search->same_stem_count++, candidate);
    return strcmp(candidate, search->place.device) == 0;
}

static bool search_platform(struct search *search, cl_platform_id platform)
{
    char name[1024] = "";
    cl_uint count = 0;

    if (facet_cl_target.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) != CL_SUCCESS ||
        facet_cl_target.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS || !count)
        return false;
    FACET_CLEANUP_FREE cl_device_id *devices = calloc(count, sizeof(cl_device_id));
    if (!devices || facet_cl_target.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices, NULL) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < count; i++) {
        if (match_device(search, name, devices[i])) {
            search->found = (struct facet_cl_device){.platform = platform, .root = devices[i]};
            return true;
        }
    }
    return false;
}

static bool search_all(struct search *search)
{
    cl_uint count = 0;

    if (facet_cl_target.clGetPlatformIDs(0, NULL, &count) != CL_SUCCESS || !count)
        return false;
    FACET_CLEANUP_FREE cl_platform_id *platforms = calloc(count, sizeof(cl_platform_id));
    if (!platforms || facet_cl_target.clGetPlatformIDs(count, platforms, NULL) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < count; i++)
        if (search_platform(search, platforms[i]))
            return true;
    return false;
}

/*
 * Makes the sub-device that the address names; without units it is the whole device. Units before `start` become a
 * sub-device too, which is released.
 */
static bool create_part(const struct facet_opencl_place *place, struct facet_cl_device *device)
{
    const cl_device_partition_property first = place->start ? place->start : place->count;
    const cl_device_partition_property second = place->start ? place->count : CL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    const cl_device_partition_property counts[] = {CL_DEVICE_PARTITION_BY_COUNTS, first, second,
                                                   CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    const cl_uint last = place->start ? 1 : 0;
    cl_device_id parts[2];

    device->id = device->root;
    if (!place->count)
        return true;
    if (facet_cl_target.clCreateSubDevices(device->root, counts, last + 1, parts, NULL) != CL_SUCCESS)
        return false;
    if (last)
        facet_cl_target.clReleaseDevice(parts[0]);
    device->id = parts[last];
    return true;
}

/* If two threads search at once, both use the device of the first. */
static void publish_device(struct facet_cl_device *device)
{
    cl_device_id earlier = NULL;

    atomic_store_explicit(&found_platform, device->platform, memory_order_relaxed);
    atomic_store_explicit(&found_root, device->root, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&found_device, &earlier, device->id, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    if (device->id != device->root)
        facet_cl_target.clReleaseDevice(device->id);
    device->id = earlier;
}

/* An image may have another driver, or another version of it, than the machine on which the vGPU was made. */
static void tell_absence(const struct facet_policy *policy, const struct search *search)
{
    struct facet_error error;

    facet_error_set(
        &error, FACET_NOT_FOUND,
        "no OpenCL driver here has the device of vGPU %.63s, '%.120s' (%.160s); expected the driver that the "
        "machine has",
        policy->vgpu_name, policy->device.name, search->place.device);
    facet_cl_process_refuse(&error);
}

static bool find_and_publish(const struct facet_policy *policy, struct facet_cl_device *ret_device)
{
    struct search search = {.same_stem_count = 0};

    if (!facet_opencl_address_parse(policy->device.address, &search.place))
        return false;
    if (!search_all(&search)) {
        tell_absence(policy, &search);
        return false;
    }
    if (!create_part(&search.place, &search.found))
        return false;
    publish_device(&search.found);
    *ret_device = search.found;
    return true;
}

bool facet_cl_device_find(struct facet_cl_device *ret_device)
{
    struct facet_tenant *tenant = facet_cl_tenant();
    struct facet_cl_device device = {.id = atomic_load_explicit(&found_device, memory_order_acquire)};

    if (!tenant)
        return false;
    if (!device.id)
        return find_and_publish(tenant->policy, ret_device);
    device.platform = atomic_load_explicit(&found_platform, memory_order_relaxed);
    device.root = atomic_load_explicit(&found_root, memory_order_relaxed);
    *ret_device = device;
    return true;
}

bool facet_cl_device_is_ours(cl_device_id device)
{
    struct facet_cl_device ours;

    if (!facet_cl_device_find(&ours))
        return false;
    while (device && device != ours.id)
        if (facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_PARENT_DEVICE, sizeof(cl_device_id), &device, NULL))
            return false;
    return device == ours.id;
}

bool facet_cl_device_is_part(cl_device_id device, cl_device_id *ret_root)
{
    struct facet_cl_device ours;

    if (!facet_cl_device_find(&ours) || device != ours.id || ours.id == ours.root)
        return false;
    *ret_root = ours.root;
    return true;
}

/*
 * OpenCL does not count references to a root device, and the program takes its device for one. So its references are
 * not counted either, if the device is a sub-device: the program may release it more often than it retained it.
 */
cl_int facet_clRetainDevice(cl_device_id device)
{
    cl_device_id root;

    return facet_cl_target.clRetainDevice(facet_cl_device_is_part(device, &root) ? root : device);
}

cl_int facet_clReleaseDevice(cl_device_id device)
{
    cl_device_id root;

    return facet_cl_target.clReleaseDevice(facet_cl_device_is_part(device, &root) ? root : device);
}

/*
 * Without a usable vGPU the platforms stay visible, without devices: a program then reports "no device", not "no
 * OpenCL".
 */
cl_int facet_clGetPlatformIDs(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
    struct facet_cl_device ours;

    if ((!platforms && !num_platforms) || (platforms && !num_entries))
        return CL_INVALID_VALUE;
    if (!facet_cl_device_find(&ours))
        return facet_cl_target.clGetPlatformIDs(num_entries, platforms, num_platforms);
    if (platforms)
        platforms[0] = ours.platform;
    if (num_platforms)
        *num_platforms = 1;
    return CL_SUCCESS;
}

/* The vGPU is the only device that the program sees, so it is the default device too. ALL leaves custom devices out. */
static cl_int match_type(cl_device_id device, cl_device_type wanted)
{
    cl_device_type type = 0;

    if (wanted != CL_DEVICE_TYPE_ALL && (!wanted || wanted & ~(cl_device_type)ALL_TYPES))
        return CL_INVALID_DEVICE_TYPE;
    cl_int result = facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    if (result != CL_SUCCESS)
        return result;
    if (wanted == CL_DEVICE_TYPE_ALL)
        return type & CL_DEVICE_TYPE_CUSTOM ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
    return wanted & (type | CL_DEVICE_TYPE_DEFAULT) ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

cl_int facet_clGetDeviceIDs(cl_platform_id platform, cl_device_type device_type, cl_uint num_entries,
                            cl_device_id *devices, cl_uint *num_devices)
{
    struct facet_cl_device ours;
    cl_int result = CL_DEVICE_NOT_FOUND;

    if ((!devices && !num_devices) || (devices && !num_entries))
        return CL_INVALID_VALUE;
    if (facet_cl_device_find(&ours)) {
        if (platform && platform != ours.platform)
            return facet_cl_target.clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, NULL) == CL_SUCCESS
                       ? CL_DEVICE_NOT_FOUND
                       : CL_INVALID_PLATFORM;
        result = match_type(ours.id, device_type);
    }
    if (result == CL_SUCCESS && devices)
        devices[0] = ours.id;
    if (num_devices && (result == CL_SUCCESS || result == CL_DEVICE_NOT_FOUND))
        *num_devices = result == CL_SUCCESS;
    return result;
}

typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);

cl_context facet_clCreateContext(const cl_context_properties *properties, cl_uint num_devices,
                                 const cl_device_id *devices, context_notify pfn_notify, void *user_data,
                                 cl_int *errcode_ret)
{
    if (!facet_cl_tenant()) {
        facet_cl_set_error(errcode_ret, CL_OUT_OF_RESOURCES);
        return NULL;
    }
    for (cl_uint i = 0; devices && i < num_devices; i++) {
        if (!facet_cl_device_is_ours(devices[i])) {
            facet_cl_set_error(errcode_ret, CL_INVALID_DEVICE);
            return NULL;
        }
    }
    return facet_cl_target.clCreateContext(properties, num_devices, devices, pfn_notify, user_data, errcode_ret);
}

static cl_platform_id context_platform(const cl_context_properties *properties)
{
    for (; properties && properties[0]; properties += 2)
        if (properties[0] == CL_CONTEXT_PLATFORM)
            return (cl_platform_id)properties[1];
    return NULL;
}

/* Makes the context on the device that the program sees, because the driver would choose among all devices. */
cl_context facet_clCreateContextFromType(const cl_context_properties *properties, cl_device_type device_type,
                                         context_notify pfn_notify, void *user_data, cl_int *errcode_ret)
{
    cl_device_id device;
    cl_int result = CL_OUT_OF_RESOURCES;

    if (facet_cl_tenant())
        result = facet_clGetDeviceIDs(context_platform(properties), device_type, 1, &device, NULL);
    if (result != CL_SUCCESS) {
        facet_cl_set_error(errcode_ret, result);
        return NULL;
    }
    return facet_cl_target.clCreateContext(properties, 1, &device, pfn_notify, user_data, errcode_ret);
}
