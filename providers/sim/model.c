/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the arithmetic of time, power and heat. Never: keeps state. */
#include "model.h"

__extension__ typedef unsigned __int128 wide;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a * b / c, rounded up, at most SIM_TIME_MAX. */
static uint64_t scale_rounded_up(uint64_t a, uint64_t b, uint64_t c)
{
    wide product = (wide)a * b;
    wide quotient = product / c + (product % c != 0);

    return quotient < SIM_TIME_MAX ? (uint64_t)quotient : SIM_TIME_MAX;
}

/* A partition's share of the bandwidth is its share of the memory; a worker's share is its share of the units. */
struct sim_device_part sim_model_device_part(const struct sim_model *model, const struct sim_share *share)
{
    uint64_t part = share->compute_units, whole = model->compute_units;

    if (share->partition_uuid[0]) {
        part = share->memory_bytes;
        whole = model->memory_bytes;
    }
    uint64_t bandwidth = whole ? (uint64_t)((wide)model->bandwidth_mbps * smaller(part, whole) / whole) : 0;
    return (struct sim_device_part){
        .units = (uint32_t)larger(share->compute_units, 1),
        .bandwidth_mbps = larger(bandwidth, 1),
    };
}

static uint64_t slots_of(const struct sim_model *model, const struct sim_device_part *part)
{
    return (uint64_t)part->units * larger(model->groups_per_unit, 1);
}

static uint64_t compute_ns(uint64_t waves, uint64_t cycles, uint32_t clock_mhz)
{
    wide total = (wide)waves * cycles;

    return total < SIM_TIME_MAX ? scale_rounded_up((uint64_t)total, 1000, larger(clock_mhz, 1)) : SIM_TIME_MAX;
}

static uint64_t memory_ns(uint64_t groups, uint64_t bytes, uint64_t bandwidth_mbps)
{
    wide total = (wide)groups * bytes;

    return total < SIM_TIME_MAX ? scale_rounded_up((uint64_t)total, 1000, bandwidth_mbps) : SIM_TIME_MAX;
}

struct sim_solo_time sim_model_solo_time(const struct sim_model *model, const struct sim_device_part *part,
                                         uint32_t clock_mhz, const struct sim_kernel *kernel, uint64_t groups)
{
    uint64_t slots = slots_of(model, part);
    uint64_t waves = (groups + slots - 1) / slots;
    struct sim_solo_time solo = {
        .total_ns = kernel->duration_ns,
        .slots = smaller(groups, slots),
        .units = (uint32_t)smaller(groups, part->units),
    };

    if (!kernel->duration_ns) {
        solo.memory_ns = memory_ns(groups, kernel->bytes_per_group, part->bandwidth_mbps);
        solo.total_ns = larger(compute_ns(waves, kernel->cycles_per_group, clock_mhz), solo.memory_ns);
    }
    solo.total_ns = larger(solo.total_ns, 1);
    return solo;
}

struct sim_demand sim_model_demand(const struct sim_solo_time *solo)
{
    return (struct sim_demand){
        .slots = solo->slots,
        .bandwidth = (uint64_t)((wide)solo->memory_ns * SIM_FULL_SHARE / solo->total_ns),
    };
}

uint64_t sim_model_shared_ns(const struct sim_model *model, const struct sim_device_part *part,
                             const struct sim_demand *demand, const struct sim_solo_time *solo, uint32_t slowdown_milli)
{
    uint64_t slots = slots_of(model, part);
    uint64_t total = solo->total_ns;

    if (slowdown_milli == SIM_HANGS)
        return SIM_NEVER;
    if (demand->slots > slots)
        total = scale_rounded_up(solo->total_ns, demand->slots, slots);
    if (demand->bandwidth > SIM_FULL_SHARE)
        total = larger(total, scale_rounded_up(solo->total_ns, demand->bandwidth, SIM_FULL_SHARE));
    return scale_rounded_up(total, larger(slowdown_milli, 1000), 1000);
}

uint64_t sim_model_progress(uint64_t remaining, uint64_t elapsed_ns, uint64_t total_ns)
{
    if (total_ns == SIM_NEVER)
        return remaining;
    wide done = (wide)elapsed_ns * SIM_WHOLE_WORK / total_ns;
    return done + SIM_ROUNDING < remaining ? remaining - (uint64_t)done : 0;
}

uint64_t sim_model_remaining_ns(uint64_t remaining, uint64_t total_ns)
{
    if (total_ns == SIM_NEVER)
        return SIM_NEVER;
    return remaining > SIM_ROUNDING ? scale_rounded_up(remaining - SIM_ROUNDING, total_ns, SIM_WHOLE_WORK) : 0;
}

/* The power that units at work add at full clock. */
static uint64_t dynamic_mw(const struct sim_model *model, uint32_t active_units)
{
    uint64_t span = model->peak_mw > model->idle_mw ? model->peak_mw - model->idle_mw : 0;

    return (uint64_t)((wide)span * active_units / larger(model->compute_units, 1));
}

uint64_t sim_model_power_mw(const struct sim_model *model, uint32_t active_units, uint32_t clock_mhz)
{
    return model->idle_mw + (uint64_t)((wide)dynamic_mw(model, active_units) * clock_mhz / larger(model->clock_mhz, 1));
}

uint32_t sim_model_clock_mhz(const struct sim_model *model, uint32_t active_units, bool hot, uint32_t *ret_throttle)
{
    uint32_t low = model->clock_low_mhz ? model->clock_low_mhz : model->clock_mhz;
    uint64_t dynamic = dynamic_mw(model, active_units);
    uint64_t part = model->limit_mw > model->idle_mw ? model->limit_mw - model->idle_mw : 0;
    uint64_t clock = model->clock_mhz;

    *ret_throttle = 0;
    if (model->limit_mw && dynamic > part) {
        clock = larger((uint64_t)((wide)clock * part / dynamic), low);
        *ret_throttle |= FACET_THROTTLE_POWER;
    }
    if (hot) {
        clock = smaller(clock, low);
        *ret_throttle |= FACET_THROTTLE_THERMAL;
    }
    return (uint32_t)clock;
}

int64_t sim_model_steady_uc(const struct sim_model *model, uint64_t power_mw)
{
    uint64_t above = power_mw > model->idle_mw ? power_mw - model->idle_mw : 0;

    return (int64_t)model->ambient_mc * 1000 + (int64_t)smaller(above * model->heat_mc_per_w, SIM_TIME_MAX);
}

/* e^-x in 32 fractional bits: five terms of the series for x / 2^n, which is then squared n times. */
static uint64_t exp_of_minus(wide x)
{
    const uint64_t one = UINT64_C(1) << 32;
    unsigned halvings = 0;

    if (x >= (wide)40 << 32)
        return 0;
    for (; x > one / 16; x /= 2)
        halvings++;
    uint64_t y = (uint64_t)x, power2 = y * y >> 32, power3 = power2 * y >> 32, power4 = power3 * y >> 32;
    uint64_t result = one - y + power2 / 2 - power3 / 6 + power4 / 24;
    for (; halvings > 0; halvings--)
        result = (uint64_t)((wide)result * result >> 32);
    return result;
}

int64_t sim_model_temperature_uc(const struct sim_model *model, int64_t from_uc, int64_t steady_uc, uint64_t elapsed_ns)
{
    if (!model->heat_time_ns)
        return steady_uc;
    uint64_t left = exp_of_minus(((wide)elapsed_ns << 32) / model->heat_time_ns);
    uint64_t distance = (uint64_t)(from_uc > steady_uc ? from_uc - steady_uc : steady_uc - from_uc);
    int64_t rest = (int64_t)((wide)distance * left >> 32);
    return from_uc > steady_uc ? steady_uc + rest : steady_uc - rest;
}
