/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice: a set of a device's compute units for a worker or a context, which the driver keeps separate.
 *
 * Owns: the users of a slice, and the slice of a stream. The driver implements slices (driver.h).
 * Never: makes memory or modules: those belong to the device, and all slices share its addresses.
 */
#ifndef FACET_KIT_GPU_SLICE_H
#define FACET_KIT_GPU_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/error.h>

#include "driver.h"

struct gpu_context;
struct gpu_stream;

struct gpu_slice {
    gpu_slice_handle handle;
    uint32_t units;
    uint32_t users; /* reference count: streams, and the creator; protected by the executor's lock */
};

/* Wraps a driver's slice, with one user. Owns the driver's slice from here on, also on failure. */
enum facet_status gpu_slice_new(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle, uint32_t units,
                                struct gpu_slice **ret_slice, struct facet_error *error);

/* Removes one user. Called without the executor's lock. NULL is allowed. */
void gpu_slice_drop(struct gpu_machine *machine, uint32_t device, struct gpu_slice *slice);

/* Makes a context's slice or device current in the calling thread; the driver's leave() restores the previous one. */
enum facet_status gpu_device_enter(struct gpu_machine *machine, const struct gpu_context *context,
                                   struct facet_error *error);

/* Makes a driver's stream on the units that the context, which is entered, may use now. */
enum facet_status gpu_stream_open(struct gpu_machine *machine, struct gpu_context *context,
                                  gpu_stream_handle *ret_handle, struct gpu_slice **ret_slice,
                                  struct facet_error *error);
void gpu_stream_close(struct gpu_machine *machine, uint32_t device, gpu_stream_handle handle, struct gpu_slice *slice);

/* Whether the stream is on another slice than its context uses now. Called with the executor's lock. */
bool gpu_stream_needs_move(const struct gpu_stream *stream);

/* Moves a stream without submitted commands to its context's current slice. Called by the executor's thread. */
enum facet_status gpu_stream_move(struct gpu_machine *machine, struct gpu_stream *stream);

#endif
