/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: knowing which OpenCL device the vGPU stands for, and showing only that one, as a root device.
 * Never: changes a device's name.
 *
 * A vGPU with units of its own (facet/opencl_address.h) stands for a sub-device. It is made once per process and kept
 * until the process ends; a child of fork() has its parent's, as it has the handles that the program already knows.
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

/* The vGPU's device; false when there is no vGPU to be used or its device is not on this machine. */
bool facet_cl_device_find(struct facet_cl_device *ret_device);

/* Whether `device` is the vGPU's or was carved out of it by clCreateSubDevices. */
bool facet_cl_device_is_ours(cl_device_id device);

/* Whether `device` is what the program sees and a sub-device underneath; then *ret_root is the root device. */
bool facet_cl_device_is_part(cl_device_id device, cl_device_id *ret_root);

#endif
