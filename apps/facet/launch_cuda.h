/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program enters a vGPU of an NVIDIA GPU: our library of the driver's name is what it finds (ADR 19).
 *
 * Owns: which devices that concerns, where our library lies, and the variables.
 * Never: sets any of them for another device.
 */
#ifndef FACET_LAUNCH_CUDA_H
#define FACET_LAUNCH_CUDA_H

#include <stdbool.h>

#include <facet/error.h>

#include "base/paths.h"

struct launch_cuda {
    char address[256];            /* the GPU's or MIG instance's UUID; empty: no CUDA device, nothing is set */
    char folder[FACET_PATH_SIZE]; /* where libcuda.so.1 of ours is */
};

/*
 * What the vGPU with the segment folder `segment` needs. Refuses when our library is not where it belongs: the program
 * would run without limits.
 */
enum facet_status launch_cuda_find(const char *segment, struct launch_cuda *ret_cuda, struct facet_error *error);

/* In the child, before exec: what was set there stays, behind ours. False with errno when memory is out. */
bool launch_cuda_enter(const struct launch_cuda *cuda);

#endif
