/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: code without masks for the case that all lanes are active.
 *
 * Owns: filling a block; for code under a mask, the choice at run time between two forms of it: one without a mask, for
 * when all lanes are active, one under the mask. Never: makes an instruction's vector form; lower_lane.c and
 * lower_memory.c do.
 *
 * All lanes are active in most chunks of a kernel that begins with `if (x < width)`, in most rounds of a loop that
 * lanes leave one by one, and in all chunks except the last of a group whose size is no multiple of a chunk. Without a
 * mask, an access can be part of the instruction that computes, neighbours need no mask to be found, and structs and
 * scaled indices are loaded at once.
 */
#include "lower_lanes.h"

enum {
    ACCESSES_MIN = 2,                 /* least accesses on AVX-512, where masks are cheap and fewer would not pay */
    INSTRUCTIONS_MAX = 200,           /* the most instructions of a part, since they are made twice */
    INSTRUCTIONS_PER_ACCESS_MAX = 20, /* in code that no if or loop masks */
};

/* Instructions from `first` to before `end`, the next barrier or the end of the block. */
struct part {
    LLVMValueRef first, end;
    LLVMValueRef behind; /* an instruction of the part that is made once, behind both forms; or NULL */
};

/* The comparison that only the block's branch uses; NULL: none. It is made behind both forms, since passing a mask on
 * costs more than making it. */
static LLVMValueRef comparison_made_behind(LLVMBasicBlockRef block)
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

static struct part find_part(LLVMValueRef first)
{
    LLVMValueRef behind = comparison_made_behind(LLVMGetInstructionParent(first));
    struct part part = {.first = first, .end = first};

    for (; !LLVMIsATerminatorInst(part.end) && facet_call_of(part.end) != FACET_CALL_BARRIER;
         part.end = LLVMGetNextInstruction(part.end))
        if (part.end == behind)
            part.behind = behind;
    if (!LLVMIsATerminatorInst(part.end))
        part.behind = NULL;
    return part;
}

/* Whether `end` comes before `user` in their block. */
static bool is_before(LLVMValueRef end, LLVMValueRef user)
{
    while (user && user != end)
        user = LLVMGetPreviousInstruction(user);
    return user;
}

/* Whether the value is used outside the part: behind it, by a phi, by the terminator, or by the part's `behind`. */
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

/* Whether an access is cheaper without a mask: an access lane by lane, or to a table of constants, is not. */
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

/* Whether the block is the whole body of an if. */
static bool is_if_body(const struct facet_lanes *lanes, uint32_t index)
{
    const struct facet_block *block = &lanes->graph.blocks[index];

    return lanes->shapes.divergent[block->dominator] &&
           facet_graph_header(&lanes->graph, block->dominator) == FACET_NO_BLOCK &&
           facet_graph_then(&lanes->graph, block->dominator) == index && block->successor_count == 1 &&
           block->successors[0] > index;
}

/* Whether the block is the whole body of a loop that lanes leave one by one: in most rounds all are active. */
static bool is_loop(const struct facet_lanes *lanes, uint32_t index)
{
    return lanes->register_lanes < FACET_LANES_MAX && lanes->shapes.divergent[index] &&
           facet_graph_header(&lanes->graph, index) == index;
}

/*
 * Whether the block has the mask of the block before it, or is the entry: neither an if nor a loop excludes lanes at
 * this block.
 */
static bool inherits_mask(const struct facet_lanes *lanes, uint32_t index)
{
    return index == 0 || lanes->masks[index] == lanes->masks[lanes->graph.blocks[index].dominator];
}

/* How many instructions per access may be made twice in the block; 0: none, since the block has no mask, or its mask
 * often excludes a lane. */
static uint32_t instructions_per_access_max(const struct facet_lanes *lanes, uint32_t index)
{
    if (!lanes->masks[index])
        return 0;
    if (inherits_mask(lanes, index))
        return INSTRUCTIONS_PER_ACCESS_MAX;
    return is_loop(lanes, index) || is_if_body(lanes, index) ? INSTRUCTIONS_MAX : 0;
}

static bool pays_off(const struct facet_lanes *lanes, const struct part *part, uint32_t max)
{
    uint32_t accesses = 0, all = 0;

    for (LLVMValueRef at = part->first; at != part->end; at = LLVMGetNextInstruction(at)) {
        LLVMOpcode opcode = LLVMGetInstructionOpcode(at);

        if (opcode == LLVMAtomicRMW || opcode == LLVMAtomicCmpXchg || opcode == LLVMFence || opcode == LLVMAlloca ||
            (facet_shapes_get(&lanes->shapes, at).address_only && used_elsewhere(at, part)))
            return false;
        accesses += is_access(lanes, at);
        all++;
    }
    return accesses >= (lanes->register_lanes < FACET_LANES_MAX ? 1 : ACCESSES_MIN) && all <= INSTRUCTIONS_MAX &&
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

    /* A form may lack the value: the vector of a scalar is made only where it is used, and made again behind the part.
     */
    if (!made[0] || !made[1])
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
 * Makes the part in both forms, and joins their values. Behind an if or a loop, only values that are used there are
 * joined. In other blocks all are, since the analysis in lower_near.c follows addresses back to any of their operands.
 */
static void fill_both_forms(struct facet_lanes *lanes, const struct part *part)
{
    bool open = inherits_mask(lanes, lanes->block);
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
    uint32_t max = instructions_per_access_max(lanes, lanes->block);
    LLVMValueRef at = LLVMGetFirstInstruction(lanes->graph.blocks[lanes->block].block);

    while (at && !lanes->refusal) {
        struct part part = find_part(at);

        if (max > 0 && pays_off(lanes, &part, max))
            fill_both_forms(lanes, &part);
        else
            fill_part(lanes, &part, NULL);
        at = LLVMIsATerminatorInst(part.end) ? NULL : LLVMGetNextInstruction(part.end);
        if (at && !lanes->refusal)
            facet_lanes_instruction(lanes, part.end);
    }
}
