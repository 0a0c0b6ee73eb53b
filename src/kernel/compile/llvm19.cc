/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: llvm.h's interface for LLVM 19. Never: is built with another version. */
#include "kernel/compile/llvm.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Scalar/Scalarizer.h>
#include <llvm/Transforms/Utils/Cloning.h>

using namespace llvm;

LLVMBool LLVMIsAtomic(LLVMValueRef instruction)
{
    return unwrap<Instruction>(instruction)->isAtomic();
}

LLVMBool LLVMHasPrologueData(LLVMValueRef function)
{
    return unwrap<Function>(function)->hasPrologueData();
}

LLVMValueRef LLVMGetSwitchCaseValue(LLVMValueRef instruction, unsigned index)
{
    return wrap((unwrap<SwitchInst>(instruction)->case_begin() + (index - 1))->getCaseValue());
}

/* LLVM 19's scalarizer has these options, but its pass cannot be given them by name. */
static bool parse_scalarizer(StringRef name, FunctionPassManager &passes, ArrayRef<PassBuilder::PipelineElement>)
{
    ScalarizerPassOptions options;

    if (name != "scalarizer<load-store;no-variable-insert-extract>")
        return false;
    options.ScalarizeLoadStore = true;
    options.ScalarizeVariableInsertExtract = false;
    passes.addPass(ScalarizerPass(options));
    return true;
}

LLVMErrorRef facet_llvm_passes(LLVMModuleRef module, const char *passes, LLVMTargetMachineRef machine)
{
    PassBuilder builder(reinterpret_cast<TargetMachine *>(machine));
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager calls;
    ModuleAnalysisManager modules;
    ModulePassManager manager;

    builder.registerPipelineParsingCallback(parse_scalarizer);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(calls);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, calls, modules);
    if (Error failed = builder.parsePassPipeline(manager, passes))
        return wrap(std::move(failed));
    manager.run(*unwrap(module), modules);
    return LLVMErrorSuccess;
}

/* Clang 19 lists kernels for nvptx64 in !nvvm.annotations; the generator accepts the calling convention, too. */
static void take_annotations(Module &module)
{
    NamedMDNode *annotations = module.getNamedMetadata("nvvm.annotations");

    if (!annotations)
        return;
    for (MDNode *annotation : annotations->operands()) {
        auto *function = mdconst::dyn_extract_or_null<Function>(annotation->getOperand(0));
        auto *what = dyn_cast<MDString>(annotation->getOperand(1));
        if (function && what && what->getString() == "kernel")
            function->setCallingConv(CallingConv::PTX_Kernel);
    }
    annotations->eraseFromParent();
}

static bool is_kernel(const Function &function)
{
    CallingConv::ID convention = function.getCallingConv();

    return !function.isDeclaration() &&
           (convention == CallingConv::PTX_Kernel || convention == CallingConv::AMDGPU_KERNEL ||
            convention == CallingConv::SPIR_KERNEL);
}

static bool is_call(const User *user, const Function &kernel)
{
    auto *call = dyn_cast<CallBase>(user);

    return call && call->getCalledOperand() == &kernel;
}

/* A kernel cannot be called, so its callers call a copy of its body, which has the name that clang 22 would give it. */
static void divert_calls(Function &kernel)
{
    ValueToValueMapTy map;

    if (none_of(kernel.users(), [&](const User *user) { return is_call(user, kernel); }))
        return;
    Function *body = CloneFunction(&kernel, map);
    body->setName("__clang_ocl_kern_imp_" + kernel.getName());
    body->setLinkage(GlobalValue::InternalLinkage);
    body->setVisibility(GlobalValue::DefaultVisibility);
    body->setCallingConv(CallingConv::C);
    for (User *user : make_early_inc_range(kernel.users())) { /* including calls in the copy */
        if (!is_call(user, kernel))
            continue;
        cast<CallBase>(user)->setCalledFunction(body);
        cast<CallBase>(user)->setCallingConv(CallingConv::C);
    }
}

void facet_llvm_settle_kernels(LLVMModuleRef module)
{
    SmallVector<Function *, 16> kernels;

    take_annotations(*unwrap(module));
    for (Function &function : *unwrap(module))
        if (is_kernel(function))
            kernels.push_back(&function);
    for (Function *kernel : kernels)
        divert_calls(*kernel);
}

void facet_llvm_require_group(LLVMValueRef kernel, const uint32_t *size)
{
    static const char *const names[] = {"reqntidx", "reqntidy", "reqntidz"};
    auto *function = unwrap<Function>(kernel);
    LLVMContext &context = function->getContext();
    NamedMDNode *annotations = function->getParent()->getOrInsertNamedMetadata("nvvm.annotations");

    for (int i = 0; i < 3; i++) {
        auto *value = ConstantInt::get(Type::getInt32Ty(context), size[i]);
        annotations->addOperand(MDNode::get(
            context, {ValueAsMetadata::get(function), MDString::get(context, names[i]), ValueAsMetadata::get(value)}));
    }
}
