/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of complete tables: a part that is missing, too short, too new or of an older version is a stub. */
#include "session_fixture.h"

#include "session/call.h"
#include "session/tables.h"

static enum facet_status list_nothing(struct facet_provider_instance *instance, void *items, uint32_t item_size,
                                      uint32_t capacity, uint32_t *ret_count, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status no_properties(struct facet_provider_instance *instance, uint32_t device, char *text,
                                       uint32_t capacity, uint32_t *ret_size, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status destroy_nothing(struct facet_provider_instance *instance, uint32_t device, const char *uuid,
                                         struct facet_error *error)
{
    return FACET_BUSY;
}

static struct facet_device_ops device_ops = {
    .size = sizeof device_ops, .list = list_nothing, .properties = no_properties};
static struct facet_partition_ops partition_ops = {.size = sizeof partition_ops, .destroy = destroy_nothing};

static struct facet_provider provider_of(uint32_t size, uint16_t minor)
{
    return (struct facet_provider){.size = size,
                                   .abi_major = 1,
                                   .abi_minor = minor,
                                   .name = "made-up",
                                   .device = &device_ops,
                                   .partition = &partition_ops};
}

static enum facet_status destroy_partition(const struct facet_tables *tables)
{
    return tables->provider.partition->destroy(NULL, 0, "x", NULL);
}

static enum facet_status get_properties(const struct facet_tables *tables)
{
    return tables->provider.device->properties(NULL, 0, NULL, 0, NULL, NULL);
}

static enum facet_status list_devices(const struct facet_tables *tables)
{
    return tables->provider.device->list(NULL, NULL, 4, 0, NULL, NULL);
}

static void present_functions_are_taken(void **state)
{
    struct facet_provider provider = provider_of(sizeof provider, 1);
    struct facet_tables tables;

    facet_tables_fill(&tables, &provider, 1);
    assert_int_equal(list_devices(&tables), FACET_BUSY);
    assert_int_equal(get_properties(&tables), FACET_BUSY);
    assert_int_equal(destroy_partition(&tables), FACET_BUSY);
    assert_string_equal(tables.provider.version, "");
    assert_string_equal(tables.provider.description, "");
    assert_int_equal(tables.provider.size, sizeof provider);
}

/* Every operation of a provider that offers none can be called, is unsupported, and names itself. */
static void every_stub_names_its_operation(void **state)
{
    const struct facet_device_ops none = {.size = sizeof none.size};
    struct facet_provider provider = {.size = sizeof provider, .abi_major = 1, .abi_minor = 1, .device = &none};
    struct facet_tables tables;

    facet_tables_fill(&tables, &provider, 1);
    for (enum facet_operation_id operation = 0; operation < FACET_OPERATION_COUNT; operation++) {
        const struct facet_call call = {.operation = operation};
        struct facet_error error = {0};
        char expected[128];

        snprintf(expected, sizeof expected, "the provider offers no %s", facet_operations[operation].name);
        assert_int_equal(facet_call_make(&call, &tables.provider, NULL, &error), FACET_UNSUPPORTED);
        assert_int_equal(error.status, FACET_UNSUPPORTED);
        assert_string_equal(error.message, expected);
    }
    assert_int_equal(tables.device.open(NULL, NULL), FACET_UNSUPPORTED);
    tables.device.close(NULL);
}

/* In version 1.0 the provider struct ends with the pointer to the device table, and that table ends with `health`. No
 * byte behind either end is read. */
static void a_table_of_an_older_version_ends_as_in_that_version(void **state)
{
    struct facet_provider old = provider_of(sizeof old, 0), shorter = provider_of(FACET_PROVIDER_SIZE_1_0, 1);
    struct facet_provider same = provider_of(sizeof same, 1);
    struct facet_tables tables;

    facet_tables_fill(&tables, &old, 1);
    assert_int_equal(tables.provider.abi_minor, 0);
    assert_int_equal(list_devices(&tables), FACET_BUSY);
    assert_int_equal(get_properties(&tables), FACET_UNSUPPORTED);
    assert_int_equal(destroy_partition(&tables), FACET_UNSUPPORTED);

    facet_tables_fill(&tables, &same, 0);
    assert_int_equal(tables.provider.abi_minor, 0);
    assert_int_equal(destroy_partition(&tables), FACET_UNSUPPORTED);

    facet_tables_fill(&tables, &shorter, 1);
    assert_int_equal(get_properties(&tables), FACET_BUSY);
    assert_int_equal(destroy_partition(&tables), FACET_UNSUPPORTED);
}

static enum facet_status cancel_nothing(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                        struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status write_nothing(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                       uint64_t address, const void *data, uint64_t bytes, struct facet_error *error)
{
    return FACET_BUSY;
}

/* In version 1.1 the table of executions ends with cancel, whichever side is older. */
static void transfers_in_a_stream_are_of_1_2(void **state)
{
    static const struct facet_execution_ops execution_ops = {
        .size = sizeof execution_ops, .cancel = cancel_nothing, .write = write_nothing};
    static const struct {
        uint16_t provider, host;
        enum facet_status write;
    } versions[] = {{2, 2, FACET_BUSY}, {1, 2, FACET_UNSUPPORTED}, {2, 1, FACET_UNSUPPORTED}, {7, 2, FACET_BUSY}};

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct facet_provider provider = provider_of(sizeof provider, versions[i].provider);
        struct facet_tables tables;

        provider.execution = &execution_ops;
        facet_tables_fill(&tables, &provider, versions[i].host);
        const struct facet_execution_ops *execution = tables.provider.execution;
        assert_int_equal(execution->size, sizeof *execution);
        assert_int_equal(execution->cancel(NULL, 1, 1, NULL), FACET_BUSY);
        assert_int_equal(execution->write(NULL, 1, 1, 0, "", 0, NULL), versions[i].write);
        assert_int_equal(execution->set_priority(NULL, 1, 1, 1, NULL), FACET_UNSUPPORTED);
    }
}

static enum facet_status fill_nothing(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                      uint8_t value, uint64_t bytes, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status move_nothing(struct facet_provider_instance *instance, uint64_t context, uint64_t address,
                                      uint64_t pages, uint64_t offset, uint64_t bytes, struct facet_error *error)
{
    return FACET_BUSY;
}

/* In version 1.2 the table of memory ends with fill. */
static void pages_that_move_are_of_1_3(void **state)
{
    static const struct facet_memory_ops memory_ops = {
        .size = sizeof memory_ops, .fill = fill_nothing, .move = move_nothing};
    static const struct {
        uint16_t provider, host;
        enum facet_status move;
    } versions[] = {{3, 3, FACET_BUSY}, {2, 3, FACET_UNSUPPORTED}, {3, 2, FACET_UNSUPPORTED}, {7, 3, FACET_BUSY}};

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct facet_provider provider = provider_of(sizeof provider, versions[i].provider);
        struct facet_tables tables;

        provider.memory = &memory_ops;
        facet_tables_fill(&tables, &provider, versions[i].host);
        const struct facet_memory_ops *memory = tables.provider.memory;
        assert_int_equal(memory->size, sizeof *memory);
        assert_int_equal(memory->fill(NULL, 1, 1, 0, 1, NULL), FACET_BUSY);
        assert_int_equal(memory->move(NULL, 1, 1, 1, 0, 1, NULL), versions[i].move);
        assert_int_equal(memory->share_pages(NULL, 1, 1, NULL), FACET_UNSUPPORTED);
    }
}

static enum facet_status no_records(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                    uint64_t after, void *items, uint32_t item_size, uint32_t capacity,
                                    uint32_t *ret_count, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status bound_nothing(struct facet_provider_instance *instance, uint64_t context, uint32_t units,
                                       uint32_t launches, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status schedule_nothing(struct facet_provider_instance *instance, uint32_t device, uint32_t policy,
                                          uint32_t preempt, uint64_t slice_ns, struct facet_error *error)
{
    return FACET_BUSY;
}

static enum facet_status run_nothing(struct facet_provider_instance *instance, uint64_t context, uint64_t stream,
                                     const struct facet_math *operation, struct facet_error *error)
{
    return FACET_BUSY;
}

/* In version 1.3 the table of executions ends with records, and there is no table of mathematics. */
static void control_and_mathematics_are_of_1_4(void **state)
{
    static const struct facet_execution_ops execution_ops = {.size = sizeof execution_ops,
                                                             .records = no_records,
                                                             .set_bounds = bound_nothing,
                                                             .set_policy = schedule_nothing};
    static const struct facet_math_ops math_ops = {.size = sizeof math_ops, .run = run_nothing};
    static const struct {
        uint16_t provider, host;
        enum facet_status expected;
    } versions[] = {{4, 4, FACET_BUSY}, {3, 4, FACET_UNSUPPORTED}, {4, 3, FACET_UNSUPPORTED}, {7, 4, FACET_BUSY}};

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        struct facet_provider provider = provider_of(sizeof provider, versions[i].provider);
        struct facet_tables tables;

        provider.execution = &execution_ops;
        provider.math = &math_ops;
        facet_tables_fill(&tables, &provider, versions[i].host);
        const struct facet_execution_ops *execution = tables.provider.execution;
        const struct facet_math_ops *math = tables.provider.math;
        assert_int_equal(execution->records(NULL, 1, 1, 0, NULL, 8, 0, NULL, NULL), FACET_BUSY);
        assert_int_equal(execution->set_bounds(NULL, 1, 1, 1, NULL), versions[i].expected);
        assert_int_equal(execution->set_policy(NULL, 0, 0, 1, 0, NULL), versions[i].expected);
        assert_int_equal(execution->pause(NULL, 1, 1, NULL), FACET_UNSUPPORTED);
        assert_int_equal(math->size, sizeof *math);
        assert_int_equal(math->run(NULL, 1, 1, NULL, NULL), versions[i].expected);
        assert_int_equal(math->support(NULL, 0, NULL, NULL), FACET_UNSUPPORTED);
    }
}

/* A provider of 1.3 ends before the pointer to a table of mathematics. The bytes behind are not part of it. */
static void the_table_of_mathematics_is_not_looked_for_behind_a_provider(void **state)
{
    static const struct facet_execution_ops execution_ops = {.size = sizeof execution_ops, .records = no_records};
    struct facet_provider provider = provider_of(offsetof(struct facet_provider, math), 3);
    struct facet_tables tables;

    provider.execution = &execution_ops;
    memset(&provider.math, 0x5a, sizeof provider.math); /* following this pointer would crash */
    facet_tables_fill(&tables, &provider, 4);
    assert_int_equal(tables.execution.records(NULL, 1, 1, 0, NULL, 8, 0, NULL, NULL), FACET_BUSY);
    assert_int_equal(tables.math.run(NULL, 1, 1, NULL, NULL), FACET_UNSUPPORTED);
    provider.abi_minor = 4; /* it states 1.4, and is too short for that */
    facet_tables_fill(&tables, &provider, 4);
    assert_int_equal(tables.math.run(NULL, 1, 1, NULL, NULL), FACET_UNSUPPORTED);
}

static void a_table_ends_where_its_size_says(void **state)
{
    struct facet_provider provider = provider_of(sizeof provider, 1);
    struct facet_tables tables;

    partition_ops.size = offsetof(struct facet_partition_ops, destroy) + 7; /* one byte less than the pointer needs */
    facet_tables_fill(&tables, &provider, 1);
    partition_ops.size = sizeof partition_ops + 800; /* of a later version */
    assert_int_equal(destroy_partition(&tables), FACET_UNSUPPORTED);
    facet_tables_fill(&tables, &provider, 9);
    partition_ops.size = sizeof partition_ops;
    assert_int_equal(destroy_partition(&tables), FACET_BUSY);
    assert_int_equal(tables.provider.partition->size, sizeof partition_ops);
}

/* Compares the list of texts in structs.c with the headers: each "char name[size];" must be in the list. */
static const struct facet_struct_type *type_named(const char *name)
{
#define TYPE(type)                                                                                                     \
    if (strcmp(name, #type) == 0)                                                                                      \
        return &type##_type;
    FACET_STRUCT_TYPES(TYPE)
#undef TYPE
    return NULL;
}

static unsigned check_texts(const char *header)
{
    const struct facet_struct_type *type = NULL;
    char path[512], line[256], name[64];
    unsigned found = 0;

    snprintf(path, sizeof path, "%s/include/facet/provider/%s.h", getenv("FACET_TEST_SOURCE"), header);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "struct %63[a-z_] {", name) == 1 && strchr(line, '{'))
            type = type_named(name);
        if (!type || sscanf(line, " char %63[a-z_][", name) != 1)
            continue;
        const struct facet_struct_text *text = type->texts;
        while (text->name && strcmp(text->name, name) != 0)
            text++;
        if (!text->name)
            fail_msg("%s: the text %s is not checked", header, name);
        found++;
    }
    fclose(file);
    return found;
}

static void every_text_of_the_abi_is_checked(void **state)
{
    static const char *const headers[] = {"container", "device",  "execution", "limit",    "math",
                                          "memory",    "metrics", "partition", "snapshot", "topology"};
    unsigned found = 0, known = 0;

    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        found += check_texts(headers[i]);
#define COUNT(type)                                                                                                    \
    for (const struct facet_struct_text *text = type##_type.texts; text->name; text++)                                 \
        known++;
    FACET_STRUCT_TYPES(COUNT)
#undef COUNT
    assert_int_equal(found, known);
}

static void invalid_fields_of_a_struct_are_found(void **state)
{
    struct facet_event event = {.size = sizeof event, .kind = FACET_EVENT_ECC, .uuid = "u", .message = "m"};
    uint32_t short_struct[2] = {8, FACET_EVENT_ECC};

    assert_null(facet_struct_bad_field(&facet_event_type, &event, sizeof event));
    assert_string_equal(facet_struct_bad_field(&facet_event_type, &event, sizeof event - 1), "size");
    memset(event.message, 'm', sizeof event.message);
    assert_string_equal(facet_struct_bad_field(&facet_event_type, &event, sizeof event), "message");
    event.size = offsetof(struct facet_event, message); /* the message is then absent */
    assert_string_equal(facet_struct_bad_field(&facet_event_type, &event, sizeof event), "size");
    assert_null(facet_struct_bad_field(&facet_event_type, &event, event.size));
    event.uuid[1] = '\x7f';
    assert_string_equal(facet_struct_bad_field(&facet_event_type, &event, event.size), "uuid");
    assert_null(facet_struct_bad_field(&facet_event_type, short_struct, sizeof short_struct));
    short_struct[0] = 3;
    assert_string_equal(facet_struct_bad_field(&facet_event_type, short_struct, sizeof short_struct), "size");
}

/* However short the structs of provider and caller are, every text that is returned is terminated. */
static void every_text_is_terminated(void **state)
{
    struct facet_device_info info = {0}, copy;
    const uint32_t least = offsetof(struct facet_device_info, capabilities);

    for (const struct facet_struct_text *text = facet_device_info_type.texts; text->name; text++)
        memset((char *)&info + text->offset, 't', text->size - 1);
    for (uint32_t room = sizeof info.size; room <= sizeof info; room++) {
        for (info.size = 0; info.size <= room + 1; info.size++) {
            const char *bad = facet_struct_bad_field(&facet_device_info_type, &info, room);

            assert_true(!bad == (info.size <= room && info.size >= (room < least ? room : least)));
            if (bad)
                continue;
            memset(&copy, 'c', sizeof copy);
            facet_struct_copy(&facet_device_info_type, &copy, &info);
            for (const struct facet_struct_text *text = facet_device_info_type.texts; text->name; text++)
                if (text->offset < room)
                    assert_non_null(memchr((char *)&copy + text->offset, '\0', room - text->offset));
            for (uint32_t i = room; i < sizeof copy; i++)
                assert_int_equal(((char *)&copy)[i], 'c');
        }
    }
}

/* The last known value of each enumeration is accepted, and the next one refused. */
static void enumerations_are_known_or_refused(void **state)
{
    static const struct {
        const struct facet_struct_type *type;
        uint32_t offset, first, last;
        const char *name;
    } enumerations[] = {
        {&facet_device_info_type, offsetof(struct facet_device_info, kind), 0, 4, "kind"},
        {&facet_topology_node_type, offsetof(struct facet_topology_node, kind), 1, 4, "kind"},
        {&facet_topology_link_type, offsetof(struct facet_topology_link, type), 0, 9, "type"},
        {&facet_topology_link_type, offsetof(struct facet_topology_link, level), 0, 6, "level"},
        {&facet_event_type, offsetof(struct facet_event, kind), 1, 7, "kind"},
        {&facet_link_metrics_type, offsetof(struct facet_link_metrics, type), 0, 9, "type"},
        {&facet_container_item_type, offsetof(struct facet_container_item, kind), 1, 3, "kind"},
    };

    for (size_t i = 0; i < sizeof enumerations / sizeof enumerations[0]; i++) {
        char bytes[2048] = "";

        memcpy(bytes, &enumerations[i].type->size, sizeof enumerations[i].type->size);
        for (uint32_t value = 0; value < 99; value++) {
            memcpy(bytes + enumerations[i].offset, &value, sizeof value);
            const char *bad = facet_struct_bad_field(enumerations[i].type, bytes, enumerations[i].type->size);

            if (value >= enumerations[i].first && value <= enumerations[i].last)
                assert_null(bad);
            else
                assert_string_equal(bad, enumerations[i].name);
        }
    }
}

static void texts_are_copied_without_control_characters(void **state)
{
    char target[6];

    facet_text_copy(target, sizeof target, "a\x1b[\xff", 5);
    assert_string_equal(target, "a?[?");
    facet_text_copy(target, sizeof target, "abcdefgh", 9);
    assert_string_equal(target, "abcde");
    facet_text_copy(target, sizeof target, "abcdefgh", 2);
    assert_string_equal(target, "ab");
    assert_true(facet_text_is_printable("a\n", 3, true));
    assert_false(facet_text_is_printable("a\n", 3, false));
    assert_false(facet_text_is_printable("abc", 3, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(present_functions_are_taken),
        cmocka_unit_test(every_stub_names_its_operation),
        cmocka_unit_test(a_table_of_an_older_version_ends_as_in_that_version),
        cmocka_unit_test(transfers_in_a_stream_are_of_1_2),
        cmocka_unit_test(pages_that_move_are_of_1_3),
        cmocka_unit_test(control_and_mathematics_are_of_1_4),
        cmocka_unit_test(the_table_of_mathematics_is_not_looked_for_behind_a_provider),
        cmocka_unit_test(a_table_ends_where_its_size_says),
        cmocka_unit_test(every_text_of_the_abi_is_checked),
        cmocka_unit_test(invalid_fields_of_a_struct_are_found),
        cmocka_unit_test(every_text_is_terminated),
        cmocka_unit_test(enumerations_are_known_or_refused),
        cmocka_unit_test(texts_are_copied_without_control_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
