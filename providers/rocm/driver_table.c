/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the HIP runtime as providers/kit/gpu calls it.
 * Never: contains a policy, except when to initialise: each function is one call, and the translation of its result.
 *
 * HIP has one current device per thread, and no stack of devices. enter_device() saves the current one for
 * leave_device(), so the two do not nest.
 */
#include <math.h>
#include <stdlib.h>

#include "image.h"
#include "rocm.h"

static _Thread_local int device_before;

static const struct rocm_runtime *runtime_of(const struct gpu_machine *machine)
{
    return &((const struct facet_provider_instance *)machine)->runtime;
}

static enum facet_status check_result(struct gpu_machine *machine, struct facet_error *error, const char *call,
                                      hipError_t result)
{
    return result == hipSuccess ? FACET_OK : rocm_runtime_fail(runtime_of(machine), error, call, result);
}

static hipDeviceptr_t pointer_of(uint64_t address)
{
    return (hipDeviceptr_t)(uintptr_t)address; /* NOLINT: the runtime takes a pointer */
}

/* --- devices --- */

static hipMemAllocationProp properties_of(const struct gpu_machine *machine, uint32_t device)
{
    return (hipMemAllocationProp){
        .type = hipMemAllocationTypePinned,
        .location = {.type = hipMemLocationTypeDevice, .id = machine->devices[device].ordinal},
    };
}

static int attribute_or_zero(const struct rocm_runtime *runtime, const struct gpu_device *device, int which)
{
    int value;

    /* An attribute that this runtime does not know reads as 0. */
    return runtime->hipDeviceGetAttribute(&value, which, device->ordinal) == hipSuccess ? value : 0;
}

static uint32_t positive_attribute(const struct rocm_runtime *runtime, const struct gpu_device *device, int which)
{
    int value = attribute_or_zero(runtime, device, which);

    return value > 0 ? (uint32_t)value : 0;
}

/* The smallest size of memory that can be mapped, or 0. */
static size_t granule_of(const struct gpu_machine *machine, uint32_t index)
{
    const struct rocm_runtime *runtime = runtime_of(machine);
    const hipMemAllocationProp properties = properties_of(machine, index);
    size_t granule = 0;

    if (!rocm_runtime_maps(runtime) ||
        !attribute_or_zero(runtime, &machine->devices[index], hipDeviceAttributeVirtualMemoryManagementSupported) ||
        runtime->hipMemGetAllocationGranularity(&granule, &properties, hipMemAllocationGranularityMinimum) !=
            hipSuccess)
        return 0;
    return granule & (granule - 1) ? 0 : granule;
}

static void read_launch_bounds(struct gpu_machine *machine, uint32_t index)
{
    const struct rocm_runtime *runtime = runtime_of(machine);
    struct gpu_device *device = &machine->devices[index];

    for (int i = 0; i < 3; i++) {
        device->grid_most[i] = positive_attribute(runtime, device, hipDeviceAttributeMaxGridDimX + i);
        device->group_most[i] = positive_attribute(runtime, device, hipDeviceAttributeMaxBlockDimX + i);
    }
    device->items_most = positive_attribute(runtime, device, hipDeviceAttributeMaxThreadsPerBlock);
    device->granule = granule_of(machine, index);
}

/* Called for each first context on a device. A failure is not retried: the runtime would return the same result. */
static enum facet_status start_runtime(struct facet_provider_instance *instance, struct facet_error *error)
{
    struct rocm_runtime *runtime = &instance->runtime;

    pthread_mutex_lock(&instance->runtime_lock);
    if (!runtime->started)
        runtime->result = runtime->hipInit(0);
    runtime->started = true;
    pthread_mutex_unlock(&instance->runtime_lock);
    return runtime->result == hipSuccess ? FACET_OK : rocm_runtime_fail(runtime, error, "hipInit", runtime->result);
}

static enum facet_status retain_device(struct gpu_machine *machine, uint32_t index, struct facet_error *error)
{
    struct facet_provider_instance *instance = (struct facet_provider_instance *)machine;
    enum facet_status status = rocm_check_whole(instance, index, error);

    if (status == FACET_OK)
        status = start_runtime(instance, error);
    if (status != FACET_OK)
        return status;
    /* Searches by PCI address: the runtime's numbers depend on HIP_VISIBLE_DEVICES, which may also hide the GPU. */
    status = check_result(
        machine, error, "hipDeviceGetByPCIBusId",
        instance->runtime.hipDeviceGetByPCIBusId(&machine->devices[index].ordinal, machine->infos[index].pci_address));
    if (status == FACET_OK)
        read_launch_bounds(machine, index);
    return status;
}

static enum facet_status enter_device(struct gpu_machine *machine, uint32_t device, struct facet_error *error)
{
    const struct rocm_runtime *runtime = runtime_of(machine);
    hipError_t result = runtime->hipGetDevice(&device_before);

    if (result == hipSuccess)
        result = runtime->hipSetDevice(machine->devices[device].ordinal);
    return check_result(machine, error, "hipSetDevice", result);
}

static void leave_device(struct gpu_machine *machine)
{
    runtime_of(machine)->hipSetDevice(device_before);
}

static void release_device(struct gpu_machine *machine, uint32_t device)
{
    struct rocm_math *math = &((struct facet_provider_instance *)machine)->math;

    /* The runtime keeps its own memory on a device until the process ends. */
    if ((math->blas[device] || math->dnn[device]) && enter_device(machine, device, NULL) == FACET_OK) {
        rocm_math_leave(math, device);
        leave_device(machine);
    }
}

static enum facet_status synchronize_device(struct gpu_machine *machine, struct facet_error *error)
{
    return check_result(machine, error, "hipDeviceSynchronize", runtime_of(machine)->hipDeviceSynchronize());
}

/* --- plain memory --- */

static enum facet_status memory_info(struct gpu_machine *machine, size_t *ret_free, size_t *ret_total,
                                     struct facet_error *error)
{
    return check_result(machine, error, "hipMemGetInfo", runtime_of(machine)->hipMemGetInfo(ret_free, ret_total));
}

static enum facet_status allocate_memory(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                         struct facet_error *error)
{
    void *pointer = NULL;
    hipError_t result = runtime_of(machine)->hipMalloc(&pointer, bytes);

    if (result == hipSuccess)
        *ret_address = (uintptr_t)pointer;
    return check_result(machine, error, "hipMalloc", result);
}

static enum facet_status free_memory(struct gpu_machine *machine, uint64_t address, struct facet_error *error)
{
    return check_result(machine, error, "hipFree", runtime_of(machine)->hipFree(pointer_of(address)));
}

static enum facet_status write_memory(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                                      struct facet_error *error)
{
    /* The runtime takes a pointer without const, but only reads. */
    return check_result(machine, error, "hipMemcpyHtoD",
                        runtime_of(machine)->hipMemcpyHtoD(pointer_of(to), (void *)(uintptr_t)data, bytes));
}

static enum facet_status read_memory(struct gpu_machine *machine, void *to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "hipMemcpyDtoH",
                        runtime_of(machine)->hipMemcpyDtoH(to, pointer_of(from), bytes));
}

static enum facet_status copy_memory(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "hipMemcpyDtoD",
                        runtime_of(machine)->hipMemcpyDtoD(pointer_of(to), pointer_of(from), bytes));
}

static enum facet_status fill_memory(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                                     struct facet_error *error)
{
    return check_result(machine, error, "hipMemsetD8",
                        runtime_of(machine)->hipMemsetD8(pointer_of(address), value, bytes));
}

/* --- physical memory, mapped at reserved addresses --- */

static enum facet_status reserve_addresses(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                           struct facet_error *error)
{
    void *pointer = NULL;
    hipError_t result = runtime_of(machine)->hipMemAddressReserve(&pointer, bytes, 0, NULL, 0);

    if (result == hipSuccess)
        *ret_address = (uintptr_t)pointer;
    return check_result(machine, error, "hipMemAddressReserve", result);
}

static enum facet_status release_addresses(struct gpu_machine *machine, uint64_t address, uint64_t bytes,
                                           struct facet_error *error)
{
    return check_result(machine, error, "hipMemAddressFree",
                        runtime_of(machine)->hipMemAddressFree(pointer_of(address), bytes));
}

static enum facet_status create_memory(struct gpu_machine *machine, uint32_t device, uint64_t bytes,
                                       gpu_memory_handle *ret_memory, struct facet_error *error)
{
    const hipMemAllocationProp properties = properties_of(machine, device);
    hipMemGenericAllocationHandle_t handle = NULL;
    hipError_t result = runtime_of(machine)->hipMemCreate(&handle, bytes, &properties, 0);

    if (result == hipSuccess)
        *ret_memory = (uintptr_t)handle;
    return check_result(machine, error, "hipMemCreate", result);
}

static hipMemGenericAllocationHandle_t handle_of(gpu_memory_handle memory)
{
    return (hipMemGenericAllocationHandle_t)(uintptr_t)memory; /* NOLINT: the number was made of such a handle */
}

static void release_memory(struct gpu_machine *machine, gpu_memory_handle memory)
{
    runtime_of(machine)->hipMemRelease(handle_of(memory));
}

static enum facet_status map_memory(struct gpu_machine *machine, uint64_t address, uint64_t bytes,
                                    gpu_memory_handle memory, struct facet_error *error)
{
    return check_result(machine, error, "hipMemMap",
                        runtime_of(machine)->hipMemMap(pointer_of(address), bytes, 0, handle_of(memory), 0));
}

static void unmap_memory(struct gpu_machine *machine, uint64_t address, uint64_t bytes)
{
    runtime_of(machine)->hipMemUnmap(pointer_of(address), bytes);
}

static enum facet_status allow_access(struct gpu_machine *machine, uint32_t device, uint64_t address, uint64_t bytes,
                                      struct facet_error *error)
{
    const hipMemAccessDesc access = {.location = properties_of(machine, device).location,
                                     .flags = hipMemAccessFlagsProtReadWrite};

    return check_result(machine, error, "hipMemSetAccess",
                        runtime_of(machine)->hipMemSetAccess(pointer_of(address), bytes, &access, 1));
}

/* --- streams --- */

static enum facet_status create_stream(struct gpu_machine *machine, gpu_stream_handle *ret_stream,
                                       struct facet_error *error)
{
    hipStream_t stream = NULL;
    hipError_t result = runtime_of(machine)->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking);

    if (result == hipSuccess)
        *ret_stream = stream;
    return check_result(machine, error, "hipStreamCreateWithFlags", result);
}

static void destroy_stream(struct gpu_machine *machine, gpu_stream_handle stream)
{
    runtime_of(machine)->hipStreamDestroy(stream);
}

static enum facet_status create_event(struct gpu_machine *machine, gpu_event_handle *ret_event)
{
    hipEvent_t event = NULL;
    hipError_t result = runtime_of(machine)->hipEventCreateWithFlags(&event, hipEventDefault);

    if (result == hipSuccess)
        *ret_event = event;
    return check_result(machine, NULL, "hipEventCreateWithFlags", result);
}

static void destroy_event(struct gpu_machine *machine, gpu_event_handle event)
{
    runtime_of(machine)->hipEventDestroy(event);
}

static enum facet_status record_event(struct gpu_machine *machine, gpu_event_handle event, gpu_stream_handle stream)
{
    return check_result(machine, NULL, "hipEventRecord", runtime_of(machine)->hipEventRecord(event, stream));
}

static enum facet_status elapsed_between(struct gpu_machine *machine, gpu_event_handle start_event,
                                         gpu_event_handle end, uint64_t *ret_ns)
{
    const struct rocm_runtime *runtime = runtime_of(machine);
    float milliseconds = 0;
    hipError_t result = runtime->hipEventQuery(end);

    if (result == hipErrorNotReady)
        return FACET_BUSY;
    if (result == hipSuccess)
        result = runtime->hipEventElapsedTime(&milliseconds, start_event, end);
    if (result == hipSuccess)
        *ret_ns = milliseconds > 0 ? (uint64_t)llroundf(milliseconds * 1e6F) : 0;
    return check_result(machine, NULL, "hipEventElapsedTime", result);
}

static enum facet_status enqueue_write(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                                       gpu_stream_handle stream)
{
    return check_result(
        machine, NULL, "hipMemcpyHtoDAsync",
        runtime_of(machine)->hipMemcpyHtoDAsync(pointer_of(to), (void *)(uintptr_t)data, bytes, stream));
}

static enum facet_status enqueue_copy(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                      gpu_stream_handle stream)
{
    return check_result(machine, NULL, "hipMemcpyDtoDAsync",
                        runtime_of(machine)->hipMemcpyDtoDAsync(pointer_of(to), pointer_of(from), bytes, stream));
}

static enum facet_status enqueue_fill(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                                      gpu_stream_handle stream)
{
    return check_result(machine, NULL, "hipMemsetD8Async",
                        runtime_of(machine)->hipMemsetD8Async(pointer_of(address), value, bytes, stream));
}

/* --- kernels --- */

static bool is_about_image(hipError_t result)
{
    return result == hipErrorInvalidImage || result == hipErrorInvalidKernelFile || result == hipErrorNoBinaryForGpu ||
           result == hipErrorInvalidSource || result == hipErrorInvalidValue || result == hipErrorNotFound ||
           result == hipErrorFileNotFound;
}

/*
 * The runtime is not told the length of the image, and takes it from the header of the ELF file. The margin keeps the
 * runtime from reading past the end of a short image.
 */
static enum facet_status load_module(struct gpu_machine *machine, const void *image, uint64_t bytes,
                                     gpu_module_handle *ret_module, struct facet_error *error)
{
    char *copy = bytes < SIZE_MAX - ROCM_IMAGE_MARGIN ? calloc(1, bytes + ROCM_IMAGE_MARGIN) : NULL;
    hipModule_t module = NULL;

    if (!copy)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for an image of %" PRIu64 " bytes", bytes);
    memcpy(copy, image, bytes);
    hipError_t result = rocm_image_is_complete(image, bytes) ? runtime_of(machine)->hipModuleLoadData(&module, copy)
                                                             : hipErrorInvalidImage;
    free(copy);
    if (result == hipSuccess)
        *ret_module = module;
    if (is_about_image(result))
        return facet_kit_fail(error, FACET_CORRUPT, "the image: expected an AMDGPU code object for this device: %d",
                              result);
    return check_result(machine, error, "hipModuleLoadData", result);
}

static enum facet_status unload_module(struct gpu_machine *machine, gpu_module_handle module, struct facet_error *error)
{
    return check_result(machine, error, "hipModuleUnload", runtime_of(machine)->hipModuleUnload(module));
}

static enum facet_status find_kernel(struct gpu_machine *machine, gpu_module_handle module, const char *name,
                                     gpu_kernel_handle *ret_kernel, struct facet_error *error)
{
    hipFunction_t function = NULL;
    hipError_t result = runtime_of(machine)->hipModuleGetFunction(&function, module, name);

    if (result == hipSuccess)
        *ret_kernel = function;
    return result == hipErrorNotFound ? FACET_NOT_FOUND : check_result(machine, error, "hipModuleGetFunction", result);
}

static enum facet_status launch_kernel(struct gpu_machine *machine, gpu_kernel_handle kernel,
                                       const struct facet_launch *launch, void *arguments, size_t argument_bytes,
                                       gpu_stream_handle stream)
{
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &argument_bytes,
                     HIP_LAUNCH_PARAM_END};

    return check_result(machine, NULL, "hipModuleLaunchKernel",
                        runtime_of(machine)->hipModuleLaunchKernel(
                            kernel, launch->grid[0], launch->grid[1], launch->grid[2], launch->group[0],
                            launch->group[1], launch->group[2], launch->local_bytes, stream, NULL, extra));
}

const struct gpu_driver rocm_gpu_driver = {
    .offset_hint = "HIP's kernels begin at 0: pass the offset as an argument",
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
    .take_slice = rocm_slice_take,
    .bound_slice = rocm_slice_bound,
    .drop_slice = rocm_slice_drop,
    .enter_slice = rocm_slice_enter,
    .create_slice_stream = rocm_slice_stream,
};
