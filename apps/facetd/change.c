/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: changing and removing existing vGPUs. Never: acknowledges a change that is not in the database. */
#include <facet/limiter.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "vgpu.h"

#define RETRY_NS (10 * FACET_NS_PER_S)

/* Called with the change lock. */
static enum facet_status find_vgpu(const struct registry *registry, const char *ref, struct vgpu **ret_vgpu,
                                   struct facet_error *error)
{
    struct vgpu *vgpu = registry_look_up(registry, ref);

    if (!vgpu)
        return facet_error_argument(error, FACET_NOT_FOUND, "vgpu", "no vGPU has the id or name '%.64s'", ref);
    *ret_vgpu = vgpu;
    return FACET_OK;
}

/* --- changing --------------------------------------------------------------------------------------------------- */

/* Passes the row's limits to the scheduler. Its calls fail only for a vGPU that the scheduler does not have. */
static enum facet_status apply_row(struct registry *registry, const struct vgpu *vgpu, const struct vgpu_row *row,
                                   struct facet_error *error)
{
    struct scheduler *scheduler = registry->parts.scheduler;

    if (!vgpu->scheduled)
        return FACET_OK;
    enum facet_status status = scheduler_set_limits(scheduler, row->id, &row->limits, error);
    if (status == FACET_OK)
        status = scheduler_set_idle_freeze(scheduler, row->id, FACET_RESOURCE_COMPUTE,
                                           row->idle_freeze_s * FACET_NS_PER_S, error);
    return status == FACET_OK ? scheduler_set_frozen(scheduler, row->id, row->frozen, error) : status;
}

static enum facet_status replace_row(struct registry *registry, struct vgpu *listed, const struct vgpu_row *row,
                                     struct facet_error *error)
{
    struct vgpu vgpu = *listed;
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_update(registry->store, row, error);
    if (status == FACET_OK)
        status = apply_row(registry, listed, row, error);
    if (status == FACET_OK)
        status = store_commit(registry->store, error);
    if (status != FACET_OK) {
        store_rollback(registry->store);
        apply_row(registry, listed, &listed->row, NULL);
        return status;
    }
    vgpu.row = *row;
    registry_publish(registry, listed, &vgpu);
    return FACET_OK;
}

static enum facet_status check_ready(const struct vgpu *vgpu, struct facet_error *error)
{
    /* The processes in a damaged segment would not see the change. */
    if (vgpu->row.state == ROW_READY && vgpu->damaged)
        return facet_error_argument(error, FACET_BAD_STATE, "vgpu", "vGPU %s: %.250s", vgpu->row.name, vgpu->trouble);
    if (vgpu->row.state == ROW_READY)
        return FACET_OK;
    return facet_error_argument(error, FACET_BAD_STATE, "vgpu", "vGPU %s is being removed: %.200s", vgpu->row.name,
                                vgpu->trouble);
}

static enum facet_status change_limits(struct registry *registry, struct vgpu *vgpu, const struct request *request,
                                       struct facet_error *error)
{
    struct vgpu_row row = vgpu->row;

    if (!vgpu->device)
        return facet_error_set(error, FACET_BAD_STATE, "vGPU %s: its device %s is not there", row.name, row.device_id);
    enum facet_status status = check_ready(vgpu, error);
    if (status == FACET_OK)
        status = plan_change(request, vgpu->device, &vgpu->row.limits, &row.limits, error);
    if (request->present & REQUEST_IDLE_FREEZE)
        row.idle_freeze_s = request->idle_freeze_s;
    if (status == FACET_OK && request->present & REQUEST_LABELS)
        status = facet_label_merge(row.labels, request->labels, error);
    return status == FACET_OK ? replace_row(registry, vgpu, &row, error) : status;
}

enum facet_status registry_change(struct registry *registry, const char *ref, const struct request *request,
                                  struct vgpu_info *ret_info, struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->change);
    enum facet_status status = find_vgpu(registry, ref, &vgpu, error);
    if (status == FACET_OK)
        status = change_limits(registry, vgpu, request, error);
    if (status == FACET_OK) {
        registry_copy_info(registry, vgpu, ret_info);
        registry_warn_of_crowding(registry, request, ret_info);
    }
    pthread_mutex_unlock(&registry->change);
    return status;
}

static enum facet_status set_frozen(struct registry *registry, struct vgpu *vgpu, bool frozen,
                                    struct facet_error *error)
{
    struct vgpu_row row = vgpu->row;
    enum facet_status status = check_ready(vgpu, error);

    row.frozen = frozen;
    return status == FACET_OK && vgpu->row.frozen != frozen ? replace_row(registry, vgpu, &row, error) : status;
}

enum facet_status registry_set_frozen(struct registry *registry, const char *ref, bool frozen,
                                      struct vgpu_info *ret_info, struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->change);
    enum facet_status status = find_vgpu(registry, ref, &vgpu, error);
    if (status == FACET_OK)
        status = set_frozen(registry, vgpu, frozen, error);
    if (status == FACET_OK)
        registry_copy_info(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->change);
    return status;
}

/* --- removing --------------------------------------------------------------------------------------------------- */

/* Removes the segment, the last step of a removal. If that fails, the next start removes a segment without a row. */
static void withdraw_vgpu(struct registry *registry, const struct vgpu *listed)
{
    struct facet_error withdraw_error;
    struct vgpu vgpu = *listed;

    if (vgpu_withdraw(registry, &vgpu, &withdraw_error) != FACET_OK)
        facet_log(FACET_LOG_WARNING, "vGPU %s is gone, but not its segment: %s", vgpu.row.name, withdraw_error.message);
}

/*
 * Records the removal of a vGPU whose provider cannot be called now. From then on no tenant is admitted; the provider's
 * part is given back later.
 */
static enum facet_status postpone_removal(struct registry *registry, struct vgpu *listed,
                                          const struct facet_error *reason, struct vgpu_removal *removal,
                                          struct facet_error *error)
{
    struct vgpu vgpu = *listed;

    vgpu.row.state = ROW_DESTROYING;
    enum facet_status status = registry_write_row(registry, store_update, &vgpu.row, error);
    if (status != FACET_OK)
        return status;
    withdraw_vgpu(registry, listed);
    vgpu.scheduled = false;
    vgpu.retry_after_ns = facet_clock_now_ns() + RETRY_NS;
    snprintf(vgpu.trouble, sizeof vgpu.trouble, "its part of the device goes when the %s is back: %.180s",
             vgpu.device ? "provider" : "device", reason->message);
    snprintf(removal->warning, sizeof removal->warning, "vGPU %s: %.180s", vgpu.row.name, vgpu.trouble);
    registry_publish(registry, listed, &vgpu);
    return FACET_OK;
}

/* Gives the provider's part back. A part that was gone already gets a warning, and does not stop the removal. */
static enum facet_status release_part(struct registry *registry, const struct vgpu *vgpu, struct vgpu_removal *removal,
                                      struct facet_error *error)
{
    const struct claim claim = {registry, vgpu};
    const struct grant_others others = {claim_others_have, &claim};

    if (!mode_is_spatial(vgpu->row.limits.mode))
        return FACET_OK;
    if (!vgpu->device)
        return vgpu_device_missing(vgpu, error);
    enum facet_status status = grant_release(registry->parts.sessions, vgpu->device, &vgpu->row, &others, error);
    if (status != FACET_NOT_FOUND)
        return status;
    snprintf(removal->warning, sizeof removal->warning, "vGPU %s: the provider had lost its part before: %.200s",
             vgpu->row.name, error->message);
    facet_log(FACET_LOG_WARNING, "%s", removal->warning);
    return FACET_OK;
}

/* Whether to remove the vGPU as far as possible now, and the provider's part later: its device is missing, and none
 * comes back while the daemon runs, or, with force, its provider is lost. */
static bool can_postpone(const struct vgpu *vgpu, enum facet_status status, bool force)
{
    return status != FACET_OK && (!vgpu->device || (force && (status == FACET_DEVICE_LOST || status == FACET_TIMEOUT)));
}

/*
 * Gives the provider's part back first, because the provider may refuse, and then deletes the row: from then on the
 * vGPU is gone. If the daemon is killed in between, the next start finds a row without a part, and takes the part
 * again.
 */
static enum facet_status destroy_vgpu(struct registry *registry, struct vgpu *vgpu, bool force,
                                      struct vgpu_removal *removal, struct facet_error *error)
{
    struct facet_error reason = {0};
    enum facet_status status = release_part(registry, vgpu, removal, &reason);

    if (can_postpone(vgpu, status, force))
        return postpone_removal(registry, vgpu, &reason, removal, error);
    if (status != FACET_OK) {
        if (error)
            *error = reason;
        return facet_error_prefix(error, "vGPU %s", vgpu->row.name);
    }
    status = registry_delete_row(registry, vgpu->row.id, error);
    if (status != FACET_OK) { /* takes the part again */
        if (mode_is_spatial(vgpu->row.limits.mode))
            vgpu_serve_again(registry, vgpu);
        return status;
    }
    withdraw_vgpu(registry, vgpu);
    registry_forget(registry, vgpu);
    return FACET_OK;
}

/*
 * Removes the rest of a half-made or half-removed vGPU. With force, forgets the vGPU's part on a missing device.
 */
static enum facet_status finish_removal(struct registry *registry, struct vgpu *vgpu, bool force,
                                        struct vgpu_removal *removal, struct facet_error *error)
{
    bool abandoned = force && !vgpu->device;
    enum facet_status status =
        abandoned ? registry_delete_row(registry, vgpu->row.id, error) : vgpu_finish_removal(registry, vgpu, error);

    if (status != FACET_OK)
        return vgpu->device
                   ? status
                   : facet_error_prefix(error, "vGPU %s goes when its device is back, or with force", vgpu->row.name);
    if (abandoned)
        snprintf(removal->warning, sizeof removal->warning,
                 "vGPU %s is forgotten; what device %s has of it stays there, should it come back", vgpu->row.name,
                 vgpu->row.device_id);
    registry_forget(registry, vgpu);
    return FACET_OK;
}

static enum facet_status remove_vgpu(struct registry *registry, struct vgpu *vgpu, bool force,
                                     struct vgpu_removal *removal, struct facet_error *error)
{
    if (vgpu->row.state != ROW_READY)
        return finish_removal(registry, vgpu, force, removal, error);
    if (!force && vgpu_in_use(registry, vgpu))
        return facet_error_argument(error, FACET_BUSY, "vgpu", "vGPU %s is in use; end its processes, or use force",
                                    vgpu->row.name);
    return destroy_vgpu(registry, vgpu, force, removal, error);
}

enum facet_status registry_destroy(struct registry *registry, const char *ref, bool force,
                                   struct vgpu_removal *ret_removal, struct facet_error *error)
{
    struct vgpu_removal removal = {0};
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->change);
    enum facet_status status = find_vgpu(registry, ref, &vgpu, error);
    if (status == FACET_OK)
        status = remove_vgpu(registry, vgpu, force, &removal, error);
    pthread_mutex_unlock(&registry->change);
    if (status == FACET_OK)
        *ret_removal = removal;
    return status;
}

/* --- tidying ---------------------------------------------------------------------------------------------------- */

static void set_retry_time(struct registry *registry, struct vgpu *listed, uint64_t until_ns)
{
    pthread_mutex_lock(&registry->lock);
    listed->retry_after_ns = until_ns;
    pthread_mutex_unlock(&registry->lock);
}

static void tidy_vgpu(struct registry *registry, struct vgpu *vgpu, uint64_t now_ns)
{
    struct facet_error error;
    struct vgpu_removal removal;
    bool is_unfinished = vgpu->row.state != ROW_READY;
    bool is_removable = is_unfinished || (vgpu->row.ephemeral && !vgpu_in_use(registry, vgpu));

    if (is_unfinished && !vgpu->device) /* no device comes back while the daemon runs */
        return;
    if (is_removable) {
        if (remove_vgpu(registry, vgpu, false, &removal, &error) == FACET_OK)
            return;
        set_retry_time(registry, vgpu, now_ns + RETRY_NS);
        facet_log(FACET_LOG_WARNING, "cannot remove vGPU %s: %s", vgpu->row.name, error.message);
    } else if (vgpu->damaged) {
        if (!vgpu_in_use(registry, vgpu))
            vgpu_serve_again(registry, vgpu);
    } else if (vgpu->trouble[0] && vgpu->device && mode_is_spatial(vgpu->row.limits.mode)) {
        set_retry_time(registry, vgpu, now_ns + RETRY_NS);
        vgpu_serve_again(registry, vgpu);
    }
}

void registry_tidy(struct registry *registry, uint64_t now_ns)
{
    if (pthread_mutex_trylock(&registry->change) != 0)
        return;
    /* From the end, since removing an entry moves the entries after it. */
    for (size_t i = registry->count; i-- > 0;)
        if (now_ns >= registry->vgpus[i].retry_after_ns)
            tidy_vgpu(registry, &registry->vgpus[i], now_ns);
    pthread_mutex_unlock(&registry->change);
}

void registry_reconcile(struct registry *registry, const struct facet_provider_record *provider)
{
    struct vgpu_removal removal;
    struct facet_error error;

    pthread_mutex_lock(&registry->change);
    for (size_t i = registry->count; i-- > 0;) {
        struct vgpu *vgpu = &registry->vgpus[i];

        if (!vgpu->device || vgpu->device->provider != provider || !mode_is_spatial(vgpu->row.limits.mode))
            continue;
        if (vgpu->row.state == ROW_READY)
            vgpu_serve_again(registry, vgpu);
        else if (finish_removal(registry, vgpu, false, &removal, &error) != FACET_OK)
            facet_log(FACET_LOG_WARNING, "cannot remove vGPU %s: %s", vgpu->row.name, error.message);
    }
    reserve_look(registry);
    pthread_mutex_unlock(&registry->change);
}
