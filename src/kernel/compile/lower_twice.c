/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: what all lanes do, without masks.
 *
 * Owns: the choice, when it runs, between two forms of the block of an if: one for when all lanes take it, one under
 * its mask. Never: makes what is in them.
 *
 * Most chunks of a kernel that begins with `if (x < width)` are inside, and all their lanes take the same way. Without
 * a mask an access is part of the instruction that computes, neighbours need no mask to be found, and structs and
 * scaled indices are loaded at once.
 */
#include "lower_lanes.h"

enum {
    LEAST = 2,  /* accesses to memory: with fewer the question costs what it saves */
    MOST = 200, /* instructions: they are made twice */
};

static bool used_elsewhere(LLVMValueRef value)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use))
        if (LLVMGetInstructionParent(LLVMGetUser(use)) != LLVMGetInstructionParent(value))
            return true;
    return false;
}

/* Of one that goes lane by lane nothing is saved. */
static bool is_access(const struct facet_lanes *lanes, LLVMValueRef at)
{
    bool load = LLVMIsALoadInst(at) != NULL;

    if ((!load && !LLVMIsAStoreInst(at)) || LLVMGetVolatile(at))
        return false;
    LLVMValueRef pointer = LLVMGetOperand(at, load ? 0 : 1);

    return !facet_private_of(pointer) && !facet_lanes_uniform(lanes, pointer);
}

bool facet_lanes_parts(const struct facet_lanes *lanes, uint32_t index)
{
    const struct facet_block *block = &lanes->graph.blocks[index];
    uint32_t accesses = 0, all = 0;

    if (index == 0 || !lanes->masks[index] || !lanes->shapes.divergent[block->dominator] ||
        facet_graph_header(&lanes->graph, block->dominator) != FACET_NOWHERE ||
        facet_graph_then(&lanes->graph, block->dominator) != index || block->successor_count != 1 ||
        block->successors[0] <= index)
        return false;
    for (LLVMValueRef at = LLVMGetFirstInstruction(block->block); at; at = LLVMGetNextInstruction(at)) {
        LLVMOpcode opcode = LLVMGetInstructionOpcode(at);

        if (opcode == LLVMPHI || opcode == LLVMAtomicRMW || opcode == LLVMAtomicCmpXchg || opcode == LLVMFence ||
            opcode == LLVMAlloca || facet_call_of(at) == FACET_CALL_BARRIER ||
            (facet_shapes_get(&lanes->shapes, at).rough && used_elsewhere(at)))
            return false;
        accesses += is_access(lanes, at);
        all++;
    }
    return accesses >= LEAST && all <= MOST;
}

/* What stands for a value of the block in one of its two forms. */
struct form {
    LLVMValueRef scalar, vector;
};

/* Puts the block's values into `forms` and forgets them, so that they can be made again. */
static LLVMBasicBlockRef take_forms(struct facet_lanes *lanes, uint32_t index, struct form *forms)
{
    for (LLVMValueRef at = LLVMGetFirstInstruction(lanes->graph.blocks[index].block); at;
         at = LLVMGetNextInstruction(at), forms++) {
        *forms = (struct form){facet_map_get(&lanes->scalars, at), facet_map_get(&lanes->vectors, at)};
        if (forms->scalar)
            facet_map_put(&lanes->scalars, at, NULL);
        if (forms->vector)
            facet_map_put(&lanes->vectors, at, NULL);
    }
    return LLVMGetInsertBlock(lanes->builder);
}

static void meet(struct facet_lanes *lanes, struct facet_map *map, LLVMValueRef value, LLVMValueRef *made,
                 LLVMBasicBlockRef *ends)
{
    LLVMValueRef phi;

    if (!made[0] || !made[1]) /* the vector of a scalar, made where it was asked for: so it is made again */
        return;
    phi = LLVMBuildPhi(lanes->builder, LLVMTypeOf(made[0]), "");
    LLVMAddIncoming(phi, made, ends, 2);
    facet_map_put(map, value, phi);
}

void facet_lanes_fill_twice(struct facet_lanes *lanes, uint32_t index)
{
    LLVMValueRef mask = lanes->masks[index];
    LLVMBasicBlockRef blocks[3], ends[2], source = lanes->graph.blocks[index].block;
    struct form *forms[2];

    for (uint32_t i = 0; i < 2; i++)
        forms[i] = facet_arena_take(lanes->arena, (MOST + 1) * sizeof(**forms));
    facet_lanes_fork(lanes, facet_lanes_all(lanes, mask), blocks);
    for (uint32_t i = 0; i < 2; i++) {
        LLVMPositionBuilderAtEnd(lanes->builder, blocks[i]);
        lanes->masks[index] = i ? mask : NULL;
        facet_lanes_fill(lanes, index);
        ends[i] = take_forms(lanes, index, forms[i]);
        LLVMBuildBr(lanes->builder, blocks[2]);
    }
    LLVMPositionBuilderAtEnd(lanes->builder, blocks[2]);
    for (LLVMValueRef at = LLVMGetFirstInstruction(source); at; at = LLVMGetNextInstruction(at)) {
        struct form whole = *forms[0]++, part = *forms[1]++;

        if (!used_elsewhere(at))
            continue;
        meet(lanes, &lanes->scalars, at, (LLVMValueRef[]){whole.scalar, part.scalar}, ends);
        meet(lanes, &lanes->vectors, at, (LLVMValueRef[]){whole.vector, part.vector}, ends);
    }
}
