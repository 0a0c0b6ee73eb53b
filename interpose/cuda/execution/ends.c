/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what ends.h says. Never: lets what was in flight in a context that ended be counted for ever. */
#include "ends.h"

#include "capture.h"
#include "track.h"

void facet_cuda_execution_hold(void)
{
    facet_cuda_track_hold();
}

void facet_cuda_execution_ended(CUcontext context)
{
    if (context) {
        facet_cuda_track_context_ends(context);
        facet_cuda_capture_context_ends(context);
        facet_cuda_lane_forget();
    }
    facet_cuda_track_release();
}
