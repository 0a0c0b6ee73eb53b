/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the device table over good providers: negotiation, order, look-up, JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/json.h"
#include "device/table.h"
#include "fixtures.h"

static struct facet_device_table *open_table(const char *paths, uint16_t abi_minor)
{
    const struct facet_session_options options = {.size = sizeof options, .abi_minor = abi_minor};
    struct facet_device_table *table = NULL;

    assert_int_equal(facet_device_table_open_with(paths, &options, &table, NULL), FACET_OK);
    return table;
}

static void a_good_provider_is_kept_with_its_devices(void **state)
{
    struct facet_device_table *table = open_table(fixture("good"), 0);
    const struct facet_provider_record *provider = facet_provider_at(table, 0);
    const struct facet_device_record *device = facet_device_table_at(table, 1);

    assert_int_equal(provider->state, FACET_PROVIDER_LOADED);
    assert_string_equal(provider->name, "fixture");
    assert_string_equal(provider->version, "1");
    assert_string_equal(provider->description, "A fixture");
    assert_string_equal(provider->path, fixture("good"));
    assert_int_equal(provider->device_count, 2);
    assert_int_equal(facet_device_table_count(table), 2);
    assert_string_equal(device->id, "fixture:1");
    assert_ptr_equal(device->provider, provider);
    assert_string_equal(device->info.name, "Fixture 1");
    assert_int_equal(device->info.memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(facet_device_table_at(table, 0)->health, FACET_HEALTH_OK);
    assert_int_equal(device->health, FACET_HEALTH_FAILED);
    assert_null(facet_device_table_at(table, 2));
    assert_null(facet_provider_at(table, 1));
    facet_device_table_close(table);
}

static void assert_minor(const char *name, uint16_t host_minor, uint16_t negotiated)
{
    struct facet_device_table *table = open_table(fixture(name), host_minor);
    const struct facet_provider_record *provider = facet_provider_at(table, 0);

    assert_string_equal(provider->reason.message, "");
    assert_int_equal(provider->state, FACET_PROVIDER_LOADED);
    assert_int_equal(provider->abi_major, FACET_PROVIDER_ABI_MAJOR);
    assert_int_equal(provider->abi_minor, negotiated);
    facet_device_table_close(table);
}

/* Both sides use the smaller minor version: a newer provider under this host, an older one under a newer host. */
static void the_smaller_minor_version_is_negotiated(void **state)
{
    assert_minor("newer_minor", 0, FACET_PROVIDER_ABI_MINOR);
    assert_minor("newer_minor", 9, 7); /* the fixture is of minor version 7 */
    assert_minor("good", 9, FACET_PROVIDER_ABI_MINOR);
    assert_minor("good", 3, 3);
}

static void a_missing_optional_operation_is_no_refusal(void **state)
{
    struct facet_device_table *table = open_table(fixture("no_health"), 0);

    assert_int_equal(facet_device_table_count(table), 2);
    assert_int_equal(facet_device_table_at(table, 0)->health, FACET_HEALTH_UNKNOWN);
    facet_device_table_close(table);
}

static void output_of_a_provider_is_discarded(void **state)
{
    int ends[2], out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
    char byte;

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    struct facet_device_table *table = open_table(fixture("noisy"), 0);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(ends[1]);
    assert_int_equal(facet_provider_at(table, 0)->state, FACET_PROVIDER_LOADED);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    facet_device_table_close(table);
}

/* A folder is searched for facet-provider-*.so, in the order of their names; nothing else in it counts. */
static void a_folder_is_searched_in_order(void **state)
{
    static const struct {
        const char *fixture, *file;
    } links[] = {
        {"newer_minor", "facet-provider-b.so"},
        {"no_health", "facet-provider-a.so"},
        {"noisy", "provider-c.so"},
        {"noisy", "facet-provider-d.so.old"},
    };
    char folder[] = "/tmp/facet-test-table-XXXXXX", paths[4][128];

    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, links[i].file);
        assert_int_equal(symlink(fixture(links[i].fixture), paths[i]), 0);
    }
    struct facet_device_table *table = open_table(folder, 0);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        assert_int_equal(unlink(paths[i]), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(facet_provider_count(table), 2);
    assert_string_equal(facet_provider_at(table, 0)->name, "no-health");
    assert_string_equal(facet_provider_at(table, 1)->name, "newer");
    assert_string_equal(facet_device_table_at(table, 2)->id, "newer:0");
    facet_device_table_close(table);
}

static void the_environment_gives_the_default_path(void **state)
{
    struct facet_device_table *table = NULL;

    setenv("FACET_PROVIDER_PATH", fixture("good"), 1);
    assert_int_equal(facet_device_table_open(NULL, &table, NULL), FACET_OK);
    unsetenv("FACET_PROVIDER_PATH");
    assert_string_equal(facet_provider_at(table, 0)->name, "fixture");
    facet_device_table_close(table);
}

static void a_missing_folder_of_shipped_providers_is_an_error(void **state)
{
    struct facet_device_table *table = NULL;
    struct facet_error error;
    char library[512];

    snprintf(library, sizeof library, "%s", getenv("FACET_LIB_DIR"));
    setenv("FACET_LIB_DIR", "/nonexistent", 1);
    assert_int_equal(facet_device_table_open(NULL, &table, &error), FACET_NOT_FOUND);
    setenv("FACET_LIB_DIR", library, 1);
    assert_null(table);
    assert_non_null(strstr(error.message, "/nonexistent"));
}

static const struct facet_device_record *find_device(const struct facet_device_table *table, const char *text)
{
    const struct facet_device_record *device = NULL;

    assert_int_equal(facet_device_table_find(table, text, &device, NULL), FACET_OK);
    return device;
}

static void a_device_is_found_by_id_uuid_and_position(void **state)
{
    struct facet_device_table *table = open_table(fixture("good"), 0);
    const struct facet_device_record *second = facet_device_table_at(table, 1);

    assert_ptr_equal(find_device(table, NULL), facet_device_table_at(table, 0));
    assert_ptr_equal(find_device(table, "fixture:1"), second);
    assert_ptr_equal(find_device(table, "fixture-1"), second);
    assert_ptr_equal(find_device(table, "1"), second);
    facet_device_table_close(table);
}

/* Wherever the provider of devices without programs stands in the path, the other devices keep their positions, and the
 * default device stays. */
static void devices_that_take_no_programs_come_last(void **state)
{
    static const char *const ids[] = {"fixture:0", "fixture:1", "kernels:0", "kernels:1"};
    char paths[2][1024];

    snprintf(paths[0], sizeof paths[0], "%s:%s", fixture("good"), fixture("kernels_only"));
    snprintf(paths[1], sizeof paths[1], "%s:%s", fixture("kernels_only"), fixture("good"));
    for (size_t i = 0; i < 2; i++) {
        struct facet_device_table *table = open_table(paths[i], 0);

        assert_int_equal(facet_device_table_count(table), 4);
        for (uint32_t j = 0; j < 4; j++) {
            const struct facet_device_record *device = facet_device_table_at(table, j);

            assert_string_equal(device->id, ids[j]);
            assert_int_equal(device->info.index, j % 2);
            assert_int_equal(facet_device_takes_programs(device), j < 2);
        }
        assert_string_equal(find_device(table, NULL)->id, "fixture:0");
        assert_string_equal(find_device(table, "2")->id, "kernels:0");
        assert_string_equal(find_device(table, "kernels:1")->info.uuid, "kernels-1");
        facet_device_table_close(table);
    }
}

static void the_refusal_of_an_unknown_device_lists_the_known_ones(void **state)
{
    static const char *const unknown[] = {"", "2", "01", "+1", "1 ", "fixture", "fixture:2", "FIXTURE:1"};
    struct facet_device_table *table = open_table(fixture("good"), 0);

    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const struct facet_device_record *device = NULL;
        struct facet_error error;

        assert_int_equal(facet_device_table_find(table, unknown[i], &device, &error), FACET_NOT_FOUND);
        assert_null(device);
        assert_string_equal(error.argument, "device");
        assert_non_null(strstr(error.message, "expected one of fixture:0, fixture:1"));
    }
    facet_device_table_close(table);
}

static void a_table_without_devices_names_the_refused_provider(void **state)
{
    struct facet_device_table *table = open_table(fixture("refuses"), 0);
    const struct facet_device_record *device = NULL;
    struct facet_error error;

    assert_int_equal(facet_device_table_find(table, NULL, &device, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no device on this machine"));
    assert_non_null(strstr(error.message, "the runtime is older than 12.4"));
    facet_device_table_close(table);
}

/* "cuda:0" on a machine without the driver: the message names the provider, and why it has no devices. */
static void a_provider_without_devices_is_named(void **state)
{
    char paths[1600], wanted[128];
    const struct facet_device_record *device = NULL;
    struct facet_error error;

    snprintf(paths, sizeof paths, "%s:%s:%s/facet-provider-null.so", fixture("good"), fixture("refuses"),
             getenv("FACET_LIB_DIR"));
    struct facet_device_table *table = open_table(paths, 0);
    assert_int_equal(facet_device_table_find(table, "null:0", &device, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "expected one of fixture:0, fixture:1; provider null (Template for vendors"));
    assert_non_null(strstr(error.message, "finds no device on this machine"));
    snprintf(wanted, sizeof wanted, "%s:0", facet_provider_at(table, 1)->name);
    assert_int_equal(facet_device_table_find(table, wanted, &device, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "was refused: "));
    assert_non_null(strstr(error.message, "the runtime is older than 12.4"));
    assert_int_equal(facet_device_table_find(table, "fixture:7", &device, &error), FACET_NOT_FOUND);
    assert_null(strstr(error.message, "provider"));
    /* No provider has this name: the message names the refused ones, which may be the reason. */
    assert_int_equal(facet_device_table_find(table, "7", &device, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "the runtime is older than 12.4"));
    assert_null(strstr(error.message, "null"));
    facet_device_table_close(table);
}

static void json_leaves_out_values_that_were_not_measured(void **state)
{
    struct facet_device_table *table = open_table(fixture("good"), 0);
    json_t *root = facet_device_table_json(table);
    json_t *device = json_array_get(json_object_get(root, "devices"), 0);

    assert_int_equal(json_array_size(json_object_get(root, "devices")), 2);
    assert_string_equal(json_string_value(json_object_get(device, "id")), "fixture:0");
    assert_string_equal(json_string_value(json_object_get(device, "kind")), "gpu");
    assert_string_equal(json_string_value(json_object_get(device, "health")), "ok");
    assert_string_equal(json_string_value(json_object_get(device, "provider")), "fixture");
    assert_int_equal(json_integer_value(json_object_get(device, "memory_bytes")), 1 << 30);
    assert_int_equal(json_integer_value(json_object_get(device, "compute_units")), 8);
    assert_true(json_is_false(json_object_get(device, "simulated")));
    json_t *modes = json_object_get(device, "modes");
    assert_int_equal(json_array_size(modes), 2);
    assert_string_equal(json_string_value(json_array_get(modes, 1)), "soft");
    assert_null(json_object_get(device, "clock_mhz"));
    assert_null(json_object_get(device, "max_alloc_bytes"));
    assert_null(json_object_get(device, "pci_address"));
    assert_null(json_object_get(device, "driver_version"));
    json_decref(root);
    facet_device_table_close(table);
}

static void json_of_providers_has_the_reason_of_a_refusal(void **state)
{
    char paths[2048], abi[16];

    snprintf(paths, sizeof paths, "%s:%s:/tmp/\xff.so", fixture("good"), fixture("refuses"));
    struct facet_device_table *table = open_table(paths, 0);
    json_t *root = facet_provider_table_json(table);
    json_t *list = json_object_get(root, "providers");
    json_t *good = json_array_get(list, 0), *refused = json_array_get(list, 1);

    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(good, "state")), "loaded");
    snprintf(abi, sizeof abi, "%d.%d", FACET_PROVIDER_ABI_MAJOR, FACET_PROVIDER_ABI_MINOR);
    assert_string_equal(json_string_value(json_object_get(good, "abi")), abi);
    assert_int_equal(json_integer_value(json_object_get(good, "devices")), 2);
    assert_null(json_object_get(good, "reason"));
    assert_string_equal(json_string_value(json_object_get(refused, "state")), "refused");
    assert_non_null(strstr(json_string_value(json_object_get(refused, "reason")), "12.4"));
    assert_null(json_object_get(refused, "abi"));
    /* A path need not be UTF-8; the JSON must. */
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 2), "path")), "/tmp/?.so");
    json_decref(root);
    facet_device_table_close(table);
}

/* JSON's integers have a sign: a device that reports UINT64_MAX bytes must not have negative memory. */
static void json_has_no_negative_amounts(void **state)
{
    struct facet_device_table *table = open_table(fixture("good"), 0);
    struct facet_device_record device = *facet_device_table_at(table, 1);

    device.info.memory_bytes = UINT64_MAX;
    device.info.valid |= FACET_DEVICE_HAS_MEMORY;
    json_t *object = facet_device_json(&device);
    assert_int_equal(json_integer_value(json_object_get(object, "memory_bytes")), INT64_MAX);
    json_decref(object);
    facet_device_table_close(table);
}

static void too_many_files_are_refused(void **state)
{
    char paths[65 * 7 + 1]; /* one file more than are allowed, of 7 bytes each */
    struct facet_device_table *table = NULL;

    for (size_t i = 0; i < 65; i++)
        snprintf(paths + 7 * i, 8, "/no.so:");
    assert_int_equal(facet_device_table_open(paths, &table, NULL), FACET_OUT_OF_RANGE);
    assert_null(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_provider_is_kept_with_its_devices),
        cmocka_unit_test(the_smaller_minor_version_is_negotiated),
        cmocka_unit_test(a_missing_optional_operation_is_no_refusal),
        cmocka_unit_test(output_of_a_provider_is_discarded),
        cmocka_unit_test(a_folder_is_searched_in_order),
        cmocka_unit_test(the_environment_gives_the_default_path),
        cmocka_unit_test(a_missing_folder_of_shipped_providers_is_an_error),
        cmocka_unit_test(a_device_is_found_by_id_uuid_and_position),
        cmocka_unit_test(devices_that_take_no_programs_come_last),
        cmocka_unit_test(the_refusal_of_an_unknown_device_lists_the_known_ones),
        cmocka_unit_test(a_table_without_devices_names_the_refused_provider),
        cmocka_unit_test(a_provider_without_devices_is_named),
        cmocka_unit_test(json_leaves_out_values_that_were_not_measured),
        cmocka_unit_test(json_of_providers_has_the_reason_of_a_refusal),
        cmocka_unit_test(json_has_no_negative_amounts),
        cmocka_unit_test(too_many_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
