/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of the limiter: the hold that the daemon, or a host (facet/limiter.h), has on one vGPU's segment.
 *
 * Owns: creating, adopting and removing the segment's folder; writing the policy; freezing by hand and for
 * idleness; reclaiming dead processes. Never: decides shares (src/compute does), or trusts more of a tenant's page than
 * integers.
 *
 * Thread rule: one thread at a time per segment, except facet_owner_totals() (any thread).
 */
#ifndef FACET_LIMITER_OWNER_H
#define FACET_LIMITER_OWNER_H

#include "limiter/segment.h"

struct facet_owner; /* opaque */

struct facet_owner_spec {
    const char *vgpu_id, *vgpu_name;
    struct facet_segment_device device;
    struct facet_limits limits; /* memory_bytes already resolved (not 0) */
    bool oversubscribed;        /* the vGPU's memory may be swapped to host memory, if the interposer can do that */
};

/*
 * The lock file of a device, <device>.lock: makes it, which may be there already. It is empty, and no process maps it.
 */
#define FACET_DEVICE_LOCK_ENDING ".lock"
#define FACET_DEVICE_PATH_SIZE   1100
enum facet_status facet_device_lock_make(const char *path, struct facet_error *error);

/* Makes sure that the segment folder `dir` has a link to the device's lock file. */
enum facet_status facet_owner_link_device(const char *dir, const char *lock_path, struct facet_error *error);

/*
 * The doorbell of a device's segments of version 7, <device>.bell beside the lock file: its path, and its mapping.
 * FACET_NOT_FOUND: the device never had a segment of that version.
 */
void facet_device_bell_path(const char *lock_path, char ret_path[FACET_DEVICE_PATH_SIZE]);
enum facet_status facet_bell_open(const char *path, struct facet_bell **ret_bell, struct facet_error *error);
void facet_bell_unmap(struct facet_bell *bell);

/*
 * Creates the folder `dir` with its files; space is allocated at once so that a full disk is an error here and never a
 * bus error later. On failure nothing is left behind. `lock_path` must exist (facet_device_lock_make) on the same file
 * system.
 */
enum facet_status facet_owner_create(const char *dir, const struct facet_owner_spec *spec, const char *lock_path,
                                     struct facet_owner **ret_owner, struct facet_error *error);

/*
 * Adopts the folder of an earlier owner: validates it against `spec` (id and device must agree), keeps usage and the
 * frozen resources, and writes the limits of `spec`. A folder of version 7 becomes one of the present version, unless a
 * process or a holder has it. Without a `spec` the folder is adopted unchanged. FACET_NOT_FOUND when there is no
 * folder, FACET_CORRUPT when it cannot be used.
 */
enum facet_status facet_owner_adopt(const char *dir, const struct facet_owner_spec *spec,
                                    struct facet_owner **ret_owner, struct facet_error *error);

/* Unmaps; the folder stays. NULL is allowed. */
void facet_owner_close(struct facet_owner *owner);

/* Removes the folder's files and the folder. Living tenants keep their mapping, and find the gate as it was left. */
enum facet_status facet_owner_remove(const char *dir, struct facet_error *error);

void facet_owner_set_limits(struct facet_owner *owner, const struct facet_limits *limits);
void facet_owner_set_fallback(struct facet_owner *owner, uint32_t milli);
/* The vGPU's part of the time in which no scheduler settles (facet_device_time_total()). */
void facet_owner_set_claim(struct facet_owner *owner, uint32_t milli);

/* While `sleeping` is set, processes wake the threads that wait for the word that facet_owner_rings() returns. */
void facet_owner_set_sleeping(struct facet_owner *owner, bool sleeping);
const _Atomic uint32_t *facet_owner_rings(const struct facet_owner *owner);

void facet_owner_set_depth(struct facet_owner *owner, uint64_t depth_ns);
void facet_owner_set_others_ended(struct facet_owner *owner, uint64_t others_ended_ns);

/* The vGPU's settled device time, as this owner's scheduler or the previous owner's settled it. */
void facet_owner_set_device_time(struct facet_owner *owner, const struct facet_device_time *time);
struct facet_device_time facet_owner_device_time(const struct facet_owner *owner);

/*
 * Whether the vGPU was made with oversubscription; how much of its swappable memory may be on the device from now on.
 */
bool facet_owner_is_oversubscribed(const struct facet_owner *owner);
void facet_owner_set_resident_most(struct facet_owner *owner, uint64_t bytes);

/* Refuses everything from now on: the vGPU is destroyed under its tenants. Their calls fail instead of running
 * unlimited. */
void facet_owner_retire(struct facet_owner *owner);

/*
 * Freezing by hand: exactly `resources` (FACET_RESOURCE_*) are frozen from now on; a resource that thaws counts as
 * used. The gate does not change: the caller closes it while facet_owner_frozen() or facet_owner_auto_frozen() includes
 * compute.
 */
void facet_owner_set_frozen(struct facet_owner *owner, uint32_t resources);
uint32_t facet_owner_frozen(const struct facet_owner *owner);
uint32_t facet_owner_auto_frozen(const struct facet_owner *owner);
uint64_t facet_owner_frozen_since_ns(const struct facet_owner *owner); /* CLOCK_REALTIME; 0 when nothing is frozen */

/* From now on `resources` freeze after `idle_ns` without use (0: never). */
void facet_owner_set_idle_freeze(struct facet_owner *owner, uint32_t resources, uint64_t idle_ns);

/*
 * Compares totals with those of the last tick (call). It freezes resources that have been idle for long enough, and
 * resumes resources that are used or waited for. Call it with all new totals. Compute is used while launches run or
 * wait. Memory is used when compute is, when the held bytes or the refusals change, or when an allocation waits.
 * Returns the resources that are frozen for idleness.
 */
uint32_t facet_owner_update_idle_freeze(struct facet_owner *owner, const struct facet_usage_totals *totals,
                                        uint64_t now_ns);

/* `resources` are used now: ends their automatic freeze. For uses that the totals do not show. */
void facet_owner_note_use(struct facet_owner *owner, uint32_t resources, uint64_t now_ns);

/* The time since the last use of any resource that the last tick saw. */
uint64_t facet_owner_idle_ns(const struct facet_owner *owner, uint64_t now_ns);

/* Changes the gate and wakes the threads that wait on it; does nothing when it is in that state already. */
void facet_owner_set_gate(struct facet_owner *owner, enum facet_gate gate);
enum facet_gate facet_owner_gate(const struct facet_owner *owner);

void facet_owner_set_heartbeat(struct facet_owner *owner, uint64_t now_ns);

/* Takes the memory and the in-flight counts of dead processes back. Returns how many slots were reclaimed. */
unsigned facet_owner_reap(struct facet_owner *owner);

/*
 * Like facet_owner_reap(), but for the next 256 slots; it starts over at the first slot after the last one. For a
 * caller that runs every few milliseconds.
 */
unsigned facet_owner_reap_some(struct facet_owner *owner);

/* The memory of the device that the vGPU is a part of, in bytes. */
uint64_t facet_owner_device_memory(const struct facet_owner *owner);

/*
 * Cuts files that processes of the vGPU write to their largest size, so that they cannot fill the file system. For a
 * caller that runs several times a second.
 */
void facet_owner_bound_files(struct facet_owner *owner);

/* Whether the files were damaged or removed since they were mapped; then nothing in them can be believed. */
bool facet_owner_damaged(const struct facet_owner *owner);

/* Whether a live process owns a slot, or a holder keeps the vGPU (facet_hold_acquire). */
bool facet_owner_in_use(const struct facet_owner *owner);

void facet_owner_totals(const struct facet_owner *owner, struct facet_usage_totals *ret_totals);

/*
 * Like facet_owner_totals(); returns which totals can be believed (FACET_BELIEVED_*), 0 for a damaged segment. Call
 * this function, or facet_owner_check_totals() with totals that were read already, at short intervals: the next reading
 * finds a counter that jumped, a much later one cannot. A total that was doubted once is doubted by every later owner.
 * Where the file that records the doubts was damaged, all totals except memory are doubted.
 */
uint32_t facet_owner_believed_totals(struct facet_owner *owner, struct facet_usage_totals *ret_totals);
void facet_owner_check_totals(struct facet_owner *owner, const struct facet_usage_totals *totals, uint64_t now_ns);

/*
 * The launch state in one process's slot, each word read once: first the count in flight, then the end of work and the
 * device time, so that the time of a launch that has left flight is in busy_ns.
 */
struct facet_owner_slot {
    uint32_t waiting, inflight;
    uint64_t inflight_ns, idle_since_ns;
    uint64_t begun_ns; /* since when something has been in flight; 0: nothing is */
    uint64_t busy_ns;  /* of all processes that ever had the slot; read after begun_ns */
    uint64_t alive_ns; /* when the process last gave a sign of life; 0: it never did */
};

/* Reads slot `index`, from 0 on; false past the last slot. A slot that no process owns has no work in flight. */
bool facet_owner_read_slot(const struct facet_owner *owner, uint32_t index, struct facet_owner_slot *ret_slot);

/*
 * Keeps an ephemeral vGPU alive until the caller closes the descriptor (`facet run`). The descriptor is close-on-exec.
 */
enum facet_status facet_hold_acquire(const char *dir, int *ret_fd, struct facet_error *error);

/* Whether a live process or a holder has the segment folder `dir`, which needs no owner and may be damaged. */
enum facet_status facet_segment_in_use(const char *dir, bool *ret_in_use, struct facet_error *error);

/* facet_owner_retire() for a segment folder without an owner, which may be damaged. */
enum facet_status facet_segment_retire(const char *dir, struct facet_error *error);

/* Reads totals of any segment folder without owning it (`facet run --report`). */
enum facet_status facet_segment_read_totals(const char *dir, struct facet_usage_totals *ret_totals,
                                            struct facet_error *error);

/* The device time of the vGPU of a segment folder (facet_device_time_total()), after the scheduler has settled it. */
enum facet_status facet_segment_read_device_time(const char *dir, uint64_t *ret_device_time_ns,
                                                 struct facet_error *error);

/* The device that the vGPU of a segment folder stands for, without owning it (`facet run`: how programs enter). */
enum facet_status facet_segment_read_device(const char *dir, struct facet_segment_device *ret_device,
                                            struct facet_error *error);

/* A process in a segment, as the process itself wrote it: its pid is that of its own pid namespace. */
struct facet_segment_process {
    uint32_t pid;
    uint64_t start_ticks; /* since the machine started; 0: not known */
};

/* The processes of any segment folder; `ret_processes` has room for FACET_SEGMENT_SLOTS. */
enum facet_status facet_segment_read_processes(const char *dir, struct facet_segment_process *ret_processes,
                                               uint32_t *ret_count, struct facet_error *error);

/*
 * A process as the calling process sees it. facet_process_identify() returns false if it has ended or is not visible.
 */
struct facet_process_identity {
    uint32_t pid, inner_pid;
    uint64_t start_ticks;
};
bool facet_process_identify(int32_t pid, struct facet_process_identity *ret_identity);
bool facet_process_lives(const struct facet_process_identity *process);

/*
 * Finds a living process that has the policy of `vgpu_id` mapped although its folder `dir` is missing: what it holds
 * stays held. `retire`: refuses further memory and launches to all such processes. A caller without the rights of root
 * finds processes of its own user in its own mount namespace, and retires none.
 */
bool facet_segment_find_lost(const char *dir, const char *vgpu_id, bool retire,
                             struct facet_process_identity *ret_process);

bool facet_segment_process_is(const struct facet_segment_process *process,
                              const struct facet_process_identity *identity);

#endif
