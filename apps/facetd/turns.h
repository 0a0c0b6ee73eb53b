/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turns of each kind of device.
 *
 * Owns: choosing between the policy's configurations, and applying the settings to them. Never: takes a turn itself.
 */
#ifndef FACETD_TURNS_H
#define FACETD_TURNS_H

#include <facet/error.h>

#include "compute/fair.h"

struct turns {
    struct facet_fair_config queue, others; /* of GPUs, and of all other devices */
};

/* Takes the policy's own configurations, and applies the settings. */
enum facet_status turns_configure(struct turns *ret_turns, struct facet_error *error);

const struct facet_fair_config *turns_of(const struct turns *turns, const char *device_id);

#endif
