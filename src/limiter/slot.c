/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the life of slots. Never: trusts a process id; only the kernel's locks say who lives. */
#include "limiter/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"

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

/* What belongs to the owner, not to the record: memory first, so that a reader never sees a dead owner's bytes as ours.
 */
void facet_slot_clear(struct facet_slot *slot)
{
    atomic_store(&slot->memory_bytes, 0);
    atomic_store(&slot->inflight, 0);
    atomic_store(&slot->waiting, 0);
    atomic_store(&slot->inflight_ns, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->start_ticks, 0);
}

static uint64_t own_start_ticks(void)
{
    FACET_CLEANUP_FILE FILE *file = fopen("/proc/self/stat", "re");
    char line[1024];
    uint64_t ticks = 0;

    if (!file || !fgets(line, sizeof line, file))
        return 0;
    /* The name in field 2 may hold anything, so fields are counted from the last ')': state is 3, start time is 22. */
    char *field = strrchr(line, ')');
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    if (!field || sscanf(field, " %" SCNu64, &ticks) != 1)
        return 0;
    return ticks;
}

static void raise_slots_used(struct facet_usage *usage, uint32_t wanted)
{
    uint32_t used = atomic_load(&usage->slots_used);

    while (used < wanted && !atomic_compare_exchange_weak(&usage->slots_used, &used, wanted))
        ;
}

struct facet_slot *facet_slot_claim(struct facet_usage *usage, int fd)
{
    for (uint32_t i = 0; i < FACET_SLOT_COUNT; i++) {
        struct facet_slot *slot = &usage->slots[i];

        if (!facet_slot_lock(fd, FACET_SLOT_LOCK_OFFSET(i)))
            continue;
        facet_slot_clear(slot);
        prctl(PR_GET_NAME, slot->comm);
        atomic_store(&slot->start_ticks, own_start_ticks());
        atomic_store(&slot->pid, (uint32_t)getpid());
        raise_slots_used(usage, i + 1);
        return slot;
    }
    return NULL;
}

static bool worth_reclaiming(const struct facet_slot *slot)
{
    return atomic_load(&slot->pid) || atomic_load(&slot->memory_bytes) || atomic_load(&slot->inflight);
}

unsigned facet_slot_reclaim(struct facet_usage *usage, int fd)
{
    uint32_t used = atomic_load(&usage->slots_used);
    unsigned reclaimed = 0;

    for (uint32_t i = 0; i < used && i < FACET_SLOT_COUNT; i++) {
        struct facet_slot *slot = &usage->slots[i];

        if (!worth_reclaiming(slot) || !facet_slot_lock(fd, FACET_SLOT_LOCK_OFFSET(i)))
            continue;
        facet_slot_clear(slot);
        facet_slot_unlock(fd, FACET_SLOT_LOCK_OFFSET(i));
        reclaimed++;
    }
    return reclaimed;
}
