/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the device time that was reported, and the process's stops. Never: calls OpenCL with the account lock held. */
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
} account; /* protected by the account lock */

static _Atomic bool runs_in_process;

void facet_cl_measure_device(cl_device_id device)
{
    cl_device_type type = 0;

    if (facet_cl_target.clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) == CL_SUCCESS &&
        type & CL_DEVICE_TYPE_CPU)
        atomic_store_explicit(&runs_in_process, true, memory_order_relaxed);
}

bool facet_cl_measure_runs_in_process(void)
{
    return atomic_load_explicit(&runs_in_process, memory_order_relaxed);
}

static uint64_t process_cpu_ns(void)
{
    struct timespec used = {.tv_sec = 0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return facet_timespec_ns(&used);
}

void facet_cl_measure_tick(uint64_t now_ns, bool of_helper)
{
    if (!facet_cl_measure_runs_in_process())
        return;
    pthread_mutex_lock(&facet_cl_account_lock);
    if ((of_helper || account.stops.ticked_ns) && facet_stops_tick_is_due(&account.stops, now_ns))
        facet_stops_tick(&account.stops, now_ns, process_cpu_ns());
    pthread_mutex_unlock(&facet_cl_account_lock);
}

void facet_cl_measure_pause(void)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    facet_stops_rest(&account.stops);
    pthread_mutex_unlock(&facet_cl_account_lock);
}

/* The time of a command, and the part of it that has not been reported. */
struct measured {
    uint64_t length_ns, added_ns;
};

/* Called with the account lock. */
static struct measured add_interval(struct facet_busy *busy, int64_t ahead_ns, struct facet_interval interval)
{
    struct facet_interval pieces[FACET_STOPS_MOST + 1];
    struct measured measured = {0};

    for (uint32_t i = 0, count = facet_stops_cut(&account.stops, ahead_ns, interval, pieces); i < count; i++) {
        measured.length_ns += pieces[i].end_ns - pieces[i].start_ns;
        measured.added_ns += facet_busy_add(busy, pieces[i].start_ns, pieces[i].end_ns);
    }
    return measured;
}

static struct measured add_device(uint64_t start_ns, uint64_t end_ns, uint64_t now_ns)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    facet_stops_learn_clock(&account.stops, end_ns, now_ns);
    struct measured measured =
        add_interval(&account.device_clock, account.stops.ahead_ns, (struct facet_interval){start_ns, end_ns});
    pthread_mutex_unlock(&facet_cl_account_lock);
    return measured;
}

static struct measured add_host(uint64_t start_ns, uint64_t end_ns)
{
    pthread_mutex_lock(&facet_cl_account_lock);
    struct measured measured = add_interval(&account.host_clock, 0, (struct facet_interval){start_ns, end_ns});
    pthread_mutex_unlock(&facet_cl_account_lock);
    return measured;
}

static bool read_profile(cl_event event, cl_ulong *ret_start, cl_ulong *ret_end)
{
    return facet_cl_target.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *ret_start, ret_start,
                                                   NULL) == CL_SUCCESS &&
           facet_cl_target.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *ret_end, ret_end, NULL) ==
               CL_SUCCESS;
}

/* Without profiling times the command counts from its submission until now, less time that was reported already. */
uint64_t facet_cl_measure(const struct facet_cl_command *command, uint64_t now_ns)
{
    cl_ulong start, end;

    if (read_profile(command->event, &start, &end)) {
        struct measured measured = add_device(start, end, facet_clock_now_ns());
        facet_estimate_learn(command->key, measured.length_ns);
        return measured.added_ns;
    }
    facet_cl_track_set_host_time_needed();
    if (!command->submitted_ns)
        return 0;
    struct measured measured = add_host(command->submitted_ns, now_ns);
    facet_estimate_learn(command->key, measured.added_ns);
    return measured.added_ns;
}

void facet_cl_measure_forked(void)
{
    memset(&account, 0, sizeof account);
}
