/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of the lowering for the host.
 *
 * Owns: the order of the steps, LLVM's passes between them, and the choice of the width of lanes.
 * Never: changes instructions itself: lower_item.c, lower_lanes.c and lower_group.c do.
 */
#include "kernel/compile/shims.h"
#include "lower_inside.h"

#include <stdio.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/DebugInfo.h>

#include <facet/host_kernel.h>

static const char inline_all[] = "always-inline,globaldce";
/* Finds out which shared functions write nothing, so that their calls may be moved and merged. */
static const char describe_shared[] = "function(sroa<modify-cfg>),cgscc(function-attrs)";
/* Simplifies the function of one work-item, in which calls are inlined: keeps its variables in registers. */
static const char simplify[] =
    "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg<no-switch-to-lookup;hoist-common-insts>,instcombine<"
    "no-verify-fixpoint>,"
    "loop-mssa(loop-rotate,licm),simplifycfg<no-switch-to-lookup>,loop(indvars,loop-deletion,loop-unroll-full),"
    "sroa<modify-cfg>,gvn<no-pre>,instcombine<no-verify-fixpoint>,adce,simplifycfg<no-switch-to-lookup>)";
/* Turns switches into tables. Runs before blocks with many predecessors are split, since a table has no such block. */
static const char tabulate[] = "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg<switch-to-lookup>)";
static const char simplify_little[] = "always-inline,globaldce,function(sroa<preserve-cfg>)";
/* With structurize, makes control flow that lower_lanes.c accepts: conditional branches only, each an if without else
 * or a loop's latch. */
static const char before_structurize[] =
    "function(lower-switch,mergereturn,scalarizer<load-store;no-variable-insert-extract>,"
    "sroa<modify-cfg>,instcombine<no-verify-fixpoint>,"
    "loop-simplify,fix-irreducible,unify-loop-exits)";
static const char structurize[] = "function(structurizecfg,early-cse,lcssa)";
static const char finish[] = "function(sroa<modify-cfg>,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
                             "loop-mssa(loop-rotate,licm),instcombine<no-verify-fixpoint>,"
                             "sroa<modify-cfg>,simplifycfg,gvn,loop(indvars,loop-deletion),loop-unroll<O2;no-runtime>,"
                             "sroa<modify-cfg>,early-cse<memssa>,loop-mssa(licm),instcombine<no-verify-fixpoint>,dse,"
                             "adce,simplifycfg<switch-to-lookup>),globaldce";
static const char close_loops[] = "function(loop-simplify,lcssa)";
static const char merge_steps[] = "function(instcombine<no-verify-fixpoint>)";
static const char finish_little[] = "function(sroa<preserve-cfg>),globaldce";

#define NO_OPTIMIZATION "optnone"

#define LANES_PER_LINE 16u /* lanes of 32 bits */

struct lowering {
    struct facet_arena arena;
    LLVMModuleRef module;
    const struct facet_lower_options *options;
    struct facet_error *error;
    uint32_t lanes;             /* lanes of 32 bits in a register; 1: kernels are not vectorized */
    LLVMValueRef after_barrier; /* of checked images: the member of struct facet_group_layout; else NULL */
};

static enum facet_status run_passes(struct lowering *lowering, const char *passes)
{
    LLVMErrorRef failed = facet_llvm_passes(lowering->module, passes, lowering->options->machine);
    enum facet_status status = FACET_OK;
    char *text;

    if (!failed)
        return FACET_OK;
    text = LLVMGetErrorMessage(failed);
    status = facet_error_set(lowering->error, FACET_INTERNAL, "passes of LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return status;
}

static void set_attribute(LLVMValueRef function, const char *name)
{
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(LLVMGetModuleContext(LLVMGetGlobalParent(function)),
                                                    LLVMGetEnumAttributeKindForName(name, strlen(name)), 0));
}

static void drop_attribute(LLVMValueRef function, const char *name)
{
    LLVMRemoveEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                   LLVMGetEnumAttributeKindForName(name, strlen(name)));
}

static bool has_attribute(LLVMValueRef function, const char *name)
{
    return LLVMGetEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                       LLVMGetEnumAttributeKindForName(name, strlen(name))) != NULL;
}

static void set_machine(LLVMValueRef function, LLVMTargetMachineRef machine)
{
    char *cpu = LLVMGetTargetMachineCPU(machine), *features = LLVMGetTargetMachineFeatureString(machine);

    LLVMAddTargetDependentFunctionAttr(function, "target-cpu", cpu);
    LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "target-features", 15);
    if (*features)
        LLVMAddTargetDependentFunctionAttr(function, "target-features", features);
    LLVMAddTargetDependentFunctionAttr(function, "prefer-vector-width", "512");
    LLVMAddTargetDependentFunctionAttr(function, "min-legal-vector-width", "512");
    set_attribute(function, "nounwind");
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
}

/* Our own calls return numbers and have no effects: attributes say so, so that LLVM moves and merges the calls. */
static void promise_pure_call(LLVMValueRef function)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);

    set_attribute(function, "nounwind");
    set_attribute(function, "willreturn");
    if (strcmp(name, "__facet_barrier") == 0) {
        set_attribute(function, "convergent");
        return;
    }
    set_attribute(function, "nosync");
    set_attribute(function, "nofree");
    set_attribute(function, "speculatable");
    set_attribute(function, "memory");
}

static void note_vector_feature(void *context, const char *feature)
{
    uint32_t *lanes = context, other = strcmp(feature, "avx512f") == 0 ? 16 : strcmp(feature, "avx2") == 0 ? 8 : 4;

    if (other > *lanes)
        *lanes = other;
}

uint32_t facet_lower_lanes(const char *triple, const char *processor, const char *features)
{
    uint32_t lanes = 4;

    facet_shim_features(triple, processor, features, note_vector_feature, &lanes);
    return lanes;
}

static uint32_t lanes_of(LLVMTargetMachineRef machine)
{
    char *triple = LLVMGetTargetMachineTriple(machine), *processor = LLVMGetTargetMachineCPU(machine);
    char *features = LLVMGetTargetMachineFeatureString(machine);
    uint32_t lanes = facet_lower_lanes(triple, processor, features);

    LLVMDisposeMessage(triple);
    LLVMDisposeMessage(processor);
    LLVMDisposeMessage(features);
    return lanes;
}

static void prepare_functions(struct lowering *lowering)
{
    for (LLVMValueRef function = LLVMGetFirstFunction(lowering->module); function;
         function = LLVMGetNextFunction(function)) {
        size_t length;

        if (LLVMIsDeclaration(function)) {
            if (strncmp(LLVMGetValueName2(function, &length), "__facet_", 8) == 0)
                promise_pure_call(function);
            continue;
        }
        drop_attribute(function, "noinline");
        drop_attribute(function, "optnone");
        set_machine(function, lowering->options->machine);
        facet_item_divide(&lowering->arena, function);
        set_attribute(function, "alwaysinline");
        LLVMSetLinkage(function, LLVMInternalLinkage);
    }
}

static char *name_of(struct lowering *lowering, const char *prefix, const char *name, const char *suffix)
{
    size_t bytes = strlen(prefix) + strlen(name) + strlen(suffix) + 1;
    char *text = facet_arena_take(&lowering->arena, bytes);

    snprintf(text, bytes, "%s%s%s", prefix, name, suffix);
    return text;
}

static LLVMValueRef make_group(struct lowering *lowering, struct facet_lower_kernel *kernel, LLVMValueRef item,
                               uint32_t width, uint32_t items_per_chunk, const char *suffix)
{
    struct facet_group_layout layout = {
        .width = width, .frames = lowering->after_barrier != NULL, .after_barrier = lowering->after_barrier};
    LLVMValueRef run;
    uint32_t bytes;

    memcpy(layout.required_group_size, kernel->required_group_size, sizeof(layout.required_group_size));
    run = facet_group_make(&lowering->arena, item, LLVMGetModuleDataLayout(lowering->module), &layout,
                           name_of(lowering, FACET_LOWER_RUN, kernel->name, suffix));
    set_machine(run, lowering->options->machine);
    bytes = (layout.frame_bytes + items_per_chunk - 1) / items_per_chunk;
    if (bytes > kernel->scratch_item_bytes)
        kernel->scratch_item_bytes = bytes;
    if (layout.fixed_bytes > kernel->scratch_fixed_bytes)
        kernel->scratch_fixed_bytes = layout.fixed_bytes;
    return run;
}

/* Makes a function that chooses at run time: `whole` when the group's size in x is a multiple of `width`, else
 * `part`. */
static LLVMValueRef make_choice(struct lowering *lowering, struct facet_lower_kernel *kernel, LLVMValueRef whole,
                                LLVMValueRef part, uint32_t width)
{
    LLVMContextRef context = LLVMGetModuleContext(lowering->module);
    LLVMTypeRef i32 = LLVMInt32TypeInContext(context), type = LLVMGlobalGetValueType(whole);
    LLVMValueRef run = LLVMAddFunction(lowering->module, name_of(lowering, FACET_LOWER_RUN, kernel->name, ""), type);
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    LLVMBasicBlockRef blocks[3];
    LLVMValueRef parameters[2] = {LLVMGetParam(run, 0), LLVMGetParam(run, 1)}, size;
    LLVMValueRef offset = LLVMConstInt(i32, offsetof(struct facet_host_group, group_size), 0);

    for (uint32_t i = 0; i < 3; i++)
        blocks[i] = LLVMAppendBasicBlockInContext(context, run, "");
    LLVMPositionBuilderAtEnd(builder, blocks[0]);
    size = LLVMBuildGEP2(builder, LLVMInt8TypeInContext(context), parameters[1], &offset, 1, "");
    size = LLVMBuildAnd(builder, LLVMBuildLoad2(builder, i32, size, ""), LLVMConstInt(i32, width - 1, 0), "");
    LLVMBuildCondBr(builder, LLVMBuildICmp(builder, LLVMIntEQ, size, LLVMConstInt(i32, 0, 0), ""), blocks[1],
                    blocks[2]);
    for (uint32_t i = 1; i < 3; i++) {
        LLVMPositionBuilderAtEnd(builder, blocks[i]);
        LLVMBuildCall2(builder, type, i == 1 ? whole : part, parameters, 2, "");
        LLVMBuildRetVoid(builder);
    }
    LLVMSetLinkage(whole, LLVMInternalLinkage);
    LLVMSetLinkage(part, LLVMInternalLinkage);
    LLVMDisposeBuilder(builder);
    set_machine(run, lowering->options->machine);
    return run;
}

/* Makes the form with lanes; NULL: there is none, and *ret_why says why. */
static LLVMValueRef make_lanes(struct lowering *lowering, LLVMValueRef item, uint32_t width, bool masked,
                               const char **ret_why)
{
    struct facet_lanes_form form = {.width = width, .register_lanes = lowering->lanes, .masked = masked};
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(lowering->module);
    LLVMValueRef made;

    if (!facet_lanes_make(&lowering->arena, item, layout, &form, "facet_lanes", &made, ret_why))
        return NULL;
    set_machine(made, lowering->options->machine);
    return made;
}

/* A chunk's values of 32 bits fill one line of the cache. If a line takes two registers, their operations overlap. */
static uint32_t choose_width(uint32_t lanes, uint32_t required)
{
    uint32_t width = lanes < LANES_PER_LINE ? 2 * lanes : lanes;

    return required % width != 0 && required % (width / 2) == 0 ? width / 2 : width;
}

static void make_run(struct lowering *lowering, struct facet_lower_kernel *kernel, LLVMValueRef item)
{
    LLVMValueRef whole = NULL, part = NULL;
    const char *why = lowering->lanes > 1 && !has_attribute(item, NO_OPTIMIZATION) ? NULL : "";
    uint32_t required = kernel->required_group_size[0], width = choose_width(lowering->lanes, required);
    uint32_t narrow = width / 2; /* groups of 8 by 8 are common */

    if (!why && required % width == 0)
        whole = make_lanes(lowering, item, width, false, &why);
    if (!why && (!required || required % width != 0))
        part = make_lanes(lowering, item, narrow, true, &why);
    if (why) {
        if (whole)
            LLVMDeleteFunction(whole);
        kernel->run = make_group(lowering, kernel, item, 1, 1, "");
        return;
    }
    LLVMDeleteFunction(item);
    kernel->flags |= FACET_HOST_VECTORIZED;
    if (whole)
        whole = make_group(lowering, kernel, whole, width, width, part ? ".whole" : "");
    if (part)
        part = make_group(lowering, kernel, part, narrow, 1, whole ? ".part" : "");
    kernel->run = whole && part ? make_choice(lowering, kernel, whole, part, width) : whole ? whole : part;
}

static enum facet_status make_items(struct lowering *lowering, struct facet_lower_kernel *kernels, uint32_t count,
                                    LLVMValueRef *items)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!LLVMGetNamedFunction(lowering->module, kernels[i].name))
            return facet_error_argument(lowering->error, FACET_NOT_FOUND, "kernels", "no function \"%s\"",
                                        kernels[i].name);
        kernels[i].local_bytes = kernels[i].scratch_fixed_bytes = kernels[i].scratch_item_bytes = 0;
        kernels[i].flags = 0;
        items[i] = facet_item_make(&lowering->arena, lowering->module, &kernels[i]);
        set_machine(items[i], lowering->options->machine);
    }
    return FACET_OK;
}

static enum facet_status check_group_size(struct lowering *lowering, const struct facet_lower_kernel *kernel)
{
    const uint32_t *size = kernel->required_group_size;
    uint64_t items = (uint64_t)size[0] * size[1];

    if (items <= FACET_HOST_GROUP_MOST && items * size[2] <= FACET_HOST_GROUP_MOST)
        return FACET_OK;
    return facet_error_set(lowering->error, FACET_UNSUPPORTED,
                           "kernel \"%s\" requires work-groups of %u by %u by %u; expected at most %u work-items",
                           kernel->name, size[0], size[1], size[2], FACET_HOST_GROUP_MOST);
}

static enum facet_status resolve_items(struct lowering *lowering, struct facet_lower_kernel *kernels, uint32_t count,
                                       LLVMValueRef *items)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *unsupported, *obstacle = facet_item_obstacle(items[i]);

        if (check_group_size(lowering, &kernels[i]) != FACET_OK)
            return FACET_UNSUPPORTED;
        if (obstacle)
            return facet_error_set(lowering->error, FACET_UNSUPPORTED, "kernel \"%s\" %s", kernels[i].name, obstacle);
        facet_item_resolve(&lowering->arena, items[i], &kernels[i], lowering->options->check);
        if (kernels[i].local_bytes == UINT32_MAX)
            return facet_error_set(lowering->error, FACET_UNSUPPORTED,
                                   "kernel \"%s\" has more than 1 GiB of local memory", kernels[i].name);
        unsupported = facet_item_unsupported_call(items[i]);
        if (unsupported)
            return facet_error_set(lowering->error, FACET_UNSUPPORTED,
                                   "kernel \"%s\" calls \"%s\", which has no body, calls itself or cannot be inlined",
                                   kernels[i].name, unsupported);
    }
    return FACET_OK;
}

/* Unrolls the loops of a run function, and of the functions that are its regions. */
static void unroll_run(struct lowering *lowering, LLVMValueRef run)
{
    size_t length, other_length;
    const char *name = LLVMGetValueName2(run, &length), *other;
    static const char suffix[] = FACET_REGION_SUFFIX;

    facet_loops_unroll(&lowering->arena, run);
    for (LLVMValueRef function = LLVMGetFirstFunction(lowering->module); function;
         function = LLVMGetNextFunction(function)) {
        other = LLVMGetValueName2(function, &other_length);
        if (other_length >= length + sizeof suffix - 1 && strncmp(other, name, length) == 0 &&
            strncmp(other + length, suffix, sizeof suffix - 1) == 0)
            facet_loops_unroll(&lowering->arena, function);
    }
}

/* Only for kernels whose items run one by one (lower_steps.c says why): in lanes, a loop has as many rounds as its
 * longest lane. */
static enum facet_status unroll_loops(struct lowering *lowering, const struct facet_lower_kernel *kernels,
                                      uint32_t count)
{
    enum facet_status status = FACET_OK;
    uint32_t one_by_one = 0;

    for (uint32_t i = 0; i < count; i++)
        one_by_one += !(kernels[i].flags & FACET_HOST_VECTORIZED);
    if (one_by_one == 0)
        return FACET_OK;
    status = run_passes(lowering, close_loops);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        if (!(kernels[i].flags & FACET_HOST_VECTORIZED))
            unroll_run(lowering, kernels[i].run);
    return status == FACET_OK ? run_passes(lowering, merge_steps) : status;
}

static enum facet_status run_last(struct lowering *lowering, const struct facet_lower_kernel *kernels, uint32_t count)
{
    enum facet_status status = run_passes(lowering, lowering->options->optimize ? finish : finish_little);
    size_t length;

    if (status == FACET_OK && lowering->options->optimize > 1 && !lowering->options->check)
        status = unroll_loops(lowering, kernels, count);

    for (LLVMValueRef function = LLVMGetFirstFunction(lowering->module); status == FACET_OK && function;
         function = LLVMGetNextFunction(function))
        if (strncmp(LLVMGetValueName2(function, &length), FACET_LOWER_RUN, strlen(FACET_LOWER_RUN)) == 0) {
            facet_joins_store(function);
            facet_group_split(function);
        }
    return status;
}

/* Lowers kernels to run item by item as in the source, with a check before every access. */
static enum facet_status lower_checked(struct lowering *lowering, struct facet_lower_kernel *kernels, uint32_t count)
{
    LLVMValueRef *items = facet_arena_take(&lowering->arena, (count + 1) * sizeof(*items)), *frames;
    struct facet_checker *checker;
    enum facet_status status;

    prepare_functions(lowering);
    facet_checker_hide(lowering->module, true);
    status = make_items(lowering, kernels, count, items);
    if (status == FACET_OK)
        status = run_passes(lowering, simplify_little);
    if (status == FACET_OK)
        status = resolve_items(lowering, kernels, count, items);
    if (status != FACET_OK)
        return status;
    frames = facet_arena_take(&lowering->arena, (count + 1) * sizeof(*frames));
    checker = facet_checker_make(&lowering->arena, lowering->module, &lowering->after_barrier);
    for (uint32_t i = 0; i < count; i++) {
        kernels[i].flags &= ~FACET_HOST_ROWS; /* a checker observes one group at a time */
        frames[i] = facet_checker_guard(checker, items[i]);
    }
    facet_checker_hide(lowering->module, false);
    LLVMStripModuleDebugInfo(lowering->module);
    for (uint32_t i = 0; i < count; i++) {
        kernels[i].run = make_group(lowering, &kernels[i], items[i], 1, 1, "");
        facet_checker_set_frame_bytes(checker, frames[i], kernels[i].scratch_item_bytes);
    }
    facet_checker_finish(checker);
    return run_last(lowering, kernels, count);
}

/* Makes the passes skip a function. LLVM requires noinline wherever optnone is. */
static void mark_unoptimized(LLVMValueRef function)
{
    set_attribute(function, NO_OPTIMIZATION);
    set_attribute(function, "noinline");
}

/* Structures the control flow of kernels that may be vectorized; too complex kernels keep theirs. */
static enum facet_status structurize_items(struct lowering *lowering, uint32_t count, LLVMValueRef *items)
{
    enum facet_status status;

    for (uint32_t i = 0; i < count; i++) {
        struct facet_graph graph;

        facet_graph_make(&graph, &lowering->arena, items[i]);
        if (facet_graph_is_too_complex(&graph))
            mark_unoptimized(items[i]);
    }
    status = run_passes(lowering, before_structurize);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        if (!has_attribute(items[i], NO_OPTIMIZATION))
            facet_edges_split(&lowering->arena, items[i]);
    return status == FACET_OK ? run_passes(lowering, structurize) : status;
}

/* Joins are split again after the passes, since these turn comparisons into switches. */
static enum facet_status simplify_items(struct lowering *lowering, uint32_t count, LLVMValueRef *items)
{
    enum facet_status status = FACET_OK;
    bool dense = false;

    for (uint32_t i = 0; i < count; i++) {
        facet_atomic_loops_forbid_unrolling(&lowering->arena, items[i]);
        dense |= facet_joins_dense(items[i]);
    }
    if (dense)
        status = run_passes(lowering, tabulate);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        facet_joins_split(&lowering->arena, items[i]);
    if (status == FACET_OK)
        status = run_passes(lowering, simplify);
    for (uint32_t i = 0; status == FACET_OK && i < count; i++)
        facet_joins_split(&lowering->arena, items[i]);
    return status;
}

/* Inlines all calls except calls of shared functions, which are appended to the list of items. */
static enum facet_status inline_items(struct lowering *lowering, uint32_t count, LLVMValueRef **items,
                                      uint32_t *ret_functions)
{
    LLVMValueRef *shared, *all;
    uint32_t made = facet_shared_make(&lowering->arena, lowering->module, *items, count, &shared);
    enum facet_status status = run_passes(lowering, inline_all);

    if (status == FACET_OK && made > 0)
        status = run_passes(lowering, describe_shared);
    all = facet_arena_take(&lowering->arena, (count + made + 1) * sizeof(*all));
    memcpy(all, *items, count * sizeof(*all));
    if (made > 0)
        memcpy(all + count, shared, made * sizeof(*all));
    *items = all;
    *ret_functions = count + made;
    return status;
}

static enum facet_status lower_all(struct lowering *lowering, struct facet_lower_kernel *kernels, uint32_t count)
{
    uint32_t optimize = lowering->options->optimize, functions = count;
    LLVMValueRef *items = facet_arena_take(&lowering->arena, (count + 1) * sizeof(*items));
    enum facet_status status;

    lowering->lanes = optimize ? lanes_of(lowering->options->machine) : 1;
    prepare_functions(lowering);
    status = make_items(lowering, kernels, count, items);
    if (status == FACET_OK && optimize)
        status = inline_items(lowering, count, &items, &functions);
    if (status == FACET_OK)
        status = optimize ? simplify_items(lowering, functions, items) : run_passes(lowering, simplify_little);
    if (status == FACET_OK)
        status = resolve_items(lowering, kernels, count, items);
    if (status == FACET_OK && lowering->lanes > 1)
        status = structurize_items(lowering, functions, items);
    if (status != FACET_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        make_run(lowering, &kernels[i], items[i]);
    return run_last(lowering, kernels, count);
}

enum facet_status facet_lower_host(LLVMModuleRef module, const struct facet_lower_options *options,
                                   struct facet_lower_kernel *kernels, uint32_t count, struct facet_error *error)
{
    struct lowering lowering = {.module = module, .options = options, .error = error};
    enum facet_status status;

    if (!options->check)
        LLVMStripModuleDebugInfo(module);
    if (setjmp(lowering.arena.exhausted))
        status = facet_error_set(error, FACET_NO_MEMORY, "out of memory while lowering");
    else
        status = options->check ? lower_checked(&lowering, kernels, count) : lower_all(&lowering, kernels, count);
    facet_arena_release(&lowering.arena);
    return status;
}
