/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the account of device time behind measure.h. Never: calls OpenCL with the account lock held. */
#include "measure.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "interpose/kit/busy.h"
#include "interpose/kit/estimate.h"
#include "interpose/kit/stops.h"
#include "layer.h"

static struct {
    struct facet_busy device_clock, host_clock;
    struct facet_stops stops;
} times; /* under the account lock */

static _Atomic bool inside;

void facet_cl_measure_device(cl_device_id device)
{
    cl_device_type type = 0;

    if (facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) == CL_SUCCESS &&
        type & CL_DEVICE_TYPE_CPU)
        atomic_store_explicit(&inside, true, memory_order_relaxed);
}

bool facet_cl_measure_is_inside(void)
{
    return atomic_load_explicit(&inside, memory_order_relaxed);
}

static uint64_t used_cpu_ns(void)
{
    struct timespec used = {.tv_sec = 0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return facet_timespec_ns(&used);
}

void facet_cl_measure_tick(uint64_t now_ns, bool of_helper)
{
    if (!facet_cl_measure_is_inside())
        return;
    pthread_mutex_lock(&facet_cl_account_lock);
    if ((of_helper || times.stops.ticked_ns) && facet_stops_tick_is_due(&times.stops, now_ns))
        facet_stops_tick(&times.stops, now_ns, used_cpu_ns());
    pthread_mutex_unlock(&facet_cl_account_lock);
}

void facet_cl_measure_rests(void)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    facet_stops_rest(&times.stops);
    pthread_mutex_unlock(&facet_cl_account_lock);
}

/* The time of a command, and the part of it that has not been reported. */
struct taken {
    uint64_t length_ns, added_ns;
};

/* Under the account lock. */
static struct taken add_interval(struct facet_busy *busy, int64_t ahead_ns, struct facet_interval whole)
{
    struct facet_interval pieces[FACET_STOPS_MOST + 1];
    struct taken taken = {0};

    for (uint32_t i = 0, count = facet_stops_cut(&times.stops, ahead_ns, whole, pieces); i < count; i++) {
        taken.length_ns += pieces[i].end_ns - pieces[i].start_ns;
        taken.added_ns += facet_busy_add(busy, pieces[i].start_ns, pieces[i].end_ns);
    }
    return taken;
}

static struct taken add_device(uint64_t start_ns, uint64_t end_ns, uint64_t now_ns)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    facet_stops_learn_clock(&times.stops, end_ns, now_ns);
    struct taken taken =
        add_interval(&times.device_clock, times.stops.ahead_ns, (struct facet_interval){start_ns, end_ns});
    pthread_mutex_unlock(&facet_cl_account_lock);
    return taken;
}

static struct taken add_host(uint64_t start_ns, uint64_t end_ns)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    struct taken taken = add_interval(&times.host_clock, 0, (struct facet_interval){start_ns, end_ns});
    pthread_mutex_unlock(&facet_cl_account_lock);
    return taken;
}

static bool read_profile(cl_event event, cl_ulong *ret_start, cl_ulong *ret_end)
{
    return facet_cl_target.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *ret_start, ret_start,
                                                   NULL) == CL_SUCCESS &&
           facet_cl_target.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *ret_end, ret_end, NULL) ==
               CL_SUCCESS;
}

/* Without profiling times it is from submission until now, less the overlap. */
uint64_t facet_cl_measure(const struct facet_cl_command *command, uint64_t now_ns)
{
    cl_ulong start, end;

    if (read_profile(command->event, &start, &end)) {
        struct taken taken = add_device(start, end, facet_clock_now_ns());
        facet_estimate_learn(command->key, taken.length_ns);
        return taken.added_ns;
    }
    facet_cl_track_want_time();
    if (!command->submitted_ns)
        return 0;
    struct taken taken = add_host(command->submitted_ns, now_ns);
    facet_estimate_learn(command->key, taken.added_ns);
    return taken.added_ns;
}

void facet_cl_measure_forked(void)
{
    memset(&times, 0, sizeof times);
}
