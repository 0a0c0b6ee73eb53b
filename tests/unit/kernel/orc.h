/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be included after cmocka.h.
 *
 * Owns: making a context for modules that the JIT of LLVM 22 or 19 takes, and parsing modules from text.
 * Never: runs the JIT.
 */
#ifndef FACET_TEST_KERNEL_ORC_H
#define FACET_TEST_KERNEL_ORC_H

#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Orc.h>
#include <llvm/Config/llvm-config.h>

static inline LLVMOrcThreadSafeContextRef orc_context(LLVMContextRef *ret_context)
{
#if LLVM_VERSION_MAJOR >= 22
    *ret_context = LLVMContextCreate();
    return LLVMOrcCreateNewThreadSafeContextFromLLVMContext(*ret_context);
#else
    LLVMOrcThreadSafeContextRef safe = LLVMOrcCreateNewThreadSafeContext();

    *ret_context = LLVMOrcThreadSafeContextGetContext(safe);
    return safe;
#endif
}

static inline LLVMModuleRef orc_parse(LLVMContextRef context, const char *text)
{
    char *message = NULL;
    LLVMModuleRef module = NULL;
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");

    if (LLVMParseIRInContext(context, buffer, &module, &message))
        fail_msg("%s", message);
    return module;
}

#endif
