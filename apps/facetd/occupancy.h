/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The holders of the node's devices at one moment: allocation maps (facet/allocation.h) made of a node document, the
 * reservations, and the vGPUs' parts.
 *
 * Owns: the conversion of the document's slots and devices into places, and the treatment of a reservation whose device
 * is missing, in whole or in part.
 * Never: outlives a decision: it is made anew for each, so that a restart changes no decision.
 *
 * Thread rule: one thread at a time.
 */
#ifndef FACETD_OCCUPANCY_H
#define FACETD_OCCUPANCY_H

#include <facet/spec.h>

#include "reservation.h"

struct facet_maps_refusal;
struct occupancy; /* opaque */

/* `spec` is borrowed, and must outlive the occupancy. `strategy` is that of the request to be planned. */
enum facet_status occupancy_open(const struct facet_spec *spec, uint32_t strategy, struct occupancy **ret_occupancy,
                                 struct facet_error *error);
void occupancy_close(struct occupancy *occupancy); /* NULL is allowed */

/*
 * Takes the parts of a reservation as far as their devices exist. Sets each part's `facet_id` to its present device,
 * and the `trouble` of a missing part. Call with older reservations first: when a place became smaller, the first one
 * gets what is left.
 */
enum facet_status occupancy_hold(struct occupancy *occupancy, struct reservation *reservation,
                                 struct facet_error *error);

/*
 * Takes a vGPU's part of a device or partition that no reservation covers, or as much as is free. Takes nothing when
 * the document has no such device.
 */
enum facet_status occupancy_withhold(struct occupancy *occupancy, const char *slot_device, const char *device_id,
                                     int64_t amount, struct facet_error *error);

/*
 * Grants the items of `reservation`, which become its parts. Nothing has changed after a refusal: FACET_NO_SPACE,
 * FACET_NOT_FOUND, FACET_OUT_OF_RANGE; the argument is "slots".
 */
enum facet_status occupancy_grant(struct occupancy *occupancy, struct reservation *reservation,
                                  struct facet_maps_refusal *ret_refusal, struct facet_error *error);

static inline void cleanup_occupancy(struct occupancy **occupancy)
{
    occupancy_close(*occupancy);
}
#define CLEANUP_OCCUPANCY __attribute__((cleanup(cleanup_occupancy)))

#endif
