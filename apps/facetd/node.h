/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node document as the daemon knows it now: the device table, and its live providers.
 *
 * Owns: reading it from the live providers.
 * Never: fails when a provider is lost; its devices are then listed as unavailable.
 *
 * Thread rule: any thread. Calls providers, each with a deadline.
 */
#ifndef FACETD_NODE_H
#define FACETD_NODE_H

#include <facet/spec.h>

#include "sessions.h"

enum facet_status node_describe(const struct facet_device_table *devices, struct sessions *sessions,
                                struct facet_spec **ret_spec, struct facet_error *error);

static inline void cleanup_spec(struct facet_spec **spec)
{
    facet_spec_destroy(*spec);
}
#define CLEANUP_SPEC __attribute__((cleanup(cleanup_spec)))

#endif
