/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about node documents: all parts are read back, unknown ones are kept, all errors are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include <facet/spec.h>

#include "failing.h"

/* --- a node of several kinds ------------------------------------------------------------------------------------ */

static enum facet_status put_gpu(struct facet_spec *spec, uint32_t number, bool mig, struct facet_error *error)
{
    const struct facet_spec_unit units[] = {{"SM", 108}, {"Tensor Core", 432}};
    const struct facet_spec_precision precisions[] = {{.format = "FP64", .support = FACET_SPEC_NATIVE},
                                                      {.format = "FP8", .support = FACET_SPEC_EMULATED},
                                                      {.format = "FP4", .support = FACET_SPEC_NONE}};
    const struct facet_spec_partitioning partitionings[] = {
        {.technology = "MIG",
         .valid = FACET_SPEC_PARTITIONING_HAS_MAX | FACET_SPEC_PARTITIONING_HAS_ACTIVE,
         .active = mig,
         .max_partitions = 7}};
    char id[32];

    snprintf(id, sizeof id, "0000:%02x:00.0", number);
    return facet_spec_put_device(spec,
                                 &(struct facet_spec_device){
                                     .size = sizeof(struct facet_spec_device),
                                     .valid = FACET_SPEC_DEVICE_HAS_MEMORY | FACET_SPEC_DEVICE_HAS_NUMA |
                                              FACET_SPEC_DEVICE_HAS_BANDWIDTH | FACET_SPEC_DEVICE_HAS_L2,
                                     .device_id = id,
                                     .device_name = "cuda",
                                     .model_name = "A100",
                                     .hw_location = id,
                                     .numa_node = number / 4,
                                     .total_memory = UINT64_C(40) << 30,
                                     .memory_type = "HBM2e",
                                     .bandwidth_bytes_per_second = UINT64_C(1555000000000),
                                     .l2_cache = 40 << 20,
                                     .health = FACET_SPEC_HEALTHY,
                                     .units = units,
                                     .unit_count = 2,
                                     .precisions = precisions,
                                     .precision_count = 3,
                                     .partitionings = partitionings,
                                     .partitioning_count = 1,
                                 },
                                 error);
}

static enum facet_status put_partition(struct facet_spec *spec, uint32_t parent, uint32_t number,
                                       struct facet_error *error)
{
    char id[32], parent_id[32];

    snprintf(parent_id, sizeof parent_id, "0000:%02x:00.0", parent);
    snprintf(id, sizeof id, "MIG-%u/%u/0", parent, number);
    return facet_spec_put_device(
        spec,
        &(struct facet_spec_device){
            .size = sizeof(struct facet_spec_device), .device_id = id, .device_name = "cuda", .parent_id = parent_id},
        error);
}

/* The node has two GPUs in partitions, six whole ones, and an NPU. */
static enum facet_status fill_spec(struct facet_spec *spec, struct facet_error *error)
{
    const struct facet_spec_share mig[] = {{"MIG-0/0/0", FACET_AMOUNT_ONE}, {"MIG-1/0/0", FACET_AMOUNT_ONE}};
    const struct facet_spec_share npu[] = {{"npu,0\n:", FACET_AMOUNT_ONE / 2}};
    struct facet_spec_share whole[6];
    char ids[6][32];
    const char *const exclusive[] = {"cuda.device:*-mig", "cuda.shares"};
    enum facet_status status = FACET_OK;

    for (uint32_t i = 0; status == FACET_OK && i < 8; i++)
        status = put_gpu(spec, i, i < 2, error);
    for (uint32_t i = 0; status == FACET_OK && i < 2; i++)
        status = put_partition(spec, i, 0, error);
    for (uint32_t i = 0; i < 6; i++) {
        snprintf(ids[i], sizeof ids[i], "0000:%02x:00.0", i + 2);
        whole[i] = (struct facet_spec_share){ids[i], FACET_AMOUNT_ONE};
    }
    if (status == FACET_OK)
        status = facet_spec_put_device(spec,
                                       &(struct facet_spec_device){.size = sizeof(struct facet_spec_device),
                                                                   .device_id = "npu,0\n:",
                                                                   .device_name = "ascend",
                                                                   .kind = "npu",
                                                                   .health = FACET_SPEC_DEGRADED,
                                                                   .status_info = "one link is down"},
                                       error);
    const struct facet_spec_slot slots[] = {
        {.size = sizeof slots[0],
         .valid = FACET_SPEC_SLOT_HAS_FORMAT,
         .slot_name = "cuda.device",
         .type = FACET_SLOT_COUNT,
         .human_readable_name = "GPU",
         .display_unit = "GPU",
         .display_icon = "gpu1",
         .shares = whole,
         .share_count = 6,
         .exclusive_with = exclusive,
         .exclusive_count = 2},
        {.size = sizeof slots[0],
         .slot_name = "cuda.device:1g.5gb-mig",
         .type = FACET_SLOT_UNIQUE,
         .shares = mig,
         .share_count = 2},
        {.size = sizeof slots[0],
         .slot_name = "ascend.shares",
         .type = FACET_SLOT_COUNT,
         .shares = npu,
         .share_count = 1},
    };
    for (size_t i = 0; status == FACET_OK && i < sizeof slots / sizeof slots[0]; i++)
        status = facet_spec_put_slot(spec, &slots[i], error);
    const struct facet_spec_pair extra[] = {{"cuda", "12.4"}, {"nvml", "550.54"}};
    const struct facet_spec_component component = {.size = sizeof component,
                                                   .name = "cuda",
                                                   .version = "26.1",
                                                   .health = FACET_SPEC_HEALTHY,
                                                   .extra = extra,
                                                   .extra_count = 2,
                                                   .metadata = extra,
                                                   .metadata_count = 1};
    return status == FACET_OK ? facet_spec_put_component(spec, &component, error) : status;
}

static struct facet_spec *make_spec(void)
{
    struct facet_spec *spec = NULL;
    struct facet_error error = {0};

    assert_int_equal(facet_spec_create(&spec, &error), FACET_OK);
    if (fill_spec(spec, &error) != FACET_OK)
        fail_msg("%s", error.message);
    return spec;
}

static void test_document_round_trips(void **state)
{
    struct facet_spec *spec = make_spec(), *again;
    char *text, *second;
    struct facet_error error = {0};
    struct facet_spec_device device = {.size = sizeof device};
    struct facet_spec_slot slot = {.size = sizeof slot};
    struct facet_spec_share share;
    struct facet_spec_unit unit;
    struct facet_spec_pair pair;
    struct facet_spec_precision precision;
    struct facet_spec_partitioning partitioning;
    const char *pattern;

    if (facet_spec_write(spec, &text, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(facet_spec_read(text, strlen(text), &again, &error), FACET_OK);
    assert_int_equal(facet_spec_write(again, &second, &error), FACET_OK);
    assert_string_equal(text, second);
    assert_int_equal(facet_spec_device_count(again), 11);
    assert_int_equal(facet_spec_slot_count(again), 3);
    assert_int_equal(facet_spec_get_device(again, 5, &device, &error), FACET_OK);
    assert_string_equal(device.device_id, "0000:05:00.0");
    assert_int_equal(device.numa_node, 1);
    assert_true(device.memory_size == UINT64_C(40) << 30 && device.valid & FACET_SPEC_DEVICE_HAS_SIZE);
    assert_true(device.processing_units == 108 && device.unit_count == 2 && device.precision_count == 3);
    assert_false(device.valid & (FACET_SPEC_DEVICE_HAS_L1 | FACET_SPEC_DEVICE_HAS_SIMULATED));
    assert_int_equal(facet_spec_get_unit(again, 5, 1, &unit, &error), FACET_OK);
    assert_string_equal(unit.name, "Tensor Core");
    assert_int_equal(facet_spec_get_precision(again, 5, 1, &precision, &error), FACET_OK);
    assert_int_equal(precision.support, FACET_SPEC_EMULATED);
    assert_int_equal(facet_spec_get_partitioning(again, 1, 0, &partitioning, &error), FACET_OK);
    assert_true(partitioning.active && partitioning.max_partitions == 7);
    assert_int_equal(facet_spec_get_device(again, 8, &device, &error), FACET_OK);
    assert_string_equal(device.parent_id, "0000:00:00.0");
    assert_true(device.valid == 0 && !device.memory_type && device.health == FACET_SPEC_HEALTH_UNKNOWN);
    assert_int_equal(facet_spec_get_slot(again, 0, &slot, &error), FACET_OK);
    assert_true(slot.amount_micro == 6 * FACET_AMOUNT_ONE && slot.valid == 3 && slot.binary == 0);
    assert_int_equal(facet_spec_get_slot(again, 1, &slot, &error), FACET_OK);
    assert_true(slot.type == FACET_SLOT_UNIQUE && slot.share_count == 2 && !slot.description);
    assert_int_equal(facet_spec_get_share(again, 2, 0, &share, &error), FACET_OK);
    assert_string_equal(share.device_id, "npu,0\n:");
    assert_int_equal(share.amount_micro, 500000);
    assert_int_equal(facet_spec_get_exclusive(again, 0, 1, &pattern, &error), FACET_OK);
    assert_string_equal(pattern, "cuda.shares");
    assert_int_equal(facet_spec_get_extra(again, 0, 1, &pair, &error), FACET_OK);
    assert_string_equal(pair.value, "550.54");
    assert_int_equal(facet_spec_get_metadata(again, 0, 0, &pair, &error), FACET_OK);
    assert_int_equal(facet_spec_get_metadata(again, 0, 1, &pair, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_spec_get_share(again, 2, 1, &share, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_spec_get_device(again, 11, &device, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_spec_health(again), FACET_SPEC_DEGRADED);
    free(text);
    free(second);
    facet_spec_destroy(spec);
    facet_spec_destroy(again);
}

/* A get, a change and a put keep members that this version does not know, at every depth. */
static void test_unknown_members_are_kept(void **state)
{
    static const char text[] =
        "{\"format\":\"facet-accelerator-node\",\"version\":\"1.7\",\"new\":[1.5,null],\"resource_specs\":["
        "{\"slot_name\":\"cuda.device\",\"type\":\"count\",\"tariff\":{\"a\":1},\"amount\":\"1\",\"shares\":["
        "{\"device_id\":\"0\",\"amount\":\"1\",\"colour\":\"red\"}]}],"
        "\"devices\":[{\"device_id\":\"0\",\"device_name\":\"cuda\",\"age\":3,\"memory_spec\":{\"ecc\":true,"
        "\"total_memory\":5},\"compute_units\":[{\"name\":\"SM\",\"count\":1,\"clock\":9}]}],"
        "\"node\":{\"rack\":\"7\",\"components\":[{\"name\":\"cuda\",\"x\":1,\"extra\":{\"a\":\"1\"}}]}}";
    struct facet_spec *spec;
    struct facet_spec_device device = {.size = sizeof device};
    struct facet_spec_slot slot = {.size = sizeof slot};
    struct facet_spec_component component = {.size = sizeof component};
    const struct facet_spec_unit units[] = {{"TPC", 2}, {"SM", 4}};
    const struct facet_spec_share shares[] = {{"0", 250000}};
    struct facet_error error = {0};
    char *back;

    assert_int_equal(facet_spec_read(text, strlen(text), &spec, &error), FACET_OK);
    facet_spec_get_device(spec, 0, &device, NULL);
    device.valid &= ~(uint32_t)FACET_SPEC_DEVICE_HAS_MEMORY;
    device.units = units;
    device.unit_count = 2;
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_OK);
    facet_spec_get_slot(spec, 0, &slot, NULL);
    slot.valid = 0;
    slot.shares = shares;
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_OK);
    facet_spec_get_component(spec, 0, &component, NULL);
    component.version = "2";
    assert_int_equal(facet_spec_put_component(spec, &component, &error), FACET_OK);
    if (facet_spec_write(spec, &back, &error) != FACET_OK)
        fail_msg("%s", error.message);
    json_t *got = json_loads(back, 0, NULL);
    json_t *expected = json_loads(
        "{\"format\":\"facet-accelerator-node\",\"version\":\"1.7\",\"new\":[1.5,null],\"resource_specs\":["
        "{\"slot_name\":\"cuda.device\",\"type\":\"count\",\"tariff\":{\"a\":1},\"amount\":\"0.25\",\"shares\":["
        "{\"device_id\":\"0\",\"amount\":\"0.25\",\"colour\":\"red\"}]}],"
        "\"devices\":[{\"device_id\":\"0\",\"device_name\":\"cuda\",\"age\":3,\"memory_spec\":{\"ecc\":true},"
        "\"processing_units\":2,\"compute_units\":[{\"name\":\"TPC\",\"count\":2},{\"name\":\"SM\",\"count\":4,"
        "\"clock\":9}]}],\"node\":{\"rack\":\"7\",\"components\":[{\"name\":\"cuda\",\"version\":\"2\",\"x\":1,"
        "\"extra\":{\"a\":\"1\"}}]}}",
        0, NULL);
    if (!json_equal(got, expected))
        fail_msg("the document differs from the expected one: %s", back);
    json_decref(got);
    json_decref(expected);
    free(back);
    facet_spec_destroy(spec);
}

static void expect_violation(const struct facet_violations *violations, const char *pointer, const char *fragment)
{
    struct facet_violation violation = {.size = sizeof violation};

    for (uint32_t i = 0; i < facet_violations_count(violations); i++) {
        assert_int_equal(facet_violations_get(violations, i, &violation, NULL), FACET_OK);
        if (strcmp(violation.pointer, pointer) == 0 && strstr(violation.message, fragment))
            return;
    }
    for (uint32_t i = 0; i < facet_violations_count(violations); i++) {
        facet_violations_get(violations, i, &violation, NULL);
        print_message("# %s: %s\n", violation.pointer, violation.message);
    }
    fail_msg("no violation at %s with '%s'", pointer, fragment);
}

static void test_all_violations_are_listed(void **state)
{
    static const char text[] =
        "{\"format\":\"x\",\"version\":\"2.0\",\"resource_specs\":["
        "{\"slot_name\":\"Cuda\",\"type\":\"counts\",\"amount\":\"-1\",\"number_format\":{\"binary\":1}},"
        "{\"slot_name\":\"cuda.device\",\"type\":\"unique\",\"amount\":\"2\",\"shares\":["
        "{\"device_id\":\"0\",\"amount\":\"1\"},{\"device_id\":\"0\",\"amount\":\"0.5\"},"
        "{\"device_id\":\"9\",\"amount\":\"9999999999999\"}]},"
        "{\"slot_name\":\"cuda.device\",\"type\":\"count\"},"
        "{\"slot_name\":\"cuda.shares\",\"type\":\"count\",\"amount\":\"2\",\"shares\":[{\"device_id\":\"0\","
        "\"amount\":\"1\"}]}],"
        "\"devices\":[{\"device_id\":\"0\",\"device_name\":\"cuda\",\"memory_size\":1,\"memory_spec\":"
        "{\"total_memory\":2},\"numa_node\":-1,\"parent_id\":\"0\"},{\"device_id\":\"0\",\"device_name\":\"cuda\","
        "\"health\":{\"status\":\"fine\"}},{\"a/b~\":1,\"device_id\":7}],\"node\":{\"components\":[{\"extra\":"
        "{\"a/b~c\":1}}]}}";
    static const struct {
        const char *pointer, *fragment;
    } expected[] = {
        {"/format", "facet-accelerator-node"},
        {"/version", "pattern"},
        {"/resource_specs/0/slot_name", "pattern"},
        {"/resource_specs/0/type", "one of count, bytes"},
        {"/resource_specs/0/amount", "pattern"},
        {"/resource_specs/0/number_format/binary", "boolean"},
        {"/resource_specs/0/number_format", "round_length"},
        {"/resource_specs/1/shares/1/amount", "whole"},
        {"/resource_specs/1/shares/1/device_id", "once"},
        {"/resource_specs/1/shares/2/device_id", "device of the document"},
        {"/resource_specs/1/shares/2/amount", "at most 9223372036854.775807"},
        {"/resource_specs/2/slot_name", "once"},
        {"/resource_specs/3/amount", "sum"},
        {"/devices/0/memory_size", "expected 2"},
        {"/devices/0/numa_node", "at least 0"},
        {"/devices/0/parent_id", "another device"},
        {"/devices/1/device_id", "once"},
        {"/devices/1/health/status", "one of healthy"},
        {"/devices/2/device_id", "expected string, got integer"},
        {"/devices/2", "device_name"},
        {"/node/components/0", "'name'"},
        {"/node/components/0/extra/a~1b~0c", "expected string"},
    };
    struct facet_violations *violations;
    struct facet_error error = {0};
    struct facet_spec *spec = NULL;

    assert_int_equal(facet_document_check(FACET_DOCUMENT_NODE, text, strlen(text), &violations, &error), FACET_OK);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        expect_violation(violations, expected[i].pointer, expected[i].fragment);
    assert_int_equal(facet_violations_total(violations), sizeof expected / sizeof expected[0]);
    facet_violations_destroy(violations);
    assert_int_equal(facet_spec_read(text, strlen(text), &spec, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "22 in all"));
    assert_null(spec);
}

static void test_hostile_documents_are_refused(void **state)
{
    static const struct {
        const char *text, *fragment;
    } wrong[] = {
        {"", "line 1, column 0"},
        {"{\n  \"a\": 1,\n  \"a\": 2}", "line 3"},
        {"{\"a\": 123456789012345678901234567890}", "too big integer"},
        {"{\"a\": 1e999}", "real number overflow"},
        {"{\"a\": \"\xff\"}", "line 1, column 7: unable to decode byte"},
        {"{\"a\": \"\\ud800\"}", "Unicode"},
        {"{\"a\": \"\\u0000\"}", "u0000"},
        {"{} x", "end of file"},
    };
    struct facet_violations *violations = NULL;
    struct facet_error error;
    char *deep = malloc(100000);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        error = (struct facet_error){0};
        assert_int_equal(
            facet_document_check(FACET_DOCUMENT_NODE, wrong[i].text, strlen(wrong[i].text), &violations, &error),
            FACET_INVALID_ARGUMENT);
        if (!strstr(error.message, wrong[i].fragment))
            fail_msg("'%s': '%s' does not contain '%s'", wrong[i].text, error.message, wrong[i].fragment);
        assert_null(violations);
    }
    assert_non_null(deep);
    memset(deep, '[', 100000);
    assert_int_equal(facet_document_check(FACET_DOCUMENT_NODE, deep, 100000, &violations, &error),
                     FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "depth"));
    free(deep);
    assert_int_equal(facet_document_check(FACET_DOCUMENT_NODE, "{}", FACET_DOCUMENT_BYTES + 1, &violations, &error),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(facet_document_check(7, "{}", 2, &violations, &error), FACET_INVALID_ARGUMENT);
}

/* All violations are counted, and the list of them is bounded. */
static void test_list_of_violations_is_bounded(void **state)
{
    enum { VIOLATIONS = 50000 };
    static const char head[] = "{\"format\":\"facet-accelerator-node\",\"version\":\"1.0\",\"resource_specs\":[],"
                               "\"devices\":[0";
    char *text = malloc(sizeof head + VIOLATIONS * 2 + 4);
    size_t length = sizeof head - 1;
    struct facet_violations *violations;

    assert_non_null(text);
    memcpy(text, head, length);
    for (int i = 1; i < VIOLATIONS; i++) {
        memcpy(text + length, ",0", 2);
        length += 2;
    }
    memcpy(text + length, "]}", 2);
    assert_int_equal(facet_document_check(FACET_DOCUMENT_NODE, text, length + 2, &violations, NULL), FACET_OK);
    assert_int_equal(facet_violations_total(violations), VIOLATIONS);
    assert_int_equal(facet_violations_count(violations), FACET_VIOLATIONS);
    facet_violations_destroy(violations);
    free(text);
}

static void test_device_list_sums_the_grants_of_each_device(void **state)
{
    struct facet_spec *spec = make_spec();
    const struct facet_spec_grant grants[] = {{"cuda.device:1g.5gb-mig", "MIG-1/0/0", FACET_AMOUNT_ONE},
                                              {"cuda.device", "0000:03:00.0", FACET_AMOUNT_ONE},
                                              {"cuda.device", "0000:03:00.0", FACET_AMOUNT_ONE / 2}};
    const struct facet_spec_grant unknown = {"cuda.device", "ff", 1}, no_slot = {"cuda.shares", "0000:03:00.0", 1};
    const struct facet_spec_slot unified = {
        .size = sizeof unified, .slot_name = "ascend.all", .type = FACET_SLOT_UNIFIED};
    struct facet_error error = {0};
    char *text = NULL;

    assert_int_equal(facet_spec_legacy_devices(spec, &text, &error), FACET_UNSUPPORTED); /* a partition has no size */
    assert_non_null(strstr(error.message, "MIG-0/0/0"));
    /* The device of a unified slot is listed although no grant names it: below, the one with empty "slots". */
    assert_int_equal(facet_spec_put_slot(spec, &unified, &error), FACET_OK);
    assert_int_equal(facet_spec_device_list(spec, grants, 3, &text, &error), FACET_OK);
    json_t *got = json_loads(text, 0, NULL);
    json_t *expected = json_loads(
        "[{\"device_id\":\"0000:03:00.0\",\"model_name\":\"A100\",\"data\":{\"mem\":42949672960,\"proc\":108},"
        "\"slots\":{\"cuda.device\":\"1.5\"}},{\"device_id\":\"MIG-1/0/0\",\"data\":{},\"slots\":"
        "{\"cuda.device:1g.5gb-mig\":\"1\"}},{\"device_id\":\"npu,0\\n:\",\"data\":{},\"slots\":{}}]",
        0, NULL);
    if (!json_equal(got, expected))
        fail_msg("the list differs from the expected one: %s", text);
    json_decref(got);
    json_decref(expected);
    free(text);
    text = NULL;
    assert_int_equal(facet_spec_device_list(spec, &unknown, 1, &text, &error), FACET_NOT_FOUND);
    assert_int_equal(facet_spec_device_list(spec, &no_slot, 1, &text, &error), FACET_NOT_FOUND);
    assert_null(text);
    facet_spec_destroy(spec);
    assert_int_equal(facet_spec_create(&spec, &error), FACET_OK);
    assert_int_equal(put_gpu(spec, 1, false, &error), FACET_OK);
    assert_int_equal(facet_spec_legacy_devices(spec, &text, &error), FACET_OK);
    assert_non_null(strstr(text, "\"memory_size\": 42949672960"));
    free(text);
    facet_spec_destroy(spec);
}

static void test_wrong_puts_are_refused(void **state)
{
    struct facet_spec *spec = make_spec();
    struct facet_spec_slot slot = {.size = sizeof slot, .slot_name = "cuda.x", .type = 9};
    struct facet_spec_device device = {.size = sizeof device, .device_id = "0"};
    struct facet_error error = {0};
    char *before, *after;

    assert_int_equal(facet_spec_write(spec, &before, NULL), FACET_OK);
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_INVALID_ARGUMENT);
    slot.type = 0;
    slot.valid = FACET_SPEC_SLOT_HAS_AMOUNT;
    slot.amount_micro = -1;
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_INVALID_ARGUMENT);
    slot.slot_name = "Cuda";
    assert_int_equal(facet_spec_put_slot(spec, &slot, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "device_name");
    device.device_name = "cuda";
    device.vendor = "\xff";
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "vendor");
    device.vendor = NULL;
    device.valid = FACET_SPEC_DEVICE_HAS_MEMORY;
    device.total_memory = UINT64_MAX;
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_OUT_OF_RANGE);
    device.size = 0;
    assert_int_equal(facet_spec_put_device(spec, &device, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_spec_write(spec, &after, NULL), FACET_OK);
    assert_string_equal(before, after);
    free(before);
    free(after);
    facet_spec_destroy(spec);
}

/* --- out of memory ---------------------------------------------------------------------------------------------- */

static bool build_and_write(void *context)
{
    struct facet_spec *spec = NULL;
    char *text = NULL;
    struct facet_error error = {0};
    bool done = facet_spec_create(&spec, &error) == FACET_OK && fill_spec(spec, &error) == FACET_OK &&
                facet_spec_write(spec, &text, &error) == FACET_OK;

    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    assert_int_equal(done, text != NULL);
    free(text);
    facet_spec_destroy(spec);
    return done;
}

static bool read_and_view(void *context)
{
    const struct facet_spec_grant grant = {"cuda.device", "0000:03:00.0", FACET_AMOUNT_ONE};
    struct facet_spec *spec = NULL;
    char *text = NULL;
    struct facet_error error = {0};
    bool done = facet_spec_read(context, strlen(context), &spec, &error) == FACET_OK &&
                facet_spec_device_list(spec, &grant, 1, &text, &error) == FACET_OK;

    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    free(text);
    facet_spec_destroy(spec);
    return done;
}

static bool validate_document(void *context)
{
    static const char text[] =
        "{\"format\":1,\"devices\":[{\"device_id\":\"a\",\"device_name\":\"b\"},"
        "{\"device_id\":\"a\",\"device_name\":\"b\"}],\"node\":{\"components\":[{\"name\":\"\"}]}}";
    struct facet_violations *violations = NULL;
    struct facet_error error = {0};
    enum facet_status status = facet_document_check(FACET_DOCUMENT_NODE, text, strlen(text), &violations, &error);

    if (status != FACET_OK)
        assert_int_equal(status, FACET_NO_MEMORY);
    else
        assert_int_equal(facet_violations_total(violations), 5);
    facet_violations_destroy(violations);
    return status == FACET_OK;
}

static void test_each_failing_allocation_leaves_nothing(void **state)
{
    struct facet_spec *spec = make_spec();
    char *text;

    assert_int_equal(facet_spec_write(spec, &text, NULL), FACET_OK);
    facet_spec_destroy(spec);
    assert_true(failing_loop_of_reader(validate_document, NULL) > 20);
    assert_true(failing_loop_of_reader(build_and_write, NULL) > 100);
    assert_true(failing_loop_of_reader(read_and_view, text) > 100);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_round_trips),
        cmocka_unit_test(test_unknown_members_are_kept),
        cmocka_unit_test(test_all_violations_are_listed),
        cmocka_unit_test(test_hostile_documents_are_refused),
        cmocka_unit_test(test_list_of_violations_is_bounded),
        cmocka_unit_test(test_device_list_sums_the_grants_of_each_device),
        cmocka_unit_test(test_wrong_puts_are_refused),
        cmocka_unit_test(test_each_failing_allocation_leaves_nothing),
    };

    failing_begin();
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
