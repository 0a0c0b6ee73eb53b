/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: images for devices: PTX text, AMDGPU code objects, SPIR-V.
 * Never: runs them, or asks a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Support.h>
#include <llvm-c/Target.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/llvm.h"
#include "kernel/compile/spirv.h"

enum { LOCAL_SPACE = 3, USERS_DEPTH_MAX = 8 };

#define PTX_MARK "// facet: "

/* --- local memory ------------------------------------------------------------------------------------------------ */

static bool is_used_in(LLVMValueRef value, LLVMValueRef function, unsigned deep)
{
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);

        if (LLVMIsAInstruction(user)) {
            if (LLVMGetBasicBlockParent(LLVMGetInstructionParent(user)) == function)
                return true;
        } else if (deep && is_used_in(user, function, deep - 1)) {
            return true;
        }
    }
    return false;
}

static void refuse_local(struct facet_compilation *compilation, const char *kernel, uint64_t bytes)
{
    char text[192];

    snprintf(text, sizeof text, "kernel '%.80s': it has %llu bytes of local memory; expected at most %d", kernel,
             (unsigned long long)bytes, FACET_IMAGE_LOCAL_MAX);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
}

/* Counts the kernel's own variables, and those of functions that are inlined into it. */
static void count_local(struct facet_compilation *compilation, uint32_t kernel)
{
    LLVMValueRef function = facet_compile_function(compilation, kernel);
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(compilation->module);
    uint64_t bytes = 0;

    for (LLVMValueRef global = LLVMGetFirstGlobal(compilation->module); global; global = LLVMGetNextGlobal(global)) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(global)) != LOCAL_SPACE ||
            !is_used_in(global, function, USERS_DEPTH_MAX))
            continue;
        uint32_t align = LLVMGetAlignment(global) ? LLVMGetAlignment(global) : 1;
        bytes = ((bytes + align - 1) & ~(uint64_t)(align - 1));
        bytes += LLVMABISizeOfType(layout, LLVMGlobalGetValueType(global));
    }
    compilation->kernels[kernel].local_bytes = (uint32_t)bytes;
    if (bytes > FACET_IMAGE_LOCAL_MAX)
        refuse_local(compilation, compilation->kernels[kernel].name, bytes);
}

/* --- PTX --------------------------------------------------------------------------------------------------------- */

static void require_group(struct facet_compilation *compilation, uint32_t kernel)
{
    const uint32_t *size = compilation->kernels[kernel].required_group_size;

    if (size[0])
        facet_llvm_require_group(facet_compile_function(compilation, kernel), size);
}

static void forget_features(struct facet_compilation *compilation)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function)) {
        LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "target-features",
                                         15);
        LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "target-cpu", 10);
    }
}

static void prepare_ptx(struct facet_compilation *compilation)
{
    forget_features(compilation);
    for (uint32_t i = 0; i < compilation->kernel_count; i++)
        require_group(compilation, i);
}

/* --- images ------------------------------------------------------------------------------------------------------- */

static enum facet_status keep_code(struct facet_compilation *compilation, LLVMMemoryBufferRef code, const char *tail,
                                   struct facet_error *error)
{
    struct facet_backend_result *result = compilation->result;
    size_t size = LLVMGetBufferSize(code), more = tail ? strlen(PTX_MARK) + strlen(tail) + 1 : 0;
    char *image = malloc(size + more + 1), *end;

    if (!image)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image of %zu bytes", size + more);
    memcpy(image, LLVMGetBufferStart(code), size);
    end = image + size;
    if (tail) {
        memcpy(end, PTX_MARK, strlen(PTX_MARK));
        memcpy(end + strlen(PTX_MARK), tail, strlen(tail));
        end[more - 1] = '\n';
    }
    end[more] = '\0'; /* a terminator beyond the image, as PTX is a text */
    result->image = image;
    result->bytes = size + more;
    return FACET_OK;
}

/* --- SPIR-V ------------------------------------------------------------------------------------------------------- */

static enum facet_status refuse_spirv(struct facet_compilation *compilation, const char *why, struct facet_error *error)
{
    char text[512];

    snprintf(text, sizeof text,
             "these kernels cannot be expressed in SPIR-V yet: LLVM's generator makes a module of them that is not "
             "valid (%s)",
             why);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    return facet_compile_verdict(compilation, error);
}

/* Keeps the code as the image, unless Facet would refuse to read the image itself. */
static enum facet_status keep_spirv(struct facet_compilation *compilation, LLVMMemoryBufferRef code,
                                    struct facet_error *error)
{
    struct facet_error reason = {0};
    uint32_t *words = NULL;
    size_t count = 0;
    enum facet_status status =
        facet_spirv_plain(LLVMGetBufferStart(code), LLVMGetBufferSize(code), &words, &count, &reason);

    if (status == FACET_OK)
        status = facet_spirv_check(words, count * sizeof *words, &reason);
    if (status == FACET_OK) {
        compilation->result->image = words;
        compilation->result->bytes = count * sizeof *words;
        return FACET_OK;
    }
    free(words);
    return status == FACET_CORRUPT ? refuse_spirv(compilation, reason.message, error)
                                   : facet_error_set(error, status, "%s", reason.message);
}

/* --- finishing ---------------------------------------------------------------------------------------------------- */

static enum facet_status generate_code(struct facet_compilation *compilation, struct facet_error *error)
{
    bool amdgcn = compilation->family == FACET_COMPILE_AMDGCN, ptx = compilation->family == FACET_COMPILE_PTX;
    LLVMMemoryBufferRef code = NULL;
    enum facet_status status =
        facet_compile_emit(compilation, compilation->module, ptx ? LLVMAssemblyFile : LLVMObjectFile, &code, error);

    if (status != FACET_OK)
        return status;
    if (amdgcn)
        status = facet_compile_link(compilation, code, error);
    else if (compilation->family == FACET_COMPILE_SPIRV)
        status = keep_spirv(compilation, code, error);
    else
        status = keep_code(compilation, code, ptx ? compilation->result->description : NULL, error);
    LLVMDisposeMemoryBuffer(code);
    return status;
}

static void set_machine(struct facet_compilation *compilation)
{
    char *triple = LLVMGetTargetMachineTriple(compilation->machine);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(compilation->machine);

    LLVMSetTarget(compilation->module, triple);
    LLVMSetModuleDataLayout(compilation->module, layout);
    LLVMDisposeTargetData(layout);
    LLVMDisposeMessage(triple);
}

static bool is_long(LLVMBasicBlockRef block)
{
    enum { LONG_BLOCK_INSTRUCTIONS = 2000 };
    uint32_t count = 0;

    for (LLVMValueRef at = LLVMGetFirstInstruction(block); at && count < LONG_BLOCK_INSTRUCTIONS;
         at = LLVMGetNextInstruction(at))
        count++;
    return count == LONG_BLOCK_INSTRUCTIONS;
}

static bool has_long_block(LLVMModuleRef module)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(module); function; function = LLVMGetNextFunction(function))
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block))
            if (is_long(block))
                return true;
    return false;
}

/*
 * Keeps LLVM from replacing a loop's sum by a formula, which needs integers of 65 bits and more that SPIR-V lacks;
 * and, in long blocks, from searching sums to vectorize, which is quadratic. Both are options of a whole process; a
 * compile for SPIR-V has a process of its own (apart.c).
 */
static void set_process_options(const struct facet_compilation *compilation)
{
    static const char *const options[] = {"facet", "-replexitval=never", "-slp-vectorize-hor=false"};

    LLVMParseCommandLineOptions(has_long_block(compilation->module) ? 3 : 2, options, "");
}

enum facet_status facet_compile_device(struct facet_compilation *compilation, struct facet_error *error)
{
    static const char *const pipelines[] = {"default<O0>", "default<O1>", "default<O2>", "default<O3>"};
    uint64_t start = facet_compile_now();

    set_machine(compilation);
    if (compilation->family == FACET_COMPILE_PTX)
        prepare_ptx(compilation);
    if (compilation->family == FACET_COMPILE_SPIRV)
        set_process_options(compilation);
    enum facet_status status = facet_compile_passes(compilation, pipelines[compilation->optimize], error);
    if (status == FACET_OK &&
        compilation->family == FACET_COMPILE_SPIRV) /* removes constants that SPIR-V cannot express */
        status = facet_compile_passes(compilation, "function(instsimplify),globaldce", error);
    if (status != FACET_OK)
        return status;
    compilation->result->optimize_ns = facet_compile_now() - start;
    for (uint32_t i = 0; i < compilation->kernel_count; i++)
        count_local(compilation, i);
    status = facet_compile_verdict(compilation, error);
    if (status == FACET_OK)
        status = facet_compile_describe(compilation, error);
    if (status != FACET_OK)
        return status;
    if (compilation->family == FACET_COMPILE_AMDGCN)
        facet_compile_attach(compilation);
    if (compilation->family == FACET_COMPILE_SPIRV)
        status = facet_compile_mend_code(compilation, error);
    return status == FACET_OK ? generate_code(compilation, error) : status;
}
