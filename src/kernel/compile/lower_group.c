/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the function of one item (or chunk of items) to the function of a work-group.
 *
 * Owns: regions between barriers, the loops over items, the storage of values that outlive a barrier.
 * Never: changes the result of an item.
 *
 * A region is the code that can be reached from a barrier (or the entry) without passing another barrier. Each region
 * is cloned into a loop over all items. Behind the loop runs the region of the barrier that was reached, which is the
 * same for all items: a loop of the source with barriers in it becomes a loop around the loops of its regions. A value
 * that lives across a barrier has a slot: a variable within a region. Between regions the value is in the item's frame
 * in scratch memory or, when it is the same for all items, in another variable. Slots become registers in later passes.
 */
#include "lower_group.h"

#include <facet/host_kernel.h>

enum {
    LARGE_BLOCK_INSTRUCTIONS = 2000, /* a block with more instructions is split ... */
    PIECE_INSTRUCTIONS = 500,        /* ... into pieces of this size */
    INLINE_REGIONS_MAX = 48,         /* with more regions, each is a function of its own */
    STACK_MAX_BYTES = 65536,         /* private memory of a chunk on the thread's stack; more is in scratch memory */
};

LLVMValueRef facet_group_number(const struct facet_former *former, uint32_t value)
{
    return LLVMConstInt(former->i32, value, 0);
}

static void redirect_branches(LLVMBasicBlockRef from, LLVMBasicBlockRef to)
{
    LLVMUseRef use;

    while ((use = LLVMGetFirstUse(LLVMBasicBlockAsValue(from)))) {
        LLVMValueRef end = LLVMGetUser(use);

        for (unsigned s = 0; s < LLVMGetNumSuccessors(end); s++)
            if (LLVMGetSuccessor(end, s) == from)
                LLVMSetSuccessor(end, s, to);
    }
}

/* Moves the instructions before `instruction` into a new block, the head, and leaves the builder at the head's end,
 * which has no terminator yet. The old block keeps the tail, so that phis in its successors stay right. Returns the
 * tail. */
static LLVMBasicBlockRef split_before(LLVMBuilderRef builder, LLVMValueRef instruction)
{
    LLVMBasicBlockRef tail = LLVMGetInstructionParent(instruction);
    LLVMValueRef function = LLVMGetBasicBlockParent(tail);
    LLVMBasicBlockRef head =
        LLVMInsertBasicBlockInContext(LLVMGetModuleContext(LLVMGetGlobalParent(function)), tail, "");

    redirect_branches(tail, head);
    LLVMPositionBuilderAtEnd(builder, head);
    for (LLVMValueRef at = LLVMGetFirstInstruction(tail); at != instruction; at = LLVMGetFirstInstruction(tail)) {
        LLVMInstructionRemoveFromParent(at);
        LLVMInsertIntoBuilder(builder, at);
    }
    return tail;
}

static void split_at_barriers(struct facet_former *former)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(former->source); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (facet_call_of(at) == FACET_CALL_BARRIER)
                LLVMBuildBr(former->builder, split_before(former->builder, at));
        }
}

static bool can_be_early(LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMLoad:
        return LLVMHasMetadata(instruction) &&
               LLVMGetMetadata(instruction, LLVMGetMDKindIDInContext(
                                                LLVMGetModuleContext(LLVMGetGlobalParent(
                                                    LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction)))),
                                                "invariant.load", 14)) != NULL;
    case LLVMUDiv:
    case LLVMSDiv:
    case LLVMURem:
    case LLVMSRem:
    case LLVMAlloca:
    case LLVMPHI:
        return false;
    default:
        return LLVMIsABinaryOperator(instruction) || LLVMIsACastInst(instruction) || LLVMIsACmpInst(instruction) ||
               LLVMIsAGetElementPtrInst(instruction) || LLVMIsASelectInst(instruction) ||
               LLVMIsAInsertElementInst(instruction) || LLVMIsAShuffleVectorInst(instruction);
    }
}

/* A field of the launch, loaded once. */
LLVMValueRef facet_group_field(struct facet_former *former, LLVMTypeRef type, uint32_t offset)
{
    LLVMValueRef place = LLVMConstInt(former->i64, offset, 0), load;

    place = LLVMBuildGEP2(former->entry, LLVMInt8TypeInContext(former->context), LLVMGetParam(former->run, 1), &place,
                          1, "");
    load = LLVMBuildLoad2(former->entry, type, place, "");
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(former->context, "invariant.load", 14),
                    LLVMMetadataAsValue(former->context, LLVMMDNodeInContext2(former->context, NULL, 0)));
    return load;
}

LLVMValueRef facet_group_size(struct facet_former *former, uint32_t dimension)
{
    if (former->group->required_group_size[0])
        return facet_group_number(former, former->group->required_group_size[dimension]);
    return facet_group_field(former, former->i32,
                             (uint32_t)offsetof(struct facet_host_group, group_size) + 4 * dimension);
}

static LLVMValueRef multiply_sizes(LLVMBuilderRef builder, LLVMValueRef left, LLVMValueRef right)
{
    LLVMValueRef product = LLVMBuildNUWMul(builder, left, right, "");

    if (LLVMIsAInstruction(product))
        LLVMSetNSW(product, 1);
    return product;
}

static LLVMValueRef global_size(struct facet_former *former, uint32_t dimension)
{
    if (dimension == 0)
        return facet_group_field(former, former->i32, (uint32_t)offsetof(struct facet_host_group, global_size_x));
    return multiply_sizes(
        former->entry,
        facet_group_field(former, former->i32, (uint32_t)offsetof(struct facet_host_group, grid) + 4 * dimension),
        facet_group_size(former, dimension));
}

LLVMValueRef facet_group_first(struct facet_former *former, uint32_t dimension)
{
    LLVMValueRef before =
        facet_group_field(former, former->i32, (uint32_t)offsetof(struct facet_host_group, group_id) + 4 * dimension);
    LLVMValueRef offset =
        facet_group_field(former, former->i32, (uint32_t)offsetof(struct facet_host_group, offset) + 4 * dimension);
    LLVMValueRef first = LLVMBuildNUWAdd(
        former->entry, multiply_sizes(former->entry, before, facet_group_size(former, dimension)), offset, "");

    LLVMSetNSW(first, 1);
    return first;
}

LLVMValueRef facet_group_call(struct facet_former *former, LLVMValueRef call)
{
    enum facet_call kind = facet_call_of(call);
    uint32_t dimension = 0;

    if (kind >= FACET_CALL_GROUP_ID && kind <= FACET_CALL_OFFSET)
        dimension = (uint32_t)LLVMConstIntGetZExtValue(LLVMGetOperand(call, 0));
    switch (kind) {
    case FACET_CALL_GLOBAL_SIZE:
        return global_size(former, dimension);
    case FACET_CALL_GROUP_ID:
        return facet_group_field(former, former->i32,
                                 (uint32_t)offsetof(struct facet_host_group, group_id) + 4 * dimension);
    case FACET_CALL_GROUP_SIZE:
        return facet_group_size(former, dimension);
    case FACET_CALL_GRID:
        return facet_group_field(former, former->i32,
                                 (uint32_t)offsetof(struct facet_host_group, grid) + 4 * dimension);
    case FACET_CALL_OFFSET:
        return facet_group_field(former, former->i32,
                                 (uint32_t)offsetof(struct facet_host_group, offset) + 4 * dimension);
    case FACET_CALL_DIMENSIONS:
        return facet_group_field(former, former->i32, (uint32_t)offsetof(struct facet_host_group, dimensions));
    case FACET_CALL_LOCAL_MEMORY:
        return facet_group_field(former, LLVMPointerTypeInContext(former->context, 0),
                                 (uint32_t)offsetof(struct facet_host_group, local));
    default:
        return NULL;
    }
}

static bool is_computed_once(const struct facet_former *former, LLVMValueRef value)
{
    return !LLVMIsAInstruction(value) || facet_map_get(&former->once, value);
}

/* Computes a value before all loops if it depends only on the arguments and the launch. */
static void compute_once(struct facet_former *former, LLVMValueRef instruction, bool entry)
{
    LLVMValueRef made = LLVMIsACallInst(instruction) ? facet_group_call(former, instruction) : NULL;
    uint32_t count = (uint32_t)LLVMGetNumOperands(instruction);

    if (!made) {
        if (!can_be_early(instruction) || (!entry && LLVMIsALoadInst(instruction)))
            return;
        for (uint32_t i = 0; i < count; i++)
            if (!is_computed_once(former, LLVMGetOperand(instruction, i)))
                return;
        made = LLVMInstructionClone(instruction);
        for (uint32_t i = 0; i < count; i++) {
            LLVMValueRef known = facet_map_get(&former->once, LLVMGetOperand(instruction, i));

            if (known)
                LLVMSetOperand(made, i, known);
        }
        LLVMInsertIntoBuilder(former->entry, made);
    }
    facet_map_put(&former->once, instruction, made);
}

static void find_computed_once(struct facet_former *former)
{
    for (uint32_t i = 0; i < LLVMCountParams(former->source); i++)
        facet_map_put(&former->once, LLVMGetParam(former->source, i), LLVMGetParam(former->run, i));
    for (uint32_t i = 0; i < former->graph.count; i++)
        for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[i].block); at;
             at = LLVMGetNextInstruction(at))
            compute_once(former, at, i == 0);
}

static void find_regions(struct facet_former *former)
{
    uint32_t count = former->graph.count;

    former->regions = facet_arena_take(former->arena, (count + 1) * sizeof(*former->regions));
    former->region_of = facet_arena_take(former->arena, count * sizeof(*former->region_of));
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef first = LLVMGetFirstInstruction(former->graph.blocks[i].block);

        if (i != 0 && facet_call_of(first) != FACET_CALL_BARRIER)
            continue;
        former->regions[former->region_count].block = i;
        former->region_of[i] = ++former->region_count;
    }
}

static void fill_region(struct facet_former *former, struct facet_region *region)
{
    uint32_t *stack = facet_arena_take(former->arena, (former->graph.count + 1) * sizeof(*stack)), depth = 1;

    region->contains = facet_arena_take(former->arena, former->graph.count);
    region->contains[region->block] = true;
    stack[0] = region->block;
    while (depth) {
        const struct facet_block *block = &former->graph.blocks[stack[--depth]];

        for (uint32_t s = 0; s < block->successor_count; s++) {
            uint32_t to = block->successors[s];

            if (region->contains[to] || (to && former->region_of[to]))
                continue;
            region->contains[to] = true;
            stack[depth++] = to;
        }
    }
}

LLVMValueRef facet_group_slot(struct facet_former *former, LLVMTypeRef type)
{
    return LLVMBuildAlloca(former->entry, type, "");
}

/* Reserves room in an item's frame and returns its offset. */
static uint32_t take_frame(struct facet_former *former, LLVMTypeRef type, uint32_t align)
{
    uint32_t at = (former->group->frame_bytes + align - 1) / align * align;

    former->group->frame_bytes = at + (uint32_t)LLVMABISizeOfType(former->layout, type);
    if (align > former->align)
        former->align = align;
    return at;
}

static struct facet_kept *keep_value(struct facet_former *former, LLVMValueRef value, uint32_t block)
{
    struct facet_kept *kept = facet_map_get(&former->kept, value);
    LLVMTypeRef type = LLVMTypeOf(value);

    if (kept)
        return kept;
    kept = facet_arena_take(former->arena, sizeof(*kept));
    *kept = (struct facet_kept){.value = value, .defined = block};
    kept->live = facet_arena_take(former->arena, former->region_count);
    kept->uniform = facet_shapes_get(&former->shapes, value).kind == FACET_SHAPE_UNIFORM;
    if (kept->uniform && former->outlined) {
        kept->current_at = facet_outline_reserve(former, type);
        kept->next_at = facet_outline_reserve(former, type);
    }
    if (!kept->uniform) {
        kept->frame = take_frame(former, type, LLVMABIAlignmentOfType(former->layout, type));
    }
    facet_map_put(&former->kept, value, kept);
    former->kept_list[former->kept_count++] = kept;
    return kept;
}

/* Whether there is a barrier between this divergent branch and the block where its paths join. */
static bool barrier_within(struct facet_former *former, uint32_t branch)
{
    const struct facet_graph *graph = &former->graph;
    bool *seen = facet_arena_take(former->arena, graph->count);
    uint32_t *stack = facet_arena_take(former->arena, (graph->count + 1) * sizeof(*stack)), depth = 1;

    stack[0] = branch;
    while (depth) {
        uint32_t at = stack[--depth];

        if (at && at != branch && former->region_of[at])
            return true;
        for (uint32_t s = 0; s < graph->blocks[at].successor_count; s++) {
            uint32_t to = graph->blocks[at].successors[s];

            if (seen[to] || to == graph->blocks[branch].post_dominator)
                continue;
            seen[to] = true;
            stack[depth++] = to;
        }
    }
    return false;
}

static void find_guarded(struct facet_former *former)
{
    for (uint32_t i = 0; i < former->graph.count && former->region_count > 1; i++)
        if (former->shapes.divergent[i] && barrier_within(former, i))
            former->guarded = true;
    former->wait_offset = (former->group->frame_bytes + 3) / 4 * 4;
    if (former->guarded)
        former->group->frame_bytes = former->wait_offset + 4;
}

/* Walks from a use back to the definition, and marks the regions on the way: there the value must be kept. */
static void keep_backwards(struct facet_former *former, LLVMValueRef value, uint32_t defined, uint32_t used,
                           bool at_end, uint32_t *seen, uint32_t mark, uint32_t *stack)
{
    uint32_t depth = 0;

    if (used == defined && at_end)
        return;
    if (seen[used] == mark)
        return;
    seen[used] = mark;
    stack[depth++] = used;
    while (depth) {
        uint32_t at = stack[--depth];
        const struct facet_block *block = &former->graph.blocks[at];

        if (at && former->region_of[at])
            keep_value(former, value, defined)->live[former->region_of[at] - 1] = true;
        for (uint32_t p = 0; p < block->predecessor_count; p++) {
            uint32_t from = block->predecessors[p];

            if (from == defined || seen[from] == mark)
                continue;
            seen[from] = mark;
            stack[depth++] = from;
        }
    }
}

static void find_kept_of(struct facet_former *former, LLVMValueRef value, uint32_t defined, uint32_t *seen,
                         uint32_t mark, uint32_t *stack)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        uint32_t used = facet_graph_find(&former->graph, LLVMGetInstructionParent(user));

        if (used == FACET_NO_BLOCK)
            continue;
        if (!LLVMIsAPHINode(user)) {
            if (used != defined)
                keep_backwards(former, value, defined, used, false, seen, mark, stack);
            continue;
        }
        for (uint32_t i = 0; i < LLVMCountIncoming(user); i++) {
            uint32_t from = facet_graph_find(&former->graph, LLVMGetIncomingBlock(user, i));

            if (LLVMGetIncomingValue(user, i) == value && from != FACET_NO_BLOCK)
                keep_backwards(former, value, defined, from, true, seen, mark, stack);
        }
    }
}

static void find_kept(struct facet_former *former)
{
    uint32_t all = 0, mark = 0;
    uint32_t *seen = facet_arena_take(former->arena, former->graph.count * sizeof(*seen));
    uint32_t *stack = facet_arena_take(former->arena, (former->graph.count + 1) * sizeof(*stack));

    for (uint32_t i = 0; i < former->graph.count; i++)
        for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[i].block); at;
             at = LLVMGetNextInstruction(at))
            all++;
    former->kept_list = facet_arena_take(former->arena, (all + 1) * sizeof(*former->kept_list));
    if (former->region_count == 1)
        return;
    for (uint32_t i = 0; i < former->graph.count; i++)
        for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[i].block); at;
             at = LLVMGetNextInstruction(at))
            if (!LLVMIsAAllocaInst(at) && !is_computed_once(former, at) && !facet_is_item_id(at))
                find_kept_of(former, at, i, seen, ++mark, stack);
}

static void reserve_private(struct facet_former *former, LLVMValueRef alloca)
{
    uint32_t at = take_frame(former, LLVMGetAllocatedType(alloca), LLVMGetAlignment(alloca));

    facet_map_put(&former->private, alloca, (void *)((uintptr_t)at + 1));
}

static uint64_t private_bytes(const struct facet_former *former)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < former->place_count; i++)
        if (LLVMIsAAllocaInst(former->places[i]))
            bytes += LLVMABISizeOfType(former->layout, LLVMGetAllocatedType(former->places[i]));
    return bytes;
}

void facet_group_counters(struct facet_former *former)
{
    for (uint32_t i = 0; i < 4; i++)
        former->counters[i] = facet_group_slot(former, former->i32);
    former->reached = facet_group_slot(former, former->i32);
}

static void find_places(struct facet_former *former)
{
    for (uint32_t round = 0; round < 2; round++) {
        former->place_count = 0;
        for (uint32_t i = 0; i < former->graph.count; i++)
            for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[i].block); at;
                 at = LLVMGetNextInstruction(at)) {
                if (!facet_is_item_id(at) && !LLVMIsAAllocaInst(at))
                    continue;
                if (round == 1)
                    former->places[former->place_count] = at;
                former->place_count++;
            }
        if (round == 0)
            former->places = facet_arena_take(former->arena, (former->place_count + 1) * sizeof(LLVMValueRef));
    }
}

static void make_run(struct facet_former *former)
{
    LLVMBasicBlockRef first = LLVMAppendBasicBlockInContext(former->context, former->run, "entry"), end;

    LLVMPositionBuilderAtEnd(former->entry, first);
    find_regions(former);
    former->outlined = former->region_count > INLINE_REGIONS_MAX;
    if (former->outlined)
        facet_outline_start(former);
    else
        facet_group_counters(former);
    find_computed_once(former);
    find_places(former);
    for (uint32_t i = 0; i < former->region_count; i++)
        fill_region(former, &former->regions[i]);
    find_kept(former);
    find_guarded(former);
    /* Private memory is reserved first: the frame's size must be known before code that uses it is made. */
    bool alone = former->region_count == 1 && !former->group->frames; /* no item waits at a barrier */

    bool frame = !alone || private_bytes(former) > STACK_MAX_BYTES;

    for (uint32_t i = 0; frame && i < former->place_count; i++)
        if (LLVMIsAAllocaInst(former->places[i]))
            reserve_private(former, former->places[i]);
    former->group->frame_bytes = (former->group->frame_bytes + former->align - 1) / former->align * former->align;
    if (alone) {
        former->group->fixed_bytes = former->group->frame_bytes;
        former->group->frame_bytes = 0;
    }
    for (uint32_t i = 0; i < former->region_count; i++) {
        former->regions[i].start = LLVMAppendBasicBlockInContext(former->context, former->run, "region");
        former->regions[i].after = LLVMAppendBasicBlockInContext(former->context, former->run, "after");
    }
    end = LLVMAppendBasicBlockInContext(former->context, former->run, "end");
    for (uint32_t i = 0; i < former->region_count; i++)
        facet_group_region(former, &former->regions[i], end);
    LLVMPositionBuilderAtEnd(former->builder, end);
    LLVMBuildRetVoid(former->builder);
    if (former->outlined)
        facet_outline_finish(former);
    LLVMBuildBr(former->entry, former->regions[0].start);
}

LLVMValueRef facet_group_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                              struct facet_group_layout *group, const char *name)
{
    struct facet_former former = {.arena = arena,
                                  .module = LLVMGetGlobalParent(function),
                                  .layout = layout,
                                  .source = function,
                                  .group = group,
                                  .align = 64,
                                  .once = {.arena = arena},
                                  .kept = {.arena = arena},
                                  .shared = {.arena = arena},
                                  .private = {.arena = arena}};

    former.context = LLVMGetModuleContext(former.module);
    former.i32 = LLVMInt32TypeInContext(former.context);
    former.i64 = LLVMInt64TypeInContext(former.context);
    former.builder = LLVMCreateBuilderInContext(former.context);
    former.entry = LLVMCreateBuilderInContext(former.context);
    former.run = LLVMAddFunction(former.module, name, LLVMGlobalGetValueType(function));
    group->frame_bytes = group->fixed_bytes = 0;
    split_at_barriers(&former);
    facet_graph_make(&former.graph, arena, function);
    facet_shapes_make(&former.shapes, arena, &former.graph, layout, false, 0);
    /* Barriers of our own would hide missing barriers of the source from a checker. */
    if (!group->after_barrier && facet_cuts_make(arena, former.builder, &former.graph, &former.shapes)) {
        split_at_barriers(&former);
        facet_graph_make(&former.graph, arena, function);
        facet_shapes_make(&former.shapes, arena, &former.graph, layout, false, 0);
    }
    make_run(&former);
    LLVMDisposeBuilder(former.builder);
    LLVMDisposeBuilder(former.entry);
    LLVMDeleteFunction(function);
    return former.run;
}

/* The first instruction of the next piece; NULL: the block is not too large. */
static LLVMValueRef end_of_piece(LLVMBasicBlockRef block)
{
    LLVMValueRef at = LLVMGetFirstInstruction(block), end = NULL;
    uint32_t count = 0;

    for (; at && count < LARGE_BLOCK_INSTRUCTIONS; at = LLVMGetNextInstruction(at)) {
        if (LLVMIsAAllocaInst(at) || LLVMIsAPHINode(at)) /* instructions that must stay at the beginning */
            count = 0, end = NULL;
        else if (++count == PIECE_INSTRUCTIONS)
            end = LLVMGetNextInstruction(at);
    }
    return at ? end : NULL;
}

void facet_group_split(LLVMValueRef run)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(run));
    LLVMTypeRef i8 = LLVMInt8TypeInContext(context), i32 = LLVMInt32TypeInContext(context);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    LLVMValueRef offset = LLVMConstInt(i32, offsetof(struct facet_host_group, group_size), 0), instruction, size;
    LLVMBasicBlockRef never = NULL, tail;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(run); block; block = LLVMGetNextBasicBlock(block))
        while ((instruction = end_of_piece(block))) {
            if (!never) {
                never = LLVMAppendBasicBlockInContext(context, run, "never");
                LLVMPositionBuilderAtEnd(builder, never);
                LLVMBuildRetVoid(builder);
            }
            tail = split_before(builder, instruction);
            size = LLVMBuildGEP2(builder, i8, LLVMGetParam(run, 1), &offset, 1, "");
            size = LLVMBuildLoad2(builder, i32, size, "");
            LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntEQ, size, LLVMConstNull(i32), ""), never, tail);
        }
    LLVMDisposeBuilder(builder);
}
