/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unrolling loops of one block, with an exit after each step.
 *
 * In a loop that items run one by one, the number of rounds differs from item to item, so its end is mispredicted once
 * for each item in any case. Several steps per round save the counting and the jump of each step. (LLVM's own unrolling
 * makes a second loop for the remaining steps, whose end is mispredicted, too.)
 *
 * Owns: the unrolling. Never: changes results, or their order.
 */
#include "lower_inside.h"

enum {
    STEPS_PER_ROUND = 4,
    STEP_INSTRUCTIONS_MAX = 24, /* the most in one step: in longer steps, counting takes a small part of the time */
};

/* The block behind a loop that consists of `block` only; NULL: the block is no such loop. */
static LLVMBasicBlockRef exit_of_loop(LLVMBasicBlockRef block)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(block);

    if (!LLVMIsABranchInst(end) || !LLVMIsConditional(end))
        return NULL;
    LLVMBasicBlockRef on_true = LLVMGetSuccessor(end, 0), on_false = LLVMGetSuccessor(end, 1);

    if ((on_true == block) == (on_false == block))
        return NULL;
    return on_true == block ? on_false : on_true;
}

static bool is_short(LLVMBasicBlockRef block)
{
    uint32_t count = 0;

    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at && count <= STEP_INSTRUCTIONS_MAX;
         at = LLVMGetNextInstruction(at))
        count += !LLVMIsAPHINode(at);
    return count <= STEP_INSTRUCTIONS_MAX;
}

/* The copy of a value in a step; the value itself where the step has no copy of it, or `step` is NULL. */
static LLVMValueRef value_in(const struct facet_map *step, LLVMValueRef value)
{
    LLVMValueRef found = step ? facet_map_get(step, value) : NULL;

    return found ? found : value;
}

/* The value of a loop's phi for the next round. */
static LLVMValueRef next_value(LLVMValueRef phi, LLVMBasicBlockRef block)
{
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++)
        if (LLVMGetIncomingBlock(phi, i) == block)
            return LLVMGetIncomingValue(phi, i);
    return NULL; /* cannot happen in a loop */
}

/* Adds a step behind the step whose values are in `before`; NULL: behind the first step, which is the block itself. */
static LLVMBasicBlockRef add_step(LLVMBuilderRef builder, LLVMBasicBlockRef block, const struct facet_map *before,
                                  struct facet_map *step)
{
    LLVMValueRef at = LLVMGetFirstInstruction(block);
    LLVMBasicBlockRef made = LLVMInsertBasicBlockInContext(LLVMGetTypeContext(LLVMTypeOf(at)), exit_of_loop(block), "");

    for (; LLVMIsAPHINode(at); at = LLVMGetNextInstruction(at))
        facet_map_put(step, at, value_in(before, next_value(at, block)));
    LLVMPositionBuilderAtEnd(builder, made);
    for (; at; at = LLVMGetNextInstruction(at)) {
        LLVMValueRef copy = LLVMInstructionClone(at);

        for (unsigned i = 0; i < (unsigned)LLVMGetNumOperands(copy); i++)
            LLVMSetOperand(copy, i, value_in(step, LLVMGetOperand(copy, i)));
        LLVMInsertIntoBuilder(builder, copy);
        facet_map_put(step, at, copy);
    }
    return made;
}

/* Makes the branch of the step `from` that does not leave to `out` lead to the step `to`. */
static void redirect_step(LLVMBasicBlockRef from, LLVMBasicBlockRef out, LLVMBasicBlockRef to)
{
    LLVMValueRef end = LLVMGetBasicBlockTerminator(from);

    LLVMSetSuccessor(end, LLVMGetSuccessor(end, 0) == out, to);
}

/* Adds the values of this step to the phis of `out`, for the branch that leaves after it. */
static void leave_from(LLVMBasicBlockRef block, LLVMBasicBlockRef out, LLVMBasicBlockRef made,
                       const struct facet_map *step)
{
    for (LLVMValueRef phi = LLVMGetFirstInstruction(out); LLVMIsAPHINode(phi); phi = LLVMGetNextInstruction(phi)) {
        LLVMValueRef value = value_in(step, next_value(phi, block));

        LLVMAddIncoming(phi, &value, &made, 1);
    }
}

static void add_phi(LLVMBuilderRef builder, LLVMValueRef phi, LLVMBasicBlockRef block, LLVMBasicBlockRef last,
                    const struct facet_map *step)
{
    LLVMPositionBuilderBefore(builder, phi);
    LLVMValueRef made = LLVMBuildPhi(builder, LLVMTypeOf(phi), "");

    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phi, i);
        LLVMValueRef value = LLVMGetIncomingValue(phi, i);

        if (from == block) {
            from = last;
            value = value_in(step, value);
        }
        LLVMAddIncoming(made, &value, &from, 1);
    }
}

/*
 * Replaces the loop's phis by phis whose back edge comes from the last step. A phi may be the value of another phi, so
 * all are made first, each before the phi that it replaces.
 */
static void replace_loop_phis(LLVMBuilderRef builder, LLVMBasicBlockRef block, LLVMBasicBlockRef last,
                              const struct facet_map *step)
{
    for (LLVMValueRef phi = LLVMGetFirstInstruction(block); LLVMIsAPHINode(phi); phi = LLVMGetNextInstruction(phi))
        add_phi(builder, phi, block, last, step);
    for (LLVMValueRef made = LLVMGetFirstInstruction(block); LLVMIsAPHINode(made);
         made = LLVMGetNextInstruction(made)) {
        LLVMValueRef phi = LLVMGetNextInstruction(made);

        LLVMReplaceAllUsesWith(phi, made);
        LLVMInstructionEraseFromParent(phi);
    }
}

static void multiply_steps(struct facet_arena *arena, LLVMBuilderRef builder, LLVMBasicBlockRef block)
{
    LLVMBasicBlockRef out = exit_of_loop(block), steps[STEPS_PER_ROUND] = {block};
    struct facet_map values[STEPS_PER_ROUND];

    for (uint32_t i = 1; i < STEPS_PER_ROUND; i++) {
        values[i] = (struct facet_map){.arena = arena};
        steps[i] = add_step(builder, block, i > 1 ? &values[i - 1] : NULL, &values[i]);
    }
    for (uint32_t i = 1; i < STEPS_PER_ROUND; i++)
        leave_from(block, out, steps[i], &values[i]);
    for (uint32_t i = 0; i + 1 < STEPS_PER_ROUND; i++)
        redirect_step(steps[i], out, steps[i + 1]);
    replace_loop_phis(builder, block, steps[STEPS_PER_ROUND - 1], &values[STEPS_PER_ROUND - 1]);
}

void facet_loops_unroll(struct facet_arena *arena, LLVMValueRef run)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(run));
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(run), next; block; block = next) {
        next = LLVMGetNextBasicBlock(block);
        if (exit_of_loop(block) && is_short(block))
            multiply_steps(arena, builder, block);
    }
    LLVMDisposeBuilder(builder);
}
