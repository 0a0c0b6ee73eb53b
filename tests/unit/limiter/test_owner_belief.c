/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a total doubted by one owner is doubted by the next owner. Never: proves the bounds, as
 * test_belief.c does. */
#include "segment_fixture.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "limiter/belief.h"

/* The file in which an owner keeps what it believes: a head of 16 bytes and a struct facet_belief. */
static void path_of(const struct fixture *fixture, char path[128])
{
    snprintf(path, 128, "%s/belief", fixture->dir);
}

/* Writes a number into a file of the segment, as another process or a bad disk may. */
static void damage_file(const struct fixture *fixture, const char *name, size_t offset, uint64_t number)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", fixture->dir, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &number, sizeof number, (off_t)offset), sizeof number);
    close(fd);
}

static void damage_usage(const struct fixture *fixture, size_t offset, uint64_t number)
{
    damage_file(fixture, "usage", offset, number);
}

static size_t launches_of(uint32_t slot)
{
    return offsetof(struct facet_usage, slots) + slot * sizeof(struct facet_slot) +
           offsetof(struct facet_slot, launches);
}

static uint32_t believed_totals(struct fixture *fixture)
{
    struct facet_usage_totals totals;

    return facet_owner_believed_totals(fixture->owner, &totals);
}

static void adopt_segment(struct fixture *fixture)
{
    struct facet_error error = {0};

    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    if (facet_owner_adopt(fixture->dir, &fixture->spec, &fixture->owner, &error) != FACET_OK)
        fail_msg("%s", error.message);
}

static void use_a_slot(const struct fixture *fixture)
{
    struct facet_tenant tenant = fixture_attach(fixture);

    facet_owner_set_gate(fixture->owner, FACET_GATE_OPEN);
    facet_tenant_launch(&tenant, 0);
    facet_tenant_complete(&tenant, 1, 0, 7, facet_clock_now_ns());
    facet_tenant_detach(&tenant);
}

static void test_doubt_outlasts_its_owner(void **state)
{
    struct fixture *fixture = *state;

    use_a_slot(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    damage_usage(fixture, launches_of(0), UINT64_C(1) << 59);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
    for (int i = 0; i < 2; i++) {
        adopt_segment(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
    }
}

static void test_damage_between_two_owners_is_seen(void **state)
{
    struct fixture *fixture = *state;

    use_a_slot(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    damage_usage(fixture, launches_of(0), UINT64_C(1) << 59);
    adopt_segment(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
}

/* Memory held under a larger quota stays held, and the peak stays as it was. */
static void test_the_largest_quota_is_remembered(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t peak = 60 * MIB;

    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), peak);
    fixture->spec.limits.memory_bytes = MIB;
    facet_owner_set_limits(fixture->owner, &fixture->spec.limits);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    adopt_segment(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 65 * MIB);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
    fixture->spec.limits.memory_bytes = 65 * MIB;
    adopt_segment(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
}

/* A killed owner reads no totals after it set a quota, so the quota must be known without a reading. */
static void test_a_larger_quota_is_kept_at_once(void **state)
{
    struct fixture *fixture = *state;

    fixture->spec.limits.memory_bytes = 80 * MIB;
    facet_owner_set_limits(fixture->owner, &fixture->spec.limits);
    fixture->spec.limits.memory_bytes = MIB;
    adopt_segment(fixture);
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 80 * MIB);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
}

static void test_a_damaged_quota_makes_no_peak_believed(void **state)
{
    static const uint64_t peaks[] = {(uint64_t)-4096, (uint64_t)-5, UINT64_C(1) << 63, 65 * MIB};
    static const uint64_t quotas[] = {(uint64_t)-5, UINT64_MAX, 128 * MIB};
    struct fixture *fixture = *state;

    use_a_slot(fixture);
    for (size_t i = 0; i < 3 * 4; i++) {
        facet_owner_close(fixture->owner);
        fixture->owner = NULL;
        damage_file(fixture, "policy", offsetof(struct facet_policy, memory_limit_bytes), quotas[i % 3]);
        damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), peaks[i / 3]);
        adopt_segment(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
    }
}

/* The damage is in the owner's own file, or, without that file, in the device's size. */
static void test_no_other_damage_makes_a_negative_peak_believed(void **state)
{
    struct fixture *fixture = *state;
    char path[128];

    path_of(fixture, path);
    use_a_slot(fixture);
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), (uint64_t)-4096);
    for (int i = 0; i < 2; i++) {
        facet_owner_close(fixture->owner);
        fixture->owner = NULL;
        if (i == 0) {
            damage_file(fixture, "belief", 16 + offsetof(struct facet_belief, memory_max_bytes), (uint64_t)-5);
        } else {
            damage_file(fixture, "policy", offsetof(struct facet_policy, device.memory_bytes), (uint64_t)-5);
            assert_int_equal(unlink(path), 0);
        }
        adopt_segment(fixture);
        assert_int_equal(believed_totals(fixture) & (FACET_BELIEVED_MEMORY | FACET_BELIEVED_PEAK),
                         FACET_BELIEVED_MEMORY);
    }
}

/* The words are settled_at_ns, settled_measured_ns, settled_ns and published_ns of the policy. */
static void write_device_time(const struct fixture *fixture, const uint64_t words[4])
{
    for (size_t i = 0; i < 4; i++)
        damage_file(fixture, "policy", offsetof(struct facet_policy, settled_at_ns) + i * 8, words[i]);
}

/* No time may exceed the 7 ns that the slot measured, or the time that it is a part of. */
static void test_an_impossible_settled_time_is_doubted(void **state)
{
    const uint64_t now_ns = facet_clock_now_ns(), large = (UINT64_C(1) << 63) + 5;
    const uint64_t impossible[][4] = {{(uint64_t)-1, 5, (uint64_t)-9, (uint64_t)-9},
                                      {large, large, large, large},
                                      {now_ns, 7, 7, 8},
                                      {now_ns, 5, 6, 6},
                                      {now_ns, 8, 7, 7},
                                      {large, 7, 7, 7}};

    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
        struct fixture *fixture;

        assert_int_equal(fixture_setup((void **)&fixture), 0);
        use_a_slot(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
        write_device_time(fixture, impossible[i]);
        for (int owner = 0; owner < 2; owner++) {
            adopt_segment(fixture);
            struct facet_device_time time = facet_owner_device_time(fixture->owner);
            assert_int_equal(time.at_ns | time.measured_ns | time.settled_ns | time.published_ns, 0);
            assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_BUSY);
        }
        fixture_teardown((void **)&fixture);
    }
    (void)state;
}

/* Without an owner that judges the settled time, a reader gets at most the measured time. */
static void test_a_reader_gets_no_more_time_than_was_measured(void **state)
{
    struct fixture *fixture = *state;
    uint64_t device_time_ns = 0;

    use_a_slot(fixture);
    write_device_time(fixture, (const uint64_t[]){facet_clock_now_ns(), 5, (uint64_t)-9, (uint64_t)-9});
    assert_int_equal(facet_segment_read_device_time(fixture->dir, &device_time_ns, NULL), FACET_OK);
    assert_int_equal(device_time_ns, 7);
    const struct facet_device_time time = {.at_ns = 10,
                                           .measured_ns = 5,
                                           .settled_ns = 5,
                                           .published_ns = UINT64_MAX,
                                           .claim_milli = 1000,
                                           .part_milli = 1000};
    assert_int_equal(facet_device_time_published(&time, 7, 20), 7);
    write_device_time(fixture, (const uint64_t[]){facet_clock_now_ns(), 7, 4, 4});
    assert_int_equal(facet_segment_read_device_time(fixture->dir, &device_time_ns, NULL), FACET_OK);
    assert_int_equal(device_time_ns, 4);
}

/* A time ahead of this clock is possible, too: it is from before the machine was started again. */
static void test_a_possible_settled_time_is_kept(void **state)
{
    const uint64_t now_ns = facet_clock_now_ns();
    const uint64_t possible[][4] = {
        {now_ns, 7, 7, 7}, {now_ns, 7, 6, 2}, {now_ns + 3600 * FACET_NS_PER_S, 5, 5, 5}, {0, 0, 0, 0}};
    struct fixture *fixture = *state;

    use_a_slot(fixture);
    for (size_t i = 0; i < sizeof possible / sizeof possible[0]; i++) {
        write_device_time(fixture, possible[i]);
        adopt_segment(fixture);
        struct facet_device_time time = facet_owner_device_time(fixture->owner);
        assert_int_equal(time.at_ns, possible[i][0]);
        assert_int_equal(time.published_ns, possible[i][3]);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    }
}

/* A full disk leaves an empty file, and an earlier release a shorter one. */
static void test_an_empty_or_shorter_file_is_begun_anew(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t shorter = 16 + offsetof(struct facet_belief, peak_bytes);
    char path[128];

    path_of(fixture, path);
    use_a_slot(fixture);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(truncate(path, i == 0 ? 0 : (off_t)shorter), 0);
        if (i == 1)
            damage_file(fixture, "belief", 8, shorter);
        adopt_segment(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    }
    damage_usage(fixture, launches_of(0), 0);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
    adopt_segment(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
}

/* The clock begins at 0 when the machine starts, so that counts may be older than the clock. Doubts stay. */
static void test_counts_from_before_a_restart_of_the_machine_are_believed(void **state)
{
    struct fixture *fixture = *state;
    const uint64_t later_ns = facet_clock_now_ns() + 3600 * FACET_NS_PER_S;
    char path[128];

    path_of(fixture, path);
    use_a_slot(fixture);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    damage_usage(fixture, launches_of(0), UINT64_C(1) << 59);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    damage_usage(fixture, launches_of(0) - 8, 5 * later_ns); /* busy_ns of work that is older than the clock */
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &later_ns, 8, 16 + offsetof(struct facet_belief, read_at_ns)), 8);
    close(fd);
    adopt_segment(fixture);
    for (int i = 0; i < 2; i++)
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_LAUNCHES);
}

/* The file's doubts are lost. Every total is doubted except memory, which is known from the processes' slots. */
static void test_with_a_damaged_file_all_totals_except_memory_are_doubted(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        struct fixture *fixture;
        char path[128];

        assert_int_equal(fixture_setup((void **)&fixture), 0);
        path_of(fixture, path);
        use_a_slot(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
        if (i < 3)
            damage_file(fixture, "belief", (const uint64_t[]){0, 8, 16}[i], UINT64_C(0x5a5a5a5a5a5a5a5a));
        else if (i == 3)
            assert_int_equal(truncate(path, 20), 0);
        else
            assert_int_equal(unlink(path), 0);
        if (i >= 5)
            assert_int_equal(i == 5   ? symlink(fixture->lock, path)
                             : i == 6 ? mkfifo(path, 0600)
                                      : mkdir(path, 0700),
                             0);
        for (int owner = 0; owner < 2; owner++) {
            adopt_segment(fixture);
            assert_int_equal(believed_totals(fixture), FACET_BELIEVED_MEMORY);
        }
        assert_int_equal(facet_owner_remove(fixture->dir, NULL), FACET_OK);
        fixture_teardown((void **)&fixture);
    }
}

/* A process raises the peak with its memory. If memory stays above the peak, one of the two numbers is damaged. */
static void test_a_peak_is_never_less_than_what_is_held(void **state)
{
    struct fixture *fixture = *state;
    struct facet_usage_totals totals;

    use_a_slot(fixture);
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 8192);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    damage_usage(fixture, offsetof(struct facet_usage, slots[0].regions), 1);
    assert_int_equal(facet_owner_believed_totals(fixture->owner, &totals), FACET_BELIEVED_ALL);
    assert_true(totals.memory_peak_bytes >= totals.memory_bytes);
    for (int i = 0; i < 12; i++) /* memory above the peak is doubted after a second */
        usleep(100000);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~(FACET_BELIEVED_MEMORY | FACET_BELIEVED_PEAK));
    damage_usage(fixture, offsetof(struct facet_usage, slots[0].regions), 0);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
}

static void test_a_peak_that_fell_is_doubted_for_good(void **state)
{
    struct fixture *fixture = *state;

    use_a_slot(fixture);
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 8 * MIB);
    assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL);
    facet_owner_close(fixture->owner);
    fixture->owner = NULL;
    damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 4096);
    for (int i = 0; i < 2; i++) {
        adopt_segment(fixture);
        assert_int_equal(believed_totals(fixture), FACET_BELIEVED_ALL & ~FACET_BELIEVED_PEAK);
        damage_usage(fixture, offsetof(struct facet_usage, memory_peak_bytes), 9 * MIB);
    }
}

static void test_only_the_owner_may_write_its_file(void **state)
{
    struct fixture *fixture = *state;
    struct stat info;
    char path[128];

    path_of(fixture, path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_doubt_outlasts_its_owner),
        TEST(test_damage_between_two_owners_is_seen),
        TEST(test_the_largest_quota_is_remembered),
        TEST(test_an_empty_or_shorter_file_is_begun_anew),
        TEST(test_counts_from_before_a_restart_of_the_machine_are_believed),
        TEST(test_with_a_damaged_file_all_totals_except_memory_are_doubted),
        TEST(test_a_peak_is_never_less_than_what_is_held),
        TEST(test_a_peak_that_fell_is_doubted_for_good),
        TEST(test_only_the_owner_may_write_its_file),
        TEST(test_a_larger_quota_is_kept_at_once),
        TEST(test_a_damaged_quota_makes_no_peak_believed),
        TEST(test_no_other_damage_makes_a_negative_peak_believed),
        TEST(test_an_impossible_settled_time_is_doubted),
        TEST(test_a_possible_settled_time_is_kept),
        TEST(test_a_reader_gets_no_more_time_than_was_measured),
    };

    return cmocka_run_group_tests_name("owner_belief", tests, NULL, NULL);
}
