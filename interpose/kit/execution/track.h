/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracking launches to their completion, with the device time that they take.
 *
 * Owns: one helper thread, which runs while something is in flight; and the lock for a look, which it shares with
 * threads of the program that have just waited for launches. Never: makes a program wait forever, hang at exit, or get
 * an unexpected signal; queries a stream that may be captured, was destroyed, or is another thread's own.
 *
 * Events give the progress of a counter, with times. The launches after its last event, the tail, are complete when the
 * stream is empty. While other vGPUs want the device, or a limit applies, the helper looks when work is expected to
 * end, and reports at once. While this vGPU is alone, the helper looks a hundred times a second, and at once when that
 * changes.
 */
#ifndef FACET_FLIGHT_TRACK_H
#define FACET_FLIGHT_TRACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the helper watches over launches in flight. A launch raises the limiter's count and then reads this; the
 * helper clears this and then reads the count, so at least one of the two sees the other.
 */
extern _Atomic uint32_t facet_flight_helper_watches;
void facet_flight_wake(void);

/*
 * From `_hold` to `_release` the helper queries no stream or event, because these may be destroyed. Nests,
 * any thread.
 */
void facet_flight_queries_hold(void);
void facet_flight_queries_release(void);

/*
 * Returns after the helper has looked once more, so that launches that were complete before the call are reported. If
 * the helper is kept from looking, returns after a short wait.
 */
void facet_flight_catch_up(void);

/* Reports, in the calling thread, the launches in the counters' `waited`. Any thread. */
void facet_flight_report_waited(void);

/*
 * For the thread that holds the look lock: permission to query the driver about the program's objects. False while
 * another thread has put queries on hold.
 */
bool facet_flight_query_begin(void);
bool facet_flight_query_begin_with_retries(void); /* tries again while a hold lasts, a bounded number of times */
void facet_flight_query_end(void);

/* Called by the interposer's fork handlers. */
void facet_flight_before_fork(void);
void facet_flight_after_fork(void);
void facet_flight_forked(void);

#endif
