/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: finding the OpenCL device that the vGPU stands for, and showing only that device, as a root device.
 * Never: changes a device's name.
 *
 * A vGPU with units of its own (facet/opencl_address.h) stands for a sub-device, which is made once per process and
 * kept until the process ends. A child of fork() uses its parent's, because the program already has that handle.
 */
#ifndef FACET_OPENCL_DEVICE_H
#define FACET_OPENCL_DEVICE_H

#include <CL/cl.h>
#include <stdbool.h>

struct facet_cl_device {
    cl_platform_id platform;
    cl_device_id id;   /* the device that the program sees */
    cl_device_id root; /* the root device: `id` itself, or the device that it is a part of */
};

/* The vGPU's device; false when there is no usable vGPU, or its device is not on this machine. */
bool facet_cl_device_find(struct facet_cl_device *ret_device);

/* Whether `device` is the vGPU's, or a sub-device of it that clCreateSubDevices made. */
bool facet_cl_device_is_ours(cl_device_id device);

/* Whether `device` is the device that the program sees, and is a sub-device; then *ret_root is its root device. */
bool facet_cl_device_is_part(cl_device_id device, cl_device_id *ret_root);

#endif
