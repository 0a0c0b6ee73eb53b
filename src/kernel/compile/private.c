/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: for AMDGPU, modules that are not from clang: private memory in its own address space, structs by reference.
 * Never: is used for modules that clang made for AMDGPU.
 */
#include <string.h>

#include "kernel/compile/compile.h"

/* Removes lifetime markers, which LLVM allows for an alloca only. */
static void drop_lifetimes(LLVMValueRef value)
{
    LLVMUseRef use = LLVMGetFirstUse(value);

    while (use) {
        LLVMValueRef user = LLVMGetUser(use), called = LLVMIsACallInst(user) ? LLVMGetCalledValue(user) : NULL;
        size_t length;
        use = LLVMGetNextUse(use);
        if (called && LLVMIsAFunction(called) && strncmp(LLVMGetValueName2(called, &length), "llvm.lifetime.", 14) == 0)
            LLVMInstructionEraseFromParent(user);
    }
}

/* Private memory of AMDGPU has its own address space, which the builder takes from the data layout. */
static void move_private(LLVMBuilderRef builder, LLVMValueRef variable)
{
    LLVMTypeRef type = LLVMTypeOf(variable);

    LLVMPositionBuilderBefore(builder, variable);
    LLVMValueRef moved = LLVMBuildArrayAlloca(builder, LLVMGetAllocatedType(variable), LLVMGetOperand(variable, 0), "");
    LLVMSetAlignment(moved, LLVMGetAlignment(variable));
    LLVMReplaceAllUsesWith(variable, LLVMBuildAddrSpaceCast(builder, moved, type, ""));
    LLVMInstructionEraseFromParent(variable);
}

/* A struct by value lies in the argument block, which is constant: the kernel gets a copy. */
static void copy_struct(LLVMBuilderRef builder, LLVMValueRef function, uint32_t index)
{
    unsigned byval = LLVMGetEnumAttributeKindForName("byval", 5), byref = LLVMGetEnumAttributeKindForName("byref", 5);
    LLVMAttributeRef attribute = LLVMGetEnumAttributeAtIndex(function, index + 1, byval);
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(function));
    LLVMValueRef given = LLVMGetParam(function, index);

    if (!attribute)
        return;
    LLVMTypeRef type = LLVMGetTypeAttributeValue(attribute);
    LLVMRemoveEnumAttributeAtIndex(function, index + 1, byval);
    LLVMAddAttributeAtIndex(function, index + 1, LLVMCreateTypeAttribute(context, byref, type));
    LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)));
    LLVMValueRef private_copy = LLVMBuildAlloca(builder, type, "");
    LLVMValueRef place = LLVMBuildAddrSpaceCast(builder, private_copy, LLVMTypeOf(given), "");
    LLVMReplaceAllUsesWith(given, place);
    LLVMBuildStore(builder, LLVMBuildLoad2(builder, type, given, ""), place);
}

static void move_function(LLVMBuilderRef builder, LLVMValueRef function, bool kernel)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block)) {
        for (LLVMValueRef next, at = LLVMGetFirstInstruction(block); at; at = next) {
            bool variable = LLVMIsAAllocaInst(at) && LLVMGetPointerAddressSpace(LLVMTypeOf(at)) == 0;
            if (variable)
                drop_lifetimes(at); /* one of these may be the next instruction */
            next = LLVMGetNextInstruction(at);
            if (variable)
                move_private(builder, at);
        }
    }
    for (uint32_t i = 0; kernel && i < LLVMCountParams(function); i++)
        copy_struct(builder, function, i);
    if (kernel)
        LLVMSetVisibility(function, LLVMProtectedVisibility);
}

void facet_compile_private(struct facet_compilation *compilation)
{
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(compilation->context);

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        if (!LLVMIsDeclaration(function))
            move_function(builder, function, LLVMGetFunctionCallConv(function) == compilation->flavour->convention);
    LLVMDisposeBuilder(builder);
}
