/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the kit's launch macro with CUDA's result type and codes. Never: adds behaviour to it. */
#ifndef FACET_CUDA_LAUNCH_H
#define FACET_CUDA_LAUNCH_H

#include "interpose/cuda/hooks.h"
#include "interpose/kit/execution/launch.h"

_Static_assert(CUDA_SUCCESS == 0, "a launch of the kit takes 0 for success");

/* The body of a hook; `call` is the call to the driver. */
#define FACET_CUDA_LAUNCH(stream, object, size, call)                                                                  \
    FACET_FLIGHT_LAUNCH(CUresult, CUDA_ERROR_SYSTEM_NOT_READY, stream, object, size, call)

#endif
