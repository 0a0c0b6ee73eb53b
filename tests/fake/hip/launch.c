/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: all calls that launch a kernel, which a program names by its function or by its host symbol.
 * Never: makes the cost of a launch depend on which of these calls launched it.
 */
#include "fake.h"
#include "tests/fake/cuda/execution.h"

#define STREAM(stream) ((CUstream)(stream))
#define MOST_SHARED    (64u << 10)

struct launch_configuration {
    dim3 grid, block;
    size_t shared;
    hipStream_t stream;
};

/* The configuration that __hipPushCallConfiguration and hipConfigureCall leave for the thread's next launch. */
static _Thread_local struct launch_configuration pushed_configuration;

static hipError_t launch_configured(CUfunction function, const struct launch_configuration *configuration,
                                    void **arguments, void **extra, bool per_thread)
{
    CUresult (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              CUstream, void **, void **) = per_thread ? cuLaunchKernel_ptsz : cuLaunchKernel;

    if (configuration->shared > MOST_SHARED)
        return hipErrorInvalidValue;
    return launch_kernel(function, configuration->grid.x, configuration->grid.y, configuration->grid.z,
                         configuration->block.x, configuration->block.y, configuration->block.z,
                         (unsigned)configuration->shared, STREAM(configuration->stream), arguments, extra);
}

static hipError_t launch_symbol(const void *host, struct launch_configuration configuration, void **arguments,
                                bool per_thread)
{
    CUfunction function;
    hipError_t result = fake_hip_function(host, &function);

    return result == hipSuccess ? launch_configured(function, &configuration, arguments, NULL, per_thread) : result;
}

/* Runs a launch between the events that the program gives; either may be NULL. */
static hipError_t run_between_events(hipError_t (*run)(void *argument), void *argument, hipStream_t stream,
                                     hipEvent_t start, hipEvent_t stop)
{
    hipError_t result = start ? cuEventRecord((CUevent)start, STREAM(stream)) : hipSuccess;

    if (result == hipSuccess)
        result = run(argument);
    return result == hipSuccess && stop ? cuEventRecord((CUevent)stop, STREAM(stream)) : result;
}

struct symbol_launch {
    const void *host;
    struct launch_configuration configuration;
    void **arguments;
};

static hipError_t run_symbol_launch(void *argument)
{
    const struct symbol_launch *launch = argument;

    return launch_symbol(launch->host, launch->configuration, launch->arguments, false);
}

struct module_launch {
    hipFunction_t function;
    struct launch_configuration configuration;
    void **arguments, **extra;
};

static hipError_t run_module_launch(void *argument)
{
    const struct module_launch *launch = argument;

    return launch_configured((CUfunction)launch->function, &launch->configuration, launch->arguments, launch->extra,
                             false);
}

static uint32_t block_count(uint32_t threads, uint32_t block)
{
    return block ? (threads + block - 1) / block : 0;
}

FAKE_HIP(hipLaunchKernel,
         (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream),
         launch_symbol(host, (struct launch_configuration){grid, block, shared, stream}, arguments, false))
FAKE_HIP(hipLaunchKernel_spt,
         (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream),
         launch_symbol(host, (struct launch_configuration){grid, block, shared, stream}, arguments, true))
FAKE_HIP(hipLaunchCooperativeKernel,
         (const void *host, dim3 grid, dim3 block, void **arguments, unsigned shared, hipStream_t stream),
         launch_symbol(host, (struct launch_configuration){grid, block, shared, stream}, arguments, false))
FAKE_HIP(hipLaunchCooperativeKernel_spt,
         (const void *host, dim3 grid, dim3 block, void **arguments, unsigned shared, hipStream_t stream),
         launch_symbol(host, (struct launch_configuration){grid, block, shared, stream}, arguments, true))
FAKE_HIP(hipExtLaunchKernel,
         (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream,
          hipEvent_t start, hipEvent_t stop, int flags),
         flags & ~hipExtAnyOrderLaunch
             ? hipErrorInvalidValue
             : run_between_events(run_symbol_launch,
                                  &(struct symbol_launch){host, {grid, block, shared, stream}, arguments}, stream,
                                  start, stop))
FAKE_HIP(hipLaunchKernelExC, (const hipLaunchConfig_t *config, const void *host, void **arguments),
         config ? launch_symbol(host,
                                (struct launch_configuration){config->gridDim, config->blockDim,
                                                              config->dynamicSmemBytes, config->stream},
                                arguments, false)
                : hipErrorInvalidValue)
FAKE_HIP(hipDrvLaunchKernelEx,
         (const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **parameters, void **extra),
         config ? launch_configured((CUfunction)function,
                                    &(struct launch_configuration){
                                        {config->gridDimX, config->gridDimY, config->gridDimZ},
                                        {config->blockDimX, config->blockDimY, config->blockDimZ},
                                        config->sharedMemBytes,
                                        config->hStream},
                                    parameters, extra, false)
                : hipErrorInvalidValue)
FAKE_HIP(hipModuleLaunchKernel,
         (hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
          unsigned block_z, unsigned shared, hipStream_t stream, void **parameters, void **extra),
         launch_configured((CUfunction)function,
                           &(struct launch_configuration){
                               {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream},
                           parameters, extra, false))
FAKE_HIP(hipModuleLaunchCooperativeKernel,
         (hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
          unsigned block_z, unsigned shared, hipStream_t stream, void **parameters),
         launch_configured((CUfunction)function,
                           &(struct launch_configuration){
                               {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream},
                           parameters, NULL, false))
FAKE_HIP(hipExtModuleLaunchKernel, (VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags),
         flags & ~(uint32_t)hipExtAnyOrderLaunch
             ? hipErrorInvalidValue
             : run_between_events(run_module_launch,
                                  &(struct module_launch){
                                      function,
                                      {{block_count(threads_x, block_x), block_count(threads_y, block_y),
                                        block_count(threads_z, block_z)},
                                       {block_x, block_y, block_z},
                                       shared,
                                       stream},
                                      parameters,
                                      extra},
                                  stream, start, stop))

hipError_t _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(
    VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags)
{
    return hipExtModuleLaunchKernel(function, threads_x, threads_y, threads_z, block_x, block_y, block_z, shared,
                                    stream, parameters, extra, start, stop, flags);
}

hipError_t _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(
    VENDOR_HIP_EXT_LAUNCH_PARAMETERS)
{
    return hipExtModuleLaunchKernel(function, threads_x, threads_y, threads_z, block_x, block_y, block_z, shared,
                                    stream, parameters, extra, start, stop, 0);
}

void _ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(uintptr_t host, const dim3 *grid,
                                                                         const dim3 *block, uint32_t shared,
                                                                         hipStream_t stream, void **arguments)
{
    hipLaunchKernel((const void *)host, *grid, *block, arguments, shared, stream); /* NOLINT: never dereferenced */
}

/* Launches each kernel on the device of its stream, then makes the thread's previous device current again. */
static hipError_t launch_many(hipLaunchParams *launches, int count)
{
    int previous_device = fake_hip_device();
    hipError_t result = launches && count > 0 ? hipSuccess : hipErrorInvalidValue;

    for (int i = 0; result == hipSuccess && i < count; i++) {
        const hipLaunchParams *launch = &launches[i];

        fake_hip_set_device(hipGetStreamDeviceId(launch->stream));
        result = fake_hip_enter();
        if (result == hipSuccess)
            result = launch_symbol(
                launch->func,
                (struct launch_configuration){launch->gridDim, launch->blockDim, launch->sharedMem, launch->stream},
                launch->args, false);
    }
    fake_hip_set_device(previous_device);
    return result;
}

static hipError_t launch_many_functions(hipFunctionLaunchParams *launches, unsigned count)
{
    int previous_device = fake_hip_device();
    hipError_t result = launches && count ? hipSuccess : hipErrorInvalidValue;

    for (unsigned i = 0; result == hipSuccess && i < count; i++) {
        const hipFunctionLaunchParams *launch = &launches[i];
        struct launch_configuration configuration = {{launch->gridDimX, launch->gridDimY, launch->gridDimZ},
                                                     {launch->blockDimX, launch->blockDimY, launch->blockDimZ},
                                                     launch->sharedMemBytes,
                                                     launch->hStream};

        fake_hip_set_device(hipGetStreamDeviceId(launch->hStream));
        result = fake_hip_enter();
        if (result == hipSuccess)
            result = launch_configured((CUfunction)launch->function, &configuration, launch->kernelParams, NULL, false);
    }
    fake_hip_set_device(previous_device);
    return result;
}

FAKE_HIP(hipLaunchCooperativeKernelMultiDevice, (hipLaunchParams * launches, int count, unsigned flags),
         flags > 3 ? hipErrorInvalidValue : launch_many(launches, count))
FAKE_HIP(hipExtLaunchMultiKernelMultiDevice, (hipLaunchParams * launches, int count, unsigned flags),
         flags > 3 ? hipErrorInvalidValue : launch_many(launches, count))
FAKE_HIP(hipModuleLaunchCooperativeKernelMultiDevice,
         (hipFunctionLaunchParams * launches, unsigned count, unsigned flags),
         flags > 3 ? hipErrorInvalidValue : launch_many_functions(launches, count))

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream)
{
    pushed_configuration = (struct launch_configuration){grid, block, shared, stream};
    return hipSuccess;
}

hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream)
{
    *grid = pushed_configuration.grid;
    *block = pushed_configuration.block;
    *shared = pushed_configuration.shared;
    *stream = pushed_configuration.stream;
    return hipSuccess;
}

hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t shared, hipStream_t stream)
{
    return __hipPushCallConfiguration(grid, block, shared, stream);
}

hipError_t hipSetupArgument(const void *argument, size_t size, size_t offset)
{
    return argument && size && offset < 4096 ? hipSuccess : hipErrorInvalidValue;
}

FAKE_HIP(hipLaunchByPtr, (const void *host), launch_symbol(host, pushed_configuration, NULL, false))
