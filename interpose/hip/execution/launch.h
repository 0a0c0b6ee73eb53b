/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the kit's launch macro with HIP's result type and codes. Never: adds behaviour to it. */
#ifndef FACET_HIP_LAUNCH_H
#define FACET_HIP_LAUNCH_H

#include "interpose/hip/hooks.h"
#include "interpose/kit/execution/launch.h"

_Static_assert(hipSuccess == 0, "a launch of the kit takes 0 for success");

/* Returns the result of a launch or copy without a vGPU, and sets the thread's last error. */
hipError_t facet_hip_refuse(void);

/* The body of a hook; `call` is the call to the runtime. */
#define FACET_HIP_LAUNCH(stream, object, size, call)                                                                   \
    FACET_FLIGHT_LAUNCH(hipError_t, facet_hip_refuse(), stream, object, size, call)

#endif
