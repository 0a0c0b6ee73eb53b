/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the place in the source of a construct that a step behind the front end refuses. The source is compiled once
 *       more, with debug locations, whose cost a compile without errors does not have.
 * Never: makes code; reports the second compile's diagnostics.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/DebugInfo.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"

/* The second compile. Its module is NULL when it failed. */
struct second_compile {
    struct facet_backend_request request;
    struct facet_backend_result result;
    struct facet_compilation compilation;
};

static void ignore_diagnostic(LLVMDiagnosticInfoRef info, void *context)
{
    (void)info;
    (void)context;
}

static void compile_again(const struct facet_compilation *first, struct second_compile *ret_second)
{
    struct facet_compilation *again = &ret_second->compilation;
    struct facet_error error;

    *ret_second = (struct second_compile){.request = *first->request, .compilation = *first};
    ret_second->request.check = 1; /* the setting that adds debug locations */
    again->request = &ret_second->request;
    again->result = &ret_second->result;
    again->arguments = NULL;
    again->argument_count = 0;
    again->module = NULL;
    again->failed = false;
    again->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(again->context, ignore_diagnostic, NULL);
    if (facet_compile_arguments(again, &error) == FACET_OK)
        facet_compile_source(again, &error);
}

static void clear_second(struct second_compile *second_compile)
{
    if (second_compile->compilation.module)
        LLVMDisposeModule(second_compile->compilation.module);
    LLVMContextDispose(second_compile->compilation.context);
    free(second_compile->compilation.arguments);
    facet_compile_remark_clear(&second_compile->result);
    facet_compile_read_clear(&second_compile->result);
}

/* The function that an instruction calls by name; NULL: none. */
static LLVMValueRef callee_of(LLVMValueRef instruction)
{
    LLVMValueRef callee = LLVMIsACallInst(instruction) ? LLVMGetCalledValue(instruction) : NULL;

    return callee && LLVMIsAFunction(callee) ? callee : NULL;
}

/* Returns false, and reports nothing, when the place is unknown. */
static bool remark_at(struct facet_compilation *compilation, LLVMValueRef call, const char *text)
{
    uint32_t line = LLVMGetDebugLocLine(call), length = 0;
    const char *file = line ? LLVMGetDebugLocFilename(call, &length) : NULL;
    FACET_CLEANUP_FREE char *name = file ? strndup(file, length) : NULL;

    if (name)
        facet_compile_remark(compilation, FACET_SEVERITY_ERROR, line, LLVMGetDebugLocColumn(call), name, text);
    return name != NULL;
}

void facet_compile_plain_name(const char *symbol, char *ret_name, size_t size)
{
    static const char kernel[] = "__clang_ocl_kern_imp_"; /* the prefix that clang gives a kernel's body */
    char *end = NULL;

    if (strncmp(symbol, kernel, strlen(kernel)) == 0)
        symbol += strlen(kernel);
    unsigned long length = strncmp(symbol, "_Z", 2) == 0 ? strtoul(symbol + 2, &end, 10) : 0;
    if (length && length <= strlen(end))
        snprintf(ret_name, size, "%.*s", (int)length, end);
    else
        snprintf(ret_name, size, "%s", symbol);
}

/* --- calls of missing functions ----------------------------------------------------------------------------------- */

static uint32_t remark_calls(struct facet_compilation *compilation, LLVMValueRef function, const char *symbol,
                             const char *text)
{
    uint32_t remark_count = 0;
    size_t length;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            LLVMValueRef callee = callee_of(at);
            if (callee && strcmp(LLVMGetValueName2(callee, &length), symbol) == 0)
                remark_count += remark_at(compilation, at, text);
        }
    return remark_count;
}

void facet_compile_refuse_calls(struct facet_compilation *compilation, const char *symbol, const char *text)
{
    struct second_compile second_compile;
    LLVMValueRef function = NULL;
    uint32_t remark_count = 0;

    compile_again(compilation, &second_compile);
    if (second_compile.compilation.module)
        function = LLVMGetFirstFunction(second_compile.compilation.module);
    for (; function; function = LLVMGetNextFunction(function))
        remark_count += remark_calls(compilation, function, symbol, text);
    if (!remark_count)
        facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    clear_second(&second_compile);
}

/* --- assembly ----------------------------------------------------------------------------------------------------- */

/* Whether a call is inline assembly. Empty assembly, which orders loads and stores, needs no assembler on AMDGPU. */
static bool is_assembly(const struct facet_compilation *compilation, LLVMValueRef instruction)
{
    LLVMOpcode opcode = LLVMGetInstructionOpcode(instruction);
    bool call = opcode == LLVMCall || opcode == LLVMCallBr;
    LLVMValueRef code = call ? LLVMIsAInlineAsm(LLVMGetCalledValue(instruction)) : NULL;
    size_t length;

    return code && (compilation->family != FACET_COMPILE_AMDGCN || LLVMGetInlineAsmAsmString(code, &length)[0]);
}

/* Without a text, counts the inline assembly of a module. With a text, reports each, and counts those whose place is
 * known. */
static uint32_t find_assembly(struct facet_compilation *compilation, LLVMModuleRef module, const char *text)
{
    uint32_t count = 0;

    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
                if (is_assembly(compilation, at))
                    count += text ? remark_at(compilation, at, text) : 1;
    return count;
}

static void refuse_inline(struct facet_compilation *compilation)
{
    struct second_compile second_compile;
    uint32_t remark_count = 0;
    char text[160];

    snprintf(text, sizeof text, "inline assembly is not supported for the target '%s'", compilation->target);
    compile_again(compilation, &second_compile);
    if (second_compile.compilation.module)
        remark_count = find_assembly(compilation, second_compile.compilation.module, text);
    if (!remark_count)
        facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    clear_second(&second_compile);
}

enum facet_status facet_compile_refuse_assembly(struct facet_compilation *compilation, struct facet_error *error)
{
    char text[160];
    size_t length = 0;

    if (compilation->family == FACET_COMPILE_PTX) /* PTX is assembly itself, which ptxas reads */
        return FACET_OK;
    if (find_assembly(compilation, compilation->module, NULL))
        refuse_inline(compilation);
    LLVMGetModuleInlineAsm(compilation->module, &length);
    snprintf(text, sizeof text, "assembly outside of functions is not supported for the target '%s'",
             compilation->target);
    if (length)
        facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    return facet_compile_verdict(compilation, error);
}

/* --- recursion ---------------------------------------------------------------------------------------------------- */

/* The functions whose calls are being followed, in the order of the calls, and the functions that are done. */
struct search {
    LLVMValueRef *entered, *finished;
    uint32_t depth, finished_count;
};

static bool holds_function(const LLVMValueRef *list, uint32_t count, LLVMValueRef function)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == function)
            return true;
    return false;
}

/* A call of a function whose calls are being followed; NULL: none is reached from this function. */
static LLVMValueRef find_recursion(struct search *search, LLVMValueRef function)
{
    search->entered[search->depth++] = function;
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            LLVMValueRef callee = callee_of(at), found;
            if (!callee || LLVMIsDeclaration(callee) ||
                holds_function(search->finished, search->finished_count, callee))
                continue;
            found = holds_function(search->entered, search->depth, callee) ? at : find_recursion(search, callee);
            if (found)
                return found;
        }
    search->depth--;
    search->finished[search->finished_count++] = function;
    return NULL;
}

static LLVMValueRef find_recursion_of_kernels(const struct facet_compilation *first, LLVMModuleRef module)
{
    uint32_t count = 1;

    for (LLVMValueRef at = LLVMGetFirstFunction(module); at; at = LLVMGetNextFunction(at))
        count++;
    FACET_CLEANUP_FREE LLVMValueRef *entered = calloc(count, sizeof(LLVMValueRef));
    FACET_CLEANUP_FREE LLVMValueRef *finished = calloc(count, sizeof(LLVMValueRef));
    struct search search = {.entered = entered, .finished = finished};
    LLVMValueRef found = NULL;
    for (uint32_t i = 0; entered && finished && !found && i < first->kernel_count; i++) {
        LLVMValueRef kernel = LLVMGetNamedFunction(module, first->kernels[i].name);
        if (kernel && !holds_function(finished, search.finished_count, kernel))
            found = find_recursion(&search, kernel);
    }
    return found;
}

static void remark_recursion(struct facet_compilation *compilation, LLVMValueRef call)
{
    LLVMValueRef caller = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call)), callee = callee_of(call);
    char from[64], to[64], text[256];
    size_t length;

    facet_compile_plain_name(LLVMGetValueName2(caller, &length), from, sizeof from);
    facet_compile_plain_name(LLVMGetValueName2(callee, &length), to, sizeof to);
    if (caller == callee)
        snprintf(text, sizeof text, "'%s' calls itself: OpenCL C has no recursion", from);
    else
        snprintf(text, sizeof text, "'%s' calls '%s', which has not returned: OpenCL C has no recursion", from, to);
    if (!remark_at(compilation, call, text))
        facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

bool facet_compile_refuse_recursion(struct facet_compilation *compilation)
{
    struct second_compile second_compile;
    LLVMValueRef call = NULL;

    compile_again(compilation, &second_compile);
    if (second_compile.compilation.module)
        call = find_recursion_of_kernels(compilation, second_compile.compilation.module);
    if (call)
        remark_recursion(compilation, call);
    clear_second(&second_compile);
    return call != NULL;
}
