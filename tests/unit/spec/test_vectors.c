/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the comparison of Facet's resource.txt with the recorded behaviour of that format's own reader and writer.
 * Never: passes without the records: the test is then skipped.
 *
 * usage: test_spec_vectors FILE      ../shared/vectors/resource_txt_vectors.json
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <facet/workload.h>
#include <jansson.h>

static json_t *vectors;

/* The type that a slot had when the records were made. `context` is the case's own table of types, or NULL. */
static uint32_t type_of(void *context, const char *slot)
{
    const char *type = json_string_value(json_object_get(context, slot));

    if (context && json_object_size(context) == 0)
        return UINT32_MAX;
    return context                    ? (type && strcmp(type, "bytes") == 0 ? FACET_SLOT_BYTES : FACET_SLOT_COUNT)
           : strcmp(slot, "mem") == 0 ? FACET_SLOT_BYTES
                                      : FACET_SLOT_COUNT;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void add_record(struct facet_resources *resources, struct facet_resources_record record)
{
    record.size = sizeof record;
    assert_int_equal(facet_resources_add(resources, &record, NULL), FACET_OK);
}

static struct facet_resources_record with_amount(struct facet_resources_record record, const char *text)
{
    const char *point = strchr(text, '.');

    assert_int_equal(facet_amount_parse(text, "amount", &record.number, NULL), FACET_OK);
    record.places = point ? (uint32_t)strlen(point + 1) : 0;
    return record;
}

static struct facet_resources *resources_from_input(const json_t *input)
{
    static const char *const permissions[] = {"ro", "rw", "wd"};
    struct facet_resources *resources;
    const char *name, *slot, *id;
    json_t *value, *slots, *devices, *share;
    size_t index;

    assert_int_equal(facet_resources_create(&resources, NULL), FACET_OK);
    add_record(resources, (struct facet_resources_record){
                              .kind = FACET_RESOURCES_SCRATCH,
                              .number = json_integer_value(json_object_get(input, "scratch_disk_size"))});
    json_object_foreach (json_object_get(input, "slots"), name, value)
        add_record(resources,
                   with_amount((struct facet_resources_record){.kind = FACET_RESOURCES_REQUEST, .text = {name}},
                               json_string_value(value)));
    json_array_foreach (json_object_get(input, "unified_devices"), index, value)
        add_record(resources, (struct facet_resources_record){.kind = FACET_RESOURCES_UNIFIED,
                                                              .text = {json_string_value(json_array_get(value, 0)),
                                                                       json_string_value(json_array_get(value, 1))}});
    json_object_foreach (json_object_get(input, "allocations"), name, slots) {
        json_object_foreach (slots, slot, devices) {
            add_record(resources, (struct facet_resources_record){.kind = FACET_RESOURCES_ALLOCATION, .text = {slot}});
            json_object_foreach (devices, id, share)
                add_record(resources, with_amount((struct facet_resources_record){.kind = FACET_RESOURCES_GRANT,
                                                                                  .text = {slot, id}},
                                                  json_string_value(share)));
        }
    }
    json_array_foreach (json_object_get(input, "mounts"), index, value) {
        const char *type = text_of(value, "type");
        struct facet_resources_record mount = {
            .kind = FACET_RESOURCES_MOUNT,
            .text = {type, strcmp(type, "tmpfs") ? text_of(value, "source") : "", text_of(value, "target"), ""}};
        while (strcmp(permissions[mount.number], text_of(value, "perm")) != 0)
            mount.number++;
        add_record(resources, mount);
    }
    return resources;
}

/* Compares allocations with {device: {slot: {id: amount}}}. Each must be recorded, and none may be missing. */
static void assert_allocations(const struct facet_resources *resources, const json_t *expected, void *types)
{
    struct facet_resources_record record = {.size = sizeof record};
    size_t grants = 0, slots_seen = 0, grants_expected = 0, slots_expected = 0;
    const char *name, *slot;
    json_t *slots, *devices;

    json_object_foreach ((json_t *)(uintptr_t)expected, name, slots) {
        slots_expected += json_object_size(slots);
        json_object_foreach (slots, slot, devices)
            grants_expected += json_object_size(devices);
    }
    for (uint32_t i = 0; facet_resources_get(resources, i, &record, NULL) == FACET_OK; i++) {
        char device[128];
        int64_t micro;

        slots_seen += record.kind == FACET_RESOURCES_ALLOCATION;
        if (record.kind != FACET_RESOURCES_GRANT)
            continue;
        grants++;
        snprintf(device, sizeof device, "%.*s", (int)strcspn(record.text[0], "."), record.text[0]);
        const json_t *found =
            json_object_get(json_object_get(json_object_get(expected, device), record.text[0]), record.text[1]);
        assert_non_null(found);
        assert_int_equal(facet_amount_parse(json_string_value(found), "amount", &micro, NULL), FACET_OK);
        assert_int_equal(micro, record.number);
    }
    assert_int_equal(grants, grants_expected);
    assert_int_equal(slots_seen, slots_expected);
}

/* Whether the case records a defect of the format's own code, which Facet does not repeat (docs/spec.md). */
static bool is_defect(const char *id)
{
    static const char *const defects[] = {"bytes-lossy", "pci-id",           "upper-case-slot",   "mount-comma",
                                          "mount-tmpfs", "prefix-violation", "bytes-unknown-type"};

    for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++)
        if (strcmp(defects[i], id) == 0)
            return true;
    return false;
}

static void test_recorded_cases_round_trip(void **state)
{
    size_t index;
    json_t *vector;

    json_array_foreach (json_object_get(vectors, "cases"), index, vector) {
        const char *id = text_of(vector, "id"), *text = text_of(vector, "text");
        struct facet_resources *resources, *again;
        struct facet_error error = {0};
        char *got = NULL;

        if (is_defect(id))
            continue;
        resources = resources_from_input(json_object_get(vector, "input"));
        if (facet_resources_format_legacy(resources, type_of, NULL, &got, &error) != FACET_OK || strcmp(got, text) != 0)
            fail_msg("%s: %s%s", id, error.message, got ? got : "");
        assert_int_equal(facet_resources_parse_legacy(text, strlen(text), type_of, NULL, &again, &error), FACET_OK);
        assert_allocations(again, json_object_get(json_object_get(vector, "read_back"), "allocations"), NULL);
        free(got);
        facet_resources_destroy(resources);
        facet_resources_destroy(again);
    }
}

static void test_read_only_cases_are_read(void **state)
{
    size_t index;
    json_t *vector;

    json_array_foreach (json_object_get(vectors, "read_only_cases"), index, vector) {
        const char *id = text_of(vector, "id"), *text = text_of(vector, "text");
        json_t *types = json_object_get(vector, "known_slot_types");
        struct facet_resources *resources = NULL;
        struct facet_error error = {0};
        enum facet_status status = facet_resources_parse_legacy(text, strlen(text), type_of, types, &resources, &error);

        if (json_object_get(vector, "error") && !is_defect(id)) {
            assert_int_equal(status, FACET_CORRUPT);
            continue;
        }
        if (status != FACET_OK)
            fail_msg("%s: %s", id, error.message);
        if (!is_defect(id))
            assert_allocations(resources, json_object_get(vector, "allocations"), types);
        facet_resources_destroy(resources);
    }
}

/* The format's own code loses, cannot read or changes these values. Facet keeps or refuses them. */
static void test_recorded_defects_are_mended(void **state)
{
    static const char *const kept[] = {"bytes-lossy", "pci-id", "mount-tmpfs"};
    static const char *const refused[] = {"upper-case-slot", "mount-comma"};
    size_t index;
    json_t *vector;

    json_array_foreach (json_object_get(vectors, "cases"), index, vector) {
        const char *id = text_of(vector, "id");
        struct facet_resources *resources = resources_from_input(json_object_get(vector, "input")), *again;
        char *text = NULL, *second = NULL;

        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
            if (strcmp(id, kept[i]) != 0)
                continue;
            assert_int_equal(facet_resources_format_legacy(resources, type_of, NULL, &text, NULL), FACET_OK);
            assert_int_equal(facet_resources_parse_legacy(text, strlen(text), type_of, NULL, &again, NULL), FACET_OK);
            assert_allocations(again, json_object_get(json_object_get(vector, "input"), "allocations"), NULL);
            assert_int_equal(facet_resources_format_legacy(again, type_of, NULL, &second, NULL), FACET_OK);
            assert_string_equal(text, second);
            facet_resources_destroy(again);
            free(text);
            free(second);
        }
        for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
            if (strcmp(id, refused[i]) == 0)
                assert_int_equal(facet_resources_format_legacy(resources, type_of, NULL, &text, NULL),
                                 FACET_UNSUPPORTED);
        facet_resources_destroy(resources);
    }
}

static void test_recorded_sizes_are_parsed(void **state)
{
    char text[FACET_AMOUNT_SIZE];
    size_t index;
    json_t *vector;
    int64_t bytes;

    json_array_foreach (json_object_get(vectors, "binary_size_parse"), index, vector) {
        enum facet_status status = facet_spec_parse_binary(text_of(vector, "text"), &bytes, NULL);
        if (json_is_integer(json_object_get(vector, "value")))
            assert_true(status == FACET_OK && bytes == json_integer_value(json_object_get(vector, "value")));
        else /* the record is an error, or "inf", which is no number of bytes */
            assert_int_equal(status, FACET_INVALID_ARGUMENT);
    }
    json_array_foreach (json_object_get(vectors, "binary_size_format"), index, vector) {
        json_int_t size = json_integer_value(json_object_get(vector, "bytes"));
        facet_spec_format_binary(size, text);
        if (json_integer_value(json_object_get(vector, "reparsed_from_s")) == size)
            assert_string_equal(text, text_of(vector, "fmt_s"));
        assert_true(facet_spec_parse_binary(text, &bytes, NULL) == FACET_OK && bytes == size);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_cases_round_trip),
        cmocka_unit_test(test_read_only_cases_are_read),
        cmocka_unit_test(test_recorded_defects_are_mended),
        cmocka_unit_test(test_recorded_sizes_are_parsed),
    };

    vectors = count == 2 ? json_load_file(arguments[1], 0, NULL) : NULL;
    if (!vectors) {
        puts("1..0 # SKIP the recorded vectors are not beside the project");
        return 0;
    }
    int failed = cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
    json_decref(vectors);
    return failed;
}
