/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making and ending memories and spaces, and interpreting their configuration.
 * Never: makes an allocation for a user.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/need.h"
#include "base/sized.h"
#include "memory/addresses.h"
#include "memory/space.h"
#include "memory/unmap_queue.h"

#define PAGE_DEFAULT_BYTES      (UINT64_C(64) << 10)
#define PAGE_MAX_BYTES          (UINT64_C(1) << 30)
#define CHUNK_DEFAULT_BYTES     (UINT64_C(32) << 20)
#define PASS_DEFAULT_BYTES      (UINT64_C(1) << 20)
#define PASS_COMMITTED_BYTES    (UINT64_C(2) << 20) /* committed memory is moved in less time */
#define MEMORY_MAX_BYTES        (UINT64_C(1) << 46)
#define THRESHOLD_DEFAULT_MILLI 300u
#define REPAY_DEFAULT           20u /* facet_memory_config.swap_repay */
#define INTERVAL_DEFAULT_NS     UINT64_C(1000000000)
/*
 * The most addresses that all spaces of a memory have beyond the need of their first limits; each takes a sixteenth of
 * what is left.
 */
#define ADDRESSES_MAX_BYTES (UINT64_C(1) << 44)
/* How long facet_space_destroy() waits for launches that should be over. */
#define DESTROY_WAIT_NS (2 * FACET_NS_PER_S)
#define POLL_NS         FACET_NS_PER_MS

/* --- configuration ------------------------------------------------------------------------------------------------ */

static bool is_power(uint64_t value)
{
    return value && !(value & (value - 1));
}

static enum facet_status refuse_out_of_range(struct facet_error *error, const char *field, uint64_t value,
                                             const char *expected)
{
    return facet_error_argument(error, FACET_OUT_OF_RANGE, field, "%s: %" PRIu64 " is not %s", field, value, expected);
}

/* Chunks of a small device are small, so that the device has several. */
static uint64_t default_chunk(uint64_t memory_bytes, uint64_t page_bytes)
{
    uint64_t chunk =
        CHUNK_DEFAULT_BYTES > page_bytes * FACET_CHUNK_FRAMES ? page_bytes * FACET_CHUNK_FRAMES : CHUNK_DEFAULT_BYTES;

    while (chunk > page_bytes && chunk * 8 > memory_bytes)
        chunk /= 2;
    return chunk < page_bytes ? page_bytes : chunk;
}

static enum facet_status check_pages(const struct facet_memory_config *config, uint64_t backend_page,
                                     struct facet_error *error)
{
    if (!is_power(config->page_bytes) || config->page_bytes < backend_page || config->page_bytes > PAGE_MAX_BYTES)
        return refuse_out_of_range(error, "page_bytes", config->page_bytes,
                                   "a power of two from the device's own page to 1 GiB");
    if (config->memory_bytes < config->page_bytes || config->memory_bytes > MEMORY_MAX_BYTES)
        return refuse_out_of_range(error, "memory_bytes", config->memory_bytes, "within a page and 64 TiB");
    if (!is_power(config->chunk_bytes) || config->chunk_bytes < config->page_bytes ||
        config->chunk_bytes / config->page_bytes > FACET_CHUNK_FRAMES)
        return refuse_out_of_range(error, "chunk_bytes", config->chunk_bytes, "a power of two of 1 to 4,096 pages");
    if (config->defragment_milli > 1000)
        return refuse_out_of_range(error, "defragment_milli", config->defragment_milli, "within 1 to 1000");
    if (config->automatic > 1)
        return refuse_out_of_range(error, "automatic", config->automatic, "0 or 1");
    if (config->commit > 1)
        return refuse_out_of_range(error, "commit", config->commit, "0 or 1");
    return FACET_OK;
}

static enum facet_status complete_options(const struct facet_memory_config *config,
                                          const struct facet_page_backend *backend,
                                          struct facet_memory_config *ret_config, struct facet_error *error)
{
    uint64_t backend_page = backend->page_bytes;

    FACET_SIZED_TAKE(ret_config, config);
    if (!config->memory_bytes)
        ret_config->memory_bytes = backend->memory_bytes;
    if (!config->page_bytes)
        ret_config->page_bytes = backend_page > PAGE_DEFAULT_BYTES ? backend_page : PAGE_DEFAULT_BYTES;
    if (!config->chunk_bytes && is_power(ret_config->page_bytes))
        ret_config->chunk_bytes = default_chunk(ret_config->memory_bytes, ret_config->page_bytes);
    if (!config->pass_bytes)
        ret_config->pass_bytes = config->commit ? PASS_COMMITTED_BYTES : PASS_DEFAULT_BYTES;
    if (!config->defragment_milli)
        ret_config->defragment_milli = THRESHOLD_DEFAULT_MILLI;
    if (!config->swap_repay)
        ret_config->swap_repay = REPAY_DEFAULT;
    if (!config->interval_ns)
        ret_config->interval_ns = INTERVAL_DEFAULT_NS;
    return check_pages(ret_config, backend_page, error);
}

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static uint64_t now_ns(void *data)
{
    (void)data;
    return facet_clock_now_ns();
}

static uint64_t tick_ns(void *data)
{
    struct timespec now;

    (void)data;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return facet_timespec_ns(&now);
}

/* --- a memory ----------------------------------------------------------------------------------------------------- */

static enum facet_status start_memory(struct facet_memory *memory, const struct facet_memory_config *config,
                                      struct facet_error *error)
{
    enum facet_status status = facet_classes_init(&memory->classes, config->page_bytes, config->pools,
                                                  config->block_bytes, config->pool_bytes, error);

    if (status != FACET_OK)
        return status;
    memory->page_bytes = config->page_bytes;
    memory->chunk_bytes = config->chunk_bytes;
    memory->pass_bytes = config->pass_bytes;
    memory->swap_repay = config->swap_repay;
    status = facet_frames_init(&memory->frames, &memory->backend, config->memory_bytes, config->page_bytes,
                               config->chunk_bytes, error);
    if (status == FACET_OK && config->swap_bytes)
        status =
            facet_swap_create(config->swap_bytes, config->page_bytes, memory->frames.frames_max, &memory->swap, error);
    if (status == FACET_OK && config->automatic)
        status = facet_defragmenter_start(memory, config->defragment_milli, config->interval_ns, error);
    return status;
}

enum facet_status facet_memory_open(const struct facet_page_backend *backend, const struct facet_memory_config *config,
                                    struct facet_memory **ret_memory, struct facet_error *error)
{
    struct facet_memory *memory = calloc(1, sizeof *memory);
    struct facet_memory_config complete_config;
    enum facet_status status;

    if (!memory) {
        backend->ops->close(backend->data);
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for the memory manager");
    }
    memory->backend = *backend;
    if (!memory->backend.now_ns) {
        memory->backend.now_ns = now_ns;
        memory->backend.tick_ns = tick_ns;
    }
    pthread_mutex_init(&memory->lock, NULL);
    facet_queue_init(&memory->queue);
    status = complete_options(config, backend, &complete_config, error);
    if (status == FACET_OK)
        status = start_memory(memory, &complete_config, error);
    if (status != FACET_OK) {
        facet_memory_close(memory);
        return status;
    }
    *ret_memory = memory;
    return FACET_OK;
}

static enum facet_status check_config(const struct facet_memory_config *config, struct facet_error *error)
{
    if (config && config->size >= sizeof *config)
        return facet_sized_known("config", config, sizeof *config, error);
    return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                "config: its size is not that of struct facet_memory_config");
}

enum facet_status facet_memory_open_device(struct facet_session *session, uint32_t device, uint64_t owner,
                                           const struct facet_memory_config *config, struct facet_memory **ret_memory,
                                           struct facet_error *error)
{
    struct facet_page_backend backend;

    FACET_NEED(session, error);
    FACET_NEED(ret_memory, error);
    enum facet_status status = check_config(config, error);
    if (status == FACET_OK)
        status = facet_page_backend_device(session, device, owner, &backend, error);
    return status == FACET_OK ? facet_memory_open(&backend, config, ret_memory, error) : status;
}

enum facet_status facet_memory_open_host(const struct facet_memory_config *config, struct facet_memory **ret_memory,
                                         struct facet_error *error)
{
    struct facet_page_backend backend;

    FACET_NEED(ret_memory, error);
    enum facet_status status = check_config(config, error);
    if (status != FACET_OK)
        return status;
    if (!config->memory_bytes || config->memory_bytes > MEMORY_MAX_BYTES)
        return refuse_out_of_range(error, "memory_bytes", config->memory_bytes, "within a page and 64 TiB");
    status = facet_page_backend_memfd(config->memory_bytes, config->commit, &backend, error);
    return status == FACET_OK ? facet_memory_open(&backend, config, ret_memory, error) : status;
}

/* --- a space ------------------------------------------------------------------------------------------------------ */

/* Four times as many addresses as memory: pages may lie anywhere, but addresses must be contiguous. */
static uint64_t pages_for_limit(const struct facet_memory *memory, uint64_t limit_bytes)
{
    return limit_bytes / memory->page_bytes * 4 + 1024;
}

/*
 * How many pages of addresses let the space's limit be raised to all of the memory; 0: as few as possible. Addresses
 * cost nothing, except if the process's addresses are limited, or if thousands of spaces each want all addresses of a
 * large device.
 */
static uint64_t pages_to_grow(struct facet_memory *memory)
{
    uint64_t wanted = facet_memory_max_bytes(memory) / memory->page_bytes * 2 + 1024;

    if (facet_addresses_are_limited())
        return 0;
    pthread_mutex_lock(&memory->lock);
    uint64_t left = memory->span_bytes < ADDRESSES_MAX_BYTES ? ADDRESSES_MAX_BYTES - memory->span_bytes : 0;
    pthread_mutex_unlock(&memory->lock);
    uint64_t part = left / 16 / memory->page_bytes;

    return wanted < part ? wanted : part;
}

static enum facet_status take_pages(struct facet_space *space, uint64_t wanted, struct facet_error *error)
{
    uint32_t pages = wanted > FACET_PAGE_NONE - 1 ? FACET_PAGE_NONE - 1 : (uint32_t)wanted;

    if (!facet_table_init(&space->table, pages))
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a page table of %u pages", pages);
    enum facet_status status = facet_addresses_take(space, (uint64_t)pages << space->page_shift, error);
    if (status != FACET_OK)
        facet_table_clear(&space->table);
    return status;
}

static enum facet_status reserve_space(struct facet_space *space, uint64_t limit_bytes, struct facet_error *error)
{
    struct facet_memory *memory = space->memory;
    uint64_t min = pages_for_limit(memory, limit_bytes), more = pages_to_grow(memory);
    enum facet_status status = FACET_NO_MEMORY;

    space->page_shift = (uint32_t)__builtin_ctzll(memory->page_bytes);
    space->limit_pages = limit_bytes / memory->page_bytes;
    if (more > min)
        status = take_pages(space, more, NULL);
    if (status != FACET_OK && status != FACET_DEVICE_LOST)
        status = take_pages(space, min, error);
    return status == FACET_OK ? facet_pools_create(space, error) : status;
}

static enum facet_status list_space(struct facet_memory *memory, struct facet_space *space, uint64_t limit_bytes,
                                    struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&memory->lock);
    if (memory->last_serial == FACET_SPACE_HELD - 1) {
        status = facet_error_set(error, FACET_OUT_OF_RANGE, "2^32 - 2 vGPUs have been made in this memory");
    } else {
        space->serial = ++memory->last_serial;
        LIST_INSERT_HEAD(&memory->spaces, space, in_memory);
        memory->space_count++;
        memory->limits_bytes += limit_bytes;
        memory->span_bytes += space->address_bytes;
    }
    pthread_mutex_unlock(&memory->lock);
    return status;
}

/* Frames that are still mapped when the addresses are released stay unused until the memory is closed. */
static void free_space(struct facet_space *space)
{
    if (space->table.entries)
        facet_pools_destroy(space);
    if (space->address_bytes && facet_addresses_give(space))
        facet_unmap_queue_clear(space);
    facet_table_clear(&space->table);
    pthread_mutex_destroy(&space->unmap_lock);
    pthread_rwlock_destroy(&space->transfer_lock);
    pthread_mutex_destroy(&space->lock);
    free(space);
}

static enum facet_status check_limit(const struct facet_memory *memory, uint64_t limit_bytes, struct facet_error *error)
{
    uint64_t max = facet_memory_max_bytes(memory);

    if (limit_bytes >= memory->page_bytes && limit_bytes <= max)
        return FACET_OK;
    return facet_error_argument(error, FACET_OUT_OF_RANGE, "limit_bytes",
                                "limit_bytes: %" PRIu64 " is not within one page, %" PRIu64
                                " bytes, and all memory of device and swap, %" PRIu64 " bytes",
                                limit_bytes, memory->page_bytes, max);
}

/* Prefers writers, so that an unmapping thread does not wait for copies that begin later. */
static void init_transfer_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t attributes;

    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(lock, &attributes);
    pthread_rwlockattr_destroy(&attributes);
}

enum facet_status facet_space_create(struct facet_memory *memory, const struct facet_space_config *config,
                                     struct facet_space **ret_space, struct facet_error *error)
{
    FACET_NEED(memory, error);
    FACET_NEED(ret_space, error);
    if (!config || config->size < sizeof *config)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "config",
                                    "config: its size is not that of struct facet_space_config");
    FACET_NEED_KNOWN("config", config, error);
    enum facet_status status = check_limit(memory, config->limit_bytes, error);
    struct facet_space *space = status == FACET_OK ? calloc(1, sizeof *space) : NULL;

    if (!space)
        return status == FACET_OK ? facet_error_set(error, FACET_NO_MEMORY, "no memory for a vGPU's space") : status;
    space->memory = memory;
    space->id = config->id;
    space->context = config->context;
    pthread_mutex_init(&space->lock, NULL);
    pthread_mutex_init(&space->unmap_lock, NULL);
    init_transfer_lock(&space->transfer_lock);
    facet_unmap_queue_init(&space->unmap_queue);
    for (size_t i = 0; config->name && config->name[i] && i < sizeof space->name - 1; i++)
        space->name[i] = config->name[i];
    status = reserve_space(space, config->limit_bytes, error);
    if (status == FACET_OK)
        status = list_space(memory, space, space->limit_pages * memory->page_bytes, error);
    if (status != FACET_OK) {
        free_space(space);
        return status;
    }
    *ret_space = space;
    return FACET_OK;
}

static void unlink_space(struct facet_space *space)
{
    struct facet_memory *memory = space->memory;

    pthread_mutex_lock(&memory->lock);
    LIST_REMOVE(space, in_memory);
    memory->space_count--;
    memory->limits_bytes -= space->limit_pages * memory->page_bytes;
    memory->span_bytes -= space->address_bytes;
    pthread_mutex_unlock(&memory->lock);
    /* Waits for a defragmenting thread that may have locked the space before the removal. */
    pthread_mutex_lock(&space->lock);
    pthread_mutex_unlock(&space->lock);
}

bool facet_space_vacate(struct facet_space *space)
{
    facet_runs_clear(space);
    facet_pools_clear(space);
    (void)facet_space_unmap_freed(space);
    return !facet_space_awaits_unmap(space);
}

/*
 * Whether a later try may succeed. A device that is lost, or whose context is gone, never unmaps: then the pages go
 * with the addresses.
 */
static bool may_unmap_later(enum facet_status status)
{
    return status == FACET_BUSY || status == FACET_BAD_STATE;
}

/*
 * Frees all allocations of a space, and waits a bounded time for the device to unmap them. Returns why some stay
 * mapped if a later try may succeed, else FACET_OK.
 */
static enum facet_status vacate_and_wait(struct facet_space *space)
{
    const struct timespec step = facet_ns_timespec(POLL_NS);
    uint64_t end = facet_clock_now_ns() + DESTROY_WAIT_NS;

    while (!facet_space_vacate(space) && space->unmap_queue.last_refusal == FACET_BUSY && facet_clock_now_ns() < end)
        nanosleep(&step, NULL);
    return may_unmap_later(space->unmap_queue.last_refusal) ? space->unmap_queue.last_refusal : FACET_OK;
}

enum facet_status facet_space_destroy(struct facet_space *space, struct facet_error *error)
{
    if (!space)
        return FACET_OK;
    enum facet_status status = vacate_and_wait(space);

    if (status != FACET_OK)
        return facet_error_set(error, status,
                               "vGPU %u ('%s'): %" PRIu64 " bytes may still be used by what its context has queued; "
                               "end that, and destroy the space again",
                               space->id, space->name,
                               atomic_load(&space->unmap_queue.pages) * space->memory->page_bytes);
    unlink_space(space);
    free_space(space);
    return FACET_OK;
}

void facet_memory_close(struct facet_memory *memory)
{
    if (!memory)
        return;
    facet_defragmenter_stop(memory);
    while (!LIST_EMPTY(&memory->spaces)) {
        struct facet_space *space = LIST_FIRST(&memory->spaces);

        (void)vacate_and_wait(space); /* the provider keeps the space's pages for launches that still run */
        unlink_space(space);
        free_space(space);
    }
    facet_frames_clear(&memory->frames);
    facet_swap_destroy(memory->swap);
    facet_queue_clear(&memory->queue);
    memory->backend.ops->close(memory->backend.data);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

enum facet_status facet_space_set_limit(struct facet_space *space, uint64_t limit_bytes, struct facet_error *error)
{
    FACET_NEED(space, error);
    struct facet_memory *memory = space->memory;
    uint64_t pages = limit_bytes / memory->page_bytes;
    enum facet_status status = check_limit(memory, limit_bytes, error);

    if (status != FACET_OK)
        return status;
    if (pages > space->table.count)
        return facet_error_argument(error, FACET_OUT_OF_RANGE, "limit_bytes",
                                    "limit_bytes: %" PRIu64 " is more than the addresses that vGPU %u ('%s') was made "
                                    "with, %" PRIu64 " bytes: destroy it, and make it anew with that limit",
                                    limit_bytes, space->id, space->name, space->address_bytes);
    pthread_mutex_lock(&memory->lock);
    pthread_mutex_lock(&space->lock);
    if (pages < space->pages) {
        status = facet_error_argument(error, FACET_QUOTA, "limit_bytes",
                                      "limit_bytes: vGPU %u holds %" PRIu64 " bytes, more than %" PRIu64, space->id,
                                      space->pages * memory->page_bytes, limit_bytes);
    } else {
        memory->limits_bytes += (pages - space->limit_pages) * memory->page_bytes;
        space->limit_pages = pages;
    }
    pthread_mutex_unlock(&space->lock);
    pthread_mutex_unlock(&memory->lock);
    return status;
}
