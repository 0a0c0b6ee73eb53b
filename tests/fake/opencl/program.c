/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: programs from source or IL, and the two kernels. Never: compiles. */
#include <string.h>

#include "fake.h"

static cl_program make_program(cl_context context, cl_int *errcode_ret)
{
    cl_program program = fake_make(sizeof *program);

    program->context = context;
    fake_dispatch.clRetainContext(context);
    atomic_fetch_add(&fake_counters.programs, 1);
    fake_error(errcode_ret, CL_SUCCESS);
    return program;
}

static cl_program create_with_source(cl_context context, cl_uint count, const char **strings, const size_t *lengths,
                                     cl_int *errcode_ret)
{
    cl_program program = make_program(context, errcode_ret);

    for (cl_uint i = 0; i < count; i++) {
        const char *global = strstr(strings[i], "GLOBAL=");

        if (global)
            program->global_bytes = (size_t)strtoull(global + strlen("GLOBAL="), NULL, 0);
    }
    return program;
}

static cl_program create_with_il(cl_context context, const void *il, size_t length, cl_int *errcode_ret)
{
    if (il && length)
        return make_program(context, errcode_ret);
    fake_error(errcode_ret, CL_INVALID_VALUE);
    return NULL;
}

static cl_int build_program(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                            void(CL_CALLBACK *notify)(cl_program, void *), void *user_data)
{
    program->built = true;
    if (notify)
        notify(program, user_data);
    return CL_SUCCESS;
}

static cl_int retain_program(cl_program program)
{
    atomic_fetch_add(&program->base.references, 1);
    return CL_SUCCESS;
}

static cl_int release_program(cl_program program)
{
    if (fake_unref(&program->base)) {
        atomic_fetch_sub(&fake_counters.programs, 1);
        fake_dispatch.clReleaseContext(program->context);
        free(program);
    }
    return CL_SUCCESS;
}

static cl_int get_program_info(cl_program program, cl_program_info name, size_t size, void *value, size_t *ret)
{
    cl_uint references = atomic_load(&program->base.references);

    switch (name) {
    case CL_PROGRAM_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    case CL_PROGRAM_NUM_DEVICES:
        return fake_answer(&program->context->device_count, sizeof(cl_uint), size, value, ret);
    case CL_PROGRAM_DEVICES:
        return fake_answer(program->context->devices, program->context->device_count * sizeof(cl_device_id), size,
                           value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int get_build_info(cl_program program, cl_device_id device, cl_program_build_info name, size_t size,
                             void *value, size_t *ret)
{
    size_t bytes = program->built ? program->global_bytes : 0;

    return name == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE ? fake_answer(&bytes, sizeof bytes, size, value, ret)
                                                               : CL_INVALID_VALUE;
}

static cl_kernel create_kernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    cl_kernel kernel;
    bool sleeps = strcmp(name, "sleep") == 0;

    if (!program->built || (!sleeps && strcmp(name, "noop") != 0)) {
        fake_error(errcode_ret, program->built ? CL_INVALID_KERNEL_NAME : CL_INVALID_PROGRAM_EXECUTABLE);
        return NULL;
    }
    kernel = fake_make(sizeof *kernel);
    kernel->program = program;
    kernel->sleeps = sleeps;
    retain_program(program);
    atomic_fetch_add(&fake_counters.kernels, 1);
    fake_error(errcode_ret, CL_SUCCESS);
    return kernel;
}

static cl_int release_kernel(cl_kernel kernel)
{
    if (fake_unref(&kernel->base)) {
        atomic_fetch_sub(&fake_counters.kernels, 1);
        release_program(kernel->program);
        free(kernel);
    }
    return CL_SUCCESS;
}

static cl_int get_kernel_info(cl_kernel kernel, cl_kernel_info name, size_t size, void *value, size_t *ret)
{
    cl_uint references = atomic_load(&kernel->base.references);

    switch (name) {
    case CL_KERNEL_REFERENCE_COUNT:
        return fake_answer(&references, sizeof references, size, value, ret);
    case CL_KERNEL_PROGRAM:
        return fake_answer(&kernel->program, sizeof kernel->program, size, value, ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int set_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (index != 0 || size != sizeof(cl_uint) || !value)
        return CL_INVALID_ARG_INDEX;
    memcpy(&kernel->microseconds, value, sizeof kernel->microseconds);
    return CL_SUCCESS;
}

void fake_install_program(cl_icd_dispatch *dispatch)
{
    dispatch->clCreateProgramWithSource = create_with_source;
    dispatch->clCreateProgramWithIL = create_with_il;
    dispatch->clBuildProgram = build_program;
    dispatch->clRetainProgram = retain_program;
    dispatch->clReleaseProgram = release_program;
    dispatch->clGetProgramInfo = get_program_info;
    dispatch->clGetProgramBuildInfo = get_build_info;
    dispatch->clCreateKernel = create_kernel;
    dispatch->clReleaseKernel = release_kernel;
    dispatch->clGetKernelInfo = get_kernel_info;
    dispatch->clSetKernelArg = set_argument;
}
