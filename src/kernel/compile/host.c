/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns: an image for the host (facet/host_kernel.h): lowered kernels, the table that finds them, the linked object.
 * Never: makes an object that calls anything except the C library's functions that copy and fill memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/compile/compile.h"
#include "kernel/compile/lower.h"
#include "kernel/compile/shims.h"

enum { LOOP_BLOCKS_MAX = 256 }; /* the body of a loop with more blocks becomes a function (shim_loops.cc) */

/* The state while constants of the table are built. */
struct table_builder {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTypeRef word, pointer;
};

static LLVMValueRef word_constant(const struct table_builder *table_builder, uint32_t value)
{
    return LLVMConstInt(table_builder->word, value, 0);
}

static LLVMValueRef hold_constant(const struct table_builder *table_builder, LLVMValueRef constant, const char *name)
{
    LLVMValueRef global = LLVMAddGlobal(table_builder->module, LLVMTypeOf(constant), name);

    LLVMSetInitializer(global, constant);
    LLVMSetGlobalConstant(global, 1);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

static LLVMValueRef text_constant(const struct table_builder *table_builder, const char *content)
{
    return hold_constant(table_builder, LLVMConstStringInContext2(table_builder->context, content, strlen(content), 0),
                         "");
}

static LLVMValueRef record_constant(const struct table_builder *table_builder, LLVMValueRef *members, uint32_t count)
{
    return LLVMConstStructInContext(table_builder->context, members, count, 0);
}

static LLVMValueRef argument_record(const struct table_builder *table_builder, const struct facet_host_argument *given)
{
    LLVMValueRef members[] = {
        text_constant(table_builder, given->name),  text_constant(table_builder, given->type),
        word_constant(table_builder, given->kind),  word_constant(table_builder, given->offset),
        word_constant(table_builder, given->bytes), word_constant(table_builder, given->access),
    };

    return record_constant(table_builder, members, 6);
}

/* An array of records of one type; a null pointer when there are none. */
static LLVMValueRef record_array(const struct table_builder *table_builder, LLVMValueRef *records, uint32_t count)
{
    if (!count)
        return LLVMConstNull(table_builder->pointer);
    return hold_constant(table_builder, LLVMConstArray2(LLVMTypeOf(records[0]), records, count), "");
}

/* The array of a kernel's arguments; NULL: no memory. */
static LLVMValueRef argument_records(const struct table_builder *table_builder,
                                     const struct facet_compile_kernel *kernel)
{
    FACET_CLEANUP_FREE LLVMValueRef *records = calloc(kernel->argument_count + 1, sizeof(LLVMValueRef));

    for (uint32_t i = 0; records && i < kernel->argument_count; i++)
        records[i] = argument_record(table_builder, &kernel->arguments[i]);
    return records ? record_array(table_builder, records, kernel->argument_count) : NULL;
}

static LLVMValueRef kernel_record(const struct table_builder *table_builder, const struct facet_compile_kernel *kernel,
                                  LLVMValueRef run)
{
    LLVMValueRef members[] = {
        text_constant(table_builder, kernel->name),
        run,
        argument_records(table_builder, kernel),
        word_constant(table_builder, kernel->argument_count),
        word_constant(table_builder, kernel->argument_bytes),
        word_constant(table_builder, kernel->local_bytes),
        word_constant(table_builder, kernel->scratch_fixed_bytes),
        word_constant(table_builder, kernel->scratch_item_bytes),
        word_constant(table_builder, kernel->required_group_size[0]),
        word_constant(table_builder, kernel->required_group_size[1]),
        word_constant(table_builder, kernel->required_group_size[2]),
        word_constant(table_builder, kernel->flags),
        word_constant(table_builder, 0),
    };

    return members[2] ? record_constant(table_builder, members, 13) : NULL;
}

/*
 * A variable that the lowering made for a checked image: the pointer to struct facet_host_check, or the array of sites.
 */
static LLVMValueRef made_by_lowering(const struct table_builder *table_builder, const char *name)
{
    LLVMValueRef made = LLVMGetNamedGlobal(table_builder->module, name);

    return made ? made : LLVMConstNull(table_builder->pointer);
}

static uint32_t count_sites(const struct table_builder *table_builder)
{
    LLVMValueRef sites = LLVMGetNamedGlobal(table_builder->module, FACET_LOWER_SITES);

    return sites ? (uint32_t)LLVMGetArrayLength2(LLVMGlobalGetValueType(sites)) : 0;
}

static void add_image(const struct table_builder *table_builder, const struct facet_compilation *compilation,
                      LLVMValueRef kernels)
{
    LLVMValueRef members[] = {
        word_constant(table_builder, FACET_HOST_IMAGE_MAGIC),
        word_constant(table_builder, FACET_HOST_IMAGE_ABI),
        word_constant(table_builder, sizeof(struct facet_host_image)),
        word_constant(table_builder, compilation->kernel_count),
        kernels,
        text_constant(table_builder, compilation->target),
        text_constant(table_builder, compilation->features),
        made_by_lowering(table_builder, FACET_LOWER_CHECK),
        made_by_lowering(table_builder, FACET_LOWER_SITES),
        word_constant(table_builder, count_sites(table_builder)),
        word_constant(table_builder, 0),
    };
    LLVMValueRef image =
        hold_constant(table_builder, record_constant(table_builder, members, 11), FACET_HOST_IMAGE_NAME);

    LLVMSetLinkage(image, LLVMExternalLinkage);
    LLVMSetVisibility(image, LLVMProtectedVisibility);
}

static enum facet_status add_table(struct facet_compilation *compilation, const struct facet_lower_kernel *lowered,
                                   struct facet_error *error)
{
    FACET_CLEANUP_FREE LLVMValueRef *records = calloc(compilation->kernel_count + 1, sizeof(LLVMValueRef));
    const struct table_builder table_builder = {
        .module = compilation->module,
        .context = compilation->context,
        .word = LLVMInt32TypeInContext(compilation->context),
        .pointer = LLVMPointerTypeInContext(compilation->context, 0),
    };

    for (uint32_t i = 0; records && i < compilation->kernel_count; i++) {
        LLVMSetLinkage(lowered[i].run, LLVMInternalLinkage);
        records[i] = kernel_record(&table_builder, &compilation->kernels[i], lowered[i].run);
        if (!records[i])
            return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image's table");
    }
    if (!records)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for an image's table");
    add_image(&table_builder, compilation, record_array(&table_builder, records, compilation->kernel_count));
    return FACET_OK;
}

static void give_arguments(const struct facet_compile_kernel *kernel, struct facet_lower_argument *arguments_given,
                           struct facet_lower_kernel *ret_lowered)
{
    for (uint32_t i = 0; i < kernel->argument_count; i++)
        arguments_given[i] = (struct facet_lower_argument){
            .kind = kernel->arguments[i].kind,
            .offset = kernel->arguments[i].offset,
            .bytes = kernel->arguments[i].bytes,
        };
    ret_lowered->name = kernel->name;
    ret_lowered->arguments = arguments_given;
    memcpy(ret_lowered->required_group_size, kernel->required_group_size, sizeof kernel->required_group_size);
}

static void take_lowered(const struct facet_lower_kernel *lowered, struct facet_compile_kernel *kernel)
{
    kernel->local_bytes = lowered->local_bytes;
    kernel->scratch_fixed_bytes = lowered->scratch_fixed_bytes;
    kernel->scratch_item_bytes = lowered->scratch_item_bytes;
    kernel->flags = lowered->flags;
}

static enum facet_status lower_kernels(struct facet_compilation *compilation, struct facet_lower_kernel *lowered,
                                       struct facet_error *error)
{
    const struct facet_lower_options options = {
        .machine = compilation->machine,
        .optimize = compilation->optimize,
        .check = compilation->request->check,
    };
    uint32_t count = 0;

    for (uint32_t i = 0; i < compilation->kernel_count; i++)
        count += compilation->kernels[i].argument_count;
    FACET_CLEANUP_FREE struct facet_lower_argument *given = calloc(count + 1, sizeof *given);
    if (!given)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u arguments", count);
    for (uint32_t i = 0, used = 0; i < compilation->kernel_count; used += compilation->kernels[i++].argument_count)
        give_arguments(&compilation->kernels[i], given + used, &lowered[i]);
    return facet_lower_host(compilation->module, &options, lowered, compilation->kernel_count, error);
}

/* Whether the function has so many long blocks that the better code generator would need many seconds. */
static bool has_many_long_blocks(LLVMValueRef function)
{
    enum { LONG_BLOCK_INSTRUCTIONS = 400, LONG_BLOCKS_INSTRUCTIONS_MAX = 20000 };
    uint32_t count = 0, block_instructions;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(function); block; block = LLVMGetNextBasicBlock(block)) {
        block_instructions = 0;
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at))
            block_instructions++;
        count += block_instructions >= LONG_BLOCK_INSTRUCTIONS ? block_instructions : 0;
    }
    return count > LONG_BLOCKS_INSTRUCTIONS_MAX;
}

/*
 * Some passes of the better generator are quadratic even in small blocks (in the uses of a register). A module with a
 * function for which they would take long gets the plain generator, which is not quadratic.
 */
static void choose_generator(struct facet_compilation *compilation)
{
    LLVMTargetMachineRef machine = compilation->machine, made;
    bool plain = false;

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function && !plain;
         function = LLVMGetNextFunction(function))
        plain = has_many_long_blocks(function);
    if (!plain)
        return;
    char *triple = LLVMGetTargetMachineTriple(machine), *processor = LLVMGetTargetMachineCPU(machine);
    char *features = LLVMGetTargetMachineFeatureString(machine);
    made = LLVMCreateTargetMachine(LLVMGetTargetMachineTarget(machine), triple, processor, features,
                                   LLVMCodeGenLevelNone, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(processor);
    LLVMDisposeMessage(features);
    if (!made)
        return;
    LLVMDisposeTargetMachine(machine);
    compilation->machine = made;
}

/* With -cl-fast-relaxed-math LLVM would divide by an estimate and two steps towards the quotient, which takes twice as
 * long as the processor's own division. */
static void divide_by_instruction(struct facet_compilation *compilation)
{
    static const char name[] = "reciprocal-estimates", value[] = "none";
    LLVMAttributeRef attribute =
        LLVMCreateStringAttribute(compilation->context, name, sizeof name - 1, value, sizeof value - 1);

    for (LLVMValueRef function = LLVMGetFirstFunction(compilation->module); function;
         function = LLVMGetNextFunction(function))
        if (!LLVMIsDeclaration(function))
            LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

enum facet_status facet_compile_host(struct facet_compilation *compilation, struct facet_error *error)
{
    FACET_CLEANUP_FREE struct facet_lower_kernel *lowered = calloc(compilation->kernel_count + 1, sizeof *lowered);
    struct facet_backend_result *result = compilation->result;
    LLVMMemoryBufferRef object = NULL;
    uint64_t start = facet_compile_now();

    if (!lowered)
        return facet_error_set(error, FACET_NO_MEMORY, "no memory for %u kernels", compilation->kernel_count);
    enum facet_status status = lower_kernels(compilation, lowered, error);
    if (status == FACET_UNSUPPORTED && facet_compile_refuse_recursion(compilation))
        return facet_compile_verdict(compilation, error);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < compilation->kernel_count; i++)
        take_lowered(&lowered[i], &compilation->kernels[i]);
    result->optimize_ns = facet_compile_now() - start;
    status = facet_compile_describe(compilation, error);
    if (status == FACET_OK)
        status = add_table(compilation, lowered, error);
    if (status != FACET_OK)
        return status;
    facet_compile_attach(compilation);
    facet_shim_divide_loops(compilation->module, LOOP_BLOCKS_MAX);
    divide_by_instruction(compilation);
    choose_generator(compilation);
    status = facet_compile_emit(compilation, compilation->module, LLVMObjectFile, &object, error);
    if (status == FACET_OK)
        status = facet_compile_link(compilation, object, error);
    if (object)
        LLVMDisposeMemoryBuffer(object);
    if (status == FACET_OK && result->bytes > FACET_HOST_IMAGE_MOST)
        return facet_error_set(error, FACET_OUT_OF_RANGE, "an image of %zu bytes; expected at most %" PRIu64,
                               result->bytes, FACET_HOST_IMAGE_MOST);
    return status;
}
