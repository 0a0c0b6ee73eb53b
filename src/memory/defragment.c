/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: carrying out moves, one step at a time, within bounds of bytes and time.
 * Never: holds a lock from one step to the next; leaves a page half moved.
 */
#include "base/need.h"
#include "base/sized.h"
#include "memory/space.h"

/* The remaining budget of a call, and its results. */
struct pass {
    struct facet_memory *memory;
    uint32_t only_serial; /* the serial of the only space whose pages may move; 0: pages of all spaces may */
    uint64_t bytes_left, end_ns;
    struct facet_defragment_report report;
};

static uint64_t now_ns(const struct facet_memory *memory)
{
    return memory->backend.now_ns(memory->backend.data);
}

/*
 * Called with the space's lock held. FACET_NOT_FOUND: the plan is no longer valid. *ret_empty: a chunk to return, or
 * NULL.
 */
static enum facet_status move_frames(struct facet_space *space, struct facet_frame_move *plan,
                                     struct facet_chunk **ret_empty, struct facet_error *error)
{
    struct facet_memory *memory = space->memory;
    struct facet_extent to;

    if (!facet_frames_begin_move(&memory->frames, plan, &to))
        return FACET_NOT_FOUND;
    const struct facet_page_move move = {facet_frames_place(&memory->frames, plan->from), to.place};
    enum facet_status status =
        memory->backend.ops->move(memory->backend.data, space->context, facet_space_address(space, plan->page), &move,
                                  plan->count * memory->page_bytes, error);
    if (status != FACET_OK) {
        facet_frames_give(&memory->frames, to.frame, to.count);
        return status;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        facet_entry_set_frame(&space->table.entries[plan->page + i], to.frame + i);
    *ret_empty = facet_frames_give_deferred(&memory->frames, plan->from, plan->count);
    space->moved_pages += plan->count;
    return FACET_OK;
}

static uint32_t pages_left(const struct pass *pass)
{
    uint64_t bytes = pass->bytes_left < pass->memory->pass_bytes ? pass->bytes_left : pass->memory->pass_bytes;
    uint64_t pages = bytes / pass->memory->page_bytes;

    /* A bound below one page moves no page; a step size below one page moves one page. */
    return pages || pass->bytes_left < pass->memory->page_bytes ? (uint32_t)pages : 1;
}

/* Makes one move. *ret_more: another move may be possible. */
static enum facet_status defragment_step(struct pass *pass, bool *ret_more, struct facet_error *error)
{
    struct facet_memory *memory = pass->memory;
    struct facet_frame_move plan;
    uint32_t max = pages_left(pass);

    *ret_more = false;
    if (!max || now_ns(memory) >= pass->end_ns)
        return FACET_OK;
    if (!facet_frames_plan_move(&memory->frames, pass->only_serial, max, &plan)) {
        pass->report.complete = 1;
        return FACET_OK;
    }
    *ret_more = true;
    struct facet_space *space = facet_memory_lock_space(memory, plan.space);
    if (!space)
        return FACET_OK;
    struct facet_chunk *empty = NULL;
    uint64_t start = now_ns(memory);
    enum facet_status status = move_frames(space, &plan, &empty, error);
    pthread_mutex_unlock(&space->lock);
    if (status != FACET_OK)
        return status == FACET_NOT_FOUND ? FACET_OK : status;
    uint64_t step_ns = now_ns(memory) - start;
    facet_frames_return_chunk(&memory->frames, empty);
    pass->report.steps++;
    pass->report.moved_bytes += plan.count * memory->page_bytes;
    pass->report.moving_ns += step_ns;
    pass->report.longest_ns = step_ns > pass->report.longest_ns ? step_ns : pass->report.longest_ns;
    pass->bytes_left -= plan.count * memory->page_bytes;
    return FACET_OK;
}

static enum facet_status check_options(const struct facet_defragment_options *options, struct facet_error *error)
{
    if (options && options->size < sizeof *options)
        return facet_error_argument(error, FACET_INVALID_ARGUMENT, "options",
                                    "options: its size is not that of struct facet_defragment_options");
    FACET_NEED_KNOWN("options", options, error);
    return options ? facet_sized_reserved("options", &options->reserved, sizeof options->reserved, error) : FACET_OK;
}

static uint64_t returned_bytes(struct facet_memory *memory)
{
    pthread_mutex_lock(&memory->frames.lock);
    uint64_t frames = memory->frames.returned_frames;
    pthread_mutex_unlock(&memory->frames.lock);
    return frames * memory->page_bytes;
}

static enum facet_status defragment_memory(struct facet_memory *memory, uint32_t only_serial,
                                           const struct facet_defragment_options *options,
                                           struct facet_defragment_report *ret_report, struct facet_error *error)
{
    enum facet_status status = check_options(options, error);

    if (status == FACET_OK && ret_report)
        status = facet_sized_check("ret_report", ret_report, error);
    uint64_t returned = returned_bytes(memory);
    bool more = status == FACET_OK;
    struct pass pass = {
        .memory = memory,
        .only_serial = only_serial,
        .bytes_left = options && options->bytes ? options->bytes : UINT64_MAX,
        .end_ns = options && options->ns ? now_ns(memory) + options->ns : UINT64_MAX,
        .report = {.size = sizeof pass.report},
    };

    while (more && status == FACET_OK)
        status = defragment_step(&pass, &more, error);
    if (status != FACET_OK)
        return status;
    facet_frames_trim(&memory->frames);
    pass.report.returned_bytes = returned_bytes(memory) - returned;
    if (ret_report)
        facet_sized_copy_out(ret_report, &pass.report, sizeof pass.report);
    return FACET_OK;
}

enum facet_status facet_memory_defragment(struct facet_memory *memory, const struct facet_defragment_options *options,
                                          struct facet_defragment_report *ret_report, struct facet_error *error)
{
    FACET_NEED(memory, error);
    return defragment_memory(memory, 0, options, ret_report, error);
}

enum facet_status facet_space_defragment(struct facet_space *space, const struct facet_defragment_options *options,
                                         struct facet_defragment_report *ret_report, struct facet_error *error)
{
    FACET_NEED(space, error);
    return defragment_memory(space->memory, space->serial, options, ret_report, error);
}

enum facet_status facet_space_compact(struct facet_space *space, const struct facet_defragment_options *options,
                                      struct facet_defragment_report *ret_report, struct facet_error *error)
{
    FACET_NEED(space, error);
    enum facet_status status = check_options(options, error);

    if (status == FACET_OK && ret_report)
        status = facet_sized_check("ret_report", ret_report, error);
    if (status != FACET_OK)
        return status;
    facet_pools_trim(space);
    return facet_space_defragment(space, options, ret_report, error);
}
