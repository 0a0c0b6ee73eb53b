/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the part of a client's demand that comes from live processes, and the charge for launches that ran while they
 * were not followed.
 * Never: reads a clock or a segment; see fair.h for the model.
 *
 * A process that is stopped (Ctrl-Z, a debugger, a paused container) leaves its last state in the segment: that it
 * waits, or has work in flight. Its turns would pass unused for as long as it sleeps.
 */
#include "compute/fair_parts.h"

#define MS UINT64_C(1000000)

/*
 * A waiting thread checks its gate every 20 ms, and shows a sign of life each time. On a loaded machine, or with a
 * quota of processor time, some of these signs come late.
 */
#define WAITING_SILENT_MAX_NS (100 * MS)

/*
 * A process with work in flight may be in a driver's call until the work ends, so it may be silent for several times
 * the work's expected length. A long wait does no harm: a client that overruns its turn does not delay others.
 */
#define RUNNING_SILENT_MAX_NS    (1000 * MS)
#define RUNNING_SILENT_MAX_TIMES 4u

/* How far behind the others a client that comes back may start: it makes up for a short gap between launches. */
#define COMEBACK_NS (10 * MS)

/*
 * Launches that ran while they were not followed are charged to the client when it reports them. The charge is bounded,
 * because launches that could not be measured are reported with the longest possible time.
 */
#define OWED_MAX_NS (10 * 1000 * MS)

void facet_fair_demand_add(struct facet_fair_demand *demand, const struct facet_fair_process *process, uint64_t now_ns)
{
    uint64_t silent_ns = process->alive_ns && now_ns > process->alive_ns ? now_ns - process->alive_ns : 0;

    if (silent_ns <= WAITING_SILENT_MAX_NS)
        demand->waiting += process->waiting;
    if (silent_ns <= facet_max_u64(RUNNING_SILENT_MAX_NS, RUNNING_SILENT_MAX_TIMES * process->inflight_ns)) {
        demand->inflight += process->inflight;
        demand->inflight_ns += process->inflight_ns;
    } else {
        demand->lost_launches += process->inflight;
    }
    demand->idle_since_ns = facet_max_u64(demand->idle_since_ns, process->idle_since_ns);
}

void facet_fair_begin_wanting(const struct facet_fair *fair, struct facet_fair_client *client)
{
    if (!client->active && fair->vtime_floor > COMEBACK_NS)
        client->vtime = facet_max_u64(client->vtime, fair->vtime_floor - COMEBACK_NS);
}

void facet_fair_note_lost(const struct facet_fair *fair, struct facet_fair_client *client)
{
    uint64_t measured_ns = client->demand.busy_ns - client->cap_busy_ns;
    uint64_t since_report_ns = client->charged_ns - facet_min_u64(client->charged_ns, client->reported_charged_ns);

    client->lost_returned = client->lost_returned || client->demand.lost_launches < client->lost_launches;
    client->lost_launches = client->demand.lost_launches;
    if (client->lost_returned && measured_ns > since_report_ns) {
        uint64_t owed_ns = facet_min_u64(measured_ns - since_report_ns, OWED_MAX_NS);

        facet_fair_begin_wanting(fair, client);
        client->charged_ns += owed_ns;
        client->vtime += owed_ns * FACET_MILLI_WHOLE / client->weight_milli;
    }
    if (client->lost_returned && client->demand.inflight && client->gate == FACET_FAIR_CLOSED)
        client->draining = true;
    client->lost_returned = client->lost_returned && client->demand.inflight;
    if (measured_ns || !(client->demand.inflight || client->demand.lost_launches))
        client->reported_charged_ns = client->charged_ns;
}
