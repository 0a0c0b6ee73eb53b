/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of reading profiles: the shipped ones, and each member wrong in each way that the schema names.
 * The wrong values follow from schemas/sim-profile.schema.json, so that schema and provider cannot drift apart. The
 * provider refuses all that the schema refuses, and names the file, the place, the value and the expectation. A member
 * that is optional in the schema is optional for the provider.
 */
#include <dirent.h>
#include <sys/stat.h>

#include <jansson.h>

#include "machine.h"
#include "sim_core_fixture.h"

static const char *const shipped[] = {"a100-40gb", "ascend910b", "dual-socket", "h100", "h200", "h200x8", "mi300x"};
#define SHIPPED (sizeof shipped / sizeof shipped[0])

static json_t *load_document(const char *folder, const char *name)
{
    char path[512];
    json_error_t fault;
    json_t *document;

    snprintf(path, sizeof path, "%s/%s/%s.json", getenv("FACET_TEST_SOURCE"), folder, name);
    document = json_load_file(path, 0, &fault);
    if (!document)
        fail_msg("%s: %s", path, fault.text);
    return document;
}

static enum facet_status parse_profile(json_t *document, struct facet_error *error)
{
    char *text = json_dumps(document, 0);
    struct sim_machine *machine = NULL;
    enum facet_status status = sim_machine_parse("test.json", text, strlen(text), &machine, error);

    free(text);
    assert_int_equal(status == FACET_OK, machine != NULL);
    sim_machine_close(machine);
    return status;
}

static unsigned refusals;

static void check_refused(json_t *document, const char *member_path, const char *fault)
{
    struct facet_error error = {0};

    if (parse_profile(document, &error) == FACET_OK)
        fail_msg("%s with %s is accepted", member_path, fault);
    refusals++;
    assert_int_equal(error.status, FACET_INVALID_ARGUMENT);
    if (strncmp(error.message, "test.json: ", 11) != 0 || !strstr(error.message, "; expected "))
        fail_msg("%s with %s: the message does not name file and expectation: %s", member_path, fault, error.message);
    if (!strstr(error.message, member_path))
        fail_msg("%s with %s: the message names another place: %s", member_path, fault, error.message);
}

/* Replaces a member by `wrong`, checks that this is refused, and restores the member. */
static void try_wrong(json_t *document, json_t *parent, const char *name, size_t index, json_t *wrong,
                      const char *member_path, const char *fault)
{
    json_t *right = name ? json_object_get(parent, name) : json_array_get(parent, index);

    json_incref(right);
    if (name)
        json_object_set_new(parent, name, wrong);
    else
        json_array_set_new(parent, index, wrong);
    check_refused(document, member_path, fault);
    if (name)
        json_object_set_new(parent, name, right);
    else
        json_array_set_new(parent, index, right);
}

static json_t *long_text(size_t length)
{
    char *text = malloc(length + 1);
    json_t *value;

    memset(text, 'a', length);
    text[length] = '\0';
    value = json_string(text);
    free(text);
    return value;
}

static void try_scalar(json_t *document, const json_t *schema, json_t *parent, const char *name, size_t index,
                       const char *member_path)
{
    const json_t *high = json_object_get(schema, "maximum"), *low = json_object_get(schema, "minimum");
    const json_t *longest = json_object_get(schema, "maxLength");

    try_wrong(document, parent, name, index, json_null(), member_path, "null");
    try_wrong(document, parent, name, index, json_pack("{}"), member_path, "an object");
    if (high) {
        try_wrong(document, parent, name, index, json_integer(json_integer_value(high) + 1), member_path, "too much");
        try_wrong(document, parent, name, index, json_integer(json_integer_value(low) - 1), member_path, "too little");
        try_wrong(document, parent, name, index, json_real(1.5), member_path, "a fraction");
        try_wrong(document, parent, name, index, json_string("1"), member_path, "a text");
        return;
    }
    try_wrong(document, parent, name, index, json_integer(1), member_path, "a number");
    try_wrong(document, parent, name, index, json_string(""), member_path, "nothing in it");
    try_wrong(document, parent, name, index, json_string("a\tb"), member_path, "a control character");
    try_wrong(document, parent, name, index, json_string("caf\xc3\xa9"), member_path, "a letter beyond ASCII");
    if (longest)
        try_wrong(document, parent, name, index, long_text((size_t)json_integer_value(longest) + 1), member_path,
                  "too long");
    else
        try_wrong(document, parent, name, index, json_string("no such thing, surely"), member_path, "another text");
}

static void try_members(json_t *document, const json_t *schema, json_t *parent, const char *name, size_t index,
                        const char *member_path);

static void try_missing(json_t *document, const json_t *schema, json_t *object, const char *member_path)
{
    const json_t *required = json_object_get(schema, "required");
    const char *member;
    json_t *about;

    json_object_foreach (json_object_get(schema, "properties"), member, about) {
        json_t *value = json_object_get(object, member);
        char inner[160];
        bool needed = false;

        for (size_t i = 0; i < json_array_size(required); i++)
            needed |= strcmp(json_string_value(json_array_get(required, i)), member) == 0;
        snprintf(inner, sizeof inner, "%s%s%s", member_path, *member_path ? "." : "", member);
        if (!value) {
            assert_false(needed);
            continue;
        }
        json_incref(value);
        json_object_del(object, member);
        if (needed) {
            check_refused(document, inner, "nothing");
        } else {
            struct facet_error error = {0};

            if (parse_profile(document, &error) != FACET_OK)
                fail_msg("%s is optional, but a profile without it is refused: %s", inner, error.message);
        }
        json_object_set_new(object, member, value);
    }
}

static void walk_object(json_t *document, const json_t *schema, json_t *object, const char *member_path)
{
    const json_t *properties = json_object_get(schema, "properties"),
                 *others = json_object_get(schema, "additionalProperties"),
                 *patterns = json_object_get(schema, "patternProperties");
    const char *member;
    json_t *value;
    void *next;

    try_missing(document, schema, object, member_path);
    if (json_is_false(others)) {
        json_object_set_new(object, patterns ? "Surprise!" : "surprise", json_integer(1));
        check_refused(document, patterns ? "Surprise!" : "surprise", "an unknown member");
        json_object_del(object, patterns ? "Surprise!" : "surprise");
    }
    json_object_foreach_safe (object, next, member, value) {
        const json_t *about = json_object_get(properties, member);
        char inner[160];

        if (!about)
            about = patterns ? json_object_iter_value(json_object_iter((json_t *)patterns)) : others;
        snprintf(inner, sizeof inner, "%s%s%s", member_path, *member_path ? "." : "", member);
        try_members(document, about, object, member, 0, inner);
    }
}

static void try_members(json_t *document, const json_t *schema, json_t *parent, const char *name, size_t index,
                        const char *member_path)
{
    json_t *value = name ? json_object_get(parent, name) : json_array_get(parent, index);

    if (json_is_object(value)) {
        try_wrong(document, parent, name, index, json_integer(1), member_path, "a number");
        walk_object(document, schema, value, member_path);
    } else if (json_is_array(value)) {
        try_wrong(document, parent, name, index, json_pack("{}"), member_path, "an object");
        if (json_integer_value(json_object_get(schema, "minItems")) > 0)
            try_wrong(document, parent, name, index, json_array(), member_path, "no items");
        for (size_t i = 0; i < json_array_size(value); i++) {
            char inner[200];

            snprintf(inner, sizeof inner, "%s[%zu]", member_path, i);
            try_members(document, json_object_get(schema, "items"), value, NULL, i, inner);
        }
    } else {
        try_scalar(document, schema, parent, name, index, member_path);
    }
}

static void each_wrong_member_is_refused(void **state)
{
    json_t *schema = load_document("schemas", "sim-profile.schema");
    static const char *const profiles[] = {"mi300x", "dual-socket"}; /* these two have every member */

    for (unsigned i = 0; i < 2; i++) {
        json_t *document = load_document("providers/sim/profiles", profiles[i]);

        refusals = 0;
        walk_object(document, schema, document, "");
        assert_true(refusals > 500);
        assert_int_equal(parse_profile(document, NULL), FACET_OK); /* every member was restored */
        json_decref(document);
    }
    json_decref(schema);
}

static void the_list_of_shipped_profiles_is_complete(void **state)
{
    char path[512];
    DIR *folder;
    unsigned found = 0;

    snprintf(path, sizeof path, "%s/providers/sim/profiles", getenv("FACET_TEST_SOURCE"));
    folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        found += strstr(entry->d_name, ".json") != NULL;
    closedir(folder);
    assert_int_equal(found, SHIPPED);
}

static void shipped_profiles_describe_devices(void **state)
{
    for (unsigned i = 0; i < SHIPPED; i++) {
        struct facet_provider_instance *instance = open_machine(shipped[i], NULL, NULL), *again;
        struct facet_device_info infos[64], others[64];
        uint32_t count = 0;
        char text[2048];
        uint32_t size;

        assert_int_equal(sim_device_ops.list(instance, infos, sizeof *infos, 64, &count, NULL), FACET_OK);
        assert_true(count > 0);
        again = open_machine(shipped[i], NULL, NULL);
        assert_int_equal(sim_device_ops.list(again, others, sizeof *others, 64, &count, NULL), FACET_OK);
        for (uint32_t device = 0; device < count; device++) {
            assert_memory_equal(&infos[device], &others[device], sizeof infos[device]); /* stable, with uuids */
            assert_int_equal(infos[device].index, device);
            assert_int_equal(strncmp(infos[device].name, "Simulated ", 10), 0);
            assert_string_equal(infos[device].vendor, "Facet (simulated)");
            assert_true(device == 0 || strcmp(infos[device].uuid, infos[0].uuid) != 0);
            assert_int_equal(infos[device].mode_group[FACET_MODE_SHARED], infos[device].mode_group[FACET_MODE_SOFT]);
            assert_int_not_equal(infos[device].mode_group[FACET_MODE_HARD], infos[device].mode_group[FACET_MODE_SOFT]);
            assert_int_equal(sim_device_ops.properties(instance, device, text, sizeof text, &size, NULL), FACET_OK);
            assert_int_equal(strlen(text) + 1, size);
            assert_non_null(strstr(text, "simulated=true\n"));
            assert_non_null(strstr(text, "modelled=")); /* some values are always modelled */
            assert_int_equal(sim_device_ops.properties(instance, device, text, size - 1, &size, NULL), FACET_TOO_SMALL);
        }
        sim_device_ops.close(instance);
        sim_device_ops.close(again);
    }
}

static void h100_has_the_values_of_its_data_sheet(void **state)
{
    struct facet_provider_instance *instance = open_machine("h100", NULL, NULL);
    const struct facet_device_info *info = sim_device_info(instance, 0);

    assert_string_equal(info->name, "Simulated NVIDIA H100 80GB HBM3");
    assert_int_equal(info->compute_units, 132);
    assert_int_equal(info->memory_bandwidth_mbps, 3350000);
    assert_int_equal(info->peak_gflops, 989400);
    assert_int_equal(info->pcie_generation, 5);
    assert_int_equal(info->max_partitions, 7);
    assert_int_equal(sim_device_model(instance, 0)->limit_mw, 700000);
    assert_int_equal(sim_device_model(instance, 0)->memory_bytes, info->memory_bytes);
    sim_device_ops.close(instance);
}

static json_t *product_of(json_t *document)
{
    return json_object_iter_value(json_object_iter(json_object_get(document, "products")));
}

/* Changes a member of the product, or of one of its templates if `template_index` is not NULL. */
static void change_member(json_t *template_index, const char *member, json_int_t value, const char *member_path)
{
    json_t *document = load_document("providers/sim/profiles", "a100-40gb"), *part = product_of(document);

    if (template_index)
        part = json_array_get(json_object_get(json_object_get(part, "partitioning"), "templates"),
                              (size_t)json_integer_value(template_index));
    json_object_set_new(part, member, json_integer(value));
    check_refused(document, member_path, "a value that contradicts others");
    json_decref(document);
    json_decref(template_index);
}

/* A schema cannot express these rules between several numbers. The last column is the place that the message names. */
static void numbers_that_contradict_each_other_are_refused(void **state)
{
    change_member(NULL, "clock_low_mhz", 1411, "clock_low_mhz");
    change_member(NULL, "idle_mw", 400000, "limit_mw");
    change_member(NULL, "peak_mw", 55000, "idle_mw");
    change_member(NULL, "limit_mc", 30000, "ambient_mc");
    change_member(NULL, "page_bytes", 3 << 20, "page_bytes");
    change_member(NULL, "memory_bytes", 42949672961, "memory_bytes");
    change_member(NULL, "compute_units", 98, "first_units[7]");
    change_member(json_integer(0), "compute_units", 15, "starts[0]");
    change_member(json_integer(0), "memory_bytes", 5368709121, "memory_bytes");
    change_member(json_integer(0), "length", 3, "starts[6]");
    change_member(json_integer(0), "max_count", 8, "max_count");
    change_member(json_integer(6), "compute_slices", 8, "compute_slices");
}

static void incomplete_documents_are_refused(void **state)
{
    static const char *const texts[] = {"", "{", "[]", "null", "{\"name\":1,\"name\":2}", "{}", "\xff\xfe"};
    struct sim_machine *machine = NULL;

    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct facet_error error = {0};

        assert_int_equal(sim_machine_parse("x.json", texts[i], strlen(texts[i]), &machine, &error),
                         FACET_INVALID_ARGUMENT);
        assert_null(machine);
        assert_int_equal(strncmp(error.message, "x.json", 6), 0);
        assert_non_null(strstr(error.message, "expected"));
    }
}

static void links_name_nodes_once(void **state)
{
    json_t *document = load_document("providers/sim/profiles", "dual-socket");
    json_t *links = json_object_get(document, "links"), *nodes = json_object_get(document, "nodes");

    json_array_append_new(links, json_deep_copy(json_array_get(links, 0)));
    check_refused(document, "links[8]", "pairs that are all joined");
    json_array_remove(links, json_array_size(links) - 1);
    try_wrong(document, json_object_get(json_array_get(links, 0), "from"), NULL, 0, json_string("device4"),
              "links[0].from[0]", "a node that is not there");
    try_wrong(document, json_array_get(nodes, 1), "name", 0, json_string("mlx5_0"), "nodes[1]", "a name taken");
    try_wrong(document, json_array_get(json_object_get(document, "devices"), 0), "product", 0, json_string("h101"),
              "devices[0].product", "a product that is not there");
    json_decref(document);
}

static void profiles_are_found_by_name_and_path(void **state)
{
    struct facet_provider_instance *instance = NULL;
    char path[512];
    uint32_t count = 4711;

    assert_refused(try_open("no-such", NULL, NULL, &instance, &error), FACET_NOT_FOUND,
                   "FACET_SIM_PROFILE no-such: expected the name of a shipped profile (a100-40gb, ascend910b, "
                   "dual-socket, h100, h200, h200x8, mi300x) or a path with a slash");
    assert_refused(try_open("/no/such.json", NULL, NULL, &instance, &error), FACET_NOT_FOUND, "/no/such.json");
    assert_refused(try_open("/dev/null", NULL, NULL, &instance, &error), FACET_INVALID_ARGUMENT, "regular file");
    assert_refused(try_open("../sim/profiles/../x", NULL, NULL, &instance, &error), FACET_NOT_FOUND, "../x");
    assert_null(instance);
    snprintf(path, sizeof path, "%s/providers/sim/profiles/h200.json", getenv("FACET_TEST_SOURCE"));
    instance = open_machine(path, NULL, NULL);
    assert_string_equal(sim_device_info(instance, 0)->name, "Simulated NVIDIA H200");
    sim_device_ops.close(instance);
    instance = open_machine(NULL, NULL, NULL); /* without a profile there are no devices */
    assert_int_equal(sim_device_ops.list(instance, NULL, sizeof(struct facet_device_info), 0, &count, NULL), FACET_OK);
    assert_int_equal(count, 0);
    assert_int_equal(sim_device_ops.nodes(instance, NULL, sizeof(struct facet_topology_node), 0, &count, NULL),
                     FACET_OK);
    assert_int_equal(sim_device_ops.health(instance, 0, &count, NULL), FACET_NOT_FOUND);
    sim_device_ops.close(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_shipped_profiles_is_complete),
        cmocka_unit_test(shipped_profiles_describe_devices),
        cmocka_unit_test(h100_has_the_values_of_its_data_sheet),
        cmocka_unit_test(each_wrong_member_is_refused),
        cmocka_unit_test(numbers_that_contradict_each_other_are_refused),
        cmocka_unit_test(incomplete_documents_are_refused),
        cmocka_unit_test(links_name_nodes_once),
        cmocka_unit_test(profiles_are_found_by_name_and_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
