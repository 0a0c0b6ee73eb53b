/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the tests of the opencl provider's partitions, limits and containers, over the made-up runtime of
 * opencl_runtime.c: device 0 is a GPU that cannot be partitioned, device 3 PoCL's processor of 64 units.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <facet/limits.h>
#include <facet/opencl_address.h>
#include <facet/provider.h>

#include "../../effort.h"
#include "../../fixtures/providers/opencl_runtime.h"

#define GPU          0u
#define LARGE_DEVICE 3u
#define UNITS        64u
#define MEMORY       (UINT64_C(2) << 30)

static const struct facet_provider *provider;
static struct facet_provider_instance *instance;
static struct facet_error failure;

static int set_up(void **state)
{
    const struct facet_provider_host host = {.size = sizeof host,
                                             .abi_major = FACET_PROVIDER_ABI_MAJOR,
                                             .abi_minor = FACET_PROVIDER_ABI_MINOR,
                                             .error = &failure};

    signal(SIGHUP, SIG_IGN);
    return facet_provider_entry(&host, &provider) != FACET_OK ||
           provider->device->open(&instance, &failure) != FACET_OK;
}

static int tear_down(void **state)
{
    provider->device->close(instance);
    return fixture_live_sub_devices != 0;
}

static struct facet_device_info device_info(uint32_t device)
{
    struct facet_device_info infos[8];
    uint32_t count = 0;

    assert_int_equal(provider->device->list(instance, infos, sizeof infos[0], 8, &count, &failure), FACET_OK);
    assert_true(device < count);
    return infos[device];
}

static enum facet_status create_partition(const char *template_id, uint32_t start,
                                          struct facet_partition_info *ret_info)
{
    *ret_info = (struct facet_partition_info){.size = sizeof *ret_info};
    return provider->partition->create(instance, LARGE_DEVICE, template_id, start, ret_info, &failure);
}

static struct facet_partition_info create_one(const char *template_id, uint32_t start)
{
    struct facet_partition_info info;

    assert_int_equal(create_partition(template_id, start, &info), FACET_OK);
    return info;
}

static enum facet_status destroy_partition(const char *uuid)
{
    return provider->partition->destroy(instance, LARGE_DEVICE, uuid, &failure);
}

static uint32_t list_partitions(struct facet_partition_info *infos, uint32_t capacity)
{
    uint32_t count = 0;

    assert_int_equal(
        provider->partition->list(instance, LARGE_DEVICE, infos, sizeof *infos, capacity, &count, &failure), FACET_OK);
    return count;
}

static struct facet_worker_limit limit_of(const char *worker)
{
    struct facet_worker_limit limit = {.size = sizeof limit};

    assert_int_equal(provider->limit->get(instance, LARGE_DEVICE, worker, &limit, &failure), FACET_OK);
    return limit;
}

static enum facet_status set_compute(const char *worker, uint32_t milli)
{
    return provider->limit->set_compute(instance, LARGE_DEVICE, worker, milli, &failure);
}

static enum facet_status set_memory(const char *worker, uint64_t bytes)
{
    return provider->limit->set_memory(instance, LARGE_DEVICE, worker, bytes, &failure);
}

static enum facet_status clear_limits(const char *worker)
{
    return provider->limit->clear(instance, LARGE_DEVICE, worker, &failure);
}

/* --- what the device reports about itself --- */

static void modes_follow_the_drivers_abilities(void **state)
{
    struct facet_device_info gpu = device_info(GPU), large = device_info(LARGE_DEVICE);
    const uint64_t spatial = FACET_CAN_PARTITION | FACET_CAN_LIMIT_COMPUTE | FACET_CAN_LIMIT_MEMORY;

    assert_int_equal(gpu.modes, FACET_DEVICE_MODE(FACET_MODE_SHARED) | FACET_DEVICE_MODE(FACET_MODE_SOFT));
    assert_int_equal(gpu.capabilities, 0);
    assert_false(gpu.valid & FACET_DEVICE_HAS_MAX_PARTITIONS);
    assert_int_equal(large.modes, 0xf); /* all four modes */
    assert_int_equal(large.capabilities, spatial | FACET_CAN_CONTAINER);
    assert_int_equal(large.max_partitions, UNITS);
    assert_int_equal(large.mode_group[FACET_MODE_SHARED], large.mode_group[FACET_MODE_SOFT]);
    assert_int_equal(large.mode_group[FACET_MODE_HARD], large.mode_group[FACET_MODE_PARTITIONED]);
    assert_int_not_equal(large.mode_group[FACET_MODE_SOFT], large.mode_group[FACET_MODE_HARD]);
}

/* The runtime replaces the handler of SIGHUP while the provider is opened. */
static void signal_handlers_of_the_host_are_kept(void **state)
{
    struct sigaction now;

    assert_int_equal(sigaction(SIGHUP, NULL, &now), 0);
    assert_ptr_equal(now.sa_handler, SIG_IGN);
}

static void a_device_that_cannot_be_partitioned_reports_it(void **state)
{
    struct facet_partition_info info = {.size = sizeof info};
    struct facet_worker_limit limit = {.size = sizeof limit};
    uint32_t count = 7;

    assert_int_equal(provider->partition->templates(instance, GPU, NULL, sizeof info, 0, &count, &failure),
                     FACET_UNSUPPORTED);
    assert_int_equal(provider->partition->create(instance, GPU, "1cu", 0, &info, &failure), FACET_UNSUPPORTED);
    assert_int_equal(provider->partition->destroy(instance, GPU, "x", &failure), FACET_UNSUPPORTED);
    assert_int_equal(provider->limit->set_compute(instance, GPU, "w", 500, &failure), FACET_UNSUPPORTED);
    assert_int_equal(provider->limit->set_memory(instance, GPU, "w", 500, &failure), FACET_UNSUPPORTED);
    assert_int_equal(provider->limit->get(instance, GPU, "w", &limit, &failure), FACET_UNSUPPORTED);
    assert_int_equal(
        provider->container->items(instance, GPU, NULL, NULL, sizeof(struct facet_container_item), 0, &count, &failure),
        FACET_UNSUPPORTED);
    assert_int_equal(count, 7);
    assert_int_equal(provider->partition->create(instance, 9, "1cu", 0, &info, &failure), FACET_NOT_FOUND);
}

static void properties_come_from_the_driver(void **state)
{
    char text[1024];
    uint32_t size = 0, again = 0;

    assert_int_equal(provider->device->properties(instance, LARGE_DEVICE, text, sizeof text, &size, &failure),
                     FACET_OK);
    assert_int_equal(size, strlen(text) + 1);
    assert_string_equal(text, "platform=Portable Computing Language\nopencl_version=OpenCL 3.0 acme\nextensions=2\n"
                              "max_sub_devices=64\n");
    assert_int_equal(provider->device->properties(instance, LARGE_DEVICE, text, size - 1, &again, &failure),
                     FACET_TOO_SMALL);
    assert_int_equal(again, size);
}

/* --- partitions --- */

static void templates_are_powers_of_two_units(void **state)
{
    struct facet_partition_template templates[16];
    uint32_t count = 0;

    assert_int_equal(
        provider->partition->templates(instance, LARGE_DEVICE, templates, sizeof templates[0], 16, &count, NULL),
        FACET_OK);
    assert_int_equal(count, 6);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(templates[i].length, 1u << i);
        assert_int_equal(templates[i].compute_units, 1u << i);
        assert_int_equal(templates[i].max_count, UNITS >> i);
        assert_int_equal(templates[i].valid, 0); /* memory is not partitioned */
    }
    assert_string_equal(templates[5].id, "32cu");
    assert_int_equal(templates[5].compute_milli, 500);
}

static void placements_are_every_start_that_fits(void **state)
{
    static struct facet_partition_placement placements[UNITS];
    uint32_t count = 0;
    struct facet_partition_info info = create_one("4cu", 10);

    assert_int_equal(provider->partition->placements(instance, LARGE_DEVICE, "2cu", placements, sizeof placements[0],
                                                     UNITS, &count, &failure),
                     FACET_OK);
    assert_int_equal(count, UNITS - 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(placements[i].start, i);
        assert_int_equal(placements[i].free, i + 2 <= 10 || i >= 14);
    }
    assert_int_equal(provider->partition->placements(instance, LARGE_DEVICE, "2cu", placements, sizeof placements[0], 3,
                                                     &count, &failure),
                     FACET_TOO_SMALL);
    assert_int_equal(
        provider->partition->placements(instance, LARGE_DEVICE, "3cu", NULL, sizeof placements[0], 0, &count, &failure),
        FACET_NOT_FOUND);
    assert_int_equal(destroy_partition(info.uuid), FACET_OK);
}

static void a_partition_says_where_it_is(void **state)
{
    struct facet_partition_info info = create_one("16cu", 8), listed;

    assert_int_equal(info.device, LARGE_DEVICE);
    assert_int_equal(info.start, 8);
    assert_int_equal(info.length, 16);
    assert_int_equal(info.compute_units, 16);
    assert_int_equal(info.compute_milli, 250);
    assert_int_equal(info.in_use, 0);
    assert_string_equal(info.template_id, "16cu");
    assert_string_equal(info.address, "platform=Portable Computing Language;name=pthread-acme;ordinal=0;units=8+16");
    assert_int_equal(list_partitions(&listed, 1), 1);
    assert_memory_equal(&listed, &info, sizeof info);
    assert_int_equal(fixture_live_sub_devices, 0);
    assert_int_equal(destroy_partition(info.uuid), FACET_OK);
    assert_int_equal(destroy_partition(info.uuid), FACET_NOT_FOUND);
    assert_int_equal(list_partitions(NULL, 0), 0);
}

static void uuids_are_never_used_twice(void **state)
{
    char seen[32][64];

    for (int i = 0; i < 32; i++) {
        struct facet_partition_info info = create_one("1cu", 5);

        memcpy(seen[i], info.uuid, sizeof seen[i]);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(seen[i], seen[j]);
        assert_int_equal(destroy_partition(info.uuid), FACET_OK);
    }
}

static void refusals_name_the_partition_in_the_way(void **state)
{
    struct facet_partition_info info = create_one("4cu", 10), other;

    assert_int_equal(create_partition("2cu", 13, &other), FACET_NO_SPACE);
    assert_non_null(strstr(failure.message, info.uuid));
    assert_int_equal(create_partition("2cu", UNITS - 1, &other), FACET_OUT_OF_RANGE);
    assert_int_equal(create_partition("64cu", 0, &other), FACET_NOT_FOUND);
    assert_int_equal(create_partition("02cu", 0, &other), FACET_NOT_FOUND);
    assert_int_equal(create_partition("2", 0, &other), FACET_NOT_FOUND);
    assert_int_equal(create_partition(NULL, 0, &other), FACET_INVALID_ARGUMENT);
    assert_int_equal(provider->partition->create(instance, LARGE_DEVICE, "1cu", 0, NULL, &failure),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(destroy_partition(NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(destroy_partition(info.uuid), FACET_OK);
}

/* Ten units are free before the used units, and 50 behind them. A partition takes the smaller stretch where it fits. */
static void a_partition_anywhere_takes_the_smallest_stretch(void **state)
{
    struct facet_partition_info middle = create_one("4cu", 10), first = create_one("8cu", FACET_PLACEMENT_ANY),
                                second = create_one("8cu", FACET_PLACEMENT_ANY),
                                third = create_one("2cu", FACET_PLACEMENT_ANY), none;

    assert_int_equal(first.start, 0);
    assert_int_equal(third.start, 8);
    assert_int_equal(second.start, 14);
    struct facet_partition_info all[4];
    assert_int_equal(list_partitions(all, 4), 4);
    for (int i = 1; i < 4; i++)
        assert_true(all[i - 1].start + all[i - 1].length <= all[i].start);
    assert_int_equal(create_partition("32cu", 32, &none), FACET_OK);
    assert_int_equal(destroy_partition(none.uuid), FACET_OK);
    struct facet_partition_info rest = create_one("16cu", 40);
    assert_int_equal(create_partition("32cu", FACET_PLACEMENT_ANY, &none), FACET_NO_SPACE);
    const char *uuids[] = {middle.uuid, first.uuid, second.uuid, third.uuid, rest.uuid};
    for (int i = 0; i < 5; i++)
        assert_int_equal(destroy_partition(uuids[i]), FACET_OK);
}

/* Each call of the driver fails in turn, and no partition remains. */
static void a_driver_that_fails_leaves_nothing(void **state)
{
    struct facet_partition_info info;
    int nth = 0;

    do {
        fixture_fail_after = ++nth;
        enum facet_status status = create_partition("2cu", 3, &info);
        if (fixture_fail_after > 0)
            break; /* no call was left to fail */
        assert_int_not_equal(status, FACET_OK);
        assert_int_equal(list_partitions(NULL, 0), 0);
        assert_int_equal(fixture_live_sub_devices, 0);
        fixture_fail_after = nth;
        assert_int_not_equal(set_compute("w", 1), FACET_OK);
        assert_int_equal(provider->limit->get(instance, LARGE_DEVICE, "w",
                                              &(struct facet_worker_limit){.size = sizeof(struct facet_worker_limit)},
                                              NULL),
                         FACET_NOT_FOUND);
    } while (nth < 10);
    fixture_fail_after = 0;
    assert_int_equal(nth, 3); /* create_partition() makes two calls of the driver */
    assert_int_equal(destroy_partition(info.uuid), FACET_OK);
}

/* --- limits --- */

static void compute_is_granted_in_whole_units(void **state)
{
    assert_int_equal(set_compute("one", 1), FACET_OK);
    assert_int_equal(set_compute("two", 16), FACET_OK);
    assert_int_equal(set_compute("half", 500), FACET_OK);
    struct facet_worker_limit one = limit_of("one"), two = limit_of("two"), half = limit_of("half");
    assert_int_equal(one.valid, FACET_WORKER_HAS_COMPUTE);
    assert_int_equal(one.compute_units, 1);
    assert_int_equal(one.compute_milli, 15);
    assert_int_equal(two.compute_units, 2);
    assert_int_equal(half.compute_units, 32);
    assert_int_equal(half.compute_milli, 500);
    assert_string_equal(half.address, "platform=Portable Computing Language;name=pthread-acme;ordinal=0;units=3+32");
    assert_int_equal(set_compute("rest", 500), FACET_NO_SPACE);
    assert_int_equal(set_compute("one", 1), FACET_BAD_STATE);
    assert_int_equal(clear_limits("one"), FACET_OK);
    assert_int_equal(clear_limits("one"), FACET_NOT_FOUND);
    assert_int_equal(clear_limits("two"), FACET_OK);
    assert_int_equal(clear_limits("half"), FACET_OK);
    assert_int_equal(set_compute("all", 1000), FACET_OK);
    assert_int_equal(limit_of("all").compute_units, UNITS);
    assert_int_equal(clear_limits("all"), FACET_OK);
}

static void memory_adds_up_to_the_device(void **state)
{
    assert_int_equal(set_memory("a", MEMORY - 10), FACET_OK);
    assert_int_equal(set_memory("b", 11), FACET_NO_SPACE);
    assert_int_equal(set_memory("b", 10), FACET_OK);
    assert_int_equal(set_memory("c", 1), FACET_NO_SPACE);
    assert_int_equal(set_memory("a", 1), FACET_BAD_STATE);
    struct facet_worker_limit a = limit_of("a");
    assert_int_equal(a.valid, FACET_WORKER_HAS_MEMORY);
    assert_int_equal(a.memory_bytes, MEMORY - 10);
    assert_string_equal(a.address, device_info(LARGE_DEVICE).address);
    assert_int_equal(set_compute("a", 100), FACET_OK);
    assert_int_equal(limit_of("a").valid, FACET_WORKER_HAS_MEMORY | FACET_WORKER_HAS_COMPUTE);
    assert_int_equal(clear_limits("a"), FACET_OK);
    assert_int_equal(set_memory("c", MEMORY - 10), FACET_OK);
    assert_int_equal(clear_limits("b"), FACET_OK);
    assert_int_equal(clear_limits("c"), FACET_OK);
}

static void limits_out_of_range_are_refused(void **state)
{
    assert_int_equal(set_compute("w", 0), FACET_OUT_OF_RANGE);
    assert_int_equal(set_compute("w", 1001), FACET_OUT_OF_RANGE);
    assert_int_equal(set_memory("w", 0), FACET_OUT_OF_RANGE);
    assert_int_equal(set_memory("w", MEMORY + 1), FACET_OUT_OF_RANGE);
    assert_int_equal(set_memory("", 1), FACET_INVALID_ARGUMENT);
    assert_int_equal(set_compute("../w", 1), FACET_INVALID_ARGUMENT);
    assert_int_equal(set_compute(NULL, 1), FACET_INVALID_ARGUMENT);
    assert_int_equal(provider->limit->get(instance, LARGE_DEVICE, "w", NULL, &failure), FACET_INVALID_ARGUMENT);
    uint32_t count = 9;
    assert_int_equal(
        provider->limit->list(instance, LARGE_DEVICE, NULL, sizeof(struct facet_worker_limit), 0, &count, &failure),
        FACET_OK);
    assert_int_equal(count, 0);
}

static void workers_and_partitions_share_the_units(void **state)
{
    struct facet_partition_info left = create_one("32cu", 0), other;

    assert_int_equal(set_compute("w", 500), FACET_OK);
    assert_int_equal(create_partition("1cu", FACET_PLACEMENT_ANY, &other), FACET_NO_SPACE);
    assert_int_equal(create_partition("1cu", 40, &other), FACET_NO_SPACE);
    assert_non_null(strstr(failure.message, "worker w"));
    assert_int_equal(set_compute("v", 1), FACET_NO_SPACE);
    assert_int_equal(destroy_partition(left.uuid), FACET_OK);
    assert_int_equal(set_compute("v", 1), FACET_OK);
    assert_int_equal(clear_limits("v"), FACET_OK);
    assert_int_equal(clear_limits("w"), FACET_OK);
}

/* --- random steps, threads --- */

/* Asserts that no unit belongs to two partitions or workers. */
static void check_disjoint(void)
{
    static struct facet_partition_info infos[UNITS];
    static struct facet_worker_limit limits[UNITS];
    uint32_t count = list_partitions(infos, UNITS), workers = 0;
    struct facet_opencl_place place;
    uint8_t taken[UNITS] = {0};

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t unit = 0; unit < infos[i].length; unit++)
            assert_int_equal(taken[infos[i].start + unit]++, 0);
    assert_int_equal(provider->limit->list(instance, LARGE_DEVICE, limits, sizeof limits[0], UNITS, &workers, NULL),
                     FACET_OK);
    for (uint32_t i = 0; i < workers; i++) {
        assert_true(facet_opencl_address_parse(limits[i].address, &place));
        assert_int_equal(place.count, limits[i].compute_units);
        for (uint32_t unit = 0; unit < place.count; unit++)
            assert_int_equal(taken[place.start + unit]++, 0);
    }
}

static void random_steps_never_overlap(void **state)
{
    static const char *const templates[] = {"1cu", "2cu", "4cu", "8cu", "16cu"};
    static struct facet_partition_info infos[UNITS];
    unsigned seed = effort_seed(20);
    char worker[16];

    print_message("# seed %u\n", seed);
    for (int step = 0; step < (int)effort(20000, 2000); step++) {
        unsigned choice = (unsigned)rand_r(&seed);
        uint32_t count;

        snprintf(worker, sizeof worker, "w%u", choice / 4 % 8);
        switch (choice % 4) {
        case 0:
            create_partition(templates[choice / 4 % 5], choice / 32 % 3 ? choice / 128 % UNITS : FACET_PLACEMENT_ANY,
                             &infos[0]);
            break;
        case 1:
            count = list_partitions(infos, UNITS);
            if (count > 0)
                assert_int_equal(destroy_partition(infos[choice / 4 % count].uuid), FACET_OK);
            break;
        case 2:
            set_compute(worker, choice / 32 % 300 + 1);
            break;
        default:
            clear_limits(worker);
        }
        check_disjoint();
    }
    for (uint32_t count = list_partitions(infos, UNITS); count > 0; count--)
        assert_int_equal(destroy_partition(infos[count - 1].uuid), FACET_OK);
    for (int i = 0; i < 8; i++) {
        snprintf(worker, sizeof worker, "w%d", i);
        clear_limits(worker);
    }
    assert_int_equal(list_partitions(NULL, 0), 0);
}

static void *churn_partitions(void *argument)
{
    const char *worker = argument;
    uintptr_t created = 0;

    for (int i = 0; i < 500; i++) {
        struct facet_partition_info info = {.size = sizeof info};
        struct facet_worker_limit limit = {.size = sizeof limit};

        if (provider->partition->create(instance, LARGE_DEVICE, "8cu", FACET_PLACEMENT_ANY, &info, NULL) == FACET_OK) {
            created++;
            provider->partition->destroy(instance, LARGE_DEVICE, info.uuid, NULL);
        }
        if (provider->limit->set_compute(instance, LARGE_DEVICE, worker, 100, NULL) == FACET_OK) {
            provider->limit->get(instance, LARGE_DEVICE, worker, &limit, NULL);
            provider->limit->clear(instance, LARGE_DEVICE, worker, NULL);
        }
    }
    return (void *)created;
}

static void eight_threads_leave_the_device_empty(void **state)
{
    static char workers[8][16];
    pthread_t threads[8];
    uintptr_t created = 0;
    void *result;

    for (int i = 0; i < 8; i++) {
        snprintf(workers[i], sizeof workers[i], "t%d", i);
        assert_int_equal(pthread_create(&threads[i], NULL, churn_partitions, workers[i]), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], &result);
        created += (uintptr_t)result;
    }
    assert_true(created > 0);
    assert_int_equal(list_partitions(NULL, 0), 0);
    assert_int_equal(fixture_live_sub_devices, 0);
    assert_int_equal(set_compute("all", 1000), FACET_OK);
    assert_int_equal(clear_limits("all"), FACET_OK);
}

/* --- containers --- */

static void a_tenant_of_pocl_is_bound_to_its_processors(void **state)
{
    struct facet_partition_info info = create_one("1cu", 0);
    struct facet_container_item item;
    uint32_t count = 0;

    assert_int_equal(
        provider->container->items(instance, LARGE_DEVICE, info.uuid, &item, sizeof item, 1, &count, &failure),
        FACET_OK);
    assert_int_equal(count, 1);
    assert_int_equal(item.kind, FACET_CONTAINER_ENVIRONMENT);
    assert_string_equal(item.guest, "POCL_AFFINITY");
    assert_string_equal(item.host, "1");
    assert_int_equal(provider->container->items(instance, LARGE_DEVICE, "", &item, sizeof item, 1, &count, &failure),
                     FACET_OK);
    assert_int_equal(destroy_partition(info.uuid), FACET_OK);
    assert_int_equal(
        provider->container->items(instance, LARGE_DEVICE, info.uuid, &item, sizeof item, 1, &count, &failure),
        FACET_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_follow_the_drivers_abilities),
        cmocka_unit_test(signal_handlers_of_the_host_are_kept),
        cmocka_unit_test(a_device_that_cannot_be_partitioned_reports_it),
        cmocka_unit_test(properties_come_from_the_driver),
        cmocka_unit_test(templates_are_powers_of_two_units),
        cmocka_unit_test(placements_are_every_start_that_fits),
        cmocka_unit_test(a_partition_says_where_it_is),
        cmocka_unit_test(uuids_are_never_used_twice),
        cmocka_unit_test(refusals_name_the_partition_in_the_way),
        cmocka_unit_test(a_partition_anywhere_takes_the_smallest_stretch),
        cmocka_unit_test(a_driver_that_fails_leaves_nothing),
        cmocka_unit_test(compute_is_granted_in_whole_units),
        cmocka_unit_test(memory_adds_up_to_the_device),
        cmocka_unit_test(limits_out_of_range_are_refused),
        cmocka_unit_test(workers_and_partitions_share_the_units),
        cmocka_unit_test(random_steps_never_overlap),
        cmocka_unit_test(eight_threads_leave_the_device_empty),
        cmocka_unit_test(a_tenant_of_pocl_is_bound_to_its_processors),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
