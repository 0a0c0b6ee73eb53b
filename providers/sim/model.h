/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model: durations of kernels, and their power and heat. Pure functions over whole numbers.
 *
 * Time. A unit has `groups_per_unit` slots, each of which runs one work-group at a time. A kernel needs work-groups /
 * slots waves, rounded up. Its duration is waves x cycles / clock, or bytes / bandwidth, whichever is longer
 * (roofline). If kernels together want more slots or bandwidth than their pool has, all are slowed down in the same
 * proportion.
 *
 * Heat. Power is the idle power plus a part that is proportional to the units at work and to the clock. Above the power
 * limit the clock is lowered until the power fits. The temperature follows the power with one time constant. At the
 * thermal limit the clock falls to clock_low_mhz until the device has cooled by SIM_COOL_MC.
 *
 * Owns: the arithmetic; nothing overflows for values up to SIM_COST_MAX and groups up to SIM_GROUPS_MAX.
 * Never: reads a clock or keeps state. No floating point, so that the same input gives the same time everywhere.
 */
#ifndef FACET_SIM_MODEL_H
#define FACET_SIM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernel.h"
#include "sim.h"

#define SIM_NEVER      UINT64_MAX
#define SIM_TIME_MAX   (UINT64_C(1) << 62) /* the longest time of a kernel, in ns */
#define SIM_GROUPS_MAX (UINT64_C(1) << 48) /* of one launch */
#define SIM_WHOLE_WORK (UINT64_C(1) << 60) /* the remaining work of a kernel that has not begun */
/*
 * Each change of pace rounds the remaining work by less than 1. So less remaining work than this counts as 0: otherwise
 * a kernel would end 1 ns late.
 */
#define SIM_ROUNDING   UINT64_C(1024)
#define SIM_FULL_SHARE (UINT64_C(1) << 20) /* of a pool's bandwidth */
#define SIM_COOL_MC    5000

/* The part of a device that a context's kernels run on. */
struct sim_device_part {
    uint32_t units;
    uint64_t bandwidth_mbps;
};

/* The total demand of the kernels in one part. */
struct sim_demand {
    uint64_t slots;
    uint64_t bandwidth; /* SIM_FULL_SHARE: the whole bandwidth of the part */
};

/* A kernel alone on its part of the device. */
struct sim_solo_time {
    uint64_t total_ns;  /* at least 1 */
    uint64_t memory_ns; /* the time for its bytes at the whole bandwidth of the part */
    uint64_t slots;
    uint32_t units; /* at work */
};

struct sim_device_part sim_model_device_part(const struct sim_model *model, const struct sim_share *share);

struct sim_solo_time sim_model_solo_time(const struct sim_model *model, const struct sim_device_part *part,
                                         uint32_t clock_mhz, const struct sim_kernel *kernel, uint64_t groups);

/* A kernel's contribution to the demand on its part. */
struct sim_demand sim_model_demand(const struct sim_solo_time *solo);

/* The duration on a shared part, on a device slowed down by a fault. SIM_NEVER: it hangs. */
uint64_t sim_model_shared_ns(const struct sim_model *model, const struct sim_device_part *part,
                             const struct sim_demand *demand, const struct sim_solo_time *solo,
                             uint32_t slowdown_milli);

/* The remaining work (SIM_WHOLE_WORK: all of it) after `elapsed_ns` at a pace of `total_ns` for the whole work. */
uint64_t sim_model_progress(uint64_t remaining, uint64_t elapsed_ns, uint64_t total_ns);
/* The time for the remaining work at a pace of `total_ns` for the whole work; SIM_NEVER if `total_ns` is SIM_NEVER. */
uint64_t sim_model_remaining_ns(uint64_t remaining, uint64_t total_ns);

uint64_t sim_model_power_mw(const struct sim_model *model, uint32_t active_units, uint32_t clock_mhz);
/* The clock under `active_units` at work; `hot`: the thermal limit was reached. Sets FACET_THROTTLE_* bits. */
uint32_t sim_model_clock_mhz(const struct sim_model *model, uint32_t active_units, bool hot, uint32_t *ret_throttle);

/* Temperatures in millionths of a degree: the steady state for `power_mw`, and the value on the way to it. */
int64_t sim_model_steady_uc(const struct sim_model *model, uint64_t power_mw);
int64_t sim_model_temperature_uc(const struct sim_model *model, int64_t from_uc, int64_t steady_uc,
                                 uint64_t elapsed_ns);

#endif
