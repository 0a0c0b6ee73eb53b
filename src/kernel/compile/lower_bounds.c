/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked images: the variable that a pointer leads into, and the variable's bounds.
 *
 * Owns: the bounds of private and local variables, local arguments and constants. Never: changes an access.
 *
 * A pointer that is chosen by selects and phis has bounds that are chosen in the same way. A pointer that was loaded
 * from memory has no bounds.
 */
#include "lower_check.h"

#include <facet/host_kernel.h>

/* Whether the value is a GEP, an instruction or a constant expression: an address within its first operand's object. */
static bool is_element(LLVMValueRef value)
{
    return LLVMIsAGetElementPtrInst(value) ||
           (LLVMIsAConstantExpr(value) && LLVMGetConstOpcode(value) == LLVMGetElementPtr);
}

/* The pointer number `index` of those that a pointer is derived from; NULL: no more, or the pointer is a root. */
static LLVMValueRef source_of(LLVMValueRef value, uint32_t index)
{
    if (is_element(value) || LLVMIsAFreezeInst(value))
        return index == 0 ? LLVMGetOperand(value, 0) : NULL;
    if (LLVMIsASelectInst(value))
        return index < 2 ? LLVMGetOperand(value, index + 1) : NULL;
    if (LLVMIsAPHINode(value))
        return index < LLVMCountIncoming(value) ? LLVMGetIncomingValue(value, index) : NULL;
    return NULL;
}

static uint32_t root_of(const struct facet_checker *checker, LLVMValueRef value)
{
    if (LLVMIsAAllocaInst(value))
        return FACET_ROOT_PRIVATE;
    if (value == LLVMGetParam(checker->function, 0))
        return FACET_ROOT_ARGUMENTS;
    if (facet_call_of(value) == FACET_CALL_WITHIN || facet_call_of(value) == FACET_CALL_LOCAL_MEMORY)
        return FACET_ROOT_LOCAL;
    if (LLVMIsAGlobalVariable(value))
        return FACET_ROOT_CONSTANT;
    if (LLVMIsConstant(value))
        return FACET_ROOT_GLOBAL;
    /* A pointer in the argument block comes from the host, so it leads to global memory. */
    if (LLVMIsALoadInst(value) && (LLVMGetOperand(value, 0) == LLVMGetParam(checker->function, 0) ||
                                   source_of(LLVMGetOperand(value, 0), 0) == LLVMGetParam(checker->function, 0)))
        return FACET_ROOT_GLOBAL;
    return FACET_ROOT_UNKNOWN;
}

static uint32_t roots_of(const struct facet_checker *checker, LLVMValueRef value, struct facet_map *seen)
{
    LLVMValueRef source = source_of(value, 0);
    uint32_t roots = 0;

    if (!source)
        return root_of(checker, value);
    if (facet_map_get(seen, value))
        return 0;
    facet_map_put(seen, value, value);
    for (uint32_t i = 0; (source = source_of(value, i)); i++)
        roots |= roots_of(checker, source, seen);
    return roots;
}

uint32_t facet_checker_roots(const struct facet_checker *checker, LLVMValueRef pointer)
{
    struct facet_map seen = {.arena = checker->arena};

    return roots_of(checker, pointer, &seen);
}

/* The size in bytes of a private variable or a constant of the image. */
static uint64_t size_of(const struct facet_checker *checker, LLVMValueRef variable)
{
    return LLVMABISizeOfType(checker->layout, LLVMIsAAllocaInst(variable) ? LLVMGetAllocatedType(variable)
                                                                          : LLVMGlobalGetValueType(variable));
}

static struct facet_bounds make_bounds(const struct facet_checker *checker, LLVMValueRef base, LLVMValueRef size,
                                       uint32_t outside)
{
    return (struct facet_bounds){base, size, LLVMConstInt(checker->i32, outside, 0)};
}

static struct facet_bounds *remember_bounds(struct facet_checker *checker, LLVMValueRef pointer,
                                            struct facet_bounds bounds)
{
    struct facet_bounds *known = facet_arena_take(checker->arena, sizeof(*known));

    *known = bounds;
    facet_map_put(&checker->bounds, pointer, known);
    return known;
}

static struct facet_bounds bounds_of_phi(struct facet_checker *checker, LLVMValueRef phi)
{
    struct facet_bounds made;

    LLVMPositionBuilderBefore(checker->builder, phi);
    made.base = LLVMBuildPhi(checker->builder, checker->pointer, "");
    made.size = LLVMBuildPhi(checker->builder, checker->i64, "");
    made.outside = LLVMBuildPhi(checker->builder, checker->i32, "");
    remember_bounds(checker, phi, made); /* before the search comes back to this phi */
    for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++) {
        struct facet_bounds one = facet_checker_bounds(checker, LLVMGetIncomingValue(phi, i));
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phi, i);

        LLVMAddIncoming(made.base, &one.base, &from, 1);
        LLVMAddIncoming(made.size, &one.size, &from, 1);
        LLVMAddIncoming(made.outside, &one.outside, &from, 1);
    }
    return made;
}

static struct facet_bounds bounds_of_select(struct facet_checker *checker, LLVMValueRef select)
{
    struct facet_bounds yes = facet_checker_bounds(checker, LLVMGetOperand(select, 1));
    struct facet_bounds no = facet_checker_bounds(checker, LLVMGetOperand(select, 2)), made;
    LLVMValueRef condition = LLVMGetOperand(select, 0);

    LLVMPositionBuilderBefore(checker->builder, select);
    made.base = LLVMBuildSelect(checker->builder, condition, yes.base, no.base, "");
    made.size = LLVMBuildSelect(checker->builder, condition, yes.size, no.size, "");
    made.outside = LLVMBuildSelect(checker->builder, condition, yes.outside, no.outside, "");
    return made;
}

/* The bounds of a pointer that is no phi or select. */
static struct facet_bounds bounds_of_root(const struct facet_checker *checker, LLVMValueRef root)
{
    LLVMTypeRef i64 = checker->i64;

    if (facet_call_of(root) == FACET_CALL_WITHIN)
        return make_bounds(checker, root, LLVMGetOperand(root, 1), FACET_CHECK_LOCAL | FACET_CHECK_OUTSIDE);
    if (LLVMIsAAllocaInst(root))
        return make_bounds(checker, root, LLVMConstInt(i64, size_of(checker, root), 0), FACET_CHECK_PRIVATE);
    if (LLVMIsAGlobalVariable(root))
        return make_bounds(checker, root, LLVMConstInt(i64, size_of(checker, root), 0), FACET_CHECK_OUTSIDE);
    return make_bounds(checker, LLVMConstNull(checker->pointer), LLVMConstInt(i64, 0, 0), 0);
}

struct facet_bounds facet_checker_bounds(struct facet_checker *checker, LLVMValueRef pointer)
{
    const struct facet_bounds *known = facet_map_get(&checker->bounds, pointer);
    struct facet_bounds made;

    if (known)
        return *known;
    if (LLVMIsAPHINode(pointer))
        return bounds_of_phi(checker, pointer);
    if (LLVMIsASelectInst(pointer))
        made = bounds_of_select(checker, pointer);
    else if (source_of(pointer, 0))
        made = facet_checker_bounds(checker, source_of(pointer, 0));
    else
        made = bounds_of_root(checker, pointer);
    if (LLVMIsAGetElementPtrInst(pointer))
        LLVMGEPSetNoWrapFlags(pointer, 0);
    return *remember_bounds(checker, pointer, made);
}

/* Adds the element's distance in bytes to *offset; false: the distance is not constant. */
static bool add_offset(const struct facet_checker *checker, LLVMValueRef element, int64_t *offset)
{
    LLVMTypeRef type = LLVMGetGEPSourceElementType(element);

    for (uint32_t i = 1; i < (uint32_t)LLVMGetNumOperands(element); i++) {
        LLVMValueRef index = LLVMGetOperand(element, i);
        int64_t count, distance;

        if (!LLVMIsAConstantInt(index))
            return false;
        count = LLVMConstIntGetSExtValue(index);
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            distance = (int64_t)LLVMOffsetOfElement(checker->layout, type, (unsigned)count);
            type = LLVMStructGetTypeAtIndex(type, (unsigned)count);
        } else {
            type = i > 1 ? LLVMGetElementType(type) : type;
            if (__builtin_mul_overflow(count, LLVMABISizeOfType(checker->layout, type), &distance))
                return false;
        }
        if (__builtin_add_overflow(*offset, distance, offset))
            return false;
    }
    return true;
}

bool facet_checker_inside(const struct facet_checker *checker, LLVMValueRef address, LLVMValueRef bytes)
{
    int64_t offset = 0;

    while (is_element(address)) {
        if (!add_offset(checker, address, &offset))
            return false;
        address = LLVMGetOperand(address, 0);
    }
    if (!LLVMIsAConstantInt(bytes))
        return false;
    if (!LLVMIsAAllocaInst(address) && !LLVMIsAGlobalVariable(address))
        return address == LLVMGetParam(checker->function, 0) && offset >= 0;
    uint64_t size = size_of(checker, address), count = LLVMConstIntGetZExtValue(bytes);
    return offset >= 0 && count <= size && (uint64_t)offset <= size - count;
}
