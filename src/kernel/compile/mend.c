/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: what LLVM's generator of SPIR-V takes and makes something else of: written out, or refused.
 * Never: for other families, whose built-in library has bodies for these functions, or has not.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/compile/compile.h"

/* --- any() and all() ---------------------------------------------------------------------------------------------- */

/* SPIR-V's are of booleans; the generator hands them numbers. Those of OpenCL C are the highest bits of numbers. */
static bool is_of_highest_bits(LLVMValueRef function, bool *ret_all)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);
    LLVMTypeRef type = LLVMGlobalGetValueType(function), number;

    if (!LLVMIsDeclaration(function) || (strncmp(name, "_Z3any", 6) != 0 && strncmp(name, "_Z3all", 6) != 0) ||
        LLVMCountParamTypes(type) != 1 || LLVMGetTypeKind(LLVMGetReturnType(type)) != LLVMIntegerTypeKind)
        return false;
    *ret_all = name[4] == 'l';
    number = LLVMTypeOf(LLVMGetParam(function, 0));
    if (LLVMGetTypeKind(number) == LLVMVectorTypeKind)
        number = LLVMGetElementType(number);
    return LLVMGetTypeKind(number) == LLVMIntegerTypeKind;
}

static LLVMValueRef combine(LLVMBuilderRef builder, LLVMValueRef bits, bool all)
{
    LLVMTypeRef word = LLVMInt32TypeInContext(LLVMGetTypeContext(LLVMTypeOf(bits)));
    LLVMValueRef made = LLVMBuildExtractElement(builder, bits, LLVMConstInt(word, 0, 0), "");

    for (unsigned i = 1; i < LLVMGetVectorSize(LLVMTypeOf(bits)); i++) {
        LLVMValueRef one = LLVMBuildExtractElement(builder, bits, LLVMConstInt(word, i, 0), "");
        made = all ? LLVMBuildAnd(builder, made, one, "") : LLVMBuildOr(builder, made, one, "");
    }
    return made;
}

static LLVMValueRef highest_bits(LLVMBuilderRef builder, LLVMValueRef given, LLVMTypeRef result, bool all)
{
    LLVMTypeRef type = LLVMTypeOf(given);
    LLVMValueRef bits = LLVMBuildICmp(builder, LLVMIntSLT, given, LLVMConstNull(type), "");

    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        bits = combine(builder, bits, all);
    return LLVMBuildZExt(builder, bits, result, "");
}

/* --- convert_long() and its kin ----------------------------------------------------------------------------------- */

static bool is_of_integers(LLVMTypeRef type)
{
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetElementType(type);
    return LLVMGetTypeKind(type) == LLVMIntegerTypeKind;
}

struct conversion {
    bool from_signed, to_signed, saturates;
};

/* From integers to integers: the generator takes those that have a sign for some that have none. */
static bool is_conversion(LLVMValueRef function, struct conversion *ret_conversion)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);
    const char *base = strncmp(name, "_Z", 2) == 0 ? name + 2 + strspn(name + 2, "0123456789") : "";
    LLVMTypeRef type = LLVMGlobalGetValueType(function);

    if (!LLVMIsDeclaration(function) || strncmp(base, "convert_", 8) != 0 || LLVMCountParamTypes(type) != 1 ||
        !is_of_integers(LLVMGetReturnType(type)) || !is_of_integers(LLVMTypeOf(LLVMGetParam(function, 0))))
        return false;
    *ret_conversion = (struct conversion){
        .from_signed = strchr("csil", name[length - 1]) != NULL, /* as types are mangled */
        .to_signed = base[8] != 'u',
        .saturates = strstr(base, "_sat") != NULL,
    };
    return true;
}

static unsigned width_of(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type);
}

/* In all lanes. */
static LLVMValueRef constant(LLVMTypeRef type, uint64_t value)
{
    LLVMValueRef all[16];

    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return LLVMConstInt(type, value, 0);
    for (unsigned i = 0; i < LLVMGetVectorSize(type); i++)
        all[i] = LLVMConstInt(LLVMGetElementType(type), value, 0);
    return LLVMConstVector(all, LLVMGetVectorSize(type));
}

static LLVMValueRef bound(LLVMBuilderRef builder, LLVMValueRef given, LLVMIntPredicate beyond, uint64_t limit)
{
    LLVMValueRef most = constant(LLVMTypeOf(given), limit);

    return LLVMBuildSelect(builder, LLVMBuildICmp(builder, beyond, given, most, ""), most, given, "");
}

/* To the nearest number that there is; only bounds that the given type can pass. */
static LLVMValueRef saturate(LLVMBuilderRef builder, LLVMValueRef given, LLVMTypeRef result,
                             const struct conversion *conversion)
{
    unsigned from = width_of(LLVMTypeOf(given)) - conversion->from_signed;
    unsigned to = width_of(result) - conversion->to_signed;

    if (from > to)
        given = bound(builder, given, conversion->from_signed ? LLVMIntSGT : LLVMIntUGT, UINT64_MAX >> (64 - to));
    if (conversion->from_signed && !conversion->to_signed)
        given = bound(builder, given, LLVMIntSLT, 0);
    else if (conversion->from_signed && from > to)
        given = bound(builder, given, LLVMIntSLT, -(UINT64_C(1) << to));
    return given;
}

static LLVMValueRef convert(LLVMBuilderRef builder, LLVMValueRef given, LLVMTypeRef result,
                            const struct conversion *conversion)
{
    if (conversion->saturates)
        given = saturate(builder, given, result, conversion);
    return LLVMBuildIntCast2(builder, given, result, conversion->from_signed, "");
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* Inlined everywhere: a function by its name is still the built-in one to the generator. */
static void write_out(struct facet_compilation *compilation, LLVMValueRef function)
{
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    bool all = false, bits = is_of_highest_bits(function, &all);
    struct conversion conversion = {0};

    if (!bits && !is_conversion(function, &conversion))
        return;
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(compilation->context);
    LLVMValueRef given = LLVMGetParam(function, 0);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(compilation->context, always, 0));
    LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(compilation->context, function, ""));
    LLVMBuildRet(builder,
                 bits ? highest_bits(builder, given, result, all) : convert(builder, given, result, &conversion));
    LLVMDisposeBuilder(builder);
}

/* --- printf() ----------------------------------------------------------------------------------------------------- */

static void refuse_printf(struct facet_compilation *compilation)
{
    LLVMValueRef function = LLVMGetNamedFunction(compilation->module, "printf");
    char text[128];

    if (!function || !LLVMIsDeclaration(function) || !LLVMGetFirstUse(function))
        return;
    snprintf(text, sizeof text, "printf() is not supported for the target '%s'", compilation->target);
    facet_compile_refuse_calls(compilation, "printf", text);
}

enum facet_status facet_compile_mend(struct facet_compilation *compilation, struct facet_error *error)
{
    facet_compile_hide(compilation);
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        write_out(compilation, function);
    refuse_printf(compilation);
    return facet_compile_verdict(compilation, error);
}
