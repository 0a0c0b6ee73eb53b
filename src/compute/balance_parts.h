/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the helpers and the plan that balance.c and rebalance*.c share. Never: is included elsewhere; balance.h
 * describes the model.
 */
#ifndef FACET_COMPUTE_BALANCE_PARTS_H
#define FACET_COMPUTE_BALANCE_PARTS_H

#include "compute/balance.h"

__extension__ typedef unsigned __int128 facet_balance_wide;

/* value * multiplier / divisor, and left + right; FACET_BALANCE_NEVER when it does not fit. */
uint64_t facet_balance_scale(uint64_t value, uint64_t multiplier, uint64_t divisor);
uint64_t facet_balance_sum(uint64_t left, uint64_t right);

/* The member's units times its share in milli; at least 1. */
uint64_t facet_balance_speed(const struct facet_balance_member *member);
/* Whether the member has units and is neither paused nor lost: only then its wait counts. */
bool facet_balance_takes_part(const struct facet_balance_member *member);
/* Whether the member takes part and its queue has room. */
bool facet_balance_accepts(const struct facet_balance_member *member);

struct facet_balance_waits {
    uint64_t longest_ns, mean_ns;
    uint32_t members;    /* how many members take part */
    int longest_waiting; /* the member that waits longest; FACET_BALANCE_NONE when none takes part */
};

struct facet_balance_waits facet_balance_waits(const struct facet_balance_member *members, uint32_t count);
uint64_t facet_balance_imbalance_of(const struct facet_balance_waits *waits);
/* The mean wait of all members except the one that waits longest; at least 1. */
uint64_t facet_balance_others_ns(const struct facet_balance_waits *waits);

/* ---- a plan in the making (rebalance*.c) ---- */

struct facet_balance_plan {
    struct facet_balance *balance;
    struct facet_balance_member *members;
    struct facet_balance_work *works;
    struct facet_balance_action *actions;
    uint32_t count, work_count, actions_max, action_count;
};

/* Cost of moving the work to `to`; FACET_BALANCE_NEVER when the work may not move, or not to that member. */
uint64_t facet_balance_move_cost_ns(const struct facet_balance_plan *plan, const struct facet_balance_work *work,
                                    int to);
/* Moves the work's load from member to member, and records no action. */
void facet_balance_move_load(struct facet_balance_plan *plan, struct facet_balance_work *work, int to);
/* Moves the work and records the action. The plan must have room for one. */
void facet_balance_migrate(struct facet_balance_plan *plan, struct facet_balance_work *work, int to, uint64_t gain_ns,
                           uint64_t cost_ns);

/*
 * facet_balance_give_back() gives guarantees back; facet_balance_lend() lends unused shares of idle members to the
 * longest waiting member of their device (rebalance_share.c).
 */
void facet_balance_give_back(struct facet_balance_plan *plan);
bool facet_balance_lend(struct facet_balance_plan *plan, const struct facet_balance_waits *waits);

/*
 * Carries out the best of all distributions of few works over few members, if it is better than the present one.
 * Returns whether the search was complete; false when there are too many works or members (rebalance_search.c).
 */
bool facet_balance_search(struct facet_balance_plan *plan);

#endif
