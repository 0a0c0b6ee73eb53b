/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the events: their order, several listeners, dropped events, and the gap that these leave. */
#include "core.h"
#include "sim_core_fixture.h"

static void partitions_are_reported(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_partition_info info;
    struct facet_event events[256];

    assert_int_equal(list_events(instance, 0, events), 0);
    assert_int_equal(create_partition(instance, 0, "2g.20gb", 2, &info, NULL), FACET_OK);
    assert_int_equal(create_partition(instance, 0, "2g.20gb", 2, &info, NULL), FACET_NO_SPACE); /* no event */
    assert_int_equal(sim_partition_ops.destroy(instance, 0, info.uuid, NULL), FACET_OK);
    assert_int_equal(list_events(instance, 0, events), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(events[i].size, sizeof events[i]);
        assert_int_equal(events[i].kind, FACET_EVENT_PARTITION);
        assert_int_equal(events[i].sequence, i + 1);
        assert_int_equal(events[i].value, 1 - i);
        assert_int_equal(events[i].device, 0);
        assert_string_equal(events[i].uuid, info.uuid);
        assert_non_null(strstr(events[i].message, "simulated"));
        assert_true(events[i].timestamp_ns > UINT64_C(1600000000000000000)); /* 2020 */
    }
    sim_device_ops.close(instance);
}

static void several_listeners_get_every_event(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_event events[256];

    for (uint32_t i = 0; i < 5; i++)
        sim_event(instance, FACET_EVENT_ECC, 0, i, 0, "", "");
    assert_int_equal(list_events(instance, 0, events), 5);
    assert_int_equal(list_events(instance, 0, events), 5); /* reading removes no event */
    assert_int_equal(list_events(instance, 3, events), 2);
    assert_int_equal(events[0].sequence, 4);
    assert_int_equal(events[0].value, 3);
    assert_int_equal(list_events(instance, 5, events), 0);
    assert_int_equal(list_events(instance, UINT64_MAX, events), 0);
    sim_device_ops.close(instance);
}

static void dropped_events_leave_a_gap(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_event events[256];

    for (uint32_t i = 1; i <= 1000; i++)
        sim_event(instance, FACET_EVENT_ECC, 0, i, 0, "", "");
    assert_int_equal(list_events(instance, 10, events), SIM_EVENTS_KEPT);
    assert_int_equal(events[0].sequence, 1000 - SIM_EVENTS_KEPT + 1); /* the earlier ones were dropped */
    for (uint32_t i = 0; i < SIM_EVENTS_KEPT; i++)
        assert_int_equal(events[i].value, events[0].sequence + i);
    assert_int_equal(list_events(instance, 999, events), 1);
    sim_device_ops.close(instance);
}

static void lists_are_never_cut(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    struct facet_event event = {.value = 4711};
    uint32_t count = 0;

    for (uint32_t i = 0; i < 3; i++)
        sim_event(instance, FACET_EVENT_ECC, 0, i, 0, "", "");
    assert_int_equal(sim_device_ops.events(instance, 0, &event, sizeof event, 2, &count, NULL), FACET_TOO_SMALL);
    assert_int_equal(count, 3);
    assert_int_equal(event.value, 4711);
    assert_int_equal(sim_device_ops.events(instance, 0, NULL, sizeof event, 0, &count, NULL), FACET_TOO_SMALL);
    assert_refused(sim_device_ops.events(instance, 0, &event, 3, 3, &count, &error), FACET_INVALID_ARGUMENT,
                   "item_size 3");
    assert_refused(sim_device_ops.events(instance, 0, &event, sizeof event, 3, NULL, &error), FACET_INVALID_ARGUMENT,
                   "ret_count");
    assert_refused(sim_device_ops.events(NULL, 0, &event, sizeof event, 3, &count, &error), FACET_INVALID_ARGUMENT,
                   "instance");
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partitions_are_reported),
        cmocka_unit_test(several_listeners_get_every_event),
        cmocka_unit_test(dropped_events_leave_a_gap),
        cmocka_unit_test(lists_are_never_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
