/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls that run kernels and graphs. Never: changes their arguments. */
#include "interpose/hip/memory/code.h"
#include "interpose/hip/memory/graph.h"
#include "interpose/kit/execution/capture.h"
#include "interpose/kit/execution/wait.h"
#include "launch.h"

static uint64_t grid_of(dim3 grid)
{
    return facet_flight_grid(grid.x, grid.y, grid.z);
}

/* ---- by the host's symbol ---- */

/*
 * If the thread has launched this kind before (`kind`), its code is loaded; else the launch may load it
 * (memory/code.h).
 */
#define LAUNCH(per_thread, grid, call)                                                                                 \
    FACET_HIP_LAUNCH(facet_flight_stream_of(stream, per_thread), host, grid,                                           \
                     kind || !function_loads(host, stream) ? call : facet_hip_code_launch_end(call))

static bool function_loads(const void *host, hipStream_t stream)
{
    return !atomic_load_explicit(&facet_flight_captures, memory_order_relaxed) &&
           facet_hip_code_launch_begin(host, stream);
}

#define SYMBOL_PARAMETERS const void *host, dim3 grid, dim3 block, void **arguments
#define SYMBOL            host, grid, block, arguments

hipError_t facet_hipLaunchKernel(SYMBOL_PARAMETERS, size_t shared, hipStream_t stream)
{
    LAUNCH(false, grid_of(grid), facet_hip_driver.hipLaunchKernel(SYMBOL, shared, stream));
}

hipError_t facet_hipLaunchKernel_spt(SYMBOL_PARAMETERS, size_t shared, hipStream_t stream)
{
    LAUNCH(true, grid_of(grid), facet_hip_driver.hipLaunchKernel_spt(SYMBOL, shared, stream));
}

hipError_t facet_hipLaunchCooperativeKernel(SYMBOL_PARAMETERS, unsigned shared, hipStream_t stream)
{
    LAUNCH(false, grid_of(grid), facet_hip_driver.hipLaunchCooperativeKernel(SYMBOL, shared, stream));
}

hipError_t facet_hipLaunchCooperativeKernel_spt(SYMBOL_PARAMETERS, unsigned shared, hipStream_t stream)
{
    LAUNCH(true, grid_of(grid), facet_hip_driver.hipLaunchCooperativeKernel_spt(SYMBOL, shared, stream));
}

/* Called after a launch that also records the event `stop` of the program. */
static hipError_t record_stop(hipEvent_t stop, hipStream_t stream, hipError_t result)
{
    if (result == hipSuccess)
        facet_flight_event_launched(stop, facet_flight_stream_of(stream, false));
    return result;
}

static hipError_t ext_launch(SYMBOL_PARAMETERS, size_t shared, hipStream_t stream, hipEvent_t start, hipEvent_t stop,
                             int flags)
{
    LAUNCH(false, grid_of(grid), facet_hip_driver.hipExtLaunchKernel(SYMBOL, shared, stream, start, stop, flags));
}

hipError_t facet_hipExtLaunchKernel(SYMBOL_PARAMETERS, size_t shared, hipStream_t stream, hipEvent_t start,
                                    hipEvent_t stop, int flags)
{
    return record_stop(stop, stream, ext_launch(SYMBOL, shared, stream, start, stop, flags));
}

hipError_t facet_hipLaunchKernelExC(const hipLaunchConfig_t *config, const void *host, void **arguments)
{
    if (!config)
        return facet_hip_driver.hipLaunchKernelExC(config, host, arguments);
    hipStream_t stream = config->stream;
    LAUNCH(false, grid_of(config->gridDim), facet_hip_driver.hipLaunchKernelExC(config, host, arguments));
}

/* The call has no result, so a refusal shows only in the last error. */
void facet__ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(uintptr_t host, const dim3 *grid,
                                                                               const dim3 *block, uint32_t shared,
                                                                               hipStream_t stream, void **arguments)
{
    void *target = facet_flight_stream_of(stream, false);
    struct facet_flight launch;

    if (!facet_flight_begin(&launch, target, (const void *)host, grid_of(*grid))) {
        facet_hip_refuse();
        return;
    }
    bool loading = function_loads((const void *)host, stream);
    facet_hip_driver._ZN8hip_impl22hipLaunchKernelGGLImplEmRK4dim3S2_jP12ihipStream_tPPv(host, grid, block, shared,
                                                                                         stream, arguments);
    if (loading)
        facet_hip_code_launch_end(hipSuccess);
    facet_flight_end(&launch, target, true);
}

/* ---- by function ---- */

#define GRID_PARAMETERS                                                                                                \
    hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,     \
        unsigned block_z, unsigned shared, hipStream_t stream, void **parameters
#define GRID function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters

hipError_t facet_hipModuleLaunchKernel(GRID_PARAMETERS, void **extra)
{
    FACET_HIP_LAUNCH(facet_flight_stream_of(stream, false), function, facet_flight_grid(grid_x, grid_y, grid_z),
                     facet_hip_driver.hipModuleLaunchKernel(GRID, extra));
}

hipError_t facet_hipModuleLaunchCooperativeKernel(GRID_PARAMETERS)
{
    FACET_HIP_LAUNCH(facet_flight_stream_of(stream, false), function, facet_flight_grid(grid_x, grid_y, grid_z),
                     facet_hip_driver.hipModuleLaunchCooperativeKernel(GRID));
}

hipError_t facet_hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *config, hipFunction_t function, void **parameters,
                                      void **extra)
{
    if (!config)
        return facet_hip_driver.hipDrvLaunchKernelEx(config, function, parameters, extra);
    FACET_HIP_LAUNCH(facet_flight_stream_of(config->hStream, false), function,
                     facet_flight_grid(config->gridDimX, config->gridDimY, config->gridDimZ),
                     facet_hip_driver.hipDrvLaunchKernelEx(config, function, parameters, extra));
}

/* The size counts threads, not blocks. That is enough, because it only has to differ between different grids. */
#define EXT_ARGUMENTS                                                                                                  \
    function, threads_x, threads_y, threads_z, block_x, block_y, block_z, shared, stream, parameters, extra, start, stop
#define EXT_LAUNCH(symbol, parameters, ...)                                                                            \
    static hipError_t launch_##symbol parameters                                                                       \
    {                                                                                                                  \
        FACET_HIP_LAUNCH(facet_flight_stream_of(stream, false), function,                                              \
                         facet_flight_grid(threads_x, threads_y, threads_z), facet_hip_driver.symbol(__VA_ARGS__));    \
    }                                                                                                                  \
    hipError_t facet_##symbol parameters                                                                               \
    {                                                                                                                  \
        return record_stop(stop, stream, launch_##symbol(__VA_ARGS__));                                                \
    }

EXT_LAUNCH(hipExtModuleLaunchKernel, (VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags), EXT_ARGUMENTS, flags)
EXT_LAUNCH(_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j,
           (VENDOR_HIP_EXT_LAUNCH_PARAMETERS, uint32_t flags), EXT_ARGUMENTS, flags)
EXT_LAUNCH(_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_,
           (VENDOR_HIP_EXT_LAUNCH_PARAMETERS), EXT_ARGUMENTS)

/* ---- one call, several devices ---- */

/* One launch of a list, in a form that serves all three calls. */
struct listed_launch {
    hipStream_t stream;
    const void *object;
    uint64_t size;
};

static void end_launches(struct facet_flight *launches, const struct listed_launch *entries, unsigned count,
                         hipError_t result)
{
    for (unsigned i = 0; i < count; i++)
        facet_flight_end(&launches[i], facet_flight_stream_of(entries[i].stream, false), result == hipSuccess);
}

static bool begin_launches(struct facet_flight *launches, const struct listed_launch *entries, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (facet_flight_begin(&launches[i], facet_flight_stream_of(entries[i].stream, false), entries[i].object,
                               entries[i].size))
            continue;
        end_launches(launches, entries, i, hipErrorNotInitialized);
        return false;
    }
    return true;
}

static struct listed_launch from_launch_params(const hipLaunchParams *parameters)
{
    return (struct listed_launch){parameters->stream, parameters->func, grid_of(parameters->gridDim)};
}

static struct listed_launch from_function_launch_params(const hipFunctionLaunchParams *parameters)
{
    return (struct listed_launch){parameters->hStream, parameters->function,
                                  facet_flight_grid(parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ)};
}

/* A process has at most FACET_FLIGHT_DEVICES vGPUs, so the runtime shows no more devices and refuses a longer list. */
#define LAUNCH_ON_DEVICES(symbol, type, number, convert)                                                               \
    hipError_t facet_##symbol(type *list, number count, unsigned flags)                                                \
    {                                                                                                                  \
        struct facet_flight launches[FACET_FLIGHT_DEVICES];                                                            \
        struct listed_launch entries[FACET_FLIGHT_DEVICES];                                                            \
        unsigned launch_count = (unsigned)count;                                                                       \
                                                                                                                       \
        if (!list || !launch_count || launch_count > FACET_FLIGHT_DEVICES)                                             \
            return facet_hip_driver.symbol(list, count, flags);                                                        \
        for (unsigned i = 0; i < launch_count; i++)                                                                    \
            entries[i] = convert(&list[i]);                                                                            \
        if (!begin_launches(launches, entries, launch_count))                                                          \
            return facet_hip_refuse();                                                                                 \
        hipError_t result = facet_hip_driver.symbol(list, count, flags);                                               \
        end_launches(launches, entries, launch_count, result);                                                         \
        return result;                                                                                                 \
    }

LAUNCH_ON_DEVICES(hipLaunchCooperativeKernelMultiDevice, hipLaunchParams, int, from_launch_params)
LAUNCH_ON_DEVICES(hipExtLaunchMultiKernelMultiDevice, hipLaunchParams, int, from_launch_params)
LAUNCH_ON_DEVICES(hipModuleLaunchCooperativeKernelMultiDevice, hipFunctionLaunchParams, unsigned,
                  from_function_launch_params)

/* ---- a launch in two calls: the first has the stream and the sizes ---- */

static _Thread_local struct {
    hipStream_t stream;
    dim3 grid;
} configured_call;

hipError_t facet_hipConfigureCall(dim3 grid, dim3 block, size_t shared, hipStream_t stream)
{
    configured_call.stream = stream;
    configured_call.grid = grid;
    return facet_hip_driver.hipConfigureCall(grid, block, shared, stream);
}

hipError_t facet_hipLaunchByPtr(const void *host)
{
    hipStream_t stream = configured_call.stream;
    LAUNCH(false, grid_of(configured_call.grid), facet_hip_driver.hipLaunchByPtr(host));
}

/* ---- graphs: the whole graph counts as one launch ---- */

static hipError_t launch_graph(hipGraphExec_t executable, hipStream_t stream)
{
    FACET_HIP_LAUNCH(facet_flight_stream_of(stream, false), executable, 0,
                     facet_hip_driver.hipGraphLaunch(executable, stream));
}

static hipError_t launch_graph_spt(hipGraphExec_t executable, hipStream_t stream)
{
    FACET_HIP_LAUNCH(facet_flight_stream_of(stream, true), executable, 0,
                     facet_hip_driver.hipGraphLaunch_spt(executable, stream));
}

/*
 * Called when any graph of the process allocates. This graph's memory is reserved before the launch waits for its turn.
 */
static hipError_t launch_allocating_graph(hipGraphExec_t executable, hipStream_t stream, bool per_thread)
{
    struct facet_graph_needs hold;
    hipStream_t target = per_thread && !stream ? hipStreamPerThread : stream;
    hipError_t result = facet_hip_graph_hold(executable, target, &hold);

    if (result != hipSuccess)
        return result;
    result = per_thread ? launch_graph_spt(executable, stream) : launch_graph(executable, stream);
    return facet_hip_graph_launched(&hold, result);
}

hipError_t facet_hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream)
{
    return facet_graphs_any() ? launch_allocating_graph(executable, stream, false) : launch_graph(executable, stream);
}

hipError_t facet_hipGraphLaunch_spt(hipGraphExec_t executable, hipStream_t stream)
{
    return facet_graphs_any() ? launch_allocating_graph(executable, stream, true)
                              : launch_graph_spt(executable, stream);
}
