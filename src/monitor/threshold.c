/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the two states of a rule and the changes between them. Never: reads a clock. */
#include "monitor/threshold.h"

#include <inttypes.h>

enum facet_status facet_threshold_init(struct facet_threshold *threshold, const struct facet_threshold_rule *rule,
                                       facet_threshold_func callback, void *owner, struct facet_error *error)
{
    if (!facet_measure_name(rule->measure))
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "measure %u: expected an enum facet_measure",
                               (unsigned)rule->measure);
    if (rule->below ? rule->clear_level < rule->level : rule->clear_level > rule->level)
        return facet_error_set(error, FACET_INVALID_ARGUMENT,
                               "clear_level %" PRIu64 ": expected at %s the level, %" PRIu64, rule->clear_level,
                               rule->below ? "least" : "most", rule->level);
    if (rule->measure == FACET_MEASURE_MEMORY_MILLI && rule->memory_bytes == 0)
        return facet_error_set(error, FACET_INVALID_ARGUMENT,
                               "memory_bytes 0: expected what 1000 milli of memory are, for memory_milli");
    if (!callback)
        return facet_error_set(error, FACET_INVALID_ARGUMENT, "callback NULL: expected a function to call");
    *threshold = (struct facet_threshold){.rule = *rule, .callback = callback, .owner = owner};
    return FACET_OK;
}

/* Whether the value fulfils the condition of the state that the threshold is not in. */
static bool meets_other_state(const struct facet_threshold *threshold, uint64_t value)
{
    const struct facet_threshold_rule *rule = &threshold->rule;

    if (!threshold->raised)
        return rule->below ? value < rule->level : value > rule->level;
    return rule->below ? value >= rule->clear_level : value <= rule->clear_level;
}

/* The time from which the measure holds: a gauge from its sample on, any other measure from the previous sample on. */
static uint64_t known_since(const struct facet_threshold *threshold, const struct facet_sample *previous,
                            const struct facet_sample *sample)
{
    return facet_measure_is_gauge(threshold->rule.measure) || !previous ? sample->time_ns : previous->time_ns;
}

static void toggle_raised(struct facet_threshold *threshold, uint64_t value, uint64_t time_ns)
{
    threshold->raised = !threshold->raised;
    threshold->change_pending = false;
    const struct facet_threshold_event event = {
        .edge = threshold->raised ? FACET_THRESHOLD_RAISED : FACET_THRESHOLD_CLEARED,
        .rule = &threshold->rule,
        .value = value,
        .time_ns = time_ns,
        .since_ns = threshold->since_ns,
    };

    threshold->callback(threshold->owner, &event);
}

void facet_threshold_feed(struct facet_threshold *threshold, const struct facet_sample *sample)
{
    const struct facet_sample last = threshold->last, *previous = threshold->has_last ? &last : NULL;
    uint64_t value;

    if (previous && sample->time_ns <= previous->time_ns)
        return;
    threshold->last = *sample;
    threshold->has_last = true;
    if (!facet_sample_measure(previous, sample, threshold->rule.measure, threshold->rule.memory_bytes, &value) ||
        !meets_other_state(threshold, value)) {
        threshold->change_pending = false;
        return;
    }
    if (!threshold->change_pending)
        threshold->since_ns = known_since(threshold, previous, sample);
    threshold->change_pending = true;
    if (sample->time_ns - threshold->since_ns >= threshold->rule.for_ns)
        toggle_raised(threshold, value, sample->time_ns);
}
