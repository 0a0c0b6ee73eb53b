/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose commands the driver is given: turns of contexts on one device, or on one worker's part of it.
 *
 * Owns: what the executor knows of a context: its share, its bounds, whether it is paused; and whose turn it is.
 * Never: takes back what the driver has: a turn ends when that is complete.
 *
 * The policies are those of src/compute/pick. A turn lasts a slice; when it is over and somebody else has the better
 * claim, nothing more of the holder is handed on, and the next turn begins when what it has in the driver is complete.
 * What counts is device time: the union of the intervals that the driver's events measured, however many streams of a
 * context worked at a time. Who is alone, and under no cap, is never interrupted.
 *
 * All under the executor's lock, where nothing else is said.
 */
#ifndef FACET_KIT_GPU_TURNS_H
#define FACET_KIT_GPU_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/error.h>

#include "compute/pick.h"

#define GPU_TURN_NS UINT64_C(2000000) /* while others wait, where nobody said otherwise */

struct gpu_context;
struct gpu_executor;
struct gpu_stream;
struct gpu_turns;
struct gpu_machine;

/* A context, as the executor sees it. */
struct gpu_tenant {
    TAILQ_ENTRY(gpu_tenant) link;
    struct gpu_turns *turns;
    int entity;
    bool paused;
    bool ranked;                      /* its streams have priorities */
    uint32_t launches_most;           /* under way at a time; 0: as many as there is room for */
    uint32_t under_way;               /* commands that the driver has, or is being given */
    bool has_work, wants_turn, ready; /* as of the last look; ready: something may be handed on now */
};
TAILQ_HEAD(gpu_tenants, gpu_tenant);

struct gpu_turns {
    LIST_ENTRY(gpu_turns) link;
    struct facet_pick pick;
    struct gpu_tenant *tenants[FACET_PICK_ENTITIES];
    struct gpu_tenant *holder; /* whose turn it is; NULL: nobody's */
    struct gpu_tenant *next;   /* waits until what the driver has of the holder is complete; NULL: nobody */
    uint64_t until_ns, slice_ns;
    uint64_t again_ns;    /* when a cap lets somebody come back */
    uint64_t last_end_ns; /* up to where device time is charged */
};
LIST_HEAD(gpu_turns_list, gpu_turns);

/*
 * Those three, with the machine's context_lock and without the executor's. Turns of a device or of a part of it, by
 * the device's policy, that nobody takes part in; their end, when nobody does any more (NULL: nothing happens); and
 * another policy for all turns of a device, with so long turns.
 */
enum facet_status gpu_turns_begin(struct gpu_machine *machine, uint32_t device, struct gpu_turns **ret_turns,
                                  struct facet_error *error);
void gpu_turns_end(struct gpu_machine *machine, struct gpu_turns **turns);
void gpu_turns_set_policy(struct gpu_machine *machine, uint32_t device, enum facet_pick_policy policy,
                          uint64_t slice_ns);

/* Takes part, with no guarantee, no cap and normal priority. FACET_NO_MEMORY: too many do. */
enum facet_status gpu_tenant_join(struct gpu_executor *executor, struct gpu_turns *turns, struct gpu_tenant *tenant,
                                  struct facet_error *error);
/* A tenant that never joined: nothing happens. */
void gpu_tenant_leave(struct gpu_executor *executor, struct gpu_tenant *tenant);

/* Looks what everybody wants, and decides whose turn it is. */
void gpu_turns_decide(struct gpu_executor *executor);

/* Whether the stream's first command is to be handed on now. */
bool gpu_turns_allow(const struct gpu_executor *executor, const struct gpu_stream *stream);

/* A command of the tenant was on the device. What it is charged for that: what others were charged up to is not charged
 * again, so that commands that overlap are charged once. */
uint64_t gpu_turns_charge(struct gpu_tenant *tenant, uint64_t start_ns, uint64_t end_ns, uint64_t now_ns);

/* When to look again although nothing happens; UINT64_MAX: never. */
uint64_t gpu_turns_again_ns(const struct gpu_executor *executor);

#endif
