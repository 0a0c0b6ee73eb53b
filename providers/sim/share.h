/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: computing the part of a device that the limits of its workers leave.
 * Never: changes a limit.
 */
#ifndef FACET_SIM_SHARE_H
#define FACET_SIM_SHARE_H

#include "state.h"

/* Adjacent compute units. */
struct sim_run {
    uint32_t first, count;
};

/* The first run of `wanted` units, or the longest there is, that are not exclusive to a worker other than `worker`. */
struct sim_run sim_free_run(const struct sim_record *record, const struct facet_device_info *info, const char *worker,
                            uint32_t wanted);
/* Bytes reserved by limits of workers other than `worker`. */
uint64_t sim_memory_promised(const struct sim_record *record, uint32_t device, const char *worker);

#endif
