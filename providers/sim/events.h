/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: facet_device_ops.events, for the device table. Never: declares the events themselves (core.h). */
#ifndef FACET_SIM_EVENTS_H
#define FACET_SIM_EVENTS_H

#include "sim.h"

enum facet_status sim_events(struct facet_provider_instance *instance, uint64_t after, void *items, uint32_t item_size,
                             uint32_t capacity, uint32_t *ret_count, struct facet_error *error);

#endif
