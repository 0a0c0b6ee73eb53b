/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that threads may allocate, release, read and change the same maps at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../../../effort.h"
#include "node.h"

#define THREADS 4u
#define ROUNDS  effort(20000, 500)

static struct facet_maps *maps;
static _Atomic uint32_t faults, grants_made;

/* Each thread checks its own grants, which no other thread may change. */
static void *grant_repeatedly(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument;
    const struct facet_maps_item item = {"x", (1 + number) * ONE};
    const struct facet_maps_request request = request_of(&item, 1);

    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct facet_maps_part parts[4];
        uint64_t grant = 0;
        uint32_t count = 0;
        int64_t sum = 0;

        if (facet_maps_allocate(maps, &request, &grant, NULL, NULL) != FACET_OK)
            continue;
        grants_made++;
        faults += facet_maps_get_grant(maps, grant, parts, 4, &count, NULL) != FACET_OK;
        for (uint32_t k = 0; k < count; k++)
            sum += parts[k].amount;
        faults += sum != item.amount;
        faults += facet_maps_release(maps, grant, NULL) != FACET_OK;
        faults += facet_maps_release(maps, grant, NULL) != FACET_BAD_STATE;
    }
    return NULL;
}

static void *read_repeatedly(void *argument)
{
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct facet_maps_place place = {.size = sizeof place};
        struct facet_maps *copy = NULL;

        faults += facet_maps_get_place(maps, i % 4, &place, NULL) != FACET_OK;
        faults += place.granted < 0 || place.granted + place.reserved > place.capacity;
        faults += facet_maps_set_health(maps, 0, "d3", i % 2, NULL) != FACET_OK;
        faults += facet_maps_set_strategy(maps, 0, i % 2, NULL) != FACET_OK;
        if (i % 100 == 0)
            faults += facet_maps_copy(maps, &copy, NULL) != FACET_OK;
        facet_maps_destroy(copy);
    }
    return NULL;
}

static void test_threads_never_exceed_the_capacity(void **state)
{
    pthread_t threads[THREADS + 1];

    maps = OPEN(FACET_MAP_DISCRETE, FACET_MAP_EVENLY, 0, 2 * ONE, 2 * ONE, 2 * ONE, 2 * ONE);
    for (uint32_t i = 0; i <= THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < THREADS ? grant_repeatedly : read_repeatedly, (void *)(uintptr_t)i),
            0);
    for (uint32_t i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(faults, 0);
    assert_true(grants_made > ROUNDS / 2);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(granted(maps, i), 0);
    facet_maps_destroy(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_never_exceed_the_capacity)};

    return cmocka_run_group_tests_name("placement/maps_threads", tests, NULL, NULL);
}
