/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: an owner's belief about its segment, and the file in the segment's folder by which the belief outlives the
 * owner.
 * Never: maps that file, or fails where the disk is full: the file is written as soon as there is room.
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

/* A request that is about to be refused counts for a moment, so a sum above the quota is read again. */
#define READ_TRIES 10

struct record {
    uint64_t magic, size;
    struct facet_belief belief;
};

/* Records of earlier releases end before the peak. */
#define RECORD_SIZE_MIN offsetof(struct record, belief.peak_bytes)

static bool record_is_valid(const struct record *record, ssize_t size)
{
    return size >= (ssize_t)RECORD_SIZE_MIN && record->magic == BELIEF_MAGIC &&
           (record->size == RECORD_SIZE_MIN || record->size == sizeof *record) && size == (ssize_t)record->size &&
           record->belief.begun <= 1 && !(record->belief.doubted & ~FACET_BELIEVED_LASTING);
}

/*
 * An empty file means that the disk had no room for the record. A damaged file no longer says which totals were
 * doubted, so all lasting ones are doubted.
 */
static void read_belief_file(struct facet_owner *owner)
{
    struct record record = {0};
    ssize_t size = owner->belief_fd < 0 ? -1 : pread(owner->belief_fd, &record, sizeof record, 0);

    if (size == 0)
        return;
    if (!record_is_valid(&record, size)) {
        owner->belief.doubted = FACET_BELIEVED_LASTING;
        return;
    }
    owner->belief = record.belief;
    owner->belief_in_file = record.belief;
    if (owner->belief.memory_max_bytes > FACET_BELIEVABLE_MAX) /* damaged: only the quota that is set next is known */
        owner->belief.memory_max_bytes = 0;
    if (owner->belief.read_at_ns > facet_clock_now_ns()) { /* the clock began anew: the machine was restarted */
        owner->belief.begun = 0;
        owner->belief.read_at_ns = 0;
    }
}

/*
 * Anything other than a regular file, a link included, is damage. The vGPU goes on without the file: its processes, and
 * the memory that they hold, are in `usage`.
 */
static enum facet_status open_file(struct facet_owner *owner, int dir_fd, struct facet_error *error)
{
    struct stat status;

    /* The file is made with the folder: if it is missing although a process was in the vGPU, it was deleted. */
    if (faccessat(dir_fd, FACET_BELIEF_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
        atomic_load(&owner->usage->slots_used))
        owner->belief.doubted = FACET_BELIEVED_LASTING;
    owner->belief_fd = openat(dir_fd, FACET_BELIEF_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (owner->belief_fd < 0 && errno != ELOOP && errno != EISDIR && errno != ENXIO)
        return facet_error_errno(error, errno, "opening segment file '%s'", FACET_BELIEF_FILE);
    if (owner->belief_fd >= 0 && (fstat(owner->belief_fd, &status) < 0 || !S_ISREG(status.st_mode))) {
        close(owner->belief_fd);
        owner->belief_fd = -1;
    }
    return FACET_OK;
}

/* A newer time of the last reading alone is not worth a write: with the older one, the bounds are only wider. */
static void write_belief_file(struct facet_owner *owner)
{
    struct record record = {.magic = BELIEF_MAGIC, .size = sizeof record, .belief = owner->belief};

    owner->belief_in_file.read_at_ns = owner->belief.read_at_ns;
    if (owner->belief_fd < 0 || memcmp(&owner->belief_in_file, &owner->belief, sizeof owner->belief_in_file) == 0)
        return;
    if (pwrite(owner->belief_fd, &record, sizeof record, 0) == (ssize_t)sizeof record)
        owner->belief_in_file = owner->belief;
}

/* A settlement later than now is possible: the clock begins anew when the machine starts. */
static bool time_is_possible(const struct facet_device_time *time, uint64_t measured_ns)
{
    return time->at_ns <= FACET_BELIEVABLE_MAX && time->measured_ns <= measured_ns &&
           time->settled_ns <= time->measured_ns && time->published_ns <= time->settled_ns;
}

/*
 * An impossible settled time shows that this time or the measured time was damaged while no owner lived. The true value
 * is lost: the settled time begins anew, and the vGPU's device time is never believed again.
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
    write_belief_file(owner);
}

/*
 * Does not read the quota in `policy`: it may have been damaged while no owner lived, and the file has the largest
 * quota ever set.
 */
enum facet_status facet_owner_belief_open(struct facet_owner *owner, int dir_fd, struct facet_error *error)
{
    struct facet_usage_totals totals;
    enum facet_status status = open_file(owner, dir_fd, error);

    if (status != FACET_OK)
        return status;
    read_belief_file(owner);
    doubt_impossible_time(owner);
    if (owner->belief.begun)
        return FACET_OK;
    facet_owner_totals(owner, &totals);
    if (totals.slots_used &&
        owner->policy->device.memory_bytes <= FACET_BELIEVABLE_MAX) /* the vGPU's largest quota is unknown */
        facet_owner_belief_raise_memory(owner, owner->policy->device.memory_bytes);
    facet_owner_check_totals(owner, &totals, facet_clock_now_ns());
    return FACET_OK;
}

void facet_owner_belief_close(struct facet_owner *owner)
{
    if (owner->belief_fd >= 0)
        close(owner->belief_fd);
}

/* Writes the file at once: from now on processes may hold that much, even if the owner is killed before it reads. */
void facet_owner_belief_raise_memory(struct facet_owner *owner, uint64_t bytes)
{
    if (bytes <= owner->belief.memory_max_bytes)
        return;
    owner->belief.memory_max_bytes = bytes;
    write_belief_file(owner);
}

/* A process that was given memory raises the peak at once. If memory is above the peak for longer, memory or peak is
 * damaged. */
#define ABOVE_PEAK_MAX_NS (FACET_NS_PER_S)

static void note_memory_above_peak(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    if (totals->memory_bytes <= totals->memory_peak_bytes) {
        owner->above_peak_since_ns = 0;
    } else if (!owner->above_peak_since_ns || owner->above_peak_bytes != totals->memory_bytes) {
        owner->above_peak_since_ns = now_ns;
        owner->above_peak_bytes = totals->memory_bytes;
    }
}

/* Memory above a peak that was never doubted: the peak is about to be raised, or memory or peak is damaged. */
static uint32_t check_memory_above_peak(const struct facet_owner *owner, struct facet_usage_totals *totals,
                                        uint32_t believed)
{
    if (!owner->above_peak_since_ns || !(believed & FACET_BELIEVED_MEMORY) ||
        owner->belief.doubted & FACET_BELIEVED_PEAK)
        return believed;
    if (facet_clock_now_ns() >= owner->above_peak_since_ns + ABOVE_PEAK_MAX_NS)
        return believed & ~(FACET_BELIEVED_MEMORY | FACET_BELIEVED_PEAK);
    totals->memory_peak_bytes = totals->memory_bytes;
    return believed | FACET_BELIEVED_PEAK;
}

static uint32_t check_totals(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    uint32_t believed = facet_belief_check(&owner->belief, totals, owner->belief.memory_max_bytes, now_ns);

    note_memory_above_peak(owner, totals, now_ns);
    write_belief_file(owner);
    return believed;
}

void facet_owner_check_totals(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns)
{
    (void)check_totals(owner, totals, now_ns);
}

uint32_t facet_owner_believed_totals(struct facet_owner *owner, struct facet_usage_totals *ret_totals)
{
    uint32_t believed = 0;

    for (int tries = READ_TRIES; tries > 0 && (!(believed & FACET_BELIEVED_MEMORY) || owner->above_peak_since_ns);
         tries--) {
        facet_owner_totals(owner, ret_totals);
        believed = check_totals(owner, ret_totals, facet_clock_now_ns());
    }
    return facet_owner_damaged(owner) ? 0 : check_memory_above_peak(owner, ret_totals, believed);
}
