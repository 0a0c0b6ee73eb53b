/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of how the opencl provider describes devices, over the made-up runtime of opencl_runtime.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/table.h"
#include "fixtures.h"

static struct facet_device_table *table;

static int set_up(void **state)
{
    return facet_device_table_open(fixture("opencl"), &table, NULL);
}

static int tear_down(void **state)
{
    facet_device_table_close(table);
    return 0;
}

static const struct facet_device_info *device_info(uint32_t index)
{
    assert_non_null(facet_device_table_at(table, index));
    return &facet_device_table_at(table, index)->info;
}

static void every_device_of_every_platform_is_listed(void **state)
{
    assert_string_equal(facet_provider_at(table, 0)->reason.message, "");
    assert_int_equal(facet_device_table_count(table), 4);
    assert_string_equal(device_info(0)->name, "Acme_One");
    assert_string_equal(device_info(0)->vendor, "Acme");
    assert_int_equal(device_info(0)->kind, FACET_DEVICE_GPU);
    assert_int_equal(device_info(2)->kind, FACET_DEVICE_ACCELERATOR);
    assert_int_equal(device_info(1)->memory_bytes, UINT64_C(2) << 30);
    assert_int_equal(device_info(1)->clock_mhz, 1800);
}

static void equal_devices_differ_in_their_ordinal(void **state)
{
    assert_string_equal(device_info(0)->address, "platform=Acme_ Compute;name=Acme_One ;ordinal=0");
    assert_string_equal(device_info(1)->address, "platform=Acme_ Compute;name=Acme_One ;ordinal=1");
    assert_string_equal(device_info(2)->address, "platform=Acme_ Compute;name=Acme_On;ordinal=0");
}

/* "cl_khr_device_uuid_2" is another extension than "cl_khr_device_uuid". */
static void a_device_that_reports_a_uuid_keeps_it(void **state)
{
    assert_string_equal(device_info(0)->uuid, "01234567-89ab-cdef-0000-000000000000");
    assert_string_equal(device_info(1)->uuid, "ff000000-0000-0000-0000-000000000000");
    assert_int_equal(device_info(2)->uuid[14], '8');
}

static void a_pci_address_is_written_as_the_kernel_does(void **state)
{
    assert_true(device_info(0)->valid & FACET_DEVICE_HAS_PCI);
    assert_string_equal(device_info(0)->pci_address, "0000:1a:02.3");
    assert_string_equal(device_info(1)->pci_address, "10000:00:00.0");
    assert_false(device_info(2)->valid & FACET_DEVICE_HAS_PCI);
    assert_string_equal(device_info(2)->pci_address, "");
}

static void values_that_a_device_does_not_report_are_absent(void **state)
{
    assert_int_equal(device_info(2)->valid, FACET_DEVICE_HAS_COMPUTE_UNITS);
    assert_int_equal(device_info(2)->memory_bytes, 0);
    assert_string_equal(device_info(2)->driver_version, "");
}

static void a_device_that_is_not_available_is_unhealthy(void **state)
{
    assert_int_equal(facet_device_table_at(table, 0)->health, FACET_HEALTH_OK);
    assert_int_equal(facet_device_table_at(table, 2)->health, FACET_HEALTH_FAILED);
}

static void a_platform_that_fails_is_named(void **state)
{
    struct facet_device_table *broken = NULL;

    setenv("FIXTURE_OPENCL", "broken", 1);
    assert_int_equal(facet_device_table_open(fixture("opencl"), &broken, NULL), FACET_OK);
    unsetenv("FIXTURE_OPENCL");
    assert_int_equal(facet_provider_at(broken, 0)->state, FACET_PROVIDER_REFUSED);
    assert_string_equal(facet_provider_at(broken, 0)->reason.message,
                        "cannot open: input/output error: Empty: OpenCL error -5");
    facet_device_table_close(broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_of_every_platform_is_listed),
        cmocka_unit_test(equal_devices_differ_in_their_ordinal),
        cmocka_unit_test(a_device_that_reports_a_uuid_keeps_it),
        cmocka_unit_test(a_pci_address_is_written_as_the_kernel_does),
        cmocka_unit_test(values_that_a_device_does_not_report_are_absent),
        cmocka_unit_test(a_device_that_is_not_available_is_unhealthy),
        cmocka_unit_test(a_platform_that_fails_is_named),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
