/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: struct facet_owner, for the files of this room that implement owner.h. Never: is used outside this room. */
#ifndef FACET_LIMITER_OWNER_INSIDE_H
#define FACET_LIMITER_OWNER_INSIDE_H

#include "limiter/belief.h"
#include "limiter/owner.h"

#define FACET_RESOURCE_COUNT 2u

#define FACET_BELIEF_FILE "belief"
#define FACET_DEVICE_FILE "device"

/* The totals by which two readings tell whether a resource was used between them. */
struct facet_owner_last_totals {
    uint64_t launches, busy_ns, memory_bytes, denied;
};

struct facet_owner {
    struct facet_policy *policy;
    struct facet_usage *usage;
    int policy_fd, usage_fd, belief_fd, refused_fd;
    struct facet_belief belief, belief_in_file; /* the belief after the last reading; the belief that the file holds */
    uint64_t above_peak_since_ns, above_peak_bytes; /* since when memory is above its peak, and its sum; 0: it is not */
    uint32_t reap_from;                             /* the slot at which facet_owner_reap_some() goes on */
    struct facet_owner_last_totals last_totals;     /* as of the last tick */
    uint64_t used_ns[FACET_RESOURCE_COUNT];         /* last use, by bit of FACET_RESOURCE_*; 0 before the first tick */
};

/* owner_device.c: makes a segment of an older version, which is not in use, one of the present version. */
void facet_segment_renew(struct facet_owner *owner);

/*
 * Restores an earlier owner's belief, or begins with the present totals, and judges the settled time that the earlier
 * owner left. The owner is mapped.
 */
enum facet_status facet_owner_belief_open(struct facet_owner *owner, int dir_fd, struct facet_error *error);
void facet_owner_belief_close(struct facet_owner *owner);

/*
 * Records, also in the file, that the vGPU may hold `bytes` from now on. A smaller quota changes nothing: memory above
 * it stays held.
 */
void facet_owner_belief_raise_memory(struct facet_owner *owner, uint64_t bytes);

/*
 * Maps the usage of any segment folder, which needs no owner, and checks it. The caller unmaps `sizeof **ret_usage` and
 * closes the descriptor, which can be locked when it is `writable`.
 */
enum facet_status facet_usage_open(const char *dir, bool writable, const struct facet_usage **ret_usage, int *ret_fd,
                                   struct facet_error *error);

#endif
