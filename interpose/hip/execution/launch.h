/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: a HIP launch in the words of interpose/kit/execution. Never: more than those words. */
#ifndef FACET_HIP_LAUNCH_H
#define FACET_HIP_LAUNCH_H

#include "interpose/hip/hooks.h"
#include "interpose/kit/execution/launch.h"

_Static_assert(hipSuccess == 0, "what a launch of the kit takes for success");

/* What a launch, or a copy, is told when there is no vGPU to run it in; the thread's last error from then on. */
hipError_t facet_hip_refuse(void);

/* The body of a hook: `call` is the runtime's. */
#define FACET_HIP_LAUNCH(stream, object, size, call)                                                                   \
    FACET_FLIGHT_LAUNCH(hipError_t, facet_hip_refuse(), stream, object, size, call)

#endif
