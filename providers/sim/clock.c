/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the model's time, which follows the wall clock at a speed, or steps to the awaited moment.
 * Never: waits with the lock held, or passes a fault or a completion without applying it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core.h"
#include "provider_kit.h"

#define SPEED_MAX 1000000 /* a thousand times the wall clock */

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Returns value * factor / divisor, at most UINT64_MAX; the product does not overflow. */
static uint64_t scale(uint64_t value, uint64_t factor, uint64_t divisor)
{
    facet_kit_u128 scaled = (facet_kit_u128)value * factor / divisor;

    return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}

static enum facet_status read_setting(struct sim_clock *clock, const char *setting, struct facet_error *error)
{
    char *end;
    unsigned long speed;

    clock->speed_milli = 1000;
    if (!setting || !*setting)
        return FACET_OK;
    clock->stepped = strcmp(setting, "stepped") == 0;
    if (clock->stepped)
        return FACET_OK;
    errno = 0;
    speed = strtoul(setting, &end, 10);
    if (setting[0] < '0' || setting[0] > '9' || *end || errno || speed < 1 || speed > SPEED_MAX)
        return facet_kit_fail(error, FACET_INVALID_ARGUMENT,
                              "FACET_SIM_CLOCK \"%.40s\": expected \"stepped\" or a speed of 1 to %d thousandths",
                              setting, SPEED_MAX);
    clock->speed_milli = (uint32_t)speed;
    return FACET_OK;
}

enum facet_status sim_clock_open(struct sim_clock *clock, const char *setting, struct facet_error *error)
{
    pthread_condattr_t attributes;
    enum facet_status status = read_setting(clock, setting, error);

    if (status != FACET_OK)
        return status;
    clock->started_ns = monotonic_ns();
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&clock->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return FACET_OK;
}

void sim_clock_close(struct sim_clock *clock)
{
    pthread_cond_destroy(&clock->changed);
}

uint64_t sim_clock_now(const struct facet_provider_instance *instance)
{
    const struct sim_clock *clock = &instance->clock;

    return clock->stepped ? clock->now_ns : scale(monotonic_ns() - clock->started_ns, clock->speed_milli, 1000);
}

void sim_clock_changed(struct facet_provider_instance *instance)
{
    pthread_cond_broadcast(&instance->clock.changed);
}

/* Sleeps until CLOCK_MONOTONIC is `deadline_ns`, or another thread calls sim_clock_changed(). */
static void sleep_until(struct facet_provider_instance *instance, uint64_t deadline_ns)
{
    const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / UINT64_C(1000000000)),
                                      .tv_nsec = (long)(deadline_ns % UINT64_C(1000000000))};

    pthread_cond_timedwait(&instance->clock.changed, &instance->lock, &deadline);
}

/* The earliest of: the awaited moment, a fault, a change in the engine. */
static uint64_t next_change(const struct facet_provider_instance *instance, uint64_t until_ns)
{
    uint64_t fault_ns = sim_faults_next(instance), engine_ns = sim_engine_next(instance);

    if (fault_ns < until_ns)
        until_ns = fault_ns;
    return engine_ns < until_ns ? engine_ns : until_ns;
}

/* The moment of CLOCK_MONOTONIC at which the model's time is `model_ns`, but at most `deadline_ns`. */
static uint64_t real_time_of(const struct sim_clock *clock, uint64_t model_ns, uint64_t deadline_ns)
{
    uint64_t since_start = scale(model_ns, 1000, clock->speed_milli);

    if (since_start >= deadline_ns - clock->started_ns)
        return deadline_ns;
    return clock->started_ns + since_start + 1; /* rounded up, so as not to wake early */
}

bool sim_clock_wait(struct facet_provider_instance *instance, uint64_t until_ns, uint64_t timeout_ns)
{
    struct sim_clock *clock = &instance->clock;
    uint64_t begun_ns = monotonic_ns(), change_ns = next_change(instance, until_ns);
    uint64_t deadline_ns = timeout_ns > INT64_MAX - begun_ns ? INT64_MAX : begun_ns + timeout_ns;

    if (sim_clock_now(instance) < change_ns) {
        if (!clock->stepped)
            sleep_until(instance, real_time_of(clock, change_ns, deadline_ns));
        else if (change_ns == UINT64_MAX) /* only a call of another thread can change anything */
            sleep_until(instance, deadline_ns);
        else
            clock->now_ns = change_ns;
    }
    sim_faults_apply(instance);
    sim_engine_advance(instance, sim_clock_now(instance));
    return sim_clock_now(instance) >= until_ns || monotonic_ns() < deadline_ns;
}
