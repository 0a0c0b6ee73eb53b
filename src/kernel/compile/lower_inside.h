/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data structures that the files of the lowering for the host share.
 *
 * Owns: the arena that all of one lowering's memory comes from, the map from LLVM's objects to ours, the control flow
 *       graph, the shapes of values, and the two transformations: lanes (several items in a vector) and group (all
 *       items of a work-group in loops).
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

/*
 * Memory of one lowering. When memory runs out, facet_arena_take() jumps to `exhausted`, so that its callers need not
 * check its result.
 */
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
 * The limit for the cases of all large switches of a function. More cases, turned into ifs without else, are so much
 * code that LLVM's passes and its register allocation take minutes.
 */
enum { FACET_CASES_MAX = 128 };
uint32_t facet_graph_cases(const struct facet_graph *graph); /* the cases of all large switches */
/* Whether the function has more than FACET_CASES_MAX cases, or too many jumps into the middle of loops, so that it
 * keeps its control flow and is not vectorized. */
bool facet_graph_is_too_complex(const struct facet_graph *graph);

/* How a value differs between items that are neighbours in x. */
enum facet_shape_kind {
    FACET_SHAPE_UNKNOWN, /* not looked at yet */
    FACET_SHAPE_UNIFORM, /* it does not differ */
    FACET_SHAPE_STRIDED, /* it grows by `stride` (for a pointer, in bytes) from lane to lane, and may wrap */
    FACET_SHAPE_VARYING,
};
struct facet_shape {
    enum facet_shape_kind kind;
    bool no_unsigned_wrap, no_signed_wrap; /* the stride stays the same when the value is extended to more bits */
    bool address_only;                     /* the stride may be used for addresses only: see lower_shape.c */
    int64_t stride;
};
struct facet_shapes {
    struct facet_arena *arena;
    const struct facet_graph *graph;
    LLVMTargetDataRef layout;
    struct facet_map values;
    bool lanes;      /* true: neighbours in x, structured control flow; false: any two items of the group, any control
                        flow, no strides */
    bool *divergent; /* for each block: items may leave it to different successors */
    bool changed;
};
/* `varying`: the arguments of the function that differ between items, as bits; all other arguments are uniform. */
void facet_shapes_make(struct facet_shapes *shapes, struct facet_arena *arena, const struct facet_graph *graph,
                       LLVMTargetDataRef layout, bool lanes, uint64_t varying);
struct facet_shape facet_shapes_get(const struct facet_shapes *shapes, LLVMValueRef value);

/* For a block that ends with an if without else: the block where the two paths join, and the first block of the `then`
 * side. FACET_NO_BLOCK: the block `branch` ends otherwise. */
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
    FACET_CALL_LOCAL_MEMORY, /* `ptr __facet_local_memory()`: the group's local memory; exists between the steps
                                prepare and group */
    FACET_CALL_WITHIN,       /* `ptr __facet_within(ptr, i64)`: in checked images, returns the pointer and notes how
                                many bytes it leads to */
};
enum facet_call facet_call_of(LLVMValueRef instruction);
bool facet_is_item_id(LLVMValueRef instruction); /* asks for the item's place, in its group or in the launch */
bool facet_is_local_memory(LLVMValueRef pointer);
LLVMValueRef facet_private_of(LLVMValueRef pointer); /* the alloca whose address `pointer` offsets; NULL: none */
/* The size in bytes of every access to this alloca, if its lanes can be interleaved in elements of that size; or 0. */
uint32_t facet_private_element(LLVMValueRef alloca, LLVMTargetDataRef layout);
/* Bytes from one lane's copy to the next lane's, each of which is aligned. */
uint64_t facet_private_stride(LLVMValueRef alloca, LLVMTargetDataRef layout);
bool facet_is_ignored(LLVMValueRef instruction); /* an intrinsic that makes no code, such as a debug note */
LLVMTypeRef facet_accessed_type(LLVMValueRef access);
LLVMValueRef facet_emit_atomic(LLVMBuilderRef builder, LLVMValueRef original, LLVMValueRef *operands);
LLVMValueRef facet_function_declare(LLVMModuleRef module, const char *name, LLVMTypeRef type);
/* Copies the string attributes, which say how code is made: for which processor, with which features. */
void facet_function_describe(struct facet_arena *arena, LLVMValueRef from, LLVMValueRef to);

/*
 * To be called before inlining: functions that items would have too many copies of become functions with this prefix,
 * which are called. Returns how many were made.
 */
#define FACET_SHARED "facet_shared."
uint32_t facet_shared_make(struct facet_arena *arena, LLVMModuleRef module, LLVMValueRef *items, uint32_t count,
                           LLVMValueRef **ret_functions);
bool facet_is_shared_call(LLVMValueRef call); /* whether it calls a shared function */
bool facet_is_shared_read(LLVMValueRef call); /* whether it calls a shared function that writes nothing */

/* Makes the item function `facet_item.NAME`: it calls the kernel with arguments out of the argument block. */
LLVMValueRef facet_item_make(struct facet_arena *arena, LLVMModuleRef module, const struct facet_lower_kernel *kernel);
/* To be called after inlining: `__local` variables get their places, and calls whose dimension is not constant become
 * selects. With `check`, a FACET_CALL_WITHIN around each place gives its number of bytes. */
void facet_item_resolve(struct facet_arena *arena, LLVMValueRef item, struct facet_lower_kernel *kernel, bool check);
/* Keeps divisions of integers from trapping. To be called before all passes, since LLVM takes a division by 0 for
 * unreachable code. */
void facet_item_divide(struct facet_arena *arena, LLVMValueRef function);
/* Keeps LLVM from unrolling loops with atomics: these are made lane by lane, so copies would be much code. */
void facet_atomic_loops_forbid_unrolling(struct facet_arena *arena, LLVMValueRef item);
void facet_loop_forbid_unrolling(LLVMValueRef end); /* the loop whose back edge is the branch `end` */
/* Puts empty blocks before phis to which StructurizeCFG of LLVM 22 would give wrong values. To be called just before
 * it. */
void facet_edges_split(struct facet_arena *arena, LLVMValueRef item);
/* In a function with more than FACET_CASES_MAX cases, puts a tree of blocks before each block with many predecessors,
 * as the time of LLVM's passes is quadratic in the number of predecessors. */
void facet_joins_split(struct facet_arena *arena, LLVMValueRef function);
/* In a finished function, keeps the phis of blocks with a large tree of facet_joins_split() in memory. */
void facet_joins_store(LLVMValueRef run);
bool facet_joins_dense(LLVMValueRef function);      /* whether it has a large switch that may become a table */
bool facet_joins_is_mark(LLVMValueRef instruction); /* the call that marks a block of such a tree */
bool facet_item_has_loop(struct facet_arena *arena, LLVMValueRef item);
/* Unrolls short loops of a finished function, with an exit after each step. The function is in LCSSA form: behind a
 * loop, only phis use the loop's values. */
void facet_loops_unroll(struct facet_arena *arena, LLVMValueRef run);
/* The name of a function that the item still calls and that cannot be lowered, or NULL. */
const char *facet_item_unsupported_call(LLVMValueRef item);
/* Another reason why an item cannot be lowered, as the end of a sentence that begins with the kernel's name, or
 * NULL. */
const char *facet_item_obstacle(LLVMValueRef item);

struct facet_lanes_form {
    uint32_t width;          /* items of a chunk */
    uint32_t register_lanes; /* lanes of 32 bits in one register */
    bool masked;             /* items beyond the group's size in x are switched off */
    bool shared;      /* `function` is a shared function, which items call; the mask, if any, is its last argument */
    uint64_t varying; /* the arguments that differ between items, as bits */
};

/* Makes a function that does the work of `function` for a chunk. False: `function` cannot be vectorized, and *ret_why
 * says why. */
bool facet_lanes_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                      const struct facet_lanes_form *form, const char *name, LLVMValueRef *ret_function,
                      const char **ret_why);

struct facet_group_layout {
    uint32_t width;
    uint32_t required_group_size[3];
    bool frames;                /* private memory lies in frames, never on the stack */
    LLVMValueRef after_barrier; /* a function to call with the group after each barrier; NULL: none */
    uint32_t frame_bytes;       /* filled in: scratch memory of each chunk */
    uint32_t fixed_bytes;       /* filled in: scratch memory that chunks use one after the other */
};
/* A region that is a function of its own has the run function's name with this suffix. */
#define FACET_REGION_SUFFIX ".region"
/* Makes `name` from the item function `function`, which it deletes. */
LLVMValueRef facet_group_make(struct facet_arena *arena, LLVMValueRef function, LLVMTargetDataRef layout,
                              struct facet_group_layout *group, const char *name);

/* Splits large blocks, since the code generator's time is quadratic in a block's size. To be called last. */
void facet_group_split(LLVMValueRef run);

/* Makes the checker of a module, for checked images (lower_check.c). *ret_after_barrier is the function for struct
 * facet_group_layout. */
struct facet_checker *facet_checker_make(struct facet_arena *arena, LLVMModuleRef module,
                                         LLVMValueRef *ret_after_barrier);
/*
 * Hides the values of constants from LLVM, which could otherwise replace a load beyond a constant by any value before
 * the load is checked.
 */
void facet_checker_hide(LLVMModuleRef module, bool hide);
/*
 * Puts a check before each access of an item function. Returns a global variable for the size of a frame, which
 * facet_checker_set_frame_bytes() sets once the size is known.
 */
LLVMValueRef facet_checker_guard(struct facet_checker *checker, LLVMValueRef item);
void facet_checker_set_frame_bytes(struct facet_checker *checker, LLVMValueRef frame_bytes, uint32_t bytes);
void facet_checker_finish(struct facet_checker *checker); /* writes FACET_LOWER_SITES; the checker's last call */

#endif
