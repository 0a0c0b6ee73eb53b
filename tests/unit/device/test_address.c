/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the address, a string by which the provider and the OpenCL layer name the same device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <facet/opencl_address.h>
#include <facet/provider.h>

static void an_address_holds_platform_name_and_ordinal(void **state)
{
    char address[FACET_OPENCL_ADDRESS_SIZE];

    facet_opencl_address("Portable Computing Language", "pthread-Xeon(R)", 2, address);
    assert_string_equal(address, "platform=Portable Computing Language;name=pthread-Xeon(R);ordinal=2");
}

static void separators_and_unprintables_are_replaced(void **state)
{
    char address[FACET_OPENCL_ADDRESS_SIZE];

    facet_opencl_address("a;ordinal=9", "b\n\x7f\xc3\xa4", 0, address);
    assert_string_equal(address, "platform=a_ordinal=9;name=b____;ordinal=0");
}

static void the_longest_address_fits(void **state)
{
    char name[300], address[FACET_OPENCL_ADDRESS_SIZE];

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    facet_opencl_address(name, name, UINT32_MAX, address);
    assert_int_equal(strlen(address), strlen("platform=;name=;ordinal=4294967295") + 2 * FACET_OPENCL_NAME_MAX);
    assert_string_equal(strrchr(address, '='), "=4294967295");
    assert_true(sizeof address <= sizeof((struct facet_device_info *)0)->address);
}

static void an_address_begins_with_its_stem(void **state)
{
    char stem[FACET_OPENCL_ADDRESS_SIZE], address[FACET_OPENCL_ADDRESS_SIZE];

    facet_opencl_address_stem("p", "d", stem);
    facet_opencl_address("p", "d", 10, address);
    assert_memory_equal(address, stem, strlen(stem));
    assert_string_equal(address + strlen(stem), "10");
    /* A device whose name begins with another device's name must not be counted as that device. */
    facet_opencl_address("p", "d2", 0, address);
    assert_int_not_equal(strncmp(address, stem, strlen(stem)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_holds_platform_name_and_ordinal),
        cmocka_unit_test(separators_and_unprintables_are_replaced),
        cmocka_unit_test(the_longest_address_fits),
        cmocka_unit_test(an_address_begins_with_its_stem),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
