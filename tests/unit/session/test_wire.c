/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of the bytes of a message, and of the checks before a message is sent. */
#include "session_fixture.h"

#include "session/call.h"
#include "session/wire.h"

static void written_values_are_read_back(void **state)
{
    struct facet_wire_writer writer = {0};
    char large[3000];

    memset(large, 'l', sizeof large);
    facet_wire_put_number(&writer, UINT64_MAX);
    facet_wire_put_text(&writer, "text");
    facet_wire_put_text(&writer, NULL);
    facet_wire_put_text(&writer, "");
    facet_wire_put(&writer, large, sizeof large);
    facet_wire_put(&writer, NULL, 0);
    assert_false(writer.failed);

    struct facet_wire_reader reader = {.bytes = writer.bytes, .left = writer.size};
    assert_true(facet_wire_take_number(&reader) == UINT64_MAX);
    assert_string_equal(facet_wire_take_text(&reader), "text");
    assert_null(facet_wire_take_text(&reader));
    assert_string_equal(facet_wire_take_text(&reader), "");
    assert_false(facet_wire_is_complete(&reader));
    const char *bytes = facet_wire_take(&reader, sizeof large);
    assert_memory_equal(bytes, large, sizeof large);
    assert_int_equal((uintptr_t)bytes % 8, 0);
    assert_true(facet_wire_is_complete(&reader));
    facet_wire_free(&writer);
}

static void nothing_is_read_past_the_end(void **state)
{
    uint64_t bytes[4] = {1, 2, 3, 4};
    struct facet_wire_reader reader = {.bytes = (const uint8_t *)bytes, .left = sizeof bytes};

    assert_int_equal(facet_wire_take_number(&reader), 1);
    assert_null(facet_wire_take(&reader, 25));
    assert_true(reader.failed);
    assert_int_equal(facet_wire_take_number(&reader), 0); /* after a failure every read fails */
    assert_false(facet_wire_is_complete(&reader));

    reader = (struct facet_wire_reader){.bytes = (const uint8_t *)bytes, .left = sizeof bytes};
    assert_null(facet_wire_take(&reader, SIZE_MAX)); /* rounding this size would overflow */
    reader = (struct facet_wire_reader){.bytes = (const uint8_t *)bytes, .left = 4};
    assert_null(facet_wire_take(&reader, 3)); /* the padding does not fit */
}

/* A text has the length that it states, with its terminator at the end and nowhere before. */
static void a_text_that_lies_about_its_length_is_refused(void **state)
{
    static const struct {
        uint64_t size;
        const char bytes[8];
    } texts[] = {
        {4, "abcd"}, {4, "ab\0"}, {9, "abcdefg"}, {UINT64_MAX, "abc"}, {1, "a"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct facet_wire_reader reader = {.bytes = (const uint8_t *)&texts[i], .left = sizeof texts[i]};

        assert_null(facet_wire_take_text(&reader));
        assert_true(reader.failed);
    }
}

static void the_length_of_a_message_is_bounded(void **state)
{
    struct facet_wire_writer writer = {0};
    char *block = calloc(1, FACET_WIRE_MAX / 2);

    facet_wire_put(&writer, block, FACET_WIRE_MAX / 2);
    facet_wire_put(&writer, block, FACET_WIRE_MAX / 2);
    assert_false(writer.failed);
    assert_int_equal(writer.size, FACET_WIRE_MAX);
    facet_wire_put_number(&writer, 1);
    assert_true(writer.failed);
    assert_int_equal(writer.size, FACET_WIRE_MAX);
    facet_wire_free(&writer);
    facet_wire_put(&writer, block, SIZE_MAX - 4);
    assert_true(writer.failed);
    free(block);
}

static struct facet_call call_of(enum facet_operation_id operation, size_t argument, uint64_t number)
{
    struct facet_call call = {.operation = operation};

    call.arguments[argument].number = number;
    return call;
}

static void the_timeout_of_a_call_follows_from_its_arguments(void **state)
{
    struct facet_call health = call_of(FACET_OPERATION_device_health, 0, 7);
    struct facet_call wait = call_of(FACET_OPERATION_execution_synchronize, 2, 300);
    struct facet_call forever = call_of(FACET_OPERATION_execution_synchronize, 2, UINT64_MAX);
    struct facet_call fill = call_of(FACET_OPERATION_memory_fill, 3, 1000);
    struct facet_call huge = call_of(FACET_OPERATION_memory_fill, 3, UINT64_MAX / 2);
    struct facet_call snapshot = call_of(FACET_OPERATION_snapshot_snapshot, 0, 0);

    assert_int_equal(facet_call_timeout(&health, 500), 500);
    assert_int_equal(facet_call_timeout(&wait, 500), 800);
    assert_true(facet_call_timeout(&forever, 500) == UINT64_MAX);
    assert_int_equal(facet_call_timeout(&fill, 500), 500 + 4000); /* 4 ns a byte, and 1000 bytes */
    assert_true(facet_call_timeout(&huge, 500) == UINT64_MAX);
    assert_int_equal(facet_call_timeout(&snapshot, 500), 500 * 60); /* a snapshot has 60 times the usual timeout */
}

static void the_capacity_requested_for_a_list_is_bounded(void **state)
{
    const struct facet_parameter *items = &facet_operations[FACET_OPERATION_container_items].parameters[2];
    struct facet_argument argument = {.size = 5000, .number = UINT32_MAX}; /* larger items than the known ones */

    assert_int_equal(items->kind, FACET_KIND_RET_ITEMS);
    assert_int_equal(facet_call_asked_size(items, &argument), sizeof(struct facet_container_item));
    uint32_t capacity = facet_call_asked_capacity(items, &argument);
    assert_true(capacity <= FACET_CALL_ITEMS_MAX && capacity > 60000); /* close to the bound of 65536 */
    assert_true((uint64_t)capacity * sizeof(struct facet_container_item) < FACET_WIRE_MAX);
    argument = (struct facet_argument){.size = 8, .number = 3};
    assert_int_equal(facet_call_asked_size(items, &argument), 8);
    assert_int_equal(facet_call_asked_capacity(items, &argument), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(nothing_is_read_past_the_end),
        cmocka_unit_test(a_text_that_lies_about_its_length_is_refused),
        cmocka_unit_test(the_length_of_a_message_is_bounded),
        cmocka_unit_test(the_timeout_of_a_call_follows_from_its_arguments),
        cmocka_unit_test(the_capacity_requested_for_a_list_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
