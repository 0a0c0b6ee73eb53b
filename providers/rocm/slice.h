/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some of a GPU's compute units, by the masks that streams are made with.
 *
 * Owns: which units were promised to a worker, and the functions about slices of the driver's table.
 * Never: limits anybody else's program.
 *
 * A mask needs nobody's leave and no memory. A stream with one is of the kind that waits for the default stream of the
 * runtime, on which transfers go that the host waits for: those come after what other slices have under way.
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
