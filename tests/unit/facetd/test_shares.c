/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs of the shares of the last second: they never add up to more than the whole. Never: has a segment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shares.h"

#define MS UINT64_C(1000000)

static struct shares shares;

/* Two vGPUs together measure all of the time: the first three quarters, the second one quarter. */
static void measure_shares(uint64_t now_ns)
{
    shares.settle.clients[0].total.settled_ns = now_ns / 4 * 3;
    shares.settle.clients[1].total.settled_ns = now_ns / 4;
}

static uint32_t sum_milli(void)
{
    uint32_t first = 0, second = 0;

    assert_true(shares_of(&shares, 0, &first));
    assert_true(shares_of(&shares, 1, &second));
    return first + second;
}

static int set_up(void **state)
{
    shares_init(&shares, 0);
    shares.settle.clients_end = 2;
    shares.settle.clients[0].used = shares.settle.clients[1].used = true;
    return 0;
}

static void shares_add_up_to_the_whole(void **state)
{
    for (uint64_t now_ns = 0; now_ns <= 1000 * MS; now_ns += 100 * MS) {
        measure_shares(now_ns);
        shares_publish(&shares, now_ns);
        shares_sample(&shares, now_ns);
    }
    assert_int_equal(sum_milli(), 1000);
}

/* The scheduler reads the clock, a request publishes up to a later moment, and then the scheduler takes its sample. */
static void a_request_between_clock_and_sample_does_not_raise_the_sum(void **state)
{
    shares_sample(&shares, 0);
    measure_shares(1007 * MS);
    shares_publish(&shares, 1007 * MS);
    shares_sample(&shares, 1000 * MS);
    assert_in_range(sum_milli(), 998, 1000); /* each share is rounded down */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(shares_add_up_to_the_whole, set_up),
        cmocka_unit_test_setup(a_request_between_clock_and_sample_does_not_raise_the_sum, set_up),
    };

    return cmocka_run_group_tests_name("facetd/shares", tests, NULL, NULL);
}
