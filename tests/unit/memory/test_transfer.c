/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that copies and fills change one allocation, and nothing beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "watched_backend.h"

#define MIB UINT64_C(1048576)

struct fixture {
    struct watched watched;
    struct facet_memory *memory;
    struct facet_space *space, *other;
    uint64_t block, run, foreign;
    struct facet_error error;
};

static int set_up(void **state)
{
    static struct fixture fixture;

    fixture.memory = watched_open(&fixture.watched, 16 * MIB, (struct facet_memory_config){0});
    fixture.space = watched_space(fixture.memory, 1, 8 * MIB);
    fixture.other = watched_space(fixture.memory, 2, 8 * MIB);
    assert_int_equal(facet_space_allocate(fixture.space, 1000, NULL, &fixture.block, NULL), FACET_OK);
    assert_int_equal(facet_space_allocate(fixture.space, 100000, NULL, &fixture.run, NULL), FACET_OK);
    assert_int_equal(facet_space_allocate(fixture.other, 100000, NULL, &fixture.foreign, NULL), FACET_OK);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    watched_end(&fixture->watched, fixture->memory);
    return 0;
}

static uint64_t address_of(const void *pointer)
{
    return (uintptr_t)pointer;
}

static void test_each_direction_copies_the_bytes(void **state)
{
    struct fixture *fixture = *state;
    char from[1000], to[1000];

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 7);
    struct {
        uint64_t to, from;
        enum facet_copy kind;
    } const copies[] = {
        {fixture->block, address_of(from), FACET_COPY_TO_DEVICE},
        {fixture->run + 50, fixture->block, FACET_COPY_ON_DEVICE},
        {address_of(to), fixture->run + 50, FACET_COPY_TO_HOST},
    };
    for (uint32_t detect = 0; detect < 2; detect++) {
        memset(to, 0, sizeof to);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(facet_space_copy(fixture->space, copies[i].to, copies[i].from, sizeof from,
                                              detect ? FACET_COPY_DETECT : copies[i].kind, &fixture->error),
                             FACET_OK);
        assert_memory_equal(from, to, sizeof from);
        assert_int_equal(facet_space_fill(fixture->space, fixture->run, 0, 100000, &fixture->error), FACET_OK);
    }
    memset(to, 0, sizeof to);
    assert_int_equal(facet_space_copy(fixture->space, address_of(to), address_of(from), 10, FACET_COPY_HOST_TO_HOST,
                                      &fixture->error),
                     FACET_OK);
    assert_memory_equal(from, to, 10);
}

static void test_overlapping_copy_keeps_the_bytes(void **state)
{
    struct fixture *fixture = *state;
    unsigned char *bytes = (void *)(uintptr_t)fixture->run;

    for (uint32_t i = 0; i < 1000; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(
        facet_space_copy(fixture->space, fixture->run + 10, fixture->run, 1000, FACET_COPY_ON_DEVICE, &fixture->error),
        FACET_OK);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(bytes[i + 10], (unsigned char)i);
}

/* A copy of one byte too many is refused, and copies no byte. */
static void test_a_copy_beyond_the_end_copies_nothing(void **state)
{
    struct fixture *fixture = *state;
    char host[2000] = {1, 2, 3};

    assert_int_equal(facet_space_fill(fixture->space, fixture->block, 9, 1000, &fixture->error), FACET_OK);
    assert_int_equal(
        facet_space_copy(fixture->space, fixture->block, address_of(host), 1001, FACET_COPY_TO_DEVICE, &fixture->error),
        FACET_OUT_OF_RANGE);
    assert_string_equal(fixture->error.argument, "to");
    assert_int_equal(*(char *)(uintptr_t)fixture->block, 9);
    assert_int_equal(facet_space_copy(fixture->space, address_of(host), fixture->block + 999, 2, FACET_COPY_TO_HOST,
                                      &fixture->error),
                     FACET_OUT_OF_RANGE);
    assert_string_equal(fixture->error.argument, "from");
    assert_int_equal(facet_space_fill(fixture->space, fixture->run + 1, 0, UINT64_MAX, &fixture->error),
                     FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_fill(fixture->space, fixture->run + 99999, 0, 2, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(facet_space_fill(fixture->space, fixture->run + 99999, 0, 1, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_fill(fixture->space, fixture->run + 50, 0, 0, &fixture->error), FACET_OK);
}

/* An address of another space is refused as the device's side and as the host's side. */
static void test_other_spaces_are_out_of_reach(void **state)
{
    struct fixture *fixture = *state;
    char host[100];

    memset((void *)(uintptr_t)fixture->foreign, 3, 1000);
    for (int kind = 0; kind <= FACET_COPY_DETECT; kind++) {
        assert_int_not_equal(facet_space_copy(fixture->space, fixture->foreign, fixture->run, 100,
                                              (enum facet_copy)kind, &fixture->error),
                             FACET_OK);
        assert_int_not_equal(facet_space_copy(fixture->space, fixture->run, fixture->foreign, 100,
                                              (enum facet_copy)kind, &fixture->error),
                             FACET_OK);
        assert_int_not_equal(facet_space_copy(fixture->space, address_of(host), fixture->foreign, 100,
                                              (enum facet_copy)kind, &fixture->error),
                             FACET_OK);
    }
    assert_int_equal(facet_space_fill(fixture->space, fixture->foreign, 0, 1, &fixture->error), FACET_OUT_OF_RANGE);
    assert_int_equal(*(char *)(uintptr_t)fixture->foreign, 3);
}

static void test_wrong_arguments_are_refused(void **state)
{
    struct fixture *fixture = *state;
    char host[10];

    assert_int_equal(facet_space_copy(fixture->space, fixture->run, 0, 10, FACET_COPY_TO_DEVICE, &fixture->error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(
        facet_space_copy(fixture->space, fixture->run, address_of(host), 10, (enum facet_copy)9, &fixture->error),
        FACET_INVALID_ARGUMENT);
    assert_string_equal(fixture->error.argument, "kind");
    assert_int_equal(facet_space_copy(fixture->space, address_of(host), address_of(host), UINT64_MAX,
                                      FACET_COPY_HOST_TO_HOST, &fixture->error),
                     FACET_INVALID_ARGUMENT);
    assert_int_equal(facet_space_free(fixture->space, fixture->run, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_fill(fixture->space, fixture->run, 0, 1, &fixture->error), FACET_OUT_OF_RANGE);
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_each_direction_copies_the_bytes),      WITH_SETUP(test_overlapping_copy_keeps_the_bytes),
        WITH_SETUP(test_a_copy_beyond_the_end_copies_nothing), WITH_SETUP(test_other_spaces_are_out_of_reach),
        WITH_SETUP(test_wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("transfer", tests, NULL, NULL);
}
