/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the making of a work-group share.
 *
 * Owns: the state of one function's making. Never: seen outside of lower_group.c and lower_region.c.
 */
#ifndef FACET_KERNEL_COMPILE_LOWER_GROUP_H
#define FACET_KERNEL_COMPILE_LOWER_GROUP_H

#include "lower_inside.h"

struct facet_kept {
    LLVMValueRef value, slot;
    LLVMValueRef current, next; /* uniform: now, and after the loop; else NULL */
    uint32_t frame;             /* else: its place in the frame */
    uint32_t defined;           /* in which block */
};

struct facet_region {
    LLVMBasicBlockRef start, after; /* in the run function */
    uint32_t block;                 /* in the source */
    bool *live;                     /* for each kept value: at its beginning */
    bool *in;                       /* for each block: part of it */
};

struct facet_former {
    struct facet_arena *arena;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetDataRef layout;
    LLVMBuilderRef builder, entry; /* where code is made, and that which runs once */
    LLVMValueRef source, run;
    struct facet_group_layout *group;
    struct facet_graph graph;
    struct facet_shapes shapes;
    struct facet_map once;    /* values and calls that are the same everywhere in the group */
    struct facet_map kept;    /* value -> struct facet_kept */
    struct facet_map private; /* alloca -> place in the frame + 1 */
    struct facet_kept **list;
    uint32_t kept_count, region_count;
    struct facet_region *regions;
    uint32_t *region_of;      /* block -> region + 1 */
    LLVMValueRef counters[4]; /* x, y, z of the chunk, and its number */
    LLVMValueRef reached;
    bool guarded;   /* items may reach different barriers (undefined, but nothing else may suffer) */
    uint32_t waits; /* guarded: where an item's frame says which region it waits for */
    uint32_t align; /* of a frame */
    LLVMTypeRef i32, i64;
};

LLVMValueRef facet_group_number(const struct facet_former *former, uint32_t value);
LLVMValueRef facet_group_field(struct facet_former *former, LLVMTypeRef type, uint32_t offset); /* of the launch */
LLVMValueRef facet_group_size(struct facet_former *former, uint32_t dimension);
LLVMValueRef facet_group_first(struct facet_former *former, uint32_t dimension); /* global id of the first item */
LLVMValueRef facet_group_slot(struct facet_former *former, LLVMTypeRef type);
/* The loops over all items, what they do, and where it goes on behind them. */
void facet_group_region(struct facet_former *former, struct facet_region *region, LLVMBasicBlockRef end);

#endif
