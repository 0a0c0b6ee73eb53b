/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pausing a context (since ABI 1.4).
 *
 * Owns: queues that a pause holds, and a window onto their results: memory that is shared with a second context.
 * Never: reads through the paused context, because such a read waits for all work queued in that context; asserts how
 * long work takes: two readings are compared instead.
 */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "conformance/kernel.h"

/* The time between two readings that must be equal. */
#define POLL_NS (20 * FACET_NS_PER_MS)

static bool pause_context(struct facet_check *check, const struct facet_check_kernel *kernel)
{
    return EXPECT_OK(check, "execution.pause: a context",
                     check->execution_ops.pause(check->instance, kernel->context, 1, &check->error));
}

/* Another context's view of the kernel's results; context 0: the device cannot share memory. */
struct window {
    uint64_t context;
    uint64_t window_address, kernel_address; /* of the shared memory in `context`, and in the kernel's context */
};

static bool share_pages_with_window(struct facet_check *check, const struct facet_check_kernel *kernel,
                                    struct window *window, uint64_t bytes)
{
    const struct facet_memory_ops *ops = &check->memory_ops;
    struct facet_provider_instance *instance = check->instance;
    uint64_t pages = 0;
    enum facet_status status = ops->create_pages(instance, window->context, bytes, &pages, &check->error);

    if (status == FACET_OK)
        status = ops->share_pages(instance, window->context, pages, &check->error);
    if (status == FACET_OK)
        status = ops->reserve(instance, window->context, bytes, 0, &window->window_address, &check->error);
    if (status == FACET_OK)
        status = ops->map(instance, window->context, window->window_address, pages, 0, bytes, &check->error);
    if (status == FACET_OK)
        status = ops->reserve(instance, kernel->context, bytes, 0, &window->kernel_address, &check->error);
    if (status == FACET_OK)
        status = ops->map(instance, kernel->context, window->kernel_address, pages, 0, bytes, &check->error);
    return facet_check_status(check, FACET_OK, status);
}

static void open_window(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address,
                        struct window *ret_window)
{
    struct facet_memory_info info = {.size = sizeof info};
    struct window window = {.kernel_address = address};

    *ret_window = window;
    if (!facet_check_claims(check, FACET_CAN_MAP_MEMORY | FACET_CAN_SHARE_PAGES)) {
        facet_check_skip(check, "execution.pause: nothing is written while it lasts",
                         "the device cannot share pages with another context");
        return;
    }
    if (!facet_check_context(check, FACET_CHECK_OTHER, &window.context))
        return;
    check->memory_ops.info(check->instance, window.context, &info, &check->error);
    uint64_t bytes = FACET_CHECK_QUEUE * sizeof(uint64_t);
    bytes = (bytes + info.page_bytes - 1) / info.page_bytes * info.page_bytes;
    facet_check_begin(check, "memory.share_pages: to see what a paused context writes");
    if (share_pages_with_window(check, kernel, &window, bytes))
        *ret_window = window;
}

/* Reads the words through the window; all are 0 without one. */
static void read_words(struct facet_check *check, const struct window *window, uint64_t *ret_words)
{
    memset(ret_words, 0, FACET_CHECK_QUEUE * sizeof *ret_words);
    if (window->context)
        EXPECT_OK(check, "memory.read: what a paused context wrote",
                  check->memory_ops.read(check->instance, window->context, window->window_address,
                                         FACET_CHECK_QUEUE * sizeof *ret_words, ret_words, &check->error));
}

static bool resume_context(struct facet_check *check, const struct facet_check_kernel *kernel)
{
    return EXPECT_OK(check, "execution.pause: with 0, a context goes on",
                     check->execution_ops.pause(check->instance, kernel->context, 0, &check->error));
}

/* How many launches of a queue ran, according to its words in memory. */
static uint32_t count_words(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    uint64_t words[FACET_CHECK_QUEUE] = {0};
    uint32_t count = 0;

    EXPECT_OK(check, "memory.read: what a queue wrote", facet_check_queue_words(check, kernel, address, words));
    for (uint32_t i = 0; i < FACET_CHECK_QUEUE; i++)
        count += words[i] == i + 1;
    return count;
}

static void expect_all(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state state;

    EXPECT_OK(check, "execution.synchronize: with what a pause held",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    uint32_t ran = count_words(check, kernel, address);
    EXPECT_NUMBER(check, "execution.pause: what was queued is done afterwards, all of it", FACET_CHECK_QUEUE, ran);
    EXPECT_OK(check, "execution.query: with what a pause held", facet_check_kernel_query(check, kernel, &state));
    EXPECT_TRUE(check, "execution.query: what a pause held counts as begun and complete",
                state.completed == state.launched && state.begun == state.launched && state.failed == 0,
                "expected: %" PRIu64 " begun and complete, 0 failed\ngot: %" PRIu64 " begun, %" PRIu64
                " complete, failed %" PRIu32,
                state.launched, state.begun, state.completed, state.failed);
}

/* A pause of one context does not affect others. */
static void expect_others_unpaused(struct facet_check *check)
{
    struct facet_check_kernel other = {0};
    uint64_t context = 0, address = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &context))
        return;
    if (facet_check_kernel_open(check, context, &other) &&
        EXPECT_OK(check, "memory.alloc: beside a context that is paused",
                  check->memory_ops.alloc(check->instance, context, sizeof(uint64_t), &address, &check->error))) {
        EXPECT_OK(check, "execution.launch: beside a context that is paused",
                  facet_check_kernel_launch(check, &other, address, 1, 1));
        EXPECT_OK(check, "execution.pause: other contexts go on",
                  facet_check_kernel_wait(check, &other, FACET_CHECK_KERNEL_NS));
    }
    facet_check_drop_context(check, context);
}

static void check_queue_is_held(struct facet_check *check, const struct facet_check_kernel *kernel,
                                const struct window *window)
{
    static const uint64_t none[FACET_CHECK_QUEUE];
    struct facet_stream_state before = {0}, queued = {0}, after = {0};
    uint64_t words[FACET_CHECK_QUEUE];

    EXPECT_OK(check, "execution.query: before a pause", facet_check_kernel_query(check, kernel, &before));
    if (!pause_context(check, kernel) || !EXPECT_OK(check, "execution.launch: while its context is paused",
                                                    facet_check_queue_fill(check, kernel, window->kernel_address)))
        return;
    EXPECT_OK(check, "execution.query: while paused", facet_check_kernel_query(check, kernel, &queued));
    EXPECT_TRUE(check, "execution.query: what is queued while paused has not begun",
                queued.begun == before.begun && queued.launched == before.launched + FACET_CHECK_QUEUE,
                "expected: %" PRIu64 " begun of %" PRIu64 "\ngot: %" PRIu64 " begun of %" PRIu64, before.begun,
                before.launched + FACET_CHECK_QUEUE, queued.begun, queued.launched);
    EXPECT_STATUS(check, "execution.pause: nothing that is queued is done while it lasts", FACET_TIMEOUT,
                  facet_check_kernel_wait(check, kernel, POLL_NS));
    EXPECT_OK(check, "execution.query: after some time", facet_check_kernel_query(check, kernel, &after));
    EXPECT_TRUE(check, "execution.query: nothing begins or ends while paused",
                after.begun == queued.begun && after.completed == queued.completed,
                "expected: %" PRIu64 " begun, %" PRIu64 " complete\ngot: %" PRIu64 " begun, %" PRIu64 " complete",
                queued.begun, queued.completed, after.begun, after.completed);
    read_words(check, window, words);
    EXPECT_TRUE(check, "execution.pause: nothing is written while it lasts", memcmp(words, none, sizeof none) == 0,
                "expected: %u words of 0\ngot: a word that is not; the first is %" PRIu64, FACET_CHECK_QUEUE, words[0]);
    expect_others_unpaused(check);
    if (resume_context(check, kernel))
        expect_all(check, kernel, window->kernel_address);
}

static void check_running_stops(struct facet_check *check, const struct facet_check_kernel *kernel,
                                const struct window *window)
{
    struct facet_stream_state before = {0}, after = {0};
    uint64_t words[FACET_CHECK_QUEUE], later[FACET_CHECK_QUEUE];

    if (!EXPECT_OK(check, "execution.launch: a queue to pause",
                   facet_check_queue_fill(check, kernel, window->kernel_address)) ||
        !pause_context(check, kernel))
        return;
    EXPECT_OK(check, "execution.query: just paused", facet_check_kernel_query(check, kernel, &before));
    read_words(check, window, words);
    facet_check_kernel_wait(check, kernel, POLL_NS); /* FACET_OK, too: the queue may have ended before the pause */
    EXPECT_OK(check, "execution.query: paused for some time", facet_check_kernel_query(check, kernel, &after));
    read_words(check, window, later);
    EXPECT_TRUE(check, "execution.pause: what runs has stopped when it returns",
                after.completed == before.completed && after.begun == before.begun &&
                    memcmp(words, later, sizeof words) == 0,
                "expected: %" PRIu64 " complete, and memory as it was\ngot: %" PRIu64 " complete, or other memory",
                before.completed, after.completed);
    if (resume_context(check, kernel))
        expect_all(check, kernel, window->kernel_address);
}

static void check_cancelled_in_pause(struct facet_check *check, const struct facet_check_kernel *kernel,
                                     uint64_t address)
{
    if (!pause_context(check, kernel) || !EXPECT_OK(check, "execution.launch: to be dropped while paused",
                                                    facet_check_queue_fill(check, kernel, address)))
        return;
    EXPECT_OK(check, "execution.cancel: while paused",
              check->execution_ops.cancel(check->instance, kernel->context, kernel->stream, &check->error));
    EXPECT_OK(check, "execution.synchronize: nothing is left to wait for, though it is paused",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    if (resume_context(check, kernel))
        EXPECT_OK(check, "execution.synchronize: after a pause that ended with nothing to do",
                  facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    uint32_t ran = count_words(check, kernel, address);
    EXPECT_NUMBER(check, "execution.cancel: what was dropped while paused never runs", 0, ran);
}

/* A context may end while it is paused, with all that it has queued. */
static void end_paused_context(struct facet_check *check)
{
    struct facet_check_kernel kernel = {0};
    uint64_t context = 0, address = 0;

    if (!facet_check_context(check, FACET_CHECK_OTHER, &context))
        return;
    if (facet_check_kernel_open(check, context, &kernel) &&
        EXPECT_OK(check, "memory.alloc: for a context that ends while paused",
                  check->memory_ops.alloc(check->instance, context, FACET_CHECK_QUEUE * sizeof(uint64_t), &address,
                                          &check->error)) &&
        pause_context(check, &kernel))
        EXPECT_OK(check, "execution.launch: in a context that ends while paused",
                  facet_check_queue_fill(check, &kernel, address));
    EXPECT_OK(check, "memory.destroy_context: while it is paused, with work queued",
              check->memory_ops.destroy_context(check->instance, context, &check->error));
}

void facet_check_pause(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct window window;

    open_window(check, kernel, address, &window);
    check_queue_is_held(check, kernel, &window);
    check_running_stops(check, kernel, &window);
    if (window.context)
        facet_check_drop_context(check, window.context);
    check_cancelled_in_pause(check, kernel, address);
    end_paused_context(check);
}
