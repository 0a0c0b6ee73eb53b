/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Multi-Process Service (MPS): the share of this process, and contexts on a part of that share.
 *
 * Owns: asking the control program of MPS, which is the documented way to its daemon.
 * Never: changes the daemon's settings, because it serves other processes, too, or waits for the program for more than
 * two seconds.
 */
#ifndef FACET_CUDA_MPS_H
#define FACET_CUDA_MPS_H

#include <stdint.h>

#include <facet/error.h>

#include "driver.h"

/* Whether contexts with execution affinity can be made: whether this process is a client of MPS. */
bool cuda_mps_is_used(const struct cuda_driver *driver, CUdevice ordinal);

/*
 * The number of a device's `all` multiprocessors that MPS gives this process, by the smaller of two percentages: the
 * daemon's default for new servers, and CUDA_MPS_ACTIVE_THREAD_PERCENTAGE of this process. Without either it is `all`.
 */
uint32_t cuda_mps_units(uint32_t all);

/* A context on `units` multiprocessors, rounded up to the device's steps. */
enum facet_status cuda_mps_context(const struct cuda_driver *driver, CUdevice ordinal, uint32_t units,
                                   CUcontext *ret_context, uint32_t *ret_units, struct facet_error *error);

#endif
