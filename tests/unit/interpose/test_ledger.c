/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: tests of the ledger against a plain model, from threads and over fork. Never: needs a vendor, or a clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../effort.h"
#include "interpose/kit/ledger.h"

#define KEYS    4096u
#define MANY    1000000u
#define THREADS 4u

static uint64_t draw_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static struct facet_ledger_entry entry_of(uint64_t bytes, uint64_t owner)
{
    return (struct facet_ledger_entry){.bytes = bytes, .owner = owner, .device = 3, .kind = 7};
}

static void test_an_added_entry_is_found_and_taken_once(void **state)
{
    struct facet_ledger *ledger = facet_ledger_create();
    struct facet_ledger_entry entry = {0};

    assert_false(facet_ledger_take(ledger, 0x1000, &entry));
    assert_true(facet_ledger_add(ledger, 0x1000, entry_of(512, 9)));
    assert_true(facet_ledger_find(ledger, 0x1000, &entry));
    assert_int_equal(entry.bytes, 512);
    assert_int_equal(entry.owner, 9);
    assert_int_equal(entry.device, 3);
    assert_int_equal(entry.kind, 7);
    assert_false(facet_ledger_find(ledger, 0x2000, &entry));
    assert_true(facet_ledger_add(ledger, 0x1000, entry_of(1024, 9)));
    assert_true(facet_ledger_take(ledger, 0x1000, &entry));
    assert_int_equal(entry.bytes, 1024);
    assert_false(facet_ledger_take(ledger, 0x1000, &entry));
    facet_ledger_destroy(ledger);
    facet_ledger_destroy(NULL);
}

/* Addresses as drivers give them: powers of two apart, so that a weak hash would give them the same slots. */
static uint64_t key_of(uint64_t index)
{
    return UINT64_C(0x7f0000000000) + (index % 2 ? index << 21 : index << 9);
}

static void test_a_ledger_agrees_with_a_model_over_random_calls(void **state)
{
    struct facet_ledger *ledger = facet_ledger_create();
    uint64_t model[KEYS] = {0}, seed = 88172645463325252;
    struct facet_ledger_entry entry;

    for (uint32_t i = 0; i < effort(400000, 40000); i++) {
        uint64_t index = draw_random(&seed) % KEYS, bytes = draw_random(&seed) % 1000 + 1;

        if (model[index]) {
            assert_true(facet_ledger_take(ledger, key_of(index), &entry));
            assert_int_equal(entry.bytes, model[index]);
            model[index] = 0;
        } else {
            assert_false(facet_ledger_find(ledger, key_of(index), &entry));
            assert_true(facet_ledger_add(ledger, key_of(index), entry_of(bytes, 0)));
            model[index] = bytes;
        }
    }
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(facet_ledger_take(ledger, key_of(i), &entry), model[i] != 0);
    facet_ledger_destroy(ledger);
}

static void test_a_ledger_holds_a_million_entries(void **state)
{
    struct facet_ledger *ledger = facet_ledger_create();
    struct facet_ledger_entry entry;

    for (uint32_t i = 1; i <= MANY; i++)
        assert_true(facet_ledger_add(ledger, (uint64_t)i << 9, entry_of(i, 0)));
    for (uint32_t i = MANY; i; i--) {
        assert_true(facet_ledger_take(ledger, (uint64_t)i << 9, &entry));
        assert_int_equal(entry.bytes, i);
    }
    facet_ledger_destroy(ledger);
}

struct sum {
    uint64_t owner, bytes, count;
};

static bool belongs_to_owner(const struct facet_ledger_entry *entry, void *context)
{
    return entry->owner == ((struct sum *)context)->owner;
}

static void sum_removed(uint64_t key, const struct facet_ledger_entry *entry, void *context)
{
    struct sum *sum = context;

    assert_int_equal(key >> 9, entry->bytes);
    sum->bytes += entry->bytes;
    sum->count++;
}

/* Some numbers of entries are close to those at which shards grow, so that probing wraps around the end of tables. */
static void test_a_drain_takes_all_that_belongs_and_nothing_else(void **state)
{
    for (uint32_t total = 1; total < 6000; total = total * 5 / 4 + 1) {
        struct facet_ledger *ledger = facet_ledger_create();
        struct sum sum = {.owner = 1};
        struct facet_ledger_entry entry;
        uint64_t expected = 0;

        for (uint64_t i = 1; i <= total; i++) {
            assert_true(facet_ledger_add(ledger, i << 9, entry_of(i, i % 3)));
            expected += i % 3 == 1 ? i : 0;
        }
        facet_ledger_drain(ledger, belongs_to_owner, sum_removed, &sum);
        assert_int_equal(sum.bytes, expected);
        assert_int_equal(sum.count, (total + 2) / 3);
        for (uint64_t i = 1; i <= total; i++)
            assert_int_equal(facet_ledger_take(ledger, i << 9, &entry), i % 3 != 1);
        facet_ledger_destroy(ledger);
    }
}

struct worker {
    struct facet_ledger *ledger;
    uint64_t first;
    uint32_t errors;
};

/* Every thread adds, takes and adds again keys of its own; all are present in the end. */
static void *use_own_keys(void *argument)
{
    struct worker *worker = argument;
    struct facet_ledger_entry entry;

    for (uint64_t i = 1; i <= 20000; i++) {
        uint64_t key = (worker->first + i) << 9;

        worker->errors += !facet_ledger_add(worker->ledger, key, entry_of(key, 0));
        worker->errors += !facet_ledger_take(worker->ledger, key, &entry) || entry.bytes != key;
        worker->errors += !facet_ledger_add(worker->ledger, key, entry_of(key, 0));
    }
    return NULL;
}

static void test_threads_do_not_disturb_one_another(void **state)
{
    struct facet_ledger *ledger = facet_ledger_create();
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct facet_ledger_entry entry;

    for (uint32_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.ledger = ledger, .first = (uint64_t)i << 32};
        assert_int_equal(pthread_create(&threads[i], NULL, use_own_keys, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].errors, 0);
        for (uint64_t key = 1; key <= 20000; key++)
            assert_true(facet_ledger_take(ledger, (workers[i].first + key) << 9, &entry));
    }
    facet_ledger_destroy(ledger);
}

static void test_a_child_of_fork_begins_with_an_empty_ledger(void **state)
{
    struct facet_ledger *ledger = facet_ledger_create();
    struct facet_ledger_entry entry;
    int status = -1;

    assert_true(facet_ledger_add(ledger, 1, entry_of(1, 0)));
    facet_ledger_before_fork(ledger);
    pid_t pid = fork();
    if (pid == 0) {
        facet_ledger_forked(ledger);
        bool empty = !facet_ledger_take(ledger, 1, &entry);
        bool works = facet_ledger_add(ledger, 2, entry_of(2, 0)) && facet_ledger_take(ledger, 2, &entry);
        facet_ledger_destroy(ledger);
        _exit(empty && works ? 0 : 1);
    }
    facet_ledger_after_fork(ledger);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(facet_ledger_take(ledger, 1, &entry));
    facet_ledger_destroy(ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_added_entry_is_found_and_taken_once),
        cmocka_unit_test(test_a_ledger_agrees_with_a_model_over_random_calls),
        cmocka_unit_test(test_a_ledger_holds_a_million_entries),
        cmocka_unit_test(test_a_drain_takes_all_that_belongs_and_nothing_else),
        cmocka_unit_test(test_threads_do_not_disturb_one_another),
        cmocka_unit_test(test_a_child_of_fork_begins_with_an_empty_ledger),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
