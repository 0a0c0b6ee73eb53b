/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the public calls on managed memory, and a vGPU's managed state from the first such allocation to the vGPU's
 * end. Never: returns a pointer that is not also an address of the device.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sized.h"
#include "vgpu/managed/enter.h"
#include "vgpu/managed/managed.h"

#define BUFFER_BYTES   (UINT64_C(1) << 20) /* the least size of the buffer that pages pass through */
#define MAP_TRIES      12u                 /* addresses tried beyond the first when this process uses them */
#define MAP_STEP_PAGES 16u                 /* the alignment of the second try, in pages */

/* ---- the state of a vGPU ---- */

static void discard_managed(struct facet_managed *managed)
{
    struct facet_managed_range *range;

    facet_managed_stop(managed);
    while ((range = LIST_FIRST(&managed->ranges))) {
        facet_managed_remove(managed, range);
        if (!managed->shared)
            facet_managed_unmap(managed, range->address, range->bytes);
        free(range);
    }
    facet_managed_unwatch(managed);
    pthread_cond_destroy(&managed->idle);
    pthread_mutex_destroy(&managed->lock);
    free(managed->buffer);
    free(managed);
}

static struct facet_managed *new_managed(struct facet_vgpu *vgpu, uint64_t page_bytes)
{
    struct facet_managed *managed = calloc(1, sizeof *managed);
    pthread_condattr_t clock;

    if (!managed)
        return NULL;
    *managed =
        (struct facet_managed){.vgpu = vgpu, .page_bytes = page_bytes, .fault_fd = -1, .wake_fd = -1, .generation = 1};
    managed->buffer_bytes = page_bytes > BUFFER_BYTES ? page_bytes : BUFFER_BYTES;
    pthread_mutex_init(&managed->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&managed->idle, &clock);
    pthread_condattr_destroy(&clock);
    managed->buffer = malloc(managed->buffer_bytes);
    if (managed->buffer)
        return managed;
    discard_managed(managed);
    return NULL;
}

/* Called for the first allocation, which is at `address`. */
static enum facet_status begin_managed(struct facet_vgpu *vgpu, uint64_t page_bytes, uint64_t address,
                                       struct facet_error *error)
{
    struct facet_managed *managed = new_managed(vgpu, page_bytes);
    enum facet_status status;

    if (!managed)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a vGPU's managed memory");
    status = facet_managed_probe(vgpu, address, &managed->shared, error);
    if (status == FACET_OK && managed->shared && vgpu->device->swap_bytes > 0)
        status = facet_error_set(error, FACET_UNSUPPORTED,
                                 "with its provider in this process, managed memory cannot swap; open the driver with "
                                 "FACET_SESSION_CHILD, or without swap_bytes");
    if (status == FACET_OK && !managed->shared)
        status = facet_managed_watch(managed, error);
    if (status != FACET_OK) {
        discard_managed(managed);
        return status;
    }
    atomic_fetch_add(&vgpu->driver->managed, 1);
    atomic_store_explicit(&vgpu->managed, managed, memory_order_release);
    return FACET_OK;
}

static enum facet_status ensure_managed(struct facet_vgpu *vgpu, uint64_t page_bytes, uint64_t address,
                                        struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&vgpu->managed_lock);
    if (!atomic_load(&vgpu->managed))
        status = begin_managed(vgpu, page_bytes, address, error);
    pthread_mutex_unlock(&vgpu->managed_lock);
    return status;
}

void facet_managed_end(struct facet_vgpu *vgpu)
{
    struct facet_managed *managed = atomic_load(&vgpu->managed);

    if (!managed)
        return;
    atomic_store(&vgpu->managed, NULL);
    atomic_fetch_sub(&vgpu->driver->managed, 1);
    discard_managed(managed);
}

/* ---- allocating ---- */

static enum facet_status page_size(const struct facet_vgpu *vgpu, uint64_t *ret_page_bytes, struct facet_error *error)
{
    struct facet_memory_usage usage = {.size = sizeof usage};
    uint64_t host_page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    enum facet_status status = facet_memory_get_usage(vgpu->device->memory, &usage, error);

    if (status == FACET_OK)
        *ret_page_bytes = usage.page_bytes > host_page_bytes ? usage.page_bytes : host_page_bytes;
    return status;
}

/* Makes an allocation managed memory; maps its addresses in this process unless the device shares them. */
static enum facet_status adopt_range(struct facet_vgpu *vgpu, uint64_t address, uint64_t bytes,
                                     struct facet_error *error)
{
    struct facet_managed *managed = atomic_load(&vgpu->managed);
    uint64_t pages = bytes / managed->page_bytes;
    struct facet_managed_range *range = pages < UINT32_MAX ? calloc(1, sizeof *range + pages) : NULL;
    enum facet_status status = FACET_OK;

    if (!range)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a table of %" PRIu64 " pages", pages);
    range->address = address;
    range->bytes = bytes;
    range->pages = (uint32_t)pages;
    pthread_mutex_lock(&managed->lock);
    if (!managed->shared)
        status = facet_managed_map(managed, address, bytes, error);
    if (status == FACET_OK && !facet_managed_insert(managed, range)) {
        if (!managed->shared)
            facet_managed_unmap(managed, address, bytes);
        status = facet_error_set(error, FACET_NO_MEMORY, "no memory for managed memory");
    }
    pthread_mutex_unlock(&managed->lock);
    if (status != FACET_OK)
        free(range);
    return status;
}

/* Tries one address. FACET_BUSY: this process has mapped something at the addresses. */
static enum facet_status allocate_once(struct facet_vgpu *vgpu, uint64_t bytes, uint64_t page_bytes,
                                       const struct facet_allocation_options *options, uint64_t *ret_address,
                                       struct facet_error *error)
{
    uint64_t address = 0;
    enum facet_status status = facet_space_allocate(vgpu->space, bytes, options, &address, error);

    if (status != FACET_OK)
        return status;
    status = ensure_managed(vgpu, page_bytes, address, error);
    if (status == FACET_OK)
        status = adopt_range(vgpu, address, bytes, error);
    if (status == FACET_OK)
        *ret_address = address;
    else
        (void)facet_space_free(vgpu->space, address, NULL);
    return status;
}

/*
 * A mapping in the way, such as an arena of the C library, may be far larger than the allocation. So each try doubles
 * the alignment, and keeps one page at the previous address, so that the next address is elsewhere.
 */
static enum facet_status allocate_range(struct facet_vgpu *vgpu, uint64_t bytes, uint64_t page_bytes,
                                        struct facet_allocation_options options, uint64_t *ret_address,
                                        struct facet_error *error)
{
    uint64_t aside[MAP_TRIES], asked_align = options.align, address = 0;
    uint32_t tries = 0;
    enum facet_status status = allocate_once(vgpu, bytes, page_bytes, &options, &address, error);

    while (status == FACET_BUSY && tries < MAP_TRIES) {
        options.align = options.align < MAP_STEP_PAGES * page_bytes ? MAP_STEP_PAGES * page_bytes : options.align * 2;
        status = facet_space_allocate(vgpu->space, page_bytes, &options, &aside[tries], NULL);
        if (status != FACET_OK)
            break;
        tries++;
        status = allocate_once(vgpu, bytes, page_bytes, &options, &address, error);
    }
    for (uint32_t i = 0; i < tries; i++)
        (void)facet_space_free(vgpu->space, aside[i], NULL);
    if (status == FACET_OK)
        *ret_address = address;
    else if (options.align > asked_align)
        status = facet_error_set(error, FACET_BUSY,
                                 "tried %" PRIu32 " addresses of vGPU %" PRIu32 " for %" PRIu64
                                 " bytes: this process has something else mapped at each",
                                 tries + 1, vgpu->id, bytes);
    return status;
}

/* Takes a vGPU; refuses it when its device is lost, or its memory is not virtualized. */
static enum facet_status enter_managed(struct facet_driver *driver, uint32_t id, struct facet_vgpu **ret_vgpu,
                                       struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    status = facet_vgpu_device_check(vgpu->device, error);
    if (status == FACET_OK && !vgpu->space)
        status = facet_error_set(error, FACET_UNSUPPORTED, "managed memory needs memory virtualization, which is off");
    if (status == FACET_OK)
        *ret_vgpu = FACET_TAKE_PTR(vgpu);
    return status;
}

static enum facet_status allocate_managed(struct facet_vgpu *vgpu, uint64_t bytes,
                                          const struct facet_allocation_options *asked, void **ret_pointer,
                                          struct facet_error *error)
{
    struct facet_allocation_options options = {.size = sizeof options};
    uint64_t page_bytes = 0, address = 0;
    enum facet_status status = page_size(vgpu, &page_bytes, error);

    if (status != FACET_OK)
        return status;
    if (asked && asked->size < sizeof options)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "options",
                                    "options: size %" PRIu32 ", expected that of struct facet_allocation_options, %zu",
                                    asked->size, sizeof options);
    FACET_NEED_KNOWN("options", asked, error);
    if (asked)
        FACET_SIZED_TAKE(&options, asked);
    if (options.align == 0 || (options.align < page_bytes && !(options.align & (options.align - 1))))
        options.align = page_bytes;
    if (bytes <= UINT64_MAX - page_bytes) /* more is refused in any case */
        bytes = (bytes + page_bytes - 1) & ~(page_bytes - 1);
    status = atomic_load(&vgpu->paused)
                 ? facet_error_set(error, FACET_FROZEN, "vGPU %" PRIu32 " is paused; resume it first", vgpu->id)
                 : allocate_range(vgpu, bytes, page_bytes, options, &address, error);
    if (status == FACET_OK)
        *ret_pointer = facet_managed_at(address);
    return status;
}

enum facet_status facet_vgpu_allocate_managed(struct facet_driver *driver, uint32_t id, uint64_t bytes,
                                              const struct facet_allocation_options *options, void **ret_pointer,
                                              struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_NEED(ret_pointer, error);
    enum facet_status status = enter_managed(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    status = allocate_managed(vgpu, bytes, options, ret_pointer, error);
    if (status == FACET_OK)
        atomic_store_explicit(&vgpu->used, true, memory_order_relaxed);
    return facet_vgpu_note_status(vgpu, status);
}

/* Pages at the host are dropped and not sent back, because their content is not needed any more. */
enum facet_status facet_managed_free(struct facet_vgpu *vgpu, uint64_t address, struct facet_error *error)
{
    struct facet_managed *managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);
    struct facet_managed_range *range = NULL;
    enum facet_status status;

    if (!managed || !address)
        return facet_space_free(vgpu->space, address, error);
    pthread_mutex_lock(&managed->lock);
    status = facet_space_free(vgpu->space, address, error);
    if (status == FACET_OK)
        range = facet_managed_find(managed, address, 1);
    if (range) {
        facet_managed_remove(managed, range);
        if (!managed->shared)
            facet_managed_unmap(managed, range->address, range->bytes);
        free(range);
    }
    pthread_mutex_unlock(&managed->lock);
    return status;
}

/* ---- refusing ---- */

static bool overlaps_managed(const struct facet_vgpu *vgpu, uint64_t address, uint64_t bytes)
{
    struct facet_managed *managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);

    if (!managed)
        return false;
    pthread_mutex_lock(&managed->lock);
    bool found = facet_managed_find(managed, address, bytes) != NULL;

    pthread_mutex_unlock(&managed->lock);
    return found;
}

enum facet_status facet_managed_check_resize(const struct facet_vgpu *vgpu, uint64_t address, struct facet_error *error)
{
    if (!overlaps_managed(vgpu, address, 1))
        return FACET_OK;
    return facet_error_argument(error, FACET_UNSUPPORTED, "address",
                                "address 0x%" PRIx64 ": managed memory is never resized; allocate anew and copy",
                                address);
}

enum facet_status facet_managed_check_host(struct facet_driver *driver, const char *argument, uint64_t address,
                                           uint64_t bytes, struct facet_error *error)
{
    uint64_t next = 0;
    bool found = false;

    if (atomic_load_explicit(&driver->managed, memory_order_acquire) == 0 || bytes == 0)
        return FACET_OK;
    for (struct facet_vgpu *vgpu; next <= UINT32_MAX && !found; facet_vgpu_drop(vgpu)) {
        vgpu = facet_vgpu_next(driver, (uint32_t)next);
        if (!vgpu)
            return FACET_OK;
        next = (uint64_t)vgpu->id + 1;
        found = overlaps_managed(vgpu, address, bytes);
    }
    if (!found)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, argument,
                                "%s: 0x%" PRIx64 " is managed memory of vGPU %" PRIu64
                                ", which is the device's side of a copy only",
                                argument, address, next - 1);
}

/* ---- asking and moving ---- */

static enum facet_status refuse_unknown_pointer(const struct facet_vgpu *vgpu, const void *pointer,
                                                struct facet_error *error)
{
    return facet_error_argument(error, FACET_NOT_FOUND, "pointer",
                                "pointer 0x%" PRIx64 ": expected managed memory of vGPU %" PRIu32,
                                (uint64_t)(uintptr_t)pointer, vgpu->id);
}

static void describe_range(const struct facet_managed *managed, const struct facet_managed_range *range,
                           struct facet_managed_usage *ret_usage)
{
    const struct facet_managed_usage usage = {
        .size = ret_usage->size < sizeof usage ? ret_usage->size : sizeof usage,
        .flags = (managed->shared ? FACET_MANAGED_SHARED : 0) |
                 (managed->shared || managed->system_calls ? FACET_MANAGED_SYSTEM_CALLS : 0),
        .address = range->address,
        .bytes = range->bytes,
        .page_bytes = managed->page_bytes,
        .pages = range->pages,
        .pages_at_host = range->pages_at_host,
        .pages_dirty = range->dirty_pages,
        .to_host_total = range->to_host,
        .to_device_total = range->to_device,
        .faults_total = range->fault_count,
    };

    memcpy(ret_usage, &usage, usage.size);
}

enum facet_status facet_vgpu_get_managed(struct facet_driver *driver, uint32_t id, const void *pointer,
                                         struct facet_managed_usage *ret_usage, struct facet_error *error)
{
    const struct facet_managed_range *range = NULL;
    struct facet_managed *managed;
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;

    FACET_VGPU_NEED_STRUCT(ret_usage, error);
    enum facet_status status = facet_vgpu_take(driver, id, &vgpu, error);
    if (status != FACET_OK)
        return status;
    managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);
    if (managed) {
        pthread_mutex_lock(&managed->lock);
        range = facet_managed_find(managed, (uintptr_t)pointer, 1);
        if (range)
            describe_range(managed, range, ret_usage);
        pthread_mutex_unlock(&managed->lock);
    }
    return range ? FACET_OK : refuse_unknown_pointer(vgpu, pointer, error);
}

/* Fetches the pages that are at the device. Looks the range up for each page, because fetching drops the lock. */
static enum facet_status fetch_all(struct facet_managed *managed, uint64_t first, uint64_t last,
                                   struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint64_t at = first; at <= last && status == FACET_OK; at += managed->page_bytes) {
        uint64_t left = (last - at) / managed->page_bytes + 1;
        const struct facet_managed_range *range = facet_managed_find(managed, at, 1);

        if (range && range->state[(at - range->address) / managed->page_bytes] == FACET_MANAGED_AT_DEVICE)
            status = facet_managed_fetch(managed, at, (uint32_t)left, false, error);
    }
    return status;
}

static enum facet_status prefetch_range(struct facet_managed *managed, uint64_t address, uint64_t bytes, bool to_host,
                                        struct facet_error *error)
{
    struct facet_managed_range *range = facet_managed_find(managed, address, 1);

    if (!range)
        return refuse_unknown_pointer(managed->vgpu, facet_managed_at(address), error);
    if (bytes > range->address + range->bytes - address)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "bytes",
                                    "bytes %" PRIu64 ": expected at most %" PRIu64 ", what is left of the allocation",
                                    bytes, range->address + range->bytes - address);
    if (managed->shared || bytes == 0)
        return FACET_OK;
    uint64_t first = (address - range->address) / managed->page_bytes;
    uint64_t last = (address + bytes - 1 - range->address) / managed->page_bytes;

    if (!to_host)
        return facet_managed_return(managed, range, (uint32_t)first, (uint32_t)(last - first + 1), error);
    return fetch_all(managed, range->address + first * managed->page_bytes, range->address + last * managed->page_bytes,
                     error);
}

enum facet_status facet_vgpu_prefetch(struct facet_driver *driver, uint32_t id, const void *pointer, uint64_t bytes,
                                      bool to_host, struct facet_error *error)
{
    FACET_CLEANUP_VGPU struct facet_vgpu *vgpu = NULL;
    enum facet_status status = enter_managed(driver, id, &vgpu, error);

    if (status != FACET_OK)
        return status;
    struct facet_managed *managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);

    if (!managed)
        return refuse_unknown_pointer(vgpu, pointer, error);
    if (atomic_load(&vgpu->paused))
        return facet_error_set(error, FACET_FROZEN, "vGPU %" PRIu32 " is paused; resume it first", id);
    pthread_mutex_lock(&managed->lock);
    status = prefetch_range(managed, (uintptr_t)pointer, bytes, to_host, error);
    pthread_mutex_unlock(&managed->lock);
    return facet_vgpu_note_status(vgpu, status);
}
