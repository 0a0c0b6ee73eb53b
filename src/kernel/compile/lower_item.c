/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The item function of a kernel: arguments out of their block, `__local` variables out of the group's memory, divisions
 * that do not trap.
 *
 * Owns: the layout of local memory. Never: looks at control flow.
 */
#include "lower_inside.h"

#include <stdio.h>
#include <string.h>

#include <facet/host_kernel.h>

#define PRIVATE_MAX_BYTES (UINT64_C(64) << 20) /* of an item, so that the bytes of a chunk fit into 32 bits */
#define LOCAL_MAX_BYTES   (UINT64_C(1) << 30)  /* local memory of a kernel */

#define LOCAL_MEMORY_NAME   "__facet_local_memory"
#define WITHIN_NAME         "__facet_within"
#define DYNAMIC_OFFSET_NAME "__facet_dynamic_offset" /* where local arguments begin, behind the local variables */

struct maker {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef i8, i32, i64, pointer;
    bool check;
};

static struct maker make_maker(LLVMModuleRef module)
{
    LLVMContextRef context = LLVMGetModuleContext(module);

    return (struct maker){.context = context,
                          .module = module,
                          .builder = LLVMCreateBuilderInContext(context),
                          .i8 = LLVMInt8TypeInContext(context),
                          .i32 = LLVMInt32TypeInContext(context),
                          .i64 = LLVMInt64TypeInContext(context),
                          .pointer = LLVMPointerTypeInContext(context, 0)};
}

/* Calls a function that has no effects. Its arguments are none, or a pointer and a number. */
static LLVMValueRef call_pure(struct maker *maker, const char *name, LLVMTypeRef result, LLVMValueRef *arguments,
                              uint32_t count)
{
    static const char *const promises[] = {"nounwind", "willreturn", "nosync", "nofree", "speculatable", "memory"};
    LLVMTypeRef types[] = {maker->pointer, maker->i64}, type = LLVMFunctionType(result, types, count, 0);
    LLVMValueRef function = facet_function_declare(maker->module, name, type);

    for (size_t i = 0; i < sizeof(promises) / sizeof(*promises); i++)
        LLVMAddAttributeAtIndex(
            function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(maker->context, LLVMGetEnumAttributeKindForName(promises[i], strlen(promises[i])),
                                    0));
    return LLVMBuildCall2(maker->builder, type, function, arguments, count, "");
}

static LLVMValueRef load_argument(struct maker *maker, LLVMValueRef block, uint32_t offset, LLVMTypeRef type)
{
    LLVMValueRef place = LLVMConstInt(maker->i64, offset, 0), load;

    place = LLVMBuildGEP2(maker->builder, maker->i8, block, &place, 1, "");
    load = LLVMBuildLoad2(maker->builder, type, place, "");
    LLVMSetAlignment(load, offset % 16 == 0 ? 16 : offset % 8 == 0 ? 8 : offset % 4 == 0 ? 4 : offset % 2 == 0 ? 2 : 1);
    LLVMSetMetadata(load, LLVMGetMDKindIDInContext(maker->context, "invariant.load", 14),
                    LLVMMetadataAsValue(maker->context, LLVMMDNodeInContext2(maker->context, NULL, 0)));
    return load;
}

static LLVMValueRef number_argument(struct maker *maker, LLVMValueRef block, uint32_t offset)
{
    return LLVMBuildZExt(maker->builder, load_argument(maker, block, offset, maker->i32), maker->i64, "");
}

static LLVMValueRef offset_pointer(struct maker *maker, LLVMValueRef place, LLVMValueRef bytes)
{
    return call_pure(maker, WITHIN_NAME, maker->pointer, (LLVMValueRef[]){place, bytes}, 2);
}

static LLVMValueRef local_argument(struct maker *maker, LLVMValueRef block, const struct facet_lower_argument *argument)
{
    LLVMValueRef bytes = number_argument(maker, block, argument->offset);
    LLVMValueRef memory = call_pure(maker, LOCAL_MEMORY_NAME, maker->pointer, NULL, 0);

    bytes = LLVMBuildAdd(maker->builder, bytes, call_pure(maker, DYNAMIC_OFFSET_NAME, maker->i64, NULL, 0), "");
    memory = LLVMBuildGEP2(maker->builder, maker->i8, memory, &bytes, 1, "");
    if (argument->bytes < FACET_HOST_LOCAL_CHECKED)
        return memory;
    return offset_pointer(maker, memory, number_argument(maker, block, argument->offset + 4));
}

static LLVMValueRef make_argument(struct maker *maker, LLVMValueRef block, const struct facet_lower_argument *argument,
                                  LLVMTypeRef type)
{
    bool pointer = LLVMGetTypeKind(type) == LLVMPointerTypeKind;
    LLVMValueRef place, value;

    switch (argument->kind) {
    case FACET_ARGUMENT_LOCAL:
        return local_argument(maker, block, argument);
    case FACET_ARGUMENT_VALUE:
        if (!pointer)
            return load_argument(maker, block, argument->offset, type);
        place = LLVMConstInt(maker->i64, argument->offset, 0); /* a struct, by value */
        return LLVMBuildGEP2(maker->builder, maker->i8, block, &place, 1, "");
    case FACET_ARGUMENT_SAMPLER:
        value = load_argument(maker, block, argument->offset, maker->i32);
        if (pointer)
            return LLVMBuildIntToPtr(maker->builder, LLVMBuildZExt(maker->builder, value, maker->i64, ""), type, "");
        return LLVMBuildIntCast2(maker->builder, value, type, 0, "");
    default:
        return load_argument(maker, block, argument->offset, type);
    }
}

LLVMValueRef facet_item_make(struct facet_arena *arena, LLVMModuleRef module, const struct facet_lower_kernel *kernel)
{
    struct maker maker = make_maker(module);
    LLVMValueRef called = LLVMGetNamedFunction(module, kernel->name), item, *arguments;
    uint32_t count = LLVMCountParams(called);
    size_t size = strlen(kernel->name) + 16;
    char *name = facet_arena_take(arena, size);

    arguments = facet_arena_take(arena, (count + 1) * sizeof(*arguments));
    snprintf(name, size, "facet_item.%s", kernel->name);
    item = LLVMAddFunction(
        module, name,
        LLVMFunctionType(LLVMVoidTypeInContext(maker.context), (LLVMTypeRef[]){maker.pointer, maker.pointer}, 2, 0));
    LLVMPositionBuilderAtEnd(maker.builder, LLVMAppendBasicBlockInContext(maker.context, item, "entry"));
    for (uint32_t i = 0; i < count; i++)
        arguments[i] =
            make_argument(&maker, LLVMGetParam(item, 0), &kernel->arguments[i], LLVMTypeOf(LLVMGetParam(called, i)));
    LLVMBuildCall2(maker.builder, LLVMGlobalGetValueType(called), called, arguments, count, "");
    LLVMBuildRetVoid(maker.builder);
    LLVMDisposeBuilder(maker.builder);
    return item;
}

/* Turns a constant that contains the variable's address into instructions with `place` instead. NULL: it contains no
 * such address. */
static LLVMValueRef rebuild_constant(struct maker *maker, LLVMValueRef constant, LLVMValueRef variable,
                                     LLVMValueRef place)
{
    LLVMValueRef parts[8], changed = NULL;
    uint32_t count;

    if (constant == variable)
        return place;
    if (!LLVMIsAConstantExpr(constant) || LLVMGetNumOperands(constant) > 8)
        return NULL;
    count = (uint32_t)LLVMGetNumOperands(constant);
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef part = rebuild_constant(maker, LLVMGetOperand(constant, i), variable, place);

        parts[i] = part ? part : LLVMGetOperand(constant, i);
        changed = part ? part : changed;
    }
    if (!changed)
        return NULL;
    switch (LLVMGetConstOpcode(constant)) {
    case LLVMGetElementPtr:
        return LLVMBuildGEP2(maker->builder, LLVMGetGEPSourceElementType(constant), parts[0], parts + 1, count - 1, "");
    case LLVMPtrToInt:
    case LLVMIntToPtr:
    case LLVMTrunc:
    case LLVMBitCast:
        return LLVMBuildCast(maker->builder, LLVMGetConstOpcode(constant), parts[0], LLVMTypeOf(constant), "");
    default:
        return count == 2 ? LLVMBuildBinOp(maker->builder, LLVMGetConstOpcode(constant), parts[0], parts[1], "") : NULL;
    }
}

static bool mentions_variable(LLVMValueRef value, LLVMValueRef variable)
{
    if (value == variable)
        return true;
    for (int i = 0; LLVMIsAConstantExpr(value) && i < LLVMGetNumOperands(value); i++)
        if (mentions_variable(LLVMGetOperand(value, (unsigned)i), variable))
            return true;
    return false;
}

static LLVMValueRef local_place(struct maker *maker, LLVMValueRef variable, uint64_t offset)
{
    LLVMValueRef bytes = LLVMConstInt(maker->i64, offset, 0), place;

    place = call_pure(maker, LOCAL_MEMORY_NAME, maker->pointer, NULL, 0);
    place = LLVMBuildGEP2(maker->builder, maker->i8, place, &bytes, 1, "");
    if (!maker->check)
        return place;
    uint64_t size = LLVMABISizeOfType(LLVMGetModuleDataLayout(maker->module), LLVMGlobalGetValueType(variable));
    return offset_pointer(maker, place, LLVMConstInt(maker->i64, size, 0));
}

/* Replaces the variable in the item by its place in local memory. Returns whether the item uses the variable at all. */
static bool place_variable(struct maker *maker, LLVMValueRef item, LLVMValueRef variable, uint64_t offset)
{
    LLVMValueRef first = LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(item)), place = NULL;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            for (int i = 0; i < LLVMGetNumOperands(at); i++) {
                LLVMValueRef operand = LLVMGetOperand(at, (unsigned)i);

                if (!LLVMIsAConstant(operand) || !mentions_variable(operand, variable))
                    continue;
                LLVMPositionBuilderBefore(maker->builder, first);
                if (!place)
                    place = local_place(maker, variable, offset);
                LLVMSetOperand(at, (unsigned)i, rebuild_constant(maker, operand, variable, place));
            }
    return place != NULL;
}

/* Places all local variables. Returns their bytes; UINT32_MAX: more than LOCAL_MAX_BYTES. */
static uint32_t place_variables(struct maker *maker, LLVMValueRef item)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(maker->module);
    size_t length = strlen(FACET_LOWER_LOCAL), ignored;
    uint64_t used = 0;

    for (LLVMValueRef global = LLVMGetFirstGlobal(maker->module); global; global = LLVMGetNextGlobal(global)) {
        uint64_t align, at;

        if (strncmp(LLVMGetValueName2(global, &ignored), FACET_LOWER_LOCAL, length) != 0)
            continue;
        align = LLVMGetAlignment(global) > 64 ? LLVMGetAlignment(global) : 64;
        at = (used + align - 1) / align * align;
        if (place_variable(maker, item, global, at))
            used = at + LLVMABISizeOfType(layout, LLVMGlobalGetValueType(global));
        if (used > LOCAL_MAX_BYTES)
            return UINT32_MAX;
    }
    return (uint32_t)((used + FACET_HOST_LOCAL_ALIGN - 1) / FACET_HOST_LOCAL_ALIGN * FACET_HOST_LOCAL_ALIGN);
}

/* For a call whose dimension is not constant: calls for each dimension, and chooses among the results. */
static LLVMValueRef choose_dimension(struct maker *maker, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call), dimension = LLVMGetOperand(call, 0), result;
    enum facet_call kind = facet_call_of(call);
    bool size = kind >= FACET_CALL_GROUP_SIZE && kind <= FACET_CALL_GLOBAL_SIZE;

    result = LLVMConstInt(maker->i32, size, 0);
    for (uint32_t d = 0; d < 3; d++) {
        LLVMValueRef number = LLVMConstInt(maker->i32, d, 0);
        LLVMValueRef one = LLVMBuildCall2(maker->builder, LLVMGlobalGetValueType(callee), callee, &number, 1, "");

        result = LLVMBuildSelect(maker->builder, LLVMBuildICmp(maker->builder, LLVMIntEQ, dimension, number, ""), one,
                                 result, "");
    }
    return result;
}

static void resolve_call(struct maker *maker, LLVMValueRef call, uint32_t local_bytes)
{
    enum facet_call kind = facet_call_of(call);
    LLVMValueRef made = NULL;
    size_t ignored;

    LLVMPositionBuilderBefore(maker->builder, call);
    if (kind >= FACET_CALL_LOCAL_ID && kind <= FACET_CALL_OFFSET) {
        LLVMValueRef dimension = LLVMGetOperand(call, 0);

        if (!LLVMIsAConstantInt(dimension) || LLVMConstIntGetZExtValue(dimension) > 2)
            made = choose_dimension(maker, call);
    } else if (kind == FACET_CALL_OTHER && LLVMIsAFunction(LLVMGetCalledValue(call)) &&
               strcmp(LLVMGetValueName2(LLVMGetCalledValue(call), &ignored), DYNAMIC_OFFSET_NAME) == 0) {
        made = LLVMConstInt(maker->i64, local_bytes, 0);
    }
    if (!made)
        return;
    LLVMReplaceAllUsesWith(call, made);
    LLVMInstructionEraseFromParent(call);
}

/* Whether a call's result or effect may differ between work-groups that are neighbours in x. */
static bool sees_groups(LLVMValueRef call)
{
    switch (facet_call_of(call)) {
    case FACET_CALL_BARRIER:
    case FACET_CALL_LOCAL_MEMORY:
        return true;
    case FACET_CALL_LOCAL_ID:
    case FACET_CALL_GROUP_ID:
    case FACET_CALL_GROUP_SIZE:
    case FACET_CALL_GRID:
    case FACET_CALL_OFFSET:
        return LLVMConstIntGetZExtValue(LLVMGetOperand(call, 0)) == 0;
    default:
        return false;
    }
}

/*
 * Whether rows of work-groups may run in one call (FACET_HOST_ROWS): no item can tell groups in x apart. An item with
 * loops may not: a row is not left before its end, so all its groups must be short.
 */
static bool is_of_rows(struct facet_arena *arena, LLVMValueRef item, const struct facet_lower_kernel *kernel)
{
    if (kernel->required_group_size[0] || facet_item_has_loop(arena, item))
        return false;
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            if (sees_groups(at))
                return false;
    return true;
}

void facet_item_resolve(struct facet_arena *arena, LLVMValueRef item, struct facet_lower_kernel *kernel, bool check)
{
    struct maker maker = make_maker(LLVMGetGlobalParent(item));

    maker.check = check;
    kernel->local_bytes = place_variables(&maker, item);
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (facet_call_of(at) == FACET_CALL_BARRIER)
                kernel->flags |= FACET_HOST_BARRIERS;
            if (LLVMIsACallInst(at))
                resolve_call(&maker, at, kernel->local_bytes);
        }
    if (is_of_rows(arena, item, kernel))
        kernel->flags |= FACET_HOST_ROWS;
    LLVMDisposeBuilder(maker.builder);
}

const char *facet_item_unsupported_call(LLVMValueRef item)
{
    size_t length;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            LLVMValueRef callee = LLVMIsACallInst(at) ? LLVMGetCalledValue(at) : NULL;

            if (callee && LLVMIsAFunction(callee) && facet_call_of(at) == FACET_CALL_OTHER &&
                !LLVMGetIntrinsicID(callee) && !facet_is_shared_call(at))
                return LLVMGetValueName2(callee, &length);
        }
    return NULL;
}

static const char *obstacle_of(LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMAlloca:
        if (!LLVMIsAConstantInt(LLVMGetOperand(instruction, 0)) ||
            LLVMConstIntGetZExtValue(LLVMGetOperand(instruction, 0)) != 1 ||
            LLVMGetInstructionParent(instruction) !=
                LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction))))
            return "has private memory whose size is not known at its beginning";
        return NULL;
    case LLVMCall:
        if (LLVMIsAInlineAsm(LLVMGetCalledValue(instruction)))
            return "has inline assembly";
        return LLVMIsAFunction(LLVMGetCalledValue(instruction)) ? NULL : "calls through a pointer";
    case LLVMRet:
    case LLVMBr:
    case LLVMSwitch:
    case LLVMUnreachable:
        return NULL;
    default:
        return LLVMIsATerminatorInst(instruction) ? "has control flow other than branches and switches" : NULL;
    }
}

const char *facet_item_obstacle(LLVMValueRef item)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(LLVMGetGlobalParent(item));
    uint64_t bytes = 0;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            if (obstacle_of(at))
                return obstacle_of(at);
            if (LLVMIsAAllocaInst(at))
                bytes += facet_private_stride(at, layout);
            if (bytes > PRIVATE_MAX_BYTES)
                return "has more than 64 MiB of private memory for each work-item";
        }
    return NULL;
}

static uint32_t count_elements(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

/* Whether the divisor is a constant, each element of which is neither 0 nor all ones. */
static bool is_safe_divisor(LLVMValueRef divisor)
{
    LLVMTypeRef type = LLVMTypeOf(divisor);

    for (uint32_t i = 0; i < count_elements(type); i++) {
        LLVMValueRef one = divisor;

        if (LLVMIsAConstant(divisor) && LLVMGetTypeKind(type) == LLVMVectorTypeKind)
            one = LLVMGetAggregateElement(divisor, i);
        if (!one || !LLVMIsAConstantInt(one) || LLVMIsNull(one) || one == LLVMConstAllOnes(LLVMTypeOf(one)))
            return false;
    }
    return true;
}

/* A constant whose elements all are 1 or, with `highest`, the number that has only its highest bit set. */
static LLVMValueRef integer_constant(struct facet_arena *arena, LLVMTypeRef type, bool highest)
{
    bool vector = LLVMGetTypeKind(type) == LLVMVectorTypeKind;
    LLVMTypeRef element = vector ? LLVMGetElementType(type) : type;
    uint32_t bits = LLVMGetIntTypeWidth(element), bit = highest ? bits - 1 : 0, count = count_elements(type);
    uint64_t *words = facet_arena_take(arena, (bits / 64 + 1) * sizeof(*words));
    LLVMValueRef *elements = facet_arena_take(arena, count * sizeof(*elements));

    words[bit / 64] = UINT64_C(1) << bit % 64;
    for (uint32_t i = 0; i < count; i++)
        elements[i] = LLVMConstIntOfArbitraryPrecision(element, bits / 64 + 1, words);
    return vector ? LLVMConstVector(elements, count) : elements[0];
}

/*
 * Replaces the divisor by 1 where the division would trap; OpenCL only leaves the value undefined there. The divisor is
 * frozen, since the comparison and the division must see one value.
 */
static void guard_division(struct facet_arena *arena, LLVMBuilderRef builder, LLVMValueRef division)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(division);
    LLVMTypeRef type = LLVMTypeOf(division);
    LLVMValueRef dividend = LLVMGetOperand(division, 0), divisor = LLVMGetOperand(division, 1), bad, overflow;

    if (is_safe_divisor(divisor))
        return;
    LLVMPositionBuilderBefore(builder, division);
    divisor = LLVMBuildFreeze(builder, divisor, "");
    bad = LLVMBuildICmp(builder, LLVMIntEQ, divisor, LLVMConstNull(type), "");
    if (opcode == LLVMSDiv || opcode == LLVMSRem) {
        dividend = LLVMBuildFreeze(builder, dividend, "");
        LLVMSetOperand(division, 0, dividend);
        overflow =
            LLVMBuildAnd(builder, LLVMBuildICmp(builder, LLVMIntEQ, divisor, LLVMConstAllOnes(type), ""),
                         LLVMBuildICmp(builder, LLVMIntEQ, dividend, integer_constant(arena, type, true), ""), "");
        bad = LLVMBuildOr(builder, bad, overflow, "");
    }
    LLVMSetOperand(division, 1, LLVMBuildSelect(builder, bad, integer_constant(arena, type, false), divisor, ""));
    if (opcode == LLVMUDiv || opcode == LLVMSDiv)
        LLVMSetExact(division, 0);
}

void facet_item_divide(struct facet_arena *arena, LLVMValueRef function)
{
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(LLVMGetGlobalParent(function)));

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            switch (LLVMGetInstructionOpcode(at)) {
            case LLVMUDiv:
            case LLVMSDiv:
            case LLVMURem:
            case LLVMSRem:
                guard_division(arena, builder, at);
                break;
            default:
                break;
            }
    LLVMDisposeBuilder(builder);
}
