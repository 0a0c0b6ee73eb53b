/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a checked kernel checks each access to memory that is not private; that it reports each access
 * beyond a variable or local argument, with the access's place in the source; and that a refused access has no effect.
 * Never: judges accesses (providers/cpu/check.c does).
 */
#include "lower/lowered.h"

#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

enum { ITEMS = 24, LINES = 64, ARGUMENT_INTS = 7 };

/* What the checks of each source line reported. The checks of `refused_line` are refused for odd items; 0: none is. */
struct recorder {
    const struct facet_host_site *sites;
    uint32_t refused_line;
    uint32_t check_count[LINES], flags[LINES], barriers;
    uint64_t items[LINES]; /* a bit for each item */
    uint64_t found[LINES]; /* a bit for each item whose access the image itself found to be wrong */
    const void *last_address[LINES];
    uint64_t last_bytes[LINES];
};

static int record_access(void *check, const void *address, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site)
{
    struct recorder *recorder = check;
    uint32_t line = recorder->sites[site].line;

    assert_true(line < LINES);
    assert_string_equal(recorder->sites[site].file, "check.cl");
    recorder->check_count[line]++;
    recorder->flags[line] |= flags;
    recorder->items[line] |= UINT64_C(1) << item;
    if (flags & (FACET_CHECK_PRIVATE | FACET_CHECK_OUTSIDE))
        recorder->found[line] |= UINT64_C(1) << item;
    recorder->last_address[line] = address;
    recorder->last_bytes[line] = bytes;
    return line != recorder->refused_line || item % 2 == 0;
}

static void pass_barrier(void *check)
{
    ((struct recorder *)check)->barriers++;
}

static const struct facet_host_check functions = {
    .size = sizeof(functions), .access = record_access, .barrier = pass_barrier};
static const struct mode modes[] = {{0, "", 1}, {1, "", 1}, {3, "", 1}};

/* Runs with `dynamic_bytes` of local memory, in which a local argument of ARGUMENT_INTS begins at 128. */
static struct recorder run_with(const struct mode *mode, const char *name, const struct facet_lower_argument *arguments,
                                uint32_t dynamic_bytes, uint32_t refused_line)
{
    struct loaded loaded = lowered_load(mode, LOWER_CHECK, name, arguments, &functions);
    struct recorder recorder = {.sites = loaded.sites, .refused_line = refused_line};
    const struct block block = {.first = input, .second = output, .a = 128, .b = ARGUMENT_INTS * 4};

    lowered_fill(5, 1000);
    lowered_run(&loaded, &block, (uint32_t[]){1, 1, 1}, (uint32_t[]){ITEMS, 1, 1}, dynamic_bytes, &recorder);
    assert_int_equal(loaded.kernel.flags & FACET_HOST_VECTORIZED, 0);
    lowered_unload(&loaded);
    recorder.sites = NULL;
    return recorder;
}

static struct recorder run_recorded(const struct mode *mode, const char *name, uint32_t refused_line)
{
    return run_with(mode, name, lowered_pointers, 0, refused_line);
}

/* Checks the memory of an item after the kernel `each`. Line 11 writes to output[item], and each line after it writes
 * 64 elements further on. Lines 13 and 17 write what the atomics of lines 12 and 16 read; a refused read gives 0. */
static void expect_each(int item, uint32_t refused_line)
{
    uint32_t refused = item % 2 ? refused_line : 0;
    int loaded = refused == 10 ? 0 : input[item];

    assert_int_equal(output[item], refused == 11 ? UNWRITTEN : loaded);
    assert_int_equal(output[64 + item], refused == 12 ? UNWRITTEN : UNWRITTEN + 5);
    assert_int_equal(output[128 + item], refused == 13 ? UNWRITTEN : refused == 12 ? 0 : UNWRITTEN);
    assert_int_equal(output[192 + item], refused == 14 ? UNWRITTEN : input[item]);
    assert_int_equal(output[256 + item], refused == 15 ? UNWRITTEN : 0x01010101);
    assert_int_equal(output[320 + item], refused == 16 ? UNWRITTEN : 9);
    assert_int_equal(output[384 + item], refused == 17 ? UNWRITTEN : refused == 16 ? 0 : UNWRITTEN);
}

static void test_each_access_is_checked(void **state)
{
    /* The flags of the checks of lines 10 to 17. */
    static const uint32_t flags[] = {0,
                                     FACET_CHECK_WRITE,
                                     FACET_CHECK_WRITE | FACET_CHECK_ATOMIC,
                                     FACET_CHECK_WRITE,
                                     FACET_CHECK_WRITE,
                                     FACET_CHECK_WRITE,
                                     FACET_CHECK_WRITE | FACET_CHECK_ATOMIC,
                                     FACET_CHECK_WRITE};

    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++) {
        struct recorder recorder = run_recorded(&modes[w], "each", 0);

        for (uint32_t line = 10; line <= 17; line++) {
            assert_int_equal(recorder.check_count[line], line == 14 ? 2 * ITEMS : ITEMS); /* line 14 reads and writes */
            assert_int_equal(recorder.items[line], (UINT64_C(1) << ITEMS) - 1);
            assert_int_equal(recorder.flags[line], flags[line - 10]);
            assert_int_equal(recorder.last_bytes[line], 4);
        }
        assert_ptr_equal(recorder.last_address[10], &input[ITEMS - 1]);
        assert_ptr_equal(recorder.last_address[16], &output[320 + ITEMS - 1]);
        for (int i = 0; i < ITEMS; i++)
            expect_each(i, 0);
    }
}

static void test_a_refused_access_has_no_effect(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++)
        for (uint32_t line = 10; line <= 17; line++) {
            run_recorded(&modes[w], "each", line);
            for (int i = 0; i < ITEMS; i++)
                expect_each(i, line);
        }
}

static void test_accesses_to_private_memory_are_not_checked(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++) {
        struct recorder recorder = run_recorded(&modes[w], "either", 0);

        assert_int_equal(recorder.check_count[21], 0);
        for (uint32_t line = 22; line <= 23; line++) {
            assert_int_equal(recorder.check_count[line], ITEMS / 2);
            assert_int_equal(recorder.items[line], UINT64_C(0x555555)); /* the even items */
        }
        assert_int_equal(recorder.check_count[24], ITEMS);
        for (int i = 0; i < ITEMS; i++) {
            assert_int_equal(output[i], i % 2 ? UNWRITTEN : i);
            assert_int_equal(output[64 + i], i % 2 ? 2 * i : i + 77);
        }
    }
}

/* The bits of items [first, end). */
static uint64_t item_range(int first, int end)
{
    return (UINT64_C(1) << end) - (UINT64_C(1) << first);
}

/* In `wild`, each item writes to element item - 2 of 4 private ints. Then odd items read that element, and even items
 * read element item - 3 of 8 other ints. Last, each item fills the first 2 * (item - 2) bytes of the 4 ints. The
 * recorder allows every access, yet accesses beyond the variables have no effect. */
static void test_accesses_beyond_a_private_variable_are_reported(void **state)
{
    const uint64_t odd = UINT64_C(0xaaaaaa), even = UINT64_C(0x555555);

    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++) {
        struct recorder recorder = run_recorded(&modes[w], "wild", 0);

        assert_int_equal(recorder.check_count[40], 0);
        assert_int_equal(recorder.items[41], item_range(0, 2) | item_range(6, ITEMS));
        assert_int_equal(recorder.flags[41], FACET_CHECK_PRIVATE | FACET_CHECK_WRITE);
        assert_int_equal(recorder.items[42], (odd & (item_range(0, 2) | item_range(6, ITEMS))) |
                                                 (even & (item_range(0, 3) | item_range(11, ITEMS))));
        assert_int_equal(recorder.flags[42], FACET_CHECK_PRIVATE);
        assert_int_equal(recorder.last_bytes[42], 4);
        assert_int_equal(recorder.items[44], item_range(0, 2) | item_range(11, ITEMS));
        for (int i = 0; i < ITEMS; i++) {
            assert_int_equal(output[i], i % 2 && i >= 2 && i < 6 ? 7 : i == 10 ? 6 : 0);
            if (i >= 4 && i <= 10)
                assert_int_equal(output[64 + i], 0x01010101);
        }
    }
}

static void test_accesses_to_local_memory_and_barriers_are_checked(void **state)
{
    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++) {
        struct recorder recorder = run_recorded(&modes[w], "shared", 0);

        assert_int_equal(recorder.barriers, 2);
        assert_int_equal(recorder.flags[30], FACET_CHECK_LOCAL | FACET_CHECK_WRITE);
        assert_int_equal(recorder.flags[31], FACET_CHECK_LOCAL | FACET_CHECK_WRITE | FACET_CHECK_ATOMIC);
        assert_int_equal(recorder.flags[32], FACET_CHECK_LOCAL);
        assert_int_equal(recorder.flags[33], FACET_CHECK_WRITE);
        for (int i = 0; i < ITEMS; i++)
            assert_int_equal(output[i], i == ITEMS - 1 ? ITEMS : ITEMS - 1 - i);
    }
}

/* In `ends`, each item accesses element item - 2 of 5 ints of local memory (line 52), of a local argument (line 53),
 * and of 5 ints of constant memory (line 54). On line 56, odd items access that element of 3 other ints of local
 * memory, and even items that of 5 other constants. At the end, each item reads the last constant (line 57) and the int
 * behind it (line 58). Variables take more memory than their sizes, which are rounded up, so that only the checks find
 * accesses beyond them. */
static void expect_ends(const struct recorder *recorder)
{
    const uint64_t odd = UINT64_C(0xaaaaaa), even = UINT64_C(0x555555), all = item_range(0, ITEMS);

    assert_int_equal(recorder->items[52], all);
    assert_int_equal(recorder->found[52], item_range(0, 2) | item_range(7, ITEMS));
    assert_int_equal(recorder->flags[52], FACET_CHECK_LOCAL | FACET_CHECK_OUTSIDE | FACET_CHECK_WRITE);
    assert_int_equal(recorder->items[53], all);
    assert_int_equal(recorder->found[53], item_range(0, 2) | item_range(2 + ARGUMENT_INTS, ITEMS));
    assert_int_equal(recorder->flags[53], FACET_CHECK_LOCAL | FACET_CHECK_OUTSIDE | FACET_CHECK_WRITE);
    assert_int_equal(recorder->items[54], item_range(0, 2) | item_range(7, ITEMS));
    assert_int_equal(recorder->found[54], recorder->items[54]);
    assert_int_equal(recorder->flags[54], FACET_CHECK_OUTSIDE);
    assert_int_equal(recorder->items[56], odd | (even & (item_range(0, 2) | item_range(7, ITEMS))));
    assert_int_equal(recorder->found[56], (odd & (item_range(0, 2) | item_range(5, ITEMS))) |
                                              (even & (item_range(0, 2) | item_range(7, ITEMS))));
    assert_int_equal(recorder->items[57], 0);
    assert_int_equal(recorder->found[58], all);
    for (int i = 0; i < ITEMS; i++) {
        assert_int_equal(output[i], i >= 2 && i < 7 ? 70 + i - 2 : 0);
        assert_int_equal(output[64 + i], 74);
    }
}

static void test_accesses_beyond_local_memory_and_constants_are_reported(void **state)
{
    const struct facet_lower_argument arguments[3] = {
        {FACET_ARGUMENT_GLOBAL, 0, 8}, {FACET_ARGUMENT_GLOBAL, 8, 8}, {FACET_ARGUMENT_LOCAL, 16, 8}};

    (void)state;
    for (size_t w = 0; w < sizeof(modes) / sizeof(*modes); w++) {
        struct recorder recorder = run_with(&modes[w], "ends", arguments, 256, 0);

        expect_ends(&recorder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_access_is_checked),
        cmocka_unit_test(test_a_refused_access_has_no_effect),
        cmocka_unit_test(test_accesses_to_private_memory_are_not_checked),
        cmocka_unit_test(test_accesses_beyond_a_private_variable_are_reported),
        cmocka_unit_test(test_accesses_to_local_memory_and_barriers_are_checked),
        cmocka_unit_test(test_accesses_beyond_local_memory_and_constants_are_reported),
    };

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
