/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some of a device's compute units, for a worker or for a context, as its driver keeps them apart.
 *
 * Owns: who uses a slice, and which slice a stream is of. What a slice is, is the driver's (driver.h).
 * Never: makes memory or modules: those are of the device, and all slices work in its addresses.
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
    uint32_t users; /* streams, and who has it made; under the executor's lock */
};

/* What a driver has made, with one user. Takes it over, also when it fails. */
enum facet_status gpu_slice_new(struct gpu_machine *machine, uint32_t device, gpu_slice_handle handle, uint32_t units,
                                struct gpu_slice **ret_slice, struct facet_error *error);

/* One user less. Without the executor's lock. NULL: nothing happens. */
void gpu_slice_drop(struct gpu_machine *machine, uint32_t device, struct gpu_slice *slice);

/* Makes what a context works in the calling thread's; the driver's leave() puts back what was. */
enum facet_status gpu_device_enter(struct gpu_machine *machine, const struct gpu_context *context,
                                   struct facet_error *error);

/* A driver's stream on what the context, which is entered, may use now. */
enum facet_status gpu_stream_open(struct gpu_machine *machine, struct gpu_context *context,
                                  gpu_stream_handle *ret_handle, struct gpu_slice **ret_slice,
                                  struct facet_error *error);
void gpu_stream_close(struct gpu_machine *machine, uint32_t device, gpu_stream_handle handle, struct gpu_slice *slice);

/* Whether the stream is of another slice than its context uses now. With the executor's lock. */
bool gpu_stream_is_elsewhere(const struct gpu_stream *stream);

/* Moves the stream, of which the driver has nothing, to where its context works now. By the executor's thread. */
enum facet_status gpu_stream_move(struct gpu_machine *machine, struct gpu_stream *stream);

#endif
