/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vendor's driver for the contexts, memory and streams of this folder: a table of functions that each provider
 * implements with its vendor's calls.
 *
 * Owns: the table, and the contract of each function.
 * Never: returns a vendor's result: each function returns one of our statuses, and names the failed call in `error`
 * (may be NULL).
 *
 * A device is identified by its index in the provider's list. Except for enter, leave, retain and release, a function
 * is called with its device entered in the calling thread; enter() and leave() are paired and do not nest. Outputs are
 * untouched on failure.
 */
#ifndef FACET_KIT_GPU_DRIVER_H
#define FACET_KIT_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <facet/provider.h>

struct gpu_machine;

/* The vendor's handles, opaque here. */
typedef void *gpu_stream_handle;
typedef void *gpu_event_handle;
typedef void *gpu_module_handle;
typedef void *gpu_kernel_handle;
typedef uint64_t gpu_memory_handle;
typedef void *gpu_slice_handle; /* a set of a device's compute units */

struct gpu_driver {
    const char *offset_hint; /* why a launch must begin at 0, and what to do instead */

    /* Called before the first context on a device, and after the last one of an instance. */
    enum facet_status (*retain)(struct gpu_machine *machine, uint32_t device, struct facet_error *error);
    void (*release)(struct gpu_machine *machine, uint32_t device);
    /* Makes the device current in the calling thread; leave() restores the previous one. */
    enum facet_status (*enter)(struct gpu_machine *machine, uint32_t device, struct facet_error *error);
    void (*leave)(struct gpu_machine *machine);
    /* Waits for all work that this process has submitted to the device. */
    enum facet_status (*synchronize)(struct gpu_machine *machine, struct facet_error *error);

    /* Plain memory, aligned to GPU_ALIGNMENT at least. FACET_NO_SPACE when the device has no more. */
    enum facet_status (*info)(struct gpu_machine *machine, size_t *ret_free, size_t *ret_total,
                              struct facet_error *error);
    enum facet_status (*allocate)(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                  struct facet_error *error);
    enum facet_status (*free)(struct gpu_machine *machine, uint64_t address, struct facet_error *error);
    /* The host's data may be freed as soon as these return. A copy or a fill on the device may still be running. */
    enum facet_status (*write)(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                               struct facet_error *error);
    enum facet_status (*read)(struct gpu_machine *machine, void *to, uint64_t from, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*copy)(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                              struct facet_error *error);
    enum facet_status (*fill)(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                              struct facet_error *error);

    /* Physical memory, mapped at reserved addresses; called for devices whose `granule` is not 0. */
    enum facet_status (*reserve)(struct gpu_machine *machine, uint64_t bytes, uint64_t *ret_address,
                                 struct facet_error *error);
    enum facet_status (*unreserve)(struct gpu_machine *machine, uint64_t address, uint64_t bytes,
                                   struct facet_error *error);
    enum facet_status (*create_memory)(struct gpu_machine *machine, uint32_t device, uint64_t bytes,
                                       gpu_memory_handle *ret_memory, struct facet_error *error);
    void (*release_memory)(struct gpu_machine *machine, gpu_memory_handle memory);
    enum facet_status (*map)(struct gpu_machine *machine, uint64_t address, uint64_t bytes, gpu_memory_handle memory,
                             struct facet_error *error);
    void (*unmap)(struct gpu_machine *machine, uint64_t address, uint64_t bytes);
    /* Lets the device read and write the memory that is mapped at `address`. */
    enum facet_status (*allow)(struct gpu_machine *machine, uint32_t device, uint64_t address, uint64_t bytes,
                               struct facet_error *error);

    /* Streams and kernels; called for devices that promise FACET_CAN_EXECUTE. */
    enum facet_status (*create_stream)(struct gpu_machine *machine, gpu_stream_handle *ret_stream,
                                       struct facet_error *error);
    void (*destroy_stream)(struct gpu_machine *machine, gpu_stream_handle stream);
    enum facet_status (*create_event)(struct gpu_machine *machine, gpu_event_handle *ret_event);
    void (*destroy_event)(struct gpu_machine *machine, gpu_event_handle event);
    enum facet_status (*record)(struct gpu_machine *machine, gpu_event_handle event, gpu_stream_handle stream);
    /* FACET_BUSY until `end` is complete; then the time between the two events. */
    enum facet_status (*elapsed)(struct gpu_machine *machine, gpu_event_handle start, gpu_event_handle end,
                                 uint64_t *ret_ns);
    /* FACET_CORRUPT when the bytes are no image for the device. The image may be freed afterwards. */
    enum facet_status (*load)(struct gpu_machine *machine, const void *image, uint64_t bytes,
                              gpu_module_handle *ret_module, struct facet_error *error);
    enum facet_status (*unload)(struct gpu_machine *machine, gpu_module_handle module, struct facet_error *error);
    /* FACET_NOT_FOUND when the module has no kernel of that name. */
    enum facet_status (*find_kernel)(struct gpu_machine *machine, gpu_module_handle module, const char *name,
                                     gpu_kernel_handle *ret_kernel, struct facet_error *error);
    /* The arguments may be freed as soon as the function returns. */
    enum facet_status (*launch)(struct gpu_machine *machine, gpu_kernel_handle kernel,
                                const struct facet_launch *launch, void *arguments, size_t argument_bytes,
                                gpu_stream_handle stream);
    /* Like write, copy and fill, in stream order. The host's data must stay until the operation is complete. */
    enum facet_status (*enqueue_write)(struct gpu_machine *machine, uint64_t to, const void *data, uint64_t bytes,
                                       gpu_stream_handle stream);
    enum facet_status (*enqueue_copy)(struct gpu_machine *machine, uint64_t to, uint64_t from, uint64_t bytes,
                                      gpu_stream_handle stream);
    enum facet_status (*enqueue_fill)(struct gpu_machine *machine, uint64_t address, uint8_t value, uint64_t bytes,
                                      gpu_stream_handle stream);

    /*
     * Slices: these five functions are NULL where the vendor has no slices. take_slice is for devices that promise
     * FACET_CAN_LIMIT_COMPUTE. It reserves at least `units` units for one worker; FACET_NO_SPACE: other workers have
     * too many. bound_slice is for devices that promise FACET_CAN_CONTROL. It selects at least `units` units for a
     * context, from `within` (NULL: the whole device, unreserved units first); *ret_slice is NULL when that would be
     * all units. Called with the context lock.
     */
    enum facet_status (*take_slice)(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                    gpu_slice_handle *ret_slice, uint32_t *ret_units, struct facet_error *error);
    enum facet_status (*bound_slice)(struct gpu_machine *machine, uint32_t device, gpu_slice_handle within,
                                     uint32_t units, gpu_slice_handle *ret_slice, struct facet_error *error);
    void (*drop_slice)(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice);
    /* Like enter() and create_stream(), for a worker with a slice, or a context with a bound. */
    enum facet_status (*enter_slice)(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice,
                                     struct facet_error *error);
    enum facet_status (*create_slice_stream)(struct gpu_machine *machine, gpu_slice_handle slice,
                                             gpu_stream_handle *ret_stream, struct facet_error *error);
};

#endif
