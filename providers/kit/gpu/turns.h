/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling of contexts on one device, or on one worker's part of it, in turns.
 *
 * Owns: the executor's data of a context: its share, its bounds, whether it is paused; and the holder of the turn.
 * Never: withdraws submitted commands: a turn ends when they are complete.
 *
 * The policies are those of src/compute/pick. A turn lasts a slice of time. When it is over and the policy prefers
 * another context, the holder submits nothing more, and the next turn begins when the holder's submitted commands are
 * complete. Charges are device time: the union of the intervals that the driver's events measured, however many streams
 * of a context worked at a time. A context that is alone, and has no cap, is never interrupted.
 *
 * Everything is protected by the executor's lock, unless stated otherwise.
 */
#ifndef FACET_KIT_GPU_TURNS_H
#define FACET_KIT_GPU_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <facet/error.h>

#include "compute/pick.h"

#define GPU_TURN_NS UINT64_C(2000000) /* default length of a turn while other contexts wait */

struct gpu_context;
struct gpu_executor;
struct gpu_stream;
struct gpu_turns;
struct gpu_machine;

/* A context as the executor sees it. */
struct gpu_tenant {
    TAILQ_ENTRY(gpu_tenant) link;
    struct gpu_turns *turns;
    int entity; /* its number in the `pick` of its turns */
    bool paused;
    bool has_priorities;              /* the host has set the priority of one of its streams */
    uint32_t launches_most;           /* the most commands submitted at a time; 0: SUBMITTED_MOST (turns.c) */
    uint32_t submitted_commands;      /* submitted commands, including one being submitted */
    bool has_work, wants_turn, ready; /* as of the last pass; ready: a command may be submitted now */
};
TAILQ_HEAD(gpu_tenants, gpu_tenant);

struct gpu_turns {
    LIST_ENTRY(gpu_turns) link;
    struct facet_pick pick;
    struct gpu_tenant *tenants[FACET_PICK_ENTITIES];
    struct gpu_tenant *holder; /* holder of the turn; NULL: none */
    struct gpu_tenant *next;   /* waits until the holder's submitted commands are complete; NULL: none */
    uint64_t until_ns, slice_ns;
    uint64_t again_ns;    /* when a cap lets a context continue */
    uint64_t last_end_ns; /* device time is charged up to here */
};
LIST_HEAD(gpu_turns_list, gpu_turns);

/*
 * These three functions are called with the machine's context_lock and without the executor's lock. gpu_turns_begin()
 * makes turns without members for a device or a part of it, by the device's policy. gpu_turns_end() frees turns without
 * members; NULL is allowed. gpu_turns_set_policy() sets another policy and length for all turns of a device.
 */
enum facet_status gpu_turns_begin(struct gpu_machine *machine, uint32_t device, struct gpu_turns **ret_turns,
                                  struct facet_error *error);
void gpu_turns_end(struct gpu_machine *machine, struct gpu_turns **turns);
void gpu_turns_set_policy(struct gpu_machine *machine, uint32_t device, enum facet_pick_policy policy,
                          uint64_t slice_ns);

/* Adds a tenant to `turns`, with no guarantee, no cap and normal priority. FACET_NO_MEMORY: there are too many. */
enum facet_status gpu_tenant_join(struct gpu_executor *executor, struct gpu_turns *turns, struct gpu_tenant *tenant,
                                  struct facet_error *error);
/* Has no effect for a tenant that never joined. */
void gpu_tenant_leave(struct gpu_executor *executor, struct gpu_tenant *tenant);

/* Updates each tenant's state, and chooses the holder. */
void gpu_turns_decide(struct gpu_executor *executor);

/* Whether the stream's first command may be submitted now. */
bool gpu_turns_allow(const struct gpu_executor *executor, const struct gpu_stream *stream);

/*
 * Charges the tenant for a command on the device, and returns the charged time. Time that is charged already is not
 * charged again, so that overlapping commands are charged once.
 */
uint64_t gpu_turns_charge(struct gpu_tenant *tenant, uint64_t start_ns, uint64_t end_ns, uint64_t now_ns);

/* The time of the next pass if nothing happens before; UINT64_MAX: never. */
uint64_t gpu_turns_again_ns(const struct gpu_executor *executor);

#endif
