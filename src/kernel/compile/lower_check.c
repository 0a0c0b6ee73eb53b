/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked images: each access of an item to memory that others may see calls the checker first. For an access to
 * a variable, or to a local argument, the item itself compares the bounds, and reports an access outside.
 *
 * Owns: the checks, the behaviour of a refused access, and the places in the source that reports name.
 * Never: calls the checker for private memory accessed within its bounds; moves or removes an access that is allowed.
 *
 * A refused access still happens, but elsewhere: a load reads zeros, a store writes to memory that is never read, a
 * copy has no bytes. So control flow stays as it is. The target of a pointer that was loaded from memory is not always
 * known at compile time. So at run time, an access through it is compared with the frames of the group's items, which
 * hold all private memory of checked items, and the checker is asked about any other address.
 */
#include "lower_check.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

#include <facet/host_kernel.h>

struct facet_site {
    const char *file;
    uint32_t length, line, column;
};

static LLVMValueRef number_constant(const struct facet_checker *checker, uint32_t value)
{
    return LLVMConstInt(checker->i32, value, 0);
}

static LLVMValueRef load_member(const struct facet_checker *checker, LLVMTypeRef type, LLVMValueRef of, size_t offset)
{
    LLVMValueRef place = LLVMConstInt(checker->i64, offset, 0);

    place = LLVMBuildGEP2(checker->builder, checker->i8, of, &place, 1, "");
    return LLVMBuildLoad2(checker->builder, type, place, "");
}

/* Loads the function pointer at `offset` of the struct facet_host_check of the program that runs the image. */
static LLVMValueRef function_at(const struct facet_checker *checker, size_t offset)
{
    LLVMValueRef table = LLVMGetNamedGlobal(checker->module, FACET_LOWER_CHECK);

    return load_member(checker, checker->pointer, LLVMBuildLoad2(checker->builder, checker->pointer, table, ""),
                       offset);
}

static LLVMValueRef add_helper(const struct facet_checker *checker, const char *name, LLVMTypeRef type)
{
    LLVMValueRef function = LLVMAddFunction(checker->module, name, type);

    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMPositionBuilderAtEnd(checker->builder, LLVMAppendBasicBlockInContext(checker->context, function, ""));
    return function;
}

static void make_ask_helper(struct facet_checker *checker)
{
    LLVMTypeRef types[] = {checker->pointer, checker->pointer, checker->i64, checker->i32, checker->i32, checker->i32};
    LLVMTypeRef type = LLVMFunctionType(checker->i32, types, 6, 0);
    LLVMValueRef given[7], answer;

    checker->ask = add_helper(checker, "facet_check.ask", checker->ask_type);
    LLVMGetParams(checker->ask, given);
    given[1] = load_member(checker, checker->pointer, given[0], offsetof(struct facet_host_group, check));
    answer = LLVMBuildCall2(checker->builder, type, function_at(checker, offsetof(struct facet_host_check, access)),
                            given + 1, 6, "");
    LLVMBuildRet(checker->builder, LLVMBuildICmp(checker->builder, LLVMIntNE, answer, number_constant(checker, 0), ""));
}

/* The condition that `bytes` at the address are inside the `size` bytes at `base`. A negative distance is a large
 * unsigned number, so it is outside. */
static LLVMValueRef is_inside(const struct facet_checker *checker, LLVMValueRef address, LLVMValueRef bytes,
                              LLVMValueRef base, LLVMValueRef size)
{
    LLVMBuilderRef builder = checker->builder;
    LLVMValueRef at = LLVMBuildPtrToInt(builder, address, checker->i64, ""), fits;

    at = LLVMBuildSub(builder, at, LLVMBuildPtrToInt(builder, base, checker->i64, ""), "");
    fits = LLVMBuildICmp(builder, LLVMIntULE, bytes, size, "");
    at = LLVMBuildICmp(builder, LLVMIntULE, at, LLVMBuildSub(builder, size, bytes, ""), "");
    return LLVMBuildAnd(builder, fits, at, "");
}

/* Makes the helper that asks the checker only when the access is not in the frames of the group's items. */
static void make_ask_unless_own_helper(struct facet_checker *checker)
{
    LLVMBuilderRef builder = checker->builder;
    LLVMBasicBlockRef own_block, other_block;
    LLVMValueRef given[7], bytes, at;

    checker->ask_unless_own = add_helper(checker, "facet_check.ask_unless_own", checker->ask_type);
    LLVMGetParams(checker->ask_unless_own, given);
    own_block = LLVMAppendBasicBlockInContext(checker->context, checker->ask_unless_own, "");
    other_block = LLVMAppendBasicBlockInContext(checker->context, checker->ask_unless_own, "");
    bytes = given[1];
    for (size_t d = 0; d < 3; d++) {
        LLVMValueRef size =
            load_member(checker, checker->i32, given[0], offsetof(struct facet_host_group, group_size) + 4 * d);

        bytes = LLVMBuildMul(builder, bytes, LLVMBuildZExt(builder, size, checker->i64, ""), "");
    }
    at = load_member(checker, checker->pointer, given[0], offsetof(struct facet_host_group, scratch));
    LLVMBuildCondBr(builder, is_inside(checker, given[2], given[3], at, bytes), own_block, other_block);
    LLVMPositionBuilderAtEnd(builder, own_block);
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 1, 0));
    LLVMPositionBuilderAtEnd(builder, other_block);
    LLVMBuildRet(builder, LLVMBuildCall2(builder, checker->ask_type, checker->ask, given, 7, ""));
}

/* For an access inside its variable: private memory and reads of constants need no further check. */
static void answer_inside(const struct facet_checker *checker, LLVMValueRef *given, LLVMBasicBlockRef own_block,
                          LLVMBasicBlockRef other_block)
{
    LLVMBuilderRef builder = checker->builder;
    LLVMValueRef zero = number_constant(checker, 0), private, constant, read;

    private = LLVMBuildAnd(builder, given[9], number_constant(checker, FACET_CHECK_PRIVATE), "");
    private = LLVMBuildICmp(builder, LLVMIntNE, private, zero, "");
    constant = LLVMBuildICmp(builder, LLVMIntEQ, given[9], number_constant(checker, FACET_CHECK_OUTSIDE), "");
    read = LLVMBuildAnd(builder, given[4], number_constant(checker, FACET_CHECK_WRITE), "");
    read = LLVMBuildICmp(builder, LLVMIntEQ, read, zero, "");
    constant = LLVMBuildAnd(builder, constant, read, "");
    LLVMBuildCondBr(builder, LLVMBuildOr(builder, private, constant, ""), own_block, other_block);
    LLVMPositionBuilderAtEnd(builder, own_block);
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 1, 0));
    LLVMPositionBuilderAtEnd(builder, other_block);
    private = LLVMBuildAnd(builder, given[9], number_constant(checker, FACET_CHECK_LOCAL), "");
    given[4] = LLVMBuildOr(builder, given[4], private, "");
    LLVMBuildRet(builder, LLVMBuildCall2(builder, checker->ask_type, checker->ask, given, 7, ""));
}

/* Makes the helper that reports an access outside of its variable. For a pointer without a variable it does what
 * ask_unless_own does. */
static void make_ask_outside_helper(struct facet_checker *checker)
{
    enum { NONE, ONE, INSIDE, OUTSIDE, OWN, OTHER, BLOCKS };
    LLVMBuilderRef builder = checker->builder;
    LLVMBasicBlockRef blocks[BLOCKS];
    LLVMValueRef given[10], flags, none;

    checker->ask_outside = add_helper(checker, "facet_check.ask_outside", checker->ask_outside_type);
    LLVMGetParams(checker->ask_outside, given);
    flags = given[4];
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i] = LLVMAppendBasicBlockInContext(checker->context, checker->ask_outside, "");
    none = LLVMBuildICmp(builder, LLVMIntEQ, given[9], number_constant(checker, 0), "");
    LLVMBuildCondBr(builder, none, blocks[NONE], blocks[ONE]);
    LLVMPositionBuilderAtEnd(builder, blocks[NONE]);
    LLVMBuildRet(builder, LLVMBuildCall2(builder, checker->ask_type, checker->ask_unless_own, given, 7, ""));
    LLVMPositionBuilderAtEnd(builder, blocks[ONE]);
    LLVMBuildCondBr(builder, is_inside(checker, given[2], given[3], given[7], given[8]), blocks[INSIDE],
                    blocks[OUTSIDE]);
    LLVMPositionBuilderAtEnd(builder, blocks[OUTSIDE]);
    given[4] = LLVMBuildOr(builder, flags, given[9], "");
    LLVMBuildCall2(builder, checker->ask_type, checker->ask, given, 7, "");
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 0, 0));
    LLVMPositionBuilderAtEnd(builder, blocks[INSIDE]);
    given[4] = flags;
    answer_inside(checker, given, blocks[OWN], blocks[OTHER]);
}

struct facet_checker *facet_checker_make(struct facet_arena *arena, LLVMModuleRef module,
                                         LLVMValueRef *ret_after_barrier)
{
    struct facet_checker *checker = facet_arena_take(arena, sizeof(*checker));
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(context, 0), i32 = LLVMInt32TypeInContext(context);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(context), nothing = LLVMVoidTypeInContext(context);
    LLVMTypeRef types[] = {pointer, i64, pointer, i64, i32, i32, i32, pointer, i64, i32};
    LLVMValueRef table = LLVMAddGlobal(module, pointer, FACET_LOWER_CHECK), after_barrier, check;

    *checker = (struct facet_checker){.arena = arena,
                                      .module = module,
                                      .context = context,
                                      .layout = LLVMGetModuleDataLayout(module),
                                      .builder = LLVMCreateBuilderInContext(context),
                                      .i1 = LLVMInt1TypeInContext(context),
                                      .i8 = LLVMInt8TypeInContext(context),
                                      .i32 = i32,
                                      .i64 = i64,
                                      .pointer = pointer};
    checker->ask_type = LLVMFunctionType(checker->i1, types, 7, 0);
    checker->ask_outside_type = LLVMFunctionType(checker->i1, types, 10, 0);
    LLVMSetInitializer(table, LLVMConstNull(pointer));
    LLVMSetVisibility(table, LLVMHiddenVisibility);
    make_ask_helper(checker);
    make_ask_unless_own_helper(checker);
    make_ask_outside_helper(checker);
    after_barrier = add_helper(checker, "facet_check.after_barrier", LLVMFunctionType(nothing, &pointer, 1, 0));
    check = load_member(checker, pointer, LLVMGetParam(after_barrier, 0), offsetof(struct facet_host_group, check));
    LLVMBuildCall2(checker->builder, LLVMFunctionType(nothing, &pointer, 1, 0),
                   function_at(checker, offsetof(struct facet_host_check, barrier)), &check, 1, "");
    LLVMBuildRetVoid(checker->builder);
    *ret_after_barrier = after_barrier;
    return checker;
}

static uint32_t site_of(struct facet_checker *checker, LLVMValueRef access)
{
    struct facet_site site = {.line = LLVMGetDebugLocLine(access), .column = LLVMGetDebugLocColumn(access)}, *sites;

    site.file = site.line ? LLVMGetDebugLocFilename(access, &site.length) : "";
    for (uint32_t i = checker->site_count; i-- > 0;) {
        sites = &checker->sites[i];
        if (sites->line == site.line && sites->column == site.column && sites->length == site.length &&
            memcmp(sites->file, site.file, site.length) == 0)
            return i;
    }
    if (checker->site_count == checker->site_room) {
        sites = facet_arena_take(checker->arena, (checker->site_room * 2 + 64) * sizeof(*sites));
        for (uint32_t i = 0; i < checker->site_count; i++)
            sites[i] = checker->sites[i];
        checker->sites = sites;
        checker->site_room = checker->site_room * 2 + 64;
    }
    checker->sites[checker->site_count] = site;
    return checker->site_count++;
}

/* Whether the access needs no check: it is known to be inside at compile time, and affects no other item. */
static bool is_plain(const struct facet_checker *checker, uint32_t roots, LLVMValueRef address, LLVMValueRef bytes,
                     uint32_t flags)
{
    bool own_block = roots == FACET_ROOT_PRIVATE;
    bool read = (roots == FACET_ROOT_ARGUMENTS || roots == FACET_ROOT_CONSTANT) && !flags;

    return (own_block || read) && facet_checker_inside(checker, address, bytes);
}

/* Emits the check and returns its result; NULL: the access needs no check. Leaves the builder before the access. */
static LLVMValueRef emit_check(struct facet_checker *checker, LLVMValueRef access, LLVMValueRef address,
                               LLVMValueRef bytes, uint32_t flags)
{
    uint32_t roots = facet_checker_roots(checker, address);
    bool bound = roots & (FACET_ROOT_PRIVATE | FACET_ROOT_LOCAL | FACET_ROOT_CONSTANT);
    LLVMValueRef function = roots & FACET_ROOT_UNKNOWN ? checker->ask_unless_own : checker->ask, given[10];

    if (is_plain(checker, roots, address, bytes, flags))
        return NULL;
    if (roots == FACET_ROOT_LOCAL)
        flags |= FACET_CHECK_LOCAL;
    if (bound) {
        struct facet_bounds bounds = facet_checker_bounds(checker, address);

        LLVMPositionBuilderBefore(checker->builder, access);
        given[7] = bounds.base;
        given[8] = bounds.size;
        given[9] = bounds.outside;
    }
    given[0] = LLVMGetParam(checker->function, 1);
    given[1] = LLVMBuildLoad2(checker->builder, checker->i64, checker->frame_bytes, "");
    given[2] = address;
    given[3] = bytes;
    given[4] = number_constant(checker, flags);
    given[5] = checker->item;
    given[6] = number_constant(checker, site_of(checker, access));
    if (bound)
        return LLVMBuildCall2(checker->builder, checker->ask_outside_type, checker->ask_outside, given, 10, "");
    return LLVMBuildCall2(checker->builder, checker->ask_type, function, given, 7, "");
}

/* Checks a load, a store or an atomic: `place` is the index of the operand that is the address. */
static void guard_access(struct facet_checker *checker, LLVMValueRef access, uint32_t place, uint32_t flags)
{
    bool load = LLVMIsALoadInst(access) != NULL;
    LLVMTypeRef type = load ? LLVMTypeOf(access) : LLVMTypeOf(LLVMGetOperand(access, 1 - place));
    LLVMValueRef address = LLVMGetOperand(access, place), allowed, result;

    LLVMPositionBuilderBefore(checker->builder, access);
    allowed = emit_check(checker, access, address,
                         LLVMConstInt(checker->i64, LLVMStoreSizeOfType(checker->layout, type), 0), flags);
    if (!allowed)
        return;
    result = load ? checker->nothing : checker->sink;
    LLVMSetOperand(access, place, LLVMBuildSelect(checker->builder, allowed, address, result, ""));
    if (load || LLVMIsAStoreInst(access))
        return;
    LLVMPositionBuilderBefore(checker->builder, LLVMGetNextInstruction(access));
    result = LLVMConstNull(LLVMTypeOf(access));
    result = LLVMBuildSelect(checker->builder, allowed, access, result, "");
    LLVMReplaceAllUsesWith(access, result);
    LLVMSetOperand(result, 1, access);
}

/* Checks a copy or a fill; when it is refused, its number of bytes becomes 0. */
static void guard_bytes(struct facet_checker *checker, LLVMValueRef call, bool reads)
{
    LLVMValueRef bytes = LLVMGetOperand(call, 2), allowed, more = NULL;

    LLVMPositionBuilderBefore(checker->builder, call);
    bytes = LLVMBuildIntCast2(checker->builder, bytes, checker->i64, 0, "");
    allowed = emit_check(checker, call, LLVMGetOperand(call, 0), bytes, FACET_CHECK_WRITE);
    if (reads)
        more = emit_check(checker, call, LLVMGetOperand(call, 1), bytes, 0);
    if (allowed && more)
        allowed = LLVMBuildAnd(checker->builder, allowed, more, "");
    allowed = allowed ? allowed : more;
    if (!allowed)
        return;
    bytes = LLVMGetOperand(call, 2);
    LLVMSetOperand(call, 2, LLVMBuildSelect(checker->builder, allowed, bytes, LLVMConstNull(LLVMTypeOf(bytes)), ""));
}

static void guard_call(struct facet_checker *checker, LLVMValueRef call)
{
    LLVMValueRef callee = LLVMGetCalledValue(call);
    size_t length;
    const char *name = LLVMIsAFunction(callee) ? LLVMGetValueName2(callee, &length) : "";

    if (strncmp(name, "llvm.memset.p", 13) == 0)
        guard_bytes(checker, call, false);
    else if (strncmp(name, "llvm.memcpy.p", 13) == 0 || strncmp(name, "llvm.memmove.p", 14) == 0)
        guard_bytes(checker, call, true);
}

static void guard_instruction(struct facet_checker *checker, LLVMValueRef at)
{
    switch (LLVMGetInstructionOpcode(at)) {
    case LLVMLoad:
        guard_access(checker, at, 0, LLVMIsAtomic(at) ? FACET_CHECK_ATOMIC : 0);
        break;
    case LLVMStore:
        guard_access(checker, at, 1, FACET_CHECK_WRITE | (LLVMIsAtomic(at) ? FACET_CHECK_ATOMIC : 0));
        break;
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
        guard_access(checker, at, 0, FACET_CHECK_WRITE | FACET_CHECK_ATOMIC);
        break;
    case LLVMCall:
        guard_call(checker, at);
        break;
    default:
        break;
    }
}

static LLVMValueRef call_id(struct facet_checker *checker, const char *name, uint32_t dimension)
{
    LLVMTypeRef type = LLVMFunctionType(checker->i32, &checker->i32, 1, 0);
    LLVMValueRef given = number_constant(checker, dimension);

    return LLVMBuildCall2(checker->builder, type, facet_function_declare(checker->module, name, type), &given, 1, "");
}

/* The size in bytes of the largest value that any instruction makes or stores; at least 16. */
static uint64_t largest_of(const struct facet_checker *checker)
{
    uint64_t max = 16;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(checker->function); block;
         block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            LLVMTypeRef type = LLVMTypeOf(LLVMIsAStoreInst(at) ? LLVMGetOperand(at, 0) : at);

            if (LLVMTypeIsSized(type) && LLVMStoreSizeOfType(checker->layout, type) > max)
                max = LLVMStoreSizeOfType(checker->layout, type);
        }
    return max;
}

/* Makes the values that the checks need, at the item's beginning. */
static void prepare_values(struct facet_checker *checker)
{
    LLVMTypeRef bytes = LLVMArrayType2(checker->i8, largest_of(checker));
    LLVMBuilderRef builder = checker->builder;

    checker->frame_bytes = LLVMAddGlobal(checker->module, checker->i64, "facet_check.frame");
    checker->nothing = LLVMAddGlobal(checker->module, bytes, "facet_check.nothing");
    LLVMSetInitializer(checker->nothing, LLVMConstNull(bytes));
    LLVMSetGlobalConstant(checker->nothing, 1);
    LLVMSetAlignment(checker->nothing, 128);
    LLVMSetLinkage(checker->nothing, LLVMInternalLinkage);
    LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(checker->function)));
    checker->sink = LLVMBuildAlloca(builder, bytes, "");
    LLVMSetAlignment(checker->sink, 64);
    checker->item = call_id(checker, "__facet_local_id", 2);
    for (uint32_t d = 2; d-- > 0;) {
        checker->item = LLVMBuildMul(builder, checker->item, call_id(checker, "__facet_group_size", d), "");
        checker->item = LLVMBuildAdd(builder, checker->item, call_id(checker, "__facet_local_id", d), "");
    }
}

/* Removes the calls of __facet_within, which carried the bounds. */
static void drop_bounds(LLVMValueRef item)
{
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            if (facet_call_of(at) != FACET_CALL_WITHIN)
                continue;
            LLVMReplaceAllUsesWith(at, LLVMGetOperand(at, 0));
            LLVMInstructionEraseFromParent(at);
        }
}

void facet_checker_hide(LLVMModuleRef module, bool hide)
{
    for (LLVMValueRef global = LLVMGetFirstGlobal(module); global; global = LLVMGetNextGlobal(global))
        if (LLVMIsGlobalConstant(global) && LLVMGetInitializer(global))
            LLVMSetExternallyInitialized(global, hide);
}

LLVMValueRef facet_checker_guard(struct facet_checker *checker, LLVMValueRef item)
{
    checker->function = item;
    checker->bounds = (struct facet_map){.arena = checker->arena};
    prepare_values(checker);
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            guard_instruction(checker, at);
        }
    drop_bounds(item);
    return checker->frame_bytes;
}

void facet_checker_set_frame_bytes(struct facet_checker *checker, LLVMValueRef frame_bytes, uint32_t bytes)
{
    LLVMSetInitializer(frame_bytes, LLVMConstInt(checker->i64, bytes, 0));
    LLVMSetGlobalConstant(frame_bytes, 1);
    LLVMSetLinkage(frame_bytes, LLVMInternalLinkage);
}

void facet_checker_finish(struct facet_checker *checker)
{
    LLVMTypeRef types[] = {checker->pointer, checker->i32, checker->i32};
    LLVMTypeRef type = LLVMStructTypeInContext(checker->context, types, 3, 0);
    LLVMValueRef *records = facet_arena_take(checker->arena, (checker->site_count + 1) * sizeof(*records));
    LLVMValueRef file = NULL, table;

    for (uint32_t i = 0; i < checker->site_count; i++) {
        const struct facet_site *site = &checker->sites[i], *last = i ? site - 1 : site;

        if (!file || last->length != site->length || memcmp(last->file, site->file, site->length) != 0) {
            LLVMValueRef text = LLVMConstStringInContext2(checker->context, site->file, site->length, 0);

            file = LLVMAddGlobal(checker->module, LLVMTypeOf(text), "");
            LLVMSetInitializer(file, text);
            LLVMSetGlobalConstant(file, 1);
            LLVMSetLinkage(file, LLVMPrivateLinkage);
        }
        records[i] = LLVMConstStructInContext(
            checker->context,
            (LLVMValueRef[]){file, number_constant(checker, site->line), number_constant(checker, site->column)}, 3, 0);
    }
    table = LLVMAddGlobal(checker->module, LLVMArrayType2(type, checker->site_count), FACET_LOWER_SITES);
    LLVMSetInitializer(table, LLVMConstArray2(type, records, checker->site_count));
    LLVMSetGlobalConstant(table, 1);
    LLVMSetVisibility(table, LLVMHiddenVisibility);
    LLVMDisposeBuilder(checker->builder);
}
