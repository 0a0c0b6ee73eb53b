/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that unusual control flow and values are lowered correctly, and that code that cannot be lowered is
 * refused by name.
 * Never: measures.
 */
#include "lower/lowered.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llvm-c/Target.h>

/* Each mode: the optimization level, features added to the machine's, and whether accesses are checked. */
static const struct mode modes[] = {{0, "", 0}, {1, "", 0}, {3, "", 0}, {3, "-avx512f", 0}};
static const uint32_t group_sizes[] = {64, 16, 50, 7, 1};

static const struct facet_lower_argument local_arguments[] = {{FACET_ARGUMENT_GLOBAL, 0, 8},
                                                              {FACET_ARGUMENT_GLOBAL, 8, 8},
                                                              {FACET_ARGUMENT_LOCAL, 16, 4},
                                                              {FACET_ARGUMENT_VALUE, 20, 4}};

/* Runs one group of each size in each mode, with `value` as the value argument; `compare` checks the results. */
static void run_in_all_modes(const char *name, const struct facet_lower_argument *arguments, uint32_t value,
                             void (*compare)(int items, int value))
{
    for (const struct mode *mode = modes; mode < modes + sizeof(modes) / sizeof(*modes); mode++) {
        struct loaded loaded = lowered_load(mode, LOWER_FLOW, name, arguments, NULL);

        for (size_t s = 0; s < sizeof(group_sizes) / sizeof(*group_sizes); s++) {
            const struct block block = {.first = input, .second = output, .b = value};
            uint32_t size[3] = {group_sizes[s], 1, 1}, grid[3] = {1, 1, 1};

            lowered_fill(41, 90);
            lowered_run(&loaded, &block, grid, size, group_sizes[s] * 4, NULL);
            compare((int)group_sizes[s], (int)value);
        }
        lowered_unload(&loaded);
    }
}

/* What the kernel `tangled` gives for x: odd numbers enter the loop in its half "a", even numbers in the other half. */
static int expected_tangled(int x)
{
    bool in_a = x & 1;

    for (;; in_a = !in_a) {
        x = in_a ? x + 3 : x * 2;
        if (x > (in_a ? 1000 : 700))
            return x;
    }
}

static void compare_tangled(int items, int value)
{
    (void)value;
    for (int i = 0; i < items; i++)
        assert_int_equal(output[i], expected_tangled(input[i]));
    assert_int_equal(output[items], UNWRITTEN);
}

static void compare_tangled_barriers(int items, int value)
{
    static int now[64], next[64];
    bool in_a = value & 1;

    memcpy(now, input, sizeof(now));
    for (int k = value;; in_a = !in_a) {
        for (int i = 0; i < items; i++)
            next[i] = in_a ? now[(i + 1) % items] + 1 : now[(i + 1) % items] * 2;
        memcpy(now, next, sizeof(now));
        if (++k > 6 && !in_a)
            break;
    }
    assert_memory_equal(output, now, (size_t)items * sizeof(int));
}

static int switch_once(int v)
{
    switch (v & 7) {
    case 0:
        v += 11; /* fall through */
    case 1:
        v *= 3; /* fall through */
    case 2:
        v ^= 5;
        break;
    default:
        break;
    }
    return v + 1;
}

static void compare_switched(int items, int value)
{
    (void)value;
    for (int i = 0; i < items; i++) {
        int v = input[i];

        for (int k = 0; k < 20 && (v & 7) != 5; k++)
            v = switch_once(v);
        assert_int_equal(output[i], v);
    }
}

static void compare_picked(int items, int value)
{
    (void)value;
    for (int i = 0; i < items; i++)
        for (int e = 0; e < 4; e++)
            assert_int_equal(output[4 * i + e], e ? input[4 * i + e] + e + 1 : input[4 * i + i % 4] + i % 4 + 1);
    assert_int_equal(output[4 * items], UNWRITTEN);
}

static void compare_copied(int items, int value)
{
    (void)value;
    for (int i = 0; i < items; i++)
        for (int e = 0; e < 10; e++)
            if (e != 1 && e != 9) /* padding */
                assert_int_equal(output[10 * i + e], input[10 * i + e] + (e == 4 + i % 5));
    assert_int_equal(output[10 * items], UNWRITTEN);
}

static void compare_beside(int items, int value)
{
    for (int i = 0; i < items; i++) {
        int clamped = i + value < 4 ? 4 : i + value;

        clamped = clamped > items - 1 ? items - 1 : clamped;
        assert_int_equal(output[i], ((input[clamped] * 7 + input[i ^ value]) * 5 + input[(i + value) % 24]) * 3 +
                                        input[i / 2 * 3 + i % 2]);
    }
}

static void test_loop_with_two_entries_gives_each_items_result(void **state)
{
    (void)state;
    run_in_all_modes("tangled", lowered_pointers, 0, compare_tangled);
}

static void test_loop_with_two_entries_may_hold_barriers(void **state)
{
    (void)state;
    for (uint32_t start = 0; start < 4; start++)
        run_in_all_modes("tangled_barriers", local_arguments, start, compare_tangled_barriers);
}

static void test_switch_takes_each_case(void **state)
{
    (void)state;
    run_in_all_modes("switched", lowered_pointers, 0, compare_switched);
}

static void test_element_is_picked_by_index(void **state)
{
    (void)state;
    run_in_all_modes("picked", lowered_pointers, 0, compare_picked);
}

static void test_indices_that_mostly_grow_by_one_load_the_right_values(void **state)
{
    static const uint32_t distances[] = {0, 1, 2, 16, 17, 32, 64}; /* elements; a vector has up to 16 lanes */

    (void)state;
    for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++)
        run_in_all_modes("beside", local_arguments, distances[i], compare_beside);
}

static void test_copied_struct_keeps_its_fields(void **state)
{
    (void)state;
    run_in_all_modes("copied", lowered_pointers, 0, compare_copied);
}

static void expect_refused(const char *text, const char *what)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = lowered_parse(context, text, NULL);
    struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
    struct facet_error error = {0};

    assert_int_equal(lowered_make(module, &modes[2], &kernel, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "kernel \"k\""));
    if (!strstr(error.message, what))
        fail_msg("%s: expected %s", error.message, what);
    assert_null(kernel.run);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void test_unsupported_flow_is_refused(void **state)
{
    (void)state;
    expect_refused(
        "define void @k(ptr %p) {\n %n = load i32, ptr %p\n %a = alloca i32, i32 %n\n store volatile i32 1, ptr %a\n"
        " ret void\n}\n",
        "size is not known");
    expect_refused("define void @k(ptr %p) {\n %f = load ptr, ptr %p\n call void %f()\n ret void\n}\n",
                   "through a pointer");
    expect_refused("define void @k(ptr %p) {\n call void asm sideeffect \"nop\", \"\"()\n ret void\n}\n",
                   "inline assembly");
    expect_refused(
        "define void @k(ptr %p) {\n %n = load i32, ptr %p\n %t = getelementptr ptr, ptr %p, i32 %n\n"
        " %b = load ptr, ptr %t\n indirectbr ptr %b, [label %x, label %y]\nx:\n ret void\ny:\n store i32 1, ptr %p\n"
        " ret void\n}\ndefine ptr @other() {\n ret ptr blockaddress(@k, %x)\n}\n",
        "cannot be inlined");
}

/* Dividends and divisors: the least and largest of each width, and numbers near 0. */
static const int64_t corners[] = {0,   1,   -1,   2,         -2,        7,         -7,        100,
                                  127, 128, -128, INT16_MIN, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
enum { CORNERS = sizeof(corners) / sizeof(*corners), PAIRS = CORNERS * CORNERS };

static int64_t narrow_to_bits(int64_t value, uint32_t bits, bool is_signed)
{
    uint64_t high = (uint64_t)value << (64 - bits);

    return is_signed ? (int64_t)high >> (64 - bits) : (int64_t)(high >> (64 - bits));
}

/* Returns false where the result is undefined. */
static bool divide_bits(int64_t a, int64_t b, uint32_t bits, const char *operation, int64_t *ret_result)
{
    bool is_signed = operation[0] == 's', remainder = operation[1] == 'r';

    a = narrow_to_bits(a, bits, is_signed);
    b = narrow_to_bits(b, bits, is_signed);
    if (b == 0 || (is_signed && b == -1 && a == INT64_MIN >> (64 - bits)))
        return false;
    if (is_signed)
        *ret_result = remainder ? a % b : a / b;
    else
        *ret_result = (int64_t)(remainder ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b);
    return true;
}

static int allow_access(void *check, const void *address, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site)
{
    (void)check, (void)address, (void)bytes, (void)flags, (void)item, (void)site;
    return 1;
}

static void pass_barrier(void *check)
{
    (void)check;
}

/* Writes the text of a kernel "k" to a file and loads it. */
static struct loaded load_text(const struct mode *mode, const char *text)
{
    static const struct facet_host_check allowing = {
        .size = sizeof(allowing), .access = allow_access, .barrier = pass_barrier};
    char path[] = "/tmp/facet-lower-XXXXXX";
    int file = mkstemp(path);
    struct loaded loaded;

    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    close(file);
    loaded = lowered_load(mode, path, "k", lowered_pointers, &allowing);
    unlink(path);
    return loaded;
}

/* Writes a kernel whose even items, and no others, divide integers of `bits` bits, or vectors of two such integers. */
static void write_division(char *text, size_t size, uint32_t bits, const char *operation, bool vector)
{
    const char *cast = bits == 64 ? "bitcast" : "trunc";
    char middle[512];

    if (vector)
        snprintf(middle, sizeof(middle),
                 " %%va = insertelement <2 x i%u> splat (i%u 5), i%u %%a, i32 1\n"
                 " %%vb = insertelement <2 x i%u> zeroinitializer, i%u %%b, i32 1\n"
                 " %%vq = %s <2 x i%u> %%va, %%vb\n %%q = extractelement <2 x i%u> %%vq, i32 1\n",
                 bits, bits, bits, bits, bits, operation, bits, bits);
    else
        snprintf(middle, sizeof(middle), " %%q = %s i%u %%a, %%b\n", operation, bits);
    snprintf(text, size,
             "define void @k(ptr %%in, ptr %%out, ptr %%none) {\n %%l = call i32 @__facet_local_id(i32 0)\n"
             " %%i = zext i32 %%l to i64\n %%pa = getelementptr {i64, i64}, ptr %%in, i64 %%i\n"
             " %%pb = getelementptr i64, ptr %%pa, i64 1\n %%a0 = load i64, ptr %%pa\n %%b0 = load i64, ptr %%pb\n"
             " %%a = %s i64 %%a0 to i%u\n %%b = %s i64 %%b0 to i%u\n %%odd = trunc i32 %%l to i1\n"
             " br i1 %%odd, label %%end, label %%some\nsome:\n%s %%r = %s i%u %%q to i64\n"
             " %%po = getelementptr i64, ptr %%out, i64 %%i\n store i64 %%r, ptr %%po\n br label %%end\nend:\n"
             " ret void\n}\ndeclare i32 @__facet_local_id(i32)\n",
             cast, bits, cast, bits, middle,
             bits == 64            ? "bitcast"
             : operation[0] == 's' ? "sext"
                                   : "zext",
             bits);
}

/* `swap` is 0 or 1: with one of them, an item that divides has a given pair of numbers; with the other, one that does
 * not. */
static void compare_division(const struct loaded *loaded, uint32_t bits, const char *operation, uint32_t swap)
{
    static int64_t pairs[PAIRS][2], results[PAIRS];
    const struct block block = {.first = pairs, .second = results};
    int64_t expected;

    for (uint32_t i = 0; i < PAIRS; i++) {
        pairs[i ^ swap][0] = corners[i / CORNERS];
        pairs[i ^ swap][1] = corners[i % CORNERS];
    }
    memset(results, 0x55, sizeof(results));
    lowered_run(loaded, &block, (uint32_t[]){1, 1, 1}, (uint32_t[]){PAIRS, 1, 1}, 0, NULL);
    for (uint32_t i = 0; i < PAIRS; i++)
        if (i % 2)
            assert_true(results[i] == INT64_C(0x5555555555555555));
        else if (divide_bits(pairs[i][0], pairs[i][1], bits, operation, &expected))
            assert_true(results[i] == expected);
}

static void test_division_never_traps(void **state)
{
    static const struct mode all_modes[] = {{0, "", 0}, {1, "", 0}, {2, "", 0}, {3, "", 0}, {0, "", 1}, {3, "", 1}};
    static const char *const operations[] = {"sdiv", "udiv", "srem", "urem"};
    char text[2048];

    (void)state;
    for (uint32_t w = 0; w < sizeof(all_modes) / sizeof(*all_modes); w++)
        for (uint32_t i = 0; i < 32; i++) { /* 4 operations, of integers or of vectors, of 8, 16, 32 or 64 bits */
            write_division(text, sizeof(text), 8u << i / 8, operations[i % 4], i / 4 % 2);
            struct loaded loaded = load_text(&all_modes[w], text);

            compare_division(&loaded, 8u << i / 8, operations[i % 4], 0);
            compare_division(&loaded, 8u << i / 8, operations[i % 4], 1);
            lowered_unload(&loaded);
        }
}

/* A single basic block of 8000 loads and sums has more instructions than the code generator takes at once. */
static void test_a_block_of_8000_terms_is_compiled(void **state)
{
    enum { TERMS = 8000 };
    size_t size = TERMS * 128 + 256, used;
    char *text = malloc(size);
    const struct block block = {.first = input, .second = output};
    uint32_t expected = 0;

    (void)state;
    used = (size_t)snprintf(text, size,
                            "define void @k(ptr %%in, ptr %%out, ptr %%none) {\n %%s0 = load i32, ptr %%out\n");
    for (int i = 0; i < TERMS; i++)
        used += (size_t)snprintf(text + used, size - used,
                                 " %%p%d = getelementptr i32, ptr %%in, i64 %d\n %%v%d = load i32, ptr %%p%d\n"
                                 " %%s%d = add i32 %%s%d, %%v%d\n",
                                 i, i, i, i, i + 1, i, i);
    snprintf(text + used, size - used, " store i32 %%s%d, ptr %%out\n ret void\n}\n", TERMS);
    struct loaded loaded = load_text(&modes[2], text);

    lowered_fill(9, 1 << 24);
    for (int i = 0; i < TERMS; i++)
        expected += (uint32_t)input[i];
    lowered_run(&loaded, &block, (uint32_t[]){1, 1, 1}, (uint32_t[]){1, 1, 1}, 0, NULL);
    assert_int_equal((uint32_t)output[0], expected - 7); /* -7: the value of output[0] before, UNWRITTEN */
    lowered_unload(&loaded);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_with_two_entries_gives_each_items_result),
        cmocka_unit_test(test_loop_with_two_entries_may_hold_barriers),
        cmocka_unit_test(test_switch_takes_each_case),
        cmocka_unit_test(test_element_is_picked_by_index),
        cmocka_unit_test(test_indices_that_mostly_grow_by_one_load_the_right_values),
        cmocka_unit_test(test_copied_struct_keeps_its_fields),
        cmocka_unit_test(test_unsupported_flow_is_refused),
        cmocka_unit_test(test_division_never_traps),
        cmocka_unit_test(test_a_block_of_8000_terms_is_compiled),
    };

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
