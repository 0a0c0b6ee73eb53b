/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of a GPU's compute units, as masks for the creation of streams.
 *
 * Owns: the units reserved for workers, and the slice functions of the driver's table.
 * Never: limits another program.
 *
 * A mask needs no service and no memory. A stream with a mask and the runtime's default stream wait for each other. The
 * transfers that the host waits for are in the default stream, so they run after the submitted work of other slices.
 */
#ifndef FACET_ROCM_SLICE_H
#define FACET_ROCM_SLICE_H

#include <facet/provider.h>

#include "gpu/machine.h"

#define ROCM_MASK_WORDS 32u /* 1024 compute units */

/* A bit for each unit. */
struct rocm_units {
    uint32_t words[ROCM_MASK_WORDS];
};

enum facet_status rocm_slice_take(struct gpu_machine *machine, uint32_t device, uint32_t units,
                                  gpu_slice_handle *ret_slice, uint32_t *ret_units, struct facet_error *error);
enum facet_status rocm_slice_bound(struct gpu_machine *machine, uint32_t device, gpu_slice_handle within,
                                   uint32_t units, gpu_slice_handle *ret_slice, struct facet_error *error);
void rocm_slice_drop(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice);
enum facet_status rocm_slice_enter(struct gpu_machine *machine, uint32_t device, gpu_slice_handle slice,
                                   struct facet_error *error);
enum facet_status rocm_slice_stream(struct gpu_machine *machine, gpu_slice_handle slice, gpu_stream_handle *ret_stream,
                                    struct facet_error *error);

#endif
