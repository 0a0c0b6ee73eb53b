/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs that variables and values that are too large or too strictly aligned are refused by name, on every
 * target, before code is made of them. tests/integration/kernel/test_group.py proves that images keep the alignments
 * that are accepted.
 * Never: measures.
 */
#include "growing.h"

static const char *const some_targets[] = {"host", "ptx:sm_90", "amdgcn:gfx90a"};

/* Expects a status, and a message that contains `fragment`, for the first `count` targets. */
static void expect_for(size_t count, const char *text, enum facet_status expected, const char *fragment)
{
    struct text source = {0};

    add(&source, text, 1);
    for (size_t i = 0; i < count; i++)
        expect(&source, some_targets[i], expected, fragment);
    free(source.bytes);
}

static void expect_for_all(const char *text, enum facet_status expected, const char *fragment)
{
    expect_for(COUNT(some_targets), text, expected, fragment);
}

static void expect_module(const char *body, const char *target, enum facet_status expected, const char *fragment)
{
    static const char head[] = "target datalayout = \"e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-"
                               "v512:512-v1024:1024\"\ntarget triple = \"spir64-unknown-unknown\"\n";
    struct facet_backend_result result = {0};
    struct facet_error error = {0};
    struct text source = {0};

    add(&source, head, 1);
    add(&source, body, 1);
    enum facet_status status =
        compile_bytes(FACET_SOURCE_LLVM_IR, source.bytes, source.used, target, NULL, &result, &error);
    if (status != expected || !strstr(error.message, fragment))
        fail_msg("%s: status %d: \"%s\"; expected %d and \"%s\"", target, status, error.message, expected, fragment);
    backend->clear(&result);
    free(source.bytes);
}

static void variables_are_aligned_to_a_page_at_most(void **state)
{
    (void)state;
    expect_for_all("constant int x[2] __attribute__((aligned(4096))) = {7, 8};\n"
                   "kernel void k(global int *o) { o[0] = x[o[1]]; }\n",
                   FACET_OK, "");
    expect_for_all("constant int x[2] __attribute__((aligned(268435456))) = {7, 8};\n"
                   "kernel void k(global int *o) { o[0] = x[o[1]]; }\n",
                   FACET_CORRUPT, "'x' is aligned to 268435456 bytes; expected at most 4096");
    expect_for_all("kernel void k(global int *o) { local int x[2] __attribute__((aligned(8192)));\n"
                   "x[o[2]] = 1; barrier(1); o[0] = x[o[1]]; }\n",
                   FACET_CORRUPT, "'k.x' is aligned to 8192 bytes; expected at most 4096");
    expect_for_all("kernel void k(global int *o) { int x[2] __attribute__((aligned(8192)));\n"
                   "x[o[2]] = 1; o[0] = x[o[1]]; }\n",
                   FACET_CORRUPT, "'k': a private variable is aligned to 8192 bytes; expected at most 4096");
}

/* The block of arguments is aligned to 128 bytes, so that no argument can be aligned to more. */
static void structs_by_value_are_aligned_to_128_at_most(void **state)
{
    (void)state;
    expect_for_all("typedef struct { int a; } __attribute__((aligned(128))) wide;\n"
                   "kernel void k(wide w, global int *o) { o[0] = w.a; }\n",
                   FACET_OK, "");
    /* For AMDGPU, the last target, clang 19 passes the struct as a value outside memory, which has no alignment. */
    expect_for(COUNT(some_targets) - (strstr(backend->version, "LLVM 19.") ? 1 : 0),
               "typedef struct { int a; } __attribute__((aligned(256))) wide;\n"
               "kernel void k(wide w, global int *o) { o[0] = w.a; }\n",
               FACET_CORRUPT, "'k': a struct by value is aligned to 256 bytes; expected at most 128");
}

/* One of the alignments is 2^32, which would be 0 in 32 bits. */
static void modules_that_ask_for_larger_alignments_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(some_targets); i++) {
        expect_module("@x = internal addrspace(1) global i32 0, align 4294967296\n"
                      "define spir_kernel void @k(ptr addrspace(1) %o) {\n store i32 1, ptr addrspace(1) @x\n"
                      " ret void\n}\n",
                      some_targets[i], FACET_CORRUPT, "'x' is aligned to 4294967296 bytes; expected at most 4096");
        expect_module("define spir_kernel void @k(ptr addrspace(1) %o) align 8192 {\n ret void\n}\n", some_targets[i],
                      FACET_CORRUPT, "'k' is aligned to 8192 bytes");
    }
}

static void variables_of_more_than_256_mib_together_are_refused(void **state)
{
    (void)state;
    expect_for_all("constant int y[2] = {1, 2}; constant int x[67108864] = {7, 8};\n"
                   "kernel void k(global int *o) { o[0] = x[o[1]] + y[o[2]]; }\n",
                   FACET_CORRUPT, " bytes together, of which 'x' has 268435456; expected at most 268435456");
}

/* Code generators would make a value of each element of such an array. 1024 elements of 4 bytes are allowed. */
static void large_arrays_as_values_are_refused(void **state)
{
    static const char body[] = "define spir_kernel void @k(ptr addrspace(1) %%o) {\n"
                               " %%x = load [%u x i32], ptr addrspace(1) %%o\n"
                               " store [%u x i32] %%x, ptr addrspace(1) %%o\n ret void\n}\n";
    char text[512];

    (void)state;
    snprintf(text, sizeof text, body, 1024, 1024);
    expect_module(text, "host", FACET_OK, "");
    snprintf(text, sizeof text, body, 1025, 1025);
    expect_module(text, "host", FACET_CORRUPT,
                  "a value of more than 4096 bytes, which should be copied as memory, in 'k'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_are_aligned_to_a_page_at_most),
        cmocka_unit_test(structs_by_value_are_aligned_to_128_at_most),
        cmocka_unit_test(modules_that_ask_for_larger_alignments_are_refused),
        cmocka_unit_test(variables_of_more_than_256_mib_together_are_refused),
        cmocka_unit_test(large_arrays_as_values_are_refused),
    };

    open_backend(NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
