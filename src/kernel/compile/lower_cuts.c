/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Additional barriers. Code behind an if with a barrier in it belongs to two regions: of that barrier, and of the
 * barrier before the if, since the if may be skipped. So n such ifs make n regions, each with up to n ifs.
 *
 * Owns: barriers of our own where the paths of such an if join, when all items arrive there together and the regions
 * would be much larger than the source. Never: puts a barrier where items may take different paths.
 */
#include "lower_group.h"

enum {
    REGIONS_MAX = 16,
    GROWTH_MAX = 8, /* the most instructions in all regions, as a multiple of the source's instructions */
};

struct cutting {
    struct facet_arena *arena;
    const struct facet_graph *graph;
    const struct facet_shapes *shapes;
    bool *barrier;     /* for each block: it begins with a barrier */
    bool *comes_alone; /* for each block: items may come there without the others */
    uint32_t *stack;
};

static uint32_t count_instructions(LLVMBasicBlockRef block)
{
    uint32_t count = 0;

    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
        count++;
    return count;
}

/* Marks the blocks that can be reached from `from` without passing `end` or, unless `through`, a barrier. */
static void mark_reachable(struct cutting *cutting, uint32_t from, uint32_t end, bool through, bool *seen)
{
    uint32_t depth = 1;

    cutting->stack[0] = from;
    while (depth) {
        const struct facet_block *block = &cutting->graph->blocks[cutting->stack[--depth]];

        for (uint32_t s = 0; s < block->successor_count; s++) {
            uint32_t to = block->successors[s];

            if (seen[to] || to == end || (!through && cutting->barrier[to]))
                continue;
            seen[to] = true;
            cutting->stack[depth++] = to;
        }
    }
}

static bool is_worth_it(struct cutting *cutting)
{
    uint32_t count = cutting->graph->count, regions = 0,
             *sizes = facet_arena_take(cutting->arena, count * sizeof(*sizes));
    uint64_t source = 0, all = 0;

    for (uint32_t i = 0; i < count; i++) {
        LLVMBasicBlockRef block = cutting->graph->blocks[i].block;

        sizes[i] = count_instructions(block);
        source += sizes[i];
        cutting->barrier[i] = facet_call_of(LLVMGetFirstInstruction(block)) == FACET_CALL_BARRIER;
        regions += cutting->barrier[i];
    }
    for (uint32_t i = 0; regions > REGIONS_MAX && i < count; i++) {
        bool *seen;

        if (i && !cutting->barrier[i])
            continue;
        seen = facet_arena_take(cutting->arena, count);
        mark_reachable(cutting, i, FACET_NO_BLOCK, false, seen);
        for (uint32_t k = 0; k < count; k++)
            all += seen[k] ? sizes[k] : 0;
    }
    return all > source * GROWTH_MAX;
}

/* Finds the blocks to which items may come without the others; false: one of them has a barrier. */
static bool find_blocks_reached_alone(struct cutting *cutting)
{
    for (uint32_t i = 0; i < cutting->graph->count; i++)
        if (cutting->shapes->divergent[i])
            mark_reachable(cutting, i, cutting->graph->blocks[i].post_dominator, true, cutting->comes_alone);
    for (uint32_t i = 0; i < cutting->graph->count; i++)
        if (cutting->barrier[i] && cutting->comes_alone[i])
            return false;
    return true;
}

/* Whether the paths of a branch join in this block, with a barrier between the branch and the block. */
static bool is_join(const struct cutting *cutting, uint32_t index)
{
    const struct facet_block *block = &cutting->graph->blocks[index];

    if (block->predecessor_count < 2 || cutting->barrier[index] || cutting->comes_alone[index])
        return false;
    for (uint32_t p = 0; p < block->predecessor_count; p++)
        if (block->predecessors[p] >= index) /* a loop's beginning */
            return false;
    for (uint32_t i = block->dominator + 1; i < index; i++)
        if (cutting->barrier[i] && facet_graph_dominates(cutting->graph, block->dominator, i))
            return true;
    return false;
}

static void put_barrier(LLVMBuilderRef builder, LLVMBasicBlockRef block)
{
    LLVMContextRef context = LLVMGetTypeContext(LLVMTypeOf(LLVMBasicBlockAsValue(block)));
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(context), NULL, 0, 0);
    LLVMValueRef at = LLVMGetFirstInstruction(block);
    LLVMModuleRef module = LLVMGetGlobalParent(LLVMGetBasicBlockParent(block));

    while (LLVMIsAPHINode(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(builder, at);
    LLVMBuildCall2(builder, type, facet_function_declare(module, "__facet_barrier", type), NULL, 0, "");
}

bool facet_cuts_make(struct facet_arena *arena, LLVMBuilderRef builder, const struct facet_graph *graph,
                     const struct facet_shapes *shapes)
{
    struct cutting cutting = {.arena = arena, .graph = graph, .shapes = shapes};
    bool cut = false;

    cutting.barrier = facet_arena_take(arena, graph->count);
    cutting.comes_alone = facet_arena_take(arena, graph->count);
    cutting.stack = facet_arena_take(arena, (graph->count + 1) * sizeof(*cutting.stack));
    if (!is_worth_it(&cutting) || !find_blocks_reached_alone(&cutting))
        return false;
    for (uint32_t i = 1; i < graph->count; i++)
        if (is_join(&cutting, i)) {
            put_barrier(builder, graph->blocks[i].block);
            cut = true;
        }
    return cut;
}
