/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the built kernel compiler with what is no source text: LLVM IR and SPIR-V, sound and broken.
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

/* LLVM knows no way to make this on PTX and calls its handler, which must lead back here, and leave all usable. */
static void what_llvm_gives_up_on_is_an_error(void **state)
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

static void spirv_comes_back(void **state)
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
        cmocka_unit_test(modules_are_taken_for_all_targets), cmocka_unit_test(broken_modules_are_refused),
        cmocka_unit_test(what_llvm_gives_up_on_is_an_error),
        cmocka_unit_test(spirv_comes_back), /* the last: cmocka's skip() is "not ok" in TAP */
    };
    const char *lacks = NULL;

    open_backend(NULL);
    if (system("command -v llvm-spirv-15 >/dev/null || command -v llvm-spirv >/dev/null") != 0)
        lacks = "there is no llvm-spirv";
    else if (is_beyond("spirv:1.2"))
        lacks = "the LLVM 19 of this build has no generator of SPIR-V";
    if (lacks)
        print_message("# left out, spirv_comes_back: %s\n", lacks);
    return _cmocka_run_group_tests("tests", tests, COUNT(tests) - (lacks ? 1 : 0), NULL, NULL);
}
