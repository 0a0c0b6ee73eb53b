/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the shipped providers null and, if it was built, opencl. Every machine must pass them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <facet/limits.h>

#include "device/table.h"
#include "fixtures.h"

static const char *path_of_shipped(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/facet-provider-%s.so", getenv("FACET_LIB_DIR"), name);
    return path;
}

static struct facet_device_table *open_shipped(const char *name)
{
    struct facet_device_table *table = NULL;

    if (access(path_of_shipped(name), F_OK) != 0)
        skip();
    assert_int_equal(facet_device_table_open(path_of_shipped(name), &table, NULL), FACET_OK);
    assert_string_equal(facet_provider_at(table, 0)->reason.message, "");
    assert_int_equal(facet_provider_at(table, 0)->state, FACET_PROVIDER_LOADED);
    return table;
}

static void null_is_loaded_and_has_no_devices(void **state)
{
    struct facet_device_table *table = open_shipped("null");

    assert_string_equal(facet_provider_at(table, 0)->name, "null");
    assert_int_equal(facet_provider_at(table, 0)->traits, FACET_PROVIDER_TEMPLATE);
    assert_int_equal(facet_device_table_count(table), 0);
    facet_device_table_close(table);
}

static void shipped_providers_are_the_default(void **state)
{
    struct facet_device_table *table = NULL;
    bool null_found = false;

    assert_int_equal(facet_device_table_open(NULL, &table, NULL), FACET_OK);
    for (uint32_t i = 0; i < facet_provider_count(table); i++) {
        assert_int_equal(facet_provider_at(table, i)->state, FACET_PROVIDER_LOADED);
        null_found |= strcmp(facet_provider_at(table, i)->name, "null") == 0;
    }
    assert_true(null_found);
    facet_device_table_close(table);
}

static void opencl_devices_are_described(void **state)
{
    struct facet_device_table *table = open_shipped("opencl");

    for (uint32_t i = 0; i < facet_device_table_count(table); i++) {
        const struct facet_device_record *device = facet_device_table_at(table, i);
        const struct facet_device_info *info = &device->info;

        assert_int_equal(info->index, i);
        assert_int_equal(strlen(info->uuid), 36);
        assert_ptr_equal(strstr(info->address, "platform="), info->address);
        assert_non_null(strstr(info->address, ";ordinal="));
        assert_true(info->valid & FACET_DEVICE_HAS_MEMORY);
        assert_true(info->memory_bytes >= info->max_alloc_bytes && info->max_alloc_bytes > 0);
        assert_true(info->compute_units > 0);
        assert_true(info->modes & FACET_DEVICE_MODE(FACET_MODE_SHARED) &&
                    info->modes & FACET_DEVICE_MODE(FACET_MODE_SOFT));
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(info->address, facet_device_table_at(table, j)->info.address);
    }
    facet_device_table_close(table);
}

static void identities_survive_a_restart(void **state)
{
    struct facet_device_table *first = open_shipped("opencl"), *second = open_shipped("opencl");

    assert_int_equal(facet_device_table_count(first), facet_device_table_count(second));
    for (uint32_t i = 0; i < facet_device_table_count(first); i++) {
        assert_string_equal(facet_device_table_at(first, i)->info.uuid, facet_device_table_at(second, i)->info.uuid);
        assert_string_equal(facet_device_table_at(first, i)->info.address,
                            facet_device_table_at(second, i)->info.address);
    }
    facet_device_table_close(first);
    facet_device_table_close(second);
}

/* Without a vendor's runtime the ICD loader returns -1001, which means that there is no device and is no failure. */
static void a_machine_without_a_platform_has_no_device(void **state)
{
    char folder[] = "/tmp/facet-test-opencl-XXXXXX";

    assert_non_null(mkdtemp(folder));
    setenv("OCL_ICD_VENDORS", folder, 1);
    setenv("OPENCL_VENDOR_PATH", folder, 1);
    struct facet_device_table *table = open_shipped("opencl");
    unsetenv("OCL_ICD_VENDORS");
    unsetenv("OPENCL_VENDOR_PATH");
    rmdir(folder);
    assert_int_equal(facet_device_table_count(table), 0);
    facet_device_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_is_loaded_and_has_no_devices),
        cmocka_unit_test(shipped_providers_are_the_default),
        cmocka_unit_test(opencl_devices_are_described),
        cmocka_unit_test(identities_survive_a_restart),
        cmocka_unit_test(a_machine_without_a_platform_has_no_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
