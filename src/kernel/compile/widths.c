/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers of odd widths, which SPIR-V does not have: 2 to 63 bits, except 8, 16 and 32. LLVM's optimizer makes them (a
 * counter of which two bits are used gets two bits), and its generator of SPIR-V takes the next wider type without
 * clearing the bits above.
 *
 * Owns: widening each instruction to the next type that exists, with the bits above always 0; and casts between bits
 *       and vectors, which SPIR-V lacks.
 * Never: decides which instructions are widened; widths_all.c does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/llvm.h"
#include "kernel/compile/widths.h"

enum { LANES_MAX = 64, WORD_BITS = 64 };

/* --- types -------------------------------------------------------------------------------------------------------- */

static bool is_vector(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind;
}

static LLVMTypeRef element_of(LLVMTypeRef type)
{
    return is_vector(type) ? LLVMGetElementType(type) : type;
}

static unsigned lanes_of(LLVMTypeRef type)
{
    return is_vector(type) ? LLVMGetVectorSize(type) : 1;
}

static bool is_integer(LLVMTypeRef type)
{
    return LLVMGetTypeKind(element_of(type)) == LLVMIntegerTypeKind;
}

/* The bits of a lane; 0: neither an integer nor a float. */
static unsigned bits_of(LLVMTypeRef type)
{
    switch (LLVMGetTypeKind(element_of(type))) {
    case LLVMIntegerTypeKind:
        return LLVMGetIntTypeWidth(element_of(type));
    case LLVMHalfTypeKind:
        return 16;
    case LLVMFloatTypeKind:
        return 32;
    case LLVMDoubleTypeKind:
        return 64;
    default:
        return 0;
    }
}

static bool is_odd_width(unsigned bits)
{
    return bits != 1 && bits != 8 && bits != 16 && bits != 32 && bits != 64;
}

bool facet_widths_type_is_odd(LLVMTypeRef type)
{
    unsigned count = LLVMGetTypeKind(type) == LLVMStructTypeKind ? LLVMCountStructElementTypes(type) : 0;

    for (unsigned i = 0; i < count; i++)
        if (facet_widths_type_is_odd(LLVMStructGetTypeAtIndex(type, i)))
            return true;
    if (LLVMGetTypeKind(type) == LLVMArrayTypeKind)
        return facet_widths_type_is_odd(LLVMGetElementType(type));
    return is_integer(type) && is_odd_width(LLVMGetIntTypeWidth(element_of(type)));
}

bool facet_widths_is_odd(LLVMValueRef value)
{
    return facet_widths_type_is_odd(LLVMTypeOf(value));
}

/* Whether the type is a vector of booleans. */
bool facet_widths_is_bits(LLVMTypeRef type)
{
    return is_vector(type) && is_integer(type) && bits_of(type) == 1;
}

static LLVMTypeRef integer_type(const struct widths *widths, unsigned bits)
{
    return LLVMIntTypeInContext(widths->context, bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64);
}

static LLVMTypeRef type_like(LLVMTypeRef element, LLVMTypeRef type)
{
    return is_vector(type) ? LLVMVectorType(element, LLVMGetVectorSize(type)) : element;
}

/* The next wider type that SPIR-V has; a type that it has stays. */
static LLVMTypeRef wide_type(const struct widths *widths, LLVMTypeRef type)
{
    return facet_widths_type_is_odd(type) ? type_like(integer_type(widths, bits_of(type)), type) : type;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static LLVMValueRef integer_constant(LLVMTypeRef type, uint64_t value)
{
    LLVMValueRef all[LANES_MAX];

    if (!is_vector(type))
        return LLVMConstInt(type, value, 0);
    for (unsigned i = 0; i < lanes_of(type); i++)
        all[i] = LLVMConstInt(element_of(type), value, 0);
    return LLVMConstVector(all, lanes_of(type));
}

static LLVMValueRef truncate_to(const struct widths *widths, LLVMValueRef value, unsigned bits)
{
    LLVMTypeRef type = LLVMTypeOf(value);

    return bits >= bits_of(type)
               ? value
               : LLVMBuildAnd(widths->builder, value, integer_constant(type, UINT64_MAX >> (WORD_BITS - bits)), "");
}

static LLVMValueRef wide_scalar(LLVMValueRef constant, LLVMTypeRef type)
{
    if (LLVMIsAConstantInt(constant))
        return LLVMConstInt(type, LLVMConstIntGetZExtValue(constant), 0);
    if (LLVMIsPoison(constant))
        return LLVMGetPoison(type);
    /* Any value is allowed, if all users get the same value. */
    return LLVMIsUndef(constant) || LLVMIsNull(constant) ? LLVMConstNull(type) : NULL;
}

static LLVMValueRef wide_constant(LLVMValueRef constant, LLVMTypeRef type)
{
    LLVMValueRef all[LANES_MAX];

    if (!is_vector(type))
        return wide_scalar(constant, type);
    for (unsigned i = 0; i < lanes_of(type); i++) {
        LLVMValueRef one = LLVMGetAggregateElement(constant, i);
        all[i] = one ? wide_scalar(one, element_of(type)) : NULL;
        if (!all[i])
            return NULL;
    }
    return LLVMConstVector(all, lanes_of(type));
}

bool facet_widths_is_marked(LLVMValueRef instruction, unsigned kind)
{
    return LLVMGetMetadata(instruction, kind) != NULL;
}

/* A value of odd width, widened with zeros above; NULL: no rule is known. Other values are unchanged. */
LLVMValueRef facet_widths_wide(struct widths *widths, LLVMValueRef value)
{
    LLVMTypeRef type = wide_type(widths, LLVMTypeOf(value));

    if (!facet_widths_is_odd(value))
        return value;
    if (bits_of(LLVMTypeOf(value)) > WORD_BITS || lanes_of(type) > LANES_MAX)
        return NULL;
    if (LLVMIsConstant(value))
        return wide_constant(value, type);
    return LLVMIsATruncInst(value) && facet_widths_is_marked(value, widths->wide) ? LLVMGetOperand(value, 0) : NULL;
}

/* As facet_widths_wide(), with copies of the sign above. */
LLVMValueRef facet_widths_signed(struct widths *widths, LLVMValueRef value)
{
    LLVMValueRef made = facet_widths_wide(widths, value);
    unsigned unused_bits = made ? bits_of(LLVMTypeOf(made)) - bits_of(LLVMTypeOf(value)) : 0;

    if (!unused_bits)
        return made;
    LLVMValueRef by = integer_constant(LLVMTypeOf(made), unused_bits);
    return LLVMBuildAShr(widths->builder, LLVMBuildShl(widths->builder, made, by, ""), by, "");
}

/* --- bits --------------------------------------------------------------------------------------------------------- */

static LLVMValueRef lane_index(const struct widths *widths, unsigned index)
{
    return LLVMConstInt(LLVMInt32TypeInContext(widths->context), index, 0);
}

/* Casts floats to integers with the same bits; integers stay. */
static LLVMValueRef as_integers(const struct widths *widths, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);

    return is_integer(type)
               ? value
               : LLVMBuildBitCast(widths->builder, value, type_like(integer_type(widths, bits_of(type)), type), "");
}

static unsigned all_bits(LLVMTypeRef type)
{
    return bits_of(type) * lanes_of(type);
}

/* Puts all lanes into one integer, the first lane into the lowest bits. */
static LLVMValueRef gather_lanes(struct widths *widths, LLVMValueRef value)
{
    LLVMTypeRef given = LLVMTypeOf(value), type = integer_type(widths, all_bits(given));
    unsigned bits = bits_of(given);
    LLVMValueRef from = facet_widths_wide(widths, value), all = LLVMConstNull(type);

    if (!from)
        return NULL;
    from = as_integers(widths, from);
    if (!is_vector(given))
        return from;
    for (unsigned i = 0; i < lanes_of(given); i++) {
        LLVMValueRef one = LLVMBuildExtractElement(widths->builder, from, lane_index(widths, i), "");
        one = LLVMBuildIntCast2(widths->builder, one, type, 0, "");
        if (i)
            one = LLVMBuildShl(widths->builder, one, LLVMConstInt(type, i * bits, 0), "");
        all = i ? LLVMBuildOr(widths->builder, all, one, "") : one;
    }
    return all;
}

/* The inverse of gather_lanes(); returns a value of `type`, or of its replacement. */
static LLVMValueRef scatter_lanes(struct widths *widths, LLVMValueRef all, LLVMTypeRef type)
{
    LLVMTypeRef whole = LLVMTypeOf(all), to = wide_type(widths, type), element = element_of(to);
    LLVMTypeRef numbers = is_integer(to) ? to : type_like(integer_type(widths, bits_of(to)), to);
    LLVMValueRef made = LLVMGetPoison(numbers);
    unsigned bits = bits_of(type);

    if (!is_vector(type))
        return is_integer(type) ? all : LLVMBuildBitCast(widths->builder, all, type, "");
    for (unsigned i = 0; i < lanes_of(type); i++) {
        LLVMValueRef one = i ? LLVMBuildLShr(widths->builder, all, LLVMConstInt(whole, i * bits, 0), "") : all;
        one = truncate_to(widths, one, bits);
        if (bits == 1)
            one = LLVMBuildICmp(widths->builder, LLVMIntNE, one, LLVMConstNull(whole), "");
        else
            one = LLVMBuildIntCast2(widths->builder, one, element_of(numbers), 0, "");
        made = LLVMBuildInsertElement(widths->builder, made, one, lane_index(widths, i), "");
    }
    return is_integer(element) ? made : LLVMBuildBitCast(widths->builder, made, to, "");
}

static bool fits_in_word(LLVMTypeRef type)
{
    return bits_of(type) && all_bits(type) <= WORD_BITS;
}

static LLVMValueRef cast_bits(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef from = LLVMGetOperand(instruction, 0), all;

    if (!fits_in_word(LLVMTypeOf(from)))
        return NULL;
    all = gather_lanes(widths, from);
    return all ? scatter_lanes(widths, all, LLVMTypeOf(instruction)) : NULL;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static LLVMValueRef byte_at(const struct widths *widths, LLVMValueRef pointer, unsigned index)
{
    LLVMValueRef at = LLVMConstInt(LLVMInt64TypeInContext(widths->context), index, 0);

    return LLVMBuildGEP2(widths->builder, LLVMInt8TypeInContext(widths->context), pointer, &at, 1, "");
}

/* Loads byte by byte, as bytes behind the value belong to another object. */
static LLVMValueRef load_bytes(struct widths *widths, LLVMValueRef instruction)
{
    LLVMTypeRef type = LLVMTypeOf(instruction), byte = LLVMInt8TypeInContext(widths->context), whole;
    LLVMValueRef all = NULL;

    if (!fits_in_word(type))
        return NULL;
    whole = integer_type(widths, all_bits(type));
    for (unsigned i = 0; i < (all_bits(type) + 7) / 8; i++) {
        LLVMValueRef place = byte_at(widths, LLVMGetOperand(instruction, 0), i);
        LLVMValueRef one = LLVMBuildLoad2(widths->builder, byte, place, "");
        LLVMSetAlignment(one, 1);
        LLVMSetVolatile(one, LLVMGetVolatile(instruction));
        one = LLVMBuildIntCast2(widths->builder, one, whole, 0, "");
        one = i ? LLVMBuildShl(widths->builder, one, LLVMConstInt(whole, 8 * i, 0), "") : one;
        all = all ? LLVMBuildOr(widths->builder, all, one, "") : one;
    }
    return scatter_lanes(widths, truncate_to(widths, all, all_bits(type)), type);
}

bool facet_widths_store(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef value = LLVMGetOperand(instruction, 0),
                 all = fits_in_word(LLVMTypeOf(value)) ? gather_lanes(widths, value) : NULL;

    if (!all)
        return false;
    for (unsigned i = 0; i < (all_bits(LLVMTypeOf(value)) + 7) / 8; i++) {
        LLVMValueRef by = LLVMConstInt(LLVMTypeOf(all), 8 * i, 0);
        LLVMValueRef one = i ? LLVMBuildLShr(widths->builder, all, by, "") : all;
        one = LLVMBuildIntCast2(widths->builder, one, LLVMInt8TypeInContext(widths->context), 0, "");
        one = LLVMBuildStore(widths->builder, one, byte_at(widths, LLVMGetOperand(instruction, 1), i));
        LLVMSetAlignment(one, 1);
        LLVMSetVolatile(one, LLVMGetVolatile(instruction));
    }
    return true;
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static LLVMValueRef widen_operation(struct widths *widths, LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
    LLVMValueRef left = LLVMGetOperand(instruction, 0), right = LLVMGetOperand(instruction, 1);
    bool sign = opcode == LLVMAShr || opcode == LLVMSDiv || opcode == LLVMSRem;
    LLVMValueRef a = sign ? facet_widths_signed(widths, left) : facet_widths_wide(widths, left);
    LLVMValueRef b = sign && opcode != LLVMAShr ? facet_widths_signed(widths, right) : facet_widths_wide(widths, right);

    return a && b ? truncate_to(widths, LLVMBuildBinOp(widths->builder, opcode, a, b, ""),
                                bits_of(LLVMTypeOf(instruction)))
                  : NULL;
}

static LLVMValueRef widen_comparison(struct widths *widths, LLVMValueRef instruction)
{
    LLVMIntPredicate predicate = LLVMGetICmpPredicate(instruction);
    LLVMValueRef a, b, left = LLVMGetOperand(instruction, 0), right = LLVMGetOperand(instruction, 1);

    a = predicate >= LLVMIntSGT ? facet_widths_signed(widths, left) : facet_widths_wide(widths, left);
    b = predicate >= LLVMIntSGT ? facet_widths_signed(widths, right) : facet_widths_wide(widths, right);
    return a && b ? LLVMBuildICmp(widths->builder, predicate, a, b, "") : NULL;
}

static LLVMValueRef widen_cast(struct widths *widths, LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
    LLVMTypeRef type = LLVMTypeOf(instruction), to = wide_type(widths, type);
    LLVMValueRef value = LLVMGetOperand(instruction, 0);
    bool sign = opcode == LLVMSExt || opcode == LLVMSIToFP;
    LLVMValueRef from = sign ? facet_widths_signed(widths, value) : facet_widths_wide(widths, value);

    if (!from || (is_integer(type) && bits_of(type) > WORD_BITS))
        return NULL;
    if (opcode == LLVMTrunc && bits_of(type) == 1) {
        LLVMValueRef low = truncate_to(widths, from, 1);
        return LLVMBuildICmp(widths->builder, LLVMIntNE, low, LLVMConstNull(LLVMTypeOf(low)), "");
    }
    if (opcode == LLVMTrunc || opcode == LLVMZExt || opcode == LLVMSExt)
        from = LLVMBuildIntCast2(widths->builder, from, to, sign, "");
    else
        from = LLVMBuildCast(widths->builder, opcode, from, to, "");
    return is_integer(type) ? truncate_to(widths, from, bits_of(type)) : from;
}

static LLVMValueRef widen_select(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef a = facet_widths_wide(widths, LLVMGetOperand(instruction, 1)),
                 b = facet_widths_wide(widths, LLVMGetOperand(instruction, 2));

    return a && b ? LLVMBuildSelect(widths->builder, LLVMGetOperand(instruction, 0), a, b, "") : NULL;
}

/* A frozen value may have any bits above, so these are cleared. */
static LLVMValueRef freeze_wide(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef from = facet_widths_wide(widths, LLVMGetOperand(instruction, 0));

    return from ? truncate_to(widths, LLVMBuildFreeze(widths->builder, from, ""), bits_of(LLVMTypeOf(instruction)))
                : NULL;
}

static LLVMValueRef widen_shuffle(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef a = facet_widths_wide(widths, LLVMGetOperand(instruction, 0)),
                 b = facet_widths_wide(widths, LLVMGetOperand(instruction, 1));
    unsigned count = LLVMGetNumMaskElements(instruction);
    LLVMValueRef lanes[LANES_MAX];

    if (!a || !b || count > LANES_MAX)
        return NULL;
    for (unsigned i = 0; i < count; i++) {
        int from = LLVMGetMaskValue(instruction, i);
        lanes[i] =
            from < 0 ? LLVMGetPoison(LLVMInt32TypeInContext(widths->context)) : lane_index(widths, (unsigned)from);
    }
    return LLVMBuildShuffleVector(widths->builder, a, b, LLVMConstVector(lanes, count), "");
}

static LLVMValueRef widen_lane_access(struct widths *widths, LLVMValueRef instruction)
{
    bool inserts = LLVMGetInstructionOpcode(instruction) == LLVMInsertElement;
    LLVMValueRef vector = facet_widths_wide(widths, LLVMGetOperand(instruction, 0));
    LLVMValueRef index = facet_widths_wide(widths, LLVMGetOperand(instruction, inserts ? 2 : 1));
    LLVMValueRef value = inserts ? facet_widths_wide(widths, LLVMGetOperand(instruction, 1)) : vector;

    if (!vector || !index || !value)
        return NULL;
    return inserts ? LLVMBuildInsertElement(widths->builder, vector, value, index, "")
                   : LLVMBuildExtractElement(widths->builder, vector, index, "");
}

/* --- LLVM's functions --------------------------------------------------------------------------------------------- */

static bool is_named(LLVMValueRef call, const char *name)
{
    size_t length = 0;
    unsigned id = LLVMGetIntrinsicID(LLVMGetCalledValue(call));
    const char *known = id ? LLVMIntrinsicGetName(id, &length) : "";

    return length == strlen(name) && strncmp(known, name, length) == 0;
}

/* Calls the same intrinsic for wider integers. */
static LLVMValueRef call_wider(const struct widths *widths, LLVMValueRef call, LLVMValueRef *arguments, unsigned count)
{
    LLVMTypeRef type = LLVMTypeOf(arguments[0]);
    unsigned id = LLVMGetIntrinsicID(LLVMGetCalledValue(call));
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(widths->module, id, &type, 1);

    return LLVMBuildCall2(widths->builder, LLVMGlobalGetValueType(function), function, arguments, count, "");
}

/* A funnel shift takes some bits of two numbers, one behind the other. */
static LLVMValueRef widen_funnel_shift(struct widths *widths, LLVMValueRef call, LLVMValueRef a, bool left)
{
    LLVMValueRef b = facet_widths_wide(widths, LLVMGetOperand(call, 1)),
                 by = facet_widths_wide(widths, LLVMGetOperand(call, 2));
    unsigned bits = bits_of(LLVMTypeOf(call));

    if (!b || !by)
        return NULL;
    LLVMValueRef all = integer_constant(LLVMTypeOf(a), bits);
    by = LLVMBuildURem(widths->builder, by, all, "");
    LLVMValueRef rest = LLVMBuildSub(widths->builder, all, by, "");
    a = LLVMBuildShl(widths->builder, a, left ? by : rest, "");
    b = LLVMBuildLShr(widths->builder, b, left ? rest : by, "");
    return truncate_to(widths, LLVMBuildOr(widths->builder, a, b, ""), bits);
}

/* Functions of the bits of one number, in which the bits above would count or would move to the low bits. */
static LLVMValueRef widen_bit_count(struct widths *widths, LLVMValueRef call, LLVMValueRef a)
{
    unsigned bits = bits_of(LLVMTypeOf(call));
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef unused_bits = integer_constant(type, bits_of(type) - bits),
                 no = LLVMConstInt(LLVMInt1TypeInContext(widths->context), 0, 0);

    if (is_named(call, "llvm.cttz")) {
        a = LLVMBuildOr(widths->builder, a, integer_constant(type, UINT64_C(1) << bits), "");
        return call_wider(widths, call, (LLVMValueRef[]){a, no}, 2);
    }
    if (is_named(call, "llvm.ctlz"))
        return LLVMBuildSub(widths->builder, call_wider(widths, call, (LLVMValueRef[]){a, no}, 2), unused_bits, "");
    if (is_named(call, "llvm.bswap") || is_named(call, "llvm.bitreverse"))
        return LLVMBuildLShr(widths->builder, call_wider(widths, call, &a, 1), unused_bits, "");
    if (is_named(call, "llvm.abs")) {
        a = facet_widths_signed(widths, LLVMGetOperand(call, 0));
        return truncate_to(widths, call_wider(widths, call, (LLVMValueRef[]){a, no}, 2), bits);
    }
    return is_named(call, "llvm.ctpop") ? call_wider(widths, call, &a, 1) : NULL;
}

static LLVMValueRef call_wide(struct widths *widths, LLVMValueRef call)
{
    bool sign = is_named(call, "llvm.smin") || is_named(call, "llvm.smax");
    LLVMValueRef a = facet_widths_wide(widths, LLVMGetOperand(call, 0)), pair[2];

    if (!a || !facet_widths_is_odd(call))
        return NULL;
    if (is_named(call, "llvm.fshl") || is_named(call, "llvm.fshr"))
        return widen_funnel_shift(widths, call, a, is_named(call, "llvm.fshl"));
    if (!sign && !is_named(call, "llvm.umin") && !is_named(call, "llvm.umax") && !is_named(call, "llvm.usub.sat"))
        return widen_bit_count(widths, call, a);
    for (unsigned i = 0; i < 2; i++) {
        pair[i] = sign ? facet_widths_signed(widths, LLVMGetOperand(call, i))
                       : facet_widths_wide(widths, LLVMGetOperand(call, i));
        if (!pair[i])
            return NULL;
    }
    return truncate_to(widths, call_wider(widths, call, pair, 2), bits_of(LLVMTypeOf(call)));
}

/* --- one instruction ---------------------------------------------------------------------------------------------- */

/* The replacement of the result; NULL: no rule is known. */
LLVMValueRef facet_widths_replace(struct widths *widths, LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMPHI: /* operands are added when all instructions exist */
        return LLVMBuildPhi(widths->builder, wide_type(widths, LLVMTypeOf(instruction)), "");
    case LLVMICmp:
        return widen_comparison(widths, instruction);
    case LLVMSelect:
        return widen_select(widths, instruction);
    case LLVMFreeze:
        return freeze_wide(widths, instruction);
    case LLVMBitCast:
        return cast_bits(widths, instruction);
    case LLVMLoad:
        return load_bytes(widths, instruction);
    case LLVMShuffleVector:
        return widen_shuffle(widths, instruction);
    case LLVMExtractElement:
    case LLVMInsertElement:
        return widen_lane_access(widths, instruction);
    case LLVMCall:
        return LLVMGetIntrinsicID(LLVMGetCalledValue(instruction)) ? call_wide(widths, instruction) : NULL;
    case LLVMTrunc:
    case LLVMZExt:
    case LLVMSExt:
    case LLVMUIToFP:
    case LLVMSIToFP:
    case LLVMFPToUI:
    case LLVMFPToSI:
    case LLVMPtrToInt:
    case LLVMIntToPtr:
        return widen_cast(widths, instruction);
    default:
        return LLVMIsABinaryOperator(instruction) ? widen_operation(widths, instruction) : NULL;
    }
}
