/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: computation.
 *
 * Owns: the vector form of each instruction except accesses to memory. Never: makes control flow.
 */
#include "lower_lanes.h"

#include <string.h>

/*
 * Intrinsics that take vectors. `types` names the values whose types select the overload: r is the result, a digit the
 * index of an operand. `scalar`: the index of the operand that stays scalar, or -1.
 */
struct vector_intrinsic {
    const char *name, *types;
    int scalar;
};
static const struct vector_intrinsic vector_intrinsics[] = {
    {"llvm.fma", "r", -1},
    {"llvm.fmuladd", "r", -1},
    {"llvm.sqrt", "r", -1},
    {"llvm.fabs", "r", -1},
    {"llvm.floor", "r", -1},
    {"llvm.ceil", "r", -1},
    {"llvm.trunc", "r", -1},
    {"llvm.rint", "r", -1},
    {"llvm.nearbyint", "r", -1},
    {"llvm.round", "r", -1},
    {"llvm.roundeven", "r", -1},
    {"llvm.copysign", "r", -1},
    {"llvm.minnum", "r", -1},
    {"llvm.maxnum", "r", -1},
    {"llvm.minimum", "r", -1},
    {"llvm.maximum", "r", -1},
    {"llvm.minimumnum", "r", -1},
    {"llvm.maximumnum", "r", -1},
    {"llvm.smin", "r", -1},
    {"llvm.smax", "r", -1},
    {"llvm.umin", "r", -1},
    {"llvm.umax", "r", -1},
    {"llvm.abs", "r", 1},
    {"llvm.ctpop", "r", -1},
    {"llvm.ctlz", "r", 1},
    {"llvm.cttz", "r", 1},
    {"llvm.bswap", "r", -1},
    {"llvm.bitreverse", "r", -1},
    {"llvm.fshl", "r", -1},
    {"llvm.fshr", "r", -1},
    {"llvm.sadd.sat", "r", -1},
    {"llvm.uadd.sat", "r", -1},
    {"llvm.ssub.sat", "r", -1},
    {"llvm.usub.sat", "r", -1},
    {"llvm.sshl.sat", "r", -1},
    {"llvm.ushl.sat", "r", -1},
    {"llvm.sin", "r", -1},
    {"llvm.cos", "r", -1},
    {"llvm.exp", "r", -1},
    {"llvm.exp2", "r", -1},
    {"llvm.log", "r", -1},
    {"llvm.log2", "r", -1},
    {"llvm.log10", "r", -1},
    {"llvm.pow", "r", -1},
    {"llvm.canonicalize", "r", -1},
    {"llvm.ldexp", "r1", -1},
    {"llvm.is.fpclass", "0", 1},
    {"llvm.fptosi.sat", "r0", -1},
    {"llvm.fptoui.sat", "r0", -1},
    {"llvm.sadd.with.overflow", "0", -1},
    {"llvm.uadd.with.overflow", "0", -1},
    {"llvm.ssub.with.overflow", "0", -1},
    {"llvm.usub.with.overflow", "0", -1},
    {"llvm.smul.with.overflow", "0", -1},
    {"llvm.umul.with.overflow", "0", -1},
    {"llvm.ucmp", "r0", -1},
    {"llvm.scmp", "r0", -1},
};

static const struct vector_intrinsic *find_intrinsic(LLVMValueRef call)
{
    unsigned id = LLVMGetIntrinsicID(LLVMGetCalledValue(call));
    size_t length = 0;
    const char *name = id ? LLVMIntrinsicGetName(id, &length) : NULL;

    for (size_t i = 0; name && i < sizeof(vector_intrinsics) / sizeof(*vector_intrinsics); i++)
        if (strlen(vector_intrinsics[i].name) == length && !memcmp(vector_intrinsics[i].name, name, length))
            return &vector_intrinsics[i];
    return NULL;
}

static void copy_flags(LLVMValueRef from, LLVMValueRef to)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(from);

    if (!LLVMIsAInstruction(to) || LLVMGetInstructionOpcode(to) != opcode) /* folded */
        return;
    if (LLVMCanValueUseFastMathFlags(from) && LLVMCanValueUseFastMathFlags(to))
        LLVMSetFastMathFlags(to, LLVMGetFastMathFlags(from));
    if (opcode == LLVMAdd || opcode == LLVMSub || opcode == LLVMMul || opcode == LLVMShl) {
        LLVMSetNSW(to, LLVMGetNSW(from));
        LLVMSetNUW(to, LLVMGetNUW(from));
    }
    if (opcode == LLVMOr)
        LLVMSetIsDisjoint(to, LLVMGetIsDisjoint(from));
}

/*
 * Gives inactive lanes a divisor of 1. The divisor is frozen, since an inactive lane may have any value: otherwise the
 * optimizer would conclude from the active items, which never have 0, that every lane may divide.
 */
static LLVMValueRef safe_divisor(struct facet_lanes *lanes, LLVMValueRef divisor)
{
    LLVMTypeRef type = LLVMTypeOf(divisor);
    LLVMValueRef one = LLVMConstInt(LLVMGetElementType(type), 1, 0);

    if (!lanes->masks[lanes->block])
        return divisor;
    divisor = LLVMBuildFreeze(lanes->builder, divisor, "");
    return LLVMBuildSelect(lanes->builder, lanes->masks[lanes->block], divisor, facet_lanes_splat(lanes, one), "");
}

static LLVMValueRef make_binary(struct facet_lanes *lanes, LLVMValueRef from, LLVMOpcode opcode)
{
    LLVMValueRef left = facet_lanes_vector(lanes, LLVMGetOperand(from, 0));
    LLVMValueRef right = facet_lanes_vector(lanes, LLVMGetOperand(from, 1));

    if (opcode == LLVMUDiv || opcode == LLVMSDiv || opcode == LLVMURem || opcode == LLVMSRem)
        right = safe_divisor(lanes, right);
    return LLVMBuildBinOp(lanes->builder, opcode, left, right, "");
}

static LLVMValueRef make_address(struct facet_lanes *lanes, LLVMValueRef gep)
{
    uint32_t count = (uint32_t)LLVMGetNumOperands(gep);
    LLVMValueRef *operands = facet_arena_take(lanes->arena, count * sizeof(LLVMValueRef));

    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef operand = LLVMGetOperand(gep, i);

        operands[i] = facet_lanes_uniform(lanes, operand) ? facet_lanes_scalar(lanes, operand)
                                                          : facet_lanes_vector(lanes, operand);
    }
    return LLVMBuildGEP2(lanes->builder, LLVMGetGEPSourceElementType(gep), operands[0], operands + 1, count - 1, "");
}

static LLVMValueRef make_intrinsic(struct facet_lanes *lanes, LLVMValueRef call)
{
    const struct vector_intrinsic *known = find_intrinsic(call);
    LLVMValueRef arguments[4];
    LLVMTypeRef types[2];
    uint32_t count = LLVMGetNumArgOperands(call), type_count = 0;

    if (!known || count > 4) {
        facet_lanes_refuse(lanes, "a call that has no vector form");
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        arguments[i] =
            (int)i == known->scalar ? LLVMGetOperand(call, i) : facet_lanes_vector(lanes, LLVMGetOperand(call, i));
    for (const char *letter = known->types; *letter; letter++)
        types[type_count++] =
            *letter == 'r' ? facet_lanes_type(lanes, LLVMTypeOf(call)) : LLVMTypeOf(arguments[*letter - '0']);
    return facet_lanes_call(lanes, known->name, types, type_count, arguments, count);
}

static LLVMValueRef make_select(struct facet_lanes *lanes, LLVMValueRef select)
{
    LLVMValueRef condition = LLVMGetOperand(select, 0);

    return LLVMBuildSelect(lanes->builder,
                           facet_lanes_uniform(lanes, condition) ? facet_lanes_scalar(lanes, condition)
                                                                 : facet_lanes_vector(lanes, condition),
                           facet_lanes_vector(lanes, LLVMGetOperand(select, 1)),
                           facet_lanes_vector(lanes, LLVMGetOperand(select, 2)), "");
}

static LLVMValueRef make_cast(struct facet_lanes *lanes, LLVMValueRef cast, LLVMOpcode opcode)
{
    LLVMTypeRef type = facet_lanes_type(lanes, LLVMTypeOf(cast));

    return type ? LLVMBuildCast(lanes->builder, opcode, facet_lanes_vector(lanes, LLVMGetOperand(cast, 0)), type, "")
                : NULL;
}

LLVMValueRef facet_lanes_compute(struct facet_lanes *lanes, LLVMValueRef from)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(from);
    LLVMBuilderRef builder = lanes->builder;

    if (LLVMIsABinaryOperator(from))
        return make_binary(lanes, from, opcode);
    if (LLVMIsACastInst(from))
        return make_cast(lanes, from, opcode);
    switch (opcode) {
    case LLVMFNeg:
        return LLVMBuildFNeg(builder, facet_lanes_vector(lanes, LLVMGetOperand(from, 0)), "");
    case LLVMFreeze:
        return LLVMBuildFreeze(builder, facet_lanes_vector(lanes, LLVMGetOperand(from, 0)), "");
    case LLVMICmp:
        return LLVMBuildICmp(builder, LLVMGetICmpPredicate(from), facet_lanes_vector(lanes, LLVMGetOperand(from, 0)),
                             facet_lanes_vector(lanes, LLVMGetOperand(from, 1)), "");
    case LLVMFCmp:
        return LLVMBuildFCmp(builder, LLVMGetFCmpPredicate(from), facet_lanes_vector(lanes, LLVMGetOperand(from, 0)),
                             facet_lanes_vector(lanes, LLVMGetOperand(from, 1)), "");
    case LLVMSelect:
        return make_select(lanes, from);
    case LLVMGetElementPtr:
        return make_address(lanes, from);
    case LLVMExtractValue:
        if (LLVMGetNumIndices(from) == 1)
            return LLVMBuildExtractValue(builder, facet_lanes_vector(lanes, LLVMGetOperand(from, 0)),
                                         *LLVMGetIndices(from), "");
        break;
    case LLVMInsertValue:
        if (LLVMGetNumIndices(from) == 1)
            return LLVMBuildInsertValue(builder, facet_lanes_vector(lanes, LLVMGetOperand(from, 0)),
                                        facet_lanes_vector(lanes, LLVMGetOperand(from, 1)), *LLVMGetIndices(from), "");
        break;
    case LLVMCall:
        return make_intrinsic(lanes, from);
    default:
        break;
    }
    facet_lanes_refuse(lanes, "an instruction that has no vector form");
    return NULL;
}

/* The clone computes the value of lane 0, which may be inactive, so LLVM must not assume that it does not wrap. */
static void drop_promises(LLVMValueRef clone)
{
    switch (LLVMGetInstructionOpcode(clone)) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMShl:
        LLVMSetNSW(clone, 0);
        LLVMSetNUW(clone, 0);
        break;
    case LLVMZExt:
        LLVMSetNNeg(clone, 0);
        break;
    case LLVMGetElementPtr:
        LLVMGEPSetNoWrapFlags(clone, 0);
        break;
    default:
        break;
    }
}

/*
 * Lane 0's value of an unsigned index whose stride is for addresses only (lower_shape.c): computed from the lane at
 * that end of the chunk which is small when the index wraps between two lanes.
 */
static LLVMValueRef extend_base(struct facet_lanes *lanes, LLVMValueRef extend)
{
    int64_t stride = facet_shapes_get(&lanes->shapes, extend).stride * (int64_t)(lanes->width - 1);
    LLVMValueRef index = facet_lanes_scalar(lanes, LLVMGetOperand(extend, 0));
    LLVMTypeRef narrow = LLVMTypeOf(index), wide = LLVMTypeOf(extend);

    if (stride < 0)
        return LLVMBuildZExt(lanes->builder, index, wide, "");
    index = LLVMBuildAdd(lanes->builder, index, LLVMConstInt(narrow, (unsigned long long)stride, 1), "");
    index = LLVMBuildZExt(lanes->builder, index, wide, "");
    return LLVMBuildSub(lanes->builder, index, LLVMConstInt(wide, (unsigned long long)stride, 1), "");
}

/* A strided `or` is a sum, since no bit is set in both operands. In lane 0, if it is inactive, bits may be set in both:
 * then the other lanes' values follow from the sum, not from the `or`. */
static void copy_or(struct facet_lanes *lanes, LLVMValueRef from)
{
    LLVMValueRef left = facet_lanes_scalar(lanes, LLVMGetOperand(from, 0));
    LLVMValueRef right = facet_lanes_scalar(lanes, LLVMGetOperand(from, 1));

    facet_map_put(&lanes->scalars, from, LLVMBuildAdd(lanes->builder, left, right, ""));
}

static void copy_scalar(struct facet_lanes *lanes, LLVMValueRef from, bool strided)
{
    if (strided && LLVMIsAInstruction(from) && LLVMGetInstructionOpcode(from) == LLVMOr) {
        copy_or(lanes, from);
        return;
    }
    LLVMValueRef clone = LLVMInstructionClone(from);

    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(from); i++)
        LLVMSetOperand(clone, i, facet_lanes_scalar(lanes, LLVMGetOperand(from, i)));
    if (strided)
        drop_promises(clone);
    LLVMInsertIntoBuilder(lanes->builder, clone);
    if (LLVMGetTypeKind(LLVMTypeOf(from)) != LLVMVoidTypeKind)
        facet_map_put(&lanes->scalars, from, clone);
}

static void make_call(struct facet_lanes *lanes, LLVMValueRef call)
{
    LLVMValueRef made;

    if (facet_call_of(call) == FACET_CALL_BARRIER && lanes->masks[lanes->block] != lanes->masks[0]) {
        facet_lanes_refuse(lanes, "a barrier in divergent control flow");
        return;
    }
    if (facet_is_shared_call(call) && (facet_shapes_get(&lanes->shapes, call).kind == FACET_SHAPE_VARYING ||
                                       LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMVoidTypeKind)) {
        facet_lanes_call_shared(lanes, call);
        return;
    }
    if (LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMVoidTypeKind && facet_call_of(call) == FACET_CALL_OTHER) {
        facet_lanes_lane_by_lane(lanes, call);
        return;
    }
    if (facet_shapes_get(&lanes->shapes, call).kind != FACET_SHAPE_VARYING) {
        copy_scalar(lanes, call, false);
        return;
    }
    made = facet_lanes_compute(lanes, call);
    if (made) {
        copy_flags(call, made);
        facet_map_put(&lanes->vectors, call, made);
    }
}

static void make_other(struct facet_lanes *lanes, LLVMValueRef instruction)
{
    enum facet_shape_kind kind = facet_shapes_get(&lanes->shapes, instruction).kind;
    LLVMValueRef made;

    if (kind == FACET_SHAPE_STRIDED && LLVMGetInstructionOpcode(instruction) == LLVMZExt &&
        facet_shapes_get(&lanes->shapes, instruction).address_only) {
        facet_map_put(&lanes->scalars, instruction, extend_base(lanes, instruction));
        return;
    }
    if (kind != FACET_SHAPE_VARYING) {
        copy_scalar(lanes, instruction, kind == FACET_SHAPE_STRIDED);
        return;
    }
    made = facet_lanes_compute(lanes, instruction);
    if (!made)
        return;
    copy_flags(instruction, made);
    facet_map_put(&lanes->vectors, instruction, made);
}

void facet_lanes_instruction(struct facet_lanes *lanes, LLVMValueRef instruction)
{
    if (facet_is_ignored(instruction))
        return;
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMAlloca:
        facet_lanes_alloca(lanes, instruction);
        break;
    case LLVMLoad:
        facet_lanes_load(lanes, instruction);
        break;
    case LLVMStore:
        facet_lanes_store(lanes, instruction);
        break;
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        facet_lanes_atomic(lanes, instruction);
        break;
    case LLVMFence:
        copy_scalar(lanes, instruction, false);
        break;
    case LLVMCall:
        make_call(lanes, instruction);
        break;
    default:
        make_other(lanes, instruction);
    }
}
