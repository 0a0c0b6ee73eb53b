/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A balancer over two vGPUs, for test_balance*.c.
 *
 * Owns: opening and closing that balancer, and short calls that submit a task. Never: asserts the subject of a test.
 */
#ifndef VGPU_BALANCE_WORLD_H
#define VGPU_BALANCE_WORLD_H

#include "world.h"

#include <facet/balance.h>

enum { MEMBERS = 2, TASKS = 24 };

static const uint32_t ids[MEMBERS] = {1, 2};
static struct facet_balancer *balancer;
static uint32_t argument_flags; /* how a submitted task says that it uses its buffer; 0: as the image does */

/* ---- short calls ---- */

/* Two devices where the provider has a process of its own, otherwise two vGPUs of one. */
static inline uint32_t device_count(void)
{
    const char *place = getenv("FACET_TEST_PLACE");

    return place && atoi(place) == FACET_SESSION_IN_PROCESS ? 1 : 2;
}

static inline void members_make(uint32_t streams, uint32_t units)
{
    static const char *const twice[] = {"cpu:0", "cpu:0", NULL};
    struct facet_driver_config config = world_config();

    if (device_count() == 2)
        config.devices = twice;
    config.streams = 32;
    world_open(&config);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct facet_vgpu_config member = vgpu_config(ids[i]);

        member.device = FACET_ON_DEVICE(i % device_count());
        member.streams = streams;
        member.units = units;
        OK(facet_vgpu_create(world.driver, &member, NULL, ERROR));
    }
}

static inline struct facet_balancer_config balancer_config(void)
{
    return (struct facet_balancer_config){.size = sizeof(struct facet_balancer_config),
                                          .count = MEMBERS,
                                          .ids = ids,
                                          .actions = FACET_BALANCER_NO_ACTION,
                                          .interval_ns = 5 * MS};
}

static inline void balancer_make(const struct facet_balancer_config *config)
{
    OK(facet_balancer_open(world.driver, config, &balancer, ERROR));
}

static inline void balanced_world_open(uint32_t strategy)
{
    struct facet_balancer_config config = balancer_config();

    members_make(4, 0);
    config.strategy = strategy;
    balancer_make(&config);
}

static inline void balanced_world_close(void)
{
    facet_balancer_close(balancer);
    balancer = NULL;
    world_close();
}

static inline uint64_t buffer_make(uint64_t bytes)
{
    uint64_t buffer = 0;

    OK(facet_balancer_allocate(balancer, bytes, &buffer, ERROR));
    return buffer;
}

static inline enum facet_status try_submit(const char *kernel, uint64_t buffer, uint64_t value, uint64_t groups,
                                           uint32_t priority, uint64_t *ret_task)
{
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {groups}, .group = {1}};
    const struct facet_balancer_argument arguments[] = {{.buffer = buffer, .access = argument_flags},
                                                        {.value = &value, .bytes = sizeof value}};
    const struct facet_balancer_work work = {.size = sizeof work,
                                             .priority = FACET_VGPU_PRIORITY(priority),
                                             .image = world.image,
                                             .kernel = kernel,
                                             .range = &range,
                                             .arguments = arguments,
                                             .count = strcmp(kernel, "gate") == 0 ? 1 : 2};

    return facet_balancer_submit(balancer, &work, ret_task, ERROR);
}

static inline uint64_t submit(const char *kernel, uint64_t buffer, uint64_t value, uint64_t groups)
{
    uint64_t task = 0;

    OK(try_submit(kernel, buffer, value, groups, FACET_PRIORITY_NORMAL, &task));
    return task;
}

static inline struct facet_balancer_task task_of(uint64_t task)
{
    struct facet_balancer_task record = {.size = sizeof record};

    OK(facet_balancer_get_task(balancer, task, &record, ERROR));
    return record;
}

static inline struct facet_balancer_member member_of(uint32_t index)
{
    struct facet_balancer_member member = {.size = sizeof member};

    OK(facet_balancer_get_member(balancer, index, &member, ERROR));
    return member;
}

static inline void finish(uint64_t task)
{
    OK(facet_balancer_wait(balancer, task, WAIT_NS, ERROR));
}

static inline uint64_t buffer_word(uint64_t buffer, uint64_t index)
{
    uint64_t word = 0;

    OK(facet_balancer_read(balancer, buffer, index * sizeof word, &word, sizeof word, ERROR));
    return word;
}

/* Rounds of `burn` per work-group: enough that no task ends while a test still submits. */
#define ROUNDS UINT64_C(1000000)

/* Makes the balancer learn how long a work-group of `burn` takes. */
static inline void teach_burn_time(void)
{
    uint64_t buffer = buffer_make(8);

    finish(submit("burn", buffer, ROUNDS, 8));
    OK(facet_balancer_free(balancer, buffer, ERROR));
}

/* Waits until a task runs; false: it ended before this thread saw it run. */
static inline bool begins_to_run(uint64_t task)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        uint32_t status = task_of(task).status;

        if (status != FACET_EXECUTION_QUEUED)
            return status == FACET_EXECUTION_RUNNING;
        nap(MS);
    }
    fail_msg("task %" PRIu64 " does not run", task);
    return false;
}

/* For a task that does not end by itself while a test goes on. */
static inline void await_running(uint64_t task)
{
    if (!begins_to_run(task))
        fail_msg("task %" PRIu64 " has ended with status %u", task, task_of(task).status);
}

#endif
