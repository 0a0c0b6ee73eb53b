/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: an owner's belief about its segment, and the file beside the segment in which that outlives the owner.
 * Never: maps that file, or fails where the disk is full: it is written as soon as there is room.
 *
 * The file is written in place by one call of less than a page, so a killed owner has written all of it or nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "limiter/owner_inside.h"

#define BELIEF_MAGIC UINT64_C(0x30464c4542434146) /* "FACBELF0" */

/* A request that is about to be refused is counted for a moment: an impossible amount of memory is read again. */
#define TRIES 10

struct record {
    uint64_t magic, size;
    struct facet_belief belief;
};

/* Without the file, the folder was made by a version that had none, or the file was deleted. */
static void read_kept(struct facet_owner *owner)
{
    struct record record;

    if (pread(owner->belief_fd, &record, sizeof record, 0) != (ssize_t)sizeof record || record.magic != BELIEF_MAGIC ||
        record.size != sizeof record)
        return;
    owner->belief = record.belief;
    owner->kept = record.belief;
    if (owner->belief.memory_most > FACET_BELIEF_MOST) /* damaged: the quota that is set next is all that is known */
        owner->belief.memory_most = 0;
    if (owner->belief.at_ns > facet_clock_now_ns()) { /* the clock began anew: the machine was restarted */
        owner->belief.begun = 0;
        owner->belief.at_ns = 0;
    }
}

static enum facet_status open_file(struct facet_owner *owner, int dir_fd, struct facet_error *error)
{
    struct stat status;

    owner->belief_fd = openat(dir_fd, FACET_BELIEF_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (owner->belief_fd < 0 && errno != ELOOP && errno != EISDIR)
        return facet_error_errno(error, errno, "opening segment file '%s'", FACET_BELIEF_FILE);
    if (owner->belief_fd < 0 || fstat(owner->belief_fd, &status) < 0 || !S_ISREG(status.st_mode))
        return facet_error_set(error, FACET_CORRUPT, "segment file '%s' is not a regular file", FACET_BELIEF_FILE);
    return FACET_OK;
}

/* A newer time of the last reading alone is not worth a write: with the older one, the bounds are only wider. */
static void keep_belief(struct facet_owner *owner)
{
    struct record record = {.magic = BELIEF_MAGIC, .size = sizeof record, .belief = owner->belief};

    owner->kept.at_ns = owner->belief.at_ns;
    if (owner->belief_fd < 0 || memcmp(&owner->kept, &owner->belief, sizeof owner->kept) == 0)
        return;
    if (pwrite(owner->belief_fd, &record, sizeof record, 0) == (ssize_t)sizeof record)
        owner->kept = owner->belief;
}

/* A moment later than now is possible: the clock begins anew with the machine. */
static bool time_is_possible(const struct facet_device_time *time, uint64_t measured_ns)
{
    return time->at_ns <= FACET_BELIEF_MOST && time->measured_ns <= measured_ns &&
           time->settled_ns <= time->measured_ns && time->published_ns <= time->settled_ns;
}

/*
 * A settled time that cannot be was damaged while no owner lived, or the measured time was. What it was is lost: it
 * begins anew, and the vGPU's device time is never believed again.
 */
static void doubt_impossible_time(struct facet_owner *owner)
{
    const struct facet_device_time time = facet_owner_device_time(owner); /* before the measured time, which grows */
    struct facet_usage_totals totals;

    facet_owner_totals(owner, &totals);
    if (time_is_possible(&time, totals.busy_ns))
        return;
    facet_owner_set_device_time(owner, &(struct facet_device_time){0});
    owner->belief.doubted |= FACET_BELIEVED_BUSY;
    keep_belief(owner);
}

/*
 * The quota in `policy` is not asked: it may have been damaged while no owner lived, and every quota that was set is in
 * the file.
 */
enum facet_status facet_owner_belief_open(struct facet_owner *owner, int dir_fd, struct facet_error *error)
{
    struct facet_usage_totals totals;
    enum facet_status status = open_file(owner, dir_fd, error);

    if (status != FACET_OK)
        return status;
    read_kept(owner);
    doubt_impossible_time(owner);
    if (owner->belief.begun)
        return FACET_OK;
    facet_owner_totals(owner, &totals);
    if (totals.slots_used && owner->policy->device.memory_bytes <= FACET_BELIEF_MOST) /* its largest quota is unknown */
        facet_owner_belief_memory(owner, owner->policy->device.memory_bytes);
    facet_owner_watch(owner, &totals, facet_clock_now_ns());
    return FACET_OK;
}

void facet_owner_belief_close(struct facet_owner *owner)
{
    if (owner->belief_fd >= 0)
        close(owner->belief_fd);
}

/* Written at once: an owner that is killed before its next reading has let processes hold that much. */
void facet_owner_belief_memory(struct facet_owner *owner, uint64_t bytes)
{
    if (bytes <= owner->belief.memory_most)
        return;
    owner->belief.memory_most = bytes;
    keep_belief(owner);
}

static uint32_t check_totals(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    uint32_t believed = facet_belief_look(&owner->belief, totals, owner->belief.memory_most, now_ns);

    keep_belief(owner);
    return believed;
}

void facet_owner_watch(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    (void)check_totals(owner, totals, now_ns);
}

uint32_t facet_owner_believed_totals(struct facet_owner *owner, struct facet_usage_totals *ret_totals)
{
    uint32_t believed = 0;

    for (int tries = TRIES; tries > 0 && !(believed & FACET_BELIEVED_MEMORY); tries--) {
        facet_owner_totals(owner, ret_totals);
        believed = check_totals(owner, ret_totals, facet_clock_now_ns());
    }
    return facet_owner_damaged(owner) ? 0 : believed;
}
