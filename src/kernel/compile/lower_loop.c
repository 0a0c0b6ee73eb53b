/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: whether an item has loops, and which loops LLVM must not unroll. Never: changes a loop's code. */
#include "lower_inside.h"

#include <llvm-c/DebugInfo.h>

static bool has_atomics(LLVMBasicBlockRef block)
{
    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
        if (LLVMIsAAtomicRMWInst(at) || LLVMIsAAtomicCmpXchgInst(at))
            return true;
    return false;
}

/* Metadata of a loop that must not be unrolled. Its first operand is the metadata itself. */
static LLVMValueRef never_unrolled(LLVMContextRef context)
{
    static const char disable[] = "llvm.loop.unroll.disable";
    LLVMMetadataRef text = LLVMMDStringInContext2(context, disable, sizeof(disable) - 1);
    LLVMMetadataRef self = LLVMTemporaryMDNode(context, NULL, 0);
    LLVMMetadataRef operands[2] = {self, LLVMMDNodeInContext2(context, &text, 1)};
    LLVMValueRef node = LLVMMetadataAsValue(context, LLVMMDNodeInContext2(context, operands, 2));

    LLVMMetadataReplaceAllUsesWith(self, LLVMValueAsMetadata(node));
    return node;
}

void facet_loop_forbid_unrolling(LLVMValueRef end)
{
    LLVMContextRef context =
        LLVMGetModuleContext(LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(end))));

    LLVMSetMetadata(end, LLVMGetMDKindIDInContext(context, "llvm.loop", 9), never_unrolled(context));
}

void facet_atomic_loops_forbid_unrolling(struct facet_arena *arena, LLVMValueRef item)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(item));
    unsigned kind = LLVMGetMDKindIDInContext(context, "llvm.loop", 9);
    struct facet_graph graph;

    facet_graph_make(&graph, arena, item);
    for (uint32_t latch = 0; latch < graph.count; latch++) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(graph.blocks[latch].block);
        uint32_t header = facet_graph_header(&graph, latch);
        bool atomics = false;

        for (uint32_t i = header; header != FACET_NO_BLOCK && i <= latch; i++)
            atomics |= facet_graph_dominates(&graph, header, i) && has_atomics(graph.blocks[i].block);
        if (atomics && !LLVMGetMetadata(end, kind))
            facet_loop_forbid_unrolling(end);
    }
}

bool facet_item_has_loop(struct facet_arena *arena, LLVMValueRef item)
{
    struct facet_graph graph;

    facet_graph_make(&graph, arena, item);
    for (uint32_t i = 0; i < graph.count; i++)
        for (uint32_t s = 0; s < graph.blocks[i].successor_count; s++)
            if (graph.blocks[i].successors[s] <= i)
                return true;
    return false;
}
