/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One launch: admitted, submitted, followed to its end.
 *
 *     facet_cl_launch_begin()   waits until the vGPU may submit (throttled at submit, never deferred: order is kept)
 *     the real call             with launch.event in place of the program's
 *     facet_cl_launch_end()     hands the event to the tracker, or releases the admission if the call failed
 *
 * Owns: this sequence.
 * Never: holds a lock in it.
 */
#ifndef FACET_OPENCL_LAUNCH_H
#define FACET_OPENCL_LAUNCH_H

#include <CL/cl.h>

#include "process.h"

struct facet_cl_launch {
    struct facet_tenant *tenant; /* NULL: not admitted, only passed through */
    uint64_t key, estimate_ns, submitted_ns;
    cl_uint num_waits;
    cl_event own_event, *event; /* `event` is the program's, or &own_event when the program wants no event */
};

/* CL_SUCCESS, or CL_OUT_OF_RESOURCES when there is no usable vGPU. `key`: interpose/kit/estimate.h. */
cl_int facet_cl_launch_begin(struct facet_cl_launch *launch, uint64_t key, cl_uint num_waits, cl_event *event);

/*
 * `result` is the real call's result, and is returned. `queue` may be NULL when it is not known. `blocking`: the
 * command was complete when the call returned.
 */
cl_int facet_cl_launch_end(struct facet_cl_launch *launch, cl_command_queue queue, cl_bool blocking, cl_int result);

/* Begins a transfer of `bytes`; a small transfer is passed through. */
cl_int facet_cl_transfer_begin(struct facet_cl_launch *launch, uint64_t bytes, cl_uint num_waits, cl_event *event);

#endif
