/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A vGPU segment for tests, without a daemon.
 *
 * Owns: its folder, its owner's handle, and the heartbeat, which only test_segment_beat() renews.
 * Never: is installed.
 */
#ifndef FACET_TEST_SEGMENT_H
#define FACET_TEST_SEGMENT_H

#include "limiter/owner.h"

struct test_segment {
    char root[64], dir[96], lock_path[96];
    struct facet_owner *owner;
    int folder; /* a descriptor, whose lock keeps `root` from being cleaned up */
};

/* Makes a segment for the device at `address`, with the gate open. On failure, prints the reason and returns false. */
bool test_segment_make(struct test_segment *segment, const char *address, uint64_t memory_bytes);
void test_segment_beat(struct test_segment *segment);
void test_segment_remove(struct test_segment *segment);

struct facet_usage_totals test_segment_totals(const struct test_segment *segment);

#endif
