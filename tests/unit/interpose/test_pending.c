/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the gate between threads that allocate and threads that read. Never: needs a vendor, or waits for a
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "../../effort.h"
#include "interpose/kit/pending.h"

#define MIB     (UINT64_C(1) << 20)
#define NO_WAIT UINT64_C(1)             /* ns */
#define LONG_NS UINT64_C(3600000000000) /* an hour: longer than any test */

/* A thread that has `bytes` pending until `may_leave` is set. */
struct caller {
    pthread_t thread;
    uint32_t device;
    uint64_t bytes;
    _Atomic bool starts, entered, may_leave;
};

static void *run_pending_call(void *argument)
{
    struct caller *caller = argument;

    atomic_store(&caller->starts, true);
    facet_pending_enter(caller->device, caller->bytes);
    atomic_store(&caller->entered, true);
    while (!atomic_load(&caller->may_leave))
        sched_yield();
    facet_pending_leave();
    return NULL;
}

static void start_caller(struct caller *caller, uint32_t device, uint64_t bytes)
{
    *caller = (struct caller){.device = device, .bytes = bytes};
    assert_int_equal(pthread_create(&caller->thread, NULL, run_pending_call, caller), 0);
}

static void wait_for(_Atomic bool *what)
{
    while (!atomic_load(what))
        sched_yield();
}

static void end_caller(struct caller *caller)
{
    atomic_store(&caller->may_leave, true);
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
}

static void test_nothing_is_pending_without_threads(void **state)
{
    struct facet_pending remaining;

    assert_true(facet_pending_quiesce(0, LONG_NS, &remaining));
    facet_pending_open();
    facet_pending_leave(); /* without having entered */
    facet_pending_enter(0, MIB);
    facet_pending_leave();
    assert_true(facet_pending_quiesce(0, LONG_NS, &remaining));
    assert_int_equal(remaining.count, 0);
    facet_pending_open();
}

static void test_pending_bytes_are_counted_and_waited_for_once(void **state)
{
    struct facet_pending remaining;
    struct caller caller;

    start_caller(&caller, 3, 5 * MIB);
    wait_for(&caller.entered);
    assert_true(facet_pending_quiesce(2, LONG_NS, &remaining)); /* the bytes are pending on device 3 */
    facet_pending_open();
    assert_false(facet_pending_quiesce(3, NO_WAIT, &remaining));
    facet_pending_open();
    assert_false(facet_pending_quiesce(3, LONG_NS, &remaining)); /* returns at once: no reader waits for this call */
    facet_pending_open();
    assert_int_equal(remaining.count, 1);
    assert_int_equal(remaining.parts[0].bytes, 5 * MIB);
    end_caller(&caller);
    assert_true(facet_pending_quiesce(3, LONG_NS, &remaining));
    facet_pending_open();
}

static void test_the_device_of_a_pending_call_may_become_known_later(void **state)
{
    struct facet_pending remaining;

    facet_pending_enter(FACET_PENDING_ANY_DEVICE, 0);
    assert_false(facet_pending_quiesce(1, NO_WAIT, &remaining));
    assert_int_equal(remaining.parts[0].bytes, 0);
    facet_pending_set(4, 7 * MIB);
    assert_true(facet_pending_quiesce(1, LONG_NS, &remaining));
    assert_false(facet_pending_quiesce(4, NO_WAIT, &remaining));
    assert_int_equal(remaining.parts[0].bytes, 7 * MIB);
    facet_pending_open();
    facet_pending_leave();
}

static void test_a_thread_that_arrives_while_the_gate_is_shut_waits(void **state)
{
    struct facet_pending remaining;
    struct caller caller;

    assert_true(facet_pending_quiesce(0, LONG_NS, &remaining));
    start_caller(&caller, 0, MIB);
    wait_for(&caller.starts);
    for (int i = 0; i < 1000; i++) {
        assert_true(facet_pending_quiesce(0, LONG_NS, &remaining));
        assert_false(atomic_load(&caller.entered));
        sched_yield();
    }
    facet_pending_open();
    wait_for(&caller.entered);
    end_caller(&caller);
}

/* Growth of the memory in use is explained by allocations that have completed, but not by pending ones. */
static void test_growth_is_explained_by_completed_allocations(void **state)
{
    struct facet_pending remaining;
    struct caller small, large;

    start_caller(&small, 0, 64 * MIB);
    start_caller(&large, 0, 512 * MIB);
    wait_for(&small.entered);
    wait_for(&large.entered);
    assert_false(facet_pending_quiesce(0, NO_WAIT, &remaining));
    facet_pending_open();
    assert_int_equal(remaining.count, 2);
    assert_int_equal(facet_pending_subtract(8 * MIB, &remaining), 8 * MIB);
    end_caller(&small);
    assert_int_equal(facet_pending_subtract(72 * MIB, &remaining), 8 * MIB);
    end_caller(&large);
    assert_int_equal(facet_pending_subtract(584 * MIB, &remaining), 8 * MIB);
    assert_int_equal(facet_pending_subtract(200 * MIB, &remaining), 0); /* less than the completed 576 MiB */
    remaining.count = 0;
    assert_int_equal(facet_pending_subtract(584 * MIB, &remaining), 584 * MIB);
}

static void test_a_thread_that_is_pending_again_has_completed_its_first_call(void **state)
{
    struct facet_pending remaining;

    facet_pending_enter(0, 64 * MIB);
    assert_false(facet_pending_quiesce(0, NO_WAIT, &remaining));
    facet_pending_open();
    facet_pending_leave();
    facet_pending_enter(0, 64 * MIB);
    assert_int_equal(facet_pending_subtract(72 * MIB, &remaining), 8 * MIB);
    facet_pending_leave();
}

/* ---- from many threads: two sums that agree whenever nothing is pending ---- */

#define THREADS 4u
#define ROUNDS  effort(20000, 1000)

static _Atomic uint64_t first_sum, second_sum;
static _Atomic uint32_t running_threads;

static void *add_to_both_sums(void *argument)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        facet_pending_enter(0, MIB);
        atomic_fetch_add(&first_sum, 1);
        if (i % 64 == 0)
            sched_yield();
        atomic_fetch_add(&second_sum, 1);
        facet_pending_leave();
    }
    atomic_fetch_sub(&running_threads, 1);
    return argument;
}

static void test_a_reader_sees_both_sums_agree(void **state)
{
    pthread_t threads[THREADS];
    struct facet_pending remaining;

    atomic_store(&running_threads, THREADS);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_to_both_sums, NULL), 0);
    while (atomic_load(&running_threads)) {
        assert_true(facet_pending_quiesce(0, LONG_NS, &remaining));
        uint64_t first = atomic_load(&first_sum);
        sched_yield();
        assert_int_equal(first, atomic_load(&second_sum));
        assert_int_equal(first, atomic_load(&first_sum));
        facet_pending_open();
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_pending_without_threads),
        cmocka_unit_test(test_pending_bytes_are_counted_and_waited_for_once),
        cmocka_unit_test(test_the_device_of_a_pending_call_may_become_known_later),
        cmocka_unit_test(test_a_thread_that_arrives_while_the_gate_is_shut_waits),
        cmocka_unit_test(test_growth_is_explained_by_completed_allocations),
        cmocka_unit_test(test_a_thread_that_is_pending_again_has_completed_its_first_call),
        cmocka_unit_test(test_a_reader_sees_both_sums_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
