/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tenant's side of the limiter. Never: prints, exits, starts threads or touches the program's signals. */
#include "limiter/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "limiter/memory.h"
#include "limiter/pace.h"
#include "limiter/slot.h"

/* No wait is longer than this before the state is checked again: the daemon may have died meanwhile. */
#define RECHECK_NS (20 * FACET_NS_PER_MS)

/* The longest wait of a launch for depth: the work in flight may itself depend on a later step of this thread. */
#define DEPTH_WAIT_NS (100 * FACET_NS_PER_MS)

/* The shortest wait: a thread that wakes too often takes time from the work that it waits for. */
#define LEAST_WAIT_NS (50 * FACET_NS_PER_US)

#define MEMORY_FROZEN (FACET_RESOURCE_MEMORY | FACET_FROZEN_AUTO(FACET_RESOURCE_MEMORY))

/* The lowest number of the tenant's descriptors: above the numbers that programs use, or close in a loop. */
static const int high_fds[] = {512, 64, 3};

/*
 * Moves a descriptor to a high number. In a program that was started without standard streams, the descriptor could
 * otherwise have the number of standard error, and the program's messages would be written into the segment.
 */
static enum facet_status move_descriptor_high(int *fd, const char *name, struct facet_error *error)
{
    for (size_t i = 0; i < sizeof high_fds / sizeof high_fds[0]; i++) {
        int moved = fcntl(*fd, F_DUPFD_CLOEXEC, high_fds[i]);

        if (moved < 0)
            continue;
        close(*fd);
        *fd = moved;
        return FACET_OK;
    }
    return facet_error_errno(error, errno, "moving the descriptor of segment file '%s'", name);
}

bool facet_tenant_is_usage(const struct facet_tenant *tenant, int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_dev == tenant->usage_device && status.st_ino == tenant->usage_inode;
}

static enum facet_status remember_usage(struct facet_tenant *tenant, struct facet_error *error)
{
    struct stat status;

    if (fstat(tenant->usage_fd, &status) < 0)
        return facet_error_errno(error, errno, "looking at segment file 'usage'");
    tenant->usage_device = status.st_dev;
    tenant->usage_inode = status.st_ino;
    return move_descriptor_high(&tenant->usage_fd, "usage", error);
}

static enum facet_status open_device_lock(int dir_fd, struct facet_tenant *tenant, struct facet_error *error)
{
    const char *name = tenant->policy->version == FACET_SEGMENT_VERSION ? "device" : "bell";
    struct stat status;

    tenant->device_fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (tenant->device_fd < 0 || fstat(tenant->device_fd, &status) < 0)
        return facet_error_errno(error, errno, "opening segment file '%s'", name);
    tenant->lock_device = status.st_dev;
    tenant->lock_inode = status.st_ino;
    return move_descriptor_high(&tenant->device_fd, name, error);
}

static bool is_device_lock(const struct facet_tenant *tenant, int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_dev == tenant->lock_device && status.st_ino == tenant->lock_inode;
}

/* Version 7 has the words by which the scheduler is woken in a file that all vGPUs of the device share. */
static enum facet_status map_rings(int dir_fd, struct facet_tenant *tenant, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = -1;
    void *bell = NULL;
    size_t size;

    tenant->rings = &tenant->usage->rings;
    tenant->sleeping = &tenant->policy->sleeping;
    if (tenant->policy->version == FACET_SEGMENT_VERSION)
        return FACET_OK;
    enum facet_status status =
        facet_segment_map(dir_fd, "bell", true, sizeof(struct facet_bell), &bell, &size, &fd, error);
    if (status != FACET_OK)
        return status;
    tenant->bell = bell;
    tenant->rings = &tenant->bell->rings;
    tenant->sleeping = &tenant->bell->sleeping;
    return facet_bell_check(tenant->bell, size, "bell", error);
}

static enum facet_status map_segment(int dir_fd, const char *dir, struct facet_tenant *tenant,
                                     struct facet_error *error)
{
    FACET_CLEANUP_FD int policy_fd = -1;
    void *policy = NULL, *usage = NULL;
    enum facet_status status;

    status = facet_segment_map(dir_fd, "policy", false, sizeof(struct facet_policy), &policy, &tenant->policy_size,
                               &policy_fd, error);
    tenant->policy = policy;
    if (status == FACET_OK)
        status = facet_segment_map(dir_fd, "usage", true, sizeof(struct facet_usage), &usage, &tenant->usage_size,
                                   &tenant->usage_fd, error);
    tenant->usage = usage;
    if (status == FACET_OK)
        status = remember_usage(tenant, error);
    if (status == FACET_OK)
        status = facet_policy_check(policy, tenant->policy_size, "policy", error);
    if (status == FACET_OK)
        status = facet_usage_check(usage, tenant->usage_size, "usage", error);
    if (status == FACET_OK)
        status = map_rings(dir_fd, tenant, error);
    if (status == FACET_OK)
        status = open_device_lock(dir_fd, tenant, error);
    if (status != FACET_OK)
        facet_error_prefix(error, "vGPU segment %s", dir);
    return status;
}

static void unmap_segment(struct facet_tenant *tenant)
{
    if (tenant->policy)
        munmap((void *)(uintptr_t)tenant->policy, tenant->policy_size);
    if (tenant->usage) {
        munmap(tenant->usage, tenant->usage_size);
        if (facet_tenant_is_usage(tenant, tenant->usage_fd))
            close(tenant->usage_fd);
    }
    if (tenant->bell)
        munmap(tenant->bell, sizeof *tenant->bell);
    if (is_device_lock(tenant, tenant->device_fd))
        close(tenant->device_fd);
    *tenant = (struct facet_tenant){0};
}

static void ring_scheduler(const struct facet_tenant *tenant)
{
    facet_ring(tenant->rings, tenant->sleeping);
}

enum facet_status facet_tenant_attach(const char *dir, struct facet_tenant *ret_tenant, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct facet_tenant tenant = {.usage_fd = -1, .device_fd = -1};

    if (dir_fd < 0)
        return facet_error_errno(error, errno, "opening vGPU segment '%s'", dir);

    enum facet_status status = map_segment(dir_fd, dir, &tenant, error);
    if (status == FACET_OK)
        status = facet_slot_claim(tenant.policy, tenant.usage, tenant.usage_fd, dir, &tenant.slot, error);
    if (status != FACET_OK) {
        unmap_segment(&tenant);
        return status;
    }
    tenant.attached_ns = facet_clock_now_ns();
    *ret_tenant = tenant;
    facet_tenant_supervise(ret_tenant, ret_tenant->attached_ns);
    ring_scheduler(ret_tenant); /* from now on the daemon watches whether this process lives */
    return FACET_OK;
}

void facet_tenant_detach(struct facet_tenant *tenant)
{
    if (!tenant || !tenant->slot)
        return;
    facet_slot_clear(tenant->slot);
    if (facet_tenant_is_usage(tenant, tenant->usage_fd))
        facet_slot_unlock(tenant->usage_fd, FACET_SLOT_LOCK_OFFSET(tenant->slot - tenant->usage->slots));
    ring_scheduler(tenant);
    unmap_segment(tenant);
}

void facet_tenant_forked(struct facet_tenant *tenant)
{
    unmap_segment(tenant);
}

/* Opens the file anew: the lock belongs to this file description, which a child forked earlier does not share. */
int facet_tenant_lock_device(const struct facet_tenant *tenant, uint64_t most_ns)
{
    uint64_t end_ns = facet_clock_now_ns() + most_ns;
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", tenant->device_fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool held = false;
    while (fd >= 0 && is_device_lock(tenant, fd) && !(held = flock(fd, LOCK_EX | LOCK_NB) == 0) &&
           facet_clock_now_ns() < end_ns)
        nanosleep(&(struct timespec){.tv_nsec = FACET_NS_PER_MS}, NULL);
    if (fd >= 0 && !held) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Unlocks before it closes: a child may have inherited the descriptor, and would keep the lock. */
void facet_tenant_unlock_device(const struct facet_tenant *tenant, int held)
{
    if (held < 0 || !is_device_lock(tenant, held))
        return;
    flock(held, LOCK_UN);
    close(held);
}

uint64_t facet_tenant_memory_limit(const struct facet_tenant *tenant)
{
    return atomic_load_explicit(&tenant->policy->memory_limit_bytes, memory_order_relaxed);
}

uint64_t facet_tenant_memory_free(const struct facet_tenant *tenant)
{
    return facet_memory_left(tenant->policy, tenant->usage);
}

static bool reserve_again(struct facet_tenant *tenant, uint64_t bytes)
{
    /* A killed process may hold the memory, and the daemon may not be running to reclaim it. */
    facet_tenant_reclaim(tenant);
    return facet_memory_take_again(tenant->policy, tenant->usage, tenant->slot, bytes);
}

/* An automatic freeze only reports idleness to the owner; without a live owner no thread waits for its end. */
static bool must_wait_for_thaw(const struct facet_tenant *tenant, uint32_t frozen)
{
    if (atomic_load_explicit(&tenant->policy->retired, memory_order_relaxed))
        return false;
    return frozen & FACET_RESOURCE_MEMORY || !atomic_load_explicit(&tenant->orphan, memory_order_relaxed);
}

/* An allocation from frozen memory waits, as a launch does: most programs would end if it was refused instead. */
static void wait_for_thaw(struct facet_tenant *tenant)
{
    uint32_t frozen;

    atomic_fetch_add_explicit(&tenant->slot->allocating, 1, memory_order_seq_cst);
    while ((frozen = atomic_load_explicit(&tenant->policy->frozen, memory_order_seq_cst)) & MEMORY_FROZEN) {
        facet_tenant_supervise(tenant, facet_clock_now_ns());
        if (!must_wait_for_thaw(tenant, frozen))
            break;
        ring_scheduler(tenant);
        facet_futex_wait(&tenant->policy->frozen, frozen, RECHECK_NS);
    }
    atomic_fetch_sub_explicit(&tenant->slot->allocating, 1, memory_order_seq_cst);
}

void facet_tenant_thaw_wait(struct facet_tenant *tenant)
{
    if (atomic_load_explicit(&tenant->policy->frozen, memory_order_relaxed) & MEMORY_FROZEN)
        wait_for_thaw(tenant);
}

bool facet_tenant_try_reserve(struct facet_tenant *tenant, uint64_t bytes)
{
    if (bytes > facet_tenant_memory_limit(tenant))
        return false;
    if (__builtin_expect(atomic_load_explicit(&tenant->policy->frozen, memory_order_relaxed) & MEMORY_FROZEN, 0))
        wait_for_thaw(tenant);
    return __builtin_expect(facet_memory_take(tenant->policy, tenant->usage, tenant->slot, bytes), 1) ||
           reserve_again(tenant, bytes);
}

void facet_tenant_deny(struct facet_tenant *tenant)
{
    atomic_fetch_add_explicit(&tenant->slot->denied, 1, memory_order_relaxed);
}

bool facet_tenant_reserve(struct facet_tenant *tenant, uint64_t bytes)
{
    bool granted = facet_tenant_try_reserve(tenant, bytes);

    if (__builtin_expect(!granted, 0))
        facet_tenant_deny(tenant);
    return granted;
}

void facet_tenant_release(struct facet_tenant *tenant, uint64_t bytes)
{
    facet_memory_give(tenant->slot, bytes);
}

static bool take_regions(struct facet_tenant *tenant, uint32_t count)
{
    if (__builtin_expect(facet_memory_take_regions(tenant->policy, tenant->usage, tenant->slot, count), 1))
        return true;
    facet_tenant_reclaim(tenant);
    return facet_memory_take_regions_again(tenant->policy, tenant->usage, tenant->slot, count);
}

/*
 * The sequence is read before the quota: if the quota changes in between, the stored sequence is out of date, and no
 * spare region is used.
 */
bool facet_tenant_try_regions(struct facet_tenant *tenant, uint32_t count)
{
    facet_tenant_thaw(tenant);
    if (count == 1 && facet_tenant_take_spare(tenant))
        return true;
    uint32_t sequence = atomic_load_explicit(&tenant->policy->memory_limit_sequence, memory_order_seq_cst);
    if (take_regions(tenant, count)) {
        if (!(sequence & 1))
            atomic_store_explicit(&tenant->spare_sequence, sequence, memory_order_relaxed);
        return true;
    }
    return false;
}

bool facet_tenant_reserve_regions(struct facet_tenant *tenant, uint32_t count)
{
    bool granted = facet_tenant_try_regions(tenant, count);

    if (!granted)
        facet_tenant_deny(tenant);
    return granted;
}

void facet_tenant_release_regions(struct facet_tenant *tenant, uint32_t count)
{
    bool keep_spare = atomic_load_explicit(&tenant->spare_sequence, memory_order_relaxed) ==
                      atomic_load_explicit(&tenant->policy->memory_limit_sequence, memory_order_acquire);

    facet_memory_give_regions(tenant->slot, count, keep_spare);
}

void facet_tenant_supervise(struct facet_tenant *tenant, uint64_t now_ns)
{
    uint32_t orphan = facet_policy_is_orphan(tenant->policy, now_ns);

    atomic_store_explicit(&tenant->slot->alive_ns, now_ns, memory_order_relaxed);
    if (atomic_load_explicit(&tenant->orphan, memory_order_relaxed) != orphan)
        atomic_store_explicit(&tenant->orphan, orphan, memory_order_relaxed);
}

/*
 * Raises shards_used before a launch is counted there, so that a scheduler that closed the gate reads this shard too.
 */
struct facet_slot_shard *facet_tenant_shard(struct facet_tenant *tenant, uint32_t index)
{
    uint32_t at = index % FACET_SLOT_SHARDS, used = atomic_load(&tenant->slot->shards_used);

    while (used <= at && !atomic_compare_exchange_weak(&tenant->slot->shards_used, &used, at + 1))
        ;
    return &tenant->slot->shards[at];
}

void facet_tenant_shard_begins(struct facet_slot_shard *shard)
{
    atomic_store_explicit(&shard->begun_ns, facet_clock_now_ns(), memory_order_relaxed);
}

void facet_tenant_set_unsettled_since(struct facet_tenant *tenant, uint64_t since_ns)
{
    if (since_ns > atomic_load_explicit(&tenant->slot->unsettled_since_ns, memory_order_relaxed))
        atomic_store_explicit(&tenant->slot->unsettled_since_ns, since_ns, memory_order_relaxed);
}

bool facet_tenant_fits_all_shards(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t estimate_ns)
{
    uint64_t depth_ns = atomic_load_explicit(&tenant->policy->depth_ns, memory_order_relaxed);
    uint64_t others = facet_slot_inflight(tenant->slot) - facet_inflight(1, estimate_ns);
    uint64_t local_depth_ns = depth_ns / FACET_TENANT_LOCAL_DIVISOR;
    bool fits = facet_tenant_fits(tenant, others, estimate_ns);

    if (!fits || facet_inflight_ns(others) + estimate_ns + local_depth_ns > depth_ns)
        local_depth_ns = 0;
    atomic_store_explicit(&shard->local_depth_ns, local_depth_ns, memory_order_relaxed);
    return fits;
}

/* A time that the clock never shows. */
#define UNKNOWN_NS UINT64_MAX

/*
 * How long until a launch fits behind the work in flight, by the clock: the device finishes work before that is
 * reported, and would be idle if the next launch waited for the report. UNKNOWN_NS where the time that others had on
 * the device is unknown, for a launch longer than the depth, and where the vGPU has a cap, which needs reported time.
 */
static uint64_t time_until_fit_ns(const struct facet_tenant *tenant, uint64_t others_ns, uint64_t estimate_ns)
{
    uint64_t depth_ns = atomic_load_explicit(&tenant->policy->depth_ns, memory_order_relaxed);
    uint64_t others_ended_ns = atomic_load_explicit(&tenant->policy->others_ended_ns, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&tenant->policy->compute_limit_milli, memory_order_relaxed);
    uint64_t since_ns = facet_slot_unsettled_since_ns(tenant->slot), now_ns = facet_clock_now_ns();

    if (!others_ended_ns || !since_ns || !estimate_ns || estimate_ns > depth_ns || limit < FACET_MILLI_WHOLE)
        return UNKNOWN_NS;
    if (others_ended_ns == FACET_OTHERS_RUNNING) /* the others may end soon, and nothing wakes this thread then */
        return depth_ns / FACET_TENANT_LITTLE_DIVISOR;
    since_ns = since_ns > others_ended_ns ? since_ns : others_ended_ns;
    uint64_t done_ns = now_ns > since_ns ? now_ns - since_ns : 0;
    return others_ns + estimate_ns > depth_ns + done_ns ? others_ns + estimate_ns - depth_ns - done_ns : 0;
}

/* How long a launch that does not fit, and is not in flight, waits before it checks again. */
static uint64_t depth_wait_ns(const struct facet_tenant *tenant, uint64_t estimate_ns)
{
    uint64_t wait_ns = time_until_fit_ns(tenant, facet_inflight_ns(facet_slot_inflight(tenant->slot)), estimate_ns);

    if (wait_ns > RECHECK_NS)
        return RECHECK_NS;
    return wait_ns > LEAST_WAIT_NS ? wait_ns : LEAST_WAIT_NS;
}

/* Whether this launch, already counted in flight, fits beside the others. */
static bool depth_allows(struct facet_tenant *tenant, uint64_t estimate_ns)
{
    uint64_t others = facet_slot_inflight(tenant->slot) - facet_inflight(1, estimate_ns);

    return facet_tenant_fits(tenant, others, estimate_ns) || (!estimate_ns && facet_inflight_count(others) < 2) ||
           time_until_fit_ns(tenant, facet_inflight_ns(others), estimate_ns) == 0;
}

/*
 * Takes launches out of a shard; true when the process has no launch in flight any more. Of two threads that take out
 * the last launches of two shards at once, at least the later one returns true.
 */
static bool take_out_of_flight(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint32_t count,
                               uint64_t charged_ns)
{
    uint64_t before =
        atomic_fetch_sub_explicit(&shard->inflight, facet_inflight(count, charged_ns), memory_order_seq_cst);

    return facet_inflight_count(before) == count && !facet_inflight_count(facet_slot_inflight(tenant->slot));
}

/*
 * `rings`: wakes the scheduler, after the launch is out of flight: a scheduler that wakes before would count it as
 * running.
 */
static void withdraw_launch(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t estimate_ns,
                            bool rings)
{
    if (take_out_of_flight(tenant, shard, 1, estimate_ns) || rings)
        ring_scheduler(tenant);
}

/* Whether no scheduler hands device time out: there is no daemon, or the owner does not schedule. */
static bool paces_itself(const struct facet_tenant *tenant, uint32_t gate)
{
    return FACET_GATE_STATE(gate) == FACET_GATE_PACED || atomic_load_explicit(&tenant->orphan, memory_order_relaxed);
}

static uint64_t pace_owed_ns(const struct facet_tenant *tenant)
{
    return facet_pace_owed_ns(&tenant->usage->pace_ns, facet_clock_now_ns());
}

enum verdict {
    LAUNCH_NOW,
    WAIT_GATE,
    WAIT_PACE,
    WAIT_DEPTH,
    VGPU_LOST,
};

/* The reason, if any, that keeps a launch that is counted in flight from going. */
static enum verdict launch_verdict(struct facet_tenant *tenant, uint32_t gate, uint64_t estimate_ns, bool depth_waited)
{
    if (atomic_load_explicit(&tenant->policy->retired, memory_order_relaxed))
        return VGPU_LOST;
    if (atomic_load_explicit(&tenant->policy->frozen, memory_order_relaxed) & FACET_RESOURCE_COMPUTE)
        return WAIT_GATE;
    if (paces_itself(tenant, gate)) {
        if (pace_owed_ns(tenant))
            return WAIT_PACE;
    } else if (FACET_GATE_STATE(gate) == FACET_GATE_CLOSED) {
        return WAIT_GATE;
    } else if (FACET_GATE_STATE(gate) == FACET_GATE_OPEN) {
        return LAUNCH_NOW;
    }
    return depth_waited || depth_allows(tenant, estimate_ns) ? LAUNCH_NOW : WAIT_DEPTH;
}

static void wait_for_change(struct facet_tenant *tenant, enum verdict verdict, uint64_t estimate_ns, uint32_t gate,
                            uint32_t completions)
{
    uint64_t owed_ns;

    switch (verdict) {
    case LAUNCH_NOW:
    case VGPU_LOST:
        break;
    case WAIT_GATE:
        facet_futex_wait(&tenant->policy->gate, gate, RECHECK_NS);
        break;
    case WAIT_PACE:
        owed_ns = pace_owed_ns(tenant);
        facet_futex_wait(&tenant->policy->gate, gate, owed_ns < RECHECK_NS ? owed_ns : RECHECK_NS);
        break;
    case WAIT_DEPTH:
        facet_futex_wait(&tenant->slot->completions, completions, depth_wait_ns(tenant, estimate_ns));
        break;
    }
    facet_tenant_supervise(tenant, facet_clock_now_ns());
}

/*
 * Takes the launch out of flight, waits until something has changed, and counts it in flight again. False: the launch
 * must be refused.
 */
static bool wait_out_of_flight(struct facet_tenant *tenant, struct facet_slot_shard *shard, enum verdict verdict,
                               uint64_t estimate_ns, uint32_t gate, uint32_t completions, uint64_t *ret_waited_ns)
{
    uint64_t started_ns = facet_clock_now_ns();
    bool relocked = true;

    withdraw_launch(tenant, shard, estimate_ns, verdict == WAIT_GATE);
    if (tenant->release_lock)
        tenant->release_lock();
    wait_for_change(tenant, verdict, estimate_ns, gate, completions);
    if (tenant->release_lock)
        relocked = tenant->retake_lock();
    if (!facet_inflight_count(
            atomic_fetch_add_explicit(&shard->inflight, facet_inflight(1, estimate_ns), memory_order_seq_cst)))
        facet_tenant_shard_begins(shard);
    *ret_waited_ns = facet_clock_now_ns() - started_ns;
    return relocked;
}

/* Waits until nothing keeps the launch back, or the vGPU is lost. A wait for depth is not counted as throttled. */
static enum verdict wait_until_allowed(struct facet_tenant *tenant, struct facet_slot_shard *shard,
                                       uint64_t estimate_ns)
{
    uint64_t depth_waited_ns = 0, waited_ns;

    for (;;) {
        /* Before the wait is visible: a process whose alive_ns is old is taken as stopped. */
        facet_tenant_supervise(tenant, facet_clock_now_ns());
        uint32_t completions = atomic_load_explicit(&tenant->slot->completions, memory_order_acquire);
        uint32_t gate = atomic_load_explicit(&tenant->policy->gate, memory_order_seq_cst);
        enum verdict verdict = launch_verdict(tenant, gate, estimate_ns, depth_waited_ns > DEPTH_WAIT_NS);

        if (verdict == LAUNCH_NOW || verdict == VGPU_LOST)
            return verdict;
        if (!wait_out_of_flight(tenant, shard, verdict, estimate_ns, gate, completions, &waited_ns))
            return VGPU_LOST;
        if (verdict == WAIT_DEPTH)
            depth_waited_ns += waited_ns;
        else
            atomic_fetch_add_explicit(&tenant->slot->throttled_ns, waited_ns, memory_order_relaxed);
    }
}

/* Whether this launch, counted in flight already, may go without a wait: the case of most launches under a lease. */
static bool may_launch_now(struct facet_tenant *tenant, uint64_t estimate_ns)
{
    uint32_t gate = atomic_load_explicit(&tenant->policy->gate, memory_order_seq_cst);

    return launch_verdict(tenant, gate, estimate_ns, false) == LAUNCH_NOW;
}

uint64_t facet_tenant_launch_wait(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t estimate_ns,
                                  uint64_t charged_ns)
{
    if (charged_ns != estimate_ns)
        atomic_fetch_add_explicit(&shard->inflight, facet_inflight(0, estimate_ns - charged_ns), memory_order_relaxed);
    /* `orphan` may be out of date after an idle time. */
    if (atomic_load_explicit(&tenant->orphan, memory_order_relaxed))
        facet_tenant_supervise(tenant, facet_clock_now_ns());
    if (!may_launch_now(tenant, estimate_ns)) {
        /* The scheduler sees waiting threads: it arbitrates between them. */
        atomic_fetch_add_explicit(&tenant->slot->waiting, 1, memory_order_seq_cst);
        enum verdict verdict = wait_until_allowed(tenant, shard, estimate_ns);
        atomic_fetch_sub_explicit(&tenant->slot->waiting, 1, memory_order_seq_cst);
        if (verdict == VGPU_LOST) {
            withdraw_launch(tenant, shard, estimate_ns, false);
            return FACET_TENANT_LOST;
        }
    }
    return estimate_ns;
}

/*
 * Takes launches out of flight that ended at `now_ns`, and wakes the waiting threads and the scheduler. The end is
 * written before the count falls: a reader that sees nothing in flight also sees since when. An earlier end does not
 * replace a later one, because launches of several streams are not reported in the order of their ends.
 */
static void end_launches(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint32_t count,
                         uint64_t charged_ns, uint64_t now_ns)
{
    struct facet_slot *slot = tenant->slot;

    if (now_ns > atomic_load_explicit(&slot->idle_since_ns, memory_order_relaxed))
        atomic_store_explicit(&slot->idle_since_ns, now_ns, memory_order_relaxed);
    bool idle = take_out_of_flight(tenant, shard, count, charged_ns);

    atomic_fetch_add_explicit(&slot->completions, 1, memory_order_release);
    if (atomic_load_explicit(&slot->waiting, memory_order_seq_cst))
        facet_futex_wake(&slot->completions);
    if (idle && FACET_GATE_STATE(atomic_load_explicit(&tenant->policy->gate, memory_order_seq_cst)) != FACET_GATE_OPEN)
        ring_scheduler(tenant);
}

void facet_tenant_complete_in(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint32_t count,
                              uint64_t charged_ns, uint64_t busy_ns, uint64_t now_ns)
{
    struct facet_slot *slot = tenant->slot;

    atomic_fetch_add_explicit(&slot->launches, count, memory_order_relaxed);
    facet_slot_add_reported(slot, busy_ns);
    atomic_fetch_add_explicit(&slot->busy_ns, busy_ns, memory_order_relaxed);
    if (__builtin_expect(paces_itself(tenant, atomic_load_explicit(&tenant->policy->gate, memory_order_relaxed)), 0))
        facet_pace_charge(
            &tenant->usage->pace_ns,
            facet_policy_pace_milli(tenant->policy, atomic_load_explicit(&tenant->orphan, memory_order_relaxed)),
            busy_ns, now_ns);
    end_launches(tenant, shard, count, charged_ns, now_ns);
}

/* `true`: now is an upper bound, because earlier work may have ended while no thread was checking. */
void facet_tenant_refused_in(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t charged_ns)
{
    end_launches(tenant, shard, 1, charged_ns, facet_idle_since(facet_clock_now_ns(), true));
}
