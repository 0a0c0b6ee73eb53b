/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queued work of a stream: waiting for it, and dropping it.
 *
 * Owns: the checks of these calls, with launches long enough that a device rarely completes them before the next call.
 * Never: fails a device that dropped no launch because it had completed the queue before the call.
 */
#include <inttypes.h>

#include "conformance/kernel.h"

enum { ATTEMPTS = 5 };

static enum facet_status count_words(struct facet_check *check, const struct facet_check_kernel *kernel,
                                     uint64_t address, uint32_t *ret_count)
{
    uint64_t words[FACET_CHECK_QUEUE];
    uint32_t count = 0;
    enum facet_status status = facet_check_queue_words(check, kernel, address, words);

    for (uint32_t i = 0; status == FACET_OK && i < FACET_CHECK_QUEUE; i++)
        count += words[i] == i + 1;
    if (status == FACET_OK)
        *ret_count = count;
    return status;
}

/* With a timeout of 0 the call does not wait: it may return FACET_OK only if all work is complete. */
static void wait_for_queue(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    struct facet_stream_state state;

    if (!EXPECT_OK(check, "execution.launch: a queue to wait for", facet_check_queue_fill(check, kernel, address)))
        return;
    facet_check_begin(check, "execution.synchronize: with a timeout of 0, ok only if all is complete");
    enum facet_status status = facet_check_kernel_wait(check, kernel, 0);
    if (facet_check_kernel_query(check, kernel, &state) != FACET_OK)
        state.launched = UINT64_MAX;
    facet_check_judge(check, status == FACET_TIMEOUT || (status == FACET_OK && state.completed == state.launched),
                      "expected: timeout, or ok with all %" PRIu64 " complete\ngot: %s with %" PRIu64 " complete",
                      state.launched, facet_status_name(status), state.completed);
    EXPECT_OK(check, "execution.synchronize: waits for a queue",
              facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS));
    EXPECT_OK(check, "execution.query: once the queue was waited for", facet_check_kernel_query(check, kernel, &state));
    EXPECT_NUMBER(check, "execution.synchronize: ok means that all of a queue is complete", state.launched,
                  state.completed);
}

/* One attempt to cancel, and its result. */
struct attempt {
    struct facet_stream_state before, after;
    uint64_t launched; /* on the stream, before the launches of this attempt */
    uint32_t ran;      /* launches of this attempt whose words are in memory */
};

static enum facet_status attempt_cancel(struct facet_check *check, const struct facet_check_kernel *kernel,
                                        uint64_t address, struct attempt *attempt)
{
    struct facet_stream_state begin;
    enum facet_status status = facet_check_kernel_query(check, kernel, &begin);

    attempt->launched = begin.launched;
    if (status == FACET_OK)
        status = facet_check_queue_fill(check, kernel, address);
    if (status == FACET_OK)
        status = facet_check_kernel_query(check, kernel, &attempt->before);
    if (status == FACET_OK)
        status = check->execution_ops.cancel(check->instance, kernel->context, kernel->stream, &check->error);
    if (status == FACET_OK)
        status = facet_check_kernel_wait(check, kernel, FACET_CHECK_KERNEL_NS);
    if (status == FACET_OK)
        status = facet_check_kernel_query(check, kernel, &attempt->after);
    if (status == FACET_OK)
        status = count_words(check, kernel, address, &attempt->ran);
    return status;
}

/* An attempt counts when most of the queue was waiting right before the cancel. When this thread is delayed, the device
 * may still complete the queue before the cancel; several attempts make that unlikely. */
static void cancel_queue(struct facet_check *check, const struct facet_check_kernel *kernel, uint64_t address)
{
    enum facet_status status = FACET_OK;
    struct attempt attempt = {.ran = FACET_CHECK_QUEUE};
    uint32_t counted = 0;

    facet_check_begin(check, "execution.cancel: drops what has not begun");
    for (int i = 0; i < ATTEMPTS && status == FACET_OK && attempt.ran == FACET_CHECK_QUEUE; i++) {
        status = attempt_cancel(check, kernel, address, &attempt);
        counted += status == FACET_OK && attempt.before.completed - attempt.launched < FACET_CHECK_QUEUE / 2;
    }
    if (status != FACET_OK) {
        facet_check_status(check, FACET_OK, status);
        return;
    }
    if (attempt.ran == FACET_CHECK_QUEUE && counted == 0) {
        facet_check_skip(check, "execution.cancel: drops what has not begun",
                         "the device is done with %u launches before it can be asked to", FACET_CHECK_QUEUE);
        return;
    }
    facet_check_judge(check, attempt.ran < FACET_CHECK_QUEUE,
                      "expected: fewer than %u launches that ran\ngot: all, though %" PRIu32 " times most were waiting",
                      FACET_CHECK_QUEUE, counted);
    EXPECT_NUMBER(check, "execution.cancel: what was dropped counts as complete", attempt.after.launched,
                  attempt.after.completed);
    if (check->provider->abi_minor >= 4)
        EXPECT_NUMBER(check, "execution.query: what will never begin counts as begun", attempt.after.launched,
                      attempt.after.begun);
}

void facet_check_queue(struct facet_check *check, struct facet_check_kernel *kernel, uint64_t address)
{
    if (!facet_check_kernel_lengthen(check, kernel, address))
        return;
    wait_for_queue(check, kernel, address);
    cancel_queue(check, kernel, address);
}
