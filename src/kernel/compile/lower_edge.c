/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty blocks between a value and the phi that takes it.
 *
 * Owns: working around a fault of LLVM (seen in 22). StructurizeCFG moves an instruction without cost (a freeze, a
 * cast) out of a block that jumps to a phi, and then gives the phi another path's value. It does so only with values
 * that the jumping block defines, so an empty block is put between that block and the phi. Never: changes a result.
 */
#include "lower_inside.h"

static bool takes_own_value(LLVMBasicBlockRef from, LLVMBasicBlockRef to)
{
    for (LLVMValueRef at = LLVMGetFirstInstruction(to); at && LLVMIsAPHINode(at); at = LLVMGetNextInstruction(at))
        for (unsigned i = 0; i < LLVMCountIncoming(at); i++) {
            LLVMValueRef value = LLVMGetIncomingValue(at, i);

            if (LLVMGetIncomingBlock(at, i) == from && LLVMIsAInstruction(value) &&
                LLVMGetInstructionParent(value) == from)
                return true;
        }
    return false;
}

/* Replaces a phi by another phi, which takes the value of the block `from` out of the block `through`. */
static void replace_phi(LLVMBuilderRef builder, LLVMValueRef phi, LLVMBasicBlockRef from, LLVMBasicBlockRef through)
{
    LLVMValueRef made;

    LLVMPositionBuilderBefore(builder, phi);
    made = LLVMBuildPhi(builder, LLVMTypeOf(phi), "");
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(phi, i);
        LLVMValueRef value = LLVMGetIncomingValue(phi, i);

        if (block == from)
            block = through;
        LLVMAddIncoming(made, &value, &block, 1);
    }
    LLVMReplaceAllUsesWith(phi, made);
    LLVMInstructionEraseFromParent(phi);
}

static void split_edge(LLVMContextRef context, LLVMBuilderRef builder, LLVMBasicBlockRef from, LLVMBasicBlockRef to)
{
    LLVMBasicBlockRef through = LLVMInsertBasicBlockInContext(context, to, "");

    LLVMSetSuccessor(LLVMGetBasicBlockTerminator(from), 0, through);
    LLVMPositionBuilderAtEnd(builder, through);
    LLVMBuildBr(builder, to);
    for (LLVMValueRef at = LLVMGetFirstInstruction(to), next; at && LLVMIsAPHINode(at); at = next) {
        next = LLVMGetNextInstruction(at);
        replace_phi(builder, at, from, through);
    }
}

void facet_edges_split(struct facet_arena *arena, LLVMValueRef item)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(item));
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    struct facet_graph graph;

    facet_graph_make(&graph, arena, item);
    for (uint32_t i = 0; i < graph.count; i++) {
        const struct facet_block *block = &graph.blocks[i];
        uint32_t to = block->successor_count == 1 ? block->successors[0] : FACET_NO_BLOCK;

        if (to != FACET_NO_BLOCK && to > i && takes_own_value(block->block, graph.blocks[to].block))
            split_edge(context, builder, block->block, graph.blocks[to].block);
    }
    LLVMDisposeBuilder(builder);
}
