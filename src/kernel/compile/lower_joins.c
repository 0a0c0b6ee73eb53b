/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks with hundreds of predecessors, such as the block behind a large switch.
 *
 * Owns: a tree of blocks before such a block, each of which has at most GROUP_EDGES_MAX predecessors. Without the tree,
 * simplifycfg looks at all predecessors for each empty one, and the register coalescer at all copies into a phi's
 * register for each copy: both are quadratic. Each block of the tree calls llvm.sideeffect, which makes no code and
 * keeps LLVM from removing the block. The coalescer would still make one register of a large tree, so with more than
 * 1024 predecessors, values go through memory.
 * Never: changes a result; groups an entry of a loop with its back edge.
 */
#include "lower_inside.h"

enum { GROUP_EDGES_MAX = 64 };

/* The state while the tree of one block is made. */
struct joining {
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMValueRef mark; /* llvm.sideeffect */
    const struct facet_graph *graph;
    struct facet_arena *arena;
    uint32_t to;
    LLVMBasicBlockRef *groups;
    uint32_t *group_of; /* for each predecessor, the number of its group from 1 on; 0: in no group */
};

static LLVMValueRef declare_mark(LLVMValueRef function)
{
    static const char name[] = "llvm.sideeffect";

    return LLVMGetIntrinsicDeclaration(LLVMGetGlobalParent(function), LLVMLookupIntrinsicID(name, sizeof name - 1),
                                       NULL, 0);
}

/* Whether exactly one edge leads from `from` to `to`: a switch may have several, each with an entry of its own in a
 * phi. */
static bool is_only_edge(const struct facet_graph *graph, uint32_t from, uint32_t to)
{
    uint32_t count = 0;

    for (uint32_t s = 0; s < graph->blocks[from].successor_count && count < 2; s++)
        count += graph->blocks[from].successors[s] == to;
    return count == 1;
}

/* Divides the predecessors into groups of GROUP_EDGES_MAX, back edges apart from other edges. Returns how many groups
 * there are; 0: grouping would not reduce the number of predecessors. */
static uint32_t divide_into_groups(struct joining *joining)
{
    const struct facet_block *block = &joining->graph->blocks[joining->to];
    uint32_t group[2] = {0, 0}, used[2] = {GROUP_EDGES_MAX, GROUP_EDGES_MAX}, count = 0, all = 0;

    for (uint32_t p = 0; p < block->predecessor_count; p++) {
        uint32_t from = block->predecessors[p];
        bool round = from >= joining->to;

        if (joining->graph->blocks[from].successor_count > GROUP_EDGES_MAX ||
            !is_only_edge(joining->graph, from, joining->to))
            continue;
        if (used[round] == GROUP_EDGES_MAX) {
            group[round] = ++count;
            used[round] = 0;
        }
        joining->group_of[p] = group[round];
        used[round]++;
        all++;
    }
    return count * 2 <= all ? count : 0;
}

static void turn_branch(const struct joining *joining, uint32_t from, LLVMBasicBlockRef group)
{
    const struct facet_block *block = &joining->graph->blocks[from];
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block->block);

    for (uint32_t s = 0; s < block->successor_count; s++)
        if (block->successors[s] == joining->to)
            LLVMSetSuccessor(end, s, group);
}

/* Makes a phi in each group, and one phi that joins them with the values of predecessors outside of groups. */
static void split_phi(struct joining *joining, const struct facet_map *places, LLVMValueRef phi, uint32_t count)
{
    LLVMValueRef *phis = facet_arena_take(joining->arena, (count + 1) * sizeof(LLVMValueRef));

    for (uint32_t g = 0; g <= count; g++) {
        LLVMPositionBuilderBefore(joining->builder, g ? LLVMGetFirstInstruction(joining->groups[g - 1]) : phi);
        phis[g] = LLVMBuildPhi(joining->builder, LLVMTypeOf(phi), "");
    }
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phi, i);
        LLVMValueRef value = LLVMGetIncomingValue(phi, i);
        uint32_t group = (uint32_t)(uintptr_t)facet_map_get(places, from);

        LLVMAddIncoming(phis[group], &value, &from, 1);
    }
    for (uint32_t g = 1; g <= count; g++)
        LLVMAddIncoming(phis[0], &phis[g], &joining->groups[g - 1], 1);
    LLVMReplaceAllUsesWith(phi, phis[0]);
    LLVMInstructionEraseFromParent(phi);
}

static bool split_join(struct joining *joining)
{
    const struct facet_block *block = &joining->graph->blocks[joining->to];
    struct facet_map places = {.arena = joining->arena};
    uint32_t count;

    joining->group_of = facet_arena_take(joining->arena, block->predecessor_count * sizeof(uint32_t));
    count = divide_into_groups(joining);
    if (count == 0)
        return false;
    joining->groups = facet_arena_take(joining->arena, count * sizeof(*joining->groups));
    for (uint32_t g = 0; g < count; g++) {
        joining->groups[g] = LLVMInsertBasicBlockInContext(joining->context, block->block, "");
        LLVMPositionBuilderAtEnd(joining->builder, joining->groups[g]);
        LLVMBuildCall2(joining->builder, LLVMGlobalGetValueType(joining->mark), joining->mark, NULL, 0, "");
        LLVMBuildBr(joining->builder, block->block);
    }
    for (uint32_t p = 0; p < block->predecessor_count; p++) {
        if (!joining->group_of[p])
            continue;
        facet_map_put(&places, joining->graph->blocks[block->predecessors[p]].block,
                      (void *)(uintptr_t)joining->group_of[p]);
        turn_branch(joining, block->predecessors[p], joining->groups[joining->group_of[p] - 1]);
    }
    for (LLVMValueRef at = LLVMGetFirstInstruction(block->block), next; at && LLVMIsAPHINode(at); at = next) {
        next = LLVMGetNextInstruction(at);
        split_phi(joining, &places, at, count);
    }
    return true;
}

/* Makes one level of the trees before all blocks. False: no block needed it. */
static bool split_level(struct facet_arena *arena, LLVMValueRef function)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(function));
    struct facet_graph graph;
    struct joining joining = {.context = context, .graph = &graph, .arena = arena};
    bool split_any = false;

    facet_graph_make(&graph, arena, function);
    if (facet_graph_cases(&graph) <= FACET_CASES_MAX)
        return false;
    joining.mark = declare_mark(function);
    joining.builder = LLVMCreateBuilderInContext(context);
    for (joining.to = 1; joining.to < graph.count; joining.to++)
        if (graph.blocks[joining.to].predecessor_count > GROUP_EDGES_MAX)
            split_any |= split_join(&joining);
    LLVMDisposeBuilder(joining.builder);
    return split_any;
}

/* Flips the sign bit, so that unsigned numbers have the order of the signed ones. */
static uint64_t flip_sign_bit(LLVMValueRef value)
{
    return (uint64_t)LLVMConstIntGetSExtValue(value) ^ UINT64_C(1) << 63;
}

/* Whether LLVM may make a table of the switch. Its own rule is a little stricter. */
static bool is_dense(LLVMValueRef end)
{
    uint32_t count = LLVMGetNumSuccessors(end), spread = 0;
    uint64_t first, min, max, differing = 0;

    if (count < 2 || LLVMGetIntTypeWidth(LLVMTypeOf(LLVMGetOperand(end, 0))) > 64)
        return false;
    first = min = max = flip_sign_bit(LLVMGetSwitchCaseValue(end, 1));
    for (uint32_t i = 2; i < count; i++) {
        uint64_t value = flip_sign_bit(LLVMGetSwitchCaseValue(end, i));

        differing |= value ^ first;
        min = value < min ? value : min;
        max = value > max ? value : max;
    }
    while (differing && !(differing >> spread & 1))
        spread++;
    return ((max - min) >> spread) / 4 < count;
}

bool facet_joins_dense(LLVMValueRef function)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef end = LLVMGetBasicBlockTerminator(block);

        if (LLVMIsASwitchInst(end) && LLVMGetNumSuccessors(end) > GROUP_EDGES_MAX && is_dense(end))
            return true;
    }
    return false;
}

void facet_joins_split(struct facet_arena *arena, LLVMValueRef function)
{
    while (split_level(arena, function))
        ;
}

/* How many edges lead into the groups before this block. */
static uint32_t count_grouped(LLVMValueRef phi)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetIncomingBlock(phi, i)), at = first;

        while (LLVMIsAPHINode(at))
            at = LLVMGetNextInstruction(at);
        if (facet_joins_is_mark(at) && at != first)
            count += LLVMCountIncoming(first);
    }
    return count;
}

static void store_phi(LLVMBuilderRef builder, LLVMValueRef phi, LLVMValueRef behind)
{
    LLVMTypeRef type = LLVMTypeOf(phi);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(LLVMGetInstructionParent(phi)));
    LLVMValueRef slot;

    LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(entry));
    slot = LLVMBuildAlloca(builder, type, "");
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMPositionBuilderBefore(builder, LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(phi, i)));
        LLVMBuildStore(builder, LLVMGetIncomingValue(phi, i), slot);
    }
    LLVMPositionBuilderBefore(builder, behind);
    LLVMReplaceAllUsesWith(phi, LLVMBuildLoad2(builder, type, slot, ""));
    LLVMInstructionEraseFromParent(phi);
}

void facet_joins_store(LLVMValueRef run)
{
    enum { GROUPED_EDGES_MAX = 1024 };
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(LLVMGetGlobalParent(run)));

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(run); block; block = LLVMGetNextBasicBlock(block)) {
        LLVMValueRef first = LLVMGetFirstInstruction(block), behind = first;

        if (!LLVMIsAPHINode(first) || count_grouped(first) <= GROUPED_EDGES_MAX)
            continue;
        while (LLVMIsAPHINode(behind))
            behind = LLVMGetNextInstruction(behind);
        for (; LLVMIsAPHINode(first); first = LLVMGetFirstInstruction(block))
            store_phi(builder, first, behind);
    }
    LLVMDisposeBuilder(builder);
}
