/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions as functions of their own, for kernels with many regions. LLVM looks for the entry conditions of each loop in
 * all code before the loop, which in one function is quadratic in the number of regions.
 *
 * Owns: the regions' functions, and their shared memory: a block in the run function, for values that are the same for
 *       all items. Never: decides which values are kept, or which region is next.
 */
#include "lower_group.h"

#include <string.h>

/* Reserves room for a value in the shared memory and returns its offset. */
uint32_t facet_outline_reserve(struct facet_former *former, LLVMTypeRef type)
{
    uint32_t align = LLVMABIAlignmentOfType(former->layout, type);
    uint32_t at = (former->state_bytes + align - 1) / align * align;

    former->state_bytes = at + (uint32_t)LLVMABISizeOfType(former->layout, type);
    if (align > former->state_align)
        former->state_align = align;
    return at;
}

static LLVMValueRef place_at(const struct facet_former *former, LLVMBuilderRef builder, LLVMValueRef state, uint32_t at)
{
    LLVMValueRef offset = LLVMConstInt(former->i64, at, 0);

    return LLVMBuildGEP2(builder, LLVMInt8TypeInContext(former->context), state, &offset, 1, "");
}

void facet_outline_start(struct facet_former *former)
{
    former->state_align = 16;
    former->state = LLVMBuildArrayAlloca(former->entry, LLVMInt8TypeInContext(former->context),
                                         facet_group_number(former, 1), "state");
}

void facet_outline_finish(struct facet_former *former)
{
    LLVMSetOperand(former->state, 0, facet_group_number(former, former->state_bytes + 1));
    LLVMSetAlignment(former->state, former->state_align);
}

static LLVMValueRef make_function(struct facet_former *former)
{
    static const char nounwind[] = "nounwind", noalias[] = "noalias";
    LLVMTypeRef pointer = LLVMPointerTypeInContext(former->context, 0);
    LLVMTypeRef type = LLVMFunctionType(former->i32, (LLVMTypeRef[]){pointer, pointer, pointer}, 3, 0);
    size_t length;
    const char *name = LLVMGetValueName2(former->run, &length);
    char *made = facet_arena_take(former->arena, length + sizeof FACET_REGION_SUFFIX);
    LLVMValueRef function;

    memcpy(made, name, length);
    memcpy(made + length, FACET_REGION_SUFFIX, sizeof FACET_REGION_SUFFIX);
    function = LLVMAddFunction(former->module, made, type);
    LLVMSetLinkage(function, LLVMInternalLinkage);
    facet_function_describe(former->arena, former->source, function);
    LLVMAddAttributeAtIndex(
        function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateEnumAttribute(former->context, LLVMGetEnumAttributeKindForName(nounwind, sizeof nounwind - 1), 0));
    LLVMAddAttributeAtIndex(/* no other pointer leads to the shared memory */
                            function, 3,
                            LLVMCreateEnumAttribute(former->context,
                                                    LLVMGetEnumAttributeKindForName(noalias, sizeof noalias - 1), 0));
    return function;
}

void facet_outline_begin(struct facet_former *former, struct facet_region *region, struct facet_outline *outline)
{
    LLVMValueRef function = make_function(former);

    *outline = (struct facet_outline){.run = former->run,
                                      .state = former->state,
                                      .entry = former->entry,
                                      .start = region->start,
                                      .after = region->after};
    former->outline = outline;
    former->in_outline = (struct facet_map){.arena = former->arena};
    former->run = function;
    former->state = LLVMGetParam(function, 2);
    former->entry = LLVMCreateBuilderInContext(former->context);
    LLVMPositionBuilderAtEnd(former->entry, LLVMAppendBasicBlockInContext(former->context, function, "entry"));
    region->start = LLVMAppendBasicBlockInContext(former->context, function, "region");
    region->after = LLVMAppendBasicBlockInContext(former->context, function, "after");
    facet_group_counters(former);
    for (uint32_t i = 0; i < former->kept_count; i++)
        former->kept_list[i]->slot = former->kept_list[i]->current = former->kept_list[i]->next = NULL;
}

LLVMValueRef facet_outline_end(struct facet_former *former, struct facet_region *region)
{
    struct facet_outline *outline = former->outline;
    LLVMValueRef function = former->run;
    LLVMValueRef operands[3] = {LLVMGetParam(outline->run, 0), LLVMGetParam(outline->run, 1), outline->state};

    LLVMBuildRet(former->builder, LLVMBuildLoad2(former->builder, former->i32, former->reached, ""));
    LLVMBuildBr(former->entry, region->start);
    LLVMDisposeBuilder(former->entry);
    former->run = outline->run;
    former->state = outline->state;
    former->entry = outline->entry;
    former->outline = NULL;
    region->start = outline->start;
    region->after = outline->after;
    LLVMPositionBuilderAtEnd(former->builder, region->start);
    LLVMBuildBr(former->builder, region->after);
    LLVMPositionBuilderAtEnd(former->builder, region->after);
    return LLVMBuildCall2(former->builder, LLVMGlobalGetValueType(function), function, operands, 3, "");
}

/* Loads, in a region's function, a value that the run function computes and stores in the shared memory. */
static LLVMValueRef load_computed_once(struct facet_former *former, LLVMValueRef value, LLVMValueRef known)
{
    const struct facet_outline *outline = former->outline;
    uintptr_t place = (uintptr_t)facet_map_get(&former->shared, value);
    LLVMTypeRef type = LLVMTypeOf(known);

    if (!place) {
        place = facet_outline_reserve(former, type) + (uintptr_t)1;
        facet_map_put(&former->shared, value, (void *)place);
        LLVMBuildStore(outline->entry, known, place_at(former, outline->entry, outline->state, (uint32_t)place - 1));
    }
    return LLVMBuildLoad2(former->entry, type, place_at(former, former->entry, former->state, (uint32_t)place - 1), "");
}

LLVMValueRef facet_outline_once(struct facet_former *former, LLVMValueRef value)
{
    LLVMValueRef known = facet_map_get(&former->once, value), here;

    if (!known || !former->outline || LLVMIsAConstant(known))
        return known;
    here = facet_map_get(&former->in_outline, value);
    if (here)
        return here;
    for (uint32_t i = 0; i < LLVMCountParams(former->source); i++)
        if (value == LLVMGetParam(former->source, i))
            return LLVMGetParam(former->run, i);
    here = LLVMIsACallInst(value) ? facet_group_call(former, value) : NULL;
    if (!here)
        here = load_computed_once(former, value, known);
    facet_map_put(&former->in_outline, value, here);
    return here;
}

LLVMValueRef facet_outline_slot(struct facet_former *former, struct facet_kept *kept)
{
    if (!kept->slot)
        kept->slot = facet_group_slot(former, LLVMTypeOf(kept->value));
    return kept->slot;
}

LLVMValueRef facet_outline_uniform(struct facet_former *former, struct facet_kept *kept, bool next)
{
    LLVMValueRef *slot = next ? &kept->next : &kept->current;

    if (!*slot && former->outline)
        *slot = place_at(former, former->entry, former->state, next ? kept->next_at : kept->current_at);
    else if (!*slot)
        *slot = facet_group_slot(former, LLVMTypeOf(kept->value));
    return *slot;
}
