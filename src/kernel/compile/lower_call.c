/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the classification of calls and of accesses to memory, and the code of atomics on memory of the group.
 * Never: decides how they are lowered.
 */
#include "lower_inside.h"

#include <string.h>

enum facet_call facet_call_of(LLVMValueRef instruction)
{
    static const char *const names[] = {
        [FACET_CALL_LOCAL_ID] = "local_id", [FACET_CALL_GLOBAL_ID] = "global_id",
        [FACET_CALL_GROUP_ID] = "group_id", [FACET_CALL_GROUP_SIZE] = "group_size",
        [FACET_CALL_GRID] = "grid",         [FACET_CALL_GLOBAL_SIZE] = "global_size",
        [FACET_CALL_OFFSET] = "offset",     [FACET_CALL_DIMENSIONS] = "dimensions",
        [FACET_CALL_BARRIER] = "barrier",   [FACET_CALL_LOCAL_MEMORY] = "local_memory",
        [FACET_CALL_WITHIN] = "within",
    };
    const char *name;
    size_t length;

    if (!LLVMIsACallInst(instruction) || !LLVMIsAFunction(LLVMGetCalledValue(instruction)))
        return FACET_CALL_OTHER;
    name = LLVMGetValueName2(LLVMGetCalledValue(instruction), &length);
    if (length < 8 || memcmp(name, "__facet_", 8) != 0)
        return FACET_CALL_OTHER;
    for (int i = FACET_CALL_LOCAL_ID; i <= FACET_CALL_WITHIN; i++)
        if (strcmp(name + 8, names[i]) == 0)
            return (enum facet_call)i;
    return FACET_CALL_OTHER;
}

bool facet_joins_is_mark(LLVMValueRef instruction)
{
    size_t length;

    return LLVMIsACallInst(instruction) && LLVMIsAFunction(LLVMGetCalledValue(instruction)) &&
           strcmp(LLVMGetValueName2(LLVMGetCalledValue(instruction), &length), "llvm.sideeffect") == 0;
}

bool facet_is_ignored(LLVMValueRef instruction)
{
    static const char *const names[] = {
        "llvm.lifetime.", "llvm.dbg.",       "llvm.assume",    "llvm.experimental.noalias.scope",
        "llvm.donothing", "llvm.invariant.", "llvm.sideeffect"};
    LLVMValueRef callee;
    size_t length;

    if (!LLVMIsACallInst(instruction))
        return false;
    callee = LLVMGetCalledValue(instruction);
    if (!LLVMIsAFunction(callee) || !LLVMGetIntrinsicID(callee))
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strncmp(LLVMGetValueName2(callee, &length), names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

bool facet_is_item_id(LLVMValueRef instruction)
{
    enum facet_call call = facet_call_of(instruction);

    return call == FACET_CALL_LOCAL_ID || call == FACET_CALL_GLOBAL_ID;
}

bool facet_is_local_memory(LLVMValueRef pointer)
{
    while (LLVMIsAGetElementPtrInst(pointer))
        pointer = LLVMGetOperand(pointer, 0);
    return facet_call_of(pointer) == FACET_CALL_LOCAL_MEMORY;
}

LLVMTypeRef facet_accessed_type(LLVMValueRef access)
{
    return LLVMIsAStoreInst(access) ? LLVMTypeOf(LLVMGetOperand(access, 0)) : LLVMTypeOf(access);
}

LLVMValueRef facet_function_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type)
{
    LLVMValueRef found = LLVMGetNamedFunction(module, name);

    return found ? found : LLVMAddFunction(module, name, type);
}

void facet_function_describe(struct facet_arena *arena, LLVMValueRef from, LLVMValueRef to)
{
    LLVMAttributeIndex index = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    uint32_t count = LLVMGetAttributeCountAtIndex(from, index);
    LLVMAttributeRef *all = facet_arena_take(arena, (count + 1) * sizeof(LLVMAttributeRef));

    LLVMGetAttributesAtIndex(from, index, all);
    for (uint32_t i = 0; i < count; i++)
        if (LLVMIsStringAttribute(all[i]))
            LLVMAddAttributeAtIndex(to, index, all[i]);
}

/* The result of an atomic operation, as plain instructions; NULL: there are none. */
static LLVMValueRef combine_values(LLVMBuilderRef builder, LLVMAtomicRMWBinOp operation, LLVMValueRef old,
                                   LLVMValueRef value)
{
    LLVMIntPredicate predicate = LLVMIntSGT;

    switch (operation) {
    case LLVMAtomicRMWBinOpXchg:
        return value;
    case LLVMAtomicRMWBinOpAdd:
        return LLVMBuildAdd(builder, old, value, "");
    case LLVMAtomicRMWBinOpSub:
        return LLVMBuildSub(builder, old, value, "");
    case LLVMAtomicRMWBinOpAnd:
        return LLVMBuildAnd(builder, old, value, "");
    case LLVMAtomicRMWBinOpOr:
        return LLVMBuildOr(builder, old, value, "");
    case LLVMAtomicRMWBinOpXor:
        return LLVMBuildXor(builder, old, value, "");
    case LLVMAtomicRMWBinOpMax:
        break;
    case LLVMAtomicRMWBinOpMin:
        predicate = LLVMIntSLT;
        break;
    case LLVMAtomicRMWBinOpUMax:
        predicate = LLVMIntUGT;
        break;
    case LLVMAtomicRMWBinOpUMin:
        predicate = LLVMIntULT;
        break;
    default:
        return NULL;
    }
    return LLVMBuildSelect(builder, LLVMBuildICmp(builder, predicate, old, value, ""), old, value, "");
}

static LLVMValueRef emit_exchange(LLVMBuilderRef builder, LLVMValueRef original, LLVMValueRef *operands)
{
    LLVMValueRef old = LLVMBuildLoad2(builder, LLVMTypeOf(operands[1]), operands[0], "");
    LLVMValueRef same = LLVMBuildICmp(builder, LLVMIntEQ, old, operands[1], "");
    LLVMValueRef both = LLVMGetPoison(LLVMTypeOf(original));

    LLVMBuildStore(builder, LLVMBuildSelect(builder, same, operands[2], old, ""), operands[0]);
    both = LLVMBuildInsertValue(builder, both, old, 0, "");
    return LLVMBuildInsertValue(builder, both, same, 1, "");
}

/* OpenCL's atomic_inc and atomic_dec wrap at the largest number, so they are plain additions and subtractions. */
static LLVMAtomicRMWBinOp operation_of(LLVMValueRef original)
{
    LLVMAtomicRMWBinOp operation = LLVMGetAtomicRMWBinOp(original);
    LLVMValueRef max = LLVMGetOperand(original, 1);

    if (operation == LLVMAtomicRMWBinOpUIncWrap && max == LLVMConstAllOnes(LLVMTypeOf(max)))
        return LLVMAtomicRMWBinOpAdd;
    if (operation == LLVMAtomicRMWBinOpUDecWrap && max == LLVMConstAllOnes(LLVMTypeOf(max)))
        return LLVMAtomicRMWBinOpSub;
    return operation;
}

/* The generation of AMD's Zen that the function is compiled for; 0: another processor. */
static uint32_t zen_generation(LLVMValueRef original)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(original));
    LLVMAttributeRef processor =
        LLVMGetStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "target-cpu", 10);
    uint32_t length = 0;
    const char *name = processor ? LLVMGetStringAttributeValue(processor, &length) : "";

    return length == strlen("znver1") && memcmp(name, "znver", length - 1) == 0 ? (uint32_t)(name[length - 1] - '0')
                                                                                : 0;
}

/*
 * Zen predicts which store a load takes its value from. The prediction may fail in a row of plain additions to memory
 * whose addresses come late, out of vectors. Each addition then costs 5 ns instead of 0.5 (measured on Zen 4, for some
 * registers and addresses). An exchange with addition was never seen to be slow.
 */
static LLVMValueRef emit_exchange_and_add(LLVMBuilderRef builder, LLVMAtomicRMWBinOp operation, LLVMValueRef *operands)
{
    static const char code[] = "xadd $0, ($2)", where[] = "=r,0,r,~{memory},~{dirflag},~{fpsr},~{flags}";
    LLVMTypeRef type = LLVMTypeOf(operands[1]);
    LLVMTypeRef call = LLVMFunctionType(type, (LLVMTypeRef[]){type, LLVMTypeOf(operands[0])}, 2, false);
    LLVMValueRef assembly =
        LLVMGetInlineAsm(call, code, strlen(code), where, strlen(where), true, false, LLVMInlineAsmDialectATT, false);
    LLVMValueRef added = operation == LLVMAtomicRMWBinOpSub ? LLVMBuildNeg(builder, operands[1], "") : operands[1];

    return LLVMBuildCall2(builder, call, assembly, (LLVMValueRef[]){added, operands[0]}, 2, "");
}

/* A group runs on one thread, so an operation on its local memory needs no bus lock. */
LLVMValueRef facet_emit_atomic(LLVMBuilderRef builder, LLVMValueRef original, LLVMValueRef *operands)
{
    bool exchange = LLVMIsAAtomicCmpXchgInst(original) != NULL,
         local = facet_is_local_memory(LLVMGetOperand(original, 0));
    LLVMAtomicRMWBinOp operation = exchange ? LLVMAtomicRMWBinOpXchg : operation_of(original);
    bool plain = operation <= LLVMAtomicRMWBinOpUMin && operation != LLVMAtomicRMWBinOpNand;
    LLVMValueRef made, old;

    if (local && exchange)
        return emit_exchange(builder, original, operands);
    if (!exchange && operation != LLVMGetAtomicRMWBinOp(original))
        operands[1] = LLVMConstInt(LLVMTypeOf(operands[1]), 1, false);
    uint32_t zen =
        operation == LLVMAtomicRMWBinOpAdd || operation == LLVMAtomicRMWBinOpSub ? zen_generation(original) : 0;
    if (local && zen > 0 && zen < 5)
        return emit_exchange_and_add(builder, operation, operands);
    if (local && plain && zen != 5) { /* on Zen 5 a plain operation is slower than a locked one */
        old = LLVMBuildLoad2(builder, LLVMTypeOf(operands[1]), operands[0], "");
        made = combine_values(builder, operation, old, operands[1]);
        LLVMBuildStore(builder, made, operands[0]);
        return old;
    }
    made = LLVMInstructionClone(original);
    for (uint32_t i = 0; i < (uint32_t)LLVMGetNumOperands(original); i++)
        LLVMSetOperand(made, i, operands[i]);
    if (!exchange)
        LLVMSetAtomicRMWBinOp(made, operation);
    LLVMInsertIntoBuilder(builder, made);
    return made;
}
