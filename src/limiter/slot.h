/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: taking, giving back and reclaiming slots through open-file-description locks.
 * Never: is used outside this room.
 */
#ifndef FACET_LIMITER_SLOT_H
#define FACET_LIMITER_SLOT_H

#include <sys/types.h>

#include "limiter/segment.h"

/* Locks one byte of the file behind `fd`; false when another description holds it. */
bool facet_slot_lock(int fd, off_t offset);
void facet_slot_unlock(int fd, off_t offset);

/* Whether any other description holds a lock on bytes [offset, offset + length). */
bool facet_slot_locked(int fd, off_t offset, off_t length);

/* The identity of a slot's process, for people to read. */
struct facet_slot_identity {
    uint32_t pid;
    uint64_t start_ticks; /* 0 when it cannot be read */
    char comm[16];
};

void facet_slot_identify(pid_t pid, struct facet_slot_identity *ret_identity);

/*
 * Takes slot `index` for `identity` if it is free or its owner dead; a dead owner is charged as by
 * facet_slot_reclaim(). `fd` must not hold the slot's lock already. On failure `ret_errno` is 0 when a live process
 * owns the slot, else why there is no memory for it; it may be NULL.
 */
bool facet_slot_take(const struct facet_policy *policy, struct facet_usage *usage, int fd, uint32_t index,
                     const struct facet_slot_identity *identity, int *ret_errno);

/* Takes a free slot or a dead process's for the caller. The lock stays with `fd`. Errors name the folder `dir`. */
enum facet_status facet_slot_claim(const struct facet_policy *policy, struct facet_usage *usage, int fd,
                                   const char *dir, struct facet_slot **ret_slot, struct facet_error *error);

/* Since when the device time of the work in flight is unreported; 0: nothing is in flight. */
uint64_t facet_slot_unsettled_since_ns(const struct facet_slot *slot);

/*
 * Announces the device time that will be added to busy_ns: facet_slot_unsettled_since_ns() becomes later by as much.
 * Called before the addition, so that a process that is killed before the launch leaves flight is not charged twice for
 * this time. At most this one report is lost.
 */
void facet_slot_add_reported(struct facet_slot *slot, uint64_t busy_ns);

/* Clears the owner's part of a slot. The caller holds the slot's lock. */
void facet_slot_clear(struct facet_slot *slot);

/*
 * Clears the slots of dead processes, and charges the vGPU for their last, unreported device time; returns how many.
 * `fd` must be a description that owns no slot and that no other thread uses: a description never conflicts with
 * itself, so locks on a shared description would not exclude each other.
 */
unsigned facet_slot_reclaim(const struct facet_policy *policy, struct facet_usage *usage, int fd);

/*
 * Like facet_slot_reclaim(), for `count` slots from `first` on. Each owned slot costs a system call, which takes longer
 * the more owned slots there are.
 */
unsigned facet_slot_reclaim_some(const struct facet_policy *policy, struct facet_usage *usage, int fd, uint32_t first,
                                 uint32_t count);

#endif
