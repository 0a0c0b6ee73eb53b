/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs enter a vGPU of an NVIDIA GPU: programs find our libraries, which have the names of NVIDIA's driver and
 * of its management library (ADR 19).
 *
 * Owns: the test for devices of NVIDIA, the paths of the libraries, and the values of the environment variables, for
 * `facet run` and for the configurations of containers. Never: changes the environment of the process that asks.
 */
#ifndef FACET_LIMITER_ENTRANCE_CUDA_H
#define FACET_LIMITER_ENTRANCE_CUDA_H

#include <stdbool.h>

#include <facet/error.h>

#include "base/paths.h"

#define FACET_ENTRANCE_CUDA_PRELOAD "LD_PRELOAD"
#define FACET_ENTRANCE_CUDA_SEARCH  "LD_LIBRARY_PATH"
#define FACET_ENTRANCE_CUDA_VISIBLE "CUDA_VISIBLE_DEVICES"

struct facet_entrance_cuda {
    char folder[FACET_PATH_SIZE];           /* the folder of the libraries, for FACET_ENTRANCE_CUDA_SEARCH */
    char preload[2 * FACET_PATH_SIZE + 64]; /* the libraries, with ':' between them: for FACET_ENTRANCE_CUDA_PRELOAD */
};

/* Whether a device's address is that of an NVIDIA GPU or of a part of one. */
bool facet_entrance_is_cuda(const char *address);

/*
 * Finds the libraries. Errors: FACET_NOT_FOUND: they are missing where Facet installs them, so a program would run
 * without limits; FACET_UNSUPPORTED: the loader would take their path for several paths.
 */
enum facet_status facet_entrance_cuda_find(struct facet_entrance_cuda *ret_entrance, struct facet_error *error);

#endif
