/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: a kernel of the set, run through OpenCL on the first CPU device that the ICD loader offers. That is PoCL's
 * unless the loader lists another driver for processors before it. Never: stores a compiled kernel outside the folder
 * that POCL_CACHE_DIR names.
 */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <string.h>

#include "way.h"

struct pocl {
    cl_context context;
    cl_device_id device;
    cl_command_queue queue;
    cl_kernel kernel;
    cl_mem memory[BENCH_ARGUMENTS_MOST];
    const struct bench_kernel *bench_kernel;
};

static bool fail(struct bench_way *way, const char *call, cl_int code)
{
    snprintf(way->missing, sizeof way->missing, "%s failed with %d", call, code);
    return false;
}

#define CHECK(call, code)                                                                                              \
    do {                                                                                                               \
        cl_int check_code = (code);                                                                                    \
        if (check_code != CL_SUCCESS)                                                                                  \
            return fail(way, call, check_code);                                                                        \
    } while (0)

static bool open_device(struct bench_way *way, struct pocl *pocl)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int code;

    CHECK("clGetPlatformIDs", clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16 && !pocl->device; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &pocl->device, NULL) != CL_SUCCESS)
            pocl->device = NULL;
    if (!pocl->device)
        return fail(way, "looking for an OpenCL device of type CPU", CL_DEVICE_NOT_FOUND);
    pocl->context = clCreateContext(NULL, 1, &pocl->device, NULL, NULL, &code);
    CHECK("clCreateContext", code);
    pocl->queue = clCreateCommandQueue(pocl->context, pocl->device, CL_QUEUE_PROFILING_ENABLE, &code);
    CHECK("clCreateCommandQueue", code);
    return true;
}

static bool build_once(struct bench_way *way, struct pocl *pocl, const struct bench_data *data, uint64_t *ret_ns)
{
    uint64_t start = bench_now_ns();
    const char *source = data->source;
    cl_int code;
    cl_program program = clCreateProgramWithSource(pocl->context, 1, &source, &data->source_bytes, &code);

    CHECK("clCreateProgramWithSource", code);
    CHECK("clBuildProgram", clBuildProgram(program, 1, &pocl->device, "-cl-std=CL1.2", NULL, NULL));
    *ret_ns = bench_now_ns() - start;
    if (pocl->kernel)
        clReleaseKernel(pocl->kernel);
    pocl->kernel = clCreateKernel(program, data->kernel->name, &code);
    CHECK("clCreateKernel", code);
    clReleaseProgram(program);
    return true;
}

static bool set_argument(struct bench_way *way, struct pocl *pocl, const struct bench_data *data, unsigned i)
{
    const struct bench_argument *argument = &data->kernel->arguments[i];
    size_t bytes = bench_argument_bytes(argument);
    cl_int code;

    if (argument->kind == BENCH_LOCAL) {
        CHECK("clSetKernelArg", clSetKernelArg(pocl->kernel, i, bytes, NULL));
        return true;
    }
    if (argument->kind < BENCH_LOCAL) {
        CHECK("clSetKernelArg", clSetKernelArg(pocl->kernel, i, bytes, &argument->value));
        return true;
    }
    pocl->memory[i] = clCreateBuffer(pocl->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    CHECK("clCreateBuffer", code);
    CHECK("clEnqueueWriteBuffer",
          clEnqueueWriteBuffer(pocl->queue, pocl->memory[i], CL_TRUE, 0, bytes, data->input[i], 0, NULL, NULL));
    CHECK("clSetKernelArg", clSetKernelArg(pocl->kernel, i, sizeof pocl->memory[i], &pocl->memory[i]));
    return true;
}

static bool launch(struct bench_way *way, uint64_t *ret_device_ns)
{
    struct pocl *pocl = way->state;
    cl_ulong start = 0, end = 0;
    cl_event event;

    CHECK("clEnqueueNDRangeKernel",
          clEnqueueNDRangeKernel(pocl->queue, pocl->kernel, pocl->bench_kernel->dimensions, NULL,
                                 pocl->bench_kernel->global, pocl->bench_kernel->group, 0, NULL, &event));
    CHECK("clFinish", clFinish(pocl->queue));
    CHECK("clGetEventProfilingInfo",
          clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
    CHECK("clGetEventProfilingInfo", clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    clReleaseEvent(event);
    *ret_device_ns = end - start;
    return true;
}

static bool build(struct bench_way *way, const struct bench_data *data)
{
    struct pocl *pocl = calloc(1, sizeof *pocl);
    uint64_t unused, start;

    if (!pocl)
        return fail(way, "calloc", CL_OUT_OF_HOST_MEMORY);
    way->state = pocl;
    pocl->bench_kernel = data->kernel;
    if (!open_device(way, pocl) || !build_once(way, pocl, data, &way->building.cold_ns) ||
        !build_once(way, pocl, data, &way->building.warm_ns))
        return false;
    for (unsigned i = 0; i < BENCH_ARGUMENTS_MOST && data->kernel->arguments[i].kind != BENCH_NONE; i++)
        if (!set_argument(way, pocl, data, i))
            return false;
    start = bench_now_ns();
    if (!launch(way, &unused))
        return false;
    way->building.first_launch_ns = bench_now_ns() - start;
    return true;
}

static bool read_memory(struct bench_way *way, unsigned argument, void *data, size_t bytes)
{
    struct pocl *pocl = way->state;

    CHECK("clEnqueueReadBuffer",
          clEnqueueReadBuffer(pocl->queue, pocl->memory[argument], CL_TRUE, 0, bytes, data, 0, NULL, NULL));
    return true;
}

void bench_way_pocl(struct bench_way *way)
{
    *way = (struct bench_way){.name = "pocl", .build = build, .launch = launch, .read = read_memory};
}
