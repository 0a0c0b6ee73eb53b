/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic scaling: each vGPU's part of one device, between its request and its limit, by its demand.
 *
 * Owns: the computation of demand, and the division of a device by it. Never: reads a clock, allocates, or applies a
 * decision. State and measurements in, decisions out; integers only.
 *
 * The caller measures each member over a window and calls facet_scale_step() at its end; the result holds for the next
 * window. Demand is observed, not asked for:
 *     pressed   work is queued, or waited longer than `press_ns` on average. A member stays pressed until nothing is
 *               queued and the wait was below `relax_ns`. Its demand is at least its request, and beyond the request
 *               `step_milli` more than its share, up to its limit
 *     calm      otherwise. Its demand is its use and some headroom. Only after `calm_windows` calm windows in a row is
 *               its share lowered towards that demand, `step_milli` at a time. The request stays its guarantee
 *     idle      calm, and it used nothing: its demand is 0
 *
 * The device is divided in this order: every member gets the smaller of demand and request; then members with a higher
 * demand get what is left, in proportion to their requests (best effort, 0, counts as FACET_SCALE_BEST_EFFORT_MILLI).
 * So
 *     - the sum is never above the device;
 *     - a pressed member has its request at once, however long others used it; if requests sum up to more than the
 *       device (soft mode), they are weights;
 *     - no member has more than its limit; with constant measurements the shares converge and stay.
 *
 * Units follow demand like shares, between `units_least` and `units_most`, one unit at a time. If the device's units
 * are counted, no member gets more than units_least while that would make the sum exceed the device's units. A member
 * whose share grows has at least the units that can use it.
 *
 * Not thread-safe: callers hold one lock, or work on copies.
 */
#ifndef FACET_COMPUTE_SCALE_H
#define FACET_COMPUTE_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include <facet/limits.h>

#define FACET_SCALE_BEST_EFFORT_MILLI 20u

struct facet_scale_config {
    uint32_t step_milli;         /* the most that a share grows beyond its request, or falls when calm, in a window */
    uint32_t headroom_milli;     /* a calm member keeps this much above its use */
    uint32_t calm_windows;       /* calm windows before a share is lowered */
    uint32_t device_units;       /* 0: not counted */
    uint64_t press_ns, relax_ns; /* average waits above and below which a member becomes and stops being pressed */
};

/* step 100, headroom 20, 3 windows; pressed above 1 ms, until below 0.2 ms. */
extern const struct facet_scale_config facet_scale_defaults;

struct facet_scale_member {
    /* Set by the caller. */
    uint32_t request_milli, limit_milli;
    uint32_t units_least, units_most;

    /* Measured over the window. */
    uint32_t busy_milli; /* of the device */
    uint32_t queued;     /* work waiting at the window's end */
    uint64_t delay_ns;   /* how long work that began had waited, on average; 0: nothing began */

    /* The decision, written by each step. Before the first step: the present share and units, or 0. */
    uint32_t share_milli, units;

    /* Kept by the steps; 0 at first. */
    bool pressed;
    uint32_t calm_streak; /* calm windows in a row, up to calm_windows */
    uint32_t wanted_milli, wanted_units;
};

/* Shares and units for the next window, for the members of one device. */
void facet_scale_step(const struct facet_scale_config *config, struct facet_scale_member *members, uint32_t count);

#endif
