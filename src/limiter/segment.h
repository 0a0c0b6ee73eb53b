/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared segment of one vGPU: the only memory that a tenant process and the daemon both see.
 *
 * Owns: the layout of its three files, their validation, and the sums over them.
 * Never: decides which vGPU runs (src/compute does), or blocks, except in facet_futex_wait().
 *
 * A folder <runtime>/vgpu/<id>/ holds
 *   policy   written by the owner, mapped read-only by tenants: limits, the gate, freezing, the heartbeat
 *   usage    written by tenants, one slot per process: memory held, work in flight, counters
 *   device   a hard link to the device's lock file, which is empty: processes of all its vGPUs take turns by its lock
 *   belief   the owner alone uses it: which numbers of `usage` it believes (owner_belief.c)
 *   refused  a record of each process that could not enter the vGPU (refused.h)
 * A container has the folder read-only, and over it `usage` and `refused` writable (apps/facetd/workload.c): its root
 * can change no word of `policy`, and remove no file. No process maps a file that another vGPU's process can write, so
 * a process that truncates a file harms its own vGPU alone. The owner (owner.h) is the daemon, or a host program that
 * limits its own work (facet/limiter.h).
 *
 * Rules that make it correct when any process is killed between any two instructions:
 *  - A process owns a slot while it holds the open-file-description lock on the slot's byte of `usage`. The kernel
 *    drops that lock on death; nothing else shows that a process lives. Process ids in slots are for people to read.
 *  - A slot never moves. Its cumulative counters are never reset, not even when another process takes it, because
 *    totals are sums over all slots.
 *  - Memory held is the sum of `memory_bytes` and `regions` over the slots. A process first adds the wanted amount to
 *    its own slot, then sums, and takes it back when the sum exceeds the quota. So no other word can disagree with the
 *    sum. Storing 0 to both words of a dead process's slot, while holding the slot's lock, gives its memory back.
 *  - Spare regions hold no memory, but a process that sums adds them too. So the process that has them may use them
 *    again without a sum. A process that would be refused takes all processes' spare regions back first (ADR 24).
 *  - A process may die before it reports its device time. The process that clears its slot then charges that time: from
 *    `unsettled_since_ns`, or from the oldest launch in flight if that is later, for as long as it can have lived.
 *  - No process waits on a writer: there are no locks in the segment, and every wait has a timeout.
 *
 * Versions: `policy` and `usage` of version 7 have the same size, and zeros where version 8 has new members, so both
 * versions are read here. A segment keeps its version while processes are in it. In version 7 one file for all vGPUs of
 * the device, `bell`, has the words `rings` and `sleeping` (struct facet_bell), and stands for `device`.
 */
#ifndef FACET_LIMITER_SEGMENT_H
#define FACET_LIMITER_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <facet/error.h>
#include <facet/limiter.h>
#include <facet/limits.h>

#define FACET_SEGMENT_VERSION       8u
#define FACET_SEGMENT_VERSION_LEAST 7u                           /* the oldest that this release reads and writes */
#define FACET_POLICY_MAGIC          UINT64_C(0x30594c4f50434146) /* "FACPOLY0" */
#define FACET_USAGE_MAGIC           UINT64_C(0x3047415355434146) /* "FACUSAG0" */
#define FACET_BELL_MAGIC            UINT64_C(0x304c4c4542434146) /* "FACBELL0" */

/*
 * The most processes of a vGPU at a time. The file has room for all these slots. Those beyond the first
 * FACET_SEGMENT_SLOTS_FIRST get memory when a process needs them (slot.h), and no loop goes further than slots_used.
 */
#define FACET_SEGMENT_SLOTS       4096u
#define FACET_SEGMENT_SLOTS_FIRST 64u
#define FACET_SLOT_SHARDS         8u

/* A tenant treats the daemon as gone when its heartbeat is older than this, and paces itself (tenant.h). */
#define FACET_HEARTBEAT_STALE_NS UINT64_C(400000000)

/*
 * State of the gate, the low two bits of facet_policy.gate. The other bits count changes, so that no wake-up is lost.
 */
enum facet_gate {
    FACET_GATE_CLOSED = 0, /* launches wait */
    FACET_GATE_LEASED = 1, /* launches go up to the depth; completions are reported promptly */
    FACET_GATE_OPEN = 2,   /* alone on the device: launches go, completions are reported lazily */
    FACET_GATE_PACED = 3,  /* no scheduler shares the device out: launches keep to the compute limit by themselves */
};
#define FACET_GATE_STATE(word) ((enum facet_gate)((word)&3u))

/*
 * Frozen resources (FACET_RESOURCE_*) in facet_policy.frozen. The low half has the resources that a user froze, the
 * high half the resources that were frozen because the vGPU was idle. Freezing compute also closes the gate, so a
 * launch does not read this word; an allocation does.
 */
#define FACET_FROZEN_RESOURCES       (FACET_RESOURCE_MEMORY | FACET_RESOURCE_COMPUTE)
#define FACET_FROZEN_AUTO(resources) ((uint32_t)(resources) << 16)

/* The device of the vGPU, as the interposer recognises it. */
struct facet_segment_device {
    char id[64]; /* "opencl:0" */
    char name[128];
    char address[256]; /* facet_device_info.address */
    uint64_t memory_bytes;
};

struct facet_policy {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    char vgpu_id[64];
    char vgpu_name[FACET_NAME_SIZE];
    struct facet_segment_device device;
    /* Only the owner uses the next two members. They are kept here so that they outlive the owner. */
    _Atomic uint64_t idle_freeze_ns[2]; /* by bit of FACET_RESOURCE_*: frozen after this time without use; 0 = never */
    _Atomic uint64_t frozen_since_ns;   /* CLOCK_REALTIME of when `frozen` left 0 */

    _Alignas(64) _Atomic uint32_t gate; /* futex word: state and change counter */
    _Atomic uint32_t frozen;  /* futex word: frozen resources; a freeze by hand holds even when the daemon is gone */
    _Atomic uint32_t retired; /* 1: the vGPU was destroyed while tenants used it; nothing is admitted any more */
    _Atomic uint32_t memory_limit_sequence; /* sequence lock of memory_limit_bytes; odd: a change is under way */
    _Atomic uint64_t heartbeat_ns;          /* CLOCK_MONOTONIC of the daemon's last sign of life */
    _Atomic uint64_t depth_ns;              /* how much estimated work may be in flight while leased */
    _Atomic uint64_t memory_limit_bytes;
    _Atomic uint32_t compute_request_milli;
    _Atomic uint32_t compute_limit_milli;
    _Atomic uint32_t fallback_milli; /* the share to keep to while the daemon is gone */
    _Atomic uint32_t mode;
    _Atomic uint32_t priority;
    /* Oversubscription: whether the vGPU's memory may be swapped, and how much of it may be on the device just now. */
    _Atomic uint32_t oversubscribed;
    _Atomic uint32_t residence; /* futex word: counts changes of resident_most_bytes */
    _Atomic uint64_t resident_most_bytes;
    /*
     * For a device that runs launched work in order: when the last work of other vGPUs on it ended. Work launched since
     * then cannot have begun before that. Low bit set: an upper bound (facet_idle_since()). 0: unknown.
     */
    _Atomic uint64_t others_ended_ns;
    /* The vGPU's device time as the owner's scheduler settled it; see struct facet_device_time. */
    _Alignas(64) _Atomic uint64_t settled_at_ns;
    _Atomic uint64_t settled_measured_ns, settled_ns, published_ns;
    /* Since version 8. */
    _Atomic uint32_t claim_milli; /* the vGPU's part of the time in which no scheduler settles */
    _Atomic uint32_t sleeping;    /* 1 while the device's scheduler sleeps: only then is the wake-up call made */
};
_Static_assert(sizeof(struct facet_policy) == 832, "the size of all versions since 7");

/* A value of others_ended_ns: work of other vGPUs is still on the device. */
#define FACET_OTHERS_RUNNING UINT64_C(1)

/*
 * Values of resident_most_bytes. ALL: all memory of the vGPU may be on the device. LAST: the same, and no other vGPU is
 * left that could make room.
 */
#define FACET_RESIDENT_ALL  UINT64_MAX
#define FACET_RESIDENT_LAST (UINT64_MAX - 1)

/* Whether the daemon's heartbeat is stale. */
static inline bool facet_policy_is_orphan(const struct facet_policy *policy, uint64_t now_ns)
{
    return now_ns > atomic_load_explicit(&policy->heartbeat_ns, memory_order_relaxed) + FACET_HEARTBEAT_STALE_NS;
}

/* The share that the vGPU keeps to where no scheduler hands device time out. */
static inline uint32_t facet_policy_pace_milli(const struct facet_policy *policy, bool orphan)
{
    return atomic_load_explicit(orphan ? &policy->fallback_milli : &policy->compute_limit_milli, memory_order_relaxed);
}

/*
 * The launches of some of a process's threads, on a cache line of its own: threads that launch at once share no word
 * that is written. A launch leaves the shard in which it was counted, so no shard is ever below 0.
 */
struct facet_slot_shard {
    _Alignas(64) _Atomic uint64_t inflight; /* launches submitted and not known to be complete, and their charge */
    _Atomic uint64_t begun_ns;              /* since when launches have been in flight; valid while any is */
    _Atomic uint64_t local_depth_ns;        /* work that may be admitted without reading the other shards (tenant.h) */
};

/*
 * Small blocks are charged by whole regions of addresses (ADR 23). The low half of facet_slot.regions counts the
 * regions that a process holds, the high half its spare regions. One compare-and-swap moves a region from one half to
 * the other, so no sum counts a region twice or misses it.
 */
#define FACET_REGION_BITS       21u
#define FACET_REGION_BYTES      (UINT64_C(1) << FACET_REGION_BITS)
#define FACET_SPARE_REGION      (UINT64_C(1) << 32)
#define FACET_SPARE_REGIONS_MAX 4u

static inline uint64_t facet_regions_held(uint64_t regions)
{
    return (uint32_t)regions;
}

static inline uint64_t facet_regions_spare(uint64_t regions)
{
    return regions >> 32;
}

/*
 * One process's part of the file: three cache lines (memory and waiting threads, counters, the state of swapping), and
 * the shards of its launches.
 */
struct facet_slot {
    _Alignas(64) _Atomic uint64_t memory_bytes;
    _Atomic uint64_t idle_since_ns;      /* when work last ended; odd: an upper bound, see facet_idle_since() */
    _Atomic uint32_t shards_used;        /* one past the highest shard used; raised before a launch is counted there */
    _Atomic uint32_t waiting;            /* threads waiting to launch */
    _Atomic uint32_t completions;        /* futex word: counts completions reported */
    _Atomic uint32_t pid;                /* for people to read; 0: the slot is free */
    _Atomic uint64_t start_ticks;        /* start time of pid, field 22 of /proc/pid/stat */
    _Atomic uint32_t allocating;         /* threads whose allocation waits because memory is frozen */
    _Atomic uint64_t unsettled_since_ns; /* busy_ns includes all known device time up to this moment */
    _Atomic uint64_t regions;            /* held and spare */

    _Alignas(64) _Atomic uint64_t busy_ns; /* device time, overlaps counted once; cumulative, like the next three */
    _Atomic uint64_t launches;
    _Atomic uint64_t throttled_ns; /* time threads waited to launch */
    _Atomic uint64_t denied;       /* allocations refused for quota */
    char comm[16];
    _Atomic uint64_t alive_ns; /* when the process last showed that it lives: every few milliseconds while it works */

    _Alignas(64) _Atomic uint64_t swappable_bytes; /* of memory_bytes: memory that can leave the device */
    _Atomic uint64_t resident_bytes;               /* of swappable_bytes: bytes that are on the device */
    _Atomic uint64_t refused_bytes;                /* bytes that the device refused to a thread bringing memory in */
    _Atomic uint64_t last_used_ns;                 /* when a call last used swappable memory */
    _Atomic uint32_t waiting_resident;             /* threads that wait until all its memory is on the device */
    _Atomic uint32_t cannot_swap;                  /* 1: the host has no memory to swap its memory to */

    struct facet_slot_shard shards[FACET_SLOT_SHARDS];
};
_Static_assert(sizeof(struct facet_slot) == 192 + 64 * FACET_SLOT_SHARDS, "three cache lines a slot, and its shards");

/*
 * facet_slot_shard.inflight has the number of launches in the low bits and their charge above. So one addition admits a
 * launch and returns the state before it. The end of a launch subtracts the amount that was added, so an overflow makes
 * wrong only what is read before that end. For the same reason the words of several shards may be added up.
 */
#define FACET_INFLIGHT_BITS 24

static inline uint64_t facet_inflight(uint32_t count, uint64_t charged_ns)
{
    return charged_ns << FACET_INFLIGHT_BITS | count;
}

static inline uint32_t facet_inflight_count(uint64_t inflight)
{
    return (uint32_t)(inflight & ((UINT64_C(1) << FACET_INFLIGHT_BITS) - 1));
}

static inline uint64_t facet_inflight_ns(uint64_t inflight)
{
    return inflight >> FACET_INFLIGHT_BITS;
}

/*
 * The time when work ended, with a flag in its lowest bit. `late`: `end_ns` is the time at which a thread found the
 * work complete, so it is an upper bound. The flag costs a nanosecond of precision.
 */
static inline uint64_t facet_idle_since(uint64_t end_ns, bool late)
{
    return late ? end_ns | 1 : end_ns & ~UINT64_C(1);
}

static inline bool facet_idle_is_late(uint64_t idle_since_ns)
{
    return idle_since_ns & 1;
}

/* Tenants can write the page, so the count is bounded: no value in it makes a loop run past the existing shards. */
static inline uint32_t facet_slot_shards(const struct facet_slot *slot)
{
    uint32_t used = atomic_load_explicit(&slot->shards_used, memory_order_seq_cst);

    return used < FACET_SLOT_SHARDS ? used : FACET_SLOT_SHARDS;
}

/*
 * A process's launches in flight. Each shard is read once: a launch that moves between shards meanwhile may be missed.
 * A caller that closed the gate first misses none, because no further launch is admitted.
 */
static inline uint64_t facet_slot_inflight(const struct facet_slot *slot)
{
    uint64_t sum = 0;

    for (uint32_t i = 0, used = facet_slot_shards(slot); i < used; i++)
        sum += atomic_load_explicit(&slot->shards[i].inflight, memory_order_seq_cst);
    return sum;
}

struct facet_usage {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    uint32_t slot_count;
    _Atomic uint32_t slots_used; /* one past the highest slot ever owned; only grows */
    _Atomic uint64_t memory_peak_bytes;
    /* The vGPU's budget of device time where no scheduler hands it out (pace.h), agreed by compare-and-swap. */
    _Alignas(64) _Atomic uint64_t pace_ns;
    uint64_t unused; /* in version 7: claimed device time */
    /* Since version 8: futex word. A process raises it when the device's scheduler must look at the vGPU soon. */
    _Atomic uint32_t rings;

    struct facet_slot slots[FACET_SEGMENT_SLOTS];
};
_Static_assert(offsetof(struct facet_usage, slots) == 128, "the place of the slots in all versions since 7");

/* In version 7: the doorbell that all vGPUs of a device share. */
struct facet_bell {
    uint64_t magic;
    _Atomic uint32_t rings, sleeping;
    _Alignas(64) uint64_t unused;
};
_Static_assert(sizeof(struct facet_bell) == 128, "the size in version 7");

/* Byte of `usage` whose lock shows that a slot is owned; and the byte that the holder of an ephemeral vGPU locks. */
#define FACET_SLOT_LOCK_OFFSET(slot) ((off_t)(1 + (slot)))
#define FACET_HOLDER_LOCK_OFFSET     ((off_t)0)

struct facet_usage_totals {
    uint64_t memory_bytes, memory_peak_bytes;
    uint64_t busy_ns, launches, throttled_ns, denied;
    uint64_t slot_busy_ns; /* the most device time of a slot */
    uint32_t inflight, waiting, allocating, processes;
    uint32_t slots_used;    /* 0: no process was ever in the vGPU */
    uint64_t inflight_ns;   /* charged for the launches in flight */
    uint64_t idle_since_ns; /* the latest of the slots */
    uint64_t swappable_bytes, resident_bytes, refused_bytes, last_used_ns;
    uint32_t waiting_resident, cannot_swap;
};

/*
 * Device time as it is published. Where vGPUs of a device overlap, each measures the same moment in full (busy_ns of
 * the slots); a scheduler settles that against the time that passed (compute/settle.h).
 */
struct facet_device_time {
    uint64_t at_ns;        /* CLOCK_MONOTONIC of the settlement; 0: no scheduler settles, so the measured time counts */
    uint64_t measured_ns;  /* measured time that was settled */
    uint64_t settled_ns;   /* cumulative */
    uint64_t published_ns; /* like settled_ns, but in no window do all vGPUs of the device gain more than it lasts */
    uint32_t part_milli;   /* the part of the device that the vGPU has to itself: measured time is scaled by it */
    uint32_t claim_milli;  /* the vGPU's part of the time since the settlement, while no scheduler settles it */
};

struct facet_device_time facet_policy_device_time(const struct facet_policy *policy);

/*
 * All device time of a vGPU whose processes measured `measured_ns`: the settled part, and what it measured since, up to
 * its part of the time that has passed. The parts of all vGPUs add up to the whole, so their device times never add up
 * to more than has passed, although no word is shared. It is never more than was measured. The caller reads `time`
 * before `measured_ns`, because both grow.
 */
uint64_t facet_device_time_total(const struct facet_device_time *time, uint64_t measured_ns, uint64_t now_ns);

/* The published part of facet_device_time_total() at `now_ns`; all of it when no scheduler settles any more. */
uint64_t facet_device_time_published(const struct facet_device_time *time, uint64_t measured_ns, uint64_t now_ns);

/* Sums over the slots. Wait-free; each word is read once, so a total is exact only while nothing runs. */
void facet_usage_sum(const struct facet_usage *usage, struct facet_usage_totals *ret_totals);

/* The measured device time alone. */
uint64_t facet_usage_busy(const struct facet_usage *usage);

/* The memory that a process holds, without its spare regions. */
uint64_t facet_slot_memory(const struct facet_slot *slot);

/*
 * facet_usage_memory() returns the sum of facet_slot_memory() over the slots. facet_usage_charged() adds all spare
 * regions: admission compares this sum with the quota. facet_usage_take_spares() takes all processes' spare regions
 * back, then returns facet_usage_memory().
 */
uint64_t facet_usage_memory(const struct facet_usage *usage);
uint64_t facet_usage_charged(const struct facet_usage *usage);
uint64_t facet_usage_take_spares(struct facet_usage *usage);

/* Takes a process's spare regions back; returns the memory that it holds then. */
uint64_t facet_slot_take_spares(struct facet_slot *slot);

/* Checks of a mapped page; each names the file and the field that is wrong (FACET_CORRUPT, FACET_ABI_MISMATCH). */
enum facet_status facet_policy_check(const struct facet_policy *policy, size_t size, const char *path,
                                     struct facet_error *error);
enum facet_status facet_usage_check(const struct facet_usage *usage, size_t size, const char *path,
                                    struct facet_error *error);
enum facet_status facet_bell_check(const struct facet_bell *bell, size_t size, const char *path,
                                   struct facet_error *error);

/*
 * Maps `name` in the folder `dir_fd`. `writable` chooses the protection. The file must be a regular file of at least
 * `minimum` bytes. On success the caller owns the mapping (munmap *ret_size bytes) and the descriptor.
 */
enum facet_status facet_segment_map(int dir_fd, const char *name, bool writable, size_t minimum, void **ret_address,
                                    size_t *ret_size, int *ret_fd, struct facet_error *error);

/*
 * Raises `rings`, and wakes the scheduler if it sleeps. It sets `sleeping` before it waits for `rings` to change. So
 * either it sees the ring, or this thread sees `sleeping`.
 */
void facet_ring(_Atomic uint32_t *rings, const _Atomic uint32_t *sleeping);

/* Futex calls on words shared between processes. `timeout_ns` is relative. Returns false on timeout. */
bool facet_futex_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
void facet_futex_wake(const _Atomic uint32_t *word);

#endif
