/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: making, adopting, removing and maintaining workers. Never: keeps a worker whose segment it could not map. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/sized.h"
#include "limiter/belief.h"
#include "limiter/host.h"
#include "limiter/pace.h"

static void worker_path(const struct facet_limiter *limiter, const char *id, char *ret_path)
{
    snprintf(ret_path, FACET_HOST_PATH_SIZE, "%s/%s", limiter->dir, id);
}

/* ---- arguments ---- */

static enum facet_status check_text(const char *argument, const char *text, size_t size, struct facet_error *error)
{
    if (text && strlen(text) >= size)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, argument, "%s '%.64s...': expected at most %zu bytes",
                                    argument, text, size - 1);
    return FACET_OK;
}

/* The id names a file, the device's lock file. */
static enum facet_status check_device_id(const char *id, struct facet_error *error)
{
    if (!id || !*id || id[0] == '.' || strchr(id, '/'))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "device_id",
                                    "device id '%.64s': expected one like 'opencl:0', without '/' or a first '.'",
                                    id ? id : "NULL");
    return check_text("device_id", id, sizeof((struct facet_segment_device *)NULL)->id, error);
}

/* Makes the limits that are stored: a quota of 0 bytes becomes all memory of the device. */
static enum facet_status resolve_limits(const struct facet_limits *limits, uint64_t device_memory_bytes,
                                        struct facet_limits *ret_limits, struct facet_error *error)
{
    struct facet_limits resolved = *limits;

    enum facet_status status = facet_limits_check(limits, device_memory_bytes, error);
    if (status != FACET_OK)
        return status;
    if (!resolved.memory_bytes)
        resolved.memory_bytes = device_memory_bytes;
    if (!resolved.memory_bytes)
        return facet_error_argument(
            error, FACET_INVALID_ARGUMENT, "memory",
            "quota and device memory are both 0: expected a quota, or the size of the device's memory");
    *ret_limits = resolved;
    return FACET_OK;
}

static enum facet_status read_spec(const struct facet_limiter_worker *asked, struct facet_owner_spec *spec,
                                   struct facet_error *error)
{
    const char *address = asked->device_address ? asked->device_address : "";

    enum facet_status status = facet_check_name(asked->id, "id", error);
    if (status == FACET_OK)
        status = check_device_id(asked->device_id, error);
    if (status == FACET_OK)
        status = check_text("device_address", address, sizeof spec->device.address, error);
    *spec = (struct facet_owner_spec){.vgpu_id = asked->id, .vgpu_name = asked->id};
    if (status == FACET_OK)
        status = resolve_limits(&asked->limits, asked->device_memory_bytes, &spec->limits, error);
    if (status != FACET_OK)
        return status;
    spec->device.memory_bytes = asked->device_memory_bytes;
    snprintf(spec->device.id, sizeof spec->device.id, "%s", asked->device_id);
    snprintf(spec->device.address, sizeof spec->device.address, "%s", address);
    snprintf(spec->device.name, sizeof spec->device.name, "%s", asked->device_name ? asked->device_name : "");
    return FACET_OK;
}

static enum facet_status check_worker_spec(const struct facet_limiter *limiter,
                                           const struct facet_limiter_worker *asked, struct facet_error *error)
{
    if (!limiter)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "limiter", "NULL: expected an open limiter");
    if (!asked)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "worker", "NULL: expected a worker");
    enum facet_status status = facet_host_check_size("worker", asked->size, sizeof *asked, error);
    if (status == FACET_OK)
        status = facet_sized_known("worker", asked, sizeof *asked, error);
    if (status == FACET_OK)
        status = facet_sized_reserved("worker", &asked->reserved, sizeof asked->reserved, error);
    if (status == FACET_OK && !asked->id)
        status = facet_error_argument(error, FACET_INVALID_ARGUMENT, "id", "NULL: expected a worker's id");
    return status;
}

/* ---- making and adopting ---- */

static enum facet_status make_device_lock(const struct facet_limiter *limiter, const char *device_id, char *ret_path,
                                          struct facet_error *error)
{
    char dir[FACET_HOST_PATH_SIZE];

    snprintf(dir, sizeof dir, "%s/.devices", limiter->dir);
    if (snprintf(ret_path, FACET_HOST_PATH_SIZE, "%s/%s" FACET_DEVICE_LOCK_ENDING, dir, device_id) >=
        FACET_HOST_PATH_SIZE)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "path of the device's lock file in '%s' is too long", dir);
    enum facet_status status = facet_path_make(dir, 0700, error);
    return status == FACET_OK ? facet_device_lock_make(ret_path, error) : status;
}

static enum facet_status open_segment(const struct facet_limiter *limiter, const struct facet_owner_spec *spec,
                                      bool adopt, struct facet_owner **ret_owner, struct facet_error *error)
{
    char dir[FACET_HOST_PATH_SIZE], lock[FACET_HOST_PATH_SIZE];

    worker_path(limiter, spec->vgpu_id, dir);
    enum facet_status status = make_device_lock(limiter, spec->device.id, lock, error);
    if (status != FACET_OK)
        return status;
    if (!adopt)
        return facet_owner_create(dir, spec, lock, ret_owner, error);
    status = facet_owner_link_device(dir, lock, error);
    return status == FACET_OK ? facet_owner_adopt(dir, spec, ret_owner, error) : status;
}

/* Without a scheduler a worker keeps to its guarantee, or to its limit if it has no guarantee. */
static void set_fallback_share(struct facet_owner *owner, const struct facet_limits *limits)
{
    facet_owner_set_fallback(owner, limits->compute_request_milli ? limits->compute_request_milli
                                                                  : limits->compute_limit_milli);
}

/* Takes `owner` over, also on failure. */
static enum facet_status worker_new(const struct facet_limiter *limiter, const struct facet_owner_spec *spec,
                                    struct facet_owner *owner, struct facet_host_worker **ret_worker,
                                    struct facet_error *error)
{
    struct facet_host_worker *worker = calloc(1, sizeof *worker);
    char path[FACET_HOST_PATH_SIZE + 8];

    if (!worker) {
        facet_owner_close(owner);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for worker %s", spec->vgpu_id);
    }
    worker->owner = owner;
    worker->device_memory_bytes = spec->device.memory_bytes;
    snprintf(worker->id, sizeof worker->id, "%s", spec->vgpu_id);
    snprintf(path, sizeof path, "%s/%s/usage", limiter->dir, spec->vgpu_id);
    worker->slot_locks_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (worker->slot_locks_fd < 0) {
        enum facet_status status = facet_error_errno(error, errno, "opening segment file '%s'", path);
        facet_host_worker_close(worker);
        return status;
    }
    *ret_worker = worker;
    return FACET_OK;
}

static enum facet_status open_worker(struct facet_limiter *limiter, const struct facet_owner_spec *spec, bool adopt,
                                     struct facet_error *error)
{
    struct facet_host_worker *worker = NULL;
    struct facet_owner *owner = NULL;
    char dir[FACET_HOST_PATH_SIZE];

    if (facet_host_find_worker(limiter, spec->vgpu_id))
        return facet_error_argument(error, FACET_ALREADY_EXISTS, "id",
                                    "worker '%s' was created or adopted here already", spec->vgpu_id);
    enum facet_status status = open_segment(limiter, spec, adopt, &owner, error);
    if (status == FACET_OK)
        status = worker_new(limiter, spec, owner, &worker, error);
    if (status != FACET_OK) {
        worker_path(limiter, spec->vgpu_id, dir);
        if (owner && !adopt)
            facet_owner_remove(dir, NULL);
        return status;
    }
    set_fallback_share(worker->owner, &spec->limits);
    facet_owner_set_heartbeat(worker->owner, facet_clock_now_ns());
    facet_host_maintain_worker(worker, facet_clock_now_ns());
    worker->next = limiter->workers;
    limiter->workers = worker;
    return FACET_OK;
}

static enum facet_status begin_worker(struct facet_limiter *limiter, const struct facet_limiter_worker *asked,
                                      bool adopt, struct facet_error *error)
{
    struct facet_owner_spec spec;

    enum facet_status status = check_worker_spec(limiter, asked, error);
    if (status == FACET_OK)
        status = read_spec(asked, &spec, error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&limiter->lock);
    status = open_worker(limiter, &spec, adopt, error);
    pthread_mutex_unlock(&limiter->lock);
    return status;
}

enum facet_status facet_limiter_worker_create(struct facet_limiter *limiter, const struct facet_limiter_worker *worker,
                                              struct facet_error *error)
{
    return begin_worker(limiter, worker, false, error);
}

enum facet_status facet_limiter_worker_adopt(struct facet_limiter *limiter, const struct facet_limiter_worker *worker,
                                             struct facet_error *error)
{
    return begin_worker(limiter, worker, true, error);
}

/* ---- removing ---- */

void facet_host_worker_close(struct facet_host_worker *worker)
{
    if (!worker)
        return;
    for (uint32_t i = 0; i < worker->count; i++)
        if (worker->processes[i].pid)
            facet_host_forget_process(worker, i);
    if (worker->slot_locks_fd >= 0)
        close(worker->slot_locks_fd);
    facet_owner_close(worker->owner);
    free(worker);
}

static void unlink_worker(struct facet_limiter *limiter, const struct facet_host_worker *worker)
{
    struct facet_host_worker **link = &limiter->workers;

    while (*link != worker)
        link = &(*link)->next;
    *link = worker->next;
}

/*
 * Removes a worker that an earlier handle left and that no handle adopted. A segment that cannot be read is removed
 * only with `force`.
 */
static enum facet_status remove_unadopted(const char *dir, bool force, struct facet_error *error)
{
    struct facet_owner *owner = NULL;

    enum facet_status status = facet_owner_adopt(dir, NULL, &owner, error);
    if (status == FACET_NOT_FOUND || (status != FACET_OK && !force))
        return status;
    if (status == FACET_OK && facet_owner_in_use(owner) && !force)
        status = facet_error_set(error, FACET_BUSY, "a process lives in '%s'", dir);
    else if (status == FACET_OK)
        facet_owner_retire(owner);
    else
        status = FACET_OK;
    facet_owner_close(owner);
    return status == FACET_OK ? facet_owner_remove(dir, error) : status;
}

static enum facet_status remove_worker(struct facet_limiter *limiter, const char *id, bool force,
                                       struct facet_error *error)
{
    struct facet_host_worker *worker = facet_host_find_worker(limiter, id);
    char dir[FACET_HOST_PATH_SIZE];

    worker_path(limiter, id, dir);
    if (!worker)
        return remove_unadopted(dir, force, error);
    facet_host_reap_dead(worker);
    if (!force && facet_owner_in_use(worker->owner))
        return facet_error_argument(error, FACET_BUSY, "id", "a process lives in worker '%s'", id);
    enum facet_status status = facet_owner_remove(dir, error);
    if (status != FACET_OK)
        return status;
    facet_owner_retire(worker->owner);
    unlink_worker(limiter, worker);
    facet_host_worker_close(worker);
    return FACET_OK;
}

enum facet_status facet_limiter_worker_remove(struct facet_limiter *limiter, const char *id, bool force,
                                              struct facet_error *error)
{
    if (!limiter)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "limiter", "NULL: expected an open limiter");
    if (!id)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "id", "NULL: expected a worker's id");
    /* The id becomes part of a path. */
    enum facet_status status = facet_check_name(id, "id", error);
    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&limiter->lock);
    status = remove_worker(limiter, id, force, error);
    pthread_mutex_unlock(&limiter->lock);
    return status;
}

/* ---- maintaining a worker ---- */

static bool is_paced(const struct facet_policy *policy)
{
    return atomic_load_explicit(&policy->compute_limit_milli, memory_order_relaxed) < FACET_MILLI_WHOLE;
}

void facet_host_set_gate(struct facet_host_worker *worker)
{
    struct facet_owner *owner = worker->owner;
    uint32_t frozen = facet_owner_frozen(owner) | facet_owner_auto_frozen(owner);

    if (frozen & FACET_RESOURCE_COMPUTE)
        facet_owner_set_gate(owner, FACET_GATE_CLOSED);
    else
        facet_owner_set_gate(owner, is_paced(owner->policy) ? FACET_GATE_PACED : FACET_GATE_OPEN);
}

void facet_host_maintain_worker(struct facet_host_worker *worker, uint64_t now_ns)
{
    struct facet_usage_totals totals;

    facet_host_reap_dead(worker);
    facet_owner_totals(worker->owner, &totals);
    facet_owner_update_idle_freeze(worker->owner, &totals, now_ns);
    facet_host_set_gate(worker);
}

enum facet_status facet_limiter_worker_set_limits(struct facet_limiter *limiter, const char *id,
                                                  const struct facet_limits *limits, struct facet_error *error)
{
    struct facet_host_worker *worker;
    struct facet_limits resolved;

    if (!limits)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "limits", "NULL: expected limits");
    enum facet_status status = facet_host_lock_worker(limiter, id, &worker, error);
    if (status != FACET_OK)
        return status;
    status = resolve_limits(limits, worker->device_memory_bytes, &resolved, error);
    if (status == FACET_OK) {
        uint32_t old_milli = atomic_load(&worker->owner->policy->compute_limit_milli);

        facet_owner_set_limits(worker->owner, &resolved);
        set_fallback_share(worker->owner, &resolved);
        facet_pace_rescale(&worker->owner->usage->pace_ns, old_milli, resolved.compute_limit_milli,
                           facet_clock_now_ns());
        facet_host_set_gate(worker);
    }
    facet_host_unlock(limiter);
    return status;
}

static enum facet_status refuse_overwritten(const char *id, struct facet_error *error)
{
    return facet_error_argument(error, FACET_CORRUPT, "id", "the segment of worker '%s' was written over", id);
}

enum facet_status facet_limiter_worker_heartbeat(struct facet_limiter *limiter, const char *id,
                                                 struct facet_error *error)
{
    struct facet_host_worker *worker;

    enum facet_status status = facet_host_lock_worker(limiter, id, &worker, error);
    if (status != FACET_OK)
        return status;
    if (facet_owner_damaged(worker->owner)) {
        status = refuse_overwritten(id, error);
    } else {
        uint64_t now_ns = facet_clock_now_ns();

        facet_owner_set_heartbeat(worker->owner, now_ns);
        facet_host_maintain_worker(worker, now_ns);
    }
    facet_host_unlock(limiter);
    return status;
}

enum facet_status facet_limiter_worker_state(struct facet_limiter *limiter, const char *id,
                                             struct facet_limiter_state *ret_state, struct facet_error *error)
{
    struct facet_host_worker *worker;
    struct facet_usage_totals totals;

    if (!ret_state)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "ret_state", "NULL: expected a place for a state");
    enum facet_status status = facet_host_check_size("ret_state", ret_state->size, sizeof *ret_state, error);
    if (status == FACET_OK)
        status = facet_host_lock_worker(limiter, id, &worker, error);
    if (status != FACET_OK)
        return status;

    uint64_t now_ns = facet_clock_now_ns();
    facet_host_maintain_worker(worker, now_ns);
    /* Device time is what the caller reports, so the clock does not bound it. */
    if ((facet_owner_believed_totals(worker->owner, &totals) | FACET_BELIEVED_BUSY) != FACET_BELIEVED_ALL) {
        facet_host_unlock(limiter);
        return refuse_overwritten(id, error);
    }
    *ret_state = (struct facet_limiter_state){
        .size = ret_state->size,
        .frozen = facet_owner_frozen(worker->owner),
        .auto_frozen = facet_owner_auto_frozen(worker->owner),
        .processes = totals.processes,
        .frozen_since_ns = facet_owner_frozen_since_ns(worker->owner),
        .memory_bytes = totals.memory_bytes,
        .memory_limit_bytes = atomic_load(&worker->owner->policy->memory_limit_bytes),
        .memory_peak_bytes = totals.memory_peak_bytes,
        .busy_ns = totals.busy_ns,
        .denied = totals.denied,
        .idle_ns = facet_owner_idle_ns(worker->owner, now_ns),
    };
    facet_host_unlock(limiter);
    return FACET_OK;
}
