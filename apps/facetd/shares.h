/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published device time of a device's vGPUs.
 *
 * Owns: settling measured time (src/compute/settle.h) after each step of the policy, keeping it in the segments, and
 * the shares of the last second. Never: locks; the scheduler calls it with the device's lock.
 */
#ifndef FACETD_SHARES_H
#define FACETD_SHARES_H

#include "compute/settle.h"
#include "limiter/owner.h"

/* Shares are measured over this many samples. */
#define SHARES_SAMPLES 10

struct shares {
    struct facet_settle settle;
    uint64_t at_ns[SHARES_SAMPLES + 1]; /* when each sample was taken, of all vGPUs at once, so that shares add up */
    uint64_t published_ns[FACET_SETTLE_CLIENTS][SHARES_SAMPLES + 1];
    uint32_t first_sample[FACET_SETTLE_CLIENTS]; /* `count` when the vGPU was added */
    uint32_t count;                              /* samples ever taken */
};

void shares_init(struct shares *shares, uint64_t now_ns);

/*
 * Adds a vGPU, with the device time in its segment, and removes it. `timed`: the policy charges it; else it may have a
 * part of the device to itself.
 */
void shares_add(struct shares *shares, uint32_t client, const struct facet_owner *owner, bool timed,
                uint32_t part_milli, uint64_t now_ns);
void shares_remove(struct shares *shares, uint32_t client);

/* Sets a vGPU's demand as it was just before the policy's step, and the sum of the policy's charges. */
void shares_look(struct shares *shares, uint32_t client, const struct facet_settle_demand *demand, uint64_t charged_ns);

/* Called after the policy's step: settles all vGPUs' time, and writes one vGPU's to its segment. */
void shares_step(struct shares *shares, uint64_t now_ns);
void shares_write_to_segment(const struct shares *shares, uint32_t client, struct facet_owner *owner);

/* Publishes settled time between two steps, as time passes. */
void shares_publish(struct shares *shares, uint64_t now_ns);

/* Takes a sample; called at even intervals. */
void shares_sample(struct shares *shares, uint64_t now_ns);

uint64_t shares_device_time_ns(const struct shares *shares, uint32_t client);

/* The share of the device's time over the samples; false for a vGPU that was in fewer than two. */
bool shares_of(const struct shares *shares, uint32_t client, uint32_t *ret_milli);

#endif
