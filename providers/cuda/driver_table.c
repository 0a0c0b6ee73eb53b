/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the CUDA driver as providers/kit/gpu calls it.
 * Never: contains a policy: each function is one call, and the translation of its result.
 */
#include <math.h>
#include <stdlib.h>

#include "cuda.h"

#define LOG_BYTES 512u

static const struct cuda_driver *driver_of(const struct gpu_machine *machine)
{
    return &((const struct facet_provider_instance *)machine)->driver;
}

static enum facet_status check_result(struct gpu_machine *machine, struct facet_error *error, const char *call,
                                      CUresult result)
{
    return result == CUDA_SUCCESS ? FACET_OK : cuda_driver_fail(driver_of(machine), error, call, result);
}

/* --- devices --- */

static enum facet_status retain_device(struct gpu_machine *machine, uint32_t device, struct facet_error *error)
{
    CUcontext *primary = &((struct facet_provider_instance *)machine)->primaries[device];

    return check_result(machine, error, "cuDevicePrimaryCtxRetain",
                        driver_of(machine)->cuDevicePrimaryCtxRetain(primary, machine->devices[device].ordinal));
}

static enum facet_status enter_device(struct gpu_machine *machine, uint32_t device, struct facet_error *error)
{
    CUcontext primary = ((struct facet_provider_instance *)machine)->primaries[device];

    return check_result(machine, error, "cuCtxPushCurrent", driver_of(machine)->cuCtxPushCurrent_v2(primary));
}

static void leave_device(struct gpu_machine *machine)
{
    CUcontext ours;

    driver_of(machine)->cuCtxPopCurrent_v2(&ours);
}

static void release_device(struct gpu_machine *machine, uint32_t device)
{
    struct cuda_math *math = &((struct facet_provider_instance *)machine)->math;

    if ((math->blas[device] || math->dnn[device]) && enter_device(machine, device, NULL) == FACET_OK) {
        cuda_math_leave(math, device);
        leave_device(machine);
    }
    driver_of(machine)->cuDevicePrimaryCtxRelease_v2(machine->devices[device].ordinal);
}

static enum facet_status synchronize_device(struct gpu_machine *machine, struct facet_error *error)
{
    return check_result(machine, error, "cuCtxSynchronize", driver_of(machine)->cuCtxSynchronize());
}

/* --- plain memory --- */

static enum facet_status memory_info(struct gpu_machine *machine, size_t *ret_free, size_t *ret_total,
                                     struct facet_error *error)
{
    return check_result(machine, error, "cuMemGetInfo", driver_of(machine)->cuMemGetInfo_v2(ret_free, ret_total));
}

static enum facet_status allocate_memory(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                         struct facet_error *error)
{
    CUdeviceptr address = 0;
    CUresult result = driver_of(machine)->cuMemAlloc_v2(&address, bytes);

    if (result == CUDA_SUCCESS)
        *ret_address = address;
    return check_result(machine, error, "cuMemAlloc", result);
}

static enum facet_status free_memory(struct gpu_machine *machine, uint64_t address, struct facet_error *error)
{
    return check_result(machine, error, "cuMemFree", driver_of(machine)->cuMemFree_v2(address));
}

static enum facet_status write_memory(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                                      struct facet_error *error)
{
    return check_result(machine, error, "cuMemcpyHtoD", driver_of(machine)->cuMemcpyHtoD_v2(to, data, bytes));
}

static enum facet_status read_memory(struct gpu_machine *machine, void *to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "cuMemcpyDtoH", driver_of(machine)->cuMemcpyDtoH_v2(to, from, bytes));
}

static enum facet_status copy_memory(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "cuMemcpyDtoD", driver_of(machine)->cuMemcpyDtoD_v2(to, from, bytes));
}

static enum facet_status fill_memory(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "cuMemsetD8", driver_of(machine)->cuMemsetD8_v2(address, value, bytes));
}

/* --- physical memory, mapped at reserved addresses --- */

CUmemAllocationProp cuda_memory_properties(const struct gpu_machine *machine, uint32_t device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = machine->devices[device].ordinal},
    };
}

static enum facet_status reserve_addresses(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                           struct facet_error *error)
{
    CUdeviceptr address = 0;
    CUresult result = driver_of(machine)->cuMemAddressReserve(&address, bytes, 0, 0, 0);

    if (result == CUDA_SUCCESS)
        *ret_address = address;
    return check_result(machine, error, "cuMemAddressReserve", result);
}

static enum facet_status release_addresses(struct gpu_machine *machine, uint64_t address, uint64_t bytes,
                                           struct facet_error *error)
{
    return check_result(machine, error, "cuMemAddressFree", driver_of(machine)->cuMemAddressFree(address, bytes));
}

static enum facet_status create_memory(struct gpu_machine *machine, uint32_t device, uint64_t bytes,
                                       gpu_memory_handle *ret_memory, struct facet_error *error)
{
    const CUmemAllocationProp properties = cuda_memory_properties(machine, device);
    CUmemGenericAllocationHandle handle = 0;
    CUresult result = driver_of(machine)->cuMemCreate(&handle, bytes, &properties, 0);

    if (result == CUDA_SUCCESS)
        *ret_memory = handle;
    return check_result(machine, error, "cuMemCreate", result);
}

static void release_memory(struct gpu_machine *machine, gpu_memory_handle memory)
{
    driver_of(machine)->cuMemRelease(memory);
}

static enum facet_status map_memory(struct gpu_machine *machine, uint64_t address, uint64_t bytes,
                                    gpu_memory_handle memory, struct facet_error *error)
{
    return check_result(machine, error, "cuMemMap", driver_of(machine)->cuMemMap(address, bytes, 0, memory, 0));
}

static void unmap_memory(struct gpu_machine *machine, uint64_t address, uint64_t bytes)
{
    driver_of(machine)->cuMemUnmap(address, bytes);
}

static enum facet_status allow_access(struct gpu_machine *machine, uint32_t device, uint64_t address, uint64_t bytes,
                                      struct facet_error *error)
{
    const CUmemAccessDesc access = {.location = cuda_memory_properties(machine, device).location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return check_result(machine, error, "cuMemSetAccess",
                        driver_of(machine)->cuMemSetAccess(address, bytes, &access, 1));
}

/* --- streams --- */

static enum facet_status create_stream(struct gpu_machine *machine, gpu_stream_handle *ret_stream,
                                       struct facet_error *error)
{
    CUstream stream = NULL;
    CUresult result = driver_of(machine)->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    if (result == CUDA_SUCCESS)
        *ret_stream = stream;
    return check_result(machine, error, "cuStreamCreate", result);
}

static void destroy_stream(struct gpu_machine *machine, gpu_stream_handle stream)
{
    driver_of(machine)->cuStreamDestroy_v2(stream);
}

static enum facet_status create_event(struct gpu_machine *machine, gpu_event_handle *ret_event)
{
    CUevent event = NULL;
    CUresult result = driver_of(machine)->cuEventCreate(&event, CU_EVENT_DEFAULT);

    if (result == CUDA_SUCCESS)
        *ret_event = event;
    return check_result(machine, NULL, "cuEventCreate", result);
}

static void destroy_event(struct gpu_machine *machine, gpu_event_handle event)
{
    driver_of(machine)->cuEventDestroy_v2(event);
}

static enum facet_status record_event(struct gpu_machine *machine, gpu_event_handle event, gpu_stream_handle stream)
{
    return check_result(machine, NULL, "cuEventRecord", driver_of(machine)->cuEventRecord(event, stream));
}

static enum facet_status elapsed_between(struct gpu_machine *machine, gpu_event_handle start, gpu_event_handle end,
                                         uint64_t *ret_ns)
{
    const struct cuda_driver *driver = driver_of(machine);
    float milliseconds = 0;
    CUresult result = driver->cuEventQuery(end);

    if (result == CUDA_ERROR_NOT_READY)
        return FACET_BUSY;
    if (result == CUDA_SUCCESS)
        result = driver->cuEventElapsedTime(&milliseconds, start, end);
    if (result == CUDA_SUCCESS)
        *ret_ns = milliseconds > 0 ? (uint64_t)llroundf(milliseconds * 1e6F) : 0;
    return check_result(machine, NULL, "cuEventElapsedTime", result);
}

static enum facet_status enqueue_write(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                                       gpu_stream_handle stream)
{
    return check_result(machine, NULL, "cuMemcpyHtoDAsync",
                        driver_of(machine)->cuMemcpyHtoDAsync_v2(to, data, bytes, stream));
}

static enum facet_status enqueue_copy(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                      gpu_stream_handle stream)
{
    return check_result(machine, NULL, "cuMemcpyDtoDAsync",
                        driver_of(machine)->cuMemcpyDtoDAsync_v2(to, from, bytes, stream));
}

static enum facet_status enqueue_fill(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                                      gpu_stream_handle stream)
{
    return check_result(machine, NULL, "cuMemsetD8Async",
                        driver_of(machine)->cuMemsetD8Async(address, value, bytes, stream));
}

/* --- kernels --- */

static bool is_about_image(CUresult result)
{
    return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_PTX ||
           result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ||
           result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_FOUND;
}

/*
 * Loads a module; or, if multiprocessors can be partitioned, a library, whose kernels run in any part. The driver loads
 * a library when its module is requested. That is done here, so that an error is reported at once.
 */
static CUresult load_module_or_library(const struct cuda_driver *driver, const char *text, int options[2],
                                       void *values[2], void **ret_module)
{
    CUmodule module = NULL;
    CUlibrary library = NULL;

    if (!cuda_driver_can_partition(driver)) {
        CUresult result = driver->cuModuleLoadDataEx(&module, text, 2, options, values);
        *ret_module = module;
        return result;
    }
    CUresult result = driver->cuLibraryLoadData(&library, text, options, values, 2, NULL, NULL, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->cuLibraryGetModule(&module, library);
    if (result != CUDA_SUCCESS)
        driver->cuLibraryUnload(library);
    *ret_module = library;
    return result;
}

/* The driver takes PTX as a terminated text, and describes errors in its log. */
static enum facet_status load_module(struct gpu_machine *machine, const void *image, uint64_t bytes,
                                     gpu_module_handle *ret_module, struct facet_error *error)
{
    char log[LOG_BYTES] = "";
    int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log}; /* NOLINT: the driver takes a number in a pointer */
    char *text = bytes < SIZE_MAX ? malloc(bytes + 1) : NULL;
    void *module = NULL;

    if (!text)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an image of %" PRIu64 " bytes", bytes);
    memcpy(text, image, bytes);
    text[bytes] = '\0';
    CUresult result = load_module_or_library(driver_of(machine), text, options, values, &module);
    free(text);
    if (result == CUDA_SUCCESS)
        *ret_module = module;
    log[sizeof log - 1] = '\0';
    FACET_KIT_TEXT(log, log);
    if (is_about_image(result))
        return facet_kit_fail(error, FACET_CORRUPT,
                              "the image: expected PTX, a cubin or a fatbin for this device: %d %s", result, log);
    return check_result(machine, error, "loading a module", result);
}

static enum facet_status unload_module(struct gpu_machine *machine, gpu_module_handle module, struct facet_error *error)
{
    const struct cuda_driver *driver = driver_of(machine);

    return check_result(machine, error, "unloading a module",
                        cuda_driver_can_partition(driver) ? driver->cuLibraryUnload(module)
                                                          : driver->cuModuleUnload(module));
}

static enum facet_status find_kernel(struct gpu_machine *machine, gpu_module_handle module, const char *name,
                                     gpu_kernel_handle *ret_kernel, struct facet_error *error)
{
    const struct cuda_driver *driver = driver_of(machine);
    CUfunction function = NULL;
    CUkernel kernel = NULL; /* cuLaunchKernel() accepts a CUkernel in place of a CUfunction */
    bool of_library = cuda_driver_can_partition(driver);
    CUresult result = of_library ? driver->cuLibraryGetKernel(&kernel, module, name)
                                 : driver->cuModuleGetFunction(&function, module, name);

    if (result == CUDA_SUCCESS)
        *ret_kernel = of_library ? (void *)kernel : (void *)function;
    return result == CUDA_ERROR_NOT_FOUND ? FACET_NOT_FOUND : check_result(machine, error, "finding a kernel", result);
}

static enum facet_status launch_kernel(struct gpu_machine *machine, gpu_kernel_handle kernel,
                                       const struct facet_launch *launch, void *arguments, size_t argument_bytes,
                                       gpu_stream_handle stream)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &argument_bytes,
                     CU_LAUNCH_PARAM_END};

    return check_result(machine, NULL, "cuLaunchKernel",
                        driver_of(machine)->cuLaunchKernel(kernel, launch->grid[0], launch->grid[1], launch->grid[2],
                                                           launch->group[0], launch->group[1], launch->group[2],
                                                           launch->local_bytes, stream, NULL, extra));
}

const struct gpu_driver cuda_gpu_driver = {
    .offset_hint = "CUDA's kernels begin at 0: pass the offset as an argument",
    .retain = retain_device,
    .release = release_device,
    .enter = enter_device,
    .leave = leave_device,
    .synchronize = synchronize_device,
    .info = memory_info,
    .allocate = allocate_memory,
    .free = free_memory,
    .write = write_memory,
    .read = read_memory,
    .copy = copy_memory,
    .fill = fill_memory,
    .reserve = reserve_addresses,
    .unreserve = release_addresses,
    .create_memory = create_memory,
    .release_memory = release_memory,
    .map = map_memory,
    .unmap = unmap_memory,
    .allow = allow_access,
    .create_stream = create_stream,
    .destroy_stream = destroy_stream,
    .create_event = create_event,
    .destroy_event = destroy_event,
    .record = record_event,
    .elapsed = elapsed_between,
    .load = load_module,
    .unload = unload_module,
    .find_kernel = find_kernel,
    .launch = launch_kernel,
    .enqueue_write = enqueue_write,
    .enqueue_copy = enqueue_copy,
    .enqueue_fill = enqueue_fill,
    .take_slice = cuda_slice_take,
    .bound_slice = cuda_slice_bound,
    .drop_slice = cuda_slice_drop,
    .enter_slice = cuda_slice_enter,
    .create_slice_stream = cuda_slice_stream,
};
