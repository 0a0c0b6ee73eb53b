/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: proofs of the code that the built kernel compiler makes for devices, as far as it can be seen in the image.
 * Never: needs a device; compares an image with a recorded one, since images differ between versions of LLVM.
 */
#include "compiling.h"

static unsigned count_of(const struct facet_backend_result *result, const char *text)
{
    const char *at = result->image, *end = at + result->bytes;
    unsigned count = 0;

    while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
        count++;
        at += strlen(text);
    }
    return count;
}

static void compile_with_option(const char *source, const char *target, const char *argument,
                                struct facet_backend_result *ret_result)
{
    const char *const arguments[] = {argument, NULL};
    struct facet_error error;

    if (compile(source, target, argument ? arguments : NULL, ret_result, &error) != FACET_OK)
        fail_msg("%s %s: %s", target, argument ? argument : "", error.message);
}

/* --- kernels that call kernels ------------------------------------------------------------------------------------ */

static const char caller_and_called[] = "kernel void one(global float *x) { x[get_global_id(0)] *= 2.0f; }\n"
                                        "kernel void both(global float *x, global float *y)\n"
                                        "{ one(x); y[get_global_id(0)] = x[get_global_id(0)] + 1; }\n";

static void each_kernel_is_in_its_image_once(void **state)
{
    static const char *const levels[] = {"-O0", "-O1", "-O3"};

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (is_beyond(targets[i]))
            continue;
        for (size_t j = 0; j < COUNT(levels); j++) {
            struct facet_backend_result result;

            compile_with_option(caller_and_called, targets[i], levels[j], &result);
            if (count_of(&result, "__clang_ocl_kern_imp_"))
                fail_msg("%s %s: a kernel's second copy", targets[i], levels[j]);
            if (strncmp(targets[i], "ptx", 3) == 0) {
                assert_int_equal(count_of(&result, ".entry "), 2);
                assert_int_equal(count_of(&result, ".func "), 0);
                assert_int_equal(count_of(&result, "add.rn.f32"), 3); /* 2 * x is x + x: one in `one`, two in `both` */
            }
            backend->clear(&result);
        }
    }
}

/* --- functions that are inline ------------------------------------------------------------------------------------ */

static const char inlines[] = "inline uint plain(uint x) { return x * x; }\n"
                              "uint declared(uint x);\ninline uint declared(uint x) { return x + 1; }\n"
                              "inline uint again(uint x) { return x ^ 5; }\nuint again(uint x);\n"
                              "inline uint twice(uint x);\ninline uint twice(uint x) { return plain(x) * 2; }\n"
                              "static inline uint own(uint x) { return x + 3; }\n"
                              "static uint early(uint x);\ninline uint early(uint x) { return x + 7; }\n"
                              "extern inline uint outer(uint x) { return x - 1; }\n"
                              "__attribute__((gnu_inline)) inline uint gnu(uint x) { return x | 1; }\n"
                              "__attribute__((always_inline)) inline uint always(uint x) { return x & 6; }\n"
                              "__attribute__((noinline)) inline uint never(uint x) { return x / 3; }\n"
                              "kernel void k(global uint *x) { size_t i = get_global_id(0); x[i] = plain(x[i]) +\n"
                              "declared(x[i]) + again(x[i]) + twice(x[i]) + own(x[i]) + early(x[i]) + outer(x[i])\n"
                              "+ gnu(x[i]) + always(x[i]) + never(x[i]); }\n";

static void compile_checked(const char *source, const char *level)
{
    const char *const arguments[] = {level, NULL};
    const struct facet_backend_request request = {.source = source,
                                                  .bytes = strlen(source),
                                                  .target = "host",
                                                  .name = "k.cl",
                                                  .arguments = arguments,
                                                  .source_kind = FACET_SOURCE_OPENCL_C,
                                                  .check = 1,
                                                  .seconds = compile_seconds};
    struct facet_backend_result result;
    struct facet_error error = {0};

    if (backend->compile(&request, &result, &error) != FACET_OK)
        fail_msg("checked, %s: %s", level, error.message);
    backend->clear(&result);
}

/* In C99, the body of the inline function `plain` is only for the optimizer: a call that it does not inline would need
 * another definition elsewhere. */
static void inline_functions_have_bodies_at_all_levels(void **state)
{
    static const char *const levels[] = {"-O0", "-cl-opt-disable", "-O1", "-O2", "-O3"};

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        for (size_t j = 0; j < COUNT(levels) && !is_beyond(targets[i]); j++) {
            struct facet_backend_result result;

            compile_with_option(inlines, targets[i], levels[j], &result);
            assert_non_null(strstr(result.description, "\"name\":\"k\""));
            backend->clear(&result);
        }
    }
    for (size_t i = 0; i < COUNT(levels); i++)
        compile_checked(inlines, levels[i]);
}

/* --- earlier compiles --------------------------------------------------------------------------------------------- */

/* LLVM's generator of SPIR-V keeps basic blocks of earlier modules, which could give later modules a label twice. */
static void earlier_compiles_leave_no_trace(void **state)
{
    enum { SOURCES = 6, ROUNDS = 4 };
    struct facet_backend_result first[SOURCES], again;
    char sources[SOURCES][4096];

    (void)state;
    for (unsigned i = 0; i < SOURCES; i++) {
        char *end = sources[i];
        for (unsigned j = 0; j <= i; j++)
            end += sprintf(
                end,
                "kernel void k%u(global int *x, int n) { int i = get_global_id(0), s = 0;\n"
                "for (int j = 0; j < n; j++) if (x[j] %% %u) s += x[j]; else { s ^= j; x[j + %u] = s; } x[i] = s; }\n",
                j, i + j + 2, i * j);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < SOURCES; i++) {
            compile_well(sources[i], "spirv:1.2", round ? &again : &first[i]);
            if (!round)
                continue;
            if (again.bytes != first[i].bytes || memcmp(again.image, first[i].image, again.bytes) != 0)
                fail_msg("source %u gives another image in round %u than in round 0", i, round);
            backend->clear(&again);
        }
    }
    for (unsigned i = 0; i < SOURCES; i++)
        backend->clear(&first[i]);
}

/* --- fast functions ----------------------------------------------------------------------------------------------- */

static void fast_functions_are_used_only_on_request(void **state)
{
    static const struct {
        const char *call, *ptx;
    } functions[] = {
        {"sin(a)", "sin.approx.f32"},   {"cos(a)", "cos.approx.f32"},     {"tan(a)", "sin.approx.f32"},
        {"exp(a)", "ex2.approx.f32"},   {"exp2(a)", "ex2.approx.f32"},    {"exp10(a)", "ex2.approx.f32"},
        {"log(a)", "lg2.approx.f32"},   {"log2(a)", "lg2.approx.f32"},    {"log10(a)", "lg2.approx.f32"},
        {"sqrt(a)", "sqrt.approx.f32"}, {"rsqrt(a)", "rsqrt.approx.f32"}, {"powr(a, b)", "lg2.approx.f32"},
        {"a / b", "div.approx.f32"},
    };

    (void)state;
    /* LLVM 19 approximates the last function, a quotient, only for options of the process, not of a compile. */
    for (size_t i = 0; i < COUNT(functions) - (strstr(backend->version, "LLVM 19.") ? 1 : 0); i++) {
        struct facet_backend_result plain, fast;
        char source[256];

        snprintf(source, sizeof source,
                 "kernel void k(global float4 *x, global float *y) { float4 a = x[0], b = x[1]; x[2] = %s;\n"
                 "{ float a = y[0], b = y[1]; y[2] = %s; } }\n",
                 functions[i].call, functions[i].call);
        compile_with_option(source, "ptx:sm_90", NULL, &plain);
        compile_with_option(source, "ptx:sm_90", "-cl-fast-relaxed-math", &fast);
        /* 5: four elements of the vector, and the single number */
        if (count_of(&plain, functions[i].ptx) || count_of(&fast, functions[i].ptx) != 5)
            fail_msg("%s: %u times %s without the option, %u with it; expected 0 and 5", functions[i].call,
                     count_of(&plain, functions[i].ptx), functions[i].ptx, count_of(&fast, functions[i].ptx));
        backend->clear(&plain);
        backend->clear(&fast);
    }
}

static void functions_of_doubles_and_pow_are_never_fast(void **state)
{
    static const char source[] = "kernel void k(global double *x, global float *y)\n"
                                 "{ x[0] = sin(x[1]) + sqrt(x[2]); y[0] = pow(y[1], y[2]); }\n";
    struct facet_backend_result result;

    (void)state;
    compile_with_option(source, "ptx:sm_90", "-cl-fast-relaxed-math", &result);
    assert_int_equal(count_of(&result, "sin.approx") + count_of(&result, "sqrt.approx"), 0);
    assert_int_equal(count_of(&result, "lg2.approx"), 0);
    backend->clear(&result);
}

/* --- copies of a work-group --------------------------------------------------------------------------------------- */

#define COPIES(T)                                                                                                      \
    "kernel void k_" #T "(global " #T " *x, global " #T " *y) { local " #T " t[64]; event_t e[2];\n"                   \
    "e[0] = async_work_group_copy(t, x, 64, 0); e[1] = async_work_group_strided_copy(t, x, 64, 3, e[0]);\n"            \
    "wait_group_events(2, e); e[0] = async_work_group_copy(y, t, 64, 0);\n"                                            \
    "e[1] = async_work_group_strided_copy(y, t, 64, 3, e[0]); wait_group_events(2, e); }\n"

static void work_groups_copy_on_every_target(void **state)
{
    static const char source[] =
        COPIES(char) COPIES(ushort3) COPIES(int4) COPIES(ulong2) COPIES(float) COPIES(float8) COPIES(double2);
    static const char *const standards[] = {"-cl-std=CL1.2", "-cl-std=CL3.0"};

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        if (is_beyond(targets[i]))
            continue;
        for (size_t j = 0; j < COUNT(standards); j++) {
            struct facet_backend_result result;

            compile_with_option(source, targets[i], standards[j], &result);
            backend->clear(&result);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kernel_is_in_its_image_once),
        cmocka_unit_test(fast_functions_are_used_only_on_request),
        cmocka_unit_test(functions_of_doubles_and_pow_are_never_fast),
        cmocka_unit_test(work_groups_copy_on_every_target),
        cmocka_unit_test(inline_functions_have_bodies_at_all_levels),
        cmocka_unit_test(earlier_compiles_leave_no_trace), /* last: cmocka's skip() is "not ok" in TAP */
    };
    size_t count = COUNT(tests);

    open_backend(NULL);
    if (is_beyond("spirv:1.2")) {
        count--;
        print_message("# left out, earlier_compiles_leave_no_trace: %s makes no SPIR-V\n", backend->version);
    }
    return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
