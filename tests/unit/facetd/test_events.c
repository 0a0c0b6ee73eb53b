/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of which events are kept, and of their numbers. Never: starts threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "events.h"

static struct daemon_event list[EVENTS_KEPT];

static void add_events(struct events *events, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        events_add(events, "sim:0", &(struct facet_event){.kind = FACET_EVENT_ECC, .value = i});
}

static void there_is_no_event_at_first(void **state)
{
    struct events *events = events_open();
    uint64_t last = 1;

    assert_int_equal(events_read(events, 0, list, &last), 0);
    assert_int_equal(last, 0);
    assert_int_equal(events_read(events, UINT64_MAX, list, &last), 0);
    events_close(events);
}

static void newer_events_are_returned_in_order(void **state)
{
    struct events *events = events_open();
    uint64_t last = 0;

    add_events(events, 5);
    assert_int_equal(events_read(events, 3, list, &last), 2);
    assert_int_equal(last, 5);
    assert_int_equal(list[0].sequence, 4);
    assert_int_equal(list[1].sequence, 5);
    assert_int_equal(list[1].event.value, 4);
    assert_string_equal(list[1].device_id, "sim:0");
    assert_int_equal(events_read(events, 5, list, &last), 0);
    assert_int_equal(events_read(events, 6, list, &last), 0);
    events_close(events);
}

static void new_events_replace_the_oldest(void **state)
{
    struct events *events = events_open();
    uint64_t last = 0;

    add_events(events, EVENTS_KEPT + 10);
    assert_int_equal(events_read(events, 0, list, &last), EVENTS_KEPT);
    assert_int_equal(last, EVENTS_KEPT + 10);
    for (uint64_t i = 0; i < EVENTS_KEPT; i++)
        assert_int_equal(list[i].sequence, i + 11); /* the first ten were replaced */
    assert_int_equal(events_read(events, 20, list, &last), EVENTS_KEPT - 10);
    assert_int_equal(list[0].sequence, 21);
    events_close(events);
}

static void every_kind_has_a_name(void **state)
{
    assert_string_equal(event_kind_name(FACET_EVENT_HEALTH), "health");
    assert_string_equal(event_kind_name(FACET_EVENT_VENDOR_ERROR), "vendor_error");
    assert_string_equal(event_kind_name(0), "other");
    assert_string_equal(event_kind_name(99), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_no_event_at_first),
        cmocka_unit_test(newer_events_are_returned_in_order),
        cmocka_unit_test(new_events_replace_the_oldest),
        cmocka_unit_test(every_kind_has_a_name),
    };

    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
