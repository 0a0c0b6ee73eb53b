/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the list of the newest stops. Never: keeps more than FACET_STOPS_MOST. */
#include "stops.h"

#include <string.h>

/* The least time between two ticks. */
#define TICK_LEAST_NS UINT64_C(2000000)

/* In a time t the device's clock and this machine's drift apart by less than t >> DRIFT_SHIFT. */
#define DRIFT_SHIFT 10

bool facet_stops_tick_is_due(const struct facet_stops *stops, uint64_t now_ns)
{
    return now_ns >= stops->ticked_ns + TICK_LEAST_NS;
}

static void add_stop(struct facet_stops *stops, uint64_t start_ns, uint64_t end_ns)
{
    if (stops->count == FACET_STOPS_MOST) {
        stops->count--;
        memmove(stops->intervals, stops->intervals + 1, stops->count * sizeof stops->intervals[0]);
    }
    stops->intervals[stops->count++] = (struct facet_interval){start_ns, end_ns};
}

/*
 * A late tick means that the process was stopped. The stop began when the tick was due, or earlier; it counts from
 * then. If the process used a processor for most of the time, its driver was running, and only the ticking thread was
 * delayed.
 */
void facet_stops_tick(struct facet_stops *stops, uint64_t now_ns, uint64_t cpu_ns)
{
    uint64_t next_ns = stops->ticked_ns + FACET_STOPS_TICK_NS;

    if (stops->ticked_ns && now_ns >= next_ns + FACET_STOPS_LEAST_NS &&
        cpu_ns - stops->ticked_cpu_ns < (now_ns - stops->ticked_ns) / 2)
        add_stop(stops, next_ns, now_ns);
    stops->ticked_ns = now_ns;
    stops->ticked_cpu_ns = cpu_ns;
}

void facet_stops_rest(struct facet_stops *stops)
{
    stops->ticked_ns = 0;
}

/* Keeps the smallest offset seen: an event is never observed early, and most are observed late. */
void facet_stops_learn_clock(struct facet_stops *stops, uint64_t device_ns, uint64_t now_ns)
{
    int64_t ahead_ns = (int64_t)(now_ns - device_ns);
    int64_t drift_ns = (int64_t)((now_ns - stops->ahead_known_ns) >> DRIFT_SHIFT);

    if (!stops->ahead_known_ns || ahead_ns < stops->ahead_ns + drift_ns) {
        stops->ahead_ns = ahead_ns;
        stops->ahead_known_ns = now_ns;
    }
}

uint32_t facet_stops_cut(const struct facet_stops *stops, int64_t ahead_ns, struct facet_interval interval,
                         struct facet_interval ret_pieces[FACET_STOPS_MOST + 1])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < stops->count; i++) {
        uint64_t start_ns = stops->intervals[i].start_ns - (uint64_t)ahead_ns;
        uint64_t end_ns = stops->intervals[i].end_ns - (uint64_t)ahead_ns;

        if (end_ns <= interval.start_ns || start_ns >= interval.end_ns)
            continue;
        if (start_ns > interval.start_ns)
            ret_pieces[count++] = (struct facet_interval){interval.start_ns, start_ns};
        interval.start_ns = end_ns < interval.end_ns ? end_ns : interval.end_ns;
    }
    if (interval.start_ns < interval.end_ns)
        ret_pieces[count++] = interval;
    return count;
}
