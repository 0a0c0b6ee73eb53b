/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: linking parts of the builtin library (shards: bitcode of a few functions each) into a module. This is C++,
 * since LLVM's C interface links whole modules only.
 * Never: changes functions that the module has.
 */
#include <set>
#include <string>
#include <vector>

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/IR/Module.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/MemoryBuffer.h>

#include "kernel/builtins/library.h"
#include "kernel/builtins/library_inside.h"

using namespace llvm;

namespace
{

struct Linking {
    const facet_archive *archive;
    Module &module;
    Linker linker;
    std::vector<std::string> names; /* of the functions that got bodies */
};

/* The shards of functions that the module lacks and the archive has. */
std::set<uint32_t> find_lacking(Linking &linking, std::vector<std::string> &names)
{
    std::set<uint32_t> shards;

    for (const Function &function : linking.module) {
        if (!function.isDeclaration() || function.isIntrinsic() || function.use_empty())
            continue;
        std::string name = function.getName().str();
        uint32_t shard = facet_archive_find(linking.archive, name.c_str());
        if (shard == FACET_ARCHIVE_NONE)
            continue;
        shards.insert(shard);
        names.push_back(name);
    }
    return shards;
}

facet_status check_types(const Module &module, const Module &shard, const std::vector<std::string> &names,
                         facet_error *error)
{
    for (const std::string &name : names) {
        const Function *body = shard.getFunction(name);
        if (body && !body->isDeclaration() && module.getFunction(name)->getFunctionType() != body->getFunctionType())
            return facet_error_set(
                error, FACET_INVALID_ARGUMENT,
                "the module declares the builtin function %s with a type that is not the builtin's: correct or "
                "remove the declaration",
                name.c_str());
    }
    return FACET_OK;
}

facet_status link_shard(Linking &linking, uint32_t index, const std::vector<std::string> &names, facet_error *error)
{
    const facet_archive_shard &place = linking.archive->shards[index];
    StringRef bytes((const char *)linking.archive->bytes + place.offset, place.size);
    auto shard = getLazyBitcodeModule(MemoryBufferRef(bytes, "builtins"), linking.module.getContext(), true);

    if (!shard)
        return facet_error_set(error, FACET_CORRUPT, "shard %u of the builtin functions: %s", index,
                               toString(shard.takeError()).c_str());
    facet_status status = check_types(linking.module, **shard, names, error);
    if (status != FACET_OK)
        return status;
    (*shard)->setDataLayout(linking.module.getDataLayout());
    (*shard)->setTargetTriple(linking.module.getTargetTriple());
    if (linking.linker.linkInModule(std::move(*shard), Linker::LinkOnlyNeeded))
        return facet_error_set(error, FACET_CORRUPT, "shard %u of the builtin functions cannot be linked", index);
    return FACET_OK;
}

/* One round of linking; *ret_more: there were functions to link, which may call others. */
facet_status link_round(Linking &linking, bool *ret_more, facet_error *error)
{
    std::vector<std::string> names;
    std::set<uint32_t> shards = find_lacking(linking, names);

    for (uint32_t shard : shards) {
        facet_status status = link_shard(linking, shard, names, error);
        if (status != FACET_OK)
            return status;
    }
    for (const std::string &name : names)
        if (linking.module.getFunction(name)->isDeclaration())
            return facet_error_set(error, FACET_CORRUPT, "the archive of builtin functions lists %s but lacks it",
                                   name.c_str());
    linking.names.insert(linking.names.end(), names.begin(), names.end());
    *ret_more = !names.empty();
    return FACET_OK;
}

} // namespace

extern "C" facet_status facet_builtins_link(const facet_builtins *library, LLVMModuleRef module, facet_error *error)
{
    Linking linking = {&library->archive, *unwrap(module), Linker(*unwrap(module)), {}};

    for (bool more = true; more;) {
        facet_status status = link_round(linking, &more, error);
        if (status != FACET_OK)
            return status;
    }
    for (const std::string &name : linking.names) /* only now, since shards cannot refer to internal functions */
        linking.module.getFunction(name)->setLinkage(GlobalValue::InternalLinkage);
    return FACET_OK;
}

extern "C" facet_status facet_builtins_link_libcall(const facet_builtins *library, LLVMModuleRef module,
                                                    const char *name, facet_error *error)
{
    Module &into = *unwrap(module);
    Linking linking = {&library->archive, into, Linker(into), {}};
    std::string prefixed_name = std::string(FACET_BUILTINS_LIBCALL) + name;
    uint32_t shard = facet_archive_find(linking.archive, prefixed_name.c_str());

    if (shard == FACET_ARCHIVE_NONE)
        return facet_error_set(
            error, FACET_INTERNAL,
            "the code generator calls '%s', which Facet's builtin library lacks: the kernel uses a type that this "
            "processor has no instructions for",
            name);
    if (into.getFunction(name))
        return FACET_OK;
    /*
     * The linker adds only functions that the module declares. The type of this declaration is a placeholder: the
     * shard's replaces it.
     */
    into.getOrInsertFunction(prefixed_name, Type::getVoidTy(into.getContext()));
    facet_status status = link_shard(linking, shard, {}, error);
    if (status != FACET_OK)
        return status;
    Function *function = into.getFunction(prefixed_name);
    function->setName(name);
    function->setVisibility(GlobalValue::HiddenVisibility);
    return facet_builtins_link(library, module, error);
}
