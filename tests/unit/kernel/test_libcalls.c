/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: tests of the functions that code generators call for operations that old processors lack. The functions are
 * compiled for the oldest processor and compared with those of the C library. FACET_LIB_DIR names the folder of the
 * archives.
 * Never: distinguishes one NaN from another.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "kernel/builtins/library.h"
#include "orc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct facet_builtins *library;
static LLVMOrcLLJITRef jit;

static LLVMOrcLLJITRef make_jit(void)
{
    char *triple = LLVMGetDefaultTargetTriple();
    LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITRef made = NULL;
    LLVMTargetRef target;

    assert_int_equal(LLVMGetTargetFromTriple(triple, &target, NULL), 0);
    const char *oldest = strncmp(triple, "x86_64", 6) == 0 ? "x86-64" : "";
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, triple, oldest, "", LLVMCodeGenLevelDefault,
                                                           LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(builder,
                                                  LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
    LLVMDisposeMessage(triple);
    assert_null(LLVMOrcCreateLLJIT(&made, builder));
    return made;
}

static void *find_function(const char *name)
{
    LLVMOrcExecutorAddress address = 0;
    LLVMErrorRef failed = LLVMOrcLLJITLookup(jit, &address, name);

    if (failed)
        fail_msg("%s: %s", name, LLVMGetErrorMessage(failed));
    return (void *)(uintptr_t)address;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static uint64_t seed = 1;

static uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(0x2545f4914f6cdd1d);
}

static double double_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns a number with a random sign, an exponent of [low, high], and in half of the cases few digits, since numbers
 * halfway between two results have few. */
static double random_number(int low, int high)
{
    uint64_t bits = random_bits();
    double digits = 1 + ldexp((double)(bits >> 12), -52);

    if (bits & 1)
        digits = 1 + ldexp((double)(bits >> (37 + (bits >> 3) % 26)), -27 + (int)((bits >> 3) % 26));
    return ldexp(bits & 2 ? -digits : digits, low + (int)(random_bits() % (uint64_t)(high - low + 1)));
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static const double specials[] = {0.0,           1.0,
                                  1.5,           3.0,
                                  0.5,           0x1.fffffffffffffp-2,
                                  0x1.fffffep-2, 2.5,
                                  INFINITY,      NAN,
                                  0x1p52,        0x1p53,
                                  0x1p23,        0x1.8p23,
                                  0x1p24,        0x1.fffffffffffffp51,
                                  0x1p-1022,     0x1p-126,
                                  0x1p-1074,     0x1p-149,
                                  0x1p-500,      0x1p-537,
                                  0x1p-75,       0x1.fffffffffffffp1023,
                                  0x1.8p-1073,   0x1p1023,
                                  0x1.8p-1022,   0x1.8p-148,
                                  0x1p127,       0x1.fffffep127,
                                  0x1p64,        0x1.0000000000001p0,
                                  0x1p-53,       0x1p-54,
                                  0x1p-24,       0x1.000002p0};

static double special_number(size_t index)
{
    return index & 1 ? -specials[index / 2] : specials[index / 2];
}

enum { SPECIALS = 2 * COUNT(specials), ROUNDS = 100000 };

/* --- a * b + c ---------------------------------------------------------------------------------------------------- */

typedef double (*fma_func)(double a, double b, double c);
typedef float (*fmaf_func)(float a, float b, float c);

static void check_fma(fma_func ours, double a, double b, double c)
{
    double got = ours(a, b, c), want = fma(a, b, c);

    if (!same_bits(got, want))
        fail_msg("fma(%a, %a, %a) = %a, expected %a", a, b, c, got, want);
}

static void check_fmaf(fmaf_func ours, float a, float b, float c)
{
    float got = ours(a, b, c), want = fmaf(a, b, c);

    if (!same_float(got, want))
        fail_msg("fmaf(%a, %a, %a) = %a, expected %a", (double)a, (double)b, (double)c, (double)got, (double)want);
}

static void fma_of_special_numbers_is_exact(void **state)
{
    fma_func ours = (fma_func)find_function("fma");
    fmaf_func ours_of_float = (fmaf_func)find_function("fmaf");

    for (size_t i = 0; i < SPECIALS * SPECIALS * SPECIALS; i++) {
        double a = special_number(i % SPECIALS), b = special_number(i / SPECIALS % SPECIALS),
               c = special_number(i / SPECIALS / SPECIALS);

        check_fma(ours, a, b, c);
        check_fmaf(ours_of_float, (float)a, (float)b, (float)c);
    }
}

/* The products and the numbers that are added have any size: near each other, far apart, too small for a normal number,
 * and near overflow. */
static void fma_is_exact(void **state)
{
    fma_func ours = (fma_func)find_function("fma");

    for (int i = 0; i < ROUNDS; i++) {
        double a = random_number(-30, 30), b = random_number(-30, 30), near = -(a * b), tiny = ldexp(a, -540),
               small = ldexp(b, -530);

        check_fma(ours, double_of(random_bits()), double_of(random_bits()), double_of(random_bits()));
        check_fma(ours, a, b, random_number(-170, 170));
        check_fma(ours, a, b, near);
        check_fma(ours, a, b, near * (1 + ldexp((double)(int)(random_bits() % 9 - 4), -52)));
        check_fma(ours, a, b, ldexp(near, (int)(random_bits() % 120) - 60));
        check_fma(ours, tiny, small, random_number(-1090, -1000));
        check_fma(ours, tiny, small, double_of(random_bits() % 16 | random_bits() << 63));
        check_fma(ours, ldexp(a, 510), ldexp(b, 510), random_number(960, 1023));
    }
}

static void fma_of_floats_is_exact(void **state)
{
    fmaf_func ours = (fmaf_func)find_function("fmaf");

    for (int i = 0; i < ROUNDS; i++) {
        float a = (float)random_number(-20, 20), b = (float)random_number(-20, 20), near = -(a * b);
        float tiny = ldexpf(a, -70), small = ldexpf(b, -70);

        check_fmaf(ours, float_of((uint32_t)random_bits()), float_of((uint32_t)random_bits()),
                   float_of((uint32_t)random_bits()));
        check_fmaf(ours, a, b, (float)random_number(-90, 90));
        check_fmaf(ours, a, b, near);
        check_fmaf(ours, a, b, near * (1 + ldexpf((float)(int)(random_bits() % 9 - 4), -23)));
        check_fmaf(ours, a, b, ldexpf(near, (int)(random_bits() % 60) - 30));
        check_fmaf(ours, tiny, small, (float)random_number(-150, -120));
        check_fmaf(ours, tiny, small, float_of((uint32_t)(random_bits() % 16) | (uint32_t)(random_bits() & 1) << 31));
        check_fmaf(ours, ldexpf(a, 55), ldexpf(b, 55), (float)random_number(100, 127));
    }
}

/* --- whole numbers ------------------------------------------------------------------------------------------------ */

typedef double (*round_func)(double x);
typedef float (*roundf_func)(float x);

static const struct rounding {
    const char *name;
    round_func of_double;
    roundf_func of_float;
} roundings[] = {
    {"floor", floor, floorf},   {"ceil", ceil, ceilf}, {"trunc", trunc, truncf},
    {"round", round, roundf},   {"rint", rint, rintf}, {"nearbyint", nearbyint, nearbyintf},
    {"roundeven", rint, rintf}, /* rint() rounds to the nearest even number by default */
};

static void check_rounding(const struct rounding *rounding, round_func ours, roundf_func ours_of_float, double x)
{
    float narrow = (float)x;

    if (!same_bits(ours(x), rounding->of_double(x)))
        fail_msg("%s(%a) = %a, expected %a", rounding->name, x, ours(x), rounding->of_double(x));
    if (!same_float(ours_of_float(narrow), rounding->of_float(narrow)))
        fail_msg("%sf(%a) = %a, expected %a", rounding->name, (double)narrow, (double)ours_of_float(narrow),
                 (double)rounding->of_float(narrow));
}

static void rounding_equals_the_c_librarys(void **state)
{
    char name[32];

    for (size_t r = 0; r < COUNT(roundings); r++) {
        round_func ours = (round_func)find_function(roundings[r].name);
        snprintf(name, sizeof name, "%sf", roundings[r].name);
        roundf_func ours_of_float = (roundf_func)find_function(name);

        for (size_t i = 0; i < SPECIALS; i++)
            check_rounding(&roundings[r], ours, ours_of_float, special_number(i));
        for (int i = 0; i < ROUNDS; i++) {
            check_rounding(&roundings[r], ours, ours_of_float, double_of(random_bits()));
            check_rounding(&roundings[r], ours, ours_of_float, random_number(-3, 54));
            check_rounding(&roundings[r], ours, ours_of_float, (double)(int32_t)random_bits() / 2);
        }
    }
}

/* --- halves ------------------------------------------------------------------------------------------------------- */

typedef uint16_t (*narrow_func)(float x);
typedef uint16_t (*narrow_double_func)(double x);
typedef float (*widen_func)(uint16_t bits);

enum { HALF_INFINITY = 0x7c00, HALF_SIGN = 0x8000 };

/* The value of a half's bits without a sign. The bits of infinity give the value that would follow the largest half. */
static double half_value(unsigned bits)
{
    unsigned exponent = bits >> 10;

    return exponent ? ldexp((bits & 0x3ff) + 0x400, (int)exponent - 25) : ldexp(bits, -24);
}

static void check_narrow(double x, unsigned want)
{
    narrow_func ours = (narrow_func)find_function("narrow");
    narrow_double_func ours_of_double = (narrow_double_func)find_function("narrow_double");

    for (int negative = 0; negative < 2; negative++, x = -x, want |= HALF_SIGN) {
        if (ours_of_double(x) != want)
            fail_msg("%a as half is %#x, expected %#x", x, (unsigned)ours_of_double(x), want);
        if ((double)(float)x == x && ours((float)x) != want)
            fail_msg("%a of float as half is %#x, expected %#x", x, (unsigned)ours((float)x), want);
    }
}

/* Checks each half, the middle between it and the next half, and the floats and doubles nearest to that middle. */
static void narrowing_gives_the_nearest_half(void **state)
{
    for (unsigned bits = 0; bits < HALF_INFINITY; bits++) {
        double half = half_value(bits), middle = (half + half_value(bits + 1)) / 2;

        check_narrow(half, bits);
        check_narrow(middle, bits + (bits & 1));
        check_narrow((double)nextafterf((float)middle, 0), bits);
        check_narrow((double)nextafterf((float)middle, INFINITY), bits + 1);
        check_narrow(nextafter(middle, 0), bits);
        check_narrow(nextafter(middle, INFINITY), bits + 1);
    }
    check_narrow(0x1.fffffep127, HALF_INFINITY);
    check_narrow(0x1p1023, HALF_INFINITY);
    check_narrow(INFINITY, HALF_INFINITY);
    check_narrow(0x1p-149, 0);
    check_narrow(0x1p-1074, 0);
    assert_true((((narrow_func)find_function("narrow"))(NAN)&0x7fff) > HALF_INFINITY);
    assert_true((((narrow_double_func)find_function("narrow_double"))(NAN)&0x7fff) > HALF_INFINITY);
}

static void every_half_is_widened_exactly(void **state)
{
    widen_func ours = (widen_func)find_function("widen");

    for (unsigned bits = 0; bits < HALF_SIGN; bits++) {
        float want = bits > HALF_INFINITY ? NAN : bits == HALF_INFINITY ? INFINITY : (float)half_value(bits);

        if (!same_float(ours((uint16_t)bits), want) || !same_float(ours((uint16_t)(bits | HALF_SIGN)), -want))
            fail_msg("half %#x or its negative is not widened to %a or its negative; half %#x gives %a", bits,
                     (double)want, bits, (double)ours((uint16_t)bits));
    }
}

/* --- integers of 128 bits ----------------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;
typedef __int128 signed_wide;
typedef wide (*divide_func)(wide a, wide b);
typedef signed_wide (*divide_signed_func)(signed_wide a, signed_wide b);

/* Returns a number of any length in bits or, in half of the cases, a power of two or one of its neighbours. */
static wide wide_bits(void)
{
    wide bits = (wide)random_bits() << 64 | random_bits();
    unsigned shift = (unsigned)(random_bits() % 128);

    return random_bits() & 1 ? bits >> shift : ((wide)1 << shift) + (random_bits() % 3) - 1;
}

static void check_division(wide a, wide b)
{
    signed_wide x = (signed_wide)a, y = (signed_wide)b;

    if (b == 0 || (y == -1 && a == (wide)1 << 127))
        return;
    assert_true(((divide_func)find_function("__udivti3"))(a, b) == a / b);
    assert_true(((divide_func)find_function("__umodti3"))(a, b) == a % b);
    assert_true(((divide_signed_func)find_function("__divti3"))(x, y) == x / y);
    assert_true(((divide_signed_func)find_function("__modti3"))(x, y) == x % y);
}

static void integers_of_128_bits_are_divided(void **state)
{
    for (int i = 0; i < ROUNDS; i++) {
        wide a = wide_bits(), b = wide_bits();

        check_division(a, b);
        check_division(a, -b);
        check_division(-a, b);
        check_division(a, a);
    }
    /* A division by zero must return; its result is undefined. */
    ((divide_func)find_function("__udivti3"))(7, 0);
    ((divide_signed_func)find_function("__modti3"))(-7, 0);
}

/* --- the library -------------------------------------------------------------------------------------------------- */

static void functions_of_the_library_are_supplied(void **state)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = LLVMModuleCreateWithNameInContext("test", context);
    struct facet_error error;

    assert_int_equal(facet_builtins_link_libcall(library, module, "fma", &error), FACET_OK);
    LLVMValueRef function = LLVMGetNamedFunction(module, "fma");
    assert_false(LLVMIsDeclaration(function));
    assert_int_equal(LLVMGetVisibility(function), LLVMHiddenVisibility);
    assert_int_equal(LLVMGetLinkage(function), LLVMExternalLinkage);
    assert_int_equal(facet_builtins_link_libcall(library, module, "fma", &error), FACET_OK);
    assert_ptr_equal(LLVMGetNamedFunction(module, "fma"), function);
    assert_int_equal(facet_builtins_link_libcall(library, module, "fopen", &error), FACET_INTERNAL);
    assert_non_null(strstr(error.message, "'fopen'"));
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
}

/* Halves are passed as bits, since not every C compiler has a type for them. */
static const char half_text[] = "declare half @facet_libcall___truncsfhf2(float)\n"
                                "declare half @facet_libcall___truncdfhf2(double)\n"
                                "declare float @facet_libcall___extendhfsf2(half)\n"
                                "define i16 @narrow(float %x) {\n"
                                "  %h = call half @facet_libcall___truncsfhf2(float %x)\n"
                                "  %b = bitcast half %h to i16\n  ret i16 %b\n}\n"
                                "define i16 @narrow_double(double %x) {\n"
                                "  %h = call half @facet_libcall___truncdfhf2(double %x)\n"
                                "  %b = bitcast half %h to i16\n  ret i16 %b\n}\n"
                                "define float @widen(i16 %b) {\n"
                                "  %h = bitcast i16 %b to half\n"
                                "  %f = call float @facet_libcall___extendhfsf2(half %h)\n  ret float %f\n}\n";

/* Supplies a function like one of an image, but makes it visible, so that the JIT finds it. */
static void supply_function(LLVMModuleRef module, const char *name)
{
    struct facet_error error;

    if (facet_builtins_link_libcall(library, module, name, &error) != FACET_OK)
        fail_msg("%s", error.message);
    LLVMSetVisibility(LLVMGetNamedFunction(module, name), LLVMDefaultVisibility);
}

static const char *const divisions[] = {"__udivti3", "__umodti3", "__divti3", "__modti3"};

static void add_functions(LLVMModuleRef module)
{
    char name[32];

    assert_int_equal(facet_builtins_link(library, module, NULL), FACET_OK);
    supply_function(module, "fma");
    supply_function(module, "fmaf");
    for (size_t i = 0; i < COUNT(divisions); i++)
        supply_function(module, divisions[i]);
    for (size_t r = 0; r < COUNT(roundings); r++) {
        supply_function(module, roundings[r].name);
        snprintf(name, sizeof name, "%sf", roundings[r].name);
        supply_function(module, name);
    }
}

static int set_up(void **state)
{
    char path[4096];
    struct facet_error error;

    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    snprintf(path, sizeof path, "%s/%s", getenv("FACET_LIB_DIR"), FACET_BUILTINS_HOST);
    if (facet_builtins_open(path, &library, &error) != FACET_OK)
        return -1;
#if LLVM_VERSION_MAJOR >= 21 /* a thread-safe context has no getter any more, but can be made of a context */
    LLVMContextRef context = LLVMContextCreate();
    LLVMOrcThreadSafeContextRef safe = LLVMOrcCreateNewThreadSafeContextFromLLVMContext(context);
#else
    LLVMOrcThreadSafeContextRef safe = LLVMOrcCreateNewThreadSafeContext();
    LLVMContextRef context = LLVMOrcThreadSafeContextGetContext(safe);
#endif
    LLVMModuleRef module = orc_parse(context, half_text);
    jit = make_jit();
    LLVMSetDataLayout(module, LLVMOrcLLJITGetDataLayoutStr(jit));
    LLVMSetTarget(module, LLVMOrcLLJITGetTripleString(jit));
    add_functions(module);
    LLVMOrcThreadSafeModuleRef moved = LLVMOrcCreateNewThreadSafeModule(module, safe);
    LLVMOrcDisposeThreadSafeContext(safe);
    return LLVMOrcLLJITAddLLVMIRModule(jit, LLVMOrcLLJITGetMainJITDylib(jit), moved) ? -1 : 0;
}

static int tear_down(void **state)
{
    LLVMOrcDisposeLLJIT(jit);
    facet_builtins_close(library);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_the_library_are_supplied),
        cmocka_unit_test(fma_of_special_numbers_is_exact),
        cmocka_unit_test(fma_is_exact),
        cmocka_unit_test(fma_of_floats_is_exact),
        cmocka_unit_test(rounding_equals_the_c_librarys),
        cmocka_unit_test(narrowing_gives_the_nearest_half),
        cmocka_unit_test(every_half_is_widened_exactly),
        cmocka_unit_test(integers_of_128_bits_are_divided),
    };

    return cmocka_run_group_tests_name("kernel/libcalls", tests, set_up, tear_down);
}
