/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the decision that balancing is due, and the choice of the most valuable action; see balance.h. Never: carries
 * an action out: it only writes the plan.
 */
#include <stddef.h>

#include "compute/balance_parts.h"

/* The best next move so far. A swap moves `work` away and `other` to its former member. */
struct move {
    struct facet_balance_work *work, *other;
    int to;
    uint64_t gain_ns, cost_ns, net_ns; /* net_ns 0: no move was found yet */
};

static uint64_t max_ns(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static uint32_t room_in_plan(const struct facet_balance_plan *plan)
{
    return plan->actions_max - plan->action_count;
}

/* A member's wait with `more_ns` added to its queue and `less_ns` taken from it. */
static uint64_t wait_with(const struct facet_balance_member *member, uint64_t more_ns, uint64_t less_ns)
{
    uint64_t queued = facet_balance_sum(member->queued_ns, more_ns);

    queued = queued > less_ns ? queued - less_ns : 0;
    return facet_balance_scale(queued, FACET_MILLI_WHOLE, facet_balance_speed(member));
}

/* ---- moving ---- */

static bool is_movable(const struct facet_balance_plan *plan, const struct facet_balance_work *work)
{
    return !work->running && work->moves < plan->balance->config.moves_max;
}

/* Whether the member lent a part of its share: with new work it takes that back, and the borrower's wait would grow. */
static bool has_lent(const struct facet_balance_member *member)
{
    return member->queued_ns == 0 && member->active_kernels == 0 && member->share_milli < member->request_milli;
}

uint64_t facet_balance_move_cost_ns(const struct facet_balance_plan *plan, const struct facet_balance_work *work,
                                    int to)
{
    if (!is_movable(plan, work) || to == work->member || to == work->previous_member || has_lent(&plan->members[to]))
        return FACET_BALANCE_NEVER;
    return facet_balance_sum(plan->balance->config.move_ns,
                             facet_balance_transfer_ns(plan->balance, work, plan->count, to));
}

void facet_balance_move_load(struct facet_balance_plan *plan, struct facet_balance_work *work, int to)
{
    struct facet_balance_member *source = &plan->members[work->member], *target = &plan->members[to];

    source->queued_ns -= work->expected_ns < source->queued_ns ? work->expected_ns : source->queued_ns;
    source->queue_length -= source->queue_length > 0;
    target->queued_ns = facet_balance_sum(target->queued_ns, work->expected_ns);
    target->queue_length++;
    work->member = to;
}

void facet_balance_migrate(struct facet_balance_plan *plan, struct facet_balance_work *work, int to, uint64_t gain_ns,
                           uint64_t cost_ns)
{
    plan->actions[plan->action_count++] = (struct facet_balance_action){
        .kind = FACET_BALANCE_MIGRATE,
        .member = work->member,
        .to = to,
        .work = work->id,
        .gain_ns = gain_ns,
        .cost_ns = cost_ns,
    };
    work->previous_member = work->member;
    work->moves++;
    facet_balance_move_load(plan, work, to);
}

/* ---- actions that need no imbalance ---- */

/* The member with the shortest wait. Copy costs do not count: the bytes are lost with the old member. */
static int find_shortest_wait(const struct facet_balance_plan *plan)
{
    int best = FACET_BALANCE_NONE;
    uint64_t min = 0;

    for (uint32_t i = 0; i < plan->count; i++) {
        uint64_t wait = facet_balance_wait_ns(&plan->members[i]);

        if (!facet_balance_accepts(&plan->members[i]) || (best != FACET_BALANCE_NONE && wait >= min))
            continue;
        best = (int)i;
        min = wait;
    }
    return best;
}

static void evacuate_members(struct facet_balance_plan *plan)
{
    for (uint32_t i = 0; i < plan->work_count && room_in_plan(plan) > 0; i++) {
        struct facet_balance_work *work = &plan->works[i];

        if (work->running || !plan->members[work->member].lost)
            continue;
        int to = find_shortest_wait(plan);

        if (to == FACET_BALANCE_NONE)
            return;
        facet_balance_migrate(plan, work, to, FACET_BALANCE_NEVER, plan->balance->config.move_ns);
    }
}

/* The running work of lowest priority and the waiting work of highest, if the waiting one has the higher priority. */
static bool find_priority_inversion(const struct facet_balance_plan *plan, int member,
                                    struct facet_balance_work **ret_running, struct facet_balance_work **ret_waiting)
{
    struct facet_balance_work *running = NULL, *waiting = NULL;

    for (uint32_t i = 0; i < plan->work_count; i++) {
        struct facet_balance_work *work = &plan->works[i];

        if (work->member != member)
            continue;
        if (!work->running) {
            waiting = !waiting || work->priority > waiting->priority ? work : waiting;
        } else if (work->moves < plan->balance->config.moves_max) {
            bool lower = !running || work->priority < running->priority ||
                         (work->priority == running->priority && work->expected_ns > running->expected_ns);

            running = lower ? work : running;
        }
    }
    *ret_running = running;
    *ret_waiting = waiting;
    return running && waiting && running->priority < waiting->priority;
}

/* Preempts only on members without a free unit: a free unit takes the waiting work anyway. */
static void preempt_work(struct facet_balance_plan *plan)
{
    uint64_t cost = plan->balance->config.move_ns;

    for (uint32_t i = 0; i < plan->count && room_in_plan(plan) > 0; i++) {
        struct facet_balance_work *running, *waiting;

        if (!facet_balance_takes_part(&plan->members[i]) || plan->members[i].active_kernels < plan->members[i].units ||
            !find_priority_inversion(plan, (int)i, &running, &waiting) || running->expected_ns <= cost)
            continue;
        plan->actions[plan->action_count++] = (struct facet_balance_action){
            .kind = FACET_BALANCE_PREEMPT,
            .member = (int)i,
            .work = running->id,
            .waiting = waiting->id,
            .gain_ns = running->expected_ns,
            .cost_ns = cost,
        };
        running->running = false;
        running->moves++;
        waiting->running = true;
    }
}

/* ---- single steps ---- */

static void propose_step(struct move *best, struct move move)
{
    move.net_ns = move.gain_ns > move.cost_ns ? move.gain_ns - move.cost_ns : 0;
    if (move.net_ns > best->net_ns)
        *best = move;
}

/*
 * The number of members with short waits that count as targets, so that a step's cost does not grow with works times
 * members.
 */
#define TARGETS_MAX 8u

struct targets {
    int members[TARGETS_MAX]; /* least wait first */
    uint64_t waits_ns[TARGETS_MAX];
    uint32_t count;
};

static void insert_target(struct targets *targets, int member, uint64_t wait_ns)
{
    uint32_t at = targets->count < TARGETS_MAX ? targets->count++ : TARGETS_MAX - 1;

    for (; at > 0 && targets->waits_ns[at - 1] > wait_ns; at--) {
        targets->members[at] = targets->members[at - 1];
        targets->waits_ns[at] = targets->waits_ns[at - 1];
    }
    targets->members[at] = member;
    targets->waits_ns[at] = wait_ns;
}

static struct targets find_targets(const struct facet_balance_plan *plan, int longest_waiting)
{
    struct targets targets = {.count = 0};

    for (int i = 0; i < (int)plan->count; i++) {
        uint64_t wait = facet_balance_wait_ns(&plan->members[i]);

        if (i == longest_waiting || !facet_balance_takes_part(&plan->members[i]) || has_lent(&plan->members[i]))
            continue;
        if (targets.count < TARGETS_MAX || wait < targets.waits_ns[TARGETS_MAX - 1])
            insert_target(&targets, i, wait);
    }
    return targets;
}

static void propose_move(const struct facet_balance_plan *plan, struct facet_balance_work *work, int to,
                         uint64_t longest_ns, struct move *best)
{
    uint64_t after = max_ns(wait_with(&plan->members[work->member], 0, work->expected_ns),
                            wait_with(&plan->members[to], work->expected_ns, 0));

    if (!facet_balance_accepts(&plan->members[to]) || after + best->net_ns >= longest_ns)
        return; /* returns before the cost is computed, which may take long */
    propose_step(best, (struct move){.work = work,
                                     .to = to,
                                     .gain_ns = longest_ns - after,
                                     .cost_ns = facet_balance_move_cost_ns(plan, work, to)});
}

/* Proposes moves to the members that wait least, and to the member that holds most of the work's bytes. */
static void propose_moves(const struct facet_balance_plan *plan, struct facet_balance_work *work,
                          const struct targets *targets, uint64_t longest_ns, struct move *best)
{
    uint32_t home = 0;

    for (uint32_t i = 0; i < targets->count; i++)
        propose_move(plan, work, targets->members[i], longest_ns, best);
    for (uint32_t i = 1; work->bytes_on && i < plan->count; i++)
        home = work->bytes_on[i] > work->bytes_on[home] ? i : home;
    if (work->bytes_on)
        propose_move(plan, work, (int)home, longest_ns, best);
}

static bool is_target(const struct targets *targets, int member)
{
    for (uint32_t i = 0; i < targets->count; i++)
        if (targets->members[i] == member)
            return true;
    return false;
}

/* Exchanges a large work for a small one, for cases in which no single work fits. */
static void propose_swaps(const struct facet_balance_plan *plan, struct facet_balance_work *work,
                          const struct targets *targets, uint64_t longest_ns, struct move *best)
{
    for (uint32_t i = 0; i < plan->work_count; i++) {
        struct facet_balance_work *other = &plan->works[i];

        if (other->expected_ns >= work->expected_ns || !is_movable(plan, other) || !is_target(targets, other->member))
            continue;
        uint64_t after = max_ns(wait_with(&plan->members[work->member], other->expected_ns, work->expected_ns),
                                wait_with(&plan->members[other->member], work->expected_ns, other->expected_ns));

        if (after + best->net_ns >= longest_ns)
            continue;
        propose_step(
            best, (struct move){.work = work,
                                .other = other,
                                .to = other->member,
                                .gain_ns = longest_ns - after,
                                .cost_ns = facet_balance_sum(facet_balance_move_cost_ns(plan, work, other->member),
                                                             facet_balance_move_cost_ns(plan, other, work->member))});
    }
}

typedef void (*propose_func)(const struct facet_balance_plan *plan, struct facet_balance_work *work,
                             const struct targets *targets, uint64_t longest_ns, struct move *best);

static struct move best_move(const struct facet_balance_plan *plan, const struct facet_balance_waits *waits,
                             const struct targets *targets, propose_func propose_for)
{
    struct move best = {0};

    for (uint32_t i = 0; i < plan->work_count; i++)
        if (plan->works[i].member == waits->longest_waiting && is_movable(plan, &plan->works[i]))
            propose_for(plan, &plan->works[i], targets, waits->longest_ns, &best);
    return best;
}

static bool move_work(struct facet_balance_plan *plan, const struct facet_balance_waits *waits)
{
    struct targets targets = find_targets(plan, waits->longest_waiting);
    struct move move = best_move(plan, waits, &targets, propose_moves);

    if (move.net_ns == 0 && room_in_plan(plan) >= 2)
        move = best_move(plan, waits, &targets, propose_swaps);
    if (move.net_ns == 0)
        return false;
    int from = move.work->member;

    facet_balance_migrate(plan, move.work, move.to, move.gain_ns, move.cost_ns);
    if (move.other)
        facet_balance_migrate(plan, move.other, from, move.gain_ns, move.cost_ns);
    return true;
}

static void set_units(struct facet_balance_plan *plan, int index, uint32_t units, uint64_t gain_ns)
{
    plan->members[index].units = units;
    plan->actions[plan->action_count++] = (struct facet_balance_action){
        .kind = FACET_BALANCE_SCALE_UNITS,
        .member = index,
        .units = units,
        .gain_ns = gain_ns,
        .cost_ns = gain_ns ? plan->balance->config.adjust_ns : 0,
    };
}

/* Gives the member as many units as it needs to wait no longer than the others. */
static bool scale_up(struct facet_balance_plan *plan, const struct facet_balance_waits *waits)
{
    struct facet_balance_member *member = &plan->members[waits->longest_waiting];
    uint64_t wanted = facet_balance_scale(waits->longest_ns, member->units, facet_balance_others_ns(waits));
    uint32_t units = member->units, max = member->units_most;

    if (max <= units)
        return false;
    member->units = wanted >= max ? max : (uint32_t)wanted + 1;
    uint64_t gain = waits->longest_ns - facet_balance_wait_ns(member);
    uint32_t scaled = member->units;

    member->units = units;
    if (gain <= plan->balance->config.adjust_ns)
        return false;
    set_units(plan, waits->longest_waiting, scaled, gain);
    return true;
}

/* Fewer units shorten no wait, so this comes after all other actions. */
static void scale_idle_down(struct facet_balance_plan *plan)
{
    for (uint32_t i = 0; i < plan->count && room_in_plan(plan) > 0; i++) {
        const struct facet_balance_member *member = &plan->members[i];

        if (member->queued_ns == 0 && member->active_kernels == 0 && member->units > member->units_least &&
            member->units_least > 0 && member->idle_ns >= plan->balance->config.idle_ns)
            set_units(plan, (int)i, member->units_least, 0);
    }
}

/* ---- rebalancing ---- */

static uint64_t imbalance_of(const struct facet_balance_plan *plan)
{
    return facet_balance_imbalance_milli(plan->members, plan->count);
}

/* Idle capacity is used before anything is moved. */
static bool use_idle_capacity(struct facet_balance_plan *plan)
{
    struct facet_balance_waits waits = facet_balance_waits(plan->members, plan->count);

    return facet_balance_lend(plan, &waits) || scale_up(plan, &waits);
}

static bool move_one_work(struct facet_balance_plan *plan)
{
    struct facet_balance_waits waits = facet_balance_waits(plan->members, plan->count);

    return move_work(plan, &waits);
}

static void reduce_imbalance(struct facet_balance_plan *plan)
{
    uint32_t settled = plan->balance->config.settle_milli;

    while (room_in_plan(plan) > 0 && imbalance_of(plan) > settled && use_idle_capacity(plan))
        ;
    if (imbalance_of(plan) <= settled || facet_balance_search(plan))
        return;
    while (room_in_plan(plan) > 0 && imbalance_of(plan) > settled && move_one_work(plan))
        ;
}

uint32_t facet_balance_rebalance(struct facet_balance *balance, uint64_t now_ns, struct facet_balance_member *members,
                                 uint32_t count, struct facet_balance_work *works, uint32_t work_count,
                                 struct facet_balance_action *ret_actions, uint32_t max)
{
    struct facet_balance_plan plan = {
        .balance = balance,
        .members = members,
        .works = works,
        .actions = ret_actions,
        .count = count,
        .work_count = work_count,
        .actions_max = max,
    };

    if (now_ns < balance->next_ns)
        return 0;
    balance->next_ns = facet_balance_sum(now_ns, balance->config.interval_ns);
    evacuate_members(&plan);
    facet_balance_give_back(&plan);
    if (balance->config.preemption)
        preempt_work(&plan);
    balance->balancing =
        imbalance_of(&plan) > (balance->balancing ? balance->config.settle_milli : balance->config.threshold_milli);
    if (balance->balancing)
        reduce_imbalance(&plan);
    scale_idle_down(&plan);
    return plan.action_count;
}
