/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a setter of a workload configuration that finds no memory changes nothing.
 * Never: checks what a setting means; test_workload.c does.
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

struct before {
    int step;
    char *text; /* the configuration before the step */
};

/* A setter that finds no memory leaves the configuration as it was. */
static bool set_without_memory(void *context)
{
    const struct before *before = context;
    struct facet_workload *workload = NULL;
    struct facet_error error = {0};
    uint64_t at = failing_at, calls;

    failing_at = 0;
    assert_int_equal(facet_workload_read(before->text, strlen(before->text), &workload, NULL), FACET_OK);
    failing_calls = 0;
    failing_at = at;
    bool done = set_one(workload, before->step, &error) == FACET_OK;
    calls = failing_calls;
    failing_at = 0;
    if (!done && error.status != FACET_NO_MEMORY)
        fail_msg("got %s (%s), expected no_memory", facet_status_name(error.status), error.message);
    char *text = text_of(workload);
    if (done == (strcmp(text, before->text) == 0))
        fail_msg("step %d %s: %s became %s", before->step, done ? "succeeded" : "failed", before->text, text);
    free(text);
    facet_workload_destroy(workload);
    failing_at = at;
    failing_calls = calls;
    return done;
}

static void test_setters_without_memory_change_nothing(void **state)
{
    struct facet_workload *workload = NULL;

    assert_int_equal(facet_workload_create(&workload, NULL), FACET_OK);
    for (int step = 0; step < STEPS; step++) {
        struct before before = {.step = step, .text = text_of(workload)};

        assert_true(failing_loop(set_without_memory, &before) > 5);
        assert_int_equal(set_one(workload, step, NULL), FACET_OK);
        free(before.text);
    }
    facet_workload_destroy(workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_setters_without_memory_change_nothing)};

    failing_begin();
    return cmocka_run_group_tests_name("workload_memory", tests, NULL, NULL);
}
