/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory, seen from host and device: each side reads the other's writes, and only touched pages move.
 *
 * FACET_TEST_PLACE=1 has the provider in this process, where both sides have one memory and nothing moves.
 */
#include "managed.h"

#include <errno.h>
#include <sys/wait.h>

/* ---- its purpose ---- */

static void both_sides_see_every_word(void **state)
{
    enum { PAGES = 64 };
    const uint64_t count = PAGES * PAGE_WORDS;

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, count * sizeof *words);

    for (uint64_t i = 0; i < count; i++)
        words[i] = mix(i);
    launch_add(1, 0, words, count, 7);
    for (uint64_t i = 0; i < count; i++)
        if (words[i] != mix(i) + 7 && !is_shared())
            fail_msg("word %" PRIu64 ": %" PRIx64 ", expected %" PRIx64, i, words[i], mix(i) + 7);
    vgpu_finish(1);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(words[i], mix(i) + 7);
    struct facet_managed_usage usage = usage_of(1, words + count - 1);
    assert_int_equal(usage.address, (uintptr_t)words);
    assert_int_equal(usage.pages, PAGES);
    assert_int_equal(usage.page_bytes, PAGE);
    assert_int_equal(!!(usage.flags & FACET_MANAGED_SHARED), is_shared());
    assert_int_equal(usage.to_host_total, is_shared() ? 0 : 2 * PAGES);
    assert_int_equal(usage.to_device_total, is_shared() ? 0 : PAGES);
    assert_int_equal(usage.pages_at_host, is_shared() ? 0 : PAGES);
    assert_int_equal(usage.pages_dirty, 0);
    OK(facet_vgpu_free(world.driver, 1, (uintptr_t)words, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, (uintptr_t)words, ERROR));
}

struct toucher {
    pthread_t thread;
    uint64_t *words;
    uint64_t first, step, count, wrong_words;
};

static void *touch_pages(void *argument)
{
    struct toucher *toucher = argument;

    for (uint64_t i = toucher->first; i < toucher->count; i += toucher->step) {
        uint64_t at = mix(i) % PAGE_WORDS + i * PAGE_WORDS;

        toucher->wrong_words += toucher->words[at] != 1;
        toucher->words[at] += mix(i);
    }
    return NULL;
}

/* Several threads touch every third page; the pages between never move. */
static void only_touched_pages_move(void **state)
{
    enum { PAGES = 120, THREADS = 4, STEP = 3 };
    struct toucher touchers[THREADS];

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, PAGES * PAGE);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)words, 0, PAGES * PAGE, ERROR));
    launch_add(1, 0, words, PAGES * PAGE_WORDS, 1);
    vgpu_finish(1);
    for (uint64_t i = 0; i < THREADS; i++) {
        touchers[i] = (struct toucher){.words = words, .first = i * STEP, .step = STEP * THREADS, .count = PAGES};
        pthread_create(&touchers[i].thread, NULL, touch_pages, &touchers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(touchers[i].thread, NULL);
        assert_int_equal(touchers[i].wrong_words, 0);
    }
    struct facet_managed_usage usage = usage_of(1, words);
    assert_int_equal(usage.to_host_total, is_shared() ? 0 : PAGES / STEP);
    assert_int_equal(usage.pages_dirty, is_shared() ? 0 : PAGES / STEP);
    assert_int_equal(usage.to_device_total, 0);
    for (uint64_t i = 0; i < PAGES; i++)
        assert_int_equal(vgpu_word(1, (uintptr_t)(words + i * PAGE_WORDS + mix(i) % PAGE_WORDS)),
                         i % STEP == 0 ? 1 + mix(i) : 1);
    usage = usage_of(1, words);
    assert_int_equal(usage.to_host_total, is_shared() ? 0 : PAGES / STEP);
    assert_int_equal(usage.to_device_total, is_shared() ? 0 : PAGES / STEP);
    assert_int_equal(usage.pages_at_host, 0);
}

struct link {
    struct link *next;
    uint64_t value;
};

struct chain {
    struct link *first;
    uint64_t sum;
};

/* The links lie in random order in several allocations. */
static void pointers_in_managed_memory_are_valid_on_both_sides(void **state)
{
    enum { LINKS = 1000, PIECES = 4, PIECE_PAGES = 8 };
    char *pieces[PIECES];
    uint64_t sum = 0, after = 0;

    (void)state;
    vgpu_make(1);
    struct chain *chain = managed(1, sizeof *chain);
    *chain = (struct chain){0};
    for (int i = 0; i < PIECES; i++)
        pieces[i] = managed(1, PIECE_PAGES * PAGE);
    for (uint64_t i = 0; i < LINKS; i++) {
        uint64_t slots = PIECE_PAGES * PAGE / sizeof(struct link) / LINKS;
        struct link *link = (struct link *)(pieces[mix(i) % PIECES]) + i * slots;

        *link = (struct link){chain->first, mix(i) >> 8};
        chain->first = link;
        sum += link->value;
    }
    struct facet_kernel *kernel = vgpu_kernel(1, "pursue", (uintptr_t)chain, 3);
    vgpu_launch(1, 0, kernel, 1);
    vgpu_finish(1);
    facet_kernel_destroy(kernel);
    assert_int_equal(chain->sum, sum);
    for (const struct link *link = chain->first; link; link = link->next)
        after += link->value;
    assert_int_equal(after, sum + 3 * LINKS);
}

static void a_page_moves_to_and_fro_a_thousand_times(void **state)
{
    enum { ROUNDS = 1000 };
    const uint64_t groups = 4;

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, 2 * PAGE);
    struct facet_kernel *kernel = vgpu_kernel(1, "add", (uintptr_t)words, 1);
    memset(words, 0, 2 * PAGE);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        vgpu_launch(1, (uint32_t)round % 2, kernel, groups);
        vgpu_finish(1);
        for (uint64_t i = 0; i < groups; i++)
            assert_int_equal(words[i]++, 2 * round + 1);
    }
    facet_kernel_destroy(kernel);
    struct facet_managed_usage usage = usage_of(1, words);
    assert_int_equal(usage.to_device_total, is_shared() ? 0 : ROUNDS + 1);
    assert_int_equal(usage.to_host_total, is_shared() ? 0 : ROUNDS + 2);
}

/* ---- races ---- */

struct racer {
    pthread_t thread;
    uint64_t *words;
    uint64_t number, rounds;
};

enum { RACERS = 8, RACE_PAGES = 16, RACE_ROUNDS = 400, RACE_LAUNCHES = 200 };

/* Words 0 to 63 of each page are the kernels', then eight of each thread. */
static void *race_kernels(void *argument)
{
    const struct racer *racer = argument;

    for (uint64_t round = 0; round < racer->rounds; round++) {
        uint64_t page = mix(round * RACERS + racer->number) % RACE_PAGES;
        uint64_t *mine = racer->words + page * PAGE_WORDS + 64 + racer->number * 8;

        mine[mix(round) % 8]++;
    }
    return NULL;
}

static void writers_race_launches_and_nothing_is_lost(void **state)
{
    struct racer racers[RACERS];
    struct facet_kernel *kernels[RACE_PAGES];
    uint64_t sums[RACERS] = {0};

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, RACE_PAGES * PAGE);
    memset(words, 0, RACE_PAGES * PAGE);
    for (uint64_t i = 0; i < RACE_PAGES; i++)
        kernels[i] = vgpu_kernel(1, "add", (uintptr_t)(words + i * PAGE_WORDS), i + 1);
    for (uint64_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.words = words, .number = i, .rounds = RACE_ROUNDS};
        pthread_create(&racers[i].thread, NULL, race_kernels, &racers[i]);
    }
    for (uint64_t i = 0; i < RACE_LAUNCHES; i++)
        vgpu_launch(1, (uint32_t)i % 2, kernels[i % RACE_PAGES], 64);
    for (int i = 0; i < RACERS; i++)
        pthread_join(racers[i].thread, NULL);
    vgpu_finish(1);
    for (uint64_t page = 0; page < RACE_PAGES; page++) {
        uint64_t launches = RACE_LAUNCHES / RACE_PAGES + (page < RACE_LAUNCHES % RACE_PAGES);

        for (uint64_t i = 0; i < 64; i++)
            assert_int_equal(words[page * PAGE_WORDS + i], launches * (page + 1));
        for (uint64_t i = 0; i < RACERS * 8; i++)
            sums[i / 8] += words[page * PAGE_WORDS + 64 + i];
        facet_kernel_destroy(kernels[page]);
    }
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(sums[i], RACE_ROUNDS);
}

/* A thread waits for a page while a kernel runs. The kernel ends only after this thread's launch opens its gate. */
static void a_thread_that_waits_for_a_page_blocks_no_other(void **state)
{
    struct toucher toucher;

    (void)state;
    if (is_shared())
        return;
    vgpu_make(1);
    uint64_t gate = vgpu_memory(1, 16);
    uint64_t *words = managed(1, PAGE);
    struct facet_kernel *kernel = vgpu_kernel(1, "gate", gate, 0), *open = vgpu_kernel(1, "add", gate + 8, 1);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)words, 0, PAGE, ERROR));
    launch_add(1, 0, words + mix(0) % PAGE_WORDS, 1, 1);
    vgpu_finish(1);
    assert_true(wait_for_status(1, vgpu_launch(1, 0, kernel, 1), FACET_EXECUTION_RUNNING));
    toucher = (struct toucher){.words = words, .step = 1, .count = 1};
    pthread_create(&toucher.thread, NULL, touch_pages, &toucher);
    for (uint64_t waited = 0; waited < WAIT_NS && usage_of(1, words).faults_total == 0; waited += MS)
        nap(MS);
    nap(20 * MS);
    assert_int_equal(usage_of(1, words).pages_at_host, 0);
    vgpu_launch(1, 1, open, 1);
    pthread_join(toucher.thread, NULL);
    assert_int_equal(toucher.wrong_words, 0);
    facet_kernel_destroy(kernel);
    facet_kernel_destroy(open);
}

/* ---- making and ending ---- */

static void managed_memory_ends_with_its_pages_at_the_host(void **state)
{
    (void)state;
    vgpu_make(1);
    vgpu_make(2);
    uint64_t *one = managed(1, 4 * PAGE), *two = managed(1, PAGE), *other = managed(2, PAGE);

    one[0] = two[0] = other[0] = 5;
    OK(facet_vgpu_free(world.driver, 1, (uintptr_t)one, ERROR));
    assert_int_equal(two[0], 5);
    OK(facet_vgpu_destroy(world.driver, 1, ERROR));
    assert_int_equal(other[0], 5);
    catch_signals();
    assert_false(can_read(two));
    if (!is_shared())
        assert_false(can_read(one));
    restore_signals();
    vgpu_make(1);
    two = managed(1, PAGE);
    two[1] = 6;
    assert_int_equal(two[0], 0); /* the memory was another vGPU's */
    assert_int_equal(vgpu_word(1, (uintptr_t)(two + 1)), 6);
    assert_int_equal(vgpu_word(2, (uintptr_t)other), 5);
}

static void bad_calls_are_refused(void **state)
{
    struct facet_driver_config config = world_config();
    const struct facet_allocation_options odd = {.size = sizeof odd, .align = 3};
    struct facet_managed_usage usage = {.size = sizeof usage};
    struct facet_space_usage before = {.size = sizeof before}, after = {.size = sizeof after};
    void *pointer = NULL;
    uint64_t address = 0, here = 0;

    (void)state;
    vgpu_make(1);
    vgpu_make(2);
    OK(facet_vgpu_get_memory(world.driver, 1, &before, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate_managed(world.driver, 1, 0, NULL, &pointer, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate_managed(world.driver, 1, UINT64_MAX, NULL, &pointer, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate_managed(world.driver, 1, UINT64_MAX - PAGE, NULL, &pointer, ERROR));
    REFUSED(FACET_QUOTA, facet_vgpu_allocate_managed(world.driver, 1, 17 * MIB, NULL, &pointer, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_allocate_managed(world.driver, 1, 1, &odd, &pointer, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_allocate_managed(world.driver, 3, 1, NULL, &pointer, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_managed(world.driver, 1, &address, &usage, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_prefetch(world.driver, 1, &address, 1, true, ERROR));
    assert_null(pointer);
    OK(facet_vgpu_get_memory(world.driver, 1, &after, ERROR));
    assert_int_equal(before.reserved_bytes, after.reserved_bytes);
    uint64_t *words = managed(1, 1);
    words[0] = 9;
    REFUSED(FACET_NOT_FOUND, facet_vgpu_get_managed(world.driver, 2, words, &usage, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 2, (uintptr_t)words, ERROR));
    REFUSED(FACET_NOT_FOUND, facet_vgpu_free(world.driver, 1, (uintptr_t)words + 8, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_reallocate(world.driver, 1, (uintptr_t)words, 2 * PAGE, &address, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_fill(world.driver, 2, (uintptr_t)words, 0, 8, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_prefetch(world.driver, 1, words, PAGE + 1, true, ERROR));
    address = vgpu_memory(2, 64);
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 2, address, (uintptr_t)words, 8, FACET_COPY_TO_DEVICE, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 2, (uintptr_t)words, address, 8, FACET_COPY_TO_HOST, ERROR));
    REFUSED(FACET_OUT_OF_RANGE,
            facet_vgpu_copy(world.driver, 2, address, (uintptr_t)words, 8, FACET_COPY_DETECT, ERROR));
    REFUSED(FACET_OUT_OF_RANGE, facet_vgpu_enqueue_copy(world.driver, 2, 0, address, (uintptr_t)words, 8,
                                                        FACET_COPY_TO_DEVICE, NULL, ERROR));
    OK(facet_vgpu_copy(world.driver, 1, (uintptr_t)&here, (uintptr_t)words, 8, FACET_COPY_DETECT, ERROR));
    assert_int_equal(here, 9);
    world_close();
    config.off = FACET_OFF_MEMORY;
    world_open(&config);
    OK(facet_vgpu_create(world.driver, NULL, NULL, ERROR));
    REFUSED(FACET_UNSUPPORTED, facet_vgpu_allocate_managed(world.driver, 1, 1, NULL, &pointer, ERROR));
}

static void pages_can_be_sent_ahead(void **state)
{
    enum { PAGES = 40 };

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, PAGES * PAGE);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)words, 0, PAGES * PAGE, ERROR));
    launch_add(1, 0, words, PAGES * PAGE_WORDS, 4);
    words[3 * PAGE_WORDS] = 1;
    OK(facet_vgpu_prefetch(world.driver, 1, words + 1, 30 * PAGE - 8, true, ERROR));
    struct facet_managed_usage usage = usage_of(1, words);
    assert_int_equal(usage.pages_at_host, is_shared() ? 0 : 30);
    assert_int_equal(usage.pages_dirty, is_shared() ? 0 : 1);
    vgpu_finish(1);
    for (uint64_t i = 0; i < 30; i++)
        if (i != 3)
            assert_int_equal(words[i * PAGE_WORDS + i], 4);
    assert_int_equal(usage_of(1, words).faults_total, usage.faults_total);
    OK(facet_vgpu_prefetch(world.driver, 1, words, 4 * PAGE, false, ERROR));
    usage = usage_of(1, words);
    assert_int_equal(usage.pages_at_host, is_shared() ? 0 : 26);
    assert_int_equal(usage.to_device_total, is_shared() ? 0 : 1);
    OK(facet_vgpu_prefetch(world.driver, 1, words, 0, true, ERROR));
}

static void system_calls_take_managed_memory_where_its_flags_say_so(void **state)
{
    int ends[2];

    (void)state;
    vgpu_make(1);
    uint64_t *words = managed(1, 2 * PAGE);
    bool taken = usage_of(1, words).flags & FACET_MANAGED_SYSTEM_CALLS;
    assert_int_equal(pipe(ends), 0);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)words, 0x11, 2 * PAGE, ERROR));
    assert_int_equal(write(ends[1], words, 4096), taken ? 4096 : -1);
    if (!taken)
        assert_int_equal(errno, EFAULT);
    if (taken)
        assert_int_equal(read(ends[0], words + PAGE_WORDS, 100), 100);
    if (taken)
        assert_int_equal(vgpu_word(1, (uintptr_t)(words + PAGE_WORDS)), UINT64_C(0x1111111111111111));
    close(ends[0]);
    close(ends[1]);
}

static void a_forked_child_has_no_managed_memory(void **state)
{
    int status = 0;

    (void)state;
    if (is_shared())
        return;
    vgpu_make(1);
    uint64_t *words = managed(1, PAGE);
    words[0] = 3;
    pid_t child = fork();
    if (child == 0) {
        catch_signals();
        _exit(can_read(words) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(words[0], 3);
}

/* ---- swapping and moving pages ---- */

static void pages_of_managed_memory_are_swapped_and_moved(void **state)
{
    enum { PIECES = 10 };
    struct facet_driver_config config = world_config();
    uint64_t *pieces[2][PIECES];
    void *pointer = NULL;

    (void)state;
    world.memory.memory_bytes = 16 * MIB;
    world.memory.swap_bytes = 32 * MIB;
    world_open(&config);
    vgpu_make(1);
    if (is_shared()) {
        REFUSED(FACET_UNSUPPORTED, facet_vgpu_allocate_managed(world.driver, 1, 1, NULL, &pointer, ERROR));
        world_close();
        return;
    }
    vgpu_make(2);
    for (uint32_t id = 1; id <= 2; id++)
        for (int i = 0; i < PIECES; i++) {
            pieces[id - 1][i] = managed(id, MIB);
            for (uint64_t at = 0; at < MIB / 8; at += 512)
                pieces[id - 1][i][at] = mix(at + id);
        }
    for (int round = 0; round < 3; round++)
        for (uint32_t id = 1; id <= 2; id++)
            for (int i = 0; i < PIECES; i++)
                launch_add(id, 0, pieces[id - 1][i], MIB / 8, 10 * id);
    OK(facet_vgpu_free(world.driver, 1, (uintptr_t)pieces[0][0], ERROR));
    OK(facet_vgpu_compact(world.driver, 1, NULL, NULL, ERROR));
    for (uint32_t id = 1; id <= 2; id++)
        for (int i = id == 1; i < PIECES; i++)
            for (uint64_t at = 0; at < MIB / 8; at += 512)
                assert_int_equal(pieces[id - 1][i][at], mix(at + id) + 30 * id);
    world_close();
}

/* ---- pausing ---- */

static void a_paused_vgpu_gives_its_pages_later(void **state)
{
    struct toucher toucher;

    (void)state;
    if (is_shared())
        return;
    vgpu_make(1);
    uint64_t *words = managed(1, 2 * PAGE);
    OK(facet_vgpu_fill(world.driver, 1, (uintptr_t)words, 0, 2 * PAGE, ERROR));
    words[mix(0) % PAGE_WORDS] = 1;
    vgpu_word(1, (uintptr_t)words); /* moves the page to the device again */
    words[PAGE_WORDS] = 8;
    OK(facet_vgpu_pause(world.driver, 1, ERROR));
    REFUSED(FACET_FROZEN, facet_vgpu_prefetch(world.driver, 1, words, 1, true, ERROR));
    assert_int_equal(words[PAGE_WORDS], 8); /* this page is at the host */
    uint64_t faults = usage_of(1, words).faults_total;
    toucher = (struct toucher){.words = words, .step = 1, .count = 1};
    pthread_create(&toucher.thread, NULL, touch_pages, &toucher);
    for (uint64_t waited = 0; waited < WAIT_NS && usage_of(1, words).faults_total == faults; waited += MS)
        nap(MS);
    nap(20 * MS);
    assert_int_equal(usage_of(1, words).pages_at_host, 1);
    OK(facet_vgpu_resume(world.driver, 1, ERROR));
    pthread_join(toucher.thread, NULL);
    assert_int_equal(toucher.wrong_words, 0);
    assert_int_equal(usage_of(1, words).pages_at_host, 2);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, world_set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(both_sides_see_every_word),
        WITH_WORLD(only_touched_pages_move),
        WITH_WORLD(pointers_in_managed_memory_are_valid_on_both_sides),
        WITH_WORLD(a_page_moves_to_and_fro_a_thousand_times),
        WITH_WORLD(writers_race_launches_and_nothing_is_lost),
        WITH_WORLD(a_thread_that_waits_for_a_page_blocks_no_other),
        WITH_WORLD(managed_memory_ends_with_its_pages_at_the_host),
        WITH_WORLD(bad_calls_are_refused),
        WITH_WORLD(pages_can_be_sent_ahead),
        WITH_WORLD(system_calls_take_managed_memory_where_its_flags_say_so),
        WITH_WORLD(a_forked_child_has_no_managed_memory),
        cmocka_unit_test(pages_of_managed_memory_are_swapped_and_moved),
        WITH_WORLD(a_paused_vgpu_gives_its_pages_later),
    };

    return cmocka_run_group_tests(tests, world_load, world_unload);
}
