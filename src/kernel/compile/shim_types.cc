/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: walking a module's types, and its alignments. Each type is visited once, so forty types, each of which has the
 * next one twice, are forty visits. */
#include "kernel/compile/shims.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>

using namespace llvm;

namespace
{

struct Walk {
    facet_type_func each;
    void *context;
    SmallPtrSet<Type *, 32> seen;

    void take(Type *type, Value &owner)
    {
        if (!seen.insert(type).second)
            return;
        each(context, wrap(type), wrap(&owner));
        for (Type *part : type->subtypes())
            take(part, owner);
    }

    void take(Instruction &instruction, Function &owner)
    {
        take(instruction.getType(), owner);
        for (Value *operand : instruction.operands())
            take(operand->getType(), owner);
        if (auto *slot = dyn_cast<AllocaInst>(&instruction))
            take(slot->getAllocatedType(), owner);
        if (auto *place = dyn_cast<GEPOperator>(&instruction))
            take(place->getSourceElementType(), owner);
    }
};

} // namespace

void facet_shim_types(LLVMModuleRef module, facet_type_func each, void *context)
{
    Walk walk = {each, context, {}};

    for (GlobalVariable &variable : unwrap(module)->globals())
        walk.take(variable.getValueType(), variable);
    for (Function &function : *unwrap(module)) {
        if (function.isIntrinsic())
            continue;
        walk.take(function.getFunctionType(), function);
        for (Instruction &instruction : instructions(function))
            walk.take(instruction, function);
    }
}

void facet_shim_alignments(LLVMModuleRef module, facet_alignment_func each, void *context)
{
    for (GlobalVariable &variable : unwrap(module)->globals())
        each(context, variable.getAlign().valueOrOne().value(), wrap(&variable));
    for (Function &function : *unwrap(module)) {
        each(context, function.getAlign().valueOrOne().value(), wrap(&function));
        for (Argument &parameter : function.args())
            if (parameter.hasPassPointeeByValueCopyAttr() || parameter.hasByRefAttr())
                each(context, parameter.getParamAlign().valueOrOne().value(), wrap(&parameter));
        for (Instruction &instruction : instructions(function))
            if (auto *slot = dyn_cast<AllocaInst>(&instruction))
                each(context, slot->getAlign().value(), wrap(slot));
    }
}
