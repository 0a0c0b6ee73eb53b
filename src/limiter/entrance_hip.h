/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs enter a vGPU of an AMD GPU: our library, preloaded and found by its name, comes before the HIP runtime
 * (ADR 20).
 *
 * Owns: the test for devices of AMD, the path of the library, and the values of the environment variables, for `facet
 * run` and for the configurations of containers.
 * Never: changes the environment of the process that asks.
 */
#ifndef FACET_LIMITER_ENTRANCE_HIP_H
#define FACET_LIMITER_ENTRANCE_HIP_H

#include <stdbool.h>

#include <facet/error.h>

#include "base/paths.h"

#define FACET_ENTRANCE_HIP_PRELOAD "LD_PRELOAD"
#define FACET_ENTRANCE_HIP_SEARCH  "LD_LIBRARY_PATH"
#define FACET_ENTRANCE_HIP_VISIBLE "ROCR_VISIBLE_DEVICES"
#define FACET_ENTRANCE_HIP_INDICES "HIP_VISIBLE_DEVICES" /* indices among the devices that the variable above shows */

struct facet_entrance_hip {
    char folder[FACET_PATH_SIZE];       /* for FACET_ENTRANCE_HIP_SEARCH */
    char preload[FACET_PATH_SIZE + 32]; /* the library: for FACET_ENTRANCE_HIP_PRELOAD */
};

/* Whether a device's address is that of an AMD GPU: "amd-" and the 16 digits of its uuid. */
bool facet_entrance_is_hip(const char *address);

/* The device in FACET_ENTRANCE_HIP_VISIBLE: "GPU-" and the same digits. Writes at most `size` bytes. */
void facet_entrance_hip_uuid(const char *address, char *ret_uuid, size_t size);

/*
 * Finds the library. Errors: FACET_NOT_FOUND: it is missing where Facet installs it, so a program would run without
 * limits; FACET_UNSUPPORTED: the loader would take its path for several paths.
 */
enum facet_status facet_entrance_hip_find(struct facet_entrance_hip *ret_entrance, struct facet_error *error);

#endif
