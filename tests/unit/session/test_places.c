/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that every operation gives the same results in this process and in a child, for many arguments.
 */
#include "session_fixture.h"

#include <inttypes.h>
#include <unistd.h>

#include "full.h"
#include "session/call.h"
#include "session/session.h"

enum { OUT_BYTES = 16384, POISON = 0x5a };

static struct facet_session *in_process, *in_child;

static int set_up(void **state)
{
    in_process = open_session("full", FACET_SESSION_IN_PROCESS);
    in_child = open_session("full", FACET_SESSION_CHILD);
    return 0;
}

static int tear_down(void **state)
{
    facet_session_close(in_process);
    facet_session_close(in_child);
    assert_no_child_is_left();
    return 0;
}

/* The result of a call, as far as a caller sees it. */
struct outcome {
    enum facet_status status;
    struct facet_error error;
    uint32_t count;
    _Alignas(16) unsigned char out[OUT_BYTES];
};

/* A way to fill in the arguments of any operation. */
struct filling {
    const char *description;
    uint64_t number;
    const char *text;
    uint32_t capacity, size;
    bool null_outputs, null_count, null_inputs;
};

static const struct filling fillings[] = {
    {.description = "room", .number = 1, .text = "alpha", .capacity = 8, .size = UINT32_MAX},
    {.description = "exact room", .number = 0, .text = "alpha", .capacity = 3, .size = UINT32_MAX},
    {.description = "no room", .number = 1, .text = "beta", .capacity = 0, .size = UINT32_MAX, .null_outputs = true},
    {.description = "too little room", .number = 1, .text = "beta", .capacity = 1, .size = UINT32_MAX},
    {.description = "short structs", .number = 1, .text = "alpha", .capacity = 4, .size = 12},
    {.description = "long structs", .number = 1, .text = "alpha", .capacity = 4, .size = 2000},
    {.description = "structs without a size", .number = 1, .text = "alpha", .capacity = 4, .size = 3},
    {.description = "unknown device", .number = 99, .text = "alpha", .capacity = 8, .size = UINT32_MAX},
    {.description = "unknown text", .number = 1, .text = "unknown", .capacity = 8, .size = UINT32_MAX},
    {.description = "no text", .number = 1, .text = NULL, .capacity = 8, .size = UINT32_MAX},
    {.description = "no data", .number = 1, .text = "alpha", .capacity = 8, .size = UINT32_MAX, .null_inputs = true},
    {.description = "no output", .number = 1, .text = "alpha", .capacity = 8, .size = UINT32_MAX, .null_outputs = true},
    {.description = "no count", .number = 1, .text = "alpha", .capacity = 8, .size = UINT32_MAX, .null_count = true},
};

static const int32_t pids[] = {4711, 4712, 0};
static const char data[] = "some bytes";
static const struct facet_launch launch = {
    .size = sizeof launch, .argument_bytes = sizeof data, .grid = {0, 2, 3}, .kernel = "axpy"};

/*
 * Gives a structure of the size that the caller states. The bytes behind it are not 0, while 0 is sent for them.
 * Members that this library does not know are 0, since other values are refused.
 */
static const void *struct_of(uint32_t size)
{
    static union {
        struct facet_math math;
        unsigned char bytes[4096];
    } place;

    memset(&place, POISON, sizeof place);
    if (size > sizeof place.math)
        memset(place.bytes + sizeof place.math, 0, size - sizeof place.math);
    place.math.flags = 99;
    place.math.size = size;
    return &place;
}

static void fill_input(const struct filling *filling, const struct facet_parameter *parameter,
                       struct facet_argument *argument)
{
    uint8_t kind = parameter->kind;

    argument->number = filling->number;
    argument->fd = -1;
    switch (kind) {
    case FACET_KIND_TEXT:
    case FACET_KIND_TEXT_OR_NULL:
        argument->input = filling->text;
        break;
    case FACET_KIND_PIDS:
        argument->input = filling->null_inputs ? NULL : pids;
        argument->number = filling->capacity > 3 ? 3 : filling->capacity;
        break;
    case FACET_KIND_DATA:
        argument->input = filling->null_inputs ? NULL : data;
        argument->number = sizeof data;
        break;
    case FACET_KIND_LAUNCH:
        argument->input = filling->null_inputs ? NULL : &launch;
        argument->input_bytes = data;
        argument->number = sizeof data;
        break;
    case FACET_KIND_STRUCT:
        argument->size = filling->size == UINT32_MAX ? parameter->type->size : filling->size;
        argument->input = filling->null_inputs ? NULL : struct_of(argument->size);
        break;
    case FACET_KIND_TIMEOUT:
        argument->number = filling->capacity == 1 ? 1000000 : 0;
        break;
    default:
        break;
    }
}

static void fill_output(const struct filling *filling, const struct facet_parameter *parameter,
                        struct facet_argument *argument, struct outcome *outcome)
{
    argument->output = filling->null_outputs ? NULL : outcome->out;
    argument->ret_count = filling->null_count ? NULL : &outcome->count;
    argument->number = filling->capacity;
    argument->size = filling->size;
    if (parameter->type && filling->size == UINT32_MAX)
        argument->size = parameter->type->size;
    if (parameter->kind == FACET_KIND_RET_TEXT)
        argument->number = filling->capacity * 12;
    if (parameter->kind == FACET_KIND_RET_STRUCT && argument->output)
        memcpy(argument->output, &argument->size, sizeof argument->size);
    if (parameter->kind == FACET_KIND_RET_STRUCT && !argument->output)
        argument->size = 0;
}

/* Calls `operation` in one session. */
static void call_operation(struct facet_session *session, enum facet_operation_id operation,
                           const struct filling *filling, struct outcome *ret_outcome)
{
    struct facet_call made = {.operation = operation};

    memset(ret_outcome, POISON, sizeof *ret_outcome);
    ret_outcome->error = (struct facet_error){0};
    for (size_t i = 0; i < FACET_ARGUMENTS_MAX; i++) {
        const struct facet_parameter *parameter = &facet_operations[operation].parameters[i];

        if (parameter->kind >= FACET_KIND_RET_U32)
            fill_output(filling, parameter, &made.arguments[i], ret_outcome);
        else
            fill_input(filling, parameter, &made.arguments[i]);
    }
    ret_outcome->status =
        facet_call_make(&made, facet_session_provider(session), facet_session_instance(session), &ret_outcome->error);
}

static void assert_same(enum facet_operation_id operation, const struct filling *filling, const struct outcome *a,
                        const struct outcome *b)
{
    const char *name = facet_operations[operation].name;

    if (a->status != b->status)
        fail_msg("%s, %s: %s in process (%s), %s in a child (%s)", name, filling->description,
                 facet_status_name(a->status), a->error.message, facet_status_name(b->status), b->error.message);
    if (a->count != b->count)
        fail_msg("%s, %s: the count is %" PRIu32 " in process, %" PRIu32 " in a child", name, filling->description,
                 a->count, b->count);
    if (memcmp(a->out, b->out, sizeof a->out) != 0)
        fail_msg("%s, %s: the outputs differ", name, filling->description);
    /* For a child, a NULL is refused before it reaches the provider, with another message than the provider's. */
    if (a->status != FACET_INVALID_ARGUMENT)
        assert_string_equal(a->error.message, b->error.message);
}

static void every_operation_answers_the_same_in_both_places(void **state)
{
    static struct outcome a, b;
    unsigned succeeded = 0, refused = 0;

    for (enum facet_operation_id operation = 0; operation < FACET_OPERATION_COUNT; operation++) {
        unsigned before = succeeded;

        for (size_t i = 0; i < sizeof fillings / sizeof fillings[0]; i++) {
            call_operation(in_process, operation, &fillings[i], &a);
            call_operation(in_child, operation, &fillings[i], &b);
            assert_same(operation, &fillings[i], &a, &b);
            succeeded += a.status == FACET_OK;
            refused += a.status != FACET_OK;
        }
        if (succeeded == before && operation != FACET_OPERATION_execution_launch)
            fail_msg("%s fails with all arguments, expected a success", facet_operations[operation].name);
    }
    assert_int_equal(succeeded + refused, FACET_OPERATION_COUNT * (sizeof fillings / sizeof fillings[0]));
    assert_true(refused > FACET_OPERATION_COUNT);
}

/* Calls through the same tables as above, but with types that the compiler checks. */
static void a_provider_is_called_with_checked_types(void **state)
{
    const struct facet_provider *provider = facet_session_provider(in_child);
    struct facet_provider_instance *instance = facet_session_instance(in_child);
    struct facet_partition_info info = {.size = sizeof info};
    struct facet_error error;
    char text[64];
    uint32_t size = 0, health = 0;

    assert_int_equal(provider->partition->create(instance, 1, "1g.10gb", 4, &info, &error), FACET_OK);
    assert_string_equal(info.template_id, "1g.10gb");
    assert_string_equal(info.uuid, "partition-4");
    assert_int_equal(info.size, sizeof info);
    assert_int_equal(provider->device->properties(instance, 0, text, sizeof text, &size, &error), FACET_OK);
    assert_string_equal(text, "chip=none\nfirmware_version=7\n");
    assert_int_equal(size, strlen(text) + 1);
    assert_int_equal(provider->device->health(instance, 1, &health, NULL), FACET_OK);
    assert_int_equal(health, FACET_HEALTH_FAILED);
}

/* The provider's message shows the launch that arrived. A struct of 1.1 is shorter, and is completed by zeros. */
static void a_launch_crosses_in_the_size_that_it_has(void **state)
{
    struct facet_session *sessions[] = {in_process, in_child};
    struct facet_launch made = {.size = sizeof made, .dimensions = 2, .kernel = "none", .offset = {77, 0, 0}};
    struct facet_error error;

    for (size_t i = 0; i < 2; i++) {
        const struct facet_provider *provider = facet_session_provider(sessions[i]);
        struct facet_provider_instance *instance = facet_session_instance(sessions[i]);

        made.size = sizeof made;
        assert_int_equal(provider->execution->launch(instance, 1, 1, &made, NULL, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.message, "'none' of 0 bytes that are 0: grid 0, 0; 2 dimensions from 77");
        made.size = offsetof(struct facet_launch, offset);
        assert_int_equal(provider->execution->launch(instance, 1, 1, &made, NULL, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.message, "'none' of 0 bytes that are 0: grid 0, 0; 2 dimensions from 0");
    }
}

static void calls_new_in_1_2_cross_unchanged(void **state)
{
    struct facet_session *sessions[] = {in_process, in_child};
    struct facet_launch_record records[3] = {{.size = sizeof records[0]}};
    unsigned char bytes[6] = {0};
    struct facet_error error;
    uint32_t count = 0;

    for (size_t i = 0; i < 2; i++) {
        const struct facet_execution_ops *execution = facet_session_provider(sessions[i])->execution;
        const struct facet_memory_ops *memory = facet_session_provider(sessions[i])->memory;
        struct facet_provider_instance *instance = facet_session_instance(sessions[i]);

        assert_int_equal(execution->write(instance, 1, 2, 100, "abcdef", 6, NULL), FACET_OK);
        assert_int_equal(execution->copy(instance, 1, 2, 102, 100, 3, NULL), FACET_OK);
        assert_int_equal(execution->fill(instance, 1, 2, 100, 'z', 1, NULL), FACET_OK);
        assert_int_equal(memory->read(instance, 1, 100, sizeof bytes, bytes, NULL), FACET_OK);
        assert_memory_equal(bytes, "zbabcf", sizeof bytes);
        assert_int_equal(execution->set_share(instance, 1, 300, 99, 2, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.message, "share 300 up to 99 of priority 2");
        assert_int_equal(execution->set_priority(instance, 1, 5, 99, &error), FACET_OUT_OF_RANGE);
        assert_string_equal(error.message, "priority 99 of stream 5");
        assert_int_equal(execution->records(instance, 1, 5, 40, records, sizeof records[0], 3, &count, NULL), FACET_OK);
        assert_int_equal(count, 3);
        assert_int_equal(records[2].sequence, 43);
        assert_int_equal(records[1].status, FACET_BAD_STATE);
        assert_string_equal(records[0].kernel, "first");
    }
}

static void calls_new_in_1_3_cross_unchanged(void **state)
{
    struct facet_session *sessions[] = {in_process, in_child};
    struct facet_error error;

    for (size_t i = 0; i < 2; i++) {
        const struct facet_memory_ops *memory = facet_session_provider(sessions[i])->memory;
        struct facet_provider_instance *instance = facet_session_instance(sessions[i]);

        assert_int_equal(memory->share_pages(instance, 1, 2, NULL), FACET_OK);
        assert_int_equal(memory->move(instance, 1, UINT64_MAX - 1, 3, 4, UINT64_C(1) << 40, &error), FACET_BUSY);
        assert_string_equal(error.message, "1099511627776 bytes at 18446744073709551614 to pages 3 at 4");
        assert_int_equal(memory->move(instance, 1, 4, 3, 4, 65536, NULL), FACET_OK);
    }
}

static void check_control_crosses_unchanged(const struct facet_execution_ops *execution,
                                            struct facet_provider_instance *instance)
{
    struct facet_stream_state state = {.size = sizeof state};
    struct facet_error error;

    assert_int_equal(execution->set_bounds(instance, 1, 99, 7, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.message, "99 units for 7 launches");
    assert_int_equal(execution->pause(instance, 1, 99, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.message, "paused 99");
    assert_int_equal(execution->wait(instance, 1, UINT64_MAX, 99, &error), FACET_NOT_FOUND);
    assert_string_equal(error.message, "stream 99 for 18446744073709551615");
    assert_int_equal(execution->cancel_launch(instance, 1, UINT64_MAX, 99, &error), FACET_NOT_FOUND);
    assert_string_equal(error.message, "launch 99 of 18446744073709551615");
    assert_int_equal(execution->set_policy(instance, 0, 99, 3, UINT64_C(1) << 40, &error), FACET_OUT_OF_RANGE);
    assert_string_equal(error.message, "device 0: policy 99, preempt 3, slice 1099511627776");
    assert_int_equal(execution->set_policy(instance, 5, 1, 0, 0, NULL), FACET_NOT_FOUND);
    assert_int_equal(execution->query(instance, 1, 5, &state, NULL), FACET_OK);
    assert_int_equal(state.size, sizeof state);
    assert_int_equal(state.launched, 5);
    assert_int_equal(state.begun, 4);
    state = (struct facet_stream_state){.size = offsetof(struct facet_stream_state, begun), .begun = 88};
    assert_int_equal(execution->query(instance, 1, 5, &state, NULL), FACET_OK);
    assert_int_equal(state.busy_ns, 12345);
    assert_int_equal(state.begun, 88);
}

static void check_support_crosses_unchanged(const struct facet_math_ops *math, struct facet_provider_instance *instance)
{
    struct facet_math_support support = {.size = sizeof support};

    assert_int_equal(math->support(instance, 1, &support, NULL), FACET_OK);
    for (uint32_t i = 0; i < FACET_MATH_KINDS; i++)
        assert_int_equal(support.types[i], i + 2);
    assert_int_equal(support.tensor_types, 7);
    assert_int_equal(support.mixed, 8);
    assert_string_equal(support.library, "full 2");
}

static void calls_new_in_1_4_cross_unchanged(void **state)
{
    struct facet_session *sessions[] = {in_process, in_child};

    for (size_t i = 0; i < 2; i++) {
        const struct facet_provider *provider = facet_session_provider(sessions[i]);

        check_control_crosses_unchanged(provider->execution, facet_session_instance(sessions[i]));
        check_support_crosses_unchanged(provider->math, facet_session_instance(sessions[i]));
    }
}

/* Passes a structure of `size` bytes, as an older or a newer caller does. */
static void run_of_size(struct facet_session *session, uint32_t size)
{
    struct {
        struct facet_math known;
        uint64_t more[8];
    } made = {.known = {.size = size, .operation = 4, .type = 3, .flags = 99}};
    uint64_t words[32] = {0}, sum = 0;
    struct facet_error error;
    char expected[sizeof error.message];

    for (uint64_t i = 0; i < 32; i++)
        made.known.of.words[i] = (i + 1) << 33;
    if (size <= sizeof made.known)
        memset(made.more, POISON, sizeof made.more);
    memcpy(words, made.known.of.words, (size < sizeof made.known ? size : sizeof made.known) - 16);
    for (size_t i = 0; i < 32; i++)
        sum = sum * 31 + words[i];
    snprintf(expected, sizeof expected,
             "operation 4 of type 3 in stream 7: %" PRIu64 " .. %" PRIu64 ", in all %" PRIu64, words[0], words[31],
             sum);
    assert_int_equal(
        facet_session_provider(session)->math->run(facet_session_instance(session), 1, 7, &made.known, &error),
        FACET_OUT_OF_RANGE);
    assert_string_equal(error.message, expected);
    if (size <= sizeof made.known || session == in_process) /* in process, the provider itself checks the struct */
        return;
    ((unsigned char *)&made)[size - 1] = 1; /* a member that would be lost in the transfer */
    assert_int_equal(
        facet_session_provider(session)->math->run(facet_session_instance(session), 1, 7, &made.known, &error),
        FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "this library knows 272"));
}

static void an_operation_crosses_in_the_size_that_it_has(void **state)
{
    static const uint32_t sizes[] = {16, 24, 40, 271, 272, 273, 336};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        run_of_size(in_process, sizes[i]);
        run_of_size(in_child, sizes[i]);
    }
}

static void both_places_describe_the_provider_alike(void **state)
{
    const struct facet_provider *a = facet_session_provider(in_process), *b = facet_session_provider(in_child);

    assert_string_equal(a->name, "full");
    assert_string_equal(b->name, "full");
    assert_string_equal(a->version, b->version);
    assert_string_equal(a->description, b->description);
    assert_int_equal(a->traits, b->traits);
    assert_int_equal(b->traits, FACET_PROVIDER_SIMULATED);
    assert_int_equal(a->abi_minor, b->abi_minor);
    assert_int_equal(b->abi_major, FACET_PROVIDER_ABI_MAJOR);
    assert_int_equal(b->size, sizeof *b);
}

static void bulk_data_crosses_whole(struct facet_session *session, uint64_t bytes)
{
    const struct facet_provider *provider = facet_session_provider(session);
    struct facet_provider_instance *instance = facet_session_instance(session);
    unsigned char *out = malloc(bytes), *in = malloc(bytes);
    uint64_t module = 0, sum = bytes;

    for (uint64_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(i * 7 + i / 251);
    for (uint64_t i = 0; i < bytes; i++)
        sum = sum * 31 + out[i];
    memset(in, POISON, bytes);
    assert_int_equal(provider->memory->write(instance, 1, 5, out, bytes, NULL), FACET_OK);
    assert_int_equal(provider->memory->read(instance, 1, 5, bytes, in, NULL), FACET_OK);
    assert_memory_equal(in, out, bytes);
    assert_int_equal(provider->execution->load(instance, 1, out, bytes, &module, NULL), FACET_OK);
    assert_int_equal(module, sum);

    /* A range that is one byte too long changes nothing on either side. */
    memset(in, POISON, bytes);
    memset(out, POISON, bytes);
    assert_int_equal(provider->memory->write(instance, 1, FULL_MEMORY_BYTES - bytes + 1, in, bytes, NULL),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(provider->memory->read(instance, 1, FULL_MEMORY_BYTES - bytes + 1, bytes, in, NULL),
                     FACET_OUT_OF_RANGE);
    assert_memory_equal(in, out, bytes);
    free(out);
    free(in);
}

static void data_of_any_size_crosses_whole(void **state)
{
    static const uint64_t sizes[] = {1,       7,      4096, FACET_CALL_INLINE_BYTES, FACET_CALL_INLINE_BYTES + 1,
                                     1 << 20, 3000001};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bulk_data_crosses_whole(in_process, sizes[i]);
        bulk_data_crosses_whole(in_child, sizes[i]);
    }
}

static void a_snapshot_crosses_with_its_file(void **state)
{
    struct facet_session *sessions[] = {in_process, in_child};
    struct facet_error error;

    for (size_t i = 0; i < 2; i++) {
        const struct facet_provider *provider = facet_session_provider(sessions[i]);
        struct facet_provider_instance *instance = facet_session_instance(sessions[i]);
        char name[] = "/tmp/facet-test-places-XXXXXX";
        int fd = mkstemp(name);

        unlink(name);
        assert_int_equal(provider->snapshot->snapshot(instance, 0, "worker-1", fd, &error), FACET_OK);
        assert_int_equal(lseek(fd, 0, SEEK_CUR), 10000); /* one offset, shared with the child */
        lseek(fd, 0, SEEK_SET);
        assert_int_equal(provider->snapshot->resume(instance, 0, "worker-1", fd, &error), FACET_OK);
        lseek(fd, 0, SEEK_SET);
        assert_int_equal(provider->snapshot->resume(instance, 0, NULL, fd, &error), FACET_CORRUPT);
        assert_string_equal(error.message, "a snapshot of 'worker-1'");
        close(fd);
    }
}

static void a_closed_file_is_refused_without_crossing(void **state)
{
    const struct facet_provider *provider = facet_session_provider(in_child);
    struct facet_error error;

    assert_int_equal(provider->snapshot->snapshot(facet_session_instance(in_child), 0, "w", 987, &error),
                     FACET_INVALID_ARGUMENT);
    assert_string_equal(error.argument, "fd");
    assert_true(facet_session_alive(in_child, NULL));
}

static void an_invalid_instance_is_refused(void **state)
{
    const struct facet_provider *provider = facet_session_provider(in_child);
    struct facet_provider_instance *instance = NULL;
    uint32_t health;

    assert_int_equal(provider->device->health(NULL, 0, &health, NULL), FACET_INVALID_ARGUMENT);
    assert_int_equal(provider->device->open(&instance, NULL), FACET_UNSUPPORTED);
    provider->device->close(NULL);
    provider->device->close(facet_session_instance(in_child));
    assert_true(facet_session_alive(in_child, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_answers_the_same_in_both_places),
        cmocka_unit_test(a_provider_is_called_with_checked_types),
        cmocka_unit_test(a_launch_crosses_in_the_size_that_it_has),
        cmocka_unit_test(calls_new_in_1_2_cross_unchanged),
        cmocka_unit_test(calls_new_in_1_3_cross_unchanged),
        cmocka_unit_test(calls_new_in_1_4_cross_unchanged),
        cmocka_unit_test(an_operation_crosses_in_the_size_that_it_has),
        cmocka_unit_test(both_places_describe_the_provider_alike),
        cmocka_unit_test(data_of_any_size_crosses_whole),
        cmocka_unit_test(a_snapshot_crosses_with_its_file),
        cmocka_unit_test(a_closed_file_is_refused_without_crossing),
        cmocka_unit_test(an_invalid_instance_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
