/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that a vendor's library submits to the driver, as one launch of a stream.
 *
 * Owns: queueing that work, with the memory that it touches. Never: knows what the work computes.
 */
#ifndef FACET_KIT_GPU_CALL_H
#define FACET_KIT_GPU_CALL_H

#include <stdint.h>

#include <facet/error.h>

#include "driver.h"
#include "math_check.h"

/*
 * The executor's thread calls this function when the operation's turn comes, with the context entered and its memory
 * checked again. The function submits to `stream` only. `data` is the copy that was queued.
 */
typedef enum facet_status (*gpu_call_func)(struct gpu_machine *machine, uint32_t device, gpu_stream_handle stream,
                                           const void *data);

/*
 * `name` goes into the launch record. Errors are those of a launch; FACET_OUT_OF_RANGE names an operand that is not
 * wholly memory of the context.
 */
enum facet_status gpu_call_queue(struct gpu_machine *machine, uint64_t context, uint64_t stream, gpu_call_func run,
                                 const char *name, const void *data, size_t bytes,
                                 const struct kit_math_operands *operands, struct facet_error *error);

#endif
