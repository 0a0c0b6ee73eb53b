/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making the bodies of loops with very many blocks functions of their own.
 * Never: changes a loop's result, or moves a body that cannot be a function.
 *
 * The code generator hoists each constant that a vector instruction needs out of the loop. Thousands of constants are
 * then live in all blocks of the loop, and the register allocator's time is the product of both numbers. In a function
 * that has only the body there is no loop to hoist them out of; constants of loops in the body are still hoisted.
 */
#include "kernel/compile/shims.h"

#include <set>
#include <vector>

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/CodeExtractor.h>

namespace
{

using Headers = std::set<llvm::BasicBlock *>;

/* A loop that is too large, but whose inner loops are not. */
llvm::Loop *find_large(const llvm::LoopInfo &loops, size_t max_blocks, const Headers &tried)
{
    for (llvm::Loop *loop : loops.getLoopsInPreorder()) {
        bool inner = loop->getNumBlocks() > max_blocks && !tried.count(loop->getHeader());

        for (const llvm::Loop *below : loop->getSubLoops())
            inner = inner && below->getNumBlocks() <= max_blocks;
        if (inner)
            return loop;
    }
    return nullptr;
}

/* Moves the body into a function; of the loop only its phis and its last branch stay. */
void take_body(llvm::Function &function, llvm::Loop *loop, llvm::DominatorTree &tree, llvm::LoopInfo &loops)
{
    llvm::BasicBlock *header = loop->getHeader(), *latch = loop->getLoopLatch();

    if (!latch || latch == header)
        return;
    llvm::BasicBlock *first = llvm::SplitBlock(header, header->getFirstNonPHIIt(), &tree, &loops);
    if (latch->getTerminator() != &*latch->getFirstNonPHIIt())
        latch = llvm::SplitBlock(latch, latch->getTerminator(), &tree, &loops);
    std::vector<llvm::BasicBlock *> body = {first};
    for (llvm::BasicBlock *block : loop->blocks())
        if (block != header && block != latch && block != first)
            body.push_back(block);
    llvm::CodeExtractorAnalysisCache cache(function);
    llvm::CodeExtractor extractor(body, &tree);
    llvm::Function *made = extractor.isEligible() ? extractor.extractCodeRegion(cache) : nullptr;
    if (made)
        made->addFnAttr(llvm::Attribute::NoInline);
}

void divide(llvm::Function &function, size_t max_blocks)
{
    for (Headers tried; function.size() > max_blocks;) {
        llvm::DominatorTree tree(function);
        llvm::LoopInfo loops(tree);
        llvm::Loop *loop = find_large(loops, max_blocks, tried);

        if (!loop)
            return;
        tried.insert(loop->getHeader());
        take_body(function, loop, tree, loops);
    }
}

} // namespace

void facet_shim_divide_loops(LLVMModuleRef module, size_t max_blocks)
{
    std::vector<llvm::Function *> functions;

    for (llvm::Function &function : *llvm::unwrap(module))
        functions.push_back(&function); /* without the functions that are made below */
    for (llvm::Function *function : functions)
        divide(*function, max_blocks);
}
