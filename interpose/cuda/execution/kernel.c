/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the calls that run kernels and graphs. Never: changes their arguments. */
#include "interpose/cuda/memory/code.h"
#include "interpose/cuda/memory/graph.h"
#include "launch.h"

/*
 * A driver that loads lazily loads a function at its first launch, and that memory is charged (memory/code.h). If the
 * thread has launched this kind before (`kind`), the function is loaded already and nothing needs checking. During a
 * capture the driver is not asked: the question could end the capture.
 */
#define LAUNCH(stream, function, size, call)                                                                           \
    FACET_CUDA_LAUNCH(stream, function, size,                                                                          \
                      kind || !function_loads(function) ? call : facet_cuda_code_launch_end(function, call))

static bool function_loads(CUfunction function)
{
    return !atomic_load_explicit(&facet_flight_captures, memory_order_relaxed) &&
           facet_cuda_code_launch_begin(function);
}

#define GRID_PARAMETERS                                                                                                \
    CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,        \
        unsigned block_z, unsigned shared, CUstream stream, void **parameters
#define GRID function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters

CUresult facet_cuLaunchKernel(GRID_PARAMETERS, void **extra)
{
    LAUNCH(facet_flight_stream_of(stream, false), function, facet_flight_grid(grid_x, grid_y, grid_z),
           facet_cuda_driver.cuLaunchKernel(GRID, extra));
}

CUresult facet_cuLaunchKernel_ptsz(GRID_PARAMETERS, void **extra)
{
    LAUNCH(facet_flight_stream_of(stream, true), function, facet_flight_grid(grid_x, grid_y, grid_z),
           facet_cuda_driver.cuLaunchKernel_ptsz(GRID, extra));
}

CUresult facet_cuLaunchCooperativeKernel(GRID_PARAMETERS)
{
    LAUNCH(facet_flight_stream_of(stream, false), function, facet_flight_grid(grid_x, grid_y, grid_z),
           facet_cuda_driver.cuLaunchCooperativeKernel(GRID));
}

CUresult facet_cuLaunchCooperativeKernel_ptsz(GRID_PARAMETERS)
{
    LAUNCH(facet_flight_stream_of(stream, true), function, facet_flight_grid(grid_x, grid_y, grid_z),
           facet_cuda_driver.cuLaunchCooperativeKernel_ptsz(GRID));
}

static uint64_t config_grid(const CUlaunchConfig *config)
{
    return facet_flight_grid(config->gridDimX, config->gridDimY, config->gridDimZ);
}

CUresult facet_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    if (!config)
        return facet_cuda_driver.cuLaunchKernelEx(config, function, parameters, extra);
    LAUNCH(facet_flight_stream_of(config->hStream, false), function, config_grid(config),
           facet_cuda_driver.cuLaunchKernelEx(config, function, parameters, extra));
}

CUresult facet_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    if (!config)
        return facet_cuda_driver.cuLaunchKernelEx_ptsz(config, function, parameters, extra);
    LAUNCH(facet_flight_stream_of(config->hStream, true), function, config_grid(config),
           facet_cuda_driver.cuLaunchKernelEx_ptsz(config, function, parameters, extra));
}

/* ---- one call, several devices ---- */

static CUresult end_all(struct facet_flight *launches, const CUDA_LAUNCH_PARAMS *list, unsigned count, CUresult result)
{
    for (unsigned i = 0; i < count; i++)
        facet_flight_end(&launches[i], facet_flight_stream_of(list[i].hStream, false), result == CUDA_SUCCESS);
    return result;
}

/* A process has at most FACET_FLIGHT_DEVICES vGPUs, so the driver shows no more devices and refuses a longer list. */
CUresult facet_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned count, unsigned flags)
{
    struct facet_flight launches[FACET_FLIGHT_DEVICES];

    if (!list || count > FACET_FLIGHT_DEVICES)
        return facet_cuda_driver.cuLaunchCooperativeKernelMultiDevice(list, count, flags);
    for (unsigned i = 0; i < count; i++) {
        const CUDA_LAUNCH_PARAMS *entry = &list[i];

        if (!facet_flight_begin(&launches[i], facet_flight_stream_of(entry->hStream, false), entry->function,
                                facet_flight_grid(entry->gridDimX, entry->gridDimY, entry->gridDimZ)))
            return end_all(launches, list, i, CUDA_ERROR_SYSTEM_NOT_READY);
    }
    return end_all(launches, list, count, facet_cuda_driver.cuLaunchCooperativeKernelMultiDevice(list, count, flags));
}

/* ---- the forms from before CUDA 4.0 ---- */

static uint64_t old_grid(int width, int height)
{
    return facet_flight_grid((unsigned)width, (unsigned)height, 1);
}

CUresult facet_cuLaunch(CUfunction function)
{
    FACET_CUDA_LAUNCH(CU_STREAM_LEGACY, function, old_grid(1, 1), facet_cuda_driver.cuLaunch(function));
}

CUresult facet_cuLaunchGrid(CUfunction function, int width, int height)
{
    FACET_CUDA_LAUNCH(CU_STREAM_LEGACY, function, old_grid(width, height),
                      facet_cuda_driver.cuLaunchGrid(function, width, height));
}

CUresult facet_cuLaunchGridAsync(CUfunction function, int width, int height, CUstream stream)
{
    FACET_CUDA_LAUNCH(facet_flight_stream_of(stream, false), function, old_grid(width, height),
                      facet_cuda_driver.cuLaunchGridAsync(function, width, height, stream));
}

/* ---- graphs: the whole graph counts as one launch ---- */

static CUresult launch_graph(CUgraphExec executable, CUstream stream)
{
    FACET_CUDA_LAUNCH(facet_flight_stream_of(stream, false), executable, 0,
                      facet_cuda_driver.cuGraphLaunch(executable, stream));
}

static CUresult launch_graph_ptsz(CUgraphExec executable, CUstream stream)
{
    FACET_CUDA_LAUNCH(facet_flight_stream_of(stream, true), executable, 0,
                      facet_cuda_driver.cuGraphLaunch_ptsz(executable, stream));
}

/*
 * Called when any graph of the process allocates. This graph's memory is reserved before the launch waits for its turn.
 */
static CUresult launch_allocating_graph(CUgraphExec executable, CUstream stream, bool per_thread)
{
    struct facet_graph_needs hold;
    CUresult result = facet_cuda_graph_hold(executable, stream, per_thread, &hold);

    if (result != CUDA_SUCCESS)
        return result;
    result = per_thread ? launch_graph_ptsz(executable, stream) : launch_graph(executable, stream);
    return facet_cuda_graph_launched(&hold, result);
}

CUresult facet_cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    return facet_graphs_any() ? launch_allocating_graph(executable, stream, false) : launch_graph(executable, stream);
}

CUresult facet_cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream)
{
    return facet_graphs_any() ? launch_allocating_graph(executable, stream, true)
                              : launch_graph_ptsz(executable, stream);
}
