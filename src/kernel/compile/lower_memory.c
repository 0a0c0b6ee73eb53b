/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: memory.
 *
 * Owns: loads, stores, atomics, private memory, and all other operations that run lane by lane.
 * Never: touches memory that no item of the chunk touches.
 *
 * Private memory whose accesses all have one size is interleaved: element e of lane l lies at e * width + l, so that
 * lanes with the same index make one vector access. Addresses into it are computed as if there was one lane, and
 * multiplied by the width where they are used.
 */
#include "lower_lanes.h"

#define STEP_MAX 4

/* Whether the address is used only for loads and stores that all have one size; *element is that size in bytes, or 0
 * before the first access. */
static bool accessed_alike(LLVMValueRef pointer, LLVMTargetDataRef layout, uint64_t *element)
{
    for (LLVMUseRef use = LLVMGetFirstUse(pointer); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        bool access = LLVMIsALoadInst(user) || (LLVMIsAStoreInst(user) && LLVMGetOperand(user, 0) != pointer);
        LLVMTypeRef type;

        if (facet_is_ignored(user))
            continue;
        if (LLVMIsAGetElementPtrInst(user)) {
            if (!accessed_alike(user, layout, element))
                return false;
            continue;
        }
        if (!access || LLVMGetVolatile(user))
            return false;
        type = facet_accessed_type(user);
        if (LLVMGetTypeKind(type) == LLVMVectorTypeKind || LLVMGetTypeKind(type) == LLVMStructTypeKind ||
            (*element && *element != LLVMStoreSizeOfType(layout, type)))
            return false;
        *element = LLVMStoreSizeOfType(layout, type);
        if (LLVMSizeOfTypeInBits(layout, type) != *element * 8)
            return false;
    }
    return true;
}

/* Whether all offsets from the pointer are multiples of `element` bytes. */
static bool has_offsets_of(LLVMValueRef pointer, LLVMTargetDataRef layout, uint64_t element)
{
    for (LLVMUseRef use = LLVMGetFirstUse(pointer); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef gep = LLVMGetUser(use);
        LLVMTypeRef type;

        if (!LLVMIsAGetElementPtrInst(gep))
            continue;
        type = LLVMGetGEPSourceElementType(gep);
        while (LLVMGetTypeKind(type) == LLVMArrayTypeKind)
            type = LLVMGetElementType(type);
        if (LLVMGetTypeKind(type) == LLVMStructTypeKind || LLVMGetTypeKind(type) == LLVMVectorTypeKind)
            return false;
        /* an index of smaller elements must be constant, so that its multiple can be checked */
        if (LLVMABISizeOfType(layout, type) % element &&
            (LLVMGetNumOperands(gep) != 2 || !LLVMIsAConstantInt(LLVMGetOperand(gep, 1)) ||
             LLVMConstIntGetZExtValue(LLVMGetOperand(gep, 1)) * LLVMABISizeOfType(layout, type) % element))
            return false;
        if (!has_offsets_of(gep, layout, element))
            return false;
    }
    return true;
}

uint32_t facet_private_element(LLVMValueRef alloca, LLVMTargetDataRef layout)
{
    uint64_t element = 0;

    if (!accessed_alike(alloca, layout, &element) || !element || !has_offsets_of(alloca, layout, element))
        return 0;
    return element <= 8 && LLVMABISizeOfType(layout, LLVMGetAllocatedType(alloca)) % element == 0 ? (uint32_t)element
                                                                                                  : 0;
}

uint64_t facet_private_stride(LLVMValueRef alloca, LLVMTargetDataRef layout)
{
    uint64_t align = LLVMGetAlignment(alloca);

    return (LLVMABISizeOfType(layout, LLVMGetAllocatedType(alloca)) + align - 1) / align * align;
}

LLVMValueRef facet_private_of(LLVMValueRef pointer)
{
    while (LLVMIsAGetElementPtrInst(pointer))
        pointer = LLVMGetOperand(pointer, 0);
    return LLVMIsAAllocaInst(pointer) ? pointer : NULL;
}

void facet_lanes_alloca(struct facet_lanes *lanes, LLVMValueRef instruction)
{
    uint64_t stride = facet_private_stride(instruction, lanes->layout);
    LLVMTypeRef type = LLVMGetAllocatedType(instruction);
    LLVMValueRef made;

    if (!LLVMIsAConstantInt(LLVMGetOperand(instruction, 0)) || lanes->block != 0) {
        facet_lanes_refuse(lanes, "private memory of a size that is not constant");
        return;
    }
    if (stride != LLVMABISizeOfType(lanes->layout, type))
        type = LLVMArrayType2(LLVMInt8TypeInContext(lanes->context), stride);
    made = LLVMBuildAlloca(lanes->builder, LLVMArrayType2(type, lanes->width), "private");
    LLVMSetAlignment(made, LLVMGetAlignment(instruction) > 64 ? LLVMGetAlignment(instruction) : 64);
    facet_map_put(&lanes->scalars, instruction, made);
}

/* The addresses of an access in all lanes: lane 0's if they are contiguous, else a vector. */
struct place {
    LLVMValueRef scalar, vector; /* one of the two is set */
    bool same;                   /* the scalar is the address of all lanes */
    uint32_t step;               /* with `scalar`: elements from one lane to the next */
    bool interleaved;            /* in interleaved private memory; set with `vector` only */
};

static struct place place_private(struct facet_lanes *lanes, LLVMValueRef pointer, LLVMValueRef alloca,
                                  uint64_t element)
{
    LLVMBuilderRef builder = lanes->builder;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(lanes->context), i8 = LLVMInt8TypeInContext(lanes->context);
    LLVMValueRef base = facet_lanes_scalar(lanes, alloca), start = LLVMBuildPtrToInt(builder, base, i64, "");
    LLVMValueRef factor = LLVMConstInt(i64, lanes->width, 0), offset;

    if (facet_lanes_uniform(lanes, pointer)) {
        offset = LLVMBuildPtrToInt(builder, facet_lanes_scalar(lanes, pointer), i64, "");
        offset = LLVMBuildMul(builder, LLVMBuildSub(builder, offset, start, ""), factor, "");
        return (struct place){.scalar = LLVMBuildGEP2(builder, i8, base, &offset, 1, "")};
    }
    offset = LLVMBuildPtrToInt(builder, facet_lanes_vector(lanes, pointer), LLVMVectorType(i64, lanes->width), "");
    offset = LLVMBuildSub(builder, offset, facet_lanes_splat(lanes, start), "");
    offset = LLVMBuildMul(builder, offset, facet_lanes_splat(lanes, factor), "");
    offset = LLVMBuildAdd(builder, offset, facet_lanes_steps(lanes, i64, (int64_t)element), "");
    return (struct place){.vector = LLVMBuildGEP2(builder, i8, base, &offset, 1, ""), .interleaved = true};
}

/* Whether the lanes' addresses are a few elements apart, as fields of small structs are: one wide access that leaves
 * out the gaps is better than a gather. */
static bool has_small_gaps(const struct facet_lanes *lanes, struct facet_shape shape, uint64_t size)
{
    return shape.kind == FACET_SHAPE_STRIDED && !lanes->masks[lanes->block] && shape.stride > 0 &&
           shape.stride % (int64_t)size == 0 && shape.stride / (int64_t)size <= STEP_MAX;
}

static struct place place_of(struct facet_lanes *lanes, LLVMValueRef pointer, LLVMTypeRef type)
{
    LLVMValueRef alloca = facet_private_of(pointer);
    uint64_t size = LLVMStoreSizeOfType(lanes->layout, type);
    struct facet_shape shape = facet_shapes_get(&lanes->shapes, pointer);

    if (alloca && facet_private_element(alloca, lanes->layout))
        return place_private(lanes, pointer, alloca, size);
    if (shape.kind == FACET_SHAPE_UNIFORM)
        return (struct place){.scalar = facet_lanes_scalar(lanes, pointer), .same = true};
    if (shape.kind == FACET_SHAPE_STRIDED && shape.stride == (int64_t)size &&
        LLVMSizeOfTypeInBits(lanes->layout, type) == size * 8)
        return (struct place){.scalar = facet_lanes_scalar(lanes, pointer)};
    if (has_small_gaps(lanes, shape, size) && LLVMSizeOfTypeInBits(lanes->layout, type) == size * 8)
        return (struct place){.scalar = facet_lanes_scalar(lanes, pointer),
                              .step = (uint32_t)(shape.stride / (int64_t)size)};
    return (struct place){.vector = facet_lanes_vector(lanes, pointer)};
}

static LLVMValueRef load_lanes(struct facet_lanes *lanes, LLVMTypeRef type, struct place place, uint32_t alignment)
{
    LLVMTypeRef types[2] = {type, LLVMTypeOf(place.scalar ? place.scalar : place.vector)};
    LLVMValueRef arguments[3] = {place.scalar ? place.scalar : place.vector, facet_lanes_mask(lanes),
                                 LLVMConstNull(type)};
    LLVMValueRef load;

    if (place.step > 1)
        return facet_lanes_load_gaps(lanes, type, place.scalar, place.step, alignment);
    if (place.scalar && !lanes->masks[lanes->block]) {
        load = LLVMBuildLoad2(lanes->builder, type, place.scalar, "");
        LLVMSetAlignment(load, alignment);
        return load;
    }
    return facet_lanes_masked(lanes, place.scalar ? "llvm.masked.load" : "llvm.masked.gather", types, arguments, 0,
                              alignment);
}

/* Emits two loads, one for addresses that are close to each other, one for any addresses, and a choice at run time.
 * NULL: the choice would not pay. */
static LLVMValueRef load_near(struct facet_lanes *lanes, LLVMValueRef pointer, LLVMTypeRef type, struct place place,
                              uint32_t alignment)
{
    uint64_t size = LLVMStoreSizeOfType(lanes->layout, LLVMGetElementType(type));
    LLVMBuilderRef builder = lanes->builder;
    struct facet_window near = {0};
    LLVMValueRef loads[2], both;
    LLVMBasicBlockRef blocks[3];

    if (!place.vector || place.interleaved || LLVMSizeOfTypeInBits(lanes->layout, LLVMGetElementType(type)) != size * 8)
        return NULL;
    near.condition = facet_lanes_near(lanes, pointer, size, &near.first);
    if (!near.condition && (size != 4 || !facet_lanes_window(lanes, pointer, &near)))
        return NULL;
    facet_lanes_fork(lanes, near.condition, blocks);
    loads[0] = load_lanes(lanes, type, (struct place){.scalar = near.first}, alignment);
    if (near.steps)
        loads[0] = facet_lanes_spread(lanes, loads[0], near.steps);
    LLVMBuildBr(builder, blocks[2]);
    LLVMPositionBuilderAtEnd(builder, blocks[1]);
    loads[1] = load_lanes(lanes, type, place, alignment);
    LLVMBuildBr(builder, blocks[2]);
    LLVMPositionBuilderAtEnd(builder, blocks[2]);
    both = LLVMBuildPhi(builder, type, "");
    LLVMAddIncoming(both, loads, blocks, 2);
    return both;
}

static void copy_metadata(LLVMValueRef from, LLVMValueRef to)
{
    size_t count;
    LLVMValueMetadataEntry *entries = LLVMInstructionGetAllMetadataOtherThanDebugLoc(from, &count);
    LLVMContextRef context =
        LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(to))));
    unsigned scope = LLVMGetMDKindIDInContext(context, "alias.scope", 11);
    unsigned noalias = LLVMGetMDKindIDInContext(context, "noalias", 7);

    for (unsigned i = 0; i < count; i++) {
        unsigned kind = LLVMValueMetadataEntriesGetKind(entries, i);

        if (kind == scope || kind == noalias)
            LLVMSetMetadata(to, kind, LLVMMetadataAsValue(context, LLVMValueMetadataEntriesGetMetadata(entries, i)));
    }
    LLVMDisposeValueMetadataEntries(entries);
}

void facet_lanes_load(struct facet_lanes *lanes, LLVMValueRef load)
{
    LLVMTypeRef type = LLVMTypeOf(load), wide;
    LLVMValueRef made;
    struct place place;

    if (facet_shapes_get(&lanes->shapes, load).kind == FACET_SHAPE_UNIFORM) {
        made = LLVMInstructionClone(load);
        LLVMSetOperand(made, 0, facet_lanes_scalar(lanes, LLVMGetOperand(load, 0)));
        LLVMInsertIntoBuilder(lanes->builder, made);
        facet_map_put(&lanes->scalars, load, made);
        return;
    }
    wide = facet_lanes_type(lanes, type);
    if (!wide)
        return;
    if (LLVMGetTypeKind(wide) != LLVMVectorTypeKind || LLVMGetVolatile(load) || LLVMIsAtomic(load)) {
        facet_lanes_lane_by_lane(lanes, load);
        return;
    }
    if (facet_map_get(&lanes->vectors, load) || facet_lanes_load_fields(lanes, load))
        return;
    place = place_of(lanes, LLVMGetOperand(load, 0), type);
    if (place.same)
        place = (struct place){.vector = facet_lanes_splat(lanes, place.scalar)};
    made = load_near(lanes, LLVMGetOperand(load, 0), wide, place, LLVMGetAlignment(load));
    if (!made) {
        made = load_lanes(lanes, wide, place, LLVMGetAlignment(load));
        copy_metadata(load, made);
    }
    facet_map_put(&lanes->vectors, load, made);
}

static void store_neighbours(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address, LLVMValueRef original)
{
    LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(address)};
    LLVMValueRef arguments[3] = {value, address, lanes->masks[lanes->block]}, store;

    if (arguments[2]) {
        store = facet_lanes_masked(lanes, "llvm.masked.store", types, arguments, 1, LLVMGetAlignment(original));
    } else {
        store = LLVMBuildStore(lanes->builder, value, address);
        LLVMSetAlignment(store, LLVMGetAlignment(original));
    }
    copy_metadata(original, store);
}

void facet_lanes_store_neighbours(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                  LLVMValueRef original)
{
    LLVMValueRef past = facet_lanes_stream(lanes, value, address, original), mask = lanes->masks[lanes->block];
    LLVMBasicBlockRef blocks[3];

    if (!past) {
        store_neighbours(lanes, value, address, original);
        return;
    }
    if (mask)
        past = LLVMBuildAnd(lanes->builder, past, facet_lanes_all(lanes, mask), "");
    facet_lanes_fork(lanes, past, blocks);
    facet_lanes_store_bypassing(lanes, value, address);
    LLVMBuildBr(lanes->builder, blocks[2]);
    LLVMPositionBuilderAtEnd(lanes->builder, blocks[1]);
    store_neighbours(lanes, value, address, original);
    LLVMBuildBr(lanes->builder, blocks[2]);
    LLVMPositionBuilderAtEnd(lanes->builder, blocks[2]);
}

static void store_lanes(struct facet_lanes *lanes, LLVMValueRef value, struct place place, LLVMValueRef original)
{
    uint32_t alignment = LLVMGetAlignment(original);
    LLVMTypeRef types[2] = {LLVMTypeOf(value), LLVMTypeOf(place.scalar ? place.scalar : place.vector)};
    LLVMValueRef arguments[3] = {value, place.scalar ? place.scalar : place.vector, facet_lanes_mask(lanes)};
    LLVMValueRef store;

    if (place.step > 1) {
        facet_lanes_store_gaps(lanes, value, place.scalar, place.step, alignment);
        return;
    }
    if (place.scalar) {
        facet_lanes_store_neighbours(lanes, value, place.scalar, original);
        return;
    }
    store = facet_lanes_masked(lanes, "llvm.masked.scatter", types, arguments, 1, alignment);
    copy_metadata(original, store);
}

/* All lanes store to one address, so the value of any active lane may be stored. */
static void store_active_lane(struct facet_lanes *lanes, LLVMValueRef store, LLVMValueRef address)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context);
    LLVMValueRef value = LLVMGetOperand(store, 0), made;

    if (facet_lanes_uniform(lanes, value)) {
        made = facet_lanes_scalar(lanes, value);
    } else if (!lanes->masks[lanes->block]) {
        made = LLVMBuildExtractElement(lanes->builder, facet_lanes_vector(lanes, value),
                                       LLVMConstInt(i32, lanes->width - 1, 0), "");
    } else {
        store_lanes(lanes, facet_lanes_vector(lanes, value),
                    (struct place){.vector = facet_lanes_splat(lanes, address)}, store);
        return;
    }
    made = LLVMBuildStore(lanes->builder, made, address);
    LLVMSetAlignment(made, LLVMGetAlignment(store));
    copy_metadata(store, made);
}

void facet_lanes_store(struct facet_lanes *lanes, LLVMValueRef store)
{
    LLVMValueRef value = LLVMGetOperand(store, 0), pointer = LLVMGetOperand(store, 1);
    LLVMTypeKind kind = LLVMGetTypeKind(LLVMTypeOf(value));
    struct place place;

    if (LLVMGetVolatile(store) || LLVMIsAtomic(store) || kind == LLVMStructTypeKind) {
        facet_lanes_lane_by_lane(lanes, store);
        return;
    }
    if (facet_lanes_store_fields(lanes, store))
        return;
    place = place_of(lanes, pointer, LLVMTypeOf(value));
    if (place.same) {
        store_active_lane(lanes, store, place.scalar);
        return;
    }
    if (facet_lanes_type(lanes, LLVMTypeOf(value)))
        store_lanes(lanes, facet_lanes_vector(lanes, value), place, store);
}

/*
 * One lane's value of an operand. For an address, its base and index are extracted rather than the address: the machine
 * adds and scales within the access for free.
 */
static LLVMValueRef lane_operand(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef lane)
{
    LLVMValueRef base, index;

    if (facet_lanes_uniform(lanes, value))
        return facet_lanes_scalar(lanes, value);
    if (LLVMIsAZExtInst(value) || LLVMIsASExtInst(value)) {
        index = lane_operand(lanes, LLVMGetOperand(value, 0), lane);
        return LLVMBuildCast(lanes->builder, LLVMGetInstructionOpcode(value), index, LLVMTypeOf(value), "");
    }
    if (LLVMIsAGetElementPtrInst(value) && LLVMGetNumOperands(value) == 2 &&
        facet_lanes_uniform(lanes, LLVMGetOperand(value, 0))) {
        base = facet_lanes_scalar(lanes, LLVMGetOperand(value, 0));
        index = lane_operand(lanes, LLVMGetOperand(value, 1), lane);
        return LLVMBuildGEP2(lanes->builder, LLVMGetGEPSourceElementType(value), base, &index, 1, "");
    }
    return LLVMBuildExtractElement(lanes->builder, facet_lanes_vector(lanes, value), lane, "");
}

/* Emits the instruction for one lane, and returns its result. */
static LLVMValueRef emit_for_lane(struct facet_lanes *lanes, LLVMValueRef instruction, LLVMValueRef lane)
{
    uint32_t count = (uint32_t)LLVMGetNumOperands(instruction);
    LLVMValueRef *operands = facet_arena_take(lanes->arena, count * sizeof(LLVMValueRef)), clone;
    bool atomic = LLVMIsAAtomicRMWInst(instruction) || LLVMIsAAtomicCmpXchgInst(instruction);

    for (uint32_t i = 0; i < count; i++)
        operands[i] = lane_operand(lanes, LLVMGetOperand(instruction, i), lane);
    if (atomic)
        return facet_emit_atomic(lanes->builder, instruction, operands);
    clone = LLVMInstructionClone(instruction);
    for (uint32_t i = 0; i < count; i++)
        LLVMSetOperand(clone, i, operands[i]);
    LLVMInsertIntoBuilder(lanes->builder, clone);
    return clone;
}

static LLVMValueRef keep_lane(struct facet_lanes *lanes, LLVMValueRef all, LLVMValueRef one, LLVMValueRef lane)
{
    LLVMTypeRef type = LLVMTypeOf(one);

    if (LLVMGetTypeKind(type) != LLVMStructTypeKind)
        return LLVMBuildInsertElement(lanes->builder, all, one, lane, "");
    for (uint32_t i = 0; i < LLVMCountStructElementTypes(type); i++) {
        LLVMValueRef field = LLVMBuildExtractValue(lanes->builder, all, i, "");

        field =
            LLVMBuildInsertElement(lanes->builder, field, LLVMBuildExtractValue(lanes->builder, one, i, ""), lane, "");
        all = LLVMBuildInsertValue(lanes->builder, all, field, i, "");
    }
    return all;
}

/* The most operations of a function that are copied for each lane: with more, LLVM would need minutes. */
enum { UNROLLED_LANES_MAX = 32 };

static LLVMValueRef access_unrolled(struct facet_lanes *lanes, LLVMValueRef instruction, LLVMValueRef result)
{
    for (uint32_t i = 0; i < lanes->width; i++) {
        LLVMValueRef lane = LLVMConstInt(LLVMInt32TypeInContext(lanes->context), i, 0);
        LLVMValueRef one = emit_for_lane(lanes, instruction, lane);

        if (result)
            result = keep_lane(lanes, result, one, lane);
    }
    return result;
}

/* Emits the instruction in a loop over the set bits of the mask. */
static LLVMValueRef access_in_loop(struct facet_lanes *lanes, LLVMValueRef instruction, LLVMValueRef result)
{
    LLVMBuilderRef builder = lanes->builder;
    LLVMTypeRef bits_type = LLVMIntTypeInContext(lanes->context, lanes->width);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(builder), loop, after;
    LLVMValueRef bits = LLVMBuildBitCast(builder, facet_lanes_mask(lanes), bits_type, ""), left, rest, lane, all = NULL,
                 one, end;
    LLVMValueRef arguments[2] = {NULL, LLVMConstInt(LLVMInt1TypeInContext(lanes->context), 1, 0)};

    /* Operands that are not widened yet are widened before the loop. */
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++)
        lane_operand(lanes, LLVMGetOperand(instruction, i), LLVMConstInt(LLVMInt32TypeInContext(lanes->context), 0, 0));
    loop = LLVMAppendBasicBlockInContext(lanes->context, lanes->target, "each");
    after = LLVMAppendBasicBlockInContext(lanes->context, lanes->target, "");
    LLVMBuildBr(builder, loop);
    LLVMPositionBuilderAtEnd(builder, loop);
    left = LLVMBuildPhi(builder, bits_type, "");
    if (result)
        all = LLVMBuildPhi(builder, LLVMTypeOf(result), "");
    arguments[0] = left;
    lane = LLVMBuildZExt(builder, facet_lanes_call(lanes, "llvm.cttz", &bits_type, 1, arguments, 2),
                         LLVMInt32TypeInContext(lanes->context), "");
    one = emit_for_lane(lanes, instruction, lane);
    rest = LLVMBuildAnd(builder, left, LLVMBuildSub(builder, left, LLVMConstInt(bits_type, 1, 0), ""), "");
    LLVMAddIncoming(left, (LLVMValueRef[]){bits, rest}, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(builder)}, 2);
    if (result) {
        one = keep_lane(lanes, all, one, lane);
        LLVMAddIncoming(all, (LLVMValueRef[]){result, one}, (LLVMBasicBlockRef[]){before, LLVMGetInsertBlock(builder)},
                        2);
    }
    end = LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntNE, rest, LLVMConstNull(bits_type), ""), loop, after);
    if (lanes->lane_by_lane > UNROLLED_LANES_MAX)
        facet_loop_forbid_unrolling(end);
    LLVMPositionBuilderAtEnd(builder, after);
    return result ? one : NULL;
}

/* Emits the instruction lane by lane. `small`: its code is so short that it may be copied instead of looped over. */
static void access_each_lane(struct facet_lanes *lanes, LLVMValueRef instruction, bool small)
{
    LLVMTypeRef type = LLVMTypeOf(instruction);
    LLVMValueRef result = NULL;

    if (LLVMGetTypeKind(type) != LLVMVoidTypeKind) {
        type = facet_lanes_type(lanes, type);
        if (!type)
            return;
        result = LLVMGetPoison(type);
    }
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++) {
        LLVMValueRef operand = LLVMGetOperand(instruction, i);

        if (!facet_lanes_uniform(lanes, operand) && !facet_lanes_type(lanes, LLVMTypeOf(operand)))
            return;
        if (!facet_lanes_uniform(lanes, operand) && LLVMGetTypeKind(LLVMTypeOf(operand)) == LLVMStructTypeKind) {
            facet_lanes_refuse(lanes, "a struct that differs between work-items is stored");
            return;
        }
    }
    lanes->lane_by_lane++;
    if (small && !lanes->masks[lanes->block] && lanes->lane_by_lane <= UNROLLED_LANES_MAX)
        result = access_unrolled(lanes, instruction, result);
    else
        result = access_in_loop(lanes, instruction, result);
    if (result)
        facet_map_put(&lanes->vectors, instruction, result);
}

void facet_lanes_lane_by_lane(struct facet_lanes *lanes, LLVMValueRef instruction)
{
    access_each_lane(lanes, instruction, false);
}

void facet_lanes_atomic(struct facet_lanes *lanes, LLVMValueRef instruction)
{
    access_each_lane(lanes, instruction, facet_is_local_memory(LLVMGetOperand(instruction, 0)));
}
