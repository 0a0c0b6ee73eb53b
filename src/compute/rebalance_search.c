/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the search for the best of all distributions of few works over few members. Single moves and swaps, which
 * suffice for many works, can end in a distribution that no single step improves although a better one exists.
 * Never: examines more than SEARCH_STEPS partial distributions, so that an interval's work is bounded.
 */
#include <stddef.h>

#include "compute/balance_parts.h"

#define SEARCH_WORKS   10u
#define SEARCH_MEMBERS 8u
#define SEARCH_STEPS   10000u /* calls of place_work() */

struct search {
    struct facet_balance_plan *plan;
    struct facet_balance_work *works[SEARCH_WORKS];
    int start_members[SEARCH_WORKS], best[SEARCH_WORKS];
    uint32_t works_found, steps;
    uint64_t longest_ns;                        /* the longest wait before anything moves */
    uint64_t imbalance_milli, cost_ns, gain_ns; /* of the best distribution; at first, of the present one */
    bool found;
};

static bool gather_work(struct facet_balance_plan *plan, struct search *search)
{
    if (plan->count > SEARCH_MEMBERS)
        return false;
    for (uint32_t i = 0; i < plan->work_count; i++) {
        struct facet_balance_work *work = &plan->works[i];

        if (work->running || work->moves >= plan->balance->config.moves_max ||
            !facet_balance_takes_part(&plan->members[work->member]))
            continue;
        if (search->works_found == SEARCH_WORKS)
            return false;
        search->start_members[search->works_found] = work->member;
        search->works[search->works_found++] = work;
    }
    return search->works_found > 0;
}

static bool queues_fit(const struct facet_balance_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->members[i].queue_max > 0 && plan->members[i].queue_length > plan->members[i].queue_max)
            return false;
    return true;
}

/* Keeps a complete distribution that is better than the best so far: by imbalance down to settle_milli, then by cost.
 */
static void judge_placement(struct search *search, uint64_t cost_ns)
{
    const struct facet_balance_plan *plan = search->plan;
    uint32_t settled = plan->balance->config.settle_milli;
    struct facet_balance_waits waits = facet_balance_waits(plan->members, plan->count);
    uint64_t imbalance = facet_balance_imbalance_of(&waits);

    imbalance = imbalance > settled ? imbalance : settled;
    if (waits.longest_ns >= search->longest_ns || search->longest_ns - waits.longest_ns <= cost_ns)
        return;
    if (imbalance > search->imbalance_milli ||
        (imbalance == search->imbalance_milli && search->found && cost_ns >= search->cost_ns))
        return;
    if (!queues_fit(plan))
        return;
    search->found = true;
    search->imbalance_milli = imbalance;
    search->cost_ns = cost_ns;
    search->gain_ns = search->longest_ns - waits.longest_ns;
    for (uint32_t i = 0; i < search->works_found; i++)
        search->best[i] = search->works[i]->member;
}

/* Tries each member for the work `index`, then recurses: at most SEARCH_WORKS deep. */
static void place_work(struct search *search, uint32_t index, uint64_t cost_ns)
{
    if (search->steps++ >= SEARCH_STEPS)
        return;
    if (index == search->works_found) {
        judge_placement(search, cost_ns);
        return;
    }
    struct facet_balance_member *members = search->plan->members;
    struct facet_balance_work *work = search->works[index];
    int start_member = search->start_members[index];

    place_work(search, index + 1, cost_ns);
    for (int to = 0; to < (int)search->plan->count; to++) {
        uint64_t cost = facet_balance_sum(cost_ns, facet_balance_move_cost_ns(search->plan, work, to));

        if (cost >= search->longest_ns || !facet_balance_takes_part(&members[to]))
            continue;
        const struct facet_balance_member source = members[start_member], target = members[to];

        facet_balance_move_load(search->plan, work, to);
        place_work(search, index + 1, cost);
        members[start_member] = source;
        members[to] = target;
        work->member = start_member;
    }
}

static uint32_t count_moves(const struct search *search)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < search->works_found; i++)
        sum += search->best[i] != search->start_members[i];
    return sum;
}

/* The largest work first: it lowers the longest wait most. */
static struct facet_balance_work *next_move(const struct search *search, int *ret_to)
{
    struct facet_balance_work *next = NULL;

    for (uint32_t i = 0; i < search->works_found; i++) {
        struct facet_balance_work *work = search->works[i];

        if (work->member == search->best[i] || (next && work->expected_ns <= next->expected_ns))
            continue;
        next = work;
        *ret_to = search->best[i];
    }
    return next;
}

bool facet_balance_search(struct facet_balance_plan *plan)
{
    struct search search = {.plan = plan};
    struct facet_balance_work *work;
    int to = FACET_BALANCE_NONE;

    if (!gather_work(plan, &search))
        return false;
    struct facet_balance_waits waits = facet_balance_waits(plan->members, plan->count);

    search.longest_ns = waits.longest_ns;
    search.imbalance_milli = facet_balance_imbalance_of(&waits);
    place_work(&search, 0, 0);
    if (!search.found)
        return search.steps < SEARCH_STEPS;
    if (count_moves(&search) > plan->actions_max - plan->action_count)
        return false;
    while ((work = next_move(&search, &to)))
        facet_balance_migrate(plan, work, to, search.gain_ns, search.cost_ns);
    return true;
}
