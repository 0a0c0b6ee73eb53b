/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the proof that a balancer leaves nothing behind when memory or threads run out: each allocation of its life
 * fails in turn, in any thread; link_args wraps the functions that fail. Never: fails more than one of these calls at a
 * time.
 */
#include "world.h"

#include <errno.h>

#include <facet/balance.h>

static atomic_long countdown;  /* the number of the call that fails, from 1 on; 0 or less: no call fails */
static atomic_bool has_failed; /* the call has failed */

/* The buffer that __wrap_calloc() tries to free while it is copied, of `bytes`, to the host. The copy makes the only
 * allocation of that size. */
static struct {
    struct facet_balancer *balancer;
    size_t bytes; /* 0: none */
    uint64_t buffer;
    enum facet_status status;
    struct facet_error error;
} freed_meanwhile;

static bool call_fails(void)
{
    long left = atomic_load(&countdown);

    while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1))
        ;
    if (left != 1)
        return false;
    atomic_store(&has_failed, true);
    errno = ENOMEM;
    return true;
}

void *__real_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);

void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (freed_meanwhile.bytes && count * size == freed_meanwhile.bytes) {
        freed_meanwhile.bytes = 0;
        freed_meanwhile.status =
            facet_balancer_free(freed_meanwhile.balancer, freed_meanwhile.buffer, &freed_meanwhile.error);
    }
    return call_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return call_fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size)
{
    return call_fails() ? NULL : __real_realloc(old, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument)
{
    return call_fails() ? EAGAIN : __real_pthread_create(thread, attributes, main, argument);
}

/* The status of the first failure; later calls may fail because of that one. */
static enum facet_status first_failure;

static bool is_done(enum facet_status status)
{
    if (status != FACET_OK && first_failure == FACET_OK)
        first_failure = status;
    return status == FACET_OK;
}

static bool submit_task(struct facet_balancer *balancer, uint64_t buffer)
{
    const uint64_t one = 1;
    const struct facet_range range = {.size = sizeof range, .dimensions = 1, .global = {8}, .group = {1}};
    const struct facet_balancer_argument arguments[] = {{.buffer = buffer}, {.value = &one, .bytes = sizeof one}};

    return is_done(facet_balancer_submit(balancer,
                                         &(struct facet_balancer_work){.size = sizeof(struct facet_balancer_work),
                                                                       .image = world.image,
                                                                       .kernel = "add",
                                                                       .range = &range,
                                                                       .arguments = arguments,
                                                                       .count = 2},
                                         NULL, ERROR));
}

/* True if every call succeeded and the numbers are right. */
static bool use_balancer(struct facet_balancer *balancer)
{
    uint64_t words[8] = {0}, buffers[20] = {0}, chain, expected = 0;
    bool good = true;

    for (int i = 0; i < 20; i++) /* more than the table has room for at first */
        good = is_done(facet_balancer_allocate(balancer, sizeof words, &buffers[i], ERROR)) && good;
    chain = buffers[0];
    good = good && is_done(facet_balancer_write(balancer, chain, 0, words, sizeof words, ERROR));
    for (int i = 0; i < 70 && good; i++) { /* more than the ring has room for at first */
        uint64_t buffer = i % 8 ? buffers[i % 20] : chain;

        good = submit_task(balancer, buffer);
        expected += buffer == chain;
    }
    good = is_done(facet_balancer_wait(balancer, FACET_BALANCER_ALL, WAIT_NS, ERROR)) && good;
    for (uint64_t task = 1; task <= 70 && good; task++)
        good = is_done(facet_balancer_wait(balancer, task, 0, ERROR));
    good = good && is_done(facet_balancer_read(balancer, chain, 0, words, sizeof words, ERROR));
    assert_true(!good || (words[0] == expected && words[7] == expected));
    return good;
}

static enum facet_status open_balancer(struct facet_balancer **ret_balancer)
{
    static const uint32_t ids[] = {1, 2};
    const struct facet_balancer_config config = {
        .size = sizeof config, .count = 2, .ids = ids, .strategy = FACET_BALANCER_ROUND_ROBIN, .interval_ns = MS};

    return facet_balancer_open(world.driver, &config, ret_balancer, ERROR);
}

static bool balancer_life(void)
{
    struct facet_balancer *balancer = NULL;

    if (!is_done(open_balancer(&balancer))) {
        assert_null(balancer);
        return false;
    }
    bool good = use_balancer(balancer);

    facet_balancer_close(balancer);
    return good;
}

/* The provider is in this process: a channel to another process reports a failed allocation as a lost connection. */
static int open_world(void **state)
{
    struct facet_driver_config config = world_config();

    (void)state;
    config.place = FACET_SESSION_IN_PROCESS;
    world_open(&config);
    vgpu_make(1);
    vgpu_make(2);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    world_close();
    return 0;
}

static void each_allocation_fails_in_turn(void **state)
{
    long step = 0;
    bool good = false;

    (void)state;
    do {
        step++;
        first_failure = FACET_OK;
        atomic_store(&has_failed, false);
        atomic_store(&countdown, step);
        good = balancer_life();
        atomic_store(&countdown, -1);
        if (first_failure != FACET_OK && first_failure != FACET_NO_MEMORY && first_failure != FACET_BUSY)
            fail_msg("allocation %ld: %s: %s", step, facet_status_name(first_failure), world.error.message);
        assert_true(good || atomic_load(&has_failed));
        for (uint32_t id = 1; id <= 2; id++) {
            assert_int_equal(vgpu_info(id).allocations, 0);
            assert_int_equal(vgpu_info(id).queued + vgpu_info(id).running, 0);
        }
    } while (atomic_load(&has_failed));
    assert_true(good && step > 100);
}

/* A kernel has written the buffer, so its content is on a member, and a write has to allocate the host's copy. */
static void a_write_without_memory_leaves_the_content(void **state)
{
    const uint64_t seven[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    enum facet_status status = FACET_NO_MEMORY;

    (void)state;
    for (long step = 1; status != FACET_OK; step++) {
        uint64_t words[8] = {0}, buffer;
        struct facet_balancer *balancer = NULL;

        assert_int_equal(open_balancer(&balancer), FACET_OK);
        assert_int_equal(facet_balancer_allocate(balancer, sizeof words, &buffer, ERROR), FACET_OK);
        assert_true(submit_task(balancer, buffer));
        assert_int_equal(facet_balancer_wait(balancer, FACET_BALANCER_ALL, WAIT_NS, ERROR), FACET_OK);
        atomic_store(&countdown, step);
        status = facet_balancer_write(balancer, buffer, 0, seven, sizeof seven, ERROR);
        atomic_store(&countdown, -1);
        assert_true(status == FACET_OK || status == FACET_NO_MEMORY);
        assert_int_equal(facet_balancer_read(balancer, buffer, 0, words, sizeof words, ERROR), FACET_OK);
        assert_int_equal(words[0], status == FACET_OK ? 7 : 1);
        facet_balancer_close(balancer);
        assert_true(step > 1 || status != FACET_OK);
    }
}

/* A vGPU has room for one of two buffers: a task that needs the second makes the balancer copy the first to the host.
 */
static void a_buffer_that_is_copied_for_room_is_not_freed_meanwhile(void **state)
{
    static const uint32_t one[] = {1};
    const struct facet_balancer_config config = {.size = sizeof config, .count = 1, .ids = one, .interval_ns = MS};
    const size_t bytes = 9 * MIB;
    uint64_t first, second, word = 0;
    struct facet_balancer *balancer = NULL;

    (void)state;
    assert_int_equal(facet_balancer_open(world.driver, &config, &balancer, ERROR), FACET_OK);
    assert_int_equal(facet_balancer_allocate(balancer, bytes, &first, ERROR), FACET_OK);
    assert_int_equal(facet_balancer_allocate(balancer, bytes, &second, ERROR), FACET_OK);
    assert_true(submit_task(balancer, first));
    assert_int_equal(facet_balancer_wait(balancer, FACET_BALANCER_ALL, WAIT_NS, ERROR), FACET_OK);
    freed_meanwhile.status = FACET_OK;
    freed_meanwhile.balancer = balancer;
    freed_meanwhile.buffer = first;
    freed_meanwhile.bytes = bytes;
    assert_true(submit_task(balancer, second));
    assert_int_equal(facet_balancer_wait(balancer, FACET_BALANCER_ALL, WAIT_NS, ERROR), FACET_OK);
    assert_int_equal(freed_meanwhile.bytes, 0); /* the copy was made */
    assert_int_equal(freed_meanwhile.status, FACET_BUSY);
    if (!strstr(freed_meanwhile.error.message, "its content is being copied off a vGPU: try again"))
        fail_msg("%s", freed_meanwhile.error.message);
    assert_int_equal(facet_balancer_read(balancer, first, 0, &word, sizeof word, ERROR), FACET_OK);
    assert_int_equal(word, 1);
    assert_int_equal(facet_balancer_free(balancer, first, ERROR), FACET_OK);
    facet_balancer_close(balancer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_allocation_fails_in_turn, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_write_without_memory_leaves_the_content, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_buffer_that_is_copied_for_room_is_not_freed_meanwhile, open_world,
                                        close_world),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
