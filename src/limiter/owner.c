/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the owner's side of a segment, see owner.h. Never: trusts the usage page, which tenants write: it reads each
 * integer there once.
 */
#include "limiter/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quiet.h"
#include "limiter/owner_inside.h"
#include "limiter/refused.h"
#include "limiter/slot.h"

#define LAUNCH_DEPTH_NS UINT64_C(2000000) /* facet_policy.depth_ns until the scheduler sets it */

/* How much of the usage file has blocks of the file system from the start. */
#define USAGE_ALLOCATED_BYTES                                                                                          \
    (offsetof(struct facet_usage, slots) + FACET_SEGMENT_SLOTS_FIRST * sizeof(struct facet_slot))

static const char *const segment_files[] = {"policy", "usage",           FACET_DEVICE_FILE,
                                            "bell",   FACET_BELIEF_FILE, FACET_REFUSED_FILE};

/* A link in the place of a segment's folder may lead to another user's files: it is never followed. */
static int open_folder(const char *dir)
{
    return open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/*
 * Makes a file of `size` bytes and allocates the first `allocated_bytes` of them: a full tmpfs or disk is an error now,
 * not a bus error in a tenant later. The caller unlinks it when a later step fails.
 */
static enum facet_status make_file(int dir_fd, const char *name, size_t size, size_t allocated_bytes,
                                   void **ret_address, int *ret_fd, struct facet_error *error)
{
    FACET_CLEANUP_FD int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FACET_QUIET struct facet_quiet quiet = facet_quiet_begin();

    if (fd < 0)
        return facet_error_errno(error, errno, "creating segment file '%s'", name);

    int result = posix_fallocate(fd, 0, (off_t)allocated_bytes);
    if (!result && allocated_bytes < size && ftruncate(fd, (off_t)size) < 0)
        result = errno;
    if (result)
        return facet_error_errno(error, result, "allocating %zu bytes for segment file '%s'", allocated_bytes, name);

    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return facet_error_errno(error, errno, "mapping segment file '%s'", name);
    *ret_address = address;
    *ret_fd = FACET_TAKE_FD(fd);
    return FACET_OK;
}

static void fill_policy(struct facet_policy *policy, const struct facet_owner_spec *spec)
{
    policy->version = FACET_SEGMENT_VERSION;
    policy->size = sizeof *policy;
    snprintf(policy->vgpu_id, sizeof policy->vgpu_id, "%s", spec->vgpu_id);
    snprintf(policy->vgpu_name, sizeof policy->vgpu_name, "%s", spec->vgpu_name);
    policy->device = spec->device;
    atomic_store(&policy->depth_ns, LAUNCH_DEPTH_NS);
    atomic_store(&policy->fallback_milli, FACET_MILLI_WHOLE);
    policy->magic = FACET_POLICY_MAGIC;
}

static void fill_usage(struct facet_usage *usage)
{
    usage->version = FACET_SEGMENT_VERSION;
    usage->size = sizeof *usage;
    usage->slot_count = FACET_SEGMENT_SLOTS;
    usage->magic = FACET_USAGE_MAGIC;
}

static enum facet_status fill_folder(int dir_fd, const struct facet_owner_spec *spec, const char *lock_path,
                                     struct facet_owner *owner, struct facet_error *error)
{
    void *policy = NULL, *usage = NULL;

    enum facet_status status = make_file(dir_fd, "policy", sizeof(struct facet_policy), sizeof(struct facet_policy),
                                         &policy, &owner->policy_fd, error);
    owner->policy = policy;
    if (status == FACET_OK)
        status = make_file(dir_fd, "usage", sizeof(struct facet_usage), USAGE_ALLOCATED_BYTES, &usage, &owner->usage_fd,
                           error);
    owner->usage = usage;
    if (status == FACET_OK && linkat(AT_FDCWD, lock_path, dir_fd, FACET_DEVICE_FILE, 0) < 0)
        status = facet_error_errno(error, errno, "linking lock file '%s'", lock_path);
    if (status == FACET_OK)
        status = facet_refused_make(dir_fd, &owner->refused_fd, error);
    if (status != FACET_OK)
        return status;
    fill_policy(owner->policy, spec);
    fill_usage(owner->usage);
    facet_owner_set_limits(owner, &spec->limits);
    atomic_store(&owner->policy->oversubscribed, spec->oversubscribed);
    atomic_store(&owner->policy->resident_most_bytes, FACET_RESIDENT_ALL);
    return facet_owner_belief_open(owner, dir_fd, error);
}

/* Files that are missing count as removed. Returns rmdir's result. */
static int remove_files(const char *dir)
{
    FACET_CLEANUP_FD int dir_fd = open_folder(dir);

    for (size_t i = 0; dir_fd >= 0 && i < sizeof segment_files / sizeof segment_files[0]; i++)
        if (unlinkat(dir_fd, segment_files[i], 0) < 0 && errno == EISDIR) /* damage from outside */
            unlinkat(dir_fd, segment_files[i], AT_REMOVEDIR);
    return rmdir(dir);
}

/* Builds the folder under another name and renames it at the end, so that no process ever sees half a segment. */
static enum facet_status create_folder(const char *dir, const struct facet_owner_spec *spec, const char *lock_path,
                                       struct facet_owner *owner, struct facet_error *error)
{
    char temporary[1100];

    /* '~' occurs in no vGPU's name. */
    if (snprintf(temporary, sizeof temporary, "%s~new", dir) >= (int)sizeof temporary)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "path of segment folder '%s' is too long", dir);
    int made = mkdir(temporary, 0700);
    if (made < 0 && errno == EEXIST) { /* from an owner that was killed */
        remove_files(temporary);
        made = mkdir(temporary, 0700);
    }
    if (made < 0)
        return facet_error_errno(error, errno, "creating segment folder '%s'", temporary);

    FACET_CLEANUP_FD int dir_fd = open_folder(temporary);
    enum facet_status status = dir_fd < 0 ? facet_error_errno(error, errno, "opening segment folder '%s'", temporary)
                                          : fill_folder(dir_fd, spec, lock_path, owner, error);
    if (status == FACET_OK && renameat2(AT_FDCWD, temporary, AT_FDCWD, dir, RENAME_NOREPLACE) < 0)
        status = facet_error_errno(error, errno, "naming segment folder '%s'", dir);
    if (status != FACET_OK)
        remove_files(temporary);
    return status;
}

static struct facet_owner *owner_new(void)
{
    struct facet_owner *owner = calloc(1, sizeof *owner);

    if (owner)
        owner->policy_fd = owner->usage_fd = owner->belief_fd = owner->refused_fd = -1;
    return owner;
}

enum facet_status facet_owner_create(const char *dir, const struct facet_owner_spec *spec, const char *lock_path,
                                     struct facet_owner **ret_owner, struct facet_error *error)
{
    struct facet_owner *owner = owner_new();

    if (!owner)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for vGPU %s", spec->vgpu_id);
    enum facet_status status = create_folder(dir, spec, lock_path, owner, error);
    if (status != FACET_OK) {
        facet_owner_close(owner);
        return status;
    }
    *ret_owner = owner;
    return FACET_OK;
}

static enum facet_status check_identity(const struct facet_policy *policy, const struct facet_owner_spec *spec,
                                        struct facet_error *error)
{
    if (strcmp(policy->vgpu_id, spec->vgpu_id) != 0)
        return facet_error_set(error, FACET_CORRUPT, "segment belongs to vGPU '%s', not '%s'", policy->vgpu_id,
                               spec->vgpu_id);
    if (strcmp(policy->device.address, spec->device.address) != 0)
        return facet_error_set(error, FACET_CORRUPT, "segment is for device '%s', not '%s'", policy->device.address,
                               spec->device.address);
    return FACET_OK;
}

static enum facet_status map_folder(int dir_fd, struct facet_owner *owner, struct facet_error *error)
{
    void *policy, *usage;
    size_t policy_size = 0, usage_size = 0;

    enum facet_status status = facet_segment_map(dir_fd, "policy", true, sizeof(struct facet_policy), &policy,
                                                 &policy_size, &owner->policy_fd, error);
    if (status != FACET_OK)
        return status;
    owner->policy = policy;
    status = facet_segment_map(dir_fd, "usage", true, sizeof(struct facet_usage), &usage, &usage_size, &owner->usage_fd,
                               error);
    if (status != FACET_OK)
        return status;
    owner->usage = usage;
    status = facet_policy_check(policy, policy_size, "policy", error);
    if (status == FACET_OK)
        status = facet_usage_check(usage, usage_size, "usage", error);
    return status;
}

enum facet_status facet_owner_adopt(const char *dir, const struct facet_owner_spec *spec,
                                    struct facet_owner **ret_owner, struct facet_error *error)
{
    FACET_CLEANUP_FD int dir_fd = open_folder(dir);

    if (dir_fd < 0)
        return facet_error_errno(error, errno, "opening segment folder '%s'", dir);

    struct facet_owner *owner = owner_new();
    if (!owner)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for segment folder %s", dir);

    enum facet_status status = map_folder(dir_fd, owner, error);
    if (status == FACET_OK)
        status = spec ? check_identity(owner->policy, spec, error) : FACET_OK;
    if (status == FACET_OK)
        status = facet_owner_belief_open(owner, dir_fd, error);
    if (status == FACET_OK)
        status = facet_refused_make(dir_fd, &owner->refused_fd, error);
    if (status != FACET_OK) {
        facet_owner_close(owner);
        facet_error_prefix(error, "segment folder %s", dir);
        /* A folder without a file is as unusable as one with a wrong file: only a missing folder is "not found". */
        if (status == FACET_NOT_FOUND)
            status = FACET_CORRUPT;
        if (error)
            error->status = status;
        return status;
    }
    if (spec) {
        if (owner->policy->version != FACET_SEGMENT_VERSION && !facet_owner_in_use(owner))
            facet_segment_renew(owner);
        facet_owner_set_limits(owner, &spec->limits);
        atomic_store(&owner->policy->oversubscribed, spec->oversubscribed);
    }
    *ret_owner = owner;
    return FACET_OK;
}

void facet_owner_close(struct facet_owner *owner)
{
    if (!owner)
        return;
    if (owner->policy)
        munmap(owner->policy, sizeof *owner->policy);
    if (owner->usage)
        munmap(owner->usage, sizeof *owner->usage);
    const int fds[] = {owner->policy_fd, owner->usage_fd, owner->refused_fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    facet_owner_belief_close(owner);
    free(owner);
}

enum facet_status facet_owner_remove(const char *dir, struct facet_error *error)
{
    if (remove_files(dir) < 0 && errno != ENOENT)
        return facet_error_errno(error, errno, "removing segment folder '%s'", dir);
    return FACET_OK;
}

/*
 * Spare regions were granted under the old quota: the sequence tells their holders so before the new quota is visible.
 * An owner that dies in between leaves the sequence odd until the next owner sets the limit. With an odd sequence no
 * tenant uses spare regions.
 */
static void set_memory_limit(struct facet_policy *policy, uint64_t bytes)
{
    uint32_t odd_sequence = atomic_load(&policy->memory_limit_sequence) | 1;

    atomic_store(&policy->memory_limit_sequence, odd_sequence);
    atomic_store(&policy->memory_limit_bytes, bytes);
    atomic_store(&policy->memory_limit_sequence, odd_sequence + 1);
}

void facet_owner_set_limits(struct facet_owner *owner, const struct facet_limits *limits)
{
    struct facet_policy *policy = owner->policy;

    facet_owner_belief_raise_memory(owner, limits->memory_bytes); /* before any process can hold that much */
    set_memory_limit(policy, limits->memory_bytes);
    atomic_store(&policy->compute_request_milli, limits->compute_request_milli);
    atomic_store(&policy->compute_limit_milli, limits->compute_limit_milli);
    atomic_store(&policy->mode, limits->mode);
    atomic_store(&policy->priority, limits->priority);
}

void facet_owner_set_fallback(struct facet_owner *owner, uint32_t milli)
{
    atomic_store(&owner->policy->fallback_milli, milli);
}

void facet_owner_set_claim(struct facet_owner *owner, uint32_t milli)
{
    atomic_store(&owner->policy->claim_milli, milli);
}

void facet_owner_set_sleeping(struct facet_owner *owner, bool sleeping)
{
    atomic_store_explicit(&owner->policy->sleeping, sleeping, memory_order_seq_cst);
}

const _Atomic uint32_t *facet_owner_rings(const struct facet_owner *owner)
{
    return &owner->usage->rings;
}

void facet_owner_set_depth(struct facet_owner *owner, uint64_t depth_ns)
{
    atomic_store(&owner->policy->depth_ns, depth_ns);
}

void facet_owner_set_others_ended(struct facet_owner *owner, uint64_t others_ended_ns)
{
    if (atomic_load_explicit(&owner->policy->others_ended_ns, memory_order_relaxed) != others_ended_ns)
        atomic_store_explicit(&owner->policy->others_ended_ns, others_ended_ns, memory_order_relaxed);
}

/* An owner that is killed in between leaves no more time published than settled, and no more settled than measured. */
void facet_owner_set_device_time(struct facet_owner *owner, const struct facet_device_time *time)
{
    struct facet_policy *policy = owner->policy;

    atomic_store_explicit(&policy->settled_measured_ns, time->measured_ns, memory_order_relaxed);
    atomic_store_explicit(&policy->settled_ns, time->settled_ns, memory_order_release);
    atomic_store_explicit(&policy->published_ns, time->published_ns, memory_order_release);
    atomic_store_explicit(&policy->settled_at_ns, time->at_ns, memory_order_release);
}

struct facet_device_time facet_owner_device_time(const struct facet_owner *owner)
{
    return facet_policy_device_time(owner->policy);
}

bool facet_owner_is_oversubscribed(const struct facet_owner *owner)
{
    return atomic_load(&owner->policy->oversubscribed);
}

void facet_owner_set_resident_most(struct facet_owner *owner, uint64_t bytes)
{
    if (atomic_exchange(&owner->policy->resident_most_bytes, bytes) == bytes)
        return;
    atomic_fetch_add(&owner->policy->residence, 1);
    facet_futex_wake(&owner->policy->residence);
}

void facet_owner_retire(struct facet_owner *owner)
{
    atomic_store(&owner->policy->retired, 1);
    set_memory_limit(owner->policy, 0);
    /* The gate's word changes in any state, so waiting threads wake up and read `retired`. */
    atomic_store(&owner->policy->gate, ((atomic_load(&owner->policy->gate) & ~3u) + 4u) | FACET_GATE_CLOSED);
    facet_futex_wake(&owner->policy->gate);
    facet_futex_wake(&owner->policy->frozen);
    atomic_fetch_add(&owner->policy->residence, 1);
    facet_futex_wake(&owner->policy->residence);
}

enum facet_gate facet_owner_gate(const struct facet_owner *owner)
{
    return FACET_GATE_STATE(atomic_load(&owner->policy->gate));
}

void facet_owner_set_gate(struct facet_owner *owner, enum facet_gate gate)
{
    uint32_t word = atomic_load(&owner->policy->gate);

    if (FACET_GATE_STATE(word) == gate)
        return;
    atomic_store_explicit(&owner->policy->gate, ((word & ~3u) + 4u) | (uint32_t)gate, memory_order_seq_cst);
    facet_futex_wake(&owner->policy->gate);
}

void facet_owner_set_heartbeat(struct facet_owner *owner, uint64_t now_ns)
{
    atomic_store_explicit(&owner->policy->heartbeat_ns, now_ns, memory_order_relaxed);
}

unsigned facet_owner_reap(struct facet_owner *owner)
{
    return facet_slot_reclaim(owner->policy, owner->usage, owner->usage_fd);
}

uint64_t facet_owner_device_memory(const struct facet_owner *owner)
{
    return owner->policy->device.memory_bytes;
}

/*
 * Each slot takes a system call, so only some slots are checked at a time. Most vGPUs have fewer processes than that.
 */
#define REAP_SLOTS_AT_ONCE 256u

unsigned facet_owner_reap_some(struct facet_owner *owner)
{
    uint32_t used = atomic_load(&owner->usage->slots_used);

    if (owner->reap_from >= used)
        owner->reap_from = 0;
    unsigned reaped =
        facet_slot_reclaim_some(owner->policy, owner->usage, owner->usage_fd, owner->reap_from, REAP_SLOTS_AT_ONCE);
    owner->reap_from += REAP_SLOTS_AT_ONCE;
    return reaped;
}

void facet_owner_bound_files(struct facet_owner *owner)
{
    struct stat usage;

    facet_refused_bound(owner->refused_fd);
    if (fstat(owner->usage_fd, &usage) == 0 && usage.st_size > (off_t)sizeof *owner->usage &&
        ftruncate(owner->usage_fd, sizeof *owner->usage) < 0)
        return; /* on the next call again */
}

/* A file without a name: no process can enter by it, and it cannot be given a name again. */
static bool is_removed(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_nlink == 0;
}

bool facet_owner_damaged(const struct facet_owner *owner)
{
    return is_removed(owner->policy_fd) || is_removed(owner->usage_fd) ||
           facet_policy_check(owner->policy, sizeof *owner->policy, "policy", NULL) != FACET_OK ||
           facet_usage_check(owner->usage, sizeof *owner->usage, "usage", NULL) != FACET_OK;
}

bool facet_owner_in_use(const struct facet_owner *owner)
{
    return facet_slot_locked(owner->usage_fd, FACET_HOLDER_LOCK_OFFSET, FACET_SLOT_LOCK_OFFSET(FACET_SEGMENT_SLOTS));
}

void facet_owner_totals(const struct facet_owner *owner, struct facet_usage_totals *ret_totals)
{
    facet_usage_sum(owner->usage, ret_totals);
}
