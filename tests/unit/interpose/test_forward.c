/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of the jumps: arguments arrive at the first call and at later ones, and the target is looked up once. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "interpose/kit/forward.h"

struct large {
    uint64_t words[5];
};

/* A function whose arguments use all integer and vector registers and the stack, and whose result is in memory. */
struct large test_sum(int a, uint64_t b, double c, float d, int e, int f, int g, int h, double i, double j, double k,
                      double l, double m, double n, double o, struct large p);
int test_absent(void);
int test_same(int value);

static _Atomic int lookups;

static struct large sum_all(int a, uint64_t b, double c, float d, int e, int f, int g, int h, double i, double j,
                            double k, double l, double m, double n, double o, struct large p)
{
    double sum = c + (double)d + i + j + k + l + m + n + o;

    return (struct large){{(uint64_t)a + b, (uint64_t)(e + f + g + h), (uint64_t)sum, p.words[0], p.words[4]}};
}

static int absent_function(void)
{
    return -7;
}

static int same_value(int value)
{
    return value;
}

void *facet_forward_target(const char *name)
{
    volatile double scratch = 1.5; /* may overwrite a register that holds an argument */

    atomic_fetch_add(&lookups, 1);
    errno = EIO;
    scratch = scratch * 2;
    if (strcmp(name, "test_sum") == 0)
        return (void *)sum_all;
    return strcmp(name, "test_same") == 0 ? (void *)same_value : (void *)absent_function;
}

static void test_arguments_and_results_are_passed_on(void **state)
{
    const struct large last = {{10, 0, 0, 0, 20}};

    for (int i = 0; i < 3; i++) {
        struct large got = test_sum(1, UINT64_C(1) << 40, 0.5, 1.5F, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 7, last);
        assert_int_equal(got.words[0], (UINT64_C(1) << 40) + 1);
        assert_int_equal(got.words[1], 14);
        assert_int_equal(got.words[2], 30);
        assert_int_equal(got.words[3], 10);
        assert_int_equal(got.words[4], 20);
    }
}

static void test_a_target_is_looked_up_once(void **state)
{
    int before = atomic_load(&lookups);

    for (int i = 0; i < 5; i++)
        assert_int_equal(test_absent(), -7);
    assert_int_equal(atomic_load(&lookups), before + 1);
}

static void *call_same(void *failures)
{
    for (int i = 0; i < 1000; i++)
        if (test_same(i) != i)
            atomic_fetch_add((_Atomic int *)failures, 1);
    return NULL;
}

static void test_threads_may_make_the_first_call_together(void **state)
{
    pthread_t threads[8];
    _Atomic int failures = 0;

    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_same, &failures), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
}

/* This test runs first, while no jump is bound. */
static void test_binding_keeps_errno(void **state)
{
    errno = ENOENT;
    assert_int_equal(test_same(4), 4);
    assert_int_equal(errno, ENOENT);
}

static void test_names_are_those_of_the_list(void **state)
{
    assert_int_equal(facet_forward_count, 3);
    assert_string_equal(facet_forward_names[1], "test_sum");
    assert_string_equal(facet_interposer.name, "Facet");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binding_keeps_errno),
        cmocka_unit_test(test_arguments_and_results_are_passed_on),
        cmocka_unit_test(test_a_target_is_looked_up_once),
        cmocka_unit_test(test_threads_may_make_the_first_call_together),
        cmocka_unit_test(test_names_are_those_of_the_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
