/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the vectorizer share: those that turn a function of one item into a function of a chunk.
 *
 * Owns: the state of one function's vectorization. Never: is included outside the vectorizer's files.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_LANES_H
#define FACET_KERNEL_COMPILE_LOWER_LANES_H

#include "lower_inside.h"

#define FACET_LANES_MAX 16u /* most lanes of 32 bits in a register, and most items in a chunk */

struct facet_lanes {
    struct facet_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder;
    LLVMValueRef source, target;
    uint32_t width;
    uint32_t register_lanes; /* lanes of 32 bits in one register */
    struct facet_graph graph;
    struct facet_shapes shapes;
    struct facet_map scalars;         /* value of the source -> its scalar: of a strided value, lane 0's */
    struct facet_map vectors;         /* value of the source -> its vector */
    LLVMBasicBlockRef *starts, *ends; /* of each source block */
    LLVMValueRef *masks;              /* of each source block; NULL: all lanes */
    LLVMValueRef *then_masks;         /* divergent branches: the lanes that take the `then` side, or stay in the loop */
    LLVMValueRef *taken_masks;        /* divergent branches: the active lanes among then_masks */
    uint32_t block;                   /* the source block that is being made */
    uint32_t lane_by_lane;            /* the number of operations that are made one lane after the other */
    bool orders_memory;               /* the kernel orders its accesses to memory */
    const char *refusal;              /* why the function cannot be vectorized; NULL: it can */
};

void facet_lanes_refuse(struct facet_lanes *lanes, const char *why);
LLVMTypeRef facet_lanes_type(struct facet_lanes *lanes, LLVMTypeRef type); /* widened; NULL: refused */
LLVMValueRef facet_lanes_scalar(struct facet_lanes *lanes, LLVMValueRef value);
LLVMValueRef facet_lanes_vector(struct facet_lanes *lanes, LLVMValueRef value);
LLVMValueRef facet_lanes_splat(struct facet_lanes *lanes, LLVMValueRef scalar);
LLVMValueRef facet_lanes_steps(struct facet_lanes *lanes, LLVMTypeRef type, int64_t stride); /* 0, stride ... */
LLVMValueRef facet_lanes_places(struct facet_lanes *lanes, uint32_t first, uint32_t count);  /* first, first + 1 ... */
LLVMValueRef facet_lanes_number(LLVMTypeRef vector, uint64_t number);       /* a vector with `number` in all elements */
LLVMValueRef facet_lanes_mask(struct facet_lanes *lanes);                   /* of the block being made, never NULL */
LLVMValueRef facet_lanes_any(struct facet_lanes *lanes, LLVMValueRef mask); /* the condition: any lane is set */
LLVMValueRef facet_lanes_all(struct facet_lanes *lanes, LLVMValueRef mask); /* the condition: all lanes are set */
LLVMValueRef facet_lanes_call(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types, uint32_t type_count,
                              LLVMValueRef *arguments, uint32_t count);
/*
 * Emits a masked load, gather, store or scatter; `types` are those of the value and the pointer. `pointer` is the
 * index of the pointer among the arguments.
 */
LLVMValueRef facet_lanes_masked(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types,
                                LLVMValueRef *arguments, uint32_t pointer, uint32_t alignment);
bool facet_lanes_uniform(const struct facet_lanes *lanes, LLVMValueRef value);

LLVMValueRef facet_lanes_compute(struct facet_lanes *lanes, LLVMValueRef from); /* the instruction's vector form */
void facet_lanes_instruction(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_fill(struct facet_lanes *lanes); /* the block being made, except its phis and its end */
void facet_lanes_alloca(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_load(struct facet_lanes *lanes, LLVMValueRef load);
void facet_lanes_store(struct facet_lanes *lanes, LLVMValueRef store);
/* Loads every `step`th element from the first one on; all lanes are active. */
LLVMValueRef facet_lanes_load_gaps(struct facet_lanes *lanes, LLVMTypeRef type, LLVMValueRef first, uint32_t step,
                                   uint32_t alignment);
void facet_lanes_store_gaps(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef first, uint32_t step,
                            uint32_t alignment);
bool facet_lanes_load_fields(struct facet_lanes *lanes, LLVMValueRef load); /* true: loaded, with its neighbours */
bool facet_lanes_store_fields(struct facet_lanes *lanes, LLVMValueRef store);
/* The condition, computed at run time, that the lanes' addresses follow each other; *ret_first is the first address.
 * NULL: the addresses hardly ever follow each other, so that the test does not pay. */
LLVMValueRef facet_lanes_near(struct facet_lanes *lanes, LLVMValueRef pointer, uint64_t size, LLVMValueRef *ret_first);
/*
 * For loads of 32 bits: the condition, computed at run time, that one vector at `first` holds the words of all lanes,
 * at an offset of `steps` for each lane.
 */
struct facet_window {
    LLVMValueRef condition, first, steps;
};
bool facet_lanes_window(struct facet_lanes *lanes, LLVMValueRef pointer, struct facet_window *ret_window);
/* Distributes the words of the vector that was loaded at a window's `first`: each lane gets its own word. */
LLVMValueRef facet_lanes_spread(struct facet_lanes *lanes, LLVMValueRef loaded, LLVMValueRef steps);
/* Branches to blocks[0] if the condition holds, else to blocks[1]; both are to end with a branch to blocks[2]. */
void facet_lanes_fork(struct facet_lanes *lanes, LLVMValueRef condition, LLVMBasicBlockRef blocks[3]);
/* The condition, computed at run time, that this store should bypass the caches; NULL: it never should. */
LLVMValueRef facet_lanes_stream(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                LLVMValueRef original);
void facet_lanes_store_bypassing(struct facet_lanes *lanes, LLVMValueRef value,
                                 LLVMValueRef address);          /* past the caches */
bool facet_lanes_orders_memory(const struct facet_graph *graph); /* has fences, barriers, atomics, volatile accesses */
/* Stores all lanes to neighbouring addresses, bypassing the caches where that pays. */
void facet_lanes_store_neighbours(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                  LLVMValueRef original);
void facet_lanes_atomic(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_call_shared(struct facet_lanes *lanes,
                             LLVMValueRef call); /* calls the shared function's form for lanes */
void facet_lanes_lane_by_lane(struct facet_lanes *lanes, LLVMValueRef instruction); /* one lane after the other */

#endif
