/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the constructs that LLVM's generator of SPIR-V accepts and translates wrongly: each is rewritten, or refused.
 * Never: is used for other families.
 */
#include <stdio.h>
#include <string.h>

#include "kernel/compile/compile.h"

enum { LANES_MAX = 16 }; /* the most elements of a vector in OpenCL C and SPIR-V */

/* --- any() and all() ---------------------------------------------------------------------------------------------- */

/* SPIR-V's any() and all() take booleans, but the generator passes numbers. OpenCL C's look at the numbers' highest
 * bits. */
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

static LLVMValueRef combine_bits(LLVMBuilderRef builder, LLVMValueRef bits, bool all)
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
        bits = combine_bits(builder, bits, all);
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

/* Whether the function converts integers to integers, where the generator takes some signed integers for unsigned ones;
 * or a type to itself, for which SPIR-V has no instruction. */
static bool is_conversion(LLVMValueRef function, struct conversion *ret_conversion)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);
    const char *base = strncmp(name, "_Z", 2) == 0 ? name + 2 + strspn(name + 2, "0123456789") : "";
    LLVMTypeRef type = LLVMGlobalGetValueType(function);

    if (!LLVMIsDeclaration(function) || strncmp(base, "convert_", 8) != 0 || LLVMCountParamTypes(type) != 1)
        return false;
    LLVMTypeRef from = LLVMTypeOf(LLVMGetParam(function, 0)), to = LLVMGetReturnType(type);
    if (from != to && (!is_of_integers(from) || !is_of_integers(to)))
        return false;
    *ret_conversion = (struct conversion){
        .from_signed = strchr("csil", name[length - 1]) != NULL, /* the mangled names of signed integers */
        .to_signed = base[8] != 'u',
        .saturates = strstr(base, "_sat") != NULL,
    };
    return true;
}

static unsigned width_of(LLVMTypeRef type)
{
    return LLVMGetIntTypeWidth(LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type);
}

static unsigned lanes_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

/* A constant with the value in all lanes. */
static LLVMValueRef splat_constant(LLVMTypeRef type, uint64_t value)
{
    LLVMValueRef all[LANES_MAX];

    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return LLVMConstInt(type, value, 0);
    for (unsigned i = 0; i < LLVMGetVectorSize(type); i++)
        all[i] = LLVMConstInt(LLVMGetElementType(type), value, 0);
    return LLVMConstVector(all, LLVMGetVectorSize(type));
}

static LLVMValueRef bound_value(LLVMBuilderRef builder, LLVMValueRef given, LLVMIntPredicate beyond, uint64_t limit)
{
    LLVMValueRef max = splat_constant(LLVMTypeOf(given), limit);

    return LLVMBuildSelect(builder, LLVMBuildICmp(builder, beyond, given, max, ""), max, given, "");
}

/* Clamps to the result's range, by those of its two bounds that a value of the given type can exceed. */
static LLVMValueRef saturate_value(LLVMBuilderRef builder, LLVMValueRef given, LLVMTypeRef result,
                                   const struct conversion *conversion)
{
    unsigned from = width_of(LLVMTypeOf(given)) - conversion->from_signed;
    unsigned to = width_of(result) - conversion->to_signed;

    if (from > to)
        given = bound_value(builder, given, conversion->from_signed ? LLVMIntSGT : LLVMIntUGT, UINT64_MAX >> (64 - to));
    if (conversion->from_signed && !conversion->to_signed)
        given = bound_value(builder, given, LLVMIntSLT, 0);
    else if (conversion->from_signed && from > to)
        given = bound_value(builder, given, LLVMIntSLT, -(UINT64_C(1) << to));
    return given;
}

static LLVMValueRef convert_value(LLVMBuilderRef builder, LLVMValueRef given, LLVMTypeRef result,
                                  const struct conversion *conversion)
{
    if (!is_of_integers(result))
        return given;
    if (conversion->saturates)
        given = saturate_value(builder, given, result, conversion);
    return LLVMBuildIntCast2(builder, given, result, conversion->from_signed, "");
}

/* --- vloadn() and vstoren() --------------------------------------------------------------------------------------- */

struct access {
    LLVMTypeRef vector;
    bool stores;
};

/* The generator may pass these functions a pointer to an array; SPIR-V requires a pointer to a number. */
static bool is_access(LLVMValueRef function, struct access *ret_access)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);
    bool loads = strncmp(name, "_Z6vload", 8) == 0 || strncmp(name, "_Z7vload16", 10) == 0;
    bool stores = strncmp(name, "_Z7vstore", 9) == 0 || strncmp(name, "_Z8vstore16", 11) == 0;
    unsigned count = LLVMCountParams(function), expected = stores ? 3 : 2;

    if (!LLVMIsDeclaration(function) || (!loads && !stores) || count != expected ||
        LLVMGetTypeKind(LLVMTypeOf(LLVMGetParam(function, count - 1))) != LLVMPointerTypeKind)
        return false;
    ret_access->stores = stores;
    ret_access->vector =
        stores ? LLVMTypeOf(LLVMGetParam(function, 0)) : LLVMGetReturnType(LLVMGlobalGetValueType(function));
    return LLVMGetTypeKind(ret_access->vector) == LLVMVectorTypeKind;
}

/* Accesses one number after the other, since the address is only aligned for one number. Returns the value read. */
static LLVMValueRef access_numbers(LLVMBuilderRef builder, LLVMValueRef function, const struct access *access)
{
    LLVMTypeRef type = LLVMGetElementType(access->vector);
    LLVMValueRef offset = LLVMGetParam(function, access->stores ? 1 : 0), pointer = LLVMGetLastParam(function);
    LLVMValueRef made = access->stores ? LLVMGetParam(function, 0) : LLVMGetPoison(access->vector);
    LLVMTypeRef index = LLVMTypeOf(offset);
    unsigned lanes = LLVMGetVectorSize(access->vector);
    LLVMValueRef first = LLVMBuildMul(builder, offset, LLVMConstInt(index, lanes, 0), "");

    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef lane = LLVMConstInt(index, i, 0), at = LLVMBuildAdd(builder, first, lane, "");
        LLVMValueRef place = LLVMBuildGEP2(builder, type, pointer, &at, 1, "");

        if (access->stores)
            LLVMBuildStore(builder, LLVMBuildExtractElement(builder, made, lane, ""), place);
        else
            made = LLVMBuildInsertElement(builder, made, LLVMBuildLoad2(builder, type, place, ""), lane, "");
    }
    return made;
}

/* --- bodies ------------------------------------------------------------------------------------------------------- */

/* The function is inlined everywhere, since the generator takes a call of its name for the built-in function. */
LLVMBuilderRef facet_compile_begin_body(struct facet_compilation *compilation, LLVMValueRef function)
{
    unsigned always = LLVMGetEnumAttributeKindForName("alwaysinline", 12);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(compilation->context);

    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(compilation->context, always, 0));
    LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(compilation->context, function, ""));
    return builder;
}

/* Gives a built-in function a body if the generator would translate its calls wrongly. */
static void write_body(struct facet_compilation *compilation, LLVMValueRef function)
{
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    bool all = false, bits = is_of_highest_bits(function, &all);
    struct conversion conversion = {0};
    struct access access = {0};
    bool converts = is_conversion(function, &conversion), accesses = is_access(function, &access);

    if (!bits && !converts && !accesses) {
        facet_compile_mend_call(compilation, function);
        return;
    }
    LLVMBuilderRef builder = facet_compile_begin_body(compilation, function);
    LLVMValueRef given = LLVMGetParam(function, 0), made;
    if (bits)
        made = highest_bits(builder, given, result, all);
    else
        made =
            converts ? convert_value(builder, given, result, &conversion) : access_numbers(builder, function, &access);
    if (access.stores)
        LLVMBuildRetVoid(builder);
    else
        LLVMBuildRet(builder, made);
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
        write_body(compilation, function);
    refuse_printf(compilation);
    return facet_compile_verdict(compilation, error);
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* Before SPIR-V 1.4 a single boolean can choose between numbers, but not between vectors. */
static void widen_condition(LLVMBuilderRef builder, LLVMValueRef select)
{
    LLVMTypeRef type = LLVMTypeOf(select);
    LLVMValueRef condition = LLVMGetCondition(select);

    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind || LLVMGetTypeKind(LLVMTypeOf(condition)) == LLVMVectorTypeKind)
        return;
    LLVMTypeRef word = LLVMInt32TypeInContext(LLVMGetTypeContext(type));
    unsigned lanes = LLVMGetVectorSize(type);
    LLVMValueRef none = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(condition), lanes));
    LLVMValueRef one = LLVMBuildInsertElement(builder, none, condition, LLVMConstInt(word, 0, 0), "");
    LLVMValueRef firsts = LLVMConstNull(LLVMVectorType(word, lanes));
    LLVMSetOperand(select, 0, LLVMBuildShuffleVector(builder, one, none, firsts, ""));
}

/*
 * Replaces a truncation that is extended again by a mask of the bits that stay: at level 0 the generator would make a
 * mask as wide as the result.
 */
static void mask_extension(LLVMBuilderRef builder, LLVMValueRef extension)
{
    LLVMValueRef cut = LLVMGetOperand(extension, 0);
    LLVMTypeRef type = LLVMTypeOf(extension);

    if (!LLVMIsATruncInst(cut) || width_of(LLVMTypeOf(cut)) > 64 || lanes_of(type) > LANES_MAX)
        return;
    LLVMValueRef bits = splat_constant(type, UINT64_MAX >> (64 - width_of(LLVMTypeOf(cut))));
    LLVMValueRef given = LLVMBuildIntCast2(builder, LLVMGetOperand(cut, 0), type, 0, "");
    LLVMReplaceAllUsesWith(extension, LLVMBuildAnd(builder, given, bits, ""));
}

enum facet_status facet_compile_mend_code(struct facet_compilation *compilation, struct facet_error *error)
{
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(compilation->context);

    facet_compile_unfold(compilation);
    facet_compile_widths(compilation);
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
                LLVMPositionBuilderBefore(builder, at);
                if (LLVMIsASelectInst(at))
                    widen_condition(builder, at);
                else if (LLVMIsAZExtInst(at))
                    mask_extension(builder, at);
                else if (LLVMIsACallInst(at)) {
                    facet_compile_mend_pointers(builder, at);
                    facet_compile_mend_format(builder, at);
                }
            }
    LLVMDisposeBuilder(builder);
    if (!compilation->failed)
        facet_compile_check_spirv(compilation);
    return facet_compile_verdict(compilation, error);
}
