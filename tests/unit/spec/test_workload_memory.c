/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a workload configuration that finds no memory is not created, and that a setter changes nothing
 * then. Never: checks what a setting means; test_workload.c does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <facet/workload.h>

#include "failing.h"

enum { STEPS = 5 };

/* One setter of each way to change a configuration: each call reads the schema, and so makes many allocations. */
static enum facet_status set_one(struct facet_workload *w, int step, struct facet_error *error)
{
    switch (step) {
    case 0:
        return facet_workload_add_device_node(w, "/dev/kfd", NULL, "rw", error);
    case 1:
        return facet_workload_set_device_numbers(w, "/dev/kfd", 'c', 240, 0, error);
    case 2:
        return facet_workload_set_ulimit(w, "memlock", -1, -1, error);
    case 3:
        return facet_workload_set_seccomp(w, "unconfined", NULL, error);
    default:
        return facet_workload_set_memory(w, 1, 2, error);
    }
}

/* The configuration as text, written while no allocation fails. */
static char *text_of(const struct facet_workload *workload)
{
    uint64_t at = failing_at, calls = failing_calls;
    char *text = NULL;

    failing_at = 0;
    assert_int_equal(facet_workload_write(workload, &text, NULL), FACET_OK);
    failing_at = at;
    failing_calls = calls;
    return text;
}

struct change {
    struct facet_workload *workload;
    int step;
    char *before; /* the configuration before the step */
};

/* Takes a step back. Some allocations are not needed, so a step may succeed though one failed. */
static void undo_step(struct change *change)
{
    uint64_t at = failing_at, calls = failing_calls;

    failing_at = 0;
    facet_workload_destroy(change->workload);
    assert_int_equal(facet_workload_read(change->before, strlen(change->before), &change->workload, NULL), FACET_OK);
    failing_at = at;
    failing_calls = calls;
}

/* A setter that finds no memory leaves the configuration as it was, so the next attempt can use the same one. */
static bool set_without_memory(void *context)
{
    struct change *change = context;
    struct facet_error error = {0};
    bool done = set_one(change->workload, change->step, &error) == FACET_OK;

    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    char *text = text_of(change->workload);
    if (done == (strcmp(text, change->before) == 0))
        fail_msg("step %d %s: %s became %s", change->step, done ? "succeeded" : "failed", change->before, text);
    free(text);
    if (done)
        undo_step(change);
    return done;
}

static void test_setters_without_memory_change_nothing(void **state)
{
    struct change change = {0};

    assert_int_equal(facet_workload_create(&change.workload, NULL), FACET_OK);
    for (; change.step < STEPS; change.step++) {
        change.before = text_of(change.workload);
        assert_true(failing_loop(set_without_memory, &change) > 5);
        assert_int_equal(set_one(change.workload, change.step, NULL), FACET_OK);
        free(change.before);
    }
    facet_workload_destroy(change.workload);
}

static bool create_workload(void *context)
{
    struct facet_workload *workload = NULL;
    enum facet_status status = facet_workload_create(&workload, NULL);

    assert_true(status == FACET_OK || (status == FACET_NO_MEMORY && !workload));
    facet_workload_destroy(workload);
    return status == FACET_OK;
}

static void test_creation_without_memory_is_refused(void **state)
{
    assert_true(failing_loop(create_workload, NULL) > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setters_without_memory_change_nothing),
        cmocka_unit_test(test_creation_without_memory_is_refused),
    };

    failing_begin();
    return cmocka_run_group_tests_name("workload_memory", tests, NULL, NULL);
}
