/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared functions, which are not inlined. All other functions are. But a kernel with hundreds of calls of sin() would
 * become hundreds of times as large as its source, and LLVM would need many seconds for it.
 *
 * Owns: the choice of shared functions by the size that inlining them would give a kernel, and the form in which they
 *       are called: with single numbers as arguments and results, which are vectors in the form for lanes
 *       (lower_shared_lanes.c).
 * Never: changes a function's result; shares a function that uses private or local memory, or the item's place.
 */
#include "lower_inside.h"

#include <stdio.h>
#include <string.h>

enum {
    INLINED_INSTRUCTIONS_MAX = 4000, /* of inlined functions that could be shared, in one kernel */
    SAVED_INSTRUCTIONS_MIN = 500,    /* least instructions that sharing one function must save */
    CALL_INSTRUCTIONS = 8,           /* instructions of a call, which replaces an inlined function */
    ROUNDS_MAX = 64,
    VECTOR_ELEMENTS_MAX = 4,  /* elements of a vector that an argument or result may be */
    ARGUMENT_NUMBERS_MAX = 24 /* numbers (elements of vectors, too) in all arguments together */
};

/* A function of the module. Sizes are doubles, since they grow exponentially where functions call others twice. */
struct callee {
    LLVMValueRef function;
    LLVMValueRef *calls; /* its calls of functions with bodies; NULL once replaced by a call of a shared function */
    uint32_t *called;    /* the called functions, as places in the list of functions */
    uint32_t count;
    double own_instructions, inlined_instructions; /* without and with the functions that are inlined into it */
    double copied_instructions; /* the part of `inlined_instructions` in functions that could be shared */
    double uses_per_kernel;     /* how many copies of it a kernel has */
    bool has_plain_form;        /* its arguments and result are numbers, or pointers to images */
    bool is_simple_body;        /* it can be shared: it has a plain form, and nothing in its body forbids sharing */
    bool shared;
    struct form *forms;
};

/* A shared function made of a callee: the constant arguments are part of it. */
struct form {
    LLVMValueRef function;
    LLVMValueRef *constants; /* for each argument of the callee; NULL: the call gives it */
    struct form *next;
};

struct sharing {
    struct facet_arena *arena;
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMTypeRef i32;
    struct callee *callees; /* each caller is behind the functions that it calls */
    uint32_t count;
    struct facet_map places; /* function -> place + 1 */
    uint32_t made;
    LLVMValueRef *list;
};

/* --- what a function does ------------------------------------------------------------------------------------------
 */

/* How many numbers the type has: 1, or a vector's elements. 0: the type cannot be an argument or a result. */
static uint32_t numbers_in(LLVMTypeRef type)
{
    LLVMTypeRef element = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
    uint32_t count = element == type ? 1 : LLVMGetVectorSize(type);

    switch (LLVMGetTypeKind(element)) {
    case LLVMIntegerTypeKind:
        return count <= VECTOR_ELEMENTS_MAX && LLVMGetIntTypeWidth(element) <= 64 ? count : 0;
    case LLVMHalfTypeKind:
    case LLVMFloatTypeKind:
    case LLVMDoubleTypeKind:
        return count <= VECTOR_ELEMENTS_MAX ? count : 0;
    default:
        return 0;
    }
}

/* Pointers of image functions lead to the launch's description of images; other pointers may lead to private memory. */
static bool is_of_images(LLVMValueRef function)
{
    size_t length;
    const char *name = LLVMGetValueName2(function, &length);

    return strncmp(name, "_Z", 2) == 0 && (strstr(name, "read_image") || strstr(name, "write_image"));
}

static bool has_plain_type(LLVMValueRef function)
{
    LLVMTypeRef result = LLVMGetReturnType(LLVMGlobalGetValueType(function));
    uint32_t count = LLVMCountParams(function), numbers = 0;

    if (LLVMGetTypeKind(result) != LLVMVoidTypeKind && !numbers_in(result))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(function, i));
        bool pointer = LLVMGetTypeKind(type) == LLVMPointerTypeKind;

        if (pointer ? !is_of_images(function) : !numbers_in(type))
            return false;
        numbers += pointer ? 1 : numbers_in(type);
    }
    return numbers > 0 && numbers <= ARGUMENT_NUMBERS_MAX && !LLVMIsFunctionVarArg(LLVMGlobalGetValueType(function));
}

static bool is_variable(LLVMValueRef pointer)
{
    while (LLVMIsAGetElementPtrInst(pointer))
        pointer = LLVMGetOperand(pointer, 0);
    return LLVMIsAAllocaInst(pointer) != NULL;
}

static bool names_local(LLVMValueRef value)
{
    size_t length;

    if (LLVMIsAGlobalVariable(value))
        return strncmp(LLVMGetValueName2(value, &length), FACET_LOWER_LOCAL, strlen(FACET_LOWER_LOCAL)) == 0;
    for (int i = 0; LLVMIsAConstantExpr(value) && i < LLVMGetNumOperands(value); i++)
        if (names_local(LLVMGetOperand(value, (unsigned)i)))
            return true;
    return false;
}

static bool is_simple(LLVMValueRef at)
{
    enum { VARIABLE_MAX = 256 };
    LLVMTargetDataRef layout =
        LLVMGetModuleDataLayout(LLVMGetGlobalParent(LLVMGetBasicBlockParent(LLVMGetInstructionParent(at))));

    for (int i = 0; i < LLVMGetNumOperands(at); i++)
        if (names_local(LLVMGetOperand(at, (unsigned)i)))
            return false;
    switch (LLVMGetInstructionOpcode(at)) {
    case LLVMAlloca:
        return LLVMIsAConstantInt(LLVMGetOperand(at, 0)) &&
               LLVMABISizeOfType(layout, LLVMGetAllocatedType(at)) <= VARIABLE_MAX;
    case LLVMLoad:
    case LLVMStore:
        return !LLVMGetVolatile(at) && !LLVMIsAtomic(at);
    case LLVMAtomicRMW:
    case LLVMAtomicCmpXchg:
    case LLVMFence:
        return false;
    case LLVMCall:
        return LLVMIsAFunction(LLVMGetCalledValue(at)) &&
               (!LLVMIsDeclaration(LLVMGetCalledValue(at)) || LLVMGetIntrinsicID(LLVMGetCalledValue(at)));
    case LLVMRet:
    case LLVMBr:
    case LLVMSwitch:
    case LLVMUnreachable:
        return true;
    default:
        return !LLVMIsATerminatorInst(at);
    }
}

/* Whether the passes keep the instruction; accesses to variables become registers. */
static bool counts_as_instruction(LLVMValueRef at)
{
    switch (LLVMGetInstructionOpcode(at)) {
    case LLVMAlloca:
        return false;
    case LLVMLoad:
        return !is_variable(LLVMGetOperand(at, 0));
    case LLVMStore:
        return !is_variable(LLVMGetOperand(at, 1));
    default:
        return !facet_is_ignored(at);
    }
}

static LLVMValueRef called_body(LLVMValueRef at)
{
    LLVMValueRef called = LLVMIsACallInst(at) ? LLVMGetCalledValue(at) : NULL;

    return called && LLVMIsAFunction(called) && !LLVMIsDeclaration(called) ? called : NULL;
}

static void inspect_callee(struct sharing *sharing, struct callee *callee)
{
    uint32_t used = 0;

    callee->has_plain_form = has_plain_type(callee->function);
    callee->is_simple_body = true;
    for (int round = 0; round < 2; round++) {
        for (LLVMBasicBlockRef block = LLVMGetFirstBasicBlock(callee->function); block;
             block = LLVMGetNextBasicBlock(block))
            for (LLVMValueRef at = LLVMGetFirstInstruction(block); at; at = LLVMGetNextInstruction(at)) {
                if (round == 0) {
                    callee->is_simple_body = callee->is_simple_body && is_simple(at);
                    callee->own_instructions += counts_as_instruction(at);
                    callee->count += called_body(at) != NULL;
                } else if (called_body(at)) {
                    callee->calls[used++] = at;
                }
            }
        if (round == 0)
            callee->calls = facet_arena_take(sharing->arena, (callee->count + 1) * sizeof(LLVMValueRef));
    }
    callee->called = facet_arena_take(sharing->arena, (callee->count + 1) * sizeof(uint32_t));
}

/* --- who calls whom ------------------------------------------------------------------------------------------------
 */

/* A function whose calls are being followed, and the next of its calls. */
struct step {
    struct callee callee;
    uint32_t next;
};

/* Lists the function behind all functions that it calls. False: there is recursion. */
static bool list_with_callees(struct sharing *sharing, LLVMValueRef function, struct facet_map *open,
                              struct step *stack)
{
    uint32_t depth = 0;
    LLVMValueRef enter = facet_map_get(&sharing->places, function) ? NULL : function;

    while (enter || depth) {
        if (enter) {
            stack[depth] = (struct step){.callee = {.function = enter}};
            inspect_callee(sharing, &stack[depth++].callee);
            facet_map_put(open, enter, enter);
            enter = NULL;
        }
        struct step *top = &stack[depth - 1];
        if (top->next < top->callee.count) {
            LLVMValueRef called = LLVMGetCalledValue(top->callee.calls[top->next]);
            uintptr_t place = (uintptr_t)facet_map_get(&sharing->places, called);

            if (place)
                top->callee.called[top->next++] = (uint32_t)place - 1;
            else if (facet_map_get(open, called))
                return false;
            else
                enter = called;
            continue;
        }
        sharing->callees[sharing->count++] = top->callee;
        facet_map_put(&sharing->places, top->callee.function, (void *)(uintptr_t)sharing->count);
        depth--;
    }
    return true;
}

/* Lists all functions that the items call. False: there is recursion, which is refused later. */
static bool list_functions(struct sharing *sharing, LLVMValueRef *items, uint32_t count)
{
    struct facet_map open = {.arena = sharing->arena};
    struct step *stack;
    uint32_t all = 1;

    for (LLVMValueRef function = LLVMGetFirstFunction(sharing->module); function;
         function = LLVMGetNextFunction(function))
        all++;
    stack = facet_arena_take(sharing->arena, all * sizeof(*stack));
    sharing->callees = facet_arena_take(sharing->arena, all * sizeof(*sharing->callees));
    for (uint32_t i = 0; i < count; i++)
        if (!list_with_callees(sharing, items[i], &open, stack))
            return false;
    for (uint32_t i = 0; i < sharing->count; i++)
        for (uint32_t c = 0; c < sharing->callees[i].count; c++)
            sharing->callees[i].is_simple_body &= sharing->callees[sharing->callees[i].called[c]].is_simple_body;
    for (uint32_t i = 0; i < sharing->count; i++)
        sharing->callees[i].is_simple_body &= sharing->callees[i].has_plain_form;
    return true;
}

/* --- which are shared ----------------------------------------------------------------------------------------------
 */

static void measure_function(struct sharing *sharing, uint32_t item)
{
    for (uint32_t i = 0; i <= item; i++) {
        struct callee *one = &sharing->callees[i];

        one->inlined_instructions = one->own_instructions;
        one->copied_instructions = 0;
        one->uses_per_kernel = i == item;
        for (uint32_t c = 0; c < one->count; c++) {
            const struct callee *called = &sharing->callees[one->called[c]];
            bool shared = called->shared || !one->calls[c]; /* shared for this kernel, or for an earlier kernel */

            one->inlined_instructions += shared ? CALL_INSTRUCTIONS : called->inlined_instructions;
            one->copied_instructions += shared                   ? 0
                                        : called->is_simple_body ? called->inlined_instructions
                                                                 : called->copied_instructions;
        }
    }
    for (uint32_t i = item + 1; i-- > 0;) {
        const struct callee *one = &sharing->callees[i];
        double times = one->shared && one->uses_per_kernel > 0 ? 1 : one->uses_per_kernel;

        for (uint32_t c = 0; c < one->count; c++)
            sharing->callees[one->called[c]].uses_per_kernel += one->calls[c] ? times : 0;
    }
}

static struct callee *find_best(struct sharing *sharing, uint32_t item)
{
    struct callee *best = NULL;
    double max = SAVED_INSTRUCTIONS_MIN;

    for (uint32_t i = 0; i < item; i++) {
        struct callee *one = &sharing->callees[i];
        double saved = (one->uses_per_kernel - 1) * (one->inlined_instructions - CALL_INSTRUCTIONS);

        if (!one->is_simple_body || one->shared || saved < max)
            continue;
        max = saved;
        best = one;
    }
    return best;
}

static bool choose_to_share(struct sharing *sharing, uint32_t item)
{
    struct callee *best;
    bool any = false;

    for (uint32_t i = 0; i <= item; i++)
        sharing->callees[i].shared = false;
    for (uint32_t round = 0; round < ROUNDS_MAX; round++) {
        measure_function(sharing, item);
        if (sharing->callees[item].copied_instructions <= INLINED_INSTRUCTIONS_MAX)
            break;
        best = find_best(sharing, item);
        if (!best)
            break;
        best->shared = any = true;
    }
    if (any)
        measure_function(sharing, item);
    return any;
}

/* --- their form ----------------------------------------------------------------------------------------------------
 */

/* For a pointer argument that is a constant, or the result of a call with one constant argument (a sampler's number):
 * that constant. NULL: the argument is neither. */
static LLVMValueRef constant_of(LLVMValueRef argument)
{
    if (LLVMGetTypeKind(LLVMTypeOf(argument)) != LLVMPointerTypeKind)
        return NULL;
    if (LLVMIsAConstant(argument))
        return argument;
    return called_body(argument) && LLVMGetNumArgOperands(argument) == 1 &&
                   LLVMIsAConstantInt(LLVMGetOperand(argument, 0))
               ? LLVMGetOperand(argument, 0)
               : NULL;
}

static bool is_form_of(const struct form *form, LLVMValueRef call)
{
    for (uint32_t i = 0; i < LLVMGetNumArgOperands(call); i++)
        if (form->constants[i] != constant_of(LLVMGetOperand(call, i)))
            return false;
    return true;
}

static LLVMTypeRef element_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetElementType(type) : type;
}

static uint32_t elements_of(LLVMTypeRef type)
{
    return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
}

/* The type of a shared function's result: a struct in place of a vector. */
static LLVMTypeRef result_type(const struct sharing *sharing, LLVMTypeRef type)
{
    LLVMTypeRef fields[VECTOR_ELEMENTS_MAX];

    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind)
        return type;
    for (uint32_t i = 0; i < elements_of(type); i++)
        fields[i] = element_of(type);
    return LLVMStructTypeInContext(sharing->context, fields, elements_of(type), 0);
}

static LLVMTypeRef form_type(const struct sharing *sharing, LLVMValueRef call)
{
    LLVMTypeRef types[ARGUMENT_NUMBERS_MAX];
    uint32_t used = 0;

    for (uint32_t i = 0; i < LLVMGetNumArgOperands(call); i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(call, i));

        for (uint32_t e = 0; e < elements_of(type) && !constant_of(LLVMGetOperand(call, i)); e++)
            types[used++] = element_of(type);
    }
    return LLVMFunctionType(result_type(sharing, LLVMTypeOf(call)), types, used, 0);
}

static LLVMValueRef index_of(const struct sharing *sharing, uint32_t index)
{
    return LLVMConstInt(sharing->i32, index, 0);
}

static LLVMValueRef vector_to_struct(const struct sharing *sharing, LLVMBuilderRef builder, LLVMValueRef vector)
{
    LLVMTypeRef type = LLVMTypeOf(vector);
    LLVMValueRef made = LLVMGetPoison(result_type(sharing, type));

    if (elements_of(type) == 1 && element_of(type) == type)
        return vector;
    for (uint32_t i = 0; i < elements_of(type); i++)
        made = LLVMBuildInsertValue(builder, made, LLVMBuildExtractElement(builder, vector, index_of(sharing, i), ""),
                                    i, "");
    return made;
}

/* Computes an argument that has a constant_of() once more, inside the shared function. */
static LLVMValueRef repeat_constant(LLVMBuilderRef builder, LLVMValueRef argument)
{
    if (LLVMIsAConstant(argument))
        return argument;
    LLVMValueRef clone = LLVMInstructionClone(argument);

    LLVMInsertIntoBuilder(builder, clone);
    return clone;
}

static LLVMValueRef make_body(const struct sharing *sharing, LLVMValueRef function, LLVMValueRef call)
{
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(sharing->context);
    LLVMValueRef arguments[ARGUMENT_NUMBERS_MAX], called = LLVMGetCalledValue(call), result;
    uint32_t used = 0, count = LLVMGetNumArgOperands(call);

    LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(sharing->context, function, "entry"));
    for (uint32_t i = 0; i < count; i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(call, i));

        if (constant_of(LLVMGetOperand(call, i))) {
            arguments[i] = repeat_constant(builder, LLVMGetOperand(call, i));
            continue;
        }
        if (element_of(type) == type) {
            arguments[i] = LLVMGetParam(function, used++);
            continue;
        }
        arguments[i] = LLVMGetPoison(type);
        for (uint32_t e = 0; e < elements_of(type); e++)
            arguments[i] =
                LLVMBuildInsertElement(builder, arguments[i], LLVMGetParam(function, used++), index_of(sharing, e), "");
    }
    result = LLVMBuildCall2(builder, LLVMGlobalGetValueType(called), called, arguments, count, "");
    if (LLVMGetTypeKind(LLVMTypeOf(result)) == LLVMVoidTypeKind)
        LLVMBuildRetVoid(builder);
    else
        LLVMBuildRet(builder, vector_to_struct(sharing, builder, result));
    LLVMDisposeBuilder(builder);
    return function;
}

static LLVMValueRef form_for(struct sharing *sharing, struct callee *callee, LLVMValueRef call)
{
    static const char noinline[] = "noinline", nounwind[] = "nounwind";
    struct form *form = callee->forms;
    char name[64];

    while (form && !is_form_of(form, call))
        form = form->next;
    if (form)
        return form->function;
    form = facet_arena_take(sharing->arena, sizeof(*form));
    form->constants = facet_arena_take(sharing->arena, (LLVMGetNumArgOperands(call) + 1) * sizeof(LLVMValueRef));
    for (uint32_t i = 0; i < LLVMGetNumArgOperands(call); i++)
        form->constants[i] = constant_of(LLVMGetOperand(call, i));
    snprintf(name, sizeof name, FACET_SHARED "%u", sharing->made);
    form->function = LLVMAddFunction(sharing->module, name, form_type(sharing, call));
    LLVMSetLinkage(form->function, LLVMInternalLinkage);
    facet_function_describe(sharing->arena, callee->function, form->function);
    for (uint32_t i = 0; i < 2; i++) {
        const char *promise = i ? noinline : nounwind;

        LLVMAddAttributeAtIndex(
            form->function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
            LLVMCreateEnumAttribute(sharing->context, LLVMGetEnumAttributeKindForName(promise, strlen(promise)), 0));
    }
    make_body(sharing, form->function, call);
    form->next = callee->forms;
    callee->forms = form;
    sharing->list[sharing->made++] = form->function;
    return form->function;
}

static void call_form(struct sharing *sharing, LLVMBuilderRef builder, struct callee *callee, LLVMValueRef call)
{
    LLVMValueRef form = form_for(sharing, callee, call), arguments[ARGUMENT_NUMBERS_MAX], made, result;
    LLVMTypeRef type = LLVMTypeOf(call);
    uint32_t used = 0;

    LLVMPositionBuilderBefore(builder, call);
    for (uint32_t i = 0; i < LLVMGetNumArgOperands(call); i++) {
        LLVMValueRef argument = LLVMGetOperand(call, i);
        bool whole = element_of(LLVMTypeOf(argument)) == LLVMTypeOf(argument);

        for (uint32_t e = 0; e < elements_of(LLVMTypeOf(argument)) && !constant_of(argument); e++)
            arguments[used++] = whole ? argument : LLVMBuildExtractElement(builder, argument, index_of(sharing, e), "");
    }
    result = made = LLVMBuildCall2(builder, LLVMGlobalGetValueType(form), form, arguments, used, "");
    if (LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
        result = LLVMGetPoison(type);
        for (uint32_t e = 0; e < elements_of(type); e++)
            result = LLVMBuildInsertElement(builder, result, LLVMBuildExtractValue(builder, made, e, ""),
                                            index_of(sharing, e), "");
    }
    if (LLVMGetTypeKind(type) != LLVMVoidTypeKind)
        LLVMReplaceAllUsesWith(call, result);
    LLVMInstructionEraseFromParent(call);
}

/* --- all together --------------------------------------------------------------------------------------------------
 */

/* Replaces all calls of shared functions in the functions of the kernel that was measured last. */
static void call_forms(struct sharing *sharing, LLVMBuilderRef builder, uint32_t item)
{
    for (uint32_t i = 0; i <= item; i++) {
        struct callee *one = &sharing->callees[i];

        for (uint32_t c = 0; one->uses_per_kernel > 0 && c < one->count; c++) {
            struct callee *called = &sharing->callees[one->called[c]];

            if (!called->shared || !one->calls[c])
                continue;
            call_form(sharing, builder, called, one->calls[c]);
            one->calls[c] = NULL;
        }
    }
}

uint32_t facet_shared_make(struct facet_arena *arena, LLVMModuleRef module, LLVMValueRef *items, uint32_t count,
                           LLVMValueRef **ret_functions)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    struct sharing sharing = {.arena = arena,
                              .module = module,
                              .context = context,
                              .i32 = LLVMInt32TypeInContext(context),
                              .places = {.arena = arena}};
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(context);
    uint32_t calls = 1;

    if (list_functions(&sharing, items, count)) {
        for (uint32_t i = 0; i < sharing.count; i++)
            calls += sharing.callees[i].count;
        sharing.list = facet_arena_take(arena, calls * sizeof(LLVMValueRef));
        for (uint32_t i = 0; i < count; i++) {
            uint32_t place = (uint32_t)(uintptr_t)facet_map_get(&sharing.places, items[i]) - 1;

            if (choose_to_share(&sharing, place))
                call_forms(&sharing, builder, place);
        }
    }
    LLVMDisposeBuilder(builder);
    *ret_functions = sharing.list;
    return sharing.made;
}

bool facet_is_shared_call(LLVMValueRef call)
{
    size_t length;

    return LLVMIsACallInst(call) && LLVMIsAFunction(LLVMGetCalledValue(call)) &&
           strncmp(LLVMGetValueName2(LLVMGetCalledValue(call), &length), FACET_SHARED, strlen(FACET_SHARED)) == 0;
}
