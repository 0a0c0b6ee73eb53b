/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about the occupancy of a node document: parts that are held, amounts that are withheld, and the messages
 * for what is missing. Amounts are micro-units: 600000 is 0.6 of a device.
 * Never: stores anything, or has a registry (test_reservations.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/allocation.h>

#include "base/text.h"
#include "occupancy.h"

static struct facet_spec *one_device(const char *slot, uint32_t type)
{
    const struct facet_spec_share share = {"d", FACET_AMOUNT_ONE};
    struct facet_spec *spec = NULL;

    assert_int_equal(facet_spec_create(&spec, NULL), FACET_OK);
    assert_int_equal(facet_spec_put_device(spec,
                                           &(struct facet_spec_device){.size = sizeof(struct facet_spec_device),
                                                                       .device_id = "d",
                                                                       .device_name = "x",
                                                                       .facet_id = "x:0"},
                                           NULL),
                     FACET_OK);
    assert_int_equal(facet_spec_put_slot(spec,
                                         &(struct facet_spec_slot){.size = sizeof(struct facet_spec_slot),
                                                                   .slot_name = slot,
                                                                   .type = type,
                                                                   .shares = &share,
                                                                   .share_count = 1},
                                         NULL),
                     FACET_OK);
    return spec;
}

static void hold_slot(struct occupancy *occupancy, const char *slot, int64_t amount, const char *trouble)
{
    CLEANUP_RESERVATION struct reservation reservation = {0};

    assert_int_equal(reservation_add_part(&reservation, slot, "d", "x:0", amount, NULL), FACET_OK);
    assert_int_equal(occupancy_hold(occupancy, &reservation, NULL), FACET_OK);
    assert_string_equal(reservation.parts[0].trouble, trouble);
}

static enum facet_status grant_slot(struct occupancy *occupancy, const char *slot, int64_t amount)
{
    CLEANUP_RESERVATION struct reservation reservation = {0};

    assert_int_equal(reservation_add_item(&reservation, slot, amount, NULL), FACET_OK);
    return occupancy_grant(occupancy, &reservation, NULL, NULL);
}

/* The daemon stores no more than a device has, but the device may become smaller later. The oldest holders are then
 * served first. */
static void the_oldest_holds_what_a_smaller_device_has(void **state)
{
    struct facet_spec *spec = one_device("x.device", FACET_SLOT_COUNT);
    struct occupancy *occupancy = NULL;

    assert_int_equal(occupancy_open(spec, FACET_MAP_EVENLY, &occupancy, NULL), FACET_OK);
    hold_slot(occupancy, "x.device", 600000, "");
    hold_slot(occupancy, "x.device", 300000, "");
    hold_slot(occupancy, "x.device", 600000, "only 0.1 of 0.6 is left of device x:0");
    hold_slot(occupancy, "x.device", 10000, "only 0 of 0.01 is left of device x:0");
    hold_slot(occupancy, "x.other", 10000, "device x:0 is no longer offered as x.other");
    assert_int_equal(occupancy_withhold(occupancy, "x", "d", 500000, NULL), FACET_OK);
    assert_int_equal(grant_slot(occupancy, "x.device", 10000), FACET_NO_SPACE);
    occupancy_close(occupancy);
    facet_spec_destroy(spec);
}

/* A provider's text is cut where its buffer ends, and never within a character: JSON refuses such a text. */
static void a_trouble_stays_utf8_wherever_it_is_cut(void **state)
{
    for (int shift = 0; shift < 3; shift++) {
        struct facet_spec *spec = one_device("x.other", FACET_SLOT_COUNT);
        CLEANUP_RESERVATION struct reservation reservation = {0};
        struct occupancy *occupancy = NULL;
        char reason[256] = "xx";

        for (size_t used = (size_t)shift; used + 4 < sizeof reason; used += 3)
            memcpy(reason + used, "\xe2\x82\xac", 4);
        assert_int_equal(facet_spec_put_device(spec,
                                               &(struct facet_spec_device){.size = sizeof(struct facet_spec_device),
                                                                           .device_id = "d",
                                                                           .device_name = "x",
                                                                           .facet_id = "x:0",
                                                                           .health = FACET_SPEC_UNAVAILABLE,
                                                                           .status_info = reason},
                                               NULL),
                         FACET_OK);
        assert_int_equal(occupancy_open(spec, FACET_MAP_EVENLY, &occupancy, NULL), FACET_OK);
        assert_int_equal(reservation_add_part(&reservation, "x.device", "d", "x:0", 10000, NULL), FACET_OK);
        assert_int_equal(occupancy_hold(occupancy, &reservation, NULL), FACET_OK);
        const char *at = reservation.parts[0].trouble;
        assert_non_null(strstr(at, "device x:0 is not available: "));
        while (*at) {
            assert_int_not_equal(facet_text_character(at), 0);
            at += facet_text_character(at);
        }
        occupancy_close(occupancy);
        facet_spec_destroy(spec);
    }
}

static void a_partition_is_granted_once(void **state)
{
    struct facet_spec *spec = one_device("x.device:half", FACET_SLOT_UNIQUE);
    struct occupancy *occupancy = NULL;

    assert_int_equal(occupancy_open(spec, FACET_MAP_EVENLY, &occupancy, NULL), FACET_OK);
    assert_int_equal(grant_slot(occupancy, "x.device:half", 500000), FACET_OUT_OF_RANGE);
    hold_slot(occupancy, "x.device:half", FACET_AMOUNT_ONE, "");
    hold_slot(occupancy, "x.device:half", FACET_AMOUNT_ONE, "only 0 of 1 is left of device x:0");
    assert_int_equal(grant_slot(occupancy, "x.device:half", FACET_AMOUNT_ONE), FACET_NO_SPACE);
    occupancy_close(occupancy);
    facet_spec_destroy(spec);
}

static void slots_of_a_vgpu_are_withheld_up_to_the_free_amount(void **state)
{
    struct facet_spec *spec = one_device("x.device", FACET_SLOT_COUNT);
    struct occupancy *occupancy = NULL;

    assert_int_equal(occupancy_open(spec, FACET_MAP_EVENLY, &occupancy, NULL), FACET_OK);
    assert_int_equal(occupancy_withhold(occupancy, "x", "d", 300000, NULL), FACET_OK);
    assert_int_equal(occupancy_withhold(occupancy, "y", "d", 300000, NULL), FACET_OK);
    assert_int_equal(occupancy_withhold(occupancy, "x", "e", 300000, NULL), FACET_OK);
    assert_int_equal(grant_slot(occupancy, "x.device", 710000), FACET_NO_SPACE);
    assert_int_equal(grant_slot(occupancy, "x.device", 600000), FACET_OK);
    assert_int_equal(occupancy_withhold(occupancy, "x", "d", 300000, NULL), FACET_OK);
    assert_int_equal(grant_slot(occupancy, "x.device", 10000), FACET_NO_SPACE);
    occupancy_close(occupancy);
    facet_spec_destroy(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_holds_what_a_smaller_device_has),
        cmocka_unit_test(a_trouble_stays_utf8_wherever_it_is_cut),
        cmocka_unit_test(a_partition_is_granted_once),
        cmocka_unit_test(slots_of_a_vgpu_are_withheld_up_to_the_free_amount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
