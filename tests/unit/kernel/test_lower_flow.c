/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that unusual control flow and values come out right, and that what cannot be lowered is refused by name.
 * Never: measures.
 */
#include "lower/lowered.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

static const struct way ways[] = {{0, "", 0}, {1, "", 0}, {3, "", 0}, {3, "-avx512f", 0}};
static const uint32_t sizes[] = {64, 16, 50, 7, 1};

static const struct facet_lower_argument local_arguments[] = {{FACET_ARGUMENT_GLOBAL, 0, 8},
                                                              {FACET_ARGUMENT_GLOBAL, 8, 8},
                                                              {FACET_ARGUMENT_LOCAL, 16, 4},
                                                              {FACET_ARGUMENT_VALUE, 20, 4}};

/* Runs one group of each size in each way; `compare` looks at what came out. */
static void run_all(const char *name, const struct facet_lower_argument *arguments, uint32_t value,
                    void (*compare)(int items, int value))
{
    for (const struct way *way = ways; way < ways + sizeof(ways) / sizeof(*ways); way++) {
        struct loaded loaded = lowered_load(way, LOWER_FLOW, name, arguments, NULL);

        for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            const struct block block = {.first = input, .second = output, .b = value};
            uint32_t size[3] = {sizes[s], 1, 1}, grid[3] = {1, 1, 1};

            lowered_fill(41, 90);
            lowered_run(&loaded, &block, grid, size, sizes[s] * 4, NULL);
            compare((int)sizes[s], (int)value);
        }
        lowered_unload(&loaded);
    }
}

static int tangle(int x)
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
        assert_int_equal(output[i], tangle(input[i]));
    assert_int_equal(output[items], -7);
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
    assert_int_equal(output[4 * items], -7);
}

static void compare_copied(int items, int value)
{
    (void)value;
    for (int i = 0; i < items; i++)
        for (int e = 0; e < 10; e++)
            if (e != 1 && e != 9) /* padding */
                assert_int_equal(output[10 * i + e], input[10 * i + e] + (e == 4 + i % 5));
    assert_int_equal(output[10 * items], -7);
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

static void test_loop_with_two_entries(void **state)
{
    (void)state;
    run_all("tangled", lowered_pointers, 0, compare_tangled);
}

static void test_loop_with_two_entries_and_barriers(void **state)
{
    (void)state;
    for (uint32_t start = 0; start < 4; start++)
        run_all("tangled_barriers", local_arguments, start, compare_tangled_barriers);
}

static void test_switch(void **state)
{
    (void)state;
    run_all("switched", lowered_pointers, 0, compare_switched);
}

static void test_element_by_index(void **state)
{
    (void)state;
    run_all("picked", lowered_pointers, 0, compare_picked);
}

static void test_indices_side_by_side(void **state)
{
    static const uint32_t distances[] = {0, 1, 2, 16, 17, 32, 64};

    (void)state;
    for (size_t i = 0; i < sizeof(distances) / sizeof(*distances); i++)
        run_all("beside", local_arguments, distances[i], compare_beside);
}

static void test_struct_copied(void **state)
{
    (void)state;
    run_all("copied", lowered_pointers, 0, compare_copied);
}

static void refuse(const char *text, const char *what)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = lowered_parse(context, text, NULL);
    struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
    struct facet_error error = {0};

    assert_int_equal(lowered_make(module, &ways[2], &kernel, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "kernel \"k\""));
    if (!strstr(error.message, what))
        fail_msg("%s: expected %s", error.message, what);
    assert_null(kernel.run);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("define void @k(ptr %p) {\n %n = load i32, ptr %p\n %a = alloca i32, i32 %n\n store volatile i32 1, ptr %a\n"
           " ret void\n}\n",
           "size is not known");
    refuse("define void @k(ptr %p) {\n %f = load ptr, ptr %p\n call void %f()\n ret void\n}\n", "through a pointer");
    refuse("define void @k(ptr %p) {\n call void asm sideeffect \"nop\", \"\"()\n ret void\n}\n", "through a pointer");
    refuse("define void @k(ptr %p) {\n %n = load i32, ptr %p\n %t = getelementptr ptr, ptr %p, i32 %n\n"
           " %b = load ptr, ptr %t\n indirectbr ptr %b, [label %x, label %y]\nx:\n ret void\ny:\n store i32 1, ptr %p\n"
           " ret void\n}\ndefine ptr @other() {\n ret ptr blockaddress(@k, %x)\n}\n",
           "cannot be inlined");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_with_two_entries),
        cmocka_unit_test(test_loop_with_two_entries_and_barriers),
        cmocka_unit_test(test_switch),
        cmocka_unit_test(test_element_by_index),
        cmocka_unit_test(test_indices_side_by_side),
        cmocka_unit_test(test_struct_copied),
        cmocka_unit_test(test_refused),
    };

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
