/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program enters vGPUs of AMD GPUs (limiter/entrance_hip.h).
 *
 * Owns: the choice of the devices that the program sees, and setting the variables in its process.
 * Never: sets them when no vGPU is of such a GPU.
 */
#ifndef FACET_LAUNCH_HIP_H
#define FACET_LAUNCH_HIP_H

#include <stdbool.h>

#include <facet/error.h>

#include "limiter/entrance_hip.h"

struct launch_hip {
    char uuids[1024];  /* of the GPUs, with ',' between them; empty: none, nothing is set */
    char indices[128]; /* one number for each UUID, counted from 0 */
    struct facet_entrance_hip entrance;
};

/*
 * Finds the library and devices for the vGPUs whose segment folders `segments` lists, with ':' between them. Refuses
 * GPUs and other devices in one program, a GPU that is named twice, a vendor's library that is named and missing, and a
 * missing library of Facet's: the program would run without limits.
 */
enum facet_status launch_hip_find(const char *segments, struct launch_hip *ret_hip, struct facet_error *error);

/* Called in the child, before exec. Puts values in front of those that variables have. False: no memory (errno). */
bool launch_hip_enter(const struct launch_hip *hip);

#endif
