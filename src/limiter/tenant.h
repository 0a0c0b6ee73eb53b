/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenant's side of the limiter, which every interposer calls.
 *
 * Owns: attaching a process to its vGPU's segment, admitting memory and launches, reporting completions.
 * Never: touches the host program: no signals, umask, output, exit, constructors, threads of its own.
 *
 * Thread rule: every function may be called from any thread, except attach, detach and forked (one at a time, by the
 * interposer, with no other call under way).
 */
#ifndef FACET_LIMITER_TENANT_H
#define FACET_LIMITER_TENANT_H

#include "limiter/segment.h"

/* Set by `facet run` for the tenant: the folder of its vGPU's segment. */
#define FACET_ENV_VGPU_DIR "FACET_VGPU_DIR"

struct facet_tenant {
    const struct facet_policy *policy;
    struct facet_usage *usage;
    struct facet_slot *slot;
    _Atomic uint32_t *rings; /* for facet_ring(), with `sleeping` */
    const _Atomic uint32_t *sleeping;
    struct facet_bell *bell; /* NULL, except in a segment of version 7 */
    _Atomic uint32_t orphan; /* 1 while the daemon's heartbeat is stale; kept by facet_tenant_supervise() */
    size_t policy_size, usage_size;
    int usage_fd; /* carries the slot's lock; a program may close it and use its number for something else */
    uint64_t usage_device, usage_inode; /* the file that usage_fd must still refer to when it is used */
    int device_fd;                      /* the device's lock file, for facet_tenant_lock_device() */
    uint64_t lock_device, lock_inode;   /* the file that device_fd must still refer to */
    uint64_t attached_ns;
    /*
     * For facet_tenant_memory_free_cached(): sums of the device's free and the vGPU's charged memory. At
     * `steady_bytes` all processes were found alive for long enough. At `recent_bytes` they were found alive last,
     * and since `recent_since_ns`.
     */
    _Atomic uint64_t steady_bytes, recent_bytes, recent_since_ns;
    _Atomic uint32_t spare_sequence; /* memory_limit_sequence when all charges, spare regions included, last fitted */
    /*
     * Set by an interposer that holds a lock while it launches: release_lock is called before each wait, retake_lock
     * after it. If retake_lock returns false, the launch is refused. NULL: the interposer holds no lock.
     */
    void (*release_lock)(void);
    bool (*retake_lock)(void);
};

/*
 * Attaches this process to the vGPU in the folder `dir`: maps, validates, claims a slot (reclaiming dead ones).
 * FACET_BUSY when all slots are owned by live processes; FACET_CORRUPT and FACET_ABI_MISMATCH name the file.
 */
enum facet_status facet_tenant_attach(const char *dir, struct facet_tenant *ret_tenant, struct facet_error *error);

/* Gives the slot and its memory back and unmaps. NULL and a zeroed tenant are allowed. */
void facet_tenant_detach(struct facet_tenant *tenant);

/* Called in the child of fork(): drops the inherited mappings and descriptor without touching the parent's slot. */
void facet_tenant_forked(struct facet_tenant *tenant);

/*
 * Reserves memory before it is allocated; true when granted. Never grants a byte above the quota, regardless of other
 * processes. While memory is frozen it waits, as launches do. On refusal counts a denial. Call facet_tenant_release()
 * when the allocation fails or dies.
 */
bool facet_tenant_reserve(struct facet_tenant *tenant, uint64_t bytes);

/*
 * Like facet_tenant_reserve(), but a refusal is not counted: the caller calls facet_tenant_deny() when it reports the
 * refusal to the program.
 */
bool facet_tenant_try_reserve(struct facet_tenant *tenant, uint64_t bytes);
void facet_tenant_deny(struct facet_tenant *tenant);

/*
 * Waits while memory is frozen, for a caller that is about to reserve and holds nothing yet that others may wait for.
 */
void facet_tenant_thaw_wait(struct facet_tenant *tenant);

/*
 * Holds the device for this process among the processes of all its vGPUs, while a measurement covers the device as a
 * whole. Waits for others at most `most_ns`: a stopped process must not block them forever. Returns a descriptor for
 * facet_tenant_unlock_device(), or -1: not held.
 */
int facet_tenant_lock_device(const struct facet_tenant *tenant, uint64_t most_ns);
void facet_tenant_unlock_device(const struct facet_tenant *tenant, int held);

static inline void facet_tenant_thaw(struct facet_tenant *tenant)
{
    if (__builtin_expect(atomic_load_explicit(&tenant->policy->frozen, memory_order_relaxed), 0))
        facet_tenant_thaw_wait(tenant);
}

/* Gives reserved memory back. */
void facet_tenant_release(struct facet_tenant *tenant, uint64_t bytes);

/*
 * The functions above for regions of FACET_REGION_BYTES. A released region may be kept spare: then reserving and
 * releasing are one atomic on a word that no other process touches. Before a process is refused, spare regions are
 * taken back; a change of quota ends them too.
 */
bool facet_tenant_reserve_regions(struct facet_tenant *tenant, uint32_t count);
bool facet_tenant_try_regions(struct facet_tenant *tenant, uint32_t count);
void facet_tenant_release_regions(struct facet_tenant *tenant, uint32_t count);

/* Takes a spare region, if there is one. The wait for frozen memory is over by then. */
static inline bool facet_tenant_take_spare(struct facet_tenant *tenant)
{
    uint64_t regions = atomic_load_explicit(&tenant->slot->regions, memory_order_relaxed);

    if (atomic_load_explicit(&tenant->spare_sequence, memory_order_relaxed) !=
        atomic_load_explicit(&tenant->policy->memory_limit_sequence, memory_order_acquire))
        return false;
    while (facet_regions_spare(regions))
        if (atomic_compare_exchange_weak(&tenant->slot->regions, &regions, regions - FACET_SPARE_REGION + 1))
            return true;
    return false;
}

/* Whether this process holds any region. */
static inline bool facet_tenant_has_regions(const struct facet_tenant *tenant)
{
    return facet_regions_held(atomic_load_explicit(&tenant->slot->regions, memory_order_relaxed));
}

/*
 * The quota in bytes (0 once the vGPU was destroyed), and the part of it that the slots leave: memory of a dead process
 * may still be counted, until the owner or a process that needs it clears the slot.
 */
uint64_t facet_tenant_memory_limit(const struct facet_tenant *tenant);
uint64_t facet_tenant_memory_free(const struct facet_tenant *tenant);

/*
 * Like facet_tenant_memory_free(), after the slots of dead processes are cleared: for a program that asks how much is
 * free. Costs one fcntl() for each other process that holds memory.
 */
uint64_t facet_tenant_memory_free_now(struct facet_tenant *tenant);

/*
 * Whether the quota has less than `bytes` left, even after dead processes are reclaimed. Called before an interposer
 * gives up cached memory to make room.
 */
static inline bool facet_tenant_lacks(struct facet_tenant *tenant, uint64_t bytes)
{
    return __builtin_expect(facet_tenant_memory_free(tenant) < bytes, 0) &&
           facet_tenant_memory_free_now(tenant) < bytes;
}

/*
 * Like facet_tenant_memory_free_now(), for an interposer that has from the driver how much of the whole device is free.
 * The memory of a process that died is free on the device and still charged in its slot. So no slot is checked while
 * free and charged memory have the same sum as when all processes were last found alive: that costs an addition and a
 * comparison. This check misses, for up to a scheduler's round, a process that dies while others take exactly its
 * amount, or whose memory was not on the device.
 */
uint64_t facet_tenant_memory_free_cached(struct facet_tenant *tenant, uint64_t device_free);

/* Clears the slots of dead processes. */
void facet_tenant_reclaim(struct facet_tenant *tenant);

/*
 * Whether a descriptor is of the usage file: a program may have closed the tenant's descriptor, and be using its number
 * for another file.
 */
bool facet_tenant_is_usage(const struct facet_tenant *tenant, int fd);

/*
 * LITTLE: the part of the depth that counts as little work, see facet_tenant_fits(). LOCAL: the part of the depth that
 * a shard may admit before it reads the other shards again, which would move their cache lines. So all shards together
 * exceed the depth by at most an eighth.
 */
#define FACET_TENANT_LITTLE_DIVISOR 4u
#define FACET_TENANT_LOCAL_DIVISOR  (8 * FACET_SLOT_SHARDS)

/* facet_tenant_launch_in() returns this when the vGPU was destroyed: the launch is refused, and not in flight. */
#define FACET_TENANT_LOST UINT64_MAX

/*
 * The shard that counts a thread's launches: one of FACET_SLOT_SHARDS, which any number of threads may share. A process
 * that launches from few threads takes the first shards. Lasts until the tenant is detached.
 */
struct facet_slot_shard *facet_tenant_shard(struct facet_tenant *tenant, uint32_t index);

/*
 * The slow path of facet_tenant_launch_in(): waits for the gate, for depth, or for the budget of device time. The
 * launch is counted in flight already, with `charged_ns`.
 */
uint64_t facet_tenant_launch_wait(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t estimate_ns,
                                  uint64_t charged_ns);

/*
 * Whether a launch that found `inflight` may go under a lease, as far as can be decided at once. A launch longer than
 * the depth may follow a little work: otherwise the device would stand idle between the two.
 */
static inline bool facet_tenant_fits(const struct facet_tenant *tenant, uint64_t inflight, uint64_t estimate_ns)
{
    uint64_t depth_ns = atomic_load_explicit(&tenant->policy->depth_ns, memory_order_relaxed);

    return facet_inflight_count(inflight) == 0 ||
           (estimate_ns && (facet_inflight_ns(inflight) + estimate_ns <= depth_ns ||
                            facet_inflight_ns(inflight) <= depth_ns / FACET_TENANT_LITTLE_DIVISOR));
}

/* Like facet_tenant_fits() for a process with several shards: reads all of them. The launch is counted already. */
bool facet_tenant_fits_all_shards(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t estimate_ns);

/* Like facet_tenant_fits() for a launch that found `before` in its own shard. */
static inline bool facet_tenant_fits_in(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t before,
                                        uint64_t estimate_ns)
{
    if (facet_slot_shards(tenant->slot) <= 1)
        return facet_tenant_fits(tenant, before, estimate_ns);
    uint64_t local_depth_ns = atomic_load_explicit(&shard->local_depth_ns, memory_order_relaxed);
    if (!estimate_ns || estimate_ns > local_depth_ns)
        return facet_tenant_fits_all_shards(tenant, shard, estimate_ns);
    atomic_store_explicit(&shard->local_depth_ns, local_depth_ns - estimate_ns, memory_order_relaxed);
    return true;
}

/* The part of facet_tenant_launch_in() for a launch that found nothing in flight in its shard. */
void facet_tenant_shard_begins(struct facet_slot_shard *shard);

/*
 * Called before each launch: returns when it may be submitted, and the launch is counted in flight. `estimate_ns` is
 * the expected device time, 0 if unknown. Returns the charge, to be passed to exactly one facet_tenant_complete_in() of
 * the same shard, or facet_tenant_refused_in() when the submission fails; or FACET_TENANT_LOST.
 *
 * In flight is raised before the gate is read, and the scheduler closes the gate before it reads in flight: one of the
 * two always sees the other. While the vGPU is alone on the device, nothing bounds the depth, so nothing is charged. In
 * both cases the admission costs one atomic operation.
 */
static inline uint64_t facet_tenant_launch_in(struct facet_tenant *tenant, struct facet_slot_shard *shard,
                                              uint64_t estimate_ns)
{
    uint32_t gate = atomic_load_explicit(&tenant->policy->gate, memory_order_relaxed);
    bool leased = FACET_GATE_STATE(gate) == FACET_GATE_LEASED, open = FACET_GATE_STATE(gate) == FACET_GATE_OPEN;
    uint64_t charged_ns = open ? 0 : estimate_ns;
    uint64_t before = atomic_fetch_add_explicit(&shard->inflight, facet_inflight(1, charged_ns), memory_order_seq_cst);

    if (!facet_inflight_count(before))
        facet_tenant_shard_begins(shard);
    if (__builtin_expect(atomic_load_explicit(&tenant->policy->gate, memory_order_seq_cst) == gate &&
                             !atomic_load_explicit(&tenant->orphan, memory_order_relaxed) &&
                             (open || (leased && facet_tenant_fits_in(tenant, shard, before, charged_ns))),
                         1))
        return charged_ns;
    return facet_tenant_launch_wait(tenant, shard, estimate_ns, charged_ns);
}

/*
 * Reports `count` launches complete at `now_ns`, with the sum of their charges and their device time that was not
 * reported before (overlaps once). Wakes threads waiting for depth and, while not alone on the device, the scheduler.
 */
void facet_tenant_complete_in(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint32_t count,
                              uint64_t estimate_ns, uint64_t busy_ns, uint64_t now_ns);

/* Takes back a launch that the driver refused: no launch is counted as run. */
void facet_tenant_refused_in(struct facet_tenant *tenant, struct facet_slot_shard *shard, uint64_t charged_ns);

/* facet_tenant_launch_in() and its end for a caller that counts all launches in one shard. */
static inline uint64_t facet_tenant_launch(struct facet_tenant *tenant, uint64_t estimate_ns)
{
    return facet_tenant_launch_in(tenant, &tenant->slot->shards[0], estimate_ns);
}

static inline void facet_tenant_complete(struct facet_tenant *tenant, uint32_t count, uint64_t estimate_ns,
                                         uint64_t busy_ns, uint64_t now_ns)
{
    facet_tenant_complete_in(tenant, &tenant->slot->shards[0], count, estimate_ns, busy_ns, now_ns);
}

static inline void facet_tenant_refused(struct facet_tenant *tenant, uint64_t charged_ns)
{
    facet_tenant_refused_in(tenant, &tenant->slot->shards[0], charged_ns);
}

/*
 * Records the time from which on device time of the work in flight is unreported: a process that is killed is charged
 * from that time on. Without this call it is charged from the time when it last had nothing in flight. A time before
 * the recorded one is ignored.
 */
void facet_tenant_set_unsettled_since(struct facet_tenant *tenant, uint64_t since_ns);

/* Whether completions must be reported within microseconds (others wait) or may be batched by the millisecond. */
static inline bool facet_tenant_reports_promptly(const struct facet_tenant *tenant)
{
    return FACET_GATE_STATE(atomic_load_explicit(&tenant->policy->gate, memory_order_acquire)) != FACET_GATE_OPEN;
}

/* Shows that this process lives, and notices that the daemon has gone or come back. Call every few milliseconds while
 * work is in flight. */
void facet_tenant_supervise(struct facet_tenant *tenant, uint64_t now_ns);

#endif
