/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes of values: which values are the same for all work-items, which grow by a constant from one item to the
 * next; and which branches are divergent.
 *
 * Owns: the analysis. It begins with the best shape of each value and makes shapes worse until no shape changes.
 * Never: changes a function.
 *
 * For lanes control flow is structured (see lower_lanes.c), so values of different items meet only in the join of an
 * if and behind a loop. For the group control flow is arbitrary, and any phi that a divergent branch reaches before its
 * paths join is taken to differ.
 *
 * An index of 32 bits that may wrap between two lanes has no stride once it is extended to 64 bits. But only the lanes
 * on one side of the wrap can be inside any object: an unsigned index is huge on the other side, and 2^31 - 1 and
 * -2^31 are too far apart. So addresses made of such an index keep its stride, counted from the lanes that can be
 * inside. Their shape is `address_only`: where the value itself is used, it is computed for each lane.
 */
#include "lower_inside.h"

static const struct facet_shape uniform = {FACET_SHAPE_UNIFORM, true, true, false, 0};
static const struct facet_shape varying = {FACET_SHAPE_VARYING, false, false, false, 0};

struct facet_shape facet_shapes_get(const struct facet_shapes *shapes, LLVMValueRef value)
{
    const struct facet_shape *found;

    if (!LLVMIsAInstruction(value))
        return LLVMIsAArgument(value) && facet_map_get(&shapes->values, value) ? varying : uniform;
    found = facet_map_get(&shapes->values, value);
    return found ? *found : (struct facet_shape){.kind = FACET_SHAPE_UNKNOWN};
}

static void set_shape(struct facet_shapes *shapes, LLVMValueRef value, struct facet_shape shape)
{
    struct facet_shape *found = facet_map_get(&shapes->values, value);

    if (!found) {
        found = facet_arena_take(shapes->arena, sizeof(*found));
        facet_map_put(&shapes->values, value, found);
    }
    if (shape.kind < found->kind) /* a shape only gets worse, so that the analysis ends */
        return;
    if (shape.kind == FACET_SHAPE_STRIDED && found->kind == FACET_SHAPE_STRIDED) {
        if (shape.stride != found->stride)
            shape = varying;
        shape.address_only |= found->address_only;
        shape.no_signed_wrap &= found->no_signed_wrap;
        shape.no_unsigned_wrap &= found->no_unsigned_wrap;
    }
    if (shape.kind == found->kind && shape.address_only == found->address_only &&
        shape.no_signed_wrap == found->no_signed_wrap && shape.no_unsigned_wrap == found->no_unsigned_wrap)
        return;
    *found = shape;
    shapes->changed = true;
}

/* Uniform when all operands are uniform; unknown while one of them is unknown. */
static struct facet_shape all_uniform(const struct facet_shapes *shapes, LLVMValueRef instruction)
{
    struct facet_shape result = uniform;

    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++) {
        LLVMValueRef operand = LLVMGetOperand(instruction, i);
        struct facet_shape shape = facet_shapes_get(shapes, operand);

        if (shape.kind == FACET_SHAPE_UNKNOWN)
            result = shape;
        else if (shape.kind != FACET_SHAPE_UNIFORM)
            return varying;
    }
    return result;
}

static struct facet_shape strided_shape(int64_t stride, bool no_unsigned_wrap, bool no_signed_wrap)
{
    if (stride == 0)
        return uniform;
    return (struct facet_shape){FACET_SHAPE_STRIDED, no_unsigned_wrap, no_signed_wrap, false, stride};
}

static struct facet_shape address_only_shape(int64_t stride)
{
    return (struct facet_shape){FACET_SHAPE_STRIDED, false, false, true, stride};
}

static struct facet_shape shape_of_sum(struct facet_shape a, struct facet_shape b, int64_t sign, bool nuw, bool nsw)
{
    if (a.kind == FACET_SHAPE_VARYING || b.kind == FACET_SHAPE_VARYING)
        return varying;
    return strided_shape(a.stride + sign * b.stride, nuw && a.no_unsigned_wrap && b.no_unsigned_wrap && sign > 0,
                         nsw && a.no_signed_wrap && b.no_signed_wrap);
}

/* The shape of a value of shape `a` times a constant, or shifted left by one. */
static struct facet_shape shape_of_product(struct facet_shape a, LLVMValueRef factor, bool shift, bool nuw, bool nsw)
{
    int64_t by;

    if (a.kind != FACET_SHAPE_STRIDED || !LLVMIsAConstantInt(factor))
        return varying;
    by = LLVMConstIntGetSExtValue(factor);
    if (by > 65536 || by < -65536 || (shift && (by < 0 || by > 30)) || a.stride > 65536 || a.stride < -65536)
        return varying;
    return strided_shape(a.stride * (shift ? INT64_C(1) << by : by), nuw && a.no_unsigned_wrap && (shift || by > 0),
                         nsw && a.no_signed_wrap);
}

static struct facet_shape shape_of_arithmetic(const struct facet_shapes *shapes, LLVMValueRef instruction,
                                              LLVMOpcode opcode)
{
    LLVMValueRef right = LLVMGetOperand(instruction, 1), left = LLVMGetOperand(instruction, 0);
    struct facet_shape a = facet_shapes_get(shapes, left), b = facet_shapes_get(shapes, right);
    bool nuw, nsw;

    if (opcode == LLVMOr)
        return LLVMGetIsDisjoint(instruction) ? shape_of_sum(a, b, 1, true, true) : varying;
    nuw = LLVMGetNUW(instruction);
    nsw = LLVMGetNSW(instruction);
    switch (opcode) {
    case LLVMAdd:
        return shape_of_sum(a, b, 1, nuw, nsw);
    case LLVMSub:
        return shape_of_sum(a, b, -1, nuw, nsw);
    case LLVMMul:
        return LLVMIsAConstantInt(right) ? shape_of_product(a, right, false, nuw, nsw)
                                         : shape_of_product(b, left, false, nuw, nsw);
    default:
        return shape_of_product(a, right, true, nuw, nsw);
    }
}

static struct facet_shape shape_of_cast(const struct facet_shapes *shapes, LLVMValueRef instruction, LLVMOpcode opcode)
{
    struct facet_shape a = facet_shapes_get(shapes, LLVMGetOperand(instruction, 0));

    if (a.kind == FACET_SHAPE_VARYING)
        return varying;
    switch (opcode) {
    case LLVMTrunc:
        return strided_shape(a.stride, false, false);
    case LLVMSExt:
        return a.no_signed_wrap ? strided_shape(a.stride, false, true) : address_only_shape(a.stride);
    case LLVMZExt:
        return a.no_unsigned_wrap ? strided_shape(a.stride, true, true) : address_only_shape(a.stride);
    case LLVMPtrToInt:
    case LLVMIntToPtr:
        return LLVMSizeOfTypeInBits(shapes->layout, LLVMTypeOf(instruction)) == 64
                   ? strided_shape(a.stride, false, false)
                   : varying;
    case LLVMFreeze:
        return a;
    default:
        return varying;
    }
}

static struct facet_shape shape_of_address(const struct facet_shapes *shapes, LLVMValueRef gep)
{
    LLVMTypeRef type = LLVMGetGEPSourceElementType(gep);
    int64_t stride = facet_shapes_get(shapes, LLVMGetOperand(gep, 0)).stride;
    bool extended = false;

    if (LLVMGetTypeKind(LLVMTypeOf(gep)) != LLVMPointerTypeKind)
        return varying;
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(gep); i++) {
        struct facet_shape shape = facet_shapes_get(shapes, LLVMGetOperand(gep, i));

        if (shape.kind == FACET_SHAPE_VARYING || shape.stride > INT32_MAX || shape.stride < INT32_MIN)
            return varying;
        if (i == 0)
            continue;
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            type = LLVMStructGetTypeAtIndex(type, (unsigned)LLVMConstIntGetZExtValue(LLVMGetOperand(gep, i)));
            continue;
        }
        if (shape.kind == FACET_SHAPE_STRIDED && !shape.no_signed_wrap &&
            LLVMSizeOfTypeInBits(shapes->layout, LLVMTypeOf(LLVMGetOperand(gep, i))) < 64)
            extended = true; /* the address extends an index that may wrap */
        type = i > 1 ? LLVMGetElementType(type) : type;
        stride += shape.stride * (int64_t)LLVMABISizeOfType(shapes->layout, type);
    }
    if (extended)
        return stride ? address_only_shape(stride) : varying;
    return strided_shape(stride, false, false);
}

static struct facet_shape shape_of_select(const struct facet_shapes *shapes, LLVMValueRef select)
{
    struct facet_shape a = facet_shapes_get(shapes, LLVMGetOperand(select, 1));
    struct facet_shape b = facet_shapes_get(shapes, LLVMGetOperand(select, 2));

    if (facet_shapes_get(shapes, LLVMGetOperand(select, 0)).kind != FACET_SHAPE_UNIFORM || a.stride != b.stride ||
        a.kind != b.kind || a.kind == FACET_SHAPE_VARYING)
        return varying;
    return strided_shape(a.stride, a.no_unsigned_wrap && b.no_unsigned_wrap, a.no_signed_wrap && b.no_signed_wrap);
}

/* The shape of an instruction whose operands are not all uniform. */
static struct facet_shape shape_of_mixed(const struct facet_shapes *shapes, LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);

    if (!shapes->lanes)
        return varying;
    switch (opcode) {
    case LLVMAdd:
    case LLVMSub:
    case LLVMMul:
    case LLVMShl:
    case LLVMOr:
        return LLVMGetTypeKind(LLVMTypeOf(instruction)) == LLVMIntegerTypeKind
                   ? shape_of_arithmetic(shapes, instruction, opcode)
                   : varying;
    case LLVMTrunc:
    case LLVMSExt:
    case LLVMZExt:
    case LLVMPtrToInt:
    case LLVMIntToPtr:
    case LLVMFreeze:
        return shape_of_cast(shapes, instruction, opcode);
    case LLVMGetElementPtr:
        return shape_of_address(shapes, instruction);
    case LLVMSelect:
        return shape_of_select(shapes, instruction);
    default:
        return varying;
    }
}

static struct facet_shape shape_of_call(const struct facet_shapes *shapes, LLVMValueRef call)
{
    switch (facet_call_of(call)) {
    case FACET_CALL_LOCAL_ID:
    case FACET_CALL_GLOBAL_ID:
        if (!shapes->lanes)
            return varying;
        return LLVMConstIntGetZExtValue(LLVMGetOperand(call, 0)) == 0 ? strided_shape(1, true, true) : uniform;
    case FACET_CALL_OTHER:
        return LLVMGetIntrinsicID(LLVMGetCalledValue(call)) || (shapes->lanes && facet_is_shared_read(call))
                   ? all_uniform(shapes, call)
                   : varying;
    default:
        return uniform;
    }
}

/* Interleaved private memory (lower_memory.c) has one address for all lanes; otherwise each lane has a copy. */
static struct facet_shape shape_of_alloca(const struct facet_shapes *shapes, LLVMValueRef instruction)
{
    if (!shapes->lanes)
        return varying;
    if (facet_private_element(instruction, shapes->layout))
        return uniform;
    return strided_shape((int64_t)facet_private_stride(instruction, shapes->layout), false, false);
}

/* The shape of an instruction, made `address_only` when an operand is. */
static struct facet_shape inherit_address_only(const struct facet_shapes *shapes, LLVMValueRef instruction,
                                               struct facet_shape shape)
{
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++) {
        struct facet_shape operand = facet_shapes_get(shapes, LLVMGetOperand(instruction, i));

        if (!operand.address_only)
            continue;
        if (shape.kind == FACET_SHAPE_UNIFORM)
            return varying;
        shape.address_only = true;
    }
    return shape;
}

static struct facet_shape shape_of_instruction(const struct facet_shapes *shapes, LLVMValueRef instruction)
{
    struct facet_shape shape;

    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMCall:
        return shape_of_call(shapes, instruction);
    case LLVMAlloca:
        return shape_of_alloca(shapes, instruction);
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        return varying;
    case LLVMLoad:
        if (LLVMGetVolatile(instruction) || LLVMIsAtomic(instruction) ||
            facet_private_of(LLVMGetOperand(instruction, 0)))
            return varying;
        break;
    default:
        break;
    }
    shape = all_uniform(shapes, instruction);
    if (shape.kind != FACET_SHAPE_VARYING)
        return shape;
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(instruction); i++)
        if (facet_shapes_get(shapes, LLVMGetOperand(instruction, i)).kind == FACET_SHAPE_UNKNOWN)
            return (struct facet_shape){.kind = FACET_SHAPE_UNKNOWN};
    return inherit_address_only(shapes, instruction, shape_of_mixed(shapes, instruction));
}

static struct facet_shape shape_of_phi(const struct facet_shapes *shapes, LLVMValueRef phi)
{
    struct facet_shape result = {.kind = FACET_SHAPE_UNKNOWN};

    for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMValueRef value = LLVMGetIncomingValue(phi, i);
        struct facet_shape shape = facet_shapes_get(shapes, value);

        if (shape.kind == FACET_SHAPE_UNKNOWN || LLVMIsUndef(value) || value == phi)
            continue;
        if (shape.address_only)
            return varying;
        if (result.kind == FACET_SHAPE_UNKNOWN)
            result = shape;
        else if (shape.kind != result.kind || shape.stride != result.stride)
            return varying;
        result.no_signed_wrap &= shape.no_signed_wrap;
        result.no_unsigned_wrap &= shape.no_unsigned_wrap;
    }
    return result.kind == FACET_SHAPE_UNKNOWN && LLVMCountIncoming(phi) && LLVMIsUndef(LLVMGetIncomingValue(phi, 0))
               ? uniform
               : result;
}

/* Items that went different ways meet in `join`, so its phis differ, except those whose value around the if is
 * undefined: then only the items inside the if have a value. */
static void join_lanes(struct facet_shapes *shapes, uint32_t join, uint32_t branch)
{
    LLVMBasicBlockRef around = shapes->graph->blocks[branch].block;

    for (LLVMValueRef phi = LLVMGetFirstInstruction(shapes->graph->blocks[join].block); phi && LLVMIsAPHINode(phi);
         phi = LLVMGetNextInstruction(phi))
        for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++)
            if (LLVMGetIncomingBlock(phi, i) == around && !LLVMIsUndef(LLVMGetIncomingValue(phi, i)))
                set_shape(shapes, phi, varying);
}

/* Behind a loop that items leave in different rounds, values from inside the loop differ. */
static void leave_lanes(struct facet_shapes *shapes, uint32_t exit, uint32_t header)
{
    const struct facet_graph *graph = shapes->graph;

    for (LLVMValueRef phi = LLVMGetFirstInstruction(graph->blocks[exit].block); phi && LLVMIsAPHINode(phi);
         phi = LLVMGetNextInstruction(phi)) {
        LLVMValueRef value = LLVMGetIncomingValue(phi, 0);

        if (LLVMIsAInstruction(value) &&
            facet_graph_dominates(graph, header, facet_graph_find(graph, LLVMGetInstructionParent(value))))
            set_shape(shapes, phi, varying);
    }
}

/* For arbitrary control flow: makes the phis of all blocks between the branch and the join of its paths varying. */
static void vary_phis_of_paths(struct facet_shapes *shapes, uint32_t branch)
{
    const struct facet_graph *graph = shapes->graph;
    uint32_t end = graph->blocks[branch].post_dominator, depth = 0;
    bool *seen = facet_arena_take(shapes->arena, graph->count);
    uint32_t *stack = facet_arena_take(shapes->arena, (graph->count + 1) * sizeof(*stack));

    for (uint32_t next = branch;; next = stack[--depth]) {
        for (uint32_t s = 0; s < graph->blocks[next].successor_count && (next != end || next == branch); s++) {
            uint32_t to = graph->blocks[next].successors[s];

            if (seen[to])
                continue;
            seen[to] = true;
            stack[depth++] = to;
            for (LLVMValueRef phi = LLVMGetFirstInstruction(graph->blocks[to].block); phi && LLVMIsAPHINode(phi);
                 phi = LLVMGetNextInstruction(phi))
                set_shape(shapes, phi, varying);
        }
        if (!depth)
            break;
    }
}

static void note_divergence(struct facet_shapes *shapes, uint32_t index)
{
    const struct facet_graph *graph = shapes->graph;
    LLVMValueRef end = LLVMGetBasicBlockTerminator(graph->blocks[index].block);
    uint32_t header = facet_graph_header(graph, index);

    if (graph->blocks[index].successor_count < 2 || shapes->divergent[index] ||
        facet_shapes_get(shapes, LLVMGetOperand(end, 0)).kind < FACET_SHAPE_STRIDED)
        return;
    shapes->divergent[index] = true;
    shapes->changed = true;
    if (!shapes->lanes)
        vary_phis_of_paths(shapes, index);
    else if (header != FACET_NO_BLOCK)
        leave_lanes(shapes, graph->blocks[index].successors[graph->blocks[index].successors[0] == header], header);
    else if (facet_graph_join(graph, index) != FACET_NO_BLOCK)
        join_lanes(shapes, facet_graph_join(graph, index), index);
}

void facet_shapes_make(struct facet_shapes *shapes, struct facet_arena *arena, const struct facet_graph *graph,
                       LLVMTargetDataRef layout, bool lanes, uint64_t varying_arguments)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(graph->blocks[0].block);

    *shapes = (struct facet_shapes){.arena = arena,
                                    .graph = graph,
                                    .layout = layout,
                                    .values = {.arena = arena},
                                    .lanes = lanes,
                                    .divergent = facet_arena_take(arena, graph->count)};
    for (uint32_t i = 0; varying_arguments >> i; i++)
        if (varying_arguments >> i & 1)
            set_shape(shapes, LLVMGetParam(function, i), varying);
    do {
        shapes->changed = false;
        for (uint32_t i = 0; i < graph->count; i++) {
            for (LLVMValueRef at = LLVMGetFirstInstruction(graph->blocks[i].block); at; at = LLVMGetNextInstruction(at))
                set_shape(shapes, at, LLVMIsAPHINode(at) ? shape_of_phi(shapes, at) : shape_of_instruction(shapes, at));
            note_divergence(shapes, i);
        }
    } while (shapes->changed);
}
