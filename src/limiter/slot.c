/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of slots. Never: trusts a process id; only the kernel's locks show that a process lives. */
#include "limiter/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet.h"
#include "limiter/pace.h"

/* A process with work in flight shows that it lives more often than this. */
#define ALIVE_PERIOD_NS (10 * FACET_NS_PER_MS)

static int lock_call(int fd, int command, short type, off_t offset, off_t length, short *ret_type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = offset, .l_len = length};
    int saved = errno;
    int result;

    do {
        result = fcntl(fd, command, &range);
    } while (result < 0 && errno == EINTR);
    errno = saved;
    if (ret_type)
        *ret_type = range.l_type;
    return result;
}

bool facet_slot_lock(int fd, off_t offset)
{
    return lock_call(fd, F_OFD_SETLK, F_WRLCK, offset, 1, NULL) == 0;
}

void facet_slot_unlock(int fd, off_t offset)
{
    lock_call(fd, F_OFD_SETLK, F_UNLCK, offset, 1, NULL);
}

bool facet_slot_locked(int fd, off_t offset, off_t length)
{
    short type = F_UNLCK;

    return lock_call(fd, F_OFD_GETLK, F_WRLCK, offset, length, &type) == 0 && type != F_UNLCK;
}

/*
 * Clears the owner's part of the record: memory first, so that no reader sees a dead owner's bytes as the new owner's.
 */
void facet_slot_clear(struct facet_slot *slot)
{
    atomic_store(&slot->memory_bytes, 0);
    atomic_store(&slot->regions, 0);
    for (uint32_t i = 0; i < FACET_SLOT_SHARDS; i++)
        atomic_store(&slot->shards[i].inflight, 0);
    atomic_store(&slot->shards_used, 0);
    atomic_store(&slot->unsettled_since_ns, 0);
    atomic_store(&slot->alive_ns, 0);
    atomic_store(&slot->waiting, 0);
    atomic_store(&slot->allocating, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->start_ticks, 0);
    atomic_store(&slot->swappable_bytes, 0);
    atomic_store(&slot->resident_bytes, 0);
    atomic_store(&slot->refused_bytes, 0);
    atomic_store(&slot->waiting_resident, 0);
    atomic_store(&slot->cannot_swap, 0);
}

/* The earliest time at which work in flight can have begun on the device; UINT64_MAX: nothing is in flight. */
static uint64_t oldest_begun_ns(const struct facet_slot *slot)
{
    uint64_t oldest_ns = UINT64_MAX;

    for (uint32_t i = 0, used = facet_slot_shards(slot); i < used; i++) {
        uint64_t begun_ns = atomic_load(&slot->shards[i].begun_ns);

        if (facet_inflight_count(atomic_load(&slot->shards[i].inflight)) && begun_ns < oldest_ns)
            oldest_ns = begun_ns;
    }
    return oldest_ns;
}

static uint64_t unreported_since_ns(uint64_t oldest_ns, uint64_t settled_ns)
{
    return oldest_ns > settled_ns ? oldest_ns : settled_ns;
}

uint64_t facet_slot_unsettled_since_ns(const struct facet_slot *slot)
{
    uint64_t settled_ns = atomic_load(&slot->unsettled_since_ns), oldest_ns = oldest_begun_ns(slot);

    return oldest_ns == UINT64_MAX ? 0 : unreported_since_ns(oldest_ns, settled_ns);
}

void facet_slot_add_reported(struct facet_slot *slot, uint64_t busy_ns)
{
    uint64_t oldest_ns = oldest_begun_ns(slot), settled_ns = atomic_load(&slot->unsettled_since_ns), since_ns;

    do {
        since_ns = unreported_since_ns(oldest_ns, settled_ns);
        if (oldest_ns == UINT64_MAX || since_ns + busy_ns < since_ns)
            return;
    } while (!atomic_compare_exchange_weak(&slot->unsettled_since_ns, &settled_ns, since_ns + busy_ns));
}

/* The most device time that a process that died with work in flight can have had since its last report. */
static uint64_t unsettled_ns(const struct facet_slot *slot, uint64_t now_ns)
{
    uint64_t since_ns = facet_slot_unsettled_since_ns(slot), alive_ns = atomic_load(&slot->alive_ns);

    if (!since_ns || since_ns >= now_ns)
        return 0;
    uint64_t lived_until_ns = (alive_ns > since_ns ? alive_ns : since_ns) + ALIVE_PERIOD_NS;
    return (lived_until_ns < now_ns ? lived_until_ns : now_ns) - since_ns;
}

static void charge_dead(const struct facet_policy *policy, struct facet_usage *usage, struct facet_slot *slot)
{
    uint64_t now_ns = facet_clock_now_ns(), busy_ns = unsettled_ns(slot, now_ns);
    bool orphan = facet_policy_is_orphan(policy, now_ns);

    if (!busy_ns)
        return;
    atomic_fetch_add(&slot->busy_ns, busy_ns);
    if (orphan || FACET_GATE_STATE(atomic_load(&policy->gate)) == FACET_GATE_PACED)
        facet_pace_charge(&usage->pace_ns, facet_policy_pace_milli(policy, orphan), busy_ns, now_ns);
}

/* "pid (comm) state ppid ...": the name may hold anything, so fields are counted from the last ')'. */
static void read_stat(const char *line, struct facet_slot_identity *identity)
{
    const char *name = strchr(line, '('), *end = strrchr(line, ')');

    if (!name || !end || end < name)
        return;
    snprintf(identity->comm, sizeof identity->comm, "%.*s", (int)(end - name - 1), name + 1);

    /* Field 2 ends here; the start time is field 22. */
    const char *field = end;
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (field)
        identity->start_ticks = strtoull(field, NULL, 10);
}

void facet_slot_identify(pid_t pid, struct facet_slot_identity *ret_identity)
{
    struct facet_slot_identity identity = {.pid = (uint32_t)pid};
    char path[32] = "/proc/self/stat", line[1024];

    if (pid != getpid())
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FACET_CLEANUP_FILE FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file))
        read_stat(line, &identity);
    *ret_identity = identity;
}

static void raise_slots_used(struct facet_usage *usage, uint32_t wanted)
{
    uint32_t used = atomic_load(&usage->slots_used);

    while (used < wanted && !atomic_compare_exchange_weak(&usage->slots_used, &used, wanted))
        ;
}

/*
 * Allocates the file's blocks of a slot: a full tmpfs or disk is an error now, not a bus error later. Returns an errno.
 */
static int allocate_slot(int fd, uint32_t index)
{
    off_t offset = (off_t)(offsetof(struct facet_usage, slots) + index * sizeof(struct facet_slot));

    if (index < FACET_SEGMENT_SLOTS_FIRST)
        return 0;
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    return posix_fallocate(fd, offset, sizeof(struct facet_slot));
}

bool facet_slot_take(const struct facet_policy *policy, struct facet_usage *usage, int fd, uint32_t index,
                     const struct facet_slot_identity *identity, int *ret_errno)
{
    struct facet_slot *slot = &usage->slots[index];
    bool locked = facet_slot_lock(fd, FACET_SLOT_LOCK_OFFSET(index));
    int result = locked ? allocate_slot(fd, index) : 0;

    if (ret_errno)
        *ret_errno = result;
    if (locked && result)
        facet_slot_unlock(fd, FACET_SLOT_LOCK_OFFSET(index));
    if (!locked || result)
        return false;
    charge_dead(policy, usage, slot);
    facet_slot_clear(slot);
    memcpy(slot->comm, identity->comm, sizeof slot->comm);
    atomic_store(&slot->start_ticks, identity->start_ticks);
    atomic_store(&slot->shards_used, 1);
    atomic_store(&slot->pid, identity->pid);
    raise_slots_used(usage, index + 1);
    return true;
}

/*
 * Tries slots that look free first: asking the kernel about an owned slot takes longer the more owned slots there are.
 */
static struct facet_slot *claim_slot(const struct facet_policy *policy, struct facet_usage *usage, int fd,
                                     int *ret_errno)
{
    uint32_t used = atomic_load(&usage->slots_used),
             checked_count = used < FACET_SEGMENT_SLOTS ? used : FACET_SEGMENT_SLOTS;
    struct facet_slot_identity self;
    int result = 0;

    facet_slot_identify(getpid(), &self);
    for (int owned = 0; owned < 2; owned++)
        for (uint32_t i = 0; i < checked_count; i++)
            if ((atomic_load(&usage->slots[i].pid) != 0) == owned && facet_slot_take(policy, usage, fd, i, &self, NULL))
                return &usage->slots[i];
    for (uint32_t i = checked_count; i < FACET_SEGMENT_SLOTS && !result; i++)
        if (facet_slot_take(policy, usage, fd, i, &self, &result))
            return &usage->slots[i];
    *ret_errno = result;
    return NULL;
}

enum facet_status facet_slot_claim(const struct facet_policy *policy, struct facet_usage *usage, int fd,
                                   const char *dir, struct facet_slot **ret_slot, struct facet_error *error)
{
    int result = 0;
    struct facet_slot *slot = claim_slot(policy, usage, fd, &result);

    if (!slot && result)
        return facet_error_errno(error, result, "making room for one more process in vGPU segment %s", dir);
    if (!slot)
        return facet_error_set(error, FACET_BUSY, "vGPU segment %s has %u processes, the most that a vGPU may have",
                               dir, FACET_SEGMENT_SLOTS);
    *ret_slot = slot;
    return FACET_OK;
}

static bool has_something_to_reclaim(const struct facet_slot *slot)
{
    return atomic_load(&slot->pid) || atomic_load(&slot->memory_bytes) || atomic_load(&slot->regions) ||
           facet_slot_inflight(slot);
}

unsigned facet_slot_reclaim(const struct facet_policy *policy, struct facet_usage *usage, int fd)
{
    return facet_slot_reclaim_some(policy, usage, fd, 0, FACET_SEGMENT_SLOTS);
}

unsigned facet_slot_reclaim_some(const struct facet_policy *policy, struct facet_usage *usage, int fd, uint32_t first,
                                 uint32_t count)
{
    uint32_t used = atomic_load(&usage->slots_used);
    unsigned reclaimed = 0;

    for (uint32_t i = first; i < used && i < FACET_SEGMENT_SLOTS && i - first < count; i++) {
        struct facet_slot *slot = &usage->slots[i];

        if (!has_something_to_reclaim(slot) || !facet_slot_lock(fd, FACET_SLOT_LOCK_OFFSET(i)))
            continue;
        charge_dead(policy, usage, slot);
        facet_slot_clear(slot);
        facet_slot_unlock(fd, FACET_SLOT_LOCK_OFFSET(i));
        reclaimed++;
    }
    return reclaimed;
}
