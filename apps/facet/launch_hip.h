/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program enters vGPUs of AMD GPUs (limiter/entrance_hip.h).
 *
 * Owns: the choice of the devices that the program sees, and setting the variables in its process.
 * Never: sets any of them for another device.
 */
#ifndef FACET_LAUNCH_HIP_H
#define FACET_LAUNCH_HIP_H

#include <stdbool.h>

#include <facet/error.h>

#include "limiter/entrance_hip.h"

struct launch_hip {
    char uuids[1024];  /* of the GPUs, with ',' between them; empty: none, nothing is set */
    char indices[128]; /* as many numbers, from 0 on */
    struct facet_entrance_hip entrance;
};

/*
 * Finds the library and devices for the vGPUs whose segment folders `segments` lists, with ':' between them. Refuses
 * GPUs and other devices in one program, a GPU that is named twice, a vendor's library that is named and missing, and a
 * missing library of Facet's: the program would run without limits.
 */
enum facet_status launch_hip_find(const char *segments, struct launch_hip *ret_hip, struct facet_error *error);

/* Called in the child, before exec. An earlier value stays, behind the new one. False with errno when memory is out. */
bool launch_hip_enter(const struct launch_hip *hip);

#endif
