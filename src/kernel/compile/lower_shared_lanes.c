/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many work-items in the lanes of vectors: calls of shared functions, which are not inlined (lower_shared.c).
 *
 * Owns: the forms of shared functions that lanes call: an argument that is the same for all items is a number, any
 *       other argument a vector.
 * Never: decides which functions are shared.
 */
#include "lower_lanes.h"

#include <stdio.h>
#include <string.h>

enum { ARGUMENTS_MAX = 32 };

/* Attributes that LLVM has derived for the function, and that hold for its form for lanes, too. */
static const char *const promises[] = {"memory", "nounwind", "willreturn", "nosync", "nofree", "norecurse", "noinline"};

static LLVMAttributeRef attribute_of(LLVMValueRef function, const char *name)
{
    return LLVMGetEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                       LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

bool facet_is_shared_read(LLVMValueRef call)
{
    /* Two bits for each of a few kinds of memory: whether it is read, and whether it is written. */
    const uint64_t writes = UINT64_C(0xaaaaaaaaaaaaaaaa);
    LLVMAttributeRef memory = facet_is_shared_call(call) ? attribute_of(LLVMGetCalledValue(call), "memory") : NULL;

    return memory && !(LLVMGetEnumAttributeValue(memory) & writes);
}

/* Whether one of the arguments in `which` is a pointer. In the form for lanes it is a vector of pointers, which LLVM
 * does not take for a pointer argument, so the attribute `memory` would be wrong. */
static bool has_pointers(LLVMValueRef function, uint64_t which)
{
    for (uint32_t i = 0; which >> i; i++)
        if (which >> i & 1 && LLVMGetTypeKind(LLVMTypeOf(LLVMGetParam(function, i))) == LLVMPointerTypeKind)
            return true;
    return false;
}

static void promise_attributes(LLVMValueRef from, LLVMValueRef to, uint64_t varying)
{
    /* With pointers, the first attribute, `memory`, is left out. */
    for (size_t i = has_pointers(from, varying); i < sizeof(promises) / sizeof(*promises); i++) {
        LLVMAttributeRef attribute = attribute_of(from, promises[i]);

        if (attribute)
            LLVMAddAttributeAtIndex(to, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
    }
}

/* The form for lanes; NULL: there is none, and `refusal` says why. */
static LLVMValueRef form_for(struct facet_lanes *lanes, LLVMValueRef called, const struct facet_lanes_form *form)
{
    char name[96];
    size_t length;
    LLVMValueRef made;

    snprintf(name, sizeof name, "%.40s.%u.%llx%s", LLVMGetValueName2(called, &length), form->width,
             (unsigned long long)form->varying, form->masked ? ".part" : "");
    made = LLVMGetNamedFunction(lanes->module, name);
    if (made)
        return made;
    if (attribute_of(called, "optnone")) {
        facet_lanes_refuse(lanes, "a shared function's control flow that is not structured");
        return NULL;
    }
    if (!facet_lanes_make(lanes->arena, called, lanes->layout, form, name, &made, &lanes->refusal))
        return NULL;
    facet_function_describe(lanes->arena, called, made);
    promise_attributes(called, made, form->varying);
    return made;
}

void facet_lanes_call_shared(struct facet_lanes *lanes, LLVMValueRef call)
{
    LLVMValueRef arguments[ARGUMENTS_MAX], mask = lanes->masks[lanes->block], function, made;
    struct facet_lanes_form form = {
        .width = lanes->width, .register_lanes = lanes->register_lanes, .masked = mask != NULL, .shared = true};
    uint32_t count = LLVMGetNumArgOperands(call);

    for (uint32_t i = 0; i < count; i++)
        if (!facet_lanes_uniform(lanes, LLVMGetOperand(call, i)))
            form.varying |= UINT64_C(1) << i;
    function = form_for(lanes, LLVMGetCalledValue(call), &form);
    if (!function)
        return;
    for (uint32_t i = 0; i < count; i++)
        arguments[i] = form.varying >> i & 1 ? facet_lanes_vector(lanes, LLVMGetOperand(call, i))
                                             : facet_lanes_scalar(lanes, LLVMGetOperand(call, i));
    if (mask)
        arguments[count++] = mask;
    made = LLVMBuildCall2(lanes->builder, LLVMGlobalGetValueType(function), function, arguments, count, "");
    if (LLVMGetTypeKind(LLVMTypeOf(call)) == LLVMVoidTypeKind)
        return;
    if (LLVMCanValueUseFastMathFlags(call))
        LLVMSetFastMathFlags(made, LLVMGetFastMathFlags(call));
    facet_map_put(&lanes->vectors, call, made);
}
