/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs about pages that contexts share on the cpu provider: permissions, charges, and any order of ends. */
#include <pthread.h>

#include "test_cpu_pages.h"

static int set_up(void **state)
{
    (void)state;
    world_begin(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    world_end(&world);
    return 0;
}

static void pages_are_private_until_they_are_shared(void **state)
{
    uint64_t other = world_context(&world, "other"), pages = create(world.context, 2);
    uint64_t here = reserve(world.context, 2), there = reserve(other, 2);
    (void)state;

    assert_int_equal(map(other, there, pages, 0, 2), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, world.context, 12345, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->share_pages(INSTANCE, 12345, pages, NULL), FACET_NOT_FOUND);
    OK(&world, MEMORY->share_pages(INSTANCE, world.context, pages, &world.error));
    OK(&world, MEMORY->share_pages(INSTANCE, world.context, pages, &world.error));
    OK(&world, map(other, there, pages, 0, 2));
    OK(&world, map(world.context, here, pages, 1, 1));
    put_word(other, there + PAGE, 77);
    assert_int_equal(word_at(world.context, here), 77);
    assert_int_equal(MEMORY->share_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, other, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(world_used(&world, other), 2 * PAGE);
    destroy(world.context, pages);
    assert_int_equal(map(other, there, pages, 0, 2), FACET_BUSY);
    assert_int_equal(MEMORY->share_pages(INSTANCE, world.context, pages, NULL), FACET_NOT_FOUND);
    OK(&world, unmap(other, there, 2));
    assert_int_equal(map(other, there, pages, 0, 2), FACET_NOT_FOUND);
    assert_int_equal(word_at(world.context, here), 77);
    assert_int_equal(world_used(&world, other), 2 * PAGE);
    OK(&world, unmap(world.context, here, 1));
    assert_int_equal(world_used(&world, other), 0);
}

/* The pages are charged to the worker that shared them, also after its context ended. A worker that maps them is not
 * charged. */
static void shared_pages_stay_charged_to_their_creator(void **state)
{
    uint64_t address = 0, pages, owner, at;
    (void)state;

    OK(&world, LIMIT->set_memory(INSTANCE, 0, "owner", 4 * PAGE, &world.error));
    OK(&world, LIMIT->set_memory(INSTANCE, 0, "small", PAGE, &world.error));
    owner = world_context(&world, "owner");
    uint64_t small = world_context(&world, "small");
    pages = create(owner, 3);
    OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
    assert_int_equal(MEMORY->alloc(INSTANCE, owner, 2 * PAGE, &address, NULL), FACET_QUOTA);
    at = reserve(small, 3);
    OK(&world, map(small, at, pages, 0, 3));
    assert_int_equal(world_used(&world, small), 0);
    world_alloc(&world, small, PAGE);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    put_word(small, at, 5);
    assert_int_equal(LIMIT->clear(INSTANCE, 0, "owner", NULL), FACET_BUSY);
    owner = world_context(&world, "owner");
    assert_int_equal(world_used(&world, owner), 3 * PAGE);
    assert_int_equal(MEMORY->destroy_pages(INSTANCE, owner, pages, NULL), FACET_NOT_FOUND);
    assert_int_equal(map(owner, reserve(owner, 3), pages, 0, 3), FACET_NOT_FOUND);
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(word_at(small, at), 5);
    OK(&world, MEMORY->destroy_context(INSTANCE, small, &world.error)); /* the last context that maps them */
    OK(&world, LIMIT->clear(INSTANCE, 0, "owner", &world.error));
    assert_int_equal(world_used(&world, world.context), 0);
}

static void a_worker_that_only_holds_pages_is_listed(void **state)
{
    struct facet_process_metrics processes[4] = {{.size = sizeof processes[0]}};
    uint64_t owner = world_context(&world, "owner"), pages = create(owner, 2), at = reserve(world.context, 2);
    uint32_t count = 0;
    (void)state;

    OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
    OK(&world, map(world.context, at, pages, 0, 2));
    OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
    assert_int_equal(LIMIT->set_memory(INSTANCE, 0, "owner", PAGE, NULL), FACET_BUSY);
    OK(&world, world.provider->metrics->processes(INSTANCE, 0, processes, sizeof processes[0], 4, &count, NULL));
    assert_int_equal(count, 2);
    assert_string_equal(processes[1].worker, "owner");
    assert_int_equal(processes[1].memory_used_bytes, 2 * PAGE);
    OK(&world, unmap(world.context, at, 2));
    OK(&world, world.provider->metrics->processes(INSTANCE, 0, processes, sizeof processes[0], 4, &count, NULL));
    assert_int_equal(count, 1);
}

/* A context that maps, moves and unmaps pages of another context, which ends meanwhile. */
struct tenant {
    uint64_t context, pages;
    uint64_t offset;
};

static void *use_shared(void *argument)
{
    const struct tenant *tenant = argument;
    uint64_t at = 0, word = tenant->context, got = 0;

    if (MEMORY->reserve(INSTANCE, tenant->context, PAGE, 0, &at, NULL) != FACET_OK)
        return argument;
    for (int i = 0; i < 100; i++) {
        enum facet_status status =
            MEMORY->map(INSTANCE, tenant->context, at, tenant->pages, tenant->offset, PAGE, NULL);

        if (status == FACET_NOT_FOUND)
            break; /* the owner's context has ended */
        if (status != FACET_OK || MEMORY->write(INSTANCE, tenant->context, at, &word, 8, NULL) != FACET_OK)
            return argument;
        status = MEMORY->move(INSTANCE, tenant->context, at, tenant->pages, tenant->offset + PAGE, PAGE, NULL);
        if ((status != FACET_OK && status != FACET_NOT_FOUND && status != FACET_UNSUPPORTED) ||
            MEMORY->read(INSTANCE, tenant->context, at, 8, &got, NULL) != FACET_OK || got != word ||
            MEMORY->unmap(INSTANCE, tenant->context, at, PAGE, NULL) != FACET_OK)
            return argument;
    }
    return NULL;
}

static void a_creator_ends_while_others_map_its_pages(void **state)
{
    const struct timespec pause = {.tv_nsec = 3000000};
    (void)state;

    for (int round = 0; round < 5; round++) {
        uint64_t owner = world_context(&world, "owner"), pages = create(owner, 6);
        struct tenant tenants[3];
        pthread_t threads[3];
        void *wrong;

        OK(&world, MEMORY->share_pages(INSTANCE, owner, pages, &world.error));
        for (uint64_t i = 0; i < 3; i++) {
            tenants[i] = (struct tenant){world_context(&world, "tenant"), pages, i * 2 * PAGE};
            assert_int_equal(pthread_create(&threads[i], NULL, use_shared, &tenants[i]), 0);
        }
        nanosleep(&pause, NULL);
        OK(&world, MEMORY->destroy_context(INSTANCE, owner, &world.error));
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], &wrong);
            assert_null(wrong);
            OK(&world, MEMORY->destroy_context(INSTANCE, tenants[i].context, &world.error));
        }
        assert_int_equal(world_used(&world, world.context), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pages_are_private_until_they_are_shared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shared_pages_stay_charged_to_their_creator, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_worker_that_only_holds_pages_is_listed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_creator_ends_while_others_map_its_pages, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
