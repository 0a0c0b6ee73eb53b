/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program enters vGPUs of NVIDIA GPUs (limiter/entrance_cuda.h).
 *
 * Owns: the choice of the devices that the program sees, and setting the variables in its process.
 * Never: sets them when no vGPU is of such a GPU.
 */
#ifndef FACET_LAUNCH_CUDA_H
#define FACET_LAUNCH_CUDA_H

#include <stdbool.h>

#include <facet/error.h>

#include "limiter/entrance_cuda.h"

struct launch_cuda {
    char addresses[4096]; /* UUIDs of GPUs and MIG instances, with ',' between them; empty: none, nothing is set */
    struct facet_entrance_cuda entrance;
};

/*
 * Finds the libraries and devices for the vGPUs whose segment folders `segments` lists, with ':' between them. Refuses
 * GPUs and other devices in one program, a GPU that is named twice, a vendor's library that is named and missing, and a
 * missing library of Facet's: the program would run without limits.
 */
enum facet_status launch_cuda_find(const char *segments, struct launch_cuda *ret_cuda, struct facet_error *error);

/* Called in the child, before exec. Puts values in front of those that variables have. False: no memory (errno). */
bool launch_cuda_enter(const struct launch_cuda *cuda);

#endif
