/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the built cuda provider over the fake driver, beyond the conformance suite: drivers that are absent, broken or
 * old, pages of several contexts, cancelled launches, kernels that do not end. Never: opens a real driver.
 */
#include "cuda_world.h"

/* --- drivers --- */

static struct facet_provider_instance *open_with(const char *path, struct facet_device_info infos[16])
{
    struct facet_provider_instance *instance = NULL;

    set_driver(path);
    assert_int_equal(provider->device->open(&instance, NULL), FACET_OK);
    assert_int_equal(list(instance, infos), 2);
    return instance;
}

static void expect_property(struct facet_provider_instance *instance, const char *what)
{
    char text[4096];
    uint32_t size;

    assert_int_equal(provider->device->properties(instance, 0, text, sizeof text, &size, NULL), FACET_OK);
    if (!strstr(text, what))
        fail_msg("'%s' does not say '%s'", text, what);
}

static void without_a_driver_devices_are_listed_without_capabilities(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_with("/nonexistent/libcuda.so.1", infos);
    uint64_t context;

    assert_false(infos[0].capabilities & (FACET_CAN_MEMORY | FACET_CAN_EXECUTE));
    assert_false(infos[0].valid & FACET_DEVICE_HAS_COMPUTE_UNITS);
    assert_int_equal(provider->memory->create_context(instance, 0, NULL, "w", &context, NULL), FACET_UNSUPPORTED);
    provider->device->close(instance);
}

static void a_file_that_is_no_driver_is_reported_with_the_reason(void **state)
{
    struct facet_device_info infos[16];
    struct facet_provider_instance *instance = open_with("/proc/self/status", infos);

    expect_property(instance, "driver_error=/proc/self/status");
    provider->device->close(instance);
    instance = open_with("libm.so.6", infos);
    expect_property(instance, "driver_error=libcuda.so.1 has no cuInit");
    assert_false(infos[0].capabilities & FACET_CAN_MEMORY);
    provider->device->close(instance);
}

static void an_old_driver_keeps_its_capabilities(void **state)
{
    struct facet_provider_instance *instance = NULL;
    struct facet_device_info infos[16];
    struct facet_error error = {0};

    set_fake_driver("FACET_TEST_CUDA_OLD");
    if (provider->device->open(&instance, &error) != FACET_OK)
        fail_msg("open: %s", error.message);
    assert_int_equal(list(instance, infos), 2);
    assert_true(infos[0].capabilities & FACET_CAN_MAP_MEMORY);
    provider->device->close(instance);
}

static void devices_are_named_as_the_interposer_knows_them(void **state)
{
    struct facet_provider_instance *instance = open_fake();
    struct facet_device_info infos[16];

    assert_int_equal(list(instance, infos), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(infos[i].kind, FACET_DEVICE_GPU);
        assert_memory_equal(infos[i].uuid, "GPU-", 4);
        assert_string_equal(infos[i].uuid, infos[i].address);
        assert_int_equal(infos[i].compute_units, 132);
        assert_string_equal(infos[i].vendor, "NVIDIA");
    }
    assert_string_not_equal(infos[0].uuid, infos[1].uuid);
    assert_string_not_equal(infos[0].pci_address, infos[1].pci_address);
    provider->device->close(instance);
}

/* --- pages --- */

static uint64_t page_bytes(struct facet_provider_instance *instance, uint64_t context)
{
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(provider->memory->info(instance, context, &info, NULL), FACET_OK);
    return info.page_bytes;
}

static void any_part_of_pages_can_be_mapped_and_unmapped(void **state)
{
    const struct facet_memory_ops *ops = provider->memory;
    struct facet_provider_instance *instance = open_fake();
    uint64_t context = context_of(instance, 0, "w"), page = page_bytes(instance, context);
    uint64_t address, pages, word = 0x1234, got = 0;

    assert_int_equal(ops->reserve(instance, context, 8 * page, 16 * page, &address, NULL), FACET_OK);
    assert_int_equal(address % (16 * page), 0);
    assert_int_equal(ops->create_pages(instance, context, 4 * page, &pages, NULL), FACET_OK);
    assert_int_equal(ops->map(instance, context, address + page, pages, page, 3 * page, NULL), FACET_OK);
    assert_int_equal(ops->write(instance, context, address + 2 * page - 4, &word, sizeof word, NULL), FACET_OK);
    assert_int_equal(ops->unmap(instance, context, address + 3 * page, page, NULL), FACET_OK);
    assert_int_equal(ops->read(instance, context, address + 2 * page - 4, sizeof got, &got, NULL), FACET_OK);
    assert_int_equal(got, word);
    assert_int_equal(ops->read(instance, context, address + 3 * page - 4, sizeof got, &got, NULL), FACET_OUT_OF_RANGE);
    assert_int_equal(ops->release(instance, context, address, NULL), FACET_BUSY);
    assert_int_equal(ops->unmap(instance, context, address + page, 2 * page, NULL), FACET_OK);
    assert_int_equal(ops->release(instance, context, address, NULL), FACET_OK);
    provider->device->close(instance);
}

static void shared_pages_outlive_their_creator(void **state)
{
    const struct facet_memory_ops *ops = provider->memory;
    struct facet_provider_instance *instance = open_fake();
    uint64_t maker = context_of(instance, 0, "maker"), user = context_of(instance, 0, "user");
    uint64_t page = page_bytes(instance, maker), before = used(instance, user), pages, address, word = 7, got = 0;

    assert_int_equal(ops->create_pages(instance, maker, page, &pages, NULL), FACET_OK);
    assert_int_equal(ops->reserve(instance, user, page, 0, &address, NULL), FACET_OK);
    assert_int_equal(ops->map(instance, user, address, pages, 0, page, NULL), FACET_NOT_FOUND);
    assert_int_equal(ops->share_pages(instance, maker, pages, NULL), FACET_OK);
    assert_int_equal(ops->map(instance, user, address, pages, 0, page, NULL), FACET_OK);
    assert_int_equal(ops->write(instance, user, address, &word, sizeof word, NULL), FACET_OK);
    assert_int_equal(ops->destroy_context(instance, maker, NULL), FACET_OK);
    assert_int_equal(ops->read(instance, user, address, sizeof got, &got, NULL), FACET_OK);
    assert_int_equal(got, 7);
    assert_int_equal(used(instance, user), before + page);
    assert_int_equal(ops->unmap(instance, user, address, page, NULL), FACET_OK);
    assert_int_equal(used(instance, user), before);
    provider->device->close(instance);
}

static void a_full_device_gives_all_or_nothing(void **state)
{
    const struct facet_memory_ops *ops = provider->memory;
    struct facet_provider_instance *instance = open_fake();
    uint64_t context = context_of(instance, 1, "w"), pages, address, before = used(instance, context);
    struct facet_memory_info info = {.size = sizeof info};

    assert_int_equal(ops->info(instance, context, &info, NULL), FACET_OK);
    assert_int_equal(ops->create_pages(instance, context, info.total_bytes, &pages, NULL), FACET_NO_SPACE);
    assert_int_equal(used(instance, context), before);
    assert_int_equal(ops->alloc(instance, context, info.total_bytes - before, &address, NULL), FACET_OK);
    assert_int_equal(ops->create_pages(instance, context, info.page_bytes, &pages, NULL), FACET_NO_SPACE);
    assert_int_equal(ops->destroy_context(instance, context, NULL), FACET_OK);
    provider->device->close(instance);
}

/* --- streams --- */

static void launches_that_the_driver_has_not_received_are_cancelled(void **state)
{
    const struct facet_execution_ops *ops = provider->execution;
    struct world world = open_world();

    for (int i = 0; i < 20; i++)
        launch(&world, "spin_20000us");
    assert_int_equal(ops->unload(world.instance, world.context, world.module, NULL), FACET_BUSY);
    assert_int_equal(ops->cancel(world.instance, world.context, world.stream, NULL), FACET_OK);
    assert_int_equal(ops->synchronize(world.instance, world.context, world.stream, 20 * SECOND, NULL), FACET_OK);

    struct facet_launch_record records[32] = {0};
    uint32_t count = 0, ran = 0;
    assert_int_equal(
        ops->records(world.instance, world.context, world.stream, 0, records, sizeof records[0], 32, &count, NULL),
        FACET_OK);
    assert_int_equal(count, 20);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(records[i].status == FACET_OK || records[i].status == FACET_BAD_STATE);
        ran += records[i].status == FACET_OK;
        assert_true(records[i].status != FACET_OK || records[i].busy_ns > 0);
    }
    assert_in_range(ran, 0, 10); /* launches that had begun, and those in the driver */
    assert_int_equal(state_of(&world).completed, 20);
    assert_int_equal(ops->unload(world.instance, world.context, world.module, NULL), FACET_OK);
    provider->device->close(world.instance);
}

static void measured_time_is_by_the_devices_clock(void **state)
{
    struct world world = open_world();

    for (int i = 0; i < 5; i++)
        launch(&world, "spin_20000us");
    assert_int_equal(provider->execution->synchronize(world.instance, world.context, world.stream, 20 * SECOND, NULL),
                     FACET_OK);
    /* Five launches of 20 ms each, by the fake's clock, which other load on this machine does not change. */
    assert_in_range(state_of(&world).busy_ns, 99000000, 101000000);
    provider->device->close(world.instance);
}

/* Device time that several streams use together is charged once, and busy_ns is what was charged. */
static void overlapping_launches_are_counted_once(void **state)
{
    struct world worlds[2] = {open_world()};
    uint64_t start = now_ns();

    worlds[1] = worlds[0];
    assert_int_equal(provider->execution->create_stream(worlds[1].instance, worlds[1].context, &worlds[1].stream, NULL),
                     FACET_OK);
    for (int i = 0; i < 6; i++)
        launch(&worlds[i % 2], "spin_20000us");
    for (int i = 0; i < 2; i++)
        wait_for(&worlds[i]);
    uint64_t passed_ns = now_ns() - start, busy_ns = state_of(&worlds[0]).busy_ns + state_of(&worlds[1]).busy_ns;
    assert_in_range(busy_ns, 6 * 19000000, passed_ns); /* each launch of 20 ms may be measured 1 ms shorter */
    provider->device->close(worlds[0].instance);
}

static void a_launch_without_an_end_is_not_waited_for_forever(void **state)
{
    const struct facet_execution_ops *ops = provider->execution;
    struct world world = open_world();
    uint64_t began = now_ns();

    launch(&world, "spin_7000000us"); /* 7 s: longer than the provider waits for the end of a context's work */
    assert_int_equal(ops->synchronize(world.instance, world.context, world.stream, SECOND / 100, NULL), FACET_TIMEOUT);
    assert_int_equal(ops->destroy_stream(world.instance, world.context, world.stream, NULL), FACET_OK);
    assert_int_equal(provider->memory->destroy_context(world.instance, world.context, NULL), FACET_TIMEOUT);
    assert_true(now_ns() - began < 60 * SECOND);
    while (provider->memory->destroy_context(world.instance, world.context, NULL) == FACET_TIMEOUT)
        assert_true(now_ns() - began < 120 * SECOND);
    provider->device->close(world.instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver_devices_are_listed_without_capabilities),
        cmocka_unit_test(a_file_that_is_no_driver_is_reported_with_the_reason),
        cmocka_unit_test(an_old_driver_keeps_its_capabilities),
        cmocka_unit_test(devices_are_named_as_the_interposer_knows_them),
        cmocka_unit_test(any_part_of_pages_can_be_mapped_and_unmapped),
        cmocka_unit_test(shared_pages_outlive_their_creator),
        cmocka_unit_test(a_full_device_gives_all_or_nothing),
        cmocka_unit_test(launches_that_the_driver_has_not_received_are_cancelled),
        cmocka_unit_test(measured_time_is_by_the_devices_clock),
        cmocka_unit_test(overlapping_launches_are_counted_once),
        cmocka_unit_test(a_launch_without_an_end_is_not_waited_for_forever),
    };

    load_provider("cuda");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
