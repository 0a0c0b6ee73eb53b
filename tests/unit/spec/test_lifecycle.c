/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about hooks: their order, undoing in reverse, denials, deferrals and conflicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include <facet/workload.h>

#include "failing.h"

/* The hooks' calls in their order, such as "c0 c1 u0! ": c is pre_create, s post_create, t pre_terminate and u
 * post_terminate; then the plugin's number; and ! where the workload was aborted. */
static char journal[512];

struct plugin {
    int number;
    uint32_t create_verdict, terminate_verdict;
    uint64_t retry_ns;
    enum facet_status create_status, created_status, terminate_status, terminated_status;
    const char *key, *value; /* an entry of the environment */
};

static void note_call(char what, const struct plugin *plugin, bool aborted)
{
    size_t used = strlen(journal);

    snprintf(journal + used, sizeof journal - used, "%c%d%s ", what, plugin->number, aborted ? "!" : "");
}

static enum facet_status pre_create(void *context, const struct facet_lifecycle_workload *workload,
                                    struct facet_workload *config, struct facet_lifecycle_answer *ret_answer,
                                    struct facet_error *error)
{
    struct plugin *plugin = context;

    note_call('c', plugin, false);
    ret_answer->verdict = plugin->create_verdict;
    ret_answer->retry_ns = plugin->retry_ns;
    snprintf(ret_answer->reason, sizeof ret_answer->reason, "because of\n%d", plugin->number);
    if (plugin->create_status != FACET_OK)
        return plugin->create_status;
    return plugin->key ? facet_workload_set(config, FACET_WORKLOAD_ENVIRONMENT, plugin->key, plugin->value, error)
                       : FACET_OK;
}

static enum facet_status post_create(void *context, const struct facet_lifecycle_workload *workload,
                                     struct facet_error *error)
{
    struct plugin *plugin = context;

    note_call('s', plugin, false);
    return plugin->created_status;
}

static enum facet_status pre_terminate(void *context, const struct facet_lifecycle_workload *workload,
                                       struct facet_lifecycle_answer *ret_answer, struct facet_error *error)
{
    struct plugin *plugin = context;

    note_call('t', plugin, false);
    ret_answer->verdict = plugin->terminate_verdict;
    ret_answer->retry_ns = plugin->retry_ns;
    return plugin->terminate_status;
}

static enum facet_status post_terminate(void *context, const struct facet_lifecycle_workload *workload,
                                        struct facet_error *error)
{
    struct plugin *plugin = context;

    note_call('u', plugin, workload->aborted);
    return plugin->terminated_status != FACET_OK
               ? facet_error_set(error, plugin->terminated_status, "plugin %d is stuck", plugin->number)
               : FACET_OK;
}

enum { COUNT = 3 };

struct fixture {
    struct plugin plugins[COUNT];
    struct facet_lifecycle_hook hooks[COUNT];
    const struct facet_lifecycle_hook *list[COUNT];
    struct facet_lifecycle_workload workload;
};

static void open_fixture(struct fixture *fixture)
{
    static const char *const names[] = {"cuda", "rocm", "npu"};

    *fixture = (struct fixture){.workload = {.size = sizeof fixture->workload, .id = "w"}};
    for (int i = 0; i < COUNT; i++) {
        fixture->plugins[i].number = i;
        fixture->hooks[i] = (struct facet_lifecycle_hook){.size = sizeof fixture->hooks[i],
                                                          .name = names[i],
                                                          .context = &fixture->plugins[i],
                                                          .pre_create = pre_create,
                                                          .post_create = post_create,
                                                          .pre_terminate = pre_terminate,
                                                          .post_terminate = post_terminate};
        fixture->list[i] = &fixture->hooks[i];
    }
    fixture->plugins[0].key = "A";
    fixture->plugins[0].value = "1";
    fixture->plugins[2].key = "B";
    fixture->plugins[2].value = "2";
    journal[0] = '\0';
}

static void test_all_hooks_are_called_in_order(void **state)
{
    struct fixture fixture;
    struct facet_workload *config = NULL;
    struct facet_lifecycle_answer answer;
    struct facet_error error = {0};
    char *text;

    open_fixture(&fixture);
    assert_int_equal(facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, &error),
                     FACET_OK);
    assert_int_equal(answer.verdict, FACET_VERDICT_GO);
    assert_int_equal(facet_workload_render(config, FACET_RENDER_ENVIRONMENT, NULL, &text, NULL, &error), FACET_OK);
    assert_non_null(strstr(text, "\"A=1\""));
    assert_non_null(strstr(text, "\"B=2\""));
    assert_int_equal(facet_lifecycle_created(fixture.list, COUNT, &fixture.workload, &error), FACET_OK);
    assert_int_equal(facet_lifecycle_terminate(fixture.list, COUNT, &fixture.workload, &answer, &error), FACET_OK);
    assert_int_equal(facet_lifecycle_terminated(fixture.list, COUNT, &fixture.workload, &error), FACET_OK);
    assert_string_equal(journal, "c0 c1 c2 s0 s1 s2 t2 t1 t0 u2 u1 u0 ");
    free(text);
    facet_workload_destroy(config);
}

/* If a hook denies, defers or fails, the hooks before it are undone in reverse order. That hook and later hooks are not
 * undone. */
static void test_earlier_hooks_are_undone_in_reverse(void **state)
{
    static const char *const expected[] = {"c0 ", "c0 c1 u0! ", "c0 c1 c2 u1! u0! "};

    for (int i = 0; i < COUNT; i++) {
        for (int outcome = 0; outcome < 3; outcome++) { /* denied, deferred, failed */
            struct fixture fixture;
            struct facet_workload *config = NULL;
            struct facet_lifecycle_answer answer = {0};
            struct facet_error error = {0};

            open_fixture(&fixture);
            fixture.plugins[i].create_verdict = outcome == 0   ? FACET_VERDICT_DENY
                                                : outcome == 1 ? FACET_VERDICT_DEFER
                                                               : 0;
            fixture.plugins[i].create_status = outcome == 2 ? FACET_BUSY : FACET_OK;
            fixture.plugins[i].retry_ns = 5;
            enum facet_status status =
                facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, &error);
            assert_null(config);
            assert_string_equal(journal, expected[i]);
            if (outcome == 2) {
                assert_int_equal(status, FACET_BUSY);
                assert_non_null(strstr(error.message, fixture.hooks[i].name));
                continue;
            }
            assert_int_equal(status, FACET_OK);
            assert_int_equal(answer.verdict, outcome == 0 ? FACET_VERDICT_DENY : FACET_VERDICT_DEFER);
            assert_string_equal(answer.hook, fixture.hooks[i].name);
            assert_int_equal(answer.retry_ns, 5);
            assert_non_null(strstr(answer.reason, "because of?"));
        }
    }
}

static void test_conflicting_plugins_are_refused(void **state)
{
    struct fixture fixture;
    struct facet_workload *config = NULL;
    struct facet_lifecycle_answer answer;
    struct facet_error error = {0};

    open_fixture(&fixture);
    fixture.plugins[2].key = "A";
    assert_int_equal(facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, &error),
                     FACET_ALREADY_EXISTS);
    assert_non_null(strstr(error.message, "/environment/A: 'cuda' and 'npu'"));
    assert_string_equal(journal, "c0 c1 c2 u2! u1! u0! ");
    assert_null(config);
}

static enum facet_status add_hook(void *context, const struct facet_lifecycle_workload *workload,
                                  struct facet_workload *config, struct facet_lifecycle_answer *ret_answer,
                                  struct facet_error *error)
{
    note_call('c', context, false);
    return facet_workload_add_hook(config, "/a.so", "/in.so", error);
}

static enum facet_status add_mount(void *context, const struct facet_lifecycle_workload *workload,
                                   struct facet_workload *config, struct facet_lifecycle_answer *ret_answer,
                                   struct facet_error *error)
{
    note_call('c', context, false);
    return facet_workload_add_mount(config,
                                    &(struct facet_workload_mount){.size = sizeof(struct facet_workload_mount),
                                                                   .type = "tmpfs",
                                                                   .target = "/in.so"},
                                    error);
}

/* Each setting has one value, but two of the settings together are impossible. They are refused before a caller relies
 * on them. */
static void test_impossible_combination_is_refused(void **state)
{
    struct fixture fixture;
    struct facet_workload *config = NULL;
    struct facet_lifecycle_answer answer = {0};
    struct facet_error error = {0};

    open_fixture(&fixture);
    fixture.hooks[0].pre_create = add_hook;
    fixture.hooks[1].pre_create = add_mount;
    assert_int_equal(facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, &error),
                     FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "hook 'rocm'"));
    assert_non_null(strstr(error.message, "/hooks/0/target"));
    assert_string_equal(journal, "c0 c1 c2 u2! u1! u0! ");
    assert_null(config);
}

static void test_failures_of_later_hooks_are_reported(void **state)
{
    struct fixture fixture;
    struct facet_lifecycle_answer answer = {0};
    struct facet_error error = {0};

    open_fixture(&fixture);
    fixture.plugins[1].created_status = FACET_IO;
    assert_int_equal(facet_lifecycle_created(fixture.list, COUNT, &fixture.workload, &error), FACET_IO);
    assert_string_equal(journal, "s0 s1 u2! u1! u0! ");
    open_fixture(&fixture);
    fixture.plugins[0].terminate_verdict = fixture.plugins[2].terminate_verdict = FACET_VERDICT_DEFER;
    fixture.plugins[0].retry_ns = 9;
    fixture.plugins[2].retry_ns = 3;
    assert_int_equal(facet_lifecycle_terminate(fixture.list, COUNT, &fixture.workload, &answer, &error), FACET_OK);
    assert_true(answer.verdict == FACET_VERDICT_DEFER && answer.retry_ns == 9);
    assert_string_equal(answer.hook, "cuda");
    fixture.plugins[1].terminate_verdict = FACET_VERDICT_DENY;
    assert_int_equal(facet_lifecycle_terminate(fixture.list, COUNT, &fixture.workload, &answer, &error),
                     FACET_BAD_STATE);
    assert_non_null(strstr(error.message, "rocm"));
    open_fixture(&fixture);
    fixture.plugins[2].terminated_status = FACET_IO;
    fixture.plugins[1].terminated_status = FACET_BUSY;
    assert_int_equal(facet_lifecycle_terminated(fixture.list, COUNT, &fixture.workload, &error), FACET_IO);
    assert_string_equal(journal, "u2 u1 u0 ");
    assert_non_null(strstr(error.message, "npu"));
}

/* A hook that fails without a message does not get that of an earlier failure. */
static void test_a_failure_without_a_message_gets_no_older_one(void **state)
{
    struct fixture fixture;
    struct facet_lifecycle_answer answer = {0};
    struct facet_error error = {0};

    open_fixture(&fixture);
    fixture.plugins[1].created_status = fixture.plugins[1].terminate_status = FACET_IO;
    facet_error_set(&error, FACET_IO, "an older one");
    assert_int_equal(facet_lifecycle_created(fixture.list, COUNT, &fixture.workload, &error), FACET_IO);
    assert_null(strstr(error.message, "older"));
    assert_non_null(strstr(error.message, "post_create of hook 'rocm'"));
    facet_error_set(&error, FACET_IO, "an older one");
    assert_int_equal(facet_lifecycle_terminate(fixture.list, COUNT, &fixture.workload, &answer, &error), FACET_IO);
    assert_null(strstr(error.message, "older"));
    assert_non_null(strstr(error.message, "pre_terminate of hook 'rocm'"));
}

static void test_wrong_hooks_are_refused(void **state)
{
    struct fixture fixture;
    struct facet_workload *config = NULL;
    struct facet_lifecycle_answer answer;

    open_fixture(&fixture);
    fixture.hooks[1].name = NULL;
    assert_int_equal(facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_lifecycle_create(NULL, COUNT, &fixture.workload, &config, &answer, NULL),
                     FACET_INVALID_ARGUMENT);
    assert_string_equal(journal, "");
    assert_int_equal(facet_lifecycle_create(NULL, 0, &fixture.workload, &config, &answer, NULL), FACET_OK);
    facet_workload_destroy(config);
}

static bool create_hooks(void *context)
{
    struct fixture fixture;
    struct facet_workload *config = NULL;
    struct facet_lifecycle_answer answer;
    struct facet_error error = {0};

    open_fixture(&fixture);
    enum facet_status status = facet_lifecycle_create(fixture.list, COUNT, &fixture.workload, &config, &answer, &error);
    if (status != FACET_OK) {
        assert_int_equal(status, FACET_NO_MEMORY);
        assert_null(config);
        /* Each hook that succeeded is undone. */
        size_t asked = 0, undone = 0;
        for (const char *c = journal; *c; c++) {
            asked += *c == 'c';
            undone += *c == 'u';
        }
        assert_true(undone == asked || undone + 1 == asked);
    }
    facet_workload_destroy(config);
    return status == FACET_OK;
}

static void test_each_failing_allocation_leaves_nothing(void **state)
{
    assert_true(failing_loop_of_reader(create_hooks, NULL) > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hooks_are_called_in_order),
        cmocka_unit_test(test_earlier_hooks_are_undone_in_reverse),
        cmocka_unit_test(test_conflicting_plugins_are_refused),
        cmocka_unit_test(test_impossible_combination_is_refused),
        cmocka_unit_test(test_failures_of_later_hooks_are_reported),
        cmocka_unit_test(test_a_failure_without_a_message_gets_no_older_one),
        cmocka_unit_test(test_wrong_hooks_are_refused),
        cmocka_unit_test(test_each_failing_allocation_leaves_nothing),
    };

    failing_begin();
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
