/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof of facet/vgpu.h on the device `cpu`: drivers, the lives of vGPUs, their memory. Never: asserts how
 * long anything takes. */
#include "world.h"

#include <signal.h>

/* ---- drivers ---- */

static void settings_are_as_asked_or_the_defaults(void **state)
{
    struct facet_driver_config config = world_config(), got = {.size = sizeof got};

    config.monitor_ns = 0;
    world_open(&config);
    facet_driver_get_config(world.driver, &got);
    assert_int_equal(got.vgpus, 8);
    assert_int_equal(got.streams, 32);
    assert_int_equal(got.monitor_ns, 100 * MS);
    assert_int_equal(got.history, 600);
    assert_int_equal(got.off, 0);
    assert_string_equal(got.providers, world.provider);
    assert_ptr_not_equal(got.providers, world.provider);
    world_close();

    config.vgpus = 3;
    config.streams = 5;
    config.off = FACET_OFF_TENSOR_CORES;
    world_open(&config);
    facet_driver_get_config(world.driver, &got);
    assert_int_equal(got.vgpus, 3);
    assert_int_equal(got.streams, 5);
    assert_int_equal(got.off, FACET_OFF_TENSOR_CORES);
    world_close();
}

static void bad_settings_are_refused(void **state)
{
    static const char *const none[] = {NULL}, *const unknown[] = {"cpu:7", NULL}, *const good[] = {"cpu:0", NULL};
    struct facet_driver_config config = world_config();
    const struct facet_driver_config before = config;
    struct facet_driver *driver = NULL;

    config.size = 3;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_open(&config, &driver, ERROR));
    config = before;
    config.off = 1u << 20;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_open(&config, &driver, ERROR));
    config = before;
    config.vgpus = FACET_DRIVER_VGPUS + 1;
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_open(&config, &driver, ERROR));
    assert_string_equal(world.error.argument, "vgpus");
    config = before;
    config.monitor_ns = 5;
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_open(&config, &driver, ERROR));
    config = before;
    config.devices = none;
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_open(&config, &driver, ERROR));
    config.devices = unknown;
    REFUSED(FACET_NOT_FOUND, facet_driver_open(&config, &driver, ERROR));
    assert_string_equal(world.error.argument, "devices");
    config = before;
    config.policy = 9;
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_open(&config, &driver, ERROR));
    config = before;
    config.scaling = 1;
    config.off = FACET_OFF_COMPUTE;
    REFUSED(FACET_INVALID_ARGUMENT, facet_driver_open(&config, &driver, ERROR));
    config = before;
    world.memory.page_bytes = 3;
    REFUSED(FACET_OUT_OF_RANGE, facet_driver_open(&config, &driver, ERROR));
    assert_null(driver);
    config = world_config();
    config.devices = good;
    OK(facet_driver_open(&config, &driver, ERROR));
    facet_driver_close(driver);
    facet_driver_close(NULL);
}

/*
 * The provider `null` has no device that can hold vGPUs. It is refused, and the message names a provider that has one.
 */
static void a_provider_without_devices_is_refused(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_driver *driver = NULL;

    snprintf(world.provider, sizeof world.provider, "%s/facet-provider-null.so", getenv("FACET_LIB_DIR"));
    REFUSED(FACET_NOT_FOUND, facet_driver_open(&config, &driver, ERROR));
    assert_non_null(strstr(world.error.message, "cpu"));
}

static void drivers_do_not_know_each_other(void **state)
{
    const struct facet_driver_config config = world_config();
    struct facet_driver *other = NULL;
    uint64_t address = 0;
    char byte = 'x';

    world_open(&config);
    OK(facet_driver_open(&config, &other, ERROR));
    vgpu_make(1);
    address = vgpu_memory(1, 100);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(other, 1, address, ERROR));
    OK(facet_vgpu_create(other, &(struct facet_vgpu_config){.size = sizeof(struct facet_vgpu_config), .id = 1}, NULL,
                         ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_copy(other, 1, (uintptr_t)&byte, address, 1, FACET_COPY_TO_HOST, ERROR));
    facet_driver_close(other);
    assert_int_equal(vgpu_word(1, address), 0);
    world_close();
}

static void a_driver_may_have_several_devices(void **state)
{
    static const char *const twice[] = {"cpu:0", "cpu:0", NULL};
    struct facet_driver_config config = world_config();
    struct facet_driver_device device = {.size = sizeof device};

    config.devices = twice;
    config.place = FACET_SESSION_CHILD;
    world_open(&config);
    for (uint32_t id = 1; id <= 4; id++)
        vgpu_make(id);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(facet_driver_get_device(world.driver, i, &device));
        assert_string_equal(device.id, "cpu:0");
        assert_int_equal(device.vgpus, 2); /* each vGPU went to the device with fewer vGPUs */
        assert_int_equal(device.promised_bytes, 32 * MIB);
        assert_int_equal(device.memory_bytes, 64 * MIB);
        assert_int_equal(device.lost, 0);
    }
    assert_false(facet_driver_get_device(world.driver, 2, &device));
    assert_int_equal(vgpu_info(2).device, 1);
    struct facet_vgpu_config placed = vgpu_config(9);
    placed.device = FACET_ON_DEVICE(0);
    placed.memory_bytes = MIB;
    OK(facet_vgpu_create(world.driver, &placed, NULL, ERROR));
    assert_int_equal(vgpu_info(9).device, 0);
    placed.id = 10;
    placed.device = FACET_ON_DEVICE(2);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_create(world.driver, &placed, NULL, ERROR));
    world_close();
}

/* Memory in use is what was taken from the device, in chunks. The rest of the total is available to other vGPUs. */
static void memory_used_is_the_memory_taken_from_the_device(void **state)
{
    struct facet_driver_device before = {.size = sizeof before}, after = before;

    vgpu_make(1);
    assert_true(facet_driver_get_device(world.driver, 0, &before));
    assert_int_equal(before.memory_used_bytes, 0);
    uint64_t address = vgpu_memory(1, 10 * MIB);
    assert_true(facet_driver_get_device(world.driver, 0, &after));
    assert_in_range(after.memory_used_bytes, 10 * MIB, 11 * MIB);
    assert_int_equal(after.memory_bytes, 64 * MIB);
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    OK(facet_vgpu_compact(world.driver, 1, NULL, NULL, ERROR));
    assert_true(facet_driver_get_device(world.driver, 0, &after));
    assert_in_range(after.memory_used_bytes, 0, MIB);
}

/* ---- making and destroying ---- */

static void status_follows_the_life_of_a_vgpu(void **state)
{
    uint32_t status = 0;

    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_status(world.driver, 7, &status, ERROR));
    vgpu_make(7);
    assert_int_equal(vgpu_status(7), FACET_VGPU_CREATED);
    vgpu_memory(7, 1000);
    assert_int_equal(vgpu_status(7), FACET_VGPU_RUNNING);
    OK(facet_vgpu_pause(world.driver, 7, ERROR));
    OK(facet_vgpu_pause(world.driver, 7, ERROR));
    assert_int_equal(vgpu_status(7), FACET_VGPU_PAUSED);
    OK(facet_vgpu_resume(world.driver, 7, ERROR));
    OK(facet_vgpu_resume(world.driver, 7, ERROR));
    assert_int_equal(vgpu_status(7), FACET_VGPU_RUNNING);
    OK(facet_vgpu_destroy(world.driver, 7, ERROR));
    assert_int_equal(vgpu_status(7), FACET_VGPU_DESTROYED);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_destroy(world.driver, 7, ERROR));
    vgpu_make(7);
    assert_int_equal(vgpu_status(7), FACET_VGPU_CREATED);
    assert_string_equal(facet_vgpu_status_name(FACET_VGPU_PAUSED), "paused");
    assert_null(facet_vgpu_status_name(0));
    assert_null(facet_vgpu_status_name(6));
}

/* Every call with the number of a vGPU that was destroyed, or never existed, is refused and changes nothing. */
static void unknown_numbers_are_refused(void **state)
{
    struct facet_driver *driver = world.driver;
    struct facet_space_usage usage = {.size = sizeof usage};
    struct facet_vgpu_info info = {.size = sizeof info};
    struct facet_stream_info stream = {.size = sizeof stream};
    struct facet_execution execution = {.size = sizeof execution};
    struct facet_allocation allocation = {.size = sizeof allocation};
    struct facet_math math = {.size = sizeof math};
    struct facet_kernel *kernel = NULL;
    uint64_t address = 0, page = 0;

    vgpu_make(1);
    page = vgpu_memory(1, 64);
    OK(facet_vgpu_destroy(driver, 1, ERROR));
    for (uint32_t id = 0; id < 2; id++) {
        REFUSED(FACET_NOT_FOUND, facet_vgpu_allocate(driver, id, 1, NULL, &address, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_free(driver, id, page, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_reallocate(driver, id, page, 100, &address, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_find(driver, id, page, &allocation, ERROR));
        REFUSED(FACET_NOT_FOUND,
                facet_vgpu_copy(driver, id, page, (uintptr_t)&address, 8, FACET_COPY_TO_DEVICE, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_fill(driver, id, page, 0, 8, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_memory(driver, id, MIB, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_get_memory(driver, id, &usage, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_defragment(driver, id, NULL, NULL, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_compact(driver, id, NULL, NULL, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_get_info(driver, id, &info, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_pause(driver, id, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_resume(driver, id, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_load_kernel(driver, id, world.image, "add", &kernel, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_operate(driver, id, 0, &math, NULL, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_enqueue_fill(driver, id, 0, page, 0, 8, NULL, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_get_execution(driver, id, 1, &execution, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_cancel(driver, id, 1, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_synchronize(driver, id, 0, 0, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_query(driver, id, 0, &stream, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_wait(driver, id, 0, 1, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_stream_priority(driver, id, 0, 1, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_share(driver, id, 1, 1000, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_priority(driver, id, 1, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_bounds(driver, id, 1, 0, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_tensor_cores(driver, id, true, ERROR));
        REFUSED(FACET_NOT_FOUND, facet_vgpu_set_mixed_precision(driver, id, true, ERROR));
    }
    assert_null(kernel);
}

static void bad_vgpus_are_refused_and_leave_nothing(void **state)
{
    const struct {
        enum facet_status status;
        struct facet_vgpu_config config;
    } bad[] = {
        {FACET_INVALID_ARGUMENT, {.size = 4}},
        {FACET_OUT_OF_RANGE, {.memory_bytes = 1}},
        {FACET_OUT_OF_RANGE, {.memory_bytes = UINT64_MAX}},
        {FACET_OUT_OF_RANGE, {.memory_bytes = 65 * MIB}},
        {FACET_QUOTA, {.streams = 33}},
        {FACET_QUOTA, {.streams = UINT32_MAX}},
        {FACET_OUT_OF_RANGE, {.request_milli = 1001}},
        {FACET_OUT_OF_RANGE, {.limit_milli = 1001}},
        {FACET_OUT_OF_RANGE, {.request_milli = 500, .limit_milli = 400}},
        {FACET_OUT_OF_RANGE, {.priority = 4}},
        {FACET_OUT_OF_RANGE, {.units = 100000}},
        {FACET_OUT_OF_RANGE, {.units = 1, .units_least = 2}},
        {FACET_INVALID_ARGUMENT, {.off = FACET_OFF_MEMORY}},
        {FACET_INVALID_ARGUMENT, {.on = 2}},
        {FACET_INVALID_ARGUMENT, {.name = "no good name"}},
        {FACET_NOT_FOUND, {.device = 2}},
    };
    uint32_t count = 5;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct facet_vgpu_config config = bad[i].config;
        uint32_t id = 99;

        config.size = config.size ? config.size : sizeof config;
        world.error = (struct facet_error){0};
        assert_int_equal(facet_vgpu_create(world.driver, &config, &id, ERROR), bad[i].status);
        assert_int_equal(id, 99);
        assert_true(world.error.message[0]);
    }
    OK(facet_vgpu_list(world.driver, NULL, 0, &count, ERROR));
    assert_int_equal(count, 0);
    struct facet_driver_device device = {.size = sizeof device};
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.vgpus, 0);
    assert_int_equal(device.promised_bytes, 0);
    vgpu_make(1);
    const struct facet_vgpu_config again = vgpu_config(1);
    REFUSED(FACET_ALREADY_EXISTS, facet_vgpu_create(world.driver, &again, NULL, ERROR));
    vgpu_memory(1, 100); /* vGPU 1 still works */
}

static void vgpus_and_streams_are_bounded(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_vgpu_config one = vgpu_config(0);
    uint32_t id = 0;

    config.vgpus = 3;
    config.streams = 5;
    world_open(&config);
    one.memory_bytes = 1;
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_string_equal(world.error.argument, "memory_bytes");
    one.memory_bytes = MIB;
    one.on = 1u << 31;
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_string_equal(world.error.argument, "on");
    one.on = 0;
    one.off = 1u << 31;
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_string_equal(world.error.argument, "off");
    one.off = 0;
    OK(facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_int_equal(id, 1);
    OK(facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_int_equal(id, 2);
    REFUSED(FACET_QUOTA, facet_vgpu_create(world.driver, &one, &id, ERROR)); /* one stream is left */
    assert_string_equal(world.error.argument, "streams");
    one.streams = 1;
    OK(facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_int_equal(id, 3);
    REFUSED(FACET_QUOTA, facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_string_equal(world.error.argument, "vgpus");
    OK(facet_vgpu_destroy(world.driver, 2, ERROR));
    OK(facet_vgpu_create(world.driver, &one, &id, ERROR));
    assert_int_equal(id, 2);
    world_close();
}

static void vgpus_are_listed_by_number(void **state)
{
    struct facet_vgpu_info infos[4] = {{.size = sizeof infos[0]}, {.size = sizeof infos[0]}, {.size = sizeof infos[0]}};
    uint32_t count = 0;

    vgpu_make(30);
    vgpu_make(10);
    vgpu_make(UINT32_MAX);
    REFUSED(FACET_TOO_SMALL, facet_vgpu_list(world.driver, infos, 2, &count, ERROR));
    assert_int_equal(count, 3);
    OK(facet_vgpu_list(world.driver, infos, 4, &count, ERROR));
    assert_int_equal(count, 3);
    assert_int_equal(infos[0].id, 10);
    assert_string_equal(infos[0].name, "vgpu-10");
    assert_int_equal(infos[0].memory_limit_bytes, 16 * MIB);
    assert_int_equal(infos[1].id, 30);
    assert_int_equal(infos[2].id, UINT32_MAX);
    assert_int_equal(infos[2].size, sizeof infos[2]);
}

/* A program that was built when the struct was smaller has an array of shorter elements. */
static void a_list_of_smaller_structs_is_filled_as_they_lie(void **state)
{
    struct older {
        uint32_t size, id;
        uint64_t more;
    } older[3] = {{.size = sizeof older[0]}, {.size = sizeof older[0]}, {.size = sizeof older[0], .more = 1}};
    uint32_t count = 0;

    vgpu_make(5);
    vgpu_make(6);
    OK(facet_vgpu_list(world.driver, (struct facet_vgpu_info *)older, 2, &count, ERROR));
    assert_int_equal(count, 2);
    assert_int_equal(older[0].size, sizeof older[0]);
    assert_int_equal(older[0].id, 5);
    assert_int_equal(older[1].id, 6);
    assert_int_equal(older[2].id, 0); /* behind the array's end */
    older[1].size = 8;
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_list(world.driver, (struct facet_vgpu_info *)older, 3, &count, ERROR));
}

/* ---- memory ---- */

static void memory_is_counted_and_bounded(void **state)
{
    uint64_t address = 0, second = 0, largest = 16 * MIB;
    struct facet_vgpu_info info;
    struct facet_allocation found = {.size = sizeof found};

    vgpu_make(1);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate(world.driver, 1, 0, NULL, &address, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate(world.driver, 1, UINT64_MAX, NULL, &address, ERROR));
    REFUSED(FACET_QUOTA, facet_vgpu_allocate(world.driver, 1, largest + 1, NULL, &address, ERROR));
    address = vgpu_memory(1, largest);
    REFUSED(FACET_QUOTA, facet_vgpu_allocate(world.driver, 1, 1, NULL, &second, ERROR));
    info = vgpu_info(1);
    assert_int_equal(info.memory_allocated_bytes, largest);
    assert_int_equal(info.memory_reserved_bytes, largest);
    assert_int_equal(info.memory_milli, 1000);
    assert_int_equal(info.allocations, 1);
    OK(facet_vgpu_find(world.driver, 1, address + 100, &found, ERROR));
    assert_int_equal(found.address, address);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, address + 64, ERROR));
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, address, ERROR));
    OK(facet_vgpu_free(world.driver, 1, 0, ERROR));
    OK(facet_vgpu_set_memory(world.driver, 1, 20 * MIB, ERROR));
    address = vgpu_memory(1, 20 * MIB);
    REFUSED(FACET_QUOTA, facet_vgpu_set_memory(world.driver, 1, 10 * MIB, ERROR));
    assert_string_equal(world.error.argument, "memory_bytes");
    assert_null(strstr(world.error.message, "limit_bytes"));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_set_memory(world.driver, 1, 1, ERROR));
    assert_string_equal(world.error.argument, "memory_bytes");
    assert_int_equal(strncmp(world.error.message, "memory_bytes: 1 is not within", 29), 0);
    assert_int_equal(vgpu_info(1).memory_limit_bytes, 20 * MIB);
    OK(facet_vgpu_reallocate(world.driver, 1, address, MIB, &second, ERROR));
    OK(facet_vgpu_set_memory(world.driver, 1, 10 * MIB, ERROR));
    struct facet_driver_device device = {.size = sizeof device};
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.promised_bytes, 10 * MIB);
}

static void memory_of_others_is_out_of_reach(void **state)
{
    uint64_t own_address = 0, other_address = 0;
    struct facet_kernel *kernel;
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {1}, .group = {1}};
    char byte = 'x';

    vgpu_make(1);
    vgpu_make(2);
    own_address = vgpu_memory(1, 4096);
    other_address = vgpu_memory(2, 4096);
    assert_int_not_equal(own_address, other_address);
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, other_address, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 1, other_address, (uintptr_t)&byte, 1, FACET_COPY_TO_DEVICE, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 1, (uintptr_t)&byte, other_address, 1, FACET_COPY_TO_HOST, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 1, own_address, other_address, 1, FACET_COPY_ON_DEVICE, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_fill(world.driver, 1, other_address, 1, 1, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_fill(world.driver, 1, 0, other_address, 1, 1, NULL, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_copy(world.driver, 1, 0, own_address, other_address, 1,
                                                        FACET_COPY_ON_DEVICE, NULL, ERROR));
    kernel = vgpu_kernel(1, "add", other_address, 1);
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_execute(world.driver, 1, 0, kernel, &range, NULL, ERROR));
    OK(facet_kernel_set_memory(kernel, 0, own_address, ERROR));
    REFUSED(FACET_INVALID_ARGUMENT, facet_vgpu_execute(world.driver, 2, 0, kernel, &range, NULL, ERROR));
    facet_kernel_destroy(kernel);
    assert_int_equal(vgpu_word(2, other_address), 0);
}

/* Memory of a destroyed vGPU is zero when another vGPU gets it. */
static void memory_is_cleared_between_vgpus(void **state)
{
    struct facet_vgpu_config config = vgpu_config(1);
    uint64_t address = 0;

    config.memory_bytes = 64 * MIB;
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
    OK(facet_vgpu_allocate(world.driver, 1, 64 * MIB, NULL, &address, ERROR));
    OK(facet_vgpu_fill(world.driver, 1, address, 0xa5, 64 * MIB, ERROR));
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    OK(facet_vgpu_create(world.driver, &config, NULL, ERROR));
    OK(facet_vgpu_allocate(world.driver, 1, 64 * MIB, NULL, &address, ERROR));
    for (uint64_t at = 0; at < 64 * MIB; at += 64 * KIB)
        assert_int_equal(vgpu_word(1, address + at), 0);
}

/* Two vGPUs whose limits exceed the device's memory run kernels in turns; no data is lost. */
static void vgpus_use_more_memory_than_the_device_has(void **state)
{
    enum { PIECES = 12, ROUNDS = 4 };
    struct facet_driver_config config = world_config();
    uint64_t pieces[2][PIECES];
    struct facet_kernel *kernels[2][PIECES];

    world.memory.memory_bytes = 16 * MIB;
    world.memory.swap_bytes = 32 * MIB;
    world_open(&config);
    for (uint32_t id = 1; id <= 2; id++) {
        vgpu_make(id);
        for (int i = 0; i < PIECES; i++) {
            pieces[id - 1][i] = vgpu_memory(id, MIB);
            kernels[id - 1][i] = vgpu_kernel(id, "add", pieces[id - 1][i], id * 100 + (uint64_t)i);
        }
    }
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t id = 1; id <= 2; id++)
            for (int i = 0; i < PIECES; i++)
                vgpu_launch(id, (uint32_t)i % 2, kernels[id - 1][i], MIB / 8);
    for (uint32_t id = 1; id <= 2; id++) {
        vgpu_finish(id);
        for (int i = 0; i < PIECES; i++) {
            for (uint64_t at = 0; at < MIB; at += 64 * KIB)
                assert_int_equal(vgpu_word(id, pieces[id - 1][i] + at), ROUNDS * (id * 100 + (uint64_t)i));
            facet_kernel_destroy(kernels[id - 1][i]);
        }
    }
    world_close();
}

/* Without virtual memory a vGPU uses the device's memory directly: it has no limit and no calls that need a space. */
static void memory_virtualization_can_be_off(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_vgpu_config limited = vgpu_config(2);
    struct facet_space_usage usage = {.size = sizeof usage};
    uint64_t address = 0, other = 0;

    config.off = FACET_OFF_MEMORY;
    world_open(&config);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_create(world.driver, &limited, NULL, ERROR));
    OK(facet_vgpu_create(world.driver, NULL, NULL, ERROR));
    address = vgpu_memory(1, 128 * MIB); /* more than its quota would be */
    struct facet_kernel *kernel = vgpu_kernel(1, "add", address, 5);
    vgpu_launch(1, 0, kernel, 10);
    vgpu_finish(1);
    facet_kernel_destroy(kernel);
    assert_int_equal(vgpu_word(1, address + 72), 5);
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_get_memory(world.driver, 1, &usage, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_defragment(world.driver, 1, NULL, NULL, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_reallocate(world.driver, 1, address, 8, &other, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, address + 8, ERROR));
    OK(facet_vgpu_free(world.driver, 1, address, ERROR));
    world_close();
}

/* ---- a device that is lost ---- */

static void a_lost_device_is_reported_and_nothing_hangs(void **state)
{
    struct facet_driver_config config = world_config();
    struct facet_driver_device device = {.size = sizeof device};
    struct facet_vgpu_info info = {.size = sizeof info};
    uint64_t gate = 0, address = 0;

    config.place = FACET_SESSION_CHILD;
    world_open(&config);
    vgpu_make(1);
    gate = vgpu_memory(1, 16);
    struct facet_kernel *kernel = vgpu_kernel(1, "gate", gate, 0);
    assert_true(wait_for_status(1, vgpu_launch(1, 0, kernel, 1), FACET_EXECUTION_RUNNING));
    pid_t child = world_child();
    assert_true(child > 0);
    kill(child, SIGKILL);
    REFUSED(FACET_DEVICE_LOST, facet_vgpu_synchronize(world.driver, 1, 0, WAIT_NS, ERROR));
    assert_int_equal(vgpu_status(1), FACET_VGPU_ERROR);
    REFUSED(FACET_DEVICE_LOST, facet_vgpu_allocate(world.driver, 1, 100, NULL, &address, ERROR));
    REFUSED(FACET_DEVICE_LOST, facet_vgpu_pause(world.driver, 1, ERROR));
    REFUSED(FACET_DEVICE_LOST, facet_vgpu_create(world.driver, NULL, NULL, ERROR));
    OK(facet_vgpu_get_info(world.driver, 1, &info, ERROR));
    assert_int_equal(info.status, FACET_VGPU_ERROR);
    assert_true(facet_driver_get_device(world.driver, 0, &device));
    assert_int_equal(device.lost, 1);
    facet_kernel_destroy(kernel);
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    world_close();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_as_asked_or_the_defaults),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(a_provider_without_devices_is_refused),
        cmocka_unit_test(drivers_do_not_know_each_other),
        cmocka_unit_test(a_driver_may_have_several_devices),
        WITH_WORLD(memory_used_is_the_memory_taken_from_the_device),
        WITH_WORLD(status_follows_the_life_of_a_vgpu),
        WITH_WORLD(unknown_numbers_are_refused),
        WITH_WORLD(bad_vgpus_are_refused_and_leave_nothing),
        cmocka_unit_test(vgpus_and_streams_are_bounded),
        WITH_WORLD(vgpus_are_listed_by_number),
        WITH_WORLD(a_list_of_smaller_structs_is_filled_as_they_lie),
        WITH_WORLD(memory_is_counted_and_bounded),
        WITH_WORLD(memory_of_others_is_out_of_reach),
        WITH_WORLD(memory_is_cleared_between_vgpus),
        cmocka_unit_test(vgpus_use_more_memory_than_the_device_has),
        cmocka_unit_test(memory_virtualization_can_be_off),
        cmocka_unit_test(a_lost_device_is_reported_and_nothing_hangs),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
