/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following launches to their end: how far each lane is, and how much device time that took.
 *
 * Owns: one helper thread, which is there while something is in flight; and the turn to look, which it shares with
 * threads of the program that have just waited for launches.
 * Never: makes a program wait for ever, hang at exit, or see a signal it did not expect; asks for a stream that may be
 * captured, was destroyed, or is another thread's own.
 *
 * Events say how far a lane is, and when; the tail behind its last event is seen by asking whether the stream is empty.
 * While others want the device, or a limit counts, the helper looks when work is expected to end, and reports at once.
 * While this vGPU is alone it looks a hundred times a second, and at once when that changes.
 */
#ifndef FACET_FLIGHT_TRACK_H
#define FACET_FLIGHT_TRACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Whether the helper looks after what is in flight. A launch raises the limiter's count and then reads this; the helper
 * lowers this and then reads the count: one of the two always sees the other.
 */
extern _Atomic uint32_t facet_flight_on_duty;
void facet_flight_wake(void);

/* Between the two the helper asks for no stream and no event: what they belong to may go. Nests, any thread. */
void facet_flight_hold(void);
void facet_flight_release(void);

/*
 * Behind it, what was complete before is reported: the helper has looked once more. Not where the helper is kept from
 * looking, for which nobody waits long.
 */
void facet_flight_catch_up(void);

/* What some lanes' `waited` says is reported when it returns, by the calling thread. Any thread. */
void facet_flight_report_waited(void);

/* The right, of who has the turn, to ask the driver for something of the program's: false while somebody holds it off.
 */
bool facet_flight_ask(void);
bool facet_flight_ask_patiently(void); /* where that does not last */
void facet_flight_asked(void);

/* Called by the interposer's handlers of fork. */
void facet_flight_before_fork(void);
void facet_flight_after_fork(void);
void facet_flight_forked(void);

#endif
