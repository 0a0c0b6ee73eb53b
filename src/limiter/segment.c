/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: mapping and validating segment files, sums over slots, wake-ups. Never: claims slots or takes decisions. */
#include "limiter/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/integer.h"

enum facet_status facet_segment_map(int dir_fd, const char *name, bool writable, size_t minimum, void **ret_address,
                                    size_t *ret_size, int *ret_fd, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd =
        openat(dir_fd, name, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;

    if (fd < 0)
        return facet_error_errno(error, errno, "opening segment file '%s'", name);
    if (fstat(fd, &status) < 0)
        return facet_error_errno(error, errno, "looking at segment file '%s'", name);
    if (!S_ISREG(status.st_mode))
        return facet_error_set(error, FACET_CORRUPT, "segment file '%s' is not a regular file", name);
    if ((uint64_t)status.st_size < minimum)
        return facet_error_set(error, FACET_CORRUPT, "segment file '%s' has %lld bytes, expected at least %zu", name,
                               (long long)status.st_size, minimum);

    void *address = mmap(NULL, minimum, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return facet_error_errno(error, errno, "mapping segment file '%s'", name);
    *ret_address = address;
    *ret_size = minimum;
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

static enum facet_status check_header(uint64_t magic, uint64_t expected, uint32_t version, uint32_t size,
                                      size_t expected_size, const char *path, struct facet_error *error)
{
    if (magic != expected)
        return facet_error_set(error, FACET_CORRUPT, "%s: not a segment file (magic %016llx)", path,
                               (unsigned long long)magic);
    if (version < FACET_SEGMENT_VERSION_LEAST || version > FACET_SEGMENT_VERSION)
        return facet_error_set(error, FACET_ABI_MISMATCH,
                               "%s: segment version %u, this program speaks %u to %u: its daemon is of another release",
                               path, version, FACET_SEGMENT_VERSION_LEAST, FACET_SEGMENT_VERSION);
    if (size != expected_size)
        return facet_error_set(error, FACET_CORRUPT, "%s: size field says %u, expected %zu", path, size, expected_size);
    return FACET_OK;
}

static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

enum facet_status facet_policy_check(const struct facet_policy *policy, size_t size, const char *path,
                                     struct facet_error *error)
{
    if (size < sizeof *policy)
        return facet_error_set(error, FACET_CORRUPT, "%s: %zu bytes, expected %zu", path, size, sizeof *policy);

    enum facet_status status =
        check_header(policy->magic, FACET_POLICY_MAGIC, policy->version, policy->size, sizeof *policy, path, error);
    if (status != FACET_OK)
        return status;
    if (!is_terminated(policy->vgpu_id, sizeof policy->vgpu_id) ||
        !is_terminated(policy->vgpu_name, sizeof policy->vgpu_name) ||
        !is_terminated(policy->device.id, sizeof policy->device.id) ||
        !is_terminated(policy->device.name, sizeof policy->device.name) ||
        !is_terminated(policy->device.address, sizeof policy->device.address))
        return facet_error_set(error, FACET_CORRUPT, "%s: a text field is not terminated", path);
    if (atomic_load(&policy->memory_limit_bytes) == 0)
        return facet_error_set(error, FACET_CORRUPT, "%s: memory limit is 0", path);
    return FACET_OK;
}

enum facet_status facet_usage_check(const struct facet_usage *usage, size_t size, const char *path,
                                    struct facet_error *error)
{
    if (size < sizeof *usage)
        return facet_error_set(error, FACET_CORRUPT, "%s: %zu bytes, expected %zu", path, size, sizeof *usage);

    enum facet_status status =
        check_header(usage->magic, FACET_USAGE_MAGIC, usage->version, usage->size, sizeof *usage, path, error);
    if (status != FACET_OK)
        return status;
    if (usage->slot_count != FACET_SEGMENT_SLOTS || atomic_load(&usage->slots_used) > FACET_SEGMENT_SLOTS)
        return facet_error_set(error, FACET_CORRUPT, "%s: %u slots with %u used, expected %u", path, usage->slot_count,
                               atomic_load(&usage->slots_used), FACET_SEGMENT_SLOTS);
    return FACET_OK;
}

enum facet_status facet_bell_check(const struct facet_bell *bell, size_t size, const char *path,
                                   struct facet_error *error)
{
    if (size < sizeof *bell || bell->magic != FACET_BELL_MAGIC)
        return facet_error_set(error, FACET_CORRUPT, "%s: not a doorbell file", path);
    return FACET_OK;
}

/* Tenants can write the page: with any value in it, no loop here runs past the existing slots. */
static uint32_t slots_used(const struct facet_usage *usage)
{
    uint32_t used = atomic_load_explicit(&usage->slots_used, memory_order_seq_cst);
    return used < FACET_SEGMENT_SLOTS ? used : FACET_SEGMENT_SLOTS;
}

static uint64_t add_saturating(uint64_t left, uint64_t right)
{
    uint64_t sum;
    return __builtin_add_overflow(left, right, &sum) ? UINT64_MAX : sum;
}

static uint64_t memory_and_regions(const struct facet_slot *slot, uint64_t regions)
{
    return add_saturating(atomic_load_explicit(&slot->memory_bytes, memory_order_seq_cst),
                          regions * FACET_REGION_BYTES);
}

uint64_t facet_slot_memory(const struct facet_slot *slot)
{
    return memory_and_regions(slot, facet_regions_held(atomic_load_explicit(&slot->regions, memory_order_seq_cst)));
}

static uint64_t slot_charged(const struct facet_slot *slot)
{
    uint64_t regions = atomic_load_explicit(&slot->regions, memory_order_seq_cst);

    return memory_and_regions(slot, facet_regions_held(regions) + facet_regions_spare(regions));
}

uint64_t facet_slot_take_spares(struct facet_slot *slot)
{
    uint64_t regions = atomic_load_explicit(&slot->regions, memory_order_seq_cst);

    while (facet_regions_spare(regions) &&
           !atomic_compare_exchange_weak(&slot->regions, &regions, facet_regions_held(regions)))
        ;
    return memory_and_regions(slot, facet_regions_held(regions));
}

uint64_t facet_usage_memory(const struct facet_usage *usage)
{
    uint64_t sum = 0;

    for (uint32_t i = 0, used = slots_used(usage); i < used; i++)
        sum = add_saturating(sum, facet_slot_memory(&usage->slots[i]));
    return sum;
}

uint64_t facet_usage_charged(const struct facet_usage *usage)
{
    uint64_t sum = 0;

    for (uint32_t i = 0, used = slots_used(usage); i < used; i++)
        sum = add_saturating(sum, slot_charged(&usage->slots[i]));
    return sum;
}

uint64_t facet_usage_take_spares(struct facet_usage *usage)
{
    uint64_t sum = 0;

    for (uint32_t i = 0, used = slots_used(usage); i < used; i++)
        sum = add_saturating(sum, facet_slot_take_spares(&usage->slots[i]));
    return sum;
}

uint64_t facet_usage_busy(const struct facet_usage *usage)
{
    uint64_t sum = 0;

    for (uint32_t i = 0, used = slots_used(usage); i < used; i++)
        sum = add_saturating(sum, atomic_load_explicit(&usage->slots[i].busy_ns, memory_order_relaxed));
    return sum;
}

static void add_residence(struct facet_usage_totals *totals, const struct facet_slot *slot)
{
    totals->swappable_bytes = add_saturating(totals->swappable_bytes, atomic_load(&slot->swappable_bytes));
    totals->resident_bytes = add_saturating(totals->resident_bytes, atomic_load(&slot->resident_bytes));
    totals->refused_bytes = add_saturating(totals->refused_bytes, atomic_load(&slot->refused_bytes));
    totals->waiting_resident += atomic_load(&slot->waiting_resident);
    totals->cannot_swap += atomic_load(&slot->cannot_swap);
    totals->last_used_ns =
        facet_max_u64(totals->last_used_ns, atomic_load_explicit(&slot->last_used_ns, memory_order_relaxed));
}

static void add_counter(uint64_t *sum, const _Atomic uint64_t *word)
{
    *sum = add_saturating(*sum, atomic_load_explicit(word, memory_order_relaxed));
}

static void add_slot(struct facet_usage_totals *totals, const struct facet_slot *slot)
{
    totals->memory_bytes = add_saturating(totals->memory_bytes, facet_slot_memory(slot));
    add_counter(&totals->busy_ns, &slot->busy_ns);
    totals->slot_busy_ns =
        facet_max_u64(totals->slot_busy_ns, atomic_load_explicit(&slot->busy_ns, memory_order_relaxed));
    add_counter(&totals->launches, &slot->launches);
    add_counter(&totals->throttled_ns, &slot->throttled_ns);
    add_counter(&totals->denied, &slot->denied);
    uint64_t inflight = facet_slot_inflight(slot);
    totals->inflight += facet_inflight_count(inflight);
    totals->inflight_ns += facet_inflight_ns(inflight);
    totals->waiting += atomic_load_explicit(&slot->waiting, memory_order_seq_cst);
    totals->allocating += atomic_load_explicit(&slot->allocating, memory_order_seq_cst);
    totals->processes += atomic_load_explicit(&slot->pid, memory_order_relaxed) != 0;
    add_residence(totals, slot);
    totals->idle_since_ns =
        facet_max_u64(totals->idle_since_ns, atomic_load_explicit(&slot->idle_since_ns, memory_order_relaxed));
}

void facet_usage_sum(const struct facet_usage *usage, struct facet_usage_totals *ret_totals)
{
    struct facet_usage_totals totals = {0};

    for (uint32_t i = 0, used = slots_used(usage); i < used; i++)
        add_slot(&totals, &usage->slots[i]);
    totals.slots_used = slots_used(usage);
    totals.memory_peak_bytes = atomic_load_explicit(&usage->memory_peak_bytes, memory_order_relaxed);
    *ret_totals = totals;
}

/* The part of the device that the vGPU has to itself: all time of one half of a device is half of the device's time. */
static uint32_t own_part_milli(const struct facet_policy *policy)
{
    uint32_t mode = atomic_load_explicit(&policy->mode, memory_order_relaxed);
    uint32_t milli = atomic_load_explicit(&policy->compute_request_milli, memory_order_relaxed);
    bool spatial = mode == FACET_MODE_HARD || mode == FACET_MODE_PARTITIONED;

    return spatial && milli && milli < FACET_MILLI_WHOLE ? milli : FACET_MILLI_WHOLE;
}

struct facet_device_time facet_policy_device_time(const struct facet_policy *policy)
{
    return (struct facet_device_time){
        .at_ns = atomic_load_explicit(&policy->settled_at_ns, memory_order_relaxed),
        .measured_ns = atomic_load_explicit(&policy->settled_measured_ns, memory_order_relaxed),
        .settled_ns = atomic_load_explicit(&policy->settled_ns, memory_order_relaxed),
        .published_ns = atomic_load_explicit(&policy->published_ns, memory_order_relaxed),
        .part_milli = own_part_milli(policy),
        .claim_milli = atomic_load_explicit(&policy->claim_milli, memory_order_relaxed),
    };
}

/* `value` x `milli` / 1000 without overflow, for `milli` up to 1000. */
static uint64_t part_ns(uint64_t value, uint32_t milli)
{
    return value / FACET_MILLI_WHOLE * milli + value % FACET_MILLI_WHOLE * milli / FACET_MILLI_WHOLE;
}

/* The time that was measured since the settlement, scaled to time of the whole device. */
static uint64_t unsettled_ns(const struct facet_device_time *time, uint64_t measured_ns)
{
    return part_ns(measured_ns > time->measured_ns ? measured_ns - time->measured_ns : 0, time->part_milli);
}

uint64_t facet_device_time_total(const struct facet_device_time *time, uint64_t measured_ns, uint64_t now_ns)
{
    /* More settled than was measured is damage that no owner has judged yet. */
    if (!time->at_ns || time->settled_ns > measured_ns)
        return measured_ns;

    uint64_t passed_ns = now_ns > time->at_ns ? now_ns - time->at_ns : 0;
    return time->settled_ns + facet_min_u64(unsettled_ns(time, measured_ns), part_ns(passed_ns, time->claim_milli));
}

uint64_t facet_device_time_published(const struct facet_device_time *time, uint64_t measured_ns, uint64_t now_ns)
{
    if (time->at_ns && now_ns <= time->at_ns + FACET_HEARTBEAT_STALE_NS && time->published_ns <= measured_ns)
        return time->published_ns;
    return facet_device_time_total(time, measured_ns, now_ns);
}

static long call_futex(const _Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

bool facet_futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec timeout = facet_ns_timespec(timeout_ns);
    int saved = errno;
    bool woken = call_futex(word, FUTEX_WAIT, seen, &timeout) == 0 || errno != ETIMEDOUT;

    errno = saved;
    return woken;
}

void facet_futex_wake(const _Atomic uint32_t *word)
{
    int saved = errno;

    call_futex(word, FUTEX_WAKE, INT32_MAX, NULL);
    errno = saved;
}

void facet_ring(_Atomic uint32_t *rings, const _Atomic uint32_t *sleeping)
{
    atomic_fetch_add_explicit(rings, 1, memory_order_seq_cst);
    if (atomic_load_explicit(sleeping, memory_order_seq_cst))
        facet_futex_wake(rings);
}
