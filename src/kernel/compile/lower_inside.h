/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data structures that the files of the lowering for the host share.
 *
 * Owns: the arena that all of one lowering's memory comes from, the map from LLVM's objects to ours, the control flow
 *       graph, the shapes of values, and the two transformations: lanes (many items in a vector), group (all of them).
 * Never: is included outside lower*.c.
 *
 * The steps of a kernel:
 * prepare makes an *item function* `void (ptr arguments, ptr group)`, which does the work of one work-item. All calls
 * are inlined, except calls of functions that the item would have too many copies of (lower_shared.c).
 * lanes makes another item function of it, in which one "item" is a chunk of `width` neighbours in x.
 * group makes, of either, a function that runs a whole work-group.
 * Between the steps, calls of __facet_local_id(0 to 2) and __facet_global_id(0 to 2) give the place of an item (of a
 * chunk, that of its first item). All other calls about the launch give the same result for all items.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_INSIDE_H
#define FACET_KERNEL_COMPILE_LOWER_INSIDE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/compile/llvm.h"
#include "lower.h"

#define FACET_NO_BLOCK UINT32_MAX

/* Memory of one lowering. Out of memory jumps to `exhausted`, as LLVM itself has no other way than to end. */
struct facet_arena {
    struct facet_arena_piece *pieces;
    jmp_buf exhausted;
};
void *facet_arena_take(struct facet_arena *arena, size_t bytes); /* zeroed */
void facet_arena_release(struct facet_arena *arena);

struct facet_map {
    struct facet_arena *arena;
    struct facet_map_entry *entries;
    uint32_t capacity, count;
};
void facet_map_put(struct facet_map *map, const void *key, void *value);
void *facet_map_get(const struct facet_map *map, const void *key); /* NULL: not there */

/* Blocks that can be reached from the entry, in reverse post-order. */
struct facet_block {
    LLVMBasicBlockRef block;
    uint32_t *successors, *predecessors;
    uint32_t successor_count, predecessor_count;
    uint32_t dominator;      /* immediate; the entry's is the entry itself */
    uint32_t post_dominator; /* immediate; FACET_NO_BLOCK: the end of the function, or none */
};
struct facet_graph {
    struct facet_block *blocks;
    uint32_t count;
    struct facet_map indices; /* block -> index + 1 */
};
void facet_graph_make(struct facet_graph *graph, struct facet_arena *arena, LLVMValueRef function);
uint32_t facet_graph_find(const struct facet_graph *graph, LLVMBasicBlockRef block);
bool facet_graph_dominates(const struct facet_graph *graph, uint32_t above, uint32_t below);
/*
 * The limit for cases of large switches and for additional entries of loops. Turned into ifs without else, more of them
 * are so much code that LLVM's passes and its register allocation take minutes.
 */
enum { FACET_CASES_MAX = 128 };
uint32_t facet_graph_cases(const struct facet_graph *graph); /* the cases of all large switches */
bool facet_graph_is_tangled(const struct facet_graph *graph);

/* How a value differs between items that are neighbours in x. */
enum facet_shape_kind {
    FACET_SHAPE_UNKNOWN, /* not looked at yet */
    FACET_SHAPE_UNIFORM, /* the same */
    FACET_SHAPE_STRIDED, /* by `stride` (bytes, of pointers) from lane to lane, with wrapping arithmetic */
    FACET_SHAPE_VARYING,
};
struct facet_shape {
    enum facet_shape_kind kind;
    bool no_unsigned_wrap, no_signed_wrap; /* the lanes follow the stride also when extended */
    bool rough;                            /* good for addresses only: see lower_shape.c */
    int64_t stride;
};
struct facet_shapes {
    struct facet_arena *arena;
    const struct facet_graph *graph;
    LLVMTargetDataRef layout;
    struct facet_map values;
    bool lanes;      /* false: for any two items of the group, arbitrary control flow, no strides */
    bool *divergent; /* for each block: items may leave it to different successors */
    bool changed;
};
/* `varying`: arguments of the function, as bits; the others are uniform. */
void facet_shapes_make(struct facet_shapes *shapes, struct facet_arena *arena, const struct facet_graph *graph,
                       LLVMTargetDataRef layout, bool lanes, uint64_t varying);
struct facet_shape facet_shapes_get(const struct facet_shapes *shapes, LLVMValueRef value);

/* For an if without else: the block where its sides join, and the block of its `then` side. Else FACET_NO_BLOCK. */
uint32_t facet_graph_join(const struct facet_graph *graph, uint32_t branch);
uint32_t facet_graph_then(const struct facet_graph *graph, uint32_t branch);
/* The header of the loop that `latch` may go back to; FACET_NO_BLOCK: none. */
uint32_t facet_graph_header(const struct facet_graph *graph, uint32_t latch);

/* Properties of instructions. */
enum facet_call {
    FACET_CALL_OTHER,
    FACET_CALL_LOCAL_ID,
    FACET_CALL_GLOBAL_ID,
    FACET_CALL_GROUP_ID,
    FACET_CALL_GROUP_SIZE,
    FACET_CALL_GRID,
    FACET_CALL_GLOBAL_SIZE,
    FACET_CALL_OFFSET,
    FACET_CALL_DIMENSIONS,
    FACET_CALL_BARRIER,
    FACET_CALL_LOCAL_MEMORY, /* `ptr __facet_local_memory()`: the group's, between prepare and group */
    FACET_CALL_WITHIN,       /* `ptr __facet_within(ptr, i64)`: the pointer, which leads to so many bytes; checked */
};
enum facet_call facet_call_of(LLVMValueRef instruction);
bool facet_is_item_id(LLVMValueRef instruction); /* asks for the item's place, in its group or in the launch */
bool facet_is_local_memory(LLVMValueRef pointer);
LLVMValueRef facet_private_of(LLVMValueRef pointer); /* the alloca that it is an address in, when that is plain */
/* The size of every access to this alloca, if its lanes can be interleaved in elements of this size; else 0. */
uint32_t facet_private_element(LLVMValueRef alloca, LLVMTargetDataRef layout);
/* Bytes from one lane's copy to the next lane's, each of which is aligned. */
uint64_t facet_private_stride(LLVMValueRef alloca, LLVMTargetDataRef layout);
bool facet_is_ignored(LLVMValueRef instruction); /* a note about the program, without effect */
LLVMTypeRef facet_accessed_type(LLVMValueRef access);
LLVMValueRef facet_emit_atomic(LLVMBuilderRef builder, LLVMValueRef original, LLVMValueRef *operands);
LLVMValueRef facet_function_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type);
/* Copies the attributes that say how code is made, such as for which processor. */
void facet_function_describe(struct facet_arena *arena, LLVMValueRef from, LLVMValueRef to);

/*
 * To be called before inlining: functions that items would have too many copies of become functions with this prefix,
 * which are called. Returns how many were made.
 */
#define FACET_SHARED "facet_shared."
uint32_t facet_shared_make(struct facet_arena *arena, LLVMModuleRef module, LLVMValueRef *items, uint32_t count,
                           LLVMValueRef **ret_functions);
bool facet_shared_is(LLVMValueRef call);    /* whether it calls a shared function */
bool facet_shared_reads(LLVMValueRef call); /* whether it calls a shared function that writes nothing */

/* Makes the item function `facet_item.NAME`: it calls the kernel with arguments out of the argument block. */
LLVMValueRef facet_item_make(struct facet_arena *arena, LLVMModuleRef module, const struct facet_lower_kernel *kernel);
/* To be called after inlining: `__local` variables get their places, and calls whose dimension is not constant become
 * selects. With `check`, FACET_CALL_WITHIN gives the number of bytes of each place. */
void facet_item_settle(struct facet_arena *arena, LLVMValueRef item, struct facet_lower_kernel *kernel, bool check);
/* Keeps divisions of integers from trapping. To be called before all passes, since LLVM takes a division by 0 for
 * unreachable code. */
void facet_item_divide(struct facet_arena *arena, LLVMValueRef function);
/* Keeps LLVM from unrolling loops with atomics: these are made lane by lane, so copies would be much code. */
void facet_loops_keep(struct facet_arena *arena, LLVMValueRef item);
void facet_loops_leave(LLVMValueRef end); /* one loop, by its last branch */
/* Puts empty blocks before phis to which StructurizeCFG of LLVM 22 would give wrong values. To be called just before
 * it. */
void facet_edges_part(struct facet_arena *arena, LLVMValueRef item);
/* In a function with more than FACET_CASES_MAX cases, puts a tree of blocks before each block with many predecessors,
 * as LLVM is quadratic in their number. */
void facet_joins_part(struct facet_arena *arena, LLVMValueRef function);
/* In a finished function, keeps the values of large trees of such blocks in memory. */
void facet_joins_store(LLVMValueRef run);
bool facet_joins_dense(LLVMValueRef function); /* whether it has a large switch that may become a table */
bool facet_is_mark(LLVMValueRef instruction);  /* whether it marks a block of such a tree */
bool facet_loops_any(struct facet_arena *arena, LLVMValueRef item);
/* Makes short loops of a finished function run several steps per round. Behind a loop, only phis may use its values. */
void facet_loops_step(struct facet_arena *arena, LLVMValueRef run);
/* The name of a called function that cannot be lowered, or NULL. */
const char *facet_item_stranger(LLVMValueRef item);
/* Another reason why an item cannot be lowered, as the end of a sentence that begins with the kernel's name, or
 * NULL. */
const char *facet_item_obstacle(LLVMValueRef item);

struct facet_lanes_form {
    uint32_t width;     /* items of a chunk */
    uint32_t registers; /* lanes of 32 bits in one register */
    bool masked;        /* items beyond the group's size in x are switched off */
    bool shared;      /* this is a shared function, which items call; the mask, if there is one, is its last argument */
    uint64_t varying; /* the arguments that differ between items, as bits */
};

/* Makes a function that does the work of `function` for a chunk. False: it cannot; *ret_why says why. */
bool facet_lanes_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                      const struct facet_lanes_form *form, const char *name, LLVMValueRef *ret_function,
                      const char **ret_why);

struct facet_group_layout {
    uint32_t width;
    uint32_t required_group_size[3];
    bool frames;          /* private memory lies in frames, never on the stack */
    LLVMValueRef passed;  /* a function to call with the group after each barrier; NULL: none */
    uint32_t frame_bytes; /* filled in: scratch memory of each chunk */
    uint32_t fixed_bytes; /* filled in: scratch memory that chunks use one after the other */
};
/* Follows the run function's name in the names of regions that are functions of their own. */
#define FACET_REGION_SUFFIX ".region"
/* Makes `name` from the item function `function`, which it deletes. */
LLVMValueRef facet_group_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                              struct facet_group_layout *group, const char *name);

/* Splits large blocks, as the code generator is quadratic in a block's size. To be called last. */
void facet_group_split(LLVMValueRef run);

/* Checked images (lower_check.c). A checker of a module; `ret_passed` is for struct facet_group_layout. */
struct facet_checker *facet_checker_make(struct facet_arena *arena, LLVMModuleRef module, LLVMValueRef *ret_passed);
/*
 * Hides the values of constants from LLVM, which could otherwise replace a load beyond a constant by any value before
 * the load is checked.
 */
void facet_checker_hide(LLVMModuleRef module, bool hide);
/*
 * Puts a check before each access of an item function. Returns a placeholder for the size of a frame, which
 * facet_checker_settle() replaces.
 */
LLVMValueRef facet_checker_guard(struct facet_checker *checker, LLVMValueRef item);
void facet_checker_settle(struct facet_checker *checker, LLVMValueRef frame_bytes, uint32_t bytes);
void facet_checker_finish(struct facet_checker *checker); /* the table of sites; ends the checker */

#endif
