/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thresholds: rules over measures, and the callback that reports when a rule is raised and when it is cleared.
 *
 * Owns: whether a rule is raised, and the time since which its condition has held. Never: reads a clock, starts a
 * thread, takes a lock, or reports a change twice.
 *
 * A rule is raised when its measure was above (or below) `level` over at least `for_ns`, and cleared when the
 * measure was back at `clear_level`, or beyond, for as long. Between the two levels nothing changes, so a measure that
 * oscillates around `level` raises the rule once. A sample from which the measure cannot be derived changes no state,
 * but a pending change begins anew.
 *
 * Thread rule: one thread at a time for each threshold. The callback runs in the feeding thread, after all of its
 * threshold's state is written; it may do anything except feed the same threshold.
 */
#ifndef FACET_MONITOR_THRESHOLD_H
#define FACET_MONITOR_THRESHOLD_H

#include <stddef.h>

#include <facet/error.h>

#include "monitor/sample.h"

struct facet_threshold_rule {
    enum facet_measure measure;
    bool below;            /* raised when the measure is below its level, instead of above */
    uint64_t level;        /* raised above (or below) this */
    uint64_t clear_level;  /* cleared from here on; at most `level`, or with `below` at least `level` */
    uint64_t for_ns;       /* how long either condition must hold; 0: at once */
    uint64_t memory_bytes; /* for memory_milli: the amount that 1000 milli stand for */
};

enum facet_threshold_edge {
    FACET_THRESHOLD_CLEARED = 0,
    FACET_THRESHOLD_RAISED = 1,
};

struct facet_threshold_event {
    enum facet_threshold_edge edge;
    const struct facet_threshold_rule *rule;
    uint64_t value;    /* of the measure, now */
    uint64_t time_ns;  /* of the sample that completed `for_ns` */
    uint64_t since_ns; /* the time from which the condition has held */
};

typedef void (*facet_threshold_func)(void *owner, const struct facet_threshold_event *event);

struct facet_threshold {
    struct facet_threshold_rule rule;
    facet_threshold_func callback;
    void *owner;

    bool raised;
    bool change_pending; /* the condition for the other state holds */
    uint64_t since_ns;   /* the time from which that condition has held */
    bool has_last;
    struct facet_sample last;
};

/* `callback` and its `owner` are the caller's. Errors: FACET_INVALID_ARGUMENT for a clear_level on the wrong side of
 * the level, an unknown measure, memory_milli without memory_bytes, no callback. */
enum facet_status facet_threshold_init(struct facet_threshold *threshold, const struct facet_threshold_rule *rule,
                                       facet_threshold_func callback, void *owner, struct facet_error *error);

/* Evaluates the next sample. A sample whose time is not later than the last sample's is ignored. */
void facet_threshold_feed(struct facet_threshold *threshold, const struct facet_sample *sample);

#endif
