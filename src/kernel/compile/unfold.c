/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: rewriting constructs of LLVM's optimizer that SPIR-V's readers refuse: several edges from a switch to one block
 *       with phis, and functions of LLVM with two results or a three-way comparison.
 * Never: is called for code that is optimized again.
 */
#include <string.h>

#include "kernel/compile/compile.h"

/* --- edges -------------------------------------------------------------------------------------------------------- */

static unsigned edges_to(LLVMValueRef terminator, LLVMBasicBlockRef block)
{
    unsigned count = 0;

    for (unsigned i = 0; i < LLVMGetNumSuccessors(terminator); i++)
        count += LLVMGetSuccessor(terminator, i) == block;
    return count;
}

/* Replaces several entries for the block `from` by one for the block `by`. */
static void merge_phi(LLVMBuilderRef builder, LLVMValueRef phi, LLVMBasicBlockRef from, LLVMBasicBlockRef by)
{
    LLVMPositionBuilderBefore(builder, phi);
    LLVMValueRef made = LLVMBuildPhi(builder, LLVMTypeOf(phi), "");
    bool met_from = false;

    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMValueRef value = LLVMGetIncomingValue(phi, i);
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(phi, i);

        if (block == from && met_from)
            continue;
        met_from |= block == from;
        block = block == from ? by : block;
        LLVMAddIncoming(made, &value, &block, 1);
    }
    LLVMReplaceAllUsesWith(phi, made);
    LLVMInstructionEraseFromParent(phi);
}

static void merge_edges(LLVMBuilderRef builder, LLVMValueRef terminator, LLVMBasicBlockRef block)
{
    LLVMBasicBlockRef from = LLVMGetInstructionParent(terminator);
    LLVMBasicBlockRef by = LLVMInsertBasicBlockInContext(LLVMGetTypeContext(LLVMTypeOf(terminator)), block, "");

    for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at && LLVMIsAPHINode(at); at = next) {
        next = LLVMGetNextInstruction(at);
        merge_phi(builder, at, from, by);
    }
    for (unsigned i = 0; i < LLVMGetNumSuccessors(terminator); i++)
        if (LLVMGetSuccessor(terminator, i) == block)
            LLVMSetSuccessor(terminator, i, by);
    LLVMPositionBuilderAtEnd(builder, by);
    LLVMBuildBr(builder, block);
}

static void merge_all(LLVMBuilderRef builder, LLVMValueRef terminator)
{
    for (unsigned i = 0; i < LLVMGetNumSuccessors(terminator); i++) {
        LLVMBasicBlockRef block = LLVMGetSuccessor(terminator, i);

        if (LLVMIsAPHINode(LLVMGetFirstInstruction(block)) && edges_to(terminator, block) > 1)
            merge_edges(builder, terminator, block);
    }
}

/* --- sums that may not fit ---------------------------------------------------------------------------------------- */

static bool is_named(LLVMValueRef call, const char *name)
{
    LLVMValueRef callee = LLVMIsACallInst(call) ? LLVMGetCalledValue(call) : NULL;
    unsigned id = callee && LLVMIsAFunction(callee) ? LLVMGetIntrinsicID(callee) : 0;
    size_t length = 0;
    const char *known = id ? LLVMIntrinsicGetName(id, &length) : "";

    return length == strlen(name) && strncmp(known, name, length) == 0;
}

struct sum {
    LLVMValueRef value, overflow;
};

static LLVMValueRef is_negative(LLVMBuilderRef builder, LLVMValueRef value)
{
    return LLVMBuildICmp(builder, LLVMIntSLT, value, LLVMConstNull(LLVMTypeOf(value)), "");
}

/* Unless the product divided by one factor is the other factor, it overflowed. Factors 0 and -1, by which a division
 * may trap, are handled apart. */
static struct sum multiply_checked(LLVMBuilderRef builder, LLVMValueRef a, LLVMValueRef b, bool sign)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = LLVMConstNull(type), ones = LLVMConstAllOnes(type), product = LLVMBuildMul(builder, a, b, "");
    LLVMValueRef none = LLVMBuildICmp(builder, LLVMIntEQ, b, zero, "");
    LLVMValueRef minus = LLVMBuildICmp(builder, LLVMIntEQ, b, ones, "");
    LLVMValueRef skips = sign ? LLVMBuildOr(builder, none, minus, "") : none;
    LLVMValueRef by = LLVMBuildSelect(builder, skips, LLVMBuildSub(builder, zero, ones, ""), b, "");
    LLVMValueRef quotient = sign ? LLVMBuildSDiv(builder, product, by, "") : LLVMBuildUDiv(builder, product, by, "");
    LLVMValueRef overflows = LLVMBuildICmp(builder, LLVMIntNE, quotient, a, "");

    overflows = LLVMBuildAnd(builder, overflows, LLVMBuildNot(builder, skips, ""), "");
    if (sign) { /* -1 times the least number overflows to the same number */
        LLVMValueRef both = LLVMBuildAnd(builder, is_negative(builder, a), is_negative(builder, product), "");
        overflows = LLVMBuildOr(builder, overflows, LLVMBuildAnd(builder, both, minus, ""), "");
    }
    return (struct sum){.value = product, .overflow = overflows};
}

static struct sum add_checked(LLVMBuilderRef builder, LLVMValueRef a, LLVMValueRef b, bool sign)
{
    LLVMValueRef sum = LLVMBuildAdd(builder, a, b, "");

    if (!sign)
        return (struct sum){.value = sum, .overflow = LLVMBuildICmp(builder, LLVMIntULT, sum, a, "")};
    LLVMValueRef both = LLVMBuildAnd(builder, LLVMBuildXor(builder, sum, a, ""), LLVMBuildXor(builder, sum, b, ""), "");
    return (struct sum){.value = sum, .overflow = is_negative(builder, both)};
}

static struct sum subtract_checked(LLVMBuilderRef builder, LLVMValueRef a, LLVMValueRef b, bool sign)
{
    LLVMValueRef rest = LLVMBuildSub(builder, a, b, "");

    if (!sign)
        return (struct sum){.value = rest, .overflow = LLVMBuildICmp(builder, LLVMIntULT, a, b, "")};
    LLVMValueRef both = LLVMBuildAnd(builder, LLVMBuildXor(builder, a, b, ""), LLVMBuildXor(builder, rest, a, ""), "");
    return (struct sum){.value = rest, .overflow = is_negative(builder, both)};
}

/* Computes the result and the overflow; returns false when the call is of another function. */
static bool compute_checked(LLVMBuilderRef builder, LLVMValueRef call, struct sum *ret_sum)
{
    static const struct {
        const char *name;
        struct sum (*make)(LLVMBuilderRef builder, LLVMValueRef a, LLVMValueRef b, bool sign);
        bool sign;
    } kinds[] = {
        {"llvm.uadd.with.overflow", add_checked, false},      {"llvm.sadd.with.overflow", add_checked, true},
        {"llvm.usub.with.overflow", subtract_checked, false}, {"llvm.ssub.with.overflow", subtract_checked, true},
        {"llvm.umul.with.overflow", multiply_checked, false}, {"llvm.smul.with.overflow", multiply_checked, true},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_named(call, kinds[i].name)) {
            *ret_sum = kinds[i].make(builder, LLVMGetOperand(call, 0), LLVMGetOperand(call, 1), kinds[i].sign);
            return true;
        }
    return false;
}

/* Replaces the call's results. Most users extract one of the two; a user of both gets a struct. */
static void replace_results(LLVMBuilderRef builder, LLVMValueRef call, const struct sum *sum)
{
    LLVMValueRef both = NULL;

    for (LLVMUseRef use = LLVMGetFirstUse(call), next; use; use = next) {
        LLVMValueRef user = LLVMGetUser(use);
        next = LLVMGetNextUse(use);
        if (LLVMIsAExtractValueInst(user))
            LLVMReplaceAllUsesWith(user, LLVMGetIndices(user)[0] ? sum->overflow : sum->value);
        else
            both = call;
    }
    if (!both)
        return;
    both = LLVMBuildInsertValue(builder, LLVMGetPoison(LLVMTypeOf(call)), sum->value, 0, "");
    LLVMReplaceAllUsesWith(call, LLVMBuildInsertValue(builder, both, sum->overflow, 1, ""));
}

/* --- less, equal, greater ----------------------------------------------------------------------------------------- */

static LLVMValueRef order_result(LLVMBuilderRef builder, LLVMValueRef call, bool sign)
{
    LLVMValueRef a = LLVMGetOperand(call, 0), b = LLVMGetOperand(call, 1);
    LLVMValueRef more = LLVMBuildICmp(builder, sign ? LLVMIntSGT : LLVMIntUGT, a, b, "");
    LLVMValueRef less = LLVMBuildICmp(builder, sign ? LLVMIntSLT : LLVMIntULT, a, b, "");

    return LLVMBuildSub(builder, LLVMBuildZExt(builder, more, LLVMTypeOf(call), ""),
                        LLVMBuildZExt(builder, less, LLVMTypeOf(call), ""), "");
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static void unfold_call(LLVMBuilderRef builder, LLVMValueRef instruction)
{
    bool sign = is_named(instruction, "llvm.scmp");
    struct sum sum;

    LLVMPositionBuilderBefore(builder, instruction);
    if (LLVMIsATerminatorInst(instruction))
        merge_all(builder, instruction);
    else if (compute_checked(builder, instruction, &sum))
        replace_results(builder, instruction, &sum);
    else if (sign || is_named(instruction, "llvm.ucmp"))
        LLVMReplaceAllUsesWith(instruction, order_result(builder, instruction, sign));
}

static bool is_unused_result(LLVMValueRef instruction)
{
    bool answers = LLVMIsAExtractValueInst(instruction) != NULL || is_named(instruction, "llvm.scmp") ||
                   is_named(instruction, "llvm.ucmp");
    size_t length = 0;
    LLVMValueRef callee = LLVMIsACallInst(instruction) ? LLVMGetCalledValue(instruction) : NULL;
    unsigned id = callee && LLVMIsAFunction(callee) ? LLVMGetIntrinsicID(callee) : 0;
    const char *name = id ? LLVMIntrinsicGetName(id, &length) : "";

    answers |= length > 14 && strncmp(name + length - 14, ".with.overflow", 14) == 0;
    return answers && !LLVMGetFirstUse(instruction);
}

/* From the end, so that users are deleted before their operands. */
static void clear_block(LLVMBasicBlockRef block)
{
    for (LLVMValueRef at = LLVMGetLastInstruction(block), before; at; at = before) {
        before = LLVMGetPreviousInstruction(at);
        if (is_unused_result(at))
            LLVMInstructionEraseFromParent(at);
    }
}

void facet_compile_unfold(struct facet_compilation *compilation)
{
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(compilation->context);

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        LLVMBasicBlockRef block;

        for (block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
                unfold_call(builder, at);
        /* A user in another block may come before its operand in the list. */
        for (int i = 0; i < 2; i++)
            for (block = LLVMGetLastBasicBlock(function); block; block = LLVMGetPreviousBasicBlock(block))
                clear_block(block);
    }
    LLVMDisposeBuilder(builder);
}
