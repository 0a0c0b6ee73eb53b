/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be done about launches where a context ends.
 *
 * Owns: the two steps around the driver's call.
 * Never: calls the driver in them.
 */
#ifndef FACET_CUDA_ENDS_H
#define FACET_CUDA_ENDS_H

#include "vendor/cuda/driver.h"

/* Before the call that may end a context: the helper asks for nothing until the second step. */
void facet_cuda_execution_hold(void);

/* Behind it: `context` is no more (NULL: it still is). */
void facet_cuda_execution_ended(CUcontext context);

#endif
