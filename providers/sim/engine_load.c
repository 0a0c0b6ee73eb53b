/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices over time: running kernels, their pace and completion, and their effect on clock, power and heat.
 *
 * Owns: struct sim_load, and a launch from the head of its stream to completion.
 * Never: waits. Time passes only in sim_load_advance(), from one change to the next; between two changes the pace is
 * constant.
 */
#include <stdlib.h>

#include "engine.h"

enum facet_status sim_load_open(struct facet_provider_instance *instance, uint32_t device, struct sim_load *load,
                                struct facet_error *error)
{
    const struct sim_model *model = sim_device_model(instance, device);

    *load = (struct sim_load){
        .device = device,
        .at_ns = sim_clock_now(instance),
        .slowdown_milli = 1000,
        .clock_mhz = model->clock_mhz,
        .temperature_uc = (int64_t)model->ambient_mc * 1000,
        .power_mw = model->idle_mw,
    };
    load->now.at_ns = load->read.at_ns = load->at_ns;
    TAILQ_INIT(&load->running);
    load->pools = calloc((size_t)model->compute_units + 1, sizeof *load->pools);
    if (!load->pools)
        return facet_kit_fail(error, FACET_NO_MEMORY, "no memory for device %" PRIu32, device);
    return FACET_OK;
}

void sim_load_close(struct sim_load *load)
{
    free(load->pools);
    load->pools = NULL;
}

/* --- pace: the rate of each running kernel --- */

/* Computes at the present clock how long each kernel would take alone, and the total demand of each pool. */
static void sum_demand(const struct sim_model *model, struct sim_load *load)
{
    struct sim_launch *launch;

    TAILQ_FOREACH (launch, &load->running, running)
        load->pools[launch->pool] = (struct sim_pool){0};
    TAILQ_FOREACH (launch, &load->running, running) {
        struct sim_pool *pool = &load->pools[launch->pool];

        launch->solo = sim_model_solo_time(model, &launch->part, load->clock_mhz, launch->kernel, launch->groups);
        struct sim_demand demand = sim_model_demand(&launch->solo);
        pool->demand.slots += demand.slots;
        pool->demand.bandwidth += demand.bandwidth;
        pool->units += launch->solo.units;
    }
}

/* The units at work for a kernel: all that it wants, or its share of a pool that has fewer. */
static uint32_t units_at_work(const struct sim_load *load, const struct sim_launch *launch)
{
    const struct sim_pool *pool = &load->pools[launch->pool];

    if (load->slowdown_milli == SIM_HANGS || pool->units <= launch->part.units)
        return launch->solo.units;
    return (uint32_t)((uint64_t)launch->solo.units * launch->part.units / pool->units);
}

/* The units at work for all running kernels, at most all units of the device. */
static uint32_t device_units_at_work(const struct sim_model *model, const struct sim_load *load)
{
    const struct sim_launch *launch;
    uint64_t units = 0;

    TAILQ_FOREACH (launch, &load->running, running)
        units += units_at_work(load, launch);
    return units < model->compute_units ? (uint32_t)units : model->compute_units;
}

static void announce_throttle(struct facet_provider_instance *instance, struct sim_load *load, uint32_t throttle)
{
    if (throttle == load->throttle)
        return;
    load->throttle = throttle;
    sim_event(instance, FACET_EVENT_THROTTLE, load->device, throttle, 0, sim_device_info(instance, load->device)->uuid,
              throttle ? "simulated clock is lowered" : "simulated clock is back");
}

static bool is_hot(const struct sim_model *model, const struct sim_load *load)
{
    int64_t limit = (int64_t)model->limit_mc * 1000;

    if (!model->limit_mc)
        return false;
    return load->temperature_uc >= (load->hot ? limit - SIM_COOL_MC * 1000 : limit);
}

/* The rates at which the integrals grow. */
static void set_rates(const struct sim_model *model, struct sim_load *load)
{
    struct sim_launch *launch;

    load->tensor_active = load->memory_active = 0;
    TAILQ_FOREACH (launch, &load->running, running) {
        uint64_t units = units_at_work(load, launch);

        load->tensor_active += units * launch->kernel->tensor_milli;
        if (launch->total_ns != SIM_NEVER)
            load->memory_active += (uint64_t)((sim_wide)launch->solo.memory_ns * launch->part.bandwidth_mbps * 1000 /
                                              launch->total_ns / (model->bandwidth_mbps ? model->bandwidth_mbps : 1));
        launch->stream->object.context->account->units_active += (uint32_t)units;
    }
    if (load->memory_active > 1000)
        load->memory_active = 1000;
}

/* Computes clock, pace and power anew after a change of the running kernels, the slowdown or the temperature. */
static void set_pace(struct facet_provider_instance *instance, struct sim_load *load)
{
    const struct sim_model *model = sim_device_model(instance, load->device);
    struct sim_account *account;
    struct sim_launch *launch;
    uint32_t throttle;

    LIST_FOREACH (account, &instance->engine->accounts, link)
        if (account->device == load->device)
            account->units_active = 0;
    /* The clock depends on the demand for units, and the duration of each kernel on the clock. */
    sum_demand(model, load);
    load->hot = is_hot(model, load);
    load->units_active = device_units_at_work(model, load);
    load->clock_mhz = sim_model_clock_mhz(model, load->units_active, load->hot, &throttle);
    if (load->slowdown_milli > 1000 && load->slowdown_milli != SIM_HANGS)
        throttle |= FACET_THROTTLE_FAULT;
    sum_demand(model, load); /* at the new clock */
    TAILQ_FOREACH (launch, &load->running, running)
        launch->total_ns = sim_model_shared_ns(model, &launch->part, &load->pools[launch->pool].demand, &launch->solo,
                                               load->slowdown_milli);
    load->power_mw = sim_model_power_mw(model, load->units_active, load->clock_mhz);
    set_rates(model, load);
    announce_throttle(instance, load, throttle);
}

/* --- time --- */

/* Lets `elapsed_ns` pass at the present pace. */
static void advance_launches(const struct sim_model *model, struct sim_load *load, uint64_t elapsed_ns)
{
    struct sim_launch *launch;

    TAILQ_FOREACH (launch, &load->running, running) {
        struct sim_account *account = launch->stream->object.context->account;

        launch->remaining = sim_model_progress(launch->remaining, elapsed_ns, launch->total_ns);
        launch->elapsed_ns += elapsed_ns;
        account->busy_ns += elapsed_ns;
        account->unit_ns += (uint64_t)units_at_work(load, launch) * elapsed_ns;
    }
    if (!TAILQ_EMPTY(&load->running))
        load->busy_ns += elapsed_ns;
    load->energy_pj += (sim_wide)load->power_mw * elapsed_ns;
    load->temperature_uc =
        sim_model_temperature_uc(model, load->temperature_uc, sim_model_steady_uc(model, load->power_mw), elapsed_ns);
    load->now.unit_ns += (uint64_t)load->units_active * elapsed_ns;
    load->now.tensor_ns += (sim_wide)load->tensor_active * elapsed_ns;
    load->now.memory_ns += (sim_wide)load->memory_active * elapsed_ns;
    load->at_ns += elapsed_ns;
    load->now.at_ns = load->at_ns;
}

/* The time of the next check whether the temperature has crossed a limit: the thermal limit while the device heats up,
 * or SIM_COOL_MC below it while the device cools down. SIM_NEVER: the temperature will not cross it at this power. */
static uint64_t next_temperature_check(const struct sim_model *model, const struct sim_load *load)
{
    int64_t steady = sim_model_steady_uc(model, load->power_mw);
    int64_t limit = (int64_t)model->limit_mc * 1000;
    uint64_t step = model->heat_time_ns / 64;

    if (!model->limit_mc || (load->hot ? steady >= limit - SIM_COOL_MC * 1000 : steady <= limit))
        return SIM_NEVER;
    return load->at_ns + (step ? step : 1);
}

uint64_t sim_load_next(const struct facet_provider_instance *instance, const struct sim_load *load)
{
    const struct sim_launch *launch;
    uint64_t next = next_temperature_check(sim_device_model(instance, load->device), load);

    TAILQ_FOREACH (launch, &load->running, running) {
        uint64_t left = sim_model_remaining_ns(launch->remaining, launch->total_ns);

        if (left != SIM_NEVER && load->at_ns + left < next)
            next = load->at_ns + left;
    }
    return next;
}

/* --- launches --- */

static enum facet_status read_words(const struct sim_space *space, uint64_t address, uint64_t *ret_words, size_t count)
{
    return sim_space_read(space, address, count * sizeof *ret_words, ret_words, NULL);
}

/* Applies the effects "fill" and "add", 1024 words at a time. */
static enum facet_status change_words(struct sim_space *space, uint64_t address, uint64_t count, uint64_t value,
                                      bool add)
{
    uint64_t words[1024];
    enum facet_status status = FACET_OK;

    for (uint64_t done = 0, length; done < count && status == FACET_OK; done += length) {
        uint64_t at = address + done * sizeof *words;

        length = count - done < 1024 ? count - done : 1024;
        memset(words, 0, sizeof words);
        if (add)
            status = read_words(space, at, words, length);
        for (uint64_t i = 0; i < length; i++)
            words[i] += value;
        if (status == FACET_OK)
            status = sim_space_write(space, at, words, length * sizeof *words, NULL);
    }
    return status;
}

/* Applies the effect of a kernel on memory. The whole range is checked first. */
static enum facet_status apply_kernel_effect(struct sim_launch *launch)
{
    struct sim_space *space = &launch->stream->object.context->space;
    uint64_t words[3];

    if (launch->kernel->effect == SIM_EFFECT_NONE)
        return FACET_OK;
    memcpy(words, launch->arguments, sizeof words);
    uint64_t count = launch->kernel->effect == SIM_EFFECT_COPY ? words[2] : words[1];
    if (count > SIM_BYTES_MAX / sizeof count || !sim_space_is_memory(space, words[0], count * sizeof count))
        return FACET_OUT_OF_RANGE;
    if (launch->kernel->effect == SIM_EFFECT_COPY)
        return sim_space_copy(space, words[0], words[1], count * sizeof count, NULL);
    return change_words(space, words[0], count, words[2], launch->kernel->effect == SIM_EFFECT_ADD);
}

/* Removes a launch from its stream, and frees it. */
static void finish_launch(struct sim_launch *launch, enum facet_status status)
{
    struct sim_stream *stream = launch->stream;

    stream->completed++;
    stream->busy_ns += launch->elapsed_ns;
    if (status != FACET_OK && !stream->failed)
        stream->failed = (uint32_t)-status;
    launch->module->pending--;
    TAILQ_REMOVE(&stream->queue, launch, queued);
    free(launch);
}

/* Puts the head of a stream on the device. The caller computes the pace. */
static bool begin_launch(struct facet_provider_instance *instance, struct sim_stream *stream)
{
    struct sim_context *context = stream->object.context;
    struct sim_launch *launch = TAILQ_FIRST(&stream->queue);
    const struct sim_model *model = sim_device_model(instance, context->device);
    const struct sim_share *share = &context->share;

    if (!launch || launch->begun || context->saving || context->lost)
        return false;
    launch->begun = true;
    launch->part = sim_model_device_part(model, share);
    launch->pool =
        share->exclusive && share->first_unit < model->compute_units ? share->first_unit : model->compute_units;
    TAILQ_INSERT_TAIL(&instance->engine->loads[context->device].running, launch, running);
    return true;
}

/* Completes the launches without remaining work, and begins the next ones. */
static void complete_due_launches(struct facet_provider_instance *instance, struct sim_load *load)
{
    struct sim_launch *launch, *after;

    for (launch = TAILQ_FIRST(&load->running); launch; launch = after) {
        struct sim_stream *stream = launch->stream;

        after = TAILQ_NEXT(launch, running);
        if (launch->remaining > 0)
            continue;
        TAILQ_REMOVE(&load->running, launch, running);
        finish_launch(launch, apply_kernel_effect(launch));
        begin_launch(instance, stream);
    }
}

void sim_load_advance(struct facet_provider_instance *instance, struct sim_load *load, uint64_t now_ns)
{
    const struct sim_model *model = sim_device_model(instance, load->device);
    uint32_t slowdown = sim_fault_slowdown_milli(instance, load->device);

    /* The core advances the engine to the time of each fault before the fault takes effect. So a slowdown that is new
     * here began at load->at_ns. */
    if (slowdown != load->slowdown_milli) {
        load->slowdown_milli = slowdown;
        set_pace(instance, load);
    }
    while (load->at_ns < now_ns) {
        uint64_t next = sim_load_next(instance, load);

        advance_launches(model, load, (next < now_ns ? next : now_ns) - load->at_ns);
        if (next > now_ns)
            break;
        complete_due_launches(instance, load);
        set_pace(instance, load);
    }
}

void sim_stream_begin_next(struct facet_provider_instance *instance, struct sim_stream *stream)
{
    if (begin_launch(instance, stream))
        set_pace(instance, &instance->engine->loads[stream->object.context->device]);
}

void sim_stream_stop(struct facet_provider_instance *instance, struct sim_stream *stream)
{
    struct sim_load *load = &instance->engine->loads[stream->object.context->device];
    struct sim_launch *launch = TAILQ_FIRST(&stream->queue);

    if (!launch || !launch->begun)
        return;
    launch->begun = false;
    TAILQ_REMOVE(&load->running, launch, running);
    set_pace(instance, load);
}

void sim_stream_clear(struct facet_provider_instance *instance, struct sim_stream *stream, enum facet_status status)
{
    struct sim_launch *launch;

    sim_stream_stop(instance, stream);
    while ((launch = TAILQ_FIRST(&stream->queue)))
        finish_launch(launch, status);
}
