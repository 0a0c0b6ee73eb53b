/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about configuration spaces: capabilities are found, and every walk ends. Never: needs a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <facet/pci.h>

#include "../../effort.h"
#include "passthrough/scan/config_space.h"

struct space {
    uint8_t bytes[CONFIG_SPACE_SIZE];
};

static void put_bytes(struct space *space, size_t offset, uint32_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        space->bytes[offset + i] = (uint8_t)(value >> (8 * i));
}

/* An Express endpoint with two capabilities: power management at 0x40, and Express at 0x60. A capability's low byte is
 * its ID, its high byte the offset of the next one. */
static void make_space(struct space *space)
{
    memset(space, 0, sizeof *space);
    put_bytes(space, 0x00, 0x233010de, 4);
    put_bytes(space, 0x06, 0x10, 2); /* the status: there is a capability list */
    space->bytes[0x34] = 0x40;       /* the offset of the first capability */
    put_bytes(space, 0x40, 0x6001, 2);
    put_bytes(space, 0x60, 0x0010, 2);
}

static struct config_facts facts_of(const struct space *space, size_t length)
{
    struct config_facts facts;

    assert_true(config_space_read(&(struct config_space){space->bytes, length}, &facts));
    return facts;
}

static void a_plain_config_space_is_read(void **state)
{
    struct space space;

    make_space(&space);
    space.bytes[0x0e] = 0x80; /* the header type: 0, of a device with several functions */
    struct config_facts facts = facts_of(&space, sizeof space);
    assert_true(facts.is_express);
    assert_false(facts.is_lost);
    assert_int_equal(facts.header_type, 0);
    assert_int_equal(facts.acs, 0);
    assert_int_equal(facts.serial, 0);
    struct config_space config = {space.bytes, sizeof space};
    assert_int_equal(config_space_find(&config, 0x01), 0x40);
    assert_int_equal(config_space_find(&config, 0x10), 0x60);
    assert_int_equal(config_space_find(&config, 0x11), 0);
}

/* An extended capability begins with its ID (16 bits), its version (4) and the offset of the next one (12). */
static void extended_config_spaces_are_read(void **state)
{
    struct space space;

    make_space(&space);
    put_bytes(&space, 0x100, 0x14010003, 4); /* a serial number; the next is at 0x140 */
    put_bytes(&space, 0x104, 0x04050607, 4);
    put_bytes(&space, 0x108, 0x00010203, 4);
    put_bytes(&space, 0x140, 0x0001000d, 4); /* access control services (ACS), the last */
    put_bytes(&space, 0x144, 0x001d00ff, 4); /* 0xff is supported, of which 0x1d is enabled */
    struct config_facts facts = facts_of(&space, sizeof space);
    assert_int_equal(facts.serial, UINT64_C(0x0001020304050607));
    assert_int_equal(facts.acs, FACET_PCI_ACS_PRESENT | 0x1d);
    facts = facts_of(&space, 256); /* the size of a conventional PCI configuration space */
    assert_int_equal(facts.serial, 0);
    assert_int_equal(facts.acs, 0);
}

static void short_config_spaces_are_refused(void **state)
{
    struct space space;
    struct config_facts facts;

    make_space(&space);
    for (size_t length = 0; length < 64; length++)
        assert_false(config_space_read(&(struct config_space){space.bytes, length}, &facts));
    assert_false(facts_of(&space, 64).is_express);
    for (size_t length = 64; length <= sizeof space; length++)
        facts_of(&space, length);
}

static void a_lost_function_has_no_facts(void **state)
{
    struct space space;

    memset(&space, 0xff, sizeof space);
    struct config_facts facts = facts_of(&space, sizeof space);
    assert_true(facts.is_lost);
    assert_int_equal(facts.header_type, 0);
    assert_int_equal(facts.acs, 0);
    assert_int_equal(facts.serial, 0);
    assert_true(facts_of(&space, 64).is_lost);
    make_space(&space);
    put_bytes(&space, 0, UINT32_MAX, 4); /* the IDs of a virtual function read as ones, and it is not lost */
    assert_false(facts_of(&space, sizeof space).is_lost);
}

static void circular_capability_lists_end(void **state)
{
    struct space space;

    make_space(&space);
    put_bytes(&space, 0x60, 0x4005, 2);      /* points to the previous capability */
    put_bytes(&space, 0x100, 0x10010001, 4); /* points to itself */
    struct config_facts facts = facts_of(&space, sizeof space);
    assert_false(facts.is_express);
    put_bytes(&space, 0x40, 0x4001, 2); /* points to itself */
    assert_false(facts_of(&space, sizeof space).is_express);
    put_bytes(&space, 0x100, 0x14010001, 4); /* 0x100 and 0x140 point to each other */
    put_bytes(&space, 0x140, 0x10010001, 4);
    assert_int_equal(facts_of(&space, sizeof space).serial, 0);
}

static void pointers_into_the_header_or_beyond_the_end_lead_nowhere(void **state)
{
    struct space space;

    make_space(&space);
    for (unsigned to = 0; to < 256; to++) {
        space.bytes[0x34] = (uint8_t)to;
        struct config_space config = {space.bytes, 256};
        size_t found = config_space_find(&config, 0x10);
        assert_true(found == 0 || found >= 0x40);
    }
    make_space(&space);
    space.bytes[0x34] = 0xfc;
    put_bytes(&space, 0xfc, 0x0010, 2);
    assert_true(facts_of(&space, 256).is_express); /* at the last possible offset */
    put_bytes(&space, 0x100, 0xffc10001, 4);       /* points to 0xffc, the last place of a header */
    put_bytes(&space, 0xffc, 0x0001000d, 4);
    assert_int_equal(facts_of(&space, sizeof space).acs, FACET_PCI_ACS_PRESENT); /* its register is beyond the end */
}

static void without_the_status_bit_there_are_no_capabilities(void **state)
{
    struct space space;

    make_space(&space);
    put_bytes(&space, 0x06, 0, 2);
    assert_false(facts_of(&space, sizeof space).is_express);
}

/* The bytes are on the heap in their exact size, so that a sanitizer sees a read past the end. */
static void random_bytes_are_read_safely(void **state)
{
    srandom(3);
    for (int i = 0; i < (int)effort(20000, 2000); i++) {
        size_t length = 64 + (size_t)random() % (i % 8 ? 256 : CONFIG_SPACE_SIZE - 63);
        uint8_t *bytes = malloc(length);
        struct config_facts facts;

        assert_non_null(bytes);
        for (size_t j = 0; j < length; j++)
            bytes[j] = (uint8_t)random();
        bytes[0x06] |= 0x10;
        assert_true(config_space_read(&(struct config_space){bytes, length}, &facts));
        assert_int_equal(facts.header_type, bytes[0x0e] & 0x7f);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_config_space_is_read),
        cmocka_unit_test(extended_config_spaces_are_read),
        cmocka_unit_test(short_config_spaces_are_refused),
        cmocka_unit_test(a_lost_function_has_no_facts),
        cmocka_unit_test(circular_capability_lists_end),
        cmocka_unit_test(pointers_into_the_header_or_beyond_the_end_lead_nowhere),
        cmocka_unit_test(without_the_status_bit_there_are_no_capabilities),
        cmocka_unit_test(random_bytes_are_read_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
