/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much device time a command took.
 *
 * Owns: the time that was reported, on the device's clock and on this machine's, each moment once; and where the driver
 * is a part of the program, when that was stopped.
 * Never: charges a program for the time in which neither it nor its device ran.
 *
 * Any thread, with no lock held.
 */
#ifndef FACET_OPENCL_MEASURE_H
#define FACET_OPENCL_MEASURE_H

#include <CL/cl.h>

#include "track.h"

/* A queue is made on that device: whether it is processors of this machine is remembered. */
void facet_cl_measure_device(cl_device_id device);

/* Whether it is: then ticks are to come at least each FACET_STOPS_TICK_NS (interpose/kit/stops.h). */
bool facet_cl_measure_is_inside(void);

/* A tick of the helper's, or of a thread that measures something next; and none comes before the helper's next one. */
void facet_cl_measure_tick(uint64_t now_ns, bool of_helper);
void facet_cl_measure_rests(void);

/* Of a complete command: device time not reported before. Also learns the usual time of such a command. */
uint64_t facet_cl_measure(const struct facet_cl_command *command, uint64_t now_ns);

/* In the child of fork(). */
void facet_cl_measure_forked(void);

#endif
