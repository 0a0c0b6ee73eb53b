/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the proof that allocating and freeing a block takes as many instructions among a hundred thousand live blocks
 * as among a thousand. Never: measures time. The processor's trap flag raises a signal after each instruction, and the
 * handler counts them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include <facet/memory.h>

#define MIB         (UINT64_C(1) << 20)
#define FEW_BLOCKS  1000u
#define MANY_BLOCKS 100000u
#define COUNTED     200u /* pairs of a free and an allocation, at each number of live blocks */

/* ---- steps ---- */

static volatile sig_atomic_t steps;

static void count_step(int signal)
{
    (void)signal;
    steps++;
}

/* The stack pointer first moves past the red zone, which the caller may use. */
#if defined(__x86_64__)
#define CAN_COUNT true
static inline __attribute__((always_inline)) void trap_each_step(bool on)
{
    if (on)
        __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n orq $0x100, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                             : "cc", "memory");
    else
        __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n andq $-0x101, (%%rsp)\n popfq\n lea 128(%%rsp), %%rsp" ::
                             : "cc", "memory");
}
#else
#define CAN_COUNT false
static void trap_each_step(bool on)
{
    (void)on;
}
#endif

/* The steps of all calls of one kind, at one number of live blocks. */
struct counted {
    uint64_t sum, highest;
};

static void count_steps(struct counted *counted)
{
    uint64_t now = (uint64_t)steps;

    counted->sum += now;
    counted->highest = now > counted->highest ? now : counted->highest;
}

/* ---- blocks ---- */

static struct {
    struct facet_memory *memory;
    struct facet_space *space;
    uint64_t live[MANY_BLOCKS];
    uint32_t count;
    uint64_t seed;
} blocks;

static uint32_t random_below(uint32_t bound)
{
    blocks.seed = blocks.seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((blocks.seed >> 33) % bound);
}

/* The size of a block, one of four classes by its index. */
static uint64_t size_of(uint32_t index)
{
    return 200 + 256 * (index % 4);
}

static void grow_to(uint32_t wanted)
{
    for (; blocks.count < wanted; blocks.count++)
        assert_int_equal(
            facet_space_allocate(blocks.space, size_of(blocks.count), NULL, &blocks.live[blocks.count], NULL),
            FACET_OK);
}

/*
 * Each processor has pools of its own (src/memory/space.h). On another processor a thread would begin with empty pools.
 */
static void stay_on_one_processor(void)
{
    int processor = sched_getcpu();
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET(processor < 0 ? 0 : (unsigned)processor, &only);
    (void)sched_setaffinity(0, sizeof only, &only);
}

/* Frees a random block, and allocates another of its size. */
static void count_pairs(struct counted *ret_free, struct counted *ret_allocate)
{
    *ret_free = *ret_allocate = (struct counted){0};
    for (uint32_t i = 0; i < COUNTED; i++) {
        uint32_t index = random_below(blocks.count);
        enum facet_status freed, allocated;

        steps = 0;
        trap_each_step(true);
        freed = facet_space_free(blocks.space, blocks.live[index], NULL);
        trap_each_step(false);
        count_steps(ret_free);
        steps = 0;
        trap_each_step(true);
        allocated = facet_space_allocate(blocks.space, size_of(index), NULL, &blocks.live[index], NULL);
        trap_each_step(false);
        count_steps(ret_allocate);
        assert_int_equal(freed, FACET_OK);
        assert_int_equal(allocated, FACET_OK);
    }
}

static void test_steps_do_not_grow(void **state)
{
    struct counted few_free, few_allocate, many_free, many_allocate;
    const struct facet_memory_config config = {.size = sizeof config, .memory_bytes = 512 * MIB};
    const struct facet_space_config space = {.size = sizeof space, .id = 1, .limit_bytes = 512 * MIB};
    struct sigaction trap = {.sa_handler = count_step}, before;

    (void)state;
    stay_on_one_processor();
    assert_int_equal(facet_memory_open_host(&config, &blocks.memory, NULL), FACET_OK);
    assert_int_equal(facet_space_create(blocks.memory, &space, &blocks.space, NULL), FACET_OK);
    assert_int_equal(sigaction(SIGTRAP, &trap, &before), 0);
    grow_to(FEW_BLOCKS);
    count_pairs(&few_free, &few_allocate);
    grow_to(MANY_BLOCKS);
    count_pairs(&many_free, &many_allocate);
    assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
    assert_int_equal(facet_space_destroy(blocks.space, NULL), FACET_OK);
    facet_memory_close(blocks.memory);
    print_message("# instructions of %u frees: %llu, at most %llu each; among many blocks %llu, at most %llu each\n",
                  COUNTED, (unsigned long long)few_free.sum, (unsigned long long)few_free.highest,
                  (unsigned long long)many_free.sum, (unsigned long long)many_free.highest);
    print_message("# of as many allocations: %llu, at most %llu each; among many blocks %llu, at most %llu each\n",
                  (unsigned long long)few_allocate.sum, (unsigned long long)few_allocate.highest,
                  (unsigned long long)many_allocate.sum, (unsigned long long)many_allocate.highest);
    if (!CAN_COUNT || few_free.sum == 0) {
        print_message("# skipped: this processor, or what emulates it, does not stop after each instruction\n");
        skip();
    }
    /* Among few blocks, the next block is more often the one just freed, which saves some calls a step. */
    assert_true(many_free.sum * 2 < few_free.sum * 3);
    assert_true(many_allocate.sum * 2 < few_allocate.sum * 3);
    assert_true(many_free.highest < 2 * few_free.highest);
    assert_true(many_allocate.highest < 2 * few_allocate.highest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_do_not_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
