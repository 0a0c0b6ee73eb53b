/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: the names and arguments of kernels, from clang's metadata, or without it from their types; refusing values that
 *       an image's description may not have.
 * Never: changes the module.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Target.h>

#include "base/text.h"
#include "kernel/compile/compile.h"

enum { SPIRV_ARGUMENTS_MAX = 255 }; /* the most arguments of a function by SPIR-V's universal limits */
/* LLVM 19 splits a struct for AMDGPU byte by byte, in quadratic time: seconds for this many bytes. */
enum { OLD_AMDGCN_ARGUMENT_MAX_BYTES = 4096 };
enum { TEXT_LIST = 5, CONSTANT_SPACE = 2, GLOBAL_SPACE = 1, LOCAL_SPACE = 3 };

/* --- limits ------------------------------------------------------------------------------------------------------- */

/* Refuses a kernel. Always returns false, for the caller to return. */
__attribute__((format(printf, 3, 4))) static bool refuse(struct facet_compilation *compilation, const char *kernel,
                                                         const char *format, ...)
{
    char text[320];
    int used = snprintf(text, sizeof text, "kernel '%.80s'%s: ", kernel, strlen(kernel) > 80 ? "..." : "");
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    facet_compile_remark(compilation, FACET_SEVERITY_ERROR, 0, 0, NULL, text);
    return false;
}

/* `what` is how the message calls the text, such as "its name". */
static bool check_text(struct facet_compilation *compilation, const char *kernel, const char *what, const char *text)
{
    if (strlen(text) > FACET_IMAGE_TEXT_MAX)
        return refuse(compilation, kernel, "%s has %zu bytes; expected at most %d", what, strlen(text),
                      FACET_IMAGE_TEXT_MAX);
    char shown[FACET_TEXT_SHOWN_SIZE];
    size_t length;
    for (const char *at = text; (length = facet_text_show(at, shown)); at += length)
        if (facet_text_is_control(at) || facet_text_is_unseen(at) || !facet_text_character(at))
            return refuse(compilation, kernel, "%s has %s in it; expected UTF-8 without control or format characters",
                          what, shown);
    return true;
}

static bool check_kernel(struct facet_compilation *compilation, const struct facet_compile_kernel *kernel)
{
    const uint32_t *group = kernel->required_group_size;
    int max = compilation->family == FACET_COMPILE_SPIRV ? SPIRV_ARGUMENTS_MAX : FACET_IMAGE_ARGUMENTS_MAX;

    if (kernel->argument_count > (uint32_t)max)
        return refuse(compilation, kernel->name, "it has %u arguments; expected at most %d", kernel->argument_count,
                      max);
    for (uint32_t i = 0; (group[0] || group[1] || group[2]) && i < 3; i++)
        if (group[i] < 1 || group[i] > FACET_HOST_GROUP_MOST)
            return refuse(compilation, kernel->name, "reqd_work_group_size %u: expected 1 to %d", group[i],
                          FACET_HOST_GROUP_MOST);
    return check_text(compilation, kernel->name, "its name", kernel->name);
}

/* `bytes` is the argument's size; its copy in `argument`, of 32 bits, may have wrapped. */
static bool check_argument(struct facet_compilation *compilation, const struct facet_compile_kernel *kernel,
                           const struct facet_host_argument *argument, uint64_t offset, uint64_t bytes)
{
    char name[96];

    snprintf(name, sizeof name, "argument '%.72s'", argument->name);
    if (!bytes)
        return refuse(compilation, kernel->name, "%s has 0 bytes; expected at least 1", name);
    if (bytes > FACET_IMAGE_BLOCK_MAX || offset + bytes > FACET_IMAGE_BLOCK_MAX)
        return refuse(compilation, kernel->name,
                      "%s has %llu bytes, behind %llu of others; expected at most %d of all arguments together", name,
                      (unsigned long long)bytes, (unsigned long long)offset, FACET_IMAGE_BLOCK_MAX);
    if (LLVM_VERSION_MAJOR < 22 && compilation->family == FACET_COMPILE_AMDGCN && bytes > OLD_AMDGCN_ARGUMENT_MAX_BYTES)
        return refuse(compilation, kernel->name,
                      "%s has %llu bytes; expected at most %d: LLVM %d takes very long for a larger one on AMD's GPUs",
                      name, (unsigned long long)bytes, OLD_AMDGCN_ARGUMENT_MAX_BYTES, LLVM_VERSION_MAJOR);
    return check_text(compilation, kernel->name, "an argument's name", argument->name) &&
           check_text(compilation, kernel->name, "an argument's type", argument->type);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* The lists that clang writes of a kernel's arguments, one entry for each. */
struct lists {
    LLVMValueRef space, access, type, qualifier, name;
};

static LLVMValueRef list_of(LLVMContextRef context, LLVMValueRef function, const char *name)
{
    unsigned kind = LLVMGetMDKindIDInContext(context, name, (unsigned)strlen(name));
    size_t count;
    LLVMValueMetadataEntry *entries = LLVMGlobalCopyAllMetadata(function, &count);
    LLVMValueRef found = NULL;

    for (unsigned i = 0; i < count; i++)
        if (LLVMValueMetadataEntriesGetKind(entries, i) == kind)
            found = LLVMMetadataAsValue(context, LLVMValueMetadataEntriesGetMetadata(entries, i));
    LLVMDisposeValueMetadataEntries(entries);
    return found;
}

static LLVMValueRef entry_of(LLVMValueRef list, uint32_t index)
{
    if (!list || (uint32_t)LLVMGetMDNodeNumOperands(list) <= index)
        return NULL;
    LLVMValueRef *entries = calloc((size_t)LLVMGetMDNodeNumOperands(list), sizeof *entries), found = NULL;
    if (entries) {
        LLVMGetMDNodeOperands(list, entries);
        found = entries[index];
    }
    free(entries);
    return found;
}

static char *text_of(LLVMValueRef list, uint32_t index)
{
    unsigned length = 0;
    LLVMValueRef entry = entry_of(list, index);
    const char *text = entry ? LLVMGetMDString(entry, &length) : NULL;

    return strndup(text ? text : "", text ? length : 0);
}

/* The number in a list; -1: there is none. */
static int64_t number_of(LLVMValueRef list, uint32_t index)
{
    LLVMValueRef entry = entry_of(list, index);

    return entry && LLVMIsAConstantInt(entry) ? (int64_t)LLVMConstIntGetZExtValue(entry) : -1;
}

/* The address space by OpenCL's number: modules of different flavours number constant memory differently. */
static int64_t space_of(const struct facet_compilation *compilation, const struct lists *lists, uint32_t index,
                        LLVMTypeRef type)
{
    int64_t space = number_of(lists->space, index);
    unsigned constant = compilation->family == FACET_COMPILE_SPIRV ? 2 : 4;

    if (space >= 0 || LLVMGetTypeKind(type) != LLVMPointerTypeKind)
        return space;
    return LLVMGetPointerAddressSpace(type) == constant ? CONSTANT_SPACE : LLVMGetPointerAddressSpace(type);
}

static bool is_image(const char *type)
{
    size_t length = strlen(type);

    return strncmp(type, "image", 5) == 0 && length > 2 && strcmp(type + length - 2, "_t") == 0;
}

static uint32_t kind_of(const struct facet_host_argument *argument, int64_t space, LLVMTypeRef type)
{
    if (is_image(argument->type))
        return FACET_ARGUMENT_IMAGE;
    if (strcmp(argument->type, "sampler_t") == 0)
        return FACET_ARGUMENT_SAMPLER;
    if (LLVMGetTypeKind(type) != LLVMPointerTypeKind || space == 0)
        return FACET_ARGUMENT_VALUE;
    return space == LOCAL_SPACE ? FACET_ARGUMENT_LOCAL : FACET_ARGUMENT_GLOBAL;
}

static uint32_t access_of(const struct lists *lists, uint32_t index, uint32_t kind, int64_t space)
{
    char *access = text_of(lists->access, index), *qualifier = text_of(lists->qualifier, index);
    uint32_t bits = FACET_ARGUMENT_READS | FACET_ARGUMENT_WRITES;

    if (kind == FACET_ARGUMENT_VALUE || kind == FACET_ARGUMENT_SAMPLER || space == CONSTANT_SPACE ||
        (access && strcmp(access, "read_only") == 0) || (qualifier && strstr(qualifier, "const")))
        bits = FACET_ARGUMENT_READS;
    else if (access && strcmp(access, "write_only") == 0)
        bits = FACET_ARGUMENT_WRITES;
    free(access);
    free(qualifier);
    return bits;
}

/* The struct that a kernel takes by value: such an argument is a pointer with an attribute that has the type. */
static LLVMTypeRef struct_of(LLVMValueRef function, uint32_t index)
{
    static const char *const names[] = {"byval", "byref"};

    for (size_t i = 0; i < 2; i++) {
        unsigned kind = LLVMGetEnumAttributeKindForName(names[i], strlen(names[i]));
        LLVMAttributeRef attribute = LLVMGetEnumAttributeAtIndex(function, index + 1, kind);
        if (attribute)
            return LLVMGetTypeAttributeValue(attribute);
    }
    return NULL;
}

static uint32_t align_of(LLVMValueRef function, uint32_t index, LLVMTargetDataRef layout, LLVMTypeRef type)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAttributeRef attribute = LLVMGetEnumAttributeAtIndex(function, index + 1, kind);

    if (attribute && struct_of(function, index))
        return (uint32_t)LLVMGetEnumAttributeValue(attribute);
    return LLVMABIAlignmentOfType(layout, type);
}

/* Returns an argument's alignment in the argument block, and sets *ret_bytes. The host's block has an offset for local
 * memory, and a sampler's bits. */
static uint32_t place_argument(const struct facet_compilation *compilation, LLVMValueRef function, uint32_t index,
                               const struct facet_host_argument *argument, uint64_t *ret_bytes)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(compilation->module);
    LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(function, index)), pointee = struct_of(function, index);
    bool handle = LLVMGetTypeKind(type) == LLVMTargetExtTypeKind;

    if (compilation->family == FACET_COMPILE_HOST &&
        (argument->kind == FACET_ARGUMENT_LOCAL || argument->kind == FACET_ARGUMENT_SAMPLER)) {
        bool sized = argument->kind == FACET_ARGUMENT_LOCAL && compilation->request->check;
        *ret_bytes = sized ? FACET_HOST_LOCAL_CHECKED : 4;
        return 4;
    }
    if (argument->kind != FACET_ARGUMENT_VALUE || handle) {
        *ret_bytes = handle ? 8 : LLVMPointerSizeForAS(layout, LLVMGetPointerAddressSpace(type));
        return (uint32_t)*ret_bytes;
    }
    *ret_bytes = LLVMABISizeOfType(layout, pointee ? pointee : type);
    return align_of(function, index, layout, pointee ? pointee : type);
}

/* Reads one argument of a kernel. False: no memory, or the argument was refused. */
static bool take_argument(struct facet_compilation *compilation, LLVMValueRef function, const struct lists *lists,
                          uint32_t index, struct facet_compile_kernel *kernel)
{
    struct facet_host_argument *argument = &kernel->arguments[index];
    LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(function, index));
    int64_t space = space_of(compilation, lists, index, type);
    uint64_t bytes;

    argument->name = text_of(lists->name, index);
    argument->type = text_of(lists->type, index);
    if (!argument->name || !argument->type)
        return false;
    argument->kind = kind_of(argument, space, type);
    argument->access = access_of(lists, index, argument->kind, space);
    uint32_t align = place_argument(compilation, function, index, argument, &bytes);
    argument->offset = (kernel->argument_bytes + align - 1) & ~(align - 1);
    argument->bytes = (uint32_t)bytes;
    kernel->argument_bytes = argument->offset + argument->bytes;
    return check_argument(compilation, kernel, argument, argument->offset, bytes);
}

static bool take_kernel(struct facet_compilation *compilation, LLVMValueRef function,
                        struct facet_compile_kernel *kernel)
{
    LLVMContextRef context = compilation->context;
    size_t length;
    const struct lists lists = {
        .space = list_of(context, function, "kernel_arg_addr_space"),
        .access = list_of(context, function, "kernel_arg_access_qual"),
        .type = list_of(context, function, "kernel_arg_type"),
        .qualifier = list_of(context, function, "kernel_arg_type_qual"),
        .name = list_of(context, function, "kernel_arg_name"),
    };
    LLVMValueRef group = list_of(context, function, "reqd_work_group_size");

    kernel->name = strdup(LLVMGetValueName2(function, &length));
    kernel->argument_count = LLVMCountParams(function);
    kernel->arguments = calloc((size_t)kernel->argument_count + 1, sizeof *kernel->arguments);
    if (!kernel->name || !kernel->arguments)
        return false;
    for (uint32_t i = 0; group && i < 3; i++)
        kernel->required_group_size[i] = (uint32_t)number_of(group, i);
    if (!check_kernel(compilation, kernel))
        return false;
    for (uint32_t i = 0; i < kernel->argument_count; i++)
        if (!take_argument(compilation, function, &lists, i, kernel))
            return false;
    return true;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct facet_compile_kernel *)left)->name,
                  ((const struct facet_compile_kernel *)right)->name);
}

static bool is_kernel(const struct facet_compilation *compilation, LLVMValueRef function)
{
    return !LLVMIsDeclaration(function) && LLVMGetFunctionCallConv(function) == compilation->flavour->convention;
}

enum facet_status facet_compile_shape(struct facet_compilation *compilation, struct facet_error *error)
{
    uint32_t count = 0;
    LLVMValueRef function;

    for (function = LLVMGetFirstFunction(compilation->module); function; function = LLVMGetNextFunction(function))
        count += is_kernel(compilation, function);
    if (count > FACET_IMAGE_KERNELS_MAX)
        return facet_error_argument(error, FACET_CORRUPT, "source", "%s: %u kernels; expected at most %d",
                                    compilation->request->name, count, FACET_IMAGE_KERNELS_MAX);
    compilation->kernels = calloc((size_t)count + 1, sizeof *compilation->kernels);
    if (!compilation->kernels)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u kernels", count);
    for (function = LLVMGetFirstFunction(compilation->module); function; function = LLVMGetNextFunction(function)) {
        if (!is_kernel(compilation, function))
            continue;
        if (!take_kernel(compilation, function, &compilation->kernels[compilation->kernel_count++]) &&
            !compilation->failed)
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for a kernel's arguments");
    }
    if (!count)
        facet_compile_remark(compilation, FACET_SEVERITY_WARNING, 0, 0, NULL, "the source has no kernel");
    qsort(compilation->kernels, compilation->kernel_count, sizeof *compilation->kernels, by_name);
    return facet_compile_verdict(compilation, error);
}

LLVMValueRef facet_compile_function(const struct facet_compilation *compilation, uint32_t kernel)
{
    return LLVMGetNamedFunction(compilation->module, compilation->kernels[kernel].name);
}

bool facet_compile_is_kernel(const struct facet_compilation *compilation, const char *name)
{
    const struct facet_compile_kernel key = {.name = (char *)name};

    return compilation->kernel_count &&
           bsearch(&key, compilation->kernels, compilation->kernel_count, sizeof key, by_name) != NULL;
}
