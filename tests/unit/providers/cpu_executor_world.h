/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor with tenants and kernels made of C functions, for test_cpu_executor*.c.
 *
 * Owns: the world that the tests share, a clock that kernels move, a log of launches. Never: asserts the subject
 * of a test.
 */
#ifndef CPU_EXECUTOR_WORLD_H
#define CPU_EXECUTOR_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

#define US      UINT64_C(1000)
#define MS      UINT64_C(1000000)
#define S       UINT64_C(1000000000)
#define FOREVER UINT64_MAX

/* The arguments of kernels. */
struct work {
    char name;               /* in the log */
    uint8_t waits_for_go;    /* its work-groups post `began`, and wait for `may_end` */
    uint64_t advance_ns;     /* how far each work-group moves the clock */
    atomic_uint *run_counts; /* counters of each work-group's runs, or NULL */
    atomic_uint *run_total;  /* a counter of all runs, or NULL */
};

static struct {
    atomic_uint_least64_t now_ns; /* the clock that kernels move */
    sem_t began, may_end;
    char log[256];
    atomic_uint logged;              /* characters that were to be written to `log` */
    atomic_uint inside, inside_most; /* work-groups that run now, and the most that ran at a time */
    atomic_uint done;                /* calls of count_done() */
} world;

static inline uint64_t world_now_ns(void *owner)
{
    (void)owner;
    return atomic_load(&world.now_ns);
}

static inline void world_log(char name)
{
    unsigned place = atomic_fetch_add(&world.logged, 1);

    if (name && place < sizeof world.log - 1)
        world.log[place] = name;
}

static inline int world_reset(void **state)
{
    (void)state;
    memset(world.log, 0, sizeof world.log);
    atomic_store(&world.logged, 0);
    atomic_store(&world.inside, 0);
    atomic_store(&world.inside_most, 0);
    atomic_store(&world.done, 0);
    atomic_store(&world.now_ns, S);
    sem_init(&world.began, 0, 0);
    sem_init(&world.may_end, 0, 0);
    return 0;
}

static inline void world_enter(void)
{
    unsigned inside = atomic_fetch_add(&world.inside, 1) + 1, most = atomic_load(&world.inside_most);

    while (inside > most && !atomic_compare_exchange_weak(&world.inside_most, &most, inside))
        ;
}

static inline void run_work(const void *arguments, const struct facet_host_group *group)
{
    const struct work *work = arguments;

    world_enter();
    if (work->name)
        world_log(work->name);
    if (work->waits_for_go) {
        sem_post(&world.began);
        sem_wait(&world.may_end);
    }
    atomic_fetch_add(&world.now_ns, work->advance_ns);
    if (work->run_counts)
        atomic_fetch_add(
            &work->run_counts[((uint64_t)group->group_id[2] * group->grid[1] + group->group_id[1]) * group->grid[0] +
                              group->group_id[0]],
            1);
    if (work->run_total)
        atomic_fetch_add(work->run_total, 1);
    atomic_fetch_sub(&world.inside, 1);
}

static const struct facet_host_kernel work_kernel = {
    .name = "work", .run = run_work, .argument_bytes = sizeof(struct work)};

static inline void count_done(void *owner)
{
    (void)owner;
    atomic_fetch_add(&world.done, 1);
}

static inline struct facet_launch request_of(uint32_t x, uint32_t y, uint32_t z)
{
    return (struct facet_launch){.size = sizeof(struct facet_launch),
                                 .argument_bytes = sizeof(struct work),
                                 .grid = {x, y, z},
                                 .group = {1, 1, 1},
                                 .dimensions = 1,
                                 .kernel = "work"};
}

static inline void launch(struct cpu_stream *stream, struct work work, uint32_t groups)
{
    const struct facet_launch request = request_of(groups, 1, 1);

    assert_int_equal(cpu_stream_launch(stream, &work_kernel, &request, &work, NULL, NULL, count_done, NULL, NULL),
                     FACET_OK);
}

static inline struct cpu_executor *executor_of(uint32_t units, uint64_t (*now_ns)(void *owner))
{
    const struct cpu_executor_options options = {.units = units, .processors = units + 1, .now_ns = now_ns};
    struct cpu_executor *executor = NULL;

    assert_int_equal(cpu_executor_create(&options, &executor, NULL), FACET_OK);
    return executor;
}

static inline struct cpu_tenant *tenant_of(struct cpu_executor *executor)
{
    struct cpu_tenant *tenant = NULL;

    assert_int_equal(cpu_tenant_create(executor, &tenant, NULL), FACET_OK);
    return tenant;
}

static inline struct cpu_stream *stream_of(struct cpu_tenant *tenant)
{
    struct cpu_stream *stream = NULL;

    assert_int_equal(cpu_stream_create(tenant, &stream, NULL), FACET_OK);
    return stream;
}

#endif
