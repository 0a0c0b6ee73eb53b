/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the device memory of programs: their global variables, if the driver tells the size of these.
 * Never: records a program without global variables.
 *
 * A build without a callback is charged when it returns. A build with a callback may still be running then; it is
 * charged when its first kernel is made, before anything could use the variables.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "layer.h"
#include "objects.h"
#include "process.h"

/* Devices of one context are parts of the vGPU and share its quota, so only the largest answer counts. */
static uint64_t global_bytes(cl_program program)
{
    cl_uint count = 0;
    uint64_t largest = 0;

    if (facet_cl_target.clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, NULL) != CL_SUCCESS)
        return 0;
    FACET_CLEANUP_FREE cl_device_id *devices = calloc(count ? count : 1, sizeof(cl_device_id));
    if (!devices || facet_cl_target.clGetProgramInfo(program, CL_PROGRAM_DEVICES, count * sizeof(cl_device_id), devices,
                                                     NULL) != CL_SUCCESS)
        return 0;
    for (cl_uint i = 0; i < count; i++) {
        size_t bytes = 0;

        if (facet_cl_target.clGetProgramBuildInfo(program, devices[i], CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
                                                  sizeof bytes, &bytes, NULL) == CL_SUCCESS &&
            bytes > largest)
            largest = bytes;
    }
    return largest;
}

/*
 * Charges the program's current size, and drops an earlier charge. If two threads do this at once, the thread that
 * replaces the other thread's charge drops the replaced charge.
 */
static cl_int charge_program(cl_program program)
{
    facet_cl_charge charge, earlier = 0;
    uint64_t bytes = global_bytes(program);

    if (!bytes)
        return CL_SUCCESS;
    if (facet_cl_map_get(FACET_CL_PROGRAMS, program, &earlier) && facet_cl_charge_bytes(earlier) == bytes)
        return CL_SUCCESS;
    cl_int result = facet_cl_charge_take(bytes, CL_OUT_OF_RESOURCES, &charge);
    if (result != CL_SUCCESS)
        return result;
    earlier = 0;
    if (!facet_cl_map_put(FACET_CL_PROGRAMS, program, charge, &earlier)) {
        facet_cl_charge_drop(charge);
        return CL_OUT_OF_HOST_MEMORY;
    }
    facet_cl_charge_drop(earlier);
    return CL_SUCCESS;
}

typedef void(CL_CALLBACK *program_notify)(cl_program, void *);

cl_int facet_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                            program_notify notify, void *user_data)
{
    cl_int result = facet_cl_target.clBuildProgram(program, num_devices, devices, options, notify, user_data);

    return result == CL_SUCCESS && !notify ? charge_program(program) : result;
}

cl_int facet_clCompileProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                              cl_uint num_headers, const cl_program *headers, const char **names, program_notify notify,
                              void *user_data)
{
    cl_int result = facet_cl_target.clCompileProgram(program, num_devices, devices, options, num_headers, headers,
                                                     names, notify, user_data);

    return result == CL_SUCCESS && !notify ? charge_program(program) : result;
}

cl_program facet_clLinkProgram(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                               const char *options, cl_uint num_programs, const cl_program *programs,
                               program_notify notify, void *user_data, cl_int *errcode_ret)
{
    cl_int linked = CL_SUCCESS;
    cl_program program = facet_cl_target.clLinkProgram(context, num_devices, devices, options, num_programs, programs,
                                                       notify, user_data, &linked);

    if (program && linked == CL_SUCCESS && !notify) {
        linked = charge_program(program);
        if (linked != CL_SUCCESS) {
            facet_cl_target.clReleaseProgram(program);
            program = NULL;
        }
    }
    facet_cl_set_error(errcode_ret, linked);
    return program;
}

cl_kernel facet_clCreateKernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    cl_kernel kernel = facet_cl_target.clCreateKernel(program, name, errcode_ret);
    cl_int result = kernel ? charge_program(program) : CL_SUCCESS;

    if (result == CL_SUCCESS)
        return kernel;
    facet_cl_target.clReleaseKernel(kernel);
    facet_cl_set_error(errcode_ret, result);
    return NULL;
}

cl_int facet_clCreateKernelsInProgram(cl_program program, cl_uint num_kernels, cl_kernel *kernels,
                                      cl_uint *num_kernels_ret)
{
    cl_uint made = 0;
    cl_int result = facet_cl_target.clCreateKernelsInProgram(program, num_kernels, kernels, &made);

    if (result == CL_SUCCESS && kernels) {
        result = charge_program(program);
        for (cl_uint i = 0; result != CL_SUCCESS && i < made && i < num_kernels; i++)
            facet_cl_target.clReleaseKernel(kernels[i]);
    }
    if (result == CL_SUCCESS && num_kernels_ret)
        *num_kernels_ret = made;
    return result;
}

static bool last_reference(cl_program program)
{
    cl_uint references = 0;

    return facet_cl_target.clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof references, &references,
                                            NULL) == CL_SUCCESS &&
           references == 1;
}

cl_int facet_clReleaseProgram(cl_program program)
{
    facet_cl_charge charge = 0;

    if (!facet_cl_map_empty(FACET_CL_PROGRAMS) && last_reference(program))
        facet_cl_map_take(FACET_CL_PROGRAMS, program, &charge);
    cl_int result = facet_cl_target.clReleaseProgram(program);
    facet_cl_charge_drop(charge);
    return result;
}

/* Drivers keep a program while it has kernels, so releasing the last kernel may end the program. */
cl_int facet_clReleaseKernel(cl_kernel kernel)
{
    facet_cl_charge charge = 0;
    cl_program program = NULL;
    cl_uint references = 0;

    if (!facet_cl_map_empty(FACET_CL_PROGRAMS) &&
        facet_cl_target.clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof references, &references, NULL) ==
            CL_SUCCESS &&
        references == 1 &&
        facet_cl_target.clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL) == CL_SUCCESS &&
        last_reference(program))
        facet_cl_map_take(FACET_CL_PROGRAMS, program, &charge);
    cl_int result = facet_cl_target.clReleaseKernel(kernel);
    facet_cl_charge_drop(charge);
    return result;
}
