/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the transactions over database, segment and scheduler. Never: acknowledges what is not in the database. */
#include "vgpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* `facet run` gets its vGPU and then takes hold of it: an ephemeral vGPU is given that long. */
#define EPHEMERAL_GRACE_NS (2 * FACET_NS_PER_S)
#define TIDY_RETRY_NS      (10 * FACET_NS_PER_S)

static const char *const state_names[VGPU_STATE_COUNT] = {"idle", "running", "frozen"};

const char *vgpu_state_name(enum vgpu_state state)
{
    return state_names[state];
}

static struct vgpu *find(const struct registry *registry, const char *ref)
{
    for (size_t i = 0; i < registry->count; i++)
        if (strcmp(registry->vgpus[i].row.id, ref) == 0 || strcmp(registry->vgpus[i].row.name, ref) == 0)
            return &registry->vgpus[i];
    return NULL;
}

static enum facet_status look_up(const struct registry *registry, const char *ref, struct vgpu **ret_vgpu,
                                 struct facet_error *error)
{
    struct vgpu *vgpu = find(registry, ref);

    if (!vgpu)
        return facet_error_argument(error, FACET_NOT_FOUND, "vgpu", "no vGPU has the id or name '%.64s'", ref);
    *ret_vgpu = vgpu;
    return FACET_OK;
}

/* Sum of what is guaranteed on the device of `vgpu`: may exceed the whole, and then shares are weights. */
static uint64_t guaranteed_milli(const struct registry *registry, const struct vgpu *vgpu)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < registry->count; i++)
        if (registry->vgpus[i].device == vgpu->device)
            sum += registry->vgpus[i].row.limits.compute_request_milli;
    return sum;
}

static void describe_warning(const struct registry *registry, const struct vgpu *vgpu, bool damaged, char *buffer,
                             size_t size)
{
    uint64_t sum = vgpu->device ? guaranteed_milli(registry, vgpu) : 0;

    buffer[0] = '\0';
    if (!vgpu->scheduled)
        snprintf(buffer, size, "%s", vgpu->trouble);
    else if (damaged)
        snprintf(buffer, size, "its segment was damaged from outside; destroy it, or restart facetd to make it anew");
    else if (sum > FACET_MILLI_WHOLE && vgpu->row.limits.compute_request_milli)
        snprintf(buffer, size,
                 "guarantees on %s add up to %" PRIu64 ".%" PRIu64 " %% of the device; they act as weights",
                 vgpu->row.device_id, sum / 10, sum % 10);
}

static void describe(const struct registry *registry, const struct vgpu *vgpu, struct vgpu_info *info)
{
    *info = (struct vgpu_info){.row = vgpu->row};
    info->measured =
        vgpu->scheduled && scheduler_view(registry->scheduler, vgpu->row.id, &info->view, NULL) == FACET_OK;
    if (vgpu->row.frozen)
        info->state = VGPU_FROZEN;
    else
        info->state = info->measured && info->view.totals.processes ? VGPU_RUNNING : VGPU_IDLE;
    vgpu_segment_path(registry, vgpu->row.id, info->segment, sizeof info->segment);
    describe_warning(registry, vgpu, info->measured && info->view.damaged, info->warning, sizeof info->warning);
}

enum facet_status registry_open(const char *runtime_dir, const char *state_dir,
                                const struct facet_device_table *devices, struct scheduler *scheduler,
                                struct registry **ret_registry, struct facet_error *error)
{
    struct registry *registry = calloc(1, sizeof *registry);

    if (!registry)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the registry");
    pthread_mutex_init(&registry->lock, NULL);
    registry->devices = devices;
    registry->scheduler = scheduler;
    int length = snprintf(registry->segments, sizeof registry->segments, "%s/vgpu", runtime_dir);
    enum facet_status status =
        (size_t)length < sizeof registry->segments
            ? facet_path_make(registry->segments, 0700, error)
            : facet_error_set(error, FACET_OUT_OF_RANGE, "runtime folder '%.64s...': too long", runtime_dir);
    if (status == FACET_OK)
        status = store_open(state_dir, &registry->store, error);
    if (status == FACET_OK)
        status = registry_restore(registry, error);
    if (status != FACET_OK) {
        registry_close(registry);
        return status;
    }
    *ret_registry = registry;
    return FACET_OK;
}

void registry_close(struct registry *registry)
{
    if (!registry)
        return;
    store_close(registry->store);
    pthread_mutex_destroy(&registry->lock);
    free(registry->vgpus);
    free(registry);
}

/* --- creating ------------------------------------------------------------------------------------------------- */

static enum facet_status make_id(const struct registry *registry, char *ret_id, struct facet_error *error)
{
    char id[VGPU_ID_SIZE];
    uint64_t random;

    for (int tries = 0; tries < 16; tries++) {
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return facet_error_set(error, FACET_IO, "getrandom gave no random number for a vGPU id");
        snprintf(id, sizeof id, "%016" PRIx64, random);
        if (!find(registry, id)) {
            memcpy(ret_id, id, sizeof id);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_INTERNAL, "16 random vGPU ids in a row were taken");
}

/* The name that was asked for, else the first free of vgpu-1, vgpu-2, ... */
static enum facet_status choose_name(const struct registry *registry, const struct request *request, char *ret_name,
                                     struct facet_error *error)
{
    char name[FACET_NAME_SIZE];

    if (request->present & REQUEST_NAME) {
        if (find(registry, request->name))
            return facet_error_argument(error, FACET_ALREADY_EXISTS, "name", "a vGPU named '%s' exists", request->name);
        memcpy(ret_name, request->name, FACET_NAME_SIZE);
        return FACET_OK;
    }
    for (size_t n = 1; n <= registry->count + 1; n++) {
        snprintf(name, sizeof name, "vgpu-%zu", n);
        if (!find(registry, name)) {
            memcpy(ret_name, name, sizeof name);
            return FACET_OK;
        }
    }
    return facet_error_set(error, FACET_INTERNAL, "%zu vGPUs have more names than there are", registry->count);
}

static void list_modes(uint32_t modes, char *buffer, size_t size)
{
    size_t used = 0;

    snprintf(buffer, size, "none");
    for (uint32_t mode = FACET_MODE_SHARED; mode <= FACET_MODE_PARTITIONED && used < size; mode++)
        if (modes & FACET_DEVICE_MODE(mode))
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", used ? ", " : "",
                                     facet_mode_name((enum facet_mode)mode));
}

static enum facet_status check_mode(const struct facet_device_record *device, uint32_t mode, struct facet_error *error)
{
    char modes[64];

    if (device->info.modes & FACET_DEVICE_MODE(mode))
        return FACET_OK;
    list_modes(device->info.modes, modes, sizeof modes);
    return facet_error_argument(error, FACET_UNSUPPORTED, "mode", "device %s does not offer mode '%s'; it has: %s",
                                device->id, facet_mode_name((enum facet_mode)mode), modes);
}

/* What limits are held against: a device that does not say how much memory it has refuses by itself. */
static uint64_t device_memory(const struct facet_device_record *device)
{
    return device->info.valid & FACET_DEVICE_HAS_MEMORY ? device->info.memory_bytes : UINT64_MAX;
}

static enum facet_status plan_limits(const struct request *request, const struct facet_device_record *device,
                                     struct facet_limits *limits, struct facet_error *error)
{
    const struct facet_device_info *info = &device->info;

    *limits = request->limits;
    if (!(request->present & REQUEST_MEMORY_LIMIT)) {
        if (!(info->valid & FACET_DEVICE_HAS_MEMORY))
            return facet_error_argument(error, FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                                        "device %s does not say how much memory it has; name an amount", device->id);
        limits->memory_bytes = info->memory_bytes;
    }
    enum facet_status status = facet_limits_check(limits, device_memory(device), error);
    return status == FACET_OK ? check_mode(device, limits->mode, error) : status;
}

static uint64_t wall_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return facet_timespec_ns(&now);
}

/* Everything that can be refused without touching anything. */
static enum facet_status plan(const struct registry *registry, const struct request *request, struct vgpu *vgpu,
                              struct facet_error *error)
{
    const char *device = request->present & REQUEST_DEVICE ? request->device : NULL;
    struct vgpu_row *row = &vgpu->row;

    *vgpu = (struct vgpu){.tidy_after_ns = facet_clock_now_ns() + EPHEMERAL_GRACE_NS};
    enum facet_status status = facet_device_table_find(registry->devices, device, &vgpu->device, error);
    if (status == FACET_OK)
        status = plan_limits(request, vgpu->device, &row->limits, error);
    if (status == FACET_OK)
        status = choose_name(registry, request, row->name, error);
    if (status == FACET_OK)
        status = make_id(registry, row->id, error);
    if (status != FACET_OK)
        return status;
    snprintf(row->device_id, sizeof row->device_id, "%s", vgpu->device->id);
    snprintf(row->device_uuid, sizeof row->device_uuid, "%s", vgpu->device->info.uuid);
    snprintf(row->device_name, sizeof row->device_name, "%s", vgpu->device->info.name);
    row->ephemeral = request->ephemeral;
    row->created_ns = wall_clock_ns();
    return FACET_OK;
}

/* The row is written but not committed while the rest is made, so that a refusal leaves no trace anywhere. */
static enum facet_status create(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_insert(registry->store, &vgpu->row, error);
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

enum facet_status registry_create(struct registry *registry, const struct request *request, struct vgpu_info *ret_info,
                                  struct facet_error *error)
{
    struct vgpu vgpu;

    pthread_mutex_lock(&registry->lock);
    enum facet_status status = plan(registry, request, &vgpu, error);
    if (status == FACET_OK)
        status = registry_reserve(registry, error);
    if (status == FACET_OK)
        status = create(registry, &vgpu, error);
    if (status == FACET_OK) {
        registry->vgpus[registry->count++] = vgpu;
        describe(registry, &vgpu, ret_info);
    }
    pthread_mutex_unlock(&registry->lock);
    return status;
}

/* --- changing ------------------------------------------------------------------------------------------------- */

/* Tells the scheduler what the row says. Both calls fail only for a vGPU that it does not have. */
static enum facet_status apply(struct registry *registry, const struct vgpu *vgpu, const struct vgpu_row *row,
                               struct facet_error *error)
{
    if (!vgpu->scheduled)
        return FACET_OK;
    enum facet_status status = scheduler_set_limits(registry->scheduler, row->id, &row->limits, error);
    return status == FACET_OK ? scheduler_set_frozen(registry->scheduler, row->id, row->frozen, error) : status;
}

static enum facet_status replace(struct registry *registry, struct vgpu *vgpu, const struct vgpu_row *row,
                                 struct facet_error *error)
{
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_update(registry->store, row, error);
    if (status == FACET_OK)
        status = apply(registry, vgpu, row, error);
    if (status == FACET_OK)
        status = store_commit(registry->store, error);
    if (status != FACET_OK) {
        store_rollback(registry->store);
        apply(registry, vgpu, &vgpu->row, NULL);
        return status;
    }
    vgpu->row = *row;
    return FACET_OK;
}

static enum facet_status change_limits(struct registry *registry, struct vgpu *vgpu, const struct request *request,
                                       struct facet_error *error)
{
    struct vgpu_row row = vgpu->row;

    if (!vgpu->device)
        return facet_error_set(error, FACET_BAD_STATE, "vGPU %s: its device %s is not there", row.name, row.device_id);
    row.limits = request_apply(request, &row.limits);
    enum facet_status status = facet_limits_check(&row.limits, device_memory(vgpu->device), error);
    return status == FACET_OK ? replace(registry, vgpu, &row, error) : status;
}

enum facet_status registry_change(struct registry *registry, const char *ref, const struct request *request,
                                  struct vgpu_info *ret_info, struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->lock);
    enum facet_status status = look_up(registry, ref, &vgpu, error);
    if (status == FACET_OK)
        status = change_limits(registry, vgpu, request, error);
    if (status == FACET_OK)
        describe(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

enum facet_status registry_set_frozen(struct registry *registry, const char *ref, bool frozen,
                                      struct vgpu_info *ret_info, struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->lock);
    enum facet_status status = look_up(registry, ref, &vgpu, error);
    if (status == FACET_OK && vgpu->row.frozen != frozen) {
        struct vgpu_row row = vgpu->row;
        row.frozen = frozen;
        status = replace(registry, vgpu, &row, error);
    }
    if (status == FACET_OK)
        describe(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

/* --- removing ------------------------------------------------------------------------------------------------- */

static void forget(struct registry *registry, const struct vgpu *vgpu)
{
    size_t index = (size_t)(vgpu - registry->vgpus);

    registry->count--;
    memmove(&registry->vgpus[index], &registry->vgpus[index + 1], (registry->count - index) * sizeof *vgpu);
}

/*
 * The row goes first: once that is on disk the vGPU is gone. A segment that cannot be removed then is a stray, which
 * the next start sweeps away.
 */
static enum facet_status destroy(struct registry *registry, struct vgpu *vgpu, struct facet_error *error)
{
    struct facet_error stray;
    enum facet_status status = store_begin(registry->store, error);

    if (status != FACET_OK)
        return status;
    status = store_delete(registry->store, vgpu->row.id, error);
    if (status == FACET_OK)
        status = store_commit(registry->store, error);
    if (status != FACET_OK) {
        store_rollback(registry->store);
        return status;
    }
    if (vgpu_withdraw(registry, vgpu, &stray) != FACET_OK)
        facet_log(FACET_LOG_WARNING, "vGPU %s is gone, but not its segment: %s", vgpu->row.name, stray.message);
    forget(registry, vgpu);
    return FACET_OK;
}

enum facet_status registry_destroy(struct registry *registry, const char *ref, bool force, struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->lock);
    enum facet_status status = look_up(registry, ref, &vgpu, error);
    if (status == FACET_OK && !force && vgpu_in_use(registry, vgpu))
        status = facet_error_argument(error, FACET_BUSY, "vgpu", "vGPU %s is in use; end its processes, or use force",
                                      vgpu->row.name);
    if (status == FACET_OK)
        status = destroy(registry, vgpu, error);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

static bool is_litter(struct registry *registry, const struct vgpu *vgpu, uint64_t now_ns)
{
    return vgpu->row.ephemeral && now_ns >= vgpu->tidy_after_ns && !vgpu_in_use(registry, vgpu);
}

void registry_tidy(struct registry *registry, uint64_t now_ns)
{
    struct facet_error error;

    pthread_mutex_lock(&registry->lock);
    /* From the end, since destroying one moves those after it. */
    for (size_t i = registry->count; i-- > 0;) {
        struct vgpu *vgpu = &registry->vgpus[i];
        if (!is_litter(registry, vgpu, now_ns) || destroy(registry, vgpu, &error) == FACET_OK)
            continue;
        vgpu->tidy_after_ns = now_ns + TIDY_RETRY_NS;
        facet_log(FACET_LOG_WARNING, "cannot remove ephemeral vGPU %s: %s", vgpu->row.name, error.message);
    }
    pthread_mutex_unlock(&registry->lock);
}

/* --- looking -------------------------------------------------------------------------------------------------- */

enum facet_status registry_find(struct registry *registry, const char *ref, struct vgpu_info *ret_info,
                                struct facet_error *error)
{
    struct vgpu *vgpu = NULL;

    pthread_mutex_lock(&registry->lock);
    enum facet_status status = look_up(registry, ref, &vgpu, error);
    if (status == FACET_OK)
        describe(registry, vgpu, ret_info);
    pthread_mutex_unlock(&registry->lock);
    return status;
}

enum facet_status registry_list(struct registry *registry, struct vgpu_info **ret_infos, size_t *ret_count,
                                struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&registry->lock);
    size_t count = registry->count;
    struct vgpu_info *infos = calloc(count ? count : 1, sizeof *infos);
    if (!infos)
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory to list %zu vGPUs", count);
    for (size_t i = 0; infos && i < count; i++)
        describe(registry, &registry->vgpus[i], &infos[i]);
    pthread_mutex_unlock(&registry->lock);
    if (status != FACET_OK)
        return status;
    *ret_infos = infos;
    *ret_count = count;
    return FACET_OK;
}

size_t registry_count(struct registry *registry)
{
    pthread_mutex_lock(&registry->lock);
    size_t count = registry->count;
    pthread_mutex_unlock(&registry->lock);
    return count;
}

bool registry_idle(struct registry *registry)
{
    bool idle = true;

    pthread_mutex_lock(&registry->lock);
    for (size_t i = 0; idle && i < registry->count; i++)
        idle = !registry->vgpus[i].row.ephemeral && !vgpu_in_use(registry, &registry->vgpus[i]);
    pthread_mutex_unlock(&registry->lock);
    return idle;
}
