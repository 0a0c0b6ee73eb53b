/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The expected duration of a launch: a moving average of the durations of similar launches.
 *
 * Owns: a fixed table of averages, one per key.
 * Never: locks or allocates. Keys with the same index displace each other. A torn entry costs one wrong estimate.
 */
#ifndef FACET_INTERPOSE_ESTIMATE_H
#define FACET_INTERPOSE_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

/* The key of launches of one object (kernel, command buffer) with one size. Never 0. */
uint64_t facet_estimate_key(const void *object, uint64_t size);

/* The key of transfers with the same power of two of bytes. Never 0. */
uint64_t facet_estimate_transfer_key(uint64_t bytes);

/* The average, or 0 when nothing is known. */
uint64_t facet_estimate_get(uint64_t key);
void facet_estimate_learn(uint64_t key, uint64_t measured_ns);

#endif
