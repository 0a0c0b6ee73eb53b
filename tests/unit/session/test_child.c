/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the isolation of a provider in a child. Where the provider crashes, exits or hangs, the session
 * reports this, refuses further calls at once, and can be opened again. An invalid answer of the provider is refused,
 * and the session goes on.
 */
#include "session_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "full.h"
#include "session/session.h"

/* Long enough for a child that gets its processor time late on a busy machine. */
#define DEADLINE_NS (4 * FACET_NS_PER_S)

/* The session, and the tables by which a test calls it. */
struct callee {
    struct facet_session *session;
    const struct facet_provider *provider;
    struct facet_provider_instance *instance;
};

static struct callee open_callee(uint64_t call_deadline_ns)
{
    const struct facet_session_options options = {.size = sizeof options, .call_deadline_ns = call_deadline_ns};
    struct callee callee = {.session = open_session_with("full", &options)};

    callee.provider = facet_session_provider(callee.session);
    callee.instance = facet_session_instance(callee.session);
    return callee;
}

static enum facet_status ask_health(const struct callee *callee, uint32_t device, struct facet_error *error)
{
    uint32_t health = 0;

    return callee->provider->device->health(callee->instance, device, &health, error);
}

/* Asserts that the session is lost for `reason`, and stays lost. */
static void assert_lost(struct callee *callee, const char *reason)
{
    struct facet_error error = {0};
    uint64_t context;

    assert_false(facet_session_alive(callee->session, &error));
    assert_string_equal(error.message, reason);
    assert_int_equal(error.status, FACET_DEVICE_LOST);
    assert_int_equal(ask_health(callee, 0, &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, reason);
    assert_int_equal(callee->provider->memory->create_context(callee->instance, 0, NULL, "w", &context, &error),
                     FACET_DEVICE_LOST);
    assert_string_equal(error.message, reason);
}

static void assert_opens_again(struct callee *callee)
{
    struct facet_error error = {0};

    if (facet_session_restart(callee->session, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_true(facet_session_alive(callee->session, NULL));
    assert_int_equal(ask_health(callee, 0, &error), FACET_OK);
}

static enum facet_status create_partition(struct callee *callee, struct facet_error *error)
{
    struct facet_partition_info info = {.size = sizeof info};

    return callee->provider->partition->create(callee->instance, FULL_CRASH, "1g", 0, &info, error);
}

static enum facet_status get_properties(struct callee *callee, struct facet_error *error)
{
    char text[10];
    uint32_t size;

    return callee->provider->device->properties(callee->instance, FULL_ABORT, text, sizeof text, &size, error);
}

static enum facet_status get_info(struct callee *callee, struct facet_error *error)
{
    struct facet_memory_info info = {.size = sizeof info};

    return callee->provider->memory->info(callee->instance, FULL_EXIT, &info, error);
}

static enum facet_status write_bulk(struct callee *callee, struct facet_error *error)
{
    static const char zeros[1 << 20];

    return callee->provider->memory->write(callee->instance, FULL_CRASH, 0, zeros, sizeof zeros, error);
}

static enum facet_status list_events(struct callee *callee, struct facet_error *error)
{
    uint32_t count;

    return callee->provider->device->events(callee->instance, FULL_CRASH, NULL, sizeof(struct facet_event), 0, &count,
                                            error);
}

static enum facet_status save_snapshot(struct callee *callee, struct facet_error *error)
{
    return callee->provider->snapshot->snapshot(callee->instance, FULL_CRASH, NULL, STDERR_FILENO, error);
}

static void a_crash_in_any_operation_is_reported_and_survived(void **state)
{
    static const struct {
        enum facet_status (*call)(struct callee *callee, struct facet_error *error);
        const char *reason;
    } crashes[] = {
        {create_partition, "crashed with signal 11 (Segmentation fault) during partition.create"},
        {get_properties, "crashed with signal 6 (Aborted) during device.properties"},
        {get_info, "called exit(3) during memory.info"},
        {write_bulk, "crashed with signal 11 (Segmentation fault) during memory.write"},
        {list_events, "crashed with signal 11 (Segmentation fault) during device.events"},
        {save_snapshot, "crashed with signal 11 (Segmentation fault) during snapshot.snapshot"},
    };
    struct callee callee = open_callee(0);

    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct facet_error error;

        assert_int_equal(crashes[i].call(&callee, &error), FACET_DEVICE_LOST);
        assert_string_equal(error.message, crashes[i].reason);
        assert_lost(&callee, crashes[i].reason);
        assert_no_child_is_left();
        assert_opens_again(&callee);
    }
    facet_session_close(callee.session);
    assert_no_child_is_left();
}

static void a_hang_ends_with_the_deadline(void **state)
{
    struct callee callee = open_callee(DEADLINE_NS);
    struct facet_error error;

    assert_int_equal(ask_health(&callee, FULL_HANG, &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, "gave no answer to device.health within 4 s");
    assert_lost(&callee, "gave no answer to device.health within 4 s");
    assert_no_child_is_left();
    assert_opens_again(&callee);
    facet_session_close(callee.session);
}

/* A call with a timeout may take that time in addition to the usual deadline. */
static void a_calls_own_timeout_adds_to_the_deadline(void **state)
{
    struct callee callee = open_callee(DEADLINE_NS);
    struct facet_error error;

    assert_int_equal(callee.provider->execution->synchronize(callee.instance, 1, 2, DEADLINE_NS + 1, &error),
                     FACET_TIMEOUT);
    assert_string_equal(error.message, "still at work after 4000000001 ns");
    assert_true(facet_session_alive(callee.session, NULL));
    facet_session_close(callee.session);
}

static enum facet_status list_partitions(const struct callee *callee, uint32_t device, uint32_t capacity,
                                         uint32_t *ret_count, struct facet_partition_info *infos,
                                         struct facet_error *error)
{
    return callee->provider->partition->list(callee->instance, device, infos, sizeof infos[0], capacity, ret_count,
                                             error);
}

/* An answer against the rules is refused with its fault, and changes no output. The session goes on. */
static void answers_against_the_rules_are_refused(void **state)
{
    static const struct {
        uint32_t device, capacity;
        const char *reason;
    } lists[] = {
        {FULL_MANY, 0, "partition.list lists 4294967295 items, expected at most 65536"},
        {FULL_OVERFULL, 4, "partition.list lists 5 items in room for 4 and calls that a success"},
        {FULL_NEVER_ENOUGH, 4, "partition.list asks for room for 4 items when it has room for 4"},
        {FULL_BAD_SIZE, 4, "partition.list gives item 1 with a bad size"},
        {FULL_ENDLESS_TEXT, 4, "partition.list gives item 1 with a bad uuid"},
        {FULL_CONTROL_TEXT, 4, "partition.list gives item 1 with a bad template_id"},
        {FULL_SHORT_SIZE, 4, "partition.list gives item 1 with a bad size"},
        {FULL_CUT_TEXT, 4, "partition.list gives item 1 with a bad size"},
    };
    struct facet_partition_info infos[4], untouched[4];
    struct callee callee = open_callee(0);
    struct facet_error error;

    memset(untouched, 0x5a, sizeof untouched);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        uint32_t count = 4711;

        memset(infos, 0x5a, sizeof infos);
        assert_int_equal(list_partitions(&callee, lists[i].device, lists[i].capacity, &count, infos, &error),
                         FACET_CORRUPT);
        assert_string_equal(error.message, lists[i].reason);
        assert_int_equal(count, 4711);
        assert_memory_equal(infos, untouched, sizeof infos);
    }
    assert_true(facet_session_alive(callee.session, NULL));
    facet_session_close(callee.session);
}

static void assert_create_is_refused(const struct callee *callee, uint32_t device, enum facet_status status,
                                     const char *reason)
{
    struct facet_partition_info info = {.size = sizeof info, .start = 4711};
    struct facet_error error;

    assert_int_equal(callee->provider->partition->create(callee->instance, device, "1g", 0, &info, &error), status);
    assert_string_equal(error.message, reason);
    assert_int_equal(error.status, status);
    assert_int_equal(info.start, 4711);
}

static void other_invalid_answers_are_refused(void **state)
{
    struct callee callee = open_callee(0);
    const struct facet_device_ops *device = callee.provider->device;
    struct facet_error error;
    char bad_error[360], text[100] = "untouched";
    uint32_t size = 4711;

    memset(bad_error, 'e', sizeof bad_error);
    bad_error[0] = '?';
    bad_error[sizeof bad_error - 1] = '\0';
    assert_create_is_refused(&callee, FULL_BAD_SIZE, FACET_CORRUPT, "partition.create gives a struct with a bad size");
    assert_create_is_refused(&callee, FULL_ENDLESS_TEXT, FACET_CORRUPT,
                             "partition.create gives a struct with a bad uuid");
    assert_create_is_refused(&callee, FULL_SHORT_SIZE, FACET_CORRUPT,
                             "partition.create gives a struct with a bad size");
    assert_create_is_refused(&callee, FULL_CUT_TEXT, FACET_CORRUPT, "partition.create gives a struct with a bad size");
    assert_create_is_refused(&callee, FULL_BAD_STATUS, FACET_CORRUPT,
                             "partition.create answers with the unknown status 77");
    assert_create_is_refused(&callee, FULL_BAD_ERROR, FACET_BUSY, bad_error);

    assert_int_equal(device->properties(callee.instance, FULL_ENDLESS_TEXT, text, sizeof text, &size, &error),
                     FACET_CORRUPT);
    assert_int_equal(device->properties(callee.instance, FULL_CONTROL_TEXT, text, sizeof text, &size, &error),
                     FACET_CORRUPT);
    assert_int_equal(device->properties(callee.instance, FULL_MANY, text, sizeof text, &size, &error), FACET_CORRUPT);
    assert_string_equal(error.message, "device.properties lists 4294967295 bytes, expected at most 1048576");
    assert_string_equal(text, "untouched");
    assert_int_equal(size, 4711);
    assert_true(facet_session_alive(callee.session, NULL));
    facet_session_close(callee.session);
}

static void values_that_no_enumeration_has_are_refused(void **state)
{
    struct callee callee = open_callee(0);
    struct facet_container_item item = {.host = "untouched"};
    struct facet_error error;
    uint32_t health = 4711, count = 4711;

    assert_int_equal(callee.provider->device->health(callee.instance, FULL_BAD_KIND, &health, &error), FACET_CORRUPT);
    assert_string_equal(error.message, "device.health answers with the unknown health 99");
    assert_int_equal(health, 4711);
    assert_int_equal(
        callee.provider->container->items(callee.instance, FULL_BAD_KIND, NULL, &item, sizeof item, 1, &count, &error),
        FACET_CORRUPT);
    assert_string_equal(error.message, "container.items gives item 0 with a bad kind");
    assert_string_equal(item.host, "untouched");
    assert_int_equal(count, 4711);
    facet_session_close(callee.session);
}

/* Where a caller's struct ends within a text, the part that fits is terminated. */
static void a_text_cut_by_the_callers_struct_is_terminated(void **state)
{
    struct callee callee = open_callee(0);
    struct facet_partition_info info = {.size = offsetof(struct facet_partition_info, uuid) + 6};
    struct facet_error error;

    memset(info.uuid, 'x', sizeof info.uuid);
    if (callee.provider->partition->create(callee.instance, 0, "1g", 0, &info, &error) != FACET_OK)
        fail_msg("%s", error.message);
    assert_int_equal(info.size, offsetof(struct facet_partition_info, uuid) + 6);
    assert_memory_equal(info.uuid, "parti\0x", 7);
    facet_session_close(callee.session);
}

enum { THREADS = 24, CALLS = 60 };

/* Each thread uses a range of its own, and reads back its own bytes. */
static void *use_range(void *data)
{
    struct callee *callee = data;
    static _Atomic uint64_t next;
    uint64_t number = next++, at = number * 4096;
    unsigned char out[4096], in[4096];
    unsigned failures = 0;

    for (int i = 0; i < CALLS; i++) {
        uint64_t context = 0;

        memset(out, (int)(number * 7 + (uint64_t)i), sizeof out);
        memset(in, 0, sizeof in);
        failures += callee->provider->memory->write(callee->instance, 1, at, out, sizeof out, NULL) != FACET_OK;
        failures += callee->provider->memory->read(callee->instance, 1, at, sizeof in, in, NULL) != FACET_OK;
        failures += memcmp(in, out, sizeof in) != 0;
        failures +=
            callee->provider->memory->create_context(callee->instance, 0, NULL, "worker", &context, NULL) != FACET_OK;
        failures += context != 1006; /* the fixture gives 1000 and the length of the worker's name */
    }
    return (void *)(uintptr_t)failures;
}

/* There are more threads than channels, so that some wait. */
static void many_threads_call_at_once(void **state)
{
    struct callee callee = open_callee(60 * FACET_NS_PER_S);
    pthread_t threads[THREADS];
    void *failures;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_range, &callee), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failures);
        assert_null(failures);
    }
    facet_session_close(callee.session);
}

static void *hang_until_crash(void *data)
{
    struct callee *callee = data;
    struct facet_error error = {0};
    enum facet_status status = callee->provider->partition->destroy(callee->instance, FULL_HANG, "x", &error);

    assert_non_null(strstr(error.message, "crashed with signal 11 (Segmentation fault) during "));
    return (void *)(uintptr_t)(status == FACET_DEVICE_LOST);
}

/* Calls do not wait for each other. When a provider dies, all calls in progress fail at once with the reason. */
static void a_crash_ends_all_calls_in_progress(void **state)
{
    struct callee callee = open_callee(100 * FACET_NS_PER_S);
    pthread_t threads[8];
    void *lost;

    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hang_until_crash, &callee), 0);
    usleep(50000); /* so that the calls are in progress */
    assert_int_equal(ask_health(&callee, 0, NULL), FACET_OK);
    assert_int_equal(ask_health(&callee, FULL_CRASH, NULL), FACET_DEVICE_LOST);
    for (size_t i = 0; i < 8; i++) {
        pthread_join(threads[i], &lost);
        assert_non_null(lost);
    }
    assert_opens_again(&callee);
    facet_session_close(callee.session);
}

static void *hang_until_abandoned(void *data)
{
    struct callee *callee = data;
    struct facet_error error = {0};

    assert_int_equal(ask_health(callee, FULL_HANG, &error), FACET_DEVICE_LOST);
    assert_string_equal(error.message, "was abandoned by the test");
    return NULL;
}

/* Abandoning does not wait for a call in progress, whose deadline is a day away. */
static void a_session_with_an_endless_call_can_be_abandoned(void **state)
{
    struct callee callee = open_callee(100000 * FACET_NS_PER_S);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, hang_until_abandoned, &callee), 0);
    usleep(50000); /* so that the call is in progress */
    facet_session_abandon(callee.session, "was abandoned by the test");
    pthread_join(thread, NULL);
    assert_no_child_is_left();
    assert_lost(&callee, "was abandoned by the test");
    facet_session_abandon(callee.session, "was abandoned twice");
    assert_lost(&callee, "was abandoned by the test");
    assert_opens_again(&callee);
    facet_session_close(callee.session);
}

static void a_death_between_two_calls_is_noticed(void **state)
{
    struct callee callee = open_callee(0);
    struct facet_error error;
    pid_t child = provider_process(getpid());

    assert_true(child > 0);
    int ended = pidfd_open(child, 0);
    assert_true(ended >= 0);
    kill(child, SIGKILL);
    assert_int_equal(poll(&(struct pollfd){.fd = ended, .events = POLLIN}, 1, 60000), 1);
    close(ended); /* the child has ended, but its parent may not have noticed yet */
    assert_false(facet_session_alive(callee.session, &error));
    assert_string_equal(error.message, "crashed with signal 9 (Killed) between two calls");
    assert_opens_again(&callee);
    facet_session_close(callee.session);
}

static void a_closed_session_leaves_nothing(void **state)
{
    int files = count_entries("fd"), tasks = count_entries("task");

    for (int i = 0; i < 20; i++) {
        struct callee callee = open_callee(0);
        struct facet_error error;

        assert_int_equal(ask_health(&callee, 0, NULL), FACET_OK);
        if (i % 2)
            assert_int_equal(ask_health(&callee, FULL_CRASH, NULL), FACET_DEVICE_LOST);
        if (i % 4 == 3)
            assert_opens_again(&callee);
        assert_int_equal(facet_session_restart(callee.session, &error), FACET_OK);
        facet_session_close(callee.session);
        assert_no_child_is_left();
    }
    facet_session_close(NULL);
    assert_int_equal(count_entries("fd"), files);
    assert_int_equal(count_entries("task"), tasks);
}

/* When the process that opened the session is killed, its child ends too, even during a call. */
static void the_child_ends_with_its_parent(void **state)
{
    siginfo_t info = {0};

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the orphan becomes ours, and can be waited for */
    pid_t parent = fork();
    if (parent == 0) {
        struct callee callee = open_callee(0);
        kill(getpid(), ask_health(&callee, 0, NULL) == FACET_OK ? SIGKILL : SIGTERM);
    }
    assert_int_equal(waitid(P_PID, (id_t)parent, &info, WEXITED), 0);
    assert_int_equal(info.si_status, SIGKILL);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0); /* would block forever if the child or its parent stayed */
    assert_int_equal(info.si_status, EXIT_SUCCESS);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_no_child_is_left();
}

/* A program that the provider started neither hides the provider's crash nor outlives the provider. */
static void a_program_started_by_a_provider_ends_with_it(void **state)
{
    const struct facet_session_options options = {.size = sizeof options, .open_deadline_ns = 600 * FACET_NS_PER_S};
    struct facet_session *session = NULL;
    struct facet_error error;
    siginfo_t info = {0};

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the orphan becomes ours, and can be waited for */
    assert_int_equal(facet_session_open(fixture("helper"), &options, &session, &error), FACET_INTERNAL);
    assert_string_equal(error.message, "crashed with signal 6 (Aborted) while opening");
    assert_null(session);
    assert_int_equal(waitid(P_ALL, 0, &info, WEXITED), 0); /* would block if the program were left running */
    assert_int_equal(info.si_status, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_no_child_is_left();
}

static void a_provider_in_this_process_is_not_isolated(void **state)
{
    struct facet_session *session = open_session("full", FACET_SESSION_IN_PROCESS);
    struct facet_error error;

    assert_true(facet_session_alive(session, NULL));
    assert_int_equal(facet_session_restart(session, &error), FACET_BAD_STATE);
    facet_session_close(session);
}

static void a_provider_that_cannot_be_opened_gives_the_reason(void **state)
{
    const struct facet_session_options nowhere = {.size = sizeof nowhere, .place = 7};
    struct facet_session *session = NULL;
    struct facet_error error;
    char *folder = strdup(getenv("FACET_LIB_DIR"));

    assert_int_equal(facet_session_open("/no/such/file.so", NULL, &session, &error), FACET_IO);
    assert_non_null(strstr(error.message, "/no/such/file.so"));
    assert_int_equal(facet_session_open(fixture("full"), &nowhere, &session, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_session_open(NULL, NULL, &session, &error), FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_session_open(fixture("full"), NULL, NULL, &error), FACET_INVALID_ARGUMENT);
    setenv("FACET_LIB_DIR", "/tmp", 1);
    assert_int_equal(facet_session_open(fixture("full"), NULL, &session, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "facet-provider-host is not in /tmp"));
    setenv("FACET_LIB_DIR", folder, 1);
    free(folder);
    assert_null(session);
    assert_no_child_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_in_any_operation_is_reported_and_survived),
        cmocka_unit_test(a_hang_ends_with_the_deadline),
        cmocka_unit_test(a_calls_own_timeout_adds_to_the_deadline),
        cmocka_unit_test(answers_against_the_rules_are_refused),
        cmocka_unit_test(other_invalid_answers_are_refused),
        cmocka_unit_test(values_that_no_enumeration_has_are_refused),
        cmocka_unit_test(a_text_cut_by_the_callers_struct_is_terminated),
        cmocka_unit_test(many_threads_call_at_once),
        cmocka_unit_test(a_crash_ends_all_calls_in_progress),
        cmocka_unit_test(a_session_with_an_endless_call_can_be_abandoned),
        cmocka_unit_test(a_death_between_two_calls_is_noticed),
        cmocka_unit_test(a_closed_session_leaves_nothing),
        cmocka_unit_test(the_child_ends_with_its_parent),
        cmocka_unit_test(a_program_started_by_a_provider_ends_with_it),
        cmocka_unit_test(a_provider_in_this_process_is_not_isolated),
        cmocka_unit_test(a_provider_that_cannot_be_opened_gives_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
