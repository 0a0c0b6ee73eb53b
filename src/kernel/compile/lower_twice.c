/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: code without masks for when all lanes are active.
 *
 * Owns: the filling of a block; and for code under a mask the choice at run time between two forms of it: one for when
 * all lanes are active, one under the mask. Never: makes the instructions in them.
 *
 * Most chunks of a kernel that begins with `if (x < width)` are inside, in most rounds of a loop that each lane leaves
 * by itself all are there, and groups whose size is no multiple of a chunk lack items in their last one only. Without a
 * mask an access is part of the instruction that computes, neighbours need no mask to be found, and structs and scaled
 * indices are loaded at once.
 */
#include "lower_lanes.h"

enum {
    ACCESSES_MIN = 2, /* accesses to memory, where masks are cheap: with fewer the test costs as much as it saves */
    INSTRUCTIONS_MAX = 200, /* instructions: they are made twice */
    INSTRUCTIONS_PER_ACCESS_MAX =
        20, /* of them to each access, where neither an if nor a loop says that lanes may be missing */
};

/* Instructions from `first` to before `end`, the next barrier or the end of the block. */
struct part {
    LLVMValueRef first, end;
    LLVMValueRef behind; /* one of them, to be made once, behind both forms; or NULL */
};

/* A comparison for the block's end alone: a mask costs more to hand on than to make. */
static LLVMValueRef made_behind(LLVMBasicBlockRef block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block), condition;

    if (LLVMGetInstructionOpcode(end) != LLVMBr || !LLVMIsConditional(end))
        return NULL;
    condition = LLVMGetCondition(end);
    return LLVMIsAICmpInst(condition) && LLVMGetInstructionParent(condition) == block &&
                   !LLVMGetNextUse(LLVMGetFirstUse(condition))
               ? condition
               : NULL;
}

static struct part part_from(LLVMValueRef first)
{
    LLVMValueRef behind = made_behind(LLVMGetInstructionParent(first));
    struct part part = {.first = first, .end = first};

    for (; !LLVMIsATerminatorInst(part.end) && facet_call_of(part.end) != FACET_CALL_BARRIER;
         part.end = LLVMGetNextInstruction(part.end))
        if (part.end == behind)
            part.behind = behind;
    if (!LLVMIsATerminatorInst(part.end))
        part.behind = NULL;
    return part;
}

/* Whether it comes first, of two in a block. */
static bool is_before(LLVMValueRef end, LLVMValueRef user)
{
    while (user && user != end)
        user = LLVMGetPreviousInstruction(user);
    return user;
}

/* Behind the part, in the block's next round, or for whether there is one. */
static bool used_elsewhere(LLVMValueRef value, const struct part *part)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);

        if (LLVMGetInstructionParent(user) != LLVMGetInstructionParent(value) || LLVMIsAPHINode(user) ||
            LLVMIsATerminatorInst(user) || user == part->behind ||
            (!LLVMIsATerminatorInst(part->end) && is_before(part->end, user)))
            return true;
    }
    return false;
}

/* Of one that goes lane by lane, or wherever a table is looked up, nothing is saved. */
static bool is_access(const struct facet_lanes *lanes, LLVMValueRef at)
{
    bool load = LLVMIsALoadInst(at) != NULL;

    if ((!load && !LLVMIsAStoreInst(at)) || LLVMGetVolatile(at))
        return false;
    LLVMValueRef pointer = LLVMGetOperand(at, load ? 0 : 1), base = pointer;

    while (LLVMIsAGetElementPtrInst(base))
        base = LLVMGetOperand(base, 0);
    return !facet_private_of(pointer) && !facet_lanes_uniform(lanes, pointer) &&
           !(LLVMIsAGlobalVariable(base) && LLVMIsGlobalConstant(base));
}

/* All of what an if does. */
static bool is_then(const struct facet_lanes *lanes, uint32_t index)
{
    const struct facet_block *block = &lanes->graph.blocks[index];

    return lanes->shapes.divergent[block->dominator] &&
           facet_graph_header(&lanes->graph, block->dominator) == FACET_NO_BLOCK &&
           facet_graph_then(&lanes->graph, block->dominator) == index && block->successor_count == 1 &&
           block->successors[0] > index;
}

/* All of what a loop does that lanes leave one by one: in most rounds all are there. */
static bool is_loop(const struct facet_lanes *lanes, uint32_t index)
{
    return lanes->registers < FACET_LANES_MAX && lanes->shapes.divergent[index] &&
           facet_graph_header(&lanes->graph, index) == index;
}

/*
 * Code that all items run, in a group whose last chunk may be partial; or code that all items inside an if run, as in a
 * loop there.
 */
static bool is_everyones(const struct facet_lanes *lanes, uint32_t index)
{
    return index == 0 || lanes->masks[index] == lanes->masks[lanes->graph.blocks[index].dominator];
}

/* How many instructions per access may be duplicated, where the block's mask seldom excludes a lane; or 0. */
static uint32_t most_instructions(const struct facet_lanes *lanes, uint32_t index)
{
    if (!lanes->masks[index])
        return 0;
    if (is_everyones(lanes, index))
        return INSTRUCTIONS_PER_ACCESS_MAX;
    return is_loop(lanes, index) || is_then(lanes, index) ? INSTRUCTIONS_MAX : 0;
}

static bool pays_off(const struct facet_lanes *lanes, const struct part *part, uint32_t max)
{
    uint32_t accesses = 0, all = 0;

    for (LLVMValueRef at = part->first; at != part->end; at = LLVMGetNextInstruction(at)) {
        LLVMOpcode opcode = LLVMGetInstructionOpcode(at);

        if (opcode == LLVMAtomicRMW || opcode == LLVMAtomicCmpXchg || opcode == LLVMFence || opcode == LLVMAlloca ||
            (facet_shapes_get(&lanes->shapes, at).rough && used_elsewhere(at, part)))
            return false;
        accesses += is_access(lanes, at);
        all++;
    }
    return accesses >= (lanes->registers < FACET_LANES_MAX ? 1 : ACCESSES_MIN) && all <= INSTRUCTIONS_MAX &&
           all <= max * accesses;
}

/* The values of one instruction of the part in one of its two forms. */
struct form {
    LLVMValueRef scalar, vector;
};

/* Puts the part's values into `forms` and forgets them, so that they can be made again. */
static LLVMBasicBlockRef take_forms(struct facet_lanes *lanes, const struct part *part, struct form *forms)
{
    for (LLVMValueRef at = part->first; at != part->end; at = LLVMGetNextInstruction(at), forms++) {
        if (LLVMIsAPHINode(at)) /* made before */
            continue;
        *forms = (struct form){facet_map_get(&lanes->scalars, at), facet_map_get(&lanes->vectors, at)};
        if (forms->scalar)
            facet_map_put(&lanes->scalars, at, NULL);
        if (forms->vector)
            facet_map_put(&lanes->vectors, at, NULL);
    }
    return LLVMGetInsertBlock(lanes->builder);
}

static void join_values(struct facet_lanes *lanes, struct facet_map *map, LLVMValueRef value, LLVMValueRef *made,
                        LLVMBasicBlockRef *ends)
{
    LLVMValueRef phi;

    if (!made[0] || !made[1]) /* the vector of a scalar, made where it was requested: so it is made again */
        return;
    phi = LLVMBuildPhi(lanes->builder, LLVMTypeOf(made[0]), "");
    LLVMAddIncoming(phi, made, ends, 2);
    facet_map_put(map, value, phi);
}

static void fill_part(struct facet_lanes *lanes, const struct part *part, LLVMValueRef but)
{
    for (LLVMValueRef at = part->first; at != part->end && !lanes->refusal; at = LLVMGetNextInstruction(at))
        if (!LLVMIsAPHINode(at) && at != but)
            facet_lanes_instruction(lanes, at);
}

/*
 * Code behind an if or a loop sees only the values it uses. In other blocks the analysis that follows an address back
 * to its operands, to see whether lanes are neighbours, may start anywhere.
 */
static void fill_twice(struct facet_lanes *lanes, const struct part *part)
{
    bool open = is_everyones(lanes, lanes->block);
    LLVMValueRef mask = lanes->masks[lanes->block];
    LLVMBasicBlockRef blocks[3], ends[2];
    struct form *forms[2];

    for (uint32_t i = 0; i < 2; i++)
        forms[i] = facet_arena_take(lanes->arena, INSTRUCTIONS_MAX * sizeof(**forms));
    facet_lanes_fork(lanes, facet_lanes_all(lanes, mask), blocks);
    for (uint32_t i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(lanes->builder, blocks[i]);
        lanes->masks[lanes->block] = i ? mask : NULL;
        fill_part(lanes, part, part->behind);
        ends[i] = take_forms(lanes, part, forms[i]);
        LLVMBuildBr(lanes->builder, blocks[2]);
    }
    LLVMPositionBuilderAtEnd(lanes->builder, blocks[2]);
    for (LLVMValueRef at = part->first; at != part->end; at = LLVMGetNextInstruction(at)) {
        struct form whole = *forms[0]++, masked = *forms[1]++;

        if (!open && !used_elsewhere(at, part))
            continue;
        join_values(lanes, &lanes->scalars, at, (LLVMValueRef[]){whole.scalar, masked.scalar}, ends);
        join_values(lanes, &lanes->vectors, at, (LLVMValueRef[]){whole.vector, masked.vector}, ends);
    }
    if (part->behind)
        facet_lanes_instruction(lanes, part->behind);
}

void facet_lanes_fill(struct facet_lanes *lanes)
{
    uint32_t max = most_instructions(lanes, lanes->block);
    LLVMValueRef at = LLVMGetFirstInstruction(lanes->graph.blocks[lanes->block].block);

    while (at && !lanes->refusal) {
        struct part part = part_from(at);

        if (max > 0 && pays_off(lanes, &part, max))
            fill_twice(lanes, &part);
        else
            fill_part(lanes, &part, NULL);
        at = LLVMIsATerminatorInst(part.end) ? NULL : LLVMGetNextInstruction(part.end);
        if (at && !lanes->refusal)
            facet_lanes_instruction(lanes, part.end);
    }
}
