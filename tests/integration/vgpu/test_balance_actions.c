/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of facet/balance.h: actions, losses, and many threads at once. Never: asserts how long anything
 * takes.
 */
#include "balance_world.h"
#include "device_time.h"

#include <signal.h>

enum { THREADS = 8 };

/* ---- actions ---- */

static uint32_t actions_of(uint32_t kind, struct facet_balancer_action *ret_last)
{
    struct facet_balancer_action actions[1024] = {{.size = sizeof actions[0]}};
    uint32_t count = 0, found = 0;

    OK(facet_balancer_get_actions(balancer, 0, actions, 1024, &count, ERROR));
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(actions[i].number, i + 1);
        if (actions[i].action != kind)
            continue;
        assert_int_equal(actions[i].status, FACET_OK);
        *ret_last = actions[i];
        found++;
    }
    return found;
}

/*
 * Round robin gives the first member all the large tasks. Returns how many of them have not ended when the last one is
 * submitted.
 */
static int submit_large_and_small(uint64_t large_rounds, uint64_t *buffers, uint64_t *tasks)
{
    struct facet_balancer_config config = balancer_config();
    int unfinished_count = 0;

    members_make(4, 0);
    config.strategy = FACET_BALANCER_ROUND_ROBIN;
    config.actions = FACET_BALANCER_MIGRATE;
    config.interval_ns = 2 * MS;
    balancer_make(&config);
    teach_burn_time();
    submit("add", buffer_make(8), 1, 1); /* takes the second member's turn */
    for (uint64_t i = 0; i < TASKS; i++) {
        buffers[i] = buffer_make(64);
        OK(facet_balancer_write(balancer, buffers[i], 0, &i, 8, ERROR));
        tasks[i] = i % 2 == 0 ? submit("burn", buffers[i], large_rounds, 64) : submit("add", buffers[i], 1, 1);
    }
    for (int i = 0; i < TASKS; i += 2)
        unfinished_count += task_of(tasks[i]).status <= FACET_EXECUTION_RUNNING;
    return unfinished_count;
}

/* Some of the large tasks migrate to the second member. */
static void waiting_tasks_migrate(void **state)
{
    struct facet_balancer_action last = {0};
    uint64_t tasks[TASKS], buffers[TASKS];
    uint32_t moved = 0;

    for (uint64_t rounds = 200000; submit_large_and_small(rounds, buffers, tasks) < TASKS / 3; rounds *= 4) {
        assert_true(rounds < UINT64_C(200000) << 10); /* this thread did not run for a while, and the tasks ended */
        balanced_world_close();
    }
    finish(FACET_BALANCER_ALL);
    for (int i = 0; i < TASKS; i++) {
        struct facet_balancer_task record = task_of(tasks[i]);

        assert_int_equal(record.status, FACET_EXECUTION_COMPLETED);
        assert_true(record.migrations <= 2);
        moved += record.migrations > 0;
        if (record.migrations == 1)
            assert_int_not_equal(record.member, i % 2);
        if (i % 2 == 1)
            assert_int_equal(buffer_word(buffers[i], 0), (uint64_t)i + 1);
        else
            assert_int_not_equal(buffer_word(buffers[i], 0), (uint64_t)i);
    }
    assert_true(moved > 0);
    assert_true(actions_of(FACET_BALANCER_MIGRATE, &last) >= moved);
    assert_int_not_equal(last.from, last.to);
    assert_true(last.gain_ns > 0 && task_of(last.task).migrations > 0);
    assert_true(member_of(0).left_total > 0 && member_of(1).arrived_total > 0);
    balanced_world_close();
}

/* The number of migrations when all the work goes to the first of two members. */
static uint32_t count_migrations(uint32_t threshold_milli, uint64_t interval_ns)
{
    static const uint32_t weights[MEMBERS] = {1, 0};
    struct facet_balancer_config config = balancer_config();
    struct facet_balancer_action last = {0};

    members_make(4, 0);
    config.strategy = FACET_BALANCER_WEIGHTED;
    config.weights = weights;
    config.actions = FACET_BALANCER_MIGRATE;
    config.threshold_milli = threshold_milli;
    config.interval_ns = interval_ns;
    balancer_make(&config);
    teach_burn_time();
    for (int i = 0; i < 12; i++)
        submit("burn", buffer_make(8), ROUNDS, 16);
    finish(FACET_BALANCER_ALL);
    uint32_t moves = actions_of(FACET_BALANCER_MIGRATE, &last);
    assert_int_equal(moves > 0, member_of(1).over_total > 0);
    balanced_world_close();
    return moves;
}

/* With two members, one that has all the load is 1000 milli above the mean, so a threshold of 1000 is
 * never exceeded. */
static void threshold_and_interval_hold_actions_back(void **state)
{
    assert_true(count_migrations(200, 2 * MS) > 0);
    assert_int_equal(count_migrations(1000, 2 * MS), 0);
    assert_int_equal(count_migrations(200, 2 * WAIT_NS), 0);
}

/* Two members on one device, of which only the first gets work. */
static void make_one_sided(uint32_t count, uint32_t request_milli, uint32_t actions, const char *units)
{
    static const uint32_t weights[MEMBERS] = {1, 0};
    struct facet_driver_config driver = world_config();
    struct facet_balancer_config config = balancer_config();

    setenv("FACET_CPU_UNITS", units, 1);
    world_open(&driver);
    unsetenv("FACET_CPU_UNITS");
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct facet_vgpu_config member = vgpu_config(ids[i]);

        member.request_milli = request_milli;
        OK(facet_vgpu_create(world.driver, &member, NULL, ERROR));
    }
    config.count = count;
    config.strategy = FACET_BALANCER_WEIGHTED;
    config.weights = weights;
    config.actions = actions;
    config.interval_ns = config.idle_ns = 2 * MS;
    balancer_make(&config);
}

static int wait_for_action(uint32_t kind, uint32_t count, struct facet_balancer_action *ret_last)
{
    for (uint64_t waited = 0; waited < WAIT_NS; waited += MS) {
        if (actions_of(kind, ret_last) >= count)
            return 1;
        nap(MS);
    }
    return 0;
}

/* Gives endless work to the first member and to vGPU 3, which is no member and has the same request. So the first
 * member's share of the device can be measured. */
static void start_competition(struct facet_kernel **ret_outside)
{
    struct facet_vgpu_config outside = vgpu_config(3);

    outside.request_milli = 400;
    OK(facet_vgpu_create(world.driver, &outside, NULL, ERROR));
    vgpu_memory(2, 8); /* is measured from its first use on */
    *ret_outside = vgpu_kernel(3, "burn", vgpu_memory(3, 8), 2000);
    vgpu_launch(3, 0, *ret_outside, ENDLESS_GROUPS);
    for (int i = 0; i < 8; i++)
        submit("burn", buffer_make(8), 2000, ENDLESS_GROUPS);
}

static void idle_members_lend_their_share(void **state)
{
    struct facet_balancer_action last = {0};
    struct facet_kernel *outside, *member_kernels[MEMBERS];

    make_one_sided(MEMBERS, 400, FACET_BALANCER_NO_ACTION, "1");
    start_competition(&outside);
    expect_percent_of_first(3, 44, 56, "without the action");
    facet_kernel_destroy(outside);
    balanced_world_close();

    make_one_sided(MEMBERS, 400, FACET_BALANCER_ADJUST_SHARE, "1");
    start_competition(&outside);
    assert_true(wait_for_action(FACET_BALANCER_ADJUST_SHARE, 2, &last));
    expect_percent_of_first(3, 62, 80, "with what the second lends");
    assert_true(vgpu_info(1).request_milli > 400);
    assert_true(vgpu_info(2).request_milli < 400);
    assert_true(vgpu_info(1).request_milli + vgpu_info(2).request_milli <= 1000);
    assert_int_not_equal(last.before_milli, last.after_milli);
    member_kernels[1] = vgpu_kernel(2, "burn", vgpu_memory(2, 8), 2000);
    vgpu_launch(2, 0, member_kernels[1], ENDLESS_GROUPS); /* the second member needs its share again */
    expect_percent_of_first(3, 27, 48, "when the second wants its own");
    assert_true(vgpu_info(2).request_milli >= 400);
    facet_balancer_close(balancer);
    assert_int_equal(vgpu_info(1).request_milli, 400);
    assert_int_equal(vgpu_info(2).request_milli, 400);
    member_kernels[0] = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 2000);
    vgpu_launch(1, 0, member_kernels[0], ENDLESS_GROUPS);
    expect_percent_of_first(3, 27, 40, "after the balancer has gone");
    for (int i = 0; i < MEMBERS; i++)
        facet_kernel_destroy(member_kernels[i]);
    facet_kernel_destroy(outside);
    world_close();
}

/* An idle member is scaled down, and up again with work. This holds for a single member, too. */
static void idle_members_have_fewer_units(void **state)
{
    struct facet_balancer_action last = {0};

    for (uint32_t count = 1; count <= MEMBERS; count++) {
        make_one_sided(count, 0, FACET_BALANCER_SCALE_UNITS, "2");
        assert_true(wait_for_action(FACET_BALANCER_SCALE_UNITS, count, &last));
        assert_int_equal(vgpu_info(1).units, 1);
        assert_int_equal(vgpu_info(2).units, count - 1);
        struct facet_kernel *burn = vgpu_kernel(count, "burn", vgpu_memory(count, 8), 2000);
        uint64_t execution = vgpu_launch(count, 0, burn, 2000); /* past the balancer, which would scale up */
        vgpu_finish(count);
        assert_int_equal(vgpu_execution(count, execution).units, 1);
        uint64_t task = submit("burn", buffer_make(8), ROUNDS, 200);
        assert_true(wait_for_action(FACET_BALANCER_SCALE_UNITS, count + 1, &last));
        assert_int_equal(last.from, 0);
        assert_int_equal(last.before_units, 1);
        assert_int_equal(last.after_units, 2);
        finish(task);
        assert_int_equal(vgpu_execution(1, task_of(task).execution).units, 2);
        facet_balancer_close(balancer);
        assert_int_equal(vgpu_info(1).units, 0);
        assert_int_equal(vgpu_info(2).units, 0);
        facet_kernel_destroy(burn);
        world_close();
    }
}

/* Submits a task of high priority while a task of low priority runs. False: the task of low priority ended before. */
static bool submit_high_beside_low(uint32_t actions, uint64_t groups, uint64_t *ret_low, uint64_t *ret_high)
{
    struct facet_balancer_config config = balancer_config();

    members_make(2, 1);
    config.count = config.depth = 1;
    config.actions = actions;
    config.interval_ns = 2 * MS;
    balancer_make(&config);
    OK(try_submit("burn", buffer_make(8), ROUNDS / 10, groups, FACET_PRIORITY_LOW, ret_low));
    if (!begins_to_run(*ret_low))
        return false;
    OK(try_submit("burn", buffer_make(8), ROUNDS / 10, 2, FACET_PRIORITY_HIGH, ret_high));
    return task_of(*ret_low).status == FACET_EXECUTION_RUNNING;
}

/* With the action, the task of higher priority goes first; without, it waits. Returns how many work-groups the
 * task of low priority has. */
static uint64_t run_high_beside_low(uint32_t actions, struct facet_balancer_task *ret_low,
                                    struct facet_balancer_task *ret_high)
{
    uint64_t groups = 2000, low = 0, high = 0;

    while (!submit_high_beside_low(actions, groups, &low, &high)) {
        balanced_world_close();
        assert_true(groups < 2000 * 1024);
        groups *= 4; /* this thread did not run for longer than the work-groups took */
    }
    finish(FACET_BALANCER_ALL);
    *ret_low = task_of(low);
    *ret_high = task_of(high);
    return groups;
}

static void preemption_lets_higher_priority_in(void **state)
{
    struct facet_balancer_action last = {0};
    struct facet_balancer_task low, high;
    struct facet_stream_info stream = {.size = sizeof stream};

    uint64_t groups = run_high_beside_low(FACET_BALANCER_PREEMPT, &low, &high);
    assert_true(high.end_ns < low.end_ns);
    assert_int_equal(low.groups, groups);
    assert_true(actions_of(FACET_BALANCER_PREEMPT, &last) > 0);
    assert_int_equal(last.task, low.task);
    assert_int_equal(last.waiting, high.task);
    OK(facet_vgpu_query(world.driver, 1, 1, &stream, ERROR));
    assert_int_equal(stream.priority, FACET_PRIORITY_HIGH); /* the runner reserved for high priority */
    OK(facet_vgpu_query(world.driver, 1, 0, &stream, ERROR));
    assert_int_equal(stream.priority, FACET_PRIORITY_LOW);
    facet_balancer_close(balancer);
    OK(facet_vgpu_query(world.driver, 1, 0, &stream, ERROR));
    assert_int_equal(stream.priority, FACET_PRIORITY_NORMAL);
    world_close();
    run_high_beside_low(FACET_BALANCER_MIGRATE, &low, &high);
    assert_true(high.start_ns >= low.end_ns);
    assert_int_equal(low.preemptions, 0);
    assert_int_equal(actions_of(FACET_BALANCER_PREEMPT, &last), 0);
    balanced_world_close();
}

/* ---- members that are never idle ---- */

/*
 * A member that the program uses directly, too, always has work queued. Buffers can leave it and come to it
 * nevertheless, and its queued work goes on.
 */
static void buffers_leave_a_member_that_is_never_idle(void **state)
{
    enum { WORDS = 20001 };
    struct facet_balancer_config config = balancer_config();

    members_make(4, 0);
    config.strategy = FACET_BALANCER_ROUND_ROBIN;
    config.depth = 1;
    balancer_make(&config);
    uint64_t buffer = buffer_make(WORDS * 8);
    struct facet_kernel *outside = vgpu_kernel(1, "burn", vgpu_memory(1, 8), 20000);
    uint64_t endless = vgpu_launch(1, 3, outside, UINT64_C(1) << 30);

    assert_true(wait_for_status(1, endless, FACET_EXECUTION_RUNNING));
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t task = submit("add", buffer, 1, WORDS);

        finish(task);
        assert_int_equal(task_of(task).member, round % 2);
        assert_int_equal(task_of(task).brought_bytes, round ? WORDS * 8 : 0);
        assert_int_equal(buffer_word(buffer, 0), round + 1);
        assert_int_equal(buffer_word(buffer, WORDS - 1), round + 1);
    }
    assert_int_equal(vgpu_execution(1, endless).status, FACET_EXECUTION_RUNNING);
    OK(facet_vgpu_cancel(world.driver, 1, endless, ERROR));
    facet_kernel_destroy(outside);
    balanced_world_close();
}

/* ---- lost members ---- */

static void a_destroyed_member_counts_as_lost(void **state)
{
    uint64_t tasks[TASKS], alive_buffer, lost_buffer;

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    finish(submit("add", alive_buffer = buffer_make(8), 5, 1));
    finish(submit("add", lost_buffer = buffer_make(8), 6, 1));
    for (int i = 0; i < TASKS; i++)
        tasks[i] = submit("burn", buffer_make(8), ROUNDS, 20);
    OK(facet_vgpu_destroy(world.driver, 2, ERROR));
    finish(FACET_BALANCER_ALL);
    for (int i = 0; i < TASKS; i++) {
        struct facet_balancer_task record = task_of(tasks[i]);

        if (record.status == FACET_EXECUTION_COMPLETED)
            continue;
        assert_int_equal(record.member, 1); /* only work that had begun on the lost member */
        assert_true(record.status == FACET_EXECUTION_FAILED || record.status == FACET_EXECUTION_CANCELLED);
    }
    assert_int_equal(task_of(tasks[TASKS - 1]).member, 0);
    assert_int_equal(member_of(1).lost, 1);
    assert_int_equal(buffer_word(alive_buffer, 0), 5);
    REFUSED(FACET_DEVICE_LOST, facet_balancer_read(balancer, lost_buffer, 0, tasks, 8, ERROR));
    balanced_world_close();
}

/* The copy of a task's data is queued behind an endless kernel; then the member is lost. */
static void a_task_whose_copy_was_queued_runs_elsewhere(void **state)
{
    enum { STREAMS = 4 };
    uint64_t moving, task;

    balanced_world_open(FACET_BALANCER_ROUND_ROBIN);
    finish(submit("add", moving = buffer_make(64), 1, 8));
    finish(submit("add", buffer_make(64), 1, 8));
    struct facet_kernel *outside = vgpu_kernel(2, "burn", vgpu_memory(2, 8), 20000);
    for (uint32_t stream = 0; stream < STREAMS; stream++)
        vgpu_launch(2, stream, outside, UINT64_C(1) << 30);
    finish(submit("add", buffer_make(64), 1, 8));
    task = submit("add", moving, 1, 8);
    assert_int_equal(task_of(task).member, 1);
    while (member_of(1).running == 0)
        nap(MS);
    OK(facet_vgpu_destroy(world.driver, 2, ERROR));
    finish(task);
    assert_int_equal(task_of(task).member, 0);
    assert_int_equal(task_of(task).migrations, 1);
    assert_int_equal(buffer_word(moving, 7), 2);
    facet_kernel_destroy(outside);
    balanced_world_close();
}

static void a_lost_device_fails_only_tasks_that_had_begun(void **state)
{
    struct facet_balancer_config config = balancer_config();
    uint64_t alive_buffer, lost_buffer, gate, begun, waiting[8], later, again, word = 3;

    if (device_count() < 2)
        return;
    members_make(2, 0);
    config.strategy = FACET_BALANCER_ROUND_ROBIN;
    config.depth = 1;
    balancer_make(&config);
    finish(submit("add", alive_buffer = buffer_make(64), 5, 1));
    finish(submit("add", lost_buffer = buffer_make(64), 6, 1));
    finish(submit("add", buffer_make(64), 1, 1));
    gate = buffer_make(64);
    begun = submit("gate", gate, 0, 1);
    await_running(begun);
    assert_int_equal(task_of(begun).member, 1);
    for (int i = 0; i < 8; i++)
        waiting[i] = submit("add", buffer_make(64), 1, 8);
    later = submit("add", gate, 1, 8);
    again = submit("add", gate, 1, 8);
    assert_int_equal(task_of(waiting[7]).member, 1);
    pid_t child = world_child();
    assert_true(child > 0);
    kill(child, SIGKILL);
    REFUSED(FACET_DEVICE_LOST, facet_balancer_wait(balancer, begun, WAIT_NS, ERROR));
    REFUSED(FACET_DEVICE_LOST, facet_balancer_wait(balancer, later, WAIT_NS, ERROR));
    REFUSED(FACET_DEVICE_LOST, facet_balancer_wait(balancer, again, WAIT_NS, ERROR));
    for (int i = 0; i < 8; i++)
        finish(waiting[i]);
    assert_int_equal(task_of(waiting[7]).member, 0);
    assert_int_equal(task_of(waiting[7]).migrations, 1);
    assert_int_equal(task_of(later).execution, 0);
    assert_int_equal(member_of(1).lost, 1);
    assert_int_equal(buffer_word(alive_buffer, 0), 5);
    REFUSED(FACET_DEVICE_LOST, facet_balancer_read(balancer, lost_buffer, 0, &word, 8, ERROR));
    REFUSED(FACET_DEVICE_LOST,
            facet_balancer_write(balancer, lost_buffer, 0, &word, 8, ERROR)); /* writes only a part */
    uint64_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    OK(facet_balancer_write(balancer, lost_buffer, 0, words, sizeof words, ERROR));
    finish(submit("add", lost_buffer, 10, 8));
    assert_int_equal(buffer_word(lost_buffer, 7), 18);
    child = world_child();
    kill(child, SIGKILL);
    again = submit("add", buffer_make(64), 1, 8);
    REFUSED(FACET_DEVICE_LOST, facet_balancer_wait(balancer, again, WAIT_NS, ERROR));
    REFUSED(FACET_DEVICE_LOST, facet_balancer_read(balancer, lost_buffer, 0, &word, 8, ERROR));
    balanced_world_close();
}

/* ---- many at once ---- */

static uint64_t common;

/* Tasks on private buffers, and tasks on shared ones. */
static void *submit_many(void *argument)
{
    uint64_t own_buffer = 0, task = 0, sum = 0, word = 0;
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {8}, .group = {1}};
    struct facet_balancer_argument arguments[] = {{0}, {.value = &word, .bytes = sizeof word}};
    const struct facet_balancer_work work = {.size = sizeof work,
                                             .image = world.image,
                                             .kernel = "add",
                                             .range = &range,
                                             .arguments = arguments,
                                             .count = 2};
    uintptr_t failed = facet_balancer_allocate(balancer, 64, &own_buffer, NULL) != FACET_OK;

    (void)argument;
    for (uint64_t i = 1; i <= TASKS && !failed; i++) {
        word = i;
        sum += i;
        arguments[0].buffer = own_buffer;
        failed |= facet_balancer_submit(balancer, &work, &task, NULL) != FACET_OK;
        word = 1;
        arguments[0].buffer = common;
        failed |= facet_balancer_submit(balancer, &work, NULL, NULL) != FACET_OK;
        if (i % 8 == 0)
            failed |= facet_balancer_wait(balancer, task, WAIT_NS, NULL) != FACET_OK;
        failed |= facet_balancer_read(balancer, own_buffer, 8, &word, 8, NULL) != FACET_OK || word != sum;
    }
    return (void *)failed;
}

static void many_threads_use_one_balancer(void **state)
{
    struct facet_balancer_config config = balancer_config();
    pthread_t threads[THREADS];
    void *failed = NULL;

    members_make(4, 0);
    config.strategy = FACET_BALANCER_LEAST_LOADED;
    config.actions =
        FACET_BALANCER_MIGRATE | FACET_BALANCER_ADJUST_SHARE | FACET_BALANCER_SCALE_UNITS | FACET_BALANCER_PREEMPT;
    config.interval_ns = MS;
    balancer_make(&config);
    common = buffer_make(64);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_many, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *one = NULL;

        pthread_join(threads[i], &one);
        failed = one ? one : failed;
    }
    assert_null(failed);
    assert_int_equal(buffer_word(common, 7), THREADS * TASKS);
    balanced_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_tasks_migrate),
        cmocka_unit_test(threshold_and_interval_hold_actions_back),
        cmocka_unit_test(idle_members_lend_their_share),
        cmocka_unit_test(idle_members_have_fewer_units),
        cmocka_unit_test(preemption_lets_higher_priority_in),
        cmocka_unit_test(buffers_leave_a_member_that_is_never_idle),
        cmocka_unit_test(a_destroyed_member_counts_as_lost),
        cmocka_unit_test(a_task_whose_copy_was_queued_runs_elsewhere),
        cmocka_unit_test(a_lost_device_fails_only_tasks_that_had_begun),
        cmocka_unit_test(many_threads_use_one_balancer),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
