/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: what ends a capture without its end: its stream or context goes. Never: is called while the helper may ask. */
#ifndef FACET_CUDA_CAPTURE_H
#define FACET_CUDA_CAPTURE_H

#include "vendor/cuda/execution.h"

void facet_cuda_capture_stream_ends(CUstream stream);
void facet_cuda_capture_context_ends(CUcontext context);

/* In the child of fork(). */
void facet_cuda_captures_forked(void);

#endif
