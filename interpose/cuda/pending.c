/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what execution/ will define. Never: outlives it. */
#include "process.h"

void facet_cuda_track_before_fork(void)
{
}

void facet_cuda_track_after_fork(void)
{
}

void facet_cuda_track_forked(void)
{
}
