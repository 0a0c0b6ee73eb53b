/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following launches to their end: which are complete, and how much device time they took.
 *
 * Owns: a ring of commands in flight and the one helper thread that reaps it.
 * Never: makes a program wait forever, hang at exit, or get an unexpected signal.
 *
 * While other vGPUs want the device, the helper waits in the driver for the running command and reports its end at
 * once, because another vGPU gets the device then. While this vGPU is alone, the helper looks a hundred times a second.
 * A thread of the program that has waited for commands reports them itself before it goes on, because it may end the
 * process next.
 */
#ifndef FACET_OPENCL_TRACK_H
#define FACET_OPENCL_TRACK_H

#include <CL/cl.h>

#include "process.h"

struct facet_cl_command {
    cl_event event;         /* the tracker owns one reference */
    cl_command_queue queue; /* for comparison only, because the program may have released it; NULL: unknown */
    uint64_t key, estimate_ns;
    uint64_t submitted_ns; /* host clock; 0: not read */
    uint64_t waited_ns;    /* the last time at which the command did not run yet; 0: no look has visited it */
    bool may_be_held;      /* has a wait list, so it may wait for a later action of the program */
    bool flushed;
};

/* Makes the helper at the first launch of this process; false when no thread can be created. */
bool facet_cl_track_ready(void);

/* Whether some command had no profiling times, so that the host clock must be read at submission. */
bool facet_cl_track_needs_host_time(void);
void facet_cl_track_set_host_time_needed(void);

/* Takes over a command in flight, its event reference included. */
void facet_cl_track_add(struct facet_tenant *tenant, const struct facet_cl_command *command);

/* Reports a command that is known to be complete. */
void facet_cl_track_finished(struct facet_tenant *tenant, const struct facet_cl_command *command);

/*
 * Reports commands after the driver said that these events are complete, and so all earlier commands of an in-order
 * queue; without events, all commands of the queue. NULL stands for every queue.
 */
void facet_cl_track_waited(cl_command_queue queue, cl_uint count, const cl_event *events);

/*
 * Like facet_cl_track_waited(), for a callback of the driver. The driver may hold a lock that the helper waits for, so
 * this function does not wait for the helper.
 */
void facet_cl_track_called_back(cl_event event);

/* In the child of fork(): nothing is in flight, and the thread does not exist. */
void facet_cl_track_forked(void);

#endif
