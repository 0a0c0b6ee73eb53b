/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs over many threads that launch, cancel, pause, change shares and destroy at random, and over allocations
 * that fail at any moment. Run under the thread and the address sanitizer. Never: asserts how long anything takes.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "../../effort.h"
#include "cpu_executor_world.h"

#define CLIENTS  4u
#define LAUNCHES effort(300, 100) /* of each client */
#define STREAMS  3u

/* ---- allocations that fail when a test says so ---- */

static atomic_int allocations_left = -1; /* negative: no allocation fails */

static bool allocation_fails(void)
{
    return atomic_load(&allocations_left) >= 0 && atomic_fetch_sub(&allocations_left, 1) <= 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return allocation_fails() || size > (1u << 30) ? NULL : __real_aligned_alloc(alignment, size);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    return allocation_fails() ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* ---- random clients ---- */

struct client {
    struct cpu_executor *executor;
    uint64_t seed;
    uint64_t accepted;
    atomic_uint completion_count, run_count;
};

static uint32_t draw_below(struct client *client, uint32_t below)
{
    client->seed ^= client->seed << 13;
    client->seed ^= client->seed >> 7;
    client->seed ^= client->seed << 17;
    return (uint32_t)(client->seed >> 32) % below;
}

static void note_done(void *owner)
{
    struct client *client = owner;

    atomic_fetch_add(&client->completion_count, 1);
}

static enum facet_status run_transfer(void *owner)
{
    struct client *client = owner;

    atomic_fetch_add(&client->run_count, 1);
    return FACET_OK;
}

static void launch_any(struct client *client, struct cpu_stream *stream)
{
    const struct facet_launch request = request_of(1 + draw_below(client, 400), 1 + draw_below(client, 3), 1);
    const struct work work = {.run_total = &client->run_count};
    enum facet_status status;

    if (draw_below(client, 4) == 0)
        status = cpu_stream_call(stream, run_transfer, note_done, client, NULL);
    else
        status = cpu_stream_launch(stream, &work_kernel, &request, &work, NULL, NULL, note_done, client, NULL);
    client->accepted += status == FACET_OK;
}

static void disturb_streams(struct client *client, struct cpu_tenant *tenant, struct cpu_stream **streams)
{
    struct cpu_stream **stream = &streams[draw_below(client, STREAMS)];
    struct facet_stream_state state;

    switch (draw_below(client, 16)) {
    case 0:
        cpu_stream_cancel(*stream);
        break;
    case 1:
        cpu_stream_destroy(*stream);
        cpu_stream_create(tenant, stream, NULL);
        break;
    case 2:
        cpu_tenant_pause(tenant, true, FOREVER);
        cpu_tenant_pause(tenant, false, FOREVER);
        break;
    case 3:
        cpu_tenant_set_share(tenant, draw_below(client, 500), 200 + draw_below(client, 801), draw_below(client, 3));
        break;
    case 4:
        cpu_stream_set_priority(*stream, draw_below(client, 3));
        break;
    case 5:
        cpu_tenant_set_units(tenant, 1 + draw_below(client, 4));
        break;
    case 6:
        cpu_stream_wait(*stream, draw_below(client, 1000) * US);
        break;
    case 7:
        cpu_stream_state(*stream, &state);
        break;
    case 8:
        cpu_stream_state(*stream, &state);
        cpu_stream_cancel_one(*stream, state.completed + draw_below(client, 4));
        break;
    case 9:
        cpu_stream_await(*stream, streams[draw_below(client, STREAMS)], NULL);
        break;
    case 10:
        cpu_tenant_set_bounds(tenant, draw_below(client, 4), draw_below(client, 3));
        break;
    case 11:
        cpu_executor_set_policy(client->executor, draw_below(client, 4), draw_below(client, 4) > 0,
                                draw_below(client, 3) * 50 * US);
        break;
    default:
        break;
    }
}

static void *client_main(void *argument)
{
    struct client *client = argument;
    struct cpu_stream *streams[STREAMS];
    struct cpu_tenant *tenant = NULL;
    uint32_t launched = 0;

    while (launched < LAUNCHES) {
        if (cpu_tenant_create(client->executor, &tenant, NULL) != FACET_OK)
            return NULL;
        for (size_t i = 0; i < STREAMS; i++)
            cpu_stream_create(tenant, &streams[i], NULL);
        for (uint32_t i = draw_below(client, 100); launched < LAUNCHES && i < 100; i++, launched++) {
            launch_any(client, streams[draw_below(client, STREAMS)]);
            disturb_streams(client, tenant, streams);
        }
        if (draw_below(client, 2))
            cpu_tenant_wait(tenant, 20 * MS);
        cpu_tenant_destroy(tenant);
    }
    return argument;
}

static void no_launch_is_lost_between_random_clients(void **state)
{
    static struct client clients[CLIENTS];
    struct cpu_executor *executor = executor_of(4, NULL);
    pthread_t threads[CLIENTS];
    uint64_t unit_ns, busy_ns;
    uint32_t seed = effort_seed(1);
    void *result;

    print_message("# seed %u\n", seed);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.executor = executor, .seed = 0x9e3779b97f4a7c15u * (i + seed)};
        assert_int_equal(pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, &clients[i]);
        assert_int_equal(clients[i].accepted, LAUNCHES);
        assert_int_equal(clients[i].completion_count, LAUNCHES);
        assert_true(clients[i].run_count > 0);
    }
    cpu_executor_busy(executor, &unit_ns, &busy_ns);
    assert_true(busy_ns <= unit_ns && unit_ns <= 4 * busy_ns);
    cpu_executor_destroy(executor);
}

/* After the random calls each unit still works: as many work-groups as there are units run at once. */
static void no_unit_stops_working(void **state)
{
    struct cpu_executor *executor = executor_of(4, NULL);

    for (int round = 0; round < (int)effort(50, 10); round++) {
        struct cpu_tenant *tenant = tenant_of(executor);

        for (int i = 0; i < 4; i++)
            launch(stream_of(tenant), (struct work){0}, 10000);
        cpu_tenant_destroy(tenant);
    }
    struct cpu_tenant *tenant = tenant_of(executor);

    launch(stream_of(tenant), (struct work){.waits_for_go = 1}, 4);
    for (int i = 0; i < 4; i++)
        sem_wait(&world.began);
    for (int i = 0; i < 4; i++)
        sem_post(&world.may_end);
    assert_int_equal(cpu_tenant_wait(tenant, FOREVER), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* Launches and waits again and again: after a lost wake-up the wait would never end. */
static void no_wake_up_is_lost(void **state)
{
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    for (unsigned i = 0; i < 5000; i++) {
        launch(stream, (struct work){0}, 1 + i % 3);
        assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
        assert_int_equal(world.done, i + 1);
    }
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* A cap of 1 % makes all units sleep repeatedly until the tenant may run again. */
static void a_capped_tenant_runs_again_and_again(void **state)
{
    atomic_uint run_count = 0;
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);

    cpu_tenant_set_share(tenant, 0, 10, FACET_PRIORITY_NORMAL);
    launch(stream, (struct work){.run_total = &run_count}, 20000);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_int_equal(run_count, 20000);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* ---- no memory ---- */

static void a_launch_without_scratch_memory_fails_alone(void **state)
{
    const struct facet_host_kernel large = {.name = "large", .run = run_work, .scratch_item_bytes = UINT32_MAX};
    struct cpu_executor *executor = executor_of(2, NULL);
    struct cpu_tenant *tenant = tenant_of(executor);
    struct cpu_stream *stream = stream_of(tenant);
    const struct facet_launch request = request_of(10, 1, 1);
    const struct work work = {.name = 'l'};
    struct facet_launch_record record;
    struct facet_stream_state now;

    assert_int_equal(cpu_stream_launch(stream, &large, &request, &work, NULL, NULL, count_done, NULL, NULL), FACET_OK);
    launch(stream, (struct work){.name = '1'}, 1);
    assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    assert_string_equal(world.log, "1");
    assert_int_equal(world.done, 2);
    cpu_stream_state(stream, &now);
    assert_int_equal(now.failed, (uint32_t)-FACET_NO_MEMORY);
    assert_int_equal(cpu_stream_records(stream, 0, &record, 1), 2);
    assert_int_equal(record.status, FACET_NO_MEMORY);
    assert_int_equal(record.groups, 0);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
}

/* Makes an executor and runs a job, in which `allocations_left` may let a call fail. Returns whether all succeeded. */
static bool run_one_job(struct facet_error *error)
{
    const struct cpu_executor_options options = {.units = 1, .processors = 2};
    const struct facet_launch request = request_of(1, 1, 1);
    const struct work work = {.name = 'r'};
    struct cpu_executor *executor = NULL;
    struct cpu_tenant *tenant = NULL;
    struct cpu_stream *stream = NULL;

    enum facet_status status = cpu_executor_create(&options, &executor, error);
    if (status == FACET_OK)
        status = cpu_tenant_create(executor, &tenant, error);
    if (status == FACET_OK)
        status = cpu_stream_create(tenant, &stream, error);
    if (status == FACET_OK)
        status = cpu_stream_launch(stream, &work_kernel, &request, &work, NULL, NULL, count_done, NULL, error);
    if (status == FACET_OK)
        assert_int_equal(cpu_stream_wait(stream, FOREVER), FACET_OK);
    cpu_tenant_destroy(tenant);
    cpu_executor_destroy(executor);
    assert_true(status == FACET_OK || (status == FACET_NO_MEMORY && error->status == FACET_NO_MEMORY));
    return status == FACET_OK;
}

static void a_refused_call_leaves_nothing_behind(void **state)
{
    int refused = 0;

    for (; refused < 20; refused++) {
        struct facet_error error = {0};

        atomic_store(&allocations_left, refused);
        bool all = run_one_job(&error);

        atomic_store(&allocations_left, -1);
        if (all)
            break;
        assert_int_not_equal(error.message[0], '\0');
    }
    assert_int_equal(refused, 5); /* executor, tenant, stream, job, thread; then local and scratch memory */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_launch_is_lost_between_random_clients, world_reset),
        cmocka_unit_test_setup(no_unit_stops_working, world_reset),
        cmocka_unit_test_setup(no_wake_up_is_lost, world_reset),
        cmocka_unit_test_setup(a_capped_tenant_runs_again_and_again, world_reset),
        cmocka_unit_test_setup(a_launch_without_scratch_memory_fails_alone, world_reset),
        cmocka_unit_test_setup(a_refused_call_leaves_nothing_behind, world_reset),
    };
    return cmocka_run_group_tests_name("cpu executor races", tests, NULL, NULL);
}
