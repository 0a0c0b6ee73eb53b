/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: clang, in process: source and diagnostics in memory; the meaning of `inline`.
 * Never: writes to standard output or standard error.
 */
#include "kernel/compile/shims.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/Decl.h>
#include <clang/AST/DeclGroup.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/SourceManager.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/MultiplexConsumer.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <facet/kernel.h>

#include "kernel/compile/header.h"
#include "kernel/compile/shim_files.h"

namespace
{

/* This folder cannot exist, so #include with quotes finds no file next to the source, only files of -I. */
const char folder[] = "/dev/null/facet/";

class Remarks : public clang::DiagnosticConsumer
{
  public:
    explicit Remarks(const facet_shim_listener &to) : listener(to)
    {
    }

    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic &info) override
    {
        clang::DiagnosticConsumer::HandleDiagnostic(level, info);
        if (level < clang::DiagnosticsEngine::Note)
            return;
        llvm::SmallString<256> text;
        info.FormatDiagnostic(text);
        clang::PresumedLoc place;
        if (info.hasSourceManager() && info.getLocation().isValid())
            place = info.getSourceManager().getPresumedLoc(info.getLocation());
        bool known = place.isValid();
        listener.remark(listener.context, severity(level), known ? place.getLine() : 0, known ? place.getColumn() : 0,
                        known ? place.getFilename() : "", text.c_str());
    }

  private:
    static uint32_t severity(clang::DiagnosticsEngine::Level level)
    {
        if (level >= clang::DiagnosticsEngine::Error)
            return FACET_SEVERITY_ERROR;
        return level == clang::DiagnosticsEngine::Warning ? FACET_SEVERITY_WARNING : FACET_SEVERITY_NOTE;
    }

    const facet_shim_listener &listener;
};

/* Notices macros that give the time of day or of a file. */
class Clock : public clang::PPCallbacks
{
  public:
    explicit Clock(FacetReads &list) : reads(list)
    {
    }

    void MacroExpands(const clang::Token &name, const clang::MacroDefinition &definition, clang::SourceRange,
                      const clang::MacroArgs *) override
    {
        const clang::MacroInfo *macro = definition.getMacroInfo();
        if (!macro || !macro->isBuiltinMacro())
            return;
        llvm::StringRef text = name.getIdentifierInfo()->getName();
        if (text == "__DATE__" || text == "__TIME__" || text == "__TIMESTAMP__")
            reads.cannotRepeat();
    }

  private:
    FacetReads &reads;
};

/*
 * In C99 a definition with only `inline` supplements the definition of another file, and is omitted where it is not
 * inlined. A program of OpenCL C is one file, so such a definition is the only one, and is treated as `extern inline`.
 */
class Inlines : public clang::ASTConsumer
{
  public:
    bool HandleTopLevelDecl(clang::DeclGroupRef group) override
    {
        for (clang::Decl *declaration : group)
            if (auto *function = llvm::dyn_cast<clang::FunctionDecl>(declaration))
                settle(*function);
        return true;
    }

  private:
    static void settle(clang::FunctionDecl &function)
    {
        if (function.doesThisDeclarationHaveABody() && function.isInlineSpecified() &&
            function.getStorageClass() == clang::SC_None && function.isExternallyVisible() &&
            !function.isInlineDefinitionExternallyVisible())
            function.setStorageClass(clang::SC_Extern);
    }
};

class Action : public clang::EmitLLVMOnlyAction
{
  public:
    Action(LLVMContextRef context, FacetReads &list, const facet_shim_listener &to, const char *first)
        : EmitLLVMOnlyAction(llvm::unwrap(context)), reads(list), listener(to), begin(first)
    {
    }

  protected:
    bool BeginSourceFileAction(clang::CompilerInstance &instance) override
    {
        clang::Preprocessor &preprocessor = instance.getPreprocessor();

        preprocessor.addPPCallbacks(std::make_unique<Clock>(reads));
        preprocessor.setTokenWatcher([this, &instance](const clang::Token &token) {
            const clang::SourceManager &sources = instance.getSourceManager();
            clang::SourceLocation place = sources.getExpansionLoc(token.getLocation());
            const char *at = sources.isInMainFile(place) ? sources.getCharacterData(place) : nullptr;
            if (at >= begin)
                listener.place(listener.context, static_cast<size_t>(at - begin) + 1);
        });
        return EmitLLVMOnlyAction::BeginSourceFileAction(instance);
    }

    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &instance,
                                                          llvm::StringRef file) override
    {
        std::vector<std::unique_ptr<clang::ASTConsumer>> consumers;

        consumers.push_back(std::make_unique<Inlines>()); /* before code is generated */
        consumers.push_back(EmitLLVMOnlyAction::CreateASTConsumer(instance, file));
        return std::make_unique<clang::MultiplexConsumer>(std::move(consumers));
    }

  private:
    FacetReads &reads;
    const facet_shim_listener &listener;
    const char *begin; /* the source, behind the line with its name */
};

/* Puts the name into the source's first line, for __FILE__ and diagnostics; the search for headers does not use it. */
std::string named(const char *name, const char *source, size_t bytes)
{
    std::string text = "#line 1 \"";

    for (const char *at = name; *at; at++) {
        if (*at == '"' || *at == '\\')
            text += '\\';
        text += *at == '\n' || *at == '\r' ? '?' : *at;
    }
    text += "\"\n";
    text.append(source, bytes);
    return text;
}

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files(const std::string &source, FacetReads &reads)
{
    auto memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    auto all = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(facet_shim_files(reads));
    llvm::StringRef header(facet_header_begin, static_cast<size_t>(facet_header_end - facet_header_begin));

    memory->addFile(std::string(folder) + "source.cl", 0, llvm::MemoryBuffer::getMemBuffer(source));
    memory->addFile(std::string(folder) + "opencl.h", 0, llvm::MemoryBuffer::getMemBufferCopy(header));
    all->pushOverlay(std::move(memory));
    return all;
}

void start(clang::CompilerInstance &instance, const std::string &source, FacetReads &reads, Remarks *remarks)
{
#if LLVM_VERSION_MAJOR >= 22
    instance.createVirtualFileSystem(files(source, reads), remarks);
    instance.createDiagnostics(remarks, false);
#else
    instance.createDiagnostics(remarks, false);
    instance.createFileManager(files(source, reads));
#endif
    instance.setVerboseOutputStream(std::make_unique<llvm::raw_null_ostream>());
}

LLVMModuleRef compile(LLVMContextRef context, const std::string &text, llvm::SmallVectorImpl<const char *> &list,
                      FacetReads &reads, Remarks &remarks, const facet_shim_listener &listener, const char *begin)
{
    clang::CompilerInstance instance;

    start(instance, text, reads, &remarks);
    if (!clang::CompilerInvocation::CreateFromArgs(instance.getInvocation(), list, instance.getDiagnostics()))
        return nullptr;
    instance.getFrontendOpts().DisableFree = true; /* the process ends soon */
    instance.getCodeGenOpts().ClearASTBeforeBackend = false;
    /* Makes the diagnostics engine anew, by the options for warnings, which were read after the first one was made. */
    instance.createDiagnostics(&remarks, false);
    Action action(context, reads, listener, begin);
    if (!instance.ExecuteAction(action))
        return nullptr;
    return llvm::wrap(action.takeModule().release());
}

} // namespace

LLVMModuleRef facet_shim_clang(LLVMContextRef context, const char *name, const char *source, size_t bytes,
                               const char *const *arguments, size_t count, const facet_shim_listener *listener)
{
    const std::string text = named(name, source, bytes), path = std::string(folder) + "source.cl";
    const std::string header = std::string(folder) + "opencl.h";
    llvm::SmallVector<const char *, 64> list(arguments, arguments + count);
    FacetReads reads;
    Remarks remarks(*listener);

    list.append({"-include", header.c_str(), "-x", "cl", path.c_str()});
    LLVMModuleRef module = compile(context, text, list, reads, remarks, *listener, text.data() + text.size() - bytes);
    reads.report(listener->read, listener->context);
    return module;
}
