/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that a lowered kernel gives each work-item the result that it would have alone, at every level and
 * width. Each kernel of lower/kernels.ll is compiled in process, run, and compared with plain C. Never: measures.
 */
#include "lower/lowered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

static int allow_access(void *check, const void *address, uint64_t bytes, uint32_t flags, uint32_t item, uint32_t site)
{
    (void)check;
    (void)address;
    (void)bytes;
    (void)flags;
    (void)item;
    (void)site;
    return 1;
}

static void pass_barrier(void *check)
{
    (void)check;
}

static const struct facet_host_check allowing = {
    .size = sizeof(allowing), .access = allow_access, .barrier = pass_barrier};

/* Each mode: the optimization level, features added to the machine's, and whether accesses are checked. */
static const struct mode modes[] = {{0, "", 0},         {1, "", 0}, {2, "-avx512f", 0}, {3, "", 0},
                                    {3, "-avx512f", 0}, {0, "", 1}, {3, "", 1}};

static const struct facet_lower_argument scaled_arguments[] = {{FACET_ARGUMENT_GLOBAL, 0, 8},
                                                               {FACET_ARGUMENT_GLOBAL, 8, 8},
                                                               {FACET_ARGUMENT_VALUE, 16, 4},
                                                               {FACET_ARGUMENT_VALUE, 20, 4}};
static const struct facet_lower_argument local_arguments[] = {{FACET_ARGUMENT_GLOBAL, 0, 8},
                                                              {FACET_ARGUMENT_GLOBAL, 8, 8},
                                                              {FACET_ARGUMENT_LOCAL, 16, 4},
                                                              {FACET_ARGUMENT_VALUE, 20, 4}};
static const struct facet_lower_argument asked_arguments[] = {{FACET_ARGUMENT_GLOBAL, 0, 8},
                                                              {FACET_ARGUMENT_VALUE, 8, 4}};

/* Numbers of items that are multiples of a vector's lanes, smaller than one vector, and between multiples. */
static const uint32_t group_sizes[][3] = {{64, 1, 1}, {16, 4, 1}, {1, 1, 1}, {7, 3, 2}, {50, 1, 1}, {8, 8, 1}};

/* The kernel that was loaded last: it is used again for each size of groups. */
static struct loaded last_loaded;

static struct loaded load_kernel(const struct mode *mode, const char *name,
                                 const struct facet_lower_argument *arguments)
{
    static const struct mode *last_mode;

    if (last_loaded.jit && (mode != last_mode || strcmp(name, last_loaded.kernel.name) != 0))
        lowered_unload(&last_loaded);
    if (!last_loaded.jit)
        last_loaded = lowered_load(mode, LOWER_KERNELS, name, arguments, &allowing);
    last_mode = mode;
    return last_loaded;
}

#define FOR_EACH_MODE(mode, size)                                                                                      \
    for (const struct mode *mode = modes; mode < modes + sizeof(modes) / sizeof(*modes); mode++)                       \
        for (const uint32_t *size = group_sizes[0];                                                                    \
             size < group_sizes[sizeof(group_sizes) / sizeof(*group_sizes) - 1] + 3; size += 3)

static void test_items_beyond_the_bound_do_nothing(void **state)
{
    static float x[WORDS], y[WORDS];

    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "scaled", scaled_arguments);
        struct block block = {.first = x, .second = y, .b = 3 * size[0] - 2};
        float two = 2;

        for (int i = 0; i < WORDS; i++) {
            x[i] = (float)i;
            y[i] = 1;
        }
        memcpy(&block.a, &two, sizeof(two));
        lowered_run(&loaded, &block, (uint32_t[]){3, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        for (uint32_t i = 0; i < 3 * size[0] + 64; i++)
            assert_true(y[i] == (i + 2 < 3 * size[0] ? 2 * (float)i + 1 : 1));
    }
}

static void test_barriers_in_a_loop_order_the_items(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "sums", local_arguments);
        struct block block = {.first = input, .second = output};
        int sum = 0;

        lowered_fill(3, 1000);
        lowered_run(&loaded, &block, (uint32_t[]){5, 1, 1}, (uint32_t[]){size[0], 1, 1}, size[0] * 4, NULL);
        assert_true(loaded.kernel.flags & FACET_HOST_BARRIERS);
        for (uint32_t i = 0; i < 5 * size[0]; i++) {
            sum = i % size[0] ? sum + input[i] : input[i];
            assert_int_equal(output[i], sum);
        }
    }
}

static uint32_t steps_of(uint32_t value, uint32_t index)
{
    uint32_t count = 0;

    while (value != 1) {
        if (count > 90)
            return count + 1000;
        count++;
        if (value & 1) {
            value = 3 * value + 1;
            continue;
        }
        value /= 2;
        if (value % (index + 3) == 5)
            count += 7;
    }
    return count;
}

static void test_divergent_loop_runs_each_item_to_its_end(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "steps", lowered_pointers);
        struct block block = {.first = input, .second = output};

        lowered_fill(7, 5000);
        for (int i = 0; i < WORDS; i++)
            input[i]++;
        lowered_run(&loaded, &block, (uint32_t[]){3, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        for (uint32_t i = 0; i < 3 * size[0]; i++)
            assert_int_equal(output[i], steps_of((uint32_t)input[i], i));
        assert_int_equal(output[3 * size[0]], UNWRITTEN);
    }
}

static int compare_words(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void test_private_memory_is_each_items_own(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "sorted", lowered_pointers);
        struct block block = {.first = input, .second = output};

        lowered_fill(11, 100);
        lowered_run(&loaded, &block, (uint32_t[]){2, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        for (uint32_t i = 0; i < 2 * size[0]; i++) {
            qsort(input + (size_t)i * 8, 8, sizeof(int), compare_words);
            assert_memory_equal(input + (size_t)i * 8, output + (size_t)i * 8, 32);
        }
    }
}

static void test_atomic_additions_lose_nothing(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "counts", lowered_pointers);
        int most = -1, expect[16] = {0}, expect_most = -1, in_group[16];
        struct block block = {.first = input, .second = output, .third = &most};

        lowered_fill(13, 24);
        memset(output, 0, 64);
        lowered_run(&loaded, &block, (uint32_t[]){4, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        for (uint32_t i = 0; i < 4 * size[0]; i++) {
            if (i % size[0] == 0)
                memset(in_group, 0, sizeof(in_group));
            if (input[i] == 3)
                continue;
            expect[input[i] & 15]++;
            if (in_group[input[i] & 15]++ > expect_most)
                expect_most = in_group[input[i] & 15] - 1;
        }
        assert_memory_equal(output, expect, sizeof(expect));
        assert_int_equal(most, expect_most);
    }
}

/* Computes what the kernel `rotated` does, by making each step for all items of a group before the next step. */
static void compute_rotated(const int *x, int *out, uint32_t items, int rounds)
{
    static int mine[4096][4], sum[4096], local[4096];

    for (uint32_t i = 0; i < items; i++) {
        sum[i] = 0;
        for (uint32_t k = 0; k < 4; k++)
            mine[i][(k + i) & 3] = x[i] * (int)(k + 1);
    }
    for (int r = 0; r < rounds; r++) {
        for (uint32_t i = 0; i < items; i++)
            local[i] = mine[i][((uint32_t)r + i) & 3] + sum[i];
        for (uint32_t i = 0; i < items; i++) {
            sum[i] += local[(i + (uint32_t)r + 1) % items];
            if (r & 1)
                mine[i][r & 3] = sum[i];
        }
    }
    for (uint32_t i = 0; i < items; i++)
        out[i] = sum[i] + mine[i][i & 3];
}

static void test_state_is_kept_across_barriers(void **state)
{
    static int expect[WORDS];

    (void)state;
    FOR_EACH_MODE (mode, size) {
        uint32_t items = size[0] * size[1];
        struct loaded loaded = load_kernel(mode, "rotated", local_arguments);
        struct block block = {.first = input, .second = output, .b = 9};

        lowered_fill(17, 50);
        lowered_run(&loaded, &block, (uint32_t[]){2, 3, 1}, (uint32_t[]){size[0], size[1], 1}, items * 4, NULL);
        for (uint32_t g = 0; g < 6; g++)
            compute_rotated(input + (size_t)g * items, expect + (size_t)g * items, items, 9);
        assert_memory_equal(output, expect, (size_t)6 * items * sizeof(int));
    }
}

/* The items' own results are undefined. The run must end, and must not write behind them. */
static void test_group_with_a_divergent_barrier_ends(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "parted", lowered_pointers);
        struct block block = {.first = output};

        lowered_fill(19, 2);
        lowered_run(&loaded, &block, (uint32_t[]){1, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        assert_int_equal(output[size[0]], UNWRITTEN);
    }
}

static void test_work_item_functions_give_each_dimension(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "asked", asked_arguments);

        for (uint32_t d = 0; d < 4; d++) {
            struct {
                void *out;
                uint32_t d;
            } block = {output, d};

            lowered_fill(23, 2);
            lowered_run(&loaded, &block, (uint32_t[]){3, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
            for (uint32_t i = 0; i < 3 * size[0]; i++) /* global id + 10 * group size + 1000 * number of groups */
                assert_int_equal(output[i], d == 0 ? i + 10 * size[0] + 3000 : 1010);
        }
    }
}

static void test_guarded_division_is_exact(void **state)
{
    (void)state;
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "divided", lowered_pointers);
        struct block block = {.first = input, .second = output};

        lowered_fill(29, 4);
        lowered_run(&loaded, &block, (uint32_t[]){3, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
        for (uint32_t i = 0; i < 3 * size[0]; i++)
            assert_int_equal(output[i], input[i] ? 1000 / input[i] + 1000 % input[i] : -1);
    }
}

static int expected_inside(int i)
{
    return input[i - 1] + 3 * input[2 * i] + 7 * input[i / 2] - input[i + 1] + 1000000 / (input[2 * i + 1] | 1);
}

/* Items in [low, high) take the branch of the kernel `inside`. */
static void check_inside(int items, int low, int high)
{
    for (int i = 0; i < items; i++) {
        bool in = i >= low && i < high;
        int after = in ? (expected_inside(i) + 11 * input[low]) ^ (i + 1) : (-1 + 55) ^ 9;

        assert_true(output[i] == (in ? expected_inside(i) : -1) && output[WORDS + i] == after);
    }
}

/* All lanes of some chunks take the branch; of other chunks some lanes, or none, take it. */
static void test_a_branch_taken_by_some_lanes_gives_each_items_result(void **state)
{
    static const int ranges[][2] = {{1, 170}, {16, 32}, {17, 33}, {5, 6}, {32, 32}, {1, 4000}}; /* [first, end) items */

    (void)state;
    lowered_fill(3, 1000);
    FOR_EACH_MODE (mode, size) {
        struct loaded loaded = load_kernel(mode, "inside", scaled_arguments);

        for (size_t r = 0; r < sizeof(ranges) / sizeof(*ranges); r++) {
            const int *range = ranges[r];
            struct block block = {.first = input, .second = output, .a = (uint32_t)range[0], .b = (uint32_t)range[1]};

            memset(output, -1, sizeof(output));
            lowered_run(&loaded, &block, (uint32_t[]){3, 1, 1}, (uint32_t[]){size[0], 1, 1}, 0, NULL);
            check_inside(3 * (int)size[0], range[0], range[1]);
        }
    }
}

static void test_simple_kernels_are_vectorized(void **state)
{
    static const char *const names[] = {"scaled", "steps", "sorted", "divided"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct loaded loaded = load_kernel(&modes[3], names[i], i ? lowered_pointers : scaled_arguments);

        assert_int_equal(loaded.kernel.flags, FACET_HOST_VECTORIZED);
    }
}

#define GLOBAL  "declare i32 @__facet_global_id(i32)\n"
#define LOCAL   "declare i32 @__facet_local_id(i32)\n"
#define SIZE    "declare i32 @__facet_group_size(i32)\n"
#define BARRIER "declare void @__facet_barrier()\n"
#define KERNEL  "define void @k(ptr %p) {\n %i = call i32 @__facet_global_id(i32 0)\n"
#define STORE   " %a = getelementptr i32, ptr %p, i32 %i\n store i32 %i, ptr %a\n ret void\n}\n"
#define ASK(f, d)                                                                                                      \
    " %x = call i32 @__facet_" f "(i32 " d ")\n %b = getelementptr i32, ptr %p, i32 %x\n store i32 7, ptr %b\n"

/* In rows run only kernels without barriers, loops and a required size that ask for no ids in x but the global ones. */
static void test_rows_need_global_ids_alone(void **state)
{
    static const struct {
        const char *text;
        uint32_t required; /* items of the required group size; 0: none */
        bool rows;
    } cases[] = {
        {GLOBAL KERNEL STORE, 0, true},
        {GLOBAL KERNEL STORE, 16, false},
        {GLOBAL LOCAL KERNEL ASK("local_id", "0") STORE, 0, false},
        {GLOBAL LOCAL KERNEL ASK("local_id", "1") STORE, 0, true},
        {GLOBAL LOCAL KERNEL ASK("local_id", "%i") STORE, 0, false},
        {GLOBAL SIZE KERNEL ASK("group_size", "0") STORE, 0, false},
        {GLOBAL SIZE KERNEL ASK("group_size", "2") STORE, 0, true},
        {GLOBAL BARRIER KERNEL " call void @__facet_barrier()\n" STORE, 0, false},
        {GLOBAL KERNEL " br label %l\nl:\n %n = load volatile i32, ptr %p\n %c = icmp eq i32 %n, 0\n"
                       " br i1 %c, label %l, label %e\ne:\n" STORE,
         0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        LLVMContextRef context = LLVMContextCreate();
        LLVMModuleRef module = lowered_parse(context, cases[i].text, NULL);
        struct facet_lower_kernel kernel = {
            .name = "k",
            .arguments = lowered_pointers,
            .required_group_size = {cases[i].required, cases[i].required != 0, cases[i].required != 0}};
        struct facet_error error = {0};

        assert_int_equal(lowered_make(module, &modes[3], &kernel, &error), FACET_OK);
        assert_int_equal((kernel.flags & FACET_HOST_ROWS) != 0, cases[i].rows);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
}

static uint32_t count_multiplications(LLVMValueRef function)
{
    uint32_t count = 0;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            count += LLVMGetInstructionOpcode(at) == LLVMFMul;
    return count;
}

/* The loop mostly loads, and its number of rounds differs from item to item. */
static void test_loop_of_loads_is_unrolled_not_vectorized(void **state)
{
    static const char loop[] =
        GLOBAL KERNEL " %n = load i32, ptr %p\n br label %l\n"
                      "l:\n %at = phi i32 [ %i, %0 ], [ %to, %l ]\n %sum = phi float [ 1.0, %0 ], [ %more, %l ]\n"
                      " %pa = getelementptr i32, ptr %p, i32 %at\n %to = load i32, ptr %pa\n"
                      " %pb = getelementptr i32, ptr %p, i32 %to\n %b = load float, ptr %pb\n"
                      " %more = fmul float %sum, %b\n %c = icmp eq i32 %to, %n\n br i1 %c, label %e, label %l\n"
                      "e:\n %a = getelementptr i32, ptr %p, i32 %i\n store float %more, ptr %a\n ret void\n}\n";
    static const struct {
        uint32_t optimize, steps;
    } cases[] = {{0, 1}, {1, 1}, {2, 4}, {3, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct mode mode = {.optimize = cases[i].optimize, .features = ""};
        LLVMContextRef context = LLVMContextCreate();
        struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
        struct facet_error error = {0};
        LLVMModuleRef module = lowered_parse(context, loop, NULL);
        assert_int_equal(lowered_make(module, &mode, &kernel, &error), FACET_OK);
        assert_int_equal(kernel.flags & FACET_HOST_VECTORIZED, 0);
        assert_int_equal(count_multiplications(kernel.run), cases[i].steps);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
}

static void expect_refused(const char *text, const char *what)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = lowered_parse(context, text, NULL);
    struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
    struct facet_error error = {0};

    assert_int_equal(lowered_make(module, &modes[3], &kernel, &error), FACET_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"k\""));
    assert_non_null(strstr(error.message, what));
    assert_null(kernel.run);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void test_unknown_and_recursive_calls_are_refused(void **state)
{
    (void)state;
    expect_refused("declare void @nowhere()\ndefine void @k(ptr %p) {\n call void @nowhere()\n ret void\n}\n",
                   "\"nowhere\"");
    expect_refused(
        "define internal i32 @again(i32 %n) {\n %z = icmp eq i32 %n, 0\n br i1 %z, label %a, label %b\n"
        "a:\n ret i32 1\nb:\n %m = sub i32 %n, 1\n %r = call i32 @again(i32 %m)\n %s = mul i32 %r, %n\n ret i32 %s\n}\n"
        "define void @k(ptr %p) {\n %n = load i32, ptr %p\n %r = call i32 @again(i32 %n)\n store i32 %r, ptr %p\n"
        " ret void\n}\n",
        "\"again\"");
}

/* Sizes are counted in 32 bits: a larger size, here 4000 bytes more than 4 GiB, is refused, never wrapped around. */
static void test_memory_beyond_32_bits_is_refused(void **state)
{
    (void)state;
    expect_refused("define void @k(ptr %p) {\n %a = alloca [1073742824 x i32]\n %n = load i32, ptr %p\n"
                   " %b = getelementptr i32, ptr %a, i32 %n\n store volatile i32 %n, ptr %b\n ret void\n}\n",
                   "private memory");
    expect_refused("@__facet_local.a = internal global [1073742824 x i32] undef\ndefine void @k(ptr %p) {\n"
                   " %n = load i32, ptr %p\n %b = getelementptr i32, ptr @__facet_local.a, i32 %n\n"
                   " store volatile i32 %n, ptr %b\n ret void\n}\n",
                   "local memory");
}

/* Private memory that is too large for a thread's stack is scratch memory, which one chunk after the other uses. */
static void test_large_private_memory_is_scratch_memory(void **state)
{
    static const struct {
        uint32_t elements;
        bool scratch;
    } cases[] = {{64, false}, {100000, true}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[512];

        snprintf(text, sizeof text,
                 "define void @k(ptr %%p) {\n %%a = alloca [%u x i32]\n %%n = load i32, ptr %%p\n"
                 " %%b = getelementptr i32, ptr %%a, i32 %%n\n store volatile i32 %%n, ptr %%b\n ret void\n}\n",
                 cases[i].elements);
        LLVMContextRef context = LLVMContextCreate();
        LLVMModuleRef module = lowered_parse(context, text, NULL);
        struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
        struct facet_error error = {0};

        assert_int_equal(lowered_make(module, &modes[3], &kernel, &error), FACET_OK);
        assert_int_equal(kernel.scratch_item_bytes, 0);
        if (cases[i].scratch)
            assert_true(kernel.scratch_fixed_bytes >= cases[i].elements * 4);
        else
            assert_int_equal(kernel.scratch_fixed_bytes, 0);
        LLVMDisposeModule(module);
        LLVMContextDispose(context);
    }
}

/* Lowers an atomic instruction on local memory (%h) or global memory (%p) for a processor. `remaining` is the atomic
 * instruction that it becomes, "" for none. */
static void check_atomic(const char *processor, const char *instruction, const char *remaining)
{
    struct mode mode = {.optimize = 3, .features = ""};
    struct facet_lower_kernel kernel = {.name = "k", .arguments = lowered_pointers};
    LLVMContextRef context = LLVMContextCreate();
    struct facet_error error = {0};
    LLVMModuleRef module;
    char text[512], *made;

    snprintf(
        text, sizeof text,
        "@__facet_local.k.h = internal global [4 x i32] undef\ndefine void @k(ptr %%p) {\n %%n = load i32, ptr %%p\n"
        " %%h = getelementptr i32, ptr @__facet_local.k.h, i32 %%n\n"
        " %%old = atomicrmw %s monotonic\n store volatile i32 %%old, ptr %%p\n ret void\n}\n",
        instruction);
    module = lowered_parse(context, text, NULL);
    lowered_processor = processor;
    assert_int_equal(lowered_make(module, &mode, &kernel, &error), FACET_OK);
    lowered_processor = NULL;
    made = LLVMPrintModuleToString(module);
    if ((*remaining && !strstr(made, remaining)) || (!*remaining && strstr(made, "atomicrmw")))
        fail_msg("%s on %s: expected \"%s\"; got\n%s", instruction, processor, remaining, made);
    LLVMDisposeMessage(made);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

/* Local memory is visible only to its group, and needs few atomics. An increment or decrement that wraps at the largest
 * number (-1) equals an addition or subtraction of 1. */
static void test_only_operations_that_need_it_stay_atomic(void **state)
{
    (void)state;
    check_atomic("znver4", "add ptr %h, i32 %n", "");
    check_atomic("znver4", "sub ptr %h, i32 %n", "");
    check_atomic("znver4", "uinc_wrap ptr %h, i32 -1", "");
    check_atomic("znver4", "udec_wrap ptr %h, i32 -1", "");
    check_atomic("znver4", "uinc_wrap ptr %h, i32 9", "atomicrmw uinc_wrap");
    check_atomic("znver4", "nand ptr %h, i32 %n", "atomicrmw nand");
    check_atomic("znver4", "add ptr %p, i32 %n", "atomicrmw add");
    check_atomic("znver4", "uinc_wrap ptr %p, i32 -1", "atomicrmw add");
    check_atomic("znver4", "udec_wrap ptr %p, i32 -1", "atomicrmw sub");
    check_atomic("znver4", "udec_wrap ptr %p, i32 %n", "atomicrmw udec_wrap");
    check_atomic("znver5", "add ptr %h, i32 %n", "atomicrmw add");
    check_atomic("znver5", "uinc_wrap ptr %h, i32 -1", "atomicrmw add");
    check_atomic("znver5", "umax ptr %h, i32 %n", "");
}

static int unload_last(void **state)
{
    (void)state;
    if (last_loaded.jit)
        lowered_unload(&last_loaded);
    return 0;
}

static void test_lanes_follow_the_processor_and_its_features(void **state)
{
    static const struct {
        const char *processor, *features;
        uint32_t lanes;
    } cases[] = {
        {"emeraldrapids", "", 16},
        {"emeraldrapids", "-amx-tile,-avx512fp16", 16}, /* of AVX-512, only half precision is missing */
        {"emeraldrapids", "-avx512fp16,-avx512f,-avx512bw", 8},
        {"znver4", "-avx512f", 8},
        {"znver3", "", 8},
        {"znver3", "+avx512f", 16},
        {"sandybridge", "", 4}, /* it has vectors of 8, but only of floating-point numbers */
        {"x86-64-v2", "", 4},
        {"x86-64", "+avx,+avx2", 8},
        {"generic", "+avx2,+avx512f", 16},
        {"", "", 4},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(facet_lower_lanes("x86_64-unknown-linux-gnu", cases[i].processor, cases[i].features),
                         cases[i].lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_follow_the_processor_and_its_features),
        cmocka_unit_test(test_items_beyond_the_bound_do_nothing),
        cmocka_unit_test(test_barriers_in_a_loop_order_the_items),
        cmocka_unit_test(test_divergent_loop_runs_each_item_to_its_end),
        cmocka_unit_test(test_private_memory_is_each_items_own),
        cmocka_unit_test(test_atomic_additions_lose_nothing),
        cmocka_unit_test(test_only_operations_that_need_it_stay_atomic),
        cmocka_unit_test(test_state_is_kept_across_barriers),
        cmocka_unit_test(test_group_with_a_divergent_barrier_ends),
        cmocka_unit_test(test_work_item_functions_give_each_dimension),
        cmocka_unit_test(test_guarded_division_is_exact),
        cmocka_unit_test(test_a_branch_taken_by_some_lanes_gives_each_items_result),
        cmocka_unit_test(test_simple_kernels_are_vectorized),
        cmocka_unit_test(test_rows_need_global_ids_alone),
        cmocka_unit_test(test_loop_of_loads_is_unrolled_not_vectorized),
        cmocka_unit_test(test_unknown_and_recursive_calls_are_refused),
        cmocka_unit_test(test_memory_beyond_32_bits_is_refused),
        cmocka_unit_test(test_large_private_memory_is_scratch_memory),
    };

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    LLVMInitializeNativeAsmParser();
    return cmocka_run_group_tests(tests, NULL, unload_last);
}
