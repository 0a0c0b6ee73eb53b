/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: helpers for the rounds of all threads. Never: holds a check that only one round needs. */
#include "conformance/thread.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void facet_thread_complain(struct facet_check_thread *thread, const char *format, ...)
{
    va_list arguments;

    if (thread->complaint[0])
        return;
    int length = snprintf(thread->complaint, sizeof thread->complaint, "thread %" PRIu32 ": ", thread->number);
    va_start(arguments, format);
    vsnprintf(thread->complaint + length, sizeof thread->complaint - (size_t)length, format, arguments);
    va_end(arguments);
}

bool facet_thread_expect(struct facet_check_thread *thread, enum facet_operation_id operation,
                         enum facet_status expected, enum facet_status got)
{
    if (got != expected)
        facet_thread_complain(thread, "%s: %s instead of %s", facet_check_operation_name(operation),
                              facet_status_name(got), facet_status_name(expected));
    return got == expected;
}

bool facet_thread_may_be_busy(const struct facet_check_thread *thread)
{
    const struct facet_device_info *info = facet_check_info(&thread->check);

    return thread->team->smallest ||
           ((info->valid & FACET_DEVICE_HAS_MAX_WORKERS) && info->max_workers < 2 * FACET_CHECK_THREADS);
}

bool facet_thread_context(struct facet_check_thread *thread, uint64_t *ret_context)
{
    enum facet_status status =
        FACET_THREAD_CALL(thread, memory, create_context, thread->check.device, NULL, thread->worker, ret_context);

    if (status == FACET_BUSY && facet_thread_may_be_busy(thread))
        return false;
    return facet_thread_expect(thread, FACET_OPERATION_memory_create_context, FACET_OK, status);
}

void facet_thread_drop_context(struct facet_check_thread *thread, uint64_t context)
{
    FACET_THREAD_EXPECT(thread, FACET_OK, memory, destroy_context, context);
}
