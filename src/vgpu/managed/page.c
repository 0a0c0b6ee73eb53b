/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the state of each page of managed memory, and moving pages to the host and back.
 * Never: brings a page to the host while its vGPU has work, or drops a page that is newer than the device's copy.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <search.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "vgpu/managed/enter.h"
#include "vgpu/managed/managed.h"
#include "vgpu/stream.h"

/* UFFDIO_POISON exists since Linux 6.6; older headers lack it. */
#ifndef UFFDIO_POISON
struct uffdio_poison {
    struct uffdio_range range;
    uint64_t mode;
    int64_t updated;
};
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif

/* How often a thread that waits for the device asks whether it is idle: less often the longer it has waited. */
#define POLL_MIN_NS (20 * FACET_NS_PER_US)
#define POLL_MAX_NS (5 * FACET_NS_PER_MS)
/* How long a caller that queues work waits so that a starving thread gets its page; doubled each time. */
#define YIELD_NS        FACET_NS_PER_MS
#define YIELD_SHIFT_MAX 10u

/* ---- finding ---- */

/* Orders ranges, which do not overlap. A key that overlaps a range compares as equal to it. */
static int compare_pages(const void *left, const void *right)
{
    const struct facet_managed_range *a = left, *b = right;

    if (a->address + (a->bytes - 1) < b->address)
        return -1;
    return b->address + (b->bytes - 1) < a->address;
}

struct facet_managed_range *facet_managed_find(const struct facet_managed *managed, uint64_t address, uint64_t bytes)
{
    struct facet_managed_range key = {.address = address, .bytes = bytes ? bytes : 1};
    void *found;

    if (key.bytes - 1 > UINT64_MAX - address)
        key.bytes = UINT64_MAX - address + 1;
    found = tfind(&key, &managed->tree, compare_pages);
    return found ? *(struct facet_managed_range **)found : NULL;
}

bool facet_managed_insert(struct facet_managed *managed, struct facet_managed_range *range)
{
    if (!tsearch(range, &managed->tree, compare_pages))
        return false;
    LIST_INSERT_HEAD(&managed->ranges, range, all);
    return true;
}

void facet_managed_remove(struct facet_managed *managed, struct facet_managed_range *range)
{
    tdelete(range, &managed->tree, compare_pages);
    LIST_REMOVE(range, all);
    if (range->pages_at_host > 0)
        LIST_REMOVE(range, with_host_pages);
}

/* ---- states ---- */

static void set_state(struct facet_managed *managed, struct facet_managed_range *range, uint32_t page, uint8_t state)
{
    bool had_host_pages = range->pages_at_host > 0;
    uint8_t before = range->state[page];

    range->pages_at_host -= before == FACET_MANAGED_CLEAN || before == FACET_MANAGED_DIRTY;
    range->pages_at_host += state == FACET_MANAGED_CLEAN || state == FACET_MANAGED_DIRTY;
    range->dirty_pages -= before == FACET_MANAGED_DIRTY;
    range->dirty_pages += state == FACET_MANAGED_DIRTY;
    range->state[page] = state;
    if (!had_host_pages && range->pages_at_host > 0)
        LIST_INSERT_HEAD(&managed->with_host_pages, range, with_host_pages);
    else if (had_host_pages && range->pages_at_host == 0)
        LIST_REMOVE(range, with_host_pages);
}

/* Returns how many pages in a row, from `first` on and before `end`, are in the state of `first`. */
static uint32_t count_alike(const struct facet_managed_range *range, uint32_t first, uint32_t end)
{
    uint32_t page = first;

    while (page < end && range->state[page] == range->state[first])
        page++;
    return page - first;
}

void facet_managed_wake(const struct facet_managed *managed, uint64_t address, uint64_t bytes)
{
    struct uffdio_range range = {.start = address, .len = bytes};

    (void)!ioctl(managed->fault_fd, UFFDIO_WAKE, &range);
}

static enum facet_status protect_pages(const struct facet_managed *managed, uint64_t address, uint64_t bytes, bool on,
                                       struct facet_error *error)
{
    struct uffdio_writeprotect protection = {.range = {.start = address, .len = bytes},
                                             .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

    if (ioctl(managed->fault_fd, UFFDIO_WRITEPROTECT, &protection) == 0)
        return FACET_OK;
    return facet_error_errno(error, errno, "cannot %sprotect managed memory at 0x%" PRIx64, on ? "" : "un", address);
}

enum facet_status facet_managed_mark_dirty(struct facet_managed *managed, struct facet_managed_range *range,
                                           uint32_t page, struct facet_error *error)
{
    enum facet_status status =
        protect_pages(managed, facet_managed_address(managed, range, page), managed->page_bytes, false, error);

    if (status == FACET_OK)
        set_state(managed, range, page, FACET_MANAGED_DIRTY);
    return status;
}

/* Where the kernel cannot poison pages, the page is protected from every access, and threads that wait are woken. */
void facet_managed_poison(struct facet_managed *managed, struct facet_managed_range *range, uint32_t page)
{
    uint64_t address = facet_managed_address(managed, range, page);
    struct uffdio_poison poison = {.range = {.start = address, .len = managed->page_bytes}};

    if (!managed->can_poison || ioctl(managed->fault_fd, UFFDIO_POISON, &poison) < 0) {
        (void)!mprotect(facet_managed_at(address), managed->page_bytes, PROT_NONE);
        (void)!ioctl(managed->fault_fd, UFFDIO_UNREGISTER, &poison.range);
    }
    set_state(managed, range, page, FACET_MANAGED_LOST);
}

/* ---- to the host ---- */

/* Installs the pages write-protected, and removes all of them again when one fails. */
static enum facet_status install_pages(const struct facet_managed *managed, uint64_t address, uint64_t bytes, bool wake,
                                       struct facet_error *error)
{
    uint64_t done = 0;
    int failed = 0;

    while (done < bytes && failed == 0) {
        struct uffdio_copy copy = {.dst = address + done,
                                   .src = (uintptr_t)managed->buffer + done,
                                   .len = bytes - done,
                                   .mode = UFFDIO_COPY_MODE_WP | (wake ? 0 : UFFDIO_COPY_MODE_DONTWAKE)};

        if (ioctl(managed->fault_fd, UFFDIO_COPY, &copy) < 0 && errno != EAGAIN)
            failed = errno;
        done += copy.copy > 0 ? (uint64_t)copy.copy : 0;
    }
    if (failed == 0)
        return FACET_OK;
    (void)!madvise(facet_managed_at(address), bytes, MADV_DONTNEED);
    return facet_error_errno(error, failed, "cannot bring %" PRIu64 " bytes of managed memory to the host", bytes);
}

/* Brings pages to the host. The device is idle. */
static enum facet_status bring_pages(struct facet_managed *managed, struct facet_managed_range *range, uint32_t first,
                                     uint32_t pages, bool write, struct facet_error *error)
{
    uint64_t address = facet_managed_address(managed, range, first), bytes = pages * managed->page_bytes;
    enum facet_status status =
        facet_space_copy(managed->vgpu->space, (uintptr_t)managed->buffer, address, bytes, FACET_COPY_TO_HOST, error);

    if (status == FACET_OK)
        status = install_pages(managed, address, bytes, !write, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < pages; i++)
        set_state(managed, range, first + i, FACET_MANAGED_CLEAN);
    range->to_host += pages;
    return write ? facet_managed_mark_dirty(managed, range, first, error) : FACET_OK;
}

static void sleep_for(uint64_t ns)
{
    const struct timespec span = facet_ns_timespec(ns);

    nanosleep(&span, NULL);
}

/* Asks whether the vGPU has unfinished work. A kernel's error stays for the next call that synchronizes. */
static enum facet_status is_busy(struct facet_vgpu *vgpu, bool *ret_busy, struct facet_error *error)
{
    enum facet_status status = facet_vgpu_device_check(vgpu->device, error);
    bool busy = false;

    for (uint32_t i = 0; i < vgpu->streams && status == FACET_OK && !busy; i++) {
        struct facet_vgpu_stream *stream = &vgpu->stream[i];

        pthread_mutex_lock(&stream->lock);
        if (facet_vgpu_stream_is_busy(stream))
            status = facet_vgpu_stream_drain_records(vgpu, stream, error);
        busy = facet_vgpu_stream_is_busy(stream);
        pthread_mutex_unlock(&stream->lock);
    }
    *ret_busy = busy;
    return status;
}

static enum facet_status check_alive(const struct facet_managed *managed, struct facet_error *error)
{
    struct facet_vgpu *vgpu = managed->vgpu;

    if (managed->ending || atomic_load(&vgpu->ending))
        return facet_error_set(error, FACET_BAD_STATE, "vGPU %" PRIu32 " ends", vgpu->id);
    if (atomic_load(&vgpu->paused))
        return facet_error_set(error, FACET_FROZEN, "vGPU %" PRIu32 " is paused; resume it first", vgpu->id);
    return FACET_OK;
}

/* Waits until the queued work is over. The caller does not hold the lock. */
static enum facet_status drain_streams(struct facet_managed *managed, struct facet_error *error)
{
    uint64_t poll_ns = POLL_MIN_NS;
    enum facet_status status;
    bool busy = false;

    for (;;) {
        status = is_busy(managed->vgpu, &busy, error);
        if (status != FACET_OK || !busy)
            return status;
        sleep_for(poll_ns);
        poll_ns += poll_ns / 8; /* so the end is noticed at most an eighth of the waited time late */
        poll_ns = poll_ns > POLL_MAX_NS ? POLL_MAX_NS : poll_ns;
        pthread_mutex_lock(&managed->lock);
        status = check_alive(managed, error);
        pthread_mutex_unlock(&managed->lock);
        if (status != FACET_OK)
            return status;
    }
}

static void wait_for_calls(struct facet_managed *managed)
{
    struct timespec until = facet_ns_timespec(facet_clock_now_ns() + POLL_MAX_NS);

    if (managed->active > 0)
        pthread_cond_timedwait(&managed->idle, &managed->lock, &until);
}

/* Waits until no work is queued, running, or about to be queued. This holds for as long as the lock is held. */
static enum facet_status wait_until_idle(struct facet_managed *managed, struct facet_error *error)
{
    enum facet_status status = check_alive(managed, error);
    uint32_t tries = 0;

    while (status == FACET_OK && (managed->active > 0 || managed->drained_generation != managed->generation)) {
        uint64_t generation = managed->generation;
        bool calls = managed->active > 0;

        if (calls) {
            wait_for_calls(managed);
        } else {
            pthread_mutex_unlock(&managed->lock);
            status = drain_streams(managed, error);
            pthread_mutex_lock(&managed->lock);
            if (status == FACET_OK)
                managed->drained_generation = generation;
        }
        if (generation != managed->generation)
            managed->starved_times = ++tries;
        if (status == FACET_OK)
            status = check_alive(managed, error);
    }
    if (tries > 0) {
        managed->starved_times = 0;
        pthread_cond_broadcast(&managed->idle);
    }
    return status;
}

enum facet_status facet_managed_fetch(struct facet_managed *managed, uint64_t address, uint32_t pages, bool write,
                                      struct facet_error *error)
{
    uint64_t max = managed->buffer_bytes / managed->page_bytes;
    enum facet_status status = wait_until_idle(managed, error);
    struct facet_managed_range *range = status == FACET_OK ? facet_managed_find(managed, address, 1) : NULL;

    if (!range)
        return status; /* after an error, or the page was freed meanwhile, so no thread waits for it */
    uint32_t first = (uint32_t)((address - range->address) / managed->page_bytes);
    if (range->state[first] != FACET_MANAGED_AT_DEVICE)
        return FACET_OK;
    uint64_t end = first + (pages < max ? pages : max);

    return bring_pages(managed, range, first,
                       count_alike(range, first, end < range->pages ? (uint32_t)end : range->pages), write, error);
}

/* ---- to the device ---- */

/*
 * Copies write-protected pages. A thread that would write them waits in the kernel, which the thread sanitizer does not
 * see; it would report a race in memcpy(), which it intercepts.
 */
__attribute__((no_sanitize("thread"))) static void copy_words(void *to, const void *from, uint64_t bytes)
{
    const volatile uint64_t *in = from;
    uint64_t *out = to;

    for (uint64_t i = 0; i < bytes / sizeof *out; i++)
        out[i] = in[i];
}

/* A thread that writes to a page meanwhile faults; its fault is answered once the lock is free, with the page gone. */
static enum facet_status write_back(struct facet_managed *managed, const struct facet_managed_range *range,
                                    uint32_t first, uint32_t pages, struct facet_error *error)
{
    uint64_t address = facet_managed_address(managed, range, first), bytes = pages * managed->page_bytes;
    enum facet_status status = protect_pages(managed, address, bytes, true, error);

    if (status != FACET_OK)
        return status;
    copy_words(managed->buffer, facet_managed_at(address), bytes);
    return facet_space_copy(managed->vgpu->space, address, (uintptr_t)managed->buffer, bytes, FACET_COPY_TO_DEVICE,
                            error);
}

static enum facet_status drop_pages(struct facet_managed *managed, struct facet_managed_range *range, uint32_t first,
                                    uint32_t pages, struct facet_error *error)
{
    uint64_t address = facet_managed_address(managed, range, first);

    if (madvise(facet_managed_at(address), pages * managed->page_bytes, MADV_DONTNEED) < 0)
        return facet_error_errno(error, errno, "cannot give managed memory at 0x%" PRIx64 " back to the device",
                                 address);
    for (uint32_t i = 0; i < pages; i++)
        set_state(managed, range, first + i, FACET_MANAGED_AT_DEVICE);
    return FACET_OK;
}

/* After an error a dirty page stays dirty and protected; try_fault() then handles a write to it as to a clean page. */
enum facet_status facet_managed_return(struct facet_managed *managed, struct facet_managed_range *range, uint32_t first,
                                       uint32_t pages, struct facet_error *error)
{
    uint32_t max = (uint32_t)(managed->buffer_bytes / managed->page_bytes), end = first + pages, count;
    enum facet_status status = FACET_OK;

    for (uint32_t page = first; page < end && range->pages_at_host > 0 && status == FACET_OK; page += count) {
        bool dirty = range->state[page] == FACET_MANAGED_DIRTY;

        count = count_alike(range, page, end);
        if (dirty && count > max)
            count = max;
        if (dirty)
            status = write_back(managed, range, page, count, error);
        if (dirty && status == FACET_OK)
            range->to_device += count;
        if (status == FACET_OK && (dirty || range->state[page] == FACET_MANAGED_CLEAN))
            status = drop_pages(managed, range, page, count, error);
    }
    return status;
}

static enum facet_status return_all(struct facet_managed *managed, struct facet_error *error)
{
    struct facet_managed_range *range;
    enum facet_status status = FACET_OK;

    while (status == FACET_OK && (range = LIST_FIRST(&managed->with_host_pages)))
        status = facet_managed_return(managed, range, 0, range->pages, error);
    return status;
}

/* ---- callers that queue work ---- */

/*
 * A caller that queues work without end would keep pages from the host forever. So the caller first waits until a
 * thread that starves has its page. The wait has a time limit, because that thread may depend on the work that is
 * delayed here.
 */
static void yield_to_starving(struct facet_managed *managed)
{
    uint32_t shift = managed->starved_times < YIELD_SHIFT_MAX ? managed->starved_times : YIELD_SHIFT_MAX;
    uint64_t end = facet_clock_now_ns() + (YIELD_NS << shift), now;

    while (managed->starved_times > 0 && !managed->ending && !atomic_load(&managed->vgpu->ending) &&
           (now = facet_clock_now_ns()) < end) {
        uint64_t next_check = now + POLL_MAX_NS < end ? now + POLL_MAX_NS : end;
        struct timespec until = facet_ns_timespec(next_check);

        pthread_cond_timedwait(&managed->idle, &managed->lock, &until);
    }
}

enum facet_status facet_managed_enter(struct facet_vgpu *vgpu, struct facet_managed **ret_entered,
                                      struct facet_error *error)
{
    struct facet_managed *managed = atomic_load_explicit(&vgpu->managed, memory_order_acquire);
    enum facet_status status;

    *ret_entered = NULL;
    if (!managed || managed->shared)
        return FACET_OK;
    pthread_mutex_lock(&managed->lock);
    if (managed->starved_times > 0)
        yield_to_starving(managed);
    status = return_all(managed, error);
    if (status == FACET_OK) {
        managed->active++;
        *ret_entered = managed;
    }
    pthread_mutex_unlock(&managed->lock);
    return status;
}

void facet_managed_leave(struct facet_managed *managed)
{
    if (!managed)
        return;
    pthread_mutex_lock(&managed->lock);
    managed->generation++;
    if (--managed->active == 0)
        pthread_cond_broadcast(&managed->idle);
    pthread_mutex_unlock(&managed->lock);
}
