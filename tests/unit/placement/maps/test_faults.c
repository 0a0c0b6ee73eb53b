/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a call in which the Nth allocation fails, for every N, changes nothing and leaks nothing.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

/* --- allocations that fail when a test says so (--wrap) --- */

static uint64_t calls, fail_at;

static bool call_fails(void)
{
    return ++calls == fail_at;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return call_fails() ? NULL : __real_calloc(count, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return call_fails() ? NULL : __real_malloc(size);
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return call_fails() ? NULL : __real_realloc(old, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return call_fails() ? NULL : __real_strdup(text);
}

static void fail_nth(uint64_t nth)
{
    calls = 0;
    fail_at = nth;
}

/* --- the node: 20 places, so that a grant takes three chunks --- */

#define PLACES 20u

static enum facet_status open_node(struct facet_maps **ret_maps, struct facet_error *error)
{
    static const char *const exclusive[] = {"a", "b*"};
    static const char *const ids[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    const struct facet_map_config maps[] = {{.name = "a", .exclusive = exclusive, .exclusive_count = 2}, {.name = "b"}};
    struct facet_map_device devices[PLACES];

    for (uint32_t i = 0; i < PLACES; i++)
        devices[i] = (struct facet_map_device){.map = i / 10,
                                               .id = ids[i % 10],
                                               .slot = i < 10 ? "a" : "b",
                                               .numa_node = (int32_t)(i % 3),
                                               .capacity = 40 * ONE};
    return facet_maps_create(&(struct facet_maps_config){.size = sizeof(struct facet_maps_config),
                                                         .maps = maps,
                                                         .map_count = 2,
                                                         .devices = devices,
                                                         .device_count = PLACES},
                             ret_maps, error);
}

static int64_t granted_in_all(struct facet_maps *maps)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < PLACES; i++)
        sum += granted(maps, i);
    return sum;
}

static void test_failed_create_leaves_nothing(void **state)
{
    uint64_t nth = 1;

    for (bool done = false; !done; nth++) {
        struct facet_maps *maps = NULL;
        struct facet_error error = {0};

        fail_nth(nth);
        done = open_node(&maps, &error) == FACET_OK;
        fail_nth(0);
        assert_true(done == (maps != NULL));
        assert_true(done || error.status == FACET_NO_MEMORY);
        facet_maps_destroy(maps);
    }
    assert_true(nth > 40);
}

static void test_failed_allocate_grants_nothing(void **state)
{
    static const struct facet_maps_item items[] = {{"a", 10 * ONE}, {"b", 10 * ONE}};
    const struct facet_maps_request request = request_of(items, 2);
    uint32_t failed = 0;
    struct facet_maps *maps = NULL;

    assert_int_equal(open_node(&maps, NULL), FACET_OK);
    for (uint32_t held = 0; held < 40; held++) {
        for (uint64_t nth = 1;; nth++) {
            struct facet_error error = {0};
            uint64_t grant = 77;

            fail_nth(nth);
            enum facet_status status = facet_maps_allocate(maps, &request, &grant, NULL, &error);
            fail_nth(0);
            assert_int_equal(granted_in_all(maps), (held + (status == FACET_OK)) * 20 * ONE);
            if (status == FACET_OK)
                break;
            assert_int_equal(status, FACET_NO_MEMORY);
            assert_int_equal(grant, 77);
            failed++;
        }
    }
    assert_true(failed > 4 && failed < 40); /* most requests need no memory */
    facet_maps_destroy(maps);
}

static void test_failed_commit_grants_nothing(void **state)
{
    const struct facet_maps_part parts[] = {{.place = 3, .amount = ONE}, {.place = 12, .amount = 2 * ONE}};
    uint32_t failed = 0;

    for (uint64_t nth = 1;; nth++) {
        struct facet_maps *maps = NULL;
        uint64_t grant = 77;

        assert_int_equal(open_node(&maps, NULL), FACET_OK);
        fail_nth(nth);
        enum facet_status status = facet_maps_commit(maps, parts, 2, &grant, NULL);
        fail_nth(0);
        assert_int_equal(granted_in_all(maps), status == FACET_OK ? 3 * ONE : 0);
        facet_maps_destroy(maps);
        if (status == FACET_OK)
            break;
        assert_true(status == FACET_NO_MEMORY && grant == 77);
        failed++;
    }
    assert_true(failed > 0);
}

static void test_failed_copy_and_reset_change_nothing(void **state)
{
    static const struct facet_maps_item item = {"a", 5 * ONE};
    const struct facet_maps_request request = request_of(&item, 1);
    struct facet_maps *maps = NULL, *saved = NULL;
    uint64_t grant, nth;

    assert_int_equal(open_node(&maps, NULL), FACET_OK);
    assert_int_equal(facet_maps_allocate(maps, &request, &grant, NULL, NULL), FACET_OK);
    for (nth = 1;; nth++) {
        fail_nth(nth);
        enum facet_status status = facet_maps_copy(maps, &saved, NULL);
        fail_nth(0);
        if (status == FACET_OK)
            break;
        assert_true(status == FACET_NO_MEMORY && !saved);
    }
    assert_true(nth > 40);
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
    for (nth = 1;; nth++) {
        fail_nth(nth);
        enum facet_status status = facet_maps_reset(maps, saved, NULL);
        fail_nth(0);
        assert_int_equal(granted_in_all(maps), status == FACET_OK ? 5 * ONE : 0);
        if (status == FACET_OK)
            break;
        assert_int_equal(status, FACET_NO_MEMORY);
    }
    assert_int_equal(nth, 3); /* a reset allocates twice */
    assert_int_equal(facet_maps_release(maps, grant, NULL), FACET_OK);
    assert_int_equal(granted_in_all(maps), 0);
    facet_maps_destroy(maps);
    facet_maps_destroy(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failed_create_leaves_nothing),
                                       cmocka_unit_test(test_failed_allocate_grants_nothing),
                                       cmocka_unit_test(test_failed_commit_grants_nothing),
                                       cmocka_unit_test(test_failed_copy_and_reset_change_nothing)};

    return cmocka_run_group_tests_name("placement/maps_faults", tests, NULL, NULL);
}
