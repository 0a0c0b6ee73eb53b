/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that the modes hard and partitioned are transactions over provider, segment and database, whichever step
 * fails and wherever the daemon is killed; and the rules of the modes.
 * Never: starts threads. The provider is a fake; database and segments are the real ones.
 */
#include <sqlite3.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "registry_setup.h"

#define LATER (facet_clock_now_ns() + 3600 * FACET_NS_PER_S)

#define PARTITIONED "{\"name\":\"second\",\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}"
#define HARD        "{\"name\":\"second\",\"device\":\"test:2\",\"mode\":\"hard\",\"compute_request_milli\":300}"

/* --- every step that fails -------------------------------------------------------------------------------------- */

static enum facet_status create_partitioned(struct facet_error *error)
{
    return try_create_vgpu(PARTITIONED, error);
}

static enum facet_status create_hard(struct facet_error *error)
{
    return try_create_vgpu(HARD, error);
}

static enum facet_status destroy_second(struct facet_error *error)
{
    return registry_destroy(registry, "second", false, &removal, error);
}

static void creating_a_partition_is_all_or_nothing(void **state)
{
    create_vgpu("{\"name\":\"first\",\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"quarter\"}");
    fail_every_step(create_partitioned, 11);
    assert_int_equal(registry_count(registry), 2);
}

static void creating_hard_limits_is_all_or_nothing(void **state)
{
    create_vgpu("{\"name\":\"first\",\"device\":\"test:2\",\"mode\":\"hard\",\"memory_limit_bytes\":4096}");
    fail_every_step(create_hard, 12);
    assert_int_equal(registry_count(registry), 2);
}

static void destroying_a_partition_is_all_or_nothing(void **state)
{
    create_vgpu("{\"name\":\"first\",\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"quarter\"}");
    create_vgpu(PARTITIONED);
    fail_every_step(destroy_second, 4);
    assert_int_equal(registry_count(registry), 1);
}

static void destroying_hard_limits_is_all_or_nothing(void **state)
{
    create_vgpu(HARD);
    fail_every_step(destroy_second, 4);
    assert_int_equal(registry_count(registry), 0);
}

/* From some step on every call fails, also the calls that roll back. The vGPU stays visible until it can be removed. */
static void a_vgpu_that_cannot_be_rolled_back_is_visible_and_removed_later(void **state)
{
    char before[2048], after[2048];
    enum facet_status status = FACET_IO;

    snapshot(before, sizeof before);
    for (unsigned step = 1; step < 100 && status != FACET_OK; step++) {
        struct facet_error error = {0};
        steps = 0;
        fail_at = step;
        keeps_failing = true;
        status = try_create_vgpu(PARTITIONED, &error);
        fail_at = 0;
        keeps_failing = false;
        if (status == FACET_OK)
            break;
        assert_int_equal(registry_idle(registry), true);
        registry_tidy(registry, LATER);
        snapshot(after, sizeof after);
        assert_string_equal(after, before);
    }
    assert_int_equal(status, FACET_OK);
}

/* --- kill -9 ---------------------------------------------------------------------------------------------------- */

/* Runs `act` in a child that dies at the step. Returns whether `act` ended before that step. */
static bool die_at_step(act_func act, unsigned step)
{
    int status = 0;

    stop_registry();
    pid_t child = fork();
    if (child == 0) {
        start_registry();
        steps = 0;
        die_at = step;
        act(NULL);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    start_registry();
    return WEXITSTATUS(status) == 0;
}

/* The commit is the last step. A daemon that is killed at the commit or earlier has acknowledged nothing and changed
 * nothing. `act` has at least `least_steps` steps. */
static void kill_at_every_step(act_func act, unsigned least_steps)
{
    char before[2048], after[2048];
    unsigned step = 0;

    snapshot(before, sizeof before);
    while (!die_at_step(act, ++step)) {
        assert_true(step < 100);
        snapshot(after, sizeof after);
        assert_string_equal(after, before);
    }
    assert_true(step > least_steps);
}

static void a_kill_while_a_partition_is_made_leaves_all_or_nothing(void **state)
{
    kill_at_every_step(create_partitioned, 9);
    assert_int_equal(registry_count(registry), 1);
}

static void a_kill_while_limits_are_set_leaves_all_or_nothing(void **state)
{
    kill_at_every_step(create_hard, 9);
    assert_int_equal(registry_count(registry), 1);
}

static void a_kill_while_a_partition_is_removed_leaves_all_or_nothing(void **state)
{
    create_vgpu(PARTITIONED);
    kill_at_every_step(destroy_second, 3);
    assert_int_equal(registry_count(registry), 0);
    assert_int_equal(fake_device->parts[0].length + fake_device->parts[2].length, 0);
}

/* --- grants ----------------------------------------------------------------------------------------------------- */

static void a_partitioned_vgpu_has_the_amounts_of_its_partition(void **state)
{
    struct vgpu_info info = create_vgpu(PARTITIONED);
    const struct vgpu_slice *slice = &info.row.slice;

    assert_string_equal(slice->template_id, "half");
    assert_string_equal(slice->partition_uuid, "part-1");
    assert_string_equal(slice->address, "slice=0");
    assert_int_equal(slice->memory_bytes, 1 << 29);
    assert_int_equal(info.row.limits.memory_bytes, 1 << 29);
    assert_int_equal(info.row.limits.compute_request_milli, 500);
    assert_int_equal(info.row.limits.compute_limit_milli, 1000);
    assert_string_equal(info.environment.lines, "TEST_VISIBLE=part-1\n");
    info = create_vgpu(
        "{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\",\"memory_limit_bytes\":4096}");
    assert_int_equal(info.row.limits.memory_bytes, 4096); /* the partition has more */
    assert_int_equal(info.row.slice.memory_bytes, 1 << 29);
}

static void the_smallest_sufficient_template_is_chosen(void **state)
{
    struct vgpu_info info;

    info = create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"memory_limit_bytes\":4096}");
    assert_string_equal(info.row.slice.template_id, "quarter");
    info = create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"compute_request_milli\":300}");
    assert_string_equal(info.row.slice.template_id, "half");
    info = create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"compute_request_milli\":100}");
    assert_string_equal(info.row.slice.template_id, "quarter");
}

static void a_limit_that_a_hard_vgpu_lacks_follows_from_the_other(void **state)
{
    struct vgpu_info info = create_vgpu(HARD);

    assert_int_equal(info.row.limits.memory_bytes, (1 << 30) / 1000 * 300);
    assert_int_equal(info.row.limits.compute_request_milli, 375); /* 300, rounded up to eighths */
    assert_int_equal(info.row.slice.compute_units, 3);
    assert_non_null(strstr(info.warning, "37.5 %"));
    info = create_vgpu("{\"device\":\"test:2\",\"mode\":\"hard\",\"memory_limit_bytes\":268435456}");
    assert_int_equal(info.row.limits.compute_request_milli, 250);
    assert_string_equal(info.warning, "");
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_string_equal(info.warning, ""); /* the warning is given once */
}

/* --- rules ------------------------------------------------------------------------------------------------------ */

static void assert_refusal(const char *body, enum facet_status status, const char *argument, const char *part)
{
    struct facet_error error = {0};

    assert_int_equal(try_create_vgpu(body, &error), status);
    assert_string_equal(error.argument, argument);
    if (!strstr(error.message, part))
        fail_msg("'%s' does not say '%s'", error.message, part);
}

static void a_mode_refuses_members_it_does_not_take(void **state)
{
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"hard\"}", FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                   "memory, compute, or both");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\"}", FACET_INVALID_ARGUMENT, "template",
                   "name a template");
    assert_refusal("{\"mode\":\"shared\",\"memory_limit_bytes\":4096}", FACET_INVALID_ARGUMENT, "memory_limit_bytes",
                   "only accounts");
    assert_refusal("{\"mode\":\"shared\",\"compute_request_milli\":100}", FACET_INVALID_ARGUMENT,
                   "compute_request_milli", "only accounts");
    assert_refusal("{\"mode\":\"shared\",\"priority\":\"high\"}", FACET_INVALID_ARGUMENT, "priority", "no turns");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"hard\",\"template\":\"half\",\"memory_limit_bytes\":4096}",
                   FACET_INVALID_ARGUMENT, "template", "only mode 'partitioned'");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"hard\",\"compute_request_milli\":300,"
                   "\"compute_limit_milli\":500}",
                   FACET_INVALID_ARGUMENT, "compute_limit_milli", "its own cap");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"third\"}", FACET_NOT_FOUND,
                   "template", "half, quarter");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\","
                   "\"memory_limit_bytes\":536870913}",
                   FACET_OUT_OF_RANGE, "template", "more than template half");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"compute_request_milli\":501}", FACET_OUT_OF_RANGE,
                   "memory", "more than any of");
    assert_int_equal(registry_count(registry), 0);
}

static void a_full_device_refuses_a_partition(void **state)
{
    create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}");
    create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"memory_limit_bytes\":1}", FACET_NO_SPACE,
                   "template", "no place is free");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"memory_limit_bytes\":1}", FACET_NO_SPACE,
                   "template", "its vGPUs: vgpu-1 (half), vgpu-2 (half)");
}

static void modes_that_exclude_each_other_are_refused_by_name(void **state)
{
    create_vgpu("{\"name\":\"turns\",\"device\":\"test:2\"}");
    assert_refusal(HARD, FACET_BAD_STATE, "mode", "vGPU turns in mode 'soft'");
    assert_refusal(PARTITIONED, FACET_BAD_STATE, "mode", "vGPU turns in mode 'soft'");
    devices[SPATIAL].info.mode_group[FACET_MODE_SOFT] = 1;
    devices[SPATIAL].info.mode_group[FACET_MODE_HARD] = 1;
    create_vgpu(HARD);
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"shared\"}", FACET_BAD_STATE, "mode", "'shared'");
    assert_int_equal(registry_destroy(registry, "turns", false, &removal, NULL), FACET_OK);
    memset(devices[SPATIAL].info.mode_group, 0, sizeof devices[SPATIAL].info.mode_group);
}

static void limits_of_a_hard_vgpu_cannot_be_changed(void **state)
{
    struct request memory = request_of("{\"memory_limit_bytes\":4096}");
    struct request idle = request_of("{\"idle_freeze_s\":60}");
    struct facet_error error = {0};
    struct vgpu_info info;

    create_vgpu(HARD);
    assert_int_equal(registry_change(registry, "second", &memory, &info, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "destroy the vGPU and create it anew"));
    assert_int_equal(registry_change(registry, "second", &idle, &info, &error), FACET_OK);
    assert_int_equal(info.row.idle_freeze_s, 60);
    stop_registry();
    start_registry();
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_int_equal(info.row.idle_freeze_s, 60);
}

static void only_devices_that_can_swap_are_oversubscribed(void **state)
{
    struct facet_device_info *info = &devices[SPATIAL].info;
    struct vgpu_info made;

    assert_refusal("{\"device\":\"test:2\",\"oversubscribe\":true}", FACET_UNSUPPORTED, "oversubscribe", "NVIDIA");
    snprintf(info->address, sizeof info->address, "GPU-0");
    assert_refusal("{\"device\":\"test:2\",\"mode\":\"hard\",\"memory_limit_bytes\":4096,\"oversubscribe\":true}",
                   FACET_INVALID_ARGUMENT, "oversubscribe", "'hard' never oversubscribes");
    made = create_vgpu("{\"name\":\"much\",\"device\":\"test:2\",\"oversubscribe\":true}");
    assert_true(made.row.oversubscribe);
    assert_true(facet_owner_is_oversubscribed(client_of(made.row.id)->owner));
    stop_registry();
    start_registry();
    assert_int_equal(registry_find(registry, "much", &made, NULL), FACET_OK);
    assert_true(made.row.oversubscribe);
}

/* --- a provider that loses its state, or is lost ----------------------------------------------------------------- */

static void a_partition_that_vanished_is_made_again(void **state)
{
    struct vgpu_info before = create_vgpu(PARTITIONED), after;

    stop_registry();
    fake_device->parts[0] = (struct facet_partition_info){0};
    start_registry();
    assert_int_equal(registry_find(registry, "second", &after, NULL), FACET_OK);
    assert_string_equal(after.row.slice.partition_uuid, "part-2");
    assert_int_equal(after.row.slice.start, before.row.slice.start);
    assert_string_equal(after.environment.lines, "TEST_VISIBLE=part-2\n");
    assert_true(after.measured);
    assert_string_equal(after.warning, "");
}

/* The provider loses its partitions while the daemon runs, and numbers new ones from 1: uuids repeat. */
static void forget_partitions(void)
{
    fake_device->made_count = 0;
    memset(fake_device->parts, 0, sizeof fake_device->parts);
}

static void a_repeated_uuid_does_not_make_a_partition_ours(void **state)
{
    struct facet_partition_info foreign = {0};
    struct facet_error error = {0};

    create_vgpu(PARTITIONED);
    forget_partitions();
    assert_int_equal(make_part(NULL, 0, "quarter", 3, &foreign, NULL), FACET_OK);
    assert_string_equal(foreign.uuid, "part-1");
    assert_int_equal(registry_destroy(registry, "second", false, &removal, &error), FACET_OK);
    assert_int_equal(fake_device->parts[3].length, 1);
    assert_non_null(strstr(removal.warning, "vGPU second"));
    assert_non_null(strstr(removal.warning, "part-1 (half) was not on the device any more"));
}

static void a_partition_that_vanished_is_noticed_by_the_next_create(void **state)
{
    struct vgpu_info first = create_vgpu(PARTITIONED), other, again;

    forget_partitions();
    other = create_vgpu("{\"name\":\"other\",\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}");
    assert_int_equal(registry_find(registry, "second", &again, NULL), FACET_OK);
    assert_int_equal(again.row.slice.start, first.row.slice.start);
    assert_int_not_equal(other.row.slice.start, first.row.slice.start);
    assert_string_not_equal(other.row.slice.partition_uuid, again.row.slice.partition_uuid);
    assert_int_equal(registry_destroy(registry, "other", false, &removal, NULL), FACET_OK);
    assert_string_equal(removal.warning, "");
    assert_int_equal(fake_device->parts[again.row.slice.start].length, 2);
}

static void a_vgpu_that_lost_a_partition_in_use_has_a_warning(void **state)
{
    struct vgpu_info info;

    create_vgpu(PARTITIONED);
    memset(fake_device->parts, 0, sizeof fake_device->parts); /* the next partition has a new number and uuid */
    registry_reconcile(registry, &fake_record);
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_string_equal(info.row.slice.partition_uuid, "part-2");
    assert_non_null(strstr(info.warning, "start its programs anew"));
}

/* An earlier daemon may have left two rows with the same partition: the first row keeps the partition, and destroying
 * the second does not remove it. */
static void two_vgpus_never_have_the_same_partition(void **state)
{
    struct vgpu_info info;
    struct sqlite3 *database = NULL;
    char path[128];

    create_vgpu("{\"name\":\"first\",\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}");
    create_vgpu(PARTITIONED);
    stop_registry();
    snprintf(path, sizeof path, "%s/" STORE_FILE, folder);
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database,
                                  "UPDATE vgpu SET partition_uuid = 'part-1', start = 0 WHERE name = 'second'", NULL,
                                  NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(database);
    start_registry();
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_false(info.measured);
    assert_non_null(strstr(info.warning, "is taken"));
    assert_int_equal(registry_destroy(registry, "second", false, &removal, NULL), FACET_OK);
    assert_int_equal(fake_device->parts[0].length, 2);
    assert_int_equal(registry_destroy(registry, "first", false, &removal, NULL), FACET_OK);
    assert_int_equal(fake_device->parts[0].length, 0);
}

static void check_removal_when_the_device_is_back(const char *body)
{
    struct vgpu_info info;
    char held[512];

    create_vgpu(body);
    stop_registry();
    device_count = SPATIAL;
    start_registry();
    assert_int_equal(registry_destroy(registry, "second", false, &removal, NULL), FACET_OK);
    assert_non_null(strstr(removal.warning, "goes when the device is back"));
    registry_tidy(registry, LATER);
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_int_equal(info.state, VGPU_REMOVING);
    assert_non_null(strstr(info.warning, "is not there"));
    stop_registry();
    start_registry();
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_int_equal(info.state, VGPU_REMOVING);
    provider_describe(held, sizeof held);
    assert_string_not_equal(held, "");
    stop_registry();
    device_count = DEVICES;
    start_registry();
    assert_int_equal(registry_count(registry), 0);
    provider_describe(held, sizeof held);
    assert_string_equal(held, "");
}

static void a_partition_of_a_missing_device_is_not_forgotten(void **state)
{
    check_removal_when_the_device_is_back(PARTITIONED);
}

static void limits_of_a_missing_device_are_not_forgotten(void **state)
{
    check_removal_when_the_device_is_back(HARD);
}

/* A daemon may exit although it could not remove an ephemeral vGPU whose device is missing. */
static void a_missing_device_does_not_keep_the_daemon_running(void **state)
{
    create_vgpu("{\"device\":\"test:2\",\"mode\":\"hard\",\"memory_limit_bytes\":4096,\"ephemeral\":true}");
    stop_registry();
    device_count = SPATIAL;
    start_registry();
    assert_false(registry_idle(registry));
    registry_tidy(registry, LATER);
    assert_int_equal(registry_count(registry), 1);
    assert_true(registry_idle(registry));
}

static void a_vgpu_of_a_missing_device_can_be_removed_by_force(void **state)
{
    struct facet_error error = {0};

    create_vgpu(HARD);
    stop_registry();
    device_count = SPATIAL;
    start_registry();
    assert_int_equal(registry_destroy(registry, "second", true, &removal, NULL), FACET_OK);
    assert_int_equal(registry_destroy(registry, "second", false, &removal, &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "or with force"));
    assert_int_equal(registry_destroy(registry, "second", true, &removal, NULL), FACET_OK);
    assert_non_null(strstr(removal.warning, "is forgotten"));
    assert_int_equal(registry_count(registry), 0);
}

static void a_provider_that_comes_back_is_reconciled(void **state)
{
    struct vgpu_info info;

    create_vgpu(HARD);
    memset(fake_device->workers, 0, sizeof fake_device->workers);
    registry_reconcile(registry, &fake_record);
    assert_non_null(worker_of(client_of(scheduler.clients[0].id)->id));
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_string_equal(info.warning, "");
}

static void a_partition_whose_place_was_taken_is_reported(void **state)
{
    struct vgpu_info info;

    create_vgpu(PARTITIONED);
    stop_registry();
    snprintf(fake_device->parts[0].uuid, sizeof fake_device->parts[0].uuid, "of another owner");
    start_registry();
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_false(info.measured);
    assert_non_null(strstr(info.warning, "slice 0 is taken"));
    assert_string_equal(fake_device->parts[0].uuid, "of another owner");
    fake_device->parts[0] = (struct facet_partition_info){0};
    registry_tidy(registry, LATER);
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_true(info.measured);
    assert_string_equal(info.warning, "");
}

static void a_lost_provider_is_reported_and_blocks_only_calls_that_need_it(void **state)
{
    struct facet_error error = {0};
    struct vgpu_info info;

    create_vgpu(PARTITIONED);
    fake_device->lost = true;
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_non_null(strstr(info.warning, "the provider is lost"));
    assert_int_equal(try_create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"half\"}", &error),
                     FACET_DEVICE_LOST);
    assert_int_equal(registry_destroy(registry, "second", false, &removal, &error), FACET_DEVICE_LOST);
    assert_int_equal(registry_destroy(registry, "second", true, &removal, &error), FACET_OK);
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_int_equal(info.state, VGPU_REMOVING);
    stop_registry();
    start_registry();
    assert_int_equal(registry_find(registry, "second", &info, NULL), FACET_OK);
    assert_int_equal(info.state, VGPU_REMOVING);
    fake_device->lost = false;
    registry_reconcile(registry, &fake_record);
    assert_int_equal(registry_count(registry), 0);
    assert_int_equal(fake_device->parts[0].length, 0);
}

static void a_partition_in_use_stays_with_its_vgpu(void **state)
{
    struct facet_error error = {0};
    char before[2048], after[2048];

    create_vgpu(PARTITIONED);
    snapshot(before, sizeof before);
    fake_device->parts[0].in_use = 1;
    assert_int_equal(registry_destroy(registry, "second", true, &removal, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, "part-1 is in use"));
    snapshot(after, sizeof after);
    assert_string_equal(after, before);
}

static void partitions_without_an_owner_are_left_alone(void **state)
{
    struct facet_partition_info info = {0};
    char owner[FACET_NAME_SIZE];

    assert_int_equal(make_part(NULL, 0, "quarter", 3, &info, NULL), FACET_OK);
    create_vgpu(PARTITIONED);
    stop_registry();
    start_registry();
    assert_int_equal(registry_destroy(registry, "second", false, &removal, NULL), FACET_OK);
    assert_int_equal(fake_device->parts[3].length, 1);
    assert_false(registry_partition_owner(registry, &devices[SPATIAL], &info, owner));
}

int main(void)
{
#define MODES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        MODES_TEST(creating_a_partition_is_all_or_nothing),
        MODES_TEST(creating_hard_limits_is_all_or_nothing),
        MODES_TEST(destroying_a_partition_is_all_or_nothing),
        MODES_TEST(destroying_hard_limits_is_all_or_nothing),
        MODES_TEST(a_vgpu_that_cannot_be_rolled_back_is_visible_and_removed_later),
        MODES_TEST(a_kill_while_a_partition_is_made_leaves_all_or_nothing),
        MODES_TEST(a_kill_while_limits_are_set_leaves_all_or_nothing),
        MODES_TEST(a_kill_while_a_partition_is_removed_leaves_all_or_nothing),
        MODES_TEST(a_partitioned_vgpu_has_the_amounts_of_its_partition),
        MODES_TEST(the_smallest_sufficient_template_is_chosen),
        MODES_TEST(a_limit_that_a_hard_vgpu_lacks_follows_from_the_other),
        MODES_TEST(a_mode_refuses_members_it_does_not_take),
        MODES_TEST(a_full_device_refuses_a_partition),
        MODES_TEST(modes_that_exclude_each_other_are_refused_by_name),
        MODES_TEST(limits_of_a_hard_vgpu_cannot_be_changed),
        MODES_TEST(a_partition_that_vanished_is_made_again),
        MODES_TEST(a_repeated_uuid_does_not_make_a_partition_ours),
        MODES_TEST(a_partition_that_vanished_is_noticed_by_the_next_create),
        MODES_TEST(a_vgpu_that_lost_a_partition_in_use_has_a_warning),
        MODES_TEST(two_vgpus_never_have_the_same_partition),
        MODES_TEST(a_partition_of_a_missing_device_is_not_forgotten),
        MODES_TEST(only_devices_that_can_swap_are_oversubscribed),
        MODES_TEST(limits_of_a_missing_device_are_not_forgotten),
        MODES_TEST(a_missing_device_does_not_keep_the_daemon_running),
        MODES_TEST(a_vgpu_of_a_missing_device_can_be_removed_by_force),
        MODES_TEST(a_provider_that_comes_back_is_reconciled),
        MODES_TEST(a_partition_whose_place_was_taken_is_reported),
        MODES_TEST(a_lost_provider_is_reported_and_blocks_only_calls_that_need_it),
        MODES_TEST(a_partition_in_use_stays_with_its_vgpu),
        MODES_TEST(partitions_without_an_owner_are_left_alone),
    };

    return cmocka_run_group_tests_name("modes", tests, NULL, NULL);
}
