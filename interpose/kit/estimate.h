/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a launch will probably take: a moving average of what like launches took.
 *
 * Owns: a fixed table of averages, one per key.
 * Never: locks or allocates. Two keys in one place displace each other, and a torn entry costs one wrong guess.
 */
#ifndef FACET_INTERPOSE_ESTIMATE_H
#define FACET_INTERPOSE_ESTIMATE_H

#include <stddef.h>
#include <stdint.h>

/* Launches of one object (kernel, command buffer) with one size are alike. Never 0. */
uint64_t facet_estimate_key(const void *object, uint64_t size);

/* Transfers of one power of two of bytes are alike. Never 0. */
uint64_t facet_estimate_transfer_key(uint64_t bytes);

/* The average, or 0 when nothing is known. */
uint64_t facet_estimate_get(uint64_t key);
void facet_estimate_learn(uint64_t key, uint64_t measured_ns);

#endif
