/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checked images: each access of an item to memory that others may see asks first; one to private memory looks itself
 * whether it is inside of its variable, and tells when it is not.
 *
 * Owns: the questions, what happens when the answer is no, and the places in the source that they name.
 * Never: asks about private memory that is accessed inside; moves an access or leaves out one that is allowed.
 *
 * An access that is refused happens all the same, but elsewhere: a load reads zeros, a store writes to memory that
 * nobody reads, a copy has no bytes. So control flow stays as it is. A pointer that is made of private variables takes
 * the bounds of its variable along. Where others may lead cannot always be told (they were in memory themselves); that
 * is looked at when it runs: all private memory of checked items lies in their frames.
 */
#include "lower_inside.h"

#include <string.h>

#include <llvm-c/DebugInfo.h>

#include <facet/host_kernel.h>

enum root { /* what a pointer may lead to: bits */
            ROOT_PRIVATE = 1,
            ROOT_ARGUMENTS = 2,
            ROOT_LOCAL = 4,
            ROOT_GLOBAL = 8,
            ROOT_UNKNOWN = 16,
};

struct site {
    const char *file;
    uint32_t length, line, column;
};

/* Of the private variable that a pointer leads into, when it runs; of none: NULL and 0. */
struct bounds {
    LLVMValueRef base, size;
};

struct facet_checker {
    struct facet_arena *arena;
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder;
    LLVMTypeRef i1, i8, i32, i64, pointer;
    LLVMTypeRef ask_type;
    LLVMValueRef ask, ask_unless_own; /* i1 (group, frames' bytes of an item, address, bytes, flags, item, site) */
    LLVMTypeRef ask_outside_type;
    LLVMValueRef ask_outside; /* the same with base and size of a private variable behind */
    struct site *sites;
    uint32_t site_count, site_room;

    LLVMValueRef function; /* the item function that is under way */
    LLVMValueRef item, frame_bytes, nothing, sink;
    struct facet_map bounds; /* pointer -> struct bounds */
};

static LLVMValueRef number(const struct facet_checker *checker, uint32_t value)
{
    return LLVMConstInt(checker->i32, value, 0);
}

static LLVMValueRef member(const struct facet_checker *checker, LLVMTypeRef type, LLVMValueRef of, size_t offset)
{
    LLVMValueRef place = LLVMConstInt(checker->i64, offset, 0);

    place = LLVMBuildGEP2(checker->builder, checker->i8, of, &place, 1, "");
    return LLVMBuildLoad2(checker->builder, type, place, "");
}

/* One of the functions that whoever runs the image has put up. */
static LLVMValueRef function_at(const struct facet_checker *checker, size_t offset)
{
    LLVMValueRef table = LLVMGetNamedGlobal(checker->module, FACET_LOWER_CHECK);

    return member(checker, checker->pointer, LLVMBuildLoad2(checker->builder, checker->pointer, table, ""), offset);
}

static LLVMValueRef add_helper(const struct facet_checker *checker, const char *name, LLVMTypeRef type)
{
    LLVMValueRef function = LLVMAddFunction(checker->module, name, type);

    LLVMSetLinkage(function, LLVMInternalLinkage);
    LLVMPositionBuilderAtEnd(checker->builder, LLVMAppendBasicBlockInContext(checker->context, function, ""));
    return function;
}

static void make_ask(struct facet_checker *checker)
{
    LLVMTypeRef types[] = {checker->pointer, checker->pointer, checker->i64, checker->i32, checker->i32, checker->i32};
    LLVMTypeRef type = LLVMFunctionType(checker->i32, types, 6, 0);
    LLVMValueRef given[7], answer;

    checker->ask = add_helper(checker, "facet_check.ask", checker->ask_type);
    LLVMGetParams(checker->ask, given);
    given[1] = member(checker, checker->pointer, given[0], offsetof(struct facet_host_group, check));
    answer = LLVMBuildCall2(checker->builder, type, function_at(checker, offsetof(struct facet_host_check, access)),
                            given + 1, 6, "");
    LLVMBuildRet(checker->builder, LLVMBuildICmp(checker->builder, LLVMIntNE, answer, number(checker, 0), ""));
}

/* Whether that many bytes at the address are inside. Negative distances are large ones. */
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

/* Asks only when the access is not in the frames of the group's items. */
static void make_ask_unless_own(struct facet_checker *checker)
{
    LLVMBuilderRef builder = checker->builder;
    LLVMBasicBlockRef own, other;
    LLVMValueRef given[7], bytes, at;

    checker->ask_unless_own = add_helper(checker, "facet_check.ask_unless_own", checker->ask_type);
    LLVMGetParams(checker->ask_unless_own, given);
    own = LLVMAppendBasicBlockInContext(checker->context, checker->ask_unless_own, "");
    other = LLVMAppendBasicBlockInContext(checker->context, checker->ask_unless_own, "");
    bytes = given[1];
    for (size_t d = 0; d < 3; d++) {
        LLVMValueRef size =
            member(checker, checker->i32, given[0], offsetof(struct facet_host_group, group_size) + 4 * d);

        bytes = LLVMBuildMul(builder, bytes, LLVMBuildZExt(builder, size, checker->i64, ""), "");
    }
    at = member(checker, checker->pointer, given[0], offsetof(struct facet_host_group, scratch));
    LLVMBuildCondBr(builder, is_inside(checker, given[2], given[3], at, bytes), own, other);
    LLVMPositionBuilderAtEnd(builder, own);
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 1, 0));
    LLVMPositionBuilderAtEnd(builder, other);
    LLVMBuildRet(builder, LLVMBuildCall2(builder, checker->ask_type, checker->ask, given, 7, ""));
}

/* Inside of the private variable nothing is asked, outside it is told. Where there is none: as above. */
static void make_ask_outside(struct facet_checker *checker)
{
    LLVMBuilderRef builder = checker->builder;
    LLVMBasicBlockRef blocks[4]; /* inside, not, of no variable, of one */
    LLVMValueRef given[9], none;

    checker->ask_outside = add_helper(checker, "facet_check.ask_outside", checker->ask_outside_type);
    LLVMGetParams(checker->ask_outside, given);
    for (uint32_t i = 0; i < 4; i++)
        blocks[i] = LLVMAppendBasicBlockInContext(checker->context, checker->ask_outside, "");
    LLVMBuildCondBr(builder, is_inside(checker, given[2], given[3], given[7], given[8]), blocks[0], blocks[1]);
    LLVMPositionBuilderAtEnd(builder, blocks[0]);
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 1, 0));
    LLVMPositionBuilderAtEnd(builder, blocks[1]);
    none = LLVMBuildICmp(builder, LLVMIntEQ, given[8], LLVMConstInt(checker->i64, 0, 0), "");
    LLVMBuildCondBr(builder, none, blocks[2], blocks[3]);
    LLVMPositionBuilderAtEnd(builder, blocks[2]);
    LLVMBuildRet(builder, LLVMBuildCall2(builder, checker->ask_type, checker->ask_unless_own, given, 7, ""));
    LLVMPositionBuilderAtEnd(builder, blocks[3]);
    given[4] = LLVMBuildOr(builder, given[4], number(checker, FACET_CHECK_PRIVATE), "");
    LLVMBuildCall2(builder, checker->ask_type, checker->ask, given, 7, "");
    LLVMBuildRet(builder, LLVMConstInt(checker->i1, 0, 0));
}

struct facet_checker *facet_checker_make(struct facet_arena *arena, LLVMModuleRef module, LLVMValueRef *ret_passed)
{
    struct facet_checker *checker = facet_arena_take(arena, sizeof(*checker));
    LLVMContextRef context = LLVMGetModuleContext(module);
    LLVMTypeRef pointer = LLVMPointerTypeInContext(context, 0), i32 = LLVMInt32TypeInContext(context);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(context), nothing = LLVMVoidTypeInContext(context);
    LLVMTypeRef types[] = {pointer, i64, pointer, i64, i32, i32, i32, pointer, i64};
    LLVMValueRef table = LLVMAddGlobal(module, pointer, FACET_LOWER_CHECK), passed, check;

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
    checker->ask_outside_type = LLVMFunctionType(checker->i1, types, 9, 0);
    LLVMSetInitializer(table, LLVMConstNull(pointer));
    LLVMSetVisibility(table, LLVMHiddenVisibility);
    make_ask(checker);
    make_ask_unless_own(checker);
    make_ask_outside(checker);
    passed = add_helper(checker, "facet_check.passed", LLVMFunctionType(nothing, &pointer, 1, 0));
    check = member(checker, pointer, LLVMGetParam(passed, 0), offsetof(struct facet_host_group, check));
    LLVMBuildCall2(checker->builder, LLVMFunctionType(nothing, &pointer, 1, 0),
                   function_at(checker, offsetof(struct facet_host_check, barrier)), &check, 1, "");
    LLVMBuildRetVoid(checker->builder);
    *ret_passed = passed;
    return checker;
}

/* What it is taken from, by number; NULL: no more, or it is a root itself. */
static LLVMValueRef source_of(LLVMValueRef value, uint32_t index)
{
    if (LLVMIsAGetElementPtrInst(value) || LLVMIsAFreezeInst(value))
        return index == 0 ? LLVMGetOperand(value, 0) : NULL;
    if (LLVMIsASelectInst(value))
        return index < 2 ? LLVMGetOperand(value, index + 1) : NULL;
    if (LLVMIsAPHINode(value))
        return index < LLVMCountIncoming(value) ? LLVMGetIncomingValue(value, index) : NULL;
    return NULL;
}

static uint32_t root_of(const struct facet_checker *checker, LLVMValueRef value)
{
    if (LLVMIsAAllocaInst(value))
        return ROOT_PRIVATE;
    if (value == LLVMGetParam(checker->function, 0))
        return ROOT_ARGUMENTS;
    if (facet_call_of(value) == FACET_CALL_LOCAL_MEMORY)
        return ROOT_LOCAL;
    if (LLVMIsAGlobalVariable(value) || LLVMIsConstant(value))
        return ROOT_GLOBAL;
    /* What the host put into the argument block is of its world. */
    if (LLVMIsALoadInst(value) && (LLVMGetOperand(value, 0) == LLVMGetParam(checker->function, 0) ||
                                   source_of(LLVMGetOperand(value, 0), 0) == LLVMGetParam(checker->function, 0)))
        return ROOT_GLOBAL;
    return ROOT_UNKNOWN;
}

static uint32_t roots_of(const struct facet_checker *checker, LLVMValueRef value, struct facet_map *seen)
{
    LLVMValueRef source = source_of(value, 0);
    uint32_t roots = 0;

    if (!source)
        return root_of(checker, value);
    if (facet_map_get(seen, value))
        return 0;
    facet_map_put(seen, value, value);
    for (uint32_t i = 0; (source = source_of(value, i)); i++)
        roots |= roots_of(checker, source, seen);
    return roots;
}

/* --- bounds of private variables --- */

static struct bounds bounds_of(struct facet_checker *checker, LLVMValueRef pointer);

static uint64_t size_of(const struct facet_checker *checker, LLVMValueRef alloca)
{
    return LLVMABISizeOfType(checker->layout, LLVMGetAllocatedType(alloca));
}

static struct bounds *remember(struct facet_checker *checker, LLVMValueRef pointer, struct bounds bounds)
{
    struct bounds *known = facet_arena_take(checker->arena, sizeof(*known));

    *known = bounds;
    facet_map_put(&checker->bounds, pointer, known);
    return known;
}

static struct bounds bounds_of_phi(struct facet_checker *checker, LLVMValueRef phi)
{
    struct bounds made;

    LLVMPositionBuilderBefore(checker->builder, phi);
    made.base = LLVMBuildPhi(checker->builder, checker->pointer, "");
    made.size = LLVMBuildPhi(checker->builder, checker->i64, "");
    remember(checker, phi, made); /* before it leads back to itself */
    for (uint32_t i = 0; i < LLVMCountIncoming(phi); i++) {
        struct bounds one = bounds_of(checker, LLVMGetIncomingValue(phi, i));
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phi, i);

        LLVMAddIncoming(made.base, &one.base, &from, 1);
        LLVMAddIncoming(made.size, &one.size, &from, 1);
    }
    return made;
}

static struct bounds bounds_of_select(struct facet_checker *checker, LLVMValueRef select)
{
    struct bounds yes = bounds_of(checker, LLVMGetOperand(select, 1));
    struct bounds no = bounds_of(checker, LLVMGetOperand(select, 2)), made;
    LLVMValueRef condition = LLVMGetOperand(select, 0);

    LLVMPositionBuilderBefore(checker->builder, select);
    made.base = LLVMBuildSelect(checker->builder, condition, yes.base, no.base, "");
    made.size = LLVMBuildSelect(checker->builder, condition, yes.size, no.size, "");
    return made;
}

/* Moves the builder. Of addresses nothing may be promised any more: a wild one would be no value to compare. */
static struct bounds bounds_of(struct facet_checker *checker, LLVMValueRef pointer)
{
    const struct bounds *known = facet_map_get(&checker->bounds, pointer);
    struct bounds made = {LLVMConstNull(checker->pointer), LLVMConstInt(checker->i64, 0, 0)};

    if (known)
        return *known;
    if (LLVMIsAPHINode(pointer))
        return bounds_of_phi(checker, pointer);
    if (LLVMIsAAllocaInst(pointer))
        made = (struct bounds){pointer, LLVMConstInt(checker->i64, size_of(checker, pointer), 0)};
    else if (LLVMIsASelectInst(pointer))
        made = bounds_of_select(checker, pointer);
    else if (source_of(pointer, 0))
        made = bounds_of(checker, source_of(pointer, 0));
    if (LLVMIsAGetElementPtrInst(pointer))
        LLVMGEPSetNoWrapFlags(pointer, 0);
    return *remember(checker, pointer, made);
}

/* Adds a constant distance in bytes; false: it is none. */
static bool add_offset(const struct facet_checker *checker, LLVMValueRef element, int64_t *offset)
{
    LLVMTypeRef type = LLVMGetGEPSourceElementType(element);

    for (uint32_t i = 1; i < (uint32_t)LLVMGetNumOperands(element); i++) {
        LLVMValueRef index = LLVMGetOperand(element, i);
        int64_t count, distance;

        if (!LLVMIsAConstantInt(index))
            return false;
        count = LLVMConstIntGetSExtValue(index);
        if (i > 1 && LLVMGetTypeKind(type) == LLVMStructTypeKind) {
            distance = (int64_t)LLVMOffsetOfElement(checker->layout, type, (unsigned)count);
            type = LLVMStructGetTypeAtIndex(type, (unsigned)count);
        } else {
            type = i > 1 ? LLVMGetElementType(type) : type;
            if (__builtin_mul_overflow(count, LLVMABISizeOfType(checker->layout, type), &distance))
                return false;
        }
        if (__builtin_add_overflow(*offset, distance, offset))
            return false;
    }
    return true;
}

/* At a constant place inside of a private variable, or of the arguments, whose layout is the compiler's. */
static bool is_surely_inside(const struct facet_checker *checker, LLVMValueRef address, LLVMValueRef bytes)
{
    int64_t offset = 0;

    while (LLVMIsAGetElementPtrInst(address)) {
        if (!add_offset(checker, address, &offset))
            return false;
        address = LLVMGetOperand(address, 0);
    }
    if (!LLVMIsAConstantInt(bytes))
        return false;
    if (!LLVMIsAAllocaInst(address))
        return address == LLVMGetParam(checker->function, 0) && offset >= 0;
    uint64_t size = size_of(checker, address), count = LLVMConstIntGetZExtValue(bytes);
    return offset >= 0 && count <= size && (uint64_t)offset <= size - count;
}

static uint32_t site_of(struct facet_checker *checker, LLVMValueRef access)
{
    struct site site = {.line = LLVMGetDebugLocLine(access), .column = LLVMGetDebugLocColumn(access)}, *sites;

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

/* Whether it may be accessed, or NULL: that need not be asked. The builder is before the access. */
static LLVMValueRef ask(struct facet_checker *checker, LLVMValueRef access, LLVMValueRef address, LLVMValueRef bytes,
                        uint32_t flags)
{
    struct facet_map seen = {.arena = checker->arena};
    uint32_t roots = roots_of(checker, address, &seen);
    LLVMValueRef function = roots & ROOT_UNKNOWN ? checker->ask_unless_own : checker->ask, given[9];

    if ((roots == ROOT_PRIVATE || (roots == ROOT_ARGUMENTS && !flags)) && is_surely_inside(checker, address, bytes))
        return NULL;
    if (roots == ROOT_LOCAL)
        flags |= FACET_CHECK_LOCAL;
    if (roots & ROOT_PRIVATE) {
        struct bounds bounds = bounds_of(checker, address);

        LLVMPositionBuilderBefore(checker->builder, access);
        given[7] = bounds.base;
        given[8] = bounds.size;
    }
    given[0] = LLVMGetParam(checker->function, 1);
    given[1] = LLVMBuildLoad2(checker->builder, checker->i64, checker->frame_bytes, "");
    given[2] = address;
    given[3] = bytes;
    given[4] = number(checker, flags);
    given[5] = checker->item;
    given[6] = number(checker, site_of(checker, access));
    if (roots & ROOT_PRIVATE)
        return LLVMBuildCall2(checker->builder, checker->ask_outside_type, checker->ask_outside, given, 9, "");
    return LLVMBuildCall2(checker->builder, checker->ask_type, function, given, 7, "");
}

/* Loads, stores and atomics: `place` is the operand that is the address. */
static void guard_access(struct facet_checker *checker, LLVMValueRef access, uint32_t place, uint32_t flags)
{
    bool load = LLVMIsALoadInst(access) != NULL;
    LLVMTypeRef type = load ? LLVMTypeOf(access) : LLVMTypeOf(LLVMGetOperand(access, 1 - place));
    LLVMValueRef address = LLVMGetOperand(access, place), allowed, result;

    LLVMPositionBuilderBefore(checker->builder, access);
    allowed =
        ask(checker, access, address, LLVMConstInt(checker->i64, LLVMStoreSizeOfType(checker->layout, type), 0), flags);
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

/* Copies and fills: what is refused has no bytes. */
static void guard_bytes(struct facet_checker *checker, LLVMValueRef call, bool reads)
{
    LLVMValueRef bytes = LLVMGetOperand(call, 2), allowed, more = NULL;

    LLVMPositionBuilderBefore(checker->builder, call);
    bytes = LLVMBuildIntCast2(checker->builder, bytes, checker->i64, 0, "");
    allowed = ask(checker, call, LLVMGetOperand(call, 0), bytes, FACET_CHECK_WRITE);
    if (reads)
        more = ask(checker, call, LLVMGetOperand(call, 1), bytes, 0);
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

static void guard(struct facet_checker *checker, LLVMValueRef at)
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
    LLVMValueRef given = number(checker, dimension);

    return LLVMBuildCall2(checker->builder, type, facet_function_declare(checker->module, name, type), &given, 1, "");
}

/* The largest value that an access has. */
static uint64_t largest_of(const struct facet_checker *checker)
{
    uint64_t most = 16;

    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(checker->function); block;
         block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
            LLVMTypeRef type = LLVMTypeOf(LLVMIsAStoreInst(at) ? LLVMGetOperand(at, 0) : at);

            if (LLVMTypeIsSized(type) && LLVMStoreSizeOfType(checker->layout, type) > most)
                most = LLVMStoreSizeOfType(checker->layout, type);
        }
    return most;
}

/* What the questions need, at the item's beginning. */
static void prepare(struct facet_checker *checker)
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

LLVMValueRef facet_checker_guard(struct facet_checker *checker, LLVMValueRef item)
{
    checker->function = item;
    checker->bounds = (struct facet_map){.arena = checker->arena};
    prepare(checker);
    for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(item); block; block = LLVMGetNextBasicBlock(block))
        for (LLVMValueRef at = LLVMGetFirstInstruction(block), next; at; at = next) {
            next = LLVMGetNextInstruction(at);
            guard(checker, at);
        }
    return checker->frame_bytes;
}

void facet_checker_settle(struct facet_checker *checker, LLVMValueRef frame_bytes, uint32_t bytes)
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
        const struct site *site = &checker->sites[i], *last = i ? site - 1 : site;

        if (!file || last->length != site->length || memcmp(last->file, site->file, site->length) != 0) {
            LLVMValueRef text = LLVMConstStringInContext2(checker->context, site->file, site->length, 0);

            file = LLVMAddGlobal(checker->module, LLVMTypeOf(text), "");
            LLVMSetInitializer(file, text);
            LLVMSetGlobalConstant(file, 1);
            LLVMSetLinkage(file, LLVMPrivateLinkage);
        }
        records[i] = LLVMConstStructInContext(
            checker->context, (LLVMValueRef[]){file, number(checker, site->line), number(checker, site->column)}, 3, 0);
    }
    table = LLVMAddGlobal(checker->module, LLVMArrayType2(type, checker->site_count), FACET_LOWER_SITES);
    LLVMSetInitializer(table, LLVMConstArray2(type, records, checker->site_count));
    LLVMSetGlobalConstant(table, 1);
    LLVMSetVisibility(table, LLVMHiddenVisibility);
    LLVMDisposeBuilder(checker->builder);
}
