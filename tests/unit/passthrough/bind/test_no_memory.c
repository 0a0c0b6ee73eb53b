/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that a transaction for which the Nth allocation fails, for every N, leaves the old state or the new. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "machine.h"

static unsigned allocations, fail_at;

static bool call_fails(void)
{
    return fail_at && ++allocations == fail_at;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_reallocarray(void *pointer, size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_reallocarray(void *pointer, size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    return call_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_reallocarray(void *pointer, size_t count, size_t size)
{
    return call_fails() ? NULL : __real_reallocarray(pointer, count, size);
}

static bool is_settled(const struct model *model)
{
    return (machine_is(model, BOUND_TO_VFIO) && machine_journals(model) == 1) ||
           (machine_is(model, BOUND_TO_HOST) && machine_journals(model) == 0);
}

/* Lets allocation number `at` fail. Returns true if so many allocations were made. */
static bool run_trial(bool binds, unsigned at)
{
    struct model model;
    REPORT(report);

    machine_make(&model);
    struct facet_passthrough *manager = machine_open(&model);
    if (!binds)
        assert_int_equal(machine_bind(manager, GPU, NULL, NULL), FACET_OK);
    allocations = 0;
    fail_at = at;
    enum facet_status status =
        binds ? machine_bind(manager, GPU, &report, NULL) : machine_unbind(manager, GPU, &report, NULL);
    bool was_reached = allocations >= at;
    fail_at = 0;
    if (status == FACET_OK)
        assert_true(machine_is(&model, binds ? BOUND_TO_VFIO : BOUND_TO_HOST));
    else if (report.outcome != FACET_PASSTHROUGH_BROKEN)
        assert_true(machine_is(&model, binds ? BOUND_TO_HOST : BOUND_TO_VFIO));
    assert_int_equal(facet_passthrough_recover(manager, &report, NULL), FACET_OK);
    assert_true(is_settled(&model));
    facet_passthrough_close(manager);
    machine_drop(&model);
    return was_reached;
}

static void test_bind_whose_allocation_fails_ends_in_the_old_or_the_new_state(void **state)
{
    unsigned at = 1;

    while (run_trial(true, at))
        at++;
    assert_true(at > 50); /* fewer would mean that most allocations were not tried */
}

static void test_unbind_whose_allocation_fails_ends_in_the_old_or_the_new_state(void **state)
{
    unsigned at = 1;

    while (run_trial(false, at))
        at++;
    assert_true(at > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bind_whose_allocation_fails_ends_in_the_old_or_the_new_state),
        cmocka_unit_test(test_unbind_whose_allocation_fails_ends_in_the_old_or_the_new_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
