/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of the node is whose at one moment: allocation maps (facet/allocation.h) made of a node document, of the
 * reservations that there are, and of what vGPUs have.
 *
 * Owns: how slots and devices of the document become places, and what becomes of a reservation whose device is not
 * there, or not all of it.
 * Never: remembers anything: it is made anew for each decision, so that a decision after a restart is the same.
 *
 * Thread rule: one thread's at a time.
 */
#ifndef FACETD_LEDGER_H
#define FACETD_LEDGER_H

#include <facet/spec.h>

#include "reservation.h"

struct ledger; /* opaque */

/* `spec` is borrowed, and must outlive the ledger. `strategy` is that of the request which will be planned. */
enum facet_status ledger_open(const struct facet_spec *spec, uint32_t strategy, struct ledger **ret_ledger,
                              struct facet_error *error);
void ledger_close(struct ledger *ledger); /* NULL is allowed */

/*
 * Takes what a reservation has, whatever there is of it: what is not there now is said in the part's `trouble`. Where
 * it is now, in its `facet_id`. Older ones first: of a place that became smaller the first has what is left.
 */
enum facet_status ledger_hold(struct ledger *ledger, struct reservation *reservation, struct facet_error *error);

/* What a vGPU has of a device or partition, that no reservation covers; at most what is left. Nothing when the document
 * has no such device. */
enum facet_status ledger_withhold(struct ledger *ledger, const char *slot_device, const char *device_id, int64_t amount,
                                  struct facet_error *error);

/* Grants what the items of `reservation` ask for: its parts. Nothing has changed after a refusal: FACET_NO_SPACE,
 * FACET_NOT_FOUND, FACET_OUT_OF_RANGE; the argument is "slots". */
enum facet_status ledger_grant(struct ledger *ledger, struct reservation *reservation, struct facet_error *error);

static inline void cleanup_ledger(struct ledger **ledger)
{
    ledger_close(*ledger);
}
#define CLEANUP_LEDGER __attribute__((cleanup(cleanup_ledger)))

#endif
