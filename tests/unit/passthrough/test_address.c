/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about addresses: which are valid, that each is printed as it was parsed, and their order. Never: needs a
 * device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <facet/pci.h>

#include "../../effort.h"

static void addresses_are_accepted_in_each_form(void **state)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"0000:01:00.0", "0000:01:00.0"},     {"01:00.0", "0000:01:00.0"},
        {"ffff:ff:1f.7", "ffff:ff:1f.7"},     {"FFFF:Ab:1F.7", "ffff:ab:1f.7"},
        {"10000:e1:00.0", "10000:e1:00.0"},   {"ffffffff:ff:1f.7", "ffffffff:ff:1f.7"},
        {"00000001:00:00.0", "0001:00:00.0"},
    };
    char text[FACET_PCI_ADDRESS_SIZE];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_pci_address address;

        assert_int_equal(facet_pci_address_parse(cases[i].text, &address, NULL), FACET_OK);
        facet_pci_address_print(&address, text);
        assert_string_equal(text, cases[i].printed);
    }
}

static void wrong_addresses_are_refused(void **state)
{
    static const char *const cases[] = {"",
                                        ":",
                                        "::.",
                                        "0000:01:00",
                                        "0000:01:00.",
                                        "0000:01:00.8",
                                        "0000:01:20.0",
                                        "0000:100:00.0",
                                        "000:01:00.0",
                                        "0000:1:00.0",
                                        "0000:01:0.0",
                                        "0000:01:00.00",
                                        "0000:001:00.0",
                                        "0000:01:000.0",
                                        "0000:01:00.0 ",
                                        " 0000:01:00.0",
                                        "0000:01:00.0\n",
                                        "0000:01:00:0",
                                        "0000.01.00.0",
                                        "0x00:01:00.0",
                                        "-000:01:00.0",
                                        "+1:00.0",
                                        "100000000:01:00.0",
                                        "0000:0000:01:00.0",
                                        "g000:01:00.0",
                                        "0000:01:00.x",
                                        "01:00.0.0",
                                        "0000:01:00.-1"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct facet_pci_address address, before;
        struct facet_error error = {0};

        memset(&address, 0x5a, sizeof address);
        before = address;
        if (!facet_pci_address_parse(cases[i], &address, &error))
            fail_msg("\"%s\" was accepted, expected a refusal", cases[i]);
        assert_int_equal(error.status, FACET_INVALID_ARGUMENT);
        assert_string_equal(error.argument, "address");
        assert_non_null(strstr(error.message, "expected"));
        assert_memory_equal(&address, &before, sizeof address);
    }
    assert_int_equal(facet_pci_address_parse(NULL, &(struct facet_pci_address){0}, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_pci_address_parse("01:00.0", NULL, NULL), FACET_INVALID_ARGUMENT);
}

static struct facet_pci_address make_random(void)
{
    uint32_t bits = (uint32_t)random();

    return (struct facet_pci_address){.domain = (uint32_t)random() >> (random() % 32),
                                      .bus = (uint8_t)bits,
                                      .device = bits >> 8 & 0x1f,
                                      .function = bits >> 13 & 7};
}

static void every_printed_address_is_parsed_back(void **state)
{
    char text[FACET_PCI_ADDRESS_SIZE];

    srandom(7);
    for (int i = 0; i < (int)effort(100000, 10000); i++) {
        struct facet_pci_address address = make_random(), again;

        facet_pci_address_print(&address, text);
        assert_int_equal(facet_pci_address_parse(text, &again, NULL), FACET_OK);
        assert_memory_equal(&address, &again, sizeof address);
    }
}

/* Tries texts that resemble addresses. An accepted text is printed again as it was, except for the case of letters and
 * the leading zeros of a domain. */
static void an_accepted_text_is_printed_again(void **state)
{
    static const char bytes[] = "0123456789abcdefABCDEF:. -x";
    char text[FACET_PCI_ADDRESS_SIZE], printed[FACET_PCI_ADDRESS_SIZE];
    unsigned taken_count = 0;

    srandom(11);
    for (int i = 0; i < (int)effort(200000, 20000); i++) {
        struct facet_pci_address address = make_random();

        facet_pci_address_print(&address, text);
        for (long changes = random() % 3; changes > 0; changes--)
            text[(size_t)random() % strlen(text)] = bytes[(size_t)random() % (sizeof bytes - 1)];
        if (facet_pci_address_parse(text, &address, NULL))
            continue;
        taken_count++;
        facet_pci_address_print(&address, printed);
        const char *tail = strrchr(text, ':') - 2, *printed_tail = strrchr(printed, ':') - 2;
        assert_int_equal(strcasecmp(tail, printed_tail), 0);
        assert_int_equal(strchr(text, ':') < tail ? strtoul(text, NULL, 16) : 0, address.domain);
    }
    assert_true(taken_count > effort(50000, 5000));
}

static void the_order_is_of_domain_bus_device_function(void **state)
{
    static const struct facet_pci_address ascending[] = {{.function = 1},
                                                         {.device = 1},
                                                         {.device = 1, .function = 7},
                                                         {.bus = 1},
                                                         {.bus = 0xff, .device = 0x1f, .function = 7},
                                                         {.domain = 1},
                                                         {.domain = 0x10000},
                                                         {.domain = UINT32_MAX}};
    const size_t count = sizeof ascending / sizeof ascending[0];

    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            int order = facet_pci_address_compare(&ascending[i], &ascending[j]);

            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
}

static void each_value_of_an_enumeration_has_a_name(void **state)
{
    for (uint32_t i = 0; i < FACET_PCI_KINDS; i++)
        assert_non_null(facet_pci_kind_name(i));
    for (uint32_t i = 0; i < FACET_PCI_ATTRIBUTES; i++)
        assert_non_null(facet_pci_attribute_name(i));
    for (uint32_t i = 0; i < FACET_PCI_UNREADS; i++)
        assert_non_null(facet_pci_unread_name(i));
    for (uint32_t i = 0; i < FACET_PCI_RESETS; i++)
        assert_non_null(facet_pci_reset_name(UINT32_C(1) << i));
    assert_null(facet_pci_kind_name(FACET_PCI_KINDS));
    assert_null(facet_pci_attribute_name(FACET_PCI_ATTRIBUTES));
    assert_null(facet_pci_unread_name(FACET_PCI_UNREADS));
    assert_null(facet_pci_reset_name(0));
    assert_null(facet_pci_reset_name(3)); /* two bits; a name is that of one */
    assert_null(facet_pci_reset_name(UINT32_C(1) << FACET_PCI_RESETS));
    assert_string_equal(facet_pci_kind_name(FACET_PCI_KIND_NPU), "npu");
    assert_string_equal(facet_pci_attribute_name(FACET_PCI_USES), "uses");
    assert_string_equal(facet_pci_unread_name(FACET_PCI_UNREAD_ASLEEP), "asleep");
    assert_string_equal(facet_pci_reset_name(FACET_PCI_RESET_CXL_BUS), "cxl_bus");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_accepted_in_each_form),
        cmocka_unit_test(wrong_addresses_are_refused),
        cmocka_unit_test(every_printed_address_is_parsed_back),
        cmocka_unit_test(an_accepted_text_is_printed_again),
        cmocka_unit_test(the_order_is_of_domain_bus_device_function),
        cmocka_unit_test(each_value_of_an_enumeration_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
