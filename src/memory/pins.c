/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: pins, and bringing in pinned pages: the choice of pages that are sent out for them, and the time for which a
 * space may keep the pages that it brought in.
 * Never: sends out a pinned page; lets a later pin overtake an earlier one; holds a lock while it waits.
 *
 * A clock algorithm chooses the pages to send out: a hand goes round over the frames, and takes frames that were not
 * used since its last round. A space keeps the pages that it brought in for a multiple of the time that bringing them
 * in took (its turn), unless it is idle.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/need.h"
#include "memory/allocate.h"

#define TRANSFER_WAIT_NS (60 * FACET_NS_PER_S) /* how long a transfer waits for its pages */
#define TURN_MAX_NS      (60 * FACET_NS_PER_S) /* the longest turn */
#define IDLE_MIN_NS      FACET_NS_PER_MS       /* the least time without a pin after which a space is idle */
#define NEVER_NS         UINT64_MAX

struct range {
    uint32_t first, count;
};

struct facet_pin {
    struct facet_space *space;
    bool whole; /* it pins all pages of the space */
    uint32_t count;
    struct range ranges[];
};

/* A request to pin pages, and to bring them in. */
struct pin_request {
    struct facet_space *space;
    const struct range *ranges;
    uint32_t count;
    bool whole;
    bool for_transfer; /* the pin of a transfer: ask_spaces_for_pages() does not hold it back */
    uint64_t end_ns;   /* when the request gives up */
    uint64_t waited_ns;
};

static uint64_t now_ns(const struct facet_memory *memory)
{
    return memory->backend.now_ns(memory->backend.data);
}

/* --- sending out -------------------------------------------------------------------------------------------------- */

/* Until when a space keeps its pages from others; 0: they may be sent out. Called with the space's lock held. */
static uint64_t keeps_pages_until_ns(const struct facet_space *space, uint64_t now)
{
    if (space->whole_pins)
        return NEVER_NS;
    if (space->turn_end_ns <= now)
        return 0;
    if (space->pins)
        return space->turn_end_ns;
    uint64_t idle_ns = space->used_ns + space->idle_ns;
    return idle_ns <= now ? 0 : idle_ns < space->turn_end_ns ? idle_ns : space->turn_end_ns;
}

/* Returns how many pages were sent out. Called with the space's lock held. */
static uint32_t send_out_row(struct facet_space *space, const struct facet_frame_move *row, uint32_t max)
{
    uint32_t sent_out = 0;

    for (uint32_t i = 0; i < row->count && sent_out < max; i++) {
        struct facet_entry *entry = &space->table.entries[row->page + i];

        if (facet_entry_frame(entry) != row->from + i || entry->pins ||
            atomic_load_explicit(&entry->state, memory_order_relaxed) == FACET_PAGE_AWAITS_UNMAP)
            continue;
        if (atomic_fetch_and_explicit(&entry->marks, (uint8_t)~FACET_MARK_RECENT, memory_order_relaxed) &
            FACET_MARK_RECENT)
            continue;
        sent_out += facet_space_send_out(space, row->page + i, NULL) == FACET_OK;
    }
    return sent_out;
}

/* Sends out up to `wanted` pages; returns how many. *ret_again_ns: when more pages may go, if nothing else changes. */
static uint32_t make_room(struct facet_memory *memory, uint32_t wanted, const struct facet_space *self,
                          uint64_t *ret_again_ns)
{
    uint64_t frames_checked = 0, max = 2 * memory->frames.frames_max + 1, now = now_ns(memory);
    uint32_t sent_out = 0, pass = (uint32_t)(memory->pass_bytes / memory->page_bytes) + 1;
    struct facet_frame_move row;

    *ret_again_ns = NEVER_NS;
    while (sent_out < wanted && frames_checked < max &&
           facet_frames_next_used(&memory->frames, pass, &memory->clock_hand, &row)) {
        struct facet_space *space = facet_memory_lock_space(memory, row.space);

        frames_checked += row.count;
        if (!space)
            continue;
        uint64_t until = space == self && !space->whole_pins ? 0 : keeps_pages_until_ns(space, now);
        if (until == 0)
            sent_out += send_out_row(space, &row, wanted - sent_out);
        else if (until < *ret_again_ns)
            *ret_again_ns = until;
        pthread_mutex_unlock(&space->lock);
    }
    return sent_out;
}

/*
 * Called when no turn's end will free pages. Spaces that hold pins then get no new pins before they have released
 * these: otherwise the head of the queue might wait forever.
 */
static void ask_spaces_for_pages(struct facet_memory *memory, const struct facet_space *self)
{
    uint64_t head = atomic_load(&memory->queue.heads_left) + 1;
    struct facet_space *space;

    pthread_mutex_lock(&memory->lock);
    LIST_FOREACH (space, &memory->spaces, in_memory) {
        pthread_mutex_lock(&space->lock);
        if (space != self && space->pins)
            space->wanted_by_head = head;
        pthread_mutex_unlock(&space->lock);
    }
    pthread_mutex_unlock(&memory->lock);
}

/* --- pinning ------------------------------------------------------------------------------------------------------ */

static void unpin_pages(struct facet_space *space, const struct range *range, uint32_t count)
{
    for (uint32_t page = range->first; page < range->first + count; page++)
        space->table.entries[page].pins--;
}

/* Returns how many pages it pinned. Fewer than `count`: the next page has FACET_PINS_MAX pins already. */
static uint32_t pin_pages(struct facet_space *space, const struct range *range, uint64_t tick_ns)
{
    for (uint32_t done = 0; done < range->count; done++) {
        struct facet_entry *entry = &space->table.entries[range->first + done];

        if (entry->pins == FACET_PINS_MAX)
            return done;
        entry->pins++;
        atomic_fetch_or_explicit(&entry->marks, FACET_PAGE_ACCESSED | FACET_MARK_RECENT, memory_order_relaxed);
        atomic_store_explicit(&entry->access_ns, tick_ns, memory_order_relaxed);
    }
    return range->count;
}

static void unpin_ranges(const struct pin_request *request, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        unpin_pages(request->space, &request->ranges[i], request->ranges[i].count);
}

/* Pins all pages or none (FACET_QUOTA). Called with the space's lock held. */
static enum facet_status pin_all(const struct pin_request *request, struct facet_error *error)
{
    struct facet_space *space = request->space;
    uint64_t tick = space->memory->backend.tick_ns(space->memory->backend.data);

    for (uint32_t i = 0; i < request->count; i++) {
        const struct range *range = &request->ranges[i];
        uint32_t done = pin_pages(space, range, tick);

        if (done == range->count)
            continue;
        unpin_pages(space, range, done);
        unpin_ranges(request, i);
        return facet_error_argument(error, FACET_QUOTA, "addresses",
                                    "addresses: the page at 0x%" PRIx64
                                    " of vGPU %u is pinned %u times already, the most that is counted; release some",
                                    facet_space_address(space, range->first + done), space->id, FACET_PINS_MAX);
    }
    space->pins++;
    space->whole_pins += request->whole;
    return FACET_OK;
}

/* Whether all pages of the request have frames. The caller holds the space's lock. */
static bool all_have_frames(const struct pin_request *request)
{
    const struct facet_space *space = request->space;

    if (space->absent_pages == 0 || request->whole)
        return space->absent_pages == 0;
    for (uint32_t i = 0; i < request->count; i++)
        for (uint32_t page = 0; page < request->ranges[i].count; page++)
            if (facet_entry_frame(&space->table.entries[request->ranges[i].first + page]) == FACET_FRAME_NONE)
                return false;
    return true;
}

/*
 * Pins the pages if all of them are on the device, unless the head of the queue waits for this space's pins. *ret_done:
 * whether the pages were pinned.
 */
static enum facet_status pin_if_present(const struct pin_request *request, bool *ret_done, struct facet_error *error)
{
    struct facet_space *space = request->space;
    const struct facet_memory *memory = space->memory;
    uint64_t now = now_ns(memory);
    enum facet_status status = FACET_OK;

    pthread_mutex_lock(&space->lock);
    bool wanted = !request->for_transfer && space->turn_end_ns <= now && atomic_load(&memory->queue.waiting) &&
                  space->wanted_by_head == atomic_load(&memory->queue.heads_left) + 1;
    *ret_done = !wanted && all_have_frames(request);
    if (*ret_done)
        status = pin_all(request, error);
    if (*ret_done && status == FACET_OK)
        space->used_ns = now;
    pthread_mutex_unlock(&space->lock);
    return status;
}

static void unpin_request(const struct pin_request *request)
{
    struct facet_space *space = request->space;

    pthread_mutex_lock(&space->lock);
    unpin_ranges(request, request->count);
    space->pins--;
    space->whole_pins -= request->whole;
    space->used_ns = now_ns(space->memory);
    pthread_mutex_unlock(&space->lock);
    facet_queue_wake(&space->memory->queue);
}

/* --- bringing in: only the head of the queue does this
 * ------------------------------------------------------------------------ */

static uint32_t count_absent(const struct facet_space *space, uint32_t first, uint32_t count)
{
    uint32_t absent = 0;

    for (uint32_t page = first; page < first + count; page++)
        absent += facet_entry_frame(&space->table.entries[page]) == FACET_FRAME_NONE;
    return absent;
}

/* Brings in one piece of a range, or makes room for it. *ret_count: pages that need no further check. */
static enum facet_status bring_in_piece(struct pin_request *request, uint32_t first, uint32_t count,
                                        uint32_t *ret_count, struct facet_error *error)
{
    struct facet_space *space = request->space;
    struct facet_memory *memory = space->memory;
    uint64_t changes = facet_queue_changes(&memory->queue), again_ns;

    *ret_count = 0;
    pthread_mutex_lock(&space->lock);
    enum facet_status status = facet_space_bring_in(space, first, count, ret_count, error);
    uint32_t absent = status == FACET_NO_SPACE ? count_absent(space, first, count) : 0;
    pthread_mutex_unlock(&space->lock);
    if (status != FACET_NO_SPACE || make_room(memory, absent, space, &again_ns))
        return status == FACET_NO_SPACE ? FACET_OK : status;
    if (again_ns == NEVER_NS)
        ask_spaces_for_pages(memory, space);
    uint64_t start = now_ns(memory);
    if (start >= request->end_ns)
        return facet_error_set(error, FACET_TIMEOUT,
                               "vGPU %u ('%s'): other vGPUs kept the device's memory until the timeout", space->id,
                               space->name);
    facet_queue_wait(&memory->queue, changes, again_ns < request->end_ns ? again_ns : request->end_ns);
    request->waited_ns += now_ns(memory) - start;
    return FACET_OK;
}

/* The pages are pinned before they are brought in, so that bringing in one of them cannot send out another. */
static enum facet_status bring_in_range(struct pin_request *request, struct range range, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    for (uint32_t done = 0, advanced; done < range.count && status == FACET_OK; done += advanced)
        status = bring_in_piece(request, range.first + done, range.count - done, &advanced, error);
    return status;
}

static bool is_allocated(const struct facet_space *space, uint32_t page)
{
    uint8_t state = atomic_load_explicit(&space->table.entries[page].state, memory_order_relaxed);

    return state != FACET_PAGE_FREE && state != FACET_PAGE_AWAITS_UNMAP;
}

/* Brings in every allocated page of the space, row by row. */
static enum facet_status bring_in_whole_space(struct pin_request *request, struct facet_error *error)
{
    struct facet_space *space = request->space;
    enum facet_status status = FACET_OK;

    for (uint32_t page = 0; page < space->table.count && status == FACET_OK;) {
        struct range row = {.first = page};

        pthread_mutex_lock(&space->lock);
        uint64_t absent = space->absent_pages;
        while (row.first < space->table.count && !is_allocated(space, row.first))
            row.first++;
        while (row.first + row.count < space->table.count && is_allocated(space, row.first + row.count))
            row.count++;
        pthread_mutex_unlock(&space->lock);
        if (!absent)
            break;
        status = bring_in_range(request, row, error);
        page = row.first + row.count;
    }
    return status;
}

static enum facet_status bring_in_request(struct pin_request *request, struct facet_error *error)
{
    enum facet_status status = FACET_OK;

    if (request->whole)
        return bring_in_whole_space(request, error);
    for (uint32_t i = 0; i < request->count && status == FACET_OK; i++)
        status = bring_in_range(request, request->ranges[i], error);
    return status;
}

/* The space may keep its pages for a multiple of the time that bringing them in cost. */
static void begin_turn(const struct pin_request *request, uint64_t start)
{
    struct facet_space *space = request->space;
    uint64_t now = now_ns(space->memory), took = now - start - request->waited_ns;
    uint32_t repay = space->memory->swap_repay;
    uint64_t turn = repay == FACET_SWAP_NEVER_REPAY ? 0 : took < TURN_MAX_NS / repay ? took * repay : TURN_MAX_NS;

    pthread_mutex_lock(&space->lock);
    space->swap_ns += took;
    space->waited_ns += request->waited_ns;
    space->turn_end_ns = now + turn;
    space->idle_ns = took > IDLE_MIN_NS ? took : IDLE_MIN_NS;
    pthread_mutex_unlock(&space->lock);
}

static enum facet_status lock_and_pin_all(const struct pin_request *request, struct facet_error *error)
{
    pthread_mutex_lock(&request->space->lock);
    enum facet_status status = pin_all(request, error);
    pthread_mutex_unlock(&request->space->lock);
    return status;
}

static enum facet_status bring_in_at_turn(struct pin_request *request, struct facet_error *error)
{
    struct facet_memory *memory = request->space->memory;
    struct facet_waiter waiter;
    uint64_t start = now_ns(memory);
    bool first = facet_queue_enter(&memory->queue, &waiter, request->end_ns);
    enum facet_status status = FACET_OK;

    request->waited_ns = now_ns(memory) - start;
    if (!first)
        status = facet_error_set(error, FACET_TIMEOUT,
                                 "vGPU %u ('%s'): earlier requests for memory came first until the timeout",
                                 request->space->id, request->space->name);
    if (first)
        status = lock_and_pin_all(request, error);
    if (status == FACET_OK) {
        status = bring_in_request(request, error);
        begin_turn(request, start);
        if (status != FACET_OK)
            unpin_request(request);
    }
    facet_queue_leave(&memory->queue, &waiter);
    return status;
}

static enum facet_status check_size(const struct pin_request *request, struct facet_error *error)
{
    const struct facet_memory *memory = request->space->memory;
    uint64_t pages = request->whole ? request->space->pages : 0;

    for (uint32_t i = 0; i < request->count; i++)
        pages += request->ranges[i].count;
    if (pages <= memory->frames.frames_max)
        return FACET_OK;
    return facet_error_set(
        error, FACET_OUT_OF_RANGE,
        "vGPU %u ('%s'): %" PRIu64 " bytes are to be on the device at once, which has %" PRIu64 "; %s",
        request->space->id, request->space->name, pages * memory->page_bytes,
        memory->frames.frames_max * memory->page_bytes,
        request->whole ? "a launch needs all that its vGPU has: free some, or use another vGPU for it"
                       : "name fewer allocations at a time");
}

static enum facet_status bring_in_ranges(struct pin_request *request, uint64_t timeout_ns, struct facet_error *error)
{
    uint64_t now = now_ns(request->space->memory);

    bool done;

    request->end_ns = timeout_ns < NEVER_NS - now ? now + timeout_ns : NEVER_NS;
    enum facet_status status = pin_if_present(request, &done, error);
    if (done)
        return status;
    status = check_size(request, error);
    return status == FACET_OK ? bring_in_at_turn(request, error) : status;
}

/* --- the calls ---------------------------------------------------------------------------------------------------- */

static struct range range_of(const struct facet_space *space, uint64_t address, uint64_t bytes)
{
    uint32_t first = (uint32_t)((address - space->base) >> space->page_shift);
    uint32_t last = (uint32_t)((address + bytes - 1 - space->base) >> space->page_shift);

    return (struct range){.first = first, .count = last - first + 1};
}

enum facet_status facet_space_pin_range(struct facet_space *space, uint64_t address, uint64_t bytes,
                                        struct facet_error *error)
{
    if (!space->memory->swap)
        return FACET_OK;
    const struct range range = range_of(space, address, bytes);
    struct pin_request request = {.space = space, .ranges = &range, .count = 1, .for_transfer = true};
    return bring_in_ranges(&request, TRANSFER_WAIT_NS, error);
}

void facet_space_unpin_range(struct facet_space *space, uint64_t address, uint64_t bytes)
{
    if (!space->memory->swap)
        return;
    const struct range range = range_of(space, address, bytes);
    const struct pin_request request = {.space = space, .ranges = &range, .count = 1};
    unpin_request(&request);
}

static enum facet_status fill_ranges(struct facet_pin *pin, const uint64_t *addresses, struct facet_error *error)
{
    for (uint32_t i = 0; i < pin->count; i++) {
        struct facet_allocation found;

        if (!facet_space_lookup(pin->space, addresses[i], &found))
            return facet_error_argument(error, FACET_NOT_FOUND, "addresses",
                                        "addresses[%u]: 0x%" PRIx64 " is in no allocation of vGPU %u", i, addresses[i],
                                        pin->space->id);
        pin->ranges[i] = range_of(pin->space, found.address, found.bytes);
    }
    return FACET_OK;
}

enum facet_status facet_space_pin(struct facet_space *space, const uint64_t *addresses, uint32_t count,
                                  uint64_t timeout_ns, struct facet_pin **ret_pin, struct facet_error *error)
{
    FACET_NEED(space, error);
    if (count > 0)
        FACET_NEED(addresses, error);
    FACET_NEED(ret_pin, error);
    struct facet_pin *pin = calloc(1, sizeof *pin + count * sizeof(struct range));
    enum facet_status status;

    if (!pin)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for a pin of %u allocations", count);
    *pin = (struct facet_pin){.space = space, .whole = count == 0, .count = count};
    status = fill_ranges(pin, addresses, error);
    if (status == FACET_OK) {
        struct pin_request request = {.space = space, .ranges = pin->ranges, .count = count, .whole = pin->whole};
        status = bring_in_ranges(&request, timeout_ns, error);
    }
    if (status != FACET_OK) {
        free(pin);
        return status;
    }
    *ret_pin = pin;
    return FACET_OK;
}

void facet_pin_release(struct facet_pin *pin)
{
    if (!pin)
        return;
    const struct pin_request request = {
        .space = pin->space, .ranges = pin->ranges, .count = pin->count, .whole = pin->whole};
    unpin_request(&request);
    free(pin);
}
