/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making a vGPU: intent, provider, segment, commit.
 * Never: acknowledges a vGPU that is not in the database, or leaves a partition behind without a record.
 *
 * A vGPU that needs its provider first records the part that it is about to take (ROW_CREATING, with template and
 * place). No client was told of a vGPU with such a row, so a daemon that finds one removes all that exists of the vGPU.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "vgpu.h"

/* The time for which an ephemeral vGPU is kept until `facet run`, which created it, holds it. */

/* --- planning: checks that change nothing ----------------------------------------------------------------------- */

static enum facet_status make_id(const struct registry *registry, char *ret_id, struct facet_error *error)
{
    char id[VGPU_ID_SIZE];

    for (int tries = 0; tries < 16; tries++) {
        enum facet_status status = registry_random_id(id, error);
        if (status != FACET_OK)
            return status;
        if (!registry_look_up(registry, id)) {
            memcpy(ret_id, id, sizeof id);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_INTERNAL, "16 random vGPU ids in a row were taken");
}

/* Chooses the requested name, or else the first free one of vgpu-1, vgpu-2, ... */
static enum facet_status choose_name(const struct registry *registry, const struct request *request, char *ret_name,
                                     struct facet_error *error)
{
    char name[FACET_NAME_SIZE];

    if (request->present & REQUEST_NAME) {
        if (registry_look_up(registry, request->name))
            return facet_error_argument(error, FACET_ALREADY_EXISTS, "name", "a vGPU named '%s' exists", request->name);
        memcpy(ret_name, request->name, FACET_NAME_SIZE);
        return FACET_OK;
    }
    for (size_t n = 1; n <= registry->count + 1; n++) {
        snprintf(name, sizeof name, "vgpu-%zu", n);
        if (!registry_look_up(registry, name)) {
            memcpy(ret_name, name, sizeof name);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_INTERNAL, "%zu vGPUs have all names from vgpu-1 to vgpu-%zu", registry->count,
                           registry->count + 1);
}

/* Refuses a mode that does not go together with an existing vGPU's on the device; the error names that vGPU. */
static enum facet_status check_neighbours(const struct registry *registry, const struct facet_device_record *device,
                                          uint32_t mode, struct facet_error *error)
{
    for (size_t i = 0; i < registry->count; i++) {
        const struct vgpu *vgpu = &registry->vgpus[i];
        uint32_t other = vgpu->row.limits.mode;

        if (vgpu->device != device || plan_modes_mix(device, mode, other))
            continue;
        return facet_error_argument(error, FACET_BAD_STATE, "mode",
                                    "mode '%s': device %s has vGPU %s in mode '%s', which does not go together there; "
                                    "destroy that one, or use another device",
                                    facet_mode_name((enum facet_mode)mode), device->id, vgpu->row.name,
                                    facet_mode_name((enum facet_mode)other));
    }
    return FACET_OK;
}

/*
 * Refuses to promise memory twice in mode hard, on a device that does not enforce memory limits itself.
 */
static enum facet_status check_hard_memory(const struct registry *registry, const struct facet_device_record *device,
                                           const struct facet_limits *limits, struct facet_error *error)
{
    uint64_t promised = 0, device_bytes = device->info.memory_bytes;

    if (limits->mode != FACET_MODE_HARD || (device->info.capabilities & FACET_CAN_LIMIT_MEMORY))
        return FACET_OK;
    for (size_t i = 0; i < registry->count; i++)
        if (registry->vgpus[i].device == device && registry->vgpus[i].row.limits.mode == FACET_MODE_HARD)
            promised += registry->vgpus[i].row.limits.memory_bytes;
    if (promised <= device_bytes && limits->memory_bytes <= device_bytes - promised)
        return FACET_OK;
    return facet_error_argument(error, FACET_NO_SPACE, "memory",
                                "memory %" PRIu64 " bytes: mode 'hard' never oversubscribes, and %" PRIu64
                                " of %" PRIu64 " bytes of device %s are given away",
                                limits->memory_bytes, promised, device_bytes, device->id);
}

/* Refuses oversubscription where memory cannot be swapped: only CUDA's interposer swaps, and in no spatial mode. */
static enum facet_status check_oversubscription(const struct facet_device_record *device, const struct request *request,
                                                uint32_t mode, struct facet_error *error)
{
    if (!request->oversubscribe)
        return FACET_OK;
    if (mode_is_spatial(mode))
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "oversubscribe",
                                    "oversubscribe: mode '%s' never oversubscribes; use soft",
                                    facet_mode_name((enum facet_mode)mode));
    if (mode == FACET_MODE_SHARED)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "oversubscribe",
                                    "oversubscribe: mode 'shared' holds no quota that could be above the device; use "
                                    "soft");
    if (strncmp(device->info.address, "GPU-", 4) != 0 && strncmp(device->info.address, "MIG-", 4) != 0)
        return facet_error_argument(error, FACET_UNSUPPORTED, "oversubscribe",
                                    "oversubscribe: only memory of NVIDIA GPUs can be swapped, and %s is none",
                                    device->id);
    return FACET_OK;
}

/* Lets vGPUs whose parts are gone take them again first: a provider that lost its state would give the parts away. */
static enum facet_status check_parts(struct registry *registry, const struct facet_device_record *device,
                                     struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (size_t i = 0; status == FACET_OK && i < registry->count; i++) {
        struct vgpu *vgpu = &registry->vgpus[i];
        const struct claim claim = {registry, vgpu};
        const struct grant_others others = {claim_others_have, &claim};
        bool row_exists = true;

        if (vgpu->device != device || vgpu->row.state != ROW_READY || !mode_is_spatial(vgpu->row.limits.mode))
            continue;
        status = grant_look(registry->parts.sessions, device, &vgpu->row, &others, &row_exists, error);
        if (!row_exists)
            vgpu_serve_again(registry, vgpu);
    }
    return status;
}

/* Writes "a (1g.10gb)" or "b (37.5 %, 30 GiB)". */
static size_t describe_holder(const struct vgpu_row *row, char *buffer, size_t size)
{
    char memory[16];

    if (row->limits.mode == FACET_MODE_PARTITIONED)
        return (size_t)snprintf(buffer, size, "%s (%s)", row->name, row->slice.template_id);
    facet_format_size(row->limits.memory_bytes, memory, sizeof memory);
    return (size_t)snprintf(buffer, size, "%s (%u.%u %%, %s)", row->name, row->limits.compute_request_milli / 10,
                            row->limits.compute_request_milli % 10, memory);
}

/* Adds to the error the vGPUs that have parts of the full device. Returns `status`. */
static enum facet_status list_holders(const struct registry *registry, const struct facet_device_record *device,
                                      enum facet_status status, struct facet_error *error)
{
    size_t size = error ? sizeof error->message : 0, used = error ? strlen(error->message) : 0;
    bool found = false;

    if (status != FACET_NO_SPACE || !error)
        return status;
    for (size_t i = 0; i < registry->count && used < size; i++) {
        const struct vgpu *vgpu = &registry->vgpus[i];

        if (vgpu->device != device || !mode_is_spatial(vgpu->row.limits.mode))
            continue;
        used += (size_t)snprintf(error->message + used, size - used, "%s", found ? ", " : "; its vGPUs: ");
        if (used < size)
            used += describe_holder(&vgpu->row, error->message + used, size - used);
        found = true;
    }
    if (!found)
        used += (size_t)snprintf(error->message + used, size - used, "; no vGPU has any of it");
    if (used >= size)
        memcpy(error->message + size - 4, "...", 4);
    return status;
}

static void fill_row(const struct request *request, const struct facet_device_record *device, struct vgpu_row *row)
{
    snprintf(row->device_id, sizeof row->device_id, "%s", device->id);
    snprintf(row->device_uuid, sizeof row->device_uuid, "%s", device->info.uuid);
    snprintf(row->device_name, sizeof row->device_name, "%s", device->info.name);
    row->ephemeral = request->ephemeral;
    row->idle_freeze_s = request->idle_freeze_s;
    row->oversubscribe = request->oversubscribe;
    row->owner_uid = request->owner_uid;
    (void)facet_label_merge(row->labels, request->labels, NULL); /* the row has none, so they fit */
    row->created_ns = registry_wall_clock_ns();
}

/*
 * When the request names no device, the first one is used. If no device runs programs, the error says how to get one
 * that does.
 */
static enum facet_status require_programs(const struct registry *registry, const struct facet_device_record *device,
                                          struct facet_error *error)
{
    char advice[300];

    if (facet_device_takes_programs(device))
        return FACET_OK;
    facet_device_table_explain(registry->parts.devices, advice, sizeof advice);
    return facet_error_argument(error, FACET_UNSUPPORTED, "device",
                                "no device here takes programs, %s runs kernels only%s", device->id,
                                advice[0] ? advice : "; install a driver (pocl-opencl-icd for the processor)");
}

static enum facet_status plan_vgpu(struct registry *registry, const struct request *request, struct vgpu *vgpu,
                                   struct facet_error *error)
{
    const char *device = request->present & REQUEST_DEVICE ? request->device : NULL;
    struct vgpu_row *row = &vgpu->row;
    struct request wanted = *request;
    enum facet_status status = FACET_OK;

    *vgpu = (struct vgpu){.retry_after_ns = facet_clock_now_ns() + EPHEMERAL_GRACE_NS};
    if (request->present & REQUEST_RESERVATION)
        status = reserve_resolve(registry, request->reservation, row->reservation, device ? NULL : &device, error);
    if (status == FACET_OK)
        status = facet_device_table_find(registry->parts.devices, device, &vgpu->device, error);
    if (status == FACET_OK && !device)
        status = require_programs(registry, vgpu->device, error);
    if (status == FACET_OK)
        reserve_default(registry, row->reservation, vgpu->device, &wanted);
    if (status == FACET_OK)
        status = plan_limits(&wanted, vgpu->device, &row->limits, error);
    if (status == FACET_OK)
        status = check_neighbours(registry, vgpu->device, row->limits.mode, error);
    if (status == FACET_OK)
        status = check_oversubscription(vgpu->device, request, row->limits.mode, error);
    if (status == FACET_OK)
        status = reserve_check(registry, row, vgpu->device, error);
    if (status == FACET_OK)
        status =
            list_holders(registry, vgpu->device, check_hard_memory(registry, vgpu->device, &row->limits, error), error);
    if (status == FACET_OK)
        status = choose_name(registry, request, row->name, error);
    if (status == FACET_OK)
        status = make_id(registry, row->id, error);
    if (status != FACET_OK)
        return status;
    fill_row(request, vgpu->device, row);
    status = mode_is_spatial(row->limits.mode) ? check_parts(registry, vgpu->device, error) : FACET_OK;
    if (status == FACET_OK)
        status = grant_choose(registry->parts.sessions, vgpu->device, request, row, error);
    return list_holders(registry, vgpu->device, status, error);
}

/* --- making ----------------------------------------------------------------------------------------------------- */

/* Makes the segment between writing the row and committing it, so that a failure leaves neither. */
static enum facet_status settle_vgpu(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    bool row_exists = vgpu->row.state == ROW_CREATING;

    vgpu->row.state = ROW_READY;
    enum facet_status status = store_begin(registry->store, error);
    if (status != FACET_OK)
        return status;
    status = row_exists ? store_update(registry->store, &vgpu->row, error)
                        : store_insert(registry->store, &vgpu->row, error);
    if (status == FACET_OK)
        status = vgpu_install(registry, vgpu, error);
    if (status != FACET_OK) {
        store_rollback(registry->store);
        return status;
    }
    status = store_commit(registry->store, error);
    if (status != FACET_OK)
        vgpu_withdraw(registry, vgpu, NULL);
    return status;
}

/* Takes the provider's part, after the intent was recorded. */
static enum facet_status take_part(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    const struct claim claim = {registry, vgpu};
    const struct grant_others others = {claim_others_have, &claim};
    enum facet_status status = grant_take(registry->parts.sessions, vgpu->device, &vgpu->row, &others, error);

    if (status == FACET_OK)
        status = grant_environment(registry->parts.sessions, vgpu->device, &vgpu->row, &vgpu->environment, error);
    return list_holders(registry, vgpu->device, status, error);
}

/* Undoes a creation. If the part cannot be removed now, the vGPU stays in the list with the reason, and is retried. */
static void roll_back(struct registry *registry, struct vgpu *vgpu)
{
    struct facet_error error;

    vgpu->row.state = ROW_CREATING;
    if (vgpu_finish_removal(registry, vgpu, &error) == FACET_OK)
        return;
    snprintf(vgpu->trouble, sizeof vgpu->trouble, "not made, and what there is of it could not be removed: %.180s",
             error.message);
    facet_log(FACET_LOG_WARNING, "vGPU %s (%s): %s", vgpu->row.name, vgpu->row.id, vgpu->trouble);
    registry_add(registry, vgpu);
}

static enum facet_status create_spatial(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    vgpu->row.state = ROW_CREATING;
    if (!vgpu->row.limits.memory_bytes) /* the database requires an amount, which the partition will decide */
        vgpu->row.limits.memory_bytes = MEMORY_UNDECIDED;
    enum facet_status status = registry_write_row(registry, store_insert, &vgpu->row, error);
    if (status != FACET_OK)
        return status;
    status = take_part(registry, vgpu, error);
    if (status == FACET_OK)
        status = settle_vgpu(registry, vgpu, error);
    if (status != FACET_OK)
        roll_back(registry, vgpu);
    return status;
}

/* Makes a vGPU without a part of its own. Goes on without the environment: the program then finds all devices, and its
 * limits still hold. */
static enum facet_status create_time_shared(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_error reason;

    if (grant_environment(registry->parts.sessions, vgpu->device, &vgpu->row, &vgpu->environment, &reason) != FACET_OK)
        facet_log(FACET_LOG_WARNING, "vGPU %s: no environment: %s", vgpu->row.name, reason.message);
    return settle_vgpu(registry, vgpu, error);
}

/* Warns of a grant of more than was requested, since a device grants in steps. */
static void warn_of_surplus(const struct facet_limits *requested, struct vgpu_info *info)
{
    const struct vgpu_slice *slice = &info->row.slice;
    char memory[16];

    if (info->warning[0] || !mode_is_spatial(info->row.limits.mode))
        return;
    bool memory_surplus = requested->memory_bytes && slice->memory_bytes > requested->memory_bytes;
    bool compute_surplus = requested->compute_request_milli && slice->compute_milli > requested->compute_request_milli;
    if (memory_surplus && info->row.limits.memory_bytes > requested->memory_bytes)
        snprintf(info->warning, sizeof info->warning,
                 "the device gives %s of memory, the next step above what was asked",
                 facet_format_size(slice->memory_bytes, memory, sizeof memory));
    else if (compute_surplus)
        snprintf(info->warning, sizeof info->warning,
                 "the device gives %u.%u %% of its compute, the next step above what was asked",
                 slice->compute_milli / 10, slice->compute_milli % 10);
}

enum facet_status registry_create(struct registry *registry, const struct request *request, struct vgpu_info *ret_info,
                                  struct facet_error *error)
{
    struct vgpu vgpu;

    pthread_mutex_lock(&registry->change);
    enum facet_status status = plan_vgpu(registry, request, &vgpu, error);
    const struct facet_limits requested = vgpu.row.limits;
    if (status == FACET_OK)
        status = registry_ensure_capacity(registry, error);
    if (status == FACET_OK)
        status = mode_is_spatial(requested.mode) ? create_spatial(registry, &vgpu, error)
                                                 : create_time_shared(registry, &vgpu, error);
    if (status == FACET_OK) {
        registry_add(registry, &vgpu);
        registry_copy_info(registry, &vgpu, ret_info);
        warn_of_surplus(&requested, ret_info);
        registry_warn_of_crowding(registry, request, ret_info);
    }
    pthread_mutex_unlock(&registry->change);
    return status;
}
