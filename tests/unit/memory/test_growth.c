/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proofs that a limit can be raised to all memory from any first value, and that a request that can never fit
 * is refused with the limit's name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "watched_backend.h"

#define MIB     (UINT64_C(1) << 20)
#define GIB     (UINT64_C(1) << 30)
#define TIB     (UINT64_C(1) << 40)
#define DEVICE  (256 * MIB)
#define SWAPPED (64 * MIB)

static struct watched watched;
static struct facet_error error;

static struct facet_memory *open_memory(uint64_t swap_bytes)
{
    return watched_open(&watched, DEVICE, (struct facet_memory_config){.swap_bytes = swap_bytes});
}

static enum facet_status allocate_bytes(struct facet_space *space, uint64_t bytes)
{
    uint64_t address = 0;

    return facet_space_allocate(space, bytes, NULL, &address, &error);
}

static void assert_refusal_names(enum facet_status status, enum facet_status expected, const char *argument,
                                 uint64_t number)
{
    char text[32];

    assert_int_equal(status, expected);
    assert_string_equal(error.argument, argument);
    snprintf(text, sizeof text, "%" PRIu64, number);
    if (!strstr(error.message, text))
        fail_msg("'%s' does not contain the number %s", error.message, text);
}

static void a_limit_is_raised_to_the_whole_device(void **state)
{
    const uint64_t swaps[] = {0, SWAPPED};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct facet_memory *memory = open_memory(swaps[i]);
        struct facet_space *space = watched_space(memory, 1, MIB);

        assert_int_equal(facet_space_set_limit(space, DEVICE + swaps[i], &error), FACET_OK);
        assert_refusal_names(facet_space_set_limit(space, DEVICE + swaps[i] + MIB, &error), FACET_OUT_OF_RANGE,
                             "limit_bytes", DEVICE + swaps[i]);
        assert_int_equal(allocate_bytes(space, DEVICE / 2), FACET_OK);
        for (uint64_t allocated = DEVICE / 2; allocated < DEVICE + swaps[i] - 16 * MIB; allocated += 16 * MIB)
            assert_int_equal(allocate_bytes(space, 16 * MIB), FACET_OK);
        assert_int_equal(allocate_bytes(space, 8 * MIB), FACET_OK); /* a page stays free for swapping */
        assert_int_equal(allocate_bytes(space, 16 * MIB), FACET_QUOTA);
        watched_end(&watched, memory);
    }
}

/* The refusal names the space's limit or the device's memory, and does not advise to free memory. */
static void refusals_of_requests_that_can_never_fit_name_the_limit(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct facet_space *space = watched_space(memory, 1, MIB);

    (void)state;
    assert_refusal_names(allocate_bytes(space, MIB + 1), FACET_QUOTA, "bytes", MIB);
    assert_non_null(strstr(error.message, "raise its limit"));
    assert_refusal_names(allocate_bytes(space, 20 * MIB), FACET_QUOTA, "bytes", MIB);
    assert_refusal_names(allocate_bytes(space, DEVICE), FACET_QUOTA, "bytes", MIB);
    assert_refusal_names(allocate_bytes(space, DEVICE + 1), FACET_OUT_OF_RANGE, "bytes", DEVICE);
    assert_refusal_names(allocate_bytes(space, UINT64_MAX), FACET_OUT_OF_RANGE, "bytes", DEVICE);
    assert_int_equal(allocate_bytes(space, MIB / 2), FACET_OK);
    assert_refusal_names(allocate_bytes(space, MIB), FACET_QUOTA, "", MIB / 2); /* an empty space could hold it */
    watched_end(&watched, memory);
}

/* Where addresses are limited, a space gets four times its first limit, and the error tells how to get more. */
static void a_space_takes_few_addresses_where_they_are_limited(void **state)
{
    struct facet_memory *memory = open_memory(0);
    struct rlimit before, limited;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = (struct rlimit){.rlim_cur = RLIM_INFINITY - 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    struct facet_space *space = watched_space(memory, 7, MIB);
    setrlimit(RLIMIT_AS, &before);
    assert_true(space->address_bytes < 16 * MIB);
    assert_refusal_names(facet_space_set_limit(space, 64 * MIB, &error), FACET_OUT_OF_RANGE, "limit_bytes", 7);
    assert_non_null(strstr(error.message, "anew"));
    assert_int_equal(facet_space_set_limit(space, 4 * MIB, &error), FACET_OK);
    assert_int_equal(allocate_bytes(space, 4 * MIB), FACET_OK);
    watched_end(&watched, memory);
}

/* Hundreds of spaces of a large device can be made, and leave addresses for the program. */
static void many_spaces_share_the_addresses(void **state)
{
    struct facet_memory *memory =
        watched_open(&watched, TIB / 2, (struct facet_memory_config){.page_bytes = 64 << 10, .chunk_bytes = 32 * MIB});
    uint64_t sum = 0, least = UINT64_MAX;

    (void)state;
    for (uint32_t id = 1; id <= 200; id++) {
        uint64_t span = watched_space(memory, id, GIB)->address_bytes;

        sum += span;
        least = span < least ? span : least;
    }
    assert_true(least >= 4 * GIB);
    assert_true(sum <= 17 * TIB);
    assert_int_equal(watched.reserved_bytes, sum);
    watched_end(&watched, memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_raised_to_the_whole_device),
        cmocka_unit_test(refusals_of_requests_that_can_never_fit_name_the_limit),
        cmocka_unit_test(a_space_takes_few_addresses_where_they_are_limited),
        cmocka_unit_test(many_spaces_share_the_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
