/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: elements with gaps between them, as the fields of structs have.
 *
 * Owns: loads and stores of every second, third or fourth element. Never: touches memory before the first or
 * behind the last element, or writes into a gap.
 */
#include "lower_lanes.h"

/* The mask of a shuffle that takes the lanes' elements out of a wide vector, or (`spread`) puts them into one. */
static LLVMValueRef step_shuffle(struct facet_lanes *lanes, uint32_t step, bool spread)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context);
    uint32_t count = spread ? lanes->width * step : lanes->width;
    LLVMValueRef *indices = facet_arena_take(lanes->arena, count * sizeof(*indices));

    for (uint32_t i = 0; i < count; i++)
        indices[i] =
            spread ? (i % step ? LLVMGetPoison(i32) : LLVMConstInt(i32, i / step, 0)) : LLVMConstInt(i32, i * step, 0);
    return LLVMConstVector(indices, count);
}

static LLVMValueRef step_mask(struct facet_lanes *lanes, uint32_t step)
{
    LLVMTypeRef i1 = LLVMInt1TypeInContext(lanes->context);
    LLVMValueRef *bits = facet_arena_take(lanes->arena, lanes->width * step * sizeof(*bits));

    for (uint32_t i = 0; i < lanes->width * step; i++)
        bits[i] = LLVMConstInt(i1, i % step == 0, 0);
    return LLVMConstVector(bits, lanes->width * step);
}

/*
 * Loads elements of 8 or 16 bits, for which the processor has no masked loads: an element and its gap are loaded as one
 * number. In the first half of the lanes the element is the low part of the number, in the second half the high part,
 * so that no memory before the first or behind the last element is touched.
 */
static LLVMValueRef load_between(struct facet_lanes *lanes, LLVMTypeRef type, LLVMValueRef first, uint32_t step,
                                 uint32_t alignment)
{
    uint32_t half = lanes->width / 2;
    uint32_t bits = (uint32_t)LLVMSizeOfTypeInBits(lanes->layout, LLVMGetElementType(type)), all = bits * step;
    LLVMTypeRef numbers = LLVMVectorType(LLVMIntTypeInContext(lanes->context, all), half);
    LLVMTypeRef small = LLVMIntTypeInContext(lanes->context, bits);
    LLVMValueRef parts[2];

    for (uint32_t i = 0; i < 2; i++) {
        uint32_t before = i * (all - bits);
        LLVMValueRef offset = LLVMConstInt(LLVMInt64TypeInContext(lanes->context), (i * half * all - before) / 8, 0);
        LLVMValueRef from = LLVMBuildGEP2(lanes->builder, LLVMInt8TypeInContext(lanes->context), first, &offset, 1, "");

        parts[i] = LLVMBuildLoad2(lanes->builder, numbers, from, "");
        LLVMSetAlignment(parts[i], i ? 1 : alignment);
        if (i)
            parts[i] = LLVMBuildLShr(lanes->builder, parts[i], facet_lanes_number(numbers, before), "");
        parts[i] = LLVMBuildTrunc(lanes->builder, parts[i], LLVMVectorType(small, half), "");
    }
    return LLVMBuildBitCast(
        lanes->builder,
        LLVMBuildShuffleVector(lanes->builder, parts[0], parts[1], facet_lanes_places(lanes, 0, lanes->width), ""),
        type, "");
}

/* Whether the elements are narrower than the processor's masks allow, and an element with its gap has 2 or 4 times the
 * size of an element. */
static bool needs_load_between(const struct facet_lanes *lanes, LLVMTypeRef type, uint32_t step)
{
    return lanes->register_lanes < FACET_LANES_MAX && (step == 2 || step == 4) &&
           LLVMSizeOfTypeInBits(lanes->layout, LLVMGetElementType(type)) < 32;
}

LLVMValueRef facet_lanes_load_gaps(struct facet_lanes *lanes, LLVMTypeRef type, LLVMValueRef first, uint32_t step,
                                   uint32_t alignment)
{
    LLVMTypeRef wide = LLVMVectorType(LLVMGetElementType(type), lanes->width * step);
    LLVMTypeRef types[2] = {wide, LLVMTypeOf(first)};
    LLVMValueRef arguments[3] = {first, step_mask(lanes, step), LLVMConstNull(wide)}, all;

    if (needs_load_between(lanes, type, step))
        return load_between(lanes, type, first, step, alignment);
    all = facet_lanes_masked(lanes, "llvm.masked.load", types, arguments, 0, alignment);
    return LLVMBuildShuffleVector(lanes->builder, all, LLVMGetPoison(wide), step_shuffle(lanes, step, false), "");
}

void facet_lanes_store_gaps(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef first, uint32_t step,
                            uint32_t alignment)
{
    LLVMTypeRef types[2];
    LLVMValueRef arguments[3];

    arguments[0] = LLVMBuildShuffleVector(lanes->builder, value, LLVMGetPoison(LLVMTypeOf(value)),
                                          step_shuffle(lanes, step, true), "");
    arguments[1] = first;
    arguments[2] = step_mask(lanes, step);
    types[0] = LLVMTypeOf(arguments[0]);
    types[1] = LLVMTypeOf(first);
    facet_lanes_masked(lanes, "llvm.masked.store", types, arguments, 1, alignment);
}
