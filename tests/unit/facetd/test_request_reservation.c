/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of which requests for a reservation are valid, and that their stored form reads back equal. Never:
 * grants anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <facet/allocation.h>
#include <facet/workload.h>

#include "request_reservation.h"

static struct reservation parse_reservation(const char *body)
{
    struct reservation wanted = {0};
    struct facet_error error = {0};
    bool dry_run = false;

    if (request_parse_reservation(body, strlen(body), &wanted, &dry_run, &error) != FACET_OK)
        fail_msg("%s: %s", body, error.message);
    return wanted;
}

static void a_request_keeps_the_order_of_its_items(void **state)
{
    CLEANUP_RESERVATION struct reservation wanted = parse_reservation(
        "{\"slots\": {\"b.device\": \"0.25\", \"a.device:1g\": 1}, \"name\": \"n\", \"strategy\": \"fill\","
        " \"affinity\": \"prefer-single-node\"}");

    assert_int_equal(wanted.item_count, 2);
    assert_string_equal(wanted.items[0].slot, "b.device");
    assert_int_equal(wanted.items[0].amount, 250000);
    assert_string_equal(wanted.items[1].slot, "a.device:1g");
    assert_int_equal(wanted.items[1].amount, 1000000);
    assert_string_equal(wanted.name, "n");
    assert_int_equal(wanted.strategy, FACET_MAP_FILL);
    assert_int_equal(wanted.affinity, FACET_AFFINITY_PREFER_SINGLE_NODE);
}

static const struct refusal {
    const char *body;
    enum facet_status status;
    const char *argument, *fragment;
} refusals[] = {
    {"", FACET_INVALID_ARGUMENT, "body", "not JSON"},
    {"[]", FACET_INVALID_ARGUMENT, "body", "a JSON object"},
    {"{}", FACET_INVALID_ARGUMENT, "slots", "expected"},
    {"{\"slots\": {}}", FACET_INVALID_ARGUMENT, "slots", "1 to 64"},
    {"{\"slots\": [1]}", FACET_INVALID_ARGUMENT, "slots", "an object"},
    {"{\"slots\": {\"a.device\": 1, \"a.device\": 1}}", FACET_INVALID_ARGUMENT, "body", "duplicate"},
    {"{\"slots\": {\"A!\": 1}}", FACET_INVALID_ARGUMENT, "slots", "A!"},
    {"{\"slots\": {\"a.device\": 0.5}}", FACET_INVALID_ARGUMENT, "slots", "decimal as text"},
    {"{\"slots\": {\"a.device\": null}}", FACET_INVALID_ARGUMENT, "slots", "decimal as text"},
    {"{\"slots\": {\"a.device\": \"x\"}}", FACET_INVALID_ARGUMENT, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": \"\\u00e9\"}}", FACET_INVALID_ARGUMENT, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": \"-1\"}}", FACET_OUT_OF_RANGE, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": -1}}", FACET_OUT_OF_RANGE, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": \"0\"}}", FACET_OUT_OF_RANGE, "slots", "expected more"},
    {"{\"slots\": {\"a.device\": \"0.0000001\"}}", FACET_OUT_OF_RANGE, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": \"1e300\"}}", FACET_OUT_OF_RANGE, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": 9223372036854775807}}", FACET_OUT_OF_RANGE, "slots", "a.device"},
    {"{\"slots\": {\"a.device\": 1}, \"name\": \"a b\"}", FACET_INVALID_ARGUMENT, "name", "a b"},
    {"{\"slots\": {\"a.device\": 1}, \"name\": 7}", FACET_INVALID_ARGUMENT, "name", "a string"},
    {"{\"slots\": {\"a.device\": 1}, \"strategy\": \"most\"}", FACET_INVALID_ARGUMENT, "strategy", "evenly, fill"},
    {"{\"slots\": {\"a.device\": 1}, \"strategy\": 1}", FACET_INVALID_ARGUMENT, "strategy", "evenly, fill"},
    {"{\"slots\": {\"a.device\": 1}, \"affinity\": \"near\"}", FACET_INVALID_ARGUMENT, "affinity", "interleaved"},
    {"{\"slots\": {\"a.device\": 1}, \"dry_run\": 1}", FACET_INVALID_ARGUMENT, "dry_run", "true or false"},
    {"{\"slots\": {\"a.device\": 1}, \"near\": 1}", FACET_INVALID_ARGUMENT, "near", "unknown member"},
};

static void wrong_members_are_refused_by_name(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *refusal = &refusals[i];
        struct reservation wanted = {.strategy = 77}; /* a refusal must leave this number, which is no strategy */
        struct facet_error error = {0};
        bool dry_run = false;

        enum facet_status status =
            request_parse_reservation(refusal->body, strlen(refusal->body), &wanted, &dry_run, &error);
        if (status != refusal->status || strcmp(error.argument, refusal->argument) != 0 ||
            !strstr(error.message, refusal->fragment))
            fail_msg("%s: %d '%s' %s", refusal->body, (int)status, error.argument, error.message);
        assert_int_equal(wanted.strategy, 77);
    }
}

static struct reservation example_reservation(void)
{
    struct reservation reservation = {
        .id = "00000000000000aa", .name = "a", .strategy = 1, .affinity = 2, .created_ns = 17};

    assert_int_equal(reservation_add_item(&reservation, "x.device", 1500000, NULL), FACET_OK);
    assert_int_equal(reservation_add_part(&reservation, "x.device", "0000:41:00.0 \n\"", "x:0", 1000000, NULL),
                     FACET_OK);
    assert_int_equal(reservation_add_part(&reservation, "x.device", "other", "x:1", 500000, NULL), FACET_OK);
    return reservation;
}

static void a_written_reservation_reads_back_equal(void **state)
{
    CLEANUP_RESERVATION struct reservation reservation = example_reservation(), again = {0};
    struct reservation_row row = {0};
    struct facet_error error = {0};

    assert_int_equal(reservation_to_row(&reservation, &row, &error), FACET_OK);
    if (reservation_from_row(&row, &again, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_string_equal(again.id, reservation.id);
    assert_string_equal(again.name, "a");
    assert_int_equal(again.strategy, 1);
    assert_int_equal(again.affinity, 2);
    assert_int_equal(again.created_ns, 17);
    assert_int_equal(again.item_count, 1);
    assert_memory_equal(again.items, reservation.items, sizeof *again.items);
    assert_int_equal(again.part_count, 2);
    assert_memory_equal(again.parts, reservation.parts, 2 * sizeof *again.parts);
    free(row.text);
}

/* Each byte is damaged in turn, and the text is cut at each length. */
static void a_damaged_text_is_refused(void **state)
{
    CLEANUP_RESERVATION struct reservation reservation = example_reservation();
    struct reservation_row row = {0};

    assert_int_equal(reservation_to_row(&reservation, &row, NULL), FACET_OK);
    for (size_t i = 0; i < row.text_size; i++) {
        struct reservation again = {.strategy = 77};
        struct reservation_row cut = row;
        struct facet_error error = {0};

        row.text[i] ^= 0x10;
        assert_int_not_equal(reservation_from_row(&row, &again, &error), FACET_OK);
        assert_non_null(strstr(error.message, "reservation"));
        row.text[i] ^= 0x10;
        cut.text_size = i;
        assert_int_not_equal(reservation_from_row(&cut, &again, &error), FACET_OK);
        assert_int_equal(again.strategy, 77);
    }
    free(row.text);
}

static void a_text_of_another_row_is_corrupt(void **state)
{
    CLEANUP_RESERVATION struct reservation reservation = example_reservation();
    struct reservation again;
    struct reservation_row row = {0};

    assert_int_equal(reservation_to_row(&reservation, &row, NULL), FACET_OK);
    row.id[0] = 'f';
    assert_int_equal(reservation_from_row(&row, &again, NULL), FACET_CORRUPT);
    free(row.text);
}

static void assert_corrupt(const struct reservation *reservation, const char *what)
{
    struct reservation again = {.strategy = 77};
    struct facet_error error = {0};
    struct reservation_row row = {0};

    assert_int_equal(reservation_to_row(reservation, &row, &error), FACET_OK);
    if (reservation_from_row(&row, &again, &error) != FACET_CORRUPT)
        fail_msg("%s: accepted, expected FACET_CORRUPT", what);
    assert_non_null(strstr(error.message, "reservation 'a'"));
    assert_int_equal(again.strategy, 77);
    free(row.text);
}

/* The checksum is right, but no such reservation was ever made. */
static void an_undamaged_text_that_is_no_valid_reservation_is_corrupt(void **state)
{
    CLEANUP_RESERVATION struct reservation reservation = example_reservation();
    struct reservation cut = reservation;

    cut.part_count = 0;
    assert_corrupt(&cut, "nothing granted");
    cut.part_count = 1;
    assert_corrupt(&cut, "less granted than asked for");
    cut.part_count = 2;
    cut.item_count = 0;
    assert_corrupt(&cut, "grants that were not asked for");
    cut.part_count = 0;
    assert_corrupt(&cut, "nothing at all");
    reservation.parts[1].amount = 600000;
    assert_corrupt(&reservation, "more granted than asked for");
    reservation.parts[1].amount = 0;
    reservation.items[0].amount = 1000000;
    assert_corrupt(&reservation, "a part of nothing");
    reservation.parts[1].amount = 1000000;
    reservation.parts[0].amount = INT64_MAX;
    assert_corrupt(&reservation, "more than an amount can be");
    reservation.parts[0].amount = 1000000;
    snprintf(reservation.parts[1].slot, sizeof reservation.parts[1].slot, "y.device");
    assert_corrupt(&reservation, "a grant of another slot");
    snprintf(reservation.items[0].slot, sizeof reservation.items[0].slot, "x\ny");
    snprintf(reservation.parts[0].slot, sizeof reservation.parts[0].slot, "x\ny");
    reservation.part_count = 1;
    assert_corrupt(&reservation, "a slot that is none");
}

static void an_undamaged_text_without_an_id_is_corrupt(void **state)
{
    static const struct facet_resources_record records[] = {
        {.size = sizeof *records, .kind = FACET_RESOURCES_REQUEST, .text = {"x.device"}, .number = 500000},
        {.size = sizeof *records, .kind = FACET_RESOURCES_GRANT, .text = {"x.device", "x"}, .number = 500000}};
    struct reservation_row row = {.id = "00000000000000aa", .name = "a"};
    struct facet_resources *resources = NULL;
    struct reservation again;

    assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(facet_resources_add(resources, &records[i], NULL), FACET_OK);
    assert_int_equal(facet_resources_format(resources, &row.text, &row.text_size, NULL), FACET_OK);
    assert_int_equal(reservation_from_row(&row, &again, NULL), FACET_CORRUPT);
    facet_resources_destroy(resources);
    free(row.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_keeps_the_order_of_its_items),
        cmocka_unit_test(wrong_members_are_refused_by_name),
        cmocka_unit_test(a_written_reservation_reads_back_equal),
        cmocka_unit_test(a_damaged_text_is_refused),
        cmocka_unit_test(a_text_of_another_row_is_corrupt),
        cmocka_unit_test(an_undamaged_text_that_is_no_valid_reservation_is_corrupt),
        cmocka_unit_test(an_undamaged_text_without_an_id_is_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
