/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: reading any segment folder without owning it, and holding its vGPU. Never: writes more than a wake-up of the
 * scheduler.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "limiter/owner_inside.h"
#include "limiter/slot.h"

/* Maps a file of any segment folder; the caller unmaps `size` bytes. */
static enum facet_status map_file(const char *dir, const char *name, bool writable, size_t size, void **ret_address,
                                  int *ret_fd, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir_fd < 0)
        return facet_error_errno(error, errno, "opening segment folder '%s'", dir);
    return facet_segment_map(dir_fd, name, writable, size, ret_address, &size, ret_fd, error);
}

enum facet_status facet_usage_open(const char *dir, bool writable, const struct facet_usage **ret_usage, int *ret_fd,
                                   struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = -1;
    void *address;

    enum facet_status status = map_file(dir, "usage", writable, sizeof(struct facet_usage), &address, &fd, error);
    if (status != FACET_OK)
        return status;
    status = facet_usage_check(address, sizeof(struct facet_usage), "usage", error);
    if (status != FACET_OK) {
        munmap(address, sizeof(struct facet_usage));
        return status;
    }
    *ret_usage = address;
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

enum facet_status facet_hold_acquire(const char *dir, int *ret_fd, struct facet_error *error)
{
    const struct facet_usage *usage = NULL;
    FACET_CLEANUP_FD int fd = -1;

    enum facet_status status = facet_usage_open(dir, true, &usage, &fd, error);
    if (status != FACET_OK)
        return status;
    munmap((void *)(uintptr_t)usage, sizeof *usage);
    if (!facet_slot_lock(fd, FACET_HOLDER_LOCK_OFFSET))
        return facet_error_set(error, FACET_BUSY, "segment folder '%s' is held by another process", dir);
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

enum facet_status facet_segment_read_totals(const char *dir, struct facet_usage_totals *ret_totals,
                                            struct facet_error *error)
{
    const struct facet_usage *usage = NULL;
    FACET_CLEANUP_FD int fd = -1;

    enum facet_status status = facet_usage_open(dir, false, &usage, &fd, error);
    if (status != FACET_OK)
        return status;
    facet_usage_sum(usage, ret_totals);
    /* A process that has just been given memory is about to raise the peak. */
    for (int tries = 10; tries > 0 && ret_totals->memory_bytes > ret_totals->memory_peak_bytes; tries--) {
        sched_yield();
        facet_usage_sum(usage, ret_totals);
    }
    munmap((void *)(uintptr_t)usage, sizeof *usage);
    return FACET_OK;
}

/* The longest time that a living scheduler takes to settle without being woken. */
#define SETTLE_WAIT_NS (150 * FACET_NS_PER_MS)

static bool is_settled(const struct facet_policy *policy, const struct facet_usage *usage)
{
    const struct facet_device_time time = facet_policy_device_time(policy);

    return !time.at_ns || time.measured_ns >= facet_usage_busy(usage);
}

/* Wakes the scheduler. A caller who may not write the file waits for the scheduler's next step instead. */
static void ring_scheduler(const char *dir, const struct facet_policy *policy)
{
    FACET_CLEANUP_FD int fd = -1;
    const struct facet_usage *usage = NULL;

    if (facet_usage_open(dir, true, &usage, &fd, NULL) != FACET_OK)
        return;
    facet_ring(&((struct facet_usage *)(uintptr_t)usage)->rings, &policy->sleeping);
    munmap((void *)(uintptr_t)usage, sizeof *usage);
}

/* Waits until the scheduler, if one lives, has settled what was measured until now. */
static void wait_until_settled(const char *dir, const struct facet_policy *policy, const struct facet_usage *usage)
{
    uint64_t end_ns = facet_clock_now_ns() + SETTLE_WAIT_NS;

    if (is_settled(policy, usage) || facet_policy_is_orphan(policy, facet_clock_now_ns()))
        return;
    ring_scheduler(dir, policy);
    while (!is_settled(policy, usage) && facet_clock_now_ns() < end_ns)
        nanosleep(&(struct timespec){.tv_nsec = FACET_NS_PER_MS}, NULL);
}

static enum facet_status read_device_time(const char *dir, const struct facet_policy *policy,
                                          uint64_t *ret_device_time_ns, struct facet_error *error)
{
    const struct facet_usage *usage = NULL;
    FACET_CLEANUP_FD int fd = -1;

    enum facet_status status = facet_policy_check(policy, sizeof *policy, "policy", error);
    if (status == FACET_OK)
        status = facet_usage_open(dir, false, &usage, &fd, error);
    if (status != FACET_OK)
        return status;
    wait_until_settled(dir, policy, usage);
    /* `time` is read before the measured time: otherwise time that is settled in between would count twice. */
    const struct facet_device_time time = facet_policy_device_time(policy);
    *ret_device_time_ns = facet_device_time_total(&time, facet_usage_busy(usage), facet_clock_now_ns());
    munmap((void *)(uintptr_t)usage, sizeof *usage);
    return FACET_OK;
}

enum facet_status facet_segment_read_device_time(const char *dir, uint64_t *ret_device_time_ns,
                                                 struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = -1;
    void *policy;

    enum facet_status status = map_file(dir, "policy", false, sizeof(struct facet_policy), &policy, &fd, error);
    if (status != FACET_OK)
        return status;
    status = read_device_time(dir, policy, ret_device_time_ns, error);
    munmap(policy, sizeof(struct facet_policy));
    return status;
}

enum facet_status facet_segment_read_device(const char *dir, struct facet_segment_device *ret_device,
                                            struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = -1;
    void *address;

    enum facet_status status = map_file(dir, "policy", false, sizeof(struct facet_policy), &address, &fd, error);
    if (status != FACET_OK)
        return status;
    const struct facet_policy *policy = address;
    status = facet_policy_check(policy, sizeof *policy, "policy", error);
    if (status == FACET_OK)
        *ret_device = policy->device;
    munmap(address, sizeof *policy);
    return status;
}
