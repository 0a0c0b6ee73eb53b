/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: proofs that spaces can hold more than the device has, that no content is lost, and that pins and turns hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watched_backend.h"

#define PAGE UINT64_C(4096)
#define MIB  (UINT64_C(1) << 20)
#define S    UINT64_C(1000000000)
#define RUNS 64u

/* The device has 4 MiB, swap 8 MiB, and each space 4 MiB, which are filled with runs of 16 pages. */
struct tenant {
    struct facet_space *space;
    uint64_t run[RUNS];
};

struct fixture {
    struct watched watched;
    struct facet_memory *memory;
    struct tenant tenants[2];
    struct facet_error error;
};

static uint64_t word_of(uint32_t id, uint32_t run, uint32_t word)
{
    return (uint64_t)id << 48 | (uint64_t)run << 32 | word;
}

static void fill_tenant(struct fixture *fixture, uint32_t id)
{
    static uint64_t words[16 * PAGE / 8];
    struct tenant *tenant = &fixture->tenants[id];

    tenant->space = watched_space(fixture->memory, id, 4 * MIB);
    for (uint32_t run = 0; run < RUNS; run++) {
        assert_int_equal(facet_space_allocate(tenant->space, sizeof words, NULL, &tenant->run[run], &fixture->error),
                         FACET_OK);
        for (uint32_t word = 0; word < 16 * PAGE / 8; word++)
            words[word] = word_of(id, run, word);
        assert_int_equal(facet_space_copy(tenant->space, tenant->run[run], (uintptr_t)words, sizeof words,
                                          FACET_COPY_TO_DEVICE, &fixture->error),
                         FACET_OK);
    }
}

static void check_tenant(struct fixture *fixture, uint32_t id)
{
    static uint64_t words[16 * PAGE / 8];
    struct tenant *tenant = &fixture->tenants[id];

    for (uint32_t run = 0; run < RUNS; run++) {
        assert_int_equal(facet_space_copy(tenant->space, (uintptr_t)words, tenant->run[run], sizeof words,
                                          FACET_COPY_TO_HOST, &fixture->error),
                         FACET_OK);
        for (uint32_t word = 0; word < 16 * PAGE / 8; word++)
            assert_int_equal(words[word], word_of(id, run, word));
    }
}

static int set_up_with(void **state, uint32_t repay)
{
    static struct fixture fixture;

    fixture.memory = watched_open(&fixture.watched, 4 * MIB,
                                  (struct facet_memory_config){.swap_bytes = 8 * MIB, .swap_repay = repay});
    fill_tenant(&fixture, 0);
    fill_tenant(&fixture, 1);
    *state = &fixture;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, 0);
}

static int set_up_without_turns(void **state)
{
    return set_up_with(state, FACET_SWAP_NEVER_REPAY);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    watched_end(&fixture->watched, fixture->memory);
    return 0;
}

static struct facet_space_usage usage_of(struct facet_space *space)
{
    struct facet_space_usage usage = {.size = sizeof usage};

    assert_int_equal(facet_space_get_usage(space, &usage, NULL), FACET_OK);
    return usage;
}

static void test_tenants_of_twice_the_device_keep_their_words(void **state)
{
    struct fixture *fixture = *state;
    struct facet_memory_usage usage = {.size = sizeof usage};

    for (uint32_t round = 0; round < 3; round++) {
        check_tenant(fixture, 0);
        check_tenant(fixture, 1);
    }
    facet_memory_get_usage(fixture->memory, &usage, NULL);
    assert_int_equal(usage.used_bytes, 4 * MIB);
    assert_int_equal(usage.swap_used_bytes, 4 * MIB);
    assert_true(usage_of(fixture->tenants[0].space).swapped_in_total > 0);
    assert_true(usage_of(fixture->tenants[1].space).swapped_out_total > 0);
}

/* Pinned memory is on the device with its content. Writes to it are kept when it is swapped out later. */
static void test_pinned_memory_is_on_the_device(void **state)
{
    struct fixture *fixture = *state;
    struct tenant *tenant = &fixture->tenants[0];
    struct facet_page page = {.size = sizeof page};
    struct facet_pin *pin;

    for (uint32_t round = 0; round < 2; round++) {
        assert_int_equal(facet_space_pin(tenant->space, NULL, 0, 60 * S, &pin, &fixture->error), FACET_OK);
        for (uint32_t run = 0; run < RUNS; run++) {
            uint64_t *words = (void *)(uintptr_t)tenant->run[run];

            assert_int_equal(words[round], run == 3 && round ? 77 : word_of(0, run, round));
            words[0] = word_of(0, run, 0);
        }
        ((uint64_t *)(uintptr_t)tenant->run[3])[1] = 77;
        assert_int_equal(usage_of(tenant->space).pages_absent, 0);
        assert_int_equal(facet_space_page(tenant->space, tenant->run[5], &page, &fixture->error), FACET_OK);
        assert_int_equal(page.flags & (FACET_PAGE_VALID | FACET_PAGE_PINNED), FACET_PAGE_VALID | FACET_PAGE_PINNED);
        facet_pin_release(pin);
        check_tenant(fixture, 1);
        assert_int_equal(usage_of(tenant->space).pages_absent, 1024); /* all 4 MiB */
        assert_int_equal(facet_space_page(tenant->space, tenant->run[5], &page, &fixture->error), FACET_OK);
        assert_int_equal(page.flags & (FACET_PAGE_VALID | FACET_PAGE_SWAPPED), FACET_PAGE_SWAPPED);
    }
    uint64_t kept;
    assert_int_equal(
        facet_space_copy(tenant->space, (uintptr_t)&kept, tenant->run[3] + 8, 8, FACET_COPY_TO_HOST, &fixture->error),
        FACET_OK);
    assert_int_equal(kept, 77);
}

static void test_pinned_memory_is_not_swapped_out(void **state)
{
    struct fixture *fixture = *state;
    struct tenant *one = &fixture->tenants[0], *other = &fixture->tenants[1];
    struct facet_pin *pin, *none = NULL;

    assert_int_equal(facet_space_pin(one->space, NULL, 0, 60 * S, &pin, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_pin(other->space, other->run, 1, S / 50, &none, &fixture->error), FACET_TIMEOUT);
    assert_null(none);
    assert_int_equal(usage_of(one->space).pages_absent, 0);
    assert_int_equal(facet_space_free(one->space, one->run[0], &fixture->error), FACET_OK);
    facet_pin_release(pin);
    assert_int_equal(facet_space_pin(other->space, other->run, RUNS, 60 * S, &pin, &fixture->error), FACET_OK);
    assert_int_equal(facet_space_free(other->space, other->run[1], &fixture->error), FACET_BUSY);
    facet_pin_release(pin);
    assert_int_equal(facet_space_free(other->space, other->run[1], &fixture->error), FACET_OK);
}

static void test_wrong_pins_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct facet_space *large = watched_space(fixture->memory, 9, 4 * MIB);
    struct facet_pin *pin = NULL;
    uint64_t address;

    assert_int_equal(facet_space_pin(fixture->tenants[0].space, fixture->tenants[1].run, 1, S, &pin, &fixture->error),
                     FACET_NOT_FOUND);
    assert_string_equal(fixture->error.argument, "addresses");
    facet_pin_release(NULL);
    /* Device and swap are 12 MiB less a page: memory that fits in neither is not promised. */
    assert_int_equal(facet_space_allocate(large, 4 * MIB, NULL, &address, &fixture->error), FACET_NO_SPACE);
    assert_int_equal(facet_space_allocate(large, 4 * MIB - PAGE, NULL, &address, &fixture->error), FACET_OK);
    assert_null(pin);
}

/* A page counts its pins. A pin that would overflow the count is refused, because the page would seem to have none. */
static void test_pins_are_counted(void **state)
{
    enum { PINS_MAX = 65535 }; /* of one page */
    static struct facet_pin *pins[PINS_MAX];
    struct fixture *fixture = *state;
    const struct tenant *tenant = &fixture->tenants[0], *other = &fixture->tenants[1];
    const uint64_t both[] = {tenant->run[1], tenant->run[0]};
    struct facet_pin *pin, *none = NULL;
    char byte;

    for (uint32_t i = 0; i < PINS_MAX; i++)
        assert_int_equal(facet_space_pin(tenant->space, tenant->run, 1, 60 * S, &pins[i], &fixture->error), FACET_OK);
    assert_int_equal(facet_space_pin(tenant->space, tenant->run, 1, 60 * S, &none, &fixture->error), FACET_QUOTA);
    assert_string_equal(fixture->error.argument, "addresses");
    assert_non_null(strstr(fixture->error.message, "65535 times"));
    assert_int_equal(facet_space_copy(tenant->space, (uintptr_t)&byte, tenant->run[0], 1, FACET_COPY_TO_HOST, NULL),
                     FACET_QUOTA);
    /* A refused pin leaves nothing pinned, not even pages that it had brought in already. */
    assert_int_equal(facet_space_pin(other->space, other->run, RUNS - 1, 60 * S, &pin, &fixture->error), FACET_OK);
    facet_pin_release(pin);
    assert_true(usage_of(tenant->space).pages_absent > 0);
    assert_int_equal(facet_space_pin(tenant->space, both, 2, 60 * S, &none, &fixture->error), FACET_QUOTA);
    assert_null(none);
    assert_int_equal(facet_space_free(tenant->space, tenant->run[1], &fixture->error), FACET_OK);
    facet_pin_release(pins[0]);
    assert_int_equal(facet_space_pin(tenant->space, tenant->run, 1, 60 * S, &pins[0], &fixture->error), FACET_OK);
    for (uint32_t i = 0; i < PINS_MAX; i++) {
        assert_int_equal(facet_space_free(tenant->space, tenant->run[0], NULL), FACET_BUSY);
        facet_pin_release(pins[i]);
    }
    assert_int_equal(facet_space_free(tenant->space, tenant->run[0], &fixture->error), FACET_OK);
}

/* A space may hold more than the device has, but cannot have all of it on the device at once. */
static void test_larger_than_the_device(void **state)
{
    struct watched watched;
    struct facet_memory *memory = watched_open(&watched, 4 * MIB, (struct facet_memory_config){.swap_bytes = 8 * MIB});
    struct facet_space *space = watched_space(memory, 1, 8 * MIB);
    uint64_t run[8];
    struct facet_error error;
    struct facet_pin *pin = NULL;

    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(facet_space_allocate(space, MIB, NULL, &run[i], &error), FACET_OK);
        assert_int_equal(facet_space_fill(space, run[i], (uint8_t)(i + 1), MIB, &error), FACET_OK);
    }
    assert_int_equal(facet_space_pin(space, NULL, 0, S, &pin, &error), FACET_OUT_OF_RANGE);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(facet_space_pin(space, &run[i], 1, 60 * S, &pin, &error), FACET_OK);
        for (uint64_t byte = 0; byte < MIB; byte += 100)
            assert_int_equal(((uint8_t *)(uintptr_t)run[i])[byte], i + 1);
        facet_pin_release(pin);
    }
    watched_end(&watched, memory);
}

/* --- turns --- */

struct worker {
    struct fixture *fixture;
    uint32_t id;
    _Atomic uint64_t rounds, wrong_words;
    uint64_t rounds_max;
    _Atomic bool *stop;
};

static void *use_all(void *data)
{
    struct worker *worker = data;
    struct tenant *tenant = &worker->fixture->tenants[worker->id];

    while (worker->rounds < worker->rounds_max && !*worker->stop) {
        struct facet_pin *pin;

        if (facet_space_pin(tenant->space, NULL, 0, 60 * S, &pin, NULL) != FACET_OK) {
            worker->wrong_words++;
            break;
        }
        for (uint32_t run = 0; run < RUNS; run++) {
            uint64_t *words = (void *)(uintptr_t)tenant->run[run];

            for (uint32_t word = 1; word < 16 * PAGE / 8; word += 512)
                worker->wrong_words += words[word] != word_of(worker->id, run, word);
            worker->wrong_words += words[0] != word_of(worker->id, run, 0) + worker->rounds;
            words[0]++;
        }
        facet_pin_release(pin);
        worker->rounds++;
    }
    return NULL;
}

/* Two spaces that do not fit together each want all of their memory all the time. Returns the pages swapped in. */
static uint64_t compete_for_memory(struct fixture *fixture, uint64_t rounds)
{
    struct worker workers[2];
    _Atomic bool stop = false;
    pthread_t threads[2];

    for (uint32_t id = 0; id < 2; id++) {
        workers[id] = (struct worker){.fixture = fixture, .id = id, .rounds_max = rounds, .stop = &stop};
        assert_int_equal(pthread_create(&threads[id], NULL, use_all, &workers[id]), 0);
    }
    for (uint32_t id = 0; id < 2; id++) {
        pthread_join(threads[id], NULL);
        assert_int_equal(workers[id].rounds, rounds);
        assert_int_equal(workers[id].wrong_words, 0);
    }
    return usage_of(fixture->tenants[0].space).swapped_in_total + usage_of(fixture->tenants[1].space).swapped_in_total;
}

static void test_turns_are_long_enough(void **state)
{
    struct fixture *fixture = *state;
    uint64_t swapped = compete_for_memory(fixture, 150);

    /* Each space brings in its 1024 pages once in a turn, and a turn has many rounds. */
    assert_true(swapped < 1024 * 2 * 75);
    assert_true(usage_of(fixture->tenants[0].space).swap_ns > 0);
}

static void test_without_turns_no_word_is_lost(void **state)
{
    compete_for_memory(*state, 60);
}

/* This tenant pins again before it releases the previous pin, so that its memory is pinned all the time. */
static void *overlap_pins(void *data)
{
    struct worker *worker = data;
    struct tenant *tenant = &worker->fixture->tenants[worker->id];
    struct facet_pin *held = NULL, *next;

    while (!*worker->stop) {
        if (facet_space_pin(tenant->space, tenant->run, RUNS, S / 10, &next, NULL) != FACET_OK)
            next = NULL;
        facet_pin_release(held);
        held = next;
        worker->rounds++;
    }
    facet_pin_release(held);
    return NULL;
}

static void test_overlapping_pins_end_when_another_space_waits(void **state)
{
    struct fixture *fixture = *state;
    _Atomic bool stop = false;
    struct worker worker = {.fixture = fixture, .id = 0, .stop = &stop};
    struct facet_pin *pin;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, overlap_pins, &worker), 0);
    while (worker.rounds < 3)
        usleep(1000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(
            facet_space_pin(fixture->tenants[1].space, fixture->tenants[1].run, RUNS, 60 * S, &pin, &fixture->error),
            FACET_OK);
        facet_pin_release(pin);
    }
    stop = true;
    pthread_join(thread, NULL);
    check_tenant(fixture, 0);
}

/* --- faults --- */

static void test_failed_transfers_lose_no_word(void **state)
{
    struct fixture *fixture = *state;
    struct facet_pin *pin;
    uint32_t failed = 0;

    for (uint64_t call = 1; call < 2000; call += 137) {
        for (uint32_t id = 0; id < 2; id++) {
            fixture->watched.fail_at = fixture->watched.calls + call;
            if (facet_space_pin(fixture->tenants[id].space, NULL, 0, 60 * S, &pin, &fixture->error) == FACET_OK)
                facet_pin_release(pin);
            else
                failed++;
            fixture->watched.fail_at = 0;
        }
    }
    assert_true(failed > 2);
    check_tenant(fixture, 0);
    check_tenant(fixture, 1);
}

/* --- many threads --- */

static void *allocate_pin_and_free(void *data)
{
    struct worker *worker = data;
    struct facet_space *space = worker->fixture->tenants[worker->id % 2].space;
    uint32_t random = worker->id;
    struct facet_error error;

    for (uint32_t i = 0; i < 300; i++) {
        uint64_t addresses[3], values[3];
        struct facet_pin *pin;
        uint32_t count = 0;

        for (; count < 3; count++) {
            random = random * 1664525 + 1013904223;
            if (facet_space_allocate(space, 100 + (random >> 8) % 60000, NULL, &addresses[count], &error) != FACET_OK)
                break;
            values[count] = random;
            worker->wrong_words += facet_space_copy(space, addresses[count], (uintptr_t)&values[count], 8,
                                                    FACET_COPY_TO_DEVICE, &error) != FACET_OK;
        }
        if (count && facet_space_pin(space, addresses, count, 60 * S, &pin, &error) == FACET_OK) {
            for (uint32_t k = 0; k < count; k++)
                worker->wrong_words += *(uint64_t *)(uintptr_t)addresses[k] != values[k];
            facet_pin_release(pin);
        }
        for (uint32_t k = 0; k < count; k++)
            worker->wrong_words += facet_space_free(space, addresses[k], &error) != FACET_OK;
    }
    return NULL;
}

static void test_many_threads_keep_their_words(void **state)
{
    struct fixture *fixture = *state;
    struct worker workers[16] = {0};
    pthread_t threads[16];
    struct facet_memory_usage usage = {.size = sizeof usage};

    for (uint32_t id = 0; id < 2; id++)
        for (uint32_t run = 0; run < RUNS; run += 2)
            assert_int_equal(facet_space_free(fixture->tenants[id].space, fixture->tenants[id].run[run], NULL),
                             FACET_OK);
    for (uint32_t i = 0; i < 16; i++) {
        workers[i] = (struct worker){.fixture = fixture, .id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_pin_and_free, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 16; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong_words, 0);
    }
    for (uint32_t id = 0; id < 2; id++) {
        struct facet_space *space = fixture->tenants[id].space;

        assert_int_equal(facet_space_compact(space, NULL, NULL, &fixture->error), FACET_OK);
        assert_int_equal(usage_of(space).allocations, RUNS / 2);
        assert_int_equal(usage_of(space).reserved_bytes, 2 * MIB);
        assert_int_equal(facet_space_destroy(space, NULL), FACET_OK);
    }
    facet_memory_get_usage(fixture->memory, &usage, NULL);
    assert_int_equal(usage.used_bytes, 0);
    assert_int_equal(usage.swap_used_bytes, 0);
}

int main(void)
{
#define WITH_SETUP(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_SETUP(test_tenants_of_twice_the_device_keep_their_words),
        WITH_SETUP(test_pinned_memory_is_on_the_device),
        WITH_SETUP(test_pinned_memory_is_not_swapped_out),
        WITH_SETUP(test_wrong_pins_are_refused),
        WITH_SETUP(test_pins_are_counted),
        cmocka_unit_test(test_larger_than_the_device),
        WITH_SETUP(test_turns_are_long_enough),
        cmocka_unit_test_setup_teardown(test_without_turns_no_word_is_lost, set_up_without_turns, tear_down),
        WITH_SETUP(test_overlapping_pins_end_when_another_space_waits),
        WITH_SETUP(test_failed_transfers_lose_no_word),
        WITH_SETUP(test_many_threads_keep_their_words),
    };
    return cmocka_run_group_tests_name("swap", tests, NULL, NULL);
}
