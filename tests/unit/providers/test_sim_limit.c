/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of hard limits, and of the share that is left for contexts without limits (sim_share_of). */
#include "sim_core_fixture.h"

#define GIB (UINT64_C(1) << 30)

static struct facet_provider_instance *open_h100(void)
{
    return open_machine("h100", NULL, NULL);
}

static enum facet_status share_of(struct facet_provider_instance *instance, const char *partition, const char *worker,
                                  struct sim_share *share, struct facet_error *error)
{
    SIM_LOCK(instance);
    return sim_share_of(instance, 0, partition, worker, share, error);
}

static void limits_are_granted_and_read(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct facet_worker_limit limit = {.size = sizeof limit}, limits[4];
    uint32_t count;

    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 300, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.get(instance, 0, "anna", &limit, NULL), FACET_OK);
    assert_int_equal(limit.valid, FACET_WORKER_HAS_COMPUTE);
    assert_int_equal(limit.compute_units, 40);  /* 39.6 of 132, rounded up */
    assert_int_equal(limit.compute_milli, 303); /* at least the request */
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "anna", 3 * GIB + 1, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "bert", GIB, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.list(instance, 0, limits, sizeof *limits, 4, &count, NULL), FACET_OK);
    assert_int_equal(count, 2);
    assert_string_equal(limits[0].worker, "anna");
    assert_int_equal(limits[0].valid, FACET_WORKER_HAS_COMPUTE | FACET_WORKER_HAS_MEMORY);
    assert_int_equal(limits[0].memory_bytes, 3 * GIB + 1);
    assert_non_null(strstr(limits[0].address, "/anna"));
    assert_int_equal(limits[1].valid, FACET_WORKER_HAS_MEMORY);
    assert_int_equal(sim_limit_ops.list(instance, 0, limits, sizeof *limits, 1, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 2);
    sim_device_ops.close(instance);
}

static void every_share_is_granted_rounded_up(void **state)
{
    static const char *const profiles[] = {"h100", "a100-40gb", "mi300x", "ascend910b"};

    for (unsigned i = 0; i < 4; i++) {
        struct facet_provider_instance *instance = open_machine(profiles[i], NULL, NULL);
        uint32_t units = sim_device_info(instance, 0)->compute_units;

        for (uint32_t milli = 1; milli <= 1000; milli++) {
            struct facet_worker_limit limit = {.size = sizeof limit};

            assert_int_equal(sim_limit_ops.set_compute(instance, 0, "w", milli, NULL), FACET_OK);
            assert_int_equal(sim_limit_ops.get(instance, 0, "w", &limit, NULL), FACET_OK);
            assert_true(limit.compute_milli >= milli);
            assert_true((limit.compute_units - 1) * 1000 < milli * units); /* a unit less would not suffice */
            assert_int_equal(sim_limit_ops.clear(instance, 0, "w", NULL), FACET_OK);
        }
        sim_device_ops.close(instance);
    }
}

static void amounts_stay_within_the_device(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    uint64_t all = sim_device_info(instance, 0)->memory_bytes;

    assert_refused(sim_limit_ops.set_memory(instance, 0, "anna", 0, &error), FACET_OUT_OF_RANGE, "bytes 0");
    assert_refused(sim_limit_ops.set_memory(instance, 0, "anna", all + 1, &error), FACET_OUT_OF_RANGE, "expected 1 to");
    assert_refused(sim_limit_ops.set_compute(instance, 0, "anna", 0, &error), FACET_OUT_OF_RANGE, "milli 0");
    assert_refused(sim_limit_ops.set_compute(instance, 0, "anna", 1001, &error), FACET_OUT_OF_RANGE, "1001");
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "anna", all - GIB, NULL), FACET_OK);
    assert_refused(sim_limit_ops.set_memory(instance, 0, "bert", GIB + 1, &error), FACET_NO_SPACE, "1073741824");
    struct facet_worker_limit limit = {.size = sizeof limit};
    assert_int_equal(sim_limit_ops.get(instance, 0, "bert", &limit, NULL), FACET_NOT_FOUND); /* it was refused */
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "bert", GIB, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 500, NULL), FACET_OK);
    assert_refused(sim_limit_ops.set_compute(instance, 0, "bert", 501, &error), FACET_NO_SPACE, "at most the 66");
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "bert", 500, NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void a_limit_is_set_once(void **state)
{
    struct facet_provider_instance *instance = open_h100();

    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 100, NULL), FACET_OK);
    assert_refused(sim_limit_ops.set_compute(instance, 0, "anna", 100, &error), FACET_BAD_STATE, "anna");
    assert_int_equal(sim_limit_ops.clear(instance, 0, "anna", NULL), FACET_OK);
    assert_refused(sim_limit_ops.clear(instance, 0, "anna", &error), FACET_NOT_FOUND, "anna");
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 100, NULL), FACET_OK);
    engine_double.worker = "anna";
    assert_refused(sim_limit_ops.clear(instance, 0, "anna", &error), FACET_BUSY, "anna");
    engine_double.worker = NULL;
    assert_int_equal(sim_limit_ops.clear(instance, 0, "anna", NULL), FACET_OK);
    sim_device_ops.close(instance);
}

static void names_of_workers_are_checked(void **state)
{
    static const char *const wrong[] = {
        "",    ".a",  "-a",       "_a",
        "a b", "a/b", "\xc3\xa9", "a123456789012345678901234567890123456789012345678901234567890123"};
    struct facet_provider_instance *instance = open_h100();

    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_refused(sim_limit_ops.set_memory(instance, 0, wrong[i], GIB, &error), FACET_INVALID_ARGUMENT, "worker");
    assert_refused(sim_limit_ops.set_compute(instance, 0, NULL, 1, &error), FACET_INVALID_ARGUMENT, "worker");
    assert_refused(sim_limit_ops.get(instance, 0, "a", NULL, &error), FACET_INVALID_ARGUMENT, "ret_limit");
    assert_refused(sim_limit_ops.set_memory(instance, 1, "a", GIB, &error), FACET_NOT_FOUND, "device 1");
    assert_int_equal(sim_limit_ops.set_memory(
                         instance, 0, "A12345678901234567890123456789012345678901234567890123456789._-", GIB, NULL),
                     FACET_OK);
    sim_device_ops.close(instance);
}

static void the_number_of_workers_is_bounded(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    char name[16];

    for (unsigned i = 0; i < 48; i++) { /* max_workers of the profile */
        snprintf(name, sizeof name, "w%u", i);
        assert_int_equal(sim_limit_ops.set_memory(instance, 0, name, 1 << 20, NULL), FACET_OK);
    }
    assert_refused(sim_limit_ops.set_memory(instance, 0, "w48", 1 << 20, &error), FACET_BUSY, "48 workers");
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "w47", 1, NULL), FACET_OK); /* w47 exists already */
    sim_device_ops.close(instance);
}

static void units_belong_to_one_worker(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct sim_share anna, bert, carl;

    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 250, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "bert", 250, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "carl", GIB, NULL), FACET_OK);
    assert_int_equal(share_of(instance, NULL, "anna", &anna, NULL), FACET_OK);
    assert_int_equal(share_of(instance, "", "bert", &bert, NULL), FACET_OK);
    assert_int_equal(share_of(instance, NULL, "carl", &carl, NULL), FACET_OK);
    assert_true(anna.exclusive && bert.exclusive && !carl.exclusive);
    assert_int_equal(anna.compute_units, 33);
    assert_int_equal(bert.first_unit, anna.first_unit + 33);
    assert_int_equal(carl.first_unit, 66); /* the units that no limit holds */
    assert_int_equal(carl.compute_units, 66);
    assert_true(carl.memory_limited && !anna.memory_limited);
    assert_int_equal(carl.memory_bytes, GIB);
    assert_int_equal(anna.memory_bytes, sim_device_info(instance, 0)->memory_bytes - GIB);
    sim_device_ops.close(instance);
}

/* Of two workers side by side the first is cleared, so that the free units lie apart. */
static void idle_workers_are_moved_to_make_room(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct sim_share share;

    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 300, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "bert", 300, NULL), FACET_OK);
    assert_int_equal(sim_limit_ops.clear(instance, 0, "anna", NULL), FACET_OK);
    engine_double.worker = "bert"; /* a working worker cannot be moved */
    assert_refused(sim_limit_ops.set_compute(instance, 0, "carl", 600, &error), FACET_NO_SPACE, "apart");
    engine_double.worker = NULL;
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "carl", 600, NULL), FACET_OK);
    assert_int_equal(share_of(instance, NULL, "bert", &share, NULL), FACET_OK);
    assert_int_equal(share.first_unit, 0);
    assert_int_equal(share_of(instance, NULL, "carl", &share, NULL), FACET_OK);
    assert_int_equal(share.first_unit, 40);
    assert_int_equal(share.compute_units, 80);
    sim_device_ops.close(instance);
}

static void a_compute_limit_excludes_workers_without_one(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct sim_share share = {.compute_units = 4711};

    engine_double.uses_device = true; /* a context without limits */
    assert_refused(sim_limit_ops.set_compute(instance, 0, "anna", 100, &error), FACET_BUSY, "without limits");
    engine_double.uses_device = false;
    assert_int_equal(share_of(instance, NULL, "zoe", &share, NULL), FACET_OK);
    assert_int_equal(share.compute_units, 132);
    assert_false(share.exclusive || share.memory_limited);
    assert_int_equal(sim_limit_ops.set_compute(instance, 0, "anna", 1000, NULL), FACET_OK);
    assert_refused(share_of(instance, NULL, "zoe", &share, &error), FACET_BUSY, "anna");
    assert_int_equal(sim_limit_ops.set_memory(instance, 0, "zoe", GIB, NULL), FACET_OK);
    assert_refused(share_of(instance, NULL, "zoe", &share, &error), FACET_BUSY, "compute limit");
    engine_double.worker = "anna"; /* it has no limit of memory, so that no other worker can be promised any */
    assert_refused(sim_limit_ops.set_memory(instance, 0, "bert", GIB, &error), FACET_BUSY, "anna");
    sim_device_ops.close(instance);
}

static void partitions_have_limits_of_their_own(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct facet_partition_info low, high;
    struct sim_share share;

    assert_int_equal(create_partition(instance, 0, "3g.40gb", 0, &low, NULL), FACET_OK);
    assert_int_equal(create_partition(instance, 0, "3g.40gb", 4, &high, NULL), FACET_OK);
    assert_refused(sim_limit_ops.set_compute(instance, 0, "anna", 100, &error), FACET_BUSY, low.uuid);
    assert_refused(share_of(instance, NULL, "anna", &share, &error), FACET_BUSY, low.uuid);
    assert_refused(share_of(instance, "none", "anna", &share, &error), FACET_NOT_FOUND, "none");
    assert_int_equal(share_of(instance, low.uuid, "anna", &share, NULL), FACET_OK);
    assert_int_equal(share.first_unit, 0);
    assert_int_equal(share.compute_units, 60);
    assert_true(share.exclusive);
    assert_int_equal(share.memory_bytes, low.memory_bytes);
    assert_int_equal(share_of(instance, high.uuid, NULL, &share, NULL), FACET_OK);
    assert_int_equal(share.first_unit, 66);
    assert_string_equal(share.partition_uuid, high.uuid);
    sim_device_ops.close(instance);
}

static void containers_get_device_nodes_and_variables(void **state)
{
    struct facet_provider_instance *instance = open_h100();
    struct facet_container_item items[8];
    struct facet_partition_info info;
    uint32_t count;

    assert_int_equal(sim_container_ops.items(instance, 0, NULL, items, sizeof *items, 8, &count, NULL), FACET_OK);
    assert_int_equal(items[0].kind, FACET_CONTAINER_DEVICE_NODE);
    assert_string_equal(items[0].guest, "/dev/facet-sim/0");
    assert_int_equal(items[1].kind, FACET_CONTAINER_ENVIRONMENT);
    assert_string_equal(items[1].guest, "FACET_SIM_VISIBLE_DEVICES");
    assert_string_equal(items[1].host, sim_device_info(instance, 0)->uuid);
    assert_int_equal(create_partition(instance, 0, "3g.40gb", 4, &info, NULL), FACET_OK);
    assert_int_equal(sim_container_ops.items(instance, 0, info.uuid, items, sizeof *items, 8, &count, NULL), FACET_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_not_equal(items[i].guest, "/dev/facet-sim/0"); /* the node of the whole device is not given */
        assert_string_not_equal(items[i].host, sim_device_info(instance, 0)->uuid);
    }
    assert_string_equal(items[0].guest, "/dev/facet-sim/0-slice4");
    assert_string_equal(items[1].host, info.uuid);
    assert_refused(sim_container_ops.items(instance, 0, "none", items, sizeof *items, 8, &count, &error),
                   FACET_NOT_FOUND, "none");
    assert_int_equal(sim_container_ops.items(instance, 0, "", items, sizeof *items, 1, &count, NULL), FACET_TOO_SMALL);
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_granted_and_read),
        cmocka_unit_test(every_share_is_granted_rounded_up),
        cmocka_unit_test(amounts_stay_within_the_device),
        cmocka_unit_test(a_limit_is_set_once),
        cmocka_unit_test(names_of_workers_are_checked),
        cmocka_unit_test(the_number_of_workers_is_bounded),
        cmocka_unit_test(units_belong_to_one_worker),
        cmocka_unit_test(idle_workers_are_moved_to_make_room),
        cmocka_unit_test(a_compute_limit_excludes_workers_without_one),
        cmocka_unit_test(partitions_have_limits_of_their_own),
        cmocka_unit_test(containers_get_device_nodes_and_variables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
