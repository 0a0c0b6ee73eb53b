/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of facet/balance.h: tasks, data, order, strategies, cancelling and closing. Never: asserts how long
 * anything takes. */
#include "balance_world.h"

/* ---- tasks and data ---- */

static void a_task_runs_and_its_result_is_read(void **state)
{
    uint64_t words[64], buffer, task;
    struct facet_balancer_task record;

    balanced_world_open(FACET_BALANCER_LEAST_LOADED);
    buffer = buffer_make(sizeof words);
    for (uint64_t i = 0; i < 64; i++)
        words[i] = i;
    OK(facet_balancer_write(balancer, buffer, 0, words, sizeof words, ERROR));
    task = submit("add", buffer, 1000, 64);
    finish(task);
    memset(words, 0, sizeof words);
    OK(facet_balancer_read(balancer, buffer, 0, words, sizeof words, ERROR));
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(words[i], 1000 + i);
    record = task_of(task);
    assert_int_equal(record.status, FACET_EXECUTION_COMPLETED);
    assert_string_equal(record.kernel, "add");
    assert_int_equal(record.groups, 64);
    assert_int_equal(record.id, ids[record.member]);
    assert_int_equal(record.brought_bytes, sizeof words);
    assert_int_not_equal(record.execution, 0);
    assert_true(record.queued_ns <= record.start_ns && record.start_ns <= record.end_ns);
    assert_int_equal(vgpu_execution(record.id, record.execution).groups, 64);
    balanced_world_close();
}

/* A buffer that was never written is zero on the member that first uses it. Its parts can be written and read alone. */
static void bytes_begin_as_zero_and_are_written_in_parts(void **state)
{
    uint64_t buffer, word = 7;

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    buffer = buffer_make(64 * 8);
    assert_int_equal(buffer_word(buffer, 5), 0);
    OK(facet_balancer_write(balancer, buffer, 3 * 8, &word, 8, ERROR));
    finish(submit("add", buffer, 1, 64));
    assert_int_equal(buffer_word(buffer, 2), 1);
    assert_int_equal(buffer_word(buffer, 3), 8);
    word = 100;
    OK(facet_balancer_write(balancer, buffer, 0, &word, 8, ERROR));
    finish(submit("add", buffer, 1, 64));
    assert_int_equal(buffer_word(buffer, 0), 101);
    assert_int_equal(buffer_word(buffer, 3), 9);
    OK(facet_balancer_free(balancer, buffer, ERROR));
    OK(facet_balancer_free(balancer, 0, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_free(balancer, buffer, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_read(balancer, buffer, 0, &word, 8, ERROR));
    balanced_world_close();
}

/* Each second task uses the buffer `chain`, and the others use other buffers; the members take turns. */
static void buffers_put_tasks_in_order(void **state)
{
    uint64_t chain, others[3];

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    chain = buffer_make(64 * 8);
    for (int i = 0; i < 3; i++)
        others[i] = buffer_make(64 * 8);
    for (uint64_t i = 0; i < TASKS; i++) {
        submit("add", chain, i, 64);
        submit("add", others[i % 3], 1, 64);
        if (i == TASKS / 2)
            assert_int_equal(buffer_word(chain, 1), i * (i + 1) / 2); /* after all tasks that were submitted so far */
    }
    finish(FACET_BALANCER_ALL);
    for (uint64_t i = 0; i < 64; i++)
        assert_int_equal(buffer_word(chain, i), TASKS * (TASKS - 1) / 2);
    for (int i = 0; i < 3; i++)
        assert_int_equal(buffer_word(others[i], 63), TASKS / 3);
    assert_true(member_of(0).over_total > 0 && member_of(1).over_total > 0);
    assert_int_equal(member_of(0).over_total + member_of(1).over_total, 2 * TASKS);
    balanced_world_close();
}

static void bad_requests_are_refused(void **state)
{
    uint64_t buffer, task = 77, value = 1;
    struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {4}};
    struct facet_balancer_argument arguments[] = {{.buffer = 0}, {.value = &value, .bytes = 8}};
    struct facet_balancer_work work = {.size = sizeof work,
                                       .image = world.image,
                                       .kernel = "add",
                                       .range = &range,
                                       .arguments = arguments,
                                       .count = 2};
    struct facet_balancer_member member = {.size = sizeof member};
    struct facet_balancer_task record = {.size = sizeof record};

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    buffer = buffer_make(64);
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_allocate(balancer, 0, &value, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_allocate(balancer, UINT64_MAX, &value, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_read(balancer, buffer, 60, &value, 8, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_write(balancer, buffer, UINT64_MAX, &value, 8, ERROR));
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_write(balancer, buffer, 0, NULL, 8, ERROR));
    OK(facet_balancer_write(balancer, buffer, 64, NULL, 0, ERROR));
    REFUSED(FACET_NOT_FOUND, try_submit("add", buffer + 1, 1, 1, FACET_PRIORITY_NORMAL, &task));
    REFUSED(FACET_NOT_FOUND, try_submit("nothing", buffer, 1, 1, FACET_PRIORITY_NORMAL, &task));
    REFUSED(FACET_INVALID_ARGUMENT, try_submit("add", buffer, 1, 1, 9, &task));
    arguments[0].buffer = buffer;
    work.count = 1;
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_submit(balancer, &work, &task, ERROR));
    work.count = 2;
    arguments[1].bytes = 4;
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_submit(balancer, &work, &task, ERROR));
    arguments[1].bytes = 8;
    arguments[0].offset = 64;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_submit(balancer, &work, &task, ERROR));
    arguments[0].offset = 0;
    range.dimensions = 4;
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_submit(balancer, &work, &task, ERROR));
    assert_int_equal(task, 77);
    REFUSED(FACET_NOT_FOUND, facet_balancer_wait(balancer, 1, 0, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_cancel(balancer, 1, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_get_task(balancer, 1, &record, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_get_member(balancer, MEMBERS, &member, ERROR));
    OK(facet_balancer_free(balancer, buffer, ERROR)); /* no refused task uses it */
    balanced_world_close();
}

static void bad_settings_are_refused(void **state)
{
    static const uint32_t twice[] = {1, 1}, unknown[] = {1, 9}, nothing[] = {0, 0};
    struct facet_balancer_config config = balancer_config();
    const struct facet_balancer_config good = config;

    members_make(2, 0);
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_open(world.driver, NULL, &balancer, ERROR));
    config.count = 0;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.ids = twice;
    REFUSED(FACET_INVALID_ARGUMENT, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config.ids = unknown;
    REFUSED(FACET_NOT_FOUND, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.weights = nothing;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.strategy = 4;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.interval_ns = 5;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.depth = 9;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    config = good;
    config.actions = FACET_BALANCER_NO_ACTION | FACET_BALANCER_MIGRATE;
    REFUSED(FACET_OUT_OF_RANGE, facet_balancer_open(world.driver, &config, &balancer, ERROR));
    assert_null(balancer);
    facet_balancer_close(NULL);
    assert_string_equal(facet_balancer_strategy_name(FACET_BALANCER_LOCALITY), "locality");
    assert_null(facet_balancer_strategy_name(4));
    assert_string_equal(facet_balancer_action_name(FACET_BALANCER_PREEMPT), "preempt");
    assert_null(facet_balancer_action_name(3));
    world_close();
}

/* Two tasks read one buffer at once, one on each member. A task that writes it waits for both. */
static void readers_share_a_buffer_and_writers_wait(void **state)
{
    uint64_t buffer, word = 1, readers[MEMBERS], writer;

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    buffer = buffer_make(64);
    OK(facet_balancer_write(balancer, buffer, 0, &word, sizeof word, ERROR));
    argument_flags = FACET_ARGUMENT_READS;
    for (int i = 0; i < MEMBERS; i++)
        readers[i] = submit("burn", buffer, 1000000, 300);
    argument_flags = 0;
    writer = submit("add", buffer, 1, 8);
    assert_int_equal(buffer_word(buffer, 0) != 0, 1);
    for (int i = 0; i < MEMBERS; i++) {
        assert_int_equal(task_of(readers[i]).member, i);
        assert_int_equal(task_of(readers[i]).brought_bytes, 64);
        assert_true(task_of(writer).start_ns >= task_of(readers[i]).end_ns);
    }
    assert_true(task_of(readers[0]).start_ns < task_of(readers[1]).end_ns);
    assert_true(task_of(readers[1]).start_ns < task_of(readers[0]).end_ns);
    assert_int_equal(task_of(writer).brought_bytes, 0); /* its member's copy was still current */
    argument_flags = FACET_ARGUMENT_WRITES;
    finish(writer = submit("add", buffer, 1, 8));
    argument_flags = 0;
    assert_int_equal(task_of(writer).member, 1);
    assert_int_equal(task_of(writer).brought_bytes, 0); /* its member's copy was stale, but is written completely */
    balanced_world_close();
}

/* ---- strategies ---- */

/* Weights of members, lengths of tasks and places of data do not matter. */
static void round_robin_alternates(void **state)
{
    static const uint32_t weights[MEMBERS] = {3, 1};
    struct facet_balancer_config config = balancer_config();
    uint64_t tasks[TASKS], last = 0;

    members_make(4, 0);
    config.strategy = FACET_BALANCER_ROUND_ROBIN;
    config.weights = weights;
    balancer_make(&config);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = i == 0 ? submit("burn", buffer_make(8), ROUNDS, 64) : submit("add", last = buffer_make(64), 1, 8);
    finish(FACET_BALANCER_ALL);
    for (uint32_t i = 0; i < TASKS; i++)
        assert_int_equal(task_of(tasks[i]).member, i % MEMBERS);
    for (uint32_t i = 0; i < TASKS; i++) {
        finish(tasks[i] = submit("add", last, 1, 8));
        assert_int_equal(task_of(tasks[i]).member, i % MEMBERS);
    }
    assert_int_equal(buffer_word(last, 7), TASKS + 1);
    balanced_world_close();
}

static void weighted_keeps_the_proportion(void **state)
{
    static const uint32_t weights[MEMBERS] = {3, 1};
    struct facet_balancer_config config = balancer_config();
    uint64_t tasks[TASKS];
    int first = 0;

    members_make(4, 0);
    config.strategy = FACET_BALANCER_WEIGHTED;
    config.weights = weights;
    balancer_make(&config);
    for (int i = 0; i < TASKS; i++)
        tasks[i] = submit("add", buffer_make(64), 1, 8);
    finish(FACET_BALANCER_ALL);
    for (int i = 0; i < TASKS; i++) {
        first += task_of(tasks[i]).member == 0;
        assert_true(4 * first > 3 * (i + 1) - 4 && 4 * first < 3 * (i + 1) + 4); /* less than one task off */
    }
    assert_int_equal(4 * first, 3 * TASKS);
    balanced_world_close();
}

/* A buffer with copies in host memory and on one member, its home, which read it while the other member was busy. Both
 * members are idle afterwards. */
static uint64_t buffer_at_home(uint32_t *ret_home)
{
    static char bytes[MIB];
    uint64_t busy = submit("burn", buffer_make(8), ROUNDS, 100000), buffer = buffer_make(sizeof bytes), task;

    await_running(busy);
    OK(facet_balancer_write(balancer, buffer, 0, bytes, sizeof bytes, ERROR));
    argument_flags = FACET_ARGUMENT_READS;
    finish(task = submit("burn", buffer, 1, 1));
    argument_flags = 0;
    *ret_home = task_of(task).member;
    assert_int_not_equal(task_of(busy).member, *ret_home);
    OK(facet_balancer_cancel(balancer, busy, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, busy, WAIT_NS, ERROR));
    return buffer;
}

/* Makes the balancer learn the cost of transfers. */
static void teach_transfer_cost(void)
{
    uint64_t words[8] = {0}, buffer = buffer_make(sizeof words);

    OK(facet_balancer_write(balancer, buffer, 0, words, sizeof words, ERROR));
    finish(submit("add", buffer, 1, 8));
}

/* A task runs on the member that has its data while that member has no queue, and on the other member once that is
 * quicker. */
static void locality_follows_the_data_unless_the_queue_is_long(void **state)
{
    uint64_t buffers[MEMBERS], busy, task, words[8] = {0};
    uint32_t home[MEMBERS];

    balanced_world_open(FACET_BALANCER_LOCALITY);
    teach_burn_time();
    teach_transfer_cost();
    buffers[0] = buffer_at_home(&home[0]);
    argument_flags = FACET_ARGUMENT_READS;
    await_running(busy = submit("burn", buffers[0], ROUNDS, 100000));
    assert_int_equal(task_of(busy).member, home[0]);
    finish(task = submit("burn", buffers[0], 1, 1));
    argument_flags = 0;
    assert_int_equal(task_of(task).member, 1 - home[0]);
    assert_int_equal(task_of(task).brought_bytes, MIB);
    buffers[1] = buffer_make(sizeof words);
    OK(facet_balancer_write(balancer, buffers[1], 0, words, sizeof words, ERROR));
    finish(task = submit("add", buffers[1], 1, 8));
    home[1] = task_of(task).member;
    assert_int_equal(home[1], 1 - home[0]);
    OK(facet_balancer_cancel(balancer, busy, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, busy, WAIT_NS, ERROR));
    finish(task = submit("add", buffers[0], 1, 8)); /* makes the copy on the other member stale */
    home[0] = task_of(task).member;
    for (int i = 0; i < TASKS; i++) {
        finish(task = submit("add", buffers[i % 2], 1, 8));
        assert_int_equal(task_of(task).member, home[i % 2]);
        assert_int_equal(task_of(task).brought_bytes, 0);
    }
    balanced_world_close();
}

/* Members are compared by the work that is queued, not by numbers of tasks or places of data; then by free memory. */
static void least_loaded_evens_out_unequal_tasks(void **state)
{
    uint64_t tasks[8], large, buffer, task;
    uint32_t away = 0, home, brought = 0;

    balanced_world_open(FACET_BALANCER_LEAST_LOADED);
    teach_burn_time();
    large = submit("burn", buffer_make(8), ROUNDS, 400);
    for (int i = 0; i < 8; i++)
        tasks[i] = submit("burn", buffer_make(8), ROUNDS, 4);
    finish(FACET_BALANCER_ALL);
    for (int i = 0; i < 8; i++)
        away += task_of(tasks[i]).member != task_of(large).member;
    assert_true(away >= 6); /* round robin would make it four */
    assert_true(task_of(large).expected_ns > task_of(tasks[0]).expected_ns);
    buffer = buffer_at_home(&home);
    for (uint64_t waited = 0; waited < WAIT_NS && !brought; waited += MS) {
        argument_flags = FACET_ARGUMENT_READS;
        finish(task = submit("burn", buffer, 1, 1));
        argument_flags = 0;
        brought = task_of(task).member != home;
        nap(MS); /* the memory of members is read in each interval */
    }
    assert_true(brought);
    assert_int_equal(task_of(task).brought_bytes, MIB);
    balanced_world_close();
}

/* ---- ends ---- */

static void tasks_are_cancelled_wherever_they_are(void **state)
{
    struct facet_balancer_config config = balancer_config();
    uint64_t shared, running, queued, held, later;

    members_make(1, 0);
    config.count = 1;
    balancer_make(&config);
    shared = buffer_make(64);
    running = submit("burn", shared, ROUNDS, 100000);
    queued = submit("add", buffer_make(64), 1, 8);
    held = submit("add", shared, 1, 8);
    later = submit("add", shared, 1, 8);
    REFUSED(FACET_TIMEOUT, facet_balancer_wait(balancer, queued, MS, ERROR));
    REFUSED(FACET_BUSY, facet_balancer_free(balancer, shared, ERROR));
    OK(facet_balancer_cancel(balancer, held, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, held, 0, ERROR));
    assert_int_equal(task_of(later).status, FACET_EXECUTION_QUEUED); /* it did not overtake the first */
    OK(facet_balancer_cancel(balancer, queued, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, queued, 0, ERROR));
    await_running(running);
    OK(facet_balancer_cancel(balancer, running, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, running, WAIT_NS, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_balancer_cancel(balancer, running, ERROR));
    finish(later);
    assert_int_equal(task_of(running).status, FACET_EXECUTION_CANCELLED);
    assert_true(task_of(running).groups < 100000);
    assert_int_equal(task_of(held).execution, 0);
    assert_int_equal(buffer_word(shared, 7), 1);
    OK(facet_balancer_free(balancer, shared, ERROR));
    balanced_world_close();
}

static void closing_ends_everything(void **state)
{
    uint64_t shared;

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    shared = buffer_make(64);
    for (int i = 0; i < TASKS; i++) {
        submit("burn", buffer_make(8), ROUNDS, 10000);
        submit("add", shared, 1, 8);
    }
    facet_balancer_close(balancer);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct facet_vgpu_info info = vgpu_info(ids[i]);

        assert_int_equal(info.queued + info.running, 0);
        assert_int_equal(info.allocations, 0);
    }
    world_close();
}

static void records_are_forgotten_only_after_their_task_ended(void **state)
{
    struct facet_balancer_config config = balancer_config();
    struct facet_balancer_task record = {.size = sizeof record};
    uint64_t first, last = 0;

    members_make(2, 0);
    config.records = 4;
    config.tasks = 200;
    balancer_make(&config);
    first = submit("burn", buffer_make(8), ROUNDS, 100000);
    for (int i = 0; i < 100; i++)
        finish(last = submit("add", buffer_make(8), 1, 1));
    assert_int_not_equal(task_of(first).status, FACET_EXECUTION_COMPLETED);
    OK(facet_balancer_cancel(balancer, first, ERROR));
    REFUSED(FACET_BAD_STATE, facet_balancer_wait(balancer, first, WAIT_NS, ERROR));
    finish(submit("add", buffer_make(8), 1, 1));
    REFUSED(FACET_NOT_FOUND, facet_balancer_get_task(balancer, first, &record, ERROR));
    assert_int_equal(task_of(last).status, FACET_EXECUTION_COMPLETED);
    balanced_world_close();
}

static void too_many_tasks_are_refused(void **state)
{
    struct facet_balancer_config config = balancer_config();
    uint64_t buffer, task = 0;

    members_make(2, 0);
    config.tasks = 3;
    balancer_make(&config);
    buffer = buffer_make(64);
    task = submit("burn", buffer, ROUNDS, 100000);
    submit("add", buffer, 1, 1);
    submit("add", buffer, 1, 1);
    REFUSED(FACET_QUOTA, try_submit("add", buffer, 1, 1, FACET_PRIORITY_NORMAL, &task));
    OK(facet_balancer_cancel(balancer, task, ERROR));
    finish(FACET_BALANCER_ALL);
    submit("add", buffer, 1, 1);
    balanced_world_close();
}

/* A member has room for each of two tasks, but not for both: the second waits until the first has ended. */
static void tasks_that_do_not_fit_together_take_turns(void **state)
{
    struct facet_balancer_config config = balancer_config();
    uint64_t tasks[4];

    members_make(4, 0);
    config.count = 1;
    config.depth = 4;
    balancer_make(&config);
    for (int i = 0; i < 4; i++)
        tasks[i] = submit("burn", buffer_make(10 * MIB), ROUNDS, 100);
    for (int i = 0; i < 4; i++)
        finish(tasks[i]);
    assert_int_equal(task_of(tasks[3]).groups, 100);
    balanced_world_close();
}

/*
 * Buffers exceed the memory of a member, whether tasks run one by one or side by side. To make room, stale copies are
 * dropped and current ones move to the host.
 */
static void buffers_may_exceed_the_memory_of_a_member(void **state)
{
    enum { BUFFERS = 6 };
    struct facet_balancer_config config = balancer_config();
    uint64_t bytes = 6 * MIB, buffers[BUFFERS], large;
    char *data = calloc(1, bytes);

    members_make(2, 0);
    config.count = 1;
    balancer_make(&config);
    for (int i = 0; i < BUFFERS; i++)
        buffers[i] = buffer_make(bytes);
    for (int i = 0; i < BUFFERS; i++) {
        finish(submit("add", buffers[i], 1, bytes / 8));
        OK(facet_balancer_read(balancer, buffers[i], 0, data, bytes, ERROR));
        OK(facet_balancer_write(balancer, buffers[i], 0, data, bytes, ERROR));
    }
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < BUFFERS; i++)
            submit("add", buffers[i], 1, bytes / 8);
    finish(FACET_BALANCER_ALL);
    for (int i = 0; i < BUFFERS; i++)
        assert_int_equal(buffer_word(buffers[i], bytes / 8 - 1), 3);
    large = buffer_make(17 * MIB);
    uint64_t task = submit("add", large, 1, 1);
    REFUSED(FACET_QUOTA, facet_balancer_wait(balancer, task, WAIT_NS, ERROR));
    REFUSED(FACET_QUOTA, facet_balancer_read(balancer, large, 0, data, 8, ERROR));
    finish(submit("add", buffers[0], 1, 1));
    assert_int_equal(buffer_word(buffers[0], 0), 4);
    free(data);
    balanced_world_close();
}

static void paused_members_get_nothing(void **state)
{
    uint64_t tasks[8];

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    for (int i = 0; i < 8; i++)
        finish(tasks[i] = submit("add", buffer_make(64), 1, 8));
    for (int i = 0; i < 8; i++)
        assert_int_equal(task_of(tasks[i]).member, 1);
    OK(facet_vgpu_pause(world.driver, 2, ERROR));
    for (int i = 0; i < 8; i++)
        tasks[i] = submit("add", buffer_make(64), 1, 8);
    assert_int_equal(task_of(tasks[0]).member, FACET_BALANCER_NOWHERE);
    REFUSED(FACET_TIMEOUT, facet_balancer_wait(balancer, FACET_BALANCER_ALL, 10 * MS, ERROR));
    OK(facet_vgpu_resume(world.driver, 1, ERROR));
    finish(FACET_BALANCER_ALL);
    assert_int_equal(task_of(tasks[7]).member, 0);
    balanced_world_close();
}

/* A paused member has a task in the middle of its work-groups. */
static void closing_does_not_wait_for_a_resume(void **state)
{
    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    uint64_t task = submit("burn", buffer_make(8), ROUNDS, 100000);
    await_running(task);
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    submit("add", buffer_make(8), 1, 1);
    balanced_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_runs_and_its_result_is_read),
        cmocka_unit_test(bytes_begin_as_zero_and_are_written_in_parts),
        cmocka_unit_test(buffers_put_tasks_in_order),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(readers_share_a_buffer_and_writers_wait),
        cmocka_unit_test(round_robin_alternates),
        cmocka_unit_test(weighted_keeps_the_proportion),
        cmocka_unit_test(locality_follows_the_data_unless_the_queue_is_long),
        cmocka_unit_test(least_loaded_evens_out_unequal_tasks),
        cmocka_unit_test(tasks_are_cancelled_wherever_they_are),
        cmocka_unit_test(closing_ends_everything),
        cmocka_unit_test(records_are_forgotten_only_after_their_task_ended),
        cmocka_unit_test(too_many_tasks_are_refused),
        cmocka_unit_test(tasks_that_do_not_fit_together_take_turns),
        cmocka_unit_test(buffers_may_exceed_the_memory_of_a_member),
        cmocka_unit_test(paused_members_get_nothing),
        cmocka_unit_test(closing_does_not_wait_for_a_resume),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
