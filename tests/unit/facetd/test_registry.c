/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a change to a vGPU happens in database, segment and scheduler, or nowhere, whichever step fails.
 * Never: starts threads. The scheduler and the devices are fakes; database and segments are the real ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "registry_setup.h"

static enum facet_status act_create(struct facet_error *error)
{
    return try_create_vgpu("{\"name\":\"second\",\"compute_request_milli\":200}", error);
}

static enum facet_status act_change(struct facet_error *error)
{
    struct request request = request_of("{\"memory_limit_bytes\":4096,\"compute_request_milli\":700}");
    struct vgpu_info info;

    return registry_change(registry, "first", &request, &info, error);
}

static enum facet_status act_freeze(struct facet_error *error)
{
    struct vgpu_info info;

    return registry_set_frozen(registry, "first", true, &info, error);
}

static enum facet_status act_destroy(struct facet_error *error)
{
    return registry_destroy(registry, "first", false, &removal, error);
}

static void creating_a_vgpu_is_all_or_nothing(void **state)
{
    create_vgpu("{\"name\":\"first\"}");
    fail_every_step(act_create, 6); /* begin, insert, lock file, segment, schedule, commit */
    assert_int_equal(registry_count(registry), 2);
}

static void changing_a_vgpu_is_all_or_nothing(void **state)
{
    struct vgpu_info info;

    create_vgpu("{\"name\":\"first\"}");
    fail_every_step(act_change, 5); /* begin, update, set limits, set frozen, commit */
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_int_equal(info.row.limits.memory_bytes, 4096);
    assert_int_equal(info.row.limits.compute_request_milli, 700);
}

static void freezing_a_vgpu_is_all_or_nothing_and_survives_a_restart(void **state)
{
    struct vgpu_info info;

    create_vgpu("{\"name\":\"first\"}");
    fail_every_step(act_freeze, 5); /* begin, update, set limits, set frozen, commit */
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_int_equal(info.state, VGPU_FROZEN);
    assert_true(client_of(info.row.id)->frozen);
}

static void destroying_a_vgpu_is_all_or_nothing(void **state)
{
    create_vgpu("{\"name\":\"first\"}");
    create_vgpu("{\"name\":\"other\"}");
    fail_every_step(act_destroy, 3); /* begin, delete, commit */
    assert_int_equal(registry_count(registry), 1);
}

/* --- rules ---------------------------------------------------------------------------------------------------- */

static void defaults_are_the_whole_first_device(void **state)
{
    struct vgpu_info first = create_vgpu("{}"), second = create_vgpu("{}");

    assert_string_equal(first.row.name, "vgpu-1");
    assert_string_equal(second.row.name, "vgpu-2");
    assert_string_equal(first.row.device_id, "test:0");
    assert_int_equal(first.row.limits.memory_bytes, devices[0].info.memory_bytes);
    assert_int_equal(first.row.limits.compute_request_milli, 0);
    assert_int_equal(first.row.limits.compute_limit_milli, FACET_MILLI_WHOLE);
    assert_int_equal(first.state, VGPU_IDLE);
    assert_string_equal(first.warning, "");
    assert_int_equal(strlen(first.row.id), 16);
    assert_string_not_equal(first.row.id, second.row.id);
}

static void assert_refusal(const char *body, enum facet_status expected, const char *argument)
{
    struct facet_error error = {0};

    assert_int_equal(try_create_vgpu(body, &error), expected);
    assert_string_equal(error.argument, argument);
}

static void a_refused_request_creates_nothing(void **state)
{
    char before[2048], after[2048], body[64];
    struct vgpu_info first = create_vgpu("{\"name\":\"first\"}");

    snapshot(before, sizeof before);
    assert_refusal("{\"name\":\"first\"}", FACET_ALREADY_EXISTS, "name");
    snprintf(body, sizeof body, "{\"name\":\"%s\"}", first.row.id);
    assert_refusal(body, FACET_ALREADY_EXISTS, "name");
    assert_refusal("{\"device\":\"test:9\"}", FACET_NOT_FOUND, "device");
    assert_refusal("{\"memory_limit_bytes\":1073741825}", FACET_OUT_OF_RANGE, "memory");
    assert_refusal("{\"compute_request_milli\":500,\"compute_limit_milli\":200}", FACET_OUT_OF_RANGE, "compute");
    assert_refusal("{\"mode\":\"hard\"}", FACET_UNSUPPORTED, "mode");
    assert_refusal("{\"mode\":\"partitioned\"}", FACET_UNSUPPORTED, "mode");
    snapshot(after, sizeof after);
    assert_string_equal(after, before);
}

static void a_refusal_of_an_unsupported_mode_names_the_supported_ones(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(try_create_vgpu("{\"mode\":\"hard\"}", &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "shared, soft"));
}

static void a_change_that_does_not_fit_changes_nothing(void **state)
{
    struct request request = request_of("{\"compute_limit_milli\":200}");
    struct facet_error error = {0};
    struct vgpu_info info;

    create_vgpu("{\"name\":\"first\",\"compute_request_milli\":500}");
    assert_int_equal(registry_change(registry, "first", &request, &info, &error), FACET_OUT_OF_RANGE);
    assert_int_equal(registry_change(registry, "unknown", &request, &info, &error), FACET_NOT_FOUND);
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_int_equal(info.row.limits.compute_limit_milli, FACET_MILLI_WHOLE);
}

static void guarantees_above_the_whole_cause_a_warning(void **state)
{
    struct vgpu_info info;

    create_vgpu("{\"name\":\"a\",\"compute_request_milli\":600}");
    create_vgpu("{\"name\":\"elsewhere\",\"device\":\"test:1\",\"compute_request_milli\":900}");
    info = create_vgpu("{\"name\":\"b\",\"compute_request_milli\":400}");
    assert_string_equal(info.warning, "");
    info = create_vgpu("{\"name\":\"c\",\"compute_request_milli\":305}");
    assert_non_null(strstr(info.warning, "130.5 %"));
    info = create_vgpu("{\"name\":\"best-effort\"}");
    assert_string_equal(info.warning, "");
    assert_int_equal(registry_find(registry, "a", &info, NULL), FACET_OK);
    assert_non_null(strstr(info.warning, "test:0"));
}

/* Each device has 1 GiB. A vGPU whose request names no limit may use the whole device, and causes no warning. */
static void limits_above_the_whole_cause_one_warning(void **state)
{
    struct request request = request_of("{\"memory_limit_bytes\":838860800}");
    struct vgpu_info info = create_vgpu("{\"name\":\"a\",\"memory_limit_bytes\":805306368}");

    assert_string_equal(info.warning, "");
    create_vgpu("{\"name\":\"elsewhere\",\"device\":\"test:1\",\"memory_limit_bytes\":805306368}");
    info = create_vgpu("{\"name\":\"b\",\"memory_limit_bytes\":268435456}");
    assert_string_equal(info.warning, "");
    info = create_vgpu("{\"name\":\"c\",\"memory_limit_bytes\":536870912}");
    assert_non_null(strstr(info.warning, "limits on test:0 add up to 1.5 GiB of 1 GiB"));
    assert_int_equal(registry_find(registry, "c", &info, NULL), FACET_OK);
    assert_string_equal(info.warning, "");
    assert_int_equal(registry_destroy(registry, "c", false, &removal, NULL), FACET_OK);
    assert_int_equal(registry_change(registry, "a", &request, &info, NULL), FACET_OK);
    assert_non_null(strstr(info.warning, "limits on test:0 add up to"));
    info = create_vgpu("{\"name\":\"all\"}");
    assert_string_equal(info.warning, "");
}

static void a_held_vgpu_is_not_destroyed_without_force(void **state)
{
    struct vgpu_info info = create_vgpu("{\"name\":\"first\"}");
    struct facet_error error = {0};
    int hold = -1;

    assert_int_equal(facet_hold_acquire(info.segment, &hold, NULL), FACET_OK);
    assert_false(registry_idle(registry));
    assert_int_equal(registry_destroy(registry, "first", false, &removal, &error), FACET_BUSY);
    assert_non_null(strstr(error.message, "first"));
    assert_int_equal(registry_destroy(registry, "first", true, &removal, NULL), FACET_OK);
    assert_int_equal(registry_count(registry), 0);
    close(hold);
}

static void an_ephemeral_vgpu_ends_without_a_holder(void **state)
{
    const uint64_t later = facet_clock_now_ns() + 3600 * FACET_NS_PER_S;
    struct vgpu_info info = create_vgpu("{\"name\":\"brief\",\"ephemeral\":true}");
    int hold = -1;

    create_vgpu("{\"name\":\"lasting\"}");
    registry_tidy(registry, facet_clock_now_ns() - FACET_NS_PER_S);
    assert_int_equal(registry_count(registry), 2); /* the vGPU is too young to be removed */
    assert_int_equal(facet_hold_acquire(info.segment, &hold, NULL), FACET_OK);
    registry_tidy(registry, later);
    assert_int_equal(registry_count(registry), 2);
    assert_false(registry_idle(registry));
    close(hold);
    registry_tidy(registry, later);
    assert_int_equal(registry_count(registry), 1);
    assert_int_equal(access(info.segment, F_OK), -1);
    assert_true(registry_idle(registry));
}

static void an_ephemeral_vgpu_survives_a_restart_while_it_is_held(void **state)
{
    struct vgpu_info held = create_vgpu("{\"name\":\"held\",\"ephemeral\":true}");
    struct vgpu_info info;
    int hold = -1;

    create_vgpu("{\"name\":\"left\",\"ephemeral\":true}");
    assert_int_equal(facet_hold_acquire(held.segment, &hold, NULL), FACET_OK);
    stop_registry();
    start_registry();
    registry_tidy(registry, facet_clock_now_ns()); /* the maker of a new vGPU may still become its holder */
    assert_int_equal(registry_find(registry, "left", &info, NULL), FACET_OK);
    registry_tidy(registry, facet_clock_now_ns() + 3 * FACET_NS_PER_S);
    assert_int_equal(registry_find(registry, "held", &info, NULL), FACET_OK);
    assert_int_equal(registry_find(registry, "left", &info, NULL), FACET_NOT_FOUND);
    close(hold);
}

static void a_removal_that_fails_is_tried_again(void **state)
{
    const uint64_t later = facet_clock_now_ns() + 3600 * FACET_NS_PER_S;

    create_vgpu("{\"ephemeral\":true}");
    steps = 0;
    fail_at = 1;
    registry_tidy(registry, later);
    fail_at = 0;
    assert_int_equal(registry_count(registry), 1);
    registry_tidy(registry, later + 60 * FACET_NS_PER_S);
    assert_int_equal(registry_count(registry), 0);
}

/* --- restarting ----------------------------------------------------------------------------------------------- */

static void a_missing_segment_is_made_anew(void **state)
{
    struct vgpu_info info = create_vgpu("{\"name\":\"first\"}");

    stop_registry();
    assert_int_equal(facet_owner_remove(info.segment, NULL), FACET_OK);
    start_registry();
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_true(info.measured);
    assert_int_equal(access(info.segment, F_OK), 0);
}

static void a_corrupt_segment_is_moved_aside(void **state)
{
    struct vgpu_info info = create_vgpu("{\"name\":\"first\"}");
    char path[FACET_PATH_SIZE + 16];

    for (int n = 1; n <= 2; n++) {
        stop_registry();
        snprintf(path, sizeof path, "%s/policy", info.segment);
        assert_int_equal(truncate(path, 10), 0);
        start_registry();
        assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
        assert_true(info.measured);
        snprintf(path, sizeof path, "%s.corrupt-%d", info.segment, n);
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void a_device_that_has_gone_leaves_its_vgpu_waiting(void **state)
{
    struct request request = request_of("{\"memory_limit_bytes\":4096}");
    struct vgpu_info info;

    create_vgpu("{\"name\":\"first\",\"device\":\"test:1\"}");
    stop_registry();
    device_count = 1;
    start_registry();
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_false(info.measured);
    assert_non_null(strstr(info.warning, "test:1"));
    assert_int_equal(registry_change(registry, "first", &request, &info, NULL), FACET_BAD_STATE);
    assert_int_equal(registry_set_frozen(registry, "first", true, &info, NULL), FACET_OK);

    stop_registry();
    device_count = 2;
    start_registry();
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_true(info.measured);
    assert_string_equal(info.warning, "");
    assert_int_equal(info.state, VGPU_FROZEN);

    stop_registry();
    device_count = 1;
    start_registry();
    assert_int_equal(registry_destroy(registry, "first", false, &removal, NULL), FACET_OK);
    assert_int_equal(access(info.segment, F_OK), -1);
}

static void a_segment_that_cannot_be_made_keeps_its_vgpu(void **state)
{
    struct vgpu_info info = create_vgpu("{\"name\":\"first\"}");

    stop_registry();
    assert_int_equal(facet_owner_remove(info.segment, NULL), FACET_OK);
    steps = 0;
    fail_at = 2; /* step 1 makes the lock file, step 2 the segment */
    start_registry();
    fail_at = 0;
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_false(info.measured);
    assert_non_null(strstr(info.warning, "step 2 failed"));
    stop_registry();
    start_registry();
    assert_int_equal(registry_find(registry, "first", &info, NULL), FACET_OK);
    assert_true(info.measured);
}

/* Leaves a segment without a row, as after a database was moved aside. */
static void forget_row(const char *id)
{
    struct store *store = NULL;

    assert_int_equal(store_open(folder, &store, NULL), FACET_OK);
    assert_int_equal(store_begin(store, NULL), FACET_OK);
    assert_int_equal(store_delete(store, id, NULL), FACET_OK);
    assert_int_equal(store_commit(store, NULL), FACET_OK);
    store_close(store);
}

static void stray_segments_are_removed_unless_a_process_holds_them(void **state)
{
    char path[FACET_PATH_SIZE + 16], half_made[128];
    struct vgpu_info held = create_vgpu("{}"), left = create_vgpu("{}");
    int hold = -1;

    assert_int_equal(facet_hold_acquire(held.segment, &hold, NULL), FACET_OK);
    snprintf(half_made, sizeof half_made, "%s/vgpu/00000000000000ee.new", folder);
    snprintf(path, sizeof path, "%s/policy", half_made);
    assert_int_equal(mkdir(half_made, 0700), 0);
    fclose(fopen(path, "w"));
    stop_registry();
    forget_row(held.row.id);
    forget_row(left.row.id);
    start_registry();
    assert_int_equal(registry_count(registry), 0);
    assert_int_equal(access(held.segment, F_OK), 0);
    assert_int_equal(access(left.segment, F_OK), -1);
    assert_int_equal(access(half_made, F_OK), -1);

    close(hold);
    stop_registry();
    start_registry();
    assert_int_equal(access(held.segment, F_OK), -1);
}

int main(void)
{
#define REGISTRY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        REGISTRY_TEST(creating_a_vgpu_is_all_or_nothing),
        REGISTRY_TEST(changing_a_vgpu_is_all_or_nothing),
        REGISTRY_TEST(freezing_a_vgpu_is_all_or_nothing_and_survives_a_restart),
        REGISTRY_TEST(destroying_a_vgpu_is_all_or_nothing),
        REGISTRY_TEST(defaults_are_the_whole_first_device),
        REGISTRY_TEST(a_refused_request_creates_nothing),
        REGISTRY_TEST(a_refusal_of_an_unsupported_mode_names_the_supported_ones),
        REGISTRY_TEST(a_change_that_does_not_fit_changes_nothing),
        REGISTRY_TEST(guarantees_above_the_whole_cause_a_warning),
        REGISTRY_TEST(limits_above_the_whole_cause_one_warning),
        REGISTRY_TEST(a_held_vgpu_is_not_destroyed_without_force),
        REGISTRY_TEST(an_ephemeral_vgpu_ends_without_a_holder),
        REGISTRY_TEST(an_ephemeral_vgpu_survives_a_restart_while_it_is_held),
        REGISTRY_TEST(a_removal_that_fails_is_tried_again),
        REGISTRY_TEST(a_missing_segment_is_made_anew),
        REGISTRY_TEST(a_corrupt_segment_is_moved_aside),
        REGISTRY_TEST(a_device_that_has_gone_leaves_its_vgpu_waiting),
        REGISTRY_TEST(a_segment_that_cannot_be_made_keeps_its_vgpu),
        REGISTRY_TEST(stray_segments_are_removed_unless_a_process_holds_them),
    };

    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
