/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the tests of broken providers: each is refused with a reason, and the other providers are loaded. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../provider_process.h"
#include "base/clock.h"
#include "device/table.h"
#include "fixtures.h"

#define TEXT(macro)         TEXT_OF(macro)
#define TEXT_OF(expression) #expression

static const struct {
    const char *fixture;
    enum facet_status status;
    const char *reason;
} refusals[] = {
    {"no_symbol", FACET_ABI_MISMATCH, "exports no facet_provider_entry"},
    {"borrowed_symbol", FACET_ABI_MISMATCH, "exports no facet_provider_entry; a library that it links to does"},
    {"wrong_major", FACET_ABI_MISMATCH, "built for ABI 2." TEXT(FACET_PROVIDER_ABI_MINOR) ", expected 1.x"},
    {"short_struct", FACET_ABI_MISMATCH, "states a provider struct of 16 bytes, expected at least 48"},
    {"no_provider", FACET_CORRUPT, "its entry point reported success without a provider"},
    {"refuses", FACET_UNSUPPORTED, "refuses to enter: unsupported: the runtime is older than 12.4"},
    {"null_name", FACET_CORRUPT, "has no name, expected [a-z][a-z0-9_-]{0,31}"},
    {"bad_name", FACET_CORRUPT, "has the name 'Acme GPU', expected [a-z][a-z0-9_-]{0,31}"},
    {"no_list", FACET_UNSUPPORTED, "offers no operation to open or to list devices"},
    {"constructor_crashes", FACET_INTERNAL, "crashed with signal 11 (Segmentation fault) while loading"},
    {"entry_crashes", FACET_INTERNAL, "crashed with signal 11 (Segmentation fault) while in its entry point"},
    {"entry_exits", FACET_INTERNAL, "called exit(3) while in its entry point"},
    {"open_hangs", FACET_TIMEOUT, "gave no answer within 300 ms while opening"},
    {"open_fails", FACET_DEVICE_LOST, "cannot open: device lost: the driver is gone?"},
    {"list_garbage", FACET_CORRUPT, "device.list lists 4294967295 items, expected at most 65536"},
    {"list_truncates", FACET_CORRUPT, "device.list lists 3 items in room for 0 and calls that a success"},
    {"list_refuses_room", FACET_CORRUPT, "device.list asks for room for 3 items when it has room for 3"},
    {"list_grows", FACET_CORRUPT, "asked for more room 4 times in a row"},
    {"list_crashes", FACET_DEVICE_LOST, "crashed with signal 6 (Aborted) during device.list"},
    {"unterminated_name", FACET_CORRUPT, "device.list gives item 1 with a bad name"},
    {"control_characters", FACET_CORRUPT, "device.list gives item 0 with a bad name"},
    {"list_many", FACET_CORRUPT, "lists 1025 devices, expected at most 1024"},
    {"health_crashes", FACET_DEVICE_LOST, "crashed with signal 11 (Segmentation fault) during device.health"},
    {"bad_index", FACET_CORRUPT, "describes its device 1 with a bad index"},
    {"close_crashes", FACET_INTERNAL, "crashed with signal 7 (Bus error) while closing"},
};

/* The provider that hangs gets 300 ms; all others get the default deadline, which is enough on a busy machine. */
static struct facet_device_table *open_table(const char *path)
{
    bool hangs = strstr(path, "open_hangs");
    const struct facet_session_options options = {.size = sizeof options,
                                                  .open_deadline_ns = hangs ? 300 * FACET_NS_PER_MS : 0};
    struct facet_device_table *table = NULL;

    assert_int_equal(facet_device_table_open_with(path, &options, &table, NULL), FACET_OK);
    return table;
}

static void assert_no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, __WALL | WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_true(provider_processes_end(getpid()));
}

static void each_broken_provider_is_refused_with_its_reason(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct facet_device_table *table = open_table(fixture(refusals[i].fixture));
        const struct facet_provider_record *provider = facet_provider_at(table, 0);

        assert_string_equal(provider->reason.message, refusals[i].reason);
        assert_int_equal(provider->reason.status, refusals[i].status);
        assert_int_equal(provider->state, FACET_PROVIDER_REFUSED);
        assert_int_equal(provider->device_count, 0);
        assert_int_equal(facet_device_table_count(table), 0);
        facet_device_table_close(table);
        assert_no_child_is_left();
    }
}

static void assert_refused(const char *path, const char *part_of_reason)
{
    struct facet_device_table *table = open_table(path);
    const struct facet_provider_record *provider = facet_provider_at(table, 0);

    assert_int_equal(facet_provider_count(table), 1);
    assert_int_equal(provider->state, FACET_PROVIDER_REFUSED);
    assert_int_equal(provider->reason.status, FACET_IO);
    assert_ptr_equal(strstr(provider->reason.message, "cannot be loaded: "), provider->reason.message);
    assert_non_null(strstr(provider->reason.message, part_of_reason));
    facet_device_table_close(table);
}

static void a_file_that_is_no_library_is_refused(void **state)
{
    char text[512];

    snprintf(text, sizeof text, "%s/tests/fixtures/providers/good.c", getenv("FACET_TEST_SOURCE"));
    assert_refused(text, "ELF");
    assert_refused("/no/such/provider.so", "No such file");
    assert_refused("provider-without-a-folder.so", "./provider-without-a-folder.so");
}

/* A provider that could not report its name is listed under the name of its file. */
static void a_refused_provider_is_named_after_its_file(void **state)
{
    struct facet_device_table *table = open_table("/nowhere/facet-provider-acme.so");

    assert_string_equal(facet_provider_at(table, 0)->name, "acme");
    facet_device_table_close(table);
}

static void a_refused_provider_leaves_the_others_loaded(void **state)
{
    char paths[2048];

    snprintf(paths, sizeof paths, "%s:%s:%s", fixture("entry_crashes"), fixture("good"), fixture("no_symbol"));
    struct facet_device_table *table = open_table(paths);
    assert_int_equal(facet_provider_count(table), 3);
    assert_int_equal(facet_provider_at(table, 0)->state, FACET_PROVIDER_REFUSED);
    assert_int_equal(facet_provider_at(table, 1)->state, FACET_PROVIDER_LOADED);
    assert_int_equal(facet_provider_at(table, 2)->state, FACET_PROVIDER_REFUSED);
    assert_int_equal(facet_device_table_count(table), 2);
    facet_device_table_close(table);
}

static void the_later_of_two_providers_with_one_name_is_refused(void **state)
{
    char paths[2048];

    snprintf(paths, sizeof paths, "%s:%s", fixture("good"), fixture("duplicate"));
    struct facet_device_table *table = open_table(paths);
    const struct facet_provider_record *later = facet_provider_at(table, 1);

    assert_int_equal(facet_provider_at(table, 0)->state, FACET_PROVIDER_LOADED);
    assert_int_equal(later->state, FACET_PROVIDER_REFUSED);
    assert_int_equal(later->reason.status, FACET_ALREADY_EXISTS);
    assert_non_null(strstr(later->reason.message, "'fixture' is taken by "));
    assert_non_null(strstr(later->reason.message, fixture("good")));
    assert_int_equal(facet_device_table_count(table), 2);
    facet_device_table_close(table);
}

/* When a host program ignores SIGCHLD the kernel waits for its children; a crash is still reported. */
static void a_host_that_ignores_its_children_sees_a_crash_too(void **state)
{
    signal(SIGCHLD, SIG_IGN);
    struct facet_device_table *table = open_table(fixture("entry_crashes"));
    signal(SIGCHLD, SIG_DFL);

    assert_string_equal(facet_provider_at(table, 0)->reason.message,
                        "crashed with signal 11 (Segmentation fault) while in its entry point");
    facet_device_table_close(table);
}

static volatile sig_atomic_t handled;

static void handle_signal(int number)
{
    handled = 1;
}

/* The host's handlers act on the host's files: they must not run in the child. */
static void the_hosts_signal_handlers_do_not_hide_a_crash(void **state)
{
    void (*old)(int) = signal(SIGABRT, handle_signal);
    struct facet_device_table *table = open_table(fixture("list_crashes"));

    signal(SIGABRT, old);
    assert_non_null(strstr(facet_provider_at(table, 0)->reason.message, "crashed with signal 6"));
    assert_int_equal(handled, 0);
    facet_device_table_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broken_provider_is_refused_with_its_reason),
        cmocka_unit_test(a_file_that_is_no_library_is_refused),
        cmocka_unit_test(a_refused_provider_is_named_after_its_file),
        cmocka_unit_test(a_refused_provider_leaves_the_others_loaded),
        cmocka_unit_test(the_later_of_two_providers_with_one_name_is_refused),
        cmocka_unit_test(a_host_that_ignores_its_children_sees_a_crash_too),
        cmocka_unit_test(the_hosts_signal_handlers_do_not_hide_a_crash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
