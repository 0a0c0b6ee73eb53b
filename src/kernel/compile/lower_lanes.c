/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: control flow.
 *
 * Owns: blocks, phis and masks of the chunk's function.
 * Never: touches the source function.
 *
 * The source's control flow is structured: each divergent branch is either an if without else, or the only latch and
 * only exit of a loop. So the graph stays as it is. An if is entered when any lane takes it, a loop goes on while any
 * lane stays in it, and each block has a mask of its active lanes. A block runs only when at least one lane is active,
 * so uniform values are computed once, as scalars, even when they may trap.
 */
#include "lower_lanes.h"

#include <string.h>

void facet_lanes_refuse(struct facet_lanes *lanes, const char *why)
{
    if (!lanes->refusal)
        lanes->refusal = why;
}

bool facet_lanes_uniform(const struct facet_lanes *lanes, LLVMValueRef value)
{
    return facet_shapes_get(&lanes->shapes, value).kind == FACET_SHAPE_UNIFORM;
}

LLVMTypeRef facet_lanes_type(struct facet_lanes *lanes, LLVMTypeRef type)
{
    LLVMTypeRef fields[4];

    switch (LLVMGetTypeKind(type)) {
    case LLVMIntegerTypeKind:
    case LLVMHalfTypeKind:
    case LLVMBFloatTypeKind:
    case LLVMFloatTypeKind:
    case LLVMDoubleTypeKind:
    case LLVMPointerTypeKind:
        return LLVMVectorType(type, lanes->width);
    case LLVMStructTypeKind:
        if (LLVMCountStructElementTypes(type) > 4)
            break;
        LLVMGetStructElementTypes(type, fields);
        for (uint32_t i = 0; i < LLVMCountStructElementTypes(type); i++) {
            fields[i] = facet_lanes_type(lanes, fields[i]);
            if (!fields[i])
                return NULL;
        }
        return LLVMStructTypeInContext(lanes->context, fields, LLVMCountStructElementTypes(type), 0);
    default:
        break;
    }
    facet_lanes_refuse(lanes, "a value of a vector, array or large struct type differs between work-items");
    return NULL;
}

LLVMValueRef facet_lanes_scalar(struct facet_lanes *lanes, LLVMValueRef value)
{
    LLVMValueRef found = facet_map_get(&lanes->scalars, value);

    return found ? found : value; /* constants, globals; arguments are in the map */
}

LLVMValueRef facet_lanes_splat(struct facet_lanes *lanes, LLVMValueRef scalar)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context);
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes->width);
    LLVMValueRef one;

    if (LLVMIsUndef(scalar))
        return LLVMIsPoison(scalar) ? LLVMGetPoison(type) : LLVMGetUndef(type);
    one = LLVMBuildInsertElement(lanes->builder, LLVMGetPoison(type), scalar, LLVMConstInt(i32, 0, 0), "");
    return LLVMBuildShuffleVector(lanes->builder, one, LLVMGetPoison(type),
                                  LLVMConstNull(LLVMVectorType(i32, lanes->width)), "");
}

LLVMValueRef facet_lanes_steps(struct facet_lanes *lanes, LLVMTypeRef type, int64_t stride)
{
    LLVMValueRef *steps = facet_arena_take(lanes->arena, lanes->width * sizeof(LLVMValueRef));

    for (uint32_t i = 0; i < lanes->width; i++)
        steps[i] = LLVMConstInt(type, (unsigned long long)stride * i, 1);
    return LLVMConstVector(steps, lanes->width);
}

LLVMValueRef facet_lanes_places(struct facet_lanes *lanes, uint32_t first, uint32_t count)
{
    LLVMValueRef places[FACET_LANES_MAX];

    for (uint32_t i = 0; i < count; i++)
        places[i] = LLVMConstInt(LLVMInt32TypeInContext(lanes->context), first + i, 0);
    return LLVMConstVector(places, count);
}

LLVMValueRef facet_lanes_number(LLVMTypeRef vector, uint64_t number)
{
    LLVMValueRef elements[FACET_LANES_MAX];
    uint32_t count = LLVMGetVectorSize(vector);

    for (uint32_t i = 0; i < count; i++)
        elements[i] = LLVMConstInt(LLVMGetElementType(vector), number, 0);
    return LLVMConstVector(elements, count);
}

/* Places the builder behind the definition of `scalar`, so that its vector form can be used wherever `scalar` can. */
static void place_behind(struct facet_lanes *lanes, LLVMValueRef scalar)
{
    LLVMValueRef at;

    if (!LLVMIsAInstruction(scalar)) {
        at = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(lanes->target));
        if (at)
            LLVMPositionBuilderBefore(lanes->builder, at);
        else
            LLVMPositionBuilderAtEnd(lanes->builder, LLVMGetEntryBasicBlock(lanes->target));
        return;
    }
    for (at = LLVMGetNextInstruction(scalar); at && LLVMIsAPHINode(at);)
        at = LLVMGetNextInstruction(at);
    if (at)
        LLVMPositionBuilderBefore(lanes->builder, at);
    else
        LLVMPositionBuilderAtEnd(lanes->builder, LLVMGetInstructionParent(scalar));
}

static LLVMValueRef widen_value(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef scalar)
{
    struct facet_shape shape = facet_shapes_get(&lanes->shapes, value);
    LLVMTypeRef type = LLVMTypeOf(value), i64 = LLVMInt64TypeInContext(lanes->context);
    LLVMValueRef steps, result;

    if (!facet_lanes_type(lanes, type))
        return LLVMGetPoison(type);
    if (LLVMGetTypeKind(type) == LLVMStructTypeKind) {
        result = LLVMGetPoison(facet_lanes_type(lanes, type));
        for (uint32_t i = 0; i < LLVMCountStructElementTypes(type); i++)
            result = LLVMBuildInsertValue(
                lanes->builder, result, facet_lanes_splat(lanes, LLVMBuildExtractValue(lanes->builder, scalar, i, "")),
                i, "");
        return result;
    }
    if (shape.kind != FACET_SHAPE_STRIDED)
        return facet_lanes_splat(lanes, scalar);
    if (LLVMGetTypeKind(type) == LLVMPointerTypeKind) {
        steps = facet_lanes_steps(lanes, i64, shape.stride);
        return LLVMBuildGEP2(lanes->builder, LLVMInt8TypeInContext(lanes->context), scalar, &steps, 1, "");
    }
    return LLVMBuildAdd(lanes->builder, facet_lanes_splat(lanes, scalar), facet_lanes_steps(lanes, type, shape.stride),
                        "");
}

/* Operands are widened first: a later widening would lose the builder's position. */
static void widen_operands(struct facet_lanes *lanes, LLVMValueRef value)
{
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(value); i++)
        if (!LLVMIsConstant(LLVMGetOperand(value, i)))
            facet_lanes_vector(lanes, LLVMGetOperand(value, i));
}

LLVMValueRef facet_lanes_vector(struct facet_lanes *lanes, LLVMValueRef value)
{
    LLVMValueRef found = facet_map_get(&lanes->vectors, value), scalar, before = NULL;
    bool address_only = facet_shapes_get(&lanes->shapes, value).address_only;
    LLVMBasicBlockRef insert_block = LLVMGetInsertBlock(lanes->builder);

    if (found)
        return found;
    scalar = facet_lanes_scalar(lanes, value);
    if (LLVMIsConstant(value))
        return widen_value(lanes, value, scalar); /* folded */
    before = LLVMGetBasicBlockTerminator(insert_block);
    if (address_only)
        widen_operands(lanes, value);
    place_behind(lanes, scalar);
    found = address_only ? facet_lanes_compute(lanes, value) : widen_value(lanes, value, scalar);
    if (!found)
        return LLVMGetPoison(LLVMTypeOf(value));
    facet_map_put(&lanes->vectors, value, found);
    if (before) /* the block is complete, except for values that phis of its successors take */
        LLVMPositionBuilderBefore(lanes->builder, before);
    else
        LLVMPositionBuilderAtEnd(lanes->builder, insert_block);
    return found;
}

LLVMValueRef facet_lanes_mask(struct facet_lanes *lanes)
{
    LLVMTypeRef type = LLVMVectorType(LLVMInt1TypeInContext(lanes->context), lanes->width);

    return lanes->masks[lanes->block] ? lanes->masks[lanes->block] : LLVMConstAllOnes(type);
}

LLVMValueRef facet_lanes_any(struct facet_lanes *lanes, LLVMValueRef mask)
{
    LLVMTypeRef bits = LLVMIntTypeInContext(lanes->context, lanes->width);

    return LLVMBuildICmp(lanes->builder, LLVMIntNE, LLVMBuildBitCast(lanes->builder, mask, bits, ""),
                         LLVMConstNull(bits), "");
}

LLVMValueRef facet_lanes_call(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types, uint32_t type_count,
                              LLVMValueRef *arguments, uint32_t count)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(lanes->module, id, types, type_count);

    return LLVMBuildCall2(lanes->builder, LLVMGlobalGetValueType(function), function, arguments, count, "");
}

/* Since LLVM 22 the alignment is an attribute of the pointer; earlier it is an argument behind the pointer. */
LLVMValueRef facet_lanes_masked(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types,
                                LLVMValueRef *arguments, uint32_t pointer, uint32_t alignment)
{
    LLVMValueRef list[4], call;
    uint32_t count = 0;
    bool before = LLVM_VERSION_MAJOR < 22;

    for (uint32_t i = 0; i < 3; i++) {
        list[count++] = arguments[i];
        if (before && i == pointer)
            list[count++] = LLVMConstInt(LLVMInt32TypeInContext(lanes->context), alignment, 0);
    }
    call = facet_lanes_call(lanes, name, types, 2, list, count);
    if (!before)
        LLVMSetInstrParamAlignment(call, pointer + 1, alignment);
    return call;
}

LLVMValueRef facet_lanes_all(struct facet_lanes *lanes, LLVMValueRef conditions)
{
    LLVMTypeRef bits = LLVMIntTypeInContext(lanes->context, lanes->width);

    return LLVMBuildICmp(lanes->builder, LLVMIntEQ, LLVMBuildBitCast(lanes->builder, conditions, bits, ""),
                         LLVMConstAllOnes(bits), "");
}

/* Emits a select rather than an `and`, so that poison of an inactive lane does not get into the mask. */
static LLVMValueRef mask_and(struct facet_lanes *lanes, LLVMValueRef mask, LLVMValueRef condition)
{
    if (!mask)
        return condition;
    return LLVMBuildSelect(lanes->builder, mask, condition, LLVMConstNull(LLVMTypeOf(mask)), "");
}

static LLVMValueRef entry_mask(struct facet_lanes *lanes)
{
    LLVMTypeRef i32 = LLVMInt32TypeInContext(lanes->context);
    LLVMTypeRef type = LLVMFunctionType(i32, &i32, 1, 0);
    LLVMValueRef zero = LLVMConstInt(i32, 0, 0);
    LLVMValueRef id = LLVMBuildCall2(lanes->builder, type,
                                     facet_function_declare(lanes->module, "__facet_local_id", type), &zero, 1, "");
    LLVMValueRef size = LLVMBuildCall2(lanes->builder, type,
                                       facet_function_declare(lanes->module, "__facet_group_size", type), &zero, 1, "");
    LLVMValueRef place =
        LLVMBuildAdd(lanes->builder, facet_lanes_splat(lanes, id), facet_lanes_steps(lanes, i32, 1), "");

    return LLVMBuildICmp(lanes->builder, LLVMIntULT, place, facet_lanes_splat(lanes, size), "");
}

/* The latch from which only some lanes go back to this header, or FACET_NO_BLOCK. */
static uint32_t divergent_latch(const struct facet_lanes *lanes, uint32_t header)
{
    const struct facet_block *block = &lanes->graph.blocks[header];

    for (uint32_t p = 0; p < block->predecessor_count; p++)
        if (block->predecessors[p] >= header && lanes->shapes.divergent[block->predecessors[p]])
            return block->predecessors[p];
    return FACET_NO_BLOCK;
}

static void start_mask(struct facet_lanes *lanes, uint32_t index)
{
    uint32_t above = lanes->graph.blocks[index].dominator;
    LLVMTypeRef type = LLVMVectorType(LLVMInt1TypeInContext(lanes->context), lanes->width);

    if (index == 0)
        return;
    if (divergent_latch(lanes, index) != FACET_NO_BLOCK) {
        lanes->masks[index] = LLVMBuildPhi(lanes->builder, type, "mask");
        return;
    }
    lanes->masks[index] = lanes->masks[above];
    if (!lanes->shapes.divergent[above])
        return;
    if (facet_graph_then(&lanes->graph, above) == index)
        lanes->masks[index] = mask_and(lanes, lanes->masks[above], lanes->then_masks[above]);
    else if (facet_graph_header(&lanes->graph, above) != FACET_NO_BLOCK) /* behind a loop: the mask from before it */
        lanes->masks[index] = lanes->masks[lanes->graph.blocks[facet_graph_header(&lanes->graph, above)].dominator];
}

static void start_phis(struct facet_lanes *lanes, uint32_t index)
{
    for (LLVMValueRef phi = LLVMGetFirstInstruction(lanes->graph.blocks[index].block); phi && LLVMIsAPHINode(phi);
         phi = LLVMGetNextInstruction(phi)) {
        bool vector = facet_shapes_get(&lanes->shapes, phi).kind == FACET_SHAPE_VARYING;
        LLVMTypeRef type = vector ? facet_lanes_type(lanes, LLVMTypeOf(phi)) : LLVMTypeOf(phi);

        if (!type)
            return;
        facet_map_put(vector ? &lanes->vectors : &lanes->scalars, phi, LLVMBuildPhi(lanes->builder, type, ""));
    }
}

static void end_divergent(struct facet_lanes *lanes, uint32_t index, LLVMValueRef end)
{
    const struct facet_block *block = &lanes->graph.blocks[index];
    uint32_t header = facet_graph_header(&lanes->graph, index), in = header, out;
    LLVMValueRef condition = facet_lanes_vector(lanes, LLVMGetOperand(end, 0)), some;

    if (header == FACET_NO_BLOCK)
        in = facet_graph_then(&lanes->graph, index);
    if (in == FACET_NO_BLOCK || LLVMGetInstructionOpcode(end) != LLVMBr ||
        (header != FACET_NO_BLOCK &&
         lanes->graph.blocks[block->successors[block->successors[0] == header]].predecessor_count != 1)) {
        facet_lanes_refuse(lanes, "control flow that is not structured");
        return;
    }
    out = block->successors[block->successors[0] == in];
    if (block->successors[0] != in)
        condition = LLVMBuildNot(lanes->builder, condition, "");
    lanes->then_masks[index] = condition;
    some = mask_and(lanes, lanes->masks[index], condition);
    lanes->taken_masks[index] = some;
    LLVMBuildCondBr(lanes->builder, facet_lanes_any(lanes, some), lanes->starts[in], lanes->starts[out]);
}

static void end_block(struct facet_lanes *lanes, uint32_t index)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(lanes->graph.blocks[index].block), clone;

    lanes->ends[index] = LLVMGetInsertBlock(lanes->builder);
    if (LLVMIsAReturnInst(end) && LLVMGetNumOperands(end) == 1) { /* of a shared function */
        LLVMBuildRet(lanes->builder, facet_lanes_vector(lanes, LLVMGetOperand(end, 0)));
        return;
    }
    if (lanes->shapes.divergent[index]) {
        end_divergent(lanes, index, end);
        return;
    }
    clone = LLVMInstructionClone(end);
    if (lanes->graph.blocks[index].successor_count > 1)
        LLVMSetOperand(clone, 0, facet_lanes_scalar(lanes, LLVMGetOperand(end, 0)));
    LLVMInsertIntoBuilder(lanes->builder, clone);
    for (uint32_t s = 0; s < lanes->graph.blocks[index].successor_count; s++)
        LLVMSetSuccessor(clone, s, lanes->starts[lanes->graph.blocks[index].successors[s]]);
}

static void make_block(struct facet_lanes *lanes, uint32_t index, const struct facet_lanes_form *form)
{
    lanes->block = index;
    LLVMPositionBuilderAtEnd(lanes->builder, lanes->starts[index]);
    start_phis(lanes, index);
    start_mask(lanes, index);
    if (index == 0 && form->masked)
        lanes->masks[0] = form->shared ? LLVMGetLastParam(lanes->target) : entry_mask(lanes);
    facet_lanes_fill(lanes);
    if (!lanes->refusal)
        end_block(lanes, index);
}

/* The value that arrives in `join` from `from`: a lane that skipped an if on the way keeps the value that the phi has
 * for skipping it. */
static LLVMValueRef blend_values(struct facet_lanes *lanes, LLVMValueRef phi, uint32_t join, uint32_t from,
                                 LLVMValueRef value)
{
    const struct facet_graph *graph = &lanes->graph;

    for (uint32_t below = from; below != graph->blocks[join].dominator && below;
         below = graph->blocks[below].dominator) {
        uint32_t above = graph->blocks[below].dominator;

        if (!lanes->shapes.divergent[above] || facet_graph_join(graph, above) != join)
            continue;
        for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++)
            if (LLVMGetIncomingBlock(phi, i) == graph->blocks[above].block &&
                !LLVMIsUndef(LLVMGetIncomingValue(phi, i)))
                value = LLVMBuildSelect(lanes->builder, lanes->then_masks[above], value,
                                        facet_lanes_vector(lanes, LLVMGetIncomingValue(phi, i)), "");
    }
    return value;
}

/* Lanes leave a loop one by one: each keeps the value it had when it left. */
static LLVMValueRef hold_leaving_value(struct facet_lanes *lanes, uint32_t latch, LLVMValueRef value)
{
    uint32_t header = facet_graph_header(&lanes->graph, latch);
    LLVMValueRef vector = facet_lanes_vector(lanes, value), phi, held;
    LLVMTypeRef type = LLVMTypeOf(vector);

    LLVMPositionBuilderBefore(lanes->builder, LLVMGetFirstInstruction(lanes->starts[header]));
    phi = LLVMBuildPhi(lanes->builder, type, "held");
    LLVMPositionBuilderBefore(lanes->builder, LLVMGetBasicBlockTerminator(lanes->ends[latch]));
    held = LLVMBuildSelect(lanes->builder, lanes->masks[latch] ? lanes->masks[latch] : facet_lanes_mask(lanes), vector,
                           phi, "");
    for (uint32_t p = 0; p < lanes->graph.blocks[header].predecessor_count; p++) {
        uint32_t from = lanes->graph.blocks[header].predecessors[p];
        LLVMValueRef incoming = from == latch ? held : LLVMGetPoison(type);

        LLVMAddIncoming(phi, &incoming, &lanes->ends[from], 1);
    }
    return held;
}

static LLVMValueRef incoming_value(struct facet_lanes *lanes, LLVMValueRef phi, uint32_t to, uint32_t from,
                                   LLVMValueRef value)
{
    uint32_t header = facet_graph_header(&lanes->graph, from);

    if (facet_shapes_get(&lanes->shapes, phi).kind != FACET_SHAPE_VARYING)
        return facet_lanes_scalar(lanes, value);
    if (lanes->shapes.divergent[from] && header != FACET_NO_BLOCK && header != to && LLVMIsAInstruction(value) &&
        facet_graph_dominates(&lanes->graph, header, facet_graph_find(&lanes->graph, LLVMGetInstructionParent(value))))
        return hold_leaving_value(lanes, from, value);
    return blend_values(lanes, phi, to, from, facet_lanes_vector(lanes, value));
}

static void finish_phis(struct facet_lanes *lanes, uint32_t index)
{
    for (LLVMValueRef phi = LLVMGetFirstInstruction(lanes->graph.blocks[index].block); phi && LLVMIsAPHINode(phi);
         phi = LLVMGetNextInstruction(phi)) {
        bool vector = facet_shapes_get(&lanes->shapes, phi).kind == FACET_SHAPE_VARYING;
        LLVMValueRef made = facet_map_get(vector ? &lanes->vectors : &lanes->scalars, phi);

        for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++) {
            uint32_t from = facet_graph_find(&lanes->graph, LLVMGetIncomingBlock(phi, i));
            LLVMValueRef value;

            if (from == FACET_NO_BLOCK)
                continue;
            LLVMPositionBuilderBefore(lanes->builder, LLVMGetBasicBlockTerminator(lanes->ends[from]));
            lanes->block = from;
            value = incoming_value(lanes, phi, index, from, LLVMGetIncomingValue(phi, i));
            LLVMAddIncoming(made, &value, &lanes->ends[from], 1);
        }
    }
}

static void finish_mask(struct facet_lanes *lanes, uint32_t header)
{
    uint32_t latch = divergent_latch(lanes, header);
    const struct facet_block *block = &lanes->graph.blocks[header];

    if (latch == FACET_NO_BLOCK)
        return;
    for (uint32_t p = 0; p < block->predecessor_count; p++) {
        uint32_t from = block->predecessors[p];
        LLVMValueRef value;

        lanes->block = from;
        value = from == latch ? lanes->taken_masks[latch] : facet_lanes_mask(lanes);
        LLVMAddIncoming(lanes->masks[header], &value, &lanes->ends[from], 1);
    }
}

/* Whether most of the work of the loop that ends with this latch is loads at unrelated addresses (gathers). */
static bool mostly_gathers(const struct facet_lanes *lanes, uint32_t latch)
{
    uint32_t header = facet_graph_header(&lanes->graph, latch), gathers = 0, others = 0;

    for (uint32_t i = header; i <= latch; i++) {
        if (!facet_graph_dominates(&lanes->graph, header, i))
            continue;
        for (LLVMValueRef at = LLVMGetFirstInstruction(lanes->graph.blocks[i].block); at;
             at = LLVMGetNextInstruction(at)) {
            bool load = LLVMIsALoadInst(at) && !facet_private_of(LLVMGetOperand(at, 0));

            if (load && facet_shapes_get(&lanes->shapes, LLVMGetOperand(at, 0)).kind == FACET_SHAPE_VARYING)
                gathers++;
            else
                others += !LLVMIsAPHINode(at) && !LLVMIsAGetElementPtrInst(at) && !LLVMIsACastInst(at);
        }
    }
    return gathers >= 2 && others < 4 * gathers;
}

/* Refuses a function with a divergent loop that mostly gathers: vectors would gain nothing there. */
static void judge_accesses(struct facet_lanes *lanes)
{
    for (uint32_t i = 0; i < lanes->graph.count; i++)
        if (lanes->shapes.divergent[i] && facet_graph_header(&lanes->graph, i) != FACET_NO_BLOCK &&
            mostly_gathers(lanes, i))
            facet_lanes_refuse(lanes, "a loop of each item's own that mostly loads");
}

static void make_all(struct facet_lanes *lanes, const struct facet_lanes_form *form)
{
    uint32_t count = lanes->graph.count;

    lanes->starts = facet_arena_take(lanes->arena, count * sizeof(LLVMBasicBlockRef));
    lanes->ends = facet_arena_take(lanes->arena, count * sizeof(LLVMBasicBlockRef));
    lanes->masks = facet_arena_take(lanes->arena, count * sizeof(LLVMValueRef));
    lanes->then_masks = facet_arena_take(lanes->arena, count * sizeof(LLVMValueRef));
    lanes->taken_masks = facet_arena_take(lanes->arena, count * sizeof(LLVMValueRef));
    for (uint32_t i = 0; i < LLVMCountParams(lanes->source); i++)
        facet_map_put(form->varying >> i & 1 ? &lanes->vectors : &lanes->scalars, LLVMGetParam(lanes->source, i),
                      LLVMGetParam(lanes->target, i));
    for (uint32_t i = 0; i < count; i++)
        lanes->starts[i] = LLVMAppendBasicBlockInContext(lanes->context, lanes->target, "");
    for (uint32_t i = 0; i < count && !lanes->refusal; i++)
        make_block(lanes, i, form);
    for (uint32_t i = 0; i < count && !lanes->refusal; i++)
        finish_mask(lanes, i);
    for (uint32_t i = 0; i < count && !lanes->refusal; i++)
        finish_phis(lanes, i);
}

/* The type of a form: in a shared function, arguments and results that differ between items are vectors. */
static LLVMTypeRef form_type(struct facet_lanes *lanes, const struct facet_lanes_form *form)
{
    LLVMTypeRef type = LLVMGlobalGetValueType(lanes->source), result = LLVMGetReturnType(type);
    uint32_t count = LLVMCountParams(lanes->source);
    LLVMTypeRef *types = facet_arena_take(lanes->arena, (count + 1) * sizeof(LLVMTypeRef));

    if (!form->shared)
        return type;
    for (uint32_t i = 0; i < count; i++) {
        types[i] = LLVMTypeOf(LLVMGetParam(lanes->source, i));
        if (form->varying >> i & 1)
            types[i] = facet_lanes_type(lanes, types[i]);
    }
    if (form->masked)
        types[count++] = LLVMVectorType(LLVMInt1TypeInContext(lanes->context), lanes->width);
    if (LLVMGetTypeKind(result) != LLVMVoidTypeKind)
        result = facet_lanes_type(lanes, result);
    return LLVMFunctionType(result, types, count, 0);
}

bool facet_lanes_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                      const struct facet_lanes_form *form, const char *name, LLVMValueRef *ret_function,
                      const char **ret_why)
{
    struct facet_lanes lanes = {.arena = arena,
                                .module = LLVMGetGlobalParent(function),
                                .layout = layout,
                                .source = function,
                                .width = form->width,
                                .register_lanes = form->register_lanes,
                                .scalars = {.arena = arena},
                                .vectors = {.arena = arena}};

    lanes.context = LLVMGetModuleContext(lanes.module);
    facet_graph_make(&lanes.graph, arena, function);
    facet_shapes_make(&lanes.shapes, arena, &lanes.graph, layout, true, form->varying);
    lanes.orders_memory = facet_lanes_orders_memory(&lanes.graph);
    lanes.target = LLVMAddFunction(lanes.module, name, form_type(&lanes, form));
    LLVMSetLinkage(lanes.target, LLVMInternalLinkage);
    lanes.builder = LLVMCreateBuilderInContext(lanes.context);
    judge_accesses(&lanes);
    make_all(&lanes, form);
    LLVMDisposeBuilder(lanes.builder);
    if (lanes.refusal) {
        *ret_why = lanes.refusal;
        LLVMDeleteFunction(lanes.target);
        return false;
    }
    *ret_function = lanes.target;
    return true;
}
