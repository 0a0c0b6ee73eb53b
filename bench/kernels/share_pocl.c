/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: two sets of queues of the first OpenCL device of type CPU, as two programs would have them.
 * Never: knows how the queues are used, or sets shares and priorities, which OpenCL 1.2 does not have.
 */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "share.h"

struct queue {
    cl_command_queue queue;
    cl_kernel kernel;
};

struct tenant {
    struct queue queues[SHARE_QUEUES];
    cl_mem memory, sink;
    _Atomic uint32_t *progress; /* the buffer's own memory, since PoCL's device is in this process */
};

struct pocl_state {
    cl_context context;
    cl_device_id device;
    cl_program program;
    struct tenant tenants[2];
};

static bool fail(struct share_machine *machine, const char *call, cl_int code)
{
    snprintf(machine->missing, sizeof machine->missing, "%s failed with %d", call, code);
    return false;
}

#define CHECK(call, code)                                                                                              \
    do {                                                                                                               \
        cl_int check_code = (code);                                                                                    \
        if (check_code != CL_SUCCESS)                                                                                  \
            return fail(machine, call, check_code);                                                                    \
    } while (0)

static bool open_device(struct share_machine *machine, struct pocl_state *state)
{
    const char *source = SHARE_SOURCE;
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int code;

    CHECK("clGetPlatformIDs", clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16 && !state->device; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &state->device, NULL) != CL_SUCCESS)
            state->device = NULL;
    CHECK("clGetDeviceIDs", state->device ? CL_SUCCESS : CL_DEVICE_NOT_FOUND);
    CHECK("clGetDeviceInfo",
          clGetDeviceInfo(state->device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof machine->units, &machine->units, NULL));
    state->context = clCreateContext(NULL, 1, &state->device, NULL, NULL, &code);
    CHECK("clCreateContext", code);
    state->program = clCreateProgramWithSource(state->context, 1, &source, NULL, &code);
    CHECK("clCreateProgramWithSource", code);
    CHECK("clBuildProgram", clBuildProgram(state->program, 1, &state->device, "-cl-std=CL1.2", NULL, NULL));
    return true;
}

static bool make_queue(struct share_machine *machine, struct pocl_state *state, const struct tenant *tenant,
                       struct queue *queue)
{
    cl_int code;

    queue->queue = clCreateCommandQueue(state->context, state->device, CL_QUEUE_PROFILING_ENABLE, &code);
    CHECK("clCreateCommandQueue", code);
    queue->kernel = clCreateKernel(state->program, "burn", &code);
    CHECK("clCreateKernel", code);
    CHECK("clSetKernelArg", clSetKernelArg(queue->kernel, 0, sizeof tenant->memory, &tenant->memory));
    CHECK("clSetKernelArg", clSetKernelArg(queue->kernel, 1, sizeof tenant->sink, &tenant->sink));
    return true;
}

static bool make_tenant(struct share_machine *machine, struct pocl_state *state, struct tenant *tenant)
{
    cl_int code;

    tenant->progress = aligned_alloc(4096, 4096);
    if (!tenant->progress)
        abort();
    memset((void *)tenant->progress, 0, 4096);
    tenant->memory =
        clCreateBuffer(state->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, 4096, (void *)tenant->progress, &code);
    CHECK("clCreateBuffer", code);
    tenant->sink = clCreateBuffer(state->context, CL_MEM_READ_WRITE, 256, NULL, &code);
    CHECK("clCreateBuffer", code);
    for (unsigned i = 0; i < SHARE_QUEUES; i++)
        if (!make_queue(machine, state, tenant, &tenant->queues[i]))
            return false;
    return true;
}

static bool run(struct share_machine *machine, unsigned tenant, unsigned number, uint32_t groups, uint32_t steps,
                uint64_t *ret_waited_ns)
{
    struct pocl_state *state = machine->state;
    struct queue *queue = &state->tenants[tenant].queues[number];
    const size_t global = groups, group = 1;
    cl_ulong queued = 0, start = 0;
    cl_event event;

    CHECK("clSetKernelArg", clSetKernelArg(queue->kernel, 2, sizeof steps, &steps));
    CHECK("clEnqueueNDRangeKernel",
          clEnqueueNDRangeKernel(queue->queue, queue->kernel, 1, NULL, &global, &group, 0, NULL, &event));
    CHECK("clFinish", clFinish(queue->queue));
    CHECK("clGetEventProfilingInfo",
          clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED, sizeof queued, &queued, NULL));
    CHECK("clGetEventProfilingInfo",
          clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
    clReleaseEvent(event);
    *ret_waited_ns = start - queued;
    return true;
}

static uint32_t progress(struct share_machine *machine, unsigned number)
{
    const struct pocl_state *state = machine->state;

    return atomic_load(state->tenants[number].progress);
}

static bool share(struct share_machine *machine, uint32_t first_milli, uint32_t second_milli)
{
    return true;
}

static bool urgent(struct share_machine *machine)
{
    return true;
}

bool share_open_pocl(struct share_machine *machine)
{
    struct pocl_state *state = calloc(1, sizeof *state);

    if (!state)
        abort();
    *machine =
        (struct share_machine){.state = state, .run = run, .progress = progress, .share = share, .urgent = urgent};
    return open_device(machine, state) && make_tenant(machine, state, &state->tenants[0]) &&
           make_tenant(machine, state, &state->tenants[1]);
}
