/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The algorithm of the Python original, step by step: dictionaries by name, decimals of 28 digits, a graph of all
 * devices, and copies of all maps before each request, so that they can be restored.
 *
 * Owns: a peer for the bench. Never: is shipped, tuned, or slowed down on purpose.
 */
#ifndef FACET_BENCH_NAIVE_MAPS_H
#define FACET_BENCH_NAIVE_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/allocation.h>

struct naive_node;
struct naive_grant;

struct naive_node *naive_open(const struct facet_map_config *maps, uint32_t map_count,
                              const struct facet_map_device *devices, uint32_t device_count);
void naive_close(struct naive_node *node);
struct naive_grant *naive_allocate(struct naive_node *node, const struct facet_maps_item *items, uint32_t count,
                                   uint32_t affinity);                  /* NULL: refused */
void naive_release(struct naive_node *node, struct naive_grant *grant); /* does nothing with NULL */

#endif
