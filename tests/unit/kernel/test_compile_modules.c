/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of how the built kernel compiler takes or refuses modules of LLVM IR and SPIR-V, valid and broken ones.
 * Never: measures; needs a device.
 */
#include "compiling.h"

/* --- LLVM IR and SPIR-V ------------------------------------------------------------------------------------------- */

static const char module[] = "target triple = \"spir64-unknown-unknown\"\n"
                             "@tile = internal addrspace(3) global [4 x float] undef\n"
                             "declare spir_func i64 @_Z13get_global_idj(i32)\n"
                             "declare spir_func float @_Z3expf(float)\n"
                             "declare void @llvm.memcpy.p0.p2.i64(ptr, ptr addrspace(2), i64, i1)\n"
                             "declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)\n"
                             "define spir_kernel void @k(ptr addrspace(1) %x, ptr addrspace(2) %c) {\n"
                             "  %own = alloca [4 x float]\n"
                             "  call void @llvm.memcpy.p0.p2.i64(ptr %own, ptr addrspace(2) %c, i64 16, i1 false)\n"
                             "  call void @llvm.memcpy.p0.p1.i64(ptr %own, ptr addrspace(1) %x, i64 8, i1 false)\n"
                             "  %any = addrspacecast ptr %own to ptr addrspace(4)\n"
                             "  %i = call spir_func i64 @_Z13get_global_idj(i32 0)\n"
                             "  %m = and i64 %i, 3\n"
                             "  %p = getelementptr float, ptr addrspace(4) %any, i64 %m\n"
                             "  %v = load float, ptr addrspace(4) %p\n"
                             "  %e = call spir_func float @_Z3expf(float %v)\n"
                             "  store float %e, ptr addrspace(3) @tile\n"
                             "  %t = load float, ptr addrspace(3) @tile\n"
                             "  %q = getelementptr float, ptr addrspace(1) %x, i64 %i\n"
                             "  store float %t, ptr addrspace(1) %q\n"
                             "  ret void\n}\n";

static void modules_are_taken_for_all_targets(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct facet_backend_result result;
        struct facet_error error;

        if (is_beyond(targets[i]))
            continue;
        if (compile_bytes(FACET_SOURCE_LLVM_IR, module, strlen(module), targets[i], NULL, &result, &error) != FACET_OK)
            fail_msg("%s: %s", targets[i], error.message);
        assert_non_null(strstr(result.description, "\"name\":\"k\""));
        backend->clear(&result);
    }
}

static void expect_refused(uint32_t kind, const void *source, size_t bytes, enum facet_status expected,
                           const char *text)
{
    struct facet_backend_result result;
    struct facet_error error;
    enum facet_status status = compile_bytes(kind, source, bytes, "ptx:sm_75", NULL, &result, &error);

    if (status != expected || !strstr(error.message, text))
        fail_msg("status %d: \"%s\"; expected %d and \"%s\"", status, error.message, expected, text);
    assert_null(result.image);
    backend->clear(&result);
}

/* --- the content of a module -------------------------------------------------------------------------------------- */

#define MODULE "target triple = \"spir64-unknown-unknown\"\n"
#define KERNEL "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
#define END    "  ret void\n}\n"

static void compile_for(const char *target, const char *source, enum facet_status expected, const char *text,
                        const char *more)
{
    struct facet_backend_result result;
    struct facet_error error = {0};
    enum facet_status status =
        compile_bytes(FACET_SOURCE_LLVM_IR, source, strlen(source), target, NULL, &result, &error);

    if (status != expected || !strstr(error.message, text) || !strstr(error.message, more))
        fail_msg("%s: status %d: \"%s\"; expected %d, \"%s\" and \"%s\" of\n%s", target, status, error.message,
                 expected, text, more, source);
    backend->clear(&result);
}

/* Among these are intrinsics that copy memory without a check, call the system, or change the thread that runs them. */
static void intrinsics_are_refused_unless_they_are_known(void **state)
{
    static const struct {
        const char *name, *source;
    } modules[] = {
        {"llvm.masked.store.v4i32.p1",
         MODULE "declare void @llvm.masked.store.v4i32.p1(<4 x i32>, ptr addrspace(1), i32, <4 x i1>)\n" KERNEL
                "  call void @llvm.masked.store.v4i32.p1(<4 x i32> zeroinitializer, ptr addrspace(1) %x, i32 4, "
                "<4 x i1> <i1 1, i1 1, i1 1, i1 0>)\n" END},
        {"llvm.masked.gather.v4i32",
         MODULE "declare <4 x i32> @llvm.masked.gather.v4i32.v4p1(<4 x ptr addrspace(1)>, i32, <4 x i1>, <4 x i32>)\n"
                "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
                "  %p = getelementptr i32, ptr addrspace(1) %x, <4 x i64> <i64 0, i64 9, i64 18, i64 27>\n"
                "  %v = call <4 x i32> @llvm.masked.gather.v4i32.v4p1(<4 x ptr addrspace(1)> %p, i32 4, "
                "<4 x i1> <i1 1, i1 1, i1 1, i1 0>, <4 x i32> zeroinitializer)\n"
                "  store <4 x i32> %v, ptr addrspace(1) %x\n" END},
        {"llvm.x86.avx.maskstore.ps",
         MODULE "declare void @llvm.x86.avx.maskstore.ps(ptr, <4 x i32>, <4 x float>)\n" KERNEL
                "  call void @llvm.x86.avx.maskstore.ps(ptr null, <4 x i32> zeroinitializer, "
                "<4 x float> zeroinitializer)\n" END},
        {"llvm.memcpy.inline", MODULE "declare void @llvm.memcpy.inline.p1.p1.i64(ptr addrspace(1), ptr addrspace(1), "
                                      "i64, i1)\n" KERNEL "  %y = getelementptr i8, ptr addrspace(1) %x, i64 1000000\n"
                                      "  call void @llvm.memcpy.inline.p1.p1.i64(ptr addrspace(1) %y, "
                                      "ptr addrspace(1) %x, i64 16, i1 false)\n" END},
        {"llvm.x86.int", MODULE "declare void @llvm.x86.int(i8)\n" KERNEL "  call void @llvm.x86.int(i8 -128)\n" END},
        {"llvm.x86.wrfsbase.64",
         MODULE "declare void @llvm.x86.wrfsbase.64(i64)\n" KERNEL "  call void @llvm.x86.wrfsbase.64(i64 0)\n" END},
        {"llvm.write_register",
         MODULE "declare void @llvm.write_register.i64(metadata, i64)\n" KERNEL
                "  call void @llvm.write_register.i64(metadata !0, i64 0)\n" END "!0 = !{!\"rsp\"}\n"},
        {"llvm.set.rounding",
         MODULE "declare void @llvm.set.rounding(i32)\n" KERNEL "  call void @llvm.set.rounding(i32 1)\n" END},
        {"llvm.stackrestore",
         MODULE "declare void @llvm.stackrestore.p0(ptr)\n" KERNEL "  call void @llvm.stackrestore.p0(ptr null)\n" END},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(modules); i++)
        compile_for("host", modules[i].source, FACET_CORRUPT, modules[i].name, "which 'k' calls");
}

static void intrinsics_that_compute_are_taken(void **state)
{
    static const char source[] =
        MODULE "declare i32 @llvm.ctpop.i32(i32)\ndeclare i32 @llvm.abs.i32(i32, i1)\n"
               "declare i32 @llvm.umin.i32(i32, i32)\ndeclare i32 @llvm.fshl.i32(i32, i32, i32)\n"
               "declare { i32, i1 } @llvm.uadd.with.overflow.i32(i32, i32)\n"
               "declare float @llvm.fmuladd.f32(float, float, float)\n"
               "declare i32 @llvm.vector.reduce.add.v4i32(<4 x i32>)\ndeclare void @llvm.assume(i1)\n"
               "declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)\n"
               "declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)\n"
               "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
               "  %own = alloca <4 x i32>\n"
               "  call void @llvm.memcpy.p0.p1.i64(ptr %own, ptr addrspace(1) %x, i64 16, i1 false)\n"
               "  %v = load <4 x i32>, ptr %own\n"
               "  %s = call i32 @llvm.vector.reduce.add.v4i32(<4 x i32> %v)\n"
               "  %a = call i32 @llvm.abs.i32(i32 %s, i1 false)\n"
               "  %u = call i32 @llvm.umin.i32(i32 %a, i32 77)\n"
               "  %r = call i32 @llvm.fshl.i32(i32 %u, i32 %s, i32 3)\n"
               "  %o = call { i32, i1 } @llvm.uadd.with.overflow.i32(i32 %r, i32 %u)\n"
               "  %n = extractvalue { i32, i1 } %o, 0\n"
               "  %c = call i32 @llvm.ctpop.i32(i32 %n)\n"
               "  %f = sitofp i32 %c to float\n"
               "  %m = call float @llvm.fmuladd.f32(float %f, float %f, float %f)\n"
               "  %b = fcmp oge float %m, 0.0\n"
               "  call void @llvm.assume(i1 %b)\n"
               "  call void @llvm.memset.p1.i64(ptr addrspace(1) %x, i8 0, i64 4, i1 false)\n"
               "  %q = getelementptr float, ptr addrspace(1) %x, i64 1\n"
               "  store float %m, ptr addrspace(1) %q\n" END;

    (void)state;
    compile_for("host", source, FACET_OK, "", "");
    compile_for("ptx:sm_75", source, FACET_OK, "", "");
}

/* The code of some of these modules would run when an image is loaded; that of others would make no checks. */
static void code_that_no_check_sees_is_refused(void **state)
{
    static const struct {
        const char *fragment, *source;
    } modules[] = {
        {"'l' is in section '.init_array'", MODULE "@l = global [1 x i64] [i64 4096], section \".init_array\"\n"
                                                   "@llvm.used = appending global [1 x ptr] [ptr @l]\n" KERNEL END},
        {"'k' is in section '.init'",
         MODULE "define spir_kernel void @k(ptr addrspace(1) %x) section \".init\" {\n" END},
        {"'f' is an ifunc", MODULE "@f = ifunc void (), ptr @r\ndefine ptr @r() {\n  ret ptr null\n}\n" KERNEL END},
        {"'t' is thread_local", MODULE "@t = internal thread_local global i32 5\n" KERNEL
                                       "  %v = load i32, ptr @t\n  store i32 %v, ptr addrspace(1) %x\n" END},
        {"'environ' is declared", MODULE "@environ = external global ptr\n" KERNEL
                                         "  %v = load i64, ptr @environ\n  store i64 %v, ptr addrspace(1) %x\n" END},
        {"'f' has prologue data", MODULE "define void @f() prologue i16 2843 {\n" END KERNEL "  call void @f()\n" END},
        {"a call through a pointer in 'k'", MODULE KERNEL "  call void inttoptr (i64 4096 to ptr)()\n" END},
        {"an exception's flow (invoke, callbr or a landing) in 'k'",
         MODULE "define i32 @p() {\n  ret i32 0\n}\n"
                "define spir_kernel void @k(ptr addrspace(1) %x) personality ptr @p {\n"
                "  invoke void asm sideeffect unwind \"syscall\", \"\"() to label %a unwind label %b\n"
                "a:\n  ret void\n"
                "b:\n  %l = landingpad { ptr, i32 } cleanup\n" END},
        {"(va_arg) in 'k'", MODULE KERNEL "  %g = addrspacecast ptr addrspace(1) %x to ptr\n"
                                          "  %v = va_arg ptr %g, i32\n" END},
        {"an address space above 7 in 'k'", MODULE KERNEL "  %v = load i64, ptr addrspace(257) null\n"
                                                          "  store i64 %v, ptr addrspace(1) %x\n" END},
        {"'llvm.dependent-libraries'", MODULE "!llvm.dependent-libraries = !{!0}\n!0 = !{!\"libm.so.6\"}\n" KERNEL END},
        {"'facet_check' is a name of Facet's own", MODULE "@facet_check = global ptr null\n" KERNEL END},
        {"'__facet_within' is a name of Facet's own", MODULE
         "declare ptr @__facet_within(ptr, ptr, i64, i32)\n" KERNEL "  %g = addrspacecast ptr addrspace(1) %x to ptr\n"
         "  %q = call ptr @__facet_within(ptr %g, ptr null, i64 -1, i32 0)\n"
         "  store i32 7, ptr %q\n" END},
    };
    static const char constructor[] = MODULE "@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] "
                                             "[{ i32, ptr, ptr } { i32 65535, ptr @c, ptr null }]\n"
                                             "define internal void @c() {\n" END KERNEL END;

    (void)state;
    for (size_t i = 0; i < COUNT(modules); i++)
        compile_for("host", modules[i].source, FACET_CORRUPT, modules[i].fragment, "");
    for (size_t i = 0; i < COUNT(targets); i++)
        if (!is_beyond(targets[i]))
            compile_for(targets[i], constructor, FACET_CORRUPT, "llvm.global_ctors", "global constructors");
}

/* --- types and aliases -------------------------------------------------------------------------------------------- */

/* Compiles at every optimization level, since some types are refused only in code that is not optimized. */
static void compile_at_all_levels(const char *target, const char *source, enum facet_status expected, const char *text)
{
    static const char *const levels[][2] = {{"-O0", NULL}, {"-O1", NULL}, {"-O2", NULL}, {"-O3", NULL}};

    for (size_t i = 0; i < COUNT(levels); i++) {
        struct facet_backend_result result;
        struct facet_error error;
        enum facet_status status =
            compile_bytes(FACET_SOURCE_LLVM_IR, source, strlen(source), target, levels[i], &result, &error);

        if (status != expected || (expected != FACET_OK && !strstr(error.message, text)))
            fail_msg("%s %s: status %d: \"%s\"; expected \"%s\"", target, levels[i][0], status, error.message, text);
        backend->clear(&result);
    }
}

/* A module that reads a value of the type, combines it with itself by the operation `add`, and writes the result. */
#define TWICE(type, add)                                                                                               \
    MODULE KERNEL "  %v = load " type ", ptr addrspace(1) %x\n"                                                        \
                  "  %w = " add " " type " %v, %v\n"                                                                   \
                  "  store " type " %w, ptr addrspace(1) %x\n" END

static void types_that_no_target_has_are_refused(void **state)
{
    static const struct {
        const char *fragment, *source;
    } modules[] = {
        {"'i129' in 'k'", TWICE("i129", "mul")},
        {"'i1000001' in 'k'", TWICE("i1000001", "add")},
        {"'fp128' in 'k'", TWICE("fp128", "fadd")},
        {"'x86_fp80' in 'k'", TWICE("x86_fp80", "fadd")},
        {"'<vscale x 4 x i32>' in 'k'", TWICE("<vscale x 4 x i32>", "add")},
        {"'i999' in 'g'", MODULE "@g = internal addrspace(1) global { i32, [3 x i999] } zeroinitializer\n" KERNEL
                                 "  %v = load i32, ptr addrspace(1) @g\n"
                                 "  store i32 %v, ptr addrspace(1) %x\n" END},
        {"'i512' in 'k'", MODULE KERNEL "  %q = getelementptr i512, ptr addrspace(1) %x, i64 3\n"
                                        "  store i32 3, ptr addrspace(1) %q\n" END},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(modules); i++)
        for (size_t t = 0; t < COUNT(targets); t++)
            if (!is_beyond(targets[t]))
                compile_for(targets[t], modules[i].source, FACET_CORRUPT, modules[i].fragment, "expected");
}

/* Each struct holds the previous one twice: as a tree, the last struct has 2^60 nodes, too many to visit one by one. */
static void types_that_grow_by_sharing_are_compiled(void **state)
{
    char source[8192] = MODULE "%t0 = type { i32 }\n";
    size_t used = strlen(source);

    (void)state;
    for (int i = 1; i <= 60; i++)
        used += (size_t)snprintf(source + used, sizeof source - used, "%%t%d = type { ptr, %%t%d, ptr, %%t%d }\n", i,
                                 i - 1, i - 1);
    snprintf(source + used, sizeof source - used, "%s",
             KERNEL "  %q = getelementptr %t20, ptr addrspace(1) %x, i32 0, i32 1, i32 1\n"
                    "  store i32 3, ptr addrspace(1) %q\n" END);
    compile_for("ptx:sm_75", source, FACET_OK, "", "");
    compile_for("host", source, FACET_OK, "", "");
}

static void integers_of_128_bits_are_for_all_but_spirv(void **state)
{
    static const char table[] = MODULE "@g = internal addrspace(2) constant [2 x i128] [i128 7, i128 9]\n" KERNEL
                                       "  %i = load i64, ptr addrspace(1) %x\n"
                                       "  %q = getelementptr [2 x i128], ptr addrspace(2) @g, i64 0, i64 %i\n"
                                       "  %v = load i64, ptr addrspace(2) %q\n"
                                       "  store i64 %v, ptr addrspace(1) %x\n" END;
    static const char own[] = MODULE KERNEL "  %i = load i64, ptr addrspace(1) %x\n  %a = alloca [4 x i128]\n"
                                            "  %q = getelementptr [4 x i128], ptr %a, i64 0, i64 %i\n"
                                            "  store volatile i64 3, ptr %q\n"
                                            "  %v = load volatile i64, ptr %a\n"
                                            "  store i64 %v, ptr addrspace(1) %x\n" END;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++) {
        bool spirv = strncmp(targets[t], "spirv", 5) == 0;

        if (is_beyond(targets[t]))
            continue;
        compile_at_all_levels(targets[t], TWICE("i128", "mul"), spirv ? FACET_CORRUPT : FACET_OK, "'i128'");
        compile_at_all_levels(targets[t], table, spirv ? FACET_CORRUPT : FACET_OK, "'i128' in 'g'");
        compile_at_all_levels(targets[t], own, spirv ? FACET_CORRUPT : FACET_OK, "'i128' in 'k'");
    }
    compile_at_all_levels("host", TWICE("i128", "sdiv"), FACET_OK, "");
    compile_at_all_levels("host", TWICE("i128", "urem"), FACET_OK, "");
}

static void aliases_resolve_to_their_targets(void **state)
{
    static const char source[] =
        MODULE "@c = internal addrspace(2) constant [4 x i32] [i32 5, i32 6, i32 7, i32 8]\n"
               "@d = alias [4 x i32], ptr addrspace(2) @c\n@f = alias i32 (i32), ptr @g\n"
               "@g = alias i32 (i32), ptr @h\n"
               "define internal spir_func i32 @h(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n" KERNEL
               "  %a = load i32, ptr addrspace(1) %x\n  %b = call spir_func i32 @f(i32 %a)\n  %m = and i32 %b, 3\n"
               "  %p = getelementptr [4 x i32], ptr addrspace(2) @d, i32 0, i32 %m\n"
               "  %v = load i32, ptr addrspace(2) %p\n  store i32 %v, ptr addrspace(1) %x\n" END;

    (void)state;
    for (size_t t = 0; t < COUNT(targets); t++)
        if (!is_beyond(targets[t]))
            compile_at_all_levels(targets[t], source, FACET_OK, "");
}

/* --- broken modules ----------------------------------------------------------------------------------------------- */

static void broken_modules_are_refused(void **state)
{
    static const char other[] = "target triple = \"x86_64-pc-linux-gnu\"\ndefine void @f() { ret void }\n";
    static const char invalid[] =
        "define spir_kernel void @k() {\n  br label %b\nb:\n  %x = add i32 %y, 1\n  br label %c\n"
        "c:\n  %y = add i32 1, 1\n  ret void\n}\n";
    static const unsigned char bitcode[] = {'B', 'C', 0xc0, 0xde, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint32_t spirv[] = {0x07230203, 0x10000, 0, 10, 0, 5 << 16 | 17, 1};

    (void)state;
    expect_refused(FACET_SOURCE_LLVM_IR, other, strlen(other), FACET_CORRUPT, "x86_64-pc-linux-gnu");
    expect_refused(FACET_SOURCE_LLVM_IR, invalid, strlen(invalid), FACET_CORRUPT, "does not dominate");
    expect_refused(FACET_SOURCE_LLVM_IR, bitcode, sizeof bitcode, FACET_CORRUPT, "not LLVM IR");
    expect_refused(FACET_SOURCE_SPIRV, spirv, sizeof spirv, FACET_CORRUPT, "cut off in an instruction");
    expect_refused(77, saxpy, strlen(saxpy), FACET_INVALID_ARGUMENT, "source kind 77");
}

/* For PTX, LLVM cannot make code of this intrinsic and calls its fatal-error handler. The compile must fail, and later
 * compiles must succeed. */
static void code_that_llvm_gives_up_on_is_an_error(void **state)
{
    static const char source[] = "declare void @llvm.set.rounding(i32)\n"
                                 "define spir_kernel void @k(ptr addrspace(1) %x) {\n"
                                 "  call void @llvm.set.rounding(i32 1)\n"
                                 "  ret void\n}\n";
    struct facet_backend_result result;

    (void)state;
    expect_refused(FACET_SOURCE_LLVM_IR, source, strlen(source), FACET_INTERNAL, "gave up");
    compile_well(saxpy, "ptx:sm_75", &result);
    backend->clear(&result);
}

static void spirv_modules_compile_for_each_target(void **state)
{
    struct facet_backend_result words, result;
    struct facet_error error;

    (void)state;
    compile_well(saxpy, "spirv:1.2", &words);
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (is_beyond(targets[i]))
            continue;
        if (compile_bytes(FACET_SOURCE_SPIRV, words.image, words.bytes, targets[i], NULL, &result, &error) != FACET_OK)
            fail_msg("%s: %s", targets[i], error.message);
        assert_non_null(strstr(result.description, "\"name\":\"saxpy\""));
        backend->clear(&result);
    }
    backend->clear(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_taken_for_all_targets),
        cmocka_unit_test(intrinsics_are_refused_unless_they_are_known),
        cmocka_unit_test(intrinsics_that_compute_are_taken),
        cmocka_unit_test(code_that_no_check_sees_is_refused),
        cmocka_unit_test(types_that_no_target_has_are_refused),
        cmocka_unit_test(types_that_grow_by_sharing_are_compiled),
        cmocka_unit_test(integers_of_128_bits_are_for_all_but_spirv),
        cmocka_unit_test(aliases_resolve_to_their_targets),
        cmocka_unit_test(broken_modules_are_refused),
        cmocka_unit_test(code_that_llvm_gives_up_on_is_an_error),
        cmocka_unit_test(spirv_modules_compile_for_each_target), /* last: cmocka's skip() is "not ok" in TAP */
    };
    const char *lacks = NULL;

    open_backend(NULL);
    if (system("command -v llvm-spirv-15 >/dev/null || command -v llvm-spirv >/dev/null") != 0)
        lacks = "there is no llvm-spirv";
    else if (is_beyond("spirv:1.2"))
        lacks = "the LLVM 19 of this build has no generator of SPIR-V";
    if (lacks)
        print_message("# left out, spirv_modules_compile_for_each_target: %s\n", lacks);
    return _cmocka_run_group_tests("tests", tests, COUNT(tests) - (lacks ? 1 : 0), NULL, NULL);
}
