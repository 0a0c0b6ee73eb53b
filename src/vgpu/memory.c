/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the memory calls of a vGPU, over its space, or over the device's own allocator where memory is not virtualized.
 * Never: touches memory of a vGPU that is paused.
 */
#include <inttypes.h>

#include "base/sized.h"
#include "memory/host_side.h"
#include "memory/idle.h"
#include "vgpu/driver.h"
#include "vgpu/managed/enter.h"

/* Takes the vGPU. Refuses it when its device is lost and, with `refuse_paused`, when it is paused. */
static enum facet_status begin_access(struct facet_driver *driver, uint32_t id, bool refuse_paused,
                                      struct facet_vgpu **ret_vgpu, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = facet_vgpu_device_check(vgpu->device, error);
    if (status == FACET_OK && refuse_paused && atomic_load(&vgpu->paused))
        status = facet_error_set(error, FACET_FROZEN, "vGPU %" PRIu32 " is paused; resume it first", id);
    if (status == FACET_OK)
        *ret_vgpu = FACET_TAKE_PTR(vgpu);
    return status;
}

enum facet_status facet_vgpu_take_space(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                        struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, false, &vgpu, error);

    if (status != FACET_OK)
        return status;
    if (!vgpu->space)
        return facet_error_set(error, FACET_UNSUPPORTED, "this call needs memory virtualization, which is off");
    *ret_vgpu = FACET_TAKE_PTR(vgpu);
    return FACET_OK;
}

/* ---- memory that is not virtualized ---- */

static enum facet_status allocate_plain(struct facet_vgpu *vgpu, uint64_t bytes,
                                        const struct facet_allocation_options *options, uint64_t *ret_address,
                                        struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;

    if (options && (options->size < sizeof *options || options->align & (options->align - 1)))
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "options",
                                    "options: size %" PRIu32 ", align %" PRIu64
                                    ": expected the struct's size, and a power of two",
                                    options->size, options->align);
    FACET_NEED_KNOWN("options", options, error);
    if (options && options->tag)
        return facet_error_argument(error, FACET_UNSUPPORTED, "tag",
                                    "tag %" PRIu32 ": expected none where memory is not virtualized", options->tag);
    if (options && options->align > 256)
        return facet_error_argument(error, FACET_UNSUPPORTED, "align",
                                    "align %" PRIu64 ": expected at most 256 where memory is not virtualized",
                                    options->align);
    return device->provider->memory->alloc(device->instance, vgpu->context, bytes, ret_address, error);
}

static enum facet_status check_plain(uint64_t to, uint64_t from, uint64_t bytes, enum facet_copy kind,
                                     struct facet_error *error)
{
    uint64_t host = kind == FACET_COPY_TO_DEVICE ? from : to;

    if ((unsigned)kind > FACET_COPY_DETECT)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "kind", "kind: %d is no enum facet_copy", (int)kind);
    if ((kind != FACET_COPY_TO_DEVICE && kind != FACET_COPY_TO_HOST) || bytes == 0 || facet_host_can_have(host, bytes))
        return FACET_OK;
    const char *argument = kind == FACET_COPY_TO_DEVICE ? "from" : "to";
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, argument, "%s: 0x%" PRIx64 " is no host memory",
                                argument, host);
}

static enum facet_status copy_plain(struct facet_vgpu *vgpu, uint64_t to, uint64_t from, uint64_t bytes,
                                    enum facet_copy kind, struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    const struct facet_memory_ops *ops = device->provider->memory;

    switch (kind) {
    case FACET_COPY_TO_DEVICE:
        return ops->write(device->instance, vgpu->context, to, (const void *)(uintptr_t)from, bytes, error);
    case FACET_COPY_TO_HOST:
        return ops->read(device->instance, vgpu->context, from, bytes, (void *)(uintptr_t)to, error);
    case FACET_COPY_ON_DEVICE:
        return ops->copy(device->instance, vgpu->context, to, from, bytes, error);
    default:
        return facet_error_argument(
            error, FACET_UNSUPPORTED, "kind",
            "kind %d: expected a copy to, from or on the device where memory is not virtualized", (int)kind);
    }
}

/*
 * Retries on FACET_TIMEOUT, as src/memory does: the device gives up after some seconds, but this call returns only when
 * the copy is complete.
 */
static enum facet_status copy_until_done(struct facet_vgpu *vgpu, uint64_t to, uint64_t from, uint64_t bytes,
                                         enum facet_copy kind, struct facet_error *error)
{
    enum facet_status status = check_plain(to, from, bytes, kind, error);

    if (status != FACET_OK)
        return status;
    do
        status = copy_plain(vgpu, to, from, bytes, kind, error);
    while (status == FACET_TIMEOUT);
    return status;
}

static enum facet_status fill_until_done(struct facet_vgpu *vgpu, uint64_t address, uint8_t value, uint64_t bytes,
                                         struct facet_error *error)
{
    const struct facet_vgpu_device *device = vgpu->device;
    enum facet_status status;

    do
        status = device->provider->memory->fill(device->instance, vgpu->context, address, value, bytes, error);
    while (status == FACET_TIMEOUT);
    return status;
}

/* ---- memory in a space ---- */

/*
 * Retries once after memory that the device's vGPUs freed was unmapped: freed memory stays mapped until a call finds
 * that their work is over.
 */
static enum facet_status allocate_in_space(struct facet_vgpu *vgpu, uint64_t bytes,
                                           const struct facet_allocation_options *options, uint64_t *ret_address,
                                           struct facet_error *error)
{
    enum facet_status status = facet_space_allocate(vgpu->space, bytes, options, ret_address, error);

    if (status != FACET_NO_SPACE || !facet_vgpu_settle_device(vgpu->device))
        return status;
    return facet_space_allocate(vgpu->space, bytes, options, ret_address, error);
}

static bool is_host(struct facet_vgpu *vgpu, uint64_t address, bool named_as_host, enum facet_copy kind)
{
    struct facet_allocation found = {.size = sizeof found};

    return kind == FACET_COPY_DETECT ? facet_space_find(vgpu->space, address, &found, NULL) != FACET_OK : named_as_host;
}

static enum facet_status check_host_sides(struct facet_vgpu *vgpu, uint64_t to, uint64_t from, uint64_t bytes,
                                          enum facet_copy kind, struct facet_error *error)
{
    bool detect = kind == FACET_COPY_DETECT;
    enum facet_status status = FACET_OK;

    if (bytes == 0)
        return FACET_OK;
    if (is_host(vgpu, from, kind == FACET_COPY_TO_DEVICE || kind == FACET_COPY_HOST_TO_HOST, kind))
        status = facet_vgpu_check_host(vgpu->driver, "from", from, bytes, detect, error);
    if (status == FACET_OK && is_host(vgpu, to, kind == FACET_COPY_TO_HOST || kind == FACET_COPY_HOST_TO_HOST, kind))
        status = facet_vgpu_check_host(vgpu->driver, "to", to, bytes, detect, error);
    return status;
}

static enum facet_status copy_in_space(struct facet_vgpu *vgpu, uint64_t to, uint64_t from, uint64_t bytes,
                                       enum facet_copy kind, struct facet_error *error)
{
    struct facet_managed *entered = NULL;
    enum facet_status status = check_host_sides(vgpu, to, from, bytes, kind, error);

    if (status == FACET_OK)
        status = facet_managed_enter(vgpu, &entered, error);
    if (status == FACET_OK)
        status = facet_space_copy(vgpu->space, to, from, bytes, kind, error);
    facet_managed_leave(entered);
    return status;
}

static enum facet_status fill_in_space(struct facet_vgpu *vgpu, uint64_t address, uint8_t value, uint64_t bytes,
                                       struct facet_error *error)
{
    struct facet_managed *entered = NULL;
    enum facet_status status = facet_managed_enter(vgpu, &entered, error);

    if (status == FACET_OK)
        status = facet_space_fill(vgpu->space, address, value, bytes, error);
    facet_managed_leave(entered);
    return status;
}

enum facet_status facet_vgpu_allocate(struct facet_driver *driver, uint32_t id, uint64_t bytes,
                                      const struct facet_allocation_options *options, uint64_t *ret_address,
                                      struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(ret_address, error);
    enum facet_status status = begin_access(driver, id, false, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = vgpu->space ? allocate_in_space(vgpu, bytes, options, ret_address, error)
                         : allocate_plain(vgpu, bytes, options, ret_address, error);
    if (status == FACET_OK && !atomic_load_explicit(&vgpu->used, memory_order_relaxed))
        atomic_store_explicit(&vgpu->used, true, memory_order_relaxed);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_free(struct facet_driver *driver, uint32_t id, uint64_t address, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, false, &vgpu, error);

    if (status != FACET_OK)
        return status;
    const struct facet_vgpu_device *device = vgpu->device;
    if (vgpu->space)
        status = facet_managed_free(vgpu, address, error);
    else if (address)
        status = device->provider->memory->free(device->instance, vgpu->context, address, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_reallocate(struct facet_driver *driver, uint32_t id, uint64_t address, uint64_t bytes,
                                        uint64_t *ret_address, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(ret_address, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    if (atomic_load(&vgpu->paused))
        status = facet_error_set(error, FACET_FROZEN, "vGPU %" PRIu32 " is paused; resume it first", id);
    else
        status = facet_managed_check_resize(vgpu, address, error);
    if (status == FACET_OK)
        status = facet_space_resize(vgpu->space, address, bytes, ret_address, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_find(struct facet_driver *driver, uint32_t id, uint64_t address,
                                  struct facet_allocation *ret_allocation, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_allocation, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_find(vgpu->space, address, ret_allocation, error));
}

enum facet_status facet_vgpu_copy(struct facet_driver *driver, uint32_t id, uint64_t to, uint64_t from, uint64_t bytes,
                                  enum facet_copy kind, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, true, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = vgpu->space ? copy_in_space(vgpu, to, from, bytes, kind, error)
                         : copy_until_done(vgpu, to, from, bytes, kind, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_fill(struct facet_driver *driver, uint32_t id, uint64_t address, uint8_t value,
                                  uint64_t bytes, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, true, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = vgpu->space ? fill_in_space(vgpu, address, value, bytes, error)
                         : fill_until_done(vgpu, address, value, bytes, error);
    return facet_vgpu_note_status(vgpu, status);
}

/* ---- for the balancer ---- */

enum facet_status facet_vgpu_read_idle(struct facet_driver *driver, uint32_t id, uint64_t address, void *ret_data,
                                       uint64_t bytes, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, true, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = vgpu->space ? facet_space_read_idle(vgpu->space, address, ret_data, bytes, error)
                         : copy_plain(vgpu, (uintptr_t)ret_data, address, bytes, FACET_COPY_TO_HOST, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_write_idle(struct facet_driver *driver, uint32_t id, uint64_t address, const void *data,
                                        uint64_t bytes, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = begin_access(driver, id, true, &vgpu, error);

    if (status != FACET_OK)
        return status;
    if (vgpu->space)
        status = facet_space_write_idle(vgpu->space, address, data, bytes, error);
    else if (data)
        status = copy_plain(vgpu, address, (uintptr_t)data, bytes, FACET_COPY_TO_DEVICE, error);
    else
        status = vgpu->device->provider->memory->fill(vgpu->device->instance, vgpu->context, address, 0, bytes, error);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_set_memory(struct facet_driver *driver, uint32_t id, uint64_t memory_bytes,
                                        struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    pthread_mutex_lock(&vgpu->lock);
    status = facet_vgpu_name_limit(facet_space_set_limit(vgpu->space, memory_bytes, error), error);
    if (status == FACET_OK) {
        pthread_rwlock_wrlock(&driver->list_lock);
        vgpu->device->promised_bytes += memory_bytes - vgpu->memory_bytes;
        vgpu->memory_bytes = memory_bytes;
        atomic_store(&vgpu->limit_bytes, memory_bytes);
        pthread_rwlock_unlock(&driver->list_lock);
    }
    pthread_mutex_unlock(&vgpu->lock);
    return facet_vgpu_note_status(vgpu, status);
}

enum facet_status facet_vgpu_get_memory(struct facet_driver *driver, uint32_t id, struct facet_space_usage *ret_usage,
                                        struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_usage, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_get_usage(vgpu->space, ret_usage, error));
}

enum facet_status facet_vgpu_get_unusable(struct facet_driver *driver, uint32_t id, uint64_t bytes, uint32_t *ret_milli,
                                          struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(ret_milli, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_unusable(vgpu->space, bytes, ret_milli, error));
}

enum facet_status facet_vgpu_get_page(struct facet_driver *driver, uint32_t id, uint64_t address,
                                      struct facet_page *ret_page, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_page, error);
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_page(vgpu->space, address, ret_page, error));
}

enum facet_status facet_vgpu_defragment(struct facet_driver *driver, uint32_t id,
                                        const struct facet_defragment_options *options,
                                        struct facet_defragment_report *ret_report, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_defragment(vgpu->space, options, ret_report, error));
}

enum facet_status facet_vgpu_compact(struct facet_driver *driver, uint32_t id,
                                     const struct facet_defragment_options *options,
                                     struct facet_defragment_report *ret_report, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take_space(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    return facet_vgpu_note_status(vgpu, facet_space_compact(vgpu->space, options, ret_report, error));
}
