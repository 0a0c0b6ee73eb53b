/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request for a reservation (docs/api.md, RESERVE).
 *
 * Owns: the members, their types and ranges, and the refusal of everything else; the names of affinities.
 * Never: knows which slots or devices there are.
 *
 * Thread rule: pure functions, callable from any thread.
 */
#ifndef FACETD_REQUEST_RESERVATION_H
#define FACETD_REQUEST_RESERVATION_H

#include "reservation.h"

const char *affinity_name(uint32_t affinity); /* "none"; NULL when unknown */

/* `ret_wanted` has items, strategy, affinity and name; the caller clears it. FACET_INVALID_ARGUMENT,
 * FACET_OUT_OF_RANGE name the member. */
enum facet_status request_parse_reservation(const char *body, size_t size, struct reservation *ret_wanted,
                                            bool *ret_dry_run, struct facet_error *error);

#endif
