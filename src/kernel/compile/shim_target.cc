/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: asking LLVM about processors. Never: makes LLVM print a message about an unknown processor. */
#include "kernel/compile/shims.h"

#include <memory>
#include <string>

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>

namespace
{

std::unique_ptr<llvm::MCSubtargetInfo> describe(const char *triple, const char *processor, const char *features)
{
    std::string error;
#if LLVM_VERSION_MAJOR >= 22
    const llvm::Triple name(triple);
#else
    const llvm::StringRef name(triple);
#endif
    const llvm::Target *target = llvm::TargetRegistry::lookupTarget(name, error);

    return std::unique_ptr<llvm::MCSubtargetInfo>(target ? target->createMCSubtargetInfo(name, processor, features)
                                                         : nullptr);
}

} // namespace

int facet_shim_knows(const char *triple, const char *processor)
{
    auto any = describe(triple, "", "");

    return any && any->isCPUStringValid(processor);
}

void facet_shim_features(const char *triple, const char *processor, const char *features, facet_feature_func each,
                         void *context)
{
    auto one = describe(triple, processor, features);

    if (!one)
        return;
    for (const llvm::SubtargetFeatureKV &feature : one->getEnabledProcessorFeatures())
        each(context, feature.Key);
}

void facet_shim_align_loops(LLVMTargetMachineRef machine, unsigned bytes)
{
    reinterpret_cast<llvm::TargetMachine *>(machine)->Options.LoopAlignment = bytes;
}
