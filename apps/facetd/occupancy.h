/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The holders of the node's devices at one moment: allocation maps (facet/allocation.h) made of a node document, the
 * reservations, and the vGPUs' parts.
 *
 * Owns: the conversion of the document's slots and devices into places, and the treatment of a reservation whose device
 * is missing, in whole or in part.
 * Never: remembers anything: it is made anew for each decision, so that a decision after a restart is the same.
 *
 * Thread rule: one thread's at a time.
 */
#ifndef FACETD_OCCUPANCY_H
#define FACETD_OCCUPANCY_H

#include <facet/spec.h>

#include "reservation.h"

struct facet_maps_refusal;
struct occupancy; /* opaque */

/* `spec` is borrowed, and must outlive the occupancy. `strategy` is that of the request which will be planned. */
enum facet_status occupancy_open(const struct facet_spec *spec, uint32_t strategy, struct occupancy **ret_occupancy,
                                 struct facet_error *error);
void occupancy_close(struct occupancy *occupancy); /* NULL is allowed */

/*
 * Takes the parts of a reservation as far as they exist: a missing one is explained in the part's `trouble`, and its
 * present place is in its `facet_id`. Call with older reservations first: of a place that became smaller the first one
 * gets the rest.
 */
enum facet_status occupancy_hold(struct occupancy *occupancy, struct reservation *reservation,
                                 struct facet_error *error);

/*
 * Takes a vGPU's part of a device or partition that no reservation covers; at most the free rest. Takes nothing when
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
