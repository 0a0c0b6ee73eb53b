/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constructs that a source may contain. On the host a kernel is code of the process that runs it, and a checked
 * kernel is only checked where its accesses to memory are visible. So a module may call only those of LLVM's own
 * functions that are in a list.
 *
 * Owns: the list of functions, and the refusal of other ways to run unchecked code: calls through pointers, sections,
 * Facet's names.
 * Never: checks Facet's own functions or the optimizer's code, which are added later and may do more.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <facet/host_kernel.h>

#include "kernel/compile/compile.h"
#include "kernel/compile/llvm.h"
#include "kernel/compile/lower.h"

/* LLVM's address spaces from SPACES on are the processor's segments, or unused. */
enum { SPACES = 8, VALUE_BYTES_MAX = 4096, TEXT_SIZE = 320, NAME_SIZE = 96 };

static void refuse_code(struct facet_compilation *compilation, const char *format, ...) FACET_PRINTF(2, 3);

static void refuse_code(struct facet_compilation *compilation, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

static const char *name_of(LLVMValueRef value)
{
    size_t length;

    return LLVMGetValueName2(value, &length);
}

static void plain_name(LLVMValueRef function, char ret_name[NAME_SIZE])
{
    facet_compile_plain_name(name_of(function), ret_name, NAME_SIZE);
}

/* --- LLVM's own functions ----------------------------------------------------------------------------------------- */

/* Names behind "llvm.", without types; a name that ends with '.' is a prefix. These functions compute, copy memory in a
 * way that checked images see, or are hints to the optimizer. */
static const char *const admitted[] = {
    /* numbers */
    "abs", "smax", "smin", "umax", "umin", "scmp", "ucmp", "bitreverse", "bswap", "ctpop", "ctlz", "cttz", "fshl",
    "fshr", "sadd.with.overflow", "uadd.with.overflow", "ssub.with.overflow", "usub.with.overflow",
    "smul.with.overflow", "umul.with.overflow", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat", "sshl.sat", "ushl.sat",
    "smul.fix", "umul.fix", "smul.fix.sat", "umul.fix.sat", "sdiv.fix", "udiv.fix", "sdiv.fix.sat", "udiv.fix.sat",
    "fptosi.sat", "fptoui.sat", "convert.to.fp16", "convert.from.fp16", "fabs", "copysign", "minnum", "maxnum",
    "minimum", "maximum", "minimumnum", "maximumnum", "canonicalize", "is.fpclass", "fma", "fmuladd", "sqrt", "pow",
    "exp", "exp2", "exp10", "log", "log2", "log10", "ldexp", "frexp", "modf", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "sincos", "sincospi", "floor", "ceil", "trunc", "rint", "nearbyint",
    "round", "roundeven", "lround", "llround", "lrint", "llrint", "arithmetic.fence", "experimental.constrained.",
    /* vectors */
    "vector.reduce.", "vector.extract", "vector.insert", "vector.reverse", "vector.splice", "vector.interleave2",
    "vector.deinterleave2", "stepvector", "get.active.lane.mask",
    /* memory */
    "memcpy", "memmove", "memset", "prefetch", "ptrmask", "objectsize",
    /* hints to the optimizer and to debuggers, and the end of the program */
    "lifetime.start", "lifetime.end", "invariant.start", "invariant.end", "launder.invariant.group",
    "strip.invariant.group", "assume", "expect", "expect.with.probability", "is.constant", "donothing", "sideeffect",
    "experimental.noalias.scope.decl", "experimental.convergence.", "dbg.", "annotation", "var.annotation",
    "ptr.annotation", "fake.use", "readcyclecounter", "trap"};

/* Whether a module may call the intrinsic. A checked image may not trap: its process would end without a report. */
static bool is_admitted(const struct facet_compilation *compilation, LLVMValueRef intrinsic)
{
    static const char family[] = "llvm.";
    size_t length = 0;
    const char *name = LLVMIntrinsicGetName(LLVMGetIntrinsicID(intrinsic), &length);

    if (length < strlen(family) || memcmp(name, family, strlen(family)) != 0)
        return false;
    name += strlen(family);
    length -= strlen(family);
    if (compilation->request->check && length == 4 && memcmp(name, "trap", length) == 0)
        return false;
    for (size_t i = 0; i < sizeof admitted / sizeof admitted[0]; i++) {
        size_t size = strlen(admitted[i]);
        bool all = admitted[i][size - 1] == '.';
        if ((all ? length >= size : length == size) && memcmp(name, admitted[i], size) == 0)
            return true;
    }
    return false;
}

/* Refuses only the first intrinsic that is not in the list, as finding its calls takes a second compile. */
static bool check_intrinsics(struct facet_compilation *compilation)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        LLVMUseRef use = LLVMGetFirstUse(function);
        char caller[NAME_SIZE] = "", text[TEXT_SIZE];

        if (!LLVMGetIntrinsicID(function) || !use || is_admitted(compilation, function))
            continue;
        if (LLVMIsAInstruction(LLVMGetUser(use)))
            plain_name(LLVMGetBasicBlockParent(LLVMGetInstructionParent(LLVMGetUser(use))), caller);
        snprintf(text, sizeof text,
                 "'%.80s', which '%s' calls, is not taken for the target '%s': expected one of LLVM's functions that "
                 "compute or copy memory",
                 name_of(function), caller, compilation->target);
        facet_compile_refuse_calls(compilation, name_of(function), text);
        return false;
    }
    return true;
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

static bool is_segment(LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);

    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind)
        type = LLVMGetElementType(type);
    return LLVMGetTypeKind(type) == LLVMPointerTypeKind && LLVMGetPointerAddressSpace(type) >= SPACES;
}

static bool has_segment(LLVMValueRef instruction)
{
    bool found = is_segment(instruction);

    for (int i = 0; !found && i < LLVMGetNumOperands(instruction); i++)
        found = is_segment(LLVMGetOperand(instruction, (unsigned)i));
    return found;
}

static bool is_call_of_pointer(LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);

    return !LLVMIsAFunction(callee) && !LLVMIsAInlineAsm(callee) && !LLVMIsAGlobalAlias(callee);
}

/* Whether a value is so large that a code generator, which makes one value of each element, would not finish. */
static bool is_large(LLVMTargetDataRef layout, LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);

    return (kind == LLVMArrayTypeKind || kind == LLVMStructTypeKind) &&
           LLVMABISizeOfType(layout, type) > VALUE_BYTES_MAX;
}

static bool has_large(LLVMValueRef instruction)
{
    LLVMModuleRef module = LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction)));
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(module);
    bool found = is_large(layout, LLVMTypeOf(instruction));

    for (int i = 0; !found && i < LLVMGetNumOperands(instruction); i++)
        found = is_large(layout, LLVMTypeOf(LLVMGetOperand(instruction, (unsigned)i)));
    return found;
}

/* Why an instruction is refused; NULL: it is allowed. */
static const char *fault_of_type(LLVMValueRef instruction)
{
    switch (LLVMGetInstructionOpcode(instruction)) {
    case LLVMCall:
        if (is_call_of_pointer(instruction))
            return "a call through a pointer";
        break;
    case LLVMVAArg:
        return "an argument that has no type (va_arg)";
    case LLVMIndirectBr:
        return "a jump through a pointer (indirectbr)";
    case LLVMInvoke:
    case LLVMCallBr:
    case LLVMLandingPad:
    case LLVMResume:
    case LLVMCatchSwitch:
    case LLVMCatchPad:
    case LLVMCleanupPad:
        return "an exception's flow (invoke, callbr or a landing)";
    default:
        break;
    }
    if (has_segment(instruction))
        return "a pointer to an address space above 7";
    return has_large(instruction) ? "a value of more than 4096 bytes, which should be copied as memory," : NULL;
}

static void check_code(struct facet_compilation *compilation, LLVMValueRef function)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            const char *fault = fault_of_type(at);
            char name[NAME_SIZE];

            if (!fault)
                continue;
            plain_name(function, name);
            refuse_code(compilation, "%s in '%s' is not taken for the target '%s'", fault, name, compilation->target);
            return;
        }
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool is_facet_name(const char *name)
{
    static const char *const names[] = {FACET_LOWER_CHECK, FACET_LOWER_SITES, FACET_HOST_IMAGE_NAME};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "__facet_", 8) == 0;
}

static void check_name(struct facet_compilation *compilation, LLVMValueRef value)
{
    if (is_facet_name(name_of(value)))
        refuse_code(compilation, "'%.80s' is a name of Facet's own; expected another one", name_of(value));
}

/* Refuses Facet's names, and sections: loaders run the functions that some sections list, and take other sections for
 * their own tables. */
static void check_section(struct facet_compilation *compilation, LLVMValueRef value)
{
    const char *section = LLVMGetSection(value);

    check_name(compilation, value);
    if (section && section[0] && strcmp(section, "llvm.metadata") != 0)
        refuse_code(compilation, "'%.80s' is in section '%.40s'; expected none for the target '%s'", name_of(value),
                    section, compilation->target);
}

static void check_globals(struct facet_compilation *compilation)
{
    LLVMModuleRef module = compilation->module;
    LLVMValueRef value;

    for (value = LLVMGetFirstGlobal(module); value; value = LLVMGetNextGlobal(value)) {
        check_section(compilation, value);
        if (LLVMIsDeclaration(value) && LLVMGetFirstUse(value))
            refuse_code(compilation, "'%.80s' is declared and nowhere defined", name_of(value));
        if (LLVMIsThreadLocal(value))
            refuse_code(compilation, "'%.80s' is thread_local; expected no such variable for the target '%s'",
                        name_of(value), compilation->target);
    }
    for (value = LLVMGetFirstGlobalAlias(module); value; value = LLVMGetNextGlobalAlias(value))
        check_name(compilation, value);
    for (value = LLVMGetFirstGlobalIFunc(module); value; value = LLVMGetNextGlobalIFunc(value))
        refuse_code(compilation, "'%.80s' is an ifunc, whose code runs when the image is loaded; expected none",
                    name_of(value));
}

static void check_functions(struct facet_compilation *compilation)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        check_section(compilation, function);
        if (LLVMHasPrologueData(function))
            refuse_code(compilation, "'%.80s' has prologue data, which would run; expected none for the target '%s'",
                        name_of(function), compilation->target);
        check_code(compilation, function);
    }
}

/* Refuses functions that run before any kernel, or after the last kernel. */
static void check_constructors(struct facet_compilation *compilation)
{
    static const char *const names[] = {"llvm.global_ctors", "llvm.global_dtors"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        LLVMValueRef list = LLVMGetNamedGlobal(compilation->module, names[i]);
        LLVMTypeRef type = list ? LLVMGlobalGetValueType(list) : NULL;

        if (type && (LLVMGetTypeKind(type) != LLVMArrayTypeKind || LLVMGetArrayLength2(type)))
            refuse_code(compilation, "'%s': the module has global constructors or destructors; OpenCL C has none",
                        names[i]);
    }
}

/* Refuses names of libraries, which the linker would open, and which the image would then need. */
static void check_libraries(struct facet_compilation *compilation)
{
    static const char *const names[] = {"llvm.dependent-libraries", "llvm.linker.options"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (LLVMGetNamedMetadataNumOperands(compilation->module, names[i]))
            refuse_code(compilation, "'%s': the module asks for libraries; expected none", names[i]);
}

enum facet_status facet_compile_admit(struct facet_compilation *compilation, struct facet_error *error)
{
    facet_compile_admit_types(compilation);
    facet_compile_admit_extents(compilation);
    check_constructors(compilation);
    if (compilation->family == FACET_COMPILE_HOST && check_intrinsics(compilation)) {
        check_libraries(compilation);
        check_globals(compilation);
        check_functions(compilation);
    }
    return facet_compile_verdict(compilation, error);
}
