/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: making all integers of odd widths in a module wider (widths.c), operands before their users.
 * Never: leaves an integer of odd width: an instruction without a rule is refused.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/compile/compile.h"
#include "kernel/compile/llvm.h"
#include "kernel/compile/widths.h"

static bool is_phi(LLVMValueRef instruction)
{
    return LLVMIsAPHINode(instruction) != NULL;
}

/* Whether the instruction has operands or results of odd widths, or vectors of booleans that are cast or stored. */
static bool touches_odd_width(const struct widths *widths, LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
    bool found = facet_widths_is_odd(instruction);

    for (int i = 0; !found && i < LLVMGetNumOperands(instruction); i++)
        found = !LLVMValueIsBasicBlock(LLVMGetOperand(instruction, (unsigned)i)) &&
                facet_widths_is_odd(LLVMGetOperand(instruction, (unsigned)i));
    if (opcode == LLVMBitCast || opcode == LLVMLoad)
        found |= facet_widths_is_bits(LLVMTypeOf(instruction));
    if (opcode == LLVMBitCast || opcode == LLVMStore)
        found |= facet_widths_is_bits(LLVMTypeOf(LLVMGetOperand(instruction, 0)));
    return found && !facet_widths_is_marked(instruction, widths->wide);
}

static void position_builder(struct widths *widths, LLVMValueRef at)
{
    while (is_phi(at))
        at = LLVMGetNextInstruction(at);
    LLVMPositionBuilderBefore(widths->builder, at);
}

/* Gives users of the result a truncation of its replacement. Once all users are widened, the truncation has no users
 * any more. */
static void replace_uses(struct widths *widths, LLVMValueRef instruction, LLVMValueRef made)
{
    if (facet_widths_is_odd(instruction)) {
        position_builder(widths, is_phi(instruction) ? LLVMGetFirstInstruction(LLVMGetInstructionParent(instruction))
                                                     : instruction);
        made = LLVMBuildTrunc(widths->builder, made, LLVMTypeOf(instruction), "");
        if (LLVMIsAInstruction(made))
            LLVMSetMetadata(made, widths->wide, widths->mark);
    }
    LLVMReplaceAllUsesWith(instruction, made);
}

/* Widens the indices of a GEP, whose result stays. */
static bool widen_indices(struct widths *widths, LLVMValueRef instruction)
{
    for (unsigned i = 1; i < (unsigned)LLVMGetNumOperands(instruction); i++) {
        LLVMValueRef index = facet_widths_signed(widths, LLVMGetOperand(instruction, i));
        if (!index)
            return false;
        LLVMSetOperand(instruction, i, index);
    }
    return true;
}

static bool replace_switch(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef value = facet_widths_wide(widths, LLVMGetOperand(instruction, 0)), made;
    unsigned targets = LLVMGetNumSuccessors(instruction);

    if (!value)
        return false;
    made = LLVMBuildSwitch(widths->builder, value, LLVMGetSwitchDefaultDest(instruction), targets - 1);
    for (unsigned i = 1; i < targets; i++)
        LLVMAddCase(made, facet_widths_wide(widths, LLVMGetSwitchCaseValue(instruction, i)),
                    LLVMGetSuccessor(instruction, i));
    return true;
}

static bool widen_instruction(struct widths *widths, LLVMValueRef instruction);

/* Widens the instructions that compute the operands, in whichever block they are. */
static bool widen_operands(struct widths *widths, LLVMValueRef instruction)
{
    for (int i = 0; !is_phi(instruction) && i < LLVMGetNumOperands(instruction); i++) {
        LLVMValueRef operand = LLVMGetOperand(instruction, (unsigned)i);
        if (LLVMIsAInstruction(operand) && facet_widths_is_odd(operand) &&
            !facet_widths_is_marked(operand, widths->wide) && !widen_instruction(widths, operand))
            return false;
    }
    return true;
}

/* The old instruction stays until the end, without users. */
static bool widen_instruction(struct widths *widths, LLVMValueRef instruction)
{
    LLVMValueRef made = NULL;

    if (facet_widths_is_marked(instruction, widths->done))
        return true;
    if (!widen_operands(widths, instruction))
        return false;
    LLVMSetMetadata(instruction, widths->done, widths->mark);
    LLVMPositionBuilderBefore(widths->builder, instruction);
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMStore:
        return facet_widths_store(widths, instruction);
    case LLVMSwitch:
        return replace_switch(widths, instruction);
    case LLVMGetElementPtr:
        return widen_indices(widths, instruction);
    default:
        made = facet_widths_replace(widths, instruction);
    }
    if (made)
        replace_uses(widths, instruction, made);
    return made != NULL;
}

/* --- all of a function -------------------------------------------------------------------------------------------- */

static bool take_instruction(struct widths *widths, LLVMValueRef instruction, size_t *room)
{
    if (widths->count == *room) {
        LLVMValueRef *more = realloc(widths->list, (2 * *room + 64) * sizeof(LLVMValueRef));
        if (!more)
            return false;
        widths->list = more;
        *room = 2 * *room + 64;
    }
    widths->list[widths->count++] = instruction;
    return true;
}

static bool list_all(struct widths *widths, LLVMValueRef function)
{
    size_t room = 0;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            if (touches_odd_width(widths, at) && !take_instruction(widths, at, &room))
                return false;
    return true;
}

/* Adds the operands of the replacement of `phi`, whose users have a truncation of the replacement. */
static bool fill_phi(struct widths *widths, LLVMValueRef phi)
{
    LLVMValueRef made = LLVMGetPreviousInstruction(phi);

    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMValueRef value = facet_widths_wide(widths, LLVMGetIncomingValue(phi, i));
        LLVMBasicBlockRef block = LLVMGetIncomingBlock(phi, i);
        if (!value)
            return false;
        LLVMAddIncoming(made, &value, &block, 1);
    }
    return true;
}

static bool widen_all(struct widths *widths)
{
    for (size_t i = 0; i < widths->count; i++)
        if (!widen_instruction(widths, widths->list[i]))
            return false;
    for (size_t i = 0; i < widths->count; i++)
        if (is_phi(widths->list[i]) && !fill_phi(widths, widths->list[i]))
            return false;
    return true;
}

static bool has_use(LLVMValueRef value)
{
    return LLVMGetFirstUse(value) != NULL;
}

/* Deletes the old instructions, and truncations that have no users. */
static void delete_replaced(struct widths *widths, LLVMValueRef function)
{
    for (size_t i = 0; i < widths->count; i++) {
        LLVMValueRef one = widths->list[i];
        if (LLVMGetInstructionOpcode(one) == LLVMGetElementPtr) {
            LLVMSetMetadata(one, widths->done, NULL);
            continue;
        }
        if (LLVMGetTypeKind(LLVMTypeOf(one)) != LLVMVoidTypeKind)
            LLVMReplaceAllUsesWith(one, LLVMGetPoison(LLVMTypeOf(one)));
        LLVMInstructionEraseFromParent(one);
    }
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (facet_widths_is_marked(at, widths->wide) && !has_use(at))
                LLVMInstructionEraseFromParent(at);
        }
}

static void refuse_width(struct facet_compilation *compilation, LLVMValueRef function, LLVMValueRef at)
{
    LLVMTypeRef type = LLVMTypeOf(at);
    char name[96], text[256];
    size_t length;

    for (int i = 0; !facet_widths_type_is_odd(type) && LLVMIsAInstruction(at) && i < LLVMGetNumOperands(at); i++)
        type = LLVMTypeOf(LLVMGetOperand(at, (unsigned)i));
    facet_compile_plain_name(LLVMGetValueName2(function, &length), name, sizeof name);
    char *printed = LLVMPrintTypeToString(type);
    snprintf(text, sizeof text,
             "kernel '%.80s': LLVM computes with the type '%.40s' in it, which SPIR-V lacks; expected integers of 8, "
             "16, 32 or 64 bits",
             name, printed);
    LLVMDisposeMessage(printed);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

/* Refuses the first instruction that was not widened. Returns whether there is none. */
static bool check_all_widened(struct facet_compilation *compilation, const struct widths *widths, LLVMValueRef function)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            if (touches_odd_width(widths, at)) {
                refuse_width(compilation, function, at);
                return false;
            }
    return true;
}

static void widen_function(struct facet_compilation *compilation, struct widths *widths, LLVMValueRef function)
{
    widths->list = NULL;
    widths->count = 0;
    if (list_all(widths, function) && widen_all(widths))
        delete_replaced(widths, function);
    free(widths->list);
    for (unsigned i = 0; i < LLVMCountParams(function); i++)
        if (facet_widths_is_odd(LLVMGetParam(function, i)))
            refuse_width(compilation, function, LLVMGetParam(function, i));
    check_all_widened(compilation, widths, function);
}

void facet_compile_widths(struct facet_compilation *compilation)
{
    LLVMContextRef context = compilation->context;
    struct widths widths = {
        .context = context,
        .module = compilation->module,
        .builder = LLVMCreateBuilderInContext(context),
        .wide = LLVMGetMDKindIDInContext(context, "facet.wide", 10),
        .done = LLVMGetMDKindIDInContext(context, "facet.done", 10),
        .mark = LLVMMetadataAsValue(context, LLVMMDNodeInContext2(context, NULL, 0)),
    };

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        if (!LLVMIsDeclaration(function))
            widen_function(compilation, &widths, function);
    LLVMDisposeBuilder(widths.builder);
}
