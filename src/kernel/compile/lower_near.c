/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: addresses that usually are neighbours.
 *
 * Owns: finding indices that may grow by one from lane to lane (clamp(x + 1, 0, last), i ^ distance, i % size) or more
 * slowly (x / 2, (int)(x * scale)), and the test at run time whether they do. Never: makes the access; lower_memory.c
 * does.
 *
 * A gather costs as much as one load for each lane; a comparison and a branch that always goes one way cost next to
 * nothing.
 */
#include "lower_lanes.h"

#include <string.h>

enum {
    SEARCH_DEPTH_MAX = 8,
    WINDOW_LANES = 8,  /* least lanes of a register: AVX2's, whose vpermd moves any lane to any other lane */
    PAGE_BYTES = 4096, /* a page is readable as a whole if one byte of it is */
};

/* How a value may change from lane to lane. */
enum near {
    NEAR_NOT,
    NEAR_SAME, /* may be the same in all lanes */
    NEAR_NEXT, /* may grow by one from lane to lane */
};

static enum near near_of(const struct facet_lanes *lanes, LLVMValueRef value, uint32_t depth);

/* For a value that in each lane is one of two values. */
static enum near near_of_either(enum near a, enum near b)
{
    if (a == NEAR_NOT || b == NEAR_NOT)
        return NEAR_NOT;
    return a > b ? a : b;
}

static enum near near_of_sum(enum near a, enum near b)
{
    return a == NEAR_NEXT && b == NEAR_NEXT ? NEAR_NOT : near_of_either(a, b);
}

static enum near near_of_call(const struct facet_lanes *lanes, LLVMValueRef call, uint32_t depth)
{
    static const char *const names[] = {"llvm.smin.", "llvm.smax.", "llvm.umin.", "llvm.umax."};
    LLVMValueRef callee = LLVMGetCalledValue(call);
    size_t length;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (LLVMIsAFunction(callee) && strncmp(LLVMGetValueName2(callee, &length), names[i], strlen(names[i])) == 0)
            return near_of_either(near_of(lanes, LLVMGetOperand(call, 0), depth),
                                  near_of(lanes, LLVMGetOperand(call, 1), depth));
    return NEAR_NOT;
}

static enum near near_of_binary(LLVMOpcode opcode, enum near a, enum near b)
{
    switch (opcode) {
    case LLVMAdd:
    case LLVMXor:
    case LLVMOr:
        return near_of_sum(a, b);
    case LLVMSub:
    case LLVMAnd:
    case LLVMURem:
    case LLVMSRem:
        return b == NEAR_SAME ? a : NEAR_NOT;
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMLShr:
    case LLVMAShr:
        return a != NEAR_NOT && b == NEAR_SAME ? NEAR_SAME : NEAR_NOT;
    case LLVMMul:
    case LLVMShl:
        return a == NEAR_SAME && b == NEAR_SAME ? NEAR_SAME : NEAR_NOT;
    default:
        return NEAR_NOT;
    }
}

static enum near near_of(const struct facet_lanes *lanes, LLVMValueRef value, uint32_t depth)
{
    struct facet_shape shape = facet_shapes_get(&lanes->shapes, value);

    if (shape.kind == FACET_SHAPE_UNIFORM)
        return NEAR_SAME;
    if (shape.kind == FACET_SHAPE_STRIDED)
        return shape.stride == 1 ? NEAR_NEXT : NEAR_NOT;
    if (depth == 0)
        return NEAR_NOT;
    depth--;
    if (LLVMIsABinaryOperator(value))
        return near_of_binary(LLVMGetInstructionOpcode(value), near_of(lanes, LLVMGetOperand(value, 0), depth),
                              near_of(lanes, LLVMGetOperand(value, 1), depth));
    switch (LLVMGetInstructionOpcode(value)) {
    case LLVMSExt:
    case LLVMZExt:
    case LLVMTrunc:
    case LLVMFreeze:
        return near_of(lanes, LLVMGetOperand(value, 0), depth);
    case LLVMSelect:
        return near_of_either(near_of(lanes, LLVMGetOperand(value, 1), depth),
                              near_of(lanes, LLVMGetOperand(value, 2), depth));
    case LLVMCall:
        return near_of_call(lanes, value, depth);
    default:
        return NEAR_NOT;
    }
}

/* The term of a sum that differs between lanes. */
static LLVMValueRef varying_term(const struct facet_lanes *lanes, LLVMValueRef index)
{
    for (;;) {
        LLVMOpcode opcode = LLVMIsAInstruction(index) ? LLVMGetInstructionOpcode(index) : LLVMRet;

        if (opcode != LLVMAdd && opcode != LLVMSub)
            return index;
        if (facet_lanes_uniform(lanes, LLVMGetOperand(index, 1)))
            index = LLVMGetOperand(index, 0);
        else if (opcode == LLVMAdd && facet_lanes_uniform(lanes, LLVMGetOperand(index, 0)))
            index = LLVMGetOperand(index, 1);
        else
            return index;
    }
}

/* The condition that each lane's value is one more than the previous lane's. */
static LLVMValueRef grows_by_one_condition(struct facet_lanes *lanes, LLVMValueRef value)
{
    LLVMValueRef all = facet_lanes_vector(lanes, value),
                 zero = LLVMConstInt(LLVMInt32TypeInContext(lanes->context), 0, 0);
    LLVMValueRef first = LLVMBuildExtractElement(lanes->builder, all, zero, "");
    LLVMValueRef expected = LLVMBuildAdd(lanes->builder, facet_lanes_splat(lanes, first),
                                         facet_lanes_steps(lanes, LLVMTypeOf(value), 1), "");

    return facet_lanes_all(lanes, LLVMBuildICmp(lanes->builder, LLVMIntEQ, all, expected, ""));
}

/* The condition that no lane's index wraps before it is extended to 64 bits. */
static LLVMValueRef does_not_wrap_condition(struct facet_lanes *lanes, LLVMValueRef first, bool is_signed)
{
    LLVMTypeRef type = LLVMTypeOf(first);
    uint64_t max = UINT64_MAX >> (64 - LLVMGetIntTypeWidth(type)) >> is_signed;

    return LLVMBuildICmp(lanes->builder, is_signed ? LLVMIntSLE : LLVMIntULE, first,
                         LLVMConstInt(type, max - lanes->width, 0), "");
}

LLVMValueRef facet_lanes_near(struct facet_lanes *lanes, LLVMValueRef pointer, uint64_t size, LLVMValueRef *ret_first)
{
    LLVMBuilderRef builder = lanes->builder;
    LLVMValueRef index, inner, first, base, near;
    bool wide;

    if (lanes->masks[lanes->block] || !LLVMIsAGetElementPtrInst(pointer) || LLVMGetNumOperands(pointer) != 2 ||
        LLVMABISizeOfType(lanes->layout, LLVMGetGEPSourceElementType(pointer)) != size)
        return NULL;
    base = LLVMGetOperand(pointer, 0);
    index = LLVMGetOperand(pointer, 1);
    wide = !LLVMIsASExtInst(index) && !LLVMIsAZExtInst(index);
    inner = wide ? index : LLVMGetOperand(index, 0);
    if (!facet_lanes_uniform(lanes, base) || LLVMGetIntTypeWidth(LLVMTypeOf(index)) != 64 ||
        near_of(lanes, index, SEARCH_DEPTH_MAX) != NEAR_NEXT)
        return NULL;
    near = grows_by_one_condition(lanes, varying_term(lanes, inner));
    first = LLVMBuildExtractElement(builder, facet_lanes_vector(lanes, inner),
                                    LLVMConstInt(LLVMInt32TypeInContext(lanes->context), 0, 0), "");
    if (!wide) {
        near = LLVMBuildAnd(builder, near, does_not_wrap_condition(lanes, first, LLVMIsASExtInst(index) != NULL), "");
        first = LLVMBuildCast(builder, LLVMGetInstructionOpcode(index), first, LLVMTypeOf(index), "");
    }
    *ret_first =
        LLVMBuildGEP2(builder, LLVMGetGEPSourceElementType(pointer), facet_lanes_scalar(lanes, base), &first, 1, "");
    return near;
}

static bool is_smooth(const struct facet_lanes *lanes, LLVMValueRef value, uint32_t depth, bool *slows);

static bool is_smooth_call(const struct facet_lanes *lanes, LLVMValueRef call, uint32_t depth, bool *slows)
{
    static const char *const names[] = {"llvm.smin.",   "llvm.smax.",  "llvm.umin.",   "llvm.umax.",  "llvm.minnum.",
                                        "llvm.maxnum.", "llvm.floor.", "llvm.ceil.",   "llvm.trunc.", "llvm.rint.",
                                        "llvm.round.",  "llvm.fma.",   "llvm.fmuladd."};
    LLVMValueRef callee = LLVMGetCalledValue(call);
    bool known = false;
    size_t length;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        known |=
            LLVMIsAFunction(callee) && strncmp(LLVMGetValueName2(callee, &length), names[i], strlen(names[i])) == 0;
    for (uint32_t i = 0; known && i < LLVMGetNumArgOperands(call); i++)
        known = is_smooth(lanes, LLVMGetOperand(call, i), depth, slows);
    return known;
}

/* Whether the value is computed from the lane's number by sums, scaling and rounding only. *slows: it may grow by less
 * than one from lane to lane. */
static bool is_smooth(const struct facet_lanes *lanes, LLVMValueRef value, uint32_t depth, bool *slows)
{
    LLVMValueRef operand;

    if (facet_shapes_get(&lanes->shapes, value).kind != FACET_SHAPE_VARYING)
        return true;
    if (depth == 0)
        return false;
    operand = LLVMGetOperand(value, 0);
    depth--;
    switch (LLVMGetInstructionOpcode(value)) {
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMLShr:
    case LLVMAShr:
        *slows = true;
        return facet_lanes_uniform(lanes, LLVMGetOperand(value, 1)) && is_smooth(lanes, operand, depth, slows);
    case LLVMMul:
    case LLVMFMul:
        if (facet_lanes_uniform(lanes, operand))
            return is_smooth(lanes, LLVMGetOperand(value, 1), depth, slows);
        return facet_lanes_uniform(lanes, LLVMGetOperand(value, 1)) && is_smooth(lanes, operand, depth, slows);
    case LLVMShl:
    case LLVMFDiv:
        return facet_lanes_uniform(lanes, LLVMGetOperand(value, 1)) && is_smooth(lanes, operand, depth, slows);
    case LLVMAdd:
    case LLVMSub:
    case LLVMFAdd:
    case LLVMFSub:
        return is_smooth(lanes, operand, depth, slows) && is_smooth(lanes, LLVMGetOperand(value, 1), depth, slows);
    case LLVMSelect:
        return is_smooth(lanes, LLVMGetOperand(value, 1), depth, slows) &&
               is_smooth(lanes, LLVMGetOperand(value, 2), depth, slows);
    case LLVMFPToSI:
    case LLVMFPToUI:
        *slows = true;
        return is_smooth(lanes, operand, depth, slows);
    case LLVMCall:
        return is_smooth_call(lanes, value, depth, slows);
    default:
        return LLVMIsACastInst(value) && is_smooth(lanes, operand, depth, slows);
    }
}

/* The one index of `pointer` that varies between lanes, of 4-byte elements; NULL: there is none. */
static LLVMValueRef varying_index(const struct facet_lanes *lanes, LLVMValueRef pointer)
{
    while (LLVMIsAGetElementPtrInst(pointer) && LLVMGetNumOperands(pointer) == 2) {
        LLVMValueRef index = LLVMGetOperand(pointer, 1), base = LLVMGetOperand(pointer, 0);

        if (facet_lanes_uniform(lanes, base))
            return LLVMABISizeOfType(lanes->layout, LLVMGetGEPSourceElementType(pointer)) == 4 ? index : NULL;
        if (!facet_lanes_uniform(lanes, index))
            return NULL;
        pointer = base;
    }
    return NULL;
}

static LLVMValueRef lane_of(struct facet_lanes *lanes, LLVMValueRef vector)
{
    return LLVMBuildExtractElement(lanes->builder, vector, LLVMConstInt(LLVMInt32TypeInContext(lanes->context), 0, 0),
                                   "");
}

/* The condition that a vector at `first` does not leave its page, as memory that no lane asked for must be mapped. */
static LLVMValueRef stays_in_page_condition(struct facet_lanes *lanes, LLVMValueRef first)
{
    LLVMTypeRef i64 = LLVMInt64TypeInContext(lanes->context);
    LLVMValueRef place = LLVMBuildPtrToInt(lanes->builder, first, i64, "");

    place = LLVMBuildAnd(lanes->builder, place, LLVMConstInt(i64, PAGE_BYTES - 1, 0), "");
    return LLVMBuildICmp(lanes->builder, LLVMIntULE, place, LLVMConstInt(i64, PAGE_BYTES - 4 * lanes->width, 0), "");
}

bool facet_lanes_window(struct facet_lanes *lanes, LLVMValueRef pointer, struct facet_window *ret_window)
{
    LLVMTypeRef steps = LLVMVectorType(LLVMInt32TypeInContext(lanes->context), lanes->width);
    LLVMBuilderRef builder = lanes->builder;
    LLVMValueRef index = varying_index(lanes, pointer), inner, core, condition, first;
    bool slows = false;

    if (!index || lanes->register_lanes < WINDOW_LANES || lanes->masks[lanes->block] ||
        LLVMGetIntTypeWidth(LLVMTypeOf(index)) != 64 || !is_smooth(lanes, index, SEARCH_DEPTH_MAX, &slows) || !slows)
        return false;
    inner = LLVMIsASExtInst(index) || LLVMIsAZExtInst(index) ? LLVMGetOperand(index, 0) : index;
    core = facet_lanes_vector(lanes, varying_term(lanes, inner));
    core = LLVMBuildSub(builder, core, facet_lanes_splat(lanes, lane_of(lanes, core)), "");
    condition = LLVMBuildICmp(
        builder, LLVMIntULT, core,
        facet_lanes_splat(lanes, LLVMConstInt(LLVMGetElementType(LLVMTypeOf(core)), lanes->width, 0)), "");
    condition = facet_lanes_all(lanes, condition);
    if (inner != index)
        condition = LLVMBuildAnd(builder, condition,
                                 does_not_wrap_condition(lanes, lane_of(lanes, facet_lanes_vector(lanes, inner)),
                                                         LLVMIsASExtInst(index) != NULL),
                                 "");
    first = lane_of(lanes, facet_lanes_vector(lanes, pointer));
    ret_window->condition = LLVMBuildAnd(builder, condition, stays_in_page_condition(lanes, first), "");
    ret_window->first = first;
    ret_window->steps = LLVMBuildIntCast2(builder, core, steps, 0, "");
    return true;
}

/* `count` neighbouring elements of a vector. */
static LLVMValueRef cut_vector(struct facet_lanes *lanes, LLVMValueRef vector, uint32_t first, uint32_t count)
{
    return LLVMBuildShuffleVector(lanes->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)),
                                  facet_lanes_places(lanes, first, count), "");
}

/* Gives each lane of one register its word, out of a vector of two registers. */
static LLVMValueRef spread_half(struct facet_lanes *lanes, const char *name, LLVMValueRef loaded, LLVMValueRef steps)
{
    uint32_t half = LLVMGetVectorSize(LLVMTypeOf(steps));
    LLVMValueRef sides[2];

    for (uint32_t i = 0; i < 2; i++) /* the instruction takes a step modulo the number of lanes of a register */
        sides[i] = facet_lanes_call(lanes, name, NULL, 0,
                                    (LLVMValueRef[]){cut_vector(lanes, loaded, i * half, half), steps}, 2);
    return LLVMBuildSelect(
        lanes->builder,
        LLVMBuildICmp(lanes->builder, LLVMIntUGE, steps, facet_lanes_number(LLVMTypeOf(steps), half), ""), sides[1],
        sides[0], "");
}

LLVMValueRef facet_lanes_spread(struct facet_lanes *lanes, LLVMValueRef loaded, LLVMValueRef steps)
{
    LLVMTypeRef type = LLVMTypeOf(loaded);
    uint32_t max = lanes->register_lanes < lanes->width ? lanes->register_lanes : lanes->width;
    const char *name = max == WINDOW_LANES ? "llvm.x86.avx2.permd" : "llvm.x86.avx512.permvar.si.512";
    LLVMValueRef made;

    loaded = LLVMBuildBitCast(lanes->builder, loaded, LLVMTypeOf(steps), "");
    if (lanes->width == max)
        made = facet_lanes_call(lanes, name, NULL, 0, (LLVMValueRef[]){loaded, steps}, 2);
    else
        made =
            LLVMBuildShuffleVector(lanes->builder, spread_half(lanes, name, loaded, cut_vector(lanes, steps, 0, max)),
                                   spread_half(lanes, name, loaded, cut_vector(lanes, steps, max, max)),
                                   facet_lanes_places(lanes, 0, lanes->width), "");
    return LLVMBuildBitCast(lanes->builder, made, type, "");
}

void facet_lanes_fork(struct facet_lanes *lanes, LLVMValueRef condition, LLVMBasicBlockRef blocks[3])
{
    for (uint32_t i = 0; i < 3; i++)
        blocks[i] = LLVMAppendBasicBlockInContext(lanes->context, lanes->target, "");
    LLVMBuildCondBr(lanes->builder, condition, blocks[0], blocks[1]);
    LLVMPositionBuilderAtEnd(lanes->builder, blocks[0]);
}
