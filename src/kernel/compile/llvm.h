/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One interface for LLVM 22 and 19, with LLVM 22's behaviour.
 *
 * Owns: the differences in LLVM's C interface, and in the conventions between clang and the generators. For LLVM 22
 * they are here, for LLVM 19 in llvm19.cc, which is built with LLVM 19 only.
 * Never: decides anything. Beside this file, the C++ files behind shims.h, shape.c and lower_lanes.c test LLVM's
 * version.
 */
#ifndef FACET_KERNEL_COMPILE_LLVM_H
#define FACET_KERNEL_COMPILE_LLVM_H

#include <stdint.h>
#include <stdio.h>

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>

#ifdef __cplusplus
extern "C" {
#endif

#if LLVM_VERSION_MAJOR >= 22

/* LLVMRunPasses() with default options; passes have LLVM 22's names. */
static inline LLVMErrorRef facet_llvm_passes(LLVMModuleRef module, const char *passes, LLVMTargetMachineRef machine)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef failed = LLVMRunPasses(module, passes, machine, options);

    LLVMDisposePassBuilderOptions(options);
    return failed;
}

/*
 * Clang 22's output needs no change: kernels are known by their calling convention, and a call of a kernel calls the
 * function that clang makes next to it.
 */
static inline void facet_llvm_settle_kernels(LLVMModuleRef module)
{
    (void)module;
}

/* Makes the PTX state that a kernel is for groups of this size only. */
static inline void facet_llvm_require_group(LLVMValueRef kernel, const uint32_t *size)
{
    LLVMContextRef context = LLVMGetModuleContext(LLVMGetGlobalParent(kernel));
    char text[64];
    int length = snprintf(text, sizeof text, "%u,%u,%u", size[0], size[1], size[2]);

    LLVMAddAttributeAtIndex(kernel, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(context, "nvvm.reqntid", 12, text, (unsigned)length));
}

#else

LLVMBool LLVMIsAtomic(LLVMValueRef instruction);
LLVMBool LLVMHasPrologueData(LLVMValueRef function);
LLVMValueRef LLVMGetSwitchCaseValue(LLVMValueRef instruction, unsigned index);
LLVMErrorRef facet_llvm_passes(LLVMModuleRef module, const char *passes, LLVMTargetMachineRef machine);
void facet_llvm_settle_kernels(LLVMModuleRef module);
void facet_llvm_require_group(LLVMValueRef kernel, const uint32_t *size);

#endif

#ifdef __cplusplus
}
#endif
#endif
