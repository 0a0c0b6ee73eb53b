/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build-time tool: makes an archive of builtin functions (archive.h) of libclc's generic library and our own functions.
 *
 * usage: prepare --host|--ptx|--amdgcn OUTPUT LIBCLC OURS...      bitcode or text; functions of OURS replace those of
 *                                                                 LIBCLC, and call the replaced ones as __libclc_NAME
 *
 * Owns: the form of the functions in the archive: without attributes of a processor; small functions are always
 *       inlined; for the host without address spaces, since its vectorizer cannot compare pointers of different spaces;
 *       for PTX with tables in global memory.
 * Never: is part of the compiler.
 */
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <llvm/AsmParser/Parser.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ReplaceConstant.h>
#include <llvm/IR/Verifier.h>
#include <llvm/IRReader/IRReader.h>
#include <llvm/Linker/Linker.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "kernel/builtins/archive.h"

using namespace llvm;

/* Functions with at most this many instructions are always inlined. */
static const unsigned small_instructions = 120;

[[noreturn]] static void fail(const Twine &what)
{
    errs() << "prepare: " << what << "\n";
    exit(1);
}

static std::unique_ptr<Module> read_module(const std::string &path, LLVMContext &context)
{
    SMDiagnostic diagnostic;
    std::unique_ptr<Module> module = parseIRFile(path, diagnostic, context);

    if (!module)
        fail(path + ": " + diagnostic.getMessage());
    return module;
}

/* The module without address spaces, made by its text: types cannot be changed in place, and pointers are opaque. */
static std::string strip_text(const std::string &text)
{
    static const std::string space = " addrspace(", cast = " addrspacecast ";
    std::string stripped;
    bool quoted = false;

    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '"')
            quoted = !quoted;
        if (!quoted && text.compare(i, space.size(), space) == 0) {
            i = text.find(')', i);
        } else if (!quoted && text.compare(i, cast.size(), cast) == 0) {
            stripped += " bitcast ";
            i += cast.size() - 1;
        } else {
            stripped += text[i];
        }
    }
    return stripped;
}

static std::unique_ptr<Module> strip_spaces(const Module &module)
{
    std::string text;
    raw_string_ostream stream(text);
    SMDiagnostic diagnostic;

    module.print(stream, nullptr);
    std::unique_ptr<Module> flat = parseAssemblyString(strip_text(text), diagnostic, module.getContext());
    if (!flat)
        fail("stripped of its address spaces: line " + Twine(diagnostic.getLineNo()) + ": " + diagnostic.getMessage());
    return flat;
}

/* Gives the pointers that lead to a table the table's address space. */
static void move_users(Value &value, unsigned space)
{
    for (User *user : value.users()) {
        bool leads = isa<GetElementPtrInst>(user) || isa<PHINode>(user) || isa<SelectInst>(user);

        if (!leads && !isa<LoadInst>(user))
            fail(value.getName() + ": a table that is not only loaded from");
        if (!leads || user->getType()->getPointerAddressSpace() == space)
            continue;
        user->mutateType(PointerType::get(user->getContext(), space));
        move_users(*user, space);
    }
}

/* Moves tables to global memory: together they exceed the 64 KiB of constant memory of a module, which belong to the
 * kernel. */
static void move_tables(Module &module)
{
    enum { GLOBAL_SPACE = 1, CONSTANT_SPACE = 4 };
    std::vector<GlobalVariable *> tables;

    for (GlobalVariable &table : module.globals())
        if (table.getAddressSpace() == CONSTANT_SPACE && table.hasInitializer())
            tables.push_back(&table);
    for (GlobalVariable *table : tables) {
        auto *moved = new GlobalVariable(module, table->getValueType(), true, table->getLinkage(),
                                         table->getInitializer(), "", table, table->getThreadLocalMode(), GLOBAL_SPACE);
        moved->copyAttributesFrom(table);
        moved->takeName(table);
        convertUsersOfConstantsToInstructions({table});
        table->mutateType(moved->getType());
        move_users(*table, GLOBAL_SPACE);
        table->replaceAllUsesWith(moved);
        table->eraseFromParent();
    }
}

/* Drops the attributes that are for one processor, and decides whether the function is always inlined. */
static void neutralize(Function &function)
{
    AttributeList attributes = function.getAttributes();
    AttrBuilder kept(function.getContext());

    for (Attribute attribute : attributes.getFnAttrs())
        if (!attribute.isStringAttribute() || attribute.getKindAsString().starts_with("amdgpu"))
            kept.addAttribute(attribute);
    kept.removeAttribute(Attribute::OptimizeNone).removeAttribute(Attribute::NoInline);
    kept.removeAttribute(Attribute::AlwaysInline);
    if (function.getInstructionCount() <= small_instructions)
        kept.addAttribute(Attribute::AlwaysInline);
    function.setAttributes(
        attributes.removeFnAttributes(function.getContext()).addFnAttributes(function.getContext(), kept));
    function.setSubprogram(nullptr);
    function.setDSOLocal(false);
}

/* "_Z3sinDv4_f" and "_Z3sind" are both "sin". */
static std::string base_name(StringRef name)
{
    size_t length = 0;
    StringRef rest = name;

    if (!rest.consume_front("_Z") || rest.consumeInteger(10, length) || length > rest.size())
        return name.str();
    return rest.take_front(length).str();
}

/* Renames libclc's NAME to __libclc_NAME where our functions declare the latter, so that NAME is free for ours. */
static void keep_replaced(Module &libclc, const Module &ours)
{
    static const std::string prefix = "__libclc_";

    for (const Function &wanted : ours) {
        std::string base = base_name(wanted.getName());

        if (!StringRef(base).starts_with(prefix) || libclc.getFunction(wanted.getName()))
            continue;
        StringRef types = wanted.getName().drop_front(wanted.getName().find(base) + base.size());
        std::string name = base.substr(prefix.size());
        Function *kept = libclc.getFunction(("_Z" + Twine(name.size()) + name + types).str());
        if (!kept)
            fail(wanted.getName() + ": libclc has no such function");
        kept->setName(wanted.getName());
    }
}

/* Copies functions into a shard, and with them the tables and helpers that only they can see. */
class Copier final : public ValueMaterializer
{
  public:
    Copier(Module &target) : target(target)
    {
    }

    void copy(Function &function)
    {
        pending.push_back(&function);
        while (!pending.empty()) {
            Function *next = pending.back();
            pending.pop_back();
            copy_body(*next);
        }
    }

    Value *materialize(Value *value) override
    {
        if (auto *function = dyn_cast<Function>(value)) {
            if (function->hasLocalLinkage() && !function->isDeclaration())
                pending.push_back(function);
            return declare(*function);
        }
        if (auto *variable = dyn_cast<GlobalVariable>(value))
            return copy_variable(*variable);
        return nullptr;
    }

  private:
    Module &target;
    ValueToValueMapTy map;
    std::vector<Function *> pending;

    Function *declare(Function &function)
    {
        Function *copy = target.getFunction(function.getName());

        if (!copy) {
            copy =
                Function::Create(function.getFunctionType(), GlobalValue::ExternalLinkage, function.getName(), target);
            copy->setAttributes(function.getAttributes());
        }
        map[&function] = copy;
        return copy;
    }

    GlobalVariable *copy_variable(GlobalVariable &variable)
    {
        auto *copy = new GlobalVariable(target, variable.getValueType(), variable.isConstant(),
                                        GlobalValue::InternalLinkage, nullptr, variable.getName(), nullptr,
                                        variable.getThreadLocalMode(), variable.getAddressSpace());

        copy->copyAttributesFrom(&variable);
        map[&variable] = copy;
        if (!variable.hasInitializer())
            fail(variable.getName() + ": a variable without a value");
        copy->setInitializer(MapValue(variable.getInitializer(), map, RF_None, nullptr, this));
        return copy;
    }

    void copy_body(Function &function)
    {
        Function *copy = declare(function);
        SmallVector<ReturnInst *, 8> returns;

        if (!copy->isDeclaration())
            return;
        auto parameter = copy->arg_begin();
        for (Argument &argument : function.args())
            map[&argument] = &*parameter++;
        CloneFunctionInto(copy, &function, map, CloneFunctionChangeType::DifferentModule, returns, "", nullptr, nullptr,
                          this);
        copy->setLinkage(function.hasLocalLinkage() ? GlobalValue::InternalLinkage : GlobalValue::ExternalLinkage);
        copy->setCallingConv(CallingConv::C);
    }
};

/* Cloning copies !tbaa and !srcloc too, which mean nothing to a kernel. */
static void drop_metadata(Module &module)
{
    static const unsigned kept[] = {LLVMContext::MD_fpmath, LLVMContext::MD_range, LLVMContext::MD_loop};

    for (Function &function : module)
        for (BasicBlock &block : function)
            for (Instruction &instruction : block)
                instruction.dropUnknownNonDebugMetadata(kept);
}

static std::string make_shard(const std::vector<Function *> &functions)
{
    Module shard("builtins", functions[0]->getContext());
    SmallVector<char, 0> bytes;

    shard.setDataLayout(functions[0]->getParent()->getDataLayout());
    shard.setTargetTriple(functions[0]->getParent()->getTargetTriple());
    Copier copier(shard);
    for (Function *function : functions)
        copier.copy(*function);
    drop_metadata(shard);
    if (verifyModule(shard, &errs()))
        fail(functions[0]->getName() + ": its shard is invalid");
    BitcodeWriter writer(bytes);
    writer.writeModule(shard);
    writer.writeStrtab();
    return std::string(bytes.begin(), bytes.end());
}

struct Archive {
    std::vector<std::string> shards;
    std::map<std::string, uint32_t> symbols; /* in order of their names, as the format requires */
};

static Archive make_archive(Module &module)
{
    std::map<std::string, std::vector<Function *>> groups;
    Archive archive;

    for (Function &function : module)
        if (!function.isDeclaration() && !function.hasLocalLinkage())
            groups[base_name(function.getName())].push_back(&function);
    for (auto &group : groups) {
        for (Function *function : group.second)
            archive.symbols[function->getName().str()] = (uint32_t)archive.shards.size();
        archive.shards.push_back(make_shard(group.second));
    }
    return archive;
}

template <typename T> static void append(std::string &bytes, const T &value)
{
    bytes.append((const char *)&value, sizeof value);
}

static void pad(std::string &bytes)
{
    bytes.resize((bytes.size() + FACET_ARCHIVE_ALIGN - 1) / FACET_ARCHIVE_ALIGN * FACET_ARCHIVE_ALIGN);
}

static std::string encode(const Archive &archive)
{
    facet_archive_header header = {FACET_ARCHIVE_MAGIC,
                                   FACET_ARCHIVE_VERSION,
                                   (uint32_t)archive.symbols.size(),
                                   (uint32_t)archive.shards.size(),
                                   0,
                                   0};
    std::string names, symbols, shards, bodies;

    for (const auto &symbol : archive.symbols) {
        append(symbols, facet_archive_symbol{(uint32_t)names.size(), symbol.second});
        names.append(symbol.first.c_str(), symbol.first.size() + 1);
    }
    pad(names);
    uint64_t start =
        sizeof header + symbols.size() + archive.shards.size() * sizeof(facet_archive_shard) + names.size();
    for (const std::string &body : archive.shards) {
        append(shards, facet_archive_shard{start + bodies.size(), body.size()});
        bodies += body;
        pad(bodies);
    }
    header.name_bytes = (uint32_t)names.size();
    header.size = start + bodies.size();
    std::string bytes;
    append(bytes, header);
    return bytes + symbols + shards + names + bodies;
}

static void write_file(const std::string &path, const std::string &bytes)
{
    std::error_code code;
    raw_fd_ostream stream(path, code);

    if (code)
        fail(path + ": " + code.message());
    stream << bytes;
    stream.close();
    if (stream.has_error())
        fail(path + ": " + stream.error().message());
}

/* Checks for functions that are called but defined neither by libclc nor by us, except those of the lowering. */
static void check_complete(const Module &module)
{
    for (const Function &function : module)
        if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
            !function.getName().starts_with("__facet_"))
            fail(function.getName() + ": called, but neither libclc nor our own functions have it");
}

static bool is_mode(const char *text)
{
    return strcmp(text, "--host") == 0 || strcmp(text, "--ptx") == 0 || strcmp(text, "--amdgcn") == 0;
}

int main(int count, char **arguments)
{
    LLVMContext context;

    if (count < 4 || !is_mode(arguments[1]))
        fail("usage: prepare --host|--ptx|--amdgcn OUTPUT LIBCLC OURS...");
    std::unique_ptr<Module> module = read_module(arguments[3], context);
    Linker linker(*module);
    for (int i = 4; i < count; i++) {
        std::unique_ptr<Module> ours = read_module(arguments[i], context);
        keep_replaced(*module, *ours);
        ours->setTargetTriple(module->getTargetTriple()); /* clang's says "cuda", libclc's does not */
        ours->setDataLayout(module->getDataLayout());
        if (linker.linkInModule(std::move(ours), Linker::OverrideFromSrc))
            fail(Twine(arguments[i]) + ": cannot be linked");
    }
    check_complete(*module);
    if (strcmp(arguments[1], "--host") == 0)
        module = strip_spaces(*module);
    if (strcmp(arguments[1], "--ptx") == 0)
        move_tables(*module);
    for (Function &function : *module)
        if (!function.isIntrinsic())
            neutralize(function);
    write_file(arguments[2], encode(make_archive(*module)));
    return 0;
}
