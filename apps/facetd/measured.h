/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node and its devices as they were measured, sample by sample (facet/measurement.h).
 *
 * Owns: a subject for the node and for each device, with its last samples; a sample is taken on request.
 * Never: takes a sample by itself: rates and utilizations are those between two calls.
 *
 * Thread rule: measured_look() from any thread.
 */
#ifndef FACETD_MEASURED_H
#define FACETD_MEASURED_H

#include "sessions.h"

struct measured; /* opaque */

/* `devices` and `sessions` must outlive it. */
enum facet_status measured_open(const struct facet_device_table *devices, struct sessions *sessions,
                                struct measured **ret_measured, struct facet_error *error);
void measured_close(struct measured *measured); /* NULL is allowed */

/* Takes one sample of all subjects, and returns it as JSON, which the caller frees. */
enum facet_status measured_look(struct measured *measured, char **ret_text, struct facet_error *error);

#endif
