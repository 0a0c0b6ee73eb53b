/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that reservations are transactions, whichever inner call fails and wherever the daemon is killed; their
 * state after a restart; devices that have gone; the division between vGPUs and reservations. Amounts are micro-units:
 * FACET_AMOUNT_ONE, 1000000, is a whole device, of which there are three.
 * Never: asks a real provider.
 */
#include "registry_setup.h"

#include <sys/wait.h>

#include <facet/allocation.h>

/* --- helpers ------------------------------------------------------------------------------------------------------ */

static enum facet_status reserve_slot(const char *slot, int64_t amount, const char *name,
                                      struct reservation *ret_reservation, struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation wanted = {0};

    snprintf(wanted.name, sizeof wanted.name, "%s", name);
    assert_int_equal(reservation_add_item(&wanted, slot, amount, NULL), FACET_OK);
    return registry_reservation_create(registry, &wanted, false, ret_reservation, error);
}

static void must_reserve(int64_t amount, const char *name)
{
    CLEANUP_RESERVATION struct reservation got = {0};
    struct facet_error error = {0};

    if (reserve_slot("test.device", amount, name, &got, &error) != FACET_OK)
        fail_msg("%s", error.message);
}

/* Describes the visible reservations: "a[test:0 1000000, test:1 500000!]"; "!" follows a part that has a trouble. */
static void describe_reservations(char *text, size_t size)
{
    CLEANUP_RESERVATIONS struct reservation_list list = {0};
    size_t used = 0;

    text[0] = '\0';
    assert_int_equal(registry_reservation_list(registry, &list, NULL), FACET_OK);
    for (size_t i = 0; i < list.count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s[", list.items[i].name);
        for (uint32_t j = 0; j < list.items[i].part_count; j++) {
            const struct reservation_part *part = &list.items[i].parts[j];
            used += (size_t)snprintf(text + used, size - used, "%s%s %lld%s", j ? ", " : "", part->facet_id,
                                     (long long)part->amount, part->trouble[0] ? "!" : "");
        }
        used += (size_t)snprintf(text + used, size - used, "]");
    }
}

static void assert_reserved(const char *expected)
{
    char text[1024];

    describe_reservations(text, sizeof text);
    assert_string_equal(text, expected);
}

static void restart_registry(void)
{
    stop_registry();
    start_registry();
}

/* The free amount of all devices together, found by dry runs in steps of a hundredth of a device. */
static int64_t free_now(void)
{
    int64_t most = 0;

    for (int64_t amount = 10000; amount <= 3 * FACET_AMOUNT_ONE; amount += 10000) {
        CLEANUP_RESERVATION struct reservation wanted = {.strategy = FACET_MAP_FILL}, got = {0};
        assert_int_equal(reservation_add_item(&wanted, "test.device", amount, NULL), FACET_OK);
        if (registry_reservation_create(registry, &wanted, true, &got, NULL) == FACET_OK)
            most = amount;
    }
    return most;
}

/* --- the usual case ----------------------------------------------------------------------------------------------- */

static void reservations_come_back_after_a_restart(void **state)
{
    struct facet_error error = {0};
    struct reservation got = {0};

    must_reserve(1500000, "a");
    must_reserve(1000000, "b");
    assert_reserved("a[test:1 750000, test:2 750000]b[test:0 1000000]");
    restart_registry();
    assert_reserved("a[test:1 750000, test:2 750000]b[test:0 1000000]");
    assert_int_equal(free_now(), 500000);
    assert_int_equal(reserve_slot("test.device", 510000, "", &got, &error), FACET_NO_SPACE);
    assert_string_equal(error.argument, "slots");
    must_reserve(500000, "c");
    assert_int_equal(free_now(), 0);
}

static void a_reservation_is_released_once(void **state)
{
    struct facet_error error = {0};

    must_reserve(500000, "a");
    must_reserve(500000, "b");
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_OK);
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_NOT_FOUND);
    assert_string_equal(error.argument, "reservation");
    assert_int_equal(free_now(), 2500000);
    restart_registry();
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_NOT_FOUND);
    assert_int_equal(free_now(), 2500000);
}

static void names_are_generated_and_unique(void **state)
{
    struct reservation got = {0};

    must_reserve(10000, "");
    must_reserve(10000, "reservation-2");
    must_reserve(10000, "");
    assert_reserved("reservation-1[test:2 10000]reservation-2[test:2 10000]reservation-3[test:2 10000]");
    assert_int_equal(reserve_slot("test.device", 10000, "reservation-2", &got, NULL), FACET_ALREADY_EXISTS);
}

static void a_dry_run_leaves_nothing(void **state)
{
    CLEANUP_RESERVATION struct reservation wanted = {0}, got = {0};

    assert_int_equal(reservation_add_item(&wanted, "test.device", 2500000, NULL), FACET_OK);
    assert_int_equal(registry_reservation_create(registry, &wanted, true, &got, NULL), FACET_OK);
    assert_string_equal(got.id, "");
    assert_int_equal(got.part_count, 3);
    assert_reserved("");
    restart_registry();
    assert_reserved("");
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static enum facet_status act_reserve(struct facet_error *error)
{
    CLEANUP_RESERVATION struct reservation got = {0};

    return reserve_slot("test.device", 1200000, "new", &got, error);
}

static enum facet_status act_release(struct facet_error *error)
{
    return registry_reservation_release(registry, "old", error);
}

/* A step that fails changes nothing, in memory and on disk; and the operation succeeds afterwards. `act` has at least
 * `least_steps` steps. */
static void fail_at_every_step(enum facet_status (*act)(struct facet_error *error), unsigned least_steps)
{
    char before[1024], after[1024];
    unsigned step = 0;
    enum facet_status status;

    describe_reservations(before, sizeof before);
    do {
        struct facet_error error = {0};

        assert_true(++step < 100);
        steps = 0;
        fail_at = step;
        status = act(&error);
        fail_at = 0;
        if (status == FACET_OK)
            break;
        assert_string_not_equal(error.message, "");
        assert_reserved(before);
        restart_registry();
        assert_reserved(before);
    } while (true);
    assert_true(step > least_steps);
    describe_reservations(after, sizeof after);
    assert_string_not_equal(after, before);
    restart_registry();
    assert_reserved(after);
}

static void a_failing_step_reserves_nothing(void **state)
{
    must_reserve(1800000, "old");
    fail_at_every_step(act_reserve, 3);
    assert_int_equal(free_now(), 0);
}

static void a_failing_step_releases_nothing(void **state)
{
    must_reserve(1800000, "old");
    fail_at_every_step(act_release, 3);
    assert_int_equal(free_now(), 3 * FACET_AMOUNT_ONE);
}

/* Runs `act` in a child that dies at the step. Returns whether `act` ended before that step. */
static bool die_at_step(enum facet_status (*act)(struct facet_error *error), unsigned step)
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

/* The commit is the last step. A daemon that is killed at the commit or earlier has acknowledged nothing. `act` has at
 * least `least_steps` steps. */
static void kill_at_every_step(enum facet_status (*act)(struct facet_error *error), unsigned least_steps)
{
    char before[1024];
    unsigned step = 0;

    describe_reservations(before, sizeof before);
    while (!die_at_step(act, ++step)) {
        assert_true(step < 100);
        assert_reserved(before);
    }
    assert_true(step > least_steps);
}

static void a_kill_while_reserving_leaves_all_or_nothing(void **state)
{
    must_reserve(1800000, "old");
    kill_at_every_step(act_reserve, 3);
    assert_reserved("old[test:1 900000, test:2 900000]new[test:0 1000000, test:1 100000, test:2 100000]");
    assert_int_equal(free_now(), 0);
}

static void a_kill_while_releasing_leaves_all_or_nothing(void **state)
{
    must_reserve(1800000, "old");
    kill_at_every_step(act_release, 3);
    assert_reserved("");
    assert_int_equal(free_now(), 3 * FACET_AMOUNT_ONE);
}

/* --- devices that change ------------------------------------------------------------------------------------------ */

static void a_reservation_keeps_and_marks_a_device_that_has_gone(void **state)
{
    must_reserve(2500000, "a");
    device_count = 2;
    restart_registry();
    assert_reserved("a[test:0 840000, test:1 830000, test:2 830000!]");
    assert_int_equal(free_now(), 330000);
    must_reserve(300000, "b");
    restart_registry();
    device_count = DEVICES;
    restart_registry();
    assert_reserved("a[test:0 840000, test:1 830000, test:2 830000]b[test:1 150000, test:0 150000]");
    assert_int_equal(free_now(), 200000);
}

static void a_lost_provider_grants_nothing_and_takes_nothing(void **state)
{
    struct reservation got = {0};

    must_reserve(500000, "a");
    fake_device->lost = true;
    assert_int_equal(reserve_slot("test.device", 100000, "b", &got, NULL), FACET_NOT_FOUND);
    assert_reserved("a[test:2 500000!]");
    assert_int_equal(registry_reservation_release(registry, "a", NULL), FACET_OK);
    fake_device->lost = false;
    assert_int_equal(free_now(), 3 * FACET_AMOUNT_ONE);
}

static void a_device_partitioned_by_others_is_not_offered_as_a_whole(void **state)
{
    must_reserve(3000000, "all");
    fake_device->parts[0] = (struct facet_partition_info){.length = 1, .uuid = "foreign", .template_id = "quarter"};
    restart_registry();
    assert_reserved("all[test:0 1000000, test:1 1000000, test:2 1000000!]");
    CLEANUP_RESERVATION struct reservation got = {0};
    assert_int_equal(reserve_slot("test.device:quarter", FACET_AMOUNT_ONE, "part", &got, NULL), FACET_OK);
    assert_string_equal(got.parts[0].device, "foreign");
    assert_string_equal(got.parts[0].facet_id, "test:2");
    memset(&fake_device->parts[0], 0, sizeof fake_device->parts[0]);
    restart_registry();
    assert_reserved("all[test:0 1000000, test:1 1000000, test:2 1000000]part[test:2 1000000!]");
}

/* Where a provider breaks the ABI's rules for one device, its other devices are still granted. */
static void partitions_without_identity_block_no_others(void **state)
{
    static const struct {
        const char *uuid, *template_id;
    } bad[] = {{"", "quarter"}, {"same", "quarter"}, {"same", ""}, {"", ""}};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (uint32_t at = 0; at < 2; at++) {
            struct facet_partition_info *part = &fake_device->parts[at];
            *part = (struct facet_partition_info){.length = 1, .start = at};
            snprintf(part->uuid, sizeof part->uuid, "%s", bad[i].uuid);
            snprintf(part->template_id, sizeof part->template_id, "%s", bad[i].template_id);
        }
        assert_int_equal(free_now(), 2000000);
    }
    CLEANUP_RESERVATION struct reservation got = {0};
    for (uint32_t at = 0; at < 2; at++)
        snprintf(fake_device->parts[at].uuid, sizeof fake_device->parts[at].uuid, "same");
    snprintf(fake_device->parts[0].template_id, sizeof fake_device->parts[0].template_id, "quarter");
    snprintf(fake_device->parts[1].template_id, sizeof fake_device->parts[1].template_id, "quarter");
    assert_int_equal(reserve_slot("test.device:quarter", FACET_AMOUNT_ONE, "part", &got, NULL), FACET_OK);
    assert_int_equal(reserve_slot("test.device:quarter", FACET_AMOUNT_ONE, "more", &got, NULL), FACET_NO_SPACE);
}

static void a_device_whose_partitions_are_unknown_is_not_offered(void **state)
{
    must_reserve(500000, "a");
    assert_reserved("a[test:2 500000]");
    fake_device->unreadable = true;
    assert_int_equal(free_now(), 2000000);
    assert_reserved("a[test:2 500000!]");
    fake_device->unreadable = false;
    assert_int_equal(free_now(), 2500000);
}

/* --- random operations -------------------------------------------------------------------------------------------- */

/* The sum of all granted amounts. Asserts that no device grants more than 1. */
static int64_t granted_now(void)
{
    CLEANUP_RESERVATIONS struct reservation_list list = {0};
    int64_t device[DEVICES] = {0}, sum = 0;

    assert_int_equal(registry_reservation_list(registry, &list, NULL), FACET_OK);
    for (size_t i = 0; i < list.count; i++) {
        int64_t parts = 0;
        for (uint32_t j = 0; j < list.items[i].part_count; j++) {
            device[list.items[i].parts[j].facet_id[5] - '0'] += list.items[i].parts[j].amount;
            parts += list.items[i].parts[j].amount;
        }
        assert_int_equal(parts, list.items[i].items[0].amount);
        sum += parts;
    }
    for (int i = 0; i < DEVICES; i++)
        assert_in_range(device[i], 0, FACET_AMOUNT_ONE);
    return sum;
}

static int64_t reserve_any(int64_t amount, uint32_t strategy, uint32_t affinity)
{
    CLEANUP_RESERVATION struct reservation wanted = {.strategy = strategy, .affinity = affinity}, got = {0};

    assert_int_equal(reservation_add_item(&wanted, "test.device", amount, NULL), FACET_OK);
    return registry_reservation_create(registry, &wanted, false, &got, NULL) == FACET_OK ? amount : 0;
}

static int64_t release_any(unsigned which)
{
    CLEANUP_RESERVATIONS struct reservation_list list = {0};

    assert_int_equal(registry_reservation_list(registry, &list, NULL), FACET_OK);
    if (list.count == 0)
        return 0;
    const struct reservation *chosen = &list.items[which % list.count];
    return registry_reservation_release(registry, chosen->id, NULL) == FACET_OK ? chosen->items[0].amount : 0;
}

/*
 * After requests, releases, restarts and failing steps in any order, the grants are those given and not yet released.
 */
static void no_order_of_operations_grants_too_much_or_loses_a_grant(void **state)
{
    uint64_t random = 0x9e3779b97f4a7c15;
    int64_t sum = 0;

    for (int step = 0; step < 600; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned dice = (unsigned)(random >> 33);
        steps = 0;
        fail_at = dice % 5 == 0 ? 1 + dice / 5 % 4 : 0;
        if (dice % 16 < 8)
            sum += reserve_any(10000 * (1 + dice / 16 % 150), dice / 2400 % 2, dice / 4800 % 3);
        else if (dice % 16 < 15)
            sum -= release_any(dice / 16);
        fail_at = 0;
        if (dice % 16 == 15)
            restart_registry();
        assert_int_equal(granted_now(), sum);
    }
    assert_int_equal(free_now(), 3 * FACET_AMOUNT_ONE - sum);
}

/* --- vGPUs -------------------------------------------------------------------------------------------------------- */

#define HARD "{\"device\":\"test:2\",\"mode\":\"hard\",\"compute_request_milli\":500"

static void slots_of_a_hard_vgpu_are_not_granted(void **state)
{
    create_vgpu(HARD "}");
    assert_int_equal(free_now(), 2500000);
    restart_registry();
    assert_int_equal(free_now(), 2500000);
    registry_destroy(registry, "vgpu-1", false, &removal, NULL);
    assert_int_equal(free_now(), 3000000);
}

/* The device has lost the partition and looks free; the partition is made again as soon as the provider can. */
static void slots_of_a_partitioned_vgpu_are_not_granted_while_its_partition_is_gone(void **state)
{
    struct facet_error error = {0};

    create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"quarter\"}");
    assert_int_equal(free_now(), 2000000);
    memset(fake_device->parts, 0, sizeof fake_device->parts);
    assert_int_equal(free_now(), 2000000);
    registry_destroy(registry, "vgpu-1", true, &removal, &error);
    assert_int_equal(free_now(), 3000000);
}

static void reserved_slots_are_refused_to_hard_vgpus(void **state)
{
    struct facet_error error = {0};

    must_reserve(600000, "a");
    assert_reserved("a[test:2 600000]");
    assert_int_equal(try_create_vgpu(HARD "}", &error), FACET_NO_SPACE);
    assert_string_equal(error.argument, "reservation");
    assert_int_equal(
        try_create_vgpu("{\"device\":\"test:2\",\"mode\":\"partitioned\",\"template\":\"quarter\"}", &error),
        FACET_BAD_STATE);
    assert_int_equal(try_create_vgpu("{\"device\":\"test:2\"}", &error), FACET_OK);
    registry_destroy(registry, "vgpu-1", false, &removal, NULL);
    assert_int_equal(try_create_vgpu("{\"device\":\"test:2\",\"mode\":\"hard\",\"compute_request_milli\":400}", &error),
                     FACET_OK);
    assert_int_equal(free_now(), 2000000);
}

static void a_vgpu_in_a_reservation_stays_within_it(void **state)
{
    struct facet_error error = {0};

    must_reserve(600000, "a");
    assert_int_equal(try_create_vgpu(HARD ",\"reservation\":\"unknown\"}", &error), FACET_NOT_FOUND);
    assert_string_equal(error.argument, "reservation");
    assert_int_equal(try_create_vgpu("{\"device\":\"test:1\",\"reservation\":\"a\"}", &error), FACET_BAD_STATE);
    create_vgpu(HARD ",\"reservation\":\"a\"}");
    assert_int_equal(free_now(), 2400000);
    assert_int_equal(try_create_vgpu(HARD ",\"reservation\":\"a\"}", &error), FACET_NO_SPACE);
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_BUSY);
    restart_registry();
    assert_int_equal(free_now(), 2400000);
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_BUSY);
    registry_destroy(registry, "vgpu-1", false, &removal, NULL);
    assert_int_equal(registry_reservation_release(registry, "a", &error), FACET_OK);
}

/* A vGPU in a reservation whose request names no limits does not get the whole device. */
static void a_soft_vgpu_in_a_reservation_has_its_amounts(void **state)
{
    struct vgpu_info *infos = NULL;
    size_t count = 0;

    must_reserve(600000, "a");
    create_vgpu("{\"reservation\":\"a\",\"name\":\"default\"}");
    create_vgpu("{\"reservation\":\"a\",\"name\":\"asked\",\"memory_limit_bytes\":4096,\"compute_limit_milli\":700}");
    create_vgpu("{\"device\":\"test:2\",\"name\":\"outside\"}");
    assert_int_equal(registry_list(registry, &infos, &count, NULL), FACET_OK);
    uint64_t whole = infos[2].row.limits.memory_bytes;
    assert_int_equal(infos[2].row.limits.compute_request_milli, 0);
    assert_int_equal(infos[0].row.limits.memory_bytes, whole * 6 / 10);
    assert_int_equal(infos[0].row.limits.compute_request_milli, 600);
    assert_int_equal(infos[0].row.limits.compute_limit_milli, 1000);
    assert_int_equal(infos[1].row.limits.memory_bytes, 4096);
    assert_int_equal(infos[1].row.limits.compute_request_milli, 0);
    free(infos);
}

/* The vGPU is not placed on a device outside the reservation, and can be created once the provider is back. */
static void a_vgpu_in_a_reservation_whose_devices_are_lost_is_refused(void **state)
{
    struct facet_error error = {0};

    must_reserve(600000, "a");
    fake_device->lost = true;
    assert_int_equal(free_now(), 0);
    assert_int_equal(try_create_vgpu("{\"reservation\":\"a\"}", &error), FACET_BAD_STATE);
    assert_string_equal(error.argument, "reservation");
    assert_non_null(strstr(error.message, "none of its devices can be used now: device test:2 is not available"));
    fake_device->lost = false;
    assert_int_equal(try_create_vgpu("{\"reservation\":\"a\"}", &error), FACET_OK);
}

static void no_vgpu_can_be_made_in_a_reservation_of_a_partition(void **state)
{
    CLEANUP_RESERVATION struct reservation got = {0};
    struct facet_error error = {0};

    fake_device->parts[0] = (struct facet_partition_info){.length = 1, .uuid = "foreign", .template_id = "quarter"};
    assert_int_equal(reserve_slot("test.device:quarter", FACET_AMOUNT_ONE, "part", &got, NULL), FACET_OK);
    assert_int_equal(try_create_vgpu("{\"reservation\":\"part\"}", &error), FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "a partition of device test:2"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reservations_come_back_after_a_restart),
        TEST(a_reservation_is_released_once),
        TEST(names_are_generated_and_unique),
        TEST(a_dry_run_leaves_nothing),
        TEST(a_failing_step_reserves_nothing),
        TEST(a_failing_step_releases_nothing),
        TEST(a_kill_while_reserving_leaves_all_or_nothing),
        TEST(a_kill_while_releasing_leaves_all_or_nothing),
        TEST(a_reservation_keeps_and_marks_a_device_that_has_gone),
        TEST(a_lost_provider_grants_nothing_and_takes_nothing),
        TEST(a_device_partitioned_by_others_is_not_offered_as_a_whole),
        TEST(partitions_without_identity_block_no_others),
        TEST(a_device_whose_partitions_are_unknown_is_not_offered),
        TEST(no_order_of_operations_grants_too_much_or_loses_a_grant),
        TEST(slots_of_a_hard_vgpu_are_not_granted),
        TEST(slots_of_a_partitioned_vgpu_are_not_granted_while_its_partition_is_gone),
        TEST(reserved_slots_are_refused_to_hard_vgpus),
        TEST(a_vgpu_in_a_reservation_stays_within_it),
        TEST(a_soft_vgpu_in_a_reservation_has_its_amounts),
        TEST(a_vgpu_in_a_reservation_whose_devices_are_lost_is_refused),
        TEST(no_vgpu_can_be_made_in_a_reservation_of_a_partition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
