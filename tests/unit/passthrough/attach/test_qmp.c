/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs about hot-plug and unplug when QEMU refuses, stalls, dies or lies at any step, and when memory runs out.
 * Never: starts a VM; test_qemu.c does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../spec/failing.h"
#include "attach_request.h"
#include "base/clock.h"
#include "qmp_server.h"

static struct server server;

static const struct facet_attach_function functions[] = {FUNCTION(AT(1, 0, 0)), FUNCTION(AT(1, 0, 1)),
                                                         FUNCTION(AT(2, 0, 0))};

static int set_up(void **state)
{
    return server_start(&server) ? 0 : -1;
}

static int tear_down(void **state)
{
    server_stop(&server);
    return 0;
}

#define assert_says(error, text)                                                                                       \
    do {                                                                                                               \
        if (!strstr((error).message, text))                                                                            \
            fail_msg("'%s' does not say '%s'", (error).message, text);                                                 \
    } while (0)

static enum facet_status open_qmp(uint64_t timeout_ms, struct facet_qmp **ret_qmp, struct facet_error *error)
{
    return facet_qmp_open(&(struct facet_qmp_config){.size = sizeof(struct facet_qmp_config),
                                                     .socket = server.path,
                                                     .timeout_ns = timeout_ms * FACET_NS_PER_MS},
                          ret_qmp, error);
}

static enum facet_status attach_functions(uint64_t timeout_ms, struct facet_attach_report *reports,
                                          struct facet_error *error)
{
    struct facet_qmp *qmp = NULL;
    enum facet_status status = open_qmp(timeout_ms, &qmp, error);

    reports_clear(reports, 3);
    if (status == FACET_OK)
        status = facet_qmp_attach(qmp, REQUEST(functions, .flags = FACET_ATTACH_IOMMUFD), reports, error);
    facet_qmp_close(qmp);
    return status;
}

static enum facet_status detach_functions(uint64_t timeout_ms, struct facet_error *error)
{
    struct facet_qmp *qmp = NULL;
    enum facet_status status = open_qmp(timeout_ms, &qmp, error);

    if (status == FACET_OK)
        status = facet_qmp_detach(qmp, functions, 3, error);
    facet_qmp_close(qmp);
    return status;
}

static void clear_server(void)
{
    server_set(&server, fault_at = 0);
    server_settle(&server);
    server_set(&server, answers = 0);
    server_set(&server, device_count = 0);
    server_set(&server, object = false);
}

/* --- without faults --- */

static void functions_are_attached_and_detached(void **state)
{
    struct facet_attach_report reports[3];
    struct facet_error error = {0};

    for (int slow = 0; slow < 2; slow++) {
        server_set(&server, in_pieces = slow);
        server_set(&server, sends_events = slow);
        assert_int_equal(attach_functions(30000, reports, &error), FACET_OK);
        assert_int_equal(server.device_count, 3);
        /* The guest discovers a device by its function 0, which is therefore attached last. */
        assert_string_equal(server.devices[0].id, "facet-0000-01-00.1");
        assert_string_equal(server.devices[1].id, "facet-0000-01-00.0");
        assert_string_equal(reports[0].port, "rp1");
        assert_string_equal(reports[2].port, "rp2");
        assert_int_equal(reports[0].used, FACET_PCI_YES);
        assert_true(server.object);
        assert_int_equal(detach_functions(30000, &error), FACET_OK);
        assert_int_equal(server.device_count, 0);
        assert_int_equal(detach_functions(30000, &error), FACET_NOT_FOUND);
    }
}

static void a_device_plugged_by_another_tool_is_found_by_its_address(void **state)
{
    const struct facet_attach_function function = FUNCTION(AT(0xaa, 0, 0)), other = FUNCTION(AT(0xaa, 0, 1));
    struct facet_qmp *qmp = NULL;
    struct facet_error error = {0};

    server.devices[server.device_count++] = (struct server_device){.id = "hostdev0", .port = 1};
    assert_int_equal(open_qmp(30000, &qmp, &error), FACET_OK);
    assert_int_equal(facet_qmp_detach(qmp, &other, 1, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_qmp_detach(qmp, &function, 1, &error), FACET_OK);
    assert_int_equal(server.device_count, 0);
    facet_qmp_close(qmp);
}

static void a_guest_that_refuses_is_told_from_a_slow_one(void **state)
{
    struct facet_attach_report reports[3];
    struct facet_error error = {0};

    assert_int_equal(attach_functions(30000, reports, &error), FACET_OK);
    server_set(&server, reports_refusal = true);
    assert_int_equal(detach_functions(30000, &error), FACET_BUSY);
    assert_says(error, "'facet-0000-01-00.0': the guest refuses to give it up");
    server_set(&server, reports_refusal = false);
    server_set(&server, keeps_devices = true);
    assert_int_equal(detach_functions(200, &error), FACET_TIMEOUT);
    assert_says(error, "the guest has not given it up in time");
    server_set(&server, state = "paused");
    assert_int_equal(detach_functions(200, &error), FACET_TIMEOUT);
    assert_says(error, "the VM is 'paused'");
    server_set(&server, keeps_devices = false);
    server_set(&server, reports_unplug_pending = true);
    assert_int_equal(detach_functions(30000, &error), FACET_OK);
}

static void a_paused_guest_uses_nothing(void **state)
{
    struct facet_attach_report reports[3];
    struct facet_error error = {0};

    server_set(&server, state = "prelaunch");
    assert_int_equal(attach_functions(30000, reports, &error), FACET_OK);
    assert_int_equal(reports[0].used, FACET_PCI_UNKNOWN);
}

static void more_functions_than_ports_are_refused_before_any_change(void **state)
{
    const struct facet_attach_function three[] = {FUNCTION(AT(1, 0, 0)), FUNCTION(AT(2, 0, 0)), FUNCTION(AT(3, 0, 0))};
    struct facet_attach_report reports[3];
    struct facet_qmp *qmp = NULL;
    struct facet_error error = {0};

    reports_clear(reports, 3);
    assert_int_equal(open_qmp(30000, &qmp, &error), FACET_OK);
    assert_int_equal(facet_qmp_attach(qmp, REQUEST(three), reports, &error), FACET_NO_SPACE);
    assert_int_equal(server.device_count, 0);
    facet_qmp_close(qmp);
}

static void descriptors_are_passed_along(void **state)
{
    int first = dup(0), second = dup(0);
    const struct facet_attach_function one[] = {FUNCTION(AT(1, 0, 0), .fd = first)};
    struct facet_attach_report reports[1];
    struct facet_qmp *qmp = NULL;
    struct facet_error error = {0};

    reports_clear(reports, 1);
    assert_int_equal(open_qmp(30000, &qmp, &error), FACET_OK);
    assert_int_equal(
        facet_qmp_attach(qmp, REQUEST(one, .flags = FACET_ATTACH_IOMMUFD, .iommufd_fd = second), reports, &error),
        FACET_OK);
    facet_qmp_close(qmp);
    server_settle(&server);
    assert_int_equal(server.descriptors, 2); /* the function's, and the one for iommufd */
    assert_int_equal(close(first) | close(second), 0);
}

/* --- with faults --- */

/* True for faults after which the connection stands, so that plugged devices can be removed again. */
static bool can_undo(enum server_fault fault)
{
    return fault == FAULT_REFUSE || fault == FAULT_SILENCE || fault == FAULT_GARBAGE || fault == FAULT_ARRAY ||
           fault == FAULT_NUMBER || fault == FAULT_OTHER_ANSWER || fault == FAULT_EMPTY_ANSWER;
}

static bool is_expected(enum facet_status status)
{
    return status == FACET_IO || status == FACET_CORRUPT || status == FACET_TIMEOUT || status == FACET_BAD_STATE ||
           status == FACET_NOT_FOUND || status == FACET_BUSY;
}

/* Asserts that QEMU holds no device, or that the message names each device that it holds. */
static void assert_every_device_left_is_named(const struct facet_error *error, enum server_fault fault)
{
    server_settle(&server);
    for (int i = 0; i < server.device_count; i++)
        if (!strstr(error->message, server.devices[i].id))
            fail_msg("fault %d: '%s' is left, but the message does not name it: %s", fault, server.devices[i].id,
                     error->message);
    if (can_undo(fault))
        assert_int_equal(server.device_count, 0);
}

/* Asserts that each device that the message calls unplugged has left QEMU, and that the same functions can be detached
 * if all of them are left. */
static void assert_detach_can_be_repeated(const struct facet_error *error)
{
    struct facet_error again = {0};
    const char *unplugged = strstr(error->message, "unplugged already: ");

    server_settle(&server);
    for (int i = 0; unplugged && i < server.device_count; i++)
        if (strstr(unplugged, server.devices[i].id))
            fail_msg("'%s' is in the VM, but the message says that it is not: %s", server.devices[i].id,
                     error->message);
    enum facet_status expected = server.device_count == 3 ? FACET_OK : FACET_NOT_FOUND;
    if (detach_functions(30000, &again) != expected)
        fail_msg("%d devices were left, and a second detach says: %s", server.device_count, again.message);
}

static int count_answers(enum facet_status (*step)(uint64_t, struct facet_error *))
{
    struct facet_error error = {0};

    server_set(&server, answers = 0);
    assert_int_equal(step(30000, &error), FACET_OK);
    return server.answers;
}

static enum facet_status attach_step(uint64_t timeout_ms, struct facet_error *error)
{
    struct facet_attach_report reports[3];

    return attach_functions(timeout_ms, reports, error);
}

static void after_a_fault_at_any_step_of_attaching_every_device_left_is_named(void **state)
{
    int steps = count_answers(attach_step);

    assert_true(steps >= 14); /* fewer answers would mean that most steps are not tried */
    for (int fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
        for (int at = 1; at <= steps; at++) {
            struct facet_error error = {0};
            /* Faults that take long are tried only at every third step. */
            bool slow = fault == FAULT_SILENCE || fault == FAULT_FLOOD;
            if (slow && at % 3 != 0)
                continue;
            clear_server();
            server_set(&server, fault = (enum server_fault)fault);
            server_set(&server, fault_at = at);
            enum facet_status status = attach_step(slow ? 100 : 30000, &error);
            server_set(&server, fault_at = 0);
            /* Some answers are ignored, or may be refusals: the step then succeeds. */
            if (status == FACET_OK)
                continue;
            if (!is_expected(status))
                fail_msg("fault %d at %d: %s", fault, at, error.message);
            assert_says(error, server.path);
            assert_every_device_left_is_named(&error, (enum server_fault)fault);
        }
    }
}

static void a_fault_at_any_step_of_detaching_is_reported(void **state)
{
    struct facet_error error = {0};

    assert_int_equal(attach_step(30000, &error), FACET_OK);
    int steps = count_answers(detach_functions);
    for (int fault = FAULT_NONE + 1; fault < FAULTS; fault++) {
        for (int at = 1; at <= steps; at++) {
            bool slow = fault == FAULT_SILENCE || fault == FAULT_FLOOD;
            if (slow && at % 3 != 0)
                continue;
            clear_server();
            assert_int_equal(attach_step(30000, &error), FACET_OK);
            server_set(&server, answers = 0);
            server_set(&server, fault = (enum server_fault)fault);
            server_set(&server, fault_at = at);
            enum facet_status status = detach_functions(slow ? 100 : 30000, &error);
            server_set(&server, fault_at = 0);
            server_settle(&server);
            if (status == FACET_OK) {
                assert_int_equal(server.device_count, 0);
                continue;
            }
            if (!is_expected(status))
                fail_msg("fault %d at %d: %s", fault, at, error.message);
            assert_says(error, server.path);
            assert_detach_can_be_repeated(&error);
        }
    }
}

static bool attach_out_of_memory(void *context)
{
    struct facet_error error = {0};
    uint64_t at = failing_at, calls;

    clear_server();
    failing_calls = 0;
    enum facet_status status = attach_step(30000, &error);
    /* Allocations succeed again, so that a failed assertion can be reported. */
    calls = failing_calls;
    failing_at = 0;
    if (status != FACET_OK && status != FACET_NO_MEMORY)
        fail_msg("%s", error.message);
    if (status != FACET_OK)
        assert_every_device_left_is_named(&error, FAULT_NONE);
    failing_at = at;
    failing_calls = calls;
    return status == FACET_OK;
}

static bool detach_out_of_memory(void *context)
{
    struct facet_error error = {0};
    uint64_t at = failing_at, calls;

    clear_server();
    failing_at = 0;
    assert_int_equal(attach_step(30000, &error), FACET_OK);
    failing_calls = 0;
    failing_at = at;
    enum facet_status status = detach_functions(30000, &error);
    /* Allocations succeed again, so that a failed assertion can be reported. */
    calls = failing_calls;
    failing_at = 0;
    server_settle(&server);
    if (status != FACET_OK && status != FACET_NO_MEMORY)
        fail_msg("%s", error.message);
    if (status == FACET_OK)
        assert_int_equal(server.device_count, 0);
    else
        assert_detach_can_be_repeated(&error);
    failing_at = at;
    failing_calls = calls;
    return status == FACET_OK;
}

/* Only allocations of Facet fail: jansson 2.14 frees an invalid pointer when a string finds no memory. */
static void a_failed_allocation_is_reported_with_the_devices_it_left(void **state)
{
    assert_true(failing_loop(attach_out_of_memory, NULL) > 10);
    assert_true(failing_loop(detach_out_of_memory, NULL) > 10);
}

static void a_wrong_socket_is_reported(void **state)
{
    struct facet_qmp *qmp = NULL;
    struct facet_error error = {0};
    char name[200];
    struct facet_qmp_config config = {.size = sizeof config, .socket = "/nowhere/at/all"};

    assert_int_equal(facet_qmp_open(&config, &qmp, &error), FACET_NOT_FOUND);
    assert_says(error, "QEMU on '/nowhere/at/all': cannot connect");
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    config.socket = name;
    assert_int_equal(facet_qmp_open(&config, &qmp, &error), FACET_OUT_OF_RANGE);
    config.socket = NULL;
    assert_int_equal(facet_qmp_open(&config, &qmp, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_qmp_open(NULL, &qmp, &error), FACET_INVALID_ARGUMENT);
    assert_null(qmp);
    facet_qmp_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(functions_are_attached_and_detached),
        TEST(a_device_plugged_by_another_tool_is_found_by_its_address),
        TEST(a_guest_that_refuses_is_told_from_a_slow_one),
        TEST(a_paused_guest_uses_nothing),
        TEST(more_functions_than_ports_are_refused_before_any_change),
        TEST(descriptors_are_passed_along),
        TEST(after_a_fault_at_any_step_of_attaching_every_device_left_is_named),
        TEST(a_fault_at_any_step_of_detaching_is_reported),
        TEST(a_failed_allocation_is_reported_with_the_devices_it_left),
        TEST(a_wrong_socket_is_reported),
    };

    return cmocka_run_group_tests_name("passthrough/qmp", tests, NULL, NULL);
}
