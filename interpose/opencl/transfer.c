/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: copies, fills and migrations as launches.
 * Never: limits transfers below 1 MiB. Programs make thousands of them (arguments, flags, results), and an admission
 * would cost more than the transfer itself. Map and unmap pass through as well: on most devices they only wait and
 * return an address, and the time for which a program holds a mapping is no device time.
 */
#include "interpose/kit/estimate.h"
#include "launch.h"
#include "layer.h"
#include "memory.h"

#define LIMITED_BYTES (UINT64_C(1) << 20)

cl_int facet_cl_transfer_begin(struct facet_cl_launch *launch, uint64_t bytes, cl_uint num_waits, cl_event *event)
{
    if (bytes >= LIMITED_BYTES)
        return facet_cl_launch_begin(launch, facet_estimate_transfer_key(bytes), num_waits, event);
    *launch = (struct facet_cl_launch){.event = event};
    return CL_SUCCESS;
}

static uint64_t region_bytes(const size_t *region, uint64_t element)
{
    uint64_t bytes = region ? element : 0;

    for (int i = 0; region && i < 3; i++)
        bytes = facet_cl_memory_times(bytes, region[i]);
    return bytes;
}

static uint64_t image_region_bytes(cl_mem image, const size_t *region)
{
    size_t element = 0;

    facet_cl_target.clGetImageInfo(image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL);
    return region_bytes(region, element);
}

cl_int facet_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                                 void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueReadBuffer(queue, buffer, blocking, offset, size, pointer, num_waits, waits,
                                                     launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset, size_t size,
                                  const void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueWriteBuffer(queue, buffer, blocking, offset, size, pointer, num_waits, waits,
                                                      launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t source_offset,
                                 size_t target_offset, size_t size, cl_uint num_waits, const cl_event *waits,
                                 cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueCopyBuffer(queue, source, target, source_offset, target_offset, size,
                                                     num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueReadBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                     const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                                     size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice,
                                     void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, region_bytes(region, 1), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueReadBufferRect(queue, buffer, blocking, buffer_origin, host_origin, region,
                                                         buffer_row, buffer_slice, host_row, host_slice, pointer,
                                                         num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                      const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                                      size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice,
                                      const void *pointer, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, region_bytes(region, 1), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueWriteBufferRect(queue, buffer, blocking, buffer_origin, host_origin, region,
                                                          buffer_row, buffer_slice, host_row, host_slice, pointer,
                                                          num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem source, cl_mem target, const size_t *source_origin,
                                     const size_t *target_origin, const size_t *region, size_t source_row,
                                     size_t source_slice, size_t target_row, size_t target_slice, cl_uint num_waits,
                                     const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, region_bytes(region, 1), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueCopyBufferRect(queue, source, target, source_origin, target_origin, region,
                                                         source_row, source_slice, target_row, target_slice, num_waits,
                                                         waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_size,
                                 size_t offset, size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueFillBuffer(queue, buffer, pattern, pattern_size, offset, size, num_waits,
                                                     waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueReadImage(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
                                const size_t *region, size_t row, size_t slice, void *pointer, cl_uint num_waits,
                                const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(image, region), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueReadImage(queue, image, blocking, origin, region, row, slice, pointer,
                                                    num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
                                 const size_t *region, size_t row, size_t slice, const void *pointer, cl_uint num_waits,
                                 const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(image, region), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueWriteImage(queue, image, blocking, origin, region, row, slice, pointer,
                                                     num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueCopyImage(cl_command_queue queue, cl_mem source, cl_mem target, const size_t *source_origin,
                                const size_t *target_origin, const size_t *region, cl_uint num_waits,
                                const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(source, region), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueCopyImage(queue, source, target, source_origin, target_origin, region,
                                                    num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem source, cl_mem target, const size_t *origin,
                                        const size_t *region, size_t offset, cl_uint num_waits, const cl_event *waits,
                                        cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(source, region), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueCopyImageToBuffer(queue, source, target, origin, region, offset, num_waits,
                                                            waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem source, cl_mem target, size_t offset,
                                        const size_t *origin, const size_t *region, cl_uint num_waits,
                                        const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(target, region), num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueCopyBufferToImage(queue, source, target, offset, origin, region, num_waits,
                                                            waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void *color, const size_t *origin,
                                const size_t *region, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, image_region_bytes(image, region), num_waits, event);

    if (result == CL_SUCCESS)
        result =
            facet_cl_target.clEnqueueFillImage(queue, image, color, origin, region, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

static uint64_t objects_bytes(cl_uint count, const cl_mem *objects)
{
    uint64_t bytes = 0;

    for (cl_uint i = 0; objects && i < count; i++) {
        size_t size = 0;

        facet_cl_target.clGetMemObjectInfo(objects[i], CL_MEM_SIZE, sizeof size, &size, NULL);
        bytes += size;
    }
    return bytes;
}

cl_int facet_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem *objects,
                                        cl_mem_migration_flags flags, cl_uint num_waits, const cl_event *waits,
                                        cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, objects_bytes(count, objects), num_waits, event);

    if (result == CL_SUCCESS)
        result =
            facet_cl_target.clEnqueueMigrateMemObjects(queue, count, objects, flags, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void *target, const void *source, size_t size,
                                cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result =
            facet_cl_target.clEnqueueSVMMemcpy(queue, blocking, target, source, size, num_waits, waits, launch.event);
    return facet_cl_launch_end(&launch, queue, blocking, result);
}

cl_int facet_clEnqueueSVMMemFill(cl_command_queue queue, void *target, const void *pattern, size_t pattern_size,
                                 size_t size, cl_uint num_waits, const cl_event *waits, cl_event *event)
{
    struct facet_cl_launch launch;
    cl_int result = facet_cl_transfer_begin(&launch, size, num_waits, event);

    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueSVMMemFill(queue, target, pattern, pattern_size, size, num_waits, waits,
                                                     launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}

cl_int facet_clEnqueueSVMMigrateMem(cl_command_queue queue, cl_uint count, const void **pointers, const size_t *sizes,
                                    cl_mem_migration_flags flags, cl_uint num_waits, const cl_event *waits,
                                    cl_event *event)
{
    struct facet_cl_launch launch;
    uint64_t bytes = 0;

    for (cl_uint i = 0; sizes && i < count; i++)
        bytes += sizes[i];
    cl_int result = facet_cl_transfer_begin(&launch, bytes, num_waits, event);
    if (result == CL_SUCCESS)
        result = facet_cl_target.clEnqueueSVMMigrateMem(queue, count, pointers, sizes, flags, num_waits, waits,
                                                        launch.event);
    return facet_cl_launch_end(&launch, queue, CL_FALSE, result);
}
