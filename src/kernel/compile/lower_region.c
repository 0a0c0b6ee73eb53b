/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One region of a work-group: the loops over its items, around a clone of an item's code from one barrier to the next.
 *
 * Owns: the clone, and moving kept values between slots and frames. Never: decides which values are kept; lower_group.c
 * does.
 */
#include "lower_group.h"

#include <facet/host_kernel.h>

/* The state while one region is made. */
struct cloning {
    struct facet_former *former;
    struct facet_region *region;
    struct facet_map values;
    LLVMBasicBlockRef *blocks;   /* the clone of each source block of the region */
    LLVMBasicBlockRef *arrivals; /* for each region whose barrier is reached, the block that arrives there */
    LLVMBasicBlockRef latch;
    LLVMValueRef frame, ids[3];
};

static LLVMValueRef frame_place(struct facet_former *former, LLVMValueRef frame, uint32_t offset)
{
    LLVMValueRef place = LLVMConstInt(former->i64, offset, 0);

    return LLVMBuildGEP2(former->builder, LLVMInt8TypeInContext(former->context), frame, &place, 1, "");
}

static LLVMValueRef operand_of(struct cloning *cloning, LLVMValueRef value)
{
    struct facet_former *former = cloning->former;
    LLVMValueRef found = facet_outline_once(former, value);
    struct facet_kept *kept;

    if (found)
        return found;
    kept = facet_map_get(&former->kept, value);
    if (kept)
        return LLVMBuildLoad2(former->builder, LLVMTypeOf(value), facet_outline_slot(former, kept), "");
    found = facet_map_get(&cloning->values, value);
    return found ? found : value;
}

/* The address of private memory: in the item's frame if there are barriers or much memory; else on the stack of the run
 * function, in one place that all items use one after the other. */
static LLVMValueRef place_alloca(struct cloning *cloning, LLVMValueRef alloca)
{
    struct facet_former *former = cloning->former;
    uintptr_t known = (uintptr_t)facet_map_get(&former->private, alloca);
    LLVMValueRef made;

    if (known)
        return frame_place(former, cloning->frame, (uint32_t)(known - 1));
    made = facet_group_slot(former, LLVMGetAllocatedType(alloca));
    LLVMSetAlignment(made, LLVMGetAlignment(alloca));
    return made;
}

static void clone_into(struct cloning *cloning, LLVMValueRef from)
{
    struct facet_former *former = cloning->former;
    uint32_t count = (uint32_t)LLVMGetNumOperands(from);
    LLVMValueRef *operands = facet_arena_take(former->arena, (count + 1) * sizeof(LLVMValueRef)), made;
    struct facet_kept *kept = facet_map_get(&former->kept, from);
    bool local = LLVMIsAAtomicRMWInst(from) || LLVMIsAAtomicCmpXchgInst(from);

    for (uint32_t i = 0; i < count; i++)
        operands[i] = operand_of(cloning, LLVMGetOperand(from, i));
    if (local) {
        made = facet_emit_atomic(former->builder, from, operands);
    } else {
        made = LLVMInstructionClone(from);
        for (uint32_t i = 0; i < count; i++)
            LLVMSetOperand(made, i, operands[i]);
        LLVMInsertIntoBuilder(former->builder, made);
    }
    facet_map_put(&cloning->values, from, made);
    if (kept)
        LLVMBuildStore(former->builder, made, facet_outline_slot(former, kept));
}

/*
 * Notes that the item continues in `region`; region_count: the item has ended. The lowest region that any item waits
 * for runs next.
 */
static void make_wait(struct cloning *cloning, LLVMValueRef region)
{
    struct facet_former *former = cloning->former;
    LLVMValueRef known;

    if (former->guarded) {
        LLVMBuildStore(former->builder, region, frame_place(former, cloning->frame, former->wait_offset));
        known = LLVMBuildLoad2(former->builder, former->i32, former->reached, "");
        region = LLVMBuildSelect(former->builder, LLVMBuildICmp(former->builder, LLVMIntULT, region, known, ""), region,
                                 known, "");
    }
    LLVMBuildStore(former->builder, region, former->reached);
    LLVMBuildBr(former->builder, cloning->latch);
}

/* Skips items that do not wait for the region: the code that is made next runs only for items that do. */
static void make_guard(struct cloning *cloning)
{
    struct facet_former *former = cloning->former;
    uint32_t index = (uint32_t)(cloning->region - former->regions);
    LLVMBasicBlockRef in, over;
    LLVMValueRef waits;

    if (!former->guarded || index == 0)
        return;
    in = LLVMAppendBasicBlockInContext(former->context, former->run, "");
    over = LLVMAppendBasicBlockInContext(former->context, former->run, "");
    waits = LLVMBuildLoad2(former->builder, former->i32, frame_place(former, cloning->frame, former->wait_offset), "");
    LLVMBuildCondBr(former->builder,
                    LLVMBuildICmp(former->builder, LLVMIntEQ, waits, facet_group_number(former, index), ""), in, over);
    LLVMPositionBuilderAtEnd(former->builder, over);
    make_wait(cloning, waits);
    LLVMPositionBuilderAtEnd(former->builder, in);
}

static void clone_terminator(struct cloning *cloning, LLVMValueRef from)
{
    struct facet_former *former = cloning->former;
    LLVMValueRef made;
    uint32_t count = LLVMGetNumSuccessors(from);

    if (LLVMGetInstructionOpcode(from) == LLVMRet || LLVMGetInstructionOpcode(from) == LLVMUnreachable) {
        make_wait(cloning, facet_group_number(former, former->region_count));
        return;
    }
    made = LLVMInstructionClone(from);
    if (count > 1) {
        LLVMValueRef condition = operand_of(cloning, LLVMGetOperand(from, 0));

        LLVMSetOperand(made, 0, condition);
    }
    LLVMInsertIntoBuilder(former->builder, made);
    for (uint32_t s = 0; s < count; s++) {
        uint32_t to = facet_graph_find(&former->graph, LLVMGetSuccessor(from, s));

        LLVMSetSuccessor(made, s,
                         former->region_of[to] ? cloning->arrivals[former->region_of[to] - 1] : cloning->blocks[to]);
    }
}

static void store_kept_phis(struct cloning *cloning, uint32_t index)
{
    struct facet_former *former = cloning->former;

    for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[index].block); at && LLVMIsAPHINode(at);
         at = LLVMGetNextInstruction(at)) {
        struct facet_kept *kept = facet_map_get(&former->kept, at);

        if (kept)
            LLVMBuildStore(former->builder, facet_map_get(&cloning->values, at), facet_outline_slot(former, kept));
    }
}

static void clone_block(struct cloning *cloning, uint32_t index)
{
    struct facet_former *former = cloning->former;
    LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[index].block);

    LLVMPositionBuilderAtEnd(former->builder, cloning->blocks[index]);
    for (; LLVMIsAPHINode(at); at = LLVMGetNextInstruction(at))
        facet_map_put(&cloning->values, at, LLVMBuildPhi(former->builder, LLVMTypeOf(at), ""));
    store_kept_phis(cloning, index);
    for (; !LLVMIsATerminatorInst(at); at = LLVMGetNextInstruction(at)) {
        enum facet_call call = facet_call_of(at);

        if (call == FACET_CALL_BARRIER || (facet_is_ignored(at) && !facet_joins_is_mark(at)) ||
            facet_map_get(&former->once, at) || LLVMIsAAllocaInst(at) || facet_is_item_id(at))
            continue;
        clone_into(cloning, at);
    }
    clone_terminator(cloning, at);
}

static void finish_phis(struct cloning *cloning, uint32_t index)
{
    struct facet_former *former = cloning->former;

    for (LLVMValueRef at = LLVMGetFirstInstruction(former->graph.blocks[index].block); LLVMIsAPHINode(at);
         at = LLVMGetNextInstruction(at))
        for (uint32_t i = 0; i < LLVMCountIncoming(at); i++) {
            uint32_t from = facet_graph_find(&former->graph, LLVMGetIncomingBlock(at, i));
            LLVMValueRef value;

            if (from == FACET_NO_BLOCK || !cloning->region->contains[from])
                continue;
            LLVMPositionBuilderBefore(former->builder, LLVMGetBasicBlockTerminator(cloning->blocks[from]));
            value = operand_of(cloning, LLVMGetIncomingValue(at, i));
            LLVMAddIncoming(facet_map_get(&cloning->values, at), &value, &cloning->blocks[from], 1);
        }
}

/* Makes the block in which an item arrives at a barrier: it stores the values that are live behind the barrier and may
 * have changed. */
static void make_arrival(struct cloning *cloning, uint32_t to)
{
    struct facet_former *former = cloning->former;

    cloning->arrivals[to] = LLVMAppendBasicBlockInContext(former->context, former->run, "");
    LLVMPositionBuilderAtEnd(former->builder, cloning->arrivals[to]);
    for (uint32_t i = 0; i < former->kept_count; i++) {
        struct facet_kept *kept = former->kept_list[i];
        LLVMValueRef value;

        if (!kept->live[to] || !cloning->region->contains[kept->defined])
            continue;
        value = LLVMBuildLoad2(former->builder, LLVMTypeOf(kept->value), facet_outline_slot(former, kept), "");
        if (kept->uniform) {
            LLVMBuildStore(former->builder, value, facet_outline_uniform(former, kept, true));
            continue;
        }
        LLVMBuildStore(former->builder, value, frame_place(former, cloning->frame, kept->frame));
    }
    make_wait(cloning, facet_group_number(former, to));
}

/* The start of an item: its ids, its frame, and its values from earlier regions. */
static void make_start(struct cloning *cloning, LLVMBasicBlockRef body)
{
    struct facet_former *former = cloning->former;
    LLVMBuilderRef builder = former->builder;
    LLVMValueRef offset;

    LLVMPositionBuilderAtEnd(builder, body);
    for (uint32_t d = 0; d < 3; d++)
        cloning->ids[d] = LLVMBuildLoad2(builder, former->i32, former->counters[d], "");
    offset = LLVMBuildZExt(builder, LLVMBuildLoad2(builder, former->i32, former->counters[3], ""), former->i64, "");
    offset = LLVMBuildMul(builder, offset, LLVMConstInt(former->i64, former->group->frame_bytes, 0), "");
    cloning->frame = LLVMBuildGEP2(builder, LLVMInt8TypeInContext(former->context),
                                   facet_group_field(former, LLVMPointerTypeInContext(former->context, 0),
                                                     (uint32_t)offsetof(struct facet_host_group, scratch)),
                                   &offset, 1, "frame");
    make_guard(cloning);
    for (uint32_t i = 0; i < former->kept_count; i++) {
        struct facet_kept *kept = former->kept_list[i];
        LLVMValueRef from;

        if (!kept->live[cloning->region - former->regions])
            continue;
        from = kept->uniform ? facet_outline_uniform(former, kept, false)
                             : frame_place(former, cloning->frame, kept->frame);
        LLVMBuildStore(builder, LLVMBuildLoad2(builder, LLVMTypeOf(kept->value), from, ""),
                       facet_outline_slot(former, kept));
    }
}

static LLVMValueRef place_of(struct cloning *cloning, LLVMValueRef call)
{
    struct facet_former *former = cloning->former;
    uint32_t dimension = (uint32_t)LLVMConstIntGetZExtValue(LLVMGetOperand(call, 0));
    LLVMValueRef id = cloning->ids[dimension];

    if (facet_call_of(call) == FACET_CALL_LOCAL_ID)
        return id;
    id = LLVMBuildNUWAdd(former->builder, facet_group_first(former, dimension), id, "");
    LLVMSetNSW(id, 1);
    return id;
}

/* Gives ids and the addresses of private memory their values, which they have from the start of the item on. */
static void make_places(struct cloning *cloning)
{
    struct facet_former *former = cloning->former;

    for (uint32_t i = 0; i < former->place_count; i++) {
        LLVMValueRef at = former->places[i];

        facet_map_put(&cloning->values, at, facet_is_item_id(at) ? place_of(cloning, at) : place_alloca(cloning, at));
    }
}

static void step_counter(struct facet_former *former, LLVMBasicBlockRef at, uint32_t counter, uint32_t by,
                         LLVMBasicBlockRef again, LLVMBasicBlockRef on)
{
    LLVMBuilderRef builder = former->builder;
    LLVMValueRef value, chunk;

    LLVMPositionBuilderAtEnd(builder, at);
    value = LLVMBuildLoad2(builder, former->i32, former->counters[counter], "");
    value = LLVMBuildNUWAdd(builder, value, facet_group_number(former, by), "");
    LLVMSetNSW(value, 1);
    LLVMBuildStore(builder, value, former->counters[counter]);
    if (counter == 0) {
        chunk = LLVMBuildLoad2(builder, former->i32, former->counters[3], "");
        LLVMBuildStore(builder, LLVMBuildNUWAdd(builder, chunk, facet_group_number(former, 1), ""),
                       former->counters[3]);
    }
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntULT, value, facet_group_size(former, counter), ""), again,
                    on);
}

/* Makes the loops over z, y and x around the body. Each runs at least once. */
static LLVMBasicBlockRef make_loops(struct facet_former *former, struct facet_region *region,
                                    LLVMBasicBlockRef *ret_latch)
{
    LLVMBasicBlockRef blocks[6]; /* start of the loop over y, start of that over x, the body; latches of x, y, z */
    LLVMBuilderRef builder = former->builder;

    for (uint32_t i = 0; i < 6; i++)
        blocks[i] = LLVMAppendBasicBlockInContext(former->context, former->run, "");
    LLVMPositionBuilderAtEnd(builder, region->start);
    if (former->group->after_barrier && region != former->regions)
        LLVMBuildCall2(builder, LLVMGlobalGetValueType(former->group->after_barrier), former->group->after_barrier,
                       (LLVMValueRef[]){LLVMGetParam(former->run, 1)}, 1, "");
    LLVMBuildStore(builder, facet_group_number(former, 0), former->counters[2]);
    LLVMBuildStore(builder, facet_group_number(former, 0), former->counters[3]);
    LLVMBuildStore(builder, facet_group_number(former, former->region_count), former->reached);
    LLVMBuildBr(builder, blocks[0]);
    for (uint32_t i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(builder, blocks[i]);
        LLVMBuildStore(builder, facet_group_number(former, 0), former->counters[1 - i]);
        LLVMBuildBr(builder, blocks[i + 1]);
    }
    step_counter(former, blocks[3], 0, former->group->width, blocks[2], blocks[4]);
    step_counter(former, blocks[4], 1, 1, blocks[1], blocks[5]);
    step_counter(former, blocks[5], 2, 1, blocks[0], region->after);
    *ret_latch = blocks[3];
    return blocks[2];
}

/* When all items have run, uniform values get their new values. */
static void update_uniform_values(struct facet_former *former, struct facet_region *region)
{
    LLVMBuilderRef builder = former->builder;

    LLVMPositionBuilderAtEnd(builder, region->after);
    for (uint32_t i = 0; i < former->kept_count; i++) {
        struct facet_kept *kept = former->kept_list[i];
        LLVMValueRef value;

        if (!kept->uniform || !region->contains[kept->defined])
            continue;
        value = LLVMBuildLoad2(builder, LLVMTypeOf(kept->value), facet_outline_uniform(former, kept, true), "");
        LLVMBuildStore(builder, value, facet_outline_uniform(former, kept, false));
    }
}

/* Branches to the region that was reached. */
static void choose_next(struct facet_former *former, const bool *reaches, LLVMValueRef reached, LLVMBasicBlockRef end)
{
    LLVMBuilderRef builder = former->builder;
    LLVMValueRef choice;
    uint32_t last = FACET_NO_BLOCK, ways = 0;

    for (uint32_t i = 0; i <= former->region_count; i++)
        if (reaches[i] || (former->guarded && i)) {
            last = i;
            ways++;
        }
    if (ways <= 1) {
        LLVMBuildBr(builder, ways && last < former->region_count ? former->regions[last].start : end);
        return;
    }
    choice = LLVMBuildSwitch(builder, reached, last == former->region_count ? end : former->regions[last].start, ways);
    for (uint32_t i = 0; i < last; i++)
        if (reaches[i] || (former->guarded && i))
            LLVMAddCase(choice, facet_group_number(former, i), former->regions[i].start);
}

static void find_reached(const struct facet_former *former, const struct facet_region *region, bool *reaches)
{
    for (uint32_t i = 0; i < former->graph.count; i++) {
        const struct facet_block *block = &former->graph.blocks[i];

        if (!region->contains[i])
            continue;
        reaches[former->region_count] |= block->successor_count == 0;
        for (uint32_t s = 0; s < block->successor_count; s++)
            if (former->region_of[block->successors[s]])
                reaches[former->region_of[block->successors[s]] - 1] = true;
    }
}

static void make_items(struct facet_former *former, struct facet_region *region, const bool *reaches)
{
    struct cloning cloning = {.former = former, .region = region, .values = {.arena = former->arena}};
    LLVMBasicBlockRef body = make_loops(former, region, &cloning.latch);
    uint32_t count = former->graph.count;

    cloning.blocks = facet_arena_take(former->arena, count * sizeof(*cloning.blocks));
    cloning.arrivals = facet_arena_take(former->arena, former->region_count * sizeof(*cloning.arrivals));
    make_start(&cloning, body);
    make_places(&cloning);
    for (uint32_t i = 0; i < count; i++)
        if (region->contains[i])
            cloning.blocks[i] = LLVMAppendBasicBlockInContext(former->context, former->run, "");
    LLVMBuildBr(former->builder, cloning.blocks[region->block]);
    for (uint32_t i = 0; i < former->region_count; i++)
        if (reaches[i])
            make_arrival(&cloning, i);
    for (uint32_t i = 0; i < count; i++)
        if (region->contains[i])
            clone_block(&cloning, i);
    for (uint32_t i = 0; i < count; i++)
        if (region->contains[i])
            finish_phis(&cloning, i);
    update_uniform_values(former, region);
}

void facet_group_region(struct facet_former *former, struct facet_region *region, LLVMBasicBlockRef end)
{
    bool *reaches = facet_arena_take(former->arena, former->region_count + 1);
    struct facet_outline outline;
    LLVMValueRef reached;

    find_reached(former, region, reaches);
    if (former->outlined)
        facet_outline_begin(former, region, &outline);
    make_items(former, region, reaches);
    if (former->outlined)
        reached = facet_outline_end(former, region);
    else
        reached = LLVMBuildLoad2(former->builder, former->i32, former->reached, "");
    choose_next(former, reaches, reached, end);
}
