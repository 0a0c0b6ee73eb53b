/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much device time a command took.
 *
 * Owns: the reported time, on the device's clock and on this machine's, each moment once; and the times at which the
 * process was stopped, if the driver runs within it. Never: charges a program for the time in which neither it nor its
 * device ran.
 *
 * Thread rule: every function from any thread that holds no lock.
 */
#ifndef FACET_OPENCL_MEASURE_H
#define FACET_OPENCL_MEASURE_H

#include <CL/cl.h>

#include "track.h"

/*
 * Called for the device of each new queue. Records whether the device is made of this machine's processors, so that its
 * driver runs in this process.
 */
void facet_cl_measure_device(cl_device_id device);

/* Whether a driver runs in this process: then a tick must come every FACET_STOPS_TICK_NS (interpose/kit/stops.h). */
bool facet_cl_measure_runs_in_process(void);

/*
 * A tick by the helper, or by a thread that measures next. After `_pause`, no tick is due until the helper's
 * next tick.
 */
void facet_cl_measure_tick(uint64_t now_ns, bool of_helper);
void facet_cl_measure_pause(void);

/* Returns the device time of a complete command that was not reported before, and updates the estimate for its key. */
uint64_t facet_cl_measure(const struct facet_cl_command *command, uint64_t now_ns);

/* In the child of fork(). */
void facet_cl_measure_forked(void);

#endif
