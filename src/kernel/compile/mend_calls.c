/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: built-in functions that LLVM's generator of SPIR-V translates to the wrong function, or with wrong types. Each
 *       is written as calls of functions that it translates correctly.
 * Never: computes anything itself; changes a function that the source defines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/compile/compile.h"

enum { SYMBOL_SIZE = 256, ARGUMENTS_MAX = 8, LANES_MAX = 16 };

/* A mangled name in two parts: "_Z5ldexpDv4_fi" is "ldexp" and "Dv4_fi". */
struct mangled {
    char base[64];
    const char *types;
};

static bool read_mangled(const char *symbol, struct mangled *ret_name)
{
    char *end;

    if (strncmp(symbol, "_Z", 2) != 0)
        return false;
    unsigned long length = strtoul(symbol + 2, &end, 10);
    if (!length || length > strlen(end) || length >= sizeof ret_name->base)
        return false;
    memcpy(ret_name->base, end, length);
    ret_name->base[length] = '\0';
    ret_name->types = end + length;
    return true;
}

/* Emits a call of the built-in function of this name. */
static LLVMValueRef call_builtin(struct facet_compilation *compilation, LLVMBuilderRef builder, LLVMValueRef like,
                                 const char *base, const char *types, LLVMTypeRef result, LLVMValueRef *arguments,
                                 unsigned count)
{
    unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
    LLVMTypeRef given[ARGUMENTS_MAX];
    char symbol[2 * SYMBOL_SIZE];

    snprintf(symbol, sizeof symbol, "_Z%zu%s%s", strlen(base), base, types);
    for (unsigned i = 0; i < count; i++)
        given[i] = LLVMTypeOf(arguments[i]);
    LLVMTypeRef type = LLVMFunctionType(result, given, count, 0);
    LLVMValueRef function = LLVMGetNamedFunction(compilation->module, symbol);
    if (!function) {
        function = LLVMAddFunction(compilation->module, symbol, type);
        LLVMSetFunctionCallConv(function, LLVMGetFunctionCallConv(like));
        if (LLVMGetEnumAttributeAtIndex(like, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, convergent))
            LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                    LLVMCreateEnumAttribute(compilation->context, convergent, 0));
    }
    LLVMValueRef made = LLVMBuildCall2(builder, type, function, arguments, count, "");
    LLVMSetInstructionCallConv(made, LLVMGetFunctionCallConv(like));
    return made;
}

static bool is_vector(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind;
}

static LLVMValueRef lane_index(struct facet_compilation *compilation, unsigned index)
{
    return LLVMConstInt(LLVMInt32TypeInContext(compilation->context), index, 0);
}

/* --- halves ------------------------------------------------------------------------------------------------------- */

/* Recognizes vload_half3(), vstorea_half3_rte() and their kin. `ret_rest`: the name's rest, such as "_rte". */
static bool is_of_halves(const char *base, bool *ret_stores, unsigned *ret_lanes, bool *ret_aligned,
                         const char **ret_rest)
{
    bool stores = strncmp(base, "vstore", 6) == 0;
    char *end;

    if (!stores && strncmp(base, "vload", 5) != 0)
        return false;
    base += stores ? 6 : 5;
    *ret_stores = stores;
    *ret_aligned = base[0] == 'a';
    base += *ret_aligned;
    if (strncmp(base, "_half", 5) != 0)
        return false;
    unsigned long lanes = strtoul(base + 5, &end, 10);
    *ret_lanes = (unsigned)lanes;
    *ret_rest = end;
    return lanes > 1 && lanes <= LANES_MAX;
}

/* Accesses one half after the other; aligned vectors of three halves are four halves apart. */
static bool mend_halves(struct facet_compilation *compilation, LLVMValueRef function, const struct mangled *name)
{
    bool stores, aligned;
    unsigned lanes;
    const char *rest, *types = name->types;
    char base[32];

    if (!is_of_halves(name->base, &stores, &lanes, &aligned, &rest) || LLVMCountParams(function) != (stores ? 3 : 2))
        return false;
    LLVMTypeRef type =
        stores ? LLVMTypeOf(LLVMGetParam(function, 0)) : LLVMGetReturnType(LLVMGlobalGetValueType(function));
    LLVMValueRef offset = LLVMGetParam(function, stores ? 1 : 0), vector = LLVMGetParam(function, 0);
    if (!is_vector(type) || LLVMGetVectorSize(type) != lanes ||
        LLVMGetTypeKind(LLVMTypeOf(offset)) != LLVMIntegerTypeKind)
        return false;
    if (stores) /* "Dv3_fmPU3AS1Dh" as "fmPU3AS1Dh" */
        types += 2 + strspn(types + 2, "0123456789") + 1;
    snprintf(base, sizeof base, "%s_half%s", stores ? "vstore" : "vload", rest);
    LLVMBuilderRef builder = facet_compile_begin_body(compilation, function);
    LLVMValueRef stride = LLVMConstInt(LLVMTypeOf(offset), lanes == 3 && aligned ? 4 : lanes, 0);
    LLVMValueRef first = LLVMBuildMul(builder, offset, stride, ""), pointer = LLVMGetLastParam(function);
    LLVMValueRef made = LLVMGetPoison(type);
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef at = LLVMBuildAdd(builder, first, LLVMConstInt(LLVMTypeOf(offset), i, 0), "");
        if (stores) {
            LLVMValueRef one = LLVMBuildExtractElement(builder, vector, lane_index(compilation, i), "");
            call_builtin(compilation, builder, function, base, types, LLVMVoidTypeInContext(compilation->context),
                         (LLVMValueRef[]){one, at, pointer}, 3);
            continue;
        }
        LLVMValueRef one = call_builtin(compilation, builder, function, base, types, LLVMGetElementType(type),
                                        (LLVMValueRef[]){at, pointer}, 2);
        made = LLVMBuildInsertElement(builder, made, one, lane_index(compilation, i), "");
    }
    if (stores)
        LLVMBuildRetVoid(builder);
    else
        LLVMBuildRet(builder, made);
    LLVMDisposeBuilder(builder);
    return true;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

/* The generator emits a stride of 32 bits where a size_t is required. */
static bool mend_copy(struct facet_compilation *compilation, LLVMValueRef function, const struct mangled *name)
{
    static const char event[] = "9ocl_event";
    size_t length = strlen(name->types), tail = strlen(event);
    LLVMValueRef arguments[5];
    char types[SYMBOL_SIZE];

    if (strcmp(name->base, "async_work_group_copy") != 0 || LLVMCountParams(function) != 4 || length < tail ||
        length + 2 > sizeof types || strcmp(name->types + length - tail, event) != 0)
        return false;
    snprintf(types, sizeof types, "%.*sm%s", (int)(length - tail), name->types, event);
    for (unsigned i = 0; i < 3; i++)
        arguments[i] = LLVMGetParam(function, i);
    arguments[3] = LLVMConstInt(LLVMTypeOf(arguments[2]), 1, 0);
    arguments[4] = LLVMGetParam(function, 3);
    LLVMBuilderRef builder = facet_compile_begin_body(compilation, function);
    LLVMBuildRet(builder, call_builtin(compilation, builder, function, "async_work_group_strided_copy", types,
                                       LLVMGetReturnType(LLVMGlobalGetValueType(function)), arguments, 5));
    LLVMDisposeBuilder(builder);
    return true;
}

static LLVMTypeRef type_of(LLVMContextRef context, const char *code)
{
    switch (code[0]) {
    case 'c':
    case 'a':
    case 'h':
        return LLVMInt8TypeInContext(context);
    case 's':
    case 't':
        return LLVMInt16TypeInContext(context);
    case 'i':
    case 'j':
        return LLVMInt32TypeInContext(context);
    case 'l':
    case 'm':
        return LLVMInt64TypeInContext(context);
    case 'f':
        return LLVMFloatTypeInContext(context);
    case 'd':
        return LLVMDoubleTypeInContext(context);
    default:
        return strncmp(code, "Dh", 2) == 0 ? LLVMHalfTypeInContext(context) : NULL;
    }
}

/* The type that a mangled pointer such as "PU3AS1KDv4_f" points to; NULL: no type that can be copied. */
static LLVMTypeRef pointee_of(LLVMContextRef context, const char *types)
{
    unsigned long lanes = 1;
    char *end;

    if (*types++ != 'P')
        return NULL;
    for (; *types == 'U' || *types == 'K' || *types == 'V' || *types == 'r'; types++)
        if (*types == 'U')
            types += strtoul(types + 1, &end, 10) + (unsigned long)(end - types) - 1;
    if (strncmp(types, "Dv", 2) == 0) {
        lanes = strtoul(types + 2, &end, 10);
        types = end + (*end == '_');
    }
    if (!lanes || lanes > LANES_MAX)
        return NULL;
    LLVMTypeRef type = type_of(context, types);
    return type && lanes > 1 ? LLVMVectorType(type, (unsigned)lanes) : type;
}

/* A pointer to `type`, by an instruction that adds 0 to the address: a builder would fold it to the pointer itself. */
static LLVMValueRef point_to(LLVMBuilderRef builder, LLVMTypeRef type, LLVMValueRef pointer)
{
    LLVMContextRef context = LLVMGetTypeContext(type);
    LLVMTypeRef pointer_type = LLVMTypeOf(pointer);
    LLVMValueRef none = LLVMConstInt(LLVMInt64TypeInContext(context), 0, 0);
    LLVMValueRef slot = LLVMBuildAlloca(builder, pointer_type, "");
    LLVMValueRef stand_in = LLVMBuildLoad2(builder, pointer_type, slot, "");
    LLVMValueRef made = LLVMBuildGEP2(builder, type, stand_in, &none, 1, "");

    LLVMSetOperand(made, 0, pointer);
    LLVMInstructionEraseFromParent(stand_in);
    LLVMInstructionEraseFromParent(slot);
    return made;
}

/* The generator uses the type of a variable, or of another use of the pointer; but the call's length is counted in
 * elements of the type in the call's name. */
void facet_compile_mend_pointers(LLVMBuilderRef builder, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);
    struct mangled name;
    size_t length;

    if (!LLVMIsAFunction(callee) || !read_mangled(LLVMGetValueName2(callee, &length), &name) ||
        strncmp(name.base, "async_work_group_", 17) != 0 || LLVMGetNumArgOperands(call) < 2)
        return;
    LLVMTypeRef type = pointee_of(LLVMGetTypeContext(LLVMTypeOf(call)), name.types);
    for (unsigned i = 0; type && i < 2; i++)
        LLVMSetOperand(call, i, point_to(builder, type, LLVMGetOperand(call, i)));
}

/* --- formats of images ------------------------------------------------------------------------------------------ */

/* SPIR-V numbers the types of channels from 0, OpenCL C from CLK_SNORM_INT8; the generator omits the difference. */
void facet_compile_mend_format(LLVMBuilderRef builder, LLVMValueRef call)
{
    enum { CLK_SNORM_INT8 = 0x10D0 };
    LLVMValueRef callee = LLVMGetCalledValue(call);
    LLVMTypeRef type = LLVMTypeOf(call);
    struct mangled name;
    size_t length;

    if (!LLVMIsAFunction(callee) || !LLVMIsDeclaration(callee) || LLVMGetTypeKind(type) != LLVMIntegerTypeKind ||
        !read_mangled(LLVMGetValueName2(callee, &length), &name) ||
        strcmp(name.base, "get_image_channel_data_type") != 0)
        return;
    LLVMPositionBuilderBefore(builder, LLVMGetNextInstruction(call));
    LLVMValueRef made = LLVMBuildAdd(builder, call, LLVMConstNull(type), "");
    LLVMReplaceAllUsesWith(call, made);
    LLVMSetOperand(made, 0, call);
    LLVMSetOperand(made, 1, LLVMConstInt(type, CLK_SNORM_INT8, 0));
}

/* --- one number for all lanes ------------------------------------------------------------------------------------- */

static LLVMValueRef splat_value(struct facet_compilation *compilation, LLVMBuilderRef builder, LLVMValueRef value,
                                unsigned lanes)
{
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(value), lanes);
    LLVMTypeRef word = LLVMInt32TypeInContext(compilation->context);
    LLVMValueRef one = LLVMBuildInsertElement(builder, LLVMGetPoison(type), value, lane_index(compilation, 0), "");

    return LLVMBuildShuffleVector(builder, one, LLVMGetPoison(type), LLVMConstNull(LLVMVectorType(word, lanes)), "");
}

/* Mangles types as C++ does: a repeated type is "S_". */
static void mangle_vectors(LLVMTypeRef result, bool exponent, char element, unsigned count, char *ret_types,
                           size_t size)
{
    unsigned lanes = LLVMGetVectorSize(result);
    int used = snprintf(ret_types, size, "Dv%u_%c", lanes, element);

    if (exponent)
        snprintf(ret_types + used, size - (size_t)used, "Dv%u_i", lanes);
    for (unsigned i = 1; !exponent && i < count; i++)
        used += snprintf(ret_types + used, size - (size_t)used, "S_");
}

/* SPIR-V has these functions with operands of one type only. */
static bool mend_mixed(struct facet_compilation *compilation, LLVMValueRef function, const struct mangled *name)
{
    static const char *const names[] = {"ldexp", "fmax", "fmin", "max", "min", "clamp", "mix", "step", "smoothstep"};
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    unsigned count = LLVMCountParams(function), numbers = 0;
    LLVMValueRef arguments[ARGUMENTS_MAX];
    char types[SYMBOL_SIZE];
    bool known = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        known |= strcmp(name->base, names[i]) == 0;
    for (unsigned i = 0; i < count; i++)
        numbers += !is_vector(LLVMTypeOf(LLVMGetParam(function, i)));
    if (!known || !is_vector(result) || !numbers || numbers == count || count > 3)
        return false;
    const char *vector = strstr(name->types, "Dv");
    const char *element = vector ? strchr(vector, '_') : NULL;
    if (!element)
        return false;
    LLVMBuilderRef builder = facet_compile_begin_body(compilation, function);
    for (unsigned i = 0; i < count; i++) {
        arguments[i] = LLVMGetParam(function, i);
        if (!is_vector(LLVMTypeOf(arguments[i])))
            arguments[i] = splat_value(compilation, builder, arguments[i], LLVMGetVectorSize(result));
    }
    mangle_vectors(result, strcmp(name->base, "ldexp") == 0, element[1], count, types, sizeof types);
    LLVMBuildRet(builder, call_builtin(compilation, builder, function, name->base, types, result, arguments, count));
    LLVMDisposeBuilder(builder);
    return true;
}

/* A new body may call functions that are added to the module and visited later; they need no body themselves. */
void facet_compile_mend_call(struct facet_compilation *compilation, LLVMValueRef function)
{
    struct mangled name;
    size_t length;

    if (!LLVMIsDeclaration(function) || !read_mangled(LLVMGetValueName2(function, &length), &name))
        return;
    if (!mend_halves(compilation, function, &name) && !mend_copy(compilation, function, &name))
        mend_mixed(compilation, function, &name);
}
