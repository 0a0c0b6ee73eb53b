/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of workers' limits, shares, caps and bounds of the built cuda provider, by the fake driver's own clock;
 * and of drivers that have only a part of the needed functions. Never: opens a real driver, or asserts that anything is
 * fast on this machine.
 */
#include "cuda_world.h"

#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number of groups that fills the fake's 132 multiprocessors once, with eight on each. */
#define FULL UINT32_C(1056)

static struct facet_worker_limit limit_of(struct facet_provider_instance *instance, const char *worker)
{
    struct facet_worker_limit limit = {.size = sizeof limit};

    assert_int_equal(provider->limit->get(instance, 0, worker, &limit, NULL), FACET_OK);
    return limit;
}

static uint64_t last_busy_ns(const struct world *world)
{
    struct facet_launch_record records[1024] = {0};
    uint32_t count = 0;

    wait_for(world);
    assert_int_equal(provider->execution->records(world->instance, world->context, world->stream, 0, records,
                                                  sizeof records[0], 1024, &count, NULL),
                     FACET_OK);
    assert_in_range(count, 1, 1024);
    return records[count - 1].busy_ns;
}

/* How many waves of 20 ms a launch takes that fills the whole device in one wave. */
static uint64_t waves_of_launch(const struct world *world)
{
    launch_groups(world, "spin_20000us", FULL);
    return (last_busy_ns(world) + 10000000) / 20000000;
}

/* --- limits --- */

static void units_are_granted_in_the_drivers_groups(void **state)
{
    struct facet_provider_instance *instance = open_fake();
    struct facet_error error = {0};

    assert_int_equal(provider->limit->set_compute(instance, 0, "half", 500, NULL), FACET_OK);
    assert_int_equal(limit_of(instance, "half").compute_units, 72); /* the next multiple of 8 after 66 */
    assert_int_equal(limit_of(instance, "half").compute_milli, 545);
    assert_int_equal(provider->limit->set_compute(instance, 0, "more", 460, &error), FACET_NO_SPACE);
    assert_non_null(strstr(error.message, "60"));
    assert_int_equal(provider->limit->set_compute(instance, 0, "rest", 450, NULL), FACET_OK);
    assert_int_equal(limit_of(instance, "rest").compute_units, 60); /* includes the four that are in no group of 8 */
    assert_int_equal(provider->limit->clear(instance, 0, "half", NULL), FACET_OK);
    assert_int_equal(provider->limit->set_compute(instance, 0, "more", 500, NULL), FACET_OK);
    provider->device->close(instance);
}

static void a_limited_worker_has_no_more_units(void **state)
{
    struct facet_provider_instance *instance = open_fake();

    assert_int_equal(provider->limit->set_compute(instance, 0, "quarter", 250, NULL), FACET_OK);
    struct world limited = enter_world(instance, "quarter"), other = enter_world(instance, "other");
    assert_int_equal(waves_of_launch(&limited), 4); /* on 40 of 132 units */
    assert_int_equal(waves_of_launch(&other), 1);
    assert_int_equal(provider->limit->clear(instance, 0, "quarter", NULL), FACET_BUSY);
    assert_int_equal(provider->memory->destroy_context(instance, limited.context, NULL), FACET_OK);
    assert_int_equal(provider->limit->clear(instance, 0, "quarter", NULL), FACET_OK);
    limited = enter_world(instance, "quarter");
    assert_int_equal(waves_of_launch(&limited), 1);
    provider->device->close(instance);
}

static void limited_workers_take_no_turns(void **state)
{
    struct facet_provider_instance *instance = open_fake();

    assert_int_equal(provider->limit->set_compute(instance, 0, "a", 500, NULL), FACET_OK);
    assert_int_equal(provider->limit->set_compute(instance, 0, "b", 300, NULL), FACET_OK);
    struct world a = enter_world(instance, "a"), b = enter_world(instance, "b");
    launch(&a, "spin_7000000us");
    for (int i = 0; i < 3; i++)
        launch(&b, "spin_1000us");
    wait_for(&b); /* while the other worker's launch runs */
    assert_int_equal(state_of(&a).completed, 0);
    wait_for(&a);
    provider->device->close(instance);
}

static void memory_is_held_to_its_limit(void **state)
{
    const struct facet_memory_ops *ops = provider->memory;
    struct facet_provider_instance *instance = open_fake();
    struct facet_memory_info info = {.size = sizeof info};
    uint64_t address, pages;

    assert_int_equal(provider->limit->set_memory(instance, 0, "w", 64 * MIB, NULL), FACET_OK);
    uint64_t context = context_of(instance, 0, "w"), other = context_of(instance, 0, "other");
    assert_int_equal(ops->info(instance, context, &info, NULL), FACET_OK);
    assert_int_equal(info.total_bytes, 64 * MIB);
    assert_int_equal(ops->alloc(instance, context, 64 * MIB + 1, &address, NULL), FACET_QUOTA);
    assert_int_equal(ops->alloc(instance, context, 60 * MIB, &address, NULL), FACET_OK);
    assert_int_equal(ops->create_pages(instance, context, 6 * MIB, &pages, NULL), FACET_QUOTA);
    assert_int_equal(ops->create_pages(instance, context, 4 * MIB, &pages, NULL), FACET_OK);
    assert_int_equal(used(instance, context), 64 * MIB);
    assert_int_equal(ops->free(instance, context, address, NULL), FACET_OK);
    assert_int_equal(used(instance, context), 4 * MIB);
    assert_int_equal(ops->info(instance, other, &info, NULL), FACET_OK);
    /* Memory that is promised to a worker is not available to other workers. */
    assert_int_equal(ops->alloc(instance, other, info.total_bytes - 63 * MIB, &address, NULL), FACET_NO_SPACE);
    provider->device->close(instance);
}

/* --- drivers that lack functions --- */

static struct facet_provider_instance *open_old(struct facet_device_info infos[16])
{
    struct facet_provider_instance *instance = NULL;

    set_fake_driver("FACET_TEST_CUDA_OLD");
    assert_int_equal(provider->device->open(&instance, NULL), FACET_OK);
    list(instance, infos);
    return instance;
}

static void an_old_driver_has_shares_and_no_parts(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_old(infos);

    assert_true(infos[0].capabilities & FACET_CAN_LIMIT_MEMORY);
    assert_true(infos[0].capabilities & FACET_CAN_SHARE);
    assert_false(infos[0].capabilities & (FACET_CAN_LIMIT_COMPUTE | FACET_CAN_CONTROL));
    assert_int_equal(provider->limit->set_compute(instance, 0, "w", 500, NULL), FACET_UNSUPPORTED);
    struct world world = enter_world(instance, "w");
    assert_int_equal(provider->execution->set_bounds(instance, world.context, 8, 0, NULL), FACET_UNSUPPORTED);
    assert_int_equal(waves_of_launch(&world), 1);
    provider->device->close(instance);
}

/* Writes the file with the percentage that the fake MPS control daemon answers for new servers. */
static void set_mps_answer(const char *folder, const char *percentage)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/percentage", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "%s\n", percentage);
    fclose(file);
}

static void begin_mps(char *folder)
{
    char path[4096];

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/control", folder);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fclose(file);
    setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
    set_mps_answer(folder, "100.0");
}

static void end_mps(const char *folder)
{
    static const char *const names[] = {"control", "percentage"};
    char path[4096];

    unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void mps_limits_where_the_driver_has_no_parts(void **state)
{
    char folder[] = "/tmp/facet-mps-XXXXXX";
    struct facet_device_info infos[16];

    begin_mps(folder);
    struct facet_provider_instance *instance = open_old(infos);
    assert_true(infos[0].capabilities & FACET_CAN_LIMIT_COMPUTE);
    assert_int_equal(provider->limit->set_compute(instance, 0, "quarter", 250, NULL), FACET_OK);
    assert_int_equal(limit_of(instance, "quarter").compute_units, 34); /* 33, in steps of 2 */
    struct world limited = enter_world(instance, "quarter"), other = enter_world(instance, "other");
    assert_int_equal(waves_of_launch(&limited), 4);
    assert_int_equal(waves_of_launch(&other), 1);
    set_mps_answer(folder, "50.0");
    assert_int_equal(provider->limit->set_compute(instance, 0, "more", 300, NULL), FACET_NO_SPACE);
    assert_int_equal(provider->limit->set_compute(instance, 0, "more", 200, NULL), FACET_OK);
    assert_int_equal(limit_of(instance, "more").compute_units, 28);
    provider->device->close(instance);
    end_mps(folder);
}

static void a_limit_that_mps_does_not_report_is_the_whole_device(void **state)
{
    static const char *const programs[] = {"/nonexistent", "/bin/false", "/bin/cat"};
    char folder[] = "/tmp/facet-mps-XXXXXX", before[4096];
    struct facet_device_info infos[16];

    snprintf(before, sizeof before, "%s", getenv("FACET_CUDA_MPS_CONTROL"));
    begin_mps(folder);
    struct facet_provider_instance *instance = open_old(infos);
    for (int i = 0; i < 3; i++) {
        setenv("FACET_CUDA_MPS_CONTROL", programs[i], 1);
        assert_int_equal(provider->limit->set_compute(instance, 0, "all", 1000, NULL), FACET_OK);
        assert_int_equal(limit_of(instance, "all").compute_units, 132);
        assert_int_equal(provider->limit->clear(instance, 0, "all", NULL), FACET_OK);
    }
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25", 1);
    assert_int_equal(provider->limit->set_compute(instance, 0, "all", 300, NULL), FACET_NO_SPACE);
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    provider->device->close(instance);
    end_mps(folder);
    setenv("FACET_CUDA_MPS_CONTROL", before, 1);
}

/* Enters a made-up locale with a decimal comma. Returns false where this machine cannot make one. */
static bool enter_comma_locale(char *folder)
{
    char command[512];

    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "printf 'LC_NUMERIC\\ndecimal_point \",\"\\nthousands_sep \"\"\\ngrouping -1\\nEND LC_NUMERIC\\n' "
             ">%s/comma && localedef -c -i %s/comma -f UTF-8 %s/xx_XX.UTF-8 >/dev/null 2>&1",
             folder, folder, folder);
    (void)!system(command); /* NOLINT(cert-env33-c): warnings make it fail */
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_NUMERIC, "xx_XX.UTF-8") && strcmp(localeconv()->decimal_point, ",") == 0;
}

static void a_percentage_has_a_point_in_every_locale(void **state)
{
    char folder[] = "/tmp/facet-mps-XXXXXX", locale[] = "/tmp/facet-locale-XXXXXX", command[64];
    struct facet_device_info infos[16];

    begin_mps(folder);
    struct facet_provider_instance *instance = open_old(infos);
    if (!enter_comma_locale(locale))
        print_message("# a locale with a comma cannot be made here\n");
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "0.9", 1);
    assert_int_equal(provider->limit->set_compute(instance, 0, "all", 300, NULL), FACET_NO_SPACE);
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", " 31.05", 1);
    assert_int_equal(provider->limit->set_compute(instance, 0, "all", 300, NULL), FACET_OK);
    unsetenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", locale);
    (void)!system(command); /* NOLINT(cert-env33-c) */
    provider->device->close(instance);
    end_mps(folder);
}

/* --- shares and bounds --- */

static void set_world_share(const struct world *world, uint32_t request, uint32_t limit)
{
    assert_int_equal(
        provider->execution->set_share(world->instance, world->context, request, limit, FACET_PRIORITY_NORMAL, NULL),
        FACET_OK);
}

static void device_time_goes_by_weight(void **state)
{
    struct facet_provider_instance *instance = open_fake();
    struct world heavy = enter_world(instance, "heavy"), light = enter_world(instance, "light");

    set_world_share(&heavy, 750, 1000);
    set_world_share(&light, 250, 1000);
    for (int i = 0; i < 90; i++) {
        launch(&light, "spin_1000us");
        launch(&heavy, "spin_1000us");
    }
    wait_for(&heavy);
    /* By weight 30 launches; the length of the scheduler's turns makes that inexact. */
    assert_in_range(state_of(&light).completed, 18, 45);
    wait_for(&light);
    provider->device->close(instance);
}

static void a_cap_holds_for_a_worker_that_is_alone(void **state)
{
    struct world world = open_world();
    uint64_t began = now_ns();

    set_world_share(&world, 0, 200);
    for (int i = 0; i < 30; i++)
        launch(&world, "spin_1000us");
    wait_for(&world);
    /* 30 ms of device time at a cap of a fifth take 140 ms: the scheduler admits the first 2 ms at once. */
    assert_true(now_ns() - began > UINT64_C(100000000));
    provider->device->close(world.instance);
}

static void bounds_hold_until_they_are_removed(void **state)
{
    const struct facet_execution_ops *ops = provider->execution;
    struct world world = open_world();

    assert_int_equal(waves_of_launch(&world), 1);
    assert_int_equal(ops->set_bounds(world.instance, world.context, 16, 0, NULL), FACET_OK);
    assert_int_equal(waves_of_launch(&world), 9);
    assert_int_equal(ops->set_bounds(world.instance, world.context, 64, 1, NULL), FACET_OK);
    assert_int_equal(waves_of_launch(&world), 3);
    assert_int_equal(ops->set_bounds(world.instance, world.context, 0, 0, NULL), FACET_OK);
    assert_int_equal(waves_of_launch(&world), 1);
    provider->device->close(world.instance);
}

static void a_bound_is_within_the_workers_limit(void **state)
{
    struct facet_provider_instance *instance = open_fake();

    assert_int_equal(provider->limit->set_compute(instance, 0, "w", 250, NULL), FACET_OK);
    struct world world = enter_world(instance, "w");
    assert_int_equal(provider->execution->set_bounds(instance, world.context, 100, 0, NULL), FACET_OK);
    assert_int_equal(waves_of_launch(&world), 4);
    assert_int_equal(provider->execution->set_bounds(instance, world.context, 20, 0, NULL), FACET_OK);
    assert_int_equal(waves_of_launch(&world), 6); /* on 24 of the 40 units */
    provider->device->close(instance);
}

static void a_running_launch_is_paused_at_its_end(void **state)
{
    const struct facet_execution_ops *ops = provider->execution;
    struct world world = open_world();

    for (int i = 0; i < 4; i++)
        launch(&world, "spin_20000us");
    assert_int_equal(ops->pause(world.instance, world.context, 1, NULL), FACET_OK);
    uint64_t completed = state_of(&world).completed;
    assert_int_equal(state_of(&world).begun, completed);
    assert_true(completed < 4);
    assert_int_equal(ops->pause(world.instance, world.context, 2, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(ops->pause(world.instance, world.context, 0, NULL), FACET_OK);
    launch(&world, "spin_7000000us");
    while (state_of(&world).begun < 5)
        assert_int_equal(ops->synchronize(world.instance, world.context, world.stream, SECOND / 100, NULL),
                         FACET_TIMEOUT);
    assert_int_equal(ops->cancel_launch(world.instance, world.context, world.stream, 5, NULL), FACET_OK);
    assert_int_equal(ops->pause(world.instance, world.context, 1, NULL), FACET_TIMEOUT); /* it cannot be ended */
    assert_int_equal(ops->pause(world.instance, world.context, 0, NULL), FACET_OK);
    wait_for(&world);
    provider->device->close(world.instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_granted_in_the_drivers_groups),
        cmocka_unit_test(a_limited_worker_has_no_more_units),
        cmocka_unit_test(limited_workers_take_no_turns),
        cmocka_unit_test(memory_is_held_to_its_limit),
        cmocka_unit_test(an_old_driver_has_shares_and_no_parts),
        cmocka_unit_test(mps_limits_where_the_driver_has_no_parts),
        cmocka_unit_test(a_limit_that_mps_does_not_report_is_the_whole_device),
        cmocka_unit_test(a_percentage_has_a_point_in_every_locale),
        cmocka_unit_test(device_time_goes_by_weight),
        cmocka_unit_test(a_cap_holds_for_a_worker_that_is_alone),
        cmocka_unit_test(bounds_hold_until_they_are_removed),
        cmocka_unit_test(a_bound_is_within_the_workers_limit),
        cmocka_unit_test(a_running_launch_is_paused_at_its_end),
    };

    load_provider("cuda");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
