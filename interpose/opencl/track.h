/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following launches to their end: which are complete, and how much device time they took.
 *
 * Owns: a ring of commands in flight and the one helper thread that reaps it.
 * Never: makes a program wait forever, hang at exit, or see a signal it did not expect.
 *
 * While others want the device the thread waits in the driver for the running command and reports its end at once,
 * because the device is handed on at that moment. While this vGPU is alone it looks a hundred times a second and costs
 * nothing. A program's thread that waited for commands reports them itself before it goes on: its next step may be to
 * end the process.
 */
#ifndef FACET_OPENCL_TRACK_H
#define FACET_OPENCL_TRACK_H

#include <CL/cl.h>

#include "process.h"

struct facet_cl_command {
    cl_event event;         /* one reference, the tracker's */
    cl_command_queue queue; /* only to be compared: the program may have released it; NULL: not known */
    uint64_t key, estimate_ns;
    uint64_t submitted_ns; /* host clock; 0 = not taken */
    uint64_t waited_ns;    /* the tracker's: when it did not run yet, or was not there yet; 0: not looked at */
    bool may_be_held;      /* has a wait list, so it may wait for something the program does later */
    bool flushed;
};

/* Makes the thread at the first launch of this process; false when the system has no more threads. */
bool facet_cl_track_ready(void);

/* Whether some command had no profiling times, so that the host clock must be read at submission. */
bool facet_cl_track_wants_time(void);
void facet_cl_track_want_time(void);

/* Takes over a command in flight, its event reference included. */
void facet_cl_track_add(struct facet_tenant *tenant, const struct facet_cl_command *command);

/* The same for a command known to be complete. */
void facet_cl_track_finished(struct facet_tenant *tenant, const struct facet_cl_command *command);

/*
 * The driver said that these events, and with them all that an in-order queue had before them, are complete; without
 * events, that all of the queue is. Reports what is. NULL stands for every queue.
 */
void facet_cl_track_waited(cl_command_queue queue, cl_uint count, const cl_event *events);

/* As facet_cl_track_waited(), in a callback of the driver. The driver may hold a lock that the helper waits for, so
 * this does not wait for the helper. */
void facet_cl_track_called_back(cl_event event);

/* In the child of fork(): nothing is in flight, and the thread does not exist. */
void facet_cl_track_forked(void);

#endif
