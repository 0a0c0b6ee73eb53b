/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the builtin functions: linking them, and their results on the host. FACET_LIB_DIR names the folder of
 * the archives.
 * Never: needs clang, since the tests' functions are written in LLVM IR.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <llvm-c/BitReader.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <facet/host_kernel.h>

#include "kernel/builtins/archive.h"
#include "kernel/builtins/library.h"
#include "orc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct facet_builtins *library;

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void a_missing_archive_is_refused_by_name(void **state)
{
    struct facet_builtins *none = NULL;
    struct facet_error error;

    assert_int_equal(facet_builtins_open("/nonexistent/builtins", &none, &error), FACET_NOT_FOUND);
    assert_non_null(strstr(error.message, "/nonexistent/builtins"));
    assert_int_equal(facet_builtins_open("/dev/null", &none, &error), FACET_CORRUPT);
    assert_null(none);
}

/* --- modules ------------------------------------------------------------------------------------------------------ */

static LLVMTargetMachineRef make_machine(char *triple, char *cpu, char *features)
{
    LLVMTargetRef target;

    assert_int_equal(LLVMGetTargetFromTriple(triple, &target, NULL), 0);
    return LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
                                   LLVMCodeModelDefault);
}

/* Optimizes for this processor, like a kernel. */
static void optimize_module(LLVMModuleRef module)
{
    char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    LLVMTargetMachineRef machine = make_machine(triple, cpu, features);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();

    LLVMSetTarget(module, triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(module, layout);
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function)) {
        if (LLVMIsDeclaration(function))
            continue;
        LLVMAddTargetDependentFunctionAttr(function, "target-cpu", cpu);
        LLVMAddTargetDependentFunctionAttr(function, "target-features", features);
    }
    assert_null(LLVMRunPasses(module, "default<O2>", machine, options));
    LLVMDisposePassBuilderOptions(options);
    LLVMDisposeTargetData(layout);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
}

/* Returns the function `run` of a module. The module can call nothing outside itself, and no C library. */
static void *compile_module(const char *text, LLVMOrcLLJITRef *ret_jit)
{
    LLVMContextRef context;
    LLVMOrcThreadSafeContextRef safe = orc_context(&context);
    LLVMModuleRef module = orc_parse(context, text);
    LLVMOrcExecutorAddress address = 0;
    struct facet_error error;

    if (facet_builtins_link(library, module, &error) != FACET_OK)
        fail_msg("%s", error.message);
    optimize_module(module);
    LLVMOrcThreadSafeModuleRef moved = LLVMOrcCreateNewThreadSafeModule(module, safe);
    LLVMOrcDisposeThreadSafeContext(safe);
    assert_null(LLVMOrcCreateLLJIT(ret_jit, NULL));
    assert_null(LLVMOrcLLJITAddLLVMIRModule(*ret_jit, LLVMOrcLLJITGetMainJITDylib(*ret_jit), moved));
    LLVMErrorRef failed = LLVMOrcLLJITLookup(*ret_jit, &address, "run");
    if (failed)
        fail_msg("%s", LLVMGetErrorMessage(failed));
    return (void *)(uintptr_t)address;
}

static void functions_that_are_called_are_linked(void **state)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = orc_parse(context, "declare float @_Z3sinf(float)\n"
                                              "declare float @_Z3cosf(float)\n" /* not called */
                                              "declare float @_Z7unknownf(float)\n"
                                              "define float @_Z3expf(float %x) { ret float %x }\n"
                                              "define float @run(float %x) {\n"
                                              "  %a = call float @_Z3sinf(float %x)\n"
                                              "  %b = call float @_Z7unknownf(float %a)\n"
                                              "  %c = call float @_Z3expf(float %b)\n"
                                              "  ret float %c\n"
                                              "}\n");
    LLVMValueRef exp = LLVMGetNamedFunction(module, "_Z3expf");

    assert_int_equal(facet_builtins_link(library, module, NULL), FACET_OK);
    assert_int_equal(LLVMGetLinkage(LLVMGetNamedFunction(module, "_Z3sinf")), LLVMInternalLinkage);
    assert_false(LLVMIsDeclaration(LLVMGetNamedFunction(module, "_Z3sinf")));
    assert_true(LLVMIsDeclaration(LLVMGetNamedFunction(module, "_Z3cosf")));
    assert_true(LLVMIsDeclaration(LLVMGetNamedFunction(module, "_Z7unknownf")));
    assert_ptr_equal(LLVMGetNamedFunction(module, "_Z3expf"), exp); /* the module's own function stays */
    assert_int_equal(LLVMGetLinkage(exp), LLVMExternalLinkage);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void a_function_of_another_type_is_refused(void **state)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = orc_parse(context, "declare i32 @_Z3sinf(float)\n"
                                              "define i32 @run() {\n"
                                              "  %a = call i32 @_Z3sinf(float 1.0)\n"
                                              "  ret i32 %a\n"
                                              "}\n");
    struct facet_error error;

    assert_int_equal(facet_builtins_link(library, module, &error), FACET_INVALID_ARGUMENT);
    assert_non_null(strstr(error.message, "_Z3sinf"));
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void check_shard(const struct facet_archive *archive, uint32_t index)
{
    LLVMContextRef context = LLVMContextCreate();
    const struct facet_archive_shard *shard = &archive->shards[index];
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRange((const char *)archive->bytes + shard->offset, shard->size, "shard", 0);
    LLVMModuleRef module = NULL;
    size_t length;

    assert_int_equal(LLVMGetBitcodeModuleInContext2(context, buffer, &module), 0);
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function)) {
        const char *name = LLVMGetValueName2(function, &length);

        if (!LLVMIsDeclaration(function) || strncmp(name, "llvm.", 5) == 0 || strncmp(name, "__facet_", 8) == 0)
            continue;
        if (facet_archive_find(archive, name) == FACET_ARCHIVE_NONE)
            fail_msg("shard %u needs %s, which no shard has", index, name);
    }
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

static void every_shard_is_complete(void **state)
{
    char path[4096];
    struct facet_archive archive;

    snprintf(path, sizeof path, "%s/%s", getenv("FACET_LIB_DIR"), FACET_BUILTINS_HOST);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    void *bytes = aligned_alloc(FACET_ARCHIVE_ALIGN, (size + 7) / 8 * 8);
    rewind(file);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
    assert_int_equal(facet_archive_read(bytes, size, &archive, NULL), FACET_OK);
    assert_true(archive.symbol_count > 9000); /* OpenCL's functions have about so many overloads */
    for (uint32_t i = 0; i < archive.shard_count; i++)
        check_shard(&archive, i);
    free(bytes);
}

static void *link_often(void *unused)
{
    for (int i = 0; i < 20; i++)
        functions_that_are_called_are_linked(NULL);
    return NULL;
}

static void many_threads_can_link(void **state)
{
    pthread_t threads[4];

    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, link_often, NULL), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}

/* --- mathematics ------------------------------------------------------------------------------------------------- */

typedef long double (*reference_func)(long double x);
typedef long double (*reference2_func)(long double x, long double y);

static long double reciprocal_root(long double x)
{
    return 1 / sqrtl(x);
}

static long double exponential10(long double x)
{
    return powl(10, x);
}

/* `bound` is the error in units of the last place that OpenCL allows (section 7.4 of its specification). */
static const struct unary {
    const char *name;
    reference_func reference;
    double bound;
} unaries[] = {
    {"exp", expl, 3},
    {"exp2", exp2l, 3},
    {"exp10", exponential10, 3},
    {"expm1", expm1l, 3},
    {"log", logl, 3},
    {"log2", log2l, 3},
    {"log10", log10l, 3},
    {"log1p", log1pl, 2},
    {"sin", sinl, 4},
    {"cos", cosl, 4},
    {"tan", tanl, 5},
    {"sinh", sinhl, 4},
    {"cosh", coshl, 4},
    {"tanh", tanhl, 5},
    {"asin", asinl, 4},
    {"acos", acosl, 4},
    {"atan", atanl, 5},
    {"asinh", asinhl, 4},
    {"acosh", acoshl, 4},
    {"atanh", atanhl, 5},
    {"erf", erfl, 16},
    {"erfc", erfcl, 16},
    {"tgamma", tgammal, 16},
    {"cbrt", cbrtl, 2},
    {"sqrt", sqrtl, 3},
    {"rsqrt", reciprocal_root, 2},
    {"half_exp", expl, 8192},
    {"half_log", logl, 8192},
    {"native_exp", expl, 8192},
    {"native_log2", log2l, 8192},
};
static const struct binary {
    const char *name;
    reference2_func reference;
    double bound;
} binaries[] = {{"pow", powl, 16}, {"atan2", atan2l, 6}, {"hypot", hypotl, 4}, {"fmod", fmodl, 0}};

enum { NUMBERS = 1 << 16 };
static float first[NUMBERS], second[NUMBERS], result[NUMBERS];

/* How far `got` is from `want`, in units of the last place of a float near `want`. */
static double distance_ulps(float got, long double want)
{
    int exponent;

    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    if (isinf(got) || isinf((float)want))
        return (float)want == got || (isinf(got) && fabsl(want) > 0x1.fffffep127L) ? 0 : INFINITY;
    if (fabsl(want) < 0x1p-126L && fabsf(got) <= 0x1p-126f)
        return 0; /* numbers too small to be normal may be rounded to zero */
    frexpl(want, &exponent);
    return (double)(fabsl((long double)got - want) / ldexpl(1, (exponent < -125 ? -125 : exponent) - 24));
}

/* Fills the inputs with numbers of all signs and exponents, infinities and NaN. One quarter of the numbers lies between
 * -32 and 32. */
static void fill_inputs(void)
{
    uint32_t random = 1;

    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t bits = i << 16 | (random >> 16);

        random = random * 1664525u + 1013904223u;
        memcpy(&first[i], &bits, sizeof bits);
        random = random * 1664525u + 1013904223u;
        memcpy(&second[i], &random, sizeof random);
        if (i % 4 == 3)
            first[i] = (float)(int32_t)random / (1 << 26);
        if (i % 2 == 1)
            second[i] = i % 8 == 1 ? (float)((int32_t)random >> 24) : (float)(int32_t)(random << 7) / (1 << 26);
        if (fpclassify(first[i]) == FP_SUBNORMAL)
            first[i] = 0;
        if (fpclassify(second[i]) == FP_SUBNORMAL)
            second[i] = 0;
    }
}

/* Runs the function over all inputs in a loop like one that the lowering makes. */
static void run_loop(const char *name, bool two)
{
    static const char format[] = "declare float @_Z%zu%s%s(float%s)\n"
                                 "define void @run(ptr noalias %%a, ptr noalias %%b, ptr noalias %%o) {\n"
                                 "entry:\n  br label %%loop\n"
                                 "loop:\n  %%i = phi i64 [ 0, %%entry ], [ %%next, %%loop ]\n"
                                 "  %%pa = getelementptr float, ptr %%a, i64 %%i\n  %%x = load float, ptr %%pa\n"
                                 "  %%pb = getelementptr float, ptr %%b, i64 %%i\n  %%y = load float, ptr %%pb\n"
                                 "  %%r = call float @_Z%zu%s%s(float %%x%s)\n"
                                 "  %%po = getelementptr float, ptr %%o, i64 %%i\n  store float %%r, ptr %%po\n"
                                 "  %%next = add i64 %%i, 1\n  %%end = icmp eq i64 %%next, %d\n"
                                 "  br i1 %%end, label %%done, label %%loop\n"
                                 "done:\n  ret void\n}\n";
    char text[2048];
    LLVMOrcLLJITRef jit;

    snprintf(text, sizeof text, format, strlen(name), name, two ? "ff" : "f", two ? ", float" : "", strlen(name), name,
             two ? "ff" : "f", two ? ", float %y" : "", NUMBERS);
    void (*run)(const float *, const float *, float *) =
        (void (*)(const float *, const float *, float *))compile_module(text, &jit);
    run(first, second, result);
    LLVMOrcDisposeLLJIT(jit);
}

static void functions_of_one_argument_are_as_exact_as_opencl_demands(void **state)
{
    fill_inputs();
    for (size_t f = 0; f < COUNT(unaries); f++) {
        run_loop(unaries[f].name, false);
        for (size_t i = 0; i < NUMBERS; i++)
            if (!(distance_ulps(result[i], unaries[f].reference(first[i])) <= unaries[f].bound))
                fail_msg("%s(%a) = %a, expected %La, %g units in the last place at most", unaries[f].name,
                         (double)first[i], (double)result[i], unaries[f].reference(first[i]), unaries[f].bound);
    }
}

static void functions_of_two_arguments_are_as_exact_as_opencl_demands(void **state)
{
    fill_inputs();
    for (size_t f = 0; f < COUNT(binaries); f++) {
        run_loop(binaries[f].name, true);
        for (size_t i = 0; i < NUMBERS; i++)
            if (!(distance_ulps(result[i], binaries[f].reference(first[i], second[i])) <= binaries[f].bound))
                fail_msg("%s(%a, %a) = %a, expected %La, %g units in the last place at most", binaries[f].name,
                         (double)first[i], (double)second[i], (double)result[i],
                         binaries[f].reference(first[i], second[i]), binaries[f].bound);
    }
}

/* --- conversions ------------------------------------------------------------------------------------------------- */

static void saturating_conversions_are_bounded(void **state)
{
    LLVMOrcLLJITRef jit;
    int32_t (*run)(float) = (int32_t(*)(float))compile_module("declare i32 @_Z19convert_int_sat_rtnf(float)\n"
                                                              "define i32 @run(float %x) {\n"
                                                              "  %r = call i32 @_Z19convert_int_sat_rtnf(float %x)\n"
                                                              "  ret i32 %r\n}\n",
                                                              &jit);

    assert_int_equal(run(-1.5f), -2);
    assert_int_equal(run(1.5f), 1);
    assert_int_equal(run(3e9f), INT32_MAX);
    assert_int_equal(run(-INFINITY), INT32_MIN);
    assert_int_equal(run(NAN), 0);
    LLVMOrcDisposeLLJIT(jit);
}

static uint16_t store_half(const char *mode, double value)
{
    char text[512];
    LLVMOrcLLJITRef jit;
    uint16_t bits = 0xffff;

    snprintf(text, sizeof text,
             "declare void @_Z%zuvstore_half%sdmPU3AS1Dh(double, i64, ptr)\n"
             "define void @run(double %%x, ptr %%p) {\n"
             "  call void @_Z%zuvstore_half%sdmPU3AS1Dh(double %%x, i64 0, ptr %%p)\n  ret void\n}\n",
             strlen(mode) + 11, mode, strlen(mode) + 11, mode);
    void (*run)(double, uint16_t *) = (void (*)(double, uint16_t *))compile_module(text, &jit);
    run(value, &bits);
    LLVMOrcDisposeLLJIT(jit);
    return bits;
}

static void halves_are_stored_in_every_rounding_mode(void **state)
{
    assert_int_equal(store_half("", 1.0), 0x3c00);
    assert_int_equal(store_half("_rtp", 1e-30), 0x0001);
    assert_int_equal(store_half("_rtn", 1e-30), 0x0000);
    assert_int_equal(store_half("_rtn", -1e-30), 0x8001);
    assert_int_equal(store_half("_rtp", -1e-30), 0x8000);
    assert_int_equal(store_half("_rtz", 65519.0), 0x7bff);
    assert_int_equal(store_half("_rtp", 65505.0), 0x7c00);
    assert_int_equal(store_half("_rtp", -1e9), 0xfbff);
    /* If 1 + 2^-11 + 2^-40 were rounded to float first, it would become a tie, which is rounded down to even. */
    assert_int_equal(store_half("_rte", 1.0 + 0x1p-11 + 0x1p-40), 0x3c01);
}

/* --- work-items -------------------------------------------------------------------------------------------------- */

static void ids_are_those_of_the_launch(void **state)
{
    LLVMOrcLLJITRef jit;
    uint64_t (*run)(void) =
        (uint64_t(*)(void))compile_module("define i32 @__facet_global_id(i32 %d) { ret i32 1197 }\n"
                                          "define i32 @__facet_global_size(i32 %d) { ret i32 448 }\n"
                                          "define i32 @__facet_local_id(i32 %d) { ret i32 5 }\n"
                                          "declare i64 @_Z13get_global_idj(i32)\n"
                                          "declare i64 @_Z15get_global_sizej(i32)\n"
                                          "declare i64 @_Z12get_local_idj(i32)\n"
                                          "define i64 @run() {\n"
                                          "  %id = call i64 @_Z13get_global_idj(i32 0)\n"
                                          "  %size = call i64 @_Z15get_global_sizej(i32 0)\n"
                                          "  %item = call i64 @_Z12get_local_idj(i32 0)\n"
                                          "  %low = mul i64 %id, 10\n"
                                          "  %high = mul i64 %size, 100000\n"
                                          "  %some = add i64 %high, %low\n"
                                          "  %all = add i64 %some, %item\n  ret i64 %all\n}\n",
                                          &jit);

    assert_int_equal(run(), 448 * 100000 + 1197 * 10 + 5);
    LLVMOrcDisposeLLJIT(jit);
}

/* --- images ------------------------------------------------------------------------------------------------------ */

/* OpenCL's numbers of channel orders and types. */
enum { R = 0x10b0, RGBA = 0x10b5, BGRA = 0x10b6, UNORM8 = 0x10d2, FLOAT = 0x10de };
/* The bits of a sampler. */
enum { NORMALIZED = 1, EDGE = 2, BORDER = 4, REPEAT = 6, MIRRORED = 8, NEAREST = 0x10, LINEAR = 0x20 };

typedef void (*sample_func)(const struct facet_host_image_object *image, uint64_t sampler, float x, float y,
                            float *ret);

static const char sample_text[] =
    "declare <4 x float> @_Z11read_imagef14ocl_image2d_ro11ocl_samplerDv2_f(ptr, ptr, <2 x float>)\n"
    "define void @run(ptr %image, i64 %bits, float %x, float %y, ptr %o) {\n"
    "  %sampler = inttoptr i64 %bits to ptr\n"
    "  %a = insertelement <2 x float> poison, float %x, i32 0\n"
    "  %at = insertelement <2 x float> %a, float %y, i32 1\n"
    "  %c = call <4 x float> @_Z11read_imagef14ocl_image2d_ro11ocl_samplerDv2_f(ptr %image, ptr %sampler,"
    " <2 x float> %at)\n"
    "  store <4 x float> %c, ptr %o, align 4\n  ret void\n}\n";

static void images_are_sampled_in_every_mode(void **state)
{
    static const float pixels[2][4] = {{0, 1, 2, 3}, {10, 11, 12, 13}};
    const struct facet_host_image_object image = {.pixels = (uintptr_t)pixels,
                                                  .width = 4,
                                                  .height = 2,
                                                  .row_bytes = 16,
                                                  .channel_order = R,
                                                  .channel_type = FLOAT};
    static const struct {
        uint32_t sampler;
        float x, y, red, alpha;
    } samples[] = {
        {EDGE | NEAREST, 2.9f, 1.0f, 12, 1},
        {EDGE | NEAREST, -5, 0, 0, 1},
        {EDGE | NEAREST, 1e30f, NAN, 3, 1},
        {BORDER | NEAREST, 4.0f, 0, 0, 1},
        {EDGE | LINEAR, 1.0f, 0.5f, 0.5f, 1},
        {EDGE | LINEAR, 2.0f, 1.0f, 6.5f, 1},
        {BORDER | LINEAR, 0.0f, 1.5f, 5.0f, 1},
        {NORMALIZED | EDGE | NEAREST, 0.5f, 0.75f, 12, 1},
        {NORMALIZED | REPEAT | NEAREST, 1.25f, -0.25f, 11, 1},
        {NORMALIZED | REPEAT | LINEAR, 1.0f, 0.25f, 1.5f, 1},
        {NORMALIZED | MIRRORED | NEAREST, 1.125f, 0.1f, 3, 1},
        {NORMALIZED | MIRRORED | NEAREST, -0.3f, 1.9f, 1, 1},
    };
    LLVMOrcLLJITRef jit;
    sample_func run = (sample_func)compile_module(sample_text, &jit);
    float color[4];

    for (size_t i = 0; i < COUNT(samples); i++) {
        run(&image, samples[i].sampler, samples[i].x, samples[i].y, color);
        if (fabsf(color[0] - samples[i].red) > 1e-5f || color[3] != samples[i].alpha || color[1] != 0)
            fail_msg("sample %zu: red %g, green %g, alpha %g; expected red %g, green 0, alpha %g", i, (double)color[0],
                     (double)color[1], (double)color[3], (double)samples[i].red, (double)samples[i].alpha);
    }
    LLVMOrcDisposeLLJIT(jit);
}

static void images_of_every_order_and_type_are_read(void **state)
{
    static const uint8_t pixels[8] = {0, 51, 102, 255, 255, 0, 0, 0};
    struct facet_host_image_object image = {.pixels = (uintptr_t)pixels,
                                            .width = 2,
                                            .height = 1,
                                            .row_bytes = 8,
                                            .channel_order = RGBA,
                                            .channel_type = UNORM8};
    LLVMOrcLLJITRef jit;
    sample_func run = (sample_func)compile_module(sample_text, &jit);
    float color[4];

    run(&image, EDGE | NEAREST, 0, 0, color);
    assert_true(color[0] == 0 && fabsf(color[1] - 0.2f) < 1e-6f && fabsf(color[2] - 0.4f) < 1e-6f && color[3] == 1);
    image.channel_order = BGRA;
    run(&image, EDGE | NEAREST, 0, 0, color);
    assert_true(color[2] == 0 && fabsf(color[1] - 0.2f) < 1e-6f && fabsf(color[0] - 0.4f) < 1e-6f && color[3] == 1);
    run(&image, BORDER | NEAREST, -1, 0, color); /* a channel order with alpha has a transparent border */
    assert_true(color[0] == 0 && color[3] == 0);
    LLVMOrcDisposeLLJIT(jit);
}

static void writes_outside_of_an_image_have_no_effect(void **state)
{
    uint8_t pixels[3][4] = {{9, 9, 9, 9}, {9, 9, 9, 9}, {9, 9, 9, 9}};
    const struct facet_host_image_object image = {.pixels = (uintptr_t)pixels[1],
                                                  .width = 1,
                                                  .height = 1,
                                                  .row_bytes = 4,
                                                  .channel_order = RGBA,
                                                  .channel_type = UNORM8};
    LLVMOrcLLJITRef jit;
    void (*run)(const struct facet_host_image_object *, int32_t) =
        (void (*)(const struct facet_host_image_object *, int32_t))compile_module(
            "declare void @_Z12write_imagef14ocl_image2d_woDv2_iDv4_f(ptr, <2 x i32>, <4 x float>)\n"
            "define void @run(ptr %image, i32 %x) {\n"
            "  %at = insertelement <2 x i32> zeroinitializer, i32 %x, i32 0\n"
            "  call void @_Z12write_imagef14ocl_image2d_woDv2_iDv4_f(ptr %image, <2 x i32> %at,"
            " <4 x float> <float 0.0, float 0.5, float 2.0, float -1.0>)\n  ret void\n}\n",
            &jit);

    run(&image, -1);
    run(&image, 1);
    assert_int_equal(pixels[1][0], 9);
    run(&image, 0);
    assert_memory_equal(pixels[1], ((uint8_t[]){0, 128, 255, 0}), 4);
    assert_int_equal(pixels[0][3], 9);
    assert_int_equal(pixels[2][0], 9);
    LLVMOrcDisposeLLJIT(jit);
}

static int open_library(void **state)
{
    char path[4096];
    struct facet_error error;

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    snprintf(path, sizeof path, "%s/%s", getenv("FACET_LIB_DIR"), FACET_BUILTINS_HOST);
    return facet_builtins_open(path, &library, &error) == FACET_OK ? 0 : -1;
}

static int close_library(void **state)
{
    facet_builtins_close(library);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_archive_is_refused_by_name),
        cmocka_unit_test(functions_that_are_called_are_linked),
        cmocka_unit_test(a_function_of_another_type_is_refused),
        cmocka_unit_test(every_shard_is_complete),
        cmocka_unit_test(many_threads_can_link),
        cmocka_unit_test(functions_of_one_argument_are_as_exact_as_opencl_demands),
        cmocka_unit_test(functions_of_two_arguments_are_as_exact_as_opencl_demands),
        cmocka_unit_test(saturating_conversions_are_bounded),
        cmocka_unit_test(halves_are_stored_in_every_rounding_mode),
        cmocka_unit_test(ids_are_those_of_the_launch),
        cmocka_unit_test(images_are_sampled_in_every_mode),
        cmocka_unit_test(images_of_every_order_and_type_are_read),
        cmocka_unit_test(writes_outside_of_an_image_have_no_effect),
    };

    return cmocka_run_group_tests_name("kernel/builtins", tests, open_library, close_library);
}
