/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the published layout of the provider ABI, written out once more by hand. A change that breaks this test breaks
 * every provider that was ever built: append members instead, and raise the minor version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <facet/provider.h>

#define AT(type, member, offset) assert_int_equal(offsetof(struct type, member), offset)

static void device_info_keeps_its_layout(void **state)
{
    AT(facet_device_info, size, 0);
    AT(facet_device_info, index, 4);
    AT(facet_device_info, valid, 8);
    AT(facet_device_info, uuid, 16);
    AT(facet_device_info, name, 80);
    AT(facet_device_info, vendor, 208);
    AT(facet_device_info, driver_version, 272);
    AT(facet_device_info, address, 400);
    AT(facet_device_info, pci_address, 656);
    AT(facet_device_info, kind, 672);
    AT(facet_device_info, modes, 676);
    AT(facet_device_info, memory_bytes, 680);
    AT(facet_device_info, max_alloc_bytes, 688);
    AT(facet_device_info, compute_units, 696);
    AT(facet_device_info, clock_mhz, 700);
    AT(facet_device_info, numa_node, 704);
    AT(facet_device_info, max_partitions, 708);
    AT(facet_device_info, capabilities, 712);
    assert_int_equal(sizeof(struct facet_device_info), 744);
}

static void tables_keep_their_layout(void **state)
{
    AT(facet_device_ops, size, 0);
    AT(facet_device_ops, open, 8);
    AT(facet_device_ops, close, 16);
    AT(facet_device_ops, list, 24);
    AT(facet_device_ops, health, 32);
    AT(facet_provider, size, 0);
    AT(facet_provider, abi_major, 4);
    AT(facet_provider, abi_minor, 6);
    AT(facet_provider, name, 8);
    AT(facet_provider, version, 16);
    AT(facet_provider, description, 24);
    AT(facet_provider, traits, 32);
    AT(facet_provider, device, 40);
    AT(facet_provider_host, size, 0);
    AT(facet_provider_host, abi_major, 4);
    AT(facet_provider_host, abi_minor, 6);
    AT(facet_provider_host, error, 8);
    assert_int_equal(sizeof(struct facet_provider_host), 16);
}

/* Providers fill it in, so it is part of the ABI too. */
static void the_error_keeps_its_layout(void **state)
{
    AT(facet_error, status, 0);
    AT(facet_error, argument, 4);
    AT(facet_error, message, 36);
    assert_int_equal(sizeof(struct facet_error), 396);
}

static void published_values_stay(void **state)
{
    assert_int_equal(FACET_PROVIDER_ABI_MAJOR, 1);
    assert_int_equal(FACET_DEVICE_ACCELERATOR, 4);
    assert_int_equal(FACET_DEVICE_HAS_MAX_PARTITIONS, 1 << 6);
    assert_int_equal(FACET_HEALTH_FAILED, 3);
    assert_int_equal(FACET_PROVIDER_SIMULATED, 1);
    assert_int_equal(FACET_PROVIDER_TEMPLATE, 2);
    assert_int_equal(FACET_TOO_SMALL, -7);
    assert_int_equal(FACET_ABI_MISMATCH, -301);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_info_keeps_its_layout),
        cmocka_unit_test(tables_keep_their_layout),
        cmocka_unit_test(the_error_keeps_its_layout),
        cmocka_unit_test(published_values_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
