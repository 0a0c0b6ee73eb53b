/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits that a request means on a device: the rules of the isolation modes.
 *
 * Owns: the limits of each mode, their defaults, the limits that may change later, the modes that may share a device.
 * Never: touches a device, the database or a segment.
 *
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACETD_PLAN_H
#define FACETD_PLAN_H

#include "device/table.h"
#include "request.h"

/* Whether a mode's vGPU has a part of the device to itself, given by the provider. */
static inline bool mode_is_spatial(uint32_t mode)
{
    return mode == FACET_MODE_HARD || mode == FACET_MODE_PARTITIONED;
}

/* Whether the scheduler shares the device's time out to a mode's vGPUs; the others are admitted as they come. */
static inline bool mode_is_timed(uint32_t mode)
{
    return mode == FACET_MODE_SOFT;
}

/*
 * The limits that `request` means on `device`. Hard: memory and compute are both set, each from the other when left
 * out. Partitioned: the requested minimum, 0 when there is none; the partition decides. Errors: FACET_UNSUPPORTED
 * (mode), FACET_INVALID_ARGUMENT (a limit that the mode does not take, or lacks), FACET_OUT_OF_RANGE.
 */
enum facet_status plan_limits(const struct request *request, const struct facet_device_record *device,
                              struct facet_limits *ret_limits, struct facet_error *error);

/* The limits of a vGPU after `request`. FACET_BAD_STATE for limits that its mode fixes at creation. */
enum facet_status plan_change(const struct request *request, const struct facet_device_record *device,
                              const struct facet_limits *before, struct facet_limits *ret_limits,
                              struct facet_error *error);

/* Whether vGPUs of both modes may be on the device at the same time. */
bool plan_modes_mix(const struct facet_device_record *device, uint32_t a, uint32_t b);

#endif
