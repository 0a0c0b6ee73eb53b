/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the segments of oversubscribed vGPUs with the policy of their turns (src/compute/residence.h).
 *
 * Owns: reading a segment's demand, and telling a vGPU how much of its memory may be on the device.
 * Never: decides, or takes a lock: the caller, a device's scheduler, holds the device's lock.
 */
#ifndef FACETD_RESIDENCE_H
#define FACETD_RESIDENCE_H

#include "compute/residence.h"
#include "limiter/owner.h"

/* Reads the policy's settings. */
enum facet_status residence_configure(struct facet_residence_config *ret_config, struct facet_error *error);

/* Puts an oversubscribed vGPU under the policy. Returns its index, or -1, with which the other functions do nothing. */
int residence_add(struct facet_residence *residence, const struct facet_owner *owner,
                  const struct facet_limits *limits);
void residence_remove(struct facet_residence *residence, int index);
void residence_set_limits(struct facet_residence *residence, int index, const struct facet_limits *limits);

/* residence_look() is called before each step of the policy, residence_publish_limit() after it. */
void residence_look(struct facet_residence *residence, int index, const struct facet_usage_totals *totals, bool frozen);
void residence_publish_limit(const struct facet_residence *residence, int index, struct facet_owner *owner);

/* Sets *stuck when the vGPU gives no memory back; logs a change. */
void residence_log_stuck(const struct facet_residence *residence, int index, const char *vgpu_id, const char *device_id,
                         bool *stuck);

#endif
