/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state that the files of the vectorizer share.
 *
 * Owns: the state of one function's vectorization. Never: seen outside of the vectorizer's files.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_LANES_H
#define FACET_KERNEL_COMPILE_LOWER_LANES_H

#include "lower_inside.h"

#define FACET_LANES_MAX 16u /* of 32 bits in a register, and in a chunk */

struct facet_lanes {
    struct facet_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder;
    LLVMValueRef source, target;
    uint32_t width;
    uint32_t registers; /* lanes of 32 bits in one */
    struct facet_graph graph;
    struct facet_shapes shapes;
    struct facet_map scalars; /* uniform and strided: lane 0's */
    struct facet_map vectors;
    LLVMBasicBlockRef *starts, *ends; /* of each source block */
    LLVMValueRef *masks;              /* of each source block; NULL: all lanes */
    LLVMValueRef *then_masks;         /* divergent branches: the lanes that take the `then` side, or stay in the loop */
    LLVMValueRef *leaving_masks;      /* divergent latches: those lanes of the mask */
    uint32_t block;                   /* being made */
    uint32_t lane_by_lane;            /* operations that are made one lane after the other */
    bool orders_memory;               /* the kernel orders its accesses to memory */
    const char *refusal;              /* set: it cannot be done */
};

void facet_lanes_refuse(struct facet_lanes *lanes, const char *why);
LLVMTypeRef facet_lanes_type(struct facet_lanes *lanes, LLVMTypeRef type); /* widened; NULL: refused */
LLVMValueRef facet_lanes_scalar(struct facet_lanes *lanes, LLVMValueRef value);
LLVMValueRef facet_lanes_vector(struct facet_lanes *lanes, LLVMValueRef value);
LLVMValueRef facet_lanes_splat(struct facet_lanes *lanes, LLVMValueRef scalar);
LLVMValueRef facet_lanes_steps(struct facet_lanes *lanes, LLVMTypeRef type, int64_t stride); /* 0, 1, 2 ... times */
LLVMValueRef facet_lanes_places(struct facet_lanes *lanes, uint32_t first, uint32_t count);  /* first, first + 1 ... */
LLVMValueRef facet_lanes_number(LLVMTypeRef vector, uint64_t number);                        /* in all its elements */
LLVMValueRef facet_lanes_mask(struct facet_lanes *lanes); /* of the block being made, never NULL */
LLVMValueRef facet_lanes_any(struct facet_lanes *lanes, LLVMValueRef mask);
LLVMValueRef facet_lanes_all(struct facet_lanes *lanes, LLVMValueRef mask);
LLVMValueRef facet_lanes_call(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types, uint32_t type_count,
                              LLVMValueRef *arguments, uint32_t count);
/*
 * A masked load, gather, store or scatter of (type of the value, of the pointer); `pointer`: the index of that
 * argument.
 */
LLVMValueRef facet_lanes_masked(struct facet_lanes *lanes, const char *name, LLVMTypeRef *types,
                                LLVMValueRef *arguments, uint32_t pointer, uint32_t alignment);
bool facet_lanes_uniform(const struct facet_lanes *lanes, LLVMValueRef value);

LLVMValueRef facet_lanes_compute(struct facet_lanes *lanes, LLVMValueRef from); /* its vector form, lane by lane */
void facet_lanes_instruction(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_fill(struct facet_lanes *lanes); /* the block being made, except its phis and its end */
void facet_lanes_alloca(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_load(struct facet_lanes *lanes, LLVMValueRef load);
void facet_lanes_store(struct facet_lanes *lanes, LLVMValueRef store);
/* Every `step`th element from the first one; all lanes. */
LLVMValueRef facet_lanes_load_gaps(struct facet_lanes *lanes, LLVMTypeRef type, LLVMValueRef first, uint32_t step,
                                   uint32_t alignment);
void facet_lanes_store_gaps(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef first, uint32_t step,
                            uint32_t alignment);
bool facet_lanes_load_fields(struct facet_lanes *lanes, LLVMValueRef load); /* true: done, with its neighbours */
bool facet_lanes_store_fields(struct facet_lanes *lanes, LLVMValueRef store);
/* Whether, when it runs, the lanes' addresses follow each other, and the first; NULL: hardly ever, so do not ask. */
LLVMValueRef facet_lanes_near(struct facet_lanes *lanes, LLVMValueRef pointer, uint64_t size, LLVMValueRef *ret_first);
/*
 * Loads of 32 bits: whether, when it runs, one vector at `first` holds the words that all lanes load, each `steps`
 * behind.
 */
struct facet_window {
    LLVMValueRef condition, first, steps;
};
bool facet_lanes_window(struct facet_lanes *lanes, LLVMValueRef pointer, struct facet_window *ret_window);
/* Distributes a vector that holds the words of all lanes, to each lane its own. */
LLVMValueRef facet_lanes_spread(struct facet_lanes *lanes, LLVMValueRef loaded, LLVMValueRef steps);
/* Goes on in blocks[0] if so, else in blocks[1]; blocks[2] is for behind both. */
void facet_lanes_fork(struct facet_lanes *lanes, LLVMValueRef condition, LLVMBasicBlockRef blocks[3]);
/* Whether, when it runs, this store should go past the caches; NULL: never, so do not ask. */
LLVMValueRef facet_lanes_stream(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                LLVMValueRef original);
void facet_lanes_store_past(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address);
bool facet_lanes_orders_memory(const struct facet_graph *graph); /* has fences, barriers, atomics, volatile accesses */
/* Stores to neighbours, all lanes, past the caches where that pays. */
void facet_lanes_store_neighbours(struct facet_lanes *lanes, LLVMValueRef value, LLVMValueRef address,
                                  LLVMValueRef original);
void facet_lanes_atomic(struct facet_lanes *lanes, LLVMValueRef instruction);
void facet_lanes_call_shared(struct facet_lanes *lanes, LLVMValueRef call); /* calls the function's form of lanes */
void facet_lanes_lane_by_lane(struct facet_lanes *lanes, LLVMValueRef instruction); /* one lane after the other */

#endif
