/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: knowing which OpenCL device the vGPU stands for, and showing only that one.
 * Never: changes what a device is called.
 */
#ifndef FACET_OPENCL_DEVICE_H
#define FACET_OPENCL_DEVICE_H

#include <CL/cl.h>
#include <stdbool.h>

struct facet_cl_device {
    cl_platform_id platform;
    cl_device_id id;
};

/* The vGPU's device; false when there is no vGPU to be used or its device is not on this machine. */
bool facet_cl_device_find(struct facet_cl_device *ret_device);

/* Whether `device` is the vGPU's or was carved out of it by clCreateSubDevices. */
bool facet_cl_device_is_ours(cl_device_id device);

#endif
